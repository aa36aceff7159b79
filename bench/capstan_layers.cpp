// Layers, forward alone and with their gradients, and the training step of a convolutional network.
#include <capstan/capstan.hpp>

#include "bench/rows.hpp"

namespace cs = capstan;

namespace bench {
namespace {

using Tensors = std::vector<cs::Tensor>;

/// Always the same numbers, uniform in [-2, 2).
cs::Tensor values(const cs::Shape& shape, std::uint64_t seed = 1) {
  cs::Rng rng(seed);
  return cs::uniform(shape, -2, 2, rng);
}

/// The row name_forward, not recorded, and the row of the name with the gradients for all inputs.
template <class Function>
void layer_rows(const std::string& name, std::vector<cs::Shape> shapes, Function function) {
  const auto make = [shapes] {
    Tensors inputs;
    for (const cs::Shape& shape : shapes) inputs.push_back(values(shape, inputs.size() + 1));
    return inputs;
  };
  const auto forward = [make, function] { return [inputs = make(), function] { return function(inputs); }; };
  const auto both = [make, function] {
    Tensors inputs = make();
    const cs::Tensor grad = values(function(inputs).shape(), 9);
    return [inputs, grad, function] {
      cs::GradientTape tape;
      for (const cs::Tensor& input : inputs) tape.watch(input);
      return tape.gradient(function(inputs), inputs, {.output_gradient = grad});
    };
  };
  row(name + "_forward", forward);
  row_by_threads(name + "_forward", forward);
  row(name, both);
  row_by_threads(name, both);
}

void convolution_rows() {
  layer_rows("conv3x3_64", {{32, 64, 56, 56}, {64, 64, 3, 3}, {64}},
             [](const Tensors& in) { return cs::conv2d(in[0], in[1], in[2], {.padding = 1}); });
  layer_rows("conv5x5", {{50, 32, 28, 28}, {64, 32, 5, 5}, {64}},
             [](const Tensors& in) { return cs::conv2d(in[0], in[1], in[2], {.padding = cs::nn::same}); });
  layer_rows("depthwise", {{16, 128, 56, 56}, {128, 1, 3, 3}, {128}},
             [](const Tensors& in) { return cs::depthwise_conv2d(in[0], in[1], in[2], {.padding = 1}); });
}

void other_layer_rows() {
  layer_rows("max_pool2d", {{50, 64, 28, 28}}, [](const Tensors& in) { return cs::max_pool2d(in[0], 2); });

  const auto layer_norm = [](const Tensors& in) { return cs::layer_norm(in[0], 1, in[1], in[2]); };
  layer_rows("layer_norm", {{1024, 1024}, {1024}, {1024}}, layer_norm);
  layer_rows("layer_norm_images", {{32, 64, 56, 56}, {56}, {56}}, layer_norm);
  const auto batch_norm = [](const Tensors& in) { return cs::batch_norm_training(in[0], in[1], in[2]).output; };
  layer_rows("batch_norm", {{1024, 1024}, {1024}, {1024}}, batch_norm);
  layer_rows("batch_norm_images", {{32, 64, 56, 56}, {64}, {64}}, batch_norm);
  const auto softmax = [](const Tensors& in) { return cs::softmax(in[0]); };
  layer_rows("softmax_layer", {{1024, 1024}}, softmax);
  layer_rows("softmax_images", {{32, 64, 56, 56}}, softmax);

  const cs::Shape heads = {8, 8, 128, 64};
  layer_rows("attention", {heads, heads, heads},
             [](const Tensors& in) { return cs::scaled_dot_product_attention(in[0], in[1], in[2]); });
  layer_rows("attention_layer", {{8, 128, 512}, {512, 1536}, {512, 512}}, [](const Tensors& in) {
    const auto parts = cs::split(cs::matmul(in[0], in[1]), 3, -1);
    const auto heads_of = [](const cs::Tensor& x) { return cs::transpose(cs::reshape(x, {8, 128, 8, 64}), 1, 2); };
    const cs::Tensor mixed =
        cs::scaled_dot_product_attention(heads_of(parts[0]), heads_of(parts[1]), heads_of(parts[2]));
    return cs::matmul(cs::reshape(cs::transpose(mixed, 1, 2), {8, 128, 512}), in[2]);
  });
}

/// One step of Adam over 20 parameters of a million numbers.
struct Adam20m {
  Tensors parameters, gradients;
  cs::optim::Adam adam;

  static Tensors make(std::uint64_t seed) {
    Tensors list;
    for (std::uint64_t i = 0; i < 20; ++i) list.push_back(values({1000000}, seed + i));
    return list;
  }
  Adam20m() : parameters(make(1)), gradients(make(30)), adam(parameters) {}
  void operator()() { adam.apply(gradients); }
};

/// Two convolutions and two dense layers, as for MNIST.
struct Cnn {
  cs::nn::Conv2d conv1{{.in = 1, .out = 32, .kernel = 5, .padding = cs::nn::same}};
  cs::nn::Conv2d conv2{{.in = 32, .out = 64, .kernel = 5, .padding = cs::nn::same}};
  cs::nn::Linear fc1{7 * 7 * 64, 1024}, fc2{1024, 10};
  cs::nn::Dropout drop{{.keep = 0.5}};

  cs::Tensor operator()(const cs::Tensor& images) {
    cs::Tensor h = cs::max_pool2d(cs::relu(conv1(images)), 2);
    h = cs::max_pool2d(cs::relu(conv2(h)), 2);
    return fc2(drop(cs::relu(fc1(cs::flatten(h, 1)))));
  }
};

/// One step of Adam on 50 images.
struct CnnStep {
  Cnn net;
  cs::optim::Adam adam{cs::nn::parameters(net), {.learning_rate = 1e-4}};
  cs::Tensor images = values({50, 1, 28, 28});
  cs::Tensor labels = cs::remainder(cs::arange(50), 10);

  void operator()() {
    cs::GradientTape tape;
    const cs::Tensor loss = cs::mean(cs::sparse_softmax_cross_entropy(net(images), labels));
    adam.apply(tape.gradient(loss, adam.parameters()));
  }
};

}  // namespace

void layer_rows() {
  convolution_rows();
  other_layer_rows();
  row("adam_20m", [] { return Adam20m(); });
  row_by_threads("adam_20m", [] { return Adam20m(); });
  row("mnist_cnn_step", [] { return CnnStep(); });
  row_by_threads("mnist_cnn_step", [] { return CnnStep(); });
}

}  // namespace bench
