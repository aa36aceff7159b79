// 16_word_vectors: words as vectors, learned from which words stand beside each other in a text.
// Shows: skip-gram and CBOW; losses that look at 64 of 16,302 words, noise-contrastive estimation and sampled softmax;
//        gradients of tables that hold a few rows, and an optimizer that changes these rows only; a pipeline of windows
//        over a text; principal components.
// Prints: the words nearest to some frequent ones, and how many of Google's analogy questions the vectors answer, out
//         of those whose words are all known: a few in a hundred, since 1.3 million words are a short text for that.
//         Draws the most frequent words by their two principal components.
// Fails:  if the loss has not fallen, or if numbers are not next to numbers and months not next to months; with
//         --published months may be anywhere.
//
// Published are windows of one word to each side, vectors that start in [-1, 1], and SGD with rate 1; --published has
// these. Rare words hardly move then: after 20,000 steps numbers have found each other, and months have not. The
// default looks at two words to each side, starts in [-0.1, 0.1], and uses Adagrad, whose steps are the longer the
// rarer a word is; it has found both by then.
#include <capstan/capstan.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "samples/sample.hpp"
#include "tools/scatter.hpp"

namespace cs = capstan;
namespace data = capstan::data;

/// A vector for each word as it is seen, and one, with a bias, for the same word as it is asked for.
struct WordVectors {
  std::int64_t words = 0, width = 0;
  double start = 0.1;
  cs::nn::Embedding seen{{.count = words, .size = width, .weight_init = cs::nn::init::uniform(-start, start)}};
  cs::Parameter asked{cs::truncated_normal({words, width}, 0, 1 / std::sqrt(static_cast<double>(width)))};
  cs::Parameter bias{cs::zeros({words})};
};

