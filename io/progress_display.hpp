#pragma once
// All bars of the process: they share one output, on a terminal a block of lines at its end, which is rewritten as a
// whole. The cursor rests behind the block's last line.
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "io/progress_bar.hpp"
#include "io/progress_output.hpp"

namespace capstan::io {

/// Seconds of a clock that never goes back.
double progress_seconds();
/// Another clock, for tests; null for the system's.
void set_progress_clock(double (*clock)());

class ProgressDisplay {
 public:
  /// The only one; never destroyed, as bars may end after main().
  static ProgressDisplay& instance();

  /// Begins a bar, or begins it anew if it runs.
  void begin(ProgressBar& bar);
  /// A step after which so many are done, and the clock may be worth a look.
  void look(ProgressBar& bar, std::int64_t done) noexcept;
  /// Ends a bar that runs.
  void end(ProgressBar& bar, bool complete);
  void print(std::string_view text);
  double seconds(const ProgressBar& bar);
  /// Goes on there. What stands on the one before is taken off it; that one.
  std::unique_ptr<ProgressOutput> exchange(std::unique_ptr<ProgressOutput> output);

 private:
  // What follows runs under the mutex.
  void enlist(ProgressBar& bar);
  void try_to_show(ProgressBar& bar, std::int64_t done, double now, bool full) noexcept;
  void show(ProgressBar& bar, std::int64_t done, double now, bool full);
  void end_on_terminal(ProgressBar& bar, double now, ProgressState state);
  bool is_line_due(const ProgressBar& bar, std::int64_t done, double now) const;
  bool has_bars() const;
  ProgressFacts facts_of(ProgressBar& bar, double now, ProgressState state) const;

  void draw(double now) noexcept;
  std::string block(double now, TerminalSize size);
  std::string to_top(int columns) const;
  void write_above(const std::string& line, double now);

  std::mutex mutex_;
  std::unique_ptr<ProgressOutput> output_ = std::make_unique<DescriptorOutput>(2);
  std::vector<ProgressBar*> bars_;  // those that run, in the order of their lines
  std::vector<int> drawn_;          // the columns of each line that stands on the terminal
  double drawn_at_ = 0;
};

}  // namespace capstan::io
