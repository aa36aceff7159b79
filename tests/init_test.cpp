// Initializers: bounds, moments and distributions of those that are scaled, matrices that are orthonormal, and what is
// given. Those of Glorot and He with the fans of a shape are in nn_test.cpp.
#include "tests/support.hpp"

#include <algorithm>
#include <cmath>

using namespace capstan;
using namespace tests;

namespace init = capstan::nn::init;
using capstan::nn::Fans;
using capstan::nn::Initializer;

namespace {

const TensorOptions kDouble{.dtype = DType::float64};

/// Mean 0 and that variance, within what chance allows; `kurtosis` is E[x^4] / E[x^2]^2.
void check_moments(const Tensor& x, double variance, double kurtosis) {
  const auto count = static_cast<double>(x.numel());
  INFO("variance " << number(mean(square(x))) << ", expected " << variance);
  CHECK(std::fabs(number(mean(x))) <= tolerance::standard_errors * std::sqrt(variance / count));
  CHECK(std::fabs(number(mean(square(x))) - variance) <=
        tolerance::standard_errors * variance * std::sqrt((kurtosis - 1) / count));
}

/// How far x^T x is from the identity times gain^2.
double deviation(const Tensor& x, double gain) {
  const Tensor product = matmul(transpose(x), x) / (gain * gain);
  return number(max(abs(product - eye(x.size(1), -1, kDouble))));
}

}  // namespace

TEST_CASE("scaled initializers have the variance of their fans and the shape of their distribution", "[nn][init]") {
  const Fans fans{.in = 50, .out = 200};
  // E[x^4] / E[x^2]^2: uniform 9/5, normal 3, normal cut at two deviations 1.4162 / 0.7737^2
  const double uniform = 1.8, normal = 3, cut = 2.366;
  constexpr auto in = init::FanMode::in, out = init::FanMode::out, average = init::FanMode::average;
  using init::Distribution;
  struct Row {
    const char* name;
    Initializer init;
    double variance, kurtosis, bound;  // bound: in standard deviations
  };
  const Row rows[] = {
      {"glorot_uniform", init::glorot_uniform(), 2.0 / 250, uniform, std::sqrt(3.0)},
      {"glorot_normal", init::glorot_normal(), 2.0 / 250, normal, kInfinity},
      {"he_uniform", init::he_uniform(), 2.0 / 50, uniform, std::sqrt(3.0)},
      {"he_normal", init::he_normal(), 2.0 / 50, normal, kInfinity},
      {"lecun_uniform", init::lecun_uniform(), 1.0 / 50, uniform, std::sqrt(3.0)},
      {"lecun_normal", init::lecun_normal(), 1.0 / 50, normal, kInfinity},
      {"in", init::variance_scaling(2, in, Distribution::uniform), 2.0 / 50, uniform, std::sqrt(3.0)},
      {"out", init::variance_scaling(0.5, out, Distribution::normal), 0.5 / 200, normal, kInfinity},
      {"average", init::variance_scaling(3, average, Distribution::uniform), 3.0 / 125, uniform, std::sqrt(3.0)},
      // the cut is at two deviations of the wider normal distribution
      {"truncated", init::variance_scaling(), 1.0 / 50, cut, 2 / 0.87962566103423978}};
  for (const Row& row : rows) {
    INFO(row.name);
    Rng rng(11);
    const Tensor x = row.init({400, 500}, fans, rng, kDouble);
    CHECK(x.shape() == Shape{400, 500});
    CHECK(x.dtype() == DType::float64);
    check_moments(x, row.variance, row.kurtosis);
    const double largest = number(max(abs(x))) / std::sqrt(row.variance);
    CHECK(largest <= row.bound);
    if (row.bound < kInfinity) CHECK(largest > 0.999 * row.bound);
  }
}

TEST_CASE("the fans that are given take the place of those of the shape", "[nn][init]") {
  Rng first(12), second(12);
  const Tensor kernel = init::he_uniform()({16, 8, 3, 3}, Fans{.in = 72, .out = 144}, first, kDouble);
  const Tensor matrix = init::he_uniform()({72, 16}, second, kDouble);
  CHECK(same(flatten(kernel), flatten(matrix)));  // 8 * 3 * 3 inputs either way
}

