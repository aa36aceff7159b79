// Element types: names, sizes, how they mix, and how values are converted.
#include "tests/support.hpp"

#include <iterator>
#include <optional>

using namespace capstan;
using namespace tests;

namespace {

constexpr DType every_type[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::int8,
                                DType::int16,   DType::int32,   DType::int64,   DType::uint8,    DType::bool8};

struct Promotion {
  DType a, b;
  std::optional<DType> result;  // nothing where the standard leaves the mix undefined
};

// Python Array API standard 2022.12, "Type Promotion Rules", the rows and columns of the types that Capstan has.
// Mixed integer and floating types, and bool beside numbers, are "not specified" there; here they are errors. The 16-bit
// floating types are not in the standard: NumPy's and PyTorch's rules.
const Promotion promotions[] = {
    // int8 with
    {DType::int8, DType::int8, DType::int8},
    {DType::int8, DType::int16, DType::int16},
    {DType::int8, DType::int32, DType::int32},
    {DType::int8, DType::int64, DType::int64},
    {DType::int8, DType::uint8, DType::int16},
    {DType::int8, DType::float16, {}},
    {DType::int8, DType::bfloat16, {}},
    {DType::int8, DType::float32, {}},
    {DType::int8, DType::float64, {}},
    {DType::int8, DType::bool8, {}},
    // int16 with
    {DType::int16, DType::int8, DType::int16},
    {DType::int16, DType::int16, DType::int16},
    {DType::int16, DType::int32, DType::int32},
    {DType::int16, DType::int64, DType::int64},
    {DType::int16, DType::uint8, DType::int16},
    {DType::int16, DType::float16, {}},
    {DType::int16, DType::bfloat16, {}},
    {DType::int16, DType::float32, {}},
    {DType::int16, DType::float64, {}},
    {DType::int16, DType::bool8, {}},
    // int32 with
    {DType::int32, DType::int8, DType::int32},
    {DType::int32, DType::int16, DType::int32},
    {DType::int32, DType::int32, DType::int32},
    {DType::int32, DType::int64, DType::int64},
    {DType::int32, DType::uint8, DType::int32},
    {DType::int32, DType::float16, {}},
    {DType::int32, DType::bfloat16, {}},
    {DType::int32, DType::float32, {}},
    {DType::int32, DType::float64, {}},
    {DType::int32, DType::bool8, {}},
    // int64 with
    {DType::int64, DType::int8, DType::int64},
    {DType::int64, DType::int16, DType::int64},
    {DType::int64, DType::int32, DType::int64},
    {DType::int64, DType::int64, DType::int64},
    {DType::int64, DType::uint8, DType::int64},
    {DType::int64, DType::float16, {}},
    {DType::int64, DType::bfloat16, {}},
    {DType::int64, DType::float32, {}},
    {DType::int64, DType::float64, {}},
    {DType::int64, DType::bool8, {}},
    // uint8 with
    {DType::uint8, DType::int8, DType::int16},
    {DType::uint8, DType::int16, DType::int16},
    {DType::uint8, DType::int32, DType::int32},
    {DType::uint8, DType::int64, DType::int64},
    {DType::uint8, DType::uint8, DType::uint8},
    {DType::uint8, DType::float16, {}},
    {DType::uint8, DType::bfloat16, {}},
    {DType::uint8, DType::float32, {}},
    {DType::uint8, DType::float64, {}},
    {DType::uint8, DType::bool8, {}},
    // float16 with
    {DType::float16, DType::int8, {}},
    {DType::float16, DType::int16, {}},
    {DType::float16, DType::int32, {}},
    {DType::float16, DType::int64, {}},
    {DType::float16, DType::uint8, {}},
    {DType::float16, DType::float16, DType::float16},
    {DType::float16, DType::bfloat16, DType::float32},
    {DType::float16, DType::float32, DType::float32},
    {DType::float16, DType::float64, DType::float64},
    {DType::float16, DType::bool8, {}},
    // bfloat16 with
    {DType::bfloat16, DType::int8, {}},
    {DType::bfloat16, DType::int16, {}},
    {DType::bfloat16, DType::int32, {}},
    {DType::bfloat16, DType::int64, {}},
    {DType::bfloat16, DType::uint8, {}},
    {DType::bfloat16, DType::float16, DType::float32},
    {DType::bfloat16, DType::bfloat16, DType::bfloat16},
    {DType::bfloat16, DType::float32, DType::float32},
    {DType::bfloat16, DType::float64, DType::float64},
    {DType::bfloat16, DType::bool8, {}},
    // float32 with
    {DType::float32, DType::int8, {}},
    {DType::float32, DType::int16, {}},
    {DType::float32, DType::int32, {}},
    {DType::float32, DType::int64, {}},
    {DType::float32, DType::uint8, {}},
    {DType::float32, DType::float16, DType::float32},
    {DType::float32, DType::bfloat16, DType::float32},
    {DType::float32, DType::float32, DType::float32},
    {DType::float32, DType::float64, DType::float64},
    {DType::float32, DType::bool8, {}},
    // float64 with
    {DType::float64, DType::int8, {}},
    {DType::float64, DType::int16, {}},
    {DType::float64, DType::int32, {}},
    {DType::float64, DType::int64, {}},
    {DType::float64, DType::uint8, {}},
    {DType::float64, DType::float16, DType::float64},
    {DType::float64, DType::bfloat16, DType::float64},
    {DType::float64, DType::float32, DType::float64},
    {DType::float64, DType::float64, DType::float64},
    {DType::float64, DType::bool8, {}},
    // bool with
    {DType::bool8, DType::int8, {}},
    {DType::bool8, DType::int16, {}},
    {DType::bool8, DType::int32, {}},
    {DType::bool8, DType::int64, {}},
    {DType::bool8, DType::uint8, {}},
    {DType::bool8, DType::float16, {}},
    {DType::bool8, DType::bfloat16, {}},
    {DType::bool8, DType::float32, {}},
    {DType::bool8, DType::float64, {}},
    {DType::bool8, DType::bool8, DType::bool8},
};

/// A tensor of 2 and 1, or of true and true.
Tensor sample(DType dtype) { return from_doubles({2, 1}, {2}, dtype); }

}  // namespace

