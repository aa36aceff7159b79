#if CAPSTAN_HAS_PROTOZERO
#include "io/protobuf.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>

namespace capstan::io {

using protozero::pbf_wire_type;

std::pair<std::uint64_t, std::uint64_t> ProtobufMessage::peek() const {
  const protozero::data_view rest = reader_.data();
  const char* at = rest.data();
  const char* const end = at + rest.size();
  const std::uint64_t value = protozero::decode_varint(&at, end);
  return {value, static_cast<std::uint64_t>(end - at)};
}

bool ProtobufMessage::next() {
  if (reader_.length() == 0) return false;
  source_.field = reader_.data().data();
  if (peek().first > std::numeric_limits<std::uint32_t>::max())
    source_.fail("a tag has more than 32 bits at offset ", source_.offset(),
                 "; it must be the number and the wire type of a field.");
  reader_.next();
  number_ = reader_.tag();
  return true;
}

void ProtobufMessage::check_length() const {
  const auto [length, left] = peek();
  if (length > left)
    source_.fail("field ", std::int64_t{number_}, " declares ", std::to_string(length), " bytes at offset ",
                 source_.offset(), ", and ", std::to_string(left), " follow; they must be in the message.");
}

void ProtobufMessage::fail_for_type(const char* expected) const {
  source_.fail("field ", std::int64_t{number_}, " has wire type ", static_cast<int>(reader_.wire_type()), " at offset ",
               source_.offset(), "; it must be ", expected, ".");
}

void ProtobufMessage::skip() {
  if (has(pbf_wire_type::length_delimited)) check_length();
  reader_.skip();
}

std::string_view ProtobufMessage::bytes() {
  if (!has(pbf_wire_type::length_delimited)) fail_for_type("2, a length and bytes");
  check_length();
  const protozero::data_view view = reader_.get_view();
  return {view.data(), view.size()};
}

std::int64_t ProtobufMessage::integer() {
  if (!has(pbf_wire_type::varint)) fail_for_type("0, a varint");
  return reader_.get_int64();
}

float ProtobufMessage::single() {
  if (!has(pbf_wire_type::fixed32)) fail_for_type("5, 32 bits");
  return reader_.get_float();
}

double ProtobufMessage::real() {
  if (!has(pbf_wire_type::fixed64)) fail_for_type("1, 64 bits");
  return reader_.get_double();
}

void ProtobufMessage::read_floats(std::vector<float>& values) {
  if (has(pbf_wire_type::fixed32)) {
    values.push_back(reader_.get_float());
    return;
  }
  if (!has(pbf_wire_type::length_delimited)) fail_for_type("5, 32 bits, or 2, many of them");
  check_length();
  const auto packed = reader_.get_packed_float();
  values.insert(values.end(), packed.begin(), packed.end());
}

void ProtobufMessage::read_doubles(std::vector<double>& values) {
  if (has(pbf_wire_type::fixed64)) {
    values.push_back(reader_.get_double());
    return;
  }
  if (!has(pbf_wire_type::length_delimited)) fail_for_type("1, 64 bits, or 2, many of them");
  check_length();
  const auto packed = reader_.get_packed_double();
  values.insert(values.end(), packed.begin(), packed.end());
}

void ProtobufMessage::read_integers(std::vector<std::int64_t>& values) {
  if (has(pbf_wire_type::varint)) {
    values.push_back(reader_.get_int64());
    return;
  }
  if (!has(pbf_wire_type::length_delimited)) fail_for_type("0, a varint, or 2, many of them");
  const std::string_view packed = bytes();
  if (values.empty())  // not for every one of many parts: exact room each time would take quadratic time
    values.reserve(static_cast<std::size_t>(
        std::count_if(packed.begin(), packed.end(), [](char byte) { return (byte & 0x80) == 0; })));
  const char* at = packed.data();
  const char* const end = at + packed.size();
  while (at != end) values.push_back(static_cast<std::int64_t>(protozero::decode_varint(&at, end)));
}

}  // namespace capstan::io

#endif
