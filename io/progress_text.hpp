#pragma once
// What a bar says: numbers, times and rates as short text, and the line made of them.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace capstan::io {

// --- text ------------------------------------------------------------------------------------------------------------

/// Control characters as blanks.
std::string printable(std::string_view text);
/// Columns that a terminal needs for UTF-8: two for wide characters, none for marks upon others, one for a byte that is
/// no UTF-8.
int columns_of(std::string_view text);
/// The beginning of a text, as much as so many columns hold.
std::string_view clipped(std::string_view text, int columns);

// --- numbers ---------------------------------------------------------------------------------------------------------

/// Three digits and a letter: "0.05", "9.99", "12.3", "1.23k", "4.56M".
std::string short_number(double value);
/// A figure: whole numbers below a thousand millions as they are, others with four digits.
std::string figure_text(double value);
/// "0:05", "59:59", "1:00:00", "2d 03:00"; rounded to seconds.
std::string time_text(double seconds);
/// "12.3 it/s", or below one a second "2.50 s/it"; empty if it is not known, which 0 says.
std::string rate_text(double per_second, std::string_view unit);

/// How fast steps are done: a moving average over the last tenth of the time, at least 10 s. What was before fades
/// with exp(-seconds/that).
class RateMeter {
 public:
  void start(std::int64_t done, double now);
  /// So many were done at that moment. Steps of zero say nothing: the next one that is done took all the time.
  void sample(std::int64_t done, double now);
  /// Steps a second; 0 if not known.
  double rate() const { return seconds_ > 0 ? steps_ / seconds_ : 0; }
  /// Seconds for so many more; negative if not known. Between two steps it falls, but not below what follows them.
  double left(double steps, double now) const;

 private:
  double began_ = 0, at_ = 0;  // the beginning, and the last sample
  std::int64_t done_ = 0;
  double steps_ = 0, seconds_ = 0;
};

// --- lines -----------------------------------------------------------------------------------------------------------

enum class ProgressState { running, complete, stopped };

struct ProgressFacts {
  std::string_view title, unit;
  std::int64_t done = 0, total = -1;  // -1: unknown
  double elapsed = 0, rate = 0, left = -1;
  ProgressState state = ProgressState::running;
  std::string figures;  // "loss 0.1234  accuracy 0.98"
  int depth = 0;        // bars that it is within
};

struct LineStyle {
  int columns = 0;  // of the terminal; 0: a line of a file, of any length and without a bar
  bool blocks = false;
};

/// One line without an end of line; on a terminal it leaves the last column free. Where there is not enough room the
/// time elapsed goes first, then the bar, then the rate.
std::string progress_line(const ProgressFacts& facts, const LineStyle& style);

}  // namespace capstan::io
