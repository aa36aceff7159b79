// Schedules: published values, closed forms beside step-by-step rules, boundaries; the state of a plateau.
#include "tests/support.hpp"

#include <algorithm>
#include <cmath>

using namespace capstan;
using namespace tests;

namespace {

using Numbers = std::vector<double>;
using optim::Schedule;

Numbers first(const Schedule& schedule, std::int64_t count) {
  Numbers list;
  for (std::int64_t n = 0; n < count; ++n) list.push_back(schedule(n));
  return list;
}

/// Whether the first rates are these.
bool starts(const Schedule& schedule, const Numbers& expected) {
  const Numbers actual = first(schedule, static_cast<std::int64_t>(expected.size()));
  const double error = relative_error(actual, expected);
  if (error > tolerance::roundings64)
    for (std::size_t i = 0; i < actual.size(); ++i) WARN("step " << i << ": " << actual[i] << ", not " << expected[i]);
  return error <= tolerance::roundings64;
}

const double pi = std::acos(-1.0);

}  // namespace

TEST_CASE("constant schedules stay", "[schedule]") {
  CHECK(starts(optim::constant(0.3), {0.3, 0.3, 0.3}));
  CHECK(optim::constant(0)(INT64_MAX) == 0);
  CHECK(starts(optim::constant_factor(0.3, 0.5, 2), {0.15, 0.15, 0.3, 0.3}));
  CHECK(starts(optim::constant_factor(0.3, 0.5, 0), {0.3, 0.3}));
  CHECK(starts(optim::constant_factor(0.3), {0.1, 0.1, 0.1, 0.1, 0.1, 0.3}));  // PyTorch's defaults: a third, 5 steps
}

TEST_CASE("linear goes from a share of the rate to another and stays there", "[schedule]") {
  CHECK(starts(optim::linear(2, {.start = 0.5, .end = 1, .steps = 4}), {1, 1.25, 1.5, 1.75, 2, 2, 2}));
  CHECK(starts(optim::linear(2, {.start = 1, .end = 0, .steps = 2}), {2, 1, 0, 0}));
  CHECK(optim::linear(0.1, {.start = 0.3, .end = 0.7, .steps = 3})(1000) == 0.1 * 0.7);
}

TEST_CASE("exponential decay of 0.1 by 0.9 in 10 steps is as published", "[schedule]") {
  const Schedule smooth = optim::exponential_decay(0.1, {.decay_rate = 0.9, .steps = 10});
  const Schedule stairs = optim::exponential_decay(0.1, {.decay_rate = 0.9, .steps = 10, .staircase = true});
  for (const std::int64_t n : {0, 1, 5, 9, 10, 11, 20, 35, 100}) {  // 0.1 * 0.9^(n/10); staircase floors n/10
    INFO("step " << n);
    CHECK(smooth(n) == Approx(0.1 * std::pow(0.9, static_cast<double>(n) / 10)).epsilon(1e-13));
    CHECK(stairs(n) == Approx(0.1 * std::pow(0.9, std::floor(static_cast<double>(n) / 10))).epsilon(1e-13));
  }
  CHECK(stairs(9) == 0.1);
  CHECK(stairs(10) == Approx(0.09).epsilon(1e-13));
  CHECK(starts(optim::exponential(0.5, 0.5), {0.5, 0.25, 0.125, 0.0625}));
}

TEST_CASE("the other decays of TensorFlow follow their formulas", "[schedule]") {
  const optim::DecayOptions half{.decay_rate = 0.5, .steps = 2},
      stairs{.decay_rate = 0.5, .steps = 2, .staircase = true};
  CHECK(starts(optim::inverse_time_decay(1, half), {1, 1 / 1.25, 1 / 1.5, 1 / 1.75, 0.5}));  // 1 / (1 + n/4)
  CHECK(starts(optim::inverse_time_decay(1, stairs), {1, 1, 1 / 1.5, 1 / 1.5, 0.5}));
  CHECK(starts(optim::natural_exp_decay(1, half), {1, std::exp(-0.25), std::exp(-0.5), std::exp(-0.75)}));
  CHECK(starts(optim::natural_exp_decay(1, stairs), {1, 1, std::exp(-0.5), std::exp(-0.5), std::exp(-1.0)}));
}

