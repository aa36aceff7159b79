// Basic indices against loops, writing through them, and choosing by index tensors.
#include "tests/support.hpp"

#include <algorithm>
#include <limits>

using namespace capstan;
using namespace tests;

namespace {

/// The positions that Python's slice begin:end:step takes of an axis of that size, by walking them one by one.
std::vector<std::int64_t> python_slice(std::int64_t size, const Range& r) {
  const bool open_begin = r.begin == Range::kOpen, open_end = r.end == Range::kOpen;
  const auto clamped = [&](std::int64_t position) {
    if (position < 0) position += size;
    return r.step > 0 ? std::clamp<std::int64_t>(position, 0, size) : std::clamp<std::int64_t>(position, -1, size - 1);
  };
  const std::int64_t begin = open_begin ? (r.step > 0 ? 0 : size - 1) : clamped(r.begin);
  const std::int64_t end = open_end ? (r.step > 0 ? size : -1) : clamped(r.end);
  std::vector<std::int64_t> positions;
  for (std::int64_t i = begin; r.step > 0 ? i < end : i > end; i += r.step) positions.push_back(i);
  return positions;
}

}  // namespace

TEST_CASE("every range takes what Python's slice takes", "[index]") {
  for (const std::int64_t size : {0, 1, 2, 5}) {
    const Tensor x = arange(size);
    std::vector<std::int64_t> ends = {Range::kOpen};
    for (std::int64_t i = -7; i <= 7; ++i) ends.push_back(i);
    for (const std::int64_t begin : ends)
      for (const std::int64_t end : ends)
        for (const std::int64_t step : {-3, -2, -1, 1, 2, 3}) {
          const Range r{begin, end, step};
          const Tensor part = x.index({r});
          if (part.to_vector<std::int64_t>() == python_slice(size, r)) continue;
          INFO("size " << size << ", range " << begin << ":" << end << ":" << step);
          CHECK(part.to_vector<std::int64_t>() == python_slice(size, r));
        }
  }
}

TEST_CASE("extreme bounds and steps of a range do not overflow", "[index]") {
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  const Tensor x = arange(5);
  CHECK(x.index({range(-huge, huge, 1)}).numel() == 5);
  CHECK(x.index({range(0, huge, huge)}).to_vector<std::int64_t>() == std::vector<std::int64_t>{0});
  CHECK(x.index({range(huge, -huge, -huge)}).to_vector<std::int64_t>() == std::vector<std::int64_t>{4});
}

TEST_CASE("one index takes a row, which is a view", "[index]") {
  Tensor x = {{1.0f, 2.0f}, {3.0f, 4.0f}, {5.0f, 6.0f}};
  Tensor row = x[1];
  CHECK(same(row, {3.0f, 4.0f}));
  CHECK(row.shares_storage(x));
  CHECK(same(x[-1], {5.0f, 6.0f}));
  row.fill(0);
  CHECK(same(x, {{1.0f, 2.0f}, {0.0f, 0.0f}, {5.0f, 6.0f}}));
  CHECK(same(x[0][1], Tensor(2.0f)));
}

TEST_CASE("unsigned numbers that went below zero are out of range", "[index][errors]") {
  Tensor x = {1.0f, 2.0f, 3.0f};
  const std::size_t below = std::size_t{0} - 1;
  CHECK_THROWS_AS(x[below], IndexError);
  CHECK_THROWS_AS(x.at<float>(below), IndexError);
  CHECK_THROWS_AS(x.set(0.0f, below), IndexError);
  CHECK_THROWS_AS(x.index({below}), IndexError);
  CHECK_THROWS_AS(x.index_put({below}, 0), IndexError);
  const Tensor square = ones({2, 2});
  CHECK_THROWS_AS(square.at<float>(0, below), IndexError);
  CHECK(x[std::size_t{2}].item<float>() == 3);
  CHECK(x[std::uint64_t{1}].item<float>() == 2);
}

TEST_CASE("integers, ranges, new axes and the ellipsis combine as in NumPy", "[index]") {
  const Tensor x = reshape(arange(24), {2, 3, 4});  // x[i, j, k] = 12 i + 4 j + k
  const auto list = [](const Tensor& t) { return t.to_vector<std::int64_t>(); };
  using List = std::vector<std::int64_t>;
  CHECK(list(x.index({1, 2, 3})) == List{23});
  CHECK(x.index({1, 2, 3}).shape() == Shape{});
  CHECK(list(x.index({0, all, 1})) == List{1, 5, 9});
  CHECK(list(x.index({all, 1})) == List{4, 5, 6, 7, 16, 17, 18, 19});  // axes left out are whole
  CHECK(list(x.index({ellipsis, -1})) == List{3, 7, 11, 15, 19, 23});
  CHECK(list(x.index({1, ellipsis, 0})) == List{12, 16, 20});
  CHECK(x.index({ellipsis, all, all, all}).shape() == Shape{2, 3, 4});  // an ellipsis may stand for nothing
  CHECK(x.index({ellipsis}).shape() == Shape{2, 3, 4});
  CHECK(x.index({newaxis, 0, newaxis}).shape() == Shape{1, 1, 3, 4});
  CHECK(x.index({ellipsis, newaxis}).shape() == Shape{2, 3, 4, 1});
  CHECK(list(x.index({0, range(0, 2), range(3, 0, -2)})) == List{3, 1, 7, 5});
  CHECK(list(x.index({all, from(-1), until(1)})) == List{8, 20});
  CHECK(x.index({}).shape() == x.shape());
  CHECK(Tensor(3).index({ellipsis}).item<int>() == 3);
  CHECK(Tensor(3).index({newaxis}).shape() == Shape{1});
}

