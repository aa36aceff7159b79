// Elementwise operations: published values, tails, specials, accuracy over the range, sizes, strides, broadcasting, types.
#include "tests/rules.hpp"
#include "tests/support.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <random>
#include <type_traits>

using namespace capstan;
using namespace tests;

namespace {

using Unary = UnaryFunction;
const std::map<std::string, Unary>& unary_ops = unary_functions();

struct Golden {
  const char* op;
  double x, value, slope;
};

// Computed with mpmath at 60 digits and rounded once to float64.
const Golden golden_rows[] = {
    {"exp", 0.0, 1.0, 1.0},
    {"exp", 1.0, 2.718281828459045, 2.718281828459045},
    {"exp", -1.0, 0.36787944117144233, 0.36787944117144233},
    {"exp", 0.5, 1.6487212707001282, 1.6487212707001282},
    {"exp", -20.0, 2.061153622438558e-09, 2.061153622438558e-09},
    {"exp", 88.5, 2.7230878250681117e+38, 2.7230878250681117e+38},
    {"exp", -700.0, 9.85967654375977e-305, 9.85967654375977e-305},
    {"exp", 709.5, 1.3549863193146328e+308, 1.3549863193146328e+308},
    {"exp", 1e-300, 1.0, 1.0},
    {"log", 1.0, 0.0, 1.0},
    {"log", 2.0, 0.6931471805599453, 0.5},
    {"log", 0.5, -0.6931471805599453, 2.0},
    {"log", 1e-300, -690.7755278982137, 9.999999999999999e+299},
    {"log", 1e+300, 690.7755278982137, 1e-300},
    {"log", 5e-324, -744.4400719213812, kInfinity},  // the smallest subnormal
    {"log", 1.0000000001, 1.000000082690371e-10, 0.9999999999},
    {"sqrt", 1.0, 1.0, 0.5},
    {"sqrt", 2.0, 1.4142135623730951, 0.3535533905932738},
    {"sqrt", 1e-300, 1e-150, 5e+149},
    {"sqrt", 1e+300, 1e+150, 5e-151},
    {"sigmoid", 0.0, 0.5, 0.25},
    {"sigmoid", 2.0, 0.8807970779778824, 0.10499358540350652},
    {"sigmoid", -2.0, 0.11920292202211756, 0.10499358540350652},
    {"sigmoid", -30.0, 9.357622968839299e-14, 9.357622968838423e-14},  // 1 - 1/(1+exp(x)), or a clamped fit, fails here
    {"sigmoid", 30.0, 0.9999999999999064, 9.357622968838423e-14},
    {"sigmoid", -700.0, 9.85967654375977e-305, 9.85967654375977e-305},
    {"sigmoid", 1e-10, 0.500000000025, 0.25},
    {"tanh", 0.0, 0.0, 1.0},
    {"tanh", 1.0, 0.7615941559557649, 0.4199743416140261},
    {"tanh", -1.0, -0.7615941559557649, 0.4199743416140261},
    {"tanh", 0.5, 0.46211715726000974, 0.7864477329659274},
    {"tanh", 5.0, 0.9999092042625951, 0.0001815832309438067},
    {"tanh", 1e-10, 1e-10, 1.0},
    {"tanh", -1e-300, -1e-300, 1.0},
    {"tanh", 0.01, 0.00999966667999946, 0.9999000066662889},
    {"reciprocal", 1.0, 1.0, -1.0},
    {"reciprocal", 3.0, 0.3333333333333333, -0.1111111111111111},
    {"reciprocal", -0.1, -10.0, -99.99999999999999},
    {"reciprocal", 1e+150, 1e-150, -1e-300},
    {"square", 3.0, 9.0, 6.0},
    {"square", -1.5, 2.25, -3.0},
    {"square", 1e-150, 1e-300, 2e-150},
    {"abs", 2.5, 2.5, 1.0},
    {"abs", -2.5, 2.5, -1.0},
    {"neg", 2.5, -2.5, -1.0},
    {"relu", 2.5, 2.5, 1.0},
    {"relu", -2.5, 0.0, 0.0},
    {"relu", 1e-300, 1e-300, 1.0},
};

struct Special {
  const char* op;
  double x, value;
};
// IEEE 754 and C99 Annex F, as far as they speak of these functions; sigmoid and relu by their limits.
const Special special_rows[] = {
    {"exp", kInfinity, kInfinity},
    {"exp", -kInfinity, 0.0},
    {"exp", 1000.0, kInfinity},
    {"exp", -1000.0, 0.0},
    {"exp", -0.0, 1.0},
    {"log", 0.0, -kInfinity},
    {"log", -0.0, -kInfinity},
    {"log", -1.0, kNaN},
    {"log", kInfinity, kInfinity},
    {"log", -kInfinity, kNaN},
    {"sqrt", 0.0, 0.0},
    {"sqrt", -0.0, -0.0},
    {"sqrt", -1.0, kNaN},
    {"sqrt", kInfinity, kInfinity},
    {"tanh", kInfinity, 1.0},
    {"tanh", -kInfinity, -1.0},
    {"tanh", -0.0, -0.0},
    {"tanh", 1000.0, 1.0},
    {"sigmoid", kInfinity, 1.0},
    {"sigmoid", -kInfinity, 0.0},
    {"sigmoid", 1000.0, 1.0},
    {"sigmoid", -1000.0, 0.0},
    {"reciprocal", 0.0, kInfinity},
    {"reciprocal", -0.0, -kInfinity},
    {"reciprocal", kInfinity, 0.0},
    {"reciprocal", -kInfinity, -0.0},
    {"abs", -0.0, 0.0},
    {"abs", -kInfinity, kInfinity},
    {"neg", 0.0, -0.0},
    {"neg", -kInfinity, kInfinity},
    {"relu", kInfinity, kInfinity},
    {"relu", -kInfinity, 0.0},
    {"square", -kInfinity, kInfinity},
};

/// Many values, so that the operation runs in lanes; all must come out alike.
template <class T>
T of_many(Unary op, T x) {
  const std::vector<T> results =
      op(full({37}, static_cast<double>(x), {.dtype = dtype_of<T>()})).template to_vector<T>();
  for (const T& result : results) CHECK(ulps_between(result, results[0]) == 0);
  return results[0];
}

template <class T>
void check_special(double x, double expected, Unary op) {
  const T value = of_many<T>(op, static_cast<T>(x));
  CHECK(ulps_between(value, static_cast<T>(expected)) == 0);
  CHECK((std::isnan(expected) || std::signbit(value) == std::signbit(expected)));
}

/// Random bit patterns: all magnitudes alike, infinities, NaN and subnormals among them.
template <class T, class Bits>
std::vector<T> any_numbers(std::size_t count, bool positive) {
  std::mt19937_64 random(3);
  std::vector<T> list(count);
  for (T& x : list) {
    x = std::bit_cast<T>(static_cast<Bits>(random()));
    if (positive) x = std::fabs(x);
  }
  return list;
}
template <class T>
std::vector<T> numbers_in(double low, double high, std::size_t count) {
  std::mt19937_64 random(4);
  std::uniform_real_distribution<double> between(low, high);
  std::vector<T> list(count);
  for (T& x : list) x = static_cast<T>(between(random));
  return list;
}

/// The worst distance from the reference, which computes in a wider type.
template <class T, class Reference>
void check_accuracy(const char* what, Unary op, const std::vector<T>& xs, Reference reference) {
  const std::vector<T> results = op(from_vector(xs)).template to_vector<T>();
  double worst = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const double distance = ulps_between(results[i], static_cast<T>(reference(xs[i])));
    if (distance > worst) worst = distance, at = i;
  }
  INFO(what << " at " << xs[at] << " gives " << results[at] << ", not " << static_cast<T>(reference(xs[at])));
  CHECK(worst <= tolerance::elementwise_ulps);
}

}  // namespace

