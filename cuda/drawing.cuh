#pragma once
// What kernels that draw random numbers share.
#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/values.cuh"
#include "lib/core/backend.hpp"

namespace capstan::on_cuda {

/// The first block of a task's numbers.
__device__ inline std::uint64_t first_block_of(const core::RandomTask& task) {
  return task.first_block + (task.advance != nullptr ? *task.advance : 0);
}

/// to[at] and following = values, as far as there are `count` elements; `at` is a multiple of N. With `in_packs`, where
/// pointers are multiples of 16, up to 16 bytes at a time.
template <class T, int N>
__device__ inline void store_values(const T (&values)[N], T* to, std::int64_t at, std::int64_t count, bool in_packs) {
  constexpr int kAtOnce = N < kPack<T> ? N : kPack<T>;
  if (in_packs && at + N <= count) {
    for (int i = 0; i < N; i += kAtOnce) {
      Pack<T, kAtOnce> pack;
      for (int k = 0; k < kAtOnce; ++k) pack.values[k] = values[i + k];
      *reinterpret_cast<Pack<T, kAtOnce>*>(to + at + i) = pack;
    }
  } else {
    for (int i = 0; i < N; ++i)
      if (at + i < count) to[at + i] = values[i];
  }
}
template <class T, int N>
__device__ inline void load_values(T (&values)[N], const T* from, std::int64_t at, std::int64_t count, bool in_packs) {
  constexpr int kAtOnce = N < kPack<T> ? N : kPack<T>;
  if (in_packs && at + N <= count) {
    for (int i = 0; i < N; i += kAtOnce) {
      const auto pack = *reinterpret_cast<const Pack<T, kAtOnce>*>(from + at + i);
      for (int k = 0; k < kAtOnce; ++k) values[i + k] = pack.values[k];
    }
  } else {
    for (int i = 0; i < N; ++i)
      if (at + i < count) values[i] = from[at + i];
  }
}

}  // namespace capstan::on_cuda
