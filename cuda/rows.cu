// Softmax and its relatives along the last axis. A group of threads keeps a row in its registers: it is read once and
// written once.
#include "cuda/rows.cuh"

#include "cuda/backend.hpp"

namespace capstan::on_cuda {
namespace {

// Elements that a thread keeps of a row, by how many it loads at once.
template <class T, int V>
inline constexpr int kFewKept = V == 1 ? 4 : 8;
template <class T, int V>
inline constexpr int kManyKept = V == 1 || sizeof(T) == 8 ? 16 : 32;

/// The thread's elements of a row, `beyond` where there are none.
template <int V, int N, class T, class C>
__device__ inline void keep_row(const T* row, std::int64_t step, std::int64_t columns, int lane, int lanes, C beyond,
                                C (&kept)[N]) {
  CAPSTAN_UNROLL
  for (int p = 0; p < N / V; ++p) {
    const std::int64_t at = (std::int64_t{p} * lanes + lane) * V;
    if (at >= columns) {
      CAPSTAN_UNROLL
      for (int v = 0; v < V; ++v) kept[p * V + v] = beyond;
    } else if constexpr (V == 1) {
      kept[p] = widen(row[at * step]);
    } else {
      const Pack<T, V> pack = read_pack<V>(row + at);
      CAPSTAN_UNROLL
      for (int v = 0; v < V; ++v) kept[p * V + v] = widen(pack.values[v]);
    }
  }
}
template <int V, int N, class T, class C>
__device__ inline void write_row(const C (&kept)[N], std::int64_t columns, int lane, int lanes, T* row) {
  CAPSTAN_UNROLL
  for (int p = 0; p < N / V; ++p) {
    const std::int64_t at = (std::int64_t{p} * lanes + lane) * V;
    if (at >= columns) continue;
    Pack<T, V> pack;
    CAPSTAN_UNROLL
    for (int v = 0; v < V; ++v) pack.values[v] = narrow<T>(kept[p * V + v]);
    write_pack(pack, row + at);
  }
}

/// Sum of `term(i)` over the thread's elements, up to 16 of them in their own type of arithmetic.
template <int V, int N, class Term>
__device__ inline double sum_of_kept(const Term& term) {
  double total = 0;
  decltype(term(0)) sum = 0;
  CAPSTAN_UNROLL
  for (int i = 0; i < N; ++i) {
    sum += term(i);
    if ((V > 1 && i % V == V - 1) || i == N - 1) {
      total += static_cast<double>(sum);
      sum = 0;
    }
  }
  return total;
}

/// exp(x - largest), which also takes the place of x unless `log`.
template <int N, class C>
struct ExpTerm {
  C (&kept)[N];
  C largest;
  bool log;
  __device__ C operator()(int i) const {
    const C result = kernels::exp(kept[i] - largest);
    if (!log) kept[i] = result;
    return result;
  }
};

template <class T, int V, int N>
__global__ void __launch_bounds__(kThreads) softmax_kernel(bool log, const __grid_constant__ RowInput<T> x,
                                                           std::int64_t rows, std::int64_t columns, int lanes, T* out) {
  using C = Compute<T>;
  const int lane = static_cast<int>(threadIdx.x) % lanes, group = static_cast<int>(threadIdx.x) / lanes;
  const std::int64_t side = kRowThreads / lanes;
  for (std::int64_t base = blockIdx.x * side; base < rows; base += gridDim.x * side) {
    const std::int64_t row = base + group, width = row < rows ? columns : 0;
    C kept[N];
    keep_row<V>(row < rows ? x.row(row) : x.data, x.step, width, lane, lanes, -std::numeric_limits<C>::infinity(),
                kept);
    C largest = -std::numeric_limits<C>::infinity();
    CAPSTAN_UNROLL
    for (int i = 0; i < N; ++i) largest = kept[i] > largest ? kept[i] : largest;
    largest = group_reduce(largest, lanes, Largest{});
    // infinities, and NaN, make the total NaN, and with it the row
    const double total = group_reduce(sum_of_kept<V, N>(ExpTerm<N, C>{kept, largest, log}), lanes, Add{});
    const C sum = static_cast<C>(total), rest = log ? kernels::log(sum) : C(1) / sum;
    CAPSTAN_UNROLL
    for (int i = 0; i < N; ++i) kept[i] = log ? (kept[i] - largest) - rest : kept[i] * rest;
    write_row<V>(kept, width, lane, lanes, out + row * columns);
  }
}

template <int N, class C>
struct GradientTerm {
  const C (&grad)[N], (&y)[N];
  bool log;
  __device__ C operator()(int i) const { return log ? grad[i] : grad[i] * y[i]; }
};

template <class T, int V, int N>
__global__ void __launch_bounds__(kThreads)
    softmax_backward_kernel(bool log, const T* grad, const T* y, std::int64_t rows, std::int64_t columns, int lanes,
                            T* out) {
  using C = Compute<T>;
  const int lane = static_cast<int>(threadIdx.x) % lanes, group = static_cast<int>(threadIdx.x) / lanes;
  const std::int64_t side = kRowThreads / lanes;
  for (std::int64_t base = blockIdx.x * side; base < rows; base += gridDim.x * side) {
    const std::int64_t row = base + group, width = row < rows ? columns : 0, start = row * columns;
    C change[N], kept[N];
    keep_row<V>(grad + start, 1, width, lane, lanes, C(0), change);
    keep_row<V>(y + start, 1, width, lane, lanes, C(0), kept);
    const double all = group_reduce(sum_of_kept<V, N>(GradientTerm<N, C>{change, kept, log}), lanes, Add{});
    const C total = static_cast<C>(all);
    CAPSTAN_UNROLL
    for (int i = 0; i < N; ++i)
      change[i] = log ? change[i] - kernels::exp(kept[i]) * total : (change[i] - total) * kept[i];
    write_row<V>(change, width, lane, lanes, out + start);
  }
}

/// False if rows are too long.
template <class T, int V>
bool softmax_kept(bool log, const RowInput<T>& x, std::int64_t rows, std::int64_t columns, T* out) {
  constexpr int kSome = kFewKept<T, V>, kMost = kManyKept<T, V>;
  const KeptRows kept(columns, kSome, kMost);
  if (kept.lanes == 0) return false;
  const auto kernel = kept.each == kSome ? &softmax_kernel<T, V, kSome> : &softmax_kernel<T, V, kMost>;
  launch(kernel, kept.shape(rows), log, x, rows, columns, kept.lanes, out);
  return true;
}
template <class T, int V>
bool softmax_backward_kept(bool log, const T* grad, const T* y, std::int64_t rows, std::int64_t columns, T* out) {
  constexpr int kSome = kFewKept<T, V>, kMost = kManyKept<T, V>;
  const KeptRows kept(columns, kSome, kMost);
  if (kept.lanes == 0) return false;
  const auto kernel =
      kept.each == kSome ? &softmax_backward_kernel<T, V, kSome> : &softmax_backward_kernel<T, V, kMost>;
  launch(kernel, kept.shape(rows), log, grad, y, rows, columns, kept.lanes, out);
  return true;
}

template <class T>
struct LogSumExp : SoftmaxRule<T> {
  T* out;

