#include <capstan/ops/reduce.hpp>

#include "autograd/ops.hpp"
#include "lib/core/dispatch.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::listening;
using autograd::record;
using autograd::Replay;
using kernels::Reduction;

Axes::Axes(std::initializer_list<int> axes, Where where)
    : Axes(std::span<const int>(axes.begin(), axes.size()), where) {}
Axes::Axes(std::span<const int> axes, Where where) : count_(static_cast<int>(axes.size())) {
  if (axes.size() > kMaxRank)
    base::fail<ShapeError>(where, "Axes: ", axes.size(), " axes were given; a tensor has at most ", kMaxRank, ".");
  int i = 0;
  for (const int axis : axes) axes_[i++] = axis;
}

namespace {

/// Which axes go, and the shapes of the result with and without them.
struct Plan {
  unsigned mask = 0;
  std::int64_t count = 1;  // elements that become one
  Shape kept, result;      // result: with axes of size 1 if keepdims

  Plan(const char* op, const TensorImpl& x, const Axes& axes, ReduceOptions options, Where where) {
    if (axes.every()) mask = (1u << x.rank()) - 1;
    for (const int axis : axes.list()) {
      const unsigned bit = 1u << core::normalize_axis(op, axis, x.rank(), where);
      if (mask & bit)
        base::fail<ShapeError>(where, op, ": axis ", axis, " is named twice for shape ", x.shape, "; name each once.");
      mask |= bit;
    }
    std::int64_t kept_sizes[kMaxRank], result_sizes[kMaxRank];
    std::size_t k = 0, r = 0;
    for (int axis = 0; axis < x.rank(); ++axis) {
      const bool reduced = (mask >> axis & 1u) != 0;
      if (reduced) count *= x.shape[axis];
      else kept_sizes[k++] = x.shape[axis];
      if (!reduced || options.keepdims) result_sizes[r++] = reduced ? 1 : x.shape[axis];
    }
    kept = Shape(std::span<const std::int64_t>(kept_sizes, k), where);
    result = Shape(std::span<const std::int64_t>(result_sizes, r), where);
  }
};

/// What a reduction's replay must know.
struct Reduced {
  Shape full;
  unsigned mask;
  double scale;
};

Tensor reduce_as(Reduction kind, const TensorImpl& x, const Plan& plan, DType dtype, Where where) {
  Tensor out = autograd::result_like(x, plan.result, dtype, where);
  backend_of(x, where).reduce(kind, x, plan.mask, *out.impl());
  return out;
}

void refuse_empty(const char* op, const TensorImpl& x, const Plan& plan, Where where) {
  if (plan.count == 0)
    base::fail<ShapeError>(where, op, ": shape ", x.shape,
                           " has no elements to reduce; each reduced axis must have size 1 or more.");
}

void sum_replay(Replay& r) {
  const auto reduced = r.attributes<Reduced>();
  const Tensor grad = reduced.scale == 1 ? r.grad() : mul(r.grad(), reduced.scale, r.where());
  r.give(0, autograd::stretch(grad, reduced.full, reduced.mask, r.where()));
}

void extreme_replay(Replay& r) {
  const Where where = r.where();
  const auto reduced = r.attributes<Reduced>();
  const Tensor &x = r.saved(0), y = autograd::stretch(r.saved(1), reduced.full, reduced.mask, where);
  const Tensor best = cast(equal(x, y, where), x.dtype(), where);
  const Tensor count = autograd::sum_to(
      best,
      [&] {
        std::int64_t sizes[kMaxRank];
        for (int axis = 0; axis < x.rank(); ++axis) sizes[axis] = reduced.mask >> axis & 1u ? 1 : reduced.full[axis];
        return Shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(x.rank())), where);
      }(),
      where);
  r.give(0, mul(autograd::stretch(r.grad(), reduced.full, reduced.mask, where), div(best, count, where), where));
}

Tensor extreme(const char* op, Reduction kind, const Tensor& x, const Axes& axes, ReduceOptions options, Where where) {
  const TensorImpl& impl = core::defined(op, x, where);
  if (impl.dtype == DType::bool8)
    base::fail<DTypeError>(where, op, ": the tensor is bool; it must be a number type, not bool.");
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
  return reduce_as(kind, impl, Plan(op, impl, axes, options, where), DType::bool8, where);
}

}  // namespace

