#pragma once
// What kernels over rows of classes share: rows as they lie in memory, and the statistics of the softmax.
#include <limits>

#include "cuda/reduce.cuh"
#include "lib/kernels/host_device.hpp"

namespace capstan::on_cuda {

/// The last axis of x, of any strides.
template <class T>
struct RowInput {
  const T* data;
  AxisWalk rows;
  std::int64_t step;

  explicit RowInput(const TensorImpl& x) : data(x.as<const T>()), step(x.strides[x.rank() - 1]) {
    for (int axis = 0; axis + 1 < x.rank(); ++axis) rows.append(x.shape[axis], x.strides[axis]);
  }
  __device__ const T* row(std::int64_t i) const { return data + rows.offset(i); }
  /// Whether every row can be read in packs from its beginning on.
  bool packs() const { return step == 1 && rows.steps_by(kPack<T>) && aligned16(data); }
};

/// The largest element and the sum of exp(x - largest); beside an infinite one, of exp(x).
template <class C>
struct SoftmaxSums {
  C largest;
  double total;
};

/// Gathers them in one pass, as a rule of reduce.cuh that lacks `store`. NaN makes the total NaN.
template <class T>
struct SoftmaxRule {
  using Value = T;
  using C = Compute<T>;
  using State = SoftmaxSums<C>;
  using Part = State;
  static constexpr int kRowPack = kPack<T>, kColumnPack = 0;

  __device__ State start() const { return {-std::numeric_limits<C>::infinity(), 0}; }
  template <int N, class At>
  __device__ void take(State& state, const T (&values)[N], const At&) const {
    C shifted[N];
    C largest = state.largest;
    CAPSTAN_UNROLL
    for (int j = 0; j < N; ++j) {
      shifted[j] = widen(values[j]);
      largest = shifted[j] > largest ? shifted[j] : largest;
    }
    const C shift = finite_or_zero(largest);
    CAPSTAN_UNROLL
    for (int j = 0; j < N; ++j) shifted[j] = kernels::exp(shifted[j] - shift);
    if (largest != state.largest) state.total *= static_cast<double>(kernels::exp(state.largest - largest));
    state.total += static_cast<double>(sum_of_pairs<N>(shifted));
    state.largest = largest;
  }
  __device__ Part part(const State& state) const { return state; }
  __device__ Part operator()(const Part& a, const Part& b) const {
    if (a.largest == b.largest) return {a.largest, a.total + b.total};
    const bool first = a.largest > b.largest;
    const Part &high = first ? a : b, &low = first ? b : a;
    return {high.largest, high.total + low.total * static_cast<double>(kernels::exp(low.largest - high.largest))};
  }
};

/// What softmax and log_softmax do where rows are too long for registers; see long_rows.cu. Arguments as of the slots,
/// with any strides for x and contiguous else.
void softmax_of_long_rows(bool log, const TensorImpl& x, TensorImpl& out);
void softmax_backward_of_long_rows(bool log, const TensorImpl& grad, const TensorImpl& y, TensorImpl& out);

}  // namespace capstan::on_cuda
