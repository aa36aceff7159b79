#include "tools/heat_map.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <iterator>
#include <ostream>
#include <sstream>
#include <stdexcept>

#include "tools/chart_axes.hpp"
#include "tools/chart_text.hpp"
#include "tools/svg.hpp"

namespace tools {
namespace {

// Pixels.
constexpr double kMargin = 28, kTitle = 66, kBeside = 8, kLabel = 24;
constexpr double kGridWidth = 760, kGridHeight = 560;  // at most, but for very many cells
constexpr double kSmallestCell = 3, kLargestCell = 44;
constexpr double kScale = 14, kScaleNumbers = 56;  // widths, beside the grid
constexpr double kLeastWidth = 420, kLeastScale = 120;
constexpr double kTextHeight = 14;
constexpr std::size_t kLongestName = 28;  // characters
constexpr const char* kNoValue = "#d1d5db";

struct Color {
  double red, green, blue;
};
// From white to a dark blue, in steps that look even.
constexpr Color kColors[] = {{255, 255, 255}, {219, 234, 254}, {147, 197, 253}, {59, 130, 246}, {30, 58, 138}};
constexpr std::size_t kLastColor = std::size(kColors) - 1;

std::string color_of(double share) {
  const double place = std::clamp(share, 0.0, 1.0) * static_cast<double>(kLastColor);
  const std::size_t below = std::min(static_cast<std::size_t>(place), kLastColor - 1);
  const double part = place - static_cast<double>(below);
  const Color &from = kColors[below], &to = kColors[below + 1];
  const auto mixed = [&](double a, double b) { return static_cast<int>(std::lround(a + part * (b - a))); };
  char text[32];
  std::snprintf(text, sizeof text, "#%02x%02x%02x", mixed(from.red, to.red), mixed(from.green, to.green),
                mixed(from.blue, to.blue));
  return text;
}

/// Where everything is.
struct Layout {
  double cell = 0, left = 0, top = 0, width = 0, height = 0;  // of the grid
  double below = 0;                                           // the names of columns
  bool upright = false;                                       // these names stand
};

double widest_of(const std::vector<std::string>& names) {
  double widest = 0;
  for (const std::string& name : names) widest = std::max(widest, width_of(shortened(name, kLongestName), kFontSize));
  return widest;
}

Layout layout_of(const HeatMap& map) {
  const auto columns = static_cast<double>(map.columns.size()), rows = static_cast<double>(map.rows.size());
  Layout layout;
  layout.cell = std::min(kGridWidth / std::max(columns, 1.0), kGridHeight / std::max(rows, 1.0));
  layout.cell = std::clamp(layout.cell, kSmallestCell, kLargestCell);
  layout.left = kMargin + (map.y_label.empty() ? 0 : kLabel) + widest_of(map.rows) + kBeside;
  layout.top = kTitle;
  layout.width = columns * layout.cell;
  layout.height = rows * layout.cell;
  const double widest = widest_of(map.columns);
  layout.upright = widest + 4 > layout.cell;
  layout.below = kBeside + (widest == 0 ? 0 : layout.upright ? widest : kTextHeight);
  return layout;
}

void draw_cells(std::ostream& out, const HeatMap& map, const Layout& layout) {
  const double range = map.high > map.low ? map.high - map.low : 1;
  for (std::size_t row = 0; row < map.rows.size(); ++row)
    for (std::size_t column = 0; column < map.columns.size(); ++column) {
      const double value = map.values[row * map.columns.size() + column];
      const std::string color = std::isfinite(value) ? color_of((value - map.low) / range) : kNoValue;
      out << "<rect class=\"cell\" x=\"" << layout.left + static_cast<double>(column) * layout.cell << "\" y=\""
          << layout.top + static_cast<double>(row) * layout.cell << "\" width=\"" << layout.cell << "\" height=\""
          << layout.cell << "\" fill=\"" << color << "\"/>\n";
    }
  out << "<rect x=\"" << layout.left << "\" y=\"" << layout.top << "\" width=\"" << layout.width << "\" height=\""
      << layout.height << "\" fill=\"none\" stroke=\"" << kPale << "\"/>\n";
}

/// Of every n-th, where they would not fit otherwise.
void draw_names(std::ostream& out, const HeatMap& map, const Layout& layout) {
  const auto stride = static_cast<std::size_t>(std::ceil(kTextHeight / layout.cell));
  for (std::size_t row = 0; row < map.rows.size(); row += stride) {
    const double y = layout.top + (static_cast<double>(row) + 0.5) * layout.cell + 4;
    draw_text(out, layout.left - kBeside, y, shortened(map.rows[row], kLongestName), {.anchor = "end", .color = kInk});
  }
  const std::size_t columns = map.columns.size();
  for (std::size_t column = 0; column < columns; column += layout.upright ? stride : std::size_t{1}) {
    const double x = layout.left + (static_cast<double>(column) + 0.5) * layout.cell;
    const double y = layout.top + layout.height + kBeside;
    const std::string name = shortened(map.columns[column], kLongestName);
    if (layout.upright) {
      out << "<g transform=\"translate(" << x + 4 << ' ' << y << ") rotate(-90)\">";
      draw_text(out, 0, 0, name, {.anchor = "end", .color = kInk});
      out << "</g>\n";
    } else {
      draw_text(out, x, y + kTextHeight - 4, name, {.anchor = "middle", .color = kInk});
    }
  }
}

void draw_labels(std::ostream& out, const HeatMap& map, const Layout& layout) {
  const TextStyle style{.size = 13, .anchor = "middle", .color = kInk, .bold = true};
  if (!map.x_label.empty())
    draw_text(out, layout.left + layout.width / 2, layout.top + layout.height + layout.below + kLabel - 6, map.x_label,
              style);
  if (map.y_label.empty()) return;
  out << "<g transform=\"translate(" << kMargin << ' ' << layout.top + layout.height / 2 << ") rotate(-90)\">";
  draw_text(out, 0, 0, map.y_label, style);
  out << "</g>\n";
}

/// Which colour is which number, beside the grid.
void draw_scale(std::ostream& out, const HeatMap& map, const Layout& layout, double height) {
  const double left = layout.left + layout.width + 24, bottom = layout.top + height;
  out << "<linearGradient id=\"scale\" x1=\"0\" y1=\"1\" x2=\"0\" y2=\"0\">";
  for (std::size_t i = 0; i <= kLastColor; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(kLastColor);
    out << "<stop offset=\"" << share << "\" stop-color=\"" << color_of(share) << "\"/>";
  }
  out << "</linearGradient>\n<rect x=\"" << left << "\" y=\"" << layout.top << "\" width=\"" << kScale << "\" height=\""
      << height << "\" fill=\"url(#scale)\" stroke=\"" << kPale << "\"/>\n";
  Axis axis;
  axis.range = {map.low, map.high > map.low ? map.high : map.low + 1};
  axis.first_pixel = bottom;
  axis.last_pixel = layout.top;
  for (const Tick& tick : ticks_of(axis, 5))
    draw_text(out, left + kScale + 6, axis.pixel(tick.value) + 4, tick.label, {});
}

}  // namespace

std::string svg_of(const HeatMap& map) {
  if (map.values.size() != map.rows.size() * map.columns.size())
    throw std::invalid_argument("a heat map of " + std::to_string(map.rows.size()) + " rows and " +
                                std::to_string(map.columns.size()) + " columns has " +
                                std::to_string(map.values.size()) + " values");
  if (!usable(map.low, false) || !usable(map.high, false))
    throw std::invalid_argument("the limits of a heat map are no numbers that can be drawn");
  const Layout layout = layout_of(map);
  const double scale = std::max(layout.height, kLeastScale);
  const double width = std::max(kLeastWidth, layout.left + layout.width + 24 + kScale + kScaleNumbers + kMargin);
  const double below = layout.height + layout.below + (map.x_label.empty() ? 0 : kLabel);

  std::ostringstream body;
  set_decimals(body, 2);
  const auto most = static_cast<std::size_t>((width - 2 * kMargin) / width_of("x", 18));
  draw_text(body, kMargin, 42, shortened(map.title, most), {.size = 18, .color = kInk, .bold = true});
  draw_cells(body, map, layout);
  draw_names(body, map, layout);
  draw_labels(body, map, layout);
  draw_scale(body, map, layout, scale);
  return svg_of(map.title, width, layout.top + std::max(below, scale) + kMargin, body.str());
}

void write_svg(const std::string& path, const HeatMap& map) { write_picture(path, svg_of(map)); }

}  // namespace tools
