// Systems of equations and decompositions: known values, and that the parts make up the whole again.
#include "tests/support.hpp"

#include <algorithm>
#include <cmath>

using namespace capstan;
using namespace tests;

namespace {

const DType real_types[] = {DType::float32, DType::float64};
double allowed(DType type) { return type == DType::float64 ? tolerance::decomposition64 : tolerance::decomposition32; }

Tensor identity(std::int64_t n, DType type) { return eye(n, n, {.dtype = type}); }
Tensor noise(const Shape& shape, DType type, std::uint64_t seed) { return random_in(-1, 1, shape, type, seed); }
/// Well away from singular.
Tensor regular(const Shape& shape, DType type, std::uint64_t seed) {
  const std::int64_t n = shape[shape.rank() - 1];
  return noise(shape, type, seed) + identity(n, type) * static_cast<double>(n);
}
Tensor turned(const Tensor& x) { return transpose(x, -1, -2); }
Tensor symmetric(const Shape& shape, DType type, std::uint64_t seed) {
  const Tensor x = noise(shape, type, seed);
  return x + turned(x);
}
Tensor positive(const Shape& shape, DType type, std::uint64_t seed) {
  const Tensor x = noise(shape, type, seed);
  return matmul(x, turned(x)) + identity(shape[shape.rank() - 1], type);
}

bool orthonormal_columns(const Tensor& q) {
  const Tensor product = matmul(turned(q), q);
  return close(product, broadcast_to(identity(q.size(-1), q.dtype()), product.shape()), allowed(q.dtype()));
}
bool descending(const Tensor& s) {
  const std::int64_t k = s.size(-1);
  return k < 2 || all_of(narrow(s, -1, 0, k - 1) >= narrow(s, -1, 1, k - 1)).item<bool>();
}
bool all_nan(const Tensor& x) { return all_of(not_equal(x, x)).item<bool>(); }

// Square, then tall, then wide; with batches, and with nothing in them.
const Shape square_shapes[] = {{1, 1}, {2, 2}, {5, 5}, {33, 33}, {4, 3, 3}, {2, 3, 6, 6}, {0, 0}, {0, 3, 3}, {2, 0, 0}};
const Shape all_shapes[] = {{1, 1},       {5, 5}, {7, 3},    {3, 7},    {40, 11},  {11, 40}, {6, 4, 2},
                            {2, 3, 3, 5}, {0, 0}, {0, 4, 2}, {3, 0, 2}, {3, 2, 0}, {1, 6},   {6, 1}};

}  // namespace

TEST_CASE("solve has the value of NumPy's manual, and solves", "[linalg]") {
  CHECK(close(solve(Tensor{{1.0, 2.0}, {3.0, 5.0}}, Tensor{1.0, 2.0}), {-1.0, 1.0}, tolerance::roundings64));
  for (const DType type : real_types)
    for (const Shape& shape : square_shapes)
      for (const bool strides : {false, true}) {
        INFO(to_string(shape) << " " << name(type) << (strides ? " strided" : ""));
        const std::int64_t n = shape[shape.rank() - 1];
        const Tensor a = strides ? strided(regular(shape, type, 241)) : regular(shape, type, 241);
        const Tensor b = noise({n, 3}, type, 242), v = noise({n}, type, 243);
        const Tensor x = solve(a, b), y = solve(a, v);
        CHECK(close(matmul(a, x), broadcast_to(b, x.shape()), allowed(type)));
        CHECK(close(squeeze(matmul(a, expand_dims(y, -1)), -1), broadcast_to(v, y.shape()), allowed(type)));
        CHECK(y.rank() == shape.rank() - 1);
        CHECK(x.dtype() == type);
      }
}

TEST_CASE("solve broadcasts the leading axes of both sides", "[linalg]") {
  const Tensor a = regular({4, 1, 3, 3}, DType::float64, 244), b = noise({5, 3, 2}, DType::float64, 245);
  const Tensor x = solve(a, b);
  REQUIRE(x.shape() == Shape{4, 5, 3, 2});
  for (std::int64_t i = 0; i < 4; ++i)
    for (std::int64_t j = 0; j < 5; ++j) CHECK(close(x[i][j], solve(a[i][0], b[j]), tolerance::decomposition64));
  CHECK(solve(a, noise({3}, DType::float64, 246)).shape() == Shape{4, 1, 3});
  CHECK(solve(eye(3), zeros({3, 0})).shape() == Shape{3, 0});
}

