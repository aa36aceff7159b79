// 12_words: a model of English, word by word, on the Penn Treebank: two layers of LSTM, in three sizes.
// Shows: a vocabulary and the batches of a language model; embeddings, whose gradients are only the rows that were
//        looked up; dropout that is off outside of training; a rate that decays by the epoch; perplexity as a metric.
// Prints: the progress; after each epoch the perplexity of what was learnt from and of the validation text; in the end
//         that of the test text, where every word has all before it for a context. Draws them beside the published
//         ones. The small network needs some ten minutes on two cores, the others hours.
// Fails:  if a full run is worse than the published perplexities of validation and test by more than 3 (small 121.39
//         and 115.91, medium 86.16 and 82.07, large 82.62 and 78.29); any run, --quick too, unless the model is much
//         better at the validation text than counting words is: 687, and 102 of the 1000 words of --quick.
#include <capstan/capstan.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "samples/sample.hpp"
#include "tools/chart.hpp"

namespace cs = capstan;
namespace data = capstan::data;
namespace nn = capstan::nn;

constexpr std::int64_t kLayers = 2, kBatch = 20;

/// Zaremba, Sutskever, Vinyals 2014, "Recurrent neural network regularization".
struct Recipe {
  std::int64_t hidden, steps, epochs;
  std::int64_t flat_epochs;  // with a rate of 1; then it is multiplied by `decay` after each
  double decay, keep, start, clip;
  double train, validation, test;  // published perplexities
};

struct WordModel {
  nn::Embedding embed;
  nn::Dropout drop;
  nn::Lstm lstm;
  nn::Linear out;

  struct Result {
    cs::Tensor logits;  // [batch, steps, words]
    nn::Lstm::State state;
  };
  Result operator()(const cs::Tensor& words, const std::optional<nn::Lstm::State>& before) {  // [batch, steps]
    auto [outputs, after] = lstm(drop(embed(words)), {.initial_state = before});  // drops between the layers itself
    return {out(drop(outputs)), after};
  }
};

inline WordModel make_model(std::int64_t words, const Recipe& recipe) {
  const nn::Initializer start = nn::init::uniform(-recipe.start, recipe.start);
  return {nn::Embedding{{.count = words, .size = recipe.hidden, .weight_init = start}},
          nn::Dropout{{.keep = recipe.keep}},
          nn::Lstm{{.inputs = recipe.hidden,
                    .hidden = recipe.hidden,
                    .layers = kLayers,
                    .dropout = 1 - recipe.keep,
                    .forget_bias = 0,
                    .input_init = start,
                    .recurrent_init = start}},
          nn::Linear(recipe.hidden, words, {.weight_init = start, .bias_init = start})};
}

