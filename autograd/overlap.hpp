#pragma once
// Whether tensors have elements in common: what is read must not change while something is written.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

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

/// Row slices have no elements yet, and then some of their own.
inline bool is_sliced(const TensorImpl& x) { return x.slices.load(std::memory_order_acquire) != nullptr; }

/// Whether the two may have elements in common. Borrowed memory may be that of any other tensor.
inline bool may_overlap(const TensorImpl& a, const TensorImpl& b) {
  if (a.storage == b.storage) return true;
  if (is_sliced(a) || is_sliced(b)) return false;
  if (a.storage->block_bytes > 0 && b.storage->block_bytes > 0) return false;
  if (a.numel() == 0 || b.numel() == 0) return false;
  const Extent x = extent_of(a), y = extent_of(b);
  return x.begin < y.end && y.begin < x.end;
}

/// Tensors that are written in place.
class Written {
 public:
  explicit Written(std::vector<const TensorImpl*> list) : list_(std::move(list)) {
    std::sort(list_.begin(), list_.end(), before);
    for (const TensorImpl* y : list_)
      if (y->storage->block_bytes == 0) borrowed_.push_back(y);
  }
  /// Whether x may change with them. Only where memory is borrowed are tensors compared one by one.
  bool changes(const TensorImpl& x) const {
    if (std::binary_search(list_.begin(), list_.end(), &x, before)) return true;
    const std::vector<const TensorImpl*>& others = x.storage->block_bytes > 0 ? borrowed_ : list_;
    return std::any_of(others.begin(), others.end(), [&](const TensorImpl* y) { return may_overlap(x, *y); });
  }

 private:
  static bool before(const TensorImpl* a, const TensorImpl* b) {
    return std::less<const core::Storage*>()(a->storage, b->storage);
  }

  std::vector<const TensorImpl*> list_, borrowed_;  // those of one storage side by side; some of them
};

}  // namespace capstan::autograd
