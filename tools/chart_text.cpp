#include "tools/chart_text.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tools {
namespace {

constexpr std::string_view kUnknown = "\xEF\xBF\xBD";  // U+FFFD
constexpr double kCharacterWidth = 0.55;               // of the font's size, on average

/// How many bytes the first character has, or 0 if it is none that XML allows, or controls terminals. The text is not
/// empty.
std::size_t first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return std::uint32_t{static_cast<unsigned char>(text[i])}; };
  if (byte(0) < 0x80) return byte(0) >= 0x20 && byte(0) != 0x7F ? 1 : 0;
  const std::size_t length = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
  if (byte(0) < 0xC2 || byte(0) > 0xF4 || text.size() < length) return 0;
  std::uint32_t code = byte(0) & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0u) != 0x80u) return 0;
    code = (code << 6) | (byte(i) & 0x3Fu);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0xA0, 0x800, 0x10000};  // no longer forms than needed
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF, forbidden = code == 0xFFFE || code == 0xFFFF;
  return code < kLeast[length] || code > 0x10FFFF || surrogate || forbidden ? 0 : length;
}

/// The characters, each as it may stand in a text of XML but for its escapes.
std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> characters;
  while (!text.empty()) {
    const std::size_t length = first_character(text);
    characters.push_back(length == 0 ? kUnknown : text.substr(0, length));
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return characters;
}

}  // namespace

std::string plain_text(std::string_view text) {
  std::string result;
  for (const std::string_view character : characters_of(text)) result += character;
  return result;
}

std::string xml_text(std::string_view text) {
  std::string result;
  for (const std::string_view character : characters_of(text)) {
    if (character == "&") result += "&amp;";
    else if (character == "<") result += "&lt;";
    else if (character == ">") result += "&gt;";
    else if (character == "\"") result += "&quot;";
    else result += character;
  }
  return result;
}

double width_of(std::string_view text, double font_size) {
  return kCharacterWidth * font_size * static_cast<double>(characters_of(text).size());
}

std::string shortened(std::string_view text, std::size_t most_characters) {
  const std::vector<std::string_view> characters = characters_of(text);
  if (characters.size() <= most_characters) return std::string(text);
  const std::size_t before = (most_characters - 1) / 2, after = most_characters - 1 - before;
  std::string result;
  for (std::size_t i = 0; i < before; ++i) result += characters[i];
  result += "\xE2\x80\xA6";  // an ellipsis
  for (std::size_t i = characters.size() - after; i < characters.size(); ++i) result += characters[i];
  return result;
}

}  // namespace tools
