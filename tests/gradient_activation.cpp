// Uses of activations whose gradients are checked, on both sides of their kinks.
#include "tests/gradient_check.hpp"
#include "tests/support.hpp"

using namespace capstan;

namespace tests {

namespace {

using Tensors = std::vector<Tensor>;

struct Unary {
  const char* name;
  Tensor (*function)(const Tensor&);
  double low, high;
};
const Unary unary_rows[] = {
    {"log_sigmoid", [](const Tensor& x) { return log_sigmoid(x); }, -4, 4},
    {"mish", [](const Tensor& x) { return mish(x); }, -4, 4},
    {"silu", [](const Tensor& x) { return silu(x); }, -6, 6},
    {"softplus", [](const Tensor& x) { return softplus(x); }, -4, 4},
    {"tanh_shrink", [](const Tensor& x) { return tanh_shrink(x); }, -2, 2},
    {"gelu", [](const Tensor& x) { return gelu(x); }, -3, 3},
    {"gelu", [](const Tensor& x) { return gelu(x, GeluForm::tanh); }, -3, 3},
};

struct Kinked {
  const char* name;
  const char* usage;
  Tensor (*function)(const Tensor&);
};
// of values no closer to a kink than 0.1: those are at 0, 0.5, 1, 3, and 6
const double values_between_kinks[] = {-7.2, -3.4, -2.3, -1.6, -0.8, -0.3, 0.3, 0.7, 1.4, 2.6, 3.5, 5.1, 6.8};
const Kinked kinked_rows[] = {
    {"celu", "alpha 1", [](const Tensor& x) { return celu(x); }},
    {"celu", "alpha 1.3", [](const Tensor& x) { return celu(x, 1.3); }},
    {"elu", "alpha 1", [](const Tensor& x) { return elu(x); }},
    {"elu", "alpha 0.7", [](const Tensor& x) { return elu(x, 0.7); }},
    {"hard_shrink", "values", [](const Tensor& x) { return hard_shrink(x) * x; }},
    {"hard_sigmoid", "values", [](const Tensor& x) { return hard_sigmoid(x) * x; }},
    {"hard_swish", "values", [](const Tensor& x) { return hard_swish(x); }},
    {"hard_tanh", "limits -1 and 1", [](const Tensor& x) { return hard_tanh(x) * x; }},
    {"hard_tanh", "limits -3 and 0.5", [](const Tensor& x) { return hard_tanh(x, -3, 0.5) * x; }},
    {"leaky_relu", "slope 0.01", [](const Tensor& x) { return leaky_relu(x) * x; }},
    {"leaky_relu", "slope 0.2", [](const Tensor& x) { return leaky_relu(x, 0.2) * x; }},
    {"relu6", "values", [](const Tensor& x) { return relu6(x) * x; }},
    {"selu", "values", [](const Tensor& x) { return selu(x); }},
    {"soft_shrink", "values", [](const Tensor& x) { return soft_shrink(x) * x; }},
    {"softplus", "beta 2, threshold 1.2", [](const Tensor& x) { return softplus(x, {.beta = 2, .threshold = 1.2}); }},
    {"softsign", "values", [](const Tensor& x) { return softsign(x); }},
    {"threshold", "values", [](const Tensor& x) { return threshold(x, 0.5, -2) * x; }},
};

void add_structured(std::vector<GradientCase>& cases) {
  for (const int axis : {0, 1, -1})
    cases.push_back({"glu",
                     "axis " + std::to_string(axis),
                     [axis](const Tensors& in) { return glu(in[0], axis); },
                     {random_in(-2, 2, {2, 4, 6}, DType::float64, 51)}});
  cases.push_back({"glu", "of no rows", [](const Tensors& in) { return glu(in[0]); }, {random_in(-2, 2, {0, 4})}});
  const std::pair<Shape, Shape> kinds[] = {{{2, 3, 4}, {3}}, {{2, 3, 4}, {1}}, {{2, 3}, {}},
                                           {{4}, {4}},       {{}, {1}},        {{2, 0}, {0}}};
  for (const auto& [shape, weight] : kinds) {
    const Tensor size = random_in(0.4, 2, shape, DType::float64, 52);  // away from 0, on either side
    cases.push_back({"prelu",
                     to_string(shape) + " with weight " + to_string(weight),
                     [](const Tensors& in) { return prelu(in[0], in[1]); },
                     {where(random_in(-1, 1, shape) > 0, size, -size), random_in(-1, 1, weight, DType::float64, 53)}});
  }
}

}  // namespace

std::vector<GradientCase> activation_gradient_cases() {
  std::vector<GradientCase> cases;
  for (const Shape& shape : {Shape{3, 5}, Shape{}, Shape{0, 3}})
    for (const Unary& row : unary_rows)
      cases.push_back({row.name,
                       "shape " + to_string(shape),
                       [f = row.function](const Tensors& in) { return f(in[0]); },
                       {random_in(row.low, row.high, shape, DType::float64, 7)}});
  const Tensor x = from_vector(std::vector<double>(std::begin(values_between_kinks), std::end(values_between_kinks)));
  const Tensor none = zeros({2, 0}, {.dtype = DType::float64});
  for (const Kinked& row : kinked_rows)
    for (const Tensor& input : {x, transpose(expand_dims(x, 0)), Tensor(0.3), none})
      cases.push_back({row.name,
                       std::string(row.usage) + ", shape " + to_string(input.shape()),
                       [f = row.function](const Tensors& in) { return f(in[0]); },
                       {input}});
  add_structured(cases);
  return cases;
}

}  // namespace tests
