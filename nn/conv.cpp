#include <capstan/nn/conv.hpp>

#include "lib/base/text.hpp"
#include "nn/mixed_types.hpp"

namespace capstan::nn {
namespace {

constexpr const char* conv_names[] = {"Conv1d", "Conv2d", "Conv3d"};
constexpr const char* transpose_names[] = {"ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"};

void check_each(const char* layer, const char* what, const Sizes& sizes, int axes, std::int64_t least, Where where) {
  if (sizes.count() != 1 && sizes.count() != axes)
    base::fail<ShapeError>(where, layer, ": the ", what, " has ", sizes.count(), " values; it must have 1 or ", axes,
                           ", one for each spatial axis.");
  for (int axis = 0; axis < sizes.count(); ++axis)
    if (sizes[axis] < least)
      base::fail<ShapeError>(where, layer, ": the ", what, " of spatial axis ", axis, " is ", sizes[axis],
                             "; it must be at least ", least, ".");
}

template <class Options>
void check_settings(const char* layer, const Options& o, int axes, Where where) {
  check_floating(layer, o.dtype, where);
  check_each(layer, "kernel", o.kernel, axes, 1, where);
  check_each(layer, "stride", o.stride, axes, 1, where);
  check_each(layer, "dilation", o.dilation, axes, 1, where);
  if (o.padding.same()) return;
  if (o.padding.count() != 1 && o.padding.count() != axes)
    base::fail<ShapeError>(where, layer, ": the padding has ", o.padding.count(), " values; it must have 1 or ", axes,
                           ", one for each spatial axis.");
  for (int axis = 0; axis < o.padding.count(); ++axis)
    if (o.padding[axis].before < 0 || o.padding[axis].after < 0)
      base::fail<ShapeError>(where, layer, ": the padding of spatial axis ", axis, " is ", o.padding[axis].before,
                             " and ", o.padding[axis].after, "; it must not be negative.");
}

void check_channels(const char* layer, std::int64_t in, std::int64_t out, std::int64_t groups, Where where) {
  if (in < 1 || out < 1)
    base::fail<ShapeError>(where, layer, ": ", in, " input and ", out,
                           " output channels were asked for; both must be >= 1.");
  if (groups < 1 || in % groups != 0 || out % groups != 0)
    base::fail<ShapeError>(where, layer, ": ", groups, " groups were asked for; they must divide the ", in,
                           " input and ", out, " output channels.");
}

/// What a depthwise convolution of `in` channels gives.
std::int64_t multiplied(const char* layer, std::int64_t in, std::int64_t multiplier, Where where) {
  std::int64_t out = 0;
  if (__builtin_mul_overflow(in, multiplier, &out))
    base::fail<ShapeError>(where, layer, ": ", in, " input channels times ", multiplier, " are 2^63 or more.");
  check_channels(layer, in, out, 1, where);
  return out;
}

/// [first, second, kernel...].
Shape kernel_shape(std::int64_t first, std::int64_t second, const Sizes& kernel, int axes, Where where) {
  std::int64_t sizes[5] = {first, second};
  for (int axis = 0; axis < axes; ++axis) sizes[2 + axis] = kernel[axis];
  return Shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(2 + axes)), where);
}

/// What one output reads, of `in` channels, and what one input goes to.
Fans kernel_fans(std::int64_t in, std::int64_t out, const Sizes& kernel, int axes) {
  double window = 1;
  for (int axis = 0; axis < axes; ++axis) window *= static_cast<double>(kernel[axis]);
  return {window * static_cast<double>(in), window * static_cast<double>(out)};
}

template <class Options>
Parameter make_bias(const Options& o, std::int64_t channels, Rng& rng, Where where) {
  if (!o.bias) return {};
  return Parameter(o.bias_init(Shape({channels}), rng, {o.dtype}, where), where);
}

/// A kernel of one channel fits any number of channels that divides its own: only the layer knows what it was made for.
void check_input(const char* layer, const Tensor& x, std::int64_t channels, Where where) {
  if (x.rank(where) < 3 || x.size(-3) == channels) return;
  base::fail<ShapeError>(where, layer, ": the input is ", x.shape(), ", which has ", x.size(-3),
                         " channels; the layer was made for ", channels, ".");
}

}  // namespace

