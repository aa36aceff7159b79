// parity: a recurrent network learns to add up strings of 50 bits, and so tells whether their sum is odd.
// Shows: a model as a plain struct, a ReLU network run over 50 steps, a training loop written out with a tape, gradient
//        clipping and a learning-rate schedule in public operations, looking at values in the middle of training.
// Prints: the progress; once, a hidden state and a gradient; then the accuracy of the sum and of the parity on 10,000
//         fresh strings, the network's answer for one string whose sum is 30, and the steps a second. Draws the curves.
// Fails:  if the parity of fewer than 99 % of the fresh strings is right.
#include <capstan/capstan.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <numbers>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tools/chart.hpp"

namespace cs = capstan;

namespace {

constexpr std::int64_t kBits = 50, kClasses = kBits + 1, kHidden = 24;
constexpr double kDiagonal = 1.0, kNoise = 0.01;  // of the recurrent weights at the start
constexpr double kMaxNorm = 1.0;                  // of all gradients together
constexpr double kLastRate = 1e-5;

}  // namespace

/// Reads one bit a step; its last hidden state tells the sum. A positive bias keeps all units alive at the start.
struct Net {
  cs::nn::RnnCell cell{1, kHidden, {.activation = cs::Activation::relu, .bias_init = cs::nn::init::constant(0.25)}};
  cs::nn::Linear out{kHidden, kClasses, {.weight_init = cs::nn::init::uniform(-0.05, 0.05)}};

  struct Result {
    cs::Tensor logits, hidden;
  };
  Result operator()(const cs::Tensor& bits) {  // [batch, 50, 1] -> [batch, 51] and [batch, 24]
    auto [outputs, state] = cs::nn::unroll(cell, bits);
    return {out(state.h), state.h};
  }
};

