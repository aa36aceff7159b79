// Broken PNGs, and whatever is no picture at all. JPEGs are in malformed_jpeg_test.cpp.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <capstan/capstan.hpp>

#include "tests/catch.hpp"
#include "tests/files.hpp"
#include "tests/image_parts.hpp"

namespace cs = capstan;
using namespace tests;

namespace {

const auto read_picture = [](const std::string& path) { cs::io::read_image(path, {.channels = 3}); };

const Bytes no_data;
const Bytes end_chunk = png_chunk("IEND", no_data);

/// Rows of 8 bits: a filter of 0 and three pixels of grey, or indices.
Bytes rows_of_three(int count) {
  Bytes rows;
  for (int y = 0; y < count; ++y) rows = joined(rows, {0, 0, 1, static_cast<unsigned char>(y % 3)});
  return rows;
}

/// Two rows of three pixels of grey, with those chunks between IHDR and IEND.
Bytes grey_with(const std::vector<Bytes>& chunks) {
  Bytes between;
  for (const Bytes& chunk : chunks) between = joined(between, chunk);
  return png_file({png_header(3, 2, 8, 0), between, end_chunk});
}

/// The same as indices of a palette.
Bytes indices_with(const std::vector<Bytes>& chunks) {
  Bytes between;
  for (const Bytes& chunk : chunks) between = joined(between, chunk);
  return png_file({png_header(3, 2, 8, 3), between, end_chunk});
}

Bytes idat(const Bytes& plain) { return png_chunk("IDAT", zlib_stream(plain)); }

/// With those values of IHDR's last three fields, and its checksum.
Bytes with_methods(unsigned char compression, unsigned char filter, unsigned char interlacing) {
  Bytes data;
  append_big(data, 3, 4);
  append_big(data, 2, 4);
  return png_file(
      {png_chunk("IHDR", joined(data, {8, 0, compression, filter, interlacing})), idat(rows_of_three(2)), end_chunk});
}

Bytes sized(std::uint32_t width, std::uint32_t height, unsigned char depth = 8, unsigned char colour = 0,
            unsigned char interlacing = 0) {
  return png_file({png_header(width, height, depth, colour, interlacing), idat(rows_of_three(2)), end_chunk});
}

}  // namespace

TEST_CASE("files that are no picture are errors", "[io][image][errors][host]") {
  const Bytes png = picture_file("grey8");
  const std::string reason = "no picture begins at offset 0; it must be a PNG";
  check_malformed(
      {
          {"an empty file", no_data, reason},
          {"a text", bytes_of("P3 1 1 255\n0 0 0\n"), reason},
          {"a GIF", bytes_of("GIF89a\x01"), reason},
          {"a PNG that went through a conversion of line ends", without_bytes(png, 4, 1), reason},
          {"a PNG that lost its highest bits", with_byte(png, 0, 0x09), reason},
          {"a gzip file of a PNG", gzip(png), reason},
          {"two bytes of a JPEG", {0xFF, 0xD8}, reason},
      },
      "read_image", "picture", read_picture);
  const TemporaryFolder folder;
  CHECK_THROWS_AS(read_picture(folder.path("missing.png")), cs::IoError);
  CHECK_THROWS_AS(read_picture(folder.path("")), cs::IoError);
}

TEST_CASE("an endless file that is no picture is an error", "[io][image][errors][host]") {
  try {
    cs::io::read_image("/dev/zero");
    FAIL("it was read");
  } catch (const cs::IoError& error) {
    CHECK(std::string(error.what()).find("read_image: /dev/zero: no picture begins at offset 0; ") == 0);
  }
}

