// Pictures: what other software wrote reads as it sees it, what we write reads as it was, and what is passed over.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <capstan/capstan.hpp>

#include "tests/catch.hpp"
#include "tests/files.hpp"
#include "tests/image_parts.hpp"
#include "tests/support.hpp"

namespace cs = capstan;
using namespace tests;

namespace {

std::vector<double> expected_pixels(const PictureRow& row) {
  const Bytes bytes = from_hex(row.pixels);
  if (row.bits == 8) return {bytes.begin(), bytes.end()};
  std::vector<double> pixels;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) pixels.push_back(256.0 * bytes[i] + bytes[i + 1]);
  return pixels;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return kInfinity;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(a[i] - b[i]));
  return largest;
}

cs::Tensor decoded(const Bytes& file, std::int64_t channels = 0) {
  return cs::io::decode_image(file, {.channels = channels});
}

/// uint8 values that no filter foresees.
cs::Tensor noise(const cs::Shape& shape) {
  std::vector<std::uint8_t> numbers(static_cast<std::size_t>(shape.numel()));
  std::uint32_t state = 1;
  for (std::uint8_t& number : numbers) {
    state = state * 1664525u + 1013904223u;
    number = static_cast<std::uint8_t>(state >> 24);
  }
  return cs::from_vector(numbers, shape);
}

/// What ITU-R BT.601 gives for the first three planes: 0.299, 0.587 and 0.114, rounded.
std::vector<double> grey_of(const std::vector<double>& pixels, std::size_t plane) {
  std::vector<double> grey;
  for (std::size_t i = 0; i < plane; ++i)
    grey.push_back(std::floor(0.299 * pixels[i] + 0.587 * pixels[plane + i] + 0.114 * pixels[2 * plane + i] + 0.5));
  return grey;
}

/// The pixels in another number of channels, of 8 bits.
std::vector<double> converted(const std::vector<double>& pixels, int from, int to) {
  const std::size_t plane = pixels.size() / static_cast<std::size_t>(from);
  const auto copied = [&](int channel) {
    const auto first = pixels.begin() + static_cast<std::ptrdiff_t>(plane) * channel;
    return std::vector<double>(first, first + static_cast<std::ptrdiff_t>(plane));
  };
  std::vector<double> result;
  const auto add = [&](const std::vector<double>& more) { result.insert(result.end(), more.begin(), more.end()); };
  if (to < 3) add(from < 3 ? copied(0) : grey_of(pixels, plane));
  else
    for (int channel = 0; channel < 3; ++channel) add(copied(from < 3 ? 0 : channel));
  if (to % 2 == 0) add(from % 2 == 0 ? copied(from - 1) : std::vector<double>(plane, 255));
  return result;
}

}  // namespace

TEST_CASE("pictures that other software made have the pixels that it sees in them", "[io][image][host]") {
  const TemporaryFolder folder;
  Bytes file;
  for (const PictureRow& row : picture_rows) {
    if (row.file != nullptr) file = from_hex(row.file);
    INFO(row.name << ", channels " << row.wanted);
    if (!build_reads(file)) continue;
    const cs::Tensor pixels = decoded(file, row.wanted);
    CHECK(pixels.shape() == cs::Shape{row.channels, row.height, row.width});
    CHECK(pixels.dtype() == (row.bits == 16 ? cs::DType::int32 : cs::DType::uint8));
    CHECK(largest_difference(values(pixels), expected_pixels(row)) <= (is_jpeg(file) ? tolerance::jpeg_levels : 0));
    CHECK(same(cs::io::read_image(folder.write("picture", file), {.channels = row.wanted}), pixels));
  }
}

TEST_CASE("channels become others by dropping, repeating, weighing and opaque alpha", "[io][image][host]") {
  for (const char* name : {"grey8", "grey8_alpha", "rgb8", "rgba8", "palette2", "palette4_alpha", "jpeg_grey"}) {
    const Bytes file = picture_file(name);
    if (!build_reads(file)) continue;
    const cs::Tensor pixels = decoded(file);
    for (int channels = 1; channels <= 4; ++channels) {
      INFO(name << " as " << channels);
      const int own = static_cast<int>(pixels.size(0));
      // Ours rounds the weights to 16 bits: a half may fall to the other side.
      const double allowed = own >= 3 && channels < 3 ? 1 : 0;
      CHECK(largest_difference(values(decoded(file, channels)), converted(values(pixels), own, channels)) <= allowed);
    }
  }
}

