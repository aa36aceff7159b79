// Recurrent layers against loops over the operations of single steps; lengths, states, threads.
#include <functional>

#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Tensors = std::vector<Tensor>;

/// A step of one direction: h and, of an LSTM, c before it, and after it.
using Step = std::function<Tensors(const nn::RecurrentDirection& w, const Tensor& x, const Tensors& state)>;

// --- layers as loops --------------------------------------------------------------------------------------------

/// All outputs of a direction; `state` becomes the last one.
Tensor one_direction(const nn::RecurrentDirection& w, const Tensor& x, Tensors& state, const Tensor& lengths,
                     bool reverse, const Step& step) {
  const std::int64_t time = x.size(1);
  Tensors outputs(static_cast<std::size_t>(time));
  for (std::int64_t i = 0; i < time; ++i) {
    const std::int64_t t = reverse ? time - 1 - i : i;
    Tensor& output = outputs[static_cast<std::size_t>(t)];
    const Tensor input = x.index({all, t});
    if (!lengths.defined()) {
      state = step(w, input, state);
      output = state[0];
      continue;
    }
    const Tensor runs = expand_dims(greater(lengths, t), -1);  // [batch, 1]
    const Tensors after = step(w, where(runs, input, 0), state);
    output = where(runs, after[0], 0);
    for (std::size_t k = 0; k < state.size(); ++k) state[k] = where(runs, after[k], state[k]);
  }
  return stack(outputs, 1);
}

/// Outputs, last h, last c. x [batch, time, inputs].
Tensors by_steps(const std::vector<nn::RecurrentLayer>& layers, bool bidirectional, const Tensor& x,
                 const Tensors& start, const Tensor& lengths, const Step& step) {
  Tensor sequence = x;
  std::vector<Tensors> last(start.size());
  for (const nn::RecurrentLayer& layer : layers) {
    Tensors both;
    for (const bool reverse : {false, true}) {
      if (reverse && !bidirectional) continue;
      Tensors state;
      for (const Tensor& all_of_them : start) state.push_back(all_of_them[static_cast<std::int64_t>(last[0].size())]);
      both.push_back(one_direction(reverse ? layer.backward : layer.forward, sequence, state, lengths, reverse, step));
      for (std::size_t k = 0; k < state.size(); ++k) last[k].push_back(state[k]);
    }
    sequence = concat(both, -1);
  }
  Tensors results = {sequence};
  for (const Tensors& list : last) results.push_back(stack(list));
  return results;
}

Step rnn_step(Activation activation) {
  return [activation](const nn::RecurrentDirection& w, const Tensor& x, const Tensors& state) -> Tensors {
    return {rnn_cell(x, state[0], {w.wx, w.wh, w.b}, activation)};
  };
}
Step gru_step(bool reset_after) {
  return [reset_after](const nn::RecurrentDirection& w, const Tensor& x, const Tensors& state) -> Tensors {
    return {gru_cell(x, state[0], {w.wx, w.wh, w.b, w.bn}, reset_after)};
  };
}
Step lstm_step() {
  return [](const nn::RecurrentDirection& w, const Tensor& x, const Tensors& state) -> Tensors {
    const LstmState after = lstm_cell(x, state[0], state[1], {w.wx, w.wh, w.b, w.projection});
    return {after.h, after.c};
  };
}

// --- sequences ---------------------------------------------------------------------------------------------------

Tensor random(const Shape& shape, std::uint64_t seed_of, DType dtype = DType::float64) {
  return random_in(-1, 1, shape, dtype, seed_of);
}

/// One row with all steps, one with none, others between.
Tensor lengths_for(std::int64_t batch, std::int64_t time) {
  std::vector<std::int64_t> list;
  for (std::int64_t row = 0; row < batch; ++row)
    list.push_back(row == 0 ? time : row == 1 ? 0 : (7 * row + 3) % (time + 1));
  return from_vector(list);
}

/// With NaN or infinity where no step is. x [batch, time, inputs].
Tensor poisoned(const Tensor& x, const Tensor& lengths) {
  std::vector<double> poison;
  for (std::int64_t row = 0; row < x.size(0); ++row) poison.push_back(row % 2 == 0 ? kNaN : kInfinity);
  const Tensor valid = expand_dims(sequence_mask(lengths, x.size(1)), -1);
  return where(valid, x, from_doubles(poison, {x.size(0), 1, 1}, x.dtype()));
}

