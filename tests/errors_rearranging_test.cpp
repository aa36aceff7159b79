// Bad input to repeating, moving and padding, to products and variances, and to random numbers: the right exception,
// word for word, the operands as they were, and nothing leaked.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_rearranging_test.cpp";
const std::string mixed = "; integers go with numeric tensors, floating numbers with floating ones, true and false with bool.";
const std::string rank_two = " is out of range for rank 2; it must be in [-2, 2).";
const std::string floating = "; it must be a floating type.";

/// Operands of the tables below, the same in each test.
struct Operands {
  Tensor x = {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}};
  Tensor integers = {{1, 2, 3}, {4, 5, 6}};
  Tensor four = zeros({4});
  Tensor none = zeros({0, 3});
  Tensor eight = zeros({1, 1, 1, 1, 1, 1, 1, 4});
  Tensor undefined;

  ~Operands() {  // nothing may have changed them
    CHECK(same(x, {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}}));
    CHECK(same(integers, {{1, 2, 3}, {4, 5, 6}}));
    CHECK(x.version() == 0);
    CHECK(four.version() == 0);
  }
};

}  // namespace

TEST_CASE("repeating and moving refuse counts and axes that do not fit", "[errors]") {
  const Operands o;
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { tile(o.x, {2, -1}); }, "tile: count -1 is negative; counts must be >= 0."},
      {__LINE__, message_of<ShapeError>, [&] { tile(o.x, {1, 1, 1, 1, 1, 1, 1, 1, 1}); },
       "tile: 9 counts were given; a tensor has at most 8 axes."},
      {__LINE__, message_of<ShapeError>, [&] { tile(o.x, {INT64_MAX, 1}); },
       "tile: 9223372036854775807 times axis 0 of shape [2, 3] would be 2^63 places or more."},
      {__LINE__, message_of<ShapeError>, [&] { tile(o.x, {INT64_MAX / 4, 1}); },
       "Shape: [4611686018427387902, 3] has 2^63 elements or more; "
       "the product of the sizes above 0 must be below 2^63."},
      {__LINE__, message_of<Error>, [&] { tile(o.undefined, {1}); },
       "tile: the tensor is undefined; give it a value first."},
      {__LINE__, message_of<ShapeError>, [&] { repeat(o.x, -1, 0); },
       "repeat: count -1 is negative; counts must be >= 0."},
      {__LINE__, message_of<IndexError>, [&] { repeat(o.x, 2, 2); }, "repeat: axis 2" + rank_two},
      {__LINE__, message_of<ShapeError>, [&] { repeat(o.x, Tensor{1, 2, 3}, 0); },
       "repeat: the counts are [3] and axis 0 of shape [2, 3] has size 2; "
       "there must be one count for each place, or one for all."},
      {__LINE__, message_of<ShapeError>, [&] { repeat(o.x, Tensor{{1, 2}}, 0); },
       "repeat: the counts are [1, 2] and axis 0 of shape [2, 3] has size 2; "
       "there must be one count for each place, or one for all."},
      {__LINE__, message_of<DTypeError>, [&] { repeat(o.x, Tensor{1.0f, 2.0f}, 0); },
       "repeat: the counts are float32; they must be int32 or int64."},
      {__LINE__, message_of<ShapeError>, [&] { repeat(o.x, Tensor{1, -2}, 0); },
       "repeat: count -2 is negative; counts must be >= 0."},
      {__LINE__, message_of<IndexError>, [&] { flip(o.x, 2); }, "flip: axis 2" + rank_two},
      {__LINE__, message_of<ShapeError>, [&] { flip(o.x, {0, -2}); },
       "flip: axis -2 is named twice for shape [2, 3]; name each once."},
      {__LINE__, message_of<IndexError>, [&] { roll(o.x, 1, -3); }, "roll: axis -3" + rank_two},
      {__LINE__, message_of<ShapeError>, [&] { roll(o.x, {1, 2}, {0}); },
       "roll: 2 shifts and 1 axes were given; there must be one shift for each axis."},
  }, file);
}

