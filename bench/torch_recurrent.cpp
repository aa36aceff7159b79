// The rows of capstan_recurrent.cpp in LibTorch: each in every way that a user of LibTorch might write it for speed.
#include <torch/torch.h>

#include <memory>

#include "bench/rows.hpp"

namespace bench {
namespace {

using Tensors = std::vector<torch::Tensor>;
namespace rnn_utils = torch::nn::utils::rnn;

constexpr double kRate = 0.1;

/// Always the same numbers, uniform in [-2, 2).
torch::Tensor values(at::IntArrayRef shape, std::uint64_t seed = 1) {
  torch::manual_seed(seed);
  return torch::rand(shape) * 4 - 2;
}

/// int64, uniform in [0, high).
torch::Tensor indices(at::IntArrayRef shape, std::int64_t high, std::uint64_t seed = 1) {
  torch::manual_seed(seed);
  return torch::randint(high, shape, torch::kLong);
}

/// For work that is no value: modules do not copy.
template <class Make>
void shared_row(const std::string& name, Make make) {
  row(name, [make] { return [work = make()] { (*work)(); }; });
}

/// What becomes of the gradients of the step before: filled with zeros, or let go.
enum class Before { zeroed, released };

void clear(torch::optim::Optimizer& optimizer, Before before) {
  if (before == Before::zeroed) return optimizer.zero_grad();
  for (auto& group : optimizer.param_groups())
    for (auto& parameter : group.params()) parameter.mutable_grad() = torch::Tensor();
}

/// clip_grad_norm_ for gradients that may be sparse.
void clip(const Tensors& parameters, double limit) {
  const torch::NoGradGuard off;
  Tensors parts, norms;
  for (const torch::Tensor& parameter : parameters) {
    torch::Tensor grad = parameter.grad();
    if (grad.is_sparse()) {
      grad = grad.coalesce();
      parameter.mutable_grad() = grad;
      grad = grad._values();
    }
    parts.push_back(grad);
    norms.push_back(grad.norm());
  }
  const torch::Tensor factor = torch::clamp_max(limit / (torch::stack(norms).norm() + 1e-6), 1.0);
  for (torch::Tensor& part : parts) part.mul_(factor);
}

/// A step of gradient descent on a fixed batch, the gradients clipped by their common norm.
template <class Net>
struct ClippedStep {
  Net net;
  torch::optim::SGD sgd{net.parameters(), torch::optim::SGDOptions(kRate)};
  Tensors parameters = net.parameters();
  torch::Tensor inputs, labels;
  double limit;
  Before before;

  ClippedStep(const torch::Tensor& in, const torch::Tensor& out, double norm, Before grads)
      : inputs(in), labels(out), limit(norm), before(grads) {}

  void operator()() {
    clear(sgd, before);
    torch::cross_entropy_loss(net(inputs), labels).backward();
    if (Net::kSparse) clip(parameters, limit);
    else torch::nn::utils::clip_grad_norm_(parameters, limit);
    sgd.step();
  }
};

template <class Net>
void step_row(const std::string& name, at::IntArrayRef shape, std::int64_t high, bool one_hot, double limit,
              Before before) {
  shared_row(name + (before == Before::zeroed ? "_zeroed" : ""), [shape = shape.vec(), high, one_hot, limit, before] {
    torch::Tensor inputs = indices(shape, high);
    if (one_hot) inputs = torch::one_hot(inputs, high).to(torch::kFloat);
    return std::make_shared<ClippedStep<Net>>(inputs, indices(shape, high, 2).flatten(), limit, before);
  });
}

// --- the model of letters: batch 64, 10 steps, 27 letters, 64 units ----------------------------------------------

constexpr std::int64_t kBatch = 64, kSteps = 10, kLetters = 27, kUnits = 64;

struct LetterNet : torch::nn::Module {
  static constexpr bool kSparse = false;
  torch::nn::Linear out = register_module("out", torch::nn::Linear(kUnits, kLetters));
};

struct LetterLayer : LetterNet {
  torch::nn::LSTM lstm = register_module("lstm", torch::nn::LSTM(kLetters, kUnits));

