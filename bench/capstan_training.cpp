// Recorded work: a chain of small operations, and the training step of the parity network.
#include <capstan/capstan.hpp>

#include "bench/rows.hpp"

namespace cs = capstan;

namespace bench {

constexpr std::int64_t kBatch = 1000, kSteps = 50, kUnits = 24, kClasses = 51;

/// 32 multiplications of 64 numbers and a sum, recorded, and the gradient.
struct Chain {
  cs::Rng rng{1};
  cs::Tensor x = cs::uniform({64}, 0.9, 1.1, rng), w = cs::uniform({64}, 0.9, 1.1, rng);

  cs::Tensor operator()() const {
    cs::GradientTape tape;
    tape.watch(x);
    cs::Tensor y = x;
    for (int i = 0; i < 32; ++i) y = y * w;
    return tape.gradient(cs::sum(y), x);
  }
};

/// How many ones are among 50 bits: a recurrent layer, and a softmax over the 51 answers.
struct LayerNet {
  cs::nn::RnnCell cell{1, kUnits, {.activation = cs::Activation::relu}};
  cs::nn::Linear out{kUnits, kClasses};

  cs::Tensor operator()(const cs::Tensor& bits) { return out(cs::nn::unroll(cell, bits).second.h); }
};

/// The same, with the cell and the loop over time written by hand.
struct HandNet {
  cs::Parameter wx{cs::nn::init::glorot_uniform()({1, kUnits})};
  cs::Parameter wh{cs::nn::init::glorot_uniform()({kUnits, kUnits})};
  cs::Parameter b{cs::zeros({kUnits})};
  cs::nn::Linear out{kUnits, kClasses};

  cs::Tensor operator()(const cs::Tensor& bits) const {
    cs::Tensor h = cs::zeros({bits.size(0), kUnits});
    for (const cs::Tensor& bit : cs::unstack(bits, 1)) h = cs::relu(cs::linear(bit, wx, b) + cs::matmul(h, wh));
    return out(h);
  }
};

/// One step of Adam at its default rate of 1e-3, on a fixed batch.
template <class Net>
struct TrainingStep {
  Net net;
  cs::optim::Adam adam{cs::nn::parameters(net)};
  cs::Rng rng{1};
  cs::Tensor bits = cs::bernoulli({kBatch, kSteps, 1}, 0.5, rng);
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
  Work work;
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

void training_rows() {
  row("chain_32_checked", [] { return Checked<Chain>(); });
  row("parity_step_checked", [] { return Checked<TrainingStep<LayerNet>>(); });
  row("parity_step_hand_checked", [] { return Checked<TrainingStep<HandNet>>(); });
  row("deep_step", [] { return DeepStep<false>(); });
  row("deep_step_recomputed", [] { return DeepStep<true>(); });
  row("chain_32_backward", [] { return Chain(); });
  row("parity_step", [] { return TrainingStep<LayerNet>(); });
  row("parity_step_hand", [] { return TrainingStep<HandNet>(); });
  row_by_threads("parity_step", [] { return TrainingStep<LayerNet>(); });
}

}  // namespace bench
