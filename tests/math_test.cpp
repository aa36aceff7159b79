// Mathematical functions: published values and slopes, special values, kinks.
#include "tests/rules.hpp"
#include "tests/support.hpp"

#include <bit>

using namespace capstan;
using namespace tests;

namespace {

struct Golden {
  const char* op;
  double x, value, slope;
};

// Computed with mpmath at 60 digits and rounded once to float64.
const Golden golden_rows[] = {
    {"acos", 0.5, 1.0471975511965979, -1.1547005383792515},
    {"acos", -0.3, 1.8754889808102941, -1.0482848367219182},
    {"acos", 0.999999, 0.0014142136802445852, -707.1069579531425},
    {"acosh", 2.0, 1.3169578969248168, 0.5773502691896257},
    {"acosh", 1.0000001, 0.0004472135919037347, 2236.067920945309},
    {"acosh", 10000000000.0, 23.7189981105004, 1e-10},
    {"asin", 0.5, 0.5235987755982989, 1.1547005383792515},
    {"asin", -1e-10, -1e-10, 1.0},
    {"asin", 0.999999, 1.5693821131146521, 707.1069579531425},
    {"asinh", 1.0, 0.881373587019543, 0.7071067811865476},
    {"asinh", -1e-10, -1e-10, 1.0},
    {"asinh", 10000000000.0, 23.7189981105004, 1e-10},
    {"atan", 1.0, 0.7853981633974483, 0.5},
    {"atan", -0.5, -0.4636476090008061, 0.8},
    {"atan", 10000000000.0, 1.5707963266948965, 1e-20},
    {"atanh", 0.5, 0.5493061443340549, 1.3333333333333333},
    {"atanh", 1e-10, 1e-10, 1.0},
    {"atanh", -0.999999, -7.254328619247669, 500000.24998574716},
    {"cbrt", 8.0, 2.0, 0.08333333333333333},
    {"cbrt", -2.0, -1.2599210498948732, 0.20998684164914552},
    {"cbrt", 0.001, 0.1, 33.333333333333336},
    {"cos", 1.0, 0.5403023058681398, -0.8414709848078965},
    {"cos", -2.5, -0.8011436155469337, 0.5984721441039565},
    {"cos", 100000.0, -0.9993608074382124, -0.03574879797201651},
    {"cosh", 1.0, 1.5430806348152437, 1.1752011936438014},
    {"cosh", -3.0, 10.067661995777765, -10.017874927409903},
    {"cosh", 1e-05, 1.00000000005, 1.0000000000166668e-05},
    {"digamma", 1.0, -0.5772156649015329, 1.6449340668482264},
    {"digamma", 1.5, 0.03648997397857652, 0.9348022005446793},
    {"digamma", -0.5, 0.03648997397857652, 8.934802200544679},
    {"digamma", 1e-10, -10000000000.577215, 1e+20},
    {"digamma", 100.0, 4.600161852738087, 0.010050166663333571},
    {"erf", 0.5, 0.5204998778130465, 0.8787825789354448},
    {"erf", -1.5, -0.9661051464753108, 0.11893028922362937},
    {"erf", 1e-10, 1.1283791670955126e-10, 1.1283791670955126},
    {"erfc", 0.5, 0.4795001221869535, -0.8787825789354448},
    {"erfc", 5.0, 1.537459794428035e-12, -1.5670866531017336e-11},
    {"erfc", -1.0, 1.8427007929497148, -0.4151074974205947},
    {"erfc", 20.0, 5.395865611607901e-176, -2.1610374743867984e-174},
    {"erfinv", 0.5, 0.4769362762044699, 1.1125848189719498},
    {"erfinv", -0.9, -1.1630871536766743, 3.428042811451841},
    {"erfinv", 1e-10, 8.862269254527581e-11, 0.886226925452758},
    {"erfinv", 0.999999999, 4.320005388105362, 112860637.10991128},
    {"exp2", 0.5, 1.4142135623730951, 0.9802581434685472},
    {"exp2", -3.25, 0.10511205190671431, 0.07285812242200965},
    {"exp2", 1e-10, 1.0000000000693148, 0.6931471806079906},
    {"expm1", 1e-10, 1.00000000005e-10, 1.0000000001},
    {"expm1", -2.0, -0.8646647167633873, 0.1353352832366127},
    {"expm1", 1.0, 1.7182818284590453, 2.718281828459045},
    {"lgamma", 0.5, 0.5723649429247001, -1.9635100260214235},
    {"lgamma", 3.0, 0.6931471805599453, 0.9227843350984671},
    {"lgamma", -0.5, 1.2655121234846454, 0.03648997397857652},
    {"lgamma", 100.0, 359.1342053695754, 4.600161852738087},
    {"log10", 1000.0, 3.0, 0.00043429448190325184},
    {"log10", 0.5, -0.3010299956639812, 0.8685889638065036},
    {"log10", 1.0000001, 4.3429446044209946e-08, 0.43429443847380794},
    {"log1p", 1e-10, 9.999999999500001e-11, 0.9999999999},
    {"log1p", -0.5, -0.6931471805599453, 2.0},
    {"log1p", 3.0, 1.3862943611198906, 0.25},
    {"log2", 8.0, 3.0, 0.18033688011112042},
    {"log2", 0.3, -1.7369655941662063, 4.8089834696298785},
    {"log2", 1.0000001, 1.4426949695965583e-07, 1.4426948966194737},
    {"logit", 0.3, -0.8472978603872037, 4.761904761904762},
    {"logit", 0.5000001, 3.99999999789463e-07, 4.00000000000016},
    {"logit", 0.999, 6.906754778648553, 1001.0010010010001},
    {"rsqrt", 4.0, 0.5, -0.0625},
    {"rsqrt", 0.3, 1.8257418583505538, -3.0429030972509232},
    {"rsqrt", 1e-06, 1000.0, -500000000.00000006},
    {"sin", 1.0, 0.8414709848078965, 0.5403023058681398},
    {"sin", -2.5, -0.5984721441039565, -0.8011436155469337},
    {"sin", 100000.0, 0.03574879797201651, -0.9993608074382124},
    {"sinh", 1.0, 1.1752011936438014, 1.5430806348152437},
    {"sinh", -3.0, -10.017874927409903, 10.067661995777765},
    {"sinh", 1e-05, 1.0000000000166668e-05, 1.00000000005},
    {"tan", 1.0, 1.5574077246549023, 3.4255188208147596},
    {"tan", -1.5, -14.101419947171719, 199.85004452649247},
    {"tan", 100000.0, -0.035771662952898776, 1.0012796118704157},
};

struct OrderedGolden {
  int order;
  double x, value;
};
// The same, polygamma.
const OrderedGolden polygamma_rows[] = {{1, 1.0, 1.6449340668482264},  {1, 0.5, 4.934802200544679},
                                        {2, 1.0, -2.4041138063191885}, {2, 1.5, -0.82879664423432},
                                        {3, -0.5, 193.40909103400244}, {1, -1.5, 9.379246644989124},
                                        {4, 2.0, -0.8862661234408782}};

struct Special {
  const char* op;
  double x, value;
};
// Python Array API 2022.12, "Special cases" of each function, and C99 Annex F; erfinv, digamma and logit by their
// limits.
const Special special_rows[] = {
    {"acos", 1.0, 0.0},
    {"acos", 1.5, kNaN},
    {"acos", -1.0, 3.141592653589793},
    {"acosh", 1.0, 0.0},
    {"acosh", 0.5, kNaN},
    {"acosh", -3.0, kNaN},
    {"acosh", -kInfinity, kNaN},
    {"acosh", kInfinity, kInfinity},
    {"asin", -0.0, -0.0},
    {"asin", -1.5, kNaN},
    {"asin", 1.0, 1.5707963267948966},
    {"asinh", -0.0, -0.0},
    {"asinh", -kInfinity, -kInfinity},
    {"atan", -0.0, -0.0},
    {"atan", kInfinity, 1.5707963267948966},
    {"atan", -kInfinity, -1.5707963267948966},
    {"atanh", -0.0, -0.0},
    {"atanh", -1.0, -kInfinity},
    {"atanh", 1.0, kInfinity},
    {"atanh", 2.0, kNaN},
    {"atanh", -kInfinity, kNaN},
    {"cbrt", -0.0, -0.0},
    {"cbrt", -kInfinity, -kInfinity},
    {"ceil", -0.5, -0.0},
    {"ceil", kInfinity, kInfinity},
    {"cos", -0.0, 1.0},
    {"cos", kInfinity, kNaN},
    {"cosh", -kInfinity, kInfinity},
    {"cosh", -0.0, 1.0},
    {"digamma", 0.0, -kInfinity},
    {"digamma", -0.0, kInfinity},
    {"digamma", -3.0, kNaN},
    {"digamma", kInfinity, kInfinity},
    {"digamma", -kInfinity, kNaN},
    {"erf", -0.0, -0.0},
    {"erf", kInfinity, 1.0},
    {"erf", -kInfinity, -1.0},
    {"erfc", kInfinity, 0.0},
    {"erfc", -kInfinity, 2.0},
    {"erfc", 30.0, 0.0},
    {"erfc", -7.0, 2.0},
    {"erfinv", -0.0, -0.0},
    {"gelu", -0.0, -0.0},
    {"gelu", -50.0, -0.0},
    {"gelu", 50.0, 50.0},
    {"gelu", kInfinity, kInfinity},
    {"gelu", -kInfinity, kNaN},
    {"gelu_tanh", -0.0, -0.0},
    {"gelu_tanh", 30.0, 30.0},
    {"gelu_tanh", kInfinity, kInfinity},
    {"erfinv", 1.0, kInfinity},
    {"erfinv", -1.0, -kInfinity},
    {"erfinv", 1.25, kNaN},
    {"erfinv", kInfinity, kNaN},
    {"exp2", -kInfinity, 0.0},
    {"exp2", kInfinity, kInfinity},
    {"exp2", 10.0, 1024.0},
    {"expm1", -0.0, -0.0},
    {"expm1", kInfinity, kInfinity},
    {"expm1", -kInfinity, -1.0},
    {"floor", -0.0, -0.0},
    {"floor", -0.5, -1.0},
    {"lgamma", 0.0, kInfinity},
    {"lgamma", -2.0, kInfinity},
    {"lgamma", 1.0, 0.0},
    {"lgamma", kInfinity, kInfinity},
    {"log10", 0.0, -kInfinity},
    {"log10", -1.0, kNaN},
    {"log10", -0.0, -kInfinity},
    {"log10", 1.0, 0.0},
    {"log10", -kInfinity, kNaN},
    {"log10", kInfinity, kInfinity},
    {"log10", 1000.0, 3.0},
    {"log1p", -1.0, -kInfinity},
    {"log1p", -0.0, -0.0},
    {"log1p", -2.0, kNaN},
    {"log1p", kInfinity, kInfinity},
    {"log2", 8.0, 3.0},
    {"log2", 0.0, -kInfinity},
    {"log2", -0.0, -kInfinity},
    {"log2", 1.0, 0.0},
    {"log2", -1.0, kNaN},
    {"log2", -kInfinity, kNaN},
    {"log2", kInfinity, kInfinity},
    {"logit", 0.0, -kInfinity},
    {"logit", 1.0, kInfinity},
    {"logit", 0.5, 0.0},
    {"logit", -0.0, -kInfinity},
    {"logit", -0.5, kNaN},
    {"logit", kInfinity, kNaN},
    {"logit", -kInfinity, kNaN},
    {"logit", 1.5, kNaN},
    {"round", 0.5, 0.0},
    {"round", 1.5, 2.0},
    {"round", 2.5, 2.0},
    {"round", -0.5, -0.0},
    {"round", -2.5, -2.0},
    {"round", -kInfinity, -kInfinity},
    {"rsqrt", 0.0, kInfinity},
    {"rsqrt", -0.0, -kInfinity},
    {"rsqrt", -1.0, kNaN},
    {"rsqrt", kInfinity, 0.0},
    {"sign", -0.0, 0.0},
    {"sign", -kInfinity, -1.0},
    {"sign", 1e-40, 1.0},
    {"sin", -0.0, -0.0},
    {"sin", kInfinity, kNaN},
    {"sinh", -0.0, -0.0},
    {"sinh", -kInfinity, -kInfinity},
    {"tan", -0.0, -0.0},
    {"tan", -kInfinity, kNaN},
    {"tanh", -0.0, -0.0},
    {"tanh", kInfinity, 1.0},
    {"tanh", -kInfinity, -1.0},
    {"trunc", -0.5, -0.0},
    {"trunc", -2.75, -2.0},
};

struct Pair {
  const char* op;
  double a, b, value;
};
constexpr double kQuarter = 0.7853981633974483, kHalf = 1.5707963267948966, kWhole = 3.141592653589793;  // of pi
// The lists of the same standard; remainder and floor_divide as Python's % and //; copysign, fmax and hypot by C99.
const Pair pair_rows[] = {
    {"atan2", 0.0, 0.0, 0.0},
    {"atan2", 0.0, -0.0, kWhole},
    {"atan2", -0.0, 0.0, -0.0},
    {"atan2", -0.0, -0.0, -kWhole},
    {"atan2", 1.0, 0.0, kHalf},
    {"atan2", -1.0, -0.0, -kHalf},
    {"atan2", 1.0, kInfinity, 0.0},
    {"atan2", 1.0, -kInfinity, kWhole},
    {"atan2", -1.0, kInfinity, -0.0},
    {"atan2", kInfinity, kInfinity, kQuarter},
    {"atan2", -kInfinity, -kInfinity, -3 * kQuarter},
    {"atan2", kNaN, 1.0, kNaN},
    {"pow", 1.0, kNaN, 1.0},
    {"pow", kNaN, 0.0, 1.0},
    {"pow", -1.0, kInfinity, 1.0},
    {"pow", 0.5, kInfinity, 0.0},
    {"pow", 2.0, -kInfinity, 0.0},
    {"pow", -0.0, 3.0, -0.0},
    {"pow", -0.0, 2.0, 0.0},
    {"pow", -0.0, -3.0, -kInfinity},
    {"pow", -kInfinity, 3.0, -kInfinity},
    {"pow", -8.0, 1.0 / 3, kNaN},
    {"fmod", 5.5, 2.0, 1.5},
    {"fmod", -5.5, 2.0, -1.5},
    {"fmod", 5.5, -2.0, 1.5},
    {"fmod", -6.0, 2.0, -0.0},
    {"fmod", 1.0, kInfinity, 1.0},
    {"fmod", 1.0, 0.0, kNaN},
    {"fmod", kInfinity, 2.0, kNaN},
    {"remainder", 5.5, 2.0, 1.5},
    {"remainder", -5.5, 2.0, 0.5},
    {"remainder", 5.5, -2.0, -0.5},
    {"remainder", -5.5, -2.0, -1.5},
    {"remainder", -6.0, 2.0, 0.0},
    {"remainder", 6.0, -2.0, -0.0},
    {"remainder", 1.0, kInfinity, 1.0},
    {"remainder", -1.0, kInfinity, kInfinity},
    {"remainder", -1.0, -kInfinity, -1.0},
    {"remainder", 1.0, 0.0, kNaN},
    {"remainder", kInfinity, 2.0, kNaN},
    {"floor_divide", 5.5, 2.0, 2.0},
    {"floor_divide", -5.5, 2.0, -3.0},
    {"floor_divide", -6.0, 2.0, -3.0},
    {"floor_divide", 1.0, 0.1, 9.0},  // 0.1 is a little more than a tenth
    {"floor_divide", 1.0, 0.0, kInfinity},
    {"floor_divide", -1.0, 0.0, -kInfinity},
    {"floor_divide", 0.0, 0.0, kNaN},
    {"floor_divide", 1.0, kInfinity, 0.0},
    {"floor_divide", -1.0, kInfinity, -1.0},
    {"floor_divide", kInfinity, 2.0, kInfinity},
    {"floor_divide", -0.0, 2.0, -0.0},
    {"copysign", 2.0, -0.0, -2.0},
    {"copysign", -2.0, 3.0, 2.0},
    {"copysign", -0.0, 1.0, 0.0},
    {"hypot", 3.0, -4.0, 5.0},
    {"hypot", kInfinity, kNaN, kInfinity},
    {"fmax", kNaN, 2.0, 2.0},
    {"fmax", 2.0, kNaN, 2.0},
    {"fmax", kNaN, kNaN, kNaN},
    {"fmax", -3.0, 2.0, 2.0},
    {"fmin", kNaN, 2.0, 2.0},
    {"fmin", 2.0, kNaN, 2.0},
    {"fmin", -3.0, 2.0, -3.0},
    {"logaddexp", -kInfinity, -kInfinity, -kInfinity},
    {"logaddexp", kInfinity, kInfinity, kInfinity},
    {"logaddexp", -kInfinity, 2.0, 2.0},
    {"logaddexp", 1000.0, 0.0, 1000.0},
    {"xlogy", 0.0, 0.0, 0.0},
    {"xlogy", 0.0, -1.0, 0.0},
    {"xlogy", 0.0, kNaN, kNaN},
    {"xlogy", 2.0, 0.0, -kInfinity},
    {"xlogy", 2.0, -1.0, kNaN},
};

/// Many values, so that the operation runs in lanes; all must come out alike.
template <class T>
T of_many(UnaryFunction op, T x) {
  const std::vector<T> results = op(from_vector(std::vector<T>(37, x))).template to_vector<T>();
  for (const T& result : results) CHECK(ulps_between(result, results[0]) == 0);
  return results[0];
}

template <class T>
void check_value(T value, double expected) {
  CHECK(ulps_between(value, static_cast<T>(expected)) == 0);
  CHECK((std::isnan(expected) || std::signbit(value) == std::signbit(expected)));
}

template <class T>
void check_pair(const Pair& row) {
  const std::vector<T> as(21, static_cast<T>(row.a)), bs(21, static_cast<T>(row.b));
  const BinaryFunction op = binary_functions().at(row.op);
  const std::vector<T> results = op(from_vector(as), from_vector(bs)).template to_vector<T>();
  for (const T& result : results) check_value(result, row.value);
}

/// d sum(f(x)) / dx.
template <class F>
Tensor slope(F f, const Tensor& x) {
  GradientTape tape;
  tape.watch(x);
  return tape.gradient(f(x), x);
}

bool have_same_bits(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

}  // namespace

TEST_CASE("mathematical functions and their slopes have the published values, tails included", "[math]") {
  for (const Golden& row : golden_rows) {
    INFO(row.op << " at " << row.x);
    const UnaryFunction op = unary_functions().at(row.op);
    CHECK(ulps_between(of_many<double>(op, row.x), row.value) <= tolerance::elementwise_ulps);
    const double found = number(slope(op, Tensor(row.x)));
    CHECK(std::fabs(found - row.slope) <= tolerance::roundings64 * std::fabs(row.slope) + tolerance::slope_near_one);
  }
  for (const OrderedGolden& row : polygamma_rows) {
    INFO("polygamma of order " << row.order << " at " << row.x);
    CHECK(ulps_between(number(polygamma(row.order, Tensor(row.x))), row.value) <= tolerance::elementwise_ulps);
  }
  CHECK(number(polygamma(0, Tensor(1.5))) == number(digamma(Tensor(1.5))));
}

TEST_CASE("mathematical functions have the standard's values at zeros, infinities and the ends of their range",
          "[math]") {
  for (const Special& row : special_rows) {
    INFO(row.op << " at " << row.x);
    check_value(of_many<double>(unary_functions().at(row.op), row.x), row.value);
    check_value(of_many<float>(unary_functions().at(row.op), static_cast<float>(row.x)), row.value);
  }
  for (const Pair& row : pair_rows) {
    INFO(row.op << " of " << row.a << " and " << row.b);
    check_pair<double>(row);
    check_pair<float>(row);
  }
  CHECK(
      same(polygamma(1, Tensor{0.0, -0.0, -2.0, kInfinity, -kInfinity}), {kInfinity, kInfinity, kInfinity, 0.0, kNaN}));
  CHECK(same(polygamma(2, Tensor{0.0, -0.0, -2.0}), {-kInfinity, kInfinity, kNaN}));
  CHECK(same(logit(Tensor{0.0, 0.2, 1.0}, 0.2), logit(Tensor{0.2, 0.2, 0.8})));
}

TEST_CASE("nextafter goes to the neighbouring bit pattern", "[math]") {
  const double values64[] = {1.0, -1.0, 5e-324, 1e300, 0.1};
  for (const double x : values64) {
    const double up = number(nextafter(Tensor(x), Tensor(kInfinity)));
    const auto step = static_cast<std::int64_t>(std::bit_cast<std::uint64_t>(up) - std::bit_cast<std::uint64_t>(x));
    CHECK(step == (x > 0 ? 1 : -1));  // sign and magnitude
  }
  const float up = nextafter(Tensor(1.0f), Tensor(2.0f)).item<float>();
  CHECK(up == std::bit_cast<float>(std::bit_cast<std::uint32_t>(1.0f) + 1));
  CHECK(same(nextafter(Tensor{0.0, 1.0, kNaN}, Tensor(0.0)), {0.0, 1.0 - 0x1p-53, kNaN}));
}

TEST_CASE("remainder is an operator, with numbers on either side", "[math]") {
  const Tensor x = {5.5, -5.5, 7.0};
  CHECK(same(x % 2, {1.5, 0.5, 1.0}));
  CHECK(same(7 % Tensor{2.0, -2.0, 4.0}, {1.0, -1.0, 3.0}));
  CHECK(same(x % Tensor{{2.0}, {-4.0}}, {{1.5, 0.5, 1.0}, {-2.5, -1.5, -1.0}}));
  CHECK((zeros({0, 3}) % zeros({3})).shape() == Shape{0, 3});
}

TEST_CASE("steps have zero gradients, and functions of two operands the documented ones where they have a kink",
          "[math]") {
  const Tensor x = {-1.5, 0.0, 2.25};
  for (const char* name : {"ceil", "floor", "round", "sign", "trunc"})
    CHECK(same(slope(unary_functions().at(name), x), {0.0, 0.0, 0.0}));
  const auto both = [](BinaryFunction f, const Tensor& a, const Tensor& b) {
    GradientTape tape;
    tape.watch({a, b});
    return tape.gradient(f(a, b), {a, b});
  };
  const Tensor zero = {0.0}, one = {1.0};
  for (const char* name : {"hypot", "atan2"}) {
    const std::vector<Tensor> at_origin = both(binary_functions().at(name), zero, zero);
    CHECK(same(at_origin[0], zero));
    CHECK(same(at_origin[1], zero));
  }
  CHECK(same(both(binary_functions().at("copysign"), zero, one)[0], zero));
  CHECK(same(both(binary_functions().at("copysign"), Tensor{-2.0}, one)[0], {-1.0}));
  const std::vector<Tensor> with_log =
      both(binary_functions().at("xlogy"), Tensor{0.0, 0.0, 0.0}, Tensor{0.0, -1.0, 1.0});
  CHECK(same(with_log[0], {0.0, 0.0, 0.0}));
  CHECK(same(with_log[1], {0.0, 0.0, 0.0}));
  const std::vector<Tensor> past_nan =
      both(binary_functions().at("fmax"), Tensor{kNaN, 1.0, 2.0}, Tensor{3.0, kNaN, 2.0});
  CHECK(same(past_nan[0], {0.0, 1.0, 0.5}));
  CHECK(same(past_nan[1], {1.0, 0.0, 0.5}));
  const std::vector<Tensor> whole = both(binary_functions().at("remainder"), Tensor{-5.5}, Tensor{2.0});
  CHECK(same(whole[0], {1.0}));
  CHECK(same(whole[1], {3.0}));                                                           // -floor(-2.75)
  CHECK(same(both(binary_functions().at("fmod"), Tensor{-5.5}, Tensor{2.0})[1], {2.0}));  // -trunc(-2.75)
}

TEST_CASE("gradients at the ends of the range of erfc, erfinv and gelu are the limits that there are", "[math]") {
  for (const DType type : {DType::float32, DType::float64}) {
    INFO(capstan::name(type));
    const auto at = [&](const char* name, const Tensor& x) { return slope(unary_functions().at(name), x.to(type)); };
    CHECK(same(at("erfc", Tensor{-kInfinity, 30.0, kInfinity, 0.0}),
               Tensor{0.0, 0.0, 0.0, -1.1283791670955126}.to(type)));
    CHECK(same(at("erfinv", Tensor{-1.0, 1.0}), Tensor{kInfinity, kInfinity}.to(type)));
    CHECK(same(at("gelu", Tensor{-kInfinity, -50.0, 50.0, kInfinity}), Tensor{kNaN, 0.0, 1.0, kNaN}.to(type)));
  }
}

TEST_CASE("the gradient of atan2 keeps its range where the squares of the operands leave theirs", "[math]") {
  const std::pair<DType, double> rows[] = {
      {DType::float64, 0x1p-600}, {DType::float64, 0x1p600}, {DType::float16, 0x1p-13}, {DType::float16, 0x1p10}};
  for (const auto& [type, across] : rows) {
    INFO(capstan::name(type) << " " << across);
    const auto angle = [b = across](const Tensor& a) { return atan2(a, b); };
    CHECK(same(slope(angle, Tensor{0.0}.to(type)), Tensor{1 / across}.to(type)));  // b / (0 + b*b)
  }
}

TEST_CASE("a power of a number is that of a tensor full of it, with its gradient, at zeros and infinities, too",
          "[math]") {
  const Tensor ends = {0.0, -0.0, 1.0, -1.0, kInfinity, -kInfinity, kNaN, 1e-30, -1e-30, 1e12, -1e12, 2.5, -2.5};
  const Tensor all = concat({ends, random_in(-3, 3, {50}, DType::float64, 17)});
  for (const DType type : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) {
    const double tolerance = type == DType::float64 ? tolerance::roundings64
                             : is_half(type)        ? 0x1p-7
                                                    : tolerance::roundings32;
    for (const double exponent : {-9.0, -8.0, -2.0, -1.0, -0.5, 0.0, 0.25, 1.0, 2.0, 2.5, 3.0, 4.0, 8.0, 9.0, 12.0,
                                  kInfinity, -kInfinity, kNaN}) {
      const Tensor x = all.to(type), full_of_it = full_like(x, exponent);
      const auto check = [&](const char* what, const Tensor& of_number, const Tensor& of_tensor) {
        const std::vector<double> got = values(of_number), expected = values(of_tensor), of = values(x);
        for (std::size_t i = 0; i < got.size(); ++i) {
          INFO(what << " of " << of[i] << "^" << exponent << " in " << capstan::name(type) << ": " << got[i] << ", "
                    << expected[i]);
          if (std::isfinite(expected[i]) && expected[i] != 0)
            CHECK(std::fabs(got[i] - expected[i]) <= tolerance * std::fabs(expected[i]));
          else CHECK(same_bits<double>({got[i]}, {expected[i]}));
        }
      };
      check("value", pow(x, exponent), pow(x, full_of_it));
      const auto by_number = [&](const Tensor& t) { return pow(t, exponent); };
      const auto by_tensor = [&](const Tensor& t) { return pow(t, full_of_it); };
      check("slope", slope(by_number, x), slope(by_tensor, x));
      const auto bend = [&](const auto& function) {
        GradientTape tape;
        tape.watch(x);
        const Tensor first = slope(function, x);
        return tape.gradient(first, x);
      };
      if (std::isfinite(exponent)) check("bend", bend(by_number), bend(by_tensor));
    }
  }
}

TEST_CASE("logaddexp hands no gradient on where both operands are -infinity, as logsumexp", "[math]") {
  const Tensor a = {-kInfinity, -kInfinity, 2.0}, b = {-kInfinity, 1.0, -kInfinity};
  CHECK(same(slope([&](const Tensor& t) { return logaddexp(t, b); }, a), {0.0, 0.0, 1.0}));
  CHECK(same(slope([&](const Tensor& t) { return logaddexp(a, t); }, b), {0.0, 1.0, 0.0}));
  GradientTape outer;
  outer.watch(a);
  const Tensor first = slope([&](const Tensor& t) { return logaddexp(t, b); }, a);
  CHECK(same(outer.gradient(first, a), {0.0, 0.0, 0.0}));
}

TEST_CASE("16-bit floating types compute in float32 and round once", "[math]") {
  for (const DType type : {DType::float16, DType::bfloat16}) {
    const Tensor x = random_in(-2, 2, {3, 7}, DType::float64, 5).to(type), wide = x.to(DType::float32);
    for (const char* name : {"sin", "erf", "expm1", "silu", "gelu", "floor", "digamma"})
      CHECK(same(unary_functions().at(name)(x), unary_functions().at(name)(wide).to(type)));
    for (const char* name : {"celu", "softplus", "clip", "hard_tanh", "polygamma"})
      CHECK(same(parametric_functions().at(name)(x), parametric_functions().at(name)(wide).to(type)));
    CHECK(same(hypot(x, x), hypot(wide, wide).to(type)));
    const auto bent = [](const Tensor& t) { return elu(t); };
    CHECK(same(slope(bent, x), slope(bent, wide).to(type)));
  }
}

TEST_CASE("a value gives the same bits whatever stands beside it", "[math]") {
  const double others[] = {kNaN, kInfinity, -kInfinity, 800, -800, 1e30, -1e30, 1e-40, 1e-310, 17, -17, -0.0, 90, -104};
  std::map<std::string, UnaryFunction> functions = unary_functions();
  functions.insert(parametric_functions().begin(), parametric_functions().end());
  for (const DType type : {DType::float32, DType::float64}) {
    const double far = type == DType::float32 ? 88 : 710;  // up to where exp is infinite
    const Tensor x = concat(
        {random_in(-3, 3, {90}, type, 88), random_in(-20, 20, {90}, type, 89), random_in(-far, far, {90}, type, 90)});
    for (const auto& [name, function] : functions) {
      const auto gradient = [&f = function](const Tensor& t) { return slope(f, t); };
      const std::vector<double> alone = values(function(x)), slopes_alone = values(gradient(x));
      for (const std::size_t step : {2, 3, 16}) {
        INFO(name << " in " << capstan::name(type) << ", every " << step);
        std::vector<double> mixed = values(x);
        for (std::size_t i = 0; i < mixed.size(); i += step) mixed[i] = others[i / step % std::size(others)];
        const Tensor y = from_vector(mixed).to(type);
        const std::vector<double> among = values(function(y)), slopes = values(gradient(y));
        std::size_t differing = 0;
        for (std::size_t i = 0; i < mixed.size(); ++i)
          differing +=
              i % step != 0 && !(have_same_bits(among[i], alone[i]) && have_same_bits(slopes[i], slopes_alone[i]));
        CHECK(differing == 0);
      }
    }
    for (const auto& [name, function] : binary_functions()) {
      const Tensor a = random_in(-3, 3, {90}, type, 92), b = random_in(-3, 3, {90}, type, 93);
      const std::vector<double> alone = values(function(a, b));
      std::vector<double> left = values(a), right = values(b);
      for (std::size_t i = 0; i < left.size(); i += 3) {
        left[i] = others[i / 3 % std::size(others)];
        right[i] = others[i / 5 % std::size(others)];
      }
      const std::vector<double> among = values(function(from_vector(left).to(type), from_vector(right).to(type)));
      INFO(name << " in " << capstan::name(type));
      for (std::size_t i = 0; i < left.size(); ++i) CHECK((i % 3 == 0 || have_same_bits(among[i], alone[i])));
    }
  }
}

TEST_CASE("what is too small to be seen is 0 without numbers that lack digits on the way", "[math][host]") {
  for (const DType type : {DType::float32, DType::float64}) {
    const bool single = type == DType::float32;
    INFO(capstan::name(type));
    CHECK(lacks_digits([&] { exp(full({70}, single ? -100 : -740, {.dtype = type})); }));  // such a result is one
    for (const double x : {single ? -105.0 : -750.0, -1e9, -kInfinity}) {
      INFO("at " << x);
      const Tensor row = where(equal(arange(70) % 2, 0), full({70}, x, {.dtype = type}), zeros({70}, {.dtype = type}));
      CHECK_FALSE(lacks_digits([&] { exp(row); }));
      CHECK_FALSE(lacks_digits([&] { softmax(row); }));
      CHECK_FALSE(
          lacks_digits([&] { sparse_softmax_cross_entropy(expand_dims(row, 0), ones({1}, {.dtype = DType::int64})); }));
    }
    for (const double x : {-1e9, single ? -105.0 : -750.0, -80.0, -50.0, -30.0, 30.0, 50.0, 80.0, 1e9}) {
      INFO("at " << x);
      CHECK_FALSE(lacks_digits([&] { sigmoid(full({70}, x, {.dtype = type})); }));
    }
    if (single) CHECK_FALSE(lacks_digits([&] { sigmoid(full({70}, 90)); }));
    // scores from 0 to -138
    const Tensor query = ones({1, 70, 1}, {.dtype = type}), value = random_in(1, 2, {1, 70, 1}, type, 91);
    const Tensor key = expand_dims(expand_dims(cast(arange(70), type) * -2, 0), 2);
    CHECK_FALSE(lacks_digits([&] {
      GradientTape tape;
      for (const Tensor& x : {query, key, value}) tape.watch(x);
      const Tensor sums = sum(scaled_dot_product_attention(query, key, value));
      tape.gradient(sums, std::vector<Tensor>{query, key, value});
    }));
  }
}

TEST_CASE("the last order of polygamma has a gradient, also where another tape listens", "[math]") {
  const Tensor x = {2.5, 4.0};
  const auto gradient = [&] {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(polygamma(100, x), x);
  };
  const Tensor alone = gradient();
  // the sum of 101! / (x + k)^102, of which the first term is all that counts
  CHECK(std::fabs(alone.at<double>(0) / (std::tgamma(102.0) / std::pow(2.5, 102)) - 1) < 1e-12);
  GradientTape outer;
  outer.watch(x);
  CHECK(close(gradient(), alone, 1e-14));
}
