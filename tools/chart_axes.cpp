#include "tools/chart_axes.hpp"

#include <cstddef>
#include <cstdio>

namespace tools {
namespace {

constexpr double kLargest = 1e300;      // more, and differences could overflow
constexpr double kNarrow = 1e-9;        // what is narrower, of the values, counts as one value
constexpr std::size_t kMostTicks = 50;  // whatever happens
constexpr double kFewDecades = 2.5;     // 2 and 5 times powers of ten fit between them
constexpr double kPartOfADecade = 0.8;  // too few powers of ten: multiples as on a linear axis

/// Room around a single value; decades if they are logarithms.
Range widened(Range range, double around) {
  const double size = std::max(std::abs(range.low), std::abs(range.high));
  if (range.high - range.low > kNarrow * size) return range;
  const double room = std::max(around, kNarrow * size);  // 1 beside 2^60 is none
  return {range.low - room, range.high + room};
}

std::string printed(double value, int decimals) {
  char text[400];
  std::snprintf(text, sizeof text, "%.*f", decimals, value == 0 ? 0.0 : value);  // never "-0"
  return text;
}

/// "2.5e-7".
std::string printed_short(double value, int decimals) {
  if (value == 0) return "0";
  char text[64];
  std::snprintf(text, sizeof text, "%.*e", decimals, value);
  std::string result = text;
  const std::size_t exponent = result.find('e');
  std::string digits = result.substr(exponent + 2);
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  return result.substr(0, exponent + 1) + (result[exponent + 1] == '-' ? "-" : "") + digits;
}

int digits_below(double step) { return static_cast<int>(-std::floor(std::log10(step) + 1e-9)); }

/// One of several numbers that are `step` apart, the largest of which is `largest`.
std::string label_of(double value, double step, double largest) {
  struct Unit {
    double size;
    const char* name;
  };
  constexpr Unit kUnits[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  constexpr double kHardlyReadable = 1e12, kTiny = 1e-3;
  if (largest >= kHardlyReadable || largest < kTiny) {
    const double leading = value == 0 ? 0 : std::floor(std::log10(std::abs(value)) + 1e-9);
    return printed_short(value, std::clamp(static_cast<int>(leading) + digits_below(step), 0, 12));
  }
  for (const Unit& unit : kUnits) {
    const double least = unit.size == 1e3 ? 1e4 : unit.size;
    if (largest < least || step * 100 < unit.size) continue;
    if (value == 0) return "0";
    return printed(value / unit.size, std::clamp(digits_below(step / unit.size), 0, 12)) + unit.name;
  }
  return printed(value, std::clamp(digits_below(step), 0, 12));
}

/// Multiples of 1, 2 or 5 times a power of ten.
std::vector<Tick> linear_ticks(const Range& range, int about, bool whole) {
  const double rough = (range.high - range.low) / about;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = power * (rough <= power ? 1 : rough <= 2 * power ? 2 : rough <= 5 * power ? 5 : 10);
  if (whole) step = std::max(step, 1.0);
  const double slack = 1e-9 * step, largest = std::max(std::abs(range.low), std::abs(range.high));
  std::vector<Tick> ticks;
  for (double i = std::ceil((range.low - slack) / step); i * step <= range.high + slack; ++i) {
    if (ticks.size() == kMostTicks) break;
    ticks.push_back({i * step, label_of(i * step, step, largest)});
  }
  return ticks;
}

/// Powers of ten, with 2 and 5 times them where there are few.
std::vector<Tick> log_ticks(const Range& range, int about) {
  if (range.high - range.low < kPartOfADecade) {
    std::vector<Tick> ticks = linear_ticks({std::pow(10.0, range.low), std::pow(10.0, range.high)}, about, false);
    std::erase_if(ticks, [](const Tick& tick) { return !usable(tick.value, true); });
    return ticks;
  }
  const int first = static_cast<int>(std::floor(range.low)), last = static_cast<int>(std::ceil(range.high));
  const bool fine = range.high - range.low < kFewDecades;
  const int stride = std::max(1, (last - first) / 8);
  std::vector<Tick> ticks;
  for (int decade = first; decade <= last; decade += stride)
    for (const int factor : {1, 2, 5}) {
      const double value = factor * std::pow(10.0, decade), place = std::log10(value);
      if ((factor != 1 && !fine) || place < range.low - 1e-9 || place > range.high + 1e-9) continue;
      ticks.push_back({value, label_of(value, value, value)});
    }
  return ticks;
}

}  // namespace

bool usable(double value, bool log_scale) {
  return std::isfinite(value) && std::abs(value) < kLargest && (!log_scale || value > 1 / kLargest);
}

Axis x_axis(std::span<const Panel> panels) {
  Axis axis;
  axis.whole = true;
  for (const Panel& panel : panels)
    for (const Series& series : panel.series)
      for (const double x : series.x) {
        if (!usable(x, false)) continue;
        axis.range.add(x);
        axis.whole = axis.whole && x == std::floor(x);
      }
  if (axis.range.low > axis.range.high) axis.range = {0, 1};
  axis.range = widened(axis.range, axis.whole ? 1 : std::max(0.5, 0.1 * std::abs(axis.range.low)));
  return axis;
}

Axis y_axis(const Panel& panel, double top, double bottom) {
  Axis axis;
  axis.log_scale = panel.log_scale;
  axis.first_pixel = bottom;
  axis.last_pixel = top;
  const auto scaled = [&](double value) { return panel.log_scale ? std::log10(value) : value; };
  const auto add = [&](const std::vector<double>& values) {
    for (const double value : values)
      if (usable(value, panel.log_scale)) axis.range.add(scaled(value));
  };
  for (const Series& series : panel.series) {
    add(series.y);
    add(series.smooth);
  }
  Range& range = axis.range;
  if (range.low > range.high) range = {0, 1};
  range = widened(range, panel.log_scale ? 0.5 : range.low == 0 ? 1 : 0.1 * std::abs(range.low));
  const double margin = 0.06 * (range.high - range.low);
  range = {range.low - margin, range.high + margin};
  if (usable(panel.low, panel.log_scale)) range.low = scaled(panel.low);
  if (usable(panel.high, panel.log_scale)) range.high = scaled(panel.high);
  if (!(range.low < range.high)) range.high = range.low + 1;
  return axis;
}

std::vector<Tick> ticks_of(const Axis& axis, int about) {
  return axis.log_scale ? log_ticks(axis.range, about) : linear_ticks(axis.range, about, axis.whole);
}

}  // namespace tools
