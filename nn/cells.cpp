#include <capstan/nn/cells.hpp>

#include <initializer_list>
#include <vector>

#include <capstan/create.hpp>
#include <capstan/nn/unroll.hpp>
#include <capstan/ops/elementwise.hpp>
#include <capstan/ops/linalg.hpp>
#include <capstan/ops/normalization.hpp>
#include <capstan/ops/shaping.hpp>
#include <capstan/tape.hpp>

#include "lib/base/text.hpp"
#include "nn/mixed_types.hpp"

namespace capstan::nn {
namespace {

// --- construction ---

void check_sizes(const char* cell, std::int64_t inputs, std::int64_t hidden, std::int64_t units, std::int64_t blocks,
                 DType dtype, Where where) {
  if (inputs < 1 || hidden < 1)
    base::fail<ShapeError>(where, cell, ": ", inputs, " inputs and ", hidden,
                           " units were asked for; both must be >= 1.");
  check_floating(cell, dtype, where);
  // no product of these overflows
  static_cast<void>(Shape({inputs, blocks, hidden}, where));
  static_cast<void>(Shape({units, blocks, hidden}, where));
}

bool is_finite(double x) { return x - x == 0; }

void check_finite(const char* cell, const char* option, double value, Where where) {
  if (!is_finite(value)) base::fail<Error>(where, cell, ": ", option, " is ", value, "; it must be finite.");
}

void check_limit(const char* option, double value, Where where) {
  if (!(value >= 0 && is_finite(value)))
    base::fail<Error>(where, "LstmCell: ", option, " is ", value,
                      "; it must be finite and above 0, or 0 for no limit.");
}

void check_options(const LstmCellOptions& o, Where where) {
  if (o.projection < 0)
    base::fail<ShapeError>(where, "LstmCell: a projection to ", o.projection,
                           " units was asked for; there must be 1 or more, or 0 for no projection.");
  check_limit("cell_clip", o.cell_clip, where);
  check_limit("projection_clip", o.projection_clip, where);
  if (o.projection_clip > 0 && o.projection == 0)
    base::fail<Error>(where, "LstmCell: projection_clip is ", o.projection_clip,
                      " and projection 0; without a projection there is nothing to limit.");
  check_finite("LstmCell", "forget_bias", o.forget_bias, where);
  check_finite("LstmCell", "norm_gain", o.norm_gain, where);
  check_finite("LstmCell", "norm_shift", o.norm_shift, where);
  if (!(o.norm_epsilon >= 0 && is_finite(o.norm_epsilon)))
    base::fail<Error>(where, "LstmCell: norm_epsilon is ", o.norm_epsilon, "; it must be finite and >= 0.");
}

/// Makes the parameters of a cell.
struct Maker {
  Rng& rng;
  DType dtype;
  Where where;

  Parameter operator()(const Initializer& init, std::initializer_list<std::int64_t> sizes) const {
    return Parameter(init(Shape(sizes, where), rng, {dtype}, where), where);
  }