TEST_CASE("triangular systems read one triangle alone", "[linalg]") {
  for (const DType type : real_types)
    for (const Shape& shape : square_shapes)
      for (const bool upper : {false, true})
        for (const bool unit : {false, true}) {
          INFO(to_string(shape) << " " << name(type) << (upper ? " upper" : " lower") << (unit ? " unit" : ""));
          const std::int64_t n = shape[shape.rank() - 1];
          // small beside the diagonal: a unit diagonal makes a far worse matrix of large ones
          const Tensor full = noise(shape, type, 247) * 0.1 + identity(n, type) * 2;
          const Tensor b = noise({n, 2}, type, 248);
          Tensor triangle = upper ? triu(full) : tril(full);
          if (unit) triangle = triangle * (1 - identity(n, type)) + identity(n, type);
          const Tensor x = solve_triangular(full, b, {.upper = upper, .unit_diagonal = unit});
          CHECK(close(matmul(triangle, x), broadcast_to(b, x.shape()), allowed(type)));
        }
  CHECK(close(solve_triangular(Tensor{{2.0, 0.0}, {1.0, 4.0}}, Tensor{2.0, 9.0}), {1.0, 2.0}, tolerance::roundings64));
  const Tensor unread = {{2.0, kNaN}, {1.0, 4.0}};
  CHECK(close(solve_triangular(unread, Tensor{2.0, 9.0}), {1.0, 2.0}, tolerance::roundings64));
}

TEST_CASE("inverse has the value of NumPy's manual, and inverts", "[linalg]") {
  CHECK(close(inverse(Tensor{{1.0, 2.0}, {3.0, 4.0}}), {{-2.0, 1.0}, {1.5, -0.5}}, tolerance::roundings64));
  for (const DType type : real_types)
    for (const Shape& shape : square_shapes) {
      INFO(to_string(shape) << " " << name(type));
      const Tensor a = regular(shape, type, 251), y = inverse(strided(a));
      CHECK(close(matmul(a, y), broadcast_to(identity(shape[shape.rank() - 1], type), shape), allowed(type)));
    }
}

TEST_CASE("determinants have the values of NumPy's manual", "[linalg]") {
  CHECK(close(det(Tensor{{1.0, 2.0}, {3.0, 4.0}}), Tensor(-2.0), tolerance::roundings64));
  const Tensor stacked = {{{1.0, 2.0}, {3.0, 4.0}}, {{1.0, 2.0}, {2.0, 1.0}}, {{1.0, 3.0}, {3.0, 1.0}}};
  CHECK(close(det(stacked), {-2.0, -3.0, -8.0}, tolerance::roundings64));
  const auto [sign, logabs] = slogdet(stacked);
  CHECK(same(sign, {-1.0, -1.0, -1.0}));
  CHECK(close(logabs, {0.69314718055994529, 1.09861228866810979, 2.07944154167983593}, tolerance::roundings64));

  CHECK(same(det(zeros({0, 0})), Tensor(1.0f)));
  CHECK(same(det(zeros({2, 0, 0})), {1.0f, 1.0f}));
  CHECK(det(zeros({0, 3, 3})).shape() == Shape{0});
  CHECK(same(det(Tensor{{1.0, 2.0}, {2.0, 4.0}}), Tensor(0.0)));
  const auto [no_sign, minus_infinity] = slogdet(zeros({3, 3}));
  CHECK(same(no_sign, Tensor(0.0f)));
  CHECK(number(minus_infinity) == -kInfinity);
  // 10^-500 is too small for any type, its logarithm is not: NumPy's manual has (1, -1151.2925464970228)
  const Tensor small = identity(500, DType::float32) * 0.1f;
  CHECK(number(det(small)) == 0);
  CHECK(close(slogdet(small).logabsdet, Tensor(-1151.2925464970228), tolerance::roundings32));
  // what is neither too large nor too small is not lost on the way there
  CHECK(close(det(diag(Tensor{1e200, 1e200, 1e-200, 1e-200})), Tensor(1.0), tolerance::roundings64));
  CHECK(close(det(diag(Tensor{1e-200, 1e-200, 1e200, -1e200})), Tensor(-1.0), tolerance::roundings64));
}

