// Softmax of rows that no block keeps in its registers: statistics of the rows first, then once more through them.
#include "cuda/map_rows.cuh"
#include "cuda/rows.cuh"

namespace capstan::on_cuda {
namespace {

/// statistics [rows, 2]: the largest element; and what exp(x - largest) is multiplied by, or what is taken from
/// x - largest.
template <class T>
struct SoftmaxStatistics : SoftmaxRule<T> {
  using C = Compute<T>;
  bool log;
  C* statistics;

  SoftmaxStatistics(bool logarithm, C* to) : log(logarithm), statistics(to) {}
  __device__ void store(std::int64_t i, const SoftmaxSums<C>& sums) const {
    const C total = static_cast<C>(sums.total), rest = log ? kernels::log(total) : C(1) / total;
    statistics[2 * i] = sums.largest;
    statistics[2 * i + 1] = sums.largest - sums.largest == C(0) ? rest : std::numeric_limits<C>::quiet_NaN();
  }
};

template <class T>
struct SoftmaxMap {
  using Value = T;
  using C = Compute<T>;
  struct Row {
    const T* from;
    T* base;
    C largest, rest;
  };

  bool log;
  RowInput<T> x;
  const C* statistics;
  std::int64_t columns;
  T* out;

  __device__ Row row(std::int64_t i) const {
    return {x.row(i), out + i * columns, statistics[2 * i], statistics[2 * i + 1]};
  }
  template <int N>
  __device__ Pack<T, N> load(const Row& row, std::int64_t column) const {
    if constexpr (N == 1) return {{row.from[column * x.step]}};
    else return read_pack<N>(row.from + column);
  }
  template <int N>
  __device__ void take(Row& row, const Pack<T, N>& values, std::int64_t column) const {
    Pack<T, N> result;
    CAPSTAN_UNROLL
    for (int i = 0; i < N; ++i) {
      const C shifted = widen(values.values[i]) - row.largest;
      result.values[i] = narrow<T>(log ? shifted - row.rest : kernels::exp(shifted) * row.rest);
    }
    write_pack(result, row.base + column);
  }
  __device__ void close(const Row&, std::int64_t, bool, int, int) const {}
};

/// Two operands' neighbours.
template <class T, int N>
struct PackPair {
  Pack<T, N> grad, y;
};

/// The row's sum of grad * y, or of grad if `log`.
template <class T>
struct GradientSums {
  using Value = T;
  struct Row {
    const T *base, *y;
    double total;
  };

  bool log;
  const T *grad, *y;
  std::int64_t columns;
  double* totals;  // of each piece

  __device__ Row row(std::int64_t i) const { return {grad + i * columns, y + i * columns, 0}; }
  template <int N>
  __device__ PackPair<T, N> load(const Row& row, std::int64_t column) const {
    return {read_pack<N>(row.base + column), read_pack<N>(row.y + column)};
  }
  template <int N>
  __device__ void take(Row& row, const PackPair<T, N>& pair, std::int64_t) const {
    Compute<T> sum = 0;
    CAPSTAN_UNROLL
    for (int i = 0; i < N; ++i)
      sum += log ? widen(pair.grad.values[i]) : widen(pair.grad.values[i]) * widen(pair.y.values[i]);
    row.total += static_cast<double>(sum);
  }
  __device__ void close(const Row& row, std::int64_t item, bool real, int lane, int lanes) const {
    const double total = group_reduce(row.total, lanes, Add{});
    if (real && lane == 0) totals[item] = total;
  }
};

/// Joins the sums of pieces.
struct RowTotals {
  using Part = double;
  double* out;

  __device__ double start() const { return 0; }
  __device__ double part(double total) const { return total; }
  __device__ double operator()(double a, double b) const { return a + b; }
  __device__ void store(std::int64_t i, double total) const { out[i] = total; }
};

template <class T>
struct SoftmaxGradient {
  using Value = T;
  using C = Compute<T>;
  struct Row {
    T* base;
    const T *grad, *y;
    C total;
  };

  bool log;
  const T *grad, *y;
  const double* totals;
  std::int64_t columns;
  T* out;

  __device__ Row row(std::int64_t i) const {
    return {out + i * columns, grad + i * columns, y + i * columns, static_cast<C>(totals[i])};
  }
  template <int N>
  __device__ PackPair<T, N> load(const Row& row, std::int64_t column) const {
    return {read_pack<N>(row.grad + column), read_pack<N>(row.y + column)};
  }
  template <int N>
  __device__ void take(Row& row, const PackPair<T, N>& pair, std::int64_t column) const {
    Pack<T, N> result;
    CAPSTAN_UNROLL
    for (int i = 0; i < N; ++i) {
      const C change = widen(pair.grad.values[i]), value = widen(pair.y.values[i]);
      result.values[i] = narrow<T>(log ? change - kernels::exp(value) * row.total : (change - row.total) * value);
    }
    write_pack(result, row.base + column);
  }
  __device__ void close(const Row&, std::int64_t, bool, int, int) const {}
};

}  // namespace

void softmax_of_long_rows(bool log, const TensorImpl& x, TensorImpl& out) {
  const std::int64_t columns = x.shape[x.rank() - 1], rows = x.numel() / columns;
  core::visit_real(x.dtype, [&]<class T>(core::Type<T>) {
    using C = Compute<T>;
    const Tensor room = workspace(2 * rows, dtype_of<C>());
    C* const statistics = room.impl()->template as<C>();
    reduce_by(SoftmaxStatistics<T>(log, statistics), x, 1u << (x.rank() - 1));
    const SoftmaxMap<T> map{log, RowInput<T>(x), statistics, columns, out.as<T>()};
    const bool alike = x.contiguous && lie_alike(out.data, x.data);
    map_rows(map, MapPlan(rows, columns, kPack<T>, alike));
  });
}

void softmax_backward_of_long_rows(bool log, const TensorImpl& grad, const TensorImpl& y, TensorImpl& out) {
  const std::int64_t columns = y.shape[y.rank() - 1], rows = y.numel() / columns;
  core::visit_real(y.dtype, [&]<class T>(core::Type<T>) {
    const MapPlan plan(rows, columns, kPack<T>, lie_alike(out.data, grad.data, y.data));
    const std::int64_t pieces = plan.deal.pieces;
    const Tensor room = workspace(rows * (pieces + 1), DType::float64);
    double* const totals = room.impl()->as<double>();
    double* const parts = pieces == 1 ? totals : totals + rows;
    map_rows(GradientSums<T>{log, grad.as<T>(), y.as<T>(), columns, parts}, plan);
    if (pieces > 1) join_pieces(RowTotals{totals}, parts, rows, pieces);
    map_rows(SoftmaxGradient<T>{log, grad.as<T>(), y.as<T>(), totals, columns, out.as<T>()}, plan);
  });
}

}  // namespace capstan::on_cuda
