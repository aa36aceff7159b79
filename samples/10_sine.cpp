// 10_sine: an LSTM of 10 units hears a sine wave and says the cosine.
// Shows: a regression on sequences; a state that is carried from batch to batch, each of which goes on where the one
//        before ended, so that 20 steps are enough for waves that are ten times as long.
// Prints: the progress, and the mean squared error over the ten batches behind the last one that was learnt from.
//         Draws the cosine and what the network says, as training begins and after it: then the curves overlap.
// Fails:  if that error exceeds 0.05; 0.5 is what one gets for saying 0. --quick is the same run: it takes a second.
#include <capstan/capstan.hpp>

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
namespace nn = capstan::nn;

constexpr std::int64_t kUnits = 10, kSteps = 20, kBatch = 50;
constexpr std::int64_t kShown = 10;  // batches in each part of the picture: one wave
constexpr double kWorst = 0.05;      // mean squared error

struct SineToCosine {
  nn::Linear in{1, kUnits, {.weight_init = nn::init::normal(0, 1), .bias_init = nn::init::constant(0.1)}};
  nn::LstmCell cell{kUnits, kUnits};
  nn::Linear out{kUnits, 1, {.weight_init = nn::init::normal(0, 1), .bias_init = nn::init::constant(0.1)}};

  struct Result {
    cs::Tensor cosine;
    nn::LstmCell::State state;
  };
  Result operator()(const cs::Tensor& sine, const nn::LstmCell::State& before) {  // [batch, steps, 1] both ways
    auto [outputs, after] = nn::unroll(cell, in(sine), {.initial_state = before});
    return {out(outputs), after};
  }
};

namespace {

struct Options : sample::Flags {
  std::int64_t steps = 200;
  double learning_rate = 0.006;
};

/// The first row of some batches, which is one long piece of the wave.
struct Curves {
  tools::Series right{"cosine", {}, {}}, said{"network", {}, {}};

  void add(const data::SineBatch& wave, const cs::Tensor& answers) {
    const std::vector<double> angles = wave.angles[0].to_vector<double>();
    const std::vector<float> cosines = wave.targets[0].to_vector<float>(), row = answers[0].to_vector<float>();
    for (std::size_t i = 0; i < angles.size(); ++i) {
      right.add(angles[i], cosines[i]);
      said.add(angles[i], row[i]);
    }
  }
};

/// Row b of a batch begins where row b of the batch before ended.
data::SineBatch wave_at(std::int64_t number) { return data::sine(number * kSteps, {.batch = kBatch, .steps = kSteps}); }

/// Trains and returns the state after the last batch.
nn::LstmCell::State train(SineToCosine& net, const Options& options, Curves& beginning) {
  cs::optim::Adam adam(nn::parameters(net), {.learning_rate = options.learning_rate});
  sample::Log log(options);
  nn::LstmCell::State state = net.cell.zero_state(kBatch);
  auto progress = cs::progress(options.steps, "sine");
  for (const std::int64_t step : progress) {
    const data::SineBatch wave = wave_at(step);
    cs::GradientTape tape;
    const auto [cosine, after] = net(wave.inputs, state);
    const cs::Tensor loss = cs::mse_loss(cosine, wave.targets);
    adam.apply(tape.gradient(loss, adam.parameters()));
    state = cs::stop_gradient(after);

    if (step < kShown) beginning.add(wave, cosine);
    if ((step + 1) % 20 != 0) continue;
    const double error = loss.item<float>();
    log.scalar("mean squared error", error, step + 1);
    progress.set("error", error);
  }
  return state;
}

/// Goes on with the wave where training ended, without learning. Returns the mean squared error.
double test(SineToCosine& net, nn::LstmCell::State state, std::int64_t first, Curves& end) {
  cs::metrics::MeanSquaredError error;
  for (std::int64_t number = first; number < first + kShown; ++number) {
    const data::SineBatch wave = wave_at(number);
    const auto [cosine, after] = net(wave.inputs, state);
    error.update(cosine, wave.targets);
    end.add(wave, cosine);
    state = after;
  }
  return error.result();
}

void draw(const std::string& path, Curves beginning, Curves end) {
  tools::Chart chart{"From the sine to the cosine, by an LSTM of 10 units", "angle in radians", {}};
  chart.shared_x = false;
  chart.panels.push_back(
      {.label = "the first steps", .series = {std::move(beginning.right), std::move(beginning.said)}});
  chart.panels.push_back({.label = "after training", .series = {std::move(end.right), std::move(end.said)}});
  tools::write_svg(path, chart);
  std::printf("the curves are in %s\n", path.c_str());
}

int run(const Options& options) {
  SineToCosine net;
  Curves beginning, end;
  const nn::LstmCell::State state = train(net, options, beginning);
  const double error = test(net, state, options.steps, end);
  if (!options.picture.empty()) draw(options.picture, std::move(beginning), std::move(end));

  sample::Checks checks;
  checks.expect(error <= kWorst, "the curves overlap: a mean squared error of at most 0.05");
  std::printf("result: mean squared error %.5f over one wave after %lld steps of training\n", error,
              static_cast<long long>(options.steps));
  return checks.exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  return sample::run(
      argc, argv, "Teaches an LSTM to tell the cosine from the sine.", options,
      [&](sample::CommandLine& line) {
        line.add_picture("sine.svg");
        line.add("--steps", options.steps, "training steps", 1);
        line.add("--learning-rate", options.learning_rate, "of Adam");
      },
      [&] { return run(options); });
}
