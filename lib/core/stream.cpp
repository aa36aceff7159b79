#include <capstan/stream.hpp>

#include "lib/base/text.hpp"
#include "lib/core/backend.hpp"
#include "lib/core/device_runtime.hpp"
#include "lib/core/observe.hpp"

namespace capstan {
namespace {

/// The runtime of a GPU, or null for the CPU.
const core::DeviceRuntime* runtime_of(const char* op, Device device, Where where) {
  core::require_device(op, device, where);
  return device.kind == DeviceKind::cpu ? nullptr : core::cuda_runtime();
}

}  // namespace

// --- streams ---

Stream Stream::create(Device device, StreamOptions options, Where where) {
  const auto* gpu = runtime_of("Stream::create", device, where);
  auto* references = new std::int64_t(1);
  if (gpu == nullptr) return Stream(device, 0, references);
  try {
    return Stream(device, gpu->open_stream(device, options.high_priority, where), references);
  } catch (...) {
    delete references;
    throw;
  }
}

Stream Stream::current(Device device, Where where) {
  const auto* gpu = runtime_of("Stream::current", device, where);
  return Stream(device, gpu != nullptr ? gpu->current_stream(device) : 0, nullptr);
}

Stream::Stream(const Stream& other) noexcept
    : device_(other.device_), number_(other.number_), references_(other.references_) {
  if (references_ != nullptr) __atomic_fetch_add(references_, 1, __ATOMIC_RELAXED);
}
Stream& Stream::operator=(Stream other) noexcept {
  std::swap(device_, other.device_);
  std::swap(number_, other.number_);
  std::swap(references_, other.references_);
  return *this;
}
Stream::~Stream() {
  if (references_ == nullptr || __atomic_sub_fetch(references_, 1, __ATOMIC_ACQ_REL) > 0) return;
  if (device_.kind != DeviceKind::cpu) core::cuda_runtime()->close_stream(device_, number_);
  delete references_;
}

bool Stream::idle(Where where) const {
  return device_.kind == DeviceKind::cpu || core::cuda_runtime()->stream_idle(device_, number_, where);
}
void Stream::synchronize(Where where) const {
  if (device_.kind != DeviceKind::cpu) core::cuda_runtime()->synchronize_stream(device_, number_, where);
}
void Stream::wait(const Event& event, Where where) const {
  if (device_.kind == DeviceKind::cpu) return event.synchronize(where);
  if (event.event_ != nullptr) core::cuda_runtime()->stream_waits(device_, number_, event.event_, where);
}
void* Stream::native(Where where) const {
  const auto* gpu = runtime_of("Stream::native", device_, where);
  return gpu != nullptr ? gpu->native_stream(device_, number_) : nullptr;
}

void synchronize(Device device, Where where) {
  if (const auto* gpu = runtime_of("synchronize", device, where)) gpu->synchronize_device(device, where);
}

// --- events ---

Event::Event(const Stream& stream, Where where) : device_(stream.device_), at_(core::nanoseconds()) {
  const auto* gpu = runtime_of("Event", device_, where);
  if (gpu == nullptr) return;
  event_ = gpu->make_event(device_, where);
  try {
    gpu->record_event(device_, event_, stream.number_, where);
  } catch (...) {
    gpu->drop_event(device_, event_);
    throw;
  }
}
Event::Event(Device device, Where where) : Event(Stream::current(device, where), where) {}
Event::~Event() {
  if (event_ != nullptr) core::cuda_runtime()->drop_event(device_, event_);
}

bool Event::reached(Where where) const {
  return event_ == nullptr || core::cuda_runtime()->event_reached(event_, where);
}
void Event::synchronize(Where where) const {
  if (event_ != nullptr) core::cuda_runtime()->wait_event(device_, event_, where);
}
double Event::milliseconds_since(const Event& earlier, Where where) const {
  if (!(device_ == earlier.device_))
    base::fail<Error>(where, "Event::milliseconds_since: the events are of ", earlier.device_, " and ", device_,
                      "; they must be of one device.");
  earlier.synchronize(where);
  synchronize(where);
  if (event_ == nullptr) return static_cast<double>(at_ - earlier.at_) * 1e-6;
  return core::cuda_runtime()->milliseconds(earlier.event_, event_, where);
}

// --- scopes ---

StreamScope::StreamScope(const Stream& stream, Where where) : stream_(stream) {
  const auto* gpu = runtime_of("StreamScope", stream.device_, where);
  if (gpu == nullptr) return;
  before_ = gpu->current_stream(stream.device_);
  gpu->set_current_stream(stream.device_, stream.number_, where);
}
StreamScope::~StreamScope() {
  if (stream_.device_.kind == DeviceKind::cpu) return;
  core::cuda_runtime()->restore_stream(stream_.device_, before_);
}

// --- copies ---

Tensor pinned(const Tensor& x, Where where) {
  const TensorImpl& impl = core::defined("pinned", x, where);
  if (!cuda_available()) return x.device(where).kind == DeviceKind::cpu ? x.copy(where) : x.to(cpu(), where);
  const Tensor host = x.to(cpu(), where);
  core::note_start();
  Tensor out = core::cuda_runtime()->make_pinned(impl.shape, impl.dtype, where);
  core::cpu_backend().copy(*host.impl(), *out.impl());
  core::note_made("pinned", out, where);
  return out;
}

bool is_pinned(const Tensor& x, Where where) {
  const TensorImpl& impl = core::defined("is_pinned", x, where);
  return core::cuda_runtime() != nullptr && core::cuda_runtime()->is_pinned(impl);
}

}  // namespace capstan
