// Cells around cells: what they give against loops by hand, their states, masks, sequences and sizes.
#include "tests/own_cells.hpp"
#include "tests/support.hpp"

#include <cmath>

using namespace capstan;
using namespace tests;

namespace {

Tensor random(const Shape& shape, std::uint64_t seed) { return random_in(-1, 1, shape, DType::float64, seed); }

nn::RnnCell rnn_cell(std::int64_t inputs, std::int64_t hidden, std::uint64_t seed) {
  Rng rng(seed);
  return nn::RnnCell(inputs, hidden, {.bias_init = nn::init::uniform(-1, 1), .dtype = DType::float64}, rng);
}

template <class Model>
std::vector<std::string> names_of(Model& model) {
  std::vector<std::string> names;
  for (const NamedTensor& p : nn::named_parameters(model)) names.push_back(p.name);
  return names;
}

namespace cs = capstan;

/// Program 4 of the design, with its names and sizes.
namespace program {

struct Lm {
  cs::nn::Embedding embed{10000, 200};
  cs::nn::StackedCell<cs::nn::DropoutCell<cs::nn::LstmCell>> cell{
      {{cs::nn::LstmCell(200, 200), {.output_keep = 0.5}}, {cs::nn::LstmCell(200, 200), {.output_keep = 0.5}}}};
  cs::nn::Linear out{200, 10000};
};

struct MyCell {
  struct State {
    cs::Tensor h;
  };
  std::pair<cs::Tensor, State> operator()(const cs::Tensor& x, const State& s) {
    const cs::Tensor h = s.h + x;
    return {h, State{h}};
  }
  State zero_state(std::int64_t batch) const { return {cs::zeros({batch, 200})}; }
};

}  // namespace program

/// The same, smaller, and wrapped in the other ways of writing it.
struct Lm {
  nn::Embedding embed{10, 4};
  nn::StackedCell<nn::DropoutCell<nn::LstmCell>> cell{
      {nn::DropoutCell(nn::LstmCell(4, 4), {.output_keep = 0.5}), {nn::LstmCell(4, 4), {.input_keep = 0.5}}}};
  nn::Linear out{4, 10};
};

/// `unroll`, step by step.
template <class Cell>
auto by_steps(Cell& cell, const Tensor& x, nn::UnrollOptions<typename Cell::State> options) {
  options.on_step = [](std::int64_t, const Tensor&, const typename Cell::State&) {};
  return nn::unroll(cell, x, options);
}

template <class State>
bool close_states(const State& actual, const State& expected) {
  const auto a = nn::detail::state_tensors(actual), e = nn::detail::state_tensors(expected);
  bool all_close_so_far = a.size() == e.size();
  for (std::size_t i = 0; all_close_so_far && i < a.size(); ++i)
    all_close_so_far = close(*a[i], *e[i], tolerance::roundings64);
  return all_close_so_far;
}

Tensor some_lengths() { return {5, 2, 0, 3}; }

/// A sequence at once gives what its steps give, whatever the options. x is [4, 5, ...].
template <class Cell>
void check_sequence(const char* name, Cell cell, const Tensor& x) {
  REQUIRE(cell.has_sequence());
  const typename Cell::State start = cell.zero_state(4);
  for (const Tensor& lengths : {Tensor(), some_lengths()})
    for (const bool reverse : {false, true})
      for (const bool time_major : {false, true}) {
        INFO(name << (lengths.defined() ? ", lengths" : "") << (reverse ? ", reverse" : "")
                  << (time_major ? ", time first" : ""));
        const nn::UnrollOptions<typename Cell::State> options{
            .lengths = lengths, .initial_state = start, .time_major = time_major, .reverse = reverse};
        const Tensor input = time_major ? transpose(x, 0, 1) : x;
        const auto [outputs, last] = nn::unroll(cell, input, options);
        const auto [stepped, end] = by_steps(cell, input, options);
        CHECK(close(outputs, stepped, tolerance::roundings64));
        CHECK(close_states(last, end));
      }
}

/// Outputs of x [4, 5, ...] with lengths, and gradients for x and all parameters.
template <class Cell>
std::vector<Tensor> values_and_gradients(Cell& cell, const Tensor& x, bool stepped) {
  std::vector<Tensor> sources = nn::parameters(cell);
  sources.push_back(x);
  GradientTape tape;
  tape.watch(x);
  const nn::UnrollOptions<typename Cell::State> options{.lengths = some_lengths(), .initial_state = cell.zero_state(4)};
  const auto [outputs, last] = stepped ? by_steps(cell, x, options) : nn::unroll(cell, x, options);
  std::vector<Tensor> found = tape.gradient(square(outputs), sources);
  found.push_back(outputs);
  return found;
}

template <class Cell>
void check_padding(const char* name, Cell cell, const Tensor& x) {
  const Tensor valid = expand_dims(sequence_mask(some_lengths(), 5), -1);
  for (const bool stepped : {false, true}) {
    INFO(name << (stepped ? ", stepped" : ", at once"));
    seed(5);
    const std::vector<Tensor> expected = values_and_gradients(cell, where(valid, x, 0), stepped);
    seed(5);
    const std::vector<Tensor> actual = values_and_gradients(cell, where(valid, x, kNaN), stepped);
    for (std::size_t i = 0; i < actual.size(); ++i) {
      INFO("tensor " << i);
      CHECK(same(actual[i], expected[i]));
      CHECK(all_of(isfinite(actual[i])).item<bool>());
    }
    const Tensor& outputs = actual.back();
    CHECK(same(where(valid, 0, outputs), zeros_like(outputs)));
  }
}

}  // namespace

