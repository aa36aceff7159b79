// How values change from step to step.
#include <capstan/debug.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <ostream>
#include <string>
#include <vector>

#include "autograd/debug_text.hpp"
#include "autograd/debug_values.hpp"
#include "lib/base/text.hpp"

namespace capstan::debug {
namespace {

constexpr std::size_t kMostRows = 256;
constexpr std::size_t kSparks = 16;

struct Series {
  std::string shape;
  std::vector<WatchedRow> rows;  // of every `stride`-th step
  WatchedRow last;
  std::int64_t steps = 0, stride = 1;
  std::int64_t first_bad = -1;  // the first step with a value that was no number

  void add(WatchedRow row) {
    row.step = steps++;
    if (first_bad < 0 && row.nan + row.infinite > 0) first_bad = row.step;
    if (row.step % stride == 0) {
      if (rows.size() == kMostRows) thin_out();
      if (row.step % stride == 0) rows.push_back(row);
    }
    last = row;
  }

  std::vector<WatchedRow> all_rows() const {
    std::vector<WatchedRow> all = rows;
    if (all.empty() || all.back().step != last.step) all.push_back(last);
    return all;
  }

 private:
  void thin_out() {
    stride *= 2;
    std::erase_if(rows, [this](const WatchedRow& row) { return row.step % stride != 0; });
  }
};

struct Watches {
  std::mutex mutex;
  std::map<std::string, Series> series;
};
Watches& watches() {
  static auto* const instance = new Watches;
  return *instance;
}

WatchedRow row_of(const Tensor& tensor, Where where) {
  const autograd::Figures f = autograd::figures_of(tensor, where);
  return {.min = f.low,
          .max = f.high,
          .mean = f.mean,
          .stddev = f.deviation,
          .count = f.count,
          .nan = f.nan,
          .infinite = f.infinite,
          .zero_share = f.count > 0 ? static_cast<double>(f.zeros) / static_cast<double>(f.count) : 0};
}

/// The course of the means as bars of eight heights; a cross where there was none.
std::string sparks_of(const std::vector<WatchedRow>& rows) {
  constexpr const char* kBars[] = {"\u2581", "\u2582", "\u2583", "\u2584", "\u2585", "\u2586", "\u2587", "\u2588"};
  const std::size_t count = std::min(rows.size(), kSparks);
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (const WatchedRow& row : rows)
    if (!std::isnan(row.mean)) low = std::min(low, row.mean), high = std::max(high, row.mean);
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    const double mean = rows[count == 1 ? 0 : i * (rows.size() - 1) / (count - 1)].mean;
    const double reach = high / 2 - low / 2;  // of numbers near the largest, the whole could be infinite
    const double height = reach > 0 ? (mean / 2 - low / 2) / reach : 0.5;
    text += std::isnan(mean) ? "x" : kBars[static_cast<std::size_t>(height * 7 + 0.5)];
  }
  return text;
}

std::string change_of(double first, double last) {
  return autograd::short_text(first) + " -> " + autograd::short_text(last);
}

}  // namespace

void watch(const std::string& name, const Tensor& tensor, Where where) {
  const TensorImpl& impl = core::described("debug::watch", tensor, where);
  const std::string shape = to_string(impl.shape);
  const WatchedRow row = row_of(tensor, where);
  Watches& all = watches();
  const std::lock_guard lock(all.mutex);
  Series& series = all.series[name];
  series.shape = shape;
  series.add(row);
}

std::vector<WatchedRow> history(const std::string& name, Where where) {
  Watches& all = watches();
  const std::lock_guard lock(all.mutex);
  const auto found = all.series.find(name);
  if (found == all.series.end())
    base::fail<Error>(where, "debug::history: nothing is watched under the name ", name,
                      "; call debug::watch with it first.");
  return found->second.all_rows();
}

std::string watched() {
  std::vector<std::vector<std::string>> table = {
      {"name", "shape", "steps", "min", "max", "mean", "std", "zeros", "nan", "inf", "first bad", "mean over time"}};
  Watches& all = watches();
  const std::lock_guard lock(all.mutex);
  for (const auto& [name, series] : all.series) {
    const std::vector<WatchedRow> rows = series.all_rows();
    const WatchedRow &first = rows.front(), &last = rows.back();
    table.push_back({name, series.shape, std::to_string(series.steps), change_of(first.min, last.min),
                     change_of(first.max, last.max), change_of(first.mean, last.mean),
                     change_of(first.stddev, last.stddev), autograd::fixed_text(100 * last.zero_share, 1) + "%",
                     std::to_string(last.nan), std::to_string(last.infinite),
                     series.first_bad < 0 ? "-" : std::to_string(series.first_bad), sparks_of(rows)});
  }
  return autograd::table_text(table, 1u << 0 | 1u << 1 | 1u << 11);
}

void print_watched(std::ostream& out) { out << watched(); }

void clear_watched() {
  Watches& all = watches();
  const std::lock_guard lock(all.mutex);
  all.series.clear();
}

}  // namespace capstan::debug
