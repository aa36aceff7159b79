// Lines of recurrent sequences: to their order and back, and the sums over them.
#include "cuda/blocks.cuh"
#include "cuda/launch.cuh"
#include "cuda/recurrent.hpp"

namespace capstan::on_cuda {
namespace {

/// A warp for each of so many lines, which strides through those that are left.
LaunchShape warp_each(std::int64_t lines) { return shape_for(lines * kWarp); }
__device__ inline std::int64_t first_warp() { return first_index() / kWarp; }
__device__ inline std::int64_t warp_step() { return index_step() / kWarp; }

template <class T>
__device__ inline void copy_line(const T* from, std::int64_t width, T* to) {
  for (std::int64_t i = threadIdx.x % kWarp; i < width; i += kWarp) to[i] = from == nullptr ? T(0) : from[i];
}

/// A tensor [batch, time, width], its last axis contiguous.
template <class T>
struct Sequence {
  T* data;
  std::int64_t time, width, row_step, time_step;

  explicit Sequence(const TensorImpl& x)
      : data(x.as<T>()), time(x.shape[1]), width(x.shape[2]), row_step(x.strides[0]), time_step(x.strides[1]) {}
  __device__ T* at(std::int64_t place, std::int64_t t) const { return data + place * row_step + t * time_step; }
};

template <class T>
__global__ void gather_lines_kernel(LineView lines, Sequence<T> x, T* to) {
  for (std::int64_t i = first_warp(); i < lines.batch * lines.time; i += warp_step()) {
    const std::int64_t t = i / lines.batch, row = i - t * lines.batch;
    if (row < lines.active(t)) copy_line<T>(x.at(lines.place(row), t), x.width, to + lines.line(t, row) * x.width);
  }
}

template <class T>
__global__ void scatter_lines_kernel(LineView lines, const T* from, Sequence<T> x) {
  for (std::int64_t i = first_warp(); i < lines.batch * x.time; i += warp_step()) {
    const std::int64_t t = i / lines.batch, row = i - t * lines.batch;
    T* to = x.at(lines.place(row), t);
    if (t >= lines.length(row)) copy_line<T>(nullptr, x.width, to);
    else if (from != nullptr) copy_line<T>(from + lines.line(t, row) * x.width, x.width, to);
  }
}

template <class T>
__global__ void enter_states_kernel(LineView lines, const T* initial, std::int64_t width, bool lined, T* to, T* last) {
  for (std::int64_t row = first_warp(); row < lines.batch; row += warp_step()) {
    const std::int64_t place = lines.place(row) * width;
    const T* from = initial + place;
    if (lines.length(row) == 0) {
      copy_line<T>(from, width, last + place);
    } else if (lined) {
      copy_line<T>(from, width, to + lines.entry(row) * width);
    } else {
      copy_line<T>(from, width, to + row * width);
      copy_line<T>(from, width, to + (lines.batch + row) * width);
    }
  }
}

template <class T>
__global__ void order_rows_kernel(LineView lines, const T* from, std::int64_t width, bool back, T* to) {
  for (std::int64_t row = first_warp(); row < lines.batch; row += warp_step()) {
    const std::int64_t place = lines.place(row);
    const T* line = from == nullptr ? nullptr : from + (back ? row : place) * width;
    copy_line<T>(line, width, to + (back ? place : row) * width);
  }
}

/// Where the sum of a column goes.
template <class T>
struct BiasGradients {
  RecurrentKind kind;
  std::int64_t hidden;
  T *b, *bn;

