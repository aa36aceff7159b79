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

/// With a bias, too, that stands for itself, and one that does not.
void check_linear(const Tensor& a, const Tensor& b) {
  const Tensor bias = quarters({b.size(1)}, a.dtype()) - 3;
  const Tensor c = broadcast_to(bias, {a.size(0), b.size(1)}).copy();
  const Tensor expected = from_doubles(by_hand(a, b, &c), c.shape(), a.dtype());
  CHECK(same(linear(a, b, bias), expected));
  CHECK(same(linear(a, b, strided(reshape(bias, {1, b.size(1)}))[0]), expected));
  CHECK(same(addmm(bias, a, b), expected));
}

void check_product(const Tensor& a, const Tensor& b) {
  check_linear(a, b);
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
        for (const Tensor& product : {matmul(left, b), addmm(c, left, b), linear(left, b, c[0])}) {
          CHECK(finite_of(narrow(product, 1, 5, 1)) == 0);
          CHECK(finite_of(narrow(product, 1, 6, 26)) == product.size(0) * 26);
        }
      }
  const Tensor a = single_values(300, 8, DType::float32, some_zero), b = quarters({8, 32}, DType::float32);
  Tensor bias = quarters({32}, DType::float32);
  bias[7].assign(full({}, kNaN));
  CHECK(finite_of(linear(a, b, bias)) == 300 * 31);
  CHECK(finite_of(linear(transpose(a), quarters({300, 32}, DType::float32), bias)) == 8 * 31);
  const Tensor infinite = single_values(8, 8, DType::float32, [](std::int64_t) { return kInfinity; });
  CHECK(same(matmul(infinite, ones({8, 16})), full({8, 16}, kInfinity)));
  CHECK(nans_of(matmul(infinite, zeros({8, 16}))) == 8 * 16);
}

TEST_CASE("long sums of single terms are made of short ones", "[linalg]") {
  constexpr std::int64_t kLines = 200'000, kColumns = 16;
  const Tensor left = transpose(one_hot(full({kLines}, 3, {DType::int64}), 27));
  const Tensor terms = random_in(0.05, 0.15, {kLines, kColumns}, DType::float32, 8);
  const std::vector<double> sums = values(sum(cast(terms, DType::float64), 0));
  for (const double before : {0.0, 1e4}) {
    const Tensor c = full({27, kColumns}, before, {DType::float32});
    const Tensor product = before == 0 ? matmul(left, terms) : addmm(c, left, terms);
    for (std::int64_t row = 0; row < 27; ++row) {
      const std::vector<double> list = values(product[row]);
      for (std::size_t j = 0; j < list.size(); ++j) {
        const double expected = before + (row == 3 ? sums[j] : 0);
        CHECK(std::fabs(list[j] - expected) <= tolerance::product32 * expected);
      }
    }
  }
  // more rows than lines in a block, each with few
  const Tensor wide = single_values(1500, 900, DType::float32, some_zero);
  check_product(transpose(wide), quarters({1500, 48}, DType::float32));
}

TEST_CASE("a bias begins the sums of products of all sizes", "[linalg][threads]") {
  struct Sizes {
    std::int64_t m, n, k;
  };
  for (const int count : {1, 2, 3}) {
    const ThreadCount threads(count);
    for (const auto [m, n, k] : {Sizes{1, 5, 7},
                                 {7, 64, 600},
                                 {50, 30, 20},
                                 {96, 200, 700},
                                 {130, 330, 1030},
                                 {25, 3000, 64},
                                 {600, 40, 300},
                                 {70, 50, 200},
                                 {3, 4, 0}}) {
      INFO(m << " x " << k << " x " << n << ", " << count << " threads");
      check_linear(quarters({m, k}, DType::float32), quarters({k, n}, DType::float32));
      check_linear(quarters({m, k}, DType::float32), transpose(quarters({n, k}, DType::float32)));
      check_linear(transpose(quarters({k, m}, DType::float32)), transpose(quarters({n, k}, DType::float32)));
      check_linear(transpose(quarters({k, m}, DType::float64)), quarters({k, n}, DType::float64));
    }
  }
}

