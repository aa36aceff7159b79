// Reading IDX files, plain or gzip. Nothing in a file is believed before the bytes are there: the elements are read
// into a tensor that grows with them.
#include <capstan/io/idx.hpp>

#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <locale>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <capstan/create.hpp>

namespace capstan::io {
namespace {

constexpr std::size_t kBufferBytes = 1 << 16;
constexpr std::int64_t kFirstBytes = 1 << 16;  // elements are first given this much room, and four times that when full
constexpr std::int64_t kGrowth = 4;
constexpr std::size_t kMaxPiece = 1 << 30;  // zlib counts in 32 bits

struct Closer {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};

std::string system_reason(int code) { return std::generic_category().message(code); }

[[noreturn]] void fail_for_memory() { throw OutOfMemoryError("read_idx: no memory is left for unpacking gzip."); }

/// The state of zlib. It points back at itself, so it must not move.
struct Inflater {
  Inflater() {
    if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) fail_for_memory();  // 16: gzip, not zlib's own framing
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  z_stream stream{};
};

/// The bytes of a file in order, unpacked if it is gzip, and errors that name the file.
class IdxFile {
 public:
  IdxFile(const std::string& path, Where where);

  /// Up to `count` bytes; fewer only at the end.
  std::size_t read(unsigned char* to, std::size_t count);
  /// Bytes handed out so far.
  std::int64_t position() const noexcept { return position_; }
  /// "offset 12", or "offset 12 of the unpacked data".
  std::string place(std::int64_t offset) const {
    return "offset " + std::to_string(offset) + (inflater_ ? " of the unpacked data" : "");
  }
  /// Throws the IoError `read_idx: FILE: parts (source.cpp:12)`.
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    std::ostringstream text;
    text.imbue(std::locale::classic());
    text << "read_idx: " << path_ << ": ";
    (text << ... << parts);
    std::string_view source = where_.file_name();
    source.remove_prefix(source.find_last_of('/') + 1);  // npos + 1 is 0
    text << " (" << source << ':' << where_.line() << ')';
    throw IoError(text.str());
  }

 private:
  bool fill(std::size_t wanted);
  std::size_t read_plain(unsigned char* to, std::size_t count);
  std::size_t read_gzip(unsigned char* to, std::size_t count);
  void inflate_piece(unsigned char*& to, std::size_t& left);
  void start_next_member();
  bool gzip_starts() const noexcept { return buffer_[begin_] == 0x1f && buffer_[begin_ + 1] == 0x8b; }
  std::int64_t file_offset() const noexcept { return buffer_offset_ + static_cast<std::int64_t>(begin_); }

  std::string path_;
  Where where_;
  std::vector<unsigned char> buffer_;        // bytes begin_ .. end_-1 are read from the file and not yet used
  std::unique_ptr<std::FILE, Closer> file_;  // opened last, so that errno is still its own
  std::size_t begin_ = 0, end_ = 0;
  std::int64_t buffer_offset_ = 0;  // where buffer_[0] stands in the file
  std::int64_t position_ = 0;
  std::optional<Inflater> inflater_;
  bool gzip_ended_ = false;
};

IdxFile::IdxFile(const std::string& path, Where where)
    : path_(path), where_(where), buffer_(kBufferBytes), file_(std::fopen(path.c_str(), "rb")) {
  if (!file_) fail("cannot be opened: ", system_reason(errno), "; it must exist and be readable.");
  if (fill(2) && gzip_starts()) inflater_.emplace();
}

/// Whether at least `wanted` unused bytes are in the buffer, after reading more of the file if they were not.
bool IdxFile::fill(std::size_t wanted) {
  if (end_ - begin_ >= wanted) return true;
  std::copy(buffer_.data() + begin_, buffer_.data() + end_, buffer_.data());
  buffer_offset_ += static_cast<std::int64_t>(begin_);
  end_ -= begin_;
  begin_ = 0;
  end_ += std::fread(buffer_.data() + end_, 1, buffer_.size() - end_, file_.get());
  if (std::ferror(file_.get()) != 0)
    fail("cannot be read: ", system_reason(errno), " at offset ", buffer_offset_ + static_cast<std::int64_t>(end_),
         "; it must be a readable file.");
  return end_ >= wanted;
}

std::size_t IdxFile::read(unsigned char* to, std::size_t count) {
  const std::size_t done = inflater_ ? read_gzip(to, count) : read_plain(to, count);
  position_ += static_cast<std::int64_t>(done);
  return done;
}

std::size_t IdxFile::read_plain(unsigned char* to, std::size_t count) {
  std::size_t done = 0;
  while (done < count && fill(1)) {
    const std::size_t piece = std::min(count - done, end_ - begin_);
    std::copy_n(buffer_.data() + begin_, piece, to + done);
    begin_ += piece;
    done += piece;
  }
  return done;
}

std::size_t IdxFile::read_gzip(unsigned char* to, std::size_t count) {
  std::size_t left = count;
  while (left > 0 && !gzip_ended_) inflate_piece(to, left);
  return count - left;
}

/// Unpacks what the buffer holds, as far as there is room.
void IdxFile::inflate_piece(unsigned char*& to, std::size_t& left) {
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
  if (result == Z_STREAM_END) start_next_member();
  else if (result == Z_MEM_ERROR) fail_for_memory();
  else if (result != Z_OK)
    fail("the gzip stream is damaged (", stream.msg != nullptr ? stream.msg : "no reason given", ") at offset ",
         file_offset(), "; it must unpack without errors.");
}

/// A gzip file may hold several streams one after another (RFC 1952, 2.2), and nothing else.
void IdxFile::start_next_member() {
  if (!fill(1)) {
    gzip_ended_ = true;
    return;
  }
  if (!fill(2) || !gzip_starts())
    fail("other bytes follow the gzip stream at offset ", file_offset(), "; the file must end there.");
  inflateReset(&inflater_->stream);
}

// --- the format --------------------------------------------------------------------------------------------------

struct Header {
  DType dtype;
  Shape shape;
};

std::string hex(unsigned char byte) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  return {digits[byte >> 4], digits[byte & 15]};
}