TEST_CASE("pad refuses what its mode cannot add", "[errors]") {
  const Operands o;
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { pad(o.x, {{1, 1}}); },
       "pad: 1 paddings were given for shape [2, 3]; it needs 2."},
      {__LINE__, message_of<ShapeError>, [&] { pad(o.x, {{0, 0}, {-1, 2}}); },
       "pad: the padding of axis 1 is {-1, 2}; neither must be negative."},
      {__LINE__, message_of<ShapeError>, [&] { pad(o.x, {{0, 0}, {3, 0}}, PadMode::reflect); },
       "pad: the padding of axis 1 of shape [2, 3] is {3, 0}; mode reflect can add at most 2 on each side."},
      {__LINE__, message_of<ShapeError>, [&] { pad(o.x, {{0, 0}, {0, 4}}, PadMode::symmetric); },
       "pad: the padding of axis 1 of shape [2, 3] is {0, 4}; mode symmetric can add at most 3 on each side."},
      {__LINE__, message_of<ShapeError>, [&] { pad(o.none, {{1, 0}, {0, 0}}, PadMode::edge); },
       "pad: the padding of axis 0 of shape [0, 3] is {1, 0}; mode edge can add at most 0 on each side."},
      {__LINE__, message_of<ShapeError>, [&] { pad(o.none, {{0, 2}, {0, 0}}, PadMode::wrap); },
       "pad: the padding of axis 0 of shape [0, 3] is {0, 2}; mode wrap can add at most 0 on each side."},
      {__LINE__, message_of<ShapeError>, [&] { pad(o.none, {{0, 1}, {0, 0}}, PadMode::reflect); },
       "pad: the padding of axis 0 of shape [0, 3] is {0, 1}; mode reflect can add at most 0 on each side."},
      {__LINE__, message_of<ShapeError>, [&] { pad(o.x, {{0, INT64_MAX}, {0, 0}}); },
       "pad: axis 0 would have 2^63 places or more."},
      {__LINE__, message_of<DTypeError>, [&] { pad(o.integers, {{1, 0}, {0, 0}}, PadMode::constant, 1.5); },
       "pad: the number 1.5 does not go with int32" + mixed},
      {__LINE__, message_of<DTypeError>, [&] { pad(Tensor{true}, {{1, 0}}, PadMode::constant, 1); },
       "pad: the number 1 does not go with bool" + mixed},
  }, file);
}

TEST_CASE("operations on sequences refuse lengths that do not fit", "[errors]") {
  const Operands o;
  const std::string range = " is out of range for axis 1 of shape [2, 3]; it must be in [0, 3].";
  check_errors({
      {__LINE__, message_of<IndexError>, [&] { reverse_sequence(o.x, Tensor{1, 4}); },
       "reverse_sequence: length 4 of batch entry 1" + range},
      {__LINE__, message_of<IndexError>, [&] { reverse_sequence(o.x, Tensor{-1, 4}); },
       "reverse_sequence: length -1 of batch entry 0" + range},
      {__LINE__, message_of<DTypeError>, [&] { reverse_sequence(o.x, Tensor{1.0f, 2.0f}); },
       "reverse_sequence: the lengths are float32; they must be int32 or int64."},
      {__LINE__, message_of<ShapeError>, [&] { reverse_sequence(o.x, Tensor{1}); },
       "reverse_sequence: the lengths are [1] and axis 0 of shape [2, 3] has size 2; "
       "there must be one length for each batch entry."},
      {__LINE__, message_of<ShapeError>, [&] { reverse_sequence(o.x, Tensor{1, 2}, 0, -2); },
       "reverse_sequence: the sequence axis and the batch axis are both 0; they must differ."},
      {__LINE__, message_of<IndexError>, [&] { reverse_sequence(o.four, Tensor{1}); },
       "reverse_sequence: axis 1 is out of range for rank 1; it must be in [-1, 1)."},
      {__LINE__, message_of<DTypeError>, [&] { sequence_mask(o.x); },
       "sequence_mask: the lengths are float32; they must be of an integer type."},
      {__LINE__, message_of<ShapeError>, [&] { sequence_mask(o.eight.to(DType::int32)); },
       "sequence_mask: the lengths have 8 axes already; that is the most."},
  }, file);
}

