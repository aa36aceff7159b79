// Stand-ins for what the CUDA backend calls of cuDNN: convolutions in plain loops, on the simulated stream. They check
// their arguments, and offer ways that the backend must not take before the one that it should.
#include <cudnn.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <capstan/half.hpp>

#include "tests/simulator/runtime.hpp"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};
struct cudnnTensorStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int rank = 0, sizes[5] = {};
};
struct cudnnFilterStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int rank = 0, sizes[5] = {};
};
struct cudnnConvolutionStruct {
  int axes = 0, padding[3] = {}, strides[3] = {}, dilations[3] = {}, groups = 1;
  cudnnDataType_t sums = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

namespace {

constexpr std::size_t kMemory = 192;  // bytes that the one good way needs

bool known(cudnnDataType_t type) {
  return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_DOUBLE || type == CUDNN_DATA_HALF ||
         type == CUDNN_DATA_BFLOAT16;
}

double load(cudnnDataType_t type, const void* from, std::size_t i) {
  switch (type) {
    case CUDNN_DATA_DOUBLE: return static_cast<const double*>(from)[i];
    case CUDNN_DATA_HALF: return static_cast<double>(static_cast<float>(static_cast<const capstan::float16*>(from)[i]));
    case CUDNN_DATA_BFLOAT16:
      return static_cast<double>(static_cast<float>(static_cast<const capstan::bfloat16*>(from)[i]));
    default: return static_cast<double>(static_cast<const float*>(from)[i]);
  }
}
void store(cudnnDataType_t type, double value, void* to, std::size_t i) {
  switch (type) {
    case CUDNN_DATA_DOUBLE: static_cast<double*>(to)[i] = value; break;
    case CUDNN_DATA_HALF: static_cast<capstan::float16*>(to)[i] = capstan::float16(value); break;
    case CUDNN_DATA_BFLOAT16: static_cast<capstan::bfloat16*>(to)[i] = capstan::bfloat16(value); break;
    default: static_cast<float*>(to)[i] = static_cast<float>(value);
  }
}

/// A convolution over three axes, the first ones of one place where there are fewer.
struct Problem {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int batch = 0, groups = 1, from = 0, to = 0;  // channels of a group
  int in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1};
  int stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, padding[3] = {};

  static std::size_t product(const int (&sizes)[3]) {
    return static_cast<std::size_t>(sizes[0]) * static_cast<std::size_t>(sizes[1]) * static_cast<std::size_t>(sizes[2]);
  }
  std::size_t images() const { return static_cast<std::size_t>(batch * groups * from) * product(in); }
  std::size_t results() const { return static_cast<std::size_t>(batch * groups * to) * product(out); }
  std::size_t weights() const { return static_cast<std::size_t>(groups * to * from) * product(kernel); }

  /// Calls visit(image's element, weight's, result's) for every product.
  template <class Visit>
  void each(Visit visit) const {
    const std::size_t in_plane = product(in), out_plane = product(out), taps = product(kernel);
    for (int n = 0; n < batch; ++n)
      for (int o = 0; o < groups * to; ++o)
        for (int i = 0; i < from; ++i) {
          const std::size_t image = static_cast<std::size_t>((n * groups + o / to) * from + i) * in_plane;
          const std::size_t result = static_cast<std::size_t>(n * groups * to + o) * out_plane;
          each_of_planes(image, static_cast<std::size_t>(o * from + i) * taps, result, visit);
        }
  }