TEST_CASE("PNGs whose chunks are broken are errors that say which", "[io][image][errors][host]") {
  const Bytes good = grey_with({idat(rows_of_three(2))});  // IHDR at 8, IDAT at 33
  if (!build_reads(good)) return;
  read_picture(TemporaryFolder().write("good.png", good));
  Bytes long_chunk = good, short_chunk = good;
  long_chunk[36] = static_cast<unsigned char>(good[36] + 1);  // the last byte of IDAT's length
  short_chunk[36] = static_cast<unsigned char>(good[36] - 1);
  const Bytes text = png_chunk("tEXt", bytes_of("a"));
  Bytes sizes;
  append_big(sizes, 3, 4);
  append_big(sizes, 2, 4);
  check_malformed(
      {
          {"IHDR's checksum", with_byte(good, 29, static_cast<unsigned char>(good[29] ^ 1)),
           "chunk IHDR at offset 8 has the wrong checksum"},
          {"a size that was changed", with_byte(good, 19, 4), "chunk IHDR at offset 8 has the wrong checksum"},
          {"a packed byte that was changed", with_byte(good, 44, static_cast<unsigned char>(good[44] ^ 16)),
           "chunk IDAT at offset 33 has the wrong checksum"},
          {"the checksum of a text", with_bytes(good, 33, with_byte(text, 9, static_cast<unsigned char>(text[9] ^ 1))),
           "chunk tEXt at offset 33 has the wrong checksum"},
          {"a length of one too many", long_chunk, "offset 33 has the wrong checksum"},
          {"a length of one too few", short_chunk, "offset 33 has the wrong checksum"},
          {"a length beyond the file", with_byte(good, 35, 1), "chunk IDAT at offset 33 declares"},
          {"a length of 2^32 - 1",
           joined(first_bytes(good, 33), joined({255, 255, 255, 255}, Bytes(good.begin() + 37, good.end()))),
           "declares 4294967295 bytes, but the file ends at offset"},
          {"no IEND", first_bytes(good, good.size() - 12), "the last must be IEND"},
          {"IEND with data", joined(first_bytes(good, good.size() - 12), png_chunk("IEND", {1})), "is damaged"},
          {"no IHDR", png_file({idat(rows_of_three(2)), end_chunk}), "the chunk at offset 8 is IDAT of"},
          {"a text before IHDR", png_file({text, png_header(3, 2, 8, 0), idat(rows_of_three(2)), end_chunk}),
           "the chunk at offset 8 is tEXt of 1 bytes; it must be IHDR of 13"},
          {"an IHDR of 8 bytes", png_file({png_chunk("IHDR", sizes), idat(rows_of_three(2)), end_chunk}),
           "the chunk at offset 8 is IHDR of 8 bytes"},
          {"two IHDRs", with_bytes(good, 33, png_header(3, 2, 8, 0)), "is damaged"},
          {"an unknown chunk that is critical", with_bytes(good, 33, png_chunk("ABCD", {1})), "is damaged"},
          {"a chunk whose type has a digit", with_bytes(good, 33, png_chunk("te1t", {1})), "is damaged"},
      },
      "read_image", "picture.png", read_picture);
}

TEST_CASE("PNGs with an impossible IHDR are errors that say why", "[io][image][errors][host]") {
  if (!build_reads(sized(3, 2))) return;
  read_picture(TemporaryFolder().write("good.png", sized(3, 2)));
  const std::string too_many = "one holds at most 1032";
  check_malformed(
      {
          {"no width", sized(0, 2), "width and height at offset 16 are 0 and 2"},
          {"no height", sized(3, 0), "width and height at offset 16 are 3 and 0"},
          {"a width of 2^31", sized(0x80000000u, 2), "are 2147483648 and 2; they must be 1 to 2147483647"},
          {"a height of 2^32 - 1", sized(3, 0xFFFFFFFFu), "are 3 and 4294967295"},
          {"2^31 - 1 times 2^31 - 1 pixels", sized(0x7FFFFFFF, 0x7FFFFFFF), too_many},
          {"as many of 64 bits", sized(0x7FFFFFFF, 0x7FFFFFFF, 16, 6), too_many},
          {"as many, interlaced", sized(0x7FFFFFFF, 0x7FFFFFFF, 16, 6, 1), too_many},
          {"one row of 2^31 - 1 pixels", sized(0x7FFFFFFF, 1), too_many},
          {"2^31 - 1 rows of one bit", sized(1, 0x7FFFFFFF, 1), too_many},
          {"a few too many", sized(3, 100000), too_many},
          {"a depth of 3", sized(3, 2, 3), "a depth of 3 bits with colour type 0 at offset 24"},
          {"a depth of 0", sized(3, 2, 0), "a depth of 0 bits"},
          {"4 bits of RGB", sized(3, 2, 4, 2), "a depth of 4 bits with colour type 2"},
          {"16 bits of a palette", sized(3, 2, 16, 3), "a depth of 16 bits with colour type 3"},
          {"colour type 1", sized(3, 2, 8, 1), "colour type 1"},
          {"colour type 5", sized(3, 2, 8, 5), "colour type 5"},
          {"colour type 7", sized(3, 2, 8, 7), "colour type 7"},
          {"another compression", with_methods(1, 0, 0), "at offset 26 are 1, 0 and 0"},
          {"another filter", with_methods(0, 64, 0), "at offset 26 are 0, 64 and 0"},
          {"another interlacing", with_methods(0, 0, 2), "at offset 26 are 0, 0 and 2"},
      },
      "read_image", "picture.png", read_picture);
}

