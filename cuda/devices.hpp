#pragma once
// The GPUs of this process: for each its allocator, its streams and its mailbox.
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "cuda/allocator.hpp"
#include "cuda/mailbox.hpp"

namespace capstan::on_cuda {

inline constexpr int kMostDevices = 16;
inline constexpr int kMostStreams = 64;      // of a device; what used a tensor is kept as a bit for each
inline constexpr int kRecordingStreams = 8;  // of these, the last ones: for steps that are being captured

/// What a stream is for. Steps are captured on streams of their own, on which nothing ever runs: nobody has to wait for
/// them, or may, since that ends the capture of whatever thread uses them.
enum class StreamUse : std::uint8_t { normal, urgent, recording };

/// What belongs to one GPU. Never destroyed: tensors with static lifetime may go at any time.
class GpuDevice {
 public:
  explicit GpuDevice(int index);

  int index() const noexcept { return index_; }
  Allocator& allocator() noexcept { return allocator_; }
  Mailbox* mailbox() noexcept { return mailbox_; }

  /// The stream of a number that has been opened. Number 0 is always there.
  cudaStream_t stream(StreamId id) const noexcept { return streams_[id]; }
  /// A stream that nobody else has. Closed streams are used again, behind what they still have to do.
  StreamId open_stream(StreamUse use);
  void close_stream(StreamId id) noexcept;
  bool records(StreamId id) const noexcept { return (recording_.load(std::memory_order_relaxed) >> id & 1) != 0; }
  /// Waits for all streams, while other threads capture steps as well: cudaDeviceSynchronize would spoil those.
  void synchronize();
  /// `later` goes on when `earlier` has done all that it has to do now.
  void order(StreamId earlier, StreamId later);

  cudaEvent_t borrow_event();  // without timing
  void return_event(cudaEvent_t event) noexcept;

 private:
  int index_;
  Allocator allocator_;
  Mailbox* mailbox_ = nullptr;
  std::mutex mutex_;
  cudaStream_t streams_[kMostStreams] = {};
  StreamUse uses_[kMostStreams] = {};
  std::uint64_t open_ = 1;  // a bit for each stream
  std::atomic<std::uint64_t> recording_{0};
  std::vector<cudaEvent_t> events_;
};

/// Throws DeviceError if there is no such device.
GpuDevice& device(int index);
/// Makes that GPU this thread's current one for the runtime's functions.
void use_device(int index);
/// The same, as far as it can be had: for what must not throw.
cudaError_t choose_device(int index) noexcept;

/// Whether an event has been reached; also if something has gone wrong, which others will tell.
bool has_reached(cudaEvent_t event) noexcept;

/// The stream that this thread's operations on a device run on.
StreamId current_stream(int device) noexcept;
void set_current_stream(int device, StreamId stream) noexcept;

}  // namespace capstan::on_cuda
