// Confusion matrices, and the metrics that are made of them.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include <capstan/create.hpp>
#include <capstan/metrics/classification.hpp>
#include <capstan/tape.hpp>

#include "lib/base/text.hpp"
#include "metrics/reading.hpp"
#include "metrics/state.hpp"

namespace capstan::metrics {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kMostClasses = 65536;

enum Score : int { kPrecision, kRecall, kF1 };

double as_double(std::int64_t count) { return static_cast<double>(count); }

/// A score from the diagonal, the row (labels) and the column (predictions) of a class.
double score_of(int what, std::int64_t right, std::int64_t labels, std::int64_t predictions, double zero_division) {
  const std::int64_t of = what == kPrecision ? predictions : what == kRecall ? labels : labels + predictions;
  if (of == 0) return zero_division;
  return as_double(what == kF1 ? 2 * right : right) / as_double(of);
}

void tally(const detail::Predictions& read, std::int64_t classes, std::vector<std::int64_t>& counts) {
  for (std::size_t i = 0; i < read.labels.size(); ++i)
    if (read.labels.counts(i))
      ++counts[static_cast<std::size_t>(read.labels.ids.values[i] * classes + read.best.values[i])];
}

}  // namespace

struct ConfusionMatrix::Sums {
  std::vector<std::int64_t> right, labels, predictions;  // by class
  std::int64_t all = 0, all_right = 0;
};

ConfusionMatrix::ConfusionMatrix(std::int64_t classes, ConfusionOptions options, Where where)
    : classes_(classes), options_(options) {
  if (classes < 1 || classes > kMostClasses)
    base::fail<Error>(where, "ConfusionMatrix: there are ", classes, " classes; there must be from 1 to ", kMostClasses,
                      ".");
  counts_.assign(static_cast<std::size_t>(classes * classes), 0);
}

void ConfusionMatrix::update(const Tensor& predictions, const Tensor& labels, Where where) {
  const char* op = "ConfusionMatrix::update";
  const NoGrad off;
  detail::Labels ids = detail::read_labels(op, labels, Tensor(), options_.ignored_label, where);
  tally(detail::read_predictions(op, predictions, std::move(ids), {.classes = classes_}, where), classes_, counts_);
}

std::int64_t ConfusionMatrix::total() const noexcept {
  return std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
}

Tensor ConfusionMatrix::matrix(Where where) const {
  const NoGrad off;
  return detail::state_of(counts_, Shape({classes_, classes_}, where), where).to(default_device(), where);
}

ConfusionMatrix::Sums ConfusionMatrix::sums() const {
  const auto classes = static_cast<std::size_t>(classes_);
  Sums sums;
  sums.right.resize(classes);
  sums.labels.resize(classes);
  sums.predictions.resize(classes);
  for (std::size_t label = 0; label < classes; ++label) {
    for (std::size_t prediction = 0; prediction < classes; ++prediction) {
      const std::int64_t count = counts_[label * classes + prediction];
      sums.labels[label] += count;
      sums.predictions[prediction] += count;
      sums.all += count;
    }
    sums.right[label] = counts_[label * classes + label];
    sums.all_right += sums.right[label];
  }
  return sums;
}

double ConfusionMatrix::accuracy() const noexcept {
  std::int64_t right = 0;
  for (std::size_t i = 0; i < counts_.size(); i += static_cast<std::size_t>(classes_) + 1) right += counts_[i];
  return as_double(right) / as_double(total());
}

std::vector<double> ConfusionMatrix::by_class(int what) const {
  const Sums all = sums();
  std::vector<double> scores(all.right.size());
  for (std::size_t c = 0; c < scores.size(); ++c)
    scores[c] = score_of(what, all.right[c], all.labels[c], all.predictions[c], options_.zero_division);
  return scores;
}

