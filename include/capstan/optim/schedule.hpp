#pragma once
// Schedules: learning rates as plain functions of the step.
//
// The functions below make schedules whose value depends on nothing but the step: they may be asked for any step, in
// any order, any number of times, on any thread. A step below 0 is an Error that names the line where the schedule was
// made; so are options that make no sense, at once. n is the step in the formulas, counted from 0; rates are >= 0.
// Attach a schedule to an optimizer, or use it for whatever else changes over time: a momentum, a loss's weight.
//
// PyTorch's schedulers change a rate step by step; these say in one formula what they arrive at. TensorFlow's have the
// same names. What depends on how training goes has a state: see plateau.hpp. Defined in nn/schedules.cpp.
#include <cstdint>
#include <vector>

#include <capstan/callback.hpp>
#include <capstan/error.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace optim {

/// The learning rate at a step, counted from 0: any callable `double(std::int64_t)`.
using Schedule = Callback<double(std::int64_t)>;

/// rate, always.
Schedule constant(double rate, Where where = Where::current());
/// rate * factor for n < steps, rate from then on. PyTorch's ConstantLR.
Schedule constant_factor(double rate, double factor = 1.0 / 3, std::int64_t steps = 5, Where where = Where::current());

struct LinearOptions {
  double start = 1.0 / 3, end = 1;  ///< shares of the rate
  std::int64_t steps = 5;           ///< >= 1
};
/// rate * (start + (end - start) * min(n, steps) / steps). PyTorch's LinearLR.
Schedule linear(double rate, LinearOptions options = {}, Where where = Where::current());

/// rate * factor^n. PyTorch's ExponentialLR.
Schedule exponential(double rate, double factor, Where where = Where::current());

struct DecayOptions {
  double decay_rate = 0.96;
  std::int64_t steps = 1;  ///< >= 1: in which the rate decays once
  bool staircase = false;  ///< p = floor(n / steps) instead of n / steps
};
// TensorFlow's decays, with p = n / steps.
/// rate * decay_rate^p; decay_rate >= 0.
Schedule exponential_decay(double rate, DecayOptions options, Where where = Where::current());
/// rate * exp(-decay_rate * p).
Schedule natural_exp_decay(double rate, DecayOptions options, Where where = Where::current());
/// rate / (1 + decay_rate * p); decay_rate >= 0.
Schedule inverse_time_decay(double rate, DecayOptions options, Where where = Where::current());

/// rate * factor^floor(n / steps). PyTorch's StepLR.
Schedule step_decay(double rate, std::int64_t steps, double factor = 0.1, Where where = Where::current());
/// rate * factor^k, where k milestones are <= n: the step of a milestone is the first with the new rate. PyTorch's
/// MultiStepLR; the milestones may come in any order, and twice.
Schedule multi_step(double rate, std::vector<std::int64_t> milestones, double factor = 0.1,
                    Where where = Where::current());
/// values[k], where k boundaries are < n: the step of a boundary is the last with the old value, as in TensorFlow's
/// piecewise_constant (and other than in `multi_step`). Boundaries ascend; there is one value more than boundaries.
Schedule piecewise_constant(std::vector<std::int64_t> boundaries, std::vector<double> values,
                            Where where = Where::current());

struct PolynomialOptions {
  std::int64_t steps = 5;  ///< >= 1
  double power = 1;        ///< > 0
  double end = 0;          ///< the rate that it ends with; TensorFlow's default is 1e-4
  bool cycle = false;      ///< begin again at the rate behind each end, in twice, three times the steps
};
/// end + (rate - end) * (1 - min(n, s) / s)^power with s = steps; with `cycle` s is the next multiple of `steps` that
/// is >= n. TensorFlow's polynomial_decay; without the last two options PyTorch's PolynomialLR.
Schedule polynomial_decay(double rate, PolynomialOptions options = {}, Where where = Where::current());

struct CosineOptions {
  std::int64_t steps = 1;  ///< >= 1: from the rate to `end`
  double end = 0;
  bool once = false;  ///< stay at `end` instead of rising again
};
/// end + (rate - end) * (1 + cos(pi * n / steps)) / 2: down in `steps` steps, up in as many, and so on. PyTorch's
/// CosineAnnealingLR, also behind its T_max; with `once` TensorFlow's cosine_decay, whose alpha is end / rate.
/// Loshchilov, Hutter 2017.
Schedule cosine_decay(double rate, CosineOptions options, Where where = Where::current());

