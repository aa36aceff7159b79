#include "io/output_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "io/io_error.hpp"

namespace capstan::io {
namespace {

std::string system_reason(int code) { return std::generic_category().message(code); }

/// A new file of its own beside `target`; its descriptor, or -1.
int open_beside(const std::string& target, std::string& temporary) {
  static std::atomic<unsigned> count = 0;
  for (;;) {
    temporary = target + ".part" + std::to_string(getpid()) + "-" + std::to_string(count++);
    const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0 || errno != EEXIST) return file;
  }
}

/// Makes a renaming last. What cannot be synchronized is as safe as it can be.
void sync_folder(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const int descriptor = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  fsync(descriptor);
  close(descriptor);
}

}  // namespace

OutputFile::OutputFile(const char* op, const std::string& path, Where where)
    : op_(op), path_(path), target_(path), where_(where) {
  if (const std::size_t zero = path.find('\0'); zero != std::string::npos)
    fail_io(op_, path.substr(0, zero), where_, "cannot be made: the name goes on behind a zero byte; no file's does.");
  struct stat before {};
  const bool exists = stat(path.c_str(), &before) == 0;
  if (exists && !S_ISREG(before.st_mode))
    fail_io(op_, path_, where_, "cannot be made: something else stands there; it must be a regular file, or none.");
  std::error_code none;
  if (exists && std::filesystem::is_symlink(path, none)) {  // the link stays, and what it leads to is replaced
    const std::filesystem::path target = std::filesystem::canonical(path, none);
    if (!none) target_ = target.string();
  }
  const int descriptor = open_beside(target_, temporary_);
  if (descriptor >= 0) file_ = fdopen(descriptor, "wb");
  if (file_ == nullptr) {
    const int code = errno;
    if (descriptor >= 0) {
      close(descriptor);
      unlink(temporary_.c_str());
    }
    fail_io(op_, path_, where_, "cannot be made: " + system_reason(code) + "; its folder must exist and be writable.");
  }
  flock(descriptor, LOCK_EX | LOCK_NB);                   // where locks do not work, nobody else can take it either
  if (exists) fchmod(descriptor, before.st_mode & 0777);  // if that fails it has the usual rights
}

OutputFile::~OutputFile() {
  if (file_ != nullptr) std::fclose(file_);
  if (!committed_) unlink(temporary_.c_str());
}

void OutputFile::write(const void* bytes, std::size_t count) {
  if (count > 0 && std::fwrite(bytes, 1, count, file_) < count) fail();
}

void OutputFile::reserve(std::int64_t bytes) {
  if (bytes <= 0 || fallocate(fileno(file_), FALLOC_FL_KEEP_SIZE, 0, bytes) == 0) return;
  if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) fail();
}

void OutputFile::commit(Durable durable) {
  if (std::ferror(file_) != 0 || std::fflush(file_) != 0) fail();
  if (durable == Durable::yes && fsync(fileno(file_)) != 0) fail();
  std::FILE* const file = file_;
  const int lock = fcntl(fileno(file), F_DUPFD_CLOEXEC, 0);  // keeps it until the file has its name
  file_ = nullptr;
  committed_ = std::fclose(file) == 0 && std::rename(temporary_.c_str(), target_.c_str()) == 0;
  const int code = errno;
  if (lock >= 0) close(lock);
  errno = code;
  if (!committed_) fail();
  if (durable == Durable::yes) sync_folder(target_);
}

void OutputFile::fail() const {
  const std::string reason = errno != 0 ? system_reason(errno) : "no reason is known";
  fail_io(op_, path_, where_,
          "cannot be written: " + reason + "; the disk must have room for it. What was there stays.");
}

}  // namespace capstan::io
