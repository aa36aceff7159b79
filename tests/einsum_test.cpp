// Einstein's summation, tensordot and dot: against loops over all indices, and the examples of NumPy's manual.
#include "tests/support.hpp"

#include <map>
#include <string>
#include <vector>

using namespace capstan;
using namespace tests;

namespace {

/// The definition for plain terms: one loop over all values of all letters. An axis of size 1 broadcasts.
Tensor by_definition(const std::vector<std::string>& terms, const std::string& output, const std::vector<Tensor>& in) {
  std::map<char, std::int64_t> sizes;
  for (std::size_t k = 0; k < in.size(); ++k)
    for (std::size_t axis = 0; axis < terms[k].size(); ++axis) {
      std::int64_t& size = sizes.emplace(terms[k][axis], 1).first->second;
      if (size == 1) size = in[k].size(static_cast<int>(axis));
    }
  std::vector<std::vector<double>> lists;
  for (const Tensor& x : in) lists.push_back(values(x));
  std::vector<std::int64_t> out_sizes;
  std::int64_t count = 1, total = 1;
  for (const char c : output) out_sizes.push_back(sizes.at(c));
  for (const std::int64_t size : out_sizes) count *= size;
  for (const auto& [letter, size] : sizes) total *= size;
  std::vector<double> out(static_cast<std::size_t>(count), 0.0);

  for (std::int64_t n = 0; n < total; ++n) {
    std::map<char, std::int64_t> at;
    std::int64_t rest = n;
    for (const auto& [letter, size] : sizes) {
      at[letter] = rest % size;
      rest /= size;
    }
    double product = 1;
    for (std::size_t k = 0; k < in.size(); ++k) {
      std::int64_t place = 0;
      for (std::size_t axis = 0; axis < terms[k].size(); ++axis) {
        const std::int64_t size = in[k].size(static_cast<int>(axis));
        place = place * size + (size == 1 ? 0 : at.at(terms[k][axis]));
      }
      product *= lists[k][static_cast<std::size_t>(place)];
    }
    std::int64_t place = 0;
    for (const char c : output) place = place * sizes.at(c) + at.at(c);
    out[static_cast<std::size_t>(place)] += product;
  }
  return from_doubles(out, Shape(std::span<const std::int64_t>(out_sizes)));
}

struct Case {
  std::vector<std::string> terms;
  std::string output;
  std::vector<Shape> shapes;
};

const Case cases[] = {
    {{"ij", "jk"}, "ik", {{2, 3}, {3, 4}}},
    {{"ij", "jk"}, "ki", {{2, 3}, {3, 4}}},
    {{"ji", "jk"}, "ik", {{3, 2}, {3, 4}}},
    {{"ij", "kj"}, "", {{2, 3}, {4, 3}}},
    {{"bij", "bjk"}, "bik", {{2, 3, 4}, {2, 4, 5}}},
    {{"ibj", "jbk"}, "kbi", {{3, 2, 4}, {4, 2, 5}}},
    {{"bhqd", "bhkd"}, "bhqk", {{2, 3, 4, 5}, {2, 3, 6, 5}}},
    {{"ij", "ij"}, "", {{2, 3}, {2, 3}}},
    {{"ij", "ij"}, "i", {{2, 3}, {2, 3}}},
    {{"ij", "ij"}, "ji", {{2, 3}, {2, 3}}},
    {{"i", "j"}, "ij", {{3}, {4}}},
    {{"i", "j"}, "ji", {{3}, {4}}},
    {{"ijk"}, "k", {{2, 3, 4}}},
    {{"ijk"}, "ki", {{2, 3, 4}}},
    {{"ijk"}, "", {{2, 3, 4}}},
    {{"ii"}, "i", {{4, 4}}},
    {{"ii"}, "", {{4, 4}}},
    {{"iij"}, "ji", {{3, 3, 4}}},
    {{"iijj"}, "ij", {{3, 3, 2, 2}}},
    {{"iii"}, "i", {{3, 3, 3}}},
    {{"ijij"}, "ij", {{2, 3, 2, 3}}},
    {{"iij", "ij"}, "i", {{3, 3, 4}, {3, 4}}},
    {{"ab", "bc", "cd"}, "ad", {{2, 3}, {3, 4}, {4, 5}}},
    {{"ab", "bc", "cd"}, "", {{2, 3}, {3, 4}, {4, 5}}},
    {{"ab", "cd", "bc"}, "da", {{2, 3}, {4, 5}, {3, 4}}},
    {{"i", "j", "k"}, "kji", {{2}, {3}, {4}}},
    {{"ij", "j", "i"}, "", {{2, 3}, {3}, {2}}},
    {{"bi", "bj", "bij"}, "b", {{2, 3}, {2, 4}, {2, 3, 4}}},
    {{"", "ij"}, "ij", {{}, {2, 3}}},
    {{"", ""}, "", {{}, {}}},
    {{"ij", "ij"}, "ij", {{1, 3}, {2, 3}}},   // sizes of 1 broadcast: in the result,
    {{"ij", "jk"}, "ik", {{2, 1}, {3, 4}}},   // summed over,
    {{"ij", "jk"}, "ijk", {{2, 3}, {1, 4}}},  // and beside others
    {{"ij", "ik", "ij"}, "ikj", {{1, 3}, {5, 1}, {1, 1}}},
    {{"Ab", "bA"}, "A", {{2, 3}, {3, 2}}},  // capitals are letters of their own
};

std::string equation_of(const Case& c) {
  std::string text;
  for (std::size_t k = 0; k < c.terms.size(); ++k) text += (k > 0 ? "," : "") + c.terms[k];
  return text + "->" + c.output;
}

}  // namespace