// --- stacks ----------------------------------------------------------------------------------------------------

TEST_CASE("a stack hands outputs from cell to cell, and its state has theirs", "[nn][cells]") {
  nn::StackedCell<nn::RnnCell> deep{{rnn_cell(3, 4, 1), rnn_cell(4, 2, 2), rnn_cell(2, 5, 3)}};
  const Tensor x = random({3, 3}, 401);
  const nn::StackedCell<nn::RnnCell>::State before{
      {{random({3, 4}, 402)}, {random({3, 2}, 403)}, {random({3, 5}, 404)}}};
  const auto [output, after] = deep(x, before);
  const auto [y0, s0] = deep.cells[0](x, before.cells[0]);
  const auto [y1, s1] = deep.cells[1](y0, before.cells[1]);
  const auto [y2, s2] = deep.cells[2](y1, before.cells[2]);
  CHECK(same(output, y2));
  REQUIRE(after.cells.size() == 3u);
  CHECK(same(after.cells[0].h, s0.h));
  CHECK(same(after.cells[1].h, s1.h));
  CHECK(same(after.cells[2].h, s2.h));
  CHECK(same(deep.zero_state(7).cells[2].h, zeros({7, 5}, {.dtype = DType::float64})));
  CHECK(names_of(deep) == std::vector<std::string>{"cells.0.wx", "cells.0.wh", "cells.0.b", "cells.1.wx", "cells.1.wh",
                                                   "cells.1.b", "cells.2.wx", "cells.2.wh", "cells.2.b"});
}

TEST_CASE("a stack takes cells of several types, one's own among them", "[nn][cells]") {
  nn::StackedCell<nn::RnnCell, OwnCell> mixed{{rnn_cell(3, 2, 1), OwnCell{}}};
  const Tensor x = random({3, 3}, 405);
  nn::StackedCell<nn::RnnCell, OwnCell>::State before = mixed.zero_state(3);
  std::get<1>(before.cells).c = random({3, 2}, 406);
  const auto [output, after] = mixed(x, before);
  const auto [y0, s0] = std::get<0>(mixed.cells)(x, std::get<0>(before.cells));
  const auto [y1, s1] = std::get<1>(mixed.cells)(y0, std::get<1>(before.cells));
  CHECK(same(output, y1));
  CHECK(same(std::get<0>(after.cells).h, s0.h));
  CHECK(same(std::get<1>(after.cells).h, s1.h));
  CHECK(same(std::get<1>(after.cells).c, s1.c));
  CHECK(names_of(mixed) == std::vector<std::string>{"cells.0.wx", "cells.0.wh", "cells.0.b", "cells.1.w"});
  CHECK(nn::detail::state_tensors(after).size() == 3u);
}