double ConfusionMatrix::averaged(int what, Average average) const {
  const Sums all = sums();
  if (average == Average::micro) return score_of(what, all.all_right, all.all, all.all, options_.zero_division);
  double sum = 0, weighted = 0, count = 0, weight = 0;  // of scores that are no NaN
  for (std::size_t c = 0; c < all.right.size(); ++c) {
    const double score = score_of(what, all.right[c], all.labels[c], all.predictions[c], options_.zero_division);
    if (std::isnan(score)) continue;
    sum += score;
    weighted += score * as_double(all.labels[c]);
    ++count;
    weight += as_double(all.labels[c]);
  }
  if (count == 0) return kNaN;
  return average == Average::macro || weight == 0 ? sum / count : weighted / weight;
}

std::vector<double> ConfusionMatrix::precision() const { return by_class(kPrecision); }
std::vector<double> ConfusionMatrix::recall() const { return by_class(kRecall); }
std::vector<double> ConfusionMatrix::f1() const { return by_class(kF1); }
double ConfusionMatrix::precision(Average average) const { return averaged(kPrecision, average); }
double ConfusionMatrix::recall(Average average) const { return averaged(kRecall, average); }
double ConfusionMatrix::f1(Average average) const { return averaged(kF1, average); }

double ConfusionMatrix::kappa() const {
  const Sums all = sums();
  const double n = as_double(all.all);
  double by_chance = 0;  // n^2 times the expected accuracy
  for (std::size_t c = 0; c < all.labels.size(); ++c)
    by_chance += as_double(all.labels[c]) * as_double(all.predictions[c]);
  const double missing = n * n - by_chance;
  return missing == 0 ? kNaN : 1 - n * as_double(all.all - all.all_right) / missing;
}

double ConfusionMatrix::matthews() const {
  const Sums all = sums();
  const double n = as_double(all.all);
  double both = 0, labels = 0, predictions = 0;
  for (std::size_t c = 0; c < all.labels.size(); ++c) {
    const double t = as_double(all.labels[c]), p = as_double(all.predictions[c]);
    both += t * p;
    labels += t * t;
    predictions += p * p;
  }
  const double spread = (n * n - labels) * (n * n - predictions);
  return spread == 0 ? 0 : (n * as_double(all.all_right) - both) / std::sqrt(spread);
}

void ConfusionMatrix::reset() noexcept { std::fill(counts_.begin(), counts_.end(), 0); }

void ConfusionMatrix::merge(const ConfusionMatrix& other, Where where) {
  if (other.classes_ != classes_)
    base::fail<ShapeError>(where, "ConfusionMatrix::merge: there are ", classes_, " classes and ", other.classes_,
                           " in the other; they must be the same.");
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
}

std::vector<NamedTensor> ConfusionMatrix::state(Where where) const {
  return {{"matrix", detail::state_of(counts_, Shape({classes_, classes_}, where), where)}};
}

void ConfusionMatrix::load_state(std::span<const NamedTensor> state, Where where) {
  load("ConfusionMatrix", state, where);
}

void ConfusionMatrix::load(const char* name, std::span<const NamedTensor> state, Where where) {
  detail::StateReader reader(name, state, where);
  std::vector<std::int64_t> counts = reader.counts("matrix", Shape({classes_, classes_}, where));
  reader.finish();
  counts_ = std::move(counts);
}

// --- as text ---------------------------------------------------------------------------------------------------

namespace {

/// With a point in every locale.
std::string four_digits(double score) {
  if (std::isnan(score)) return "nan";
  std::array<char, 330> digits;  // `zero_division` may be any number
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), score, std::chars_format::fixed, 4).ptr;
  return std::string(digits.data(), end);
}

void append_right(std::string& text, const std::string& cell, std::size_t width) {
  text.append(width - std::min(width, cell.size()), ' ');
  text += cell;
}

}  // namespace

