// Products of vectors, powers, diagonals, triangles and norms: by hand, and the examples of NumPy's manual.
#include "tests/support.hpp"

#include <cmath>

using namespace capstan;
using namespace tests;

namespace {

const DType all_types[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::int8,
                           DType::int16,   DType::int32,   DType::int64,   DType::uint8,    DType::bool8};

/// 0, 1, 0, 1, ... in rows: values that every type holds.
Tensor checkers(const Shape& shape, DType dtype) {
  std::vector<double> list;
  for (std::int64_t i = 0; i < shape.numel(); ++i) list.push_back(static_cast<double>((i * i + i / 2) % 2));
  return from_doubles(list, shape, dtype);
}

/// Elements for which `keep(row, column)` holds, zeros elsewhere.
template <class Keep>
Tensor kept(const Tensor& x, Keep keep) {
  std::vector<double> list = values(x);
  const std::int64_t rows = x.size(-2), columns = x.size(-1);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    if (!keep(at / columns % rows, at % columns)) list[i] = 0;
  }
  return from_doubles(list, x.shape(), x.dtype());
}

}  // namespace

TEST_CASE("triangles keep one side of a diagonal, for every type and layout", "[linalg]") {
  for (const DType type : all_types)
    for (const Shape& shape : {Shape{4, 4}, Shape{2, 5}, Shape{5, 2}, Shape{2, 3, 4}, Shape{1, 1}, Shape{3, 0}})
      for (const std::int64_t offset : {0, 1, -1, 3, -3, 9, -9})
        for (const bool turned : {false, true}) {
          const Tensor x = turned ? strided(checkers(shape, type)) : checkers(shape, type);
          INFO(name(type) << " " << to_string(shape) << " offset " << offset);
          CHECK(same(tril(x, offset), kept(x, [=](std::int64_t i, std::int64_t j) { return j - i <= offset; })));
          CHECK(same(triu(x, offset), kept(x, [=](std::int64_t i, std::int64_t j) { return j - i >= offset; })));
        }
  const Tensor bad = {{kNaN, kNaN}, {1.0, kInfinity}};
  CHECK(same(tril(bad), {{kNaN, 0.0}, {1.0, kInfinity}}));  // what is cut off is 0, not 0 times something
  CHECK(same(triu(ones({2, 2}), INT64_MAX), zeros({2, 2})));
  CHECK(same(triu(ones({2, 2}), INT64_MIN), ones({2, 2})));
}

TEST_CASE("a diagonal is a view, of any two axes", "[linalg]") {
  const Tensor x = {{1, 2, 3}, {4, 5, 6}};
  CHECK(same(diagonal(x), {1, 5}));
  CHECK(same(diagonal(x, 1), {2, 6}));
  CHECK(same(diagonal(x, 2), {3}));
  CHECK(same(diagonal(x, -1), {4}));
  CHECK(diagonal(x, 3).shape() == Shape{0});
  CHECK(diagonal(x, -2).shape() == Shape{0});
  CHECK(diagonal(x, INT64_MIN).shape() == Shape{0});
  CHECK(same(diagonal(transpose(x), 1), {4}));
  CHECK(diagonal(x).shares_storage(x));

  // numpy.diagonal(arange(8).reshape(2, 2, 2), 0, 0, 1) is [[0, 6], [1, 7]]
  const Tensor cube = reshape(arange(8), {2, 2, 2});
  CHECK(same(diagonal(cube, 0, 0, 1), from_vector(std::vector<std::int64_t>{0, 6, 1, 7}, {2, 2})));
  CHECK(same(diagonal(cube), from_vector(std::vector<std::int64_t>{0, 3, 4, 7}, {2, 2})));
  CHECK(same(diagonal(cube, 0, 1, 0), transpose(from_vector(std::vector<std::int64_t>{0, 1, 6, 7}, {2, 2}))));
}

TEST_CASE("diag makes a matrix of a vector and takes the diagonal of a matrix", "[linalg]") {
  CHECK(same(diag(Tensor{1, 2}), {{1, 0}, {0, 2}}));
  CHECK(same(diag(Tensor{1, 2}, 1), {{0, 1, 0}, {0, 0, 2}, {0, 0, 0}}));
  CHECK(same(diag(Tensor{1.0f}, -1), {{0.0f, 0.0f}, {1.0f, 0.0f}}));
  CHECK(same(diag(Tensor{true}), {{true}}));
  CHECK(diag(zeros({0}), 2).shape() == Shape{2, 2});
  CHECK(same(diag(Tensor{{1, 2}, {3, 4}}), {1, 4}));
  CHECK(same(diag(diag(Tensor{{1, 2}, {3, 4}}, 1), 1), {{0, 2}, {0, 0}}));
}

