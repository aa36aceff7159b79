// Averages of parameters: published values, the weights of each mode, swapping, saved states.
#include "tests/support.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

using namespace capstan;
using namespace tests;

namespace {

using Numbers = std::vector<double>;
using Tensors = std::vector<Tensor>;

/// The averages behind each update, of a parameter that takes these values one after the other.
Numbers follow(const Numbers& list, optim::EmaOptions options) {
  Tensor p = {list[0]};
  optim::Ema ema({p}, options);
  Numbers averages;
  for (std::size_t i = 1; i < list.size(); ++i) {
    p.fill(list[i]);
    ema.update();
    averages.push_back(number(ema.averages()[0]));
  }
  return averages;
}

bool near(const Numbers& actual, const Numbers& expected) {
  return relative_error(actual, expected) <= tolerance::roundings64;
}

}  // namespace

TEST_CASE("the moving average 0.9 of 1, 2, 3, 4 is as published", "[ema]") {
  CHECK(near(follow({1, 2, 3, 4}, {.decay = 0.9}), {1.1, 1.29, 1.561}));
}

TEST_CASE("a warm-up decays less in the first updates", "[ema]") {
  double expected = 1;  // min(decay, (1 + n) / (10 + n)): 2/11, 3/12, 4/13
  Numbers list;
  for (const double n : {1.0, 2.0, 3.0}) {
    const double decay = std::min(0.24, (1 + n) / (10 + n));
    expected = decay * expected + (1 - decay) * (n + 1);
    list.push_back(expected);
  }
  CHECK(near(follow({1, 2, 3, 4}, {.decay = 0.24, .warm_up = true}), list));
}

TEST_CASE("a debiased average forgets the start", "[ema]") {
  const double d = 0.75, w = 1 - d;
  CHECK(near(follow({-100, 2, 3, 5}, {.decay = d, .debias = true}),
             {2, (d * w * 2 + w * 3) / (1 - d * d), (d * d * w * 2 + d * w * 3 + w * 5) / (1 - d * d * d)}));
  // with a warm-up the decays differ: a zero start divided by 1 - d1 * d2 * d3, as TensorFlow's zero_debias
  double biased = 0, product = 1;
  Numbers list;
  for (const double n : {1.0, 2.0, 3.0}) {
    const double decay = (1 + n) / (10 + n);
    biased = decay * biased + (1 - decay) * (n * n);
    product *= decay;
    list.push_back(biased / (1 - product));
  }
  CHECK(near(follow({-100, 1, 4, 9}, {.warm_up = true, .debias = true}), list));
}

TEST_CASE("equal weights give the mean of the updates", "[ema]") {
  CHECK(near(follow({-100, 2, 4, 9}, {.equal = true}), {2, 3, 5}));
}

TEST_CASE("an average of what does not change stays the same to the last bit", "[ema]") {
  const Tensor p = full({33}, 0.1f);
  optim::Ema ema({p}, {.decay = 0.9999});
  for (int i = 0; i < 50; ++i) ema.update();
  CHECK(same(ema.averages()[0], p));
  CHECK(ema.updates() == 50);
}

TEST_CASE("averages stand in the model while a swap lives, and go when it does", "[ema]") {
  nn::Linear layer(2, 1, {.weight_init = nn::init::constant(1), .dtype = DType::float64});
  optim::Ema ema(nn::parameters(layer), {.decay = 0.5});
  layer.weight.fill(3);
  ema.update();
  const Tensor x = {{1.0, 1.0}};
  const std::int64_t before = memory::stats().in_use;
  CHECK(same(layer(x), {{6.0}}));
  {
    const optim::Ema::Swap averaged = ema.swap();
    CHECK(memory::stats().in_use == before);
    CHECK(same(layer(x), {{4.0}}));  // 0.5 * 1 + 0.5 * 3 = 2 for each
  }
  CHECK(same(layer(x), {{6.0}}));
  CHECK(same(ema.averages()[0], {{2.0}, {2.0}}));
  ema.update();  // goes on from there
  CHECK(same(ema.averages()[0], {{2.5}, {2.5}}));
}

