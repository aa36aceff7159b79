// Layers that normalize: against their formulas in other operations, by hand, at the edges, and what they remember.
#include "tests/support.hpp"

#include <algorithm>
#include <functional>

using namespace capstan;
using namespace tests;

namespace {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensor(const Tensors&)>;

Tensor random(const Shape& shape, std::uint64_t seed_of, DType dtype = DType::float64) {
  return random_in(-1, 1, shape, dtype, seed_of);
}

/// (x - mean) / sqrt(variance + epsilon) over axes, in float64 and step by step.
Tensor standardized(const Tensor& given, Axes axes, double epsilon) {
  const Tensor x = given.to(DType::float64), distance = x - mean(x, axes, {.keepdims = true});
  return distance / sqrt(mean(square(distance), axes, {.keepdims = true}) + epsilon);
}

/// Numbers of channels, to go with x.
Tensor along(const Tensor& numbers, const Tensor& x) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(x.rank()), 1);
  sizes[1] = numbers.numel();
  return reshape(numbers.to(DType::float64), Shape(std::span<const std::int64_t>(sizes)));
}

Axes but_channels(const Tensor& x) {
  std::vector<int> axes = {0};
  for (int axis = 2; axis < x.rank(); ++axis) axes.push_back(axis);
  return Axes(std::span<const int>(axes));
}

Tensor grouped(const Tensor& x, std::int64_t groups, double epsilon) {
  const Tensor rows = reshape(x, {x.size(0), groups, x.numel() / (x.size(0) * groups)});
  return reshape(standardized(rows, -1, epsilon), x.shape());
}

double rounding(DType dtype) { return dtype == DType::float64 ? tolerance::roundings64 : tolerance::roundings32; }

/// The result, and the gradients of sum(weight * f(inputs)), with a weight that is always the same.
Tensors with_gradients(const Function& f, const Tensors& inputs) {
  GradientTape tape;
  for (const Tensor& x : inputs) tape.watch(x);
  const Tensor y = f(inputs);
  const Tensor weight = random(y.shape(), 411, y.dtype());
  Tensors results = tape.gradient(y, inputs, {.output_gradient = weight, .unconnected = Unconnected::zeros});
  results.push_back(y);
  return results;
}

/// One use of each kernel, in both directions.
struct Use {
  const char* name;
  Function function;
  std::vector<Shape> shapes;
};
std::vector<Use> uses() {
  const auto layer = [](const Tensors& in) { return layer_norm(in[0], 1, in[1], in[2]); };
  const auto rms = [](const Tensors& in) { return rms_norm(in[0], 1, in[1]); };
  const auto batch = [](const Tensors& in) { return batch_norm_training(in[0], in[1], in[2]).output; };
  const auto given = [](const Tensors& in) { return batch_norm(in[0], in[1], square(in[1]) + 0.5, in[1], in[2]); };
  const auto group = [](const Tensors& in) { return group_norm(in[0], 2, in[1], in[2]); };
  const auto instance = [](const Tensors& in) { return instance_norm(in[0], in[1], in[2]); };
  return {
      {"layer_norm, many rows", layer, {{1500, 70}, {70}, {70}}},
      {"layer_norm, few rows", layer, {{7, 20000}, {20000}, {20000}}},
      {"layer_norm, wide rows", layer, {{100, 1100}, {1100}, {1100}}},
      {"layer_norm, x alone", [](const Tensors& in) { return layer_norm(in[0]); }, {{300, 500}}},
      {"layer_norm, a weight alone", [](const Tensors& in) { return layer_norm(in[0], 1, in[1]); }, {{90, 33}, {33}}},
      {"layer_norm, a bias alone", [](const Tensors& in) { return layer_norm(in[0], 1, {}, in[1]); }, {{90, 33}, {33}}},
      {"rms_norm", rms, {{700, 129}, {129}}},
      {"batch_norm_training, planes", batch, {{9, 20, 31, 33}, {20}, {20}}},
      {"batch_norm_training, small planes", batch, {{700, 12, 3, 5}, {12}, {12}}},
      {"batch_norm_training, columns", batch, {{900, 301}, {301}, {301}}},
      {"batch_norm, planes", given, {{9, 20, 31, 33}, {20}, {20}}},
      {"batch_norm, columns", given, {{900, 301}, {301}, {301}}},
      {"group_norm", group, {{7, 140, 13, 11}, {140}, {140}}},
      {"group_norm, without places", group, {{300, 150}, {150}, {150}}},
      {"instance_norm", instance, {{8, 6, 61, 57}, {6}, {6}}},
      {"local_response_norm",
       [](const Tensors& in) { return local_response_norm(in[0], 5, {.alpha = 0.3}); },
       {{5, 30, 17, 19}}},
  };
}

