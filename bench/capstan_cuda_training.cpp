// Training steps on a GPU, as they are written and as recorded steps. The models are those of capstan_layers.cpp and
// capstan_recurrent.cpp.
#include <memory>

#include "bench/cuda_rows.hpp"

namespace cs = capstan;

namespace bench {
namespace {

using cs::Tensor;
using Tensors = std::vector<Tensor>;

template <class Net>
Net on_gpu(Net net) {
  cs::nn::move_to(net, kDevice);
  return net;
}

// --- MNIST: two convolutions and two dense layers, batch 50, Adam ------------------------------------------------

struct Cnn {
  cs::nn::Conv2d conv1{{.in = 1, .out = 32, .kernel = 5, .padding = cs::nn::same}};
  cs::nn::Conv2d conv2{{.in = 32, .out = 64, .kernel = 5, .padding = cs::nn::same}};
  cs::nn::Linear fc1{7 * 7 * 64, 1024}, fc2{1024, 10};
  cs::nn::Dropout drop{{.keep = 0.5}};

  Tensor operator()(const Tensor& images) {
    Tensor h = cs::max_pool2d(cs::relu(conv1(images)), 2);
    h = cs::max_pool2d(cs::relu(conv2(h)), 2);
    return fc2(drop(cs::relu(fc1(cs::flatten(h, 1)))));
  }
};

struct CnnStep {
  Cnn net = on_gpu(Cnn{});
  cs::optim::Adam adam{cs::nn::parameters(net), {.learning_rate = 1e-4}};
  Tensor inputs = values({50, 1, 28, 28}), labels = cs::remainder(cs::arange(50), 10).to(kDevice);

  Tensor operator()(const Tensor& images, const Tensor& digits) {
    cs::GradientTape tape;
    const Tensor loss = cs::mean(cs::sparse_softmax_cross_entropy(net(images), digits));
    adam.apply(tape.gradient(loss, adam.parameters()));
    return loss;
  }
};

// --- recurrent models: gradient descent, the gradients clipped by their common norm ------------------------------

/// optim::clip_by_global_norm without asking for the norm on the host, which a recorded step cannot.
Tensors clipped_on_device(Tensors gradients, double limit) {
  Tensor total;
  for (const Tensor& gradient : gradients) {
    const Tensor squares = cs::sum(cs::square(gradient));
    total = total.defined() ? total + squares : squares;
  }
  const Tensor factor = cs::minimum(limit / cs::sqrt(total), 1);
  for (Tensor& gradient : gradients) gradient = gradient * factor;
  return gradients;
}

/// A step on a fixed batch. Model has kLimit, and functions inputs() and labels().
template <class Model, bool kRecorded>
struct ClippedStep {
  Model net = on_gpu(Model{});
  cs::optim::Sgd sgd{cs::nn::parameters(net), {.learning_rate = 0.1}};
  Tensor inputs = Model::inputs(), labels = Model::labels();

  Tensor operator()(const Tensor& in, const Tensor& out) {
    cs::GradientTape tape;
    const Tensor loss = cs::mean(cs::sparse_softmax_cross_entropy(net(in), out));
    Tensors gradients = tape.gradient(loss, sgd.parameters());
    if constexpr (kRecorded) sgd.apply(clipped_on_device(std::move(gradients), Model::kLimit));
    else sgd.apply(cs::optim::clip_by_global_norm(std::move(gradients), Model::kLimit).gradients);
    return loss;
  }
};

/// Letters: batch 64, 10 steps, 27 letters, 64 units.
struct LetterNet {
  static constexpr double kLimit = 1.25;
  cs::nn::Lstm lstm{{.inputs = 27, .hidden = 64}};
  cs::nn::Linear out{64, 27};

  static Tensor inputs() { return cs::one_hot(indices({64, 10}, 27), 27); }
  static Tensor labels() { return indices({64, 10}, 27, 2); }
  Tensor operator()(const Tensor& letters) {  // [batch, steps, letters]
    auto [outputs, last] = lstm(letters);
    return out(outputs);
  }
};

/// Words: batch 20, two layers, 10,000 words.
template <std::int64_t kSize, std::int64_t kSteps>
struct WordNet {
  static constexpr double kLimit = 5;
  static constexpr std::int64_t kWords = 10000;
  cs::nn::Embedding words{kWords, kSize};
  cs::nn::Lstm lstm{{.inputs = kSize, .hidden = kSize, .layers = 2}};
  cs::nn::Linear out{kSize, kWords};

  static Tensor inputs() { return indices({20, kSteps}, kWords, 1); }
  static Tensor labels() { return indices({20, kSteps}, kWords, 2); }
  Tensor operator()(const Tensor& text) {  // [batch, steps]
    auto [outputs, last] = lstm(words(text));
    return out(outputs);
  }
};

// --- rows --------------------------------------------------------------------------------------------------------

template <class Step>
void eager_row(Bench& bench, const std::string& name) {
  bench.row(name, {}, [] {
    const auto step = std::make_shared<Step>();
    return [step] { (*step)(step->inputs, step->labels); };
  });
}

template <class Step>
void captured_row(Bench& bench, const std::string& name) {
  bench.row(name + "_captured", {}, [] {
    const auto step = std::make_shared<Step>();
    const auto run = [step](const Tensor& in, const Tensor& out) { return (*step)(in, out); };
    using Captured = decltype(cs::cuda::capture(run, kDevice));
    const std::shared_ptr<Captured> captured(new Captured(cs::cuda::capture(run, kDevice)));
    return [step, captured] { (*captured)(step->inputs, step->labels); };
  });
}

template <class Model>
void clipped_rows(Bench& bench, const std::string& name) {
  eager_row<ClippedStep<Model, false>>(bench, name);
  captured_row<ClippedStep<Model, true>>(bench, name);
}

}  // namespace

void training_rows(Bench& bench) {
  eager_row<CnnStep>(bench, "mnist_cnn");
  captured_row<CnnStep>(bench, "mnist_cnn");
  clipped_rows<LetterNet>(bench, "char_lstm");
  clipped_rows<WordNet<200, 20>>(bench, "ptb_small");
  clipped_rows<WordNet<650, 35>>(bench, "ptb_medium");
}

}  // namespace bench
