#include "io/checkpoint_file.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#include "io/byte_reader.hpp"
#include "io/crc32c.hpp"
#include "io/elements.hpp"
#include "io/numbers.hpp"
#include "io/quoted.hpp"
#include "io/safetensors_header.hpp"
#include "lib/base/text.hpp"

namespace capstan::io {
namespace {

constexpr std::string_view kVersionKey = "capstan.checkpoint", kChecksumKey = "capstan.checksum",
                           kNumberKey = "capstan.number", kStepKey = "capstan.step", kMetricKey = "capstan.metric",
                           kVersion = "1", kZeros = "00000000";
constexpr std::size_t kNowhere = std::string_view::npos, kPiece = 1 << 20, kLengthBytes = 8;

std::span<const unsigned char> bytes_in(std::string_view text) {
  return {reinterpret_cast<const unsigned char*>(text.data()), text.size()};
}

/// Where the digits of the checksum stand in a header. No text in it looks like that: quotes inside texts are escaped.
std::size_t place_of_checksum(std::string_view header) {
  const std::string before = '"' + std::string(kChecksumKey) + "\":\"";
  const std::size_t at = header.find(before);
  if (at == kNowhere) return kNowhere;
  const std::size_t digits = at + before.size(), behind = digits + kZeros.size();
  return behind < header.size() && header[behind] == '"' ? digits : kNowhere;
}

std::string digits_of(std::uint32_t crc) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (int shift = 28; shift >= 0; shift -= 4) text += digits[(crc >> shift) & 15];
  return text;
}

// --- numbers -------------------------------------------------------------------------------------------------------

std::string text_of_metric(double metric) {
  if (std::isnan(metric)) return "nan";
  std::array<char, 32> text{};
  return std::string(text.data(), std::to_chars(text.data(), text.data() + text.size(), metric).ptr);
}

const std::string* entry_of(const Metadata& metadata, std::string_view key) {
  const auto found =
      std::find_if(metadata.begin(), metadata.end(), [&](const auto& entry) { return entry.first == key; });
  return found == metadata.end() ? nullptr : &found->second;
}

const std::string& required(const SafetensorsSource& source, const Metadata& metadata, std::string_view key) {
  const std::string* const entry = entry_of(metadata, key);
  if (entry == nullptr) source.fail("the header at offset 8 has no ", quoted(key), "; every checkpoint has it.");
  return *entry;
}

std::int64_t whole_number(const SafetensorsSource& source, const Metadata& metadata, std::string_view key,
                          std::int64_t least) {
  const std::string& text = required(source, metadata, key);
  std::int64_t number = -1;
  if (!parse_integer(text, number) || number < least)
    source.fail(quoted(key), " in the header at offset 8 is ", quoted(text), "; it must be a whole number >= ", least,
                ".");
  return number;
}

CheckpointHead head_of(const SafetensorsSource& source, const Metadata& metadata) {
  if (const std::string& version = required(source, metadata, kVersionKey); version != kVersion)
    source.fail(quoted(kVersionKey), " in the header at offset 8 is ", quoted(version),
                "; this version of Capstan reads '1'.");
  CheckpointHead head;
  head.number = whole_number(source, metadata, kNumberKey, 1);
  head.step = whole_number(source, metadata, kStepKey, 0);
  if (const std::string* const text = entry_of(metadata, kMetricKey); text != nullptr) {
    double metric = 0;
    if (!parse_number(*text, metric))
      source.fail(quoted(kMetricKey), " in the header at offset 8 is ", quoted(*text), "; it must be a number.");
    head.metric = metric;
  }
  return head;
}

// --- the checksum --------------------------------------------------------------------------------------------------

/// The text behind the length, in a file of so many bytes.
std::string read_header(ByteReader& file, std::int64_t size, std::array<unsigned char, kLengthBytes>& length_bytes) {
  if (file.read(length_bytes.data(), kLengthBytes) < kLengthBytes)
    file.fail("the file ends at offset ", file.position(), "; it must begin with 8 bytes, the length of the header.");
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) length |= std::uint64_t{length_bytes[i]} << (8 * i);
  const auto left =
      static_cast<std::uint64_t>(std::max(size - static_cast<std::int64_t>(kLengthBytes), std::int64_t{0}));
  if (length > left)
    file.fail("the length at offset 0 is ", length, ", but the file ends ", left,
              " bytes behind it; the header must be there.");
  if (length > static_cast<std::uint64_t>(kLongestHeader))
    file.fail("the length at offset 0 is ", std::to_string(length), "; a header has at most ", kLongestHeader,
              " bytes.");
  std::string header(static_cast<std::size_t>(length), '\0');
  const std::size_t found = file.read(reinterpret_cast<unsigned char*>(header.data()), header.size());
  if (found < header.size())
    file.fail("the file ends at offset ", file.position(), ", within the header; it was cut short meanwhile.");
  return header;
}

