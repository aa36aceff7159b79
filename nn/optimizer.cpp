#include <capstan/optim/optimizer.hpp>

#include <cmath>
#include <cstring>
#include <tuple>
#include <utility>

#include <capstan/capture.hpp>
#include <capstan/create.hpp>
#include <capstan/tape.hpp>

#include "nn/optimizer_state.hpp"

namespace capstan::optim {
namespace {

bool is_rate(double value) { return value >= 0 && std::isfinite(value); }

std::string rate_name(std::size_t group) { return "group." + std::to_string(group) + ".learning_rate"; }
std::string front_of(std::size_t parameter) { return std::to_string(parameter) + "."; }

/// The type of the states of a parameter.
DType state_type(const Tensor& parameter, Where where) {
  const DType dtype = parameter.dtype(where);
  return is_half(dtype) ? DType::float32 : dtype;
}

Tensor started(const Tensor& parameter, const detail::StepPlan& plan, int state, Where where) {
  const TensorOptions type{state_type(parameter, where), parameter.device(where)};
  if (state > 0 || !plan.starts_as_parameter) return full(parameter.shape(where), plan.starts[state], type, where);
  const NoGrad off;
  const Tensor values = parameter.to(type.dtype, where);
  return values.shares_storage(parameter) ? values.copy(where) : values;
}

}  // namespace

Optimizer::~Optimizer() = default;

void Optimizer::add_group(std::vector<Tensor> parameters) {
  group_of_.insert(group_of_.end(), parameters.size(), schedules_.size());
  schedules_.emplace_back();
  if (parameters_.empty()) parameters_ = std::move(parameters);
  else parameters_.insert(parameters_.end(), parameters.begin(), parameters.end());
}

void Optimizer::start(Where where) const {
  check_parameters(name(), parameters_, where);
  for (std::size_t group = 0; group < schedules_.size(); ++group) check_group(group, where);
}

std::size_t Optimizer::group_index(std::int64_t group, Where where) const {
  if (group < 0 || group >= groups())
    base::fail<IndexError>(where, name(), ": group ", group, " was asked for; there are ", groups(),
                           ", counted from 0.");
  return static_cast<std::size_t>(group);
}

// --- steps ---

Optimizer::Step::Step(Optimizer& optimizer, Where where) : optimizer_(optimizer) {
  const std::vector<Schedule>& schedules = optimizer.schedules_;
  std::vector<double> rates;
  for (std::size_t group = 0; group < schedules.size(); ++group) {
    optimizer.check_group(group, where);
    rates.push_back(optimizer.rate(group));
    if (!schedules[group]) continue;
    rates[group] = schedules[group](optimizer.steps_);
    if (!is_rate(rates[group]))
      base::fail<Error>(where, optimizer.name(), ": the schedule of group ", group, " gives ", rates[group],
                        " at step ", optimizer.steps_, "; a learning rate must be finite and >= 0.");
  }
  for (std::size_t group = 0; group < rates.size(); ++group) {
    const double rate = optimizer.rate(group);
    optimizer.set_rate(group, rates[group]);
    rates[group] = rate;
  }
  before_ = std::move(rates);
}

Optimizer::Step::~Step() {
  for (std::size_t group = 0; group < before_.size(); ++group) optimizer_.set_rate(group, before_[group]);
}

void Optimizer::Step::finish() noexcept {
  before_.clear();
  ++optimizer_.steps_;
}

void Optimizer::apply(const std::vector<Tensor>& gradients, Where where) {
  apply(std::span<const Tensor>(gradients), where);
}

void Optimizer::apply(std::span<const Tensor> gradients, Where where) {
  check_gradients(name(), parameters_, gradients, where);
  Step scope(*this, where);
  step(gradients, where);
  scope.finish();
  if (!capstan::detail::capturing()) return;
  // a replay computes the step's numbers anew: rates, schedules and corrections go on. Gradients stand for their shapes
  std::vector<Tensor> same_shapes;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    same_shapes.push_back(gradients[i].defined() ? parameters_[i] : Tensor());
  capstan::detail::at_replay([this, same_shapes, where] { apply(same_shapes, where); }, [this] { --steps_; });
}

// --- rates ---

double Optimizer::learning_rate(std::int64_t group, Where where) const { return rate(group_index(group, where)); }

void Optimizer::set_learning_rate(double rate, std::int64_t group, Where where) {
  const std::size_t index = group_index(group, where);
  if (!is_rate(rate))
    base::fail<Error>(where, name(), ": a learning rate of ", rate, " was given; it must be finite and >= 0.");
  set_rate(index, rate);
}

void Optimizer::set_learning_rate(double rate, Where where) {
  for (std::int64_t group = 0; group < groups(); ++group) set_learning_rate(rate, group, where);
}

void Optimizer::attach(const Schedule& schedule) {
  for (Schedule& own : schedules_) own = schedule;
}

void Optimizer::attach(const Schedule& schedule, std::int64_t group, Where where) {
  schedules_[group_index(group, where)] = schedule;
}

// --- saved state ---

std::vector<NamedTensor> Optimizer::state(Where where) const {
  const NoGrad off;
  std::vector<NamedTensor> all;
  all.push_back({"step", detail::whole_number(steps_, where)});
  for (std::size_t group = 0; group < schedules_.size(); ++group)
    all.push_back({rate_name(group), detail::real_number(rate(group), where)});
  save(all, where);
  return all;
}

void Optimizer::load_state(std::span<const NamedTensor> state, Where where) {
  const NoGrad off;
  detail::StateReader reader(name(), state, where);
  const std::int64_t steps = reader.whole("step");
  std::vector<double> rates;
  for (std::size_t group = 0; group < schedules_.size(); ++group) {
    rates.push_back(reader.number(rate_name(group)));
    if (!is_rate(rates[group]))
      base::fail<Error>(where, name(), "::load_state: \"", rate_name(group), "\" is ", rates[group],
                        "; it must be finite and >= 0.");
  }
  load(reader);
  steps_ = steps;
  for (std::size_t group = 0; group < rates.size(); ++group) set_rate(group, rates[group]);
}

// --- fused steps ---

namespace detail {

FusedOptimizer::~FusedOptimizer() = default;

FusedOptimizer& FusedOptimizer::operator=(const FusedOptimizer& other) {
  std::vector<Slot> slots(other.slots_);  // new elements: those of this one may have other shapes
  Optimizer::operator=(other);
  slots_ = std::move(slots);
  return *this;
}

void FusedOptimizer::add_parameters(std::vector<Tensor> parameters) {
  add_group(std::move(parameters));
  slots_.resize(this->parameters().size());
}

const FusedOptimizer::State* FusedOptimizer::find(const Slot& slot, const char* state) {
  for (const State& own : slot.states)
    if (std::strcmp(own.name, state) == 0) return &own;
  return nullptr;
}

/// Whether no step has changed it yet: it is missing, or was made for the next one, which may have been tried before.
bool FusedOptimizer::is_new(const Slot& slot, const char* state) {
  const State* own = find(slot, state);
  return own == nullptr || own->made_at == slot.steps;
}

Tensor FusedOptimizer::state_of(std::size_t parameter, const char* state) const {
  const State* own = find(slots_[parameter], state);
  return own != nullptr ? Tensor(own->value) : Tensor();
}

/// Makes those that are missing, and at the first step all: options may have changed since an attempt that failed.
void FusedOptimizer::make_states(std::size_t parameter, const StepPlan& plan, Where where) {
  Slot& slot = slots_[parameter];
  if (slot.steps == 0) slot.states.clear();
  for (int k = 0; k < kMostStates && plan.states[k] != nullptr; ++k)
    if (find(slot, plan.states[k]) == nullptr)
      slot.states.push_back(
          {plan.states[k], Buffer(started(parameters()[parameter], plan, k, where), where), slot.steps});
}

void FusedOptimizer::step(std::span<const Tensor> gradients, Where where) {
  std::vector<ParameterUpdate> updates(gradients.size());
  std::vector<double> carried(gradients.size(), 1);
  StepPlan now;
  std::size_t planned = gradients.size();  // the parameter that `now` was made for
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    Slot& slot = slots_[i];
    if (planned == gradients.size() || group_of(planned) != group_of(i) || slots_[planned].steps != slot.steps ||
        slots_[planned].carried != slot.carried)
      now = plan(group_of(i), slot.steps + 1, slot.carried);
    planned = i;
    make_states(i, now, where);
    ParameterUpdate& update = updates[i];
    update.rule = now.rule;
    update.parameter = parameters()[i];
    update.gradient = gradients[i];
    for (int k = 0; k < kMostStates && now.states[k] != nullptr; ++k)
      update.states[k] = find(slot, now.states[k])->value;
    update.numbers = now.numbers;
    if (now.whole_start && is_new(slot, now.states[0])) update.numbers.share = 1;
    update.lazy = now.lazy;
    update.group = static_cast<std::int64_t>(group_of(i));
    carried[i] = now.carried;
  }
  apply_updates(name(), updates, where);
  if (capstan::detail::capturing()) {
    std::vector<std::pair<std::int64_t, double>> before;
    for (const Slot& slot : slots_) before.emplace_back(slot.steps, slot.carried);
    capstan::detail::at_replay({}, [this, before] {
      for (std::size_t i = 0; i < before.size(); ++i) std::tie(slots_[i].steps, slots_[i].carried) = before[i];
    });
  }
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    ++slots_[i].steps;
    slots_[i].carried = carried[i];
  }
}

