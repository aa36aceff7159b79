#pragma once
// Where tensors live.
#include <cstdint>
#include <iosfwd>
#include <string>

#include <capstan/error.hpp>

namespace capstan CAPSTAN_PUBLIC {

enum class DeviceKind : std::uint8_t { cpu, cuda };

/// A place that holds tensors and computes on them. Make one with `cpu()` or `cuda(index)`.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  std::int8_t index = 0;
  friend bool operator==(Device, Device) noexcept = default;
};

constexpr Device cpu() noexcept { return {}; }
template <class F>
class Captured;

/// The GPU of a number: `cuda(0)`. Naming one always works; using one that is not there throws DeviceError. Also where
/// functions for GPUs stand.
struct cuda : Device {
  constexpr explicit cuda(int number = 0) noexcept
      : Device{DeviceKind::cuda, static_cast<std::int8_t>(number < 0 || number > 127 ? -1 : number)} {}

  /// A function of tensors that is recorded as a CUDA graph and replayed; see capstan/capture.hpp.
  template <class F>
  static Captured<F> capture(F function, Device device = cuda(), Where where = Where::current());
  /// Whether products of float32 matrices and convolutions may round their factors to TF32: ten bits of precision, and
  /// several times as fast. Off until asked for; of the whole program.
  static void allow_tf32(bool on) noexcept;
  static bool tf32_allowed() noexcept;
  /// GPUs of this machine that this build can use.
  static int count() noexcept;
};
/// True if this build has the CUDA backend and the machine has a usable GPU.
bool cuda_available() noexcept;

/// Where tensors are made that name no device: the CPU, unless a DeviceScope of this thread says otherwise.
Device default_device() noexcept;
/// A device, or none: then the default device of the thread that uses it.
class DeviceChoice {
 public:
  constexpr DeviceChoice() noexcept = default;
  constexpr DeviceChoice(Device device) noexcept : device_(device), chosen_(true) {}
  operator Device() const noexcept { return chosen_ ? device_ : default_device(); }

 private:
  Device device_{};
  bool chosen_ = false;
};

/// As long as it lives, tensors that this thread makes without naming a device are made on that one: `zeros({3})`,
/// `Tensor{1, 2}`, parameters of layers. Not `from_memory`, whose memory is the host's. Throws DeviceError if the
/// device is not there.
class [[nodiscard]] DeviceScope {
 public:
  explicit DeviceScope(Device device, Where where = Where::current());
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  Device before_;
};

/// "cpu", "cuda:0".
std::string to_string(Device device);
std::ostream& operator<<(std::ostream& out, Device device);

}  // namespace capstan
