#pragma once
// What tests of readers share: files that go away by themselves, bytes to fill them with, and tables of broken ones.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <capstan/error.hpp>

namespace tests {

using Bytes = std::vector<unsigned char>;

/// A folder of its own; removed with all that is in it at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  /// Where a file of that name stands, or would.
  std::string path(const std::string& name) const;
  /// Writes a file, over one that is there. Its path.
  std::string write(const std::string& name, const Bytes& bytes) const;
  std::string write_text(const std::string& name, std::string_view text) const;

 private:
  std::string folder_;
};

Bytes file_bytes(const std::string& path);
/// One gzip stream, by zlib.
Bytes gzip(const Bytes& plain);
Bytes joined(Bytes first, const Bytes& second);
Bytes first_bytes(const Bytes& bytes, std::size_t count);
Bytes bytes_of(std::string_view text);
/// The lowest `count` bytes of the value, the lowest first or last.
void append_little(Bytes& bytes, std::uint64_t value, int count);
void append_big(Bytes& bytes, std::uint64_t value, int count);

using ReadFile = std::function<void(const std::string& path)>;

/// One row of a table of broken files. `reason` is a part of what the error says.
struct Malformed {
  std::string what;
  Bytes bytes;
  std::string reason;
};
/// Every row, as a file of that name, must be an IoError `op: PATH: ...reason... (test.cpp:12)`, where test.cpp is the
/// caller's file. It must also name an offset, unless it is about opening the file.
void check_malformed(const std::vector<Malformed>& rows, const std::string& op, const std::string& file_name,
                     const ReadFile& read, capstan::Where where = capstan::Where::current());
/// Every prefix of a good file must be such an IoError; those of the `allowed` lengths must be read without an error.
/// All lengths up to 2000 bytes; of longer files the first and last 64, those around the allowed ones, and 200 others.
void check_prefixes(const Bytes& good, const std::string& op, const std::string& file_name, const ReadFile& read,
                    const std::vector<std::size_t>& allowed = {}, capstan::Where where = capstan::Where::current());

/// The most bytes by which the CPU's allocator grew while `call` ran; it begins with an empty cache.
std::int64_t peak_bytes(const std::function<void()>& call);

/// Whether this build writes no archives. The case then checks nothing, with a warning that says so.
bool without_minizip();

/// A file or folder of the collection of data sets; "" where it is not there, with a warning that the case checked
/// nothing.
std::string shared_data(const std::string& name);

}  // namespace tests
