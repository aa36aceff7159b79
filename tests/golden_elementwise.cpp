// Elementwise operations and reductions against PyTorch.
#include "tests/goldens.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

template <class F>
GoldenOp unary(F f) {
  return [f](const GoldenCall& c) { return std::vector<Tensor>{f(c.tensor(0))}; };
}
template <class F>
GoldenOp binary(F f) {
  return [f](const GoldenCall& c) { return std::vector<Tensor>{f(c.tensor(0), c.tensor(1))}; };
}
/// `f(x, axes, options)` with torch's "dim" and "keepdim".
template <class F>
GoldenOp reduction(F f) {
  return [f](const GoldenCall& c) {
    const Axes axes = c.has("dim") ? axes_of(c.option("dim")) : Axes{};
    return std::vector<Tensor>{f(c.tensor(0), axes, ReduceOptions{.keepdims = c.option("keepdim", false)})};
  };
}

/// The same for variances, with torch's "unbiased", which is on unless said otherwise.
template <class F>
GoldenOp variance(F f) {
  return [f](const GoldenCall& c) {
    const VarianceOptions options{.correction = c.option("unbiased", true) ? 1.0 : 0.0,
                                  .keepdims = c.option("keepdim", false)};
    return std::vector<Tensor>{f(c.tensor(0), axes_of(c.option("dim")), options)};
  };
}

const GoldenOps elementwise_ops = {
    {"abs", unary([](const Tensor& x) { return abs(x); })},
    {"exp", unary([](const Tensor& x) { return exp(x); })},
    {"log", unary([](const Tensor& x) { return log(x); })},
    {"neg", unary([](const Tensor& x) { return -x; })},
    {"reciprocal", unary([](const Tensor& x) { return reciprocal(x); })},
    {"relu", unary([](const Tensor& x) { return relu(x); })},
    {"sigmoid", unary([](const Tensor& x) { return sigmoid(x); })},
    {"sqrt", unary([](const Tensor& x) { return sqrt(x); })},
    {"square", unary([](const Tensor& x) { return square(x); })},
    {"tanh", unary([](const Tensor& x) { return tanh(x); })},
    {"add", binary([](const Tensor& a, const Tensor& b) { return a + b; })},
    {"sub", binary([](const Tensor& a, const Tensor& b) { return a - b; })},
    {"mul", binary([](const Tensor& a, const Tensor& b) { return a * b; })},
    {"div", binary([](const Tensor& a, const Tensor& b) { return a / b; })},
    {"pow", binary([](const Tensor& a, const Tensor& b) { return pow(a, b); })},
    {"maximum", binary([](const Tensor& a, const Tensor& b) { return maximum(a, b); })},
    {"minimum", binary([](const Tensor& a, const Tensor& b) { return minimum(a, b); })},
    {"eq", binary([](const Tensor& a, const Tensor& b) { return equal(a, b); })},
    {"ne", binary([](const Tensor& a, const Tensor& b) { return not_equal(a, b); })},
    {"lt", binary([](const Tensor& a, const Tensor& b) { return a < b; })},
    {"le", binary([](const Tensor& a, const Tensor& b) { return a <= b; })},
    {"gt", binary([](const Tensor& a, const Tensor& b) { return a > b; })},
    {"ge", binary([](const Tensor& a, const Tensor& b) { return a >= b; })},
    {"hardtanh",
     [](const GoldenCall& c) {
       return std::vector<Tensor>{clip(c.tensor(0), c.option("min_val", -1.0), c.option("max_val", 1.0))};
     }},
    {"relu6", unary([](const Tensor& x) { return clip(x, 0, 6); })},
};