TEST_CASE("trace sums the diagonals of the last two axes", "[linalg]") {
  CHECK(same(trace(Tensor{{1.0, 2.0}, {3.0, 4.0}}), Tensor(5.0)));
  CHECK(same(trace(Tensor{{1.0, 2.0}, {3.0, 4.0}}, 1), Tensor(2.0)));
  CHECK(same(trace(reshape(arange(8), {2, 2, 2})), from_vector(std::vector<std::int64_t>{3, 11})));
  CHECK(same(trace(zeros({0, 3})), Tensor(0.0f)));
  CHECK(trace(Tensor{{1, 2}, {3, 4}}).dtype() == DType::int64);
}

TEST_CASE("outer, vecdot, kron and cross agree with NumPy's manual", "[linalg]") {
  CHECK(same(outer(Tensor{1, 2}, Tensor{3, 4, 5}), {{3, 4, 5}, {6, 8, 10}}));
  CHECK(outer(zeros({0}), ones({2})).shape() == Shape{0, 2});

  const Tensor v = {{0.0, 5.0, 0.0}, {0.0, 0.0, 10.0}, {0.0, 6.0, 8.0}};
  CHECK(close(vecdot(v, Tensor{0.0, 0.6, 0.8}), {3.0, 8.0, 10.0}, tolerance::roundings64));
  CHECK(same(vecdot(Tensor{{1, 2}, {3, 4}}, Tensor{{5, 6}, {7, 8}}, 0), {26, 44}));  // stays int32
  CHECK(same(vecdot(Tensor{{1, 2}, {3, 4}}, Tensor{{5, 6}, {7, 8}}), {17, 53}));
  const Tensor half = Tensor{300.0f, -300.0f}.to(DType::float16);
  CHECK(number(vecdot(half, abs(half))) == 0);  // 90000 - 90000, though 90000 is beyond float16
  CHECK(vecdot(half, half).dtype() == DType::float16);

  CHECK(same(kron(Tensor{1, 10, 100}, Tensor{5, 6, 7}), {5, 6, 7, 50, 60, 70, 500, 600, 700}));
  CHECK(same(kron(Tensor{5, 6, 7}, Tensor{1, 10, 100}), {5, 50, 500, 6, 60, 600, 7, 70, 700}));
  CHECK(same(kron(eye(2), ones({2, 2})),
             {{1.0f, 1.0f, 0.0f, 0.0f}, {1.0f, 1.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 1.0f, 1.0f}, {0.0f, 0.0f, 1.0f, 1.0f}}));
  CHECK(same(kron(Tensor{{1}, {2}}, Tensor{3, 4}), {{3, 4}, {6, 8}}));  // [2, 1] with [1, 2]
  CHECK(kron(zeros({2, 0}), zeros({3, 4})).shape() == Shape{6, 0});
  CHECK(kron(zeros({2, 5, 2, 3}), zeros({2, 3, 6, 7})).shape() == Shape{4, 15, 12, 21});

  CHECK(same(cross(Tensor{1, 2, 3}, Tensor{4, 5, 6}), {-3, 6, -3}));
  CHECK(same(cross(Tensor{{1, 2, 3}, {4, 5, 6}}, Tensor{{4, 5, 6}, {1, 2, 3}}), {{-3, 6, -3}, {3, -6, 3}}));
  CHECK(same(cross(Tensor{{1}, {2}, {3}}, Tensor{{4}, {5}, {6}}, 0), {{-3}, {6}, {-3}}));
  CHECK(same(cross(Tensor{1, 2, 3}, Tensor{{4, 5, 6}, {1, 2, 3}}), {{-3, 6, -3}, {0, 0, 0}}));  // broadcasts
}

TEST_CASE("powers of matrices", "[linalg]") {
  const Tensor i = {{0.0, 1.0}, {-1.0, 0.0}};  // a quarter turn, as in NumPy's manual
  CHECK(same(matrix_power(i, 3), {{0.0, -1.0}, {1.0, 0.0}}));
  CHECK(same(matrix_power(i, 0), {{1.0, 0.0}, {0.0, 1.0}}));
  CHECK(close(matrix_power(i, -3), i, tolerance::roundings64));
  const Tensor x = random_in(-1, 1, {3, 4, 4}, DType::float64, 231);
  CHECK(close(matrix_power(x, 7), matmul(matmul(matmul(x, x), matmul(x, x)), matmul(matmul(x, x), x)),
              tolerance::product64));
  CHECK(same(matrix_power(x, 0)[2], eye(4, 4, {.dtype = DType::float64})));
  CHECK(matrix_power(zeros({0, 0}), 5).shape() == Shape{0, 0});
}

