// unroll and its bidirectional forms: cells of the library and of users against loops in plain C++ and single steps.
#include <algorithm>
#include <tuple>

#include "tests/plain_cell.hpp"

using namespace capstan;
using namespace tests;

namespace {

const TensorOptions kDouble{.dtype = DType::float64};

Tensor random(const Shape& shape, std::uint64_t seed) { return random_in(-1, 1, shape, DType::float64, seed); }

/// A PlainCell that counts its steps and offers a sequence, or not.
struct Counting {
  using State = PlainCell::State;
  PlainCell own;
  bool offers = true;
  int steps = 0, sequences = 0;
  SequenceOptions seen = {};

  std::pair<Tensor, State> operator()(const Tensor& x, const State& s) {
    ++steps;
    return own(x, s);
  }
  std::pair<Tensor, State> sequence(const Tensor& x, const State& s, const SequenceOptions& options, Where) {
    ++sequences;
    seen = options;
    return nn::unroll(
        own, x,
        {.lengths = options.lengths, .initial_state = s, .time_major = options.time_major, .reverse = options.reverse});
  }
  bool has_sequence() const { return offers; }
  State zero_state(std::int64_t batch) const { return own.zero_state(batch); }
};

/// A cell that takes tokens.
struct Words {
  using State = PlainCell::State;
  nn::Embedding embed;
  PlainCell cell;

  std::pair<Tensor, State> operator()(const Tensor& tokens, const State& s) { return cell(embed(tokens), s); }
  State zero_state(std::int64_t batch) const { return cell.zero_state(batch); }
};

/// A cell that makes a part of its state at the first step, and counts steps in a tensor without axes.
struct LateMask {
  struct State {
    Tensor h, mask, count;
  };
  std::pair<Tensor, State> operator()(const Tensor& x, const State& s) {
    const Tensor mask = s.mask.defined() ? s.mask : full_like(x, 0.5);
    const Tensor h = tanh(x * mask + s.h);
    return {h, State{h, mask, s.count + 1}};
  }
  State zero_state(std::int64_t batch) const { return {zeros({batch, 3}, kDouble), Tensor(), zeros(Shape(), kDouble)}; }
};

/// A cell that starts from a number for all rows.
struct LateRows {
  struct State {
    Tensor h;
  };
  std::pair<Tensor, State> operator()(const Tensor& x, const State& s) {
    const Tensor h = tanh(x + s.h);
    return {h, State{h}};
  }
  State zero_state(std::int64_t) const { return {Tensor(0.0)}; }
};

/// Whether a row was ever flagged: what goes in and out is bool [batch].
struct Flagged {
  struct State {
    Tensor seen;
  };
  std::pair<Tensor, State> operator()(const Tensor& x, const State& s) {
    const Tensor seen = logical_or(s.seen, x);
    return {seen, State{seen}};
  }
  State zero_state(std::int64_t batch) const { return {zeros({batch}, {.dtype = DType::bool8})}; }
};

/// A cell over a batch against its rows one by one, each no longer than it is.
template <class Cell>
void check_rows(Cell cell, const std::string& name) {
  const Tensor x = random({4, 5, 3}, 11);
  const std::vector<std::int64_t> lengths = {4, 1, 5, 0};
  for (const bool reverse : {false, true})
    for (const bool by_step : {false, true}) {
      INFO(name << (reverse ? ", reverse" : "") << (by_step ? ", step by step" : ""));
      nn::UnrollOptions<typename Cell::State> options{.lengths = from_vector(lengths), .reverse = reverse};
      if (by_step) options.on_step = [](std::int64_t, const Tensor&, const typename Cell::State&) {};
      const auto [outputs, state] = nn::unroll(cell, x, options);
      for (std::int64_t row = 0; row < 4; ++row) {
        const std::int64_t length = lengths[static_cast<std::size_t>(row)];
        INFO("row " << row << " of length " << length);
        auto alone = cell.zero_state(1);
        for (std::int64_t i = 0; i < length; ++i) {
          const std::int64_t t = reverse ? length - 1 - i : i;
          auto [output, after] = cell(x.index({range(row, row + 1), t}), alone);
          CHECK(close(outputs.index({range(row, row + 1), t}), output, tolerance::roundings64));
          alone = after;
        }
        const Tensor rest = outputs[row].index({from(length)});
        CHECK(same(rest, zeros_like(rest)));
        const auto actual = nn::detail::state_tensors(state);
        const auto expected = nn::detail::state_tensors(alone);
        REQUIRE(actual.size() == expected.size());
        for (std::size_t i = 0; i < actual.size(); ++i)
          CHECK(close(actual[i]->index({range(row, row + 1)}), *expected[i], tolerance::roundings64));
      }
    }
}

}  // namespace

