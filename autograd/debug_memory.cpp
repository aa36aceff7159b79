// Which lines of the program hold the memory.
#include <algorithm>
#include <exception>

#include "autograd/debug_profile.hpp"
#include "autograd/debug_text.hpp"
#include "lib/base/text.hpp"

namespace capstan::debug {

/// A line's share of the peak is what it holds when the peak is reached. It need not be copied then, only at the
/// line's first change afterwards.
void MemoryTimelineState::change(Line& line, std::int64_t bytes) noexcept {
  if (line.peak_seen != peaks) {
    line.at_peak = line.current;
    line.peak_seen = peaks;
  }
  line.current += bytes;
  line.peak = std::max(line.peak, line.current);
  current += bytes;
  if (current > peak) {
    peak = current;
    ++peaks;
  }
  sample();
}

void MemoryTimelineState::sample() noexcept {
  if (changes++ % stride != 0) return;
  if (samples.size() == samples.capacity()) {  // keep every second one
    std::size_t kept = 0;
    for (std::size_t i = 0; i < samples.size(); i += 2) samples[kept++] = samples[i];
    samples.resize(kept);
    stride *= 2;
  }
  samples.push_back({core::nanoseconds(), current});
}

void MemoryTimelineState::made(Where where, std::int64_t bytes) {
  const std::lock_guard lock(mutex);
  Line& line = lines[{where.file_name(), where.line()}];
  line.where = where;
  ++line.blocks;
  change(line, bytes);
}

void MemoryTimelineState::gone(Where where, std::int64_t bytes) noexcept {
  const std::lock_guard lock(mutex);
  const auto found = lines.find({where.file_name(), where.line()});
  if (found != lines.end()) change(found->second, -bytes);
}

MemoryTimeline::MemoryTimeline(Options options, Where where) {
  if (options.max_events < 2)
    base::fail<Error>(where, "MemoryTimeline: max_events is ", options.max_events, "; it must be >= 2.");
  state_ = new MemoryTimelineState;
  try {
    state_->samples.reserve(static_cast<std::size_t>(options.max_events));
    core::add_memory_watcher(*state_);
  } catch (const std::exception&) {  // no memory, or more than there could be
    delete state_;
    base::fail<OutOfMemoryError>(where, "MemoryTimeline: there is no memory for ", options.max_events,
                                 " events; keep fewer with max_events.");
  }
}

MemoryTimeline::~MemoryTimeline() {
  core::remove_memory_watcher(*state_);
  delete state_;
}

std::int64_t MemoryTimeline::current_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->current;
}

std::int64_t MemoryTimeline::peak_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->peak;
}

std::vector<MemoryLine> MemoryTimeline::table() const {
  std::vector<MemoryLine> rows;
  {
    const std::lock_guard lock(state_->mutex);
    for (const auto& [key, line] : state_->lines)
      rows.push_back({base::to_string(line.where), line.at(state_->peaks), line.current, line.peak, line.blocks});
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const MemoryLine& a, const MemoryLine& b) { return a.at_peak > b.at_peak; });
  return rows;
}

std::string MemoryTimeline::report() const {
  std::vector<std::vector<std::string>> text;
  text.push_back({"line", "at the peak", "now", "its own peak", "blocks"});
  for (const MemoryLine& row : table())
    text.push_back({row.where, autograd::bytes_text(row.at_peak), autograd::bytes_text(row.current),
                    autograd::bytes_text(row.peak), std::to_string(row.blocks)});
  return "peak " + autograd::bytes_text(peak_bytes()) + ", now " + autograd::bytes_text(current_bytes()) + "\n" +
         autograd::table_text(text, 1u);
}

}  // namespace capstan::debug
