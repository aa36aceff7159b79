// capstan-plot-run: draws the curves of training runs from TensorBoard's event files.
// Prints: for each tag and run how many points there are, at which steps, the last and the best value.
// Exits:  0; 1 if a run could not be read and the others were drawn; 2 if nothing was, or what it prints was lost.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include <capstan/error.hpp>
#include <capstan/io/events.hpp>

#include "tools/chart.hpp"
#include "tools/chart_text.hpp"
#include "tools/run_chart.hpp"
#include "tools/run_folders.hpp"

namespace tools {
namespace {

struct Arguments {
  std::vector<std::string> paths;
  std::string output = "curves.svg", tags, x = "step";
  RunChartOptions chart;
};

/// A message of the library without the place in this program.
std::string without_place(const std::string& message) {
  const std::size_t open = message.rfind(" (");
  if (open == std::string::npos || message.back() != ')' || message.find(".cpp:", open) == std::string::npos)
    return message;
  return message.substr(0, open);
}

void complain(const std::string& text) { std::fprintf(stderr, "capstan-plot-run: %s\n", plain_text(text).c_str()); }

/// The parts between commas.
std::vector<std::string> patterns_in(const std::string& text) {
  std::vector<std::string> patterns;
  for (std::size_t begin = 0; begin <= text.size() && !text.empty();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) patterns.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return patterns;
}

/// All that can be read; what cannot is said.
std::vector<Run> read_runs(const std::vector<std::string>& paths, bool& all_read) {
  const std::vector<std::string> folders = find_runs(paths), names = names_of(folders);
  std::vector<Run> runs;
  for (std::size_t i = 0; i < folders.size(); ++i) {
    try {
      runs.push_back({names[i], capstan::io::read_scalars(folders[i])});
      if (!runs.back().curves.empty()) continue;
      runs.pop_back();
      complain(folders[i] + ": there are no scalars; it is left out.");
    } catch (const capstan::IoError& error) {
      complain(without_place(error.what()) + " The run is left out.");
      all_read = false;
    }
  }
  if (runs.empty()) throw std::runtime_error("there is nothing to draw.");
  return runs;
}

void print_curve(const std::string& name, const capstan::io::ScalarCurve& curve) {
  std::size_t finite = 0, lowest = 0;
  for (std::size_t i = 0; i < curve.values.size(); ++i) {
    if (!std::isfinite(curve.values[i])) continue;
    if (finite++ == 0 || curve.values[i] < curve.values[lowest]) lowest = i;
  }
  const auto [first, last] = std::minmax_element(curve.steps.begin(), curve.steps.end());
  std::printf("  %s: %zu point%s, steps %lld to %lld, last %.6g", plain_text(name).c_str(), curve.steps.size(),
              curve.steps.size() == 1 ? "" : "s", static_cast<long long>(*first), static_cast<long long>(*last),
              curve.values.back());
  if (finite > 1)
    std::printf(", lowest %.6g at step %lld", curve.values[lowest], static_cast<long long>(curve.steps[lowest]));
  if (finite < curve.values.size()) std::printf(", %zu not finite", curve.values.size() - finite);
  std::printf("\n");
}

[[noreturn]] void fail_for_tags(const std::vector<Run>& runs, const std::string& wanted) {
  std::string known;
  for (const std::string& tag : tags_of(runs, {})) known += "\n  " + plain_text(tag);
  std::fprintf(stderr, "capstan-plot-run: no tag fits '%s'; there are:%s\n", wanted.c_str(), known.c_str());
  throw std::runtime_error("there is nothing to draw.");
}

bool ends_with_svg(const std::string& path) { return path.size() >= 4 && path.substr(path.size() - 4) == ".svg"; }

int draw_runs(Arguments& arguments) {
  if (!ends_with_svg(arguments.output))
    throw std::runtime_error("--output " + arguments.output +
                             ": the name must end in .svg, which is what is drawn; scripts/plot-run makes .png of it.");
  arguments.chart.tags = patterns_in(arguments.tags);
  arguments.chart.by_time = arguments.x == "time";
  bool all_read = true;
  const std::vector<Run> runs = read_runs(arguments.paths, all_read);
  const std::vector<std::string> tags = tags_of(runs, arguments.chart.tags);
  if (tags.empty()) fail_for_tags(runs, arguments.tags);
  for (const std::string& tag : tags) {
    std::printf("%s\n", plain_text(tag).c_str());
    for (const Run& run : runs)
      if (const capstan::io::ScalarCurve* curve = curve_of(run, tag)) print_curve(run.name, *curve);
  }
  write_svg(arguments.output, chart_of(runs, arguments.chart));
  std::printf("%s: %zu tag%s of %zu run%s\n", arguments.output.c_str(), tags.size(), tags.size() == 1 ? "" : "s",
              runs.size(), runs.size() == 1 ? "" : "s");
  return all_read ? 0 : 1;
}

void describe(CLI::App& app, Arguments& arguments) {
  app.name("capstan-plot-run");
  app.add_option("RUN", arguments.paths, "event files, or folders that hold runs at any depth")->required();
  app.add_option("-o,--output", arguments.output, "the picture, an SVG file")->capture_default_str();
  app.add_option("--tags", arguments.tags, "patterns with * and ?, separated by commas: 'loss*,accuracy/test'");
  app.add_option("--smooth", arguments.chart.smooth, "0 to 0.999: how much of each value is of those before it")
      ->check(CLI::Range(0.0, 0.999))
      ->capture_default_str();
  app.add_option("--x", arguments.x, "step or time")->check(CLI::IsMember({"step", "time"}))->capture_default_str();
  app.add_flag("--log", arguments.chart.log_scale, "values on a logarithmic scale");
  app.add_option("--title", arguments.chart.title, "of the picture");
}

}  // namespace
}  // namespace tools

int main(int argc, char** argv) {
  tools::Arguments arguments;
  CLI::App app{
      "Draws the curves of training runs from TensorBoard's event files: a panel for each tag, a curve for "
      "each run."};
  try {
    tools::describe(app, arguments);
    app.parse(argc, argv);
    const int result = tools::draw_runs(arguments);
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      throw std::runtime_error("the output cannot be written; its disk must have room for it.");
    return result;
  } catch (const CLI::ParseError& error) { return app.exit(error) == 0 ? 0 : 2; } catch (const std::exception& error) {
    tools::complain(tools::without_place(error.what()));
    return 2;
  }
}
