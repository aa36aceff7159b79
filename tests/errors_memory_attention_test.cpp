// Bad input to attention over a memory and to cells that attend: the right exception, word for word, and everything as
// it was.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_memory_attention_test.cpp";
const std::string undefined = " is undefined; give it a value first.";
const std::string too_large = " has 2^63 elements or more; the product of the sizes above 0 must be below 2^63.";
constexpr std::int64_t kMany = std::int64_t{1} << 40;
const std::string additive = "BahdanauAttention: ", multiplicative = "LuongAttention: ", attending = "AttentionCell: ";

using Additive = nn::BahdanauAttention;
using Multiplicative = nn::LuongAttention;
using Score = nn::LuongScore;

/// Operands of the tables below, the same in each test.
struct Operands {
  Tensor memory = ones({2, 5, 4}), query = ones({2, 3}), none;

  ~Operands() {  // nothing may have changed them
    for (const Tensor& x : {memory, query}) {
      CHECK(x.version() == 0);
      CHECK(same(x, ones_like(x)));
    }
  }
};

/// A cell that does not tell its sizes.
struct Silent {
  using State = nn::RnnCell::State;
  nn::RnnCell cell;

  std::pair<Tensor, State> operator()(const Tensor& x, const State& before, Where where) { return cell(x, before, where); }
  State zero_state(std::int64_t batch) const { return cell.zero_state(batch); }
};

}  // namespace

TEST_CASE("attentions over a memory refuse sizes and options that make no sense", "[errors][memory_attention]") {
  Rng rng(3);
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { Additive bad({.memory = 4, .units = 2}, rng); },
       additive + "queries of 0 and a memory of 4 features were asked for; both must be >= 1."},
      {__LINE__, message_of<ShapeError>, [&] { Additive bad({.query = 3, .memory = -1, .units = 2}, rng); },
       additive + "queries of 3 and a memory of -1 features were asked for; both must be >= 1."},
      {__LINE__, message_of<ShapeError>, [&] { Additive bad({.query = 3, .memory = 4}, rng); }, additive + "0 units were asked for; one is the least."},
      {__LINE__, message_of<ShapeError>, [&] { Additive bad({.query = 3, .memory = 4, .units = 2, .heads = 0}, rng); },
       additive + "0 heads were asked for; one is the least."},
      {__LINE__, message_of<ShapeError>, [&] { Multiplicative bad({.query = 3}, rng); },
       multiplicative + "queries of 3 and a memory of 0 features were asked for; both must be >= 1."},
      {__LINE__, message_of<ShapeError>, [&] { Multiplicative bad({.query = 3, .memory = 4, .heads = -2}, rng); },
       multiplicative + "-2 heads were asked for; one is the least."},
      {__LINE__, message_of<ShapeError>, [&] { Multiplicative bad({.query = 3, .memory = 4, .score = Score::dot}, rng); },
       multiplicative + "queries of 3 and a memory of 4 features were asked for; LuongScore::dot needs as many of both."},
      {__LINE__, message_of<Error>, [&] { Multiplicative bad({.query = 4, .memory = 4, .score = Score::dot, .heads = 2}, rng); },
       multiplicative + "2 heads were asked for; those of LuongScore::dot, which has no weights, would all be the same."},
      {__LINE__, message_of<ShapeError>, [&] { Additive bad({.query = 3, .memory = 4, .units = kMany, .heads = kMany}, rng); },
       "Shape: [3, 1099511627776, 1099511627776]" + too_large},
      {__LINE__, message_of<ShapeError>, [&] { Multiplicative bad({.query = kMany, .memory = 4, .heads = kMany}, rng); },
       "Shape: [4, 1099511627776, 1099511627776]" + too_large},
  }, file);
  CHECK(rng.position() == 0u);
}

TEST_CASE("attentions refuse memories and lengths that do not fit", "[errors][memory_attention]") {
  const Operands o;
  const Additive a({.query = 3, .memory = 4, .units = 2});
  const Multiplicative m({.query = 3, .memory = 4});
  const Tensor integers = ones({2, 5, 4}, {.dtype = DType::int32}), numbers = ones({2}), too_many = {1, 2, 3};
  const Tensor too_long = {5, 6}, negative = Tensor{-1, 2}.to(DType::int64), column = {{1}, {2}};
  check_errors({
      {__LINE__, message_of<Error>, [&] { a.prepare(o.none); }, additive + "the memory" + undefined},
      {__LINE__, message_of<ShapeError>, [&] { a.prepare(ones({5, 4})); }, additive + "the memory is [5, 4]; it must be [batch, places, 4]."},
      {__LINE__, message_of<ShapeError>, [&] { m.prepare(ones({2, 5, 3})); },
       multiplicative + "the memory is [2, 5, 3]; it must be [batch, places, 4]."},
      {__LINE__, message_of<DTypeError>, [&] { m.prepare(integers); }, multiplicative + "the memory is int32; it must be of a floating type."},
      {__LINE__, message_of<DTypeError>, [&] { a.prepare(o.memory, numbers); },
       additive + "the lengths are float32; they must be int32 or int64."},
      {__LINE__, message_of<ShapeError>, [&] { a.prepare(o.memory, too_many); },
       additive + "the lengths are [3]; with a memory of [2, 5, 4] they must be [2]."},
      {__LINE__, message_of<ShapeError>, [&] { m.prepare(o.memory, column); },
       multiplicative + "the lengths are [2, 1]; with a memory of [2, 5, 4] they must be [2]."},
      {__LINE__, message_of<IndexError>, [&] { a.prepare(o.memory, too_long); },
       additive + "length 6 of row 1 is out of range for a memory of [2, 5, 4]; it must be in [0, 5]."},
      {__LINE__, message_of<IndexError>, [&] { m.prepare(o.memory, negative); },
       multiplicative + "length -1 of row 0 is out of range for a memory of [2, 5, 4]; it must be in [0, 5]."},
  }, file);
}

