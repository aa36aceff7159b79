// The distance of every elementwise function from the exact value, in units of the last place, over its whole range.
//
// The reference is long double, where that is wider than double (80 bits on x86): the C library's functions, or those
// of references.cpp. Prints one line a function: the worst in float32 and in float64, and where.
#include <algorithm>
#include <bit>
#include <cfloat>
#include <cstdio>
#include <random>
#include <set>

#include "lib/cpu/simd/kernels.hpp"
#include "lib/kernels/op_list.hpp"
#include "tests/references.hpp"
#include "tests/rules.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

using reference::Real;
using Points = std::vector<double>;

constexpr Real kNone = std::numeric_limits<Real>::quiet_NaN();

struct Interval {
  double low, high;
};

// --- what is measured --------------------------------------------------------------------------------------------

struct Unary {
  const char* name;
  Real (*reference)(Real);
  std::vector<Interval> dense;  ///< where values are drawn from evenly, besides bit patterns from everywhere
  Points special = {};          ///< whose neighbourhoods are visited
  Real floor = 0;               ///< errors count in units of the last place of at least this
  double wide = tolerance::elementwise_ulps;  ///< what float64 in registers may err by
};

const Points kEighths = {0.75, 0.8125, 0.875, 0.9375, 1, 1.125, 1.25, 1.375, 1.5};  // of an octave

