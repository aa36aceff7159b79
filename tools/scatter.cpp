#include "tools/scatter.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <ostream>
#include <span>
#include <sstream>

#include "tools/chart.hpp"
#include "tools/chart_axes.hpp"
#include "tools/chart_text.hpp"
#include "tools/svg.hpp"

namespace tools {
namespace {

// Pixels.
constexpr double kWidth = 900, kHeight = 600, kLeft = 72, kRight = 32, kLine = 20;  // the second is of the plot
constexpr double kNameSize = 11, kNameHeight = 12;
constexpr double kBetween = 4;              // a point and its name
constexpr double kFarthest = 60;            // the same with a line between them
constexpr std::ptrdiff_t kClosePlaces = 8;  // the first, with no line between
constexpr std::size_t kLongestName = 32;    // characters
constexpr std::size_t kManyPoints = 1000;   // smaller ones from here on

struct Box {
  double left, top, width, height;
};

/// Which parts of the plot are taken, in squares of two pixels.
class Room {
 public:
  explicit Room(const Box& plot)
      : plot_(plot), columns_(squares(plot.width)), rows_(squares(plot.height)), taken_(columns_ * rows_) {}

  /// Whether the box lies in the plot and nothing is there.
  bool is_free(const Box& box) const {
    if (box.left < plot_.left || box.top < plot_.top || box.left + box.width > plot_.left + plot_.width ||
        box.top + box.height > plot_.top + plot_.height)
      return false;
    bool taken = false;
    for_each_square(box, [&](std::size_t square) { taken = taken || taken_[square]; });
    return !taken;
  }
  void take(const Box& box) {
    for_each_square(box, [&](std::size_t square) { taken_[square] = true; });
  }

 private:
  static constexpr double kSquare = 2;
  static std::size_t squares(double pixels) { return static_cast<std::size_t>(std::ceil(pixels / kSquare)); }
  /// The square that a place lies in; one outside is taken to the border.
  static std::size_t square_of(double place, std::size_t count) {
    return std::min(static_cast<std::size_t>(std::max(place, 0.0) / kSquare), count - 1);
  }
  template <class F>
  void for_each_square(const Box& box, const F& f) const {
    const double x = box.left - plot_.left, y = box.top - plot_.top;
    const std::size_t first = square_of(x, columns_), last = square_of(x + box.width, columns_);
    const std::size_t bottom = square_of(y + box.height, rows_);
    for (std::size_t row = square_of(y, rows_); row <= bottom; ++row)
      for (std::size_t column = first; column <= last; ++column) f(row * columns_ + column);
  }

