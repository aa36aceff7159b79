// Running sums, products and extremes: against loops over all axes, layouts and directions, and published examples.
#include "tests/support.hpp"

#include <cmath>

using namespace capstan;
using namespace tests;

namespace {

using Indices = std::vector<std::int64_t>;

Tensor int64s(const Indices& list) { return from_vector(list); }

const CumulativeOptions every_way[] = {
    {}, {.exclusive = true}, {.reverse = true}, {.exclusive = true, .reverse = true}};

std::string text_of(CumulativeOptions o) {
  return std::string(o.exclusive ? " exclusive" : "") + (o.reverse ? " reverse" : "");
}

/// Folds along an axis by a loop; `f` is called with the running value and the next element.
template <class F>
std::vector<double> folded(const Tensor& x, int axis, CumulativeOptions options, double start, F f) {
  const std::vector<double> list = values(x);
  std::vector<double> result(list.size());
  std::int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= x.size(i);
  for (int i = axis + 1; i < x.rank(); ++i) inner *= x.size(i);
  const std::int64_t count = x.size(axis);
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t in = 0; in < inner; ++in) {
      double running = start;
      for (std::int64_t k = 0; k < count; ++k) {
        const auto at = static_cast<std::size_t>((o * count + (options.reverse ? count - 1 - k : k)) * inner + in);
        const double after = f(running, list[at]);
        result[at] = options.exclusive ? running : after;
        running = after;
      }
    }
  return result;
}

double plus(double a, double b) { return a + b; }
double times(double a, double b) { return a * b; }
double log_plus(double a, double b) {
  const double high = std::fmax(a, b), low = std::fmin(a, b);
  return std::isinf(low) ? high : high + std::log1p(std::exp(low - high));
}

void check_all(const Tensor& x, int axis, double allowed) {
  for (const CumulativeOptions& o : every_way) {
    INFO(to_string(x.shape()) << " " << name(x.dtype()) << " axis " << axis << text_of(o)
                              << (x.is_contiguous() ? "" : " strided"));
    CHECK(cumsum(x, axis, o).shape() == x.shape());
    CHECK(relative_error(values(cumsum(x, axis, o)), folded(x, axis, o, 0, plus)) <= allowed);
    CHECK(relative_error(values(cumprod(x, axis, o)), folded(x, axis, o, 1, times)) <= allowed);
    if (!is_floating(x.dtype())) continue;
    CHECK(relative_error(values(logcumsumexp(x, axis, o)), folded(x, axis, o, -kInfinity, log_plus)) <= allowed);
  }
}

}  // namespace

TEST_CASE("running totals agree with loops for all shapes, axes, layouts and directions", "[cumulative]") {
  const Shape shapes[] = {{1}, {9}, {5, 7}, {3, 4, 5}, {2, 1, 300}, {6, 300, 2}, {4, 3, 259}, {0, 3}, {3, 0}};
  for (const Shape& shape : shapes)
    for (int axis = 0; axis < shape.rank(); ++axis)
      for (const DType type : {DType::float64, DType::float32}) {
        const double allowed = type == DType::float64 ? tolerance::roundings64 : tolerance::roundings32;
        const Tensor x = random_in(0.9, 1.1, shape, type, 221);  // products stay near 1, and no sum comes near 0
        check_all(x, axis, allowed);
        check_all(strided(x), axis, allowed);
      }
}

TEST_CASE("long rows are cut without a trace", "[cumulative]") {
  for (const Shape& shape : {Shape{65536}, Shape{65537}, Shape{100001}, Shape{2, 70003}})
    check_all(random_in(0.99995, 1.00005, shape, DType::float32, 222), shape.rank() - 1, tolerance::roundings32);
  const std::int64_t count = 100001;
  const Tensor ones64 = ones({count}, {.dtype = DType::int64});
  CHECK(same(cumsum(ones64, 0), arange(1, count + 1)));
  CHECK(same(cumsum(ones64, 0, {.exclusive = true, .reverse = true}), arange(count - 1, -1, -1)));
}