// --- one direction ---------------------------------------------------------------------------------------------

TEST_CASE("unroll runs a cell of one's own as a loop in plain C++ does", "[nn][unroll]") {
  PlainCell cell = plain_cell(3, 1);
  const Tensor x = random({4, 5, 3}, 2);
  const PlainCell::State start{random({4, 2}, 3), random({4, 2}, 4)};
  const std::vector<std::vector<std::int64_t>> lists = {{},           {4, 1, 5, 0}, {2, 3, 3, 2},
                                                        {3, 3, 3, 3}, {5, 5, 5, 5}, {0, 0, 0, 0}};
  for (const std::vector<std::int64_t>& lengths : lists)
    for (const bool reverse : {false, true})
      for (const bool time_major : {false, true})
        for (const bool given : {false, true}) {
          INFO((lengths.empty() ? "all steps" : "lengths " + to_string(from_vector(lengths)))
               << (reverse ? ", reverse" : "") << (time_major ? ", time-major" : "") << (given ? ", own start" : ""));
          const PoisonedBuffers poisoned(kNaN);
          nn::UnrollOptions<PlainCell::State> options{.time_major = time_major, .reverse = reverse};
          if (!lengths.empty()) options.lengths = from_vector(lengths);
          if (given) options.initial_state = start;
          const auto [outputs, state] = nn::unroll(cell, time_major ? transpose(x, 0, 1) : x, options);
          const PlainRun plain = plain_run(cell, x, lengths, reverse, given ? start : cell.zero_state(4));
          CHECK(close(time_major ? transpose(outputs, 0, 1) : outputs, plain.outputs, tolerance::roundings64));
          CHECK(close(state.a, plain.a, tolerance::roundings64));
          CHECK(close(state.b, plain.b, tolerance::roundings64));
        }
}

TEST_CASE("with lengths each row of any cell goes as if it was alone, in both directions", "[nn][unroll]") {
  Rng rng(5);
  const nn::Initializer biases = nn::init::uniform(-1, 1);
  check_rows(plain_cell(3, 6), "a cell of one's own");
  check_rows(nn::RnnCell(3, 2, {.activation = Activation::relu, .bias_init = biases, .dtype = DType::float64}, rng),
             "RnnCell");
  for (const bool after : {false, true})
    check_rows(nn::GruCell(3, 2, {.reset_after = after, .bias_init = biases, .dtype = DType::float64}, rng), "GruCell");
  check_rows(nn::LstmCell(3, 2, {.bias_init = biases, .dtype = DType::float64}, rng), "LstmCell");
  check_rows(nn::LstmCell(3, 3, {.projection = 2, .dtype = DType::float64}, rng), "LstmCell with a projection");
  check_rows(nn::LstmCell(3, 2, {.peepholes = true, .dtype = DType::float64}, rng), "LstmCell with peepholes");
}

TEST_CASE("a callback sees every step in its order, the output as it stays and the state after it", "[nn][unroll]") {
  PlainCell cell = plain_cell(3, 1);
  const Tensor x = random({2, 4, 3}, 12);
  for (const bool reverse : {false, true}) {
    std::vector<std::int64_t> steps;
    std::vector<Tensor> seen;
    PlainCell::State last;
    const auto note = [&](std::int64_t step, const Tensor& output, const PlainCell::State& state) {
      steps.push_back(step);
      seen.push_back(output);
      last = state;
    };
    const auto [outputs, state] = nn::unroll(cell, x, {.lengths = Tensor{1, 3}, .reverse = reverse, .on_step = note});
    CHECK(steps == (reverse ? std::vector<std::int64_t>{2, 1, 0} : std::vector<std::int64_t>{0, 1, 2}));
    for (std::size_t i = 0; i < seen.size(); ++i) CHECK(same(outputs.index({all, steps[i]}), seen[i]));
    CHECK(last.a.is_same(state.a));
    CHECK(last.b.is_same(state.b));
  }
}

