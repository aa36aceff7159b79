// Repeating, turning, moving and padding; grids and windows; sequences and their lengths. Values are those of NumPy's,
// TensorFlow's and PyTorch's documentation where a test says so.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

Tensor counting(const Shape& shape) { return reshape(arange(shape.numel()), shape); }
Tensor whole(const std::vector<std::int64_t>& list) { return from_vector(list); }
Tensor whole(const std::vector<std::int64_t>& list, const Shape& shape) { return from_vector(list, shape); }

constexpr DType every_type[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::int8,
                                DType::int16,   DType::int32,   DType::int64,   DType::uint8,    DType::bool8};

}  // namespace

TEST_CASE("tile repeats the whole, as published", "[rearranging]") {
  const Tensor a = {0, 1, 2}, b = {{1, 2}, {3, 4}};  // numpy.tile's examples
  CHECK(same(tile(a, {2}), {0, 1, 2, 0, 1, 2}));
  CHECK(same(tile(a, {2, 2}), {{0, 1, 2, 0, 1, 2}, {0, 1, 2, 0, 1, 2}}));
  CHECK(same(tile(a, {2, 1, 2}), {{{0, 1, 2, 0, 1, 2}}, {{0, 1, 2, 0, 1, 2}}}));
  CHECK(same(tile(b, {2}), {{1, 2, 1, 2}, {3, 4, 3, 4}}));
  CHECK(same(tile(b, {2, 1}), {{1, 2}, {3, 4}, {1, 2}, {3, 4}}));
  CHECK(tile(b, {0, 3}).shape() == Shape{0, 6});
  CHECK(tile(zeros({0, 2}), {3, 2}).shape() == Shape{0, 4});
  CHECK(same(tile(Tensor(7), {2, 1}), {{7}, {7}}));
  CHECK(same(tile(transpose(b), {1, 2}), {{1, 3, 1, 3}, {2, 4, 2, 4}}));
  CHECK(tile(counting({1, 2, 1, 1, 1, 1, 1, 3}), {2, 1, 1, 1, 1, 1, 1, 2}).shape() == Shape{2, 2, 1, 1, 1, 1, 1, 6});
}

TEST_CASE("tile and repeat make new elements even where nothing is repeated", "[rearranging]") {
  const Tensor x = counting({2, 3});
  CHECK_FALSE(tile(x, {1, 1}).shares_storage(x));
  CHECK(same(tile(x, std::vector<std::int64_t>{}), x));
  CHECK_FALSE(repeat(x, 1, 0).shares_storage(x));
  CHECK(tile(Tensor(5), {3}).is_contiguous());  // no stretched view
  CHECK(repeat(Tensor{5}, 3, 0).is_contiguous());
  Tensor both = tile(ones({2, 1}), {3, 4});  // the second axis of what the first has copied
  CHECK(both.is_contiguous());
  both.fill(2);
  CHECK(same(both, full({6, 4}, 2.0f)));
  CHECK(repeat(expand_dims(transpose(counting({2, 3})), 2), 4, 2).is_contiguous());
}

TEST_CASE("repeat repeats each slice, as published", "[rearranging]") {
  const Tensor x = {{1, 2}, {3, 4}};  // numpy.repeat's examples
  CHECK(same(repeat(x, 3, 1), {{1, 1, 1, 2, 2, 2}, {3, 3, 3, 4, 4, 4}}));
  CHECK(same(repeat(x, Tensor{1, 2}, 0), {{1, 2}, {3, 4}, {3, 4}}));
  CHECK(same(repeat(x, 2, 0), {{1, 2}, {1, 2}, {3, 4}, {3, 4}}));
  CHECK(same(repeat(x, 2, -1), repeat(x, 2, 1)));
  CHECK(same(repeat(transpose(x), 2, 1), {{1, 1, 3, 3}, {2, 2, 4, 4}}));
  CHECK(same(repeat(x, Tensor{0, 2}, 1), {{2, 2}, {4, 4}}));
  CHECK(same(repeat(x, Tensor(2), 1), repeat(x, 2, 1)));
  CHECK(same(repeat(x, whole({0, 0}), 0), zeros({0, 2}, {.dtype = DType::int32})));
  CHECK(repeat(x, 0, 0).shape() == Shape{0, 2});
  CHECK(repeat(zeros({2, 0}), 3, 0).shape() == Shape{6, 0});
  CHECK(repeat(zeros({0, 2}), zeros({0}, {.dtype = DType::int32}), 0).shape() == Shape{0, 2});
}