TEST_CASE("types have NumPy's names and their sizes in bytes", "[dtype]") {
  CHECK(std::string(name(DType::float32)) == "float32");
  CHECK(std::string(name(DType::float64)) == "float64");
  CHECK(std::string(name(DType::int32)) == "int32");
  CHECK(std::string(name(DType::int64)) == "int64");
  CHECK(std::string(name(DType::uint8)) == "uint8");
  CHECK(std::string(name(DType::bool8)) == "bool");
  CHECK(std::string(name(DType::float16)) == "float16");
  CHECK(std::string(name(DType::bfloat16)) == "bfloat16");
  CHECK(std::string(name(DType::int8)) == "int8");
  CHECK(std::string(name(DType::int16)) == "int16");
  CHECK(size_of(DType::float16) == 2);
  CHECK(size_of(DType::bfloat16) == 2);
  CHECK(size_of(DType::int8) == 1);
  CHECK(size_of(DType::int16) == 2);
  CHECK(size_of(DType::float32) == 4);
  CHECK(size_of(DType::float64) == 8);
  CHECK(size_of(DType::int32) == 4);
  CHECK(size_of(DType::int64) == 8);
  CHECK(size_of(DType::uint8) == 1);
  CHECK(size_of(DType::bool8) == 1);
}

TEST_CASE("C++ types map to element types by size and sign", "[dtype]") {
  CHECK(dtype_of<float>() == DType::float32);
  CHECK(dtype_of<double>() == DType::float64);
  CHECK(dtype_of<bool>() == DType::bool8);
  CHECK(dtype_of<int>() == DType::int32);
  CHECK(dtype_of<long long>() == DType::int64);
  CHECK(dtype_of<std::int64_t>() == DType::int64);
  CHECK(dtype_of<unsigned char>() == DType::uint8);
  CHECK(dtype_of<const float>() == DType::float32);
  CHECK(dtype_of<float16>() == DType::float16);
  CHECK(dtype_of<bfloat16>() == DType::bfloat16);
  CHECK(dtype_of<signed char>() == DType::int8);
  CHECK(dtype_of<short>() == DType::int16);
}

TEST_CASE("types promote by the Array API table, row by row", "[dtype]") {
  CHECK(std::size(promotions) == std::size(every_type) * std::size(every_type));  // the table is whole
  for (const Promotion& row : promotions) {
    INFO(name(row.a) << " with " << name(row.b));
    if (row.result) CHECK(promote(row.a, row.b) == *row.result);
    else CHECK_THROWS_AS(promote(row.a, row.b), DTypeError);
  }
}

