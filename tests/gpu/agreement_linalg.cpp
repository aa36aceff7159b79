// Products of matrices, systems of equations and decompositions on a GPU and on the CPU. Vectors whose sign is free are
// compared by what does not depend on it.
#include "tests/gpu/agreement.hpp"

using namespace capstan;

namespace tests {

namespace {

Tensor turned(const Tensor& x) { return transpose(x, -1, -2); }

/// Singular values near 2, 3.5, 5, ...: far from 0 and, of small matrices, from each other.
Tensor regular(const Shape& shape, std::uint64_t seed, double spread = 0.3) {
  const std::int64_t rows = shape[shape.rank() - 2], columns = shape[shape.rank() - 1];
  std::vector<double> list(static_cast<std::size_t>(rows * columns), 0.0);
  for (std::int64_t i = 0; i < rows && i < columns; ++i)
    list[static_cast<std::size_t>(i * columns + i)] = 2 + 1.5 * static_cast<double>(i);
  return noise(shape, seed) * spread + from_vector(list, {rows, columns});
}
/// No gradient is promised for matrices without elements.
Tensor unless_empty(const Tensor& x) { return x.numel() > 0 ? x : stop_gradient(x); }
Tensor positive(const Tensor& x) {
  return matmul(x, turned(x)) + eye(x.size(-2), -1, {.dtype = x.dtype(), .device = x.device()});
}
/// Four matrices, of which the second and the last are not finite, in their lower triangles.
Tensor broken(const Tensor& matrices) {
  const auto size = static_cast<std::size_t>(matrices.numel() / 4), width = static_cast<std::size_t>(matrices.size(-1));
  std::vector<double> list = values(matrices);
  list[size + width] = kNaN;
  list[3 * size] = kInfinity;
  return from_vector(list, matrices.shape());
}

// --- products --------------------------------------------------------------------------------------------------------

void add_products(AgreementCases& cases) {
  struct Product {
    Shape a, b;
  };
  for (const Product& p : {Product{{5}, {5}},
                           Product{{5}, {5, 3}},
                           Product{{4, 5}, {5}},
                           Product{{4, 5}, {5, 3}},
                           Product{{1, 1}, {1, 1}},
                           Product{{1, 5}, {5, 1}},
                           Product{{5, 1}, {1, 4}},
                           Product{{33, 40}, {40, 17}},
                           Product{{3, 4, 5}, {5, 2}},
                           Product{{4, 5}, {3, 5, 2}},
                           Product{{3, 4, 5}, {3, 5, 2}},
                           Product{{3, 4, 5}, {1, 5, 2}},
                           Product{{3, 4, 5}, {5}},
                           Product{{5}, {3, 5, 2}},
                           Product{{6, 1, 5}, {5, 3}},
                           Product{{3, 1, 4, 5}, {2, 5, 2}},
                           Product{{2, 3, 4, 5}, {3, 5, 2}},
                           Product{{5, 1, 8, 8}, {1, 6, 8, 8}},
                           Product{{5, 1, 3, 7}, {6, 7, 3}},
                           Product{{2, 1, 3, 1, 2, 3}, {2, 1, 2, 3, 2}},
                           Product{{3, 0}, {0, 4}},
                           Product{{2, 3, 0}, {0, 4}},
                           Product{{0}, {0}},
                           Product{{0}, {0, 3}},
                           Product{{0, 3}, {3, 4}},
                           Product{{3, 4}, {4, 0}},
                           Product{{0, 2, 3}, {3, 4}},
                           Product{{2, 0, 3}, {2, 3, 4}}})
    cases.push_back({"product of " + to_string(p.a) + " and " + to_string(p.b),
                     {"matmul"},
                     {noise(p.a, 1), noise(p.b, 2)},
                     [](const Tensors& in) { return Tensors{matmul(in[0], in[1])}; },
                     Nearness::summed});
}

void add_products_of_views(AgreementCases& cases) {
  cases.push_back({"products of views",
                   {"matmul", "copy"},
                   {noise({6, 8}, 3), noise({8, 6}, 4)},
                   [](const Tensors& in) {
                     const Tensor &a = in[0], &b = in[1];
                     return Tensors{matmul(turned(b), turned(a)),
                                    matmul(a, turned(a)),
                                    matmul(turned(a), a),
                                    matmul(narrow(a, 1, 2, 5), narrow(b, 0, 2, 5)),
                                    matmul(narrow(a, 0, 1, 3), narrow(b, 1, 1, 3)),
                                    matmul(a.index({all, from(0, 2)}), b.index({from(1, 2)})),
                                    matmul(flip(a), flip(b)),
                                    matmul(broadcast_to(a[2], {4, 8}), b),
                                    matmul(a[1], turned(a)),
                                    matmul(turned(b)[1], b)};
                   },
                   Nearness::summed});
  cases.push_back({"products of batches that are views",
                   {"matmul", "copy"},
                   {noise({4, 3, 8}, 5), noise({5, 8, 4}, 6)},
                   [](const Tensors& in) {
                     const Tensor &a = in[0], &b = in[1];
                     return Tensors{matmul(permute(a, {1, 0, 2}), b[0]),
                                    matmul(permute(a, {1, 2, 0}), turned(b[1])),
                                    matmul(expand_dims(permute(a, {1, 0, 2}), 1), b),
                                    matmul(expand_dims(turned(b), 1), expand_dims(turned(a), 0)),
                                    matmul(broadcast_to(a[0], {5, 3, 8}), b),
                                    matmul(flip(a, {0}), b[2]),
                                    matmul(flip(b, {0}), turned(b))};
                   },
                   Nearness::summed});
  cases.push_back({"products that are added to something",
                   {"matmul", "copy", "accumulate"},
                   {noise({4, 5}, 7), noise({5, 3}, 8), noise({3}, 9), noise({2, 3, 5}, 10), noise({4, 1}, 11)},
                   [](const Tensors& in) {
                     const Tensor &x = in[0], &weight = in[1], &bias = in[2];
                     return Tensors{linear(x, weight, bias),
                                    linear(x, weight, Tensor()),
                                    linear(in[3], weight, bias),
                                    linear(x[0], weight, bias),
                                    linear(turned(weight), turned(x), x.index({all, 0})),
                                    addmm(bias, x, weight),
                                    addmm(in[4], x, weight),
                                    addmm(x, narrow(x, 1, 0, 0), narrow(x, 0, 0, 0))};
                   },
                   Nearness::summed});
}

// --- sums of products ------------------------------------------------------------------------------------------------

void add_sums_of_products(AgreementCases& cases) {
  const std::pair<const char*, std::vector<Shape>> equations[] = {{"ij,jk->ik", {{4, 5}, {5, 3}}},
                                                                  {"bij,bkj->kbi", {{2, 4, 5}, {2, 3, 5}}},
                                                                  {"ij,ij->i", {{4, 5}, {4, 5}}},
                                                                  {"i,j->ji", {{4}, {5}}},
                                                                  {"ii->i", {{4, 4}}},
                                                                  {"iij->j", {{3, 3, 4}}},
                                                                  {"ij->", {{4, 5}}},
                                                                  {"...ij,...jk->...ik", {{2, 1, 3, 4}, {3, 4, 2}}},
                                                                  {"ab,bc,cd->da", {{2, 3}, {3, 4}, {4, 2}}},
                                                                  {"ij,jk->ik", {{2, 0}, {0, 3}}},
                                                                  {"ij,jk->ik", {{2, 1}, {3, 2}}}};
  for (const auto& [equation, shapes] : equations) {
    Tensors inputs;
    for (const Shape& shape : shapes) inputs.push_back(noise(shape, 20 + inputs.size()));
    cases.push_back({"einsum " + std::string(equation),
                     {"matmul"},
                     inputs,
                     [text = std::string(equation)](const Tensors& in) { return Tensors{einsum(text, in)}; },
                     Nearness::summed});
  }
  cases.push_back({"sums over axes of two tensors",
                   {"matmul"},
                   {noise({2, 3, 4}, 25), noise({4, 3, 2}, 26), noise({3}, 27), noise({}, 28)},
                   [](const Tensors& in) {
                     const Tensor &a = in[0], &b = in[1], &v = in[2];
                     return Tensors{
                         tensordot(a, b, {1, 2}, {1, 0}), tensordot(a, b, 1), tensordot(v, v, 0),           dot(v, v),
                         dot(a[0], b.index({all, 0})),    dot(in[3], v),      dot(permute(a, {0, 2, 1}), v)};
                   },
                   Nearness::summed});
  cases.push_back({"products of vectors",
                   {"binary", "reduce"},
                   {random_in(-5, 6, {4, 3}, DType::float64, 29), random_in(-5, 6, {4, 3}, DType::float64, 30)},
                   [](const Tensors& in) {
                     const Tensor &a = in[0], &b = in[1];
                     return Tensors{vecdot(a, b), vecdot(a, b, 0), vecdot(a[1], b), outer(a[0], b.index({all, 1})),
                                    kron(a, b),   kron(a[2], b),   cross(a, b),     cross(a[3], b),
                                    trace(a),     trace(b, -1),    trace(a, 5)};
                   },
                   Nearness::summed,
                   Types::numbers});
}

// --- norms and powers ------------------------------------------------------------------------------------------------

void add_norms(AgreementCases& cases) {
  const Tensor x = where(noise({3, 4, 5}, 32) > 0, noise({3, 4, 5}, 31) + 1.5, noise({3, 4, 5}, 31) - 1.5);
  cases.push_back({"norms of vectors",
                   {"reduce"},
                   {x},
                   [](const Tensors& in) {
                     const Tensor& y = in[0];
                     return Tensors{vector_norm(y),
                                    vector_norm(y, 1, 1),
                                    vector_norm(y, 2, {0, 2}, {.keepdims = true}),
                                    vector_norm(y, kInfinity, 0),
                                    vector_norm(y, -kInfinity),
                                    vector_norm(y, 0, 2)};
                   },
                   Nearness::summed});
  cases.push_back({"norms of many vectors",
                   {"reduce"},
                   {noise({300, 70}, 34), noise({70'000}, 35)},
                   [](const Tensors& in) {
                     return Tensors{vector_norm(in[0], 2, 0), vector_norm(in[0], 2, 1), vector_norm(in[1])};
                   },
                   Nearness::summed});
  cases.push_back({"norms of any order",
                   {"reduce", "parametric"},
                   {x},
                   [](const Tensors& in) {
                     const Tensor& y = in[0];
                     return Tensors{vector_norm(y, 3), vector_norm(y, 0.5, 1), vector_norm(y, -1.5, {0, 2})};
                   },
                   Nearness::summed,
                   Types::wide});
  cases.push_back({"norms of matrices",
                   {"svd", "reduce"},
                   {regular({2, 3, 4}, 33)},
                   [](const Tensors& in) {
                     Tensors results;
                     for (const MatrixNorm order :
                          {MatrixNorm::frobenius, MatrixNorm::nuclear, MatrixNorm::one, MatrixNorm::minus_one,
                           MatrixNorm::two, MatrixNorm::minus_two, MatrixNorm::infinity, MatrixNorm::minus_infinity})
                       results.push_back(matrix_norm(in[0], order));
                     return results;
                   },
                   Nearness::decomposed,
                   Types::wide});
  for (const std::int64_t n : {0, 1, 2, 5, -2})
    cases.push_back({"matrices to the power " + std::to_string(n),
                     n < 0 ? std::vector<std::string>{"solve", "matmul"} : std::vector<std::string>{"matmul"},
                     {noise({2, 3, 3}, 34) * 0.3 + eye(3, 3, {.dtype = DType::float64, .device = cpu()})},
                     [n](const Tensors& in) { return Tensors{matrix_power(in[0], n)}; },
                     Nearness::decomposed,
                     Types::wide});
}

// --- systems of equations --------------------------------------------------------------------------------------------

void add_systems(AgreementCases& cases) {
  struct System {
    Shape a, b;
  };
  for (const System& s : {System{{1, 1}, {1, 1}}, System{{4, 4}, {4}}, System{{4, 4}, {4, 3}},
                          System{{3, 4, 4}, {3, 4, 2}}, System{{4, 4}, {3, 4, 2}}, System{{1, 4, 4}, {3, 4, 2}},
                          System{{3, 4, 4}, {4, 2}}, System{{2, 1, 4, 4}, {3, 4, 1}}, System{{40, 40}, {40, 3}},
                          System{{0, 0}, {0, 2}}, System{{0, 4, 4}, {0, 4, 2}}, System{{4, 4}, {4, 0}}}) {
    const std::string text = to_string(s.a) + " and " + to_string(s.b);
    cases.push_back({"solution of " + text,
                     {"solve"},
                     {regular(s.a, 40), noise(s.b, 41)},
                     [](const Tensors& in) { return Tensors{solve(in[0], in[1])}; },
                     Nearness::decomposed,
                     Types::wide});
    cases.push_back({"solution of triangles " + text,
                     {"solve_triangular", "triangle"},
                     {regular(s.a, 42), noise(s.b, 43)},
                     [](const Tensors& in) {
                       return Tensors{solve_triangular(in[0], in[1]), solve_triangular(in[0], in[1], {.upper = true}),
                                      solve_triangular(in[0], in[1], {.unit_diagonal = true}),
                                      solve_triangular(in[0], in[1], {.upper = true, .unit_diagonal = true})};
                     },
                     Nearness::decomposed,
                     Types::wide});
  }
  cases.push_back(
      {"solutions where operands are views",
       {"solve", "solve_triangular"},
       {regular({3, 4, 4}, 44), noise({3, 2, 4}, 45)},
       [](const Tensors& in) {
         const Tensor &a = in[0], &b = in[1];
         return Tensors{solve(turned(a), turned(b)),
                        solve(broadcast_to(a[0], {3, 4, 4}), turned(b)),
                        solve(flip(a), turned(flip(b))),
                        solve(narrow(a, 0, 1, 2).index({all, range(1, 4), range(1, 4)}), b[0][0].index({range(1, 4)})),
                        solve_triangular(turned(a), turned(b)),
                        solve_triangular(turned(a), turned(b), {.upper = true}),
                        solve_triangular(a.index({all, range(0, 3), range(0, 3)}), turned(b).index({all, range(0, 3)})),
                        solve_triangular(broadcast_to(a[1], {3, 4, 4}), turned(b), {.upper = true}),
                        solve_triangular(flip(a), turned(b), {.unit_diagonal = true})};
       },
       Nearness::decomposed,
       Types::wide});
  cases.push_back({"solutions of large systems one by one",
                   {"solve", "solve_triangular", "cholesky", "determinant"},
                   {regular({2, 130, 130}, 46, 0.03), noise({2, 130, 2}, 47)},
                   [](const Tensors& in) {
                     const NoGrad off;
                     const Tensor &a = in[0], &b = in[1];
                     const SlogdetResult logs = slogdet(a);
                     return Tensors{solve(a, b), solve_triangular(a, b), cholesky((a + turned(a)) * 0.5), logs.sign,
                                    logs.logabsdet};
                   },
                   Nearness::decomposed,
                   Types::wide});
}

void add_inverses(AgreementCases& cases) {
  for (const Shape& shape :
       {Shape{1, 1}, Shape{4, 4}, Shape{3, 5, 5}, Shape{2, 1, 3, 3}, Shape{0, 0}, Shape{3, 0, 0}, Shape{0, 3, 3}}) {
    cases.push_back({"inverses and determinants of " + to_string(shape),
                     {"solve", "determinant"},
                     {regular(shape, 50) * sign(noise({shape[shape.rank() - 1]}, 51))},
                     [](const Tensors& in) {
                       const Tensor& x = in[0];
                       const SlogdetResult logs = slogdet(x);
                       return Tensors{inverse(x), det(x), logs.sign, logs.logabsdet, det(turned(x)), inverse(flip(x))};
                     },
                     Nearness::decomposed,
                     Types::wide});
    cases.push_back({"Cholesky factors of " + to_string(shape),
                     {"cholesky"},
                     {positive(regular(shape, 52))},
                     [](const Tensors& in) {
                       const Tensor& x = in[0];
                       return Tensors{cholesky(x), cholesky(x, {.upper = true}), cholesky(turned(x)), cholesky(tril(x)),
                                      cholesky(flip(x))};
                     },
                     Nearness::decomposed,
                     Types::wide});
  }
  cases.push_back({"determinants of singular matrices",
                   {"determinant"},
                   {from_vector(std::vector<double>{1, 2, 2, 4, 0, 0, 0, 3, 2, 0, 0, -1}, {3, 2, 2})},
                   [](const Tensors& in) {
                     const NoGrad off;
                     const SlogdetResult logs = slogdet(in[0]);
                     return Tensors{det(in[0]), logs.sign, logs.logabsdet};
                   },
                   Nearness::decomposed,
                   Types::wide});
  struct System {
    Shape a, b;
  };
  for (const System& s :
       {System{{6, 3}, {6}}, System{{6, 3}, {6, 2}}, System{{3, 5}, {3, 2}}, System{{2, 6, 3}, {6, 2}},
        System{{4, 4}, {3, 4, 1}}, System{{6, 0}, {6, 2}}, System{{0, 6, 3}, {0, 6, 2}}})
    cases.push_back({"least squares of " + to_string(s.a) + " and " + to_string(s.b),
                     {"lstsq", "svd"},
                     {regular(s.a, 53), noise(s.b, 54)},
                     [](const Tensors& in) {
                       const Tensor a = unless_empty(in[0]), b = a.numel() > 0 ? in[1] : stop_gradient(in[1]);
                       const LstsqResult r = lstsq(a, b);
                       return Tensors{r.solution, r.residuals, r.rank, r.singular_values, pinv(a), matrix_rank(a)};
                     },
                     Nearness::decomposed,
                     Types::wide});
  cases.push_back({"least squares of dependent columns",
                   {"lstsq", "svd"},
                   {noise({5, 2}, 55), noise({2, 4}, 56), noise({5, 2}, 57)},
                   [](const Tensors& in) {
                     const NoGrad off;
                     const Tensor a = matmul(in[0], in[1]);
                     const LstsqResult r = lstsq(a, in[2], 1e-3);
                     return Tensors{r.solution, r.residuals, r.rank, pinv(a, 1e-3), matrix_rank(a, 1e-3)};
                   },
                   Nearness::decomposed,
                   Types::wide});
}

// --- decompositions --------------------------------------------------------------------------------------------------

/// The columns of q and the rows of r may have other signs.
Tensors without_signs(const QrResult& both) { return {abs(both.q), abs(both.r), matmul(both.q, both.r)}; }
Tensors without_signs(const SvdResult& all_three) {
  return {abs(all_three.u), all_three.s, abs(all_three.vh),
          matmul(all_three.u * expand_dims(all_three.s, -2), all_three.vh)};
}

void add_orthogonal_factors(AgreementCases& cases) {
  for (const Shape& shape : {Shape{1, 1}, Shape{4, 4}, Shape{5, 3}, Shape{3, 5}, Shape{3, 4, 3}, Shape{2, 2, 3, 4},
                             Shape{0, 3}, Shape{3, 0}, Shape{2, 0, 0}, Shape{0, 3, 2}}) {
    cases.push_back({"orthogonal factors of " + to_string(shape),
                     {"qr"},
                     {regular(shape, 60)},
                     [](const Tensors& in) { return without_signs(qr(unless_empty(in[0]))); },
                     Nearness::decomposed,
                     Types::wide});
    cases.push_back({"singular values of " + to_string(shape),
                     {"svd"},
                     {regular(shape, 61)},
                     [](const Tensors& in) {
                       Tensors results = without_signs(svd(unless_empty(in[0]), {.full_matrices = false}));
                       results.push_back(svdvals(unless_empty(in[0])));
                       return results;
                     },
                     Nearness::decomposed,
                     Types::wide});
  }
  cases.push_back({"whole orthogonal factors",
                   {"qr", "svd"},
                   {regular({4, 3}, 62), regular({2, 3, 4}, 63), regular({6, 3}, 64)},
                   [](const Tensors& in) {
                     const NoGrad off;  // what has no columns beside it is one of many
                     Tensors results = without_signs(qr(in[0], QrMode::complete));
                     for (const Tensor& y : without_signs(qr(in[1], QrMode::complete))) results.push_back(y);
                     for (const Tensor& x : {in[0], in[1]}) {
                       const SvdResult r = svd(x);
                       results.insert(results.end(), {abs(r.u), r.s, abs(r.vh)});
                     }
                     const QrResult tall = qr(in[2], QrMode::complete);
                     const SvdResult full = svd(in[2]), wide = svd(turned(in[2]));
                     results.insert(results.end(), {matmul(tall.q, tall.r), matmul(turned(tall.q), tall.q), abs(tall.r),
                                                    matmul(turned(full.u), full.u), abs(full.vh), full.s,
                                                    matmul(wide.vh, turned(wide.vh)), abs(wide.u), wide.s});
                     return results;
                   },
                   Nearness::decomposed,
                   Types::wide});
  cases.push_back({"orthogonal factors of views",
                   {"qr", "svd", "eigh"},
                   {regular({2, 4, 4}, 65)},
                   [](const Tensors& in) {
                     const Tensor& x = in[0];
                     Tensors results = without_signs(qr(turned(x)));
                     for (const Tensor& y : without_signs(svd(turned(x)))) results.push_back(y);
                     results.insert(results.end(),
                                    {abs(qr(flip(x)).r), svdvals(x.index({all, from(0, 2)})),
                                     svdvals(broadcast_to(x[0], {3, 4, 4})), eigvalsh(turned(x)), eigvalsh(flip(x))});
                     return results;
                   },
                   Nearness::decomposed,
                   Types::wide});
  cases.push_back({"factors of larger matrices",
                   {"qr", "svd", "eigh"},
                   {regular({40, 30}, 66, 0.1)},
                   [](const Tensors& in) {
                     const NoGrad off;
                     const QrResult factors = qr(in[0]);
                     const SvdResult s = svd(in[0], {.full_matrices = false});
                     const EighResult e = eigh(matmul(turned(in[0]), in[0]) * 0.05);
                     return Tensors{abs(factors.r),
                                    matmul(factors.q, factors.r),
                                    s.s,
                                    matmul(s.u * s.s, s.vh),
                                    e.eigenvalues,
                                    matmul(e.eigenvectors * e.eigenvalues, turned(e.eigenvectors)),
                                    matmul(turned(e.eigenvectors), e.eigenvectors)};
                   },
                   Nearness::decomposed,
                   Types::wide});
}

void add_eigenvalues(AgreementCases& cases) {
  for (const Shape& shape :
       {Shape{1, 1}, Shape{4, 4}, Shape{3, 5, 5}, Shape{2, 1, 3, 3}, Shape{0, 0}, Shape{3, 0, 0}, Shape{0, 3, 3}})
    cases.push_back({"eigenvalues of " + to_string(shape),
                     {"eigh"},
                     {regular(shape, 70)},  // of which the lower triangle counts
                     [](const Tensors& in) {
                       const EighResult r = eigh(in[0]);
                       return Tensors{r.eigenvalues, abs(r.eigenvectors), eigvalsh(in[0])};
                     },
                     Nearness::decomposed,
                     Types::wide});
}

// --- what is special -------------------------------------------------------------------------------------------------

/// All that there is, of square matrices, symmetric positive ones and right sides.
Tensors everything_of(const Tensors& in) {
  const NoGrad off;
  const Tensor &x = in[0], &symmetric = in[1], &b = in[2];
  const SlogdetResult logs = slogdet(x);
  const QrResult factors = qr(x);
  const SvdResult three = svd(x);
  const EighResult eigen = eigh(symmetric);
  const LstsqResult least = lstsq(x, b);
  return {solve(x, b),
          inverse(x),
          det(x),
          logs.sign,
          logs.logabsdet,
          pinv(x),
          matrix_rank(x),
          abs(factors.q),
          abs(factors.r),
          abs(three.u),
          three.s,
          abs(three.vh),
          svdvals(x),
          eigen.eigenvalues,
          abs(eigen.eigenvectors),
          least.solution,
          least.rank,
          least.singular_values,
          cholesky(symmetric),
          eigvalsh(symmetric)};
}

void add_special_matrices(AgreementCases& cases) {
  cases.push_back({"matrices that are not finite, among others",
                   {"solve", "determinant", "svd", "qr", "eigh", "lstsq", "cholesky"},
                   {broken(regular({4, 3, 3}, 80)), broken(positive(regular({4, 3, 3}, 81))), noise({4, 3, 2}, 82)},
                   everything_of,
                   Nearness::decomposed,
                   Types::wide});
  cases.push_back({"decompositions in all types",
                   {"solve", "determinant", "svd", "qr", "eigh", "lstsq", "cholesky"},
                   {regular({2, 3, 3}, 83), positive(regular({2, 3, 3}, 84)), noise({2, 3, 2}, 85)},
                   everything_of,
                   Nearness::decomposed});
}

}  // namespace

AgreementCases linalg_agreement_cases() {
  AgreementCases cases;
  add_products(cases);
  add_products_of_views(cases);
  add_sums_of_products(cases);
  add_norms(cases);
  add_systems(cases);
  add_inverses(cases);
  add_orthogonal_factors(cases);
  add_eigenvalues(cases);
  add_special_matrices(cases);
  return cases;
}

}  // namespace tests

TEST_CASE("GPU and CPU agree on linear algebra", "[gpu][agreement]") {
  tests::check_agreement(&tests::linalg_agreement_cases);
}
