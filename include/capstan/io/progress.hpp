#pragma once
// Progress bars: how far a long loop is, on a terminal, in a file, in the log of a CI server.
//
//     for (auto i : cs::progress(20000, "training")) { ... }            // i is 0, 1, ..., 19999
//     for (auto&& batch : cs::progress(batches, "epoch 3")) { ... }     // any range: a vector, a pipeline
//     auto steps = cs::progress(batches, "epoch 3");                    // with figures behind the bar
//     for (auto&& [images, labels] : steps) { ...; steps.set("loss", loss.item<float>()); }
//
//     epoch 3  37% [=====>         ] 222/600  84.1 it/s  0:03, 0:04 left  loss 0.1234
//
// Where to    Standard error, unless set_progress_output says otherwise. This is all that the library ever prints.
// Terminals   One line for each bar, rewritten at most ten times a second, in the width that the terminal has at that
//     moment. Bars that run at the same time stand below each other, those begun within another on the same thread
//     indented; these inner ones vanish when they end. Bars are of blocks where the locale is UTF-8, otherwise of
//     ASCII. There are no colours.
// Elsewhere   Whole lines, no control characters: one after each tenth, though not within a second of the line before;
//     one whenever nothing was written for 30 s, later on for a twentieth of the time elapsed, at most 5 minutes; and
//     one at the end. An inner bar says nothing before it is a minute old.
// The end     A line with the time in all. A loop that is left by `break` or an exception says where it stopped.
// Time left   By a moving average of the rate over the last tenth of the time, at least 10 s. What follows a step that
//     takes long is seen when that step is done: no thread watches, and a loop that hangs shows what it showed.
// Cost        A step of a loop over `progress(...)` costs about 0.2 ns, `advance`, an atomic addition, 5 ns, and `set`
//     7 ns. The clock is looked at about a thousand times a second, whatever the steps.
// Threads     Bars of several threads may run at once, and any thread may advance a bar, set its figures, print.
// Errors      What cannot be written is dropped: no exception, no signal, also where a pipe is closed or a file has its
//     size limit. Drawings do not wait for a pipe that is full, and lines wait 0.1 s, once.
// Defined in io/progress.cpp.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <capstan/error.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// How bars are shown. `automatic` is `bar` on a terminal, and `plain` lines everywhere else: in files and pipes, where
/// TERM is `dumb` or not set, and where CI or a variable of GitHub, GitLab, Jenkins, TeamCity, Buildkite or Azure is.
enum class ProgressMode { automatic, off, plain, bar };

/// For all bars that begin later. As long as it is `automatic`, the environment variable CAPSTAN_PROGRESS counts: off,
/// plain or bar. `off` counts for every bar, the other modes for those whose options do not name one.
void set_progress_mode(ProgressMode mode) noexcept;
ProgressMode progress_mode() noexcept;

/// Bars go to this file descriptor from now on; 2, standard error, at the start. It is not closed. What stands on the
/// terminal that was the output before is taken off it. Bars that run keep the mode they began with. Error for a
/// negative one.
void set_progress_output(int descriptor, Where where = Where::current());

struct ProgressOptions {
  ProgressMode mode = ProgressMode::automatic;
  std::optional<bool> keep = std::nullopt;  ///< whether the last line stays on a terminal; by default of outer bars
  std::string unit = "it";                  ///< of the rate: "it/s"
  std::int64_t start = 0;                   ///< done before: the count begins there (tqdm's `initial`), not the rate
};

namespace detail {
/// What a step touches; the rest of a bar is hidden behind it.
struct ProgressCount {
  std::int64_t done = 0;
  std::int64_t look_at = 0;  // the clock is looked at when so many are done
};
}  // namespace detail

/// A bar that is moved by hand.
///
///     cs::Progress bar(bytes, "download", {.unit = "B"});
///     while (...) bar.advance(received);
class Progress {
 public:
  /// Begins a bar. No total, or INT64_MAX, an endless pipeline's size, means that it is unknown: count, rate and time
  /// elapsed are shown. Control characters of titles and figures become blanks.
  /// Throws  Error  a negative total; a start that is negative or beyond the total
  explicit Progress(std::optional<std::int64_t> total, std::string title = {}, ProgressOptions options = {},
                    Where where = Where::current());
  /// Ends the bar, as `finish` does; one whose total is unknown counts as stopped if nobody has called `finish`.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// So many more are done; may be more than the total. Any thread.
  void advance(std::int64_t steps = 1) noexcept {
    const std::int64_t done = __atomic_add_fetch(&count_->done, steps, __ATOMIC_RELAXED);
    if (done >= __atomic_load_n(&count_->look_at, __ATOMIC_RELAXED)) look(done);
  }
  std::int64_t done() const noexcept { return __atomic_load_n(&count_->done, __ATOMIC_RELAXED); }
  /// Seconds since the beginning; of a bar that has ended, to its end.
  double seconds() const noexcept;

