// Group and instance normalization: units are groups of channels of one sample for the statistics, and planes, channels
// of one sample, for all that differs between channels. See norm_units.hpp.
#include "cuda/backend.hpp"
#include "cuda/normalizing.cuh"

namespace capstan::on_cuda {
namespace {

/// Rows are groups of samples, of so many channels each.
struct GroupShape {
  std::int64_t samples, groups, channels, inner;

  GroupShape(const TensorImpl& x, std::int64_t of_a_sample)
      : samples(x.shape[0]), groups(of_a_sample), channels(x.shape[1] / of_a_sample) {
    inner = channels_of(x).inner;
  }
  CAPSTAN_HD std::int64_t rows() const { return samples * groups; }
  CAPSTAN_HD double count() const { return static_cast<double>(channels) * static_cast<double>(inner); }
  NormUnits by_rows() const { return {1, rows(), channels * inner}; }
  NormUnits by_planes() const { return {1, rows() * channels, inner}; }
};

struct GroupNumbers {
  NormNumbers weight, bias, mean, inverse;
};

/// A warp for each row.
__global__ void group_kernel(PartSums sums, const void* x, DType dtype, GroupShape shape, double epsilon,
                             GroupNumbers numbers, RuleNumbers rule) {
  const std::int64_t lane = threadIdx.x % kWarp;
  for (std::int64_t row = first_index() / kWarp; row < shape.rows(); row += index_step() / kWarp) {
    double totals[2];
    total_of_parts(sums, row, totals);
    const double base = distance_base(read_real(x, dtype, row * shape.channels * shape.inner));
    const NormStatistics found(shape.count(), base, totals, epsilon);
    const double center = rule.rounded(found.mean), rest = found.rest(center);
    if (lane == 0) {
      numbers.mean.put(row, found.mean);
      numbers.inverse.put(row, found.inverse);
    }
    for (std::int64_t i = lane; i < shape.channels; i += kWarp) {
      const std::int64_t plane = row * shape.channels + i, c = row % shape.groups * shape.channels + i;
      const double weight = numbers.weight.at_or(c, 1);
      rule.put(NormRule::shift, plane, center);
      rule.put(NormRule::by_x, plane, found.inverse * weight);
      rule.put(NormRule::offset, plane, rest * weight + numbers.bias.at_or(c, 0));
    }
  }
}

/// Of one kind, over a plane.
__device__ double plane_total(const PartSums& sums, int kind, std::int64_t plane) {
  double total = 0;
  for (std::int64_t part = 0; part < sums.parts; ++part) total += sums.data[(part * 3 + kind) * sums.units + plane];
  return total;
}

/// A warp for each row. rests [rows]: what rounding the mean took; the rule is written if `ruled`.
__global__ void group_backward_kernel(PartSums sums, GroupShape shape, GroupNumbers numbers, double* rests, bool ruled,
                                      RuleNumbers rule) {
  const std::int64_t lane = threadIdx.x % kWarp;
  for (std::int64_t row = first_index() / kWarp; row < shape.rows(); row += index_step() / kWarp) {
    const std::int64_t first_plane = row * shape.channels, first_channel = row % shape.groups * shape.channels;
    double distance = 0;
    for (std::int64_t i = lane; i < shape.channels; i += kWarp) distance += plane_total(sums, 2, first_plane + i);
    const double rest = warp_reduce(distance, Add{}) / shape.count(), inverse = numbers.inverse.at(row);
    if (lane == 0) rests[row] = rest;
    double level = 0, slope = 0;
    for (std::int64_t i = lane; i < shape.channels; i += kWarp) {
      const double grad = plane_total(sums, 0, first_plane + i), product = plane_total(sums, 1, first_plane + i);
      const double weight = numbers.weight.at_or(first_channel + i, 1);
      level += weight * grad;
      slope += weight * (product - rest * grad) * inverse;
    }
    level = warp_reduce(level, Add{});
    slope = warp_reduce(slope, Add{});
    if (!ruled) continue;
    const double by_x = -inverse * inverse * slope / shape.count();
    for (std::int64_t i = lane; i < shape.channels; i += kWarp) {
      const std::int64_t plane = first_plane + i;
      rule.put(NormRule::shift, plane, numbers.mean.at(row));
      rule.put(NormRule::by_grad, plane, inverse * numbers.weight.at_or(first_channel + i, 1));
      rule.put(NormRule::by_x, plane, by_x);
      rule.put(NormRule::offset, plane, -inverse * level / shape.count() - by_x * rest);
    }
  }
}

/// A warp for each channel: sums over samples of grad * result and of grad.
__global__ void group_sums_kernel(PartSums sums, GroupShape shape, NormNumbers inverse, const double* rests,
                                  NormNumbers dweight, NormNumbers dbias) {
  const std::int64_t channels = shape.groups * shape.channels;
  for (std::int64_t c = first_index() / kWarp; c < channels; c += index_step() / kWarp) {
    double value = 0, grad = 0;
    for (std::int64_t n = threadIdx.x % kWarp; n < shape.samples; n += kWarp) {
      const std::int64_t row = n * shape.groups + c / shape.channels, plane = n * channels + c;
      const double own = plane_total(sums, 0, plane);
      value += (plane_total(sums, 1, plane) - rests[row] * own) * inverse.at(row);
      grad += own;
    }
    value = warp_reduce(value, Add{});
    grad = warp_reduce(grad, Add{});
    if (threadIdx.x % kWarp == 0) {
      if (dweight.given()) dweight.put(c, value);
      if (dbias.given()) dbias.put(c, grad);
    }
  }
}

}  // namespace

void group_norm(const TensorImpl& x, const TensorImpl* weight, const TensorImpl* bias, std::int64_t groups,
                double epsilon, TensorImpl& out, TensorImpl& mean, TensorImpl& inverse) {
  if (x.numel() == 0) return;
  const GroupShape shape(x, groups);
  const NormUnits planes = shape.by_planes();
  const NormSums found = distance_sums(x, shape.by_rows(), true);
  const Tensor rule = rule_for(x.dtype, planes.units);
  const GroupNumbers numbers{NormNumbers(weight), NormNumbers(bias), NormNumbers(&mean), NormNumbers(&inverse)};
  launch(group_kernel, norm_warps(shape.rows()), found.sums, x.data, x.dtype, shape, epsilon, numbers,
         RuleNumbers(*rule.impl(), planes.units));
  apply_rule(*rule.impl(), planes, nullptr, x, nullptr, nullptr, out);
}

void group_norm_backward(const TensorImpl& grad, const TensorImpl& x, const TensorImpl* weight, const TensorImpl& mean,
                         const TensorImpl& inverse, std::int64_t groups, TensorImpl* dx, TensorImpl* dweight,
                         TensorImpl* dbias) {
  if (x.numel() == 0) {
    for (TensorImpl* sums : {dweight, dbias})
      if (sums != nullptr) fill(*sums, 0);
    return;
  }
  const GroupShape shape(x, groups);
  const NormUnits planes = shape.by_planes();
  const NormSums found = product_sums(grad, x, nullptr, &mean, shape.channels, planes);
  const Tensor rests = workspace(shape.rows(), DType::float64), rule = rule_for(x.dtype, planes.units);
  const GroupNumbers numbers{NormNumbers(weight), NormNumbers(), NormNumbers(&mean), NormNumbers(&inverse)};
  auto* const rest = rests.impl()->as<double>();
  launch(group_backward_kernel, norm_warps(shape.rows()), found.sums, shape, numbers, rest, dx != nullptr,
         RuleNumbers(*rule.impl(), planes.units));
  if (dweight != nullptr || dbias != nullptr)
    launch(group_sums_kernel, norm_warps(x.shape[1]), found.sums, shape, numbers.inverse, rest, NormNumbers(dweight),
           NormNumbers(dbias));
  if (dx != nullptr) apply_rule(*rule.impl(), planes, &grad, x, nullptr, nullptr, *dx);
}

}  // namespace capstan::on_cuda
