// Bad input to unroll and its bidirectional forms: the right exception, word for word, before anything is done.
#include "tests/plain_cell.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_unroll_test.cpp";

/// A PlainCell that counts what it is asked for.
struct Watched {
  using State = PlainCell::State;
  PlainCell own = plain_cell(3, 1);
  int steps = 0;
  std::pair<Tensor, State> operator()(const Tensor& x, const State& s) {
    ++steps;
    return own(x, s);
  }
  State zero_state(std::int64_t batch) const { return own.zero_state(batch); }
};

/// A cell whose state is a list that may grow.
struct Listing {
  struct State {
    std::vector<Tensor> past;
  };
  bool grows = false;
  std::pair<Tensor, State> operator()(const Tensor& x, const State& s) {
    State after = s;
    if (grows) after.past.push_back(x);
    return {x, after};
  }
  State zero_state(std::int64_t batch) const { return {{zeros({batch, 3}, {.dtype = DType::float64})}}; }
};

/// A cell whose state is a tensor itself.
struct Bare {
  using State = Tensor;
  std::pair<Tensor, Tensor> operator()(const Tensor& x, const Tensor& h) { return {x + h, x}; }
  Tensor zero_state(std::int64_t batch) const { return zeros({batch, 3}, {.dtype = DType::float64}); }
};

/// The same, starting from a number for all rows.
struct NumberFirst : Bare {
  Tensor zero_state(std::int64_t) const { return Tensor(0.0); }
};

/// A cell whose results are not [batch, ...].
struct Shapeless {
  struct State {
    Tensor h;
  };
  bool output = false;  // whether it is the output that has no rows
  std::pair<Tensor, State> operator()(const Tensor& x, const State& s) {
    return output ? std::pair<Tensor, State>{sum(x), s} : std::pair<Tensor, State>{x, State{sum(x, 0)}};
  }
  State zero_state(std::int64_t batch) const { return {zeros({batch, 3}, {.dtype = DType::float64})}; }
};

/// A cell with one number for each row.
struct Summing {
  struct State {
    Tensor total;
  };
  std::pair<Tensor, State> operator()(const Tensor& x, const State& s) {
    const Tensor total = s.total + sum(x, 1);
    return {total, State{total}};
  }
  State zero_state(std::int64_t batch) const { return {zeros({batch}, {.dtype = DType::float64})}; }
};

Tensor zeros64(const Shape& shape) { return zeros(shape, {.dtype = DType::float64}); }

/// Operands of the tables below, the same in each test, and a tape that must stay empty.
struct Operands {
  Tensor x = full({2, 5, 3}, 0.5, {.dtype = DType::float64});
  Tensor nothing;
  PlainCell::State three{zeros64({3, 2}), zeros64({3, 2})}, two{zeros64({2, 2}), zeros64({2, 2})};
  PlainCell::State wide{zeros64({2, 2}), zeros64({2, 4})}, half{zeros64({2, 2}), Tensor()};
  GradientTape tape;

  Operands() { tape.watch(x); }
  ~Operands() {  // nothing was changed, and nothing ran
    CHECK(same(x, full({2, 5, 3}, 0.5, {.dtype = DType::float64})));
    CHECK(tape.size() == 0);
  }
};

}  // namespace

