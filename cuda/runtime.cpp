// The DeviceRuntime of GPUs: what Capstan asks of them besides computing.
#include "lib/core/device_runtime.hpp"

#include "cuda/capture.hpp"
#include "cuda/context.hpp"
#include "cuda/devices.hpp"
#include "cuda/storage.hpp"
#include "cuda/transfer.hpp"
#include "cuda/watch.hpp"

namespace capstan {
namespace on_cuda {
namespace {

int device_count() noexcept {
  static const int count = [] {
    int found = 0;
    if (cudaGetDeviceCount(&found) == cudaSuccess) return found < kMostDevices ? found : kMostDevices;
    cudaGetLastError();
    return 0;
  }();
  return count;
}

/// Makes what follows a call of that name from there.
GpuDevice& enter(const char* op, Device where_to, Where where) {
  call_from(where);
  begin_call(op, where_to.index);
  return device(where_to.index);
}

// --- memory ---

memory::Stats stats(Device d) { return device(d.index).allocator().stats(); }
std::int64_t total_memory(Device d) { return device(d.index).allocator().total(); }
void set_limit(Device d, std::int64_t bytes) { device(d.index).allocator().set_limit(bytes); }
void set_cache_limit(Device d, std::int64_t bytes) { device(d.index).allocator().set_cache_limit(bytes); }
void release_cache(Device d) {
  device(d.index).allocator().release();
  release_pinned();
}
void reset_peak(Device d) { device(d.index).allocator().reset_peak(); }

// --- streams ---

int open_stream(Device d, bool high_priority, Where where) {
  return enter("Stream::create", d, where).open_stream(high_priority ? StreamUse::urgent : StreamUse::normal);
}
void close_stream(Device d, int stream) noexcept { device(d.index).close_stream(stream); }
void* native_stream(Device d, int stream) { return device(d.index).stream(stream); }

bool stream_idle(Device d, int stream, Where where) {
  const cudaError_t status = cudaStreamQuery(enter("Stream::idle", d, where).stream(stream));
  if (status == cudaErrorNotReady) {
    cudaGetLastError();  // see has_reached
    return false;
  }
  check(status, "asking the stream");
  return true;
}

void require_no_capture(int index) {
  if (Capture* capture = capture_on(index)) capture->host_reads();
}

void synchronize_stream(Device d, int stream, Where where) {
  GpuDevice& gpu = enter("Stream::synchronize", d, where);
  require_no_capture(d.index);
  check(cudaStreamSynchronize(gpu.stream(stream)), "waiting for the stream");
  throw_reports(d.index);
}

void synchronize_device(Device d, Where where) {
  GpuDevice& gpu = enter("synchronize", d, where);
  require_no_capture(d.index);
  gpu.synchronize();
  throw_reports(d.index);
}

int current(Device d) noexcept { return current_stream(d.index); }
void set_current(Device d, int stream, Where where) {
  const GpuDevice& gpu = enter("StreamScope", d, where);
  if (capture_on(d.index) != nullptr)
    base::fail<Error>(where, "StreamScope: a captured step runs on a stream of its own; choose one around it.");
  if (gpu.records(stream))
    base::fail<Error>(where, "StreamScope: this stream is there to capture a step; take one of Stream::create.");
  set_current_stream(d.index, stream);
}

void restore_stream(Device d, int stream) noexcept { set_current_stream(d.index, stream); }

// --- events ---

void* make_event(Device d, Where where) {
  enter("Event", d, where);
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDefault), "making an event");
  return event;
}
void drop_event(Device, void* event) noexcept { cudaEventDestroy(static_cast<cudaEvent_t>(event)); }
void record_event(Device d, void* event, int stream, Where where) {
  GpuDevice& gpu = enter("Event", d, where);
  check(cudaEventRecord(static_cast<cudaEvent_t>(event), gpu.stream(stream)), "recording an event");
}
bool event_reached(void* event, Where where) {
  call_from(where);
  const cudaError_t status = cudaEventQuery(static_cast<cudaEvent_t>(event));
  if (status == cudaErrorNotReady) {
    cudaGetLastError();  // see has_reached
    return false;
  }
  check(status, "asking an event");
  return true;
}
void wait_event(Device d, void* event, Where where) {
  enter("Event::synchronize", d, where);
  require_no_capture(d.index);
  check(cudaEventSynchronize(static_cast<cudaEvent_t>(event)), "waiting for an event");
  throw_reports(d.index);
}
void stream_waits(Device d, int stream, void* event, Where where) {
  GpuDevice& gpu = enter("Stream::wait", d, where);
  check(cudaStreamWaitEvent(gpu.stream(stream), static_cast<cudaEvent_t>(event), 0), "waiting for an event");
}
double milliseconds(void* begin, void* end, Where where) {
  call_from(where);
  float time = 0;
  check(cudaEventElapsedTime(&time, static_cast<cudaEvent_t>(begin), static_cast<cudaEvent_t>(end)),
        "measuring the time between events");
  return static_cast<double>(time);
}

// --- captured steps ---

void* begin_capture(Device d, Where where) {
  if (current_capture() != nullptr)
    base::fail<Error>(where, "capture: this thread captures another step already; end that first.");
  enter("capture", d, where);
  auto step = std::make_unique<Capture>(d.index);
  step->begin();
  return step.release();
}
void end_capture(void* step, const Tensor* results, std::size_t count, Where where) {
  static_cast<Capture*>(step)->end(results, count, where);
}
void abandon_capture(void* step) noexcept { static_cast<Capture*>(step)->abandon(); }
void replay(void* step, Where where) { static_cast<Capture*>(step)->replay(where); }
std::int64_t kernels_of(void* step) noexcept { return static_cast<Capture*>(step)->kernels(); }
void drop_capture(void* step) noexcept { delete static_cast<Capture*>(step); }
core::Capturing* capturing() noexcept { return current_capture(); }
bool replace_numbers(const UpdateNumbers& now, std::uint64_t change) {
  Capture* step = replaying_capture();
  if (step == nullptr) return false;
  step->replace_numbers(now, change);
  return true;
}
bool replaying() noexcept { return replaying_capture() != nullptr; }

void throw_all_reports(Device d, Where where) {
  enter("synchronize", d, where);
  wait();
}

constexpr core::DeviceRuntime table{
    .device_count = &device_count,
    .make_storage = &make_storage,
    .destroy_storage = &destroy_storage,
    .waits_always = &waits_always,
    .call_from = &call_from,
    .transfer = &transfer,
    .transfer_later = &transfer_later,
    .make_pinned = &make_pinned,
    .is_pinned = &is_pinned,
    .stats = &stats,
    .total_memory = &total_memory,
    .set_limit = &set_limit,
    .set_cache_limit = &set_cache_limit,
    .release_cache = &release_cache,
    .reset_peak = &reset_peak,
    .open_stream = &open_stream,
    .close_stream = &close_stream,
    .native_stream = &native_stream,
    .stream_idle = &stream_idle,
    .synchronize_stream = &synchronize_stream,
    .synchronize_device = &synchronize_device,
    .current_stream = &current,
    .set_current_stream = &set_current,
    .restore_stream = &restore_stream,
    .make_event = &make_event,
    .drop_event = &drop_event,
    .record_event = &record_event,
    .event_reached = &event_reached,
    .wait_event = &wait_event,
    .stream_waits = &stream_waits,
    .milliseconds = &milliseconds,
    .allow_tf32 = &allow_tf32,
    .tf32_allowed = &tf32_allowed,
    .begin_capture = &begin_capture,
    .end_capture = &end_capture,
    .abandon_capture = &abandon_capture,
    .replay = &replay,
    .kernels_of = &kernels_of,
    .drop_capture = &drop_capture,
    .capturing = &capturing,
    .replace_numbers = &replace_numbers,
    .replaying = &replaying,
    .watch_numbers = &watch_numbers,
    .throw_reports = &throw_all_reports,
};

}  // namespace
}  // namespace on_cuda

namespace core {
const DeviceRuntime* cuda_runtime() noexcept { return &on_cuda::table; }
}  // namespace core
}  // namespace capstan
