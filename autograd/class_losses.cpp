// Losses over classes: cross entropies and negative log-likelihoods.
#include <capstan/ops/index.hpp>

#include "autograd/class_losses.hpp"
#include "autograd/losses.hpp"
#include "lib/core/recording.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::class_weight_of;
using autograd::classes_last;
using autograd::Labels;
using autograd::listening;
using autograd::look_up;
using autograd::record;
using autograd::reduced;
using autograd::Replay;
using autograd::Rollback;
using autograd::sparse_rows;

namespace autograd {

Labels look_up(const char* op, const char* what, const TensorImpl& x, int axis, const Tensor& labels,
               const std::int64_t* ignored, Where where) {
  const TensorImpl& l = core::defined(op, labels, where);
  if (l.dtype != DType::int32 && l.dtype != DType::int64)
    base::fail<DTypeError>(where, op, ": the labels are ", l.dtype, "; they must be int32 or int64.");
  core::require_same_device(op, x, l, where);
  bool fits = x.rank() == l.rank() + 1;
  for (int i = 0; fits && i < l.rank(); ++i) fits = x.shape[i < axis ? i : i + 1] == l.shape[i];
  if (!fits)
    base::fail<ShapeError>(where, op, ": the ", what, " are ", x.shape, " and the labels ", l.shape,
                           "; the labels must have the ", what, "' shape without ",
                           axis == x.rank() - 1 ? std::string("the last axis.") : base::join("axis ", axis, "."));

  const std::int64_t classes = x.shape[axis];
  const core::Backend& backend = backend_of(x, where, op);
  Labels found{dense(labels, where), {}};
  core::BadIndex bad;
  // a GPU is not waited for, and a plan will see other labels: all could be ignored ones
  const bool told_later = x.device().kind != DeviceKind::cpu || core::recording() != nullptr;
  if (ignored == nullptr || !told_later) bad = backend.check_indices(*found.index.impl(), 0, classes);
  if (ignored != nullptr && (told_later || bad.position >= 0 || (*ignored >= 0 && *ignored < classes))) {
    const Tensor wide = labels.to(DType::int64, where);
    found.counts = not_equal(wide, *ignored, where);
    found.index = capstan::where(found.counts, wide, 0, where);
    bad = backend.check_indices(*found.index.impl(), 0, classes);
  }
  if (bad.position >= 0)
    base::fail<IndexError>(where, op, ": label ", bad.value, " of row ", bad.position, " is out of range for ", classes,
                           " classes; it must be in [0, ", classes, ")",
                           ignored != nullptr ? base::join(", or ", *ignored, " to be ignored.") : std::string("."));
  return found;
}

void require_class_weight(const char* op, const Tensor& weight, const TensorImpl& x, int axis, Where where) {
  if (!weight.defined()) return;
  const TensorImpl& w = core::defined(op, weight, where);
  if (!is_floating(w.dtype))
    base::fail<DTypeError>(where, op, ": the class weights are ", w.dtype, "; they must be of a floating type.");
  core::require_same_device(op, x, w, where);
  if (w.rank() != 1 || w.shape[0] != x.shape[axis])
    base::fail<ShapeError>(where, op, ": the class weights are ", w.shape, " and there are ", x.shape[axis],
                           " classes; they must be [", x.shape[axis], "].");
}

Tensor class_weight_of(const Tensor& weight, const Tensor& index, DType dtype, Where where) {
  return weight.defined() ? gather(weight.to(dtype, where), index, 0, where) : Tensor();
}

Tensor classes_last(const Tensor& x, int axis, Where where) {
  return axis == x.rank(where) - 1 ? x : move_axis(x, axis, -1, where);
}

}  // namespace autograd

namespace {

/// 0 where a row does not count, so that NaN and infinities there reach nothing.
Tensor counted(const Tensor& rows, const Tensor& counts, Where where) {
  return counts.defined() ? capstan::where(counts, rows, 0, where) : rows;
}
/// The same of rows of classes.
Tensor counted_classes(const Tensor& x, const Tensor& counts, Where where) {
  return counts.defined() ? capstan::where(expand_dims(counts, -1, where), x, 0, where) : x;
}

void cross_entropy_replay(Replay& r) {
  const Where where = r.where();
  const Tensor &logits = r.saved(0), &labels = r.saved(1), &sums = r.saved(2), &counts = r.saved(3);
  if (listening()) {
    const Tensor on = one_hot(labels, logits.size(-1), 1, 0, logits.dtype(), where);
    const Tensor share = softmax(counted_classes(logits, counts, where), -1, where);
    r.give(0, mul(sub(share, on, where), expand_dims(r.grad(), -1, where), where));
    return;
  }
  const Tensor x = autograd::dense(logits, where);
  const Tensor grad = r.grad().rank() > 1 ? autograd::dense(r.grad(), where) : r.grad();
  Tensor out = autograd::result_like(*x.impl(), where);
  backend_of(*x.impl(), where)
      .cross_entropy_backward(*grad.impl(), *x.impl(), *labels.impl(), *sums.impl(), *out.impl());
  r.give(0, std::move(out));
}

}  // namespace

