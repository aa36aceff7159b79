#pragma once
// Rows that stay in the registers of a warp, or of a block, from the first look at them to the last.
#include "cuda/normalizing.cuh"

namespace capstan::on_cuda {

inline constexpr int kWarpRows = 4;  // warps of a block, with a row each

/// Values that each of the threads of a row holds: 128 or 64 bytes, in the type that is computed in; by whole packs.
template <class T>
inline constexpr int kHeldByLane = 128 / sizeof(Compute<T>);
template <class T>
inline constexpr int kHeldByThread = 64 / sizeof(Compute<T>);
template <class T>
inline constexpr int kHeldOfLongRows = 64 / sizeof(T);
inline constexpr int kLongRowThreads = 512;

template <int kGroup>
inline constexpr int kNormThreads = (kGroup == kWarp ? kWarpRows : 1) * kGroup;
template <int kGroup>
inline constexpr int kRowsOfBlock = kNormThreads<kGroup> / kGroup;

template <int kGroup>
LaunchShape rows_shape(std::int64_t rows) {
  return shape_for(rows * kGroup, 1, static_cast<unsigned>(kNormThreads<kGroup>));
}

/// A thread's packs of a row of `count` values; zeros behind the end. Rows held like this are so short that int will do
/// for places in them.
template <class T, int V, int kSteps, int kGroup>
__device__ inline void load_row(const T* row, int lane, int count, T (&held)[kSteps][V]) {
  CAPSTAN_UNROLL
  for (int k = 0; k < kSteps; ++k) {
    const int i = (k * kGroup + lane) * V;
    if (i < count) load_run<V>(row + i, held[k]);
  }
}
template <class T, int V, int kSteps, int kGroup>
__device__ inline void store_row(const T (&held)[kSteps][V], int lane, int count, T* row) {
  CAPSTAN_UNROLL
  for (int k = 0; k < kSteps; ++k) {
    const int i = (k * kGroup + lane) * V;
    if (i < count) store_run<V>(held[k], row + i);
  }
}

}  // namespace capstan::on_cuda
