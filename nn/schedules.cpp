#include <capstan/optim/schedule.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/text.hpp"

namespace capstan::optim {
namespace {

constexpr double kPi = 3.14159265358979323846;

double number(std::int64_t n) { return static_cast<double>(n); }

void require_rate(const char* schedule, const char* what, double value, Where where) {
  if (!(value >= 0 && std::isfinite(value)))
    base::fail<Error>(where, schedule, ": the ", what, " is ", value, "; it must be finite and >= 0.");
}
void require_finite(const char* schedule, const char* what, double value, Where where) {
  if (!std::isfinite(value)) base::fail<Error>(where, schedule, ": the ", what, " is ", value, "; it must be finite.");
}
/// What is counted in steps, such as "steps" or "warm_up".
void require_count(const char* schedule, const char* what, std::int64_t value, std::int64_t least, Where where) {
  if (value < least) base::fail<Error>(where, schedule, ": ", what, " is ", value, "; it must be >= ", least, ".");
}
void require_schedule(const char* schedule, const Schedule& inner, Where where) {
  if (!inner) base::fail<Error>(where, schedule, ": a schedule is empty; give it a function.");
}
void require_ascending(const char* schedule, const char* what, const std::vector<std::int64_t>& list, Where where) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] < 0) base::fail<Error>(where, schedule, ": ", what, " ", i, " is ", list[i], "; steps count from 0.");
    if (i > 0 && list[i] <= list[i - 1])
      base::fail<Error>(where, schedule, ": ", what, " ", i, " is ", list[i], " and the one before it ", list[i - 1],
                        "; they must ascend.");
  }
}

/// `rule(step)` for steps from 0 on.
template <class Rule>
Schedule checked(const char* schedule, Where made, Rule rule) {
  return [=](std::int64_t step) -> double {
    if (step < 0) base::fail<Error>(made, schedule, ": the step is ", step, "; steps count from 0.");
    return rule(step);
  };
}

/// Steps as a share of the steps that a decay takes once.
double decays(const DecayOptions& options, std::int64_t step) {
  return options.staircase ? number(step / options.steps) : number(step) / number(options.steps);
}

void check_decay(const char* schedule, double rate, const DecayOptions& options, Where where) {
  require_rate(schedule, "rate", rate, where);
  require_finite(schedule, "decay_rate", options.decay_rate, where);
  require_count(schedule, "steps", options.steps, 1, where);
}

}  // namespace

Schedule constant(double rate, Where where) {
  require_rate("constant", "rate", rate, where);
  return checked("constant", where, [=](std::int64_t) { return rate; });
}

Schedule constant_factor(double rate, double factor, std::int64_t steps, Where where) {
  constexpr const char* schedule = "constant_factor";
  require_rate(schedule, "rate", rate, where);
  require_rate(schedule, "factor", factor, where);
  require_count(schedule, "steps", steps, 0, where);
  return checked(schedule, where, [=](std::int64_t step) { return step < steps ? rate * factor : rate; });
}

Schedule linear(double rate, LinearOptions options, Where where) {
  constexpr const char* schedule = "linear";
  require_rate(schedule, "rate", rate, where);
  require_rate(schedule, "start", options.start, where);
  require_rate(schedule, "end", options.end, where);
  require_count(schedule, "steps", options.steps, 1, where);
  return checked(schedule, where, [=](std::int64_t step) {
    if (step >= options.steps) return rate * options.end;
    return rate * (options.start + (options.end - options.start) * number(step) / number(options.steps));
  });
}

Schedule exponential(double rate, double factor, Where where) {
  require_rate("exponential", "rate", rate, where);
  require_rate("exponential", "factor", factor, where);
  return checked("exponential", where, [=](std::int64_t step) { return rate * std::pow(factor, number(step)); });
}

Schedule exponential_decay(double rate, DecayOptions options, Where where) {
  check_decay("exponential_decay", rate, options, where);
  require_rate("exponential_decay", "decay_rate", options.decay_rate, where);
  return checked("exponential_decay", where,
                 [=](std::int64_t step) { return rate * std::pow(options.decay_rate, decays(options, step)); });
}

Schedule natural_exp_decay(double rate, DecayOptions options, Where where) {
  check_decay("natural_exp_decay", rate, options, where);
  return checked("natural_exp_decay", where,
                 [=](std::int64_t step) { return rate * std::exp(-options.decay_rate * decays(options, step)); });
}

Schedule inverse_time_decay(double rate, DecayOptions options, Where where) {
  check_decay("inverse_time_decay", rate, options, where);
  require_rate("inverse_time_decay", "decay_rate", options.decay_rate, where);
  return checked("inverse_time_decay", where,
                 [=](std::int64_t step) { return rate / (1 + options.decay_rate * decays(options, step)); });
}

Schedule step_decay(double rate, std::int64_t steps, double factor, Where where) {
  constexpr const char* schedule = "step_decay";
  require_rate(schedule, "rate", rate, where);
  require_count(schedule, "steps", steps, 1, where);
  require_rate(schedule, "factor", factor, where);
  return checked(schedule, where, [=](std::int64_t step) { return rate * std::pow(factor, number(step / steps)); });
}

