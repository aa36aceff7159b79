// Decoders of connectionist temporal classification against sums over all paths, and against a plain search.
#include <algorithm>
#include <cmath>

#include "tests/ctc_paths.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;
using namespace tests::ctc;

namespace {

struct Found {
  Labels labels;
  double log_probability;
};

/// What beam search found in sequence b. Checks that -1 stands behind it.
std::vector<Found> found_in(const CtcBeamResult& result, std::int64_t b) {
  std::vector<Found> list;
  for (std::int64_t k = 0; k < result.lengths.size(1); ++k) {
    Labels tokens = result.tokens[b][k].to_vector<std::int64_t>();
    const auto length = static_cast<std::ptrdiff_t>(result.lengths.at<std::int64_t>(b, k));
    CHECK(std::all_of(tokens.begin() + length, tokens.end(), [](std::int64_t token) { return token == -1; }));
    tokens.erase(tokens.begin() + length, tokens.end());
    list.push_back({tokens, values(result.log_probabilities[b][k])[0]});
  }
  return list;
}

/// The best of them first.
std::vector<Found> sorted(std::vector<Found> list, std::size_t most) {
  std::sort(list.begin(), list.end(),
            [](const Found& a, const Found& b) { return a.log_probability > b.log_probability; });
  if (list.size() > most) list.erase(list.begin() + static_cast<std::ptrdiff_t>(most), list.end());
  return list;
}

void check_found(const std::vector<Found>& actual, const std::vector<Found>& expected) {
  REQUIRE(actual.size() == expected.size());
  Numbers found, wanted;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    CHECK(actual[i].labels == expected[i].labels);
    found.push_back(std::exp(actual[i].log_probability));
    wanted.push_back(std::exp(expected[i].log_probability));
  }
  CHECK(relative_error(found, wanted) <= tolerance::roundings64);
}

/// Prefix beam search by a map of whole lists of labels, with probabilities as they are.
std::vector<Found> plain_search(const Batch& batch, std::size_t b, std::size_t beams) {
  struct Ends {
    double blank = 0, label = 0;
  };
  const Numbers logs = batch.logs_of(b);
  std::map<Labels, Ends> beam;
  beam[Labels{}].blank = 1;
  std::vector<Found> kept;
  for (std::size_t t = 0; t < static_cast<std::size_t>(batch.steps[b]); ++t) {
    const auto p = [&](std::int64_t c) { return std::exp(logs[t * batch.classes() + static_cast<std::size_t>(c)]); };
    std::map<Labels, Ends> next;
    for (const auto& [labels, ends] : beam) {
      const double both = ends.blank + ends.label;
      next[labels].blank += both * p(batch.blank);
      if (!labels.empty()) next[labels].label += ends.label * p(labels.back());
      for (std::int64_t c = 0; c < batch.logs.size(2); ++c) {
        if (c == batch.blank) continue;
        Labels longer = labels;
        longer.push_back(c);
        next[longer].label += (!labels.empty() && labels.back() == c ? ends.blank : both) * p(c);
      }
    }
    kept.clear();
    for (const auto& [labels, ends] : next) kept.push_back({labels, std::log(ends.blank + ends.label)});
    kept = sorted(kept, beams);
    beam.clear();
    for (const Found& found : kept) beam[found.labels] = next[found.labels];
  }
  return kept;
}

}  // namespace

TEST_CASE("a beam that is wide enough finds the best labels of all, with their probabilities", "[ctc]") {
  for (const std::int64_t blank : {0, 2}) {
    const Batch batch = batch_of(blank);
    const CtcBeamResult result =
        ctc_beam_search_decode(batch.logs, batch.input_lengths(), {.beams = 100000, .top_paths = 9, .blank = blank});
    CHECK(result.tokens.shape() == Shape{5, 9, 6});
    CHECK(result.tokens.dtype() == DType::int64);
    for (std::size_t b = 0; b < batch.size(); ++b) {
      std::vector<Found> expected;
      for (const auto& [labels, paths] : batch.paths_of(b)) expected.push_back({labels, std::log(paths.probability)});
      check_found(found_in(result, static_cast<std::int64_t>(b)), sorted(expected, 9));
    }
  }
}

TEST_CASE("a narrow beam is that of a plain search, though labels come back that had been dropped", "[ctc]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Batch batch = {random_in(-3, 0, {2, 12, 4}, DType::float64, 600 + seed), {{}, {}}, {12, 9}, 1};
    for (const std::int64_t beams : {1, 2, 3, 5, 8, 30}) {
      const std::int64_t paths = std::min(beams, std::int64_t{4});
      const CtcBeamResult result =
          ctc_beam_search_decode(transpose(batch.logs, 0, 1), batch.input_lengths(),
                                 {.beams = beams, .top_paths = paths, .blank = 1, .time_major = true});
      for (std::size_t b = 0; b < 2; ++b)
        check_found(found_in(result, static_cast<std::int64_t>(b)),
                    sorted(plain_search(batch, b, static_cast<std::size_t>(beams)), static_cast<std::size_t>(paths)));
    }
  }
}

