#pragma once
// Learning curves as a picture: one SVG file that needs nothing else.
#include <limits>
#include <string>
#include <vector>

namespace tools {

/// One curve. Where values are not finite, or <= 0 on a logarithmic axis, it has a gap.
struct Series {
  std::string name;
  std::vector<double> x, y;
  std::vector<double> smooth = {};  ///< drawn in front of y, which is pale then; as many values, or none
  bool dots = false;                ///< points, each of them, and no line
  void add(double at, double value) {
    x.push_back(at);
    y.push_back(value);
  }
};

/// One diagram. Curves with more points than the picture has columns are drawn as their mean, in front of a band that
/// reaches from the smallest to the largest value. After ten series colours come again, with other dashes.
struct Panel {
  static constexpr double kFromData = std::numeric_limits<double>::quiet_NaN();

  std::string label;  ///< of the y axis
  bool log_scale = false;
  double low = kFromData, high = kFromData;  ///< ends of the y axis
  std::vector<Series> series = {};
};

/// Panels in rows.
struct Chart {
  std::string title, x_label;
  std::vector<Panel> panels;
  std::string subtitle = {};
  int columns = 1;             ///< panels in a row
  bool shared_x = true;        ///< one range of x for all panels
  bool shared_legend = false;  ///< one legend, and one colour for each name, for all panels
};

/// The picture as a text: the same bytes for the same chart.
std::string svg_of(const Chart& chart);
/// Writes the picture beside its place and then puts it there. Throws std::runtime_error if the file cannot be written;
/// it is then as it was.
void write_svg(const std::string& path, const Chart& chart);

}  // namespace tools