TEST_CASE("views refuse axes, sizes and windows that do not fit", "[errors]") {
  const Operands o;
  const std::string size = "unflatten: axis 1 of shape [2, 3] has size 3, which does not become ";
  const std::string multiply = "; the sizes must multiply to it, and one of them may be -1.";
  check_errors({
      {__LINE__, message_of<IndexError>, [&] { move_axis(o.x, 0, 2); }, "move_axis: axis 2" + rank_two},
      {__LINE__, message_of<ShapeError>, [&] { move_axis(o.x, {0, 1}, {0}); },
       "move_axis: 2 sources and 1 destinations were given; there must be as many of each."},
      {__LINE__, message_of<ShapeError>, [&] { move_axis(o.x, {0, -2}, {0, 1}); },
       "move_axis: axis -2 and destination 1 for shape [2, 3] name an axis or a place twice; name each once."},
      {__LINE__, message_of<ShapeError>, [&] { move_axis(o.x, {0, 1}, {1, -1}); },
       "move_axis: axis 1 and destination -1 for shape [2, 3] name an axis or a place twice; name each once."},
      {__LINE__, message_of<ShapeError>, [&] { unflatten(o.x, 1, {2, 2}); }, size + "[2, 2]" + multiply},
      {__LINE__, message_of<ShapeError>, [&] { unflatten(o.x, 1, {-1, 2}); }, size + "[-1, 2]" + multiply},
      {__LINE__, message_of<ShapeError>, [&] { unflatten(o.x, 1, {-1, -1}); }, size + "[-1, -1]" + multiply},
      {__LINE__, message_of<ShapeError>, [&] { unflatten(o.x, 1, {-3, -1}); }, size + "[-3, -1]" + multiply},
      {__LINE__, message_of<ShapeError>, [&] { unflatten(o.none, 0, {0, -1}); },
       "unflatten: axis 0 of shape [0, 3] has size 0, which does not become [0, -1]" + multiply},
      {__LINE__, message_of<ShapeError>, [&] { unflatten(o.eight, 7, {2, 2}); },
       "unflatten: the result would have more than 8 axes."},
      {__LINE__, message_of<ShapeError>, [&] { array_split(o.x, 0); },
       "array_split: 0 parts were asked for; the count must be >= 1."},
      {__LINE__, message_of<ShapeError>, [&] { broadcast_tensors({o.x, o.four}); },
       "broadcast_tensors: shapes do not broadcast: a is [2, 3] and b is [4]; "
       "sizes 3 and 4 of axis -1 must be equal or 1."},
      {__LINE__, message_of<ShapeError>, [&] { meshgrid({o.four, o.x}); },
       "meshgrid: vector 1 is [2, 3]; it must have one axis, or none."},
      {__LINE__, message_of<ShapeError>, [&] { meshgrid(std::vector<Tensor>(9, o.four)); },
       "meshgrid: 9 vectors were given; a tensor has at most 8 axes."},
      {__LINE__, message_of<ShapeError>, [&] { sliding_window(o.x, 1, 4); },
       "sliding_window: windows of 4 do not fit axis 1 of shape [2, 3]; the size must be in [1, 3]."},
      {__LINE__, message_of<ShapeError>, [&] { sliding_window(o.x, 1, 0); },
       "sliding_window: windows of 0 do not fit axis 1 of shape [2, 3]; the size must be in [1, 3]."},
      {__LINE__, message_of<ShapeError>, [&] { sliding_window(o.x, 1, 2, 0); },
       "sliding_window: the step is 0; it must be >= 1."},
      {__LINE__, message_of<ShapeError>, [&] { sliding_window(o.eight, 7, 2); },
       "sliding_window: shape [1, 1, 1, 1, 1, 1, 1, 4] has 8 axes already; that is the most."},
      {__LINE__, message_of<ShapeError>, [&] { sliding_window(o.four, 0, 2).fill(1); },
       "fill: elements of the view of shape [3, 2] share their places (sliding_window); write to a copy."},
  }, file);
}

