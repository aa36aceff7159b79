// The Trace Event Format ("Trace Event Format", Google, 2016): an object with a list of events.
#include <algorithm>
#include <set>

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

void add_operation(std::string& text, const ProfileEvent& event, std::int64_t start) {
  text += base::join(
      "{\"ph\":\"X\",\"pid\":1,\"tid\":", event.thread, ",\"name\":", quoted(event.op),
      ",\"cat\":", event.backward ? "\"backward\"" : "\"forward\"", ",\"ts\":", microseconds_text(event.begin - start),
      ",\"dur\":", microseconds_text(event.end - event.begin), ",\"args\":{\"shapes\":", quoted(event.shapes),
      ",\"at\":", quoted(base::to_string(event.where)), "}},\n");
}

}  // namespace

std::string chrome_trace(const std::vector<ProfileEvent>& events, const std::vector<MemorySample>& samples) {
  std::int64_t start = INT64_MAX;
  std::set<int> threads;
  for (const ProfileEvent& event : events) {
    start = std::min(start, event.begin);
    threads.insert(event.thread);
  }
  for (const MemorySample& sample : samples) start = std::min(start, sample.time);

  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (const int thread : threads)
    text += base::join("{\"ph\":\"M\",\"pid\":1,\"tid\":", thread,
                       ",\"name\":\"thread_name\",\"args\":{\"name\":\"thread ", thread, "\"}},\n");
  for (const ProfileEvent& event : events) add_operation(text, event, start);
  for (const MemorySample& sample : samples)
    text += base::join("{\"ph\":\"C\",\"pid\":1,\"tid\":0,\"name\":\"memory\",\"ts\":",
                       microseconds_text(sample.time - start), ",\"args\":{\"bytes\":", sample.bytes, "}},\n");
  return text + "{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"capstan\"}}\n]}\n";
}

}  // namespace capstan::autograd
