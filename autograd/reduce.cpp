#include <capstan/ops/reduce.hpp>

#include <capstan/create.hpp>

#include "autograd/debug_values.hpp"
#include "autograd/places.hpp"
#include "autograd/reducing.hpp"
#include "lib/core/recording.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::computing_type;
using autograd::listening;
using autograd::note;
using autograd::Plan;
using autograd::record;
using autograd::reduce_as;
using autograd::Reduced;
using autograd::refuse_empty;
using autograd::Replay;
using kernels::Reduction;

std::span<const int> Axes::list() const noexcept { return {axes_, static_cast<std::size_t>(count_ < 0 ? 0 : count_)}; }

Axes::Axes(std::initializer_list<int> axes, Where where)
    : Axes(std::span<const int>(axes.begin(), axes.size()), where) {}
Axes::Axes(std::span<const int> axes, Where where) : count_(static_cast<int>(axes.size())) {
  if (axes.size() > kMaxRank)
    base::fail<ShapeError>(where, "Axes: ", axes.size(), " axes were given; a tensor has at most ", kMaxRank, ".");
  int i = 0;
  for (const int axis : axes) axes_[i++] = axis;
}

namespace {

void sum_replay(Replay& r) {
  const Where where = r.where();
  const auto reduced = r.attributes<Reduced>();
  const Tensor grad = reduced.scale == 1 ? r.grad() : autograd::scaled(r.grad(), reduced.scale, where);
  r.give(0, autograd::stretch(grad, reduced.full, reduced.mask, where));
}

/// grad [k, 1] times the product of the other columns, for each column of x [k, n]. Pairs of columns become one, and
/// what the pair gets goes to each of the two with the other as a factor. No division: zeros do no harm.
Tensor times_others(const Tensor& grad, const Tensor& x, Where where) {
  const std::int64_t count = x.size(1), half = count / 2;
  if (count == 1) return grad;
  const Tensor left = narrow(x, 1, 0, half, where), right = narrow(x, 1, half, half, where);
  const Tensor pairs = mul(left, right, where);
  if (count % 2 == 0) {
    const Tensor up = times_others(grad, pairs, where);
    return concat({mul(up, right, where), mul(up, left, where)}, 1, where);
  }
  const Tensor up = times_others(grad, concat({pairs, narrow(x, 1, count - 1, 1, where)}, 1, where), where);
  const Tensor both = narrow(up, 1, 0, half, where);
  return concat({mul(both, right, where), mul(both, left, where), narrow(up, 1, half, 1, where)}, 1, where);
}

void prod_replay(Replay& r) {
  const Where where = r.where();
  const Tensor& x = r.saved(0);
  if (x.numel() == 0) {
    r.give(0, zeros_like(x, where));
    return;
  }
  // the reduced axes behind the others, and each kind made one
  const unsigned mask = r.attributes<Reduced>().mask;
  const auto rank = static_cast<std::size_t>(x.rank());
  int order[kMaxRank], back[kMaxRank], at = 0;
  std::int64_t sizes[kMaxRank];
  for (const unsigned reduced : {0u, 1u})
    for (int axis = 0; axis < x.rank(); ++axis)
      if ((mask >> axis & 1u) == reduced) sizes[at] = x.shape()[axis], back[axis] = at, order[at++] = axis;
  const std::int64_t rows = r.grad().numel();
  const Tensor grad = reshape(r.grad(), {rows, 1}, where);
  const Tensor flat = reshape(permute(x, std::span<const int>(order, rank), where), {rows, x.numel() / rows}, where);
  Tensor result;
  if (listening()) {
    const DType wide = DType::float64;  // pairs leave the range of other types, though the product of all does not
    result = times_others(grad.to(wide, where), flat.to(wide, where), where).to(x.dtype(), where);
  } else {
    const Tensor dense_grad = autograd::dense(grad, where), dense_x = autograd::dense(flat, where);
    result = autograd::result_like(*dense_x.impl(), where);
    backend_of(*dense_x.impl(), where).prod_backward(*dense_grad.impl(), *dense_x.impl(), *result.impl());
  }
  const Shape turned(std::span<const std::int64_t>(sizes, rank), where);
  r.give(0, permute(reshape(result, turned, where), std::span<const int>(back, rank), where));
}

/// Whether some result may be NaN: false only if that is known without waiting, and will stay so.
bool may_be_nan(const Tensor& y, Where where) {
  if (!is_floating(y.dtype())) return false;
  const bool known = core::recording() == nullptr && autograd::host_looks(*y.impl());
  return !known || autograd::has_bad(y, autograd::Bad::nan, where);
}

void extreme_replay(Replay& r) {
  const Where where = r.where();
  const auto reduced = r.attributes<Reduced>();
  const Tensor &x = r.saved(0), y = autograd::stretch(r.saved(1), reduced.full, reduced.mask, where);
  const DType wide = computing_type(x.dtype());  // of which float16 counts no more than 65,504
  const Tensor best =
      cast(may_be_nan(r.saved(1), where) ? autograd::hits(x, y, where) : equal(x, y, where), wide, where);
  const Tensor count = autograd::sum_to(
      best,
      [&] {
        std::int64_t sizes[kMaxRank];
        for (int axis = 0; axis < x.rank(); ++axis) sizes[axis] = reduced.mask >> axis & 1u ? 1 : reduced.full[axis];
        return Shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(x.rank())), where);
      }(),
      where);
  const Tensor share = div(best, count, where).to(x.dtype(), where);
  r.give(0, mul(autograd::stretch(r.grad(), reduced.full, reduced.mask, where), share, where));
}

