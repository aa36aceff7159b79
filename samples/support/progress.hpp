#pragma once
// A progress line for long loops.
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace support {

/// Shows on standard output how far a loop is: percent, step, figures of the caller's choice, time spent and time left.
///
/// On a terminal one line is rewritten about ten times a second; elsewhere a line is added for every tenth of the work.
///
///     Progress progress("training", 1000);
///     for (std::int64_t step = 1; step <= 1000; ++step) {
///       ...
///       if (progress.due(step)) progress.show(step, {{"loss", loss}, {"accuracy", accuracy}});
///     }
class Progress {
 public:
  struct Figure {
    const char* name;
    double value;
  };

  Progress(std::string title, std::int64_t total);
  ~Progress();  ///< ends the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Whether it is time to show something new. Cheap; ask after every step.
  bool due(std::int64_t done) const;
  void show(std::int64_t done, std::initializer_list<Figure> figures = {});
  /// Makes room for other output: takes the line off the terminal. The next `show` writes it again.
  void clear();

  /// Seconds since the construction.
  double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;

  std::string line(std::int64_t done, std::initializer_list<Figure> figures) const;

  std::string title_;
  std::int64_t total_;
  bool terminal_;
  bool line_open_ = false;
  std::int64_t shown_ = -1;  // the step of the last `show`
  Clock::time_point start_, last_;
};

}  // namespace support