TEST_CASE("products and variances refuse axes, types and reductions of nothing", "[errors]") {
  const Operands o;
  const std::string nothing = ": shape [0, 3] has no elements to reduce; each reduced axis must have size 1 or more.";
  check_errors({
      {__LINE__, message_of<IndexError>, [&] { prod(o.x, 2); }, "prod: axis 2" + rank_two},
      {__LINE__, message_of<ShapeError>, [&] { prod(o.x, {1, -1}); },
       "prod: axis -1 is named twice for shape [2, 3]; name each once."},
      {__LINE__, message_of<IndexError>, [&] { prod(o.x, std::int64_t{1} << 32); },  // not axis 0
       "prod: axis 2147483647" + rank_two},
      {__LINE__, message_of<DTypeError>, [&] { var(o.integers); }, "var: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { capstan::std(o.integers); }, "std: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { moments(o.integers); }, "moments: the tensor is int32" + floating},
      {__LINE__, message_of<ShapeError>, [&] { var(o.none, 0); }, "var" + nothing},
      {__LINE__, message_of<ShapeError>, [&] { capstan::std(o.none); }, "std" + nothing},
      {__LINE__, message_of<ShapeError>, [&] { moments(o.none, {0, 1}); }, "moments" + nothing},
      {__LINE__, message_of<IndexError>, [&] { var(o.x, -3); }, "var: axis -3" + rank_two},
      {__LINE__, message_of<Error>, [&] { var(o.x, 0, {.correction = kNaN}); },
       "var: the correction is nan; it must be finite."},
      {__LINE__, message_of<Error>, [&] { capstan::std(o.x, 0, {.correction = kInfinity}); },
       "std: the correction is inf; it must be finite."},
  }, file);
}

TEST_CASE("random numbers refuse parameters outside their distribution, and take nothing from the generator", "[errors]") {
  const Operands o;
  Rng rng(1);
  const TensorOptions int32{.dtype = DType::int32}, int8{.dtype = DType::int8}, bytes{.dtype = DType::uint8};
  const Tensor nothing_left = {{0.0f, 1.0f}, {static_cast<float>(-kInfinity), static_cast<float>(-kInfinity)}};
  const std::string choose =
      " of the logits leaves nothing to choose from; it must have no NaN and no +infinity, and one value at least above "
      "-infinity.";
  check_errors({
      {__LINE__, message_of<Error>, [&] { uniform({2}, 0, kInfinity, rng); },
       "uniform: the range is [0, inf); both limits and their difference must be finite."},
      {__LINE__, message_of<Error>, [&] { uniform({2}, -1e308, 1e308, rng); },
       "uniform: the range is [-1e+308, 1e+308); both limits and their difference must be finite."},
      {__LINE__, message_of<Error>, [&] { exponential({2}, -1, rng); },
       "exponential: the scale is -1; it must be >= 0."},
      {__LINE__, message_of<DTypeError>, [&] { exponential({2}, 1, rng, int32); },
       "exponential: the type is int32; it must be a floating type."},
      {__LINE__, message_of<Error>, [&] { gumbel({2}, 0, kNaN, rng); }, "gumbel: the scale is nan; it must be >= 0."},
      {__LINE__, message_of<Error>, [&] { bernoulli(Tensor{0.5f, 1.5f}, rng); },
       "bernoulli: the probabilities are from 0.5 to 1.5; each must be in [0, 1]."},
      {__LINE__, message_of<Error>, [&] { bernoulli(Tensor{0.5, kNaN}, rng); },
       "bernoulli: the probabilities are from nan to nan; each must be in [0, 1]."},
      {__LINE__, message_of<DTypeError>, [&] { bernoulli(o.integers, rng); }, "bernoulli: the tensor is int32" + floating},
      {__LINE__, message_of<ShapeError>, [&] { categorical(o.four, 2, rng); },
       "categorical: the logits are [4]; they must be [batch, classes] with at least one class."},
      {__LINE__, message_of<ShapeError>, [&] { categorical(zeros({2, 0}), 2, rng); },
       "categorical: the logits are [2, 0]; they must be [batch, classes] with at least one class."},
      {__LINE__, message_of<ShapeError>, [&] { categorical(o.x, -1, rng); },
       "categorical: -1 choices were asked for; the count must be >= 0."},
      {__LINE__, message_of<DTypeError>, [&] { categorical(o.integers, 1, rng); },
       "categorical: the tensor is int32" + floating},
      {__LINE__, message_of<Error>, [&] { categorical(nothing_left, 3, rng); }, "categorical: row 1" + choose},
      {__LINE__, message_of<Error>, [&] { categorical(Tensor{{kInfinity, 0.0}}, 1, rng); }, "categorical: row 0" + choose},
      {__LINE__, message_of<DTypeError>, [&] { randint(0, 300, {2}, rng, bytes); },
       "randint: the range [0, 300) does not fit uint8, whose values are from 0 to 255."},
      {__LINE__, message_of<DTypeError>, [&] { randint(-129, 0, {2}, rng, int8); },
       "randint: the range [-129, 0) does not fit int8, whose values are from -128 to 127."},
      {__LINE__, message_of<DTypeError>, [&] { randint(0, 2, {2}, rng, {}); },
       "randint: the type is float32; it must be an integer type."},
  }, file);
  CHECK((rng.state() == RngState{1, 0, 0}));
}

