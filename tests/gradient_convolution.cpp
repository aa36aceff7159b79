// Uses of convolutions, and of their layers, whose gradients are checked.
#include <memory>

#include "tests/gradient_check.hpp"
#include "tests/support.hpp"

using namespace capstan;

namespace tests {

namespace {

using Tensors = std::vector<Tensor>;

Tensor random(const Shape& shape, std::uint64_t seed) { return random_in(-1, 1, shape, DType::float64, seed); }

/// A layer's result as a function of its input and all of its parameters: the first input, then those of the layer.
template <class Layer>
GradientCase layer_case(const std::string& op, const std::string& usage, const Layer& layer, const Shape& input) {
  const auto own = std::make_shared<Layer>(layer);
  Tensors inputs = {random(input, 5)};
  for (const Tensor& p : nn::parameters(*own)) inputs.push_back(p.copy());
  return {op, usage,
          [own](const Tensors& in) {
            std::size_t next = 1;
            const nn::detail::Outline outline = nn::detail::outline_of(*own);
            for (const nn::detail::Leaf& leaf : outline.leaves)
              if (leaf.parameter && leaf.value.defined()) *leaf.slot = in[next++];
            return square((*own)(in[0]));
          },
          inputs};
}

}  // namespace

std::vector<GradientCase> convolution_gradient_cases() {
  std::vector<GradientCase> cases;
  const auto add = [&](const std::string& op, const std::string& usage, const TensorFunction& f, Tensors inputs) {
    cases.push_back({op, usage, f, std::move(inputs)});
  };
  add("conv1d", "stride and dilation",
      [](const Tensors& in) { return square(conv1d(in[0], in[1], in[2], {.stride = 2, .dilation = 2})); },
      {random({2, 3, 9}, 1), random({4, 3, 3}, 2), random({4}, 3)});
  add("conv2d", "asymmetric padding",
      [](const Tensors& in) {
        return square(conv2d(in[0], in[1], in[2], {.padding = {{0, 1}, {2, 0}}}));
      },
      {random({2, 2, 4, 5}, 4), random({3, 2, 3, 2}, 5), random({3}, 6)});
  add("conv2d", "groups, same, without bias",
      [](const Tensors& in) {
        return conv2d(in[0], in[1], Tensor(), {.stride = 2, .padding = nn::same, .groups = 2}) * 2;
      },
      {random({1, 4, 5, 4}, 7), random({6, 2, 3, 3}, 8)});
  add("conv2d", "a view without a batch", [](const Tensors& in) { return square(conv2d(transpose(in[0]), in[1])); },
      {random({5, 4, 2}, 9), random({2, 2, 2, 3}, 10)});
  add("conv2d", "with itself", [](const Tensors& in) { return conv2d(in[0], in[0], Tensor(), {.padding = 1}); },
      {random({2, 2, 3, 3}, 11)});
  add("conv3d", "stride",
      [](const Tensors& in) {
        return square(conv3d(in[0], in[1], in[2], {.stride = {1, 2, 1}, .padding = 1}));
      },
      {random({1, 2, 3, 4, 3}, 12), random({2, 2, 2, 3, 2}, 13), random({2}, 14)});
  add("conv_transpose1d", "output padding",
      [](const Tensors& in) {
        return square(conv_transpose1d(in[0], in[1], in[2], {.stride = 3, .padding = 1, .output_padding = 2}));
      },
      {random({2, 3, 4}, 15), random({3, 2, 4}, 16), random({2}, 17)});
  add("conv_transpose2d", "groups and dilation",
      [](const Tensors& in) {
        return square(conv_transpose2d(in[0], in[1], in[2], {.stride = 2, .dilation = {1, 2}, .groups = 2}));
      },
      {random({1, 4, 3, 2}, 18), random({4, 2, 2, 3}, 19), random({4}, 20)});
  add("conv_transpose3d", "plain", [](const Tensors& in) { return square(conv_transpose3d(in[0], in[1])); },
      {random({1, 2, 2, 2, 3}, 21), random({2, 2, 2, 1, 2}, 22)});
  add("depthwise_conv2d", "two of each",
      [](const Tensors& in) { return square(depthwise_conv2d(in[0], in[1], in[2], {.padding = 1})); },
      {random({2, 2, 4, 3}, 23), random({4, 1, 3, 3}, 24), random({4}, 25)});
  add("separable_conv2d", "plain", [](const Tensors& in) { return separable_conv2d(in[0], in[1], in[2], in[3]); },
      {random({1, 2, 4, 3}, 26), random({4, 1, 2, 2}, 27), random({3, 4, 1, 1}, 28), random({3}, 29)});

  const DType f64 = DType::float64;
  cases.push_back(layer_case("conv1d", "nn::Conv1d",
                             nn::Conv1d({.in = 2, .out = 3, .kernel = 3, .padding = nn::same, .dtype = f64}),
                             {2, 2, 5}));
  cases.push_back(layer_case("conv2d", "nn::Conv2d",
                             nn::Conv2d({.in = 4, .out = 2, .kernel = {2, 3}, .stride = 2, .groups = 2, .dtype = f64}),
                             {2, 4, 4, 5}));
  cases.push_back(
      layer_case("conv3d", "nn::Conv3d", nn::Conv3d({.in = 1, .out = 2, .kernel = 2, .dtype = f64}), {1, 1, 3, 2, 3}));
  cases.push_back(layer_case("conv_transpose1d", "nn::ConvTranspose1d",
                             nn::ConvTranspose1d({.in = 2, .out = 3, .kernel = 3, .stride = 2, .dtype = f64}),
                             {2, 2, 3}));
  cases.push_back(layer_case("conv_transpose2d", "nn::ConvTranspose2d",
                             nn::ConvTranspose2d({.in = 2, .out = 2, .kernel = 2, .padding = 1, .dtype = f64}),
                             {1, 2, 3, 3}));
  cases.push_back(layer_case("conv_transpose3d", "nn::ConvTranspose3d",
                             nn::ConvTranspose3d({.in = 1, .out = 2, .kernel = 2, .dtype = f64}), {1, 1, 2, 2, 2}));
  cases.push_back(layer_case("depthwise_conv2d", "nn::DepthwiseConv2d",
                             nn::DepthwiseConv2d({.in = 2, .multiplier = 2, .kernel = 2, .dtype = f64}), {1, 2, 3, 3}));
  cases.push_back(layer_case("separable_conv2d", "nn::SeparableConv2d",
                             nn::SeparableConv2d({.in = 2, .out = 3, .kernel = 2, .dtype = f64}), {1, 2, 3, 3}));
  return cases;
}

}  // namespace tests