TEST_CASE("a language model of wrapped cells runs, carries its state and is named by its fields", "[nn][cells]") {
  Lm lm;
  const std::vector<std::string> names = names_of(lm);
  CHECK(names.at(0) == "embed.weight");
  CHECK(names.at(1) == "cell.cells.0.cell.wx");
  CHECK(names.back() == "out.bias");
  const Tensor words = {{1, 2, 3}, {4, 5, 0}}, lengths = {3, 2};
  const auto [first, state] = nn::unroll(lm.cell, lm.embed(words), {.lengths = lengths});
  const auto carried = stop_gradient(state);
  const auto [second, last] = nn::unroll(lm.cell, lm.embed(words), {.lengths = lengths, .initial_state = carried});
  CHECK(first.shape() == Shape{2, 3, 4});
  CHECK(same(second[1][2], zeros({4})));
  CHECK(last.cells.size() == 2u);
  CHECK(lm.out(second).shape() == Shape{2, 3, 10});
}

TEST_CASE("program 4 of the design runs as it is written", "[nn][cells]") {
  program::Lm lm;
  const Tensor words = {{4, 17, 9}, {8, 2, 0}}, lengths = {3, 2};
  auto carried = lm.cell.zero_state(2);
  for (int window = 0; window < 2; ++window) {
    auto [outputs, state] =
        cs::nn::unroll(lm.cell, lm.embed(words), {.lengths = lengths, .initial_state = carried, .time_major = false});
    carried = cs::stop_gradient(state);
    CHECK(outputs.shape() == Shape{2, 3, 200});
    CHECK(lm.out(outputs).shape() == Shape{2, 3, 10000});
  }
  CHECK(carried.cells[1].cell.c.shape() == Shape{2, 200});

  cs::nn::Lstm fast{{.inputs = 200, .hidden = 200, .layers = 2, .bidirectional = true, .dropout = 0.5}};
  const Tensor x = lm.embed(words);
  auto [h, last] = fast(x, {.lengths = lengths});
  CHECK(h.shape() == Shape{2, 3, 400});
  CHECK(last.c.shape() == Shape{4, 2, 200});

  program::MyCell own;
  CHECK(close(cs::nn::unroll(own, x).second.h, sum(x, 1), tolerance::roundings32));
}

TEST_CASE("set_training reaches cells inside of wrappers", "[nn][cells]") {
  Lm lm;
  CHECK(lm.cell.cells[1].training());
  nn::set_training(lm, false);
  CHECK_FALSE(lm.cell.cells[0].training());
  CHECK_FALSE(lm.cell.cells[1].training());
  nn::ResidualCell<nn::DropoutCell<OwnCell>> around(nn::DropoutCell<OwnCell>(OwnCell{}, {.output_keep = 0.5}));
  nn::set_training(around, false);
  CHECK_FALSE(around.cell.training());
}

TEST_CASE("a copy of a wrapper has parameters of its own", "[nn][cells]") {
  const nn::StackedCell<nn::RnnCell> deep{{rnn_cell(2, 2, 1), rnn_cell(2, 2, 2)}};
  nn::StackedCell<nn::RnnCell> copy = deep;
  const Tensor before = deep.cells[1].wx.copy();
  copy.cells[1].wx.fill(7);
  CHECK(same(deep.cells[1].wx, before));
}

// --- dropout ---------------------------------------------------------------------------------------------------

TEST_CASE("a dropout cell drops from its input, the state it leaves and its output, but not from c", "[nn][cells]") {
  for (const bool memory : {false, true}) {
    INFO("drop_memory " << memory);
    nn::DropoutCell<OwnCell> cell(OwnCell{},
                                  {.input_keep = 0.5, .state_keep = 0.6, .output_keep = 0.7, .drop_memory = memory});
    OwnCell inner;
    const Tensor x = random({40, 2}, 411), h = random({40, 2}, 412), c = random({40, 2}, 413);
    seed(21);
    const auto [output, after] = cell(x, {{h, c}, {}});
    seed(21);
    const Tensor seen = dropout(x, 0.5);
    const auto [y, s] = inner(seen, {h, c});
    CHECK(same(after.cell.h, dropout(s.h, 0.6)));
    CHECK(same(after.cell.c, memory ? dropout(s.c, 0.6) : s.c));
    CHECK(same(output, dropout(y, 0.7)));
    CHECK(nn::detail::state_tensors(after).size() == 2u);  // no masks
  }
}

