// 08_mnist_lstm: reads a handwritten digit row by row, as a sequence of 28 steps, and then says which it was.
// Shows: a fused LSTM layer over whole sequences, a learning rate that falls over the run, gradients clipped by their
//        common norm, asking a recurrent network in the middle of a sequence.
// Prints: the progress; one test image with what the network takes it for after each row; the share of the 10,000 test
//         images that is told right: about 98.1 % after 3000 steps of 128. Draws loss and error over the steps.
// Fails:  if not more than 97.5 % are right; with --quick, a tenth of the steps, if fewer than 75 %.
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

constexpr std::int64_t kRows = 28, kColumns = 28, kHidden = 128;

struct Reader {
  nn::Lstm lstm{{.inputs = kColumns, .hidden = kHidden}};
  nn::Linear out{kHidden, 10};

  /// What it takes the image for after each row: [batch, 1, 28, 28] -> [batch, 28, 10].
  cs::Tensor row_by_row(const cs::Tensor& images) { return out(lstm(cs::squeeze(images, 1)).outputs); }
  /// And at the end: [batch, 10]. The state has an axis for layers in front, [1, batch, hidden].
  cs::Tensor operator()(const cs::Tensor& images) { return out(lstm(cs::squeeze(images, 1)).state.h[0]); }
};

namespace {

constexpr std::int64_t kBatch = 128, kTestBatch = 1000, kTestEvery = 200;

struct Options : sample::Flags {
  std::string folder;
  std::int64_t steps = 3000;
  double learning_rate = 1e-3;
};

struct Curves {
  tools::Series loss{"on the batch", {}, {}}, error{"this run", {}, {}};
};

double accuracy_of(Reader& net, const data::LabelledImages& digits) {
  cs::metrics::Accuracy accuracy;
  for (const auto& [images, labels] : data::from(digits) | data::batch(kTestBatch))
    accuracy.update(net(images), labels);
  return accuracy.result();
}

void train(Reader& net, const data::LabelledImages& training, const data::LabelledImages& test, const Options& options,
           Curves& curves) {
  cs::optim::Adam adam(nn::parameters(net), {.learning_rate = options.learning_rate});
  adam.attach(cs::optim::cosine_decay(options.learning_rate, {.steps = options.steps, .once = true}));
  auto batches = data::from(training) | data::shuffle(training.size(), {.seed = options.seed}) | data::repeat() |
                 data::batch(kBatch) | data::take(options.steps);
  sample::Log log(options);
  std::int64_t step = 0;
  auto progress = cs::progress(batches, "rows by LSTM");
  for (const auto& [images, labels] : progress) {
    cs::GradientTape tape;
    const cs::Tensor loss = cs::mean(cs::sparse_softmax_cross_entropy(net(images), labels));
    adam.apply(cs::optim::clip_by_global_norm(tape.gradient(loss, adam.parameters()), 5).gradients);

    if (++step % 20 != 0) continue;
    const double loss_value = loss.item<float>();
    curves.loss.add(static_cast<double>(step), loss_value);
    log.scalar("loss", loss_value, step);
    log.scalar("learning rate", adam.learning_rate(), step);
    progress.set("loss", loss_value);
    if (step % kTestEvery != 0) continue;
    const double accuracy = accuracy_of(net, test);
    curves.error.add(static_cast<double>(step), 100 * (1 - accuracy));
    log.scalar("test accuracy", accuracy, step);
    progress.set("test accuracy", accuracy);
  }
}

/// An image, and beside each row what the network takes it for so far.
void show_reading(Reader& net, const data::LabelledImages& digits, std::int64_t which) {
  const cs::Tensor image = cs::narrow(digits.images, 0, which, 1);   // [1, 1, 28, 28]
  const cs::Tensor chances = cs::softmax(net.row_by_row(image))[0];  // [28, 10]
  const cs::Tensor answers = cs::argmax(chances, 1);
  for (std::int64_t row = 0; row < kRows; ++row) {
    std::string line;
    for (std::int64_t column = 0; column < kColumns; ++column) {
      const float ink = image.at<float>(0, 0, row, column);
      line += ink > 0.6f ? '#' : ink > 0.2f ? '+' : '.';
    }
    const auto answer = answers.at<std::int64_t>(row);
    std::printf("  %s  %lld  %3.0f %%\n", line.c_str(), static_cast<long long>(answer),
                100 * static_cast<double>(chances.at<float>(row, answer)));
  }
}

void draw(const std::string& path, Curves curves) {
  tools::Chart chart{"Handwritten digits (MNIST) read row by row by an LSTM of 128 units", "step", {}};
  chart.panels.push_back({.label = "loss", .log_scale = true, .series = {std::move(curves.loss)}});
  chart.panels.push_back(
      {.label = "% of the test images wrong", .log_scale = true, .series = {std::move(curves.error)}});
  tools::write_svg(path, chart);
  std::printf("the curves are in %s\n", path.c_str());
}

int run(Options options) {
  if (options.quick) options.steps = std::min<std::int64_t>(options.steps, 300);
  const std::string folder = sample::data_folder("mnist", options.folder);
  const data::LabelledImages training = data::mnist(folder, data::Split::train);
  const data::LabelledImages test = data::mnist(folder, data::Split::test);

  Reader net;
  Curves curves;
  train(net, training, test, options, curves);
  show_reading(net, test, 0);
  if (!options.picture.empty()) draw(options.picture, std::move(curves));

  const double accuracy = accuracy_of(net, test);
  sample::Checks checks;
  if (options.quick) checks.expect(accuracy >= 0.75, "75 % of the test images are told right");
  else checks.expect(accuracy > 0.975, "more than 97.5 % of the test images are told right");
  std::printf("result: %.2f %% of 10,000 test images right after %lld steps of %lld\n", 100 * accuracy,
              static_cast<long long>(options.steps), static_cast<long long>(kBatch));
  return checks.exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  return sample::run(
      argc, argv, "Tells handwritten digits apart by an LSTM that reads their rows.", options,
      [&](sample::CommandLine& line) {
        line.add_picture("mnist_lstm.svg");
        line.add("--data", options.folder, "folder of the four MNIST files");
        line.add("--steps", options.steps, "of 128 images", 1);
        line.add("--learning-rate", options.learning_rate, "at the start; it falls to 0");
      },
      [&] { return run(options); });
}
