#pragma once
// Products of tiles of queries, keys and values, from which attention is made in both directions.
//
// A block of 16 x 16 threads works on some rows (of queries, or of keys) and goes along all that they meet, a tile at a
// time. Of a tile each thread has a few rows of kPack<T> neighbouring columns in registers: products of rows with rows
// become weights there, go through shared memory and are multiplied with further rows, which add up to the result.
#include <cuda_runtime.h>

#include <cstdint>
#include <limits>

#include "cuda/blocks.cuh"
#include "cuda/leading.hpp"
#include "cuda/unroll.hpp"
#include "cuda/values.cuh"
#include "lib/core/backend.hpp"
#include "lib/kernels/host_device.hpp"

namespace capstan::on_cuda::tiles {

inline constexpr int kSide = 16;
inline constexpr unsigned kTileThreads = kSide * kSide;
/// Features of a product, or rows of a right operand, that are in shared memory at a time.
inline constexpr int kDepth = 16;
/// Columns of a result that a block makes. Wider results take several blocks, each of which computes the weights.
inline constexpr int kWindow = 128;
/// Columns of a tile: 64 floats, 32 doubles.
template <class T>
inline constexpr int kTile = 16 * kPack<T>;
template <class T>
inline constexpr int kGroups = kWindow / kTile<T>;

/// Rows of contiguous features, `step` elements apart. What is behind the last row counts as zeros.
template <class T>
struct Rows {
  const T* data;
  std::int64_t step, count;
};

/// A block's shared memory, for tiles of 16 * kRows rows. Lines are longer by 16 bytes, so that columns spread over the
/// banks.
template <class T, int kRows>
struct alignas(16) TileMemory {
  T left[kDepth][kSide * kRows + kPack<T>];  // turned: features by rows
  T right[kDepth][kTile<T> + kPack<T>];
  T weights[kTile<T>][kSide * kRows + kPack<T>];  // turned: columns by rows
  T added[kDepth][kWindow + kPack<T>];
};

/// This thread's place in a tile: its first row is row() * kRows, its first column column() * kPack<T>.
__device__ __forceinline__ int tile_row() { return static_cast<int>(threadIdx.x) / kSide; }
__device__ __forceinline__ int tile_column() { return static_cast<int>(threadIdx.x) % kSide; }

template <int N, class T>
__device__ __forceinline__ Pack<T, N> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, N>*>(from);
}
template <int N, class T>
__device__ __forceinline__ void store_pack(const Pack<T, N>& pack, T* to) {
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

/// kDepth features, from `depth` on, of 16 * kRows rows, from `first` on.
template <int kRows, class T, int kLine>
__device__ __forceinline__ void load_turned(const Rows<T>& from, std::int64_t first, std::int64_t depth,
                                            std::int64_t features, T (&to)[kDepth][kLine]) {
  static_assert(kTileThreads == kSide * kDepth);
  const int feature = static_cast<int>(threadIdx.x) % kDepth, start = static_cast<int>(threadIdx.x) / kDepth;
  CAPSTAN_UNROLL
  for (int pass = 0; pass < kRows; ++pass) {
    const std::int64_t row = first + pass * kSide + start;
    const bool there = row < from.count && depth + feature < features;
    to[feature][pass * kSide + start] = there ? from.data[row * from.step + depth + feature] : T(0);
  }
}

/// This thread's part of left [16 * kRows, features] times the transpose of right [kTile, features], from those rows on.
template <class T, int kRows>
__device__ __forceinline__ void multiply_rows(const Rows<T>& left, std::int64_t left_first, const Rows<T>& right,
                                              std::int64_t right_first, std::int64_t features,
                                              TileMemory<T, kRows>& memory, T (&products)[kRows][kPack<T>]) {
  CAPSTAN_UNROLL
  for (int i = 0; i < kRows; ++i) {
    CAPSTAN_UNROLL
    for (int j = 0; j < kPack<T>; ++j) products[i][j] = T(0);
  }
  for (std::int64_t depth = 0; depth < features; depth += kDepth) {
    __syncthreads();  // what was there has been used
    load_turned<kRows>(left, left_first, depth, features, memory.left);
    load_turned<kPack<T>>(right, right_first, depth, features, memory.right);
    __syncthreads();
    CAPSTAN_UNROLL
    for (int d = 0; d < kDepth; ++d) {
      const auto a = load_pack<kRows>(&memory.left[d][tile_row() * kRows]);
      const auto b = load_pack<kPack<T>>(&memory.right[d][tile_column() * kPack<T>]);
      CAPSTAN_UNROLL
      for (int i = 0; i < kRows; ++i) {
        CAPSTAN_UNROLL
        for (int j = 0; j < kPack<T>; ++j) products[i][j] += a.values[i] * b.values[j];
      }
    }
  }
}

/// The tile of weights that add_rows() multiplies with.
template <class T, int kRows>
__device__ __forceinline__ void keep_weights(const T (&weights)[kRows][kPack<T>], TileMemory<T, kRows>& memory) {
  __syncthreads();  // those of the tile before have been used
  CAPSTAN_UNROLL
  for (int j = 0; j < kPack<T>; ++j) {
    Pack<T, kRows> column;
    CAPSTAN_UNROLL
    for (int i = 0; i < kRows; ++i) column.values[i] = weights[i][j];
    store_pack(column, &memory.weights[tile_column() * kPack<T> + j][tile_row() * kRows]);
  }
}

/// A block's part of a result: in each thread kPack<T> columns of each of its rows, in each group of kTile columns.
template <class T, int kRows>
struct Sums {
  T values[kRows][kGroups<T>][kPack<T>];

  __device__ __forceinline__ void clear() {
    CAPSTAN_UNROLL
    for (int i = 0; i < kRows; ++i) {
      CAPSTAN_UNROLL
      for (int g = 0; g < kGroups<T>; ++g) {
        CAPSTAN_UNROLL
        for (int e = 0; e < kPack<T>; ++e) values[i][g][e] = T(0);
      }
    }
  }
  /// One row times `factor`.
  __device__ __forceinline__ void scale(int i, T factor) {
    CAPSTAN_UNROLL
    for (int g = 0; g < kGroups<T>; ++g) {
      CAPSTAN_UNROLL
      for (int e = 0; e < kPack<T>; ++e) values[i][g][e] *= factor;
    }
  }
  /// One row to a row of `columns` in all, of which this is the part from `window` on.
  __device__ __forceinline__ void store(int i, T* row, std::int64_t window, std::int64_t columns) const {
    CAPSTAN_UNROLL
    for (int g = 0; g < kGroups<T>; ++g) {
      const std::int64_t column = window + (g * kSide + tile_column()) * kPack<T>;
      CAPSTAN_UNROLL
      for (int e = 0; e < kPack<T>; ++e)
        if (column + e < columns) row[column + e] = values[i][g][e];
    }
  }
};

/// sums += weights [16 * kRows, kTile] times `right` [kTile, columns], from row `first` and column `window` on.
/// kFiniteOnes: what is not finite in `right` counts as 0. Times a weight of 0 it would be NaN.
template <bool kFiniteOnes, class T, int kRows>
__device__ __forceinline__ void add_rows(const Rows<T>& right, std::int64_t first, std::int64_t window,
                                         std::int64_t columns, TileMemory<T, kRows>& memory, Sums<T, kRows>& sums) {
  constexpr int kLoads = kDepth * kWindow / static_cast<int>(kTileThreads);
  for (int part = 0; part < kTile<T> && first + part < right.count; part += kDepth) {
    __syncthreads();  // what was there has been used, and the weights are there
    CAPSTAN_UNROLL
    for (int pass = 0; pass < kLoads; ++pass) {
      const int place = pass * static_cast<int>(kTileThreads) + static_cast<int>(threadIdx.x);
      const std::int64_t row = first + part + place / kWindow, column = window + place % kWindow;
      const bool there = row < right.count && column < columns;
      const T value = there ? right.data[row * right.step + column] : T(0);
      const bool counts = !kFiniteOnes || value - value == T(0);
      memory.added[place / kWindow][place % kWindow] = counts ? value : T(0);
    }
    __syncthreads();
    for (int d = 0; d < kDepth; ++d) {
      const auto a = load_pack<kRows>(&memory.weights[part + d][tile_row() * kRows]);
      CAPSTAN_UNROLL
      for (int g = 0; g < kGroups<T>; ++g) {
        if (window + g * kTile<T> >= columns) continue;  // the same for all threads
        const auto b = load_pack<kPack<T>>(&memory.added[d][(g * kSide + tile_column()) * kPack<T>]);
        CAPSTAN_UNROLL
        for (int i = 0; i < kRows; ++i) {
          CAPSTAN_UNROLL
          for (int e = 0; e < kPack<T>; ++e) sums.values[i][g][e] += a.values[i] * b.values[e];
        }
      }
    }
  }
}

/// How products of queries and keys become scores. Mask and bias may be null.
template <class T>
struct Scores {
  const bool* mask;
  const T* bias;
  std::int64_t mask_query, mask_key, bias_query, bias_key;  // steps
  T scale;
  bool causal;

  /// For the head where mask and bias begin there.
  __device__ Scores of_head(std::int64_t mask_offset, std::int64_t bias_offset) const {
    Scores own = *this;
    if (mask != nullptr) own.mask += mask_offset;
    if (bias != nullptr) own.bias += bias_offset;
    return own;
  }
  /// -infinity where the query must not look, whatever the product is.
  __device__ __forceinline__ T of(T product, std::int64_t query, std::int64_t key) const {
    constexpr T kNever = -std::numeric_limits<T>::infinity();
    if (causal && key > query) return kNever;
    if (mask != nullptr && !mask[query * mask_query + key * mask_key]) return kNever;
    if (bias == nullptr) return product * scale;
    const T more = bias[query * bias_query + key * bias_key];
    return more == kNever ? kNever : product * scale + more;
  }
};

// --- on the host ---------------------------------------------------------------------------------------------------

inline std::int64_t rows_of(const TensorImpl& x) { return x.shape[x.rank() - 2]; }
inline std::int64_t width_of(const TensorImpl& x) { return x.shape[x.rank() - 1]; }
inline std::int64_t row_step(const TensorImpl& x) { return x.strides[x.rank() - 2]; }
inline std::int64_t pieces(std::int64_t count, std::int64_t each) { return count / each + (count % each != 0); }

template <class T>
Rows<T> rows_in(const TensorImpl& x) {
  return {x.as<const T>(), row_step(x), rows_of(x)};
}
template <class T>
Scores<T> scores_in(const core::AttentionTask& task) {
  const TensorImpl *mask = task.mask, *bias = task.bias;
  const auto step = [](const TensorImpl* x, int from_end) { return x != nullptr ? step_of(*x, from_end) : 0; };
  return {mask != nullptr ? mask->as<const bool>() : nullptr,
          bias != nullptr ? bias->as<const T>() : nullptr,
          step(mask, 2),
          step(mask, 1),
          step(bias, 2),
          step(bias, 1),
          static_cast<T>(task.scale),
          task.causal};
}

}  // namespace capstan::on_cuda::tiles
