// Losses: published values and values by hand, reductions and weights, extremes, kinks, types and layouts.
#include <cmath>

#include "tests/gradient_check.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

constexpr Reduction none = Reduction::none, total = Reduction::sum, average = Reduction::mean;
const double log_2 = std::log(2.0), log_2_pi = std::log(2 * std::acos(-1.0));

/// d sum(f(x)) / dx.
template <class F>
Tensor slope(F f, const Tensor& x) {
  GradientTape tape;
  tape.watch(x);
  return tape.gradient(f(x), x);
}

// rows of logits whose softmax is known: the logarithms of probabilities
const std::vector<double> likely = {0.2, 0.3, 0.5, 0.1, 0.6, 0.3};
Tensor known_logits() { return log(from_vector(likely, {2, 3})); }
double loss_of(int row, int label) { return -std::log(likely[static_cast<std::size_t>(3 * row + label)]); }
/// The sum over the classes of weight times loss.
double all_losses(int row, const std::vector<double>& weight) {
  double sum_of_row = 0;
  for (int label = 0; label < 3; ++label) sum_of_row += weight[static_cast<std::size_t>(label)] * loss_of(row, label);
  return sum_of_row;
}

bool are_near(const Tensor& actual, const std::vector<double>& expected) {
  return close(actual, from_vector(expected, {static_cast<std::int64_t>(expected.size())}), tolerance::roundings64);
}
bool is_near(const Tensor& actual, double expected, double allowed = tolerance::roundings64) {
  return close(actual, Tensor(expected), allowed);
}

}  // namespace

// --- distances between numbers ---------------------------------------------------------------------------------

TEST_CASE("squared, absolute, smooth and Huber's losses have their values by hand", "[losses]") {
  const Tensor x = {0.0, 1.0, -3.0}, t = {0.5, -1.0, 0.0};  // distances 0.5, 2 and 3
  CHECK(same(mse_loss(x, t, {.reduction = none}), {0.25, 4.0, 9.0}));
  CHECK(number(mse_loss(x, t)) == 13.25 / 3);
  CHECK(number(mse_loss(x, t, {.reduction = total})) == 13.25);
  CHECK(number(mse_loss(Tensor{1.0, 2.0}, Tensor{0.0, 4.0})) == 2.5);  // (1 + 4) / 2
  CHECK(same(l1_loss(x, t, {.reduction = none}), {0.5, 2.0, 3.0}));
  CHECK(same(smooth_l1_loss(x, t, {.reduction = none}), {0.125, 1.5, 2.5}));              // d^2/2, d - 1/2
  CHECK(same(smooth_l1_loss(x, t, {.beta = 2, .reduction = none}), {0.0625, 1.0, 2.0}));  // d^2/4, d - 1
  CHECK(same(smooth_l1_loss(x, t, {.beta = 0, .reduction = none}), {0.5, 2.0, 3.0}));     // l1
  CHECK(same(huber_loss(x, t, {.reduction = none}), {0.125, 1.5, 2.5}));
  CHECK(same(huber_loss(x, t, {.delta = 2, .reduction = none}), {0.125, 2.0, 4.0}));  // d^2/2, 2 (d - 1)
}

TEST_CASE("the logarithm of cosh keeps its digits near 0 and does not overflow", "[losses]") {
  const Tensor t = {1.0, 1.0, 1.0, 1.0};
  const Tensor x = {1.0, 1.0 + 0x1p-13, 3.0, -999.0};
  const double d = 0x1p-13;
  // d^2/2 - d^4/12; then of 2; then |d| - log(2)
  CHECK(are_near(log_cosh_loss(x, t, {.reduction = none}),
                 {0, d * d / 2 * (1 - d * d / 6), std::log(std::cosh(2.0)), 1000 - log_2}));
  const Tensor small = {1.0 + 0x1p-13};
  CHECK(is_near(log_cosh_loss(small, Tensor{1.0}), d * d / 2 * (1 - d * d / 6)));  // alone: every digit counts
}

TEST_CASE("weights multiply losses, and the mean divides by their number", "[losses]") {
  const Tensor x = {{1.0, 2.0}, {3.0, 4.0}}, t = zeros_like(x);  // squares 1 4 9 16
  CHECK(same(mse_loss(x, t, {.weight = Tensor{2.0, 0.0}, .reduction = none}), {{2.0, 0.0}, {18.0, 0.0}}));
  CHECK(number(mse_loss(x, t, {.weight = Tensor{2.0, 0.0}})) == 5);                             // 20 / 4
  CHECK(number(mse_loss(x, t, {.weight = Tensor{{1.0f}, {2.0f}}, .reduction = total})) == 55);  // 5 + 2 * 25
  CHECK(number(l1_loss(x, t, {.weight = Tensor(0.5)})) == 1.25);
}

// --- probabilities and rates -----------------------------------------------------------------------------------

TEST_CASE("binary cross entropy ends its logarithms at -100", "[losses]") {
  const Tensor x = {0.25, 0.0, 1.0, 0.0, 1.0, 0.5}, t = {1.0, 1.0, 0.0, 0.0, 1.0, 0.5};
  CHECK(are_near(binary_cross_entropy(x, t, {.reduction = none}), {2 * log_2, 100, 100, 0, 0, log_2}));
  const auto loss = [&](const Tensor& p) { return binary_cross_entropy(p, t, {.reduction = none}); };
  // (x - t) / max(x (1 - x), 1e-12)
  CHECK(are_near(slope(loss, x), {-4, -1e12, 1e12, 0, 0, 0}));
  const auto of_target = [&](const Tensor& labels) { return binary_cross_entropy(x, labels, {.reduction = none}); };
  CHECK(are_near(slope(of_target, t), {std::log(3.0), 100, -100, 100, -100, 0}));  // log(1 - x) - log(x)
  CHECK(is_near(binary_cross_entropy(x, t, {.weight = t}), (2 * log_2 + 100 + log_2 / 2) / 6));
}

