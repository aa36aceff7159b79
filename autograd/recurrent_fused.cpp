// Recurrent operations by the fused kernels: a sequence or step, or both directions of a layer, as one entry.
#include <algorithm>
#include <optional>

#include <capstan/ops/shaping.hpp>
#include <capstan/tape.hpp>

#include "autograd/embedding.hpp"
#include "autograd/recurrent.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::dense;
using autograd::RecurrentOperands;
using autograd::RecurrentOutputs;
using autograd::RecurrentPlace;
using autograd::RecurrentRule;
using autograd::RecurrentSizes;
using autograd::Replay;
using core::RecurrentKind;

namespace {

using autograd::kRecurrentOperands;

constexpr int kKept = 13;  // tensors that a sequence or step saves: operands, lengths, gates, entering states, index

/// [batch, time, width] of a sequence in either order; the last axis contiguous.
Tensor as_sequence(const Tensor& x, const RecurrentRule& rule, Where where) {
  const TensorImpl& impl = *x.impl();
  if (impl.numel() != 0 && impl.shape[2] != 1 && impl.strides[2] != 1) return as_sequence(dense(x, where), rule, where);
  const int batch = rule.time_major ? 1 : 0;
  const std::int64_t sizes[] = {impl.shape[batch], impl.shape[1 - batch], impl.shape[2]};
  const std::int64_t strides[] = {impl.strides[batch], impl.strides[1 - batch], 1};
  return core::make_view(impl, Shape(sizes, where), strides, 0, where);
}

/// The index [batch, time] by which x was looked up.
Tensor index_of_sequence(const Tensor& index, const RecurrentRule& rule, Where where) {
  if (!index.defined() || !rule.time_major) return index;
  const TensorImpl& impl = *index.impl();
  const std::int64_t strides[] = {impl.strides[1], impl.strides[0]};
  return core::make_view(impl, Shape({impl.shape[1], impl.shape[0]}, where), strides, 0, where);
}

/// An operand as kernels take it: itself, or a contiguous copy.
class Dense {
 public:
  Dense(const Tensor& x, Where where) : impl_(x.impl()) {
    if (impl_ == nullptr || impl_->contiguous) return;
    copy_ = dense(x, where);
    impl_ = copy_.impl();
  }
  /// x of a sequence.
  Dense(const Tensor& x, const RecurrentRule& rule, Where where) : Dense(rule.cell ? x : Tensor(), where) {
    if (rule.cell) return;
    copy_ = as_sequence(x, rule, where);
    impl_ = copy_.impl();
  }
  TensorImpl* get() const noexcept { return impl_; }

 private:
  TensorImpl* impl_;
  Tensor copy_;
};

struct Ready {
  Dense x, h, c, wx, wh, b, bn, projection;
  Tensor index;

  Ready(const RecurrentRule& rule, const RecurrentOperands& o, const Tensor& index_of_x, Where where)
      : x(o.x, rule, where),
        h(o.h, where),
        c(o.c, where),
        wx(o.wx, where),
        wh(o.wh, where),
        b(o.b, where),
        bn(o.bn, where),
        projection(o.projection, where),
        index(index_of_sequence(index_of_x, rule, where)) {}
  core::RecurrentTask task(const RecurrentRule& rule, const Tensor& lengths) const {
    return {rule.kind,
            rule.reverse,
            *x.get(),
            *h.get(),
            c.get(),
            *wx.get(),
            *wh.get(),
            b.get(),
            bn.get(),
            projection.get(),
            lengths.defined() ? lengths.impl()->as<std::int64_t>() : nullptr,
            index.impl(),
            rule.table_rows};
  }
};

Tensor given(const Tensor& grad, Where where) { return grad.defined() ? dense(grad, where) : grad; }

/// Gradients of the outputs, undefined if there are none, which a step has never.
Tensor grad_outputs(const Replay& r, const RecurrentRule& rule, RecurrentPlace at) {
  if (rule.cell || !r.grad(0).defined()) return {};
  const std::int64_t units = r.saved(at.saved + 4).size(0);
  return units == r.grad(0).size(-1) ? r.grad(0) : narrow(r.grad(0), -1, at.column, units, r.where());
}

}  // namespace

