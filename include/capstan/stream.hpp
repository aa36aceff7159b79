#pragma once
// Streams and events of GPUs. On the CPU, where everything is done when a call returns, they exist and do nothing.
#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

class Event;

struct StreamOptions {
  bool high_priority = false;  ///< its kernels go first where others wait for room
};

/// A queue of a GPU: what runs on it runs in order, beside what runs on others. Operations run on the current stream of
/// their thread and device (see StreamScope), which is the device's default stream at first, and return at once.
///
/// A tensor may be used on any stream: the library remembers which streams have read and written it, and lets an
/// operation wait on the GPU for those that it depends on. Its memory is reused only behind all of them. What other
/// programs do with raw pointers, they must order themselves (`wait`, `record`, `native`).
///
/// A Stream is a handle; copies mean the same stream. There are at most 55 besides the default one of a device, and 8 for
/// steps that are being captured.
class Stream {
 public:
  /// The default stream of the CPU.
  Stream() noexcept = default;
  /// A new stream. Throws DeviceError if the device is not there or has too many.
  static Stream create(Device device, StreamOptions options = {}, Where where = Where::current());
  /// The one that operations of this thread on that device run on.
  static Stream current(Device device, Where where = Where::current());

  Device device() const noexcept { return device_; }
  /// Whether it has done all that it was given.
  bool idle(Where where = Where::current()) const;
  /// Waits until it has. Throws the errors that kernels have reported: an IndexError of an index out of range, say.
  void synchronize(Where where = Where::current()) const;
  /// Lets the stream wait for an event; the host goes on.
  void wait(const Event& event, Where where = Where::current()) const;
  /// The cudaStream_t, as a pointer; null on the CPU.
  void* native(Where where = Where::current()) const;

  Stream(const Stream& other) noexcept;
  Stream& operator=(Stream other) noexcept;
  ~Stream();
  friend bool operator==(const Stream& a, const Stream& b) noexcept {
    return a.device_ == b.device_ && a.number_ == b.number_;
  }

 private:
  friend class StreamScope;
  friend class Event;
  Stream(Device device, int number, std::int64_t* references) noexcept
      : device_(device), number_(number), references_(references) {}
  Device device_ = cpu();
  int number_ = 0;                      // 0: the default stream
  std::int64_t* references_ = nullptr;  // of a stream that was created
};

/// A point in a stream, and when it was reached.
class Event {
 public:
  /// Behind what the stream has been given until now.
  explicit Event(const Stream& stream, Where where = Where::current());
  /// The same of the current stream of a device.
  explicit Event(Device device, Where where = Where::current());

  bool reached(Where where = Where::current()) const;
  void synchronize(Where where = Where::current()) const;  ///< the host waits for it
  /// Milliseconds of the device from `earlier` to this one; waits for both. Error if they are of two devices.
  double milliseconds_since(const Event& earlier, Where where = Where::current()) const;

  Event(Event&& other) noexcept
      : device_(other.device_), event_(std::exchange(other.event_, nullptr)), at_(other.at_) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(event_, other.event_);
    std::swap(at_, other.at_);
    return *this;
  }
  ~Event();

 private:
  friend class Stream;
  Device device_;
  void* event_ = nullptr;
  std::int64_t at_ = 0;  // nanoseconds, on the CPU
};

/// As long as it lives, operations of this thread on the stream's device run on that stream.
class [[nodiscard]] StreamScope {
 public:
  explicit StreamScope(const Stream& stream, Where where = Where::current());
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  Stream stream_;
  int before_ = 0;
};

/// Waits until the default stream of a device and all that were created have done what they were given; errors as of
/// Stream::synchronize.
void synchronize(Device device = default_device(), Where where = Where::current());

/// A copy in pinned memory of the host: `copy_async` between it and a GPU runs beside everything else. Such a tensor is
/// on the CPU and can be used as any other; `to` waits for the copy. On machines without a GPU it is an ordinary copy.
Tensor pinned(const Tensor& x, Where where = Where::current());
bool is_pinned(const Tensor& x, Where where = Where::current());

/// Copies x to the GPU, or back, or within one device, without waiting: `to` has x's shape and type (ShapeError,
/// DTypeError), both are contiguous (ShapeError), and the one on the host should be pinned (else the call waits). What
/// the host reads or changes before the event is reached is undetermined. Counts as a write to `to`, as `assign` does:
/// TapeError if a tape follows x, or `to` as the result of an operation.
Event copy_async(const Tensor& x, const Tensor& to, Where where = Where::current());

}  // namespace capstan