TEST_CASE("a milestone is the first step with the new rate, a boundary the last with the old", "[schedule]") {
  CHECK(starts(optim::step_decay(1, 2, 0.5), {1, 1, 0.5, 0.5, 0.25, 0.25}));
  CHECK(starts(optim::step_decay(1, 3), {1, 1, 1, 0.1, 0.1, 0.1, 0.01}));
  CHECK(starts(optim::multi_step(1, {2, 4}, 0.5), {1, 1, 0.5, 0.5, 0.25, 0.25}));
  CHECK(starts(optim::multi_step(1, {4, 2, 2}, 0.5), {1, 1, 0.25, 0.25, 0.125}));  // any order, and twice
  CHECK(starts(optim::multi_step(1, {0}, 0.5), {0.5, 0.5}));
  CHECK(starts(optim::multi_step(1, {}), {1, 1}));
  CHECK(starts(optim::piecewise_constant({2, 4}, {1, 0.5, 0.25}), {1, 1, 1, 0.5, 0.5, 0.25, 0.25}));
  CHECK(starts(optim::piecewise_constant({}, {0.7}), {0.7, 0.7}));
}

TEST_CASE("polynomial decay ends, or begins again in more and more steps", "[schedule]") {
  CHECK(starts(optim::polynomial_decay(1, {.steps = 4, .power = 2}), {1, 0.5625, 0.25, 0.0625, 0, 0}));
  CHECK(starts(optim::polynomial_decay(1, {.steps = 2, .end = 0.5}), {1, 0.75, 0.5, 0.5}));
  // TensorFlow: s = 2 * ceil(n / 2), so step 2 ends the first round, and step 3 is 3/4 through one of 4 steps
  CHECK(starts(optim::polynomial_decay(1, {.steps = 2, .cycle = true}), {1, 0.5, 0, 0.25, 0, 1.0 / 6, 0}));
}

TEST_CASE("cosine decay equals PyTorch's recursion, also behind T_max", "[schedule]") {
  const double rate = 0.1, end = 0.01;
  for (const std::int64_t steps : {1, 2, 7, 10}) {
    const Schedule schedule = optim::cosine_decay(rate, {.steps = steps, .end = end});
    const auto t_max = static_cast<double>(steps);
    double expected = rate;  // CosineAnnealingLR.get_lr
    for (std::int64_t n = 0; n < 5 * steps; ++n) {
      const auto epoch = static_cast<double>(n);
      if (n > 0 && (n - 1 - steps) % (2 * steps) == 0) expected += (rate - end) * (1 - std::cos(pi / t_max)) / 2;
      else if (n > 0)
        expected =
            (1 + std::cos(pi * epoch / t_max)) / (1 + std::cos(pi * (epoch - 1) / t_max)) * (expected - end) + end;
      INFO("step " << n << " of " << steps);
      CHECK(std::fabs(schedule(n) - expected) <= 1e-12);  // the recursion loses digits from step to step
    }
    CHECK(schedule(steps) == end);
    CHECK(schedule(2 * steps) == Approx(rate).epsilon(1e-14));
  }
  CHECK(starts(optim::cosine_decay(1, {.steps = 2, .end = 0.5, .once = true}), {1, 0.75, 0.5, 0.5, 0.5}));
  CHECK(optim::cosine_decay(1, {.steps = 3})(6000000000000000000) == 1);  // an even number of times down and up
}

