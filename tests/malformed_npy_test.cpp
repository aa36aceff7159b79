// Every way we know in which a .npy file can be broken.
#include <capstan/io/npy.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/files.hpp"
#include "tests/npy_files.hpp"

namespace {

using tests::Bytes;
using tests::Malformed;
using tests::npy_file;
using tests::npy_text;

void read_file(const std::string& path) { capstan::io::read_npy(path); }

void check(const std::vector<Malformed>& rows) { tests::check_malformed(rows, "read_npy", "x.npy", read_file); }

/// A file of that header, with 24 bytes of elements; the header stands at offset 10.
Malformed header(const std::string& what, const std::string& text, const std::string& reason) {
  return {what, npy_file(text, Bytes(24)), reason};
}
/// One that has only its shape wrong; it stands at offset 60.
Malformed shape(const std::string& what, const std::string& text, const std::string& reason) {
  return header(what, npy_text("|u1", text), reason);
}
Malformed type(const std::string& what, const std::string& descr, const std::string& reason) {
  return header(what, npy_text(descr, "(24,)"), reason);
}

std::string repeated(const std::string& text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

}  // namespace

TEST_CASE("a .npy file whose beginning is wrong is an error", "[io][npy][host][errors]") {
  const std::string text = npy_text("|u1", "(24,)");
  const auto version = [&](unsigned char number, unsigned char revision) {
    Bytes bytes = npy_file(text, Bytes(24));
    bytes[6] = number;
    bytes[7] = revision;
    return bytes;
  };
  Bytes magic = npy_file(text, Bytes(24)), longer = magic, longest = npy_file(text, Bytes(24), 2);
  magic[1] = 'n';
  longer[9] = 0xFF;  // the length of the header, little-endian
  for (std::size_t i = 8; i < 12; ++i) longest[i] = 0xFF;
  const Bytes too_long = npy_file(text + std::string((1 << 20) + 1 - text.size(), ' '), Bytes(24), 2);
  check({
      {"nothing", {}, "the header is cut short at offset 0; it must begin with \\x93NUMPY"},
      {"another magic", magic, "the data begins with '\\x93nUMPY' at offset 0; it must be '\\x93NUMPY'."},
      {"a zip archive", tests::zip_archive({{.name = "x.npy"}}).bytes, "the data begins with 'PK\\x03\\x04"},
      {"version 0.0", version(0, 0), "format version 0.0 at offset 6; it must be 1.0, 2.0 or 3.0."},
      {"version 1.1", version(1, 1), "format version 1.1 at offset 6"},
      {"version 4.0", version(4, 0), "format version 4.0 at offset 6"},
      {"version 255.255", version(255, 255), "format version 255.255 at offset 6"},
      {"a header longer than the file", longer, "the header is cut short at offset"},
      {"a header of 4 GB", longest, "the header declares 4294967295 bytes at offset 8; it must have at most 1048576."},
      {"a header of a byte more than 1 MiB", too_long, "the header declares 1048577 bytes at offset 8"},
      {"the same in gzip", tests::gzip(too_long),
       "the header declares 1048577 bytes at offset 8 of the unpacked data; it must have at most 1048576."},
      {"a header of 1 MiB that is not there", tests::with_number(longest, 8, 1 << 20, 4),
       "; it must have 1048576 bytes from offset 12."},
      {"no header", npy_file("", {}), "the header has no more at offset 10; '{' must stand there."},
      {"a header of spaces", npy_file(std::string(60000, ' '), {}), "the header has no more at offset 60010"},
  });
}

TEST_CASE("a .npy file whose header is no dict of the three keys is an error", "[io][npy][host][errors]") {
  const std::string good = npy_text("|u1", "(24,)");
  check({
      header("a list", "[1, 2]", "the header has '[' at offset 10; '{' must stand there."),
      header("an empty dict", "{}", "the header has no key 'descr' at offset 10"),
      header("a comma alone", "{,}", "the header has ',' at offset 11; a text in quotes must stand there."),
      header("without the type", "{'fortran_order': False, 'shape': (24,)}", "the header has no key 'descr' at offset"),
      header("without the order", "{'descr': '|u1', 'shape': (24,)}", "the header has no key 'fortran_order' at"),
      header("without the shape", "{'descr': '|u1', 'fortran_order': False}", "the header has no key 'shape' at"),
      header("a key twice", "{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (24,)}",
             "the header has the key 'descr' again at offset 27; it must have it once."),
      header("another key", "{'descr': '|u1', 'order': False}",
             "the header has the key 'order' at offset 27; its keys must be 'descr', 'fortran_order' and 'shape'."),
      header("a key without quotes", "{descr: '|u1'}", "the header has 'd' at offset 11; a text in quotes"),
      header("a key that does not end", "{'descr: 1}", "a text is not closed at offset 11"),
      header("quotes of two kinds", "{'descr\": 1}", "a text is not closed at offset 11"),
      header("an escape", "{'de\\x73cr': '|u1'}", "a text holds a backslash or a new line at offset 11"),
      header("a new line in a key", "{'descr\n': '|u1'}", "a text holds a backslash or a new line at offset 11"),
      header("no colon", "{'descr' '|u1'}", "the header has '\\x27' at offset 19"),
      header("no comma", "{'descr': '|u1' 'fortran_order': False}", "at offset 26; ',' or '}' must stand there."),
      header("two commas", "{'descr': '|u1',, 'fortran_order': False}", "the header has ',' at offset 26"),
      header("no end", good.substr(0, good.size() - 1), "the header has no more at offset"),
      header("more behind it", good + " {}", "; only white space may follow its '}'."),
      header("zeros behind it", good + std::string(8, '\0'), "the header has '\\x00' at offset"),
      header("a zero in it", std::string("{\0}", 3), "the header has '\\x00' at offset 11"),
      header("a comment", "{ # Python has them\n}", "the header has '#' at offset 12"),
      header("text that is no ASCII", "{'d\xC3\xA9scr': 1}", "the header has the key 'd\\xC3\\xA9scr' at offset 11"),
      header("brackets without end", repeated("{", 60000), "the header has '{' at offset 11"),
      header("dicts in dicts", "{'descr': " + repeated("{'descr': ", 6000), "the header has '{' at offset 20"),
  });
}

TEST_CASE("a .npy file whose order is neither True nor False is an error", "[io][npy][host][errors]") {
  const auto order = [](const std::string& text, const std::string& reason) {
    return header(text, npy_text("|u1", "(24,)", text), reason);
  };
  check({
      order("1", "'fortran_order' is '1' at offset 44; it must be True or False."),
      order("None", "'fortran_order' is 'N' at offset 44"),
      order("'True'", "'fortran_order' is '\\x27' at offset 44"),
      order("Truely", "the header has 'l' at offset 48"),
      order("true", "'fortran_order' is 't' at offset 44"),
      order("", "'fortran_order' is ',' at offset 44"),
  });
}

TEST_CASE("a .npy file whose shape is no tuple of sizes is an error", "[io][npy][host][errors]") {
  check({
      shape("a list", "[24]", "'shape' is '[' at offset 60; it must be a tuple of sizes, such as (2, 3)."),
      shape("a number", "24", "'shape' is '2' at offset 60"),
      shape("a number in brackets", "(24)", "'shape' is a number in brackets at offset 60"),
      shape("nothing", "None", "'shape' is 'N' at offset 60"),
      shape("a text", "'(24,)'", "'shape' is '\\x27' at offset 60"),
      shape("a negative size", "(-24,)", "'shape' has a negative size at offset 61; it must be 0 or more."),
      shape("two negative sizes", "(-4, -6)", "'shape' has a negative size at offset 61"),
      shape("a sign alone", "(-,)", "'shape' has ',' at offset 62; its sizes must be whole numbers."),
      shape("a plus", "(+24,)", "'shape' has '+' at offset 61"),
      shape("a floating number", "(24.0,)", "'shape' has '.' at offset 63; ',' or ')' must stand there."),
      shape("an exponent", "(24e0,)", "'shape' has 'e' at offset 63"),
      shape("hexadecimal", "(0x18,)", "'shape' has 'x' at offset 62"),
      shape("zeros before it", "(024,)", "'shape' has a size with zeros before it at offset 61"),
      shape("thousands of zeros", "(" + std::string(50000, '0') + ",)", "'shape' has a size with zeros before it"),
      shape("2^63", "(9223372036854775808,)", "'shape' has a size that is too large at offset 61; it must be below"),
      shape("2^64 + 24", "(18446744073709551640,)", "'shape' has a size that is too large at offset 61"),
      shape("thousands of digits", "(" + std::string(50000, '9') + ",)", "'shape' has a size that is too large"),
      shape("a tuple in it", "((24,),)", "'shape' has '(' at offset 61"),
      shape("tuples without end", repeated("(", 50000), "'shape' has '(' at offset 61"),
      shape("two commas", "(2,,12)", "'shape' has ',' at offset 63"),
      shape("a comma alone", "(,)", "'shape' has ',' at offset 61"),
      shape("a comma first", "(,24)", "'shape' has ',' at offset 61"),
      shape("no comma", "(2 12)", "'shape' has '1' at offset 63; ',' or ')' must stand there."),
      shape("no end", "(24,", "'shape' has ',' at offset 64"),
      shape("nine sizes", "(1, 1, 1, 1, 1, 1, 1, 1, 24)", "'shape' has a ninth size at offset 85"),
      shape("thousands of sizes", "(" + repeated("1,", 20000) + ")", "'shape' has a ninth size at offset 77"),
      header("eight sizes of pairs", npy_text("<c8", "(1, 1, 1, 1, 1, 1, 1, 3)"),
             "'shape' has 8 sizes at offset 60; of complex numbers it must have at most 7, since they are pairs."),
  });
}

TEST_CASE("sizes of a .npy file whose elements are not there are an error before they cost memory",
          "[io][npy][host][errors]") {
  const auto sizes = [](const std::string& descr, const std::string& text, const std::string& reason) {
    return header(descr + " " + text, npy_text(descr, text), reason);
  };
  const std::vector<Malformed> rows = {
      sizes("|u1", "(25,)", "sizes [25] of uint8 need 25 bytes from offset "),
      sizes("|u1", "(23,)", "more bytes follow the last element at offset "),
      sizes("|u1", "(0,)", "more bytes follow the last element at offset "),
      sizes("|u1", "()", "more bytes follow the last element at offset "),
      sizes("<f8", "(2, 2)", "sizes [2, 2] of float64 need 32 bytes from offset "),
      sizes("<c16", "(2,)", "sizes [2, 2] of float64 need 32 bytes from offset "),
      sizes("<u4", "(7,)", "sizes [7] of int32 need 28 bytes from offset "),
      sizes("|u1", "(1099511627776,)", "need 1099511627776 bytes from offset "),
      sizes("<f8", "(1073741824, 1073741823)", "the elements end at offset "),
      sizes("|u1", "(4294967296, 4294967296)", "need 2^63 bytes or more"),  // 2^64 wraps to 0
      sizes("<f8", "(1152921504606846976,)",
            "sizes [1152921504606846976] of 8 bytes at offset 60 need 2^63 bytes or more"),
      sizes("<c16", "(576460752303423488,)", "need 2^63 bytes or more"),
      sizes("<u4", "(1152921504606846976,)", "need 2^63 bytes or more"),  // as int64
      sizes("|u1", "(0, 4611686018427387904, 4611686018427387904)", "need 2^63 bytes or more"),
      sizes("|u1", "(9223372036854775807, 9223372036854775807, 0)", "need 2^63 bytes or more"),
      {"2^40 in gzip", tests::gzip(npy_file(npy_text("|u1", "(1099511627776,)"), Bytes(24))),
       "need 1099511627776 bytes from offset "},
      {"2^40 of zeros that are not all there",
       tests::gzip(npy_file(npy_text("|u1", "(1099511627776,)"), Bytes(100000))), "the elements end at offset 100"},
  };
  CHECK(tests::peak_bytes([&] { check(rows); }) < std::int64_t{1} << 22);
}

TEST_CASE("types that a tensor cannot have are an error that says what they are", "[io][npy][host][errors]") {
  check({
      type("objects", "|O", "element type '|O' at offset 20: Python objects are not supported; it must be one of f2"),
      type("objects with a size", "O8", "Python objects are not supported"),
      type("text", "<U3", "text is not supported"),
      type("bytes", "|S5", "text is not supported"),
      type("raw bytes", "|V8", "raw bytes are not supported"),
      type("bfloat16 of ml_dtypes", "<V2", "raw bytes are not supported"),
      type("dates", "<M8[ns]", "dates are not supported"),
      type("time spans", "<m8[s]", "time spans are not supported"),
      type("long double", "<f16", "long double is not supported"),
      type("long double of 80 bits", "<f12", "long double is not supported"),
      type("complex long double", "<c32", "long double is not supported"),
      type("a float of 3 bytes", "<f3", "element type '<f3' at offset 20: this type is not supported"),
      type("an integer of 16 bytes", "<i16", "this type is not supported"),
      type("bool of 2 bytes", "<b2", "this type is not supported"),
      type("a size too many", "<f44", "this type is not supported"),
      type("no type", "", "element type '' at offset 20: this type is not supported"),
      type("an order alone", "<", "element type '<' at offset 20: this type is not supported"),
      type("two orders", "<>f4", "this type is not supported"),
      type("another order", "!f4", "this type is not supported"),
      type("a list of types", "f4,f4", "this type is not supported"),
      type("a shape in the type", "(2,)f4", "this type is not supported"),
      type("no ASCII", "<f\x80", "element type '<f\\x80' at offset 20"),
      type("very long", "<f" + std::string(50000, '4'), "...' at offset 20: this type is not supported"),
      header("records", "{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (6,)}",
             "the element type at offset 20 is a list: structured types are not supported"),
      header("a type with a shape", "{'descr': ('<i4', (2,)), 'fortran_order': False, 'shape': (3,)}",
             "the element type at offset 20 is a tuple: types with a shape are not supported"),
      header("a number", "{'descr': 4, 'fortran_order': False, 'shape': (6,)}", "the header has '4' at offset 20"),
      {"u8 of 2^63 behind small ones",
       npy_file(npy_text("<u8", "(2,)"), {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80}),
       "the unsigned number 9223372036854775808 at offset "},
      {"u8 of 2^64 - 1 in Fortran order", npy_file(npy_text("<u8", "(1, 1)", "True"), Bytes(8, 0xFF)),
       "the unsigned number 18446744073709551615 at offset "},
  });
}

TEST_CASE("a .npy file cut at any byte is an error, plain and gzip, in all versions", "[io][npy][host][errors]") {
  const std::string text = npy_text("<u2", "(2, 3)", "True");
  for (const int version : {1, 2, 3}) {
    const Bytes good = npy_file(text, Bytes(12), version);
    tests::check_prefixes(good, "read_npy", "x.npy", read_file);
    tests::check_prefixes(tests::gzip(good), "read_npy", "x.npy", read_file);
  }
  tests::check_prefixes(npy_file(npy_text("<f8", "()"), Bytes(8)), "read_npy", "x.npy", read_file);
}

TEST_CASE("damaged gzip around a .npy file is an error", "[io][npy][host][errors]") {
  const Bytes good = tests::gzip(tests::npy_count(100));
  Bytes checksum = good, length = good;
  checksum[good.size() - 8] ^= 1;
  length[good.size() - 4] ^= 1;
  check({
      {"a wrong checksum", checksum, "the gzip stream is damaged (incorrect data check) at offset "},
      {"a wrong length", length, "the gzip stream is damaged (incorrect length check) at offset "},
      {"more behind it", tests::joined(good, {1, 2, 3}), "other bytes follow the gzip stream at offset "},
      {"a second file behind it", tests::joined(good, good), "more bytes follow the last element at offset "},
  });
}
