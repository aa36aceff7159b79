// Products and recurrent sequences whose left operand has one value in each line, or none: one-hot inputs, states that
// begin with zeros. Against sums by hand, and against operands that have values everywhere.
#include <algorithm>
#include <cmath>

#include "tests/recurrent_use.hpp"

using namespace capstan;
using namespace tests;

namespace {

/// [lines, width]: line i has `value(i)` at place 7i mod width, and nothing where that is 0.
template <class Value>
Tensor single_values(std::int64_t lines, std::int64_t width, DType dtype, Value value) {
  std::vector<double> list(static_cast<std::size_t>(lines * width));
  for (std::int64_t i = 0; i < lines; ++i) list[static_cast<std::size_t>(i * width + 7 * i % width)] = value(i);
  return from_doubles(list, Shape{lines, width}, dtype);
}
double some_zero(std::int64_t i) { return i % 5 == 3 ? 0.0 : 0.5 + 0.25 * static_cast<double>(i % 7); }

/// a @ b, term by term, in double.
std::vector<double> by_hand(const Tensor& a, const Tensor& b, const Tensor* c = nullptr) {
  const std::vector<double> left = values(a), right = values(b);
  const std::int64_t m = a.size(0), k = a.size(1), n = b.size(1);
  std::vector<double> sums = c == nullptr ? std::vector<double>(static_cast<std::size_t>(m * n)) : values(*c);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t p = 0; p < k; ++p)
      for (std::int64_t j = 0; j < n; ++j)
        sums[static_cast<std::size_t>(i * n + j)] +=
            left[static_cast<std::size_t>(i * k + p)] * right[static_cast<std::size_t>(p * n + j)];
  return sums;
}

/// Halves and quarters of small numbers: sums of some hundreds of them are exact in float32.
Tensor quarters(const Shape& shape, DType dtype) {
  std::vector<double> list;
  for (std::int64_t i = 0; i < shape.numel(); ++i) list.push_back(0.25 * static_cast<double>(i * 37 % 41 - 20));
  return from_doubles(list, shape, dtype);
}

/// How many values are finite.
std::int64_t finite_of(const Tensor& x) {
  const std::vector<double> list = values(x);
  return std::count_if(list.begin(), list.end(), [](double value) { return std::isfinite(value); });
}
std::int64_t nans_of(const Tensor& x) {
  const std::vector<double> list = values(x);
  return std::count_if(list.begin(), list.end(), [](double value) { return std::isnan(value); });
}

void check_product(const Tensor& a, const Tensor& b) {
  const Tensor c = quarters({a.size(0), b.size(1)}, a.dtype());
  CHECK(same(matmul(a, b), from_doubles(by_hand(a, b), c.shape(), a.dtype())));
  CHECK(same(addmm(c, a, b), from_doubles(by_hand(a, b, &c), c.shape(), a.dtype())));
}

}  // namespace

TEST_CASE("products of lines with one value are sums of the other operand's rows", "[linalg]") {
  for (const DType type : {DType::float32, DType::float64})
    for (const std::int64_t lines : {1, 4, 63, 64, 65, 700})
      for (const std::int64_t width : {1, 4, 15, 16, 17, 27, 64, 65, 200})
        for (const std::int64_t n : {1, 16, 33, 256}) {
          INFO(name(type) << ": " << lines << " lines of " << width << ", " << n << " columns");
          const Tensor a = single_values(lines, width, type, some_zero);
          check_product(a, quarters({width, n}, type));
          check_product(transpose(a), quarters({lines, n}, type));
        }
}

TEST_CASE("products of lines of which one or the last has more values are whole", "[linalg]") {
  for (const std::int64_t other : {0, 1, 64, 299})
    for (const bool turned : {false, true}) {
      INFO("line " << other << (turned ? ", transposed" : ""));
      std::vector<double> list = values(single_values(300, 20, DType::float32, some_zero));
      for (const std::int64_t place : {3, 19}) list[static_cast<std::size_t>(other * 20 + place)] = 2;
      const Tensor a = from_doubles(list, {300, 20}, DType::float32);
      check_product(turned ? transpose(a) : a, quarters({turned ? 300 : 20, 48}, DType::float32));
    }
}

