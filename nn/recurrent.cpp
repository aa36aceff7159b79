#include <capstan/nn/recurrent.hpp>

#include <array>
#include <type_traits>
#include <utility>

#include <capstan/create.hpp>
#include <capstan/nn/unroll.hpp>
#include <capstan/ops/dropout.hpp>
#include <capstan/ops/elementwise.hpp>
#include <capstan/ops/shaping.hpp>

#include "lib/base/text.hpp"
#include "nn/mixed_types.hpp"

namespace capstan::nn {

namespace {

// --- weights ---

/// Blocks of columns.
template <class Options>
constexpr std::int64_t kBlocks = std::is_same_v<Options, LstmOptions>  ? 4
                                 : std::is_same_v<Options, GruOptions> ? 3
                                                                       : 1;

template <class Options>
std::int64_t projection_of([[maybe_unused]] const Options& o) {
  if constexpr (std::is_same_v<Options, LstmOptions>) return o.projection;
  else return 0;
}
template <class Options>
std::int64_t units_of(const Options& o) {
  return projection_of(o) > 0 ? projection_of(o) : o.hidden;
}

template <class Options>
const Options& checked(const char* layer, const Options& o, Where where) {
  if (o.inputs < 1 || o.hidden < 1)
    base::fail<ShapeError>(where, layer, ": ", o.inputs, " inputs and ", o.hidden,
                           " units were asked for; both must be >= 1.");
  if (o.layers < 1) base::fail<ShapeError>(where, layer, ": ", o.layers, " layers were asked for; one is the least.");
  if (!(o.dropout >= 0 && o.dropout < 1))
    base::fail<Error>(where, layer, ": dropout is ", o.dropout, "; it must be in [0, 1).");
  if (projection_of(o) < 0)
    base::fail<ShapeError>(where, layer, ": a projection to ", projection_of(o),
                           " units was asked for; there must be 1 or more, or 0 for no projection.");
  if constexpr (std::is_same_v<Options, LstmOptions>) {
    if (!(o.forget_bias - o.forget_bias == 0))
      base::fail<Error>(where, layer, ": forget_bias is ", o.forget_bias, "; it must be finite.");
  }
  check_floating(layer, o.dtype, where);
  // no product of these overflows
  static_cast<void>(Shape({o.inputs, kBlocks<Options>, o.hidden}, where));
  static_cast<void>(Shape({o.bidirectional ? 2 : 1, units_of(o), kBlocks<Options>, o.hidden}, where));
  return o;
}

template <class Options>
detail::RecurrentPlan plan_of(const Options& o) {
  return {.inputs = o.inputs,
          .hidden = o.hidden,
          .units = units_of(o),
          .directions = o.bidirectional ? 2 : 1,
          .dropout = o.dropout};
}

template <class Options>
RecurrentDirection direction_of(const Options& o, std::int64_t inputs, Rng& rng, Where where) {
  const TensorOptions type{o.dtype};
  const std::int64_t columns = kBlocks<Options> * o.hidden;
  RecurrentDirection d;
  d.wx = Parameter(o.input_init(Shape({inputs, columns}, where), rng, type, where), where);
  d.wh = Parameter(o.recurrent_init(Shape({units_of(o), columns}, where), rng, type, where), where);
  if constexpr (std::is_same_v<Options, LstmOptions>) {
    if (o.projection > 0)
      d.projection = Parameter(o.projection_init(Shape({o.hidden, o.projection}, where), rng, type, where), where);
  }
  if (!o.use_bias) return d;
  Tensor start = o.bias_init(Shape({columns}, where), rng, type, where);
  if constexpr (std::is_same_v<Options, LstmOptions>) {
    Tensor forget = narrow(start, 0, o.hidden, o.hidden, where);
    forget.assign(add(forget, o.forget_bias, where), where);
  }
  d.b = Parameter(std::move(start), where);
  if constexpr (std::is_same_v<Options, GruOptions>) {
    if (o.reset_after) d.bn = Parameter(o.bias_init(Shape({o.hidden}, where), rng, type, where), where);
  }
  return d;
}

template <class Options>
std::vector<RecurrentLayer> layers_of(const char* layer, const Options& options, Rng& rng, Where where) {
  const Options& o = checked(layer, options, where);
  std::vector<RecurrentLayer> layers;
  layers.reserve(static_cast<std::size_t>(o.layers));
  for (std::int64_t i = 0; i < o.layers; ++i) {
    const std::int64_t inputs = i == 0 ? o.inputs : (o.bidirectional ? 2 : 1) * units_of(o);
    RecurrentLayer& one = layers.emplace_back();
    one.forward = direction_of(o, inputs, rng, where);
    if (o.bidirectional) one.backward = direction_of(o, inputs, rng, where);
  }
  return layers;
}

// --- calls ---

/// States of all layers and directions, or of one. c is undefined but for Lstm.
struct States {
  Tensor h, c;
};
struct Passed {
  Tensor outputs;
  States last;
};

/// Of one layer: states of each direction, the second undefined if there is only one.
using Directions = std::array<States, 2>;
struct LayerPassed {
  Tensor outputs;
  Directions last;
};

/// What a call is made of, whichever layer it is of.
struct Call {
  const char* layer;
  const detail::RecurrentPlan& plan;
  const std::vector<RecurrentLayer>& layers;
  Where where;
  bool fused = true;  // small Rnns are computed row by row instead, and read their inputs so

