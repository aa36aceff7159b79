#pragma once
// Zip archives: read strictly, and written by minizip. Writers throw MissingLibraryError without it.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/byte_reader.hpp"
#include "io/byte_source.hpp"
#include "io/output_file.hpp"
#include "io/zip_directory.hpp"

namespace capstan::io {

class ZipReader {
 public:
  /// Reads the directory; throws what read_zip_directory does. `op` must live as long as the reader.
  ZipReader(const char* op, const std::string& path, Where where);

  const std::vector<ZipEntry>& entries() const noexcept { return entries_; }
  /// Errors of the archive.
  const ByteReader& file() const noexcept { return file_; }

 private:
  friend class ZipStream;
  ByteReader file_;
  std::vector<ZipEntry> entries_;
};

/// The unpacked bytes of one entry. An archive has one stream at a time. Memory is not an issue: an entry's size was
/// compared with that of its packed bytes.
class ZipStream final : public ByteSource {
 public:
  /// `entry` is one of the archive's; both must live as long as the stream.
  ZipStream(ZipReader& archive, const ZipEntry& entry);
  ~ZipStream();

  std::size_t read(unsigned char* to, std::size_t count) override;
  bool at_end() override;
  std::int64_t position() const noexcept override { return position_; }
  std::int64_t most_left() const noexcept override { return entry_.size - position_; }
  bool most_left_is_exact() const noexcept override { return !entry_.deflated; }
  std::string place(std::int64_t offset) const override;
  Where where() const noexcept override { return file_.where(); }

 private:
  struct Inflater;

  [[noreturn]] void fail_with(const std::string& text) const override;
  std::int64_t read_packed(unsigned char* to, std::int64_t count);
  std::int64_t inflate_some(unsigned char* to, std::int64_t count);

  ByteReader& file_;
  const ZipEntry& entry_;
  std::unique_ptr<Inflater> inflater_;  // null if it is stored
  std::int64_t packed_left_, position_ = 0;
  std::uint32_t crc_ = 0;
  bool checked_ = false;
};

class ZipWriter {
 public:
  /// As OutputFile: the archive takes the file's place when it is committed.
  ZipWriter(const char* op, const std::string& path, Where where);
  ~ZipWriter();
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;

  /// Adds an entry, whose name must be a good one, with the bytes of `head` and those behind it.
  void add(const std::string& name, std::string_view head, const unsigned char* bytes, std::int64_t count,
           bool compress);
  void commit();

 private:
  void write(const void* bytes, std::int64_t count);

  OutputFile file_;
  void* archive_ = nullptr;  // minizip's
};

}  // namespace capstan::io