TEST_CASE("sigmoid cross entropy is exact for any logits", "[losses]") {
  for (const DType type : {DType::float64, DType::float32}) {
    const Tensor x = from_doubles({1000, -1000, 1000, -1000}, {4}, type), t = from_doubles({1, 0, 0, 1}, {4}, type);
    CHECK(same(sigmoid_cross_entropy(x, t), from_doubles({0, 0, 1000, 1000}, {4}, type)));
    const auto loss = [&](const Tensor& logits) { return sigmoid_cross_entropy(logits, t); };
    CHECK(same(slope(loss, x), from_doubles({0, 0, 1, -1}, {4}, type)));  // sigmoid(x) - t
  }
  CHECK(is_near(sigmoid_cross_entropy(Tensor(0.0), Tensor(1.0)), log_2));
  CHECK(sigmoid_cross_entropy(Tensor{40.0}, Tensor{1.0}).at<double>(0) == std::log1p(std::exp(-40.0)));  // no 1 - 1
  const double s = 1 / (1 + std::exp(-0.5));
  const Tensor x = {0.5}, t = {0.25};
  CHECK(are_near(sigmoid_cross_entropy(x, t), {-0.25 * std::log(s) - 0.75 * std::log(1 - s)}));
  CHECK(are_near(sigmoid_cross_entropy(x, t, {.pos_weight = Tensor{3.0}}),
                 {-3 * 0.25 * std::log(s) - 0.75 * std::log(1 - s)}));
  const Tensor one = {1.0f}, logit = {1.0f}, small = {1e-6f};  // no 1 - (1 - 1e-6)
  CHECK(is_near(sum(sigmoid_cross_entropy(logit, one, {.pos_weight = small})).to(DType::float64) * 1e6,
                std::log1p(std::exp(-1.0)), tolerance::roundings32));
  CHECK(same(sigmoid_cross_entropy(logit, one, {.pos_weight = Tensor{0.0f}}), {0.0f}));
  CHECK(is_near(sigmoid_cross_entropy(x, t, {.weight = Tensor{2.0}, .reduction = average}),
                -0.5 * std::log(s) - 1.5 * std::log(1 - s)));
}

TEST_CASE("the divergence of Kullback and Leibler is 0 where the target is", "[losses]") {
  const Tensor input = log(Tensor{{0.25, 0.75}, {0.0, 1.0}}), target = {{0.5, 0.5}, {0.0, 1.0}};
  const double first = 0.5 * log_2, second = 0.5 * std::log(0.5 / 0.75);
  CHECK(close(kl_div(input, target, {.reduction = none}), {{first, second}, {0.0, 0.0}}, tolerance::roundings64));
  CHECK(is_near(kl_div(input, target), (first + second) / 4));
  CHECK(is_near(kl_div(input, target, {.batch_mean = true}), (first + second) / 2));  // rows
  CHECK(is_near(kl_div(input, target, {.reduction = total}), first + second));
  const Tensor logs = log(target);
  CHECK(is_near(kl_div(input, logs, {.log_target = true, .batch_mean = true}), (first + second) / 2));
  for (const bool log_target : {false, true}) {
    const Tensor& given = log_target ? logs : target;
    const auto loss = [&](const Tensor& p) { return kl_div(p, given, {.log_target = log_target}); };
    CHECK(close(slope(loss, input), target * -0.25, tolerance::roundings64));  // -target / count
  }
}

TEST_CASE("where a target is 0, the divergence has finite gradients of any order", "[losses][gradient]") {
  for (const bool log_target : {false, true}) {
    const Tensor input = {-kInfinity, -1.0}, target = log_target ? Tensor{-kInfinity, -0.5} : Tensor{0.0, 0.5};
    GradientTape outer;
    outer.watch({input, target});
    GradientTape inner;
    inner.watch({input, target});
    const Tensor loss = kl_div(input, target, {.log_target = log_target, .reduction = total});
    const Tensor of_target = inner.gradient(loss, target);
    const auto [by_input, by_target] = outer.gradient(of_target, input, target);
    const double share = std::exp(-0.5);
    // of t (log(t) - x): -1 and 1/t; of exp(t) (t - x): -exp(t) and exp(t) (t - x + 2)
    CHECK(are_near(by_input, {0, log_target ? -share : -1}));
    CHECK(are_near(by_target, {0, log_target ? 2.5 * share : 2}));
  }
}

