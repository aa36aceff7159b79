#include "io/progress_display.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>

namespace capstan::io {
namespace {

// In seconds.
constexpr double kBetweenDrawings = 0.1;
constexpr double kBetweenLines = 1;                                        // even if tenths are done faster
constexpr double kSilence = 30, kMostSilence = 300, kSilenceShare = 0.05;  // after which a line is due
constexpr double kQuietInner = 60;                                         // an inner bar's age at its first plain line

std::atomic<double (*)()> the_clock = nullptr;

std::int64_t done_of(const ProgressBar& bar) { return __atomic_load_n(&bar.done, __ATOMIC_RELAXED); }
void look_when(ProgressBar& bar, std::int64_t done) { __atomic_store_n(&bar.look_at, done, __ATOMIC_RELEASE); }

std::int64_t tenths(const ProgressBar& bar, std::int64_t done) {
  if (bar.total <= 0) return 0;
  const double share = 10 * static_cast<double>(done) / static_cast<double>(bar.total);
  return static_cast<std::int64_t>(std::clamp(share, 0.0, 10.0));
}

/// `off` from anywhere counts, then what is nearest.
ProgressMode mode_of(const ProgressBar& bar, const ProgressOutput& output) {
  const ProgressMode set = progress_mode();
  const ProgressMode process = set != ProgressMode::automatic ? set : mode_of_environment();
  if (process == ProgressMode::off) return ProgressMode::off;
  if (bar.wish != ProgressMode::automatic) return bar.wish;
  return process != ProgressMode::automatic ? process : mode_of_surroundings(output.is_terminal());
}

}  // namespace

double progress_seconds() {
  if (double (*const clock)() = the_clock.load()) return clock();
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void set_progress_clock(double (*clock)()) { the_clock = clock; }

ProgressDisplay& ProgressDisplay::instance() {
  static ProgressDisplay* const display = new ProgressDisplay;
  return *display;
}

// --- bars ------------------------------------------------------------------------------------------------------------

void ProgressDisplay::begin(ProgressBar& bar) {
  const std::lock_guard lock(mutex_);
  std::erase(bars_, &bar);
  const double now = progress_seconds();
  bar.mode = mode_of(bar, *output_);
  bar.thread = std::this_thread::get_id();
  bar.began = bar.told = now;
  bar.tenth = tenths(bar, bar.start);
  bar.rate.start(bar.start, now);
  bar.pace.start(bar.start, now);
  bar.due = bar.mode == ProgressMode::plain ? now + kBetweenLines : now;
  __atomic_store_n(&bar.done, bar.start, __ATOMIC_RELAXED);
  look_when(bar, kNever);
  if (bar.mode != ProgressMode::off) enlist(bar);
  bar.running = true;
  if (bar.mode == ProgressMode::off) return;
  look_when(bar, bar.start < kNever ? bar.start + 1 : kNever);
  if (bar.mode == ProgressMode::bar && (drawn_.empty() || now >= drawn_at_ + kBetweenDrawings)) draw(now);
}

/// Below the others of its thread.
void ProgressDisplay::enlist(ProgressBar& bar) {
  const auto same_thread = [&](const ProgressBar* other) { return other->thread == bar.thread; };
  bar.depth = static_cast<int>(std::count_if(bars_.begin(), bars_.end(), same_thread));
  const auto last = std::find_if(bars_.rbegin(), bars_.rend(), same_thread);
  bars_.insert(last == bars_.rend() ? bars_.end() : last.base(), &bar);
}

void ProgressDisplay::look(ProgressBar& bar, std::int64_t done) noexcept {
  std::int64_t at = __atomic_load_n(&bar.look_at, __ATOMIC_RELAXED);
  if (done < at || at == kNever) return;  // another thread looks
  if (!__atomic_compare_exchange_n(&bar.look_at, &at, kNever, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return;
  const double now = progress_seconds();
  std::int64_t next = bar.pace.next(done, now);
  const bool full = bar.is_full(done);
  if (!full && bar.total >= 0) next = std::min(next, bar.total);  // the end is shown even if nobody calls finish()
  if (now >= bar.due || full) {
    const std::unique_lock lock(mutex_, std::try_to_lock);  // rather than wait for another bar: the next time
    if (lock && bar.running) try_to_show(bar, done, now, full);
    if (lock && !bar.running) next = kNever;
  }
  look_when(bar, next);
}

void ProgressDisplay::try_to_show(ProgressBar& bar, std::int64_t done, double now, bool full) noexcept {
  try {
    show(bar, done, now, full);
  } catch (...) {  // no memory for a line: the next one
  }
}

void ProgressDisplay::show(ProgressBar& bar, std::int64_t done, double now, bool full) {
  if (bar.mode == ProgressMode::bar) {
    const bool news = full && bar.depth == 0 && bar.tenth < 10;
    if (full) bar.tenth = 10;
    if (news || now >= drawn_at_ + kBetweenDrawings) draw(now);
    bar.due = drawn_at_ + kBetweenDrawings;
    return;
  }
  bar.due = now + kBetweenDrawings;
  if (!is_line_due(bar, done, now)) return;
  bar.told = now;
  bar.tenth = tenths(bar, done);
  write_above(progress_line(facts_of(bar, now, ProgressState::running), {}), now);
}

bool ProgressDisplay::is_line_due(const ProgressBar& bar, std::int64_t done, double now) const {
  const double age = now - bar.began, silence = now - bar.told;
  if (bar.is_full(done) || (bar.depth > 0 && age < kQuietInner)) return false;  // a full one's last line is near
  if (tenths(bar, done) > bar.tenth && silence >= kBetweenLines) return true;
  return silence >= std::clamp(kSilenceShare * age, kSilence, kMostSilence);
}

void ProgressDisplay::end(ProgressBar& bar, bool complete) {
  const std::lock_guard lock(mutex_);
  if (!bar.running) return;
  const double now = progress_seconds();
  bar.running = false;
  bar.ended = now;
  look_when(bar, kNever);
  std::erase(bars_, &bar);
  if (bar.mode == ProgressMode::off) return;
  const ProgressState state = complete ? ProgressState::complete : ProgressState::stopped;
  if (bar.mode == ProgressMode::bar) end_on_terminal(bar, now, state);
  else if (bar.depth == 0 || now - bar.began >= kQuietInner)
    write_above(progress_line(facts_of(bar, now, state), {}), now);
}

/// An inner bar that lived for less than a tenth of a second may leave its line there until the next drawing, so that
/// many of them cost no more drawings than one.
void ProgressDisplay::end_on_terminal(ProgressBar& bar, double now, ProgressState state) {
  if (bar.keep.value_or(bar.depth == 0)) {
    const LineStyle style{output_->size().columns, shows_blocks()};
    write_above(progress_line(facts_of(bar, now, state), style), now);
  } else if (!has_bars() || now >= drawn_at_ + kBetweenDrawings || now >= bar.began + kBetweenDrawings) {
    draw(now);
  }
}

ProgressFacts ProgressDisplay::facts_of(ProgressBar& bar, double now, ProgressState state) const {
  ProgressFacts facts;
  facts.title = bar.title;
  facts.unit = bar.unit;
  facts.done = done_of(bar);
  facts.total = bar.total;
  facts.elapsed = now - bar.began;
  facts.state = state;
  facts.figures = bar.figures.text();
  facts.depth = bar.depth;
  if (state == ProgressState::running) {
    bar.rate.sample(facts.done, now);
    facts.rate = bar.rate.rate();
    const double left = static_cast<double>(bar.total) - static_cast<double>(facts.done);
    if (bar.total >= 0) facts.left = bar.rate.left(left, now);
  } else if (facts.elapsed > 0) {
    facts.rate = (static_cast<double>(facts.done) - static_cast<double>(bar.start)) / facts.elapsed;
  }
  return facts;
}

double ProgressDisplay::seconds(const ProgressBar& bar) {
  const std::lock_guard lock(mutex_);
  return (bar.running ? progress_seconds() : bar.ended) - bar.began;
}

// --- the terminal ----------------------------------------------------------------------------------------------------

bool ProgressDisplay::has_bars() const {
  return std::any_of(bars_.begin(), bars_.end(), [](const ProgressBar* bar) { return bar->mode == ProgressMode::bar; });
}

void ProgressDisplay::draw(double now) noexcept {
  drawn_at_ = now;
  try {
    if (!output_->has_room()) return;
    const TerminalSize size = output_->size();
    const std::string start = to_top(size.columns);
    output_->write(start + block(now, size));
  } catch (...) {  // no memory for the lines: the next time
  }
}

/// The lines of all bars, as many as the terminal has room for, with escapes that clear what older ones left.
std::string ProgressDisplay::block(double now, TerminalSize size) {
  const LineStyle style{size.columns, shows_blocks()};
  std::vector<int> drawn;
  std::string text;
  for (ProgressBar* bar : bars_) {
    if (bar->mode != ProgressMode::bar) continue;
    if (!drawn.empty() && static_cast<int>(drawn.size()) + 1 >= size.rows) break;
    const std::string line = progress_line(facts_of(*bar, now, ProgressState::running), style);
    if (!drawn.empty()) text += '\n';
    text += line + "\x1b[K";
    drawn.push_back(columns_of(line));
  }
  drawn_ = std::move(drawn);
  drawn_at_ = now;
  return text + "\x1b[J";
}

/// To the beginning of the block. A terminal that became narrower has broken its lines.
std::string ProgressDisplay::to_top(int columns) const {
  int rows = 0;
  for (const int line : drawn_) rows += std::max(line - 1, 0) / columns + 1;
  return rows > 1 ? "\r\x1b[" + std::to_string(rows - 1) + 'A' : "\r";
}

/// A line that stays. Where no block stands, that is all that is written.
void ProgressDisplay::write_above(const std::string& line, double now) {
  if (drawn_.empty() && !has_bars()) return output_->write(line + '\n');
  const TerminalSize size = output_->size();
  const std::string start = to_top(size.columns) + "\x1b[J" + line + '\n';
  drawn_.clear();
  output_->write(has_bars() ? start + block(now, size) : start);
}

void ProgressDisplay::print(std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  write_above(std::string(text), progress_seconds());
}

std::unique_ptr<ProgressOutput> ProgressDisplay::exchange(std::unique_ptr<ProgressOutput> output) {
  const std::lock_guard lock(mutex_);
  if (!drawn_.empty()) output_->write(to_top(output_->size().columns) + "\x1b[J");
  drawn_.clear();
  return std::exchange(output_, std::move(output));
}

}  // namespace capstan::io
