#pragma once
// Sums of products of tensors whose axes have names.
#include <cstdint>

#include "autograd/linalg.hpp"

namespace capstan::autograd {

/// Up to 64 indices, each a number below 64.
using IndexSet = std::uint64_t;
constexpr IndexSet set_of(int index) { return IndexSet{1} << index; }

/// A tensor, and an index for each of its axes. No index stands for two axes.
struct Labeled {
  Tensor tensor;
  int labels[kMaxRank] = {};

  int rank() const { return tensor.impl()->rank(); }
  std::int64_t size(int axis) const { return tensor.impl()->shape[axis]; }
  IndexSet set() const {
    IndexSet all_labels = 0;
    for (int axis = 0; axis < rank(); ++axis) all_labels |= set_of(labels[axis]);
    return all_labels;
  }
  /// The axis of an index, or -1.
  int axis_of(int label) const {
    for (int axis = 0; axis < rank(); ++axis)
      if (labels[axis] == label) return axis;
    return -1;
  }
};

/// x summed over the axes of these indices.
Labeled sum_over(const Labeled& x, IndexSet gone, Where where);

/// The product of both, summed over every index that is not `wanted`. The result has first the indices that both have,
/// in the order of `a`, then a's others, then b's. Sizes are equal or 1.
Labeled contract(const char* op, const Labeled& a, const Labeled& b, IndexSet wanted, Where where);

}  // namespace capstan::autograd
