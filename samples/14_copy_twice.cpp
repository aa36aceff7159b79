// 14_copy_twice: delete the odd numbers of a sequence and say the rest twice: with attention, and without.
// Shows: an attention around a stack of cells, which is a cell like any other; one training loop for two models; what
//        the decoder looks at, step by step.
// Prints: the progress, and the share of 500 fresh sequences that each model translates exactly: nearly all with
//         attention, which looks at a number once for each copy; few without, where 50 units in two layers must
//         remember ten to eighteen numbers. Draws the curves, and beside them the weights for one sequence.
// Fails:  if the model with attention is exact for less than 95 %, or the one without for 20 % or more. --quick takes
//         sequences of two to five numbers and 250 steps, and fails below 80 % with attention.
#include <capstan/capstan.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "samples/sample.hpp"
#include "tools/chart.hpp"
#include "tools/heat_map.hpp"

namespace cs = capstan;
namespace data = capstan::data;
namespace nn = capstan::nn;

constexpr std::int64_t kNumbers = 10, kCopies = 2;
constexpr std::int64_t kWords = nn::kUnknownToken + 1 + kNumbers;  // padding, go, end, unknown, and the numbers
constexpr std::int64_t kEmbedding = 30, kHidden = 50, kBatch = 64;

using Lstms = nn::StackedCell<nn::LstmCell>;
using Attentive = nn::AttentionCell<Lstms, nn::BahdanauAttention>;

/// The decoder knows of the source what the encoder's last state has kept.
struct WithoutAttention {
  nn::Embedding source{kWords, kEmbedding}, target{kWords, kEmbedding};
  Lstms encoder{{nn::LstmCell(kEmbedding, kHidden), nn::LstmCell(kHidden, kHidden)}};
  Lstms decoder{{nn::LstmCell(kEmbedding, kHidden), nn::LstmCell(kHidden, kHidden)}};
  nn::Linear out{kHidden, kWords};

  /// The state that the decoder starts from.
  Lstms::State read(const nn::BucketBatch& batch) {
    return nn::unroll(encoder, source(batch.source), {.lengths = batch.source_lengths}).second;
  }
};

/// The decoder also reads, at each step, a weighted mean of what the encoder said at all places.
struct WithAttention {
  nn::Embedding source{kWords, kEmbedding}, target{kWords, kEmbedding};
  Lstms encoder{{nn::LstmCell(kEmbedding, kHidden), nn::LstmCell(kHidden, kHidden)}};
  Attentive decoder{Lstms{{nn::LstmCell(kEmbedding + kHidden, kHidden), nn::LstmCell(kHidden, kHidden)}},
                    nn::BahdanauAttention{{.query = kHidden, .memory = kHidden, .units = kHidden}},
                    {.attention_size = kHidden, .activation = cs::Activation::tanh}};
  nn::Linear out{kHidden, kWords};

  Attentive::State read(const nn::BucketBatch& batch) {
    const auto [memory, last] = nn::unroll(encoder, source(batch.source), {.lengths = batch.source_lengths});
    decoder.attend(memory, batch.source_lengths);  // [batch, places, 50], from here on
    return decoder.initial_state(last);
  }
};

namespace {

struct Options : sample::Flags {
  std::int64_t steps = 1500, shortest = 10, longest = 18;
  double learning_rate = 5e-3;
  std::string alignment;
};

/// Sequences to translate, of the lengths that the options say.
class Task {
 public:
  explicit Task(const Options& options)
      : pairs_{.shortest = options.shortest, .longest = options.longest, .numbers = kNumbers, .copies = kCopies},
        buckets_({{options.longest, longest_answer()}}) {}

  data::SequencePairs draw(std::int64_t count, cs::Rng& rng) const { return data::odd_numbers(count, pairs_, rng); }
  nn::BucketBatch batch_of(const data::SequencePairs& pairs) const {
    std::vector<std::int64_t> all(pairs.sources.size());
    std::iota(all.begin(), all.end(), std::int64_t{0});
    return buckets_.batch(0, pairs.sources, pairs.targets, all);
  }
  std::int64_t longest_answer() const { return pairs_.copies * pairs_.longest + 1; }  // with its end

 private:
  data::OddNumbersOptions pairs_;
  nn::Buckets buckets_;
};

/// What a model says to sequences, without the end.
template <class Model>
nn::TokenLists answers_of(Model& net, const Task& task, const data::SequencePairs& pairs) {
  const auto start = net.read(task.batch_of(pairs));
  const auto said =
      nn::greedy_decode(net.decoder, net.target, net.out, start,
                        {.start = nn::kGoToken, .end = nn::kEndToken, .max_steps = task.longest_answer()});
  nn::TokenLists answers;
  for (std::int64_t row = 0; row < said.tokens.size(0); ++row) {
    std::vector<std::int64_t> words = said.tokens[row].template to_vector<std::int64_t>();
    words.erase(std::find(words.begin(), words.end(), nn::kEndToken), words.end());
    answers.push_back(std::move(words));
  }
  return answers;
}

template <class Model>
double share_exact(Model& net, const Task& task, const data::SequencePairs& pairs) {
  const nn::TokenLists answers = answers_of(net, task, pairs);
  double exact = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) exact += answers[i] == pairs.targets[i] ? 1 : 0;
  return exact / static_cast<double>(answers.size());
}

struct Curves {
  tools::Series loss, exact;
};

