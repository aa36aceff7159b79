// 22_autoencoder: squeezes images of 784 pixels into 16 numbers and draws them again from these.
// Shows: an encoder of convolutions and a decoder of transposed convolutions, a loss of probabilities for each pixel,
//        principal components by an eigenvalue decomposition, pictures in a PNG file and in TensorBoard.
// Prints: the progress, then the mean squared error of a pixel over the 10,000 test images: of the mean image, of as
//         many principal components, the best that anything linear can do, and of the autoencoder, about half of it.
//         Draws three rows: images, what the components make of them, what the autoencoder makes of them.
// Fails:  if the autoencoder's error is above 60 % of that of the components; with --quick, 400 steps, if it is above
//         two thirds of that of the mean image.
#include <capstan/capstan.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>

#include "samples/sample.hpp"

namespace cs = capstan;
namespace data = capstan::data;
namespace nn = capstan::nn;

struct Autoencoder {
  explicit Autoencoder(std::int64_t code) : squeeze(32 * 7 * 7, code), widen(code, 32 * 7 * 7) {}

  nn::Conv2d down1{{.in = 1, .out = 16, .kernel = 4, .stride = 2, .padding = 1}};
  nn::Conv2d down2{{.in = 16, .out = 32, .kernel = 4, .stride = 2, .padding = 1}};
  nn::Linear squeeze, widen;
  nn::ConvTranspose2d up1{{.in = 32, .out = 16, .kernel = 4, .stride = 2, .padding = 1}};
  nn::ConvTranspose2d up2{{.in = 16, .out = 1, .kernel = 4, .stride = 2, .padding = 1}};
  CAPSTAN_FIELDS(down1, down2, squeeze, widen, up1, up2);

  cs::Tensor encode(const cs::Tensor& images) {  // [batch, 1, 28, 28] -> [batch, code]
    cs::Tensor h = cs::relu(down1(images));      // [batch, 16, 14, 14]
    h = cs::relu(down2(h));                      // [batch, 32, 7, 7]
    return squeeze(cs::flatten(h, 1));
  }
  /// Logits of the ink of each pixel.
  cs::Tensor decode(const cs::Tensor& codes) {
    cs::Tensor h = cs::unflatten(cs::relu(widen(codes)), 1, {32, 7, 7});
    h = cs::relu(up1(h));  // [batch, 16, 14, 14]
    return up2(h);         // [batch, 1, 28, 28]
  }
  cs::Tensor operator()(const cs::Tensor& images) { return decode(encode(images)); }
};

namespace {

constexpr std::int64_t kBatch = 128, kTestBatch = 1000, kPixels = 28 * 28, kShown = 20;

struct Options : sample::Flags {
  std::string folder;
  std::int64_t steps = 2500, code = 16;
  double learning_rate = 5e-3;
};

/// The best plane through a set of points in so many dimensions.
struct Components {
  cs::Tensor mean;   // [pixels]
  cs::Tensor basis;  // [pixels, count], orthonormal columns

