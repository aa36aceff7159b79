// Convolutions against PyTorch.
#include "tests/goldens.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Tensors = std::vector<Tensor>;

Sizes sizes_of(const GoldenCall& c, const std::string& key, std::int64_t otherwise) {
  if (!c.has(key)) return otherwise;
  const Json& value = c.option(key);
  return value.is_array() ? Sizes(value.get<std::vector<std::int64_t>>()) : Sizes(value.get<std::int64_t>());
}

/// torch's "same" puts the odd zero at the end too.
Borders padding_of(const GoldenCall& c, int axes) {
  if (!c.has("padding")) return 0;
  const Json& value = c.option("padding");
  if (value.is_string()) return value.get<std::string>() == "same" ? PaddingRule::same : PaddingRule::valid;
  if (!value.is_array()) return value.get<std::int64_t>();
  const auto each = value.get<std::vector<std::int64_t>>();
  if (axes == 1) return each.at(0);
  if (axes == 2) return {each.at(0), each.at(1)};
  return {each.at(0), each.at(1), each.at(2)};
}

Tensor bias_of(const GoldenCall& c) { return c.is_tensor(2) ? c.tensor(2) : Tensor(); }

using Convolution = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const ConvOptions&, Where);
using Transposed = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const ConvTransposeOptions&, Where);

template <Convolution function, int axes>
Tensors convolve(const GoldenCall& c) {
  return {function(c.tensor(0), c.tensor(1), bias_of(c),
                   {.stride = sizes_of(c, "stride", 1),
                    .padding = padding_of(c, axes),
                    .dilation = sizes_of(c, "dilation", 1),
                    .groups = c.option<std::int64_t>("groups", 1)},
                   Where::current())};
}
template <Transposed function, int axes>
Tensors transposed(const GoldenCall& c) {
  return {function(c.tensor(0), c.tensor(1), bias_of(c),
                   {.stride = sizes_of(c, "stride", 1),
                    .padding = padding_of(c, axes),
                    .output_padding = sizes_of(c, "output_padding", 0),
                    .dilation = sizes_of(c, "dilation", 1),
                    .groups = c.option<std::int64_t>("groups", 1)},
                   Where::current())};
}

}  // namespace

TEST_CASE("convolutions give PyTorch's values and gradients", "[golden][convolution]") {
  run_goldens("convolutions",
              {"conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"},
              {{"conv1d", convolve<conv1d, 1>},
               {"conv2d", convolve<conv2d, 2>},
               {"conv3d", convolve<conv3d, 3>},
               {"conv_transpose1d", transposed<conv_transpose1d, 1>},
               {"conv_transpose2d", transposed<conv_transpose2d, 2>},
               {"conv_transpose3d", transposed<conv_transpose3d, 3>}});
}
