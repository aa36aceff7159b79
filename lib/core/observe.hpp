#pragma once
// What debugging sees: operations, each of which says when it starts and what it has made, and blocks of memory.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/core/tensor_impl.hpp"

namespace capstan::core {

/// One operation that has just run, or the replay of one.
struct Operation {
  const char* op;  // lives as long as the program
  Where where;
  std::span<const Tensor* const> inputs;   // of a replay: the gradients that came in, then what had been saved
  std::span<const Tensor* const> outputs;  // of a replay: the gradients for the inputs
  bool backward = false;
  std::size_t incoming = 0;  // of a replay: so many of the inputs are gradients
};

/// The kinds of watchers that are on; 0 as a rule, and then asking costs one load and a branch.
extern constinit std::atomic<unsigned> observers;
inline constexpr unsigned kWatchTimes = 1, kWatchResults = 2, kWatchMemory = 4;
inline bool watched(unsigned kinds) noexcept {
  return __builtin_expect((observers.load(std::memory_order_relaxed) & kinds) != 0, false);
}
/// Whether somebody wants to know of operations.
inline bool observed() noexcept { return watched(kWatchTimes | kWatchResults); }

// --- what operations call ---

/// Starts the clock of the next operation to be reported on this thread.
void operation_starts() noexcept;
inline void note_start() noexcept {
  if (watched(kWatchTimes)) operation_starts();
}
/// Of the operation to be reported next: how many elements it reads, counting each as often as it is read. For those
/// whose shapes do not tell.
void operation_reads(std::int64_t elements) noexcept;
/// Of the same: nanoseconds that a GPU took for it.
void operation_took(std::int64_t nanoseconds) noexcept;
/// What the replay of an operation has computed by itself until now is its own time, not that of what it calls next.
void replay_computed() noexcept;
inline void note_own() noexcept {
  if (watched(kWatchTimes)) replay_computed();
}
/// Tells all watchers. May throw NumericError.
void operation_ends(const Operation& operation);

/// A tensor made from nothing, by an operation that tapes never see.
inline void note_made(const char* op, const Tensor& made, Where where) {
  if (!observed()) return;
  const Tensor* const outputs[] = {&made};
  operation_ends({op, where, {}, outputs});
}

/// Around the replay of an operation, made only if somebody watches.
class ReplayWatch {
 public:
  explicit ReplayWatch(const char* op) noexcept;
  ~ReplayWatch();
  ReplayWatch(const ReplayWatch&) = delete;
  ReplayWatch& operator=(const ReplayWatch&) = delete;
  /// Tells all watchers. May throw NumericError.
  void ends(const Operation& operation);

 private:
  const char* outer_;
  std::int64_t begin_, own_before_, watching_before_, reports_before_, device_before_;
};

// --- what watchers are told ---

/// Nanoseconds of the steady clock.
std::int64_t nanoseconds() noexcept;

struct Event {
  const Operation& operation;
  std::int64_t begin, end;  // nanoseconds
  std::int64_t own;         // the same without the operations in it, and without watching
  int thread;               // 1, 2, ... in the order they were first seen
  const char* inside;       // the operation whose gradient is running, or null
  bool composed;            // it computed nothing itself: a view, or made of others, which were reported by themselves
  std::int64_t reads;       // what the operation said by operation_reads, or 0
  std::int64_t device;      // nanoseconds that a GPU took for it, or 0
};

class Watcher {
 public:
  virtual void see(const Event& event) = 0;  // on the operation's thread; what it computes is not watched

 protected:
  ~Watcher() = default;
};
/// Of the calling thread; no other thread ever has it.
int thread_number() noexcept;
void add_watcher(Watcher& watcher);
/// When it returns, no thread is telling the watcher anything.
void remove_watcher(Watcher& watcher) noexcept;

/// Looks at the results of each operation, on its thread, after the watchers; may throw NumericError. `inside` as in
/// an Event. There is one such function at most, and without watchers no clock is read for it.
using ResultCheck = void (*)(const Operation& operation, const char* inside);
/// Null for none. A thread that is just telling of an operation may call the one before it once more.
void set_result_check(ResultCheck check) noexcept;

/// One that is told of blocks made after it was added, and when such a block goes.
class MemoryWatcher {
 public:
  virtual void made(Where where, std::int64_t bytes) = 0;
  virtual void gone(Where where, std::int64_t bytes) noexcept = 0;

 protected:
  ~MemoryWatcher() = default;

 private:
  friend void add_memory_watcher(MemoryWatcher&);
  friend void storage_gone(const Storage&) noexcept;
  std::uint32_t since_ = 0;
};
void add_memory_watcher(MemoryWatcher& watcher);
void remove_memory_watcher(MemoryWatcher& watcher) noexcept;

/// Called where somebody watches, and where somebody watched when the block was made.
void storage_made(Storage& storage, Where where) noexcept;
void storage_gone(const Storage& storage) noexcept;

}  // namespace capstan::core
