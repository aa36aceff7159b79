// Dropout and its relatives: their decisions are bernoulli's, their values those of the formulas, and modules rest
// outside of training.
#include "tests/support.hpp"

#include <cmath>

using namespace capstan;
using namespace tests;

namespace {

/// Whether a mean of `count` numbers of that variance is within what chance allows.
bool plausible(double mean, double expected, double variance, double count) {
  UNSCOPED_INFO("mean " << mean << ", expected " << expected);
  return std::fabs(mean - expected) <= tolerance::standard_errors * std::sqrt(variance / count);
}

/// x / keep where bernoulli draws 1 for the first axes, else 0.
Tensor expected_drop(const Tensor& x, int axes, double keep, Rng& rng) {
  const DType wide = is_half(x.dtype()) ? DType::float32 : x.dtype();
  std::vector<std::int64_t> sizes, ones_behind;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (axis < axes) sizes.push_back(x.size(axis));
    ones_behind.push_back(axis < axes ? x.size(axis) : 1);
  }
  const Tensor mask = bernoulli(Shape(std::span<const std::int64_t>(sizes)), keep, rng);
  const Tensor spread = reshape(mask, Shape(std::span<const std::int64_t>(ones_behind)));
  return where(not_equal(spread, 0), x.to(wide) * (1 / keep), 0).to(x.dtype());
}

using Drop = Tensor (*)(const Tensor& x, double keep, Rng& rng, Where where);

Tensor call(Drop f, const Tensor& x, double keep, Rng& rng) { return f(x, keep, rng, Where::current()); }

}  // namespace

TEST_CASE("dropout's decisions are bernoulli's, for every type, stride and number of threads", "[dropout]") {
  for (const DType type : {DType::float32, DType::float64, DType::float16, DType::bfloat16})
    for (const Shape& shape : {Shape{37, 1001}, Shape{5}, Shape{}, Shape{3, 0}, Shape{4096}, Shape{4097}})
      for (const double keep : {0.1, 0.5, 0.999}) {
        INFO(name(type) << " " << to_string(shape) << ", keep " << keep);
        const Tensor x = random_in(-1, 1, shape, type, 301);
        Rng first(7), second(7), third(7);
        const Tensor expected = expected_drop(x, x.rank(), keep, first);
        CHECK(same(dropout(x, keep, second), expected));
        CHECK(second.state() == first.state());
        const ThreadCount threads(3);
        CHECK(same(dropout(strided(x), keep, third), expected));
      }
}

TEST_CASE("whole channels and samples are kept or dropped, by one decision each", "[dropout]") {
  struct Row {
    const char* name;
    Drop function;
    Shape shape;
    int axes;  // with decisions of their own
  };
  const Row rows[] = {{"dropout1d", &dropout1d, {5, 7, 30}, 2},
                      {"dropout1d without a batch", &dropout1d, {7, 30}, 1},
                      {"dropout2d", &dropout2d, {3, 11, 5, 400}, 2},
                      {"dropout2d without a batch", &dropout2d, {11, 5, 4}, 1},
                      {"dropout3d", &dropout3d, {3, 11, 2, 3, 2}, 2},
                      {"dropout3d without a batch", &dropout3d, {11, 2, 3, 2}, 1},
                      {"dropout2d with channels of one place", &dropout2d, {9, 9, 1, 1}, 2},
                      {"dropout2d of no places", &dropout2d, {2, 3, 0, 4}, 2},
                      {"drop_path", &drop_path, {9, 5, 2000}, 1},
                      {"drop_path of numbers", &drop_path, {9}, 1}};
  for (const Row& row : rows)
    for (const DType type : {DType::float32, DType::float16})
      for (const int count : {1, 3}) {
        INFO(row.name << ", " << name(type) << ", " << count << " threads");
        const ThreadCount threads(count);
        const Tensor x = random_in(-1, 1, row.shape, type, 302);
        Rng first(8), second(8);
        const Tensor expected = expected_drop(x, row.axes, 0.6, first);
        CHECK(same(call(row.function, x, 0.6, second), expected));
        CHECK(second.state() == first.state());
      }
}

TEST_CASE("what is dropped becomes 0, whatever it was, and what is kept stays", "[dropout]") {
  const Tensor x = concat({full({50}, kNaN), full({50}, kInfinity)});
  Rng first(9), second(9);
  const Tensor kept = not_equal(bernoulli({100}, 0.5, first), 0);
  CHECK(same(dropout(x, 0.5, second), where(kept, x, 0)));
}

TEST_CASE("with nothing to drop x itself is given and nothing is drawn", "[dropout]") {
  const Tensor x = ones({2, 3, 4});
  Rng rng(1);
  for (const Drop f : {&dropout, &dropout1d, &alpha_dropout, &feature_alpha_dropout, &gaussian_dropout, &drop_path})
    CHECK(call(f, x, 1, rng).is_same(x));
  CHECK(gaussian_noise(x, 0, rng).is_same(x));
  CHECK(rng.position() == 0u);
}

TEST_CASE("alpha dropout follows the formula of its paper and keeps mean and variance", "[dropout]") {
  const double c = -1.0507009873554804934 * 1.6732632423543772848, keep = 0.8;
  const double a = 1 / std::sqrt(keep + c * c * keep * (1 - keep)), b = -a * (1 - keep) * c;  // Klambauer, section 3
  const std::int64_t count = 100000;
  Rng source(3), first(4), second(4);
  const Tensor x = normal({count}, source, {.dtype = DType::float64});
  const Tensor kept = not_equal(bernoulli({count}, keep, first), 0);
  const Tensor y = alpha_dropout(x, keep, second);
  CHECK(close(y, where(kept, x, c) * a + b, tolerance::roundings64));
  CHECK(plausible(number(mean(y)), 0, 1, count));
  CHECK(plausible(number(mean(square(y))), 1, 3, count));  // no heavier tails than a normal distribution's
}

