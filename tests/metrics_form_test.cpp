// What all metrics have in common: cutting into batches, order, merging, copies and saved states change no bit.
#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/metrics_support.hpp"

using namespace capstan;
using namespace tests;

namespace {

constexpr std::int64_t kCount = 47;

std::vector<double> bits_of(double result) { return {result}; }
std::vector<double> bits_of(const Tensor& result) { return values(result); }

Ids numbers_from(std::int64_t begin, std::int64_t end) {
  Ids list(static_cast<std::size_t>(end - begin));
  std::iota(list.begin(), list.end(), begin);
  return list;
}

/// `feed(metric, examples)` updates a metric with the examples of these numbers, out of kCount.
template <class Metric, class Feed>
void check_form(const std::string& what, const Metric& fresh, const Feed& feed) {
  INFO(what);
  const Ids all = numbers_from(0, kCount), first = numbers_from(0, 19), rest = numbers_from(19, kCount);
  Metric whole = fresh;
  feed(whole, all);
  const std::vector<double> expected = bits_of(whole.result());
  for (const double one : expected) CHECK(std::isfinite(one));
  const auto is_same = [&](const Metric& metric) { return same_bits(bits_of(metric.result()), expected); };

  Metric batches = fresh;
  for (const Ids& batch : {first, Ids{}, rest}) feed(batches, batch);
  CHECK(is_same(batches));

  Metric singles = fresh;
  Ids mixed = all;
  std::shuffle(mixed.begin(), mixed.end(), std::mt19937_64(3));
  for (const std::int64_t one : mixed) feed(singles, Ids{one});
  CHECK(is_same(singles));

  Metric left = fresh, right = fresh;
  feed(left, first);
  feed(right, rest);
  const Metric copy = left;
  left.merge(right);
  right.merge(copy);
  left.merge(fresh);
  CHECK(is_same(left));
  CHECK(is_same(right));

  Metric resumed = restored(copy, whole);  // what it had before is gone
  CHECK(copy.state().size() == resumed.state().size());
  feed(resumed, rest);
  CHECK(is_same(resumed));
  CHECK(is_same(restored(whole, fresh)));

  whole.reset();
  feed(whole, mixed);
  CHECK(is_same(whole));
}

Tensor rows(const Tensor& x, const Ids& numbers) { return x.index({from_vector(numbers)}); }

struct Examples {
  Tensor scores = random_in(-1, 1, {kCount, 4}, DType::float64, 1);
  Tensor numbers = random_in(-1, 1, {kCount}, DType::float64, 2);
  Tensor targets = random_in(0, 3, {kCount}, DType::float64, 3);
  Tensor weights = random_in(0, 1, {kCount}, DType::float64, 4);
  Tensor labels = cast(random_in(0, 4, {kCount}, DType::float64, 5), DType::int64);
  Tensor truths = cast(greater(random_in(0, 1, {kCount}, DType::float64, 6), 0.6), DType::int64);
};

}  // namespace

TEST_CASE("batches, their order, merging and states change no bit of a weighted result", "[metrics]") {
  const Examples e;
  const auto pairs = [&](const Tensor& x, const Tensor& y) {
    return [x, y, &e](auto& metric, const Ids& n) { metric.update(rows(x, n), rows(y, n), rows(e.weights, n)); };
  };
  check_form("Accuracy", metrics::Accuracy(), pairs(e.scores, e.labels));
  check_form("TopK", metrics::TopK(2), pairs(e.scores, e.labels));
  check_form("BinaryAccuracy", metrics::BinaryAccuracy(), pairs(e.numbers, e.truths));
  check_form("Auc", metrics::Auc(), pairs(e.numbers, e.truths));
  check_form("AveragePrecision", metrics::AveragePrecision(), pairs(e.numbers, e.truths));
  check_form("MeanAbsoluteError", metrics::MeanAbsoluteError(), pairs(e.numbers, e.targets));
  check_form("MeanSquaredError", metrics::MeanSquaredError(), pairs(e.numbers, e.targets));
  check_form("RootMeanSquaredError", metrics::RootMeanSquaredError(), pairs(e.numbers, e.targets));
  check_form("R2", metrics::R2(), pairs(e.numbers, e.targets));
  check_form("Perplexity", metrics::Perplexity(), pairs(e.scores, e.labels));
  check_form("Mean", metrics::Mean(),
             [&](metrics::Mean& mean, const Ids& n) { mean.update(rows(e.numbers, n), rows(e.weights, n)); });
}

