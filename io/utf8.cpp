#include "io/utf8.hpp"

namespace capstan::io {
namespace {

/// Bytes of the code point that begins there; 0 if none does.
std::size_t code_point_bytes(std::string_view text, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<int>(static_cast<unsigned char>(text[at + i])); };
  const int first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() - at < length) return 0;
  const int lowest = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;   // below: overlong
  const int highest = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;  // above: surrogates, beyond U+10FFFF
  if (byte(1) < lowest || byte(1) > highest) return 0;
  for (std::size_t i = 2; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  return length;
}

}  // namespace

std::size_t utf8_bytes(std::string_view text) noexcept {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t bytes = code_point_bytes(text, at);
    if (bytes == 0) break;
    at += bytes;
  }
  return at;
}

}  // namespace capstan::io
