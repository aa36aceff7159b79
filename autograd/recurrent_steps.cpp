// The mathematics of recurrent cells in ordinary operations.
#include <capstan/create.hpp>
#include <capstan/ops/linalg.hpp>
#include <capstan/ops/rearranging.hpp>

#include "autograd/recurrent.hpp"

namespace capstan::autograd {
namespace {

using core::RecurrentKind;

struct State {
  Tensor h, c;
};

/// A step from x @ wx + b.
class Cell {
 public:
  Cell(const RecurrentRule& rule, const RecurrentOperands& o, Where where) : rule_(rule), o_(o), where_(where) {
    if (!rule.is_gru()) return;
    wh_gates_ = o.wh;
    if (rule.kind == RecurrentKind::gru) return;
    const std::vector<Tensor> parts = array_split(o.wh, 3, 1, where);
    wh_gates_ = concat({parts[0], parts[1]}, 1, where);
    wh_new_ = parts[2];
  }

  State operator()(const Tensor& from_x, const State& before) const {
    if (rule_.kind == RecurrentKind::lstm) return lstm(addmm(from_x, before.h, o_.wh, where_), before);
    if (rule_.is_gru()) return {gru(array_split(from_x, 3, 1, where_), before.h), {}};
    const Tensor pre = addmm(from_x, before.h, o_.wh, where_);
    return {rule_.kind == RecurrentKind::rnn_relu ? relu(pre, where_) : tanh(pre, where_), {}};
  }

 private:
  State lstm(const Tensor& pre, const State& before) const {
    const std::vector<Tensor> gates = array_split(pre, 4, 1, where_);
    const Tensor kept = mul(sigmoid(gates[1], where_), before.c, where_);
    const Tensor fresh = mul(sigmoid(gates[0], where_), tanh(gates[2], where_), where_);
    Tensor c = add(kept, fresh, where_);
    Tensor h = mul(sigmoid(gates[3], where_), tanh(c, where_), where_);
    if (o_.projection.defined()) h = matmul(h, o_.projection, where_);
    return {std::move(h), std::move(c)};
  }

  Tensor gru(const std::vector<Tensor>& from_x, const Tensor& h) const {
    const std::vector<Tensor> from_h =
        array_split(matmul(h, wh_gates_, where_), rule_.kind == RecurrentKind::gru ? 3 : 2, 1, where_);
    const Tensor r = sigmoid(add(from_x[0], from_h[0], where_), where_);
    const Tensor z = sigmoid(add(from_x[1], from_h[1], where_), where_);
    Tensor recurrent;
    if (rule_.kind == RecurrentKind::gru)
      recurrent = mul(r, o_.bn.defined() ? add(from_h[2], o_.bn, where_) : from_h[2], where_);
    else recurrent = matmul(mul(r, h, where_), wh_new_, where_);
    const Tensor n = tanh(add(from_x[2], recurrent, where_), where_);
    return add(n, mul(z, sub(h, n, where_), where_), where_);
  }

  const RecurrentRule& rule_;
  const RecurrentOperands& o_;
  Where where_;
  Tensor wh_gates_, wh_new_;
};

}  // namespace

RecurrentOutputs recurrent_by_steps(const RecurrentRule& rule, const RecurrentOperands& o, const Tensor& lengths,
                                    Where where) {
  const Rollback rollback;
  const Cell cell(rule, o, where);
  State state{o.h, o.c};
  if (rule.cell) {
    state = cell(linear(o.x, o.wx, o.b, where), state);
    return {{}, std::move(state.h), std::move(state.c)};
  }
  const int time_axis = rule.time_major ? 0 : 1;
  Tensor x = o.x;
  std::vector<Tensor> running;  // [batch, 1] for every step
  if (lengths.defined()) {
    // what lies behind the ends is taken out first: it would come back as 0 * NaN
    Tensor mask = sequence_mask(lengths.to(x.device(), where), x.size(time_axis), DType::bool8, where);
    if (rule.time_major) mask = transpose(mask, 0, 1, where);
    mask = expand_dims(mask, -1, where);
    x = capstan::where(mask, x, 0, where);
    running = unstack(mask, time_axis, where);
  }
  const std::vector<Tensor> from_x = unstack(linear(x, o.wx, o.b, where), time_axis, where);
  std::vector<Tensor> outputs(from_x.size());
  for (std::size_t i = 0; i < from_x.size(); ++i) {
    const std::size_t t = rule.reverse ? from_x.size() - 1 - i : i;
    State after = cell(from_x[t], state);
    outputs[t] = after.h;
    if (lengths.defined()) {
      outputs[t] = capstan::where(running[t], after.h, 0, where);
      after.h = capstan::where(running[t], after.h, state.h, where);
      if (after.c.defined()) after.c = capstan::where(running[t], after.c, state.c, where);
    }
    state = std::move(after);
  }
  return {stack(outputs, time_axis, where), std::move(state.h), std::move(state.c)};
}

}  // namespace capstan::autograd
