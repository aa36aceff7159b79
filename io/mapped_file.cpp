#include "io/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "io/io_error.hpp"

namespace capstan::io {
namespace {

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
};

std::string reason(int code) { return std::generic_category().message(code); }

/// Negative if it cannot be opened.
int open_to_read(const char* op, const std::string& path, Where where) {
  if (const std::size_t zero = path.find('\0'); zero != std::string::npos)
    fail_io(op, path.substr(0, zero), where, "cannot be opened: the name goes on behind a zero byte; no file's does.");
  return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe is not waited for
}

/// IoError unless what was just opened is a regular file.
std::int64_t size_of_opened(const Descriptor& file, const char* op, const std::string& path, Where where) {
  struct stat status {};
  if (file.number < 0 || fstat(file.number, &status) != 0)
    fail_io(op, path, where, "cannot be opened: " + reason(errno) + "; it must exist and be readable.");
  if (!S_ISREG(status.st_mode))
    fail_io(op, path, where, "cannot be mapped into memory: it is no regular file; folders and pipes cannot be.");
  return status.st_size;
}

}  // namespace

MappedFile::MappedFile(std::string path, unsigned char* bytes, std::int64_t size, bool is_writable) noexcept
    : path_(std::move(path)), bytes_(bytes), size_(size), is_writable_(is_writable) {}

MappedFile::~MappedFile() {
  if (bytes_ != nullptr) munmap(bytes_, static_cast<std::size_t>(size_));
}

std::shared_ptr<const MappedFile> MappedFile::open(const char* op, const std::string& path, Where where) {
  const Descriptor file{open_to_read(op, path, where)};
  const std::int64_t size = size_of_opened(file, op, path, where);
  const auto length = static_cast<std::size_t>(size);
  bool is_writable = true;
  unsigned char* bytes = nullptr;
  if (size > 0) {
    void* mapped = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.number, 0);
    if (mapped == MAP_FAILED && errno == ENOMEM) {  // vm.overcommit_memory=2 and RLIMIT_DATA count what may be written
      is_writable = false;
      mapped = mmap(nullptr, length, PROT_READ, MAP_PRIVATE, file.number, 0);
    }
    if (mapped == MAP_FAILED) fail_io(op, path, where, "cannot be mapped into memory: " + reason(errno) + ".");
    bytes = static_cast<unsigned char*>(mapped);
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(path, bytes, size, is_writable));
}

std::int64_t MappedFile::file_size(const char* op, const std::string& path, Where where) {
  const Descriptor file{open_to_read(op, path, where)};
  return size_of_opened(file, op, path, where);
}

}  // namespace capstan::io
