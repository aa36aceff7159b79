// Pictures of tables and points, as text. plot_run_test.py has those of curves.
#include <cmath>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/files.hpp"
#include "tools/chart_text.hpp"
#include "tools/heat_map.hpp"
#include "tools/scatter.hpp"

using Catch::Matchers::ContainsSubstring;

namespace {

int count_of(const std::string& part, const std::string& text) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

/// The value of an attribute behind a place in the text.
std::string attribute(const std::string& text, std::size_t from, const std::string& name) {
  const std::size_t begin = text.find(' ' + name + "=\"", from) + name.size() + 3;
  return text.substr(begin, text.find('"', begin) - begin);
}

/// The fill of each cell, row by row.
std::vector<std::string> fills_of(const std::string& picture) {
  std::vector<std::string> fills;
  const std::string cell = "<rect class=\"cell\"";
  for (std::size_t at = picture.find(cell); at != std::string::npos; at = picture.find(cell, at + 1))
    fills.push_back(attribute(picture, at, "fill"));
  return fills;
}

struct Name {
  double left, right, baseline;
};

/// Where the names of points stand.
std::vector<Name> names_of(const std::string& picture) {
  const std::size_t begin = picture.find("<g class=\"names\">");
  const std::string part = picture.substr(begin, picture.find("</g>", begin) - begin);
  std::vector<Name> names;
  for (std::size_t at = part.find("<text"); at != std::string::npos; at = part.find("<text", at + 1)) {
    const std::size_t text = part.find('>', at) + 1;
    const double left = std::stod(attribute(part, at, "x")), size = std::stod(attribute(part, at, "font-size"));
    const double width = tools::width_of(part.substr(text, part.find('<', text) - text), size);
    names.push_back({left, left + width, std::stod(attribute(part, at, "y"))});
  }
  return names;
}

bool overlap(const Name& a, const Name& b) {
  constexpr double kHeight = 11;
  return a.left < b.right && b.left < a.right && a.baseline - b.baseline < kHeight && b.baseline - a.baseline < kHeight;
}

int overlaps_of(const std::vector<Name>& names) {
  int count = 0;
  for (std::size_t i = 0; i < names.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) count += overlap(names[i], names[j]) ? 1 : 0;
  return count;
}

tools::HeatMap small_map() {
  return {.title = "attention",
          .x_label = "read",
          .y_label = "written",
          .columns = {"a", "b", "c"},
          .rows = {"x", "y"},
          .values = {0, 0.5, 1, -7, 3, HUGE_VAL}};
}

}  // namespace

TEST_CASE("a heat map has a cell for each value, the larger the darker", "[pictures][host]") {
  const std::string picture = tools::svg_of(small_map());
  const std::vector<std::string> fills = fills_of(picture);
  REQUIRE(fills.size() == 6);
  CHECK(fills[0] == "#ffffff");
  CHECK(fills[1] == "#93c5fd");  // the middle of five colours
  CHECK(fills[2] == "#1e3a8a");
  CHECK(fills[3] == fills[0]);   // below `low`
  CHECK(fills[4] == fills[2]);   // above `high`
  CHECK(fills[5] == "#d1d5db");  // no number
  for (const char* text : {">attention<", ">read<", ">written<", ">a<", ">c<", ">x<", ">y<", ">0.0<", ">1.0<"})
    CHECK_THAT(picture, ContainsSubstring(text));
  CHECK(picture == tools::svg_of(small_map()));
  CHECK(count_of("<g", picture) == count_of("</g>", picture));
  CHECK(picture.find("inf") == std::string::npos);
}

TEST_CASE("a heat map's colours span its limits, also where these are the same", "[pictures][host]") {
  tools::HeatMap map{.columns = {""}, .rows = {"", ""}, .values = {10, 30}, .low = 10, .high = 30};
  CHECK(fills_of(tools::svg_of(map)) == std::vector<std::string>{"#ffffff", "#1e3a8a"});
  map.high = 10;
  CHECK(fills_of(tools::svg_of(map))[0] == "#ffffff");
  CHECK(tools::svg_of(map).find("nan") == std::string::npos);
}

