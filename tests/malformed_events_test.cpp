// Event files that are broken: records, messages at every depth, tensors that are not what they say.
#include <capstan/capstan.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/event_files.hpp"
#include "tests/files.hpp"
#include "tests/resident.hpp"
#include "tests/tfrecord_files.hpp"

namespace cs = capstan;
namespace wire = tests::wire;

namespace {

using tests::Bytes;
using tests::Malformed;

void read_by_class(const std::string& path) {
  cs::io::EventReader reader(path);
  for (cs::io::Event event; reader.next(event);) {}
}

void read_by_function(const std::string& path) { cs::io::read_events(path); }
void read_curves(const std::string& path) { cs::io::read_scalars(path); }

void check(const std::vector<Malformed>& rows, capstan::Where where = capstan::Where::current()) {
  tests::check_malformed(rows, "EventReader", "events", read_by_class, where);
  tests::check_malformed(rows, "read_events", "events", read_by_function, where);
  tests::check_malformed(rows, "read_scalars", "events", read_curves, where);
}

/// A good record, and one with that event.
Bytes with_event(const std::string& event) { return wire::file_of({wire::version(), event}); }

Malformed event_row(const std::string& what, const std::string& event, const std::string& reason) {
  return {what, with_event(event), reason};
}

/// A summary with one value.
Malformed value_row(const std::string& what, const std::string& value, const std::string& reason) {
  return event_row(what, wire::summary(value), reason);
}

Malformed tensor_row(const std::string& what, const std::string& plugin, const std::string& tensor,
                     const std::string& reason) {
  return event_row(what, wire::tensor_summary(plugin, tensor), reason);
}

Bytes flipped(Bytes bytes, std::size_t place) {
  bytes[place] = static_cast<unsigned char>(bytes[place] ^ 1);
  return bytes;
}

std::vector<Malformed> wrong_records() {
  const Bytes good = with_event(wire::scalar(1, 1, "tag", 1));
  const std::size_t second = wire::record(wire::version()).size();
  Bytes wrong_length = good;
  wrong_length[second] = static_cast<unsigned char>(wrong_length[second] + 1);
  return {
      {"a wrong bit in the first record", flipped(good, 14), "a record's data is wrong at offset"},
      {"a wrong bit in the last record", flipped(good, second + 13), "a record's data is wrong at offset"},
      {"a wrong checksum at the end", flipped(good, good.size() - 1), "a record's data is wrong at offset"},
      {"a wrong length", wrong_length, "a record's length is wrong at offset"},
      {"zeros behind the records", tests::joined(good, Bytes(64, 0)), "a record's length is wrong at offset"},
      {"text", tests::bytes_of("this is some text, and no event file at all"),
       "a record's length is wrong at offset 8"},
      {"a length of 2^64 - 1 without its checksum", Bytes(16, 0xFF), "a record's length is wrong at offset 8"},
      {"damaged gzip", flipped(tests::gzip(good), tests::gzip(good).size() - 8), "incorrect data check"},
      {"gzip that is cut", tests::first_bytes(tests::gzip(good), tests::gzip(good).size() - 9), "the gzip stream"},
  };
}

/// What each message says about its fields must be so.
std::vector<Malformed> wrong_messages() {
  const std::string long_varint(10, '\xFF');
  return {
      event_row("an event that is one byte", "\x80", "is damaged"),
      event_row("a tag without a value", wire::key(1, 1), "is damaged"),
      event_row("a tag of number 0", std::string(2, '\0'), "is damaged"),
      event_row("a tag of 35 bits", wire::varint(std::uint64_t{1} << 34) + "x", "a tag has more than 32 bits"),
      event_row("a varint of 11 bytes", wire::key(2, 0) + long_varint + "\1", "is damaged"),
      event_row("wire type 3", wire::key(30, 3), "is damaged"),
      event_row("wire type 7", wire::key(30, 7), "is damaged"),
      event_row("a time as a varint", wire::integer(1, 5), "field 1 has wire type 0 at offset"),
      event_row("a message of another kind", wire::text(1, "features"), "field 1 has wire type 2 at offset"),
      event_row("a time that is cut", wire::key(1, 1) + "1234567", "is damaged"),
      event_row("a step as 64 bits", wire::real(2, 1), "field 2 has wire type 1 at offset"),
      event_row("a version as a number", wire::integer(3, 2), "field 3 has wire type 0 at offset"),
      event_row("a graph as a number", wire::integer(4, 2), "field 4 has wire type 0 at offset"),
      event_row("a summary as a number", wire::integer(5, 2), "field 5 has wire type 0 at offset"),
      event_row("a session as a number", wire::integer(7, 2), "field 7 has wire type 0 at offset"),
      event_row("a status as text", wire::text(7, wire::text(1, "START")), "field 1 has wire type 2 at offset"),
      event_row("a summary longer than the event", wire::key(5, 2) + wire::varint(3) + "ab",
                "declares 3 bytes at offset"),
      event_row("a summary of 2^32 + 1 bytes", wire::key(5, 2) + wire::varint((std::uint64_t{1} << 32) + 1) + "a",
                "declares 4294967297 bytes at offset"),
      event_row("a value as a number", wire::text(5, wire::integer(1, 1)), "field 1 has wire type 0 at offset"),
      event_row("a value longer than the summary", wire::text(5, wire::key(1, 2) + wire::varint(9) + "abc"),
                "declares 9 bytes at offset"),
      event_row("an unknown field longer than the event", wire::key(50, 2) + wire::varint(100) + "a",
                "declares 100 bytes at offset"),
      value_row("a tag as a number", wire::integer(1, 1), "field 1 has wire type 0 at offset"),
      value_row("a scalar as 64 bits", wire::real(2, 1), "field 2 has wire type 1 at offset"),
      value_row("a scalar that is cut", wire::key(2, 5) + "123", "is damaged"),
      value_row("a picture as a number", wire::integer(4, 1), "field 4 has wire type 0 at offset"),
      value_row("a height as text", wire::text(4, wire::text(1, "28")), "field 1 has wire type 2 at offset"),
      value_row("a picture longer than its message", wire::text(4, wire::key(4, 2) + wire::varint(5) + "PNG"),
                "declares 5 bytes at offset"),
      value_row("a sound as a number", wire::text(6, wire::integer(4, 1)), "field 4 has wire type 0 at offset"),
      value_row("metadata as a number", wire::integer(9, 1), "field 9 has wire type 0 at offset"),
      value_row("a plugin as a number", wire::text(9, wire::integer(1, 1)), "field 1 has wire type 0 at offset"),
      value_row("a plugin's name as a number", wire::text(9, wire::text(1, wire::integer(1, 1))),
                "field 1 has wire type 0 at offset"),
      value_row("metadata cut short", wire::key(9, 2) + wire::varint(1) + wire::key(1, 2), "is damaged"),
      value_row("a tensor as a number", wire::integer(8, 1), "field 8 has wire type 0 at offset"),
  };
}

std::string repeated(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

/// Reads a file in all ways. Each takes at most so many bytes for a byte of the file.
void check_growth(const Bytes& bytes, std::int64_t times, const std::string& reason = "") {
  const tests::TemporaryFolder folder;
  const std::string path = folder.write("events", bytes);
  for (const auto& way : {read_by_class, read_by_function, read_curves}) {
    std::string said;
    tests::check_memory(bytes.size(), times, [&] {
      try {
        way(path);
      } catch (const cs::IoError& error) { said = error.what(); }
    });
    INFO(said);
    CHECK((reason.empty() ? said.empty() : said.find(reason) != std::string::npos));
  }
}

std::vector<Malformed> wrong_histograms() {
  const auto row = [](const std::string& what, const std::string& message, const std::string& reason) {
    return value_row(what, wire::text(1, "tag") + wire::text(5, message), reason);
  };
  const std::string limits = wire::text(6, wire::raw(std::vector<double>{1, 2}));
  return {
      row("a least value as a varint", wire::integer(1, 0), "field 1 has wire type 0 at offset"),
      row("a count without a limit", limits + wire::text(7, wire::raw(std::vector<double>{1, 2, 3})),
          "has 2 limits and 3 counts"),
      row("limits without counts", limits, "has 2 limits and 0 counts"),
      row("limits of 7 bytes", wire::text(6, "1234567"), "is damaged"),
      row("limits as a varint", wire::integer(6, 1), "field 6 has wire type 0 at offset"),
      row("counts longer than the message", limits + wire::key(7, 2) + wire::varint(16) + "12345678",
          "declares 16 bytes at offset"),
  };
}

std::vector<Malformed> wrong_tensors() {
  const std::string four = wire::text(4, wire::raw(1.0f)), none;
  const std::int64_t huge = std::int64_t{1} << 40, most = INT64_MAX;
  const auto any = [](const std::string& what, const std::string& tensor, const std::string& reason) {
    return tensor_row(what, "mine", tensor, reason);
  };
  std::string nine_sizes;
  for (int i = 0; i < 9; ++i) nine_sizes += wire::text(2, wire::integer(1, 1));
  return {
      any("a type as text", wire::text(1, "float"), "field 1 has wire type 2 at offset"),
      any("a shape as a number", wire::integer(2, 1), "field 2 has wire type 0 at offset"),
      any("a size as text", wire::integer(1, 1) + wire::text(2, wire::text(2, wire::text(1, "1"))),
          "field 1 has wire type 2 at offset"),
      any("an axis as a number", wire::text(2, wire::integer(2, 1)), "field 2 has wire type 0 at offset"),
      any("a negative size", wire::tensor(1, {-1}, four), "the sizes [-1] of a tensor hold -1 at offset"),
      any("a negative size behind zero", wire::tensor(1, {0, -4}, none), "hold -4 at offset"),
      any("nine sizes", wire::integer(1, 1) + wire::text(2, nine_sizes) + four, "more than 8 sizes at offset"),
      any("sizes whose product wraps around to 0", wire::tensor(1, {huge, huge}, none), "need 2^63 bytes or more"),
      any("sizes whose product wraps around to 1", wire::tensor(1, {most, most}, four), "need 2^63 bytes or more"),
      any("as many texts", wire::tensor(7, {most, 2}, none), "need 2^63 bytes or more"),
      any("huge sizes behind zero", wire::tensor(1, {0, most, most}, none), "need 2^63 bytes or more"),
      any("sizes that only memory would limit", wire::tensor(1, {huge}, four), "holds 1 values in the message"),
      any("no rank", wire::integer(1, 1) + wire::text(2, wire::integer(3, 1)) + four, "has no shape in the message"),
      any("content of 3 bytes", wire::tensor(1, {}, wire::text(4, "123")), "has 3 bytes of content"),
      any("content of one value too few", wire::tensor(1, {2}, four), "holds 1 values in the message"),
      any("content of one value too many", wire::tensor(3, {}, wire::text(4, "12345678")), "holds 2 values"),
      any("content without sizes of 0", wire::tensor(2, {0}, wire::text(4, "12345678")), "holds 1 values"),
      any("no values", wire::tensor(1, {}, none), "holds 0 values in the message"),
      any("one value for all", wire::tensor(1, {1000}, wire::single(5, 1)), "holds 1 values in the message"),
      any("values of another type's list", wire::tensor(1, {}, wire::real(6, 1)), "holds 0 values in the message"),
      any("a list of half a value", wire::tensor(1, {}, wire::text(5, "12")), "is damaged"),
      any("a listed varint that is cut", wire::tensor(3, {1}, wire::text(7, "\x80")), "is damaged"),
      any("an int8 of 200", wire::tensor(6, {}, wire::integer(7, 200)), "holds 200 in the message"),
      any("a uint8 of -1", wire::tensor(4, {}, wire::integer(7, -1)), "holds -1 in the message"),
      any("a half of 17 bits", wire::tensor(19, {}, wire::integer(13, 65536)), "holds 65536 in the message"),
      any("a uint64 of 2^63", wire::tensor(23, {}, wire::integer(17, INT64_MIN)), "holds 9223372036854775808"),
      any("texts as numbers", wire::tensor(7, {1}, wire::integer(8, 1)), "field 8 has wire type 0 at offset"),
      any("texts in the content", wire::tensor(7, {1}, wire::text(4, "\1a")), "has 2 bytes of content"),
      any("a text too few", wire::tensor(7, {2}, wire::text(8, "a")), "holds 1 values in the message"),
  };
}

std::vector<Malformed> wrong_plugins() {
  const auto texts = [](const std::vector<std::string>& values) {
    std::string list;
    for (const std::string& value : values) list += wire::text(8, value);
    return wire::tensor(7, {static_cast<std::int64_t>(values.size())}, list);
  };
  const std::string two = wire::tensor(1, {2}, wire::text(4, "12345678"));
  return {
      tensor_row("a scalar of two numbers", "scalars", two, "scalar 'tag' is float32 [2] in the message at offset"),
      tensor_row("a scalar of none", "scalars", wire::tensor(1, {0}, ""), "must be a single number"),
      tensor_row("a scalar of text", "scalars", texts({"1"}), "is text [1] in the message at offset"),
      tensor_row("a complex scalar", "scalars", wire::tensor(8, {}, ""), "is type 8 [] in the message at offset"),
      tensor_row("a scalar without anything", "scalars", "", "is type 0 [] in the message at offset"),
      tensor_row("a histogram of one axis", "histograms", two, "it must be [bins, 3]"),
      tensor_row("a histogram of pairs", "histograms", wire::tensor(1, {0, 2}, ""), "it must be [bins, 3]"),
      tensor_row("a histogram of text", "histograms", texts({"1"}), "it must hold numbers"),
      tensor_row("pictures of numbers", "images", two, "it must hold texts"),
      tensor_row("pictures without a height", "images", texts({"640"}), "the first two must be width and height"),
      tensor_row("pictures of a width that is text", "images", texts({"6x", "1", "png"}), "have the size '6x'"),
      tensor_row("pictures of a negative height", "images", texts({"6", "-1", "png"}), "have the size '-1'"),
      tensor_row("pictures of an empty width", "images", texts({"", "1"}), "have the size ''"),
      tensor_row("pictures of 10^30 rows", "images", texts({"1", "1" + std::string(30, '0')}), "have the size '1000"),
      tensor_row("sounds of numbers", "audio", two, "it must hold texts"),
      tensor_row("texts of numbers", "text", two, "it must hold texts"),
  };
}

}  // namespace

TEST_CASE("an event file with a broken record is an error that says where", "[io][events][errors][host]") {
  if (!wire::has_events()) return;
  check(wrong_records());
}

TEST_CASE("an event that is no such message is an error that says where", "[io][events][errors][host]") {
  if (!wire::has_events()) return;
  check(wrong_messages());
}

TEST_CASE("a histogram of an event that does not fit together is an error", "[io][events][errors][host]") {
  if (!wire::has_events()) return;
  check(wrong_histograms());
}

TEST_CASE("a tensor of an event that is not what it says is an error, and takes no memory",
          "[io][events][errors][host]") {
  if (!wire::has_events()) return;
  CHECK(tests::peak_bytes([] { check(wrong_tensors()); }) <= 1 << 20);
}

TEST_CASE("a value of an event that its plugin cannot show is an error", "[io][events][errors][host]") {
  if (!wire::has_events()) return;
  check(wrong_plugins());
}

TEST_CASE("events of many small parts take no more memory than their parts do", "[io][events][errors][host]") {
  if (!wire::has_events()) return;
  constexpr int kParts = 1 << 18;
  const std::string nothing = wire::text(1, ""), scalar = wire::text(1, wire::text(1, "a") + wire::single(2, 1));
  const std::string few = " values stand in the event at offset ";
  check_growth(with_event(wire::text(5, repeated(nothing, 2 * kParts))), 8, few);
  check_growth(with_event(repeated(wire::text(5, nothing), kParts)), 8, few);
  check_growth(with_event(wire::text(5, repeated(scalar, kParts + 1))), 32);
  const Bytes empty = wire::record("");
  Bytes records;
  for (int i = 0; i <= kParts / 2; ++i) records.insert(records.end(), empty.begin(), empty.end());
  check_growth(records, 24);
  // A text of 2 bytes takes 32.
  constexpr int kTexts = 4 * kParts + 1;
  const auto texts = [&](std::int64_t count) {
    return with_event(wire::tensor_summary("text", wire::tensor(7, {count}, repeated(wire::text(8, ""), kTexts))));
  };
  check_growth(texts(kTexts), 24);
  check_growth(texts(1), 8, "holds 1048577 values in the message");
}

TEST_CASE("a plugin's name is not copied for every value of its tag if it is long", "[io][events][errors][host]") {
  if (!wire::has_events()) return;
  const auto value = [](const std::string& what) {
    return wire::text(1, wire::text(1, "a") + what + wire::single(2, 1));
  };
  // 10,000 copies of 50,000 bytes would be 500 MB
  const std::string first = value(wire::plugin(std::string(50000, 'p')));
  check_growth(with_event(wire::text(5, first + repeated(value(""), 10000))), 32);
}

TEST_CASE("the offset of a broken event is that of the field in the file", "[io][events][errors][host]") {
  if (!wire::has_events()) return;
  // version: a record of 16 + 9 + 2 + 15 bytes; then 12 bytes of a head, 2 of a summary and 2 of a value
  const std::size_t first = wire::record(wire::version()).size();
  CHECK(first == 16 + 9 + 2 + 15);
  check({value_row("a scalar as a varint", wire::integer(2, 1), "at offset " + std::to_string(first + 12 + 4) + ";")});
}

TEST_CASE("a reader stays at an event that is broken", "[io][events][errors][host]") {
  if (!wire::has_events()) return;
  const tests::TemporaryFolder folder;
  cs::io::EventReader reader(folder.write("events", with_event(wire::integer(1, 5))));
  cs::io::Event event;
  REQUIRE(reader.next(event));
  const std::int64_t offset = reader.offset();
  CHECK_THROWS_AS(reader.next(event), cs::IoError);
  CHECK_THROWS_AS(reader.next(event), cs::IoError);
  CHECK(reader.offset() == offset);
  CHECK(event.file_version == "brain.Event:2");
}

TEST_CASE("an event with every wrong bit is read or is an error", "[io][events][errors][host]") {
  if (!wire::has_events()) return;
  const std::string good = wire::event(
      1, 2,
      wire::text(5, wire::text(1, wire::text(1, "tag") + wire::plugin("histograms") +
                                      wire::text(8, wire::tensor(2, {1, 3}, wire::text(6, std::string(24, 'x'))))) +
                        wire::text(1, wire::text(5, wire::text(6, std::string(8, 'x')) +
                                                        wire::text(7, std::string(8, 'x'))))));
  const tests::TemporaryFolder folder;
  int read = 0;
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string wrong = good;
    wrong[bit / 8] = static_cast<char>(wrong[bit / 8] ^ (1 << (bit % 8)));
    const std::string path = folder.write("events", wire::file_of({wrong}));
    try {
      cs::io::read_events(path);
      ++read;
    } catch (const cs::IoError&) {}
  }
  CHECK(read > 64);  // such as the time's bits
  CHECK(read < static_cast<int>(8 * good.size()));
}
