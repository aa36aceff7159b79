// 20_own_op: operations of one's own, whose gradients are written by hand.
// Shows: a function with one input, one with two, errors that name the caller's line, the check of a gradient by
//        differences, also of one that is wrong; a gradient that differs from the true one on purpose, in a training.
// Prints: log(1 + exp(x)) as it stands in the book and as it should be computed; what the checks say; how many of 32
//         signs are learned with a gradient of one's own, and with the true one, which is 0. Draws both losses.
// Fails:  if a value or gradient is wrong, a wrong gradient passes the check, or a sign is not found.
#include <capstan/capstan.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "samples/sample.hpp"
#include "tools/chart.hpp"

namespace cs = capstan;

// --- the operations ------------------------------------------------------------------------------------------------

/// log(1 + exp(x)), which for large x is x. Its slope is sigmoid(x), and no quotient of two infinities. The last
/// argument is where the caller stands: errors and tapes name that line.
cs::Tensor soft_plus(const cs::Tensor& x, cs::Where where = cs::Where::current()) {
  return cs::custom_gradient(
      x, [](const cs::Tensor& t) { return cs::maximum(t, 0) + cs::log1p(cs::exp(-cs::abs(t))); },
      [](const cs::Tensor& gradient, const cs::Tensor& t, const cs::Tensor& /*result*/) {
        return gradient * cs::sigmoid(t);
      },
      where);
}

/// log(exp(a) + exp(b)) of tensors of one shape: several inputs come as a list, and so do their gradients.
cs::Tensor log_of_sum(const cs::Tensor& a, const cs::Tensor& b, cs::Where where = cs::Where::current()) {
  return cs::custom_gradient(
      [](const std::vector<cs::Tensor>& in) {
        const cs::Tensor larger = cs::maximum(in[0], in[1]);
        return larger + cs::log1p(cs::exp(-cs::abs(in[0] - in[1])));
      },
      [](const std::vector<cs::Tensor>& gradients, const std::vector<cs::Tensor>& in,
         const std::vector<cs::Tensor>& /*results*/) {
        const cs::Tensor share = cs::sigmoid(in[0] - in[1]);  // of the first in the sum
        return std::vector<cs::Tensor>{gradients[0] * share, gradients[0] * (1 - share)};
      },
      {a, b}, where);
}

/// 1 for x >= 0, else -1. Steps have no slope to learn by, so the gradient goes straight through, as if this were x, as
/// long as |x| <= 1: Hubara et al. 2016, "Binarized neural networks".
cs::Tensor binary(const cs::Tensor& x, cs::Where where = cs::Where::current()) {
  return cs::custom_gradient(
      x, [](const cs::Tensor& t) { return cs::where(t >= 0, cs::ones_like(t), -1); },
      [](const cs::Tensor& gradient, const cs::Tensor& t, const cs::Tensor& /*result*/) {
        return cs::where(cs::abs(t) <= 1, gradient, 0);
      },
      where);
}

