// The 16-bit floating types and the narrow integers: conversions bit for bit, and operations rounded once from float32.
#include "tests/support.hpp"

#include <capstan/capstan.hpp>

using namespace capstan;
using namespace tests;

namespace {

float float_from(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
double double_from(std::uint64_t bits) {
  double x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

/// Of the two neighbours below and above |x| on a grid, the nearer; at ties the one whose number is even.
template <class Half>
std::uint16_t nearest(long double x) {
  const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const long double magnitude = std::fabs(x);
  std::uint16_t low = 0, high = std::is_same_v<Half, float16> ? 0x7C00 : 0x7F80;  // infinity
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (static_cast<long double>(static_cast<float>(Half::from_bits(middle))) <= magnitude ? low : high) = middle;
  }
  const auto value = [](std::uint16_t bits) -> long double {  // infinity counts as the next number would
    if (std::is_same_v<Half, float16> && bits == 0x7C00) return 65536.0L;
    if (std::is_same_v<Half, bfloat16> && bits == 0x7F80) return 0x1p128L;
    return static_cast<float>(Half::from_bits(bits));
  };
  const long double below = magnitude - value(low), above = value(high) - magnitude;
  const std::uint16_t result = below < above || (below == above && low % 2 == 0) ? low : high;
  return static_cast<std::uint16_t>(sign | result);
}

template <class Half>
void check_rounding(int cases) {
  std::mt19937_64 bits(17);
  for (int i = 0; i < cases; ++i) {
    const std::uint64_t word = bits();
    const float x = float_from(static_cast<std::uint32_t>(word));
    if (!std::isfinite(x)) continue;
    if (Half(x).bits() != nearest<Half>(x)) FAIL("from float " << x);
    // doubles near the middle between two numbers of the half type, where rounding twice goes wrong
    const auto half = Half::from_bits(static_cast<std::uint16_t>(word & 0x7BFF));
    const auto next = Half::from_bits(static_cast<std::uint16_t>((word & 0x7BFF) + 1));
    if (!std::isfinite(static_cast<float>(next)) || !std::isfinite(static_cast<float>(half))) continue;
    const double middle = (static_cast<double>(half) + static_cast<double>(next)) / 2;
    for (const double y : {middle, std::nextafter(middle, 0.0), std::nextafter(middle, 1e300), -middle,
                           std::nextafter(-middle, 0.0), std::nextafter(-middle, -1e300)})
      if (Half(y).bits() != nearest<Half>(y)) FAIL("from double " << y);
    const double z = double_from(word);
    if (std::isfinite(z) && Half(z).bits() != nearest<Half>(z)) FAIL("from double " << z);
    const auto n = static_cast<std::int64_t>(word) >> (word % 63);
    if (Half(n).bits() != nearest<Half>(n)) FAIL("from integer " << n);
  }
  SUCCEED();
}

constexpr DType half_types[] = {DType::float16, DType::bfloat16};

}  // namespace

TEST_CASE("every float16 converts to the float of the same value and back", "[half]") {
  for (int i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float x = float16::from_bits(bits);
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double value = exponent == 31  ? (fraction == 0 ? kInfinity : kNaN)
                         : exponent == 0 ? std::ldexp(fraction, -24)
                                         : std::ldexp(1024 + fraction, exponent - 25);
    if (std::isnan(value)) {
      if (!std::isnan(x) || !std::isnan(static_cast<float>(float16(x)))) FAIL("NaN " << i);
      continue;
    }
    if (x != static_cast<float>(bits & 0x8000 ? -value : value) || std::signbit(x) != (bits >= 0x8000)) FAIL("" << i);
    if (float16(x).bits() != bits) FAIL("back " << i);
  }
  SUCCEED();
}

TEST_CASE("every bfloat16 is the upper half of a float", "[half]") {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const float x = bfloat16::from_bits(static_cast<std::uint16_t>(i)), expected = float_from(i << 16);
    if (std::isnan(expected) ? !std::isnan(x) : x != expected) FAIL("" << i);
    if (!std::isnan(expected) && bfloat16(x).bits() != i) FAIL("back " << i);
  }
  SUCCEED();
}

