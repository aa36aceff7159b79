#pragma once
// Texts in a picture.
#include <cstddef>
#include <string>
#include <string_view>

namespace tools {

/// Bytes that are no UTF-8, control characters, and what else XML forbids become U+FFFD.
std::string plain_text(std::string_view text);
/// The same with XML's escapes.
std::string xml_text(std::string_view text);
/// About how many pixels wide it is.
double width_of(std::string_view text, double font_size);
/// Long texts with an ellipsis in their middle.
std::string shortened(std::string_view text, std::size_t most_characters);

}  // namespace tools
