// Integers that divide, bits, and questions that are answered with true or false.
#include "tests/rules.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

constexpr DType every_integer[] = {DType::int8, DType::int16, DType::int32, DType::int64, DType::uint8};
constexpr DType every_type[] = {DType::float16, DType::bfloat16, DType::float32, DType::float64, DType::int8,
                                DType::int16,   DType::int32,    DType::int64,   DType::uint8,   DType::bool8};

}  // namespace

TEST_CASE("whole numbers are their own floor, ceiling, rounding and truncation, in every integer type", "[bits]") {
  for (const DType type : every_integer) {
    const Tensor x = from_doubles({0, 1, 5, 100}, {4}, type);
    for (const char* name : {"ceil", "floor", "round", "trunc"}) CHECK(same(unary_functions().at(name)(x), x));
    CHECK(same(sign(x), from_doubles({0, 1, 1, 1}, {4}, type)));
    CHECK(same(relu6(x), from_doubles({0, 1, 5, 6}, {4}, type)));
    if (type == DType::uint8) continue;
    const Tensor below = from_doubles({-100, -1}, {2}, type);
    CHECK(same(sign(below), from_doubles({-1, -1}, {2}, type)));
    CHECK(same(relu6(below), from_doubles({0, 0}, {2}, type)));
    CHECK(same(floor(below), below));
  }
}

TEST_CASE("integers divide with Python's rounding, and by zero give 0", "[bits]") {
  const std::vector<double> a = {7, -7, 7, -7, 6, -6, 5, 0}, b = {2, 2, -2, -2, 3, 3, 0, 0};
  for (const DType type : {DType::int8, DType::int16, DType::int32, DType::int64}) {
    const Tensor x = from_doubles(a, {8}, type), y = from_doubles(b, {8}, type);
    CHECK(same(floor_divide(x, y), from_doubles({3, -4, -4, 3, 2, -2, 0, 0}, {8}, type)));  // 7 // 2 and so on
    CHECK(same(remainder(x, y), from_doubles({1, 1, -1, -1, 0, 0, 0, 0}, {8}, type)));
    CHECK(same(fmod(x, y), from_doubles({1, -1, 1, -1, 0, 0, 0, 0}, {8}, type)));  // C's %
    CHECK(same(x % y, remainder(x, y)));
  }
  const Tensor bytes = from_doubles({200, 7, 9}, {3}, DType::uint8);
  const Tensor divisors = from_doubles({7, 255, 0}, {3}, DType::uint8);
  CHECK(same(floor_divide(bytes, divisors), from_doubles({28, 0, 0}, {3}, DType::uint8)));
  CHECK(same(bytes % divisors, from_doubles({4, 7, 0}, {3}, DType::uint8)));
  const Tensor smallest = from_vector(std::vector<std::int32_t>{INT32_MIN});
  CHECK(same(floor_divide(smallest, -1), smallest));  // wraps around
  CHECK(same(smallest % -1, Tensor{0}));
  CHECK(same(fmod(smallest, -1), Tensor{0}));
  CHECK(same(fmax(Tensor{1, 5}, Tensor{3, 2}), {3, 5}));
  CHECK(same(fmin(Tensor{1, 5}, Tensor{3, 2}), {1, 2}));
}

TEST_CASE("bits combine in every integer type, and in bool", "[bits]") {
  for (const DType type : every_integer) {
    const Tensor a = from_doubles({12, 5, 127, 0}, {4}, type), b = from_doubles({10, 5, 1, 9}, {4}, type);
    CHECK(same(bitwise_and(a, b), from_doubles({8, 5, 1, 0}, {4}, type)));  // 1100 & 1010 = 1000
    CHECK(same(bitwise_or(a, b), from_doubles({14, 5, 127, 9}, {4}, type)));
    CHECK(same(bitwise_xor(a, b), from_doubles({6, 0, 126, 9}, {4}, type)));
    const double inverse = type == DType::uint8 ? 256.0 : 0.0;
    CHECK(same(~a, from_doubles({inverse - 13, inverse - 6, inverse - 128, inverse - 1}, {4}, type)));
    CHECK(same((a & b) | (a ^ b), a | b));
    CHECK(same(a & 4, from_doubles({4, 4, 4, 0}, {4}, type)));
    CHECK(same(1 | a, a | 1));
    CHECK(same(3 ^ a, a ^ 3));
  }
  const Tensor p = {true, true, false, false}, q = {true, false, true, false};
  CHECK(same(p & q, {true, false, false, false}));
  CHECK(same(p | q, {true, true, true, false}));
  CHECK(same(p ^ q, {false, true, true, false}));
  CHECK(same(~p, {false, false, true, true}));
  CHECK(same(logical_xor(p, q), p ^ q));
}

