#pragma once
// The threads of one block, as fibers of the thread that runs it.
#include <cstdint>
#include <functional>

#include <cuda_runtime_api.h>

namespace simulated {

/// What the lanes of a warp have put down in one exchange.
struct Lanes {
  std::uint64_t values[32];
  std::uint32_t present;
};

/// Runs all threads of a block. Throws std::runtime_error if they wait for each other in vain.
void run_block(dim3 size, const std::function<void()>& thread, std::uint64_t order);

/// Called by threads: wait for all threads of the block that are not over.
void wait_for_block();
/// Puts down a value and waits until all lanes of the warp have.
const Lanes& share_in_warp(std::uint64_t value);
unsigned lane() noexcept;

}  // namespace simulated