TEST_CASE("likelihoods of counts and of normal numbers are those of their formulas", "[losses]") {
  const Tensor counts = {2.0, 1.0}, rates = {3.0, 3.0}, logs = log(rates);
  const double log_3 = std::log(3.0), stirling = 2 * log_2 - 2 + 0.5 * std::log(4 * std::acos(-1.0));
  CHECK(are_near(poisson_nll_loss(logs, counts, {.reduction = none}), {3 - 2 * log_3, 3 - log_3}));
  CHECK(are_near(poisson_nll_loss(logs, counts, {.full = true, .reduction = none}),
                 {3 - 2 * log_3 + stirling, 3 - log_3}));  // nothing for a count of 1
  CHECK(are_near(poisson_nll_loss(rates, counts, {.log_input = false, .epsilon = 1, .reduction = none}),
                 {3 - 2 * std::log(4.0), 3 - std::log(4.0)}));

  const Tensor x = {{1.0, 5.0}}, t = {{3.0, 5.0}}, variance = {{4.0, 1.0}};
  CHECK(close(gaussian_nll_loss(x, t, variance, {.reduction = none}), {{log_2 + 0.5, 0.0}}, tolerance::roundings64));
  CHECK(is_near(gaussian_nll_loss(x, t, variance, {.full = true}), (log_2 + 0.5 + log_2_pi) / 2));
  for (const Tensor& shared : {Tensor{{4.0}}, Tensor{4.0}})  // one for the row
    CHECK(close(gaussian_nll_loss(x, t, shared, {.reduction = none}), {{log_2 + 0.5, log_2}}, tolerance::roundings64));
  const auto loss = [&](const Tensor& v) { return gaussian_nll_loss(x, x, v, {.epsilon = 0.25, .reduction = none}); };
  const Tensor tiny = {{0.0, 0.5}};
  CHECK(close(loss(tiny), {{0.5 * std::log(0.25), 0.5 * std::log(0.5)}}, tolerance::roundings64));
  CHECK(close(slope(loss, tiny), {{2.0, 1.0}}, tolerance::roundings64));  // 1 / (2 v), also below epsilon
}

// --- classes ---------------------------------------------------------------------------------------------------

TEST_CASE("the cross entropies have their published values", "[losses]") {
  const Tensor logits = {{2.0, 0.5, 1.0}, {0.1, 1.0, 3.0}}, labels = {{0.2, 0.3, 0.5}, {0.1, 0.6, 0.3}};
  CHECK(close(softmax_cross_entropy(logits, labels), {1.41436887, 1.66425455}, tolerance::published));
  CHECK(close(softmax_cross_entropy(softmax(logits), labels), {1.17185783, 1.17571414}, tolerance::published));
  CHECK(close(sparse_softmax_cross_entropy(logits, Tensor{0, 2}), {0.46436879, 0.17425454}, tolerance::published));
  const Tensor rows = broadcast_to(Tensor{1.0, 2.0, 3.0}, {3, 3});
  CHECK(close(sum(sparse_softmax_cross_entropy(rows, Tensor{2, 2, 2})), Tensor(1.22282), tolerance::published));
  CHECK(close(cross_entropy(logits, labels, {.reduction = none}), {1.41436887, 1.66425455}, tolerance::published));
  CHECK(
      close(cross_entropy(logits, Tensor{0, 2}, {.reduction = none}), {0.46436879, 0.17425454}, tolerance::published));
}

TEST_CASE("rows are reduced and weighted as asked", "[losses]") {
  const Tensor logits = known_logits(), labels = {2, 1};
  const double first = loss_of(0, 2), second = loss_of(1, 1);
  CHECK(are_near(sparse_softmax_cross_entropy(logits, labels), {first, second}));
  CHECK(is_near(sparse_softmax_cross_entropy(logits, labels, {.reduction = average}), (first + second) / 2));
  const RowLossOptions weighted = {.weight = Tensor{3.0, 1.0}, .reduction = average};
  CHECK(is_near(sparse_softmax_cross_entropy(logits, labels, weighted), (3 * first + second) / 2));
  CHECK(is_near(softmax_cross_entropy(logits, one_hot(labels, 3), weighted), (3 * first + second) / 2));
}

TEST_CASE("the mean of weighted classes divides by the weights, and ignored labels drop out", "[losses]") {
  const Tensor logits = known_logits(), logs = log_softmax(logits), weight = {1.0, 2.0, 4.0};
  const double first = loss_of(0, 2), second = loss_of(1, 1);
  struct Row {
    Tensor labels, weight;
    std::int64_t ignored;
    std::vector<double> each;
    double mean;
  };
  const Row rows[] = {
      {{2, 1}, {}, -100, {first, second}, (first + second) / 2},
      {{2, 1}, weight, -100, {4 * first, 2 * second}, (4 * first + 2 * second) / 6},
      {{2, 1}, {}, 1, {first, 0}, first},
      {{2, 1}, weight, 1, {4 * first, 0}, first},
      {{2, -100}, {}, -100, {first, 0}, first},
      {{7, 1}, weight, 7, {0, 2 * second}, second},  // no class, but ignored
      {{0, 0}, weight, 0, {0, 0}, kNaN},             // nothing is left
  };
  for (const Row& row : rows)
    for (const DType type : {DType::int32, DType::int64}) {
      const Tensor labels = row.labels.to(type);
      const double sum_of_rows = row.each[0] + row.each[1];
      INFO("labels " << to_string(labels) << ", ignored " << row.ignored);
      CHECK(is_near(nll_loss(logs, labels, {.class_weight = row.weight, .ignored_label = row.ignored}), row.mean));
      CHECK(
          is_near(cross_entropy(logits, labels, {.class_weight = row.weight, .ignored_label = row.ignored}), row.mean));
      CHECK(are_near(
          cross_entropy(logits, labels, {.class_weight = row.weight, .ignored_label = row.ignored, .reduction = none}),
          row.each));
      CHECK(is_near(
          cross_entropy(logits, labels, {.class_weight = row.weight, .ignored_label = row.ignored, .reduction = total}),
          sum_of_rows));
      CHECK(is_near(
          nll_loss(logs, labels, {.class_weight = row.weight, .ignored_label = row.ignored, .reduction = total}),
          sum_of_rows));
    }
}