TEST_CASE("the determinant of a product is the product of determinants", "[linalg]") {
  for (const Shape& shape : square_shapes) {
    INFO(to_string(shape));
    const Tensor a = noise(shape, DType::float64, 252), b = noise(shape, DType::float64, 253);
    CHECK(close(det(matmul(a, b)), det(a) * det(b), tolerance::decomposition64));
    const auto [sign, logabs] = slogdet(a);
    CHECK(close(sign * exp(logabs), det(a), tolerance::decomposition64));
  }
}

TEST_CASE("cholesky factors positive definite matrices, and reads one triangle alone", "[linalg]") {
  CHECK(close(cholesky(Tensor{{4.0, 2.0}, {2.0, 3.0}}), {{2.0, 0.0}, {1.0, std::sqrt(2)}}, tolerance::roundings64));
  const Tensor lower = {{4.0, kNaN}, {2.0, 3.0}}, upper = {{4.0, 2.0}, {kNaN, 3.0}};
  CHECK(close(cholesky(lower), {{2.0, 0.0}, {1.0, std::sqrt(2)}}, tolerance::roundings64));
  CHECK(close(cholesky(upper, {.upper = true}), {{2.0, 1.0}, {0.0, std::sqrt(2)}}, tolerance::roundings64));
  for (const DType type : real_types)
    for (const Shape& shape : square_shapes) {
      INFO(to_string(shape) << " " << name(type));
      const Tensor a = positive(shape, type, 254), l = cholesky(a), u = cholesky(a, {.upper = true});
      CHECK(close(matmul(l, turned(l)), a, allowed(type)));
      CHECK(close(matmul(turned(u), u), a, allowed(type)));
      CHECK(same(l, tril(l)));
    }
}

TEST_CASE("qr gives orthonormal columns and an upper triangle, in both modes", "[linalg]") {
  for (const DType type : real_types)
    for (const Shape& shape : all_shapes)
      for (const QrMode mode : {QrMode::reduced, QrMode::complete}) {
        INFO(to_string(shape) << " " << name(type) << (mode == QrMode::reduced ? " reduced" : " complete"));
        const Tensor a = noise(shape, type, 255);
        const auto [q, r] = qr(a, mode);
        const std::int64_t m = a.size(-2), n = a.size(-1), k = mode == QrMode::complete ? m : std::min(m, n);
        CHECK(q.size(-2) == m);
        CHECK(q.size(-1) == k);
        CHECK(r.size(-2) == k);
        CHECK(r.size(-1) == n);
        CHECK(orthonormal_columns(q));
        CHECK(close(matmul(q, r), a, allowed(type)));
        CHECK(same(r, triu(r)));
      }
}

TEST_CASE("qr keeps LAPACK's signs", "[linalg]") {
  // one reflection sends (3, 4) to (-5, 0): the diagonal of r is negative
  const auto [q, r] = qr(Tensor{{3.0}, {4.0}});
  CHECK(close(r, {{-5.0}}, tolerance::roundings64));
  CHECK(close(q, {{-0.6}, {-0.8}}, tolerance::roundings64));
}

TEST_CASE("singular values and vectors make up the matrix", "[linalg]") {
  for (const DType type : real_types)
    for (const Shape& shape : all_shapes) {
      INFO(to_string(shape) << " " << name(type));
      const Tensor a = noise(shape, type, 256);
      const std::int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
      const auto [u, s, vh] = svd(a);
      CHECK(u.size(-1) == m);
      CHECK(vh.size(-2) == n);
      CHECK(s.size(-1) == k);
      CHECK(orthonormal_columns(u));
      CHECK(orthonormal_columns(turned(vh)));
      CHECK(descending(s));
      const SvdResult thin = svd(strided(a), {.full_matrices = false});
      CHECK(thin.u.size(-1) == k);
      CHECK(orthonormal_columns(thin.u));
      CHECK(close(matmul(thin.u * expand_dims(thin.s, -2), thin.vh), a, allowed(type)));
      CHECK(close(thin.s, s, allowed(type)));
      CHECK(close(svdvals(a), s, allowed(type)));
    }
  CHECK(close(svdvals(Tensor{{3.0, 0.0}, {0.0, -2.0}}), {3.0, 2.0}, tolerance::roundings64));
  CHECK(same(svd(zeros({0, 3})).vh, eye(3)));  // as NumPy's
}

