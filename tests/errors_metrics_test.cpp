// Bad input to metrics: the right exception, word for word, nothing leaked, and the metric as it was.
#include "tests/metrics_support.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_metrics_test.cpp";
const std::string first = "; give them values first.";
const std::string equal_shapes = "; the shapes must be equal.";
const float not_a_number = static_cast<float>(kNaN);

/// Operands of the tables below, and metrics that have seen something.
struct Operands {
  Tensor scores = {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}};
  Tensor labels = {0, 2};
  Tensor numbers = {0.25f, 0.75f};
  Tensor truths = {0, 1};
  Tensor three = {1.0f, 2.0f, 3.0f};
  Tensor none;
  metrics::Accuracy accuracy;
  metrics::TopK top{2};
  metrics::BinaryAccuracy binary;
  metrics::ConfusionMatrix matrix{3};
  metrics::F1 f1;
  metrics::Precision precision = metrics::Precision({.classes = 3});
  metrics::Auc auc;
  metrics::Mean mean;
  metrics::R2 r2;
  metrics::Perplexity perplexity;

  Operands() {
    accuracy.update(scores, labels);
    top.update(scores, labels);
    binary.update(numbers, truths);
    matrix.update(scores, labels);
    f1.update(numbers, truths);
    precision.update(scores, labels);
    auc.update(numbers, truths);
    mean.update(numbers);
    r2.update(numbers, numbers);
    perplexity.update(scores, labels);
    for (const double result : results()) before.push_back(result);
  }
  ~Operands() { CHECK(same_bits(results(), before)); }  // nothing may have changed them

  std::vector<double> results() const {
    return {accuracy.result(), accuracy.weight(), top.weight(), binary.weight(), static_cast<double>(matrix.total()),
            static_cast<double>(f1.matrix().total()), static_cast<double>(precision.matrix().total()),
            static_cast<double>(auc.count()), mean.weight(), r2.result(), perplexity.weight(), perplexity.result()};
  }
  std::vector<double> before;
};

}  // namespace

TEST_CASE("metrics refuse undefined tensors", "[errors][metrics]") {
  Operands o;
  check_errors({
      {__LINE__, message_of<Error>, [&] { o.accuracy.update(o.none, o.labels); }, "Accuracy::update: the predictions are undefined" + first},
      {__LINE__, message_of<Error>, [&] { o.accuracy.update(o.scores, o.none); }, "Accuracy::update: the labels are undefined" + first},
      {__LINE__, message_of<Error>, [&] { o.top.update(o.none, o.labels); }, "TopK::update: the scores are undefined" + first},
      {__LINE__, message_of<Error>, [&] { o.binary.update(o.none, o.truths); }, "BinaryAccuracy::update: the predictions are undefined" + first},
      {__LINE__, message_of<Error>, [&] { o.matrix.update(o.scores, o.none); }, "ConfusionMatrix::update: the labels are undefined" + first},
      {__LINE__, message_of<Error>, [&] { o.f1.update(o.numbers, o.none); }, "F1::update: the labels are undefined" + first},
      {__LINE__, message_of<Error>, [&] { o.precision.update(o.none, o.labels); }, "Precision::update: the predictions are undefined" + first},
      {__LINE__, message_of<Error>, [&] { o.auc.update(o.none, o.truths); }, "Auc::update: the scores are undefined" + first},
      {__LINE__, message_of<Error>, [&] { o.mean.update(o.none); }, "Mean::update: the values are undefined" + first},
      {__LINE__, message_of<Error>, [&] { o.mean.update(o.none, 2.0); }, "Mean::update: the values are undefined" + first},
      {__LINE__, message_of<Error>, [&] { o.r2.update(o.numbers, o.none); }, "R2::update: the targets are undefined" + first},
      {__LINE__, message_of<Error>, [&] { o.perplexity.update(o.none, o.labels); }, "Perplexity::update: the logits are undefined" + first},
      {__LINE__, message_of<Error>, [&] { o.perplexity.update_losses(o.none); }, "Perplexity::update_losses: the losses are undefined" + first},
  }, file);
}

