// Reading PNG. The chunks are checked here, so that errors have a place and sizes are held against the bytes there are;
// libpng then unpacks the pixels. It skips all chunks that are not about them.
#include "io/image_formats.hpp"

#if CAPSTAN_HAS_PNG
#include <png.h>
#include <zlib.h>

#include <array>
#include <bit>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>

#include <capstan/create.hpp>

namespace capstan::io {
namespace {

constexpr std::int64_t kFirstChunk = 8;             // behind the signature
constexpr std::int64_t kFrame = 12;                 // length, type and checksum of a chunk
constexpr std::int64_t kLargest = PNG_UINT_31_MAX;  // of sizes and of lengths
constexpr std::int64_t kMostByDeflate = 1032;       // bytes from one byte
constexpr std::int64_t kLargePicture = 1 << 26;     // bytes of rows and pixels
constexpr std::size_t kPaletteEntries = 256;
constexpr std::array<int, 7> kSamples = {1, 0, 3, 1, 2, 0, 4};  // of a pixel, by colour type

struct Header {
  std::int64_t width, height;
  int depth, colour;  // bits of a sample, and PNG's colour type
  bool interlaced;
};

std::int64_t big_endian(const std::uint8_t* bytes) {
  std::int64_t value = 0;
  for (int i = 0; i < 4; ++i) value = (value << 8) | bytes[i];
  return value;
}

/// Four letters; what is no letter becomes '?'.
std::string chunk_type(const std::uint8_t* bytes) {
  std::string type(4, '?');
  for (std::size_t i = 0; i < 4; ++i) {
    const bool letter = (bytes[i] >= 'A' && bytes[i] <= 'Z') || (bytes[i] >= 'a' && bytes[i] <= 'z');
    if (letter) type[i] = static_cast<char>(bytes[i]);
  }
  return type;
}

/// All chunks up to IEND must be whole, with the right checksums. How many bytes are in IDATs.
std::int64_t check_chunks(const ImageBytes& image) {
  const auto size = static_cast<std::int64_t>(image.bytes.size());
  std::int64_t packed = 0;
  for (std::int64_t at = kFirstChunk;;) {
    if (size - at < kFrame)
      image.fail("the bytes end at offset ", size, ", within the chunk at offset ", at, "; the last must be IEND.");
    const std::uint8_t* chunk = image.bytes.data() + at;
    const std::int64_t length = big_endian(chunk);
    const std::string type = chunk_type(chunk + 4);
    if (length > kLargest || length > size - at - kFrame)
      image.fail("chunk ", type, " at offset ", at, " declares ", length, " bytes, but the file ends at offset ", size,
                 "; chunks must be whole, and shorter than 2^31 bytes.");
    const auto covered = static_cast<uInt>(length + 4);  // type and data
    const auto computed = static_cast<std::int64_t>(crc32(0, chunk + 4, covered));
    if (const std::int64_t stored = big_endian(chunk + 8 + length); stored != computed)
      image.fail("chunk ", type, " at offset ", at, " has the wrong checksum: ", stored, " stored, ", computed,
                 " computed; they must be equal.");
    if (type == "tRNS" && packed > 0)
      image.fail("chunk tRNS at offset ", at, " is behind the pixels; it must be before them.");
    if (type == "IDAT") packed += length;
    if (type == "IEND") return packed;
    at += length + kFrame;
  }
}

bool depth_fits(int depth, int colour) {
  switch (colour) {
    case PNG_COLOR_TYPE_GRAY: return depth == 1 || depth == 2 || depth == 4 || depth == 8 || depth == 16;
    case PNG_COLOR_TYPE_PALETTE: return depth == 1 || depth == 2 || depth == 4 || depth == 8;
    case PNG_COLOR_TYPE_RGB:
    case PNG_COLOR_TYPE_GRAY_ALPHA:
    case PNG_COLOR_TYPE_RGB_ALPHA: return depth == 8 || depth == 16;
    default: return false;
  }
}

/// Of bytes whose chunks are whole.
Header read_header(const ImageBytes& image) {
  const std::uint8_t* chunk = image.bytes.data() + kFirstChunk;
  if (chunk_type(chunk + 4) != "IHDR" || big_endian(chunk) != 13)
    image.fail("the chunk at offset 8 is ", chunk_type(chunk + 4), " of ", big_endian(chunk),
               " bytes; it must be IHDR of 13.");
  const std::uint8_t* fields = chunk + 8;
  const std::int64_t width = big_endian(fields), height = big_endian(fields + 4);
  if (std::min(width, height) < 1 || std::max(width, height) > kLargest)
    image.fail("width and height at offset 16 are ", width, " and ", height, "; they must be 1 to 2147483647.");
  const int depth = fields[8], colour = fields[9], interlacing = fields[12];
  if (!depth_fits(depth, colour))
    image.fail("a depth of ", depth, " bits with colour type ", colour,
               " at offset 24; it must be 1, 2, 4, 8 or 16 with 0, 8 or 16 with 2, 4 and 6, 1, 2, 4 or 8 with 3.");
  if (fields[10] != 0 || fields[11] != 0 || interlacing > 1)
    image.fail("the methods of compression, filter and interlacing at offset 26 are ", int{fields[10]}, ", ",
               int{fields[11]}, " and ", interlacing, "; they must be 0, 0 and 0 or 1.");
  return {width, height, depth, colour, interlacing == 1};
}

int samples_of(const Header& header) { return kSamples[static_cast<std::size_t>(header.colour)]; }

/// Throws unless the compressed bytes can hold all rows. How many bytes these have.
std::int64_t check_sizes(const ImageBytes& image, const Header& header, std::int64_t packed) {
  struct Pass {
    int x, y, step_x, step_y;
  };
  static constexpr std::array<Pass, 1> plain = {{{0, 0, 1, 1}}};
  static constexpr std::array<Pass, 7> adam7 = {
      {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}}};
  const int bits = samples_of(header) * header.depth;
  const std::int64_t most = packed * kMostByDeflate;
  std::int64_t room = most;
  for (const Pass& pass : header.interlaced ? std::span<const Pass>(adam7) : std::span<const Pass>(plain)) {
    const std::int64_t width = (header.width - pass.x + pass.step_x - 1) / pass.step_x;
    const std::int64_t height = (header.height - pass.y + pass.step_y - 1) / pass.step_y;
    if (width <= 0 || height <= 0) continue;
    const std::int64_t row = (width * bits + 7) / 8 + 1;  // its filter comes first
    if (height > room / row)
      image.fail("width and height at offset 16 are ", header.width, " and ", header.height,
                 ", but the pixels are packed into ", packed, " bytes; one holds at most ", kMostByDeflate, ".");
    room -= height * row;
  }
  return most - room;
}

/// Unpacks IDATs, only to count: libpng takes memory for a whole picture before it sees that there is none.
class Counter {
 public:
  explicit Counter(const ImageBytes& image) : image_(image) {
    if (inflateInit2(&stream_, MAX_WBITS) != Z_OK) fail_for_memory();
  }
  ~Counter() { inflateEnd(&stream_); }
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;

