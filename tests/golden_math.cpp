// Mathematical functions and activations against PyTorch.
#include <algorithm>

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
  for (const char* name :
       {"acos",  "acosh",  "asin",  "asinh", "atan", "atanh", "ceil",  "cos",  "cosh", "erf",  "erfc", "expm1",
        "floor", "lgamma", "log10", "log1p", "log2", "round", "rsqrt", "sign", "sin",  "sinh", "tan",  "trunc"})
    ops.emplace(name, unary(unary_functions().at(name)));
  for (const char* name : {"atan2", "fmod", "remainder"}) ops.emplace(name, binary(binary_functions().at(name)));
  return ops;
}

const GoldenOps activation_ops = {
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

const GoldenOps structured_ops = {
    {"glu", [](const GoldenCall& c) { return std::vector<Tensor>{glu(c.tensor(0), c.option("dim", -1))}; }},
    {"pixel_shuffle",
     [](const GoldenCall& c) { return std::vector<Tensor>{pixel_shuffle(c.tensor(0), c.arg(1).get<std::int64_t>())}; }},
    {"pixel_unshuffle",
     [](const GoldenCall& c) {
       return std::vector<Tensor>{pixel_unshuffle(c.tensor(0), c.arg(1).get<std::int64_t>())};
     }},
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
  run_goldens("glu, prelu and shuffled pixels", {"pixel_shuffle"}, structured_ops);
}

namespace {

/// What PyTorch's own gradient is worth, where it is worth less than its values.
struct CoarseGradient {
  const char* file;
  GoldenOp op;
  double gradient;
};

const CoarseGradient coarse_gradients[] = {
    {"celu", with("alpha", 1, [](const Tensor& x, double alpha) { return celu(x, alpha); }),
     tolerance::constant_in_float32},
    {"digamma", unary([](const Tensor& x) { return digamma(x); }), tolerance::short_trigamma},
    {"hardsigmoid", unary([](const Tensor& x) { return hard_sigmoid(x); }), tolerance::constant_in_float32},
};

}  // namespace

TEST_CASE("functions whose gradient PyTorch itself rounds give its values, and its gradients as far", "[golden]") {
  if (golden_folder().empty()) return;
  GoldenCount count;
  for (const CoarseGradient& row : coarse_gradients) {
    INFO(row.file);
    const GoldenFile file = open_golden(row.file);
    REQUIRE(file.cases().size() > 0);
    for (const Json& spec : file.cases()) {
      bool passed = true;
      for (const DType type : {DType::float64, DType::float32}) {
        const double rounding = type == DType::float64 ? tolerance::golden64 : tolerance::roundings32;
        const std::string name = spec.at("args").at(0).at("t").get<std::string>();
        const std::map<std::string, Tensor> inputs = {{name, file.tensor(name, type)}};
        GradientTape tape;
        tape.watch(inputs.at(name));
        const Tensor y = row.op(GoldenCall(spec, inputs)).at(0);
        const bool near = close(y, file.tensor(spec.at("outs").at(0).get<std::string>(), type), rounding);
        const Tensor weight = file.tensor(spec.at("cots").at(0).get<std::string>(), type);
        const Tensor gradient = tape.gradient(y, inputs.at(name), {.output_gradient = weight});
        const Tensor expected = file.tensor(spec.at("grads").begin().value().get<std::string>(), type);
        const bool slope_near = close(gradient, expected, std::max(rounding, row.gradient));
        CHECK(near);
        CHECK(slope_near);
        passed = passed && near && slope_near;
      }
      count.add(passed);
    }
  }
  count.print("functions with coarse gradients");
}
