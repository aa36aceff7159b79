// Connectionist temporal classification: the loss against sums over all paths.
#include <cmath>

#include "tests/ctc_paths.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;
using namespace tests::ctc;

namespace {

constexpr Reduction none = Reduction::none;

const Numbers weights = {1.5, -0.5, 2, 0.25, 1};

/// Its losses in one layout or another.
Tensor losses_of(const Batch& batch, const Tensor& logs, bool time_major = false, bool joined = false) {
  return ctc_loss(time_major ? transpose(logs, 0, 1) : logs, joined ? batch.joined() : batch.padded(),
                  batch.input_lengths(), batch.target_lengths(),
                  {.blank = batch.blank, .reduction = none, .time_major = time_major});
}

/// d sum(weights * f(x)) / dx.
template <class F>
Tensor weighed_gradient(F f, const Tensor& x) {
  GradientTape tape;
  tape.watch(x);
  const Tensor y = f(x);
  return tape.gradient(y, x, {.output_gradient = from_vector(weights).to(y.dtype())});
}
/// The same, made of operations because an outer tape listens.
template <class F>
Tensor composed_gradient(F f, const Tensor& x) {
  GradientTape outer;
  outer.watch(x);
  return weighed_gradient(f, x);
}
/// The gradient of the sum of the squares of the gradient.
template <class F>
Tensor second_gradient(F f, const Tensor& x) {
  GradientTape outer;
  outer.watch(x);
  return outer.gradient(sum(square(weighed_gradient(f, x))), x);
}

}  // namespace

TEST_CASE("the loss adds up all paths, and its gradient has their shares", "[ctc]") {
  for (const DType dtype : {DType::float64, DType::float32})
    for (const std::int64_t blank : {0, 2}) {
      const Batch batch = batch_of(blank, dtype);
      const double allowed = dtype == DType::float64 ? tolerance::roundings64 : tolerance::roundings32;
      for (const bool time_major : {false, true})
        for (const bool joined : {false, true}) {
          const auto f = [&](const Tensor& logs) { return losses_of(batch, logs, time_major, joined); };
          CHECK(f(batch.logs).dtype() == dtype);
          CHECK(close(f(batch.logs), batch.losses(), allowed));
          CHECK(close(weighed_gradient(f, batch.logs), batch.gradient(weights), allowed));
        }
      const auto of_view = [&](const Tensor& logs) { return losses_of(batch, strided(logs)); };
      CHECK(same(of_view(batch.logs), losses_of(batch, batch.logs)));
      const Tensor view = strided(batch.logs);
      const auto f = [&](const Tensor& logs) { return losses_of(batch, logs); };
      CHECK(close(weighed_gradient(f, view), batch.gradient(weights), allowed));
    }
}

TEST_CASE("lengths and targets may stay on the host", "[ctc]") {
  const Tensor logs = log_softmax(random_in(-1, 1, {2, 6, 4}), -1), targets = {{1, 2, 2}, {3, 0, 0}};
  const Tensor steps = {6, 4}, labels = {3, 1};
  const Tensor expected = ctc_loss(logs, targets, steps, labels);
  CHECK(same(ctc_loss(logs, targets.to(cpu()), steps.to(cpu()), labels.to(cpu())), expected));
}

TEST_CASE("the gradient made of operations is that of the kernel", "[ctc]") {
  const Batch batch = batch_of(0);
  for (const bool time_major : {false, true}) {
    const auto f = [&](const Tensor& logs) { return losses_of(batch, logs, time_major); };
    CHECK(close(composed_gradient(f, batch.logs), batch.gradient(weights), tolerance::roundings64));
  }
  // no path at all, for want of steps or of probability, beside rows that have some; and a row without steps
  Tensor logs = batch.logs.copy();
  logs.index_put({0, all, 3}, -kInfinity);
  logs.index_put({4, range(0, 2), 0}, -kInfinity);
  const Tensor steps = {6, 2, 0, 5, 6};
  for (const CtcInfeasible rule : {CtcInfeasible::infinite, CtcInfeasible::zero}) {
    const auto f = [&](const Tensor& x) {
      return ctc_loss(x, batch.padded(), steps, batch.target_lengths(), {.reduction = none, .infeasible = rule});
    };
    const double lost = rule == CtcInfeasible::zero ? 0 : kInfinity;
    const Tensor losses = f(logs);
    CHECK(losses.at<double>(0) == lost);
    CHECK(losses.at<double>(1) == lost);
    CHECK(losses.at<double>(2) == 0);
    CHECK(std::isfinite(losses.at<double>(4)));
    const Tensor g = weighed_gradient(f, logs);
    CHECK(same(narrow(g, 0, 0, 3), zeros({3, 6, 4}, {.dtype = DType::float64})));
    CHECK(all_of(isfinite(g)).item<bool>());
    CHECK(close(composed_gradient(f, logs), g, tolerance::roundings64));
    CHECK(all_of(isfinite(second_gradient(f, logs))).item<bool>());
  }
}

