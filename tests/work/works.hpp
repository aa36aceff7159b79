#pragma once
// The work that work_counts measures: what the rows of the same names in bench/ do, and two plans.
#include <cstdint>
#include <utility>
#include <vector>

#include <capstan/capstan.hpp>
#include <capstan/freeze.hpp>

namespace tests {

namespace cs = capstan;

/// Always the same numbers, uniform in [-2, 2).
inline cs::Tensor values(const cs::Shape& shape, std::uint64_t seed = 1) {
  cs::Rng rng(seed);
  return cs::uniform(shape, -2, 2, rng);
}

/// int64, uniform in [0, high).
inline cs::Tensor indices(const cs::Shape& shape, std::int64_t high, std::uint64_t seed = 1) {
  cs::Rng rng(seed);
  return cs::randint(0, high, shape, rng);
}

/// What the tape of the last work kept for the replay. Only while it is asked for: asking is work, too.
struct TapeBytes {
  bool wanted = false;
  std::int64_t kept = 0;

  void see(const cs::GradientTape& tape) {
    if (wanted) kept = tape.bytes_kept();
  }
};
inline TapeBytes tape_bytes;

// --- single operations -------------------------------------------------------------------------------------------

template <std::int64_t kSize>
struct Add {
  cs::Tensor a = values({kSize}, 1), b = values({kSize}, 2);
  cs::Tensor operator()() const { return cs::add(a, b); }
};

struct Softmax {
  cs::Tensor x = values({1024, 1024});
  cs::Tensor operator()() const { return cs::softmax(x, -1); }
};

/// An operation on fixed tensors, small enough for valgrind.
template <class Operation>
struct Of {
  Operation operation;
  std::vector<cs::Tensor> inputs = operation.inputs();
  cs::Tensor operator()() const { return operation(inputs); }
};

template <cs::Tensor (*kFunction)(const cs::Tensor&, cs::Where)>
struct Function {
  static std::vector<cs::Tensor> inputs() { return {values({1 << 15})}; }
  cs::Tensor operator()(const std::vector<cs::Tensor>& in) const { return kFunction(in[0], cs::Where::current()); }
};

/// Over rows (1), columns (0), or both (-1).
template <int kAxis>
struct Sum {
  static std::vector<cs::Tensor> inputs() { return {values({256, 512})}; }
  cs::Tensor operator()(const std::vector<cs::Tensor>& in) const {
    return kAxis < 0 ? cs::sum(in[0]) : cs::sum(in[0], kAxis);
  }
};

struct TransposedCopy {
  static std::vector<cs::Tensor> inputs() { return {values({256, 512})}; }
  cs::Tensor operator()(const std::vector<cs::Tensor>& in) const { return cs::transpose(in[0]).contiguous(); }
};

template <std::int64_t kSize>
struct Product {
  static std::vector<cs::Tensor> inputs() { return {values({kSize, kSize}), values({kSize, kSize}, 2)}; }
  cs::Tensor operator()(const std::vector<cs::Tensor>& in) const { return cs::matmul(in[0], in[1]); }
};

/// A sample through a linear layer.
struct SingleRow {
  static std::vector<cs::Tensor> inputs() { return {values({1, 784}), values({784, 512}, 2), values({512}, 3)}; }
  cs::Tensor operator()(const std::vector<cs::Tensor>& in) const { return cs::linear(in[0], in[1], in[2]); }
};

/// 32 multiplications of 64 numbers and a sum, recorded, and the gradient.
struct Chain {
  cs::Rng rng{1};
  cs::Tensor x = cs::uniform({64}, 0.9, 1.1, rng), w = cs::uniform({64}, 0.9, 1.1, rng);

  cs::Tensor operator()() const {
    cs::GradientTape tape;
    tape.watch(x);
    cs::Tensor y = x;
    for (int i = 0; i < 32; ++i) y = y * w;
    const cs::Tensor total = cs::sum(y);
    tape_bytes.see(tape);
    return tape.gradient(total, x);
  }
};

/// An operation on three tensors, with the gradients for all of them.
template <class Operation>
struct WithGradients {
  Operation operation;
  std::vector<cs::Tensor> inputs = operation.inputs();
  cs::Tensor grad = values(operation(inputs).shape(), 9);