TEST_CASE("feature alpha dropout decides for whole channels", "[dropout]") {
  Rng first(5), second(5);
  const Tensor x = random_in(-1, 1, {6, 5, 3, 2}, DType::float64, 303);
  const Tensor y = feature_alpha_dropout(x, 0.7, first), flat = alpha_dropout(zeros({6, 5}), 0.7, second);
  const Tensor kept = greater(flat, 0);  // a dropped one is a*c + b, below 0; a kept 0 is b, above it
  const Tensor channels = reshape(kept, {6, 5, 1, 1});
  const Tensor dropped = where(channels, 0.0, y);
  const double value = number(min(dropped));
  CHECK(value < 0);
  CHECK(all_of(logical_or(broadcast_to(channels, {6, 5, 3, 2}), equal(y, value))).item<bool>());
}

TEST_CASE("gaussian noise has the moments of dropout, and those it is asked for", "[dropout]") {
  const std::int64_t count = 200000;
  Rng rng(6);
  const Tensor x = full({count}, 2.0, {.dtype = DType::float64});
  const Tensor factors = gaussian_dropout(x, 0.8, rng) / 2;
  CHECK(plausible(number(mean(factors)), 1, 0.25, count));                            // (1 - 0.8) / 0.8
  CHECK(plausible(number(mean(square(factors - 1))), 0.25, 2 * 0.25 * 0.25, count));  // of a normal distribution
  const Tensor noise = gaussian_noise(x, 3, rng) - 2;
  CHECK(plausible(number(mean(noise)), 0, 9, count));
  CHECK(plausible(number(mean(square(noise))), 9, 2 * 81, count));
}

TEST_CASE("gradients of dropout pass where the element was kept, and the tape keeps a byte for each", "[dropout]") {
  const Tensor x = random_in(-1, 1, {20, 50}, DType::float32, 304);
  Rng rng(10), again(10);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = dropout(x, 0.25, rng);
  CHECK(tape.bytes_kept() == 1000);
  CHECK(same(tape.gradient(y, x), expected_drop(ones({20, 50}), 2, 0.25, again)));

  GradientTape other;
  other.watch(x);
  Rng third(10);
  const Tensor z = drop_path(x, 0.25, third);
  CHECK(other.bytes_kept() == 20);  // one for each sample
}

TEST_CASE("an operation that fails draws nothing", "[dropout]") {
  Rng rng(2);
  const Tensor x = ones({10});
  CHECK_THROWS_AS(dropout(x, 0, rng), Error);
  CHECK_THROWS_AS(dropout2d(x, 0.5, rng), ShapeError);
  CHECK_THROWS_AS(gaussian_noise(Tensor{1, 2}, 1, rng), DTypeError);
  CHECK(rng.position() == 0u);
}

TEST_CASE("dropout modules draw from the default generator in training, and rest outside of it", "[dropout][nn]") {
  struct Model {
    nn::Dropout elements{{.keep = 0.4}};
    nn::Dropout1d channels1d{{.keep = 0.4}};
    nn::Dropout2d channels2d{{.keep = 0.4}};
    nn::Dropout3d channels3d{{.keep = 0.4}};
    nn::AlphaDropout alpha{{.keep = 0.4}};
    nn::FeatureAlphaDropout feature_alpha{{.keep = 0.4}};
    nn::GaussianDropout gaussian{{.keep = 0.4}};
    nn::DropPath path{{.keep = 0.4}};
    nn::GaussianNoise noise{{.stddev = 0.4}};
  } model;
  const Tensor x = random_in(-1, 1, {4, 5, 3, 2, 2}, DType::float32, 305);
  const Tensor line = x.index({all, all, all, 0, 0}), image = x.index({all, all, all, all, 0});
  Rng rng(77);
  seed(77);
  CHECK(same(model.elements(x), dropout(x, 0.4, rng)));
  CHECK(same(model.channels1d(line), dropout1d(line, 0.4, rng)));
  CHECK(same(model.channels2d(image), dropout2d(image, 0.4, rng)));
  CHECK(same(model.channels3d(x), dropout3d(x, 0.4, rng)));
  CHECK(same(model.alpha(x), alpha_dropout(x, 0.4, rng)));
  CHECK(same(model.feature_alpha(x), feature_alpha_dropout(x, 0.4, rng)));
  CHECK(same(model.gaussian(x), gaussian_dropout(x, 0.4, rng)));
  CHECK(same(model.path(x), drop_path(x, 0.4, rng)));
  CHECK(same(model.noise(x), gaussian_noise(x, 0.4, rng)));

  nn::set_training(model, false);
  CHECK_FALSE(model.noise.training());
  CHECK(model.elements(x).is_same(x));
  CHECK(model.channels1d(line).is_same(line));
  CHECK(model.channels2d(image).is_same(image));
  CHECK(model.channels3d(x).is_same(x));
  CHECK(model.alpha(x).is_same(x));
  CHECK(model.feature_alpha(x).is_same(x));
  CHECK(model.gaussian(x).is_same(x));
  CHECK(model.path(x).is_same(x));
  CHECK(model.noise(x).is_same(x));
  CHECK(nn::named_parameters(model).empty());
}
