// Products of float32: as exact as one rounding after the other whatever makes them, and whatever the values are.
#include "tests/support.hpp"

#include <algorithm>
#include <cmath>

using namespace capstan;
using namespace tests;

namespace {

/// Sums of products, and of their absolute values, in double.
struct Sums {
  std::vector<double> sum, size;
  Sums(const Tensor& a, const Tensor& b) {
    const std::int64_t m = a.size(0), inner = a.size(1), n = b.size(1);
    const std::vector<double> av = values(a), bv = values(b);
    sum.resize(static_cast<std::size_t>(m * n)), size.resize(sum.size());
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t k = 0; k < inner; ++k)
        for (std::int64_t j = 0; j < n; ++j) {
          const double term = av[static_cast<std::size_t>(i * inner + k)] * bv[static_cast<std::size_t>(k * n + j)];
          sum[static_cast<std::size_t>(i * n + j)] += term;
          size[static_cast<std::size_t>(i * n + j)] += std::fabs(term);
        }
  }
};

/// Numbers of any sign whose sizes are spread over powers of two.
Tensor spread_over(double low, double high, const Shape& shape, std::uint64_t seed) {
  const std::vector<double> powers = values(random_in(low, high, shape, DType::float64, seed));
  std::vector<double> numbers = values(random_in(-1, 1, shape, DType::float64, seed + 1));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] *= std::exp2(powers[i]);
  return from_doubles(numbers, shape, DType::float32);
}

/// A float32 has 24 bits.
constexpr double kUnit = 0x1p-24;

/// In the layouts that products of tensors and their gradients come with.
template <class Check>
void in_all_layouts(const Tensor& a, const Tensor& b, Check check) {
  for (const bool turn_a : {false, true})
    for (const bool turn_b : {false, true}) {
      INFO((turn_a ? "a turned " : "") << (turn_b ? "b turned" : ""));
      check(turn_a ? transpose(transpose(a).copy()) : a, turn_b ? transpose(transpose(b).copy()) : b);
    }
}

/// Values of a product with one thread, which those of several threads must be bit for bit.
std::vector<double> product_of(const Tensor& a, const Tensor& b) {
  std::vector<double> result;
  for (const int count : {1, 2, 3, 7}) {
    const ThreadCount threads_for_now(count);
    const std::vector<double> product = values(matmul(a, b));
    if (count == 1) result = product;
    else CHECK(same_bits(product, result));
  }
  return result;
}

/// As exact as sums of rounded products, in all layouts.
void check_product(std::int64_t m, std::int64_t k, std::int64_t n) {
  const Tensor a = spread_over(-6, 0, {m, k}, 11), b = spread_over(-6, 0, {k, n}, 13);
  const Sums expected(a, b);
  INFO(m << " x " << k << " x " << n);
  in_all_layouts(a, b, [&](const Tensor& left, const Tensor& right) {
    const std::vector<double> product = product_of(left, right);
    double most = 0, squares = 0;
    for (std::size_t i = 0; i < product.size(); ++i) {
      const double error = std::fabs(product[i] - expected.sum[i]) / expected.size[i];
      most = std::max(most, error), squares += error * error;
    }
    CHECK(most < 16 * kUnit);
    CHECK(std::sqrt(squares / static_cast<double>(product.size())) < kUnit);
  });
}

}  // namespace

TEST_CASE("float32 products are as exact as sums of rounded products", "[linalg][threads]") {
  const std::int64_t sizes[][3] = {{128, 128, 128},   {640, 256, 64}, {400, 65, 200},  {130, 97, 530}, {145, 321, 175},
                                   {64, 640, 256},    {49, 777, 81},  {80, 1600, 250},  // three blocks of terms
                                   {100, 900, 330},    // two, with more columns than one block of them
                                   {330, 3300, 300},   // five, of which the left operand's are not made all at once
                                   {1360, 1536, 260},  // nor all of its rows
                                   {2100, 70, 300}};
  for (const auto& [m, k, n] : sizes) check_product(m, k, n);
}