TEST_CASE("unroll refuses inputs and lengths that do not fit", "[errors][unroll]") {
  const Operands o;
  Watched cell;
  const std::string rank = "; it must be [batch, time, ...] with one step or more.";
  const std::string types = "; they must be int32 or int64.", range = "; with an input of [2, 5, 3] it must be in 0..5.";
  check_errors({
      {__LINE__, message_of<Error>, [&] { nn::unroll(cell, o.nothing); }, "unroll: the tensor is undefined; give it a value first."},
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll(cell, Tensor(1.0)); }, "unroll: the input is []" + rank},
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll(cell, zeros64({4})); }, "unroll: the input is [4]" + rank},
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll(cell, zeros64({2, 0, 3})); }, "unroll: the input is [2, 0, 3]" + rank},
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll(cell, zeros64({0, 2, 3}), {.time_major = true}); },
       "unroll: the input is [0, 2, 3]; it must be [time, batch, ...] with one step or more."},
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll(cell, o.x, {.lengths = Tensor{1, 2, 3}}); },
       "unroll: the lengths are [3]; with an input of [2, 5, 3] they must be [2]."},
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll(cell, o.x, {.lengths = Tensor{1, 2}, .time_major = true}); },
       "unroll: the lengths are [2]; with an input of [2, 5, 3] they must be [5]."},
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll(cell, o.x, {.lengths = Tensor{{1, 2}}}); },
       "unroll: the lengths are [1, 2]; with an input of [2, 5, 3] they must be [2]."},
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll(cell, o.x, {.lengths = Tensor(3)}); },
       "unroll: the lengths are []; with an input of [2, 5, 3] they must be [2]."},
      {__LINE__, message_of<DTypeError>, [&] { nn::unroll(cell, o.x, {.lengths = zeros64({2})}); }, "unroll: the lengths are float64" + types},
      {__LINE__, message_of<DTypeError>, [&] { nn::unroll(cell, o.x, {.lengths = Tensor{true, false}}); }, "unroll: the lengths are bool" + types},
      {__LINE__, message_of<DTypeError>, [&] { nn::unroll(cell, o.x, {.lengths = zeros({2}, {.dtype = DType::uint8})}); }, "unroll: the lengths are uint8" + types},
      {__LINE__, message_of<IndexError>, [&] { nn::unroll(cell, o.x, {.lengths = Tensor{6, 1}}); }, "unroll: the length of row 0 is 6" + range},
      {__LINE__, message_of<IndexError>, [&] { nn::unroll(cell, o.x, {.lengths = Tensor{5, -1}, .reverse = true}); }, "unroll: the length of row 1 is -1" + range},
      {__LINE__, message_of<IndexError>, [&] { nn::unroll(cell, o.x, {.lengths = full({2}, INT64_MAX, {.dtype = DType::int64})}); },
       "unroll: the length of row 0 is 9223372036854775807" + range},
      {__LINE__, message_of<IndexError>, [&] { nn::unroll(cell, o.x, {.lengths = Tensor{1, 2, 3, 0, 1}, .time_major = true}); },
       "unroll: the length of row 2 is 3; with an input of [2, 5, 3] it must be in 0..2."},
  }, file);
  CHECK(cell.steps == 0);
}

TEST_CASE("unroll refuses initial states that do not fit the input", "[errors][unroll]") {
  const Operands o;
  Watched cell;
  Listing list;
  Bare bare;
  NumberFirst number_first;
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll(cell, o.x, {.initial_state = o.three}); },
       "unroll: a of the initial state is [3, 2]; with an input of [2, 5, 3] it must be [2, 2]."},
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll(cell, o.x, {.initial_state = o.two, .time_major = true}); },
       "unroll: a of the initial state is [2, 2]; with an input of [2, 5, 3] it must be [5, 2]."},
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll(cell, o.x, {.initial_state = o.wide}); },
       "unroll: b of the initial state is [2, 4]; with an input of [2, 5, 3] it must be [2, 2]."},
      {__LINE__, message_of<Error>, [&] { nn::unroll(cell, o.x, {.initial_state = o.half}); },
       "unroll: b of the initial state is undefined; give it a value first."},
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll(list, o.x, {.initial_state = Listing::State{{zeros64({1, 3})}}}); },
       "unroll: past.0 of the initial state is [1, 3]; with an input of [2, 5, 3] it must be [2, 3]."},
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll(list, o.x, {.initial_state = Listing::State{{zeros64({2, 3}), zeros64({3, 9})}}}); },
       "unroll: past.1 of the initial state is [3, 9]; with an input of [2, 5, 3] its first size must be 2."},
      {__LINE__, message_of<Error>, [&] { nn::unroll(bare, o.x, {.initial_state = Tensor()}); },
       "unroll: the initial state is undefined; give it a value first."},
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll(bare, o.x, {.initial_state = zeros64({2, 4})}); },
       "unroll: the initial state is [2, 4]; with an input of [2, 5, 3] it must be [2, 3]."},
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll(number_first, o.x, {.initial_state = zeros64({3, 3})}); },
       "unroll: the initial state is [3, 3]; with an input of [2, 5, 3] its first size must be 2."},
  }, file);
  CHECK(cell.steps == 0);
}

