// Recurrent networks: training steps of models of letters and of words and of a translator, single layers forward and
// with their gradients, and one step of a tiny cell.
#include <capstan/capstan.hpp>

#include <string>
#include <utility>
#include <vector>

#include "bench/capstan_values.hpp"
#include "bench/rows.hpp"

namespace cs = capstan;

namespace bench {
namespace {

constexpr double kRate = 0.1;  // the batch is fixed: at this rate nothing grows or dies out

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

// --- the model of letters: 27 letters ----------------------------------------------------------------------------

constexpr std::int64_t kAlphabet = 27;

struct LetterLayer {
  Sizes sizes;
  cs::nn::Lstm lstm{{.inputs = kAlphabet, .hidden = sizes.width}};
  cs::nn::Linear out{sizes.width, kAlphabet};

  cs::Tensor operator()(const cs::Tensor& letters) {  // [batch, steps, letters]
    auto [outputs, last] = lstm(letters);
    return out(outputs);
  }
};

/// x @ wx + h @ wh + b
struct Gate {
  Sizes sizes;
  cs::Parameter wx{cs::nn::init::glorot_uniform()({kAlphabet, sizes.width})};
  cs::Parameter wh{cs::nn::init::glorot_uniform()({sizes.width, sizes.width})};
  cs::Parameter b{cs::zeros({sizes.width})};

  cs::Tensor operator()(const cs::Tensor& x, const cs::Tensor& h) const {
    return cs::linear(x, wx, b) + cs::matmul(h, wh);
  }
};

/// The same with a cell written by hand: eight products a step.
struct LetterCell {
  Sizes sizes;
  Gate input{sizes}, forget{sizes}, update{sizes}, output{sizes};
  cs::nn::Linear out{sizes.width, kAlphabet};

  cs::Tensor operator()(const cs::Tensor& letters) const {  // [steps, batch, letters]
    cs::Tensor h = cs::zeros({sizes.batch, sizes.width}), c = cs::zeros({sizes.batch, sizes.width});
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
  growing_rows("char_lstm_fused", kLetters, [](const Sizes& sizes) {
    const cs::Shape shape = {sizes.batch, sizes.steps};
    return ClippedStep(LetterLayer{sizes}, cs::one_hot(indices(shape, kAlphabet), kAlphabet),
                       indices(shape, kAlphabet, 2), 1.25);
  });
  growing_rows("char_lstm_cell", kLetterCell, [](const Sizes& sizes) {
    return ClippedStep(LetterCell{sizes}, cs::one_hot(indices({sizes.steps, sizes.batch}, kAlphabet), kAlphabet),
                       indices({sizes.steps * sizes.batch}, kAlphabet, 2), 1.25);
  });
}

// --- the model of words: two layers, 10,000 words ----------------------------------------------------------------

constexpr std::int64_t kWords = 10000;

struct WordNet {
  Sizes sizes;
  cs::nn::Embedding words{kWords, sizes.width};
  cs::nn::Lstm lstm{{.inputs = sizes.width, .hidden = sizes.width, .layers = 2}};
  cs::nn::Linear out{sizes.width, kWords};

  cs::Tensor operator()(const cs::Tensor& text) {  // [batch, steps]
    auto [outputs, last] = lstm(words(text));
    return out(outputs);
  }
};

void word_rows(const std::string& name, const Growing& workload) {
  growing_rows(name, workload, [](const Sizes& sizes) {
    const cs::Shape shape = {sizes.batch, sizes.steps};
    return ClippedStep(WordNet{sizes}, indices(shape, kWords, 1), indices(shape, kWords, 2), 5);
  });
}

// --- a translator: 24 and 13 steps, two layers each --------------------------------------------------------------

struct Translator {
  static constexpr std::int64_t kTokens = 30, kFeatures = 30;
  Sizes sizes;
  cs::nn::Embedding source{kTokens, kFeatures}, target{kTokens, kFeatures};
  cs::nn::Lstm encoder{{.inputs = kFeatures, .hidden = sizes.width, .layers = 2}};
  cs::nn::Lstm decoder{{.inputs = kFeatures, .hidden = sizes.width, .layers = 2}};
  cs::nn::Linear out{sizes.width, kTokens};

