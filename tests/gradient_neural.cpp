// Uses of matrix products and dropout whose gradients are checked.
#include "tests/gradient_check.hpp"
#include "tests/support.hpp"

using namespace capstan;

namespace tests {

namespace {

using Tensors = std::vector<Tensor>;

Tensor random(const Shape& shape, std::uint64_t seed) { return random_in(-1, 1, shape, DType::float64, seed); }

void add_products(std::vector<GradientCase>& cases) {
  const std::pair<Shape, Shape> shapes[] = {{{2, 3}, {3, 4}},
                                            {{3}, {3}},
                                            {{2, 3}, {3}},
                                            {{3}, {3, 4}},
                                            {{2, 2, 3}, {2, 3, 2}},
                                            {{2, 3}, {2, 3, 2}},
                                            {{2, 1, 2, 3}, {3, 3, 2}},
                                            {{2, 2, 3}, {3}},
                                            {{2, 0}, {0, 3}},
                                            {{0, 3}, {3, 2}}};
  std::uint64_t seed = 50;
  for (const auto& [left, right] : shapes) {
    cases.push_back({"matmul",
                     to_string(left) + " with " + to_string(right),
                     [](const Tensors& in) { return matmul(in[0], in[1]); },
                     {random(left, seed), random(right, seed + 1)}});
    seed += 2;
  }
  cases.push_back({"matmul",
                   "both transposed",
                   [](const Tensors& in) { return matmul(transpose(in[0]), transpose(in[1])); },
                   {random({3, 2}, 71), random({4, 3}, 72)}});
  cases.push_back(
      {"matmul", "with itself", [](const Tensors& in) { return matmul(in[0], in[0]); }, {random({3, 3}, 73)}});

  for (const Shape& added : {Shape{2, 4}, Shape{4}, Shape{2, 1}, Shape{}}) {
    cases.push_back({"addmm",
                     to_string(added) + " added",
                     [](const Tensors& in) { return square(addmm(in[0], in[1], in[2])); },
                     {random(added, 81), random({2, 3}, 82), random({3, 4}, 83)}});
  }
  for (const Shape& shape : {Shape{2, 3}, Shape{3}, Shape{2, 2, 3}, Shape{0, 3}}) {
    cases.push_back({"linear",
                     to_string(shape),
                     [](const Tensors& in) { return square(linear(in[0], in[1], in[2])); },
                     {random(shape, 74), random({3, 2}, 75), random({2}, 76)}});
    cases.push_back({"linear",
                     to_string(shape) + " without bias",
                     [](const Tensors& in) { return square(linear(in[0], in[1], Tensor{})); },
                     {random(shape, 77), random({3, 2}, 78)}});
  }
}

void add_dropout(std::vector<GradientCase>& cases) {
  cases.push_back({"dropout",
                   "the same mask every time",
                   [](const Tensors& in) {
                     Rng rng(5);
                     return dropout(square(in[0]), 0.6, rng);
                   },
                   {random({4, 5}, 88)}});
}

}  // namespace

std::vector<GradientCase> neural_gradient_cases() {
  std::vector<GradientCase> cases;
  add_products(cases);
  add_dropout(cases);
  return cases;
}

}  // namespace tests
