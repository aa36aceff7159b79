// Products, variances and their relatives: against loops in double, published values, ranges, emptiness, threads.
#include "tests/support.hpp"

#include <cmath>

using namespace capstan;
using namespace tests;

namespace {

/// d sum(f(x)) / dx.
template <class F>
Tensor slope(F f, const Tensor& x) {
  GradientTape tape;
  tape.watch(x);
  return tape.gradient(f(x), x);
}

const Axes ways[] = {{}, 0, 1, -1, {0, 1}, {0, -1}, {1, 2}};

/// The variance from its definition, of a float64 tensor.
Tensor defined_variance(const Tensor& x, Axes axes, double correction) {
  const Tensor distance = x - mean(x, axes, {.keepdims = true});
  const Tensor total = sum(square(distance), axes);
  const double count = static_cast<double>(x.numel()) / static_cast<double>(total.numel());
  return total / (count - correction);
}

}  // namespace

TEST_CASE("products multiply along axes, as published", "[reduce]") {
  const Tensor x = {{1.0, 2.0}, {3.0, 4.0}};  // numpy.prod's examples
  CHECK(same(prod(x), Tensor(24.0)));
  CHECK(same(prod(x, 1), {2.0, 12.0}));
  CHECK(same(prod(x, 0), {3.0, 8.0}));
  CHECK(same(prod(x, 0, {.keepdims = true}), {{3.0, 8.0}}));
  CHECK(same(prod(x, {0, 1}, {.keepdims = true}), {{24.0}}));
  CHECK(same(prod(Tensor(5.0f)), Tensor(5.0f)));
}

TEST_CASE("products agree with loops over all axes and layouts", "[reduce]") {
  for (const Shape& shape : {Shape{2, 3, 4}, Shape{5, 1, 7}, Shape{3, 17, 2}, Shape{4, 9, 33}})
    for (const DType type : {DType::float64, DType::float32}) {
      const Tensor x = random_in(0.8, 1.25, shape, type, 91);
      for (const Tensor& layout : {x, transpose(x), strided(x), flip(x), broadcast_to(narrow(x, 1, 0, 1), {-1, 3, -1})})
        for (const int axis : {0, 1, 2}) {
          INFO(to_string(layout.shape()) << " " << name(type) << " along axis " << axis);
          const std::vector<Tensor> slices = unstack(layout.to(DType::float64), axis);
          Tensor expected = slices[0];
          for (std::size_t i = 1; i < slices.size(); ++i) expected = expected * slices[i];
          CHECK(close(prod(layout, axis), expected,
                      type == DType::float64 ? tolerance::roundings64 : tolerance::roundings32));
        }
      CHECK(close(prod(x, {0, 2}), prod(prod(x, 2), 0), tolerance::roundings32));
    }
}

TEST_CASE("products of integers and bool are int64 and wrap around", "[reduce]") {
  CHECK(prod(Tensor{INT32_MAX, 2}).item<std::int64_t>() == 2 * std::int64_t{INT32_MAX});
  CHECK(prod(Tensor{true, true, false}).item<std::int64_t>() == 0);
  CHECK(prod(Tensor{true, true}).item<std::int64_t>() == 1);
  CHECK(prod(full({3}, -100, {.dtype = DType::int8})).item<std::int64_t>() == -1000000);
  CHECK(prod(full({7}, 200, {.dtype = DType::uint8})).item<std::int64_t>() == 12800000000000000);  // 2^7 * 10^14
  const std::int64_t large = std::int64_t{1} << 62;
  CHECK(prod(from_vector(std::vector<std::int64_t>{large, 2, 3})).item<std::int64_t>() == INT64_MIN);  // 3 * 2^63
  CHECK(same(prod(Tensor{{1, 2, 3}, {4, 5, 6}}, 0), from_vector(std::vector<std::int64_t>{4, 10, 18})));
}

TEST_CASE("products of nothing are 1", "[reduce]") {
  CHECK(same(prod(zeros({0})), Tensor(1.0f)));
  CHECK(same(prod(zeros({2, 0}), 1), {1.0f, 1.0f}));
  CHECK(same(prod(zeros({2, 0}, {.dtype = DType::int32}), 1), from_vector(std::vector<std::int64_t>{1, 1})));
  CHECK(prod(zeros({0, 3}), 1).shape() == Shape{0});
}

