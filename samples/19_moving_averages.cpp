// 19_moving_averages: the average of a model's weights over many steps is better than the weights of the last one.
// Shows: an average followed by hand, averages of a whole model beside its training, evaluating with the averages in
//        the model's place and getting its own values back, the plain mean over the last half of a run.
// Prints: 1.1, 1.29, 1.561, the average with decay 0.9 of 1, 2, 3, 4; then how far the last weights and both kinds of
//         average are from the truth. Draws the three distances over the steps.
// Fails:  if the averages by hand are others, unless both kinds come closer than half the distance of the last weights,
//         or if the model has not its own values back.
#include <capstan/capstan.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "samples/sample.hpp"
#include "tools/chart.hpp"

namespace cs = capstan;

constexpr std::int64_t kInputs = 20, kBatch = 8;

struct Net {
  cs::nn::Linear layer{kInputs, 1};
  cs::Tensor operator()(const cs::Tensor& x) const { return layer(x); }  // [batch, 20] -> [batch, 1]
};

namespace {

struct Options : sample::Flags {
  std::int64_t steps = 4000;
  double learning_rate = 0.02, decay = 0.99;
};

/// Curves of the distance to the truth.
struct Curves {
  tools::Series last{"the weights of each step", {}, {}};
  tools::Series moving{"their moving average", {}, {}};
  tools::Series equal{"the plain mean over the last half", {}, {}};
};

/// The mean squared difference of what two models say about standard normal inputs; of linear ones that of weights.
double distance(const Net& a, const Net& b) {
  const cs::NoGrad off;
  const cs::Tensor weights = cs::sum(cs::square(a.layer.weight - b.layer.weight));
  return (weights + cs::sum(cs::square(a.layer.bias - b.layer.bias))).item<float>();
}

double mean_of_last_half(const std::vector<double>& values) {
  double sum = 0;
  const std::size_t begin = values.size() / 2;
  for (std::size_t i = begin; i < values.size(); ++i) sum += values[i];
  return sum / static_cast<double>(values.size() - begin);
}

/// 0.9 * 1 + 0.1 * 2 = 1.1, and so on.
void by_hand(sample::Checks& checks) {
  cs::Parameter value(1.0);
  cs::optim::Ema average({value}, {.decay = 0.9});
  constexpr double kExpected[] = {1.1, 1.29, 1.561};
  std::printf("the moving average of 1, 2, 3, 4:");
  for (int i = 0; i < 3; ++i) {
    value.fill(i + 2);
    average.update();
    const double now = average.averages()[0].item<double>();
    std::printf(" %g", now);
    checks.expect(std::abs(now - kExpected[i]) < 1e-12, "an average with decay 0.9");
  }
  std::printf("\n");
}

Curves train(Net& net, const Net& truth, const Options& options, sample::Checks& checks) {
  cs::optim::Sgd sgd(cs::nn::parameters(net), {.learning_rate = options.learning_rate});
  // `warm_up`: the first averages are short ones, so that the values at the start do not count for long.
  cs::optim::Ema moving(sgd.parameters(), {.decay = options.decay, .warm_up = true});
  std::optional<cs::optim::Ema> equal;
  sample::Log log(options);
  Curves curves;
  auto progress = cs::progress(options.steps, "training");
  for (const std::int64_t step : progress) {
    const cs::Tensor x = cs::normal({kBatch, kInputs});
    const cs::Tensor target = truth(x) + cs::normal({kBatch, 1});
    cs::GradientTape tape;
    const cs::Tensor loss = cs::mse_loss(net(x), target);
    sgd.apply(tape.gradient(loss, sgd.parameters()));

    moving.update();
    if (step == options.steps / 2) equal.emplace(sgd.parameters(), cs::optim::EmaOptions{.equal = true});
    if (equal) equal->update();

    if ((step + 1) % 20 != 0) continue;
    const auto at = static_cast<double>(step + 1);
    const double last = distance(net, truth);
    curves.last.add(at, last);
    {
      const auto averaged = moving.swap();  // the averages stand in the net in this block
      curves.moving.add(at, distance(net, truth));
    }
    checks.expect(distance(net, truth) == last, "the net has its own values back");
    if (equal) {
      const auto averaged = equal->swap();
      curves.equal.add(at, distance(net, truth));
      log.scalar("distance/equal", curves.equal.y.back(), step + 1);
    }
    log.scalar("distance/last", last, step + 1);
    log.scalar("distance/moving", curves.moving.y.back(), step + 1);
    progress.set("last", last);
    progress.set("moving", curves.moving.y.back());
  }
  return curves;
}

int run(const Options& options) {
  sample::Checks checks;
  by_hand(checks);

  Net truth, net;
  truth.layer.weight.assign(cs::normal({kInputs, 1}));
  truth.layer.bias.fill(0.5);
  const Curves curves = train(net, truth, options, checks);

  const double last = mean_of_last_half(curves.last.y), moving = mean_of_last_half(curves.moving.y);
  const double equal = curves.equal.y.back();
  checks.expect(moving < 0.5 * last, "the moving average comes closer than half the distance of the last weights");
  checks.expect(equal < 0.5 * last, "so does the plain mean of the last half");
  if (!options.picture.empty()) {
    tools::write_svg(options.picture, {.title = "Distance to the weights that made the data",
                                       .x_label = "step",
                                       .panels = {{.label = "squared distance",
                                                   .log_scale = true,
                                                   .series = {curves.last, curves.moving, curves.equal}}},
                                       .subtitle = "Linear regression by noisy steps of a constant rate"});
    std::printf("the curves are in %s\n", options.picture.c_str());
  }
  std::printf("result: squared distance to the truth: weights %.4f, their moving average %.4f, their mean %.4f\n", last,
              moving, equal);
  return checks.exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  const auto add = [&](sample::CommandLine& line) {
    line.add("--steps", options.steps, "of training; 1000 with --quick", 100, 100000000);
    line.add("--learning-rate", options.learning_rate, "constant over the run");
    line.add("--decay", options.decay, "how much of an average stays in each step");
    line.add_picture("moving_averages.svg");
  };
  return sample::run(argc, argv, "Averages the weights of a model over the steps of training.", options, add, [&] {
    if (options.quick && options.steps > 1000) options.steps = 1000;
    return run(options);
  });
}
