// 09_echo: a recurrent network of four units says every bit that it hears again, three steps later.
// Shows: truncated back-propagation through time: long rows are read in windows of 15 steps, the state is carried from
//        window to window, gradients reach back to where the window begins and no further. Adagrad, a made-up data set.
// Prints: the progress, a row of bits with the network's echo, the loss of the last pass, and how many bits of a fresh
//         series of 50,000 are right: all but the first few of each row. Draws the loss, which falls to nearly 0.
// Fails:  if the loss of the last pass exceeds 0.002 or fewer than 99.9 % of the fresh bits are right; with --quick, a
//         tenth of the passes, 0.1 and 98 %. Who guesses has a loss of 0.69 and half of the bits.
#include <capstan/capstan.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "samples/sample.hpp"
#include "tools/chart.hpp"

namespace cs = capstan;
namespace data = capstan::data;
namespace nn = capstan::nn;

constexpr std::int64_t kUnits = 4, kDelay = 3, kRows = 5, kWindow = 15;

/// All that it has to remember is the last three bits.
struct EchoNet {
  nn::RnnCell cell{1, kUnits, {.input_init = nn::init::uniform(0, 1), .recurrent_init = nn::init::uniform(0, 1)}};
  nn::Linear out{kUnits, 2, {.weight_init = nn::init::uniform(0, 1)}};

  struct Result {
    cs::Tensor logits;
    nn::RnnCell::State state;
  };
  Result operator()(const cs::Tensor& bits, const nn::RnnCell::State& before) {  // [rows, steps, 1] -> [rows, steps, 2]
    auto [outputs, after] = nn::unroll(cell, bits, {.initial_state = before});
    return {out(outputs), after};
  }
};

namespace {

struct Options : sample::Flags {
  std::int64_t passes = 100, bits = 50000;
  double learning_rate = 0.3;
};

/// The bits in five rows that are read side by side.
data::EchoBatch series_of(const Options& options, cs::Rng& rng) {
  return data::echo(kRows, options.bits / kRows, kDelay, rng);
}

/// One pass over a series, window by window. Returns the mean loss of every tenth window.
double train(EchoNet& net, cs::optim::Adagrad& adagrad, const data::EchoBatch& series, tools::Series& curve) {
  cs::metrics::Mean mean_loss;
  nn::RnnCell::State state = net.cell.zero_state(kRows);
  const std::int64_t windows = series.targets.size(1) / kWindow;
  for (std::int64_t window = 0; window < windows; ++window) {
    const cs::Tensor bits = cs::narrow(series.inputs, 1, window * kWindow, kWindow);
    const cs::Tensor echo = cs::narrow(series.targets, 1, window * kWindow, kWindow);
    cs::GradientTape tape;
    const auto [logits, after] = net(bits, state);
    const cs::Tensor loss = cs::mean(cs::sparse_softmax_cross_entropy(logits, echo));
    adagrad.apply(tape.gradient(loss, adagrad.parameters()));
    state = cs::stop_gradient(after);  // the next window goes on from here, its gradients do not

    if (window % 10 != 0) continue;
    mean_loss.update(loss);
    curve.add(static_cast<double>(adagrad.steps()), loss.item<float>());
  }
  return mean_loss.result();
}

/// The share of the bits that come back right, of a whole series at once.
double test(EchoNet& net, const data::EchoBatch& series) {
  cs::metrics::Accuracy accuracy;
  accuracy.update(net(series.inputs, net.cell.zero_state(kRows)).logits, series.targets);
  return accuracy.result();
}

std::string digits(const cs::Tensor& bits) {
  std::string text;
  for (const std::int64_t bit : cs::cast(bits, cs::DType::int64).to_vector<std::int64_t>())
    text += bit == 1 ? '1' : '0';
  return text;
}

void show_one_row(EchoNet& net, const data::EchoBatch& series) {
  const cs::Tensor bits = cs::narrow(series.inputs, 1, 0, 60);
  const cs::Tensor echo = cs::argmax(net(bits, net.cell.zero_state(kRows)).logits, 2);
  std::printf("heard  %s\necho   %s\n", digits(bits[0]).c_str(), digits(echo[0]).c_str());
}

void draw(const std::string& path, tools::Series curve) {
  tools::Chart chart{"Echo of a bit after three steps, by a recurrent network of 4 units", "window of 15 steps", {}};
  chart.panels.push_back({.label = "cross entropy of a bit", .log_scale = true, .series = {std::move(curve)}});
  tools::write_svg(path, chart);
  std::printf("the curve is in %s\n", path.c_str());
}

int run(Options options) {
  if (options.quick) options.passes = std::min<std::int64_t>(options.passes, 10);
  cs::Rng rng = cs::Rng(options.seed).stream(1);
  EchoNet net;
  cs::optim::Adagrad adagrad(nn::parameters(net), {.learning_rate = options.learning_rate, .initial_accumulator = 0.1});
  sample::Log log(options);
  tools::Series curve{"", {}, {}};
  double loss = 0;
  auto progress = cs::progress(options.passes, "echo");
  for (const std::int64_t pass : progress) {
    loss = train(net, adagrad, series_of(options, rng), curve);  // every pass has bits of its own
    log.scalar("loss", loss, pass + 1);
    progress.set("loss", loss);
  }

  const data::EchoBatch fresh = series_of(options, rng);
  const double right = test(net, fresh);
  show_one_row(net, fresh);
  if (!options.picture.empty()) draw(options.picture, std::move(curve));

  sample::Checks checks;
  checks.expect(loss <= (options.quick ? 0.1 : 0.002), "the loss falls to nearly 0");
  checks.expect(right >= (options.quick ? 0.98 : 0.999), "nearly all fresh bits come back right");
  std::printf("result: loss %.5f in pass %lld, %.3f %% of the fresh bits right, %.1f s\n", loss,
              static_cast<long long>(options.passes), 100 * right, progress.seconds());
  return checks.exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  return sample::run(
      argc, argv, "Teaches a small recurrent network to say bits again three steps later.", options,
      [&](sample::CommandLine& line) {
        line.add_picture("echo.svg");
        line.add("--passes", options.passes, "series to learn from", 1);
        line.add("--bits", options.bits, "of a series, in five rows", 300, 100000000);
        line.add("--learning-rate", options.learning_rate, "of Adagrad");
      },
      [&] { return run(options); });
}
