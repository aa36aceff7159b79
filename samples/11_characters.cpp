// 11_characters: a model of English, letter by letter: an LSTM written out by hand, or the library's with --fused.
// Shows: a cell of one's own from matrices, products and sigmoids, run over sequences by `unroll`; the same network as
//        one operation, for the same model; SGD with clipped gradients and a decaying rate; text made by sampling.
// Prints: the progress and, every 1000 steps, the average loss of the last 100, the learning rate, the perplexity of
//         the batch and of 1000 letters for validation, and five lines of 80 letters that the model writes. Draws the
//         loss beside the published one, of the whole text8: 3.298 before training, a perplexity of 27, and 1.576 at
//         step 7000.
// Fails:  if the perplexity before training is not about 27, or the validation's exceeds 4.9 in the end; with --quick,
//         1000 steps, 8. Who counts letters has 17, and who counts pairs of them 11.
#include <capstan/capstan.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iomanip>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "samples/sample.hpp"
#include "tools/chart.hpp"

namespace cs = capstan;
namespace data = capstan::data;
namespace nn = capstan::nn;

constexpr std::int64_t kLetters = 27, kUnits = 64;  // a to z and the space
constexpr std::int64_t kRows = 64, kSteps = 10;
constexpr std::int64_t kValidation = 1000;  // letters at the beginning of the text

/// The published start of all matrices: normal, of mean -0.1, cut at two standard deviations.
inline nn::Initializer small_weights() { return nn::init::truncated_normal(-0.1, 0.1); }

// --- the model -----------------------------------------------------------------------------------------------------

/// x [batch, letters] and the output of the step before [batch, units] -> [batch, units]
struct Gate {
  cs::Parameter from_letter{small_weights()({kLetters, kUnits})};
  cs::Parameter from_output{small_weights()({kUnits, kUnits})};
  cs::Parameter bias{cs::zeros({kUnits})};

  cs::Tensor operator()(const cs::Tensor& x, const cs::Tensor& before) const {
    return cs::matmul(x, from_letter) + cs::matmul(before, from_output) + bias;
  }
};

/// A long short-term memory, as it stands in the books. Any type of this shape is a cell.
struct HandWrittenLstm {
  struct State {
    cs::Tensor output, memory;  // [batch, units]
  };
  Gate input, forget, update, output;

  std::pair<cs::Tensor, State> operator()(const cs::Tensor& x, const State& before) const {
    const cs::Tensor& h = before.output;
    const cs::Tensor memory =
        cs::sigmoid(forget(x, h)) * before.memory + cs::sigmoid(input(x, h)) * cs::tanh(update(x, h));
    const cs::Tensor out = cs::sigmoid(output(x, h)) * cs::tanh(memory);
    return {out, State{out, memory}};
  }
  State zero_state(std::int64_t batch) const { return {cs::zeros({batch, kUnits}), cs::zeros({batch, kUnits})}; }
};

inline nn::Lstm fused_lstm() {
  return nn::Lstm{{.inputs = kLetters,
                   .hidden = kUnits,
                   .forget_bias = 0,
                   .input_init = small_weights(),
                   .recurrent_init = small_weights()}};
}

/// Runs a layer over letters [batch, steps, 27]: outputs [batch, steps, units], and the state after the last step.
inline std::pair<cs::Tensor, HandWrittenLstm::State> run_layer(HandWrittenLstm& cell, const cs::Tensor& letters,
                                                               const HandWrittenLstm::State& before) {
  return nn::unroll(cell, letters, {.initial_state = before});
}
inline std::pair<cs::Tensor, nn::Lstm::State> run_layer(nn::Lstm& lstm, const cs::Tensor& letters,
                                                        const nn::Lstm::State& before) {
  auto [outputs, after] = lstm(letters, {.initial_state = before});
  return {outputs, after};
}

template <class Layer>
struct CharacterModel {
  using State = typename Layer::State;

