// The GPUs of this machine. The operations of the backend are not there yet: its table is null, so `cuda_available()`
// is false and asking for a GPU is a DeviceError.
#include <cuda_runtime_api.h>

#include "lib/core/backend.hpp"

namespace capstan::core {

int cuda_device_count() noexcept {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

const Backend* cuda_backend() { return nullptr; }

}  // namespace capstan::core
