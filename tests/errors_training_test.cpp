// Bad input to the tools of training: the right exception, word for word, and nothing changed.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_training_test.cpp";
const std::string amount = "; it must be finite and >= 0.";
const std::string from_one = "; it must be >= 1.";
const std::string below_0 = ": the step is -1; steps count from 0.";
const std::string floating = "; it must be a floating type.";

using Tensors = std::vector<Tensor>;
namespace op = optim;

}  // namespace

TEST_CASE("schedules refuse options that make no sense", "[errors][schedule]") {
  check_errors({
      {__LINE__, message_of<Error>, [] { op::constant(-1); }, "constant: the rate is -1" + amount},
      {__LINE__, message_of<Error>, [] { op::constant(kNaN); }, "constant: the rate is nan" + amount},
      {__LINE__, message_of<Error>, [] { op::constant(kInfinity); }, "constant: the rate is inf" + amount},
      {__LINE__, message_of<Error>, [] { op::constant_factor(1, -0.5); }, "constant_factor: the factor is -0.5" + amount},
      {__LINE__, message_of<Error>, [] { op::constant_factor(1, 0.5, -1); }, "constant_factor: steps is -1; it must be >= 0."},
      {__LINE__, message_of<Error>, [] { op::linear(1, {.start = -1}); }, "linear: the start is -1" + amount},
      {__LINE__, message_of<Error>, [] { op::linear(1, {.end = kNaN}); }, "linear: the end is nan" + amount},
      {__LINE__, message_of<Error>, [] { op::linear(1, {.steps = 0}); }, "linear: steps is 0" + from_one},
      {__LINE__, message_of<Error>, [] { op::exponential(1, -1); }, "exponential: the factor is -1" + amount},
      {__LINE__, message_of<Error>, [] { op::exponential_decay(1, {.decay_rate = -1}); }, "exponential_decay: the decay_rate is -1" + amount},
      {__LINE__, message_of<Error>, [] { op::exponential_decay(1, {.steps = 0}); }, "exponential_decay: steps is 0" + from_one},
      {__LINE__, message_of<Error>, [] { op::natural_exp_decay(1, {.decay_rate = kInfinity}); }, "natural_exp_decay: the decay_rate is inf; it must be finite."},
      {__LINE__, message_of<Error>, [] { op::inverse_time_decay(1, {.decay_rate = -2}); }, "inverse_time_decay: the decay_rate is -2" + amount},
      {__LINE__, message_of<Error>, [] { op::step_decay(1, 0); }, "step_decay: steps is 0" + from_one},
      {__LINE__, message_of<Error>, [] { op::multi_step(1, {3, -2}); }, "multi_step: milestone 1 is -2; steps count from 0."},
      {__LINE__, message_of<Error>, [] { op::piecewise_constant({1, 2}, {1, 2}); },
       "piecewise_constant: there are 2 values and 2 boundaries; there must be one value more."},
      {__LINE__, message_of<Error>, [] { op::piecewise_constant({2, 2}, {1, 2, 3}); },
       "piecewise_constant: boundary 1 is 2 and the one before it 2; they must ascend."},
      {__LINE__, message_of<Error>, [] { op::piecewise_constant({2}, {1, -3}); }, "piecewise_constant: the value is -3" + amount},
      {__LINE__, message_of<Error>, [] { op::polynomial_decay(1, {.power = 0}); }, "polynomial_decay: the power is 0; it must be finite and above 0."},
      {__LINE__, message_of<Error>, [] { op::polynomial_decay(1, {.steps = -5}); }, "polynomial_decay: steps is -5" + from_one},
      {__LINE__, message_of<Error>, [] { op::cosine_decay(1, {.steps = 0}); }, "cosine_decay: steps is 0" + from_one},
      {__LINE__, message_of<Error>, [] { op::cosine_decay(1, {.end = -1}); }, "cosine_decay: the end is -1" + amount},
      {__LINE__, message_of<Error>, [] { op::cosine_restarts(1, {.growth = 0.5}); }, "cosine_restarts: the growth is 0.5; it must be finite and >= 1."},
      {__LINE__, message_of<Error>, [] { op::cosine_restarts(1, {.height = -1}); }, "cosine_restarts: the height is -1" + amount},
      {__LINE__, message_of<Error>, [] { op::one_cycle(1, {.rise = 1.5}); }, "one_cycle: the rise is 1.5; it must be in [0, 1]."},
      {__LINE__, message_of<Error>, [] { op::one_cycle(1, {.start_divisor = 0}); }, "one_cycle: a divisor is 0; it must be finite and above 0."},
      {__LINE__, message_of<Error>, [] { op::one_cycle(1, {.steps = 0}); }, "one_cycle: steps is 0" + from_one},
      {__LINE__, message_of<Error>, [] { op::cyclic(-1, 1); }, "cyclic: the low rate is -1" + amount},
      {__LINE__, message_of<Error>, [] { op::cyclic(0, 1, {.up = 0}); }, "cyclic: up is 0" + from_one},
      {__LINE__, message_of<Error>, [] { op::inverse_sqrt(1, 0); }, "inverse_sqrt: warm_up is 0" + from_one},
      {__LINE__, message_of<Error>, [] { op::noam(0, 10); }, "noam: model_size is 0" + from_one},
      {__LINE__, message_of<Error>, [] { op::warm_up({}, 3); }, "warm_up: a schedule is empty; give it a function."},
      {__LINE__, message_of<Error>, [] { op::warm_up(op::constant(1), -3); }, "warm_up: steps is -3; it must be >= 0."},
      {__LINE__, message_of<Error>, [] { op::sequential({op::constant(1)}, {3}); },
       "sequential: there are 1 schedules and 1 milestones; there must be one schedule more."},
      {__LINE__, message_of<Error>, [] { op::sequential({op::constant(1), op::constant(2)}, {-3}); }, "sequential: milestone 0 is -3; steps count from 0."},
      {__LINE__, message_of<Error>, [] { op::scaled(op::constant(1), kNaN); }, "scaled: the factor is nan" + amount},
  }, file);
}

