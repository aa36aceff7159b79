#include "autograd/ops.hpp"

namespace capstan::autograd {

Tensor dense(const Tensor& x, Where where) {
  const TensorImpl& impl = *x.impl();
  if (impl.contiguous) return x;
  Tensor result = result_like(impl, where);
  backend_of(impl, where).copy(impl, *result.impl());
  return result;
}

Tensor converted(const Tensor& x, DType dtype, Where where) {
  const TensorImpl& impl = *x.impl();
  if (impl.dtype == dtype) return x;
  Tensor result = result_like(impl, impl.shape, dtype, where);
  backend_of(impl, where).copy(impl, *result.impl());
  return result;
}

Shape with_size(const Shape& shape, int axis, std::int64_t size, Where where) {
  std::int64_t sizes[kMaxRank];
  for (int i = 0; i < shape.rank(); ++i) sizes[i] = i == axis ? size : shape[i];
  return Shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(shape.rank())), where);
}

Tensor sum_to(const Tensor& x, const Shape& shape, Where where) {
  if (x.shape() == shape) return x;
  int axes[kMaxRank];
  int count = 0;
  const int extra = x.rank() - shape.rank();
  for (int axis = 0; axis < x.rank(); ++axis)
    if (axis < extra || (shape[axis - extra] == 1 && x.shape()[axis] != 1)) axes[count++] = axis;
  Tensor sums = count > 1 ? x.to(computing_type(x.dtype()), where) : x;  // 16-bit types round once
  for (int i = count - 1; i >= 0; --i) sums = sum(sums, axes[i], {.keepdims = axes[i] >= extra}, where);
  return sums.to(x.dtype(), where);
}

Tensor stretch(const Tensor& grad, const Shape& full, unsigned mask, Where where) {
  std::int64_t sizes[kMaxRank];
  int kept = 0;
  const bool keeps = grad.rank() == full.rank();
  for (int axis = 0; axis < full.rank(); ++axis) {
    const bool reduced = (mask >> axis & 1u) != 0;
    sizes[axis] = reduced ? 1 : grad.shape()[keeps ? axis : kept++];
  }
  const Shape kept_shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(full.rank())), where);
  return broadcast_to(reshape(grad, kept_shape, where), full, where);
}

void require_floating(const char* op, const TensorImpl& x, Where where) {
  if (!is_floating(x.dtype))
    base::fail<DTypeError>(where, op, ": the tensor is ", x.dtype, "; it must be a floating type.");
}

void promote_operands(Tensor& a, Tensor& b, Where where) {
  const DType dtype = promote(a.dtype(), b.dtype(), where);
  a = a.to(dtype, where);
  b = b.to(dtype, where);
}

}  // namespace capstan::autograd
