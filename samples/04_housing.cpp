// 04_housing: linear regression of house prices in California, by the normal equation and by three kinds of gradient
// descent that must agree with it; then by mini-batches, in a run that is broken off and continued.
// Shows: a table by name, linear algebra, a gradient written by hand beside the tape's, SGD with momentum, a pipeline
//        of shuffled batches, a schedule, a checkpoint of model, optimizer and pipeline, metrics, curves in a picture.
// Prints: the root of the mean squared error in dollars of each way, 69,513.46 for the exact solution; R2 0.637106.
// Fails:  if that is not so; if the gradients by hand and by tape lead to weights further apart than 1e-9 (of 100,000
//         dollars), or momentum's are not the exact ones to 1e-6; if plain descent is off by 0.05 dollars, or
//         mini-batches by 0.2 %; if the continued run differs from the one that went through in any bit. --quick takes
//         a fifth of the steps, with bounds of 30 dollars, 1e-3 and 2 %.
#include <capstan/capstan.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "samples/sample.hpp"
#include "tools/chart.hpp"

namespace cs = capstan;
namespace data = capstan::data;

constexpr std::int64_t kColumns = 9;  // of the table, and one of ones, whose weight is the price of the average house

struct LinearModel {
  cs::Parameter weight{cs::zeros({kColumns}, {.dtype = cs::DType::float64})};

  cs::Tensor operator()(const cs::Tensor& x) const { return cs::matmul(x, weight); }  // [rows, 9] -> [rows]
};

namespace {

constexpr double kDollars = 1e5;  // one of prices
constexpr double kExactError = 69513.46, kExactR2 = 0.637106;
constexpr std::int64_t kWatchEvery = 10;

struct Options : sample::Flags {
  std::string folder;
  std::int64_t steps = 1000, epochs = 10, batch = 100;
  double rate = 0.2, momentum_rate = 0.1, momentum = 0.9, batch_rate = 0.05;
};

struct Housing {
  cs::Tensor x;  // [20640, 9]: standardized, ones first
  cs::Tensor y;  // [20640]
};

Housing read_housing(const std::string& folder) {
  const data::NumberTable table = data::california_housing(folder);
  const cs::Tensor inputs = table.inputs.to(cs::DType::float64);
  const cs::Tensor scaled = (inputs - cs::mean(inputs, 0)) / cs::std(inputs, 0);
  const cs::Tensor ones = cs::ones({inputs.size(0), 1}, {.dtype = cs::DType::float64});
  return {cs::concat({ones, scaled}, 1), table.targets.to(cs::DType::float64) / kDollars};
}

/// In dollars.
double error_of(const Housing& housing, const cs::Tensor& weight) {
  cs::metrics::RootMeanSquaredError error;
  error.update(cs::matmul(housing.x, weight), housing.y);
  return kDollars * error.result();
}

double distance(const cs::Tensor& a, const cs::Tensor& b) { return cs::max(cs::abs(a - b)).item<double>(); }

/// The error in the course of training.
class Curve {
 public:
  Curve(std::string name, const Housing& housing, sample::Log& log) : housing_(housing), log_(log) {
    series_.name = std::move(name);
  }
  void add(std::int64_t step, const cs::Tensor& weight) {
    const double error = error_of(housing_, weight);
    series_.add(static_cast<double>(step), error);
    log_.scalar(("error/" + series_.name).c_str(), error, step);
  }
  const tools::Series& series() const { return series_; }