TEST_CASE("flip is a view backwards, as published", "[rearranging]") {
  const Tensor a = counting({2, 2, 2});  // numpy.flip's examples
  CHECK(same(flip(a, 0), whole({4, 5, 6, 7, 0, 1, 2, 3}, {2, 2, 2})));
  CHECK(same(flip(a, 1), whole({2, 3, 0, 1, 6, 7, 4, 5}, {2, 2, 2})));
  CHECK(same(flip(a), whole({7, 6, 5, 4, 3, 2, 1, 0}, {2, 2, 2})));
  CHECK(same(flip(a, {0, -1}), whole({5, 4, 7, 6, 1, 0, 3, 2}, {2, 2, 2})));
  CHECK(flip(a).shares_storage(a));
  CHECK(same(flip(flip(a, 1), 1), a));
  CHECK(flip(zeros({0, 3})).shape() == Shape{0, 3});
  CHECK(same(flip(Tensor(3)), Tensor(3)));
  Tensor x = counting({3});
  flip(x).set(std::int64_t{9}, 0);
  CHECK(same(x, whole({0, 1, 9})));
}

TEST_CASE("roll moves elements around, as published", "[rearranging]") {
  const Tensor x = counting({10}), y = counting({2, 5});  // numpy.roll's examples
  CHECK(same(roll(x, 2, 0), whole({8, 9, 0, 1, 2, 3, 4, 5, 6, 7})));
  CHECK(same(roll(x, -2, 0), whole({2, 3, 4, 5, 6, 7, 8, 9, 0, 1})));
  CHECK(same(roll(y, 1, 0), whole({5, 6, 7, 8, 9, 0, 1, 2, 3, 4}, {2, 5})));
  CHECK(same(roll(y, -1, 1), whole({1, 2, 3, 4, 0, 6, 7, 8, 9, 5}, {2, 5})));
  CHECK(same(roll(y, {1, 1}, {1, 0}), whole({9, 5, 6, 7, 8, 4, 0, 1, 2, 3}, {2, 5})));
  CHECK(same(roll(y, {2, 1}, {1, 0}), whole({8, 9, 5, 6, 7, 3, 4, 0, 1, 2}, {2, 5})));
  CHECK(same(roll(y, {2, -5, 1}, {-1, -1, 0}), roll(y, {2, 1}, {1, 0})));  // shifts of one axis add up
  CHECK(same(roll(x, 32, 0), roll(x, 2, 0)));
  CHECK(same(roll(x, INT64_MIN, 0), roll(x, -8, 0)));  // 2^63 mod 10 = 8
  CHECK_FALSE(roll(x, 10, 0).shares_storage(x));
  CHECK(roll(zeros({0, 2}), 1, 0).shape() == Shape{0, 2});
}

TEST_CASE("pad fills the border in each mode, as published", "[rearranging]") {
  const Tensor a = {1, 2, 3, 4, 5};  // numpy.pad's examples
  CHECK(same(pad(a, {{2, 3}}, PadMode::constant, 4), {4, 4, 1, 2, 3, 4, 5, 4, 4, 4}));
  CHECK(same(pad(a, {{2, 3}}, PadMode::edge), {1, 1, 1, 2, 3, 4, 5, 5, 5, 5}));
  CHECK(same(pad(a, {{2, 3}}, PadMode::reflect), {3, 2, 1, 2, 3, 4, 5, 4, 3, 2}));
  CHECK(same(pad(a, {{2, 3}}, PadMode::symmetric), {2, 1, 1, 2, 3, 4, 5, 5, 4, 3}));
  CHECK(same(pad(a, {{2, 3}}, PadMode::wrap), {4, 5, 1, 2, 3, 4, 5, 1, 2, 3}));
  CHECK(same(pad(Tensor{1, 2, 3}, {{4, 7}}, PadMode::wrap), {3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1}));
  const Tensor t = {{1, 2, 3}, {4, 5, 6}};  // tf.pad's examples
  CHECK(same(pad(t, {{1, 1}, {2, 2}}),
             {{0, 0, 0, 0, 0, 0, 0}, {0, 0, 1, 2, 3, 0, 0}, {0, 0, 4, 5, 6, 0, 0}, {0, 0, 0, 0, 0, 0, 0}}));
  CHECK(same(pad(t, {{1, 1}, {2, 2}}, PadMode::reflect),
             {{6, 5, 4, 5, 6, 5, 4}, {3, 2, 1, 2, 3, 2, 1}, {6, 5, 4, 5, 6, 5, 4}, {3, 2, 1, 2, 3, 2, 1}}));
  CHECK(same(pad(t, {{1, 1}, {2, 2}}, PadMode::symmetric),
             {{2, 1, 1, 2, 3, 3, 2}, {2, 1, 1, 2, 3, 3, 2}, {5, 4, 4, 5, 6, 6, 5}, {5, 4, 4, 5, 6, 6, 5}}));
}

