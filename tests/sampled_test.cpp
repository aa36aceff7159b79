// Losses over a sample of the classes: candidates by their probabilities, both losses against plain loops over fixed
// candidates, gradients as row slices.
#include "tests/support.hpp"

#include <algorithm>
#include <cmath>
#include <set>

using namespace capstan;
using namespace tests;

namespace {

using Numbers = std::vector<double>;

constexpr std::int64_t kClasses = 12, kFeatures = 3, kBatch = 4;
constexpr std::size_t kRows = 4, kWidth = 3;  // the same for plain loops

// --- a small problem with fixed candidates ---

struct Problem {
  Tensor weights = random_in(-1, 1, {kClasses, kFeatures}, DType::float64, 611);
  Tensor biases = random_in(-1, 1, {kClasses}, DType::float64, 612);
  Tensor inputs = random_in(-1, 1, {kBatch, kFeatures}, DType::float64, 613);
  Tensor targets;
  Candidates candidates;

  /// Of the candidates 5, 2, 0 and 9, some are targets of some rows.
  explicit Problem(std::int64_t true_classes)
      : targets(true_classes == 1 ? Tensor{{2}, {7}, {5}, {11}} : Tensor{{2, 3}, {7, 6}, {9, 5}, {11, 1}}),
        candidates{.sampled = Tensor{5, 2, 0, 9}.to(DType::int64),
                   .true_expected = random_in(0.1, 0.9, {kBatch, true_classes}, DType::float64, 614),
                   .sampled_expected = random_in(0.1, 0.9, {4}, DType::float64, 615)} {}
};

/// Logits and labels as TensorFlow's _compute_sampled_logits has them, by plain loops: targets first.
struct Plain {
  std::vector<Numbers> logits, labels;
  std::vector<std::vector<bool>> removed;

  Plain(const Problem& p, bool with_biases, bool subtract_log_q, bool remove_hits) {
    const Numbers w = values(p.weights), b = values(p.biases), x = values(p.inputs), t = values(p.targets);
    const Numbers s = values(p.candidates.sampled), t_count = values(p.candidates.true_expected);
    const Numbers s_count = values(p.candidates.sampled_expected);
    const std::size_t n = t.size() / kRows;
    for (std::size_t row = 0; row < kRows; ++row) {
      const auto logit = [&](double id, double count) {
        const auto k = static_cast<std::size_t>(id);
        double total = with_biases ? b[k] : 0;
        for (std::size_t j = 0; j < kWidth; ++j) total += x[row * kWidth + j] * w[k * kWidth + j];
        return subtract_log_q ? total - std::log(count) : total;
      };
      logits.emplace_back();
      labels.emplace_back();
      removed.emplace_back();
      for (std::size_t i = 0; i < n; ++i) {
        logits.back().push_back(logit(t[row * n + i], t_count[row * n + i]));
        labels.back().push_back(1 / static_cast<double>(n));
        removed.back().push_back(false);
      }
      for (std::size_t i = 0; i < s.size(); ++i) {
        bool hit = false;
        for (std::size_t j = 0; j < n; ++j) hit = hit || t[row * n + j] == s[i];
        logits.back().push_back(logit(s[i], s_count[i]));
        labels.back().push_back(0);
        removed.back().push_back(remove_hits && hit);
      }
    }
  }

  Tensor nce() const {
    Numbers losses;
    for (std::size_t row = 0; row < kRows; ++row) {
      double total = 0;
      for (std::size_t i = 0; i < logits[row].size(); ++i) {
        if (removed[row][i]) continue;
        const double p = 1 / (1 + std::exp(-logits[row][i])), z = labels[row][i];
        total += -z * std::log(p) - (1 - z) * std::log(1 - p);
      }
      losses.push_back(total);
    }
    return from_doubles(losses, {kBatch});
  }