template <class State>
Tensors tensors_of(const State& state) {
  if constexpr (requires { state.c; }) return {state.h, state.c};
  else return {state.h};
}
template <class State>
State state_of(const Tensors& tensors) {
  State state;
  state.h = tensors[0];
  if constexpr (requires { state.c; }) state.c = tensors[1];
  return state;
}

struct Extents {
  std::int64_t inputs, hidden, batch, time, layers;
  bool bidirectional;
  std::int64_t projection;  // of an LSTM
  bool lengths, time_major;
};

const Extents many_sizes[] = {{3, 1, 1, 1, 1, false, 0, false, false},     {1, 3, 2, 2, 2, true, 2, true, false},
                              {5, 16, 5, 17, 1, true, 0, true, true},      {7, 33, 31, 17, 2, false, 12, true, false},
                              {4, 64, 64, 2, 2, true, 0, false, true},     {16, 200, 5, 17, 1, false, 0, true, false},
                              {200, 200, 2, 2, 1, true, 50, false, false}, {2, 3, 64, 17, 3, true, 1, true, false},
                              {33, 16, 31, 1, 2, false, 8, true, true},    {64, 64, 1, 17, 1, false, 0, false, false},
                              {30, 50, 64, 5, 3, false, 0, false, false}};

std::string text_of(const Extents& s, DType dtype) {
  return std::to_string(s.inputs) + " inputs, " + std::to_string(s.hidden) + " hidden, batch " +
         std::to_string(s.batch) + ", time " + std::to_string(s.time) + ", " + std::to_string(s.layers) + " layers" +
         (s.bidirectional ? ", both directions" : "") + (s.lengths ? ", lengths" : "") +
         (s.time_major ? ", time major" : "") + ", projection " + std::to_string(s.projection) + " in " + name(dtype);
}

/// All of them, with different weights.
Tensor weighted_sum(const Tensors& tensors) {
  Tensor total;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor part = sum(tensors[i] * random(tensors[i].shape(), 50 + i, tensors[i].dtype()));
    total = i == 0 ? part : total + part;
  }
  return total;
}

/// Values and gradients of a layer and of the loop are equal to rounding.
template <class Layer>
void compare(Layer& layer, const Extents& s, DType dtype, const Step& step) {
  const Tensor lengths = s.lengths ? lengths_for(s.batch, s.time) : Tensor();
  Tensor x = random({s.batch, s.time, s.inputs}, 1, dtype);
  if (s.lengths) x = poisoned(x, lengths);
  Tensors start;
  for (const Tensor& zero : tensors_of(layer.zero_state(s.batch)))
    start.push_back(random(zero.shape(), 2 + start.size(), dtype));
  GradientTape tape{{.persistent = true}};
  tape.watch(x);
  for (const Tensor& tensor : start) tape.watch(tensor);

  const auto result =
      layer(s.time_major ? transpose(x, 0, 1) : x,
            {.lengths = lengths, .initial_state = state_of<typename Layer::State>(start), .time_major = s.time_major});
  Tensors fused = {s.time_major ? transpose(result.outputs, 0, 1) : result.outputs};
  for (const Tensor& last : tensors_of(result.state)) fused.push_back(last);
  const Tensors stepped = by_steps(layer.layers, s.bidirectional, x, start, lengths, step);
  const double allowed = dtype == DType::float64 ? tolerance::sequence64 : tolerance::sequence32;
  REQUIRE(fused.size() == stepped.size());
  for (std::size_t i = 0; i < fused.size(); ++i) {
    INFO("result " << i);
    CHECK(close(fused[i], stepped[i], allowed));
  }

  Tensors sources = start;
  sources.push_back(x);
  for (const Tensor& parameter : nn::parameters(layer)) sources.push_back(parameter);
  const Tensor fused_sum = weighted_sum(fused), stepped_sum = weighted_sum(stepped);
  const Tensors one = tape.gradient(fused_sum, sources, {.unconnected = Unconnected::zeros});
  const Tensors other = tape.gradient(stepped_sum, sources, {.unconnected = Unconnected::zeros});
  for (std::size_t i = 0; i < sources.size(); ++i) {
    INFO("gradient " << i);
    CHECK(close(one[i], other[i], allowed));
  }
}

