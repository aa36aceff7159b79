// Products of matrices: against triple loops, at odd sizes, transposed, strided, batched, empty.
#include "tests/support.hpp"

#include <cmath>

using namespace capstan;
using namespace tests;

namespace {

/// The definition, in double: out[i, j] = sum(k) a[i, k] * b[k, j].
Tensor by_definition(const Tensor& a, const Tensor& b) {
  const std::int64_t m = a.size(0), inner = a.size(1), n = b.size(1);
  const std::vector<double> av = values(a), bv = values(b);
  std::vector<double> out(static_cast<std::size_t>(m * n), 0.0);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t k = 0; k < inner; ++k)
      for (std::int64_t j = 0; j < n; ++j)
        out[static_cast<std::size_t>(i * n + j)] +=
            av[static_cast<std::size_t>(i * inner + k)] * bv[static_cast<std::size_t>(k * n + j)];
  return from_doubles(out, {m, n});
}

double allowed(DType type) { return type == DType::float64 ? tolerance::product64 : tolerance::product32; }

}  // namespace

TEST_CASE("matmul multiplies a 2x3 matrix by a 3x2 matrix", "[linalg]") {
  const Tensor a = {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}}, b = {{7.0f, 8.0f}, {9.0f, 10.0f}, {11.0f, 12.0f}};
  CHECK(same(matmul(a, b), {{58.0f, 64.0f}, {139.0f, 154.0f}}));  // 58 = 1*7 + 2*9 + 3*11
}

TEST_CASE("the first program of the manual prints what it says", "[linalg]") {
  const Tensor x = {{1.0f, 2.0f}, {3.0f, 4.0f}};
  const Tensor y = matmul(x, transpose(x)) + 1;
  CHECK(y.at<float>(0, 1) == 12);
  CHECK(same(y, {{6.0f, 12.0f}, {12.0f, 26.0f}}));
}

TEST_CASE("matmul agrees with its definition at odd sizes and every layout", "[linalg]") {
  const std::int64_t sizes[][3] = {{1, 1, 1},    {1, 7, 5},   {5, 7, 1},     {3, 5, 7},    {4, 4, 4},
                                   {17, 1, 19},  {2, 300, 3}, {33, 31, 29},  {64, 64, 64}, {127, 129, 131},
                                   {1, 257, 65}, {200, 3, 1}, {130, 257, 1}, {13, 600, 2}, {700, 1030, 4}};
  for (const DType type : {DType::float32, DType::float64})
    for (const auto& [m, k, n] : sizes) {
      const Tensor a = random_in(-1, 1, {m, k}, type, 91), b = random_in(-1, 1, {k, n}, type, 92);
      const Tensor expected = by_definition(a, b);
      const Tensor turned_a = transpose(transpose(a).copy()), turned_b = transpose(transpose(b).copy());
      const Tensor wide_a = concat({a, a}, 1).index({all, range(0, k)});                // rows with a gap
      const Tensor tall_b = concat({b, b}, 0).index({range(k, 2 * k)});                 // an offset
      const Tensor backwards_a = a.index({from(-1, -1)}).copy().index({from(-1, -1)});  // a negative stride
      const Tensor every_second = stack({b, b}, 2).index({all, all, 0});                // no unit stride
      INFO(m << " x " << k << " x " << n << " " << name(type));
      CHECK(close(matmul(a, b), expected, allowed(type)));
      CHECK(close(matmul(turned_a, b), expected, allowed(type)));
      CHECK(close(matmul(a, turned_b), expected, allowed(type)));
      CHECK(close(matmul(turned_a, turned_b), expected, allowed(type)));
      CHECK(close(matmul(wide_a, tall_b), expected, allowed(type)));
      CHECK(close(matmul(backwards_a, every_second), expected, allowed(type)));
      CHECK(matmul(a, b).dtype() == type);
      CHECK(matmul(turned_a, b).is_contiguous());
    }
}