  torch::Tensor operator()(const torch::Tensor& letters) {  // [steps, batch, letters]
    return out->forward(std::get<0>(lstm->forward(letters)).view({kSteps * kBatch, kUnits}));
  }
};

/// LibTorch's cell, step by step.
struct LetterSteps : LetterNet {
  torch::nn::LSTMCell cell = register_module("cell", torch::nn::LSTMCell(kLetters, kUnits));

  torch::Tensor operator()(const torch::Tensor& letters) {
    auto state = std::make_tuple(torch::zeros({kBatch, kUnits}), torch::zeros({kBatch, kUnits}));
    Tensors outputs;
    for (const torch::Tensor& x : letters.unbind(0)) {
      state = cell->forward(x, state);
      outputs.push_back(std::get<0>(state));
    }
    return out->forward(torch::cat(outputs));
  }
};

/// The inputs' product for all steps at once, and one product for all gates of a step.
struct LetterHoisted : LetterNet {
  torch::Tensor wx = register_parameter("wx", values({kLetters, 4 * kUnits}, 1) * 0.1);
  torch::Tensor wh = register_parameter("wh", values({kUnits, 4 * kUnits}, 2) * 0.1);
  torch::Tensor b = register_parameter("b", torch::zeros({4 * kUnits}));

  torch::Tensor operator()(const torch::Tensor& letters) {
    const torch::Tensor inputs = torch::addmm(b, letters.view({kSteps * kBatch, kLetters}), wx);
    torch::Tensor h = torch::zeros({kBatch, kUnits}), c = torch::zeros({kBatch, kUnits});
    Tensors outputs;
    for (const torch::Tensor& input : inputs.view({kSteps, kBatch, 4 * kUnits}).unbind(0)) {
      const auto gates = torch::addmm(input, h, wh).chunk(4, 1);
      c = torch::sigmoid(gates[1]) * c + torch::sigmoid(gates[0]) * torch::tanh(gates[2]);
      h = torch::sigmoid(gates[3]) * torch::tanh(c);
      outputs.push_back(h);
    }
    return out->forward(torch::cat(outputs));
  }
};

/// x @ wx + h @ wh + b, of separate operations or of LibTorch's fused ones.
template <bool kFused>
struct Gate : torch::nn::Module {
  torch::Tensor wx = register_parameter("wx", values({kLetters, kUnits}, 1) * 0.1);
  torch::Tensor wh = register_parameter("wh", values({kUnits, kUnits}, 2) * 0.1);
  torch::Tensor b = register_parameter("b", torch::zeros({kUnits}));

  torch::Tensor operator()(const torch::Tensor& x, const torch::Tensor& h) const {
    if (kFused) return torch::addmm(torch::addmm(b, x, wx), h, wh);
    return torch::matmul(x, wx) + torch::matmul(h, wh) + b;
  }
};

/// The cell written by hand: eight products a step.
template <bool kFused>
struct LetterCell : LetterNet {
  std::shared_ptr<Gate<kFused>> input = register_module("input", std::make_shared<Gate<kFused>>());
  std::shared_ptr<Gate<kFused>> forget = register_module("forget", std::make_shared<Gate<kFused>>());
  std::shared_ptr<Gate<kFused>> update = register_module("update", std::make_shared<Gate<kFused>>());
  std::shared_ptr<Gate<kFused>> output = register_module("output", std::make_shared<Gate<kFused>>());

  torch::Tensor operator()(const torch::Tensor& letters) {
    torch::Tensor h = torch::zeros({kBatch, kUnits}), c = torch::zeros({kBatch, kUnits});
    Tensors outputs;
    for (const torch::Tensor& x : letters.unbind(0)) {
      const torch::Tensor i = torch::sigmoid((*input)(x, h)), f = torch::sigmoid((*forget)(x, h));
      c = f * c + i * torch::tanh((*update)(x, h));
      h = torch::sigmoid((*output)(x, h)) * torch::tanh(c);
      outputs.push_back(h);
    }
    return out->forward(torch::cat(outputs));
  }
};

template <class Net>
void letter_row(const std::string& name) {
  for (const Before before : {Before::zeroed, Before::released})
    step_row<Net>(name, {kSteps, kBatch}, kLetters, true, 1.25, before);
}

void letter_rows() {
  letter_row<LetterLayer>("char_lstm_fused/layer");
  letter_row<LetterSteps>("char_lstm_fused/cell");
  letter_row<LetterHoisted>("char_lstm_fused/hoisted");
  letter_row<LetterCell<false>>("char_lstm_cell/separate");
  letter_row<LetterCell<true>>("char_lstm_cell/addmm");
}

// --- the model of words: batch 20, two layers, 10,000 words ------------------------------------------------------

constexpr std::int64_t kWords = 10000;

template <std::int64_t kSize, bool kRows>
struct WordNet : torch::nn::Module {
  static constexpr bool kSparse = kRows;  // the gradient of the table
  torch::nn::Embedding words =
      register_module("words", torch::nn::Embedding(torch::nn::EmbeddingOptions(kWords, kSize).sparse(kRows)));
  torch::nn::LSTM lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(kSize, kSize).num_layers(2)));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(kSize, kWords));

  torch::Tensor operator()(const torch::Tensor& text) {  // [steps, batch]
    return out->forward(std::get<0>(lstm->forward(words->forward(text))).view({text.numel(), kSize}));
  }
};

