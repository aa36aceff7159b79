// The loss of sequences: every average against plain loops, steps that are left out, and what it costs.
#include "tests/support.hpp"

#include <cmath>

using namespace capstan;
using namespace tests;

namespace {

constexpr std::int64_t kBatch = 2, kTime = 3, kClasses = 4;
constexpr std::size_t kRows = 2, kSteps = 3, kWidth = 4;  // the same for plain loops

Tensor random_logits(DType type = DType::float64) { return random_in(-2, 2, {kBatch, kTime, kClasses}, type, 601); }
Tensor some_targets() { return {{3, 0, 1}, {2, 2, 0}}; }
/// Two of the second example's steps do not count.
Tensor some_weight() { return {{1.0, 0.5, 2.0}, {1.5, 0.0, 0.0}}; }

/// By plain loops: weight * -log softmax(logits)[target] and the weights.
struct Plain {
  double loss[kBatch][kTime], weight[kBatch][kTime];

  Plain(const Tensor& logits, const Tensor& targets, const Tensor& weights) {
    const std::vector<double> x = values(logits), labels = values(targets), w = values(weights);
    for (std::size_t b = 0; b < kRows; ++b)
      for (std::size_t t = 0; t < kSteps; ++t) {
        const std::size_t step = b * kSteps + t;
        double total = 0;
        for (std::size_t k = 0; k < kWidth; ++k) total += std::exp(x[step * kWidth + k]);
        weight[b][t] = w[step];
        loss[b][t] = w[step] * (std::log(total) - x[step * kWidth + static_cast<std::size_t>(labels[step])]);
      }
  }
  double sum_of(const double (&table)[kBatch][kTime], std::int64_t example, std::int64_t step) const {
    double total = 0;
    for (std::int64_t b = 0; b < kBatch; ++b)
      for (std::int64_t t = 0; t < kTime; ++t)
        if ((example < 0 || example == b) && (step < 0 || step == t)) total += table[b][t];
    return total;
  }
  /// The weighted mean over an example, over a step of all, or over everything (-1).
  double mean_of(std::int64_t example, std::int64_t step) const {
    const double shares = sum_of(weight, example, step);
    return shares == 0 ? 0 : sum_of(loss, example, step) / shares;
  }
};

Tensor turned(const Tensor& x) { return transpose(x, 0, 1); }

Tensor list(const std::vector<double>& numbers) {
  return from_doubles(numbers, {static_cast<std::int64_t>(numbers.size())});
}

Tensor gradient_of(const Tensor& logits, const Tensor& targets, const SequenceLossOptions& options) {
  GradientTape tape;
  tape.watch(logits);
  return tape.gradient(sequence_loss(logits, targets, options), logits);
}

}  // namespace

TEST_CASE("sequence losses have the averages of plain loops", "[sequence_loss]") {
  const Tensor logits = random_logits(), targets = some_targets();
  for (const Tensor& weight : {some_weight(), Tensor(), ones({kBatch, kTime}, {DType::float64})}) {
    const Plain plain(logits, targets, weight.defined() ? weight : ones({kBatch, kTime}));
    const auto check = [&](const Tensor& x, const Tensor& labels, const Tensor& w, bool time_major) {
      CHECK(close(sequence_loss(x, labels, {.weight = w, .time_major = time_major}), Tensor(plain.mean_of(-1, -1)),
                  tolerance::roundings64));
      const Tensor examples = list({plain.mean_of(0, -1), plain.mean_of(1, -1)});
      CHECK(close(sequence_loss(x, labels, {.weight = w, .average_across_batch = false, .time_major = time_major}),
                  examples, tolerance::roundings64));
      CHECK(close(sequence_loss_by_example(x, labels, {.weight = w, .time_major = time_major}), examples,
                  tolerance::roundings64));
      CHECK(close(sequence_loss(x, labels, {.weight = w, .average_across_timesteps = false, .time_major = time_major}),
                  list({plain.mean_of(-1, 0), plain.mean_of(-1, 1), plain.mean_of(-1, 2)}), tolerance::roundings64));
      CHECK(close(sequence_loss_by_example(x, labels,
                                           {.weight = w, .average_across_timesteps = false, .time_major = time_major}),
                  list({plain.sum_of(plain.loss, 0, -1), plain.sum_of(plain.loss, 1, -1)}), tolerance::roundings64));
      const Tensor steps = sequence_loss(
          x, labels,
          {.weight = w, .average_across_timesteps = false, .average_across_batch = false, .time_major = time_major});
      CHECK(steps.shape() == labels.shape());
      CHECK(close(time_major ? turned(steps) : steps,
                  from_doubles({plain.loss[0][0], plain.loss[0][1], plain.loss[0][2], plain.loss[1][0],
                                plain.loss[1][1], plain.loss[1][2]},
                               {kBatch, kTime}),
                  tolerance::roundings64));
    };
    check(logits, targets, weight, false);
    check(turned(logits), turned(targets), weight.defined() ? turned(weight) : weight, true);
  }
}

TEST_CASE("the sequence loss of even logits is the logarithm of the vocabulary", "[sequence_loss]") {
  const Tensor logits = zeros({2, 5, 27}), targets = zeros({2, 5}, {DType::int64});
  CHECK(close(exp(sequence_loss(logits, targets)), Tensor(27.0f), tolerance::roundings32));  // the perplexity
}