TEST_CASE("the loss of two lines of Graves' own program comes out", "[ctc]") {
  // TensorFlow's ctc_loss_op_test.py, "Input and ground truth from Alex Graves' implementation"; blank is class 5
  const Tensor p = {{{0.633766, 0.221185, 0.0917319, 0.0129757, 0.0142857, 0.0260553},
                     {0.111121, 0.588392, 0.278779, 0.0055756, 0.00569609, 0.010436},
                     {0.0357786, 0.633813, 0.321418, 0.00249248, 0.00272882, 0.0037688},
                     {0.0663296, 0.643849, 0.280111, 0.00283995, 0.0035545, 0.00331533},
                     {0.458235, 0.396634, 0.123377, 0.00648837, 0.00903441, 0.00623107}},
                    {{0.30176, 0.28562, 0.0831517, 0.0862751, 0.0816851, 0.161508},
                     {0.24082, 0.397533, 0.0557226, 0.0546814, 0.0557528, 0.19549},
                     {0.230246, 0.450868, 0.0389607, 0.038309, 0.0391602, 0.202456},
                     {0.280884, 0.429522, 0.0326593, 0.0339046, 0.0326856, 0.190345},
                     {0.423286, 0.315517, 0.0338439, 0.0393744, 0.0339315, 0.154046}}};
  const Tensor targets = {{0, 1, 2, 1, 0}, {0, 1, 1, 0, 0}}, lengths = {5, 4};
  const Tensor logits = log(p) + 3;
  const CtcOptions options = {.blank = 5, .reduction = Reduction::sum, .from_logits = true};
  GradientTape tape;
  tape.watch(logits);
  const Tensor total = ctc_loss(logits, targets, {}, lengths, options);
  CHECK(close(total, Tensor(3.34211 + 5.42262), tolerance::published));
  // each has one path
  const Tensor paths = {{0, 1, 2, 1, 0}, {0, 1, 5, 1, 0}};
  CHECK(close(tape.gradient(total, logits), p - one_hot(paths, 6, 1, 0, DType::float64), tolerance::published));
}

TEST_CASE("the mean is one of losses for each label", "[ctc]") {
  const Batch batch = batch_of(0);
  const Numbers each = values(batch.losses());
  const auto reduced = [&](Reduction reduction) {
    return ctc_loss(batch.logs, batch.joined(), batch.input_lengths(), batch.target_lengths(),
                    {.reduction = reduction});
  };
  const double mean_of = (each[0] / 2 + each[1] / 2 + each[2] + each[3] / 3 + each[4] / 3) / 5;  // [2] has no label
  CHECK(close(reduced(Reduction::mean), Tensor(mean_of), tolerance::roundings64));
  CHECK(
      close(reduced(Reduction::sum), Tensor(each[0] + each[1] + each[2] + each[3] + each[4]), tolerance::roundings64));
  const Tensor nobody = zeros({0, 3, 2}), no_labels = zeros({0, 1}, {.dtype = DType::int64});
  CHECK(number(ctc_loss(nobody, no_labels, {}, {}, {.reduction = Reduction::sum})) == 0);
  CHECK(std::isnan(number(ctc_loss(nobody, no_labels))));
  CHECK(ctc_loss(nobody, no_labels, {}, {}, {.reduction = none}).shape() == Shape{0});
}

TEST_CASE("sequences without steps or labels have their losses too", "[ctc]") {
  const Tensor logs = log_softmax(random_in(-1, 1, {3, 4, 3}, DType::float64, 502));
  const Tensor nothing = zeros({3, 0}, {.dtype = DType::int64});
  const Numbers list = values(logs);
  const Tensor losses = ctc_loss(logs, nothing, Tensor{0, 1, 4}, {}, {.blank = 1, .reduction = none});
  const Tensor expected = {0.0, -list[12 + 1], -(list[24 + 1] + list[27 + 1] + list[30 + 1] + list[33 + 1])};
  CHECK(close(losses, expected, tolerance::roundings64));  // blanks alone
  CHECK_FALSE(std::signbit(losses.at<double>(0)));
  CHECK(same(ctc_loss(zeros({2, 0, 3}), zeros({2, 1}, {.dtype = DType::int64}), {}, Tensor{0, 0}, {.reduction = none}),
             {0.0f, 0.0f}));
  const Tensor none_left = zeros({2, 0, 3});
  GradientTape tape;
  tape.watch(none_left);
  const Tensor y = ctc_loss(none_left, zeros({2, 0}, {.dtype = DType::int32}));
  CHECK(tape.gradient(y, none_left).shape() == Shape{2, 0, 3});
}

