#pragma once
// Reductions among the threads of a warp and of a block. Every thread of the block takes part, and each call waits for
// all of them. The order of combining is fixed, so results are the same in every run.
#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/launch_shape.hpp"

namespace capstan::on_cuda {

inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;

/// The values of all lanes combined, in every lane. T has 4 or 8 bytes, or is a struct with its own overload.
template <class T, class Combine>
__device__ inline T warp_reduce(T value, Combine combine) {
  for (int away = kWarp / 2; away > 0; away /= 2) value = combine(value, __shfl_xor_sync(kAllLanes, value, away));
  return value;
}

/// The values of all threads combined, in every thread. `Threads` is the block's size, a multiple of 32.
template <int Threads, class T, class Combine>
__device__ inline T block_reduce(T value, Combine combine) {
  static_assert(Threads % kWarp == 0 && Threads <= 1024);
  value = warp_reduce(value, combine);
  if constexpr (Threads == kWarp) return value;
  __shared__ T partial[Threads / kWarp];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  __syncthreads();  // the array may still be read, by a call before this one
  if (threadIdx.x % kWarp == 0) partial[warp] = value;
  __syncthreads();
  T result = partial[0];
  for (int i = 1; i < Threads / kWarp; ++i) result = combine(result, partial[i]);
  return result;
}

struct Add {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
/// NaN wins.
struct Larger {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a != a ? a : (b > a || b != b) ? b : a;
  }
};
struct Smaller {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a != a ? a : (b < a || b != b) ? b : a;
  }
};

}  // namespace capstan::on_cuda
