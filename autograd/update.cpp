#include <capstan/ops/update.hpp>
#include <capstan/sparse.hpp>

#include <cmath>

#include "autograd/ops.hpp"

namespace capstan {
namespace {

void check_count(const char* op, const char* what, std::size_t count, std::size_t parameters, Where where) {
  if (count != parameters)
    base::fail<ShapeError>(where, op, ": there are ", count, " ", what, " and ", parameters,
                           " parameters; give one for each, in their order.");
}

void check_fits(const char* op, const char* what, std::size_t i, const TensorImpl& p, const Tensor& tensor,
                Where where) {
  const TensorImpl& t = core::described(op, tensor, where);
  if (t.shape != p.shape)
    base::fail<ShapeError>(where, op, ": ", what, " ", i, " is ", t.shape, " and its parameter ", p.shape,
                           "; the shapes must be equal.");
  if (t.dtype != p.dtype)
    base::fail<DTypeError>(where, op, ": ", what, " ", i, " is ", t.dtype, " and its parameter ", p.dtype,
                           "; the types must be equal.");
  core::require_same_device(op, p, t, where);
}

void check_state(const char* op, const char* what, std::size_t i, const TensorImpl& p, const Tensor& tensor,
                 Where where) {
  check_fits(op, what, i, p, tensor, where);
  core::defined(op, tensor, where);  // has elements: only gradients stay row slices
  if (!tensor.is_contiguous()) base::fail<ShapeError>(where, op, ": ", what, " ", i, " is not contiguous; it must be.");
  autograd::check_in_place(op, tensor, nullptr, where);
}

void check_all(const char* op, std::span<const Tensor> parameters, std::span<const Tensor> gradients, Where where) {
  check_count(op, "gradients", gradients.size(), parameters.size(), where);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const TensorImpl& p = core::defined(op, parameters[i], where);
    autograd::require_floating(op, p, where);
    check_state(op, "parameter", i, p, parameters[i], where);
    if (gradients[i].defined()) check_fits(op, "gradient", i, p, gradients[i], where);
  }
}

/// One parameter's gradient as the kernels want it: contiguous, or each of its rows once in ascending order.
struct Ready {
  Tensor dense;
  RowSlices rows;
};

/// All gradients made ready: whatever can fail happens before the first parameter changes.
std::vector<Ready> make_ready(std::span<const Tensor> gradients, Where where) {
  std::vector<Ready> result(gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    if (has_row_slices(gradients[i])) result[i].rows = coalesce(row_slices(gradients[i], where), where);
    else result[i].dense = autograd::dense(gradients[i], where);
  }
  return result;
}

/// One report for all parameters, and for what is kept of each.
void tell(const char* op, std::span<const Tensor> gradients, std::initializer_list<std::span<const Tensor>> changed,
          Where where) {
  if (!autograd::attended()) return;
  std::vector<const Tensor*> inputs, outputs;
  for (const Tensor& gradient : gradients)
    if (gradient.defined()) inputs.push_back(&gradient);
  for (const std::span<const Tensor> tensors : changed)
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (gradients[i].defined()) outputs.push_back(&tensors[i]);
  if (!outputs.empty()) autograd::append_note(op, where, inputs, outputs);
}

}  // namespace

void sgd_update(std::span<const Tensor> parameters, std::span<const Tensor> gradients, std::span<const Tensor> velocity,
                const SgdUpdate& update, Where where) {
  constexpr const char* op = "sgd_update";
  check_all(op, parameters, gradients, where);
  const bool moves = update.momentum != 0;
  if (moves) {
    check_count(op, "velocities", velocity.size(), parameters.size(), where);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      check_state(op, "velocity", i, *parameters[i].impl(), velocity[i], where);
  }
  const std::vector<Ready> ready = make_ready(gradients, where);
  const bool touched = update.lazy || (!moves && update.weight_decay == 0);  // then the other rows do not change
  const kernels::SgdStep step{update.learning_rate, update.momentum, update.weight_decay, update.nesterov};
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!gradients[i].defined()) continue;
    TensorImpl& p = *parameters[i].impl();
    TensorImpl* const v = moves ? velocity[i].impl() : nullptr;
    const core::Backend& backend = autograd::backend_of(p, where);
    if (ready[i].dense.defined()) backend.sgd(p, *ready[i].dense.impl(), v, step);
    else backend.sgd_rows(p, *ready[i].rows.indices.impl(), *ready[i].rows.values.impl(), v, step, touched);
    core::note_write(p, where);
    if (v != nullptr) core::note_write(*v, where);
  }
  tell(op, gradients, {parameters, moves ? velocity : std::span<const Tensor>()}, where);
}

void adam_update(std::span<const Tensor> parameters, std::span<const Tensor> gradients, std::span<const Tensor> mean,
                 std::span<const Tensor> square, const AdamUpdate& update, Where where) {
  constexpr const char* op = "adam_update";
  check_all(op, parameters, gradients, where);
  check_count(op, "means", mean.size(), parameters.size(), where);
  check_count(op, "squares", square.size(), parameters.size(), where);
  if (update.step < 1) base::fail<Error>(where, op, ": the step is ", update.step, "; steps count from 1.");
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    check_state(op, "mean", i, *parameters[i].impl(), mean[i], where);
    check_state(op, "square", i, *parameters[i].impl(), square[i], where);
  }
  const auto t = static_cast<double>(update.step);
  const std::vector<Ready> ready = make_ready(gradients, where);
  const kernels::AdamStep step{update.learning_rate,
                               update.beta1,
                               update.beta2,
                               update.epsilon,
                               update.weight_decay,
                               1 / (1 - std::pow(update.beta1, t)),
                               1 / (1 - std::pow(update.beta2, t))};
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!gradients[i].defined()) continue;
    TensorImpl& p = *parameters[i].impl();
    TensorImpl &m = *mean[i].impl(), &v = *square[i].impl();
    const core::Backend& backend = autograd::backend_of(p, where);
    if (ready[i].dense.defined()) backend.adam(p, *ready[i].dense.impl(), m, v, step);
    else backend.adam_rows(p, *ready[i].rows.indices.impl(), *ready[i].rows.values.impl(), m, v, step, update.lazy);
    for (TensorImpl* const written : {&p, &m, &v}) core::note_write(*written, where);
  }
  tell(op, gradients, {parameters, mean, square}, where);
}

}  // namespace capstan