void refuse_bool(const char* op, const TensorImpl& x, Where where) {
  if (x.dtype == DType::bool8)
    base::fail<DTypeError>(where, op, ": the tensor is bool; it must be a number type, not bool.");
}

Tensor extreme(const char* op, Reduction kind, const Tensor& x, const Axes& axes, ReduceOptions options, Where where) {
  const TensorImpl& impl = core::defined(op, x, where);
  refuse_bool(op, impl, where);
  const Plan plan(op, impl, axes, options, where);
  refuse_empty(op, impl, plan, where);
  Tensor out = reduce_as(kind, impl, plan, impl.dtype, where);
  record(op, where, &extreme_replay, {&x}, {&out}, {&x, &out}, Reduced{impl.shape, plan.mask, 1});
  return out;
}

Tensor question(const char* op, Reduction kind, const Tensor& x, const Axes& axes, ReduceOptions options, Where where) {
  const TensorImpl& impl = core::defined(op, x, where);
  if (impl.dtype != DType::bool8)
    base::fail<DTypeError>(where, op, ": the tensor is ", impl.dtype, "; it must be bool.");
  const Tensor out = reduce_as(kind, impl, Plan(op, impl, axes, options, where), DType::bool8, where);
  note(op, where, {&x}, {&out});
  return out;
}

}  // namespace

Tensor sum(const Tensor& x, Axes axes, ReduceOptions options, Where where) {
  if (autograd::raises(x)) [[unlikely]]
    return autograd::raised(&sum, where, x, axes, options);
  const TensorImpl& impl = core::defined("sum", x, where);
  const Plan plan("sum", impl, axes, options, where);
  Tensor out = reduce_as(Reduction::sum, impl, plan, is_floating(impl.dtype) ? impl.dtype : DType::int64, where);
  if (is_floating(impl.dtype)) record("sum", where, &sum_replay, {&x}, {&out}, {}, Reduced{impl.shape, plan.mask, 1});
  else note("sum", where, {&x}, {&out});
  return out;
}

Tensor prod(const Tensor& x, Axes axes, ReduceOptions options, Where where) {
  if (autograd::raises(x)) [[unlikely]]
    return autograd::raised(&prod, where, x, axes, options);
  const TensorImpl& impl = core::defined("prod", x, where);
  const Plan plan("prod", impl, axes, options, where);
  Tensor out = reduce_as(Reduction::prod, impl, plan, is_floating(impl.dtype) ? impl.dtype : DType::int64, where);
  if (is_floating(impl.dtype))
    record("prod", where, &prod_replay, {&x}, {&out}, {&x}, Reduced{impl.shape, plan.mask, 1});
  else note("prod", where, {&x}, {&out});
  return out;
}

Tensor mean(const Tensor& x, Axes axes, ReduceOptions options, Where where) {
  if (autograd::raises(x)) [[unlikely]]
    return autograd::raised(&mean, where, x, axes, options);
  const TensorImpl& impl = core::defined("mean", x, where);
  autograd::require_floating("mean", impl, where);
  const Plan plan("mean", impl, axes, options, where);
  refuse_empty("mean", impl, plan, where);
  const DType wide = is_half(impl.dtype) ? DType::float32 : impl.dtype;  // the sum may be too large for 16 bits
  Tensor out = reduce_as(Reduction::sum, impl, plan, wide, where);
  const double scale = 1 / static_cast<double>(plan.count);
  const Tensor count = core::number_tensor("mean", static_cast<double>(plan.count), wide, impl.device(), where);
  const core::Backend& backend = backend_of(impl, where);
  backend.binary(kernels::kBinaryId<kernels::Div>, *out.impl(), *count.impl(), *out.impl());
  if (wide != impl.dtype) {
    const Tensor sums = std::exchange(out, autograd::result_like(impl, plan.result, impl.dtype, where));
    backend.copy(*sums.impl(), *out.impl());
  }
  record("mean", where, &sum_replay, {&x}, {&out}, {}, Reduced{impl.shape, plan.mask, scale});
  return out;
}