 private:
  const Housing& housing_;
  sample::Log& log_;
  tools::Series series_;
};

// --- four ways to the same weights -------------------------------------------------------------------------------

/// X^T X w = X^T y.
cs::Tensor by_normal_equation(const Housing& housing) {
  const cs::Tensor transposed = cs::transpose(housing.x);
  return cs::solve(cs::matmul(transposed, housing.x), cs::matmul(transposed, housing.y));
}

/// The gradient of mean((X w - y)^2) is 2 X^T (X w - y) / rows.
cs::Tensor by_hand(const Housing& housing, const Options& options, Curve& curve) {
  cs::Tensor weight = cs::zeros({kColumns}, {.dtype = cs::DType::float64});
  const double factor = 2 * options.rate / static_cast<double>(housing.y.size(0));
  for (const std::int64_t step : cs::progress(options.steps, "by hand")) {
    if (step % kWatchEvery == 0) curve.add(step, weight);
    const cs::Tensor residuals = cs::matmul(housing.x, weight) - housing.y;
    weight -= factor * cs::matmul(cs::transpose(housing.x), residuals);
  }
  return weight;
}

/// The same with the gradient of a tape, by an optimizer, with momentum or without.
cs::Tensor by_tape(const char* title, const Housing& housing, std::int64_t steps, const cs::optim::SgdOptions& options,
                   Curve& curve) {
  LinearModel model;
  cs::optim::Sgd sgd(cs::nn::parameters(model), options);
  for (const std::int64_t step : cs::progress(steps, title)) {
    if (step % kWatchEvery == 0) curve.add(step, model.weight);
    cs::GradientTape tape;
    const cs::Tensor loss = cs::mse_loss(model(housing.x), housing.y);
    sgd.apply(tape.gradient(loss, sgd.parameters()));
  }
  return model.weight;
}

// --- mini-batches ------------------------------------------------------------------------------------------------

/// All that a run needs to go on.
struct Run {
  LinearModel model;
  cs::optim::Sgd sgd;
  data::Pipeline<Housing> batches;

