#pragma once
// How the threads of elementwise kernels find their elements: in parts that 32 bits suffice for, by packs where
// neighbours lie side by side, by tiles where rows become columns. Operand 0 of the walks here is what is written. No
// CUDA headers, so that it is tested on the host.
#include <cstddef>
#include <cstdint>

#include "cuda/geometry.hpp"

namespace capstan::on_cuda {

/// The walk without one of its axes, at the first place along that.
template <int N>
Walk<N> without_axis(Walk<N> walk, int axis) {
  walk.count /= walk.sizes[axis];
  --walk.rank;
  for (int to = axis; to < walk.rank; ++to) {
    walk.sizes[to] = walk.sizes[to + 1];
    for (int n = 0; n < N; ++n) walk.strides[n][to] = walk.strides[n][to + 1];
  }
  if (walk.rank == 0) {
    walk.rank = 1;
    walk.sizes[0] = 1;
  }
  return walk;
}

/// The walk over the first `size` places along an axis.
template <int N>
Walk<N> shortened(Walk<N> walk, int axis, std::int64_t size) {
  walk.count = walk.count / walk.sizes[axis] * size;
  walk.sizes[axis] = size;
  return size == 1 && walk.rank > 1 ? without_axis(walk, axis) : walk;
}

/// The axis along which an operand reaches farthest.
template <int N>
int widest_axis(const Walk<N>& walk) {
  int widest = 0;
  std::int64_t farthest = -1;
  for (int axis = 0; axis < walk.rank; ++axis) {
    for (int n = 0; n < N; ++n) {
      const std::int64_t stride = walk.strides[n][axis];
      const std::int64_t reach = (stride < 0 ? -stride : stride) * (walk.sizes[axis] - 1);
      if (reach > farthest) farthest = reach, widest = axis;
    }
  }
  return widest;
}

/// Calls `f(part, begin)` for parts of a walk for which 32 bits suffice, mostly for all of it at once. Operand n of a
/// part begins begin[n] elements behind its first.
template <int N, class F>
void in_small_parts(const Walk<N>& walk, const std::int64_t (&begin)[N], const F& f) {
  if (walk.small()) {
    f(walk, begin);
    return;
  }
  const int axis = widest_axis(walk);
  const std::int64_t half = walk.sizes[axis] / 2;
  std::int64_t middle[N];
  for (int n = 0; n < N; ++n) middle[n] = begin[n] + half * walk.strides[n][axis];
  in_small_parts(shortened(walk, axis, half), begin, f);
  in_small_parts(shortened(walk, axis, walk.sizes[axis] - half), middle, f);
}
template <int N, class F>
void in_small_parts(const Walk<N>& walk, const F& f) {
  const std::int64_t begin[N] = {};
  in_small_parts(walk, begin, f);
}

/// A small walk as kernels take it whose threads move `width` elements at a time.
template <int N>
struct Route {
  Places<std::int32_t, N> places;
  std::int64_t count;
  bool packed;    // the elements of a thread are neighbours: in each operand side by side, in one pack,
  bool still[N];  // or one value for all of them

  /// `data` and `bytes`: where the operands begin, and the sizes of their elements.
  Route(const Walk<N>& walk, const std::byte* const (&data)[N], const std::int64_t (&bytes)[N], int width)
      : places(walk), count(walk.count), packed(walk.rank == 1 || walk.sizes[walk.rank - 1] % width == 0) {
    for (int n = 0; n < N; ++n) {
      still[n] = n > 0 && walk.strides[n][walk.rank - 1] == 0;
      packed = packed && (width == 1 || still[n] || in_packs(walk, n, data[n], width * bytes[n], width));
    }
  }

 private:
  /// Neighbours lie side by side, and every row begins with a pack. `pack` is its size in bytes.
  static bool in_packs(const Walk<N>& walk, int n, const std::byte* data, std::int64_t pack, int width) {
    const int last = walk.rank - 1;
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    bool all = walk.strides[n][last] == 1 && address % static_cast<std::uintptr_t>(pack) == 0;
    for (int axis = 0; axis < last; ++axis) all = all && walk.strides[n][axis] % width == 0;
    return all;
  }
};

/// Sides of matrices below this are not worth tiles.
inline constexpr std::int64_t kLeastSide = 16;

/// The axis along which elements lie side by side in operand 1, if along the last one they do so in operand 0 alone;
/// -1 if there is none.
inline int transposed_axis(const Walk<2>& walk) {
  const int last = walk.rank - 1;
  const std::int64_t step = walk.strides[1][last];
  if (last == 0 || walk.strides[0][last] != 1 || (step >= -1 && step <= 1) || walk.sizes[last] < kLeastSide) return -1;
  for (int axis = last - 1; axis >= 0; --axis)
    if (walk.strides[1][axis] == 1 && walk.sizes[axis] >= kLeastSide) return axis;
  return -1;
}

/// A copy of matrices that transposes them, by tiles. Rows and columns are those of the result.
struct Transposition {
  struct Tile {
    std::int32_t row, column;  // its first
    std::int32_t out, in;      // where its matrix begins
  };

  Places<std::int32_t, 2> matrices;
  Divider<std::int32_t> row_tiles, column_tiles;
  std::int32_t rows, columns;
  std::int32_t out_row, in_column;  // strides; the others are 1
  std::int64_t tiles;               // of all matrices

  /// `axis` is the walk's transposed_axis.
  Transposition(const Walk<2>& walk, int axis, std::int64_t side)
      : matrices(without_axis(without_axis(walk, walk.rank - 1), axis)),
        row_tiles((walk.sizes[axis] + side - 1) / side),
        column_tiles((walk.sizes[walk.rank - 1] + side - 1) / side),
        rows(static_cast<std::int32_t>(walk.sizes[axis])),
        columns(static_cast<std::int32_t>(walk.sizes[walk.rank - 1])),
        out_row(static_cast<std::int32_t>(walk.strides[0][axis])),
        in_column(static_cast<std::int32_t>(walk.strides[1][walk.rank - 1])),
        tiles(walk.count / rows / columns * row_tiles.divisor * column_tiles.divisor) {}

  CAPSTAN_HD Tile tile(std::int32_t number, std::int32_t side) const {
    const std::int32_t line = column_tiles.quotient(number), matrix = row_tiles.quotient(line);
    std::int32_t at[2];
    matrices.find(matrix, at);
    return {(line - matrix * static_cast<std::int32_t>(row_tiles.divisor)) * side,
            (number - line * static_cast<std::int32_t>(column_tiles.divisor)) * side, at[0], at[1]};
  }
};

}  // namespace capstan::on_cuda