TEST_CASE("a step below 0 is refused, with the line where the schedule was made", "[errors][schedule]") {
  check_errors({
      {__LINE__, message_of<Error>, [] { op::constant(1)(-1); }, "constant" + below_0},
      {__LINE__, message_of<Error>, [] { op::linear(1)(-1); }, "linear" + below_0},
      {__LINE__, message_of<Error>, [] { op::multi_step(1, {2})(-1); }, "multi_step" + below_0},
      {__LINE__, message_of<Error>, [] { op::one_cycle(1, {.steps = 5})(-1); }, "one_cycle" + below_0},
      {__LINE__, message_of<Error>, [] { op::warm_up(op::constant(1), 3)(-1); }, "warm_up" + below_0},
      {__LINE__, message_of<Error>, [] { op::sequential({op::constant(1)}, {})(-1); }, "sequential" + below_0},
      {__LINE__, message_of<Error>, [] { op::scaled(op::cosine_decay(1, {.steps = 3}), 2)(-1); }, "scaled" + below_0},
  }, file);
}

TEST_CASE("a plateau refuses options and states that make no sense", "[errors][schedule]") {
  op::ReduceOnPlateau plateau(1);
  plateau.update(3);
  auto state = plateau.state(), other = plateau.state(), unknown = plateau.state(), endless = plateau.state();
  state.pop_back();
  other[0].value = Tensor{1.0, 2.0};
  unknown[1].value = Tensor(kNaN);
  endless[2].value = scalar(INT64_MAX, {DType::int64});
  const std::string name = "ReduceOnPlateau";
  check_errors({
      {__LINE__, message_of<Error>, [] { op::ReduceOnPlateau(-1); }, name + ": the rate is -1" + amount},
      {__LINE__, message_of<Error>, [] { op::ReduceOnPlateau(1, {.factor = 1}); }, name + ": the factor is 1; it must be in [0, 1)."},
      {__LINE__, message_of<Error>, [] { op::ReduceOnPlateau(1, {.patience = -1}); }, name + ": the patience is -1; it must be >= 0."},
      {__LINE__, message_of<Error>, [] { op::ReduceOnPlateau(1, {.threshold = -1}); }, name + ": the threshold is -1" + amount},
      {__LINE__, message_of<Error>, [] { op::ReduceOnPlateau(1, {.cooldown = -1}); }, name + ": the cooldown is -1; it must be >= 0."},
      {__LINE__, message_of<Error>, [] { op::ReduceOnPlateau(1, {.least = kInfinity}); }, name + ": the least rate is inf" + amount},
      {__LINE__, message_of<Error>, [] { op::ReduceOnPlateau(1, {.epsilon = -1}); }, name + ": the epsilon is -1" + amount},
      {__LINE__, message_of<Error>, [&] { plateau.load_state(unknown); }, name + ": the best metric of the state is nan; it must be a number."},
      {__LINE__, message_of<Error>, [&] { plateau.load_state(endless); },
       name + "::load_state: \"bad\" is 9223372036854775807; it must be at most 4611686018427387903."},
  }, file);
  CHECK_THROWS_AS(plateau.load_state(state), Error);       // lacks the cooldown
  CHECK_THROWS_AS(plateau.load_state(other), ShapeError);  // two rates
  CHECK(same(plateau.state()[1].value, Tensor(3.0)));      // still the best
}

