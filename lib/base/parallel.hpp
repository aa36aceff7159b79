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

/// What a thread of the budget begins with in a loop of `count` >= 1 whose grain is 1, as long as there are 64 at most.
struct Range {
  std::int64_t begin, end;
};
Range share_of(std::int64_t thread, std::int64_t count) noexcept;

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

class Pool;

/// Jobs that a worker does beside the thread that gives them: one after the other, in their order. That thread must not
/// touch what a job writes, nor write what it reads, before it is done.
class JobQueue {
 public:
  using Job = void (*)(void* context) noexcept;
  static constexpr std::uint32_t kRoom = 16;

  /// Takes the worker, if there is one, nobody has it, and this is no parallel loop.
  JobQueue() noexcept;
  /// Finishes.
  ~JobQueue();
  JobQueue(const JobQueue&) = delete;
  JobQueue& operator=(const JobQueue&) = delete;

  bool has_worker() const noexcept { return pool_ != nullptr; }
  /// Adds a job, of which fewer than kRoom may be unfinished.
  void give(Job job, void* context) noexcept;
  std::uint32_t given() const noexcept { return given_; }
  std::uint32_t done() const noexcept;  // of those given
  /// Returns when all are done. Does them here if the worker has not begun.
  void finish() noexcept;

 private:
  Pool* pool_;
  std::uint32_t given_ = 0;
};

/// Whether a `RealTimeScope` lives in this thread.
bool in_real_time() noexcept;

/// Whether that scope is a rehearsal: kernels that choose a way by what the values are go all of them, so that later on
/// they find the memory for each.
bool rehearses() noexcept;

/// While one lives, loops of this thread run inline, and kernels keep away from what locks or allocates.
class RealTimeScope {
 public:
  explicit RealTimeScope(bool rehearsal = false) noexcept;
  ~RealTimeScope();
  RealTimeScope(const RealTimeScope&) = delete;
  RealTimeScope& operator=(const RealTimeScope&) = delete;

 private:
  bool inside_before_, real_time_before_, rehearsal_before_;
};

}  // namespace capstan::base
