#include "autograd/recurrent.hpp"

#include <algorithm>

#include <capstan/create.hpp>
#include <capstan/ops/rearranging.hpp>
#include <capstan/tape.hpp>

namespace capstan {

using autograd::backend_of;
using autograd::dense;
using autograd::RecurrentOperands;
using autograd::RecurrentOutputs;
using autograd::RecurrentRule;
using autograd::Replay;
using core::RecurrentKind;

namespace {

using autograd::kRecurrentOperands;
using autograd::RecurrentPlace;

constexpr int kKept = 12;  // tensors that a sequence or step saves: operands, lengths, gates, entering states

// --- checks ------------------------------------------------------------------------------------------------------

struct Sizes {
  std::int64_t batch, time, inputs, hidden, units;
};

bool is(const Shape& shape, std::int64_t rows, std::int64_t columns) {
  return shape.rank() == 2 && shape[0] == rows && shape[1] == columns;
}
bool is(const Shape& shape, std::int64_t size) { return shape.rank() == 1 && shape[0] == size; }

/// All operands but the lengths.
class Checks {
 public:
  Checks(const char* op, const RecurrentRule& rule, const RecurrentOperands& o, Where where)
      : op_(op), rule_(rule), o_(o), where_(where) {}

  Sizes operator()() const {
    const TensorImpl& x = core::defined(op_, o_.x, where_);
    autograd::require_floating(op_, x, where_);
    const bool lstm = rule_.kind == RecurrentKind::lstm;
    require_kind(x, rule_.cell ? "h" : "h0", o_.h);
    if (lstm) require_kind(x, rule_.cell ? "c" : "c0", o_.c);
    require_kind(x, "wx", o_.wx);
    require_kind(x, "wh", o_.wh);
    if (o_.b.defined()) require_kind(x, "b", o_.b);
    if (o_.bn.defined()) require_kind(x, "bn", o_.bn);
    if (o_.projection.defined()) require_kind(x, "projection", o_.projection);
    if (x.rank() != (rule_.cell ? 2 : 3) || (!rule_.cell && x.shape[rule_.time_major ? 0 : 1] < 1))
      base::fail<ShapeError>(where_, op_, ": x is ", x.shape, "; it must be ",
                             rule_.cell         ? "[batch, inputs]."
                             : rule_.time_major ? "[time, batch, inputs] with time >= 1."
                                                : "[batch, time, inputs] with time >= 1.");
    const Shape& wh = o_.wh.shape();
    const std::int64_t blocks = rule_.blocks();
    const bool square = !o_.projection.defined();
    if (wh.rank() != 2 || wh[0] < 1 || wh[1] % blocks != 0 || (square && wh[1] / blocks != wh[0]))
      base::fail<ShapeError>(where_, op_, ": wh is ", wh, "; it must be [", square ? "hidden, " : "projected, ",
                             blocks == 1   ? ""
                             : blocks == 3 ? "3 * "
                                           : "4 * ",
                             "hidden].");
    const int batch_axis = !rule_.cell && rule_.time_major ? 1 : 0;
    const Sizes s{x.shape[batch_axis], rule_.cell ? 1 : x.shape[1 - batch_axis], x.shape[x.rank() - 1], wh[1] / blocks,
                  wh[0]};
    if (!is(o_.wx.shape(), s.inputs, wh[1])) misfit("wx", o_.wx, {s.inputs, wh[1]});
    if (o_.b.defined() && !is(o_.b.shape(), wh[1])) misfit("b", o_.b, {wh[1]});
    if (o_.bn.defined() && !is(o_.bn.shape(), s.hidden)) misfit("bn", o_.bn, {s.hidden});
    if (!square && !is(o_.projection.shape(), s.hidden, s.units))
      misfit("projection", o_.projection, {s.hidden, s.units});
    if (!is(o_.h.shape(), s.batch, s.units)) misfit(rule_.cell ? "h" : "h0", o_.h, {s.batch, s.units});
    if (lstm && !is(o_.c.shape(), s.batch, s.hidden)) misfit(rule_.cell ? "c" : "c0", o_.c, {s.batch, s.hidden});
    return s;
  }

