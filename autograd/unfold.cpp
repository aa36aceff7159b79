#include <capstan/ops/unfold.hpp>

#include "autograd/ops.hpp"
#include "autograd/window.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::record;
using autograd::Replay;

namespace {

// Each is the transpose of the other, and so its gradient.
Tensor folded(const Tensor& x, const core::Window& window, Where where);

Tensor unfolded(const Tensor& x, const core::Window& window, Where where) {
  const TensorImpl& impl = core::defined("unfold", x, where);
  const auto* a = window.axis;
  const Shape rows({impl.shape[1], a[0].kernel, a[1].kernel, a[2].kernel}, where);
  const Shape windows({a[0].out, a[1].out, a[2].out}, where);
  const Shape shape({impl.shape[0], rows.numel(), windows.numel()}, where);
  Tensor out = autograd::result_like(impl, shape, impl.dtype, where);
  backend_of(impl, where).unfold(impl, window, *out.impl());
  if (!is_floating(impl.dtype)) {
    autograd::note("unfold", where, {&x}, {&out});
    return out;
  }
  record(
      "unfold", where, [](Replay& r) { r.give(0, folded(r.grad(), r.attributes<core::Window>(), r.where())); }, {&x},
      {&out}, {}, window);
  return out;
}

Tensor folded(const Tensor& x, const core::Window& window, Where where) {
  const TensorImpl& impl = core::defined("fold", x, where);
  std::int64_t sizes[5] = {impl.shape[0], impl.shape[1] / window.kernel()};
  for (int i = 0; i < window.axes; ++i) sizes[2 + i] = window.axis[i].in;
  const Shape shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(2 + window.axes)), where);
  Tensor out = autograd::result_like(impl, shape, impl.dtype, where);
  backend_of(impl, where).fold(impl, window, *out.impl());
  record(
      "fold", where, [](Replay& r) { r.give(0, unfolded(r.grad(), r.attributes<core::Window>(), r.where())); }, {&x},
      {&out}, {}, window);
  return out;
}

/// The windows over an image, checked.
core::Window windows_over(const char* op, const Shape& image, const Sizes& kernel, const UnfoldOptions& options,
                          Where where) {
  const int axes = image.rank() - 2;
  autograd::check_sizes(op, "kernel", kernel, axes, 1, where);
  std::int64_t sizes[3] = {};
  for (int i = 0; i < axes; ++i) sizes[i] = kernel[i];
  return autograd::resolve_window(op, image, axes, sizes,
                                  {.stride = options.stride, .padding = options.padding, .dilation = options.dilation},
                                  where);
}

}  // namespace

Tensor unfold(const Tensor& x, const Sizes& kernel, const UnfoldOptions& options, Where where) {
  const Shape shape = core::described("unfold", x, where).shape;
  if (shape.rank() < 3 || shape.rank() > 5)
    base::fail<ShapeError>(where, "unfold: x is ", shape,
                           "; it must be [batch, channels, ...] with 1 to 3 spatial axes.");
  return unfolded(x, windows_over("unfold", shape, kernel, options, where), where);
}

Tensor fold(const Tensor& x, const Sizes& output_size, const Sizes& kernel, const UnfoldOptions& options, Where where) {
  const TensorImpl& impl = core::described("fold", x, where);
  autograd::require_floating("fold", impl, where);
  if (impl.rank() != 3)
    base::fail<ShapeError>(where, "fold: x is ", impl.shape,
                           "; it must be [batch, channels * places of the kernel, windows].");
  const int axes = output_size.count();
  if (axes == 0)
    base::fail<ShapeError>(where, "fold: no output size was given; it must have a number for each spatial axis.");
  autograd::check_sizes("fold", "output size", output_size, axes, 1, where);
  std::int64_t sizes[5] = {1, 1};
  for (int i = 0; i < axes; ++i) sizes[2 + i] = output_size[i];
  const Shape image(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(2 + axes)), where);
  const core::Window window = windows_over("fold", image, kernel, options, where);
  const auto* a = window.axis;
  const std::int64_t taps = Shape({a[0].kernel, a[1].kernel, a[2].kernel}, where).numel();
  const std::int64_t windows = Shape({a[0].out, a[1].out, a[2].out}, where).numel();
  if (impl.shape[1] % taps != 0)
    base::fail<ShapeError>(where, "fold: x is ", impl.shape, " and the kernel has ", taps,
                           " places; the size of axis 1 must be a multiple of them.");
  if (impl.shape[2] != windows)
    base::fail<ShapeError>(where, "fold: x is ", impl.shape, ", and with these settings an image of ",
                           Shape(std::span<const std::int64_t>(sizes + 2, static_cast<std::size_t>(axes)), where),
                           " has ", windows, " windows; the size of axis 2 must be the same.");
  return folded(x, window, where);
}

}  // namespace capstan