TEST_CASE("a mask of lengths weighs as ones and zeros do", "[sequence_loss]") {
  const Tensor logits = random_logits(), targets = some_targets(), lengths = {3, 1};
  const Tensor mask = sequence_mask(lengths, kTime), numbers = sequence_mask(lengths, kTime, DType::float64);
  CHECK(same(sequence_loss(logits, targets, {.weight = mask}), sequence_loss(logits, targets, {.weight = numbers})));
  CHECK(same(gradient_of(logits, targets, {.weight = mask}), gradient_of(logits, targets, {.weight = numbers})));
}

TEST_CASE("steps of weight 0 reach no value and no gradient, whatever they hold", "[sequence_loss]") {
  const Tensor logits = random_logits(), targets = some_targets();
  Tensor poisoned = logits.copy(), padded = targets.copy();
  poisoned.index_put({1, 1}, kNaN);
  poisoned.index_put({1, 2}, kInfinity);
  padded.index_put({1, range(1, 3)}, -1);
  padded.index_put({1, 2}, 1000);
  for (const Tensor& weight : {some_weight(), some_weight() > 0}) {
    CHECK(
        same(sequence_loss(poisoned, padded, {.weight = weight}), sequence_loss(logits, targets, {.weight = weight})));
    CHECK(same(sequence_loss_by_example(poisoned, padded, {.weight = weight}),
               sequence_loss_by_example(logits, targets, {.weight = weight})));
    const Tensor g = gradient_of(poisoned, padded, {.weight = weight});
    CHECK(same(g, gradient_of(logits, targets, {.weight = weight})));
    CHECK(same(g.index({1, range(1, 3)}), zeros({2, kClasses}, {DType::float64})));
  }
}

TEST_CASE("steps of weight 0 reach no gradient of a gradient", "[sequence_loss][gradient]") {
  const Tensor logits = random_logits(), targets = some_targets();
  Tensor poisoned = logits.copy();
  poisoned.index_put({1, range(1, 3)}, kNaN);
  const auto twice = [&](const Tensor& x) {
    GradientTape outer;
    outer.watch(x);
    GradientTape inner;
    inner.watch(x);
    const Tensor g = inner.gradient(sequence_loss(x, targets, {.weight = some_weight()}), x);
    return outer.gradient(sum(square(g)), x);
  };
  CHECK(close(twice(poisoned), twice(logits), tolerance::roundings64));
}

TEST_CASE("where all steps are left out the loss and its gradient are 0", "[sequence_loss]") {
  const Tensor logits = random_logits(), targets = some_targets(), nothing = zeros({kBatch, kTime});
  CHECK(same(sequence_loss(logits, targets, {.weight = nothing}), Tensor(0.0)));
  CHECK(same(sequence_loss_by_example(logits, targets, {.weight = nothing}), {0.0, 0.0}));
  CHECK(same(gradient_of(logits, targets, {.weight = nothing}), zeros_like(logits)));
  const Tensor one = {{1.0, 1.0, 1.0}, {0.0, 0.0, 0.0}};
  const Tensor by_example = sequence_loss_by_example(logits, targets, {.weight = one});
  CHECK(by_example.at<double>(1) == 0);
  CHECK(by_example.at<double>(0) > 0);
  CHECK(same(sequence_loss(zeros({0, 3, 4}), zeros({0, 3}, {DType::int64})), Tensor(0.0f)));
  CHECK(same(sequence_loss_by_example(zeros({2, 0, 4}), zeros({2, 0}, {DType::int32})), {0.0f, 0.0f}));
  CHECK(sequence_loss_by_example(zeros({0, 3, 4}), zeros({0, 3}, {DType::int64})).shape() == Shape{0});
}

TEST_CASE("the weights of a sequence loss have gradients", "[sequence_loss]") {
  const Tensor logits = random_logits(), targets = some_targets(), weight = {{1.0, 0.5, 2.0}, {1.5, 1.0, 1.0}};
  GradientTape tape;
  tape.watch(weight);
  const Tensor loss = sequence_loss(logits, targets, {.weight = weight});
  const Tensor g = tape.gradient(loss, weight);
  const Tensor each = sparse_softmax_cross_entropy(logits, targets);
  CHECK(close(g, (each - loss) / 7, tolerance::roundings64));  // of sum(w * l) / sum(w), the weights' sum being 7
}

TEST_CASE("sequence losses take 16-bit logits, views, and targets of both types", "[sequence_loss]") {
  const Tensor logits = random_logits(DType::float32), targets = some_targets(), weight = some_weight();
  const Tensor expected = sequence_loss(logits, targets, {.weight = weight});
  CHECK(expected.dtype() == DType::float32);
  CHECK(same(sequence_loss(strided(logits), strided(targets.to(DType::int64)), {.weight = strided(weight)}), expected));
  for (const DType type : {DType::float16, DType::bfloat16}) {
    const Tensor half = sequence_loss(logits.to(type), targets, {.weight = weight});
    CHECK(half.dtype() == type);
    CHECK(std::fabs(number(half) - number(expected)) < 0.05);  // eight bits of a number near 1.5
  }
}

TEST_CASE("a sequence loss makes nothing of the logits' size but their gradient", "[sequence_loss][memory]") {
  const Tensor logits = random_in(-1, 1, {20, 35, 400}, DType::float32, 602);
  const Tensor targets = zeros({20, 35}, {DType::int64}), weight = ones({20, 35});
  const std::int64_t bytes = logits.numel() * 4;
  const debug::MemoryTimeline memory;
  GradientTape tape;
  tape.watch(logits);
  const Tensor loss = sequence_loss(logits, targets, {.weight = weight});
  CHECK(memory.peak_bytes() < bytes / 10);
  const Tensor g = tape.gradient(loss, logits);
  CHECK(memory.peak_bytes() < bytes + bytes / 10);
}