const std::vector<Unary> unary_rows = {
    {"abs", [](Real x) { return std::fabs(x); }, {{-2, 2}}},
    {"acos", [](Real x) { return std::acos(x); }, {{-1, 1}, {0.99, 1}}, {-1, -0.5, 0.5, 1}},
    {"acosh", [](Real x) { return std::acosh(x); }, {{1, 1.1}, {1, 50}}, {1, 0x1p28}},
    {"asin", [](Real x) { return std::asin(x); }, {{-1, 1}, {-0.01, 0.01}}, {-1, -0.5, 0.5, 1}},
    {"asinh", [](Real x) { return std::asinh(x); }, {{-3, 3}, {-100, 100}}, {-0x1p28, 0x1p28}},
    {"atan",
     [](Real x) { return std::atan(x); },
     {{-3, 3}, {-100, 100}},
     {0.41421356237309503, 0.5, 1, 2.414213562373095, 0x1p60}},
    {"atanh", [](Real x) { return std::atanh(x); }, {{-1, 1}, {-0.01, 0.01}}, {-1, 1}},
    {"cbrt", [](Real x) { return std::cbrt(x); }, {{-10, 10}}},
    {"ceil", [](Real x) { return std::ceil(x); }, {{-5, 5}}, {1, 2.5}},
    {"cos", [](Real x) { return std::cos(x); }, {{-10, 10}, {-2e6, 2e6}}, {1.5707963267948966, 4.71238898038469, 1e6}},
    {"cosh", [](Real x) { return std::cosh(x); }, {{-3, 3}, {-90, 90}, {-711, 711}}, {710.4758600739439}},
    {"digamma",
     &reference::digamma,
     {{0, 3}, {1.3, 1.6}, {0, 50}, {-10, 0}, {-200, 0}},
     {1.4616321449683622, 1, 2, -1, -2, 16},
     1},
    {"erf", [](Real x) { return std::erf(x); }, {{-1, 1}, {-4, 4}}, {1, 3.95, 6}},
    {"erfc", [](Real x) { return std::erfc(x); }, {{-1, 1}, {-6, 11}, {5, 27.5}}, {-0.5, 0.5, 1, 26.543}, 0, 1.1},
    {"erfinv",
     &reference::erfinv,
     {{-1, 1}, {0.99, 1}, {-0.01, 0.01}},
     {-1, -0.5, 0.5, 1, 0.9966253687, 0.99999994},
     0,
     1.3},
    {"exp", [](Real x) { return std::exp(x); }, {{-3, 3}, {-104, 89}, {-746, 710}}, {88.7, 709.7, -87.3, -708.3}},
    {"exp2", [](Real x) { return std::exp2(x); }, {{-3, 3}, {-150, 128}, {-1075, 1024}}, {1, 10, -1022, -1075, 1024}},
    {"expm1",
     [](Real x) { return std::expm1(x); },
     {{-1, 1}, {-90, 90}, {-750, 710}},
     {0x1p-54, 0x1p-10, -37, 709.782712893384}},
    {"floor", [](Real x) { return std::floor(x); }, {{-5, 5}}, {1, 2.5}},
    {"gelu",
     &reference::gelu,
     {{-1, 1}, {-15, 5}, {-39, 5}},
     {-0.5, 0.7071067811865476, 1.4142135623730951, -4.0156202, -13, 13, -14.5, -14.99},
     0,
     1.1},
    {"gelu_tanh", &reference::gelu_tanh, {{-1, 1}, {-11, 5}, {-22, 5}}, {-21.16, 21, 24}, 0, 1.1},
    {"hard_sigmoid", [](Real x) { return x <= -3  ? 0
                                         : x >= 3 ? 1
                                                  : (x + 3) / 6; }, {{-4, 4}}, {-3, 3}},
    {"hard_swish", [](Real x) { return x <= -3  ? 0
                                       : x >= 3 ? x
                                                : x * (x + 3) / 6; }, {{-4, 4}}, {-3, 3}},
    {"lgamma", [](Real x) { return std::lgamma(x); }, {{0, 3}, {0, 100}, {-10, 0}}, {1, 2, -2.4570247382208006}},
    {"log", [](Real x) { return std::log(x); }, {{0, 3}, {0.9, 1.1}}, kEighths},
    {"log10", [](Real x) { return std::log10(x); }, {{0, 3}, {0.9, 1.1}}, kEighths},
    {"log1p", [](Real x) { return std::log1p(x); }, {{-1, 3}, {-0.01, 0.01}}, {-1, 1e38}},
    {"log2", [](Real x) { return std::log2(x); }, {{0, 3}, {0.9, 1.1}}, kEighths},
    {"log_sigmoid", [](Real x) { return -reference::softplus(-x); }, {{-3, 3}, {-100, 104}, {-750, 750}}},
    {"logit", &reference::logit, {{0, 1}, {0.49, 0.51}, {0, 0.001}}, {0.25, 0.5, 0.75, 1}},
    {"mish", &reference::mish, {{-3, 3}, {-110, 10}, {-750, 10}}},
    {"neg", [](Real x) { return -x; }, {{-2, 2}}},
    {"reciprocal", [](Real x) { return 1 / x; }, {{-2, 2}}},
    {"relu", [](Real x) { return x < 0 ? 0 : x; }, {{-2, 2}}},
    {"relu6", [](Real x) { return x < 0   ? 0
                                  : x > 6 ? 6
                                          : x; }, {{-2, 8}}, {6}},
    {"round", [](Real x) { return std::nearbyint(x); }, {{-5, 5}}, {0.5, 1.5, 2.5}},
    {"rsqrt", [](Real x) { return 1 / std::sqrt(x); }, {{0, 4}}},
    {"selu",
     [](Real x) { return x > 0 ? 1.0507009873554804934193L * x : 1.7580993408473768599402L * std::expm1(x); },
     {{-3, 3}, {-50, 1}}},
    {"sigmoid", [](Real x) { return 1 / (1 + std::exp(-x)); }, {{-3, 3}, {-104, 20}, {-746, 40}}},
    {"sign", [](Real x) -> Real { return x > 0   ? 1
                                         : x < 0 ? -1
                                                 : x; }, {{-2, 2}}},
    {"silu", [](Real x) { return x / (1 + std::exp(-x)); }, {{-3, 3}, {-110, 10}, {-752, 10}}},
    {"sin", [](Real x) { return std::sin(x); }, {{-10, 10}, {-2e6, 2e6}}, {3.141592653589793, 6.283185307179586, 1e6}},
    {"sinh", [](Real x) { return std::sinh(x); }, {{-1, 1}, {-90, 90}, {-711, 711}}, {0.0625, 1, 710.4758600739439}},
    {"softsign", [](Real x) { return x / (1 + std::fabs(x)); }, {{-3, 3}}},
    {"sqrt", [](Real x) { return std::sqrt(x); }, {{0, 4}}},
    {"square", [](Real x) { return x * x; }, {{-4, 4}}},
    {"tan", [](Real x) { return std::tan(x); }, {{-10, 10}, {-2e6, 2e6}}, {1.5707963267948966, 3.141592653589793, 1e6}},
    {"tanh", [](Real x) { return std::tanh(x); }, {{-1, 1}, {-20, 20}}, {0.0625, 0.078125, 0.625, 8, 10, 16}},
    {"tanh_shrink", &reference::tanh_shrink, {{-2, 2}, {-0.1, 0.1}, {-20, 20}}, {1.5}},
    {"trunc", [](Real x) { return std::trunc(x); }, {{-5, 5}}, {1, 2.5}},
};