  std::int64_t count() const noexcept { return count_; }
  /// Whether more can follow.
  bool take(const std::uint8_t* data, std::int64_t length, std::int64_t enough) {
    stream_.next_in = const_cast<Bytef*>(data);  // which zlib only reads
    stream_.avail_in = static_cast<uInt>(length);
    int result = Z_OK;
    while (result == Z_OK && count_ < enough) {
      stream_.next_out = buffer_.data();
      stream_.avail_out = static_cast<uInt>(buffer_.size());
      result = inflate(&stream_, Z_NO_FLUSH);
      count_ += static_cast<std::int64_t>(buffer_.size() - stream_.avail_out);
    }
    if (result == Z_MEM_ERROR) fail_for_memory();
    return result == Z_BUF_ERROR && count_ < enough;  // that all was taken
  }

 private:
  [[noreturn]] void fail_for_memory() const {
    base::fail<OutOfMemoryError>(image_.where, image_.start, ": no memory is left for unpacking PNG.");
  }

  const ImageBytes& image_;
  z_stream stream_{};
  std::array<unsigned char, 1 << 14> buffer_;
  std::int64_t count_ = 0;
};

/// Throws unless the chunks, which are whole, unpack to so many bytes of rows.
void check_rows(const ImageBytes& image, const Header& header, std::int64_t rows) {
  Counter counter(image);
  bool more = true;
  for (std::int64_t at = kFirstChunk; more;) {
    const std::uint8_t* chunk = image.bytes.data() + at;
    const std::int64_t length = big_endian(chunk);
    const std::string type = chunk_type(chunk + 4);
    if (type == "IDAT") more = counter.take(chunk + 8, length, rows);
    if (type == "IEND") more = false;
    at += length + kFrame;
  }
  if (counter.count() < rows)
    image.fail("width and height at offset 16 are ", header.width, " and ", header.height,
               ", but the pixels unpack to ", counter.count(), " bytes; they must be ", rows, ".");
}

/// About as many bytes as the picture takes, in so many channels or its own. Sizes are held against the bytes already,
/// so that nothing here wraps.
std::int64_t estimated_bytes(const Header& header, int channels, std::int64_t rows) {
  const bool wide = header.depth == 16;
  const int own = header.colour == PNG_COLOR_TYPE_PALETTE ? 4 : samples_of(header);
  const int in_tensor = (channels == 0 ? own : channels) * (wide ? 4 : 1);
  const int in_lines = header.interlaced ? own * (wide ? 2 : 1) : 0;
  return header.width * header.height * (in_tensor + in_lines) + rows;
}

/// What libpng works on. It leaves by longjmp, which passes over destructors: functions that call it have no variables
/// with any, and this has all the others.
struct Job {
  Job(const ImageBytes& image, const Header& head) : bytes(image.bytes), header(head) {}
  ~Job() { png_destroy_read_struct(&png, &info, nullptr); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  bool indexed() const { return header.colour == PNG_COLOR_TYPE_PALETTE; }

  std::span<const std::uint8_t> bytes;
  Header header;
  std::size_t position = 0;
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::jmp_buf escape;
  std::array<char, 160> message{};

  int channels = 0, passes = 0;
  std::int64_t line_bytes = 0;
  std::array<std::uint8_t, 4 * kPaletteEntries> palette{};  // of as many channels
  int palette_size = 0;

  unsigned char* lines = nullptr;    // one, or all of them if interlaced
  unsigned char* colours = nullptr;  // room for one line through the palette
  std::uint8_t* bytes_out = nullptr;
  std::int32_t* wide_out = nullptr;  // one of the two
  int wanted = 0;
};

[[noreturn]] void give_up(Job& job, const char* reason) {
  std::snprintf(job.message.data(), job.message.size(), "%s", reason);
  std::longjmp(job.escape, 1);
}

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  give_up(*static_cast<Job*>(png_get_error_ptr(png)), message);
}

void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep to, std::size_t count) {
  auto& job = *static_cast<Job*>(png_get_io_ptr(png));
  if (count > job.bytes.size() - job.position) png_error(png, "the bytes end too early");
  std::memcpy(to, job.bytes.data() + job.position, count);
  job.position += count;
}