TEST_CASE("clipping refuses limits, orders and types that do not fit", "[errors][clip]") {
  const Tensor x = {3.0, 4.0}, integers = {1, 2};
  const Tensors infinite = {Tensor{kInfinity}};
  check_errors({
      {__LINE__, message_of<Error>, [&] { return op::clip_by_value({x}, -1); }, "clip_by_value: the limit is -1; it must be >= 0."},
      {__LINE__, message_of<Error>, [&] { return op::clip_by_value({x}, kNaN); }, "clip_by_value: the limit is nan; it must be >= 0."},
      {__LINE__, message_of<Error>, [&] { return op::clip_by_value({x}, 2, 1); }, "clip_by_value: the limits are 2 and 1; low must not exceed high."},
      {__LINE__, message_of<DTypeError>, [&] { return op::clip_by_value({x, integers}, 1); }, "clip_by_value: the tensor is int32" + floating},
      {__LINE__, message_of<Error>, [&] { op::global_norm({x}, 0); }, "global_norm: the order is 0; it must be above 0, or infinite for the largest element."},
      {__LINE__, message_of<Error>, [&] { op::global_norm({x}, kNaN); }, "global_norm: the order is nan; it must be above 0, or infinite for the largest element."},
      {__LINE__, message_of<DTypeError>, [&] { op::global_norm({integers}); }, "global_norm: the tensor is int32" + floating},
      {__LINE__, message_of<Error>, [&] { return op::clip_by_global_norm({x}, -1); }, "clip_by_global_norm: the limit is -1; it must be >= 0."},
      {__LINE__, message_of<Error>, [&] { return op::clip_by_global_norm({x}, kNaN); }, "clip_by_global_norm: the limit is nan; it must be >= 0."},
      {__LINE__, message_of<Error>, [&] { return op::clip_by_global_norm({x}, 1, {.order = -2}); },
       "clip_by_global_norm: the order is -2; it must be above 0, or infinite for the largest element."},
      {__LINE__, message_of<Error>, [&] { return op::clip_by_global_norm({x}, 1, {.epsilon = -1}); }, "clip_by_global_norm: epsilon is -1" + amount},
      {__LINE__, message_of<DTypeError>, [&] { return op::clip_by_global_norm({x, integers}, 1); }, "clip_by_global_norm: the tensor is int32" + floating},
      {__LINE__, message_of<NumericError>, [&] { return op::clip_by_global_norm(infinite, 1, {.error_if_nonfinite = true}); },
       "clip_by_global_norm: the norm of order 2 of all gradients is inf; it must be finite."},
      {__LINE__, message_of<Error>, [&] { return op::clip_by_norm(x, -1); }, "clip_by_norm: the limit is -1; it must be >= 0."},
      {__LINE__, message_of<Error>, [&] { return op::clip_by_norm(Tensor(), 1); }, "clip_by_norm: the tensor is undefined; give it a value first."},
      {__LINE__, message_of<DTypeError>, [&] { return op::clip_by_norm(integers, 1); }, "clip_by_norm: the tensor is int32" + floating},
  }, file);
  CHECK(same(x, {3.0, 4.0}));
  CHECK(x.version() == 0);
}

