#pragma once
// How well scores put what is of class 1 before what is not, whatever the threshold.
//
// Both metrics keep all scores: 9 bytes an example, 17 with weights, and 40 more while a result is computed, which
// sorts them. What is said of all metrics is in mean.hpp.
// Shapes  scores of any number type, logits or probabilities, and labels that are 0 or 1, of any type, of one shape
#include <cstdint>
#include <span>
#include <vector>

#include <capstan/metrics/classification.hpp>
#include <capstan/parameter.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace metrics {

namespace detail {

/// Scores, labels and weights, as they came.
class Ranking {
 public:
  void update(const Tensor& scores, const Tensor& labels, const Tensor& weights = Tensor(),
              Where where = Where::current());
  std::int64_t count() const noexcept { return static_cast<std::int64_t>(scores_.size()); }  ///< of weights above 0
  void reset() noexcept;
  /// "scores" float64 [n], "labels" bool [n], and "weights" float64, [n] or [0] if all are 1.
  std::vector<NamedTensor> state(Where where = Where::current()) const;
  /// Throws Error, ShapeError, DTypeError for what state() does not give; then nothing has changed.
  void load_state(std::span<const NamedTensor> state, Where where = Where::current());

 protected:
  Ranking(const char* name, LabelOptions options) noexcept : name_(name), options_(options) {}
  struct Entry;
  struct Ties;
  std::vector<Ties> by_score() const;
  void add(const Ranking& other);

 private:
  const char* name_;
  LabelOptions options_;
  std::vector<double> scores_, weights_;  // no weights while all are 1
  std::vector<unsigned char> labels_;
};

}  // namespace detail

/// The area under the receiver operating characteristic: how likely an example of class 1 has a higher score than one
/// of class 0, ties counted half. By ranks, so it is exact; scikit-learn's roc_auc_score.
class Auc : public detail::Ranking {
 public:
  Auc() noexcept : Ranking("Auc", {}) {}
  explicit Auc(LabelOptions options) noexcept : Ranking("Auc", options) {}
  double result(Where where = Where::current()) const;  ///< Error unless there are examples of both classes
  void merge(const Auc& other) { add(other); }
};

/// The area under precision over recall as steps, sum(n) (recall[n] - recall[n-1]) * precision[n] over the distinct
/// scores, the highest first: scikit-learn's average_precision_score.
class AveragePrecision : public detail::Ranking {
 public:
  AveragePrecision() noexcept : Ranking("AveragePrecision", {}) {}
  explicit AveragePrecision(LabelOptions options) noexcept : Ranking("AveragePrecision", options) {}
  double result(Where where = Where::current()) const;  ///< Error unless there are examples of class 1
  void merge(const AveragePrecision& other) { add(other); }
};

}  // namespace metrics
}  // namespace capstan
