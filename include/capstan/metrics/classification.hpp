#pragma once
// How often classes are right, and in which ways they are wrong. What is said of all metrics is in mean.hpp.
//
// Labels       integers of any type and shape, or bool. A label that equals `ignored_label` does not count, and nor do
//              its predictions: padding, as in cross_entropy
// Predictions  classes, integers of the labels' shape; or scores, logits or probabilities of any number type, with one
//              more axis, the last, for the classes. The class with the highest score is predicted, of equal ones the
//              first, as argmax has it
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <capstan/metrics/mean.hpp>
#include <capstan/ops/losses.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace metrics {

struct LabelOptions {
  std::int64_t ignored_label = kIgnoredLabel;  ///< what has this label does not count
};
struct BinaryOptions {
  double threshold = 0.5;  ///< what is above it, rounded to the predictions' type, is class 1; 0 for logits
  std::int64_t ignored_label = kIgnoredLabel;
};

/// The share of labels that are predicted: sum(w * [prediction = label]) / sum(w). NaN if there were none.
class Accuracy : public detail::Ratio {
 public:
  Accuracy() noexcept : Ratio("Accuracy") {}
  explicit Accuracy(LabelOptions options) noexcept : Ratio("Accuracy"), options_(options) {}
  void update(const Tensor& predictions, const Tensor& labels, const Tensor& weights = Tensor(),
              Where where = Where::current());
  double result() const noexcept { return ratio(); }
  void merge(const Accuracy& other) noexcept { add(other); }

 private:
  LabelOptions options_;
};

/// The same for two classes that a threshold tells apart.
/// Shapes  predictions of any number type, and labels that are 0 or 1, of any type, of one shape
class BinaryAccuracy : public detail::Ratio {
 public:
  /// Throws Error for a threshold that is NaN.
  BinaryAccuracy() noexcept : Ratio("BinaryAccuracy") {}
  explicit BinaryAccuracy(BinaryOptions options, Where where = Where::current());
  void update(const Tensor& predictions, const Tensor& labels, const Tensor& weights = Tensor(),
              Where where = Where::current());
  double result() const noexcept { return ratio(); }
  void merge(const BinaryAccuracy& other, Where where = Where::current());  ///< Error unless both have one threshold

 private:
  BinaryOptions options_;
};

/// The share of labels that are among the k classes with the highest scores.
///
/// Of equal scores those of lower classes come first, as in `topk`. So TopK(1) is Accuracy, and equal scores for all
/// classes are no success: TensorFlow's in_top_k lets all that tie with the k-th in. k may exceed the classes.
/// Throws  Error  k < 1
class TopK : public detail::Ratio {
 public:
  explicit TopK(std::int64_t k, LabelOptions options = {}, Where where = Where::current());
  /// Scores; classes alone cannot be ranked.
  void update(const Tensor& scores, const Tensor& labels, const Tensor& weights = Tensor(),
              Where where = Where::current());
  double result() const noexcept { return ratio(); }
  std::int64_t k() const noexcept { return k_; }
  void merge(const TopK& other, Where where = Where::current());  ///< Error unless both have one k

 private:
  std::int64_t k_;
  LabelOptions options_;
};

/// How one number is made of those of all classes.
enum class Average : std::uint8_t {
  macro,    ///< their mean: every class counts the same
  micro,    ///< of the sums over the classes: every example counts the same
  weighted  ///< their mean, weighted with the number of each class's labels
};

struct ConfusionOptions {
  std::int64_t ignored_label = kIgnoredLabel;
  double zero_division = 0;  ///< what 0 / 0 is taken for, as in scikit-learn; means leave NaN out
};

