// Uses of elementwise operations and reductions whose gradients are checked. Domains stay away from kinks and poles.
#include "tests/gradient_check.hpp"
#include "tests/support.hpp"

using namespace capstan;

namespace tests {

namespace {

using Tensors = std::vector<Tensor>;

/// Random, with |x| in [0.4, 2].
Tensor away_from_zero(const Shape& shape, std::uint64_t seed) {
  std::vector<double> list = values(random_in(-1.6, 1.6, shape, DType::float64, seed));
  for (double& x : list) x += x < 0 ? -0.4 : 0.4;
  return from_vector(list, shape);
}

struct Unary {
  const char* name;
  Tensor (*function)(const Tensor&);
  double low, high;
};
const Unary unary_rows[] = {
    {"exp", [](const Tensor& x) { return exp(x); }, -2, 2},
    {"log", [](const Tensor& x) { return log(x); }, 0.3, 3},
    {"neg", [](const Tensor& x) { return neg(x); }, -2, 2},
    {"sigmoid", [](const Tensor& x) { return sigmoid(x); }, -6, 6},
    {"sqrt", [](const Tensor& x) { return sqrt(x); }, 0.3, 3},
    {"square", [](const Tensor& x) { return square(x); }, -2, 2},
    {"tanh", [](const Tensor& x) { return tanh(x); }, -3, 3},
};
const Unary kinked_rows[] = {
    // taken away from zero
    {"abs", [](const Tensor& x) { return abs(x); }, 0, 0},
    {"reciprocal", [](const Tensor& x) { return reciprocal(x); }, 0, 0},
    {"relu", [](const Tensor& x) { return relu(x); }, 0, 0},
};

struct Binary {
  const char* name;
  Tensor (*function)(const Tensor&, const Tensor&);
};
const Binary binary_rows[] = {
    {"add", [](const Tensor& a, const Tensor& b) { return add(a, b); }},
    {"sub", [](const Tensor& a, const Tensor& b) { return sub(a, b); }},
    {"mul", [](const Tensor& a, const Tensor& b) { return mul(a, b); }},
    {"div", [](const Tensor& a, const Tensor& b) { return div(a, b); }},
    {"pow", [](const Tensor& a, const Tensor& b) { return pow(a, b); }},
    {"maximum", [](const Tensor& a, const Tensor& b) { return maximum(a, b); }},
    {"minimum", [](const Tensor& a, const Tensor& b) { return minimum(a, b); }},
    {"where", [](const Tensor& a, const Tensor& b) { return where(a < b, a * a, b * 3); }},
};
const std::pair<Shape, Shape> broadcast_pairs[] = {
    {{3, 4}, {3, 4}}, {{3, 4}, {4}}, {{3, 1}, {1, 4}}, {{2, 1, 3}, {4, 1}}, {{}, {2, 3}},
    {{2, 3}, {}},     {{}, {}},      {{1}, {2, 1, 3}}, {{2, 0}, {1}},       {{0}, {3, 1}},
};

void add_scalar_forms(std::vector<GradientCase>& cases) {
  const auto use = [&](const char* op, const char* usage, Tensor (*function)(const Tensor&), const Tensor& x) {
    cases.push_back({op, usage, [function](const Tensors& in) { return function(in[0]); }, {x}});
  };
  const Tensor x = away_from_zero({3, 5}, 21), positive = random_in(0.3, 2, {3, 5}, DType::float64, 22);
  use(
      "add", "x + 2.5", [](const Tensor& t) { return t + 2.5; }, x);
  use(
      "add", "2 + x", [](const Tensor& t) { return 2 + t; }, x);
  use(
      "sub", "x - 2", [](const Tensor& t) { return t - 2; }, x);
  use(
      "sub", "1 - x", [](const Tensor& t) { return 1 - t; }, x);
  use(
      "mul", "x * -3", [](const Tensor& t) { return t * -3; }, x);
  use(
      "mul", "0.5 * x", [](const Tensor& t) { return 0.5 * t; }, x);
  use(
      "mul", "x * x", [](const Tensor& t) { return t * t; }, x);
  use(
      "div", "x / 4", [](const Tensor& t) { return t / 4; }, x);
  use(
      "div", "1 / x", [](const Tensor& t) { return 1 / t; }, x);
  use(
      "pow", "the third power of negative numbers too", [](const Tensor& t) { return pow(t, 3); }, x);
  use(
      "pow", "the second power", [](const Tensor& t) { return pow(t, 2); }, x);
  use(
      "pow", "the first power", [](const Tensor& t) { return pow(t, 1); }, x);
  use(
      "pow", "the power -0.5", [](const Tensor& t) { return pow(t, -0.5); }, positive);
  use(
      "pow", "powers of 2", [](const Tensor& t) { return pow(2.0, t); }, x);
  use(
      "pow", "x to the x", [](const Tensor& t) { return pow(t, t); }, positive);
  use(
      "maximum", "maximum(x, 0.1)", [](const Tensor& t) { return maximum(t, 0.1); }, x);
  use(
      "minimum", "minimum(x, 0.1)", [](const Tensor& t) { return minimum(t, 0.1); }, x);
  use(
      "where", "a number on the right", [](const Tensor& t) { return where(t > 0, t * t, 7); }, x);
  use(
      "where", "a number on the left", [](const Tensor& t) { return where(t > 0, 7, t * t); }, x);
  use(
      "clip", "inside and outside of the bounds", [](const Tensor& t) { return clip(t, -1, 1.2); },
      Tensor{-2.0, -1.4, -0.6, 0.3, 0.9, 1.1, 1.6});
  use(
      "cast", "to its own type", [](const Tensor& t) { return cast(t, DType::float64) * t; }, x);
  use(
      "exp", "of a transposed tensor", [](const Tensor& t) { return exp(transpose(t)); }, x);
  use(
      "mul", "of a transposed and a plain tensor",
      [](const Tensor& t) {
        return transpose(t) * reshape(t, {5, 3});
      },
      x);
}

struct Reduction {
  const char* name;
  Tensor (*function)(const Tensor&, Axes, ReduceOptions);
};
const Reduction reduction_rows[] = {
    {"sum", [](const Tensor& x, Axes a, ReduceOptions o) { return sum(x, a, o); }},
    {"mean", [](const Tensor& x, Axes a, ReduceOptions o) { return mean(x, a, o); }},
    {"max", [](const Tensor& x, Axes a, ReduceOptions o) { return max(x, a, o); }},
    {"min", [](const Tensor& x, Axes a, ReduceOptions o) { return min(x, a, o); }},
    {"logsumexp", [](const Tensor& x, Axes a, ReduceOptions o) { return logsumexp(x, a, o); }},
};

}  // namespace

std::vector<GradientCase> elementwise_gradient_cases() {
  std::vector<GradientCase> cases;
  for (const Shape& shape : {Shape{3, 5}, Shape{}, Shape{0, 3}}) {
    for (const Unary& row : unary_rows)
      cases.push_back({row.name,
                       "shape " + to_string(shape),
                       [f = row.function](const Tensors& in) { return f(in[0]); },
                       {random_in(row.low, row.high, shape, DType::float64, 7)}});
    for (const Unary& row : kinked_rows)
      cases.push_back({row.name,
                       "shape " + to_string(shape),
                       [f = row.function](const Tensors& in) { return f(in[0]); },
                       {away_from_zero(shape, 8)}});
  }
  for (const auto& [left, right] : broadcast_pairs)
    for (const Binary& row : binary_rows)
      cases.push_back({row.name,
                       to_string(left) + " with " + to_string(right),
                       [f = row.function](const Tensors& in) { return f(in[0], in[1]); },
                       {random_in(0.5, 2, left, DType::float64, 11), random_in(0.5, 2, right, DType::float64, 12)}});
  add_scalar_forms(cases);
  return cases;
}

std::vector<GradientCase> reduction_gradient_cases() {
  const std::pair<const char*, Axes> axes[] = {
      {"all axes", {}},          {"axis 0", 0}, {"axis 1", 1}, {"axis -1", -1}, {"axes 0 and 2", {0, 2}},
      {"axes -1 and 1", {-1, 1}}};
  std::vector<GradientCase> cases;
  const Tensor x = random_in(-2, 2, {2, 3, 4}, DType::float64, 31);
  for (const Reduction& row : reduction_rows)
    for (const auto& [which, over] : axes)
      for (const bool keep : {false, true})
        cases.push_back({row.name,
                         std::string(which) + (keep ? ", kept" : ", dropped"),
                         [f = row.function, a = over, keep](const Tensors& in) {
                           return f(in[0], a, ReduceOptions{.keepdims = keep});
                         },
                         {x}});
  cases.push_back({"sum",
                   "over nothing",
                   [](const Tensors& in) { return sum(in[0], 1); },
                   {zeros({3, 0}, {.dtype = DType::float64})}});
  cases.push_back({"sum", "of a single value", [](const Tensors& in) { return sum(square(in[0])); }, {Tensor(1.5)}});
  cases.push_back({"max", "of a transposed tensor", [](const Tensors& in) { return max(transpose(in[0]), 0); }, {x}});
  for (const int axis : {0, 1, -1}) {
    const std::string usage = "axis " + std::to_string(axis);
    cases.push_back({"softmax", usage, [axis](const Tensors& in) { return softmax(in[0], axis); }, {x}});
    cases.push_back({"log_softmax", usage, [axis](const Tensors& in) { return log_softmax(in[0], axis); }, {x}});
  }
  cases.push_back(
      {"softmax", "of a transposed tensor", [](const Tensors& in) { return softmax(transpose(in[0])); }, {x}});
  cases.push_back({"log_softmax",
                   "of no rows",
                   [](const Tensors& in) { return log_softmax(in[0]); },
                   {zeros({0, 3}, {.dtype = DType::float64})}});
  return cases;
}

}  // namespace tests