TEST_CASE("an ignored row has no gradient, and a row that counts that of the softmax", "[losses]") {
  const Tensor logits = known_logits();
  const auto loss = [](const Tensor& x) { return cross_entropy(x, Tensor{-100, 1}); };
  CHECK(close(slope(loss, logits), {{0.0, 0.0, 0.0}, {0.1, -0.4, 0.3}}, tolerance::roundings64));  // p - one_hot
}

TEST_CASE("what an ignored row holds reaches nothing", "[losses][gradient]") {
  const Tensor weight = {1.0, 2.0, 4.0}, labels = {-100, 1, 2};
  const Tensor clean = {{0.0, 1.0, 2.0}, {0.5, -1.0, 2.0}, {1.0, 0.5, -2.0}};
  const Tensor dirty = {{kNaN, kInfinity, 2.0}, {0.5, -1.0, 2.0}, {1.0, 0.5, -2.0}};
  const auto run = [&](const Tensor& x, double smoothing, bool of_logs) {
    const auto loss = [&] {
      return of_logs ? nll_loss(x, labels, {.class_weight = weight})
                     : cross_entropy(x, labels, {.class_weight = weight, .label_smoothing = smoothing});
    };
    GradientTape alone;
    alone.watch({x, weight});
    const Tensor value = loss();
    const auto [fused_x, fused_weight] = alone.gradient(value, x, weight);
    GradientTape outer;
    outer.watch({x, weight});
    GradientTape inner;
    inner.watch({x, weight});
    const auto [dx, dweight] = inner.gradient(loss(), x, weight);
    const auto [again_x, again_weight] = outer.gradient(sum(square(dx)) + sum(square(dweight)), x, weight);
    return std::vector<Tensor>{value, fused_x, fused_weight, dx, dweight, again_x, again_weight};
  };
  for (const double smoothing : {0.0, 0.3})
    for (const bool of_logs : {false, true}) {
      const std::vector<Tensor> actual = run(dirty, smoothing, of_logs), expected = run(clean, smoothing, of_logs);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        INFO("result " << i << ", smoothing " << smoothing << (of_logs ? ", of logarithms" : ""));
        CHECK(close(actual[i], expected[i], tolerance::roundings64));
      }
    }
}

TEST_CASE("smoothing gives every class its share", "[losses]") {
  const Tensor logits = known_logits(), labels = {2, 1}, weight = {1.0, 2.0, 4.0};
  const std::vector<double> even = {1, 1, 1}, weights = {1, 2, 4};
  const double s = 0.3, first = loss_of(0, 2), second = loss_of(1, 1);
  const std::vector<double> plain = {(1 - s) * first + s / 3 * all_losses(0, even),
                                     (1 - s) * second + s / 3 * all_losses(1, even)};
  const std::vector<double> weighted = {(1 - s) * 4 * first + s / 3 * all_losses(0, weights),
                                        (1 - s) * 2 * second + s / 3 * all_losses(1, weights)};
  CHECK(are_near(cross_entropy(logits, labels, {.label_smoothing = s, .reduction = none}), plain));
  CHECK(is_near(cross_entropy(logits, labels, {.label_smoothing = s}), (plain[0] + plain[1]) / 2));
  CHECK(is_near(cross_entropy(logits, labels, {.class_weight = weight, .label_smoothing = s}),
                (weighted[0] + weighted[1]) / 6));
  CHECK(is_near(cross_entropy(logits, labels, {.class_weight = weight, .ignored_label = 1, .label_smoothing = s}),
                weighted[0] / 4));
  const Tensor certain = one_hot(labels, 3, 1, 0, DType::float64);  // the same as probabilities
  CHECK(are_near(cross_entropy(logits, certain, {.label_smoothing = s, .reduction = none}), plain));
  // of probabilities the weights do not count in the mean, and the smoothed ones are weighted
  CHECK(is_near(cross_entropy(logits, certain, {.class_weight = weight, .label_smoothing = s}),
                (weighted[0] + weighted[1]) / 2));
}

TEST_CASE("classes may stand on any axis", "[losses]") {
  const Tensor x = random_in(-2, 2, {2, 5, 3, 4}, DType::float64, 3), labels = randint(0, 5, Shape{2, 3, 4});
  const Tensor last = permute(x, {0, 2, 3, 1}).copy(), share = softmax(x, 1), last_share = softmax(last);
  for (const Reduction reduction : {none, average, total}) {
    const Tensor expected = cross_entropy(last, labels, {.reduction = reduction});
    for (const int axis : {1, -3})
      CHECK(close(cross_entropy(x, labels, {.axis = axis, .reduction = reduction}), expected, tolerance::roundings64));
    CHECK(close(nll_loss(log_softmax(x, 1), labels, {.axis = 1, .reduction = reduction}), expected,
                tolerance::roundings64));
    CHECK(close(cross_entropy(x, share, {.axis = 1, .reduction = reduction}),
                cross_entropy(last, last_share, {.reduction = reduction}), tolerance::roundings64));
  }
  CHECK(is_near(cross_entropy(known_logits()[0], Tensor(2)), loss_of(0, 2)));  // one row without a batch
}

