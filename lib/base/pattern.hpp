#pragma once
// Names by patterns, as shells have them.
#include <cstddef>
#include <string_view>

namespace capstan::base {

/// Bytes of the character that begins there, in UTF-8; what is none counts byte by byte.
inline std::size_t character_at(std::string_view text, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t bytes = byte(at) >= 0xF0 ? 4 : byte(at) >= 0xE0 ? 3 : byte(at) >= 0xC2 ? 2 : 1;
  if (bytes > text.size() - at) return 1;
  for (std::size_t i = 1; i < bytes; ++i)
    if ((byte(at + i) & 0xC0) != 0x80) return 1;
  return bytes;
}

/// Whether a whole text is like a pattern, in which `*` stands for any text and `?` for any character. Goes back to the
/// last star only, so that it takes at most size times size steps.
inline bool matches(std::string_view text, std::string_view pattern) noexcept {
  std::size_t at = 0, p = 0, star = std::string_view::npos, retry = 0;
  while (at < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;  // for nothing, at first
      retry = at;
    } else if (p < pattern.size() && pattern[p] == '?') {
      at += character_at(text, at);
      ++p;
    } else if (p < pattern.size() && pattern[p] == text[at]) {
      ++p, ++at;
    } else if (star != std::string_view::npos) {
      p = star + 1;  // the last star takes one character more
      at = retry += character_at(text, retry);
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace capstan::base
