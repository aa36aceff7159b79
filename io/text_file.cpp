// Text files and their lines.
#include <capstan/io/text_file.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "io/byte_reader.hpp"
#include "io/output_file.hpp"
#include "lib/base/text.hpp"

namespace capstan::io {
namespace {

constexpr std::size_t kFirstBytes = 1 << 16;
constexpr std::size_t kBufferBytes = 1 << 18;  // of lines; grows with lines that are longer
constexpr std::size_t kMarkBytes = 3;

/// Whether the bytes, of which there may be fewer, agree with UTF-8's byte order mark.
bool begins_with_mark_so_far(const void* bytes, std::size_t count) {
  return std::memcmp(bytes, "\xEF\xBB\xBF", std::min(count, kMarkBytes)) == 0;
}
bool begins_with_mark(const void* bytes, std::size_t count) {
  return count >= kMarkBytes && begins_with_mark_so_far(bytes, count);
}

std::string read_whole(ByteReader& file) {
  std::string text;
  std::size_t done = 0;
  // one byte more than there should be, so that the end shows
  std::size_t room = file.most_left_is_exact() ? static_cast<std::size_t>(file.most_left()) + 1 : kFirstBytes;
  for (;; room *= 2) {
    text.resize(room);
    done += file.read(reinterpret_cast<unsigned char*>(text.data()) + done, room - done);
    if (done < room) break;
  }
  text.resize(done);
  if (begins_with_mark(text.data(), text.size())) text.erase(0, kMarkBytes);
  return text;
}

}  // namespace

std::string read_text(const std::string& path, Where where) {
  ByteReader file("read_text", path, where);
  try {
    return read_whole(file);
  } catch (const std::bad_alloc&) {
    base::fail<OutOfMemoryError>(where, "read_text: ", path, ": no memory is left for the text.");
  }
}

void write_text(const std::string& path, std::string_view text, Where where) {
  OutputFile file("write_text", path, where);
  file.write(text.data(), text.size());
  file.commit();
}

struct LineReader::Impl {
  Impl(const std::string& path, std::int64_t max_line_bytes, Where where)
      : file("LineReader", path, where), most(max_line_bytes), buffer(kBufferBytes) {
    pass_mark();
  }

  bool next(std::string& line);
  bool fill();
  void pass_mark();
  void seek(std::int64_t to, std::int64_t line);
  std::int64_t offset() const noexcept { return buffer_offset + static_cast<std::int64_t>(begin); }
  [[noreturn]] void fail_for_length() const;

  ByteReader file;
  std::int64_t most;
  std::vector<unsigned char> buffer;  // bytes begin .. end-1 are read from the file and belong to no line yet
  std::size_t begin = 0, end = 0;
  std::int64_t buffer_offset = 0;  // where buffer[0] stands in the unpacked data
  std::int64_t lines = 0;
};

/// Whether there are more bytes in the buffer now. Grows it if one line fills it.
bool LineReader::Impl::fill() {
  if (begin == 0 && end == buffer.size()) buffer.resize(2 * buffer.size());
  std::copy(buffer.data() + begin, buffer.data() + end, buffer.data());
  buffer_offset += static_cast<std::int64_t>(begin);
  end -= begin;
  begin = 0;
  const std::size_t more = file.read_some(buffer.data() + end, buffer.size() - end);
  end += more;
  return more > 0;
}

void LineReader::Impl::pass_mark() {
  // a pipe may give it in pieces
  while (end - begin < kMarkBytes && begins_with_mark_so_far(buffer.data() + begin, end - begin) && fill()) {}
  if (begins_with_mark(buffer.data() + begin, end - begin)) begin += kMarkBytes;
}

void LineReader::Impl::fail_for_length() const {
  file.fail("line ", lines + 1, " at ", file.place(offset()), " is longer than ", most,
            " bytes; LineReaderOptions::max_line_bytes must allow for the longest line.");
}

bool LineReader::Impl::next(std::string& line) {
  const unsigned char* newline = nullptr;
  for (std::size_t searched = 0; newline == nullptr;) {
    const std::size_t there = end - begin;
    if (there > searched)
      newline =
          static_cast<const unsigned char*>(std::memchr(buffer.data() + begin + searched, '\n', there - searched));
    if (newline != nullptr) break;
    searched = there;
    // a line may end with "\r" at this point, and its "\n" not be here yet
    if (searched > 0 && static_cast<std::int64_t>(searched) - 1 > most) fail_for_length();
    if (fill()) continue;
    if (searched == 0) return false;
    break;
  }
  const unsigned char* first = buffer.data() + begin;
  const std::size_t taken = newline != nullptr ? static_cast<std::size_t>(newline - first) : end - begin;
  const bool carriage_return = newline != nullptr && taken > 0 && first[taken - 1] == '\r';
  const std::size_t length = taken - (carriage_return ? 1 : 0);
  if (static_cast<std::int64_t>(length) > most) fail_for_length();
  line.assign(reinterpret_cast<const char*>(first), length);
  begin += taken + (newline != nullptr ? 1 : 0);
  ++lines;
  return true;
}

void LineReader::Impl::seek(std::int64_t to, std::int64_t line) {
  if (to >= buffer_offset && to <= buffer_offset + static_cast<std::int64_t>(end)) {
    begin = static_cast<std::size_t>(to - buffer_offset);
  } else {
    file.seek(to);
    buffer_offset = to;
    begin = end = 0;
  }
  lines = line;
  if (to == 0) pass_mark();
}

LineReader::LineReader(const std::string& path, LineReaderOptions options, Where where) {
  if (options.max_line_bytes < 1)
    base::fail<Error>(where, "LineReader: max_line_bytes is ", options.max_line_bytes, "; it must be at least 1.");
  impl_ = new Impl(path, options.max_line_bytes, where);
}
LineReader::LineReader(LineReader&& other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}
LineReader& LineReader::operator=(LineReader&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}
LineReader::~LineReader() { delete impl_; }

bool LineReader::next(std::string& line, Where where) {
  if (impl_ == nullptr)
    base::fail<Error>(where, "LineReader::next: this reader was moved from; use the one it was moved to.");
  impl_->file.set_where(where);
  try {
    return impl_->next(line);
  } catch (const std::bad_alloc&) {
    base::fail<OutOfMemoryError>(where, "LineReader: ", impl_->file.path(), ": no memory is left for the line at ",
                                 impl_->file.place(impl_->offset()), ".");
  }
}

std::int64_t LineReader::offset() const noexcept { return impl_ == nullptr ? 0 : impl_->offset(); }
std::int64_t LineReader::line() const noexcept { return impl_ == nullptr ? 0 : impl_->lines; }

void LineReader::seek(std::int64_t offset, std::int64_t line, Where where) {
  if (impl_ == nullptr)
    base::fail<Error>(where, "LineReader::seek: this reader was moved from; use the one it was moved to.");
  if (offset < 0 || line < 0)
    base::fail<IndexError>(where, "LineReader::seek: offset ", offset, " and line ", line,
                           "; neither may be negative.");
  impl_->file.set_where(where);
  impl_->seek(offset, line);
}

}  // namespace capstan::io
