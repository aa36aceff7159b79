#include <capstan/metrics/regression.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <capstan/tape.hpp>

#include "metrics/reading.hpp"
#include "metrics/state.hpp"

namespace capstan::metrics {
namespace {

/// Calls use(prediction, target, weight) for each element, once all of them have been checked.
template <class Use>
void for_pairs(const char* op, const Tensor& predictions, const Tensor& targets, const Tensor& weights, Where where,
               const Use& use) {
  detail::require_one_shape(op, "predictions", predictions, "targets", targets, where);
  const NoGrad off;
  const detail::Weights each = detail::read_weights(op, weights, "targets", targets.shape(where), where);
  const auto p = detail::OnHost<double>::of(predictions, where), t = detail::OnHost<double>::of(targets, where);
  for (std::size_t i = 0; i < t.values.size(); ++i) use(p.values[i], t.values[i], each[i]);
}

double square(double x) { return x * x; }

}  // namespace

void MeanAbsoluteError::update(const Tensor& predictions, const Tensor& targets, const Tensor& weights, Where where) {
  for_pairs("MeanAbsoluteError::update", predictions, targets, weights, where,
            [this](double p, double t, double w) { add(std::fabs(p - t), w); });
}

void MeanSquaredError::update(const Tensor& predictions, const Tensor& targets, const Tensor& weights, Where where) {
  for_pairs("MeanSquaredError::update", predictions, targets, weights, where,
            [this](double p, double t, double w) { add(square(p - t), w); });
}

void RootMeanSquaredError::update(const Tensor& predictions, const Tensor& targets, const Tensor& weights,
                                  Where where) {
  for_pairs("RootMeanSquaredError::update", predictions, targets, weights, where,
            [this](double p, double t, double w) { add(square(p - t), w); });
}

double RootMeanSquaredError::result() const noexcept { return std::sqrt(ratio()); }

void R2::update(const Tensor& predictions, const Tensor& targets, const Tensor& weights, Where where) {
  for_pairs("R2::update", predictions, targets, weights, where, [this](double p, double t, double w) {
    if (!(w > 0)) return;
    errors_.add_product(w, square(p - t));
    const double weighted = w * t;
    targets_.add_product(w, t);
    squares_.add_product(weighted, t);  // w*t*t to twice the digits of double: most of it cancels in spread()
    if (std::isfinite(weighted)) squares_.add_product(std::fma(w, t, -weighted), t);
    weight_.add(w);
    least_ = count_ == 0 ? t : std::min(least_, t);
    most_ = count_ == 0 ? t : std::max(most_, t);
    ++count_;
  });
}

/// sum(w * (t - m)^2) for their mean m, as squares - m * (2 * targets - m * weight): for any m near the mean, and
/// without rounding but to twice the digits of double.
double R2::spread() const noexcept {
  const double sum = targets_.value(), weight = weight_.value(), m = sum / weight;
  if (!std::isfinite(squares_.value()) || !std::isfinite(m)) return std::numeric_limits<double>::quiet_NaN();
  ExactSum inner;
  inner.add_product(2, sum);
  inner.add_product(2, targets_.rest());
  inner.add_product(-m, weight);
  inner.add_product(-m, weight_.rest());
  ExactSum outer = squares_;
  outer.add_product(-m, inner.value());
  outer.add_product(-m, inner.rest());
  return std::max(outer.value(), 0.0);
}

double R2::result() const noexcept {
  if (count_ < 2) return std::numeric_limits<double>::quiet_NaN();
  const double errors = errors_.value();
  if (std::isnan(errors)) return errors;
  if (least_ == most_) return errors == 0 ? 1 : 0;
  return 1 - errors / spread();
}

void R2::merge(const R2& other) noexcept {
  if (other.count_ == 0) return;
  least_ = count_ == 0 ? other.least_ : std::min(least_, other.least_);
  most_ = count_ == 0 ? other.most_ : std::max(most_, other.most_);
  count_ += other.count_;
  errors_.add(other.errors_);
  targets_.add(other.targets_);
  squares_.add(other.squares_);
  weight_.add(other.weight_);
}

std::vector<NamedTensor> R2::state(Where where) const {
  return {{"errors", detail::state_of(errors_, where)},   {"targets", detail::state_of(targets_, where)},
          {"squares", detail::state_of(squares_, where)}, {"weight", detail::state_of(weight_, where)},
          {"least", detail::state_of(least_, where)},     {"most", detail::state_of(most_, where)},
          {"count", detail::state_of(count_, where)}};
}

void R2::load_state(std::span<const NamedTensor> state, Where where) {
  detail::StateReader reader("R2", state, where);
  R2 loaded;
  loaded.errors_ = reader.sum("errors");
  loaded.targets_ = reader.sum("targets");
  loaded.squares_ = reader.sum("squares");
  loaded.weight_ = reader.sum("weight");
  loaded.least_ = reader.number("least");
  loaded.most_ = reader.number("most");
  loaded.count_ = reader.count("count");
  reader.finish();
  *this = loaded;
}

}  // namespace capstan::metrics
