#include <capstan/ops/normalization.hpp>

#include "autograd/normalizing.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::dense;
using autograd::dense_or_none;
using autograd::Replay;
using autograd::Standardized;

namespace {

/// What a replay must know besides what is saved: x, weight, mean and inverse.
struct RowNorm {
  double epsilon;
  int axes;
  bool centered;
  DType bias;  // its type
};

/// The first `rank` sizes, or the last if negative.
Shape some_sizes(const Shape& shape, int rank, Where where) {
  const auto count = static_cast<std::size_t>(rank < 0 ? -rank : rank);
  return Shape(std::span<const std::int64_t>(rank < 0 ? shape.end() + rank : shape.begin(), count), where);
}

int check_axes(const char* op, const TensorImpl& x, const LastAxes& axes, Where where) {
  if (axes.count() < 1 || axes.count() > x.rank()) {
    if (axes.sizes() != nullptr)
      base::fail<ShapeError>(where, op, ": the sizes are ", *axes.sizes(), " and x is ", x.shape,
                             "; they must be the last sizes of x, one or more.");
    base::fail<ShapeError>(where, op, ": ", axes.count(), " axes were asked for and x is ", x.shape,
                           "; there must be 1 or more, and not more than x has.");
  }
  const auto count = static_cast<int>(axes.count());
  if (axes.sizes() != nullptr && some_sizes(x.shape, -count, where) != *axes.sizes())
    base::fail<ShapeError>(where, op, ": the sizes are ", *axes.sizes(), " and x is ", x.shape,
                           "; they must be the last sizes of x, one or more.");
  return count;
}

void row_norm_in_public(Replay& r, const RowNorm& norm) {
  const Where where = r.where();
  const Tensor &x = r.saved(0), &weight = r.saved(1);
  const DType type = autograd::computing_type(x.dtype());
  const Standardized rows(x.to(type, where), autograd::last_axes(norm.axes, where), norm.epsilon, norm.centered, where);
  const Tensor grad = r.grad().to(type, where);
  const Shape sizes = some_sizes(x.shape(), -norm.axes, where);
  if (r.needs(0)) {
    const Tensor through = weight.defined() ? mul(grad, weight.to(type, where), where) : grad;
    r.give(0, rows.back(through, where).to(x.dtype(), where));
  }
  if (r.needs(1)) r.give(1, autograd::sum_to(mul(grad, rows.value, where), sizes, where).to(weight.dtype(), where));
  if (r.needs(2)) r.give(2, autograd::sum_to(grad, sizes, where).to(norm.bias, where));
}

void row_norm_replay(Replay& r) {
  const Where where = r.where();
  const auto norm = r.attributes<RowNorm>();
  if (autograd::listening() && r.saved(0).numel() > 0) return row_norm_in_public(r, norm);
  const Tensor x = dense(r.saved(0), where), grad = dense(r.grad(), where), weight = dense_or_none(r.saved(1), where);
  Tensor dx = r.needs(0) ? autograd::result_like(*x.impl(), where) : Tensor();
  Tensor dweight = r.needs(1) ? autograd::result_like(*weight.impl(), where) : Tensor();
  Tensor dbias;
  if (r.needs(2)) dbias = autograd::result_like(*x.impl(), some_sizes(x.shape(), -norm.axes, where), norm.bias, where);
  backend_of(*x.impl(), where)
      .layer_norm_backward(*grad.impl(), *x.impl(), weight.impl(), r.saved(2).impl(), *r.saved(3).impl(), dx.impl(),
                           dweight.impl(), dbias.impl());
  if (r.needs(0)) r.give(0, std::move(dx));
  if (r.needs(1)) r.give(1, std::move(dweight));
  if (r.needs(2)) r.give(2, std::move(dbias));
}

Tensor row_norm(const char* op, bool centered, const Tensor& x, const LastAxes& axes, const Tensor& weight,
                const Tensor& bias, double epsilon, Where where) {
  if (autograd::raises(x, weight, bias)) [[unlikely]]
    return autograd::raised(&row_norm, where, op, centered, x, axes, weight, bias, epsilon);
  const TensorImpl& impl = core::defined(op, x, where);
  autograd::require_floating(op, impl, where);
  const int count = check_axes(op, impl, axes, where);
  autograd::check_epsilon(op, epsilon, where);
  const Shape sizes = some_sizes(impl.shape, -count, where), rows = some_sizes(impl.shape, impl.rank() - count, where);
  autograd::check_beside(op, "weight", weight, impl, sizes, where);
  autograd::check_beside(op, "bias", bias, impl, sizes, where);
  const Tensor in = dense(x, where), w = dense_or_none(weight, where), b = dense_or_none(bias, where);
  const DType type = autograd::computing_type(impl.dtype);
  Tensor out = autograd::result_like(impl, where);
  const Tensor mean = centered ? autograd::result_like(impl, rows, type, where) : Tensor();
  const Tensor inverse = autograd::result_like(impl, rows, type, where);
  backend_of(impl, where)
      .layer_norm(*in.impl(), w.impl(), b.impl(), epsilon, *out.impl(), mean.impl(), *inverse.impl());
  autograd::record(op, where, &row_norm_replay, {&x, &weight, &bias}, {&out}, {&x, &weight, &mean, &inverse},
                   RowNorm{epsilon, count, centered, autograd::type_or_any(bias)});
  return out;
}

}  // namespace

Tensor layer_norm(const Tensor& x, const LastAxes& axes, const Tensor& weight, const Tensor& bias, double epsilon,
                  Where where) {
  return row_norm("layer_norm", true, x, axes, weight, bias, epsilon, where);
}

Tensor rms_norm(const Tensor& x, const LastAxes& axes, const Tensor& weight, double epsilon, Where where) {
  return row_norm("rms_norm", false, x, axes, weight, Tensor(), epsilon, where);
}

}  // namespace capstan
