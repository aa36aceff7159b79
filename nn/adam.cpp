#include <capstan/optim/adam.hpp>

#include <cmath>

#include "nn/optimizer_state.hpp"

namespace capstan::optim {

using detail::OptionCheck;
using detail::StepPlan;

namespace {

/// 1 - beta^t: what a running mean that began with 0 lacks.
double filled(double beta, std::int64_t step) { return 1 - std::pow(beta, static_cast<double>(step)); }

/// What all of them have; `rate` is the options' learning rate.
template <class Options>
StepPlan plan_of(UpdateRule rule, const Options& options, bool decoupled) {
  StepPlan plan;
  plan.rule = rule;
  plan.states[0] = "mean";
  plan.states[1] = "square";
  plan.numbers.sign = options.maximize ? -1 : 1;
  if (decoupled) plan.numbers.keep = 1 - options.learning_rate * options.weight_decay;
  else plan.numbers.decay = options.weight_decay;
  plan.numbers.rate = options.learning_rate;
  plan.numbers.beta1 = options.beta1;
  plan.numbers.beta2 = options.beta2;
  plan.numbers.epsilon = options.epsilon;
  return plan;
}

template <class Options>
StepPlan plan_of_adam(const Options& options, std::int64_t step, bool decoupled) {
  StepPlan plan = plan_of(options.amsgrad ? UpdateRule::amsgrad : UpdateRule::adam, options, decoupled);
  if (options.amsgrad) plan.states[2] = "largest_square";
  plan.lazy = options.lazy;
  plan.numbers.rate /= filled(options.beta1, step);
  plan.numbers.square_scale = 1 / filled(options.beta2, step);
  return plan;
}

template <class Options>
void check_common(const OptionCheck& check, const Options& options) {
  check.amount("learning_rate", options.learning_rate);
  check.betas(options.beta1, options.beta2, options.epsilon);
  check.amount("weight_decay", options.weight_decay);
}

}  // namespace

Adam::Adam(std::vector<Tensor> parameters, AdamOptions options, Where where) : Fused(std::move(parameters), options) {
  start(where);
}
Adam::Adam(std::vector<Group<AdamOptions>> groups, Where where) : Fused(std::move(groups)) { start(where); }

void Adam::check_options(const AdamOptions& options, Where where) const { check_common({name(), where}, options); }

StepPlan Adam::plan_step(const AdamOptions& options, std::int64_t step, double) const {
  return plan_of_adam(options, step, false);
}

AdamW::AdamW(std::vector<Tensor> parameters, AdamWOptions options, Where where)
    : Fused(std::move(parameters), options) {
  start(where);
}
AdamW::AdamW(std::vector<Group<AdamWOptions>> groups, Where where) : Fused(std::move(groups)) { start(where); }

void AdamW::check_options(const AdamWOptions& options, Where where) const { check_common({name(), where}, options); }

StepPlan AdamW::plan_step(const AdamWOptions& options, std::int64_t step, double) const {
  return plan_of_adam(options, step, true);
}

Adamax::Adamax(std::vector<Tensor> parameters, AdamaxOptions options, Where where)
    : Fused(std::move(parameters), options) {
  start(where);
}
Adamax::Adamax(std::vector<Group<AdamaxOptions>> groups, Where where) : Fused(std::move(groups)) { start(where); }

void Adamax::check_options(const AdamaxOptions& options, Where where) const { check_common({name(), where}, options); }

StepPlan Adamax::plan_step(const AdamaxOptions& options, std::int64_t step, double) const {
  StepPlan plan = plan_of(UpdateRule::adamax, options, false);
  plan.states[1] = "norm";
  plan.lazy = options.lazy;
  plan.numbers.rate /= filled(options.beta1, step);
  return plan;
}

Nadam::Nadam(std::vector<Tensor> parameters, NadamOptions options, Where where)
    : Fused(std::move(parameters), options) {
  start(where);
}
Nadam::Nadam(std::vector<Group<NadamOptions>> groups, Where where) : Fused(std::move(groups)) { start(where); }

void Nadam::check_options(const NadamOptions& options, Where where) const {
  const OptionCheck check{name(), where};
  check_common(check, options);
  check.amount("momentum_decay", options.momentum_decay);
}

StepPlan Nadam::plan_step(const NadamOptions& options, std::int64_t step, double carried) const {
  const auto momentum = [&](std::int64_t t) {
    return options.beta1 * (1 - 0.5 * std::pow(0.96, static_cast<double>(t) * options.momentum_decay));
  };
  const double now = momentum(step), next = momentum(step + 1), product = carried * now;
  StepPlan plan = plan_of(UpdateRule::nadam, options, options.decoupled_weight_decay);
  plan.lazy = options.lazy;
  plan.carry = {"momentum_product", 0, 1};  // 0 if beta1 is, and once that many factors underflow
  plan.carried = product;
  plan.numbers.rate = options.learning_rate * next / (1 - product * (options.pytorch_1 ? now : 1) * next);
  plan.numbers.gradient_rate = options.learning_rate * (1 - now) / (1 - product);
  plan.numbers.square_scale = 1 / filled(options.beta2, step);
  return plan;
}

RAdam::RAdam(std::vector<Tensor> parameters, RAdamOptions options, Where where)
    : Fused(std::move(parameters), options) {
  start(where);
}
RAdam::RAdam(std::vector<Group<RAdamOptions>> groups, Where where) : Fused(std::move(groups)) { start(where); }

void RAdam::check_options(const RAdamOptions& options, Where where) const { check_common({name(), where}, options); }

StepPlan RAdam::plan_step(const RAdamOptions& options, std::int64_t step, double) const {
  const double t = static_cast<double>(step), square = filled(options.beta2, step);
  const double limit = 2 / (1 - options.beta2) - 1;
  const double length = limit - 2 * t * std::pow(options.beta2, t) / square;  // of the average that v amounts to
  StepPlan plan = plan_of(UpdateRule::radam, options, options.decoupled_weight_decay);
  plan.lazy = options.lazy;
  plan.numbers.rate /= filled(options.beta1, step);
  plan.numbers.share = length > 5 ? 1 : 0;
  if (length > 5)
    plan.numbers.rate *= std::sqrt(square * (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length));
  return plan;
}

Lamb::Lamb(std::vector<Tensor> parameters, LambOptions options, Where where) : Fused(std::move(parameters), options) {
  start(where);
}
Lamb::Lamb(std::vector<Group<LambOptions>> groups, Where where) : Fused(std::move(groups)) { start(where); }

void Lamb::check_options(const LambOptions& options, Where where) const { check_common({name(), where}, options); }

StepPlan Lamb::plan_step(const LambOptions& options, std::int64_t step, double) const {
  StepPlan plan = plan_of(UpdateRule::lamb, options, false);
  plan.numbers.mean_scale = 1 / filled(options.beta1, step);
  plan.numbers.square_scale = 1 / filled(options.beta2, step);
  return plan;
}

}  // namespace capstan::optim
