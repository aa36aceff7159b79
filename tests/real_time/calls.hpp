#pragma once
// Calls that a thread with a deadline must not make, counted: of malloc and its like, mmap, locks, waiting, waking.
#include <cstdint>

namespace tests {

/// What this thread has called while it was watched.
struct Calls {
  std::int64_t count = 0;
  const char* first = "";  // the function that was called first
};

/// Watches this thread while it lives.
class Watch {
 public:
  explicit Watch(Calls& calls) noexcept;
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
};

/// Finds the C library's functions. To be called before anything is watched.
void find_functions();

}  // namespace tests