TEST_CASE("elementwise functions and their slopes have the published values, tails included", "[elementwise]") {
  for (const Golden& row : golden_rows) {
    INFO(row.op << " at " << row.x);
    const Unary op = unary_ops.at(row.op);
    CHECK(ulps_between(of_many<double>(op, row.x), row.value) <= tolerance::elementwise_ulps);
    const Tensor x(row.x);
    GradientTape tape;
    tape.watch(x);
    const double slope = number(tape.gradient(op(x), x));
    // 1 - y loses what the 4 ULP of y near 1 are worth
    CHECK((slope == row.slope ||
           std::fabs(slope - row.slope) <= tolerance::roundings64 * std::fabs(row.slope) + tolerance::slope_near_one));
  }
}

TEST_CASE("elementwise functions keep to IEEE 754 at zeros, infinities and NaN", "[elementwise]") {
  for (const Special& row : special_rows) {
    INFO(row.op << " at " << row.x);
    check_special<double>(row.x, row.value, unary_ops.at(row.op));
    check_special<float>(row.x, row.value, unary_ops.at(row.op));
  }
  for (const auto& [op_name, op] : unary_ops) {
    INFO(op_name << " at NaN");
    CHECK(std::isnan(of_many<double>(op, kNaN)));
    CHECK(std::isnan(of_many<float>(op, static_cast<float>(kNaN))));
  }
}

