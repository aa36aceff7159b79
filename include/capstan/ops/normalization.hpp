#pragma once
// Values brought to mean 0 and variance 1, along rows, channels or groups of them; vectors brought to length 1.
//
// Images are [batch, channels, ...]: any number of spatial axes. Variances are those of the population (divided by the
// count). Statistics are found in two passes over what lies in the cache, about the mean; up to 32 values are
// added in their type (128 down columns), their sums in double. So values around a large mean lose no digits by it.
// float16 and bfloat16 are computed in float32; beside them weight, bias and given statistics may be float32. `weight`
// and `bias` may each be undefined for none. Results do not depend on the number of threads.
// Gradients exist for x, weight and bias, to any order. What is kept for them: x, and two numbers for each row, group
// or channel that is normalized.
// Throws ShapeError, DTypeError or DeviceError for a weight, bias or statistic that does not fit x, DTypeError for an x
// that is not floating, Error for an epsilon that is negative or not finite.
// Defined in autograd/layer_norm.cpp, batch_norm.cpp, group_norm.cpp and response_norm.cpp.
#include <capstan/ops/reduce.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// The last axes of a tensor: how many, or their sizes, which must be the tensor's. `1`, `{64}`, `{3, 64}`.
class LastAxes {
 public:
  template <std::integral T>
  LastAxes(T count) noexcept : count_(static_cast<std::int64_t>(count)) {}
  LastAxes(std::initializer_list<std::int64_t> sizes, Where where = Where::current()) : LastAxes(Shape(sizes, where)) {}
  LastAxes(const Shape& sizes) noexcept : sizes_(sizes), count_(sizes.rank()), by_sizes_(true) {}

  std::int64_t count() const noexcept { return count_; }
  /// Null if given by their number.
  const Shape* sizes() const noexcept { return by_sizes_ ? &sizes_ : nullptr; }

 private:
  Shape sizes_;
  std::int64_t count_;
  bool by_sizes_ = false;
};

/// Layer normalization: each row of the last axes by its own mean and variance.
///
///   out = (x - mean) / sqrt(variance + epsilon) * weight + bias
///
/// Shapes    x [..., axes...]; weight and bias [axes...]; result as x
/// Types     floating
/// Gradient  for x, weight and bias
/// Cost      x is read from memory once, also for the gradient
/// Throws    ShapeError  no axes, more than x has, or sizes that x does not end in; see above for the others
/// Source    Ba, Kiros and Hinton 2016, "Layer normalization"
Tensor layer_norm(const Tensor& x, const LastAxes& axes = 1, const Tensor& weight = Tensor(),
                  const Tensor& bias = Tensor(), double epsilon = 1e-5, Where where = Where::current());

/// The same without a mean and a bias: out = x / sqrt(mean(x^2) + epsilon) * weight. `epsilon` is Keras's default;
/// PyTorch's is the type's spacing at 1. Zhang and Sennrich 2019, "Root mean square layer normalization".
Tensor rms_norm(const Tensor& x, const LastAxes& axes = 1, const Tensor& weight = Tensor(), double epsilon = 1e-6,
                Where where = Where::current());

/// Batch normalization with statistics that are given, as after training.
///
///   out[n, c, ...] = (x[n, c, ...] - mean[c]) / sqrt(variance[c] + epsilon) * weight[c] + bias[c]
///
/// Shapes    x [batch, channels, ...], two axes or more; the others [channels]
/// Types     floating
/// Gradient  for all five
/// Throws    ShapeError  fewer than two axes; see above for the others
/// Source    Ioffe and Szegedy 2015, "Batch normalization"
Tensor batch_norm(const Tensor& x, const Tensor& mean, const Tensor& variance, const Tensor& weight = Tensor(),
                  const Tensor& bias = Tensor(), double epsilon = 1e-5, Where where = Where::current());

struct BatchNormResult {
  Tensor output;          ///< as x
  Tensor mean, variance;  ///< of each channel, [channels]; float32 for 16-bit types
};

/// Batch normalization with the statistics of the batch itself, which are returned for running averages. The variance
/// is that of the population; a running one usually takes count / (count - 1) of it (`nn::BatchNorm` does).
///
/// Shapes    x [batch, channels, ...], two axes or more, with two values or more for each channel, or with none at all:
///           then both statistics are 0
/// Gradient  for x, weight and bias, through all three results
/// Throws    ShapeError  fewer than two axes, one value for each channel; see above for the others
BatchNormResult batch_norm_training(const Tensor& x, const Tensor& weight = Tensor(), const Tensor& bias = Tensor(),
                                    double epsilon = 1e-5, Where where = Where::current());

/// Group normalization: channels in `groups` equal parts, each by its own mean and variance in each sample.
///
/// Shapes    x [batch, channels, ...], two axes or more; weight and bias [channels]
/// Throws    ShapeError  fewer than two axes; groups below 1, or not dividing the channels
/// Source    Wu and He 2018, "Group normalization"
Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight = Tensor(), const Tensor& bias = Tensor(),
                  double epsilon = 1e-5, Where where = Where::current());

/// Instance normalization: each channel of each sample by itself.
///
/// Shapes    x [batch, channels, ...], three axes or more, with two places or more, or without elements
/// Throws    ShapeError  fewer than three axes, a single place
/// Source    Ulyanov, Vedaldi and Lempitsky 2016, "Instance normalization"
Tensor instance_norm(const Tensor& x, const Tensor& weight = Tensor(), const Tensor& bias = Tensor(),
                     double epsilon = 1e-5, Where where = Where::current());

struct ResponseNormOptions {
  double alpha = 1e-4, beta = 0.75, k = 1;
};

/// Local response normalization: each element by the squares of `size` channels around it.
///
///   out[n, c, ...] = x[n, c, ...] * (k + alpha/size * sum(x[n, d, ...]^2))^-beta,  c - size/2 <= d <= c + (size-1)/2
///
/// where channels that are not there count as zeros: PyTorch's formula (TensorFlow's has no division by the size, and a
/// radius: size = 2*radius + 1, alpha times that).
/// Shapes    x [batch, channels, ...], three axes or more
/// Gradient  for x, which alone is kept
/// Cost      size additions and a power for each element
/// Throws    ShapeError  fewer than three axes, a size below 1
/// Source    Krizhevsky, Sutskever and Hinton 2012, "ImageNet classification with deep convolutional neural networks"
Tensor local_response_norm(const Tensor& x, std::int64_t size, const ResponseNormOptions& options = {},
                           Where where = Where::current());

/// x / max(norm, epsilon), with the norm of that order over axes: vectors of length 1, and zeros of zeros
/// (NaN if epsilon is 0).
///
/// Types     floating
/// Gradient  to any order
/// Throws    as `vector_norm`; Error for an epsilon that is negative or not finite
Tensor normalize(const Tensor& x, double order = 2, Axes axes = -1, double epsilon = 1e-12,
                 Where where = Where::current());

}  // namespace capstan