TEST_CASE("a cell's own sequence is used where it has one and no steps are asked for", "[nn][unroll]") {
  const Tensor x = random({4, 3, 3}, 13), lengths = {2, 0, 4};  // time-major
  Counting cell{plain_cell(3, 1)};
  const auto [fused, fused_state] = nn::unroll(cell, x, {.lengths = lengths, .time_major = true, .reverse = true});
  CHECK(cell.sequences == 1);
  CHECK(cell.steps == 0);
  CHECK(cell.seen.lengths.is_same(lengths));
  CHECK(cell.seen.time_major);
  CHECK(cell.seen.reverse);
  const auto ignore = [](std::int64_t, const Tensor&, const PlainCell::State&) {};
  const auto [stepped, stepped_state] =
      nn::unroll(cell, x, {.lengths = lengths, .time_major = true, .reverse = true, .on_step = ignore});
  CHECK(cell.sequences == 1);
  CHECK(cell.steps == 4);
  CHECK(same(stepped, fused));
  CHECK(same(stepped_state.b, fused_state.b));
  cell.offers = false;
  nn::unroll(cell, x, {.time_major = true});
  CHECK(cell.sequences == 1);
  CHECK(cell.steps == 8);
}

TEST_CASE("steps that no row has are not made, but one if there are none at all", "[nn][unroll]") {
  const Tensor x = random({2, 6, 3}, 14);
  const std::pair<Tensor, int> rows[] = {
      {Tensor{2, 3}, 3}, {Tensor{0, 0}, 1}, {Tensor{6, 1}, 6}, {Tensor{6, 6}, 6}, {Tensor(), 6}};
  for (const auto& [lengths, expected] : rows)
    for (const bool reverse : {false, true}) {
      Counting cell{plain_cell(3, 1), false};
      const auto [outputs, state] = nn::unroll(cell, x, {.lengths = lengths, .reverse = reverse});
      CHECK(cell.steps == expected);
      CHECK(outputs.shape() == Shape{2, 6, 2});
    }
}

TEST_CASE("tokens are steps of [batch], and those past an end are never looked up", "[nn][unroll]") {
  Rng rng(6);
  Words cell{nn::Embedding({.count = 6, .size = 3, .dtype = DType::float64}, rng), plain_cell(3, 1)};
  const Tensor padded = {{1, 5, 2}, {3, -1, 99}}, clean = {{1, 5, 2}, {3, 0, 0}}, lengths = {3, 1};
  const auto [expected, expected_state] = nn::unroll(cell.cell, cell.embed(clean), {.lengths = lengths});
  const auto [outputs, state] = nn::unroll(cell, padded, {.lengths = lengths});
  CHECK(same(outputs, expected));
  CHECK(same(state.a, expected_state.a));
  const auto [turned, turned_state] =
      nn::unroll(cell, transpose(padded).to(DType::int64), {.lengths = lengths, .time_major = true});
  CHECK(same(turned, transpose(expected, 0, 1)));
  CHECK(same(turned_state.b, expected_state.b));
}

TEST_CASE("a cell may take, give and keep flags", "[nn][unroll]") {
  Flagged cell;
  const Tensor x = {{false, true, false}, {false, false, true}};
  const auto [outputs, state] = nn::unroll(cell, x, {.lengths = Tensor{3, 2}});
  CHECK(same(outputs, {{false, true, true}, {false, false, false}}));
  CHECK(same(state.seen, Tensor{true, false}));
}

TEST_CASE("rows of one length need no masks", "[nn][unroll]") {
  PlainCell cell = plain_cell(3, 1);
  const Tensor x = random({2, 6, 3}, 28);
  const auto operations = [&](const Tensor& lengths) {
    GradientTape tape;
    tape.watch(x);
    const auto result = nn::unroll(cell, lengths.defined() ? x : narrow(x, 1, 0, 4), {.lengths = lengths});
    return tape.size();
  };
  CHECK(operations(Tensor{4, 4}) == operations(Tensor()));
  CHECK(operations(Tensor{4, 3}) > operations(Tensor()));
}