TEST_CASE("subnormal numbers are neither flushed on the way in nor on the way out", "[elementwise]") {
  const double smallest = 5e-324;
  CHECK(of_many<double>(unary_ops.at("abs"), -smallest) == smallest);
  CHECK(of_many<double>(unary_ops.at("relu"), smallest) == smallest);
  CHECK(of_many<double>(unary_ops.at("tanh"), smallest) == smallest);
  CHECK(same(Tensor{smallest} + smallest, {1e-323}));
  CHECK(same(Tensor{1e-308} * 0.25, {1e-308 * 0.25}));
  CHECK(ulps_between(of_many<double>(unary_ops.at("sqrt"), smallest), 2.2227587494850775e-162) <= 1);
  CHECK(ulps_between(of_many<double>(unary_ops.at("exp"), -740.0), 4.2e-322) <= tolerance::elementwise_ulps);
  CHECK(ulps_between(of_many<float>(unary_ops.at("exp"), -95.0f), 5.5211e-42f) <= tolerance::elementwise_ulps);
  CHECK(of_many<float>(unary_ops.at("relu"), 1e-45f) == 1e-45f);
  CHECK(same(Tensor{1e-38f} * 0.25f, {2.5e-39f}));
}

TEST_CASE("float32 functions are within 4 ULP over their range", "[elementwise]") {
  const std::size_t count = 20000;
  const auto wide = [&](double low, double high) { return numbers_in<float>(low, high, count); };
  const auto positive = any_numbers<float, std::uint32_t>(count, true);
  const auto any = any_numbers<float, std::uint32_t>(count, false);
  check_accuracy("exp", unary_ops.at("exp"), wide(-87, 88.7), [](double x) { return std::exp(x); });
  check_accuracy("log", unary_ops.at("log"), positive, [](double x) { return std::log(x); });
  check_accuracy("log near 1", unary_ops.at("log"), wide(0.9, 1.1), [](double x) { return std::log(x); });
  check_accuracy("sqrt", unary_ops.at("sqrt"), positive, [](double x) { return std::sqrt(x); });
  check_accuracy("tanh", unary_ops.at("tanh"), wide(-10, 10), [](double x) { return std::tanh(x); });
  check_accuracy("tanh of any", unary_ops.at("tanh"), any, [](double x) { return std::tanh(x); });
  check_accuracy("sigmoid", unary_ops.at("sigmoid"), wide(-87, 88), [](double x) { return 1 / (1 + std::exp(-x)); });
  check_accuracy("reciprocal", unary_ops.at("reciprocal"), any, [](double x) { return 1 / x; });
  check_accuracy("square", unary_ops.at("square"), any, [](double x) { return x * x; });
}

TEST_CASE("float64 functions are within 4 ULP over their range", "[elementwise]") {
  const std::size_t count = 20000;
  const auto wide = [&](double low, double high) { return numbers_in<double>(low, high, count); };
  const auto positive = any_numbers<double, std::uint64_t>(count, true);
  const auto any = any_numbers<double, std::uint64_t>(count, false);
  check_accuracy("exp", unary_ops.at("exp"), wide(-708, 709.7), [](long double x) { return std::exp(x); });
  check_accuracy("log", unary_ops.at("log"), positive, [](long double x) { return std::log(x); });
  check_accuracy("log near 1", unary_ops.at("log"), wide(0.9, 1.1), [](long double x) { return std::log(x); });
  check_accuracy("sqrt", unary_ops.at("sqrt"), positive, [](long double x) { return std::sqrt(x); });
  check_accuracy("tanh", unary_ops.at("tanh"), wide(-20, 20), [](long double x) { return std::tanh(x); });
  check_accuracy("tanh of any", unary_ops.at("tanh"), any, [](long double x) { return std::tanh(x); });
  check_accuracy("sigmoid", unary_ops.at("sigmoid"), wide(-700, 700),
                 [](long double x) { return 1 / (1 + std::exp(-x)); });
  check_accuracy("reciprocal", unary_ops.at("reciprocal"), any, [](long double x) { return 1 / x; });
}

