// Mathematical functions and activations against PyTorch.
#include "tests/goldens.hpp"
#include "tests/rules.hpp"
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
/// `f(x, number)` with one of torch's options.
template <class F>
GoldenOp with(const char* option, double otherwise, F f) {
  return [=](const GoldenCall& c) { return std::vector<Tensor>{f(c.tensor(0), c.option(option, otherwise))}; };
}

/// The functions that are named alike here and there.
GoldenOps math_ops() {
  GoldenOps ops;
  for (const char* name : {"acos",  "acosh", "asin",  "asinh", "atan",   "atanh", "ceil",  "cos", "cosh",
                           "digamma", "erf", "erfc",  "expm1", "floor",  "lgamma", "log10", "log1p", "log2",
                           "round", "rsqrt", "sign",  "sin",   "sinh",   "tan",   "trunc"})
    ops.emplace(name, unary(unary_functions().at(name)));
  for (const char* name : {"atan2", "fmod", "remainder"}) ops.emplace(name, binary(binary_functions().at(name)));
  return ops;
}

const GoldenOps activation_ops = {
    {"celu", with("alpha", 1, [](const Tensor& x, double alpha) { return celu(x, alpha); })},
    {"elu", with("alpha", 1, [](const Tensor& x, double alpha) { return elu(x, alpha); })},
    {"gelu",
     [](const GoldenCall& c) {
       const bool rough = c.option<std::string>("approximate", "none") == "tanh";
       return std::vector<Tensor>{gelu(c.tensor(0), rough ? GeluForm::tanh : GeluForm::exact)};
     }},
    {"hardshrink", with("lambd", 0.5, [](const Tensor& x, double bound) { return hard_shrink(x, bound); })},
    {"hardswish", unary([](const Tensor& x) { return hard_swish(x); })},
    {"hardtanh",
     [](const GoldenCall& c) {
       return std::vector<Tensor>{hard_tanh(c.tensor(0), c.option("min_val", -1.0), c.option("max_val", 1.0))};
     }},
    {"leaky_relu", with("negative_slope", 0.01, [](const Tensor& x, double slope) { return leaky_relu(x, slope); })},
    {"logsigmoid", unary([](const Tensor& x) { return log_sigmoid(x); })},
    {"mish", unary([](const Tensor& x) { return mish(x); })},
    {"relu6", unary([](const Tensor& x) { return relu6(x); })},
    {"selu", unary([](const Tensor& x) { return selu(x); })},
    {"silu", unary([](const Tensor& x) { return silu(x); })},
    {"softplus",
     [](const GoldenCall& c) {
       return std::vector<Tensor>{
           softplus(c.tensor(0), {.beta = c.option("beta", 1.0), .threshold = c.option("threshold", 20.0)})};
     }},
    {"softshrink", with("lambd", 0.5, [](const Tensor& x, double bound) { return soft_shrink(x, bound); })},
    {"softsign", unary([](const Tensor& x) { return softsign(x); })},
    {"tanhshrink", unary([](const Tensor& x) { return tanh_shrink(x); })},
    {"threshold",
     [](const GoldenCall& c) {
       return std::vector<Tensor>{threshold(c.tensor(0), c.option("threshold", 0.0), c.option("value", 0.0))};
     }},
};

// The others of this file belong to other subjects.
const GoldenOps structured_ops = {
    {"glu", [](const GoldenCall& c) { return std::vector<Tensor>{glu(c.tensor(0), c.option("dim", -1))}; }},
    {"prelu", binary([](const Tensor& x, const Tensor& weight) { return prelu(x, weight); })},
};

}  // namespace

TEST_CASE("mathematical functions give PyTorch's values and gradients", "[golden]") {
  const GoldenOps ops = math_ops();
  std::vector<std::string> files;
  for (const auto& [op_name, op] : ops) files.push_back(op_name);
  run_goldens("mathematical functions", files, ops);
}

TEST_CASE("activations give PyTorch's values and gradients", "[golden]") {
  std::vector<std::string> files;
  for (const auto& [op_name, op] : activation_ops) files.push_back(op_name);
  run_goldens("activations", files, activation_ops);
  run_goldens("glu and prelu", {"pixel_shuffle"}, structured_ops);
}

// PyTorch multiplies the gradient with a sixth in float32, which is off by 3e-8; hence a tolerance of its own.
TEST_CASE("hard_sigmoid gives PyTorch's values, and its gradients to what a sixth in float32 is worth", "[golden]") {
  if (golden_folder().empty()) return;
  const GoldenFile file = open_golden("hardsigmoid");
  REQUIRE(file.cases().size() > 0);
  for (const Json& spec : file.cases()) {
    const auto tensor = [&](const Json& name) { return file.tensor(name.get<std::string>(), DType::float64); };
    const Tensor x = tensor(spec.at("args").at(0).at("t"));
    GradientTape tape;
    tape.watch(x);
    const Tensor y = hard_sigmoid(x);
    CHECK(close(y, tensor(spec.at("outs").at(0)), tolerance::golden64));
    const Tensor gradient = tape.gradient(y, x, {.output_gradient = tensor(spec.at("cots").at(0))});
    CHECK(close(gradient, tensor(spec.at("grads").begin().value()), tolerance::sixth_in_float32));
  }
}