const std::vector<Unary> parametric_rows = {
    {"celu", [](Real x) { return x > 0 ? x : std::expm1(x); }, {{-3, 3}, {-50, 1}}},
    {"clip", [](Real x) { return std::clamp<Real>(x, -1, 1); }, {{-2, 2}}, {-1, 1}},
    {"elu", [](Real x) { return x > 0 ? x : std::expm1(x); }, {{-3, 3}, {-50, 1}}},
    {"hard_shrink", [](Real x) { return std::fabs(x) <= 0.5L ? 0 : x; }, {{-2, 2}}, {-0.5, 0.5}},
    {"hard_tanh", [](Real x) { return x < -1  ? -1
                                      : x > 1 ? 1
                                              : x; }, {{-2, 2}}, {-1, 1}},
    {"leaky_relu", [](Real x) { return x > 0 ? x : static_cast<Real>(0.01) * x; }, {{-2, 2}}},
    {"polygamma", &reference::trigamma, {{0, 3}, {0, 50}, {-10, 0}}, {1, -1, 18}},
    {"pow", [](Real x) { return std::pow(x, 2.5L); }, {{0, 3}, {0, 1e15}}},
    {"soft_shrink", [](Real x) { return std::fabs(x) <= 0.5L ? 0 : x - std::copysign(0.5L, x); }, {{-2, 2}}, {0.5}},
    {"softplus", [](Real x) { return x > 20 ? x : reference::softplus(x); }, {{-3, 3}, {-104, 21}, {-746, 21}}, {20}},
    {"threshold", [](Real x) { return x <= 0.5L ? -2 : x; }, {{-2, 2}}, {0.5}},
};

struct Binary {
  const char* name;
  Real (*reference)(Real, Real);  ///< null: measured elsewhere
  std::vector<std::pair<Interval, Interval>> dense;
  Real floor = 0;
  double wide = tolerance::elementwise_ulps;
};

const std::pair<Interval, Interval> kAround = {{-4, 4}, {-4, 4}}, kLogarithm = {{-4, 4}, {0, 4}};
const std::vector<Binary> binary_rows = {
    {"add", [](Real a, Real b) { return a + b; }, {kAround}},
    {"atan2",
     [](Real a, Real b) { return std::atan2(a, b); },
     {kAround, {{-1e-3, 1e-3}, {-4, 4}}, {{-4e-120, 4e-120}, {-4e-120, 4e-120}}},
     0,
     0.8},
    {"copysign", [](Real a, Real b) { return std::copysign(a, b); }, {kAround}},
    {"div", [](Real a, Real b) { return a / b; }, {kAround}},
    {"floor_divide", &reference::floor_divide, {kAround, {{-1e6, 1e6}, {-4, 4}}}},
    {"fmax", [](Real a, Real b) { return std::fmax(a, b); }, {kAround}},
    {"fmin", [](Real a, Real b) { return std::fmin(a, b); }, {kAround}},
    {"fmod", [](Real a, Real b) { return std::fmod(a, b); }, {kAround, {{-1e6, 1e6}, {-4, 4}}}},
    {"hypot",
     [](Real a, Real b) { return std::hypot(a, b); },
     {kAround, {{-1, 1}, {-1e-4, 1e-4}}, {{-1e150, 1e151}, {-1e150, 1e151}}},
     0,
     0.6},
    {"logaddexp", &reference::logaddexp, {kAround, {{-50, 50}, {-50, 50}}}, 1},
    {"maximum", [](Real a, Real b) { return a > b || std::isnan(a) ? a : b; }, {kAround}},
    {"minimum", [](Real a, Real b) { return a < b || std::isnan(a) ? a : b; }, {kAround}},
    {"mul", [](Real a, Real b) { return a * b; }, {kAround}},
    {"nextafter", nullptr, {}},  // depends on the type: math_test.cpp counts bits
    {"pow", [](Real a, Real b) { return std::pow(a, b); }, {{{0, 4}, {-30, 30}}, {{0.9, 1.1}, {-900, 900}}}},
    {"prelu", [](Real a, Real b) { return a > 0 ? a : b * a; }, {kAround}},
    {"remainder", &reference::remainder, {kAround, {{-1e6, 1e6}, {-4, 4}}}},
    {"sub", [](Real a, Real b) { return a - b; }, {kAround}},
    {"xlogy", [](Real a, Real b) { return a == 0 && b == b ? Real(0) : a * std::log(b); }, {kLogarithm}},
};