Schedule multi_step(double rate, std::vector<std::int64_t> milestones, double factor, Where where) {
  constexpr const char* schedule = "multi_step";
  require_rate(schedule, "rate", rate, where);
  require_rate(schedule, "factor", factor, where);
  for (std::size_t i = 0; i < milestones.size(); ++i)
    if (milestones[i] < 0)
      base::fail<Error>(where, schedule, ": milestone ", i, " is ", milestones[i], "; steps count from 0.");
  std::sort(milestones.begin(), milestones.end());
  return checked(schedule, where, [=, list = std::move(milestones)](std::int64_t step) {
    const auto passed = std::upper_bound(list.begin(), list.end(), step) - list.begin();
    return rate * std::pow(factor, number(passed));
  });
}

Schedule piecewise_constant(std::vector<std::int64_t> boundaries, std::vector<double> values, Where where) {
  constexpr const char* schedule = "piecewise_constant";
  if (values.size() != boundaries.size() + 1)
    base::fail<Error>(where, schedule, ": there are ", values.size(), " values and ", boundaries.size(),
                      " boundaries; there must be one value more.");
  require_ascending(schedule, "boundary", boundaries, where);
  for (const double value : values) require_rate(schedule, "value", value, where);
  return checked(schedule, where, [list = std::move(boundaries), rates = std::move(values)](std::int64_t step) {
    return rates[static_cast<std::size_t>(std::lower_bound(list.begin(), list.end(), step) - list.begin())];
  });
}

Schedule polynomial_decay(double rate, PolynomialOptions options, Where where) {
  constexpr const char* schedule = "polynomial_decay";
  require_rate(schedule, "rate", rate, where);
  require_count(schedule, "steps", options.steps, 1, where);
  require_rate(schedule, "end", options.end, where);
  if (!(options.power > 0 && std::isfinite(options.power)))
    base::fail<Error>(where, schedule, ": the power is ", options.power, "; it must be finite and above 0.");
  return checked(schedule, where, [=](std::int64_t step) {
    const double n = number(step), once = number(options.steps);
    const double steps = options.cycle && step > 0 ? once * std::ceil(n / once) : once;
    return options.end + (rate - options.end) * std::pow(1 - std::min(n, steps) / steps, options.power);
  });
}

Schedule cosine_decay(double rate, CosineOptions options, Where where) {
  constexpr const char* schedule = "cosine_decay";
  require_rate(schedule, "rate", rate, where);
  require_count(schedule, "steps", options.steps, 1, where);
  require_rate(schedule, "end", options.end, where);
  return checked(schedule, where, [=](std::int64_t step) {
    if (options.once && step >= options.steps) return options.end;
    // the cosine of a small angle, however large the step
    const double cosine = std::cos(kPi * number(step % options.steps) / number(options.steps));
    const bool down = step / options.steps % 2 == 0;
    return options.end + (rate - options.end) * (1 + (down ? cosine : -cosine)) / 2;
  });
}

namespace {

/// Which period a step is in, and the share of it that is over.
struct Period {
  double index, over;
};

Period period_at(std::int64_t step, std::int64_t first, double growth) {
  if (growth == 1) return {number(step / first), number(step % first) / number(first)};
  // Periods 0 to i-1 take first * (growth^i - 1) / (growth - 1) steps. That may be rounded to a little behind a whole
  // step, which begins a period all the same; the logarithm is off by one at times.
  const double n = number(step), length = number(first);
  const auto begin = [=](double i) { return length * (std::pow(growth, i) - 1) / (growth - 1); };
  double index = std::floor(std::log1p(n / length * (growth - 1)) / std::log(growth));
  if (begin(index + 1) <= n) ++index;
  else if (begin(index) > n) --index;
  const double over = (n - begin(index)) / (length * std::pow(growth, index));
  if (over > 1 - 1e-9) return {index + 1, 0};
  return {index, std::max(over, 0.0)};
}

}  // namespace

Schedule cosine_restarts(double rate, RestartOptions options, Where where) {
  constexpr const char* schedule = "cosine_restarts";
  require_rate(schedule, "rate", rate, where);
  require_count(schedule, "steps", options.steps, 1, where);
  require_rate(schedule, "height", options.height, where);
  require_rate(schedule, "end", options.end, where);
  if (!(options.growth >= 1 && std::isfinite(options.growth)))
    base::fail<Error>(where, schedule, ": the growth is ", options.growth, "; it must be finite and >= 1.");
  return checked(schedule, where, [=](std::int64_t step) {
    const Period period = period_at(step, options.steps, options.growth);
    const double high = (rate - options.end) * std::pow(options.height, period.index);
    return options.end + high * (1 + std::cos(kPi * period.over)) / 2;
  });
}

namespace {

/// A part of one cycle: from one rate to another by the step `end`, which need not be whole.
struct Phase {
  double end, from, to;
};

double between(const Phase& phase, double share, bool linear) {
  if (linear) return phase.from + (phase.to - phase.from) * share;
  return phase.to + (phase.from - phase.to) * (1 + std::cos(kPi * share)) / 2;
}

}  // namespace