void autograd::recurrent_replay_by_steps(Replay& r, const RecurrentRule& rule, const Tensor& lengths,
                                         RecurrentPlace at) {
  const Where where = r.where();
  GradientTape inner({.watch_parameters = false}, where);
  const auto operand = [&](int i) -> const Tensor& { return r.saved(at.saved + i); };
  // The gradient for a tensor that stands for several operands is that for all of them: it is asked for once.
  const auto asks = [&](int i) {
    for (int j = 0; j < i; ++j)
      if (operand(j).is_same(operand(i))) return false;
    return r.needs(at.input + i);
  };
  std::vector<Tensor> sources;
  for (int i = 0; i < kRecurrentOperands; ++i)
    if (asks(i)) {
      inner.watch(operand(i), where);
      sources.push_back(operand(i));
    }
  const RecurrentOperands o = autograd::recurrent_operands(r, at);
  const RecurrentOutputs out = autograd::recurrent_by_steps(rule, o, lengths, where);
  std::vector<Tensor> targets, seeds;
  const auto seed = [&](const Tensor& result, const Tensor& grad) {
    if (!result.defined() || !grad.defined() || !inner.follows(result, where)) return;
    targets.push_back(result);
    seeds.push_back(grad);
  };
  seed(out.outputs, grad_outputs(r, rule, at));
  seed(out.h, r.grad(at.h));
  if (out.c.defined()) seed(out.c, r.grad(at.h + 1));
  if (targets.empty()) return;
  std::vector<Tensor> gradients = inner.gradient(targets, sources, seeds, Unconnected::undefined, where);
  for (int i = 0, next = 0; i < kRecurrentOperands; ++i)
    if (asks(i)) {
      Tensor& gradient = gradients[static_cast<std::size_t>(next++)];
      if (gradient.defined()) r.give(at.input + i, std::move(gradient));
    }
}

namespace {

/// A new tensor [first, second, width] of x's type, whose memory is in that order or has the second axis outermost.
Tensor sequence_like(const TensorImpl& x, std::int64_t first, std::int64_t second, std::int64_t width, bool turned,
                     Where where) {
  if (!turned) return autograd::result_like(x, Shape({first, second, width}, where), x.dtype, where);
  const Tensor memory = sequence_like(x, second, first, width, false, where);
  const std::int64_t strides[] = {width, first * width, 1};
  return core::make_view(*memory.impl(), Shape({first, second, width}, where), strides, 0, where);
}

/// A gradient for x whose memory is in the order of x's.
Tensor gradient_like(const TensorImpl& x, Where where) {
  if (x.rank() != 3) return autograd::result_like(x, where);
  const bool turned = x.strides[0] > 0 && x.strides[0] < x.strides[1];
  return sequence_like(x, x.shape[0], x.shape[1], x.shape[2], turned, where);
}

/// The gradients of one sequence or step of an entry: what the kernel takes, and what it makes.
class FusedReplay {
 public:
  FusedReplay(Replay& r, const RecurrentRule& rule, RecurrentPlace at, Where where)
      : r_(r),
        rule_(rule),
        at_(at),
        ready_(rule, autograd::recurrent_operands(r, at), r.saved(at.saved + 12), where),
        lookup_(ready_.index.defined() ? autograd::lookup_behind(r, at.input) : std::nullopt) {
    outputs_ = grad_outputs(r, rule, at);
    if (outputs_.defined()) outputs_ = as_sequence(outputs_, rule, where);
    h_ = given(r.grad(at.h), where);
    if (rule.kind == RecurrentKind::lstm) c_ = given(r.grad(at.h + 1), where);
    if (lookup_.has_value()) {
      const TensorImpl& x = *saved(0).impl();
      table_ = autograd::result_like(x, Shape({rule.table_rows, x.shape[x.rank() - 1]}), x.dtype, where);
    }
    for (int i = lookup_.has_value() ? 1 : 0; i < kRecurrentOperands; ++i) {
      if (!r.needs(at.input + i)) continue;
      const TensorImpl& operand = *saved(i).impl();
      made_[i] = i == 0 ? gradient_like(operand, where) : autograd::result_like(operand, where);
    }
    dx_ = made_[0].defined() && !rule.cell ? as_sequence(made_[0], rule, where) : made_[0];
  }

  bool needed() const {
    return table_.defined() ||
           std::any_of(std::begin(made_), std::end(made_), [](const Tensor& one) { return one.defined(); });
  }
  core::RecurrentTask task() const { return ready_.task(rule_, saved(8)); }
  core::RecurrentGradients gradients() const {
    return {*saved(9).impl(), saved(10).impl(), saved(11).impl(), outputs_.impl(), h_.impl(),
            c_.impl(),        dx_.impl(),       made_[1].impl(),  made_[2].impl(), made_[3].impl(),
            made_[4].impl(),  made_[5].impl(),  made_[6].impl(),  made_[7].impl(), table_.impl()};
  }
  void give() {
    dx_ = Tensor();  // what nobody else holds is added to in place
    for (int i = 0; i < kRecurrentOperands; ++i)
      if (made_[i].defined()) r_.give(at_.input + i, std::move(made_[i]));
    if (table_.defined()) lookup_->give(0, std::move(table_));
  }

 private:
  const Tensor& saved(int i) const { return r_.saved(at_.saved + i); }