TEST_CASE("float32 products are taken in double", "[reduce]") {
  CHECK(same(prod(Tensor{0x1p100f, 0x1p100f, 0x1p-100f, 0x1p-100f, 2.0f}), Tensor(2.0f)));  // 2^200 is no float
  const double base = static_cast<double>(1.0001f);
  CHECK(std::fabs(number(prod(full({100000}, 1.0001f))) / std::pow(base, 100000) - 1) <= tolerance::roundings32);
  const double column = number(prod(full({70000, 2}, 1.0001f), 0)[1]);
  CHECK(std::fabs(column / std::pow(base, 70000) - 1) <= tolerance::roundings32);
  CHECK(number(prod(Tensor{kInfinity, 2.0})) == kInfinity);
  CHECK(std::isnan(number(prod(Tensor{kInfinity, 0.0}))));
  CHECK(std::isnan(number(prod(Tensor{kNaN, 0.0}))));
}

TEST_CASE("products stay where they are, one factor after the other, however they are taken", "[reduce]") {
  CHECK(number(prod(tile(Tensor{0x1p400, 0x1p-400}, {32}))) == 1);  // eight by eight: 2^3200 and 2^-3200
  CHECK(number(prod(tile(Tensor{0x1p-400, 0x1p400}, {32}))) == 1);
  Tensor x = full({40}, 0x1p400, {.dtype = DType::float64});
  x.set(0.0, 0);
  CHECK(number(prod(x)) == 0);  // numpy.prod too
}

TEST_CASE("products of any length are right where factors are far away from each other", "[reduce]") {
  const auto ones_but = [](std::int64_t count, const std::vector<std::pair<std::int64_t, double>>& others) {
    Tensor x = ones({count}, {.dtype = DType::float64});
    for (const auto& [at, value] : others) x.set(value, at);
    return x;
  };
  const double far = 0x1p700;
  CHECK(number(prod(ones_but(70000, {{0, far}, {65536, 1 / far}, {65537, 1 / far}}))) == 1 / far);
  CHECK(number(prod(ones_but(70000, {{0, far}, {1, far}, {65536, 1 / far}, {65537, 1 / far}}))) == 1);
  CHECK(number(prod(ones_but(16, {{0, 0x1.8p-530}, {8, 0x1.8p-530}, {1, 0x1p500}, {9, 0x1p500}}))) == 0x1.2p-59);
  CHECK(number(prod(ones_but(3, {{0, 0x1p-1074}, {1, 0x1p1000}, {2, 0x1.8p0}}))) == 0x1.8p-74);
  CHECK(number(prod(ones_but(2, {{0, 0x1p-1000}, {1, 0x1p-1000}}))) == 0);
  CHECK(number(prod(ones_but(3, {{0, -0x1p1000}, {1, 0x1p1000}}))) == -kInfinity);
  for (const std::int64_t count : {1, 7, 48, 49, 5000, 70000})
    for (const auto& [type, down, up] : {std::tuple{DType::float32, -140, 100}, {DType::float64, -1060, 1000}}) {
      const auto powers = [&](int exponent) { return full({count}, std::ldexp(1, exponent), {.dtype = type}); };
      const Tensor falling = concat({powers(down), powers(up), powers(-down - up)}),
                   rows = stack({falling, flip(falling)});
      INFO(count << " of each power of two, " << name(type));
      CHECK(same(prod(rows, 1), ones({2}, {.dtype = type})));
      CHECK(same(prod(transpose(rows).copy(), 0), ones({2}, {.dtype = type})));
      CHECK(same(slope([](const Tensor& t) { return prod(t); }, falling), 1 / falling));
    }
}

TEST_CASE("products stay in range up to the end of a row, wherever that lies", "[reduce]") {
  constexpr int kHead = 384, kMiddle = 192, kLow = 32;
  for (int end = 1; end <= 230; ++end) {  // of tiny factors; with wide registers they begin in what is near, but not 1
    const int total = 48 * kLow + 148 * end;
    std::vector<float> x;
    for (int i = 0; i < kHead; ++i) x.push_back(std::ldexp(1.0f, total / kHead + (i < total % kHead ? 1 : 0)));
    for (int i = 0; i < kMiddle; ++i) x.push_back(i < kMiddle - kLow ? 1.0f : 0x1p-48f);
    for (int i = 0; i < end; ++i) x.push_back(0x1p-148f);
    INFO(end << " of them");
    CHECK(number(prod(from_vector(x))) == 1);
  }
}

