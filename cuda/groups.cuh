#pragma once
// Groups of threads that share a row: a power of two of lanes up to a warp, or a block of kRowThreads. Which it is, is
// known at run time only. All threads of the block take part in exchanges and reductions.
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cuda/blocks.cuh"
#include "cuda/row_plan.hpp"
#include "cuda/unroll.hpp"
#include "cuda/values.cuh"

namespace capstan::on_cuda {

/// The value of lane `from` of the warp.
template <class T>
__device__ inline T lane_value(const T& value, int from) {
  if constexpr (std::is_arithmetic_v<T>) {
    return __shfl_sync(kAllLanes, value, from);
  } else {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 8 == 0);
    std::uint64_t words[sizeof(T) / 8];
    memcpy(words, &value, sizeof value);
    CAPSTAN_UNROLL
    for (std::size_t i = 0; i < sizeof(T) / 8; ++i) words[i] = __shfl_sync(kAllLanes, words[i], from);
    T result;
    memcpy(&result, words, sizeof result);
    return result;
  }
}

/// The values of a group combined: in all its threads, up to the order of each pair that is combined.
template <class T, class Combine>
__device__ inline T group_reduce(T value, int lanes, const Combine& combine) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int away = (lanes < kWarp ? lanes : kWarp) / 2; away > 0; away /= 2)
    value = combine(value, lane_value(value, lane ^ away));
  if (lanes <= kWarp) return value;
  __shared__ T partial[kRowThreads / kWarp];
  __syncthreads();  // the array may still be read, by a call before this one
  if (lane == 0) partial[threadIdx.x / kWarp] = value;
  __syncthreads();
  T result = partial[0];
  for (int i = 1; i < kRowThreads / kWarp; ++i) result = combine(result, partial[i]);
  return result;
}

/// Not for NaN.
struct Largest {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return b > a ? b : a;
  }
};
struct Least {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};

template <int N, class T>
__device__ inline Pack<T, N> read_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, N>*>(from);
}
template <int N, class T>
__device__ inline void write_pack(const Pack<T, N>& pack, T* to) {
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}
/// Elements in front of the first whose address packs can be read from; all `count` of them if there is none.
template <class T>
__device__ inline std::int64_t until_aligned(const T* from, std::int64_t count) {
  const std::uintptr_t past = reinterpret_cast<std::uintptr_t>(from) % 16;
  const auto elements = static_cast<std::int64_t>((16 - past) % 16 / sizeof(T));
  return elements < count ? elements : count;
}

/// Sum of N values, in pairs.
template <int N, class T>
__device__ inline Compute<T> sum_of_pairs(const T* values) {
  if constexpr (N == 1) return widen(values[0]);
  else return sum_of_pairs<N / 2>(values) + sum_of_pairs<N - N / 2>(values + N / 2);
}

/// The value, or 0 for infinities and NaN: what distances are taken from.
template <class T>
__device__ inline T finite_or_zero(T x) {
  return x - x == T(0) ? x : T(0);
}

}  // namespace capstan::on_cuda
