// 15_letters: sorts the letters of words, which it has not seen before, by a network that reads and one that says.
// Shows: words as numbers, held-out words, shuffled and padded batches from a pipeline, sequence to sequence
//        with plain cells, greedy decoding beside beam search.
// Prints: the progress, the share of the held-out words that are sorted without an error, some of the answers, and what
//         beam search holds likeliest for one word. Draws the curves.
// Fails:  if 90 % of the held-out words or fewer are right; with --quick, 15 epochs instead of 60, if 20 % or fewer.
#include <capstan/capstan.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "samples/sample.hpp"
#include "tools/chart.hpp"

namespace cs = capstan;
namespace data = capstan::data;
namespace nn = capstan::nn;

constexpr std::int64_t kEmbedding = 15, kHidden = 50, kBatch = 128;
constexpr std::int64_t kLongest = 7;  // letters of a word
constexpr double kHeldOut = 0.1;      // share of the words that training never sees
constexpr std::size_t kShown = 8;     // of these

using Lstms = nn::StackedCell<nn::LstmCell>;

struct Sorter {
  nn::Embedding source, target;
  Lstms encoder{{nn::LstmCell(kEmbedding, kHidden), nn::LstmCell(kHidden, kHidden)}};
  Lstms decoder{{nn::LstmCell(kEmbedding, kHidden), nn::LstmCell(kHidden, kHidden)}};
  nn::Linear out;

  explicit Sorter(std::int64_t tokens) : source(tokens, kEmbedding), target(tokens, kEmbedding), out(kHidden, tokens) {}
  CAPSTAN_FIELDS(source, target, encoder, decoder, out);

  /// Where the decoder begins: [batch, longest] letters of [batch] lengths.
  Lstms::State read(const cs::Tensor& letters, const cs::Tensor& lengths) {
    return nn::unroll(encoder, source(letters), {.lengths = lengths}).second;
  }
};

namespace {

struct Options : sample::Flags {
  std::string folder;
  std::int64_t epochs = 60;
  double learning_rate = 5e-3;
};

/// Words, and their letters sorted.
struct Words {
  std::vector<std::string> words, sorted;
  void add(std::string_view word, std::string_view letters) {
    words.emplace_back(word);
    sorted.emplace_back(letters);
  }
};
struct Split {
  Words learned, held_out;
};

Words read_words(const std::string& folder) {
  const std::string sources = cs::io::read_text(folder + "/letters_source.txt");
  const std::string targets = cs::io::read_text(folder + "/letters_target.txt");
  const std::vector<std::string_view> words = data::split_words(sources), sorted = data::split_words(targets);
  if (words.size() != sorted.size()) throw cs::IoError(folder + ": the two files have different numbers of lines");
  if (words.size() < 100 * kShown) throw cs::IoError(folder + ": too few words");
  Words all;
  for (std::size_t i = 0; i < words.size(); ++i) all.add(words[i], sorted[i]);
  return all;
}

/// Words of random letters, as those of the files are.
Words make_words(std::int64_t count, std::uint64_t seed) {
  cs::Rng rng = cs::Rng(seed).stream(2);
  const std::vector<std::int64_t> lengths = cs::randint(1, kLongest + 1, {count}, rng).to_vector<std::int64_t>(),
                                  letters = cs::randint(0, 26, {count * kLongest}, rng).to_vector<std::int64_t>();
  Words all;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    std::string word;
    for (std::int64_t k = 0; k < lengths[i]; ++k)
      word += static_cast<char>('a' + letters[i * kLongest + static_cast<std::size_t>(k)]);
    std::string sorted = word;
    std::sort(sorted.begin(), sorted.end());
    all.add(word, sorted);
  }
  return all;
}

/// A word that is held out is so wherever it stands, and counts once. Others come as often as there.
Split split_words(const Words& all, std::uint64_t seed) {
  const std::set<std::string_view> distinct(all.words.begin(), all.words.end());
  cs::Rng rng = cs::Rng(seed).stream(1);
  const std::vector<float> draws =
      cs::uniform({static_cast<std::int64_t>(distinct.size())}, 0, 1, rng).to_vector<float>();
  std::set<std::string_view> held_out, seen;
  std::size_t place = 0;
  for (const std::string_view word : distinct)
    if (draws[place++] < kHeldOut) held_out.insert(word);

  Split split;
  for (std::size_t i = 0; i < all.words.size(); ++i) {
    if (!held_out.contains(all.words[i])) split.learned.add(all.words[i], all.sorted[i]);
    else if (seen.insert(all.words[i]).second) split.held_out.add(all.words[i], all.sorted[i]);
  }
  return split;
}

