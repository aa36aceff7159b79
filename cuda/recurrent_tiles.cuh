#pragma once
// Steps whose products are small: a launch multiplies tiles of a few rows and columns and goes over their units.
#include "cuda/recurrent.cuh"

namespace capstan::on_cuda {

/// Rows of `a` times columns of weights, both of `length` elements side by side. A unit has the columns
/// columns + unit * unit_step + q * block_step, for q below `blocks`.
template <class T>
struct TileProduct {
  const T* a;
  std::int64_t a_row, rows, length;
  const T* columns;
  std::int64_t unit_step, block_step;
  int blocks;
  std::int64_t units;

  CAPSTAN_HD int units_each() const { return kTileColumns / blocks; }  // of a tile
};

/// Tiles of so many rows, of which the product may have fewer.
template <class T>
dim3 tile_blocks(const TileProduct<T>& p, std::int64_t rows) {
  const auto part = [](std::int64_t count, std::int64_t of) { return static_cast<unsigned>((count + of - 1) / of); };
  return dim3(part(p.units, p.units_each()), part(rows, kTileRows<T>));
}

/// The tile of blockIdx: totals[row * kTileColumns + column], in shared memory. Those of rows and units that are not
/// there are undetermined, but 0 in tiles behind the last row.
template <class T>
__device__ inline void multiply_tile(const TileProduct<T>& p, T* totals) {
  constexpr int kRows = kTileRows<T>, kValues = kRows * kTileColumns;
  __shared__ T partial[kTileThreads][kValues + 1];  // one more, so that sums of neighbours lie in different banks
  const std::int64_t first_row = std::int64_t{blockIdx.y} * kRows, left_over = p.rows - first_row;
  const std::int64_t first_unit = std::int64_t{blockIdx.x} * p.units_each();
  const T* columns[kTileColumns];
  CAPSTAN_UNROLL
  for (int n = 0; n < kTileColumns; ++n) {
    const int own = n / p.blocks;
    const bool used = own < p.units_each() && first_unit + own < p.units;
    columns[n] = p.columns + (used ? (first_unit + own) * p.unit_step + (n - own * p.blocks) * p.block_step : 0);
  }
  const int last = left_over < kRows ? static_cast<int>(left_over) - 1 : kRows - 1;
  T sums[kValues] = {};
  for (std::int64_t k = threadIdx.x; last >= 0 && k < p.length; k += kTileThreads) {
    T weights[kTileColumns];
    CAPSTAN_UNROLL
    for (int n = 0; n < kTileColumns; ++n) weights[n] = columns[n][k];
    const T* from = p.a + first_row * p.a_row + k;
    CAPSTAN_UNROLL
    for (int row = 0; row < kRows; ++row) {
      const T value = *from;
      CAPSTAN_UNROLL
      for (int n = 0; n < kTileColumns; ++n) sums[row * kTileColumns + n] += value * weights[n];
      if (row < last) from += p.a_row;
    }
  }
  CAPSTAN_UNROLL
  for (int i = 0; i < kValues; ++i) partial[threadIdx.x][i] = sums[i];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kValues; i += static_cast<int>(kTileThreads)) {
    T total[4] = {};
    for (unsigned thread = 0; thread < kTileThreads; thread += 4) {
      CAPSTAN_UNROLL
      for (unsigned n = 0; n < 4; ++n) total[n] += partial[thread + n][i];
    }
    totals[i] = (total[0] + total[1]) + (total[2] + total[3]);
  }
  __syncthreads();
}

/// A unit of the tile, one of those that threads share out.
struct TileItem {
  std::int64_t row, unit;
  int total;  // its first one
};
template <class T>
__device__ inline TileItem tile_item(const TileProduct<T>& p, int item) {
  const int row = item / p.units_each(), own = item - row * p.units_each();
  return {std::int64_t{blockIdx.y} * kTileRows<T> + row, std::int64_t{blockIdx.x} * p.units_each() + own,
          row * kTileColumns + own * p.blocks};
}

}  // namespace capstan::on_cuda