TEST_CASE("products of single terms do not depend on the number of threads", "[linalg][threads]") {
  const Tensor a = one_hot(cast(random_in(0, 27, {1300}, DType::float32, 5), DType::int64), 27) * 0.3;
  const Tensor b = random_in(-1, 1, {27, 300}, DType::float32, 6), c = random_in(-1, 1, {1300, 300}, DType::float32, 7);
  std::vector<std::vector<double>> all;
  for (const int count : {1, 2, 3}) {
    const ThreadCount threads(count);
    for (const Tensor& product : {matmul(a, b), addmm(c, a, b), matmul(transpose(a), c), addmm(b, transpose(a), c)})
      all.push_back(values(product));
    std::vector<double> bad = values(c);
    bad[1299 * 300 + 299] = kNaN;  // in the columns of the last thread
    CHECK(finite_of(matmul(transpose(a), from_doubles(bad, c.shape(), c.dtype()))) == 27 * 299);
  }
  for (std::size_t i = 4; i < all.size(); ++i) CHECK(same_bits(all[i], all[i % 4]));
}

TEST_CASE("operands of single terms may be views", "[linalg]") {
  const Tensor a = single_values(40, 20, DType::float32, some_zero), b = quarters({20, 32}, DType::float32);
  const auto plain = [](const Tensor& x) { return x.copy(); };
  const Tensor row = a.index({range(3, 4), all}), flipped = a.index({from(-1, -1), all});
  for (const Tensor& left : {flipped, broadcast_to(a[1], a.shape()), broadcast_to(row, a.shape()), strided(a)})
    for (const Tensor& right : {b, b.index({from(-1, -1), all}), broadcast_to(b[2], b.shape()), strided(b)}) {
      check_product(left, right);
      check_product(transpose(left), quarters({40, 32}, DType::float32));
      CHECK(same(matmul(left, right), matmul(plain(left), plain(right))));
    }
}

namespace {

/// One-hot inputs, and with `from_zero` states that begin with zeros.
std::vector<Tensor> one_hot_operands(const RecurrentUse& use, bool from_zero) {
  std::vector<Tensor> operands = recurrent_operands(use);
  const Shape shape = operands[0].shape();
  operands[0] = reshape(
      single_values(shape.numel() / shape[shape.rank() - 1], shape[shape.rank() - 1], use.dtype, some_zero), shape);
  for (const std::size_t state : {1u, 2u})
    if (from_zero && operands[state].defined()) operands[state] = zeros_like(operands[state]);
  return operands;
}

void check_sequence(const RecurrentUse& use, bool from_zero) {
  INFO(use.text() << ", batch " << use.batch << ", hidden " << use.hidden << (from_zero ? ", from zeros" : ""));
  const std::vector<Tensor> operands = one_hot_operands(use, from_zero);
  const std::vector<Tensor> weights = recurrent_weights(run_recurrent(use, operands));
  check_close(run_with_gradients(run_recurrent, use, operands, weights),
              run_with_gradients(run_recurrent_by_steps, use, operands, weights),
              use.dtype == DType::float32 ? tolerance::sequence32 : tolerance::sequence64);
}

}  // namespace

TEST_CASE("recurrent sequences of one-hot inputs are those of any inputs", "[recurrent]") {
  for (const bool from_zero : {false, true}) {
    for (const std::int64_t batch : {2, 24, 70})
      for (const std::int64_t hidden : {3, 40})
        for (const RecurrentUse& use : recurrent_uses({.batch = batch, .time = 5, .inputs = 27, .hidden = hidden}))
          check_sequence(use, from_zero);
    // by several threads, more lines of a part than are put in order at a time; a single input
    for (const RecurrentUse& use : recurrent_uses({.batch = 64, .time = 20, .inputs = 27, .hidden = 12}))
      check_sequence(use, from_zero);
    check_sequence({.batch = 256, .time = 64, .inputs = 1, .hidden = 4}, from_zero);
    for (RecurrentUse use : recurrent_uses({.batch = 32, .time = 3, .inputs = 27, .hidden = 64}))  // by units
      for (const bool reverse : {false, true}) {
        if (use.cell) continue;
        use.reverse = reverse, use.lengths = {}, use.dtype = DType::float32;
        for (const bool time_major : {false, true}) {
          use.time_major = time_major;
          check_sequence(use, from_zero);
        }
      }
  }
}

