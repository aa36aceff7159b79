#pragma once
// A file's bytes in memory, read by the system as they are used. Writing to them changes the process's copy alone.
#include <cstdint>
#include <memory>
#include <string>

#include <capstan/error.hpp>

namespace capstan::io {

class MappedFile {
 public:
  /// IoError if it cannot be opened or mapped, or is no regular file. An empty file has no bytes.
  static std::shared_ptr<const MappedFile> open(const char* op, const std::string& path, Where where);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// They may be written to.
  unsigned char* bytes() const noexcept { return bytes_; }
  std::int64_t size() const noexcept { return size_; }
  const std::string& path() const noexcept { return path_; }

 private:
  MappedFile(std::string path, unsigned char* bytes, std::int64_t size) noexcept;

  std::string path_;
  unsigned char* bytes_;
  std::int64_t size_;
};

}  // namespace capstan::io
