#include <capstan/nn/norm.hpp>

#include <capstan/create.hpp>
#include <capstan/differentiate.hpp>
#include <capstan/ops/elementwise.hpp>
#include <capstan/tape.hpp>

#include "lib/base/text.hpp"
#include "nn/mixed_types.hpp"

namespace capstan::nn {
namespace {

void check_numbers(const char* layer, double epsilon, DType dtype, Where where) {
  if (!(epsilon >= 0 && epsilon - epsilon == 0))
    base::fail<Error>(where, layer, ": epsilon is ", epsilon, "; it must be finite and >= 0.");
  check_floating(layer, dtype, where);
}

void check_sizes(const char* layer, const Shape& sizes, double epsilon, DType dtype, Where where) {
  bool fits = sizes.rank() > 0;
  for (const std::int64_t size : sizes) fits = fits && size >= 1;
  if (!fits) base::fail<ShapeError>(where, layer, ": the sizes are ", sizes, "; there must be one or more, each >= 1.");
  check_numbers(layer, epsilon, dtype, where);
}

void check_channels(const char* layer, std::int64_t channels, double epsilon, DType dtype, Where where) {
  if (channels < 1) base::fail<ShapeError>(where, layer, ": channels is ", channels, "; it must be >= 1.");
  check_numbers(layer, epsilon, dtype, where);
}

void check_momentum(const char* layer, const std::optional<double>& momentum, Where where) {
  if (momentum && !(*momentum >= 0 && *momentum <= 1))
    base::fail<Error>(where, layer, ": the momentum is ", *momentum, "; it must be in [0, 1], or none.");
}

/// A parameter, or none.
Parameter parameter(bool wanted, const Initializer& init, const Shape& shape, DType dtype, Rng& rng, Where where) {
  if (!wanted) return {};
  return Parameter(init(shape, rng, {dtype}, where), where);
}

/// The 16-bit types are computed with in float32.
DType statistics_type(DType dtype) { return is_half(dtype) ? DType::float32 : dtype; }

constexpr const char* kBatchNames[] = {"BatchNorm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d"};
constexpr const char* kInstanceNames[] = {"InstanceNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"};
constexpr const char* kBatchLayouts[] = {"[batch, channels, ...]", "[batch, channels] or [batch, channels, length]",
                                         "[batch, channels, rows, columns]", "[batch, channels, depth, rows, columns]"};
constexpr const char* kInstanceLayouts[] = {"[batch, channels, ...] with a place or more", "[batch, channels, length]",
                                            "[batch, channels, rows, columns]",
                                            "[batch, channels, depth, rows, columns]"};

/// x has so many axes, or any number from `least` on if `most` is 0, and that many channels.
void check_input(const char* layer, const char* layout, const Tensor& x, int least, int most, std::int64_t channels,
                 Where where) {
  if (!x.defined()) return;  // the operation says so
  if (x.rank() < least || (most > 0 && x.rank() > most))
    base::fail<ShapeError>(where, layer, ": x is ", x.shape(), "; it must be ", layout, ".");
  if (x.size(1) != channels)
    base::fail<ShapeError>(where, layer, ": x is ", x.shape(), " and the layer has ", channels,
                           " channels; axis 1 must have that size.");
}

/// Whether this call moves running statistics: it has values, and has not had them before.
bool moves_statistics(const Tensor& x) { return x.numel() > 0 && !capstan::detail::recomputing(); }

/// What has been learnt of the values, if anything.
struct Running {
  Buffer &mean, &var, &count;

  void start(std::int64_t channels, DType dtype, Where where) const {
    const TensorOptions type{statistics_type(dtype)};
    Buffer zero(zeros(Shape({channels}), type, where), where), one(ones(Shape({channels}), type, where), where);
    Buffer none(zeros(Shape(), {DType::int64}, where), where);
    mean = std::move(zero);
    var = std::move(one);
    count = std::move(none);
  }

