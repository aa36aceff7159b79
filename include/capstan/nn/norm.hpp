#pragma once
// Layers that normalize: the operations of ops/normalization.hpp with parameters and running statistics.
//
//   nn::BatchNorm2d norm{{.channels = 64}};
//
// Constructors throw ShapeError for sizes, channels or groups that are missing, below 1 or do not divide, Error for an
// epsilon or a momentum out of range, DTypeError for a dtype that is not floating; calls throw ShapeError for inputs of
// another rank or another number of channels and for running statistics that are not [channels], DTypeError for another
// type than theirs, and what the operations throw; then no running statistic has moved. `weight` and `bias` are
// undefined if switched off. Defined in nn/norm.cpp.
#include <optional>

#include <capstan/nn/fields.hpp>
#include <capstan/nn/init.hpp>
#include <capstan/ops/normalization.hpp>
#include <capstan/parameter.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace nn {

struct LayerNormOptions {
  Shape sizes = {};  ///< of the last axes, which are normalized together, and of weight and bias
  double epsilon = 1e-5;
  bool weight = true, bias = true;
  Initializer weight_init = init::ones(), bias_init = init::zeros();
  DType dtype = DType::float32;
};

/// `layer_norm`.
class LayerNorm {
 public:
  explicit LayerNorm(const LayerNormOptions& options, Rng& rng = default_rng(), Where where = Where::current());
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;

  Parameter weight, bias;
  CAPSTAN_FIELDS(weight, bias);

 private:
  Shape sizes_;
  double epsilon_;
};

struct RmsNormOptions {
  Shape sizes = {};  ///< of the last axes, which are normalized together, and of the weight
  double epsilon = 1e-6;
  bool weight = true;
  Initializer weight_init = init::ones();
  DType dtype = DType::float32;
};

/// `rms_norm`.
class RmsNorm {
 public:
  explicit RmsNorm(const RmsNormOptions& options, Rng& rng = default_rng(), Where where = Where::current());
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;

  Parameter weight;
  CAPSTAN_FIELDS(weight);

 private:
  Shape sizes_;
  double epsilon_;
};

struct GroupNormOptions {
  std::int64_t groups = 0, channels = 0;  ///< groups divide the channels
  double epsilon = 1e-5;
  bool weight = true, bias = true;
  Initializer weight_init = init::ones(), bias_init = init::zeros();
  DType dtype = DType::float32;
};

/// `group_norm`.
class GroupNorm {
 public:
  explicit GroupNorm(const GroupNormOptions& options, Rng& rng = default_rng(), Where where = Where::current());
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;

  Parameter weight, bias;
  CAPSTAN_FIELDS(weight, bias);

 private:
  std::int64_t groups_, channels_;
  double epsilon_;
};

struct BatchNormOptions {
  std::int64_t channels = 0;
  double epsilon = 1e-5;
  /// The share that a batch has in the running statistics; none for the average of all batches. (TensorFlow's momentum
  /// is what the old ones keep: its 0.99 is 0.01 here.)
  std::optional<double> momentum = 0.1;
  bool weight = true, bias = true;
  bool track_running_stats = true;  ///< otherwise each batch is normalized by itself, also after training
  Initializer weight_init = init::ones(), bias_init = init::zeros();
  DType dtype = DType::float32;  ///< of the parameters; running statistics of 16-bit types are float32
};

/// In training `batch_norm_training`, which also moves the running statistics, and otherwise `batch_norm` with those:
///
///   running = (1 - momentum) * running + momentum * batch
///
/// where the batch's variance is that of a sample, count / (count - 1) of the population's, as in PyTorch (TensorFlow
/// leaves it as it is). They start at 0 and 1. A batch without elements leaves them alone, and so does the second run
/// of `recompute`. Tapes do not see the change.
/// `Spatial` is the number of spatial axes, 0 for any; with one axis inputs [batch, channels] will do too.
template <int Spatial>
class BatchNormLayer {
 public:
  explicit BatchNormLayer(const BatchNormOptions& options, Rng& rng = default_rng(), Where where = Where::current());
  Tensor operator()(const Tensor& x, Where where = Where::current());
  void set_training(bool training) noexcept { training_ = training; }
  bool training() const noexcept { return training_; }

  Parameter weight, bias;
  Buffer running_mean, running_var;  ///< [channels]; undefined unless tracked
  Buffer num_batches_tracked;        ///< int64 []
  CAPSTAN_FIELDS(weight, bias, running_mean, running_var, num_batches_tracked);

 private:
  std::int64_t channels_;
  double epsilon_;
  std::optional<double> momentum_;
  bool training_ = true;
};
using BatchNorm = BatchNormLayer<0>;
using BatchNorm1d = BatchNormLayer<1>;
using BatchNorm2d = BatchNormLayer<2>;
using BatchNorm3d = BatchNormLayer<3>;

/// The same with PyTorch's defaults for instances: no parameters, no running statistics.
struct InstanceNormOptions {
  std::int64_t channels = 0;
  double epsilon = 1e-5;
  std::optional<double> momentum = 0.1;  ///< as that of BatchNorm
  bool weight = false, bias = false;
  bool track_running_stats = false;
  Initializer weight_init = init::ones(), bias_init = init::zeros();
  DType dtype = DType::float32;  ///< of the parameters; running statistics of 16-bit types are float32
};

/// `instance_norm`. With running statistics, those are moved in training by the means over a batch of what its
/// instances have (variances of samples), and otherwise `batch_norm` uses them. `num_batches_tracked` counts as there;
/// PyTorch's stays 0 for instances, and it refuses an average of all batches.
template <int Spatial>
class InstanceNormLayer {
 public:
  explicit InstanceNormLayer(const InstanceNormOptions& options, Rng& rng = default_rng(),
                             Where where = Where::current());
  Tensor operator()(const Tensor& x, Where where = Where::current());
  void set_training(bool training) noexcept { training_ = training; }
  bool training() const noexcept { return training_; }

  Parameter weight, bias;
  Buffer running_mean, running_var;  ///< [channels]; undefined unless tracked
  Buffer num_batches_tracked;        ///< int64 []
  CAPSTAN_FIELDS(weight, bias, running_mean, running_var, num_batches_tracked);

 private:
  std::int64_t channels_;
  double epsilon_;
  std::optional<double> momentum_;
  bool training_ = true;
};
using InstanceNorm = InstanceNormLayer<0>;
using InstanceNorm1d = InstanceNormLayer<1>;
using InstanceNorm2d = InstanceNormLayer<2>;
using InstanceNorm3d = InstanceNormLayer<3>;

extern template class BatchNormLayer<0>;
extern template class BatchNormLayer<1>;
extern template class BatchNormLayer<2>;
extern template class BatchNormLayer<3>;
extern template class InstanceNormLayer<0>;
extern template class InstanceNormLayer<1>;
extern template class InstanceNormLayer<2>;
extern template class InstanceNormLayer<3>;

/// `local_response_norm`.
class LocalResponseNorm {
 public:
  explicit LocalResponseNorm(std::int64_t size, const ResponseNormOptions& options = {},
                             Where where = Where::current());
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
  CAPSTAN_FIELDS();

 private:
  std::int64_t size_;
  ResponseNormOptions options_;
};

}  // namespace nn
}  // namespace capstan
