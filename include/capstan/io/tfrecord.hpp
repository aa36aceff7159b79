#pragma once
// TFRecord files: strings of bytes one after another, each with checksums; plain or gzip.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <capstan/error.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace io {

struct TfRecordReaderOptions {
  bool check_crc = true;  ///< compare the checksums of lengths and data
};

/// Reads the records of a file in order. A record is its length (8 bytes), the checksum of that (4), the data, and the
/// checksum of the data (4), all little-endian; checksums are CRC-32C, masked. Gzip is recognised by its first bytes,
/// unless they are a length with its checksum.
/// TensorFlow, "TFRecord and tf.train.Example"; tensorflow/core/lib/io/record_writer.h.
///
/// Offsets are those of the unpacked data. Memory grows as bytes are really there.
/// Throws  IoError naming file, offset and reason: missing, truncated, a checksum that does not fit, a length that the
///         file cannot hold, damaged gzip. The reader then stays where it was: `skip(1)` passes over a record whose
///         data alone are damaged, but for pipes, which end there.
///         Error for a reader that was moved from.
class TfRecordReader {
 public:
  explicit TfRecordReader(const std::string& path, TfRecordReaderOptions options = {}, Where where = Where::current());
  TfRecordReader(TfRecordReader&& other) noexcept : file_(std::exchange(other.file_, nullptr)) {}
  TfRecordReader& operator=(TfRecordReader&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ~TfRecordReader();

  /// The next record; false at the end of the file, where `record` stays as it is.
  bool next(std::string& record, Where where = Where::current());
  /// Passes over so many records, of which only the lengths are read and checked. How many there were; IndexError for
  /// a negative number.
  std::int64_t skip(std::int64_t records, Where where = Where::current());
  /// Where the next record begins, and how many were read or passed over: what `seek` takes to come back here.
  std::int64_t offset() const noexcept;
  std::int64_t count() const noexcept;
  /// Goes to where a record begins, and to the count of those before it. Gzip is unpacked up to there. IndexError for
  /// negative numbers, IoError if the file ends before it.
  void seek(std::int64_t offset, std::int64_t count, Where where = Where::current());

 private:
  struct TfRecordFile* file_;  // owned; hidden in io/tfrecord.cpp
};

/// All records of a file; throws as TfRecordReader.
std::vector<std::string> read_tfrecords(const std::string& path, Where where = Where::current());

struct TfRecordWriterOptions {
  bool gzip = false;
  int level = 6;  ///< of gzip: 0 stores, 1 is the fastest, 9 makes the smallest files
};

/// Writes records into a new file, or over an old one. What TfRecordReader and TensorFlow read.
///
/// Throws  IoError  the file cannot be made or written, the disk is full; what was written of it stays, and is no whole
///         file    Error  a level outside 0 to 9, and every use of a closed writer but `close`
class TfRecordWriter {
 public:
  explicit TfRecordWriter(const std::string& path, TfRecordWriterOptions options = {}, Where where = Where::current());
  TfRecordWriter(TfRecordWriter&& other) noexcept : file_(std::exchange(other.file_, nullptr)) {}
  TfRecordWriter& operator=(TfRecordWriter&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  /// Closes the file without a word of errors: call `close` to hear of them.
  ~TfRecordWriter();

  void write(std::string_view record, Where where = Where::current());
  /// Hands all records to the system, so that other programs can read them. Costs some of gzip's packing.
  void flush(Where where = Where::current());
  void close(Where where = Where::current());

 private:
  struct TfRecordOutput* file_;  // owned; hidden in io/tfrecord_writer.cpp
};

}  // namespace io
}  // namespace capstan
