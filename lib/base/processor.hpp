#pragma once
// What the processor and the system let this program use, beyond what compilers ask for themselves.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>

namespace capstan::base {

/// Whether instructions for tiles of bfloat16 (AMX-TILE, AMX-BF16) may run: the processor has them, and Linux lends
/// this program the memory that they take of every thread. Asks each time. Once it has been lent, signal stacks of
/// less than about 12 KiB, which could not hold it, are refused to the program; where one is in use, nothing is lent.
bool may_use_tiles() noexcept;

/// False in a virtual machine that shows one thread of each core: the other one, if there is one, may be somebody
/// else's, and take its part of the core unseen.
bool has_whole_cores() noexcept;

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

/// The least that the control groups of this process allow, by `processors_of_quota`; 0 if they do not limit it, or
/// cannot be read. Reads files each time.
int processor_quota() noexcept;

}  // namespace capstan::base