TEST_CASE("outside of training a dropout cell is the cell itself and draws nothing", "[nn][cells]") {
  for (const bool variational : {false, true}) {
    nn::DropoutCell<nn::RnnCell> cell(rnn_cell(3, 3, 1), {.input_keep = 0.5,
                                                          .state_keep = 0.5,
                                                          .output_keep = 0.5,
                                                          .variational = variational,
                                                          .inputs = 3,
                                                          .outputs = 3});
    CHECK_FALSE(cell.has_sequence());
    nn::set_training(cell, false);
    CHECK(cell.has_sequence());
    const RngState before = default_rng().state();
    const Tensor x = random({2, 4, 3}, 414);
    const auto [outputs, last] = nn::unroll(cell, x);
    const auto [expected, end] = nn::unroll(cell.cell, x);
    CHECK(same(outputs, expected));
    CHECK(same(last.cell.h, end.h));
    const auto [stepped, other] = by_steps(cell, x, {});
    CHECK(close(stepped, expected, tolerance::roundings64));
    CHECK(default_rng().state() == before);
  }
}

TEST_CASE("variational masks hold for all steps, are each row's own and belong to the state", "[nn][cells]") {
  constexpr std::int64_t batch = 50, features = 40;
  nn::DropoutCell<SizedCell> cell(SizedCell{features, features},
                                  {.input_keep = 0.8, .state_keep = 0.5, .output_keep = 0.25, .variational = true});
  seed(31);
  const nn::DropoutCell<SizedCell>::State start = cell.zero_state(batch);
  REQUIRE(start.masks.input.size() == 1u);
  REQUIRE(start.masks.state.size() == 1u);
  REQUIRE(start.masks.output.size() == 1u);
  const std::pair<const Tensor*, double> masks[] = {
      {&start.masks.input[0], 0.8}, {&start.masks.state[0], 0.5}, {&start.masks.output[0], 0.25}};
  for (const auto& [mask, keep] : masks) {
    INFO("keep " << keep);
    CHECK(mask->shape() == Shape{batch, features});
    CHECK(mask->dtype() == DType::float64);
    CHECK(all_of(logical_or(equal(*mask, 0), equal(*mask, 1 / keep))).item<bool>());
    const double kept = number(sum(not_equal(*mask, 0))) / (batch * features);
    CHECK(std::fabs(kept - keep) <=
          tolerance::standard_errors * std::sqrt(keep * (1 - keep) / static_cast<double>(batch * features)));
    CHECK_FALSE(array_equal((*mask)[0], (*mask)[1]));
  }

  nn::DropoutCell<SizedCell>::State state = start;
  for (std::uint64_t t = 0; t < 3; ++t) {
    const Tensor x = random({batch, features}, 415 + t);
    const auto [output, after] = cell(x, state);
    const Tensor seen = x * start.masks.input[0];
    CHECK(same(output, seen * start.masks.output[0]));
    CHECK(same(after.cell.h, seen * start.masks.state[0]));
    CHECK(after.masks.output[0].is_same(start.masks.output[0]));
    state = after;
  }

  const nn::DropoutCell<SizedCell>::State other = cell.redraw(state);
  CHECK(same(other.cell.h, state.cell.h));
  CHECK(other.masks.input[0].shape() == Shape{batch, features});
  CHECK_FALSE(array_equal(other.masks.input[0], state.masks.input[0]));
  const auto turned = nn::gather_state(state, Tensor{1, 0});
  CHECK(same(turned.masks.state[0][0], state.masks.state[0][1]));
  nn::set_training(cell, false);
  CHECK(same(cell.zero_state(2).masks.input[0], ones({2, features}, {.dtype = DType::float64})));
}

TEST_CASE("masks of c and of other wrappers' masks are not drawn", "[nn][cells]") {
  using Inner = nn::DropoutCell<OwnCell>;
  const Inner inner(OwnCell{}, {.output_keep = 0.5, .variational = true, .outputs = 2});
  const nn::DropoutCell<Inner> outer(inner, {.state_keep = 0.5, .variational = true});
  const nn::DropoutCell<Inner> memory(inner, {.state_keep = 0.5, .variational = true, .drop_memory = true});
  CHECK(outer.zero_state(3).masks.state.size() == 1u);
  CHECK(memory.zero_state(3).masks.state.size() == 2u);
  CHECK(outer.zero_state(3).masks.input.empty());
  CHECK(outer.zero_state(3).cell.masks.output.size() == 1u);
}

