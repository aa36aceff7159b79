#include <capstan/ops/update.hpp>

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
  const TensorImpl& t = core::defined(op, tensor, where);
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
  if (!tensor.is_contiguous()) base::fail<ShapeError>(where, op, ": ", what, " ", i, " is not contiguous; it must be.");
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

/// The gradients, each contiguous: whatever can fail happens before the first parameter changes.
std::vector<Tensor> dense_all(std::span<const Tensor> gradients, Where where) {
  std::vector<Tensor> result;
  result.reserve(gradients.size());
  for (const Tensor& gradient : gradients)
    result.push_back(gradient.defined() ? autograd::dense(gradient, where) : Tensor());
  return result;
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
  const std::vector<Tensor> dense = dense_all(gradients, where);
  const kernels::SgdStep step{update.learning_rate, update.momentum, update.weight_decay, update.nesterov};
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!gradients[i].defined()) continue;
    TensorImpl& p = *parameters[i].impl();
    autograd::backend_of(p, where).sgd(p, *dense[i].impl(), moves ? velocity[i].impl() : nullptr, step);
    core::note_write(p, where);
  }
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
  const std::vector<Tensor> dense = dense_all(gradients, where);
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
    autograd::backend_of(p, where).adam(p, *dense[i].impl(), *mean[i].impl(), *square[i].impl(), step);
    core::note_write(p, where);
  }
}

}  // namespace capstan