  /// All weights have its type and device.
  const Tensor& first_weight() const {
    if (layers.empty()) base::fail<Error>(where, layer, ": the model has no layers; one is the least.");
    return layers.front().forward.wx;
  }

  Shape shape_of_state(std::int64_t batch, std::int64_t units) const {
    return Shape({static_cast<std::int64_t>(layers.size()) * plan.directions, batch, units}, where);
  }

  Tensor zeros_of(std::int64_t batch, std::int64_t units) const {
    const Tensor& wx = first_weight();
    return zeros(shape_of_state(batch, units), {wx.dtype(where), wx.device(where)}, where);
  }

  /// How many rows x has. It must fit the weights, and the lengths must fit it.
  std::int64_t batch_of(const Tensor& x, const Tensor& lengths, bool time_major) const {
    if (!x.defined()) base::fail<Error>(where, layer, ": the input is undefined; give it a value first.");
    if (x.rank() != 3 || x.size(2) != plan.inputs)
      base::fail<ShapeError>(where, layer, ": the input is ", x.shape(), "; it must be ",
                             time_major ? "[time, batch, " : "[batch, time, ", plan.inputs, "].");
    if (const DType own = first_weight().dtype(where); !types_fit(x.dtype(), own))
      base::fail<DTypeError>(where, layer, ": the input is ", x.dtype(), " and the weights ", own,
                             "; all must have one type.");
    return detail::check_unroll(layer, x, lengths, time_major, where).batch;
  }

  void check_state(const char* name, const Tensor& state, std::int64_t units, const Tensor& x,
                   std::int64_t batch) const {
    if (!state.defined())
      base::fail<Error>(where, layer, ": ", name, " of the initial state is undefined; give it a value first.");
    if (const Shape expected = shape_of_state(batch, units); state.shape() != expected)
      base::fail<ShapeError>(where, layer, ": ", name, " of the initial state is ", state.shape(),
                             "; with an input of ", x.shape(), " it must be ", expected,
                             ", [layers * directions, batch, units].");
    if (const DType own = first_weight().dtype(where); !types_fit(state.dtype(), own))
      base::fail<DTypeError>(where, layer, ": ", name, " of the initial state is ", state.dtype(), " and the weights ",
                             own, "; all must have one type.");
  }

  /// Layer after layer; `pass(input, states before, layer, options)` runs both directions of one, or its only one.
  template <class State, class Pass>
  Passed run(const Tensor& x, const RecurrentOptions<State>& given, const States& start, Pass pass) const {
    const detail::Rewind rewind(default_rng());
    SequenceOptions options{.lengths = given.lengths, .time_major = given.time_major};
    Tensor sequence = x;
    std::vector<Tensor> last_h, last_c;
    last_h.reserve(layers.size() * static_cast<std::size_t>(plan.directions));
    last_c.reserve(start.c.defined() ? last_h.capacity() : 0);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      options.time_major_memory = i + 1 < layers.size() && hands_on();
      if (i > 0 && plan.training && plan.dropout > 0)
        sequence = dropout(sequence, 1 - plan.dropout, default_rng(), where);
      Directions before;
      for (std::int64_t direction = 0; direction < plan.directions; ++direction) {
        const Position position(static_cast<std::int64_t>(i) * plan.directions + direction, where);
        before[static_cast<std::size_t>(direction)] = {start.h[position],
                                                       start.c.defined() ? start.c[position] : Tensor()};
      }
      LayerPassed passed = pass(sequence, before, layers[i], options);
      sequence = std::move(passed.outputs);
      for (States& last : passed.last) {
        if (last.h.defined()) last_h.push_back(std::move(last.h));
        if (last.c.defined()) last_c.push_back(std::move(last.c));
      }
    }
    return {std::move(sequence), {stacked(last_h), stacked(last_c)}};
  }

 private:
  /// Whether a layer reads what the one before it has made, step by step.
  bool hands_on() const { return fused && !(plan.training && plan.dropout > 0); }

  /// The states of all layers; of a single one without a copy.
  Tensor stacked(const std::vector<Tensor>& states) const {
    if (states.empty()) return {};
    return states.size() == 1 ? expand_dims(states[0], 0, where) : stack(states, 0, where);
  }
};

}  // namespace

// --- Rnn ---

Rnn::Rnn(const RnnOptions& options, Rng& rng, Where where)
    : layers(layers_of("Rnn", options, rng, where)), plan_(plan_of(options)), activation_(options.activation) {}

Rnn::State Rnn::zero_state(std::int64_t batch, Where where) const {
  return {Call{"Rnn", plan_, layers, where}.zeros_of(batch, plan_.units)};
}