template <class Make>
void compare_all(Make make, const Step& step) {
  for (const DType dtype : {DType::float64, DType::float32})
    for (const Extents& s : many_sizes) {
      INFO(text_of(s, dtype));
      Rng rng(5);
      auto layer = make(s, dtype, rng);
      compare(layer, s, dtype, step);
    }
}

const nn::Initializer noise = nn::init::uniform(-1, 1);

}  // namespace

// --- against steps ------------------------------------------------------------------------------------------------

TEST_CASE("an Rnn gives what its steps give, gradients included", "[nn][recurrent]") {
  for (const Activation activation : {Activation::tanh, Activation::relu})
    compare_all(
        [activation](const Extents& s, DType dtype, Rng& rng) {
          return nn::Rnn({.inputs = s.inputs,
                          .hidden = s.hidden,
                          .layers = s.layers,
                          .bidirectional = s.bidirectional,
                          .activation = activation,
                          .bias_init = noise,
                          .dtype = dtype},
                         rng);
        },
        rnn_step(activation));
}

TEST_CASE("a Gru gives what its steps give, gradients included", "[nn][recurrent]") {
  for (const bool reset_after : {true, false})
    compare_all(
        [reset_after](const Extents& s, DType dtype, Rng& rng) {
          return nn::Gru({.inputs = s.inputs,
                          .hidden = s.hidden,
                          .layers = s.layers,
                          .bidirectional = s.bidirectional,
                          .reset_after = reset_after,
                          .bias_init = noise,
                          .dtype = dtype},
                         rng);
        },
        gru_step(reset_after));
}

TEST_CASE("an Lstm gives what its steps give, gradients included", "[nn][recurrent]") {
  for (const bool biased : {true, false})
    compare_all(
        [biased](const Extents& s, DType dtype, Rng& rng) {
          return nn::Lstm({.inputs = s.inputs,
                           .hidden = s.hidden,
                           .layers = s.layers,
                           .bidirectional = s.bidirectional,
                           .projection = s.projection,
                           .use_bias = biased,
                           .bias_init = noise,
                           .dtype = dtype},
                          rng);
        },
        lstm_step());
}

// --- lengths and states -------------------------------------------------------------------------------------------

TEST_CASE("with lengths each row is as if it were alone", "[nn][recurrent]") {
  Rng rng(6);
  const nn::Lstm layer({.inputs = 3, .hidden = 4, .layers = 2, .bidirectional = true, .dtype = DType::float64}, rng);
  const Tensor lengths = {4, 1, 5, 0};  // int32
  const Tensor x = poisoned(random({4, 5, 3}, 11), lengths), h = random({4, 4, 4}, 12), c = random({4, 4, 4}, 13);
  const auto [outputs, state] = layer(x, {.lengths = lengths, .initial_state = nn::Lstm::State{h, c}});
  CHECK(outputs.shape() == Shape{4, 5, 8});
  for (std::int64_t row = 0; row < 4; ++row) {
    const std::int64_t length = lengths.at<int>(row);
    INFO("row " << row << " of length " << length);
    CHECK(same(outputs[row].index({from(length)}), zeros({5 - length, 8}, {.dtype = DType::float64})));
    const nn::Lstm::State own{h.index({all, range(row, row + 1)}), c.index({all, range(row, row + 1)})};
    nn::Lstm::State expected = own;
    if (length > 0) {
      const auto alone = layer(x.index({range(row, row + 1), until(length)}), {.initial_state = own});
      CHECK(close(outputs[row].index({until(length)}), alone.outputs[0], tolerance::sequence64));
      expected = alone.state;
    }
    CHECK(close(state.h.index({all, range(row, row + 1)}), expected.h, tolerance::sequence64));
    CHECK(close(state.c.index({all, range(row, row + 1)}), expected.c, tolerance::sequence64));
  }
}

