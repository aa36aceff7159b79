#include <capstan/optim/sgd.hpp>

#include <cmath>

#include "nn/optimizer_state.hpp"

namespace capstan::optim {

using detail::OptionCheck;
using detail::StepPlan;

Sgd::Sgd(std::vector<Tensor> parameters, SgdOptions options, Where where) : Fused(std::move(parameters), options) {
  start(where);
}
Sgd::Sgd(std::vector<Group<SgdOptions>> groups, Where where) : Fused(std::move(groups)) { start(where); }

void Sgd::check_options(const SgdOptions& options, Where where) const {
  const OptionCheck check{name(), where};
  check.amount("learning_rate", options.learning_rate);
  check.amount("momentum", options.momentum);
  check.that(std::isfinite(options.dampening), "dampening", options.dampening, "finite");
  check.amount("weight_decay", options.weight_decay);
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0))
    base::fail<Error>(where, name(), ": nesterov was asked for with momentum ", options.momentum, " and dampening ",
                      options.dampening, "; it needs momentum above 0, and no dampening.");
}

StepPlan Sgd::plan_step(const SgdOptions& options, std::int64_t, double) const {
  StepPlan plan;
  plan.lazy = options.lazy;
  plan.numbers.sign = options.maximize ? -1 : 1;
  plan.numbers.decay = options.weight_decay;
  plan.numbers.rate = options.learning_rate;
  if (options.momentum == 0) return plan;
  plan.rule = options.nesterov ? UpdateRule::nesterov : UpdateRule::momentum;
  plan.states[0] = "velocity";
  plan.numbers.beta1 = options.momentum;
  plan.numbers.share = 1 - options.dampening;
  plan.whole_start = true;
  return plan;
}

Asgd::Asgd(std::vector<Tensor> parameters, AsgdOptions options, Where where) : Fused(std::move(parameters), options) {
  start(where);
}
Asgd::Asgd(std::vector<Group<AsgdOptions>> groups, Where where) : Fused(std::move(groups)) { start(where); }

std::vector<Tensor> Asgd::averages() const {
  std::vector<Tensor> all;
  for (std::size_t i = 0; i < parameters().size(); ++i) {
    const Tensor average = state_of(i, "average");
    all.push_back(average.defined() ? average : parameters()[i]);
  }
  return all;
}

void Asgd::check_options(const AsgdOptions& options, Where where) const {
  const OptionCheck check{name(), where};
  check.amount("learning_rate", options.learning_rate);
  check.amount("lambda", options.lambda);
  check.amount("alpha", options.alpha);
  check.amount("start", options.start);
  check.amount("weight_decay", options.weight_decay);
}

StepPlan Asgd::plan_step(const AsgdOptions& options, std::int64_t step, double) const {
  const double done = static_cast<double>(step - 1);
  const double rate =
      options.learning_rate / std::pow(1 + options.lambda * options.learning_rate * done, options.alpha);
  StepPlan plan;
  plan.rule = UpdateRule::asgd;
  plan.states[0] = "average";
  plan.starts_as_parameter = true;  // of rows that lazy steps leave out, too
  plan.lazy = options.lazy;
  plan.numbers.sign = options.maximize ? -1 : 1;
  plan.numbers.decay = options.weight_decay;
  plan.numbers.keep = 1 - options.lambda * rate;
  plan.numbers.rate = rate;
  plan.numbers.share = 1 / std::fmax(1, done - options.start);
  return plan;
}

Lion::Lion(std::vector<Tensor> parameters, LionOptions options, Where where) : Fused(std::move(parameters), options) {
  start(where);
}
Lion::Lion(std::vector<Group<LionOptions>> groups, Where where) : Fused(std::move(groups)) { start(where); }

void Lion::check_options(const LionOptions& options, Where where) const {
  const OptionCheck check{name(), where};
  check.amount("learning_rate", options.learning_rate);
  check.beta("beta1", options.beta1);
  check.beta("beta2", options.beta2);
  check.amount("weight_decay", options.weight_decay);
}

StepPlan Lion::plan_step(const LionOptions& options, std::int64_t, double) const {
  StepPlan plan;
  plan.rule = UpdateRule::lion;
  plan.states[0] = "mean";
  plan.lazy = options.lazy;
  plan.numbers.sign = options.maximize ? -1 : 1;
  plan.numbers.keep = 1 - options.learning_rate * options.weight_decay;
  plan.numbers.rate = options.learning_rate;
  plan.numbers.beta1 = options.beta1;
  plan.numbers.beta2 = options.beta2;
  return plan;
}

Rprop::Rprop(std::vector<Tensor> parameters, RpropOptions options, Where where)
    : Fused(std::move(parameters), options) {
  start(where);
}
Rprop::Rprop(std::vector<Group<RpropOptions>> groups, Where where) : Fused(std::move(groups)) { start(where); }

void Rprop::check_options(const RpropOptions& options, Where where) const {
  const OptionCheck check{name(), where};
  check.amount("learning_rate", options.learning_rate);
  check.that(options.shrink > 0 && options.shrink < 1, "shrink", options.shrink, "in (0, 1)");
  check.that(options.grow > 1 && std::isfinite(options.grow), "grow", options.grow, "finite and > 1");
  check.amount("smallest", options.smallest);
  check.that(options.largest >= options.smallest && std::isfinite(options.largest), "largest", options.largest,
             "finite and at least the smallest");
}

StepPlan Rprop::plan_step(const RpropOptions& options, std::int64_t, double) const {
  StepPlan plan;
  plan.rule = UpdateRule::rprop;
  plan.states[0] = "previous";
  plan.states[1] = "step_size";
  plan.starts[1] = options.learning_rate;
  plan.lazy = options.lazy;
  plan.numbers.sign = options.maximize ? -1 : 1;
  plan.numbers.shrink = options.shrink;
  plan.numbers.grow = options.grow;
  plan.numbers.low = options.smallest;
  plan.numbers.high = options.largest;
  return plan;
}

}  // namespace capstan::optim
