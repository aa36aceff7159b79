#pragma once
// Gradients against central differences.
#include <functional>
#include <string>
#include <vector>

#include <capstan/tensor.hpp>

namespace tests {

using TensorFunction = std::function<capstan::Tensor(const std::vector<capstan::Tensor>&)>;

/// Checks the gradient of sum(w * function(inputs)), w fixed and random, by central differences; with order 2 also the
/// gradient of sum(u * that gradient), recorded by an outer tape, by central differences of the first.
/// Everything runs twice: with fresh memory full of NaN (finds elements never written), then full of ones (finds
/// `+=` where `=` was meant). Inputs must be float64.
void check_gradient(const TensorFunction& function, const std::vector<capstan::Tensor>& inputs, int order = 2);

/// One use of a differentiable operation.
struct GradientCase {
  std::string op;     ///< the public function's name
  std::string usage;  ///< which use of it
  TensorFunction function;
  std::vector<capstan::Tensor> inputs;
};

std::vector<GradientCase> elementwise_gradient_cases();
std::vector<GradientCase> reduction_gradient_cases();
std::vector<GradientCase> shaping_gradient_cases();
std::vector<GradientCase> neural_gradient_cases();

}  // namespace tests
