#include "metrics/reading.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <capstan/ops/elementwise.hpp>
#include <capstan/ops/order.hpp>
#include <capstan/ops/reduce.hpp>

#include "lib/base/text.hpp"

namespace capstan::metrics::detail {
namespace {

/// The shape without its last axis.
Shape rows_of(const Shape& shape, Where where) {
  return Shape(std::span<const std::int64_t>(shape.begin(), static_cast<std::size_t>(shape.rank() - 1)), where);
}

[[noreturn]] void fail_on_nan(const char* op, const char* what, std::size_t i, const Shape& shape, Where where) {
  base::fail<NumericError>(where, op, ": there is NaN among the ", what, " at ", place_of(i, shape),
                           "; they must be numbers.");
}

/// int64 [..., top]: the classes with the highest scores, or -1 where one of the scores is NaN.
Tensor best_classes(const Tensor& scores, std::int64_t top, Where where) {
  const bool floating = is_floating(scores.dtype(where));
  TopkResult best;
  if (top == 1) {
    best.indices = argmax(scores, -1, {.keepdims = true}, where);
    if (floating) best.values = capstan::max(scores, -1, {.keepdims = true}, where);
  } else {
    best = topk(scores, top, -1, {}, where);
  }
  if (!floating) return best.indices;
  const Tensor first = best.values.index({ellipsis, range(0, 1)}, where);  // NaN if there is one
  return capstan::where(capstan::equal(first, first, where), best.indices, -1, where);
}

/// Whether predictions are scores; else they are classes.
bool are_scores(const char* op, const Tensor& predictions, const Shape& labels, const PredictionRules& rules,
                Where where) {
  const Shape& shape = predictions.shape(where);
  if (shape == labels && !rules.scores_only) {
    if (is_floating(predictions.dtype(where)))
      base::fail<DTypeError>(where, op, ": the predictions are ", predictions.dtype(where), " of the labels' shape ",
                             shape, "; classes must be integers, and scores must have one more axis.");
    return false;
  }
  if (shape.rank() != labels.rank() + 1 || rows_of(shape, where) != labels)
    base::fail<ShapeError>(where, op, ": the ", rules.scores_only ? "scores" : "predictions", " are ", shape,
                           " and the labels ", labels,
                           rules.scores_only ? "; scores must have one more axis, that of the classes."
                                             : "; they must be classes of one shape, or scores with one more axis.");
  const std::int64_t classes = shape[shape.rank() - 1];
  if (rules.classes > 0 && classes != rules.classes)
    base::fail<ShapeError>(where, op, ": the scores are ", shape, " for ", rules.classes,
                           " classes; their last axis must be of that size.");
  if (classes == 0) base::fail<ShapeError>(where, op, ": the scores are ", shape, "; there must be a class or more.");
  if (predictions.dtype(where) == DType::bool8)
    base::fail<DTypeError>(where, op, ": the scores are bool; they must be a number type.");
  return true;
}

}  // namespace

std::string place_of(std::size_t i, const Shape& shape) {
  std::vector<std::int64_t> place(static_cast<std::size_t>(shape.rank()));
  auto rest = static_cast<std::int64_t>(i);
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    place[static_cast<std::size_t>(axis)] = rest % shape[axis];
    rest /= shape[axis];
  }
  std::string text = "[";
  for (const std::int64_t at : place) text += (text.size() > 1 ? ", " : "") + std::to_string(at);
  return text + "]";
}

void require_defined(const char* op, const char* what, const Tensor& x, Where where) {
  if (!x.defined()) base::fail<Error>(where, op, ": the ", what, " are undefined; give them values first.");
}

void require_weight(const char* op, double weight, Where where) {
  if (!(weight >= 0 && std::isfinite(weight)))
    base::fail<Error>(where, op, ": the weight is ", weight, "; it must be finite and >= 0.");
}

void require_threshold(const char* op, double threshold, Where where) {
  if (std::isnan(threshold)) base::fail<Error>(where, op, ": the threshold is NaN; it must be a number.");
}

void require_one_threshold(const char* metric, double threshold, double other, Where where) {
  if (threshold != other)
    base::fail<Error>(where, metric, "::merge: the threshold is ", threshold, " and that of the other ", other,
                      "; they must be equal.");
}

double threshold_among(DType scores, double threshold) noexcept {
  double rounded = threshold;
  if (scores == DType::float32) rounded = static_cast<double>(static_cast<float>(threshold));
  if (scores == DType::float16) rounded = static_cast<double>(static_cast<float>(float16(threshold)));
  if (scores == DType::bfloat16) rounded = static_cast<double>(static_cast<float>(bfloat16(threshold)));
  return std::isfinite(rounded) ? rounded : threshold;  // infinite scores are above what the type cannot hold
}