namespace {

constexpr std::int64_t kReportEvery = 2000;  // steps; losses are averaged over so many

struct Options : sample::Flags {
  std::string folder, questions, model = "skip-gram", loss = "sampled-softmax";
  std::int64_t steps = 100000, batch = 128, size = 128, window = 2, negatives = 64;
  bool published = false;
};

// --- the text ----------------------------------------------------------------------------------------------------

/// Words in the middle and those around them: int64 [batch] and [batch, 2 * window].
struct Around {
  cs::Tensor middle, others;
};

/// All places of a text, in its order, again and again.
data::Pipeline<Around> windows_of(const cs::Tensor& text, std::int64_t window, std::int64_t batch) {
  const cs::Tensor places = cs::sliding_window(text, 0, 2 * window + 1);  // a view [places, 2 * window + 1]
  return data::from(places) | data::repeat() | data::batch(batch) | data::map([window](const cs::Tensor& rows) {
           const cs::Tensor before = rows.index({cs::all, cs::until(window)});
           const cs::Tensor after = rows.index({cs::all, cs::from(window + 1)});
           return Around{rows.index({cs::all, window}), cs::concat({before, after}, 1)};
         }) |
         data::prefetch(8);
}

// --- the loss ----------------------------------------------------------------------------------------------------

/// What is known of each answer, [rows, width], and the answers, [rows, 1].
struct Questions {
  cs::Tensor inputs, answers;
};

/// Skip-gram asks for each of the others, given the middle; CBOW for the middle, given the mean of the others.
Questions questions_of(const WordVectors& model, const Around& around, bool cbow) {
  if (cbow) return {cs::embedding_bag(around.others, model.seen.weight), cs::expand_dims(around.middle, 1)};
  const cs::Tensor middle = cs::broadcast_to(cs::expand_dims(around.middle, 1), around.others.shape());
  return {model.seen(cs::flatten(middle)), cs::reshape(around.others, {-1, 1})};
}

cs::Tensor loss_of(const WordVectors& model, const Questions& questions, const Options& options) {
  const auto& [inputs, answers] = questions;
  if (options.loss == "nce")
    return cs::mean(cs::nce_loss(model.asked, model.bias, answers, inputs, {.count = options.negatives}));
  return cs::mean(cs::sampled_softmax_loss(model.asked, model.bias, answers, inputs, {.count = options.negatives}));
}

std::unique_ptr<cs::optim::Optimizer> optimizer_of(WordVectors& model, bool published) {
  if (published)
    return std::make_unique<cs::optim::Sgd>(cs::nn::parameters(model),
                                            cs::optim::SgdOptions{.learning_rate = 1, .lazy = true});
  return std::make_unique<cs::optim::Adagrad>(
      cs::nn::parameters(model),
      cs::optim::AdagradOptions{.learning_rate = 0.2, .initial_accumulator = 1e-8, .lazy = true});
}

struct Losses {
  double first = 0, last = 0;  ///< means over the first and the last `kReportEvery` steps
};

Losses train(WordVectors& model, const cs::Tensor& text, const Options& options) {
  const bool cbow = options.model == "cbow";
  const std::int64_t places = cbow ? options.batch : std::max<std::int64_t>(1, options.batch / (2 * options.window));
  const std::unique_ptr<cs::optim::Optimizer> optimizer = optimizer_of(model, options.published);
  sample::Log log(options);
  Losses losses;
  double sum = 0;
  auto progress = cs::progress(windows_of(text, options.window, places) | data::take(options.steps), options.model);
  for (const Around& around : progress) {
    cs::GradientTape tape;
    const cs::Tensor loss = loss_of(model, questions_of(model, around, cbow), options);
    optimizer->apply(tape.gradient(loss, optimizer->parameters()));  // rows of the words that were looked at

    sum += static_cast<double>(loss.item<float>());
    if (optimizer->steps() % kReportEvery != 0) continue;
    losses.last = std::exchange(sum, 0.0) / static_cast<double>(kReportEvery);
    if (optimizer->steps() == kReportEvery) losses.first = losses.last;
    progress.set("loss", losses.last);
    log.scalar("loss", losses.last, optimizer->steps());
  }
  return losses;
}

// --- what the vectors know ---------------------------------------------------------------------------------------

/// For each of the words, [count], the `k` nearest others by cosine, int64 [count, k].
cs::Tensor neighbours(const cs::Tensor& vectors, const cs::Tensor& of, std::int64_t k) {
  const cs::Tensor cosines = cs::matmul(cs::gather(vectors, of), cs::transpose(vectors));
  const cs::Tensor others = cs::scatter(cosines, cs::expand_dims(of, 1), -2, 1);  // none is its own neighbour
  return cs::topk(others, k, 1).indices;
}

void print_neighbours(const cs::Tensor& vectors, const data::Vocabulary& vocabulary, const std::string& words) {
  const cs::Tensor of = vocabulary.encode(words), near = neighbours(vectors, of, 8);
  for (std::int64_t i = 0; i < of.numel(); ++i)
    std::printf("  %-10s %s\n", vocabulary.decode(of.index({cs::range(i, i + 1)})).c_str(),
                vocabulary.decode(near[i]).c_str());
}

/// How many of the nearest neighbours of these words are of these words.
double share_within(const cs::Tensor& vectors, const data::Vocabulary& vocabulary, const std::string& words) {
  const cs::Tensor of = vocabulary.encode(words), near = neighbours(vectors, of, 6);
  const cs::Tensor same = cs::equal(cs::reshape(near, {-1, 1}), cs::reshape(of, {1, -1}));  // [6 * count, count]
  return cs::mean(cs::cast(cs::any_of(same, 1), cs::DType::float32)).item<float>();
}

struct Score {
  std::int64_t right = 0, asked = 0;
};

/// a is to b as c is to what? The word nearest to b - a + c that is none of the three. `questions` is [n, 4].
Score answer(const cs::Tensor& vectors, const cs::Tensor& questions) {
  constexpr std::int64_t kPiece = 500;
  Score score;
  for (const cs::Tensor& piece : data::from(questions) | data::batch(kPiece)) {
    const cs::Tensor given = cs::gather(vectors, piece.index({cs::all, cs::until(3)}));  // [piece, 3, width]
    const cs::Tensor wanted = given.index({cs::all, 1}) - given.index({cs::all, 0}) + given.index({cs::all, 2});
    const cs::Tensor scores = cs::matmul(wanted, cs::transpose(vectors));
    const cs::Tensor others =
        cs::scatter(scores, piece.index({cs::all, cs::until(3)}), -std::numeric_limits<double>::infinity(), 1);
    score.right += cs::sum(cs::equal(cs::argmax(others, 1), piece.index({cs::all, 3}))).item<std::int64_t>();
    score.asked += piece.size(0);
  }
  return score;
}

/// The questions whose four words are in the vocabulary, int64 [n, 4].
cs::Tensor read_questions(const std::string& path, const data::Vocabulary& vocabulary) {
  std::vector<std::int64_t> ids;
  for (std::string& line : data::lines(path)) {
    if (line.empty() || line[0] == ':') continue;  // a heading
    for (char& c : line)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const std::vector<std::int64_t> four = vocabulary.encode_list(line);
    const bool known = std::find(four.begin(), four.end(), vocabulary.unknown()) == four.end();
    if (four.size() == 4 && known) ids.insert(ids.end(), four.begin(), four.end());
  }
  return cs::from_vector(ids, {static_cast<std::int64_t>(ids.size() / 4), 4});
}

const char* const kNumbers = "one two three four five six seven eight nine zero";
const char* const kMonths =
    "january february march april june july august september october november december";  // may is also a verb
const char* const kPronouns = "i he she it we they you his her their its him them my our your";
const char* const kVerbs =
    "is are was were be been has have had do did does can may will would could should must might";

/// The most frequent words in the plane in which their vectors differ most.
void draw(const std::string& path, const cs::Tensor& vectors, const data::Vocabulary& vocabulary) {
  constexpr std::int64_t kWords = 250;
  const cs::Tensor most = vectors.index({cs::range(1, kWords + 1)});  // 0 stands for unknown words
  const cs::Tensor centred = most - cs::mean(most, 0);
  const cs::SvdResult parts = cs::svd(centred, {.full_matrices = false});
  const cs::Tensor plane = cs::matmul(centred, cs::transpose(parts.vh.index({cs::until(2)})));  // [words, 2]

  tools::Scatter picture;
  picture.title = "The most frequent words of text8";
  picture.subtitle = "two principal components of their vectors";
  picture.groups = {"other words", "numbers", "months", "pronouns", "verbs"};
  const char* const members[] = {kNumbers, kMonths, kPronouns, kVerbs};
  for (std::int64_t i = 0; i < kWords; ++i) {
    const float x = plane.at<float>(i, 0), y = plane.at<float>(i, 1);
    tools::Point point{static_cast<double>(x), static_cast<double>(y), vocabulary.word(i + 1)};
    for (int group = 0; group < 4; ++group) {
      const std::vector<std::int64_t> list = vocabulary.encode_list(members[group]);
      if (std::find(list.begin(), list.end(), i + 1) != list.end()) point.group = group + 1;
    }
    picture.points.push_back(std::move(point));
  }
  tools::write_svg(path, picture);
  std::printf("the words are in %s\n", path.c_str());
}

/// Shares of neighbours of one kind. By chance they would be below 0.001.
struct Bounds {
  double numbers = 0, months = 0;
};
Bounds bounds_of(const Options& options) {
  if (options.published) return {options.quick ? 0.1 : 0.7, 0};
  if (options.quick || options.loss == "nce") return {0.2, 0.2};  // NCE is slower to tell words apart
  return {0.6, 0.8};
}

int run(Options options) {
  if (options.quick) options.steps = std::min<std::int64_t>(options.steps, 10000);
  if (options.published) options.window = 1;
  const std::string text = sample::text8_part(sample::data_folder("text8", options.folder));
  const std::string folder = sample::find_data_folder("word_analogies", options.questions);
  const data::Vocabulary vocabulary(text, {.min_count = 5, .unknown = "<unk>"});
  const cs::Tensor ids = vocabulary.encode(text);
  cs::Tensor questions;  // read now: a training is not to end with a file that is missing
  if (!folder.empty()) questions = read_questions(folder + "/questions-words.txt", vocabulary);
  std::printf("a text of %lld words, %lld of which come at least 5 times\n", static_cast<long long>(ids.numel()),
              static_cast<long long>(vocabulary.size() - 1));

  WordVectors model{.words = vocabulary.size(), .width = options.size, .start = options.published ? 1.0 : 0.1};
  const Losses losses = train(model, ids, options);

  const cs::Tensor& table = model.seen.weight;
  const cs::Tensor vectors = table / cs::vector_norm(table, 2, 1, {.keepdims = true});  // of length 1 each
  print_neighbours(vectors, vocabulary, "three he can american world city january war");
  const double numbers = share_within(vectors, vocabulary, kNumbers);
  const double months = share_within(vectors, vocabulary, kMonths);
  Score score;
  if (questions.defined()) score = answer(vectors, questions);
  else std::printf("data/word_analogies is not there, so nothing is asked: scripts/get-data fetches it\n");
  if (!options.picture.empty()) draw(options.picture, vectors, vocabulary);

  const Bounds least = bounds_of(options);
  sample::Checks checks;
  checks.expect(losses.last < losses.first, "the loss has fallen");
  checks.expect(numbers >= least.numbers, "numbers are next to numbers");
  checks.expect(months >= least.months, "months are next to months");
  std::printf(
      "result: %s, %s: loss %.3f; neighbours: numbers %.0f %%, months %.0f %%; analogies %lld of %lld, %.2f %%\n",
      options.model.c_str(), options.loss.c_str(), losses.last, 100 * numbers, 100 * months,
      static_cast<long long>(score.right), static_cast<long long>(score.asked),
      100 * static_cast<double>(score.right) / static_cast<double>(std::max<std::int64_t>(1, score.asked)));
  return checks.exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  return sample::run(
      argc, argv, "Learns vectors of words from a text.", options,
      [&](sample::CommandLine& line) {
        line.add("--data", options.folder, "folder of text8");
        line.add("--questions", options.questions, "folder of Google's questions-words.txt");
        line.add("--model", options.model, "what is asked for", {"skip-gram", "cbow"});
        line.add("--loss", options.loss, "what it is trained by", {"sampled-softmax", "nce"});
        line.add("--published", options.published, "SGD with rate 1, windows of 1, vectors that start in [-1, 1]");
        line.add("--steps", options.steps, "training steps", 2 * kReportEvery, 100000000);
        line.add("--batch", options.batch, "answers a step", 1);
        line.add("--size", options.size, "of a vector", 2, 100000);
        line.add("--window", options.window, "words to each side", 1);
        line.add("--negatives", options.negatives, "words drawn a step", 1);
        line.add_picture("word_vectors.svg");
      },
      [&] { return run(options); });
}