TEST_CASE("cosine restarts begin again when a period is over", "[schedule]") {
  const auto falling = [](double share) { return (1 + std::cos(pi * share)) / 2; };
  CHECK(starts(optim::cosine_restarts(1, {.steps = 2}), {1, 0.5, 1, 0.5, 1, 0.5}));
  CHECK(starts(optim::cosine_restarts(1, {.steps = 1, .growth = 2}),
               {1, 1, 0.5, 1, falling(0.25), 0.5, falling(0.75), 1}));
  CHECK(starts(optim::cosine_restarts(1, {.steps = 2, .height = 0.5}), {1, 0.5, 0.5, 0.25, 0.25, 0.125}));
  CHECK(starts(optim::cosine_restarts(1.5, {.steps = 2, .height = 0.5, .end = 0.5}), {1.5, 1, 1, 0.75}));
  const Schedule grown = optim::cosine_restarts(1, {.steps = 4, .growth = 1.5});  // periods of 4, 6, 9 steps
  for (const std::int64_t begin : {0, 4, 10, 19}) CHECK(grown(begin) == Approx(1));
  CHECK(grown(18) == Approx(falling(8.0 / 9)));
  CHECK(optim::cosine_restarts(1, {.steps = 10, .growth = 1.9})(10) == Approx(1));  // 10 * (1.9 - 1) / 0.9 is above 10
  CHECK(optim::cosine_restarts(1, {.steps = 10, .growth = 1.2})(22) == Approx(1));
  CHECK(optim::cosine_restarts(1, {.steps = 30, .growth = 1.7, .height = 0.5})(30) == Approx(0.5));
  const Schedule doubled = optim::cosine_restarts(1, {.steps = 3, .growth = 2});
  for (int i = 0; i < 40; ++i) CHECK(doubled(3 * ((std::int64_t{1} << i) - 1)) == 1);  // 3 * (2^i - 1)
}

TEST_CASE("one cycle rises and falls as PyTorch's, in two or three phases", "[schedule]") {
  // up in rise * steps - 1 = 2 steps, down in the 7 left
  const Schedule lines =
      optim::one_cycle(1, {.steps = 10, .rise = 0.3, .start_divisor = 2, .end_divisor = 5, .linear = true});
  CHECK(
      starts(lines, {0.5, 0.75, 1, 1 - 0.9 / 7, 1 - 1.8 / 7, 1 - 2.7 / 7, 1 - 3.6 / 7, 1 - 4.5 / 7, 1 - 5.4 / 7, 0.1}));
  CHECK(lines(10) == lines(9));  // stays
  CHECK(lines(1000) == lines(9));
  const Schedule waves = optim::one_cycle(1, {.steps = 10, .rise = 0.3, .start_divisor = 2, .end_divisor = 5});
  CHECK(waves(1) == Approx(0.75));  // half way up half a cosine
  CHECK(waves(3) == Approx(0.1 + 0.9 * (1 + std::cos(pi / 7)) / 2));
  // up until step 2, down to the start until step 4, then to the end
  CHECK(starts(
      optim::one_cycle(
          1, {.steps = 10, .rise = 0.3, .start_divisor = 2, .end_divisor = 5, .linear = true, .three_phase = true}),
      {0.5, 0.75, 1, 0.75, 0.5, 0.42, 0.34, 0.26, 0.18, 0.1}));
  CHECK(starts(optim::one_cycle(1, {.steps = 1}), {1 / 25.0 / 1e4}));
  const Schedule momentum = optim::one_cycle(0.85, {.steps = 30, .start_divisor = 0.85 / 0.95, .end_divisor = 1});
  CHECK(momentum(0) == Approx(0.95));
  CHECK(momentum(8) == Approx(0.85));
  CHECK(momentum(29) == Approx(0.95));
}

TEST_CASE("cyclic rates go up and down in three shapes", "[schedule]") {
  CHECK(starts(optim::cyclic(1, 3, {.up = 2}), {1, 2, 3, 2, 1, 2, 3, 2, 1}));
  CHECK(starts(optim::cyclic(1, 3, {.up = 2, .down = 4}), {1, 2, 3, 2.5, 2, 1.5, 1, 2, 3}));
  CHECK(starts(optim::cyclic(1, 3, {.up = 2, .down = 0}), {1, 2, 1, 2, 1}));
  CHECK(
      starts(optim::cyclic(1, 3, {.up = 2, .shape = optim::CycleShape::triangular2}), {1, 2, 3, 2, 1, 1.5, 2, 1.5, 1}));
  CHECK(starts(optim::cyclic(1, 3, {.up = 2, .shape = optim::CycleShape::exp_range, .factor = 0.5}),
               {1, 1.5, 1.5, 1.125, 1, 1 + 1.0 / 32}));                     // 1 + 2 * h * 0.5^n
  CHECK(starts(optim::cyclic(0.95, 0.85, {.up = 1}), {0.95, 0.85, 0.95}));  // a momentum
  const Schedule endless = optim::cyclic(1, 3, {.up = INT64_MAX});          // up and down together are above 2^63
  CHECK(endless(0) == 1);
  CHECK(endless(INT64_MAX) == 3);
}

