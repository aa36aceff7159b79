// Operations of two operands, comparisons, clip and where: sizes around SIMD widths, strides, broadcasting, specials, types.
#include "tests/support.hpp"

#include <algorithm>
#include <cmath>

using namespace capstan;
using namespace tests;

namespace {

struct Binary {
  const char* name;
  Tensor (*tensors)(const Tensor&, const Tensor&);
  double (*numbers)(double, double);  // the same in C++, exact for float64
};
const Binary exact_ops[] = {
    {"add", [](const Tensor& a, const Tensor& b) { return a + b; }, [](double a, double b) { return a + b; }},
    {"sub", [](const Tensor& a, const Tensor& b) { return a - b; }, [](double a, double b) { return a - b; }},
    {"mul", [](const Tensor& a, const Tensor& b) { return a * b; }, [](double a, double b) { return a * b; }},
    {"div", [](const Tensor& a, const Tensor& b) { return a / b; }, [](double a, double b) { return a / b; }},
    {"maximum", [](const Tensor& a, const Tensor& b) { return maximum(a, b); },
     [](double a, double b) { return std::max(a, b); }},
    {"minimum", [](const Tensor& a, const Tensor& b) { return minimum(a, b); },
     [](double a, double b) { return std::min(a, b); }},
};
const Binary comparisons[] = {
    {"equal", [](const Tensor& a, const Tensor& b) { return equal(a, b); },
     [](double a, double b) { return double(a == b); }},
    {"not_equal", [](const Tensor& a, const Tensor& b) { return not_equal(a, b); },
     [](double a, double b) { return double(a != b); }},
    {"less", [](const Tensor& a, const Tensor& b) { return a < b; }, [](double a, double b) { return double(a < b); }},
    {"less_equal", [](const Tensor& a, const Tensor& b) { return a <= b; },
     [](double a, double b) { return double(a <= b); }},
    {"greater", [](const Tensor& a, const Tensor& b) { return a > b; },
     [](double a, double b) { return double(a > b); }},
    {"greater_equal", [](const Tensor& a, const Tensor& b) { return a >= b; },
     [](double a, double b) { return double(a >= b); }},
};

/// The broadcast result, element by element, from indices computed by hand.
std::vector<double> by_hand(double (*f)(double, double), const Tensor& a, const Tensor& b, const Shape& shape) {
  const std::vector<double> av = values(a), bv = values(b);
  std::vector<double> result;
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    std::int64_t rest = i, at_a = 0, at_b = 0, step_a = 1, step_b = 1;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      const std::int64_t position = rest % shape[axis];
      rest /= shape[axis];
      const int in_a = axis - (shape.rank() - a.rank()), in_b = axis - (shape.rank() - b.rank());
      if (in_a >= 0) {
        if (a.shape()[in_a] != 1) at_a += position * step_a;
        step_a *= a.shape()[in_a];
      }
      if (in_b >= 0) {
        if (b.shape()[in_b] != 1) at_b += position * step_b;
        step_b *= b.shape()[in_b];
      }
    }
    result.push_back(f(av[static_cast<std::size_t>(at_a)], bv[static_cast<std::size_t>(at_b)]));
  }
  return result;
}

/// Checks one operation on one pair; quiet unless it fails, because there are thousands of them.
void check_pair(const Binary& op, const Tensor& a, const Tensor& b, const Shape& shape) {
  const Tensor result = op.tensors(a, b);
  if (result.shape() == shape && result.is_contiguous() && values(result) == by_hand(op.numbers, a, b, shape)) return;
  FAIL_CHECK(op.name << " of " << to_string(a.shape()) << " and " << to_string(b.shape()) << " gives\n"
                     << to_string(result));
}

struct ShapePair {
  Shape a, b, result;
};

}  // namespace