  /// Whether they can be used and moved: before the first of them is written.
  void check(const char* layer, const Tensor& x, std::int64_t channels, Where where) const {
    const Shape each({channels});
    for (const Buffer* numbers : {&mean, &var}) {
      if (!numbers->defined()) continue;  // the operation says so
      if (is_floating(x.dtype()) && statistics_type(x.dtype()) != numbers->dtype())
        base::fail<DTypeError>(where, layer, ": x is ", x.dtype(), " and the running statistics are ", numbers->dtype(),
                               "; the types must be equal (float32 also goes with 16 bits).");
      if (numbers->shape() != each)
        base::fail<ShapeError>(where, layer, ": the running statistics are ", numbers->shape(), "; they must be ", each,
                               ".");
    }
  }

  /// With the mean and variance of a batch, of populations of `values` each.
  void move(const Tensor& batch_mean, const Tensor& batch_variance, double values,
            const std::optional<double>& momentum, Where where) const {
    const Tensor batches = add(count, 1, where);
    const double share = momentum ? *momentum : 1 / static_cast<double>(batches.item<std::int64_t>(where));
    const double of_sample = share * (values / (values - 1));
    const Tensor new_mean = add(mul(mean, 1 - share, where), mul(batch_mean, share, where), where);
    const Tensor new_var = add(mul(var, 1 - share, where), mul(batch_variance, of_sample, where), where);
    mean.assign(new_mean, where);
    var.assign(new_var, where);
    count.assign(batches, where);
  }
};

}  // namespace

// --- rows ---

LayerNorm::LayerNorm(const LayerNormOptions& options, Rng& rng, Where where)
    : sizes_(options.sizes), epsilon_(options.epsilon) {
  check_sizes("LayerNorm", sizes_, epsilon_, options.dtype, where);
  weight = parameter(options.weight, options.weight_init, sizes_, options.dtype, rng, where);
  bias = parameter(options.bias, options.bias_init, sizes_, options.dtype, rng, where);
}

Tensor LayerNorm::operator()(const Tensor& x, Where where) const {
  return layer_norm(x, sizes_, weight, bias, epsilon_, where);
}

RmsNorm::RmsNorm(const RmsNormOptions& options, Rng& rng, Where where)
    : sizes_(options.sizes), epsilon_(options.epsilon) {
  check_sizes("RmsNorm", sizes_, epsilon_, options.dtype, where);
  weight = parameter(options.weight, options.weight_init, sizes_, options.dtype, rng, where);
}

Tensor RmsNorm::operator()(const Tensor& x, Where where) const { return rms_norm(x, sizes_, weight, epsilon_, where); }

// --- channels ---

GroupNorm::GroupNorm(const GroupNormOptions& options, Rng& rng, Where where)
    : groups_(options.groups), channels_(options.channels), epsilon_(options.epsilon) {
  check_channels("GroupNorm", channels_, epsilon_, options.dtype, where);
  if (groups_ < 1 || channels_ % groups_ != 0)
    base::fail<ShapeError>(where, "GroupNorm: there are ", groups_, " groups and ", channels_,
                           " channels; groups must be 1 or more and divide the channels.");
  const Shape shape({channels_});
  weight = parameter(options.weight, options.weight_init, shape, options.dtype, rng, where);
  bias = parameter(options.bias, options.bias_init, shape, options.dtype, rng, where);
}

Tensor GroupNorm::operator()(const Tensor& x, Where where) const {
  check_input("GroupNorm", kBatchLayouts[0], x, 2, 0, channels_, where);
  return group_norm(x, groups_, weight, bias, epsilon_, where);
}

template <int Spatial>
BatchNormLayer<Spatial>::BatchNormLayer(const BatchNormOptions& options, Rng& rng, Where where)
    : channels_(options.channels), epsilon_(options.epsilon), momentum_(options.momentum) {
  check_channels(kBatchNames[Spatial], channels_, epsilon_, options.dtype, where);
  check_momentum(kBatchNames[Spatial], momentum_, where);
  const Shape shape({channels_});
  weight = parameter(options.weight, options.weight_init, shape, options.dtype, rng, where);
  bias = parameter(options.bias, options.bias_init, shape, options.dtype, rng, where);
  if (options.track_running_stats)
    Running{running_mean, running_var, num_batches_tracked}.start(channels_, options.dtype, where);
}

template <int Spatial>
Tensor BatchNormLayer<Spatial>::operator()(const Tensor& x, Where where) {
  constexpr int least = Spatial < 2 ? 2 : Spatial + 2, most = Spatial == 0 ? 0 : Spatial + 2;
  check_input(kBatchNames[Spatial], kBatchLayouts[Spatial], x, least, most, channels_, where);
  const Running running{running_mean, running_var, num_batches_tracked};
  const bool tracks = running_mean.defined();
  if (tracks && x.defined()) running.check(kBatchNames[Spatial], x, channels_, where);
  if (tracks && !training_) return batch_norm(x, running_mean, running_var, weight, bias, epsilon_, where);
  BatchNormResult result = batch_norm_training(x, weight, bias, epsilon_, where);
  if (tracks && moves_statistics(x)) {
    const NoGrad off;
    const double values = static_cast<double>(x.numel()) / static_cast<double>(channels_);
    running.move(result.mean, result.variance, values, momentum_, where);
  }
  return std::move(result.output);
}

template <int Spatial>
InstanceNormLayer<Spatial>::InstanceNormLayer(const InstanceNormOptions& options, Rng& rng, Where where)
    : channels_(options.channels), epsilon_(options.epsilon), momentum_(options.momentum) {
  check_channels(kInstanceNames[Spatial], channels_, epsilon_, options.dtype, where);
  check_momentum(kInstanceNames[Spatial], momentum_, where);
  const Shape shape({channels_});
  weight = parameter(options.weight, options.weight_init, shape, options.dtype, rng, where);
  bias = parameter(options.bias, options.bias_init, shape, options.dtype, rng, where);
  if (options.track_running_stats)
    Running{running_mean, running_var, num_batches_tracked}.start(channels_, options.dtype, where);
}

template <int Spatial>
Tensor InstanceNormLayer<Spatial>::operator()(const Tensor& x, Where where) {
  constexpr int least = Spatial == 0 ? 3 : Spatial + 2, most = Spatial == 0 ? 0 : Spatial + 2;
  check_input(kInstanceNames[Spatial], kInstanceLayouts[Spatial], x, least, most, channels_, where);
  const Running running{running_mean, running_var, num_batches_tracked};
  const bool tracks = running_mean.defined();
  if (tracks && x.defined()) running.check(kInstanceNames[Spatial], x, channels_, where);
  if (tracks && !training_) return batch_norm(x, running_mean, running_var, weight, bias, epsilon_, where);
  Tensor out = instance_norm(x, weight, bias, epsilon_, where);
  if (tracks && moves_statistics(x)) {
    const NoGrad off;
    int axes[kMaxRank] = {};
    const int spatial = x.rank() - 2;
    for (int axis = 0; axis < spatial; ++axis) axes[axis] = axis + 2;
    const Axes over(std::span<const int>(axes, static_cast<std::size_t>(spatial)), where);
    const Moments each = moments(x.to(running_mean.dtype(), where), over, {}, where);
    const double values = static_cast<double>(x.numel()) / static_cast<double>(each.mean.numel());
    running.move(mean(each.mean, 0, {}, where), mean(each.variance, 0, {}, where), values, momentum_, where);
  }
  return out;
}

template class BatchNormLayer<0>;
template class BatchNormLayer<1>;
template class BatchNormLayer<2>;
template class BatchNormLayer<3>;
template class InstanceNormLayer<0>;
template class InstanceNormLayer<1>;
template class InstanceNormLayer<2>;
template class InstanceNormLayer<3>;

LocalResponseNorm::LocalResponseNorm(std::int64_t size, const ResponseNormOptions& options, Where where)
    : size_(size), options_(options) {
  if (size_ < 1) base::fail<ShapeError>(where, "LocalResponseNorm: the size is ", size_, "; it must be 1 or more.");
}

Tensor LocalResponseNorm::operator()(const Tensor& x, Where where) const {
  return local_response_norm(x, size_, options_, where);
}

}  // namespace capstan::nn
