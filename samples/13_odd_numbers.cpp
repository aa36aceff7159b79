// 13_odd_numbers: one recurrent network reads a sequence of numbers, another says it again without the odd ones.
// Shows: sequence to sequence with plain cells, batches made by a function, padding that does not count in the loss,
//        teacher forcing to train and greedy decoding to use the model, a learning rate that falls over the run.
// Prints: the progress, five fresh sequences with the model's answers, and how many of 200 fresh ones are exact: all of
//         them after 2000 steps of 64. Draws the loss and the share of exact answers.
// Fails:  unless all 200 are exact; with --quick, a fifth of the steps, if fewer than 100 are.
#include <capstan/capstan.hpp>

#include <algorithm>
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

constexpr std::int64_t kNumbers = 10, kLongest = 8;                // 0 to 9; one to eight of them in a sequence
constexpr std::int64_t kWords = nn::kUnknownToken + 1 + kNumbers;  // padding, go, end, unknown, and the numbers
constexpr std::int64_t kEmbedding = 30, kHidden = 50, kBatch = 64;

using Lstms = nn::StackedCell<nn::LstmCell>;

/// What the encoder remembers of a sequence is where the decoder begins: nothing else goes from one to the other.
struct Translator {
  nn::Embedding source{kWords, kEmbedding}, target{kWords, kEmbedding};
  Lstms encoder{{nn::LstmCell(kEmbedding, kHidden), nn::LstmCell(kHidden, kHidden)}};
  Lstms decoder{{nn::LstmCell(kEmbedding, kHidden), nn::LstmCell(kHidden, kHidden)}};
  nn::Linear out{kHidden, kWords};

  Lstms::State read(const cs::Tensor& words, const cs::Tensor& lengths) {  // [batch, 8] and [batch]
    return nn::unroll(encoder, source(words), {.lengths = lengths}).second;
  }
  /// Teacher forcing: at each step the decoder is told what it should have said before.
  cs::Tensor operator()(const nn::BucketBatch& batch) {  // logits [batch, 9, words]
    const Lstms::State start = read(batch.source, batch.source_lengths);
    return out(nn::unroll(decoder, target(batch.decoder_inputs), {.initial_state = start}).first);
  }
};

namespace {

struct Options : sample::Flags {
  std::int64_t steps = 2000;
  double learning_rate = 1e-2;
};

/// Sequences side by side, padded: sources to 8 numbers, targets to as many and an end.
nn::BucketBatch batch_of(const data::SequencePairs& pairs) {
  const nn::Buckets buckets({{kLongest, kLongest + 1}});
  const std::vector<std::vector<std::int64_t>> members = buckets.group(pairs.sources, pairs.targets);
  return buckets.batch(0, pairs.sources, pairs.targets, members[0]);
}

/// What the model says to sequences, without the end.
nn::TokenLists answers_of(Translator& net, const data::SequencePairs& pairs) {
  const nn::BucketBatch batch = batch_of(pairs);
  const Lstms::State start = net.read(batch.source, batch.source_lengths);
  const auto said = nn::greedy_decode(net.decoder, net.target, net.out, start,
                                      {.start = nn::kGoToken, .end = nn::kEndToken, .max_steps = kLongest + 1});
  nn::TokenLists answers;
  for (std::int64_t row = 0; row < said.tokens.size(0); ++row) {
    std::vector<std::int64_t> words = said.tokens[row].to_vector<std::int64_t>();
    words.erase(std::find(words.begin(), words.end(), nn::kEndToken), words.end());
    answers.push_back(std::move(words));
  }
  return answers;
}

std::int64_t count_exact(const nn::TokenLists& answers, const nn::TokenLists& targets) {
  std::int64_t exact = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) exact += answers[i] == targets[i] ? 1 : 0;
  return exact;
}

