// Pictures as PNG and sounds as WAV, for events.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include <capstan/create.hpp>

#include "io/image_formats.hpp"
#include "io/summary_parts.hpp"
#include "lib/base/text.hpp"

namespace capstan::io {
namespace {

/// Contiguous and on the CPU.
Tensor on_host(const Tensor& x, Where where) { return x.to(cpu(), where).contiguous(where); }

/// Limited to [low, high]; NaN becomes 0.
float limited(float value, float low, float high) { return std::isnan(value) ? 0.0f : std::clamp(value, low, high); }

// --- pictures ------------------------------------------------------------------------------------------------------

constexpr std::int64_t kBorder = 2;  // pixels around each picture of a grid

/// The pictures as uint8 [n, channels, height, width].
Tensor as_bytes(const Tensor& pixels, const Shape& shape, Where where) {
  Tensor out = empty(shape, {.dtype = DType::uint8, .device = cpu()}, where);
  const std::span<std::uint8_t> to = out.mutable_span<std::uint8_t>(where);
  if (pixels.dtype(where) == DType::uint8) {
    const Tensor host = on_host(pixels, where);
    std::ranges::copy(host.span<std::uint8_t>(where), to.begin());
    return out;
  }
  const Tensor host = on_host(pixels.to(DType::float32, where), where);
  std::ranges::transform(host.span<float>(where), to.begin(), [](float value) {
    return static_cast<std::uint8_t>(std::lround(limited(value, 0, 1) * 255));
  });
  return out;
}

Shape shape_of_pictures(const char* op, const Tensor& pixels, Where where) {
  check_defined(op, pixels, where);
  const DType dtype = pixels.dtype(where);
  if (dtype != DType::uint8 && !is_floating(dtype))
    base::fail<DTypeError>(where, op, ": the image is ", dtype,
                           "; it must be uint8, or of a floating type with values of 0 to 1.");
  const Shape& given = pixels.shape(where);
  const int rank = given.rank();
  const bool fits = rank >= 2 && rank <= 4 && given.numel() > 0 && (rank == 2 || given[rank - 3] <= 4);
  if (!fits)
    base::fail<ShapeError>(where, op, ": the image is ", given,
                           "; it must be [height, width], [channels, height, width] or [n, channels, height, width], "
                           "with 1 to 4 channels and no size of 0.");
  return Shape({rank == 4 ? given[0] : 1, rank >= 3 ? given[rank - 3] : 1, given[rank - 2], given[rank - 1]}, where);
}

/// One picture of n: [n, channels, height, width] to [channels, rows, columns].
Tensor grid(const Tensor& pictures, Where where) {
  const Shape& shape = pictures.shape(where);
  const std::int64_t count = shape[0], channels = shape[1], height = shape[2], width = shape[3];
  if (count == 1) return pictures[0];
  std::int64_t across = 1;
  while (across * across < count) ++across;
  const std::int64_t down = (count + across - 1) / across;
  const std::int64_t rows = down * (height + kBorder) + kBorder, columns = across * (width + kBorder) + kBorder;
  Tensor out = zeros({channels, rows, columns}, {.dtype = DType::uint8, .device = cpu()}, where);
  const std::uint8_t* row = pictures.data<std::uint8_t>(where);
  std::uint8_t* const to = out.mutable_data<std::uint8_t>(where);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t top = i / across * (height + kBorder) + kBorder, left = i % across * (width + kBorder) + kBorder;
    for (std::int64_t channel = 0; channel < channels; ++channel)
      for (std::int64_t y = 0; y < height; ++y, row += width)
        std::copy_n(row, width, to + (channel * rows + top + y) * columns + left);
  }
  return out;
}

// --- sounds --------------------------------------------------------------------------------------------------------

constexpr std::int64_t kMostChannels = 64, kMostRate = 1 << 24;  // so that bytes a second fit into 32 bits
constexpr std::int64_t kMostSamples = (std::int64_t{1} << 29) - 64;
constexpr std::int64_t kSampleBytes = 2;

void put(std::string& out, std::int64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>((value >> (8 * i)) & 0xFF));
}

/// RIFF's header for 16 bits PCM; Microsoft, "Multimedia Programming Interface and Data Specifications 1.0".
std::string wav_header(const AudioSummary& audio) {
  const std::int64_t frame_bytes = audio.channels * kSampleBytes, bytes = audio.frames * frame_bytes;
  std::string out = "RIFF";
  put(out, 36 + bytes, 4);
  out += "WAVEfmt ";
  put(out, 16, 4);  // bytes of the format, which follows
  put(out, 1, 2);   // PCM
  put(out, audio.channels, 2);
  put(out, audio.rate, 4);
  put(out, audio.rate * frame_bytes, 4);
  put(out, frame_bytes, 2);
  put(out, 8 * kSampleBytes, 2);
  out += "data";
  put(out, bytes, 4);
  return out;
}

void check_samples(const char* op, const Tensor& samples, std::int64_t rate, Where where) {
  check_defined(op, samples, where);
  if (rate < 1 || rate > kMostRate)
    base::fail<Error>(where, op, ": the rate is ", rate, "; it must be 1 to ", kMostRate, " frames a second.");
  if (!is_floating(samples.dtype(where)))
    base::fail<DTypeError>(where, op, ": the samples are ", samples.dtype(where),
                           "; they must be of a floating type, with values of -1 to 1.");
  const Shape& shape = samples.shape(where);
  if (shape.rank() < 1 || shape.rank() > 2 || shape.numel() < 1 || (shape.rank() == 2 && shape[0] > kMostChannels))
    base::fail<ShapeError>(where, op, ": the samples are ", shape,
                           "; they must be [frames] or [channels, frames] with 1 to 64 channels, and no size 0.");
  if (shape.numel() > kMostSamples)
    base::fail<ShapeError>(where, op, ": the samples are ", shape, "; there may be ", kMostSamples, " at most.");
}

}  // namespace

ImageSummary summarize_image(const char* op, const Tensor& pixels, Where where) {
  const NoGrad off;
  const Shape shape = shape_of_pictures(op, pixels, where);
  const Tensor picture = grid(as_bytes(pixels, shape, where), where);
  return {picture.size(1, where), picture.size(2, where), picture.size(0, where), encode_png(op, picture, where)};
}

AudioSummary summarize_audio(const char* op, const Tensor& samples, std::int64_t rate, Where where) {
  check_samples(op, samples, rate, where);
  const NoGrad off;
  const Tensor host = on_host(samples.to(DType::float32, where), where);
  const bool mono = host.rank(where) == 1;
  AudioSummary audio{rate, mono ? 1 : host.size(0, where), host.size(-1, where), {}};
  audio.wav = wav_header(audio);
  audio.wav.reserve(audio.wav.size() + static_cast<std::size_t>(host.numel(where) * kSampleBytes));
  const float* const values = host.data<float>(where);
  for (std::int64_t frame = 0; frame < audio.frames; ++frame)
    for (std::int64_t channel = 0; channel < audio.channels; ++channel)
      put(audio.wav, std::lround(limited(values[channel * audio.frames + frame], -1, 1) * 32767), kSampleBytes);
  return audio;
}

}  // namespace capstan::io