TEST_CASE("metrics refuse shapes that do not fit", "[errors][metrics]") {
  Operands o;
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { o.accuracy.update(o.scores, Tensor{1, 2, 3}); },
       "Accuracy::update: the predictions are [2, 3] and the labels [3]; they must be classes of one shape, or scores with one more axis."},
      {__LINE__, message_of<ShapeError>, [&] { o.top.update(o.labels, o.labels); },
       "TopK::update: the scores are [2] and the labels [2]; scores must have one more axis, that of the classes."},
      {__LINE__, message_of<ShapeError>, [&] { o.accuracy.update(zeros({2, 0}), o.labels); },
       "Accuracy::update: the scores are [2, 0]; there must be a class or more."},
      {__LINE__, message_of<ShapeError>, [&] { o.matrix.update(zeros({2, 4}), o.labels); },
       "ConfusionMatrix::update: the scores are [2, 4] for 3 classes; their last axis must be of that size."},
      {__LINE__, message_of<ShapeError>, [&] { o.accuracy.update(o.scores, o.labels, o.three); },
       "Accuracy::update: the weights are [3] and the labels [2]" + equal_shapes},
      {__LINE__, message_of<ShapeError>, [&] { o.binary.update(o.three, o.truths); },
       "BinaryAccuracy::update: the predictions are [3] and the labels [2]" + equal_shapes},
      {__LINE__, message_of<ShapeError>, [&] { o.auc.update(o.three, o.truths); },
       "Auc::update: the scores are [3] and the labels [2]" + equal_shapes},
      {__LINE__, message_of<ShapeError>, [&] { o.mean.update(o.numbers, o.three); },
       "Mean::update: the weights are [3] and the values [2]" + equal_shapes},
      {__LINE__, message_of<ShapeError>, [&] { o.r2.update(o.three, o.numbers); },
       "R2::update: the predictions are [3] and the targets [2]" + equal_shapes},
      {__LINE__, message_of<ShapeError>, [&] { o.perplexity.update(o.three, o.labels); },
       "Perplexity::update: the logits are [3] and the labels [2]; logits must have one more axis, for one token or more."},
      {__LINE__, message_of<ShapeError>, [&] { o.matrix.merge(metrics::ConfusionMatrix(2)); },
       "ConfusionMatrix::merge: there are 3 classes and 2 in the other; they must be the same."},
      {__LINE__, message_of<ShapeError>, [&] { o.f1.merge(metrics::F1({.classes = 2})); },
       "F1::merge: there are 0 classes and 2 in the other; they must be the same."},
      {__LINE__, message_of<ShapeError>, [&] { const std::string name[] = {"a"}; to_string(o.matrix, name); },
       "to_string: there are 1 names for a confusion matrix of 3 classes; give one for each."},
  }, file);
}

TEST_CASE("metrics refuse element types that cannot be meant", "[errors][metrics]") {
  Operands o;
  check_errors({
      {__LINE__, message_of<DTypeError>, [&] { o.accuracy.update(o.scores, o.numbers); },
       "Accuracy::update: the labels are float32; they must be integers or bool."},
      {__LINE__, message_of<DTypeError>, [&] { o.accuracy.update(o.numbers, o.labels); },
       "Accuracy::update: the predictions are float32 of the labels' shape [2]; classes must be integers, and scores must have one more axis."},
      {__LINE__, message_of<DTypeError>, [&] { o.top.update(greater(o.scores, 2), o.labels); },
       "TopK::update: the scores are bool; they must be a number type."},
      {__LINE__, message_of<DTypeError>, [&] { o.perplexity.update(cast(o.scores, DType::int32), o.labels); },
       "Perplexity::update: the logits are int32; they must be a floating type."},
  }, file);
}