TEST_CASE("operations of two operands are right at every size around the SIMD widths", "[elementwise]") {
  for (std::int64_t n = 1; n <= 70; ++n) {
    const ShapePair pairs[] = {{{n}, {n}, {n}},          {{n}, {}, {n}},
                               {{}, {n}, {n}},           {{n}, {1}, {n}},
                               {{3, n}, {n}, {3, n}},    {{n}, {3, n}, {3, n}},
                               {{3, n}, {3, 1}, {3, n}}, {{3, 1}, {1, n}, {3, n}},
                               {{n, 1}, {3}, {n, 3}},    {{2, n, 2}, {n, 1}, {2, n, 2}}};
    for (const ShapePair& p : pairs) {
      const Tensor a = random_in(-2, 2, p.a, DType::float64, 71), b = random_in(-2, 2, p.b, DType::float64, 72);
      for (const Binary& op : exact_ops) check_pair(op, a, b, p.result);
      for (const Binary& op : comparisons) check_pair(op, a, b, p.result);
    }
  }
  SUCCEED();
}

TEST_CASE("strided and broadcast operands are right in every combination", "[elementwise]") {
  const Tensor a = random_in(-2, 2, {4, 5, 6}, DType::float64, 73), b = random_in(-2, 2, {6, 5, 4}, DType::float64, 74);
  const Tensor views_a[] = {a,
                            transpose(b),
                            a.index({from(-1, -1), all, from(-1, -1)}),
                            a.index({all, range(2, 3)}),
                            permute(transpose(b), {0, 1, 2}),
                            a[0],
                            a.index({0, 0}),
                            a.index({0, 0, 0})};
  const Tensor views_b[] = {transpose(b), a, b.index({range(0, 6), 1, 2}), a.index({all, all, range(0, 1)}),
                            broadcast_to(a.index({0, all, all}), {4, 5, 6})};
  for (const Tensor& x : views_a)
    for (const Tensor& y : views_b)
      for (const Binary& op : exact_ops) {
        if (x.rank() == 3 && y.rank() == 3) check_pair(op, x, y, Shape{4, 5, 6});
        else check_pair(op, y, x, op.tensors(y, x).shape());
      }
  SUCCEED();
}

TEST_CASE("float32 operations round once", "[elementwise]") {
  const Tensor a = random_in(-2, 2, {67}, DType::float32, 75), b = random_in(0.5, 2, {67}, DType::float32, 76);
  const std::vector<float> av = a.to_vector<float>(), bv = b.to_vector<float>();
  const std::vector<float> sums = (a + b).to_vector<float>(), products = (a * b).to_vector<float>(),
                           quotients = (a / b).to_vector<float>();
  for (std::size_t i = 0; i < av.size(); ++i) {
    CHECK(sums[i] == av[i] + bv[i]);
    CHECK(products[i] == av[i] * bv[i]);
    CHECK(quotients[i] == av[i] / bv[i]);
  }
}

TEST_CASE("operations on nothing give nothing, of the broadcast shape", "[elementwise]") {
  CHECK((zeros({0, 3}) + zeros({3})).shape() == Shape{0, 3});
  CHECK((zeros({2, 0}) * zeros({1})).shape() == Shape{2, 0});
  CHECK((zeros({0}) - 1).shape() == Shape{0});
  CHECK((zeros({2, 1}) < zeros({0})).shape() == Shape{2, 0});
  CHECK(exp(zeros({0})).numel() == 0);
  CHECK(clip(zeros({0, 2}), 0, 1).shape() == Shape{0, 2});
  CHECK((Tensor(2.0) + Tensor(3.0)).shape() == Shape{});
}

TEST_CASE("pow has the values of C's pow", "[elementwise]") {
  const double rows[][3] = {// computed with mpmath at 60 digits, rounded once
                            {2.0, 10.0, 1024.0},    {2.0, -1074.0, 5e-324},
                            {10.0, -300.0, 1e-300}, {0.5, 0.5, 0.7071067811865476},
                            {-2.0, 3.0, -8.0},      {-2.0, -3.0, -0.125},
                            {9.0, 0.5, 3.0},        {1.0000000001, 1e10, 2.7182820532347876},
                            {1e-200, 1.5, 1e-300},  {0.9, -0.1, 1.0105917512032914}};
  for (const auto& row : rows) {
    INFO(row[0] << " to the " << row[1]);
    const Tensor base = full({19}, row[0], {.dtype = DType::float64});
    CHECK(ulps_between(pow(base, row[1]).at<double>(18), row[2]) <= tolerance::elementwise_ulps);
    CHECK(ulps_between(pow(row[0], full({19}, row[1], {.dtype = DType::float64})).at<double>(0), row[2]) <=
          tolerance::elementwise_ulps);
  }
}

