#pragma once
// States of metrics: named tensors on the CPU, and reading them again.
#include <cstdint>
#include <span>
#include <vector>

#include <capstan/metrics/exact_sum.hpp>
#include <capstan/parameter.hpp>

namespace capstan::metrics::detail {

Tensor state_of(const ExactSum& sum, Where where);
Tensor state_of(std::int64_t number, Where where);
Tensor state_of(double number, Where where);
Tensor state_of(std::span<const std::int64_t> numbers, const Shape& shape, Where where);
Tensor state_of(std::span<const double> numbers, Where where);        // [n]
Tensor state_of(std::span<const unsigned char> truths, Where where);  // bool [n]

/// Gives entries by their names, each once. Messages name the metric.
class StateReader {
 public:
  StateReader(const char* metric, std::span<const NamedTensor> state, Where where)
      : metric_(metric), where_(where), state_(state), used_(state.size(), false) {}

  ExactSum sum(const char* name);
  std::int64_t count(const char* name);  ///< in [0, 2^62)
  double number(const char* name);
  std::vector<std::int64_t> counts(const char* name, const Shape& shape);  ///< which add up to less than 2^62
  std::vector<double> numbers(const char* name);                           ///< [n]
  std::vector<unsigned char> truths(const char* name);                     ///< bool [n]
  /// Throws Error if an entry is left.
  void finish() const;

 private:
  /// An entry on the CPU, row-major. Any shape of rank 1 will do if there is none to be checked.
  Tensor take(const char* name, const Shape* shape, DType dtype);

  const char* metric_;
  Where where_;
  std::span<const NamedTensor> state_;
  std::vector<bool> used_;
};

}  // namespace capstan::metrics::detail
