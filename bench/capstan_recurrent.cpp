// Recurrent networks: training steps of models of letters and of words and of a translator, single layers forward and
// with their gradients, and one step of a tiny cell.
#include <capstan/capstan.hpp>

#include <utility>
#include <vector>

#include "bench/rows.hpp"

namespace cs = capstan;

namespace bench {
namespace {

constexpr double kRate = 0.1;  // the batch is fixed: at this rate nothing grows or dies out

/// Always the same numbers, uniform in [-2, 2).
cs::Tensor values(const cs::Shape& shape, std::uint64_t seed = 1) {
  cs::Rng rng(seed);
  return cs::uniform(shape, -2, 2, rng);
}

/// int64, uniform in [0, high).
cs::Tensor indices(const cs::Shape& shape, std::int64_t high, std::uint64_t seed = 1) {
  cs::Rng rng(seed);
  return cs::randint(0, high, shape, rng);
}

/// A step of gradient descent on a fixed batch, the gradients clipped by their common norm.
template <class Net>
struct ClippedStep {
  Net net;
  cs::optim::Sgd sgd;
  cs::Tensor inputs, labels;
  double limit;

  ClippedStep(Net model, const cs::Tensor& in, const cs::Tensor& out, double norm)
      : net(std::move(model)),
        sgd(cs::nn::parameters(net), {.learning_rate = kRate}),
        inputs(in),
        labels(out),
        limit(norm) {}

  void operator()() {
    cs::GradientTape tape;
    const cs::Tensor loss = cs::mean(cs::sparse_softmax_cross_entropy(net(inputs), labels));
    sgd.apply(cs::optim::clip_by_global_norm(tape.gradient(loss, sgd.parameters()), limit).gradients);
  }
};

template <class Prepare>
void both_rows(const std::string& name, Prepare prepare) {
  row(name, prepare);
  row_by_threads(name, prepare);
}

// --- the model of letters: batch 64, 10 steps, 27 letters, 64 units ----------------------------------------------

constexpr std::int64_t kBatch = 64, kSteps = 10, kLetters = 27, kUnits = 64;

struct LetterLayer {
  cs::nn::Lstm lstm{{.inputs = kLetters, .hidden = kUnits}};
  cs::nn::Linear out{kUnits, kLetters};

  cs::Tensor operator()(const cs::Tensor& letters) {  // [batch, steps, letters]
    auto [outputs, last] = lstm(letters);
    return out(outputs);
  }
};

/// x @ wx + h @ wh + b
struct Gate {
  cs::Parameter wx{cs::nn::init::glorot_uniform()({kLetters, kUnits})};
  cs::Parameter wh{cs::nn::init::glorot_uniform()({kUnits, kUnits})};
  cs::Parameter b{cs::zeros({kUnits})};

  cs::Tensor operator()(const cs::Tensor& x, const cs::Tensor& h) const {
    return cs::linear(x, wx, b) + cs::matmul(h, wh);
  }
};

/// The same with a cell written by hand: eight products a step.
struct LetterCell {
  Gate input, forget, update, output;
  cs::nn::Linear out{kUnits, kLetters};

  cs::Tensor operator()(const cs::Tensor& letters) const {  // [steps, batch, letters]
    cs::Tensor h = cs::zeros({kBatch, kUnits}), c = cs::zeros({kBatch, kUnits});
    std::vector<cs::Tensor> outputs;
    for (const cs::Tensor& x : cs::unstack(letters)) {
      const cs::Tensor i = cs::sigmoid(input(x, h)), f = cs::sigmoid(forget(x, h));
      c = f * c + i * cs::tanh(update(x, h));
      h = cs::sigmoid(output(x, h)) * cs::tanh(c);
      outputs.push_back(h);
    }
    return out(cs::concat(outputs));
  }
};

void letter_rows() {
  both_rows("char_lstm_fused", [] {
    return ClippedStep(LetterLayer{}, cs::one_hot(indices({kBatch, kSteps}, kLetters), kLetters),
                       indices({kBatch, kSteps}, kLetters, 2), 1.25);
  });
  both_rows("char_lstm_cell", [] {
    return ClippedStep(LetterCell{}, cs::one_hot(indices({kSteps, kBatch}, kLetters), kLetters),
                       indices({kSteps * kBatch}, kLetters, 2), 1.25);
  });
}

// --- the model of words: batch 20, two layers, 10,000 words ------------------------------------------------------

constexpr std::int64_t kWords = 10000;

template <std::int64_t kSize>
struct WordNet {
  cs::nn::Embedding words{kWords, kSize};
  cs::nn::Lstm lstm{{.inputs = kSize, .hidden = kSize, .layers = 2}};
  cs::nn::Linear out{kSize, kWords};

