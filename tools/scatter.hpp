#pragma once
// Points in a plane as a picture, with names beside them where there is room: words, classes, data and what fits them.
#include <string>
#include <vector>

namespace tools {

struct Point {
  double x, y;
  std::string name = {};  ///< none if empty
  int group = 0;          ///< its colour; >= 0
};

struct Scatter {
  std::string title = {}, subtitle = {}, x_label = {}, y_label = {};
  std::vector<Point> points = {};        ///< those that are not finite are left out; later ones are drawn in front
  std::vector<std::string> groups = {};  ///< names of the groups, for a legend; none if empty
};

/// The picture as a text: the same bytes for the same points. Names do not lie over points or other names: each takes
/// the first free place around its point, in the order of the points. One that finds none is shown only by viewers that
/// show what the mouse points at.
std::string svg_of(const Scatter& scatter);
/// Throws std::runtime_error if the file cannot be written; it is then as it was.
void write_svg(const std::string& path, const Scatter& scatter);

}  // namespace tools
