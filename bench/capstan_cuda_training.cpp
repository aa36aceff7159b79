// Training steps on a GPU, as they are written and as recorded steps, and one step of a tiny cell. The models are those
// of capstan_layers.cpp, capstan_training.cpp and capstan_recurrent.cpp.
#include <array>
#include <memory>
#include <tuple>

#include "bench/cuda_rows.hpp"

namespace cs = capstan;

namespace bench {
namespace {

using cs::Tensor;
using Tensors = std::vector<Tensor>;

/// A step on a fixed batch; the gradients are clipped by their common norm if there is a limit for it.
template <class Optimizer, class Net, std::size_t kInputs>
struct Step {
  Net net;
  Optimizer optimizer;
  double limit;
  Tensor labels;
  std::array<Tensor, kInputs> inputs;

  template <class Options>
  Step(Net model, const Options& options, double norm, const Tensor& out, const std::array<Tensor, kInputs>& in)
      : net(on_gpu(std::move(model))),
        optimizer(cs::nn::parameters(net), options),
        limit(norm),
        labels(out),
        inputs(in) {}

  template <class... Inputs>
  Tensor operator()(const Tensor& out, const Inputs&... in) {
    cs::GradientTape tape;
    const Tensor loss = cs::mean(cs::sparse_softmax_cross_entropy(net(in...), out));
    Tensors gradients = tape.gradient(loss, optimizer.parameters());
    if (limit > 0) gradients = cs::optim::clip_by_global_norm(std::move(gradients), limit).gradients;
    optimizer.apply(gradients);
    return loss;
  }
  /// Calls a function of labels and inputs with the batch.
  template <class Function>
  void run(Function& function) const {
    std::apply([&](const auto&... in) { function(labels, in...); }, inputs);
  }
};

template <class Net, class... Inputs>
auto adam_step(Net net, double rate, const Tensor& labels, const Inputs&... inputs) {
  using Made = Step<cs::optim::Adam, Net, sizeof...(Inputs)>;
  return std::make_shared<Made>(std::move(net), cs::optim::AdamOptions{.learning_rate = rate}, 0, labels,
                                std::array{inputs...});
}

template <class Net>
auto clipped_step(Net net, double limit, const Tensor& labels, const Tensor& inputs) {
  return std::make_shared<Step<cs::optim::Sgd, Net, 1>>(std::move(net), cs::optim::SgdOptions{.learning_rate = 0.1},
                                                        limit, labels, std::array{inputs});
}

/// The rows of the name, and those of name_captured. `make(sizes)` is a shared Step.
template <class Make>
void step_rows(Bench& bench, const std::string& name, const Growing& workload, Make make) {
  each_size(name, workload, [&](const std::string& row, const Sizes& sizes) {
    bench.row(row, {}, [&] { return [step = make(sizes)] { step->run(*step); }; });
  });
  each_size(name + "_captured", workload, [&](const std::string& row, const Sizes& sizes) {
    bench.row(row, {}, [&] {
      const auto step = make(sizes);
      const auto function = [step](const auto&... tensors) { return (*step)(tensors...); };
      using Captured = decltype(cs::cuda::capture(function, kDevice));
      const std::shared_ptr<Captured> captured(new Captured(cs::cuda::capture(function, kDevice)));
      return [step, captured] { step->run(*captured); };
    });
  });
}

// --- parity: how many ones are among some bits; Adam -------------------------------------------------------------

struct ParityNet {
  cs::nn::RnnCell cell;
  cs::nn::Linear out;
  CAPSTAN_FIELDS(cell, out);

  ParityNet(std::int64_t units, std::int64_t classes)
      : cell(1, units, {.activation = cs::Activation::relu}), out(units, classes) {}
  Tensor operator()(const Tensor& bits) { return out(cs::nn::unroll(cell, bits).second.h); }  // [batch, steps, 1]
};

void parity_rows(Bench& bench) {
  step_rows(bench, "parity_step", kParity, [](const Sizes& sizes) {
    cs::Rng rng(1);
    const Tensor bits = cs::bernoulli({sizes.batch, sizes.steps, 1}, 0.5, rng, {.device = kDevice});
    const Tensor counts = cs::sum(bits, {1, 2}).to(cs::DType::int64);
    return adam_step(ParityNet(sizes.width, sizes.steps + 1), 1e-3, counts, bits);
  });
}

// --- MNIST: two convolutions and two dense layers; Adam ----------------------------------------------------------

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

void image_rows(Bench& bench) {
  step_rows(bench, "mnist_cnn", along_batch(50, 10, 1000), [](const Sizes& sizes) {
    const Tensor digits = cs::remainder(cs::arange(sizes.batch), 10).to(kDevice);
    return adam_step(Cnn(), 1e-4, digits, values({sizes.batch, 1, 28, 28}));
  });
}

// --- letters: gradient descent, the gradients clipped ------------------------------------------------------------

constexpr std::int64_t kAlphabet = 27;

struct LetterNet {
  cs::nn::Lstm lstm;
  cs::nn::Linear out;
  CAPSTAN_FIELDS(lstm, out);

  explicit LetterNet(std::int64_t units) : lstm({.inputs = kAlphabet, .hidden = units}), out(units, kAlphabet) {}
  Tensor operator()(const Tensor& letters) {  // [batch, steps, letters]
    auto [outputs, last] = lstm(letters);
    return out(outputs);
  }
};

/// x @ wx + h @ wh + b
struct Gate {
  cs::Parameter wx, wh, b;
  CAPSTAN_FIELDS(wx, wh, b);

