// The scalars of event files as curves. What a resumed run has made void is marked while events are read, and left out
// at the end: one pass, however often a file says that something starts again.
#include <capstan/io/events.hpp>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <filesystem>
#include <limits>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include "io/event_records.hpp"
#include "io/io_error.hpp"

namespace capstan::io {
namespace {

constexpr const char* kOp = "read_scalars";
constexpr std::int64_t kNoStep = std::numeric_limits<std::int64_t>::max();

/// Points from here on were logged in one file and one session.
struct Stretch {
  std::size_t first;     // point
  std::size_t sessions;  // that had begun before
  std::int64_t cut;      // points before this stretch count no more from this step on
};

struct Track {
  ScalarCurve curve;
  std::size_t file = 0;  // of the last point
  std::vector<Stretch> stretches;
};

class Curves {
 public:
  void start_file() { ++file_; }
  void add(const Event& event);
  std::vector<ScalarCurve> take();

 private:
  void add(const SummaryValue& value, const Event& event);

  std::deque<Track> tracks_;  // in the order in which their tags appear; stay where they are
  std::map<std::string_view, Track*> tags_;
  std::vector<std::int64_t> sessions_;  // the steps at which they begin
  std::size_t file_ = 0;
};

void Curves::add(const Event& event) {
  if (event.session_start) sessions_.push_back(event.step);
  for (const SummaryValue& value : event.values)
    if (value.kind == SummaryKind::scalar) add(value, event);
}

void Curves::add(const SummaryValue& value, const Event& event) {
  auto place = tags_.find(value.tag);
  const bool is_new = place == tags_.end();
  if (is_new) {
    Track& added = tracks_.emplace_back();
    added.curve.tag = value.tag;
    place = tags_.emplace(added.curve.tag, &added).first;
  }
  Track& track = *place->second;
  ScalarCurve& curve = track.curve;
  const bool other_file = track.file != file_;
  if (is_new || other_file || track.stretches.back().sessions != sessions_.size())
    track.stretches.push_back({curve.steps.size(), sessions_.size(), other_file ? event.step : kNoStep});
  track.file = file_;
  curve.steps.push_back(event.step);
  curve.values.push_back(value.scalar);
  curve.wall_times.push_back(event.wall_time);
}

/// Leaves out the points of one track that count no more. `first_after[n]` is the lowest step at which a session begins
/// after the first n of them.
void cut(Track& track, const std::vector<std::int64_t>& first_after) {
  ScalarCurve& curve = track.curve;
  std::vector<bool> counts(curve.steps.size(), true);
  std::int64_t limit = kNoStep;
  std::size_t end = curve.steps.size();
  for (std::size_t s = track.stretches.size(); s-- > 0;) {
    const Stretch& stretch = track.stretches[s];
    const std::int64_t from = std::min(limit, first_after[stretch.sessions]);
    for (std::size_t i = stretch.first; i < end; ++i) counts[i] = from == kNoStep || curve.steps[i] < from;
    limit = std::min(limit, stretch.cut);
    end = stretch.first;
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < curve.steps.size(); ++i) {
    if (!counts[i]) continue;
    curve.steps[kept] = curve.steps[i];
    curve.values[kept] = curve.values[i];
    curve.wall_times[kept++] = curve.wall_times[i];
  }
  curve.steps.resize(kept);
  curve.values.resize(kept);
  curve.wall_times.resize(kept);
}

std::vector<ScalarCurve> Curves::take() {
  std::vector<std::int64_t> first_after(sessions_.size() + 1, kNoStep);
  for (std::size_t n = sessions_.size(); n-- > 0;) first_after[n] = std::min(first_after[n + 1], sessions_[n]);
  tags_.clear();  // which the tracks' own tags hold
  std::vector<ScalarCurve> curves;
  curves.reserve(tracks_.size());
  for (; !tracks_.empty(); tracks_.pop_front()) {
    Track& track = tracks_.front();
    cut(track, first_after);
    if (!track.curve.steps.empty()) curves.push_back(std::move(track.curve));
  }
  return curves;
}

// --- files ---------------------------------------------------------------------------------------------------------

std::vector<std::string> event_files_in(const std::string& folder, Where where) {
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code unknown;
    if (entry->path().filename().string().find("tfevents") != std::string::npos && entry->is_regular_file(unknown))
      files.push_back(entry->path().string());
  }
  if (error) fail_io(kOp, folder, where, "cannot be opened: " + error.message() + "; it must be a readable folder.");
  if (files.empty()) fail_io(kOp, folder, where, "no event file is in the folder; their names contain \"tfevents\".");
  return files;
}

/// In the order of their first records' times, then of their names.
std::vector<std::string> in_order(const std::vector<std::string>& files, Where where) {
  std::vector<std::pair<double, std::string>> timed;
  for (const std::string& file : files) {
    Event first;
    if (EventRecords(kOp, file, {}, where).next(first, where))  // else it holds none
      timed.emplace_back(first.wall_time == first.wall_time ? first.wall_time : 0, file);
  }
  std::sort(timed.begin(), timed.end());
  std::vector<std::string> ordered;
  for (auto& [time, file] : timed) ordered.push_back(std::move(file));
  return ordered;
}

}  // namespace

std::vector<ScalarCurve> read_scalars(const std::string& path, Where where) {
  std::error_code unknown;
  std::vector<std::string> files{path};
  if (std::filesystem::is_directory(path, unknown)) files = in_order(event_files_in(path, where), where);
  Curves curves;
  TagPlugins plugins;  // of the run: only the first value of a tag has to name its plugin, in whichever file
  for (const std::string& file : files) {
    curves.start_file();
    EventRecords records(kOp, file, {}, where);
    records.plugins = std::move(plugins);
    for (Event event; records.next(event, where);) curves.add(event);
    plugins = std::move(records.plugins);
  }
  return curves.take();
}

}  // namespace capstan::io
