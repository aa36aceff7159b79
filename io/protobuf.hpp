#pragma once
// Messages of protobuf taken apart by protozero; for builds that have it. Formats call only as deep as their messages
// are declared, so that a file cannot nest them further.
#include <protozero/pbf_reader.hpp>

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <capstan/error.hpp>

#include "lib/base/text.hpp"

namespace capstan::io {

/// What is being parsed, and the field that was begun last.
struct ProtobufSource {
  std::string_view op;  // how errors begin: "op", or "op: PATH"
  const char* begin;    // of the bytes,
  std::int64_t start;   // which stand there in the file
  Where where;
  const char* field = nullptr;

  std::int64_t offset() const noexcept { return start + (field - begin); }
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    base::fail<IoError>(where, op, ": ", parts...);
  }
};

/// The fields of a message, one after another. Protozero keeps within the bytes; lengths and tags are checked here in
/// 64 bits, since it would cut them to 32.
class ProtobufMessage {
 public:
  ProtobufMessage(ProtobufSource& source, std::string_view bytes)
      : source_(source), reader_(bytes.data(), bytes.size()) {}

  /// Goes on to the next field, whose value one of the others must then take.
  bool next();
  std::uint32_t number() const noexcept { return number_; }
  void skip();
  std::string_view bytes();
  ProtobufMessage message() { return ProtobufMessage(source_, bytes()); }
  std::int64_t integer();
  float single();
  double real();
  // Repeated fields: a value, or many of them packed.
  void read_floats(std::vector<float>& values);
  void read_doubles(std::vector<double>& values);
  void read_integers(std::vector<std::int64_t>& values);

  ProtobufSource& source() const noexcept { return source_; }

 private:
  /// The number that comes next, and the bytes behind it. Reads no further.
  std::pair<std::uint64_t, std::uint64_t> peek() const;
  void check_length() const;
  bool has(protozero::pbf_wire_type type) const noexcept { return reader_.has_wire_type(type); }
  [[noreturn]] void fail_for_type(const char* expected) const;

  ProtobufSource& source_;
  protozero::pbf_reader reader_;
  std::uint32_t number_ = 0;
};

/// `read` takes the fields of the outermost message, one at a call.
template <class Read>
void parse_protobuf(ProtobufSource source, std::string_view bytes, const Read& read) {
  try {
    for (ProtobufMessage message(source, bytes); message.next();) read(message);
  } catch (const protozero::exception& error) {
    source.fail("the field at offset ", source.offset(), " is damaged (", error.what(),
                "); it must be a tag and a value of its wire type.");
  }
}

}  // namespace capstan::io