TEST_CASE("PNGs whose pixels do not unpack to their rows are errors", "[io][image][errors][host]") {
  const Bytes packed = zlib_stream(rows_of_three(2)), rows = rows_of_three(2);
  const Bytes good = grey_with({png_chunk("IDAT", packed)});
  if (!build_reads(good)) return;
  const auto with_pixels = [](const Bytes& data) { return grey_with({png_chunk("IDAT", data)}); };
  const Bytes first(packed.begin(), packed.begin() + 5), rest(packed.begin() + 5, packed.end());
  check_malformed(
      {
          {"no IDAT", grey_with({}), "packed into 0 bytes"},
          {"an empty IDAT", with_pixels(no_data), "packed into 0 bytes"},
          {"a row too few", grey_with({idat(rows_of_three(1))}), "is damaged"},
          {"a byte too few", grey_with({idat(first_bytes(rows, 7))}), "is damaged"},
          {"a byte too many", grey_with({idat(joined(rows, {0}))}), "is damaged"},
          {"a row too many", grey_with({idat(rows_of_three(3))}), "is damaged"},
          {"megabytes too many", grey_with({idat(Bytes(std::size_t{1} << 22))}), "is damaged"},
          {"bytes behind the stream", with_pixels(joined(packed, {1, 2, 3})), "is damaged"},
          {"no end of the stream", with_pixels(first_bytes(packed, packed.size() - 4)), "is damaged"},
          {"half a stream", with_pixels(first_bytes(packed, packed.size() / 2)), "is damaged"},
          {"a wrong Adler checksum",
           with_pixels(with_byte(packed, packed.size() - 1, static_cast<unsigned char>(packed.back() ^ 1))),
           "is damaged"},
          {"a block of no type", with_pixels(with_byte(packed, 2, 0x07)), "is damaged"},
          {"a method that is not deflate", with_pixels(with_byte(packed, 0, 0x77)), "is damaged"},
          {"a preset dictionary", with_pixels(joined({0x78, 0x20}, packed)), "is damaged"},
          {"a text between IDATs",
           grey_with({png_chunk("IDAT", first), png_chunk("tEXt", {1}), png_chunk("IDAT", rest)}), "is damaged"},
          {"a sixth filter", grey_with({idat(with_byte(rows, 4, 5))}), "is damaged"},
          {"interlaced, with the rows of a plain one", sized(3, 2, 8, 0, 1), "is damaged"},
      },
      "read_image", "picture.png", read_picture);
}

TEST_CASE("PNGs with wrong palettes or wrong transparent colours are errors", "[io][image][errors][host]") {
  const Bytes palette = png_chunk("PLTE", Bytes(9, 7)), pixels = idat(rows_of_three(2));
  const Bytes good = indices_with({palette, png_chunk("tRNS", {1, 2, 3}), pixels});
  if (!build_reads(good)) return;
  read_picture(TemporaryFolder().write("good.png", good));
  Bytes wrong_index = rows_of_three(2);
  wrong_index[6] = 3;
  check_malformed(
      {
          {"no palette", indices_with({pixels}), "is damaged"},
          {"an empty palette", indices_with({png_chunk("PLTE", no_data), pixels}), "is damaged"},
          {"two and a half colours", indices_with({png_chunk("PLTE", Bytes(8)), pixels}), "is damaged"},
          {"257 colours", indices_with({png_chunk("PLTE", Bytes(3 * 257)), pixels}), "is damaged"},
          {"two palettes", indices_with({palette, palette, pixels}), "is damaged"},
          {"a palette behind the pixels", indices_with({pixels, palette}), "is damaged"},
          {"a palette for grey", grey_with({palette, pixels}), "is damaged"},
          {"an index of three in three colours", indices_with({palette, idat(wrong_index)}),
           "(colour 3 of a palette of 3 in row 1, column 1)"},
          {"more alphas than colours", indices_with({palette, png_chunk("tRNS", Bytes(4)), pixels}), "is damaged"},
          {"alphas before the palette", indices_with({png_chunk("tRNS", Bytes(3)), palette, pixels}), "is damaged"},
          {"alphas behind the pixels", indices_with({palette, pixels, png_chunk("tRNS", Bytes(3))}),
           "is behind the pixels"},
          {"a transparent grey of three bytes", grey_with({png_chunk("tRNS", Bytes(3)), pixels}), "is damaged"},
      },
      "read_image", "picture.png", read_picture);
}