TEST_CASE("einsum sums what a loop over all letters sums", "[linalg]") {
  for (const Case& c : cases)
    for (const bool turned : {false, true}) {
      std::vector<Tensor> in;
      for (const Shape& shape : c.shapes) {
        in.push_back(random_in(-1, 1, shape, DType::float64, 200 + in.size()));
        if (turned) in.back() = strided(in.back());
      }
      INFO(equation_of(c) << (turned ? ", other strides" : ""));
      CHECK(close(einsum(equation_of(c), in), by_definition(c.terms, c.output, in), tolerance::product64));
    }
}

TEST_CASE("einsum without an arrow keeps the letters that occur once, in alphabetical order", "[linalg]") {
  const Tensor a = random_in(-1, 1, {2, 3}, DType::float64, 211), b = random_in(-1, 1, {3, 4}, DType::float64, 212);
  const Tensor square = random_in(-1, 1, {3, 3}, DType::float64, 213);
  CHECK(close(einsum("ij,jk", {a, b}), matmul(a, b), tolerance::product64));
  CHECK(same(einsum("ba", {a}), transpose(a)));
  CHECK(same(einsum("bA", {a}), transpose(a)));  // capitals come first
  CHECK(close(einsum("ii", {square}), trace(square), tolerance::product64));
  CHECK(same(einsum(" i j ", {a}), a));
}

TEST_CASE("einsum aligns the axes of an ellipsis at the last and broadcasts them", "[linalg]") {
  const Tensor a = random_in(-1, 1, {5, 1, 2, 3}, DType::float64, 214);
  const Tensor b = random_in(-1, 1, {4, 3, 2}, DType::float64, 215);
  CHECK(close(einsum("...ij,...jk->...ik", {a, b}), matmul(a, b), tolerance::product64));
  CHECK(close(einsum("...ij,...jk", {a, b}), matmul(a, b), tolerance::product64));
  CHECK(close(einsum("i...,i...->...", {a[0], a[1]}), sum(a[0] * a[1], 0), tolerance::product64));
  CHECK(same(einsum("...i->i...", {b}), permute(b, {2, 0, 1})));
  CHECK(close(einsum("...ii->...i", {matmul(b, transpose(b, 1, 2))}), sum(b * b, -1), tolerance::product64));
  CHECK(same(einsum("ij...->ij...", {a[0][0]}), a[0][0]));  // no axes left for it
}

TEST_CASE("einsum of nothing gives zeros or nothing", "[linalg]") {
  const Tensor a = zeros({2, 0}), b = zeros({0, 3});
  CHECK(same(einsum("ij,jk->ik", {a, b}), zeros({2, 3})));
  CHECK(einsum("ij->ji", {a}).shape() == Shape{0, 2});
  CHECK(same(einsum("ij->", {a}), Tensor(0.0f)));
  CHECK(einsum("ij,kl->ijkl", {a, b}).shape() == Shape{2, 0, 0, 3});
}

