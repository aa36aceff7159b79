// Every way we know in which a checkpoint can be broken and still have a good checksum, and some with a bad one.
#include <capstan/io/checkpoint.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <capstan/create.hpp>

#include "io/crc32c.hpp"
#include "tests/catch.hpp"
#include "tests/files.hpp"
#include "tests/safetensors_files.hpp"
#include "tests/support.hpp"

namespace {

using tests::Bytes;
using tests::Malformed;
using tests::safetensors_entry;
using tests::safetensors_file;

constexpr const char* kZeros = "\"capstan.checksum\":\"00000000\"";

void read_file(const std::string& path) {
  capstan::Tensor w = capstan::zeros({2});
  std::int64_t n = 0;
  capstan::io::restore_checkpoint(path, {.more = {{"w", w}, {"n", n}}});
}

void check(const std::vector<Malformed>& rows) {
  tests::check_malformed(rows, "restore_checkpoint", "x.safetensors", read_file);
}

/// A tensor "w" of two numbers, a number "n", and the generator.
std::string good_header() {
  return std::string("{\"__metadata__\":{\"capstan.checkpoint\":\"1\",") + kZeros +
         ",\"capstan.number\":\"4\",\"capstan.step\":\"12\",\"capstan.metric\":\"0.5\",\"tensors.w\":\"1\","
         "\"text.n\":\"7\",\"text.default_random\":\"philox4x32-10 seed=1 stream=0 position=2\"},\"w\":" +
         safetensors_entry("\"F32\"", "[2]", "[0,8]") + "}";
}
const Bytes kElements = {0, 0, 0x80, 0x3F, 0, 0, 0, 0x40};  // 1 and 2

std::string replaced(const std::string& text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return std::string(text).replace(at, from.size(), to);
}

/// The file, with the checksum that it should have in the place of the zeros.
Bytes signed_file(const std::string& header, const Bytes& elements = kElements) {
  const std::uint32_t crc = capstan::io::crc32c_by_table(safetensors_file(header, elements));
  std::string digits;
  for (int shift = 28; shift >= 0; shift -= 4) digits += "0123456789abcdef"[(crc >> shift) & 15];
  return safetensors_file(replaced(header, kZeros, replaced(kZeros, "00000000", digits)), elements);
}

/// One change of the good header.
Malformed changed(const std::string& from, const std::string& to, const std::string& reason) {
  return {from + " -> " + to, signed_file(replaced(good_header(), from, to)), reason};
}

}  // namespace

TEST_CASE("a good checkpoint made by hand is read", "[io][checkpoint][host]") {
  const tests::TemporaryFolder folder;
  capstan::Tensor w;
  std::int64_t n = 0;
  const capstan::io::CheckpointParts parts = {.more = {{"w", w}, {"n", n}}};
  CHECK(capstan::io::restore_checkpoint(folder.write("x.safetensors", signed_file(good_header())), parts) == 12);
  CHECK(n == 7);
  CHECK(w.to_vector<float>() == std::vector<float>{1, 2});
}

TEST_CASE("a file that is no checkpoint is an error", "[io][checkpoint][host][errors]") {
  const Bytes good = signed_file(good_header());
  Bytes header_byte = good, element_byte = good, digit = good;
  header_byte[40] ^= 1;
  element_byte.back() ^= 1;
  digit[good_header().find("00000000") + 8] ^= 1;
  check({
      {"nothing", {}, "the file ends at offset 0; it must begin with 8 bytes"},
      {"7 bytes", tests::first_bytes(good, 7), "the file ends at offset 7; it must begin with 8 bytes"},
      {"a length beyond the file", tests::first_bytes(good, 100), "but the file ends 92 bytes behind it"},
      {"a length of 2^64 - 1", tests::joined(Bytes(8, 0xFF), kElements),
       "the length at offset 0 is 18446744073709551615"},
      {"another safetensors file", safetensors_file(tests::safetensors_header(), {1, 2}),
       "the header at offset 8 has no 'capstan.checksum' of 8 digits"},
      {"a changed byte of the header", header_byte, "offset "},
      {"a changed byte of an element", element_byte, "they must be equal. The file is damaged."},
      {"a changed digit", digit, "the checksum at offset "},
      {"no checksum", safetensors_file(good_header(), kElements),
       "the checksum at offset 70 is '00000000', but that of"},
      {"a byte behind the end", tests::joined(good, {0}), "The file is damaged."},
      {"an element that is missing", tests::first_bytes(good, good.size() - 4), "The file is damaged."},
      {"a signed one that is missing", signed_file(good_header(), tests::first_bytes(kElements, 4)), "offset "},
      {"a signed one that is no JSON", signed_file(good_header() + "}"), "offset "},
      {"a checksum of 7 digits", safetensors_file(replaced(good_header(), "00000000", "0000000"), kElements),
       "has no 'capstan.checksum' of 8 digits"},
  });
}