TEST_CASE("eigenvalues and eigenvectors make up the matrix", "[linalg]") {
  CHECK(close(eigvalsh(Tensor{{2.0, 1.0}, {1.0, 2.0}}), {1.0, 3.0}, tolerance::roundings64));
  CHECK(close(eigvalsh(Tensor{{2.0, kNaN}, {1.0, 2.0}}), {1.0, 3.0}, tolerance::roundings64));  // the lower triangle
  for (const DType type : real_types)
    for (const Shape& shape : square_shapes) {
      INFO(to_string(shape) << " " << name(type));
      const Tensor a = symmetric(shape, type, 257);
      const auto [w, v] = eigh(a);
      CHECK(orthonormal_columns(v));
      CHECK(close(matmul(v * expand_dims(w, -2), turned(v)), a, allowed(type)));
      CHECK(descending(-w));
      CHECK(close(eigvalsh(strided(a)), w, allowed(type)));
    }
}

TEST_CASE("lstsq fits the line of NumPy's manual", "[linalg]") {
  const Tensor a = {{0.0, 1.0}, {1.0, 1.0}, {2.0, 1.0}, {3.0, 1.0}}, b = {-1.0, 0.2, 0.9, 2.1};
  const LstsqResult fit = lstsq(a, b);
  CHECK(close(fit.solution, {1.0, -0.95}, tolerance::decomposition64));
  CHECK(close(fit.residuals, {0.05}, tolerance::decomposition64));
  CHECK(fit.rank.item<std::int64_t>() == 2);
  CHECK(close(fit.singular_values, svdvals(a), tolerance::decomposition64));

  const Tensor deficient = {{1.0, 2.0}, {2.0, 4.0}, {3.0, 6.0}};  // the shortest solution lies along (1, 2)
  const LstsqResult shortest = lstsq(deficient, Tensor{5.0, 10.0, 15.0}, 1e-10);
  CHECK(close(shortest.solution, {1.0, 2.0}, tolerance::decomposition64));
  CHECK(shortest.residuals.shape() == Shape{0});
  CHECK(shortest.rank.item<std::int64_t>() == 1);
  const Tensor thin = identity(2, DType::float64) * Tensor{1.0, 0.01};
  CHECK(lstsq(thin, Tensor{1.0, 1.0}, 0.1).rank.item<std::int64_t>() == 1);
}

TEST_CASE("lstsq gives residuals beside a matrix that is not finite", "[linalg]") {
  const Tensor a = noise({3, 5, 2}, DType::float64, 266), b = noise({5, 2}, DType::float64, 267);
  Tensor broken = a.copy();
  broken.index_put({1, 4, 0}, kNaN);
  const LstsqResult whole = lstsq(a, b), fit = lstsq(broken, b);
  REQUIRE(fit.residuals.shape() == Shape{3, 2});
  CHECK(all_nan(fit.residuals[1]));
  CHECK(same(fit.residuals[0], whole.residuals[0]));
  CHECK(same(fit.residuals[2], whole.residuals[2]));
  CHECK(same(fit.rank, from_vector(std::vector<std::int64_t>{2, 0, 2})));
}

TEST_CASE("lstsq is the pseudoinverse times the right side, for every shape", "[linalg]") {
  for (const DType type : real_types)
    for (const Shape& shape : all_shapes) {
      INFO(to_string(shape) << " " << name(type));
      const Tensor a = noise(shape, type, 258), b = noise({a.size(-2), 2}, type, 259);
      const LstsqResult fit = lstsq(a, b);
      CHECK(close(fit.solution, matmul(pinv(a), b), allowed(type)));
      CHECK(fit.rank.dtype() == DType::int64);
      CHECK(same(fit.rank, full_like(fit.rank, std::min(a.size(-2), a.size(-1)))));
      CHECK(lstsq(a, narrow(b, 1, 0, 0)).solution.size(-1) == 0);
    }
}

