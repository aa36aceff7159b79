#pragma once
// Recurrent operations, between the fused kernels and the rule in ordinary operations.
#include <capstan/ops/recurrent.hpp>

#include "autograd/ops.hpp"

namespace capstan::autograd {

/// What is computed: a cell's step or a whole sequence.
struct RecurrentRule {
  core::RecurrentKind kind;
  bool cell = false;  // x and h are [batch, ...], and there are no outputs
  bool reverse = false, time_major = false, time_major_memory = false;
  std::int64_t table_rows = 0;  // of the table that x was looked up in, if it was; see embedding.hpp

  bool is_gru() const noexcept { return kind == core::RecurrentKind::gru || kind == core::RecurrentKind::gru_before; }
  std::int64_t blocks() const noexcept { return kind == core::RecurrentKind::lstm ? 4 : is_gru() ? 3 : 1; }
};

/// What it is computed of, in the order in which tapes know it. Those that a rule has not are undefined.
struct RecurrentOperands {
  const Tensor &x, &h, &c, &wx, &wh, &b, &bn, &projection;
};

inline constexpr int kRecurrentOperands = 8;

/// Where a sequence or step stands in an entry: its operands among the inputs and saved tensors, the gradient of its
/// last h among those of the results, and the first of its columns in the outputs, which come before that.
struct RecurrentPlace {
  int input = 0, saved = 0, h;
  std::int64_t column = 0;
};
inline RecurrentPlace whole_entry(const RecurrentRule& rule) { return {.h = rule.cell ? 0 : 1}; }

/// Operands among an entry's saved tensors.
inline RecurrentOperands recurrent_operands(const Replay& r, RecurrentPlace at) {
  const auto saved = [&](int i) -> const Tensor& { return r.saved(at.saved + i); };
  return {saved(0), saved(1), saved(2), saved(3), saved(4), saved(5), saved(6), saved(7)};
}

struct RecurrentOutputs {
  Tensor outputs, h, c;
};

struct RecurrentSizes {
  std::int64_t batch, time, inputs, hidden, units;
};

/// By the fused kernels of float32 and float64. Operands were checked, and have these sizes; lengths are int64 on the host
/// or undefined.
RecurrentOutputs run_fused(const char* op, RecurrentRule rule, const RecurrentOperands& o, const RecurrentSizes& s,
                           const Tensor& lengths, Where where);
/// Outputs of two sequences side by side, and the last states of each.
struct BothOutputs {
  Tensor outputs, h, c, back_h, back_c;
};
/// A sequence and another one of the same x back in time, as one entry.
BothOutputs run_both_fused(const char* op, RecurrentRule rule, const RecurrentOperands& o, const RecurrentSizes& s,
                           const RecurrentOperands& p, const RecurrentSizes& back, const Tensor& lengths, Where where);

/// In ordinary operations: for 16-bit types, for rules without a kernel, and for gradients that an outer tape follows.
/// Operands were checked; lengths are int64 or undefined.
RecurrentOutputs recurrent_by_steps(const RecurrentRule& rule, const RecurrentOperands& o, const Tensor& lengths,
                                    Where where);
/// The gradient of that, for an entry whose inputs and saved tensors hold the operands there.
void recurrent_replay_by_steps(Replay& r, const RecurrentRule& rule, const Tensor& lengths, RecurrentPlace at);

/// Whether a plain recurrence is small enough to keep all that it needs of some rows in the cache through all steps, and
/// how it does: nothing but the outputs is written, or kept for the gradient.
bool rnn_fits_cache(const RecurrentRule& rule, const RecurrentOperands& o);
RecurrentOutputs rnn_in_cache(const char* op, const RecurrentRule& rule, const RecurrentOperands& o, Where where);

}  // namespace capstan::autograd
