#pragma once
// Convolutions as layers. Images are [batch, channels, (depth,) (rows,) columns], as ops/convolution.hpp has them.
#include <capstan/nn/init.hpp>
#include <capstan/nn/module.hpp>
#include <capstan/ops/convolution.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace nn {

struct ConvLayerOptions {
  std::int64_t in = 0, out = 0;  ///< channels, >= 1
  Sizes kernel = {};             ///< >= 1; one number for all axes, or one for each
  Sizes stride = 1;
  Borders padding = 0;  ///< numbers, or `nn::same`
  Sizes dilation = 1;
  std::int64_t groups = 1;  ///< divides `in` and `out`
  bool bias = true;
  Initializer weight_init = init::glorot_uniform();
  Initializer bias_init = init::zeros();
  DType dtype = DType::float32;
};

/// A convolution with its kernel and bias. `Conv2d conv{{.in = 1, .out = 32, .kernel = 5, .padding = nn::same}};`
///
/// Shapes  x [batch, in, places...] or [in, places...]; weight [out, in/groups, kernel...]; bias [out]
/// Start   glorot_uniform with in/groups * kernel and out/groups * kernel as its fans; biases 0
/// Throws  ShapeError  channels or kernel sizes below 1, groups that do not divide; or if x does not fit
///         DTypeError  a type that is not floating
template <int kAxes>
class Conv {
 public:
  explicit Conv(const ConvLayerOptions& options, Rng& rng = default_rng(), Where where = Where::current());
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;

  Parameter weight, bias;  ///< `bias` is undefined if switched off
  CAPSTAN_FIELDS(weight, bias);

 private:
  ConvOptions options_;
};
using Conv1d = Conv<1>;
using Conv2d = Conv<2>;
using Conv3d = Conv<3>;

struct ConvTransposeLayerOptions {
  std::int64_t in = 0, out = 0;  ///< channels, >= 1
  Sizes kernel = {};             ///< >= 1
  Sizes stride = 1;
  Borders padding = 0;
  Sizes output_padding = 0;  ///< further places at the end of the result
  Sizes dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  Initializer weight_init = init::glorot_uniform();
  Initializer bias_init = init::zeros();
  DType dtype = DType::float32;
};

/// A transposed convolution with its kernel and bias.
///
/// Shapes  x [batch, in, places...] or [in, places...]; weight [in, out/groups, kernel...]; bias [out]
/// Throws  as `Conv`; ShapeError for an output size from which no convolution gives the input's
template <int kAxes>
class ConvTranspose {
 public:
  explicit ConvTranspose(const ConvTransposeLayerOptions& options, Rng& rng = default_rng(),
                         Where where = Where::current());
  /// `output_size`: the result's sizes instead of those that `output_padding` gives.
  Tensor operator()(const Tensor& x, const Sizes& output_size, Where where = Where::current()) const;
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;

  Parameter weight, bias;  ///< `bias` is undefined if switched off
  CAPSTAN_FIELDS(weight, bias);

 private:
  ConvTransposeOptions options_;
};
using ConvTranspose1d = ConvTranspose<1>;
using ConvTranspose2d = ConvTranspose<2>;
using ConvTranspose3d = ConvTranspose<3>;

struct DepthwiseConv2dOptions {
  std::int64_t in = 0, multiplier = 1;  ///< channels, and results of each, >= 1
  Sizes kernel = {};
  Sizes stride = 1;
  Borders padding = 0;
  Sizes dilation = 1;
  bool bias = true;
  Initializer weight_init = init::glorot_uniform();
  Initializer bias_init = init::zeros();
  DType dtype = DType::float32;
};

/// `depthwise_conv2d` with its kernel [in*multiplier, 1, rows, columns] and bias [in*multiplier]. Throws as `Conv`.
class DepthwiseConv2d {
 public:
  explicit DepthwiseConv2d(const DepthwiseConv2dOptions& options, Rng& rng = default_rng(),
                           Where where = Where::current());
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;

  Parameter weight, bias;  ///< `bias` is undefined if switched off
  CAPSTAN_FIELDS(weight, bias);

 private:
  std::int64_t in_;
  ConvOptions options_;
};

struct SeparableConv2dOptions {
  std::int64_t in = 0, out = 0, multiplier = 1;  ///< channels, and results of each before they are mixed, >= 1
  Sizes kernel = {};
  Sizes stride = 1;
  Borders padding = 0;
  Sizes dilation = 1;
  bool bias = true;
  Initializer weight_init = init::glorot_uniform();
  Initializer bias_init = init::zeros();
  DType dtype = DType::float32;
};

/// `separable_conv2d` with its kernels [in*multiplier, 1, rows, columns] and [out, in*multiplier, 1, 1] and bias [out].
/// Throws as `Conv`.
class SeparableConv2d {
 public:
  explicit SeparableConv2d(const SeparableConv2dOptions& options, Rng& rng = default_rng(),
                           Where where = Where::current());
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;

  Parameter depthwise, pointwise, bias;  ///< `bias` is undefined if switched off
  CAPSTAN_FIELDS(depthwise, pointwise, bias);

 private:
  std::int64_t in_;
  ConvOptions options_;
};

extern template class Conv<1>;
extern template class Conv<2>;
extern template class Conv<3>;
extern template class ConvTranspose<1>;
extern template class ConvTranspose<2>;
extern template class ConvTranspose<3>;

}  // namespace nn
}  // namespace capstan
