// Uses of mathematical functions whose gradients are checked. Domains stay away from poles and steps.
#include "tests/gradient_check.hpp"
#include "tests/support.hpp"

using namespace capstan;

namespace tests {

namespace {

using Tensors = std::vector<Tensor>;

struct Unary {
  const char* name;
  const char* usage;
  Tensor (*function)(const Tensor&);
  double low, high;
};
const Unary unary_rows[] = {
    {"acos", "values", [](const Tensor& x) { return acos(x); }, -0.8, 0.8},
    {"acosh", "values", [](const Tensor& x) { return acosh(x); }, 1.5, 4},
    {"asin", "values", [](const Tensor& x) { return asin(x); }, -0.8, 0.8},
    {"asinh", "values", [](const Tensor& x) { return asinh(x); }, -3, 3},
    {"atan", "values", [](const Tensor& x) { return atan(x); }, -3, 3},
    {"atanh", "values", [](const Tensor& x) { return atanh(x); }, -0.7, 0.7},
    {"cbrt", "values", [](const Tensor& x) { return cbrt(x); }, 0.4, 3},
    {"cbrt", "negative values", [](const Tensor& x) { return cbrt(x); }, -3, -0.4},
    {"ceil", "between whole numbers", [](const Tensor& x) { return ceil(x); }, 1.1, 1.9},
    {"cos", "values", [](const Tensor& x) { return cos(x); }, -4, 4},
    {"cosh", "values", [](const Tensor& x) { return cosh(x); }, -2, 2},
    {"digamma", "values", [](const Tensor& x) { return digamma(x); }, 0.6, 3},
    {"digamma", "negative values", [](const Tensor& x) { return digamma(x); }, -1.7, -1.3},
    {"erf", "values", [](const Tensor& x) { return erf(x); }, -2, 2},
    {"erfc", "values", [](const Tensor& x) { return erfc(x); }, -2, 2},
    {"erfinv", "values", [](const Tensor& x) { return erfinv(x); }, -0.8, 0.8},
    {"exp2", "values", [](const Tensor& x) { return exp2(x); }, -2, 2},
    {"expm1", "values", [](const Tensor& x) { return expm1(x); }, -2, 2},
    {"floor", "between whole numbers", [](const Tensor& x) { return floor(x); }, -1.9, -1.1},
    {"lgamma", "values", [](const Tensor& x) { return lgamma(x); }, 0.6, 3},
    {"lgamma", "negative values", [](const Tensor& x) { return lgamma(x); }, -1.7, -1.3},
    {"log10", "values", [](const Tensor& x) { return log10(x); }, 0.3, 3},
    {"log1p", "values", [](const Tensor& x) { return log1p(x); }, -0.6, 3},
    {"log2", "values", [](const Tensor& x) { return log2(x); }, 0.3, 3},
    {"logit", "values", [](const Tensor& x) { return logit(x); }, 0.15, 0.85},
    {"logit", "inside of its limits", [](const Tensor& x) { return logit(x, 0.1); }, 0.15, 0.85},
    {"logit", "outside of its limits", [](const Tensor& x) { return logit(x, 0.3) * x; }, 0.1, 0.25},
    {"polygamma", "order 0", [](const Tensor& x) { return polygamma(0, x); }, 0.6, 3},
    {"polygamma", "order 1", [](const Tensor& x) { return polygamma(1, x); }, 0.6, 3},
    {"polygamma", "order 3, negative values", [](const Tensor& x) { return polygamma(3, x); }, -1.7, -1.3},
    {"round", "between the steps", [](const Tensor& x) { return round(x) * x; }, 0.6, 1.4},
    {"rsqrt", "values", [](const Tensor& x) { return rsqrt(x); }, 0.4, 3},
    {"sign", "positive values", [](const Tensor& x) { return sign(x); }, 0.4, 3},
    {"sin", "values", [](const Tensor& x) { return sin(x); }, -4, 4},
    {"sinh", "values", [](const Tensor& x) { return sinh(x); }, -2, 2},
    {"tan", "values", [](const Tensor& x) { return tan(x); }, -1, 1},
    {"trunc", "between whole numbers", [](const Tensor& x) { return trunc(x) * x; }, 1.1, 1.9},
};

struct Binary {
  const char* name;
  Tensor (*function)(const Tensor&, const Tensor&);
  double a_low, a_high, b_low, b_high;
};
const Binary binary_rows[] = {
    {"atan2", [](const Tensor& a, const Tensor& b) { return atan2(a, b); }, 0.5, 2, -2, -0.5},
    {"copysign", [](const Tensor& a, const Tensor& b) { return copysign(a, b) * b; }, 0.5, 2, -2, -0.5},
    {"floor_divide", [](const Tensor& a, const Tensor& b) { return floor_divide(a, b) * b; }, 2.1, 2.8, 0.95, 1},
    {"fmax", [](const Tensor& a, const Tensor& b) { return fmax(a, b) * b; }, 0.5, 2, 0.5, 2},
    {"fmin", [](const Tensor& a, const Tensor& b) { return fmin(a, b) * b; }, 0.5, 2, 0.5, 2},
    {"fmod", [](const Tensor& a, const Tensor& b) { return fmod(a, b) * b; }, -2.8, -2.1, 0.95, 1},
    {"hypot", [](const Tensor& a, const Tensor& b) { return hypot(a, b); }, 0.5, 2, -2, -0.5},
    {"logaddexp", [](const Tensor& a, const Tensor& b) { return logaddexp(a, b); }, -2, 2, -2, 2},
    {"remainder", [](const Tensor& a, const Tensor& b) { return remainder(a, b) * b; }, -2.8, -2.1, 0.95, 1},
    {"xlogy", [](const Tensor& a, const Tensor& b) { return xlogy(a, b); }, -2, 2, 0.5, 2},
};
const std::pair<Shape, Shape> broadcast_pairs[] = {
    {{3, 4}, {3, 4}}, {{3, 4}, {4}}, {{3, 1}, {1, 4}}, {{}, {2, 3}}, {{2, 3}, {}}, {{}, {}}, {{2, 0}, {1}},
};

void add_number_forms(std::vector<GradientCase>& cases) {
  const auto use = [&](const char* op, const char* usage, Tensor (*function)(const Tensor&), const Tensor& x) {
    cases.push_back({op, usage, [function](const Tensors& in) { return function(in[0]); }, {x}});
  };
  const Tensor x = random_in(0.5, 0.9, {3, 5}, DType::float64, 41);
  use(
      "atan2", "atan2(x, 2)", [](const Tensor& t) { return atan2(t, 2); }, x);
  use(
      "copysign", "copysign(x, -1)", [](const Tensor& t) { return copysign(t, -1); }, x);
  use(
      "fmax", "fmax(x, 0.1)", [](const Tensor& t) { return fmax(t, 0.1); }, x);
  use(
      "fmin", "fmin(x, 0.1)", [](const Tensor& t) { return fmin(t, 0.1); }, x);
  use(
      "fmod", "fmod(x, 0.4)", [](const Tensor& t) { return fmod(t, 0.4); }, Tensor{0.5, 0.6, 0.7, -0.5});
  use(
      "hypot", "hypot(x, 3)", [](const Tensor& t) { return hypot(t, 3); }, x);
  use(
      "logaddexp", "logaddexp(x, 0)", [](const Tensor& t) { return logaddexp(t, 0); }, x);
  use(
      "remainder", "x % 0.4", [](const Tensor& t) { return t % 0.4; }, Tensor{0.5, 0.6, 0.7, -0.5});
  use(
      "remainder", "2 % x", [](const Tensor& t) { return 2 % t; }, Tensor{0.55, 0.61, 0.7, -0.75});
  use(
      "xlogy", "of itself", [](const Tensor& t) { return xlogy(t, t); }, x);
  use(
      "sin", "of a transposed tensor", [](const Tensor& t) { return sin(transpose(t)); }, x);
  use(
      "erf", "of every second value, backwards",
      [](const Tensor& t) {
        return erf(t.index({all, from(-1, -2)}));
      },
      x);
}

}  // namespace

std::vector<GradientCase> math_gradient_cases() {
  std::vector<GradientCase> cases;
  for (const Shape& shape : {Shape{3, 5}, Shape{}, Shape{0, 3}})
    for (const Unary& row : unary_rows)
      cases.push_back({row.name,
                       std::string(row.usage) + ", shape " + to_string(shape),
                       [f = row.function](const Tensors& in) { return f(in[0]); },
                       {random_in(row.low, row.high, shape, DType::float64, 7)}});
  for (const auto& [left, right] : broadcast_pairs)
    for (const Binary& row : binary_rows)
      cases.push_back({row.name,
                       to_string(left) + " with " + to_string(right),
                       [f = row.function](const Tensors& in) { return f(in[0], in[1]); },
                       {random_in(row.a_low, row.a_high, left, DType::float64, 11),
                        random_in(row.b_low, row.b_high, right, DType::float64, 12)}});
  add_number_forms(cases);
  return cases;
}

}  // namespace tests
