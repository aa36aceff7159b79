#pragma once
// Looking into a computation while it runs: the operation that first makes a NaN, every operation as it runs, how
// values change from step to step, where the time and the memory go.
//
// Every operation reports itself: its name, the line of your program that called it, what went in and what came out.
// Nothing needs to be rebuilt, and while nothing here is on an operation only loads one flag, a few times. All of it
// works from several threads. Defined in autograd/debug_*.cpp.
#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include <capstan/callback.hpp>
#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace debug {

// --- values that are no numbers any more -----------------------------------------------------------------------

struct NumericsOptions {
  bool allow_infinity = false;  ///< look for NaN only
};

/// From here on, on all threads, the operation that first makes a NaN or an infinity throws NumericError:
///
///   log at train.cpp:57 made 3 of 640 values -inf; first at [4, 12]; its input there is 0 (softmax at train.cpp:55)
///
/// Blamed      an operation whose operands, as far as they are floating, are all finite, and whose result is not; in
///             a replay too: "gradient of sqrt at ...". Not blamed: what makes a tensor from nothing (`full` of
///             infinity, your own data), what writes a number it was given (`where` with -infinity, `pad`), and what
///             adds its part to a gradient that was not finite before.
/// After it    the result is not there and nothing was recorded; an operation in place has changed its tensor; a tape
///             that was computing gradients is spent unless it is persistent. Values that were made while this was off
///             are nobody's fault later on.
/// Cost        one pass over each result while it is on, and some tens of nanoseconds an operation
void check_numerics(bool on, NumericsOptions options = {});

/// The same for the calling thread and a while; also to leave a part of the program out, with `on` false.
class [[nodiscard]] NumericsScope {
 public:
  explicit NumericsScope(bool on = true, NumericsOptions options = {});
  ~NumericsScope();  ///< on the thread it was made on; scopes end in the reverse order
  NumericsScope(const NumericsScope&) = delete;
  NumericsScope& operator=(const NumericsScope&) = delete;

 private:
  std::uint8_t before_;
  bool on_;
};

// --- operations as they run ------------------------------------------------------------------------------------

/// Writes a line for every operation of every thread, from here on, as soon as it has run:
///
///   matmul  [64, 128] [128, 10] -> [64, 10]  float32 cpu  12.3 us  train.cpp:57
///   backward matmul  [64, 10] -> [64, 128] [128, 10]  float32 cpu  20.1 us  train.cpp:57
///
/// Operations that are made of others show as those others; a few (`pinv`, `is_close`) stand behind
/// them as well, with 0.0 us. Replays count without what they call, whose lines end in `in the gradient of ...`. Lines
/// are written whole, one at a time; once a second thread has reported an operation, they begin with the thread's
/// number. `out` must live until stop_trace(); a second call changes to another stream.
void trace(std::ostream& out);
/// When it returns, nothing writes to the stream any more.
void stop_trace();

/// An operation that has just run, as an Observer sees it.
struct Operation {
  const char* name;                        ///< "matmul"; lives as long as the program
  Where where;                             ///< the place that called it
  std::span<const Tensor* const> inputs;   ///< lent; some may be undefined
  std::span<const Tensor* const> outputs;  ///< likewise
  bool backward = false;                   ///< a replay, whose inputs are gradients and what was saved, or part of one
  bool composed = false;                   ///< computed nothing itself: a view, or made of others, seen before it
  std::int64_t reads = 0;                  ///< of pooling: elements in all of its windows; 0 where shapes tell
};

/// Calls a function for every operation of the thread that made it, as soon as it has run, while it lives: for counting,
/// checking and collecting what the tools here do not. `see` may use tensors, which is not observed, but must not make or
/// end observers, traces or profilers. What it throws comes out of the operation, which is not recorded then. An
/// operation in place has its tensor among the outputs. Throws Error for an empty function.
///
///   std::map<std::string, int> counts;
///   cs::debug::Observer observer([&](const cs::debug::Operation& op) { ++counts[op.name]; });
class Observer {
 public:
  explicit Observer(Callback<void(const Operation&)> see, Where where = Where::current());
  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

 private:
  struct ObserverState* state_;  // owned; hidden in autograd/debug_observer.cpp
};

// --- values from step to step ----------------------------------------------------------------------------------

/// Figures of a tensor at one call of `watch`.
struct WatchedRow {
  std::int64_t step = 0;  ///< calls of `watch` under that name before this one
  /// Of the finite values; NaN if there are none. `stddev` is of the population.
  double min = 0, max = 0, mean = 0, stddev = 0;
  std::int64_t count = 0, nan = 0, infinite = 0;  ///< elements, and how many of them are no numbers
  double zero_share = 0;                          ///< part of the elements that are 0
};

