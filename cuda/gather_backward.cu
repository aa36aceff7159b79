// Rows added up by index: the gradient of looking rows up. Each sum begins with what is there and goes through its
// sources in their order, or in pieces of that order, so that it is the same in every run.
#include <type_traits>

#include "cuda/blocks.cuh"
#include "cuda/launch.cuh"
#include "cuda/positions.cuh"

namespace capstan::on_cuda {
namespace {

constexpr int kColumnsAtOnce = 4;  // of a thread

/// The rows that `count` sources are added to.
struct Targets {
  PositionList at;
  std::int64_t count, height, width;

  /// `height` for an index that is out of range.
  __device__ std::int64_t row(std::int64_t source) const {
    std::int64_t position = at[source];
    return inside(position, {width, height, false}) ? position : height;
  }
};

template <class T>
using Sums = Compute<T>[kColumnsAtOnce];

/// Every `step`-th column from `first` on; zeros beyond the last.
template <class T>
__device__ void load_columns(const T* row, std::int64_t first, int step, std::int64_t width, Sums<T>& values) {
  for (int k = 0; k < kColumnsAtOnce; ++k) {
    const std::int64_t column = first + k * step;
    values[k] = column < width ? widen(row[column]) : Compute<T>(0);
  }
}
template <class T>
__device__ void store_columns(const Sums<T>& values, std::int64_t first, int step, std::int64_t width, T* row) {
  for (int k = 0; k < kColumnsAtOnce; ++k)
    if (first + k * step < width) row[first + k * step] = narrow<T>(values[k]);
}
template <class C>
__device__ void add_columns(C (&sums)[kColumnsAtOnce], const C (&values)[kColumnsAtOnce]) {
  for (int k = 0; k < kColumnsAtOnce; ++k) sums[k] = static_cast<C>(sums[k] + values[k]);
}

// --- few sources: the first one of each row looks for the others ---

constexpr std::int64_t kFewSources = 2048;
constexpr int kFewThreads = 128;

template <class T>
__global__ void __launch_bounds__(kFewThreads) add_few_kernel(Targets targets, const T* grad, T* out) {
  constexpr int kWarps = kFewThreads / kWarp;
  __shared__ unsigned found[kWarps];
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t own = blockIdx.x, row = targets.row(own), width = targets.width;
  int earlier = row == targets.height ? 1 : 0;
  for (std::int64_t i = thread; i < own; i += kFewThreads) earlier |= targets.row(i) == row ? 1 : 0;
  if (__syncthreads_or(earlier) != 0) return;  // the whole block
  for (std::int64_t part = blockIdx.y; part * kFewThreads * kColumnsAtOnce < width; part += gridDim.y) {
    const std::int64_t first = part * kFewThreads * kColumnsAtOnce + thread;
    Sums<T> sums, values;
    load_columns(out + row * width, first, kFewThreads, width, sums);
    for (std::int64_t begin = own; begin < targets.count; begin += kFewThreads) {
      const std::int64_t i = begin + thread;
      const unsigned same = __ballot_sync(kAllLanes, i < targets.count && targets.row(i) == row);
      __syncthreads();  // what was found before has been used
      if (thread % kWarp == 0) found[thread / kWarp] = same;
      __syncthreads();
      for (int warp = 0; warp < kWarps; ++warp)
        for (unsigned left = found[warp]; left != 0; left &= left - 1) {
          const std::int64_t source = begin + warp * kWarp + __ffs(static_cast<int>(left)) - 1;
          load_columns(grad + source * width, first, kFewThreads, width, values);
          add_columns(sums, values);
        }
    }
    store_columns(sums, first, kFewThreads, width, out + row * width);
  }
}

// --- many sources: sorted by row, they are added up window by window ---

constexpr int kWindow = 32, kSourcesAtOnce = 4;         // sources
constexpr std::int64_t kPart = kWarp * kColumnsAtOnce;  // columns of a warp

/// Rows in ascending order, and the source of each.
struct Sorted {
  PositionList rows;
  const std::int64_t* order;
  std::int64_t count, height, width;

  __device__ std::int64_t windows() const { return (count + kWindow - 1) / kWindow; }
  __device__ std::int64_t parts() const { return (width + kPart - 1) / kPart; }
  /// Whether the sources i and i + 1 belong to one row.
  __device__ bool goes_on(std::int64_t i) const { return i >= 0 && i + 1 < count && rows[i] == rows[i + 1]; }
};

/// A warp's columns of one window.
struct WarpPart {
  std::int64_t window, begin, end, first;

