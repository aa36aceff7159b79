#pragma once
// What a unit of a recurrent cell computes, forward and back, and what the kernels of a step are told.
#include "cuda/launch.cuh"
#include "cuda/recurrent_plan.hpp"
#include "cuda/unroll.hpp"

namespace capstan::on_cuda {

// --- units: the blocks of their gates are those of GateBlocks ---

/// From the sums of a unit's gates and the state before to the gates and the state after. Of gru_before r, z and r * h
/// are gates already.
template <class T>
__device__ inline void advance_unit(RecurrentKind kind, T (&gates)[4], T& h, T& c) {
  switch (kind) {
    case RecurrentKind::rnn_tanh: h = gates[0] = kernels::Tanh::forward(gates[0]); return;
    case RecurrentKind::rnn_relu: h = gates[0] = kernels::Relu::forward(gates[0]); return;
    case RecurrentKind::gru:
      gates[1] = kernels::Sigmoid::forward(gates[1]);
      gates[2] = kernels::Sigmoid::forward(gates[2]);
      gates[0] = kernels::Tanh::forward(gates[0] + gates[1] * gates[3]);
      h = (T(1) - gates[2]) * gates[0] + gates[2] * h;
      return;
    case RecurrentKind::gru_before:
      gates[0] = kernels::Tanh::forward(gates[0]);
      h = (T(1) - gates[2]) * gates[0] + gates[2] * h;
      return;
    case RecurrentKind::lstm: break;
  }
  gates[0] = kernels::Sigmoid::forward(gates[0]);
  gates[1] = kernels::Sigmoid::forward(gates[1]);
  gates[2] = kernels::Tanh::forward(gates[2]);
  gates[3] = kernels::Sigmoid::forward(gates[3]);
  c = gates[1] * c + gates[0] * gates[2];
  h = gates[3] * kernels::Tanh::forward(c);
}

/// Of gru_before: from the sums of r and z to those gates and r * h.
template <class T>
__device__ inline void reset_unit(T (&gates)[4], T h) {
  gates[1] = kernels::Sigmoid::forward(gates[1]);
  gates[2] = kernels::Sigmoid::forward(gates[2]);
  gates[3] = gates[1] * h;
}

/// Of an lstm: the state after, before its projection.
template <class T>
__device__ inline T lstm_output(const T (&gates)[4], T c) {
  return gates[3] * kernels::Tanh::forward(gates[1] * c + gates[0] * gates[2]);
}

/// From the gradients of the state after to those of the sums; h and c are the state before. What is left in dh and dc
/// reaches the state before by no product. Of gru_before r is missing: see retreat_reset.
template <class T>
__device__ inline void retreat_unit(RecurrentKind kind, const T (&gates)[4], T h, T c, T& dh, T& dc, T (&sums)[4]) {
  switch (kind) {
    case RecurrentKind::rnn_tanh:
      sums[0] = kernels::Tanh::backward(dh, gates[0]);
      dh = T(0);
      return;
    case RecurrentKind::rnn_relu:
      sums[0] = kernels::Relu::backward(dh, gates[0]);
      dh = T(0);
      return;
    case RecurrentKind::gru:
    case RecurrentKind::gru_before:
      sums[0] = kernels::Tanh::backward(dh * (T(1) - gates[2]), gates[0]);
      sums[2] = kernels::Sigmoid::backward(dh * (h - gates[0]), gates[2]);
      if (kind == RecurrentKind::gru) {
        sums[1] = kernels::Sigmoid::backward(sums[0] * gates[3], gates[1]);
        sums[3] = sums[0] * gates[1];
      }
      dh = dh * gates[2];
      return;
    case RecurrentKind::lstm: break;
  }
  const T bent = kernels::Tanh::forward(gates[1] * c + gates[0] * gates[2]);
  dc = dc + kernels::Tanh::backward(dh * gates[3], bent);
  sums[0] = kernels::Sigmoid::backward(dc * gates[2], gates[0]);
  sums[1] = kernels::Sigmoid::backward(dc * c, gates[1]);
  sums[2] = kernels::Tanh::backward(dc * gates[0], gates[2]);
  sums[3] = kernels::Sigmoid::backward(dh * bent, gates[3]);
  dc = dc * gates[1];
  dh = T(0);
}

/// Of gru_before: from the gradient of r * h to that of r's sum, and what it adds to dh.
template <class T>
__device__ inline T retreat_reset(T grad, T r, T h, T& dh) {
  dh = dh + grad * r;
  return kernels::Sigmoid::backward(grad * h, r);
}

template <class T>
__device__ inline T bias_at(const T* bias, std::int64_t at) {
  return bias == nullptr ? T(0) : bias[at];
}

/// Blocks of a line that are written with the state.
__device__ inline int blocks_with_state(RecurrentKind kind) {
  return kind == RecurrentKind::gru_before ? 1 : gate_blocks(kind).line;
}

// --- forward: a step of all its rows ---

/// Where a state goes: of the first `carry` rows to the next step, of the others to the caller.
template <class T>
struct StateRows {
  T* next;
  std::int64_t next_row;
  T* last;
  std::int64_t carry;

  __device__ T& at(std::int64_t row, std::int64_t place, std::int64_t width, std::int64_t unit) const {
    return row < carry ? next[row * next_row + unit] : last[place * width + unit];
  }
};

template <class T>
struct ForwardStep {
  RecurrentKind kind;
  bool resets;  // of gru_before: r, z and r * h, and not yet the state
  bool keeps;   // the gates, for the gradient
  std::int64_t rows, hidden;
  T* gates;  // on entry what x gives to their sums
  std::int64_t gates_row;
  const T *b, *bn;  // may be null
  const T* h;       // the state before
  std::int64_t h_row;
  const T* c;  // null but for an lstm
  std::int64_t c_row;
  StateRows<T> to_h, to_c;
  T* out;  // may be null
  std::int64_t out_row;
  const std::int64_t* order;

