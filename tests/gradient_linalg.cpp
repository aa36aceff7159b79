// Uses of linear algebra whose gradients are checked. Matrices are far from singular, and their singular values and
// eigenvalues far from each other, so that differences say something.
#include "tests/gradient_check.hpp"
#include "tests/support.hpp"

using namespace capstan;

namespace tests {

namespace {

using Tensors = std::vector<Tensor>;
using Cases = std::vector<GradientCase>;

Tensor noise(const Shape& shape, std::uint64_t seed) { return random_in(-1, 1, shape, DType::float64, seed); }
Tensor turned(const Tensor& x) { return transpose(x, -1, -2); }

/// Singular values, and eigenvalues of the symmetric part, near 2, 3.5, 5, ...
Tensor regular(const Shape& shape, std::uint64_t seed) {
  const std::int64_t rows = shape[shape.rank() - 2], columns = shape[shape.rank() - 1];
  std::vector<double> list(static_cast<std::size_t>(rows * columns), 0.0);
  for (std::int64_t i = 0; i < rows && i < columns; ++i)
    list[static_cast<std::size_t>(i * columns + i)] = 2 + 1.5 * static_cast<double>(i);
  return noise(shape, seed) * 0.3 + from_vector(list, {rows, columns});
}
/// Numbers between 0.5 and 2 of both signs: away from the kinks at 0.
Tensor away_from_zero(const Shape& shape, std::uint64_t seed) {
  const Tensor x = random_in(0.5, 2, shape, DType::float64, seed);
  return where(noise(shape, seed + 1) > 0, x, -x);
}
Tensor symmetric(const Tensor& x) { return (x + turned(x)) * 0.5; }
Tensor positive(const Tensor& x) { return matmul(x, turned(x)) + eye(x.size(-2), -1, {.dtype = x.dtype()}); }

void add_sums_of_products(Cases& cases) {
  const std::pair<const char*, std::vector<Shape>> equations[] = {{"ij,jk->ik", {{2, 3}, {3, 2}}},
                                                                  {"bij,bkj->kbi", {{2, 2, 3}, {2, 2, 3}}},
                                                                  {"ij,ij->i", {{2, 3}, {2, 3}}},
                                                                  {"i,j->ji", {{2}, {3}}},
                                                                  {"ii->i", {{3, 3}}},
                                                                  {"iij->j", {{2, 2, 3}}},
                                                                  {"ij->", {{2, 3}}},
                                                                  {"...ij,...jk->...ik", {{2, 1, 2, 3}, {2, 3, 2}}},
                                                                  {"ab,bc,cd->da", {{2, 3}, {3, 2}, {2, 2}}},
                                                                  {"ij,ij->ij", {{1, 3}, {2, 3}}},
                                                                  {"ij,jk->ik", {{2, 1}, {3, 2}}},
                                                                  {"ij,jk->ik", {{2, 0}, {0, 3}}}};
  for (const auto& [equation, shapes] : equations) {
    Tensors inputs;
    for (const Shape& shape : shapes) inputs.push_back(noise(shape, 300 + inputs.size()));
    const auto function = [text = std::string(equation)](const Tensors& in) { return square(einsum(text, in)); };
    cases.push_back({"einsum", equation, function, inputs});
  }
  cases.push_back({"tensordot",
                   "two axes",
                   [](const Tensors& in) {
                     return tensordot(in[0], in[1], {1, 2}, {1, 0});
                   },
                   {noise({2, 3, 2}, 311), noise({2, 3, 2}, 312)}});
  cases.push_back({"tensordot",
                   "the last axis with the first",
                   [](const Tensors& in) { return tensordot(in[0], in[1], 1); },
                   {noise({2, 3}, 313), noise({3, 2}, 314)}});
  cases.push_back({"tensordot",
                   "no axis",
                   [](const Tensors& in) { return tensordot(in[0], in[1], 0); },
                   {noise({2}, 315), noise({2, 2}, 316)}});
  const std::pair<Shape, Shape> dots[] = {{{3}, {3}}, {{2, 3}, {3}}, {{}, {3}}, {{2, 3}, {2, 3, 2}}};
  for (const auto& [left, right] : dots)
    cases.push_back({"dot",
                     to_string(left) + " with " + to_string(right),
                     [](const Tensors& in) { return dot(in[0], in[1]); },
                     {noise(left, 317), noise(right, 318)}});
}

void add_products_of_vectors(Cases& cases) {
  cases.push_back({"vecdot",
                   "the last axis, broadcast",
                   [](const Tensors& in) { return vecdot(in[0], in[1]); },
                   {noise({2, 3}, 321), noise({3}, 322)}});
  cases.push_back({"vecdot",
                   "the first axis",
                   [](const Tensors& in) { return vecdot(in[0], in[1], 0); },
                   {noise({2, 3}, 323), noise({2, 3}, 324)}});
  cases.push_back({"outer",
                   "two vectors",
                   [](const Tensors& in) { return outer(in[0], in[1]); },
                   {noise({2}, 325), noise({3}, 326)}});
  cases.push_back({"kron",
                   "two matrices",
                   [](const Tensors& in) { return kron(in[0], in[1]); },
                   {noise({2, 3}, 327), noise({3, 1}, 328)}});
  cases.push_back({"kron",
                   "different ranks",
                   [](const Tensors& in) { return kron(in[0], in[1]); },
                   {noise({2}, 329), noise({2, 2, 2}, 330)}});
  cases.push_back({"cross",
                   "the last axis, broadcast",
                   [](const Tensors& in) { return cross(in[0], in[1]); },
                   {noise({3}, 331), noise({2, 3}, 332)}});
  cases.push_back({"cross",
                   "the first axis",
                   [](const Tensors& in) { return cross(in[0], in[1], 0); },
                   {noise({3, 2}, 333), noise({3, 2}, 334)}});
  for (const std::int64_t n : {1, 2, 5, -2})
    cases.push_back({"matrix_power",
                     "to the power " + std::to_string(n),
                     [n](const Tensors& in) { return square(matrix_power(in[0], n)); },
                     {noise({2, 2, 2}, 335) * 0.3 + eye(2, 2, {.dtype = DType::float64})}});
}

void add_diagonals(Cases& cases) {
  const Tensor x = noise({2, 3, 4}, 341);
  for (const std::int64_t offset : {0, 1, -2, 7}) {
    const std::string at = "offset " + std::to_string(offset);
    cases.push_back({"tril", at, [offset](const Tensors& in) { return square(tril(in[0], offset)); }, {x}});
    cases.push_back({"triu", at, [offset](const Tensors& in) { return square(triu(in[0], offset)); }, {x}});
    cases.push_back({"diagonal", at, [offset](const Tensors& in) { return square(diagonal(in[0], offset)); }, {x}});
    cases.push_back({"trace", at, [offset](const Tensors& in) { return square(trace(in[0], offset)); }, {x}});
    cases.push_back(
        {"diag", at + " of a vector", [offset](const Tensors& in) { return square(diag(in[0], offset)); }, {x[0][0]}});
    cases.push_back(
        {"diag", at + " of a matrix", [offset](const Tensors& in) { return square(diag(in[0], offset)); }, {x[0]}});
  }
  cases.push_back({"diagonal",
                   "of other axes, exchanged",
                   [](const Tensors& in) { return square(diagonal(in[0], 1, 2, 0)); },
                   {x}});
  cases.push_back(
      {"tril", "no elements", [](const Tensors& in) { return square(tril(in[0])); }, {noise({2, 0, 3}, 342)}});
}

void add_norms(Cases& cases) {
  const Tensor x = away_from_zero({2, 3, 2}, 351);
  for (const double order : {2.0, 1.0, 3.0, 1.5, 0.5, -1.5, kInfinity, -kInfinity}) {
    const std::string text = "order " + std::to_string(order);
    cases.push_back(
        {"vector_norm", text, [order](const Tensors& in) { return square(vector_norm(in[0], order)); }, {x}});
    cases.push_back({"vector_norm",
                     text + " of two axes",
                     [order](const Tensors& in) {
                       return square(vector_norm(in[0], order, {0, -1}, {.keepdims = true}));
                     },
                     {x}});
  }
  cases.push_back({"vector_norm",
                   "no elements",
                   [](const Tensors& in) { return square(vector_norm(in[0], 2, 1)); },
                   {noise({2, 0}, 352)}});
  const std::pair<const char*, MatrixNorm> norms[] = {{"frobenius", MatrixNorm::frobenius},
                                                      {"nuclear", MatrixNorm::nuclear},
                                                      {"one", MatrixNorm::one},
                                                      {"minus one", MatrixNorm::minus_one},
                                                      {"two", MatrixNorm::two},
                                                      {"minus two", MatrixNorm::minus_two},
                                                      {"infinity", MatrixNorm::infinity},
                                                      {"minus infinity", MatrixNorm::minus_infinity}};
  const Tensor matrices = regular({2, 3, 4}, 353) + away_from_zero({2, 3, 4}, 354) * 0.1;
  for (const auto& [text, norm] : norms) {
    cases.push_back(
        {"matrix_norm", text, [n = norm](const Tensors& in) { return square(matrix_norm(in[0], n)); }, {matrices}});
    cases.push_back({"matrix_norm",
                     std::string(text) + ", keeping axes",
                     [n = norm](const Tensors& in) { return in[0] * matrix_norm(in[0], n, {.keepdims = true}); },
                     {matrices[0]}});
  }
}

void add_systems(Cases& cases) {
  const std::pair<Shape, Shape> systems[] = {{{3, 3}, {3, 2}},          {{3, 3}, {3}},       {{2, 3, 3}, {3}},
                                             {{2, 1, 2, 2}, {3, 2, 2}}, {{2, 2}, {3, 2, 1}}, {{0, 0}, {0, 2}}};
  for (const auto& [left, right] : systems) {
    const Tensors inputs = {regular(left, 361), noise(right, 362)};
    const std::string text = to_string(left) + " with " + to_string(right);
    cases.push_back({"solve", text, [](const Tensors& in) { return solve(in[0], in[1]); }, inputs});
    for (const bool upper : {false, true})
      for (const bool unit : {false, true}) {
        const TriangularOptions options{.upper = upper, .unit_diagonal = unit};
        cases.push_back({"solve_triangular", text + (upper ? " upper" : " lower") + (unit ? ", unit diagonal" : ""),
                         [options](const Tensors& in) { return solve_triangular(in[0], in[1], options); }, inputs});
      }
  }
  const std::pair<Shape, Shape> fits[] = {{{4, 3}, {4, 2}}, {{3, 4}, {3, 2}}, {{3, 3}, {3}},
                                          {{4, 2}, {4}},    {{2, 4, 2}, {4}}, {{2, 2, 3}, {2, 1}}};
  for (const auto& [left, right] : fits)
    cases.push_back({"lstsq",
                     to_string(left) + " with " + to_string(right),
                     [](const Tensors& in) { return lstsq(in[0], in[1]).solution; },
                     {regular(left, 363), noise(right, 364)}});
  cases.push_back({"lstsq",
                   "the residuals",
                   [](const Tensors& in) { return lstsq(in[0], in[1]).residuals; },
                   {regular({4, 2}, 365), noise({4, 2}, 366)}});
  for (const Shape& shape : {Shape{3, 3}, Shape{2, 2, 2}, Shape{1, 1}, Shape{2, 0, 0}}) {
    const Tensor x = regular(shape, 367);
    const std::string text = to_string(shape);
    cases.push_back({"inverse", text, [](const Tensors& in) { return inverse(in[0]); }, {x}});
    cases.push_back({"det", text, [](const Tensors& in) { return square(det(in[0])) * 0.01; }, {x}});
    cases.push_back({"slogdet", text, [](const Tensors& in) { return square(slogdet(in[0]).logabsdet); }, {x}});
    cases.push_back({"cholesky", text, [](const Tensors& in) { return cholesky(positive(in[0])); }, {x}});
    cases.push_back({"cholesky",
                     text + " upper",
                     [](const Tensors& in) { return cholesky(positive(in[0]), {.upper = true}); },
                     {x}});
  }
  const Tensor singular = {{1.0, 2.0}, {2.0, 4.0}}, other = {{1.0, 2.0}, {0.0, 3.0}};
  cases.push_back({"det", "a singular matrix", [](const Tensors& in) { return det(in[0]); }, {singular}});
  cases.push_back({"det",
                   "singular and regular matrices",
                   [](const Tensors& in) { return det(in[0]); },
                   {stack({singular, other})}});
  cases.push_back({"det",
                   "a singular matrix beside the identity",  // whose singular values are equal
                   [](const Tensors& in) { return det(in[0]); },
                   {stack({singular, eye(2, 2, {.dtype = DType::float64})})}});
  for (const Shape& shape : {Shape{3, 3}, Shape{4, 2}, Shape{2, 2, 3}})
    cases.push_back({"pinv", to_string(shape), [](const Tensors& in) { return pinv(in[0]); }, {regular(shape, 368)}});
  cases.push_back({"pinv",
                   "of rank 2, in and out of a larger space",
                   [](const Tensors& in) { return pinv(matmul(in[0], in[1]), 1e-8); },
                   {regular({4, 2}, 369), regular({2, 3}, 370)}});
}

void add_decompositions(Cases& cases) {
  for (const Shape& shape : {Shape{4, 2}, Shape{3, 3}, Shape{2, 4}, Shape{2, 3, 2}, Shape{0, 2, 2}}) {
    const Tensor x = regular(shape, 371);
    const std::string text = to_string(shape);
    cases.push_back({"qr", text + ", q", [](const Tensors& in) { return qr(in[0]).q; }, {x}});
    cases.push_back({"qr", text + ", r", [](const Tensors& in) { return qr(in[0]).r; }, {x}});
    cases.push_back({"qr",
                     text + ", both",
                     [](const Tensors& in) {
                       const auto [q, r] = qr(in[0]);
                       return matmul(square(q), r);
                     },
                     {x}});
    cases.push_back({"svdvals", text, [](const Tensors& in) { return square(svdvals(in[0])); }, {x}});
    cases.push_back({"svd",
                     text + ", the values",
                     [](const Tensors& in) { return square(svd(in[0], {.full_matrices = false}).s); },
                     {x}});
    cases.push_back(
        {"svd", text + ", u", [](const Tensors& in) { return square(svd(in[0], {.full_matrices = false}).u); }, {x}});
    cases.push_back(
        {"svd", text + ", vh", [](const Tensors& in) { return square(svd(in[0], {.full_matrices = false}).vh); }, {x}});
    cases.push_back({"svd",
                     text + ", all three",
                     [](const Tensors& in) {
                       const auto [u, s, vh] = svd(in[0], {.full_matrices = false});
                       return matmul(u * expand_dims(square(s), -2), vh) +
                              matmul(square(u) * expand_dims(s, -2), square(vh));
                     },
                     {x}});
    cases.push_back({"svd",
                     text + ", the first vectors of full matrices",
                     [](const Tensors& in) {
                       const auto [u, s, vh] = svd(in[0]);
                       return matmul(narrow(u, -1, 0, 2) * expand_dims(square(narrow(s, -1, 0, 2)), -2),
                                     narrow(vh, -2, 0, 2));
                     },
                     {x}});
  }
  cases.push_back({"qr",
                   "complete, more columns than rows",
                   [](const Tensors& in) {
                     const auto [q, r] = qr(in[0], QrMode::complete);
                     return matmul(square(q), r);
                   },
                   {regular({2, 3}, 372)}});
  for (const Shape& shape : {Shape{3, 3}, Shape{2, 2, 2}, Shape{0, 0}}) {
    const Tensor x = regular(shape, 373);
    const std::string text = to_string(shape);
    cases.push_back({"eigvalsh", text, [](const Tensors& in) { return square(eigvalsh(symmetric(in[0]))); }, {x}});
    cases.push_back({"eigh",
                     text + ", the vectors",
                     [](const Tensors& in) { return square(eigh(symmetric(in[0])).eigenvectors); },
                     {x}});
    cases.push_back({"eigh",
                     text + ", both",
                     [](const Tensors& in) {
                       const auto [w, v] = eigh(symmetric(in[0]));
                       return matmul(v * expand_dims(square(w), -2), turned(v));
                     },
                     {x}});
  }
}

}  // namespace

std::vector<GradientCase> linalg_gradient_cases() {
  Cases cases;
  add_sums_of_products(cases);
  add_products_of_vectors(cases);
  add_diagonals(cases);
  add_norms(cases);
  add_systems(cases);
  add_decompositions(cases);
  return cases;
}

}  // namespace tests