TEST_CASE("what is true is not false at any size, nor through a view", "[bits]") {
  for (const std::int64_t size : {1, 31, 33, 1000}) {
    const Tensor x = greater(random_in(-1, 1, {size, 2}, DType::float32, 5), 0);
    CHECK(same(logical_not(x), equal(x, false)));
    CHECK(same(logical_not(x.index({all, 1})), equal(x.index({all, 1}), false)));
    CHECK(same(bitwise_not(transpose(x)), equal(transpose(x), false)));
  }
}

TEST_CASE("shifts keep the sign, and beyond the width nothing else", "[bits]") {
  CHECK(same(Tensor{1, -3, 5} << 2, {4, -12, 20}));
  CHECK(same(Tensor{9, -9, 5} >> 1, {4, -5, 2}));  // toward minus infinity
  CHECK(same(1 << Tensor{0, 3, 31}, {1, 8, INT32_MIN}));
  CHECK(same(64 >> Tensor{1, 2}, {32, 16}));
  CHECK(same(Tensor{7, -7, 7} << Tensor{32, 40, -1}, {0, 0, 0}));
  CHECK(same(Tensor{7, -7, -7} >> Tensor{32, 40, -1}, {0, -1, -1}));
  const Tensor bytes = from_doubles({200, 255}, {2}, DType::uint8);
  const Tensor narrow_ones = from_doubles({-128, 64}, {2}, DType::int8);
  CHECK(same(bytes << 1, from_doubles({144, 254}, {2}, DType::uint8)));
  CHECK(same(bytes >> 4, from_doubles({12, 15}, {2}, DType::uint8)));
  CHECK(same(bytes >> 8, from_doubles({0, 0}, {2}, DType::uint8)));
  CHECK(same(narrow_ones >> 7, from_doubles({-1, 0}, {2}, DType::int8)));
  CHECK(same(narrow_ones << 1, from_doubles({0, -128}, {2}, DType::int8)));
  CHECK(same(tile(Tensor{9, -9, 5}, {400}) >> tile(Tensor{1, 40, 0}, {400}), tile(Tensor{4, -1, 5}, {400})));
}

TEST_CASE("isnan, isinf and isfinite answer for every type", "[bits]") {
  for (const DType type : every_type) {
    const Tensor x = from_doubles({0, 1, 1}, {3}, type);
    CHECK(same(isfinite(x), {true, true, true}));
    CHECK(same(isnan(x), {false, false, false}));
    CHECK(same(isinf(x), {false, false, false}));
    if (!is_floating(type)) continue;
    const Tensor odd = from_doubles({kNaN, kInfinity, -kInfinity, 1}, {4}, type);
    CHECK(same(isnan(odd), {true, false, false, false}));
    CHECK(same(isinf(odd), {false, true, true, false}));
    CHECK(same(isfinite(odd), {false, false, false, true}));
    CHECK(same(isnan(odd.index({from(-1, -2)})), {false, false}));  // 1 and infinity, backwards
  }
  CHECK(isnan(zeros({0, 3})).shape() == Shape{0, 3});
}

TEST_CASE("is_close compares element by element as NumPy does", "[bits]") {
  const Tensor a = {1.0, 1.0, kInfinity, kInfinity, kNaN, 0.0}, b = {1.000009, 1.00002, kInfinity, 1.0, kNaN, 1e-9};
  CHECK(same(is_close(a, b), {true, false, true, false, false, true}));
  CHECK(same(is_close(a, b, 1e-5, 1e-8, true), {true, false, true, false, true, true}));
  CHECK(same(is_close(Tensor{1.0, 2.0}, Tensor(1.1), 0, 0.2), {true, false}));  // broadcasts
  CHECK(same(is_close(Tensor{10, 20}, Tensor{11, 20}), {false, true}));
  CHECK(same(is_close(Tensor{-kInfinity}, Tensor{kInfinity}), {false}));
}

TEST_CASE("operations on bits work on views and stretched operands", "[bits]") {
  const Tensor x = reshape(arange(12), {3, 4});
  CHECK(same(bitwise_and(transpose(x), 1), transpose(x) % 2));
  const Tensor expected = {{9, 9, 11, 11}, {5, 5, 7, 7}, {1, 1, 3, 3}};  // 9, 5 and 1 with 0 to 3
  CHECK(same(bitwise_or(x.index({from(-1, -1), range(1, 2)}), x[0]), expected.to(DType::int64)));
  CHECK(bitwise_xor(x.index({all, range(2, 2)}), 3).shape() == Shape{3, 0});
}