/// Takes down the figures of a tensor under a name. Called once in every step it shows how they change.
/// Cost  two passes over the elements; memory for 256 rows a name: of more, only every second, fourth, ... is kept
void watch(const std::string& name, const Tensor& tensor, Where where = Where::current());
/// The rows kept under a name, in their order, the last call's at the end. Error if there is no such name.
std::vector<WatchedRow> history(const std::string& name, Where where = Where::current());
/// A table, one line a name: first and last figures, and how the mean went.
std::string watched();
void print_watched(std::ostream& out);
void clear_watched();

// --- memory ----------------------------------------------------------------------------------------------------

struct MemoryTimelineOptions {
  /// Of the course over time, kept in memory taken at once; more than that thin it out. >= 2 (Error), and no more than
  /// there is memory for (OutOfMemoryError).
  std::int64_t max_events = 65536;
};

/// What one line of the program occupies, in bytes of elements.
struct MemoryLine {
  std::string where;  ///< "train.cpp:57"
  std::int64_t at_peak = 0, current = 0, peak = 0;
  std::int64_t blocks = 0;  ///< blocks made there, those that are gone included
};

/// Follows the memory of tensors that are made while it lives, on all threads, by the line of the program that made
/// them. Memory lent to tensors (`from_memory`) and workspace inside of operations do not count.
class MemoryTimeline {
 public:
  using Options = MemoryTimelineOptions;
  explicit MemoryTimeline(Options options = {}, Where where = Where::current());
  ~MemoryTimeline();
  MemoryTimeline(const MemoryTimeline&) = delete;
  MemoryTimeline& operator=(const MemoryTimeline&) = delete;

  std::int64_t current_bytes() const;
  std::int64_t peak_bytes() const;
  /// The most at the peak first.
  std::vector<MemoryLine> table() const;
  std::string report() const;  ///< the same as text, with the totals

 private:
  friend class Profiler;
  struct MemoryTimelineState* state_;  // owned; hidden in autograd/debug_profile.hpp
};

// --- time ------------------------------------------------------------------------------------------------------

struct ProfilerOptions {
  std::int64_t max_events = 100'000;  ///< kept for write_chrome_trace; tables count all. >= 0 (Error)
};

enum class ProfileBy : std::uint8_t { operation, line };

struct ProfileRow {
  std::string name;       ///< "matmul", or "train.cpp:57"
  std::string what;       ///< by line: the operations there
  bool backward = false;  ///< replays, and what runs inside of them
  std::int64_t count = 0;
  double total_us = 0, mean_us = 0;  ///< time inside of each operation itself
  double device_us = 0;              ///< of the total, what a GPU took; 0 for what ran on the CPU
  double share = 0;                  ///< of the total time of all operations
  std::int64_t bytes = 0;            ///< elements read and written, as far as operands tell
};

/// Counts and times the operations of all threads while it lives.
///
/// On a GPU    every operation is waited for as soon as it is issued, as it also is while an Observer or a trace is on:
///             nothing overlaps, and a program takes longer than by itself. `device_us` is what the operation's kernels
///             took by the GPU's own clock; `total_us` is what its caller waited, which is that and the issuing. Where
///             the two lie far apart, the GPU is idle most of the time: larger batches help, or a captured step. A
///             captured step shows while it is recorded, without device times; its replays are no operations
/// On the host what a GPU leaves to the CPU is an operation of its own, "lstsq on the host", and has no device time
class Profiler {
 public:
  using Options = ProfilerOptions;
  explicit Profiler(Options options = {}, Where where = Where::current());
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  void stop();   ///< what was measured stays
  void start();  ///< again; a new profiler is running
  void reset();  ///< forgets what was measured

  /// The longest first.
  std::vector<ProfileRow> table(ProfileBy by = ProfileBy::operation) const;
  std::string report() const;  ///< both tables as text

  /// Writes the operations in the Trace Event Format, for https://ui.perfetto.dev or chrome://tracing, and with
  /// `memory` its course below them. A GPU is a process of its own there, "cuda:0": each operation's device time, at the
  /// end of the time that the host waited. Throws IoError if the file cannot be written.
  void write_chrome_trace(const std::string& path, const MemoryTimeline* memory = nullptr,
                          Where where = Where::current()) const;

 private:
  struct ProfilerState* state_;  // owned; hidden in autograd/debug_profile.hpp
};

}  // namespace debug
}  // namespace capstan