TEST_CASE("pad works at the limits of each mode, and on nothing", "[rearranging]") {
  const Tensor x = {1, 2, 3};
  CHECK(same(pad(x, {{2, 2}}, PadMode::reflect), {3, 2, 1, 2, 3, 2, 1}));          // size - 1
  CHECK(same(pad(x, {{3, 3}}, PadMode::symmetric), {3, 2, 1, 1, 2, 3, 3, 2, 1}));  // size
  CHECK(same(pad(x, {{3, 0}}, PadMode::wrap), {1, 2, 3, 1, 2, 3}));
  CHECK(same(pad(Tensor{7}, {{2, 1}}, PadMode::edge), {7, 7, 7, 7}));
  CHECK(same(pad(Tensor{7}, {{2, 1}}, PadMode::wrap), {7, 7, 7, 7}));
  CHECK(same(pad(zeros({0, 2}), {{1, 0}, {0, 1}}, PadMode::constant, 5), {{5.0f, 5.0f, 5.0f}}));
  CHECK(pad(zeros({0, 2}), {{0, 0}, {1, 1}}, PadMode::edge).shape() == Shape{0, 4});
  CHECK(same(pad(Tensor(3), std::vector<Padding>{}), Tensor(3)));
  CHECK_FALSE(pad(x, {{0, 0}}, PadMode::wrap).shares_storage(x));
  CHECK(same(pad(transpose(Tensor{{1, 2}, {3, 4}}), {{0, 1}, {1, 0}}), {{0, 1, 3}, {0, 2, 4}, {0, 0, 0}}));
}

TEST_CASE("reverse_sequence turns each sequence within its length, as published", "[rearranging]") {
  const Tensor lengths = {7, 2, 3, 5};  // tf.reverse_sequence's example
  const Tensor x = {
      {1, 2, 3, 4, 5, 0, 0, 0}, {1, 2, 0, 0, 0, 0, 0, 0}, {1, 2, 3, 4, 0, 0, 0, 0}, {1, 2, 3, 4, 5, 6, 7, 8}};
  const Tensor expected = {
      {0, 0, 5, 4, 3, 2, 1, 0}, {2, 1, 0, 0, 0, 0, 0, 0}, {3, 2, 1, 4, 0, 0, 0, 0}, {5, 4, 3, 2, 1, 6, 7, 8}};
  CHECK(same(reverse_sequence(x, lengths), expected));
  CHECK(same(reverse_sequence(transpose(x), lengths, 0, 1), transpose(expected)));
  const Tensor wide = stack({x, -x}, 1);  // [4, 2, 8]
  CHECK(same(reverse_sequence(wide, lengths.to(DType::int64), -1, 0), stack({expected, -expected}, 1)));
  CHECK(same(reverse_sequence(x, zeros({4}, {.dtype = DType::int32})), x));
  CHECK(same(reverse_sequence(x, full({4}, 8, {.dtype = DType::int32})), flip(x, 1)));
  CHECK(reverse_sequence(zeros({0, 3}), zeros({0}, {.dtype = DType::int32})).shape() == Shape{0, 3});
}

TEST_CASE("sequence_mask tells what is within the length, as published", "[rearranging]") {
  CHECK(
      same(sequence_mask(Tensor{1, 3, 2}, 5),  // tf.sequence_mask's examples
           {{true, false, false, false, false}, {true, true, true, false, false}, {true, true, false, false, false}}));
  CHECK(same(sequence_mask(Tensor{{1, 3}, {2, 0}}),
             {{{true, false, false}, {true, true, true}}, {{true, true, false}, {false, false, false}}}));
  CHECK(same(sequence_mask(Tensor{2, -1}, 3, DType::float32), {{1.0f, 1.0f, 0.0f}, {0.0f, 0.0f, 0.0f}}));
  CHECK(same(sequence_mask(Tensor(2).to(DType::uint8), 3), {true, true, false}));
  CHECK(sequence_mask(zeros({0}, {.dtype = DType::int64})).shape() == Shape{0, 0});
  CHECK(sequence_mask(Tensor{-3, -1}).shape() == Shape{2, 0});
}