TEST_CASE("lengths of both types and any strides, a const cell and no rows at all will do", "[nn][unroll]") {
  Rng rng(7);
  const nn::RnnCell cell(3, 2, {.dtype = DType::float64}, rng);
  const Tensor x = random({2, 4, 3}, 15);
  const auto [outputs, state] = nn::unroll(cell, x, {.lengths = Tensor{2, 4}});
  CHECK(same(nn::unroll(cell, x, {.lengths = strided(Tensor{2, 4}.to(DType::int64))}).first, outputs));
  PlainCell own = plain_cell(3, 1);
  const Tensor nobody = zeros({0, 4, 3}, kDouble), none = zeros({0}, {.dtype = DType::int64});
  for (const Tensor& lengths : {Tensor(), none}) {
    CHECK(nn::unroll(cell, nobody, {.lengths = lengths}).first.shape() == Shape{0, 4, 2});
    const auto [empty, empty_state] = nn::unroll(own, nobody, {.lengths = lengths});
    CHECK(empty.shape() == Shape{0, 4, 2});
    CHECK(empty_state.a.shape() == Shape{0, 2});
  }
}

TEST_CASE("a state carried from window to window gives what the whole sequence gives", "[nn][unroll]") {
  PlainCell own = plain_cell(3, 1);
  LateMask late;  // what their first step makes is carried too
  LateRows rows;
  const Tensor x = random({3, 7, 3}, 16), lengths = {7, 2, 5};
  const auto check = [&](auto& cell) {
    const auto [whole, end] = nn::unroll(cell, x, {.lengths = lengths});
    const auto [first, middle] = nn::unroll(cell, narrow(x, 1, 0, 4), {.lengths = clip(lengths, 0, 4)});
    const auto [second, last] =
        nn::unroll(cell, narrow(x, 1, 4, 3), {.lengths = clip(lengths - 4, 0, 3), .initial_state = middle});
    CHECK(close(concat({first, second}, 1), whole, tolerance::roundings64));
    const auto actual = nn::detail::state_tensors(last), expected = nn::detail::state_tensors(end);
    for (std::size_t i = 0; i < actual.size(); ++i) CHECK(close(*actual[i], *expected[i], tolerance::roundings64));
  };
  check(own);
  check(late);
  check(rows);
}

TEST_CASE("the cell's own state, where another is given, is neither recorded nor drawn for good", "[nn][unroll]") {
  struct Drawing {
    using State = PlainCell::State;
    PlainCell cell = plain_cell(3, 1);
    Parameter start{Tensor{0.5, 0.25}};  // a start that is learned, and one that is drawn
    std::pair<Tensor, State> operator()(const Tensor& x, const State& s) { return cell(x, s); }
    State zero_state(std::int64_t batch) const {
      return {broadcast_to(start * 1, {batch, 2}), uniform({batch, 2}, -1, 1, default_rng(), kDouble)};
    }
  } cell;
  const Tensor x = random({2, 4, 3}, 25);
  const PlainCell::State given{random({2, 2}, 26), random({2, 2}, 27)};
  const RngState before = default_rng().state();
  const auto [outputs, state] = nn::unroll(cell, x, {.initial_state = given});
  CHECK(default_rng().state() == before);
  CHECK(close(outputs, plain_run(cell.cell, x, {}, false, given).outputs, tolerance::roundings64));
  GradientTape tape;
  const auto [own_outputs, own_state] = nn::unroll(cell, x);
  CHECK_FALSE(default_rng().state() == before);
  CHECK(number(max(abs(tape.gradient(sum(own_outputs), cell.start)))) > 0);
}

// --- truncated back-propagation --------------------------------------------------------------------------------

