#pragma once
// Gradients against central differences.
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <capstan/nn/outline.hpp>
#include <capstan/tensor.hpp>

namespace tests {

using TensorFunction = std::function<capstan::Tensor(const std::vector<capstan::Tensor>&)>;

/// Checks that capstan::check_gradient finds nothing wrong, twice: with fresh memory full of NaN (finds elements never
/// written), then full of ones (finds `+=` where `=` was meant). Inputs must be float64.
void expect_gradient(const TensorFunction& function, const std::vector<capstan::Tensor>& inputs, int order = 2);

/// Multiples of 0.3 around 0, each once, shuffled: no difference makes two of them change places.
capstan::Tensor spaced(const capstan::Shape& shape, std::uint64_t seed);

/// One use of a differentiable operation.
struct GradientCase {
  std::string op;     ///< the public function's name
  std::string usage;  ///< which use of it
  TensorFunction function;
  std::vector<capstan::Tensor> inputs;
};

std::vector<GradientCase> cell_gradient_cases();
std::vector<GradientCase> cell_wrapper_gradient_cases();
std::vector<GradientCase> convolution_gradient_cases();
std::vector<GradientCase> ctc_gradient_cases();
std::vector<GradientCase> elementwise_gradient_cases();
std::vector<GradientCase> math_gradient_cases();
std::vector<GradientCase> activation_gradient_cases();
std::vector<GradientCase> attention_gradient_cases();
std::vector<GradientCase> reduction_gradient_cases();
std::vector<GradientCase> shaping_gradient_cases();
std::vector<GradientCase> index_gradient_cases();
std::vector<GradientCase> layer_gradient_cases();
std::vector<GradientCase> linalg_gradient_cases();
std::vector<GradientCase> losses_gradient_cases();
std::vector<GradientCase> memory_attention_gradient_cases();
std::vector<GradientCase> neural_gradient_cases();
std::vector<GradientCase> normalization_gradient_cases();
std::vector<GradientCase> rearranging_gradient_cases();
std::vector<GradientCase> moments_gradient_cases();
std::vector<GradientCase> order_gradient_cases();
std::vector<GradientCase> pooling_gradient_cases();
std::vector<GradientCase> recurrent_gradient_cases();
std::vector<GradientCase> recurrent_layer_gradient_cases();
std::vector<GradientCase> resampling_gradient_cases();
std::vector<GradientCase> sampled_gradient_cases();
std::vector<GradientCase> training_gradient_cases();
std::vector<GradientCase> unroll_gradient_cases();
/// Every case of every list.
std::vector<GradientCase> all_gradient_cases();
/// Names of the functions that the headers of operations declare with tensors as their result; none if the headers are
/// not beside the tests.
std::set<std::string> public_operations();

/// The parameters of a model, in their order, become in[first], in[first + 1] and so on.
template <class Model>
void put_all(Model& model, const std::vector<capstan::Tensor>& in, std::size_t first) {
  const capstan::nn::detail::Outline outline = capstan::nn::detail::outline_of(model);
  for (const capstan::nn::detail::Leaf& leaf : outline.leaves)
    if (leaf.parameter && leaf.value.defined()) *leaf.slot = in.at(first++);
}

}  // namespace tests
