#pragma once
// What tests of metrics share.
#include <cstdint>
#include <vector>

#include "tests/support.hpp"

namespace tests {

using Ids = std::vector<std::int64_t>;

/// Equal but for some roundings; NaN equal to NaN.
inline bool near(double actual, double expected) {
  const double error = relative_error(std::vector<double>{actual}, std::vector<double>{expected});
  if (error <= tolerance::roundings64) return true;
  UNSCOPED_INFO(actual << " instead of " << expected);
  return false;
}
inline bool near(const std::vector<double>& actual, const std::vector<double>& expected) {
  if (actual.size() != expected.size()) return false;
  for (std::size_t i = 0; i < actual.size(); ++i)
    if (!near(actual[i], expected[i])) return false;
  return true;
}

/// [n], on the default device.
inline capstan::Tensor list_of(const std::vector<double>& numbers, capstan::DType dtype = capstan::DType::float64) {
  return from_doubles(numbers, capstan::Shape({static_cast<std::int64_t>(numbers.size())}), dtype);
}
inline capstan::Tensor list_of(const Ids& numbers) { return capstan::from_vector(numbers); }
/// [n, columns]
inline capstan::Tensor table_of(const std::vector<double>& numbers, std::int64_t columns,
                                capstan::DType dtype = capstan::DType::float64) {
  return from_doubles(numbers, {static_cast<std::int64_t>(numbers.size()) / columns, columns}, dtype);
}

/// A metric that goes on from the state of another.
template <class Metric>
Metric restored(const Metric& from, Metric into) {
  const std::vector<capstan::NamedTensor> state = from.state();
  into.load_state(state);
  return into;
}

}  // namespace tests