TEST_CASE("16-bit numbers are made by rounding once, to nearest and to even at ties", "[half]") {
  check_rounding<float16>(200000);
  check_rounding<bfloat16>(200000);
  CHECK(float16(65519.0f).bits() == 0x7BFF);  // below the middle between 65504 and 65536
  CHECK(float16(65520.0f).bits() == 0x7C00);
  CHECK(float16(0x1p-25f).bits() == 0);                                      // half of the least number: to even
  CHECK(float16(0x1.8p-24f).bits() == 2);                                    // 1.5 of them: to even
  CHECK(std::isnan(static_cast<float>(bfloat16(float_from(0x7F800001u)))));  // NaN must not become infinity
  CHECK(bfloat16(std::uint64_t{1} << 63).bits() == 0x5F00);                  // 2^63, which no int64 holds
  CHECK(bfloat16(UINT64_MAX).bits() == 0x5F80);                              // 2^64
  CHECK(bfloat16(std::uint64_t{3}).bits() == 0x4040);
}

TEST_CASE("tensors cast to 16-bit types as single numbers do, of any layout", "[half]") {
  const Tensor x = random_in(-70000, 70000, {37, 53}, DType::float64, 3);
  const std::vector<double> numbers = values(x);
  for (const DType from : {DType::float32, DType::float64}) {
    const std::vector<double> source = values(x.to(from));
    const std::vector<float16> f = cast(x.to(from), DType::float16).to_vector<float16>();
    const std::vector<bfloat16> b = cast(strided(x.to(from)), DType::bfloat16).to_vector<bfloat16>();
    for (std::size_t i = 0; i < source.size(); ++i)
      if (f[i].bits() != float16(source[i]).bits() || b[i].bits() != bfloat16(source[i]).bits()) FAIL("" << source[i]);
  }
}

TEST_CASE("operations on 16-bit types are those of float32, rounded once", "[half]") {
  for (const DType type : half_types) {
    INFO(name(type));
    const Tensor x = random_in(-3, 3, {7, 300}, DType::float64, 5).to(type), y = random_in(0.5, 2, {7, 1}).to(type);
    const Tensor wide_x = x.to(DType::float32), wide_y = y.to(DType::float32);
    const auto check = [&](const char* what, const Tensor& narrow, const Tensor& wide) {
      INFO(what);
      CHECK(narrow.dtype() == type);
      CHECK(same(narrow, wide.to(type)));
    };
    check("add", x + y, wide_x + wide_y);
    check("mul", x * y, wide_x * wide_y);
    check("div", strided(x) / y, wide_x / wide_y);
    check("pow", pow(y, x), pow(wide_y, wide_x));
    check("exp", exp(x), exp(wide_x));
    check("tanh", tanh(transpose(x)), tanh(transpose(wide_x)));
    check("sum", sum(x, 1), sum(wide_x, 1));
    check("sum over rows", sum(x, 0), sum(wide_x, 0));
    check("mean", mean(x), mean(wide_x));
    check("max", max(x, 1), max(wide_x, 1));
    check("softmax", softmax(x), softmax(wide_x));
    check("logsumexp", logsumexp(x, 1), logsumexp(wide_x, 1));
    check("matmul", matmul(x, transpose(x)), matmul(wide_x, transpose(wide_x)));
    check("where", where(x > y, x, y), where(wide_x > wide_y, wide_x, wide_y));
    check("clip", clip(x, -1, 1), clip(wide_x, -1, 1));
    check("concat", concat({x, x}), concat({wide_x, wide_x}));
    check("gather", gather(x, Tensor{2, 0, 2}), gather(wide_x, Tensor{2, 0, 2}));
    CHECK(same(argmax(x, 1), argmax(wide_x, 1)));
    CHECK(same(x < y, wide_x < wide_y));
  }
}

TEST_CASE("long sums of 16-bit numbers do not stop where the type ends", "[half]") {
  CHECK(number(sum(ones({60000}, {DType::float16}))) == 60000);  // one at a time would stop at 2048
  CHECK(number(mean(ones({1000000}, {DType::bfloat16}))) == 1);  // and at 256
}

