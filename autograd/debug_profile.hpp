#pragma once
// What the profiler and the memory timeline keep.
#include <compare>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <capstan/debug.hpp>

#include "lib/core/observe.hpp"

namespace capstan {
namespace autograd {

struct ProfileKey {
  std::string_view op, file;
  std::uint_least32_t line;
  bool backward;
  auto operator<=>(const ProfileKey&) const = default;
};

struct ProfileSums {
  Where where;
  std::int64_t count = 0, nanoseconds = 0, device = 0, bytes = 0;
};

struct ProfileEvent {
  const char* op;
  Where where;
  std::int64_t begin, end;  // nanoseconds
  std::int64_t device;      // of them, at the end: what a GPU took
  int gpu;                  // its number, or -1
  int thread;
  bool backward;
  std::string shapes;
};

struct MemorySample {
  std::int64_t time, bytes;
};

/// The two in the Trace Event Format.
std::string chrome_trace(const std::vector<ProfileEvent>& events, const std::vector<MemorySample>& samples);

}  // namespace autograd

namespace debug {

struct ProfilerState final : core::Watcher {
  std::mutex mutex;  // of what follows
  std::map<autograd::ProfileKey, autograd::ProfileSums> sums;
  std::vector<autograd::ProfileEvent> events;
  std::size_t max_events = 0;
  std::int64_t dropped = 0;

  std::mutex control;  // of starting and stopping; never taken while an operation is told of
  bool running = false;

  void see(const core::Event& event) override;
};

struct MemoryTimelineState final : core::MemoryWatcher {
  struct Line {
    Where where;
    std::int64_t current = 0, peak = 0, blocks = 0;
    std::int64_t at_peak = 0;     // what it was at the peak of that number ...
    std::uint64_t peak_seen = 0;  // ... as far as it has changed since; else `current` is
    std::int64_t at(std::uint64_t newest_peak) const noexcept { return peak_seen == newest_peak ? at_peak : current; }
  };

  std::mutex mutex;
  std::map<std::pair<std::string_view, std::uint_least32_t>, Line> lines;
  std::vector<autograd::MemorySample> samples;  // never grows beyond what is reserved
  std::int64_t current = 0, peak = 0;
  std::uint64_t peaks = 0;  // times that the peak rose
  std::int64_t changes = 0, stride = 1;

  void made(Where where, std::int64_t bytes) override;
  void gone(Where where, std::int64_t bytes) noexcept override;
  void change(Line& line, std::int64_t bytes) noexcept;
  void sample() noexcept;
};

}  // namespace debug
}  // namespace capstan