/// The letters from a to z, behind padding, go, end and unknown.
data::Vocabulary alphabet() {
  return data::Vocabulary(
      "abcdefghijklmnopqrstuvwxyz",
      {.unit = data::TokenUnit::bytes, .pad = "<pad>", .go = "<go>", .end = "<end>", .unknown = "<unknown>"});
}

/// A word [n], its letters sorted and an end [n + 1], n. Of a batch: [batch, longest], [batch, longest + 1], [batch].
using Element = std::tuple<cs::Tensor, cs::Tensor, std::int64_t>;

data::Pipeline<Element> elements_of(const Words& all, const data::Vocabulary& letters) {
  std::vector<Element> elements;
  for (std::size_t i = 0; i < all.words.size(); ++i) {
    std::vector<std::int64_t> target = letters.encode_list(all.sorted[i]);
    target.push_back(letters.end());
    elements.emplace_back(letters.encode(all.words[i]), cs::from_vector(target),
                          static_cast<std::int64_t>(all.words[i].size()));
  }
  return data::from(std::move(elements));
}

cs::Tensor loss_of(Sorter& net, const cs::Tensor& words, const cs::Tensor& sorted, const cs::Tensor& lengths) {
  // what the decoder is told at a step is what it should have said at the step before
  const cs::Tensor go = cs::full({sorted.size(0), 1}, nn::kGoToken, {.dtype = cs::DType::int64});
  const cs::Tensor inputs = cs::concat({go, cs::narrow(sorted, 1, 0, sorted.size(1) - 1)}, 1);
  const cs::Tensor said =
      nn::unroll(net.decoder, net.target(inputs), {.initial_state = net.read(words, lengths)}).first;
  const cs::Tensor counts = cs::sequence_mask(lengths + 1, sorted.size(1));  // letters and the end, no padding
  return cs::sequence_loss(net.out(said), sorted, {.weight = counts});
}

/// Tokens up to the end, as a text.
std::string text_of(const cs::Tensor& tokens, const data::Vocabulary& letters) {
  std::vector<std::int64_t> said = tokens.to_vector<std::int64_t>();
  said.erase(std::find(said.begin(), said.end(), nn::kEndToken), said.end());
  return letters.decode(said);
}

/// The likeliest letter of each step.
std::vector<std::string> greedy_answers(Sorter& net, const nn::PaddedTokens& words, const data::Vocabulary& letters) {
  const Lstms::State start = net.read(words.tokens, words.lengths);
  const auto said = nn::greedy_decode(net.decoder, net.target, net.out, start,
                                      {.start = nn::kGoToken, .end = nn::kEndToken, .max_steps = kLongest + 1});
  std::vector<std::string> answers;
  for (std::int64_t row = 0; row < said.tokens.size(0); ++row) answers.push_back(text_of(said.tokens[row], letters));
  return answers;
}

/// The likeliest words that a search finds, which keeps four beginnings of words at each step.
nn::BeamResult search(Sorter& net, const nn::PaddedTokens& words) {
  const Lstms::State start = net.read(words.tokens, words.lengths);
  return nn::beam_search(
      net.decoder, net.target, net.out, start,
      {.beams = 4, .start = nn::kGoToken, .end = nn::kEndToken, .max_steps = kLongest + 1, .results = 3});
}

double share_right(const std::vector<std::string>& answers, const Words& words) {
  double right = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) right += answers[i] == words.sorted[i] ? 1 : 0;
  return right / static_cast<double>(answers.size());
}

struct Curves {
  tools::Series loss{"cross entropy of a letter", {}, {}}, right{"held-out words", {}, {}};
};

