// Pooling by hand, and the edges.
#include "tests/support.hpp"

#include <utility>

using namespace capstan;
using namespace tests;

namespace {

/// 0, 1, 2, ...
Tensor counted(const Shape& shape) { return reshape(arange(shape.numel()), shape).to(DType::float32); }

}  // namespace

TEST_CASE("pooling has the values that one computes by hand", "[pooling]") {
  const Tensor x = counted({1, 1, 4, 4});  // 0 1 2 3 / 4 5 6 7 / 8 9 10 11 / 12 13 14 15
  CHECK(same(max_pool2d(x, 2), {{{{5.0f, 7.0f}, {13.0f, 15.0f}}}}));
  CHECK(same(avg_pool2d(x, 2), {{{{2.5f, 4.5f}, {10.5f, 12.5f}}}}));  // (0 + 1 + 4 + 5) / 4
  CHECK(same(max_pool2d(x, 3, {.stride = 1}), {{{{10.0f, 11.0f}, {14.0f, 15.0f}}}}));
  CHECK(same(max_pool2d(x, {1, 4}), {{{{3.0f}, {7.0f}, {11.0f}, {15.0f}}}}));
  CHECK(same(max_pool2d(x, 2, {.stride = 1, .dilation = 3}), {{{{15.0f}}}}));  // of 0, 3, 12 and 15
  const MaxPoolResult pooled = max_pool2d_with_indices(-x, 2);
  CHECK(same(pooled.values, {{{{-0.0f, -2.0f}, {-8.0f, -10.0f}}}}));
  CHECK(same(pooled.indices, reshape(from_vector(std::vector<std::int64_t>{0, 2, 8, 10}), {1, 1, 2, 2})));
  CHECK(same(global_avg_pool(x), {{7.5f}}));
  CHECK(same(global_max_pool(x, {.keepdims = true}), {{{{15.0f}}}}));
}

TEST_CASE("SAME pads as TensorFlow does, and its zeros do not count", "[pooling]") {
  const Tensor five = {{{1.0f, 2.0f, 3.0f, 4.0f, 5.0f}}}, three = {{{1.0f, 2.0f, 3.0f}}};
  // one zero on each side: (1 + 2) / 2, (2 + 3 + 4) / 3, (4 + 5) / 2
  CHECK(same(avg_pool1d(five, 3, {.stride = 2, .padding = nn::same}), {{{1.5f, 3.0f, 4.5f}}}));
  CHECK(same(max_pool1d(three, 2, {.stride = 1, .padding = nn::same}), {{{2.0f, 3.0f, 3.0f}}}));  // the odd one behind
  CHECK(same(max_pool1d(-three, 2, {.stride = 1, .padding = nn::same}), {{{-1.0f, -2.0f, -3.0f}}}));
  CHECK(same(max_pool1d(three, 2, {.padding = nn::valid}), {{{2.0f}}}));
}

TEST_CASE("padding counts or not as PyTorch has it", "[pooling]") {
  const Tensor x = {{{3.0f, 6.0f, 9.0f, 12.0f}}};
  CHECK(same(avg_pool1d(x, 3, {.stride = 2, .padding = 1}), {{{3.0f, 9.0f}}}));  // (0 + 3 + 6) / 3, (6 + 9 + 12) / 3
  CHECK(same(avg_pool1d(x, 3, {.stride = 2, .padding = 1, .count_include_pad = false}), {{{4.5f, 9.0f}}}));
  // the third window has 12, a zero, and one place beyond all padding: 12 / 2
  CHECK(same(avg_pool1d(x, 3, {.stride = 2, .padding = 1, .ceil = true}), {{{3.0f, 9.0f, 6.0f}}}));
  CHECK(same(avg_pool1d(x, 3, {.stride = 2, .padding = 1, .ceil = true, .divisor_override = 4}),
             {{{2.25f, 6.75f, 3.0f}}}));
  CHECK(same(max_pool1d(-x, 3, {.stride = 2, .padding = 1}), {{{-3.0f, -6.0f}}}));  // zeros do not win
}

TEST_CASE("ceil adds no window that begins behind the input", "[pooling]") {
  CHECK(max_pool1d(zeros({1, 1, 3}), 2, {.ceil = true}).size(2) == 2);
  CHECK(max_pool1d(zeros({1, 1, 3}), 2, {.stride = 3, .padding = {{0, 1}}, .ceil = true}).size(2) == 1);
}

