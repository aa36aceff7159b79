#include <capstan/metrics/mean.hpp>

#include <capstan/tape.hpp>

#include "metrics/reading.hpp"
#include "metrics/state.hpp"

namespace capstan::metrics {

namespace detail {

void Ratio::reset() noexcept {
  sum_ = ExactSum();
  weight_ = ExactSum();
}

void Ratio::add(const Ratio& other) noexcept {
  sum_.add(other.sum_);
  weight_.add(other.weight_);
}

/// What has no weight does not count, also if it is NaN.
void Ratio::add(double value, double weight) noexcept {
  if (!(weight > 0)) return;
  sum_.add_product(weight, value);
  weight_.add(weight);
}

void Ratio::add_exact(double sum, double weight) noexcept {
  sum_.add(sum);
  weight_.add(weight);
}

std::vector<NamedTensor> Ratio::state(Where where) const {
  return {{"sum", state_of(sum_, where)}, {"weight", state_of(weight_, where)}};
}

void Ratio::load_state(std::span<const NamedTensor> state, Where where) {
  StateReader reader(name_, state, where);
  const ExactSum sum = reader.sum("sum"), weight = reader.sum("weight");
  reader.finish();
  sum_ = sum;
  weight_ = weight;
}

}  // namespace detail

void Mean::update(double value, double weight, Where where) {
  detail::require_weight("Mean::update", weight, where);
  add(value, weight);
}

void Mean::update(const Tensor& values, double weight, Where where) {
  const char* op = "Mean::update";
  detail::require_defined(op, "values", values, where);
  detail::require_weight(op, weight, where);
  const NoGrad off;
  const auto numbers = detail::OnHost<double>::of(values, where);
  for (const double value : numbers.values) add(value, weight);
}

void Mean::update(const Tensor& values, const Tensor& weights, Where where) {
  const char* op = "Mean::update";
  detail::require_defined(op, "values", values, where);
  const NoGrad off;
  const detail::Weights each = detail::read_weights(op, weights, "values", values.shape(where), where);
  const auto numbers = detail::OnHost<double>::of(values, where);
  for (std::size_t i = 0; i < numbers.values.size(); ++i) add(numbers.values[i], each[i]);
}

}  // namespace capstan::metrics
