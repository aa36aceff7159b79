// Accuracies. What is made of confusion matrices: confusion.cpp.
#include <capstan/metrics/classification.hpp>

#include <utility>

#include <capstan/tape.hpp>

#include "lib/base/text.hpp"
#include "metrics/reading.hpp"

namespace capstan::metrics {
namespace {

/// Calls add(hits, weight) for all together if all weights are 1, else for each example.
template <class Each, class Hit, class Add>
void for_hits(const Each& each, const detail::Weights& weights, const Hit& hit, const Add& add) {
  std::int64_t hits = 0, count = 0;
  for (std::size_t i = 0; i < each.size(); ++i) {
    if (!each.counts(i)) continue;
    if (weights.all_one()) {
      ++count;
      if (hit(i)) ++hits;
    } else {
      add(hit(i) ? weights[i] : 0, weights[i]);
    }
  }
  add(static_cast<double>(hits), static_cast<double>(count));
}

}  // namespace

void Accuracy::update(const Tensor& predictions, const Tensor& labels, const Tensor& weights, Where where) {
  const char* op = "Accuracy::update";
  const NoGrad off;
  detail::Labels ids = detail::read_labels(op, labels, weights, options_.ignored_label, where);
  const detail::Predictions read = detail::read_predictions(op, predictions, std::move(ids), {}, where);
  for_hits(
      read.labels, read.labels.weights, [&](std::size_t i) { return read.hit(i); },
      [&](double hits, double weight) { add_exact(hits, weight); });
}

TopK::TopK(std::int64_t k, LabelOptions options, Where where) : Ratio("TopK"), k_(k), options_(options) {
  if (k < 1) base::fail<Error>(where, "TopK: k is ", k, "; it must be >= 1.");
}

void TopK::update(const Tensor& scores, const Tensor& labels, const Tensor& weights, Where where) {
  const char* op = "TopK::update";
  const NoGrad off;
  detail::Labels ids = detail::read_labels(op, labels, weights, options_.ignored_label, where);
  const detail::Predictions read =
      detail::read_predictions(op, scores, std::move(ids), {.top = k_, .scores_only = true}, where);
  for_hits(
      read.labels, read.labels.weights, [&](std::size_t i) { return read.hit(i); },
      [&](double hits, double weight) { add_exact(hits, weight); });
}

void TopK::merge(const TopK& other, Where where) {
  if (other.k_ != k_)
    base::fail<Error>(where, "TopK::merge: k is ", k_, " and that of the other ", other.k_, "; they must be equal.");
  add(other);
}

BinaryAccuracy::BinaryAccuracy(BinaryOptions options, Where where) : Ratio("BinaryAccuracy"), options_(options) {
  detail::require_threshold("BinaryAccuracy", options.threshold, where);
}

void BinaryAccuracy::update(const Tensor& predictions, const Tensor& labels, const Tensor& weights, Where where) {
  const NoGrad off;
  const detail::BinaryPredictions read = detail::read_binary("BinaryAccuracy::update", "predictions", predictions,
                                                             labels, weights, options_.ignored_label, where);
  const double threshold = detail::threshold_among(predictions.dtype(where), options_.threshold);
  for_hits(
      read, read.weights,
      [&](std::size_t i) { return (read.scores.values[i] > threshold) == (read.labels.values[i] == 1); },
      [&](double hits, double weight) { add_exact(hits, weight); });
}

void BinaryAccuracy::merge(const BinaryAccuracy& other, Where where) {
  detail::require_one_threshold("BinaryAccuracy", options_.threshold, other.options_.threshold, where);
  add(other);
}

}  // namespace capstan::metrics