  explicit LogSumExp(T* to) : out(to) {}
  __device__ void store(std::int64_t i, const SoftmaxSums<Compute<T>>& sums) const {
    const double shift = static_cast<double>(finite_or_zero(sums.largest));
    out[i] = narrow<T>(static_cast<Compute<T>>(kernels::log(sums.total) + shift));
  }
};

}  // namespace

void softmax(bool log, const TensorImpl& x, TensorImpl& out) {
  if (x.numel() == 0) return;
  const std::int64_t columns = x.shape[x.rank() - 1], rows = x.numel() / columns;
  core::visit_real(x.dtype, [&]<class T>(core::Type<T>) {
    constexpr int V = kPack<T>;
    const RowInput<T> input(x);
    T* const to = out.as<T>();
    const bool packs = columns % V == 0 && input.packs() && aligned16(to);
    const bool done =
        packs ? softmax_kept<T, V>(log, input, rows, columns, to) : softmax_kept<T, 1>(log, input, rows, columns, to);
    if (!done) softmax_of_long_rows(log, x, out);
  });
}

void softmax_backward(bool log, const TensorImpl& grad, const TensorImpl& y, TensorImpl& out) {
  if (y.numel() == 0) return;
  const std::int64_t columns = y.shape[y.rank() - 1], rows = y.numel() / columns;
  core::visit_real(y.dtype, [&]<class T>(core::Type<T>) {
    constexpr int V = kPack<T>;
    const T *const change = grad.as<T>(), *const from = y.as<T>();
    T* const to = out.as<T>();
    const bool packs = columns % V == 0 && aligned16(change, from, to);
    const bool done = packs ? softmax_backward_kept<T, V>(log, change, from, rows, columns, to)
                            : softmax_backward_kept<T, 1>(log, change, from, rows, columns, to);
    if (!done) softmax_backward_of_long_rows(log, grad, y, out);
  });
}

void logsumexp(const TensorImpl& x, TensorImpl& out) {
  core::visit_real(x.dtype,
                   [&]<class T>(core::Type<T>) { reduce_by(LogSumExp<T>(out.as<T>()), x, 1u << (x.rank() - 1)); });
}

}  // namespace capstan::on_cuda