TEST_CASE("with ceil a kernel may exceed the input by less than the stride", "[pooling]") {
  const Tensor three = {{{1.0f, 2.0f, 3.0f}}};
  CHECK(same(avg_pool1d(three, 4, {.ceil = true}), {{{2.0f}}}));  // what the window lacks does not count
  CHECK(same(avg_pool1d(three, 4, {.stride = 2, .ceil = true, .divisor_override = 4}), {{{1.5f}}}));
  const MaxPoolResult pooled = max_pool1d_with_indices(three, 4, {.stride = 2, .ceil = true});
  CHECK(same(pooled.values, {{{3.0f}}}));
  CHECK(same(pooled.indices, from_vector(std::vector<std::int64_t>{2}, {1, 1, 1})));
  CHECK(max_pool2d(zeros({1, 2, 2, 9}), 3, {.stride = 2, .ceil = true}).shape() == Shape({1, 2, 1, 4}));
}

TEST_CASE("of equal elements the first wins, and the first NaN before all", "[pooling]") {
  const Tensor x = {{{7.0, 7.0, 1.0, kNaN, kNaN, 2.0}}};
  GradientTape tape;
  tape.watch(x);
  const Tensor y = max_pool1d(x, 2, {.stride = 1});
  CHECK(same(y, {{{7.0, 7.0, kNaN, kNaN, kNaN}}}));
  CHECK(same(tape.gradient(y, x), {{{1.0, 1.0, 0.0, 2.0, 1.0, 0.0}}}));
  CHECK(same(max_pool1d(full({1, 1, 4}, -kInfinity), 2), full({1, 1, 2}, -kInfinity)));
}

TEST_CASE("of 2 by 2 windows side by side the first largest element wins, and the first NaN before all", "[pooling]") {
  const double choices[] = {kNaN, 0.0, -0.0, -kInfinity, -1.0, 1.0, -0.0};
  constexpr std::size_t kRows = 29, kColumns = 33, kPlanes = 6;
  std::vector<double> list, best, gradient(kPlanes * kRows * kColumns);
  for (const double choice : values(random_in(0, 7, {kPlanes, kRows, kColumns}, DType::int64, 12)))
    list.push_back(choices[static_cast<std::size_t>(choice)]);
  std::vector<std::int64_t> places;
  for (std::size_t window = 0; window < kPlanes * (kRows / 2) * (kColumns / 2); ++window) {
    const std::size_t line = window / (kColumns / 2), plane = line / (kRows / 2) * kRows * kColumns;
    const std::size_t first = plane + line % (kRows / 2) * 2 * kColumns + window % (kColumns / 2) * 2;
    std::size_t at = first;
    for (const std::size_t other : {first + 1, first + kColumns, first + kColumns + 1})
      if (!std::isnan(list[at]) && !(list[other] <= list[at])) at = other;
    best.push_back(list[at]);
    places.push_back(static_cast<std::int64_t>(at - plane));
    gradient[at] = 1;
  }
  const Shape in = {2, 3, kRows, kColumns}, out = {2, 3, kRows / 2, kColumns / 2};
  for (const DType type : {DType::float32, DType::float64}) {
    INFO(name(type));
    const Tensor x = from_doubles(list, in, type);
    const MaxPoolResult pooled = max_pool2d_with_indices(x, 2);
    CHECK(same(pooled.indices, from_vector(places, out)));
    GradientTape tape;
    tape.watch(x);
    const Tensor y = max_pool2d(x, 2);
    CHECK(same(tape.gradient(y, x), from_doubles(gradient, in, type)));
    const NoGrad off;
    for (const Tensor& result : {pooled.values, y, max_pool2d(x, 2)}) {
      CHECK(same(result, from_doubles(best, out, type)));
      const std::vector<double> numbers = values(result);
      for (std::size_t i = 0; i < best.size(); ++i)
        if (best[i] == 0) CHECK(std::signbit(numbers[i]) == std::signbit(best[i]));
    }
  }
}

