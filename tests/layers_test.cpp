// Bilinear forms, maxout, activations as modules, and changes of shape in a Sequential.
#include "tests/support.hpp"

#include <cmath>

using namespace capstan;
using namespace tests;

namespace {

/// y[n, o] = b[o] + sum(i, j) x1[n, i] * w[o, i, j] * x2[n, j], by plain loops.
Tensor plain_bilinear(const Tensor& x1, const Tensor& x2, const Tensor& w, const Tensor& b) {
  const std::vector<double> left = values(x1), right = values(x2), form = values(w), shift = values(b);
  const auto rows = static_cast<std::size_t>(x1.size(0)), out = static_cast<std::size_t>(w.size(0)),
             in1 = static_cast<std::size_t>(w.size(1)), in2 = static_cast<std::size_t>(w.size(2));
  std::vector<double> list;
  for (std::size_t n = 0; n < rows; ++n)
    for (std::size_t o = 0; o < out; ++o) {
      double y = shift[o];
      for (std::size_t i = 0; i < in1; ++i)
        for (std::size_t j = 0; j < in2; ++j)
          y += left[n * in1 + i] * form[(o * in1 + i) * in2 + j] * right[n * in2 + j];
      list.push_back(y);
    }
  return from_vector(list, Shape({x1.size(0), w.size(0)}));
}

}  // namespace

// --- bilinear ------------------------------------------------------------------------------------------------------

TEST_CASE("a bilinear form is the double sum of its definition", "[layers]") {
  const Tensor x1 = random_in(-1, 1, {6, 4}, DType::float64, 501), x2 = random_in(-1, 1, {6, 3}, DType::float64, 502);
  const Tensor w = random_in(-1, 1, {5, 4, 3}, DType::float64, 503), b = random_in(-1, 1, {5}, DType::float64, 504);
  const Tensor expected = plain_bilinear(x1, x2, w, b);
  CHECK(close(bilinear(x1, x2, w, b), expected, tolerance::roundings64));
  CHECK(close(bilinear(x1, x2, w, Tensor()), expected - b, tolerance::roundings64));
  CHECK(close(bilinear(strided(x1), strided(x2), strided(w), b), expected, tolerance::roundings64));
  CHECK(close(bilinear(x1[0], x2[0], w, b), expected[0], tolerance::roundings64));
  const Tensor deep = bilinear(reshape(x1, {2, 3, 4}), reshape(x2, {2, 3, 3}), w, b);
  CHECK(close(deep, reshape(expected, {2, 3, 5}), tolerance::roundings64));
  const Tensor mixed = bilinear(x1.to(DType::float32), x2, w.to(DType::float32), b);
  CHECK(mixed.dtype() == DType::float64);
  CHECK(close(mixed, expected, tolerance::roundings32));
  CHECK(bilinear(zeros({0, 4}), zeros({0, 3}), zeros({5, 4, 3}), zeros({5})).shape() == Shape{0, 5});
  CHECK(same(bilinear(zeros({2, 0}), zeros({2, 3}), zeros({5, 0, 3}), ones({5})), ones({2, 5})));
}

TEST_CASE("a bilinear layer keeps its inputs for the gradient, and no products of them", "[layers]") {
  const Tensor x1 = ones({8, 40}), x2 = ones({8, 30}), w = ones({5, 40, 30});
  GradientTape tape;
  tape.watch({x1, x2, w});
  const Tensor y = bilinear(x1, x2, w, Tensor());
  CHECK(tape.bytes_kept() == 4 * (8 * 40 + 8 * 30 + 5 * 40 * 30));
}

TEST_CASE("bilinear layers start within the bound of their fans", "[layers][nn]") {
  Rng rng(5);
  const nn::Bilinear layer(20, 30, 40, rng);
  const double bound = std::sqrt(6.0 / (20 * 30 + 40));  // glorot
  const double largest = number(max(abs(layer.weight)));
  CHECK(layer.weight.shape() == Shape{40, 20, 30});
  CHECK(largest <= bound * (1 + 1e-6));
  CHECK(largest > 0.99 * bound);
  CHECK(same(layer.bias, zeros({40})));
  const Tensor x1 = random_in(-1, 1, {2, 20}, DType::float32, 505), x2 = random_in(-1, 1, {2, 30}, DType::float32, 506);
  CHECK(same(layer(x1, x2), bilinear(x1, x2, layer.weight, layer.bias)));
  const nn::Bilinear plain({.in1 = 2, .in2 = 3, .out = 4, .bias = false, .weight_init = nn::init::ones()});
  CHECK_FALSE(plain.bias.defined());
  CHECK(same(plain(ones({1, 2}), ones({1, 3})), full({1, 4}, 6.0f)));  // 2 * 3 products of 1
}

// --- maxout --------------------------------------------------------------------------------------------------------

