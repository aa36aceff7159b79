// The rows of capstan_layers.cpp in LibTorch.
#include <torch/torch.h>
#include <torch/version.h>

#include <string>
#include <vector>

#include "bench/rows.hpp"
#include "bench/torch_steps.hpp"
#include "bench/torch_values.hpp"

namespace bench {
namespace {

using Shapes = std::vector<std::vector<std::int64_t>>;

/// The same numbers, images with their channels last if asked for.
torch::Tensor in_format(const torch::Tensor& x, at::MemoryFormat format) {
  return x.dim() == 4 ? x.contiguous(format) : x;
}

/// The row name_forward, and the row of the name with the gradients for all inputs, which grows.
template <class ShapesOf, class Function>
void layer_rows(const std::string& name, const Growing& workload, ShapesOf shapes_of, Function function,
                at::MemoryFormat format = at::MemoryFormat::Contiguous) {
  const auto make = [shapes_of, format](const Sizes& sizes, bool recorded) {
    Tensors inputs;
    for (const auto& shape : shapes_of(sizes))
      inputs.push_back(in_format(values(shape, inputs.size() + 1), format).requires_grad_(recorded));
    return inputs;
  };
  growing_row(with_suffix(name, "_forward"), without_growth(workload),
              guarded<torch::NoGradGuard>([make, function](const Sizes& sizes) {
                return [inputs = make(sizes, false), function] { return function(inputs); };
              }));
  growing_row(name, workload, [make, function, format](const Sizes& sizes) {
    Tensors inputs = make(sizes, true);
    const torch::Tensor grad = in_format(values(function(inputs).sizes(), 9), format);
    return [inputs, grad, function] { return torch::autograd::grad({function(inputs)}, inputs, {grad}); };
  });
}

/// With channels where they are in Capstan, and last: inputs are so beforehand, which costs no time.
template <class ShapesOf, class Function>
void image_rows(const std::string& name, const Growing& workload, ShapesOf shapes_of, Function function) {
  layer_rows(name + "/plain", workload, shapes_of, function);
  layer_rows(name + "/inputs_channels_last", workload, shapes_of, function, at::MemoryFormat::ChannelsLast);
}

void convolution_rows() {
  image_rows(
      "conv3x3_64", kConv3x3,
      [](const Sizes& sizes) {
        return Shapes{{sizes.batch, sizes.width, 56, 56}, {sizes.width, sizes.width, 3, 3}, {sizes.width}};
      },
      [](const Tensors& in) { return torch::conv2d(in[0], in[1], in[2], 1, 1); });
  image_rows(
      "conv5x5", kConv5x5,
      [](const Sizes& sizes) {
        return Shapes{{sizes.batch, 32, 28, 28}, {64, 32, 5, 5}, {64}};
      },
      [](const Tensors& in) { return torch::conv2d(in[0], in[1], in[2], 1, 2); });
  image_rows(
      "depthwise", kDepthwise,
      [](const Sizes& sizes) {
        return Shapes{{sizes.batch, 128, 56, 56}, {128, 1, 3, 3}, {128}};
      },
      [](const Tensors& in) { return torch::conv2d(in[0], in[1], in[2], 1, 1, 1, 128); });
  image_rows(
      "max_pool2d", kMaxPool,
      [](const Sizes& sizes) {
        return Shapes{{sizes.batch, 64, 28, 28}};
      },
      [](const Tensors& in) { return torch::max_pool2d(in[0], 2); });
}

void normalization_rows() {
  const auto layer_norm = [](const Tensors& in) { return torch::layer_norm(in[0], {in[0].size(-1)}, in[1], in[2]); };
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
  const auto batch_norm = [](const Tensors& in) {
    return torch::batch_norm(in[0], in[1], in[2], {}, {}, true, 0.1, 1e-5, true);
  };
  layer_rows(
      "batch_norm", kBatchNorm,
      [](const Sizes& sizes) {
        return Shapes{{sizes.batch, 1024}, {1024}, {1024}};
      },
      batch_norm);
  image_rows(
      "batch_norm_images", kImageBatches,
      [](const Sizes& sizes) {
        return Shapes{{sizes.batch, 64, 56, 56}, {64}, {64}};
      },
      batch_norm);
  const auto softmax = [](const Tensors& in) { return torch::softmax(in[0], -1); };
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

/// Two rows of a variant, by the attention of three tensors [batch, heads, positions, 64].
template <class Attention>
void attention_rows(const std::string& variant, Attention attention) {
  layer_rows(
      "attention/" + variant, kAttention,
      [](const Sizes& sizes) {
        return Shapes(3, {sizes.batch, 8, sizes.steps, 64});
      },
      [attention](const Tensors& in) { return attention(in[0], in[1], in[2]); });
  layer_rows(
      "attention_layer/" + variant, kAttentionLayer,
      [](const Sizes& sizes) {
        return Shapes{{sizes.batch, 128, 512}, {512, 1536}, {512, 512}};
      },
      [attention](const Tensors& in) {
        const auto parts = torch::matmul(in[0], in[1]).chunk(3, -1);
        const auto heads_of = [](const torch::Tensor& x) { return x.view({-1, 128, 8, 64}).transpose(1, 2); };
        const torch::Tensor mixed = attention(heads_of(parts[0]), heads_of(parts[1]), heads_of(parts[2]));
        return torch::matmul(mixed.transpose(1, 2).reshape({-1, 128, 512}), in[2]);
      });
}

void attention_rows() {
  using torch::Tensor;
  attention_rows("products", [](const Tensor& q, const Tensor& k, const Tensor& v) {
    return torch::matmul(torch::softmax(torch::matmul(q * 0.125, k.transpose(-2, -1)), -1), v);
  });
#if TORCH_VERSION_MAJOR >= 2
  attention_rows("fused", [](const Tensor& q, const Tensor& k, const Tensor& v) {
    return at::scaled_dot_product_attention(q, k, v);
  });
#endif
}

void one_sample_rows() {
  layer_rows(
      "linear_one_sample/addmm", kOneSample,
      [](const Sizes& sizes) {
        return Shapes{{sizes.batch, 1024}, {1024, 1024}, {1024}};
      },
      [](const Tensors& in) { return torch::addmm(in[2], in[0], in[1]); });
  image_rows(
      "conv3x3_one_image", kOneSample,
      [](const Sizes& sizes) {
        return Shapes{{sizes.batch, 256, 14, 14}, {256, 256, 3, 3}, {256}};
      },
      [](const Tensors& in) { return torch::conv2d(in[0], in[1], in[2], 1, 1); });
}

/// One step of Adam over 20 parameters, of a million numbers each at the base's size.
template <class Adam>
struct AdamOf20 {
  Tensors parameters;
  Adam adam;

  static Tensors make(const Sizes& sizes) {
    Tensors list;
    for (std::uint64_t i = 0; i < 20; ++i) {
      list.push_back(values({sizes.size / 20}, 1 + i).requires_grad_());
      list.back().mutable_grad() = values({sizes.size / 20}, 30 + i);
    }
    return list;
  }
  explicit AdamOf20(const Sizes& sizes) : parameters(make(sizes)), adam(parameters, 1e-3) {}
  void operator()() { adam.step(); }
};

void adam_20m_rows() {
  growing_row("adam_20m/library", kAdam, shared<AdamOf20<torch::optim::Adam>>());
  growing_row("adam_20m/by_hand", kAdam, shared<AdamOf20<AdamByHand>>());
#if TORCH_VERSION_MAJOR >= 2
  growing_row("adam_20m/fused", kAdam, shared<AdamOf20<FusedAdam>>());
#endif
}

/// Two convolutions and two dense layers, as for MNIST.
struct Cnn : torch::nn::Module {
  torch::nn::Conv2d conv1 = register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 32, 5).padding(2)));
  torch::nn::Conv2d conv2 = register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(32, 64, 5).padding(2)));
  torch::nn::Linear fc1 = register_module("fc1", torch::nn::Linear(7 * 7 * 64, 1024));
  torch::nn::Linear fc2 = register_module("fc2", torch::nn::Linear(1024, 10));

  torch::Tensor operator()(const torch::Tensor& images) {
    torch::Tensor h = torch::max_pool2d(torch::relu(conv1->forward(images)), 2);
    h = torch::max_pool2d(torch::relu(conv2->forward(h)), 2);
    h = torch::relu(fc1->forward(h.flatten(1)));
    return fc2->forward(torch::dropout(h, 0.5, is_training()));
  }
};

template <bool kChannelsLast>
struct CnnModel {
  Cnn net;
  torch::Tensor images, labels;

  explicit CnnModel(const Sizes& sizes)
      : images(values({sizes.batch, 1, 28, 28})), labels(torch::arange(sizes.batch) % 10) {
    if (!kChannelsLast) return;
    for (torch::Tensor& parameter : net.parameters())
      parameter.set_data(in_format(parameter.detach(), at::MemoryFormat::ChannelsLast));
    images = in_format(images, at::MemoryFormat::ChannelsLast);
  }
  torch::Tensor loss() { return torch::cross_entropy_loss(net(images), labels); }
};

}  // namespace

void layer_rows() {
  convolution_rows();
  normalization_rows();
  attention_rows();
  one_sample_rows();
  adam_20m_rows();
  adam_row<CnnModel<false>>("mnist_cnn_step/plain", kCnn, 1e-4);
  adam_row<CnnModel<true>>("mnist_cnn_step/model_channels_last", kCnn, 1e-4);
}

}  // namespace bench
