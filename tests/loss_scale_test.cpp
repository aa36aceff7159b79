// Loss scaling: the rules of the scale, 16-bit models that overflow and recover, gradients that would vanish.
#include "tests/support.hpp"

#include <cmath>

using namespace capstan;
using namespace tests;

namespace {

using Tensors = std::vector<Tensor>;

/// A step whose gradients are finite, or not.
void step(optim::LossScaler& scaler, bool finite) {
  CHECK(scaler.unscale({Tensor{1.0f}, Tensor{finite ? 1.0 : kInfinity}}).finite == finite);
  scaler.update();
}

}  // namespace

TEST_CASE("a scale grows after good steps in a row and shrinks after a bad one", "[loss_scale]") {
  optim::LossScaler scaler({.scale = 64, .growth = 4, .backoff = 0.25, .interval = 3});
  std::vector<double> scales;
  for (const bool finite : {true, true, true, true, true, false, true, true, true, false, false}) {
    step(scaler, finite);
    scales.push_back(scaler.scale());
  }
  CHECK(scales == std::vector<double>{64, 64, 256, 256, 256, 64, 64, 64, 256, 64, 16});
  CHECK(scaler.skipped() == 3);
}

TEST_CASE("the scale starts as PyTorch's does and stays within float32", "[loss_scale]") {
  optim::LossScaler scaler;
  CHECK(scaler.scale() == 65536);
  step(scaler, false);
  CHECK(scaler.scale() == 32768);
  for (int i = 0; i < 2000; ++i) step(scaler, true);
  CHECK(scaler.scale() == 65536);
  optim::LossScaler up({.scale = 0x1p126, .interval = 1}), down({.scale = 0x1p-125});
  for (int i = 0; i < 5; ++i) step(up, true);
  CHECK(up.scale() == 0x1p127);
  for (int i = 0; i < 5; ++i) step(down, false);
  CHECK(down.scale() == 0x1p-126);
}

TEST_CASE("a static scale stays, and still counts skipped steps", "[loss_scale]") {
  optim::LossScaler scaler({.scale = 8, .dynamic = false, .interval = 1});
  for (const bool finite : {true, false, true}) step(scaler, finite);
  CHECK(scaler.scale() == 8);
  CHECK(scaler.skipped() == 1);
}

TEST_CASE("unscaled gradients are those of the loss", "[loss_scale]") {
  const Tensor w = random_in(-1, 1, {5}, DType::float32, 431), x = random_in(-1, 1, {5}, DType::float32, 432);
  const auto loss = [&] { return sum(square(w * x)); };
  GradientTape plain;
  plain.watch(w);
  const Tensor expected = plain.gradient(loss(), w);
  optim::LossScaler scaler;
  GradientTape tape;
  tape.watch(w);
  const Tensor scaled = scaler.scale(loss());
  CHECK(number(scaled) == 65536 * number(loss()));  // a power of two: exact
  const auto [gradients, finite] = scaler.unscale({tape.gradient(scaled, w), Tensor()});
  CHECK(finite);
  CHECK(same(gradients[0], expected));
  CHECK_FALSE(gradients[1].defined());
}

TEST_CASE("a 16-bit loss is scaled in float32", "[loss_scale][half]") {
  const optim::LossScaler scaler;
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const Tensor scaled = scaler.scale(Tensor(2.0f).to(dtype));
    CHECK(same(scaled, Tensor(131072.0f)));  // beyond the range of float16
  }
  CHECK(scaler.scale(Tensor(1.0)).dtype() == DType::float64);
}

TEST_CASE("a scale keeps gradients that float16 would lose", "[loss_scale][half]") {
  const auto gradient = [](double scale) {
    Parameter p(1.0f);
    optim::LossScaler scaler({.scale = scale, .dynamic = false});
    GradientTape tape;
    const Tensor half = p.to(DType::float16) * 0x1p-13 * 0x1p-13;
    return number(scaler.unscale({tape.gradient(scaler.scale(half), p)}).gradients[0]);
  };
  CHECK(gradient(1) == 0);  // 2^-26 is below half of float16's smallest number, 2^-24
  CHECK(gradient(1024) == 0x1p-26);
}