TEST_CASE("gradients flow through 16-bit types and casts between them", "[half]") {
  for (const DType type : half_types) {
    const Tensor x = Tensor{0.5f, -1.0f, 2.0f}.to(type);
    GradientTape tape;
    tape.watch(x);
    const Tensor g = tape.gradient(sum(square(cast(x, DType::float32)) * 2 + x.to(DType::float32)), x);
    CHECK(g.dtype() == type);
    CHECK(values(g) == std::vector<double>{3, -3, 9});  // 4x + 1
    GradientTape second;
    second.watch(x);
    CHECK(values(second.gradient(sum(tanh(x) * x), x)).size() == 3);
  }
}

TEST_CASE("another tape that listens changes no gradient of 16-bit types", "[half]") {
  const auto check = [](const char* function, auto f, float at) {
    for (const DType dtype : {DType::float16, DType::bfloat16}) {
      INFO(function << " of " << name(dtype));
      const Tensor x = full({1}, at, {.dtype = dtype});
      const auto gradient = [&] {
        GradientTape tape;
        tape.watch(x);
        return tape.gradient(f(x), x);
      };
      const Tensor alone = gradient();
      const GradientTape listener;
      CHECK(same(gradient(), alone));
      CHECK(std::isfinite(number(alone)));
    }
  };
  check(
      "asinh", [](const Tensor& x) { return asinh(x); }, 300);
  check(
      "tanh", [](const Tensor& x) { return tanh(x); }, 0.7f);
  check(
      "softplus", [](const Tensor& x) { return softplus(x, {.beta = 3}); }, 0.3f);
  check(
      "cbrt", [](const Tensor& x) { return cbrt(x); }, 1234);
  check(
      "pow", [](const Tensor& x) { return pow(x, 1.7); }, 3.3f);
  check(
      "div", [](const Tensor& x) { return 1.1 / x; }, 0.37f);
  check(
      "binary_cross_entropy", [](const Tensor& x) { return binary_cross_entropy(x, ones_like(x)); }, 1);
  check(
      "huber_loss", [](const Tensor& x) { return huber_loss(x, zeros_like(x)); }, 0.123f);
  const Tensor slope = {0.3f, -1.7f, 2.2f};
  check(
      "softmax", [&](const Tensor& x) { return softmax(x * slope.to(x.dtype())) * slope.to(x.dtype()); }, 1.3f);
  check(
      "log_softmax", [&](const Tensor& x) { return log_softmax(x * slope.to(x.dtype())) * slope.to(x.dtype()); }, 1.3f);
}

TEST_CASE("gradients of logarithms of sums are shares of one whatever the 16 bits of the sum are", "[half]") {
  const auto gradient = [](auto f, const Tensor& x) {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(f(x), x);
  };
  const Tensor numbers = {{1000.0f, 1000.0f, 997.0f}, {31.25f, 30.5f, 28.0f}, {-200.0f, -201.0f, -199.5f}};
  const Tensor none = full({2, 2}, -kInfinity);
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    INFO(name(dtype));
    const Tensor x = numbers.to(dtype), wide = x.to(DType::float32);  // the same numbers
    const double tolerance = dtype == DType::float16 ? 0x1p-11 : 0x1p-8;
    const auto check = [&](auto f) { CHECK(close(gradient(f, x).to(DType::float32), gradient(f, wide), tolerance)); };
    check([](const Tensor& t) { return logsumexp(t, 1); });
    check([](const Tensor& t) { return logsumexp(t, 0, {.keepdims = true}); });
    check([](const Tensor& t) { return logsumexp(t); });
    check([](const Tensor& t) { return logsumexp(t[0], Axes(std::initializer_list<int>{})); });
    check([](const Tensor& t) { return logcumsumexp(t, 1); });
    check([](const Tensor& t) { return logcumsumexp(t, 0, {.reverse = true}); });
    const Tensor shares = gradient([](const Tensor& t) { return logsumexp(t, 1); }, none.to(dtype));
    CHECK(same(shares, zeros({2, 2}, {.dtype = dtype})));
  }
}