  /// Blocks of products that the step takes.
  CAPSTAN_HD int products() const {
    if (kind == RecurrentKind::gru_before) return resets ? 2 : 1;
    return gate_blocks(kind).recurrent;
  }
};

/// The sums of a unit's gates: what x gives, the products of h, the biases.
template <class T>
__device__ inline void sum_gates(const ForwardStep<T>& s, const T* line, std::int64_t unit, const T (&products)[4],
                                 T (&gates)[4]) {
  const std::int64_t hidden = s.hidden;
  if (s.kind == RecurrentKind::lstm) {
    CAPSTAN_UNROLL
    for (int q = 0; q < 4; ++q) gates[q] = line[q * hidden] + products[q] + bias_at(s.b, q * hidden + unit);
    return;
  }
  if (!is_gru(s.kind)) {
    gates[0] = line[0] + products[0] + bias_at(s.b, unit);
    return;
  }
  gates[0] = line[0] + bias_at(s.b, 2 * hidden + unit);
  if (s.kind == RecurrentKind::gru_before && !s.resets) {
    gates[0] = gates[0] + products[0];
    gates[2] = line[2 * hidden];
    return;
  }
  gates[1] = line[hidden] + products[0] + bias_at(s.b, unit);
  gates[2] = line[2 * hidden] + products[1] + bias_at(s.b, hidden + unit);
  gates[3] = products[2] + bias_at(s.bn, unit);
}

template <class T>
__device__ inline void finish_forward(const ForwardStep<T>& s, std::int64_t row, std::int64_t unit,
                                      const T (&products)[4]) {
  T* line = s.gates + row * s.gates_row + unit;
  T gates[4] = {};
  sum_gates(s, line, unit, products, gates);
  T h = is_gru(s.kind) ? s.h[row * s.h_row + unit] : T(0);
  if (s.resets) {
    reset_unit(gates, h);
    CAPSTAN_UNROLL
    for (int q = 1; q < 4; ++q) line[q * s.hidden] = gates[q];
    return;
  }
  T c = s.c == nullptr ? T(0) : s.c[row * s.c_row + unit];
  advance_unit(s.kind, gates, h, c);
  const int kept = s.keeps ? blocks_with_state(s.kind) : 0;
  CAPSTAN_UNROLL
  for (int q = 0; q < 4; ++q)
    if (q < kept) line[q * s.hidden] = gates[q];
  const std::int64_t place = s.order == nullptr ? row : s.order[row];
  s.to_h.at(row, place, s.hidden, unit) = h;
  if (s.c != nullptr) s.to_c.at(row, place, s.hidden, unit) = c;
  if (s.out != nullptr) s.out[place * s.out_row + unit] = h;
}

// --- backward ---

template <class T>
struct BackwardStep {
  RecurrentKind kind;
  std::int64_t rows, hidden;
  const T* gates;
  T* sums;  // gradients before the activations, lines like the gates
  std::int64_t line_row;
  const T *h, *c;  // the state before; c null but for an lstm
  std::int64_t h_row, c_row;
  const T* given;  // the caller's gradients of this step's outputs; may be null
  std::int64_t given_row;
  const std::int64_t* order;
  T *dh, *dc;      // [rows, hidden]: of what comes out of the step; then what reaches the state before by no product
  T* unprojected;  // what the projection multiplies; null without one
  std::int64_t unprojected_row;
};

/// dh is the gradient of the unit's state as later steps have it.
template <class T>
__device__ inline void finish_backward(const BackwardStep<T>& s, std::int64_t row, std::int64_t unit, T dh) {
  if (s.given != nullptr) {
    const std::int64_t place = s.order == nullptr ? row : s.order[row];
    dh = dh + s.given[place * s.given_row + unit];
  }
  const T* line = s.gates + row * s.line_row + unit;
  const int blocks = gate_blocks(s.kind).line;
  T gates[4] = {}, sums[4] = {};
  CAPSTAN_UNROLL
  for (int q = 0; q < 4; ++q)
    if (q < blocks) gates[q] = line[q * s.hidden];
  const bool gru = is_gru(s.kind);
  const std::int64_t at = row * s.hidden + unit;
  const T h = gru ? s.h[row * s.h_row + unit] : T(0), c = s.c == nullptr ? T(0) : s.c[row * s.c_row + unit];
  T dc = s.c == nullptr ? T(0) : s.dc[at];
  retreat_unit(s.kind, gates, h, c, dh, dc, sums);
  T* to = s.sums + row * s.line_row + unit;
  CAPSTAN_UNROLL
  for (int q = 0; q < 4; ++q)
    if (q < blocks) to[q * s.hidden] = sums[q];
  if (gru) s.dh[at] = dh;
  if (s.c != nullptr) s.dc[at] = dc;
  if (s.unprojected != nullptr) s.unprojected[row * s.unprojected_row + unit] = lstm_output(gates, c);
}

/// The other half of gru_before, where `grad` is the gradient of r * h.
template <class T>
__device__ inline void finish_reset(const BackwardStep<T>& s, std::int64_t row, std::int64_t unit, T grad) {
  const T r = s.gates[row * s.line_row + s.hidden + unit], h = s.h[row * s.h_row + unit];
  s.sums[row * s.line_row + s.hidden + unit] = retreat_reset(grad, r, h, s.dh[row * s.hidden + unit]);
}

}  // namespace capstan::on_cuda
