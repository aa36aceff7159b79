#pragma once
// Convolution and its transpose over one, two or three spatial axes.
//
// Layout: inputs are [batch, channels, (depth,) (rows,) columns], kernels [out, in / groups, (depth,) (rows,) columns];
// ops/layout.hpp turns TensorFlow's around. Kernels are not flipped. An input without the batch axis gives a result
// without it.
#include <capstan/ops/window.hpp>

namespace capstan CAPSTAN_PUBLIC {

struct ConvOptions {
  Sizes stride = 1;         ///< >= 1
  Borders padding = 0;      ///< zeros at the borders: numbers, or PaddingRule::same
  Sizes dilation = 1;       ///< from one tap to the next, >= 1
  std::int64_t groups = 1;  ///< the channels of input and output in so many parts, each of which sees its own only
};

/// Slides `weight` over `input` and sums the products (cross-correlation). In two axes, in group g of the output's o:
///
///   out[n,o,y,x] = bias[o] + sum(i,r,c) input[n, g*in/groups + i, y*stride+r*dilation-top, x*stride+c*dilation-left]
///                                       * weight[o,i,r,c]
///
/// Shapes    input [batch, in, rows, columns] or [in, rows, columns]; weight [out, in/groups, kernel rows, kernel columns];
///           bias [out], or Tensor{} for none; result [batch, out, y, x] with
///           y = floor((rows + top + bottom - dilation*(kernel rows - 1) - 1) / stride) + 1, x likewise;
///           with PaddingRule::same y = ceil(rows / stride)
/// Types     one floating type for all; float16 and bfloat16 are computed in float32
/// Gradient  for input, weight and bias, to any order; keeps input and weight
/// Cost      2*batch*out*y*x*(in/groups)*kernel operations; in scratch memory the weights and a block of the input, or of
///           many weights some, and 8 MiB of the input, or of what windows meet that do not overlap, or a little more.
///           Kernels of 3 or 5 columns with stride and dilation 1 take half or 3/5 of the products where there are many
///           channels (minimal filtering, Winograd 1980): as exact as the plain sum where the elements of a row are of
///           like size. An element reaches up to 5 columns beyond its window then, with 2^-24 of its size; one that is
///           infinite, NaN or above 1e38 does not: what it would reach is summed plainly
/// Throws    ShapeError   ranks or channels do not fit, groups do not divide them, a kernel that exceeds the padded input,
///                        or reaches over 2^31 elements of it, stride or dilation below 1     DTypeError, DeviceError
/// Source    Dumoulin, Visin: A guide to convolution arithmetic for deep learning, 2016
Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias = Tensor(), const ConvOptions& options = {},
              Where where = Where::current());
/// `conv2d` over one axis.
Tensor conv1d(const Tensor& input, const Tensor& weight, const Tensor& bias = Tensor(), const ConvOptions& options = {},
              Where where = Where::current());
/// `conv2d` over three axes.
Tensor conv3d(const Tensor& input, const Tensor& weight, const Tensor& bias = Tensor(), const ConvOptions& options = {},
              Where where = Where::current());

struct ConvTransposeOptions {
  Sizes stride = 1;          ///< >= 1
  Borders padding = 0;       ///< that of the convolution which this one transposes: it crops the result
  Sizes output_padding = 0;  ///< further places at the end of the result, below the stride
  Sizes output_size = {};    ///< instead: the result's sizes; any from which the convolution gives the input's
  Sizes dilation = 1;
  std::int64_t groups = 1;
};

/// The transpose of `conv2d`: its gradient for the input, also called deconvolution. Every input element adds its multiple
/// of the kernel to the result, `stride` apart.
///
/// Shapes    input [batch, in, rows, columns] or without batch; weight [in, out/groups, kernel rows, kernel columns];
///           bias [out] or Tensor{}; result [batch, out, y, x] with
///           y = (rows-1)*stride - top - bottom + dilation*(kernel rows - 1) + 1 + output_padding, or the size asked for;
///           with PaddingRule::same y = rows*stride, and any size may be asked for whose ceil(y / stride) is `rows`
/// Types, gradient, cost as for `conv2d`
/// Throws    ShapeError   as `conv2d`; a size from which no convolution with these settings gives the input
Tensor conv_transpose2d(const Tensor& input, const Tensor& weight, const Tensor& bias = Tensor(),
                        const ConvTransposeOptions& options = {}, Where where = Where::current());
/// `conv_transpose2d` over one axis.
Tensor conv_transpose1d(const Tensor& input, const Tensor& weight, const Tensor& bias = Tensor(),
                        const ConvTransposeOptions& options = {}, Where where = Where::current());
/// `conv_transpose2d` over three axes.
Tensor conv_transpose3d(const Tensor& input, const Tensor& weight, const Tensor& bias = Tensor(),
                        const ConvTransposeOptions& options = {}, Where where = Where::current());

/// A convolution of each channel by itself: `conv2d` with as many groups as input channels.
///
/// Shapes    input [batch, in, rows, columns]; weight [in*multiplier, 1, kernel rows, kernel columns]; bias [in*multiplier]
/// Throws    Error if `options.groups` is set; ShapeError as `conv2d`, and for a kernel of another shape
Tensor depthwise_conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias = Tensor(),
                        const ConvOptions& options = {}, Where where = Where::current());
/// `depthwise_conv2d`, then a mixing of the channels by a kernel of one element. Chollet 2017.
///
/// Shapes    depthwise [in*multiplier, 1, kernel rows, kernel columns]; pointwise [out, in*multiplier, 1, 1]; bias [out]
/// Throws    as `depthwise_conv2d`; ShapeError for a pointwise kernel of more than one element
Tensor separable_conv2d(const Tensor& input, const Tensor& depthwise, const Tensor& pointwise,
                        const Tensor& bias = Tensor(), const ConvOptions& options = {}, Where where = Where::current());

}  // namespace capstan
