#include <capstan/ops/update.hpp>
#include <capstan/sparse.hpp>

#include <algorithm>
#include <optional>
#include <tuple>

#include "autograd/lists.hpp"
#include "autograd/overlap.hpp"
#include "autograd/places.hpp"
#include "lib/core/device_runtime.hpp"
#include "lib/kernels/optimizer_steps.hpp"

namespace capstan {
namespace {

template <class Rule>
constexpr bool is_at(UpdateRule rule) {
  return kernels::position_in<Rule>(static_cast<kernels::StepRules*>(nullptr)) == static_cast<int>(rule);
}
static_assert(is_at<kernels::SgdStep>(UpdateRule::sgd));
static_assert(is_at<kernels::MomentumStep>(UpdateRule::momentum));
static_assert(is_at<kernels::NesterovStep>(UpdateRule::nesterov));
static_assert(is_at<kernels::AsgdStep>(UpdateRule::asgd));
static_assert(is_at<kernels::LionStep>(UpdateRule::lion));
static_assert(is_at<kernels::RpropStep>(UpdateRule::rprop));
static_assert(is_at<kernels::AdagradStep>(UpdateRule::adagrad));
static_assert(is_at<kernels::AdadeltaStep>(UpdateRule::adadelta));
static_assert(is_at<kernels::RmsPropStep<false, false>>(UpdateRule::rmsprop));
static_assert(is_at<kernels::RmsPropStep<false, true>>(UpdateRule::rmsprop_momentum));
static_assert(is_at<kernels::RmsPropStep<true, false>>(UpdateRule::rmsprop_centered));
static_assert(is_at<kernels::RmsPropStep<true, true>>(UpdateRule::rmsprop_centered_momentum));
static_assert(is_at<kernels::AdamStep>(UpdateRule::adam));
static_assert(is_at<kernels::AmsgradStep>(UpdateRule::amsgrad));
static_assert(is_at<kernels::AdamaxStep>(UpdateRule::adamax));
static_assert(is_at<kernels::NadamStep>(UpdateRule::nadam));
static_assert(is_at<kernels::RadamStep>(UpdateRule::radam));
static_assert(is_at<kernels::LambStep>(UpdateRule::lamb));

int states_of(UpdateRule rule) { return kernels::kStepStates[static_cast<std::size_t>(rule)]; }

/// Whether a gradient of zero changes nothing.
bool rests(UpdateRule rule, const UpdateNumbers& n) {
  return n.decay == 0 && (rule == UpdateRule::sgd || (rule == UpdateRule::adagrad && n.epsilon > 0));
}

void check_gradient(const char* op, std::size_t i, const TensorImpl& p, const Tensor& gradient, Where where) {
  const TensorImpl& g = core::described(op, gradient, where);
  if (g.shape != p.shape)
    base::fail<ShapeError>(where, op, ": gradient ", i, " is ", g.shape, " and its parameter ", p.shape,
                           "; the shapes must be equal.");
  if (g.dtype != p.dtype)
    base::fail<DTypeError>(where, op, ": gradient ", i, " is ", g.dtype, " and its parameter ", p.dtype,
                           "; the types must be equal.");
  core::require_same_device(op, p, g, where);
}

void check_state(const char* op, int k, std::size_t i, const TensorImpl& p, const Tensor& state, Where where) {
  const TensorImpl& s = core::defined(op, state, where);
  const DType type = is_half(p.dtype) ? DType::float32 : p.dtype;
  if (s.shape != p.shape)
    base::fail<ShapeError>(where, op, ": state ", k, " of parameter ", i, " is ", s.shape, "; it must be ", p.shape,
                           " as the parameter is.");
  if (s.dtype != type)
    base::fail<DTypeError>(where, op, ": state ", k, " of parameter ", i, " is ", s.dtype, "; it must be ", type, ".");
  core::require_same_device(op, p, s, where);
  if (!s.contiguous)
    base::fail<ShapeError>(where, op, ": state ", k, " of parameter ", i, " is not contiguous; it must be.");
  autograd::check_in_place(op, state, nullptr, where);
}

void check_update(const char* op, std::size_t i, const ParameterUpdate& update, Where where) {
  const TensorImpl& p = core::defined(op, update.parameter, where);
  autograd::require_floating(op, p, where);
  if (!p.contiguous) base::fail<ShapeError>(where, op, ": parameter ", i, " is not contiguous; it must be.");
  check_gradient(op, i, p, update.gradient, where);
  autograd::check_in_place(op, update.parameter, nullptr, where);
  for (int k = 0; k < states_of(update.rule); ++k) check_state(op, k, i, p, update.states[k], where);
}

/// One parameter's gradient as the kernels want it: contiguous, or each of its rows once in ascending order.
struct Ready {
  Tensor dense;
  RowSlices rows;
};

/// A gradient that lies among what the step changes is copied: it is to be read as it was before.
Ready make_ready(const ParameterUpdate& update, bool changes, Where where) {
  const Tensor& gradient = update.gradient;
  // to find each row once takes the host; a GPU would rather add zeros
  const bool rows = update.lazy || gradient.impl()->device().kind == DeviceKind::cpu;
  if (rows) {
    if (const std::optional<RowSlices> slices = find_row_slices(gradient, where)) return {{}, coalesce(*slices, where)};
  } else if (has_row_slices(gradient)) {
    return {autograd::values_once(gradient, where), {}};
  }
  if (changes) return {autograd::fresh_copy(gradient, gradient.impl()->dtype, where), {}};
  return {autograd::dense(gradient, where), {}};
}

/// The parameters that a step changes.
autograd::Written changed_by(std::span<const ParameterUpdate> updates) {
  std::vector<const TensorImpl*> all;
  all.reserve(updates.size());
  for (const ParameterUpdate& update : updates)
    if (update.gradient.defined()) all.push_back(update.parameter.impl());
  return autograd::Written(std::move(all));
}

/// The rule and the tensors that it changes, as one number: what a captured step holds besides the numbers.
std::uint64_t change_of(const ParameterUpdate& update) {
  constexpr std::uint64_t kFactor = 0x100000001B3;  // FNV-1a's
  const int count = states_of(update.rule);
  std::uint64_t result = static_cast<std::uint64_t>(update.rule) * kFactor;
  for (int k = -1; k < count; ++k) {
    const Tensor& x = k < 0 ? update.parameter : update.states[k];
    result = (result ^ reinterpret_cast<std::uintptr_t>(x.impl()->data)) * kFactor;
  }
  return result;
}

/// Steps of whole parameters are collected and go to the device together.
class Steps {
 public:
  explicit Steps(std::size_t most) { steps_.reserve(most); }

