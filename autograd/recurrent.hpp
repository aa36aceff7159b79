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

  bool is_gru() const noexcept { return kind == core::RecurrentKind::gru || kind == core::RecurrentKind::gru_before; }
  std::int64_t blocks() const noexcept { return kind == core::RecurrentKind::lstm ? 4 : is_gru() ? 3 : 1; }
};

/// What it is computed of, in the order in which tapes know it. Those that a rule has not are undefined.
struct RecurrentOperands {
  const Tensor &x, &h, &c, &wx, &wh, &b, &bn, &projection;
};

inline constexpr int kRecurrentOperands = 8;

struct RecurrentOutputs {
  Tensor outputs, h, c;
};

/// In ordinary operations: for 16-bit types, for rules without a kernel, and for gradients that an outer tape follows.
/// Operands were checked; lengths are int64 or undefined.
RecurrentOutputs recurrent_by_steps(const RecurrentRule& rule, const RecurrentOperands& o, const Tensor& lengths,
                                    Where where);
/// The gradient of that, for an entry whose inputs and first saved tensors are the operands.
void recurrent_replay_by_steps(Replay& r, const RecurrentRule& rule, const Tensor& lengths);

/// Whether a plain recurrence is small enough to keep all that it needs of some rows in the cache through all steps, and
/// how it does: nothing but the outputs is written, or kept for the gradient.
bool rnn_fits_cache(const RecurrentRule& rule, const RecurrentOperands& o);
RecurrentOutputs rnn_in_cache(const char* op, const RecurrentRule& rule, const RecurrentOperands& o, Where where);

}  // namespace capstan::autograd
