#pragma once
// How much memory a call takes at its peak, as the system sees it: all of the process, the standard library's, too.
#include <malloc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "tests/catch.hpp"

namespace tests {

/// The most memory that the process had since the last call. None where the system does not tell.
inline std::optional<std::int64_t> resident_peak() {
  std::ifstream status("/proc/self/status");
  std::optional<std::int64_t> peak;
  for (std::string line; !peak && std::getline(status, line);)
    if (line.rfind("VmHWM:", 0) == 0) peak = std::int64_t{1024} * std::stoll(line.substr(6));
  std::ofstream reset("/proc/self/clear_refs");
  reset << "5" << std::flush;  // proc(5): from here on
  return reset.good() ? peak : std::nullopt;
}

/// That `call` takes at most so many bytes for each byte of the file that it reads, and 4 MiB for all else: what the
/// system does not count exactly, and pages of the program that are used for the first time. Under sanitizers, which
/// have memory of their own, it is only called.
inline void check_memory(std::size_t file_bytes, std::int64_t times, const std::function<void()>& call) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static_cast<void>(file_bytes);
  static_cast<void>(times);
  call();
#else
  constexpr std::int64_t kOther = 4 << 20;
  const std::int64_t allowed = times * static_cast<std::int64_t>(file_bytes) + kOther;
  std::int64_t taken = std::numeric_limits<std::int64_t>::max();
  for (int attempt = 0; attempt < 3 && taken > allowed; ++attempt) {  // threads of earlier cases may still take pages
    malloc_trim(0);                                                   // what was freed before counts as new
    resident_peak();
    const std::optional<std::int64_t> before = resident_peak();
    call();
    const std::optional<std::int64_t> after = resident_peak();
    if (!before || !after) {
      WARN("the system does not tell how much memory there was: this case checked nothing");
      return;
    }
    taken = std::min(taken, *after - *before);
  }
  CHECK(taken <= allowed);
#endif
}

}  // namespace tests