Tensors inputs_of(const Use& use, DType dtype) {
  Tensors inputs;
  for (const Shape& shape : use.shapes) inputs.push_back(random(shape, 420 + inputs.size(), dtype));
  return inputs;
}

}  // namespace

// --- rows ------------------------------------------------------------------------------------------------------

TEST_CASE("layer normalization of 1 2 3 4 is what paper and pencil give", "[nn]") {
  const Tensor x = {{1.0, 2.0, 3.0, 4.0}, {8.0, 6.0, 4.0, 2.0}};
  // distances -1.5 -0.5 0.5 1.5, variance 1.25; the second row is twice as wide and backwards
  const double a = 1.5 / std::sqrt(1.25), b = 0.5 / std::sqrt(1.25);
  CHECK(close(layer_norm(x, 1, {}, {}, 0), {{-a, -b, b, a}, {a, b, -b, -a}}, tolerance::roundings64));
  CHECK(close(layer_norm(x, 1, {1.0, 2.0, 0.0, -1.0}, {}, 0), {{-a, -2 * b, 0.0, -a}, {a, 2 * b, 0.0, a}},
              tolerance::roundings64));
  CHECK(close(layer_norm(x, {4}, {}, {0.0, 0.0, 5.0, 5.0}, 0), {{-a, -b, b + 5, a + 5}, {a, b, 5 - b, 5 - a}},
              tolerance::roundings64));
  const double c = std::sqrt(7.5);  // the mean of 1 4 9 16
  CHECK(close(rms_norm(x[0], 1, {}, 0), {1 / c, 2 / c, 3 / c, 4 / c}, tolerance::roundings64));
}

TEST_CASE("rows of every width are normalized as the formula says", "[nn]") {
  constexpr double epsilon = 0.01;
  for (const std::int64_t width : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 56, 64, 65, 257, 1024, 5000})
    for (const std::int64_t rows : {1, 3, 37})
      for (const DType dtype : {DType::float64, DType::float32}) {
        INFO(rows << " rows of " << width << " in " << name(dtype));
        const Tensor x = random({rows, width}, 431, dtype);
        const Tensor weight = random({width}, 432, dtype), bias = random({width}, 433, dtype);
        const Tensor expected = standardized(x, -1, epsilon), wide = weight.to(DType::float64);
        CHECK(close(layer_norm(x, 1, {}, {}, epsilon), expected, rounding(dtype)));
        CHECK(close(layer_norm(x, 1, weight, {}, epsilon), expected * wide, rounding(dtype)));
        CHECK(close(layer_norm(x, 1, {}, bias, epsilon), expected + bias.to(DType::float64), rounding(dtype)));
        CHECK(
            close(layer_norm(x, 1, weight, bias, epsilon), expected * wide + bias.to(DType::float64), rounding(dtype)));
        const Tensor square_mean = mean(square(x.to(DType::float64)), -1, {.keepdims = true});
        CHECK(close(rms_norm(x, 1, weight, epsilon), x.to(DType::float64) / sqrt(square_mean + epsilon) * wide,
                    rounding(dtype)));
      }
}

TEST_CASE("a row is normalized alike alone and among others", "[nn]") {
  for (const std::int64_t width : {1, 5, 16, 56, 128, 129, 256, 257})
    for (const DType dtype : {DType::float64, DType::float32}) {
      INFO("rows of " << width << " in " << name(dtype));
      Tensor wide = random({37, width}, 438);
      wide.set(kNaN, 2, width / 2);
      wide.set(kInfinity, 21, width - 1);
      const Tensor x = wide.to(dtype);
      const Tensor whole = layer_norm(x), rms = rms_norm(x);
      CHECK(count_nonzero(all_of(isnan(whole), -1)).item<std::int64_t>() == 2);
      for (const std::int64_t first : {0, 1, 19, 36})
        for (const std::int64_t last : {first + 1, first + 6, std::int64_t{37}}) {
          const auto some = range(first, std::min(last, std::int64_t{37}));
          CHECK(same(layer_norm(x.index({some})), whole.index({some})));
          CHECK(same(rms_norm(x.index({some})), rms.index({some})));
        }
    }
}

