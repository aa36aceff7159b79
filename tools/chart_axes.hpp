#pragma once
// From values to pixels, and the numbers beside an axis.
#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "tools/chart.hpp"

namespace tools {

struct Range {
  double low = HUGE_VAL, high = -HUGE_VAL;
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

/// Whether it can be drawn.
bool usable(double value, bool log_scale);

/// Maps values to pixels. `range` is in decades if the scale is logarithmic.
struct Axis {
  Range range;
  bool log_scale = false;
  bool whole = false;  // all values are whole numbers: so are the ticks
  double first_pixel = 0, last_pixel = 1;

  double pixel(double value) const {
    const double scaled = log_scale ? std::log10(value) : value;
    return first_pixel + (scaled - range.low) / (range.high - range.low) * (last_pixel - first_pixel);
  }
};

/// Over all of these panels; the pixels are left for later.
Axis x_axis(std::span<const Panel> panels);
Axis y_axis(const Panel& panel, double top, double bottom);

struct Tick {
  double value;
  std::string label;
};

/// About so many.
std::vector<Tick> ticks_of(const Axis& axis, int about);

}  // namespace tools
