#include "cuda/devices.hpp"

#include "cuda/context.hpp"

namespace capstan::on_cuda {
namespace {

/// The driver's memory, and marks as events.
class DriverSource : public Source {
 public:
  explicit DriverSource(int device) : device_(device) {}

  void* take(std::int64_t bytes) override {
    use_device(device_);
    void* segment = nullptr;
    const cudaError_t status = cudaMalloc(&segment, static_cast<std::size_t>(bytes));
    if (status != cudaErrorMemoryAllocation) {
      check(status, "allocating memory");  // after a kernel has failed nothing can be allocated, however much is free
      return segment;
    }
    cudaGetLastError();  // the next call is not to find it
    return nullptr;
  }
  // What follows is called while tensors go, and must not throw, also when a kernel has failed and with it everything.
  void give(void* segment) override {
    choose_device(device_);
    cudaFree(segment);
  }
  /// Null if the stream is done.
  void* mark(StreamId stream) override {
    GpuDevice& gpu = device(device_);
    if (gpu.records(stream)) return nullptr;
    choose_device(device_);
    try {
      cudaEvent_t event = gpu.borrow_event();
      cudaEventRecord(event, gpu.stream(stream));
      return event;
    } catch (...) {
      cudaStreamSynchronize(gpu.stream(stream));
      return nullptr;
    }
  }
  bool reached(void* mark) override { return mark == nullptr || has_reached(static_cast<cudaEvent_t>(mark)); }
  void wait(void* mark) override {
    if (mark != nullptr) cudaEventSynchronize(static_cast<cudaEvent_t>(mark));
  }
  void drop(void* mark) override {
    if (mark != nullptr) device(device_).return_event(static_cast<cudaEvent_t>(mark));
  }
  std::int64_t total() override { return info().second; }
  std::int64_t free() override { return info().first; }

 private:
  std::pair<std::int64_t, std::int64_t> info() const {
    use_device(device_);
    std::size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    return {static_cast<std::int64_t>(free), static_cast<std::int64_t>(total)};
  }
  int device_;
};

constinit thread_local std::int8_t streams[kMostDevices] = {};

cudaStream_t make_stream(bool high_priority) {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, high_priority ? -1 : 0), "making a stream");
  return stream;
}

}  // namespace

GpuDevice::GpuDevice(int index) : index_(index), allocator_(std::make_unique<DriverSource>(index)) {
  use_device(index);
  streams_[0] = make_stream(false);
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, sizeof(Mailbox), cudaHostAllocMapped | cudaHostAllocPortable), "making a mailbox");
  mailbox_ = new (memory) Mailbox;
}

StreamId GpuDevice::open_stream(StreamUse use) {
  const bool recording = use == StreamUse::recording;
  const int kept = kMostStreams - kRecordingStreams;
  const std::lock_guard lock(mutex_);
  StreamId other = 0;  // a closed one of the other priority, which is better than none
  for (StreamId id = recording ? kept : 1; id < (recording ? kMostStreams : kept); ++id) {
    const std::uint64_t bit = std::uint64_t{1} << id;
    if ((open_ & bit) != 0) continue;
    if (streams_[id] == nullptr) {
      use_device(index_);
      streams_[id] = make_stream(use == StreamUse::urgent);
      uses_[id] = use;
      if (recording) recording_.fetch_or(bit, std::memory_order_relaxed);
    } else if (uses_[id] != use) {
      other = id;
      continue;
    }
    open_ |= bit;
    return id;
  }
  if (other != 0) {
    open_ |= std::uint64_t{1} << other;
    return other;
  }
  if (recording)
    base::fail<DeviceError>(call().where, "capture: ", kRecordingStreams, " steps are being captured on cuda:", index_,
                            " already; that is the most.");
  base::fail<DeviceError>(call().where, "Stream: cuda:", index_, " has ", kept, " streams already; that is the most.");
}

void GpuDevice::close_stream(StreamId id) noexcept {
  const std::lock_guard lock(mutex_);
  open_ &= ~(std::uint64_t{1} << id);
}

void GpuDevice::synchronize() {
  for (StreamId id = 0; id < kMostStreams; ++id) {
    cudaStream_t made = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (!records(id)) made = streams_[id];
    }
    if (made != nullptr) check(cudaStreamSynchronize(made), "waiting for the device");
  }
}

void GpuDevice::order(StreamId earlier, StreamId later) {
  if (records(earlier)) return;
  cudaEvent_t event = borrow_event();
  check(cudaEventRecord(event, stream(earlier)), "recording an event");
  check(cudaStreamWaitEvent(stream(later), event, 0), "waiting for an event");
  return_event(event);  // recording it again does not change what has been waited for
}

cudaEvent_t GpuDevice::borrow_event() {
  {
    const std::lock_guard lock(mutex_);
    if (!events_.empty()) {
      cudaEvent_t event = events_.back();
      events_.pop_back();
      return event;
    }
  }
  use_device(index_);
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
  return event;
}

void GpuDevice::return_event(cudaEvent_t event) noexcept {
  const std::lock_guard lock(mutex_);
  events_.push_back(event);
}

GpuDevice& device(int index) {
  static std::mutex mutex;
  static std::atomic<GpuDevice*> devices[kMostDevices] = {};
  const bool possible = index >= 0 && index < kMostDevices;
  if (GpuDevice* known = possible ? devices[index].load(std::memory_order_acquire) : nullptr; known != nullptr)
    return *known;
  if (!possible || index >= core::cuda_device_count())
    base::fail<DeviceError>(call().where, call().op, ": cuda:", index, " was asked for and there are ",
                            core::cuda_device_count(), " GPUs; their numbers begin with 0.");
  const std::lock_guard lock(mutex);
  if (devices[index].load() == nullptr) devices[index].store(new GpuDevice(index), std::memory_order_release);
  return *devices[index].load();
}

cudaError_t choose_device(int index) noexcept {
  int now = -1;  // asked every time: the program may choose for itself
  if (cudaGetDevice(&now) == cudaSuccess && now == index) return cudaSuccess;
  return cudaSetDevice(index);
}
bool has_reached(cudaEvent_t event) noexcept {
  if (cudaEventQuery(event) != cudaErrorNotReady) return true;
  cudaGetLastError();  // libraries that look for errors of their own would find it
  return false;
}
void use_device(int index) { check(choose_device(index), "choosing the GPU"); }

StreamId current_stream(int device) noexcept { return streams[device]; }
void set_current_stream(int device, StreamId stream) noexcept { streams[device] = static_cast<std::int8_t>(stream); }

}  // namespace capstan::on_cuda
