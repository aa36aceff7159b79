#pragma once
// How long the device takes for an operation, while somebody watches times.
#include <cuda_runtime_api.h>

#include "cuda/context.hpp"
#include "lib/core/observe.hpp"

namespace capstan::on_cuda {

/// Around the kernels of an operation: if a profiler is on, adds their time to the operation that this thread reports
/// next. It waits for them, which is why it is only done then.
class DeviceTiming {
 public:
  DeviceTiming() {
    if (core::watched(core::kWatchTimes)) begin();
  }
  ~DeviceTiming() {
    if (begin_ != nullptr) end();
  }
  DeviceTiming(const DeviceTiming&) = delete;
  DeviceTiming& operator=(const DeviceTiming&) = delete;

 private:
  void begin();
  void end() noexcept;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace capstan::on_cuda