TEST_CASE("pinv fulfils Moore's and Penrose's four conditions", "[linalg]") {
  CHECK(close(pinv(Tensor{{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}}),
              {{-4 / 3.0, -1 / 3.0, 2 / 3.0}, {13 / 12.0, 1 / 3.0, -5 / 12.0}}, tolerance::decomposition64));
  for (const Shape& shape : all_shapes) {
    INFO(to_string(shape));
    const Tensor x = noise(shape, DType::float64, 260), p = pinv(x);
    const Tensor xp = matmul(x, p), px = matmul(p, x);
    CHECK(close(matmul(xp, x), x, tolerance::decomposition64));
    CHECK(close(matmul(px, p), p, tolerance::decomposition64));
    CHECK(close(turned(xp), xp, tolerance::decomposition64));
    CHECK(close(turned(px), px, tolerance::decomposition64));
  }
  CHECK(same(pinv(zeros({2, 3})), zeros({3, 2})));
}

TEST_CASE("matrix_rank counts singular values that are not small", "[linalg]") {
  const Tensor i = identity(4, DType::float64);
  CHECK(matrix_rank(i).item<std::int64_t>() == 4);
  CHECK(matrix_rank(i * Tensor{1.0, 1.0, 1.0, 0.0}).item<std::int64_t>() == 3);
  CHECK(matrix_rank(i * Tensor{1.0, 1.0, 1.0, 0.01}, 0.1).item<std::int64_t>() == 3);
  CHECK(same(matrix_rank(stack({i, i * 0.0, ones_like(i)})), from_vector(std::vector<std::int64_t>{4, 0, 1})));
  CHECK(same(matrix_rank(zeros({2, 0, 3})), from_vector(std::vector<std::int64_t>{0, 0})));
}

TEST_CASE("a matrix that is not finite gives NaN, and the others of its batch do not notice", "[linalg]") {
  for (const double bad : {kNaN, kInfinity, -kInfinity})
    for (const DType type : real_types) {
      Tensor batch = positive({3, 4, 4}, type, 261);
      const Tensor good = batch.copy();
      batch.index_put({1, 2, 1}, bad);
      const Tensor b = ones({4, 2}, {.dtype = type});
      const auto results = [&](const Tensor& x) {
        const SvdResult parts = svd(x);
        return std::vector<Tensor>{solve(x, b),
                                   inverse(x),
                                   det(x),
                                   slogdet(x).sign,
                                   slogdet(x).logabsdet,
                                   cholesky(x),
                                   qr(x).q,
                                   qr(x).r,
                                   parts.u,
                                   parts.s,
                                   parts.vh,
                                   svdvals(x),
                                   eigvalsh(x),
                                   eigh(x).eigenvectors,
                                   lstsq(x, b).solution,
                                   pinv(x)};
      };
      const std::vector<Tensor> broken = results(batch), whole = results(good);
      for (std::size_t i = 0; i < broken.size(); ++i) {
        INFO("result " << i << " with " << bad << " in " << name(type));
        CHECK(all_nan(broken[i][1]));
        CHECK(same(broken[i][0], whole[i][0]));
        CHECK(same(broken[i][2], whole[i][2]));
      }
    }
}

TEST_CASE("eigenvalues do not notice what was computed before them", "[linalg]") {
  for (const DType type : real_types)
    for (std::int64_t n = 1; n <= 40; ++n) {
      INFO(n << " rows, " << name(type));
      const Tensor x = positive({n, n}, type, 263), before = eigvalsh(x);
      solve_triangular(full({80, 80}, kNaN, {.dtype = type}),
                       ones({80, 5}, {.dtype = type}));  // OpenBLAS's memory is NaN
      CHECK(same(eigvalsh(x), before));
      CHECK(all_of(isfinite(eigh(x).eigenvectors)).item<bool>());
    }
}

TEST_CASE("16-bit matrices are computed in float32 and keep their type", "[linalg]") {
  const Tensor wide = positive({3, 3}, DType::float32, 262).to(DType::float16).to(DType::float32);
  const Tensor half = wide.to(DType::float16);
  const auto rounded = [](const Tensor& x) { return x.to(DType::float16); };
  CHECK(same(inverse(half), rounded(inverse(wide))));
  CHECK(same(solve(half, half[0]), rounded(solve(wide, wide[0]))));
  CHECK(same(det(half), rounded(det(wide))));
  CHECK(same(slogdet(half).logabsdet, rounded(slogdet(wide).logabsdet)));
  CHECK(same(cholesky(half), rounded(cholesky(wide))));
  CHECK(same(qr(half).q, rounded(qr(wide).q)));
  CHECK(same(svdvals(half), rounded(svdvals(wide))));
  CHECK(same(eigh(half).eigenvectors, rounded(eigh(wide).eigenvectors)));
  CHECK(same(pinv(half), rounded(pinv(wide))));
  CHECK(same(lstsq(half, half[0]).solution, rounded(lstsq(wide, wide[0]).solution)));
  CHECK(solve(half, wide[0]).dtype() == DType::float32);
}

