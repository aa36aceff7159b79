#pragma once
// A bar: what it has been told, when its thread looks at the clock, and what the display knows of it.
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <capstan/io/progress.hpp>

#include "io/progress_text.hpp"

namespace capstan::io {

inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

/// After how many steps the clock is worth a look: those of about a millisecond, at most twice as many as last time. A
/// loop that becomes a hundred times slower is then seen to within the tenth of a second at which bars are drawn.
class Pace {
 public:
  void start(std::int64_t done, double now);
  /// So many are done at a look at the clock: the count of the next one.
  std::int64_t next(std::int64_t done, double now);

 private:
  double time_ = 0;
  std::int64_t done_ = 0, step_ = 1;
};

/// What stands behind the bar. Set at any step by any thread, read when a line is made.
class ProgressFigures {
 public:
  void set(std::string_view name, double value);
  void set(std::string_view name, std::string_view value);
  void clear();
  /// "loss 0.1234  phase warm-up".
  std::string text() const;

 private:
  struct Figure {
    std::string name;
    std::optional<double> number;
    std::string text;  // if it is no number
  };
  Figure& find(std::string_view name);

  mutable std::mutex mutex_;
  std::vector<Figure> figures_;
};

struct ProgressBar final : capstan::detail::ProgressCount {
  std::string title, unit;
  std::int64_t total = -1, start = 0;  // -1: unknown
  ProgressMode wish = ProgressMode::automatic;
  std::optional<bool> keep;
  ProgressFigures figures;

  // Whoever has set look_at to kNever has these, and sets it again.
  Pace pace;
  double due = 0;  // when a line may be

  // The display's, under its mutex.
  ProgressMode mode = ProgressMode::off;  // never automatic; stays while the bar runs
  std::thread::id thread;
  int depth = 0;
  bool running = false;
  double began = 0, ended = 0;
  RateMeter rate;
  double told = 0;         // when the last plain line was written, or the beginning
  std::int64_t tenth = 0;  // those done in that line

  bool is_full(std::int64_t count) const { return total >= 0 && count >= total; }
};

}  // namespace capstan::io
