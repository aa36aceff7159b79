#pragma once
// A file that is there whole or not at all: written beside its place under another name, then renamed. Where a symbolic
// link stands it stays, and its place is where that leads to, even if nothing is there yet.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include <capstan/error.hpp>

namespace capstan::io {

enum class Durable : bool { no, yes };
/// What becomes of a file that took the place meanwhile: it is replaced, or it stays and the commit fails.
enum class Overwrite : bool { no, yes };

/// Makes that a file or folder was made or renamed last. What cannot be synchronized is as safe as it can be.
void sync_parent_of(const std::string& path);

/// While it is written, its temporary file is locked: one that nobody has locked is what a killed process left.
class OutputFile {
 public:
  /// IoError if the file cannot be made, its name is empty, or something stands in its place that is no regular file.
  /// `op` must live as long as the file.
  OutputFile(const char* op, const std::string& path, Where where);
  /// Removes what was written unless it was committed.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* bytes, std::size_t count);
  /// For libraries that write by themselves. They need not look for errors: commit() finds them.
  std::FILE* stream() noexcept { return file_; }
  /// Takes that much room on the disk at once, where the file system can, so that a full disk is told here.
  void reserve(std::int64_t bytes);
  /// Puts what was written in the place of what was there; waits until the disk has it if it is to survive a power cut.
  void commit(Durable durable = Durable::no, Overwrite overwrite = Overwrite::yes);
  /// Throws the IoError that it cannot be written, for the reason that errno names.
  [[noreturn]] void fail() const;

 private:
  const char* op_;
  std::string path_, target_, temporary_;  // as given; where it ends up; where it is written
  Where where_;
  std::FILE* file_ = nullptr;
  bool committed_ = false;
};

}  // namespace capstan::io