  cs::Tensor operator()(const cs::Tensor& text) {  // [batch, steps]
    auto [outputs, last] = lstm(words(text));
    return out(outputs);
  }
};

void word_rows() {
  both_rows("ptb_small", [] {
    return ClippedStep(WordNet<200>{}, indices({20, 20}, kWords, 1), indices({20, 20}, kWords, 2), 5);
  });
  both_rows("ptb_medium", [] {
    return ClippedStep(WordNet<650>{}, indices({20, 35}, kWords, 1), indices({20, 35}, kWords, 2), 5);
  });
}

// --- a translator: batch 64, 24 and 13 steps, two layers of 50 each ----------------------------------------------

struct Translator {
  static constexpr std::int64_t kTokens = 30, kSize = 30, kHidden = 50;
  cs::nn::Embedding source{kTokens, kSize}, target{kTokens, kSize};
  cs::nn::Lstm encoder{{.inputs = kSize, .hidden = kHidden, .layers = 2}};
  cs::nn::Lstm decoder{{.inputs = kSize, .hidden = kHidden, .layers = 2}};
  cs::nn::Linear out{kHidden, kTokens};

  cs::Tensor operator()(const cs::Tensor& from, const cs::Tensor& to) {
    auto [read, state] = encoder(source(from));
    auto [written, last] = decoder(target(to), {.initial_state = state});
    return out(written);
  }
};

struct TranslatorStep {
  Translator net;
  cs::optim::Adam adam{cs::nn::parameters(net)};
  cs::Tensor from = indices({64, 24}, Translator::kTokens, 1);
  cs::Tensor to = indices({64, 13}, Translator::kTokens, 2), labels = indices({64, 13}, Translator::kTokens, 3);

  void operator()() {
    cs::GradientTape tape;
    const cs::Tensor loss = cs::mean(cs::sparse_softmax_cross_entropy(net(from, to), labels));
    adam.apply(tape.gradient(loss, adam.parameters()));
  }
};

// --- layers: 256 inputs, 256 units, batch 32, 50 steps -----------------------------------------------------------

/// Uniform in 5..50, both included.
cs::Tensor mixed_lengths() {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < 32; ++i) lengths.push_back(5 + i * 29 % 46);
  return cs::from_vector(lengths);
}

template <class Layer>
struct LayerForward {
  Layer layer;
  cs::Tensor lengths;
  cs::Tensor x = values({32, 50, 256});

  LayerForward(Layer made, const cs::Tensor& steps) : layer(std::move(made)), lengths(steps) {}
  cs::Tensor operator()() {
    auto [outputs, last] = layer(x, {.lengths = lengths});
    return outputs;
  }
};

/// With the gradients for the inputs and all weights.
template <class Layer>
struct LayerBoth : LayerForward<Layer> {
  std::vector<cs::Tensor> sources = cs::nn::parameters(this->layer);
  cs::Tensor grad = values(LayerForward<Layer>::operator()().shape(), 9);

  LayerBoth(Layer made, const cs::Tensor& steps) : LayerForward<Layer>(std::move(made), steps) {
    sources.push_back(this->x);
  }
  std::vector<cs::Tensor> operator()() {
    cs::GradientTape tape;
    tape.watch(this->x);
    const cs::Tensor outputs = LayerForward<Layer>::operator()();
    return tape.gradient(outputs, sources, {.output_gradient = grad});
  }
};

template <class Make>
void sequence_rows(const std::string& name, Make make, const cs::Tensor& lengths = {}) {
  using Layer = decltype(make());
  both_rows(name + "_forward", [make, lengths] { return LayerForward<Layer>(make(), lengths); });
  both_rows(name, [make, lengths] { return LayerBoth<Layer>(make(), lengths); });
}

/// One step of 4 units for one sample, on the state that the step before left.
struct TinyStep {
  cs::nn::LstmCell cell{1, 4};
  cs::nn::LstmCell::State state = cell.zero_state(1);
  cs::Tensor x = values({1, 1});

  void operator()() { state = cell(x, state).second; }
};

}  // namespace

void recurrent_rows() {
  letter_rows();
  word_rows();
  both_rows("seq2seq_step", [] { return TranslatorStep(); });
  sequence_rows("gru_256", [] { return cs::nn::Gru({.inputs = 256, .hidden = 256}); });
  sequence_rows("bilstm_256", [] { return cs::nn::Lstm({.inputs = 256, .hidden = 256, .bidirectional = true}); });
  sequence_rows(
      "lstm_variable_length", [] { return cs::nn::Lstm({.inputs = 256, .hidden = 256}); }, mixed_lengths());
  both_rows("lstm4_one_sample", [] { return TinyStep(); });
}

}  // namespace bench
