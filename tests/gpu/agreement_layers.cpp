// What is made of several operations on a GPU and on the CPU: gates, slopes that are learned, forms of two inputs,
// positions, and views of all kinds that are computed with.
#include "tests/gpu/agreement.hpp"

using namespace capstan;

namespace tests {

namespace {

void add_activations(AgreementCases& cases) {
  cases.push_back({"gates and the largest of pieces",
                   {"binary", "reduce"},
                   {noise({3, 8}, 1) * 3, noise({6, 2, 5}, 2) * 3, noise({0, 4}, 3)},
                   [](const Tensors& in) {
                     return Tensors{glu(in[0]),       glu(in[1], 0),       glu(in[2]),       glu(transpose(in[0]), 0),
                                    maxout(in[0], 2), maxout(in[1], 3, 0), maxout(in[2], 4), maxout(in[1], 1, 1)};
                   }});
  cases.push_back({"the largest of pieces, of which some are equal",
                   {"reduce"},
                   {with_ties({4, 6}, 4)},
                   [](const Tensors& in) {
                     return Tensors{maxout(in[0], 3), maxout(in[0], 2, 0)};
                   },
                   Nearness::exact,
                   Types::numbers});
  cases.push_back({"slopes that are learned",
                   {"binary", "reduce"},
                   {noise({2, 3, 4}, 5), noise({3}, 6), noise({}, 7), noise({1}, 8), noise({5}, 9), noise({5}, 10),
                    noise({0, 3}, 11)},
                   [](const Tensors& in) {
                     return Tensors{prelu(in[0], in[1]), prelu(in[0], in[2]), prelu(in[0], in[3]), prelu(in[4], in[5]),
                                    prelu(in[6], in[1])};
                   }});
  cases.push_back({"activations with numbers of their own",
                   {"parametric", "parametric_backward"},
                   {noise({5, 33}, 12) * 6},
                   [](const Tensors& in) {
                     const Tensor& x = in[0];
                     return Tensors{celu(x, 0.7),
                                    elu(x, 1.3),
                                    gelu(x, GeluForm::tanh),
                                    hard_shrink(x, 1.5),
                                    hard_tanh(x, -2, 1.5),
                                    leaky_relu(x, 0.2),
                                    soft_shrink(x, 1.5),
                                    softplus(x, {.beta = 2, .threshold = 6}),
                                    threshold(x, 0.3, -4)};
                   }});
}

void add_products(AgreementCases& cases) {
  cases.push_back({"forms of two inputs",
                   {"matmul", "reduce"},
                   {noise({4, 3}, 13), noise({4, 5}, 14), noise({2, 3, 5}, 15), noise({2}, 16), noise({3}, 17),
                    noise({5}, 18), noise({2, 3, 3}, 19), noise({0, 3}, 20), noise({0, 5}, 21)},
                   [](const Tensors& in) {
                     const Tensor &weight = in[2], &bias = in[3];
                     return Tensors{bilinear(in[0], in[1], weight, bias), bilinear(in[0], in[1], weight, Tensor()),
                                    bilinear(in[4], in[5], weight, bias),
                                    bilinear(in[6], broadcast_to(in[5], {2, 3, 5}), weight, bias),
                                    bilinear(in[7], in[8], weight, bias)};
                   },
                   Nearness::summed});
}

void add_positions(AgreementCases& cases) {
  cases.push_back({"masks and biases for attention",
                   {"copy"},
                   {noise({1}, 22)},
                   [](const Tensors& in) {
                     const TensorOptions like{in[0].dtype(), in[0].device()};
                     return Tensors{alibi_bias(4, 5, 7, 2, like),          alibi_bias(3, 2, 2, 0, like),
                                    alibi_bias(1, 0, 3, 0, like),          sinusoidal_positions(9, 6, 10000, like),
                                    sinusoidal_positions(4, 5, 100, like), causal_mask(5, 7, 1).to(in[0].device())};
                   },
                   Nearness::exact});
}

void add_views(AgreementCases& cases) {
  cases.push_back({"parts and views that are computed with",
                   {"binary", "copy"},
                   {random_in(-9, 9, {4, 6, 5}, DType::float64, 23), random_in(-9, 9, {6}, DType::float64, 24)},
                   [](const Tensors& in) {
                     const Tensor &x = in[0], &v = in[1];
                     Tensors results = {flatten(transpose(x), 0, 1) + 1,     move_axis(x, 0, 2) + 1,
                                        unflatten(x, 1, {2, 3}) + 1,         squeeze(narrow(x, 1, 2, 1)) + 1,
                                        slice(x, {1, 0, 2}, {-1, 4, 2}) + 1, reshape(transpose(x), {6, 20}) + 1};
                     for (const Tensor& y : unstack(x, 1)) results.push_back(y + 1);
                     for (const Tensor& y : split(x, 3, 1)) results.push_back(y + 1);
                     for (const Tensor& y : split_sizes(x, {1, 0, 4}, 2)) results.push_back(y + 1);
                     for (const Tensor& y : meshgrid({v, x[0][0]})) results.push_back(y + 1);
                     for (const Tensor& y : broadcast_tensors({x, expand_dims(v, 1)})) results.push_back(y + 1);
                     return results;
                   },
                   Nearness::exact,
                   Types::numbers});
  cases.push_back({"kernels in another order of axes",
                   {"copy"},
                   {noise({3, 2, 4, 5}, 25), noise({6, 1, 3, 2}, 26)},
                   [](const Tensors& in) {
                     const Tensor &x = in[0], &y = in[1];
                     return Tensors{conv_transpose_kernel_from_hwoi(x).contiguous(),
                                    hwoi_from_conv_transpose_kernel(x).contiguous(),
                                    hwio_from_conv_kernel(x).contiguous(), depthwise_kernel_from_hwim(x).contiguous(),
                                    hwim_from_depthwise_kernel(y, 2).contiguous()};
                   },
                   Nearness::exact});
}

}  // namespace

AgreementCases layer_agreement_cases() {
  AgreementCases cases;
  add_activations(cases);
  add_products(cases);
  add_positions(cases);
  add_views(cases);
  return cases;
}

}  // namespace tests

TEST_CASE("GPU and CPU agree on gates, slopes, forms of two inputs and views", "[gpu][agreement]") {
  tests::check_agreement(&tests::layer_agreement_cases);
}
