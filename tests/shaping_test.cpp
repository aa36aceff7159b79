// New shapes, joining and cutting: values, and which results are views.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

Tensor counting(const Shape& shape) { return reshape(arange(shape.numel()), shape); }

}  // namespace

TEST_CASE("reshape keeps the row-major order and fills in one open size", "[shaping]") {
  const Tensor x = counting({2, 3, 4});
  for (const Tensor& y : {reshape(x, {4, 6}), reshape(x, {4, -1}), reshape(x, {-1, 6}), reshape(x, Shape{4, 6})}) {
    CHECK(y.shape() == Shape{4, 6});
    CHECK(y.at<std::int64_t>(3, 5) == 23);
    CHECK(y.shares_storage(x));
  }
  CHECK(reshape(x, {24}).at<std::int64_t>(7) == 7);
  CHECK(reshape(x, {-1}).shape() == Shape{24});
  CHECK(reshape(Tensor(5), {1, 1}).shape() == Shape{1, 1});
  CHECK(reshape(Tensor{5}, {}).shape() == Shape{});
  CHECK(reshape(zeros({0, 3}), {5, 0}).shape() == Shape{5, 0});
  CHECK(reshape(zeros({0, 3}), {-1, 3}).shape() == Shape{0, 3});
}

TEST_CASE("reshape is a view of a strided tensor where strides allow, else a copy", "[shaping]") {
  const Tensor x = counting({4, 6});
  const Tensor part = x.index({all, range(0, 3)});  // rows with gaps
  const Tensor split_rows = reshape(part, {2, 2, 3}), split_columns = reshape(part, {4, 3, 1});
  CHECK(split_rows.shares_storage(x));
  CHECK(split_columns.shares_storage(x));
  CHECK(same(split_rows, reshape(part.copy(), {2, 2, 3})));
  const Tensor joined = reshape(part, {12});
  CHECK_FALSE(joined.shares_storage(x));
  CHECK(same(joined, reshape(part.copy(), {12})));
  const Tensor turned = reshape(transpose(x), {24});
  CHECK_FALSE(turned.shares_storage(x));
  CHECK(turned.at<std::int64_t>(1) == 6);
  const Tensor rotated = permute(counting({2, 3, 4}), {2, 0, 1});  // the last two axes walk as one: 0, 4, 8, 12, ...
  CHECK(reshape(rotated, {4, 6}).shares_storage(rotated));
  CHECK(same(reshape(rotated, {4, 6}), reshape(rotated.copy(), {4, 6})));
  CHECK(same(reshape(broadcast_to(Tensor{7, 8}, {3, 2}), {6}), {7, 8, 7, 8, 7, 8}));
}

TEST_CASE("flatten joins a run of axes", "[shaping]") {
  const Tensor x = counting({2, 3, 4});
  CHECK(flatten(x).shape() == Shape{24});
  CHECK(flatten(x, 1).shape() == Shape{2, 12});
  CHECK(flatten(x, 0, 1).shape() == Shape{6, 4});
  CHECK(flatten(x, -2, -1).shape() == Shape{2, 12});
  CHECK(flatten(x, 1, 1).shape() == x.shape());
  CHECK(flatten(Tensor(3)).shape() == Shape{1});
  CHECK(flatten(zeros({2, 0, 3}), 1).shape() == Shape{2, 0});
}

TEST_CASE("transpose and permute move axes without a copy", "[shaping]") {
  const Tensor x = counting({2, 3, 4});
  CHECK(transpose(x).shape() == Shape{4, 3, 2});
  CHECK(transpose(x).at<std::int64_t>(3, 1, 0) == x.at<std::int64_t>(0, 1, 3));
  CHECK(transpose(x, 0, -1).shape() == Shape{4, 3, 2});
  CHECK(transpose(x, 1, 2).at<std::int64_t>(1, 3, 2) == x.at<std::int64_t>(1, 2, 3));
  const Tensor turned = permute(x, {2, 0, 1});
  CHECK(turned.shape() == Shape{4, 2, 3});
  CHECK(turned.at<std::int64_t>(3, 1, 2) == x.at<std::int64_t>(1, 2, 3));
  CHECK(permute(x, {-1, 0, -2}).shape() == Shape{4, 2, 3});
  CHECK(turned.shares_storage(x));
  CHECK(transpose(Tensor{1, 2}).shape() == Shape{2});
  CHECK(transpose(Tensor(1)).shape() == Shape{});
  CHECK(same(transpose(transpose(x)), x));
}

