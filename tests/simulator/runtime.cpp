// The CUDA runtime of the simulated GPU: memory, streams, events, launches. Graphs are in graphs.cpp.
#include "tests/simulator/runtime.hpp"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>

#include "tests/simulator/device.hpp"
#include "tests/simulator/queue.hpp"

namespace simulated {
namespace {

constexpr std::size_t kDeviceBytes = std::size_t{4} << 30;
constexpr std::size_t kMostQueued = 48;  // tasks of a stream, then it is run

/// A block of memory from cudaMalloc, or of pinned memory.
struct Memory {
  std::size_t bytes;
  int device;  // -1: pinned memory of the host
};

struct State {
  std::recursive_mutex mutex;
  std::map<const char*, Memory> memory;
  std::size_t used[kMostDevices] = {};
  std::int64_t launches = 0, handles = 0;
  std::uint64_t order = 0;
  cudaError_t failure = cudaSuccess;  // once a kernel has failed, everything does
};
State& state() {
  static auto* const instance = new State;
  return *instance;
}
thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

cudaError_t report(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

/// The block that an address lies in, or null.
const Memory* find(const void* address) {
  const auto& memory = state().memory;
  auto place = memory.upper_bound(static_cast<const char*>(address));
  if (place == memory.begin()) return nullptr;
  --place;
  return static_cast<const char*>(address) < place->first + place->second.bytes ? &place->second : nullptr;
}
bool on_device(const void* address) {
  const Memory* memory = find(address);
  return memory != nullptr && memory->device >= 0;
}
bool pinned(const void* address) {
  const Memory* memory = find(address);
  return memory != nullptr && memory->device < 0;
}

int device_count() {
  static const int count = [] {
    const char* asked = std::getenv("SIMULATED_GPUS");
    return asked != nullptr ? std::atoi(asked) : 2;
  }();
  return count < kMostDevices ? count : kMostDevices;
}

cudaError_t allocate(void** place, std::size_t bytes, int device) {
  const std::lock_guard lock(state().mutex);
  if (device >= 0 && state().used[device] + bytes > kDeviceBytes) return report(cudaErrorMemoryAllocation);
  void* block = nullptr;  // of exactly that size, so that AddressSanitizer sees what lies behind
  if (posix_memalign(&block, 256, bytes > 0 ? bytes : 1) != 0) return report(cudaErrorMemoryAllocation);
  std::memset(block, 0xFF, bytes);  // NaN
  state().memory[static_cast<char*>(block)] = {bytes, device};
  if (device >= 0) state().used[device] += bytes;
  *place = block;
  return cudaSuccess;
}

cudaError_t free_block(void* block, bool of_device) {
  if (block == nullptr) return cudaSuccess;
  const std::lock_guard lock(state().mutex);
  const auto place = state().memory.find(static_cast<char*>(block));
  if (place == state().memory.end() || (place->second.device >= 0) != of_device) return report(cudaErrorInvalidValue);
  run_everything();  // cudaFree waits for the device
  if (of_device) state().used[place->second.device] -= place->second.bytes;
  state().memory.erase(place);
  std::free(block);
  return cudaSuccess;
}

}  // namespace

std::recursive_mutex& big_lock() { return state().mutex; }

// --- streams ---

std::vector<CUstream_st*>& all_streams() {
  static auto* const list = new std::vector<CUstream_st*>;
  return *list;
}

void run_until(CUstream_st& stream, std::uint64_t number) {
  while (stream.done < number) {
    const std::function<void()> work = std::move(stream.queue.front());
    stream.queue.pop_front();
    ++stream.done;  // before: what it waits for may come back here
    if (state().failure == cudaSuccess) work();
  }
}
void run_everything() {
  for (CUstream_st* stream : all_streams()) run_until(*stream, stream->sent);
}

CUstream_st& resolve(cudaStream_t stream) {
  static auto* const legacy = [] {
    auto* const made = new CUstream_st;
    all_streams().push_back(made);
    return made;
  }();
  return stream == nullptr ? *legacy : *stream;
}

void enqueue(cudaStream_t handle, std::function<void()> work) {
  const std::lock_guard lock(state().mutex);
  CUstream_st& stream = resolve(handle);
  if (stream.capture != nullptr) {
    stream.capture->work.push_back(std::move(work));
    return;
  }
  stream.queue.push_back(std::move(work));
  ++stream.sent;
  if (stream.queue.size() > kMostQueued) run_until(stream, stream.sent);
}

cudaError_t launch(const cudaLaunchConfig_t& config, std::function<void()> thread) {
  const dim3 grid = config.gridDim, size = config.blockDim;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535 || grid.x > 2147483647u ||
      size.x * size.y * size.z == 0 || size.x * size.y * size.z > 1024 || size.z > 64 ||
      config.dynamicSmemBytes > 49152)
    return report(cudaErrorInvalidConfiguration);
  const std::lock_guard lock(state().mutex);
  const int device = resolve(config.stream).device;
  if (device >= 0 && device != current_device) return report(cudaErrorInvalidResourceHandle);
  ++state().launches;
  enqueue(config.stream, [grid, size, thread = std::move(thread)] {
    blockDim = size;
    gridDim = grid;
    const std::uint64_t order = state().order++;
    const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
    for (std::uint64_t i = 0; i < blocks; ++i) {
      const std::uint64_t b = order % 2 == 0 ? i : blocks - 1 - i;
      blockIdx = {static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x % grid.y),
                  static_cast<unsigned>(b / grid.x / grid.y)};
      try {
        run_block(size, thread, order + i);
      } catch (const std::runtime_error& error) {
        std::fprintf(stderr, "simulated GPU: %s\n", error.what());
        state().failure = cudaErrorLaunchFailure;
        return;
      }
    }
  });
  return cudaSuccess;
}