// Operations that are a line of others: each tries a combination of rules.
const GoldenOps composed_ops = {
    {"silu", unary([](const Tensor& x) { return x * sigmoid(x); })},
    {"softsign", unary([](const Tensor& x) { return x / (1 + abs(x)); })},
    {"tanhshrink", unary([](const Tensor& x) { return x - tanh(x); })},
    {"rsqrt", unary([](const Tensor& x) { return reciprocal(sqrt(x)); })},
    {"hardswish", unary([](const Tensor& x) { return x * clip(x + 3, 0, 6) / 6; })},
    {"threshold",
     [](const GoldenCall& c) {
       const Tensor& x = c.tensor(0);
       return std::vector<Tensor>{where(x > c.option("threshold", 0.0), x, c.option("value", 0.0))};
     }},
    {"leaky_relu",
     [](const GoldenCall& c) {
       const Tensor& x = c.tensor(0);
       return std::vector<Tensor>{where(x > 0, x, x * c.option("negative_slope", 0.01))};
     }},
    {"hardshrink",
     [](const GoldenCall& c) {
       const Tensor& x = c.tensor(0);
       return std::vector<Tensor>{where(abs(x) > c.option("lambd", 0.5), x, 0)};
     }},
    {"softshrink",
     [](const GoldenCall& c) {
       const double bound = c.option("lambd", 0.5);
       return std::vector<Tensor>{c.tensor(0) - clip(c.tensor(0), -bound, bound)};
     }},
};

const GoldenOps reduction_ops = {
    {"sum", reduction([](const Tensor& x, Axes a, ReduceOptions o) { return sum(x, a, o); })},
    {"mean", reduction([](const Tensor& x, Axes a, ReduceOptions o) { return mean(x, a, o); })},
    {"prod", reduction([](const Tensor& x, Axes a, ReduceOptions o) { return prod(x, a, o); })},
    {"var", variance([](const Tensor& x, Axes a, VarianceOptions o) { return var(x, a, o); })},
    {"std", variance([](const Tensor& x, Axes a, VarianceOptions o) { return capstan::std(x, a, o); })},
    {"amax", reduction([](const Tensor& x, Axes a, ReduceOptions o) { return max(x, a, o); })},
    {"amin", reduction([](const Tensor& x, Axes a, ReduceOptions o) { return min(x, a, o); })},
    {"logsumexp", reduction([](const Tensor& x, Axes a, ReduceOptions o) { return logsumexp(x, a, o); })},
    {"max", unary([](const Tensor& x) { return max(x); })},
    {"min", unary([](const Tensor& x) { return min(x); })},
    {"max_dim",
     [](const GoldenCall& c) {
       const int axis = c.option("dim", 0);
       const ReduceOptions keep{.keepdims = c.option("keepdim", false)};
       return std::vector<Tensor>{max(c.tensor(0), axis, keep), argmax(c.tensor(0), axis, keep)};
     }},
    {"min_dim",
     [](const GoldenCall& c) {
       const int axis = c.option("dim", 0);
       const ReduceOptions keep{.keepdims = c.option("keepdim", false)};
       return std::vector<Tensor>{min(c.tensor(0), axis, keep), argmax(-c.tensor(0), axis, keep)};
     }},
    {"argmax",
     [](const GoldenCall& c) {
       if (!c.has("dim")) return std::vector<Tensor>{argmax(c.tensor(0))};
       const ReduceOptions keep{.keepdims = c.option("keepdim", false)};
       return std::vector<Tensor>{argmax(c.tensor(0), c.option("dim", 0), keep)};
     }},
    {"softmax", [](const GoldenCall& c) { return std::vector<Tensor>{softmax(c.tensor(0), c.option("dim", -1))}; }},
    {"log_softmax",
     [](const GoldenCall& c) { return std::vector<Tensor>{log_softmax(c.tensor(0), c.option("dim", -1))}; }},
};

}  // namespace

TEST_CASE("elementwise operations give PyTorch's values and gradients", "[golden]") {
  run_goldens("elementwise operations",
              {"abs",  "exp", "log", "neg", "reciprocal", "relu",     "sigmoid", "sqrt",    "square",
               "tanh", "add", "sub", "mul", "div",        "pow",      "maximum", "minimum", "eq",
               "ne",   "lt",  "le",  "gt",  "ge",         "hardtanh", "relu6"},
              elementwise_ops);
}

TEST_CASE("compositions of elementwise operations give PyTorch's values and gradients", "[golden]") {
  run_goldens(
      "compositions",
      {"silu", "softsign", "tanhshrink", "rsqrt", "hardswish", "threshold", "leaky_relu", "hardshrink", "softshrink"},
      composed_ops);
}

TEST_CASE("reductions give PyTorch's values and gradients", "[golden]") {
  run_goldens("reductions",
              {"sum", "mean", "prod", "var", "std", "max", "min", "amax", "amin", "argmax", "logsumexp", "softmax",
               "log_softmax"},
              reduction_ops);
}
