// Convolution by cuDNN. It estimates which of its algorithms would be fastest; the first is taken that gives the same
// bits in every run, needs little memory and keeps the digits that a plain sum has.
#include "cuda/cudnn_convolve.hpp"

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>

#include "cuda/context.hpp"
#include "cuda/handles.hpp"

namespace capstan::on_cuda {
namespace {

constexpr std::size_t kMostWorkspace = std::size_t{512} << 20;
constexpr std::size_t kMostPlans = 1024;  // of a thread on a device; shapes that change all the time do not pile up
constexpr int kUsesInNeed = 64;

void check(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const Call& now = call();
  base::fail<BackendError>(now.where, now.op, " on cuda:", now.device, ": ", what,
                           " failed: ", cudnnGetErrorString(status), ".");
}

template <class D, cudnnStatus_t (*create)(D*), cudnnStatus_t (*destroy)(D)>
class Descriptor {
 public:
  Descriptor() { check(create(&value_), "making a descriptor of cuDNN"); }
  ~Descriptor() { destroy(value_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator D() const noexcept { return value_; }

 private:
  D value_ = nullptr;
};
using TensorDescriptor =
    Descriptor<cudnnTensorDescriptor_t, &cudnnCreateTensorDescriptor, &cudnnDestroyTensorDescriptor>;
using FilterDescriptor =
    Descriptor<cudnnFilterDescriptor_t, &cudnnCreateFilterDescriptor, &cudnnDestroyFilterDescriptor>;
using ConvolutionDescriptor =
    Descriptor<cudnnConvolutionDescriptor_t, &cudnnCreateConvolutionDescriptor, &cudnnDestroyConvolutionDescriptor>;

cudnnDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::float64: return CUDNN_DATA_DOUBLE;
    case DType::float16: return CUDNN_DATA_HALF;
    case DType::bfloat16: return CUDNN_DATA_BFLOAT16;
    default: return CUDNN_DATA_FLOAT;
  }
}
/// Tensor cores multiply 16-bit numbers exactly; float32 they would round to TF32.
cudnnMathType_t math_of(DType dtype, bool tf32) {
  if (is_half(dtype)) return CUDNN_TENSOR_OP_MATH;
  return dtype == DType::float32 && !tf32 ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
}

/// A convolution as cuDNN wants to be told of it, and how it is done.
struct Plan {
  TensorDescriptor image, result;
  FilterDescriptor filter;
  ConvolutionDescriptor convolution;
  cudnnMathType_t math;
  int algorithm = -1;  // none
  int next = 0;        // candidates that have been looked at
  int uses_left = 0;   // before it is made anew, for what failed may do then: memory was short, operands lay badly
  std::size_t bytes = 0;

  Plan(const Convolution& c, bool tf32) : math(math_of(c.dtype, tf32)) {
    const core::WindowAxis& depth = c.axis[0];
    const int first = depth.in > 1 || depth.out > 1 || depth.kernel > 1 || depth.before > 0 ? 0 : 1;
    describe(image, c, first, c.groups * c.in, &core::WindowAxis::in);
    describe(result, c, first, c.groups * c.out, &core::WindowAxis::out);

    int sizes[5] = {static_cast<int>(c.groups * c.out), static_cast<int>(c.in)};
    int padding[3], strides[3], dilations[3];
    for (int i = first; i < 3; ++i) {
      sizes[2 + i - first] = static_cast<int>(c.axis[i].kernel);
      padding[i - first] = static_cast<int>(c.axis[i].before);
      strides[i - first] = static_cast<int>(c.axis[i].stride);
      dilations[i - first] = static_cast<int>(c.axis[i].dilation);
    }
    check(cudnnSetFilterNdDescriptor(filter, type_of(c.dtype), CUDNN_TENSOR_NCHW, 5 - first, sizes),
          "cudnnSetFilterNdDescriptor");
    const cudnnDataType_t sums = c.dtype == DType::float64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    check(cudnnSetConvolutionNdDescriptor(convolution, 3 - first, padding, strides, dilations, CUDNN_CROSS_CORRELATION,
                                          sums),
          "cudnnSetConvolutionNdDescriptor");
    check(cudnnSetConvolutionGroupCount(convolution, static_cast<int>(c.groups)), "cudnnSetConvolutionGroupCount");
    check(cudnnSetConvolutionMathType(convolution, math), "cudnnSetConvolutionMathType");
  }