void FusedOptimizer::save(std::vector<NamedTensor>& all, Where where) const {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    all.push_back({front_of(i) + "step", whole_number(slot.steps, where)});
    if (slot.steps == 0) continue;
    const StepPlan next = plan(group_of(i), slot.steps + 1, slot.carried);
    if (next.carry.name != nullptr) all.push_back({front_of(i) + next.carry.name, real_number(slot.carried, where)});
    if (next.whole_start && is_new(slot, next.states[0])) continue;  // restored it must be new as well
    for (int k = 0; k < kMostStates && next.states[k] != nullptr; ++k) {
      const Tensor own = state_of(i, next.states[k]);
      all.push_back(
          {front_of(i) + next.states[k], own.defined() ? own.copy(where) : started(parameters()[i], next, k, where)});
    }
  }
}

void FusedOptimizer::load(StateReader& reader) {
  std::vector<Slot> slots(slots_.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Tensor& p = parameters()[i];
    slots[i].steps = reader.whole(front_of(i) + "step");
    if (slots[i].steps == 0) continue;
    const StepPlan next = plan(group_of(i), slots[i].steps + 1, slots[i].carried);
    if (next.carry.name != nullptr)
      slots[i].carried = reader.within(front_of(i) + next.carry.name, next.carry.least, next.carry.most);
    if (next.whole_start && !reader.has(front_of(i) + next.states[0])) continue;  // it was to be new
    for (int k = 0; k < kMostStates && next.states[k] != nullptr; ++k) {
      const std::string name = front_of(i) + next.states[k];
      slots[i].states.push_back(
          {next.states[k], Buffer(reader.tensor(name, p.shape(), state_type(p, Where::current()), p.device())), -1});
    }
  }
  reader.finish();
  slots_ = std::move(slots);
}

}  // namespace detail
}  // namespace capstan::optim