template <std::int64_t kSize>
void word_rows(const std::string& name, std::int64_t steps) {
  for (const Before before : {Before::zeroed, Before::released})
    step_row<WordNet<kSize, false>>(name + "/layer", {steps, 20}, kWords, false, 5, before);
  step_row<WordNet<kSize, true>>(name + "/layer_sparse", {steps, 20}, kWords, false, 5, Before::released);
}

// --- a translator: batch 64, 24 and 13 steps, two layers of 50 each ----------------------------------------------

struct Translator : torch::nn::Module {
  static constexpr std::int64_t kTokens = 30, kSize = 30, kHidden = 50;
  torch::nn::Embedding source = register_module("source", torch::nn::Embedding(kTokens, kSize));
  torch::nn::Embedding target = register_module("target", torch::nn::Embedding(kTokens, kSize));
  torch::nn::LSTM encoder =
      register_module("encoder", torch::nn::LSTM(torch::nn::LSTMOptions(kSize, kHidden).num_layers(2)));
  torch::nn::LSTM decoder =
      register_module("decoder", torch::nn::LSTM(torch::nn::LSTMOptions(kSize, kHidden).num_layers(2)));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(kHidden, kTokens));

  torch::Tensor operator()(const torch::Tensor& from, const torch::Tensor& to) {  // [steps, batch]
    const auto state = std::get<1>(encoder->forward(source->forward(from)));
    const torch::Tensor outputs = std::get<0>(decoder->forward(target->forward(to), state));
    return out->forward(outputs.view({to.numel(), kHidden}));
  }
};

struct TranslatorStep {
  Translator net;
  torch::optim::Adam adam{net.parameters(), torch::optim::AdamOptions(1e-3)};
  torch::Tensor from = indices({24, 64}, Translator::kTokens, 1), to = indices({13, 64}, Translator::kTokens, 2);
  torch::Tensor labels = indices({13 * 64}, Translator::kTokens, 3);
  Before before;

  explicit TranslatorStep(Before grads) : before(grads) {}
  void operator()() {
    clear(adam, before);
    torch::cross_entropy_loss(net(from, to), labels).backward();
    adam.step();
  }
};

// --- layers: 256 inputs, 256 units, batch 32, 50 steps -----------------------------------------------------------

torch::Tensor mixed_lengths() {
  torch::Tensor lengths = torch::empty({32}, torch::kLong);
  for (std::int64_t i = 0; i < 32; ++i) lengths[i] = 5 + i * 29 % 46;
  return lengths;
}

/// A layer over [steps, batch, 256].
template <class Layer>
struct Sequence {
  Layer layer;
  torch::Tensor x = values({50, 32, 256});

  template <class Options>
  explicit Sequence(const Options& options) : layer(options) {}
  torch::Tensor operator()() { return std::get<0>(layer->forward(x)); }
};

/// A layer over padded [batch, steps, 256], packed and padded again.
struct PackedSequence {
  torch::nn::LSTM layer;
  torch::Tensor x = values({32, 50, 256}), lengths = mixed_lengths();

  explicit PackedSequence(const torch::nn::LSTMOptions& options) : layer(options) {}
  torch::Tensor operator()() {
    const auto packed = rnn_utils::pack_padded_sequence(x, lengths, /*batch_first=*/true, /*enforce_sorted=*/false);
    const auto outputs = std::get<0>(layer->forward_with_packed_input(packed));
    return std::get<0>(rnn_utils::pad_packed_sequence(outputs, /*batch_first=*/true, 0.0, 50));
  }
};