TEST_CASE("16-bit models overflow at first, recover and learn", "[loss_scale][half]") {
  const Tensor x = random_in(-1, 1, {32, 4}, DType::float32, 433),
               target = matmul(x, Tensor{{1.0f}, {-2.0f}, {0.5f}, {3.0f}});
  for (const bool masters : {true, false})  // float32 parameters converted to float16, or float16 parameters
    for (const DType dtype : {DType::float16, DType::bfloat16}) {
      INFO(name(dtype) << (masters ? ", float32 parameters" : ""));
      Parameter w(zeros({4, 1}, {masters ? DType::float32 : dtype}));
      optim::Sgd sgd(Tensors{w}, {.learning_rate = 0.25});
      optim::LossScaler scaler({.scale = 0x1p20, .interval = 20});
      const Tensor inputs = x.to(dtype), outputs = target.to(dtype);
      double first = 0, last = 0;
      std::int64_t left_out = 0;
      for (int i = 0; i < 120; ++i) {
        GradientTape tape;
        const Tensor loss = mean(square(matmul(inputs, w.to(dtype)) - outputs));
        const auto [gradients, finite] = scaler.unscale(tape.gradient(scaler.scale(loss), sgd.parameters()));
        if (finite) sgd.apply(gradients);
        else ++left_out;
        scaler.update();
        last = number(loss);
        if (i == 0) first = last;
      }
      CHECK(scaler.skipped() == left_out);
      if (dtype == DType::float16) {
        CHECK(left_out >= 5);   // 2^20 is more than 16 times beyond its range
        CHECK(left_out <= 20);  // down once, then once or twice after each time it grew
        CHECK(scaler.scale() <= 0x1p16);
      } else {
        CHECK(left_out == 0);  // bfloat16 has the range of float32
      }
      CHECK(last < 0.01 * first);
      CHECK(number(all_of(isfinite(w))) == 1);
    }
}

TEST_CASE("several lists of gradients count together until the update", "[loss_scale]") {
  optim::LossScaler scaler({.scale = 4});
  CHECK_FALSE(scaler.unscale({Tensor{kNaN}}).finite);
  CHECK(scaler.unscale({Tensor{8.0}}).finite);
  scaler.update();
  CHECK(scaler.scale() == 2);
  CHECK(scaler.unscale({}).finite);
  scaler.update();
  CHECK(scaler.skipped() == 1);
}

TEST_CASE("row slices are unscaled as slices", "[loss_scale][sparse]") {
  optim::LossScaler scaler({.scale = 4});
  const Tensor rows = from_row_slices({arange(2, 4), full({2, 3}, 8)}, {10, 3});
  const optim::UnscaledGradients unscaled = scaler.unscale({rows});
  REQUIRE(has_row_slices(unscaled.gradients[0]));
  CHECK(has_row_slices(rows));
  CHECK(number(sum(unscaled.gradients[0])) == 12);
  CHECK_FALSE(scaler.unscale({from_row_slices({arange(2, 4), full({2, 3}, kInfinity)}, {10, 3})}).finite);
}

TEST_CASE("a scale goes on from a saved state as if nothing had happened", "[loss_scale]") {
  const optim::LossScaleOptions options{.scale = 64, .interval = 3};
  const std::vector<bool> steps = {true, true, false, true, true, true, true, false, true};
  for (std::size_t cut = 0; cut <= steps.size(); ++cut) {
    INFO("interrupted behind " << cut);
    optim::LossScaler whole(options), before(options), after({.scale = 2, .interval = 3});
    for (const bool finite : steps) step(whole, finite);
    for (std::size_t i = 0; i < cut; ++i) step(before, steps[i]);
    after.load_state(before.state());
    for (std::size_t i = cut; i < steps.size(); ++i) step(after, steps[i]);
    CHECK(after.scale() == whole.scale());
    CHECK(after.skipped() == whole.skipped());
  }
}

TEST_CASE("a step that had begun does not count behind a loaded state", "[loss_scale]") {
  optim::LossScaler scaler({.scale = 64});
  const auto saved = scaler.state();
  CHECK_FALSE(scaler.unscale({Tensor{kInfinity}}).finite);
  scaler.load_state(saved);
  CHECK_THROWS_AS(scaler.update(), Error);  // nothing was unscaled since
  step(scaler, true);
  CHECK(scaler.scale() == 64);
  CHECK(scaler.skipped() == 0);
}

TEST_CASE("the gradient of a scaled loss is recorded by outer tapes", "[loss_scale][tape]") {
  const Tensor x = {2.0, 3.0};
  optim::LossScaler scaler({.scale = 16});
  GradientTape outer;
  outer.watch(x);
  GradientTape inner;
  inner.watch(x);
  const Tensor first = scaler.unscale({inner.gradient(scaler.scale(sum(pow(x, 3))), x)}).gradients[0];
  CHECK(close(first, {12.0, 27.0}, tolerance::roundings64));
  CHECK(close(outer.gradient(first, x), {12.0, 18.0}, tolerance::roundings64));  // 6 x
}
