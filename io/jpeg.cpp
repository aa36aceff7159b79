// Reading JPEG, by libjpeg. What it warns of is an error, sizes are held against the bytes there are, and every
// component must have had its scan.
#include "io/image_formats.hpp"

#if CAPSTAN_HAS_JPEG
#include <cstddef>
#include <cstdio>

#include <jpeglib.h>  // needs the two above

#include <jerror.h>  // needs the one above

#include <array>
#include <csetjmp>
#include <vector>

#include <capstan/create.hpp>

namespace capstan::io {
namespace {

constexpr int kMostScans = 100;  // of a progressive picture; each costs time for all its pixels, but hardly any bytes

/// What libjpeg works on. It leaves by longjmp, which passes over destructors: functions that call it have no variables
/// with any, and this has all the others.
struct Job {
  explicit Job(const ImageBytes& image) : bytes(image.bytes) {}
  ~Job() { jpeg_destroy_decompress(&info); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  std::span<const std::uint8_t> bytes;
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf escape;
  std::array<char, JMSG_LENGTH_MAX> message{};

  std::uint32_t scanned = 0;      // bit i: component i had a scan that begins with coefficient 0
  unsigned char* line = nullptr;  // interleaved
  std::uint8_t* planes = nullptr;
  int channels = 0, wanted = 0;
};

Job& job_of(j_common_ptr info) { return *static_cast<Job*>(info->client_data); }

[[noreturn]] void on_error(j_common_ptr info) {
  Job& job = job_of(info);
  (*info->err->format_message)(info, job.message.data());
  std::longjmp(job.escape, 1);
}

/// Negative levels are warnings. Bytes between segments and odd versions of JFIF come from cameras and old programs.
void on_message(j_common_ptr info, int level) {
  const int code = info->err->msg_code;
  if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_JFIF_MAJOR) on_error(info);
}

/// All bytes are used, and libjpeg wants more.
boolean on_end(j_decompress_ptr info) {
  info->src->bytes_in_buffer = 0;
  info->err->msg_code = JERR_INPUT_EOF;
  on_error(reinterpret_cast<j_common_ptr>(info));
}

/// Called for every row of blocks while scans are read one after another.
void on_progress(j_common_ptr common) {
  const auto* info = reinterpret_cast<j_decompress_ptr>(common);
  Job& job = job_of(common);
  if (info->input_scan_number > kMostScans) {
    std::snprintf(job.message.data(), job.message.size(), "more than %d scans", kMostScans);
    std::longjmp(job.escape, 1);
  }
  if (info->Ss != 0) return;
  for (int i = 0; i < info->comps_in_scan; ++i) job.scanned |= 1u << info->cur_comp_info[i]->component_index;
}

/// False if libjpeg gave up.
bool completes(Job& job, void (*step)(Job&)) {
  if (setjmp(job.escape) != 0) return false;
  step(job);
  return true;
}

__attribute__((noinline)) void read_header(Job& job) {
  job.info.err = jpeg_std_error(&job.errors);
  job.errors.error_exit = &on_error;
  job.errors.emit_message = &on_message;
  job.info.client_data = &job;
  jpeg_create_decompress(&job.info);
  job.progress.progress_monitor = &on_progress;
  job.info.progress = &job.progress;
  jpeg_mem_src(&job.info, job.bytes.data(), static_cast<unsigned long>(job.bytes.size()));
  job.info.src->fill_input_buffer = &on_end;
  jpeg_read_header(&job.info, TRUE);
}

/// As Pillow does it: CMYK is inverted, so that 255 is no ink.
void cmyk_to_rgb(unsigned char* line, std::int64_t width) {
  for (std::int64_t x = 0; x < width; ++x) {
    const int black = line[4 * x + 3];
    for (std::int64_t colour = 0; colour < 3; ++colour) {
      const int product = black * (255 - line[4 * x + colour]) + 128;
      line[3 * x + colour] = static_cast<unsigned char>(black - (((product >> 8) + product) >> 8));
    }
  }
}

void check_scans(Job& job) {
  for (int i = 0; i < job.info.num_components; ++i) {
    if (((job.scanned >> i) & 1u) != 0) continue;
    std::snprintf(job.message.data(), job.message.size(), "component %d has no scan", i);
    std::longjmp(job.escape, 1);
  }
}

__attribute__((noinline)) void read_rows(Job& job) {
  jpeg_start_decompress(&job.info);
  if (jpeg_has_multiple_scans(&job.info) != 0) check_scans(job);
  const std::int64_t width = job.info.output_width, height = job.info.output_height;
  while (job.info.output_scanline < job.info.output_height) {
    const std::int64_t y = job.info.output_scanline;
    JSAMPROW line = job.line;
    jpeg_read_scanlines(&job.info, &line, 1);
    if (job.info.out_color_space == JCS_CMYK) cmyk_to_rgb(job.line, width);
    put_row(job.line, job.channels, job.planes + y * width, job.wanted, width * height, width);
  }
  jpeg_finish_decompress(&job.info);
}

std::int64_t offset(const Job& job) {
  const std::size_t left = job.info.src == nullptr ? job.bytes.size() : job.info.src->bytes_in_buffer;
  return static_cast<std::int64_t>(job.bytes.size() - left);
}

void run(const ImageBytes& image, Job& job, void (*step)(Job&)) {
  if (completes(job, step)) return;
  if (job.errors.msg_code == JERR_OUT_OF_MEMORY)
    base::fail<OutOfMemoryError>(image.where, image.start, ": no memory is left for unpacking JPEG.");
  image.fail("the picture is damaged (", job.message.data(), ") at offset ", offset(job),
             "; it must unpack without errors.");
}

/// Throws unless the bytes can hold all blocks of 8 by 8 samples: each takes one bit at least, the shortest code.
void check_sizes(const ImageBytes& image, const Job& job) {
  const jpeg_decompress_struct& info = job.info;
  if (info.arith_code != 0 || info.data_precision != 8)
    image.fail("the picture before offset ", offset(job), " has ", info.data_precision, " bits",
               info.arith_code != 0 ? " and arithmetic coding" : "", "; it must have 8 and Huffman's coding.");
  std::int64_t blocks = 0;
  for (int i = 0; i < info.num_components; ++i)
    blocks += std::int64_t{info.comp_info[i].width_in_blocks} * info.comp_info[i].height_in_blocks;
  if (blocks > 8 * static_cast<std::int64_t>(image.bytes.size()))
    image.fail("width and height before offset ", offset(job), " are ", static_cast<std::int64_t>(info.image_width),
               " and ", static_cast<std::int64_t>(info.image_height), ", which is ", blocks, " blocks, but there are ",
               image.bytes.size(), " bytes; a block takes at least one bit.");
}

/// Which colours libjpeg is to make. Their number, or that of RGB where it is CMYK.
int choose_colours(const ImageBytes& image, Job& job, int channels) {
  jpeg_decompress_struct& info = job.info;
  switch (info.jpeg_color_space) {
    case JCS_GRAYSCALE: info.out_color_space = JCS_GRAYSCALE; return 1;
    case JCS_YCbCr: info.out_color_space = channels == 1 || channels == 2 ? JCS_GRAYSCALE : JCS_RGB; break;
    case JCS_RGB: info.out_color_space = JCS_RGB; break;
    case JCS_CMYK:
    case JCS_YCCK: info.out_color_space = JCS_CMYK; break;
    default:
      image.fail("the picture before offset ", offset(job), " has ", info.num_components,
                 " components of unknown colours; it must be grey, RGB, YCbCr, CMYK or YCCK.");
  }
  if (info.out_color_space == JCS_CMYK && channels == 0)
    image.fail("the picture before offset ", offset(job), " is CMYK; it must be asked for as 3 channels, RGB.");
  return info.out_color_space == JCS_GRAYSCALE ? 1 : 3;
}

}  // namespace

Tensor decode_jpeg(const ImageBytes& image, int channels) {
  Job job(image);
  run(image, job, &read_header);
  check_sizes(image, job);
  job.channels = choose_colours(image, job, channels);
  job.wanted = channels == 0 ? job.channels : channels;
  const std::int64_t width = job.info.image_width, height = job.info.image_height;
  const TensorOptions options{.dtype = DType::uint8, .device = cpu()};
  Tensor pixels = empty(Shape({job.wanted, height, width}, image.where), options, image.where);
  std::vector<unsigned char> line(static_cast<std::size_t>(4 * width));
  job.line = line.data();
  job.planes = pixels.mutable_data<std::uint8_t>(image.where);
  run(image, job, &read_rows);
  return pixels;
}

}  // namespace capstan::io

#else

namespace capstan::io {

Tensor decode_jpeg(const ImageBytes& image, int /*channels*/) {
  base::fail<MissingLibraryError>(image.where, image.start,
                                  ": this build has no libjpeg; install libjpeg-dev (Debian, Ubuntu) and build again.");
}

}  // namespace capstan::io

#endif