 private:
  static void describe(const TensorDescriptor& tensor, const Convolution& c, int first, std::int64_t channels,
                       std::int64_t core::WindowAxis::*places) {
    int sizes[5] = {static_cast<int>(c.batch), static_cast<int>(channels)}, strides[5];
    for (int i = first; i < 3; ++i) sizes[2 + i - first] = static_cast<int>(c.axis[i].*places);
    int stride = 1;
    for (int i = 4 - first; i >= 0; --i) {
      strides[i] = stride;
      stride *= sizes[i];
    }
    check(cudnnSetTensorNdDescriptor(tensor, type_of(c.dtype), 5 - first, sizes, strides),
          "cudnnSetTensorNdDescriptor");
  }
};

/// One for what is computed, and one or zero for what is there, as cuDNN reads factors: in double for that type, else in
/// float.
struct Factors {
  float one = 1, before;
  double wide_one = 1, wide_before;
  bool wide;
  Factors(DType dtype, bool accumulate)
      : before(accumulate ? 1 : 0), wide_before(accumulate ? 1 : 0), wide(dtype == DType::float64) {}
  const void* alpha() const { return wide ? static_cast<const void*>(&wide_one) : &one; }
  const void* beta() const { return wide ? static_cast<const void*>(&wide_before) : &before; }
};

// The same for each of the three. `precise`: neither Fourier transforms nor the larger of Winograd's tiles, whose
// float32 results err ten times as much as a sum (Lavin and Gray, "Fast algorithms for convolutional neural networks",
// 2016, table 6).

struct Forward {
  using Algorithm = cudnnConvolutionFwdAlgo_t;
  using Candidate = cudnnConvolutionFwdAlgoPerf_t;
  static constexpr int kCount = CUDNN_CONVOLUTION_FWD_ALGO_COUNT;
  static constexpr const char* kName = "cudnnConvolutionForward";

  static bool precise(Algorithm a) {
    return a != CUDNN_CONVOLUTION_FWD_ALGO_FFT && a != CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING &&
           a != CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED;
  }
  static cudnnStatus_t candidates(cudnnHandle_t handle, const Plan& p, int most, int* found, Candidate* list) {
    return cudnnGetConvolutionForwardAlgorithm_v7(handle, p.image, p.filter, p.convolution, p.result, most, found,
                                                  list);
  }
  static cudnnStatus_t memory(cudnnHandle_t handle, const Plan& p, Algorithm a, std::size_t* bytes) {
    return cudnnGetConvolutionForwardWorkspaceSize(handle, p.image, p.filter, p.convolution, p.result, a, bytes);
  }
  static cudnnStatus_t run(cudnnHandle_t handle, const Plan& p, const Factors& f, const void* images,
                           const void* weights, void* space, void* out) {
    return cudnnConvolutionForward(handle, f.alpha(), p.image, images, p.filter, weights, p.convolution,
                                   static_cast<Algorithm>(p.algorithm), space, p.bytes, f.beta(), p.result, out);
  }
};

struct BackwardData {
  using Algorithm = cudnnConvolutionBwdDataAlgo_t;
  using Candidate = cudnnConvolutionBwdDataAlgoPerf_t;
  static constexpr int kCount = CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT;
  static constexpr const char* kName = "cudnnConvolutionBackwardData";