  void add(const ParameterUpdate& update, const Ready& ready, Where where) {
    TensorImpl& p = *update.parameter.impl();
    TensorImpl* states[kMostStates] = {};
    const int count = states_of(update.rule);
    for (int k = 0; k < count; ++k) states[k] = update.states[k].impl();
    if (ready.dense.defined()) {
      core::Capturing* const step = core::capturing();
      const bool as_before = before_ != nullptr && before_->group == update.group;
      before_ = &update;
      const UpdateNumbers* replayed =
          step != nullptr ? step->numbers(update.numbers, as_before, change_of(update)) : nullptr;
      steps_.push_back(
          {update.rule, p, *ready.dense.impl(), states[0], states[1], states[2], update.numbers, replayed});
    } else {
      const bool touched = update.rule != UpdateRule::lamb && (update.lazy || rests(update.rule, update.numbers));
      autograd::backend_of(p, where).optimizer_rows(update.rule, p, *ready.rows.indices.impl(),
                                                    *ready.rows.values.impl(), states[0], states[1], states[2],
                                                    update.numbers, touched);
    }
    core::note_write(p, where);
    for (int k = 0; k < count; ++k) core::note_write(*states[k], where);
  }
  void run(Where where) {
    // parameters of one device side by side, in their order
    for (std::size_t begin = 0, end = 0; begin < steps_.size(); begin = end) {
      while (end < steps_.size() && steps_[end].p.device() == steps_[begin].p.device()) ++end;
      autograd::backend_of(steps_[begin].p, where).optimizer_steps(steps_.data() + begin, end - begin);
    }
  }

 private:
  std::vector<core::OptimizerStep> steps_;
  const ParameterUpdate* before_ = nullptr;  // that was added last
};

/// The bytes of a parameter. One without elements has a place of its own.
struct Place {
  const void *begin, *end;
  std::size_t parameter;
};
Place place_of(const TensorImpl& p, std::size_t i) {
  if (p.numel() == 0) return {&p, &p + 1, i};
  return {p.data, p.data + p.numel() * size_of(p.dtype), i};
}

/// Two parameters of which each has an element of the other, the first such two; equal numbers if there are none.
std::pair<std::size_t, std::size_t> overlapping(std::vector<Place> places) {
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return std::tie(a.begin, a.parameter) < std::tie(b.begin, b.parameter);
  });
  std::pair<std::size_t, std::size_t> found(places.size(), places.size());
  for (std::size_t i = 1, longest = 0; i < places.size(); ++i) {  // `longest` of those before reaches farthest
    if (places[i].begin < places[longest].end) {
      const auto [first, second] = std::minmax(places[longest].parameter, places[i].parameter);
      if (second < found.second) found = {first, second};
    }
    if (places[i].end > places[longest].end) longest = i;
  }
  return found;
}

