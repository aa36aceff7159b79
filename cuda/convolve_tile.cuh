#pragma once
// A tile of a product of matrices: the threads of a block bring a slice of each operand into shared memory, while they
// add up what the slice before gave. Each keeps kRows x kColumns sums; the lanes of a warp have neighbouring columns.
#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/blocks.cuh"

namespace capstan::on_cuda {

template <class C, int Warps, int Rows, int Columns>
struct TileShape {
  using Number = C;
  static constexpr int kThreads = Warps * kWarp, kRows = Rows, kColumns = Columns;
  static constexpr int kM = Warps * Rows, kN = kWarp * Columns, kK = 64 / static_cast<int>(sizeof(C));
  static constexpr int kLoadsA = kM * kK / kThreads, kLoadsB = kN * kK / kThreads;  // of a thread
  static_assert(kM * kK % kThreads == 0 && kN * kK % kThreads == 0 && kThreads % kK == 0 && kThreads % kN == 0);
};
template <class C>
using LargeTile = TileShape<C, 8, 8, 4>;
template <class C>
using SmallTile = TileShape<C, 4, 4, 4>;

/// Two slices of both operands. Rows are longer by 16 bytes or more, so that columns do not meet in one bank.
template <class Shape>
struct alignas(16) TileMemory {
  typename Shape::Number a[2][Shape::kK][Shape::kM + 4], b[2][Shape::kK][Shape::kN + 4];
};
/// What a thread has brought of a slice.
template <class Shape>
struct TileLoads {
  typename Shape::Number a[Shape::kLoadsA], b[Shape::kLoadsB];
};

/// Load i of a thread where neighbouring threads bring the terms of one row, or of one column.
template <class Shape>
__device__ __forceinline__ int term_of_load(int i) {
  return (static_cast<int>(threadIdx.x) + i * Shape::kThreads) % Shape::kK;
}
template <class Shape>
__device__ __forceinline__ int line_of_load(int i) {
  return (static_cast<int>(threadIdx.x) + i * Shape::kThreads) / Shape::kK;
}

template <class Shape>
__device__ __forceinline__ void multiply_slice(const TileMemory<Shape>& memory, int slice,
                                               typename Shape::Number (&sums)[Shape::kRows][Shape::kColumns]) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int k = 0; k < Shape::kK; ++k) {
    typename Shape::Number a[Shape::kRows], b[Shape::kColumns];
    for (int i = 0; i < Shape::kRows; ++i) a[i] = memory.a[slice][k][warp * Shape::kRows + i];
    for (int j = 0; j < Shape::kColumns; ++j) b[j] = memory.b[slice][k][lane + j * kWarp];
    for (int i = 0; i < Shape::kRows; ++i)
      for (int j = 0; j < Shape::kColumns; ++j) sums[i][j] += a[i] * b[j];
  }
}

}  // namespace capstan::on_cuda