struct RestartOptions {
  std::int64_t steps = 1;  ///< >= 1: of the first period
  double growth = 1;       ///< >= 1: each period is so many times as long as the one before
  double height = 1;       ///< and begins so many times as high above `end`
  double end = 0;
};
/// Half a cosine from the rate down to `end` in each period: end + (rate - end) * height^i * (1 + cos(pi * t)) / 2 in
/// period i, of which the share t in [0, 1) is over. PyTorch's CosineAnnealingWarmRestarts (T_0, T_mult), TensorFlow's
/// cosine_decay_restarts (t_mul, m_mul; its alpha is end / rate, and its t_mul 2 if you do not say). Loshchilov,
/// Hutter 2017.
Schedule cosine_restarts(double rate, RestartOptions options, Where where = Where::current());

struct OneCycleOptions {
  std::int64_t steps = 1;     ///< >= 1: of the whole cycle
  double rise = 0.3;          ///< the share of the steps that lead up to the peak, in [0, 1]
  double start_divisor = 25;  ///< it starts at peak / start_divisor
  double end_divisor = 1e4;   ///< and ends at the start / end_divisor
  bool linear = false;        ///< straight lines instead of half cosines
  bool three_phase = false;   ///< down to the start in as many steps as up, and to the end in those left
};
/// Up to `peak` and down again; behind the last step the rate stays. PyTorch's OneCycleLR. Smith, Topin 2018.
/// A momentum that goes the other way, as there: `one_cycle(0.85, {.steps = s, .start_divisor = 0.85 / 0.95,
/// .end_divisor = 1})` starts at 0.95, goes down to 0.85 at the peak of the rate, and back.
Schedule one_cycle(double peak, OneCycleOptions options, Where where = Where::current());

enum class CycleShape : std::uint8_t {
  triangular,   ///< all cycles alike
  triangular2,  ///< each half as high as the one before
  exp_range     ///< times factor^n
};
struct CyclicOptions {
  std::int64_t up = 2000;  ///< >= 1: steps from `low` to `high`
  std::int64_t down = -1;  ///< and back, 0 for at once; below 0: as many as up
  CycleShape shape = CycleShape::triangular;
  double factor = 1;  ///< of exp_range
};
/// low + (high - low) * h, where h goes from 0 to 1 in `up` steps and back in `down`, again and again, and is smaller
/// each time as the shape says. PyTorch's CyclicLR. Smith 2017. Its momentum is `cyclic(most, least, ...)`.
Schedule cyclic(double low, double high, CyclicOptions options = {}, Where where = Where::current());

/// rate * min(t / warm_up, sqrt(warm_up / t)) with t = n + 1: up to `rate` in `warm_up` >= 1 steps, then down.
Schedule inverse_sqrt(double rate, std::int64_t warm_up = 1, Where where = Where::current());
/// scale * model_size^-0.5 * min(t^-0.5, t * warm_up^-1.5) with t = n + 1. Vaswani et al. 2017, section 5.3.
Schedule noam(std::int64_t model_size, std::int64_t warm_up, double scale = 1, Where where = Where::current());

// --- schedules made of schedules -----------------------------------------------------------------------------------

/// A line from start * schedule(0) to schedule(0) in `steps` steps, and from there schedule(n - steps). With a start of
/// 0 the first step has rate 0 and moves nothing; `start = 1.0 / steps` begins above it.
Schedule warm_up(Schedule schedule, std::int64_t steps, double start = 0, Where where = Where::current());
/// One schedule behind the other, each counting from 0: the first for n < milestones[0], the second for n -
/// milestones[0] below milestones[1], and so on. PyTorch's SequentialLR. The milestones ascend; there is one schedule
/// more than milestones.
Schedule sequential(std::vector<Schedule> schedules, std::vector<std::int64_t> milestones,
                    Where where = Where::current());
/// factor * schedule(n).
Schedule scaled(Schedule schedule, double factor, Where where = Where::current());

}  // namespace optim
}  // namespace capstan
