// 05_parity: a recurrent network learns to add up strings of 50 bits, and so tells whether their sum is odd.
// Shows: a model as a plain struct, a ReLU network run over 50 steps, a training loop written out with a tape,
//        gradients clipped by their common norm, a learning rate that rises and falls, metrics, looking at values in
//        the middle of training.
// Prints: the progress; once, a hidden state and a gradient; then the accuracy of the sum and of the parity on 10,000
//         fresh strings, the network's answer for one string whose sum is 30, and the steps a second. Draws the curves.
// Fails:  if the parity of fewer than 99 % of the fresh strings is right; with --quick, 1000 steps, if the sum of fewer
//         than 25 % is: who knows no more than how often each sum comes is right for 11 %.
// Published are 100 passes over 100,000 strings, the binary forms of numbers below 2^20, in 50 classes, with Adam at a
// constant 1e-3. Here each step has fresh strings, all 50 bits are random, and there are 51 classes, one for each sum;
// the steps are 25,000, and the start of the weights, the learning rate and the clipping are this sample's own.
#include <capstan/capstan.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "samples/sample.hpp"
#include "tools/chart.hpp"

namespace cs = capstan;
namespace data = capstan::data;

constexpr std::int64_t kBits = 50, kClasses = kBits + 1, kHidden = 24;

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

constexpr double kDiagonal = 1.0, kNoise = 0.01;  // of the recurrent weights at the start
constexpr double kMaxNorm = 1.0;                  // of all gradients together
constexpr double kLastRate = 1e-5;
constexpr std::int64_t kWatchEvery = 10, kQuickSteps = 1000;

struct Options : sample::Flags {
  std::int64_t steps = 25000, batch = 1000;
  double learning_rate = 4e-3;
};

/// How often the network is right.
struct Score {
  cs::metrics::Accuracy sum, parity;

  void update(const cs::Tensor& logits, const data::ParityBatch& batch) {
    const cs::Tensor answers = cs::argmax(logits, 1);
    sum.update(answers, batch.sums);
    parity.update(answers % 2, batch.parities);
  }
};

struct Curves {
  tools::Series loss{"cross entropy of the sum", {}, {}};
  tools::Series sum{"sum", {}, {}}, parity{"parity", {}, {}};
};

/// A ReLU network whose recurrent weights are the identity adds up from the start (Le, Jaitly, Hinton 2015, "A simple
/// way to initialize recurrent networks of rectified linear units").
void start_near_identity(Net& net) {
  net.cell.wh.assign(kDiagonal * cs::eye(kHidden) + cs::normal({kHidden, kHidden}, 0, kNoise));
}

/// Linear from near 0 to the peak over the first twentieth, then half a cosine down to the last rate.
cs::optim::Schedule schedule_of(const Options& options) {
  const std::int64_t rise = std::max<std::int64_t>(1, options.steps / 20);
  const std::int64_t fall = std::max<std::int64_t>(1, options.steps - rise);
  const double last = std::min(options.learning_rate, kLastRate);
  return cs::optim::warm_up(cs::optim::cosine_decay(options.learning_rate, {.steps = fall, .end = last, .once = true}),
                            rise, 1 / static_cast<double>(rise));
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
double train(Net& net, const Options& options, sample::Log& log, Curves& curves) {
  cs::optim::Adam adam(cs::nn::parameters(net));
  adam.attach(schedule_of(options));
  cs::Rng rng(options.seed);
  auto progress = cs::progress(options.steps, "parity");
  for (const std::int64_t done : progress) {
    const std::int64_t step = done + 1;
    const data::ParityBatch batch = data::parity(options.batch, kBits, rng);
    cs::GradientTape tape;
    const auto [logits, hidden] = net(batch.bits);
    const cs::Tensor loss = cs::mean(cs::sparse_softmax_cross_entropy(logits, batch.sums));
    const auto [gradients, norm] = cs::optim::clip_by_global_norm(tape.gradient(loss, adam.parameters()), kMaxNorm);
    if (std::isfinite(norm.item<float>())) adam.apply(gradients);  // else they say nothing about where to go

    if (step == std::max<std::int64_t>(1, options.steps / 100))
      progress.print(look_inside(step, hidden, gradients.back()));
    if (step % kWatchEvery != 0 && step != options.steps) continue;
    const double loss_value = loss.item<float>();
    Score score;
    score.update(logits, batch);
    curves.loss.add(static_cast<double>(step), loss_value);
    curves.sum.add(static_cast<double>(step), score.sum.result());
    curves.parity.add(static_cast<double>(step), score.parity.result());
    progress.set("loss", loss_value);
    progress.set("sum", score.sum.result());
    progress.set("parity", score.parity.result());
    log.scalar("loss", loss_value, step);
    log.scalar("accuracy/sum", score.sum.result(), step);
    log.scalar("accuracy/parity", score.parity.result(), step);
    log.scalar("learning_rate", adam.learning_rate(), step);
  }
  return progress.seconds();
}

/// On 10,000 fresh strings.
Score test(Net& net, std::uint64_t seed) {
  cs::Rng rng(seed);
  Score score;
  for (int piece = 0; piece < 10; ++piece) {
    const data::ParityBatch batch = data::parity(1000, kBits, rng);
    score.update(net(batch.bits).logits, batch);
  }
  return score;
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
  Net net;
  start_near_identity(net);
  sample::Log log(options);
  Curves curves;
  const double seconds = train(net, options, log, curves);
  std::printf("%lld steps of %lld strings in %.1f s: %.1f steps a second\n", static_cast<long long>(options.steps),
              static_cast<long long>(options.batch), seconds, static_cast<double>(options.steps) / seconds);
  const Score score = test(net, options.seed + 1);
  show_one_answer(net);
  if (!options.picture.empty()) draw(options.picture, std::move(curves));

  const double sum = score.sum.result(), parity = score.parity.result();
  sample::Checks checks;
  if (options.quick) checks.expect(sum >= 0.25, "the sum of 25 % of fresh strings is right");
  else checks.expect(parity >= 0.99, "the parity of 99 % of fresh strings is right");
  std::printf("result: on 10,000 fresh strings: sum %.2f %%, parity %.2f %% right\n", 100 * sum, 100 * parity);
  return checks.exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  const auto add = [&](sample::CommandLine& line) {
    line.add("--steps", options.steps, "training steps; with fewer the check at the end may fail", 1);
    line.add("--batch", options.batch, "strings a step", 1);
    line.add("--learning-rate", options.learning_rate, "the highest learning rate");
    line.add_picture("parity.svg");
  };
  return sample::run(argc, argv, "Learns the parity of 50-bit strings with a recurrent network.", options, add, [&] {
    if (options.quick) options.steps = std::min(options.steps, kQuickSteps);
    return run(options);
  });
}