std::string to_string(const ConfusionMatrix& matrix, std::span<const std::string> names, Where where) {
  const auto classes = static_cast<std::size_t>(matrix.classes());
  if (!names.empty() && names.size() != classes)
    base::fail<ShapeError>(where, "to_string: there are ", names.size(), " names for a confusion matrix of ", classes,
                           " classes; give one for each.");
  const auto name = [&](std::size_t c) { return names.empty() ? std::to_string(c) : names[c]; };
  const Tensor table = matrix.state(where)[0].value;
  const std::span<const std::int64_t> counts = table.span<std::int64_t>(where);
  std::size_t first = std::string("precision").size(), width = std::string("recall").size();
  for (std::size_t c = 0; c < classes; ++c) {
    first = std::max(first, name(c).size());
    width = std::max(width, name(c).size());
  }
  for (const std::int64_t count : counts) width = std::max(width, std::to_string(count).size());
  width += 2;

  std::string text;
  append_right(text, "label", first);
  for (std::size_t c = 0; c < classes; ++c) append_right(text, name(c), width);
  append_right(text, "recall", width);
  const std::vector<double> precision = matrix.precision(), recall = matrix.recall();
  for (std::size_t label = 0; label < classes; ++label) {
    text += '\n';
    append_right(text, name(label), first);
    for (std::size_t c = 0; c < classes; ++c) append_right(text, std::to_string(counts[label * classes + c]), width);
    append_right(text, four_digits(recall[label]), width);
  }
  text += '\n';
  append_right(text, "precision", first);
  for (const double score : precision) append_right(text, four_digits(score), width);
  return text + "\naccuracy " + four_digits(matrix.accuracy()) + " of " + std::to_string(matrix.total()) + '\n';
}

// --- one number of them ----------------------------------------------------------------------------------------

namespace {

/// How many classes there are, or an Error.
std::int64_t checked_classes(const char* name, const ClassScoreOptions& options, Where where) {
  if (options.classes != 0 && (options.classes < 2 || options.classes > kMostClasses))
    base::fail<Error>(where, name, ": there are ", options.classes, " classes; there must be from 2 to ", kMostClasses,
                      ", or 0 for two that a threshold tells apart.");
  detail::require_threshold(name, options.threshold, where);
  return options.classes == 0 ? 2 : options.classes;
}

}  // namespace

ClassScore::ClassScore(const char* name, ClassScoreOptions options, Where where)
    : name_(name),
      options_(options),
      matrix_(checked_classes(name, options, where), {options.ignored_label, options.zero_division}, where) {}

void ClassScore::update(const Tensor& predictions, const Tensor& labels, Where where) {
  const std::string op = std::string(name_) + "::update";
  const NoGrad off;
  const std::int64_t ignored = options_.ignored_label;
  if (options_.classes != 0) {
    detail::Labels ids = detail::read_labels(op.c_str(), labels, Tensor(), ignored, where);
    const detail::PredictionRules rules{.classes = options_.classes};
    tally(detail::read_predictions(op.c_str(), predictions, std::move(ids), rules, where), options_.classes,
          matrix_.counts_);
    return;
  }
  const detail::BinaryPredictions read =
      detail::read_binary(op.c_str(), "predictions", predictions, labels, Tensor(), ignored, where);
  const double threshold = detail::threshold_among(predictions.dtype(where), options_.threshold);
  for (std::size_t i = 0; i < read.size(); ++i) {
    if (!read.counts(i)) continue;
    const std::size_t label = read.labels.values[i] == 1 ? 1 : 0;
    ++matrix_.counts_[2 * label + (read.scores.values[i] > threshold ? 1 : 0)];
  }
}

void ClassScore::load_state(std::span<const NamedTensor> state, Where where) { matrix_.load(name_, state, where); }

void ClassScore::add(const ClassScore& other, Where where) {
  if ((other.options_.classes == 0) != (options_.classes == 0) || other.matrix_.classes_ != matrix_.classes_)
    base::fail<ShapeError>(where, name_, "::merge: there are ", options_.classes, " classes and ",
                           other.options_.classes, " in the other; they must be the same.");
  if (options_.classes == 0) detail::require_one_threshold(name_, options_.threshold, other.options_.threshold, where);
  matrix_.merge(other.matrix_, where);
}

double ClassScore::score(int what) const {
  return options_.classes == 0 ? matrix_.by_class(what)[1] : matrix_.averaged(what, options_.average);
}

double Precision::result() const { return score(kPrecision); }
double Recall::result() const { return score(kRecall); }
double F1::result() const { return score(kF1); }

}  // namespace capstan::metrics