TEST_CASE("metrics refuse labels, scores and weights out of range, and name their places", "[errors][metrics]") {
  Operands o;
  const Tensor with_nan = {{1.0f, 2.0f, 3.0f}, {4.0f, not_a_number, 6.0f}};
  check_errors({
      {__LINE__, message_of<IndexError>, [&] { o.accuracy.update(o.scores, Tensor{0, 3}); },
       "Accuracy::update: label 3 at [1] is out of range for 3 classes; it must be in [0, 3)."},
      {__LINE__, message_of<IndexError>, [&] { o.top.update(zeros({2, 2, 3}), Tensor{{0, 1}, {-1, 2}}); },
       "TopK::update: label -1 at [1, 0] is out of range for 3 classes; it must be in [0, 3)."},
      {__LINE__, message_of<IndexError>, [&] { o.matrix.update(Tensor{1, 5}, o.labels); },
       "ConfusionMatrix::update: prediction 5 at [1] is out of range for 3 classes; it must be in [0, 3)."},
      {__LINE__, message_of<IndexError>, [&] { o.precision.update(Tensor{-1, 0}, o.labels); },
       "Precision::update: prediction -1 at [0] is out of range for 3 classes; it must be in [0, 3)."},
      {__LINE__, message_of<IndexError>, [&] { o.perplexity.update(o.scores, Tensor{7, 0}); },
       "Perplexity::update: label 7 at [0] is out of range for 3 classes; it must be in [0, 3)."},
      {__LINE__, message_of<IndexError>, [&] { o.binary.update(o.numbers, Tensor{0, 2}); },
       "BinaryAccuracy::update: label 2 at [1]; it must be 0 or 1."},
      {__LINE__, message_of<IndexError>, [&] { o.auc.update(o.numbers, Tensor{0.5f, 1.0f}); },
       "Auc::update: label 0.5 at [0]; it must be 0 or 1."},
      {__LINE__, message_of<NumericError>, [&] { o.accuracy.update(with_nan, o.labels); },
       "Accuracy::update: there is NaN among the scores at [1]; they must be numbers."},
      {__LINE__, message_of<NumericError>, [&] { o.top.update(with_nan, o.labels); },
       "TopK::update: there is NaN among the scores at [1]; they must be numbers."},
      {__LINE__, message_of<NumericError>, [&] { o.f1.update(Tensor{0.5f, not_a_number}, o.truths); },
       "F1::update: there is NaN among the predictions at [1]; they must be numbers."},
      {__LINE__, message_of<NumericError>, [&] { o.auc.update(Tensor{not_a_number, 1.0f}, o.truths); },
       "Auc::update: there is NaN among the scores at [0]; they must be numbers."},
      {__LINE__, message_of<Error>, [&] { o.accuracy.update(o.scores, o.labels, Tensor{1, -1}); },
       "Accuracy::update: the weight at [1] is -1; it must be finite and >= 0."},
      {__LINE__, message_of<Error>, [&] { o.auc.update(o.numbers, o.truths, Tensor{kInfinity, 1.0}); },
       "Auc::update: the weight at [0] is inf; it must be finite and >= 0."},
      {__LINE__, message_of<Error>, [&] { o.r2.update(o.numbers, o.numbers, Tensor{1.0, -0.5}); },
       "R2::update: the weight at [1] is -0.5; it must be finite and >= 0."},
      {__LINE__, message_of<Error>, [&] { o.mean.update(1.0, -2); }, "Mean::update: the weight is -2; it must be finite and >= 0."},
      {__LINE__, message_of<Error>, [&] { o.mean.update(o.numbers, kInfinity); }, "Mean::update: the weight is inf; it must be finite and >= 0."},
      {__LINE__, message_of<Error>, [&] { o.perplexity.update_mean(1, -1); },
       "Perplexity::update_mean: there are -1 tokens; their number must be finite and >= 0."},
  }, file);
}

TEST_CASE("metrics refuse options that make no sense", "[errors][metrics]") {
  check_errors({
      {__LINE__, message_of<Error>, [] { metrics::TopK(0); }, "TopK: k is 0; it must be >= 1."},
      {__LINE__, message_of<Error>, [] { metrics::TopK(2).merge(metrics::TopK(3)); }, "TopK::merge: k is 2 and that of the other 3; they must be equal."},
      {__LINE__, message_of<Error>, [] { metrics::BinaryAccuracy({.threshold = kNaN}); }, "BinaryAccuracy: the threshold is NaN; it must be a number."},
      {__LINE__, message_of<Error>, [] { metrics::Recall({.threshold = kNaN}); }, "Recall: the threshold is NaN; it must be a number."},
      {__LINE__, message_of<Error>, [] { metrics::ConfusionMatrix(0); }, "ConfusionMatrix: there are 0 classes; there must be from 1 to 65536."},
      {__LINE__, message_of<Error>, [] { metrics::ConfusionMatrix(65537); }, "ConfusionMatrix: there are 65537 classes; there must be from 1 to 65536."},
      {__LINE__, message_of<Error>, [] { metrics::F1({.classes = 1}); }, "F1: there are 1 classes; there must be from 2 to 65536, or 0 for two that a threshold tells apart."},
      {__LINE__, message_of<Error>, [] { metrics::Bleu({.max_order = 0}); }, "Bleu: max_order is 0; it must be in [1, 16]."},
      {__LINE__, message_of<Error>, [] { metrics::Bleu({.max_order = 17}); }, "Bleu: max_order is 17; it must be in [1, 16]."},
      {__LINE__, message_of<Error>, [] { metrics::Bleu({.max_order = 2}).merge(metrics::Bleu()); }, "Bleu::merge: max_order is 2 and that of the other 4; they must be equal."},
      {__LINE__, message_of<Error>, [] { metrics::Bleu().update(Ids{1, 2}, std::vector<Ids>{}); }, "Bleu::update: there is no reference; give one or more."},
  }, file);
}