TEST_CASE("several axes are normalized together, named by their number or by their sizes", "[nn]") {
  const Tensor x = random({3, 4, 5}, 434), weight = random({4, 5}, 435);
  const Tensor expected = standardized(x, {1, 2}, 1e-5) * weight;
  CHECK(close(layer_norm(x, 2, weight), expected, tolerance::roundings64));
  CHECK(close(layer_norm(x, {4, 5}, weight), expected, tolerance::roundings64));
  CHECK(close(layer_norm(x, Shape({4, 5}), weight), expected, tolerance::roundings64));
  CHECK(close(layer_norm(x, 3), standardized(x, {}, 1e-5), tolerance::roundings64));
}

TEST_CASE("rows that hold NaN or infinity become NaN, and others stay what they are", "[nn]") {
  Tensor x = random({3, 20}, 436);
  x.set(kNaN, 0, 17);
  x.set(kInfinity, 1, 2);
  const Tensor y = layer_norm(x);
  CHECK(all_of(isnan(y.index({range(0, 2)}))).item<bool>());
  CHECK(close(y[2], standardized(x[2], -1, 1e-5), tolerance::roundings64));
}

TEST_CASE("gradients of rows beside those that hold NaN or infinity stay what they are", "[nn][gradient]") {
  const auto gradient = [](const Tensor& x) {
    return with_gradients([](const Tensors& in) { return layer_norm(in[0]); }, {x})[0];
  };
  for (const DType dtype : {DType::float32, DType::float64}) {
    Tensor x = random({41, 70}, 437);
    const Tensor before = gradient(x.to(dtype));
    const std::int64_t rows[] = {1, 6, 11, 40};
    for (const std::int64_t row : rows) x.set(row == 6 ? kInfinity : kNaN, row, row);
    const Tensor after = gradient(x.to(dtype));
    for (std::int64_t i = 0; i < x.size(0); ++i) {
      INFO("row " << i << " of " << name(dtype));
      if (std::find(std::begin(rows), std::end(rows), i) != std::end(rows)) CHECK(all_of(isnan(after[i])).item<bool>());
      else CHECK(same_bits(values(after[i]), values(before[i])));
    }
  }
}

// --- channels --------------------------------------------------------------------------------------------------

TEST_CASE("batches are normalized channel by channel, of any rank, and tell their statistics", "[nn]") {
  const Shape shapes[] = {{6, 3},   {4, 3, 5},       {3, 2, 4, 4},   {2, 3, 1}, {300, 70},
                          {2, 300}, {3, 5, 7, 9, 2}, {2, 3, 70, 71}, {1, 4, 2}, {600, 5, 3}};
  for (const Shape& shape : shapes)
    for (const DType dtype : {DType::float64, DType::float32}) {
      INFO(to_string(shape) << " in " << name(dtype));
      const Tensor x = random(shape, 441, dtype), wide = x.to(DType::float64);
      const Tensor weight = random({shape[1]}, 442, dtype), bias = random({shape[1]}, 443, dtype);
      const Tensor expected = standardized(x, but_channels(x), 0.01);
      const BatchNormResult plain = batch_norm_training(x, {}, {}, 0.01);
      CHECK(close(plain.output, expected, rounding(dtype)));
      CHECK(close(batch_norm_training(x, weight, bias, 0.01).output, expected * along(weight, x) + along(bias, x),
                  rounding(dtype)));
      CHECK(close(plain.mean, mean(wide, but_channels(x)), rounding(dtype)));
      CHECK(close(plain.variance, var(wide, but_channels(x)), rounding(dtype)));
      CHECK(plain.mean.dtype() == dtype);
      // given the same statistics, the result is the same
      CHECK(close(batch_norm(x, plain.mean, plain.variance, weight, bias, 0.01),
                  expected * along(weight, x) + along(bias, x), 4 * rounding(dtype)));
    }
}

TEST_CASE("given statistics are taken as they are", "[nn]") {
  const Tensor x = {{1.0, 10.0}, {3.0, 20.0}};
  const Tensor mean_of = {1.0, 5.0}, variance = {4.0, 25.0};
  CHECK(close(batch_norm(x, mean_of, variance, {}, {}, 0), {{0.0, 1.0}, {1.0, 3.0}}, tolerance::roundings64));
  CHECK(close(batch_norm(x, mean_of, variance, {2.0, 1.0}, {0.5, -1.0}, 0), {{0.5, 0.0}, {2.5, 2.0}},
              tolerance::roundings64));
}