std::int64_t launches() noexcept { return state().launches; }
std::int64_t handles() noexcept { return state().handles; }
std::int64_t allocated() noexcept {
  std::int64_t total = 0;
  for (const std::size_t used : state().used) total += static_cast<std::int64_t>(used);
  return total;
}

namespace {

cudaError_t wait_for(CUstream_st& stream) {
  const std::lock_guard lock(state().mutex);
  if (stream.capture != nullptr) return report(cudaErrorStreamCaptureUnsupported);
  run_until(stream, stream.sent);
  return report(state().failure);
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(state().mutex);
  const bool source_is_host = !on_device(from) && !pinned(from), target_is_host = !on_device(to) && !pinned(to);
  if (source_is_host && resolve(stream).capture == nullptr) {  // the driver copies such memory before it returns
    std::vector<char> staged(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
    enqueue(stream, [to, staged = std::move(staged)] { std::memcpy(to, staged.data(), staged.size()); });
  } else {
    enqueue(stream, [to, from, bytes] { std::memmove(to, from, bytes); });
  }
  if (target_is_host) return wait_for(resolve(stream));
  return report(state().failure);
}

}  // namespace
}  // namespace simulated

// --- the functions of the runtime that the backend calls ---

using simulated::report;
using simulated::state;

cudaError_t cudaGetDeviceCount(int* count) {
  *count = simulated::device_count();
  return *count > 0 ? cudaSuccess : report(cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= simulated::device_count()) return report(cudaErrorInvalidDevice);
  simulated::current_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = simulated::current_device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMultiProcessorCount       ? 4
           : attribute == cudaDevAttrComputeCapabilityMajor  ? 9
           : attribute == cudaDevAttrMaxSharedMemoryPerBlock ? 49152
                                                             : 0;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }
cudaError_t cudaMalloc(void** place, size_t bytes) {
  return simulated::allocate(place, bytes, simulated::current_device);
}
cudaError_t cudaFree(void* block) { return simulated::free_block(block, true); }
cudaError_t cudaHostAlloc(void** place, size_t bytes, unsigned) { return simulated::allocate(place, bytes, -1); }
cudaError_t cudaFreeHost(void* block) { return simulated::free_block(block, false); }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const std::lock_guard lock(state().mutex);
  *total = simulated::kDeviceBytes;
  *free = simulated::kDeviceBytes - state().used[simulated::current_device];
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  const std::lock_guard lock(state().mutex);
  const simulated::Memory* memory = simulated::find(pointer);
  *attributes = {};
  attributes->type = memory == nullptr    ? cudaMemoryTypeUnregistered
                     : memory->device < 0 ? cudaMemoryTypeHost
                                          : cudaMemoryTypeDevice;
  attributes->device = memory != nullptr && memory->device >= 0 ? memory->device : 0;
  attributes->devicePointer = attributes->hostPointer = const_cast<void*>(pointer);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return simulated::copy(to, from, bytes, stream);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t stream) {
  return simulated::copy(to, from, bytes, stream);
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  simulated::enqueue(stream, [=] { std::memset(to, value, bytes); });
  return report(state().failure);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  const std::lock_guard lock(state().mutex);
  *stream = new CUstream_st;
  (*stream)->device = simulated::current_device;
  simulated::all_streams().push_back(*stream);
  ++state().handles;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(state().mutex);
  simulated::run_until(*stream, stream->sent);
  std::erase(simulated::all_streams(), stream);
  delete stream;
  --state().handles;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return simulated::wait_for(simulated::resolve(stream)); }
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const std::lock_guard lock(state().mutex);
  const CUstream_st& s = simulated::resolve(stream);
  if (s.capture != nullptr) return report(cudaErrorStreamCaptureUnsupported);
  return report(s.done == s.sent ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaDeviceSynchronize() {
  const std::lock_guard lock(state().mutex);
  for (const CUstream_st* stream : simulated::all_streams())
    if (stream->capture != nullptr) return report(cudaErrorStreamCaptureUnsupported);
  simulated::run_everything();
  return report(state().failure);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  const std::lock_guard lock(state().mutex);
  *event = new CUevent_st;
  (*event)->device = simulated::current_device;
  ++state().handles;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::lock_guard lock(state().mutex);
  delete event;
  --state().handles;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(state().mutex);
  CUstream_st& s = simulated::resolve(stream);
  if (s.device >= 0 && s.device != event->device) return report(cudaErrorInvalidResourceHandle);
  event->capture = s.capture;
  if (s.capture != nullptr) return cudaSuccess;
  auto mark = std::make_shared<simulated::Mark>();
  mark->stream = &s;
  mark->number = s.sent + 1;
  event->mark = mark;
  simulated::enqueue(stream, [mark] {
    mark->reached = true;
    mark->time = std::chrono::steady_clock::now();
  });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(state().mutex);
  return report(event->mark == nullptr || event->mark->reached ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::lock_guard lock(state().mutex);
  if (event->mark != nullptr && !event->mark->reached) simulated::run_until(*event->mark->stream, event->mark->number);
  return report(state().failure);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const std::lock_guard lock(state().mutex);
  if (begin->mark == nullptr || end->mark == nullptr) return report(cudaErrorInvalidResourceHandle);
  if (!begin->mark->reached || !end->mark->reached) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(end->mark->time - begin->mark->time).count();
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::lock_guard lock(state().mutex);
  CUstream_st& s = simulated::resolve(stream);
  if (event->capture != nullptr) {  // the stream joins the capture
    s.capture = event->capture;
    return cudaSuccess;
  }
  if (event->mark == nullptr || s.capture != nullptr) return cudaSuccess;
  simulated::enqueue(stream, [mark = event->mark] {
    if (!mark->reached) simulated::run_until(*mark->stream, mark->number);
  });
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = simulated::last_error;
  simulated::last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return simulated::last_error; }
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    default: return "cudaErrorUnknown";
  }
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    default: return "an error";
  }
}
