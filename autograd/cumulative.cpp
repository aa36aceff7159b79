#include <capstan/ops/cumulative.hpp>

#include <capstan/create.hpp>

#include "autograd/choosing.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::note;
using autograd::record;
using autograd::Replay;
using core::Cumulation;

namespace {

struct Walk {
  int axis;
  bool exclusive, reverse;
};

Tensor cumulated(Cumulation kind, const Tensor& x, const Walk& walk, Where where) {
  const TensorImpl& impl = *x.impl();
  const Tensor wide = is_floating(impl.dtype) ? x : autograd::converted(x, DType::int64, where);
  Tensor out = autograd::result_like(*wide.impl(), where);
  backend_of(impl, where).cumulate(kind, *wide.impl(), walk.axis, walk.exclusive, walk.reverse, *out.impl());
  return out;
}

/// One slice of an axis, full of a number.
Tensor slice_of(const Tensor& like, int axis, Scalar value, Where where) {
  std::int64_t sizes[kMaxRank];
  for (int i = 0; i < like.rank(); ++i) sizes[i] = i == axis ? 1 : like.shape()[i];
  return full(Shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(like.rank())), where), value,
              {like.dtype(), like.device()}, where);
}

/// In the place of each slice the one before it in the direction of the walk, and `first` where the walk begins. The
/// axis has size 1 or more.
Tensor shifted(const Tensor& x, const Tensor& first, int axis, bool reverse, Where where) {
  const std::int64_t rest = x.shape()[axis] - 1;
  if (reverse) return concat({narrow(x, axis, 1, rest, where), first}, axis, where);
  return concat({first, narrow(x, axis, 0, rest, where)}, axis, where);
}
Tensor shifted(const Tensor& x, int axis, bool reverse, Where where) {
  return shifted(x, slice_of(x, axis, 0, where), axis, reverse, where);
}

/// y[k] = b[k] + a[k] * y[before k], and y = b where the walk begins: what gradients of running products are made of.
/// Its own gradient is the same walked back, with each factor one step on.
Tensor recurrence(const Tensor& b, const Tensor& a, int axis, bool reverse, Where where);

void recurrence_replay(Replay& r) {
  const auto walk = r.attributes<Walk>();
  const Where where = r.where();
  const Tensor& a = r.saved(0);
  const Tensor reach =
      recurrence(r.grad(), shifted(a, walk.axis, !walk.reverse, where), walk.axis, !walk.reverse, where);
  if (r.needs(0)) r.give(0, reach);
  if (r.needs(1)) r.give(1, mul(reach, shifted(r.saved(1), walk.axis, walk.reverse, where), where));
}

Tensor recurrence(const Tensor& b, const Tensor& a, int axis, bool reverse, Where where) {
  const TensorImpl& impl = core::defined("recurrence", b, where);
  Tensor y = autograd::result_like(impl, where);
  backend_of(impl, where).recur(impl, core::defined("recurrence", a, where), axis, reverse, *y.impl());
  record("recurrence", where, &recurrence_replay, {&b, &a}, {&y}, {&a, &y}, Walk{axis, false, reverse});
  return y;
}

void cumsum_replay(Replay& r) {
  const auto walk = r.attributes<Walk>();
  r.give(0, cumsum(r.grad(), walk.axis, {.exclusive = walk.exclusive, .reverse = !walk.reverse}, r.where()));
}

// With p[k] the product before k: dx[k] = p[k] * s[k], where s[k] sums grad[i] * x[k+1] * ... * x[i] over all i from k
// on: s[k] = grad[k] + x[k+1] * s[k+1]. Nothing is divided, so zeros are no exception. Exclusive products lack their
// own factor: there s[k] = grad[k+1] + x[k+1] * s[k+1].
void cumprod_replay(Replay& r) {
  const auto walk = r.attributes<Walk>();
  const Where where = r.where();
  const Tensor& x = r.saved(0);
  if (x.numel() == 0) return r.give(0, r.grad());
  const bool back = !walk.reverse;
  const Tensor before = cumprod(x, walk.axis, {.exclusive = true, .reverse = walk.reverse}, where);
  const Tensor grad = walk.exclusive ? shifted(r.grad(), walk.axis, back, where) : r.grad();
  const Tensor sums = recurrence(grad, shifted(x, walk.axis, back, where), walk.axis, back, where);
  r.give(0, mul(before, sums, where));
}

