#include <capstan/ops/convolution.hpp>

#include "autograd/ops.hpp"
#include "autograd/window.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::record;
using autograd::Replay;

namespace {

// The three products of a convolution: the result, the gradient for the input and that for the weights. Each is linear
// in two tensors, and the gradients of each are the other two; so gradients of any order are made of these.

struct Names {
  const char *convolution, *transpose, *weight_gradient;
};
constexpr Names names_of[] = {{"conv1d", "conv_transpose1d", "conv1d_weight_gradient"},
                              {"conv2d", "conv_transpose2d", "conv2d_weight_gradient"},
                              {"conv3d", "conv_transpose3d", "conv3d_weight_gradient"}};

struct Setting {
  core::Window window;
  std::int64_t groups;
  bool biased = false;
  const Names& names() const { return names_of[window.axes - 1]; }
};

/// [batch, channels, places...] with the places of one side of the windows.
Shape image_shape(std::int64_t batch, std::int64_t channels, const core::Window& window,
                  std::int64_t core::WindowAxis::*places, Where where) {
  std::int64_t sizes[5] = {batch, channels};
  for (int i = 0; i < window.axes; ++i) sizes[2 + i] = window.axis[i].*places;
  return Shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(2 + window.axes)), where);
}

void convolution_replay(Replay& r);
void transposed_replay(Replay& r);
void weight_gradient_replay(Replay& r);

/// Of a and b, with a bias that may be undefined.
void record_product(const char* op, void (*replay)(Replay&), const Tensor& a, const Tensor& b, const Tensor& bias,
                    Tensor& out, const Setting& s, Where where) {
  if (!autograd::attended()) return;
  const autograd::ProductSaves saves(a, b);
  if (bias.defined()) record(op, where, replay, {&a, &b, &bias}, {&out}, {saves.left, saves.right}, s);
  else record(op, where, replay, {&a, &b}, {&out}, {saves.left, saves.right}, s);
}

Tensor convolution(const Tensor& x, const Tensor& w, const Tensor& bias, Setting s, Where where) {
  s.biased = bias.defined();
  const Tensor image = autograd::dense(x, where), kernel = autograd::dense(w, where);
  const Tensor start = s.biased ? autograd::dense(bias, where) : Tensor();
  const TensorImpl& a = *image.impl();
  Tensor out = autograd::result_like(a, image_shape(x.size(0), w.size(0), s.window, &core::WindowAxis::out, where),
                                     a.dtype, where);
  backend_of(a, where).convolve(a, *kernel.impl(), start.impl(), s.window, s.groups, *out.impl());
  record_product(s.names().convolution, &convolution_replay, x, w, bias, out, s, where);
  return out;
}

Tensor transposed(const Tensor& g, const Tensor& w, const Tensor& bias, Setting s, Where where) {
  s.biased = bias.defined();
  const Tensor image = autograd::dense(g, where), kernel = autograd::dense(w, where);
  const Tensor start = s.biased ? autograd::dense(bias, where) : Tensor();
  const TensorImpl& a = *image.impl();
  Tensor out = autograd::result_like(
      a, image_shape(g.size(0), w.size(1) * s.groups, s.window, &core::WindowAxis::in, where), a.dtype, where);
  backend_of(a, where).convolve_transposed(a, *kernel.impl(), start.impl(), s.window, s.groups, *out.impl());
  record_product(s.names().transpose, &transposed_replay, g, w, bias, out, s, where);
  return out;
}

/// For the weights of a convolution of x whose result has the gradient g.
Tensor weight_gradient(const Tensor& x, const Tensor& g, const Setting& s, Where where) {
  const Tensor image = autograd::dense(x, where), grad = autograd::dense(g, where);
  const TensorImpl& a = *image.impl();
  const Shape shape = image_shape(g.size(1), x.size(1) / s.groups, s.window, &core::WindowAxis::kernel, where);
  Tensor out = autograd::result_like(a, shape, a.dtype, where);
  backend_of(a, where).convolve_weight(a, *grad.impl(), s.window, s.groups, *out.impl());
  record_product(s.names().weight_gradient, &weight_gradient_replay, x, g, Tensor(), out, s, where);
  return out;
}

