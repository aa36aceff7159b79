// Convolutions, their transposes, and windows as columns on a GPU and on the CPU.
#include "tests/gpu/agreement.hpp"

using namespace capstan;

namespace tests {

namespace {

const std::vector<std::string> kSlots = {"convolve", "convolve_transposed", "convolve_weight", "reduce"};

/// Channels of images and of results, sizes of images and of kernels.
struct Sizing {
  Shape image, kernel;
  bool bias = true;
};

template <class Options>
struct Conv {
  const char* text;
  Sizing sizes;
  Options options = {};
};

/// By the number of spatial axes.
Tensor convolved(const Tensors& in, const ConvOptions& options) {
  if (in[1].rank() == 3) return conv1d(in[0], in[1], in[2], options);
  return in[1].rank() == 4 ? conv2d(in[0], in[1], in[2], options) : conv3d(in[0], in[1], in[2], options);
}
Tensor convolved(const Tensors& in, const ConvTransposeOptions& options) {
  if (in[1].rank() == 3) return conv_transpose1d(in[0], in[1], in[2], options);
  return in[1].rank() == 4 ? conv_transpose2d(in[0], in[1], in[2], options)
                           : conv_transpose3d(in[0], in[1], in[2], options);
}
std::int64_t result_channels(const Sizing& sizes, const ConvOptions&) { return sizes.kernel[0]; }
std::int64_t result_channels(const Sizing& sizes, const ConvTransposeOptions& options) {
  return sizes.kernel[1] * options.groups;
}

template <class Options>
void add_list(AgreementCases& cases, const char* op, const std::vector<Conv<Options>>& list) {
  for (const Conv<Options>& c : list) {
    const Shape bias = {result_channels(c.sizes, c.options)};
    cases.push_back({std::string(op) + ", " + c.text,
                     kSlots,
                     {noise(c.sizes.image, 1), noise(c.sizes.kernel, 2), c.sizes.bias ? noise(bias, 3) : Tensor()},
                     [options = c.options](const Tensors& in) { return Tensors{convolved(in, options)}; },
                     Nearness::summed});
  }
}

void add_convolutions(AgreementCases& cases) {
  add_list<ConvOptions>(
      cases, "convolution",
      {{"one axis", {{3, 4, 19}, {6, 4, 5}}, {.padding = 2}},
       {"one axis, stride and dilation", {{2, 4, 23}, {6, 4, 3}}, {.stride = 2, .padding = {{1, 3}}, .dilation = 3}},
       {"without a batch", {{4, 19}, {6, 4, 5}, false}},
       {"two axes", {{3, 5, 9, 11}, {7, 5, 3, 3}}, {.padding = 1}},
       {"two axes without a bias", {{3, 5, 9, 11}, {7, 5, 3, 3}, false}},
       {"stride 2, asymmetric borders",
        {{2, 3, 11, 12}, {4, 3, 3, 5}},
        {.stride = {2, 3}, .padding = {{0, 1}, {2, 1}}}},
       {"SAME", {{2, 3, 10, 9}, {4, 3, 4, 3}}, {.stride = 2, .padding = PaddingRule::same}},
       {"dilation", {{2, 3, 12, 13}, {4, 3, 3, 2}}, {.dilation = {2, 3}}},
       {"groups", {{2, 6, 8, 9}, {9, 2, 3, 3}}, {.padding = 1, .groups = 3}},
       {"each channel by itself", {{2, 6, 10, 9}, {12, 1, 3, 3}}, {.padding = 1, .groups = 6}},
       {"each channel by itself, stride and dilation",
        {{2, 5, 13, 12}, {5, 1, 3, 2}},
        {.stride = {2, 1}, .padding = {{1, 0}, {1, 2}}, .dilation = {1, 3}, .groups = 5}},
       {"kernels of one element", {{3, 8, 7, 9}, {5, 8, 1, 1}}},
       {"kernels of one element, wide planes", {{2, 4, 16, 20}, {6, 4, 1, 1}}},
       {"kernels of one element, stride 2", {{3, 8, 7, 9}, {5, 8, 1, 1}}, {.stride = 2}},
       {"kernels as large as the image", {{5, 3, 6, 4}, {8, 3, 6, 4}}},
       {"many channels", {{1, 40, 6, 6}, {66, 40, 3, 3}}, {.padding = 1}},
       {"long rows", {{1, 2, 3, 300}, {3, 2, 3, 7}}, {.padding = {1, 3}}},
       {"three axes", {{2, 3, 5, 6, 7}, {4, 3, 2, 3, 3}}, {.stride = {1, 2, 1}, .padding = {1, 0, 2}}},
       {"three axes, each channel by itself", {{2, 4, 5, 6, 7}, {4, 1, 3, 3, 3}}, {.padding = 1, .groups = 4}},
       {"no images", {{0, 3, 6, 6}, {4, 3, 3, 3}}}});
  cases.push_back({"convolution of views",
                   kSlots,
                   {noise({9, 11, 5, 3}, 4), noise({3, 3, 5, 7}, 5), noise({14}, 6)},
                   [](const Tensors& in) {
                     return Tensors{
                         conv2d(transpose(in[0]), transpose(in[1]), in[2].index({from(0, 2)}), {.padding = 1})};
                   },
                   Nearness::summed});
  cases.push_back({"depthwise and separable convolution",
                   kSlots,
                   {noise({2, 4, 9, 8}, 7), noise({8, 1, 3, 3}, 8), noise({5, 8, 1, 1}, 9), noise({5}, 10)},
                   [](const Tensors& in) {
                     return Tensors{
                         depthwise_conv2d(in[0], in[1], Tensor(), {.padding = 1}),
                         separable_conv2d(in[0], in[1], in[2], in[3], {.stride = 2, .padding = PaddingRule::same})};
                   },
                   Nearness::summed});
  cases.push_back({"few weights, very many places",
                   kSlots,
                   {random_in(-1, 1, {4, 1, 200, 180}, DType::float32, 11),
                    random_in(-1, 1, {2, 1, 3, 3}, DType::float32, 12), Tensor()},
                   [](const Tensors& in) { return Tensors{conv2d(in[0], in[1], in[2], {.padding = 1})}; },
                   Nearness::summed,
                   Types::given});
}

void add_transposes(AgreementCases& cases) {
  add_list<ConvTransposeOptions>(
      cases, "transposed convolution",
      {{"one axis", {{3, 6, 9}, {6, 4, 5}}, {.stride = 2, .padding = 1, .output_padding = 1}},
       {"two axes", {{3, 5, 6, 7}, {5, 4, 3, 3}}},
       {"two axes without a bias", {{3, 5, 6, 7}, {5, 4, 3, 3}, false}, {.padding = 1}},
       {"stride above the kernel", {{2, 3, 4, 5}, {3, 4, 2, 2}}, {.stride = {3, 4}}},
       {"stride, borders and dilation",
        {{2, 3, 5, 6}, {3, 4, 3, 2}},
        {.stride = {2, 3}, .padding = {{1, 0}, {0, 2}}, .dilation = {2, 1}}},
       {"a given size", {{2, 3, 5, 6}, {3, 4, 3, 3}}, {.stride = 2, .padding = 1, .output_size = {10, 11}}},
       {"SAME", {{2, 3, 5, 6}, {3, 4, 3, 3}}, {.stride = 2, .padding = PaddingRule::same}},
       {"groups", {{2, 6, 5, 4}, {6, 3, 3, 3}}, {.stride = 2, .groups = 2}},
       {"each channel by itself", {{2, 6, 5, 4}, {6, 1, 3, 3}}, {.stride = 2, .padding = 1, .groups = 6}},
       {"kernels of one element", {{2, 6, 7, 9}, {6, 5, 1, 1}}},
       {"onto one place", {{4, 6, 1, 1}, {6, 3, 5, 4}}},
       {"three axes", {{2, 3, 3, 4, 5}, {3, 2, 2, 3, 3}}, {.stride = {2, 1, 2}, .padding = {0, 1, 1}}},
       {"no images", {{0, 3, 4, 4}, {3, 2, 3, 3}}}});
}

void add_edges(AgreementCases& cases) {
  cases.push_back({"convolution of images that begin anywhere",
                   kSlots,
                   {noise({3, 1, 5, 5}, 4), noise({4, 1, 3, 3}, 5)},
                   [](const Tensors& in) { return Tensors{conv2d(narrow(in[0], 0, 1, 1), in[1], {}, {.padding = 1})}; },
                   Nearness::summed});
  // 2048 + 1, of which a 16-bit type would keep 2048, less 2048
  const Tensor corner = reshape(from_vector<double>({2048, 0, 0, 0, 1, 0, 0, 0, 0}), {1, 1, 3, 3});
  cases.push_back({"convolution whose bias cancels its sums",
                   kSlots,
                   {ones({2, 1, 5, 5}, {DType::float64}), broadcast_to(corner, {4, 1, 3, 3}).copy(),
                    full({4}, -2048.0, {DType::float64})},
                   [](const Tensors& in) { return Tensors{conv2d(in[0], in[1], in[2])}; },
                   Nearness::exact});
}

void add_columns(AgreementCases& cases) {
  cases.push_back(
      {"windows as columns",
       {"unfold", "fold"},
       {random_in(-60, 60, {2, 3, 9}, DType::float64, 13), random_in(-60, 60, {2, 3, 7, 8}, DType::float64, 14),
        random_in(-60, 60, {2, 2, 4, 5, 6}, DType::float64, 15)},
       [](const Tensors& in) {
         return Tensors{unfold(in[0], 3),
                        unfold(in[0], 2, {.stride = 2, .padding = 1, .dilation = 3}),
                        unfold(in[1], {3, 2}, {.stride = {2, 1}, .padding = {{1, 0}, {0, 2}}}),
                        unfold(transpose(in[1], 2, 3), {2, 2}, {.dilation = 2}),
                        unfold(in[2], 2, {.padding = 1}),
                        unfold(narrow(in[1], 0, 0, 0), 2)};
       },
       Nearness::exact,
       Types::every});
  cases.push_back({"columns as windows",
                   {"fold", "unfold"},
                   {noise({2, 6, 8}, 16), noise({2, 18, 12}, 17), noise({1, 16, 27}, 18)},
                   [](const Tensors& in) {
                     return Tensors{fold(in[0], 9, 2), fold(in[1], {5, 6}, {3, 3}),
                                    fold(in[1], {7, 5}, {3, 2}, {.stride = {2, 2}, .padding = {{0, 0}, {1, 2}}}),
                                    fold(in[2], {4, 4, 4}, 2)};
                   },
                   Nearness::summed});
}

}  // namespace

AgreementCases convolution_agreement_cases() {
  AgreementCases cases;
  add_convolutions(cases);
  add_transposes(cases);
  add_edges(cases);
  add_columns(cases);
  return cases;
}

}  // namespace tests

TEST_CASE("GPU and CPU agree on convolutions", "[gpu][agreement]") {
  tests::check_agreement(&tests::convolution_agreement_cases);
}
