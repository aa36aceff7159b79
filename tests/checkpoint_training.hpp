#pragma once
// A small training with all that a checkpoint can hold: dropout, running statistics, averages, a scale of losses that
// overflows, a rate that follows a metric, gradients over several batches, and shuffled data from workers.
#include <bit>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <capstan/capstan.hpp>

#include "io/crc32c.hpp"

namespace tests {

struct TrainingNet {
  capstan::nn::Linear first{6, 12};
  capstan::nn::BatchNorm1d norm{{.channels = 12}};
  capstan::nn::Dropout drop{{.keep = 0.8}};
  capstan::nn::Linear last{12, 3};

  capstan::Tensor operator()(const capstan::Tensor& x) { return last(drop(capstan::relu(norm(first(x))))); }
};

/// Six numbers around the class, and the class.
inline std::pair<capstan::Tensor, capstan::Tensor> training_example(std::int64_t i) {
  const std::int64_t label = i % 3;
  return {capstan::normal({6}, static_cast<double>(label), 1.0),
          capstan::scalar(label, {.dtype = capstan::DType::int64})};
}

inline auto training_batches(int workers) {
  using namespace capstan;
  return data::range(37) | data::shuffle(16) | data::repeat() | data::map(&training_example, {.workers = workers}) |
         data::batch(8) | data::prefetch(2);
}

class Training {
  struct Seeded {
    explicit Seeded(std::uint64_t seed) { capstan::seed(seed); }
  } seeded_;  // before all that draws

 public:
  explicit Training(std::uint64_t seed, int workers = 2) : seeded_(seed), batches(training_batches(workers)) {}

  capstan::io::CheckpointParts parts() {
    return {.model = net,
            .optimizer = adam,
            .schedule = plateau,
            .ema = ema,
            .scaler = scaler,
            .data = batches,
            .random = random,
            .more = {{"accumulator", accumulator}, {"mean", mean}, {"carried", carried}, {"steps", steps}}};
  }

  /// The loss. Its gradients overflow at scales of 2^126 and more, to which two good steps lead again and again.
  float step(const capstan::Tensor& x, const capstan::Tensor& labels) {
    using namespace capstan;
    GradientTape tape;
    const Tensor noise = 0.1 * normal(x.shape(), random);
    const Tensor loss = 4 * capstan::mean(sparse_softmax_cross_entropy(net(x + noise + carried), labels));
    auto [gradients, finite] = scaler.unscale(tape.gradient(scaler.scale(loss), adam.parameters()));
    if (finite) accumulator.add(std::move(gradients));
    scaler.update();
    if (accumulator.ready()) {
      adam.apply(accumulator.take());
      ema.update();
    }
    const NoGrad off;
    carried = 0.5 * carried + 0.01 * capstan::mean(x);
    mean.update(loss.item<float>());
    if (++steps % 4 == 0) adam.set_learning_rate(plateau.update(mean.result()));
    return loss.item<float>();
  }

  /// Trains up to a step, and calls `after(step, loss)` behind each.
  template <class After>
  void run(std::int64_t until, After after) {
    if (steps >= until) return;
    for (auto& [x, labels] : batches) {
      const float loss = step(x, labels);
      after(steps, loss);
      if (steps >= until) break;
    }
  }

  /// Of all bits of the state.
  std::uint32_t fingerprint() {
    std::uint32_t crc = 0;
    add(crc, capstan::nn::named_state(net));
    add(crc, adam.state());
    add(crc, plateau.state());
    add(crc, ema.state());
    add(crc, scaler.state());
    add(crc, accumulator.state());
    add(crc, mean.state());
    add(crc, std::vector<capstan::NamedTensor>{{"carried", carried}});
    add(crc, to_string(random.state()) + to_string(capstan::default_rng().state()) + std::to_string(steps));
    add_data(crc);
    return crc;
  }

  TrainingNet net;
  capstan::optim::Adam adam{capstan::nn::parameters(net), {.learning_rate = 0.01}};
  capstan::optim::ReduceOnPlateau plateau{0.01, {.factor = 0.9, .patience = 0}};
  capstan::optim::Ema ema{capstan::nn::parameters(net), {.decay = 0.9}};
  capstan::optim::LossScaler scaler{{.scale = 0x1p127, .interval = 2}};
  capstan::optim::GradientAccumulator accumulator{{.batches = 2}};
  capstan::metrics::Mean mean;
  capstan::Rng random{capstan::default_rng().bits()};
  capstan::Tensor carried = capstan::zeros({});
  std::int64_t steps = 0;
  decltype(training_batches(0)) batches;

 private:
  /// The batch that follows, and the place behind it. A pipeline with workers has several texts for one place: they
  /// name the place where the elements begin that a worker took together, and how many of these were given out since.
  /// Without workers there is one.
  void add_data(std::uint32_t& crc) {
    const capstan::RngState before = capstan::default_rng().state();
    auto alike = training_batches(0);  // with seeds of its own, in whose place the state brings others
    alike.restore(batches.state());
    auto next = alike.begin();
    auto& [x, labels] = *next;
    add(crc, std::vector<capstan::NamedTensor>{{"x", x}, {"labels", labels}});
    add(crc, alike.state());
    capstan::default_rng().restore(before);
  }
  static void add(std::uint32_t& crc, const std::string& text) {
    crc = capstan::io::crc32c_by_table(
        std::span<const unsigned char>(reinterpret_cast<const unsigned char*>(text.data()), text.size()), crc);
  }
  template <class T>
  static void add_elements(std::uint32_t& crc, const capstan::Tensor& x) {
    const std::vector<T> elements = x.to_vector<T>();
    add(crc, std::string(reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(T)));
  }
  static void add(std::uint32_t& crc, const std::vector<capstan::NamedTensor>& tensors) {
    for (const auto& [name, value] : tensors) {
      add(crc, name + capstan::to_string(value.shape()));
      switch (value.dtype()) {
        case capstan::DType::float32: add_elements<float>(crc, value); break;
        case capstan::DType::float64: add_elements<double>(crc, value); break;
        case capstan::DType::int64: add_elements<std::int64_t>(crc, value); break;
        default: throw std::logic_error("a type that this training does not have");
      }
    }
  }
};

}  // namespace tests