TEST_CASE("attentions refuse queries that do not fit, and memories that others have prepared", "[errors][memory_attention]") {
  const Operands o;
  const Additive a({.query = 3, .memory = 4, .units = 2}), wide({.query = 3, .memory = 4, .units = 3, .heads = 2});
  const Multiplicative m({.query = 3, .memory = 4});
  const nn::AttentionMemory of_a = a.prepare(o.memory), of_wide = wide.prepare(o.memory), of_m = m.prepare(o.memory), empty;
  const nn::AttentionMemory of_two = nn::repeated(of_a, 2), of_many = nn::repeated(of_a, kMany);
  nn::AttentionMemory mixed = of_m, masked = of_m;
  mixed.values = ones({1, 5, 4});
  masked.mask = ones({2, 5}, {DType::bool8});
  check_errors({
      {__LINE__, message_of<Error>, [&] { a(o.query, empty); }, additive + "the memory is empty; it must be one that `prepare` has made."},
      {__LINE__, message_of<ShapeError>, [&] { a(o.query, of_wide); },
       additive + "the memory's keys are [2, 2, 5, 3] beside a v; they must be [batch, 1, places, 2] beside a v, as this attention prepares them."},
      {__LINE__, message_of<ShapeError>, [&] { a(o.query, of_m); },
       additive + "the memory's keys are [2, 1, 5, 3]; they must be [batch, 1, places, 2] beside a v, as this attention prepares them."},
      {__LINE__, message_of<ShapeError>, [&] { m(o.query, of_a); },
       multiplicative + "the memory's keys are [2, 1, 5, 2] beside a v; they must be [batch, 1, places, 3] without a v, as this attention prepares them."},
      {__LINE__, message_of<Error>, [&] { m(o.none, of_m); }, multiplicative + "the query" + undefined},
      {__LINE__, message_of<ShapeError>, [&] { m(ones({2, 4}), of_m); }, multiplicative + "the query is [2, 4]; it must be [rows, 3]."},
      {__LINE__, message_of<ShapeError>, [&] { a(ones({2, 1, 3}), of_a); }, additive + "the query is [2, 1, 3]; it must be [rows, 3]."},
      {__LINE__, message_of<ShapeError>, [&] { a(ones({4, 3}), of_a); },
       additive + "the query has 4 rows and the memory 2; there must be as many of both."},
      {__LINE__, message_of<ShapeError>, [&] { a(ones({3, 3}), of_two); },
       additive + "the query has 3 rows and the memory 2, each shared by 2; there must be 2 or 4."},
      {__LINE__, message_of<Error>, [&] { nn::repeated(of_a, 0); },
       "repeated: 0 rows were to share each row of the memory; one is the least."},
      {__LINE__, message_of<ShapeError>, [&] { nn::repeated(of_many, kMany); }, "Shape: [2, 1099511627776, 1099511627776]" + too_large},
      {__LINE__, message_of<ShapeError>, [&] { m(o.query, mixed); },
       multiplicative + "the memory's keys are [2, 1, 5, 3] and its values [1, 5, 4]; the values must be [2, 5, features]."},
      {__LINE__, message_of<ShapeError>, [&] { m(o.query, masked); },
       multiplicative + "the memory's keys are [2, 1, 5, 3] and its mask [2, 5]; the mask must be [2, 1, 5]."},
  }, file);
}