TEST_CASE("squeeze and expand_dims remove and add axes of size 1", "[shaping]") {
  const Tensor x = counting({1, 3, 1, 2});
  CHECK(squeeze(x).shape() == Shape{3, 2});
  CHECK(squeeze(x, 0).shape() == Shape{3, 1, 2});
  CHECK(squeeze(x, -2).shape() == Shape{1, 3, 2});
  CHECK(squeeze(zeros({1, 1})).shape() == Shape{});
  CHECK(expand_dims(x, 0).shape() == Shape{1, 1, 3, 1, 2});
  CHECK(expand_dims(x, -1).shape() == Shape{1, 3, 1, 2, 1});
  CHECK(expand_dims(Tensor{1, 2}, 1).shape() == Shape{2, 1});
  CHECK(expand_dims(Tensor(1), 0).shape() == Shape{1});
  CHECK(squeeze(x).shares_storage(x));
  CHECK(expand_dims(transpose(counting({2, 3})), 1).at<std::int64_t>(2, 0, 1) == 5);
}

TEST_CASE("broadcast_to stretches without a copy", "[shaping]") {
  const Tensor x = {1, 2, 3};
  CHECK(same(broadcast_to(x, {2, 3}), {{1, 2, 3}, {1, 2, 3}}));
  CHECK(same(broadcast_to(expand_dims(x, 1), {3, 2}), {{1, 1}, {2, 2}, {3, 3}}));
  CHECK(broadcast_to(x, {4, -1}).shape() == Shape{4, 3});  // -1 keeps a size
  for (const DType type : {DType::uint8, DType::float16, DType::float32, DType::float64}) {
    const Tensor rows = broadcast_to(Tensor{{1}, {2}, {3}}.to(type), {3, 100}).contiguous();
    for (int i = 0; i < 3; ++i) CHECK(values(rows[i]) == std::vector<double>(100, i + 1));
  }
  CHECK(broadcast_to(x, {2, 3}).shares_storage(x));
  CHECK(broadcast_to(x, {0, 3}).numel() == 0);
  CHECK(broadcast_to(Tensor(7), {}).shape() == Shape{});
  CHECK(same(broadcast_to(Tensor(7), {2}), {7, 7}));
  CHECK(broadcast_to(x, {1000000000, 1000000, 3}).stride(0) == 0);  // takes no memory
}

TEST_CASE("concat puts parts one after another", "[shaping]") {
  const Tensor a = {{1, 2}, {3, 4}}, b = {{5, 6}};
  CHECK(same(concat({a, b}), {{1, 2}, {3, 4}, {5, 6}}));
  CHECK(same(concat({a, transpose(a)}, 1), {{1, 2, 1, 3}, {3, 4, 2, 4}}));
  CHECK(same(concat({a, zeros({2, 0}, {.dtype = DType::int32}), a}, -1), {{1, 2, 1, 2}, {3, 4, 3, 4}}));
  CHECK(same(concat({a}), a));
  CHECK_FALSE(concat({a}).shares_storage(a));
  CHECK(same(concat({Tensor{1}, from_vector(std::vector<std::int64_t>{2})}),
             from_vector(std::vector<std::int64_t>{1, 2})));
  CHECK(concat(std::vector<Tensor>(5, zeros({0, 3}))).shape() == Shape{0, 3});
}

TEST_CASE("stack puts parts side by side, as published", "[shaping]") {
  const Tensor x = {1, 4}, y = {2, 5}, z = {3, 6};
  CHECK(same(stack({x, y, z}), {{1, 4}, {2, 5}, {3, 6}}));
  CHECK(same(stack({x, y, z}, 1), {{1, 2, 3}, {4, 5, 6}}));
  CHECK(same(stack({x, y, z}, -1), {{1, 2, 3}, {4, 5, 6}}));
  CHECK(same(stack({Tensor(1), Tensor(2)}), {1, 2}));
}