TEST_CASE("indexing a strided view counts from the view", "[index]") {
  const Tensor x = transpose(reshape(arange(12), {3, 4}));  // x[i, j] = i + 4 j
  const Tensor backwards = x.index({from(-1, -1), from(-1, -1)});
  CHECK(backwards.at<std::int64_t>(0, 0) == 11);
  CHECK(backwards.index({0, range(0, 2)}).to_vector<std::int64_t>() == std::vector<std::int64_t>{11, 7});
  CHECK(backwards.index({from(1, 2), -1}).to_vector<std::int64_t>() == std::vector<std::int64_t>{2, 0});
  CHECK(backwards.shares_storage(x));
}

TEST_CASE("index_put writes numbers and tensors to what index views", "[index]") {
  Tensor x = zeros({3, 4}, {.dtype = DType::int32});
  x.index_put({0, all}, 7);
  x.index_put({from(1), 0}, Tensor{1, 2});
  x.index_put({2, range(3, 1, -1)}, Tensor{30, 20});
  x.index_put({1, range(1, 3)}, Tensor{1.9, 2.9});  // converted as `to` does
  CHECK(same(x, {{7, 7, 7, 7}, {1, 1, 2, 0}, {2, 0, 20, 30}}));
  x.index_put({ellipsis}, -1);
  CHECK(same(x, full({3, 4}, -1, {.dtype = DType::int32})));
  x.index_put({range(2, 1)}, 5);  // nothing
  CHECK(same(x, full({3, 4}, -1, {.dtype = DType::int32})));
  x.index_put({all, all}, Tensor{{1}, {2}, {3}});
  CHECK(same(x, {{1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}}));
}

// --- index tensors ---------------------------------------------------------------------------------------------

TEST_CASE("gather takes rows and looks words up as published", "[index]") {
  const Tensor table = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
  CHECK(same(gather(table, Tensor{0, 2}), {{1, 2, 3}, {7, 8, 9}}));
  CHECK(same(gather(table, Tensor{{1, 2}, {0, 1}}), {{{4, 5, 6}, {7, 8, 9}}, {{1, 2, 3}, {4, 5, 6}}}));
}

TEST_CASE("gather works along every axis, with repeated and negative indices of both types", "[index]") {
  const Tensor x = reshape(arange(24), {2, 3, 4});
  for (const DType type : {DType::int32, DType::int64}) {
    const Tensor indices = Tensor{{2, 0}, {-1, 2}}.to(type);
    const Tensor middle = gather(x, indices, 1);
    REQUIRE(middle.shape() == Shape{2, 2, 2, 4});
    const std::int64_t rows[2][2] = {{2, 0}, {2, 2}};
    for (std::int64_t a = 0; a < 2; ++a)
      for (std::int64_t i = 0; i < 2; ++i)
        for (std::int64_t j = 0; j < 2; ++j)
          for (std::int64_t k = 0; k < 4; ++k)
            CHECK(middle.at<std::int64_t>(a, i, j, k) == x.at<std::int64_t>(a, rows[i][j], k));
    CHECK(same(gather(x, Tensor(1).to(type), -1), x.index({all, all, 1})));  // an index without axes drops the axis
    CHECK(same(gather(transpose(x), Tensor{3}.to(type)), transpose(x).index({from(3)})));
  }
}

TEST_CASE("gather takes every type of element", "[index]") {
  for (const DType type : {DType::float32, DType::float64, DType::int32, DType::int64, DType::uint8, DType::bool8})
    CHECK(same(gather(from_doubles({0, 1, 1, 0}, {4}, type), Tensor{3, 1}), from_doubles({0, 1}, {2}, type)));
}

TEST_CASE("gather of nothing gives nothing", "[index][errors]") {
  const Tensor none = zeros({0}, {.dtype = DType::int64});
  CHECK(gather(zeros({3, 2}), none).shape() == Shape{0, 2});
  CHECK(gather(zeros({3, 2}), none, 1).shape() == Shape{3, 0});
  CHECK(gather(zeros({0, 2}), none).shape() == Shape{0, 2});
  CHECK_THROWS_AS(gather(zeros({0, 2}), Tensor{0}), IndexError);
}

TEST_CASE("pick takes one element of each row", "[index]") {
  const Tensor x = {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}};
  CHECK(same(pick(x, Tensor{2, 0}), {3.0f, 4.0f}));
  CHECK(same(pick(transpose(x), Tensor{1, 0, 1}), {4.0f, 2.0f, 6.0f}));
  CHECK(same(pick(x[0], Tensor(1)), Tensor(2.0f)));
  const Tensor cube = reshape(arange(8), {2, 2, 2});
  CHECK(same(pick(cube, Tensor{{0, 1}, {1, 0}}), from_vector(std::vector<std::int64_t>{0, 3, 5, 6}, {2, 2})));
  CHECK(pick(zeros({0, 3}), zeros({0}, {.dtype = DType::int32})).shape() == Shape{0});
}

TEST_CASE("one_hot sets one column of each row, and none for indices outside", "[index]") {
  CHECK(same(one_hot(Tensor{1, 0, 2}, 3), {{0.0f, 1.0f, 0.0f}, {1.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 1.0f}}));
  CHECK(same(one_hot(Tensor{-1, 3}, 3), zeros({2, 3})));
  CHECK(same(one_hot(Tensor{1}, 2, 5, -1, DType::int32), {{-1, 5}}));
  CHECK(same(one_hot(Tensor(1), 2), {0.0f, 1.0f}));
  CHECK(one_hot(Tensor{1, 0}, 0).shape() == Shape{2, 0});
  CHECK(one_hot(Tensor{{1, 0}}, 4).shape() == Shape{1, 2, 4});
}