TEST_CASE("truncated back-propagation gives the gradients of windows that are run one by one", "[nn][unroll]") {
  constexpr std::int64_t time = 7, size = 3;
  PlainCell cell = plain_cell(3, 1);
  const Tensor x = random({3, time, 3}, 17), weights = random({3, time, 2}, 18), lengths = {7, 2, 5};
  std::vector<Tensor> pieces, alone_dx;
  Tensor total = zeros(Shape(), kDouble), alone_dw = zeros_like(cell.w), alone_dv = zeros_like(cell.v);
  PlainCell::State carried = cell.zero_state(3);
  GradientTape tape;
  tape.watch(x);
  for (std::int64_t begin = 0; begin < time; begin += size) {
    const std::int64_t count = std::min(size, time - begin);
    const auto [outputs, state] = nn::unroll(cell, narrow(x, 1, begin, count),
                                             {.lengths = clip(lengths - begin, 0, count), .initial_state = carried});
    total = total + sum(outputs * narrow(weights, 1, begin, count));
    pieces.push_back(outputs);
    carried = stop_gradient(state);
  }
  const auto [dx, dw, dv] = tape.gradient(total, x, cell.w, cell.v);

  PlainCell::State start = cell.zero_state(3);
  for (std::int64_t begin = 0; begin < time; begin += size) {
    const std::int64_t count = std::min(size, time - begin);
    const Tensor part = narrow(x, 1, begin, count).copy();
    GradientTape window;
    window.watch(part);
    const auto [outputs, state] =
        nn::unroll(cell, part, {.lengths = clip(lengths - begin, 0, count), .initial_state = start});
    const auto [gx, gw, gv] = window.gradient(sum(outputs * narrow(weights, 1, begin, count)), part, cell.w, cell.v);
    alone_dx.push_back(gx);
    alone_dw = alone_dw + gw;
    alone_dv = alone_dv + gv;
    start = nn::map_state(state, [](const Tensor& t) { return from_doubles(values(t), t.shape()); });
  }
  CHECK(close(dx, concat(alone_dx, 1), tolerance::roundings64));
  CHECK(close(dw, alone_dw, tolerance::roundings64));
  CHECK(close(dv, alone_dv, tolerance::roundings64));

  GradientTape uncut;
  const auto [whole, end] = nn::unroll(cell, x, {.lengths = lengths});
  CHECK(close(concat(pieces, 1), whole, tolerance::roundings64));
  CHECK(close(carried.a, end.a, tolerance::roundings64));
  CHECK(relative_error(uncut.gradient(sum(whole * weights), cell.w), dw) > 1e-3);  // the cuts do cut
}

// --- both directions -------------------------------------------------------------------------------------------

TEST_CASE("two directions are two loops in plain C++ side by side", "[nn][unroll]") {
  PlainCell ahead = plain_cell(3, 1), back = plain_cell(3, 2);
  const Tensor x = random({4, 5, 3}, 19);
  const PlainCell::State start{random({4, 2}, 20), random({4, 2}, 21)};
  const std::vector<std::vector<std::int64_t>> lists = {{}, {4, 1, 5, 0}, {2, 3, 3, 2}};
  for (const std::vector<std::int64_t>& lengths : lists)
    for (const bool time_major : {false, true}) {
      nn::BidirectionalOptions<PlainCell::State, PlainCell::State> options{.backward_state = start,
                                                                           .time_major = time_major};
      if (!lengths.empty()) options.lengths = from_vector(lengths);
      const auto [outputs, state] = nn::unroll_bidirectional(ahead, back, time_major ? transpose(x, 0, 1) : x, options);
      const PlainRun one = plain_run(ahead, x, lengths, false, ahead.zero_state(4));
      const PlainRun other = plain_run(back, x, lengths, true, start);
      CHECK(close(time_major ? transpose(outputs, 0, 1) : outputs, concat({one.outputs, other.outputs}, 2),
                  tolerance::roundings64));
      CHECK(close(state.forward.a, one.a, tolerance::roundings64));
      CHECK(close(state.forward.b, one.b, tolerance::roundings64));
      CHECK(close(state.backward.a, other.a, tolerance::roundings64));
      CHECK(close(state.backward.b, other.b, tolerance::roundings64));
    }
}