  static bool precise(Algorithm a) {
    return a != CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT && a != CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING &&
           a != CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED;
  }
  static cudnnStatus_t candidates(cudnnHandle_t handle, const Plan& p, int most, int* found, Candidate* list) {
    return cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, p.filter, p.result, p.convolution, p.image, most, found,
                                                       list);
  }
  static cudnnStatus_t memory(cudnnHandle_t handle, const Plan& p, Algorithm a, std::size_t* bytes) {
    return cudnnGetConvolutionBackwardDataWorkspaceSize(handle, p.filter, p.result, p.convolution, p.image, a, bytes);
  }
  static cudnnStatus_t run(cudnnHandle_t handle, const Plan& p, const Factors& f, const void* gradients,
                           const void* weights, void* space, void* out) {
    return cudnnConvolutionBackwardData(handle, f.alpha(), p.filter, weights, p.result, gradients, p.convolution,
                                        static_cast<Algorithm>(p.algorithm), space, p.bytes, f.beta(), p.image, out);
  }
};

struct BackwardFilter {
  using Algorithm = cudnnConvolutionBwdFilterAlgo_t;
  using Candidate = cudnnConvolutionBwdFilterAlgoPerf_t;
  static constexpr int kCount = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT;
  static constexpr const char* kName = "cudnnConvolutionBackwardFilter";

  static bool precise(Algorithm a) {
    return a != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT && a != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING &&
           a != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED;
  }
  static cudnnStatus_t candidates(cudnnHandle_t handle, const Plan& p, int most, int* found, Candidate* list) {
    return cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, p.image, p.result, p.convolution, p.filter, most,
                                                         found, list);
  }
  static cudnnStatus_t memory(cudnnHandle_t handle, const Plan& p, Algorithm a, std::size_t* bytes) {
    return cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, p.image, p.result, p.convolution, p.filter, a, bytes);
  }
  static cudnnStatus_t run(cudnnHandle_t handle, const Plan& p, const Factors& f, const void* images,
                           const void* gradients, void* space, void* out) {
    return cudnnConvolutionBackwardFilter(handle, f.alpha(), p.image, images, p.result, gradients, p.convolution,
                                          static_cast<Algorithm>(p.algorithm), space, p.bytes, f.beta(), p.filter, out);
  }
};

/// The next candidate that serves.
template <class Way>
void choose(cudnnHandle_t handle, Plan& plan) {
  typename Way::Candidate list[2 * Way::kCount];  // some come with several kinds of arithmetic
  int found = 0;
  plan.algorithm = -1;
  check(cudnnSetConvolutionMathType(plan.convolution, plan.math), "cudnnSetConvolutionMathType");
  if (const cudnnStatus_t status = Way::candidates(handle, plan, 2 * Way::kCount, &found, list);
      status != CUDNN_STATUS_SUCCESS) {
    if (CUDNN_STATUS_CATEGORY(status) != CUDNN_STATUS_NOT_SUPPORTED) plan.uses_left = kUsesInNeed;
    return;
  }
  while (plan.next < found) {
    const typename Way::Candidate& candidate = list[plan.next++];
    const bool steady = candidate.determinism == CUDNN_DETERMINISTIC;
    if (candidate.status != CUDNN_STATUS_SUCCESS || !steady || !Way::precise(candidate.algo)) continue;
    // what it estimated with; but never anything else than multiplications in full where those were asked for
    const cudnnMathType_t math = plan.math == CUDNN_FMA_MATH ? plan.math : candidate.mathType;
    check(cudnnSetConvolutionMathType(plan.convolution, math), "cudnnSetConvolutionMathType");
    std::size_t bytes = 0;
    if (Way::memory(handle, plan, candidate.algo, &bytes) != CUDNN_STATUS_SUCCESS || bytes > kMostWorkspace) continue;
    plan.algorithm = static_cast<int>(candidate.algo);
    plan.bytes = bytes;
    return;
  }
}

/// All that plans differ in.
using Key = std::array<std::int64_t, 26>;
Key key_of(const Convolution& c, ConvolveTarget target, bool tf32, bool accumulate) {
  Key key = {static_cast<std::int64_t>(target),
             static_cast<std::int64_t>(c.dtype),
             tf32,
             accumulate,
             c.batch,
             c.groups,
             c.in,
             c.out};
  std::size_t next = 8;
  for (const core::WindowAxis& a : c.axis)
    for (const std::int64_t number : {a.in, a.out, a.kernel, a.stride, a.dilation, a.before}) key[next++] = number;
  return key;
}

