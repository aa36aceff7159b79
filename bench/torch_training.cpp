// The rows of capstan_training.cpp in LibTorch: a chain of small operations, and the parity network.
#include <torch/torch.h>

#include <tuple>

#include "bench/rows.hpp"
#include "bench/torch_steps.hpp"
#include "bench/torch_values.hpp"

namespace bench {
namespace {

/// Multiplications of 64 numbers and a sum, recorded.
struct Chain {
  std::int64_t length;
  torch::Tensor x = values({64}, 1).mul_(0.05).add_(1).requires_grad_();
  torch::Tensor w = values({64}, 2).mul_(0.05).add_(1);

  explicit Chain(const Sizes& sizes) : length(sizes.steps) {}
  torch::Tensor operator()() const {
    torch::Tensor y = x;
    for (std::int64_t i = 0; i < length; ++i) y = y * w;
    return y.sum();
  }
};

void chain_rows() {
  growing_rows("chain_32_backward/grad", kChain, [](const Sizes& sizes) {
    return [chain = Chain(sizes)] { return torch::autograd::grad({chain()}, {chain.x})[0]; };
  });
  growing_rows("chain_32_backward/backward", kChain, [](const Sizes& sizes) {
    return [chain = Chain(sizes)] {
      chain.x.mutable_grad() = torch::Tensor();
      chain().backward();
    };
  });
}

struct ParityNet : torch::nn::Module {
  Sizes sizes;
  torch::nn::Linear out = register_module("out", torch::nn::Linear(sizes.width, sizes.steps + 1));

  explicit ParityNet(const Sizes& made) : sizes(made) {}
};

struct LayerNet : ParityNet {
  using ParityNet::ParityNet;
  torch::nn::RNN rnn = register_module(
      "rnn", torch::nn::RNN(torch::nn::RNNOptions(1, sizes.width).nonlinearity(torch::kReLU).batch_first(true)));

  torch::Tensor operator()(const torch::Tensor& bits) {
    const torch::Tensor last = std::get<1>(rnn->forward(bits));  // [1, batch, units]
    return out->forward(last[0]);
  }
};

struct HandNet : ParityNet {
  using ParityNet::ParityNet;
  torch::Tensor wx = register_parameter("wx", values({1, sizes.width}, 1) * 0.1);
  torch::Tensor wh = register_parameter("wh", values({sizes.width, sizes.width}, 2) * 0.1);
  torch::Tensor b = register_parameter("b", torch::zeros({sizes.width}));
};

/// Two products a step.
struct StepNet : HandNet {
  using HandNet::HandNet;
  torch::Tensor operator()(const torch::Tensor& bits) {
    torch::Tensor h = torch::zeros({sizes.batch, sizes.width});
    for (const torch::Tensor& bit : bits.unbind(1)) h = torch::relu(torch::addmm(torch::addmm(b, bit, wx), h, wh));
    return out->forward(h);
  }
};

/// The input's product for all steps at once, and one product a step.
struct HoistedNet : HandNet {
  using HandNet::HandNet;
  torch::Tensor operator()(const torch::Tensor& bits) {
    const torch::Tensor by_time = bits.transpose(0, 1).reshape({sizes.steps * sizes.batch, 1});
    const torch::Tensor inputs = torch::addmm(b, by_time, wx).view({sizes.steps, sizes.batch, sizes.width});
    torch::Tensor h = torch::zeros({sizes.batch, sizes.width});
    for (const torch::Tensor& input : inputs.unbind(0)) h = torch::relu(torch::addmm(input, h, wh));
    return out->forward(h);
  }
};

template <class Net>
struct Parity {
  Net net;
  torch::Tensor bits, counts;

  explicit Parity(const Sizes& sizes)
      : net(sizes),
        bits((values({sizes.batch, sizes.steps, 1}) > 0).to(torch::kFloat)),
        counts(bits.view({sizes.batch, sizes.steps}).sum(1).to(torch::kLong)) {}
  torch::Tensor loss() { return torch::cross_entropy_loss(net(bits), counts); }
};

}  // namespace

void training_rows() {
  chain_rows();
  adam_rows<Parity<LayerNet>>("parity_step/layer", kParity);
  adam_rows<Parity<HoistedNet>>("parity_step/hoisted", kParity);
  adam_row<Parity<StepNet>>("parity_step_hand/steps", without_growth(kParity));
  adam_row<Parity<HoistedNet>>("parity_step_hand/hoisted", without_growth(kParity));
}

}  // namespace bench
