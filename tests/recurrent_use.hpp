#pragma once
// Uses of the recurrent operations: which one, of what sizes, with what options; run as a user does, and as the rule in
// ordinary operations.
#include "autograd/recurrent.hpp"
#include "tests/support.hpp"

namespace tests {

struct RecurrentUse {
  capstan::core::RecurrentKind kind = capstan::core::RecurrentKind::lstm;
  std::int64_t batch = 2, time = 3, inputs = 2, hidden = 3;
  std::int64_t projection = 0;  ///< units that h has; 0 for `hidden`, without a projection
  bool cell = false;            ///< one step: `time` does not count
  bool reverse = false, time_major = false;
  std::vector<std::int64_t> lengths = {};  ///< empty for all steps
  bool reset_after = true;
  bool b = true, bn = true;  ///< whether there are such biases
  capstan::DType dtype = capstan::DType::float64;

  bool has_c() const { return kind == capstan::core::RecurrentKind::lstm; }
  std::int64_t units() const { return projection > 0 ? projection : hidden; }
  capstan::autograd::RecurrentRule rule() const;
  std::string op() const;  ///< the public function's name
  std::string text() const;
};

/// Some with all steps, some with none, most between.
std::vector<std::int64_t> ragged_lengths(std::int64_t batch, std::int64_t time);
/// Of each kind, of a gru that resets before the product and of an lstm with a projection: a step, a plain sequence, and
/// one backwards, time-major, with lengths. The other fields are as in `base`.
std::vector<RecurrentUse> recurrent_uses(const RecurrentUse& base);

/// x, h, c, wx, wh, b, bn, projection: random numbers that leave the gates open. Undefined where the use has none.
std::vector<capstan::Tensor> recurrent_operands(const RecurrentUse& use, std::uint64_t seed = 1);
/// Those that are defined.
std::vector<capstan::Tensor> existing(const std::vector<capstan::Tensor>& tensors);

/// Outputs (not of a step), h, and c of an lstm.
using RecurrentRun = std::vector<capstan::Tensor> (*)(const RecurrentUse&, const std::vector<capstan::Tensor>&);
std::vector<capstan::Tensor> run_recurrent(const RecurrentUse& use, const std::vector<capstan::Tensor>& operands);
std::vector<capstan::Tensor> run_recurrent_by_steps(const RecurrentUse& use,
                                                    const std::vector<capstan::Tensor>& operands);

/// The operands of a gru or an lstm in both directions: eight each, but x only once, as the first.
std::vector<capstan::Tensor> both_operands(const RecurrentUse& use);
/// Outputs side by side, then h, and c of an lstm, of each direction.
std::vector<capstan::Tensor> run_both_directions(const RecurrentUse& use, const std::vector<capstan::Tensor>& operands);

/// Random output gradients for results.
std::vector<capstan::Tensor> recurrent_weights(const std::vector<capstan::Tensor>& results);
/// The results, then the gradients of their sum for the operands that exist. `weights`, one for each result, are the
/// output gradients; those of `recurrent_weights` if there are none.
std::vector<capstan::Tensor> run_with_gradients(RecurrentRun run, const RecurrentUse& use,
                                                const std::vector<capstan::Tensor>& operands,
                                                const std::vector<capstan::Tensor>& weights = {});
/// The same, and the gradients of the sum of the squares of these gradients.
std::vector<capstan::Tensor> run_with_second_gradients(RecurrentRun run, const RecurrentUse& use,
                                                       const std::vector<capstan::Tensor>& operands,
                                                       const std::vector<capstan::Tensor>& weights = {});
/// Checks that every result and gradient is the one expected, or close to it.
void check_same(const std::vector<capstan::Tensor>& actual, const std::vector<capstan::Tensor>& expected);
void check_close(const std::vector<capstan::Tensor>& actual, const std::vector<capstan::Tensor>& expected,
                 double allowed = tolerance::roundings64);

}  // namespace tests