namespace {

struct Options : sample::Flags {
  std::string size = "small", folder;
  std::int64_t epochs = 0, words = 0;  // 0: the recipe's, and all
};

/// Whether the run is one whose results were published.
bool is_full(const Options& options) { return !options.quick && options.epochs == 0 && options.words == 0; }

Recipe recipe_of(const Options& options) {
  Recipe recipe{200, 20, 13, 4, 0.5, 1.0, 0.1, 5, 37.99, 121.39, 115.91};
  if (options.size == "medium") recipe = {650, 35, 39, 6, 0.8, 0.5, 0.05, 5, 48.45, 86.16, 82.07};
  if (options.size == "large") recipe = {1500, 35, 55, 14, 1 / 1.15, 0.35, 0.04, 10, 37.87, 82.62, 78.29};
  if (options.epochs > 0) recipe.epochs = options.epochs;
  if (options.quick) {
    recipe.epochs = std::min<std::int64_t>(recipe.epochs, 2);
    recipe.flat_epochs = 1;
    recipe.decay = 0.25;
  }
  return recipe;
}

// --- data ----------------------------------------------------------------------------------------------------------

struct Corpus {
  data::Vocabulary words;
  cs::Tensor train, validation, test;  // int64 [words of the text]
};

cs::Tensor first(const cs::Tensor& ids, std::int64_t most) {
  return cs::narrow(ids, 0, 0, std::min(ids.size(0), most));
}

/// With --quick at most the 1000 most frequent words have a number of their own, and the texts are parts.
Corpus read_corpus(const std::string& folder, const Options& options) {
  const std::string train = data::ptb(folder, data::Split::train);
  std::int64_t most = options.words;
  if (options.quick) most = most > 0 ? std::min<std::int64_t>(most, 1000) : 1000;
  data::Vocabulary words(train, {.end_of_line = "<eos>", .max_size = most, .unknown = "<unk>", .special_first = false});
  Corpus corpus{words, words.encode(train), words.encode(data::ptb(folder, data::Split::validation)),
                words.encode(data::ptb(folder, data::Split::test))};
  if (options.quick) {
    corpus.train = first(corpus.train, 120000);
    corpus.validation = first(corpus.validation, 20000);
    corpus.test = first(corpus.test, 5000);
  }
  return corpus;
}

/// The perplexity of a text if words come as often as in the vocabulary's, whatever stands before them.
double perplexity_of_counts(const data::Vocabulary& words, const cs::Tensor& ids) {
  double total = 0;
  for (const std::int64_t count : words.counts()) total += static_cast<double>(count);
  cs::metrics::Perplexity perplexity;
  for (const std::int64_t id : ids.to_vector<std::int64_t>()) {
    const auto count = static_cast<double>(words.counts()[static_cast<std::size_t>(id)]);
    perplexity.update_mean(std::log(total / count), 1);
  }
  return perplexity.result();
}

// --- training ------------------------------------------------------------------------------------------------------

/// One pass over a text without learning.
double perplexity_of(WordModel& model, const data::TokenBatches& batches) {
  nn::set_training(model, false);
  cs::metrics::Perplexity perplexity;
  std::optional<nn::Lstm::State> state;
  for (std::int64_t i = 0; i < batches.count(); ++i) {
    const auto [words, next] = batches[i];
    auto [logits, after] = model(words, state);
    perplexity.update(logits, next);
    state = after;
  }
  nn::set_training(model, true);
  return perplexity.result();
}

/// One epoch; returns its perplexity. The state goes from batch to batch: each begins where the one before ended.
double train_epoch(WordModel& model, cs::optim::Sgd& sgd, const data::TokenBatches& batches, const Recipe& recipe,
                   const std::string& title) {
  cs::metrics::Perplexity perplexity;
  std::optional<nn::Lstm::State> state;
  const auto steps = static_cast<double>(recipe.steps), tokens = steps * static_cast<double>(kBatch);
  auto progress = cs::progress(batches.count(), title);
  for (const std::int64_t i : progress) {
    const auto [words, next] = batches[i];
    cs::GradientTape tape;
    auto [logits, after] = model(words, state);
    // The sum over the steps, not their mean: the rate of 1 and the clipping are meant for that.
    const cs::Tensor loss = cs::sum(cs::sequence_loss(logits, next, {.average_across_timesteps = false}));
    sgd.apply(cs::optim::clip_by_global_norm(tape.gradient(loss, sgd.parameters()), recipe.clip).gradients);
    state = cs::stop_gradient(after);

    perplexity.update_mean(static_cast<double>(loss.item<float>()) / steps, tokens);
    if (i % 50 != 0) continue;
    progress.set("perplexity", perplexity.result());
    progress.set("words/s", tokens * static_cast<double>(i + 1) / progress.seconds());
  }
  return perplexity.result();
}

struct Curves {
  tools::Series train{"learnt from", {}, {}}, validation{"validation", {}, {}};
};

struct Score {
  double train = 0, validation = 0;
};

/// All epochs; returns the perplexities of the last.
Score train(WordModel& model, const Corpus& corpus, const Recipe& recipe, const Options& options, Curves& curves) {
  const data::TokenBatches batches = data::token_batches(corpus.train, {.batch = kBatch, .steps = recipe.steps});
  const data::TokenBatches validation =
      data::token_batches(corpus.validation, {.batch = kBatch, .steps = recipe.steps});
  cs::optim::Sgd sgd(nn::parameters(model));
  sample::Log log(options);
  Score score;
  for (std::int64_t epoch = 1; epoch <= recipe.epochs; ++epoch) {
    const std::int64_t decays = std::max<std::int64_t>(epoch - recipe.flat_epochs, 0);
    sgd.set_learning_rate(std::pow(recipe.decay, static_cast<double>(decays)));
    const std::string title = "epoch " + std::to_string(epoch) + '/' + std::to_string(recipe.epochs);
    score.train = train_epoch(model, sgd, batches, recipe, title);
    score.validation = perplexity_of(model, validation);
    std::printf("epoch %lld: learning rate %.4f, perplexity %.2f, validation %.2f\n", static_cast<long long>(epoch),
                sgd.learning_rate(), score.train, score.validation);
    std::fflush(stdout);  // epochs take minutes
    curves.train.add(static_cast<double>(epoch), score.train);
    curves.validation.add(static_cast<double>(epoch), score.validation);
    log.scalar("perplexity/train", score.train, epoch);
    log.scalar("perplexity/validation", score.validation, epoch);
    log.scalar("learning rate", sgd.learning_rate(), epoch);
  }
  return score;
}

void draw(const Options& options, Curves curves, const Recipe& recipe) {
  tools::Chart chart{"Penn Treebank word by word, by the " + options.size + " LSTM", "epoch", {}};
  std::vector<tools::Series> series = {std::move(curves.train), std::move(curves.validation)};
  if (is_full(options)) {
    const auto last = static_cast<double>(recipe.epochs);
    series.push_back({"published, learnt from", {last}, {recipe.train}});
    series.push_back({"published, validation", {last}, {recipe.validation}});
  }
  chart.panels.push_back({.label = "perplexity", .log_scale = true, .series = std::move(series)});
  tools::write_svg(options.picture, chart);
  std::printf("the curves are in %s\n", options.picture.c_str());
}

int run(const Options& options) {
  const Recipe recipe = recipe_of(options);
  const Corpus corpus = read_corpus(sample::data_folder("ptb", options.folder), options);
  const double counting = perplexity_of_counts(corpus.words, corpus.validation);
  WordModel model = make_model(corpus.words.size(), recipe);
  std::printf("%lld words, %lld parameters; counting words has a perplexity of %.2f\n",
              static_cast<long long>(corpus.words.size()), static_cast<long long>(nn::parameter_count(model)),
              counting);

  Curves curves;
  const Score score = train(model, corpus, recipe, options, curves);
  const double test = perplexity_of(model, data::token_batches(corpus.test, {.batch = 1, .steps = 100}));
  if (!options.picture.empty()) draw(options, std::move(curves), recipe);

  sample::Checks checks;
  checks.expect(score.validation <= 0.75 * counting, "the model is much better than counting words");
  if (is_full(options)) {
    checks.expect(score.validation <= recipe.validation + 3, "the validation text is foretold as in the paper");
    checks.expect(test <= recipe.test + 3, "the test text is foretold as in the paper");
  }
  std::printf("result: perplexity %.2f train, %.2f validation, %.2f test\n", score.train, score.validation, test);
  return checks.exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  return sample::run(
      argc, argv, "Learns English word by word.", options,
      [&](sample::CommandLine& line) {
        line.add_picture("words.svg");
        line.add("--data", options.folder, "folder of the Penn Treebank's three texts");
        line.add("--size", options.size, "of the network, with the recipe that was published for it",
                 {"small", "medium", "large"});
        line.add("--epochs", options.epochs, "0: the recipe's", 0);
        line.add("--words", options.words, "that have a number of their own, the most frequent; 0: all", 0);
      },
      [&] { return run(options); });
}