TEST_CASE("averages refuse parameters, options and targets that do not fit", "[errors][ema]") {
  const Tensor p = {1.0, 2.0};
  const op::EmaOptions options{.decay = 0.5};
  op::Ema ema({p}, options);
  const std::string exclusive = "Ema: equal weights go with neither warm_up nor debias; they have no decay.";
  check_errors({
      {__LINE__, message_of<Error>, [&] { op::Ema({p}, {.decay = 1}); }, "Ema: the decay is 1; it must be in [0, 1)."},
      {__LINE__, message_of<Error>, [&] { op::Ema({p}, {.decay = kNaN}); }, "Ema: the decay is nan; it must be in [0, 1)."},
      {__LINE__, message_of<Error>, [&] { op::Ema({p}, {.warm_up = true, .equal = true}); }, exclusive},
      {__LINE__, message_of<Error>, [&] { op::Ema({p}, {.debias = true, .equal = true}); }, exclusive},
      {__LINE__, message_of<Error>, [&] { op::Ema({p, Tensor()}, options); }, "Ema: parameter 1 is undefined; give it a value first."},
      {__LINE__, message_of<Error>, [&] { op::Ema({p, Tensor{1.0}, p}, options); }, "Ema: parameters 0 and 2 are the same; give each once."},
      {__LINE__, message_of<ShapeError>, [&] { op::Ema({transpose(zeros({2, 3}))}, options); }, "Ema: parameter 0 of shape [3, 2] is not contiguous; it must be."},
      {__LINE__, message_of<ShapeError>, [&] { ema.copy_to(Tensors{}); }, "Ema: there are 0 targets and 1 averages; give one for each, in their order."},
      {__LINE__, message_of<ShapeError>, [&] { ema.copy_to(Tensors{Tensor{1.0}}); }, "Ema: target 0 is [1] and its average [2]; the shapes must be equal."},
      {__LINE__, message_of<DTypeError>, [&] { ema.copy_to(Tensors{Tensor{1.0f, 2.0f}}); }, "Ema: target 0 is float32 and its average float64; the types must be equal."},
      {__LINE__, message_of<Error>, [&] { ema.copy_to(Tensors{Tensor()}); }, "Ema: target 0 is undefined."},
  }, file);
  const std::string swapped = ": the averages stand in the parameters just now; end the swap first.";
  const auto averaged = ema.swap();
  check_errors({
      {__LINE__, message_of<Error>, [&] { ema.update(); }, "Ema::update" + swapped},
      {__LINE__, message_of<Error>, [&] { (void)ema.swap(); }, "Ema::swap" + swapped},
      {__LINE__, message_of<Error>, [&] { ema.copy_to(Tensors{p}); }, "Ema::copy_to" + swapped},
      {__LINE__, message_of<Error>, [&] { ema.state(); }, "Ema::state" + swapped},
  }, file);
}

TEST_CASE("accumulated gradients must fit those before them", "[errors][accumulate]") {
  const Tensor x = {1.0, 2.0};
  op::GradientAccumulator accumulator({.batches = 3, .mean = false}), fresh;
  accumulator.add({x, Tensor()});
  const std::string add = "GradientAccumulator::add: ";
  check_errors({
      {__LINE__, message_of<Error>, [] { op::GradientAccumulator({.batches = 0}); }, "GradientAccumulator: batches is 0" + from_one},
      {__LINE__, message_of<ShapeError>, [&] { accumulator.add({x}); },
       add + "there are 1 gradients and there were 2 before; give one for each parameter, in their order."},
      {__LINE__, message_of<ShapeError>, [&] { accumulator.add({Tensor{1.0}, x}); }, add + "gradient 0 is [1] and was [2] before; the shapes must be equal."},
      {__LINE__, message_of<DTypeError>, [&] { accumulator.add({Tensor{1.0f, 2.0f}, x}); }, add + "gradient 0 is float32 and was float64 before; the types must be equal."},
      {__LINE__, message_of<DTypeError>, [&] { accumulator.add({x, Tensor{1, 2}}); }, add + "gradient 1 is int32" + floating},
      {__LINE__, message_of<Error>, [&] { fresh.take(); }, "GradientAccumulator::take: nothing was added since the last time; call add first."},
  }, file);
  CHECK(accumulator.added() == 1);
  accumulator.add({x, x});
  const Tensors sums = accumulator.take();
  CHECK(same(sums[0], {2.0, 4.0}));
  CHECK(same(sums[1], {1.0, 2.0}));
}

