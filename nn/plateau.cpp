#include <capstan/optim/plateau.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include "nn/optimizer_state.hpp"

namespace capstan::optim {
namespace {

constexpr const char *kName = "ReduceOnPlateau", *kAmount = "finite and >= 0";
constexpr double kInfinity = std::numeric_limits<double>::infinity();

void require(bool fits, const char* what, double value, const char* rule, Where where) {
  if (!fits) base::fail<Error>(where, kName, ": the ", what, " is ", value, "; it must be ", rule, ".");
}
bool is_amount(double value) { return value >= 0 && std::isfinite(value); }

}  // namespace

ReduceOnPlateau::ReduceOnPlateau(double rate, PlateauOptions options, Where where)
    : options_(options), rate_(rate), best_(options.maximize ? -kInfinity : kInfinity) {
  require(is_amount(rate), "rate", rate, kAmount, where);
  require(options.factor >= 0 && options.factor < 1, "factor", options.factor, "in [0, 1)", where);
  require(options.patience >= 0, "patience", static_cast<double>(options.patience), ">= 0", where);
  require(is_amount(options.threshold), "threshold", options.threshold, kAmount, where);
  require(options.cooldown >= 0, "cooldown", static_cast<double>(options.cooldown), ">= 0", where);
  require(is_amount(options.least), "least rate", options.least, kAmount, where);
  require(is_amount(options.epsilon), "epsilon", options.epsilon, kAmount, where);
}

bool ReduceOnPlateau::is_better(double metric) const noexcept {
  const double by = options_.threshold;
  if (options_.maximize) return metric > (options_.absolute ? best_ + by : best_ * (1 + by));
  return metric < (options_.absolute ? best_ - by : best_ * (1 - by));
}

double ReduceOnPlateau::update(double metric) noexcept {
  if (is_better(metric)) {
    best_ = metric;
    bad_ = 0;
  } else {
    ++bad_;
  }
  if (cooldown_ > 0) {
    --cooldown_;
    bad_ = 0;
  }
  if (bad_ > options_.patience) {
    const double lower = std::max(rate_ * options_.factor, options_.least);
    if (rate_ - lower > options_.epsilon) rate_ = lower;
    cooldown_ = options_.cooldown;
    bad_ = 0;
  }
  return rate_;
}

std::vector<NamedTensor> ReduceOnPlateau::state(Where where) const {
  return {{"rate", detail::real_number(rate_, where)},
          {"best", detail::real_number(best_, where)},
          {"bad", detail::whole_number(bad_, where)},
          {"cooldown", detail::whole_number(cooldown_, where)}};
}

void ReduceOnPlateau::load_state(std::span<const NamedTensor> state, Where where) {
  detail::StateReader reader(kName, state, where);
  const double rate = reader.number("rate"), best = reader.number("best");
  const std::int64_t bad = reader.whole("bad"), cooldown = reader.whole("cooldown");
  reader.finish();
  require(is_amount(rate), "rate of the state", rate, kAmount, where);
  require(!std::isnan(best), "best metric of the state", best, "a number", where);
  rate_ = rate;
  best_ = best;
  bad_ = bad;
  cooldown_ = cooldown;
}

}  // namespace capstan::optim