std::string list(std::span<const std::int64_t> sizes) {
  std::string text = "[";
  for (const std::int64_t size : sizes) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

DType element_type(const IdxFile& file, unsigned char code) {
  switch (code) {
    case 0x08: return DType::uint8;
    case 0x0C: return DType::int32;
    case 0x0D: return DType::float32;
    case 0x0E: return DType::float64;
    default:
      file.fail("element type 0x", hex(code), " at ", file.place(2),
                "; it must be 0x08 (uint8), 0x0C (int32), 0x0D (float32) or 0x0E (float64).");
  }
}

/// Sizes of 0 do not excuse the others: their product must still be a number.
void check_product(const IdxFile& file, std::span<const std::int64_t> sizes, DType dtype) {
  std::int64_t bytes = size_of(dtype);
  for (const std::int64_t size : sizes) {
    if (size == 0) continue;
    if (bytes > std::numeric_limits<std::int64_t>::max() / size)
      file.fail("sizes ", list(sizes), " of ", name(dtype), " at ", file.place(4),
                " need 2^63 bytes or more; the elements must be in the file.");
    bytes *= size;
  }
}

Header read_header(IdxFile& file, Where where) {
  std::array<unsigned char, 4> head;
  if (file.read(head.data(), head.size()) < head.size())
    file.fail("the header is cut short at ", file.place(file.position()),
              "; it must begin with 00 00, the element type and the number of sizes.");
  if (head[0] != 0 || head[1] != 0)
    file.fail("the file begins with ", hex(head[0]), ' ', hex(head[1]), " at ", file.place(0), "; it must be 00 00.");
  const DType dtype = element_type(file, head[2]);
  const std::size_t rank = head[3];
  if (rank > kMaxRank)
    file.fail("the header declares ", rank, " sizes at ", file.place(3), "; it must be at most ", kMaxRank, '.');

  std::array<unsigned char, 4 * kMaxRank> bytes;
  if (file.read(bytes.data(), 4 * rank) < 4 * rank)
    file.fail("the header is cut short at ", file.place(file.position()), "; it must hold ", rank,
              " sizes of 4 bytes from offset 4.");
  std::array<std::int64_t, kMaxRank> sizes{};
  for (std::size_t i = 0; i < 4 * rank; ++i) sizes[i / 4] = (sizes[i / 4] << 8) | bytes[i];  // big-endian
  const std::span<const std::int64_t> used(sizes.data(), rank);
  check_product(file, used, dtype);
  return {dtype, Shape(used, where)};
}

template <class T>
void big_endian_to_native(std::span<T> values) {
  if constexpr (sizeof(T) > 1 && std::endian::native == std::endian::little) {
    auto* bytes = reinterpret_cast<unsigned char*>(values.data());
    for (std::size_t i = 0; i < values.size(); ++i, bytes += sizeof(T)) std::reverse(bytes, bytes + sizeof(T));
  }
}

template <class T>
Tensor read_elements(IdxFile& file, const Shape& shape, Where where) {
  constexpr std::int64_t element = sizeof(T);
  const TensorOptions options{.dtype = dtype_of<T>()};
  const std::int64_t count = shape.numel(), start = file.position();
  std::int64_t done = 0, room = std::min(count, kFirstBytes / element);
  Tensor values = empty(room == count ? shape : Shape{room}, options, where);
  while (done < count) {
    if (done == room) {
      room = count / kGrowth <= room ? count : room * kGrowth;
      Tensor larger = empty(room == count ? shape : Shape{room}, options, where);
      std::copy_n(values.data<T>(where), done, larger.mutable_data<T>(where));
      values = std::move(larger);
    }
    auto* bytes = reinterpret_cast<unsigned char*>(values.mutable_data<T>(where) + done);
    const auto wanted = static_cast<std::size_t>((room - done) * element);
    if (file.read(bytes, wanted) < wanted)
      file.fail("the elements end at ", file.place(file.position()), "; sizes ", to_string(shape), " of ",
                name(dtype_of<T>()), " need ", count * element, " bytes from offset ", start, '.');
    done = room;
  }
  big_endian_to_native(std::span<T>(values.mutable_data<T>(where), static_cast<std::size_t>(count)));
  return values;
}

Tensor read_elements(IdxFile& file, const Header& header, Where where) {
  switch (header.dtype) {
    case DType::int32: return read_elements<std::int32_t>(file, header.shape, where);
    case DType::float32: return read_elements<float>(file, header.shape, where);
    case DType::float64: return read_elements<double>(file, header.shape, where);
    default: return read_elements<std::uint8_t>(file, header.shape, where);
  }
}

}  // namespace

Tensor read_idx(const std::string& path, Where where) {
  IdxFile file(path, where);
  const Header header = read_header(file, where);
  Tensor values = read_elements(file, header, where);
  const std::int64_t end = file.position();
  unsigned char extra;
  if (file.read(&extra, 1) > 0)  // also checks the checksum at the end of a gzip stream
    file.fail("more bytes follow the last element at ", file.place(end), "; the file must end there.");
  return values;
}

}  // namespace capstan::io