TEST_CASE("a JPEG of colours is grey by its Y, and CMYK becomes whatever is asked for", "[io][image][host]") {
  const Bytes colours = picture_file("jpeg_420"), cmyk = picture_file("jpeg_cmyk");
  if (!build_reads(colours)) return;
  const cs::Tensor grey = decoded(colours, 1), both = decoded(colours, 2);
  CHECK(largest_difference(values(both), converted(values(grey), 1, 2)) == 0);
  const std::vector<double> rgb = values(decoded(cmyk, 3));
  for (const int channels : {1, 2, 4})
    CHECK(largest_difference(values(decoded(cmyk, channels)), converted(rgb, 3, channels)) <= 1);
}

TEST_CASE("a picture that is written as PNG reads as it was", "[io][image][host]") {
  if (!build_reads(picture_file("grey8"))) return;
  for (const cs::Shape& shape : {cs::Shape{1, 1, 1}, cs::Shape{1, 7, 5}, cs::Shape{2, 3, 8}, cs::Shape{3, 150, 211},
                                 cs::Shape{4, 1, 70000}, cs::Shape{3, 70000, 1}}) {
    const cs::Tensor image = noise(shape);
    const std::string file = cs::io::encode_png(image);
    CHECK(same(decoded(bytes_of(file)), image));
  }
}

TEST_CASE("views are written as PNG in the order of their rows", "[io][image][host]") {
  if (!build_reads(picture_file("grey8"))) return;
  const cs::Tensor image = noise({3, 6, 8});
  const cs::Tensor part = image.index({cs::all, cs::range(4, 0, -2), cs::range(1, 7)});
  CHECK(same(decoded(bytes_of(cs::io::encode_png(part))), part.copy()));
  const cs::Tensor turned = cs::transpose(image, 0, 2).index({cs::range(2, 6)});  // four channels of [8, 6, 3]
  CHECK(same(decoded(bytes_of(cs::io::encode_png(turned))), turned.copy()));
}

TEST_CASE("write_png writes what encode_png makes, and leaves the old file if it cannot", "[io][image][host]") {
  if (!build_reads(picture_file("grey8"))) return;
  const TemporaryFolder folder;
  const cs::Tensor image = noise({3, 9, 4});
  const std::string path = folder.write_text("picture.png", "what was there");
  CHECK_THROWS_AS(cs::io::write_png(path, cs::zeros({3, 9, 4})), cs::DTypeError);
  CHECK(file_bytes(path) == bytes_of("what was there"));
  cs::io::write_png(path, image);
  CHECK(file_bytes(path) == bytes_of(cs::io::encode_png(image)));
  CHECK(same(cs::io::read_image(path), image));
  CHECK_THROWS_AS(cs::io::write_png(folder.path("no/such/folder.png"), image), cs::IoError);
}

TEST_CASE("a PNG may come in IDATs of one byte, and of none", "[io][image][host]") {
  const Bytes file = picture_file("grey8");
  if (!build_reads(file)) return;
  Bytes pieces = png_chunk("IDAT", {});
  for (std::size_t i = 41; i < 92; ++i) pieces = joined(pieces, png_chunk("IDAT", {file[i]}));  // 51 bytes from 41
  pieces = joined(pieces, png_chunk("IDAT", {}));
  CHECK(same(decoded(with_bytes(without_bytes(file, 33, 63), 33, pieces)), decoded(file)));
}

TEST_CASE("a PNG is read that is large, interlaced and in two IDATs", "[io][image][host]") {
  if (!build_reads(picture_file("grey8"))) return;
  Bytes rows;  // of the seven passes over 6000 x 6000 bits, all of them 1
  for (const auto& [width, height] : std::vector<std::pair<std::size_t, int>>{
           {750, 750}, {750, 750}, {1500, 750}, {1500, 1500}, {3000, 1500}, {3000, 3000}, {6000, 3000}}) {
    Bytes row(1 + (width + 7) / 8, 0xFF);
    row[0] = 0;  // no filter
    for (int y = 0; y < height; ++y) rows.insert(rows.end(), row.begin(), row.end());
  }
  const Bytes packed = zlib_stream(rows), first = first_bytes(packed, packed.size() / 2);
  const Bytes rest(packed.begin() + static_cast<std::ptrdiff_t>(first.size()), packed.end());
  const cs::Tensor pixels = decoded(png_file(
      {png_header(6000, 6000, 1, 0, 1), png_chunk("IDAT", first), png_chunk("IDAT", rest), png_chunk("IEND", {})}));
  REQUIRE(pixels.shape() == cs::Shape{1, 6000, 6000});
  const std::vector<std::uint8_t> numbers = pixels.to_vector<std::uint8_t>();
  CHECK(std::count(numbers.begin(), numbers.end(), 255) == 36000000);
}