  std::vector<cs::Tensor> operator()() const {
    cs::GradientTape tape;
    for (const cs::Tensor& input : inputs) tape.watch(input);
    const cs::Tensor output = operation(inputs);
    tape_bytes.see(tape);
    return tape.gradient(output, inputs, {.output_gradient = grad});
  }
};

struct LayerNorm {
  static std::vector<cs::Tensor> inputs() { return {values({1024, 1024}), values({1024}, 2), values({1024}, 3)}; }
  cs::Tensor operator()(const std::vector<cs::Tensor>& in) const { return cs::layer_norm(in[0], 1, in[1], in[2]); }
};

template <int kBatch, int kChannels, int kPlaces>
struct SmallConvolution {
  static std::vector<cs::Tensor> inputs() {
    return {values({kBatch, kChannels, kPlaces, kPlaces}), values({kChannels, kChannels, 3, 3}, 2),
            values({kChannels}, 3)};
  }
  cs::Tensor operator()(const std::vector<cs::Tensor>& in) const {
    return cs::conv2d(in[0], in[1], in[2], {.padding = 1});
  }
};

struct SmallDepthwise {
  static std::vector<cs::Tensor> inputs() {
    return {values({2, 16, 28, 28}), values({16, 1, 3, 3}, 2), values({16}, 3)};
  }
  cs::Tensor operator()(const std::vector<cs::Tensor>& in) const {
    return cs::depthwise_conv2d(in[0], in[1], in[2], {.padding = 1});
  }
};

struct SmallMaxPool {
  static std::vector<cs::Tensor> inputs() { return {values({2, 16, 28, 28})}; }
  cs::Tensor operator()(const std::vector<cs::Tensor>& in) const { return cs::max_pool2d(in[0], 2); }
};

struct SmallBatchNorm {
  static std::vector<cs::Tensor> inputs() { return {values({64, 256}), values({256}, 2), values({256}, 3)}; }
  cs::Tensor operator()(const std::vector<cs::Tensor>& in) const {
    return cs::batch_norm_training(in[0], in[1], in[2]).output;
  }
};

struct SmallAttention {
  static std::vector<cs::Tensor> inputs() {
    return {values({2, 2, 32, 64}), values({2, 2, 32, 64}, 2), values({2, 2, 32, 64}, 3)};
  }
  cs::Tensor operator()(const std::vector<cs::Tensor>& in) const {
    return cs::scaled_dot_product_attention(in[0], in[1], in[2]);
  }
};

/// A recurrent layer of 64 units in all, 8 rows of 10 steps, with the gradients of its weights and inputs.
template <class Layer, std::int64_t kUnits, bool kBothWays>
struct SmallRecurrent {
  Layer layer{{.inputs = 32, .hidden = kUnits, .bidirectional = kBothWays}};
  cs::Tensor x = values({8, 10, 32});
  std::vector<cs::Tensor> sources = cs::nn::parameters(layer);

  std::vector<cs::Tensor> operator()() {
    cs::GradientTape tape;
    tape.watch(x);
    const cs::Tensor total = cs::sum(layer(x).outputs);
    tape_bytes.see(tape);
    std::vector<cs::Tensor> all = sources;
    all.push_back(x);
    return tape.gradient(total, all);
  }
};

struct SmallAdam {
  std::vector<cs::Tensor> parameters{values({1 << 15}), values({1 << 12}, 2)};
  std::vector<cs::Tensor> gradients{values({1 << 15}, 3), values({1 << 12}, 4)};
  cs::optim::Adam adam{parameters};
  void operator()() { adam.apply(gradients); }
};

// --- steps of training: a task is a network and a fixed batch of its data ----------------------------------------

template <class Task>
cs::Tensor loss_of(Task& task) {
  return cs::mean(cs::sparse_softmax_cross_entropy(task.logits(), task.labels));
}

template <class Task>
struct AdamStep {
  Task task;
  cs::optim::Adam adam{cs::nn::parameters(task.net), {.learning_rate = 1e-4}};

  void operator()() {
    cs::GradientTape tape;
    const cs::Tensor loss = loss_of(task);
    tape_bytes.see(tape);
    adam.apply(tape.gradient(loss, adam.parameters()));
  }
};

/// Gradient descent, the gradients clipped by their common norm.
template <class Task>
struct ClippedStep {
  Task task;
  cs::optim::Sgd sgd{cs::nn::parameters(task.net), {.learning_rate = 0.1}};

  void operator()() {
    cs::GradientTape tape;
    const cs::Tensor loss = loss_of(task);
    tape_bytes.see(tape);
    sgd.apply(cs::optim::clip_by_global_norm(tape.gradient(loss, sgd.parameters()), 1.25).gradients);
  }
};

/// How many ones are among 50 bits: a recurrent layer of 24 units, and a softmax over the 51 answers.
template <std::int64_t kBatch>
struct Parity {
  struct Net {
    cs::nn::RnnCell cell{1, 24, {.activation = cs::Activation::relu}};
    cs::nn::Linear out{24, 51};
  } net;
  cs::Rng rng{1};
  cs::Tensor bits = cs::bernoulli({kBatch, 50, 1}, 0.5, rng);
  cs::Tensor labels = cs::sum(bits, {1, 2}).to(cs::DType::int64);