TEST_CASE("maxout takes the largest of neighbours along an axis", "[layers]") {
  const Tensor x = {{1.0, 5.0, -2.0, -3.0, 7.0, 6.0}, {0.0, -1.0, 4.0, 4.0, 2.0, 9.0}};
  CHECK(same(maxout(x, 2), {{5.0, -2.0, 7.0}, {0.0, 4.0, 9.0}}));
  CHECK(same(maxout(x, 3), {{5.0, 7.0}, {4.0, 9.0}}));
  CHECK(same(maxout(x, 2, 0), {{1.0, 5.0, 4.0, 4.0, 7.0, 9.0}}));
  CHECK(same(maxout(x, 1), x));
  CHECK(same(maxout(strided(x), 3), maxout(x, 3)));
  CHECK(same(maxout(Tensor{3, 1, 2, 2}, 2), {3, 2}));
  CHECK(maxout(zeros({0, 4}), 2).shape() == Shape{0, 2});
  CHECK(maxout(zeros({1, 1, 1, 1, 1, 1, 1, 4}), 2).shape() == Shape{1, 1, 1, 1, 1, 1, 1, 2});
  GradientTape tape;
  tape.watch(x);
  CHECK(same(tape.gradient(maxout(x, 2), x), {{0.0, 1.0, 1.0, 0.0, 1.0, 0.0}, {1.0, 0.0, 0.5, 0.5, 0.0, 1.0}}));
}

// --- modules -------------------------------------------------------------------------------------------------------

TEST_CASE("activation modules are their functions", "[layers][nn]") {
  const Tensor x = random_in(-4, 4, {3, 6}, DType::float64, 507);
  const std::pair<Tensor, Tensor> rows[] = {{nn::Relu{}(x), relu(x)},
                                            {nn::Relu6{}(x), relu6(x)},
                                            {nn::Selu{}(x), selu(x)},
                                            {nn::Sigmoid{}(x), sigmoid(x)},
                                            {nn::Tanh{}(x), tanh(x)},
                                            {nn::LogSigmoid{}(x), log_sigmoid(x)},
                                            {nn::HardSigmoid{}(x), hard_sigmoid(x)},
                                            {nn::HardSwish{}(x), hard_swish(x)},
                                            {nn::Mish{}(x), mish(x)},
                                            {nn::Softsign{}(x), softsign(x)},
                                            {nn::TanhShrink{}(x), tanh_shrink(x)},
                                            {nn::LeakyRelu{.slope = 0.2}(x), leaky_relu(x, 0.2)},
                                            {nn::Elu{.alpha = 0.7}(x), elu(x, 0.7)},
                                            {nn::Celu{.alpha = 0.7}(x), celu(x, 0.7)},
                                            {nn::Gelu{}(x), gelu(x)},
                                            {nn::Gelu{.form = GeluForm::tanh}(x), gelu(x, GeluForm::tanh)},
                                            {nn::Softplus{.beta = 2}(x), softplus(x, {.beta = 2})},
                                            {nn::HardTanh{.low = -2}(x), hard_tanh(x, -2, 1)},
                                            {nn::HardShrink{.bound = 1}(x), hard_shrink(x, 1)},
                                            {nn::SoftShrink{.bound = 1}(x), soft_shrink(x, 1)},
                                            {nn::Threshold{.limit = 1, .value = -5}(x), threshold(x, 1, -5)},
                                            {nn::Softmax{}(x), softmax(x)},
                                            {nn::Softmax{.axis = 0}(x), softmax(x, 0)},
                                            {nn::LogSoftmax{.axis = 0}(x), log_softmax(x, 0)},
                                            {nn::Glu{}(x), glu(x)},
                                            {nn::Maxout{.pieces = 3}(x), maxout(x, 3)},
                                            {nn::PRelu{{.dtype = DType::float64}}(x), leaky_relu(x, 0.25)}};
  for (std::size_t i = 0; i < std::size(rows); ++i) {
    INFO("row " << i);
    CHECK(same(rows[i].first, rows[i].second));
  }
  const nn::PRelu channels{{.channels = 6, .weight_init = nn::init::constant(0.5), .dtype = DType::float64}};
  CHECK(channels.weight.shape() == Shape{6});
  CHECK(same(channels(x), leaky_relu(x, 0.5)));
}

TEST_CASE("layers of all kinds stand in a Sequential and in a struct, and only some have parameters", "[layers][nn]") {
  nn::Sequential net{
      nn::Unflatten{1, {2, 3}}, nn::PRelu{{.channels = 2}},  nn::Identity{}, nn::Flatten{},   nn::Dropout{},
      nn::Linear{6, 4},         nn::LeakyRelu{.slope = 0.1}, nn::Maxout{},   nn::LogSoftmax{}};
  nn::set_training(net, false);
  const Tensor x = random_in(-1, 1, {5, 6}, DType::float32, 508);
  const Tensor h = leaky_relu(net.part<5>()(where(x > 0, x, 0.25 * x)), 0.1);
  CHECK(close(net(x), log_softmax(maxout(h, 2)), tolerance::roundings32));
  std::vector<std::string> names;
  for (const NamedTensor& p : nn::named_parameters(net)) names.push_back(p.name);
  CHECK(names == std::vector<std::string>{"1.weight", "5.weight", "5.bias"});

  struct Model {
    nn::Flatten flat{.begin = 2};
    nn::Gelu activation;
    nn::Softmax last{.axis = 1};
    nn::PRelu slopes;
    nn::Identity none;
  } model;
  CHECK(nn::named_parameters(model).size() == 1u);
  CHECK(model.flat(zeros({2, 3, 4, 5})).shape() == Shape{2, 3, 20});
  CHECK(model.none(x).is_same(x));
  CHECK(nn::Unflatten(-1, {3, -1})(x).shape() == Shape{5, 3, 2});
}