  Tensor softmax() const {
    Numbers losses;
    for (std::size_t row = 0; row < kRows; ++row) {
      double total = 0, loss = 0;
      for (std::size_t i = 0; i < logits[row].size(); ++i)
        if (!removed[row][i]) total += std::exp(logits[row][i]);
      for (std::size_t i = 0; i < logits[row].size(); ++i) loss -= labels[row][i] * (logits[row][i] - std::log(total));
      losses.push_back(loss);
    }
    return from_doubles(losses, {kBatch});
  }
};

// --- candidates ---

double log_uniform(std::int64_t k, std::int64_t range) {
  const auto x = static_cast<double>(k);
  return (std::log(x + 2) - std::log(x + 1)) / std::log(static_cast<double>(range) + 1);
}

/// Pearson's statistic of counts beside probabilities, and how large chance lets it become.
bool fits(const Numbers& counts, const Numbers& probabilities) {
  double total = 0, statistic = 0;
  for (const double count : counts) total += count;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    const double expected = total * probabilities[k];
    statistic += (counts[k] - expected) * (counts[k] - expected) / expected;
  }
  const double freedom = static_cast<double>(counts.size()) - 1, t = tolerance::chi_square_exponent;
  UNSCOPED_INFO("chi-square " << statistic << " with " << freedom << " degrees of freedom");
  return statistic <= freedom + 2 * std::sqrt(freedom * t) + 2 * t;
}

Numbers counted(const Tensor& sampled, std::size_t classes) {
  Numbers counts(classes, 0);
  for (const double k : values(sampled)) counts.at(static_cast<std::size_t>(k)) += 1;
  return counts;
}

Tensor no_targets() { return zeros({0, 1}, {DType::int64}); }

}  // namespace

// --- candidates --------------------------------------------------------------------------------------------------

TEST_CASE("log-uniform candidates come as often as their formula says", "[sampled]") {
  for (const std::int64_t range : {1, 2, 20}) {
    Rng rng(621);
    const Candidates drawn = log_uniform_candidates(no_targets(), 100000, range, {.unique = false}, rng);
    Numbers probabilities;
    double total = 0;
    for (std::int64_t k = 0; k < range; ++k) {
      probabilities.push_back(log_uniform(k, range));
      total += probabilities.back();
    }
    CHECK(std::fabs(total - 1) < tolerance::roundings64);
    CHECK(fits(counted(drawn.sampled, static_cast<std::size_t>(range)), probabilities));
  }
}

TEST_CASE("uniform candidates come equally often", "[sampled]") {
  Rng rng(622);
  const Candidates drawn = uniform_candidates(no_targets(), 100000, 30, {.unique = false}, rng);
  CHECK(fits(counted(drawn.sampled, 30), Numbers(30, 1.0 / 30)));
  CHECK(close(drawn.sampled_expected[0], Tensor(100000.0 / 30), tolerance::roundings64));
}

TEST_CASE("candidates drawn one by one are expected count times their probability", "[sampled]") {
  Rng rng(623);
  const Tensor targets = {{0, 3}, {999, 17}};
  const Candidates drawn = log_uniform_candidates(targets, 50, 1000, {.unique = false}, rng);
  CHECK(drawn.sampled.dtype() == DType::int64);
  CHECK(drawn.sampled.shape() == Shape{50});
  Numbers expected, of_sampled;
  for (const double k : values(targets)) expected.push_back(50 * log_uniform(static_cast<std::int64_t>(k), 1000));
  for (const double k : values(drawn.sampled))
    of_sampled.push_back(50 * log_uniform(static_cast<std::int64_t>(k), 1000));
  CHECK(close(drawn.true_expected, from_doubles(expected, {2, 2}), 1e-12));
  CHECK(close(drawn.sampled_expected, from_doubles(of_sampled, {50}), 1e-12));
}

TEST_CASE("unique candidates are all different, and expected by the number of tries", "[sampled]") {
  const Tensor targets = {{0}, {5}, {63}};
  for (const bool zipf : {true, false}) {
    Rng rng(624), again(624);
    const Candidates drawn =
        zipf ? log_uniform_candidates(targets, 40, 64, {}, rng) : uniform_candidates(targets, 40, 64, {}, rng);
    const Numbers list = values(drawn.sampled);
    CHECK(std::set<double>(list.begin(), list.end()).size() == 40);
    CHECK(*std::max_element(list.begin(), list.end()) < 64);
    CHECK(*std::min_element(list.begin(), list.end()) >= 0);

    // a try takes one block of the generator
    const auto tries = static_cast<double>(rng.position() - again.position());
    CHECK(tries > 40);
    const auto formula = [&](double k) {
      const double p = zipf ? log_uniform(static_cast<std::int64_t>(k), 64) : 1.0 / 64;
      return -std::expm1(tries * std::log1p(-p));
    };
    CHECK(close(drawn.true_expected, from_doubles({formula(0), formula(5), formula(63)}, {3, 1}), 1e-12));
    Numbers expected;
    for (const double k : list) expected.push_back(formula(k));
    CHECK(close(drawn.sampled_expected, from_doubles(expected, {40}), 1e-12));
  }
}