TEST_CASE("groups are normalized sample by sample", "[nn]") {
  for (const Shape& shape : {Shape{2, 6, 4, 3}, Shape{3, 12}, Shape{2, 6, 1}, Shape{1, 132, 5}, Shape{70, 6, 2}})
    for (const std::int64_t groups : {1, 2, 3, 6})
      for (const DType dtype : {DType::float64, DType::float32}) {
        INFO(groups << " groups of " << to_string(shape) << " in " << name(dtype));
        const Tensor x = random(shape, 451, dtype), weight = random({shape[1]}, 452, dtype);
        const Tensor bias = random({shape[1]}, 453, dtype), expected = grouped(x, groups, 0.01);
        CHECK(close(group_norm(x, groups, {}, {}, 0.01), expected, rounding(dtype)));
        CHECK(close(group_norm(x, groups, weight, bias, 0.01), expected * along(weight, x) + along(bias, x),
                    rounding(dtype)));
      }
}

TEST_CASE("one group is layer normalization, and a group for each channel is instance normalization", "[nn]") {
  const Tensor x = random({2, 4, 3, 5}, 454), weight = random({4}, 455), bias = random({4}, 456);
  CHECK(close(group_norm(x, 1), layer_norm(x, 3), tolerance::roundings64));
  CHECK(same(group_norm(x, 4, weight, bias), instance_norm(x, weight, bias)));
  CHECK(close(instance_norm(x), standardized(x, {2, 3}, 1e-5), tolerance::roundings64));
}

TEST_CASE("local response normalization divides by the channels around", "[nn]") {
  for (const Shape& shape : {Shape{2, 7, 4, 3}, Shape{1, 3, 100}, Shape{2, 1, 5}})
    for (const std::int64_t size : {1, 2, 3, 5, 30}) {
      INFO(size << " of " << to_string(shape));
      const Tensor x = random(shape, 461);
      const std::int64_t channels = shape[1], inner = shape.numel() / (shape[0] * channels);
      const std::vector<double> from = values(x);
      std::vector<double> to(from.size());
      const auto at = [&](std::int64_t n, std::int64_t c, std::int64_t i) {
        return static_cast<std::size_t>((n * channels + c) * inner + i);
      };
      for (std::int64_t n = 0; n < shape[0]; ++n)
        for (std::int64_t c = 0; c < channels; ++c)
          for (std::int64_t i = 0; i < inner; ++i) {
            double squares = 0;
            for (std::int64_t d = c - size / 2; d <= c + (size - 1) / 2; ++d)
              if (d >= 0 && d < channels) squares += from[at(n, d, i)] * from[at(n, d, i)];
            to[at(n, c, i)] = from[at(n, c, i)] / std::pow(2 + 0.5 / static_cast<double>(size) * squares, 0.75);
          }
      const Tensor expected = from_doubles(to, shape);
      const ResponseNormOptions options{.alpha = 0.5, .k = 2};
      CHECK(close(local_response_norm(x, size, options), expected, tolerance::roundings64));
      CHECK(close(nn::LocalResponseNorm(size, options)(x.to(DType::float32)), expected, tolerance::roundings32));
    }
}

TEST_CASE("normalized vectors have length 1, and zeros stay zeros", "[nn]") {
  CHECK(close(normalize(Tensor{{3.0, 4.0}, {0.0, 0.0}}), {{0.6, 0.8}, {0.0, 0.0}}, tolerance::roundings64));
  CHECK(close(normalize(Tensor{{3.0, -1.0}}, 1), {{0.75, -0.25}}, tolerance::roundings64));
  CHECK(close(normalize(Tensor{{3.0, -4.0}}, kInfinity), {{0.75, -1.0}}, tolerance::roundings64));
  CHECK(close(normalize(Tensor{{3.0, 4.0}, {4.0, -3.0}}, 2, 0), {{0.6, 0.8}, {0.8, -0.6}}, tolerance::roundings64));
  const Tensor half = normalize(zeros({2, 3}, {.dtype = DType::float16}));  // epsilon is no float16
  CHECK(same(half, zeros({2, 3}, {.dtype = DType::float16})));
}

// --- numbers ---------------------------------------------------------------------------------------------------

