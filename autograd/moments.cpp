// Variances: one pass over the elements in the kernel; the gradient in public operations.
#include <capstan/ops/reduce.hpp>

#include "autograd/reducing.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::Plan;
using autograd::record;
using autograd::Replay;
using autograd::scaled;
using autograd::stretch;

namespace {

/// What the replay of a variance must know.
struct Spread {
  Shape full;
  unsigned mask;
  double divisor;
};

/// In the type that gradients are computed in.
Tensor widened(const Tensor& t, Where where) { return t.to(autograd::computing_type(t.dtype(where)), where); }

/// The gradient in x's type, and nobody else's, so that it may be added to in place.
Tensor narrowed(Tensor gradient, const Tensor& x, Where where) {
  const DType type = x.dtype(where);
  return gradient.dtype(where) == type ? std::move(gradient) : cast(gradient, type, where);
}

/// x, which is widened, less its mean. `mean_value` serves but where it was rounded to 16 bits, or where outer tapes
/// need one that is on them and it is not.
Tensor centered(const Tensor& x, const Tensor& mean_value, bool on_tapes, const Spread& spread, Where where) {
  if (mean_value.dtype(where) == x.dtype(where) && (on_tapes || !autograd::listening()))
    return sub(x, stretch(mean_value, spread.full, spread.mask, where), where);
  int axes[kMaxRank];
  std::size_t count = 0;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (spread.mask >> axis & 1u) axes[count++] = axis;
  return sub(x, mean(x, Axes(std::span<const int>(axes, count), where), {.keepdims = true}, where), where);
}

// saved: x and its mean
void var_replay(Replay& r) {
  const Where where = r.where();
  const auto spread = r.attributes<Spread>();
  const Tensor x = widened(r.saved(0), where), share = scaled(widened(r.grad(), where), 2 / spread.divisor, where);
  const Tensor grad = stretch(share, spread.full, spread.mask, where);
  r.give(0, narrowed(mul(centered(x, r.saved(1), false, spread, where), grad, where), r.saved(0), where));
}

// saved: x, its mean and the result
void std_replay(Replay& r) {
  const Where where = r.where();
  const auto spread = r.attributes<Spread>();
  const Tensor x = widened(r.saved(0), where), y = widened(r.saved(2), where);
  const Tensor still = equal(y, 0.0, where);  // nothing varies there: the gradient is 0, and no 0 / 0 behind it
  const Tensor part = scaled(widened(r.grad(), where), 1 / spread.divisor, where);
  const Tensor share = div(part, capstan::where(still, 1.0, y, where), where);
  const Tensor grad = stretch(capstan::where(still, 0.0, share, where), spread.full, spread.mask, where);
  r.give(0, narrowed(mul(centered(x, r.saved(1), false, spread, where), grad, where), r.saved(0), where));
}

// saved: x and its mean, which is the first result
void moments_replay(Replay& r) {
  const Where where = r.where();
  const auto spread = r.attributes<Spread>();
  const auto share = [&](const Tensor& grad, double of) {
    return stretch(scaled(widened(grad, where), of / spread.divisor, where), spread.full, spread.mask, where);
  };
  Tensor gradient;
  if (r.grad(1).defined()) {
    const Tensor distance = centered(widened(r.saved(0), where), r.saved(1), true, spread, where);
    gradient = mul(distance, share(r.grad(1), 2), where);
  }
  if (r.grad(0).defined()) {
    const Tensor part = share(r.grad(0), 1);
    gradient = gradient.defined() ? add(gradient, part, where) : part;
  }
  r.give(0, narrowed(std::move(gradient), r.saved(0), where));
}

/// Mean and variance, or the variance's root.
Moments computed(const char* op, const TensorImpl& x, const Plan& plan, double correction, bool root, Where where) {
  if (!(correction - correction == 0))
    base::fail<Error>(where, op, ": the correction is ", correction, "; it must be finite.");
  autograd::refuse_empty(op, x, plan, where);
  Moments result{autograd::result_like(x, plan.result, x.dtype, where),
                 autograd::result_like(x, plan.result, x.dtype, where)};
  backend_of(x, where).moments(x, plan.mask, correction, root, *result.mean.impl(), *result.variance.impl());
  return result;
}

double divisor_of(const Plan& plan, double correction) {
  const double divisor = static_cast<double>(plan.count) - correction;
  return divisor > 0 ? divisor : 0;
}

}  // namespace

Tensor var(const Tensor& x, Axes axes, VarianceOptions options, Where where) {
  if (autograd::raises(x)) [[unlikely]]
    return autograd::raised(&var, where, x, axes, options);
  const TensorImpl& impl = core::defined("var", x, where);
  autograd::require_floating("var", impl, where);
  const Plan plan("var", impl, axes, {.keepdims = options.keepdims}, where);
  Moments both = computed("var", impl, plan, options.correction, false, where);
  record("var", where, &var_replay, {&x}, {&both.variance}, {&x, &both.mean},
         Spread{impl.shape, plan.mask, divisor_of(plan, options.correction)});
  return both.variance;
}

Tensor std(const Tensor& x, Axes axes, VarianceOptions options, Where where) {
  if (autograd::raises(x)) [[unlikely]]
    return autograd::raised(&std, where, x, axes, options);
  const TensorImpl& impl = core::defined("std", x, where);
  autograd::require_floating("std", impl, where);
  const Plan plan("std", impl, axes, {.keepdims = options.keepdims}, where);
  Moments both = computed("std", impl, plan, options.correction, true, where);
  record("std", where, &std_replay, {&x}, {&both.variance}, {&x, &both.mean, &both.variance},
         Spread{impl.shape, plan.mask, divisor_of(plan, options.correction)});
  return both.variance;
}

Moments moments(const Tensor& x, Axes axes, ReduceOptions options, Where where) {
  if (autograd::raises(x)) [[unlikely]]
    return autograd::raised(&moments, where, x, axes, options);
  const TensorImpl& impl = core::defined("moments", x, where);
  autograd::require_floating("moments", impl, where);
  const Plan plan("moments", impl, axes, options, where);
  Moments both = computed("moments", impl, plan, 0, false, where);
  record("moments", where, &moments_replay, {&x}, {&both.mean, &both.variance}, {&x, &both.mean},
         Spread{impl.shape, plan.mask, divisor_of(plan, 0)});
  return both;
}

}  // namespace capstan
