// Convolution: who computes it, and the bias.
#include "cuda/backend.hpp"
#include "cuda/convolve.hpp"
#include "cuda/cudnn_convolve.hpp"
#include "cuda/gemm.hpp"
#include "cuda/launch.cuh"
#include "cuda/values.cuh"

namespace capstan::on_cuda {
namespace {

/// out [.., channels, plane], in packs of N, = bias, or with `add` += bias
template <class T, class I, int N>
__global__ void bias_kernel(const T* __restrict__ bias, Divider<I> by_plane, Divider<I> by_channels, I channels,
                            std::int64_t packs, bool add, T* __restrict__ out) {
  for (std::int64_t i = first_index(); i < packs; i += index_step()) {
    const I row = by_plane.quotient(static_cast<I>(i));
    const T own = bias[row - by_channels.quotient(row) * channels];
    Pack<T, N>& place = reinterpret_cast<Pack<T, N>*>(out)[i];
    Pack<T, N> sum;
    if (add) {
      const Pack<T, N> before = place;
      for (int n = 0; n < N; ++n) sum.values[n] = narrow<T>(widen(before.values[n]) + widen(own));
    } else {
      for (int n = 0; n < N; ++n) sum.values[n] = own;
    }
    place = sum;
  }
}

template <class T, class I, int N>
void start_bias(const T* bias, bool add, std::int64_t images, std::int64_t channels, std::int64_t plane, T* out) {
  const std::int64_t packs = images * channels * plane / N;
  launch(bias_kernel<T, I, N>, shape_for(packs), bias, Divider<I>(plane / N), Divider<I>(channels), channels, packs,
         add, out);
}

/// What cuDNN and cuBLAS leave to do.
void apply_bias(const TensorImpl& bias, bool add, std::int64_t images, std::int64_t plane, void* out) {
  core::visit_real(bias.dtype, [&]<class T>(core::Type<T>) {
    const T* const from = bias.as<T>();
    T* const to = static_cast<T*>(out);
    const std::int64_t channels = bias.numel();
    if (images * channels * plane > kIndexed) start_bias<T, std::int64_t, 1>(from, add, images, channels, plane, to);
    else if (plane % kPack<T> == 0 && aligned16(out))
      start_bias<T, std::int32_t, kPack<T>>(from, add, images, channels, plane, to);
    else start_bias<T, std::int32_t, 1>(from, add, images, channels, plane, to);
  });
}

/// Each result reads its whole image, and each image is what all of its results read.
void multiply_whole(const Convolution& c, ConvolveTarget target, const void* a, const void* b, void* out,
                    bool accumulate) {
  const std::int64_t n = c.batch, m = c.out, k = c.in * c.kernel();
  switch (target) {
    case ConvolveTarget::result:  // images [n, k], weights [m, k]
      return gemm_strided_batched(c.dtype, false, true, n, m, k, a, k, 0, b, k, 0, out, m, 0, 1, accumulate);
    case ConvolveTarget::image:  // gradients [n, m], weights [m, k]
      return gemm_strided_batched(c.dtype, false, false, n, k, m, a, m, 0, b, k, 0, out, k, 0, 1, accumulate);
    case ConvolveTarget::weight:  // images [n, k], gradients [n, m]
      return gemm_strided_batched(c.dtype, true, false, m, k, n, b, m, 0, a, k, 0, out, k, 0, 1, accumulate);
  }
}

/// Weights [out, in] by images [in, plane], or their transpose by gradients [out, plane].
void multiply_points(const Convolution& c, ConvolveTarget target, const void* x, const void* weight, void* out,
                     bool accumulate) {
  const bool back = target == ConvolveTarget::image;
  const std::int64_t m = back ? c.in : c.out, k = back ? c.out : c.in, n = c.in_plane();
  gemm_strided_batched(c.dtype, back, false, m, n, k, weight, c.in, 0, x, n, k * n, out, n, m * n, c.batch, accumulate);
}

void run(const Convolution& c, ConvolveTarget target, const void* x, const TensorImpl& weight, const TensorImpl* bias,
         void* out) {
  const std::int64_t plane = target == ConvolveTarget::image ? c.in_plane() : c.out_plane();
  switch (const ConvolveRoute route = choose_route(c, target, cudnn_enabled())) {
    case ConvolveRoute::whole:
    case ConvolveRoute::pointwise:  // onto the bias: rounded once
      if (bias != nullptr) apply_bias(*bias, false, c.batch, plane, out);
      if (route == ConvolveRoute::whole) multiply_whole(c, target, x, weight.data, out, bias != nullptr);
      else multiply_points(c, target, x, weight.data, out, bias != nullptr);
      return;
    case ConvolveRoute::depthwise:
      return convolve_depthwise(c, target, x, weight.data, bias != nullptr ? bias->data : nullptr, out);
    case ConvolveRoute::library: {
      const bool onto = bias != nullptr && is_half(c.dtype);  // rounded once; not every way of cuDNN can do that
      if (onto) apply_bias(*bias, false, c.batch, plane, out);
      if (cudnn_convolve(c, target, x, weight.data, out, onto)) {
        if (bias != nullptr && !onto) apply_bias(*bias, true, c.batch, plane, out);
        return;
      }
      break;  // tiles write all of it anew
    }
    case ConvolveRoute::tiles: break;
  }
  convolve_by_tiles(c, target, x, weight.data, bias != nullptr ? bias->data : nullptr, out);
}

/// As many images at a time as 32-bit indices reach.
void run_all(const Convolution& c, ConvolveTarget target, const TensorImpl& x, const TensorImpl& weight,
             const TensorImpl* bias, TensorImpl& out) {
  const std::int64_t step = images_at_once(c), element = size_of(c.dtype);
  const bool back = target == ConvolveTarget::image;
  const std::int64_t read = (back ? c.result() : c.image()) * element,
                     written = (back ? c.image() : c.result()) * element;
  for (std::int64_t first = 0; first < c.batch; first += step) {
    Convolution part = c;
    part.batch = std::min(step, c.batch - first);
    run(part, target, x.data + first * read, weight, bias, out.data + first * written);
  }
}

/// The CPU has no room for more, and the two refuse the same.
void check_reach(const Convolution& c) {
  if (reach_of(c) <= static_cast<double>(INT32_MAX)) return;
  base::fail<ShapeError>(call().where, "convolution: a kernel reaches over a part [", c.in, ", ", c.axis[0].extent(),
                         ", ", c.axis[1].extent(), ", ", c.axis[2].extent(),
                         "] of the padded input; it must have fewer than 2^31 elements.");
}

}  // namespace

void convolve(const TensorImpl& x, const TensorImpl& weight, const TensorImpl* bias, const core::Window& window,
              std::int64_t groups, TensorImpl& out) {
  const Convolution c(out.dtype, out.shape[0], groups, weight.shape[1], weight.shape[0] / groups, window);
  if (out.numel() == 0) return;
  check_reach(c);
  run_all(c, ConvolveTarget::result, x, weight, bias, out);
}

void convolve_transposed(const TensorImpl& grad, const TensorImpl& weight, const TensorImpl* bias,
                         const core::Window& window, std::int64_t groups, TensorImpl& out) {
  const Convolution c(out.dtype, out.shape[0], groups, weight.shape[1], weight.shape[0] / groups, window);
  if (out.numel() > 0) run_all(c, ConvolveTarget::image, grad, weight, bias, out);
}

void convolve_weight(const TensorImpl& x, const TensorImpl& grad, const core::Window& window, std::int64_t groups,
                     TensorImpl& out) {
  const Convolution c(out.dtype, x.shape[0], groups, out.shape[1], out.shape[0] / groups, window);
  if (out.numel() == 0) return;
  check_reach(c);
  switch (choose_route(c, ConvolveTarget::weight, cudnn_enabled())) {
    case ConvolveRoute::whole: return multiply_whole(c, ConvolveTarget::weight, x.data, grad.data, out.data, false);
    case ConvolveRoute::depthwise: return convolve_weight_depthwise(c, x.data, grad.data, out.data);
    case ConvolveRoute::library:
      if (cudnn_convolve(c, ConvolveTarget::weight, x.data, grad.data, out.data)) return;
      break;
    case ConvolveRoute::pointwise:
    case ConvolveRoute::tiles: break;
  }
  convolve_weight_by_tiles(c, x.data, grad.data, out.data);
}

}  // namespace capstan::on_cuda
