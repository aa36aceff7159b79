#include <capstan/ops/dropout.hpp>

#include <cmath>

#include "autograd/drawing.hpp"
#include "autograd/ops.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::record;
using autograd::Replay;

namespace {

constexpr auto kDecisions = core::RandomKind::bernoulli;
constexpr double kSeluLimit = -1.7580993408473766;  // at -infinity

/// What the gradient needs besides the decisions.
struct Kept {
  std::int64_t group;
  double scale;
};

void keep_replay(Replay& r);

/// scale * x where it was kept, else 0: the gradient of all of them, and of itself.
Tensor keep_elements(const Tensor& x, const Tensor& kept, const Kept& rule, Where where) {
  const Tensor packed = autograd::dense(x, where);
  Tensor out = autograd::result_like(*packed.impl(), where);
  backend_of(*packed.impl(), where).keep(*kept.impl(), rule.group, rule.scale, *packed.impl(), *out.impl());
  record("keep", where, &keep_replay, {&x}, {&out}, {&kept}, rule);
  return out;
}

void keep_replay(Replay& r) { r.give(0, keep_elements(r.grad(), r.saved(0), r.attributes<Kept>(), r.where())); }

/// What becomes of an element.
struct Fate {
  double scale, shift = 0;  // of one that is kept
  double dropped = 0;
};

/// A decision for every place of the first `axes` axes; the places of the others share it.
Tensor drop(const char* op, const Tensor& x, int axes, double keep, const Fate& fate, Rng& rng, Where where) {
  const TensorImpl& impl = *x.impl();
  std::int64_t decisions = 1, group = 1;
  for (int axis = 0; axis < impl.rank(); ++axis) (axis < axes ? decisions : group) *= impl.shape[axis];
  const Tensor packed = autograd::dense(x, where);
  Tensor out = autograd::result_like(impl, where);
  const Tensor kept = autograd::result_like(impl, Shape({decisions}, where), DType::bool8, where);
  core::DropoutTask task{autograd::next_of(op, rng, kDecisions, impl.device(), where), group, fate.scale, fate.shift,
                         fate.dropped};
  task.draw.a = keep;
  backend_of(impl, where).dropout(task, *packed.impl(), *kept.impl(), *out.impl());
  record(op, where, &keep_replay, {&x}, {&out}, {&kept}, Kept{group, fate.scale});
  autograd::take_numbers(rng, kDecisions, decisions);
  return out;
}

const TensorImpl& checked(const char* op, const Tensor& x, double keep, Where where) {
  const TensorImpl& impl = core::defined(op, x, where);
  autograd::require_floating(op, impl, where);
  if (!(keep > 0 && keep <= 1)) base::fail<Error>(where, op, ": keep is ", keep, "; it must be in (0, 1].");
  return impl;
}

Tensor drop_channels(const char* op, int places, const Tensor& x, double keep, Rng& rng, Where where) {
  static constexpr const char* layouts[] = {"length", "rows, columns", "depth, rows, columns"};
  const int rank = checked(op, x, keep, where).rank();
  const char* const layout = layouts[places - 1];
  if (rank != places + 2 && rank != places + 1)
    base::fail<ShapeError>(where, op, ": the tensor is ", x.shape(), "; it must be [batch, channels, ", layout,
                           "] or [channels, ", layout, "].");
  if (keep == 1) return x;
  return drop(op, x, rank - places, keep, {.scale = 1 / keep}, rng, where);
}

Tensor drop_alpha(const char* op, const Tensor& x, int axes, double keep, Rng& rng, Where where) {
  if (keep == 1) return x;
  const double scale = 1 / std::sqrt(keep * (1 + (1 - keep) * kSeluLimit * kSeluLimit));
  const double shift = -scale * (1 - keep) * kSeluLimit;
  return drop(op, x, axes, keep, {scale, shift, scale * kSeluLimit + shift}, rng, where);
}

}  // namespace

Tensor dropout(const Tensor& x, double keep, Rng& rng, Where where) {
  const TensorImpl& impl = checked("dropout", x, keep, where);
  if (keep == 1) return x;
  return drop("dropout", x, impl.rank(), keep, {.scale = 1 / keep}, rng, where);
}

Tensor dropout1d(const Tensor& x, double keep, Rng& rng, Where where) {
  return drop_channels("dropout1d", 1, x, keep, rng, where);
}
Tensor dropout2d(const Tensor& x, double keep, Rng& rng, Where where) {
  return drop_channels("dropout2d", 2, x, keep, rng, where);
}
Tensor dropout3d(const Tensor& x, double keep, Rng& rng, Where where) {
  return drop_channels("dropout3d", 3, x, keep, rng, where);
}

Tensor alpha_dropout(const Tensor& x, double keep, Rng& rng, Where where) {
  const int rank = checked("alpha_dropout", x, keep, where).rank();
  return drop_alpha("alpha_dropout", x, rank, keep, rng, where);
}

Tensor feature_alpha_dropout(const Tensor& x, double keep, Rng& rng, Where where) {
  constexpr const char* op = "feature_alpha_dropout";
  const TensorImpl& impl = checked(op, x, keep, where);
  if (impl.rank() < 2)
    base::fail<ShapeError>(where, op, ": the tensor is ", impl.shape, "; it must be [batch, channels, ...].");
  return drop_alpha(op, x, 2, keep, rng, where);
}

Tensor gaussian_dropout(const Tensor& x, double keep, Rng& rng, Where where) {
  const TensorImpl& impl = checked("gaussian_dropout", x, keep, where);
  if (keep == 1) return x;
  const autograd::Rollback rollback;
  const autograd::RngRollback drawn(rng);
  const double stddev = std::sqrt((1 - keep) / keep);
  return mul(x, normal(impl.shape, 1, stddev, rng, {impl.dtype, impl.device()}, where), where);
}

Tensor gaussian_noise(const Tensor& x, double stddev, Rng& rng, Where where) {
  const TensorImpl& impl = core::defined("gaussian_noise", x, where);
  autograd::require_floating("gaussian_noise", impl, where);
  if (!(stddev >= 0))
    base::fail<Error>(where, "gaussian_noise: the standard deviation is ", stddev, "; it must be >= 0.");
  if (stddev == 0) return x;
  const autograd::Rollback rollback;
  const autograd::RngRollback drawn(rng);
  return add(x, normal(impl.shape, 0, stddev, rng, {impl.dtype, impl.device()}, where), where);
}

Tensor drop_path(const Tensor& x, double keep, Rng& rng, Where where) {
  const TensorImpl& impl = checked("drop_path", x, keep, where);
  if (impl.rank() == 0) base::fail<ShapeError>(where, "drop_path: the tensor is []; it must be [batch, ...].");
  if (keep == 1) return x;
  return drop("drop_path", x, 1, keep, {.scale = 1 / keep}, rng, where);
}

}  // namespace capstan