TEST_CASE("unstack is the reverse of stack, in views", "[shaping]") {
  const Tensor x = counting({3, 4});
  for (const int axis : {0, 1, -1}) {
    const std::vector<Tensor> parts = unstack(x, axis);
    CHECK(static_cast<std::int64_t>(parts.size()) == x.size(axis));
    CHECK(parts[1].shares_storage(x));
    CHECK(same(stack(parts, axis), x));
  }
  CHECK(same(unstack(x, 1)[2], from_vector(std::vector<std::int64_t>{2, 6, 10})));
  CHECK(unstack(zeros({0, 3})).empty());
}

TEST_CASE("known numbers of slices and parts have names at once", "[shaping]") {
  const Tensor x = counting({3, 4});
  const auto [a, b, c] = unstack<3>(x);
  CHECK(same(stack({a, b, c}), x));
  const auto [left, right] = split<2>(x, -1);
  CHECK(same(concat({left, right}, 1), x));
  CHECK(left.shares_storage(x));
  GradientTape tape;
  const Tensor y = ones({2, 4});
  tape.watch(y);
  const auto [mean, deviation] = split<2>(y, 1);
  CHECK(same(tape.gradient(mean * 2 + deviation * 3, y), Tensor{{2, 2, 3, 3}, {2, 2, 3, 3}}.to(DType::float32)));
}

TEST_CASE("split and split_sizes cut into views that join to the whole", "[shaping]") {
  const Tensor x = counting({3, 6});
  const std::vector<Tensor> thirds = split(x, 3, 1);
  REQUIRE(thirds.size() == 3u);
  CHECK(thirds[1].shape() == Shape{3, 2});
  CHECK(thirds[1].at<std::int64_t>(2, 0) == 14);
  CHECK(thirds[1].shares_storage(x));
  CHECK(same(concat(thirds, 1), x));
  const std::vector<Tensor> uneven = split_sizes(x, {1, 0, 5}, -1);
  CHECK(uneven[0].shape() == Shape{3, 1});
  CHECK(uneven[1].shape() == Shape{3, 0});
  CHECK(uneven[2].at<std::int64_t>(0, 0) == 1);
  CHECK(same(concat(uneven, 1), x));
  CHECK(split(x, 1).size() == 1u);
  const std::vector<Tensor> nothing = split(zeros({0, 3}), 2);
  REQUIRE(nothing.size() == 2u);
  CHECK(nothing[1].shape() == Shape{0, 3});
}

TEST_CASE("slice and narrow view a block", "[shaping]") {
  const Tensor x = counting({4, 5});
  const Tensor block = slice(x, {1, 2}, {2, -1});
  CHECK(same(block, from_vector(std::vector<std::int64_t>{7, 8, 9, 12, 13, 14}, {2, 3})));
  CHECK(block.shares_storage(x));
  CHECK(same(narrow(x, 0, 3, 1), from_vector(std::vector<std::int64_t>{15, 16, 17, 18, 19}, {1, 5})));
  CHECK(narrow(x, -1, 5, 0).shape() == Shape{4, 0});
  CHECK(same(narrow(x, 1, 0, 5), x));
  CHECK(slice(x, {0, 0}, {-1, -1}).shape() == x.shape());
}

TEST_CASE("views of views point to the same elements", "[shaping]") {
  Tensor x = zeros({2, 3, 4});
  Tensor deep = squeeze(narrow(transpose(split(x, 2, 2)[1], 0, 1), 0, 1, 1), 0).index({all, from(-1, -1)});
  REQUIRE(deep.shape() == Shape{2, 2});
  deep.set(5.0f, 1, 0);
  CHECK(x.at<float>(1, 1, 3) == 5);
  CHECK(number(sum(x)) == 5);
}

TEST_CASE("shaping works for every element type", "[shaping]") {
  for (const DType type : {DType::float32, DType::float64, DType::int32, DType::int64, DType::uint8, DType::bool8}) {
    const Tensor x = from_doubles({1, 0, 0, 1, 1, 1}, {2, 3}, type);
    INFO(name(type));
    CHECK(same(concat({x, x}, 0), from_doubles({1, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1}, {4, 3}, type)));
    CHECK(same(transpose(x).copy(), from_doubles({1, 1, 0, 1, 0, 1}, {3, 2}, type)));
    CHECK(same(stack({x, x}, 2)[1], from_doubles({1, 1, 1, 1, 1, 1}, {3, 2}, type)));
  }
}