TEST_CASE("the rate of the transformer paper rises in a line and falls with the root", "[schedule]") {
  const Schedule noam = optim::noam(512, 4000);  // Vaswani et al. 2017, (3)
  for (const double t : {1.0, 2.0, 3999.0, 4000.0, 4001.0, 100000.0}) {
    INFO("step number " << t);
    const double expected = std::pow(512.0, -0.5) * std::min(std::pow(t, -0.5), t * std::pow(4000.0, -1.5));
    CHECK(noam(static_cast<std::int64_t>(t) - 1) == Approx(expected).epsilon(1e-12));
  }
  CHECK(starts(optim::inverse_sqrt(1, 4), {0.25, 0.5, 0.75, 1, std::sqrt(0.8), std::sqrt(4.0 / 6)}));
  CHECK(starts(optim::inverse_sqrt(1), {1, std::sqrt(0.5), std::sqrt(1 / 3.0), 0.5}));
}

TEST_CASE("schedules are made of schedules", "[schedule]") {
  const Schedule falling = optim::step_decay(1, 2, 0.5);
  CHECK(starts(optim::warm_up(falling, 4), {0, 0.25, 0.5, 0.75, 1, 1, 0.5, 0.5}));
  CHECK(starts(optim::warm_up(falling, 2, 0.5), {0.5, 0.75, 1, 1, 0.5}));
  CHECK(starts(optim::warm_up(falling, 0), {1, 1, 0.5}));
  CHECK(starts(optim::sequential({optim::constant(7), falling, optim::constant(3)}, {1, 4}), {7, 1, 1, 0.5, 3, 3}));
  CHECK(starts(optim::sequential({falling}, {}), {1, 1, 0.5}));
  CHECK(starts(optim::scaled(falling, 10), {10, 10, 5, 5}));
  // a warm-up is PyTorch's SequentialLR of a LinearLR and what comes behind it
  const Schedule same_thing = optim::sequential({optim::linear(1, {.start = 0.5, .steps = 2}), falling}, {2});
  CHECK(starts(same_thing, first(optim::warm_up(falling, 2, 0.5), 8)));
}

TEST_CASE("any callable is a schedule", "[schedule]") {
  const Schedule own = [](std::int64_t n) { return n < 10 ? 1.0 : 0.5; };
  CHECK(starts(optim::warm_up(own, 2), {0, 0.5, 1, 1}));
  CHECK(optim::scaled(own, 2)(10) == 1);
  double (*const nothing)(std::int64_t) = nullptr;
  CHECK(!Schedule(nothing));
  CHECK_THROWS_AS(optim::warm_up(nothing, 2), Error);
}

TEST_CASE("schedules may be asked for steps in any order", "[schedule]") {
  const std::vector<Schedule> all = {optim::constant(1),
                                     optim::linear(1),
                                     optim::exponential_decay(1, {.steps = 3}),
                                     optim::multi_step(1, {2, 5}),
                                     optim::polynomial_decay(1, {.cycle = true}),
                                     optim::cosine_decay(1, {.steps = 4}),
                                     optim::cosine_restarts(1, {.steps = 2, .growth = 2}),
                                     optim::one_cycle(1, {.steps = 12}),
                                     optim::cyclic(0, 1, {.up = 3, .shape = optim::CycleShape::triangular2}),
                                     optim::noam(16, 5),
                                     optim::warm_up(optim::cosine_decay(1, {.steps = 4}), 3)};
  for (std::size_t i = 0; i < all.size(); ++i) {
    INFO("schedule " << i);
    const Numbers forwards = first(all[i], 20);
    const Schedule copy = all[i];
    for (std::int64_t n = 19; n >= 0; --n) CHECK(copy(n) == forwards[static_cast<std::size_t>(n)]);
    CHECK(std::isfinite(all[i](std::int64_t{1} << 62)));
  }
}

// --- ReduceOnPlateau -------------------------------------------------------------------------------------------