TEST_CASE("cross entropies of enormous logits are finite, and so are their gradients", "[losses]") {
  const Tensor logits = {{1000.0, -1000.0, 0.0}}, label = {1};
  CHECK(same(cross_entropy(logits, label), Tensor(2000.0)));
  CHECK(same(softmax_cross_entropy(logits, Tensor{{0.0, 1.0, 0.0}}), {2000.0}));
  CHECK(is_near(cross_entropy(logits, label, {.label_smoothing = 0.3}), 0.7 * 2000 + 0.1 * (2000 + 1000)));
  for (const double smoothing : {0.0, 0.3}) {
    const auto loss = [&](const Tensor& x) { return cross_entropy(x, label, {.label_smoothing = smoothing}); };
    const double each = smoothing / 3;
    CHECK(close(slope(loss, logits), {{1 - each, smoothing - 1 - each, -each}}, tolerance::roundings64));
  }
}

TEST_CASE("beside large logits a cross entropy keeps its digits, and so does its gradient", "[losses][half]") {
  const Tensor logits = {{1000.0f, 998.0f}}, label = {0};
  const auto loss = [&](const Tensor& x) { return cross_entropy(x, label); };
  const double rest = std::exp(-2.0), other = rest / (1 + rest);
  CHECK(close(loss(logits), Tensor(std::log1p(rest)), tolerance::roundings32));
  CHECK(close(slope(loss, logits), from_doubles({-other, other}, {1, 2}), tolerance::roundings32));
  const Tensor even = full({1, 3}, 20.0, {.dtype = DType::bfloat16});  // 20 + log(3) would be 21.125
  CHECK(close(slope(loss, even), from_doubles({-2.0 / 3, 1.0 / 3, 1.0 / 3}, {1, 3}), 0x1p-8));
}

TEST_CASE("gradients of losses may come in any layout", "[losses][gradient]") {
  const Tensor x = random_in(-2, 2, {3, 1, 4}, DType::float64, 9), labels = Tensor{{1}, {0}, {3}};
  const Tensor row = {{1.0, 2.0, 3.0}};  // the gradient is a [3, 1] view of such a one, in which strides are 1 and 3
  const auto turned = [&](const Tensor& v) { return transpose(sparse_softmax_cross_entropy(v, labels)) * row; };
  const auto straight = [&](const Tensor& v) {
    return sparse_softmax_cross_entropy(v, labels) * Tensor{{1.0}, {2.0}, {3.0}};
  };
  CHECK(same(slope(turned, x), slope(straight, x)));
}

// --- margins ---------------------------------------------------------------------------------------------------

TEST_CASE("losses with margins have their values by hand", "[losses]") {
  const Tensor x = {2.0, 0.5, -1.0, 1.0}, sign = {1.0, 1.0, 1.0, -1.0};
  CHECK(same(hinge_loss(x, sign, {.reduction = none}), {0.0, 0.5, 2.0, 2.0}));
  CHECK(same(squared_hinge_loss(x, sign, {.reduction = none}), {0.0, 0.25, 4.0, 4.0}));
  CHECK(is_near(soft_margin_loss(x, sign),
                (std::log1p(std::exp(-2.0)) + std::log1p(std::exp(-0.5)) + 2 * std::log1p(std::exp(1.0))) / 4));
  CHECK(same(soft_margin_loss(Tensor{1000.0, 1000.0}, Tensor{1.0, -1.0}, {.reduction = none}), {0.0, 1000.0}));
  CHECK(are_near(hinge_embedding_loss(Tensor{0.3, 0.3, 2.0, 0.3}, Tensor{1.0, -1.0, -1.0, 0.0}, {.reduction = none}),
                 {0.3, 0.7, 0, 1}));  // x; 1 - x; 0; both
  const Tensor first = {1.0, 2.0}, second = {3.0, 1.0}, one = {1.0, 1.0};
  CHECK(same(margin_ranking_loss(first, second, one, {.margin = 0.5, .reduction = none}), {2.5, 0.0}));
  CHECK(number(margin_ranking_loss(first, second, one)) == 1);  // (2 + 0) / 2
}

TEST_CASE("losses of several classes at once have PyTorch's published values", "[losses]") {
  const Tensor x = {{0.1, 0.2, 0.4, 0.8}};                                  // the example of both manuals
  CHECK(is_near(multi_margin_loss(x, Tensor{3}), 0.325));                   // (0.3 + 0.4 + 0.6) / 4
  CHECK(is_near(multi_margin_loss(x, Tensor{3}, {.p = 2}), 0.1525));        // (0.09 + 0.16 + 0.36) / 4
  CHECK(is_near(multi_margin_loss(x, Tensor{3}, {.margin = 0.5}), 0.025));  // 0.1 / 4
  CHECK(is_near(multi_margin_loss(x, Tensor{3}, {.class_weight = Tensor{1.0, 1.0, 1.0, 2.0}}), 0.65));
  CHECK(is_near(multi_margin_loss(x[0], Tensor(3), {.reduction = none}), 0.325));
  CHECK(is_near(multilabel_margin_loss(x, Tensor{{3, 0, -1, 1}}), 0.85));  // labels 3 and 0: (1.1 + 1.3 + 0.4 + 0.6)/4
  const Tensor many = concat({x, x, x}), lists = {{3, 0, -1, 1}, {-1, 1, 1, 1}, {0, 1, 2, 3}};
  CHECK(are_near(multilabel_margin_loss(many, lists, {.reduction = none}), {0.85, 0, 0}));  // none, and all
  CHECK(is_near(multilabel_margin_loss(many, lists.to(DType::int64), {.reduction = total}), 0.85));
  const Tensor labels = {{0.0, 1.0, 1.0, 0.0}};
  CHECK(close(multilabel_soft_margin_loss(x, labels, {.reduction = none}), mean(sigmoid_cross_entropy(x, labels), 1),
              tolerance::roundings64));
  CHECK(close(multilabel_soft_margin_loss(x, labels, {.weight = labels}),
              mean(sigmoid_cross_entropy(x, labels) * labels), tolerance::roundings64));
}

