// The gradients of layer normalization. Rows and their gradients are read once, into registers; weights' gradients are
// added up in shared memory on the way, where there is room for them, and put together by norm_columns.cu.
#include "cuda/backend.hpp"
#include "cuda/norm_columns.hpp"
#include "cuda/norm_rows.cuh"

namespace capstan::on_cuda {
namespace {

template <class T>
struct RowGradients {
  std::int64_t rows, count;
  const T *grad, *x;
  NormNumbers weight;         // [count]
  NormNumbers mean, inverse;  // [rows]
  T* dx;                      // null if not needed, as are:
  Compute<T>* sums;           // [blocks, 2, count]: of grad * result and of grad
  NormNumbers shift;          // [rows]: what results lack because the mean was rounded
};

/// What a row's gradient is made of, from the sums over the row of g, g * (x - mean) and x - mean, g = grad * weight.
struct RowRule {
  double mean, inverse, shift, by_value, offset;

  __device__ RowRule(const double (&totals)[3], std::int64_t width, bool centered, double center, double factor)
      : mean(center), inverse(factor) {
    const auto count = static_cast<double>(width);
    const double rest = centered ? totals[2] / count : 0.0, level = centered ? totals[0] / count : 0.0;
    const double slope = (totals[1] - rest * totals[0]) * inverse / count;  // the mean of g times the result
    shift = -rest * inverse;
    by_value = -slope * inverse;
    offset = -level * inverse;
  }
};

template <class T, int V, int kSteps, int kGroup>
__device__ RowRule rule_of(const T (&grads)[kSteps][V], const T (&values)[kSteps][V], const RowGradients<T>& task,
                           int lane, std::int64_t row) {
  const int count = static_cast<int>(task.count);
  const double mean = task.mean.at_or(row, 0);
  double totals[3] = {};
  CAPSTAN_UNROLL
  for (int k = 0; k < kSteps; ++k) {
    const int i = (k * kGroup + lane) * V;
    if (i >= count) continue;
    Compute<T> through[V];
    for (int v = 0; v < V; ++v) through[v] = widen(grads[k][v]);
    scale_run<T>(task.weight, NormNumbers(), i, through);
    for (int v = 0; v < V; ++v) {
      const double g = static_cast<double>(through[v]), distance = static_cast<double>(widen(values[k][v])) - mean;
      totals[0] += g;
      totals[1] += g * distance;
      totals[2] += distance;
    }
  }
  group_sum<kGroup>(totals);
  return {totals, task.count, task.mean.given(), mean, task.inverse.at(row)};
}

/// Adds to the sums [2][kPitch] of this row's group, in places that are this thread's alone.
template <class C, int V, int kPitch>
__device__ inline void add_to(C* sums, int i, const C (&change)[V], const C (&result)[V]) {
  C old[V];
  load_run<V>(sums + i, old);
  for (int v = 0; v < V; ++v) old[v] += change[v] * result[v];
  store_run<V>(old, sums + i);
  load_run<V>(sums + kPitch + i, old);
  for (int v = 0; v < V; ++v) old[v] += change[v];
  store_run<V>(old, sums + kPitch + i);
}

/// The results take the gradients' place. `sums` null: nobody wants them.
template <class T, int V, int kSteps, int kGroup>
__device__ void finish_row(T (&grads)[kSteps][V], const T (&values)[kSteps][V], const RowGradients<T>& task,
                           const RowRule& rule, int lane, Compute<T>* sums) {
  using C = Compute<T>;
  const int count = static_cast<int>(task.count);
  const C mean = static_cast<C>(rule.mean), factor = static_cast<C>(rule.inverse), shift = static_cast<C>(rule.shift);
  const C by_value = static_cast<C>(rule.by_value), offset = static_cast<C>(rule.offset);
  CAPSTAN_UNROLL
  for (int k = 0; k < kSteps; ++k) {
    const int i = (k * kGroup + lane) * V;
    if (i >= count) continue;
    C change[V], result[V];
    for (int v = 0; v < V; ++v) {
      change[v] = widen(grads[k][v]);
      result[v] = (widen(values[k][v]) - mean) * factor + shift;
    }
    if (sums != nullptr) add_to<C, V, kSteps * V * kGroup>(sums, i, change, result);
    scale_run<T>(task.weight, NormNumbers(), i, change);
    for (int v = 0; v < V; ++v) grads[k][v] = narrow<T>(change[v] * factor + (result[v] * by_value + offset));
  }
}

/// A row for each group of kGroup threads, each of which holds kHeld values and their gradients.
template <class T, int V, int kHeld, int kGroup>
__global__ void __launch_bounds__(kNormThreads<kGroup>) row_gradients_kernel(RowGradients<T> task) {
  using C = Compute<T>;
  constexpr int kSteps = kHeld / V, kRows = kRowsOfBlock<kGroup>, kColumns = kHeld * kGroup;
  constexpr bool kAdds = kGroup < kLongRowThreads;  // 32 KiB
  __shared__ Pack<C, kPack<C>> memory[kAdds ? 2 * kRows * kColumns / kPack<C> : 1];
  C* const sums = reinterpret_cast<C*>(memory);
  const int lane = static_cast<int>(threadIdx.x) % kGroup, group = static_cast<int>(threadIdx.x) / kGroup;
  const int count = static_cast<int>(task.count);
  const bool adds = kAdds && task.sums != nullptr;
  C* const own = adds ? sums + group * 2 * kColumns : nullptr;
  if (adds)
    for (int i = lane; i < 2 * kColumns; i += kGroup) own[i] = 0;
  __syncthreads();
  for (std::int64_t row = std::int64_t{blockIdx.x} * kRows + group; row < task.rows;
       row += std::int64_t{gridDim.x} * kRows) {
    T grads[kSteps][V] = {}, values[kSteps][V] = {};
    load_row<T, V, kSteps, kGroup>(task.grad + row * task.count, lane, count, grads);
    load_row<T, V, kSteps, kGroup>(task.x + row * task.count, lane, count, values);
    const RowRule rule = rule_of<T, V, kSteps, kGroup>(grads, values, task, lane, row);
    if (lane == 0 && task.shift.given()) task.shift.put(row, rule.shift);
    finish_row<T, V, kSteps, kGroup>(grads, values, task, rule, lane, own);
    if (task.dx != nullptr) store_row<T, V, kSteps, kGroup>(grads, lane, count, task.dx + row * task.count);
  }
  if (!adds) return;
  __syncthreads();
  C* const to = task.sums + std::int64_t{blockIdx.x} * 2 * count;
  for (int i = static_cast<int>(threadIdx.x); i < 2 * count; i += kNormThreads<kGroup>) {
    const int kind = i >= count ? 1 : 0, column = i - kind * count;
    C total = sums[kind * kColumns + column];
    for (int other = 1; other < kRows; ++other) total += sums[(2 * other + kind) * kColumns + column];
    to[i] = total;
  }
}

/// A warp for each row, whose sums are known. `ruled`: the rule is wanted.
__global__ void long_row_gradients_kernel(PartSums sums, std::int64_t count, NormNumbers mean, NormNumbers inverse,
                                          NormNumbers shift, bool ruled, RuleNumbers rule) {
  for (std::int64_t row = first_index() / kWarp; row < sums.units; row += index_step() / kWarp) {
    double totals[3];
    total_of_parts(sums, row, totals);
    if (threadIdx.x % kWarp == 0) {
      const RowRule r(totals, count, mean.given(), mean.at_or(row, 0), inverse.at(row));
      shift.put(row, r.shift);
      if (ruled) {
        rule.put(NormRule::shift, row, r.mean);
        rule.put(NormRule::by_grad, row, r.inverse);
        rule.put(NormRule::by_x, row, r.by_value * r.inverse);
        rule.put(NormRule::offset, row, r.by_value * r.shift + r.offset);
      }
    }
  }
}

/// The arguments of the entry.
struct Wanted {
  const TensorImpl &grad, &x;
  const TensorImpl *weight, *mean;
  const TensorImpl& inverse;
  TensorImpl *dx, *dweight, *dbias;
  std::int64_t rows, count;

