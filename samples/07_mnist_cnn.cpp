// 07_mnist_cnn: tells handwritten digits apart by a network of two convolutions, nearly as well as people do.
// Shows: convolutions and pooling in a plain struct, starting values of one's own, dropout in training only, batches
//        made ahead on a thread of their own, averages of the weights, a test set in pieces, pictures put together
//        from tensors.
// Prints: the progress, a table of which digits are taken for which, and the share of the 10,000 test images that is
//         told right after 20,000 steps of 50: about 99.2 % with the weights of the last step, which at a constant rate
//         swing by 0.1 % from one test to the next, and a little more with their moving average. Draws loss and error
//         over the steps, and the digits that it gets wrong: row k has those taken for k, behind a right one in black
//         on white.
// Fails:  if fewer than 99.2 % are right with the averages; with --quick, 300 steps, if fewer than 85 %.
#include <capstan/capstan.hpp>

#include <algorithm>
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

/// Small random weights, and biases above 0 so that every unit begins alive.
const nn::Initializer kWeights = nn::init::truncated_normal(0, 0.1), kBiases = nn::init::constant(0.1);

struct Net {
  nn::Conv2d conv1{
      {.in = 1, .out = 32, .kernel = 5, .padding = nn::same, .weight_init = kWeights, .bias_init = kBiases}};
  nn::Conv2d conv2{
      {.in = 32, .out = 64, .kernel = 5, .padding = nn::same, .weight_init = kWeights, .bias_init = kBiases}};
  nn::Linear fc1{7 * 7 * 64, 1024, {.weight_init = kWeights, .bias_init = kBiases}};
  nn::Linear fc2{1024, 10, {.weight_init = kWeights, .bias_init = kBiases}};
  nn::Dropout drop{{.keep = 0.5}};

  cs::Tensor operator()(const cs::Tensor& images) {             // [batch, 1, 28, 28]
    cs::Tensor h = cs::max_pool2d(cs::relu(conv1(images)), 2);  // [batch, 32, 14, 14]
    h = cs::max_pool2d(cs::relu(conv2(h)), 2);                  // [batch, 64, 7, 7]
    return fc2(drop(cs::relu(fc1(cs::flatten(h, 1)))));         // [batch, 10]
  }
};