namespace autograd {

Tensor sparse_rows(const char* op, const Tensor& logits, const Labels& found, Where where) {
  const TensorImpl &x = *logits.impl(), &l = *found.index.impl();
  const Tensor rows = autograd::dense(logits, where);
  Tensor loss = autograd::result_like(x, l.shape, x.dtype, where);
  const Tensor sums =
      autograd::result_like(x, autograd::with_sizes(l.shape, 0, {2}, where), autograd::computing_type(x.dtype), where);
  backend_of(x, where).cross_entropy(*rows.impl(), l, *loss.impl(), *sums.impl());
  record(op, where, &cross_entropy_replay, {&logits}, {&loss}, {&logits, &found.index, &sums, &found.counts});
  return counted(loss, found.counts, where);
}

}  // namespace autograd

namespace {

/// The weight of each label, 0 where a row does not count; undefined if there are none.
Tensor counted_weight(const Tensor& class_weight, const Labels& found, DType dtype, Where where) {
  const Tensor weight = class_weight_of(class_weight, found.index, dtype, where);
  return weight.defined() ? counted(weight, found.counts, where) : weight;
}

/// Losses of rows, those that do not count at 0 as their weights; the mean divides by the weights.
Tensor reduced_rows(const Tensor& losses, const Tensor& weight, const Tensor& counts, Reduction reduction,
                    Where where) {
  if (reduction != Reduction::mean || (!weight.defined() && !counts.defined()))
    return reduced(losses, reduction, where);
  const DType dtype = losses.dtype(where), wide = autograd::computing_type(dtype);
  const Tensor shares = weight.defined() ? weight.to(wide, where) : cast(counts, wide, where);
  const Tensor total = sum(losses.to(wide, where), {}, {}, where);
  return div(total, sum(shares, {}, {}, where), where).to(dtype, where);
}

/// In the weight's type, if there is one.
Tensor times(const Tensor& x, const Tensor& weight, Where where) {
  return weight.defined() ? mul(x.to(weight.dtype(where), where), weight, where) : x;
}

/// (1 - smoothing) times the loss of the label and smoothing / classes times those of all classes. `weight` is that of
/// each label, `class_weight` of each class; both may be undefined. None has 16 bits, which sums over classes leave.
Tensor smoothed_rows(const Tensor& logits, const Tensor& index, const Tensor& weight, const Tensor& class_weight,
                     double smoothing, Where where) {
  const Tensor logs = log_softmax(logits, -1, where);
  const Tensor label = times(pick(logs, index, where), weight, where);
  const Tensor all_classes = sum(times(logs, class_weight, where), -1, {}, where);
  const double share = smoothing / static_cast<double>(logits.size(-1, where));
  return neg(add(mul(label, 1 - smoothing, where), mul(all_classes, share, where), where), where);
}

Tensor of_probabilities(const Tensor& logits, const Tensor& target, int axis, const CrossEntropyOptions& options,
                        Where where) {
  constexpr const char* op = "cross_entropy";
  autograd::require_alike(op, "logits are", logits, "probabilities", target, where);
  if (options.ignored_label >= 0)
    base::fail<Error>(where, op, ": label ", options.ignored_label,
                      " shall be ignored, but the target is floating: probabilities, which have no labels.");
  const Rollback rollback;
  const DType type = promote(logits.dtype(where), target.dtype(where), where), wide = autograd::computing_type(type);
  const Tensor logs = log_softmax(classes_last(logits, axis, where).to(wide, where), -1, where);
  Tensor share = classes_last(target, axis, where).to(wide, where);
  if (options.label_smoothing > 0) {
    const double each = options.label_smoothing / static_cast<double>(logs.size(-1, where));
    share = add(mul(share, 1 - options.label_smoothing, where), each, where);
  }
  if (options.class_weight.defined()) share = mul(share, options.class_weight.to(wide, where), where);
  const Tensor losses = neg(sum(mul(share, logs, where), -1, {}, where), where);
  return reduced(losses, options.reduction, where).to(type, where);
}

}  // namespace