  cs::Tensor operator()(const cs::Tensor& points) const {  // [n, pixels], each as the nearest point of the plane
    return cs::matmul(cs::matmul(points - mean, basis), cs::transpose(basis)) + mean;
  }
};

Components components_of(const cs::Tensor& points, std::int64_t count) {  // [n, pixels]
  const cs::Tensor mean = cs::mean(points, 0);
  const cs::Tensor squares = cs::matmul(cs::transpose(points), points) / points.size(0);
  const cs::Tensor vectors = cs::eigh(squares - cs::outer(mean, mean)).eigenvectors;  // those that matter are last
  return {mean, cs::narrow(vectors, 1, points.size(1) - count, count)};
}

cs::Tensor redrawn(Autoencoder& net, const cs::Tensor& images) { return cs::sigmoid(net(images)); }

double error_of(Autoencoder& net, const cs::Tensor& images) {
  cs::metrics::Mean error;
  for (const cs::Tensor& some : data::from(images) | data::batch(kTestBatch))
    error.update(cs::mse_loss(redrawn(net, some), some), static_cast<double>(some.size(0)));
  return error.result();
}

/// Images side by side: [count, ...] of 784 pixels each -> [28, count * 28].
cs::Tensor strip(const cs::Tensor& images) {
  const std::int64_t count = images.size(0);
  return cs::reshape(cs::permute(cs::reshape(images, {count, 28, 28}), {1, 0, 2}), {28, count * 28});
}

void train(Autoencoder& net, const cs::Tensor& training, const cs::Tensor& test, const Options& options,
           sample::Log& log) {
  cs::optim::Adam adam(nn::parameters(net), {.learning_rate = options.learning_rate});
  adam.attach(cs::optim::cosine_decay(options.learning_rate, {.steps = options.steps, .once = true}));
  auto batches = data::from(training) | data::shuffle(training.size(0), {.seed = options.seed}) | data::repeat() |
                 data::batch(kBatch) | data::take(options.steps);
  std::int64_t step = 0;
  auto progress = cs::progress(batches, "autoencoder");
  for (const cs::Tensor& images : progress) {
    cs::GradientTape tape;
    const cs::Tensor loss = cs::mean(cs::sigmoid_cross_entropy(net(images), images));
    adam.apply(tape.gradient(loss, adam.parameters()));

    if (++step % 20 != 0) continue;
    const double loss_value = loss.item<float>();
    log.scalar("loss", loss_value, step);
    progress.set("loss", loss_value);
    if (step % 500 != 0) continue;
    const double error = error_of(net, test);
    log.scalar("test error", error, step);
    progress.set("test error", error);
  }
}

int run(Options options) {
  if (options.quick) options.steps = std::min<std::int64_t>(options.steps, 400);
  const std::string folder = sample::data_folder("mnist", options.folder);
  const cs::Tensor training = data::mnist(folder, data::Split::train).images;  // labels are of no use here
  const cs::Tensor test = data::mnist(folder, data::Split::test).images;

  Autoencoder net(options.code);
  sample::Log log(options);
  train(net, training, test, options, log);

  const cs::Tensor points = cs::reshape(test, {-1, kPixels});
  const Components plane = components_of(cs::reshape(training, {-1, kPixels}), options.code);
  const double mean_error = cs::mean(cs::square(points - plane.mean)).item<float>();
  const double plane_error = cs::mse_loss(plane(points), points).item<float>();
  const double net_error = error_of(net, test);

  const cs::Tensor some = cs::narrow(test, 0, 0, kShown);
  const cs::Tensor drawn = strip(plane(cs::reshape(some, {kShown, kPixels})));
  const cs::Tensor grid = cs::clip(cs::concat({strip(some), drawn, strip(redrawn(net, some))}), 0, 1);
  if (log.writer() != nullptr) log.writer()->image("images, components, autoencoder", grid, options.steps);
  if (!options.picture.empty()) {
    cs::io::write_png(options.picture, cs::cast(255 * cs::expand_dims(grid, 0), cs::DType::uint8));
    std::printf("images, and what is made of them, are in %s\n", options.picture.c_str());
  }

  sample::Checks checks;
  if (options.quick) checks.expect(net_error <= mean_error * 2 / 3, "the error is at most 2/3 of the mean image's");
  else checks.expect(net_error <= 0.6 * plane_error, "the error is at most 60 % of the principal components'");
  std::printf(
      "result: squared error of a pixel %.4f by %lld numbers, after %lld steps of %lld; %.4f by as many "
      "principal components, %.4f by the mean image\n",
      net_error, static_cast<long long>(options.code), static_cast<long long>(options.steps),
      static_cast<long long>(kBatch), plane_error, mean_error);
  return checks.exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  return sample::run(
      argc, argv, "Squeezes images into a few numbers by convolutions, and draws them again from these.", options,
      [&](sample::CommandLine& line) {
        line.add_picture("autoencoder.png");
        line.add("--data", options.folder, "folder of the four MNIST files");
        line.add("--code", options.code, "numbers that stand for an image", 1, 784);
        line.add("--steps", options.steps, "of 128 images", 1);
        line.add("--learning-rate", options.learning_rate, "at the start; it falls to 0");
      },
      [&] { return run(options); });
}
