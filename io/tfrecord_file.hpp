#pragma once
// TFRecord files for readers of what stands in the records.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <capstan/error.hpp>

#include "io/byte_reader.hpp"

namespace capstan::io {

/// A file, and where in it the next record begins. What fails leaves `offset` alone; `settle` goes back to it.
struct TfRecordFile {
  TfRecordFile(const char* op, const std::string& path, bool check, Where where);

  void settle(Where where) {
    file.set_where(where);
    if (file.position() != offset) file.seek(offset);
  }
  /// None at the end of the file.
  std::optional<std::int64_t> read_length();
  /// Reads the data and their checksum. False if they are not all there, and that is the end of the file.
  bool read_data(std::size_t length);
  bool next(std::string& record, Where where);
  std::int64_t skip(std::int64_t records, Where where);

  ByteReader file;
  bool check_crc;
  bool cut_is_end = false;  // for `next`: a last record that is not all there is the end of the file
  std::int64_t offset = 0, count = 0;
  std::string data;  // of the record that is being read
};

}  // namespace capstan::io