// --- measuring -----------------------------------------------------------------------------------------------------

/// |actual - expected| in units of T's last place at `expected`, but at least of that at `floor`. Infinity stands where
/// the next number would.
template <class T>
double error_in_ulps(T actual, Real expected, Real floor) {
  using Limits = std::numeric_limits<T>;
  const T rounded = static_cast<T>(expected);
  if (std::isnan(actual) || std::isnan(expected)) return std::isnan(actual) && std::isnan(expected) ? 0 : kInfinity;
  if (actual == rounded && std::isinf(actual)) return 0;
  if (std::isinf(expected)) return kInfinity;
  const Real beyond = std::ldexp(Real(1), Limits::max_exponent);
  const Real got = std::isinf(actual) ? std::copysign(beyond, static_cast<Real>(actual)) : static_cast<Real>(actual);
  const Real size = std::max({std::fabs(expected), floor, static_cast<Real>(Limits::min())});
  const int exponent = std::min(std::ilogb(size), Limits::max_exponent - 1);
  return static_cast<double>(std::fabs(got - expected) / std::ldexp(Real(1), exponent - (Limits::digits - 1)));
}

constexpr std::size_t kDraws = 10000;

/// Random bit patterns: all magnitudes alike; infinities, NaN and subnormal numbers among them.
template <class T>
void add_patterns(std::vector<T>& xs, std::mt19937_64& random) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  for (std::size_t i = 0; i < kDraws; ++i) xs.push_back(std::bit_cast<T>(static_cast<Bits>(random())));
}
template <class T>
void add_evenly(std::vector<T>& xs, Interval interval, std::mt19937_64& random) {
  std::uniform_real_distribution<double> between(interval.low, interval.high);
  for (std::size_t i = 0; i < kDraws; ++i) xs.push_back(static_cast<T>(between(random)));
}
/// Zeros, limits, and both sides of a point: a hundred steps, then ever wider ones.
template <class T>
std::vector<T> special_values(const Points& points) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> xs = {T(0), T(-0.0), Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()};
  for (const T x : {Limits::max(), Limits::min(), Limits::denorm_min(), Limits::min() - Limits::denorm_min(),
                    Limits::epsilon(), T(1), T(2)})
    xs.insert(xs.end(), {x, -x, std::nextafter(x, T(0)), -std::nextafter(x, T(0))});
  for (const double point : points) {
    for (const T toward : {-Limits::infinity(), Limits::infinity()}) {
      T x = static_cast<T>(point);
      for (int i = 0; i < 100; ++i, x = std::nextafter(x, toward)) xs.push_back(x);
    }
    for (double step = 1e-12; step < 0.1; step *= 1.3)
      xs.insert(xs.end(), {static_cast<T>(point + step), static_cast<T>(point - step)});
  }
  return xs;
}

struct Worst {
  double ulps = 0, x = 0, y = 0, got = 0, expected = 0;
  void see(double error, double at_x, double at_y, double actual, Real exact) {
    if (!(error <= ulps)) *this = {error, at_x, at_y, actual, static_cast<double>(exact)};
  }
};