Schedule one_cycle(double peak, OneCycleOptions options, Where where) {
  constexpr const char* schedule = "one_cycle";
  require_rate(schedule, "peak", peak, where);
  require_count(schedule, "steps", options.steps, 1, where);
  if (!(options.rise >= 0 && options.rise <= 1))
    base::fail<Error>(where, schedule, ": the rise is ", options.rise, "; it must be in [0, 1].");
  for (const double divisor : {options.start_divisor, options.end_divisor})
    if (!(divisor > 0 && std::isfinite(divisor)))
      base::fail<Error>(where, schedule, ": a divisor is ", divisor, "; it must be finite and above 0.");
  const double start = peak / options.start_divisor, last = start / options.end_divisor;
  const double top = options.rise * number(options.steps) - 1, finish = number(options.steps) - 1;
  const std::vector<Phase> phases =
      options.three_phase ? std::vector<Phase>{{top, start, peak}, {2 * top, peak, start}, {finish, start, last}}
                          : std::vector<Phase>{{top, start, peak}, {finish, peak, last}};
  return checked(schedule, where, [=, straight = options.linear](std::int64_t step) {
    const double n = std::min(number(step), finish);
    std::size_t i = 0;
    while (i + 1 < phases.size() && n > phases[i].end) ++i;
    const double begin = i == 0 ? 0 : phases[i - 1].end, length = phases[i].end - begin;
    return between(phases[i], length > 0 ? (n - begin) / length : 1, straight);
  });
}

Schedule cyclic(double low, double high, CyclicOptions options, Where where) {
  constexpr const char* schedule = "cyclic";
  require_rate(schedule, "low rate", low, where);
  require_rate(schedule, "high rate", high, where);
  require_count(schedule, "up", options.up, 1, where);
  require_rate(schedule, "factor", options.factor, where);
  if (options.down < 0) options.down = options.up;
  return checked(schedule, where, [=](std::int64_t step) {
    // together they may be above 2^63
    const auto length = static_cast<std::uint64_t>(options.up) + static_cast<std::uint64_t>(options.down);
    const auto n = static_cast<std::uint64_t>(step);
    const auto within = static_cast<std::int64_t>(n % length), cycle = static_cast<std::int64_t>(n / length);
    double height = within <= options.up ? number(within) / number(options.up)
                                         : number(options.down - (within - options.up)) / number(options.down);
    if (options.shape == CycleShape::triangular2) height *= std::pow(0.5, number(cycle));
    if (options.shape == CycleShape::exp_range) height *= std::pow(options.factor, number(step));
    return low + (high - low) * height;
  });
}

Schedule inverse_sqrt(double rate, std::int64_t warm_up, Where where) {
  require_rate("inverse_sqrt", "rate", rate, where);
  require_count("inverse_sqrt", "warm_up", warm_up, 1, where);
  return checked("inverse_sqrt", where, [=](std::int64_t step) {
    const double share = (number(step) + 1) / number(warm_up);
    return rate * std::min(share, 1 / std::sqrt(share));
  });
}

Schedule noam(std::int64_t model_size, std::int64_t warm_up, double scale, Where where) {
  require_count("noam", "model_size", model_size, 1, where);
  require_count("noam", "warm_up", warm_up, 1, where);
  require_rate("noam", "scale", scale, where);
  return checked("noam", where, [=](std::int64_t step) {
    const double t = number(step) + 1, w = number(warm_up);
    return scale / std::sqrt(number(model_size)) * std::min(1 / std::sqrt(t), t / (w * std::sqrt(w)));
  });
}

// --- schedules made of schedules ---

Schedule warm_up(Schedule schedule, std::int64_t steps, double start, Where where) {
  require_schedule("warm_up", schedule, where);
  require_count("warm_up", "steps", steps, 0, where);
  require_rate("warm_up", "start", start, where);
  return checked("warm_up", where, [=, inner = std::move(schedule)](std::int64_t step) {
    if (step >= steps) return inner(step - steps);
    return inner(0) * (start + (1 - start) * number(step) / number(steps));
  });
}

Schedule sequential(std::vector<Schedule> schedules, std::vector<std::int64_t> milestones, Where where) {
  if (schedules.size() != milestones.size() + 1)
    base::fail<Error>(where, "sequential: there are ", schedules.size(), " schedules and ", milestones.size(),
                      " milestones; there must be one schedule more.");
  for (const Schedule& inner : schedules) require_schedule("sequential", inner, where);
  require_ascending("sequential", "milestone", milestones, where);
  return checked("sequential", where, [parts = std::move(schedules), list = std::move(milestones)](std::int64_t step) {
    const auto passed = static_cast<std::size_t>(std::upper_bound(list.begin(), list.end(), step) - list.begin());
    return parts[passed](passed == 0 ? step : step - list[passed - 1]);
  });
}

Schedule scaled(Schedule schedule, double factor, Where where) {
  require_schedule("scaled", schedule, where);
  require_rate("scaled", "factor", factor, where);
  return checked("scaled", where, [=, inner = std::move(schedule)](std::int64_t step) { return factor * inner(step); });
}

}  // namespace capstan::optim