TEST_CASE("a header longer than any is refused before there is memory for it", "[io][checkpoint][host][errors]") {
  const tests::TemporaryFolder folder;
  const std::string path = folder.write("x.safetensors", {0, 0, 0, 0, 1, 0, 0, 0});  // 4 GiB
  std::filesystem::resize_file(path, (std::uintmax_t{1} << 32) + 8);                 // of no bytes on the disk
  std::int64_t n = 0;
  const std::string said = tests::message_of<capstan::IoError>([&] {
    capstan::io::restore_checkpoint(path, {.more = {{"n", n}}});
  });
  CHECK(said.find("the length at offset 0 is 4294967296; a header has at most 100000000 bytes.") != std::string::npos);
}

TEST_CASE("metadata that are not those of a checkpoint are an error", "[io][checkpoint][host][errors]") {
  check({
      changed("\"capstan.checkpoint\":\"1\",", "", "the header at offset 8 has no 'capstan.checkpoint'"),
      changed("checkpoint\":\"1\"", "checkpoint\":\"2\"", "is '2'; this version of Capstan reads '1'."),
      changed("\"capstan.number\":\"4\",", "", "has no 'capstan.number'; every checkpoint has it."),
      changed("number\":\"4\"", "number\":\"four\"", "is 'four'; it must be a whole number >= 1."),
      changed("number\":\"4\"", "number\":\"0\"", "is '0'; it must be a whole number >= 1."),
      changed("number\":\"4\"", "number\":\"9223372036854775808\"", "it must be a whole number >= 1."),
      changed("\"capstan.step\":\"12\",", "", "has no 'capstan.step'"),
      changed("step\":\"12\"", "step\":\"-1\"", "is '-1'; it must be a whole number >= 0."),
      changed("step\":\"12\"", "step\":\"1.5\"", "is '1.5'; it must be a whole number >= 0."),
      changed("metric\":\"0.5\"", "metric\":\"good\"", "is 'good'; it must be a number."),
      changed("metric\":\"0.5\"", "metric\":\"\"", "is ''; it must be a number."),
  });
}

TEST_CASE("parts that do not belong together are an error", "[io][checkpoint][host][errors]") {
  check({
      changed("tensors.w\":\"1\"", "tensors.w\":\"2\"", "says that part 'w' has 2 tensors, and has 1"),
      changed("tensors.w\":\"1\"", "tensors.w\":\"-1\"", "says that part 'w' has '-1' tensors"),
      changed("tensors.w\":\"1\"", "tensors.w\":\"many\"", "says that part 'w' has 'many' tensors"),
      changed("\"tensors.w\":\"1\",", "", "has a tensor 'w' and no entry for the tensors of its part"),
      changed("tensors.w\":\"1\"", "text.w\":\"1\"", "has a tensor 'w' and no entry for the tensors of its part"),
      changed("\"tensors.w\":\"1\",", "\"tensors.w\":\"1\",\"text.w\":\"\",", "says that part 'w' is a text, and"),
      changed("\"tensors.w\":\"1\",", "\"tensors.w\":\"1\",\"tensors.v\":\"1\",", "part 'v' has 1 tensors, and has 0"),
      changed("\"w\":{", "\"v.w\":{", "has a tensor 'v.w' and no entry for the tensors of its part"),
      changed("text.n\"", "text.\"", "has an entry 'text.'; what follows its dot must be a part's name."),
      changed("text.n\"", "text.n.m\"", "has an entry 'text.n.m'; what follows its dot must be a part's name."),
      changed("text.default_random\"", "text.random\"", "has no 'text.default_random'; every checkpoint has it."),
      changed("philox", "mersenne", "it must be the state of a generator."),
      changed("position=2", "position=-2", "it must be the state of a generator."),
      changed("position=2", "position=99999999999999999999", "it must be the state of a generator."),
  });
}

TEST_CASE("a checkpoint that is cut short anywhere is an error", "[io][checkpoint][host][errors]") {
  tests::check_prefixes(signed_file(good_header()), "restore_checkpoint", "x.safetensors", read_file);
}