TEST_CASE("areas need both classes", "[errors][metrics]") {
  metrics::Auc none, positive, negative;
  metrics::AveragePrecision precision;
  positive.update(Tensor{0.5f}, Tensor{1});
  negative.update(Tensor{0.5f, 0.25f}, Tensor{0, 0});
  precision.update(Tensor{0.5f, 0.25f}, Tensor{0, 1}, Tensor{1, 0});
  check_errors({
      {__LINE__, message_of<Error>, [&] { none.result(); }, "Auc::result: there are 0 examples, none of them of class 1; there must be some of both classes."},
      {__LINE__, message_of<Error>, [&] { positive.result(); }, "Auc::result: there are 1 examples, none of them of class 0; there must be some of both classes."},
      {__LINE__, message_of<Error>, [&] { negative.result(); }, "Auc::result: there are 2 examples, none of them of class 1; there must be some of both classes."},
      {__LINE__, message_of<Error>, [&] { precision.result(); }, "AveragePrecision::result: there are 1 examples, none of them of class 1; there must be some."},
  }, file);
}

TEST_CASE("metrics refuse states that are not theirs", "[errors][metrics]") {
  Operands o;
  const auto counts = [](const Ids& list, const Shape& shape) { return from_vector(list, shape); };
  using State = std::vector<NamedTensor>;
  State doubled = o.accuracy.state(), cut = doubled, huge = doubled, ranking = o.auc.state();
  doubled.push_back(doubled[0]);
  cut.pop_back();
  huge[0].value = full({68}, -1, {.dtype = DType::int64});
  ranking[2].value = ones({3}, {.dtype = DType::float64});
  check_errors({
      {__LINE__, message_of<Error>, [&] { o.accuracy.load_state(cut); }, "Accuracy::load_state: the state has no \"weight\"; it must be one that state() gave."},
      {__LINE__, message_of<Error>, [&] { o.accuracy.load_state(doubled); }, "Accuracy::load_state: \"sum\" is in the state and not in this metric."},
      {__LINE__, message_of<Error>, [&] { o.mean.load_state(huge); }, "Mean::load_state: \"sum\" is no sum; it must be one that state() gave."},
      {__LINE__, message_of<Error>, [&] { o.matrix.load_state(State{{"matrix", o.none}}); }, "ConfusionMatrix::load_state: \"matrix\" is undefined; it must have a value."},
      {__LINE__, message_of<ShapeError>, [&] { o.matrix.load_state(o.f1.state()); }, "ConfusionMatrix::load_state: \"matrix\" is [2, 2]; it must be [3, 3]."},
      {__LINE__, message_of<DTypeError>, [&] { o.f1.load_state(State{{"matrix", zeros({2, 2})}}); }, "F1::load_state: \"matrix\" is float32; it must be int64."},
      {__LINE__, message_of<Error>, [&] { o.f1.load_state(State{{"matrix", counts({1, -1, 0, 0}, {2, 2})}}); },
       "F1::load_state: \"matrix\" has the count -1; counts must be >= 0, and add up to at most 4611686018427387903."},
      {__LINE__, message_of<Error>, [&] { o.f1.load_state(State{{"matrix", counts({1, INT64_MAX, 0, 0}, {2, 2})}}); },
       "F1::load_state: \"matrix\" has the count 9223372036854775807; counts must be >= 0, and add up to at most 4611686018427387903."},
      {__LINE__, message_of<ShapeError>, [&] { o.auc.load_state(ranking); },
       "Auc::load_state: there are 2 scores, 2 labels and 3 weights; there must be as many of each, or no weights."},
  }, file);
}
