// 06_mnist_softmax: tells handwritten digits apart by softmax regression: one layer, the shortest training there is.
// Shows: a data set by name, a pipeline of shuffled batches, a training loop with a tape and SGD, a metric over the
//        test images, weights looked at as pictures.
// Prints: the progress, then the share of the 10,000 test images that is told right: about 92 % after 1000 steps of
//         100. Draws the curves, and the ten pictures that the model compares images with.
// Fails:  if fewer than 91 % are right; with --quick, a fifth of the steps, if fewer than 85 %.
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

/// A pixel speaks for each digit as much as its weight says.
struct SoftmaxRegression {
  nn::Linear layer{784, 10, {.weight_init = nn::init::zeros()}};

  cs::Tensor operator()(const cs::Tensor& images) { return layer(cs::flatten(images, 1)); }  // [batch, 10]
};

namespace {

constexpr std::int64_t kBatch = 100, kTestBatch = 1000, kTestEvery = 100;

struct Options : sample::Flags {
  std::string folder, weights;
  std::int64_t steps = 1000;
  double learning_rate = 0.5;
};

struct Curves {
  tools::Series loss{"softmax regression", {}, {}}, accuracy{"softmax regression", {}, {}};
};

double accuracy_of(SoftmaxRegression& model, const data::LabelledImages& digits) {
  cs::metrics::Accuracy accuracy;
  for (const auto& [images, labels] : data::from(digits) | data::batch(kTestBatch))
    accuracy.update(model(images), labels);
  return accuracy.result();
}

void train(SoftmaxRegression& model, const data::LabelledImages& training, const data::LabelledImages& test,
           const Options& options, Curves& curves) {
  cs::optim::Sgd sgd(nn::parameters(model), {.learning_rate = options.learning_rate});
  auto batches = data::from(training) | data::shuffle(training.size(), {.seed = options.seed}) | data::repeat() |
                 data::batch(kBatch) | data::take(options.steps);
  sample::Log log(options);
  std::int64_t step = 0;
  auto progress = cs::progress(batches, "softmax regression");
  for (const auto& [images, labels] : progress) {
    cs::GradientTape tape;
    const cs::Tensor loss = cs::mean(cs::sparse_softmax_cross_entropy(model(images), labels));
    sgd.apply(tape.gradient(loss, sgd.parameters()));

    if (++step % 10 != 0) continue;
    const double loss_value = loss.item<float>();
    curves.loss.add(static_cast<double>(step), loss_value);
    log.scalar("loss", loss_value, step);
    progress.set("loss", loss_value);
    if (step % kTestEvery != 0) continue;
    const double accuracy = accuracy_of(model, test);
    curves.accuracy.add(static_cast<double>(step), accuracy);
    log.scalar("test accuracy", accuracy, step);
    progress.set("test accuracy", accuracy);
  }
}

void draw_curves(const std::string& path, Curves curves) {
  tools::Chart chart{"Handwritten digits (MNIST) by softmax regression", "step", {}};
  chart.panels.push_back({.label = "loss", .log_scale = true, .series = {std::move(curves.loss)}});
  chart.panels.push_back({.label = "accuracy on the test images", .series = {std::move(curves.accuracy)}});
  tools::write_svg(path, chart);
  std::printf("the curves are in %s\n", path.c_str());
}

/// The digits side by side, 0 to 9: ink speaks for a digit where its picture is blue, and against it where it is red.
void draw_weights(const std::string& path, const cs::Tensor& weight) {                  // [784, 10]
  const cs::Tensor sheets = cs::permute(cs::reshape(weight, {28, 28, 10}), {0, 2, 1});  // rows, digits, columns
  const cs::Tensor strip = cs::kron(cs::reshape(sheets, {28, 280}), cs::ones({3, 3}));  // three times as large
  const cs::Tensor shades = 255 / cs::max(cs::abs(strip)) * strip;
  const cs::Tensor picture = cs::stack({cs::relu(-shades), cs::zeros_like(shades), cs::relu(shades)});
  cs::io::write_png(path, cs::cast(picture, cs::DType::uint8));  // [3, rows, columns]
  std::printf("the weights are in %s\n", path.c_str());
}

int run(Options options) {
  if (options.quick) options.steps = std::min<std::int64_t>(options.steps, 200);
  const std::string folder = sample::data_folder("mnist", options.folder);
  const data::LabelledImages training = data::mnist(folder, data::Split::train);
  const data::LabelledImages test = data::mnist(folder, data::Split::test);

  SoftmaxRegression model;
  Curves curves;
  train(model, training, test, options, curves);
  if (!options.picture.empty()) draw_curves(options.picture, std::move(curves));
  if (!options.weights.empty()) draw_weights(options.weights, model.layer.weight);

  const double percent = 100 * accuracy_of(model, test);
  const int needed = options.quick ? 85 : 91;
  sample::Checks checks;
  checks.expect(percent >= needed, "at least " + std::to_string(needed) + " % of the test images are told right");
  std::printf("result: %.2f %% of 10,000 test images right after %lld steps of %lld\n", percent,
              static_cast<long long>(options.steps), static_cast<long long>(kBatch));
  return checks.exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  return sample::run(
      argc, argv, "Tells handwritten digits apart by softmax regression.", options,
      [&](sample::CommandLine& line) {
        line.add_picture("mnist_softmax.svg");
        line.add_picture("--weights", options.weights, "mnist_weights.png", "where the weights as pictures go");
        line.add("--data", options.folder, "folder of the four MNIST files");
        line.add("--steps", options.steps, "of 100 images", 1);
        line.add("--learning-rate", options.learning_rate, "of gradient descent");
      },
      [&] { return run(options); });
}
