#pragma once
// What the differentiable operations share.
#include <capstan/ops/elementwise.hpp>
#include <capstan/ops/reduce.hpp>
#include <capstan/ops/shaping.hpp>

#include "autograd/autocast.hpp"
#include "lib/base/text.hpp"
#include "lib/core/backend.hpp"
#include "lib/core/scalars.hpp"

namespace capstan::autograd {

/// The table that computes on x's device. An operation begins here, as far as its time is concerned.
inline const core::Backend& backend_of(const TensorImpl& x, Where where, const char* op = nullptr) {
  core::note_start();
  return core::backend_of(x.device(), where, op);
}

/// A result of the shape and type given, on x's device.
inline Tensor result_like(const TensorImpl& x, const Shape& shape, DType dtype, Where where) {
  return core::make_tensor(shape, dtype, x.device(), where);
}
inline Tensor result_like(const TensorImpl& x, Where where) { return result_like(x, x.shape, x.dtype, where); }

/// The 16-bit types are computed with in float32.
inline DType computing_type(DType dtype) { return is_half(dtype) ? DType::float32 : dtype; }

/// x, or a contiguous copy; no tape sees it.
Tensor dense(const Tensor& x, Where where);
/// x, or a copy in another type; no tape sees it.
Tensor converted(const Tensor& x, DType dtype, Where where);
/// A shape with another size of one axis.
Shape with_size(const Shape& shape, int axis, std::int64_t size, Where where);
/// Sums x over the axes that broadcasting to x's shape from `shape` has stretched.
Tensor sum_to(const Tensor& x, const Shape& shape, Where where);
/// Stretches a reduced gradient back: `mask` has a bit for each axis that was reduced without keeping it.
Tensor stretch(const Tensor& grad, const Shape& full, unsigned mask, Where where);

void require_floating(const char* op, const TensorImpl& x, Where where);
/// Both converted to the type they promote to.
void promote_operands(Tensor& a, Tensor& b, Where where);

}  // namespace capstan::autograd