TEST_CASE("batches, their order, merging and states change no bit of a result without weights", "[metrics]") {
  const Examples e;
  const auto pairs = [](const Tensor& x, const Tensor& y) {
    return [x, y](auto& metric, const Ids& n) { metric.update(rows(x, n), rows(y, n)); };
  };
  check_form("Accuracy", metrics::Accuracy(), pairs(e.scores, e.labels));
  check_form("Auc", metrics::Auc(), pairs(e.numbers, e.truths));
  check_form("R2", metrics::R2(), pairs(e.numbers, e.targets));
  check_form("ConfusionMatrix", metrics::ConfusionMatrix(4), pairs(e.scores, e.labels));
  check_form("Precision", metrics::Precision(), pairs(e.numbers, e.truths));
  check_form("Recall", metrics::Recall({.threshold = 0.1}), pairs(e.numbers, e.truths));
  check_form("F1", metrics::F1({.classes = 4, .average = metrics::Average::weighted}), pairs(e.scores, e.labels));
  check_form("Mean", metrics::Mean(), [&](metrics::Mean& mean, const Ids& n) { mean.update(rows(e.numbers, n)); });
}

TEST_CASE("metrics of texts do not depend on how a corpus is cut", "[metrics]") {
  std::mt19937_64 dice(9);
  std::vector<Ids> hypotheses, references;
  for (std::int64_t i = 0; i < kCount; ++i) {
    hypotheses.emplace_back(dice() % 9 + 1);
    references.emplace_back(dice() % 9 + 1);
    for (auto& token : hypotheses.back()) token = static_cast<std::int64_t>(dice() % 3);
    for (auto& token : references.back()) token = static_cast<std::int64_t>(dice() % 3);
  }
  check_form("Bleu", metrics::Bleu(), [&](metrics::Bleu& bleu, const Ids& n) {
    for (const std::int64_t i : n) {
      const auto at = static_cast<std::size_t>(i);
      bleu.update(hypotheses[at], std::vector<Ids>{references[at], hypotheses[(at + 1) % hypotheses.size()]});
    }
  });
  check_form("ErrorRate", metrics::ErrorRate(), [&](metrics::ErrorRate& rate, const Ids& n) {
    for (const std::int64_t i : n) {
      const auto at = static_cast<std::size_t>(i);
      rate.update(hypotheses[at], references[at]);
    }
  });
}

TEST_CASE("weights may begin and end in the middle of a ranking", "[metrics]") {
  const Examples e;
  const Ids first = numbers_from(0, 20), rest = numbers_from(20, kCount);
  const Tensor ones_then_weights = concat({ones({20}, {.dtype = DType::float64}), rows(e.weights, rest)}, 0);
  metrics::Auc expected, begun, ended;
  expected.update(e.numbers, e.truths, ones_then_weights);
  begun.update(rows(e.numbers, first), rows(e.truths, first));
  begun.update(rows(e.numbers, rest), rows(e.truths, rest), rows(e.weights, rest));
  ended.update(rows(e.numbers, rest), rows(e.truths, rest), rows(e.weights, rest));
  ended.update(rows(e.numbers, first), rows(e.truths, first));
  CHECK(begun.result() == expected.result());
  CHECK(ended.result() == expected.result());
}

TEST_CASE("a metric that is merged with itself has seen everything twice", "[metrics]") {
  const Examples e;
  metrics::Auc auc;
  metrics::Accuracy accuracy;
  metrics::ConfusionMatrix matrix(4);
  auc.update(e.numbers, e.truths, e.weights);
  accuracy.update(e.scores, e.labels);
  matrix.update(e.scores, e.labels);
  const double area = auc.result(), share = accuracy.result();
  auc.merge(auc);
  accuracy.merge(accuracy);
  matrix.merge(matrix);
  CHECK(auc.count() == 2 * kCount);
  CHECK(near(auc.result(), area));
  CHECK(accuracy.weight() == 2 * kCount);
  CHECK(accuracy.result() == share);
  CHECK(matrix.total() == 2 * kCount);
}

TEST_CASE("a state is a copy, on the host, under the names that its contract tells", "[metrics]") {
  const Examples e;
  metrics::Accuracy accuracy;
  accuracy.update(e.scores, e.labels);
  const std::vector<NamedTensor> state = accuracy.state();
  REQUIRE(state.size() == 2);
  CHECK(state[0].name == "sum");
  CHECK(state[1].name == "weight");
  for (const NamedTensor& entry : state) {
    CHECK(entry.value.device() == cpu());
    CHECK(entry.value.dtype() == DType::int64);
  }
  accuracy.update(e.scores, e.labels);
  metrics::Accuracy before;
  before.load_state(state);
  CHECK(before.weight() == kCount);  // a state does not change with what it was taken from
}

TEST_CASE("updates are recorded by no tape, and leave operands alone", "[metrics]") {
  Examples e;
  const std::uint32_t version = e.scores.version();
  GradientTape tape;
  tape.watch(e.scores);
  metrics::Accuracy accuracy;
  metrics::Perplexity perplexity;
  metrics::TopK top(2);
  accuracy.update(e.scores, e.labels);
  perplexity.update(e.scores, e.labels);
  top.update(e.scores, e.labels, e.weights);
  const Tensor loss = sum(e.scores);
  CHECK(same(tape.gradient(loss, e.scores), ones_like(e.scores)));
  CHECK(e.scores.version() == version);
}

