#pragma once
// Data and kernels from TensorFlow's order of axes to the one here, and back.
//
// All are views of x (permuted axes), take any type, and are differentiable; `contiguous()` makes a copy in the new
// order, which is worth it for what is used again. Spatial axes are 1 to 3, told by the rank: ShapeError for a rank
// outside 3 to 5. Nothing is mirrored: neither side turns kernels around. Defined in autograd/layout.cpp.
#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// [batch, spatial..., channels] -> [batch, channels, spatial...].
Tensor nchw_from_nhwc(const Tensor& x, Where where = Where::current());
/// [batch, channels, spatial...] -> [batch, spatial..., channels].
Tensor nhwc_from_nchw(const Tensor& x, Where where = Where::current());

/// Kernels of convolutions, grouped ones too: [spatial..., in, out] -> [out, in, spatial...].
Tensor conv_kernel_from_hwio(const Tensor& kernel, Where where = Where::current());
Tensor hwio_from_conv_kernel(const Tensor& kernel, Where where = Where::current());

/// Kernels of transposed convolutions: [spatial..., out, in] -> [in, out, spatial...].
Tensor conv_transpose_kernel_from_hwoi(const Tensor& kernel, Where where = Where::current());
Tensor hwoi_from_conv_transpose_kernel(const Tensor& kernel, Where where = Where::current());

/// Kernels of depthwise convolutions: [spatial..., in, multiplier] -> [in * multiplier, 1, spatial...]. Channel i of
/// the input makes channels i*multiplier up to (i+1)*multiplier. A copy where strides do not allow a view.
Tensor depthwise_kernel_from_hwim(const Tensor& kernel, Where where = Where::current());
/// The reverse: `multiplier` output channels for each input channel. ShapeError if it does not divide the first axis,
/// or the second is not 1.
Tensor hwim_from_depthwise_kernel(const Tensor& kernel, std::int64_t multiplier, Where where = Where::current());

}  // namespace capstan
