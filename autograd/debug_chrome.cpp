// The Trace Event Format ("Trace Event Format", Google, 2016): an object with a list of events.
#include <algorithm>
#include <set>
#include <utility>

#include "autograd/debug_profile.hpp"
#include "autograd/debug_text.hpp"
#include "lib/base/text.hpp"

namespace capstan::autograd {
namespace {

/// A JSON string (RFC 8259), quotes included. Bytes above 127 stay: names of files are UTF-8 as a rule.
std::string quoted(std::string_view text) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (byte < 0x20) {
      result += "\\u00";
      result += kDigits[byte >> 4];
      result += kDigits[byte & 15u];
    } else {
      result += c;
    }
  }
  return result + "\"";
}

// The host is process 1, and the GPUs follow.
constexpr int kHost = 1, kFirstGpu = 2;

bool has_device_part(const ProfileEvent& event) { return event.gpu >= 0 && event.device > 0; }

/// `begin` and `duration` in nanoseconds, from the beginning of the trace.
void add_slice(std::string& text, const ProfileEvent& event, int process, std::int64_t begin, std::int64_t duration) {
  text += base::join("{\"ph\":\"X\",\"pid\":", process, ",\"tid\":", event.thread, ",\"name\":", quoted(event.op),
                     ",\"cat\":", event.backward ? "\"backward\"" : "\"forward\"", ",\"ts\":", microseconds_text(begin),
                     ",\"dur\":", microseconds_text(duration), ",\"args\":{\"shapes\":", quoted(event.shapes),
                     ",\"at\":", quoted(base::to_string(event.where)), "}},\n");
}

/// The operation, and its device time: the host waited for that, so the two end together.
void add_operation(std::string& text, const ProfileEvent& event, std::int64_t start) {
  add_slice(text, event, kHost, event.begin - start, event.end - event.begin);
  if (!has_device_part(event)) return;
  const std::int64_t begin = std::max(event.begin, event.end - event.device);  // the two have clocks of their own
  add_slice(text, event, kFirstGpu + event.gpu, begin - start, event.device);
}

/// Names for the rows, each a thread in a process; the host has its name already.
void add_names(std::string& text, const std::set<std::pair<int, int>>& rows) {
  int named = kHost;
  for (const auto& [process, thread] : rows) {
    if (process != named)
      text +=
          base::join("{\"ph\":\"M\",\"pid\":", process, ",\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"",
                     cuda(process - kFirstGpu), "\"}},\n");
    named = process;
    text += base::join("{\"ph\":\"M\",\"pid\":", process, ",\"tid\":", thread,
                       ",\"name\":\"thread_name\",\"args\":{\"name\":\"thread ", thread, "\"}},\n");
  }
}

}  // namespace

std::string chrome_trace(const std::vector<ProfileEvent>& events, const std::vector<MemorySample>& samples) {
  std::int64_t start = INT64_MAX;
  std::set<std::pair<int, int>> rows;  // processes and threads
  for (const ProfileEvent& event : events) {
    start = std::min(start, event.begin);
    rows.emplace(kHost, event.thread);
    if (has_device_part(event)) rows.emplace(kFirstGpu + event.gpu, event.thread);
  }
  for (const MemorySample& sample : samples) start = std::min(start, sample.time);

  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  add_names(text, rows);
  for (const ProfileEvent& event : events) add_operation(text, event, start);
  for (const MemorySample& sample : samples)
    text += base::join("{\"ph\":\"C\",\"pid\":1,\"tid\":0,\"name\":\"memory\",\"ts\":",
                       microseconds_text(sample.time - start), ",\"args\":{\"bytes\":", sample.bytes, "}},\n");
  return text + "{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"capstan\"}}\n]}\n";
}

}  // namespace capstan::autograd