TEST_CASE("a value does not depend on where in the tensor it stands", "[elementwise]") {
  const Tensor base64 = random_in(0.1, 3, {80}, DType::float64, 5), base32 = base64.to(DType::float32);
  for (const auto& [op_name, op] : unary_ops) {
    const std::vector<double> all64 = op(base64).to_vector<double>();
    const std::vector<float> all32 = op(base32).to_vector<float>();
    for (std::int64_t n = 1; n <= 70; ++n)
      for (const std::int64_t begin : {0, 1, 3, 8}) {  // aligned and not
        INFO(op_name << ", " << n << " elements from " << begin);
        const auto part = [&](const auto& list) {
          return std::remove_cvref_t<decltype(list)>(list.begin() + begin, list.begin() + begin + n);
        };
        const bool equal64 = same_bits(op(base64.index({range(begin, begin + n)})).to_vector<double>(), part(all64));
        const bool equal32 = same_bits(op(base32.index({range(begin, begin + n)})).to_vector<float>(), part(all32));
        if (!equal64 || !equal32) FAIL_CHECK("differs from the same elements of a longer tensor");
      }
  }
  SUCCEED();
}

TEST_CASE("strided operands give the values of contiguous ones", "[elementwise]") {
  for (const DType type : {DType::float32, DType::float64}) {
    const Tensor x = random_in(0.1, 3, {5, 7, 3}, type, 6);
    const std::pair<const char*, Tensor> views[] = {
        {"transposed", transpose(x)},
        {"rotated", permute(x, {2, 0, 1})},
        {"backwards", x.index({from(-1, -1), all, from(-1, -1)})},
        {"every second", x.index({all, from(0, 2), from(0, 2)})},
        {"stretched", broadcast_to(x.index({all, range(2, 3)}), {2, 5, 4, 3})},
        {"a column", x.index({all, 3, 1})},
        {"empty", x.index({all, range(3, 3)})}};
    for (const auto& [what, view] : views)
      for (const auto& [op_name, op] : unary_ops) {
        INFO(op_name << " of a view that is " << what);
        const Tensor result = op(view);
        CHECK(result.is_contiguous());
        CHECK(same(result, op(view.copy())));
      }
  }
}

TEST_CASE("abs, neg, relu and square work on integers", "[elementwise]") {
  for (const DType type : {DType::int32, DType::int64}) {
    const Tensor x = from_doubles({-3, 0, 5, -46340}, {4}, type);
    CHECK(same(abs(x), from_doubles({3, 0, 5, 46340}, {4}, type)));
    CHECK(same(-x, from_doubles({3, 0, -5, 46340}, {4}, type)));
    CHECK(same(relu(x), from_doubles({0, 0, 5, 0}, {4}, type)));
    CHECK(same(square(x), from_doubles({9, 0, 25, 2147395600}, {4}, type)));
  }
  const Tensor bytes = from_doubles({0, 3, 15}, {3}, DType::uint8);
  CHECK(same(abs(bytes), bytes));
  CHECK(same(relu(bytes), bytes));
  CHECK(same(square(bytes), from_doubles({0, 9, 225}, {3}, DType::uint8)));
}

TEST_CASE("a condition chooses between two numbers", "[elementwise]") {
  const Tensor condition = {{true, false}, {false, true}};
  CHECK(same(where(condition, 1, 0), Tensor{{1.0f, 0.0f}, {0.0f, 1.0f}}));
  CHECK(same(where(condition, 2.5, -1.0, DType::float64), Tensor{{2.5, -1.0}, {-1.0, 2.5}}));
  CHECK(same(where(condition, 3, -3, DType::int32), Tensor{{3, -3}, {-3, 3}}));
  CHECK_THROWS_AS(where(condition, 0.5, 1, DType::int32), DTypeError);
  CHECK_THROWS_AS(where(ones({2}), 0, 1), DTypeError);
}