Tensor max(const Tensor& x, Axes axes, ReduceOptions options, Where where) {
  return extreme("max", Reduction::max, x, axes, options, where);
}
Tensor min(const Tensor& x, Axes axes, ReduceOptions options, Where where) {
  return extreme("min", Reduction::min, x, axes, options, where);
}
Tensor all_of(const Tensor& x, Axes axes, ReduceOptions options, Where where) {
  return question("all_of", Reduction::all, x, axes, options, where);
}
Tensor any_of(const Tensor& x, Axes axes, ReduceOptions options, Where where) {
  return question("any_of", Reduction::any, x, axes, options, where);
}

namespace {

Tensor place_of_extreme(const char* op, bool largest, const Tensor& x, int axis, ReduceOptions options, Where where) {
  const TensorImpl& impl = core::defined(op, x, where);
  refuse_bool(op, impl, where);
  const int along = core::normalize_axis(op, axis, impl.rank(), where);
  const Plan plan(op, impl, along, options, where);
  refuse_empty(op, impl, plan, where);
  Tensor out = autograd::result_like(impl, plan.result, DType::int64, where);
  const core::Backend& backend = backend_of(impl, where);
  (largest ? backend.argmax : backend.argmin)(impl, along, *out.impl());
  note(op, where, {&x}, {&out});
  return out;
}

Tensor place_in_all(const char* op, bool largest, const Tensor& x, Where where) {
  const TensorImpl& impl = core::defined(op, x, where);
  refuse_empty(op, impl, Plan(op, impl, {}, {}, where), where);
  refuse_bool(op, impl, where);
  const Tensor packed = autograd::dense(x, where);
  const std::int64_t sizes[] = {impl.numel()}, strides[] = {1};
  const Tensor flat = core::make_view(*packed.impl(), Shape(sizes, where), strides, 0, where);
  Tensor out = autograd::result_like(impl, Shape(), DType::int64, where);
  const core::Backend& backend = backend_of(impl, where);
  (largest ? backend.argmax : backend.argmin)(*flat.impl(), 0, *out.impl());
  note(op, where, {&x}, {&out});
  return out;
}

}  // namespace

Tensor argmax(const Tensor& x, int axis, ReduceOptions options, Where where) {
  return place_of_extreme("argmax", true, x, axis, options, where);
}
Tensor argmax(const Tensor& x, Where where) { return place_in_all("argmax", true, x, where); }
Tensor argmin(const Tensor& x, int axis, ReduceOptions options, Where where) {
  return place_of_extreme("argmin", false, x, axis, options, where);
}
Tensor argmin(const Tensor& x, Where where) { return place_in_all("argmin", false, x, where); }

// --- along the last axis, through a kernel for rows ---

namespace {

/// The reduced axes moved behind the others and made one, so that each reduction is one row.
struct Rows {
  Tensor rows;
  Plan plan;