TEST_CASE("values around a large mean lose no digits, in the result and in the gradient", "[nn][gradient]") {
  for (const Use& use : uses()) {
    const std::string op = use.name;
    if (op.find("layer_norm") != 0 && op.find("batch_norm_training") != 0 && op.find("group_norm") != 0) continue;
    INFO(op);
    Tensors single = inputs_of(use, DType::float32), wide;
    single[0] = single[0] + 10000.0f;  // one unit in the last place is a thousandth
    for (const Tensor& x : single) wide.push_back(x.to(DType::float64));
    const Tensors actual = with_gradients(use.function, single);
    Tensors recorded, expected;
    {
      GradientTape outer;  // who records a replay gets other operations
      for (const Tensor& x : single) outer.watch(x);
      recorded = with_gradients(use.function, single);
    }
    {
      GradientTape tape;
      for (const Tensor& x : wide) tape.watch(x);
      const Tensor y = use.function(wide);
      const Tensor weight = random(y.shape(), 411, DType::float32).to(DType::float64);
      expected = tape.gradient(y, wide, {.output_gradient = weight});
      expected.push_back(y);
    }
    for (std::size_t i = 0; i < actual.size(); ++i) {
      INFO((i + 1 == actual.size() ? "the result" : "gradient " + std::to_string(i)));
      CHECK(relative_error(actual[i], expected[i]) <= tolerance::blocked_sum32);
      CHECK(relative_error(recorded[i], expected[i]) <= tolerance::blocked_sum32);
    }
  }
}

TEST_CASE("a quarter of a row far from the others costs no digits", "[nn]") {
  for (const std::int64_t width : {512, 1000, 8200})
    for (const std::int64_t part : {1, 2, 4, 8, 16})  // registers of every processor
      for (const float level : {100.0f, -10000.0f}) {
        INFO("parts of " << part << " in rows of " << width << ", " << level);
        const Tensor parts = remainder(floor_divide(arange(width), part), 4);
        const Tensor far = equal(parts, 0).to(DType::float32) * level;
        for (const Tensor& shift : {far, level - far}) {
          const Tensor x = random({3, width}, 479, DType::float32) + shift;
          CHECK(close(layer_norm(x, 1, {}, {}, 0), standardized(x, -1, 0), tolerance::roundings32));
        }
      }
}

TEST_CASE("values whose squares float32 cannot hold are normalized all the same", "[nn]") {
  for (const Shape& shape : {Shape{40, 6}, Shape{5, 6, 9}, Shape{2, 300, 2}}) {
    INFO(to_string(shape));
    const Tensor small = random(shape, 478, DType::float32), large = small * std::ldexp(1.0f, 80);  // exactly
    const Tensor wide = small.to(DType::float64);
    CHECK(close(layer_norm(large, 1, {}, {}, 0), standardized(small, -1, 0), tolerance::roundings32));
    CHECK(close(rms_norm(large, 1, {}, 0), wide / sqrt(mean(square(wide), -1, {.keepdims = true})),
                tolerance::roundings32));
    CHECK(close(group_norm(large, 2, {}, {}, 0), grouped(wide, 2, 0), tolerance::roundings32));
    const BatchNormResult r = batch_norm_training(large, {}, {}, 0);
    CHECK(close(r.output, standardized(small, but_channels(small), 0), tolerance::roundings32));
  }
}

TEST_CASE("a channel of equal values has variance 0", "[nn]") {
  for (const Shape& shape : {Shape{50, 3}, Shape{5, 3, 7}}) {
    const BatchNormResult r = batch_norm_training(full(shape, 0.1f));
    CHECK(same(r.variance, zeros({3})));
    CHECK(same(r.mean, full({3}, 0.1f)));
    CHECK(same(r.output, zeros(shape)));
  }
}

TEST_CASE("the kernels' gradients are those that public operations give", "[nn][gradient]") {
  for (const Use& use : uses()) {
    INFO(use.name);
    const Tensors inputs = inputs_of(use, DType::float64), fused = with_gradients(use.function, inputs);
    GradientTape outer;  // who records a replay gets operations that can be differentiated again
    for (const Tensor& x : inputs) outer.watch(x);
    const Tensors in_public = with_gradients(use.function, inputs);
    CHECK(outer.size() > 5);
    REQUIRE(fused.size() == in_public.size());
    for (std::size_t i = 0; i < fused.size(); ++i) {
      INFO("gradient " << i);
      CHECK(relative_error(fused[i], in_public[i]) <= 10 * tolerance::roundings64);
    }
  }
}

TEST_CASE("only the gradients that are asked for are given", "[nn][gradient]") {
  for (const Use& use : uses()) {
    INFO(use.name);
    const Tensors inputs = inputs_of(use, DType::float64), all_of_them = with_gradients(use.function, inputs);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      GradientTape tape;
      tape.watch(inputs[i]);
      const Tensor y = use.function(inputs);
      const Tensor alone = tape.gradient(y, inputs[i], {.output_gradient = random(y.shape(), 411)});
      CHECK(relative_error(alone, all_of_them[i]) <= tolerance::roundings64);
    }
  }
}