TEST_CASE("a swap ends when an exception leaves it", "[ema]") {
  const Tensor p = {1.0};
  optim::Ema ema({p}, {.decay = 0.5});
  Tensor(p).fill(3);
  ema.update();
  try {
    const auto averaged = ema.swap();
    CHECK(same(p, {2.0}));
    throw std::runtime_error("in the middle of it");
  } catch (const std::runtime_error&) { CHECK(same(p, {3.0})); }
  auto first = ema.swap();
  {
    const auto moved = std::move(first);
    CHECK(same(p, {2.0}));
  }
  CHECK(same(p, {3.0}));
}

TEST_CASE("a swap gives back what it took, whatever the parameters share and tapes follow", "[ema][tape]") {
  Tensor whole = {1.0, 2.0}, part = whole[1];
  optim::Ema parts({whole, part}, {.decay = 0.5});
  whole.fill(4);
  parts.update();
  { const auto averaged = parts.swap(); }
  CHECK(same(whole, {4.0, 4.0}));
  CHECK(same(parts.averages()[0], {2.5, 3.0}));
  CHECK(same(parts.averages()[1], Tensor(3.0)));

  const Tensor x = {1.0};
  GradientTape tape;
  tape.watch(x);
  Tensor result = x * 2;  // may not be changed while the tape records
  optim::Ema ema({result});
  std::optional<optim::Ema::Swap> averaged;
  {
    const NoGrad off;
    result.fill(7);
    averaged.emplace(ema.swap());
    CHECK(same(result, {2.0}));
  }
  averaged.reset();
  CHECK(same(result, {7.0}));
}

TEST_CASE("a swap makes no NaN of its own", "[ema][numerics]") {
  Tensor p = {kNaN};
  optim::Ema ema({p});
  p.fill(1);
  const debug::NumericsScope checked;
  {
    const auto averaged = ema.swap();
    CHECK(same(p, {kNaN}));
  }
  CHECK(same(p, {1.0}));
}

TEST_CASE("what changes the parameters during a swap changes the averages", "[ema]") {
  Tensor p = {1.0};
  optim::Ema ema({p}, {.decay = 0.5});
  p.fill(3);
  ema.update();
  {
    const auto averaged = ema.swap();
    optim::Sgd sgd(Tensors{p}, {.learning_rate = 1});
    sgd.apply(Tensors{Tensor{0.5}});
    CHECK(same(p, {1.5}));  // 2 - 0.5
  }
  CHECK(same(p, {3.0}));
  CHECK(same(ema.averages()[0], {1.5}));
}

TEST_CASE("nothing else works while a swap is on, and all of it behind", "[ema][errors]") {
  const Tensor p = {1.0};
  optim::Ema ema({p}, {.decay = 0.5});
  const auto state = ema.state();
  {
    const auto averaged = ema.swap();
    CHECK_THROWS_AS(ema.update(), Error);
    CHECK_THROWS_AS(ema.swap(), Error);
    CHECK_THROWS_AS(ema.copy_to(Tensors{p}), Error);
    CHECK_THROWS_AS(ema.state(), Error);
    CHECK_THROWS_AS(ema.load_state(state), Error);
    CHECK(ema.updates() == 0);
  }
  CHECK_NOTHROW(ema.update());
  CHECK_NOTHROW(ema.swap());
  CHECK_NOTHROW(ema.load_state(state));
}

TEST_CASE("averages can be written to another model, or to their own for good", "[ema]") {
  nn::Linear layer(2, 1, {.weight_init = nn::init::constant(1)});
  nn::Linear other = layer;
  optim::Ema ema(nn::parameters(layer), {.decay = 0.5});
  layer.weight.fill(3);
  ema.update();
  ema.copy_to(nn::parameters(other));
  CHECK(same(other.weight, {{2.0f}, {2.0f}}));
  CHECK(same(layer.weight, {{3.0f}, {3.0f}}));
  ema.copy_to(ema.parameters());
  CHECK(same(layer.weight, {{2.0f}, {2.0f}}));
  layer.weight.fill(7);
  CHECK(same(ema.averages()[0], {{2.0f}, {2.0f}}));  // they are apart
}

