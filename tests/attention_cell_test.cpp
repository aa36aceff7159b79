// Cells that attend: steps, unrolling, lengths, beams, attentions of one's own.
#include "tests/random_models.hpp"

using namespace capstan;
using namespace tests;

namespace {

nn::BahdanauAttention additive(std::int64_t heads = 1, bool normed = false) {
  return randomized(
      nn::BahdanauAttention{{.query = 3, .memory = 4, .units = 5, .heads = heads, .normed = normed, .dtype = f64}});
}
nn::LuongAttention multiplicative(std::int64_t heads = 1, bool scaled = false) {
  return randomized(nn::LuongAttention{{.query = 3, .memory = 4, .heads = heads, .scaled = scaled, .dtype = f64}});
}

/// Calls `check` with an attention of every kind, for queries of 3 and a memory of 4 features.
template <class Check>
void for_all_kinds(Check check) {
  for (const std::int64_t heads : {1, 2})
    for (const bool trained : {false, true}) {
      INFO(heads << " heads" << (trained ? ", normed or scaled" : ""));
      check(additive(heads, trained));
      check(multiplicative(heads, trained));
    }
}

/// A cell of a user's own: h' = tanh([x, h] @ w).
struct SmallCell {
  struct State {
    Tensor h;
  };
  Parameter w;

  std::pair<Tensor, State> operator()(const Tensor& x, const State& before) {
    const Tensor h = tanh(matmul(concat({x, before.h}, -1), w));
    return {h, State{h}};
  }
  State zero_state(std::int64_t batch) const { return {zeros({batch, w.size(1)}, {.dtype = f64})}; }
};

/// Three hidden units, as the attentions above ask for.
SmallCell small_cell(std::int64_t inputs) { return {Parameter(random({inputs + 3, 3}, 911))}; }

/// The mean of all places, whatever is asked.
struct MeanAttention {
  std::int64_t features = 4;
  std::int64_t query_features() const { return 3; }
  std::int64_t context_features() const { return features; }
  nn::AttentionMemory prepare(const Tensor& memory, const Tensor&, Where) const { return {.values = memory}; }
  AttentionResult operator()(const Tensor& query, const nn::AttentionMemory& memory, Where where) const {
    const std::int64_t rows = query.size(0), places = memory.values.size(1);
    const Tensor weights = full({rows, 1, places}, 1.0 / static_cast<double>(places), {f64}, where);
    return {mean(memory.values, 1, {}, where), weights};
  }
};

}  // namespace

TEST_CASE("a cell that attends names its parameters by its parts", "[nn][attention_cell]") {
  nn::AttentionCell with(small_cell(2 + 6), additive(), {.attention_size = 6, .bias = true, .dtype = f64});
  CHECK(names_of(with) == std::vector<std::string>{"cell.w", "attention.query_weight", "attention.memory_weight",
                                                   "attention.v", "layer.weight", "layer.bias"});
  CHECK(with.layer.weight.shape() == Shape{3 + 4, 6});
  nn::AttentionCell without(small_cell(2 + 8), multiplicative(2));
  CHECK(names_of(without) == std::vector<std::string>{"cell.w", "attention.weight"});
}

TEST_CASE("a step feeds the last attention, and reads the memory with the cell's output", "[nn][attention_cell]") {
  const Tensor memory = random({2, 5, 4}, 31), lengths = {5, 3}, x = random({2, 3, 2}, 32);
  const nn::AttentionCellOptions variants[] = {
      {.attention_size = 6, .dtype = f64},
      {.attention_size = 6, .activation = Activation::tanh, .dtype = f64},
      {.attention_size = 6, .activation = Activation::relu, .bias = true, .output_attention = false, .dtype = f64},
      {.attention_size = 6, .input_feeding = false, .dtype = f64},
      {},
      {.input_feeding = false, .output_attention = false}};
  for_all_kinds([&](const auto& attention) {
    for (const nn::AttentionCellOptions& options : variants) {
      const std::int64_t size = options.attention_size > 0 ? options.attention_size : attention.context_features();
      SmallCell plain = small_cell(options.input_feeding ? 2 + size : 2);
      nn::AttentionCell cell = randomized(nn::AttentionCell(plain, attention, options));
      plain.w.assign(cell.cell.w);
      cell.attend(memory, lengths);
      const nn::AttentionMemory prepared = cell.attention.prepare(memory, lengths);
      Tensor h = zeros({2, 3}, {.dtype = f64}), attended = zeros({2, size}, {.dtype = f64});
      auto state = cell.zero_state(2);
      for (std::int64_t t = 0; t < 3; ++t) {
        const Tensor now = x.index({all, t});
        h = plain(options.input_feeding ? concat({now, attended}, 1) : now, {h}).first;
        const AttentionResult read = cell.attention(h, prepared);
        attended = read.output;
        if (cell.layer.weight.defined()) attended = matmul(concat({h, read.output}, 1), cell.layer.weight);
        if (cell.layer.bias.defined()) attended = attended + cell.layer.bias;
        if (options.activation) attended = *options.activation == Activation::tanh ? tanh(attended) : relu(attended);
        auto [output, after] = cell(now, state);
        CHECK(close(output, options.output_attention ? attended : h, tolerance::product64));
        CHECK(close(after.cell.h, h, tolerance::product64));
        CHECK(close(after.attention, attended, tolerance::product64));
        CHECK(close(after.alignments, mean(read.weights, 1), tolerance::product64));
        state = after;
      }
    }
  });
}