TEST_CASE("variational masks go with their rows through lengths", "[nn][cells]") {
  nn::DropoutCell<OwnCell> cell(
      OwnCell{},
      {.input_keep = 0.5, .state_keep = 0.5, .output_keep = 0.5, .variational = true, .inputs = 2, .outputs = 2});
  seed(41);
  const Tensor x = random({4, 5, 2}, 421);
  const nn::DropoutCell<OwnCell>::State start = cell.zero_state(4);
  const auto [outputs, last] = nn::unroll(cell, x, {.lengths = some_lengths(), .initial_state = start});
  const std::int64_t lengths[] = {5, 2, 0, 3};
  for (std::int64_t row = 0; row < 4; ++row) {
    const std::int64_t length = lengths[row];
    if (length == 0) continue;
    INFO("row " << row);
    const Tensor alone = x.index({range(row, row + 1), range(0, length)});
    const auto [expected, end] = nn::unroll(cell, alone, {.initial_state = nn::gather_state(start, Tensor{row})});
    CHECK(close(outputs[row].index({range(0, length)}), expected[0], tolerance::roundings64));
    CHECK(close(last.cell.h[row], end.cell.h[0], tolerance::roundings64));
    CHECK(same(last.masks.input[0][row], start.masks.input[0][row]));
  }
}

TEST_CASE("a whole sequence in a dropout cell is dropout of all of it", "[nn][cells]") {
  nn::DropoutCell<nn::RnnCell> cell(rnn_cell(3, 4, 1), {.input_keep = 0.5, .output_keep = 0.7});
  const Tensor x = random({6, 5, 3}, 431);
  seed(51);
  const auto [outputs, last] = nn::unroll(cell, x);
  seed(51);
  const auto [expected, end] = nn::unroll(cell.cell, dropout(x, 0.5));
  CHECK(same(outputs, dropout(expected, 0.7)));
  CHECK(same(last.cell.h, end.h));
}

// --- residual connections, embeddings, projections -------------------------------------------------------------

TEST_CASE("a residual cell adds its input to the output", "[nn][cells]") {
  nn::ResidualCell<OwnCell> cell(OwnCell{});
  OwnCell inner;
  const Tensor x = random({3, 2}, 441);
  const OwnCell::State before{random({3, 2}, 442), random({3, 2}, 443)};
  const auto [output, after] = cell(x, before);
  const auto [y, s] = inner(x, before);
  CHECK(same(output, y + x));
  CHECK(same(after.h, s.h));
  CHECK(names_of(cell) == std::vector<std::string>{"cell.w"});
}

TEST_CASE("an embedding cell looks its tokens up", "[nn][cells]") {
  nn::EmbeddingCell<OwnCell> cell(OwnCell{}, {.count = 5, .size = 2, .dtype = DType::float64});
  OwnCell inner;
  const OwnCell::State before = inner.zero_state(3);
  const auto [output, after] = cell(Tensor{4, 0, 4}, before);
  const auto [y, s] = inner(gather(cell.embedding.weight, Tensor{4, 0, 4}), before);
  CHECK(same(output, y));
  CHECK(same(after.c, s.c));
  CHECK(names_of(cell) == std::vector<std::string>{"embedding.weight", "cell.w"});
  const auto [outputs, last] = nn::unroll(cell, Tensor{{1, 2}, {3, 3}});
  CHECK(outputs.shape() == Shape{2, 2, 2});
}

TEST_CASE("projections stand before and behind a cell", "[nn][cells]") {
  OwnCell inner;
  const Tensor x = random({3, 4}, 451), narrow_x = random({3, 2}, 452);
  const OwnCell::State before = inner.zero_state(3);
  nn::InputProjectionCell<OwnCell> in(
      OwnCell{},
      {.inputs = 4, .outputs = 2, .activation = nn::Sigmoid{}, .bias_init = nn::init::ones(), .dtype = DType::float64});
  const auto [y, s] = in(x, before);
  const auto [expected_y, expected_s] = inner(sigmoid(matmul(x, in.projection.weight) + 1), before);
  CHECK(close(y, expected_y, tolerance::roundings64));
  CHECK(close(s.h, expected_s.h, tolerance::roundings64));
  CHECK(names_of(in) == std::vector<std::string>{"projection.weight", "projection.bias", "cell.w"});

  nn::OutputProjectionCell<OwnCell> out(OwnCell{}, {.inputs = 2, .outputs = 5, .bias = false, .dtype = DType::float64});
  const auto [z, t] = out(narrow_x, before);
  const auto [expected_z, expected_t] = inner(narrow_x, before);
  CHECK(close(z, matmul(expected_z, out.projection.weight), tolerance::roundings64));
  CHECK(same(t.h, expected_t.h));
  CHECK(names_of(out) == std::vector<std::string>{"cell.w", "projection.weight"});
}