void train(Sorter& net, const Split& split, const nn::PaddedTokens& held_out, const data::Vocabulary& letters,
           const Options& options, Curves& curves) {
  const auto count = static_cast<std::int64_t>(split.learned.words.size());
  auto batches = elements_of(split.learned, letters) | data::shuffle(count) | data::padded_batch(kBatch) |
                 data::repeat(options.epochs) | data::prefetch(2);
  cs::optim::Adam adam(nn::parameters(net));
  adam.attach(cs::optim::cosine_decay(options.learning_rate, {.steps = batches.size(), .once = true}));

  sample::Log log(options);
  std::int64_t step = 0;
  auto progress = cs::progress(batches, "letters");
  for (const auto& [words, sorted, lengths] : progress) {
    cs::GradientTape tape;
    const cs::Tensor loss = loss_of(net, words, sorted, lengths);
    adam.apply(cs::optim::clip_by_global_norm(tape.gradient(loss, adam.parameters()), 5).gradients);

    if (++step % 10 != 0) continue;
    const double loss_value = loss.item<float>();
    curves.loss.add(static_cast<double>(step), loss_value);
    log.scalar("loss", loss_value, step);
    progress.set("loss", loss_value);
    if (step % 200 != 0) continue;
    const double right = share_right(greedy_answers(net, held_out, letters), split.held_out);
    curves.right.add(static_cast<double>(step), right);
    log.scalar("right", right, step);
    progress.set("right", right);
  }
}

void draw(const std::string& path, Curves curves) {
  tools::Chart chart{"Letters of words, sorted by LSTMs of 2 times 50", "step", {}};
  chart.panels.push_back({.label = "loss", .log_scale = true, .series = {std::move(curves.loss)}});
  chart.panels.push_back({.label = "right", .low = 0, .high = 1.03, .series = {std::move(curves.right)}});
  tools::write_svg(path, chart);
  std::printf("the curves are in %s\n", path.c_str());
}

int run(Options options) {
  if (options.quick) options.epochs = std::min<std::int64_t>(options.epochs, 15);
  const std::string folder = sample::find_data_folder("letters_sort", options.folder);
  const Split split = split_words(folder.empty() ? make_words(10000, options.seed) : read_words(folder), options.seed);
  const data::Vocabulary letters = alphabet();
  nn::TokenLists lists;
  for (const std::string& word : split.held_out.words) lists.push_back(letters.encode_list(word));
  const nn::PaddedTokens held_out = nn::pad_tokens(lists);
  std::printf("%zu words to learn from, %zu held out\n", split.learned.words.size(), split.held_out.words.size());

  Sorter net(letters.size());
  Curves curves;
  train(net, split, held_out, letters, options, curves);

  const std::vector<std::string> greedy = greedy_answers(net, held_out, letters);
  const nn::BeamResult found = search(net, held_out);  // tokens [words, 3, time]
  std::vector<std::string> best;
  for (std::int64_t row = 0; row < found.tokens.size(0); ++row) best.push_back(text_of(found.tokens[row][0], letters));

  std::printf("  %-9s %-9s %s\n", "word", "greedy", "beam search");
  for (std::size_t i = 0; i < kShown; ++i)
    std::printf("  %-9s %-9s %s\n", split.held_out.words[i].c_str(), greedy[i].c_str(), best[i].c_str());
  std::printf("likeliest for %s:\n", split.held_out.words[0].c_str());
  for (std::int64_t i = 0; i < found.tokens.size(1); ++i)
    std::printf("  %-9s probability %.4f\n", text_of(found.tokens[0][i], letters).c_str(),
                std::exp(found.log_probabilities.at<double>(0, i)));
  if (!options.picture.empty()) draw(options.picture, std::move(curves));

  const double right = share_right(greedy, split.held_out), right_by_search = share_right(best, split.held_out);
  sample::Checks checks;
  const double needed = options.quick ? 0.2 : 0.9;
  checks.expect(right > needed, "most held-out words are sorted rightly by greedy decoding");
  checks.expect(right_by_search > needed, "and by beam search");
  checks.expect(right_by_search > right - 0.02, "beam search is no worse");
  std::printf("result: of %zu held-out words %.1f %% right by greedy decoding, %.1f %% by beam search\n", best.size(),
              100 * right, 100 * right_by_search);
  return checks.exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  return sample::run(
      argc, argv, "Sorts the letters of words by sequence to sequence.", options,
      [&](sample::CommandLine& line) {
        line.add_picture("letters.svg");
        line.add("--data", options.folder, "folder of letters_source.txt and letters_target.txt; else random words");
        line.add("--epochs", options.epochs, "passes over the words", 1);
        line.add("--learning-rate", options.learning_rate, "at the start; it falls to 0");
      },
      [&] { return run(options); });
}
