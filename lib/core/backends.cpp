// The one file that names both backends and picks the table by device.
#include "lib/base/text.hpp"
#include "lib/core/allocator.hpp"
#include "lib/core/backend.hpp"
#include "lib/core/device_runtime.hpp"
#include "lib/core/recording.hpp"
#include "lib/core/scalars.hpp"

namespace capstan {
namespace core {

#if !CAPSTAN_HAS_CUDA
const Backend* cuda_backend() { return nullptr; }
const DeviceRuntime* cuda_runtime() noexcept { return nullptr; }
#endif

int cuda_device_count() noexcept { return cuda_runtime() != nullptr ? cuda_runtime()->device_count() : 0; }

namespace {
[[noreturn]] void no_cuda(const char* op, Device device, Where where) {
  if (cuda_runtime() == nullptr)
    base::fail<DeviceError>(where, op, ": ", device,
                            " was asked for, but this build has no CUDA backend (configured with CAPSTAN_CUDA=OFF).");
  const int count = cuda_device_count();
  if (count == 0)
    base::fail<DeviceError>(where, op, ": ", device,
                            " was asked for, but this machine has no GPU that the CUDA driver can use.");
  base::fail<DeviceError>(where, op, ": ", device, " was asked for, but this machine has ", count,
                          count == 1 ? " GPU" : " GPUs", "; their numbers begin with 0.");
}
}  // namespace

void require_gpu(const char* op, Device device, Where where) {
  if (device.index < 0 || device.index >= cuda_device_count()) no_cuda(op, device, where);
}

constinit thread_local Where last_place;
Where calling_place(Where here) noexcept { return last_place.line() > 0 ? last_place : here; }

const Backend& other_backend_of(Device device, Where where, const char* op) {
  if (device.kind == DeviceKind::cpu) {
    Recording* const recorded = recording();
    if (recorded == nullptr) return cpu_backend();
    recorded->begins(where);
    return recording_backend();
  }
  require_device("backend", device, where);
  cuda_runtime()->call_from(where, op);
  return *cuda_backend();
}

}  // namespace core

int cuda::count() noexcept { return core::cuda_device_count(); }
void cuda::allow_tf32(bool on) noexcept {
  if (core::cuda_runtime() != nullptr) core::cuda_runtime()->allow_tf32(on);
}
bool cuda::tf32_allowed() noexcept { return core::cuda_runtime() != nullptr && core::cuda_runtime()->tf32_allowed(); }

bool cuda_available() noexcept { return core::cuda_device_count() > 0; }

namespace {
constinit thread_local Device device_of_thread{};
}
Device default_device() noexcept { return device_of_thread; }
DeviceScope::DeviceScope(Device device, Where where) : before_(device_of_thread) {
  core::require_device("DeviceScope", device, where);
  device_of_thread = device;
}
DeviceScope::~DeviceScope() { device_of_thread = before_; }

std::string to_string(Device device) {
  return device.kind == DeviceKind::cpu ? "cpu" : "cuda:" + std::to_string(device.index);
}

namespace memory {
namespace {

/// The runtime of a GPU, or null for the CPU.
const core::DeviceRuntime* runtime_of(const char* op, Device device, Where where) {
  core::require_device(op, device, where);
  return device.kind == DeviceKind::cpu ? nullptr : core::cuda_runtime();
}
void require_bytes(const char* op, std::int64_t bytes, Where where) {
  if (bytes < 0) base::fail<Error>(where, op, ": ", bytes, " bytes were asked for; the limit must be >= 0.");
}

}  // namespace

Stats stats(Device device, Where where) {
  if (const auto* gpu = runtime_of("memory::stats", device, where)) return gpu->stats(device);
  return core::cpu_memory_stats();
}
void set_limit(Device device, std::int64_t bytes, Where where) {
  const auto* gpu = runtime_of("memory::set_limit", device, where);
  require_bytes("memory::set_limit", bytes, where);
  if (gpu != nullptr) gpu->set_limit(device, bytes);
  else core::set_cpu_memory_limit(bytes);
}
void set_limit_share(Device device, double share, Where where) {
  const auto* gpu = runtime_of("memory::set_limit", device, where);
  if (!(share > 0 && share <= 1))
    base::fail<Error>(where, "memory::set_limit: a share of ", share, " was asked for; it must be in (0, 1].");
  const std::int64_t total = gpu != nullptr ? gpu->total_memory(device) : core::cpu_total_memory();
  const auto bytes = static_cast<std::int64_t>(share * static_cast<double>(total));
  set_limit(device, bytes > 0 ? bytes : 1, where);  // 0 is no limit
}
void set_cache_limit(Device device, std::int64_t bytes, Where where) {
  const auto* gpu = runtime_of("memory::set_cache_limit", device, where);
  require_bytes("memory::set_cache_limit", bytes, where);
  if (gpu != nullptr) gpu->set_cache_limit(device, bytes);
  else core::set_cpu_cache_limit(bytes);
}
void release_cache(Device device, Where where) {
  if (const auto* gpu = runtime_of("memory::release_cache", device, where)) {
    core::forget_numbers();
    gpu->release_cache(device);
    return;
  }
  core::release_cpu_cache();
}
void reset_peak(Device device, Where where) {
  if (const auto* gpu = runtime_of("memory::reset_peak", device, where)) gpu->reset_peak(device);
  else core::reset_cpu_peak();
}

}  // namespace memory
}  // namespace capstan