namespace {

constexpr std::int64_t kInputs = 32, kExamples = 1000;

struct Options : sample::Flags {
  std::int64_t steps = 300;
};

// --- values and gradients far from 0 -------------------------------------------------------------------------------

struct Slope {
  float value, gradient;
};

template <class Function>
Slope slope_at(float at, Function function) {
  const cs::Tensor x(at);
  cs::GradientTape tape;
  tape.watch(x);
  const cs::Tensor y = function(x);
  const cs::Tensor gradient = tape.gradient(y, x);
  return {y.item<float>(), gradient.item<float>()};
}

void far_from_zero(sample::Checks& checks) {
  const Slope book = slope_at(1000, [](const cs::Tensor& x) { return cs::log(1 + cs::exp(x)); });
  const Slope safe = slope_at(1000, [](const cs::Tensor& x) { return soft_plus(x); });
  std::printf("log(1 + exp(1000)) as in the book: %g, its gradient %g\n", static_cast<double>(book.value),
              static_cast<double>(book.gradient));
  std::printf("                 by our operation: %g, its gradient %g\n", static_cast<double>(safe.value),
              static_cast<double>(safe.gradient));
  checks.expect(std::isinf(book.value) && std::isnan(book.gradient), "the formula of the book overflows");
  checks.expect(safe.value == 1000 && safe.gradient == 1, "our operation does not");
}

// --- are the gradients right? --------------------------------------------------------------------------------------

void check_gradients(sample::Checks& checks) {
  const cs::TensorOptions float64 = {.dtype = cs::DType::float64};  // in float32 differences say little
  const cs::Tensor x = cs::linspace(-30, 30, 24, float64), other = cs::normal({24}, cs::default_rng(), float64);

  const cs::GradientReport one = cs::check_gradient([](const cs::Tensor& t) { return soft_plus(t); }, x, {.order = 2});
  const cs::GradientReport two = cs::check_gradient(
      [](const std::vector<cs::Tensor>& in) { return log_of_sum(in[0], in[1]); }, {x, other}, {.order = 2});
  const cs::GradientReport wrong = cs::check_gradient(
      [](const cs::Tensor& t) {
        return cs::custom_gradient(
            t, [](const cs::Tensor& u) { return cs::square(u); },
            [](const cs::Tensor& gradient, const cs::Tensor& u, const cs::Tensor&) { return gradient * u; });
      },
      x);
  std::printf("soft_plus:   %s\nlog_of_sum:  %s\nwrong slope: %s\n", one.text().c_str(), two.text().c_str(),
              wrong.text().c_str());
  checks.expect(one.ok, "the gradient of soft_plus, and its gradient, agree with differences");
  checks.expect(two.ok, "and those of log_of_sum");
  checks.expect(!wrong.ok, "a gradient of x for the square of x is found out");
}

// --- a gradient that is wrong on purpose ---------------------------------------------------------------------------

/// Learns to tell of which of two classes points are: by the sum of their numbers, each with the sign that `secret` has
/// for it. `signs` makes signs of the weights that are trained. Returns how many are found.
template <class Signs>
std::int64_t train(const char* name, Signs signs, const cs::Tensor& secret, const Options& options, sample::Log& log,
                   tools::Series& losses) {
  cs::Rng rng = cs::Rng(options.seed).stream(1);
  const cs::Tensor x = cs::normal({kExamples, kInputs}, rng);
  const cs::Tensor right = cs::cast(cs::matmul(x, secret) > 0, cs::DType::float32);  // [examples, 1]
  const cs::Parameter weight(cs::uniform({kInputs, 1}, -0.1, 0.1, rng));
  const double scale = 2 / std::sqrt(static_cast<double>(kInputs));

  cs::optim::Adam adam(std::vector<cs::Tensor>{weight});
  adam.attach(cs::optim::cosine_decay(1e-2, {.steps = options.steps, .once = true}));
  auto progress = cs::progress(options.steps, name);
  for (const std::int64_t done : progress) {
    cs::GradientTape tape;
    const cs::Tensor logits = cs::matmul(x, signs(weight)) * scale;
    const cs::Tensor loss = cs::mean(soft_plus(logits) - right * logits);  // the cross entropy of two classes
    adam.apply(tape.gradient(loss, adam.parameters()));

    const double loss_value = loss.item<float>();
    losses.add(static_cast<double>(done + 1), loss_value);
    log.scalar(name, loss_value, done + 1);
    progress.set("loss", loss_value);
  }
  return cs::sum(cs::equal(weight >= 0, secret > 0)).item<std::int64_t>();
}

int run(Options options) {
  if (options.quick) options.steps = std::min<std::int64_t>(options.steps, 150);
  sample::Checks checks;
  sample::Log log(options);
  far_from_zero(checks);
  check_gradients(checks);

  cs::Rng rng = cs::Rng(options.seed).stream(2);
  const cs::Tensor secret = 2 * cs::bernoulli({kInputs, 1}, 0.5, rng) - 1;  // 1 or -1
  tools::Series straight{"straight through", {}, {}}, flat{"the true gradient: 0", {}, {}};
  const std::int64_t found = train(
      "straight through", [](const cs::Tensor& w) { return binary(w); }, secret, options, log, straight);
  const std::int64_t found_without = train(
      "the true gradient", [](const cs::Tensor& w) { return cs::sign(w); }, secret, options, log, flat);
  checks.expect(found == kInputs, "all signs are found with the gradient that goes straight through");
  checks.expect(found_without < kInputs - 4, "with the true gradient, 0, nothing is learned");

  if (!options.picture.empty()) {
    tools::Chart chart{"Learning 32 signs through a step function", "step", {}};
    chart.panels.push_back({.label = "cross entropy", .series = {std::move(straight), std::move(flat)}});
    tools::write_svg(options.picture, chart);
    std::printf("the losses are in %s\n", options.picture.c_str());
  }
  std::printf("result: %lld of %lld signs found with a gradient of our own, %lld with the true one\n",
              static_cast<long long>(found), static_cast<long long>(kInputs), static_cast<long long>(found_without));
  return checks.exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  return sample::run(
      argc, argv, "Operations of one's own, with gradients written by hand.", options,
      [&](sample::CommandLine& line) {
        line.add_picture("own_op.svg");
        line.add("--steps", options.steps, "training steps", 1);
      },
      [&] { return run(options); });
}
