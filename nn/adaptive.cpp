#include <capstan/optim/adaptive.hpp>

#include "nn/optimizer_state.hpp"

namespace capstan::optim {

using detail::OptionCheck;
using detail::StepPlan;

namespace {

/// What all of them have.
template <class Options>
StepPlan plan_of(UpdateRule rule, const Options& options) {
  StepPlan plan;
  plan.rule = rule;
  plan.lazy = options.lazy;
  plan.numbers.sign = options.maximize ? -1 : 1;
  plan.numbers.decay = options.weight_decay;
  plan.numbers.rate = options.learning_rate;
  plan.numbers.epsilon = options.epsilon;
  return plan;
}

template <class Options>
void check_common(const OptionCheck& check, const Options& options) {
  check.amount("learning_rate", options.learning_rate);
  check.amount("epsilon", options.epsilon);
  check.amount("weight_decay", options.weight_decay);
}

void check_share(const OptionCheck& check, const char* option, double value) {
  check.that(value >= 0 && value <= 1, option, value, "in [0, 1]");
}

}  // namespace

Adagrad::Adagrad(std::vector<Tensor> parameters, AdagradOptions options, Where where)
    : Fused(std::move(parameters), options) {
  start(where);
}
Adagrad::Adagrad(std::vector<Group<AdagradOptions>> groups, Where where) : Fused(std::move(groups)) { start(where); }

void Adagrad::check_options(const AdagradOptions& options, Where where) const {
  const OptionCheck check{name(), where};
  check_common(check, options);
  check.amount("learning_rate_decay", options.learning_rate_decay);
  check.amount("initial_accumulator", options.initial_accumulator);
}

StepPlan Adagrad::plan_step(const AdagradOptions& options, std::int64_t step, double) const {
  StepPlan plan = plan_of(UpdateRule::adagrad, options);
  plan.states[0] = "sum";
  plan.starts[0] = options.initial_accumulator;
  plan.numbers.rate /= 1 + static_cast<double>(step - 1) * options.learning_rate_decay;
  return plan;
}

Adadelta::Adadelta(std::vector<Tensor> parameters, AdadeltaOptions options, Where where)
    : Fused(std::move(parameters), options) {
  start(where);
}
Adadelta::Adadelta(std::vector<Group<AdadeltaOptions>> groups, Where where) : Fused(std::move(groups)) { start(where); }

void Adadelta::check_options(const AdadeltaOptions& options, Where where) const {
  const OptionCheck check{name(), where};
  check_common(check, options);
  check_share(check, "rho", options.rho);
}

StepPlan Adadelta::plan_step(const AdadeltaOptions& options, std::int64_t, double) const {
  StepPlan plan = plan_of(UpdateRule::adadelta, options);
  plan.states[0] = "square";
  plan.states[1] = "change";
  plan.numbers.beta2 = options.rho;
  return plan;
}

RmsProp::RmsProp(std::vector<Tensor> parameters, RmsPropOptions options, Where where)
    : Fused(std::move(parameters), options) {
  start(where);
}
RmsProp::RmsProp(std::vector<Group<RmsPropOptions>> groups, Where where) : Fused(std::move(groups)) { start(where); }

void RmsProp::check_options(const RmsPropOptions& options, Where where) const {
  const OptionCheck check{name(), where};
  check_common(check, options);
  check_share(check, "alpha", options.alpha);
  check.amount("momentum", options.momentum);
}

StepPlan RmsProp::plan_step(const RmsPropOptions& options, std::int64_t, double) const {
  const bool moves = options.momentum != 0;
  const UpdateRule plain = moves ? UpdateRule::rmsprop_momentum : UpdateRule::rmsprop;
  const UpdateRule centered = moves ? UpdateRule::rmsprop_centered_momentum : UpdateRule::rmsprop_centered;
  StepPlan plan = plan_of(options.centered ? centered : plain, options);
  int count = 0;
  plan.states[count++] = "square";
  if (options.centered) plan.states[count++] = "mean";
  if (moves) plan.states[count] = "velocity";
  plan.numbers.beta1 = options.momentum;
  plan.numbers.beta2 = options.alpha;
  return plan;
}

}  // namespace capstan::optim