  bool columns() const { return dweight != nullptr || dbias != nullptr; }
  Tensor shifts() const { return workspace(rows, computed_in(x.dtype)); }
  void finish_columns(const Tensor& shift) const {
    sum_columns({rows, count, grad, x, mean, inverse, *shift.impl()}, dweight, dbias);
  }
};

template <class T, int V, int kHeld, int kGroup>
bool fits(const Wanted& w, RowGradients<T> task) {
  if (w.count > std::int64_t{kHeld} * kGroup) return false;
  LaunchShape shape = rows_shape<kGroup>(w.rows);
  if (!w.columns()) {
    launch(row_gradients_kernel<T, V, kHeld, kGroup>, shape, task);
  } else if constexpr (kGroup < kLongRowThreads) {
    const std::int64_t blocks = blocks_that_add(w.rows, kRowsOfBlock<kGroup>);
    const Tensor sums = workspace(blocks * 2 * w.count, computed_in(w.x.dtype));
    task.sums = sums.impl()->as<Compute<T>>();
    shape.blocks = static_cast<unsigned>(blocks);
    launch(row_gradients_kernel<T, V, kHeld, kGroup>, shape, task);
    join_columns(*sums.impl(), blocks, w.count, w.dweight, w.dbias);
  } else {
    const Tensor shift = w.shifts();
    task.shift = NormNumbers(shift.impl());
    launch(row_gradients_kernel<T, V, kHeld, kGroup>, shape, task);
    w.finish_columns(shift);
  }
  return true;
}

/// False for rows that are too long.
template <class T>
bool gradients_of_rows(const Wanted& w) {
  constexpr int kWide = kPack<T>, kBlock = static_cast<int>(kThreads);
  const NormNumbers weight(w.weight);
  const RowGradients<T> task{w.rows,
                             w.count,
                             w.grad.as<T>(),
                             w.x.as<T>(),
                             weight,
                             NormNumbers(w.mean),
                             NormNumbers(&w.inverse),
                             w.dx == nullptr ? nullptr : w.dx->as<T>(),
                             nullptr,
                             NormNumbers()};
  const bool packs = w.count % kWide == 0 && aligned16(task.grad, task.x, weight.address(), task.dx);
  if (!packs) return fits<T, 1, kHeldByLane<T>, kWarp>(w, task) || fits<T, 1, kHeldByThread<T>, kBlock>(w, task);
  return fits<T, kWide, kHeldByLane<T>, kWarp>(w, task) || fits<T, kWide, kHeldByThread<T>, kBlock>(w, task) ||
         fits<T, kWide, kHeldOfLongRows<T>, kLongRowThreads>(w, task);
}

void gradients_of_long_rows(const Wanted& w) {
  const NormUnits units{1, w.rows, w.count};
  const NormSums found = product_sums(w.grad, w.x, w.weight, w.mean, 1, units);
  const Tensor rule = rule_for(w.x.dtype, w.rows), shift = w.shifts();
  launch(long_row_gradients_kernel, norm_warps(w.rows), found.sums, w.count, NormNumbers(w.mean),
         NormNumbers(&w.inverse), NormNumbers(shift.impl()), w.dx != nullptr, RuleNumbers(*rule.impl(), w.rows));
  if (w.dx != nullptr) apply_rule(*rule.impl(), units, &w.grad, w.x, w.weight, nullptr, *w.dx);
  if (w.columns()) w.finish_columns(shift);
}

}  // namespace

void layer_norm_backward(const TensorImpl& grad, const TensorImpl& x, const TensorImpl* weight, const TensorImpl* mean,
                         const TensorImpl& inverse, TensorImpl* dx, TensorImpl* dweight, TensorImpl* dbias) {
  if (x.numel() == 0) {
    for (TensorImpl* sums : {dweight, dbias})
      if (sums != nullptr) fill(*sums, 0);
    return;
  }
  const std::int64_t rows = inverse.numel();
  const Wanted wanted{grad, x, weight, mean, inverse, dx, dweight, dbias, rows, x.numel() / rows};
  const bool done = core::visit_real(x.dtype, [&]<class T>(core::Type<T>) { return gradients_of_rows<T>(wanted); });
  if (!done) gradients_of_long_rows(wanted);
}

}  // namespace capstan::on_cuda