TEST_CASE("move_axis moves axes and keeps the order of the others, as published", "[shaping]") {
  const Tensor x = counting({3, 4, 5});  // numpy.moveaxis' examples
  CHECK(move_axis(x, 0, -1).shape() == Shape{4, 5, 3});
  CHECK(move_axis(x, -1, 0).shape() == Shape{5, 3, 4});
  CHECK(move_axis(x, {0, 1}, {-1, -2}).shape() == Shape{5, 4, 3});
  CHECK(same(move_axis(x, {0, 1, 2}, {-1, -2, -3}), transpose(x)));
  CHECK(move_axis(x, 1, 0).at<std::int64_t>(2, 1, 4) == x.at<std::int64_t>(1, 2, 4));
  CHECK(move_axis(x, 0, 2).shares_storage(x));
  CHECK(same(move_axis(x, 1, 1), x));
}

TEST_CASE("unflatten is the reverse of flatten", "[shaping]") {
  const Tensor x = counting({2, 12, 3});
  CHECK(unflatten(x, 1, {3, 4}).shape() == Shape{2, 3, 4, 3});
  CHECK(unflatten(x, -2, {2, -1, 2}).shape() == Shape{2, 2, 3, 2, 3});
  CHECK(same(flatten(unflatten(x, 1, {3, 4}), 1, 2), x));
  CHECK(unflatten(x, 1, {3, 4}).shares_storage(x));
  const Tensor turned = unflatten(transpose(x), 1, {-1, 6});
  CHECK(turned.shares_storage(x));
  CHECK(same(turned, unflatten(transpose(x).copy(), 1, {2, 6})));
  CHECK(unflatten(zeros({0, 2}), 0, {0, 5}).shape() == Shape{0, 5, 2});
  CHECK(unflatten(zeros({0, 2}), 0, {-1, 5}).shape() == Shape{0, 5, 2});
  CHECK(unflatten(zeros({1, 2}), 0, {}).shape() == Shape{2});
}

TEST_CASE("array_split cuts into parts that differ by one at most, as published", "[shaping]") {
  const std::vector<Tensor> parts = array_split(arange(8), 3);  // numpy.array_split's examples
  REQUIRE(parts.size() == 3u);
  CHECK(same(parts[0], whole({0, 1, 2})));
  CHECK(same(parts[1], whole({3, 4, 5})));
  CHECK(same(parts[2], whole({6, 7})));
  CHECK(array_split(arange(9), 4)[0].numel() == 3);
  CHECK(array_split(arange(9), 4)[3].numel() == 2);
  const Tensor x = counting({2, 5});
  CHECK(same(concat(array_split(x, 3, -1), 1), x));
  CHECK(array_split(x, 3, -1)[2].shares_storage(x));
  CHECK(array_split(x, 4, 0)[3].shape() == Shape{0, 5});  // more parts than places
}

TEST_CASE("broadcast_tensors stretches all to one shape", "[shaping]") {
  const Tensor row = counting({3}), column = counting({2, 1});
  const std::vector<Tensor> both = broadcast_tensors({row, column});
  CHECK(same(both[0], whole({0, 1, 2, 0, 1, 2}, {2, 3})));
  CHECK(same(both[1], whole({0, 0, 0, 1, 1, 1}, {2, 3})));
  CHECK(both[0].shares_storage(row));
  CHECK(broadcast_tensors({zeros({0, 1}), zeros({4})})[1].shape() == Shape{0, 4});
  CHECK(broadcast_tensors(std::vector<Tensor>{}).empty());
}

TEST_CASE("meshgrid gives the coordinates of a grid, as published", "[shaping]") {
  const Tensor x = {0.0, 0.5, 1.0}, y = {0.0, 1.0};  // numpy.meshgrid's example
  const std::vector<Tensor> xy = meshgrid({x, y});
  CHECK(same(xy[0], {{0.0, 0.5, 1.0}, {0.0, 0.5, 1.0}}));
  CHECK(same(xy[1], {{0.0, 0.0, 0.0}, {1.0, 1.0, 1.0}}));
  CHECK(xy[0].shares_storage(x));
  const std::vector<Tensor> ij = meshgrid({x, y}, GridOrder::ij);
  CHECK(same(ij[0], {{0.0, 0.0}, {0.5, 0.5}, {1.0, 1.0}}));
  CHECK(same(ij[1], {{0.0, 1.0}, {0.0, 1.0}, {0.0, 1.0}}));
  const std::vector<Tensor> three = meshgrid({counting({2}), counting({3}), counting({4})});
  for (const Tensor& grid : three) CHECK(grid.shape() == Shape{3, 2, 4});
  CHECK(three[0].at<std::int64_t>(0, 1, 0) == 1);
  CHECK(three[1].at<std::int64_t>(2, 0, 0) == 2);
  CHECK(three[2].at<std::int64_t>(0, 0, 3) == 3);
  CHECK(meshgrid({x})[0].shape() == Shape{3});
  CHECK(meshgrid({x, Tensor(2.0)})[1].shape() == Shape{1, 3});
  CHECK(meshgrid(std::vector<Tensor>{}).empty());
}

