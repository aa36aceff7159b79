#include "tools/run_chart.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <numeric>
#include <set>
#include <utility>

#include <capstan/nn/regularizer.hpp>

namespace tools {
namespace {

using capstan::io::ScalarCurve;

/// What the x axis counts, and how much of it a step or a second is.
struct Unit {
  std::string name;
  double size;
};

double start_of(const Run& run) {
  double start = HUGE_VAL;
  for (const ScalarCurve& curve : run.curves)
    for (const double time : curve.wall_times)
      if (std::isfinite(time)) start = std::min(start, time);
  return std::isfinite(start) ? start : 0;
}

Unit unit_of(const std::vector<Run>& runs, bool by_time) {
  if (!by_time) return {"step", 1};
  double longest = 0;
  for (const Run& run : runs) {
    const double start = start_of(run);
    for (const ScalarCurve& curve : run.curves)
      for (const double time : curve.wall_times)
        if (std::isfinite(time)) longest = std::max(longest, time - start);
  }
  constexpr double kMinute = 60, kHour = 3600;
  if (longest >= 2 * kHour) return {"hours since the run began", kHour};
  if (longest >= 2 * kMinute) return {"minutes since the run began", kMinute};
  return {"seconds since the run began", 1};
}

/// Points in the order of x; those of one x as they were logged.
void sort_points(Series& series) {
  const auto finite = [](double x) { return std::isfinite(x); };
  if (std::is_sorted(series.x.begin(), series.x.end()) || !std::all_of(series.x.begin(), series.x.end(), finite))
    return;
  std::vector<std::size_t> order(series.x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return series.x[a] < series.x[b]; });
  std::vector<double> x, y;
  for (const std::size_t place : order) {
    x.push_back(series.x[place]);
    y.push_back(series.y[place]);
  }
  series.x = std::move(x);
  series.y = std::move(y);
}

Series series_of(const Run& run, const ScalarCurve& curve, const RunChartOptions& options, const Unit& unit) {
  Series series{run.name, {}, {}};
  const double start = options.by_time ? start_of(run) : 0;
  for (std::size_t i = 0; i < curve.steps.size(); ++i) {
    const double x = options.by_time ? (curve.wall_times[i] - start) / unit.size : static_cast<double>(curve.steps[i]);
    series.add(x, curve.values[i]);
  }
  sort_points(series);
  if (options.smooth > 0) series.smooth = smoothed(series.y, options.smooth);
  return series;
}

}  // namespace

std::vector<std::string> tags_of(const std::vector<Run>& runs, const std::vector<std::string>& patterns) {
  std::vector<std::string> tags;
  std::set<std::string> seen;
  for (const Run& run : runs)
    for (const ScalarCurve& curve : run.curves) {
      const auto fits = [&](const std::string& pattern) { return capstan::nn::matches(curve.tag, pattern); };
      const bool wanted = patterns.empty() || std::any_of(patterns.begin(), patterns.end(), fits);
      if (wanted && seen.insert(curve.tag).second) tags.push_back(curve.tag);
    }
  return tags;
}

const ScalarCurve* curve_of(const Run& run, const std::string& tag) {
  const auto same = [&](const ScalarCurve& curve) { return curve.tag == tag; };
  const auto found = std::find_if(run.curves.begin(), run.curves.end(), same);
  return found == run.curves.end() ? nullptr : &*found;
}

std::vector<double> smoothed(const std::vector<double>& values, double share) {
  std::vector<double> result;
  double mean = 0, weight = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) {
      result.push_back(value);
      continue;
    }
    mean = share * mean + (1 - share) * value;
    weight = share * weight + (1 - share);
    result.push_back(mean / weight);
  }
  return result;
}

Chart chart_of(const std::vector<Run>& runs, const RunChartOptions& options) {
  const Unit unit = unit_of(runs, options.by_time);
  Chart chart{options.title, unit.name, {}};
  if (chart.title.empty()) chart.title = runs.size() == 1 ? runs[0].name : std::to_string(runs.size()) + " runs";
  if (options.smooth > 0) {
    char text[64];
    std::snprintf(text, sizeof text, "smoothed by %g; pale: as logged", options.smooth);
    chart.subtitle = text;
  }
  for (const std::string& tag : tags_of(runs, options.tags)) {
    Panel panel{.label = tag, .log_scale = options.log_scale};
    for (const Run& run : runs)
      if (const ScalarCurve* curve = curve_of(run, tag)) panel.series.push_back(series_of(run, *curve, options, unit));
    chart.panels.push_back(std::move(panel));
  }
  chart.columns = chart.panels.size() <= 2 ? 1 : chart.panels.size() <= 8 ? 2 : 3;
  chart.shared_x = options.by_time;
  chart.shared_legend = true;
  return chart;
}

}  // namespace tools
