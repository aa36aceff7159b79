#pragma once
// Tasks that need scratch memory: each thread has a slot for its own, so that nothing is allocated while they run.
#include <algorithm>
#include <atomic>
#include <cstdint>

#include <capstan/threads.hpp>

#include "lib/base/parallel.hpp"

namespace capstan::on_cpu {

/// Works on all tasks on as many threads as their arithmetic is worth, one below `least` of it;
/// each thread uses one of `slots()` slots. What a task computes must not depend on the others.
class Tasks {
 public:
  Tasks(std::int64_t count, double operations, double least = 1e6)
      : count_(count), slots_(operations < least ? 1 : std::min<std::int64_t>(threads(), count)) {}
  std::int64_t slots() const noexcept { return slots_; }
  /// Calls `work(task, slot)` for each.
  template <class Work>
  void run(Work work) const {
    run_pieces([&](std::int64_t begin, std::int64_t end, std::int64_t slot) {
      for (std::int64_t task = begin; task < end; ++task) work(task, slot);
    });
  }
  /// Calls `work(begin, end, slot)` for runs of them.
  template <class Work>
  void run_pieces(Work work) const {
    std::atomic<std::int64_t> next = 0;
    const std::int64_t piece = count_ / (32 * slots_) + 1;  // each waits for the stores before it
    base::parallel_for(slots_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t slot = begin; slot < end; ++slot)
        for (std::int64_t first; (first = next.fetch_add(piece, std::memory_order_relaxed)) < count_;)
          work(first, std::min(first + piece, count_), slot);
    });
  }

 private:
  std::int64_t count_, slots_;
};

}  // namespace capstan::on_cpu