  Box plot_;
  std::size_t columns_, rows_;
  std::vector<bool> taken_;
};

struct Dot {
  double x, y;
  const Point* point;
  const char* color() const { return style_of(static_cast<std::size_t>(std::max(point->group, 0))).color; }
};

/// Both axes have room around the points.
struct Axes {
  Axis x, y;
};

Axes axes_of(const std::vector<Point>& points, const Box& plot) {
  Series series;
  for (const Point& point : points)
    if (usable(point.x, false) && usable(point.y, false)) series.add(point.x, point.y);
  const Panel panel{.label = "", .series = {series}};
  Axes axes{x_axis(std::span(&panel, 1)), y_axis(panel, plot.top, plot.top + plot.height)};
  Range& range = axes.x.range;
  const double margin = 0.04 * (range.high - range.low);
  range = {range.low - margin, range.high + margin};
  axes.x.first_pixel = plot.left;
  axes.x.last_pixel = plot.left + plot.width;
  return axes;
}

// --- what is drawn -----------------------------------------------------------------------------------------------

void draw_frame(std::ostream& out, const Box& plot, const Axes& axes) {
  const double bottom = plot.top + plot.height, right = plot.left + plot.width;
  const Style grid{kGrid, ""}, pale{kPale, ""};
  out << "<rect x=\"" << plot.left << "\" y=\"" << plot.top << "\" width=\"" << plot.width << "\" height=\""
      << plot.height << "\" fill=\"#ffffff\" stroke=\"" << kGrid << "\"/>\n";
  for (const Tick& tick : ticks_of(axes.y, 7)) {
    draw_line(out, plot.left, axes.y.pixel(tick.value), right, axes.y.pixel(tick.value), grid, 1);
    draw_text(out, plot.left - 8, axes.y.pixel(tick.value) + 4, tick.label, {.anchor = "end"});
  }
  for (const Tick& tick : ticks_of(axes.x, 8)) {
    draw_line(out, axes.x.pixel(tick.value), plot.top, axes.x.pixel(tick.value), bottom, grid, 1);
    draw_text(out, axes.x.pixel(tick.value), bottom + 18, tick.label, {.anchor = "middle"});
  }
  draw_line(out, plot.left, bottom, right, bottom, pale, 1);
  draw_line(out, plot.left, plot.top, plot.left, bottom, pale, 1);
}

void draw_dots(std::ostream& out, const std::vector<Dot>& dots, double radius) {
  for (const Dot& dot : dots) {
    out << "<circle cx=\"" << dot.x << "\" cy=\"" << dot.y << "\" r=\"" << radius << "\" fill=\"" << dot.color()
        << "\" fill-opacity=\"0.8\">";
    if (!dot.point->name.empty()) out << "<title>" << xml_text(dot.point->name) << "</title>";
    out << "</circle>\n";
  }
}

/// Places for a name around its point, the best first: close, then farther away.
std::vector<Box> places_around(const Dot& dot, double radius, double width) {
  std::vector<Box> places;
  for (double away = radius + kBetween; away <= kFarthest; away += 8) {
    const double right = dot.x + away, left = dot.x - away - width, middle = dot.y - kNameHeight / 2;
    const double above = dot.y - away - kNameHeight, below = dot.y + away, slant = 0.7 * away;
    for (const Box& place :
         {Box{right, middle, width, kNameHeight}, Box{left, middle, width, kNameHeight},
          Box{dot.x - width / 2, above, width, kNameHeight}, Box{dot.x - width / 2, below, width, kNameHeight},
          Box{dot.x + slant, dot.y - slant - kNameHeight, width, kNameHeight},
          Box{dot.x - slant - width, dot.y - slant - kNameHeight, width, kNameHeight},
          Box{dot.x + slant, dot.y + slant, width, kNameHeight},
          Box{dot.x - slant - width, dot.y + slant, width, kNameHeight}})
      places.push_back(place);
  }
  return places;
}

/// From the point to the nearest place of its name.
void draw_pointer(std::ostream& out, const Dot& dot, const Box& box) {
  const double x = std::clamp(dot.x, box.left, box.left + box.width);
  const double y = std::clamp(dot.y, box.top, box.top + box.height);
  draw_line(out, dot.x, dot.y, x, y, {kPale, ""}, 0.6);
}

void draw_names(std::ostream& out, const std::vector<Dot>& dots, const Box& plot, double radius) {
  Room room(plot);
  for (const Dot& dot : dots) room.take({dot.x - radius, dot.y - radius, 2 * radius, 2 * radius});
  out << "<g class=\"names\">\n";
  for (const Dot& dot : dots) {
    const std::string name = shortened(dot.point->name, kLongestName);
    if (name.empty()) continue;
    const std::vector<Box> places = places_around(dot, radius, width_of(name, kNameSize));
    const auto place = std::find_if(places.begin(), places.end(), [&](const Box& box) { return room.is_free(box); });
    if (place == places.end()) continue;
    room.take(*place);
    if (place - places.begin() >= kClosePlaces) draw_pointer(out, dot, *place);
    draw_text(out, place->left, place->top + kNameHeight - 2.5, name, {.size = kNameSize, .color = kInk});
  }
  out << "</g>\n";
}

/// The height that it takes.
double draw_legend(std::ostream& out, const std::vector<std::string>& groups, double top) {
  if (groups.empty()) return 0;
  double x = kLeft, y = top;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::string name = shortened(groups[i], kLongestName);
    const double width = 12 + width_of(name, kFontSize) + 20;
    if (x > kLeft && x + width > kWidth - kRight) {
      x = kLeft;
      y += kLine;
    }
    out << "<circle cx=\"" << x + 4 << "\" cy=\"" << y - 4 << "\" r=\"4\" fill=\"" << style_of(i).color << "\"/>\n";
    draw_text(out, x + 14, y, name, {.color = kInk});
    x += width;
  }
  return y + kLine - top;
}

/// Names of the axes.
void draw_labels(std::ostream& out, const Scatter& scatter, const Box& plot) {
  const TextStyle style{.size = 13, .anchor = "middle", .color = kInk, .bold = true};
  if (!scatter.x_label.empty())
    draw_text(out, plot.left + plot.width / 2, plot.top + plot.height + 42, scatter.x_label, style);
  if (scatter.y_label.empty()) return;
  out << "<g transform=\"translate(" << 22.0 << ' ' << plot.top + plot.height / 2 << ") rotate(-90)\">";
  draw_text(out, 0, 0, scatter.y_label, style);
  out << "</g>\n";
}

}  // namespace

std::string svg_of(const Scatter& scatter) {
  std::ostringstream body;
  set_decimals(body, 2);
  double y = 42;
  const auto most = static_cast<std::size_t>((kWidth - kLeft - kRight) / width_of("x", 20));
  draw_text(body, kLeft, y, shortened(scatter.title, most), {.size = 20, .color = kInk, .bold = true});
  y += 24;
  if (!scatter.subtitle.empty()) {
    draw_text(body, kLeft, y, scatter.subtitle, {});
    y += kLine;
  }
  y += draw_legend(body, scatter.groups, y + 2);

  const Box plot{kLeft, y, kWidth - kLeft - kRight, kHeight};
  const Axes axes = axes_of(scatter.points, plot);
  std::vector<Dot> dots;
  for (const Point& point : scatter.points)
    if (usable(point.x, false) && usable(point.y, false))
      dots.push_back({axes.x.pixel(point.x), axes.y.pixel(point.y), &point});
  const double radius = dots.size() < kManyPoints ? 3.2 : 2;
  draw_frame(body, plot, axes);
  draw_labels(body, scatter, plot);
  draw_dots(body, dots, radius);
  draw_names(body, dots, plot, radius);
  return svg_of(scatter.title, kWidth, plot.top + plot.height + (scatter.x_label.empty() ? 36 : 58), body.str());
}

void write_svg(const std::string& path, const Scatter& scatter) { write_picture(path, svg_of(scatter)); }

}  // namespace tools