/// False if libpng gave up.
bool completes(Job& job, void (*step)(Job&)) {
  if (setjmp(job.escape) != 0) return false;
  step(job);
  return true;
}

void start_reading(Job& job) {
  job.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &job, &on_error, &on_warning);
  if (job.png == nullptr) give_up(job, "libpng does not start");
  job.info = png_create_info_struct(job.png);
  if (job.info == nullptr) png_error(job.png, "no memory is left");
  png_set_read_fn(job.png, &job, &on_read);
  // What could be too much was held against the bytes, and the checksums are right. No ancillary chunk but tRNS is
  // unpacked or kept, and no error is forgiven.
  png_set_user_limits(job.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_chunk_malloc_max(job.png, job.bytes.size());
  png_set_crc_action(job.png, PNG_CRC_QUIET_USE, PNG_CRC_QUIET_USE);
  png_set_keep_unknown_chunks(job.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_set_benign_errors(job.png, 0);
  png_read_info(job.png, job.info);
}

void take_palette(Job& job) {
  png_colorp colours = nullptr;
  png_bytep alphas = nullptr;
  int alpha_count = 0;
  png_get_PLTE(job.png, job.info, &colours, &job.palette_size);
  job.channels = png_get_tRNS(job.png, job.info, &alphas, &alpha_count, nullptr) != 0 ? 4 : 3;
  std::uint8_t* out = job.palette.data();
  for (int i = 0; i < job.palette_size; ++i) {
    *out++ = colours[i].red;
    *out++ = colours[i].green;
    *out++ = colours[i].blue;
    if (job.channels == 4) *out++ = i < alpha_count ? alphas[i] : std::uint8_t{255};
  }
}

/// To whole bytes, or to 16 bits as the processor has them; the palette is ours, since libpng lets wrong indices pass.
void choose_form(Job& job) {
  if (job.indexed()) {
    take_palette(job);
    png_set_packing(job.png);
  } else {
    png_set_expand(job.png);
  }
  if (job.header.depth == 16 && std::endian::native == std::endian::little) png_set_swap(job.png);
  job.passes = png_set_interlace_handling(job.png);
  png_read_update_info(job.png, job.info);
  if (!job.indexed()) job.channels = png_get_channels(job.png, job.info);
  job.line_bytes = static_cast<std::int64_t>(png_get_rowbytes(job.png, job.info));
}

__attribute__((noinline)) void start(Job& job) {
  start_reading(job);
  choose_form(job);
}

void look_up(Job& job, const unsigned char* line, std::int64_t y) {
  unsigned char* out = job.colours;
  for (std::int64_t x = 0; x < job.header.width; ++x, out += job.channels) {
    if (line[x] >= job.palette_size) {
      std::array<char, 120> reason;
      std::snprintf(reason.data(), reason.size(), "colour %d of a palette of %d in row %lld, column %lld", int{line[x]},
                    job.palette_size, static_cast<long long>(y), static_cast<long long>(x));
      give_up(job, reason.data());
    }
    const std::uint8_t* colour = job.palette.data() + line[x] * job.channels;
    for (int channel = 0; channel < job.channels; ++channel) out[channel] = colour[channel];
  }
}

void put_line(Job& job, const unsigned char* line, std::int64_t y) {
  const std::int64_t width = job.header.width, plane = width * job.header.height, at = y * width;
  if (job.wide_out != nullptr) {
    const auto* row = reinterpret_cast<const std::uint16_t*>(line);
    put_row(row, job.channels, job.wide_out + at, job.wanted, plane, width);
    return;
  }
  if (job.indexed()) {
    look_up(job, line, y);
    line = job.colours;
  }
  put_row(line, job.channels, job.bytes_out + at, job.wanted, plane, width);
}

__attribute__((noinline)) void read_rows(Job& job) {
  for (int pass = 0; pass < job.passes; ++pass) {
    for (std::int64_t y = 0; y < job.header.height; ++y) {
      unsigned char* line = job.lines + (job.passes > 1 ? y * job.line_bytes : 0);
      png_read_row(job.png, line, nullptr);
      if (pass == job.passes - 1) put_line(job, line, y);
    }
  }
  png_read_end(job.png, nullptr);
}

/// Not filled with zeros: of a large picture that would take as long as the pixels do.
std::unique_ptr<unsigned char[]> room_for(const ImageBytes& image, std::int64_t bytes) {
  std::unique_ptr<unsigned char[]> room(new (std::nothrow) unsigned char[static_cast<std::size_t>(bytes)]);
  if (room == nullptr)
    base::fail<OutOfMemoryError>(image.where, image.start, ": no memory is left for ", bytes,
                                 " bytes of rows; it must hold them beside the pixels.");
  return room;
}

void run(const ImageBytes& image, Job& job, void (*step)(Job&)) {
  if (!completes(job, step))
    image.fail("the picture is damaged (", job.message.data(), ") at offset ", job.position,
               "; it must unpack without errors.");
}

}  // namespace

