// A whole recurrent sequence forward, in one launch.
#include "cuda/recurrent_resident.cuh"

namespace capstan::on_cuda {
namespace {

template <class T, int K>
struct SharedForward {
  PackedRow<T, K> h[kResidentRows];
  PackedRow<T, K> other[kResidentRows];  // an lstm's c; gru_before's r * h
  T gates[kResidentRows][4][K];
};

/// The initial states of the block's rows; those of rows without steps are their last ones.
template <class T, int K>
__device__ void enter(const ResidentForward<T>& s, std::int64_t first, SharedForward<T, K>& shared) {
  constexpr int kWidth = kRowPacks<T, K> * kPack<T>;
  for (int i = static_cast<int>(threadIdx.x); i < s.cut.rows() * kWidth; i += static_cast<int>(blockDim.x)) {
    const int row = i / kWidth, unit = i - row * kWidth;
    T h = T(0), c = T(0);
    if (first + row < s.lines.batch && unit < s.hidden) {
      const std::int64_t at = s.lines.place(first + row) * s.hidden + unit;
      const bool ended = s.lines.length(first + row) == 0;
      h = s.h0[at];
      if (ended) s.last_h[at] = h;
      if (s.c0 != nullptr) {
        c = s.c0[at];
        if (ended) s.last_c[at] = c;
      }
    }
    element<T, K>(shared.h[row], unit) = h;
    element<T, K>(shared.other[row], unit) = c;
  }
}

/// What x gives to the sums of a thread's column at a step.
template <class T>
__device__ inline void load_inputs(const ResidentForward<T>& s, const ResidentPart& part, std::int64_t first,
                                   std::int64_t step, T (&inputs)[kResidentEach]) {
  if (step >= s.lines.time) return;
  const std::int64_t t = s.lines.at(step), active = s.lines.active(t);
  const int block = !is_gru(s.kind) ? part.block : part.block == 2 ? 0 : part.block + 1;
  const std::int64_t width = std::int64_t{gate_blocks(s.kind).line} * s.hidden;
  const T* column = s.gates + block * s.hidden + part.unit;
  CAPSTAN_UNROLL
  for (int i = 0; i < kResidentEach; ++i) {
    const std::int64_t row = first + part.row + i;
    if (i < part.count && row < active) inputs[i] = column[s.lines.line(t, row) * width];
  }
}

template <class T>
struct Biases {
  T own, inner;  // of the column; of the product within n
};

/// The sums of the gates. Of gru_before those of r and z, or with `second` that of n.
template <class T, int K>
__device__ inline void sum_products(const ResidentForward<T>& s, const ResidentPart& part, const T (&weights)[K],
                                    const T (&inputs)[kResidentEach], const Biases<T>& bias, int running, bool second,
                                    SharedForward<T, K>& shared) {
  if (s.kind == RecurrentKind::gru_before && (part.block == 2) != second) return;
  CAPSTAN_UNROLL
  for (int i = 0; i < kResidentEach; ++i) {
    const int row = part.row + i;
    if (i >= part.count || row >= running) continue;
    const T product = dot<T, K>(weights, second ? shared.other[row] : shared.h[row]);
    T(&gates)[4][K] = shared.gates[row];
    if (s.kind == RecurrentKind::gru && part.block == 2) {
      gates[0][part.unit] = inputs[i] + bias.own;
      gates[3][part.unit] = product + bias.inner;
    } else {
      const int block = !is_gru(s.kind) ? part.block : second ? 0 : part.block + 1;
      gates[block][part.unit] = product + inputs[i] + bias.own;
    }
  }
}

/// Of gru_before: r, z and r * h.
template <class T, int K>
__device__ void reset_rows(const ResidentForward<T>& s, std::int64_t first, std::int64_t step, int running,
                           SharedForward<T, K>& shared) {
  for (int i = static_cast<int>(threadIdx.x); i < running * s.hidden; i += static_cast<int>(blockDim.x)) {
    const int row = i / s.hidden, unit = i - row * s.hidden;
    T gates[4] = {T(0), shared.gates[row][1][unit], shared.gates[row][2][unit], T(0)};
    reset_unit(gates, element<T, K>(shared.h[row], unit));
    shared.gates[row][2][unit] = gates[2];
    element<T, K>(shared.other[row], unit) = gates[3];
    if (!s.keeps) continue;
    T* line = s.gates + s.lines.line(s.lines.at(step), first + row) * 4 * s.hidden + unit;
    CAPSTAN_UNROLL
    for (int q = 1; q < 4; ++q) line[q * s.hidden] = gates[q];
  }
}

/// One unit's gates and state, to the next step and to the caller.
template <class T, int K>
__device__ inline void advance(const ResidentForward<T>& s, std::int64_t first, std::int64_t step, int row, int unit,
                               SharedForward<T, K>& shared) {
  const std::int64_t t = s.lines.at(step), place = s.lines.place(first + row), line = s.lines.line(t, first + row);
  const int blocks = gate_blocks(s.kind).line, kept = s.keeps ? blocks_with_state(s.kind) : 0;
  const bool lstm = s.kind == RecurrentKind::lstm;
  T gates[4] = {};
  CAPSTAN_UNROLL
  for (int q = 0; q < 4; ++q)
    if (q < blocks) gates[q] = shared.gates[row][q][unit];
  T h = element<T, K>(shared.h[row], unit), c = lstm ? element<T, K>(shared.other[row], unit) : T(0);
  const std::int64_t at = line * s.hidden + unit;
  if (s.entering_h != nullptr) s.entering_h[at] = h;
  if (s.entering_c != nullptr) s.entering_c[at] = c;
  advance_unit(s.kind, gates, h, c);
  T* to = s.gates + line * blocks * s.hidden + unit;
  CAPSTAN_UNROLL
  for (int q = 0; q < 4; ++q)
    if (q < kept) to[q * s.hidden] = gates[q];
  element<T, K>(shared.h[row], unit) = h;
  if (lstm) element<T, K>(shared.other[row], unit) = c;
  if (s.out != nullptr) s.out[place * s.out_row + t * s.out_step + unit] = h;
  if (first + row < s.lines.carry(step)) return;
  s.last_h[place * s.hidden + unit] = h;
  if (lstm) s.last_c[place * s.hidden + unit] = c;
}

template <class T, int K>
__global__ void __launch_bounds__(kResidentThreads) resident_forward_kernel(ResidentForward<T> s) {
  __shared__ SharedForward<T, K> shared;
  const ResidentPart part = part_of(s.cut, s.hidden);
  const std::int64_t first = std::int64_t{blockIdx.x} * s.cut.rows();
  T weights[K];
  CAPSTAN_UNROLL
  for (int k = 0; k < K; ++k)
    weights[k] = part.count > 0 && k < s.hidden ? s.wh[std::int64_t{k} * s.cut.columns + part.column] : T(0);
  Biases<T> bias{T(0), T(0)};
  if (part.count > 0) bias = {bias_at(s.b, part.column), bias_at(s.bn, part.unit)};
  enter(s, first, shared);
  T ahead[kResidentEach] = {};  // read a step before they are used
  load_inputs(s, part, first, 0, ahead);
  __syncthreads();
  for (std::int64_t step = 0; step < s.lines.time; ++step) {
    T inputs[kResidentEach];
    CAPSTAN_UNROLL
    for (int i = 0; i < kResidentEach; ++i) inputs[i] = ahead[i];
    load_inputs(s, part, first, step + 1, ahead);
    const int running = rows_running(s.lines, s.cut, first, step);
    if (running == 0) continue;  // the whole block
    sum_products(s, part, weights, inputs, bias, running, false, shared);
    __syncthreads();
    if (s.kind == RecurrentKind::gru_before) {
      reset_rows(s, first, step, running, shared);
      __syncthreads();
      sum_products(s, part, weights, inputs, bias, running, true, shared);
      __syncthreads();
    }
    for (int i = static_cast<int>(threadIdx.x); i < running * s.hidden; i += static_cast<int>(blockDim.x))
      advance(s, first, step, i / s.hidden, i % s.hidden, shared);
    __syncthreads();
  }
}

}  // namespace

template <class T>
void run_resident(const ResidentForward<T>& s) {
  const LaunchShape shape = {block_each(s.cut.blocks).blocks, s.cut.threads()};
  if (s.hidden <= kResidentUnits / 2) launch(resident_forward_kernel<T, kResidentUnits / 2>, shape, s);
  else launch(resident_forward_kernel<T, kResidentUnits>, shape, s);
}
template void run_resident(const ResidentForward<float>&);
template void run_resident(const ResidentForward<double>&);

}  // namespace capstan::on_cuda