TEST_CASE("the best path and the best labels may differ", "[ctc]") {
  const Tensor logs = log(Tensor{{{0.6, 0.4}, {0.6, 0.4}}});  // blank blank 0.36; 1 by three paths, 0.24 + 0.24 + 0.16
  const CtcGreedyResult path = ctc_greedy_decode(logs);
  CHECK(same(path.tokens, from_vector(Labels{-1, -1}, {1, 2})));
  CHECK(same(path.lengths, from_vector(Labels{0})));
  CHECK(close(path.scores, {std::log(0.36)}, tolerance::roundings64));
  const CtcBeamResult best = ctc_beam_search_decode(logs, {}, {.beams = 4, .top_paths = 4});
  CHECK(same(best.tokens, from_vector(Labels{1, -1, -1, -1, -1, -1, -1, -1}, {1, 4, 2})));
  CHECK(same(best.lengths, from_vector(Labels{1, 0, 0, 0}, {1, 4})));  // there are two, and 1 1 takes three steps
  CHECK(close(best.log_probabilities, {{std::log(0.64), std::log(0.36), -kInfinity, -kInfinity}},
              tolerance::roundings64));
}

TEST_CASE("greedy decoding merges what is equal and drops blanks", "[ctc]") {
  const Tensor path = {{0, 1, 1, 0, 1, 2, 2, 0}, {3, 3, 3, 2, 0, 0, 2, 1}};
  const Tensor logs = log(one_hot(path, 4, 0.7, 0.1, DType::float64));
  const CtcGreedyResult merged = ctc_greedy_decode(logs);
  CHECK(same(merged.tokens, from_vector(Labels{1, 1, 2, -1, -1, -1, -1, -1, 3, 2, 2, 1, -1, -1, -1, -1}, {2, 8})));
  CHECK(same(merged.lengths, from_vector(Labels{3, 4})));
  CHECK(close(merged.scores, {8 * std::log(0.7), 8 * std::log(0.7)}, tolerance::roundings64));
  const CtcGreedyResult all_of_them = ctc_greedy_decode(logs, {}, {.merge_repeated = false});
  CHECK(same(all_of_them.tokens, from_vector(Labels{1, 1, 1, 2, 2, -1, -1, -1, 3, 3, 3, 2, 2, 1, -1, -1}, {2, 8})));
  const CtcGreedyResult other =
      ctc_greedy_decode(transpose(logs, 0, 1), Tensor{5, 0}, {.blank = 1, .time_major = true});
  CHECK(same(other.tokens, from_vector(Labels{0, 0, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, {2, 8})));
  CHECK(same(other.lengths, from_vector(Labels{2, 0})));
  CHECK(close(other.scores, {5 * std::log(0.7), 0.0}, tolerance::roundings64));
  const CtcGreedyResult ties = ctc_greedy_decode(zeros({1, 2, 3}), {}, {.blank = 2});
  CHECK(same(ties.tokens, from_vector(Labels{0, -1}, {1, 2})));
}

TEST_CASE("beam search knows what cannot be", "[ctc]") {
  const Tensor logs = {{{kNaN, -1.0, -kInfinity}, {-0.5, kNaN, -kInfinity}}};  // 1, then the blank
  const CtcBeamResult found = ctc_beam_search_decode(logs, {}, {.beams = 3, .top_paths = 2});
  CHECK(same(found.tokens, from_vector(Labels{1, -1, -1, -1}, {1, 2, 2})));
  CHECK(same(found.lengths, from_vector(Labels{1, 0}, {1, 2})));
  CHECK(same(found.log_probabilities, {{-1.5, -kInfinity}}));
  // no steps: the empty list, certainly; only blanks; nobody; all impossible
  const CtcBeamResult empty_one = ctc_beam_search_decode(zeros({1, 0, 2}), {}, {.beams = 2, .top_paths = 2});
  CHECK(same(empty_one.log_probabilities, from_doubles({0, -kInfinity}, {1, 2}, DType::float32)));
  CHECK(same(ctc_beam_search_decode(zeros({1, 3, 1})).lengths, from_vector(Labels{0}, {1, 1})));
  CHECK(ctc_beam_search_decode(zeros({0, 3, 2})).tokens.shape() == Shape{0, 1, 3});
  const CtcBeamResult lost = ctc_beam_search_decode(full({1, 2, 2}, -kInfinity), {}, {.beams = 2});
  CHECK(same(lost.log_probabilities, from_doubles({-kInfinity}, {1, 1}, DType::float32)));
}

TEST_CASE("decoders take what a tape follows, and end its chain", "[ctc]") {
  const Tensor logs = log_softmax(random_in(-1, 1, {2, 5, 3}, DType::float64, 507));
  GradientTape tape;
  tape.watch(logs);
  CHECK_FALSE(tape.follows(ctc_greedy_decode(logs).scores));
  CHECK_FALSE(tape.follows(ctc_beam_search_decode(logs).log_probabilities));
}