TEST_CASE("normalization does not depend on the number of threads", "[nn][threads]") {
  for (const Use& use : uses())
    for (const DType dtype : {DType::float32, DType::float64}) {
      const Tensors inputs = inputs_of(use, dtype);
      std::vector<std::vector<double>> one;
      for (const int count : {1, 2, 3, 5}) {
        INFO(use.name << " with " << count << " threads");
        const ThreadCount threads_for_now(count);
        const Tensors results = with_gradients(use.function, inputs);
        for (std::size_t i = 0; i < results.size(); ++i) {
          if (count == 1) one.push_back(values(results[i]));
          else CHECK(same_bits(values(results[i]), one[i]));
        }
      }
    }
}

TEST_CASE("the gradients of batch statistics are those of a mean and a variance", "[nn][gradient]") {
  const Tensor x = random({4, 3, 5}, 471);
  GradientTape tape{{.persistent = true}};
  tape.watch(x);
  const BatchNormResult r = batch_norm_training(x);
  CHECK(close(tape.gradient(r.mean, x), full({4, 3, 5}, 1 / 20.0, {.dtype = DType::float64}), tolerance::roundings64));
  const Tensor distance = x - mean(x, {0, 2}, {.keepdims = true});
  CHECK(close(tape.gradient(r.variance, x), distance * (2 / 20.0), tolerance::roundings64));
}

// --- layouts, types and sizes ----------------------------------------------------------------------------------

TEST_CASE("views are normalized as their copies are", "[nn]") {
  for (const Use& use : uses()) {
    INFO(use.name);
    const Tensors inputs = inputs_of(use, DType::float32);
    Tensors views;
    for (const Tensor& x : inputs) views.push_back(strided(x));
    const Tensors plain = with_gradients(use.function, inputs), viewed = with_gradients(use.function, views);
    for (std::size_t i = 0; i < plain.size(); ++i) CHECK(same(viewed[i], plain[i]));
  }
  const Tensor row = random({5}, 472), column = random({5}, 473);
  CHECK(same(layer_norm(broadcast_to(row, {3, 5}), 1, flip(column)),
             layer_norm(tile(expand_dims(row, 0), {3, 1}), 1, flip(column).copy())));
}

TEST_CASE("16-bit values are normalized in float32 and rounded once", "[nn][half]") {
  for (const DType half : {DType::float16, DType::bfloat16}) {
    const Tensor x = random({6, 4, 10}, 474, half), wide = x.to(DType::float32);
    const Tensor weight = random({10}, 475, half), bias = random({10}, 476, DType::float32);
    CHECK(same(layer_norm(x, 1, weight, bias), layer_norm(wide, 1, weight.to(DType::float32), bias).to(half)));
    CHECK(same(rms_norm(x, 2), rms_norm(wide, 2).to(half)));
    CHECK(same(group_norm(x, 2), group_norm(wide, 2).to(half)));
    CHECK(same(local_response_norm(x, 3), local_response_norm(wide, 3).to(half)));
    const BatchNormResult r = batch_norm_training(x), w = batch_norm_training(wide);
    CHECK(same(r.output, w.output.to(half)));
    CHECK(same(r.mean, w.mean));
    CHECK(same(r.variance, w.variance));
    CHECK(same(batch_norm(x, r.mean, r.variance), batch_norm(wide, r.mean, r.variance).to(half)));

    GradientTape tape;
    tape.watch({x, weight, bias});
    const Tensors g = tape.gradient(layer_norm(x, 1, weight, bias), {x, weight, bias});
    CHECK(g[0].dtype() == half);
    CHECK(g[1].dtype() == half);
    CHECK(g[2].dtype() == DType::float32);
    CHECK(same(g[2], full({10}, 24.0f)));  // a bias gets the sum of the gradients: 6 * 4 ones
  }
}

TEST_CASE("nothing is normalized to nothing", "[nn]") {
  CHECK(layer_norm(zeros({0, 3}), 1, ones({3})).shape() == Shape({0, 3}));
  CHECK(layer_norm(zeros({3, 0})).shape() == Shape({3, 0}));
  CHECK(rms_norm(zeros({2, 0, 3}), 2).shape() == Shape({2, 0, 3}));
  CHECK(group_norm(zeros({0, 4, 3}), 2).shape() == Shape({0, 4, 3}));
  CHECK(group_norm(zeros({2, 0, 3}), 2).shape() == Shape({2, 0, 3}));
  CHECK(instance_norm(zeros({2, 3, 0}), ones({3})).shape() == Shape({2, 3, 0}));
  CHECK(local_response_norm(zeros({2, 0, 3}), 2).shape() == Shape({2, 0, 3}));
  CHECK(batch_norm(zeros({0, 3}), zeros({3}), ones({3})).shape() == Shape({0, 3}));
  const Tensor x = zeros({0, 3}), weight = ones({3});
  GradientTape tape;
  tape.watch({x, weight});
  const BatchNormResult r = batch_norm_training(x, weight);
  CHECK(same(r.mean, zeros({3})));
  CHECK(same(r.variance, zeros({3})));
  const auto [dx, dweight] = tape.gradient(r.output, x, weight);
  CHECK(dx.shape() == Shape({0, 3}));
  CHECK(same(dweight, zeros({3})));
}