Weights read_weights(const char* op, const Tensor& weights, const char* what, const Shape& shape, Where where) {
  if (!weights.defined()) return {};
  if (weights.shape(where) != shape)
    base::fail<ShapeError>(where, op, ": the weights are ", weights.shape(where), " and the ", what, " ", shape,
                           "; the shapes must be equal.");
  Weights read{OnHost<double>::of(weights, where)};
  for (std::size_t i = 0; i < read.given.values.size(); ++i)
    if (const double weight = read.given.values[i]; !(weight >= 0 && std::isfinite(weight)))
      base::fail<Error>(where, op, ": the weight at ", place_of(i, shape), " is ", weight,
                        "; it must be finite and >= 0.");
  return read;
}

void require_one_shape(const char* op, const char* first, const Tensor& a, const char* second, const Tensor& b,
                       Where where) {
  require_defined(op, first, a, where);
  require_defined(op, second, b, where);
  if (a.shape(where) != b.shape(where))
    base::fail<ShapeError>(where, op, ": the ", first, " are ", a.shape(where), " and the ", second, " ",
                           b.shape(where), "; the shapes must be equal.");
}

Labels read_labels(const char* op, const Tensor& labels, const Tensor& weights, std::int64_t ignored, Where where) {
  require_defined(op, "labels", labels, where);
  if (is_floating(labels.dtype(where)))
    base::fail<DTypeError>(where, op, ": the labels are ", labels.dtype(where), "; they must be integers or bool.");
  Weights each = read_weights(op, weights, "labels", labels.shape(where), where);
  return {OnHost<std::int64_t>::of(labels, where), std::move(each), ignored};
}

void require_classes(const char* op, const Labels& labels, std::int64_t classes, Where where) {
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (const std::int64_t id = labels.ids.values[i]; labels.counts(i) && (id < 0 || id >= classes))
      base::fail<IndexError>(where, op, ": label ", id, " at ", place_of(i, labels.ids.tensor.shape(where)),
                             " is out of range for ", classes, " classes; it must be in [0, ", classes, ").");
}

Predictions read_predictions(const char* op, const Tensor& predictions, Labels labels, const PredictionRules& rules,
                             Where where) {
  const Shape shape = labels.ids.tensor.shape(where);
  require_defined(op, rules.scores_only ? "scores" : "predictions", predictions, where);
  const bool scores = are_scores(op, predictions, shape, rules, where);
  const std::int64_t classes = scores ? predictions.size(-1, where) : rules.classes;
  if (classes > 0) require_classes(op, labels, classes, where);
  Predictions read;
  read.labels = std::move(labels);
  if (read.labels.size() == 0) return read;
  const std::int64_t top = scores ? std::min(rules.top, classes) : 1;
  read.top = static_cast<std::size_t>(top);
  read.best = OnHost<std::int64_t>::of(scores ? best_classes(predictions, top, where) : predictions, where);
  for (std::size_t i = 0; i < read.labels.size(); ++i) {
    if (!read.labels.counts(i)) continue;
    const std::int64_t best = read.best.values[i * read.top];
    if (scores && best < 0) fail_on_nan(op, "scores", i, shape, where);
    if (!scores && classes > 0 && (best < 0 || best >= classes))
      base::fail<IndexError>(where, op, ": prediction ", best, " at ", place_of(i, shape), " is out of range for ",
                             classes, " classes; it must be in [0, ", classes, ").");
  }
  return read;
}

BinaryPredictions read_binary(const char* op, const char* what, const Tensor& scores, const Tensor& labels,
                              const Tensor& weights, std::int64_t ignored, Where where) {
  require_one_shape(op, what, scores, "labels", labels, where);
  const Shape shape = labels.shape(where);
  Weights each = read_weights(op, weights, "labels", shape, where);
  BinaryPredictions read{OnHost<double>::of(scores, where), OnHost<double>::of(labels, where), std::move(each),
                         static_cast<double>(ignored)};
  for (std::size_t i = 0; i < read.size(); ++i) {
    if (!read.counts(i)) continue;
    if (const double label = read.labels.values[i]; label != 0 && label != 1)
      base::fail<IndexError>(where, op, ": label ", label, " at ", place_of(i, shape), "; it must be 0 or 1.");
    if (std::isnan(read.scores.values[i])) fail_on_nan(op, what, i, shape, where);
  }
  return read;
}

}  // namespace capstan::metrics::detail
