// Layers, forward alone and with their gradients, and the training step of a convolutional network.
#include <capstan/capstan.hpp>

#include <string>
#include <vector>

#include "bench/capstan_values.hpp"
#include "bench/rows.hpp"

namespace cs = capstan;

namespace bench {
namespace {

using Tensors = std::vector<cs::Tensor>;
using Shapes = std::vector<cs::Shape>;

/// The row name_forward, not recorded, and the row of the name with the gradients for all inputs, which grows.
/// `shapes_of(sizes)` are the shapes of the inputs; images are [batch, channels, rows, columns].
template <class ShapesOf, class Function>
void layer_rows(const std::string& name, const Growing& workload, ShapesOf shapes_of, Function function) {
  const auto make = [shapes_of](const Sizes& sizes) {
    Tensors inputs;
    for (const cs::Shape& shape : shapes_of(sizes)) inputs.push_back(values(shape, inputs.size() + 1));
    return inputs;
  };
  const auto forward = [make, function](const Sizes& sizes) {
    return [inputs = make(sizes), function] { return function(inputs); };
  };
  const auto both = [make, function](const Sizes& sizes) {
    Tensors inputs = make(sizes);
    const cs::Tensor grad = values(function(inputs).shape(), 9);
    return [inputs, grad, function] {
      cs::GradientTape tape;
      for (const cs::Tensor& input : inputs) tape.watch(input);
      return tape.gradient(function(inputs), inputs, {.output_gradient = grad});
    };
  };
  growing_rows(name + "_forward", without_growth(workload), forward);
  growing_rows(name, workload, both);
}

void convolution_rows() {
  layer_rows(
      "conv3x3_64", kConv3x3,
      [](const Sizes& sizes) {
        return Shapes{{sizes.batch, sizes.width, 56, 56}, {sizes.width, sizes.width, 3, 3}, {sizes.width}};
      },
      [](const Tensors& in) { return cs::conv2d(in[0], in[1], in[2], {.padding = 1}); });
  layer_rows(
      "conv5x5", kConv5x5,
      [](const Sizes& sizes) {
        return Shapes{{sizes.batch, 32, 28, 28}, {64, 32, 5, 5}, {64}};
      },
      [](const Tensors& in) { return cs::conv2d(in[0], in[1], in[2], {.padding = cs::nn::same}); });
  layer_rows(
      "depthwise", kDepthwise,
      [](const Sizes& sizes) {
        return Shapes{{sizes.batch, 128, 56, 56}, {128, 1, 3, 3}, {128}};
      },
      [](const Tensors& in) { return cs::depthwise_conv2d(in[0], in[1], in[2], {.padding = 1}); });
  layer_rows(
      "max_pool2d", kMaxPool,
      [](const Sizes& sizes) {
        return Shapes{{sizes.batch, 64, 28, 28}};
      },
      [](const Tensors& in) { return cs::max_pool2d(in[0], 2); });
}

void normalization_rows() {
  const auto layer_norm = [](const Tensors& in) { return cs::layer_norm(in[0], 1, in[1], in[2]); };
  layer_rows(
      "layer_norm", kLayerNorm,
      [](const Sizes& sizes) {
        return Shapes{{1024, sizes.width}, {sizes.width}, {sizes.width}};
      },
      layer_norm);
  layer_rows(
      "layer_norm_images", kImageBatches,
      [](const Sizes& sizes) {
        return Shapes{{sizes.batch, 64, 56, 56}, {56}, {56}};
      },
      layer_norm);
  const auto batch_norm = [](const Tensors& in) { return cs::batch_norm_training(in[0], in[1], in[2]).output; };
  layer_rows(
      "batch_norm", kBatchNorm,
      [](const Sizes& sizes) {
        return Shapes{{sizes.batch, 1024}, {1024}, {1024}};
      },
      batch_norm);
  layer_rows(
      "batch_norm_images", kImageBatches,
      [](const Sizes& sizes) {
        return Shapes{{sizes.batch, 64, 56, 56}, {64}, {64}};
      },
      batch_norm);
  const auto softmax = [](const Tensors& in) { return cs::softmax(in[0]); };
  layer_rows(
      "softmax_layer", kRows,
      [](const Sizes& sizes) {
        return Shapes{{1024, sizes.width}};
      },
      softmax);
  layer_rows(
      "softmax_images", kImageBatches,
      [](const Sizes& sizes) {
        return Shapes{{sizes.batch, 64, 56, 56}};
      },
      softmax);
}

void attention_rows() {
  layer_rows(
      "attention", kAttention,
      [](const Sizes& sizes) {
        return Shapes(3, cs::Shape{sizes.batch, 8, sizes.steps, 64});
      },
      [](const Tensors& in) { return cs::scaled_dot_product_attention(in[0], in[1], in[2]); });
  layer_rows(
      "attention_layer", kAttentionLayer,
      [](const Sizes& sizes) {
        return Shapes{{sizes.batch, 128, 512}, {512, 1536}, {512, 512}};
      },
      [](const Tensors& in) {
        const auto parts = cs::split(cs::matmul(in[0], in[1]), 3, -1);
        const auto heads_of = [](const cs::Tensor& x) { return cs::transpose(cs::reshape(x, {-1, 128, 8, 64}), 1, 2); };
        const cs::Tensor mixed =
            cs::scaled_dot_product_attention(heads_of(parts[0]), heads_of(parts[1]), heads_of(parts[2]));
        return cs::matmul(cs::reshape(cs::transpose(mixed, 1, 2), {-1, 128, 512}), in[2]);
      });
}

/// What answers one request at a time.
void one_sample_rows() {
  layer_rows(
      "linear_one_sample", kOneSample,
      [](const Sizes& sizes) {
        return Shapes{{sizes.batch, 1024}, {1024, 1024}, {1024}};
      },
      [](const Tensors& in) { return cs::linear(in[0], in[1], in[2]); });
  layer_rows(
      "conv3x3_one_image", kOneSample,
      [](const Sizes& sizes) {
        return Shapes{{sizes.batch, 256, 14, 14}, {256, 256, 3, 3}, {256}};
      },
      [](const Tensors& in) { return cs::conv2d(in[0], in[1], in[2], {.padding = 1}); });
}

/// One step of Adam over 20 parameters, of a million numbers each at the base's size.
struct AdamOf20 {
  Tensors parameters, gradients;
  cs::optim::Adam adam;