  cs::Tensor operator()(const cs::Tensor& from, const cs::Tensor& to) {
    auto [read, state] = encoder(source(from));
    auto [written, last] = decoder(target(to), {.initial_state = state});
    return out(written);
  }
};

struct TranslatorStep {
  Sizes sizes;
  Translator net{sizes};
  cs::optim::Adam adam{cs::nn::parameters(net)};
  cs::Tensor from = indices({sizes.batch, 24}, Translator::kTokens, 1);
  cs::Tensor to = indices({sizes.batch, 13}, Translator::kTokens, 2);
  cs::Tensor labels = indices({sizes.batch, 13}, Translator::kTokens, 3);

  void operator()() {
    cs::GradientTape tape;
    const cs::Tensor loss = cs::mean(cs::sparse_softmax_cross_entropy(net(from, to), labels));
    adam.apply(tape.gradient(loss, adam.parameters()));
  }
};

// --- layers ------------------------------------------------------------------------------------------------------

enum class Lengths { all, mixed };

/// Uniform in 5..50, both included; undefined if all rows have all steps.
cs::Tensor lengths_of(const Sizes& sizes, Lengths kind) {
  if (kind == Lengths::all) return {};
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < sizes.batch; ++i) lengths.push_back(5 + i * 29 % 46);
  return cs::from_vector(lengths);
}

template <class Layer>
struct LayerForward {
  Layer layer;
  cs::Tensor x, lengths;

  LayerForward(Layer made, const Sizes& sizes, Lengths kind)
      : layer(std::move(made)), x(values({sizes.batch, sizes.steps, sizes.width})), lengths(lengths_of(sizes, kind)) {}
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

  LayerBoth(Layer made, const Sizes& sizes, Lengths kind) : LayerForward<Layer>(std::move(made), sizes, kind) {
    sources.push_back(this->x);
  }
  std::vector<cs::Tensor> operator()() {
    cs::GradientTape tape;
    tape.watch(this->x);
    const cs::Tensor outputs = LayerForward<Layer>::operator()();
    return tape.gradient(outputs, sources, {.output_gradient = grad});
  }
};

/// `make(sizes)` is the layer.
template <class Make>
void sequence_rows(const std::string& name, const Growing& forward, const Growing& both, Make make,
                   Lengths kind = Lengths::all) {
  using Layer = decltype(make(Sizes()));
  growing_rows(name + "_forward", forward,
               [make, kind](const Sizes& sizes) { return LayerForward<Layer>(make(sizes), sizes, kind); });
  growing_rows(name, both, [make, kind](const Sizes& sizes) { return LayerBoth<Layer>(make(sizes), sizes, kind); });
}

void sequence_rows() {
  sequence_rows("gru_256", kGruForward, kGru,
                [](const Sizes& sizes) { return cs::nn::Gru({.inputs = sizes.width, .hidden = sizes.width}); });
  sequence_rows("bilstm_256", without_growth(kBilstm), kBilstm, [](const Sizes& sizes) {
    return cs::nn::Lstm({.inputs = sizes.width, .hidden = sizes.width, .bidirectional = true});
  });
  sequence_rows(
      "lstm_variable_length", without_growth(kVariableLength), kVariableLength,
      [](const Sizes& sizes) { return cs::nn::Lstm({.inputs = sizes.width, .hidden = sizes.width}); }, Lengths::mixed);
}

/// One step of a few units for one sample, on the state that the step before left.
struct TinyStep {
  Sizes sizes;
  cs::nn::LstmCell cell{1, sizes.width};
  cs::nn::LstmCell::State state = cell.zero_state(1);
  cs::Tensor x = values({1, 1});

  void operator()() { state = cell(x, state).second; }
};

}  // namespace

void recurrent_rows() {
  letter_rows();
  word_rows("ptb_small", kSmallWords);
  word_rows("ptb_medium", kMediumWords);
  growing_rows("seq2seq_step", kTranslator, [](const Sizes& sizes) { return TranslatorStep{sizes}; });
  sequence_rows();
  growing_rows("lstm4_one_sample", kTinyCell, [](const Sizes& sizes) { return TinyStep{sizes}; });
}

}  // namespace bench
