// The rows of capstan_recurrent.cpp in LibTorch: each in every way that a user might write it for speed. The model of
// letters is in torch_letters.cpp.
#include <torch/torch.h>

#include <memory>
#include <string>
#include <tuple>

#include "bench/rows.hpp"
#include "bench/torch_steps.hpp"
#include "bench/torch_values.hpp"

namespace bench {
namespace {

namespace rnn_utils = torch::nn::utils::rnn;

// --- the model of words: two layers, 10,000 words ----------------------------------------------------------------

constexpr std::int64_t kWords = 10000;

template <bool kRows>
struct WordNet : torch::nn::Module {
  static constexpr bool kSparse = kRows;  // the gradient of the table
  std::int64_t width;
  torch::nn::Embedding words =
      register_module("words", torch::nn::Embedding(torch::nn::EmbeddingOptions(kWords, width).sparse(kRows)));
  torch::nn::LSTM lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(width, width).num_layers(2)));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(width, kWords));

  explicit WordNet(const Sizes& sizes) : width(sizes.width) {}
  torch::Tensor operator()(const torch::Tensor& text) {  // [steps, batch]
    return out->forward(std::get<0>(lstm->forward(words->forward(text))).view({text.numel(), width}));
  }
};

void word_rows(const std::string& name, const Growing& workload) {
  clipped_rows<WordNet<false>>(name + "/layer", workload, kWords, Inputs::numbers, 5);
  clipped_rows<WordNet<true>>(name + "/layer_sparse", workload, kWords, Inputs::numbers, 5);
}

// --- a translator: 24 and 13 steps, two layers each --------------------------------------------------------------

struct TranslatorNet : torch::nn::Module {
  static constexpr std::int64_t kTokens = 30, kFeatures = 30;
  std::int64_t width;
  torch::nn::Embedding source = register_module("source", torch::nn::Embedding(kTokens, kFeatures));
  torch::nn::Embedding target = register_module("target", torch::nn::Embedding(kTokens, kFeatures));
  torch::nn::LSTM encoder =
      register_module("encoder", torch::nn::LSTM(torch::nn::LSTMOptions(kFeatures, width).num_layers(2)));
  torch::nn::LSTM decoder =
      register_module("decoder", torch::nn::LSTM(torch::nn::LSTMOptions(kFeatures, width).num_layers(2)));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(width, kTokens));

  explicit TranslatorNet(const Sizes& sizes) : width(sizes.width) {}
  torch::Tensor operator()(const torch::Tensor& from, const torch::Tensor& to) {  // [steps, batch]
    const auto state = std::get<1>(encoder->forward(source->forward(from)));
    const torch::Tensor outputs = std::get<0>(decoder->forward(target->forward(to), state));
    return out->forward(outputs.view({to.numel(), width}));
  }
};

struct Translator {
  TranslatorNet net;
  torch::Tensor from, to, labels;

  explicit Translator(const Sizes& sizes)
      : net(sizes),
        from(indices({24, sizes.batch}, TranslatorNet::kTokens, 1)),
        to(indices({13, sizes.batch}, TranslatorNet::kTokens, 2)),
        labels(indices({13 * sizes.batch}, TranslatorNet::kTokens, 3)) {}
  torch::Tensor loss() { return torch::cross_entropy_loss(net(from, to), labels); }
};

// --- layers ------------------------------------------------------------------------------------------------------

/// A layer over [steps, batch, width].
template <class Layer>
struct Sequence {
  Layer layer;
  torch::Tensor x;

  template <class Options>
  Sequence(const Sizes& sizes, const Options& options)
      : layer(options), x(values({sizes.steps, sizes.batch, sizes.width})) {}
  torch::Tensor operator()() { return std::get<0>(layer->forward(x)); }
};

struct Gru : Sequence<torch::nn::GRU> {
  explicit Gru(const Sizes& sizes) : Sequence(sizes, torch::nn::GRUOptions(sizes.width, sizes.width)) {}
};

struct Bilstm : Sequence<torch::nn::LSTM> {
  explicit Bilstm(const Sizes& sizes)
      : Sequence(sizes, torch::nn::LSTMOptions(sizes.width, sizes.width).bidirectional(true)) {}
};

/// Uniform in 5..50, both included.
torch::Tensor mixed_lengths(std::int64_t batch) {
  torch::Tensor lengths = torch::empty({batch}, torch::kLong);
  for (std::int64_t i = 0; i < batch; ++i) lengths[i] = 5 + i * 29 % 46;
  return lengths;
}

/// A layer over padded [batch, steps, width] in any order, packed and padded again.
struct PackedLstm {
  std::int64_t steps;
  torch::nn::LSTM layer;
  torch::Tensor x, lengths;

  explicit PackedLstm(const Sizes& sizes)
      : steps(sizes.steps),
        layer(sizes.width, sizes.width),
        x(values({sizes.batch, sizes.steps, sizes.width})),
        lengths(mixed_lengths(sizes.batch)) {}
  torch::Tensor operator()() {
    const auto packed = rnn_utils::pack_padded_sequence(x, lengths, /*batch_first=*/true, /*enforce_sorted=*/false);
    const auto outputs = std::get<0>(layer->forward_with_packed_input(packed));
    return std::get<0>(rnn_utils::pad_packed_sequence(outputs, /*batch_first=*/true, 0.0, steps));
  }
};

struct PlainLstm : Sequence<torch::nn::LSTM> {
  explicit PlainLstm(const Sizes& sizes) : Sequence(sizes, torch::nn::LSTMOptions(sizes.width, sizes.width)) {}
};