TEST_CASE("of an animated PNG the first picture is read", "[io][image][host]") {
  const Bytes file = picture_file("grey8");
  if (!build_reads(file)) return;
  Bytes frame;  // number, sizes, place, delay 1/10, dispose, blend
  for (const std::uint32_t value : {0u, 5u, 7u, 0u, 0u}) append_big(frame, value, 4);
  frame = joined(frame, {0, 1, 0, 10, 0, 0});
  Bytes second = frame, data;
  second[3] = 1;
  append_big(data, 2, 4);
  data = joined(data, zlib_stream(Bytes(6 * 7)));
  const Bytes before = joined(png_chunk("acTL", {0, 0, 0, 2, 0, 0, 0, 0}), png_chunk("fcTL", frame));
  const Bytes after = joined(png_chunk("fcTL", second), png_chunk("fdAT", data));
  CHECK(same(decoded(with_bytes(with_bytes(file, 96, after), 33, before)), decoded(file)));  // IEND at 96, IDAT at 33
}

TEST_CASE("texts and profiles that would unpack to much more are passed over", "[io][image][host]") {
  const Bytes file = picture_file("grey8");
  if (!build_reads(file)) return;
  const Bytes bomb = zlib_stream(Bytes(std::size_t{1} << 22, 'x'));
  const Bytes chunks = joined(
      png_chunk("zTXt", joined({'k', 0, 0}, bomb)),
      joined(png_chunk("iCCP", joined({'p', 0, 0}, bomb)), png_chunk("iTXt", joined({'k', 0, 1, 0, 0, 0}, bomb))));
  const cs::Tensor expected = decoded(file);
  cs::Tensor pixels;
  const std::int64_t peak = peak_bytes([&] { pixels = decoded(with_bytes(file, 33, chunks)); });
  CHECK(peak < std::int64_t{1} << 20);
  CHECK(same(pixels, expected));
}

TEST_CASE("what a PNG says beside its pixels may be broken", "[io][image][host]") {
  const Bytes file = picture_file("rgb8");
  if (!build_reads(file)) return;
  for (const char* type : {"gAMA", "cHRM", "sRGB", "iCCP", "bKGD", "hIST", "tIME", "eXIf", "sPLT", "abCd"}) {
    INFO(type);
    CHECK(same(decoded(with_bytes(file, 33, png_chunk(type, {1, 2, 3}))), decoded(file)));
  }
}

TEST_CASE("what follows a picture is passed over", "[io][image][host]") {
  for (const char* name : {"rgb8", "jpeg_420", "jpeg_420_progressive"}) {
    const Bytes file = picture_file(name);
    if (!build_reads(file)) continue;
    CHECK(same(decoded(joined(file, bytes_of("and more"))), decoded(file)));
  }
}

TEST_CASE("the orientation in EXIF does not turn a JPEG", "[io][image][host]") {
  const Bytes file = picture_file("jpeg_420");
  if (!build_reads(file)) return;
  // Big-endian TIFF with one entry: tag 0x0112, one SHORT, 6 (turned by 90 degrees).
  Bytes exif = joined(bytes_of("Exif"), {0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1});
  exif = joined(exif, {0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0});
  CHECK(same(decoded(with_bytes(file, 20, jpeg_segment(0xE1, exif))), decoded(file)));  // behind APP0
}

TEST_CASE("a JPEG with bytes between its segments, or of an odd version of JFIF, is read", "[io][image][host]") {
  const Bytes file = picture_file("jpeg_420");
  if (!build_reads(file)) return;
  const cs::Tensor expected = decoded(file);
  CHECK(same(decoded(with_bytes(file, jpeg_place(file, 0xC0), {0, 1, 2})), expected));
  CHECK(same(decoded(with_bytes(file, jpeg_place(file, 0xC0), {0xFF, 0xFF})), expected));  // the standard's own filling
  CHECK(same(decoded(with_byte(file, jpeg_place(file, 0xE0) + 9, 9)), expected));
}

