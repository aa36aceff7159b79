#pragma once
// Starting kernels: how many blocks, on which stream, and what is said if it fails.
#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/context.hpp"
#include "cuda/launch_shape.hpp"

namespace capstan::on_cuda {

/// Runs the kernel on the call's stream. Throws BackendError, which names the operation, if it cannot be started.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 blocks, dim3 threads, const Arguments&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.stream = call().stream;
  cudaError_t status = cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
  if (made_room(status)) status = cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
  check_launch(status, blocks, threads);
}
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), LaunchShape shape, const Arguments&... arguments) {
  if (shape.blocks == 0) return;  // a grid without blocks is an error
  launch(kernel, dim3(shape.blocks), dim3(shape.threads), arguments...);
}

/// The items of a thread: first_index(), and then every index_step()-th. 64 bits, so that no tensor is too large.
__device__ inline std::int64_t first_index() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline std::int64_t index_step() { return std::int64_t{gridDim.x} * blockDim.x; }

}  // namespace capstan::on_cuda
