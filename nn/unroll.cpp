#include <capstan/nn/unroll.hpp>

#include <algorithm>
#include <exception>

#include <capstan/create.hpp>
#include <capstan/ops/elementwise.hpp>
#include <capstan/ops/shaping.hpp>

#include "lib/base/text.hpp"

namespace capstan::nn::detail {

namespace {

/// A condition with axes of size 1 behind its own, until there are `rank` of them.
Tensor widened(Tensor condition, int rank, Where where) {
  while (condition.rank() < rank) condition = expand_dims(condition, -1, where);
  return condition;
}

/// "c of the backward cell's initial state in layer 1".
std::string text_of(const StateOwner& owner, const NamedTensor& part) {
  std::string text = part.name.empty() ? "the " : part.name + " of the ";
  if (owner.direction != nullptr) text += base::join(owner.direction, " cell's ");
  text += "initial state";
  if (owner.layer >= 0) text += base::join(" in layer ", owner.layer);
  return text;
}

std::string shape_text(const Tensor& tensor) { return tensor.defined() ? to_string(tensor.shape()) : "undefined"; }

bool has_rows(const Tensor& tensor, std::int64_t batch) {
  return tensor.defined() && tensor.rank() > 0 && tensor.size(0) == batch;
}

}  // namespace

// --- checks ------------------------------------------------------------------------------------------------------

UnrollPlan check_unroll(const char* op, const Tensor& x, const Tensor& lengths, bool time_major, Where where) {
  if (!x.defined()) base::fail<Error>(where, op, ": the tensor is undefined; give it a value first.");
  const int time_axis = time_major ? 0 : 1;
  if (x.rank() < 2 || x.size(time_axis) < 1)
    base::fail<ShapeError>(where, op, ": the input is ", x.shape(), "; it must be ",
                           time_major ? "[time, batch, ...]" : "[batch, time, ...]", " with one step or more.");
  UnrollPlan plan{op, x.size(1 - time_axis), x.size(time_axis), x.size(time_axis), x.size(time_axis)};
  if (!lengths.defined()) return plan;
  if (lengths.dtype() != DType::int32 && lengths.dtype() != DType::int64)
    base::fail<DTypeError>(where, op, ": the lengths are ", lengths.dtype(), "; they must be int32 or int64.");
  if (lengths.rank() != 1 || lengths.size(0) != plan.batch)
    base::fail<ShapeError>(where, op, ": the lengths are ", lengths.shape(), "; with an input of ", x.shape(),
                           " they must be [", plan.batch, "].");
  plan.steps = 1;
  const std::vector<std::int64_t> list = lengths.to(DType::int64, where).to_vector<std::int64_t>(where);
  for (std::size_t row = 0; row < list.size(); ++row) {
    if (list[row] < 0 || list[row] > plan.time)
      base::fail<IndexError>(where, op, ": the length of row ", row, " is ", list[row], "; with an input of ",
                             x.shape(), " it must be in 0..", plan.time, ".");
    plan.full = std::min(plan.full, list[row]);
    plan.steps = std::max(plan.steps, list[row]);
  }
  return plan;
}

void check_state(const UnrollPlan& plan, const StateOwner& owner, const Tensor& x, std::span<const NamedTensor> given,
                 std::span<const NamedTensor> own, Where where) {
  for (const NamedTensor& part : given) {
    const auto like = std::find_if(own.begin(), own.end(), [&](const NamedTensor& o) { return o.name == part.name; });
    const bool known = like != own.end() && like->value.defined();
    if (!part.value.defined()) {
      if (known) base::fail<Error>(where, plan.op, ": ", text_of(owner, part), " is undefined; give it a value first.");
    } else if (known && like->value.rank() > 0) {
      if (part.value.shape() != like->value.shape())
        base::fail<ShapeError>(where, plan.op, ": ", text_of(owner, part), " is ", part.value.shape(),
                               "; with an input of ", x.shape(), " it must be ", like->value.shape(), ".");
    } else if (part.value.rank() > 0 && part.value.size(0) != plan.batch) {
      base::fail<ShapeError>(where, plan.op, ": ", text_of(owner, part), " is ", part.value.shape(),
                             "; with an input of ", x.shape(), " its first size must be ", plan.batch, ".");
    }
  }
}

void check_layers(const UnrollPlan& plan, std::size_t forward, std::size_t backward, std::optional<std::size_t> states,
                  Where where) {
  if (forward != backward)
    base::fail<Error>(where, plan.op, ": ", forward, " forward cells and ", backward,
                      " backward cells were given; as many of both are needed.");
  if (forward == 0) base::fail<Error>(where, plan.op, ": no cells were given; at least one layer is needed.");
  if (states && *states != forward)
    base::fail<Error>(where, plan.op, ": ", *states, " initial states were given for ", forward,
                      " layers; one for each layer is needed.");
}

Probe::Probe() : before_(default_rng().state()) {}
Probe::~Probe() { default_rng().restore(before_); }

Rewind::Rewind(Rng& rng) noexcept : rng_(rng), before_(rng.state()), exceptions_(std::uncaught_exceptions()) {}
Rewind::~Rewind() {
  if (std::uncaught_exceptions() > exceptions_) rng_.restore(before_);
}

Tensor running_or_zero(const Tensor& running, const Tensor& x, Where where) {
  const Scalar zero = x.dtype() == DType::bool8 ? Scalar(false) : Scalar(0);
  return capstan::where(widened(running, x.rank(), where), x, zero, where);
}

// --- steps -------------------------------------------------------------------------------------------------------

Steps::Steps(const UnrollPlan& plan, const Tensor& x, const Tensor& lengths, bool time_major, Where where)
    : plan_(plan), time_axis_(time_major ? 0 : 1), where_(where), outputs_(static_cast<std::size_t>(plan.time)) {
  Tensor seen = plan.steps == plan.time ? x : narrow(x, time_axis_, 0, plan.steps, where);
  if (plan.full < plan.steps) {
    const Tensor places = expand_dims(arange(plan.steps, where).to(x.device(), where), 1, where);
    const Tensor running = less(places, lengths.to(x.device(), where), where);              // [steps, batch]
    seen = running_or_zero(time_major ? running : transpose(running, where), seen, where);  // 0 * NaN: NaN in gradients
    running_ = unstack(running, 0, where);
  }
  inputs_ = unstack(seen, time_axis_, where);
}

void Steps::hold(std::int64_t step, Tensor& output, std::span<Tensor* const> after,
                 std::span<Tensor* const> before) const {
  const Tensor& running = running_[static_cast<std::size_t>(step)];
  if (!has_rows(output, plan_.batch))
    base::fail<ShapeError>(where_, plan_.op, ": the output of step ", step, " is ", shape_text(output),
                           "; with lengths its first size must be the batch's, ", plan_.batch, ".");
  if (after.size() != before.size())
    base::fail<ShapeError>(where_, plan_.op, ": the number of the state's tensors is ", before.size(), " before step ",
                           step, " and ", after.size(), " after it; with lengths it must not change.");
  output = running_or_zero(running, output, where_);
  for (std::size_t i = 0; i < after.size(); ++i) {
    Tensor& now = *after[i];
    const Tensor& then = *before[i];
    if (!then.defined() || then.rank() == 0 || now.is_same(then)) continue;
    if (!has_rows(now, plan_.batch) || now.shape() != then.shape())
      base::fail<ShapeError>(where_, plan_.op, ": a tensor of the state is ", shape_text(then), " before step ", step,
                             " and ", shape_text(now),
                             " after it; with lengths it must keep its shape, the first size of which is the batch's, ",
                             plan_.batch, ".");
    now = capstan::where(widened(running, now.rank(), where_), now, then, where_);
  }
}

Tensor Steps::outputs() {
  if (plan_.steps < plan_.time)
    std::fill(outputs_.begin() + plan_.steps, outputs_.end(), zeros_like(outputs_[0], where_));
  return stack(outputs_, time_axis_, where_);
}

Tensor join_directions(const UnrollPlan& plan, const Tensor& forward, const Tensor& backward, Where where) {
  if (forward.rank() < 3 || backward.rank() < 3)
    base::fail<ShapeError>(where, plan.op, ": the outputs of the cells are ", forward.shape(), " and ",
                           backward.shape(), "; they must have a third axis to be joined along.");
  return concat({forward, backward}, -1, where);
}

}  // namespace capstan::nn::detail