// dx[k] = exp(x[k] - y[k]) * s[k], where s[k] sums grad[i] * exp(y[k] - y[i]) over all i from k on:
// s[k] = grad[k] + exp(y[k] - y[k+1]) * s[k+1]. y never falls, so no exponent is above 0.
void logcumsumexp_replay(Replay& r) {
  const auto walk = r.attributes<Walk>();
  const Where where = r.where();
  if (r.saved(0).numel() == 0) return r.give(0, r.grad());
  const DType dtype = r.saved(0).dtype(), wide = autograd::computing_type(dtype);
  const Tensor x = r.saved(0).to(wide, where);
  // of 16 bits the saved sums are too coarse for differences
  const Tensor y = wide == dtype ? r.saved(1) : logcumsumexp(x, walk.axis, {.reverse = walk.reverse}, where);
  const bool back = !walk.reverse;
  // where everything so far is -inf the gradient is 0, and no difference of infinities may say otherwise
  const Tensor finite = capstan::where(equal(y, -__builtin_inf(), where), 0, y, where);
  const std::int64_t end = back ? y.shape()[walk.axis] - 1 : 0;
  const Tensor next = shifted(finite, narrow(finite, walk.axis, end, 1, where), walk.axis, back, where);
  const Tensor sums = recurrence(r.grad().to(wide, where), exp(sub(y, next, where), where), walk.axis, back, where);
  r.give(0, mul(exp(sub(x, finite, where), where), sums, where).to(dtype, where));
}

}  // namespace

Tensor cumsum(const Tensor& x, int axis, CumulativeOptions options, Where where) {
  if (autograd::raises(x)) [[unlikely]]
    return autograd::raised(&cumsum, where, x, axis, options);
  const TensorImpl& impl = core::defined("cumsum", x, where);
  const Walk walk{core::normalize_axis("cumsum", axis, impl.rank(), where), options.exclusive, options.reverse};
  Tensor out = cumulated(Cumulation::sum, x, walk, where);
  if (is_floating(impl.dtype)) record("cumsum", where, &cumsum_replay, {&x}, {&out}, {}, walk);
  else note("cumsum", where, {&x}, {&out});
  return out;
}

Tensor cumprod(const Tensor& x, int axis, CumulativeOptions options, Where where) {
  if (autograd::raises(x)) [[unlikely]]
    return autograd::raised(&cumprod, where, x, axis, options);
  const TensorImpl& impl = core::defined("cumprod", x, where);
  const Walk walk{core::normalize_axis("cumprod", axis, impl.rank(), where), options.exclusive, options.reverse};
  Tensor out = cumulated(Cumulation::product, x, walk, where);
  if (is_floating(impl.dtype)) record("cumprod", where, &cumprod_replay, {&x}, {&out}, {&x}, walk);
  else note("cumprod", where, {&x}, {&out});
  return out;
}

Tensor logcumsumexp(const Tensor& x, int axis, CumulativeOptions options, Where where) {
  if (autograd::raises(x)) [[unlikely]]
    return autograd::raised(&logcumsumexp, where, x, axis, options);
  const TensorImpl& impl = core::defined("logcumsumexp", x, where);
  autograd::require_floating("logcumsumexp", impl, where);
  const Walk walk{core::normalize_axis("logcumsumexp", axis, impl.rank(), where), false, options.reverse};
  const autograd::Rollback rollback;
  Tensor out = cumulated(Cumulation::logsumexp, x, walk, where);
  record("logcumsumexp", where, &logcumsumexp_replay, {&x}, {&out}, {&x, &out}, walk);
  if (!options.exclusive || impl.shape[walk.axis] == 0) return out;
  return shifted(out, slice_of(out, walk.axis, -__builtin_inf(), where), walk.axis, walk.reverse, where);
}

namespace {

ExtremeResult extremes_of(const char* op, bool largest, const Tensor& x, int axis, Where where) {
  const TensorImpl& impl = core::defined(op, x, where);
  const int along = core::normalize_axis(op, axis, impl.rank(), where);
  ExtremeResult result{autograd::result_like(impl, where),
                       autograd::result_like(impl, impl.shape, DType::int64, where)};
  backend_of(impl, where).cumulative_extreme(largest, impl, along, *result.values.impl(), *result.indices.impl());
  autograd::record_choice(op, where, x, along, result.values, result.indices, result.indices);
  return result;
}

}  // namespace

ExtremeResult cummax(const Tensor& x, int axis, Where where) { return extremes_of("cummax", true, x, axis, where); }
ExtremeResult cummin(const Tensor& x, int axis, Where where) { return extremes_of("cummin", false, x, axis, where); }

Tensor diff(const Tensor& x, int order, int axis, Where where) {
  const TensorImpl& impl = core::defined("diff", x, where);
  if (impl.dtype == DType::bool8)
    base::fail<DTypeError>(where, "diff: the tensor is bool; it must be a number type, not bool.");
  const int along = core::normalize_axis("diff", axis, impl.rank(), where);
  if (order < 0) base::fail<ShapeError>(where, "diff: the order is ", order, "; it must be >= 0.");
  const autograd::Rollback rollback;
  Tensor result = x;
  for (int i = 0; i < order && result.shape()[along] > 0; ++i) {
    const std::int64_t rest = result.shape()[along] - 1;
    result = sub(narrow(result, along, 1, rest, where), narrow(result, along, 0, rest, where), where);
  }
  return result;
}

}  // namespace capstan
