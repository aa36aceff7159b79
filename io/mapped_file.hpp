#pragma once
// A file's bytes in memory, read by the system as they are used. Writing to them changes the process's copy alone; they
// are for reading alone where the system promises no room for such copies.
#include <cstdint>
#include <memory>
#include <string>

#include <capstan/error.hpp>

namespace capstan::io {

class MappedFile {
 public:
  /// IoError if it cannot be opened or mapped, or is no regular file. An empty file has no bytes.
  static std::shared_ptr<const MappedFile> open(const char* op, const std::string& path, Where where);
  /// The size of a file that can be opened, which is not mapped. IoError as `open`.
  static std::int64_t file_size(const char* op, const std::string& path, Where where);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// Whoever writes to them must ask is_writable() first: the system ends a process that writes all the same.
  unsigned char* bytes() const noexcept { return bytes_; }
  bool is_writable() const noexcept { return is_writable_; }
  std::int64_t size() const noexcept { return size_; }
  const std::string& path() const noexcept { return path_; }

 private:
  MappedFile(std::string path, unsigned char* bytes, std::int64_t size, bool is_writable) noexcept;

  std::string path_;
  unsigned char* bytes_;
  std::int64_t size_;
  bool is_writable_;
};

}  // namespace capstan::io