TEST_CASE("pow keeps to C99 Annex F at zeros, infinities and NaN", "[elementwise]") {
  const double rows[][3] = {{0, 0, 1},
                            {kNaN, 0, 1},
                            {1, kNaN, 1},
                            {kInfinity, 0, 1},
                            {0, 3, 0},
                            {-0.0, 3, -0.0},
                            {0, -1, kInfinity},
                            {-0.0, -1, -kInfinity},
                            {-0.0, -2, kInfinity},
                            {-8, 1 / 3.0, kNaN},
                            {2, kInfinity, kInfinity},
                            {0.5, kInfinity, 0},
                            {2, -kInfinity, 0},
                            {-kInfinity, 3, -kInfinity},
                            {-kInfinity, -3, -0.0},
                            {-1, kInfinity, 1},
                            {2, kNaN, kNaN},
                            {kNaN, 2, kNaN},
                            {1e200, 2, kInfinity}};
  for (const auto& row : rows) {
    INFO(row[0] << " to the " << row[1]);
    const double value = number(pow(Tensor(row[0]), Tensor(row[1])));
    CHECK(ulps_between(value, row[2]) == 0);
    CHECK((std::isnan(row[2]) || std::signbit(value) == std::signbit(row[2])));
  }
}

TEST_CASE("one whole exponent for all gives what C's pow gives, signs and limits included", "[elementwise]") {
  std::vector<float> bases = {0, -0.0f, 1, -1, 3, -3, 1e-45f, -1e-45f, 1e-20f, 3e38f, -3e38f};
  for (const double special : {kInfinity, -kInfinity, kNaN}) bases.push_back(static_cast<float>(special));
  for (const float x : random_in(-5, 5, {40}, DType::float32, 77).to_vector<float>()) bases.push_back(x);
  const Tensor x = from_vector(bases);
  for (int n = -10; n <= 10; ++n) {
    const std::vector<float> powers = pow(x, n).to_vector<float>();
    for (std::size_t i = 0; i < bases.size(); ++i) {
      INFO(bases[i] << " to the " << n);
      const auto expected = static_cast<float>(std::pow(static_cast<double>(bases[i]), n));
      CHECK(ulps_between(powers[i], expected) <= 1);
      CHECK((std::isnan(expected) || std::signbit(powers[i]) == std::signbit(expected)));
    }
  }
}

TEST_CASE("float32 remainders are exact however far the quotient, and so are angles at both zeros", "[elementwise]") {
  std::vector<float> as, bs;
  const std::vector<float> some = {0,     -0.0f,  1,    -1,   0.3f,   -0.3f,          7, -7, 1e30f, -1e30f, 1e-45f,
                                   1e38f, 2.5e8f, 3e8f, 0.1f, 1e-30f, 16777217 * 4.0f};
  std::vector<float> all = some;
  for (const double special : {kInfinity, -kInfinity, kNaN}) all.push_back(static_cast<float>(special));
  for (const float a : all)
    for (const float b : all) as.push_back(a), bs.push_back(b);
  const Tensor a = from_vector(as), b = from_vector(bs);
  const std::vector<float> rests = fmod(a, b).to_vector<float>(), signed_rests = remainder(a, b).to_vector<float>(),
                           angles = atan2(a, b).to_vector<float>();
  const auto same_float = [](float x, float y) {
    return (std::isnan(x) && std::isnan(y)) || (x == y && std::signbit(x) == std::signbit(y));
  };
  for (std::size_t i = 0; i < as.size(); ++i) {
    INFO(as[i] << " and " << bs[i]);
    const float rest = std::fmod(as[i], bs[i]);
    CHECK(same_float(rests[i], rest));
    const bool turned = rest != 0 && (rest < 0) != (bs[i] < 0);
    CHECK(same_float(signed_rests[i], rest == 0 ? std::copysign(0.0f, bs[i]) : turned ? rest + bs[i] : rest));
    const auto angle = static_cast<float>(std::atan2(static_cast<double>(as[i]), static_cast<double>(bs[i])));
    CHECK((same_float(angles[i], angle) || ulps_between(angles[i], angle) <= 1));
  }
}

