// 21_tagger: puts the blanks back into a text that has lost them. Whether a word begins at a letter is told by what
//            stands before it and, more surely, by what comes after: so a network that reads in both directions is
//            set against one that has as many units and reads forward only.
// Shows: one tag for each step of a sequence, a bidirectional layer, a data set of one's own type, F1.
// Prints: the progress; lines of English without their blanks, with those of either network, and as they were; then
//         the F1 of "a word begins here" on text that was kept back: about 0.93 for both directions, 0.86 for one.
//         Draws the losses.
// Fails:  if both directions have an F1 below 0.87, or are further from 1 than 0.7 times one direction; with --quick,
//         120 steps, if they are below 0.55, or further than 0.9 times.
#include <capstan/capstan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "samples/sample.hpp"
#include "tools/chart.hpp"

namespace cs = capstan;
namespace data = capstan::data;
namespace nn = capstan::nn;

constexpr std::int64_t kLetters = 26, kEmbedding = 32, kUnits = 128;

/// A score for each letter, above 0 where a word seems to begin.
struct Tagger {
  /// With half of the units for each direction, or all of them for one.
  explicit Tagger(bool both)
      : lstm({.inputs = kEmbedding, .hidden = both ? kUnits / 2 : kUnits, .bidirectional = both}) {}

  nn::Embedding letters{kLetters, kEmbedding};
  nn::Lstm lstm;
  nn::Linear out{kUnits, 1};
  CAPSTAN_FIELDS(letters, lstm, out);

  cs::Tensor operator()(const cs::Tensor& text) {  // [batch, time] -> [batch, time]
    return cs::squeeze(out(lstm(letters(text)).outputs), -1);
  }
};

namespace {

constexpr std::int64_t kTime = 64, kBatch = 64, kTestLines = 1000;

struct Options : sample::Flags {
  std::string folder;
  std::int64_t steps = 1500;
  double learning_rate = 1e-2;
};

/// A text cut into lines of 64 letters. Also what a batch of them is.
struct Lines {
  cs::Tensor letters;  // int32 [lines, time], 0 to 25
  cs::Tensor begins;   // float32, 1 where a word begins
};

Lines cut(const std::string& text) {
  std::vector<std::int32_t> letters;
  std::vector<float> begins;
  bool begin = true;
  for (const char c : text) {
    if (c >= 'a' && c <= 'z') {
      letters.push_back(c - 'a');
      begins.push_back(begin ? 1.0f : 0.0f);
      begin = false;
    } else {
      begin = true;
    }
  }
  const std::int64_t lines = static_cast<std::int64_t>(letters.size()) / kTime;
  letters.resize(static_cast<std::size_t>(lines * kTime));
  begins.resize(letters.size());
  return {cs::from_vector(letters, {lines, kTime}), cs::from_vector(begins, {lines, kTime})};
}

Lines part_of(const Lines& lines, std::int64_t first, std::int64_t count) {
  return {cs::narrow(lines.letters, 0, first, count), cs::narrow(lines.begins, 0, first, count)};
}

/// The curve of the losses.
tools::Series train(const char* title, Tagger& net, const Lines& lines, const Options& options, sample::Log& log) {
  cs::optim::Adam adam(nn::parameters(net), {.learning_rate = options.learning_rate});
  adam.attach(cs::optim::cosine_decay(options.learning_rate, {.steps = options.steps, .once = true}));
  auto batches = data::from(lines) | data::shuffle(lines.letters.size(0), {.seed = options.seed}) | data::repeat() |
                 data::batch(kBatch) | data::take(options.steps);
  tools::Series losses{title, {}, {}};
  const std::string tag = std::string("loss/") + title;
  std::int64_t step = 0;
  auto progress = cs::progress(batches, title);
  for (const auto& [letters, begins] : progress) {
    cs::GradientTape tape;
    const cs::Tensor loss = cs::mean(cs::sigmoid_cross_entropy(net(letters), begins));
    adam.apply(cs::optim::clip_by_global_norm(tape.gradient(loss, adam.parameters()), 5).gradients);

    if (++step % 10 != 0) continue;
    const double loss_value = loss.item<float>();
    losses.add(static_cast<double>(step), loss_value);
    log.scalar(tag.c_str(), loss_value, step);
    progress.set("loss", loss_value);
  }
  return losses;
}

double f1_of(Tagger& net, const Lines& lines) {
  cs::metrics::F1 f1{{.threshold = 0}};
  for (const auto& [letters, begins] : data::from(lines) | data::batch(kBatch)) f1.update(net(letters), begins);
  return f1.result();
}

/// A line with blanks where words begin; with none before its first letter.
std::string spaced(const cs::Tensor& letters, const cs::Tensor& scores) {
  const std::vector<std::int32_t> codes = letters.to_vector<std::int32_t>();
  const std::vector<float> values = scores.to_vector<float>();
  std::string text;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (i > 0 && values[i] > 0) text += ' ';
    text += static_cast<char>('a' + codes[i]);
  }
  return text;
}