TEST_CASE("vector norms have the values of NumPy's manual", "[linalg]") {
  const Tensor a = cast(arange(9), DType::float64) - 4;
  CHECK(close(vector_norm(a), Tensor(7.745966692414834), tolerance::roundings64));
  CHECK(same(vector_norm(a, kInfinity), Tensor(4.0)));
  CHECK(same(vector_norm(a, -kInfinity), Tensor(0.0)));
  CHECK(same(vector_norm(a, 1), Tensor(20.0)));
  CHECK(same(vector_norm(a, -1), Tensor(0.0)));
  CHECK(same(vector_norm(a, -2), Tensor(0.0)));
  CHECK(close(vector_norm(a, 3), Tensor(5.8480354764257312), tolerance::roundings64));
  CHECK(same(vector_norm(a, 0), Tensor(8.0)));

  const Tensor c = {{1.0, 2.0, 3.0}, {-1.0, 1.0, 4.0}};
  CHECK(close(vector_norm(c, 2, 0), {1.41421356237309504, 2.23606797749978969, 5.0}, tolerance::roundings64));
  CHECK(close(vector_norm(c, 2, 1), {3.74165738677394138, 4.24264068711928514}, tolerance::roundings64));
  CHECK(same(vector_norm(c, 1, -1), {6.0, 6.0}));
  CHECK(vector_norm(c, 2, {}, {.keepdims = true}).shape() == Shape{1, 1});
  CHECK(vector_norm(c, 3, 0, {.keepdims = true}).shape() == Shape{1, 3});
  CHECK(same(vector_norm(zeros({0, 2}), 2, 0), {0.0f, 0.0f}));
  CHECK(std::isnan(number(vector_norm(Tensor{1.0, kNaN}))));
  CHECK(number(vector_norm(Tensor{3.0, 4.0}.to(DType::float16))) == 5);
  CHECK(vector_norm(ones({300, 300}, {.dtype = DType::float16})).dtype() == DType::float16);
  CHECK(number(vector_norm(ones({300, 300}, {.dtype = DType::float16}))) == 300);  // 90000 is beyond float16
}

TEST_CASE("norms over any axes are the root of the squares' sum in float64, which float32 need not hold", "[linalg]") {
  CHECK(close(vector_norm(Tensor{3e30f, 4e30f}), Tensor(5e30f), tolerance::roundings32));
  CHECK(close(vector_norm(Tensor{{3e-30f}, {4e-30f}}, 2, 0), {5e-30f}, tolerance::roundings32));
  CHECK(number(vector_norm(Tensor{kInfinity, 1.0})) == kInfinity);
  for (const DType type : {DType::float32, DType::float64})
    for (const Shape& shape : {Shape{3, 70'000}, Shape{70'000, 3}, Shape{1030, 300}, Shape{5, 37, 130}, Shape{0, 4}})
      for (const bool turned : {false, true}) {
        const Tensor x = turned ? strided(random_in(-2, 2, shape, type, 3)) : random_in(-2, 2, shape, type, 3);
        const int last = shape.rank() - 1;
        for (const Axes& axes : {Axes(0), Axes(last), Axes{0, last}, Axes()}) {
          INFO(to_string(shape) << " of " << capstan::name(type) << (turned ? ", strided" : ""));
          const Tensor expected = sqrt(sum(square(x.to(DType::float64)), axes)).to(type);
          CHECK(close(vector_norm(x, 2, axes), expected,
                      type == DType::float64 ? tolerance::roundings64 : tolerance::roundings32));
        }
      }
}

TEST_CASE("matrix norms have the values of NumPy's manual", "[linalg]") {
  const Tensor b = reshape(cast(arange(9), DType::float64) - 4, {3, 3});
  CHECK(close(matrix_norm(b), Tensor(7.745966692414834), tolerance::roundings64));
  CHECK(same(matrix_norm(b, MatrixNorm::infinity), Tensor(9.0)));
  CHECK(same(matrix_norm(b, MatrixNorm::minus_infinity), Tensor(2.0)));
  CHECK(same(matrix_norm(b, MatrixNorm::one), Tensor(7.0)));
  CHECK(same(matrix_norm(b, MatrixNorm::minus_one), Tensor(6.0)));
  CHECK(close(matrix_norm(b, MatrixNorm::two), Tensor(7.3484692283495345), tolerance::roundings64));
  CHECK(std::fabs(number(matrix_norm(b, MatrixNorm::minus_two))) <= tolerance::roundings64);  // 0: the rank is 2
  // its singular values are sqrt(54), sqrt(6) and 0
  CHECK(close(matrix_norm(b, MatrixNorm::nuclear), Tensor(std::sqrt(54) + std::sqrt(6)), tolerance::roundings64));
  CHECK(matrix_norm(stack({b, b}), MatrixNorm::one, {.keepdims = true}).shape() == Shape{2, 1, 1});
  CHECK(same(matrix_norm(stack({b, -b}), MatrixNorm::infinity), {9.0, 9.0}));
  CHECK(same(matrix_norm(zeros({2, 0, 3})), {0.0f, 0.0f}));
  CHECK(same(matrix_norm(zeros({2, 0, 3}), MatrixNorm::nuclear), {0.0f, 0.0f}));
}