namespace {

constexpr std::int64_t kBatch = 50, kTestBatch = 500, kTestEvery = 1000;

struct Options : sample::Flags {
  std::string folder, wrong;
  std::int64_t steps = 20000;
  double learning_rate = 1e-4;
};

struct Curves {
  tools::Series loss{"on the batch", {}, {}}, error{"weights of the step", {}, {}}, averaged{"their average", {}, {}};
};

/// The digits that the network sees in images: int64 [count].
cs::Tensor answers_of(Net& net, const cs::Tensor& images) {
  nn::set_training(net, false);
  std::vector<cs::Tensor> answers;
  for (std::int64_t first = 0; first < images.size(0); first += kTestBatch) {
    const std::int64_t count = std::min(kTestBatch, images.size(0) - first);
    answers.push_back(cs::argmax(net(cs::narrow(images, 0, first, count)), 1));
  }
  nn::set_training(net, true);
  return cs::concat(answers);
}

double accuracy_of(Net& net, const data::LabelledImages& digits) {
  cs::metrics::Accuracy accuracy;
  accuracy.update(answers_of(net, digits.images), digits.labels);
  return accuracy.result();
}

/// Leaves the moving averages of the weights in the net, and returns the accuracy that the last weights had.
double train(Net& net, const data::LabelledImages& training, const data::LabelledImages& test, const Options& options,
             Curves& curves) {
  cs::optim::Adam adam(nn::parameters(net), {.learning_rate = options.learning_rate});
  cs::optim::Ema average(adam.parameters(), {.decay = 0.999, .warm_up = true});
  auto batches = data::from(training) | data::shuffle(training.size(), {.seed = options.seed}) | data::repeat() |
                 data::batch(kBatch) | data::take(options.steps) | data::prefetch(2);
  sample::Log log(options);
  std::int64_t step = 0;
  auto progress = cs::progress(batches, "two convolutions");
  for (const auto& [images, labels] : progress) {
    cs::GradientTape tape;
    const cs::Tensor loss = cs::mean(cs::sparse_softmax_cross_entropy(net(images), labels));
    adam.apply(tape.gradient(loss, adam.parameters()));
    average.update();

    if (++step % 50 != 0) continue;
    const double loss_value = loss.item<float>();
    curves.loss.add(static_cast<double>(step), loss_value);
    log.scalar("loss", loss_value, step);
    progress.set("loss", loss_value);
    if (step % kTestEvery != 0) continue;
    const double accuracy = accuracy_of(net, test);
    const auto averages = average.swap();  // stand in the net in this block
    const double averaged = accuracy_of(net, test);
    curves.error.add(static_cast<double>(step), 100 * (1 - accuracy));
    curves.averaged.add(static_cast<double>(step), 100 * (1 - averaged));
    log.scalar("test accuracy", accuracy, step);
    log.scalar("test accuracy, averaged", averaged, step);
    progress.set("test accuracy", averaged);
  }
  const double last = accuracy_of(net, test);
  average.copy_to(adam.parameters());
  return last;
}

void draw_curves(const std::string& path, Curves curves, std::int64_t steps) {
  tools::Chart chart{"Handwritten digits (MNIST) by two convolutions", "step", {}};
  chart.panels.push_back({.label = "loss", .log_scale = true, .series = {std::move(curves.loss)}});
  tools::Series published{"published", {0, static_cast<double>(steps)}, {0.8, 0.8}};
  chart.panels.push_back({.label = "% of the test images wrong",
                          .log_scale = true,
                          .series = {std::move(curves.error), std::move(curves.averaged), std::move(published)}});
  tools::write_svg(path, chart);
  std::printf("the curves are in %s\n", path.c_str());
}

/// A row for each answer: a digit that is told right, inverted, and behind it those that are taken for it.
void draw_wrong(const std::string& path, const data::LabelledImages& test, const cs::Tensor& answers) {
  constexpr std::int64_t kCell = 30, kColumns = 17;
  cs::Tensor picture = cs::zeros({10 * kCell, kColumns * kCell});
  const std::vector<std::int64_t> said = answers.to_vector<std::int64_t>();
  const std::vector<std::int64_t> right = test.labels.to_vector<std::int64_t>();
  std::vector<std::int64_t> filled(10, 1);  // cells of each row
  std::vector<bool> begun(10, false);
  for (std::size_t i = 0; i < said.size(); ++i) {
    const auto row = static_cast<std::size_t>(said[i]);
    const bool example = said[i] == right[i];
    if (example ? begun[row] : filled[row] == kColumns) continue;
    const std::int64_t column = example ? 0 : filled[row]++;
    if (example) begun[row] = true;
    const cs::Tensor image = test.images[i][0];  // [28, 28]
    const std::int64_t y = said[i] * kCell + 1, x = column * kCell + 1;
    picture.index_put({cs::range(y, y + 28), cs::range(x, x + 28)}, example ? 1 - image : image);
  }
  cs::io::write_png(path, cs::cast(255 * cs::expand_dims(picture, 0), cs::DType::uint8));  // [1, rows, columns]
  std::printf("the wrong ones are in %s\n", path.c_str());
}

int run(Options options) {
  if (options.quick) options.steps = std::min<std::int64_t>(options.steps, 300);
  const std::string folder = sample::data_folder("mnist", options.folder);
  const data::LabelledImages training = data::mnist(folder, data::Split::train);
  const data::LabelledImages test = data::mnist(folder, data::Split::test);

  Net net;
  Curves curves;
  const double last = train(net, training, test, options, curves);
  if (!options.picture.empty()) draw_curves(options.picture, std::move(curves), options.steps);

  const cs::Tensor answers = answers_of(net, test.images);
  if (!options.wrong.empty()) draw_wrong(options.wrong, test, answers);
  cs::metrics::ConfusionMatrix confusion(10);
  confusion.update(answers, test.labels);
  std::printf("labels down, answers across:\n%s\n", cs::metrics::to_string(confusion).c_str());

  const double accuracy = confusion.accuracy(), needed = options.quick ? 0.85 : 0.992;
  sample::Checks checks;
  checks.expect(accuracy >= needed, options.quick ? "85 % of the test images are told right"
                                                  : "99.2 % of the test images are told right, as published");
  std::printf("result: %.2f %% of 10,000 test images right after %lld steps of %lld, %.2f %% with the last weights\n",
              100 * accuracy, static_cast<long long>(options.steps), static_cast<long long>(kBatch), 100 * last);
  return checks.exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  return sample::run(
      argc, argv, "Tells handwritten digits apart by a network of two convolutions.", options,
      [&](sample::CommandLine& line) {
        line.add_picture("mnist_cnn.svg");
        line.add_picture("--wrong", options.wrong, "mnist_cnn_wrong.png", "where the digits go that it gets wrong");
        line.add("--data", options.folder, "folder of the four MNIST files");
        line.add("--steps", options.steps, "of 50 images", 1);
        line.add("--learning-rate", options.learning_rate, "of Adam");
      },
      [&] { return run(options); });
}