  Replay& r_;
  const RecurrentRule rule_;
  const RecurrentPlace at_;
  const Ready ready_;
  std::optional<Replay> lookup_;  // of x, if the gradient for its table is made in place of x's
  Tensor outputs_, h_, c_;        // gradients given
  Tensor made_[kRecurrentOperands], dx_, table_;
};

void replay(Replay& r) {
  const Where where = r.where();
  const auto rule = r.attributes<RecurrentRule>();
  const RecurrentPlace at = autograd::whole_entry(rule);
  if (autograd::listening()) return autograd::recurrent_replay_by_steps(r, rule, r.saved(8), at);
  FusedReplay one(r, rule, at, where);
  backend_of(*r.saved(0).impl(), where).recurrent_backward(one.task(), one.gradients());
  one.give();
}

/// The rule of the way back, and where it stands in the entry of both.
RecurrentRule reversed(RecurrentRule rule) {
  rule.reverse = true;
  return rule;
}
RecurrentPlace second_place(const RecurrentRule& rule, std::int64_t column) {
  return {kRecurrentOperands, kKept, rule.kind == RecurrentKind::lstm ? 3 : 2, column};
}

void replay_both(Replay& r) {
  const Where where = r.where();
  const auto rule = r.attributes<RecurrentRule>();
  const RecurrentPlace first = autograd::whole_entry(rule), second = second_place(rule, r.saved(4).size(0));
  if (autograd::listening()) {
    autograd::recurrent_replay_by_steps(r, rule, r.saved(8), first);
    return autograd::recurrent_replay_by_steps(r, reversed(rule), r.saved(8), second);
  }
  FusedReplay a(r, rule, first, where), b(r, reversed(rule), second, where);
  const core::Backend& backend = backend_of(*r.saved(0).impl(), where);
  if (a.needed() && b.needed()) backend.recurrent_both_backward(a.task(), a.gradients(), b.task(), b.gradients());
  else if (a.needed()) backend.recurrent_backward(a.task(), a.gradients());
  else if (b.needed()) backend.recurrent_backward(b.task(), b.gradients());
  a.give();
  b.give();
}

std::int64_t lines_of(const RecurrentSizes& s, const Tensor& lengths) {
  if (!lengths.defined()) return s.batch * s.time;
  std::int64_t lines = 0;
  for (std::int64_t row = 0; row < s.batch; ++row) lines += lengths.impl()->as<std::int64_t>()[row];
  return lines;
}

/// One sequence or step by the fused kernels: what they take, and what they fill. `outputs` of a sequence are made by
/// who calls; `keep`: a gradient may be asked for.
class FusedPass {
 public:
  FusedPass(const RecurrentRule& rule, const RecurrentOperands& o, const RecurrentSizes& s, const Tensor& lengths,
            const Tensor& index, Tensor outputs, bool keep, Where where)
      : rule_(rule), lengths_(lengths), ready_(rule, o, index, where) {
    const TensorImpl& x = *o.x.impl();
    const bool lstm = rule.kind == RecurrentKind::lstm;
    const auto result = [&](std::initializer_list<std::int64_t> sizes) {
      return autograd::result_like(x, Shape(sizes, where), x.dtype, where);
    };
    if (outputs.defined()) sequence_ = as_sequence(outputs, rule, where);
    out.outputs = std::move(outputs);
    out.h = autograd::result_like(x, o.h.impl()->shape, x.dtype, where);
    if (lstm) out.c = autograd::result_like(x, o.c.impl()->shape, x.dtype, where);
    if (!keep) return;
    const std::int64_t lines = lines_of(s, lengths);
    const std::int64_t blocks = rule.is_gru() || lstm ? 4 : 1;
    gates = result({lines, blocks * s.hidden});
    if (s.time == 1 && !lengths.defined()) return;
    entering_h = result({lines, s.units});
    if (lstm) entering_c = result({lines, s.hidden});
  }
  core::RecurrentTask task() const { return ready_.task(rule_, lengths_); }
  core::RecurrentResults results() const {
    return {sequence_.impl(), *out.h.impl(), out.c.impl(), gates.impl(), entering_h.impl(), entering_c.impl()};
  }

  RecurrentOutputs out;
  Tensor gates, entering_h, entering_c;  // kept for the gradient

