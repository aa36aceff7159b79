#pragma once
// How many blocks of how many threads. Plain arithmetic, tested on the host.
#include <cstdint>

namespace capstan::on_cuda {

struct LaunchShape {
  unsigned blocks, threads;
};

inline constexpr unsigned kThreads = 256;
inline constexpr int kWarp = 32;
/// Enough to fill every GPU of today several times over; kernels stride through what is left.
inline constexpr std::int64_t kMostBlocks = 132 * 32;

/// Threads for `count` items of which each takes `per_thread` at least; no block for no items.
inline LaunchShape shape_for(std::int64_t count, int per_thread = 1, unsigned threads = kThreads) {
  const std::int64_t in_block = std::int64_t{threads} * per_thread;
  const std::int64_t blocks = count / in_block + (count % in_block != 0);
  return {static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks), threads};
}
/// A block for each of `count` rows; blocks stride through the rows (row += gridDim.x) if there are more than a grid
/// can have.
inline LaunchShape block_each(std::int64_t count, unsigned threads = kThreads) {
  constexpr std::int64_t kMostInGrid = (std::int64_t{1} << 31) - 1;
  return {static_cast<unsigned>(count < kMostInGrid ? count : kMostInGrid), threads};
}

}  // namespace capstan::on_cuda