  /// A vector of which `count` elements from `first` on start `more` higher.
  Parameter raised(const Initializer& init, std::int64_t size, std::int64_t first, std::int64_t count,
                   double more) const {
    const NoGrad off;
    Tensor start = init(Shape({size}, where), rng, {dtype}, where);
    if (more != 0) {
      Tensor part = narrow(start, 0, first, count, where);
      part.assign(add(part, more, where), where);
    }
    return Parameter(std::move(start), where);
  }
};

// --- use ---

/// How x is laid out.
struct Layout {
  int rank, batch_axis;
  const char* front;  // what stands before the inputs
};

constexpr Layout kStep = {2, 0, "[batch, "};

Layout layout_of(const SequenceOptions& options) {
  if (options.time_major) return {3, 1, "[time, batch, "};
  return {3, 0, "[batch, time, "};
}

/// A tensor of the state that a cell was given, which must be [batch, units].
struct Part {
  const char* name;
  const Tensor* tensor;
  std::int64_t units;
};

void check_type(const char* cell, const char* kind, const char* name, const Tensor& tensor, const Tensor& wx,
                Where where) {
  if (!tensor.defined()) base::fail<Error>(where, cell, ": ", kind, name, " is undefined; give it a value first.");
  if (!types_fit(tensor.dtype(), wx.dtype(where)))
    base::fail<DTypeError>(where, cell, ": ", kind, name, " is ", tensor.dtype(), " and wx ", wx.dtype(),
                           "; all must have one type.");
}

/// In one place for all ways of computing.
void check_call(const char* cell, const Tensor& x, const Layout& layout, const Tensor& wx,
                std::initializer_list<Part> state, Where where) {
  check_type(cell, "", "x", x, wx, where);
  for (const Part& part : state) check_type(cell, "the state's ", part.name, *part.tensor, wx, where);
  const std::int64_t inputs = wx.size(0, where);
  if (x.rank() != layout.rank || x.size(-1) != inputs)
    base::fail<ShapeError>(where, cell, ": x is ", x.shape(), " and wx ", wx.shape(), "; x must be ", layout.front,
                           inputs, "].");
  for (const Part& part : state) {
    const Shape expected({x.size(layout.batch_axis), part.units}, where);
    if (part.tensor->shape() != expected)
      base::fail<ShapeError>(where, cell, ": the state's ", part.name, " is ", part.tensor->shape(), " and x ",
                             x.shape(), "; ", part.name, " must be ", expected, ".");
  }
}

/// What `use` gives. It is one operation, which checks all that it is given before it begins: a step that goes well is
/// not checked twice. What is refused `check` says in the cell's words.
template <class Use, class Check>
auto checked_once(Use use, Check check) {
  try {
    return use();
  } catch (const Error&) {
    check();
    throw;
  }
}

/// The result of a step whose output is the state's h.
template <class State>
std::pair<Tensor, State> with_output(State after) {
  Tensor output = after.h;
  return {std::move(output), std::move(after)};
}

Tensor zero_rows(std::int64_t batch, std::int64_t units, const Tensor& like, Where where) {
  return zeros(Shape({batch, units}, where), {like.dtype(where), like.device(where)}, where);
}

}  // namespace

// --- RnnCell ---

RnnCell::RnnCell(std::int64_t inputs, std::int64_t hidden, const RnnCellOptions& options, Rng& rng, Where where)
    : activation_(options.activation) {
  check_sizes("RnnCell", inputs, hidden, hidden, 1, options.dtype, where);
  const Maker make{rng, options.dtype, where};
  wx = make(options.input_init, {inputs, hidden});
  wh = make(options.recurrent_init, {hidden, hidden});
  if (options.use_bias) b = make(options.bias_init, {hidden});
}

std::pair<Tensor, RnnCell::State> RnnCell::operator()(const Tensor& x, const State& before, Where where) const {
  return checked_once(
      [&] { return with_output(State{capstan::detail::rnn_cell(x, before.h, wx, wh, b, activation_, where)}); },
      [&] {
        check_call("RnnCell", x, kStep, wx, {{"h", &before.h, wh.size(0, where)}}, where);
      });
}

std::pair<Tensor, RnnCell::State> RnnCell::sequence(const Tensor& x, const State& before,
                                                    const SequenceOptions& options, Where where) const {
  check_call("RnnCell", x, layout_of(options), wx, {{"h", &before.h, wh.size(0, where)}}, where);
  RnnResult result = rnn(x, before.h, {wx, wh, b}, activation_, options, where);
  return {std::move(result.outputs), State{std::move(result.last)}};
}

RnnCell::State RnnCell::zero_state(std::int64_t batch, Where where) const {
  return State{zero_rows(batch, wh.size(0, where), wh, where)};
}

// --- GruCell ---

GruCell::GruCell(std::int64_t inputs, std::int64_t hidden, const GruCellOptions& options, Rng& rng, Where where)
    : reset_after_(options.reset_after) {
  check_sizes("GruCell", inputs, hidden, hidden, 3, options.dtype, where);
  check_finite("GruCell", "gate_bias", options.gate_bias, where);
  const Maker make{rng, options.dtype, where};
  wx = make(options.input_init, {inputs, 3 * hidden});
  wh = make(options.recurrent_init, {hidden, 3 * hidden});
  if (!options.use_bias) return;
  b = make.raised(options.bias_init, 3 * hidden, 0, 2 * hidden, options.gate_bias);
  if (options.reset_after) bn = make(options.bias_init, {hidden});
}

std::pair<Tensor, GruCell::State> GruCell::operator()(const Tensor& x, const State& before, Where where) const {
  return checked_once(
      [&] { return with_output(State{capstan::detail::gru_cell(x, before.h, wx, wh, b, bn, reset_after_, where)}); },
      [&] {
        check_call("GruCell", x, kStep, wx, {{"h", &before.h, wh.size(0, where)}}, where);
      });
}

std::pair<Tensor, GruCell::State> GruCell::sequence(const Tensor& x, const State& before,
                                                    const SequenceOptions& options, Where where) const {
  check_call("GruCell", x, layout_of(options), wx, {{"h", &before.h, wh.size(0, where)}}, where);
  RnnResult result = gru(x, before.h, {wx, wh, b, bn}, reset_after_, options, where);
  return {std::move(result.outputs), State{std::move(result.last)}};
}

GruCell::State GruCell::zero_state(std::int64_t batch, Where where) const {
  return State{zero_rows(batch, wh.size(0, where), wh, where)};
}

// --- LstmCell ---

LstmCell::LstmCell(std::int64_t inputs, std::int64_t hidden, const LstmCellOptions& options, Rng& rng, Where where)
    : hidden_(hidden),
      cell_clip_(options.cell_clip),
      projection_clip_(options.projection_clip),
      epsilon_(options.norm_epsilon),
      activation_(options.activation),
      coupled_(options.coupled_gates) {
  const std::int64_t blocks = coupled_ ? 3 : 4;
  const std::int64_t units = options.projection > 0 ? options.projection : hidden;
  check_sizes("LstmCell", inputs, hidden, units, blocks, options.dtype, where);
  check_options(options, where);
  const std::int64_t gates = blocks * hidden, forget = coupled_ ? 0 : hidden;
  const Maker make{rng, options.dtype, where};
  wx = make(options.input_init, {inputs, gates});
  wh = make(options.recurrent_init, {units, gates});
  if (options.use_bias && !options.layer_norm)
    b = make.raised(options.bias_init, gates, forget, hidden, options.forget_bias);
  if (options.peepholes) {
    if (!coupled_) peephole_i = make(options.peephole_init, {hidden});
    peephole_f = make(options.peephole_init, {hidden});
    peephole_o = make(options.peephole_init, {hidden});
  }
  if (options.projection > 0) projection = make(options.projection_init, {hidden, units});
  if (options.layer_norm) {
    const Initializer gain = init::constant(options.norm_gain), shift = init::constant(options.norm_shift);
    gate_gain = make(gain, {gates});
    gate_shift = make.raised(shift, gates, forget, hidden, options.forget_bias);
    cell_gain = make(gain, {hidden});
    cell_shift = make(shift, {hidden});
  }
}

bool LstmCell::has_sequence() const noexcept {
  return activation_ == Activation::tanh && !coupled_ && cell_clip_ == 0 && projection_clip_ == 0 &&
         !peephole_f.defined() && !gate_gain.defined();
}

Tensor LstmCell::activated(const Tensor& x, Where where) const {
  return activation_ == Activation::relu ? relu(x, where) : tanh(x, where);
}

/// With all options, in operations.
LstmCell::State LstmCell::step(const Tensor& x, const State& before, Where where) const {
  const std::int64_t batch = x.size(0, where), blocks = coupled_ ? 3 : 4;
  const auto seeing = [&](const Tensor& gate, const Tensor& peephole, const Tensor& cell) -> Tensor {
    return peephole.defined() ? add(gate, mul(cell, peephole, where), where) : gate;
  };

  Tensor gates = addmm(linear(x, wx, b, where), before.h, wh, where);
  if (gate_gain.defined()) {
    const Tensor apart = reshape(gates, {batch, blocks, hidden_}, where);
    const Tensor rows = layer_norm(apart, 1, Tensor(), Tensor(), epsilon_, where);
    gates = add(mul(reshape(rows, {batch, blocks * hidden_}, where), gate_gain, where), gate_shift, where);
  }
  const std::vector<Tensor> parts = split(gates, blocks, 1, where);  // [i,] f, g, o
  const std::size_t first = coupled_ ? 0 : 1;
  const Tensor f = seeing(parts[first], peephole_f, before.c);
  const Tensor i = coupled_ ? neg(f, where) : seeing(parts[0], peephole_i, before.c);  // 1 - sigmoid(f) = sigmoid(-f)
  const Tensor kept = mul(sigmoid(f, where), before.c, where);
  Tensor c = add(kept, mul(sigmoid(i, where), activated(parts[first + 1], where), where), where);
  if (cell_gain.defined()) c = layer_norm(c, 1, cell_gain, cell_shift, epsilon_, where);
  if (cell_clip_ > 0) c = clip(c, -cell_clip_, cell_clip_, where);

  const Tensor o = seeing(parts[first + 2], peephole_o, c);
  Tensor h = mul(sigmoid(o, where), activated(c, where), where);
  if (projection.defined()) h = matmul(h, projection, where);
  if (projection_clip_ > 0) h = clip(h, -projection_clip_, projection_clip_, where);
  return State{std::move(h), std::move(c)};
}

std::pair<Tensor, LstmCell::State> LstmCell::operator()(const Tensor& x, const State& before, Where where) const {
  const auto check = [&] {
    check_call("LstmCell", x, kStep, wx, {{"h", &before.h, wh.size(0, where)}, {"c", &before.c, hidden_}}, where);
  };
  if (has_sequence())
    return checked_once(
        [&] { return with_output(capstan::detail::lstm_cell(x, before.h, before.c, wx, wh, b, projection, where)); },
        check);
  check();
  return with_output(step(x, before, where));
}

std::pair<Tensor, LstmCell::State> LstmCell::sequence(const Tensor& x, const State& before,
                                                      const SequenceOptions& options, Where where) const {
  check_call("LstmCell", x, layout_of(options), wx, {{"h", &before.h, wh.size(0, where)}, {"c", &before.c, hidden_}},
             where);
  if (has_sequence()) {
    LstmResult result = lstm(x, before.h, before.c, {wx, wh, b, projection}, options, where);
    return {std::move(result.outputs), std::move(result.last)};
  }
  UnrollOptions<State> steps;  // which asks has_sequence() and does not come back here
  steps.lengths = options.lengths;
  steps.initial_state = before;
  steps.time_major = options.time_major;
  steps.reverse = options.reverse;
  return unroll(*this, x, steps, where);
}

LstmCell::State LstmCell::zero_state(std::int64_t batch, Where where) const {
  return State{zero_rows(batch, wh.size(0, where), wh, where), zero_rows(batch, hidden_, wh, where)};
}

}  // namespace capstan::nn
