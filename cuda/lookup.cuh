#pragma once
// Searching in ascending values, by single threads.
#include <cuda_runtime.h>

#include <cstdint>

namespace capstan::on_cuda {

/// How many of `count` ascending values are below x.
template <class T>
__device__ inline std::int64_t count_below(const T* values, std::int64_t count, T x) {
  std::int64_t low = 0, high = count;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (values[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

}  // namespace capstan::on_cuda