TEST_CASE("running totals do not depend on the number of threads", "[cumulative][threads]") {
  const Tensor flat = random_in(-1, 1, {300001}, DType::float32, 223);
  const Tensor grid = random_in(-1, 1, {701, 431}, DType::float32, 224);
  std::vector<std::vector<double>> one;
  for (const int count : {1, 2, 3}) {
    const ThreadCount threads_for_now(count);
    std::vector<std::vector<double>> now;
    for (const Tensor& y : {cumsum(flat, 0), cumprod(flat, 0), logcumsumexp(flat, 0), cumsum(grid, 0), cumsum(grid, 1),
                            logcumsumexp(grid, 1), cummax(grid, 0).values, cummin(flat, 0).values})
      now.push_back(values(y));
    if (count == 1) one = now;
    for (std::size_t i = 0; i < one.size(); ++i) CHECK(same_bits(now[i], one[i]));
  }
}

TEST_CASE("cumsum has TensorFlow's documented options", "[cumulative]") {
  const Tensor x = {1, 2, 4};  // a, b, c
  CHECK(same(cumsum(x, 0), int64s({1, 3, 7})));
  CHECK(same(cumsum(x, 0, {.exclusive = true}), int64s({0, 1, 3})));                    // 0, a, a + b
  CHECK(same(cumsum(x, 0, {.reverse = true}), int64s({7, 6, 4})));                      // a + b + c, b + c, c
  CHECK(same(cumsum(x, 0, {.exclusive = true, .reverse = true}), int64s({6, 4, 0})));   // b + c, c, 0
  CHECK(same(cumprod(x, 0, {.exclusive = true}), int64s({1, 1, 2})));                   // 1, a, a * b
  CHECK(same(cumprod(x, 0, {.exclusive = true, .reverse = true}), int64s({8, 4, 1})));  // b * c, c, 1
}

TEST_CASE("running totals of integers and bool are int64 and wrap around", "[cumulative]") {
  CHECK(same(cumsum(Tensor{true, false, true}, 0), int64s({1, 1, 2})));
  CHECK(same(cumsum(full({3}, 255, {.dtype = DType::uint8}), 0), int64s({255, 510, 765})));
  CHECK(same(cumprod(full({3}, -128, {.dtype = DType::int8}), 0), int64s({-128, 16384, -2097152})));
  CHECK(cumsum(int64s({INT64_MAX, 1}), 0).to_vector<std::int64_t>() == Indices{INT64_MAX, INT64_MIN});
}

TEST_CASE("float32 and 16-bit totals do not drift", "[cumulative]") {
  const std::int64_t count = 200000;
  const Tensor total = cumsum(full({count}, 0.1f), 0);
  const double exact = static_cast<double>(0.1f) * static_cast<double>(count);
  CHECK(std::fabs(static_cast<double>(total.at<float>(count - 1)) - exact) <= tolerance::roundings32 * exact);
  const Tensor halves = cumsum(full({4, 500}, 1, {.dtype = DType::bfloat16}), 1);
  CHECK(halves.dtype() == DType::bfloat16);
  CHECK(values(halves).back() == 500);  // a running bfloat16 total would stay at 256
}

namespace {

/// Running products of each line of `x` along the last axis, and for each element the product of all others, in long
/// double, whose range is 16 times as wide as that of double.
struct WideProducts {
  std::vector<double> running, others;

  WideProducts(const Tensor& x, CumulativeOptions options) {
    const std::vector<double> list = values(x);
    const auto count = static_cast<std::size_t>(x.size(-1));
    running.resize(list.size()), others.resize(list.size());
    for (std::size_t line = 0; line < list.size(); line += count) {
      long double product = 1;
      for (std::size_t k = 0; k < count; ++k) {
        const std::size_t at = line + (options.reverse ? count - 1 - k : k);
        const long double after = product * static_cast<long double>(list[at]);
        running[at] = static_cast<double>(options.exclusive ? product : after);
        product = after;
        long double other = 1;
        for (std::size_t i = line; i < line + count; ++i) other *= i == at ? 1 : static_cast<long double>(list[i]);
        others[at] = static_cast<double>(other);
      }
    }
  }
};

}  // namespace

