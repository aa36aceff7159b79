// Writing PNG, by libpng: 8 bits, not interlaced.
#include "io/image_formats.hpp"

#if CAPSTAN_HAS_PNG
#include <png.h>

#include <array>
#include <csetjmp>
#include <cstdio>
#include <vector>

namespace capstan::io {
namespace {

/// As for reading: whoever calls libpng has no variables with destructors, because it leaves by longjmp.
struct Job {
  Job() = default;
  ~Job() { png_destroy_write_struct(&png, &info); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  std::string out;
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::jmp_buf escape;
  std::array<char, 160> message{};

  const std::uint8_t* planes = nullptr;  // [channels, height, width]
  std::int64_t channels = 0, height = 0, width = 0;
  unsigned char* line = nullptr;  // interleaved
};

[[noreturn]] void give_up(Job& job, const char* reason) {
  std::snprintf(job.message.data(), job.message.size(), "%s", reason);
  std::longjmp(job.escape, 1);
}

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  give_up(*static_cast<Job*>(png_get_error_ptr(png)), message);
}

void on_warning(png_structp, png_const_charp) {}

bool append(std::string& to, const char* bytes, std::size_t count) noexcept {
  try {
    to.append(bytes, count);
    return true;
  } catch (...) { return false; }
}

void on_write(png_structp png, png_bytep bytes, std::size_t count) {
  auto& job = *static_cast<Job*>(png_get_io_ptr(png));
  if (!append(job.out, reinterpret_cast<const char*>(bytes), count)) png_error(png, "no memory is left");
}

void on_flush(png_structp) {}

/// False if libpng gave up.
bool completes(Job& job, void (*step)(Job&)) {
  if (setjmp(job.escape) != 0) return false;
  step(job);
  return true;
}

void start(Job& job) {
  constexpr std::array<int, 5> colours = {0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                          PNG_COLOR_TYPE_RGB_ALPHA};
  job.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &job, &on_error, &on_warning);
  if (job.png == nullptr) give_up(job, "libpng does not start");
  job.info = png_create_info_struct(job.png);
  if (job.info == nullptr) png_error(job.png, "no memory is left");
  png_set_write_fn(job.png, &job, &on_write, &on_flush);
  png_set_user_limits(job.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_IHDR(job.png, job.info, static_cast<png_uint_32>(job.width), static_cast<png_uint_32>(job.height), 8,
               colours[static_cast<std::size_t>(job.channels)], PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_write_info(job.png, job.info);
}

__attribute__((noinline)) void write_all(Job& job) {
  start(job);
  const std::int64_t plane = job.height * job.width;
  for (std::int64_t y = 0; y < job.height; ++y) {
    for (std::int64_t channel = 0; channel < job.channels; ++channel) {
      const std::uint8_t* row = job.planes + channel * plane + y * job.width;
      for (std::int64_t x = 0; x < job.width; ++x) job.line[x * job.channels + channel] = row[x];
    }
    png_write_row(job.png, job.line);
  }
  png_write_end(job.png, job.info);
}

void check(const char* op, const Tensor& image, Where where) {
  if (!image.defined()) base::fail<Error>(where, op, ": the tensor is undefined; give it a value first.");
  if (image.dtype(where) != DType::uint8)
    base::fail<DTypeError>(where, op, ": the image is ", image.dtype(where), "; it must be uint8.");
  const Shape& shape = image.shape(where);
  if (shape.rank() != 3 || shape[0] < 1 || shape[0] > 4)
    base::fail<ShapeError>(where, op, ": the image is ", shape,
                           "; it must be [channels, height, width] with 1 to 4 channels.");
  if (std::min(shape[1], shape[2]) < 1 || std::max(shape[1], shape[2]) > std::int64_t{PNG_UINT_31_MAX})
    base::fail<ShapeError>(where, op, ": the image is ", shape, "; height and width must be 1 to 2147483647.");
}

}  // namespace

std::string encode_png(const char* op, const Tensor& image, Where where) {
  check(op, image, where);
  const Tensor pixels = image.to(cpu(), where).contiguous(where);
  Job job;
  job.planes = pixels.data<std::uint8_t>(where);
  job.channels = pixels.size(0, where);
  job.height = pixels.size(1, where);
  job.width = pixels.size(2, where);
  std::vector<unsigned char> line(static_cast<std::size_t>(job.width * job.channels));
  job.line = line.data();
  if (!completes(job, &write_all)) base::fail<BackendError>(where, op, ": libpng gave up: ", job.message.data(), ".");
  return std::move(job.out);
}

}  // namespace capstan::io

#else

namespace capstan::io {

std::string encode_png(const char* op, const Tensor& /*image*/, Where where) {
  base::fail<MissingLibraryError>(where, op,
                                  ": this build has no libpng; install libpng-dev (Debian, Ubuntu) and build again.");
}

}  // namespace capstan::io

#endif
