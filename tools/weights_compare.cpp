// capstan-weights compare.
#include "tools/weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <stdexcept>

namespace cs = capstan;

namespace weights_tool {
namespace {

/// How two lists of values differ. NaN equals NaN.
struct Difference {
  double absolute = 0, relative = 0;  // the largest
  std::int64_t count = 0;             // of values that differ by more than is allowed
  std::int64_t not_a_number = 0;      // of places with a NaN in one alone

  void add(double distance, double larger, const CompareOptions& options) {
    absolute = std::max(absolute, distance);
    relative = std::max(relative, larger > 0 ? distance / larger : distance);
    const bool allowed = std::isfinite(distance) && distance <= options.absolute + options.relative * larger;
    count += allowed ? 0 : 1;
  }
  void add_values(double a, double b, const CompareOptions& options) {
    if (a == b || (std::isnan(a) && std::isnan(b))) return;
    if (std::isnan(a) || std::isnan(b)) {
      ++not_a_number;
      ++count;
    } else {
      const double larger = std::max(std::fabs(a), std::fabs(b));
      add(std::fabs(a - b), std::isfinite(larger) ? larger : 0, options);
    }
  }
  void add_values(std::int64_t a, std::int64_t b, const CompareOptions& options) {
    if (a == b) return;
    const auto low = static_cast<std::uint64_t>(std::min(a, b)), high = static_cast<std::uint64_t>(std::max(a, b));
    const double larger = std::max(std::fabs(static_cast<double>(a)), std::fabs(static_cast<double>(b)));
    add(static_cast<double>(high - low), larger, options);
  }
};

template <class T>
Difference difference_in(const cs::Tensor& a, const cs::Tensor& b, const CompareOptions& options) {
  const cs::Tensor flat = cs::reshape(b, {b.numel()});
  Difference difference;
  std::int64_t begin = 0;
  each_piece<T>(a, [&](std::span<const T> values) {
    const std::int64_t end = begin + static_cast<std::int64_t>(values.size());
    const cs::Tensor piece = flat.index({cs::range(begin, end)}).to(cs::dtype_of<T>()).contiguous();
    const std::span<const T> others = piece.span<T>();
    for (std::size_t i = 0; i < values.size(); ++i) difference.add_values(values[i], others[i], options);
    begin = end;
  });
  return difference;
}

Difference difference_of(const cs::Tensor& a, const cs::Tensor& b, const CompareOptions& options) {
  const bool floating = cs::is_floating(a.dtype()) || cs::is_floating(b.dtype());
  return floating ? difference_in<double>(a, b, options) : difference_in<std::int64_t>(a, b, options);
}

std::string kind_of(const cs::Tensor& x) { return cs::name(x.dtype()) + (" " + cs::to_string(x.shape())); }

/// Prints how two tensors differ. Whether they do.
bool differs(const std::string& name, const cs::Tensor& a, const cs::Tensor& b, const CompareOptions& options) {
  const bool types = a.dtype() != b.dtype() && !options.any_type;
  if (a.shape() != b.shape() || types)
    std::printf("differs:      %s is %s and %s\n", shown(name).c_str(), kind_of(a).c_str(), kind_of(b).c_str());
  if (a.shape() != b.shape()) return true;
  const Difference difference = difference_of(a, b, options);
  if (difference.count == 0) return types;
  std::printf("differs:      %s in %s of %s values, by up to %.6g (relative %.6g)", shown(name).c_str(),
              with_commas(difference.count).c_str(), with_commas(a.numel()).c_str(), difference.absolute,
              difference.relative);
  if (difference.not_a_number > 0)
    std::printf(", NaN in one file alone %s times", with_commas(difference.not_a_number).c_str());
  std::printf("\n");
  return true;
}

struct Totals {
  std::size_t equal = 0, different = 0, only_first = 0, only_second = 0;
};

}  // namespace

bool compare(const std::string& first, const std::string& second, const CompareOptions& options) {
  const cs::io::Weights a = cs::io::read_weights(first), b = cs::io::read_weights(second);
  std::map<std::string, const cs::Tensor*> others;
  for (const cs::NamedTensor& tensor : b.tensors) others[tensor.name] = &tensor.value;
  std::set<std::string> seen;
  Totals totals;
  for (const cs::NamedTensor& tensor : a.tensors) {
    const std::string name = cs::io::detail::name_in_file(tensor.name, options.rename);
    if (!seen.insert(name).second)
      throw std::runtime_error("--rename: two tensors of " + first + " would be " + shown(name) + ".");
    const auto other = others.find(name);
    if (other == others.end()) {
      std::printf("only first:   %s %s\n", shown(tensor.name).c_str(), kind_of(tensor.value).c_str());
      ++totals.only_first;
    } else {
      ++(differs(tensor.name, tensor.value, *other->second, options) ? totals.different : totals.equal);
    }
  }
  for (const cs::NamedTensor& tensor : b.tensors) {
    if (seen.count(tensor.name) > 0) continue;
    std::printf("only second:  %s %s\n", shown(tensor.name).c_str(), kind_of(tensor.value).c_str());
    ++totals.only_second;
  }
  std::printf("%zu equal, %zu different, %zu only in %s, %zu only in %s\n", totals.equal, totals.different,
              totals.only_first, first.c_str(), totals.only_second, second.c_str());
  return totals.different + totals.only_first + totals.only_second == 0;
}

}  // namespace weights_tool