TEST_CASE("a generator's state is read from its own text only", "[errors]") {
  const std::string like = "\" is no generator's state; it must read like philox4x32-10 seed=0 stream=0 position=0.";
  check_errors({
      {__LINE__, message_of<Error>, [&] { parse_rng_state(""); }, "parse_rng_state: \"" + like},
      {__LINE__, message_of<Error>, [&] { parse_rng_state("philox4x32-10 seed=1"); },
       "parse_rng_state: \"philox4x32-10 seed=1" + like},
      {__LINE__, message_of<Error>, [&] { parse_rng_state("philox4x32-10 seed=1 stream=-1 position=0"); },
       "parse_rng_state: \"philox4x32-10 seed=1 stream=-1 position=0" + like},
      {__LINE__, message_of<Error>, [&] { parse_rng_state("philox4x32-10 seed=1 stream=1 position=0x"); },
       "parse_rng_state: \"philox4x32-10 seed=1 stream=1 position=0x" + like},
      {__LINE__, message_of<Error>, [&] { parse_rng_state("philox4x32-10 seed=18446744073709551616 stream=1 position=0"); },
       "parse_rng_state: \"philox4x32-10 seed=18446744073709551616 stream=1 position=0" + like},
  }, file);
}

TEST_CASE("arange refuses a type that its numbers do not go with", "[errors]") {
  const std::string kinds = "; integers go with numeric types, floating numbers with floating ones.";
  const TensorOptions int64{.dtype = DType::int64}, bytes{.dtype = DType::uint8}, flags{.dtype = DType::bool8};
  check_errors({
      {__LINE__, message_of<DTypeError>, [&] { arange(0, 1.5, 1, int64); },
       "arange: from 0 to 1.5 in steps of 1 does not go with int64" + kinds},
      {__LINE__, message_of<DTypeError>, [&] { arange(0, 2, 1, flags); },
       "arange: from 0 to 2 in steps of 1 does not go with bool" + kinds},
      {__LINE__, message_of<DTypeError>, [&] { arange(0, 300, 1, bytes); },
       "arange: the number 299 is out of range for uint8."},
      {__LINE__, message_of<DTypeError>, [&] { arange(-1, 3, 1, bytes); },
       "arange: the number -1 is out of range for uint8."},
      {__LINE__, message_of<DTypeError>, [&] { arange(UINT64_MAX); },
       "arange: the number 1.84467441e+19 is out of range for int64."},
  }, file);
}
