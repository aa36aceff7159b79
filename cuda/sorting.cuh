#pragma once
// Sorting inside a block, in shared memory: the bitonic network of Batcher, "Sorting networks and their applications",
// 1968.
#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/launch.cuh"

namespace capstan::on_cuda {

/// Elements that a block sorts at once.
inline constexpr int kTile = 2048;

/// A key of at most 32 bits above a place. Equal keys compare by their places, and nothing is behind last().
struct ShortEntry {
  std::uint64_t bits;
  __device__ static ShortEntry make(std::uint64_t key, std::uint32_t place) { return {key << 32 | place}; }
  __device__ static ShortEntry last() { return {~std::uint64_t{0}}; }
  __device__ std::uint32_t place() const { return static_cast<std::uint32_t>(bits); }
  __device__ bool before(const ShortEntry& other) const { return bits < other.bits; }
};
/// Any key.
struct LongEntry {
  std::uint64_t key;
  std::uint64_t from;
  __device__ static LongEntry make(std::uint64_t key_bits, std::uint32_t place) { return {key_bits, place}; }
  __device__ static LongEntry last() { return {~std::uint64_t{0}, ~std::uint64_t{0}}; }
  __device__ std::uint32_t place() const { return static_cast<std::uint32_t>(from); }
  __device__ bool before(const LongEntry& other) const {
    return key != other.key ? key < other.key : from < other.from;
  }
};

/// Sorts runs of `run` entries, a power of two, each by itself; `count` is a multiple of it. Every thread of the block
/// takes part; the entries are there for all of them before and after the call, if the caller waits before.
template <class Entry>
__device__ inline void sort_runs(Entry* entries, int count, int run) {
  for (int size = 2; size <= run; size *= 2)
    for (int reach = size / 2; reach > 0; reach /= 2) {
      for (int pair = static_cast<int>(threadIdx.x); pair < count / 2; pair += static_cast<int>(blockDim.x)) {
        const int low = 2 * pair - (pair & (reach - 1)), high = low + reach;
        const bool up = (low & (run - 1) & size) == 0;  // the last round of a run goes up as a whole
        const Entry a = entries[low], b = entries[high];
        if (b.before(a) != up) continue;
        entries[low] = b;
        entries[high] = a;
      }
      __syncthreads();
    }
}

}  // namespace capstan::on_cuda