  cs::Tensor logits() { return net.out(cs::nn::unroll(net.cell, bits).second.h); }
};

/// A model of letters: batch 64, 10 steps, 27 letters, 64 units.
struct Letters {
  struct Net {
    cs::nn::Lstm lstm{{.inputs = 27, .hidden = 64}};
    cs::nn::Linear out{64, 27};
  } net;
  cs::Tensor letters = cs::one_hot(indices({64, 10}, 27), 27), labels = indices({64, 10}, 27, 2);

  cs::Tensor logits() { return net.out(net.lstm(letters).outputs); }
};

/// The same with a cell written by hand: eight products a step.
struct LettersByHand {
  struct Gate {
    cs::Parameter wx{cs::nn::init::glorot_uniform()({27, 64})};
    cs::Parameter wh{cs::nn::init::glorot_uniform()({64, 64})};
    cs::Parameter b{cs::zeros({64})};

    cs::Tensor operator()(const cs::Tensor& x, const cs::Tensor& h) const {
      return cs::linear(x, wx, b) + cs::matmul(h, wh);
    }
  };
  struct Net {
    Gate input, forget, update, output;
    cs::nn::Linear out{64, 27};
  } net;
  cs::Tensor letters = cs::one_hot(indices({10, 64}, 27), 27), labels = indices({640}, 27, 2);

  cs::Tensor logits() {
    cs::Tensor h = cs::zeros({64, 64}), c = cs::zeros({64, 64});
    std::vector<cs::Tensor> outputs;
    for (const cs::Tensor& x : cs::unstack(letters)) {
      const cs::Tensor i = cs::sigmoid(net.input(x, h)), f = cs::sigmoid(net.forget(x, h));
      c = f * c + i * cs::tanh(net.update(x, h));
      h = cs::sigmoid(net.output(x, h)) * cs::tanh(c);
      outputs.push_back(h);
    }
    return net.out(cs::concat(outputs));
  }
};

/// A model of words: two layers; that of the benchmark has 200 units, 10,000 words, batch 20 and 20 steps.
template <std::int64_t kUnits, std::int64_t kWords, std::int64_t kBatch, std::int64_t kSteps>
struct Words {
  struct Net {
    cs::nn::Embedding words{kWords, kUnits};
    cs::nn::Lstm lstm{{.inputs = kUnits, .hidden = kUnits, .layers = 2}};
    cs::nn::Linear out{kUnits, kWords};
  } net;
  cs::Tensor text = indices({kBatch, kSteps}, kWords, 1), labels = indices({kBatch, kSteps}, kWords, 2);

  cs::Tensor logits() { return net.out(net.lstm(net.words(text)).outputs); }
};

/// A translator: two layers of 50 units each; that of the benchmark has batch 64, 24 and 13 steps.
template <std::int64_t kBatch, std::int64_t kRead, std::int64_t kWritten>
struct Translation {
  struct Net {
    cs::nn::Embedding source{30, 30}, target{30, 30};
    cs::nn::Lstm encoder{{.inputs = 30, .hidden = 50, .layers = 2}};
    cs::nn::Lstm decoder{{.inputs = 30, .hidden = 50, .layers = 2}};
    cs::nn::Linear out{50, 30};
  } net;
  cs::Tensor from = indices({kBatch, kRead}, 30, 1), to = indices({kBatch, kWritten}, 30, 2);
  cs::Tensor labels = indices({kBatch, kWritten}, 30, 3);

  cs::Tensor logits() {
    const auto [read, state] = net.encoder(net.source(from));
    return net.out(net.decoder(net.target(to), {.initial_state = state}).outputs);
  }
};

/// Two convolutions and two dense layers, as for MNIST; the benchmark has 50 images.
template <std::int64_t kImages>
struct Digits {
  struct Net {
    cs::nn::Conv2d conv1{{.in = 1, .out = 32, .kernel = 5, .padding = cs::nn::same}};
    cs::nn::Conv2d conv2{{.in = 32, .out = 64, .kernel = 5, .padding = cs::nn::same}};
    cs::nn::Linear fc1{7 * 7 * 64, 1024}, fc2{1024, 10};
    cs::nn::Dropout drop{{.keep = 0.5}};
  } net;
  cs::Tensor images = values({kImages, 1, 28, 28});
  cs::Tensor labels = cs::remainder(cs::arange(kImages), 10);

  cs::Tensor logits() {
    cs::Tensor h = cs::max_pool2d(cs::relu(net.conv1(images)), 2);
    h = cs::max_pool2d(cs::relu(net.conv2(h)), 2);
    return net.fc2(net.drop(cs::relu(net.fc1(cs::flatten(h, 1)))));
  }
};

// --- plans: one sample a run, on the state that the run before left ----------------------------------------------

template <class Cell, std::int64_t kUnits>
struct PlannedStep {
  cs::Plan plan = cs::freeze(Cell(1, kUnits), {{1, 1}});

  float operator()() {
    plan.input<float>()[0] = 0.5f;
    plan.run();
    return plan.output<float>()[0];
  }
};

}  // namespace tests