TEST_CASE("the mean of moments is infinite where an element is, wherever it stands", "[reduce]") {
  for (const std::int64_t count : {2, 600, 70000})
    for (const std::int64_t at : {std::int64_t{0}, count / 2, count - 1})
      for (const int axis : {0, 1}) {
        INFO(count << " with infinity at " << at << " along axis " << axis);
        Tensor x = ones({count, 2}, {.dtype = DType::float64});
        x.set(kInfinity, at, 0);
        const Moments m = axis == 0 ? moments(x, 0) : moments(transpose(x).copy(), 1);
        CHECK(same(m.mean, {kInfinity, 1.0}));
        CHECK(same(m.variance, {kNaN, 0.0}));  // as in NumPy
      }
}

TEST_CASE("the gradient of a product is that of the others, zeros or not", "[reduce][gradient]") {
  const auto product = [](const Tensor& t) { return prod(t); };
  CHECK(same(slope(product, Tensor{2.0, 3.0, 4.0}), {12.0, 8.0, 6.0}));
  CHECK(same(slope(product, Tensor{2.0, 0.0, 4.0}), {0.0, 8.0, 0.0}));
  CHECK(same(slope(product, Tensor{0.0, 0.0, 4.0}), {0.0, 0.0, 0.0}));
  const auto by_rows = [](const Tensor& t) { return prod(t, 1); };
  CHECK(same(slope(by_rows, Tensor{{2.0, 3.0}, {0.0, 5.0}}), {{3.0, 2.0}, {5.0, 0.0}}));
  CHECK(same(slope(product, Tensor{0x1p100f, 0x1p100f, 0x1p-100f}), {1.0f, 1.0f, static_cast<float>(kInfinity)}));
  CHECK(same(slope(product, Tensor{0x1p100f, 0x1p100f, 0x1p-100f, 0x1p-100f}),
             {0x1p-100f, 0x1p-100f, 0x1p100f, 0x1p100f}));  // of factors that are no floats
}

TEST_CASE("gradients of products of zeros are right to the third order", "[reduce][gradient]") {
  const Tensor x = {0.0, 0.0, 0.0};
  GradientTape outer;
  outer.watch(x);
  Tensor second;
  {
    GradientTape middle;
    middle.watch(x);
    Tensor first;
    {
      GradientTape inner;
      inner.watch(x);
      first = inner.gradient(prod(x), x);
    }
    CHECK(same(first, {0.0, 0.0, 0.0}));
    second = middle.gradient(first[0], x);  // x1 * x2 by each
  }
  CHECK(same(second, {0.0, 0.0, 0.0}));
  CHECK(same(outer.gradient(second[1], x), {0.0, 0.0, 1.0}));  // d^3 (x0 x1 x2) / dx0 dx1 dx2
}

TEST_CASE("var and std have the published values", "[reduce]") {
  const Tensor x = {{1.0, 2.0}, {3.0, 4.0}};  // numpy.var's and numpy.std's examples
  CHECK(same(var(x), Tensor(1.25)));
  CHECK(same(var(x, 0), {1.0, 1.0}));
  CHECK(same(var(x, 1), {0.25, 0.25}));
  CHECK(close(capstan::std(x), Tensor(1.1180339887498949), tolerance::roundings64));
  CHECK(same(capstan::std(x, 0), {1.0, 1.0}));
  CHECK(same(capstan::std(x, 1, {.keepdims = true}), {{0.5}, {0.5}}));
  const Tensor halves = stack({full({512 * 512}, 1.0f), full({512 * 512}, 0.1f)});
  CHECK(close(var(halves), Tensor(0.2025), tolerance::roundings32));  // in float32 numpy says 0.20250003
  CHECK(same(var(Tensor{4.0, 7.0, 13.0, 16.0}, {}, {.correction = 1}), Tensor(30.0)));
  // "Algorithms for calculating variance", Wikipedia: the naive formula gives -170.67 here
  CHECK(same(var(Tensor{1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16}, {}, {.correction = 1}), Tensor(30.0)));
}