TEST_CASE("buffers are averaged if they are in the list, and counts follow", "[ema]") {
  Buffer mean(Tensor{1.0, 2.0}), count(Tensor{5});
  optim::Ema ema({mean, count}, {.decay = 0.5});
  mean.fill(3);
  count.fill(6);
  ema.update();
  CHECK(same(ema.averages()[0], {2.0, 2.5}));
  CHECK(same(ema.averages()[1], {6}));
  count.fill(7);
  {
    const auto averaged = ema.swap();
    CHECK(same(mean, {2.0, 2.5}));
    CHECK(same(count, {6}));
  }
  CHECK(same(count, {7}));
}

TEST_CASE("an average goes on from a saved state as if nothing had happened", "[ema]") {
  for (const optim::EmaOptions& options :
       {optim::EmaOptions{.decay = 0.9, .warm_up = true, .debias = true}, optim::EmaOptions{.equal = true}}) {
    const Tensor p = {1.0, 2.0}, q = p.copy();
    const auto value = [](int step, int i) { return 0.5 * step * step - i; };
    optim::Ema whole({p}, options), before({q}, options);
    std::vector<NamedTensor> saved;
    for (int step = 0; step < 6; ++step) {
      Tensor(p).assign(Tensor{value(step, 0), value(step, 1)});
      whole.update();
      if (step >= 3) continue;
      Tensor(q).assign(p);
      before.update();
      if (step == 2) saved = before.state();
    }
    REQUIRE(saved.size() == 3u);
    CHECK(saved[2].name == "average.0");
    before.update();  // what was saved are copies
    const Tensor r = zeros({2}, {DType::float64});
    optim::Ema after({r}, options);
    after.load_state(saved);
    CHECK(after.updates() == 3);
    for (int step = 3; step < 6; ++step) {
      Tensor(r).assign(Tensor{value(step, 0), value(step, 1)});
      after.update();
    }
    CHECK(same(after.averages()[0], whole.averages()[0]));
  }
}

TEST_CASE("a state that does not fit changes nothing", "[ema][errors]") {
  const Tensor p = {1.0, 2.0};
  optim::Ema ema({p}), shorter({Tensor{1.0}}), narrow_one({Tensor{1.0f, 2.0f}}), longer({p, Tensor{1.0}});
  longer.update();
  for (const optim::Ema* other : {&shorter, &narrow_one, &longer}) {
    CHECK_THROWS_AS(ema.load_state(other->state()), Error);
    CHECK(ema.updates() == 0);
    CHECK(same(ema.averages()[0], {1.0, 2.0}));
  }
  CHECK_THROWS_AS(longer.load_state(ema.state()), Error);  // lacks one
  CHECK(longer.updates() == 1);
}

TEST_CASE("averaging is not recorded, and a swap counts as a change of what a tape has saved", "[ema][tape]") {
  Parameter p(2.0);
  optim::Ema ema({p}, {.decay = 0.5});
  GradientTape tape{{.persistent = true}};
  const Tensor y = p * p;
  const std::int64_t size = tape.size();
  ema.update();
  CHECK(number(tape.gradient(y, p)) == 4);  // nothing was changed
  {
    const auto averaged = ema.swap();
    CHECK_THROWS_AS(tape.gradient(y, p), TapeError);
  }
  CHECK_FALSE(tape.follows(ema.averages()[0]));
  CHECK(tape.size() == size);
}

TEST_CASE("parameters of all floating types are averaged in their own", "[ema][half]") {
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) {
    const Tensor p = Tensor{1.0, -4.0}.to(dtype);
    optim::Ema ema({p}, {.decay = 0.5});
    Tensor(p).fill(2);
    ema.update();
    CHECK(same(ema.averages()[0], Tensor{1.5, -1.0}.to(dtype)));
  }
}