TEST_CASE("a tape keeps the input and two numbers for each row, no normalized copy", "[nn][memory]") {
  const Tensor x = random({64, 1024}, 477, DType::float32), weight = ones({1024}), bias = zeros({1024});
  GradientTape tape;
  tape.watch({x, weight, bias});
  const Tensor y = layer_norm(x, 1, weight, bias);
  CHECK(tape.bytes_kept() == 4 * (64 * 1024 + 1024 + 2 * 64));  // and the weight
  CHECK(y.shape() == x.shape());
}

// --- layers ----------------------------------------------------------------------------------------------------

TEST_CASE("layers that normalize hold weight and bias, unless told not to", "[nn]") {
  const Tensor x = random({2, 4, 3}, 481, DType::float32);
  nn::LayerNorm layer{{.sizes = {4, 3}}};
  CHECK(same(layer.weight, ones({4, 3})));
  CHECK(same(layer.bias, zeros({4, 3})));
  CHECK(same(layer(x), layer_norm(x, 2, layer.weight, layer.bias)));
  const nn::LayerNorm bare{{.sizes = {3}, .epsilon = 0.1, .weight = false, .bias = false}};
  CHECK_FALSE(bare.weight.defined());
  CHECK(same(bare(x), layer_norm(x, 1, {}, {}, 0.1)));
  const nn::RmsNorm rms{{.sizes = {3}, .weight_init = nn::init::constant(2)}};
  CHECK(same(rms(x), rms_norm(x, 1, full({3}, 2.0f))));
  const nn::GroupNorm group{{.groups = 2, .channels = 4}};
  CHECK(same(group(x), group_norm(x, 2)));
  nn::InstanceNorm1d instance{{.channels = 4}};
  CHECK_FALSE(instance.weight.defined());
  CHECK_FALSE(instance.running_mean.defined());
  CHECK(same(instance(x), instance_norm(x)));
  instance.set_training(false);
  CHECK(same(instance(x), instance_norm(x)));
  CHECK(nn::named_parameters(layer).size() == 2u);
  CHECK(nn::named_parameters(layer)[0].name == "weight");
}

TEST_CASE("running statistics follow the batches, and are used after training", "[nn]") {
  nn::BatchNorm1d layer{{.channels = 1, .dtype = DType::float64}};
  CHECK(same(layer.running_mean, {0.0}));
  CHECK(same(layer.running_var, {1.0}));
  const Tensor x = {{1.0}, {3.0}};
  CHECK(close(layer(x), {{-1 / std::sqrt(1.00001)}, {1 / std::sqrt(1.00001)}}, tolerance::roundings64));
  CHECK(close(layer.running_mean, {0.2}, tolerance::roundings64));  // 0.9 * 0 + 0.1 * 2
  CHECK(close(layer.running_var, {1.1}, tolerance::roundings64));   // 0.9 * 1 + 0.1 * 2, as 1 * 2 / (2 - 1) = 2
  CHECK(layer.num_batches_tracked.item<std::int64_t>() == 1);
  layer.set_training(false);
  const Tensor y = layer(Tensor{{1.2}});  // a single value will do now
  CHECK(close(y, {{1 / std::sqrt(1.10001)}}, tolerance::roundings64));
  CHECK(layer.num_batches_tracked.item<std::int64_t>() == 1);
  CHECK(close(layer.running_mean, {0.2}, tolerance::roundings64));
}

TEST_CASE("without a momentum running statistics are averages of all batches", "[nn]") {
  nn::BatchNorm layer{{.channels = 3, .momentum = std::nullopt, .dtype = DType::float64}};
  Tensor means = zeros({3}, {.dtype = DType::float64}), variances = means;
  for (std::uint64_t batch = 0; batch < 4; ++batch) {
    const Tensor x = random({5, 3, 2}, 482 + batch);
    layer(x);
    means = means + mean(x, {0, 2}) / 4;
    variances = variances + var(x, {0, 2}, {.correction = 1}) / 4;
  }
  CHECK(close(layer.running_mean, means, tolerance::roundings64));
  CHECK(close(layer.running_var, variances, tolerance::roundings64));
  CHECK(layer.num_batches_tracked.item<std::int64_t>() == 4);
}