TEST_CASE("var, std and moments agree with their definition over all axes, shapes and layouts", "[reduce]") {
  const Shape shapes[] = {{2, 3, 4}, {5, 1, 7}, {1, 1, 1}, {3, 17, 2}, {67, 3, 5}, {600, 2, 3}, {2, 260, 270}};
  for (const Shape& shape : shapes)
    for (const DType type : {DType::float64, DType::float32}) {
      const Tensor x = random_in(-1, 9, shape, type, 92);
      const double allowed = type == DType::float64 ? tolerance::roundings64 : tolerance::roundings32;
      for (const Tensor& layout : {x, transpose(x), strided(x), flip(x, {0, 2})})
        for (const Axes& axes : ways) {
          INFO(to_string(layout.shape()) << " " << name(type) << ", way " << &axes - ways);
          const Tensor wide = layout.to(DType::float64), expected = defined_variance(wide, axes, 0);
          CHECK(close(var(layout, axes), expected, allowed));
          CHECK(close(capstan::std(layout, axes), sqrt(expected), allowed));
          const Moments both = moments(layout, axes);
          CHECK(same(both.variance, var(layout, axes)));
          CHECK(close(both.mean, mean(wide, axes), allowed));
          if (2 * expected.numel() <= x.numel())
            CHECK(close(var(layout, axes, {.correction = 1.5}), defined_variance(wide, axes, 1.5), allowed));
        }
    }
}

TEST_CASE("long rows and columns have the variance of their definition", "[reduce]") {
  for (const Shape& shape : {Shape{200001, 2}, Shape{2, 200001}}) {
    const Tensor x = random_in(-1, 9, shape, DType::float32, 93), wide = x.to(DType::float64);
    for (const int axis : {0, 1}) CHECK(close(var(x, axis), defined_variance(wide, axis, 0), tolerance::roundings32));
    CHECK(close(var(x), defined_variance(wide, {}, 0), tolerance::roundings32));
  }
}

TEST_CASE("equal values have variance 0 exactly", "[reduce]") {
  for (const DType type : {DType::float32, DType::float64}) {
    CHECK(number(var(full({200003}, 0.1, {.dtype = type}))) == 0);
    CHECK(number(capstan::std(full({1000}, 1e-20, {.dtype = type}))) == 0);
    for (const int axis : {0, 1}) {
      const std::vector<double> list = values(var(full({700, 300}, 0.1, {.dtype = type}), axis));
      CHECK(list == std::vector<double>(list.size(), 0.0));
    }
  }
}

TEST_CASE("std reaches further than the square of its type", "[reduce]") {
  CHECK(close(capstan::std(Tensor{1e-25f, 3e-25f}), Tensor(1e-25f), tolerance::roundings32));
  CHECK(close(capstan::std(Tensor{1e30f, -1e30f}), Tensor(1e30f), tolerance::roundings32));
  CHECK(number(var(Tensor{1e30f, -1e30f})) == kInfinity);
  CHECK(number(var(full({100}, 3e38f))) == 0);  // the sum is no float
  CHECK(std::isnan(number(var(Tensor{1.0, kNaN}))));
  CHECK(std::isnan(number(var(Tensor{1.0, kInfinity}))));
}

TEST_CASE("variances without enough values are infinite, or NaN for equal ones", "[reduce]") {
  CHECK(std::isnan(number(var(Tensor{5.0}, {}, {.correction = 1}))));
  CHECK(number(var(Tensor{5.0})) == 0);
  CHECK(number(var(Tensor{1.0, 2.0}, {}, {.correction = 2})) == kInfinity);
  CHECK(number(var(Tensor{1.0, 2.0}, {}, {.correction = 3})) == kInfinity);
  CHECK(same(var(Tensor{1.0, 3.0}, {}, {.correction = -2}), Tensor(0.5)));  // 2 / (2 + 2)
  CHECK(var(zeros({3, 0}), 0).shape() == Shape{0});
}