TEST_CASE("steps behind a row's end get a gradient of zero, and pass none on", "[nn][recurrent]") {
  Rng rng(6);
  nn::Gru layer({.inputs = 2, .hidden = 3, .layers = 2, .bidirectional = true, .dtype = DType::float64}, rng);
  const Tensor lengths = {3, 0, 1}, clean = random({3, 3, 2}, 14), dirty = poisoned(clean, lengths);
  const auto gradients = [&](const Tensor& x) {
    GradientTape tape;
    tape.watch(x);
    const nn::Gru::Result result = layer(x, {.lengths = lengths});
    Tensors sources = nn::parameters(layer);
    sources.push_back(x);
    return tape.gradient(weighted_sum({result.outputs, result.state.h}), sources);
  };
  const Tensors expected = gradients(clean), actual = gradients(dirty);
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(same(actual[i], expected[i]));
  const Tensor valid = expand_dims(sequence_mask(lengths, 3), -1);
  CHECK(same(where(valid, 0, actual.back()), zeros({3, 3, 2}, {.dtype = DType::float64})));
}

TEST_CASE("without rows, or steps in any of them, results and gradients are zero", "[nn][recurrent]") {
  Rng rng(14);
  const auto check = [](auto layer) {
    const Tensor nobody = zeros({0, 3, 2}, {.dtype = DType::float64});
    const std::pair<Tensor, Tensor> inputs[] = {{nobody, Tensor()},
                                                {nobody, zeros({0}, {.dtype = DType::int32})},
                                                {full_like(random({2, 3, 2}, 1), kNaN), Tensor{0, 0}}};
    for (const auto& [x, lengths] : inputs) {
      INFO("batch " << x.size(0) << (lengths.defined() ? ", lengths" : ""));
      const PoisonedBuffers fresh(kNaN);
      GradientTape tape;
      tape.watch(x);
      const auto result = layer(x, {.lengths = lengths});
      Tensors found = tensors_of(result.state);
      found.push_back(result.outputs);
      Tensors sources = nn::parameters(layer);
      sources.push_back(x);
      const Tensors gradients = tape.gradient(weighted_sum(found), sources, {.unconnected = Unconnected::zeros});
      found.insert(found.end(), gradients.begin(), gradients.end());
      for (const Tensor& tensor : found) CHECK(same(tensor, zeros_like(tensor)));
    }
  };
  check(nn::Rnn({.inputs = 2, .hidden = 3, .layers = 2, .dtype = DType::float64}, rng));
  check(nn::Gru({.inputs = 2, .hidden = 3, .bidirectional = true, .dtype = DType::float64}, rng));
  check(nn::Gru({.inputs = 2, .hidden = 3, .reset_after = false, .dtype = DType::float64}, rng));
  check(nn::Lstm({.inputs = 2, .hidden = 3, .bidirectional = true, .projection = 2, .dtype = DType::float64}, rng));
}

TEST_CASE("inputs, states and lengths may have any strides", "[nn][recurrent]") {
  Rng rng(15);
  const nn::Gru layer({.inputs = 2, .hidden = 4, .layers = 2, .dtype = DType::float64}, rng);
  const Tensor x = random({3, 5, 2}, 22), h = broadcast_to(random({1, 1, 4}, 23), {2, 3, 4});
  for (const Tensor& lengths : {Tensor(), Tensor{5, 2, 0}}) {
    const auto expected = layer(x, {.lengths = lengths, .initial_state = nn::Gru::State{h.copy()}});
    const auto actual = layer(
        strided(x), {.lengths = lengths.defined() ? strided(lengths) : lengths, .initial_state = nn::Gru::State{h}});
    CHECK(close(actual.outputs, expected.outputs, tolerance::sequence64));
    CHECK(close(actual.state.h, expected.state.h, tolerance::sequence64));
  }
}

TEST_CASE("a state starts at zero, and has PyTorch's order", "[nn][recurrent]") {
  Rng rng(7);
  const nn::Lstm layer({.inputs = 3, .hidden = 5, .layers = 2, .bidirectional = true, .projection = 2}, rng);
  const nn::Lstm::State zero = layer.zero_state(6);
  CHECK(same(zero.h, zeros({4, 6, 2})));
  CHECK(same(zero.c, zeros({4, 6, 5})));
  const Tensor x = random({6, 4, 3}, 15, DType::float32);
  const nn::Lstm::Result absent = layer(x), given = layer(x, {.initial_state = zero});
  CHECK(same(absent.outputs, given.outputs));
  CHECK(same(absent.state.h, given.state.h));
  CHECK(absent.outputs.shape() == Shape{6, 4, 4});
  CHECK(same(absent.state.h[2], absent.outputs.index({all, 3, until(2)})));  // layer 1 forward: its last step
  CHECK(same(absent.state.h[3], absent.outputs.index({all, 0, from(2)})));   // layer 1 backward: its first
  // what layer 0 ends with, by a layer of its own
  nn::Lstm first({.inputs = 3, .hidden = 5, .bidirectional = true, .projection = 2}, rng);
  first.layers[0] = layer.layers[0];
  CHECK(same(first(x).state.h, absent.state.h.index({until(2)})));
  CHECK(same(first(x).state.c, absent.state.c.index({until(2)})));
}

