// Where the time goes.
#include "autograd/debug_profile.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "autograd/debug_text.hpp"
#include "autograd/debug_values.hpp"
#include "lib/base/text.hpp"

namespace capstan::debug {
namespace {

/// Elements read and written. Views move none, and of an operation that ran others those count.
std::int64_t bytes_moved(const core::Event& event) {
  if (event.composed) return 0;
  std::int64_t bytes = 0;
  for (const Tensor* output : event.operation.outputs) {
    const TensorImpl* out = output->impl();
    if (out == nullptr) continue;
    for (const Tensor* input : event.operation.inputs)
      if (const TensorImpl* in = input->impl(); in != nullptr && in != out && in->storage == out->storage) return 0;
    bytes += autograd::bytes_of(*out);
  }
  for (const Tensor* input : event.operation.inputs)
    if (input->defined()) bytes += autograd::bytes_of(*input->impl());
  return bytes;
}

/// The number of the GPU that an operation ran on, or -1.
int gpu_of(const core::Operation& operation) {
  for (const auto& tensors : {operation.outputs, operation.inputs})
    for (const Tensor* tensor : tensors)
      if (const TensorImpl* impl = tensor->impl(); impl != nullptr && impl->device().kind == DeviceKind::cuda)
        return impl->device().index;
  return -1;
}

/// A row of one of the tables, as it is added up.
struct Group {
  std::string name;
  std::vector<std::string_view> operations;
  bool backward = false;
  std::int64_t count = 0, nanoseconds = 0, device = 0, bytes = 0;

  std::string what() const {
    constexpr std::size_t kMost = 3;
    std::string text;
    for (std::size_t i = 0; i < operations.size() && i < kMost; ++i)
      text += (i > 0 ? ", " : "") + std::string(operations[i]);
    return operations.size() > kMost ? text + ", ..." : text;
  }
};

/// Device times have a column if there are any.
std::string text_of(const std::vector<ProfileRow>& rows, const char* heading, bool with_operations) {
  const bool with_device =
      std::any_of(rows.begin(), rows.end(), [](const ProfileRow& row) { return row.device_us > 0; });
  std::vector<std::vector<std::string>> text;
  text.push_back({heading, "calls", "total us", "mean us", "share", "moved"});
  if (with_device) text.back().push_back("device us");
  const auto words = static_cast<unsigned>(text.back().size());  // the column of the operations
  if (with_operations) text.back().push_back("operations");
  for (const ProfileRow& row : rows) {
    text.push_back({row.name + (row.backward ? " (backward)" : ""), std::to_string(row.count),
                    autograd::fixed_text(row.total_us, 1), autograd::fixed_text(row.mean_us, 1),
                    autograd::fixed_text(100 * row.share, 1) + "%", autograd::bytes_text(row.bytes)});
    if (with_device) text.back().push_back(autograd::fixed_text(row.device_us, 1));
    if (with_operations) text.back().push_back(row.what);
  }
  return autograd::table_text(text, 1u | 1u << words);
}

}  // namespace

void ProfilerState::see(const core::Event& event) {
  const core::Operation& operation = event.operation;
  const bool backward = operation.backward || event.inside != nullptr;
  const autograd::ProfileKey key{operation.op, operation.where.file_name(), operation.where.line(), backward};
  const std::int64_t bytes = bytes_moved(event);
  const std::string shapes = max_events > 0 ? autograd::shapes_text(operation) : std::string();
  const std::lock_guard lock(mutex);
  autograd::ProfileSums& sum = sums[key];
  sum.where = operation.where;
  ++sum.count;
  sum.nanoseconds += event.own;
  sum.device += event.device;
  sum.bytes += bytes;
  if (events.size() < max_events)
    events.push_back({operation.op, operation.where, event.begin, event.end, event.device, gpu_of(operation),
                      event.thread, backward, shapes});
  else ++dropped;
}

Profiler::Profiler(Options options, Where where) {
  if (options.max_events < 0)
    base::fail<Error>(where, "Profiler: max_events is ", options.max_events, "; it must be >= 0.");
  state_ = new ProfilerState;
  state_->max_events = static_cast<std::size_t>(options.max_events);
  try {
    start();
  } catch (...) {
    delete state_;
    throw;
  }
}

Profiler::~Profiler() {
  stop();
  delete state_;
}

void Profiler::start() {
  const std::lock_guard lock(state_->control);
  if (!state_->running) core::add_watcher(*state_);
  state_->running = true;
}

void Profiler::stop() {
  const std::lock_guard lock(state_->control);
  if (state_->running) core::remove_watcher(*state_);
  state_->running = false;
}

void Profiler::reset() {
  const std::lock_guard lock(state_->mutex);
  state_->sums.clear();
  state_->events.clear();
  state_->dropped = 0;
}

std::vector<ProfileRow> Profiler::table(ProfileBy by) const {
  std::map<std::pair<std::string, bool>, Group> groups;
  std::int64_t total = 0;
  {
    const std::lock_guard lock(state_->mutex);
    for (const auto& [key, sum] : state_->sums) {
      const std::string name = by == ProfileBy::line ? base::to_string(sum.where) : std::string(key.op);
      Group& group = groups[{name, key.backward}];
      group.name = name;
      group.backward = key.backward;
      if (std::find(group.operations.begin(), group.operations.end(), key.op) == group.operations.end())
        group.operations.push_back(key.op);
      group.count += sum.count;
      group.nanoseconds += sum.nanoseconds;
      group.device += sum.device;
      group.bytes += sum.bytes;
      total += sum.nanoseconds;
    }
  }
  std::vector<ProfileRow> rows;
  for (const auto& [key, group] : groups) {
    const double time = static_cast<double>(group.nanoseconds) / 1000;
    rows.push_back({.name = group.name,
                    .what = by == ProfileBy::line ? group.what() : "",
                    .backward = group.backward,
                    .count = group.count,
                    .total_us = time,
                    .mean_us = time / static_cast<double>(group.count),
                    .device_us = static_cast<double>(group.device) / 1000,
                    .share = total > 0 ? static_cast<double>(group.nanoseconds) / static_cast<double>(total) : 0,
                    .bytes = group.bytes});
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const ProfileRow& a, const ProfileRow& b) { return a.total_us > b.total_us; });
  return rows;
}

std::string Profiler::report() const {
  std::string text =
      text_of(table(ProfileBy::operation), "operation", false) + "\n" + text_of(table(ProfileBy::line), "line", true);
  const std::lock_guard lock(state_->mutex);
  if (state_->dropped > 0 && state_->max_events > 0)
    text += base::join("\n", state_->dropped, " operations are not in the trace: max_events is ", state_->max_events,
                       ".\n");
  return text;
}

void Profiler::write_chrome_trace(const std::string& path, const MemoryTimeline* memory, Where where) const {
  std::vector<autograd::ProfileEvent> events;
  {
    const std::lock_guard lock(state_->mutex);
    events = state_->events;
  }
  std::vector<autograd::MemorySample> samples;
  if (memory != nullptr) {
    const std::lock_guard lock(memory->state_->mutex);
    samples = memory->state_->samples;
  }
  const std::string text = autograd::chrome_trace(events, samples);
  std::FILE* file = std::fopen(path.c_str(), "wb");
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  int reason = written ? 0 : errno;
  if (file != nullptr && std::fclose(file) != 0 && written) {
    written = false;
    reason = errno;
  }
  if (!written)
    base::fail<IoError>(where, "Profiler::write_chrome_trace: ", path, " cannot be written: ", std::strerror(reason),
                        ".");
}

}  // namespace capstan::debug
