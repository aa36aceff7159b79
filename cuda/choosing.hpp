#pragma once
// Geometry of choosing elements by positions: which ones move together, and which writes can meet. No CUDA headers, so
// that it is tested on the host.
#include <cstdint>
#include <initializer_list>
#include <span>

#include "cuda/geometry.hpp"
#include "lib/core/backend.hpp"

namespace capstan::on_cuda {

/// How many elements can move as one word of up to 16 bytes, which the walk and the rule then count in. Along the last
/// loop the first `Still` operands, positions among them, stand still, and the others are in one piece. `memory` is all
/// that is read or written there.
template <int Still, int N>
std::int64_t join_elements(Walk<N>& walk, core::PositionRule& rule, std::int64_t element,
                           std::initializer_list<const void*> memory) {
  const int last = walk.rank - 1;
  for (int n = 0; n < N; ++n)
    if (walk.strides[n][last] != (n < Still ? 0 : 1)) return 1;
  const auto fits = [&](std::int64_t count) {
    bool all = walk.sizes[last] % count == 0 && rule.scale % count == 0;
    for (int n = Still; n < N; ++n)
      for (int axis = 0; axis < last; ++axis) all = all && walk.strides[n][axis] % count == 0;
    for (const void* place : memory)
      all = all && reinterpret_cast<std::uintptr_t>(place) % static_cast<std::uintptr_t>(count * element) == 0;
    return all;
  };
  std::int64_t joined = 16 / element;
  while (joined > 1 && !fits(joined)) joined /= 2;
  walk.count /= joined;
  walk.sizes[last] /= joined;
  rule.scale /= joined;
  for (int n = Still; n < N; ++n)
    for (int axis = 0; axis < last; ++axis) walk.strides[n][axis] /= joined;
  if (walk.sizes[last] == 1 && last > 0) --walk.rank;
  return joined;
}

/// Whether different values can meet in one element of the target: only where it stands still can positions, and there
/// the values differ.
inline bool can_clash(const TensorImpl& values, const TensorImpl& target) {
  const Walk<2> walk(target.shape, {&values, &target});
  for (int axis = 0; axis < walk.rank; ++axis)
    if (walk.sizes[axis] > 1 && walk.strides[1][axis] == 0 && walk.strides[0][axis] != 0) return true;
  return false;
}

/// The target's shape without the axes, now of size 1, along which the same sources meet everywhere.
inline Shape meeting_shape(const TensorImpl& positions, const TensorImpl& target) {
  std::int64_t sizes[kMaxRank];
  const int rank = target.rank();
  for (int axis = 0; axis < rank; ++axis) {
    const bool chooses = positions.shape[axis] > 1 && positions.strides[axis] != 0;
    sizes[axis] = chooses || target.strides[axis] == 0 ? target.shape[axis] : 1;
  }
  return Shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(rank)));
}

/// Numbers of a target's elements, below `count`: a position, plus what an operand like `geometry` has for the axes
/// along which places differ anyway.
struct PlaceNumbers {
  TensorImpl geometry;
  std::int64_t count;

  PlaceNumbers(const TensorImpl& target, const Shape& shape, const core::PositionRule& rule)
      : geometry(shape, DType::uint8), count(rule.size) {
    geometry.data = nullptr;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      const bool differ = shape[axis] > 1 && target.strides[axis] != 0;
      geometry.strides[axis] = differ ? count : 0;
      if (differ) count *= shape[axis];
    }
  }
};

}  // namespace capstan::on_cuda