namespace {

struct Options {
  std::int64_t steps = 25000, batch = 1000;
  double learning_rate = 4e-3, check_accuracy = 0.99;
  std::uint64_t seed = 1;
  int threads = 0;
  std::string picture = "parity.svg";
};

struct Score {
  double sum = 0, parity = 0;
};

struct Curves {
  tools::Series loss{"cross entropy of the sum", {}, {}};
  tools::Series sum{"sum", {}, {}}, parity{"parity", {}, {}};
};

cs::Tensor random_bits(std::int64_t batch, cs::Rng& rng) { return cs::bernoulli({batch, kBits, 1}, 0.5, rng); }

cs::Tensor sums_of(const cs::Tensor& bits) { return cs::cast(cs::sum(bits, {1, 2}), cs::DType::int64); }

/// 1 for odd counts, 0 for even ones.
cs::Tensor odd(const cs::Tensor& counts) {
  const cs::Tensor half = cs::cast(cs::cast(counts, cs::DType::float32) / 2, cs::DType::int64);  // truncates
  return counts - 2 * half;
}

double share_equal(const cs::Tensor& a, const cs::Tensor& b) {
  return cs::mean(cs::cast(cs::equal(a, b), cs::DType::float32)).item<float>();
}

Score score_of(const cs::Tensor& logits, const cs::Tensor& sums) {
  const cs::Tensor answers = cs::argmax(logits, 1);
  return {share_equal(answers, sums), share_equal(odd(answers), odd(sums))};
}

/// A ReLU network whose recurrent weights are the identity adds up from the start (Le, Jaitly, Hinton 2015, "A simple
/// way to initialize recurrent networks of rectified linear units").
void start_near_identity(Net& net, cs::Rng& rng) {
  net.cell.wh.assign(kDiagonal * cs::eye(kHidden) + cs::normal({kHidden, kHidden}, 0, kNoise, rng));
}

/// Linear from 0 to the peak over the first twentieth, then half a cosine down to the last rate.
double learning_rate_at(std::int64_t step, const Options& options) {
  const double peak = options.learning_rate, last = std::min(peak, kLastRate);
  const auto warm_up = static_cast<double>(std::max<std::int64_t>(1, options.steps / 20));
  const auto done = static_cast<double>(step);
  if (done < warm_up) return peak * (done + 1) / warm_up;
  const double share = (done - warm_up) / std::max(1.0, static_cast<double>(options.steps) - warm_up);
  return last + 0.5 * (peak - last) * (1 + std::cos(std::numbers::pi * share));
}

/// Scales all gradients by one factor so that their common norm is at most `limit`. Returns the norm before.
double clip_by_global_norm(std::vector<cs::Tensor>& gradients, double limit) {
  double squares = 0;
  for (const cs::Tensor& gradient : gradients) squares += cs::sum(cs::square(gradient)).item<float>();
  const double norm = std::sqrt(squares);
  if (norm > limit)
    for (cs::Tensor& gradient : gradients) gradient = gradient * (limit / norm);
  return norm;
}

/// A hidden state and a gradient, as text.
std::string look_inside(std::int64_t step, const cs::Tensor& hidden, const cs::Tensor& bias_gradient) {
  std::ostringstream text;
  text << "step " << step << ": the hidden state after the first string, and the gradient of out.bias\n"
       << hidden[0] << '\n'
       << bias_gradient.describe();
  return text.str();
}

/// Trains and returns the seconds it took.
double train(Net& net, const Options& options, Curves& curves) {
  cs::optim::Adam adam(cs::nn::parameters(net), {.learning_rate = options.learning_rate});
  cs::Rng rng(options.seed);
  auto progress = cs::progress(options.steps, "parity");
  for (const std::int64_t done : progress) {
    const std::int64_t step = done + 1;
    const cs::Tensor bits = random_bits(options.batch, rng), sums = sums_of(bits);
    cs::GradientTape tape;
    const auto [logits, hidden] = net(bits);
    const cs::Tensor loss = cs::mean(cs::sparse_softmax_cross_entropy(logits, sums));
    std::vector<cs::Tensor> gradients = tape.gradient(loss, adam.parameters());

    const double norm = clip_by_global_norm(gradients, kMaxNorm);
    adam.options().learning_rate = learning_rate_at(done, options);
    if (std::isfinite(norm)) adam.apply(gradients);  // one that overflowed says nothing about where to go

    if (step == std::max<std::int64_t>(1, options.steps / 100))
      progress.print(look_inside(step, hidden, gradients.back()));
    if (step % 10 != 0 && step != options.steps) continue;
    const double loss_value = loss.item<float>();
    const Score score = score_of(logits, sums);
    curves.loss.add(static_cast<double>(step), loss_value);
    curves.sum.add(static_cast<double>(step), score.sum);
    curves.parity.add(static_cast<double>(step), score.parity);
    progress.set("loss", loss_value);
    progress.set("sum", score.sum);
    progress.set("parity", score.parity);
  }
  return progress.seconds();
}

Score test(Net& net, std::uint64_t seed) {
  constexpr int kPieces = 10;
  cs::Rng rng(seed);
  Score total;
  for (int piece = 0; piece < kPieces; ++piece) {
    const cs::Tensor bits = random_bits(1000, rng);
    const Score score = score_of(net(bits).logits, sums_of(bits));
    total.sum += score.sum / kPieces;
    total.parity += score.parity / kPieces;
  }
  return total;
}

void show_one_answer(Net& net) {
  const std::string text = "10110110101101100101011101011010101110011101010101";  // its sum is 30
  std::vector<float> bits;
  for (const char c : text) bits.push_back(c == '1' ? 1.0f : 0.0f);
  const cs::Tensor logits = net(cs::from_vector(bits, {1, kBits, 1})).logits;
  const auto answer = cs::argmax(logits, 1).item<std::int64_t>();
  std::printf("%s\n  network: sum %lld, %s; right: sum 30, even\n", text.c_str(), static_cast<long long>(answer),
              answer % 2 == 0 ? "even" : "odd");
}

void draw(const std::string& path, Curves curves) {
  tools::Chart chart{"Parity of 50-bit strings, by a ReLU network of 24 units", "step", {}};
  chart.panels.push_back({.label = "loss", .log_scale = true, .series = {std::move(curves.loss)}});
  chart.panels.push_back({.label = "accuracy on the batch",
                          .low = 0,
                          .high = 1.03,
                          .series = {std::move(curves.sum), std::move(curves.parity)}});
  tools::write_svg(path, chart);
  std::printf("the curves are in %s\n", path.c_str());
}

int run(const Options& options) {
  if (options.threads > 0) cs::set_threads(options.threads);
  cs::seed(options.seed);
  Net net;
  start_near_identity(net, cs::default_rng());
  Curves curves;
  const double seconds = train(net, options, curves);
  std::printf("%lld steps of %lld strings in %.1f s: %.1f steps a second\n", static_cast<long long>(options.steps),
              static_cast<long long>(options.batch), seconds, static_cast<double>(options.steps) / seconds);
  const Score score = test(net, options.seed + 1);
  std::printf("on 10,000 fresh strings: sum %.2f %%, parity %.2f %% right\n", 100 * score.sum, 100 * score.parity);
  show_one_answer(net);
  draw(options.picture, std::move(curves));
  if (score.parity >= options.check_accuracy) return 0;
  std::printf("parity: accuracy %.4f; at least %.4f was asked for\n", score.parity, options.check_accuracy);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Learns the parity of 50-bit strings with a recurrent network."};
  app.add_option("--steps", options.steps, "training steps")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--batch", options.batch, "strings a step")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--learning-rate", options.learning_rate, "the highest learning rate")->capture_default_str();
  app.add_option("--seed", options.seed, "of the weights and the strings")->capture_default_str();
  app.add_option("--threads", options.threads, "0: the library's default")->capture_default_str();
  app.add_option("--picture", options.picture, "SVG file for the learning curves")->capture_default_str();
  app.add_option("--check-accuracy", options.check_accuracy, "fail if the parity is right less often")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "parity: %s\n", error.what());
    return 2;
  }
}
