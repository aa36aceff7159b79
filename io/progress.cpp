#include <capstan/io/progress.hpp>

#include <atomic>
#include <memory>
#include <utility>

#include "io/progress_bar.hpp"
#include "io/progress_display.hpp"
#include "io/progress_output.hpp"
#include "lib/base/text.hpp"

namespace capstan {
namespace {

using io::ProgressBar;
using io::ProgressDisplay;

std::atomic<ProgressMode> the_mode = ProgressMode::automatic;

ProgressBar& bar_of(detail::ProgressCount* count) { return static_cast<ProgressBar&>(*count); }

std::int64_t known_total(std::optional<std::int64_t> total, std::int64_t start, Where where) {
  if (total && *total < 0)
    base::fail<Error>(where, "Progress: the total is ", *total,
                      "; it must be at least 0, or std::nullopt if it is unknown.");
  if (start < 0) base::fail<Error>(where, "Progress: the start is ", start, "; it must be at least 0.");
  if (!total || *total == io::kNever) return -1;
  if (start > *total)
    base::fail<Error>(where, "Progress: the start is ", start, " and the total is ", *total,
                      "; the start must not be beyond the total.");
  return *total;
}

}  // namespace

void set_progress_mode(ProgressMode mode) noexcept { the_mode = mode; }
ProgressMode progress_mode() noexcept { return the_mode; }

void set_progress_output(int descriptor, Where where) {
  if (descriptor < 0)
    base::fail<Error>(where, "set_progress_output: the file descriptor is ", descriptor, "; it must be at least 0.");
  ProgressDisplay::instance().exchange(std::make_unique<io::DescriptorOutput>(descriptor));
}

Progress::Progress(std::optional<std::int64_t> total, std::string title, ProgressOptions options, Where where) {
  auto bar = std::make_unique<ProgressBar>();
  bar->total = known_total(total, options.start, where);
  bar->start = options.start;
  bar->title = io::printable(title);
  bar->unit = io::printable(options.unit);
  bar->wish = options.mode;
  bar->keep = options.keep;
  ProgressDisplay::instance().begin(*bar);
  count_ = bar.release();
}

Progress::~Progress() {
  close(bar_of(count_).is_full(done()));
  delete &bar_of(count_);
}

double Progress::seconds() const noexcept { return ProgressDisplay::instance().seconds(bar_of(count_)); }

void Progress::set(std::string_view name, double value) { bar_of(count_).figures.set(name, value); }
void Progress::set(std::string_view name, std::string_view value) { bar_of(count_).figures.set(name, value); }

void Progress::print(std::string_view text) { ProgressDisplay::instance().print(text); }

void Progress::finish() noexcept {
  const ProgressBar& bar = bar_of(count_);
  close(bar.total < 0 || bar.is_full(done()));
}

/// For loops: where the first one begins nothing has been counted yet, and a bar that another one left has stopped.
void Progress::restart() {
  ProgressBar& bar = bar_of(count_);
  if (done() != bar.start) {
    close(bar.is_full(done()));
    bar.figures.clear();
  }
  ProgressDisplay::instance().begin(bar);
}

void Progress::close(bool complete) noexcept {
  try {
    ProgressDisplay::instance().end(bar_of(count_), complete);
  } catch (...) {  // no memory for a line: it is not written
  }
}

void Progress::look(std::int64_t done) noexcept { ProgressDisplay::instance().look(bar_of(count_), done); }

}  // namespace capstan
