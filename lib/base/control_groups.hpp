#pragma once
// What Linux leaves to a process of the machine: containers and services live in control groups, which have limits.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

namespace capstan::base {

/// Processors, rounded up, that "200000 100000" is the time of: microseconds in each period of so many, as a control
/// group's cpu.max has them. 0 if that is no limit ("max 100000", "-1 100000") or nothing that we understand.
inline int processors_of_quota(std::string_view text) noexcept {
  std::int64_t quota = 0, period = 0;
  const char* const end = text.data() + text.size();
  const auto [space, no_quota] = std::from_chars(text.data(), end, quota);
  if (no_quota != std::errc() || space == end || *space != ' ') return 0;
  const auto [rest, no_period] = std::from_chars(space + 1, end, period);
  if (no_period != std::errc() || rest != end || quota < 1 || period < 1) return 0;
  return static_cast<int>(std::min<std::int64_t>((quota - 1) / period + 1, INT32_MAX));
}

/// Bytes, as a control group's memory.max has them: "1073741824". 0 if that is no limit ("max") or nothing that we
/// understand. What stands there without a limit in version 1, 2^63 less a page, is returned as it is.
inline std::int64_t bytes_of_limit(std::string_view text) noexcept {
  std::int64_t bytes = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, bytes);
  return error == std::errc() && rest == end && bytes > 0 ? bytes : 0;
}

/// The groups of this process, of either version. All are read anew each time; what cannot be read has no limit.
struct ControlGroups {
  std::string list = "/proc/self/cgroup", root = "/sys/fs/cgroup";

  /// The least that a group allows which the process is in, by itself or within others; 0 if there is no limit.
  std::int64_t processors() const noexcept;
  std::int64_t memory_bytes() const noexcept;
};

}  // namespace capstan::base