 private:
  /// Defined, with elements, and of x's type and device.
  void require_kind(const TensorImpl& x, const char* name, const Tensor& tensor) const {
    if (const TensorImpl* t = tensor.impl(); t != nullptr && t->dtype == x.dtype && t->device() == x.device() &&
                                             t->slices.load(std::memory_order_acquire) == nullptr) [[likely]]
      return;  // steps of small cells are counted in nanoseconds
    if (!tensor.defined()) base::fail<Error>(where_, op_, ": ", name, " is undefined; give it a value first.");
    const TensorImpl& t = core::defined(op_, tensor, where_);
    core::require_same_device(op_, x, t, where_);
    if (t.dtype != x.dtype)
      base::fail<DTypeError>(where_, op_, ": x is ", x.dtype, " and ", name, " is ", t.dtype,
                             "; all must have one type.");
  }
  [[noreturn]] void misfit(const char* name, const Tensor& tensor, std::initializer_list<std::int64_t> expected) const {
    base::fail<ShapeError>(where_, op_, ": ", name, " is ", tensor.shape(), "; with x ", o_.x.shape(), " and wh ",
                           o_.wh.shape(), " it must be ", Shape(expected), ".");
  }

  const char* op_;
  const RecurrentRule& rule_;
  const RecurrentOperands& o_;
  Where where_;
};

/// int64 on the host, or undefined if all rows have all steps.
Tensor checked_lengths(const char* op, const Tensor& x, const Tensor& lengths, const Sizes& s, Where where) {
  if (!lengths.defined()) return {};
  if (lengths.dtype() != DType::int32 && lengths.dtype() != DType::int64)
    base::fail<DTypeError>(where, op, ": the lengths are ", lengths.dtype(), "; they must be int32 or int64.");
  if (!is(lengths.shape(), s.batch))
    base::fail<ShapeError>(where, op, ": the lengths are ", lengths.shape(), "; with x ", x.shape(), " they must be [",
                           s.batch, "].");
  const std::vector<std::int64_t> values =
      lengths.to(cpu(), where).to(DType::int64, where).to_vector<std::int64_t>(where);
  bool all = true;
  for (std::int64_t row = 0; row < s.batch; ++row) {
    const std::int64_t length = values[static_cast<std::size_t>(row)];
    if (length < 0 || length > s.time)
      base::fail<IndexError>(where, op, ": the length of row ", row, " is ", length, "; with x ", x.shape(),
                             " it must be in 0..", s.time, ".");
    all = all && length == s.time;
  }
  if (all) return {};
  const Tensor own = core::make_tensor(lengths.shape(), DType::int64, cpu(), where);  // nobody else may change it
  std::copy(values.begin(), values.end(), own.impl()->as<std::int64_t>());
  return own;
}

// --- the fused kernels -------------------------------------------------------------------------------------------

/// [batch, time, width] of a sequence in either order; the last axis contiguous.
Tensor as_sequence(const Tensor& x, const RecurrentRule& rule, Where where) {
  const TensorImpl& impl = *x.impl();
  if (impl.numel() != 0 && impl.shape[2] != 1 && impl.strides[2] != 1) return as_sequence(dense(x, where), rule, where);
  const int batch = rule.time_major ? 1 : 0;
  const std::int64_t sizes[] = {impl.shape[batch], impl.shape[1 - batch], impl.shape[2]};
  const std::int64_t strides[] = {impl.strides[batch], impl.strides[1 - batch], 1};
  return core::make_view(impl, Shape(sizes, where), strides, 0, where);
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

  Ready(const RecurrentRule& rule, const RecurrentOperands& o, Where where)
      : x(o.x, rule, where),
        h(o.h, where),
        c(o.c, where),
        wx(o.wx, where),
        wh(o.wh, where),
        b(o.b, where),
        bn(o.bn, where),
        projection(o.projection, where) {}
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
            lengths.defined() ? lengths.impl()->as<std::int64_t>() : nullptr};
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
      : r_(r), rule_(rule), at_(at), ready_(rule, autograd::recurrent_operands(r, at), where) {
    outputs_ = grad_outputs(r, rule, at);
    if (outputs_.defined()) outputs_ = as_sequence(outputs_, rule, where);
    h_ = given(r.grad(at.h), where);
    if (rule.kind == RecurrentKind::lstm) c_ = given(r.grad(at.h + 1), where);
    for (int i = 0; i < kRecurrentOperands; ++i) {
      if (!r.needs(at.input + i)) continue;
      const TensorImpl& operand = *saved(i).impl();
      made_[i] = i == 0 ? gradient_like(operand, where) : autograd::result_like(operand, where);
    }
    dx_ = made_[0].defined() && !rule.cell ? as_sequence(made_[0], rule, where) : made_[0];
  }