TEST_CASE("nothing finite is left where a product has zeros against what is not", "[linalg]") {
  for (const double bad : {kNaN, kInfinity, -kInfinity})
    for (const bool turned : {false, true})
      for (const bool used : {false, true}) {  // line 3 has no value
        INFO(bad << (turned ? ", transposed" : "") << (used ? ", in a row that is taken" : ""));
        const Tensor a = single_values(40, 47, DType::float32, [](std::int64_t i) { return i == 3 ? 0.0 : 1.0; });
        const std::int64_t rows = turned ? 40 : 47, unused = turned ? 3 : 3 * 7 % 47, taken = turned ? 4 : 4 * 7 % 47;
        std::vector<double> list = values(quarters({rows, 32}, DType::float32));
        list[static_cast<std::size_t>((used ? taken : unused) * 32 + 5)] = bad;
        const Tensor b = from_doubles(list, {rows, 32}, DType::float32), left = turned ? transpose(a) : a;
        const Tensor c = quarters({left.size(0), 32}, DType::float32);
        for (const Tensor& product : {matmul(left, b), addmm(c, left, b)}) {
          CHECK(finite_of(narrow(product, 1, 5, 1)) == 0);
          CHECK(finite_of(narrow(product, 1, 6, 26)) == product.size(0) * 26);
        }
      }
  const Tensor infinite = single_values(8, 8, DType::float32, [](std::int64_t) { return kInfinity; });
  CHECK(same(matmul(infinite, ones({8, 16})), full({8, 16}, kInfinity)));
  CHECK(nans_of(matmul(infinite, zeros({8, 16}))) == 8 * 16);
}

TEST_CASE("recurrent sequences of one-hot inputs are those of any inputs", "[recurrent]") {
  for (const std::int64_t batch : {2, 24, 70})
    for (const std::int64_t hidden : {3, 40})
      for (RecurrentUse use : recurrent_uses({.batch = batch, .time = 5, .inputs = 27, .hidden = hidden}))
        for (const bool from_zero : {false, true}) {
          INFO(use.text() << ", batch " << batch << ", hidden " << hidden << (from_zero ? ", from zeros" : ""));
          std::vector<Tensor> operands = recurrent_operands(use);
          const Shape shape = operands[0].shape();
          operands[0] = reshape(single_values(shape.numel() / 27, 27, use.dtype, some_zero), shape);
          for (const std::size_t state : {1u, 2u})
            if (from_zero && operands[state].defined()) operands[state] = zeros_like(operands[state]);
          const std::vector<Tensor> weights = recurrent_weights(run_recurrent(use, operands));
          check_close(run_with_gradients(run_recurrent, use, operands, weights),
                      run_with_gradients(run_recurrent_by_steps, use, operands, weights), tolerance::roundings64 * 4);
        }
}

TEST_CASE("what is not finite in weights of letters that do not occur reaches all outputs", "[recurrent]") {
  RecurrentUse use{.batch = 30, .time = 4, .inputs = 27, .hidden = 20};
  std::vector<Tensor> operands = recurrent_operands(use);
  operands[0] = reshape(single_values(120, 27, use.dtype, [](std::int64_t) { return 1.0; }), {30, 4, 27});
  for (const std::size_t weight : {3u, 4u}) {  // wx, of which a row takes one letter; wh, and h is zero at first
    std::vector<Tensor> bad = operands;
    bad[1] = zeros_like(bad[1]);
    std::vector<double> list = values(bad[weight]);
    list[0] = kNaN;
    bad[weight] = from_doubles(list, bad[weight].shape(), use.dtype);
    CHECK(nans_of(narrow(run_recurrent(use, bad)[0], 2, 0, 1)) == 30 * 4);
  }
}