/// How often each class was taken for each: matrix[label, prediction].
///
///   precision  of class c: how many of those predicted are it         matrix[c, c] / sum over column c
///   recall     of class c: how many of its examples are predicted     matrix[c, c] / sum over row c
///   f1         their harmonic mean                                    2 * matrix[c, c] / (row c + column c)
///
/// All classes count in means, also those that no label has: scikit-learn with `labels=range(classes)`.
/// Cost    8 * classes^2 bytes; an update has one step for each example
/// Throws  Error  classes not in [1, 65536]
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(std::int64_t classes, ConfusionOptions options = {}, Where where = Where::current());
  /// Classes, also those predicted, must be in [0, classes): IndexError.
  void update(const Tensor& predictions, const Tensor& labels, Where where = Where::current());

  std::int64_t classes() const noexcept { return classes_; }
  std::int64_t total() const noexcept;                  ///< examples
  Tensor matrix(Where where = Where::current()) const;  ///< int64 [classes, classes], a copy on the default device
  Tensor result(Where where = Where::current()) const { return matrix(where); }

  double accuracy() const noexcept;       ///< NaN if there were no examples
  std::vector<double> precision() const;  ///< by class
  std::vector<double> recall() const;
  std::vector<double> f1() const;
  double precision(Average average) const;
  double recall(Average average) const;
  double f1(Average average) const;
  /// Cohen's kappa, (observed - expected) / (1 - expected) for accuracy and that of chance. NaN if one class is all.
  double kappa() const;
  /// Matthews's correlation coefficient for any number of classes (Gorodkin 2004). 0 if labels or predictions are all
  /// one class.
  double matthews() const;

  void reset() noexcept;
  void merge(const ConfusionMatrix& other, Where where = Where::current());  ///< ShapeError for other classes
  /// "matrix", int64 [classes, classes].
  std::vector<NamedTensor> state(Where where = Where::current()) const;
  /// Throws Error, ShapeError, DTypeError for what state() does not give; then nothing has changed.
  void load_state(std::span<const NamedTensor> state, Where where = Where::current());

 private:
  friend class ClassScore;
  struct Sums;
  Sums sums() const;
  std::vector<double> by_class(int what) const;
  double averaged(int what, Average average) const;
  void load(const char* name, std::span<const NamedTensor> state, Where where);

  std::int64_t classes_;
  ConfusionOptions options_;
  std::vector<std::int64_t> counts_;  // row-major
};

/// A table: a line for each label with its recall, a line with the precisions, and the accuracy. Named after `names`,
/// one for each class, if there are any (ShapeError for another number).
std::string to_string(const ConfusionMatrix& matrix, std::span<const std::string> names = {},
                      Where where = Where::current());

struct ClassScoreOptions {
  std::int64_t classes = 0;          ///< 0: two, told apart by the threshold, and the result is that of class 1
  double threshold = 0.5;            ///< of two classes, as in BinaryOptions
  Average average = Average::macro;  ///< of more classes
  std::int64_t ignored_label = kIgnoredLabel;
  double zero_division = 0;  ///< what 0 / 0 is taken for
};

/// What Precision, Recall and F1 have in common: a confusion matrix, and which number of it they are. They merge with
/// those of as many classes (else ShapeError), and of two classes with those of one threshold (else Error).
class ClassScore {
 public:
  /// Two classes: scores and labels 0 or 1 as in BinaryAccuracy. More: as in ConfusionMatrix.
  void update(const Tensor& predictions, const Tensor& labels, Where where = Where::current());
  const ConfusionMatrix& matrix() const noexcept { return matrix_; }
  void reset() noexcept { matrix_.reset(); }
  std::vector<NamedTensor> state(Where where = Where::current()) const { return matrix_.state(where); }
  /// Throws Error, ShapeError, DTypeError for what state() does not give; then nothing has changed.
  void load_state(std::span<const NamedTensor> state, Where where = Where::current());

 protected:
  ClassScore(const char* name, ClassScoreOptions options, Where where);
  void add(const ClassScore& other, Where where);
  double score(int what) const;

 private:
  const char* name_;
  ClassScoreOptions options_;
  ConfusionMatrix matrix_;
};

/// How many of those predicted are right: see ConfusionMatrix. Throws Error for classes or a threshold that cannot be.
class Precision : public ClassScore {
 public:
  explicit Precision(ClassScoreOptions options = {}, Where where = Where::current())
      : ClassScore("Precision", options, where) {}
  double result() const;
  void merge(const Precision& other, Where where = Where::current()) { add(other, where); }
};
/// How many of those there are were found.
class Recall : public ClassScore {
 public:
  explicit Recall(ClassScoreOptions options = {}, Where where = Where::current())
      : ClassScore("Recall", options, where) {}
  double result() const;
  void merge(const Recall& other, Where where = Where::current()) { add(other, where); }
};
/// The harmonic mean of both.
class F1 : public ClassScore {
 public:
  explicit F1(ClassScoreOptions options = {}, Where where = Where::current()) : ClassScore("F1", options, where) {}
  double result() const;
  void merge(const F1& other, Where where = Where::current()) { add(other, where); }
};

}  // namespace metrics
}  // namespace capstan