/// The same over padded [steps, batch, width] that was sorted beforehand, the longest first.
struct SortedLstm : PlainLstm {
  std::int64_t steps;
  torch::Tensor lengths;

  explicit SortedLstm(const Sizes& sizes)
      : PlainLstm(sizes),
        steps(sizes.steps),
        lengths(std::get<0>(mixed_lengths(sizes.batch).sort(0, /*descending=*/true))) {}
  torch::Tensor operator()() {
    const auto packed = rnn_utils::pack_padded_sequence(x, lengths, /*batch_first=*/false, /*enforce_sorted=*/true);
    const auto outputs = std::get<0>(layer->forward_with_packed_input(packed));
    return std::get<0>(rnn_utils::pad_packed_sequence(outputs, /*batch_first=*/false, 0.0, steps));
  }
};

/// All steps of padded [steps, batch, width], the padding's outputs made zero by a mask that is there already.
struct MaskedLstm : PlainLstm {
  torch::Tensor mask;

  explicit MaskedLstm(const Sizes& sizes)
      : PlainLstm(sizes),
        mask((torch::arange(sizes.steps).view({sizes.steps, 1, 1}) < mixed_lengths(sizes.batch).view({sizes.batch, 1}))
                 .to(torch::kFloat)) {}
  torch::Tensor operator()() { return Sequence::operator()() * mask; }
};

/// With the gradients for the inputs and all weights.
template <class Work>
struct WithGradients {
  Work work;
  Tensors sources = work.layer->parameters();
  torch::Tensor grad = values(work().sizes(), 9);

  explicit WithGradients(const Sizes& sizes) : work(sizes) {
    work.x.requires_grad_();
    sources.push_back(work.x);
  }
  void operator()() { torch::autograd::grad({work()}, sources, {grad}); }
};

/// Work that is not recorded, in both ways there are.
template <class Work>
void forward_row(const std::string& name, const Growing& workload) {
  growing_row(name, workload, guarded<torch::NoGradGuard>(shared<Work>()));
  growing_row(name + "_inference", workload, guarded<c10::InferenceMode>(shared<Work>()));
}

/// `name` ends in a variant.
template <class Work>
void sequence_rows(const std::string& name, const Growing& forward, const Growing& both) {
  forward_row<Work>(with_suffix(name, "_forward"), forward);
  growing_row(name, both, shared<WithGradients<Work>>());
}

// --- one step of a few units for one sample, on the state that the step before left ------------------------------

using State = std::tuple<torch::Tensor, torch::Tensor>;

struct TinyLayer {
  torch::nn::LSTM layer;
  torch::Tensor x = values({1, 1, 1});
  State state;

  explicit TinyLayer(const Sizes& sizes)
      : layer(1, sizes.width), state(torch::zeros({1, 1, sizes.width}), torch::zeros({1, 1, sizes.width})) {}
  void operator()() { state = std::get<1>(layer->forward(x, state)); }
};

struct TinyCell {
  torch::nn::LSTMCell cell;
  torch::Tensor x = values({1, 1});
  State state;

  explicit TinyCell(const Sizes& sizes)
      : cell(1, sizes.width), state(torch::zeros({1, sizes.width}), torch::zeros({1, sizes.width})) {}
  void operator()() { state = cell->forward(x, state); }
};

struct TinyFunction : TinyCell {
  using TinyCell::TinyCell;
  void operator()() {
    state = at::lstm_cell(x, {std::get<0>(state), std::get<1>(state)}, cell->weight_ih, cell->weight_hh, cell->bias_ih,
                          cell->bias_hh);
  }
};

/// One product for input and state together.
struct TinyHand {
  torch::Tensor w, b, x = values({1, 1}), h, c;

  explicit TinyHand(const Sizes& sizes)
      : w(values({1 + sizes.width, 4 * sizes.width})),
        b(torch::zeros({4 * sizes.width})),
        h(torch::zeros({1, sizes.width})),
        c(torch::zeros({1, sizes.width})) {}
  void operator()() {
    const auto gates = torch::addmm(b, torch::cat({x, h}, 1), w).chunk(4, 1);
    c = torch::sigmoid(gates[1]) * c + torch::sigmoid(gates[0]) * torch::tanh(gates[2]);
    h = torch::sigmoid(gates[3]) * torch::tanh(c);
  }
};

}  // namespace

void recurrent_rows() {
  letter_rows();
  word_rows("ptb_small", kSmallWords);
  word_rows("ptb_medium", kMediumWords);
  adam_row<Translator>("seq2seq_step/layer", kTranslator);

  sequence_rows<Gru>("gru_256/layer", kGruForward, kGru);
  sequence_rows<Bilstm>("bilstm_256/layer", without_growth(kBilstm), kBilstm);
  const Growing lengths_forward = without_growth(kVariableLength);
  sequence_rows<PackedLstm>("lstm_variable_length/packed", lengths_forward, kVariableLength);
  sequence_rows<SortedLstm>("lstm_variable_length/packed_sorted", lengths_forward, kVariableLength);
  sequence_rows<MaskedLstm>("lstm_variable_length/masked", lengths_forward, kVariableLength);

  forward_row<TinyLayer>("lstm4_one_sample/layer", kTinyCell);
  forward_row<TinyCell>("lstm4_one_sample/cell", kTinyCell);
  forward_row<TinyFunction>("lstm4_one_sample/function", kTinyCell);
  forward_row<TinyHand>("lstm4_one_sample/hand", kTinyCell);
}

}  // namespace bench