TEST_CASE("limited logits of 16 bits are finite", "[half]") {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const Tensor x = ones({1}, {.dtype = dtype});
    GradientTape tape;
    tape.watch(x);
    const Tensor y = logit(x, 1e-4);
    CHECK(std::fabs(number(y) - std::log(0.9999 / 1e-4)) < 0.04);
    CHECK(y.dtype() == dtype);
    CHECK(number(tape.gradient(y, x)) == 0);
  }
}

TEST_CASE("gradients of stretched 16-bit operands round once", "[half]") {
  const auto gradient = [](DType dtype, const Tensor& given) {
    const Tensor x = zeros({}, {.dtype = dtype});
    GradientTape tape;
    tape.watch(x);
    return number(tape.gradient(zeros(given.shape(), {.dtype = dtype}) + x, x, {.output_gradient = given.to(dtype)}));
  };
  CHECK(gradient(DType::bfloat16, ones({1001, 1001})) == 1003520);  // the nearest to 1002001
  const Tensor rows = reshape(where(arange(1000) % 2 == 0, full({1000}, 100), full({1000}, -100)), {1000, 1});
  CHECK(gradient(DType::float16, broadcast_to(rows, {1000, 1000})) == 0);  // sums of rows are infinite
}

TEST_CASE("any number of 16-bit values share the gradient of their maximum", "[half]") {
  const Tensor x = zeros({300, 300}, {.dtype = DType::float16}), ids = zeros({70000}, {.dtype = DType::int64});
  const Tensor parts = zeros({70000}, {.dtype = DType::float16});
  GradientTape tape;
  tape.watch({x, parts});
  const auto [dx, d_parts] = tape.gradient(max(x) + sum(segment_max(parts, ids, 1)), x, parts);
  CHECK(same(dx, full({300, 300}, 1.0 / 90000, {.dtype = DType::float16})));
  CHECK(same(d_parts, full({70000}, 1.0 / 70000, {.dtype = DType::float16})));
}

TEST_CASE("16-bit numbers print with the fewest digits that tell them apart", "[half][host]") {
  CHECK(to_string(Tensor{0.1f, 1.5f, -2.0f}.to(DType::float16)) == "[ 0.1  1.5 -2. ]\n[3] float16 cpu");
  CHECK(to_string(Tensor{0.1f, 50.5f}.to(DType::bfloat16)) == "[ 0.1 50.5]\n[2] bfloat16 cpu");
  // numpy 2.4: where all get as many digits as one of them needs, those are the digits that follow
  CHECK(to_string(Tensor{0.1, 1 / 3.0, 1000.5, 6e-8}.to(DType::float16)) ==
        "[9.9976e-02 3.3325e-01 1.0005e+03 5.9605e-08]\n[4] float16 cpu");
  CHECK(to_string(Tensor{0.1, 2048.0, -1 / 3.0}.to(DType::float16)) ==
        "[ 9.998e-02  2.048e+03 -3.333e-01]\n[3] float16 cpu");
  CHECK(to_string(Tensor{2.5, 3e-7}.to(DType::float16)) == "[2.5e+00 3.0e-07]\n[2] float16 cpu");
}

TEST_CASE("narrow integers wrap around, and their sums are int64", "[half]") {
  const Tensor a = from_vector<std::int8_t>({127, -128, 5}), b = from_vector<std::int16_t>({INT16_MAX, INT16_MIN, 7});
  CHECK(same(a + 1, from_vector<std::int8_t>({-128, -127, 6})));
  CHECK(same(abs(a), from_vector<std::int8_t>({127, -128, 5})));
  CHECK(same(b * 2, from_vector<std::int16_t>({-2, 0, 14})));
  CHECK(same(sum(a), Tensor(std::int64_t{4})));
  CHECK_THROWS_AS(a + 128, DTypeError);
  CHECK(same(a.index({range(2, -4, -1)}), from_vector<std::int8_t>({5, -128, 127})));
}