  bool needed() const {
    return std::any_of(std::begin(made_), std::end(made_), [](const Tensor& one) { return one.defined(); });
  }
  core::RecurrentTask task() const { return ready_.task(rule_, saved(8)); }
  core::RecurrentGradients gradients() const {
    return {*saved(9).impl(), saved(10).impl(), saved(11).impl(), outputs_.impl(), h_.impl(),
            c_.impl(),        dx_.impl(),       made_[1].impl(),  made_[2].impl(), made_[3].impl(),
            made_[4].impl(),  made_[5].impl(),  made_[6].impl(),  made_[7].impl()};
  }
  void give() {
    dx_ = Tensor();  // what nobody else holds is added to in place
    for (int i = 0; i < kRecurrentOperands; ++i)
      if (made_[i].defined()) r_.give(at_.input + i, std::move(made_[i]));
  }

 private:
  const Tensor& saved(int i) const { return r_.saved(at_.saved + i); }

  Replay& r_;
  const RecurrentRule rule_;
  const RecurrentPlace at_;
  const Ready ready_;
  Tensor outputs_, h_, c_;  // gradients given
  Tensor made_[kRecurrentOperands], dx_;
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

std::int64_t lines_of(const Sizes& s, const Tensor& lengths) {
  if (!lengths.defined()) return s.batch * s.time;
  std::int64_t lines = 0;
  for (std::int64_t row = 0; row < s.batch; ++row) lines += lengths.impl()->as<std::int64_t>()[row];
  return lines;
}

/// One sequence or step by the fused kernels: what they take, and what they fill. `outputs` of a sequence are made by
/// who calls; `keep`: a gradient may be asked for.
class FusedPass {
 public:
  FusedPass(const RecurrentRule& rule, const RecurrentOperands& o, const Sizes& s, const Tensor& lengths,
            Tensor outputs, bool keep, Where where)
      : rule_(rule), lengths_(lengths), ready_(rule, o, where) {
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

Tensor new_outputs(const RecurrentRule& rule, const TensorImpl& x, const Sizes& s, std::int64_t width, Where where) {
  if (rule.cell) return {};
  if (rule.time_major) return autograd::result_like(x, Shape({s.time, s.batch, width}, where), x.dtype, where);
  return sequence_like(x, s.batch, s.time, width, rule.time_major_memory, where);
}

bool followed(const RecurrentOperands& o) {
  const Tensor* const operands[] = {&o.x, &o.h, &o.c, &o.wx, &o.wh, &o.b, &o.bn, &o.projection};
  return autograd::followers(operands) != 0;
}

RecurrentOutputs run_fused(const char* op, const RecurrentRule& rule, const RecurrentOperands& o, const Sizes& s,
                           const Tensor& lengths, Where where) {
  FusedPass pass(rule, o, s, lengths, new_outputs(rule, *o.x.impl(), s, s.units, where), followed(o), where);
  backend_of(*o.x.impl(), where).recurrent_forward(pass.task(), pass.results());
  if (!autograd::attended()) return std::move(pass.out);
  RecurrentOutputs& out = pass.out;
  const auto tell = [&](std::initializer_list<Tensor*> results) {
    autograd::record(op, where, &replay, {&o.x, &o.h, &o.c, &o.wx, &o.wh, &o.b, &o.bn, &o.projection}, results,
                     {&o.x, &o.h, &o.c, &o.wx, &o.wh, &o.b, &o.bn, &o.projection, &lengths, &pass.gates,
                      &pass.entering_h, &pass.entering_c},
                     rule);
  };
  const bool lstm = rule.kind == RecurrentKind::lstm;
  if (rule.cell && lstm) tell({&out.h, &out.c});
  else if (rule.cell) tell({&out.h});
  else if (lstm) tell({&out.outputs, &out.h, &out.c});
  else tell({&out.outputs, &out.h});
  return std::move(pass.out);
}

RecurrentOutputs run(const char* op, RecurrentRule rule, const RecurrentOperands& o, const SequenceOptions* options,
                     Where where);

/// For autocast: the fused kernels have no 16-bit types.
RecurrentOutputs run_in_float32(const char* op, const RecurrentRule& rule, const RecurrentOperands& o,
                                const SequenceOptions* options, Where where) {
  const auto run_with = [&](const Tensor& x, const Tensor& h, const Tensor& c, const Tensor& wx, const Tensor& wh,
                            const Tensor& b, const Tensor& bn, const Tensor& projection, Where at) {
    return run(op, rule, {x, h, c, wx, wh, b, bn, projection}, options, at);
  };
  return autograd::raised(run_with, where, o.x, o.h, o.c, o.wx, o.wh, o.b, o.bn, o.projection);
}

/// Outputs of two sequences side by side, and the last states of each.
struct BothOutputs {
  Tensor outputs, h, c, back_h, back_c;
};

/// A sequence and another one of the same x back in time, as one entry.
BothOutputs run_both_fused(const char* op, const RecurrentRule& rule, const RecurrentOperands& o, const Sizes& s,
                           const RecurrentOperands& p, const Sizes& back, const Tensor& lengths, Where where) {
  BothOutputs out{new_outputs(rule, *o.x.impl(), s, s.units + back.units, where), {}, {}, {}, {}};
  const TensorImpl& both = *out.outputs.impl();
  const auto columns = [&](std::int64_t from, std::int64_t count) {
    const Shape shape({both.shape[0], both.shape[1], count}, where);
    return core::make_view(both, shape, both.strides, from, where);
  };
  FusedPass a(rule, o, s, lengths, columns(0, s.units), followed(o), where);
  FusedPass b(reversed(rule), p, back, lengths, columns(s.units, back.units), followed(p), where);
  backend_of(*o.x.impl(), where).recurrent_both_forward(a.task(), a.results(), b.task(), b.results());
  out.h = std::move(a.out.h), out.c = std::move(a.out.c);
  out.back_h = std::move(b.out.h), out.back_c = std::move(b.out.c);
  const auto tell = [&](std::initializer_list<Tensor*> results) {
    autograd::record(op, where, &replay_both,
                     {&o.x, &o.h, &o.c, &o.wx, &o.wh, &o.b, &o.bn, &o.projection,  //
                      &p.x, &p.h, &p.c, &p.wx, &p.wh, &p.b, &p.bn, &p.projection},
                     results, {&o.x,  &o.h,          &o.c,     &o.wx,    &o.wh,         &o.b,
                               &o.bn, &o.projection, &lengths, &a.gates, &a.entering_h, &a.entering_c,  //
                               &p.x,  &p.h,          &p.c,     &p.wx,    &p.wh,         &p.b,
                               &p.bn, &p.projection, &lengths, &b.gates, &b.entering_h, &b.entering_c},
                     rule);
  };
  if (rule.kind == RecurrentKind::lstm) tell({&out.outputs, &out.h, &out.c, &out.back_h, &out.back_c});
  else tell({&out.outputs, &out.h, &out.back_h});
  return out;
}

RecurrentOutputs run(const char* op, RecurrentRule rule, const RecurrentOperands& o, const SequenceOptions* options,
                     Where where) {
  if (autograd::raises(o.x, o.h, o.c, o.wx, o.wh, o.b, o.bn, o.projection)) [[unlikely]]
    return run_in_float32(op, rule, o, options, where);
  if (options != nullptr) {
    rule.reverse = options->reverse;
    rule.time_major = options->time_major;
    rule.time_major_memory = options->time_major_memory;
  }
  const Sizes sizes = Checks(op, rule, o, where)();
  const Tensor lengths = options == nullptr ? Tensor() : checked_lengths(op, o.x, options->lengths, sizes, where);
  if (is_half(o.x.dtype())) return autograd::recurrent_by_steps(rule, o, lengths, where);
  if (!lengths.defined() && autograd::rnn_fits_cache(rule, o)) return autograd::rnn_in_cache(op, rule, o, where);
  return run_fused(op, rule, o, sizes, lengths, where);
}

/// Both directions of a layer; the options do not reverse.
BothOutputs run_both(const char* op, RecurrentKind kind, const RecurrentOperands& o, const RecurrentOperands& p,
                     const SequenceOptions& options, Where where) {
  const auto fuses = [](const RecurrentOperands& one) {
    return !autograd::raises(one.x, one.h, one.c, one.wx, one.wh, one.b, one.bn, one.projection);
  };
  if (core::observed() || !fuses(o) || !fuses(p) || is_half(o.x.dtype())) {  // watchers see two operations
    SequenceOptions reverse = options;
    reverse.reverse = true;
    RecurrentOutputs a = run(op, {.kind = kind}, o, &options, where), b = run(op, {.kind = kind}, p, &reverse, where);
    return {concat({a.outputs, b.outputs}, -1, where), std::move(a.h), std::move(a.c), std::move(b.h), std::move(b.c)};
  }
  const RecurrentRule rule{
      .kind = kind, .time_major = options.time_major, .time_major_memory = options.time_major_memory};
  const Sizes sizes = Checks(op, rule, o, where)(), back = Checks(op, rule, p, where)();
  const Tensor lengths = checked_lengths(op, o.x, options.lengths, sizes, where);
  return run_both_fused(op, rule, o, sizes, p, back, lengths, where);
}

RecurrentKind kind_of(Activation activation) {
  return activation == Activation::relu ? RecurrentKind::rnn_relu : RecurrentKind::rnn_tanh;
}

RecurrentKind kind_of(bool reset_after) { return reset_after ? RecurrentKind::gru : RecurrentKind::gru_before; }

void check_reset(const char* op, const Tensor& bn, bool reset_after, Where where) {
  if (bn.defined() && !reset_after)
    base::fail<Error>(where, op, ": there is a bn of ", bn.shape(),
                      " and the reset gate comes before the product; bn must be undefined then.");
}

const Tensor& none() {
  static const Tensor undefined;
  return undefined;
}

}  // namespace

Tensor detail::rnn_cell(const Tensor& x, const Tensor& h, const Tensor& wx, const Tensor& wh, const Tensor& b,
                        Activation activation, Where where) {
  return run("rnn_cell", {.kind = kind_of(activation), .cell = true}, {x, h, none(), wx, wh, b, none(), none()},
             nullptr, where)
      .h;
}
Tensor rnn_cell(const Tensor& x, const Tensor& h, const RnnWeights& weights, Activation activation, Where where) {
  return detail::rnn_cell(x, h, weights.wx, weights.wh, weights.b, activation, where);
}
RnnResult rnn(const Tensor& x, const Tensor& h0, const RnnWeights& weights, Activation activation,
              const SequenceOptions& options, Where where) {
  RecurrentOutputs out = run("rnn", {.kind = kind_of(activation)},
                             {x, h0, none(), weights.wx, weights.wh, weights.b, none(), none()}, &options, where);
  return {std::move(out.outputs), std::move(out.h)};
}

Tensor detail::gru_cell(const Tensor& x, const Tensor& h, const Tensor& wx, const Tensor& wh, const Tensor& b,
                        const Tensor& bn, bool reset_after, Where where) {
  check_reset("gru_cell", bn, reset_after, where);
  return run("gru_cell", {.kind = kind_of(reset_after), .cell = true}, {x, h, none(), wx, wh, b, bn, none()}, nullptr,
             where)
      .h;
}
Tensor gru_cell(const Tensor& x, const Tensor& h, const GruWeights& weights, bool reset_after, Where where) {
  return detail::gru_cell(x, h, weights.wx, weights.wh, weights.b, weights.bn, reset_after, where);
}
RnnResult gru(const Tensor& x, const Tensor& h0, const GruWeights& weights, bool reset_after,
              const SequenceOptions& options, Where where) {
  check_reset("gru", weights.bn, reset_after, where);
  RecurrentOutputs out = run("gru", {.kind = kind_of(reset_after)},
                             {x, h0, none(), weights.wx, weights.wh, weights.b, weights.bn, none()}, &options, where);
  return {std::move(out.outputs), std::move(out.h)};
}

detail::GruBoth detail::gru_both(const Tensor& x, const Tensor& h0, const GruWeights& weights, const Tensor& back_h0,
                                 const GruWeights& back, bool reset_after, const SequenceOptions& options,
                                 Where where) {
  check_reset("gru", weights.bn, reset_after, where);
  check_reset("gru", back.bn, reset_after, where);
  BothOutputs out =
      run_both("gru", kind_of(reset_after), {x, h0, none(), weights.wx, weights.wh, weights.b, weights.bn, none()},
               {x, back_h0, none(), back.wx, back.wh, back.b, back.bn, none()}, options, where);
  return {std::move(out.outputs), std::move(out.h), std::move(out.back_h)};
}

LstmState detail::lstm_cell(const Tensor& x, const Tensor& h, const Tensor& c, const Tensor& wx, const Tensor& wh,
                            const Tensor& b, const Tensor& projection, Where where) {
  RecurrentOutputs out = run("lstm_cell", {.kind = RecurrentKind::lstm, .cell = true},
                             {x, h, c, wx, wh, b, none(), projection}, nullptr, where);
  return {std::move(out.h), std::move(out.c)};
}
LstmState lstm_cell(const Tensor& x, const Tensor& h, const Tensor& c, const LstmWeights& weights, Where where) {
  return detail::lstm_cell(x, h, c, weights.wx, weights.wh, weights.b, weights.projection, where);
}
LstmResult lstm(const Tensor& x, const Tensor& h0, const Tensor& c0, const LstmWeights& weights,
                const SequenceOptions& options, Where where) {
  RecurrentOutputs out =
      run("lstm", {.kind = RecurrentKind::lstm},
          {x, h0, c0, weights.wx, weights.wh, weights.b, none(), weights.projection}, &options, where);
  return {std::move(out.outputs), {std::move(out.h), std::move(out.c)}};
}

detail::LstmBoth detail::lstm_both(const Tensor& x, const LstmState& state, const LstmWeights& weights,
                                   const LstmState& back_state, const LstmWeights& back, const SequenceOptions& options,
                                   Where where) {
  BothOutputs out = run_both(
      "lstm", RecurrentKind::lstm, {x, state.h, state.c, weights.wx, weights.wh, weights.b, none(), weights.projection},
      {x, back_state.h, back_state.c, back.wx, back.wh, back.b, none(), back.projection}, options, where);
  return {std::move(out.outputs), {std::move(out.h), std::move(out.c)}, {std::move(out.back_h), std::move(out.back_c)}};
}

}  // namespace capstan