TEST_CASE("a loss scaler refuses options, losses and gradients that make no sense", "[errors][loss_scale]") {
  op::LossScaler scaler;
  auto state = scaler.state();
  state[0].value = Tensor(-4.0);
  check_errors({
      {__LINE__, message_of<Error>, [] { op::LossScaler({.scale = 0}); }, "LossScaler: the scale is 0; it must be a normal float32 number above 0."},
      {__LINE__, message_of<Error>, [] { op::LossScaler({.scale = 1e39}); }, "LossScaler: the scale is 1e+39; it must be a normal float32 number above 0."},
      {__LINE__, message_of<Error>, [] { op::LossScaler({.growth = 0.5}); }, "LossScaler: the growth is 0.5; it must be finite and >= 1."},
      {__LINE__, message_of<Error>, [] { op::LossScaler({.backoff = 1}); }, "LossScaler: the backoff is 1; it must be in (0, 1)."},
      {__LINE__, message_of<Error>, [] { op::LossScaler({.interval = 0}); }, "LossScaler: the interval is 0" + from_one},
      {__LINE__, message_of<Error>, [&] { scaler.scale(Tensor()); }, "LossScaler::scale: the loss is undefined; give it a value first."},
      {__LINE__, message_of<DTypeError>, [&] { scaler.scale(Tensor(3)); }, "LossScaler::scale: the loss is int32" + floating},
      {__LINE__, message_of<Error>, [&] { scaler.update(); }, "LossScaler::update: nothing was unscaled since the last update; call unscale first."},
      {__LINE__, message_of<Error>, [&] { scaler.load_state(state); }, "LossScaler::load_state: \"scale\" is -4; it must be a normal float32 number above 0."},
  }, file);
  CHECK_THROWS_AS(scaler.unscale({Tensor{1, 2}}), DTypeError);
  CHECK(scaler.scale() == 65536);
  CHECK_THROWS_AS(scaler.update(), Error);  // still nothing was unscaled
}

TEST_CASE("operations on lists refuse what does not fit", "[errors][lists]") {
  const Tensor x = {1.0, 2.0}, y = {3.0, 4.0}, integers = {1, 2}, turned = transpose(zeros({2, 3}));
  Tensors totals = {x};
  const std::string lengths = ": the first list has 1 tensors and the second 2; they must be as long as each other.";
  const std::string shapes = ": tensor 0 is [2] in the first list and [1] in the second; the shapes must be equal.";
  const std::string types = ": tensor 0 is float64 in the first list and float32 in the second; the types must be equal.";
  const std::string undefined = ": the tensor is undefined; give it a value first.";
  check_errors({
      {__LINE__, message_of<DTypeError>, [&] { scale_each({integers}, 2); }, "scale_each: the tensor is int32" + floating},
      {__LINE__, message_of<Error>, [&] { scale_each({x}, kNaN); }, "scale_each: the factor is nan; it must be a number."},
      {__LINE__, message_of<ShapeError>, [&] { add_each(totals, {x, y}); }, "add_each" + lengths},
      {__LINE__, message_of<ShapeError>, [&] { add_each(totals, {Tensor{1.0}}); }, "add_each" + shapes},
      {__LINE__, message_of<DTypeError>, [&] { add_each(totals, {Tensor{1.0f, 2.0f}}); }, "add_each" + types},
      {__LINE__, message_of<DTypeError>, [&] { add_each(totals, {integers}); }, "add_each: the tensor is int32" + floating},
      {__LINE__, message_of<ShapeError>, [&] { blend_each(Tensors{x}, Tensors{x, y}, 1); }, "blend_each" + lengths},
      {__LINE__, message_of<ShapeError>, [&] { blend_each(Tensors{x}, Tensors{Tensor{1.0}}, 1); }, "blend_each" + shapes},
      {__LINE__, message_of<Error>, [&] { blend_each(Tensors{x}, Tensors{Tensor()}, 1); }, "blend_each" + undefined},
      {__LINE__, message_of<Error>, [&] { blend_each(Tensors{x}, Tensors{y}, kNaN); }, "blend_each: the weight is nan; it must be a number."},
      {__LINE__, message_of<ShapeError>, [&] { blend_each(Tensors{turned}, Tensors{zeros({3, 2})}, 1); }, "blend_each: tensor 0 of shape [3, 2] is not contiguous; it must be."},
      {__LINE__, message_of<DTypeError>, [&] { exchange_each(Tensors{x}, Tensors{Tensor{1.0f, 2.0f}}); }, "exchange_each" + types},
      {__LINE__, message_of<ShapeError>, [&] { exchange_each(Tensors{zeros({3, 2})}, Tensors{turned}); }, "exchange_each: tensor 0 of shape [3, 2] is not contiguous; it must be."},
      {__LINE__, message_of<Error>, [&] { exchange_each(Tensors{x}, Tensors{x}); }, "exchange_each: tensor 0 shares its elements in both lists; they must be apart."},
  }, file);
  GradientTape tape;
  tape.watch(x);
  const Tensor result = x * 2;
  CHECK_THROWS_AS(blend_each(Tensors{result}, Tensors{y}, 0.5), TapeError);
  CHECK_THROWS_AS(exchange_each(Tensors{y}, Tensors{result}), TapeError);
  CHECK(same(x, {1.0, 2.0}));
  CHECK(same(y, {3.0, 4.0}));
  CHECK(x.version() == 0);
  CHECK(totals[0].is_same(x));
}