TEST_CASE("einsum of one operand without a sum is a view", "[linalg]") {
  const Tensor a = random_in(-1, 1, {3, 3}, DType::float32, 216);
  CHECK(einsum("ij->ji", {a}).shares_storage(a));
  CHECK(einsum("ii->i", {a}).shares_storage(a));
}

TEST_CASE("einsum promotes, and keeps the 16-bit types", "[linalg]") {
  const Tensor a = {{1.0f, 2.0f}}, b = {{3.0}, {4.0}};
  CHECK(same(einsum("ij,jk->ik", {a, b}), {{11.0}}));
  const Tensor half = a.to(DType::float16);
  CHECK(einsum("ij,ij->", {half, half}).dtype() == DType::float16);
  CHECK(number(einsum("ij,ij->", {half, half})) == 5);
}

TEST_CASE("einsum computes in the type that all operands promote to", "[linalg]") {
  // the product of the first two is exact in float64, and not in float32
  const Tensor tenth = {0.1f}, half = Tensor{300.0f}.to(DType::float16);
  const double exact = static_cast<double>(0.1f) * static_cast<double>(0.1f);
  CHECK(same(einsum("i,i,i->", {tenth, tenth, Tensor{1.0}}), Tensor(exact)));
  CHECK(same(einsum("i,i,i->i", {half, half, Tensor{1.0f}}), {90000.0f}));  // beyond float16
}

TEST_CASE("a chain of products is taken at its cheapest", "[linalg]") {
  // from the left the first product alone would have 10^10 terms
  const Tensor column = ones({100000, 1}), row = ones({1, 100000});
  CHECK(same(einsum("ij,jk,kl->il", {column, row, column}), full({100000, 1}, 100000.0)));
}

TEST_CASE("tensordot sums over pairs of axes", "[linalg]") {
  const Tensor a = random_in(-1, 1, {3, 4, 5}, DType::float64, 221);
  const Tensor b = random_in(-1, 1, {4, 3, 2}, DType::float64, 222);
  // the example of NumPy's manual: a[n, k, m] * b[k, n, l]
  CHECK(close(tensordot(a, b, {1, 0}, {0, 1}), einsum("nkm,knl->ml", {a, b}), tolerance::product64));
  CHECK(close(tensordot(a, b, {-2, 0}, {0, -2}), einsum("nkm,knl->ml", {a, b}), tolerance::product64));
  CHECK(close(tensordot(a, transpose(a), 1), einsum("abc,cde->abde", {a, transpose(a)}), tolerance::product64));
  CHECK(close(tensordot(a, a, 3), sum(a * a), tolerance::product64));
  CHECK(close(tensordot(a, b, 0), einsum("abc,def->abcdef", {a, b}), tolerance::product64));
  CHECK(tensordot(a, Tensor(2.0), 0).shape() == a.shape());
  CHECK(same(tensordot(zeros({2, 0}), zeros({0, 3}), 1), zeros({2, 3})));
}

TEST_CASE("dot is NumPy's for every pair of ranks", "[linalg]") {
  const Tensor v = {1.0, 2.0}, w = {3.0, 4.0}, m = {{1.0, 0.0}, {0.0, 2.0}};
  CHECK(same(dot(v, w), Tensor(11.0)));
  CHECK(same(dot(m, v), {1.0, 4.0}));
  CHECK(same(dot(v, m), {1.0, 4.0}));
  CHECK(same(dot(m, m), {{1.0, 0.0}, {0.0, 4.0}}));
  CHECK(same(dot(Tensor(2.0), v), {2.0, 4.0}));
  const Tensor a = random_in(-1, 1, {2, 3, 4}, DType::float64, 223);
  const Tensor b = random_in(-1, 1, {5, 4, 3}, DType::float64, 224);
  CHECK(close(dot(a, b), einsum("ijk,lkm->ijlm", {a, b}), tolerance::product64));  // dot(a, b)[i,j,k,m] in the manual
}
