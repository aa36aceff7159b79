#pragma once
// A table of numbers as a picture, the larger the darker: what attention looks at, which class is taken for which.
#include <string>
#include <vector>

namespace tools {

struct HeatMap {
  std::string title = {}, x_label = {}, y_label = {};
  std::vector<std::string> columns = {}, rows = {};  ///< their names, which may be empty; they say how many there are
  std::vector<double> values = {};                   ///< row-major; those that are not finite are left grey
  double low = 0, high = 1;                          ///< what is white and what is darkest; beyond them nothing changes
};

/// The picture as a text: the same bytes for the same values. Throws std::invalid_argument unless there are rows times
/// columns values, and limits that can be drawn.
std::string svg_of(const HeatMap& map);
/// Throws std::runtime_error if the file cannot be written; it is then as it was.
void write_svg(const std::string& path, const HeatMap& map);

}  // namespace tools