TEST_CASE("sequences of one-hot inputs do not depend on the number of threads", "[recurrent][threads]") {
  for (const auto& [batch, steps] : {std::pair{131, 4}, {260, 6}})
    for (RecurrentUse use : recurrent_uses({.batch = batch, .time = steps, .inputs = 27, .hidden = 20}))
      for (const bool time_major : {false, true}) {
        use.time_major = time_major && !use.cell;
        INFO(use.text());
        const std::vector<Tensor> operands = one_hot_operands(use, false);
        std::vector<std::vector<Tensor>> runs;
        for (const int count : {1, 2, 3, 5}) {
          const ThreadCount threads(count);
          runs.push_back(run_with_gradients(run_recurrent, use, operands));
          for (std::size_t i = 0; i < runs[0].size(); ++i) CHECK(same_bits(values(runs.back()[i]), values(runs[0][i])));
        }
      }
}

TEST_CASE("gradients of sequences from zeros do not depend on what memory held", "[recurrent]") {
  for (const RecurrentUse& use : recurrent_uses({.batch = 30, .time = 4, .inputs = 8, .hidden = 20})) {
    INFO(use.text());
    const std::vector<Tensor> operands = one_hot_operands(use, true);
    std::vector<std::vector<Tensor>> runs;
    for (const double held : {0.0, kNaN}) {
      const PoisonedBuffers poisoned(held);
      runs.push_back(run_with_gradients(run_recurrent, use, operands));
    }
    for (std::size_t i = 0; i < runs[0].size(); ++i) CHECK(same(runs[1][i], runs[0][i]));
  }
}

TEST_CASE("a first step whose gradient is not finite reaches the weights of states that begin with zeros",
          "[recurrent]") {
  for (const std::int64_t batch : {30, 64})
    for (const std::int64_t row : {std::int64_t{0}, batch - 1}) {
      const RecurrentUse use{.batch = batch, .time = 4, .inputs = 8, .hidden = 20};
      INFO(use.text() << ", row " << row);
      const std::vector<Tensor> operands = one_hot_operands(use, true);
      std::vector<Tensor> weights = recurrent_weights(run_recurrent(use, operands));
      std::vector<double> list = values(weights[0]);
      list[static_cast<std::size_t>(row * use.time * use.hidden + 5)] = kNaN;  // of its first step
      weights[0] = from_doubles(list, weights[0].shape(), use.dtype);
      const std::vector<Tensor> some = run_with_gradients(run_recurrent, use, operands, weights);
      const std::vector<Tensor> expected = run_with_gradients(run_recurrent_by_steps, use, operands, weights);
      for (std::size_t i = 0; i < some.size(); ++i) CHECK(nans_of(some[i]) == nans_of(expected[i]));
    }
}

TEST_CASE("what is not finite in weights of letters that do not occur reaches all outputs", "[recurrent]") {
  RecurrentUse use{.batch = 30, .time = 4, .inputs = 27, .hidden = 20};
  std::vector<Tensor> operands = recurrent_operands(use);
  std::vector<double> letters(120 * 27);
  for (std::size_t line = 0; line < 120; ++line) letters[line * 27 + 1 + line % 26] = 1;  // all but the first
  operands[0] = from_doubles(letters, {30, 4, 27}, use.dtype);
  for (const std::size_t weight : {3u, 4u}) {  // wx, of which a row takes one letter; wh, and h is zero at first
    std::vector<Tensor> bad = operands;
    bad[1] = zeros_like(bad[1]);
    std::vector<double> list = values(bad[weight]);
    list[0] = kNaN;
    bad[weight] = from_doubles(list, bad[weight].shape(), use.dtype);
    CHECK(nans_of(narrow(run_recurrent(use, bad)[0], 2, 0, 1)) == 30 * 4);
  }
}