void show(Tagger& forward, Tagger& both, const Lines& lines, std::int64_t which) {
  const cs::Tensor letters = lines.letters[which], one = cs::expand_dims(letters, 0);
  std::printf("the line       %s\n", spaced(letters, cs::zeros({kTime})).c_str());
  std::printf("forward only   %s\n", spaced(letters, forward(one)).c_str());
  std::printf("both ways      %s\n", spaced(letters, both(one)).c_str());
  std::printf("as it was      %s\n\n", spaced(letters, lines.begins[which]).c_str());
}

void draw(const std::string& path, std::vector<tools::Series> losses) {
  tools::Chart chart{"Where do words begin? LSTMs of 128 units on text8 without blanks", "step", {}};
  chart.panels.push_back({.label = "loss", .log_scale = true, .series = std::move(losses)});
  tools::write_svg(path, chart);
  std::printf("the curves are in %s\n", path.c_str());
}

int run(Options options) {
  if (options.quick) options.steps = std::min<std::int64_t>(options.steps, 120);
  const Lines lines = cut(sample::text8_part(sample::data_folder("text8", options.folder)));
  const std::int64_t kept = lines.letters.size(0) - kTestLines;  // the rest is for the test
  const Lines training = part_of(lines, 0, kept), test = part_of(lines, kept, kTestLines);

  Tagger forward(false), both(true);
  sample::Log log(options);
  std::vector<tools::Series> losses;
  losses.push_back(train("forward only", forward, training, options, log));
  losses.push_back(train("both directions", both, training, options, log));
  for (std::int64_t which = 0; which < 3; ++which) show(forward, both, test, which);
  if (!options.picture.empty()) draw(options.picture, std::move(losses));

  const double forward_f1 = f1_of(forward, test), both_f1 = f1_of(both, test);
  sample::Checks checks;
  checks.expect(both_f1 >= (options.quick ? 0.55 : 0.87), "both directions find where words begin");
  checks.expect(1 - both_f1 <= (options.quick ? 0.9 : 0.7) * (1 - forward_f1), "they are clearly better than one");
  std::printf("result: F1 %.3f in both directions, %.3f forward only, after %lld steps of %lld lines\n", both_f1,
              forward_f1, static_cast<long long>(options.steps), static_cast<long long>(kBatch));
  return checks.exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  return sample::run(
      argc, argv, "Finds where words begin in a text without blanks, reading in one direction and in both.", options,
      [&](sample::CommandLine& line) {
        line.add_picture("tagger.svg");
        line.add("--data", options.folder, "folder of text8, or of a part of it");
        line.add("--steps", options.steps, "of 64 lines", 1);
        line.add("--learning-rate", options.learning_rate, "at the start; it falls to 0");
      },
      [&] { return run(options); });
}