TEST_CASE("a number on either side gives what it gives as a tensor, at every size", "[elementwise]") {
  using Function = Tensor (*)(const Tensor&, const Tensor&);
  const std::pair<const char*, Function> functions[] = {
      {"pow", [](const Tensor& a, const Tensor& b) { return pow(a, b); }},
      {"atan2", [](const Tensor& a, const Tensor& b) { return atan2(a, b); }},
      {"hypot", [](const Tensor& a, const Tensor& b) { return hypot(a, b); }},
      {"fmod", [](const Tensor& a, const Tensor& b) { return fmod(a, b); }},
      {"remainder", [](const Tensor& a, const Tensor& b) { return remainder(a, b); }},
      {"floor_divide", [](const Tensor& a, const Tensor& b) { return floor_divide(a, b); }},
      {"logaddexp", [](const Tensor& a, const Tensor& b) { return logaddexp(a, b); }},
      {"xlogy", [](const Tensor& a, const Tensor& b) { return xlogy(a, b); }}};
  for (const auto& [name, function] : functions)
    for (const std::int64_t size : {1, 7, 33, 5000}) {
      INFO(name << ", " << size);
      const Tensor x = random_in(0.1, 4, {size, 2}, DType::float32, 78), number(1.7f), many = full({size, 2}, 1.7f);
      CHECK(same(function(x, number), function(x, many)));
      CHECK(same(function(number, x), function(many, x)));
      CHECK(same(function(transpose(x), number), transpose(function(x, many))));
      CHECK(same(function(transpose(x), transpose(many)), transpose(function(x, many))));
      CHECK(same(function(flip(x), many), flip(function(x, many))));
      CHECK(same(function(number, number), full({}, function(many, many).at<float>(0, 0))));
    }
}

TEST_CASE("maximum and minimum hand NaN on from either side", "[elementwise]") {
  const Tensor a = {kNaN, 1.0, kNaN, kInfinity, 2.0}, b = {1.0, kNaN, kNaN, 3.0, -kInfinity};
  CHECK(same(maximum(a, b), {kNaN, kNaN, kNaN, kInfinity, 2.0}));
  CHECK(same(minimum(a, b), {kNaN, kNaN, kNaN, 3.0, -kInfinity}));
  CHECK(same(maximum(b, a), {kNaN, kNaN, kNaN, kInfinity, 2.0}));
}

TEST_CASE("gradients of quotients and powers stay in range where they end in it", "[elementwise]") {
  const auto gradients = [](auto f, const Tensor& a, const Tensor& b, const Tensor& given) {
    GradientTape tape;
    tape.watch({a, b});
    const std::vector<Tensor> found = tape.gradient(f(a, b), {a, b}, {.output_gradient = given});
    return std::pair{values(found[0]), values(found[1])};
  };
  const auto over = [](const Tensor& a, const Tensor& b) { return a / b; };
  const auto power = [](const Tensor& a, const Tensor& b) { return pow(a, b); };
  const auto half = [](float x) { return Tensor{x}.to(DType::float16); };
  CHECK(gradients(over, half(16), half(8), half(40000)).second == std::vector<double>{-10000});
  CHECK(relative_error(gradients(over, {1e30f}, {1e10f}, {1e20f}).second, {-1e30}) < 1e-6);
  CHECK(gradients(over, {1e30f}, {1e-8f}, {0.0f}).second == std::vector<double>{0});
  CHECK(relative_error(gradients(power, {1.01f}, {100.0f}, {3e38f}).second,
                       {3e38 * std::log(1.01) * std::pow(1.01, 100)}) < 1e-4);
  // of a constant, however small or undetermined the base is
  CHECK(gradients(power, {1e-40f, 0.0f, NAN}, {0.0f, 0.0f, 0.0f}, ones({3})).first == std::vector<double>{0, 0, 0});
  CHECK(gradients(power, {1e-40f}, {1.0f}, {1.0f}).first == std::vector<double>{1});
}