TEST_CASE("the average number of a class among unique candidates is what is expected", "[sampled]") {
  Rng rng(625);
  const Tensor all_classes = reshape(arange(10), {10, 1});
  Numbers counts(10, 0), expected(10, 0);
  constexpr int draws = 20000;
  for (int i = 0; i < draws; ++i) {
    const Candidates drawn = log_uniform_candidates(all_classes, 4, 10, {}, rng);
    for (const double k : values(drawn.sampled)) counts[static_cast<std::size_t>(k)] += 1;
    const Numbers each = values(drawn.true_expected);
    for (std::size_t k = 0; k < 10; ++k) expected[k] += each[k];
  }
  // the number of tries depends on what was drawn, so that these are estimates of each other
  for (std::size_t k = 0; k < 10; ++k) CHECK(std::fabs(counts[k] - expected[k]) < 0.1 * draws);
}

TEST_CASE("all classes of a range can be drawn, none of a count of 0, and equal generators draw the same",
          "[sampled]") {
  Rng rng(626), again(626);
  Numbers whole = values(log_uniform_candidates(no_targets(), 30, 30, {}, rng).sampled);
  CHECK(whole == values(log_uniform_candidates(no_targets(), 30, 30, {}, again).sampled));
  std::sort(whole.begin(), whole.end());
  for (std::size_t k = 0; k < 30; ++k) CHECK(whole[k] == static_cast<double>(k));
  const Candidates none = uniform_candidates(Tensor{{1}}, 0, 3, {}, rng);
  CHECK(none.sampled.shape() == Shape{0});
  CHECK(same(none.true_expected, {{0.0}}));
  CHECK(same(log_uniform_candidates(Tensor{{0}}, 1, 1, {}, rng).true_expected, {{1.0}}));  // it is sure to come
}

TEST_CASE("an accidental hit is a candidate that is one of the row's targets", "[sampled]") {
  const Tensor targets = {{2, 5}, {7, 7}, {0, 2}}, sampled = {5, 2, 9};
  CHECK(same(accidental_hits(targets, sampled), {{true, true, false}, {false, false, false}, {false, true, false}}));
  CHECK(same(accidental_hits(targets.to(DType::int64), sampled.to(DType::int8)), accidental_hits(targets, sampled)));
  CHECK(accidental_hits(zeros({2, 0}, {DType::int64}), sampled).shape() == Shape{2, 3});
  CHECK(accidental_hits(targets, zeros({0}, {DType::int64})).shape() == Shape{3, 0});
}

// --- losses ------------------------------------------------------------------------------------------------------

TEST_CASE("both losses are their formulas for fixed candidates", "[sampled]") {
  for (const std::int64_t true_classes : {1, 2})
    for (const bool with_biases : {true, false})
      for (const bool subtract : {true, false})
        for (const bool remove : {true, false}) {
          INFO(true_classes << " true, biases " << with_biases << ", log q " << subtract << ", hits " << remove);
          const Problem p(true_classes);
          const Plain plain(p, with_biases, subtract, remove);
          const Tensor biases = with_biases ? p.biases : Tensor();
          CHECK(close(
              nce_loss(p.weights, biases, p.targets, p.inputs,
                       {.candidates = p.candidates, .remove_accidental_hits = remove, .subtract_log_q = subtract}),
              plain.nce(), 1e-12));
          CHECK(close(sampled_softmax_loss(
                          p.weights, biases, p.targets, p.inputs,
                          {.candidates = p.candidates, .remove_accidental_hits = remove, .subtract_log_q = subtract}),
                      plain.softmax(), 1e-12));
        }
}

