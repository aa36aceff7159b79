// Norms of vectors and matrices.
#include <cmath>

#include <capstan/ops/decompose.hpp>
#include <capstan/ops/linalg.hpp>

#include "autograd/linalg.hpp"
#include "autograd/reducing.hpp"

namespace capstan {

using autograd::Replay;

namespace {

struct Norm {
  Shape full;
  unsigned mask;
  double order;
};

/// g * sign(x) * (|x| / y)^(order-1), without a division by 0. The powers of x and y alone may overflow.
void norm_replay(Replay& r) {
  const Where where = r.where();
  const auto norm = r.attributes<Norm>();
  const auto spread = [&](const Tensor& t) { return autograd::stretch(t, norm.full, norm.mask, where); };
  const Tensor &x = r.saved(0), &y = r.saved(1);
  const Tensor no_norm = equal(y, 0, where), divisor = capstan::where(no_norm, 1, y, where);
  if (norm.order == 2) {
    const Tensor direction = div(x, spread(divisor), where);  // where grad / y may be infinite
    r.give(0, mul(direction, spread(capstan::where(no_norm, 0, r.grad(), where)), where));
    return;
  }
  const Tensor none = logical_or(equal(x, 0, where), spread(no_norm), where);
  const Tensor ratio = capstan::where(none, 1, div(abs(x, where), spread(divisor), where), where);
  const Tensor slope = mul(sign(x, where), pow(ratio, norm.order - 1, where), where);
  r.give(0, mul(spread(r.grad()), capstan::where(none, 0, slope, where), where));
}

/// An order that is neither infinite nor 0 or 1.
Tensor power_norm(const Tensor& x, double order, const autograd::Plan& plan, const Axes& axes, ReduceOptions options,
                  Where where) {
  Tensor out;
  if (order == 2) {
    out = autograd::reduce_as(kernels::Reduction::norm, *x.impl(), plan, x.dtype(), where);
  } else {
    const NoGrad off;
    out = pow(sum(pow(abs(x, where), order, where), axes, options, where), 1 / order, where);
  }
  autograd::record("vector_norm", where, &norm_replay, {&x}, {&out}, {&x, &out}, Norm{x.shape(), plan.mask, order});
  return out;
}

}  // namespace

Tensor vector_norm(const Tensor& x, double order, Axes axes, ReduceOptions options, Where where) {
  if (autograd::raises(x)) [[unlikely]]
    return autograd::raised(&vector_norm, where, x, order, axes, options);
  const TensorImpl& impl = core::defined("vector_norm", x, where);
  autograd::require_floating("vector_norm", impl, where);
  const autograd::Plan plan("vector_norm", impl, axes, options, where);
  if (std::isnan(order)) base::fail<Error>(where, "vector_norm: the order is nan; it must be a number.");
  if (std::isinf(order)) autograd::refuse_empty("vector_norm", impl, plan, where);
  const autograd::Rollback rollback;
  const Tensor wide = x.to(autograd::computing_type(impl.dtype), where);
  Tensor out;
  if (std::isinf(order))
    out = order > 0 ? max(abs(wide, where), axes, options, where) : min(abs(wide, where), axes, options, where);
  else if (order == 0) out = sum(cast(not_equal(wide, 0, where), wide.dtype(), where), axes, options, where);
  else if (order == 1) out = sum(abs(wide, where), axes, options, where);
  else out = power_norm(wide, order, plan, axes, options, where);
  return out.to(impl.dtype, where);
}

Tensor matrix_norm(const Tensor& x, MatrixNorm order, ReduceOptions options, Where where) {
  if (autograd::raises(x)) [[unlikely]]
    return autograd::raised(&matrix_norm, where, x, order, options);
  const TensorImpl& impl = core::defined("matrix_norm", x, where);
  autograd::require_floating("matrix_norm", impl, where);
  autograd::require_matrices("matrix_norm", impl, where);
  if (order == MatrixNorm::frobenius) return vector_norm(x, 2, {-2, -1}, options, where);
  const autograd::Rollback rollback;
  const bool columns = order == MatrixNorm::one || order == MatrixNorm::minus_one;
  const bool rows = order == MatrixNorm::infinity || order == MatrixNorm::minus_infinity;
  const bool smallest =
      order == MatrixNorm::minus_one || order == MatrixNorm::minus_two || order == MatrixNorm::minus_infinity;
  const Tensor values = columns || rows ? sum(abs(x, where), columns ? -2 : -1, {}, where) : svdvals(x, where);
  if (order != MatrixNorm::nuclear && values.shape()[values.rank() - 1] == 0)
    base::fail<ShapeError>(where, "matrix_norm: shape ", impl.shape,
                           " leaves nothing to choose from; the matrices must have elements.");
  Tensor out = order == MatrixNorm::nuclear ? sum(values, -1, {}, where)
               : smallest                   ? min(values, -1, {}, where)
                                            : max(values, -1, {}, where);
  if (options.keepdims) out = expand_dims(expand_dims(out, -1, where), -1, where);
  return out;
}

}  // namespace capstan
