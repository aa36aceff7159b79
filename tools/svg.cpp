#include "tools/svg.hpp"

#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iterator>
#include <locale>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "tools/chart_text.hpp"

namespace tools {

Style style_of(std::size_t number) {
  constexpr const char* kColors[] = {"#2563eb", "#ea580c", "#059669", "#9333ea", "#db2777",
                                     "#0891b2", "#ca8a04", "#475569", "#65a30d", "#7c2d12"};
  constexpr const char* kDashes[] = {"", "7 4", "2 4", "10 4 2 4"};
  return {kColors[number % std::size(kColors)], kDashes[number / std::size(kColors) % std::size(kDashes)]};
}

void set_decimals(std::ostream& out, int decimals) {
  out.imbue(std::locale::classic());
  out << std::fixed << std::setprecision(decimals);
}

void draw_text(std::ostream& out, double x, double y, const std::string& text, const TextStyle& style) {
  out << "<text x=\"" << x << "\" y=\"" << y << "\" font-size=\"" << style.size << "\" text-anchor=\"" << style.anchor
      << "\" fill=\"" << style.color << '"' << (style.bold ? " font-weight=\"600\"" : "") << '>' << xml_text(text)
      << "</text>\n";
}

void draw_line(std::ostream& out, double x1, double y1, double x2, double y2, const Style& style, double width) {
  out << "<line x1=\"" << x1 << "\" y1=\"" << y1 << "\" x2=\"" << x2 << "\" y2=\"" << y2 << "\" stroke=\""
      << style.color << "\" stroke-width=\"" << width << '"';
  if (*style.dash != '\0') out << " stroke-dasharray=\"" << style.dash << '"';
  out << "/>\n";
}

std::string svg_of(const std::string& title, double width, double height, const std::string& body) {
  std::ostringstream out;
  set_decimals(out, 0);
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << ' ' << height << "\" width=\"" << width
      << "\" height=\"" << height << "\" font-family=\"Helvetica, Arial, sans-serif\">\n<title>" << xml_text(title)
      << "</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#f8fafc\"/>\n"
      << body << "</svg>\n";
  return out.str();
}

void write_picture(const std::string& path, const std::string& picture) {
  namespace fs = std::filesystem;
  std::error_code error;
  const bool special = fs::exists(path, error) && !fs::is_regular_file(path, error);  // a device stays what it is
  const std::string temporary = special ? path : path + ".part";
  std::ofstream file(temporary, std::ios::binary);
  const bool made = file.is_open();
  file << picture;
  file.close();
  error.clear();
  if (file && !special) fs::rename(temporary, path, error);
  if (file && !error) return;
  if (made && !special) fs::remove(temporary, error);
  throw std::runtime_error("the picture " + path + " could not be written");
}

}  // namespace tools