  static Tensors make(const Sizes& sizes, std::uint64_t seed) {
    Tensors list;
    for (std::uint64_t i = 0; i < 20; ++i) list.push_back(values({sizes.size / 20}, seed + i));
    return list;
  }
  explicit AdamOf20(const Sizes& sizes) : parameters(make(sizes, 1)), gradients(make(sizes, 30)), adam(parameters) {}
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

/// One step of Adam on a batch of images.
struct CnnStep {
  Sizes sizes;
  Cnn net{};
  cs::optim::Adam adam{cs::nn::parameters(net), {.learning_rate = 1e-4}};
  cs::Tensor images = values({sizes.batch, 1, 28, 28});
  cs::Tensor labels = cs::remainder(cs::arange(sizes.batch), 10);

  void operator()() {
    cs::GradientTape tape;
    const cs::Tensor loss = cs::mean(cs::sparse_softmax_cross_entropy(net(images), labels));
    adam.apply(tape.gradient(loss, adam.parameters()));
  }
};

}  // namespace

void layer_rows() {
  convolution_rows();
  normalization_rows();
  attention_rows();
  one_sample_rows();
  growing_rows("adam_20m", kAdam, [](const Sizes& sizes) { return AdamOf20(sizes); });
  growing_rows("mnist_cnn_step", kCnn, [](const Sizes& sizes) { return CnnStep{sizes}; });
}

}  // namespace bench