/// Over all axes but that of the channels.
Tensor bias_gradient(const Tensor& grad, Where where) {
  int axes[4] = {0};
  for (int axis = 2; axis < grad.rank(); ++axis) axes[axis - 1] = axis;
  return sum(grad, Axes(std::span<const int>(axes, static_cast<std::size_t>(grad.rank() - 1)), where), {}, where);
}

void convolution_replay(Replay& r) {
  const auto s = r.attributes<Setting>();
  const Where where = r.where();
  if (r.needs(0)) r.give(0, transposed(r.grad(), r.saved(1), Tensor(), s, where));
  if (r.needs(1)) r.give(1, weight_gradient(r.saved(0), r.grad(), s, where));
  if (s.biased && r.needs(2)) r.give(2, bias_gradient(r.grad(), where));
}

void transposed_replay(Replay& r) {
  const auto s = r.attributes<Setting>();
  const Where where = r.where();
  if (r.needs(0)) r.give(0, convolution(r.grad(), r.saved(1), Tensor(), s, where));
  if (r.needs(1)) r.give(1, weight_gradient(r.grad(), r.saved(0), s, where));
  if (s.biased && r.needs(2)) r.give(2, bias_gradient(r.grad(), where));
}

void weight_gradient_replay(Replay& r) {
  const auto s = r.attributes<Setting>();
  const Where where = r.where();
  if (r.needs(0)) r.give(0, transposed(r.saved(1), r.grad(), Tensor(), s, where));
  if (r.needs(1)) r.give(1, convolution(r.saved(0), r.grad(), Tensor(), s, where));
}

// --- checks ---

void check_types(const char* op, const TensorImpl& x, const char* what, const Tensor& tensor, Where where) {
  const TensorImpl& t = core::defined(op, tensor, where);
  core::require_same_device(op, x, t, where);
  if (t.dtype != x.dtype)
    base::fail<DTypeError>(where, op, ": the input is ", x.dtype, " and the ", what, " is ", t.dtype,
                           "; all must have one type.");
}

void check_operands(const char* op, const Tensor& input, const Tensor& weight, const Tensor& bias, int axes,
                    std::int64_t groups, Where where) {
  static constexpr const char* spatial[] = {"columns", "rows, columns", "depth, rows, columns"};
  const TensorImpl& x = core::defined(op, input, where);
  autograd::require_floating(op, x, where);
  check_types(op, x, "kernel", weight, where);
  if (bias.defined()) check_types(op, x, "bias", bias, where);
  if (x.rank() != axes + 2 && x.rank() != axes + 1)
    base::fail<ShapeError>(where, op, ": the input is ", x.shape, "; it must be [batch, channels, ", spatial[axes - 1],
                           "] or [channels, ", spatial[axes - 1], "].");
  if (weight.rank() != axes + 2)
    base::fail<ShapeError>(where, op, ": the kernel is ", weight.shape(), "; it must have ", axes + 2, " axes.");
  if (groups < 1) base::fail<ShapeError>(where, op, ": groups is ", groups, "; it must be at least 1.");
  if (weight.size(0) < 1 || weight.size(1) < 1)
    base::fail<ShapeError>(where, op, ": the kernel is ", weight.shape(), "; it must have channels.");
  if (weight.size(0) % groups != 0)
    base::fail<ShapeError>(where, op, ": the kernel ", weight.shape(), " has ", weight.size(0),
                           " channels along its first axis; ", groups, " groups must divide them.");
}

void check_channels(const char* op, const Tensor& input, const Tensor& weight, std::int64_t channels,
                    std::int64_t expected, std::int64_t groups, Where where) {
  if (channels == expected) return;
  if (groups == 1)
    base::fail<ShapeError>(where, op, ": input has ", channels, " channels but the kernel ", weight.shape(),
                           " expects ", expected);
  base::fail<ShapeError>(where, op, ": input has ", channels, " channels but the kernel ", weight.shape(), " with ",
                         groups, " groups expects ", expected, "; the input is ", input.shape(), ".");
}