TEST_CASE("a small file that declares a huge picture costs no memory", "[io][image][errors][host]") {
  std::vector<Bytes> files = {sized(0x7FFFFFFF, 0x7FFFFFFF, 16, 6), sized(0x7FFFFFFF, 1), sized(1, 0x7FFFFFFF, 1)};
  Bytes jpeg = picture_file("jpeg_420_progressive");
  const std::size_t frame = jpeg_place(jpeg, 0xC2);
  for (const std::size_t at : {5, 7}) jpeg = with_byte(with_byte(jpeg, frame + at, 0xFF), frame + at + 1, 0xDC);
  files.push_back(jpeg);  // 65500 x 65500
  for (const Bytes& file : files) {
    if (!build_reads(file)) continue;
    const std::int64_t peak = peak_bytes([&] { CHECK_THROWS_AS(cs::io::decode_image(file), cs::IoError); });
    CHECK(peak < std::int64_t{1} << 20);
  }
}

TEST_CASE("a PNG of few bytes that could hold a large picture, and do not, costs no memory",
          "[io][image][errors][host]") {
  constexpr std::size_t rows = 33585152;  // of 16384 x 16384 bits, interlaced: filters and bits of all seven passes
  const Bytes header = png_header(16384, 16384, 1, 0, 1), zeros(33000);  // 1032 times as many are enough
  const auto holding = [](const Bytes& head, const Bytes& data) {
    return png_file({head, png_chunk("IDAT", data), end_chunk});
  };
  const std::string must = " bytes; they must be 33585152.";
  const struct {
    std::string what;
    Bytes file;
    std::string reason;
  } files[] = {
      {"zeros", holding(header, zeros), "but the pixels unpack to 0" + must},
      {"a short stream", holding(header, joined(zlib_stream(Bytes(1000)), zeros)), "unpack to 1000" + must},
      {"a byte too few", holding(header, joined(zlib_stream(Bytes(rows - 1)), zeros)), "unpack to 33585151" + must},
      {"in two chunks",
       png_file({header, png_chunk("IDAT", zlib_stream(Bytes(1000))), png_chunk("IDAT", zeros), end_chunk}),
       "unpack to 1000" + must},
      {"one row", holding(png_header(1 << 28, 1, 1, 0), zeros), "unpack to 0 bytes; they must be 33554433."},
  };
  if (!build_reads(files[0].file)) return;
  for (const auto& row : files) {
    INFO(row.what);
    std::string said;
    const std::int64_t peak = peak_bytes([&] {
      try {
        cs::io::decode_image(row.file);
      } catch (const cs::IoError& error) { said = error.what(); }
    });
    INFO(said);
    CHECK(said.find(row.reason) != std::string::npos);
    CHECK(peak < std::int64_t{1} << 20);
  }
}

TEST_CASE("a picture that is cut anywhere is an error", "[io][image][errors][host]") {
  for (const char* name : {"grey8", "jpeg_420"}) {
    const Bytes file = picture_file(name);
    if (build_reads(file)) check_prefixes(file, "read_image", "picture", read_picture);
  }
  for (const PictureRow& row : picture_files()) {
    const Bytes file = from_hex(row.file);
    if (!build_reads(file)) continue;
    INFO(row.name);
    std::string wrong;
    for (std::size_t size = 0; size < file.size(); ++size) {
      try {
        cs::io::decode_image(first_bytes(file, size), {.channels = 3});
        wrong += " " + std::to_string(size);
      } catch (const cs::IoError&) {}  // as it must be
    }
    CHECK(wrong == "");
  }
}

TEST_CASE("a PNG with any one byte changed is an error", "[io][image][errors][host]") {
  for (const char* name : {"rgb8", "palette4_alpha", "grey16_transparent", "grey1_interlaced"}) {
    const Bytes file = picture_file(name);
    if (!build_reads(file)) continue;
    INFO(name);
    std::string wrong;
    for (std::size_t at = 0; at < file.size(); ++at) {
      for (const int flip : {0x01, 0x80, 0xFF}) {
        try {
          cs::io::decode_image(with_byte(file, at, static_cast<unsigned char>(file[at] ^ flip)));
          wrong += " " + std::to_string(at);
        } catch (const cs::IoError&) {}  // as it must be
      }
    }
    CHECK(wrong == "");
  }
}