  __device__ void set(std::int64_t column, double sum) const {
    T* to = b;
    std::int64_t at = column;
    if (is_gru(kind)) {  // n, r, z, and h's part of n: b's blocks are r, z, n
      at = column < hidden ? column + 2 * hidden : column - hidden;
      if (column >= 3 * hidden) to = bn, at = column - 3 * hidden;
    }
    if (to != nullptr) to[at] = static_cast<T>(sum);
  }
};

constexpr int kColumnsOfBlock = kWarp, kSumThreads = 256;

/// A block for 32 columns and a chunk of lines. Chunks' sums are kept if there are several.
template <class T>
__global__ void __launch_bounds__(kSumThreads)
    sum_columns_kernel(const T* sums, std::int64_t line, std::int64_t lines, std::int64_t lines_each,
                       std::int64_t width, double* partial, BiasGradients<T> to) {
  constexpr int kWarps = kSumThreads / kWarp;
  __shared__ double of_warps[kWarps][kColumnsOfBlock];
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t column = std::int64_t{blockIdx.x} * kColumnsOfBlock + lane;
  const std::int64_t begin = std::int64_t{blockIdx.y} * lines_each;
  const std::int64_t end = begin + lines_each < lines ? begin + lines_each : lines;
  double total = 0;
  if (column < width) {
    const T* from = sums + column;
    for (std::int64_t i = begin + warp; i < end; i += kWarps) total += static_cast<double>(from[i * line]);
  }
  of_warps[warp][lane] = total;
  __syncthreads();
  if (warp != 0 || column >= width) return;
  for (int i = 1; i < kWarps; ++i) total += of_warps[i][lane];
  if (gridDim.y == 1) to.set(column, total);
  else partial[std::int64_t{blockIdx.y} * width + column] = total;
}

template <class T>
__global__ void add_chunks_kernel(const double* partial, std::int64_t chunks, std::int64_t width, BiasGradients<T> to) {
  for (std::int64_t column = first_index(); column < width; column += index_step()) {
    double total = 0;
    for (std::int64_t i = 0; i < chunks; ++i) total += partial[i * width + column];
    to.set(column, total);
  }
}

}  // namespace

template <class T>
void gather_lines(const LineView& lines, const TensorImpl& x, T* to) {
  launch(gather_lines_kernel<T>, warp_each(lines.batch * lines.time), lines, Sequence<T>(x), to);
}

template <class T>
void scatter_lines(const LineView& lines, const T* from, const TensorImpl& x) {
  launch(scatter_lines_kernel<T>, warp_each(lines.batch * x.shape[1]), lines, from, Sequence<T>(x));
}

template <class T>
void enter_states(const LineView& lines, const T* initial, std::int64_t width, bool lined, T* to, T* last) {
  launch(enter_states_kernel<T>, warp_each(lines.batch), lines, initial, width, lined, to, last);
}

template <class T>
void order_rows(const LineView& lines, const T* from, std::int64_t width, bool back, T* to) {
  launch(order_rows_kernel<T>, warp_each(lines.batch), lines, from, width, back, to);
}

template <class T>
void sum_biases(RecurrentKind kind, const T* sums, std::int64_t lines, std::int64_t hidden, T* b, T* bn) {
  if (b == nullptr && bn == nullptr) return;
  const std::int64_t line = gate_blocks(kind).line * hidden;
  const std::int64_t width = is_gru(kind) && bn == nullptr ? 3 * hidden : line;
  if (width == 0) return;
  const ColumnCut cut = cut_columns(lines, width);
  const DeviceArray<double> partial(cut.chunks > 1 ? cut.chunks * width : 0);
  const BiasGradients<T> to{kind, hidden, b, bn};
  launch(sum_columns_kernel<T>, dim3(static_cast<unsigned>(cut.tiles), static_cast<unsigned>(cut.chunks)),
         dim3(kSumThreads), sums, line, lines, cut.lines_each, width, partial.data(), to);
  if (cut.chunks > 1) launch(add_chunks_kernel<T>, shape_for(width), partial.data(), cut.chunks, width, to);
}

#define CAPSTAN_INSTANTIATE(T)                                                       \
  template void gather_lines(const LineView&, const TensorImpl&, T*);                \
  template void scatter_lines(const LineView&, const T*, const TensorImpl&);         \
  template void enter_states(const LineView&, const T*, std::int64_t, bool, T*, T*); \
  template void order_rows(const LineView&, const T*, std::int64_t, bool, T*);       \
  template void sum_biases(RecurrentKind, const T*, std::int64_t, std::int64_t, T*, T*);
CAPSTAN_INSTANTIATE(float)
CAPSTAN_INSTANTIATE(double)
#undef CAPSTAN_INSTANTIATE

}  // namespace capstan::on_cuda