namespace {

/// The rates behind each metric.
Numbers rates(optim::ReduceOnPlateau& plateau, const Numbers& metrics) {
  Numbers list;
  for (const double metric : metrics) list.push_back(plateau.update(metric));
  return list;
}

}  // namespace

TEST_CASE("a plateau longer than the patience lowers the rate", "[schedule]") {
  optim::ReduceOnPlateau plateau(1, {.factor = 0.5, .patience = 2, .threshold = 0});
  CHECK(rates(plateau, {5, 4, 4, 4, 4, 4, 4, 4}) == Numbers{1, 1, 1, 1, 0.5, 0.5, 0.5, 0.25});  // bad 1, 2, 3: lower
  CHECK(rates(plateau, {3, 3, 3}) == Numbers{0.25, 0.25, 0.25});                                // better: anew
  CHECK(plateau.rate() == 0.25);
}

TEST_CASE("what counts as better is relative or absolute, smaller or larger", "[schedule]") {
  optim::ReduceOnPlateau relative(1, {.factor = 0.5, .patience = 0, .threshold = 0.1});
  CHECK(rates(relative, {10, 9.5, 8.9, 8.1}) == Numbers{1, 0.5, 0.5, 0.25});  // below 9; then not below 8.01
  optim::ReduceOnPlateau absolute(1, {.factor = 0.5, .patience = 0, .threshold = 0.5, .absolute = true});
  CHECK(rates(absolute, {10, 9.5, 9.25}) == Numbers{1, 0.5, 0.5});  // 9.5 is not below 9.5
  optim::ReduceOnPlateau rising(1, {.maximize = true, .factor = 0.5, .patience = 0, .threshold = 0.1});
  CHECK(rates(rising, {1, 1.05, 1.2}) == Numbers{1, 0.5, 0.5});
  optim::ReduceOnPlateau rising_by(
      1, {.maximize = true, .factor = 0.5, .patience = 0, .threshold = 0.1, .absolute = true});
  CHECK(rates(rising_by, {-5, -4.95, -4.8}) == Numbers{1, 0.5, 0.5});
  optim::ReduceOnPlateau lost(1, {.factor = 0.5, .patience = 1});
  CHECK(rates(lost, {kNaN, kNaN, 1, 2}) == Numbers{1, 0.5, 0.5, 0.5});  // NaN is not better
}

TEST_CASE("cooldown, the least rate and epsilon hold a plateau back", "[schedule]") {
  optim::ReduceOnPlateau cool(1, {.factor = 0.5, .patience = 0, .cooldown = 2});
  CHECK(rates(cool, {1, 1, 1, 1, 1, 1}) == Numbers{1, 0.5, 0.5, 0.5, 0.25, 0.25});
  optim::ReduceOnPlateau least(1, {.factor = 0.1, .patience = 0, .least = 0.5});
  CHECK(rates(least, {1, 1, 1}) == Numbers{1, 0.5, 0.5});
  optim::ReduceOnPlateau lazy(1, {.factor = 0.5, .patience = 0, .epsilon = 0.3});
  CHECK(rates(lazy, {1, 1, 1}) == Numbers{1, 0.5, 0.5});  // the next change would be 0.25
}

TEST_CASE("a plateau goes on from a state as if nothing had happened", "[schedule]") {
  const optim::PlateauOptions options{.factor = 0.5, .patience = 1, .cooldown = 1};
  const Numbers metrics = {3, 3, 3, 3, 2, 2, 2, 2, 2, 1, 1, 1, 1};
  for (std::size_t cut = 0; cut <= metrics.size(); ++cut) {
    optim::ReduceOnPlateau whole(1, options), before(1, options), after(0.25, options);
    const Numbers expected = rates(whole, metrics);
    const auto middle = metrics.begin() + static_cast<std::ptrdiff_t>(cut);
    Numbers actual = rates(before, Numbers(metrics.begin(), middle));
    after.load_state(before.state());
    const Numbers rest = rates(after, Numbers(middle, metrics.end()));
    actual.insert(actual.end(), rest.begin(), rest.end());
    INFO("interrupted behind " << cut);
    CHECK(actual == expected);
  }
}