TEST_CASE("decompositions of batches do not depend on the number of threads", "[linalg][threads]") {
  const Tensor a = positive({60, 24, 24}, DType::float32, 263), b = noise({60, 24, 3}, DType::float32, 264);
  const auto results = [&] {
    const SvdResult parts = svd(a);
    const EighResult eigen = eigh(a);
    return std::vector<Tensor>{solve(a, b),
                               inverse(a),
                               det(a),
                               cholesky(a),
                               qr(a).q,
                               parts.u,
                               parts.s,
                               parts.vh,
                               svdvals(a),
                               eigen.eigenvalues,
                               eigen.eigenvectors,
                               lstsq(a, b).solution,
                               solve_triangular(a, b)};
  };
  std::vector<Tensor> one;
  {
    const ThreadCount single(1);
    one = results();
  }
  for (const int count : {2, 5}) {
    const ThreadCount several(count);
    const std::vector<Tensor> more = results();
    for (std::size_t i = 0; i < one.size(); ++i) {
      INFO("result " << i << " with " << count << " threads");
      CHECK(same_bits(values(more[i]), values(one[i])));
    }
  }
}

TEST_CASE("gradients stay finite where values coincide or vanish", "[linalg][gradient]") {
  const auto slope = [](const Tensor& x, Tensor (*f)(const Tensor&)) {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(f(x), x);
  };
  const Tensor i = identity(3, DType::float64), equal_rows = ones({3, 3}, {.dtype = DType::float64});
  // the sum of all eigenvalues is the trace, that of singular values near the identity too
  CHECK(close(slope(i, [](const Tensor& x) { return eigvalsh(x); }), i, tolerance::decomposition64));
  CHECK(close(slope(i, [](const Tensor& x) { return svdvals(x); }), i, tolerance::decomposition64));
  CHECK(close(slope(i, [](const Tensor& x) { return matrix_norm(x, MatrixNorm::nuclear); }), i,
              tolerance::decomposition64));
  // every minor of a matrix of rank 1 is 0
  CHECK(close(slope(equal_rows, [](const Tensor& x) { return det(x); }), zeros({3, 3}), tolerance::decomposition64));

  const Tensor some = {0.0, 3.0, -4.0}, nothing = {0.0, 0.0};
  CHECK(close(slope(some, [](const Tensor& x) { return vector_norm(x); }), {0.0, 0.6, -0.8}, tolerance::roundings64));
  CHECK(number(slope(some, [](const Tensor& x) { return vector_norm(x, 1.5); })[0]) == 0);
  CHECK(same(slope(some, [](const Tensor& x) { return vector_norm(x, 1); }), {0.0, 1.0, -1.0}));
  CHECK(same(slope(nothing, [](const Tensor& x) { return vector_norm(x); }), {0.0, 0.0}));
  CHECK(same(slope(nothing, [](const Tensor& x) { return vector_norm(x, 3); }), {0.0, 0.0}));
  CHECK(same(slope(Tensor{1e-39f, 0.0f}, [](const Tensor& x) { return vector_norm(x); }), {1.0f, 0.0f}));
  // (|x|/y)^(order-1), where the power of x alone is infinite
  CHECK(close(slope(Tensor{1e-30f}, [](const Tensor& x) { return vector_norm(x, 0.5); }), {1.0f},
              tolerance::roundings32));
  CHECK(same(slope(Tensor{0.0f, 1e-30f}, [](const Tensor& x) { return vector_norm(x, -1.5); }), {0.0f, 0.0f}));
  CHECK(same(slope(Tensor{-2.0, 1.0, 2.0}, [](const Tensor& x) { return vector_norm(x, kInfinity); }),
             {-0.5, 0.0, 0.5}));  // ties share
}

TEST_CASE("the gradient of cholesky is symmetric though one triangle is read", "[linalg][gradient]") {
  const Tensor x = positive({3, 3}, DType::float64, 265);
  GradientTape tape;
  tape.watch(x);
  const Tensor g = tape.gradient(cholesky(x), x);
  CHECK(close(g, transpose(g), tolerance::roundings64));
}
