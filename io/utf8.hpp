#pragma once
// UTF-8, RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
#include <cstddef>
#include <string_view>

namespace capstan::io {

/// How many bytes at the beginning of a text are UTF-8: all of them, or those before the first that is none.
std::size_t utf8_bytes(std::string_view text) noexcept;
inline bool is_utf8(std::string_view text) noexcept { return utf8_bytes(text) == text.size(); }

}  // namespace capstan::io
