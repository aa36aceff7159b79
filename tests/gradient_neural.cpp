// Uses of matrix products, dropout and recurrence whose gradients are checked.
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

void add_recurrence(std::vector<GradientCase>& cases) {
  for (const Activation activation : {Activation::tanh, Activation::relu})
    for (const std::int64_t steps : {1, 3}) {
      const std::string usage =
          std::string(activation == Activation::tanh ? "tanh" : "relu") + ", " + std::to_string(steps) + " steps";
      cases.push_back(
          {"rnn",
           usage,
           [activation](const Tensors& in) {
             return rnn(in[0], in[1], {in[2], in[3], in[4]}, activation).outputs;
           },
           {random({2, steps, 2}, 91), random({2, 3}, 92), random({2, 3}, 93), random({3, 3}, 94), random({3}, 95)}});
      cases.push_back(
          {"rnn",
           usage + ", only the last one used",
           [activation](const Tensors& in) {
             return rnn(in[0], in[1], {in[2], in[3], in[4]}, activation).last;
           },
           {random({2, steps, 2}, 96), random({2, 3}, 97), random({2, 3}, 98), random({3, 3}, 99), random({3}, 100)}});
      cases.push_back({"rnn",
                       usage + ", all and the last one used",
                       [activation](const Tensors& in) {
                         const RnnResult h = rnn(in[0], in[1], {in[2], in[3], in[4]}, activation);
                         return h.outputs * expand_dims(h.last, 1);
                       },
                       {random({2, steps, 2}, 101), random({2, 3}, 102), random({2, 3}, 103), random({3, 3}, 104),
                        random({3}, 105)}});
    }
}

}  // namespace

std::vector<GradientCase> neural_gradient_cases() {
  std::vector<GradientCase> cases;
  add_products(cases);
  add_dropout(cases);
  add_recurrence(cases);
  return cases;
}

}  // namespace tests
