#pragma once
// What all pictures are drawn with, and the file around them.
#include <cstddef>
#include <iosfwd>
#include <string>

namespace tools {

inline constexpr double kFontSize = 12;  // pixels
inline constexpr const char *kInk = "#1f2937", *kPale = "#6b7280", *kGrid = "#e5e7eb";

struct Style {
  const char* color;
  const char* dash;  // "" for none
};
/// Of the series or group with that number: ten colours, then the same with other dashes.
Style style_of(std::size_t number);

struct TextStyle {
  double size = kFontSize;
  const char* anchor = "start";
  const char* color = kPale;
  bool bold = false;
};

/// Numbers with so many decimals, whatever the locale.
void set_decimals(std::ostream& out, int decimals);
void draw_text(std::ostream& out, double x, double y, const std::string& text, const TextStyle& style);
void draw_line(std::ostream& out, double x1, double y1, double x2, double y2, const Style& style, double width);

/// The whole picture around what was drawn; sizes in pixels.
std::string svg_of(const std::string& title, double width, double height, const std::string& body);
/// Writes the picture beside its place and then puts it there. Throws std::runtime_error if the file cannot be written;
/// it is then as it was.
void write_picture(const std::string& path, const std::string& picture);

}  // namespace tools
