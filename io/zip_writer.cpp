#include "io/zip.hpp"

#include <algorithm>

#include "lib/base/text.hpp"

#if CAPSTAN_HAS_MINIZIP

#include <minizip/zip.h>
#include <zlib.h>

#include <cerrno>
#include <cstdio>

namespace capstan::io {
namespace {

constexpr std::int64_t kPiece = 1 << 30;            // minizip counts in 32 bits
constexpr std::int64_t kWithoutZip64 = 0xF0000000;  // may become larger when it cannot be deflated
constexpr uLong kMadeBy = 3 << 8 | 20;              // Unix, 2.0
constexpr uLong kRights = static_cast<uLong>(0600) << 16;
constexpr uLong kFirstDate = 1 << 21 | 1 << 16;  // 1980-01-01, as NumPy: equal content gives equal files
constexpr uLong kUtf8 = 1 << 11;

/// How minizip writes to a stream that is open, and stays so.
zlib_filefunc64_def functions_of(std::FILE* stream) {
  zlib_filefunc64_def functions{};
  functions.opaque = stream;
  functions.zopen64_file = [](voidpf opaque, const void*, int) -> voidpf { return opaque; };
  functions.zread_file = [](voidpf, voidpf, void*, uLong) -> uLong { return 0; };
  functions.zwrite_file = [](voidpf, voidpf to, const void* bytes, uLong count) -> uLong {
    return std::fwrite(bytes, 1, count, static_cast<std::FILE*>(to));
  };
  functions.ztell64_file = [](voidpf, voidpf to) -> ZPOS64_T {
    return static_cast<ZPOS64_T>(ftello(static_cast<std::FILE*>(to)));
  };
  functions.zseek64_file = [](voidpf, voidpf to, ZPOS64_T offset, int origin) -> long {
    const int from = origin == ZLIB_FILEFUNC_SEEK_SET   ? SEEK_SET
                     : origin == ZLIB_FILEFUNC_SEEK_CUR ? SEEK_CUR
                                                        : SEEK_END;
    return fseeko(static_cast<std::FILE*>(to), static_cast<off_t>(offset), from);
  };
  functions.zclose_file = [](voidpf, voidpf) -> int { return 0; };
  functions.zerror_file = [](voidpf, voidpf to) -> int { return std::ferror(static_cast<std::FILE*>(to)); };
  return functions;
}

}  // namespace

ZipWriter::ZipWriter(const char* op, const std::string& path, Where where) : file_(op, path, where) {
  zlib_filefunc64_def functions = functions_of(file_.stream());
  errno = 0;  // here and below: minizip may fail without a reason of the system
  archive_ = zipOpen2_64(path.c_str(), APPEND_STATUS_CREATE, nullptr, &functions);
  if (archive_ == nullptr) file_.fail();
}

ZipWriter::~ZipWriter() {
  if (archive_ != nullptr) zipClose(archive_, nullptr);
}

void ZipWriter::add(const std::string& name, std::string_view head, const unsigned char* bytes, std::int64_t count,
                    bool compress) {
  zip_fileinfo info{};
  info.dosDate = kFirstDate;
  info.external_fa = kRights;
  const bool ascii = std::all_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x80; });
  errno = 0;
  const int opened =
      zipOpenNewFileInZip4_64(archive_, name.c_str(), &info, nullptr, 0, nullptr, 0, nullptr, compress ? Z_DEFLATED : 0,
                              Z_DEFAULT_COMPRESSION, 0, -MAX_WBITS, DEF_MEM_LEVEL, Z_DEFAULT_STRATEGY, nullptr, 0,
                              kMadeBy, ascii ? 0 : kUtf8, count > kWithoutZip64 ? 1 : 0);
  if (opened != ZIP_OK) file_.fail();
  write(head.data(), static_cast<std::int64_t>(head.size()));
  write(bytes, count);
  errno = 0;
  if (zipCloseFileInZip(archive_) != ZIP_OK) file_.fail();
}

void ZipWriter::write(const void* bytes, std::int64_t count) {
  const auto* from = static_cast<const unsigned char*>(bytes);
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t piece = std::min(count - done, kPiece);
    errno = 0;
    if (zipWriteInFileInZip(archive_, from + done, static_cast<unsigned>(piece)) != ZIP_OK) file_.fail();
    done += piece;
  }
}

void ZipWriter::commit() {
  void* const archive = archive_;
  archive_ = nullptr;
  errno = 0;
  if (zipClose(archive, nullptr) != ZIP_OK) file_.fail();
  file_.commit();
}

}  // namespace capstan::io

#else  // without minizip

namespace capstan::io {
namespace {

[[noreturn]] void fail_without_minizip(const char* op, Where where) {
  base::fail<MissingLibraryError>(
      where, op, ": this build has no minizip; install libminizip-dev (Debian, Ubuntu) and build again.");
}

/// Before anything else happens.
const char* checked_op(const char* op, Where where) { fail_without_minizip(op, where); }

}  // namespace

ZipWriter::ZipWriter(const char* op, const std::string& path, Where where)
    : file_(checked_op(op, where), path, where) {}
ZipWriter::~ZipWriter() = default;
void ZipWriter::add(const std::string&, std::string_view, const unsigned char*, std::int64_t, bool) {}
void ZipWriter::commit() {}
void ZipWriter::write(const void*, std::int64_t) {}

}  // namespace capstan::io

#endif