TEST_CASE("cells that tell their sizes are asked for them, and wrappers tell theirs", "[nn][cells]") {
  const nn::InputProjectionCell<SizedCell> in(SizedCell{4, 4}, {.inputs = 3});
  CHECK(in.projection.weight.shape() == Shape{3, 4});
  CHECK(in.inputs() == 3);
  CHECK(in.outputs() == 4);
  const nn::OutputProjectionCell<SizedCell> out(SizedCell{4, 4}, {.outputs = 6});
  CHECK(out.projection.weight.shape() == Shape{4, 6});
  CHECK(out.inputs() == 4);
  CHECK(out.outputs() == 6);
  const nn::EmbeddingCell<SizedCell> words(SizedCell{4, 4}, {.count = 9});
  CHECK(words.embedding.weight.shape() == Shape{9, 4});
  CHECK(words.outputs() == 4);
  const nn::StackedCell<nn::EmbeddingCell<SizedCell>, SizedCell, nn::OutputProjectionCell<SizedCell>> mixed{
      {words, SizedCell{4, 4}, out}};
  CHECK(mixed.outputs() == 6);
  const nn::StackedCell<SizedCell> deep{{SizedCell{2, 3}, SizedCell{3, 7}}};
  CHECK(deep.inputs() == 2);
  CHECK(deep.outputs() == 7);
  CHECK(nn::ResidualCell<SizedCell>(SizedCell{4, 4}).inputs() == 4);
  const nn::DropoutCell<SizedCell> drop(SizedCell{4, 5}, {.input_keep = 0.5, .output_keep = 0.5, .variational = true});
  CHECK(drop.outputs() == 5);
  CHECK(drop.zero_state(2).masks.output[0].shape() == Shape{2, 5});

  const nn::DropoutCell<nn::LstmCell> lstm(
      nn::LstmCell(3, 4, {.projection = 2}),
      {.input_keep = 0.5, .state_keep = 0.5, .output_keep = 0.5, .variational = true});
  const nn::DropoutCell<nn::LstmCell>::State state = lstm.zero_state(5);
  CHECK(state.masks.input[0].shape() == Shape{5, 3});
  REQUIRE(state.masks.state.size() == 1u);
  CHECK(state.masks.state[0].shape() == Shape{5, 2});
  CHECK(state.masks.output[0].shape() == Shape{5, 2});
}

// --- whole sequences -------------------------------------------------------------------------------------------

TEST_CASE("wrappers of cells that have sequences have them, and they are their steps", "[nn][cells]") {
  using Stack = nn::StackedCell<nn::RnnCell>;
  using Drop = nn::DropoutCell<nn::RnnCell>;
  const Tensor x = random({4, 5, 3}, 461);
  const Tensor tokens = {{1, 2, 0, 4, 3}, {0, 1, 1, 1, 2}, {4, 4, 4, 4, 4}, {3, 0, 2, 1, 0}};
  const nn::CellProjectionOptions projection{
      .inputs = 3, .outputs = 3, .activation = nn::Tanh{}, .dtype = DType::float64};
  const nn::EmbeddingOptions table{.count = 5, .size = 3, .dtype = DType::float64};
  Rng rng(6);
  check_sequence("stack", Stack{{rnn_cell(3, 4, 1), rnn_cell(4, 2, 2)}}, x);
  const nn::GruCell gru(4, 2, {.dtype = DType::float64}, rng);
  check_sequence("mixed stack", nn::StackedCell<nn::RnnCell, nn::GruCell>{{rnn_cell(3, 4, 1), gru}}, x);
  check_sequence("residual", nn::ResidualCell<nn::RnnCell>(rnn_cell(3, 3, 1)), x);
  check_sequence("embedding", nn::EmbeddingCell<nn::RnnCell>(rnn_cell(3, 2, 1), table, rng), tokens);
  check_sequence("projected input", nn::InputProjectionCell<nn::RnnCell>(rnn_cell(3, 2, 1), projection, rng), x);
  check_sequence("projected output", nn::OutputProjectionCell<nn::RnnCell>(rnn_cell(3, 3, 1), projection, rng), x);
  nn::CellProjectionOptions along_rows = projection;
  along_rows.activation = nn::Softmax{.axis = 1};  // which is the axis of time in a sequence
  check_sequence("activation along rows, in front",
                 nn::InputProjectionCell<nn::RnnCell>(rnn_cell(3, 2, 1), along_rows, rng), x);
  check_sequence("activation along rows, behind",
                 nn::OutputProjectionCell<nn::RnnCell>(rnn_cell(3, 3, 1), along_rows, rng), x);
  check_sequence(
      "variational dropout",
      Drop(rnn_cell(3, 4, 1), {.input_keep = 0.5, .output_keep = 0.5, .variational = true, .inputs = 3, .outputs = 4}),
      x);
  check_sequence("dropout of nothing", Drop(rnn_cell(3, 4, 1), {}), x);
  check_sequence("wrappers in wrappers",
                 nn::StackedCell<nn::ResidualCell<Drop>>{{nn::ResidualCell<Drop>(Drop(rnn_cell(3, 3, 1), {})),
                                                          nn::ResidualCell<Drop>(Drop(rnn_cell(3, 3, 2), {}))}},
                 x);
}