TEST_CASE("fed its context and asking by its state, a cell that attends is the attention decoder",
          "[nn][attention_cell]") {
  // TensorFlow's attention_decoder by its own operations: two heads, an LSTM of 3 units behind a layer of 2
  nn::AttentionCell cell = randomized(nn::AttentionCell(
      nn::InputProjectionCell<nn::LstmCell>(nn::LstmCell(2, 3, {.dtype = f64}), {.inputs = 2 + 8, .dtype = f64}),
      nn::BahdanauAttention{{.query = 6, .memory = 4, .units = 4, .heads = 2, .bias = true, .dtype = f64}},
      {.attention_size = 5, .bias = true, .feed_context = true, .query_state = true, .dtype = f64}));
  CHECK(cell.inputs() == 2);
  CHECK(cell.outputs() == 5);
  const Tensor memory = random({2, 5, 4}, 48), x = random({2, 3, 2}, 49);
  cell.attend(memory);
  const nn::LstmCell lstm = cell.cell.cell;
  const nn::Linear projection = cell.cell.projection;
  const nn::BahdanauAttention a = cell.attention;
  nn::LstmCell::State state = lstm.zero_state(2);
  Tensor contexts = zeros({2, 8}, {.dtype = f64});
  auto own = cell.zero_state(2);
  CHECK(own.attention.shape() == contexts.shape());
  for (std::int64_t t = 0; t < 3; ++t) {
    const Tensor now = x.index({all, t});
    auto [h, after] = lstm(projection(concat({now, contexts}, 1)), state);
    const Tensor query = concat({after.h, after.c}, 1);
    std::vector<Tensor> reads, weights;
    for (const std::int64_t head : {0, 1}) {
      const Tensor hidden = matmul(memory, narrow(a.memory_weight, 1, 4 * head, 4));
      const Tensor y = matmul(query, narrow(a.query_weight, 1, 4 * head, 4)) + a.b[head];
      weights.push_back(softmax(sum(a.v[head] * tanh(hidden + expand_dims(y, 1)), -1), -1));
      reads.push_back(sum(expand_dims(weights.back(), -1) * memory, 1));
    }
    contexts = concat(reads, 1);
    const Tensor output = linear(concat({h, contexts}, 1), cell.layer.weight, cell.layer.bias);
    auto [actual, next] = cell(now, own);
    CHECK(close(actual, output, tolerance::product64));
    CHECK(close(next.attention, contexts, tolerance::product64));
    CHECK(close(next.alignments, (weights[0] + weights[1]) / 2, tolerance::product64));
    state = after;
    own = next;
  }
  // initial_state_attention
  own = cell.zero_state(2);
  own.attention = cell.attention(concat({own.cell.h, own.cell.c}, 1), cell.memory()).output;
  CHECK(cell(x.index({all, 0}), own).first.shape() == Shape{2, 5});
}

TEST_CASE("the masks of a variational dropout are no part of a query by the state", "[nn][attention_cell]") {
  nn::AttentionCell cell = randomized(nn::AttentionCell(
      nn::DropoutCell<nn::LstmCell>(nn::LstmCell(2 + 4, 3, {.dtype = f64}), {.state_keep = 0.5, .variational = true}),
      nn::BahdanauAttention{{.query = 6, .memory = 4, .units = 5, .dtype = f64}}, {.query_state = true}));
  cell.attend(random({2, 5, 4}, 50));
  const auto [output, after] = cell(random({2, 2}, 51), cell.zero_state(2));
  CHECK(after.cell.masks.state.size() == 1u);
  const Tensor query = concat({after.cell.cell.h, after.cell.cell.c}, 1);
  CHECK(close(output, cell.attention(query, cell.memory()).output, tolerance::product64));
}

TEST_CASE("a cell that attends is unrolled as any other, with lengths of its own and of the memory",
          "[nn][attention_cell]") {
  const Tensor steps = {4, 2, 0}, lengths = {5, 1, 3}, given = random({3, 4, 2}, 33), stored = random({3, 5, 4}, 34);
  const Tensor running = expand_dims(sequence_mask(steps, 4), 2), places = expand_dims(sequence_mask(lengths, 5), 2);
  nn::AttentionCell cell(small_cell(2 + 6), additive(2), {.attention_size = 6, .dtype = f64});
  const auto run = [&](const Tensor& x, const Tensor& memory) {
    GradientTape tape;
    tape.watch({x, memory});
    cell.attend(memory, lengths);
    const auto [outputs, state] = nn::unroll(cell, x, {.lengths = steps});
    std::vector<Tensor> sources = {x, memory};
    for (const Tensor& p : nn::parameters(cell)) sources.push_back(p);
    std::vector<Tensor> found =
        tape.gradient(sum(square(outputs)) + sum(square(state.alignments)) + sum(state.cell.h), sources);
    for (const Tensor& t : {outputs, state.cell.h, state.attention, state.alignments}) found.push_back(t);
    return found;
  };
  const std::vector<Tensor> clean = run(where(running, given, 0), where(places, stored, 0));
  const std::vector<Tensor> poisoned = run(where(running, given, kNaN), where(places, stored, kNaN));
  for (std::size_t i = 0; i < clean.size(); ++i) {
    INFO("value " << i);
    CHECK(all_of(isfinite(poisoned[i])).item<bool>());
    CHECK(same(poisoned[i], clean[i]));
  }
  const Tensor outputs = clean[clean.size() - 4], alignments = clean.back();
  CHECK(same(outputs[1].index({from(2)}), zeros({2, 6}, {.dtype = f64})));
  CHECK(close(sum(alignments, 1), {1.0, 1.0, 0.0}, tolerance::roundings64));  // the last row made no step
}