TEST_CASE("the remainder of an infinite divisor has that divisor's whole quotient as gradient", "[elementwise]") {
  const Tensor a = {-5.0, 5.0, 5.0, -5.0, kNaN}, b = {kInfinity, kInfinity, -kInfinity, -kInfinity, kInfinity};
  GradientTape tape;
  tape.watch(b);
  const std::vector<double> found = values(tape.gradient(a % b, b));
  CHECK(std::vector<double>(found.begin(), found.end() - 1) == std::vector<double>{1, 0, 1, 0});
  CHECK(std::isnan(found.back()));
}

TEST_CASE("where one operand of maximum or minimum is NaN both get the gradient", "[elementwise]") {
  const Tensor a = {kNaN, 1.0, 2.0, 3.0}, b = {2.0, kNaN, 2.0, 1.0};
  GradientTape tape({.persistent = true});
  tape.watch({a, b});
  const Tensor most = maximum(a, b), least = minimum(a, b);
  CHECK(values(tape.gradient(most, a)) == std::vector<double>{1, 1, 0.5, 1});
  CHECK(values(tape.gradient(most, b)) == std::vector<double>{1, 1, 0.5, 0});
  CHECK(values(tape.gradient(least, a)) == std::vector<double>{1, 1, 0.5, 0});
  CHECK(values(tape.gradient(least, b)) == std::vector<double>{1, 1, 0.5, 1});
}

TEST_CASE("comparisons with NaN are false, but for not_equal; -0 equals 0", "[elementwise]") {
  const Tensor a = {kNaN, kNaN, -0.0, kInfinity}, b = {kNaN, 1.0, 0.0, kInfinity};
  CHECK(same(equal(a, b), {false, false, true, true}));
  CHECK(same(not_equal(a, b), {true, true, false, false}));
  CHECK(same(a < b, {false, false, false, false}));
  CHECK(same(a >= b, {false, false, true, true}));
  CHECK(same(0 < Tensor{-1.0, 0.0, 1.0}, {false, false, true}));
  CHECK(same(1.0 >= Tensor{0.0, 1.0, 2.0}, {true, true, false}));
}

TEST_CASE("comparisons are those of a loop, of all numbers, at every length, and of one value against all",
          "[elementwise]") {
  const auto check = [](const Tensor& a, const Tensor& b) {
    const Tensor same_place = a == b;
    const std::vector<double> x = values(broadcast_to(a, same_place.shape()));
    const std::vector<double> y = values(broadcast_to(b, same_place.shape()));
    const std::vector<double> equals = values(same_place), less_than = values(a < b), at_least = values(a >= b);
    for (std::size_t i = 0; i < x.size(); ++i)
      if (equals[i] != (x[i] == y[i]) || less_than[i] != (x[i] < y[i]) || at_least[i] != (x[i] >= y[i]))
        FAIL_CHECK(x[i] << " and " << y[i] << " in place " << i);
  };
  for (const DType type : {DType::float16, DType::bfloat16, DType::float32, DType::float64, DType::int8, DType::int16,
                           DType::int32, DType::int64, DType::uint8})
    for (const std::int64_t count : {1, 7, 40, 511, 512, 513, 1100}) {
      INFO(name(type) << ", " << count);
      const Tensor a = cast(random_in(type == DType::uint8 ? 0 : -4, 5, {3, count}, DType::float64, 61), type);
      const Tensor b = cast(random_in(type == DType::uint8 ? 0 : -4, 5, {3, count}, DType::float64, 62), type);
      check(a, b);
      check(a, narrow(b, 1, 0, 1));
      check(narrow(a, 1, 0, 1), b);
      check(narrow(a, 0, 1, 1), b);
      check(broadcast_to(narrow(a, 1, 0, 1), {3, count}), broadcast_to(narrow(b, 1, 0, 1), {3, count}));
    }
  const std::vector<double> strange = {kNaN, kInfinity, -kInfinity, -0.0, 0.0, 1e-7, -1e-7, 6e-5, 65504, -65504};
  for (const DType type : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    INFO("not all finite, " << name(type));
    const Tensor all = tile(from_doubles(strange, {10}, type), {60});
    for (std::int64_t i = 0; i < 10; ++i) check(all, narrow(all, 0, i, 1));
  }
}