  __device__ WarpPart(const Sorted& sorted, std::int64_t item)
      : window(item / sorted.parts()), begin(window * kWindow), end(begin + kWindow) {
    end = end < sorted.count ? end : sorted.count;
    first = item % sorted.parts() * kPart + static_cast<std::int64_t>(threadIdx.x) % kWarp;
  }
};

template <class T>
__device__ void add_to_row(const Sums<T>& sums, const Sorted& sorted, std::int64_t row, std::int64_t first, T* out) {
  if (row >= sorted.height) return;
  Sums<T> there;
  load_columns(out + row * sorted.width, first, kWarp, sorted.width, there);
  add_columns(there, sums);
  store_columns(there, first, kWarp, sorted.width, out + row * sorted.width);
}

/// Rows whose sources lie in one window are finished. Of the others each window keeps what it has: in the first of its
/// two pieces [2 * windows, width] of a row that came from the window before, in the second of one that began here.
template <class T>
__global__ void __launch_bounds__(kThreads)
    sum_windows_kernel(Sorted sorted, const T* grad, T* out, Compute<T>* pieces) {
  const std::int64_t items = sorted.windows() * sorted.parts(), width = sorted.width;
  for (std::int64_t item = first_index() / kWarp; item < items; item += index_step() / kWarp) {
    const WarpPart part(sorted, item);
    bool began = !sorted.goes_on(part.begin - 1);
    Sums<T> sums = {};
    for (std::int64_t at = part.begin; at < part.end; at += kSourcesAtOnce) {
      Compute<T> values[kSourcesAtOnce][kColumnsAtOnce];
      for (int k = 0; k < kSourcesAtOnce; ++k) {
        const std::int64_t i = at + k < part.end ? at + k : part.end - 1;
        load_columns(grad + sorted.order[i] * width, part.first, kWarp, width, values[k]);
      }
      for (int k = 0; k < kSourcesAtOnce && at + k < part.end; ++k) {
        add_columns(sums, values[k]);
        if (sorted.goes_on(at + k)) continue;
        if (began) add_to_row(sums, sorted, sorted.rows[at + k], part.first, out);
        else store_columns(sums, part.first, kWarp, width, pieces + 2 * part.window * width);
        for (Compute<T>& sum : sums) sum = 0;
        began = true;
      }
    }
    if (sorted.goes_on(part.end - 1))
      store_columns(sums, part.first, kWarp, width, pieces + (2 * part.window + (began ? 1 : 0)) * width);
  }
}

/// The pieces of rows that began in a window and went on behind it.
template <class T>
__global__ void __launch_bounds__(kThreads) join_windows_kernel(Sorted sorted, const Compute<T>* pieces, T* out) {
  const std::int64_t items = sorted.windows() * sorted.parts(), width = sorted.width;
  for (std::int64_t item = first_index() / kWarp; item < items; item += index_step() / kWarp) {
    const WarpPart part(sorted, item);
    const std::int64_t row = sorted.rows[part.end - 1];
    const bool came = sorted.rows[part.begin] == row && sorted.goes_on(part.begin - 1);
    if (came || !sorted.goes_on(part.end - 1)) continue;
    Sums<T> sums, values;
    load_columns(pieces + (2 * part.window + 1) * width, part.first, kWarp, width, sums);
    for (std::int64_t window = part.window + 1;; ++window) {
      load_columns(pieces + 2 * window * width, part.first, kWarp, width, values);
      add_columns(sums, values);
      const std::int64_t last = (window + 1) * kWindow - 1;
      if (last >= sorted.count || sorted.rows[last] != row || !sorted.goes_on(last)) break;
    }
    add_to_row(sums, sorted, row, part.first, out);
  }
}

template <class Key>
__global__ void row_kernel(Targets targets, Key* rows) {
  for (std::int64_t i = first_index(); i < targets.count; i += index_step()) rows[i] = static_cast<Key>(targets.row(i));
}

template <class T>
void add_many(const Targets& targets, const TensorImpl& grad, TensorImpl& out) {
  const bool small = targets.height <= INT32_MAX;
  const DType key = small ? DType::int32 : DType::int64;
  const Tensor rows = workspace(targets.count, key), ascending = workspace(targets.count, key);
  const Tensor order = workspace(targets.count, DType::int64);
  const LaunchShape shape = shape_for(targets.count);
  if (small) launch(row_kernel<std::int32_t>, shape, targets, rows.impl()->as<std::int32_t>());
  else launch(row_kernel<std::int64_t>, shape, targets, rows.impl()->as<std::int64_t>());
  sort(*rows.impl(), 0, false, ascending.impl(), order.impl());
  const std::int64_t windows = (targets.count + kWindow - 1) / kWindow, parts = (targets.width + kPart - 1) / kPart;
  const Tensor pieces = workspace(2 * windows * targets.width, core::kIsHalf<T> ? DType::float32 : grad.dtype);
  auto* const room = pieces.impl()->as<Compute<T>>();
  const Sorted sorted{position_list(*ascending.impl()), order.impl()->as<const std::int64_t>(), targets.count,
                      targets.height, targets.width};
  launch(sum_windows_kernel<T>, shape_for(windows * parts * kWarp), sorted, grad.as<const T>(), out.as<T>(), room);
  launch(join_windows_kernel<T>, shape_for(windows * parts * kWarp), sorted, room, out.as<T>());
}

template <class T>
void add_few(const Targets& targets, const TensorImpl& grad, TensorImpl& out) {
  constexpr std::int64_t kMostParts = 65535;
  std::int64_t parts = (targets.width + kFewThreads * kColumnsAtOnce - 1) / (kFewThreads * kColumnsAtOnce);
  if (parts > kMostParts) parts = kMostParts;
  const dim3 blocks(static_cast<unsigned>(targets.count), static_cast<unsigned>(parts));
  launch(add_few_kernel<T>, blocks, dim3(kFewThreads), targets, grad.as<const T>(), out.as<T>());
}

}  // namespace

void gather_backward(const TensorImpl& grad, const TensorImpl& indices, TensorImpl& out) {
  if (out.numel() == 0 || grad.numel() == 0) return;
  const Targets targets{position_list(indices), indices.numel(), out.shape[0], out.numel() / out.shape[0]};
  const auto add = [&]<class T>(core::Type<T>) {
    if (targets.count <= kFewSources) add_few<T>(targets, grad, out);
    else add_many<T>(targets, grad, out);
  };
  if (is_floating(out.dtype)) core::visit_real(out.dtype, add);
  else visit_unsigned(size_of(out.dtype), add);  // integers of either sign are added alike
}

}  // namespace capstan::on_cuda
