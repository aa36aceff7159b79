#pragma once
// Where tensors live.
#include <cstdint>
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
/// The GPU of that number. Naming one always works; using one that is not there throws DeviceError.
constexpr Device cuda(int index = 0) noexcept { return {DeviceKind::cuda, static_cast<std::int8_t>(index)}; }
/// True if this build has the CUDA backend and the machine has a usable GPU.
bool cuda_available() noexcept;

/// "cpu", "cuda:0".
std::string to_string(Device device);

}  // namespace capstan
