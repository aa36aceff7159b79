// Every way we know in which a safetensors file can be broken, or made to mean two things.
#include <capstan/io/safetensors.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/files.hpp"
#include "tests/resident.hpp"
#include "tests/safetensors_files.hpp"

namespace {

using tests::Bytes;
using tests::Malformed;
using tests::safetensors_entry;
using tests::safetensors_file;
using tests::safetensors_header;

void read_file(const std::string& path) { capstan::io::read_safetensors(path); }

void check(const std::vector<Malformed>& rows) {
  tests::check_malformed(rows, "read_safetensors", "x.safetensors", read_file);
}

/// A length of the header that may be wrong, and what follows it.
Bytes with_length(std::uint64_t length, const std::string& text) {
  Bytes bytes;
  tests::append_little(bytes, length, 8);
  return tests::joined(bytes, tests::bytes_of(text));
}

const Bytes kTwo = {1, 2};  // the elements of safetensors_header()

/// That header, and then the elements of its tensor.
Malformed header(const std::string& what, const std::string& text, const std::string& reason) {
  return {what, safetensors_file(text, kTwo), reason};
}
/// One tensor with such sizes and two bytes.
Malformed shape(const std::string& sizes, const std::string& reason) {
  return header("shape " + sizes, safetensors_header("\"U8\"", sizes), reason);
}
Malformed offsets(const std::string& ends, const std::string& reason) {
  return header("data_offsets " + ends, safetensors_header("\"U8\"", "[2]", ends), reason);
}
Malformed dtype(const std::string& type, const std::string& reason) {
  return header("dtype " + type, safetensors_header(type), reason);
}

std::string repeated(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

/// Tensors of bytes that claim to stand there, in a file with so many bytes of elements.
struct Range {
  std::string name;
  int begin, end;
};
Malformed ranges(const std::string& what, const std::vector<Range>& tensors, std::size_t bytes,
                 const std::string& reason) {
  std::string text = "{";
  for (const Range& range : tensors) {
    const std::string ends = "[" + std::to_string(range.begin) + "," + std::to_string(range.end) + "]";
    text += (text.size() > 1 ? ",\"" : "\"") + range.name +
            "\":" + safetensors_entry("\"U8\"", "[" + std::to_string(range.end - range.begin) + "]", ends);
  }
  return {what, safetensors_file(text + "}", Bytes(bytes)), reason};
}

/// Metadata, two tensors and one without elements.
Bytes good() {
  return safetensors_file(
      "{\"__metadata__\":{\"k\":\"v\\u00e4\"},\"x\":" + safetensors_entry("\"F32\"", "[2,1]", "[0,8]") +
          ",\"gr\xC3\xB6\xC3\x9F\":" + safetensors_entry("\"BOOL\"", "[3]", "[8,11]") +
          ",\"none\":" + safetensors_entry("\"I64\"", "[0]", "[11,11]") + "}   ",
      {0, 0, 0x80, 0x3F, 0, 0, 0, 0x40, 0, 1, 1});
}

const std::string kRule = "; the shape of tensor 'a' must be a list of whole numbers from 0 to 2^63 - 1.";

}  // namespace

TEST_CASE("a safetensors file whose header is not there is an error", "[io][safetensors][host][errors]") {
  check({
      {"nothing", {}, "the file ends at offset 0; it must begin with 8 bytes"},
      {"seven bytes", Bytes(7), "the file ends at offset 7"},
      {"a length of 0", with_length(0, ""), "the header at offset 8 begins with ''; it must begin with '{'."},
      {"a length of 0 and elements", with_length(0, "{}"), "the header at offset 8 begins with ''"},
      {"a byte less than the length", with_length(3, "{}"),
       "the length at offset 0 is 3, but the file ends 2 bytes behind it"},
      {"a length of 2^64 - 1", with_length(~std::uint64_t{0}, "{}"),
       "the length at offset 0 is 18446744073709551615; a header has at most 100000000 bytes."},
      {"a length of 2^64 - 8, which wraps to 0", with_length(~std::uint64_t{0} - 7, "{}"),
       "the length at offset 0 is 1844"},
      {"a length of 2^63", with_length(std::uint64_t{1} << 63, "{}"), "the length at offset 0 is 9223372036854775808"},
      {"a length of 2^32 + 2", with_length((std::uint64_t{1} << 32) + 2, "{}"), "the length at offset 0 is 4294967298"},
      {"a length above the package's", with_length(100000001, "{}"), "a header has at most 100000000 bytes."},
      {"a length of the package's", with_length(100000000, "{}"), "but the file ends 2 bytes behind it"},
      {"a length in the other byte order", with_length(std::uint64_t{2} << 56, "{}"), "the length at offset 0 is 1441"},
      {"blanks", with_length(4, "    "), "the header at offset 8 begins with '    '"},
      {"a blank first", with_length(3, " {}"), "the header at offset 8 begins with ' {}'"},
      {"a list", with_length(2, "[]"), "the header at offset 8 begins with '[]'"},
      {"a byte order mark", with_length(5, "\xEF\xBB\xBF{}"), "the header at offset 8 begins with '\\xEF\\xBB\\xBF{}'"},
      {"UTF-16", safetensors_file(std::string("{\0}\0", 4)), "a zero byte stands at offset 9"},
      {"a zip archive", tests::bytes_of("PK\x03\x04 and more of it"), "the length at offset 0 is "},
      {"gzip", tests::gzip(good()), "the length at offset 0 is "},
  });
}

TEST_CASE("a header of a safetensors file that is no JSON is an error", "[io][safetensors][host][errors]") {
  const std::string one = safetensors_header();
  check({
      header("half an object", "{", "the header is no JSON at offset 9, where it ends; it must be one object"),
      header("half a tensor", one.substr(0, 30), "the header is no JSON at offset "),
      header("no last brace", one.substr(0, one.size() - 1), "the header is no JSON at offset 60, where it ends"),
      header("text behind it", one + "x", "the header is no JSON at offset 61, where 'x' stands"),
      header("a second object", one + "{}", "the header is no JSON at offset 61"),
      header("a second brace", one + " }", "the header is no JSON at offset 62"),
      header("zero bytes behind it", one + std::string(3, '\0'), "a zero byte stands at offset 61"),
      header("a zero byte and text behind it", one + std::string("\0{}", 3), "a zero byte stands at offset 61"),
      header("a zero byte in a name", std::string("{\"\0\":1}", 7), "a zero byte stands at offset 10"),
      header("no key", "{:1}", "the header is no JSON at offset "),
      header("a key that is no text", "{a:1}", "the header is no JSON at offset 9, where 'a:1}' stands"),
      header("a number as a key", "{1:1}", "the header is no JSON at offset "),
      header("a comma too many", "{\"a\":" + safetensors_entry("\"U8\"", "[2]", "[0,2]") + ",}",
             "the header is no JSON at "),
      header("a comma too many in a list", safetensors_header("\"U8\"", "[2,]"), "the header is no JSON at offset "),
      header("no comma", safetensors_header("\"U8\"", "[2 1]"), "the header is no JSON at offset "),
      header("a comment", "{/**/}", "the header is no JSON at offset 9"),
      header("single quotes", "{'a':1}", "the header is no JSON at offset 9"),
      header("a line in a text", "{\"a\nb\":1}", "the header is no JSON at offset 11"),
      header("an unknown escape", "{\"\\x61\":1}", "the header is no JSON at offset "),
      header("half a surrogate pair", "{\"\\ud83d\":1}", "the header is no JSON at offset "),
      header("the other half", "{\"\\ude00\":1}", "the header is no JSON at offset "),
      header("a text without an end", "{\"a", "the header is no JSON at offset 11, where it ends"),
      header("brackets that do not match", "{\"a\":{]}", "the header is no JSON at offset "),
  });
}

TEST_CASE("a header of a safetensors file that is no UTF-8 is an error", "[io][safetensors][host][errors]") {
  const auto name = [](const std::string& what, const std::string& bytes) {
    return header(what, "{\"" + bytes + "\":" + safetensors_entry("\"U8\"", "[2]", "[0,2]") + "}",
                  "the header is no UTF-8 at offset 10, where '\\x");
  };
  check({
      name("Latin-1",
           "\xE4"
           "a"),
      name("a continuation alone", "\x80"),
      name("an overlong slash", "\xC0\xAF"),
      name("an overlong form of three bytes", "\xE0\x80\xAF"),
      name("an overlong form of four bytes", "\xF0\x80\x80\xAF"),
      name("a surrogate", "\xED\xA0\x80"),
      name("beyond U+10FFFF", "\xF4\x90\x80\x80"),
      name("five bytes", "\xF8\x88\x80\x80\x80"),
      name("half a character", "\xE2\x82"),
      name("a byte that is never used", "\xFF"),
      header("outside of texts", "{\xC3}", "the header is no UTF-8 at offset 9, where '\\xC3}' stands"),
  });
}

TEST_CASE("a header of a safetensors file that nests otherwise is an error", "[io][safetensors][host][errors]") {
  check({
      header("a number as a tensor", "{\"a\":1}",
             "the number '1' stands at offset 13; tensor 'a' must be an object of dtype, shape and data_offsets."),
      header("null as a tensor", "{\"a\":null}", "null stands at offset 13; tensor 'a' must be"),
      header("true as a tensor", "{\"a\":true}", "true stands at offset 13"),
      header("a text as a tensor", "{\"a\":\"b\"}", "the text 'b' stands at offset 13"),
      header("a list as a tensor", "{\"a\":[\"U8\",[2],[0,2]]}", "a list stands at offset 13"),
      header("a tensor in a tensor", "{\"a\":" + safetensors_header() + "}",
             "tensor 'a' has 'a' at offset 14; it must have dtype, shape and data_offsets alone."),
      header("100,000 lists", safetensors_header("\"U8\"", repeated("[", 100000) + repeated("]", 100000)),
             "a list stands at offset 36" + kRule),
      header("100,000 lists as a tensor", "{\"a\":" + repeated("[", 100000), "a list stands at offset 13"),
      header("100,000 objects", repeated("{\"a\":", 100000), "tensor 'a' has 'a' at offset 14"),
      header("100,000 objects as metadata", "{\"__metadata__\":" + repeated("{\"a\":", 100000),
             "an object stands at offset 29; '__metadata__' must be an object of texts."),
      header("metadata that are null", "{\"__metadata__\":null}", "null stands at offset 24; '__metadata__' must be"),
      header("metadata that are a list", "{\"__metadata__\":[]}", "a list stands at offset 24"),
      header("metadata that are a tensor", "{\"__metadata__\":" + safetensors_entry("\"U8\"", "[2]", "[0,2]") + "}",
             "a list stands at offset "),
      header("a number in metadata", "{\"__metadata__\":{\"k\":1}}", "the number '1' stands at offset 29"),
      header("null in metadata", "{\"__metadata__\":{\"k\":null}}", "null stands at offset 29"),
  });
}

TEST_CASE("names and keys that are there twice, or not at all, are errors", "[io][safetensors][host][errors]") {
  const std::string entry = safetensors_entry("\"U8\"", "[2]", "[0,2]"),
                    none = safetensors_entry("\"U8\"", "[0]", "[2,2]");
  const auto keys = [](const std::string& what, const std::string& text, const std::string& reason) {
    return header(what, "{\"a\":{" + text + "}}", reason);
  };
  check({
      header("two tensors of one name", "{\"a\":" + entry + ",\"a\":" + none + "}",
             "two tensors are called 'a', at offset 9 and at offset 61; names must be different."),
      header("the same tensor twice", "{\"a\":" + entry + ",\"a\":" + entry + "}", "two tensors are called 'a'"),
      header("one name spelled in two ways", "{\"a\":" + entry + ",\"\\u0061\":" + none + "}",
             "two tensors are called 'a'"),
      header("others between them", "{\"b\":" + none + ",\"a\":" + entry + ",\"c\":" + none + ",\"b\":" + none + "}",
             "two tensors are called 'b', at offset 9 and at offset "),
      header("metadata twice", "{\"__metadata__\":{},\"a\":" + entry + ",\"__metadata__\":{}}",
             "'__metadata__' stands at offset 79 again; it may be there once."),
      header("metadata spelled in two ways", "{\"__metadata__\":{},\"\\u005f_metadata__\":{}}",
             "'__metadata__' stands at offset 27 again"),
      header("a name twice in metadata", "{\"__metadata__\":{\"k\":\"1\",\"k\":\"1\"},\"a\":" + entry + "}",
             "two metadata are called 'k', at offset 25 and at offset 33; names must be different."),
      header("a name twice in metadata, spelled in two ways",
             "{\"__metadata__\":{\"\\u00e4\\ud83d\\ude00/\\n\":\"\",\"\xC3\xA4\xF0\x9F\x98\x80\\/\\u000A\":\"\"}}",
             "two metadata are called '\\xC3\\xA4\\xF0\\x9F\\x98\\x80/\\x0A', at offset 25 and at offset "),
      keys("no dtype", R"("shape":[2],"data_offsets":[0,2])", "tensor 'a' at offset 9 has no dtype"),
      keys("no shape", R"("dtype":"U8","data_offsets":[0,2])", "tensor 'a' at offset 9 has no shape"),
      keys("no data_offsets", R"("dtype":"U8","shape":[2])", "tensor 'a' at offset 9 has no data_offsets"),
      keys("nothing", "", "tensor 'a' at offset 9 has no dtype"),
      keys("dtype twice", R"("dtype":"U8","dtype":"U8","shape":[2],"data_offsets":[0,2])",
           "tensor 'a' has dtype a second time at offset 27; it must be there once."),
      keys("shape twice", R"("dtype":"U8","shape":[1],"shape":[2],"data_offsets":[0,2])",
           "has shape a second time at "),
      keys("data_offsets twice", R"("dtype":"U8","shape":[2],"data_offsets":[0,1],"data_offsets":[0,2])",
           "has data_offsets a second time at "),
      keys("another key", R"("dtype":"U8","shape":[2],"data_offsets":[0,2],"strides":[1])",
           "tensor 'a' has 'strides' at "),
      keys("a key in capitals", R"("Dtype":"U8","shape":[2],"data_offsets":[0,2])",
           "tensor 'a' has 'Dtype' at offset 14"),
      keys("a key in a key", R"("dtype":{"dtype":"U8"})",
           "an object stands at offset 22; the dtype of tensor 'a' must be a"),
  });
}

TEST_CASE("types of elements that are not known are errors", "[io][safetensors][host][errors]") {
  const std::string known = " of tensor 'a' is not supported; it must be one of BOOL U8 I8 F8_E4M3 F8_E5M2 F8_E8M0 ";
  check({
      dtype("\"F4\"", "dtype 'F4' at offset 22" + known),
      dtype("\"F6_E2M3\"", "dtype 'F6_E2M3' at offset 22" + known),
      dtype("\"F8_E4M3FN\"", "dtype 'F8_E4M3FN' at offset 22"),
      dtype("\"C128\"", "dtype 'C128' at offset 22"),
      dtype("\"u8\"", "dtype 'u8' at offset 22"),
      dtype("\"\"", "dtype '' at offset 22"),
      dtype("\"float32\"", "dtype 'float32' at offset 22"),
      dtype("\"U8 \"", "dtype 'U8 ' at offset 22"),
      dtype("\"U8\\u0000\"", "dtype 'U8\\x00' at offset 22"),
      dtype("8", "the number '8' stands at offset 22; the dtype of tensor 'a' must be a text."),
      dtype("null", "null stands at offset 22"),
      dtype("[\"U8\"]", "a list stands at offset 22"),
  });
}

TEST_CASE("sizes that are no whole numbers or too many are errors", "[io][safetensors][host][errors]") {
  check({
      shape("[-1]", "the number '-1' stands at offset 36" + kRule),
      shape("[-0]", "the number '-0' stands at offset 36" + kRule),
      shape("[2.0]", "the number '2.0' stands at offset 36" + kRule),
      shape("[2e0]", "the number '2e0' stands at offset 36" + kRule),
      shape("[1e999]", "the number '1e999' stands at offset 36" + kRule),
      shape("[9223372036854775808]", "the number '9223372036854775808' stands at offset 36" + kRule),
      shape("[18446744073709551618]", "the number '18446744073709551618' stands at offset 36" + kRule),
      shape("[-9223372036854775809]", "the number '-9223372036854775809' stands at offset 36" + kRule),
      shape("[" + repeated("9", 1000) + "]", "stands at offset 36" + kRule),
      shape("[NaN]", "the header is no JSON at offset 36, where 'NaN]"),
      shape("[Infinity]", "the header is no JSON at offset 36"),
      shape("[02]", "the header is no JSON at offset "),
      shape("[+2]", "the header is no JSON at offset "),
      shape("[0x2]", "the header is no JSON at offset "),
      shape("[.2]", "the header is no JSON at offset "),
      shape("2", "the number '2' stands at offset 35" + kRule),
      shape("\"2\"", "the text '2' stands at offset 35" + kRule),
      shape("[\"2\"]", "the text '2' stands at offset 36" + kRule),
      shape("[null]", "null stands at offset 36" + kRule),
      shape("[true]", "true stands at offset 36" + kRule),
      shape("null", "null stands at offset 35" + kRule),
      shape("{}", "an object stands at offset 35" + kRule),
      shape("[[2]]", "a list stands at offset 36" + kRule),
      shape("[2,1,1,1,1,1,1,1,1]",
            "a size more stands at offset 52: tensor 'a' has at least 9 axes; at most 8 are possible."),
      shape("[" + repeated("1,", 100000) + "2]", "tensor 'a' has at least 9 axes"),
      {"complex numbers with 8 axes",
       safetensors_file(safetensors_header("\"C64\"", "[1,1,1,1,1,1,1,1]", "[0,8]"), Bytes(8)),
       "tensor 'a' at offset 9 has 8 axes of complex numbers; at most 7 are possible"},
  });
}

TEST_CASE("sizes that are not those of the bytes are errors", "[io][safetensors][host][errors]") {
  const std::string wraps = " or more; the elements must be in the file.";
  const auto floats = [](const std::string& sizes, const std::string& reason) {
    return header("F64 " + sizes, safetensors_header("\"F64\"", sizes), reason);
  };
  check({
      shape("[3]",
            "tensor 'a' at offset 9 has data_offsets [0, 2], but shape [3] of U8 needs 3 bytes; both must agree."),
      shape("[1]", "but shape [1] of U8 needs 1 bytes"),
      shape("[]", "but shape [] of U8 needs 1 bytes"),
      shape("[0]", "but shape [0] of U8 needs 0 bytes"),
      shape("[2,0]", "but shape [2, 0] of U8 needs 0 bytes"),
      shape("[9223372036854775807]", "but shape [9223372036854775807] of U8 needs 9223372036854775807 bytes"),
      shape("[4294967296,4294967296]", "has shape [4294967296, 4294967296], which needs 2^63 bytes of U8" + wraps),
      shape("[4294967296,4294967296,2]", "which needs 2^63 bytes of U8" + wraps),  // wraps to 0
      shape("[9223372036854775807,2,2]", "which needs 2^63 bytes of U8" + wraps),  // wraps to -4
      shape("[6148914691236517206,3]", "which needs 2^63 bytes of U8" + wraps),    // wraps to 2
      shape("[0,9223372036854775807,2]", "which needs 2^63 bytes of U8" + wraps),  // 0 excuses nothing
      floats("[2305843009213693953]", "which needs 2^63 bytes of F64" + wraps),    // wraps to 8
      floats("[1152921504606846976]", "which needs 2^63 bytes of F64" + wraps),    // 2^63
      floats("[2]", "but shape [2] of F64 needs 16 bytes"),
      floats("[0]", "but shape [0] of F64 needs 0 bytes"),
  });
}

TEST_CASE("places of elements that are wrong are errors", "[io][safetensors][host][errors]") {
  const std::string rule = "; data_offsets of tensor 'a' must be a list of two whole numbers from 0 to 2^63 - 1.";
  check({
      offsets("[2,0]", "tensor 'a' at offset 9 has data_offsets [2, 0]; the first must not be larger than the second."),
      offsets("[0,3]", "tensor 'a' at offset 9 has data_offsets [0, 3], but 2 bytes follow the header"),
      offsets("[1,3]", "has data_offsets [1, 3], but 2 bytes follow the header"),
      offsets("[9223372036854775805,9223372036854775807]", ", but 2 bytes follow the header; they must be there."),
      offsets("[0,9223372036854775807]", "has data_offsets [0, 9223372036854775807], but 2 bytes follow the header"),
      offsets("[9223372036854775807,1]", "the first must not be larger than the second."),
      offsets("[18446744073709551615,1]", "the number '18446744073709551615' stands at offset 55" + rule),
      offsets("[-2,0]", "the number '-2' stands at offset 55" + rule),
      offsets("[0,2.0]", "the number '2.0' stands at offset 57" + rule),
      offsets("[0,1e400]", "the number '1e400' stands at offset 57" + rule),
      offsets("[0,null]", "null stands at offset 57" + rule),
      offsets("[]", "the end of the list stands at offset 55" + rule),
      offsets("[0]", "the end of the list stands at offset 56" + rule),
      offsets("[0,2,2]", "the number '2' stands at offset 59" + rule),
      offsets("[[0,2]]", "a list stands at offset 55" + rule),
      offsets("2", "the number '2' stands at offset 54" + rule),
      offsets("{\"begin\":0}", "an object stands at offset 54" + rule),
  });
}

TEST_CASE("elements that overlap, or bytes that belong to no tensor, are errors", "[io][safetensors][host][errors]") {
  const std::string rule = "; none may overlap or leave bytes out.";
  check({
      ranges("a byte in common", {{"a", 0, 2}, {"b", 1, 3}}, 3, "the elements of tensor 'b' begin at offset "),
      ranges("the same bytes", {{"a", 0, 2}, {"b", 0, 2}}, 2, rule),
      ranges("one in another", {{"a", 0, 4}, {"b", 1, 3}}, 4, rule),
      ranges("one in another, in the other order", {{"b", 1, 3}, {"a", 0, 4}}, 4,
             "the elements of tensor 'b' begin at "),
      ranges("one at the beginning of another", {{"a", 0, 2}, {"b", 0, 4}}, 4, rule),
      ranges("a gap", {{"a", 0, 2}, {"b", 3, 5}}, 5, "the elements of tensor 'b' begin at offset "),
      ranges("a gap at the beginning", {{"a", 1, 3}}, 3,
             "the elements of tensor 'a' begin at offset 62, and those before "),
      ranges("a gap at the end", {{"a", 0, 2}}, 3,
             "the last element ends at offset 63 and the file at offset 64; nothing may follow."),
      ranges("a gap and an overlap", {{"a", 0, 2}, {"b", 4, 6}, {"c", 4, 6}}, 6, rule),
      ranges("a tensor without elements inside of another", {{"a", 0, 4}, {"b", 2, 2}}, 4, rule),
      ranges("a tensor without elements in a gap", {{"a", 0, 2}, {"b", 3, 3}, {"c", 4, 6}}, 6, rule),
      {"bytes and no tensor", safetensors_file("{}", {0}),
       "the last element ends at offset 10 and the file at offset 11; nothing may follow."},
      {"bytes and metadata alone", safetensors_file("{\"__metadata__\":{}}", Bytes(4096)), "nothing may follow."},
      {"a newline at the end", tests::joined(good(), {'\n'}), "nothing may follow."},
      {"two files, one after the other", tests::joined(good(), good()), "nothing may follow."},
  });
}

TEST_CASE("an unsigned number of 2^63 or more in a safetensors file is an error that names it",
          "[io][safetensors][host][errors]") {
  Bytes numbers;
  for (const std::uint64_t value : {std::uint64_t{1}, std::uint64_t{1} << 63, ~std::uint64_t{0}})
    tests::append_little(numbers, value, 8);
  const std::string text = safetensors_header("\"U64\"", "[3]", "[0,24]");
  check({{"2^63", safetensors_file(text, numbers),
          "the unsigned number 9223372036854775808 at offset " + std::to_string(8 + text.size() + 8) +
              ", in tensor 'a', does not fit in int64; it must be below 2^63."}});
}

TEST_CASE("a folder, a pipe and a device are no safetensors files", "[io][safetensors][host][errors]") {
  CHECK_THROWS_AS(read_file("/"), capstan::IoError);
  CHECK_THROWS_AS(read_file("/dev/zero"), capstan::IoError);
  CHECK_THROWS_AS(read_file(std::string("x\0y", 3)), capstan::IoError);
}

TEST_CASE("what a safetensors file declares costs no memory before it is there", "[io][safetensors][host][errors]") {
  const std::int64_t peak = tests::peak_bytes([] {
    check({
        {"2^62 numbers to widen", safetensors_file(safetensors_header("\"U8\"", "[4611686018427387904]"), kTwo),
         "needs"},
        {"8 TB to widen",
         safetensors_file(safetensors_header("\"F8_E4M3\"", "[8796093022208]", "[0,8796093022208]"), kTwo),
         "but 2 bytes follow the header"},
        {"1 GB that is the same each time", safetensors_file(safetensors_header("\"U16\"", "[1048576,512]"), kTwo),
         "needs"},
    });
  });
  CHECK(peak < 1 << 20);
}

TEST_CASE("headers of many small parts take a few times the memory of the file", "[io][safetensors][host][errors]") {
  constexpr int kParts = 1 << 18;
  const tests::TemporaryFolder folder;
  const auto list = [](int count, bool different, const std::string& part) {
    std::string text;
    for (int i = 0; i < count; ++i)
      text += (i > 0 ? ",\"" : "\"") + (different ? std::to_string(100000 + i) : std::string()) + "\":" + part;
    return text;
  };
  const auto check_growth = [&](const std::string& text, std::int64_t times, const std::string& reason) {
    const std::string path = folder.write("x.safetensors", safetensors_file(text));
    std::string said;
    tests::check_memory(text.size(), times, [&] {
      try {
        read_file(path);
      } catch (const capstan::IoError& error) { said = error.what(); }
    });
    INFO(said);
    CHECK((reason.empty() ? said.empty() : said.find(reason) != std::string::npos));
  };
  const std::string none = safetensors_entry("\"U8\"", "[0]", "[0,0]"), metadata = "{\"__metadata__\":{";
  check_growth(metadata + list(2 * kParts, false, "\"\"") + "}}", 8, "two metadata are called ''");
  check_growth(metadata + list(kParts + 1, true, "\"\"") + "}}", 8, "");
  check_growth("{" + list(kParts / 4, false, none) + "}", 8, "two tensors are called ''");
  check_growth("{" + list(kParts / 4, true, none) + "}", 16, "");
}

TEST_CASE("a safetensors file cut at any byte is an error", "[io][safetensors][host][errors]") {
  tests::check_prefixes(good(), "read_safetensors", "x.safetensors", read_file);
  tests::check_prefixes(safetensors_file(safetensors_header(), kTwo), "read_safetensors", "x.safetensors", read_file);
}

TEST_CASE("a safetensors file with any one byte changed is read or an IoError", "[io][safetensors][host][errors]") {
  const Bytes bytes = good();
  const tests::TemporaryFolder folder;
  std::size_t errors = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (const unsigned char change : {0x01, 0x10, 0x80}) {
      Bytes other = bytes;
      other[i] ^= change;
      try {
        read_file(folder.write("x.safetensors", other));
      } catch (const capstan::IoError&) { ++errors; }
    }
  }
  CHECK(errors > bytes.size());  // names, metadata and elements may be anything
}