TEST_CASE("layers that track nothing use each batch's statistics, also after training", "[nn]") {
  nn::BatchNorm2d layer{{.channels = 3, .track_running_stats = false}};
  CHECK_FALSE(layer.running_mean.defined());
  const Tensor x = random({2, 3, 4, 5}, 486, DType::float32);
  const Tensor first = layer(x);
  layer.set_training(false);
  CHECK(same(layer(x), first));
}

TEST_CASE("instances have running statistics if asked to: means over a batch", "[nn]") {
  nn::InstanceNorm2d layer{{.channels = 3, .momentum = 0.25, .track_running_stats = true, .dtype = DType::float64}};
  const Tensor x = random({2, 3, 4, 5}, 487);
  CHECK(same(layer(x), instance_norm(x)));
  CHECK(close(layer.running_mean, 0.25 * mean(x, {0, 2, 3}), tolerance::roundings64));
  CHECK(close(layer.running_var, 0.75 + 0.25 * mean(var(x, {2, 3}, {.correction = 1}), 0), tolerance::roundings64));
  layer.set_training(false);
  CHECK(same(layer(x), batch_norm(x, layer.running_mean, layer.running_var)));
}

TEST_CASE("tapes do not see running statistics move", "[nn][gradient]") {
  nn::BatchNorm layer{{.channels = 3, .dtype = DType::float64}};
  const Tensor x = random({4, 3}, 488), other = random({5, 3}, 489);
  GradientTape tape;
  tape.watch({x, other});
  const Tensor y = layer(x), z = layer(other);  // twice on one tape: what the first one saved is as it was
  const Tensors g = tape.gradient(sum(square(y) * 0.5) + sum(z * z * z), {x, other, layer.weight, layer.bias});
  for (const Tensor& gradient : g) CHECK(gradient.defined());
  CHECK_FALSE(tape.follows(layer.running_mean));
  CHECK(layer.num_batches_tracked.item<std::int64_t>() == 2);
}

TEST_CASE("a batch without elements leaves running statistics alone", "[nn]") {
  nn::BatchNorm layer{{.channels = 3}};
  CHECK(layer(zeros({0, 3})).shape() == Shape({0, 3}));
  CHECK(same(layer.running_var, ones({3})));
  CHECK(layer.num_batches_tracked.item<std::int64_t>() == 0);
}

TEST_CASE("running statistics are copied with their layer, and are no parameters", "[nn]") {
  nn::BatchNorm layer{{.channels = 2, .dtype = DType::float64}};
  nn::BatchNorm copy = layer;
  layer(Tensor{{1.0, 2.0}, {3.0, 6.0}});
  CHECK(same(copy.running_mean, {0.0, 0.0}));
  CHECK(close(layer.running_mean, {0.2, 0.4}, tolerance::roundings64));
  const nn::BatchNorm later = layer;
  CHECK(same(later.running_mean, layer.running_mean));
  CHECK(nn::parameters(layer).size() == 2u);
}

TEST_CASE("16-bit layers keep running statistics in float32", "[nn][half]") {
  nn::BatchNorm layer{{.channels = 3, .dtype = DType::bfloat16}};
  const Tensor x = random({4, 3, 5}, 490, DType::bfloat16);
  CHECK(layer(x).dtype() == DType::bfloat16);
  CHECK(layer.running_mean.dtype() == DType::float32);
  CHECK(close(layer.running_mean, 0.1f * mean(x.to(DType::float32), {0, 2}), tolerance::roundings32));
  layer.set_training(false);
  CHECK(layer(x).dtype() == DType::bfloat16);
}

TEST_CASE("running statistics move once for a batch that recompute runs again", "[nn][gradient]") {
  const Tensor x = random({4, 3, 5}, 491);
  const auto check = [&](auto layer) {
    auto plain = layer;
    plain(x);
    GradientTape tape;
    const Tensor y = recompute([&](const Tensor& t) { return layer(t); }, x);
    CHECK(tape.gradient(sum(y * y), layer.weight).defined());
    CHECK(same(layer.running_mean, plain.running_mean));
    CHECK(same(layer.running_var, plain.running_var));
    CHECK(layer.num_batches_tracked.template item<std::int64_t>() == 1);
  };
  check(nn::BatchNorm{{.channels = 3, .dtype = DType::float64}});
  check(nn::InstanceNorm{{.channels = 3, .weight = true, .track_running_stats = true, .dtype = DType::float64}});
}
