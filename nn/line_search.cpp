#include "nn/line_search.hpp"

#include <algorithm>
#include <cmath>

namespace capstan::optim {
namespace {

constexpr double kDecrease = 1e-4, kCurvature = 0.9;
constexpr double kShortest = 1e-9;  // a bracket in which no element moves by more is not searched
constexpr int kMostTrials = 25;

/// Less decrease than the slope at the start promises, or no number.
bool is_too_high(const Trial& start, const Trial& x) {
  return !(x.loss <= start.loss + kDecrease * x.step * start.slope);
}
/// Which of two has the lower loss; the first if they are equal.
int lower_of(const Trial (&ends)[2]) { return !(ends[0].loss <= ends[1].loss) && !std::isnan(ends[1].loss) ? 1 : 0; }
bool is_flat(const Trial& start, const Trial& x) { return std::fabs(x.slope) <= -kCurvature * start.slope; }

/// The minimum of the cubic that has the values and slopes of both, within [low, high]; its middle if there is none.
double cubic_minimum(const Trial& a, const Trial& b, double low, double high) {
  const double d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.step - b.step);
  const double square = d1 * d1 - a.slope * b.slope;
  if (!(square >= 0)) return (low + high) / 2;
  const double d2 = std::sqrt(square);
  const Trial &left = a.step <= b.step ? a : b, &right = a.step <= b.step ? b : a;
  const double place =
      right.step - (right.step - left.step) * ((right.slope + d2 - d1) / (right.slope - left.slope + 2 * d2));
  return std::isnan(place) ? (low + high) / 2 : std::min(std::max(place, low), high);
}

/// A step inside of the bracket. If the interpolation stays close to an end twice in a row, one a tenth away from it.
double step_inside(const Trial (&ends)[2], bool& close) {
  const double low = std::min(ends[0].step, ends[1].step), high = std::max(ends[0].step, ends[1].step);
  const double step = cubic_minimum(ends[0], ends[1], low, high), margin = 0.1 * (high - low);
  if (std::min(high - step, step - low) >= margin) {
    close = false;
    return step;
  }
  if (!close && step < high && step > low) {
    close = true;
    return step;
  }
  close = false;
  return std::fabs(step - high) < std::fabs(step - low) ? high - margin : low + margin;
}

/// Narrows a bracket until its lower end is good enough.
Trial narrow_down(const LineTask& task, Trial first, Trial second, int tries, std::int64_t& evaluations) {
  Trial ends[2] = {std::move(first), std::move(second)};
  int low = lower_of(ends);
  bool close = false;
  for (; tries < kMostTrials && std::fabs(ends[1].step - ends[0].step) * task.size >= kShortest; ++tries) {
    Trial next = task.at(step_inside(ends, close));
    ++evaluations;
    const int high = 1 - low;
    if (is_too_high(task.start, next) || next.loss >= ends[low].loss) {
      ends[high] = std::move(next);
      low = lower_of(ends);
      continue;
    }
    const bool done = is_flat(task.start, next);
    if (!done && next.slope * (ends[high].step - ends[low].step) >= 0) ends[high] = ends[low];
    ends[low] = std::move(next);
    if (done) break;
  }
  return ends[low];
}

}  // namespace

LineResult search_strong_wolfe(const LineTask& task) {
  Trial before = task.start, now = task.at(task.first);
  std::int64_t evaluations = 1;
  int tries = 0;
  for (; tries < kMostTrials; ++tries, ++evaluations) {
    if (is_too_high(task.start, now) || (tries > 1 && now.loss >= before.loss)) break;
    if (is_flat(task.start, now)) return {now, evaluations};
    if (now.slope >= 0) break;
    const double step = cubic_minimum(before, now, now.step + 0.01 * (now.step - before.step), 10 * now.step);
    before = std::move(now);
    now = task.at(step);
  }
  if (tries == kMostTrials) return {now.loss < task.start.loss ? now : task.start, evaluations};
  Trial best = narrow_down(task, std::move(before), std::move(now), tries, evaluations);
  return {std::move(best), evaluations};
}

}  // namespace capstan::optim
