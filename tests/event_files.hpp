#pragma once
// Event files put together by the definitions of protobuf, of TFRecord and of TensorFlow's messages, without Capstan's
// code.
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <capstan/error.hpp>
#include <capstan/io/events.hpp>

#include "tests/catch.hpp"
#include "tests/files.hpp"
#include "tests/tfrecord_files.hpp"

namespace tests::wire {

inline std::string varint(std::uint64_t value) {
  std::string text;
  for (; value >= 128; value >>= 7) text += static_cast<char>((value & 127) | 128);
  return text + static_cast<char>(value);
}

inline std::string key(int field, int type) { return varint(static_cast<std::uint64_t>(field * 8 + type)); }
inline std::string integer(int field, std::int64_t value) {
  return key(field, 0) + varint(static_cast<std::uint64_t>(value));
}
inline std::string text(int field, std::string_view bytes) {
  return key(field, 2) + varint(bytes.size()) + std::string(bytes);
}

/// The bytes of a number in memory, the lowest first.
template <class T>
std::string raw(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}
template <class T>
std::string raw(const std::vector<T>& values) {
  std::string bytes;
  for (const T value : values) bytes += raw(value);
  return bytes;
}
inline std::string real(int field, double value) { return key(field, 1) + raw(value); }
inline std::string single(int field, float value) { return key(field, 5) + raw(value); }

// tensorflow.Event and what is in it
inline std::string event(double time, std::int64_t step, const std::string& what) {
  return real(1, time) + integer(2, step) + what;
}
inline std::string version() { return event(1000, 0, text(3, "brain.Event:2")); }
inline std::string session_start(double time, std::int64_t step) { return event(time, step, text(7, integer(1, 1))); }
inline std::string summary(const std::string& value) { return text(5, text(1, value)); }
inline std::string scalar(double time, std::int64_t step, std::string_view tag, float value) {
  return event(time, step, summary(text(1, tag) + single(2, value)));
}
inline std::string plugin(std::string_view name) { return text(9, text(1, text(1, name))); }

inline std::string shape(const std::vector<std::int64_t>& sizes) {
  std::string axes;
  for (const std::int64_t size : sizes) axes += text(2, integer(1, size));
  return text(2, axes);
}
/// A TensorProto: its type, sizes, and values in whatever form.
inline std::string tensor(std::int64_t type, const std::vector<std::int64_t>& sizes, const std::string& values) {
  return integer(1, type) + shape(sizes) + values;
}
/// A summary of one value in the form of TensorFlow 2.
inline std::string tensor_summary(std::string_view plugin_name, const std::string& tensor_message) {
  return summary(text(1, "tag") + plugin(plugin_name) + text(8, tensor_message));
}

inline Bytes record(const std::string& data) { return record_of(bytes_of(data)); }
inline Bytes file_of(const std::vector<std::string>& events) {
  Bytes bytes;
  for (const std::string& data : events) bytes = joined(std::move(bytes), record(data));
  return bytes;
}

/// False, with a warning, in a build without protozero, whose error must say what to install.
inline bool has_events() {
  const TemporaryFolder folder;
  try {
    capstan::io::read_events(folder.write("events", file_of({version()})));
    return true;
  } catch (const capstan::BackendError& error) {
    CHECK(std::string(error.what()).find("install libprotozero-dev (Debian, Ubuntu) and build again") !=
          std::string::npos);
    WARN("this build has no protozero: this case checked nothing");
    return false;
  }
}

}  // namespace tests::wire
