#include <capstan/ops/bilinear.hpp>

#include <capstan/ops/linalg.hpp>
#include <capstan/tape.hpp>

#include "autograd/linalg.hpp"

namespace capstan {

using autograd::Replay;

namespace {

constexpr const char* kOp = "bilinear";

void check_shapes(const Shape& a, const Shape& b, const Shape& w, Where where) {
  if (w.rank() != 3)
    base::fail<ShapeError>(where, kOp, ": the weight is ", w, "; it must have three axes, [out, in1, in2].");
  bool fits = a.rank() > 0 && a.rank() == b.rank() && a[a.rank() - 1] == w[1] && b[b.rank() - 1] == w[2];
  for (int axis = 0; fits && axis < a.rank() - 1; ++axis) fits = a[axis] == b[axis];
  if (!fits)
    base::fail<ShapeError>(where, kOp, ": x1 is ", a, " and x2 is ", b, "; with a weight of ", w,
                           " they must be [..., ", w[1], "] and [..., ", w[2], "] with equal leading axes.");
}

std::int64_t rows_of(const Shape& x) {
  std::int64_t rows = 1;
  for (int axis = 0; axis < x.rank() - 1; ++axis) rows *= x[axis];
  return rows;
}

/// The products of the elements of both inputs, a row of in1*in2 features for each of their rows: the weight, as a
/// matrix, is linear in them. They are made again for the gradient.
Tensor pairs_of(const Tensor& x1, const Tensor& x2, Where where) {
  const std::int64_t rows = rows_of(x1.shape()), in1 = x1.size(-1), in2 = x2.size(-1);
  const Tensor pairs = mul(reshape(x1, {rows, in1, 1}, where), reshape(x2, {rows, 1, in2}, where), where);
  return reshape(pairs, {rows, in1 * in2}, where);
}

Tensor as_matrix(const Tensor& weight, Where where) {
  return reshape(weight, {weight.size(0), weight.size(1) * weight.size(2)}, where);
}

void bilinear_replay(Replay& r) {
  const Where where = r.where();
  const Tensor &x1 = r.saved(0), &x2 = r.saved(1), &weight = r.saved(2);
  const std::int64_t rows = rows_of(x1.shape()), in1 = x1.size(-1), in2 = x2.size(-1);
  const Tensor grad = reshape(r.grad(), {rows, weight.size(0)}, where);
  if (r.needs(0) || r.needs(1)) {
    const Tensor of_pairs = reshape(matmul(grad, as_matrix(weight, where), where), {rows, in1, in2}, where);
    if (r.needs(0)) r.give(0, reshape(matmul(of_pairs, reshape(x2, {rows, in2, 1}, where), where), x1.shape(), where));
    if (r.needs(1)) r.give(1, reshape(matmul(reshape(x1, {rows, 1, in1}, where), of_pairs, where), x2.shape(), where));
  }
  if (r.needs(2))
    r.give(2, reshape(matmul(autograd::turned(grad, where), pairs_of(x1, x2, where), where), weight.shape(), where));
  if (r.needs(3)) r.give(3, sum(grad, 0, {}, where));
}

}  // namespace

Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias, Where where) {
  const TensorImpl &a = core::defined(kOp, x1, where), &b = core::defined(kOp, x2, where),
                   &w = core::defined(kOp, weight, where);
  for (const TensorImpl* x : {&a, &b, &w}) {
    autograd::require_floating(kOp, *x, where);
    core::require_same_device(kOp, a, *x, where);
  }
  check_shapes(a.shape, b.shape, w.shape, where);
  if (bias.defined()) {
    const TensorImpl& c = core::defined(kOp, bias, where);
    autograd::require_floating(kOp, c, where);
    core::require_same_device(kOp, a, c, where);
    if (c.rank() != 1 || c.shape[0] != w.shape[0])
      base::fail<ShapeError>(where, kOp, ": the bias is ", c.shape, " and the weight ", w.shape, "; the bias must be [",
                             w.shape[0], "].");
  }
  DType dtype = promote(promote(a.dtype, b.dtype, where), w.dtype, where);
  if (bias.defined()) dtype = promote(dtype, bias.dtype(where), where);
  dtype = autograd::product_type(dtype);
  const autograd::Rollback rollback;
  const Tensor left = x1.to(dtype, where), right = x2.to(dtype, where), form = weight.to(dtype, where);
  const Tensor added = bias.defined() ? bias.to(dtype, where) : Tensor();
  Tensor out;
  {
    const NoGrad off;
    const Shape result = autograd::with_sizes(a.shape, 1, {w.shape[0]}, where);
    const Tensor matrix = autograd::turned(as_matrix(form, where), where);
    out = reshape(linear(pairs_of(left, right, where), matrix, added, where), result, where);
  }
  autograd::record(kOp, where, &bilinear_replay, {&left, &right, &form, &added}, {&out}, {&left, &right, &form});
  return out;
}

}  // namespace capstan