TEST_CASE("the operators == and != compare element by element", "[elementwise]") {
  const Tensor a = {1, 2, 3}, b = {1, 5, 3};
  const Tensor equals = a == b, differs = a != b, with_number = a == 2, from_left = 3 != a;
  CHECK(same(equals, {true, false, true}));
  CHECK(same(differs, {false, true, false}));
  CHECK(same(with_number, {false, true, false}));
  CHECK(same(from_left, {true, true, false}));
}

TEST_CASE("integers add, multiply and compare exactly", "[elementwise]") {
  const std::int64_t big = std::int64_t{1} << 53;
  const Tensor a = from_vector(std::vector<std::int64_t>{big + 1, -7, 0});
  const Tensor b = from_vector(std::vector<std::int64_t>{big, 3, 0});
  CHECK((a - b).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, -10, 0});
  CHECK((a * 2).to_vector<std::int64_t>() == std::vector<std::int64_t>{2 * big + 2, -14, 0});
  CHECK(same(a > b, {true, false, false}));
  CHECK(same(equal(a, b), {false, false, true}));
  CHECK(same(maximum(a, b), from_vector(std::vector<std::int64_t>{big + 1, 3, 0})));
  CHECK(same(minimum(Tensor{1, 5}, 3), {1, 3}));
  for (const DType type : {DType::int32, DType::int64, DType::uint8}) {
    const Tensor x = from_doubles({1, 2, 200}, {3}, type), y = from_doubles({5, 1, 55}, {3}, type);
    CHECK(same(x + y, from_doubles({6, 3, 255}, {3}, type)));
    CHECK(same(maximum(x, y) - minimum(x, y), from_doubles({4, 1, 145}, {3}, type)));
    CHECK(same(clip(x, 2, 100), from_doubles({2, 2, 100}, {3}, type)));
  }
}

TEST_CASE("bool tensors combine by and, or and not", "[elementwise]") {
  const Tensor a = {true, true, false, false}, b = {true, false, true, false};
  CHECK(same(logical_and(a, b), {true, false, false, false}));
  CHECK(same(logical_or(a, b), {true, true, true, false}));
  CHECK(same(!a, {false, false, true, true}));
  CHECK(same(logical_and(a, Tensor(true)), a));
  CHECK(same(logical_or(Tensor{{true}, {false}}, Tensor{true, false}), {{true, true}, {true, false}}));
}

TEST_CASE("clip keeps values within the bounds, and NaN", "[elementwise]") {
  const Tensor x = {-2.0, -1.0, 0.5, 1.0, 3.0, kNaN, kInfinity, -kInfinity};
  CHECK(same(clip(x, -1, 1), {-1.0, -1.0, 0.5, 1.0, 1.0, kNaN, 1.0, -1.0}));
  CHECK(same(clip(x, 0, kInfinity), {0.0, 0.0, 0.5, 1.0, 3.0, kNaN, kInfinity, 0.0}));
  CHECK(same(clip(x, 2, 2), {2.0, 2.0, 2.0, 2.0, 2.0, kNaN, 2.0, 2.0}));
  CHECK(same(clip(transpose(Tensor{{1, 9}, {5, 3}}), 2, 6), {{2, 5}, {6, 3}}));
  const auto slope = [](const Tensor& t, Scalar low, Scalar high) {
    GradientTape tape;
    tape.watch(t);
    return tape.gradient(sum(clip(t, low, high)), t);
  };
  CHECK(same(slope(x, -1, 1), {0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0}));
  CHECK(same(slope(x, 0, kInfinity), {0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0}));
  for (const DType type : {DType::float32, DType::float16, DType::bfloat16}) {
    const Tensor bound = full({1}, 0.1, {.dtype = type});  // is what the type makes of the number
    CHECK(same(slope(bound, 0.1, 1), ones({1}, {.dtype = type})));
    CHECK(same(slope(bound, -1, 0.1), ones({1}, {.dtype = type})));
  }
  const Tensor zero = clip(Tensor{-0.0, 0.0}, 0, 1);  // at a bound it is what it was
  CHECK(std::signbit(zero.at<double>(0)));
  CHECK_FALSE(std::signbit(zero.at<double>(1)));
}