TEST_CASE("with lengths a cell must keep its rows", "[errors][unroll]") {
  const Tensor x = zeros64({2, 5, 3}), lengths = {4, 0};
  Listing list{.grows = true};
  Shapeless state, output{.output = true};
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll(list, x, {.lengths = lengths}); },
       "unroll: the number of the state's tensors is 1 before step 0 and 2 after it; with lengths it must not change."},
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll(state, x, {.lengths = lengths}); },
       "unroll: a tensor of the state is [2, 3] before step 0 and [3] after it; with lengths it must keep its shape, the first size of which is the batch's, 2."},
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll(output, x, {.lengths = lengths}); },
       "unroll: the output of step 0 is []; with lengths its first size must be the batch's, 2."},
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll_bidirectional(list, list, x, {.lengths = lengths}); },
       "unroll_bidirectional: the number of the state's tensors is 1 before step 0 and 2 after it; with lengths it must not change."},
  }, file);
  CHECK(nn::unroll(list, x).second.past.size() == 6u);  // without lengths it may
  CHECK(nn::unroll(state, x).second.h.shape() == Shape{3});
}

TEST_CASE("two directions say which cell's state does not fit", "[errors][unroll]") {
  const Operands o;
  Watched cell;
  PlainCell other = plain_cell(3, 2);
  Summing sums;
  check_errors({
      {__LINE__, message_of<Error>, [&] { nn::unroll_bidirectional(cell, other, o.nothing); },
       "unroll_bidirectional: the tensor is undefined; give it a value first."},
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll_bidirectional(cell, other, zeros64({3})); },
       "unroll_bidirectional: the input is [3]; it must be [batch, time, ...] with one step or more."},
      {__LINE__, message_of<IndexError>, [&] { nn::unroll_bidirectional(cell, other, o.x, {.lengths = Tensor{1, 9}}); },
       "unroll_bidirectional: the length of row 1 is 9; with an input of [2, 5, 3] it must be in 0..5."},
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll_bidirectional(cell, other, o.x, {.forward_state = o.three}); },
       "unroll_bidirectional: a of the forward cell's initial state is [3, 2]; with an input of [2, 5, 3] it must be [2, 2]."},
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll_bidirectional(cell, other, o.x, {.backward_state = o.wide}); },
       "unroll_bidirectional: b of the backward cell's initial state is [2, 4]; with an input of [2, 5, 3] it must be [2, 2]."},
      {__LINE__, message_of<Error>, [&] { nn::unroll_bidirectional(cell, other, o.x, {.backward_state = o.half}); },
       "unroll_bidirectional: b of the backward cell's initial state is undefined; give it a value first."},
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll_bidirectional(sums, sums, zeros64({2, 5, 3})); },
       "unroll_bidirectional: the outputs of the cells are [2, 5] and [2, 5]; they must have a third axis to be joined along."},
  }, file);
  CHECK(cell.steps == 0);
}

TEST_CASE("stacks refuse other numbers of cells and states, and say which layer's state does not fit", "[errors][unroll]") {
  const Operands o;
  using States = std::vector<nn::BidirectionalState<PlainCell::State, PlainCell::State>>;
  std::vector<Watched> ahead(2), back(2), more(3), none;
  check_errors({
      {__LINE__, message_of<Error>, [&] { nn::unroll_stacked_bidirectional(ahead, more, o.x); },
       "unroll_stacked_bidirectional: 2 forward cells and 3 backward cells were given; as many of both are needed."},
      {__LINE__, message_of<Error>, [&] { nn::unroll_stacked_bidirectional(ahead, none, o.x); },
       "unroll_stacked_bidirectional: 2 forward cells and 0 backward cells were given; as many of both are needed."},
      {__LINE__, message_of<Error>, [&] { nn::unroll_stacked_bidirectional(none, none, o.x); },
       "unroll_stacked_bidirectional: no cells were given; at least one layer is needed."},
      {__LINE__, message_of<Error>, [&] { nn::unroll_stacked_bidirectional(ahead, back, o.x, {.initial_states = States{{o.two, o.two}}}); },
       "unroll_stacked_bidirectional: 1 initial states were given for 2 layers; one for each layer is needed."},
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll_stacked_bidirectional(ahead, back, o.x, {.initial_states = States{{o.two, o.two}, {o.two, o.three}}}); },
       "unroll_stacked_bidirectional: a of the backward cell's initial state in layer 1 is [3, 2]; with an input of [2, 5, 3] it must be [2, 2]."},
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll_stacked_bidirectional(ahead, back, o.x, {.lengths = Tensor{1}}); },
       "unroll_stacked_bidirectional: the lengths are [1]; with an input of [2, 5, 3] they must be [2]."},
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll_stacked_bidirectional(ahead, back, zeros64({2, 0, 3})); },
       "unroll_stacked_bidirectional: the input is [2, 0, 3]; it must be [batch, time, ...] with one step or more."},
  }, file);
  for (const Watched& cell : ahead) CHECK(cell.steps == 0);
}