TEST_CASE("cosines and distances of vectors", "[losses]") {
  const Tensor a = {{1.0, 0.0}, {1.0, 0.0}, {1.0, 0.0}}, b = {{0.6, 0.8}, {0.6, 0.8}, {0.6, 0.8}};
  const double cosine = 0.6 / (1 + 1e-12);
  CHECK(are_near(cosine_embedding_loss(a, b, Tensor{1.0, -1.0, 0.0}, {.margin = 0.1, .reduction = none}),
                 {1 - cosine, cosine - 0.1, 0}));
  CHECK(same(cosine_embedding_loss(a, b, Tensor{-1, -1, 0}, {.margin = 0.7, .reduction = none}), {0.0, 0.0, 0.0}));
  CHECK(are_near(cosine_similarity(a[0], b), {0.6, 0.6, 0.6}));
  CHECK(are_near(cosine_similarity(a * 3, b * -5, {.axis = 0}),
                 {-1, 0}));  // columns: parallel to each other, and nothing at all
  CHECK(is_near(cosine_loss(a, b, {.weight = Tensor{1.0, 2.0, 0.0}}), 0.4));
  CHECK(same(cosine_similarity(zeros_like(a), b), {0.0, 0.0, 0.0}));

  const Tensor zero = {{0.0, 0.0}}, near = {{3.0, 4.0}}, far = {{6.0, 8.0}};
  CHECK(same(pairwise_distance(zero, near, {.epsilon = 0}), {5.0}));
  CHECK(same(pairwise_distance(zero, near, {.p = 1, .epsilon = 0, .keepdims = true}), {{7.0}}));
  CHECK(same(pairwise_distance(zero, near, {.p = kInfinity, .epsilon = 0}), {4.0}));
  CHECK(are_near(pairwise_distance(near, near), {std::sqrt(2e-12)}));
  CHECK(number(triplet_margin_loss(zero, near, far, {.epsilon = 0})) == 0);                // 1 + 5 - 10
  CHECK(number(triplet_margin_loss(zero, near, far, {.margin = 7, .epsilon = 0})) == 2);   // 7 + 5 - 10
  CHECK(number(triplet_margin_loss(zero, near, far, {.epsilon = 0, .swap = true})) == 1);  // 1 + 5 - 5
}

// --- what holds for all ----------------------------------------------------------------------------------------

TEST_CASE("at kinks losses have PyTorch's gradients", "[losses][gradient]") {
  const Tensor x = {-1.0, 0.0, 1.0}, zero = {0.0, 0.0, 0.0}, one = {1.0, 1.0, 1.0};
  const auto at = [&](auto loss) { return slope(loss, x); };
  CHECK(same(at([&](const Tensor& v) { return l1_loss(v, zero, {.reduction = none}); }), {-1.0, 0.0, 1.0}));
  CHECK(same(at([&](const Tensor& v) { return smooth_l1_loss(v, zero, {.reduction = none}); }), {-1.0, 0.0, 1.0}));
  CHECK(same(at([&](const Tensor& v) { return smooth_l1_loss(v, zero, {.beta = 0, .reduction = none}); }),
             {-1.0, 0.0, 1.0}));
  CHECK(same(at([&](const Tensor& v) { return huber_loss(v, zero, {.reduction = none}); }), {-1.0, 0.0, 1.0}));
  CHECK(same(at([&](const Tensor& v) { return hinge_loss(v, one, {.reduction = none}); }), {-1.0, -1.0, -1.0}));
  CHECK(same(at([&](const Tensor& v) { return hinge_embedding_loss(v, -one, {.reduction = none}); }),
             {-1.0, -1.0, -1.0}));
  CHECK(same(at([&](const Tensor& v) { return margin_ranking_loss(v, zero, one, {.margin = 1, .reduction = none}); }),
             {-1.0, -1.0, -1.0}));
  // the second class is just a margin away: unlike the others these do not follow it
  const Tensor scores = {{1.0, 0.0}};
  CHECK(same(slope([](const Tensor& v) { return multi_margin_loss(v, Tensor{0}); }, scores), {{0.0, 0.0}}));
  const Tensor list = {{0, -1}};
  CHECK(same(slope([&](const Tensor& v) { return multilabel_margin_loss(v, list); }, scores), {{0.0, 0.0}}));
}

TEST_CASE("the mean of no losses is NaN and their sum 0", "[losses]") {
  const Tensor x = zeros({0, 3}), labels = zeros({0}, {.dtype = DType::int64});
  for (const Reduction reduction : {average, total}) {
    const auto expected = [&](const Tensor& loss) {
      return loss.rank() == 0 && (reduction == total ? number(loss) == 0 : std::isnan(number(loss)));
    };
    CHECK(expected(mse_loss(x, x, {.reduction = reduction})));
    CHECK(expected(binary_cross_entropy(x, x, {.reduction = reduction})));
    CHECK(expected(sigmoid_cross_entropy(x, x, {.reduction = reduction})));
    CHECK(expected(gaussian_nll_loss(x, x, x, {.reduction = reduction})));
    CHECK(expected(sparse_softmax_cross_entropy(x, labels, {.reduction = reduction})));
    CHECK(expected(cross_entropy(x, labels, {.reduction = reduction})));
    CHECK(expected(cross_entropy(x, x, {.class_weight = ones({3}), .reduction = reduction})));
    CHECK(expected(nll_loss(x, labels, {.class_weight = ones({3}), .reduction = reduction})));
    CHECK(expected(multi_margin_loss(x, labels, {.reduction = reduction})));
    CHECK(expected(multilabel_margin_loss(x, x.to(DType::int64), {.reduction = reduction})));
    CHECK(expected(triplet_margin_loss(x, x, x, {.reduction = reduction})));
  }
  CHECK(mse_loss(x, x, {.reduction = none}).shape() == Shape{0, 3});
  CHECK(slope([&](const Tensor& v) { return mse_loss(v, x); }, x).shape() == Shape{0, 3});
  CHECK(std::isnan(number(kl_div(x, x, {.batch_mean = true}))));
}

