#include "samples/support/chart.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <iomanip>
#include <iterator>
#include <locale>
#include <sstream>
#include <stdexcept>

namespace support {
namespace {

// Pixels.
constexpr double kWidth = 900, kLeft = 72, kRight = 32, kTop = 96, kPanelHeight = 230, kGap = 66, kBottom = 66;
constexpr double kPlotWidth = kWidth - kLeft - kRight;
constexpr double kCharacter = 6.6;     // about the width of one at 12 pixels
constexpr std::size_t kColumns = 320;  // a curve has at most that many points
constexpr const char* kColors[] = {"#2563eb", "#ea580c", "#059669", "#9333ea"};
constexpr const char *kInk = "#1f2937", *kPale = "#6b7280", *kGrid = "#e5e7eb";

bool usable(double value, bool log_scale) { return std::isfinite(value) && (!log_scale || value > 0); }
double scaled(double value, bool log_scale) { return log_scale ? std::log10(value) : value; }

struct Range {
  double low = HUGE_VAL, high = -HUGE_VAL;
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

/// Maps values to pixels. `range` is in decades if the scale is logarithmic.
struct Axis {
  Range range;
  bool log_scale;
  double first_pixel, last_pixel;
  double pixel_of_scaled(double value) const {
    return first_pixel + (value - range.low) / (range.high - range.low) * (last_pixel - first_pixel);
  }
  double pixel(double value) const { return pixel_of_scaled(scaled(value, log_scale)); }
};

Axis x_axis(const Chart& chart) {
  Range range;
  for (const Panel& panel : chart.panels)
    for (const Series& series : panel.series)
      for (const double x : series.x)
        if (usable(x, false)) range.add(x);
  if (range.low > range.high) range = {0, 1};
  if (range.low == range.high) range.high += 1;
  return {range, false, kLeft, kLeft + kPlotWidth};
}

Axis y_axis(const Panel& panel, double top) {
  Range range;
  for (const Series& series : panel.series)
    for (const double y : series.y)
      if (usable(y, panel.log_scale)) range.add(scaled(y, panel.log_scale));
  if (range.low > range.high) range = {0, 1};
  const double margin = range.low < range.high ? 0.06 * (range.high - range.low) : 0.5;
  range = {range.low - margin, range.high + margin};
  if (usable(panel.low, panel.log_scale)) range.low = scaled(panel.low, panel.log_scale);
  if (usable(panel.high, panel.log_scale)) range.high = scaled(panel.high, panel.log_scale);
  if (!(range.low < range.high)) range.high = range.low + 1;
  return {range, panel.log_scale, top + kPanelHeight, top};
}

// --- ticks -------------------------------------------------------------------------------------------------------

struct Tick {
  double value;
  std::string label;
};

std::string format(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

/// Multiples of 1, 2 or 5 times a power of ten.
std::vector<Tick> linear_ticks(const Range& range, int about) {
  const double rough = (range.high - range.low) / about;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  const double step = power * (rough <= power ? 1 : rough <= 2 * power ? 2 : rough <= 5 * power ? 5 : 10);
  const int decimals = std::clamp(static_cast<int>(-std::floor(std::log10(step) + 1e-9)), 0, 12);
  const double slack = 1e-9 * step;
  std::vector<Tick> ticks;
  for (double i = std::ceil((range.low - slack) / step); i * step <= range.high + slack && ticks.size() < 50; ++i)
    ticks.push_back({i * step, format(i == 0 ? 0.0 : i * step, decimals)});  // never "-0"
  return ticks;
}

/// Powers of ten, with 2 and 5 times them where there are few.
std::vector<Tick> log_ticks(const Range& range) {
  const int first = static_cast<int>(std::floor(range.low)), last = static_cast<int>(std::ceil(range.high));
  const bool fine = range.high - range.low < 2.5;
  const int stride = std::max(1, (last - first) / 8);
  std::vector<Tick> ticks;
  for (int decade = first; decade <= last; decade += stride)
    for (const int factor : {1, 2, 5}) {
      const double value = factor * std::pow(10.0, decade), place = std::log10(value);
      if ((factor != 1 && !fine) || place < range.low - 1e-9 || place > range.high + 1e-9) continue;
      char text[64];
      std::snprintf(text, sizeof text, "%g", value);
      ticks.push_back({value, text});
    }
  return ticks;
}

// --- marks -------------------------------------------------------------------------------------------------------

std::string escape(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') result += "&amp;";
    else if (c == '<') result += "&lt;";
    else if (c == '>') result += "&gt;";
    else result += c;
  }
  return result;
}

struct TextStyle {
  double size = 12;
  const char* anchor = "start";
  const char* color = kPale;
  bool bold = false;
};

void draw_text(std::ostream& out, double x, double y, const std::string& text, const TextStyle& style) {
  out << "<text x=\"" << x << "\" y=\"" << y << "\" font-size=\"" << style.size << "\" text-anchor=\"" << style.anchor
      << "\" fill=\"" << style.color << '"' << (style.bold ? " font-weight=\"600\"" : "") << '>' << escape(text)
      << "</text>\n";
}

void draw_line(std::ostream& out, double x1, double y1, double x2, double y2, const char* color, double width) {
  out << "<line x1=\"" << x1 << "\" y1=\"" << y1 << "\" x2=\"" << x2 << "\" y2=\"" << y2 << "\" stroke=\"" << color
      << "\" stroke-width=\"" << width << "\"/>\n";
}

/// One column of a curve, in pixels.
struct Column {
  double x, middle, top, bottom;
};

std::vector<Column> columns_of(const Series& series, const Axis& x, const Axis& y) {
  std::vector<std::size_t> points;
  for (std::size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i)
    if (usable(series.x[i], false) && usable(series.y[i], y.log_scale)) points.push_back(i);
  const std::size_t count = std::min(points.size(), kColumns);
  std::vector<Column> columns;
  for (std::size_t c = 0; c < count; ++c) {
    const std::size_t begin = c * points.size() / count, end = (c + 1) * points.size() / count;
    Range range;
    double x_sum = 0, y_sum = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const double value = y.pixel(series.y[points[i]]);
      range.add(value);
      y_sum += value;
      x_sum += x.pixel(series.x[points[i]]);
    }
    const auto members = static_cast<double>(end - begin);
    columns.push_back({x_sum / members, y_sum / members, range.low, range.high});
  }
  return columns;
}

void draw_curve(std::ostream& out, const std::vector<Column>& columns, const char* color) {
  if (columns.empty()) return;
  out << "<path d=\"";
  for (std::size_t i = 0; i < columns.size(); ++i) out << (i == 0 ? 'M' : 'L') << columns[i].x << ' ' << columns[i].top;
  for (std::size_t i = columns.size(); i-- > 0;) out << 'L' << columns[i].x << ' ' << columns[i].bottom;
  out << "Z\" fill=\"" << color << "\" fill-opacity=\"0.16\"/>\n<polyline points=\"";
  for (const Column& column : columns) out << column.x << ',' << column.middle << ' ';
  out << "\" fill=\"none\" stroke=\"" << color
      << "\" stroke-width=\"2\" stroke-linejoin=\"round\" stroke-linecap=\"round\"/>\n";
  if (columns.size() > 40) return;
  for (const Column& column : columns)
    out << "<circle cx=\"" << column.x << "\" cy=\"" << column.middle << "\" r=\"2.8\" fill=\"" << color << "\"/>\n";
}

/// Names above the panel, from its right edge to the left.
void draw_legend(std::ostream& out, const Panel& panel, double y) {
  double right = kLeft + kPlotWidth;
  for (std::size_t i = panel.series.size(); i-- > 0;) {
    const std::string& name = panel.series[i].name;
    const double left = right - kCharacter * static_cast<double>(name.size()) - 30;
    draw_line(out, left, y - 4, left + 20, y - 4, kColors[i % std::size(kColors)], 3);
    draw_text(out, left + 26, y, name, {.color = kInk});
    right = left - 18;
  }
}

void draw_panel(std::ostream& out, const Panel& panel, const Axis& x, double top, std::size_t number) {
  const Axis y = y_axis(panel, top);
  const double bottom = top + kPanelHeight, right = kLeft + kPlotWidth;
  out << "<rect x=\"" << kLeft << "\" y=\"" << top << "\" width=\"" << kPlotWidth << "\" height=\"" << kPanelHeight
      << "\" fill=\"#ffffff\" stroke=\"" << kGrid << "\"/>\n<clipPath id=\"panel" << number << "\"><rect x=\"" << kLeft
      << "\" y=\"" << top - 3 << "\" width=\"" << kPlotWidth + 3 << "\" height=\"" << kPanelHeight + 6
      << "\"/></clipPath>\n";
  for (const Tick& tick : panel.log_scale ? log_ticks(y.range) : linear_ticks(y.range, 5)) {
    draw_line(out, kLeft, y.pixel(tick.value), right, y.pixel(tick.value), kGrid, 1);
    draw_text(out, kLeft - 8, y.pixel(tick.value) + 4, tick.label, {.anchor = "end"});
  }
  for (const Tick& tick : linear_ticks(x.range, 8)) {
    draw_line(out, x.pixel(tick.value), top, x.pixel(tick.value), bottom, kGrid, 1);
    draw_text(out, x.pixel(tick.value), bottom + 18, tick.label, {.anchor = "middle"});
  }
  draw_line(out, kLeft, bottom, right, bottom, kPale, 1);
  draw_line(out, kLeft, top, kLeft, bottom, kPale, 1);
  draw_text(out, kLeft, top - 10, panel.label, {.size = 13, .color = kInk, .bold = true});
  draw_legend(out, panel, top - 10);
  out << "<g clip-path=\"url(#panel" << number << ")\">\n";
  for (std::size_t i = 0; i < panel.series.size(); ++i)
    draw_curve(out, columns_of(panel.series[i], x, y), kColors[i % std::size(kColors)]);
  out << "</g>\n";
}

}  // namespace

void write_svg(const std::string& path, const Chart& chart) {
  const auto panels = static_cast<double>(chart.panels.size());
  const double height = kTop + panels * kPanelHeight + std::max(0.0, panels - 1) * kGap + kBottom;
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << std::fixed << std::setprecision(2) << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << kWidth
      << ' ' << height << "\" width=\"" << kWidth << "\" height=\"" << height
      << "\" font-family=\"Helvetica, Arial, sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"#f8fafc\"/>\n";
  draw_text(out, kLeft, 42, chart.title, {.size = 20, .color = kInk, .bold = true});
  const Axis x = x_axis(chart);
  for (std::size_t i = 0; i < chart.panels.size(); ++i)
    draw_panel(out, chart.panels[i], x, kTop + static_cast<double>(i) * (kPanelHeight + kGap), i);
  draw_text(out, kLeft + kPlotWidth / 2, height - 18, chart.x_label, {.anchor = "middle", .color = kInk});
  out << "</svg>\n";

  std::ofstream file(path, std::ios::binary);
  file << out.str();
  file.close();
  if (!file) throw std::runtime_error("the picture " + path + " could not be written");
}

}  // namespace support
