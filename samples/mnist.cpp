// mnist: tells handwritten digits apart, first with softmax regression, then with a network of three layers.
// Shows: a data set by name, a pipeline of shuffled batches, SGD and Adam, dropout in training only, a progress bar.
// Prints: the progress, then the share of the 10,000 test images that each model gets right: about 92 % after 1000
//         steps of 100 images for the regression, about 98 % for the network. Draws the curves.
// Fails:  if either model is clearly below that; with code 2 if the data files are not there.
#include <capstan/capstan.hpp>

#include <CLI/CLI.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "tools/chart.hpp"

namespace cs = capstan;
namespace data = capstan::data;

struct SoftmaxRegression {
  cs::nn::Linear layer{784, 10, {.weight_init = cs::nn::init::zeros()}};

  cs::Tensor operator()(const cs::Tensor& images) { return layer(images); }  // [batch, 784] -> [batch, 10]
};

struct ThreeLayers {
  cs::nn::Linear fc1{784, 256, {.weight_init = cs::nn::init::he_normal()}};
  cs::nn::Linear fc2{256, 128, {.weight_init = cs::nn::init::he_normal()}};
  cs::nn::Linear fc3{128, 10};
  cs::nn::Dropout drop{{.keep = 0.75}};

  cs::Tensor operator()(const cs::Tensor& images) {  // [batch, 784] -> [batch, 10]
    const cs::Tensor h = drop(cs::relu(fc1(images)));
    return fc3(drop(cs::relu(fc2(h))));
  }
};

namespace {

constexpr std::int64_t kBatch = 100, kRegressionSteps = 1000, kTestEvery = 200;
constexpr double kRegressionAccuracy = 0.905;

struct Options {
  std::string folder = "data/mnist", picture = "mnist.svg";
  std::int64_t epochs = 12;
  double check_accuracy = 0.975;
  std::uint64_t seed = 1;
  int threads = 0;
};

struct Curves {
  tools::Series loss, accuracy;
};

// --- data --------------------------------------------------------------------------------------------------------

using Digits = data::LabelledImages;  // images float32 [count, 784], 0 to 1; labels int64 [count]

Digits read_digits(const std::string& folder, data::Split split) {
  Digits digits = data::mnist(folder, split);
  digits.images = cs::reshape(digits.images, {-1, 784});
  return digits;
}

/// Batches without an end, in a new order for each pass over the digits.
data::Pipeline<Digits> batches_of(const Digits& digits, std::uint64_t seed) {
  return data::from(digits) | data::shuffle(digits.size(), {.seed = seed}) | data::repeat() | data::batch(kBatch);
}

// --- training ----------------------------------------------------------------------------------------------------

template <class Model>
double accuracy_of(Model& model, const Digits& digits) {
  cs::nn::set_training(model, false);
  const cs::Tensor answers = cs::argmax(model(digits.images), 1);
  cs::nn::set_training(model, true);
  return cs::mean(cs::cast(cs::equal(answers, digits.labels), cs::DType::float32)).item<float>();
}

/// Trains and returns the accuracy on the test images. `rate(share)` is the learning rate after that share of steps.
template <class Model, class Optimizer, class Rate>
double train(const char* title, Model& model, Optimizer& optimizer, std::int64_t steps,
             const data::Pipeline<Digits>& batches, const Digits& test, Rate rate, Curves& curves) {
  std::int64_t step = 0;
  double accuracy = 0;
  auto progress = cs::progress(batches | data::take(steps), title);
  for (const auto& [images, labels] : progress) {
    ++step;
    cs::GradientTape tape;
    const cs::Tensor loss = cs::mean(cs::sparse_softmax_cross_entropy(model(images), labels));
    const std::vector<cs::Tensor> gradients = tape.gradient(loss, optimizer.parameters());
    optimizer.options().learning_rate = rate(static_cast<double>(step - 1) / static_cast<double>(steps));
    optimizer.apply(gradients);

    const double loss_value = loss.item<float>();
    curves.loss.add(static_cast<double>(step), loss_value);
    if (step % kTestEvery == 0 || step == steps) {
      accuracy = accuracy_of(model, test);
      curves.accuracy.add(static_cast<double>(step), accuracy);
      progress.set("test accuracy", accuracy);
    }
    progress.set("loss", loss_value);
  }
  return accuracy;
}

double train_regression(const Digits& training, const Digits& test, const Options& options, Curves& curves) {
  SoftmaxRegression model;
  cs::optim::Sgd sgd(cs::nn::parameters(model), {.learning_rate = 0.5});
  return train(
      "softmax regression", model, sgd, kRegressionSteps, batches_of(training, options.seed), test,
      [](double) { return 0.5; }, curves);
}

double train_three_layers(const Digits& training, const Digits& test, const Options& options, Curves& curves) {
  ThreeLayers model;
  cs::optim::Adam adam(cs::nn::parameters(model), {.learning_rate = 1e-3});
  const std::int64_t steps = options.epochs * (training.size() / kBatch);
  return train(
      "three layers", model, adam, steps, batches_of(training, options.seed + 1), test,
      [](double share) { return 1e-5 + 0.5e-3 * (1 + std::cos(std::numbers::pi * share)); }, curves);
}

void draw(const std::string& path, Curves regression, Curves layers) {
  tools::Chart chart{"Handwritten digits (MNIST)", "step", {}};
  chart.panels.push_back(
      {.label = "loss", .log_scale = true, .series = {std::move(regression.loss), std::move(layers.loss)}});
  chart.panels.push_back({.label = "accuracy on the test images",
                          .low = 0.86,
                          .high = 1.0,
                          .series = {std::move(regression.accuracy), std::move(layers.accuracy)}});
  tools::write_svg(path, chart);
  std::printf("the curves are in %s\n", path.c_str());
}

int run(const Options& options) {
  if (options.threads > 0) cs::set_threads(options.threads);
  cs::seed(options.seed);
  const Digits training = read_digits(options.folder, data::Split::train);
  const Digits test = read_digits(options.folder, data::Split::test);

  Curves regression{{"softmax regression", {}, {}}, {"softmax regression", {}, {}}};
  Curves layers{{"three layers", {}, {}}, {"three layers", {}, {}}};
  const double simple = train_regression(training, test, options, regression);
  const double deep = train_three_layers(training, test, options, layers);
  std::printf("test accuracy: softmax regression %.2f %%, three layers %.2f %%\n", 100 * simple, 100 * deep);
  draw(options.picture, std::move(regression), std::move(layers));

  if (simple >= kRegressionAccuracy && deep >= options.check_accuracy) return 0;
  std::printf("mnist: expected at least %.2f %% and %.2f %%\n", 100 * kRegressionAccuracy,
              100 * options.check_accuracy);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Trains two classifiers of handwritten digits."};
  app.add_option("--data", options.folder, "folder of the four MNIST files")->capture_default_str();
  app.add_option("--epochs", options.epochs, "passes over the training images, for the network")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", options.seed, "of the weights, the order and dropout")->capture_default_str();
  app.add_option("--threads", options.threads, "0: the library's default")->capture_default_str();
  app.add_option("--picture", options.picture, "SVG file for the learning curves")->capture_default_str();
  app.add_option("--check-accuracy", options.check_accuracy, "fail if the network is right less often")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const cs::IoError& error) {
    std::fprintf(stderr, "%s\nName the folder with --data DIR.\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mnist: %s\n", error.what());
    return 2;
  }
}
