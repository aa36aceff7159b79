// Masks: selecting, filling, and where elements are not zero.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

using List = std::vector<std::int64_t>;

List list_of(const Tensor& t) { return t.to_vector<std::int64_t>(); }

/// Every third element or so, of many blocks, with long stretches of both kinds.
Tensor long_mask(std::int64_t count) {
  std::vector<double> flags;
  for (std::int64_t i = 0; i < count; ++i) flags.push_back((i / 9000 % 2 == 0 ? i % 3 == 0 : i % 7 < 6) ? 1.0 : 0.0);
  return from_doubles(flags, {count}, DType::bool8);
}

}  // namespace

TEST_CASE("masked_select gives the chosen elements in row-major order, and broadcasts both ways", "[index]") {
  const Tensor x = {{1, 2, 3}, {4, 5, 6}};
  CHECK(same(masked_select(x, Tensor{{true, false, true}, {false, true, false}}), {1, 3, 5}));
  CHECK(same(masked_select(x, Tensor{false, true, true}), {2, 3, 5, 6}));
  CHECK(same(masked_select(Tensor{7, 8}, Tensor{{true, false}, {true, true}}), {7, 7, 8}));
  CHECK(same(masked_select(transpose(x), Tensor{{true, false}, {false, false}, {true, true}}), {1, 3, 6}));
  CHECK(same(masked_select(Tensor(5), Tensor(true)), {5}));
  CHECK(masked_select(x, Tensor(false)).shape() == Shape{0});
  CHECK(masked_select(zeros({0, 3}), Tensor{true, true, false}).shape() == Shape{0});
}

TEST_CASE("masks of many blocks choose the same elements as a loop, for every type and number of threads", "[index]") {
  const std::int64_t count = 50001;
  const Tensor mask = long_mask(count);
  const std::vector<double> flags = values(mask);
  for (const DType type : {DType::float32, DType::float64, DType::float16, DType::int8, DType::int64, DType::bool8}) {
    std::vector<double> all_values, chosen;
    for (std::int64_t i = 0; i < count; ++i) {
      all_values.push_back(static_cast<double>(type == DType::bool8 ? i % 2 : i % 100));
      if (flags[static_cast<std::size_t>(i)] != 0) chosen.push_back(all_values.back());
    }
    const Tensor x = from_doubles(all_values, {count}, type);
    for (const int threads : {1, 2, 5}) {
      const ThreadCount limit(threads);
      CHECK(values(x[mask]) == chosen);
    }
  }
}

TEST_CASE("masks choose whole rows where they stand for the first axes only", "[index]") {
  const std::int64_t count = 20000;
  const Tensor mask = long_mask(count);
  const Tensor x = reshape(arange(3 * count), {count, 3});
  const List positions = list_of(nonzero(mask)[0]);
  for (const int threads : {1, 3}) {
    const ThreadCount limit(threads);
    const Tensor rows = x.index({mask});
    REQUIRE(rows.shape() == Shape{static_cast<std::int64_t>(positions.size()), 3});
    List expected;
    for (const std::int64_t row : positions)
      for (std::int64_t k = 0; k < 3; ++k) expected.push_back(3 * row + k);
    CHECK(list_of(rows) == expected);
  }
}

TEST_CASE("masked_fill replaces what the mask covers", "[index]") {
  const Tensor x = {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}};
  CHECK(same(masked_fill(x, Tensor{true, false, true}, -7), {{-7.0f, 2.0f, -7.0f}, {-7.0f, 5.0f, -7.0f}}));
  CHECK(same(masked_fill(x, Tensor{{false}, {true}}, Tensor{0.5f, 1.5f, 2.5f}),
             {{1.0f, 2.0f, 3.0f}, {0.5f, 1.5f, 2.5f}}));
  CHECK(same(masked_fill(x, x > 3, -kInfinity),
             {{1.0f, 2.0f, 3.0f},
              {static_cast<float>(-kInfinity), static_cast<float>(-kInfinity), static_cast<float>(-kInfinity)}}));
  CHECK(same(masked_fill(Tensor{1, 2}, Tensor(true), 9), {9, 9}));
  CHECK(same(masked_fill(Tensor{true, false}, Tensor{false, true}, true), {true, true}));
  CHECK(masked_fill(zeros({0}), zeros({0}, {.dtype = DType::bool8}), 1).shape() == Shape{0});
}

TEST_CASE("a masked infinity takes no gradient along", "[index]") {
  const Tensor x = {1.0, kInfinity, kNaN};
  GradientTape tape;
  tape.watch(x);
  const Tensor y = masked_fill(x, Tensor{false, true, true}, 0);
  CHECK(same(tape.gradient(sum(y * y), x), {2.0, 0.0, 0.0}));
}

TEST_CASE("nonzero and argwhere name the places of what is not zero, as in NumPy", "[index]") {
  const Tensor x = {{3, 0, 0}, {0, 4, 0}, {5, 6, 0}};  // the example of numpy.nonzero
  const std::vector<Tensor> places = nonzero(x);
  REQUIRE(places.size() == 2);
  CHECK(list_of(places[0]) == List{0, 1, 2, 2});
  CHECK(list_of(places[1]) == List{0, 1, 0, 1});
  CHECK(same(x.index({places[0], places[1]}), {3, 4, 5, 6}));
  CHECK(same(argwhere(x), from_vector(List{0, 0, 1, 1, 2, 0, 2, 1}, {4, 2})));
  CHECK(list_of(nonzero(transpose(x))[0]) == List{0, 0, 1, 1});
  CHECK(same(argwhere(Tensor{0.0, kNaN, -0.0, 1e-300}), from_vector(List{1, 3}, {2, 1})));  // NaN is not zero
  CHECK(list_of(nonzero(Tensor{false, true})[0]) == List{1});
  CHECK(argwhere(zeros({2, 3})).shape() == Shape{0, 2});
  CHECK(argwhere(zeros({0, 3, 4})).shape() == Shape{0, 3});
  CHECK(argwhere(Tensor(2)).shape() == Shape{1, 0});
  CHECK(argwhere(Tensor(0)).shape() == Shape{0, 0});
}

TEST_CASE("places in tensors of many blocks and axes are found by every number of threads", "[index]") {
  const Tensor mask = reshape(long_mask(60000), {20, 1, 50, 60});
  const std::vector<double> flags = values(mask);
  List expected;
  for (std::int64_t i = 0; i < 60000; ++i)
    if (flags[static_cast<std::size_t>(i)] != 0) {
      const List place = {i / 3000, 0, i / 60 % 50, i % 60};
      expected.insert(expected.end(), place.begin(), place.end());
    }
  for (const int threads : {1, 2, 7}) {
    const ThreadCount limit(threads);
    CHECK(list_of(argwhere(mask)) == expected);
    CHECK(same(stack(nonzero(mask), -1), argwhere(mask)));
  }
}

TEST_CASE("count_nonzero counts along axes", "[index]") {
  const Tensor x = {{0, 1, 7}, {3, 0, 2}};
  CHECK(same(count_nonzero(x), Tensor(std::int64_t{4})));
  CHECK(list_of(count_nonzero(x, 0)) == List{1, 1, 2});
  CHECK(count_nonzero(x, -1, {.keepdims = true}).shape() == Shape{2, 1});
  CHECK(same(count_nonzero(Tensor{true, false, true}), Tensor(std::int64_t{2})));
  CHECK(same(count_nonzero(Tensor{kNaN, 0.0}), Tensor(std::int64_t{1})));
  CHECK(same(count_nonzero(zeros({0})), Tensor(std::int64_t{0})));
}
