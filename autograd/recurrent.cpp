#include "autograd/recurrent.hpp"

#include <algorithm>

#include <capstan/ops/shaping.hpp>

namespace capstan {

using autograd::BothOutputs;
using autograd::RecurrentOperands;
using autograd::RecurrentOutputs;
using autograd::RecurrentRule;
using autograd::RecurrentSizes;
using core::RecurrentKind;

namespace {

// --- checks ------------------------------------------------------------------------------------------------------

bool is(const Shape& shape, std::int64_t rows, std::int64_t columns) {
  return shape.rank() == 2 && shape[0] == rows && shape[1] == columns;
}
bool is(const Shape& shape, std::int64_t size) { return shape.rank() == 1 && shape[0] == size; }

/// All operands but the lengths.
class Checks {
 public:
  Checks(const char* op, const RecurrentRule& rule, const RecurrentOperands& o, Where where)
      : op_(op), rule_(rule), o_(o), where_(where) {}

  RecurrentSizes operator()() const {
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
    const RecurrentSizes s{x.shape[batch_axis], rule_.cell ? 1 : x.shape[1 - batch_axis], x.shape[x.rank() - 1],
                           wh[1] / blocks, wh[0]};
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
Tensor checked_lengths(const char* op, const Tensor& x, const Tensor& lengths, const RecurrentSizes& s, Where where) {
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

RecurrentOutputs run(const char* op, RecurrentRule rule, const RecurrentOperands& o, const SequenceOptions* options,
                     Where where) {
  if (autograd::raises(o.x, o.h, o.c, o.wx, o.wh, o.b, o.bn, o.projection)) [[unlikely]]
    return run_in_float32(op, rule, o, options, where);
  if (options != nullptr) {
    rule.reverse = options->reverse;
    rule.time_major = options->time_major;
    rule.time_major_memory = options->time_major_memory;
  }
  const RecurrentSizes sizes = Checks(op, rule, o, where)();
  const Tensor lengths = options == nullptr ? Tensor() : checked_lengths(op, o.x, options->lengths, sizes, where);
  if (is_half(o.x.dtype())) return autograd::recurrent_by_steps(rule, o, lengths, where);
  if (!lengths.defined() && autograd::rnn_fits_cache(rule, o)) return autograd::rnn_in_cache(op, rule, o, where);
  return autograd::run_fused(op, rule, o, sizes, lengths, where);
}

/// Both directions of a layer; the options do not reverse.
BothOutputs run_both(const char* op, RecurrentKind kind, const RecurrentOperands& o, const RecurrentOperands& p,
                     const SequenceOptions& options, Where where) {
  const auto fuses = [](const RecurrentOperands& one) {
    return !autograd::raises(one.x, one.h, one.c, one.wx, one.wh, one.b, one.bn, one.projection);
  };
  if (core::observed() || !fuses(o) || !fuses(p) || is_half(o.x.dtype())) {  // watchers see two operations
    const autograd::Rollback rollback(autograd::Inside::user_code);          // each of the two decides about autocast
    SequenceOptions reverse = options;
    reverse.reverse = true;
    RecurrentOutputs a = run(op, {.kind = kind}, o, &options, where), b = run(op, {.kind = kind}, p, &reverse, where);
    return {concat({a.outputs, b.outputs}, -1, where), std::move(a.h), std::move(a.c), std::move(b.h), std::move(b.c)};
  }
  const RecurrentRule rule{
      .kind = kind, .time_major = options.time_major, .time_major_memory = options.time_major_memory};
  const RecurrentSizes sizes = Checks(op, rule, o, where)(), back = Checks(op, rule, p, where)();
  const Tensor lengths = checked_lengths(op, o.x, options.lengths, sizes, where);
  return autograd::run_both_fused(op, rule, o, sizes, p, back, lengths, where);
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