 private:
  const RecurrentRule rule_;
  const Tensor& lengths_;
  const Ready ready_;
  Tensor sequence_;  // out.outputs as [batch, time, units]
};

Tensor new_outputs(const RecurrentRule& rule, const TensorImpl& x, const RecurrentSizes& s, std::int64_t width,
                   Where where) {
  if (rule.cell) return {};
  if (rule.time_major) return autograd::result_like(x, Shape({s.time, s.batch, width}, where), x.dtype, where);
  return sequence_like(x, s.batch, s.time, width, rule.time_major_memory, where);
}

bool followed(const RecurrentOperands& o) {
  const Tensor* const operands[] = {&o.x, &o.h, &o.c, &o.wx, &o.wh, &o.b, &o.bn, &o.projection};
  return autograd::followers(operands) != 0;
}

/// The index by which x was looked up in a table of at most half as many rows as it has lines, and these rows to the
/// rule; else undefined.
Tensor find_index(RecurrentRule& rule, const Tensor& x, const RecurrentSizes& s, const Tensor& lengths, Where where) {
  if (rule.cell || s.inputs == 0 || !autograd::listening() || x.device() != cpu()) return {};
  const std::int64_t lines = lines_of(s, lengths);
  if (lines > INT32_MAX) return {};  // kernels count no further
  autograd::LookedUp found = autograd::looked_up(x, lines / 2, where);
  rule.table_rows = found.rows;
  return std::move(found.index);
}

}  // namespace

RecurrentOutputs autograd::run_fused(const char* op, RecurrentRule rule, const RecurrentOperands& o,
                                     const RecurrentSizes& s, const Tensor& lengths, Where where) {
  const Tensor index = find_index(rule, o.x, s, lengths, where);
  FusedPass pass(rule, o, s, lengths, index, new_outputs(rule, *o.x.impl(), s, s.units, where), followed(o), where);
  backend_of(*o.x.impl(), where).recurrent_forward(pass.task(), pass.results());
  if (!autograd::attended()) return std::move(pass.out);
  RecurrentOutputs& out = pass.out;
  const auto tell = [&](std::initializer_list<Tensor*> results) {
    autograd::record(op, where, &replay, {&o.x, &o.h, &o.c, &o.wx, &o.wh, &o.b, &o.bn, &o.projection}, results,
                     {&o.x, &o.h, &o.c, &o.wx, &o.wh, &o.b, &o.bn, &o.projection, &lengths, &pass.gates,
                      &pass.entering_h, &pass.entering_c, &index},
                     rule);
  };
  const bool lstm = rule.kind == RecurrentKind::lstm;
  if (rule.cell && lstm) tell({&out.h, &out.c});
  else if (rule.cell) tell({&out.h});
  else if (lstm) tell({&out.outputs, &out.h, &out.c});
  else tell({&out.outputs, &out.h});
  return std::move(pass.out);
}

autograd::BothOutputs autograd::run_both_fused(const char* op, RecurrentRule rule, const RecurrentOperands& o,
                                               const RecurrentSizes& s, const RecurrentOperands& p,
                                               const RecurrentSizes& back, const Tensor& lengths, Where where) {
  const Tensor index = find_index(rule, o.x, s, lengths, where);
  BothOutputs out{new_outputs(rule, *o.x.impl(), s, s.units + back.units, where), {}, {}, {}, {}};
  const TensorImpl& both = *out.outputs.impl();
  const auto columns = [&](std::int64_t from, std::int64_t count) {
    const Shape shape({both.shape[0], both.shape[1], count}, where);
    return core::make_view(both, shape, both.strides, from, where);
  };
  FusedPass a(rule, o, s, lengths, index, columns(0, s.units), followed(o), where);
  FusedPass b(reversed(rule), p, back, lengths, index, columns(s.units, back.units), followed(p), where);
  backend_of(*o.x.impl(), where).recurrent_both_forward(a.task(), a.results(), b.task(), b.results());
  out.h = std::move(a.out.h), out.c = std::move(a.out.c);
  out.back_h = std::move(b.out.h), out.back_c = std::move(b.out.c);
  const auto tell = [&](std::initializer_list<Tensor*> results) {
    autograd::record(op, where, &replay_both,
                     {&o.x, &o.h, &o.c, &o.wx, &o.wh, &o.b, &o.bn, &o.projection,  //
                      &p.x, &p.h, &p.c, &p.wx, &p.wh, &p.b, &p.bn, &p.projection},
                     results, {&o.x,          &o.h,     &o.c,     &o.wx,         &o.wh,         &o.b,   &o.bn,
                               &o.projection, &lengths, &a.gates, &a.entering_h, &a.entering_c, &index,  //
                               &p.x,          &p.h,     &p.c,     &p.wx,         &p.wh,         &p.b,   &p.bn,
                               &p.projection, &lengths, &b.gates, &b.entering_h, &b.entering_c, &index},
                     rule);
  };
  if (rule.kind == RecurrentKind::lstm) tell({&out.outputs, &out.h, &out.c, &out.back_h, &out.back_c});
  else tell({&out.outputs, &out.h, &out.back_h});
  return out;
}

}  // namespace capstan