TEST_CASE("what stands behind the end of an input or of its labels reaches nothing", "[ctc]") {
  const Batch batch = batch_of(0);
  const Tensor inside = expand_dims(sequence_mask(batch.input_lengths(), 6), -1);
  const Tensor poisoned = where(inside, batch.logs, kNaN);
  const Tensor garbage = batch.padded(-77);
  for (const bool from_logits : {false, true})
    for (const bool time_major : {false, true}) {
      const CtcOptions options = {.reduction = none, .from_logits = from_logits, .time_major = time_major};
      const auto f = [&](const Tensor& x, const Tensor& targets) {
        return ctc_loss(time_major ? transpose(x, 0, 1) : x, targets, batch.input_lengths(), batch.target_lengths(),
                        options);
      };
      const auto clean = [&](const Tensor& x) { return f(x, batch.padded()); };
      const auto dirty = [&](const Tensor& x) { return f(x, garbage); };
      CHECK(same(dirty(poisoned), clean(batch.logs)));
      const Tensor g = weighed_gradient(dirty, poisoned);
      CHECK(same(g, weighed_gradient(clean, batch.logs)));
      CHECK(same(where(inside, 0, g), zeros_like(g)));
      CHECK(all_of(isfinite(g)).item<bool>());
      const Tensor g2 = second_gradient(dirty, poisoned);
      const Tensor expected = second_gradient(clean, batch.logs);
      if (default_device() == cpu()) CHECK(same(g2, expected));
      else CHECK(close(g2, expected, tolerance::roundings64));  // a GPU's sums have no fixed order
      CHECK(all_of(isfinite(g2)).item<bool>());
    }
}

TEST_CASE("a NaN among the steps reaches the loss and the gradients of its own sequence alone", "[ctc]") {
  const Batch batch = batch_of(0);
  Tensor logs = batch.logs.copy();
  logs.index_put({1, 2, 0}, kNaN);  // a blank, in the middle of five steps
  const auto f = [&](const Tensor& x) { return losses_of(batch, x); };
  const Tensor losses = f(logs), expected = batch.losses();
  CHECK(std::isnan(losses.at<double>(1)));
  CHECK(close(losses[0], expected[0], tolerance::roundings64));
  CHECK(close(narrow(losses, 0, 2, 3), narrow(expected, 0, 2, 3), tolerance::roundings64));
  const Tensor clean = batch.gradient(weights);
  for (const Tensor& g : {weighed_gradient(f, logs), composed_gradient(f, logs)}) {
    CHECK(any_of(isnan(g[1])).item<bool>());
    CHECK(close(g[0], clean[0], tolerance::roundings64));
    CHECK(close(narrow(g, 0, 2, 3), narrow(clean, 0, 2, 3), tolerance::roundings64));
  }
}

TEST_CASE("from_logits is the loss behind log_softmax", "[ctc]") {
  const Batch batch = batch_of(2);
  for (const bool time_major : {false, true}) {
    const CtcOptions plain = {.blank = 2, .reduction = none, .time_major = time_major};
    CtcOptions whole = plain;
    whole.from_logits = true;
    const auto with = [&](const Tensor& x, const CtcOptions& options) {
      return ctc_loss(time_major ? transpose(x, 0, 1) : x, batch.joined(), batch.input_lengths(),
                      batch.target_lengths(), options);
    };
    const auto f = [&](const Tensor& x) { return with(x, whole); };
    const auto g = [&](const Tensor& x) { return with(log_softmax(x), plain); };
    CHECK(close(f(batch.logs), g(batch.logs), tolerance::roundings64));
    CHECK(close(weighed_gradient(f, batch.logs), weighed_gradient(g, batch.logs), tolerance::roundings64));
  }
}

TEST_CASE("labels without a path are an error, infinite or nothing, as is asked for", "[ctc]") {
  const Tensor logs = log_softmax(random_in(-1, 1, {3, 3, 3}, DType::float64, 503));
  const Tensor targets = {{1, 1, 2}, {2, 2, 0}, {1, 2, 1}}, lengths = {3, 2, 3};  // take 4, 3 and 3 steps
  const auto losses = [&](CtcInfeasible rule) {
    return ctc_loss(logs, targets, {}, lengths, {.reduction = none, .infeasible = rule});
  };
  CHECK_THROWS_AS(losses(CtcInfeasible::error), ShapeError);
  const Numbers list = values(logs);
  const double second = -(list[9 + 2] + list[12 + 0] + list[15 + 2]);
  const double third = -(list[18 + 1] + list[21 + 2] + list[24 + 1]);
  CHECK(close(losses(CtcInfeasible::infinite), {kInfinity, second, third}, tolerance::roundings64));
  CHECK(close(losses(CtcInfeasible::zero), {0.0, second, third}, tolerance::roundings64));
  CHECK(number(ctc_loss(logs, targets, {}, lengths, {.infeasible = CtcInfeasible::infinite})) == kInfinity);
  // probabilities of 0: infinite unless it shall be zero, whatever the labels take
  const Tensor never = full({1, 2, 2}, -kInfinity), label = from_vector(Labels{1}, {1, 1});
  CHECK(number(ctc_loss(never, label)) == kInfinity);
  CHECK(number(ctc_loss(never, label, {}, {}, {.infeasible = CtcInfeasible::zero})) == 0);
}