/// Trains, and returns the share of fresh sequences that are exact.
template <class Model>
double train(const std::string& name, Model& net, const Task& task, const Options& options, sample::Log& log,
             Curves& curves) {
  cs::optim::Adam adam(nn::parameters(net));
  adam.attach(cs::optim::cosine_decay(options.learning_rate, {.steps = options.steps, .once = true}));
  cs::Rng rng = cs::Rng(options.seed).stream(1);
  const data::SequencePairs validation = task.draw(100, rng);

  // batch i is the same for both models
  auto batches = data::generate(options.steps, [&task, seed = options.seed](std::int64_t i) {
    cs::Rng own = cs::Rng(seed).stream(static_cast<std::uint64_t>(1000 + i));
    return task.batch_of(task.draw(kBatch, own));
  });
  std::int64_t step = 0;
  auto progress = cs::progress(batches, name);
  for (const nn::BucketBatch& batch : progress) {
    cs::GradientTape tape;
    const auto start = net.read(batch);
    const cs::Tensor said = nn::unroll(net.decoder, net.target(batch.decoder_inputs), {.initial_state = start}).first;
    const cs::Tensor loss = cs::sequence_loss(net.out(said), batch.targets, {.weight = batch.weights});
    adam.apply(cs::optim::clip_by_global_norm(tape.gradient(loss, adam.parameters()), 5).gradients);

    if (++step % 10 != 0) continue;
    const double loss_value = loss.item<float>();
    curves.loss.add(static_cast<double>(step), loss_value);
    log.scalar((name + "/loss").c_str(), loss_value, step);
    progress.set("loss", loss_value);
    if (step % 100 != 0) continue;
    const double exact = share_exact(net, task, validation);
    curves.exact.add(static_cast<double>(step), exact);
    log.scalar((name + "/exact").c_str(), exact, step);
    progress.set("exact", exact);
  }
  rng = cs::Rng(options.seed).stream(2);
  return share_exact(net, task, task.draw(500, rng));
}

std::vector<std::string> names_of(const std::vector<std::int64_t>& words) {
  std::vector<std::string> names;
  for (const std::int64_t word : words) names.push_back(std::to_string(word - nn::kUnknownToken - 1));
  return names;
}

/// Where the decoder looks while it says one sequence: a row for each number that it says, a column for each it read.
void draw_alignment(const std::string& path, WithAttention& net, const Task& task, cs::Rng rng) {
  data::SequencePairs one = task.draw(1, rng);
  one.targets = answers_of(net, task, one);  // the weights belong to what it says, whether that is right or not
  one.targets[0].resize(std::min(one.targets[0].size(), static_cast<std::size_t>(task.longest_answer() - 1)));
  const nn::BucketBatch batch = task.batch_of(one);
  const Attentive::State start = net.read(batch);

  const std::size_t columns = one.sources[0].size();
  tools::HeatMap map{.title = "Where the decoder looks", .x_label = "read", .y_label = "said"};
  map.columns = names_of(one.sources[0]);
  map.rows = names_of(one.targets[0]);
  map.rows.push_back("end");
  nn::unroll(net.decoder, net.target(batch.decoder_inputs),
             {.lengths = batch.target_lengths,
              .initial_state = start,
              .on_step = [&](std::int64_t, const cs::Tensor&, const Attentive::State& state) {
                const std::vector<float> weights = state.alignments[0].to_vector<float>();  // of all places
                map.values.insert(map.values.end(), weights.begin(),
                                  weights.begin() + static_cast<std::ptrdiff_t>(columns));
              }});
  tools::write_svg(path, map);
  std::printf("what it looks at is in %s\n", path.c_str());
}

void draw_curves(const std::string& path, Curves with, Curves without) {
  tools::Chart chart{"Sequences without their odd numbers, said twice", "step", {}};
  chart.panels.push_back(
      {.label = "loss", .log_scale = true, .series = {std::move(with.loss), std::move(without.loss)}});
  chart.panels.push_back({.label = "exact, of 100 sequences",
                          .low = 0,
                          .high = 1.03,
                          .series = {std::move(with.exact), std::move(without.exact)}});
  tools::write_svg(path, chart);
  std::printf("the curves are in %s\n", path.c_str());
}

int run(Options options) {
  if (options.quick) {
    options.steps = std::min<std::int64_t>(options.steps, 250);
    options.shortest = 2;
    options.longest = 5;
    options.learning_rate = 1e-2;
  }
  const Task task(options);
  sample::Log log(options);
  Curves with{{"with attention", {}, {}}, {"with attention", {}, {}}};
  Curves without{{"without", {}, {}}, {"without", {}, {}}};
  WithAttention attentive;
  WithoutAttention plain;
  const double exact = train("with attention", attentive, task, options, log, with);
  const double exact_without = train("without", plain, task, options, log, without);
  if (!options.picture.empty()) draw_curves(options.picture, std::move(with), std::move(without));
  if (!options.alignment.empty()) draw_alignment(options.alignment, attentive, task, cs::Rng(options.seed).stream(3));

  sample::Checks checks;
  checks.expect(exact >= (options.quick ? 0.8 : 0.95), "with attention most fresh sequences are exact");
  checks.expect(options.quick || exact_without < 0.2, "without attention fewer than 20 % are");
  std::printf("result: after %lld steps %.1f %% of 500 fresh sequences exact with attention, %.1f %% without\n",
              static_cast<long long>(options.steps), 100 * exact, 100 * exact_without);
  return checks.exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  return sample::run(
      argc, argv, "Deletes odd numbers and says the rest twice, with attention and without.", options,
      [&](sample::CommandLine& line) {
        line.add_picture("copy_twice.svg");
        line.add_picture("--alignment", options.alignment, "copy_twice_alignment.svg", "where the weights go");
        line.add("--steps", options.steps, "training steps of each model", 1);
        line.add("--learning-rate", options.learning_rate, "at the start; it falls to 0");
      },
      [&] { return run(options); });
}