TEST_CASE("matmul with vectors drops their axis", "[linalg]") {
  const Tensor a = {{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}, three = {1.0, 0.0, -1.0}, two = {1.0, 10.0};
  CHECK(same(matmul(a, three), {-2.0, -2.0}));
  CHECK(same(matmul(two, a), {41.0, 52.0, 63.0}));
  CHECK(same(matmul(three, three), Tensor(2.0)));
  CHECK(matmul(stack({a, a}), three).shape() == Shape{2, 2});
  CHECK(matmul(two, stack({a, a, a})).shape() == Shape{3, 3});
  CHECK(same(matmul(a, broadcast_to(Tensor(2.0), {3})), {12.0, 30.0}));  // a stride of 0
}

TEST_CASE("matmul broadcasts leading axes", "[linalg]") {
  const Tensor a = random_in(-1, 1, {2, 1, 3, 4}, DType::float64, 93),
               b = random_in(-1, 1, {5, 4, 2}, DType::float64, 94);
  const Tensor product = matmul(a, b);
  REQUIRE(product.shape() == Shape{2, 5, 3, 2});
  for (std::int64_t i = 0; i < 2; ++i)
    for (std::int64_t j = 0; j < 5; ++j)
      CHECK(close(product[i][j], by_definition(a[i][0], b[j]), tolerance::product64));
  CHECK(close(matmul(a[0][0], b)[3], by_definition(a[0][0], b[3]), tolerance::product64));
  CHECK(close(matmul(b, a[0][0].index({range(0, 2), all}))[2], by_definition(b[2], a[0][0].index({range(0, 2), all})),
              tolerance::product64));
  const Tensor turned = transpose(b, 1, 2);  // [5, 2, 4]
  CHECK(close(matmul(turned, b)[4], by_definition(turned[4], b[4]), tolerance::product64));
}

TEST_CASE("matmul of few and of many matrices gives each its own product, for any number of threads", "[linalg]") {
  const std::int64_t sizes[][4] = {{3, 64, 64, 64},  {2, 150, 170, 160}, {300, 8, 8, 8},
                                   {64, 32, 32, 32}, {5, 1, 90, 1},      {2, 512, 512, 385}};
  for (const auto& [batch, m, k, n] : sizes) {
    const Tensor a = random_in(-1, 1, {batch, m, k}, DType::float32, 98);
    const Tensor b = random_in(-1, 1, {batch, k, n}, DType::float32, 99);
    const Tensor turned_a = transpose(transpose(a, 1, 2).copy(), 1, 2),
                 turned_b = transpose(transpose(b, 1, 2).copy(), 1, 2);
    const Tensor product = matmul(a, b), turned = matmul(a, turned_b), both = matmul(turned_a, turned_b);
    INFO(batch << " of " << m << " x " << k << " x " << n);
    for (const std::int64_t i : {std::int64_t{0}, batch / 2, batch - 1}) {
      CHECK(close(product[i], by_definition(a[i], b[i]), tolerance::product32));
      CHECK(close(turned[i], by_definition(a[i], b[i]), tolerance::product32));
    }
    for (const int count : {1, 2, 3, 7}) {
      const ThreadCount threads_for_now(count);
      CHECK(same_bits(values(matmul(a, b)), values(product)));
      CHECK(same_bits(values(matmul(turned_a, turned_b)), values(both)));
    }
  }
}

TEST_CASE("a left operand that is turned gives the same bits alone and in a batch, whole and in parts",
          "[linalg][threads]") {
  const std::int64_t sizes[][3] = {{1024, 1537, 128}, {2185, 512, 384}};
  for (const DType type : {DType::float32, DType::float64})
    for (const auto& [m, k, n] : sizes) {
      const Tensor a = transpose(random_in(-1, 1, {2, k, m}, type, 107), 1, 2),
                   b = random_in(-1, 1, {2, k, n}, type, 108);
      const Tensor turned = transpose(transpose(b, 1, 2).copy(), 1, 2);
      const Tensor expected = matmul(a.to(DType::float64).copy(), b.to(DType::float64));
      for (const Tensor& right : {b, turned}) {
        INFO(m << " x " << k << " x " << n << " " << name(type) << (right.is_contiguous() ? "" : ", b turned"));
        std::vector<double> product;
        for (const int count : {1, 3}) {
          const ThreadCount threads_for_now(count);
          const Tensor batch = matmul(a, right);
          if (count == 1) product = values(batch);
          else CHECK(same_bits(values(batch), product));
          for (const std::int64_t i : {0, 1}) CHECK(same_bits(values(matmul(a[i], right[i])), values(batch[i])));
        }
        CHECK(close(matmul(a, right), expected, allowed(type)));
      }
    }
}

TEST_CASE("products at the edges of tiles and blocks are plain sums, in the same bits for any number of threads",
          "[linalg][threads]") {
  const std::int64_t sizes[][3] = {// rows, terms and columns: the right operand as it stands
                                   {1, 513, 5},
                                   {2, 257, 7},
                                   {5, 64, 11},
                                   {6, 1025, 12},
                                   {7, 255, 13},
                                   {11, 240, 63},
                                   {13, 512, 1},
                                   {241, 5, 65},
                                   // packed, or, with the left one turned, a sum over many rows
                                   {1, 1025, 241},
                                   {2, 513, 255},
                                   {5, 512, 240},
                                   {6, 511, 257},
                                   {7, 257, 511},
                                   {12, 255, 513},
                                   {13, 241, 65},
                                   {63, 240, 241},
                                   {64, 65, 256},
                                   {65, 1025, 11},
                                   {65, 1025, 64},
                                   {97, 129, 129},
                                   {240, 63, 257},
                                   {241, 257, 65},
                                   {255, 65, 256},
                                   {511, 241, 63},
                                   // a left one that is turned is put in rows, all at once or some of its terms
                                   {340, 513, 387},
                                   {1024, 1100, 131},
                                   // few columns behind whole registers: dot products, where the right one is turned
                                   {1, 300, 3},
                                   {5, 128, 17},
                                   {32, 200, 50},
                                   {33, 1030, 52},
                                   {64, 513, 132},
                                   {13, 512, 513},
                                   {250, 129, 2}};
  for (const DType type : {DType::float32, DType::float64})
    for (const auto& [m, k, n] : sizes) {
      const Tensor a = random_in(-1, 1, {m, k}, type, 100), b = random_in(-1, 1, {k, n}, type, 101);
      const Tensor c = random_in(-1, 1, {m, n}, type, 102), expected = by_definition(a, b);
      for (const bool turn_a : {false, true})
        for (const bool turn_b : {false, true}) {
          INFO(m << " x " << k << " x " << n << " " << name(type) << (turn_a ? ", a turned" : "")
                 << (turn_b ? ", b turned" : ""));
          const Tensor left = turn_a ? transpose(transpose(a).copy()) : a;
          const Tensor right = turn_b ? transpose(transpose(b).copy()) : b;
          std::vector<double> product, added;
          for (const int count : {1, 2, 3}) {
            const ThreadCount threads_for_now(count);
            const Tensor plain = matmul(left, right), onto = addmm(c, left, right);
            if (count > 1) {
              CHECK(same_bits(values(plain), product));
              CHECK(same_bits(values(onto), added));
              continue;
            }
            CHECK(close(plain, expected, allowed(type)));
            CHECK(close(onto, expected + c.to(DType::float64), allowed(type)));
            product = values(plain), added = values(onto);
          }
        }
    }
}

// Of products on CPUs: how another library adds up is its own affair.
TEST_CASE("long sums of few columns are made of short ones", "[linalg][host]") {
  constexpr std::int64_t kRows = 100, kTerms = 200'000;  // equal ones, so that errors add up
  const Tensor a = full({kRows, kTerms}, 0.1, {DType::float32});
  for (const std::int64_t columns : {1, 2}) {
    const Tensor b = transpose(full({columns, kTerms}, 0.1, {DType::float32}));
    const double expected = kTerms * static_cast<double>(0.1f) * static_cast<double>(0.1f);
    for (const double value : values(matmul(a, b)))
      REQUIRE(std::fabs(value - expected) <= tolerance::product32 * expected);
  }
}

TEST_CASE("matmul takes operands that repeat one row or one column", "[linalg]") {
  const std::int64_t sizes[][3] = {{70, 300, 100}, {5, 20, 7}};
  for (const DType type : {DType::float32, DType::float64})
    for (const auto& [m, k, n] : sizes) {
      // sums of one sign: a single one that cancels would be all of a result
      const Tensor row = random_in(0.5, 1, {1, k}, type, 103), column = random_in(0.5, 1, {k, 1}, type, 104);
      const Tensor a = random_in(0.5, 1, {m, k}, type, 105), b = random_in(0.5, 1, {k, n}, type, 106);
      const Tensor rows = broadcast_to(row, {m, k}), columns = broadcast_to(column, {k, n});
      const Tensor same_rows = broadcast_to(b.index({range(0, 1)}), {k, n});
      const Tensor same_columns = broadcast_to(a.index({all, range(0, 1)}), {m, k});
      INFO(m << " x " << k << " x " << n << " " << name(type));
      CHECK(close(matmul(rows, columns), by_definition(rows, columns), allowed(type)));
      CHECK(close(matmul(rows, same_rows), by_definition(rows, same_rows), allowed(type)));
      CHECK(close(matmul(same_columns, columns), by_definition(same_columns, columns), allowed(type)));
      CHECK(close(matmul(same_columns, b), by_definition(same_columns, b), allowed(type)));
    }
}

TEST_CASE("matmul of nothing gives zeros or nothing", "[linalg]") {
  CHECK(same(matmul(zeros({2, 0}), zeros({0, 3})), zeros({2, 3})));
  CHECK(matmul(zeros({0, 4}), zeros({4, 3})).shape() == Shape{0, 3});
  CHECK(matmul(zeros({2, 4}), zeros({4, 0})).shape() == Shape{2, 0});
  CHECK(same(matmul(zeros({0}), zeros({0})), Tensor(0.0f)));
  CHECK(same(matmul(zeros({2, 2, 0}), zeros({0, 3})), zeros({2, 2, 3})));
  CHECK(same(matmul(zeros({2, 2, 0}), zeros({2, 0, 3})), zeros({2, 2, 3})));
  CHECK(matmul(zeros({0, 2, 4}), zeros({4, 3})).shape() == Shape{0, 2, 3});
  CHECK(matmul(zeros({0, 2, 4}), zeros({0, 4, 3})).shape() == Shape{0, 2, 3});
}

TEST_CASE("matmul hands NaN and infinities on, also past zeros", "[linalg]") {
  const Tensor a = {{0.0f, 1.0f}}, b = {{static_cast<float>(kNaN), 1.0f}, {2.0f, static_cast<float>(kInfinity)}};
  const std::vector<double> product = values(matmul(a, b));
  CHECK(std::isnan(product[0]));  // 0 * NaN + 2
  CHECK(product[1] == kInfinity);
}

TEST_CASE("matmul promotes float32 beside float64", "[linalg]") {
  const Tensor a = {{1.0f, 2.0f}}, b = {{3.0}, {4.0}};
  CHECK(same(matmul(a, b), {{11.0}}));
}

TEST_CASE("linear takes a bias that is held as row slices", "[linalg]") {
  const Tensor bias = from_row_slices({from_vector(std::vector<std::int64_t>{1}), Tensor{5.0f}}, {3});
  CHECK(same(linear(ones({1, 2}), ones({2, 3}), bias), {{2.0f, 7.0f, 2.0f}}));
}

TEST_CASE("linear is a product and a bias", "[linalg]") {
  for (const DType type : {DType::float32, DType::float64})
    for (const Shape& shape : {Shape{5, 3}, Shape{3}, Shape{2, 4, 3}, Shape{0, 3}, Shape{1, 3}}) {
      INFO(to_string(shape) << " " << name(type));
      const Tensor x = random_in(-1, 1, shape, type, 95), w = random_in(-1, 1, {3, 7}, type, 96);
      const Tensor b = random_in(-1, 1, {7}, type, 97);
      CHECK(close(linear(x, w, b), matmul(x, w) + b, allowed(type)));
      CHECK(close(linear(x, w, Tensor{}), matmul(x, w), allowed(type)));
      const Tensor turned = transpose(transpose(w).copy());
      CHECK(close(linear(x, turned, b), matmul(x, w) + b, allowed(type)));
    }
}