TEST_CASE("operations compute in the promoted type", "[dtype]") {
  for (const Promotion& row : promotions) {
    INFO(name(row.a) << " with " << name(row.b));
    const Tensor a = sample(row.a), b = sample(row.b);
    if (!row.result) {
      CHECK_THROWS_AS(a + b, DTypeError);
      CHECK_THROWS_AS(maximum(a, b), DTypeError);
      CHECK_THROWS_AS(equal(a, b), DTypeError);
      CHECK_THROWS_AS(concat({a, b}), DTypeError);
      continue;
    }
    CHECK(equal(a, b).dtype() == DType::bool8);
    CHECK(concat({a, b}).dtype() == *row.result);
    CHECK(where(Tensor{true, false}, a, b).dtype() == *row.result);
    if (*row.result == DType::bool8) continue;
    CHECK(same(a + b, from_doubles({4, 2}, {2}, *row.result)));
    CHECK(same(a * b, from_doubles({4, 1}, {2}, *row.result)));
    CHECK(same(maximum(a, b), from_doubles({2, 1}, {2}, *row.result)));
  }
}

TEST_CASE("a number takes the type of the tensor beside it", "[dtype]") {
  for (const DType type : every_type) {
    if (type == DType::bool8) continue;
    INFO(name(type));
    const Tensor x = sample(type);
    CHECK(same(x + 1, from_doubles({3, 2}, {2}, type)));
    CHECK(same(2 * x, from_doubles({4, 2}, {2}, type)));
    CHECK(same(5 - x, from_doubles({3, 4}, {2}, type)));
    CHECK(same(x + std::int64_t{1}, from_doubles({3, 2}, {2}, type)));
    CHECK(same(maximum(x, 2), from_doubles({2, 2}, {2}, type)));
    CHECK_THROWS_AS(x + true, DTypeError);
    if (is_floating(type)) CHECK(same(x + 0.5, from_doubles({2.5, 1.5}, {2}, type)));
    else CHECK_THROWS_AS(x + 0.5, DTypeError);
  }
  CHECK(same(equal(Tensor{true, false}, true), {true, false}));
  CHECK_THROWS_AS(equal(Tensor{true, false}, 1), DTypeError);
  CHECK_THROWS_AS((Tensor{1, 2} + (std::int64_t{1} << 40)), DTypeError);  // int32 cannot hold it
}

TEST_CASE("literals give the type of a tensor", "[dtype]") {
  CHECK(Tensor{1.0f}.dtype() == DType::float32);
  CHECK(Tensor{1.0}.dtype() == DType::float64);
  CHECK(Tensor{1}.dtype() == DType::int32);
  CHECK(Tensor{std::int64_t{1}}.dtype() == DType::int64);
  CHECK(Tensor{true}.dtype() == DType::bool8);
  CHECK(Tensor{static_cast<unsigned char>(1)}.dtype() == DType::uint8);
  CHECK(Tensor{1.0f, 2.0}.dtype() == DType::float64);  // mixes promote
  CHECK(Tensor{1, std::int64_t{2}}.dtype() == DType::int64);
  CHECK(same(Tensor{{1, 2.5f}, {3, 4}}, {{1.0f, 2.5f}, {3.0f, 4.0f}}));  // integers adapt to floating numbers
  CHECK(same(Tensor{{1.5, 2}, {3, 4}}, {{1.5, 2.0}, {3.0, 4.0}}));
  CHECK_THROWS_AS((Tensor{true, 1}), DTypeError);
  CHECK_THROWS_AS((Tensor{1.0f, false}), DTypeError);
}