  explicit Gate(std::int64_t units)
      : wx(cs::nn::init::glorot_uniform()({kAlphabet, units})),
        wh(cs::nn::init::glorot_uniform()({units, units})),
        b(cs::zeros({units})) {}
  Tensor operator()(const Tensor& x, const Tensor& h) const { return cs::linear(x, wx, b) + cs::matmul(h, wh); }
};

/// The same with a cell written by hand: eight products a step.
struct LetterCell {
  Gate input, forget, update, output;
  cs::nn::Linear out;
  CAPSTAN_FIELDS(input, forget, update, output, out);

  explicit LetterCell(std::int64_t units)
      : input(units), forget(units), update(units), output(units), out(units, kAlphabet) {}
  Tensor operator()(const Tensor& letters) const {  // [steps, batch, letters]
    const cs::Shape shape{letters.size(1), out.weight.size(0)};
    Tensor h = cs::zeros(shape, {.device = kDevice}), c = cs::zeros(shape, {.device = kDevice});
    Tensors outputs;
    for (const Tensor& x : cs::unstack(letters)) {
      const Tensor i = cs::sigmoid(input(x, h)), f = cs::sigmoid(forget(x, h));
      c = f * c + i * cs::tanh(update(x, h));
      h = cs::sigmoid(output(x, h)) * cs::tanh(c);
      outputs.push_back(h);
    }
    return out(cs::concat(outputs));
  }
};

void letter_rows(Bench& bench) {
  step_rows(bench, "char_lstm", kLetters, [](const Sizes& sizes) {
    const cs::Shape shape{sizes.batch, sizes.steps};
    return clipped_step(LetterNet(sizes.width), 1.25, indices(shape, kAlphabet, 2),
                        cs::one_hot(indices(shape, kAlphabet), kAlphabet));
  });
  step_rows(bench, "char_lstm_cell", kLetterCell, [](const Sizes& sizes) {
    const cs::Shape shape{sizes.steps, sizes.batch};
    return clipped_step(LetterCell(sizes.width), 1.25, indices({shape.numel()}, kAlphabet, 2),
                        cs::one_hot(indices(shape, kAlphabet), kAlphabet));
  });
}

// --- words: two layers, 10,000 words; gradient descent, the gradients clipped ------------------------------------

constexpr std::int64_t kWords = 10000;

struct WordNet {
  cs::nn::Embedding words;
  cs::nn::Lstm lstm;
  cs::nn::Linear out;
  CAPSTAN_FIELDS(words, lstm, out);

  explicit WordNet(std::int64_t units)
      : words(kWords, units), lstm({.inputs = units, .hidden = units, .layers = 2}), out(units, kWords) {}
  Tensor operator()(const Tensor& text) {  // [batch, steps]
    auto [outputs, last] = lstm(words(text));
    return out(outputs);
  }
};

void word_rows(Bench& bench) {
  const auto make = [](const Sizes& sizes) {
    const cs::Shape shape{sizes.batch, sizes.steps};
    return clipped_step(WordNet(sizes.width), 5, indices(shape, kWords, 2), indices(shape, kWords, 1));
  };
  step_rows(bench, "ptb_small", kSmallWords, make);
  step_rows(bench, "ptb_medium", kMediumWords, make);
}

// --- a translator: 24 and 13 steps, two layers each; Adam --------------------------------------------------------

struct Translator {
  static constexpr std::int64_t kTokens = 30, kSize = 30;
  cs::nn::Embedding source{kTokens, kSize}, target{kTokens, kSize};
  cs::nn::Lstm encoder, decoder;
  cs::nn::Linear out;
  CAPSTAN_FIELDS(source, target, encoder, decoder, out);

  explicit Translator(std::int64_t units)
      : encoder({.inputs = kSize, .hidden = units, .layers = 2}),
        decoder({.inputs = kSize, .hidden = units, .layers = 2}),
        out(units, kTokens) {}
  Tensor operator()(const Tensor& from, const Tensor& to) {
    auto [read, state] = encoder(source(from));
    auto [written, last] = decoder(target(to), {.initial_state = state});
    return out(written);
  }
};

void translator_rows(Bench& bench) {
  step_rows(bench, "seq2seq_step", kTranslator, [](const Sizes& sizes) {
    const cs::Shape read{sizes.batch, 24}, written{sizes.batch, 13};
    constexpr std::int64_t kTokens = Translator::kTokens;
    return adam_step(Translator(sizes.width), 1e-3, indices(written, kTokens, 3), indices(read, kTokens, 1),
                     indices(written, kTokens, 2));
  });
}

// --- one step of a few units for one sample, on the state that the step before left ------------------------------

struct TinyStep {
  cs::nn::LstmCell cell;
  cs::nn::LstmCell::State state;
  Tensor x = values({1, 1});

  explicit TinyStep(std::int64_t units) : cell(on_gpu(cs::nn::LstmCell(1, units))), state(cell.zero_state(1)) {}
  void operator()() { state = cell(x, state).second; }
};

void tiny_rows(Bench& bench) {
  each_size("lstm4_one_sample", kTinyCell, [&](const std::string& row, const Sizes& sizes) {
    bench.row(row, {}, [&] {
      const auto step = std::make_shared<TinyStep>(sizes.width);
      return [step] { (*step)(); };
    });
  });
}

}  // namespace

void training_rows(Bench& bench) {
  parity_rows(bench);
  image_rows(bench);
  letter_rows(bench);
  word_rows(bench);
  translator_rows(bench);
  tiny_rows(bench);
}

}  // namespace bench