TEST_CASE("sequences cut in two with the state carried over are one long run", "[nn][recurrent]") {
  Rng rng(8);
  const Tensor x = random({3, 6, 2}, 16), ahead = x.index({all, until(2)}), rest = x.index({all, from(2)});
  const auto check = [&](const auto& layer) {
    const auto whole = layer(x);
    const auto first = layer(ahead);
    const auto second = layer(rest, {.initial_state = first.state});
    CHECK(close(concat({first.outputs, second.outputs}, 1), whole.outputs, tolerance::sequence64));
    const Tensors expected = tensors_of(whole.state), actual = tensors_of(second.state);
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(close(actual[i], expected[i], tolerance::sequence64));
  };
  check(nn::Rnn({.inputs = 2, .hidden = 4, .layers = 2, .dtype = DType::float64}, rng));
  check(nn::Gru({.inputs = 2, .hidden = 4, .layers = 2, .dtype = DType::float64}, rng));
  check(nn::Lstm({.inputs = 2, .hidden = 4, .layers = 2, .projection = 3, .dtype = DType::float64}, rng));
}

TEST_CASE("a carried state passes gradients back, and one behind stop_gradient none", "[nn][recurrent]") {
  Rng rng(9);
  const nn::Lstm layer({.inputs = 2, .hidden = 3, .layers = 2}, rng);
  const Tensor ahead = random({2, 3, 2}, 17, DType::float32), rest = random({2, 3, 2}, 18, DType::float32);
  for (const bool cut : {false, true}) {
    GradientTape tape;
    tape.watch({ahead, rest});
    const nn::Lstm::State carried = layer(ahead).state;
    const nn::Lstm::Result result = layer(rest, {.initial_state = cut ? stop_gradient(carried) : carried});
    const auto [d_ahead, d_rest] = tape.gradient(sum(result.outputs), ahead, rest);
    CHECK(d_ahead.defined() == !cut);
    CHECK(d_rest.defined());
  }
}

// --- threads ------------------------------------------------------------------------------------------------------

TEST_CASE("recurrent layers do not depend on the number of threads", "[nn][recurrent][threads]") {
  const auto check = [](auto layer, const Tensor& x, const Tensor& lengths) {
    const auto bits_with = [&](int count) {
      const ThreadCount threads_for_now(count);
      seed(13);  // of the dropout
      GradientTape tape;
      tape.watch(x);
      const auto result = layer(x, {.lengths = lengths});
      Tensors sources = nn::parameters(layer);
      sources.push_back(x);
      Tensors results = tensors_of(result.state);
      results.push_back(result.outputs);
      for (const Tensor& gradient : tape.gradient(weighted_sum(results), sources)) results.push_back(gradient);
      std::vector<std::vector<double>> bits;
      for (const Tensor& tensor : results) bits.push_back(values(tensor));
      return bits;
    };
    const auto one = bits_with(1);
    for (const int count : {2, 3, 4}) {
      INFO(count << " threads");
      const auto several = bits_with(count);
      REQUIRE(several.size() == one.size());
      for (std::size_t i = 0; i < one.size(); ++i) CHECK(same_bits(several[i], one[i]));
    }
  };
  for (const std::int64_t batch : {1, 7, 129}) {
    INFO("batch " << batch);
    const Tensor x = random({batch, 11, 9}, 20, DType::float32), lengths = lengths_for(batch, 11);
    for (const Tensor& valid : {Tensor(), lengths}) {
      check(nn::Rnn({.inputs = 9, .hidden = 24, .layers = 2, .dropout = 0.3}), x, valid);
      check(nn::Gru({.inputs = 9, .hidden = 40, .bidirectional = true}), x, valid);
      check(nn::Lstm({.inputs = 9, .hidden = 70, .projection = 33}), x, valid);
    }
  }
}