template <int kAxes>
Conv<kAxes>::Conv(const ConvLayerOptions& o, Rng& rng, Where where)
    : options_{o.stride, o.padding, o.dilation, o.groups} {
  const char* layer = conv_names[kAxes - 1];
  check_channels(layer, o.in, o.out, o.groups, where);
  check_settings(layer, o, kAxes, where);
  const Shape shape = kernel_shape(o.out, o.in / o.groups, o.kernel, kAxes, where);
  const Fans fans = kernel_fans(o.in / o.groups, o.out / o.groups, o.kernel, kAxes);
  weight = Parameter(o.weight_init(shape, fans, rng, {o.dtype}, where), where);
  bias = make_bias(o, o.out, rng, where);
}

template <int kAxes>
Tensor Conv<kAxes>::operator()(const Tensor& x, Where where) const {
  if constexpr (kAxes == 1) return conv1d(x, weight, bias, options_, where);
  else if constexpr (kAxes == 2) return conv2d(x, weight, bias, options_, where);
  else return conv3d(x, weight, bias, options_, where);
}

template <int kAxes>
ConvTranspose<kAxes>::ConvTranspose(const ConvTransposeLayerOptions& o, Rng& rng, Where where)
    : options_{o.stride, o.padding, o.output_padding, {}, o.dilation, o.groups} {
  const char* layer = transpose_names[kAxes - 1];
  check_channels(layer, o.in, o.out, o.groups, where);
  check_settings(layer, o, kAxes, where);
  check_each(layer, "output padding", o.output_padding, kAxes, 0, where);
  const Shape shape = kernel_shape(o.in, o.out / o.groups, o.kernel, kAxes, where);
  const Fans fans = kernel_fans(o.in / o.groups, o.out / o.groups, o.kernel, kAxes);
  weight = Parameter(o.weight_init(shape, fans, rng, {o.dtype}, where), where);
  bias = make_bias(o, o.out, rng, where);
}

template <int kAxes>
Tensor ConvTranspose<kAxes>::operator()(const Tensor& x, const Sizes& output_size, Where where) const {
  ConvTransposeOptions options = options_;
  options.output_size = output_size;
  if constexpr (kAxes == 1) return conv_transpose1d(x, weight, bias, options, where);
  else if constexpr (kAxes == 2) return conv_transpose2d(x, weight, bias, options, where);
  else return conv_transpose3d(x, weight, bias, options, where);
}
template <int kAxes>
Tensor ConvTranspose<kAxes>::operator()(const Tensor& x, Where where) const {
  return (*this)(x, Sizes(), where);
}

template class Conv<1>;
template class Conv<2>;
template class Conv<3>;
template class ConvTranspose<1>;
template class ConvTranspose<2>;
template class ConvTranspose<3>;

DepthwiseConv2d::DepthwiseConv2d(const DepthwiseConv2dOptions& o, Rng& rng, Where where)
    : in_(o.in), options_{o.stride, o.padding, o.dilation, 1} {
  const char* layer = "DepthwiseConv2d";
  const std::int64_t out = multiplied(layer, o.in, o.multiplier, where);
  check_settings(layer, o, 2, where);
  const Shape shape = kernel_shape(out, 1, o.kernel, 2, where);
  const Fans fans = kernel_fans(1, o.multiplier, o.kernel, 2);
  weight = Parameter(o.weight_init(shape, fans, rng, {o.dtype}, where), where);
  bias = make_bias(o, out, rng, where);
}

Tensor DepthwiseConv2d::operator()(const Tensor& x, Where where) const {
  check_input("DepthwiseConv2d", x, in_, where);
  return depthwise_conv2d(x, weight, bias, options_, where);
}

SeparableConv2d::SeparableConv2d(const SeparableConv2dOptions& o, Rng& rng, Where where)
    : in_(o.in), options_{o.stride, o.padding, o.dilation, 1} {
  const char* layer = "SeparableConv2d";
  check_channels(layer, o.in, o.out, 1, where);
  const std::int64_t middle = multiplied(layer, o.in, o.multiplier, where);
  check_settings(layer, o, 2, where);
  const TensorOptions type{o.dtype};
  const Shape deep = kernel_shape(middle, 1, o.kernel, 2, where), mixing = kernel_shape(o.out, middle, 1, 2, where);
  const Fans fans = kernel_fans(1, o.multiplier, o.kernel, 2);
  depthwise = Parameter(o.weight_init(deep, fans, rng, type, where), where);
  pointwise = Parameter(o.weight_init(mixing, kernel_fans(middle, o.out, 1, 2), rng, type, where), where);
  bias = make_bias(o, o.out, rng, where);
}

Tensor SeparableConv2d::operator()(const Tensor& x, Where where) const {
  check_input("SeparableConv2d", x, in_, where);
  return separable_conv2d(x, depthwise, pointwise, bias, options_, where);
}

}  // namespace capstan::nn
