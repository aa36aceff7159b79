// Batch normalization: numbers for each channel, over all samples and places. See norm_units.hpp for how.
#include "cuda/backend.hpp"
#include "cuda/normalizing.cuh"

namespace capstan::on_cuda {
namespace {

struct BatchNumbers {
  NormNumbers weight, bias, mean, variance, inverse;
};

/// A warp for each channel. `inner` elements of a channel side by side, `count` of them in all.
__global__ void training_kernel(PartSums sums, const void* x, DType dtype, std::int64_t inner, double count,
                                double epsilon, BatchNumbers numbers, RuleNumbers rule) {
  for (std::int64_t c = first_index() / kWarp; c < sums.units; c += index_step() / kWarp) {
    double totals[2];
    total_of_parts(sums, c, totals);
    if (threadIdx.x % kWarp == 0) {
      const NormStatistics found(count, distance_base(read_real(x, dtype, c * inner)), totals, epsilon);
      const double center = rule.rounded(found.mean), weight = numbers.weight.at_or(c, 1);
      numbers.mean.put(c, found.mean);
      numbers.variance.put(c, found.variance);
      numbers.inverse.put(c, found.inverse);
      rule.put(NormRule::shift, c, center);
      rule.put(NormRule::by_x, c, found.inverse * weight);
      rule.put(NormRule::offset, c, found.rest(center) * weight + numbers.bias.at_or(c, 0));
    }
  }
}

/// A thread for each channel, whose statistics are given.
__global__ void given_kernel(double epsilon, BatchNumbers numbers, RuleNumbers rule) {
  for (std::int64_t c = first_index(); c < rule.units; c += index_step()) {
    const double inverse = 1 / kernels::sqrt(numbers.variance.at(c) + epsilon);
    numbers.inverse.put(c, inverse);
    rule.put(NormRule::shift, c, numbers.mean.at(c));
    rule.put(NormRule::by_x, c, inverse * numbers.weight.at_or(c, 1));
    rule.put(NormRule::offset, c, numbers.bias.at_or(c, 0));
  }
}

struct BatchGradients {
  NormNumbers weight, mean, inverse;
  NormNumbers dweight, dbias;  // perhaps none
};

/// A warp for each channel: the rule of the statistics of the batch.
__global__ void training_backward_kernel(PartSums sums, double count, BatchGradients g, RuleNumbers rule) {
  for (std::int64_t c = first_index() / kWarp; c < sums.units; c += index_step() / kWarp) {
    double totals[3];
    total_of_parts(sums, c, totals);
    if (threadIdx.x % kWarp == 0) {
      const double inverse = g.inverse.at(c), by_grad = inverse * g.weight.at_or(c, 1);
      const double rest = totals[2] / count;  // what rounding the mean took
      const double value = (totals[1] - rest * totals[0]) * inverse, by_x = -by_grad * inverse * value / count;
      if (g.dweight.given()) g.dweight.put(c, value);
      if (g.dbias.given()) g.dbias.put(c, totals[0]);
      rule.put(NormRule::shift, c, g.mean.at(c));
      rule.put(NormRule::by_grad, c, by_grad);
      rule.put(NormRule::by_x, c, by_x);
      rule.put(NormRule::offset, c, -by_grad * totals[0] / count - by_x * rest);
    }
  }
}
/// A warp for each channel: the sums for given statistics.
__global__ void given_sums_kernel(PartSums sums, BatchGradients g) {
  for (std::int64_t c = first_index() / kWarp; c < sums.units; c += index_step() / kWarp) {
    double totals[3];
    total_of_parts(sums, c, totals);
    if (threadIdx.x % kWarp == 0) {
      if (g.dweight.given()) g.dweight.put(c, totals[1] * g.inverse.at(c));
      if (g.dbias.given()) g.dbias.put(c, totals[0]);
    }
  }
}
/// A thread for each channel: the rule of given statistics, with the gradient in x's place.
__global__ void given_backward_kernel(BatchGradients g, RuleNumbers rule) {
  for (std::int64_t c = first_index(); c < rule.units; c += index_step()) {
    rule.put(NormRule::shift, c, 0);
    rule.put(NormRule::by_x, c, g.inverse.at(c) * g.weight.at_or(c, 1));
    rule.put(NormRule::offset, c, 0);
  }
}

}  // namespace

void batch_norm_training(const TensorImpl& x, const TensorImpl* weight, const TensorImpl* bias, double epsilon,
                         TensorImpl& out, TensorImpl& mean, TensorImpl& variance, TensorImpl& inverse) {
  if (x.numel() == 0) {
    for (TensorImpl* numbers : {&mean, &variance, &inverse}) fill(*numbers, 0);
    return;
  }
  const NormUnits channels = channels_of(x);
  const NormSums found = distance_sums(x, channels, true);
  const Tensor rule = rule_for(x.dtype, channels.units);
  const BatchNumbers numbers{NormNumbers(weight), NormNumbers(bias), NormNumbers(&mean), NormNumbers(&variance),
                             NormNumbers(&inverse)};
  launch(training_kernel, norm_warps(channels.units), found.sums, x.data, x.dtype, channels.inner,
         static_cast<double>(channels.count()), epsilon, numbers, RuleNumbers(*rule.impl(), channels.units));
  apply_rule(*rule.impl(), channels, nullptr, x, nullptr, nullptr, out);
}

void batch_norm(const TensorImpl& x, const TensorImpl& mean, const TensorImpl& variance, const TensorImpl* weight,
                const TensorImpl* bias, double epsilon, TensorImpl& out, TensorImpl& inverse) {
  const NormUnits channels = channels_of(x);
  if (channels.units == 0) return;
  const Tensor rule = rule_for(x.dtype, channels.units);
  const BatchNumbers numbers{NormNumbers(weight), NormNumbers(bias), NormNumbers(&mean), NormNumbers(&variance),
                             NormNumbers(&inverse)};
  launch(given_kernel, shape_for(channels.units), epsilon, numbers, RuleNumbers(*rule.impl(), channels.units));
  if (x.numel() > 0) apply_rule(*rule.impl(), channels, nullptr, x, nullptr, nullptr, out);
}

void batch_norm_backward(const TensorImpl& grad, const TensorImpl& x, const TensorImpl* weight, const TensorImpl& mean,
                         const TensorImpl& inverse, bool training, TensorImpl* dx, TensorImpl* dweight,
                         TensorImpl* dbias) {
  if (x.numel() == 0) {
    for (TensorImpl* sums : {dweight, dbias})
      if (sums != nullptr) fill(*sums, 0);
    return;
  }
  const NormUnits channels = channels_of(x);
  const Tensor rule = rule_for(x.dtype, channels.units);
  const RuleNumbers numbers(*rule.impl(), channels.units);
  const BatchGradients g{NormNumbers(weight), NormNumbers(&mean), NormNumbers(&inverse), NormNumbers(dweight),
                         NormNumbers(dbias)};
  NormSums found;
  if (training || dweight != nullptr || dbias != nullptr) found = product_sums(grad, x, nullptr, &mean, 1, channels);
  if (training) {
    const auto count = static_cast<double>(channels.count());
    launch(training_backward_kernel, norm_warps(channels.units), found.sums, count, g, numbers);
    if (dx != nullptr) apply_rule(*rule.impl(), channels, &grad, x, nullptr, nullptr, *dx);
    return;
  }
  if (found.memory.defined()) launch(given_sums_kernel, norm_warps(channels.units), found.sums, g);
  if (dx == nullptr) return;
  launch(given_backward_kernel, shape_for(channels.units), g, numbers);
  apply_rule(*rule.impl(), channels, nullptr, grad, nullptr, nullptr, *dx);
}

}  // namespace capstan::on_cuda
