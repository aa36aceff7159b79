#pragma once
// Learning curves as a picture: one SVG file that needs nothing else.
#include <limits>
#include <string>
#include <vector>

namespace support {

/// One curve. Values that are not finite, and those <= 0 on a logarithmic axis, are left out.
struct Series {
  std::string name;
  std::vector<double> x, y;
  void add(double at, double value) {
    x.push_back(at);
    y.push_back(value);
  }
};

/// One diagram. Curves with more points than the picture has columns are drawn as their mean, in front of a band that
/// reaches from the smallest to the largest value.
struct Panel {
  static constexpr double kFromData = std::numeric_limits<double>::quiet_NaN();

  std::string label;  ///< of the y axis
  bool log_scale = false;
  double low = kFromData, high = kFromData;  ///< ends of the y axis
  std::vector<Series> series;                ///< up to four
};

/// Panels one below the other, over the same x axis.
struct Chart {
  std::string title, x_label;
  std::vector<Panel> panels;
};

/// Writes the picture. Throws std::runtime_error if the file cannot be written.
void write_svg(const std::string& path, const Chart& chart);

}  // namespace support
