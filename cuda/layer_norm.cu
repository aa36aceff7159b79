// Layer normalization and its relative without a mean. Rows are read once, into registers; those that are too long for
// that are units of norm_units.hpp, of which every block takes a part.
#include "cuda/backend.hpp"
#include "cuda/norm_rows.cuh"

namespace capstan::on_cuda {
namespace {

template <class T>
struct RowNorm {
  std::int64_t rows, count;
  const T* x;
  NormNumbers weight, bias;   // [count]
  NormNumbers mean, inverse;  // [rows]; no mean: distances are those from 0
  double epsilon;
  T* out;
};

template <class T, int V, int kSteps, int kGroup>
__device__ NormStatistics statistics_of(const T (&held)[kSteps][V], double base, const RowNorm<T>& task, int lane) {
  const int count = static_cast<int>(task.count);
  double sums[2] = {};
  CAPSTAN_UNROLL
  for (int k = 0; k < kSteps; ++k)
    if ((k * kGroup + lane) * V < count)
      for (int v = 0; v < V; ++v) {
        const double distance = static_cast<double>(widen(held[k][v])) - base;
        sums[0] += distance;
        sums[1] += distance * distance;
      }
  group_sum<kGroup>(sums);
  if (!task.mean.given()) sums[0] = 0;
  return {static_cast<double>(count), base, sums, task.epsilon};
}

/// A row for each group of kGroup threads, each of which holds kHeld values.
template <class T, int V, int kHeld, int kGroup>
__global__ void __launch_bounds__(kNormThreads<kGroup>) rows_kernel(RowNorm<T> task) {
  using C = Compute<T>;
  constexpr int kSteps = kHeld / V, kRows = kRowsOfBlock<kGroup>;
  const int lane = static_cast<int>(threadIdx.x) % kGroup, count = static_cast<int>(task.count);
  const std::int64_t first = std::int64_t{blockIdx.x} * kRows + threadIdx.x / kGroup;
  for (std::int64_t row = first; row < task.rows; row += std::int64_t{gridDim.x} * kRows) {
    const T* const x = task.x + row * task.count;
    T held[kSteps][V] = {};
    load_row<T, V, kSteps, kGroup>(x, lane, count, held);
    const double base = task.mean.given() ? distance_base(static_cast<double>(widen(x[0]))) : 0.0;
    const NormStatistics found = statistics_of<T, V, kSteps, kGroup>(held, base, task, lane);
    const C center = static_cast<C>(found.mean), factor = static_cast<C>(found.inverse);
    const C rest = static_cast<C>(found.rest(static_cast<double>(center)));
    if (lane == 0) {
      if (task.mean.given()) task.mean.put(row, found.mean);
      task.inverse.put(row, found.inverse);
    }
    CAPSTAN_UNROLL
    for (int k = 0; k < kSteps; ++k) {
      const int i = (k * kGroup + lane) * V;
      if (i >= count) continue;
      C y[V];
      for (int v = 0; v < V; ++v) y[v] = (widen(held[k][v]) - center) * factor + rest;
      scale_run<T>(task.weight, task.bias, i, y);
      for (int v = 0; v < V; ++v) held[k][v] = narrow<T>(y[v]);
    }
    store_row<T, V, kSteps, kGroup>(held, lane, count, task.out + row * task.count);
  }
}

/// A warp for each row, whose sums are known.
__global__ void long_rows_kernel(PartSums sums, const void* x, DType dtype, std::int64_t count, double epsilon,
                                 NormNumbers mean, NormNumbers inverse, RuleNumbers rule) {
  for (std::int64_t row = first_index() / kWarp; row < sums.units; row += index_step() / kWarp) {
    double totals[2];
    total_of_parts(sums, row, totals);
    if (!mean.given()) totals[0] = 0;
    if (threadIdx.x % kWarp == 0) {
      const double base = mean.given() ? distance_base(read_real(x, dtype, row * count)) : 0.0;
      const NormStatistics found(static_cast<double>(count), base, totals, epsilon);
      const double center = rule.rounded(found.mean);
      if (mean.given()) mean.put(row, found.mean);
      inverse.put(row, found.inverse);
      rule.put(NormRule::shift, row, center);
      rule.put(NormRule::by_x, row, found.inverse);
      rule.put(NormRule::offset, row, found.rest(center));
    }
  }
}

template <class T, int V, int kHeld, int kGroup>
bool fits(const RowNorm<T>& task) {
  if (task.count > std::int64_t{kHeld} * kGroup) return false;
  launch(rows_kernel<T, V, kHeld, kGroup>, rows_shape<kGroup>(task.rows), task);
  return true;
}

/// False for rows that are too long.
template <class T>
bool normalize_rows(const RowNorm<T>& task) {
  constexpr int kWide = kPack<T>, kBlock = static_cast<int>(kThreads), kShort = kHeldByLane<T> / 4;
  const bool packs = task.count % kWide == 0 && aligned16(task.x, task.weight.address(), task.bias.address(), task.out);
  if (!packs) return fits<T, 1, kShort, kWarp>(task) || fits<T, 1, kHeldByThread<T>, kBlock>(task);
  return fits<T, kWide, kShort, kWarp>(task) || fits<T, kWide, kHeldByLane<T>, kWarp>(task) ||
         fits<T, kWide, kHeldByThread<T>, kBlock>(task) || fits<T, kWide, kHeldOfLongRows<T>, kLongRowThreads>(task);
}

}  // namespace

void layer_norm(const TensorImpl& x, const TensorImpl* weight, const TensorImpl* bias, double epsilon, TensorImpl& out,
                TensorImpl* mean, TensorImpl& inverse) {
  if (x.numel() == 0) return;
  const std::int64_t rows = inverse.numel(), count = x.numel() / rows;
  const NormNumbers means(mean), inverses(&inverse);
  const bool done = core::visit_real(x.dtype, [&]<class T>(core::Type<T>) {
    return normalize_rows<T>(
        {rows, count, x.as<T>(), NormNumbers(weight), NormNumbers(bias), means, inverses, epsilon, out.as<T>()});
  });
  if (done) return;
  const NormUnits units{1, rows, count};
  const NormSums found = distance_sums(x, units, mean != nullptr);
  const Tensor rule = rule_for(x.dtype, rows);
  launch(long_rows_kernel, norm_warps(rows), found.sums, x.data, x.dtype, count, epsilon, means, inverses,
         RuleNumbers(*rule.impl(), rows));
  apply_rule(*rule.impl(), units, nullptr, x, weight, bias, out);
}

}  // namespace capstan::on_cuda