Tensor sum(const Tensor& x, Axes axes, ReduceOptions options, Where where) {
  const TensorImpl& impl = core::defined("sum", x, where);
  const Plan plan("sum", impl, axes, options, where);
  Tensor out = reduce_as(Reduction::sum, impl, plan, is_floating(impl.dtype) ? impl.dtype : DType::int64, where);
  if (is_floating(impl.dtype)) record("sum", where, &sum_replay, {&x}, {&out}, {}, Reduced{impl.shape, plan.mask, 1});
  return out;
}

Tensor mean(const Tensor& x, Axes axes, ReduceOptions options, Where where) {
  const TensorImpl& impl = core::defined("mean", x, where);
  autograd::require_floating("mean", impl, where);
  const Plan plan("mean", impl, axes, options, where);
  refuse_empty("mean", impl, plan, where);
  Tensor out = reduce_as(Reduction::sum, impl, plan, impl.dtype, where);
  const double scale = 1 / static_cast<double>(plan.count);
  const Tensor count = core::scalar_tensor("mean", static_cast<double>(plan.count), impl.dtype, impl.device(), where);
  backend_of(impl, where).binary(kernels::kBinaryId<kernels::Div>, *out.impl(), *count.impl(), *out.impl());
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

Tensor argmax(const Tensor& x, int axis, ReduceOptions options, Where where) {
  const TensorImpl& impl = core::defined("argmax", x, where);
  if (impl.dtype == DType::bool8)
    base::fail<DTypeError>(where, "argmax: the tensor is bool; it must be a number type, not bool.");
  const int along = core::normalize_axis("argmax", axis, impl.rank(), where);
  const Plan plan("argmax", impl, along, options, where);
  refuse_empty("argmax", impl, plan, where);
  Tensor out = autograd::result_like(impl, plan.result, DType::int64, where);
  backend_of(impl, where).argmax(impl, along, *out.impl());
  return out;
}

Tensor argmax(const Tensor& x, Where where) {
  const TensorImpl& impl = core::defined("argmax", x, where);
  refuse_empty("argmax", impl, Plan("argmax", impl, {}, {}, where), where);
  return argmax(reshape(stop_gradient(x, where), {-1}, where), 0, {}, where);
}

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
  const Tensor &y = r.saved(0), &grad = r.grad();
  if (!listening()) {
    const Tensor g = autograd::dense(grad, where);
    Tensor out = autograd::result_like(*y.impl(), where);
    backend_of(*y.impl(), where).softmax_backward(log, *g.impl(), *y.impl(), *out.impl());
    r.give(0, std::move(out));
  } else if (log) {
    r.give(0, sub(grad, mul(exp(y, where), sum(grad, -1, {.keepdims = true}, where), where), where));
  } else {
    r.give(0, mul(y, sub(grad, sum(mul(grad, y, where), -1, {.keepdims = true}, where), where), where));
  }
}

Tensor softmax_of(const char* op, bool log, const Tensor& x, int axis, Where where) {
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

Tensor logsumexp(const Tensor& x, Axes axes, ReduceOptions options, Where where) {
  const TensorImpl& impl = core::defined("logsumexp", x, where);
  autograd::require_floating("logsumexp", impl, where);
  const Rows rows("logsumexp", x, axes, options, where);
  Tensor out = autograd::result_like(impl, rows.plan.result, impl.dtype, where);
  if (rows.plan.count == 0) backend_of(impl, where).fill(*out.impl(), -__builtin_inf());
  else backend_of(impl, where).logsumexp(*rows.rows.impl(), *out.impl());
  record(
      "logsumexp", where,
      [](Replay& r) {
        const auto reduced = r.attributes<Reduced>();
        const Tensor y = autograd::stretch(r.saved(1), reduced.full, reduced.mask, r.where());
        r.give(0, mul(autograd::stretch(r.grad(), reduced.full, reduced.mask, r.where()),
                      exp(sub(r.saved(0), y, r.where()), r.where()), r.where()));
      },
      {&x}, {&out}, {&x, &out}, Reduced{impl.shape, rows.plan.mask, 1});
  return out;
}

}  // namespace capstan