Rnn::Result Rnn::operator()(const Tensor& x, const RecurrentOptions<State>& options, Where where) const {
  const Call call{"Rnn", plan_, layers, where, /*fused=*/false};
  const std::int64_t batch = call.batch_of(x, options.lengths, options.time_major);
  const State start = options.initial_state ? *options.initial_state : zero_state(batch, where);
  call.check_state("h", start.h, plan_.units, x, batch);
  const auto pass = [&](const Tensor& input, const Directions& before, const RecurrentLayer& layer,
                        SequenceOptions sequence) {
    const auto run = [&](const States& states, const RecurrentDirection& d) {
      return rnn(input, states.h, {d.wx, d.wh, d.b}, activation_, sequence, where);
    };
    RnnResult one = run(before[0], layer.forward);
    if (plan_.directions == 1) return LayerPassed{std::move(one.outputs), {States{std::move(one.last), {}}, {}}};
    sequence.reverse = true;
    RnnResult back = run(before[1], layer.backward);
    return LayerPassed{concat({one.outputs, back.outputs}, -1, where),
                       {States{std::move(one.last), {}}, States{std::move(back.last), {}}}};
  };
  Passed passed = call.run(x, options, {start.h, Tensor()}, pass);
  return {std::move(passed.outputs), {std::move(passed.last.h)}};
}

// --- Gru ---

Gru::Gru(const GruOptions& options, Rng& rng, Where where)
    : layers(layers_of("Gru", options, rng, where)), plan_(plan_of(options)), reset_after_(options.reset_after) {}

Gru::State Gru::zero_state(std::int64_t batch, Where where) const {
  return {Call{"Gru", plan_, layers, where}.zeros_of(batch, plan_.units)};
}

Gru::Result Gru::operator()(const Tensor& x, const RecurrentOptions<State>& options, Where where) const {
  const Call call{"Gru", plan_, layers, where};
  const std::int64_t batch = call.batch_of(x, options.lengths, options.time_major);
  const State start = options.initial_state ? *options.initial_state : zero_state(batch, where);
  call.check_state("h", start.h, plan_.units, x, batch);
  const auto weights = [](const RecurrentDirection& d) { return GruWeights{d.wx, d.wh, d.b, d.bn}; };
  const auto pass = [&](const Tensor& input, const Directions& before, const RecurrentLayer& layer,
                        const SequenceOptions& sequence) -> LayerPassed {
    const GruWeights forward = weights(layer.forward);
    if (plan_.directions == 1) {
      RnnResult one = gru(input, before[0].h, forward, reset_after_, sequence, where);
      return {std::move(one.outputs), {States{std::move(one.last), {}}, {}}};
    }
    auto [outputs, last, back] = capstan::detail::gru_both(input, before[0].h, forward, before[1].h,
                                                           weights(layer.backward), reset_after_, sequence, where);
    return {std::move(outputs), {States{std::move(last), {}}, States{std::move(back), {}}}};
  };
  Passed passed = call.run(x, options, {start.h, Tensor()}, pass);
  return {std::move(passed.outputs), {std::move(passed.last.h)}};
}

// --- Lstm ---

Lstm::Lstm(const LstmOptions& options, Rng& rng, Where where)
    : layers(layers_of("Lstm", options, rng, where)), plan_(plan_of(options)) {}

Lstm::State Lstm::zero_state(std::int64_t batch, Where where) const {
  const Call call{"Lstm", plan_, layers, where};
  return {call.zeros_of(batch, plan_.units), call.zeros_of(batch, plan_.hidden)};
}

Lstm::Result Lstm::operator()(const Tensor& x, const RecurrentOptions<State>& options, Where where) const {
  const Call call{"Lstm", plan_, layers, where};
  const std::int64_t batch = call.batch_of(x, options.lengths, options.time_major);
  const State start = options.initial_state ? *options.initial_state : zero_state(batch, where);
  call.check_state("h", start.h, plan_.units, x, batch);
  call.check_state("c", start.c, plan_.hidden, x, batch);
  const auto weights = [](const RecurrentDirection& d) { return LstmWeights{d.wx, d.wh, d.b, d.projection}; };
  const auto pass = [&](const Tensor& input, const Directions& before, const RecurrentLayer& layer,
                        const SequenceOptions& sequence) -> LayerPassed {
    const LstmWeights forward = weights(layer.forward);
    if (plan_.directions == 1) {
      LstmResult one = lstm(input, before[0].h, before[0].c, forward, sequence, where);
      return {std::move(one.outputs), {States{std::move(one.last.h), std::move(one.last.c)}, {}}};
    }
    auto [outputs, last, back] =
        capstan::detail::lstm_both(input, {before[0].h, before[0].c}, forward, {before[1].h, before[1].c},
                                   weights(layer.backward), sequence, where);
    return {std::move(outputs),
            {States{std::move(last.h), std::move(last.c)}, States{std::move(back.h), std::move(back.c)}}};
  };
  Passed passed = call.run(x, options, {start.h, start.c}, pass);
  return {std::move(passed.outputs), {std::move(passed.last.h), std::move(passed.last.c)}};
}

}  // namespace capstan::nn
