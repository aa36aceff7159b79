#include <capstan/ops/layout.hpp>

#include "autograd/ops.hpp"

namespace capstan {

namespace {

/// The number of spatial axes of a tensor that has two others.
int spatial_axes(const char* op, const char* what, const Shape& shape, Where where) {
  if (shape.rank() < 3 || shape.rank() > 5)
    base::fail<ShapeError>(where, op, ": ", what, " is ", shape, "; it must have 1 to 3 spatial axes and two others.");
  return shape.rank() - 2;
}

/// [spatial..., a, b] as [b, a, spatial...], with `reverse` the other way.
Tensor turned(const char* op, const Tensor& kernel, bool reverse, Where where) {
  const int axes = spatial_axes(op, "the kernel", core::described(op, kernel, where).shape, where);
  int order[5] = {};
  for (int i = 0; i < axes; ++i) order[reverse ? i : 2 + i] = reverse ? 2 + i : i;
  order[reverse ? axes : 0] = reverse ? 1 : axes + 1;
  order[reverse ? axes + 1 : 1] = reverse ? 0 : axes;
  return permute(kernel, std::span<const int>(order, static_cast<std::size_t>(axes + 2)), where);
}

}  // namespace

Tensor nchw_from_nhwc(const Tensor& x, Where where) {
  spatial_axes("nchw_from_nhwc", "x", core::described("nchw_from_nhwc", x, where).shape, where);
  return move_axis(x, -1, 1, where);
}
Tensor nhwc_from_nchw(const Tensor& x, Where where) {
  spatial_axes("nhwc_from_nchw", "x", core::described("nhwc_from_nchw", x, where).shape, where);
  return move_axis(x, 1, -1, where);
}

Tensor conv_kernel_from_hwio(const Tensor& kernel, Where where) {
  return turned("conv_kernel_from_hwio", kernel, false, where);
}
Tensor hwio_from_conv_kernel(const Tensor& kernel, Where where) {
  return turned("hwio_from_conv_kernel", kernel, true, where);
}

// The names of the axes are exchanged, on both sides; their places are the same.
Tensor conv_transpose_kernel_from_hwoi(const Tensor& kernel, Where where) {
  return turned("conv_transpose_kernel_from_hwoi", kernel, false, where);
}
Tensor hwoi_from_conv_transpose_kernel(const Tensor& kernel, Where where) {
  return turned("hwoi_from_conv_transpose_kernel", kernel, true, where);
}

Tensor depthwise_kernel_from_hwim(const Tensor& kernel, Where where) {
  constexpr const char* op = "depthwise_kernel_from_hwim";
  const Shape shape = core::described(op, kernel, where).shape;
  const int axes = spatial_axes(op, "the kernel", shape, where);
  std::int64_t sizes[5] = {shape[axes] * shape[axes + 1], 1};
  int order[5] = {axes, axes + 1};
  for (int i = 0; i < axes; ++i) sizes[2 + i] = shape[i], order[2 + i] = i;
  const std::size_t rank = static_cast<std::size_t>(axes + 2);
  const Shape result(std::span<const std::int64_t>(sizes, rank), where);
  const autograd::Rollback rollback;
  return reshape(permute(kernel, std::span<const int>(order, rank), where), result, where);
}

Tensor hwim_from_depthwise_kernel(const Tensor& kernel, std::int64_t multiplier, Where where) {
  constexpr const char* op = "hwim_from_depthwise_kernel";
  const Shape shape = core::described(op, kernel, where).shape;
  const int axes = spatial_axes(op, "the kernel", shape, where);
  if (shape[1] != 1)
    base::fail<ShapeError>(where, op, ": the kernel is ", shape, "; its second axis must have size 1.");
  if (multiplier < 1 || shape[0] % multiplier != 0)
    base::fail<ShapeError>(where, op, ": the kernel is ", shape, " and the multiplier ", multiplier,
                           "; it must be at least 1, and divide the first axis.");
  std::int64_t sizes[5] = {shape[0] / multiplier, multiplier};
  int order[5] = {};
  for (int i = 0; i < axes; ++i) sizes[2 + i] = shape[2 + i], order[i] = 2 + i;
  order[axes] = 0, order[axes + 1] = 1;
  const std::size_t rank = static_cast<std::size_t>(axes + 2);
  const Shape parts(std::span<const std::int64_t>(sizes, rank), where);
  const autograd::Rollback rollback;
  return permute(reshape(kernel, parts, where), std::span<const int>(order, rank), where);
}

}  // namespace capstan