TEST_CASE("products of lines of any numbers, in and out of range, and their gradients", "[cumulative][gradient]") {
  const Tensor doubles{0.0, 1.0, -3.0, 0x1p-1000, -0x1p-600, 0x1p600, 0x1p1000, kInfinity, kNaN};
  const Tensor floats =
      Tensor{0.0, 1.0, -3.0, 0x1p-149, -0x1p-110, 0x1p90, 0x1p127, kInfinity, kNaN}.to(DType::float32);
  for (const Tensor& numbers : {doubles, floats})
    for (const std::int64_t kinds : {2, 3, 6, 7, 9})  // masks, nothing infinite, all
      for (const std::int64_t count : {2, 5, 10, 40}) {
        if (numbers.dtype() == DType::float64 && count > 10) continue;  // beyond the range of long double
        const Tensor x = gather(numbers, randint(0, kinds, {500, count}), 0);
        const Tensor columns = transpose(x).copy();
        for (const CumulativeOptions& o : every_way) {
          INFO(name(x.dtype()) << ", " << kinds << " kinds, lines of " << count << text_of(o));
          const WideProducts wide(x, o);
          const Tensor expected = from_doubles(wide.running, x.shape(), x.dtype());
          CHECK(same(cumprod(x, 1, o), expected));
          CHECK(same(cumprod(columns, 0, o), transpose(expected)));
          GradientTape tape;
          tape.watch(x);
          CHECK(same(tape.gradient(sum(prod(x, 1)), x), from_doubles(wide.others, x.shape(), x.dtype())));
        }
      }
}

TEST_CASE("gradients of products take what comes from behind as it is", "[cumulative][gradient]") {
  const auto gradient = [](const Tensor& x, double seed) {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(prod(x), x, {.output_gradient = full({}, seed, {.dtype = x.dtype()})});
  };
  CHECK(same(gradient(Tensor{1.5, 0x1p-600}, 0x1.ap1023), Tensor{0x1.ap423, kInfinity}));
  CHECK(same(gradient(Tensor{1.5, 0x1p-600, 1.0}, 0x1.ap1023), Tensor{0x1.ap423, kInfinity, 0x1.38p424}));
  CHECK(same(gradient(Tensor{1.5, 0x1p600, 1.0}, 0x1p-1074), Tensor{0x1p-474, 0x1p-1073, 0x1.8p-474}));
  CHECK(same(gradient(Tensor{3.0}, 0.1), Tensor{0.1}));
  CHECK(same(gradient(Tensor{3.0, 7.0}, 0.1), Tensor{0.1 * 7, 0.1 * 3}));
  for (const double seed : {0.0, kInfinity, kNaN})
    CHECK(same(gradient(Tensor{2.0f, -4.0f, 0.5f}, seed), Tensor{-2 * seed, 1 * seed, -8 * seed}.to(DType::float32)));
}

TEST_CASE("running totals meet zeros, infinities and NaN as their definitions do", "[cumulative]") {
  CHECK(same(cumsum(Tensor{1.0, kInfinity, -kInfinity, 1.0}, 0), {1.0, kInfinity, kNaN, kNaN}));
  CHECK(same(cumprod(Tensor{2.0, 0.0, 3.0, kNaN}, 0), {2.0, 0.0, 0.0, kNaN}));
  CHECK(same_bits(values(cumprod(Tensor{-1.0, 0.0, 3.0, -2.0}, 0)), {-1.0, -0.0, -0.0, 0.0}));
  // products too large and too small, which what follows brings back
  CHECK(same(cumprod(Tensor{0x1p600, 0x1p600, 0x1p-900, 0.0}, 0), {0x1p600, kInfinity, 0x1p300, 0.0}));
  CHECK(same(cumprod(Tensor{0x1p-600, -0x1p-600, 0x1p900}, 0), {0x1p-600, -0.0, -0x1p-300}));
  constexpr double kOdd = 1 + 0x1p-40;  // whose last bit a subnormal product would lose
  CHECK(same(cumprod(Tensor{0x1p-1000, kOdd * 0x1p-60, 0x1p200}, 0).index({2}), Tensor(kOdd * 0x1p-860)));
  CHECK(same(cumprod(Tensor{2.0, kInfinity, 0.5, 0.0}, 0), {2.0, kInfinity, kInfinity, kNaN}));
  CHECK(same(logcumsumexp(Tensor{-kInfinity, -kInfinity, 1.0, -kInfinity}, 0), {-kInfinity, -kInfinity, 1.0, 1.0}));
  CHECK(same(logcumsumexp(Tensor{1.0, kInfinity, kInfinity, kNaN}, 0), {1.0, kInfinity, kInfinity, kNaN}));
  CHECK(same(logcumsumexp(Tensor{-kInfinity, kNaN, 1.0}, 0), {-kInfinity, kNaN, kNaN}));
}