Tensor decode_png(const ImageBytes& image, int channels) {
  const std::int64_t packed = check_chunks(image);
  const Header header = read_header(image);
  const std::int64_t rows = check_sizes(image, header, packed);
  if (estimated_bytes(header, channels, rows) > kLargePicture) check_rows(image, header, rows);
  Job job(image, header);
  run(image, job, &start);

  job.wanted = channels == 0 ? job.channels : channels;
  const bool wide = header.depth == 16;
  const TensorOptions options{.dtype = wide ? DType::int32 : DType::uint8, .device = cpu()};
  Tensor pixels = empty(Shape({job.wanted, header.height, header.width}, image.where), options, image.where);
  const auto lines = room_for(image, job.line_bytes * (job.passes > 1 ? header.height : 1));
  const auto colours = room_for(image, job.indexed() ? header.width * job.channels : 0);
  job.lines = lines.get();
  job.colours = colours.get();
  if (wide) job.wide_out = pixels.mutable_data<std::int32_t>(image.where);
  else job.bytes_out = pixels.mutable_data<std::uint8_t>(image.where);
  run(image, job, &read_rows);
  return pixels;
}

}  // namespace capstan::io

#else

namespace capstan::io {

Tensor decode_png(const ImageBytes& image, int /*channels*/) {
  base::fail<MissingLibraryError>(image.where, image.start,
                                  ": this build has no libpng; install libpng-dev (Debian, Ubuntu) and build again.");
}

}  // namespace capstan::io

#endif
