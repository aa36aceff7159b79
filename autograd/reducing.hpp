#pragma once
// What reductions share before they compute: the axes and the shapes.
#include "autograd/ops.hpp"

namespace capstan::autograd {

/// A bit for each of the axes. Throws IndexError, ShapeError for one that is named twice.
inline unsigned mask_of(const char* op, const TensorImpl& x, const Axes& axes, Where where) {
  if (axes.every()) return (1u << x.rank()) - 1;
  unsigned mask = 0;
  for (const int axis : axes.list()) {
    const unsigned bit = 1u << core::normalize_axis(op, axis, x.rank(), where);
    if (mask & bit)
      base::fail<ShapeError>(where, op, ": axis ", axis, " is named twice for shape ", x.shape, "; name each once.");
    mask |= bit;
  }
  return mask;
}

/// Which axes go, and the shapes of the result with and without them.
struct Plan {
  unsigned mask;
  std::int64_t count = 1;  // elements that become one
  Shape kept, result;      // result: with axes of size 1 if keepdims

  Plan(const char* op, const TensorImpl& x, const Axes& axes, ReduceOptions options, Where where)
      : mask(mask_of(op, x, axes, where)) {
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

inline Tensor reduce_as(kernels::Reduction kind, const TensorImpl& x, const Plan& plan, DType dtype, Where where) {
  Tensor out = result_like(x, plan.result, dtype, where);
  backend_of(x, where).reduce(kind, x, plan.mask, *out.impl());
  return out;
}

/// The largest or smallest of all elements; no tape sees it.
inline double extreme_of(kernels::Reduction kind, const TensorImpl& x, Where where) {
  const Tensor result = result_like(x, Shape(), x.dtype, where);
  backend_of(x, where).reduce(kind, x, (1u << x.rank()) - 1, *result.impl());
  return converted(result, DType::float64, where).item<double>(where);
}

inline void refuse_empty(const char* op, const TensorImpl& x, const Plan& plan, Where where) {
  if (plan.count == 0)
    base::fail<ShapeError>(where, op, ": shape ", x.shape,
                           " has no elements to reduce; each reduced axis must have size 1 or more.");
}

/// grad * scale, where the scale may be too small for a 16-bit type.
inline Tensor scaled(const Tensor& grad, double scale, Where where) {
  const DType dtype = grad.dtype();
  return mul(grad.to(is_half(dtype) ? DType::float32 : dtype, where), scale, where).to(dtype, where);
}

}  // namespace capstan::autograd