  /// A figure behind the bar, from the next drawing on, in the order in which names came first. About 7 ns: a loop may
  /// set it at each step. A tensor's number is had by `item`, which waits for its device.
  void set(std::string_view name, double value);
  void set(std::string_view name, std::string_view value);

  /// Writes a line of text above all bars, also where they are off. Standard output, on the same terminal, would be
  /// mixed with them.
  void print(std::string_view text);

  /// Ends the bar: a last line, and none after it. With a known total that is not reached it says that it stopped.
  void finish() noexcept;

 protected:
  void step() noexcept {  // advance() on the thread of the loop: nobody else counts
    const std::int64_t done = __atomic_load_n(&count_->done, __ATOMIC_RELAXED) + 1;
    __atomic_store_n(&count_->done, done, __ATOMIC_RELAXED);
    if (done >= __atomic_load_n(&count_->look_at, __ATOMIC_RELAXED)) look(done);
  }
  void restart();
  void close(bool complete) noexcept;

 private:
  void look(std::int64_t done) noexcept;

  detail::ProgressCount* count_;  // owned; the base of a ProgressBar, io/progress_bar.hpp
};

namespace detail {
namespace loop {

using std::begin;
using std::end;

template <class Range>
auto first(Range& range) -> decltype(begin(range)) {
  return begin(range);
}
template <class Range>
auto last(Range& range) -> decltype(end(range)) {
  return end(range);
}
/// None for ranges that do not know their size, and for pipelines that say kUnknownSize.
template <class Range>
std::optional<std::int64_t> size_of(Range& range) {
  if constexpr (requires { std::size(range); }) {
    const auto size = static_cast<std::int64_t>(std::size(range));
    if (size >= 0) return size;
  }
  return std::nullopt;
}

/// The numbers from `from` up to, and without, `to`.
struct Numbers {
  struct Iterator {
    std::int64_t value;
    std::int64_t operator*() const noexcept { return value; }
    Iterator& operator++() noexcept {
      ++value;
      return *this;
    }
    bool operator==(const Iterator&) const = default;
  };
  std::int64_t from, to;
  Iterator begin() const noexcept { return {from}; }
  Iterator end() const noexcept { return {to}; }
};

}  // namespace loop
}  // namespace detail

/// What `progress` gives: the elements of a range, counted by a bar. Each loop over it begins the bar anew. `Range` is
/// a reference if the range is an object of the caller's.
template <class Range>
class ProgressRange : public Progress {
 public:
  ProgressRange(Range&& range, std::optional<std::int64_t> total, std::string title, ProgressOptions options,
                Where where)
      : Progress(total, std::move(title), std::move(options), where), range_(std::forward<Range>(range)) {}

  struct End {};
  class Iterator {
   public:
    explicit Iterator(ProgressRange& bar)
        : bar_(&bar), at_(detail::loop::first(bar.range_)), last_(detail::loop::last(bar.range_)) {}

    decltype(auto) operator*() { return *at_; }
    Iterator& operator++() {
      bar_->step();  // first: the next element may be long in coming
      ++at_;
      return *this;
    }
    /// Whether the range is at its end; this ends the bar.
    friend bool operator==(const Iterator& iterator, End) { return iterator.at_end(); }

   private:
    bool at_end() const {
      if (at_ != last_) return false;
      bar_->close(true);
      return true;
    }

    ProgressRange* bar_;
    decltype(detail::loop::first(std::declval<Range&>())) at_;
    decltype(detail::loop::last(std::declval<Range&>())) last_;
  };

  Iterator begin() {
    restart();
    return Iterator(*this);
  }
  End end() const noexcept { return {}; }

 private:
  Range range_;
};

/// The numbers from `options.start` to total - 1, with a bar. Throws as Progress.
inline ProgressRange<detail::loop::Numbers> progress(std::int64_t total, std::string title = {},
                                                     ProgressOptions options = {}, Where where = Where::current()) {
  const std::int64_t start = options.start;
  return ProgressRange<detail::loop::Numbers>({start, total}, total, std::move(title), std::move(options), where);
}

/// The elements of a range, with a bar: of an object of the caller's, which must outlive the loop, or of a temporary,
/// which is moved into the result. Its size, if it has one, is the total. All elements that it gives are looped over,
/// wherever the count starts: a pipeline that was restored gives the rest of a pass, and has the size of the whole.
/// Throws as Progress.
template <class Range>
requires requires(Range& range) { detail::loop::first(range); }
ProgressRange<Range> progress(Range&& range, std::string title = {}, ProgressOptions options = {},
                              Where where = Where::current()) {
  const std::optional<std::int64_t> total = detail::loop::size_of(range);
  return ProgressRange<Range>(std::forward<Range>(range), total, std::move(title), std::move(options), where);
}

}  // namespace capstan