/// cuDNN of one thread on one device.
struct Library {
  cudnnHandle_t handle = nullptr;
  std::map<Key, Plan> plans;
};
Library& library() {
  thread_local ThreadHandles<cudnnHandle_t> handles;
  thread_local std::map<int, Library> of_device;
  const Call& now = call();
  cudnnHandle_t& handle = handles[now.device];
  if (handle == nullptr) check(with_room([&] { return cudnnCreate(&handle); }), "starting cuDNN");
  check(cudnnSetStream(handle, now.stream), "choosing the stream of cuDNN");
  Library& own = of_device[now.device];
  own.handle = handle;
  return own;
}

/// cuDNN asks for 4 bytes, of 16-bit elements too.
bool begin_well(const void* a, const void* b, const void* out) noexcept {
  for (const void* place : {a, b, out})
    if (reinterpret_cast<std::uintptr_t>(place) % 4 != 0) return false;
  return true;
}

/// Whether the plan's algorithm has done it; if not another one may.
template <class Way>
bool attempt(cudnnHandle_t handle, Plan& plan, const Factors& factors, const void* a, const void* b, void* out) {
  constexpr cudnnStatus_t kNoMemory = CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
  Tensor space;
  try {
    if (plan.bytes > 0) space = workspace(static_cast<std::int64_t>(plan.bytes), DType::uint8);
  } catch (const OutOfMemoryError&) {  // the next one may need none
    plan.uses_left = kUsesInNeed;
    return false;
  }
  const auto run = [&] {
    return Way::run(handle, plan, factors, a, b, plan.bytes > 0 ? space.impl()->data : nullptr, out);
  };
  cudnnStatus_t status = run();
  if (status == kNoMemory) {
    device(call().device).allocator().release();
    status = run();
  }
  if (status == kNoMemory || status == CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER) {
    plan.uses_left = kUsesInNeed;
    return false;
  }
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) return false;  // it had not known before
  check(status, Way::kName);
  return true;
}

template <class Way>
bool run(const Convolution& c, ConvolveTarget target, const void* a, const void* b, void* out, bool accumulate) {
  if (!begin_well(a, b, out)) return false;
  Library& own = library();
  const bool tf32 = tf32_allowed();
  const Key key = key_of(c, target, tf32, accumulate);
  auto found = own.plans.find(key);
  if (found == own.plans.end()) {
    if (own.plans.size() >= kMostPlans) own.plans.clear();
    found = own.plans.try_emplace(key, c, tf32).first;
    choose<Way>(own.handle, found->second);
  }
  Plan& plan = found->second;
  const Factors factors(c.dtype, accumulate);
  bool done = false;
  while (plan.algorithm >= 0 && !(done = attempt<Way>(own.handle, plan, factors, a, b, out)))
    choose<Way>(own.handle, plan);
  if (plan.uses_left > 0 && --plan.uses_left == 0) own.plans.erase(found);
  return done;
}

}  // namespace

bool cudnn_enabled() noexcept {
  static const bool on = [] {
    const char* asked = std::getenv("CAPSTAN_CUDNN");
    return asked == nullptr || std::strcmp(asked, "0") != 0;
  }();
  return on;
}

bool cudnn_convolve(const Convolution& c, ConvolveTarget target, const void* a, const void* b, void* out,
                    bool accumulate) {
  switch (target) {
    case ConvolveTarget::result: return run<Forward>(c, target, a, b, out, accumulate);
    case ConvolveTarget::image: return run<BackwardData>(c, target, a, b, out, accumulate);
    case ConvolveTarget::weight: return run<BackwardFilter>(c, target, a, b, out, accumulate);
  }
  return false;
}

}  // namespace capstan::on_cuda