TEST_CASE("NCE keeps accidental hits and the sampled softmax removes them unless told", "[sampled]") {
  const Problem p(2);
  const auto nce = [&](bool remove) {
    return nce_loss(p.weights, p.biases, p.targets, p.inputs,
                    {.candidates = p.candidates, .remove_accidental_hits = remove});
  };
  const auto softmax_of = [&](bool remove) {
    return sampled_softmax_loss(p.weights, p.biases, p.targets, p.inputs,
                                {.candidates = p.candidates, .remove_accidental_hits = remove});
  };
  CHECK(same(nce_loss(p.weights, p.biases, p.targets, p.inputs, {.candidates = p.candidates}), nce(false)));
  CHECK(same(sampled_softmax_loss(p.weights, p.biases, p.targets, p.inputs, {.candidates = p.candidates}),
             softmax_of(true)));
  CHECK_FALSE(relative_error(nce(true), nce(false)) < 1e-3);
  CHECK_FALSE(relative_error(softmax_of(true), softmax_of(false)) < 1e-3);
}

TEST_CASE("a sampled softmax over all classes is the softmax over all classes", "[sampled]") {
  // every class a candidate, the target's hit removed, nothing subtracted
  const Problem p(1);
  const Candidates all_classes{.sampled = arange(kClasses)};
  const Tensor loss = sampled_softmax_loss(p.weights, p.biases, p.targets, p.inputs,
                                           {.candidates = all_classes, .subtract_log_q = false});
  const Tensor logits = linear(p.inputs, transpose(p.weights), p.biases);
  CHECK(close(loss, sparse_softmax_cross_entropy(logits, p.targets.index({all, 0})), 1e-12));
}

TEST_CASE("without candidates both losses draw log-uniform ones, all different", "[sampled]") {
  const Problem p(2);
  Rng rng(631), again(631);
  const Candidates drawn = log_uniform_candidates(p.targets, 5, kClasses, {}, again);
  CHECK(same(nce_loss(p.weights, p.biases, p.targets, p.inputs, {.count = 5}, rng),
             nce_loss(p.weights, p.biases, p.targets, p.inputs, {.candidates = drawn})));
  CHECK(rng.state() == again.state());
  const Candidates next = log_uniform_candidates(p.targets, 6, kClasses, {}, again);
  CHECK(same(sampled_softmax_loss(p.weights, p.biases, p.targets, p.inputs, {.count = 6}, rng),
             sampled_softmax_loss(p.weights, p.biases, p.targets, p.inputs, {.candidates = next})));
}

TEST_CASE("large logits make no NaN of either loss or its gradient", "[sampled]") {
  const Problem p(1);
  const Tensor weights = p.weights * 1e4;
  for (const bool noise : {true, false}) {
    GradientTape tape;
    tape.watch(weights);
    const Tensor loss =
        noise ? nce_loss(weights, p.biases, p.targets, p.inputs,
                         {.candidates = p.candidates, .remove_accidental_hits = true})
              : sampled_softmax_loss(weights, p.biases, p.targets, p.inputs, {.candidates = p.candidates});
    CHECK(all_of(isfinite(loss)).item<bool>());
    CHECK(all_of(isfinite(tape.gradient(loss, weights))).item<bool>());
  }
}

TEST_CASE("removed hits are no numbers that check_numerics asks about", "[sampled][debug]") {
  const Problem p(1);
  const debug::NumericsScope checked;
  CHECK_NOTHROW(sampled_softmax_loss(p.weights, p.biases, p.targets, p.inputs, {.candidates = p.candidates}));
}

TEST_CASE("sampled losses take 16-bit and mixed types", "[sampled]") {
  const Problem p(2);
  const Tensor expected = sampled_softmax_loss(p.weights, p.biases, p.targets, p.inputs, {.candidates = p.candidates});
  const Tensor mixed = sampled_softmax_loss(p.weights.to(DType::float32), p.biases, p.targets.to(DType::int8),
                                            p.inputs.to(DType::float32), {.candidates = p.candidates});
  CHECK(mixed.dtype() == DType::float64);
  CHECK(close(mixed, expected, tolerance::roundings32));
  for (const DType type : {DType::float16, DType::bfloat16}) {
    const Tensor half = sampled_softmax_loss(p.weights.to(type), p.biases.to(type), p.targets, p.inputs.to(type),
                                             {.candidates = p.candidates});
    CHECK(half.dtype() == type);
    CHECK(relative_error(half, expected) < 0.05);
  }
}

// --- gradients ---------------------------------------------------------------------------------------------------