TEST_CASE("wrappers have no sequence where a cell has none", "[nn][cells]") {
  CHECK_FALSE(nn::detail::OffersSequence<nn::StackedCell<OwnCell>>);
  CHECK_FALSE(nn::detail::OffersSequence<nn::StackedCell<nn::RnnCell, OwnCell>>);
  CHECK_FALSE(nn::detail::OffersSequence<nn::DropoutCell<OwnCell>>);
  CHECK_FALSE(nn::detail::OffersSequence<nn::ResidualCell<OwnCell>>);
  CHECK_FALSE(nn::detail::OffersSequence<nn::EmbeddingCell<OwnCell>>);
  CHECK_FALSE(nn::detail::OffersSequence<nn::InputProjectionCell<OwnCell>>);
  CHECK_FALSE(nn::detail::OffersSequence<nn::OutputProjectionCell<nn::StackedCell<OwnCell>>>);
  CHECK_FALSE(nn::ResidualCell<OwnCell>(OwnCell{}).has_sequence());

  using Drop = nn::DropoutCell<nn::RnnCell>;
  CHECK_FALSE(nn::StackedCell<Drop>{{Drop(rnn_cell(2, 2, 1), {.state_keep = 0.5})}}.has_sequence());
  const nn::EmbeddingCell<nn::RnnCell> counted(rnn_cell(2, 2, 1), {.count = 3, .size = 2, .scale_by_frequency = true});
  CHECK_FALSE(counted.has_sequence());  // occurrences are counted within a step
}

TEST_CASE("what stands past the end of a row reaches no value and no gradient", "[nn][cells]") {
  using Drop = nn::DropoutCell<nn::RnnCell>;
  const Tensor x = random({4, 5, 3}, 471);
  const nn::CellProjectionOptions projection{.inputs = 3, .outputs = 3, .dtype = DType::float64};
  Rng rng(7);
  check_padding("stack", nn::StackedCell<nn::RnnCell>{{rnn_cell(3, 3, 1), rnn_cell(3, 2, 2)}}, x);
  check_padding("residual", nn::ResidualCell<nn::RnnCell>(rnn_cell(3, 3, 1)), x);
  check_padding("projected input", nn::InputProjectionCell<nn::RnnCell>(rnn_cell(3, 2, 1), projection, rng), x);
  check_padding("projected output", nn::OutputProjectionCell<nn::RnnCell>(rnn_cell(3, 3, 1), projection, rng), x);
  check_padding("dropout", Drop(rnn_cell(3, 2, 1), {.input_keep = 0.5, .output_keep = 0.5}), x);
  check_padding(
      "variational dropout",
      Drop(rnn_cell(3, 2, 1), {.input_keep = 0.5, .output_keep = 0.5, .variational = true, .inputs = 3, .outputs = 2}),
      x);
  nn::EmbeddingCell<nn::RnnCell> words(rnn_cell(3, 2, 1), {.count = 5, .size = 3, .dtype = DType::float64}, rng);
  const Tensor tokens = {{1, 2}, {3, -1}}, clean = {{1, 2}, {3, 4}}, lengths = {2, 1};
  CHECK(same(nn::unroll(words, tokens, {.lengths = lengths}).first,
             nn::unroll(words, clean, {.lengths = lengths}).first));
}
