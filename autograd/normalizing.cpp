#include "autograd/normalizing.hpp"

#include <cmath>

namespace capstan::autograd {

void check_epsilon(const char* op, double epsilon, Where where) {
  if (!(epsilon >= 0) || std::isinf(epsilon))
    base::fail<Error>(where, op, ": epsilon is ", epsilon, "; it must be finite and >= 0.");
}

void check_beside(const char* op, const char* what, const Tensor& tensor, const TensorImpl& x, const Shape& shape,
                  Where where) {
  if (!tensor.defined()) return;
  const TensorImpl& impl = core::defined(op, tensor, where);
  core::require_same_device(op, x, impl, where);
  if (impl.dtype != x.dtype && impl.dtype != computing_type(x.dtype))
    base::fail<DTypeError>(where, op, ": x is ", x.dtype, " and the ", what, " ", impl.dtype,
                           "; the types must be equal (float32 will also do beside 16 bits).");
  if (impl.shape != shape)
    base::fail<ShapeError>(where, op, ": the ", what, " is ", impl.shape, "; with x ", x.shape, " it must be ", shape,
                           ".");
}

Shape channels_of(const char* op, const TensorImpl& x, int least, Where where) {
  if (x.rank() < least)
    base::fail<ShapeError>(where, op, ": x is ", x.shape, "; it must be [batch, channels, ...] with ", least,
                           " axes or more.");
  return Shape({x.shape[1]}, where);
}

Axes last_axes(int count, Where where) {
  int axes[kMaxRank] = {};
  for (int i = 0; i < count; ++i) axes[i] = i - count;
  return Axes(std::span<const int>(axes, static_cast<std::size_t>(count)), where);
}

Axes all_but_channels(int rank, Where where) {
  int axes[kMaxRank] = {};
  std::size_t count = 0;
  for (int axis = 0; axis < rank; ++axis)
    if (axis != 1) axes[count++] = axis;
  return Axes(std::span<const int>(axes, count), where);
}

Tensor along_channels(const Tensor& numbers, int rank, Where where) {
  std::int64_t sizes[kMaxRank];
  for (std::int64_t& size : sizes) size = 1;
  sizes[0] = numbers.shape()[0];
  return reshape(numbers, Shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(rank - 1)), where),
                 where);
}

Standardized::Standardized(const Tensor& x, const Axes& over, double epsilon, bool less_mean, Where where)
    : axes(over), centered(less_mean), distance(x) {
  Tensor spread;
  if (centered) {
    const Moments both = moments(x, axes, {.keepdims = true}, where);
    const Tensor about = sub(x, both.mean, where);
    distance = sub(about, mean(about, axes, {.keepdims = true}, where), where);  // and what rounding the mean took
    spread = both.variance;
  } else {
    spread = mean(square(x, where), axes, {.keepdims = true}, where);
  }
  inverse = rsqrt(add(spread, epsilon, where), where);
  value = mul(distance, inverse, where);
}

Tensor Standardized::back(const Tensor& grad, Where where) const {
  const Tensor share = mean(mul(grad, value, where), axes, {.keepdims = true}, where);
  Tensor rest = sub(grad, mul(value, share, where), where);
  if (centered) rest = sub(rest, mean(grad, axes, {.keepdims = true}, where), where);
  return mul(inverse, rest, where);
}

}  // namespace capstan::autograd