  Run(const Housing& housing, const Options& options)
      : sgd(cs::nn::parameters(model), {.learning_rate = options.batch_rate}),
        batches(data::from(housing) | data::shuffle(housing.y.size(0), {.seed = options.seed}) |
                data::batch(options.batch, {.drop_rest = true}) | data::repeat(options.epochs)) {
    sgd.attach(cs::optim::cosine_decay(options.batch_rate, {.steps = batches.size(), .once = true}));
  }
  cs::io::CheckpointParts parts() { return {.model = model, .optimizer = sgd, .data = batches}; }
};

/// From `step` to the end. Saves a checkpoint about half way, in the middle of an epoch.
void train(const char* title, Run& run, std::int64_t step, cs::io::CheckpointManager& checkpoints, Curve& curve) {
  const std::int64_t half_way = run.batches.size() * 11 / 20;
  for (const auto& [x, y] : cs::progress(run.batches, title, {.start = step})) {
    if (step % kWatchEvery == 0) curve.add(step, run.model.weight);
    cs::GradientTape tape;
    const cs::Tensor loss = cs::mse_loss(run.model(x), y);
    run.sgd.apply(tape.gradient(loss, run.sgd.parameters()));
    ++step;
    if (step == half_way) checkpoints.save(step, run.parts());
  }
}

/// One run from the beginning to the end, and one that begins where the checkpoint was: both weights.
std::pair<cs::Tensor, cs::Tensor> by_mini_batches(const Housing& housing, const Options& options, Curve& whole_curve,
                                                  Curve& continued_curve, sample::Checks& checks) {
  const sample::TemporaryFolder folder;
  cs::io::CheckpointManager checkpoints(folder.path);
  Run whole(housing, options);
  train("mini-batches", whole, 0, checkpoints, whole_curve);

  Run continued(housing, options);  // as another program would, later
  const std::int64_t step = checkpoints.restore_latest(continued.parts());
  checks.expect(step > 0, "the continued run begins where the checkpoint was");
  train("continued", continued, step, checkpoints, continued_curve);
  return {whole.model.weight, continued.model.weight};
}

void draw(const std::string& path, const std::vector<const Curve*>& curves) {
  tools::Chart chart{"Prices of houses in California: the error of a linear model", "step", {}};
  chart.panels.push_back(
      {.label = "batch gradient descent: dollars", .log_scale = true, .low = 69000, .high = 250000, .series = {}});
  chart.panels.push_back(
      {.label = "mini-batches: dollars", .log_scale = true, .low = 69000, .high = 250000, .series = {}});
  for (std::size_t i = 0; i < curves.size(); ++i) chart.panels[i / 3].series.push_back(curves[i]->series());
  chart.shared_x = false;
  tools::write_svg(path, chart);
  std::printf("the curves are in %s\n", path.c_str());
}

int run(const Options& options) {
  const Housing housing = read_housing(sample::data_folder("california_housing", options.folder));
  sample::Log log(options);
  Curve hand("by hand", housing, log), tape("by tape", housing, log), momentum("with momentum", housing, log);
  Curve batches("mini-batches", housing, log), continued("continued from the checkpoint", housing, log);

  const cs::Tensor exact = by_normal_equation(housing);
  const cs::Tensor w_hand = by_hand(housing, options, hand);
  const cs::Tensor w_tape = by_tape("by tape", housing, options.steps, {.learning_rate = options.rate}, tape);
  const cs::Tensor w_momentum =
      by_tape("with momentum", housing, options.steps,
              {.learning_rate = options.momentum_rate, .momentum = options.momentum}, momentum);
  sample::Checks checks;
  const auto [w_batches, w_continued] = by_mini_batches(housing, options, batches, continued, checks);

  cs::metrics::R2 r2;
  r2.update(cs::matmul(housing.x, exact), housing.y);
  const double exact_error = error_of(housing, exact), batch_error = error_of(housing, w_batches);
  std::printf("%-28s%12s%28s\n", "", "dollars", "weights off by, at most");
  const auto row = [&](const char* name, const cs::Tensor& weight) {
    std::printf("%-28s%12.4f%28.1e\n", name, error_of(housing, weight), distance(weight, exact));
  };
  row("normal equation", exact);
  row("gradient by hand", w_hand);
  row("gradient by tape", w_tape);
  row("with momentum", w_momentum);
  row("mini-batches", w_batches);
  row("... continued in the middle", w_continued);
  if (!options.picture.empty()) draw(options.picture, {&hand, &tape, &momentum, &batches, &continued});

  checks.expect(std::abs(exact_error - kExactError) < 0.05, "the exact solution's error is 69,513.46 dollars");
  checks.expect(std::abs(r2.result() - kExactR2) < 1e-5, "its R2 is 0.637106");
  checks.expect(distance(w_hand, w_tape) < 1e-9, "gradients by hand and by tape lead to the same weights");
  checks.expect(error_of(housing, w_hand) - exact_error < (options.quick ? 30 : 0.05),
                "gradient descent comes to the exact solution's error");
  checks.expect(distance(w_momentum, exact) < (options.quick ? 1e-3 : 1e-6), "momentum comes to the exact weights");
  checks.expect(batch_error < (options.quick ? 1.02 : 1.002) * exact_error, "mini-batches come close to it");
  checks.expect(cs::array_equal(w_batches, w_continued), "the continued run is the one that went through, bit for bit");
  std::printf(
      "result: exactly %.2f dollars, R2 %.6f; with momentum %.1e from the exact weights, mini-batches %.2f dollars\n",
      exact_error, r2.result(), distance(w_momentum, exact), batch_error);
  return checks.exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  const auto add = [&](sample::CommandLine& line) {
    line.add("--data", options.folder, "folder of cal_housing.data");
    line.add("--steps", options.steps, "of batch gradient descent", 1);
    line.add("--epochs", options.epochs, "of mini-batches", 1);
    line.add("--batch", options.batch, "rows in a mini-batch", 1, 10000);
    line.add("--learning-rate", options.rate, "of batch gradient descent without momentum");
    line.add_picture("housing.svg");
  };
  return sample::run(argc, argv, "Linear regression of house prices in four ways that agree, and by mini-batches.",
                     options, add, [&] {
                       if (options.quick) {
                         options.steps = std::min<std::int64_t>(options.steps, 200);
                         options.epochs = std::min<std::int64_t>(options.epochs, 2);
                       }
                       return run(options);
                     });
}