TEST_CASE("initializers are constants where nothing is given to them", "[nn][init]") {
  constexpr Initializer constant = init::glorot_uniform();
  constexpr double gain = 2;
  constexpr Initializer scaled = init::variance_scaling(gain * gain, init::FanMode::average);
  CHECK(constant({2, 2}).shape() == Shape{2, 2});
  CHECK(scaled({2, 2}).shape() == Shape{2, 2});
}

TEST_CASE("gains are those of PyTorch's calculate_gain", "[nn][init]") {
  using init::Nonlinearity;
  CHECK(init::calculate_gain(Nonlinearity::linear) == 1);
  CHECK(init::calculate_gain(Nonlinearity::sigmoid) == 1);
  CHECK(init::calculate_gain(Nonlinearity::tanh) == 5.0 / 3);
  CHECK(init::calculate_gain(Nonlinearity::relu) == std::sqrt(2.0));
  CHECK(init::calculate_gain(Nonlinearity::leaky_relu) == std::sqrt(2 / 1.0001));  // a slope of 0.01
  CHECK(init::calculate_gain(Nonlinearity::leaky_relu, 1) == 1);
  CHECK(init::calculate_gain(Nonlinearity::selu) == 0.75);
}

TEST_CASE("orthogonal matrices have orthonormal columns, or rows if those are fewer, times the gain", "[nn][init]") {
  for (const double gain : {1.0, 2.5}) {
    Rng rng(13);
    CHECK(deviation(init::orthogonal(gain)({40, 40}, rng, kDouble), gain) < tolerance::decomposition64);
    CHECK(deviation(init::orthogonal(gain)({40, 10}, rng, kDouble), gain) < tolerance::decomposition64);
    CHECK(deviation(transpose(init::orthogonal(gain)({10, 40}, rng, kDouble)), gain) < tolerance::decomposition64);
    // [window, in, out]: the outputs are columns; with fans [out, in, window]: they are rows
    const Tensor last = init::orthogonal(gain)({3, 3, 4, 8}, rng, kDouble);
    CHECK(deviation(reshape(last, {36, 8}), gain) < tolerance::decomposition64);
    const Tensor first = init::orthogonal(gain)({8, 4, 3, 3}, Fans{}, rng, kDouble);
    CHECK(deviation(transpose(reshape(first, {8, 36})), gain) < tolerance::decomposition64);
  }
  Rng rng(13);
  const Tensor small = init::orthogonal()({20, 30}, rng);
  CHECK(small.dtype() == DType::float32);
  CHECK(small.is_contiguous());
  CHECK(init::orthogonal()({0, 3}, rng).shape() == Shape{0, 3});
}

TEST_CASE("orthogonal matrices are uniformly distributed", "[nn][init]") {
  // the angle of a random 2 x 2 rotation or reflection is uniform: so without the signs of r it would not be
  Rng rng(14);
  const int count = 2000;
  std::vector<double> angles;
  for (int i = 0; i < count; ++i) {
    const std::vector<double> q = values(init::orthogonal()({2, 2}, rng, kDouble));
    angles.push_back(0.5 + std::atan2(q[2], q[0]) / (2 * 3.14159265358979323846));
  }
  std::sort(angles.begin(), angles.end());
  double distance = 0;
  for (int i = 0; i < count; ++i)
    distance = std::max(distance, std::fabs(angles[static_cast<std::size_t>(i)] - (i + 0.5) / count));
  CHECK(distance * std::sqrt(count) <= tolerance::kolmogorov);
}

TEST_CASE("identity is a diagonal, and in kernels the middle of the window", "[nn][init]") {
  CHECK(same(init::identity()({2, 3}), {{1.0f, 0.0f, 0.0f}, {0.0f, 1.0f, 0.0f}}));
  CHECK(same(init::identity(0.5)({2, 2}, default_rng(), kDouble), {{0.5, 0.0}, {0.0, 0.5}}));
  Rng rng(15);
  const Tensor kernel = init::identity()({3, 2, 3, 4}, Fans{}, rng);  // [out, in, rows, columns]
  CHECK(number(sum(kernel)) == 2);
  CHECK(kernel.at<float>(0, 0, 1, 2) == 1);
  CHECK(kernel.at<float>(1, 1, 1, 2) == 1);
  const Tensor turned = init::identity()({3, 4, 2, 3}, rng);  // [rows, columns, in, out]
  CHECK(number(sum(turned)) == 2);
  CHECK(turned.at<float>(1, 2, 0, 0) == 1);
  CHECK(turned.at<float>(1, 2, 1, 1) == 1);
  CHECK(init::identity()({0, 2, 2}, rng).shape() == Shape{0, 2, 2});
}

