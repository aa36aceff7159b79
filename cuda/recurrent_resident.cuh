#pragma once
// What both resident kernels have: threads with a column of weights each, and rows in shared memory that they multiply.
#include "cuda/blocks.cuh"
#include "cuda/recurrent.cuh"
#include "cuda/recurrent_resident.hpp"
#include "cuda/values.cuh"

namespace capstan::on_cuda {

/// Rows of up to K elements, and zeros behind them. One pack more than it takes, so that rows begin in different banks.
template <class T, int K>
inline constexpr int kRowPacks = K / kPack<T> + 1;
template <class T, int K>
using PackedRow = Pack<T, kPack<T>>[kRowPacks<T, K>];

template <class T, int K>
__device__ inline T& element(PackedRow<T, K>& row, int i) {
  return row[i / kPack<T>].values[i % kPack<T>];
}

/// The column of the recurrent weights that a thread multiplies, for `count` rows of the block from `row` on; 0 for a
/// thread without work.
struct ResidentPart {
  int column, block, unit, row, count;
};
__device__ inline ResidentPart part_of(const ResidentCut& cut, int hidden) {
  const int thread = static_cast<int>(threadIdx.x), group = thread / cut.columns;
  const int column = thread - group * cut.columns, block = column / hidden;
  return {column, block, column - block * hidden, group * cut.rows_each, group < cut.groups ? cut.rows_each : 0};
}

/// How many of the block's rows, which begin with `first`, run at the step taken as number s.
__device__ inline int rows_running(const LineView& lines, const ResidentCut& cut, std::int64_t first, std::int64_t s) {
  const std::int64_t left = lines.active(lines.at(s)) - first;
  return left <= 0 ? 0 : left < cut.rows() ? static_cast<int>(left) : cut.rows();
}

template <class T, int K>
__device__ inline T dot(const T (&weights)[K], const PackedRow<T, K>& row) {
  constexpr int kSize = kPack<T>;
  T even = T(0), odd = T(0);
  CAPSTAN_UNROLL
  for (int i = 0; i < K / kSize; i += 2) {
    const Pack<T, kSize> left = row[i], right = row[i + 1];
    CAPSTAN_UNROLL
    for (int n = 0; n < kSize; ++n) {
      even += left.values[n] * weights[i * kSize + n];
      odd += right.values[n] * weights[(i + 1) * kSize + n];
    }
  }
  return even + odd;
}

}  // namespace capstan::on_cuda
