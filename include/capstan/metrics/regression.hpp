#pragma once
// How far predicted numbers are from their targets.
//
// All take predictions and targets of one shape, of any types, and count every element; what is said of all metrics is
// in mean.hpp. Differences are taken in double. NaN among the numbers makes the result NaN.
#include <cstdint>
#include <span>
#include <vector>

#include <capstan/metrics/mean.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace metrics {

/// mean(|prediction - target|); NaN if there were none.
class MeanAbsoluteError : public detail::Ratio {
 public:
  MeanAbsoluteError() noexcept : Ratio("MeanAbsoluteError") {}
  void update(const Tensor& predictions, const Tensor& targets, const Tensor& weights = Tensor(),
              Where where = Where::current());
  double result() const noexcept { return ratio(); }
  void merge(const MeanAbsoluteError& other) noexcept { add(other); }
};

/// mean((prediction - target)^2); NaN if there were none.
class MeanSquaredError : public detail::Ratio {
 public:
  MeanSquaredError() noexcept : Ratio("MeanSquaredError") {}
  void update(const Tensor& predictions, const Tensor& targets, const Tensor& weights = Tensor(),
              Where where = Where::current());
  double result() const noexcept { return ratio(); }
  void merge(const MeanSquaredError& other) noexcept { add(other); }
};

/// The root of the mean squared error, in the units of the targets.
class RootMeanSquaredError : public detail::Ratio {
 public:
  RootMeanSquaredError() noexcept : Ratio("RootMeanSquaredError") {}
  void update(const Tensor& predictions, const Tensor& targets, const Tensor& weights = Tensor(),
              Where where = Where::current());
  double result() const noexcept;
  void merge(const RootMeanSquaredError& other) noexcept { add(other); }
};

/// The coefficient of determination, 1 - sum(w * (target - prediction)^2) / sum(w * (target - mean)^2).
///
/// It needs one pass, and loses no digits where the targets' mean is far from 0. If all targets are equal it is 1 for
/// predictions without error and else 0, as in scikit-learn; NaN for fewer than two targets. Several outputs are one
/// list of numbers here: scikit-learn's flattened.
class R2 {
 public:
  void update(const Tensor& predictions, const Tensor& targets, const Tensor& weights = Tensor(),
              Where where = Where::current());
  double result() const noexcept;
  void reset() noexcept { *this = R2(); }
  void merge(const R2& other) noexcept;
  std::vector<NamedTensor> state(Where where = Where::current()) const;
  /// Throws Error, ShapeError, DTypeError for what state() does not give; then nothing has changed.
  void load_state(std::span<const NamedTensor> state, Where where = Where::current());

 private:
  double spread() const noexcept;

  ExactSum errors_, targets_, squares_, weight_;  // of w*(t-p)^2, w*t, w*t^2, w
  double least_ = 0, most_ = 0;                   // targets
  std::int64_t count_ = 0;                        // of weights above 0
};

}  // namespace metrics
}  // namespace capstan
