#pragma once
// The leading axes of operands whose last two are matrices: which matrices belong together.
// No CUDA headers, so that it is tested on the host.
#include <cstdint>

#include "lib/core/tensor_impl.hpp"
#include "lib/kernels/host_device.hpp"

namespace capstan::on_cuda {

/// The step along an axis, counted from the end; 0 if the operand is stretched along it.
inline std::int64_t step_of(const TensorImpl& x, int from_end) {
  const int axis = x.rank() - from_end;
  return axis >= 0 && x.shape[axis] != 1 ? x.strides[axis] : 0;
}

/// The loops over all axes of `shape` but the last two, in row-major order, as few as the strides of N operands allow.
/// Operands broadcast; null stands for one that is not there.
template <int N>
struct Leading {
  int rank = 0;
  std::int64_t count = 1;
  std::int64_t sizes[kMaxRank] = {};
  std::int64_t strides[N][kMaxRank] = {};  // in elements; 0 where an operand is stretched

  Leading(const Shape& shape, const TensorImpl* const (&operands)[N]) {
    for (int axis = 0; axis < shape.rank() - 2; ++axis) {
      count *= shape[axis];
      if (shape[axis] == 1) continue;
      std::int64_t step[N];
      for (int n = 0; n < N; ++n) step[n] = operands[n] != nullptr ? step_of(*operands[n], shape.rank() - axis) : 0;
      const bool joined = rank > 0 && joins(step, shape[axis]);
      if (joined) --rank;
      sizes[rank] = joined ? sizes[rank] * shape[axis] : shape[axis];
      for (int n = 0; n < N; ++n) strides[n][rank] = step[n];
      ++rank;
    }
  }

  /// Where matrix number `index` begins in each operand.
  CAPSTAN_HD void find(std::int64_t index, std::int64_t (&offset)[N]) const {
    for (int n = 0; n < N; ++n) offset[n] = 0;
    for (int axis = rank - 1; axis >= 0; --axis) {
      const std::int64_t next = index / sizes[axis], own = index - next * sizes[axis];
      for (int n = 0; n < N; ++n) offset[n] += own * strides[n][axis];
      index = next;
    }
  }

  /// The loops but for one, of a size above 0.
  Leading without(int axis) const {
    Leading rest = *this;
    rest.count /= sizes[axis];
    --rest.rank;
    for (int i = axis; i < rest.rank; ++i) {
      rest.sizes[i] = sizes[i + 1];
      for (int n = 0; n < N; ++n) rest.strides[n][i] = strides[n][i + 1];
    }
    return rest;
  }

 private:
  bool joins(const std::int64_t* step, std::int64_t size) const {
    for (int n = 0; n < N; ++n)
      if (strides[n][rank - 1] != step[n] * size) return false;
    return true;
  }
};

}  // namespace capstan::on_cuda