TEST_CASE("identity kernels in groups pass on the channels of every group", "[nn][init]") {
  Rng rng(18);
  const Tensor x = random_in(-1, 1, {2, 6, 5, 4}, DType::float32, 441);
  for (const std::int64_t groups : {1, 2, 3, 6}) {
    nn::Conv2d conv{{.in = 6,
                     .out = 6,
                     .kernel = 3,
                     .padding = nn::same,
                     .groups = groups,
                     .weight_init = init::identity(1, groups)}};
    CHECK(close(conv(x), x, tolerance::roundings32));
  }
  // [columns, in, out]: two groups of two outputs, of which the first passes on the group's only input
  const Tensor last = init::identity(0.5, 2)({1, 1, 4}, rng);
  CHECK(same(last, reshape(Tensor{0.5f, 0.0f, 0.5f, 0.0f}, {1, 1, 4})));
  CHECK(init::identity(1, 2)({0, 2, 2}, Fans{}, rng).shape() == Shape{0, 2, 2});
}

TEST_CASE("sparse matrices have as many zeros in every column as they should, in different places", "[nn][init]") {
  Rng rng(16);
  const Tensor x = init::sparse(0.33, 0.1)({100, 2000}, rng, kDouble);
  const Tensor none = equal(x, 0);
  CHECK(same(sum(none, 0), full({2000}, 33, {.dtype = DType::int64})));
  const Tensor by_row = sum(none, 1);  // each row is hit with probability 0.33
  CHECK(std::fabs(number(max(by_row)) - 660) <= tolerance::standard_errors * std::sqrt(2000 * 0.33 * 0.67));
  CHECK(std::fabs(number(min(by_row)) - 660) <= tolerance::standard_errors * std::sqrt(2000 * 0.33 * 0.67));
  check_moments(masked_select(x, not_equal(x, 0)), 0.01, 3);
  CHECK(number(sum(equal(init::sparse(0)({10, 10}, rng), 0))) == 0);
  CHECK(number(sum(equal(init::sparse(1)({10, 10}, rng), 0))) == 100);
}

TEST_CASE("parameters start with values that are given, or what a function makes", "[nn][init]") {
  const Tensor start = {{1.0, 2.0}, {3.0, 4.0}};
  nn::Linear layer(2, 2, {.weight_init = init::values(start), .bias_init = init::values(Tensor{5.0, 6.0})});
  CHECK(same(layer.weight, {{1.0f, 2.0f}, {3.0f, 4.0f}}));  // of the layer's type
  CHECK(same(layer.bias, {5.0f, 6.0f}));
  layer.weight.fill(0);
  CHECK(same(start, {{1.0, 2.0}, {3.0, 4.0}}));

  Initializer kept = init::zeros();
  {
    const Initializer rising =
        init::function([](const Shape& shape, Rng&, TensorOptions) { return reshape(arange(shape.numel()), shape); });
    kept = rising;  // holds the function by itself
  }
  CHECK(same(kept({2, 2}), {{0.0f, 1.0f}, {2.0f, 3.0f}}));
  CHECK(same(kept({2}, Fans{}, default_rng(), kDouble), {0.0, 1.0}));
  Rng first(17), second(17);
  const Initializer drawn = init::function(
      [](const Shape& shape, Rng& rng, TensorOptions options) { return uniform(shape, 0, 1, rng, options); });
  CHECK(same(drawn({3}, first), uniform({3}, 0, 1, second)));
}

TEST_CASE("initializers of 16-bit parameters round what they draw", "[nn][init]") {
  for (const Initializer& recipe : {init::orthogonal(), init::sparse(0.5), init::identity(), init::variance_scaling()})
    CHECK(recipe({6, 4}, default_rng(), {.dtype = DType::float16}).dtype() == DType::float16);
}