  Rows(const char* op, const Tensor& x, const Axes& axes, ReduceOptions options, Where where)
      : plan(op, core::defined(op, x, where), axes, options, where) {
    std::int64_t strides[kMaxRank], sizes[kMaxRank];
    std::size_t at = 0;
    const TensorImpl& impl = *x.impl();
    for (const bool reduced : {false, true})
      for (int axis = 0; axis < impl.rank(); ++axis)
        if ((plan.mask >> axis & 1u) == reduced) sizes[at] = impl.shape[axis], strides[at++] = impl.strides[axis];
    const Tensor view =
        core::make_view(impl, Shape(std::span<const std::int64_t>(sizes, at), where), strides, 0, where);
    const Tensor packed = autograd::dense(view, where);
    const std::int64_t flat_shape[] = {plan.kept.numel(), plan.count};
    const std::int64_t flat_strides[] = {plan.count, 1};
    rows = core::make_view(*packed.impl(), Shape(flat_shape, where), flat_strides, 0, where);
  }
};

void softmax_replay(Replay& r, bool log) {
  const Where where = r.where();
  const DType dtype = r.saved(0).dtype(), wide = autograd::computing_type(dtype);
  if (!listening()) {
    const Tensor g = autograd::dense(r.grad(), where);
    const Tensor& y = r.saved(0);
    Tensor out = autograd::result_like(*y.impl(), where);
    backend_of(*y.impl(), where).softmax_backward(log, *g.impl(), *y.impl(), *out.impl());
    return r.give(0, std::move(out));
  }
  const Tensor y = r.saved(0).to(wide, where), grad = r.grad().to(wide, where);
  const Tensor total = sum(log ? grad : mul(grad, y, where), -1, {.keepdims = true}, where);
  const Tensor given =
      log ? sub(grad, mul(exp(y, where), total, where), where) : mul(y, sub(grad, total, where), where);
  r.give(0, given.to(dtype, where));
}

Tensor softmax_of(const char* op, bool log, const Tensor& x, int axis, Where where) {
  if (autograd::raises(x)) [[unlikely]]
    return autograd::raised(&softmax_of, where, op, log, x, axis);
  const TensorImpl& impl = core::defined(op, x, where);
  autograd::require_floating(op, impl, where);
  const int along = core::normalize_axis(op, axis, impl.rank(), where);
  const autograd::Rollback rollback;
  if (along != impl.rank() - 1)
    return transpose(softmax_of(op, log, transpose(x, along, -1, where), -1, where), along, -1, where);
  const Tensor rows = autograd::dense(x, where);
  Tensor out = autograd::result_like(impl, where);
  backend_of(impl, where).softmax(log, *rows.impl(), *out.impl());
  record(op, where, log ? +[](Replay& r) { softmax_replay(r, true); } : +[](Replay& r) { softmax_replay(r, false); },
         {&x}, {&out}, {&out});
  return out;
}

}  // namespace

Tensor softmax(const Tensor& x, int axis, Where where) { return softmax_of("softmax", false, x, axis, where); }
Tensor log_softmax(const Tensor& x, int axis, Where where) { return softmax_of("log_softmax", true, x, axis, where); }

namespace {

/// exp(x - y), each element's share in the sum that y, stretched, is the logarithm of.
Tensor shares(const Tensor& x, const Tensor& y, const autograd::Reduced& reduced, Where where) {
  // where all are -inf, x - y would be NaN; x - 0 gives each the share 0
  const Tensor finite = capstan::where(equal(y, -__builtin_inf(), where), 0, y, where);
  return exp(sub(x, autograd::stretch(finite, reduced.full, reduced.mask, where), where), where);
}

void logsumexp_replay(Replay& r) {
  const auto reduced = r.attributes<autograd::Reduced>();
  const Where where = r.where();
  const auto stretched = [&](const Tensor& t) { return autograd::stretch(t, reduced.full, reduced.mask, where); };
  const Tensor &x = r.saved(0), &y = r.saved(1), &grad = r.grad();
  if (!is_half(x.dtype())) return r.give(0, mul(stretched(grad), shares(x, y, reduced, where), where));
  // y of 16 bits is too coarse for differences: it is found anew
  int axes[kMaxRank];
  std::size_t count = 0;
  for (int axis = 0; axis < reduced.full.rank(); ++axis)
    if (reduced.mask >> axis & 1u) axes[count++] = axis;
  const Axes over(std::span<const int>(axes, count), where);
  const Tensor wide = x.to(DType::float32, where);
  const Tensor parts = shares(wide, logsumexp(wide, over, {}, where), reduced, where);
  r.give(0, mul(stretched(grad.to(DType::float32, where)), parts, where).to(x.dtype(), where));
}

}  // namespace

Tensor logsumexp(const Tensor& x, Axes axes, ReduceOptions options, Where where) {
  if (autograd::raises(x)) [[unlikely]]
    return autograd::raised(&logsumexp, where, x, axes, options);
  const TensorImpl& impl = core::defined("logsumexp", x, where);
  autograd::require_floating("logsumexp", impl, where);
  const Rows rows("logsumexp", x, axes, options, where);
  Tensor out = autograd::result_like(impl, rows.plan.result, impl.dtype, where);
  if (rows.plan.count == 0) backend_of(impl, where).fill(*out.impl(), -__builtin_inf());
  else backend_of(impl, where).logsumexp(*rows.rows.impl(), *out.impl());
  record("logsumexp", where, &logsumexp_replay, {&x}, {&out}, {&x, &out}, Reduced{impl.shape, rows.plan.mask, 1});
  return out;
}

}  // namespace capstan