TEST_CASE("NaN stays", "[losses]") {
  const Tensor bad = {kNaN}, one = {1.0};
  for (const Tensor& loss :
       {mse_loss(bad, one), l1_loss(bad, one), smooth_l1_loss(bad, one), huber_loss(bad, one), log_cosh_loss(bad, one),
        binary_cross_entropy(bad, one), sigmoid_cross_entropy(bad, one), kl_div(bad, one), kl_div(one, bad),
        poisson_nll_loss(bad, one), hinge_loss(bad, one), squared_hinge_loss(bad, one), soft_margin_loss(bad, one),
        hinge_embedding_loss(bad, -one), multilabel_margin_loss(Tensor{kNaN, 1.0}, Tensor{0, -1})})
    CHECK(std::isnan(number(loss)));
}

TEST_CASE("losses keep the type of their operands, promoted, and 16-bit ones compute in float32", "[losses][half]") {
  const Tensor x = {0.25f, 0.5f, 0.75f, 0.125f}, t = {1.0f, 0.0f, 0.5f, 0.25f};
  CHECK(mse_loss(x, t.to(DType::float64)).dtype() == DType::float64);
  CHECK(gaussian_nll_loss(x, t, x.to(DType::float64)).dtype() == DType::float64);
  CHECK(cosine_loss(x, t.to(DType::float64)).dtype() == DType::float64);
  GradientTape tape;
  const Tensor wide = t.to(DType::float64);
  tape.watch({x, wide});
  const auto [dx, dt] = tape.gradient(mse_loss(x, wide, {.reduction = total}), x, wide);
  CHECK(same(dx, {-1.5f, 1.0f, 0.5f, -0.25f}));  // 2 (x - t)
  CHECK(same(dt, {1.5, -1.0, -0.5, 0.25}));

  const auto losses = [](const Tensor& a, const Tensor& b) {
    return std::vector<Tensor>{mse_loss(a, b),
                               huber_loss(a, b),
                               binary_cross_entropy(a, b),
                               sigmoid_cross_entropy(a, b, {.reduction = average}),
                               hinge_loss(a, b),
                               gaussian_nll_loss(a, b, a),
                               cosine_loss(a, b),
                               cosine_embedding_loss(a, b, Tensor(1.0f)),
                               multilabel_margin_loss(a, Tensor{1, 0, -1, 0}),
                               cross_entropy(a, Tensor(2)),
                               cross_entropy(a, Tensor(-100), {.class_weight = b, .reduction = none})};
  };
  const std::vector<Tensor> expected = losses(x, t);
  for (const DType type : {DType::float16, DType::bfloat16}) {
    const std::vector<Tensor> actual = losses(x.to(type), t.to(type));  // exact in 16 bits
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO("loss " << i << " in " << name(type));
      CHECK(actual[i].dtype() == type);
      CHECK(close(actual[i], expected[i], type == DType::float16 ? 0x1p-9 : 0x1p-6));  // a few roundings of 2^-11, 2^-8
    }
  }
}

TEST_CASE("Stirling's terms of counts in 16 bits do not overflow on their way", "[losses][half]") {
  const Tensor log_rate = Tensor{0.0f}.to(DType::float16), count = Tensor{8000.0f}.to(DType::float16);
  const Tensor loss = poisson_nll_loss(log_rate, count, {.full = true});
  CHECK(loss.dtype() == DType::float16);
  CHECK(number(loss) == 63904);  // 1 + 63902.99; 8000 * log(8000) is above 65504
}

TEST_CASE("a mean of losses may have 16 bits where a loss of it has not", "[losses][half]") {
  const auto narrow = [](const Tensor& x) { return x.to(DType::float16); };
  Tensor x = zeros({100});
  x[0].fill(300);
  const Tensor far = narrow(x), zero = narrow(zeros({100})), one = narrow(ones({100}));
  CHECK(std::isinf(number(mse_loss(far, zero, {.reduction = none})[0])));
  CHECK(number(mse_loss(far, zero)) == 900);
  CHECK(mse_loss(far, zero).dtype() == DType::float16);
  CHECK(number(slope([&](const Tensor& t) { return mse_loss(t, zero); }, far)[0]) == 6);
  CHECK(number(squared_hinge_loss(1 - far, one)) == 900);
  CHECK(number(mse_loss(far, zero, {.weight = narrow(full({100}, 0.5))})) == 450);
  CHECK(number(multi_margin_loss(expand_dims(far, 0), Tensor{1}, {.p = 2, .margin = 0})) == 900);
  CHECK(number(margin_ranking_loss(narrow(Tensor{-6e4f, 0.0f}), narrow(Tensor{6e4f, 0.0f}),
                                   narrow(Tensor{1.0f, 1.0f}))) == 60000);
  // log(t!) is 8.2e4, and what t * x takes off is as much
  const Tensor log_rate = narrow(Tensor{9.2109375f}), count = narrow(Tensor{10000.0f});
  const double stirling = 10000 * std::log(10000.0) - 10000 + 0.5 * std::log(2 * std::acos(-1.0) * 10000);
  const double expected = std::exp(9.2109375) - 10000 * 9.2109375 + stirling;
  CHECK(close(poisson_nll_loss(log_rate, count, {.full = true}), narrow(Tensor(expected)), 0x1p-7));
  CHECK(close(poisson_nll_loss(log_rate, count, {.full = true, .reduction = none}), narrow(Tensor{expected}), 0x1p-7));
}

