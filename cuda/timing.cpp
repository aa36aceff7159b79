#include "cuda/timing.hpp"

#include "cuda/capture.hpp"

namespace capstan::on_cuda {

void DeviceTiming::begin() {
  if (capture_on(call().device) != nullptr) return;
  check(cudaEventCreateWithFlags(&begin_, cudaEventDefault), "making an event");
  check(cudaEventCreateWithFlags(&end_, cudaEventDefault), "making an event");
  check(cudaEventRecord(begin_, call().stream), "recording an event");
}

void DeviceTiming::end() noexcept {
  float milliseconds = 0;
  if (cudaEventRecord(end_, call().stream) == cudaSuccess && cudaEventSynchronize(end_) == cudaSuccess &&
      cudaEventElapsedTime(&milliseconds, begin_, end_) == cudaSuccess)
    core::operation_took(static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6));
  cudaEventDestroy(begin_);
  cudaEventDestroy(end_);
}

}  // namespace capstan::on_cuda