TEST_CASE("a product that is zero stays zero, however long the row and however large what follows", "[cumulative]") {
  Tensor x = full({100000}, 3.0f);
  x.set(0.0f, 0);
  const Tensor product = cumprod(x, 0);
  CHECK(number(max(product)) == 0);
  CHECK(number(min(product)) == 0);
}

TEST_CASE("a product of a long row comes back from where parts of it leave the range of double", "[cumulative]") {
  const Tensor halves = full({50000}, 0.5f), twos = full({50000}, 2.0f);
  for (const Tensor& x :
       {concat({halves, twos}, 0), concat({twos, halves}, 0), concat({twos, halves, zeros({9})}, 0)}) {
    const Tensor product = cumprod(x, 0);
    CHECK(number(product.index({99999})) == 1);
    CHECK(number(product.index({99899})) == std::exp2(number(x.index({0})) < 1 ? -100 : 100));
    CHECK(number(product.index({-1})) == (x.size(0) == 100000 ? 1 : 0));
  }
}

TEST_CASE("logcumsumexp neither overflows nor loses what is small", "[cumulative]") {
  CHECK(close(logcumsumexp(Tensor{1000.0, 1001.0, 1002.0}, 0), {1000.0, 1001.3132616875182, 1002.4076059644443},
              tolerance::roundings64));  // 1001 + log(1 + 1/e), 1002 + log(1 + 1/e + 1/e^2)
  CHECK(same(logcumsumexp(Tensor{0.0, -2000.0, 2000.0}, 0), {0.0, 0.0, 2000.0}));
}

TEST_CASE("cummax and cummin tell where the extreme stands, the last of equal ones", "[cumulative]") {
  const Tensor x = {1.0f, 3.0f, 3.0f, 2.0f, static_cast<float>(kNaN), 5.0f};
  const float nan = static_cast<float>(kNaN);
  CHECK(same(cummax(x, 0).values, {1.0f, 3.0f, 3.0f, 3.0f, nan, nan}));
  CHECK(same(cummax(x, 0).indices, int64s({0, 1, 2, 2, 4, 4})));
  CHECK(same(cummin(x, 0).values, {1.0f, 1.0f, 1.0f, 1.0f, nan, nan}));
  CHECK(same(cummin(x, 0).indices, int64s({0, 0, 0, 0, 4, 4})));
  CHECK(same(cummin(Tensor{3, 1, 2, 1}, 0).indices, int64s({0, 1, 1, 3})));
  CHECK(same(cummax(Tensor{false, true, false}, 0).values, {false, true, true}));
  CHECK(cummax(zeros({0, 3}), 0).indices.shape() == Shape{0, 3});
}

TEST_CASE("cummax and cummin are those of loops where extremes come early, late, often, and as NaN", "[cumulative]") {
  for (const DType type : {DType::float32, DType::float64, DType::float16, DType::bfloat16})
    for (const double nan_at : {-1.0, 0.0, 70.0}) {
      for (const char* order : {"up", "down", "steps", "zeros"}) {
        std::vector<double> x(100);
        for (std::size_t i = 0; i < x.size(); ++i) {
          const double at = static_cast<double>(i);
          x[i] = order[0] == 'u' ? at : order[0] == 'd' ? -at : order[0] == 's' ? std::floor(at / 20) : at * 0;
          if (order[0] == 'z' && i % 3 == 0) x[i] = -0.0;
        }
        if (nan_at >= 0) x[static_cast<std::size_t>(nan_at)] = kNaN;
        const Tensor line = from_vector(x).to(type);
        for (const bool largest : {true, false}) {
          INFO(name(type) << " " << order << " NaN at " << nan_at << (largest ? " cummax" : " cummin"));
          std::vector<std::int64_t> places;
          std::int64_t best = 0;
          for (std::int64_t i = 0; i < 100; ++i) {
            const double a = x[static_cast<std::size_t>(i)], b = x[static_cast<std::size_t>(best)];
            if (a != a || (largest ? a >= b : a <= b)) best = i;
            places.push_back(best);
          }
          const Tensor wide = stack({line, line, line}, 1);  // the same along the first axis
          const ExtremeResult one = largest ? cummax(line, 0) : cummin(line, 0);
          const ExtremeResult three = largest ? cummax(wide, 0) : cummin(wide, 0);
          CHECK(one.indices.to_vector<std::int64_t>() == places);
          CHECK(same_bits(values(one.values), values(take(line, one.indices, 0))));
          CHECK(three.indices.index({all, 1}).contiguous().to_vector<std::int64_t>() == places);
          CHECK(same(three.values.index({all, 2}), one.values));
        }
      }
    }
}