// --- exact sums --------------------------------------------------------------------------------------------------

namespace {

metrics::ExactSum sum_of(const std::vector<double>& terms) {
  metrics::ExactSum sum;
  for (const double term : terms) sum.add(term);
  return sum;
}

}  // namespace

TEST_CASE("an exact sum rounds once, to the nearest and to even", "[metrics][host]") {
  const double tiny = std::numeric_limits<double>::denorm_min(), most = std::numeric_limits<double>::max();
  CHECK(sum_of({}).value() == 0);
  CHECK(sum_of({1, 0x1p-53}).value() == 1);                      // a tie: 1 is even
  CHECK(sum_of({1, 0x1p-53, tiny}).value() == 1 + 0x1p-52);      // a little more than a tie
  CHECK(sum_of({1, 0x1p-53, -tiny}).value() == 1);               // a little less
  CHECK(sum_of({1 + 0x1p-52, 0x1p-53}).value() == 1 + 0x1p-51);  // a tie whose lower neighbour is odd
  CHECK(sum_of({-1, -0x1p-53, -tiny}).value() == -1 - 0x1p-52);  // signs do not matter
  CHECK(sum_of({1e100, 1, -1e100}).value() == 1);
  CHECK(sum_of({tiny, tiny, tiny}).value() == 3 * tiny);
  CHECK(sum_of({0x1p-1022, -tiny}).value() == 0x1p-1022 - tiny);  // from normal to subnormal
  CHECK(sum_of({most, most, -most}).value() == most);             // beyond the range and back
  CHECK(sum_of({most, most}).value() == kInfinity);
  CHECK(sum_of({-most, -0x1p970}).value() == -kInfinity);  // half a unit beyond: rounds away
  CHECK(sum_of({most, 0x1p969}).value() == most);
  CHECK(sum_of({kInfinity, -1e300}).value() == kInfinity);
  CHECK(std::isnan(sum_of({kInfinity, -kInfinity}).value()));
  CHECK(std::isnan(sum_of({1, kNaN}).value()));
  CHECK(sum_of({1, 0x1p-60}).rest() == 0x1p-60);
  CHECK(sum_of({1, -0x1p-60}).rest() == -0x1p-60);
  CHECK(sum_of({0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}).value() == 1);  // Python's math.fsum([0.1] * 10)
}

TEST_CASE("an exact sum of numbers of all sizes loses none of them", "[metrics][host]") {
  std::mt19937_64 dice(5);
  std::vector<double> terms;
  while (terms.size() < 3000) {
    double x;
    const std::uint64_t bits = dice();
    std::memcpy(&x, &bits, sizeof x);
    if (std::isfinite(x)) terms.push_back(x);
  }
  for (std::size_t left : {std::size_t{0}, std::size_t{17}, std::size_t{2999}}) {
    metrics::ExactSum sum = sum_of(terms);
    for (std::size_t i = terms.size(); i-- > 0;)
      if (i != left) sum.add(-terms[i]);
    CHECK(sum.value() == terms[left]);
    CHECK(sum.rest() == 0);
  }
  metrics::ExactSum product;
  product.add_product(1 + 0x1p-30, 1 + 0x1p-30);  // 1 + 2^-29 + 2^-60
  product.add(-1);
  product.add(-0x1p-29);
  CHECK(product.value() == 0x1p-60);
}

TEST_CASE("equal sums are written alike, and what is no sum is not read", "[metrics][host]") {
  std::int64_t a[metrics::ExactSum::kNumbers], b[metrics::ExactSum::kNumbers];
  sum_of({1e300, -3, 1e-300, -1e300}).write(a);
  sum_of({1e-300, -1, -1, -1}).write(b);
  CHECK(std::equal(std::begin(a), std::end(a), std::begin(b)));
  metrics::ExactSum sum;
  CHECK(sum.read(a));
  CHECK(sum.value() == -3);
  sum.add(3);
  CHECK(sum.value() == 1e-300);
  b[4] = -1;
  CHECK(!sum.read(b));
  b[4] = std::int64_t{1} << 32;
  CHECK(!sum.read(b));
  b[4] = 0;
  for (const std::int64_t top : {INT64_MAX, std::int64_t{1} << 48, -(std::int64_t{1} << 48) - 1}) {
    b[66] = top;  // more than 2^62 doubles could make, and merging a few would overflow
    CHECK(!sum.read(b));
  }
  b[66] = 0;
  b[67] = 1;  // a number that should have been added
  CHECK(!sum.read(b));
  CHECK(sum.value() == 1e-300);
}
