#pragma once
// A GPU that is simulated on the host, so that the CUDA backend is tested where there is none: the same sources, compiled
// by the host's compiler against CUDA's own headers and linked with these stand-ins for the CUDA runtime, cuBLAS,
// cuSOLVER and cuDNN.
//
// A stream is a queue of work that nothing touches before somebody waits for it (or too much has piled up): what an
// operation forgot to order, copy or keep alive goes wrong here as it would on a GPU. The threads of a block are fibers,
// which start in another order in every block.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>

namespace simulated {

/// Behind what is queued on the stream already; into the graph if the stream is being captured.
void enqueue(cudaStream_t stream, std::function<void()> work);
/// A kernel: `thread` is called for each thread of each block.
cudaError_t launch(const cudaLaunchConfig_t& config, std::function<void()> thread);

/// Kernels started so far on this process's GPUs.
std::int64_t launches() noexcept;
/// Bytes that cudaMalloc has given out and not got back, on all GPUs.
std::int64_t allocated() noexcept;
/// Streams and events created and not destroyed.
std::int64_t handles() noexcept;

}  // namespace simulated