TEST_CASE("where takes from one side or the other, all three broadcast", "[elementwise]") {
  const Tensor condition = {{true}, {false}};
  CHECK(same(where(condition, Tensor{1.0f, 2.0f}, Tensor{3.0f, 4.0f}), {{1.0f, 2.0f}, {3.0f, 4.0f}}));
  CHECK(same(where(condition, Tensor{1.0f, 2.0f}, 0), {{1.0f, 2.0f}, {0.0f, 0.0f}}));
  CHECK(same(where(condition, -1, Tensor{3, 4}), {{-1, -1}, {3, 4}}));
  CHECK(same(where(Tensor{true, false}, Tensor{kNaN, kNaN}, Tensor{1.0, 2.0}), {kNaN, 2.0}));
  CHECK(same(where(Tensor{true, false}, Tensor{true, true}, Tensor{false, false}), {true, false}));
  CHECK(where(zeros({0, 1}, {.dtype = DType::bool8}), ones({3}), 0).shape() == Shape{0, 3});
  for (std::int64_t n = 1; n <= 70; ++n) {
    const Tensor x = arange(n);
    const std::vector<std::int64_t> chosen = where(x < 5, x, -x).to_vector<std::int64_t>();
    for (std::int64_t i = 0; i < n; ++i)
      if (chosen[static_cast<std::size_t>(i)] != (i < 5 ? i : -i)) FAIL_CHECK("element " << i << " of " << n);
  }
}

TEST_CASE("array_equal asks for the same shape, type and values", "[elementwise]") {
  CHECK(array_equal(Tensor{1, 2}, Tensor{1, 2}));
  CHECK_FALSE(array_equal(Tensor{1, 2}, Tensor{1, 3}));
  CHECK_FALSE(array_equal(Tensor{1, 2}, Tensor{{1, 2}}));
  CHECK_FALSE(array_equal(Tensor{1.0f}, Tensor{1.0}));
  CHECK_FALSE(array_equal(Tensor{kNaN}, Tensor{kNaN}));
  CHECK(array_equal(zeros({0, 2}), zeros({0, 2})));
  CHECK(array_equal(transpose(Tensor{{1, 2}, {3, 4}}), Tensor{{1, 3}, {2, 4}}));
}

TEST_CASE("all_close allows an absolute and a relative difference, and does not broadcast", "[elementwise]") {
  CHECK(all_close(Tensor{1.0, 1e-9}, Tensor{1.000009, 0.0}));
  CHECK_FALSE(all_close(Tensor{1.0}, Tensor{1.00002}));
  CHECK(all_close(Tensor{1.0}, Tensor{1.1}, 0.1, 0));
  CHECK(all_close(Tensor{0.0}, Tensor{0.1}, 0, 0.1));
  CHECK_FALSE(all_close(Tensor{1.0, 1.0}, Tensor(1.0)));
  CHECK(all_close(Tensor{kInfinity}, Tensor{kInfinity}));
  CHECK_FALSE(all_close(Tensor{kInfinity}, Tensor{1.0}));
  CHECK_FALSE(all_close(Tensor{kNaN}, Tensor{kNaN}));
}
