#pragma once
// What a thread is doing on a GPU: the operation, the caller's line, the device and the stream; and the libraries'
// handles. Everything in cuda/ asks here.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/text.hpp"
#include "lib/core/backend.hpp"

namespace capstan::on_cuda {

/// The operation that this thread computes now.
struct Call {
  const char* op = "cuda";
  const char* announced = nullptr;  // the name of the next call, if it is not that of its entry
  Where where{};
  int device = 0;
  int id = 0;  // of the stream
  cudaStream_t stream = nullptr;
};
Call& call() noexcept;

/// Throws BackendError: `gather on cuda:0: cudaMemcpyAsync failed: invalid argument (cudaErrorInvalidValue).`
void check(cudaError_t status, const char* what);
void check(cublasStatus_t status, const char* what);
/// If it failed for want of memory (the driver loads a kernel's code when it is first launched) the cache gives up what
/// nobody uses, and this is true: once more may do.
bool made_room(cudaError_t status);
/// The same as check for a launch; with CAPSTAN_CUDA_SYNC=1 waits for the kernel, so that what it does wrong is said
/// here.
void check_launch(cudaError_t status, dim3 blocks, dim3 threads);
/// Whether CAPSTAN_CUDA_SYNC=1: every launch is waited for, and reports of kernels come where they happen.
bool waits_always() noexcept;

/// `count` elements of undetermined value on the call's device, for the time of the call: freed when the handle goes,
/// and used again only behind what the stream has to do by then.
Tensor workspace(std::int64_t count, DType dtype);
/// Those elements on the device, copied before the function returns; also right in captured steps.
Tensor upload(std::span<const std::int64_t> values);
/// Waits for the call's stream and copies from the device. In a captured step it throws: the host cannot read there.
void read_back(const void* device, void* host, std::size_t bytes);
template <class T>
T read_back(const T* device) {
  T value;
  read_back(device, &value, sizeof value);
  return value;
}

/// cuBLAS on the call's device and stream.
cublasHandle_t blas();
/// Whether products may round their factors to TF32; off unless the program asks (cuda::allow_tf32).
bool tf32_allowed() noexcept;
void allow_tf32(bool on) noexcept;

/// Makes an operation the thread's call: its device and the thread's current stream there.
void begin_call(const char* op, int device);
/// Waits for the call's stream, and throws what kernels have reported (see mailbox.hpp).
void wait();
/// The line that the next call is made from.
void call_from(Where where, const char* op = nullptr) noexcept;

}  // namespace capstan::on_cuda