void check_bias(const char* op, const Tensor& bias, std::int64_t channels, Where where) {
  if (bias.defined() && (bias.rank() != 1 || bias.size(0) != channels))
    base::fail<ShapeError>(where, op, ": the bias is ", bias.shape(), " and the result has ", channels,
                           " channels; the bias must be [", channels, "].");
}

/// What a convolution over images without a batch axis gives.
template <class Run>
Tensor with_batch(const Tensor& input, int axes, Where where, Run run) {
  if (input.rank() == axes + 2) return run(input);
  const autograd::Rollback rollback;
  return squeeze(run(expand_dims(input, 0, where)), 0, where);
}

Tensor convolve(int axes, const Tensor& input, const Tensor& weight, const Tensor& bias, const ConvOptions& o,
                Where where) {
  if (autograd::lowers(input, weight, bias)) [[unlikely]]
    return autograd::lowered(&convolve, where, axes, input, weight, bias, o);
  const char* op = names_of[axes - 1].convolution;
  check_operands(op, input, weight, bias, axes, o.groups, where);
  check_channels(op, input, weight, input.size(-1 - axes), weight.size(1) * o.groups, o.groups, where);
  check_bias(op, bias, weight.size(0), where);
  const core::Window window = autograd::resolve_window(op, input.shape(), axes, weight.shape().begin() + 2,
                                                       {o.stride, o.padding, o.dilation, false}, where);
  return with_batch(input, axes, where, [&](const Tensor& x) {
    return convolution(x, weight, bias, {window, o.groups}, where);
  });
}

/// The size that a transposed convolution gives one axis of n places.
std::int64_t transposed_size(const char* op, int axis, std::int64_t n, std::int64_t kernel,
                             const ConvTransposeOptions& o, Where where) {
  const std::int64_t stride = o.stride[axis], extent = (kernel - 1) * o.dilation[axis] + 1;
  constexpr std::int64_t kMost = std::int64_t{1} << 62;  // every other setting is far smaller
  if (n > 1 && stride > kMost / (n - 1))
    base::fail<ShapeError>(where, op, ": the input's ", n, " places along spatial axis ", axis, " with a stride of ",
                           stride, " give a result of more than 2^62.");
  const bool same = o.padding.same();
  const std::int64_t least =
      same ? (n - 1) * stride + 1 : (n - 1) * stride + extent - o.padding[axis].before - o.padding[axis].after;
  const std::int64_t most = least + stride - 1;
  const std::int64_t extra = o.output_padding.count() > 0 ? o.output_padding[axis] : 0;
  std::int64_t size = same ? most : least;
  if (o.output_size.count() > 0) size = o.output_size[axis];
  else if (same && extra != 0)
    base::fail<ShapeError>(where, op, ": an output padding of ", extra,
                           " was given with PaddingRule::same; ask for an output size instead.");
  else if (!same) size = least + extra;
  if (most < 1)
    base::fail<ShapeError>(where, op, ": the padding crops spatial axis ", axis, " away: of ",
                           most + o.padding[axis].before + o.padding[axis].after, " places it takes ",
                           o.padding[axis].before, " and ", o.padding[axis].after, "; one must be left.");
  if (size < least || size > most || size < 1)
    base::fail<ShapeError>(where, op, ": spatial axis ", axis, " of the result would have size ", size,
                           ", from which no convolution with these settings gives the input's ", n, "; it must be in [",
                           least > 1 ? least : 1, ", ", most, "].");
  return size;
}

