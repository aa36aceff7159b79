// Recorded work: a chain of small operations, and the training step of the parity network.
#include <capstan/capstan.hpp>

#include <vector>

#include "bench/rows.hpp"

namespace cs = capstan;

namespace bench {
namespace {

/// Multiplications of 64 numbers and a sum, recorded, and the gradient.
struct Chain {
  Sizes sizes;
  cs::Rng rng{1};
  cs::Tensor x = cs::uniform({64}, 0.9, 1.1, rng), w = cs::uniform({64}, 0.9, 1.1, rng);

  cs::Tensor operator()() const {
    cs::GradientTape tape;
    tape.watch(x);
    cs::Tensor y = x;
    for (std::int64_t i = 0; i < sizes.steps; ++i) y = y * w;
    return tape.gradient(cs::sum(y), x);
  }
};

/// How many ones are among so many bits: a recurrent layer, and a softmax over the answers.
struct LayerNet {
  Sizes sizes;
  cs::nn::RnnCell cell{1, sizes.width, {.activation = cs::Activation::relu}};
  cs::nn::Linear out{sizes.width, sizes.steps + 1};

  cs::Tensor operator()(const cs::Tensor& bits) { return out(cs::nn::unroll(cell, bits).second.h); }
};

/// The same, with the cell and the loop over time written by hand.
struct HandNet {
  Sizes sizes;
  cs::Parameter wx{cs::nn::init::glorot_uniform()({1, sizes.width})};
  cs::Parameter wh{cs::nn::init::glorot_uniform()({sizes.width, sizes.width})};
  cs::Parameter b{cs::zeros({sizes.width})};
  cs::nn::Linear out{sizes.width, sizes.steps + 1};

  cs::Tensor operator()(const cs::Tensor& bits) const {
    cs::Tensor h = cs::zeros({sizes.batch, sizes.width});
    for (const cs::Tensor& bit : cs::unstack(bits, 1)) h = cs::relu(cs::linear(bit, wx, b) + cs::matmul(h, wh));
    return out(h);
  }
};

/// One step of Adam at its default rate of 1e-3, on a fixed batch.
template <class Net>
struct TrainingStep {
  Sizes sizes;
  Net net{sizes};
  cs::optim::Adam adam{cs::nn::parameters(net)};
  cs::Rng rng{1};
  cs::Tensor bits = cs::bernoulli({sizes.batch, sizes.steps, 1}, 0.5, rng);
  cs::Tensor counts = cs::sum(bits, {1, 2}).to(cs::DType::int64);

  void operator()() {
    cs::GradientTape tape;
    const cs::Tensor loss = cs::mean(cs::sparse_softmax_cross_entropy(net(bits), counts));
    adam.apply(tape.gradient(loss, adam.parameters()));
  }
};

/// The same work while every result is checked for NaN and infinity.
template <class Work>
struct Checked {
  Sizes sizes;
  Work work{sizes};
  void operator()() {
    const cs::debug::NumericsScope checked;
    work();
  }
};

/// A step of 48 layers in 16 regions, each kept by the tape or run again for the gradient.
template <bool kRecomputed>
struct DeepStep {
  std::vector<cs::Tensor> weights;
  cs::Tensor x;

  DeepStep() {
    cs::Rng rng(1);
    x = cs::normal({256, 512}, rng);
    for (int i = 0; i < 48; ++i) weights.push_back(cs::Parameter(cs::normal({512, 512}, 0, 0.04, rng)));
  }

  void operator()() const {
    cs::GradientTape tape;
    cs::Tensor h = x;
    for (std::size_t region = 0; region < weights.size(); region += 3) {
      const auto layers = [this, region](const cs::Tensor& t) {
        cs::Tensor y = t;
        for (std::size_t i = region; i < region + 3; ++i) y = cs::tanh(cs::matmul(y, weights[i])) + 0.01 * y;
        return y;
      };
      h = kRecomputed ? cs::recompute(layers, h) : layers(h);
    }
    tape.gradient(cs::sum(h), weights);
  }
};

}  // namespace

void training_rows() {
  row("chain_32_checked", [] { return Checked<Chain>{kChain.base}; });
  row("parity_step_checked", [] { return Checked<TrainingStep<LayerNet>>{kParity.base}; });
  row("parity_step_hand_checked", [] { return Checked<TrainingStep<HandNet>>{kParity.base}; });
  row("deep_step", [] { return DeepStep<false>(); });
  row("deep_step_recomputed", [] { return DeepStep<true>(); });
  growing_rows("chain_32_backward", kChain, [](const Sizes& sizes) { return Chain{sizes}; });
  growing_rows("parity_step", kParity, [](const Sizes& sizes) { return TrainingStep<LayerNet>{sizes}; });
  row("parity_step_hand", [] { return TrainingStep<HandNet>{kParity.base}; });
}

}  // namespace bench
