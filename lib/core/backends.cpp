// The one file that names both backends and picks the table by device.
#include "lib/base/text.hpp"
#include "lib/core/allocator.hpp"
#include "lib/core/backend.hpp"

namespace capstan {
namespace core {

#if !CAPSTAN_HAS_CUDA
const Backend* cuda_backend() { return nullptr; }
int cuda_device_count() noexcept { return 0; }
#endif

namespace {
[[noreturn]] void no_cuda(const char* op, Device device, Where where) {
#if CAPSTAN_HAS_CUDA
  base::fail<DeviceError>(
      where, op, ": ", device,
      " was asked for, but this build's CUDA backend has no operations yet (GPUs found: ", cuda_device_count(), ").");
#else
  base::fail<DeviceError>(where, op, ": ", device,
                          " was asked for, but this build has no CUDA backend (configured with CAPSTAN_CUDA=OFF).");
#endif
}
}  // namespace

void require_device(const char* op, Device device, Where where) {
  if (device.kind == DeviceKind::cuda && cuda_backend() == nullptr) no_cuda(op, device, where);
}

const Backend& backend_of(Device device, Where where) {
  if (device.kind == DeviceKind::cpu) return cpu_backend();
  require_device("backend", device, where);
  return *cuda_backend();
}

}  // namespace core

bool cuda_available() noexcept { return core::cuda_backend() != nullptr; }

std::string to_string(Device device) {
  return device.kind == DeviceKind::cpu ? "cpu" : "cuda:" + std::to_string(device.index);
}

namespace memory {

Stats stats(Device device, Where where) {
  core::require_device("memory::stats", device, where);
  return core::cpu_memory_stats();
}
void set_limit(Device device, std::int64_t bytes, Where where) {
  core::require_device("memory::set_limit", device, where);
  if (bytes < 0)
    base::fail<Error>(where, "memory::set_limit: ", bytes, " bytes were asked for; the limit must be >= 0.");
  core::set_cpu_memory_limit(bytes);
}
void set_cache_limit(Device device, std::int64_t bytes, Where where) {
  core::require_device("memory::set_cache_limit", device, where);
  if (bytes < 0)
    base::fail<Error>(where, "memory::set_cache_limit: ", bytes, " bytes were asked for; the limit must be >= 0.");
  core::set_cpu_cache_limit(bytes);
}
void release_cache(Device device, Where where) {
  core::require_device("memory::release_cache", device, where);
  core::release_cpu_cache();
}
void reset_peak(Device device, Where where) {
  core::require_device("memory::reset_peak", device, where);
  core::reset_cpu_peak();
}

}  // namespace memory
}  // namespace capstan
