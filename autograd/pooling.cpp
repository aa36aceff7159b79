#include "autograd/pooling.hpp"

namespace capstan::autograd {
namespace {

/// Throws ShapeError for a window of which all places lie outside the input.
void check_windows_hold_input(const char* op, const core::WindowAxis& a, int number, Where where) {
  const auto check = [&](std::int64_t o) {
    const std::int64_t start = o * a.stride - a.before;
    const std::int64_t first = start >= 0 ? start : start + (a.dilation - 1 - start) / a.dilation * a.dilation;
    if (first >= a.in || first - start >= a.extent())
      base::fail<ShapeError>(where, op, ": window ", o, " of spatial axis ", number, " begins at ", start,
                             " and holds padding only (", a.in, " inputs, kernel ", a.kernel, ", dilation ", a.dilation,
                             "); every window must hold an input.");
  };
  if (a.out == 0) return;
  if (a.in >= a.dilation) {  // none steps over the input: the first may end in front of it, the last begin behind it
    const std::int64_t behind = (a.in + a.before + a.stride - 1) / a.stride;
    check(0);
    if (behind < a.out) check(behind);
  } else {
    for (std::int64_t o = 0; o < a.out; ++o) check(o);
  }
}

}  // namespace

void check_images(const char* op, const Shape& shape, int axes, Where where) {
  if (shape.rank() == axes + 1 || shape.rank() == axes + 2) return;
  const char* const names[] = {"columns", "rows, columns", "depth, rows, columns"};
  const char* const spatial = names[axes - 1];
  base::fail<ShapeError>(where, op, ": the tensor is ", shape, "; it must be [batch, channels, ", spatial,
                         "] or [channels, ", spatial, "].");
}

Shape with_spatial_sizes(const Shape& shape, int axes, const std::int64_t* sizes, Where where) {
  std::int64_t list[kMaxRank];
  const int planes = shape.rank() - axes;
  for (int i = 0; i < shape.rank(); ++i) list[i] = i < planes ? shape[i] : sizes[i - planes];
  return Shape(std::span<const std::int64_t>(list, static_cast<std::size_t>(shape.rank())), where);
}

Pooling pool_windows(const char* op, const Shape& shape, int axes, const Sizes& kernel, WindowRequest request,
                     Where where) {
  check_images(op, shape, axes, where);
  check_sizes(op, "kernel", kernel, axes, 1, where);
  std::int64_t sizes[3], results[3];
  for (int i = 0; i < axes; ++i) sizes[i] = kernel[i];
  if (request.stride.count() == 0) request.stride = kernel;
  Pooling pooling;
  pooling.task.window = resolve_window(op, shape, axes, sizes, request, where);
  for (int i = 0; i < axes; ++i) {
    check_windows_hold_input(op, pooling.task.window.axis[i], i, where);
    results[i] = pooling.task.window.axis[i].out;
  }
  pooling.input = shape;
  pooling.result = with_spatial_sizes(shape, axes, results, where);
  return pooling;
}

Pooling adaptive_windows(const char* op, const Shape& shape, int axes, const Sizes& results, Where where) {
  check_images(op, shape, axes, where);
  if (results.count() == 0)
    base::fail<ShapeError>(where, op, ": no output size is given; it must have 1 or ", axes,
                           " values, one for each spatial axis.");
  check_sizes(op, "output size", results, axes, -1, where);
  Pooling pooling;
  pooling.task.adaptive = true;
  pooling.task.window.axes = axes;
  std::int64_t sizes[3];
  for (int i = 0; i < axes; ++i) {
    const std::int64_t in = shape[shape.rank() - axes + i];
    sizes[i] = results[i] == -1 ? in : results[i];
    if (in == 0 && sizes[i] > 0)
      base::fail<ShapeError>(where, op, ": ", sizes[i], " windows along spatial axis ", i, " of the tensor ", shape,
                             ", which has no places; every window must hold an input.");
    pooling.task.window.axis[i].in = in;
    pooling.task.window.axis[i].out = sizes[i];
  }
  pooling.input = shape;
  pooling.result = with_spatial_sizes(shape, axes, sizes, where);
  return pooling;
}

Pooling global_window(const char* op, const Shape& shape, ReduceOptions options, Where where) {
  std::int64_t places = 1, list[kMaxRank];
  for (int i = 0; i < shape.rank(); ++i) {
    list[i] = i < 2 ? shape[i] : 1;
    if (i >= 2) places *= shape[i];
  }
  if (shape.rank() < 3 || places == 0)
    base::fail<ShapeError>(where, op, ": the tensor is ", shape,
                           "; it must be [batch, channels, ...] with at least one place in each channel.");
  Pooling pooling;
  pooling.task.adaptive = true;
  pooling.task.window.axes = 1;
  pooling.task.window.axis[0].in = places;
  pooling.input = shape;
  const int rank = options.keepdims ? shape.rank() : 2;
  pooling.result = Shape(std::span<const std::int64_t>(list, static_cast<std::size_t>(rank)), where);
  return pooling;
}

void note_windows(const Pooling& pooling) noexcept {
  if (!core::watched(core::kWatchTimes)) return;
  const core::Window& window = pooling.task.window;
  if (window.out() == 0) return;
  std::int64_t held = 1;  // in all windows of a plane
  for (const core::WindowAxis& a : window.axis) {
    std::int64_t along = pooling.task.adaptive ? 0 : a.out * (a.kernel < a.in ? a.kernel : a.in);
    for (std::int64_t o = 0; pooling.task.adaptive && o < a.out; ++o)
      along += ((o + 1) * a.in + a.out - 1) / a.out - o * a.in / a.out;
    held *= along;
  }
  core::operation_reads(pooling.result.numel() / window.out() * held);
}

}  // namespace capstan::autograd
