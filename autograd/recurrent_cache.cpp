#include <capstan/create.hpp>

#include "autograd/recurrent.hpp"

namespace capstan::autograd {
namespace {

using core::RecurrentKind;

/// Above this the weights, and the sums of their gradients, leave the cache that the kernel counts on.
constexpr std::int64_t kMostUnits = 64, kMostInputs = 256;

void replay(Replay& r) {
  const Where where = r.where();
  const auto rule = r.attributes<RecurrentRule>();
  if (listening()) return recurrent_replay_by_steps(r, rule, {}, whole_entry(rule));
  const Tensor x = dense(r.saved(0), where), h0 = dense(r.saved(1), where);
  const Tensor wx = dense(r.saved(3), where), wh = dense(r.saved(4), where);
  const Tensor grad = r.grad(0).defined() ? dense(r.grad(0), where) : Tensor();
  const Tensor grad_last = r.grad(1).defined() ? dense(r.grad(1), where) : Tensor();
  Tensor dx = r.needs(0) ? result_like(*x.impl(), where) : Tensor();
  Tensor dh0 = result_like(*h0.impl(), where), dwx = result_like(*wx.impl(), where);
  Tensor dwh = result_like(*wh.impl(), where), db = result_like(*wh.impl(), Shape({wh.size(0)}), wh.dtype(), where);
  backend_of(*x.impl(), where)
      .rnn_backward({*x.impl(), *h0.impl(), *wx.impl(), *wh.impl(), *r.saved(8).impl(), grad.impl(), grad_last.impl(),
                     dx.impl(), *dh0.impl(), *dwx.impl(), *dwh.impl(), *db.impl(),
                     rule.kind == RecurrentKind::rnn_relu});
  Tensor* const gradients[kRecurrentOperands] = {&dx, &dh0, nullptr, &dwx, &dwh, &db};
  for (int i = 0; i < kRecurrentOperands; ++i)
    if (r.needs(i)) r.give(i, std::move(*gradients[i]));
}

}  // namespace

bool rnn_fits_cache(const RecurrentRule& rule, const RecurrentOperands& o) {
  if (rule.kind != RecurrentKind::rnn_tanh && rule.kind != RecurrentKind::rnn_relu) return false;
  return !rule.cell && !rule.reverse && !rule.time_major && o.wh.size(0) <= kMostUnits && o.x.size(2) <= kMostInputs;
}

RecurrentOutputs rnn_in_cache(const char* op, const RecurrentRule& rule, const RecurrentOperands& o, Where where) {
  const TensorImpl& x = *o.x.impl();
  const std::int64_t batch = x.shape[0], time = x.shape[1], hidden = o.wh.size(0);
  const Tensor rows = dense(o.x, where), state = dense(o.h, where), wx = dense(o.wx, where), wh = dense(o.wh, where);
  const Tensor b = o.b.defined() ? dense(o.b, where) : zeros(Shape({hidden}), {x.dtype, x.device()}, where);
  RecurrentOutputs out{result_like(x, Shape({batch, time, hidden}, where), x.dtype, where), {}, {}};
  backend_of(x, where).rnn_forward(
      {*rows.impl(), *state.impl(), *wx.impl(), *wh.impl(), *b.impl(), rule.kind == RecurrentKind::rnn_relu},
      *out.outputs.impl());
  const std::int64_t strides[] = {time * hidden, 1};
  const Tensor last =
      core::make_view(*out.outputs.impl(), Shape({batch, hidden}, where), strides, (time - 1) * hidden, where);
  out.h = result_like(x, last.impl()->shape, x.dtype, where);  // a copy, so that a carried state keeps nothing else
  backend_of(x, where).copy(*last.impl(), *out.h.impl());
  record(op, where, &replay, {&o.x, &o.h, &o.c, &o.wx, &o.wh, &o.b, &o.bn, &o.projection}, {&out.outputs, &out.h},
         {&o.x, &o.h, &o.c, &o.wx, &o.wh, &o.b, &o.bn, &o.projection, &out.outputs}, rule);
  return out;
}

}  // namespace capstan::autograd