TEST_CASE("the directions may have cells of different types, or the very same cell", "[nn][unroll]") {
  Rng rng(8);
  PlainCell own = plain_cell(3, 1);
  const nn::LstmCell lstm(3, 4, {.dtype = DType::float64}, rng);
  const Tensor x = random({2, 4, 3}, 22), lengths = {4, 3};
  const auto [one, one_state] = nn::unroll(own, x, {.lengths = lengths});
  const auto [other, other_state] = nn::unroll(lstm, x, {.lengths = lengths, .reverse = true});
  const auto [outputs, state] = nn::unroll_bidirectional(own, lstm, x, {.lengths = lengths});
  CHECK(same(outputs, concat({one, other}, -1)));
  CHECK(same(state.forward.b, one_state.b));
  CHECK(same(state.backward.c, other_state.c));
  const auto [shared, shared_state] = nn::unroll_bidirectional(lstm, lstm, x, {.lengths = lengths});
  CHECK(same(shared.index({all, all, range(4, 8)}), other));
  CHECK(same(shared_state.backward.h, other_state.h));
}

TEST_CASE("each bidirectional layer runs over the outputs of the one below", "[nn][unroll]") {
  std::vector<PlainCell> ahead = {plain_cell(3, 1), plain_cell(4, 2)}, back = {plain_cell(3, 3), plain_cell(4, 4)};
  const Tensor x = random({4, 5, 3}, 23);
  const PlainCell::State zero = ahead[0].zero_state(4);
  const std::vector<std::vector<std::int64_t>> lists = {{}, {4, 1, 5, 0}};
  for (const std::vector<std::int64_t>& lengths : lists)
    for (const bool time_major : {false, true}) {
      const auto [outputs, states] = nn::unroll_stacked_bidirectional(
          ahead, back, time_major ? transpose(x, 0, 1) : x,
          {.lengths = lengths.empty() ? Tensor() : from_vector(lengths), .time_major = time_major});
      Tensor below = x;
      REQUIRE(states.size() == 2u);
      for (std::size_t i = 0; i < 2; ++i) {
        const PlainRun one = plain_run(ahead[i], below, lengths, false, zero);
        const PlainRun other = plain_run(back[i], below, lengths, true, zero);
        CHECK(close(states[i].forward.a, one.a, tolerance::roundings64));
        CHECK(close(states[i].backward.b, other.b, tolerance::roundings64));
        below = concat({one.outputs, other.outputs}, 2);
      }
      CHECK(close(time_major ? transpose(outputs, 0, 1) : outputs, below, tolerance::roundings64));
    }
}

TEST_CASE("layers of different cells come in tuples, and start where they are told", "[nn][unroll]") {
  Rng rng(9);
  const nn::LstmCell wide(3, 4, {.dtype = DType::float64}, rng);
  nn::GruCell gru(6, 2, {.dtype = DType::float64}, rng);
  PlainCell low = plain_cell(3, 1);
  std::tuple<PlainCell, nn::RnnCell> ahead{plain_cell(3, 2), nn::RnnCell(6, 5, {.dtype = DType::float64}, rng)};
  const Tensor x = random({2, 4, 3}, 24), lengths = {1, 4};
  const auto [first, first_state] = nn::unroll_bidirectional(std::get<0>(ahead), wide, x, {.lengths = lengths});
  const auto [second, second_state] = nn::unroll_bidirectional(std::get<1>(ahead), gru, first, {.lengths = lengths});
  const auto result = nn::unroll_stacked_bidirectional(ahead, std::tie(wide, gru), x, {.lengths = lengths});
  CHECK(same(result.outputs, second));
  CHECK(same(std::get<0>(result.states).backward.c, first_state.backward.c));
  CHECK(same(std::get<1>(result.states).forward.h, second_state.forward.h));

  const auto again = nn::unroll_stacked_bidirectional(ahead, std::tie(wide, gru), x,
                                                      {.lengths = lengths, .initial_states = result.states});
  const auto [carried, carried_state] = nn::unroll_bidirectional(
      std::get<0>(ahead), wide, x,
      {.lengths = lengths, .forward_state = first_state.forward, .backward_state = first_state.backward});
  CHECK(same(std::get<0>(again.states).forward.a, carried_state.forward.a));
  CHECK(same(std::get<0>(again.states).backward.h, carried_state.backward.h));
  CHECK_FALSE(array_equal(again.outputs, result.outputs));
  const auto one = nn::unroll_stacked_bidirectional(std::tie(low), std::tie(wide), x);
  CHECK(same(one.outputs, nn::unroll_bidirectional(low, wide, x).outputs));
}