TEST_CASE("two thousand steps lose no digits", "[ctc]") {
  // all paths are as likely, and labels with r equal neighbours have binomial(T + S - r, 2 S) of them
  constexpr std::int64_t steps = 2000, count = 300, classes = 50, equal_ones = 100;
  Labels labels;
  for (std::int64_t i = 0; i < count; ++i) labels.push_back(i % 3 == 2 ? 9 : 7);  // 7 7 9 7 7 9 ...
  const auto log_factorial = [](std::int64_t n) { return std::lgamma(static_cast<double>(n + 1)); };
  const double paths =
      log_factorial(steps + count - equal_ones) - log_factorial(2 * count) - log_factorial(steps - count - equal_ones);
  const double expected = static_cast<double>(steps) * std::log(static_cast<double>(classes)) - paths;
  const Tensor targets = from_vector(labels, {1, count});
  for (const DType dtype : {DType::float64, DType::float32}) {
    const Tensor logs = full({1, steps, classes}, -std::log(static_cast<double>(classes)), {.dtype = dtype});
    GradientTape tape;
    tape.watch(logs);
    const Tensor loss = ctc_loss(logs, targets, {}, {}, {.reduction = Reduction::sum});
    const bool wide = dtype == DType::float64;
    CHECK(close(loss, Tensor(expected), wide ? tolerance::chained64 : tolerance::roundings32));
    // shares are exponentials of differences of such losses
    const Tensor whole = sum(tape.gradient(loss, logs), -1);
    CHECK(close(whole, full({1, steps}, -1), wide ? 8e3 * tolerance::chained64 : tolerance::roundings32));
  }
  // steep ones, whose probabilities no double holds
  const Tensor steep = random_in(-2000, 0, {1, 400, 5}, DType::float64, 504), few = {{1, 2, 2, 3}};
  GradientTape tape;
  tape.watch(steep);
  const Tensor loss = ctc_loss(steep, few);
  CHECK(std::isfinite(number(loss)));
  CHECK(all_of(isfinite(tape.gradient(loss, steep))).item<bool>());
}

TEST_CASE("losses and decoded labels do not depend on the number of threads", "[ctc]") {
  const Tensor logs = log_softmax(random_in(-2, 2, {37, 30, 9}, DType::float32, 505));
  const Tensor targets = cast(random_in(1, 9, {37, 7}, DType::float64, 506), DType::int64);
  std::vector<Numbers> results;
  for (const int count : {1, 3}) {
    const ThreadCount budget(count);
    GradientTape tape;
    tape.watch(logs);
    const Tensor loss = ctc_loss(logs, targets);
    const CtcBeamResult found = ctc_beam_search_decode(logs, {}, {.beams = 5, .top_paths = 2});
    const CtcGreedyResult path = ctc_greedy_decode(logs);
    for (const Tensor& t : {loss, tape.gradient(loss, logs), found.tokens, found.log_probabilities, path.tokens})
      results.push_back(values(t));
  }
  for (std::size_t i = 0; i < 5; ++i) CHECK(same_bits(results[i], results[i + 5]));
}

TEST_CASE("16-bit log-probabilities are computed with in float32", "[ctc]") {
  const Batch batch = batch_of(0);
  const auto f = [&](const Tensor& logs) { return losses_of(batch, logs); };
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const Tensor narrow_logs = batch.logs.to(dtype), wide = narrow_logs.to(DType::float32);
    CHECK(same(f(narrow_logs), f(wide).to(dtype)));
    CHECK(same(weighed_gradient(f, narrow_logs), weighed_gradient(f, wide).to(dtype)));
    const CtcBeamResult found = ctc_beam_search_decode(narrow_logs);
    CHECK(same(found.tokens, ctc_beam_search_decode(wide).tokens));
    CHECK(found.log_probabilities.dtype() == dtype);
    CHECK(ctc_greedy_decode(narrow_logs).scores.dtype() == dtype);
  }
}
