// Products, sums of products, norms and decompositions against PyTorch.
#include "tests/goldens.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Tensors = std::vector<Tensor>;

GoldenOp unary(Tensor (*f)(const Tensor&)) {
  return [f](const GoldenCall& c) { return Tensors{f(c.tensor(0))}; };
}
GoldenOp binary(Tensor (*f)(const Tensor&, const Tensor&)) {
  return [f](const GoldenCall& c) { return Tensors{f(c.tensor(0), c.tensor(1))}; };
}

/// A number, or an object that spells out what JSON cannot: {"f": "inf"}.
double number_of(const Json& value) {
  if (value.is_number()) return value.get<double>();
  const auto text = value.at("f").get<std::string>();
  return text == "inf" ? kInfinity : text == "-inf" ? -kInfinity : kNaN;
}

const GoldenOps product_ops = {
    {"matmul", binary([](const Tensor& a, const Tensor& b) { return matmul(a, b); })},
    {"bmm", binary([](const Tensor& a, const Tensor& b) { return matmul(a, b); })},
    {"mv", binary([](const Tensor& a, const Tensor& b) { return matmul(a, b); })},
    {"dot", binary([](const Tensor& a, const Tensor& b) { return dot(a, b); })},
    {"outer", binary([](const Tensor& a, const Tensor& b) { return outer(a, b); })},
    {"kron", binary([](const Tensor& a, const Tensor& b) { return kron(a, b); })},
    {"linear",
     [](const GoldenCall& c) {  // torch keeps weights as [out, in]
       return Tensors{linear(c.tensor(0), transpose(c.tensor(1)), c.count() > 2 ? c.tensor(2) : Tensor{})};
     }},
    {"addmm",
     [](const GoldenCall& c) {
       return Tensors{addmm(c.tensor(0) * c.option("beta", 1.0), c.tensor(1) * c.option("alpha", 1.0), c.tensor(2))};
     }},
    {"tensordot",
     [](const GoldenCall& c) {
       const Json& dims = c.option("dims");
       if (dims.is_number()) return Tensors{tensordot(c.tensor(0), c.tensor(1), dims.get<int>())};
       const auto left = dims.at(0).get<std::vector<int>>(), right = dims.at(1).get<std::vector<int>>();
       return Tensors{tensordot(c.tensor(0), c.tensor(1), left, right)};
     }},
    {"einsum", [](const GoldenCall& c) { return Tensors{einsum(c.arg(0).get<std::string>(), c.tensors(1))}; }},
    {"bilinear",
     [](const GoldenCall& c) {
       return Tensors{bilinear(c.tensor(0), c.tensor(1), c.tensor(2), c.is_tensor(3) ? c.tensor(3) : Tensor())};
     }},
};

const GoldenOps decomposition_ops = {
    {"linalg_cholesky", unary([](const Tensor& x) { return cholesky(x); })},
    {"linalg_inv", unary([](const Tensor& x) { return inverse(x); })},
    {"linalg_det", unary([](const Tensor& x) { return det(x); })},
    {"linalg_slogdet",
     [](const GoldenCall& c) {
       const auto [sign, logabs] = slogdet(c.tensor(0));
       return Tensors{sign, logabs};
     }},
    {"linalg_solve", binary([](const Tensor& a, const Tensor& b) { return solve(a, b); })},
    {"linalg_eigvalsh", unary([](const Tensor& x) { return eigvalsh(x); })},
    {"linalg_svdvals", unary([](const Tensor& x) { return svdvals(x); })},
    {"linalg_qr",
     [](const GoldenCall& c) {
       const auto [q, r] = qr(c.tensor(0));
       return Tensors{q, r};
     }},
    {"linalg_solve_triangular",
     [](const GoldenCall& c) {
       return Tensors{solve_triangular(c.tensor(0), c.tensor(1), {.upper = c.option("upper", false)})};
     }},
};

const GoldenOps norm_ops = {
    {"norm",
     [](const GoldenCall& c) {
       const Axes axes = c.has("dim") ? axes_of(c.option("dim")) : Axes();
       const ReduceOptions keep{.keepdims = c.option("keepdim", false)};
       return Tensors{vector_norm(c.tensor(0), number_of(c.option("p")), axes, keep)};
     }},
    {"normalize",
     [](const GoldenCall& c) {
       const double order = c.has("p") ? number_of(c.option("p")) : 2.0;
       const Axes axes = c.has("dim") ? axes_of(c.option("dim")) : Axes(1);
       return Tensors{normalize(c.tensor(0), order, axes, c.option("eps", 1e-12))};
     }},
    {"cosine_similarity",
     [](const GoldenCall& c) {
       return Tensors{
           cosine_similarity(c.tensor(0), c.tensor(1), {.axis = c.option("dim", 1), .epsilon = c.option("eps", 1e-8)})};
     }},
    {"pairwise_distance",
     [](const GoldenCall& c) {
       return Tensors{pairwise_distance(
           c.tensor(0), c.tensor(1),
           {.p = c.option("p", 2.0), .epsilon = c.option("eps", 1e-6), .keepdims = c.option("keepdim", false)})};
     }},
};

}  // namespace

TEST_CASE("products of vectors, matrices and tensors give PyTorch's values and gradients", "[golden]") {
  run_goldens("products", {"matmul", "bmm", "linear", "bilinear", "addmm", "outer", "tensordot", "einsum"},
              product_ops);
}

TEST_CASE("decompositions give PyTorch's values and gradients", "[golden]") {
  run_goldens("decompositions", {"linalg"}, decomposition_ops);
}

TEST_CASE("norms give PyTorch's values and gradients", "[golden]") {
  run_goldens("norms", {"norm", "normalize"}, norm_ops);
}
