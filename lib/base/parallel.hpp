#pragma once
// Splitting loops over the thread budget.
#include <cstdint>
#include <type_traits>

namespace capstan::base {

using RangeFunction = void (*)(void* context, std::int64_t begin, std::int64_t end);

/// Calls `run` on pieces of [0, count) on up to `threads()` threads, for a loop that `splits`: each is at least `grain`
/// long, and none more than one longer than another.
void parallel_ranges(std::int64_t count, std::int64_t grain, RangeFunction run, void* context) noexcept;

/// True if a loop of `count` would be split: more than one piece and more than one thread.
bool splits(std::int64_t count, std::int64_t grain) noexcept;

/// Calls `body(begin, end)` on pieces of [0, count). `body` must not throw, and what it computes must not depend on
/// how the range is cut: that is what makes results independent of the number of threads. Runs inline when the loop is
/// short, inside another parallel loop, or when another thread is using the pool.
template <class Body>
void parallel_for(std::int64_t count, std::int64_t grain, Body&& body) noexcept {
  if (count <= 0) return;
  if (!splits(count, grain)) {
    body(std::int64_t{0}, count);
    return;
  }
  parallel_ranges(
      count, grain,
      [](void* context, std::int64_t begin, std::int64_t end) {
        (*static_cast<std::remove_reference_t<Body>*>(context))(begin, end);
      },
      const_cast<void*>(static_cast<const void*>(&body)));
}

/// Whether a `RealTimeScope` lives in this thread.
bool in_real_time() noexcept;

/// While one lives, loops of this thread run inline, and kernels keep away from what locks or allocates.
class RealTimeScope {
 public:
  RealTimeScope() noexcept;
  ~RealTimeScope();
  RealTimeScope(const RealTimeScope&) = delete;
  RealTimeScope& operator=(const RealTimeScope&) = delete;

 private:
  bool inside_before_, real_time_before_;
};

}  // namespace capstan::base