Tensor convolve_transposed(int axes, const Tensor& input, const Tensor& weight, const Tensor& bias,
                           const ConvTransposeOptions& o, Where where) {
  if (autograd::lowers(input, weight, bias)) [[unlikely]]
    return autograd::lowered(&convolve_transposed, where, axes, input, weight, bias, o);
  const char* op = names_of[axes - 1].transpose;
  check_operands(op, input, weight, bias, axes, o.groups, where);
  check_channels(op, input, weight, input.size(-1 - axes), weight.size(0), o.groups, where);
  const std::int64_t channels = weight.size(1) * o.groups;
  check_bias(op, bias, channels, where);
  autograd::check_sizes(op, "output padding", o.output_padding, axes, 0, where);
  autograd::check_sizes(op, "output size", o.output_size, axes, 1, where);
  const std::int64_t* kernel = weight.shape().begin() + 2;
  // all other settings are checked as those of the convolution over a plane that no kernel exceeds
  autograd::check_window_settings(op, axes, kernel, {o.stride, o.padding, o.dilation, false}, where);
  std::int64_t sizes[5] = {1, channels};
  for (int i = 0; i < axes; ++i) sizes[2 + i] = transposed_size(op, i, input.size(i - axes), kernel[i], o, where);
  const Shape result(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(2 + axes)), where);
  const core::Window window =
      autograd::resolve_window(op, result, axes, kernel, {o.stride, o.padding, o.dilation, false}, where);
  return with_batch(input, axes, where, [&](const Tensor& x) {
    return transposed(x, weight, bias, {window, o.groups}, where);
  });
}

}  // namespace

Tensor conv1d(const Tensor& input, const Tensor& weight, const Tensor& bias, const ConvOptions& options, Where where) {
  return convolve(1, input, weight, bias, options, where);
}
Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias, const ConvOptions& options, Where where) {
  return convolve(2, input, weight, bias, options, where);
}
Tensor conv3d(const Tensor& input, const Tensor& weight, const Tensor& bias, const ConvOptions& options, Where where) {
  return convolve(3, input, weight, bias, options, where);
}

Tensor conv_transpose1d(const Tensor& input, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions& options, Where where) {
  return convolve_transposed(1, input, weight, bias, options, where);
}
Tensor conv_transpose2d(const Tensor& input, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions& options, Where where) {
  return convolve_transposed(2, input, weight, bias, options, where);
}
Tensor conv_transpose3d(const Tensor& input, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions& options, Where where) {
  return convolve_transposed(3, input, weight, bias, options, where);
}

Tensor depthwise_conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias, const ConvOptions& options,
                        Where where) {
  const TensorImpl& x = core::defined("depthwise_conv2d", input, where);
  const Shape& kernel = core::defined("depthwise_conv2d", weight, where).shape;
  if (options.groups != 1)
    base::fail<Error>(where, "depthwise_conv2d: groups is ", options.groups,
                      "; leave it alone, every channel is a group of its own.");
  if (x.rank() < 3)
    base::fail<ShapeError>(where, "depthwise_conv2d: the input is ", x.shape,
                           "; it must be [batch, channels, rows, columns] or [channels, rows, columns].");
  const std::int64_t channels = x.shape[x.rank() - 3];
  if (channels > 0 && kernel.rank() == 4 && (kernel[0] % channels != 0 || kernel[1] != 1))
    base::fail<ShapeError>(where, "depthwise_conv2d: the input has ", channels, " channels and the kernel is ", kernel,
                           "; it must be [a multiple of ", channels, ", 1, rows, columns].");
  ConvOptions grouped = options;
  grouped.groups = channels;
  return conv2d(input, weight, bias, grouped, where);
}

Tensor separable_conv2d(const Tensor& input, const Tensor& depthwise, const Tensor& pointwise, const Tensor& bias,
                        const ConvOptions& options, Where where) {
  const Shape& mixing = core::defined("separable_conv2d", pointwise, where).shape;
  if (mixing.rank() == 4 && (mixing[2] != 1 || mixing[3] != 1))
    base::fail<ShapeError>(where, "separable_conv2d: the pointwise kernel is ", mixing,
                           "; it must be [out, channels, 1, 1].");
  if (autograd::lowers(input, depthwise, pointwise, bias)) [[unlikely]]
    return autograd::lowered(&separable_conv2d, where, input, depthwise, pointwise, bias, options);
  const autograd::Rollback rollback;
  return conv2d(depthwise_conv2d(input, depthwise, Tensor(), options, where), pointwise, bias, {}, where);
}

}  // namespace capstan