 private:
  template <class Visit>
  void each_of_planes(std::size_t image, std::size_t weight, std::size_t result, Visit& visit) const {
    for (int d = 0; d < out[0]; ++d)
      for (int h = 0; h < out[1]; ++h)
        for (int w = 0; w < out[2]; ++w, ++result)
          for (int tap = 0; tap < kernel[0] * kernel[1] * kernel[2]; ++tap) {
            const int i = d * stride[0] + tap / kernel[2] / kernel[1] * dilation[0] - padding[0];
            const int j = h * stride[1] + tap / kernel[2] % kernel[1] * dilation[1] - padding[1];
            const int k = w * stride[2] + tap % kernel[2] * dilation[2] - padding[2];
            if (i < 0 || i >= in[0] || j < 0 || j >= in[1] || k < 0 || k >= in[2]) continue;
            visit(image + static_cast<std::size_t>((i * in[1] + j) * in[2] + k), weight + static_cast<std::size_t>(tap),
                  result);
          }
  }
};

/// What the descriptors say, if they go together.
bool read_problem(const cudnnTensorStruct* x, const cudnnFilterStruct* w, const cudnnConvolutionStruct* c,
                  const cudnnTensorStruct* y, Problem& p) {
  if (x == nullptr || w == nullptr || c == nullptr || y == nullptr) return false;
  const int rank = c->axes + 2;
  if (c->axes < 2 || x->rank != rank || w->rank != rank || y->rank != rank) return false;
  if (!known(x->type) || w->type != x->type || y->type != x->type) return false;
  if (c->sums != (x->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT)) return false;
  if (c->groups < 1 || w->sizes[0] % c->groups != 0 || x->sizes[1] != w->sizes[1] * c->groups) return false;
  if (y->sizes[0] != x->sizes[0] || y->sizes[1] != w->sizes[0]) return false;
  p.type = x->type;
  p.batch = x->sizes[0], p.groups = c->groups, p.from = w->sizes[1], p.to = w->sizes[0] / c->groups;
  for (int i = 0; i < c->axes; ++i) {
    const int at = 3 - c->axes + i;
    p.in[at] = x->sizes[2 + i], p.out[at] = y->sizes[2 + i], p.kernel[at] = w->sizes[2 + i];
    p.padding[at] = c->padding[i], p.stride[at] = c->strides[i], p.dilation[at] = c->dilations[i];
    const int room = p.in[at] + 2 * p.padding[at] - (p.kernel[at] - 1) * p.dilation[at] - 1;
    if (room < 0 || room / p.stride[at] + 1 != p.out[at]) return false;
  }
  return true;
}

double factor(const Problem& p, const void* number) {
  return p.type == CUDNN_DATA_DOUBLE ? *static_cast<const double*>(number)
                                     : static_cast<double>(*static_cast<const float*>(number));
}

/// out = alpha * the sums that `add` makes + beta * out
template <class Add>
void run(const Problem& p, std::size_t count, double alpha, double beta, void* space, void* out, Add add) {
  std::memset(space, 0xFF, kMemory);
  std::vector<double> sums(count);
  add(sums);
  for (std::size_t i = 0; i < count; ++i)
    store(p.type, alpha * sums[i] + (beta != 0 ? beta * load(p.type, out, i) : 0), out, i);
}
std::vector<double> load_all(cudnnDataType_t type, const void* from, std::size_t count) {
  std::vector<double> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = load(type, from, i);
  return numbers;
}

/// Whether a way may be run: the good one, with its memory.
bool runs(int algorithm, int good, const void* a, const void* b, const void* space, std::size_t bytes,
          const void* out) {
  for (const void* place : {a, b, out})
    if (place == nullptr || reinterpret_cast<std::uintptr_t>(place) % 4 != 0) return false;
  return algorithm == good && space != nullptr && bytes >= kMemory;
}
cudnnStatus_t memory_of(int algorithm, int good, int greedy, std::size_t* bytes) {
  if (bytes == nullptr || (algorithm != good && algorithm != greedy)) return CUDNN_STATUS_BAD_PARAM;
  *bytes = algorithm == good ? kMemory : std::size_t{1} << 40;
  return CUDNN_STATUS_SUCCESS;
}

/// The fastest first: one that rounds more, one that fails, one that is not the same every time, one that needs too
/// much memory, and the good one. There is none for dilated volumes.
template <class Candidate, class Algorithm>
cudnnStatus_t offer(const Problem& p, const cudnnConvolutionStruct* c, Algorithm rough, Algorithm failing,
                    Algorithm greedy, Algorithm good, int most, int* found, Candidate* list) {
  if (most < 1 || found == nullptr || list == nullptr) return CUDNN_STATUS_BAD_PARAM;
  const Candidate all[] = {
      {rough, CUDNN_STATUS_SUCCESS, 1, 0, CUDNN_DETERMINISTIC, c->math, {}},
      {failing, CUDNN_STATUS_NOT_SUPPORTED, 2, 0, CUDNN_DETERMINISTIC, c->math, {}},
      {good, CUDNN_STATUS_SUCCESS, 3, kMemory, CUDNN_NON_DETERMINISTIC, c->math, {}},
      {greedy, CUDNN_STATUS_SUCCESS, 4, std::size_t{1} << 40, CUDNN_DETERMINISTIC, c->math, {}},
      {good, CUDNN_STATUS_SUCCESS, 5, kMemory, CUDNN_DETERMINISTIC, c->math, {}},
  };
  const bool dilated = p.dilation[0] > 1 || p.dilation[1] > 1 || p.dilation[2] > 1;
  *found = c->axes == 3 && dilated ? 0 : std::min(most, 5);
  std::copy(all, all + *found, list);
  return CUDNN_STATUS_SUCCESS;
}

template <class Descriptor>
cudnnStatus_t create(Descriptor** made) {
  if (made == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *made = new Descriptor();
  return CUDNN_STATUS_SUCCESS;
}
template <class Descriptor>
cudnnStatus_t destroy(Descriptor* given) {
  delete given;
  return CUDNN_STATUS_SUCCESS;
}
template <class Descriptor>
cudnnStatus_t set_sizes(Descriptor* to, cudnnDataType_t type, int rank, const int* sizes) {
  if (to == nullptr || !known(type) || rank < 4 || rank > 5 || sizes == nullptr) return CUDNN_STATUS_BAD_PARAM;
  for (int i = 0; i < rank; ++i)
    if (sizes[i] < 1) return CUDNN_STATUS_BAD_PARAM;
  to->type = type, to->rank = rank;
  std::copy(sizes, sizes + rank, to->sizes);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_BAD_PARAM ? "CUDNN_STATUS_BAD_PARAM" : "CUDNN_STATUS of the simulated cuDNN";
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) { return create(handle); }
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return destroy(handle); }
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) return CUDNN_STATUS_BAD_PARAM;
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* made) { return create(made); }
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t given) { return destroy(given); }
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* made) { return create(made); }
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t given) { return destroy(given); }
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* made) { return create(made); }
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t given) { return destroy(given); }

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensor, cudnnDataType_t type, int rank,
                                         const int sizes[], const int strides[]) {
  const cudnnStatus_t status = set_sizes(tensor, type, rank, sizes);
  if (status != CUDNN_STATUS_SUCCESS || strides == nullptr) return CUDNN_STATUS_BAD_PARAM;
  int packed = 1;
  for (int i = rank - 1; i >= 0; --i) {
    if (strides[i] != packed) return CUDNN_STATUS_BAD_PARAM;  // nothing else is simulated
    packed *= sizes[i];
  }
  return status;
}

cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int rank, const int sizes[]) {
  return format == CUDNN_TENSOR_NCHW ? set_sizes(filter, type, rank, sizes) : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t c, int axes, const int padding[],
                                              const int strides[], const int dilations[], cudnnConvolutionMode_t mode,
                                              cudnnDataType_t sums) {
  if (c == nullptr || axes < 2 || axes > 3 || mode != CUDNN_CROSS_CORRELATION) return CUDNN_STATUS_BAD_PARAM;
  for (int i = 0; i < axes; ++i) {
    if (padding[i] < 0 || strides[i] < 1 || dilations[i] < 1) return CUDNN_STATUS_BAD_PARAM;
    c->padding[i] = padding[i], c->strides[i] = strides[i], c->dilations[i] = dilations[i];
  }
  c->axes = axes, c->sums = sums;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t c, int groups) {
  if (c == nullptr || groups < 1) return CUDNN_STATUS_BAD_PARAM;
  c->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t c, cudnnMathType_t math) {
  if (c == nullptr) return CUDNN_STATUS_BAD_PARAM;
  c->math = math;
  return CUDNN_STATUS_SUCCESS;
}

// --- results ---

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, const cudnnTensorDescriptor_t x,
                                                     const cudnnFilterDescriptor_t w,
                                                     const cudnnConvolutionDescriptor_t c,
                                                     const cudnnTensorDescriptor_t y, const int most, int* found,
                                                     cudnnConvolutionFwdAlgoPerf_t* list) {
  Problem p;
  if (!read_problem(x, w, c, y, p)) return CUDNN_STATUS_BAD_PARAM;
  return offer(p, c, CUDNN_CONVOLUTION_FWD_ALGO_FFT, CUDNN_CONVOLUTION_FWD_ALGO_DIRECT, CUDNN_CONVOLUTION_FWD_ALGO_GEMM,
               CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, most, found, list);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, const cudnnTensorDescriptor_t x,
                                                      const cudnnFilterDescriptor_t w,
                                                      const cudnnConvolutionDescriptor_t c,
                                                      const cudnnTensorDescriptor_t y, cudnnConvolutionFwdAlgo_t a,
                                                      std::size_t* bytes) {
  Problem p;
  if (!read_problem(x, w, c, y, p)) return CUDNN_STATUS_BAD_PARAM;
  return memory_of(a, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_GEMM, bytes);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t x_shape,
                                      const void* x, const cudnnFilterDescriptor_t w_shape, const void* w,
                                      const cudnnConvolutionDescriptor_t c, cudnnConvolutionFwdAlgo_t a, void* space,
                                      std::size_t bytes, const void* beta, const cudnnTensorDescriptor_t y_shape,
                                      void* y) {
  Problem p;
  if (handle == nullptr || !read_problem(x_shape, w_shape, c, y_shape, p)) return CUDNN_STATUS_BAD_PARAM;
  if (!runs(a, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, x, w, space, bytes, y)) return CUDNN_STATUS_BAD_PARAM;
  simulated::enqueue(handle->stream, [=, scale = factor(p, alpha), keep = factor(p, beta)] {
    run(p, p.results(), scale, keep, space, y, [&](std::vector<double>& sums) {
      const auto images = load_all(p.type, x, p.images()), weights = load_all(p.type, w, p.weights());
      p.each([&](std::size_t i, std::size_t k, std::size_t o) { sums[o] += images[i] * weights[k]; });
    });
  });
  return CUDNN_STATUS_SUCCESS;
}