std::string numbers(const std::vector<std::int64_t>& words) {
  std::string text;
  for (const std::int64_t word : words) text += std::to_string(word - nn::kUnknownToken - 1) + ' ';
  return text;
}

struct Curves {
  tools::Series loss{"cross entropy of a word", {}, {}}, exact{"exact, of 200 sequences", {}, {}};
};

void train(Translator& net, const Options& options, Curves& curves) {
  cs::optim::Adam adam(nn::parameters(net));
  adam.attach(cs::optim::cosine_decay(options.learning_rate, {.steps = options.steps, .once = true}));
  cs::Rng rng = cs::Rng(options.seed).stream(1);
  const data::SequencePairs validation = data::odd_numbers(200, {.longest = kLongest}, rng);

  auto batches = data::generate(options.steps, [](std::int64_t) {  // every step has sequences of its own
    return batch_of(data::odd_numbers(kBatch, {.longest = kLongest, .numbers = kNumbers}));
  });
  sample::Log log(options);
  std::int64_t step = 0;
  auto progress = cs::progress(batches, "odd numbers");
  for (const nn::BucketBatch& batch : progress) {
    cs::GradientTape tape;
    const cs::Tensor loss = cs::sequence_loss(net(batch), batch.targets, {.weight = batch.weights});
    adam.apply(cs::optim::clip_by_global_norm(tape.gradient(loss, adam.parameters()), 5).gradients);

    if (++step % 10 != 0) continue;
    const double loss_value = loss.item<float>();
    curves.loss.add(static_cast<double>(step), loss_value);
    log.scalar("loss", loss_value, step);
    progress.set("loss", loss_value);
    if (step % 100 != 0) continue;
    const auto exact = static_cast<double>(count_exact(answers_of(net, validation), validation.targets));
    curves.exact.add(static_cast<double>(step), exact / 200);
    log.scalar("exact", exact / 200, step);
    progress.set("exact", exact / 200);
  }
}

void draw(const std::string& path, Curves curves) {
  tools::Chart chart{"Sequences without their odd numbers, by LSTMs of 2 times 50", "step", {}};
  chart.panels.push_back({.label = "loss", .log_scale = true, .series = {std::move(curves.loss)}});
  chart.panels.push_back({.label = "exact", .low = 0, .high = 1.03, .series = {std::move(curves.exact)}});
  tools::write_svg(path, chart);
  std::printf("the curves are in %s\n", path.c_str());
}

int run(Options options) {
  if (options.quick) options.steps = std::min<std::int64_t>(options.steps, 400);
  Translator net;
  Curves curves;
  train(net, options, curves);

  cs::Rng rng = cs::Rng(options.seed).stream(2);  // sequences that nothing else has seen
  const data::SequencePairs fresh = data::odd_numbers(200, {.longest = kLongest, .numbers = kNumbers}, rng);
  const nn::TokenLists answers = answers_of(net, fresh);
  for (std::size_t i = 0; i < 5; ++i)
    std::printf("  %-17s->  %s\n", numbers(fresh.sources[i]).c_str(), numbers(answers[i]).c_str());
  if (!options.picture.empty()) draw(options.picture, std::move(curves));

  const std::int64_t exact = count_exact(answers, fresh.targets), needed = options.quick ? 100 : 200;
  sample::Checks checks;
  checks.expect(exact >= needed, "at least " + std::to_string(needed) + " of 200 fresh sequences are exact");
  std::printf("result: %lld of 200 fresh sequences exact after %lld steps\n", static_cast<long long>(exact),
              static_cast<long long>(options.steps));
  return checks.exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  return sample::run(
      argc, argv, "Deletes the odd numbers of sequences, by a recurrent network that reads and one that says.", options,
      [&](sample::CommandLine& line) {
        line.add_picture("odd_numbers.svg");
        line.add("--steps", options.steps, "training steps", 1);
        line.add("--learning-rate", options.learning_rate, "at the start; it falls to 0");
      },
      [&] { return run(options); });
}
