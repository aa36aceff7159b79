#include "tools/chart.hpp"

#include <algorithm>
#include <cstddef>
#include <ostream>
#include <span>
#include <sstream>
#include <utility>

#include "tools/chart_axes.hpp"
#include "tools/chart_text.hpp"
#include "tools/svg.hpp"

namespace tools {
namespace {

// Pixels.
constexpr double kLeft = 72, kRight = 32, kLine = 20, kLabel = 30, kTicks = 26, kGap = 22;
constexpr double kMarkWidth = 20, kBetweenMarks = 18;
constexpr std::size_t kLongestName = 48;   // characters
constexpr double kPixelsOfAColumn = 2.5;   // curves with more points are drawn by columns
constexpr std::size_t kMostWithDots = 40;  // points of a curve

/// How wide a picture with so many panels in a row is, and how high its panels are.
double picture_width(int columns) { return columns == 1 ? 900 : columns == 2 ? 1240 : 520.0 * columns; }
double panel_height(int columns) { return columns == 1 ? 230 : 200; }

// --- legends -----------------------------------------------------------------------------------------------------

struct Entry {
  std::string name;
  std::size_t style;
  double width() const { return kMarkWidth + 6 + width_of(name, kFontSize) + kBetweenMarks; }
};
using Legend = std::vector<std::vector<Entry>>;  // rows

Legend in_rows(const std::vector<Entry>& entries, double width) {
  Legend rows;
  double used = 0;
  for (const Entry& entry : entries) {
    if (rows.empty() || used + entry.width() > width + kBetweenMarks) {
      rows.emplace_back();
      used = 0;
    }
    used += entry.width();
    rows.back().push_back(entry);
  }
  return rows;
}

double height_of(const Legend& legend) { return kLine * static_cast<double>(legend.size()); }

void draw_legend(std::ostream& out, const Legend& legend, double left, double y) {
  for (const std::vector<Entry>& row : legend) {
    double x = left;
    for (const Entry& entry : row) {
      draw_line(out, x, y - 4, x + kMarkWidth, y - 4, style_of(entry.style), 3);
      draw_text(out, x + kMarkWidth + 6, y, entry.name, {.color = kInk});
      x += entry.width();
    }
    y += kLine;
  }
}

/// The numbers of the styles that the series of each panel have, and the entries of the legend of all of them.
struct Styles {
  std::vector<std::vector<std::size_t>> of_panels;
  std::vector<Entry> shared;
};

/// A series' name as a legend shows it. Others may be shortened to the same: it is numbered then.
std::string shown_beside(const std::vector<Entry>& entries, const std::string& name) {
  const std::string text = shortened(name, kLongestName);
  std::string shown = text;
  const auto same = [&](const Entry& entry) { return entry.name == shown; };
  for (int number = 2; std::any_of(entries.begin(), entries.end(), same); ++number)
    shown = text + " (" + std::to_string(number) + ')';
  return shown;
}

Styles styles_of(const Chart& chart) {
  Styles styles;
  std::vector<std::string> names;  // of the styles, whole
  for (const Panel& panel : chart.panels) {
    std::vector<std::size_t>& numbers = styles.of_panels.emplace_back();
    for (const Series& series : panel.series) {
      std::size_t number = numbers.size();
      if (chart.shared_legend) {
        number = static_cast<std::size_t>(std::find(names.begin(), names.end(), series.name) - names.begin());
        if (number == names.size()) {
          styles.shared.push_back({shown_beside(styles.shared, series.name), number});
          names.push_back(series.name);
        }
      }
      numbers.push_back(number);
    }
  }
  return styles;
}

std::vector<Entry> entries_of(const Panel& panel, const std::vector<std::size_t>& numbers) {
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < panel.series.size(); ++i)
    if (!panel.series[i].name.empty()) entries.push_back({shortened(panel.series[i].name, kLongestName), numbers[i]});
  return entries;
}

// --- curves ------------------------------------------------------------------------------------------------------

/// One column of a curve, in pixels. Where nothing can be drawn it is a gap.
struct Column {
  bool gap = true;
  double x = 0, middle = 0, top = 0, bottom = 0;
};

std::vector<Column> columns_of(const std::vector<double>& xs, const std::vector<double>& ys, const Axis& x,
                               const Axis& y) {
  const std::size_t points = std::min(xs.size(), ys.size());
  const auto most = static_cast<std::size_t>((x.last_pixel - x.first_pixel) / kPixelsOfAColumn);
  const std::size_t count = std::min(points, most);
  std::vector<Column> columns(count);
  for (std::size_t c = 0; c < count; ++c) {
    Range range;
    double x_sum = 0, y_sum = 0, members = 0;
    for (std::size_t i = c * points / count; i < (c + 1) * points / count; ++i) {
      if (!usable(xs[i], false) || !usable(ys[i], y.log_scale)) continue;
      const double value = y.pixel(ys[i]);
      range.add(value);
      y_sum += value;
      x_sum += x.pixel(xs[i]);
      members += 1;
    }
    if (members > 0) columns[c] = {false, x_sum / members, y_sum / members, range.low, range.high};
  }
  return columns;
}

/// The stretches between gaps.
std::vector<std::span<const Column>> stretches_of(std::span<const Column> columns) {
  std::vector<std::span<const Column>> stretches;
  for (std::size_t begin = 0; begin < columns.size(); ++begin) {
    std::size_t end = begin;
    while (end < columns.size() && !columns[end].gap) ++end;
    if (end > begin) stretches.push_back(columns.subspan(begin, end - begin));
    begin = end;
  }
  return stretches;
}

void draw_band(std::ostream& out, std::span<const Column> columns, const Style& style) {
  out << "<path d=\"";
  for (std::size_t i = 0; i < columns.size(); ++i) out << (i == 0 ? 'M' : 'L') << columns[i].x << ' ' << columns[i].top;
  for (std::size_t i = columns.size(); i-- > 0;) out << 'L' << columns[i].x << ' ' << columns[i].bottom;
  out << "Z\" fill=\"" << style.color << "\" fill-opacity=\"0.14\"/>\n";
}

void draw_polyline(std::ostream& out, std::span<const Column> columns, const Style& style, double width,
                   double opacity) {
  out << "<polyline points=\"";
  for (const Column& column : columns) out << column.x << ',' << column.middle << ' ';
  out << "\" fill=\"none\" stroke=\"" << style.color << "\" stroke-width=\"" << width
      << "\" stroke-linejoin=\"round\" stroke-linecap=\"round\"";
  if (opacity < 1) out << " stroke-opacity=\"" << opacity << '"';
  if (*style.dash != '\0') out << " stroke-dasharray=\"" << style.dash << '"';
  out << "/>\n";
}

void draw_dot(std::ostream& out, const Column& column, const Style& style) {
  out << "<circle cx=\"" << column.x << "\" cy=\"" << column.middle << "\" r=\"2.8\" fill=\"" << style.color
      << "\"/>\n";
}

void draw_dots(std::ostream& out, const Series& series, const Axis& x, const Axis& y, const Style& style) {
  for (std::size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i)
    if (usable(series.x[i], false) && usable(series.y[i], y.log_scale))
      draw_dot(out, {.gap = false, .x = x.pixel(series.x[i]), .middle = y.pixel(series.y[i])}, style);
}

void draw_series(std::ostream& out, const Series& series, const Axis& x, const Axis& y, const Style& style) {
  if (series.dots) return draw_dots(out, series, x, y, style);
  const std::vector<Column> columns = columns_of(series.x, series.y, x, y);
  const bool aggregated = columns.size() < series.y.size(), smoothed = !series.smooth.empty();
  for (const std::span<const Column> stretch : stretches_of(columns)) {
    if (aggregated && !smoothed) draw_band(out, stretch, style);
    draw_polyline(out, stretch, style, smoothed ? 1.2 : 2, smoothed ? 0.3 : 1);
    if (smoothed && stretch.size() > 1) continue;
    if (stretch.size() > 1 && columns.size() > kMostWithDots) continue;
    for (const Column& column : stretch) draw_dot(out, column, style);
  }
  const std::vector<Column> smooth = columns_of(series.x, series.smooth, x, y);
  for (const std::span<const Column> stretch : stretches_of(smooth)) draw_polyline(out, stretch, style, 2, 1);
}

// --- panels ------------------------------------------------------------------------------------------------------

/// Where the picture's cells are, and what is in them.
struct Cell {
  double left, top, width;  // of the plot
  double height;
  Legend legend;
  bool legend_beside_label;
};

void draw_frame(std::ostream& out, const Cell& cell, std::size_t number) {
  out << "<rect x=\"" << cell.left << "\" y=\"" << cell.top << "\" width=\"" << cell.width << "\" height=\""
      << cell.height << "\" fill=\"#ffffff\" stroke=\"" << kGrid << "\"/>\n<clipPath id=\"panel" << number
      << "\"><rect x=\"" << cell.left - 3 << "\" y=\"" << cell.top - 3 << "\" width=\"" << cell.width + 6
      << "\" height=\"" << cell.height + 6 << "\"/></clipPath>\n";
}

void draw_axes(std::ostream& out, const Cell& cell, const Axis& x, const Axis& y) {
  const double bottom = cell.top + cell.height, right = cell.left + cell.width;
  const Style grid{kGrid, ""}, pale{kPale, ""};
  for (const Tick& tick : ticks_of(y, 5)) {
    draw_line(out, cell.left, y.pixel(tick.value), right, y.pixel(tick.value), grid, 1);
    draw_text(out, cell.left - 8, y.pixel(tick.value) + 4, tick.label, {.anchor = "end"});
  }
  for (const Tick& tick : ticks_of(x, std::max(3, static_cast<int>(cell.width / 95)))) {
    draw_line(out, x.pixel(tick.value), cell.top, x.pixel(tick.value), bottom, grid, 1);
    draw_text(out, x.pixel(tick.value), bottom + 18, tick.label, {.anchor = "middle"});
  }
  draw_line(out, cell.left, bottom, right, bottom, pale, 1);
  draw_line(out, cell.left, cell.top, cell.left, bottom, pale, 1);
}

void draw_panel(std::ostream& out, const Panel& panel, const std::vector<std::size_t>& styles, const Cell& cell, Axis x,
                std::size_t number) {
  const Axis y = y_axis(panel, cell.top, cell.top + cell.height);
  x.first_pixel = cell.left;
  x.last_pixel = cell.left + cell.width;
  draw_frame(out, cell, number);
  draw_axes(out, cell, x, y);
  const double label_y = cell.top - 10 - (cell.legend_beside_label ? 0 : height_of(cell.legend));
  const auto most = static_cast<std::size_t>(cell.width / width_of("x", 13));
  draw_text(out, cell.left, label_y, shortened(panel.label, most), {.size = 13, .color = kInk, .bold = true});
  if (cell.legend_beside_label && !cell.legend.empty()) {
    double left = cell.left + cell.width + kBetweenMarks;
    for (const Entry& entry : cell.legend.front()) left -= entry.width();
    draw_legend(out, cell.legend, left, label_y);
  } else {
    draw_legend(out, cell.legend, cell.left, label_y + kLine);
  }
  out << "<g clip-path=\"url(#panel" << number << ")\">\n";
  for (std::size_t i = 0; i < panel.series.size(); ++i) draw_series(out, panel.series[i], x, y, style_of(styles[i]));
  out << "</g>\n";
}

/// Cells for all panels; `y` is where the first row begins, and then where the last one ends.
std::vector<Cell> cells_of(const Chart& chart, const Styles& styles, int columns, double& y) {
  const double cell_width = picture_width(columns) / columns, width = cell_width - kLeft - kRight;
  const auto in_row = static_cast<std::size_t>(columns);
  std::vector<Cell> cells;
  for (std::size_t i = 0; i < chart.panels.size(); ++i) {
    const Panel& panel = chart.panels[i];
    Legend legend;
    if (!chart.shared_legend) legend = in_rows(entries_of(panel, styles.of_panels[i]), width);
    double used = width_of(panel.label, 14) + kBetweenMarks;
    if (!legend.empty())
      for (const Entry& entry : legend.front()) used += entry.width();
    const bool beside = legend.size() <= 1 && used <= width + kBetweenMarks;
    const double left = static_cast<double>(i % in_row) * cell_width + kLeft;
    cells.push_back({left, 0, width, panel_height(columns), std::move(legend), beside});
  }
  for (std::size_t row = 0; row < cells.size(); row += in_row) {
    const std::size_t end = std::min(row + in_row, cells.size());
    double above = kLabel;
    for (std::size_t i = row; i < end; ++i)
      if (!cells[i].legend_beside_label) above = std::max(above, kLabel + height_of(cells[i].legend));
    y += above;
    for (std::size_t i = row; i < end; ++i) cells[i].top = y;
    y += panel_height(columns) + kTicks + kGap;
  }
  return cells;
}

void draw_panels(std::ostream& out, const Chart& chart, const Styles& styles, const std::vector<Cell>& cells,
                 std::size_t in_row) {
  const Axis shared = x_axis(chart.panels);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Axis x = chart.shared_x ? shared : x_axis(std::span(chart.panels).subspan(i, 1));
    draw_panel(out, chart.panels[i], styles.of_panels[i], cells[i], x, i);
    if (i + in_row < cells.size()) continue;  // another is below
    draw_text(out, cells[i].left + cells[i].width / 2, cells[i].top + cells[i].height + kTicks + 12, chart.x_label,
              {.anchor = "middle", .color = kInk});
  }
}

}  // namespace

std::string svg_of(const Chart& chart) {
  const int columns = std::clamp(chart.columns, 1, std::max(1, static_cast<int>(chart.panels.size())));
  const Styles styles = styles_of(chart);
  const double width = picture_width(columns);
  double y = 42;
  std::ostringstream body;
  set_decimals(body, 2);
  const auto most = static_cast<std::size_t>((width - kLeft - kRight) / width_of("x", 20));
  draw_text(body, kLeft, y, shortened(chart.title, most), {.size = 20, .color = kInk, .bold = true});
  y += 24;
  if (!chart.subtitle.empty()) {
    draw_text(body, kLeft, y, chart.subtitle, {});
    y += kLine;
  }
  const Legend legend = in_rows(styles.shared, width - kLeft - kRight);
  draw_legend(body, legend, kLeft, y + 2);
  y += height_of(legend);
  const std::vector<Cell> cells = cells_of(chart, styles, columns, y);
  draw_panels(body, chart, styles, cells, static_cast<std::size_t>(columns));

  return svg_of(chart.title, width, y + 12, body.str());
}

void write_svg(const std::string& path, const Chart& chart) { write_picture(path, svg_of(chart)); }

}  // namespace tools