TEST_CASE("a heat map refuses values that are not as many as its cells", "[pictures][host][errors]") {
  tools::HeatMap map = small_map();
  map.values.pop_back();
  CHECK_THROWS_WITH(tools::svg_of(map), "a heat map of 2 rows and 3 columns has 5 values");
  map = small_map();
  map.high = HUGE_VAL;
  CHECK_THROWS_AS(tools::svg_of(map), std::invalid_argument);
}

TEST_CASE("heat maps of no cells and of very many are drawn, and names are escaped", "[pictures][host]") {
  CHECK(fills_of(tools::svg_of(tools::HeatMap{.title = "empty"})).empty());
  const std::vector<std::string> names(200, "<eos> & \"more\"");
  const tools::HeatMap large{.columns = names, .rows = names, .values = std::vector<double>(200 * 200, 0.25)};
  const std::string picture = tools::svg_of(large);
  CHECK(fills_of(picture).size() == 40000);
  CHECK(picture.find("<eos>") == std::string::npos);
  CHECK(count_of("&lt;eos&gt;", picture) < 100);  // every n-th: more have no room
  CHECK(count_of("&lt;eos&gt;", picture) > 40);
}

TEST_CASE("a scatter has a dot for each finite point in its group's colour", "[pictures][host]") {
  const tools::Scatter scatter{.title = "words",
                               .subtitle = "of a small text",
                               .x_label = "first",
                               .y_label = "second",
                               .points = {{0, 0, "king", 0}, {1, 1, "queen", 1}, {2, HUGE_VAL, "far", 1}, {3, 2}},
                               .groups = {"men", "women"}};
  const std::string picture = tools::svg_of(scatter);
  CHECK(count_of("fill-opacity=\"0.8\"", picture) == 3);
  CHECK(count_of("fill=\"#ea580c\"", picture) == 2);  // queen, and the legend
  for (const char* text : {">words<", ">of a small text<", ">first<", ">second<", ">men<", ">women<", ">queen</text>"})
    CHECK_THAT(picture, ContainsSubstring(text));
  CHECK(picture.find("far") == std::string::npos);
  CHECK(picture.find("inf") == std::string::npos);
  CHECK(names_of(picture).size() == 2);
  CHECK(picture == tools::svg_of(scatter));
}

TEST_CASE("names of points do not lie over each other", "[pictures][host]") {
  // 60 points on a spiral: crowded in its middle, with room around
  tools::Scatter scatter{.title = "spiral"};
  for (int i = 0; i < 60; ++i)
    scatter.points.push_back({i * std::cos(0.7 * i), i * std::sin(0.7 * i), "word" + std::to_string(i), i % 12});
  const std::vector<Name> names = names_of(tools::svg_of(scatter));
  CHECK(names.size() >= 50);
  CHECK(overlaps_of(names) == 0);
}

TEST_CASE("of points in one place some names are left out, but not their titles", "[pictures][host]") {
  tools::Scatter scatter;
  for (int i = 0; i < 100; ++i) scatter.points.push_back({1, 2, "name " + std::to_string(i)});
  const std::string picture = tools::svg_of(scatter);
  const std::vector<Name> names = names_of(picture);
  CHECK(names.size() >= 4);
  CHECK(names.size() < 100);
  CHECK(overlaps_of(names) == 0);
  CHECK(count_of("<title>name ", picture) == 100);
  CHECK(picture.find("nan") == std::string::npos);
  CHECK(names_of(tools::svg_of(tools::Scatter{})).empty());
}

TEST_CASE("pictures of tables and points are written whole or not at all", "[pictures][host][errors]") {
  const tests::TemporaryFolder folder;
  const std::string path = folder.path("map.svg");
  tools::write_svg(path, small_map());
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  CHECK(text.str() == tools::svg_of(small_map()));
  CHECK_THROWS_AS(tools::write_svg(folder.path("none/points.svg"), tools::Scatter{}), std::runtime_error);
}