TEST_CASE("the gradient of std is 0 where nothing varies", "[reduce][gradient]") {
  const Tensor x = {{2.0, 2.0, 2.0}, {1.0, 2.0, 3.0}};
  const double outer = std::sqrt(1.5) / 3;  // (x - 2) / (3 * std), std = sqrt(2 / 3)
  CHECK(close(slope([](const Tensor& t) { return capstan::std(t, 1); }, x), {{0.0, 0.0, 0.0}, {-outer, 0.0, outer}},
              tolerance::roundings64));
  GradientTape tape;
  tape.watch(x);
  Tensor first;
  {
    GradientTape inner;
    inner.watch(x);
    first = inner.gradient(capstan::std(x, 1), x);
  }
  for (const double value : values(tape.gradient(square(first), x))) CHECK(std::isfinite(value));
}

TEST_CASE("the gradient of logsumexp is 0 where all are -infinity", "[reduce][gradient]") {
  const Tensor x = {{-kInfinity, -kInfinity}, {-kInfinity, 0.0}};
  CHECK(same(slope([](const Tensor& t) { return logsumexp(t, 1); }, x), {{0.0, 0.0}, {0.0, 1.0}}));
  CHECK(same(slope([](const Tensor& t) { return logsumexp(t); }, full({3}, -kInfinity)), {0.0f, 0.0f, 0.0f}));
}

TEST_CASE("16-bit means, products and variances are computed in float32", "[reduce][half]") {
  for (const DType type : {DType::float16, DType::bfloat16}) {
    INFO(name(type));
    const Tensor x = from_doubles({1, 2, 3, 4}, {4}, type);
    CHECK(same(mean(x), from_doubles({2.5}, {}, type)));
    CHECK(same(prod(x), from_doubles({24}, {}, type)));
    CHECK(same(var(x), from_doubles({1.25}, {}, type)));
    CHECK(same(capstan::std(2 * x - 5), from_doubles({std::sqrt(5.0)}, {}, type)));
    CHECK(same(mean(full({100000}, 1.0, {.dtype = type})), from_doubles({1}, {}, type)));  // the sum is no float16
    CHECK(same(slope([](const Tensor& t) { return mean(t); }, zeros({3000}, {.dtype = type}))[7],
               from_doubles({1.0 / 3000}, {}, type)));
    CHECK(same(slope([](const Tensor& t) { return prod(t); }, x), from_doubles({24, 12, 8, 6}, {4}, type)));
  }
}

TEST_CASE("gradients of 16-bit variances take a mean that 16 bits do not have", "[reduce][half]") {
  const Tensor x = from_doubles({1000, 1000.5}, {2}, DType::float16);  // the mean is 1000.25
  const auto narrow = [](double a, double b) { return from_doubles({a, b}, {2}, DType::float16); };
  CHECK(same(slope([](const Tensor& t) { return var(t); }, x), narrow(-0.25, 0.25)));
  CHECK(same(slope([](const Tensor& t) { return capstan::std(t); }, x), narrow(-0.5, 0.5)));
  CHECK(same(slope([](const Tensor& t) { return moments(t).variance; }, x), narrow(-0.25, 0.25)));
  CHECK(same(slope([](const Tensor& t) { return moments(t).mean + moments(t).variance; }, x), narrow(0.25, 0.75)));
  for (const bool both : {false, true}) {
    GradientTape tape;
    tape.watch(x);
    Tensor first;
    {
      GradientTape inner;
      inner.watch(x);
      first = inner.gradient(both ? moments(x).variance : var(x), x);
    }
    CHECK(same(tape.gradient(sum(square(first)), x), narrow(-0.5, 0.5)));  // of (a - b)^2 / 2
  }
}

TEST_CASE("variances and products are the same for any number of threads", "[reduce][threads]") {
  const Tensor flat = random_in(0.99, 1.01, {300001}, DType::float32, 94);
  const Tensor rows = random_in(0.99, 1.01, {1000, 300}, DType::float32, 95);
  const auto compute = [&](int threads_to_use) {
    const ThreadCount count(threads_to_use);
    std::vector<std::vector<double>> results;
    for (const Tensor& x : {var(flat), prod(flat), var(rows, 0), var(rows, 1), prod(rows, 0), moments(rows, 0).mean})
      results.push_back(values(x));
    return results;
  };
  const auto one = compute(1);
  for (const int count : {2, 3, 4}) CHECK((compute(count) == one));
}
