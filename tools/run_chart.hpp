#pragma once
// The curves of several runs as a chart: a panel for each tag, a curve for each run.
#include <string>
#include <vector>

#include <capstan/io/events.hpp>

#include "tools/chart.hpp"

namespace tools {

struct Run {
  std::string name;
  std::vector<capstan::io::ScalarCurve> curves;
};

struct RunChartOptions {
  std::vector<std::string> tags;  ///< patterns, any of which a tag must match; none for all tags
  double smooth = 0;              ///< the share of the past in each value: 0 to less than 1
  bool by_time = false;           ///< time since the run began, instead of steps
  bool log_scale = false;
  std::string title;  ///< empty: from the runs' names
};

/// The tags of all runs that are wanted, by patterns as `nn::matches` has them, in the order in which they first appear.
std::vector<std::string> tags_of(const std::vector<Run>& runs, const std::vector<std::string>& patterns);

/// The run's curve of that tag, or null.
const capstan::io::ScalarCurve* curve_of(const Run& run, const std::string& tag);

/// The mean of a value and of those before it, weighted by powers of `share`, and divided by the sum of the weights.
/// Values that are not finite stay as they are.
std::vector<double> smoothed(const std::vector<double>& values, double share);

Chart chart_of(const std::vector<Run>& runs, const RunChartOptions& options);

}  // namespace tools