TEST_CASE("cummax and cummin agree with loops for all types and axes", "[cumulative]") {
  for (const DType type : {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::int8, DType::int16,
                           DType::int32, DType::int64, DType::uint8})
    for (const Shape& shape : {Shape{40}, Shape{5, 7}, Shape{3, 20, 300}})
      for (int axis = 0; axis < shape.rank(); ++axis) {
        const double low = type == DType::uint8 ? 0 : -90;
        const Tensor x = strided(random_in(low, 90, shape, type, 225));
        INFO(to_string(shape) << " " << name(type) << " axis " << axis);
        const ExtremeResult high = cummax(x, axis), least = cummin(x, axis);
        const auto larger = [](double a, double b) { return std::fmax(a, b); };
        const auto smaller = [](double a, double b) { return std::fmin(a, b); };
        CHECK(values(high.values) == folded(x, axis, {}, -kInfinity, larger));
        CHECK(values(least.values) == folded(x, axis, {}, kInfinity, smaller));
        CHECK(same(take_along_axis(x, high.indices, axis), high.values));
        CHECK(same(take_along_axis(x, least.indices, axis), least.values));
      }
}

TEST_CASE("differences are the ones NumPy's documentation shows", "[cumulative]") {
  const Tensor x = {1, 2, 4, 7, 0};
  CHECK(same(diff(x), {1, 2, 3, -7}));
  CHECK(same(diff(x, 2), {1, 1, -10}));
  CHECK(diff(x, 0).is_same(x));
  const Tensor grid = {{1, 3, 6, 10}, {0, 5, 6, 8}};
  CHECK(same(diff(grid), {{2, 3, 4}, {5, 1, 2}}));
  CHECK(same(diff(grid, 1, 0), {{-1, 2, 0, -2}}));
  CHECK(diff(grid, 9).shape() == Shape{2, 0});
  CHECK(same(diff(cumsum(Tensor{0.5, 2.0, 4.0}, 0)), {2.0, 4.0}));
}

TEST_CASE("the gradient of cumprod is exact where elements are zero", "[cumulative][gradient]") {
  const Tensor x = {2.0, 0.0, 3.0, 0.0, 5.0};
  const auto slope = [&](CumulativeOptions o) {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(sum(cumprod(x, 0, o)), x);
  };
  CHECK(same(slope({}), {1.0, 8.0, 0.0, 0.0, 0.0}));                   // a + ab + abc + ...: by b a + ac
  CHECK(same(slope({.exclusive = true}), {1.0, 8.0, 0.0, 0.0, 0.0}));  // 1 + a + ab + abc + abcd
  CHECK(same(slope({.reverse = true}), {0.0, 0.0, 0.0, 20.0, 1.0}));   // e + de + cde + ...: by d e + ce
}

TEST_CASE("the gradient of logcumsumexp is finite for enormous and for vanishing terms", "[cumulative][gradient]") {
  const Tensor x = {-kInfinity, -kInfinity, 1000.0, 1000.0, -1000.0};
  GradientTape tape;
  tape.watch(x);
  const Tensor g = tape.gradient(logcumsumexp(x, 0).index({4}), x);
  CHECK(close(g, {0.0, 0.0, 0.5, 0.5, 0.0}, tolerance::roundings64));  // the softmax
}
