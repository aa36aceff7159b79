#include "io/progress_bar.hpp"

#include <algorithm>

namespace capstan::io {
namespace {

constexpr double kBetweenLooks = 1e-3;    // seconds
constexpr double kMostSteps = 1ll << 40;  // between two looks

}  // namespace

void Pace::start(std::int64_t done, double now) {
  time_ = now;
  done_ = done;
  step_ = 1;
}

std::int64_t Pace::next(std::int64_t done, double now) {
  const double passed = now - time_, steps = static_cast<double>(done) - static_cast<double>(done_);
  const double most = std::min(2 * static_cast<double>(step_), kMostSteps);
  const double wanted = passed > 0 ? steps * kBetweenLooks / passed : most;
  step_ = static_cast<std::int64_t>(std::clamp(wanted, 1.0, most));
  time_ = now;
  done_ = done;
  return done < kNever - step_ ? done + step_ : kNever;
}

ProgressFigures::Figure& ProgressFigures::find(std::string_view name) {
  const auto same = [&](const Figure& figure) { return figure.name == name; };
  const auto found = std::find_if(figures_.begin(), figures_.end(), same);
  if (found != figures_.end()) return *found;
  return figures_.emplace_back(Figure{std::string(name), std::nullopt, {}});
}

void ProgressFigures::set(std::string_view name, double value) {
  const std::lock_guard lock(mutex_);
  find(name).number = value;
}

void ProgressFigures::set(std::string_view name, std::string_view value) {
  const std::lock_guard lock(mutex_);
  Figure& figure = find(name);
  figure.text = value;
  figure.number.reset();
}

void ProgressFigures::clear() {
  const std::lock_guard lock(mutex_);
  figures_.clear();
}

std::string ProgressFigures::text() const {
  const std::lock_guard lock(mutex_);
  std::string line;
  for (const Figure& figure : figures_) {
    if (!line.empty()) line += "  ";
    line += figure.name + ' ' + (figure.number ? figure_text(*figure.number) : figure.text);
  }
  return printable(line);
}

}  // namespace capstan::io