TEST_CASE("sliding_window views every window, as published", "[shaping]") {
  const Tensor x = counting({6});  // numpy.lib.stride_tricks.sliding_window_view's examples
  const Tensor windows = sliding_window(x, 0, 3);
  CHECK(same(windows, whole({0, 1, 2, 1, 2, 3, 2, 3, 4, 3, 4, 5}, {4, 3})));
  CHECK(windows.shares_storage(x));
  const Tensor seven = arange(1, 8);  // torch.Tensor.unfold's example
  CHECK(same(sliding_window(seven, 0, 2, 2), whole({1, 2, 3, 4, 5, 6}, {3, 2})));
  const Tensor rows = sliding_window(counting({3, 4}), 0, 2);
  CHECK(rows.shape() == Shape{2, 4, 2});
  CHECK(rows.at<std::int64_t>(1, 3, 1) == 11);
  CHECK(same(sliding_window(flip(x), 0, 4, 2), whole({5, 4, 3, 2, 3, 2, 1, 0}, {2, 4})));
  CHECK(same(mean(sliding_window(Tensor{1.0, 2.0, 3.0, 4.0}, 0, 2), -1), {1.5, 2.5, 3.5}));  // a moving average
  CHECK(sliding_window(x, 0, 6).shape() == Shape{1, 6});
  CHECK(sliding_window(zeros({0, 3}), 1, 2).shape() == Shape{0, 2, 2});
}

TEST_CASE("16-bit gradients of windows are added up in float32", "[shaping][half]") {
  const Tensor x = zeros({999}, {.dtype = DType::bfloat16});
  GradientTape tape;
  tape.watch(x);
  const Tensor g = tape.gradient(sum(sliding_window(x, 0, 500)), x);
  CHECK(g.dtype() == DType::bfloat16);
  CHECK(number(g[499]) == 500);  // it is in all 500; a running bfloat16 total would stay at 256
}

TEST_CASE("rearranging works for every element type", "[rearranging]") {
  for (const DType type : every_type) {
    const Tensor x = from_doubles({1, 0, 0, 1, 1, 0}, {2, 3}, type);
    INFO(name(type));
    CHECK(same(tile(x, {1, 2}), from_doubles({1, 0, 0, 1, 0, 0, 1, 1, 0, 1, 1, 0}, {2, 6}, type)));
    CHECK(same(repeat(x, 2, 1), from_doubles({1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0}, {2, 6}, type)));
    CHECK(same(flip(x, 1).copy(), from_doubles({0, 0, 1, 0, 1, 1}, {2, 3}, type)));
    CHECK(same(roll(x, 1, 1), from_doubles({0, 1, 0, 0, 1, 1}, {2, 3}, type)));
    CHECK(same(pad(x, {{0, 0}, {1, 0}}), from_doubles({0, 1, 0, 0, 0, 1, 1, 0}, {2, 4}, type)));
    CHECK(same(pad(x, {{0, 0}, {1, 0}}, PadMode::edge), from_doubles({1, 1, 0, 0, 1, 1, 1, 0}, {2, 4}, type)));
    CHECK(same(reverse_sequence(x, Tensor{3, 1}), from_doubles({0, 0, 1, 1, 1, 0}, {2, 3}, type)));
    CHECK(same(sliding_window(x, 1, 2).copy(), from_doubles({1, 0, 0, 0, 1, 1, 1, 0}, {2, 2, 2}, type)));
  }
}

TEST_CASE("arange gives the type that is asked for", "[create]") {
  for (const DType type : {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::int8, DType::int16,
                           DType::int32, DType::int64, DType::uint8})
    CHECK(same(arange(1, 8, 3, {.dtype = type}), from_doubles({1, 4, 7}, {3}, type)));
  CHECK(same(arange(0, 1, 0.25, {.dtype = DType::float64}), {0.0, 0.25, 0.5, 0.75}));
  CHECK(same(arange(127, -129, -51, {.dtype = DType::int8}),
             from_doubles({127, 76, 25, -26, -77, -128}, {6}, DType::int8)));
  CHECK(arange(INT64_MIN, INT64_MAX, INT64_MAX).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{INT64_MIN, -1, INT64_MAX - 1});
}
