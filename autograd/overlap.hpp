#pragma once
// Whether tensors have elements in common: what is read must not change while something is written.
#include <cstdint>

#include "lib/core/tensor_impl.hpp"

namespace capstan::autograd {

/// The addresses of a tensor's elements, of which there are some: from the first byte to behind the last one.
struct Extent {
  std::uintptr_t begin, end;
};
inline Extent extent_of(const TensorImpl& x) {
  const std::int64_t size = core::element_bytes(x.dtype);
  std::int64_t before = 0, behind = size;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const std::int64_t reach = (x.shape[axis] - 1) * x.strides[axis] * size;
    (reach < 0 ? before : behind) += reach;
  }
  return {reinterpret_cast<std::uintptr_t>(x.data + before), reinterpret_cast<std::uintptr_t>(x.data + behind)};
}

/// Whether the two may have elements in common. Memory that Capstan does not own may be that of any other tensor.
inline bool may_overlap(const TensorImpl& a, const TensorImpl& b) {
  if (a.storage == b.storage) return true;
  if (a.storage->block_bytes > 0 && b.storage->block_bytes > 0) return false;
  if (a.numel() == 0 || b.numel() == 0) return false;
  const Extent x = extent_of(a), y = extent_of(b);
  return x.begin < y.end && y.begin < x.end;
}

}  // namespace capstan::autograd
