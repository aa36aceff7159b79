#include <capstan/shape.hpp>

#include "lib/base/text.hpp"

namespace capstan {

Shape::Shape(std::initializer_list<std::int64_t> sizes, Where where) { assign({sizes.begin(), sizes.size()}, where); }

void Shape::assign(std::span<const std::int64_t> sizes, Where where) {
  if (sizes.size() > kMaxRank)
    base::fail<ShapeError>(where, "Shape: ", sizes.size(), " sizes were given; a tensor has at most ", kMaxRank,
                           " axes.");
  bool overflow = false, empty = false;
  for (const std::int64_t size : sizes) {
    if (size < 0)
      base::fail<ShapeError>(where, "Shape: size ", size, " of axis ", rank_, " is negative; sizes must be >= 0.");
    sizes_[rank_++] = size;
    empty = empty || size == 0;
    overflow =
        overflow || __builtin_mul_overflow(numel_, size > 0 ? size : 1, &numel_);  // strides must not overflow either
  }
  if (overflow)
    base::fail<ShapeError>(where, "Shape: ", *this,
                           " has 2^63 elements or more; the product of the sizes above 0 must be below 2^63.");
  if (empty) numel_ = 0;
}

std::int64_t Shape::size(int axis, Where where) const {
  if (axis < -rank_ || axis >= rank_)
    base::fail<IndexError>(where, "Shape::size: axis ", axis, " is out of range for rank ", rank_, "; it must be in [",
                           -rank_, ", ", rank_, ").");
  return sizes_[axis < 0 ? axis + rank_ : axis];
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axis > 0) text += ", ";
    text += std::to_string(shape[axis]);
  }
  return text + "]";
}

}  // namespace capstan