/// While a captured step is replayed its kernels are there already, and only the numbers are new.
bool replace_numbers(std::span<const ParameterUpdate> updates) {
  const core::DeviceRuntime* gpu = core::cuda_runtime();
  if (gpu == nullptr || !gpu->replaying()) return false;
  for (const ParameterUpdate& update : updates)
    if (update.gradient.defined()) gpu->replace_numbers(update.numbers, change_of(update));
  return true;
}

/// The host runs a captured step once, so that what it changes itself would not change in replays.
void require_no_host_part(const char* name, std::span<const ParameterUpdate> updates, Where where) {
  if (core::capturing() == nullptr) return;
  for (std::size_t i = 0; i < updates.size(); ++i)
    if (updates[i].gradient.defined() && updates[i].parameter.impl()->device().kind == DeviceKind::cpu)
      base::fail<Error>(where, name, ": parameter ", i,
                        " is on the cpu, where a replay of the captured step would not change it; move it to the GPU.");
}

/// What a GPU has found wrong, before parameters change: the one place in a step that waits, and only with numbers
/// being checked.
void look_at_reports(std::span<const ParameterUpdate> updates, Where where) {
  if (!core::watched(core::kWatchResults) || core::capturing() != nullptr) return;
  for (const ParameterUpdate& update : updates) {
    if (!update.gradient.defined() || update.parameter.impl()->device().kind == DeviceKind::cpu) continue;
    return core::cuda_runtime()->throw_reports(update.parameter.impl()->device(), where);
  }
}

/// One report for all parameters, and for what is kept of each.
void tell(const char* op, std::span<const ParameterUpdate> updates, Where where) {
  if (!autograd::attended()) return;
  std::vector<const Tensor*> inputs, outputs;
  for (const ParameterUpdate& update : updates) {
    if (!update.gradient.defined()) continue;
    inputs.push_back(&update.gradient);
    outputs.push_back(&update.parameter);
  }
  for (const ParameterUpdate& update : updates)
    for (int k = 0; update.gradient.defined() && k < states_of(update.rule); ++k) outputs.push_back(&update.states[k]);
  if (!outputs.empty()) autograd::append_note(op, where, inputs, outputs);
}

}  // namespace

void apply_updates(const char* name, std::span<const ParameterUpdate> updates, Where where) {
  for (std::size_t i = 0; i < updates.size(); ++i)
    if (updates[i].gradient.defined()) check_update(name, i, updates[i], where);
  if (replace_numbers(updates)) return;
  require_no_host_part(name, updates, where);
  look_at_reports(updates, where);
  const autograd::Written changing = changed_by(updates);
  std::vector<Ready> ready(updates.size());  // whatever can fail happens before the first parameter changes
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const Tensor& gradient = updates[i].gradient;
    if (!gradient.defined()) continue;
    ready[i] = make_ready(updates[i], changing.changes(*gradient.impl()), where);
  }
  Steps steps(updates.size());
  for (std::size_t i = 0; i < updates.size(); ++i)
    if (updates[i].gradient.defined()) steps.add(updates[i], ready[i], where);
  steps.run(where);
  tell(name, updates, where);
}

void check_parameters(const char* name, std::span<const Tensor> parameters, Where where) {
  std::vector<Place> places;
  places.reserve(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].defined())
      base::fail<Error>(where, name, ": parameter ", i, " is undefined; give it a value first.");
    const TensorImpl& p = core::defined(name, parameters[i], where);
    if (!is_floating(p.dtype))
      base::fail<DTypeError>(where, name, ": parameter ", i, " is ", p.dtype, "; it must be a floating type.");
    if (!p.contiguous) base::fail<ShapeError>(where, name, ": parameter ", i, " is not contiguous; it must be.");
    places.push_back(place_of(p, i));
  }
  const auto [first, second] = overlapping(std::move(places));
  if (first == second) return;
  if (parameters[first].is_same(parameters[second]))
    base::fail<Error>(where, name, ": parameters ", first, " and ", second,
                      " are the same tensor; each must be given once, in one group.");
  base::fail<Error>(where, name, ": parameters ", first, " and ", second,
                    " share elements; each element must be given once, in one group.");
}

void check_gradients(const char* name, std::span<const Tensor> parameters, std::span<const Tensor> gradients,
                     Where where) {
  if (gradients.size() != parameters.size())
    base::fail<ShapeError>(where, name, ": there are ", gradients.size(), " gradients and ", parameters.size(),
                           " parameters; give one for each, in their order.");
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const TensorImpl& p = core::defined(name, parameters[i], where);
    if (gradients[i].defined()) check_gradient(name, i, p, gradients[i], where);
  }
}

}  // namespace capstan