TEST_CASE("max pooling takes every number type, average pooling the floating ones", "[pooling]") {
  const Tensor x = random_in(-100, 100, {2, 3, 5, 40}, DType::float64, 9);
  for (const DType type :
       {DType::float16, DType::bfloat16, DType::int8, DType::int16, DType::int32, DType::int64, DType::uint8}) {
    INFO(name(type));
    const Tensor typed = type == DType::uint8 ? abs(x).to(type) : x.to(type), wide = typed.to(DType::float64);
    CHECK(same(max_pool2d(typed, {3, 2}, {.padding = 1}), max_pool2d(wide, {3, 2}, {.padding = 1}).to(type)));
    CHECK(same(max_pool2d_with_indices(typed, 2).indices, max_pool2d_with_indices(wide, 2).indices));
    CHECK(same(global_max_pool(typed), global_max_pool(wide).to(type)));
    if (is_half(type)) {
      const Tensor single = typed.to(DType::float32);
      CHECK(same(avg_pool2d(typed, 3), avg_pool2d(single, 3).to(type)));
      GradientTape tape;
      tape.watch(typed);
      CHECK(same(tape.gradient(max_pool2d(typed, 2), typed), [&] {
        GradientTape other;
        other.watch(single);
        return other.gradient(max_pool2d(single, 2), single).to(type);
      }()));
    }
  }
}

TEST_CASE("no batch, no channels and no results give shapes without elements", "[pooling]") {
  CHECK(max_pool2d(zeros({0, 3, 4, 4}), 2).shape() == Shape({0, 3, 2, 2}));
  CHECK(max_pool1d_with_indices(zeros({2, 0, 4}), 2).indices.shape() == Shape({2, 0, 2}));
  CHECK(avg_pool3d(zeros({0, 4, 4, 4}), 2).shape() == Shape({0, 2, 2, 2}));
  CHECK(max_pool1d(zeros({2, 3, 0}), 2, {.padding = nn::same}).shape() == Shape({2, 3, 0}));
  CHECK(adaptive_avg_pool2d(zeros({2, 3, 4, 5}), {0, -1}).shape() == Shape({2, 3, 0, 5}));
  CHECK(global_max_pool(zeros({0, 3, 2, 2})).shape() == Shape({0, 3}));
  const Tensor x = ones({2, 3, 4});
  GradientTape tape;
  tape.watch(x);
  CHECK(same(tape.gradient(adaptive_max_pool1d(x, 0), x), zeros({2, 3, 4})));
}

TEST_CASE("a tape keeps a byte for each result of max pooling, and nothing for means", "[pooling]") {
  const Tensor x = random_in(-1, 1, {2, 3, 8, 8}, DType::float32);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = max_pool2d(x, 2);
  CHECK(tape.bytes_kept() == y.numel());
  const Tensor mean = avg_pool2d(x, 2);
  CHECK(tape.bytes_kept() == y.numel());
  const Tensor global = global_max_pool(x);
  CHECK(tape.bytes_kept() == y.numel() + 4 * global.numel());
}

TEST_CASE("unpooling puts back what pooling took, at any size that pools to it", "[pooling]") {
  const Tensor x = random_in(0, 1, {2, 3, 7, 6}, DType::float64, 3);
  const MaxPoolResult pooled = max_pool2d_with_indices(x, 2);
  const Tensor back = max_unpool2d(pooled.values, pooled.indices, 2, {.output_size = {7, 6}});
  CHECK(same(back, where(back > 0, x, 0)));
  CHECK(same(max_pool2d(back, 2), pooled.values));
  CHECK(sum(cast(back > 0, DType::int64)).item<std::int64_t>() == pooled.values.numel());
  const Tensor line = {{{4.0f, 6.0f}}}, places = {{{1, 3}}};
  CHECK(same(max_unpool1d(line, places, 2), {{{0.0f, 4.0f, 0.0f, 6.0f}}}));
  CHECK(same(max_unpool1d(line, places, 2, {.output_size = 5}), {{{0.0f, 4.0f, 0.0f, 6.0f, 0.0f}}}));
  const Tensor ends = {{{0, 2}}};  // of (2 - 1)*2 - 2 + 3 places
  CHECK(same(max_unpool1d(line, ends, 3, {.stride = 2, .padding = 1}), {{{4.0f, 0.0f, 6.0f}}}));
  CHECK(same(max_unpool1d(line, ends, 2, {.padding = nn::same}), {{{4.0f, 0.0f, 6.0f, 0.0f}}}));
}

