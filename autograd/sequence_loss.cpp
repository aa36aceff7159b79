#include <capstan/ops/sequence_loss.hpp>

#include <algorithm>

#include "autograd/class_losses.hpp"
#include "autograd/linalg.hpp"

namespace capstan {

using autograd::computing_type;
using autograd::Labels;
using autograd::Rollback;

namespace {

/// Losses of all steps as the targets lie, times their weights, and the weights; undefined for ones.
struct Steps {
  Tensor losses, weight;
};

void check_logits(const char* op, const Tensor& logits, bool time_major, Where where) {
  const TensorImpl& x = core::defined(op, logits, where);
  autograd::require_floating(op, x, where);
  if (x.rank() != 3)
    base::fail<ShapeError>(where, op, ": the logits are ", x.shape, "; they must be ",
                           time_major ? "[time, batch, classes]." : "[batch, time, classes].");
}

/// Throws unless the weight is one for each step.
void check_weight(const char* op, const TensorImpl& x, const Tensor& weight, Where where) {
  const TensorImpl& w = core::defined(op, weight, where);
  if (!is_floating(w.dtype) && w.dtype != DType::bool8)
    base::fail<DTypeError>(where, op, ": the weight is ", w.dtype, "; it must be bool or of a floating type.");
  core::require_same_device(op, x, w, where);
  if (w.rank() != 2 || w.shape[0] != x.shape[0] || w.shape[1] != x.shape[1])
    base::fail<ShapeError>(where, op, ": the logits are ", x.shape, " and the weight ", w.shape,
                           "; the weight must have the logits' shape without the last axis.");
}

/// The targets, those of steps that do not count replaced by a class. What is no list of labels stays as it is, to be
/// refused with the others.
Tensor targets_that_count(const char* op, const TensorImpl& x, const Tensor& targets, const Tensor& counts,
                          Where where) {
  const TensorImpl& t = core::defined(op, targets, where);
  if ((t.dtype != DType::int32 && t.dtype != DType::int64) || t.shape != counts.shape(where)) return targets;
  core::require_same_device(op, x, t, where);
  return capstan::where(counts, targets, 0, where);
}

Steps steps_of(const char* op, const Tensor& logits, const Tensor& targets, const Tensor& weight, bool time_major,
               Where where) {
  check_logits(op, logits, time_major, where);
  const TensorImpl& x = *logits.impl();
  if (!weight.defined()) {
    const Labels found = autograd::look_up(op, "logits", x, 2, targets, nullptr, where);
    return {autograd::sparse_rows(op, logits, found, where), {}};
  }
  check_weight(op, x, weight, where);
  const Tensor counts = weight.dtype(where) == DType::bool8 ? weight : not_equal(weight, 0, where);
  const Tensor inside = targets_that_count(op, x, targets, counts, where);
  Labels found = autograd::look_up(op, "logits", x, 2, inside, nullptr, where);
  found.counts = counts;
  const Tensor factor = weight.to(x.dtype, where);
  return {mul(autograd::sparse_rows(op, logits, found, where), factor, where), factor};
}

/// Sums of losses along the axes, divided by the sums of their weights, or by 1 where these are 0.
Tensor averaged(const Steps& steps, Axes axes, Where where) {
  const DType dtype = steps.losses.dtype(where), wide = computing_type(dtype);
  const Tensor total = sum(steps.losses.to(wide, where), axes, {}, where);
  if (!steps.weight.defined()) {
    const std::int64_t sums = std::max<std::int64_t>(total.numel(where), 1);
    const std::int64_t count = std::max<std::int64_t>(steps.losses.numel(where) / sums, 1);
    return div(total, static_cast<double>(count), where).to(dtype, where);
  }
  const Tensor shares = sum(steps.weight.to(wide, where), axes, {}, where);
  const Tensor divisor = capstan::where(equal(shares, 0, where), 1, shares, where);
  return div(total, divisor, where).to(dtype, where);
}

}  // namespace

Tensor sequence_loss(const Tensor& logits, const Tensor& targets, const SequenceLossOptions& options, Where where) {
  if (autograd::raises(logits)) [[unlikely]]
    return autograd::raised(&sequence_loss, where, logits, targets, options);
  const Rollback rollback;
  const Steps steps = steps_of("sequence_loss", logits, targets, options.weight, options.time_major, where);
  const int time = options.time_major ? 0 : 1;
  if (options.average_across_timesteps && options.average_across_batch) return averaged(steps, {}, where);
  if (options.average_across_timesteps) return averaged(steps, time, where);
  if (options.average_across_batch) return averaged(steps, 1 - time, where);
  return steps.losses;
}

Tensor sequence_loss_by_example(const Tensor& logits, const Tensor& targets, const ExampleLossOptions& options,
                                Where where) {
  if (autograd::raises(logits)) [[unlikely]]
    return autograd::raised(&sequence_loss_by_example, where, logits, targets, options);
  const Rollback rollback;
  const Steps steps = steps_of("sequence_loss_by_example", logits, targets, options.weight, options.time_major, where);
  const int time = options.time_major ? 0 : 1;
  if (options.average_across_timesteps) return averaged(steps, time, where);
  return sum(steps.losses, time, {}, where);
}

}  // namespace capstan
