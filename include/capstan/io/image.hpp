#pragma once
// Pictures: PNG and JPEG to tensors, tensors to PNG.
#include <cstdint>
#include <span>
#include <string>

#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace io {

struct ImageOptions {
  std::int64_t channels = 0;  ///< 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA; 0: as the file has them
};

/// Reads a PNG (any colour type, depth and interlacing; of an animation the first picture) or a JPEG (baseline or
/// progressive, grey, RGB, YCbCr, CMYK or YCCK; no arithmetic coding), which is known by its first bytes.
///
/// Colours become others as in torchvision and Pillow: grey = 0.299 red + 0.587 green + 0.114 blue, which is JPEG's Y;
/// alpha is dropped without blending, and opaque where the file has none. Palettes become RGB, grey of fewer than 8
/// bits becomes 0 to 255, a colour or palette that PNG calls transparent becomes alpha. CMYK has no 0: it must be asked
/// for as something else, and is taken to be inverted, as Adobe writes it. Gamma, profiles and the orientation in EXIF
/// are passed over, as is what follows the picture.
///
/// Shapes  [channels, height, width], rows from the top
/// Types   uint8; int32 for PNG of 16 bits, 0 to 65535
/// Throws  IoError naming file, offset and reason: missing, truncated, wrong checksum, broken structure or pixels, more
///         pixels than so many bytes can hold, more than 100 scans, whatever else libpng calls an error, benign ones
///         too, or libjpeg warns of; only stray bytes between JPEG's segments and an unknown version of JFIF are let
///         pass
///         Error  channels not 0 to 4    MissingLibraryError  a build without libpng or libjpeg
/// PNG: https://www.w3.org/TR/png-3. JPEG: ITU-T T.81, T.871 and T.872.
Tensor read_image(const std::string& path, ImageOptions options = {}, Where where = Where::current());
/// The same for a picture in memory.
Tensor decode_image(std::span<const std::uint8_t> bytes, ImageOptions options = {}, Where where = Where::current());

/// A PNG file of a picture: uint8 [channels, height, width] with 1 to 4 channels, as above, on any device.
///
/// Throws  ShapeError  other sizes, or a size of 0    DTypeError  another type
///         MissingLibraryError  a build without libpng
std::string encode_png(const Tensor& image, Where where = Where::current());
/// Writes it beside `path` and renames it: an interrupted write leaves what was there. IoError if that cannot be.
void write_png(const std::string& path, const Tensor& image, Where where = Where::current());

}  // namespace io
}  // namespace capstan
