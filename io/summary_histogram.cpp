// Histograms as TensorBoard has them, computed where the tensor is.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <capstan/ops/elementwise.hpp>
#include <capstan/ops/order.hpp>
#include <capstan/ops/reduce.hpp>
#include <capstan/ops/shaping.hpp>
#include <capstan/sparse.hpp>

#include "io/summary_parts.hpp"
#include "lib/base/text.hpp"

namespace capstan::io {
namespace {

/// The elements that are neither NaN nor infinite, as float64 [n]. Row slices stay what they are.
Tensor finite_elements(const Tensor& values, Where where) {
  const std::optional<RowSlices> slices = find_row_slices(values, where);
  const Tensor whole = slices.has_value() ? from_row_slices(*slices, values.shape(where), where) : values;
  const Tensor flat = flatten(whole, 0, -1, where).to(DType::float64, where);
  if (!is_floating(values.dtype(where))) return flat;
  const Tensor mask = isfinite(flat, where);
  const std::int64_t count = sum(mask, {}, {}, where).item<std::int64_t>(where);
  return count == flat.numel(where) ? flat : flat.index({mask}, where);
}

/// Whether the edges of so many bins are different numbers.
bool divides(double low, double high, std::int64_t bins) {
  using Limits = std::numeric_limits<double>;
  const double width = (high - low) / static_cast<double>(bins), largest = std::max(std::abs(low), std::abs(high));
  return std::isfinite(width) && width > std::max(4 * Limits::epsilon() * largest, Limits::min());
}

}  // namespace

HistogramSummary summarize_histogram(const char* op, const Tensor& values, std::int64_t bins, Where where) {
  check_defined(op, values, where);
  if (bins < 1) base::fail<Error>(where, op, ": ", bins, " bins were asked for; there must be at least 1.");
  const NoGrad off;
  const Tensor elements = finite_elements(values, where);
  HistogramSummary summary;
  summary.count = static_cast<double>(elements.numel(where));
  if (elements.numel(where) == 0) return summary;
  summary.min = min(elements, {}, {}, where).item<double>(where);
  summary.max = max(elements, {}, {}, where).item<double>(where);
  summary.sum = sum(elements, {}, {}, where).item<double>(where);
  summary.sum_squares = sum(square(elements, where), {}, {}, where).item<double>(where);
  if (!divides(summary.min, summary.max, bins)) {
    summary.limits = {summary.max};
    summary.counts = {summary.count};
    return summary;
  }
  const HistogramResult bars = histogram(elements, bins, summary.min, summary.max, Tensor(), where);
  const std::vector<double> edges = bars.edges.to(cpu(), where).to_vector<double>(where);
  summary.limits.assign(edges.begin() + 1, edges.end());
  for (const std::int64_t count : bars.counts.to(cpu(), where).to_vector<std::int64_t>(where))
    summary.counts.push_back(static_cast<double>(count));
  return summary;
}

}  // namespace capstan::io
