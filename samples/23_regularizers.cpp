// 23_regularizers: a polynomial of degree 15 through 20 noisy points, held back by a penalty on its weights, or not.
// Shows: penalties added to a loss, what L1 and L2 make of the same weights, a rate that falls to 0, and that L2 is the
//        weight decay of plain gradient descent.
// Prints: for each fit its error at the points and between them, the size of the weights and how many are 0. Draws the
//         curves and the weights.
// Fails:  unless both penalties come nearer to the truth than no penalty, L1 to half the error; unless L1 sets at least
//         5 of the 16 weights to 0 and L2 makes their norm smaller; or if a step with L2 is not one with weight decay.
#include <capstan/capstan.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "samples/sample.hpp"
#include "tools/chart.hpp"

namespace cs = capstan;
namespace regularizer = capstan::nn::regularizer;

constexpr std::int64_t kDegree = 15, kPoints = 20;

/// A sum of Chebyshev's polynomials.
struct Polynomial {
  cs::Parameter weights{cs::zeros({kDegree + 1})};
  cs::Tensor operator()(const cs::Tensor& features) const { return cs::matmul(features, weights); }  // [n, 16] -> [n]
};

namespace {

constexpr double kNoise = 0.3, kRate = 0.05, kSmall = 0.01;

struct Options : sample::Flags {
  std::int64_t steps = 3000;
  double strength = 0.05;
};

/// T_k(x) = cos(k acos(x)): [n] in [-1, 1] -> [n, 16].
cs::Tensor chebyshev(const cs::Tensor& x) {
  const cs::Tensor degrees = cs::arange(0, kDegree + 1, 1, {.dtype = cs::DType::float32});
  return cs::cos(cs::expand_dims(cs::acos(x), 1) * degrees);
}

/// What made the points: two of the 16 polynomials.
cs::Tensor true_weights() {
  cs::Tensor weights = cs::zeros({kDegree + 1});
  weights.set(1.0f, 1);
  weights.set(-0.7f, 4);
  return weights;
}

struct Points {
  cs::Tensor features, y;  // [n, 16], [n]
};

struct Fit {
  std::string name;
  Polynomial polynomial = {};
  double at_points = 0, between = 0, norm = 0;
  std::int64_t zeros = 0;  ///< weights that are next to 0
};

/// `measured` has noise; `truth` is what lies below it, also between the points.
Fit fit(const std::string& name, const cs::nn::Regularizer& penalty, const Points& measured, const Points& truth,
        const Options& options, sample::Log& log) {
  Fit result{.name = name};
  Polynomial& polynomial = result.polynomial;
  cs::optim::Adam adam(cs::nn::parameters(polynomial), {.learning_rate = kRate});
  adam.attach(cs::optim::cosine_decay(kRate, {.steps = options.steps, .once = true}));
  auto progress = cs::progress(options.steps, name);
  for (const std::int64_t step : progress) {
    cs::GradientTape tape;
    const cs::Tensor error = cs::mse_loss(polynomial(measured.features), measured.y);
    adam.apply(tape.gradient(error + penalty(polynomial.weights), adam.parameters()));
    if ((step + 1) % 100 != 0) continue;
    const double error_value = error.item<float>();
    log.scalar(("error/" + name).c_str(), error_value, step + 1);
    progress.set("error", error_value);
  }
  result.at_points = cs::mse_loss(polynomial(measured.features), measured.y).item<float>();
  result.between = cs::mse_loss(polynomial(truth.features), truth.y).item<float>();
  result.norm = cs::vector_norm(polynomial.weights).item<float>();
  result.zeros = cs::count_nonzero(cs::abs(polynomial.weights) < kSmall).item<std::int64_t>();
  return result;
}

/// The gradient of strength * sum(w * w) is 2 * strength * w: what `weight_decay` adds. Adam would divide it by the
/// size of the gradients; the decay of AdamW is kept apart from them.
void l2_is_weight_decay(const Points& measured, const Options& options, sample::Checks& checks) {
  Polynomial penalized, decayed;
  penalized.weights.fill(1);
  decayed.weights.fill(1);
  cs::optim::Sgd plain(cs::nn::parameters(penalized), {.learning_rate = 0.1});
  cs::optim::Sgd decaying(cs::nn::parameters(decayed), {.learning_rate = 0.1, .weight_decay = 2 * options.strength});
  {
    cs::GradientTape tape;
    const cs::Tensor loss =
        cs::mse_loss(penalized(measured.features), measured.y) + regularizer::l2(options.strength)(penalized.weights);
    plain.apply(tape.gradient(loss, plain.parameters()));
  }
  {
    cs::GradientTape tape;
    const cs::Tensor loss = cs::mse_loss(decayed(measured.features), measured.y);
    decaying.apply(tape.gradient(loss, decaying.parameters()));
  }
  checks.expect(cs::all_close(penalized.weights, decayed.weights, 1e-5, 1e-6), "L2 is weight decay of twice its size");
}

tools::Series series(const std::string& name, const cs::Tensor& x, const cs::Tensor& y) {
  return {name, cs::cast(x, cs::DType::float64).to_vector<double>(),
          cs::cast(y, cs::DType::float64).to_vector<double>()};
}

void draw(const std::string& path, const std::vector<Fit>& fits, const cs::Tensor& x, const Points& measured,
          const cs::Tensor& between, const Points& truth) {
  tools::Chart chart{"Polynomials of degree 15 through 20 noisy points", "x; below: degree", {}};
  chart.shared_x = false;
  chart.shared_legend = true;
  const cs::Tensor degrees = cs::arange(kDegree + 1);
  tools::Panel curves{.label = "y", .low = -3, .high = 3, .series = {series("measured", x, measured.y)}};
  curves.series.front().dots = true;
  tools::Panel weights{.label = "weights", .series = {series("truth", degrees, true_weights())}};
  curves.series.push_back(series("truth", between, truth.y));
  for (const Fit& each : fits) {
    curves.series.push_back(series(each.name, between, each.polynomial(truth.features)));
    weights.series.push_back(series(each.name, degrees, each.polynomial.weights));
  }
  chart.panels = {curves, weights};
  tools::write_svg(path, chart);
  std::printf("the curves are in %s\n", path.c_str());
}

int run(const Options& options) {
  const cs::Tensor x = cs::sort(cs::uniform({kPoints}, -1, 1)), between = cs::linspace(-1, 1, 201);
  const cs::Tensor weights = true_weights();
  const Points truth = {chebyshev(between), cs::matmul(chebyshev(between), weights)};
  const Points measured = {chebyshev(x), cs::matmul(chebyshev(x), weights) + cs::normal({kPoints}, 0, kNoise)};

  sample::Log log(options);
  const std::vector<Fit> fits = {
      fit("no penalty", regularizer::l1_l2(0, 0), measured, truth, options, log),
      fit("L1", regularizer::l1(options.strength), measured, truth, options, log),
      fit("L2", regularizer::l2(options.strength), measured, truth, options, log),
  };
  std::printf("%-12s %12s %12s %8s %8s\n", "", "at points", "between", "norm", "zeros");
  for (const Fit& each : fits)
    std::printf("%-12s %12.4f %12.4f %8.3f %8d\n", each.name.c_str(), each.at_points, each.between, each.norm,
                static_cast<int>(each.zeros));
  if (!options.picture.empty()) draw(options.picture, fits, x, measured, between, truth);

  sample::Checks checks;
  const Fit &none = fits[0], &l1 = fits[1], &l2 = fits[2];
  checks.expect(none.at_points < l1.at_points && none.at_points < l2.at_points, "without a penalty it fits the noise");
  checks.expect(l1.between < 0.5 * none.between, "L1 has less than half the error between the points");
  checks.expect(l2.between < none.between, "L2 has a smaller error between the points");
  checks.expect(l1.zeros >= 5 && l1.zeros > none.zeros && l1.zeros > l2.zeros, "L1 sets the most weights to 0");
  checks.expect(l2.norm < none.norm, "L2 makes weights smaller");
  l2_is_weight_decay(measured, options, checks);
  std::printf("result: error %.4f without a penalty, %.4f with L1, %.4f with L2; L1 sets %d of %d weights to 0\n",
              none.between, l1.between, l2.between, static_cast<int>(l1.zeros), static_cast<int>(kDegree + 1));
  return checks.exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  const auto add = [&](sample::CommandLine& line) {
    line.add("--steps", options.steps, "of each fit; 600 with --quick", 100, 100000000);
    line.add("--strength", options.strength, "of the penalties");
    line.add_picture("regularizers.svg");
  };
  return sample::run(argc, argv, "Fits a polynomial with and without penalties on its weights.", options, add, [&] {
    if (options.quick && options.steps > 600) options.steps = 600;
    return run(options);
  });
}
