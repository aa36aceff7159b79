#include "io/byte_reader.hpp"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <system_error>
#include <utility>

#include "io/io_error.hpp"

namespace capstan::io {
namespace {

constexpr std::size_t kBufferBytes = 1 << 16;
constexpr std::size_t kBeginning = 64;         // that shows what a file is
constexpr std::size_t kMaxPiece = 1 << 30;     // zlib counts in 32 bits
constexpr std::int64_t kMostByDeflate = 1032;  // bytes from one byte: 258 from two bits, and four times that
constexpr std::int64_t kInsideZlib = 64;       // bytes that zlib may have taken and not unpacked yet; far fewer in fact
constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();

std::string system_reason(int code) { return std::generic_category().message(code); }

}  // namespace

/// The state of zlib. It points back at itself, so it must not move.
struct ByteReader::Inflater {
  Inflater() : ready(inflateInit2(&stream, 16 + MAX_WBITS) == Z_OK) {}  // 16: gzip, not zlib's own framing
  ~Inflater() {
    if (ready) inflateEnd(&stream);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  z_stream stream{};
  bool ready;
};

ByteReader::ByteReader(const char* op, const std::string& path, Where where, Gzip gzip, IsPlain is_plain)
    : op_(op), path_(path), where_(where), buffer_(kBufferBytes) {
  if (const std::size_t zero = path.find('\0'); zero != std::string::npos)
    fail_io(op, path.substr(0, zero), where, "cannot be opened: the name goes on behind a zero byte; no file's does.");
  file_.reset(std::fopen(path.c_str(), "rbe"));  // e: not for child processes
  if (!file_) fail("cannot be opened: ", system_reason(errno), "; it must exist and be readable.");
  measure();
  if (!fill(2) || gzip == Gzip::off || !gzip_starts()) return;
  if (is_plain != nullptr) fill(kBeginning);
  if (is_plain != nullptr && is_plain(std::span<const unsigned char>(buffer_.data(), end_))) return;
  inflater_ = std::make_unique<Inflater>();
  if (!inflater_->ready) fail_for_memory();
}

ByteReader::~ByteReader() = default;

void ByteReader::fail_with(const std::string& text) const { fail_io(op_, path_, where_, text); }

/// Files of the kernel, such as those in /proc, say that they hold nothing: only what is more is believed.
void ByteReader::measure() {
  struct stat status = {};
  if (fstat(fileno(file_.get()), &status) != 0) return;
  regular_ = S_ISREG(status.st_mode);
  if (regular_ && status.st_size > 0) file_size_ = status.st_size;
}

/// What there is of the file itself behind the buffer, up to `count` bytes. None only at its end. A pipe is not waited
/// for once something has come.
std::size_t ByteReader::read_file(unsigned char* to, std::size_t count) {
  while (!file_ended_) {
    const ssize_t done = ::read(fileno(file_.get()), to, std::min(count, kMaxPiece));
    if (done > 0) return static_cast<std::size_t>(done);
    if (done == 0) file_ended_ = true;
    else if (errno != EINTR)
      fail("cannot be read: ", system_reason(errno), " at offset ", buffer_offset_ + static_cast<std::int64_t>(end_),
           "; it must be a readable file.");
  }
  return 0;
}

/// Whether at least `wanted` unused bytes are in the buffer, after reading more of the file if they were not.
bool ByteReader::fill(std::size_t wanted) {
  if (end_ - begin_ >= wanted) return true;
  std::copy(buffer_.data() + begin_, buffer_.data() + end_, buffer_.data());
  buffer_offset_ += static_cast<std::int64_t>(begin_);
  end_ -= begin_;
  begin_ = 0;
  while (end_ < wanted && !file_ended_) end_ += read_file(buffer_.data() + end_, buffer_.size() - end_);
  return end_ >= wanted;
}

std::size_t ByteReader::read(unsigned char* to, std::size_t count) {
  go_back_to_position();
  const std::int64_t before = file_offset();
  std::size_t done = 0;
  try {
    while (done < count) {
      const std::size_t piece = inflater_ ? read_gzip(to + done, count - done) : read_plain(to + done, count - done);
      if (piece == 0) break;
      done += piece;
    }
  } catch (const IoError&) {  // what has come must not be missing for who tries again
    if (!inflater_ && regular_) jump(before);
    beyond_position_ = inflater_ && regular_;
    throw;
  }
  position_ += static_cast<std::int64_t>(done);
  return done;
}

std::size_t ByteReader::read_some(unsigned char* to, std::size_t count) {
  go_back_to_position();
  const std::size_t done = inflater_ ? read_gzip(to, count) : read_plain(to, count);
  position_ += static_cast<std::int64_t>(done);
  return done;
}

/// What is there, at least a byte; none at the end.
std::size_t ByteReader::read_plain(unsigned char* to, std::size_t count) {
  if (begin_ == end_ && count >= buffer_.size()) {  // past the buffer
    buffer_offset_ = file_offset();
    begin_ = end_ = 0;
    const std::size_t done = read_file(to, count);
    buffer_offset_ += static_cast<std::int64_t>(done);
    return done;
  }
  fill(1);
  const std::size_t done = std::min(count, end_ - begin_);
  std::copy_n(buffer_.data() + begin_, done, to);
  begin_ += done;
  return done;
}

/// What the buffer holds unpacked, at least a byte; none at the end. Damage behind that is found by the next call.
std::size_t ByteReader::read_gzip(unsigned char* to, std::size_t count) {
  if (damage_) std::rethrow_exception(std::exchange(damage_, nullptr));
  std::size_t left = count;
  if (left > 0 && ahead_) {
    *to++ = *ahead_;
    --left;
    ahead_.reset();
  }
  try {
    while (left > 0 && (left == count || begin_ < end_)) {
      if (member_ended_) start_next_member();
      if (gzip_ended_) break;
      inflate_piece(to, left);
    }
  } catch (const IoError&) {
    if (left == count) throw;
    damage_ = std::current_exception();
  }
  return count - left;
}

/// Unpacks what the buffer holds, as far as there is room.
void ByteReader::inflate_piece(unsigned char*& to, std::size_t& left) {
  if (!fill(1))
    fail("the gzip stream is cut short at offset ", file_offset(), "; it must end with its checksum and length.");
  const std::size_t room = std::min(left, kMaxPiece);
  z_stream& stream = inflater_->stream;
  stream.next_in = buffer_.data() + begin_;
  stream.avail_in = static_cast<uInt>(end_ - begin_);
  stream.next_out = to;
  stream.avail_out = static_cast<uInt>(room);
  const int result = inflate(&stream, Z_NO_FLUSH);
  begin_ = end_ - stream.avail_in;
  const std::size_t made = room - stream.avail_out;
  to += made;
  left -= made;
  if (result == Z_STREAM_END) member_ended_ = true;  // a pipe is not waited for before what it gave is handed out
  else if (result == Z_MEM_ERROR) fail_for_memory();
  else if (result != Z_OK)
    fail("the gzip stream is damaged (", stream.msg != nullptr ? stream.msg : "no reason given", ") at offset ",
         file_offset(), "; it must unpack without errors.");
}

/// A gzip file may hold several streams one after another (RFC 1952, 2.2), and nothing else.
void ByteReader::start_next_member() {
  if (!fill(1)) {
    gzip_ended_ = true;
    return;
  }
  if (!fill(2) || !gzip_starts())
    fail("other bytes follow the gzip stream at offset ", file_offset(), "; the file must end there.");
  inflateReset(&inflater_->stream);
  member_ended_ = false;
}

void ByteReader::fail_for_memory() const {
  base::fail<OutOfMemoryError>(where_, op_, ": ", path_, ": no memory is left for unpacking.");
}

std::int64_t ByteReader::skip(std::int64_t count) {
  std::int64_t done = 0;
  if (!inflater_ && file_size_ >= 0) {
    done = std::clamp(count, std::int64_t{0}, file_left());
    move_to(position_ + done);
    return done;
  }
  std::array<unsigned char, 1 << 14> passed;
  while (done < count) {
    const auto wanted = static_cast<std::size_t>(std::min(count - done, static_cast<std::int64_t>(passed.size())));
    const std::size_t piece = read(passed.data(), wanted);
    done += static_cast<std::int64_t>(piece);
    if (piece < wanted) break;
  }
  return done;
}

bool ByteReader::at_end() {
  if (!inflater_) return !fill(1);
  go_back_to_position();
  unsigned char byte = 0;
  if (!ahead_ && read_gzip(&byte, 1) == 1) ahead_ = byte;
  return !ahead_;
}

/// Bytes of the file itself that are not used yet; kUnbounded where nobody knows.
std::int64_t ByteReader::file_left() const noexcept {
  const auto buffered = static_cast<std::int64_t>(end_ - begin_);
  if (file_ended_) return buffered;
  return file_size_ < 0 ? kUnbounded : std::max(file_size_ - file_offset(), buffered);
}

bool ByteReader::most_left_is_exact() const noexcept { return !inflater_ && file_left() != kUnbounded; }

std::int64_t ByteReader::most_left() const noexcept {
  const std::int64_t left = file_left();
  if (!inflater_) return left;
  if (gzip_ended_) return ahead_ ? 1 : 0;
  return left > kUnbounded / kMostByDeflate - kInsideZlib ? kUnbounded : (left + kInsideZlib) * kMostByDeflate;
}

/// Goes to that byte of the file itself.
void ByteReader::jump(std::int64_t offset) {
  if (offset >= buffer_offset_ && offset <= buffer_offset_ + static_cast<std::int64_t>(end_)) {
    begin_ = static_cast<std::size_t>(offset - buffer_offset_);
    file_ended_ = false;  // unless it has grown, the next to read will find out again
    return;
  }
  if (lseek(fileno(file_.get()), static_cast<off_t>(offset), SEEK_SET) < 0)
    fail("cannot be read: ", system_reason(errno), " at offset ", offset, "; it must be a readable file.");
  buffer_offset_ = offset;
  begin_ = end_ = 0;
  file_ended_ = false;
}

void ByteReader::restart() {
  jump(0);
  measure();  // it may have grown
  if (inflater_) inflateReset(&inflater_->stream);
  gzip_ended_ = member_ended_ = beyond_position_ = false;
  damage_ = nullptr;
  ahead_.reset();
  position_ = 0;
}

void ByteReader::go_back_to_position() {
  if (!beyond_position_) return;
  const std::int64_t before = position_;
  restart();
  try {
    if (skip(before) < before) fail("the file ends at ", place(position_), "; it must reach to offset ", before, '.');
  } catch (const IoError&) {
    position_ = before;
    beyond_position_ = true;
    throw;
  }
}

/// As far as the file reaches.
void ByteReader::move_to(std::int64_t position) {
  if (!inflater_ && file_size_ >= 0) {
    jump(position);
    position_ = position;
    return;
  }
  if (position < position_) {
    if (!regular_)
      fail("a pipe cannot go back from ", place(position_), " to offset ", position, "; it must be a file.");
    restart();
  }
  skip(position - position_);
}

void ByteReader::seek(std::int64_t position) {
  const std::int64_t before = position_;
  const auto too_far = [&](std::int64_t end) {
    fail("the file ends at ", place(end), "; it must reach to offset ", position, '.');
  };
  if (!inflater_ && file_size_ >= 0 && position - position_ > file_left()) too_far(position_ + file_left());
  try {
    move_to(position);
  } catch (const IoError&) {  // damaged on the way there, but not on the way here
    if (inflater_ && regular_) {
      restart();
      skip(before);
    }
    throw;
  }
  if (position_ == position) return;
  const std::int64_t end = position_;
  if (regular_) move_to(before);
  too_far(end);
}

std::string ByteReader::place(std::int64_t offset) const {
  return "offset " + std::to_string(offset) + (inflater_ ? " of the unpacked data" : "");
}

}  // namespace capstan::io
