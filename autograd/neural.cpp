#include <capstan/ops/neural.hpp>

#include <capstan/create.hpp>
#include <capstan/ops/linalg.hpp>
#include <capstan/tape.hpp>

#include "autograd/ops.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::listening;
using autograd::record;
using autograd::Replay;

namespace {

/// Above this the weights leave the cache that the fused kernel counts on, and OpenBLAS a step is faster.
constexpr std::int64_t kLargestFused = 256;

/// The same in ordinary operations: for large sizes, and for gradients that an outer tape must follow.
RnnResult rnn_by_steps(const Tensor& x, const Tensor& h0, const Tensor& wx, const Tensor& wh, const Tensor& b,
                       Activation activation, Where where) {
  const autograd::Rollback rollback;
  const std::vector<Tensor> inputs = unstack(linear(x, wx, b, where), 1, where);
  std::vector<Tensor> states;
  states.reserve(inputs.size());
  Tensor h = h0;
  for (const Tensor& input : inputs) {
    const Tensor pre = add(input, matmul(h, wh, where), where);
    h = activation == Activation::relu ? relu(pre, where) : tanh(pre, where);
    states.push_back(h);
  }
  return {stack(states, 1, where), h};
}

void rnn_replay_by_steps(Replay& r, Activation activation) {
  const Where where = r.where();
  GradientTape inner({.watch_parameters = false}, where);
  const Tensor inputs[] = {r.saved(0), r.saved(1), r.saved(2), r.saved(3), r.saved(4)};
  for (const Tensor& input : inputs) inner.watch(input, where);
  const RnnResult h = rnn_by_steps(inputs[0], inputs[1], inputs[2], inputs[3], inputs[4], activation, where);
  const Tensor outputs_seed = r.grad(0).defined() ? r.grad(0) : zeros_like(h.outputs, where);
  const Tensor last_seed = r.grad(1).defined() ? r.grad(1) : zeros_like(h.last, where);
  const Tensor seeds[] = {outputs_seed, last_seed};
  std::vector<Tensor> gradients = inner.gradient({h.outputs, h.last}, inputs, seeds, Unconnected::undefined, where);
  for (int i = 0; i < 5; ++i)
    if (r.needs(i)) r.give(i, std::move(gradients[static_cast<std::size_t>(i)]));
}

void rnn_replay(Replay& r) {
  const Where where = r.where();
  const auto activation = r.attributes<Activation>();
  if (listening()) return rnn_replay_by_steps(r, activation);
  const Tensor x = autograd::dense(r.saved(0), where), h0 = autograd::dense(r.saved(1), where);
  const Tensor wx = autograd::dense(r.saved(2), where), wh = autograd::dense(r.saved(3), where);
  const Tensor grad = r.grad(0).defined() ? autograd::dense(r.grad(0), where) : Tensor();
  const Tensor grad_last = r.grad(1).defined() ? autograd::dense(r.grad(1), where) : Tensor();
  Tensor dx = r.needs(0) ? autograd::result_like(*x.impl(), where) : Tensor();
  Tensor dh0 = autograd::result_like(*h0.impl(), where), dwx = autograd::result_like(*wx.impl(), where);
  Tensor dwh = autograd::result_like(*wh.impl(), where), db = autograd::result_like(*r.saved(4).impl(), where);
  backend_of(*x.impl(), where)
      .rnn_backward({*x.impl(), *h0.impl(), *wx.impl(), *wh.impl(), *r.saved(5).impl(), grad.impl(), grad_last.impl(),
                     dx.impl(), *dh0.impl(), *dwx.impl(), *dwh.impl(), *db.impl(), activation == Activation::relu});
  Tensor* const gradients[] = {&dx, &dh0, &dwx, &dwh, &db};
  for (int i = 0; i < 5; ++i)
    if (r.needs(i)) r.give(i, std::move(*gradients[i]));
}

void check_rnn(const Tensor* const (&tensors)[5], Where where) {
  static constexpr const char* names[] = {"x", "h0", "wx", "wh", "b"};
  const TensorImpl& x = core::defined("rnn", *tensors[0], where);
  autograd::require_floating("rnn", x, where);
  for (int i = 1; i < 5; ++i) {
    const TensorImpl& t = core::defined("rnn", *tensors[i], where);
    core::require_same_device("rnn", x, t, where);
    if (t.dtype != x.dtype)
      base::fail<DTypeError>(where, "rnn: x is ", x.dtype, " and ", names[i], " is ", t.dtype,
                             "; all must have one type.");
  }
  const Shape& shape = x.shape;
  if (shape.rank() != 3 || shape[1] < 1)
    base::fail<ShapeError>(where, "rnn: x is ", shape, "; it must be [batch, time, inputs] with time >= 1.");
  const Shape& wh = tensors[3]->shape();
  const std::int64_t hidden = wh.rank() == 2 ? wh[0] : 0;
  const Shape expected[] = {Shape({shape[0], hidden}), Shape({shape[2], hidden}), Shape({hidden, hidden}),
                            Shape({hidden})};
  for (int i = 1; i < 5; ++i)
    if (tensors[i]->shape() != expected[i - 1])
      base::fail<ShapeError>(where, "rnn: ", names[i], " is ", tensors[i]->shape(), "; with x ", shape, " and wh ", wh,
                             " it must be ", expected[i - 1], ".");
}

}  // namespace

RnnResult rnn(const Tensor& x, const Tensor& h0, const Tensor& wx, const Tensor& wh, const Tensor& b,
              Activation activation, Where where) {
  check_rnn({&x, &h0, &wx, &wh, &b}, where);
  const Shape& shape = x.shape();
  const std::int64_t hidden = wh.size(0);
  if (hidden > kLargestFused || shape[2] > kLargestFused || is_half(x.dtype()))
    return rnn_by_steps(x, h0, wx, wh, b, activation, where);
  Tensor out = autograd::result_like(*x.impl(), Shape({shape[0], shape[1], hidden}, where), x.dtype(), where);
  const Tensor rows = autograd::dense(x, where), state = autograd::dense(h0, where),
               from_x = autograd::dense(wx, where), from_h = autograd::dense(wh, where),
               bias = autograd::dense(b, where);
  backend_of(*x.impl(), where)
      .rnn_forward(
          {*rows.impl(), *state.impl(), *from_x.impl(), *from_h.impl(), *bias.impl(), activation == Activation::relu},
          *out.impl());
  const std::int64_t last_sizes[] = {shape[0], hidden}, last_strides[] = {shape[1] * hidden, 1};
  Tensor last = core::make_view(*out.impl(), Shape(last_sizes, where), last_strides, (shape[1] - 1) * hidden, where);
  record("rnn", where, &rnn_replay, {&x, &h0, &wx, &wh, &b}, {&out, &last}, {&x, &h0, &wx, &wh, &b, &out}, activation);
  return {std::move(out), std::move(last)};
}

}  // namespace capstan