template <class T>
Worst measure(const Unary& row, UnaryFunction function) {
  std::mt19937_64 random(7);
  std::vector<T> xs = special_values<T>(row.special);
  add_patterns(xs, random);
  for (const Interval& interval : row.dense) add_evenly(xs, interval, random);
  const std::vector<T> results = function(from_vector(xs)).template to_vector<T>();
  Worst worst;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const Real exact = row.reference(static_cast<Real>(xs[i]));
    worst.see(error_in_ulps(results[i], exact, row.floor), xs[i], 0, results[i], exact);
  }
  return worst;
}

template <class T>
Worst measure(const Binary& row, BinaryFunction function) {
  std::mt19937_64 random(8);
  std::vector<T> as, bs;
  for (const T a : special_values<T>({}))
    for (const T b : special_values<T>({})) as.push_back(a), bs.push_back(b);
  add_patterns(as, random);
  add_patterns(bs, random);
  for (const auto& [left, right] : row.dense) {
    add_evenly(as, left, random);
    add_evenly(bs, right, random);
  }
  const std::vector<T> results = function(from_vector(as), from_vector(bs)).template to_vector<T>();
  Worst worst;
  for (std::size_t i = 0; i < as.size(); ++i) {
    const Real exact = row.reference(static_cast<Real>(as[i]), static_cast<Real>(bs[i]));
    worst.see(error_in_ulps(results[i], exact, row.floor), as[i], bs[i], results[i], exact);
  }
  return worst;
}

/// `most_of_wide`: what float64 may err by where the processor's registers have its functions.
void report(const char* name, const Worst& single, const Worst& wide, bool pairs,
            double most_of_wide = tolerance::elementwise_ulps) {
  const auto print = [&](const Worst& w) {
    if (pairs) std::printf("  %8.3f at %-13.6g, %-13.6g", w.ulps, w.x, w.y);
    else std::printf("  %8.3f at %-13.6g", w.ulps, w.x);
  };
  std::printf("%-14s", name);
  print(single);
  print(wide);
  std::printf("\n");
  for (const Worst& w : {single, wide}) {
    INFO(name << " at " << w.x << (pairs ? " and " + std::to_string(w.y) : "") << " gives " << w.got << ", not "
              << w.expected);
    CHECK(w.ulps <= tolerance::elementwise_ulps);
  }
  if (std::string_view(on_cpu::simd().name) != "baseline") CHECK(wide.ulps <= most_of_wide);
}

bool long_double_is_wider() {
  if (LDBL_MANT_DIG > DBL_MANT_DIG) return true;
  WARN("long double is no wider than double here: this case checked nothing");
  return false;
}

template <class Row>
std::set<std::string> names_in(const std::vector<Row>& rows) {
  std::set<std::string> names;
  for (const Row& row : rows) names.insert(row.name);
  return names;
}
template <class Tuple>
std::set<std::string> names_in() {
  const std::vector<std::string> list = names_of(static_cast<Tuple*>(nullptr));
  return {list.begin(), list.end()};
}
template <class Function>
std::set<std::string> names_in(const std::map<std::string, Function>& functions) {
  std::set<std::string> names;
  for (const auto& [name, function] : functions) names.insert(name);
  return names;
}

}  // namespace

TEST_CASE("every elementwise rule has a function and is measured", "[ulp]") {
  CHECK(names_in(unary_functions()) == names_in<kernels::UnaryOps>());
  CHECK(names_in(parametric_functions()) == names_in<kernels::ParametricOps>());
  CHECK(names_in(binary_functions()) == names_in<kernels::BinaryOps>());
  CHECK(names_in(unary_rows) == names_in<kernels::UnaryOps>());
  CHECK(names_in(parametric_rows) == names_in<kernels::ParametricOps>());
  CHECK(names_in(binary_rows) == names_in<kernels::BinaryOps>());
}

TEST_CASE("functions of one operand are within 4 ULP over their whole range", "[ulp]") {
  if (!long_double_is_wider()) return;
  std::printf("function        float32: ULP at ...         float64: ULP at ...\n");
  for (const Unary& row : unary_rows) {
    const UnaryFunction function = unary_functions().at(row.name);
    report(row.name, measure<float>(row, function), measure<double>(row, function), false, row.wide);
  }
  for (const Unary& row : parametric_rows) {
    const UnaryFunction function = parametric_functions().at(row.name);
    report(row.name, measure<float>(row, function), measure<double>(row, function), false);
  }
}