TEST_CASE("a row of a batch attends as if it were alone", "[nn][attention_cell]") {
  const Tensor lengths = {5, 2}, x = random({2, 3, 2}, 35), memory = random({2, 5, 4}, 36);
  nn::AttentionCell cell(small_cell(2 + 8), multiplicative(2, true));
  cell.attend(memory, lengths);
  const Tensor together = nn::unroll(cell, x).first;
  for (std::int64_t row = 0; row < 2; ++row) {
    const std::int64_t length = lengths.at<int>(row);
    cell.attend(memory.index({range(row, row + 1), range(0, length)}));
    const Tensor alone = nn::unroll(cell, x.index({range(row, row + 1)})).first;
    CHECK(close(alone[0], together[row], tolerance::product64));
  }
}

TEST_CASE("the state of an encoder begins the cell's, beside zeros", "[nn][attention_cell]") {
  nn::AttentionCell cell(small_cell(2 + 6), additive(), {.attention_size = 6, .dtype = f64});
  const Tensor h = random({2, 3}, 37);
  cell.attend(random({2, 5, 4}, 38));
  const auto given = cell.initial_state({h}), own = cell.zero_state(2);
  CHECK(given.cell.h.is_same(h));
  CHECK(same(own.cell.h, zeros({2, 3}, {.dtype = f64})));
  for (const auto& state : {given, own}) {
    CHECK(same(state.attention, zeros({2, 6}, {.dtype = f64})));
    CHECK(same(state.alignments, zeros({2, 5}, {.dtype = f64})));
  }
}

TEST_CASE("beams of a row read its memory, and may change places", "[nn][attention_cell]") {
  nn::AttentionCell cell(small_cell(2 + 6), additive(2, true), {.attention_size = 6, .dtype = f64});
  const Tensor lengths = {5, 3}, memory = random({2, 5, 4}, 39), h = random({2, 3}, 40);
  cell.attend(memory, lengths);
  const auto start = cell.initial_state({h});
  const Tensor first = random({4, 2}, 41), second = random({4, 2}, 42);
  // two beams of each row; after a step those of row 0 change places, and those of row 1 go on with its last one
  cell.attend(nn::repeated(cell.memory(), 2));
  const Tensor places = {1, 0, 3, 3};
  const auto after = cell(first, nn::repeat_state(start, 2)).second;
  const Tensor beams = cell(second, nn::gather_state(after, places)).first;
  // the same, each beam by itself
  for (std::int64_t beam = 0; beam < 4; ++beam) {
    const std::int64_t row = beam / 2, from_beam = places.at<int>(beam);
    const auto only = [](const Tensor& t, std::int64_t i) { return narrow(t, 0, i, 1); };
    cell.attend(only(memory, row), only(lengths, row));
    const auto one = cell(only(first, from_beam), cell.initial_state({only(h, row)})).second;
    CHECK(close(cell(only(second, beam), one).first[0], beams[beam], tolerance::product64));
  }
}

TEST_CASE("a copy of a cell that attends has parameters of its own and the same memory", "[nn][attention_cell]") {
  nn::AttentionCell cell(small_cell(2 + 4), multiplicative());
  cell.attend(random({2, 5, 4}, 43));
  nn::AttentionCell copy = cell;
  CHECK(copy.memory().keys.is_same(cell.memory().keys));
  const Tensor x = random({2, 2}, 44), before = cell(x, cell.zero_state(2)).first;
  copy.cell.w.fill(0);
  copy.attend(random({1, 3, 4}, 45));
  CHECK(same(cell(x, cell.zero_state(2)).first, before));
}

TEST_CASE("a cell attends by an attention of one's own", "[nn][attention_cell]") {
  nn::AttentionCell cell(small_cell(2), MeanAttention{}, {.input_feeding = false});
  const Tensor memory = random({2, 5, 4}, 46);
  cell.attend(memory);
  const auto [output, state] = cell(random({2, 2}, 47), cell.zero_state(2));
  CHECK(same(output, mean(memory, 1)));
  CHECK(close(state.alignments, full({2, 5}, 0.2, {f64}), tolerance::roundings64));
  CHECK(names_of(cell) == std::vector<std::string>{"cell.w"});
}