/// With the gradients for the inputs and all weights.
template <class Work>
struct WithGradients {
  Work work;
  Tensors sources = work.layer->parameters();
  torch::Tensor grad = values(work().sizes(), 9);

  template <class Options>
  explicit WithGradients(const Options& options) : work(options) {
    work.x.requires_grad_();
    sources.push_back(work.x);
  }
  void operator()() { torch::autograd::grad({work()}, sources, {grad}); }
};

/// Work that is not recorded; `Guard` says how.
template <class Guard, class Make>
void guarded_row(const std::string& name, Make make) {
  row(name, [make] { return [work = make(), guard = std::make_shared<Guard>()] { (*work)(); }; });
}

template <class Work, class Options>
void sequence_rows(const std::string& name, const std::string& variant, const Options& options) {
  const auto make = [options] { return std::make_shared<Work>(options); };
  guarded_row<torch::NoGradGuard>(name + "_forward/" + variant, make);
  guarded_row<c10::InferenceMode>(name + "_forward/" + variant + "_inference", make);
  shared_row(name + "/" + variant, [options] { return std::make_shared<WithGradients<Work>>(options); });
}

// --- one step of 4 units for one sample, on the state that the step before left ----------------------------------

struct TinyLayer {
  torch::nn::LSTM layer = torch::nn::LSTM(1, 4);
  torch::Tensor x = values({1, 1, 1});
  std::tuple<torch::Tensor, torch::Tensor> state{torch::zeros({1, 1, 4}), torch::zeros({1, 1, 4})};

  void operator()() { state = std::get<1>(layer->forward(x, state)); }
};

struct TinyCell {
  torch::nn::LSTMCell cell = torch::nn::LSTMCell(1, 4);
  torch::Tensor x = values({1, 1});
  std::tuple<torch::Tensor, torch::Tensor> state{torch::zeros({1, 4}), torch::zeros({1, 4})};

  void operator()() { state = cell->forward(x, state); }
};

struct TinyFunction : TinyCell {
  void operator()() {
    state = at::lstm_cell(x, {std::get<0>(state), std::get<1>(state)}, cell->weight_ih, cell->weight_hh, cell->bias_ih,
                          cell->bias_hh);
  }
};

/// One product for input and state together.
struct TinyHand {
  torch::Tensor w = values({5, 16}), b = torch::zeros({16}), x = values({1, 1});
  torch::Tensor h = torch::zeros({1, 4}), c = torch::zeros({1, 4});

  void operator()() {
    const auto gates = torch::addmm(b, torch::cat({x, h}, 1), w).chunk(4, 1);
    c = torch::sigmoid(gates[1]) * c + torch::sigmoid(gates[0]) * torch::tanh(gates[2]);
    h = torch::sigmoid(gates[3]) * torch::tanh(c);
  }
};

template <class Work>
void tiny_rows(const std::string& variant) {
  const auto make = [] { return std::make_shared<Work>(); };
  guarded_row<torch::NoGradGuard>("lstm4_one_sample/" + variant, make);
  guarded_row<c10::InferenceMode>("lstm4_one_sample/" + variant + "_inference", make);
}

}  // namespace

void recurrent_rows() {
  letter_rows();
  word_rows<200>("ptb_small", 20);
  word_rows<650>("ptb_medium", 35);
  shared_row("seq2seq_step/layer_zeroed", [] { return std::make_shared<TranslatorStep>(Before::zeroed); });
  shared_row("seq2seq_step/layer", [] { return std::make_shared<TranslatorStep>(Before::released); });

  const torch::nn::LSTMOptions lstm(256, 256);
  sequence_rows<Sequence<torch::nn::GRU>>("gru_256", "layer", torch::nn::GRUOptions(256, 256));
  sequence_rows<Sequence<torch::nn::LSTM>>("bilstm_256", "layer", torch::nn::LSTMOptions(lstm).bidirectional(true));
  sequence_rows<PackedSequence>("lstm_variable_length", "packed", lstm);

  tiny_rows<TinyLayer>("layer");
  tiny_rows<TinyCell>("cell");
  tiny_rows<TinyFunction>("function");
  tiny_rows<TinyHand>("hand");
}

}  // namespace bench
