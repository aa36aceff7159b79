// 24_schedules: learning rates that change over a run, and what they are good for.
// Shows: schedules as plain functions of the step, schedules made of schedules, attaching one to an optimizer, the same
//        run under each of them.
// Prints: exponential decay beside its staircase, step by step; for each schedule the error that a small network ends
//         with, learning a sine from noisy points. Draws all rates and all errors.
// Fails:  if 0.1 does not decay as 0.1 * 0.9^(n/10), with and without floor(n/10); if the optimizer does not use the
//         schedule's rate; unless each that comes to rest ends with less than half the error of the constant rate.
#include <capstan/capstan.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "samples/sample.hpp"
#include "tools/chart.hpp"

namespace cs = capstan;
namespace optim = capstan::optim;

/// One number in, one out.
struct Net {
  cs::nn::Linear hidden{1, 32}, out{32, 1};
  cs::Tensor operator()(const cs::Tensor& x) const { return out(cs::tanh(hidden(x))); }  // [batch, 1] -> [batch, 1]
};

namespace {

constexpr std::int64_t kBatch = 16;
constexpr double kNoise = 0.3;

struct Options : sample::Flags {
  std::int64_t steps = 3000;
  double learning_rate = 0.2;
};

struct Named {
  std::string name;
  optim::Schedule rate;
  bool settles = true;  ///< whether it comes to rest at the end, so that the noise averages out
};

/// All for runs of `steps` steps. Each is a function: `rate(0)`, `rate(1)`, ...
std::vector<Named> schedules(double rate, std::int64_t steps) {
  const optim::DecayOptions smooth = {.decay_rate = 0.9, .steps = steps / 25};
  const optim::DecayOptions staircase = {.decay_rate = 0.9, .steps = steps / 25, .staircase = true};
  const std::int64_t warm_up = steps / 20;
  return {
      {"constant", optim::constant(rate), false},
      {"exponential decay", optim::exponential_decay(rate, smooth)},
      {"the same as a staircase", optim::exponential_decay(rate, staircase)},
      {"polynomial decay", optim::polynomial_decay(rate, {.steps = steps, .power = 2})},
      {"cosine", optim::cosine_decay(rate, {.steps = steps, .once = true})},
      {"warm-up and cosine",
       optim::warm_up(optim::cosine_decay(rate, {.steps = steps - warm_up, .once = true}), warm_up)},
      {"cosine with restarts", optim::cosine_restarts(rate, {.steps = steps / 7 + 1, .growth = 2}), false},
      {"one cycle", optim::one_cycle(rate, {.steps = steps})},
      {"your own", [=](std::int64_t step) { return step < steps / 2 ? rate : rate / 20; }, false},
  };
}

/// Rate 0.1, and 0.9 of it after each 10 steps.
void published_decay(sample::Checks& checks) {
  const optim::Schedule smooth = optim::exponential_decay(0.1, {.decay_rate = 0.9, .steps = 10});
  const optim::Schedule stairs = optim::exponential_decay(0.1, {.decay_rate = 0.9, .steps = 10, .staircase = true});
  for (std::int64_t n = 0; n <= 30; ++n) {
    const double tenths = static_cast<double>(n) / 10;
    if (n % 5 == 0) std::printf("step %2d: %.6f, staircase %.6f\n", static_cast<int>(n), smooth(n), stairs(n));
    checks.expect(std::abs(smooth(n) - 0.1 * std::pow(0.9, tenths)) < 1e-12, "0.1 * 0.9^(n/10)");
    checks.expect(std::abs(stairs(n) - 0.1 * std::pow(0.9, std::floor(tenths))) < 1e-12, "0.1 * 0.9^floor(n/10)");
  }
}

cs::Tensor target_of(const cs::Tensor& x) { return cs::sin(3 * x); }

/// Trains a fresh network; returns its errors over the steps, without noise.
tools::Series train(const Named& schedule, const Options& options, sample::Log& log, sample::Checks& checks) {
  cs::seed(options.seed);  // all begin with the same weights and see the same points
  Net net;
  optim::Sgd sgd(cs::nn::parameters(net), {.learning_rate = options.learning_rate, .momentum = 0.9});
  sgd.attach(schedule.rate);
  const cs::Tensor grid = cs::reshape(cs::linspace(-1, 1, 201), {201, 1}), truth = target_of(grid);
  tools::Series errors{schedule.name, {}, {}};
  auto progress = cs::progress(options.steps, schedule.name);
  for (const std::int64_t step : progress) {
    const cs::Tensor x = cs::uniform({kBatch, 1}, -1, 1);
    const cs::Tensor target = target_of(x) + cs::normal({kBatch, 1}, 0, kNoise);
    cs::GradientTape tape;
    const cs::Tensor loss = cs::mse_loss(net(x), target);
    sgd.apply(tape.gradient(loss, sgd.parameters()));
    if ((step + 1) % 10 != 0) continue;
    checks.expect(sgd.learning_rate() == schedule.rate(step), "the optimizer has the schedule's rate");
    const double error = cs::mse_loss(net(grid), truth).item<float>();
    errors.add(static_cast<double>(step + 1), error);
    log.scalar(("error/" + schedule.name).c_str(), error, step + 1);
    log.scalar(("rate/" + schedule.name).c_str(), sgd.learning_rate(), step + 1);
    progress.set("error", error);
  }
  return errors;
}

tools::Series rates_of(const Named& schedule, std::int64_t steps) {
  tools::Series rates{schedule.name, {}, {}};
  for (std::int64_t step = 0; step < steps; ++step) rates.add(static_cast<double>(step), schedule.rate(step));
  return rates;
}

/// Over the last tenth of a run: single steps jump about.
double last_error(const tools::Series& errors) {
  const std::size_t begin = errors.y.size() - errors.y.size() / 10;
  double sum = 0;
  for (std::size_t i = begin; i < errors.y.size(); ++i) sum += errors.y[i];
  return sum / static_cast<double>(errors.y.size() - begin);
}

int run(const Options& options) {
  sample::Checks checks;
  sample::Log log(options);
  published_decay(checks);

  tools::Chart chart{"Learning rates, and where they lead", "step", {}};
  chart.shared_legend = true;
  chart.panels.push_back({.label = "learning rate"});
  chart.panels.push_back({.label = "error", .log_scale = true});
  double constant = 0, best = 0;
  std::string name_of_best;
  std::printf("the error at the end of %d steps:\n", static_cast<int>(options.steps));
  for (const Named& schedule : schedules(options.learning_rate, options.steps)) {
    const tools::Series errors = train(schedule, options, log, checks);
    const double error = last_error(errors);
    std::printf("  %-24s %.4f\n", schedule.name.c_str(), error);
    if (name_of_best.empty()) constant = error;  // the first of the list
    if (name_of_best.empty() || error < best) {
      best = error;
      name_of_best = schedule.name;
    }
    if (schedule.settles)
      checks.expect(error < 0.5 * constant, schedule.name + ": half the error of the constant rate");
    chart.panels[0].series.push_back(rates_of(schedule, options.steps));
    chart.panels[1].series.push_back(errors);
  }
  if (!options.picture.empty()) {
    tools::write_svg(options.picture, chart);
    std::printf("the curves are in %s\n", options.picture.c_str());
  }
  std::printf("result: error %.4f at a constant rate, %.4f with the best schedule (%s)\n", constant, best,
              name_of_best.c_str());
  return checks.exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  const auto add = [&](sample::CommandLine& line) {
    line.add("--steps", options.steps, "of each run; 600 with --quick", 200, 100000000);
    line.add("--learning-rate", options.learning_rate, "the highest one");
    line.add_picture("schedules.svg");
  };
  return sample::run(argc, argv, "Trains a network under different learning-rate schedules.", options, add, [&] {
    if (options.quick && options.steps > 600) options.steps = 600;
    return run(options);
  });
}