TEST_CASE("Lp pooling is PyTorch's formula", "[pooling]") {
  const Tensor x = {{{3.0, 4.0, 0.0, 0.0, 6.0}}};
  GradientTape tape;
  tape.watch(x);
  const Tensor y = lp_pool1d(x, 2, 2, {.ceil = true});
  const double root = std::sqrt(72.0);  // the last window has half of its places: 6*6 counts twice
  CHECK(close(y, {{{5.0, 0.0, root}}}, tolerance::roundings64));
  CHECK(close(tape.gradient(y, x), {{{0.6, 0.8, 0.0, 0.0, 12 / root}}}, tolerance::roundings64));
  CHECK(close(lp_pool1d(Tensor{{{-1.0, 3.0}}}, 3, 2), {{{std::cbrt(26.0)}}}, tolerance::roundings64));
  CHECK(same(lp_pool1d(Tensor{{{-2.0, 1.0}}}, 3, 2), {{{kNaN}}}));
  CHECK(lp_pool3d(ones({1, 2, 4, 4}), 1, 2).at<float>(0, 0, 0, 0) == 8.0f);  // without batch
}

TEST_CASE("windows of zeros have no slope, whatever the norm, and 16 bits hold roots whose powers they do not",
          "[pooling][half]") {
  const Tensor zero = {{{0.0, 0.0}}}, one_of_two = {{{0.0, 4.0}}};
  for (const double norm : {0.5, 1.5, 2.0, 3.0}) {
    GradientTape tape;
    tape.watch(zero);
    Tensor first;
    {
      GradientTape inner;
      inner.watch(zero);
      first = inner.gradient(lp_pool1d(zero, norm, 2), zero);
    }
    CHECK(same(first, zero));
    CHECK(same(tape.gradient(sum(first), zero), zero));
  }
  for (const double norm : {0.5, 1.0}) {
    GradientTape tape;
    tape.watch(one_of_two);
    CHECK(same(tape.gradient(lp_pool1d(one_of_two, norm, 2), one_of_two), {{{norm == 1 ? 1.0 : 0.0, 1.0}}}));
  }
  const auto narrow = [](double value) { return full({1, 1, 2, 2}, value, {.dtype = DType::float16}); };
  CHECK(lp_pool2d(narrow(300), 2, 2).at<float16>(0, 0, 0, 0) == float16(600.0f));
  CHECK(close(lp_pool2d(narrow(1e-4), 2, 2), full({1, 1, 1, 1}, 2e-4, {.dtype = DType::float16}), 0x1p-9));
}

TEST_CASE("pooling is the same bit for bit for any number of threads", "[pooling]") {
  const Tensor x = random_in(-1, 1, {20, 16, 31, 33}, DType::float32, 11);
  const auto run = [&](int count) {
    const ThreadCount threads_for_now(count);
    GradientTape tape;
    tape.watch(x);
    const Tensor y = sum(max_pool2d(x, 3, {.stride = 2, .padding = 1}), {2, 3}) + sum(avg_pool2d(x, 2), {2, 3}) +
                     sum(square(avg_pool2d(x, 3, {.stride = 1, .padding = 1})), {2, 3}) + global_avg_pool(x);
    const Tensor dx = tape.gradient(y, x);
    return std::pair(values(y), values(dx));
  };
  const auto one = run(1);
  for (const int count : {2, 3, 4}) {
    const auto several = run(count);
    CHECK(same_bits(several.first, one.first));
    CHECK(same_bits(several.second, one.second));
  }
}

TEST_CASE("pooling modules stand in a Sequential and have no parameters", "[pooling][nn]") {
  nn::Sequential net{nn::MaxPool2d{2}, nn::AvgPool2d{{1, 2}, {.stride = 1}}, nn::AdaptiveMaxPool2d{{-1, 1}},
                     nn::GlobalAvgPool{}};
  const Tensor x = counted({1, 2, 4, 6});
  // of channel 0: 7 9 11 / 19 21 23; means of neighbours 8 10 / 20 22; the larger 10 / 22; 16
  CHECK(same(net(x), {{16.0f, 40.0f}}));
  CHECK(nn::parameters(net).empty());
  const Tensor pair = {{{1.0f, 2.0f}}}, second = {{{1}}};
  CHECK(same(nn::MaxPool1d{2}.with_indices(pair).indices, from_vector(std::vector<std::int64_t>{1}, {1, 1, 1})));
  CHECK(same(nn::LpPool1d{1, 2}(pair), {{{3.0f}}}));
  CHECK(same(nn::MaxUnpool1d{2}(max_pool1d(pair, 2), second), {{{0.0f, 2.0f}}}));
}