namespace {

template <class Loss>
void check_slices(Loss loss) {
  const Tensor weights = random_in(-1, 1, {500, 4}, DType::float64, 641);
  const Tensor biases = random_in(-1, 1, {500}, DType::float64, 642);
  const Tensor inputs = random_in(-1, 1, {3, 4}, DType::float64, 643), targets = {{7}, {490}, {7}};
  GradientTape tape;
  tape.watch({weights, biases});
  const auto [dw, db] = tape.gradient(loss(weights, biases, targets, inputs), weights, biases);
  const std::set<double> looked_at = {7, 490, 3, 11};
  for (const Tensor& g : {dw, db}) {
    REQUIRE(has_row_slices(g));
    const Numbers rows = values(coalesce(row_slices(g)).indices);
    CHECK(std::set<double>(rows.begin(), rows.end()) == looked_at);
  }
}

}  // namespace

TEST_CASE("gradients of weights and biases are held as the rows that were looked at", "[sampled][sparse]") {
  const Candidates given{
      .sampled = Tensor{3, 11, 7}, .true_expected = full({3, 1}, 0.3), .sampled_expected = ones({3})};
  check_slices([&](const Tensor& w, const Tensor& b, const Tensor& t, const Tensor& x) {
    return nce_loss(w, b, t, x, {.candidates = given});
  });
  check_slices([&](const Tensor& w, const Tensor& b, const Tensor& t, const Tensor& x) {
    return sampled_softmax_loss(w, b, t, x, {.candidates = given});
  });
}

TEST_CASE("expected counts are constants to both losses", "[sampled][gradient]") {
  const Problem p(2);
  for (const bool noise : {true, false}) {
    GradientTape tape;
    tape.watch({p.candidates.true_expected, p.candidates.sampled_expected, p.inputs});
    const Tensor loss =
        noise ? nce_loss(p.weights, p.biases, p.targets, p.inputs, {.candidates = p.candidates})
              : sampled_softmax_loss(p.weights, p.biases, p.targets, p.inputs, {.candidates = p.candidates});
    const std::vector<Tensor> g = tape.gradient(
        sum(loss), std::vector<Tensor>{p.inputs, p.candidates.true_expected, p.candidates.sampled_expected});
    CHECK(g[0].defined());
    CHECK_FALSE(g[1].defined());
    CHECK_FALSE(g[2].defined());
  }
}

TEST_CASE("a sampled loss over a large vocabulary makes nothing of its size", "[sampled][memory]") {
  Parameter table(random_in(-1, 1, {50000, 16}, DType::float32, 644)), biases(zeros({50000}));
  optim::Sgd sgd({table, biases}, {.learning_rate = 0.1});
  const Tensor inputs = random_in(-1, 1, {8, 16}, DType::float32, 645), targets = reshape(arange(8), {8, 1});
  const Tensor before = Tensor(table)[49999].copy();
  Rng rng(646);
  const debug::MemoryTimeline memory;
  GradientTape tape;
  const Tensor loss = mean(sampled_softmax_loss(table, biases, targets, inputs, {.count = 20}, rng));
  sgd.apply(tape.gradient(loss, sgd.parameters()));
  CHECK(memory.peak_bytes() < table.numel() * 4 / 10);
  CHECK(same(Tensor(table)[49999], before));
}

TEST_CASE("a language model learns from either loss", "[sampled]") {
  // the next of 50 words is always the one after it: the weights of a word's row must turn toward its input
  const Tensor words = arange(50), next = reshape(remainder(words + 1, 50), {50, 1});
  for (const bool noise : {true, false}) {
    Rng rng(651);
    Parameter table(uniform({50, 16}, -0.5, 0.5, rng)), weights(uniform({50, 16}, -0.1, 0.1, rng)), biases(zeros({50}));
    optim::Adam adam({table, weights, biases}, {.learning_rate = 0.05});
    for (int step = 0; step < 300; ++step) {
      GradientTape tape;
      const Tensor x = embedding(words, table);
      const Tensor loss = noise ? nce_loss(weights, biases, next, x, {.count = 20}, rng)
                                : sampled_softmax_loss(weights, biases, next, x, {.count = 20}, rng);
      adam.apply(tape.gradient(mean(loss), adam.parameters()));
    }
    const Tensor logits = linear(embedding(words, table), transpose(weights), biases);
    const Tensor right = equal(argmax(logits, 1), next.index({all, 0}));
    CHECK(number(count_nonzero(right)) >= 40);
  }
}
