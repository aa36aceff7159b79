// A whole recurrent sequence back, in one launch: the gradients before the activations, and those of the first states.
#include "cuda/recurrent_resident.cuh"

namespace capstan::on_cuda {
namespace {

template <class T, int K>
struct SharedBackward {
  PackedRow<T, K> sums[kResidentRows][4];        // by the blocks of the recurrent weights
  T products[kResidentEach * kResidentThreads];  // [rows, columns]: of each block of sums with its weights
  T dh[kResidentRows][K], dc[kResidentRows][K];  // of the state before, but for the products
};

/// The block of the recurrent weights that belongs to a block of a line; -1 for none.
__device__ inline int block_of_weights(RecurrentKind kind, int q) {
  if (kind == RecurrentKind::gru) return q - 1;
  if (kind == RecurrentKind::gru_before) return q == 0 ? 2 : q == 3 ? -1 : q - 1;
  return q;
}
/// How many of the products reach dh: gru_before's last one is the gradient of r * h.
__device__ inline int products_of_h(RecurrentKind kind) {
  return kind == RecurrentKind::gru_before ? 2 : gate_blocks(kind).recurrent;
}

/// What there is behind the last step.
template <class T, int K>
__device__ void load_last(const ResidentBackward<T>& s, std::int64_t first, SharedBackward<T, K>& shared) {
  constexpr int kWidth = kRowPacks<T, K> * kPack<T>;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  for (int i = thread; i < kResidentRows * 4 * kWidth; i += threads)
    element<T, K>(shared.sums[i / (4 * kWidth)][i / kWidth % 4], i % kWidth) = T(0);
  for (int i = thread; i < kResidentEach * kResidentThreads; i += threads) shared.products[i] = T(0);
  for (int i = thread; i < kResidentRows * K; i += threads) {
    const int row = i / K, unit = i % K;
    const bool there = row < s.cut.rows() && first + row < s.lines.batch && unit < s.hidden;
    const std::int64_t at = there ? s.lines.place(first + row) * s.hidden + unit : 0;
    shared.dh[row][unit] = there && s.last_h != nullptr ? s.last_h[at] : T(0);
    shared.dc[row][unit] = there && s.last_c != nullptr ? s.last_c[at] : T(0);
  }
}

/// The whole gradient of a unit of the state that later steps began with.
template <class T, int K>
__device__ inline T gradient_of_h(const ResidentBackward<T>& s, int row, int unit, const SharedBackward<T, K>& shared) {
  T dh = shared.dh[row][unit];
  const T* products = shared.products + row * s.cut.columns + unit;
  const int count = products_of_h(s.kind);
  for (int q = 0; q < count; ++q) dh += products[q * s.hidden];
  return dh;
}

/// Back through the gates of one unit.
template <class T, int K>
__device__ inline void retreat(const ResidentBackward<T>& s, std::int64_t first, std::int64_t step, int row, int unit,
                               SharedBackward<T, K>& shared) {
  const std::int64_t t = s.lines.at(step), line = s.lines.line(t, first + row);
  const int blocks = gate_blocks(s.kind).line;
  const std::int64_t at = line * blocks * s.hidden + unit, state = line * s.hidden + unit;
  T gates[4] = {}, sums[4] = {};
  CAPSTAN_UNROLL
  for (int q = 0; q < 4; ++q)
    if (q < blocks) gates[q] = s.gates[at + q * s.hidden];
  const T h = is_gru(s.kind) ? s.entering_h[state] : T(0);
  const T c = s.entering_c != nullptr ? s.entering_c[state] : T(0);
  T dh = gradient_of_h(s, row, unit, shared), dc = shared.dc[row][unit];
  if (s.given != nullptr) dh += s.given[s.lines.place(first + row) * s.given_row + t * s.given_step + unit];
  retreat_unit(s.kind, gates, h, c, dh, dc, sums);
  shared.dh[row][unit] = dh;
  shared.dc[row][unit] = dc;
  CAPSTAN_UNROLL
  for (int q = 0; q < 4; ++q) {
    if (q >= blocks) continue;
    s.sums[at + q * s.hidden] = sums[q];
    const int block = block_of_weights(s.kind, q);
    if (block >= 0) element<T, K>(shared.sums[row][block], unit) = sums[q];
  }
}

/// Of gru_before: back through the reset gate, behind the product of n's block.
template <class T, int K>
__device__ inline void retreat_resets(const ResidentBackward<T>& s, std::int64_t first, std::int64_t step, int row,
                                      int unit, SharedBackward<T, K>& shared) {
  const std::int64_t line = s.lines.line(s.lines.at(step), first + row), at = (line * 4 + 1) * s.hidden + unit;
  const T grad = shared.products[row * s.cut.columns + 2 * s.hidden + unit];
  const T sum = retreat_reset(grad, s.gates[at], s.entering_h[line * s.hidden + unit], shared.dh[row][unit]);
  s.sums[at] = sum;
  element<T, K>(shared.sums[row][0], unit) = sum;
}

/// Products of the blocks [begin, end) of the sums with their weights.
template <class T, int K>
__device__ inline void multiply(const ResidentBackward<T>& s, const ResidentPart& part, const T (&weights)[K],
                                int running, int begin, int end, SharedBackward<T, K>& shared) {
  if (part.block < begin || part.block >= end) return;
  CAPSTAN_UNROLL
  for (int i = 0; i < kResidentEach; ++i) {
    const int row = part.row + i;
    if (i < part.count && row < running)
      shared.products[row * s.cut.columns + part.column] = dot<T, K>(weights, shared.sums[row][part.block]);
  }
}

/// The gradients of the first states.
template <class T, int K>
__device__ void store_first(const ResidentBackward<T>& s, std::int64_t first, const SharedBackward<T, K>& shared) {
  for (int i = static_cast<int>(threadIdx.x); i < s.cut.rows() * s.hidden; i += static_cast<int>(blockDim.x)) {
    const int row = i / s.hidden, unit = i - row * s.hidden;
    if (first + row >= s.lines.batch) continue;
    const std::int64_t at = s.lines.place(first + row) * s.hidden + unit;
    if (s.dh0 != nullptr) s.dh0[at] = gradient_of_h(s, row, unit, shared);
    if (s.dc0 != nullptr) s.dc0[at] = shared.dc[row][unit];
  }
}

template <class T, int K>
__global__ void __launch_bounds__(kResidentThreads) resident_backward_kernel(ResidentBackward<T> s) {
  __shared__ SharedBackward<T, K> shared;
  const ResidentPart part = part_of(s.cut, s.hidden);
  const std::int64_t first = std::int64_t{blockIdx.x} * s.cut.rows();
  T weights[K];  // a row of the column's block
  const T* from = s.wh + std::int64_t{part.unit} * s.cut.columns + part.block * s.hidden;
  CAPSTAN_UNROLL
  for (int k = 0; k < K; ++k) weights[k] = part.count > 0 && k < s.hidden ? from[k] : T(0);
  load_last(s, first, shared);
  __syncthreads();
  for (std::int64_t step = s.lines.time - 1; step >= 0; --step) {
    const int running = rows_running(s.lines, s.cut, first, step);
    if (running == 0) continue;  // the whole block
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    for (int i = thread; i < running * s.hidden; i += threads)
      retreat(s, first, step, i / s.hidden, i % s.hidden, shared);
    __syncthreads();
    if (s.kind == RecurrentKind::gru_before) {
      multiply(s, part, weights, running, 2, 3, shared);
      __syncthreads();
      for (int i = thread; i < running * s.hidden; i += threads)
        retreat_resets(s, first, step, i / s.hidden, i % s.hidden, shared);
      __syncthreads();
    }
    multiply(s, part, weights, running, 0, products_of_h(s.kind), shared);
    __syncthreads();
  }
  store_first(s, first, shared);
}

}  // namespace

template <class T>
void run_resident(const ResidentBackward<T>& s) {
  const LaunchShape shape = {block_each(s.cut.blocks).blocks, s.cut.threads()};
  if (s.hidden <= kResidentUnits / 2) launch(resident_backward_kernel<T, kResidentUnits / 2>, shape, s);
  else launch(resident_backward_kernel<T, kResidentUnits>, shape, s);
}
template void run_resident(const ResidentBackward<float>&);
template void run_resident(const ResidentBackward<double>&);

}  // namespace capstan::on_cuda
