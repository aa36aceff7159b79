// Reading TFRecord files. A length is believed after its checksum, and only as far as the file can hold it; the data
// are then read into a string that grows with them.
#include "io/tfrecord_file.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include <capstan/io/tfrecord.hpp>

#include "io/crc32c.hpp"
#include "lib/base/text.hpp"

namespace capstan::io {
namespace {

constexpr std::size_t kCrcBytes = 4;
constexpr std::size_t kHeadBytes = 8 + kCrcBytes;
constexpr std::size_t kFirstBytes = 1 << 16;  // data of unknown truth are first given this much room,
constexpr std::size_t kGrowth = 4;            // and so many times that when it is full

std::uint64_t little_endian(std::span<const unsigned char> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i > 0; --i) value = (value << 8) | bytes[i - 1];
  return value;
}

std::string hex(std::uint64_t crc) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string text = "0x";
  for (int shift = 28; shift >= 0; shift -= 4) text += digits[(crc >> shift) & 15];
  return text;
}

void compare_crc(const ByteReader& file, const char* what, std::span<const unsigned char> bytes,
                 std::span<const unsigned char> stored, std::int64_t offset) {
  const std::uint64_t declared = little_endian(stored), actual = mask_crc(crc32c(bytes));
  if (declared != actual)
    file.fail("the checksum of ", what, " is wrong at ", file.place(offset), ": it is ", hex(declared),
              ", and of these ", bytes.size(), " bytes ", hex(actual), "; the masked CRC-32C must be the same.");
}

std::span<const unsigned char> bytes_of(const std::string& data) {
  return {reinterpret_cast<const unsigned char*>(data.data()), data.size()};
}

/// A length, which may have the first bytes of gzip, and its checksum, which gzip then has not.
bool begins_with_head(std::span<const unsigned char> bytes) {
  return bytes.size() >= kHeadBytes && little_endian(bytes.subspan(8, kCrcBytes)) == mask_crc(crc32c(bytes.first(8)));
}

}  // namespace

TfRecordFile::TfRecordFile(const char* op, const std::string& path, bool check, Where where)
    : file(op, path, where, ByteReader::Gzip::detect, &begins_with_head), check_crc(check) {}

std::optional<std::int64_t> TfRecordFile::read_length() {
  const std::int64_t start = file.position();
  std::array<unsigned char, kHeadBytes> head{};
  const std::size_t found = file.read(head.data(), head.size());
  if (found == 0 || (found < head.size() && cut_is_end)) return std::nullopt;
  if (found < head.size())
    file.fail("the head of a record is cut short at ", file.place(file.position()), "; it must be ", kHeadBytes,
              " bytes from offset ", start, ", a length and its checksum.");
  const std::span<const unsigned char> bytes(head);
  if (check_crc) compare_crc(file, "a record's length", bytes.first(8), bytes.subspan(8), start + 8);
  const std::uint64_t length = little_endian(bytes.first(8));
  const auto left = static_cast<std::uint64_t>(file.most_left());
  if (left < kCrcBytes || length > left - kCrcBytes) {
    if (cut_is_end) return std::nullopt;
    file.fail("a record declares ", length, " bytes at ", file.place(start), ", and ",
              file.most_left_is_exact() ? "" : "at most ", left, " follow; they must be in the file, and ", kCrcBytes,
              " of a checksum behind them.");
  }
  return static_cast<std::int64_t>(length);
}

bool TfRecordFile::read_data(std::size_t length) {
  const std::int64_t start = file.position();
  const auto read_all = [&](unsigned char* to, std::size_t wanted) {
    if (file.read(to, wanted) == wanted) return true;
    if (cut_is_end) return false;
    file.fail("a record is cut short at ", file.place(file.position()), "; it must be ", length, " bytes from offset ",
              start, " and ", kCrcBytes, " of a checksum.");
  };
  std::size_t done = 0;
  data.clear();
  while (done < length) {
    const std::size_t room =
        file.most_left_is_exact() ? length : std::min(length, std::max(kFirstBytes, kGrowth * done));
    data.resize(room);
    if (!read_all(reinterpret_cast<unsigned char*>(data.data()) + done, room - done)) return false;
    done = room;
  }
  std::array<unsigned char, kCrcBytes> crc{};
  if (!read_all(crc.data(), crc.size())) return false;
  if (check_crc) compare_crc(file, "a record's data", bytes_of(data), crc, start + static_cast<std::int64_t>(length));
  return true;
}

bool TfRecordFile::next(std::string& record, Where where) {
  settle(where);
  const std::optional<std::int64_t> length = read_length();
  if (!length || !read_data(static_cast<std::size_t>(*length))) return false;
  offset = file.position();
  ++count;
  record.swap(data);
  return true;
}

std::int64_t TfRecordFile::skip(std::int64_t records, Where where) {
  settle(where);
  std::int64_t passed = 0;
  for (; passed < records; ++passed) {
    const std::optional<std::int64_t> length = read_length();
    if (!length) break;
    const std::int64_t start = file.position(), wanted = *length + static_cast<std::int64_t>(kCrcBytes);
    if (file.skip(wanted) < wanted)
      file.fail("a record is cut short at ", file.place(file.position()), "; it must be ", *length,
                " bytes from offset ", start, " and ", kCrcBytes, " of a checksum.");
  }
  offset = file.position();
  count += passed;
  return passed;
}

namespace {

TfRecordFile& opened(TfRecordFile* file, const char* op, Where where) {
  if (file == nullptr) base::fail<Error>(where, op, ": this reader was moved from; it must hold a file.");
  return *file;
}

}  // namespace

TfRecordReader::TfRecordReader(const std::string& path, TfRecordReaderOptions options, Where where)
    : file_(new TfRecordFile("TfRecordReader", path, options.check_crc, where)) {}

TfRecordReader::~TfRecordReader() { delete file_; }

bool TfRecordReader::next(std::string& record, Where where) {
  return opened(file_, "TfRecordReader::next", where).next(record, where);
}

std::int64_t TfRecordReader::skip(std::int64_t records, Where where) {
  TfRecordFile& file = opened(file_, "TfRecordReader::skip", where);
  if (records < 0)
    base::fail<IndexError>(where, "TfRecordReader::skip: ", records,
                           " records cannot be passed over; it must be 0 or more.");
  return file.skip(records, where);
}

std::int64_t TfRecordReader::offset() const noexcept { return file_ != nullptr ? file_->offset : 0; }
std::int64_t TfRecordReader::count() const noexcept { return file_ != nullptr ? file_->count : 0; }

void TfRecordReader::seek(std::int64_t offset, std::int64_t count, Where where) {
  TfRecordFile& state = opened(file_, "TfRecordReader::seek", where);
  if (offset < 0 || count < 0)
    base::fail<IndexError>(where, "TfRecordReader::seek: offset ", offset, " and count ", count,
                           " are no place in a file; both must be 0 or more.");
  state.file.set_where(where);
  state.file.seek(offset);
  state.offset = offset;
  state.count = count;
}

std::vector<std::string> read_tfrecords(const std::string& path, Where where) {
  TfRecordFile file("read_tfrecords", path, true, where);
  std::vector<std::string> records;
  for (std::string record; file.next(record, where);) records.push_back(std::move(record));
  return records;
}

}  // namespace capstan::io