template <int n>
void measure_power() {
  const std::string name = "pow " + std::to_string(n);
  const Unary row{name.c_str(), [](Real x) { return std::pow(x, Real{n}); }, {{-3, 3}, {0, 1e4}}};
  const UnaryFunction function = [](const Tensor& x) { return pow(x, n); };
  report(row.name, measure<float>(row, function), measure<double>(row, function), false);
}
TEST_CASE("powers with whole exponents are within 4 ULP", "[ulp]") {
  if (!long_double_is_wider()) return;
  measure_power<-8>();
  measure_power<-2>();
  measure_power<-1>();
  measure_power<2>();
  measure_power<3>();
  measure_power<4>();
  measure_power<8>();
}

TEST_CASE("softplus is within 4 ULP for any power of two as its beta", "[ulp]") {
  if (!long_double_is_wider()) return;
  for (const double beta : {0x1p-30, 0.0625, 0.5, 8.0}) {
    std::mt19937_64 random(9);
    std::vector<float> xs;
    add_evenly(xs, {-104 / beta, 21 / beta}, random);
    add_evenly(xs, {-3 / beta, 3 / beta}, random);
    const std::vector<float> results = softplus(from_vector(xs), {.beta = beta}).to_vector<float>();
    Worst worst;
    for (std::size_t i = 0; i < xs.size(); ++i) {
      const Real scaled = static_cast<Real>(beta) * xs[i];
      const Real exact = scaled > 20 ? Real{xs[i]} : reference::softplus(scaled) / beta;
      worst.see(error_in_ulps(results[i], exact, 0), xs[i], beta, results[i], exact);
    }
    INFO("beta " << beta << " at " << worst.x << " gives " << worst.got << ", not " << worst.expected);
    CHECK(worst.ulps <= tolerance::elementwise_ulps);
  }
}

TEST_CASE("gradients of float32 in whose rules squares and products would overflow or round are within 4 ULP",
          "[ulp]") {
  if (!long_double_is_wider()) return;
  const auto check = [](const char* what, auto function, auto slope, Interval range, double seed, Real floor = 0) {
    std::mt19937_64 random(10);
    std::vector<float> xs;
    add_evenly(xs, range, random);
    const Tensor x = from_vector(xs);
    GradientTape tape;
    tape.watch(x);
    const Tensor y = function(x);
    const std::vector<float> gradients = tape.gradient(sum(y * seed), x).template to_vector<float>();
    Worst worst;
    for (std::size_t i = 0; i < xs.size(); ++i) {
      const Real exact = static_cast<Real>(static_cast<float>(seed)) * slope(static_cast<Real>(xs[i]));
      worst.see(error_in_ulps(gradients[i], exact, floor), xs[i], seed, gradients[i], exact);
    }
    INFO(what << " at " << worst.x << " gives " << worst.got << ", not " << worst.expected);
    CHECK(worst.ulps <= tolerance::elementwise_ulps);
  };
  const auto of_atan = [](Real x) { return 1 / (1 + x * x); };
  check(
      "atan", [](const Tensor& x) { return atan(x); }, of_atan, {-4, 4}, 1);
  check(
      "atan", [](const Tensor& x) { return atan(x); }, of_atan, {1e19, 1e21}, 1e20);
  check(
      "erf", [](const Tensor& x) { return erf(x); },
      [](Real x) { return 2 / std::sqrt(std::acos(Real{-1})) * std::exp(-x * x); }, {-10, 10}, 1);
  const auto of_gelu = [](Real x) {
    const Real pi = std::acos(Real{-1});
    return std::erfc(-x / std::sqrt(Real{2})) / 2 + x * std::exp(-x * x / 2) / std::sqrt(2 * pi);
  };
  for (const Interval& range : {Interval{-14.6, -1.5}, Interval{0, 14}})
    check(
        "gelu", [](const Tensor& x) { return gelu(x); }, of_gelu, range, 1);
  check(
      "gelu near the zero of its slope", [](const Tensor& x) { return gelu(x); }, of_gelu, {-1.5, 0}, 1, 0.25);
  check(
      "log2", [](const Tensor& x) { return log2(x); }, [](Real x) { return 1 / (x * std::log(Real{2})); },
      {1e-39, 1e-37}, 1e-10);
  check(
      "log10", [](const Tensor& x) { return log10(x); }, [](Real x) { return 1 / (x * std::log(Real{10})); },
      {1e-39, 1e-37}, 1e-10);
  check(
      "lgamma", [](const Tensor& x) { return lgamma(x); }, &reference::digamma, {1e-40, 1e-38}, 1e-10);
  check(
      "pow", [](const Tensor& x) { return pow(x, 3); }, [](Real x) { return 3 * x * x; }, {-4, 4}, 1);
  check(
      "pow", [](const Tensor& x) { return pow(x, -2.5); }, [](Real x) { return Real{-2.5} * std::pow(x, Real{-3.5}); },
      {1e-13, 1e-11}, 1e-10);
  for (const Interval& range : {Interval{1e-6, 3}, Interval{0, 200}, Interval{-10, 0}, Interval{-300, 0}})
    check(
        "digamma", [](const Tensor& x) { return digamma(x); }, &reference::trigamma, range, 1);
}