Tensor sparse_softmax_cross_entropy(const Tensor& logits, const Tensor& labels, const RowLossOptions& options,
                                    Where where) {
  if (autograd::raises(logits)) [[unlikely]]
    return autograd::raised(&sparse_softmax_cross_entropy, where, logits, labels, options);
  constexpr const char* op = "sparse_softmax_cross_entropy";
  const TensorImpl& x = core::defined(op, logits, where);
  autograd::require_floating(op, x, where);
  const Labels found = look_up(op, "logits", x, x.rank() - 1, labels, nullptr, where);
  const Rollback rollback;
  return reduced(op, sparse_rows(op, logits, found, where), options.weight, options.reduction, where);
}

Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& labels, const RowLossOptions& options, Where where) {
  if (autograd::raises(logits, labels)) [[unlikely]]
    return autograd::raised(&softmax_cross_entropy, where, logits, labels, options);
  constexpr const char* op = "softmax_cross_entropy";
  autograd::require_alike(op, "logits are", logits, "labels", labels, where);
  if (logits.rank(where) == 0) base::fail<ShapeError>(where, op, ": the logits are []; they must be [..., classes].");
  const Rollback rollback;
  const Tensor losses = neg(sum(mul(labels, log_softmax(logits, -1, where), where), -1, {}, where), where);
  return reduced(op, losses, options.weight, options.reduction, where);
}

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& labels, const NllOptions& options, Where where) {
  if (autograd::raises(log_probabilities)) [[unlikely]]
    return autograd::raised(&nll_loss, where, log_probabilities, labels, options);
  constexpr const char* op = "nll_loss";
  const TensorImpl& x = core::defined(op, log_probabilities, where);
  autograd::require_floating(op, x, where);
  const int axis = core::normalize_axis(op, options.axis, x.rank(), where);
  autograd::require_class_weight(op, options.class_weight, x, axis, where);
  const Rollback rollback;
  const Labels found = look_up(op, "log-probabilities", x, axis, labels, &options.ignored_label, where);
  const DType wide = autograd::computing_type(x.dtype);
  const Tensor weight = counted_weight(options.class_weight, found, wide, where);
  const Tensor picked = neg(pick(classes_last(log_probabilities, axis, where), found.index, where), where);
  const Tensor rows = counted(picked, found.counts, where);
  return reduced_rows(times(rows, weight, where), weight, found.counts, options.reduction, where).to(x.dtype, where);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options, Where where) {
  if (autograd::raises(logits)) [[unlikely]]
    return autograd::raised(&cross_entropy, where, logits, target, options);
  constexpr const char* op = "cross_entropy";
  const TensorImpl &x = core::defined(op, logits, where), &t = core::defined(op, target, where);
  autograd::require_floating(op, x, where);
  const double smoothing = options.label_smoothing;
  if (!(smoothing >= 0 && smoothing <= 1))
    base::fail<Error>(where, op, ": label_smoothing is ", smoothing, "; it must be in [0, 1].");
  const int axis = core::normalize_axis(op, options.axis, x.rank(), where);
  autograd::require_class_weight(op, options.class_weight, x, axis, where);
  if (is_floating(t.dtype)) return of_probabilities(logits, target, axis, options, where);

  const Rollback rollback;
  const Labels found = look_up(op, "logits", x, axis, target, &options.ignored_label, where);
  const Tensor rows = classes_last(logits, axis, where);
  const DType wide = autograd::computing_type(x.dtype);
  const Tensor weight = counted_weight(options.class_weight, found, wide, where);
  if (smoothing == 0) {
    const Tensor losses = times(sparse_rows(op, rows, found, where), weight, where);
    return reduced_rows(losses, weight, found.counts, options.reduction, where).to(x.dtype, where);
  }
  const Tensor& given = options.class_weight;
  const Tensor class_weight = given.defined() ? given.to(wide, where) : given;
  const Tensor kept = counted_classes(rows.to(wide, where), found.counts, where);
  const Tensor losses =
      counted(smoothed_rows(kept, found.index, weight, class_weight, smoothing, where), found.counts, where);
  return reduced_rows(losses, weight, found.counts, options.reduction, where).to(x.dtype, where);
}

}  // namespace capstan
