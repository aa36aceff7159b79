#pragma once
// One sliding window over up to three axes, in numbers.
#include <cstdint>

namespace capstan::core {

struct WindowAxis {
  std::int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1;
  std::int64_t before = 0, after = 0;  // zeros in front of the input and behind it
  /// How far the kernel reaches.
  std::int64_t extent() const noexcept { return (kernel - 1) * dilation + 1; }
};

struct Window {
  int axes = 0;
  WindowAxis axis[3];
  std::int64_t in() const noexcept { return axis[0].in * axis[1].in * axis[2].in; }
  std::int64_t out() const noexcept { return axis[0].out * axis[1].out * axis[2].out; }
  std::int64_t kernel() const noexcept { return axis[0].kernel * axis[1].kernel * axis[2].kernel; }
};

}  // namespace capstan::core