TEST_CASE("cells that attend refuse options that make no sense", "[errors][memory_attention]") {
  const nn::RnnCell cell(3 + 4, 3), small(3, 3), other(7, 5);
  const Silent silent{cell};
  const Additive a({.query = 3, .memory = 4, .units = 2});
  Rng rng(3);
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { nn::AttentionCell bad(cell, a, {.attention_size = -2}, rng); },
       attending + "an attention of -2 features was asked for; it must have one or more, or 0 to be the context."},
      {__LINE__, message_of<Error>, [&] { nn::AttentionCell bad(cell, a, {.bias = true}, rng); },
       attending + "a bias or an activation was asked for without an attention_size; they belong to its layer."},
      {__LINE__, message_of<Error>, [&] { nn::AttentionCell bad(cell, a, {.activation = Activation::tanh}, rng); },
       attending + "a bias or an activation was asked for without an attention_size; they belong to its layer."},
      {__LINE__, message_of<Error>, [&] { nn::AttentionCell bad(cell, a, {.query_state = true, .output_size = 3}, rng); },
       attending + "output_size is 3; it belongs to query_state with an attention_size."},
      {__LINE__, message_of<Error>, [&] { nn::AttentionCell bad(silent, a, {.attention_size = 2, .query_state = true}, rng); },
       attending + "the cell does not tell how many outputs it has; give the option output_size."},
      {__LINE__, message_of<ShapeError>, [&] { nn::AttentionCell bad(cell, a, {.attention_size = 2, .query_state = true, .output_size = 4}, rng); },
       attending + "the option output_size is 4 and the cell has 3 outputs; they must be equal."},
      {__LINE__, message_of<ShapeError>, [&] { nn::AttentionCell bad(other, a, {}, rng); },
       attending + "the cell gives 5 features and the attention takes queries of 3; they must be equal."},
      {__LINE__, message_of<ShapeError>, [&] { nn::AttentionCell bad(small, a, {}, rng); },
       attending + "the cell takes 3 features and is fed 4 of the attention; it must take these and the input's."},
  }, file);
  CHECK(rng.position() == 0u);
}

TEST_CASE("cells that attend refuse to step without a memory, and inputs and states that do not fit it", "[errors][memory_attention]") {
  const Operands o;
  const Additive a({.query = 3, .memory = 4, .units = 2});
  nn::AttentionCell without(nn::RnnCell(2 + 4, 3), a);
  nn::AttentionCell cell = without;
  nn::AttentionCell unfed(nn::RnnCell(2, 3), a, {.input_feeding = false});
  cell.attend(o.memory);
  unfed.attend(o.memory);
  const Tensor x = ones({2, 2}), three = ones({3, 2}), narrow_one = ones({2, 3});
  const auto state = cell.zero_state(2);
  auto other_rows = state, other_size = state, empty = state;
  other_rows.attention = ones({3, 4});
  other_size.attention = narrow_one;
  empty.attention = Tensor();
  const std::string no_memory = attending + "there is no memory yet; call attend with one first.";
  check_errors({
      {__LINE__, message_of<Error>, [&] { without.zero_state(2); }, no_memory},
      {__LINE__, message_of<Error>, [&] { without.initial_state(state.cell); }, no_memory},
      {__LINE__, message_of<Error>, [&] { without(x, state); }, no_memory},
      {__LINE__, message_of<ShapeError>, [&] { cell.zero_state(3); },
       attending + "the state has 3 rows and the memory 2; there must be as many of both."},
      {__LINE__, message_of<ShapeError>, [&] { cell.initial_state({ones({4, 3})}); },
       attending + "the state has 4 rows and the memory 2; there must be as many of both."},
      {__LINE__, message_of<Error>, [&] { cell(o.none, state); }, attending + "the input" + undefined},
      {__LINE__, message_of<ShapeError>, [&] { cell(ones({2, 1, 2}), state); }, attending + "the input is [2, 1, 2]; it must be [rows, features]."},
      {__LINE__, message_of<ShapeError>, [&] { unfed(Tensor(1.0f), state); }, attending + "the input is []; it must be [rows, ...]."},
      {__LINE__, message_of<ShapeError>, [&] { cell(three, state); },
       attending + "the input has 3 rows and the memory 2; there must be as many of both."},
      {__LINE__, message_of<Error>, [&] { cell(x, empty); },
       attending + "the state's attention is undefined; a state comes from zero_state, initial_state or a step."},
      {__LINE__, message_of<ShapeError>, [&] { cell(x, other_rows); },
       attending + "the state's attention is [3, 4]; with an input of [2, 2] it must be [2, 4]."},
      {__LINE__, message_of<ShapeError>, [&] { cell(x, other_size); },
       attending + "the state's attention is [2, 3]; with an input of [2, 2] it must be [2, 4]."},
  }, file);
}

TEST_CASE("a cell whose output is no query says so, and a failed attend leaves the memory", "[errors][memory_attention]") {
  const Operands o;
  nn::AttentionCell cell(Silent{nn::RnnCell(2 + 4, 5)}, Additive({.query = 3, .memory = 4, .units = 2}));
  cell.attend(o.memory);
  const Tensor x = ones({2, 2}), keys = cell.memory().keys, too_long = {9, 1};
  const auto state = cell.zero_state(2);
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { cell(x, state); }, additive + "the query is [2, 5]; it must be [rows, 3]."},
      {__LINE__, message_of<IndexError>, [&] { cell.attend(o.memory, too_long); },
       additive + "length 9 of row 0 is out of range for a memory of [2, 5, 4]; it must be in [0, 5]."},
  }, file);
  CHECK(cell.memory().keys.is_same(keys));
}