/// Reads the file once. What the disk cannot read is found here: in mapped pages it would end the process.
void check_checksum(const char* op, const MappedFile& mapped, Where where) {
  ByteReader file(op, mapped.path(), where, ByteReader::Gzip::off);
  std::array<unsigned char, kLengthBytes> length{};
  std::string header = read_header(file, mapped.size(), length);
  const std::size_t place = place_of_checksum(header);
  if (place == kNowhere)
    file.fail("the header at offset 8 has no 'capstan.checksum' of 8 digits; every checkpoint has it.");
  const std::string stated = header.substr(place, kZeros.size());
  header.replace(place, kZeros.size(), kZeros);
  std::uint32_t crc = extend_crc32c(crc32c(length), bytes_in(header));
  std::vector<unsigned char> piece(kPiece);
  while (const std::size_t count = file.read(piece.data(), piece.size()))
    crc = extend_crc32c(crc, std::span<const unsigned char>(piece).first(count));
  if (digits_of(crc) != stated)
    file.fail("the checksum at offset ", kLengthBytes + place, " is ", quoted(stated), ", but that of the ",
              file.position(), " bytes of the file is '", digits_of(crc),
              "'; they must be equal. The file is damaged.");
}

Metadata metadata_of(const CheckpointHead& head, Metadata entries) {
  Metadata metadata = {{std::string(kVersionKey), std::string(kVersion)},
                       {std::string(kChecksumKey), std::string(kZeros)},
                       {std::string(kNumberKey), std::to_string(head.number)},
                       {std::string(kStepKey), std::to_string(head.step)}};
  if (head.metric) metadata.emplace_back(kMetricKey, text_of_metric(*head.metric));
  for (auto& entry : entries) metadata.push_back(std::move(entry));
  return metadata;
}

}  // namespace

// --- writing ---------------------------------------------------------------------------------------------------------

void check_readable([[maybe_unused]] const char* op, [[maybe_unused]] Where where) {
#if !CAPSTAN_HAS_NLOHMANN_JSON
  base::fail<MissingLibraryError>(
      where, op,
      ": this build has no nlohmann-json, without which nothing that is saved could be restored; "
      "install nlohmann-json3-dev (Debian, Ubuntu) and build again.");
#endif
}

CheckpointOutput::CheckpointOutput(const char* op, const std::string& path, const CheckpointHead& head,
                                   PartContents contents, Where where)
    : contents_(std::move(contents)),
      layout_(lay_out_safetensors(op, path, contents_.tensors, metadata_of(head, std::move(contents_.entries)), where)),
      file_(op, path, where) {
  auto total = static_cast<std::int64_t>(layout_.head.size());
  for (const std::size_t index : layout_.order) {
    const Tensor& values = contents_.tensors[index].value;
    const std::int64_t bytes = values.numel(where) * size_of(values.dtype(where));
    if (bytes > 0) pieces_.emplace_back(bytes_of(values, where), static_cast<std::size_t>(bytes));
    total += bytes;
  }
  file_.reserve(total);
}

void CheckpointOutput::write() {
  std::string& head = layout_.head;
  std::uint32_t crc = crc32c(bytes_in(head));
  for (const auto& piece : pieces_) crc = extend_crc32c(crc, piece);
  head.replace(place_of_checksum(head), kZeros.size(), digits_of(crc));
  file_.write(head.data(), head.size());
  for (const auto& piece : pieces_) file_.write(piece.data(), piece.size());
  file_.commit(Durable::yes, Overwrite::no);
}

// --- reading ---------------------------------------------------------------------------------------------------------

CheckpointContents read_checkpoint(const char* op, std::shared_ptr<const MappedFile> file, Where where) {
  const SafetensorsSource source = source_of(op, *file, where);
  check_checksum(op, *file, where);
  Weights weights = parse_safetensors(op, file, where);
  CheckpointContents contents;
  contents.head = head_of(source, weights.metadata);
  contents.parts = parts_in(source, weights.metadata, std::move(weights.tensors));
  return contents;
}

CheckpointHead read_checkpoint_head(const char* op, const std::string& path, Where where) {
  const std::int64_t size = MappedFile::file_size(op, path, where);
  ByteReader file(op, path, where, ByteReader::Gzip::off);
  std::array<unsigned char, kLengthBytes> length{};
  std::string bytes = read_header(file, size, length);
  bytes.insert(0, reinterpret_cast<const char*>(length.data()), length.size());
  const SafetensorsSource source{op, path, size, bytes_in(bytes).data(), where};
  return head_of(source, read_safetensors_header(source).metadata);
}

}  // namespace capstan::io