TEST_CASE("a JPEG may come in one scan for each component, and in a hundred of them", "[io][image][host]") {
  Bytes file = joined(grey_start(), grey_frame(0xC0, 8, 8, 3));
  for (const unsigned char component : {1, 2, 3}) file = joined(file, grey_scan({component}, 0, 63, 0, {0x3F}));
  file = joined(file, jpeg_end());
  if (!build_reads(file)) return;
  CHECK(values(decoded(file)) == std::vector<double>(3 * 64, 128));

  file = joined(grey_start(), grey_frame(0xC2, 8, 8, 1));
  file = joined(file, grey_scan({1}, 0, 0, 0, {0x7F}));
  for (unsigned char i = 1; i <= 63; ++i) file = joined(file, grey_scan({1}, i, i, 0x01, {0x7F}));
  for (unsigned char i = 1; i <= 36; ++i) file = joined(file, grey_scan({1}, i, i, 0x10, {0x7F}));
  CHECK(values(decoded(joined(file, jpeg_end()))) == std::vector<double>(64, 128));
}

TEST_CASE("images in TensorBoard's files have the pixels that Pillow sees in them", "[io][image][host]") {
  const std::string path = shared_data("tfevents/tf1_scalar_histogram_image.out.tfevents");
  if (path.empty()) return;
  const Bytes events = file_bytes(path);
  const Bytes file(events.begin() + 1372, events.end());  // where the PNG begins, by a search for its signature
  if (!build_reads(file)) return;
  const cs::Tensor pixels = decoded(file);
  REQUIRE(pixels.shape() == cs::Shape{4, 480, 640});
  const std::vector<double> sums = {72857809, 72280524, 76920670, 78336000};
  for (int channel = 0; channel < 4; ++channel) {
    double sum = 0;
    for (const double value : values(pixels[channel])) sum += value;
    CHECK(sum == sums[static_cast<std::size_t>(channel)]);
  }
  CHECK(pixels.at<std::uint8_t>(2, 240, 320) == 255);
  CHECK(pixels.at<std::uint8_t>(0, 240, 320) == 0);
}

TEST_CASE("images that PyTorch logged have the sums that Python finds in them", "[io][image][host]") {
  const std::string path = shared_data("tfevents/pytorch_images.out.tfevents");
  if (path.empty() || !build_reads(picture_file("grey8"))) return;
  std::vector<double> sums;  // of one channel; the three are the same
  for (const std::string& event : cs::io::read_tfrecords(path)) {
    const std::size_t begin = event.find("\x89PNG");
    if (begin == std::string::npos) continue;
    const cs::Tensor pixels = decoded(bytes_of(std::string_view(event).substr(begin)));
    REQUIRE(pixels.shape() == cs::Shape{3, 28, 28});
    CHECK(same(pixels[0], pixels[1]));
    CHECK(same(pixels[0], pixels[2]));
    const std::vector<double> numbers = values(pixels[0]);
    sums.push_back(std::accumulate(numbers.begin(), numbers.end(), 0.0));
  }
  CHECK(sums == std::vector<double>{27525, 31095, 19443, 17135, 27525, 31095, 19443, 17135});
}

TEST_CASE("images of wrong shape, type or channels are refused by name", "[io][image][errors][host]") {
  if (!build_reads(picture_file("grey8"))) return;
  const cs::Tensor floats = cs::zeros({3, 2, 2});
  const cs::Tensor flat = noise({2, 2}), five = noise({5, 2, 2}), none = noise({3, 0, 2});
  check_errors(
      {
          {__LINE__, message_of<cs::Error>, [] { cs::io::read_image("picture.png", {.channels = 5}); },
           "read_image: channels is 5; it must be 1 (grey), 2 (grey and alpha), 3 (RGB), 4 (RGBA) or 0 (as in the "
           "file)."},
          {__LINE__, message_of<cs::Error>, [] { cs::io::decode_image({}, {.channels = -1}); },
           "decode_image: channels is -1; it must be 1 (grey), 2 (grey and alpha), 3 (RGB), 4 (RGBA) or 0 (as in the "
           "file)."},
          {__LINE__, message_of<cs::Error>, [] { cs::io::encode_png(cs::Tensor{}); },
           "encode_png: the tensor is undefined; give it a value first."},
          {__LINE__, message_of<cs::DTypeError>, [&] { cs::io::encode_png(floats); },
           "encode_png: the image is float32; it must be uint8."},
          {__LINE__, message_of<cs::ShapeError>, [&] { cs::io::encode_png(flat); },
           "encode_png: the image is [2, 2]; it must be [channels, height, width] with 1 to 4 channels."},
          {__LINE__, message_of<cs::ShapeError>, [&] { cs::io::write_png("picture.png", five); },
           "write_png: the image is [5, 2, 2]; it must be [channels, height, width] with 1 to 4 channels."},
          {__LINE__, message_of<cs::ShapeError>, [&] { cs::io::encode_png(none); },
           "encode_png: the image is [3, 0, 2]; height and width must be 1 to 2147483647."},
      },
      "image_test.cpp");
}