TEST_CASE("functions of two operands are within 4 ULP over their whole range", "[ulp]") {
  if (!long_double_is_wider()) return;
  for (const Binary& row : binary_rows) {
    if (row.reference == nullptr) continue;
    const BinaryFunction function = binary_functions().at(row.name);
    report(row.name, measure<float>(row, function), measure<double>(row, function), true, row.wide);
  }
}

TEST_CASE("what a division leaves is exact next to whole quotients, however large", "[ulp]") {
  const auto check = []<class T>(T) {
    std::mt19937_64 random(12);
    std::uniform_real_distribution<double> digits(-4, 4), magnitude(0, 45);  // e^45 is beyond all whole quotients
    std::vector<T> as, bs;
    for (int i = 0; i < 6000; ++i) {
      const T b = static_cast<T>(digits(random)), whole = static_cast<T>(std::floor(std::exp(magnitude(random))));
      for (const T toward : {-std::numeric_limits<T>::infinity(), T(0), std::numeric_limits<T>::infinity()}) {
        as.push_back(toward == 0 ? whole * b : std::nextafter(whole * b, toward));
        bs.push_back(i % 2 == 0 ? b : -b);
      }
    }
    const Tensor a = from_vector(as), b = from_vector(bs);
    const std::vector<T> rests = fmod(a, b).template to_vector<T>(), moved = (a % b).template to_vector<T>();
    const std::vector<T> quotients = floor_divide(a, b).template to_vector<T>();
    for (std::size_t i = 0; i < as.size(); ++i) {
      INFO(as[i] << " by " << bs[i]);
      CHECK(rests[i] == std::fmod(as[i], bs[i]));
      CHECK(ulps_between(moved[i], static_cast<T>(reference::remainder(as[i], bs[i]))) <= 1);
      CHECK(ulps_between(quotients[i], static_cast<T>(reference::floor_divide(as[i], bs[i]))) <=
            tolerance::elementwise_ulps);
    }
  };
  check(double{});
  check(float{});
}

TEST_CASE("digamma and polygamma are within 4 ULP above 0, also near the zero", "[ulp]") {
  if (!long_double_is_wider()) return;
  const std::pair<Unary, UnaryFunction> rows[] = {
      {{"digamma > 0",
        [](Real x) { return x > 0 ? reference::digamma(x) : kNone; },
        {{0, 3}, {1.3, 1.6}, {0, 50}},
        {1.4616321449683622, 1.36, 1.56, 16}},
       [](const Tensor& x) { return where(x > 0, digamma(x), kNaN); }},
      {{"polygamma 2", [](Real x) { return x > 0 ? reference::polygamma(2, x) : kNone; }, {{0, 3}, {0, 50}}, {1, 20}},
       [](const Tensor& x) { return where(x > 0, polygamma(2, x), kNaN); }},
      {{"polygamma 5", [](Real x) { return x > 0 ? reference::polygamma(5, x) : kNone; }, {{0, 3}, {0, 50}}, {1, 26}},
       [](const Tensor& x) { return where(x > 0, polygamma(5, x), kNaN); }}};
  for (const auto& [row, function] : rows)
    report(row.name, measure<float>(row, function), measure<double>(row, function), false);
}