  Layer layer;
  nn::Linear out{kUnits, kLetters, {.weight_init = small_weights()}};

  std::pair<cs::Tensor, State> operator()(const cs::Tensor& ids, const State& before) {  // [batch, steps]
    auto [outputs, after] = run_layer(layer, cs::one_hot(ids, kLetters), before);
    return {out(outputs), after};  // [batch, steps, 27]
  }
};

namespace {

struct Options : sample::Flags {
  std::int64_t steps = 7001;
  bool fused = false;
  std::string folder;
};

// --- data ----------------------------------------------------------------------------------------------------------

struct Corpus {
  data::Vocabulary letters;
  cs::Tensor validation;       // int64 [1, 1000]
  data::TokenBatches batches;  // 64 places of the text are read side by side, each from batch to batch
};

Corpus read_corpus(const std::string& folder) {
  const std::string text = sample::text8_part(folder);
  data::Vocabulary letters(text, {.unit = data::TokenUnit::bytes});
  if (letters.size() != kLetters)
    throw std::runtime_error("the text must have 27 different letters, the space counted");
  const cs::Tensor ids = letters.encode(text);
  return {std::move(letters), cs::reshape(cs::narrow(ids, 0, 0, kValidation), {1, kValidation}),
          data::token_batches(cs::narrow(ids, 0, kValidation, ids.size(0) - kValidation),
                              {.batch = kRows, .steps = kSteps})};
}

// --- what the model knows ------------------------------------------------------------------------------------------

/// How well each letter is foretold by all that stand before it. ids [1, letters]
template <class Layer>
double perplexity_of(CharacterModel<Layer>& model, const cs::Tensor& ids) {
  const std::int64_t steps = ids.size(1) - 1;
  cs::metrics::Perplexity perplexity;
  perplexity.update(model(cs::narrow(ids, 1, 0, steps), model.layer.zero_state(1)).first, cs::narrow(ids, 1, 1, steps));
  return perplexity.result();
}

/// Five lines at once: each begins with any letter, and the next one is drawn from what the model expects.
template <class Layer>
std::string write_lines(CharacterModel<Layer>& model, const data::Vocabulary& letters, cs::Rng& rng) {
  constexpr std::int64_t kLines = 5, kLength = 80;
  typename CharacterModel<Layer>::State state = model.layer.zero_state(kLines);
  cs::Tensor letter = cs::randint(0, kLetters, {kLines, 1}, rng);
  std::vector<cs::Tensor> written = {letter};
  for (std::int64_t i = 1; i < kLength; ++i) {
    auto [logits, after] = model(letter, state);               // [5, 1, 27]
    letter = cs::categorical(cs::squeeze(logits, 1), 1, rng);  // [5, 1]
    written.push_back(letter);
    state = after;
  }
  const cs::Tensor lines = cs::concat(written, 1);
  std::string text;
  for (std::int64_t line = 0; line < kLines; ++line) text += "\n    " + letters.decode(lines[line]);
  return text;
}

// --- training ------------------------------------------------------------------------------------------------------

struct Result {
  double before = 0, loss = 0, validation = 0;  // perplexity, average loss, perplexity
  tools::Series losses{"average of 100 steps", {}, {}};
};

std::string line_of(std::int64_t step, double loss, double rate, double batch, double validation) {
  std::ostringstream line;
  line << std::fixed << std::setprecision(3) << "step " << step << ": average loss " << loss << ", learning rate "
       << std::setprecision(1) << rate << ", perplexity " << std::setprecision(2) << batch << ", validation "
       << validation;
  return line.str();
}

template <class Layer>
Result train(CharacterModel<Layer>& model, const Corpus& corpus, const Options& options) {
  cs::optim::Sgd sgd(nn::parameters(model));
  sgd.attach(cs::optim::exponential_decay(10.0, {.decay_rate = 0.1, .steps = 5000, .staircase = true}));
  cs::Rng rng = cs::Rng(options.seed).stream(1);
  sample::Log log(options);
  Result result;
  cs::metrics::Mean average;
  typename CharacterModel<Layer>::State state = model.layer.zero_state(kRows);
  auto progress = cs::progress(options.steps, options.fused ? "characters, fused" : "characters");
  for (const std::int64_t step : progress) {
    const auto [letters, next] = corpus.batches[step % corpus.batches.count()];
    cs::GradientTape tape;
    auto [logits, after] = model(letters, state);
    const cs::Tensor loss = cs::mean(cs::sparse_softmax_cross_entropy(logits, next));
    sgd.apply(cs::optim::clip_by_global_norm(tape.gradient(loss, sgd.parameters()), 1.25).gradients);
    state = cs::stop_gradient(after);
    average.update(loss);

    if (step % 100 != 0 && step + 1 != options.steps) continue;
    const double batch = std::exp(static_cast<double>(loss.item<float>()));
    if (step == 0) result.before = batch;
    result.loss = average.result();
    average.reset();
    result.losses.add(static_cast<double>(step), result.loss);
    log.scalar("loss", result.loss, step);
    log.scalar("learning rate", sgd.learning_rate(), step);
    progress.set("loss", result.loss);
    if (step % 1000 != 0 && step + 1 != options.steps) continue;
    result.validation = perplexity_of(model, corpus.validation);
    log.scalar("validation perplexity", result.validation, step);
    const std::string written = write_lines(model, corpus.letters, rng);
    if (cs::io::SummaryWriter* const writer = log.writer()) writer->text("written", written, step);
    progress.print(line_of(step, result.loss, sgd.learning_rate(), batch, result.validation) + written);
  }
  std::printf("%lld steps in %.1f s\n", static_cast<long long>(options.steps), progress.seconds());
  return result;
}

void draw(const std::string& path, tools::Series losses) {
  tools::Series published{"published, on the whole text", {0, 7000}, {3.298, 1.576}, {}, true};
  tools::Chart chart{"English letter by letter, by an LSTM of 64 units", "step", {}};
  chart.panels.push_back({.label = "cross entropy of a letter", .series = {std::move(losses), std::move(published)}});
  tools::write_svg(path, chart);
  std::printf("the curve is in %s\n", path.c_str());
}

template <class Layer>
int train_and_check(CharacterModel<Layer> model, const Corpus& corpus, const Options& options) {
  Result result = train(model, corpus, options);
  if (!options.picture.empty()) draw(options.picture, std::move(result.losses));

  sample::Checks checks;
  checks.expect(std::abs(result.before - 27) < 0.5, "before training all letters are about as likely");
  checks.expect(result.validation <= (options.quick ? 8 : 4.9), "the validation text is foretold as it should be");
  std::printf("result: perplexity %.2f before training; at step %lld average loss %.3f, validation perplexity %.2f\n",
              result.before, static_cast<long long>(options.steps - 1), result.loss, result.validation);
  return checks.exit_code();
}

int run(Options options) {
  if (options.quick) options.steps = std::min<std::int64_t>(options.steps, 1001);
  const Corpus corpus = read_corpus(sample::data_folder("text8", options.folder));
  if (options.fused) return train_and_check(CharacterModel<nn::Lstm>{fused_lstm()}, corpus, options);
  return train_and_check(CharacterModel<HandWrittenLstm>{HandWrittenLstm{}}, corpus, options);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  return sample::run(
      argc, argv, "Learns English letter by letter, and writes some.", options,
      [&](sample::CommandLine& line) {
        line.add_picture("characters.svg");
        line.add("--data", options.folder, "folder of text8");
        line.add("--steps", options.steps, "training steps", 1);
        line.add("--fused", options.fused, "the library's LSTM instead of the hand-written one");
      },
      [&] { return run(options); });
}
