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
#include "lib/base/text.hpp"

namespace capstan::io {
namespace {

constexpr std::size_t kLongestEnd = 32;  // of a temporary file's name: ".part", two numbers, and what is between them

std::string system_reason(int code) { return std::generic_category().message(code); }

/// Whether that is the error of a disk, or of a share of it, without room.
bool is_full(int code) { return code == ENOSPC || code == EDQUOT || code == EFBIG; }
bool is_of_folder(int code) {
  return code == ENOENT || code == ENOTDIR || code == EACCES || code == EPERM || code == EROFS;
}

[[noreturn]] void fail_to_make(const char* op, const std::string& path, Where where, int code) {
  fail_io(op, path, where, "cannot be made: " + system_reason(code) + "; its folder must exist and be writable.");
}

/// So much of the path that names beside it have room for an end. Letters of several bytes are not cut.
std::string shortened(const std::string& path) {
  const std::size_t name = path.rfind('/') + 1;  // npos + 1 is 0
  if (path.size() - name <= kLongestEnd) return path;
  std::size_t end = path.size() - kLongestEnd;
  while (end > name && (static_cast<unsigned char>(path[end]) & 0xC0) == 0x80) --end;
  return path.substr(0, end);
}

/// A new file of its own beside `target`; its descriptor, or -1. It is called as `target`, with an end that tells whose
/// it is (io/checkpoint_folder.cpp looks for these); what is called as long as can be loses some of that name.
int open_beside(const std::string& target, std::string& temporary) {
  static std::atomic<unsigned> count = 0;
  std::string start = target;
  for (;;) {
    temporary = start + ".part" + std::to_string(getpid()) + "-" + std::to_string(count++);
    const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0) return file;
    if (errno == ENAMETOOLONG && start.size() == target.size()) {
      start = shortened(target);
      if (start.size() < target.size()) continue;
      errno = ENAMETOOLONG;
    }
    if (errno != EEXIST) return file;
  }
}

/// Where a link leads to, by way of others too, whether that exists or not. What is no link is its own target.
std::string followed(const std::string& path) {
  constexpr int most = 40;  // links, as Linux has it
  std::filesystem::path target = path;
  std::error_code error;
  for (int links = 0; links < most && std::filesystem::is_symlink(target, error); ++links) {
    const std::filesystem::path next = std::filesystem::read_symlink(target, error);
    if (error) break;
    target = target.parent_path() / next;  // which is `next` alone if that begins with the root
  }
  return target.string();
}

/// Renames only where nothing has that name; errno is EEXIST if something has.
bool rename_to_free(const char* from, const char* to) {
  if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS) return false;
  // NFS and others do not know that; a second name they give only where there is none
  if (link(from, to) == 0) {
    unlink(from);
    return true;
  }
  if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS) return false;
  return std::rename(from, to) == 0;  // where there are no second names locks alone keep others away
}

}  // namespace

void sync_parent_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const int descriptor = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  fsync(descriptor);
  close(descriptor);
}

OutputFile::OutputFile(const char* op, const std::string& path, Where where) : op_(op), path_(path), where_(where) {
  if (path.empty()) base::fail<IoError>(where_, op_, ": the name of the file is empty; it must have one.");
  if (const std::size_t zero = path.find('\0'); zero != std::string::npos)
    fail_io(op_, path.substr(0, zero), where_, "cannot be made: the name goes on behind a zero byte; no file's does.");
  struct stat before {};
  const bool exists = stat(path.c_str(), &before) == 0;
  if (!exists && (errno == ELOOP || errno == ENAMETOOLONG)) fail_to_make(op_, path_, where_, errno);
  if (exists && !S_ISREG(before.st_mode))
    fail_io(op_, path_, where_, "cannot be made: something else stands there; it must be a regular file, or none.");
  target_ = followed(path);
  const int descriptor = open_beside(target_, temporary_);
  if (descriptor >= 0) file_ = fdopen(descriptor, "wb");
  if (file_ == nullptr) {
    const int code = errno;
    if (descriptor >= 0) {
      close(descriptor);
      unlink(temporary_.c_str());
    }
    fail_to_make(op_, path_, where_, code);
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
  if (is_full(errno)) fail();
}

void OutputFile::commit(Durable durable, Overwrite overwrite) {
  if (std::ferror(file_) != 0 || std::fflush(file_) != 0) fail();
  if (durable == Durable::yes && fsync(fileno(file_)) != 0) fail();
  std::FILE* const file = file_;
  const int lock = fcntl(fileno(file), F_DUPFD_CLOEXEC, 0);  // keeps it until the file has its name
  file_ = nullptr;
  const char *const from = temporary_.c_str(), *const to = target_.c_str();
  committed_ =
      std::fclose(file) == 0 && (overwrite == Overwrite::yes ? std::rename(from, to) == 0 : rename_to_free(from, to));
  const int code = errno;
  if (lock >= 0) close(lock);
  if (!committed_ && code == EEXIST)
    fail_io(op_, path_, where_,
            "cannot be written: " + system_reason(code) + "; another took that name meanwhile, and stays.");
  errno = code;
  if (!committed_) fail();
  if (durable == Durable::yes) sync_parent_of(target_);
}

void OutputFile::fail() const {
  const int code = errno;
  const std::string reason = code != 0 ? system_reason(code) : "no reason is known";
  const std::string rule = is_full(code)        ? "the disk must have room for it"
                           : is_of_folder(code) ? "its folder must be there and writable until the file is whole"
                                                : "the system must be able to write it";
  fail_io(op_, path_, where_, "cannot be written: " + reason + "; " + rule + ". What was there stays.");
}

}  // namespace capstan::io