TEST_CASE("casting floating numbers to integers truncates, saturates, and makes NaN 0", "[dtype]") {
  const Tensor x = {1.9, -1.9, 0.5, -0.5, 1e20, -1e20, kInfinity, -kInfinity, kNaN, 255.9, 256.0};
  CHECK(cast(x, DType::int32).to_vector<std::int32_t>() ==
        std::vector<std::int32_t>{1, -1, 0, 0, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN, 0, 255, 256});
  CHECK(cast(x, DType::int64).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{1, -1, 0, 0, INT64_MAX, INT64_MIN, INT64_MAX, INT64_MIN, 0, 255, 256});
  CHECK(cast(x, DType::uint8).to_vector<std::uint8_t>() ==
        std::vector<std::uint8_t>{1, 0, 0, 0, 255, 0, 255, 0, 0, 255, 255});
  CHECK(cast(x, DType::int8).to_vector<std::int8_t>() ==
        std::vector<std::int8_t>{1, -1, 0, 0, 127, -128, 127, -128, 0, 127, 127});
  CHECK(cast(x, DType::int16).to_vector<std::int16_t>() ==
        std::vector<std::int16_t>{1, -1, 0, 0, INT16_MAX, INT16_MIN, INT16_MAX, INT16_MIN, 0, 255, 256});
  CHECK(same(cast(x.to(DType::float32), DType::int32), cast(x, DType::int32)));
  // the largest float64 below 2^63, and 2^63 itself
  CHECK(cast(Tensor{9223372036854774784.0, 9223372036854775808.0}, DType::int64).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{9223372036854774784, INT64_MAX});
  // the largest float32 below 2^31, and 2^31 itself
  CHECK(cast(Tensor{2147483520.0f, 2147483648.0f, -2147483648.0f}, DType::int32).to_vector<std::int32_t>() ==
        std::vector<std::int32_t>{2147483520, INT32_MAX, INT32_MIN});
  // of every floating type what float64 gives, which holds all values of the others: at every place of a register
  std::vector<double> edges = values(x);
  for (const double limit : {0.0, 127.0, 128.0, 255.0, 256.0, 32767.0, 32768.0, 2147483647.0, 2147483648.0, 0x1p63})
    for (const double away : {-1.0, -0.5, -0.1, 0.0, 0.1, 0.5, 1.0})
      edges.insert(edges.end(), {limit + away, -limit - away});
  const Tensor list = tile(from_doubles(edges, {static_cast<std::int64_t>(edges.size())}, DType::float64), {3});
  for (const DType to : {DType::int8, DType::int16, DType::int32, DType::int64, DType::uint8})
    for (const DType from : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
      INFO(name(from) << " to " << name(to));
      const Tensor given = cast(list, from), wide = cast(given, DType::float64);
      std::vector<double> expected;
      const double low = values(cast(Tensor(-kInfinity), to))[0], high = values(cast(Tensor(kInfinity), to))[0];
      for (const double v : values(wide)) expected.push_back(v != v ? 0 : std::clamp(std::trunc(v), low, high));
      CHECK(values(cast(given, to)) == expected);
    }
}

TEST_CASE("casting to bool asks whether a value is not zero", "[dtype]") {
  CHECK(same(cast(Tensor{0.0, -0.0, 0.1, kNaN, kInfinity}, DType::bool8), {false, false, true, true, true}));
  CHECK(same(cast(Tensor{0, -1, 256}, DType::bool8), {false, true, true}));
  CHECK(same(cast(Tensor{true, false}, DType::float32), {1.0f, 0.0f}));
  CHECK(same(cast(Tensor{true, false}, DType::int32), {1, 0}));
}

TEST_CASE("casting between floating types rounds to nearest, and to infinity beyond the range", "[dtype]") {
  const Tensor x = {1e300, -1e300, 1e-300, 0.1, kNaN, kInfinity, 16777217.0};
  CHECK(same(cast(x, DType::float32), {float(kInfinity), -float(kInfinity), 0.0f, 0.1f, float(kNaN), float(kInfinity),
                                       16777216.0f}));  // 2^24 + 1 ties to even
  CHECK(same(cast(Tensor{0.1f}, DType::float64), {static_cast<double>(0.1f)}));
  CHECK(same(cast(Tensor{16777217}, DType::float32), {16777216.0f}));
}

TEST_CASE("casting between integers keeps every value that fits, of others the low bits", "[dtype]") {
  const Tensor x = {0, 1, 127, 128, 255};
  CHECK(cast(x, DType::uint8).to_vector<std::uint8_t>() == std::vector<std::uint8_t>{0, 1, 127, 128, 255});
  CHECK(cast(Tensor{-1, INT32_MAX, INT32_MIN}, DType::int64).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{-1, INT32_MAX, INT32_MIN});
  CHECK(cast(cast(x, DType::uint8), DType::int32).to_vector<std::int32_t>() == x.to_vector<std::int32_t>());
  CHECK(cast(Tensor{300, -1}, DType::uint8).to_vector<std::uint8_t>() == std::vector<std::uint8_t>{44, 255});
}

TEST_CASE("every pair of types casts, of strided tensors too", "[dtype]") {
  for (const DType from_type : every_type)
    for (const DType to_type : every_type) {
      INFO(name(from_type) << " to " << name(to_type));
      const Tensor x = from_doubles({0, 1, 1, 0, 1, 0}, {2, 3}, from_type);
      CHECK(same(cast(x, to_type), from_doubles({0, 1, 1, 0, 1, 0}, {2, 3}, to_type)));
      CHECK(same(cast(transpose(x), to_type), from_doubles({0, 0, 1, 1, 1, 0}, {3, 2}, to_type)));
      CHECK(x.to(to_type).is_same(x) == (from_type == to_type));  // `to` gives the tensor itself if it can
    }
}