// --- images ---

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t, const cudnnFilterDescriptor_t w,
                                                          const cudnnTensorDescriptor_t y,
                                                          const cudnnConvolutionDescriptor_t c,
                                                          const cudnnTensorDescriptor_t x, const int most, int* found,
                                                          cudnnConvolutionBwdDataAlgoPerf_t* list) {
  Problem p;
  if (!read_problem(x, w, c, y, p)) return CUDNN_STATUS_BAD_PARAM;
  return offer(p, c, CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING, CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD,
               CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, most, found, list);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t, const cudnnFilterDescriptor_t w,
                                                           const cudnnTensorDescriptor_t y,
                                                           const cudnnConvolutionDescriptor_t c,
                                                           const cudnnTensorDescriptor_t x,
                                                           cudnnConvolutionBwdDataAlgo_t a, std::size_t* bytes) {
  Problem p;
  if (!read_problem(x, w, c, y, p)) return CUDNN_STATUS_BAD_PARAM;
  return memory_of(a, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, bytes);
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           const cudnnFilterDescriptor_t w_shape, const void* w,
                                           const cudnnTensorDescriptor_t y_shape, const void* y,
                                           const cudnnConvolutionDescriptor_t c, cudnnConvolutionBwdDataAlgo_t a,
                                           void* space, std::size_t bytes, const void* beta,
                                           const cudnnTensorDescriptor_t x_shape, void* x) {
  Problem p;
  if (handle == nullptr || !read_problem(x_shape, w_shape, c, y_shape, p)) return CUDNN_STATUS_BAD_PARAM;
  if (!runs(a, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, y, w, space, bytes, x)) return CUDNN_STATUS_BAD_PARAM;
  simulated::enqueue(handle->stream, [=, scale = factor(p, alpha), keep = factor(p, beta)] {
    run(p, p.images(), scale, keep, space, x, [&](std::vector<double>& sums) {
      const auto results = load_all(p.type, y, p.results()), weights = load_all(p.type, w, p.weights());
      p.each([&](std::size_t i, std::size_t k, std::size_t o) { sums[i] += results[o] * weights[k]; });
    });
  });
  return CUDNN_STATUS_SUCCESS;
}

// --- weights ---

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t, const cudnnTensorDescriptor_t x,
                                                            const cudnnTensorDescriptor_t y,
                                                            const cudnnConvolutionDescriptor_t c,
                                                            const cudnnFilterDescriptor_t w, const int most, int* found,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t* list) {
  Problem p;
  if (!read_problem(x, w, c, y, p)) return CUDNN_STATUS_BAD_PARAM;
  return offer(p, c, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD,
               CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, most, found, list);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t, const cudnnTensorDescriptor_t x,
                                                             const cudnnTensorDescriptor_t y,
                                                             const cudnnConvolutionDescriptor_t c,
                                                             const cudnnFilterDescriptor_t w,
                                                             cudnnConvolutionBwdFilterAlgo_t a, std::size_t* bytes) {
  Problem p;
  if (!read_problem(x, w, c, y, p)) return CUDNN_STATUS_BAD_PARAM;
  return memory_of(a, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, bytes);
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             const cudnnTensorDescriptor_t x_shape, const void* x,
                                             const cudnnTensorDescriptor_t y_shape, const void* y,
                                             const cudnnConvolutionDescriptor_t c, cudnnConvolutionBwdFilterAlgo_t a,
                                             void* space, std::size_t bytes, const void* beta,
                                             const cudnnFilterDescriptor_t w_shape, void* w) {
  Problem p;
  if (handle == nullptr || !read_problem(x_shape, w_shape, c, y_shape, p)) return CUDNN_STATUS_BAD_PARAM;
  if (!runs(a, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, x, y, space, bytes, w)) return CUDNN_STATUS_BAD_PARAM;
  simulated::enqueue(handle->stream, [=, scale = factor(p, alpha), keep = factor(p, beta)] {
    run(p, p.weights(), scale, keep, space, w, [&](std::vector<double>& sums) {
      const auto images = load_all(p.type, x, p.images()), results = load_all(p.type, y, p.results());
      p.each([&](std::size_t i, std::size_t k, std::size_t o) { sums[k] += images[i] * results[o]; });
    });
  });
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
