#pragma once
// What goes into an update: tensors of any device and strides, checked and brought to the host.
#include <cstdint>
#include <span>
#include <string>

#include <capstan/tensor.hpp>

namespace capstan::metrics::detail {

/// The elements of a tensor, row-major, converted to T.
template <class T>
struct OnHost {
  Tensor tensor;  // on the CPU, contiguous
  std::span<const T> values;

  static OnHost of(const Tensor& x, Where where) {
    const Tensor host = x.to(cpu(), where).to(dtype_of<T>(), where).contiguous(where);
    return {host, host.span<T>(where)};
  }
};

/// 1 for each element if there are none.
struct Weights {
  OnHost<double> given;
  double operator[](std::size_t i) const { return given.tensor.defined() ? given.values[i] : 1; }
  bool all_one() const { return !given.tensor.defined(); }
};

/// "[1, 3]": where element `i` in row-major order stands.
std::string place_of(std::size_t i, const Shape& shape);

void require_defined(const char* op, const char* what, const Tensor& x, Where where);
/// Finite and >= 0.
void require_weight(const char* op, double weight, Where where);
/// `what` is the name of that whose shape they must have.
Weights read_weights(const char* op, const Tensor& weights, const char* what, const Shape& shape, Where where);
/// Two tensors of one shape, as numbers.
void require_one_shape(const char* op, const char* first, const Tensor& a, const char* second, const Tensor& b,
                       Where where);

/// Labels of classes.
struct Labels {
  OnHost<std::int64_t> ids;
  Weights weights;
  std::int64_t ignored = 0;

  std::size_t size() const { return ids.values.size(); }
  bool counts(std::size_t i) const { return ids.values[i] != ignored && weights[i] > 0; }
};
Labels read_labels(const char* op, const Tensor& labels, const Tensor& weights, std::int64_t ignored, Where where);
/// Throws IndexError for a label that counts and is not in [0, classes).
void require_classes(const char* op, const Labels& labels, std::int64_t classes, Where where);

/// Classes that are predicted, the likeliest first, beside labels.
struct Predictions {
  Labels labels;
  OnHost<std::int64_t> best;  // `top` for each label; those that count are no NaN
  std::size_t top = 1;

  bool hit(std::size_t i) const {
    for (std::size_t k = 0; k < top; ++k)
      if (best.values[i * top + k] == labels.ids.values[i]) return true;
    return false;
  }
};
struct PredictionRules {
  std::int64_t top = 1;      // of each row of scores
  std::int64_t classes = 0;  // 0: as many as there are scores
  bool scores_only = false;
};
Predictions read_predictions(const char* op, const Tensor& predictions, Labels labels, const PredictionRules& rules,
                             Where where);

/// Scores beside labels that are 0 or 1.
struct BinaryPredictions {
  OnHost<double> scores, labels;
  Weights weights;
  double ignored = 0;

  std::size_t size() const { return labels.values.size(); }
  bool counts(std::size_t i) const { return labels.values[i] != ignored && weights[i] > 0; }
};
BinaryPredictions read_binary(const char* op, const char* what, const Tensor& scores, const Tensor& labels,
                              const Tensor& weights, std::int64_t ignored, Where where);
void require_threshold(const char* op, double threshold, Where where);
/// Of metrics that are merged.
void require_one_threshold(const char* metric, double threshold, double other, Where where);
/// What scores of a type are compared with: the threshold as that type has it, so that a score which was given by the
/// same decimal number is equal.
double threshold_among(DType scores, double threshold) noexcept;

}  // namespace capstan::metrics::detail