TEST_CASE("float32 products of few rows, few columns and few but long rows are as exact", "[linalg][threads]") {
  for (std::int64_t m = 1; m <= 20; ++m) check_product(m, 290, 131);
  for (const std::int64_t m : {1, 2, 7, 8, 16}) check_product(m, 1100, 640);
  for (const std::int64_t m : {4, 5}) check_product(m, 3000, 2900);  // the right operand has 35 MB
  for (std::int64_t n = 1; n <= 6; ++n) check_product(700, 900, n);
  for (const std::int64_t m : {1, 3, 16, 17})
    for (const std::int64_t n : {1, 4, 5}) check_product(m, 66'000, n);
  check_product(1, 2'200'000, 1);  // more terms than pieces have at least
  check_product(2, 60'000, 70);
}

TEST_CASE("float64 products of few rows, few columns and few but long rows", "[linalg][threads]") {
  const std::int64_t sizes[][3] = {{1, 300, 200},  {5, 300, 200},  {16, 700, 130}, {300, 400, 1},
                                   {3, 40'000, 2}, {1, 50'000, 1}, {3, 2100, 2100}};
  for (const auto& [m, k, n] : sizes) {
    INFO(m << " x " << k << " x " << n);
    const Tensor a = random_in(-1, 1, {m, k}, DType::float64, 11), b = random_in(-1, 1, {k, n}, DType::float64, 13);
    const std::vector<double> expected = Sums(a, b).sum;
    in_all_layouts(a, b, [&](const Tensor& left, const Tensor& right) {
      CHECK(relative_error(product_of(left, right), expected) <= tolerance::product64);
    });
  }
}

TEST_CASE("float32 products of integers are exact while they are below 2^24", "[linalg]") {
  const Tensor a = floor(random_in(-250, 250, {208, 200}, DType::float32, 15)),
               b = floor(random_in(-250, 250, {200, 192}, DType::float32, 16));
  CHECK(same_bits(product_of(a, b), Sums(a, b).sum));
  const Tensor large = floor(random_in(-16'000'000, 16'000'000, {192, 160}, DType::float32, 17));
  CHECK(same_bits(product_of(large, eye(160, 160, {DType::float32})), values(large)));
  CHECK(same_bits(product_of(eye(192, 192, {DType::float32}), large), values(large)));
}

TEST_CASE("NaN and infinities reach those sums of a float32 product that they are part of", "[linalg][threads]") {
  constexpr std::int64_t kSize = 200;
  const Tensor plain = random_in(0.5, 1, {kSize, kSize}, DType::float32, 18);
  const auto at = [&](std::int64_t i, std::int64_t j, double value) {
    std::vector<double> changed = values(plain);
    changed[static_cast<std::size_t>(i * kSize + j)] = value;
    return from_doubles(changed, {kSize, kSize}, DType::float32);
  };
  const std::vector<double> usual = Sums(plain, plain).sum, numbers = values(plain);
  for (const double value : {kNaN, kInfinity, -kInfinity, 3.4e38})
    for (const std::int64_t place : {std::int64_t{0}, std::int64_t{77}, kSize - 1})
      for (const bool left : {true, false})
        in_all_layouts(left ? at(place, 5, value) : plain, left ? plain : at(5, place, value),
                       [&](const Tensor& a, const Tensor& b) {
                         INFO(value << " at " << place << (left ? ", left" : ", right"));
                         const std::vector<double> product = product_of(a, b);
                         std::int64_t wrong = 0;
                         for (std::int64_t i = 0; i < kSize; ++i)
                           for (std::int64_t j = 0; j < kSize; ++j) {
                             const double is = product[static_cast<std::size_t>(i * kSize + j)];
                             const double was = usual[static_cast<std::size_t>(i * kSize + j)];
                             const double partner =
                                 numbers[static_cast<std::size_t>(left ? 5 * kSize + j : i * kSize + 5)];
                             if ((left ? i : j) != place) wrong += !(std::fabs(is - was) <= 1e-5 * was);
                             else if (std::isnan(value)) wrong += !std::isnan(is);
                             else if (std::isinf(value)) wrong += is != value;
                             else wrong += !(std::fabs(is - value * partner) <= 1e-5 * value);
                           }
                         CHECK(wrong == 0);
                       });
}

TEST_CASE("float32 products are added to what is there, and to rows of biases", "[linalg][threads]") {
  const std::int64_t sizes[][3] = {{200, 900, 200}, {300, 900, 330}, {7, 900, 330}, {1, 900, 600},
                                   {300, 900, 1},   {16, 40'000, 3}, {1, 70'000, 1}};
  for (const auto& [m, k, n] : sizes)
    for (const bool infinite : {false, true}) {
      const std::int64_t bad = infinite ? m - std::min<std::int64_t>(m, 20) : -1;  // in the second block of terms
      std::vector<double> numbers = values(random_in(0, 1, {m, k}, DType::float32, 25));
      if (infinite) numbers[static_cast<std::size_t>(bad * k + 880)] = kInfinity;
      const Tensor a = from_doubles(numbers, {m, k}, DType::float32);
      const Tensor b = random_in(0, 1, {k, n}, DType::float32, 26), c = random_in(0, 99, {m, n}, DType::float32, 27);
      const Tensor bias = random_in(0, 99, {n}, DType::float32, 28);
      const Sums expected(a, b);
      const std::vector<double> cs = values(c), biases = values(bias);
      INFO(m << " x " << k << " x " << n);
      const auto check = [&](const Tensor& left, const Tensor& right) {
        const std::vector<double> added = values(addmm(c, left, right)), biased = values(linear(left, right, bias));
        std::int64_t wrong = 0;
        for (std::int64_t i = 0; i < m; ++i)
          for (std::int64_t j = 0; j < n; ++j) {
            const auto at = static_cast<std::size_t>(i * n + j);
            const double sum = expected.sum[at], offset = biases[static_cast<std::size_t>(j)];
            if (i == bad) wrong += added[at] != kInfinity || biased[at] != kInfinity;
            else
              wrong += !(std::fabs(added[at] - sum - cs[at]) < 1e-5 * sum) +
                       !(std::fabs(biased[at] - sum - offset) < 1e-5 * sum);
          }
        CHECK(wrong == 0);
      };
      for (const int count : {1, 2, 7}) {
        const ThreadCount threads_for_now(count);
        in_all_layouts(a, b, check);
      }
    }
}

TEST_CASE("float32 products take operands of any strides", "[linalg]") {
  constexpr std::int64_t kSize = 200, kTerms = 100;
  const Tensor a = random_in(0.5, 1, {kSize, kTerms}, DType::float32, 29),
               b = random_in(0.5, 1, {kTerms, kSize}, DType::float32, 30);
  const auto check = [](const Tensor& left, const Tensor& right) {
    const Sums expected(left, right);
    const std::vector<double> product = product_of(left, right);
    double most = 0;
    for (std::size_t i = 0; i < product.size(); ++i)
      most = std::max(most, std::fabs(product[i] - expected.sum[i]) / expected.sum[i]);
    CHECK(most < 16 * kUnit);
  };
  check(concat({a, a}, 1).index({all, range(0, kTerms)}), concat({b, b}, 0).index({range(kTerms, 2 * kTerms)}));
  check(a.index({from(-1, -1)}).copy().index({from(-1, -1)}), stack({b, b}, 2).index({all, all, 0}));
  check(stack({a, a}, 2).index({all, all, 1}), b.index({all, from(-1, -1)}));
  check(broadcast_to(a.index({range(0, 1)}), {kSize, kTerms}), b);
  check(broadcast_to(a.index({all, range(0, 1)}), {kSize, kTerms}), b);
  check(a, broadcast_to(b.index({range(0, 1)}), {kTerms, kSize}));
  check(a, broadcast_to(b.index({all, range(0, 1)}), {kTerms, kSize}));
}

TEST_CASE("float32 products overflow where their sums do", "[linalg]") {
  constexpr std::int64_t kSize = 160;
  const auto same_everywhere = [](double a, double b, double expected) {
    INFO(a << " times " << b);
    const Tensor left = full({kSize, kSize}, a, {DType::float32}), right = full({kSize, kSize}, b, {DType::float32});
    std::int64_t wrong = 0;
    for (const double value : product_of(left, right))
      wrong += std::isinf(expected) ? value != expected : !(std::fabs(value - expected) <= 1e-5 * std::fabs(expected));
    CHECK(wrong == 0);
  };
  same_everywhere(1e22, 1e22, kInfinity);
  same_everywhere(-1e22, 1e22, -kInfinity);
  same_everywhere(1.9e19, 1e17, 1.9e36 * kSize);
  same_everywhere(5e17, 5e17, 2.5e35 * kSize);
  same_everywhere(3e-18, 3e-18, 9e-36 * kSize);
  std::vector<double> single(kSize * kSize, 0.0);
  single[0] = 1.7e38;
  const Tensor large = from_doubles(single, {kSize, kSize}, DType::float32);
  const double number = values(matmul(large, full({kSize, kSize}, 1.999f, {DType::float32})))[7];
  CHECK(std::fabs(number - 1.7e38 * 1.999) <= 1e-5 * number);
}

TEST_CASE("float32 products of very large and very small numbers keep their digits", "[linalg][blocks]") {
  constexpr std::int64_t kSize = 160;
  const Tensor usual = spread_over(-3, 0, {kSize, kSize}, 19);
  struct Range {
    double low, high;
  };
  for (const auto& [low, high] :
       {Range{-125, -115}, Range{-105, -95}, Range{-90, -80}, Range{-64, -60}, Range{-58, -55}, Range{-52, -49},
        Range{-60, 40}, Range{55, 58}, Range{57, 59}, Range{100, 119}, Range{110, 120}, Range{-120, 118}}) {
    const Tensor odd = spread_over(low, high, {kSize, kSize}, 21);
    INFO("2^" << low << " to 2^" << high);
    const auto check = [&](const Tensor& a, const Tensor& b) {
      const Sums expected(a, b);
      const std::vector<double> product = product_of(a, b);
      double most = 0;
      for (std::size_t i = 0; i < product.size(); ++i)
        most = std::max(most, (std::fabs(product[i] - expected.sum[i]) - 0x1p-126) / expected.size[i]);
      CHECK(most < 16 * kUnit);
    };
    in_all_layouts(odd, usual, check);
    in_all_layouts(usual, odd, check);
    if (-65 < low && high < 60) in_all_layouts(odd, odd, check);
    // rows and columns of sizes of their own
    const Tensor rows = exp2(random_in(low, high, {kSize, 1}, DType::float32, 23));
    in_all_layouts(usual * rows, usual, check);
    in_all_layouts(usual, usual * transpose(rows), check);
  }
}
