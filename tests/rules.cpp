#include "tests/rules.hpp"

#include <capstan/capstan.hpp>

namespace tests {

using namespace capstan;

// one a line
// clang-format off
#define UNARY(function) {#function, [](const Tensor& x) { return capstan::function(x); }}
#define BINARY(function) {#function, [](const Tensor& a, const Tensor& b) { return capstan::function(a, b); }}

/// With a slope for each value of operands that broadcast.
Tensor prelu_of_pairs(const Tensor& a, const Tensor& b) {
  const std::vector<Tensor> pair = broadcast_tensors({a, b});
  return reshape(prelu(reshape(pair[0], {-1}), reshape(pair[1], {-1})), pair[0].shape());
}

const std::map<std::string, UnaryFunction>& unary_functions() {
  static const std::map<std::string, UnaryFunction> functions = {
      UNARY(abs),
      UNARY(acos),
      UNARY(acosh),
      UNARY(asin),
      UNARY(asinh),
      UNARY(atan),
      UNARY(atanh),
      UNARY(cbrt),
      UNARY(ceil),
      UNARY(cos),
      UNARY(cosh),
      UNARY(digamma),
      UNARY(erf),
      UNARY(erfc),
      UNARY(erfinv),
      UNARY(exp),
      UNARY(exp2),
      UNARY(expm1),
      UNARY(floor),
      UNARY(gelu),
      {"gelu_tanh", [](const Tensor& x) { return gelu(x, GeluForm::tanh); }},
      UNARY(hard_sigmoid),
      UNARY(hard_swish),
      UNARY(lgamma),
      UNARY(log),
      UNARY(log10),
      UNARY(log1p),
      UNARY(log2),
      UNARY(log_sigmoid),
      UNARY(logit),
      UNARY(mish),
      UNARY(neg),
      UNARY(reciprocal),
      UNARY(relu),
      UNARY(relu6),
      UNARY(round),
      UNARY(rsqrt),
      UNARY(selu),
      UNARY(sigmoid),
      UNARY(sign),
      UNARY(silu),
      UNARY(sin),
      UNARY(sinh),
      UNARY(softsign),
      UNARY(sqrt),
      UNARY(square),
      UNARY(tan),
      UNARY(tanh),
      UNARY(tanh_shrink),
      UNARY(trunc),
  };
  return functions;
}

const std::map<std::string, UnaryFunction>& parametric_functions() {
  static const std::map<std::string, UnaryFunction> functions = {
      UNARY(celu),
      {"clip", [](const Tensor& x) { return clip(x, -1, 1); }},
      UNARY(elu),
      UNARY(hard_shrink),
      UNARY(hard_tanh),
      UNARY(leaky_relu),
      {"polygamma", [](const Tensor& x) { return polygamma(1, x); }},
      {"pow", [](const Tensor& x) { return pow(x, 2.5); }},
      UNARY(soft_shrink),
      UNARY(softplus),
      {"threshold", [](const Tensor& x) { return threshold(x, 0.5, -2); }},
  };
  return functions;
}

const std::map<std::string, BinaryFunction>& binary_functions() {
  static const std::map<std::string, BinaryFunction> functions = {
      BINARY(add),
      BINARY(atan2),
      BINARY(copysign),
      BINARY(div),
      BINARY(floor_divide),
      BINARY(fmax),
      BINARY(fmin),
      BINARY(fmod),
      BINARY(hypot),
      BINARY(logaddexp),
      BINARY(maximum),
      BINARY(minimum),
      BINARY(mul),
      BINARY(nextafter),
      BINARY(pow),
      {"prelu", &prelu_of_pairs},
      BINARY(remainder),
      BINARY(sub),
      BINARY(xlogy),
  };
  return functions;
}

// clang-format on
#undef UNARY
#undef BINARY

}  // namespace tests
