// The rows of capstan_layers.cpp in LibTorch.
#include <torch/torch.h>

#include <memory>

#include "bench/rows.hpp"

namespace bench {
namespace {

using Tensors = std::vector<torch::Tensor>;

/// Always the same numbers, uniform in [-2, 2).
torch::Tensor values(at::IntArrayRef shape, std::uint64_t seed = 1) {
  torch::manual_seed(seed);
  return torch::rand(shape) * 4 - 2;
}

template <class Function>
void layer_rows(const std::string& name, std::vector<std::vector<std::int64_t>> shapes, Function function) {
  const auto make = [shapes](bool recorded) {
    Tensors inputs;
    for (const auto& shape : shapes) inputs.push_back(values(shape, inputs.size() + 1).requires_grad_(recorded));
    return inputs;
  };
  row(name + "_forward", [make, function] {
    return [inputs = make(false), function, off = std::make_shared<torch::NoGradGuard>()] { return function(inputs); };
  });
  row(name, [make, function] {
    Tensors inputs = make(true);
    const torch::Tensor grad = values(function(inputs).sizes(), 9);
    return [inputs, grad, function] { return torch::autograd::grad({function(inputs)}, inputs, {grad}); };
  });
}

void convolution_rows() {
  layer_rows("conv3x3_64", {{32, 64, 56, 56}, {64, 64, 3, 3}, {64}},
             [](const Tensors& in) { return torch::conv2d(in[0], in[1], in[2], 1, 1); });
  layer_rows("conv5x5", {{50, 32, 28, 28}, {64, 32, 5, 5}, {64}},
             [](const Tensors& in) { return torch::conv2d(in[0], in[1], in[2], 1, 2); });
  layer_rows("depthwise", {{16, 128, 56, 56}, {128, 1, 3, 3}, {128}},
             [](const Tensors& in) { return torch::conv2d(in[0], in[1], in[2], 1, 1, 1, 128); });
}

torch::Tensor attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v) {
  return torch::matmul(torch::softmax(torch::matmul(q * 0.125, k.transpose(-2, -1)), -1), v);
}

void other_layer_rows() {
  layer_rows("max_pool2d", {{50, 64, 28, 28}}, [](const Tensors& in) { return torch::max_pool2d(in[0], 2); });

  const auto layer_norm = [](const Tensors& in) { return torch::layer_norm(in[0], {in[0].size(-1)}, in[1], in[2]); };
  layer_rows("layer_norm", {{1024, 1024}, {1024}, {1024}}, layer_norm);
  layer_rows("layer_norm_images", {{32, 64, 56, 56}, {56}, {56}}, layer_norm);
  const auto batch_norm = [](const Tensors& in) {
    return torch::batch_norm(in[0], in[1], in[2], {}, {}, true, 0.1, 1e-5, true);
  };
  layer_rows("batch_norm", {{1024, 1024}, {1024}, {1024}}, batch_norm);
  layer_rows("batch_norm_images", {{32, 64, 56, 56}, {64}, {64}}, batch_norm);
  const auto softmax = [](const Tensors& in) { return torch::softmax(in[0], -1); };
  layer_rows("softmax_layer", {{1024, 1024}}, softmax);
  layer_rows("softmax_images", {{32, 64, 56, 56}}, softmax);

  const std::vector<std::int64_t> heads = {8, 8, 128, 64};
  layer_rows("attention", {heads, heads, heads}, [](const Tensors& in) { return attention(in[0], in[1], in[2]); });
  layer_rows("attention_layer", {{8, 128, 512}, {512, 1536}, {512, 512}}, [](const Tensors& in) {
    const auto parts = torch::matmul(in[0], in[1]).chunk(3, -1);
    const auto heads_of = [](const torch::Tensor& x) { return x.view({8, 128, 8, 64}).transpose(1, 2); };
    const torch::Tensor mixed = attention(heads_of(parts[0]), heads_of(parts[1]), heads_of(parts[2]));
    return torch::matmul(mixed.transpose(1, 2).reshape({8, 128, 512}), in[2]);
  });
}

/// One step of Adam over 20 parameters of a million numbers.
struct Adam20m {
  Tensors parameters;
  torch::optim::Adam adam;

  static Tensors make() {
    Tensors list;
    for (std::uint64_t i = 0; i < 20; ++i) {
      list.push_back(values({1000000}, 1 + i).requires_grad_());
      list.back().mutable_grad() = values({1000000}, 30 + i);
    }
    return list;
  }
  Adam20m() : parameters(make()), adam(parameters, torch::optim::AdamOptions(1e-3)) {}
  void operator()() { adam.step(); }
};

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

/// One step of Adam on 50 images.
struct CnnStep {
  Cnn net;
  torch::optim::Adam adam{net.parameters(), torch::optim::AdamOptions(1e-4)};
  torch::Tensor images = values({50, 1, 28, 28});
  torch::Tensor labels = torch::arange(50) % 10;

  void operator()() {
    adam.zero_grad();
    torch::cross_entropy_loss(net(images), labels).backward();
    adam.step();
  }
};

/// For work that is no value: modules do not copy.
template <class Work>
void work_row(const std::string& name) {
  row(name, [] { return [work = std::make_shared<Work>()] { (*work)(); }; });
}

}  // namespace

void layer_rows() {
  convolution_rows();
  other_layer_rows();
  work_row<Adam20m>("adam_20m");
  work_row<CnnStep>("mnist_cnn_step");
}

}  // namespace bench