TEST_CASE("a weighted mean of 16-bit rows may have 16 bits where a weighted row has not", "[losses][half]") {
  const auto narrow = [](const Tensor& x) { return x.to(DType::float16); };
  const Tensor logits = narrow(Tensor{{0.0f, 100.0f}, {100.0f, 0.0f}}), labels = {0, 0}, weight = {1000.0f, 1.0f};
  CHECK(number(cross_entropy(logits, labels, {.class_weight = weight})) == 50);  // a row is 100,000
  CHECK(number(nll_loss(-logits, labels, {.class_weight = weight})) == 50);
  CHECK(number(sparse_softmax_cross_entropy(logits, labels,
                                            {.weight = Tensor{1024.0f, -1.0f}, .reduction = average})) == 51200);
  CHECK(cross_entropy(logits, labels, {.class_weight = weight}).dtype() == DType::float16);
}

TEST_CASE("smoothed labels of many classes in 16 bits", "[losses][half]") {
  const Tensor logits = zeros({2, 10000}, {.dtype = DType::float16}), labels = {0, 9999};
  const Tensor expected = Tensor(std::log(1e4)).to(DType::float16);  // the sum of all logarithms is -92,103
  CHECK(same(cross_entropy(logits, labels, {.label_smoothing = 0.1}), expected));
  CHECK(same(cross_entropy(logits, labels, {.class_weight = ones({10000}), .label_smoothing = 0.1}), expected));
  const Tensor target = full({2, 10000}, 1e-4, {.dtype = DType::float16});
  CHECK(close(cross_entropy(logits, target, {.label_smoothing = 0.5}), expected, 0x1p-9));  // 1e-4 is rounded
}

TEST_CASE("views give what copies give, and threads change nothing", "[losses][threads]") {
  const Tensor x = random_in(0.1, 0.9, {60, 1500}, DType::float32, 5);
  const Tensor t = random_in(0.1, 0.9, {60, 1500}, DType::float32, 6);
  const auto run = [](const Tensor& a, const Tensor& b) {
    std::vector<std::vector<double>> all;
    for (const bool precise : {false, true}) {
      GradientTape tape;
      tape.watch({a, b});
      const Tensor loss = precise ? sigmoid_cross_entropy(a, b, {.reduction = average}) : huber_loss(a, b);
      const auto [da, db] = tape.gradient(loss, a, b);
      for (const Tensor& part : {loss, da, db}) all.push_back(values(part));
    }
    return all;
  };
  const auto expected = run(x, t);
  CHECK(run(strided(x), strided(t)) == expected);
  for (const int threads : {1, 2, 5}) {
    const ThreadCount limit(threads);
    CHECK(run(x, t) == expected);
  }
  const Tensor lists = broadcast_to(Tensor{{7, 3, 1200, -1}}, {60, 4}), scores = narrow(x, 1, 0, 4);
  CHECK_THROWS_AS(multilabel_margin_loss(scores, lists), IndexError);
  const Tensor one_row = broadcast_to(Tensor{{3, 1, -1, 0}}, {60, 4});
  CHECK(same(multilabel_margin_loss(scores, one_row), multilabel_margin_loss(scores.copy(), one_row.copy())));
}

TEST_CASE("the fused gradients are those that outer tapes record", "[losses][gradient]") {
  const GradientOptions zeros_too = {.unconnected = Unconnected::zeros};
  for (const GradientCase& c : losses_gradient_cases()) {
    INFO(c.op << ": " << c.usage);
    GradientTape alone;
    for (const Tensor& x : c.inputs) alone.watch(x);
    const std::vector<Tensor> fused = alone.gradient(c.function(c.inputs), c.inputs, zeros_too);
    GradientTape outer;
    for (const Tensor& x : c.inputs) outer.watch(x);
    GradientTape inner;
    for (const Tensor& x : c.inputs) inner.watch(x);
    const std::vector<Tensor> open = inner.gradient(c.function(c.inputs), c.inputs, zeros_too);
    for (std::size_t i = 0; i < c.inputs.size(); ++i) CHECK(close(open[i], fused[i], tolerance::roundings64));
  }
}

TEST_CASE("a loss of elements keeps its operands and nothing else", "[losses][memory]") {
  const Tensor x = random_in(0.1, 0.9, {1000}), t = random_in(0.1, 0.9, {1000});
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const std::int64_t operands = 2 * 8 * x.numel();
  mse_loss(x, t);
  CHECK(tape.bytes_kept() == operands);
  binary_cross_entropy(x, t);
  CHECK(tape.bytes_kept() == 2 * operands);
  sigmoid_cross_entropy(x, t, {.reduction = average});
  CHECK(tape.bytes_kept() == 3 * operands);
}
