// Metrics of classes, rankings and numbers: random examples that other software has judged, and cases judged by hand.
#include <string>
#include <vector>

#include "tests/metrics_support.hpp"
#include "tests/metrics_values.hpp"

using namespace capstan;
using namespace tests;
using Catch::Matchers::StartsWith;
using metrics::Average;

namespace {

constexpr Average kAverages[] = {Average::macro, Average::micro, Average::weighted};

std::vector<double> averages_of(const metrics::ConfusionMatrix& matrix) {
  std::vector<double> list;
  for (const Average average : kAverages) list.push_back(matrix.precision(average));
  for (const Average average : kAverages) list.push_back(matrix.recall(average));
  for (const Average average : kAverages) list.push_back(matrix.f1(average));
  return list;
}

template <class Metric>
double result_of(Metric metric, const Tensor& predictions, const Tensor& labels, const Tensor& weights = Tensor()) {
  metric.update(predictions, labels, weights);
  return metric.result();
}

}  // namespace

TEST_CASE("accuracies of classes are those of scikit-learn, for scores of any type", "[metrics]") {
  for (const ClassesRow& row : classes_rows) {
    const Tensor labels = list_of(row.labels), weights = list_of(row.weights, DType::float32);
    for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) {
      INFO(row.classes << " classes, " << row.labels.size() << " labels, " << name(dtype));
      const Tensor scores = table_of(row.scores, row.classes, dtype);  // multiples of 1/8: exact in all types
      for (const Tensor& x : {scores, strided(scores)}) {
        CHECK(near(result_of(metrics::Accuracy(), x, labels), row.accuracy));
        CHECK(near(result_of(metrics::Accuracy(), x, labels, weights), row.weighted_accuracy));
        CHECK(near(result_of(metrics::TopK(2), x, labels), row.top2));
        CHECK(near(result_of(metrics::TopK(2), x, labels, weights), row.weighted_top2));
        CHECK(result_of(metrics::TopK(1), x, labels, weights) == result_of(metrics::Accuracy(), x, labels, weights));
        CHECK(result_of(metrics::TopK(row.classes), x, labels) == 1);
      }
    }
    const Tensor whole = cast(table_of(row.scores, row.classes) * 8, DType::int8);
    CHECK(near(result_of(metrics::Accuracy(), whole, cast(labels, DType::uint8)), row.accuracy));
    CHECK(near(result_of(metrics::TopK(2), whole, cast(labels, DType::int16)), row.top2));
    CHECK(near(result_of(metrics::Accuracy(), argmax(whole, -1), labels, weights), row.weighted_accuracy));
  }
}

TEST_CASE("what is made of confusion matrices is what scikit-learn makes of them", "[metrics]") {
  for (const ClassesRow& row : classes_rows) {
    INFO(row.classes << " classes, " << row.labels.size() << " labels");
    const Tensor scores = table_of(row.scores, row.classes, DType::float32), labels = list_of(row.labels);
    metrics::ConfusionMatrix matrix(row.classes), with_nan(row.classes, {.zero_division = kNaN});
    matrix.update(scores, labels);
    with_nan.update(argmax(scores, -1), labels);
    CHECK(matrix.matrix().shape() == Shape({row.classes, row.classes}));
    CHECK(matrix.matrix().to_vector<std::int64_t>() == row.matrix);
    CHECK(same(with_nan.result(), matrix.matrix()));
    CHECK(matrix.total() == static_cast<std::int64_t>(row.labels.size()));
    CHECK(near(matrix.accuracy(), row.accuracy));
    CHECK(near(matrix.precision(), row.precision));
    CHECK(near(matrix.recall(), row.recall));
    CHECK(near(matrix.f1(), row.f1));
    CHECK(near(averages_of(matrix), row.averages));
    CHECK(near(averages_of(with_nan), row.averages_with_nan));
    CHECK(near(matrix.kappa(), row.kappa));
    CHECK(near(matrix.matthews(), row.matthews));

    for (std::size_t i = 0; i < 3; ++i) {
      const metrics::ClassScoreOptions options{.classes = row.classes, .average = kAverages[i]};
      metrics::Precision precision(options);
      metrics::Recall recall(options);
      metrics::F1 f1(options);
      precision.update(scores, labels);
      recall.update(scores, labels);
      f1.update(argmax(scores, -1), labels);
      CHECK(near(precision.result(), row.averages[i]));
      CHECK(near(recall.result(), row.averages[3 + i]));
      CHECK(near(f1.result(), row.averages[6 + i]));
    }
  }
}

TEST_CASE("metrics of two classes are those of scikit-learn, ties and weights included", "[metrics]") {
  for (const BinaryRow& row : binary_rows) {
    INFO(row.scores.size() << " scores");
    const Tensor scores = list_of(row.scores), labels = list_of(row.labels), weights = list_of(row.weights);
    CHECK(near(result_of(metrics::BinaryAccuracy(), scores, labels), row.accuracy));
    CHECK(
        near(result_of(metrics::BinaryAccuracy(), scores, cast(labels, DType::bool8), weights), row.weighted_accuracy));
    CHECK(near(result_of(metrics::Auc(), scores, labels), row.auc));
    CHECK(near(result_of(metrics::Auc(), strided(scores), cast(labels, DType::float32), weights), row.weighted_auc));
    CHECK(near(result_of(metrics::AveragePrecision(), scores, labels), row.average_precision));
    CHECK(near(result_of(metrics::AveragePrecision(), scores, labels, weights), row.weighted_average_precision));
    metrics::Precision precision;
    metrics::Recall recall;
    metrics::F1 f1;
    precision.update(scores, labels);
    recall.update(scores, cast(labels, DType::bool8));
    f1.update(greater(scores, 0.5), labels);
    CHECK(near(precision.result(), row.precision));
    CHECK(near(recall.result(), row.recall));
    CHECK(near(f1.result(), row.f1));
  }
}

TEST_CASE("errors of predicted numbers are those of scikit-learn, also far from zero", "[metrics]") {
  for (const RegressionRow& row : regression_rows) {
    INFO(row.targets.size() << " targets from " << row.targets[0]);
    const Tensor p = list_of(row.predictions), t = list_of(row.targets), w = list_of(row.weights);
    CHECK(near(result_of(metrics::MeanAbsoluteError(), p, t), row.absolute));
    CHECK(near(result_of(metrics::MeanSquaredError(), p, t), row.squared));
    CHECK(near(result_of(metrics::RootMeanSquaredError(), p, t), row.root));
    CHECK(near(result_of(metrics::R2(), p, t), row.r2));
    CHECK(near(result_of(metrics::MeanAbsoluteError(), p, t, w), row.weighted_absolute));
    CHECK(near(result_of(metrics::MeanSquaredError(), p, t, w), row.weighted_squared));
    CHECK(near(result_of(metrics::RootMeanSquaredError(), p, t, w), row.weighted_root));
    CHECK(near(result_of(metrics::R2(), p, t, w), row.weighted_r2));
  }
}

// --- by hand -----------------------------------------------------------------------------------------------------

TEST_CASE("of equal scores the first class is predicted, and the first k are the best k", "[metrics]") {
  const Tensor scores = {{2.0f, 7.0f, 7.0f, 1.0f}}, flat = {{3.0f, 3.0f, 3.0f, 3.0f}};
  for (const std::int64_t label : {0, 1, 2, 3}) {
    INFO(label);
    const Tensor labels = list_of(Ids{label});
    CHECK(result_of(metrics::Accuracy(), scores, labels) == (label == 1 ? 1 : 0));
    CHECK(result_of(metrics::Accuracy(), flat, labels) == (label == 0 ? 1 : 0));
    for (const std::int64_t k : {1, 2, 3, 4, 9}) {
      INFO(k);
      const std::int64_t rank[] = {2, 0, 1, 3};
      CHECK(result_of(metrics::TopK(k), scores, labels) == (rank[label] < k ? 1 : 0));
      CHECK(result_of(metrics::TopK(k), flat, labels) == (label < k ? 1 : 0));
    }
  }
}

TEST_CASE("labels may have any number of axes, and none", "[metrics]") {
  const Tensor scores = random_in(-1, 1, {2, 3, 5}, DType::float32, 4), labels = argmax(scores, -1);
  CHECK(result_of(metrics::Accuracy(), scores, labels) == 1);
  CHECK(result_of(metrics::Accuracy(), labels, labels) == 1);
  CHECK(result_of(metrics::TopK(3), scores.index({1, 2}), labels.index({1, 2})) == 1);
  CHECK(result_of(metrics::Accuracy(), Tensor(3), Tensor(2)) == 0);
  metrics::Accuracy whole;
  whole.update(scores, labels);
  CHECK(whole.weight() == 6);
}

TEST_CASE("what is ignored or has no weight does not count, whatever it is", "[metrics]") {
  const Tensor scores = {{1.0f, 0.0f}, {0.0f, 1.0f}, {static_cast<float>(kNaN), 1.0f}, {1.0f, 0.0f}};
  const Tensor labels = list_of(Ids{0, 0, kIgnoredLabel, 77});
  const Tensor mask = {true, true, true, false};
  metrics::Accuracy accuracy;
  accuracy.update(scores, labels, mask);
  CHECK(accuracy.result() == 0.5);  // the first is right, the second wrong
  CHECK(accuracy.weight() == 2);
  CHECK(result_of(metrics::TopK(2), scores, labels, mask) == 1);

  const Tensor padded = list_of(Ids{0, 0, 9, 9});
  metrics::ConfusionMatrix matrix(2, {.ignored_label = 9});
  matrix.update(scores, padded);
  CHECK(same(matrix.matrix(), from_vector(Ids{1, 1, 0, 0}, {2, 2})));
  CHECK(result_of(metrics::Accuracy({.ignored_label = 9}), scores, padded) == 0.5);

  const Tensor numbers = {0.25, 0.75, kNaN, kNaN};
  const Tensor truth = {0.0, 0.0, 1.0, 1.0};
  CHECK(result_of(metrics::BinaryAccuracy(), numbers, truth, Tensor{1, 3, 0, 0}) == 0.25);
  CHECK(result_of(metrics::MeanSquaredError(), numbers, truth, Tensor{1, 1, 0, 0}) == 0.3125);  // (1/16 + 9/16) / 2
  CHECK(result_of(metrics::Auc({.ignored_label = 7}), Tensor{0.1, 0.2, kNaN}, Tensor{0, 1, 7}) == 1);
}

TEST_CASE("a threshold is what class 1 must exceed", "[metrics]") {
  const Tensor scores = {-1.0, 0.0, 0.5, 0.75}, labels = {0, 0, 1, 1};
  CHECK(result_of(metrics::BinaryAccuracy(), scores, labels) == 0.75);
  CHECK(result_of(metrics::BinaryAccuracy({.threshold = 0}), scores, labels) == 1);
  CHECK(result_of(metrics::BinaryAccuracy({.threshold = kInfinity}), scores, labels) == 0.5);
  metrics::Recall recall({.threshold = 0.5});
  recall.update(scores, labels);
  CHECK(recall.result() == 0.5);
}

TEST_CASE("a score that is the threshold in its own type is class 0, and the next larger one class 1", "[metrics]") {
  const double tenth = 0.1f;  // as a float, 0.1 and 1.5e-9
  const double next32 = std::nextafter(0.1f, 1.0f), next64 = std::nextafter(0.1, 1.0);
  const Tensor labels = {0, 1};
  const auto check = [&](const Tensor& scores) {
    CHECK(result_of(metrics::BinaryAccuracy({.threshold = 0.1}), scores, labels) == 1);
    metrics::Precision precision({.threshold = 0.1});
    precision.update(scores, labels);
    CHECK(precision.result() == 1);
  };
  check(list_of(std::vector<double>{tenth, next32}, DType::float32));
  check(list_of(std::vector<double>{0.1, next64}, DType::float64));
  check(list_of(std::vector<double>{0.1, tenth}, DType::float64));
  check(list_of(std::vector<double>{0.1, 0.101}, DType::float16));
  check(list_of(std::vector<double>{0.1, 0.101}, DType::bfloat16));
  CHECK(result_of(metrics::BinaryAccuracy(), Tensor{0, 1}, labels) == 1);  // 0.5 is no integer, and stays what it is
  const Tensor infinite = list_of(std::vector<double>{65504, kInfinity}, DType::float16);
  CHECK(result_of(metrics::BinaryAccuracy({.threshold = 1e6}), infinite, labels) == 1);
}

TEST_CASE("metrics with different thresholds do not merge", "[metrics][errors]") {
  const Tensor scores = {0.25, 0.75}, labels = {0, 1};
  metrics::BinaryAccuracy accuracy;
  metrics::F1 f1;
  metrics::Recall classes({.classes = 3, .threshold = 0.1});
  accuracy.update(scores, labels);
  f1.update(scores, labels);
  CHECK_THROWS_WITH(accuracy.merge(metrics::BinaryAccuracy({.threshold = 0})),
                    StartsWith("BinaryAccuracy::merge: the threshold is 0.5 and that of the other 0; they must be "));
  CHECK_THROWS_WITH(f1.merge(metrics::F1({.threshold = 0.25})),
                    StartsWith("F1::merge: the threshold is 0.5 and that of the other 0.25; they must be equal. ("));
  CHECK_NOTHROW(classes.merge(metrics::Recall({.classes = 3})));  // which have no use for one
  CHECK(accuracy.weight() == 2);
  CHECK(f1.matrix().total() == 2);
}

TEST_CASE("of nothing means are NaN, and scores what 0 / 0 is taken for", "[metrics]") {
  const Tensor none = zeros({0}, {.dtype = DType::int64}), scores = zeros({0, 3}), numbers = zeros({0});
  CHECK(std::isnan(metrics::Accuracy().result()));
  CHECK(std::isnan(result_of(metrics::Accuracy(), scores, none)));
  CHECK(std::isnan(result_of(metrics::TopK(5), scores, none)));
  CHECK(std::isnan(result_of(metrics::BinaryAccuracy(), numbers, none)));
  CHECK(std::isnan(result_of(metrics::R2(), numbers, numbers)));
  CHECK(std::isnan(result_of(metrics::Accuracy(), Tensor{1, 2}, Tensor{1, 2}, Tensor{0, 0})));
  metrics::ConfusionMatrix matrix(3), ones(3, {.zero_division = 1});
  matrix.update(scores, none);
  CHECK(std::isnan(matrix.accuracy()));
  CHECK(std::isnan(matrix.kappa()));
  CHECK(matrix.matthews() == 0);
  CHECK(matrix.f1(Average::macro) == 0);
  CHECK(matrix.recall(Average::weighted) == 0);
  CHECK(ones.precision(Average::micro) == 1);
  CHECK(ones.precision() == std::vector<double>{1, 1, 1});
  CHECK(std::isnan(metrics::Precision({.zero_division = kNaN}).result()));
}

TEST_CASE("perfect and hopeless predictions have the scores that their names promise", "[metrics]") {
  const Tensor labels = list_of(Ids{0, 1, 2, 1, 0}), wrong = list_of(Ids{1, 2, 0, 0, 2});
  metrics::ConfusionMatrix good(3), bad(3), single(3);
  good.update(labels, labels);
  bad.update(wrong, labels);
  single.update(list_of(Ids{1, 1}), list_of(Ids{1, 1}));
  CHECK(good.accuracy() == 1);
  CHECK(good.f1(Average::macro) == 1);
  CHECK(good.kappa() == 1);
  CHECK(near(good.matthews(), 1));
  CHECK(bad.accuracy() == 0);
  CHECK(bad.f1(Average::weighted) == 0);
  CHECK(bad.kappa() < 0);
  CHECK(std::isnan(single.kappa()));  // chance cannot be beaten
  CHECK(single.matthews() == 0);
  CHECK(near(single.recall(Average::macro), 1.0 / 3));  // classes 0 and 2 are absent, and count as 0
  CHECK(single.recall(Average::weighted) == 1);
}

TEST_CASE("areas are 1 for the right order, 0 for the reverse, and a half for ties", "[metrics]") {
  const Tensor labels = {0, 0, 1, 1, 1}, scores = {-kInfinity, 0.1, 0.2, 7.0, kInfinity};
  CHECK(result_of(metrics::Auc(), scores, labels) == 1);
  CHECK(result_of(metrics::AveragePrecision(), scores, labels) == 1);
  CHECK(result_of(metrics::Auc(), -scores, labels) == 0);
  CHECK(result_of(metrics::Auc(), zeros({5}), labels) == 0.5);
  CHECK(near(result_of(metrics::AveragePrecision(), zeros({5}), labels), 0.6));  // one step, precision 3 / 5
  CHECK(result_of(metrics::Auc(), Tensor{0.0, -0.0}, Tensor{0, 1}) == 0.5);      // -0 is 0
  CHECK(result_of(metrics::AveragePrecision(), Tensor{2.0, 1.0}, Tensor{1, 1}) == 1);
}

TEST_CASE("constant targets are explained by predictions without error, and by nothing else", "[metrics]") {
  const Tensor targets = full({7}, 0.1, {.dtype = DType::float64});
  CHECK(result_of(metrics::R2(), targets, targets) == 1);
  CHECK(result_of(metrics::R2(), targets + 0.5, targets) == 0);
  CHECK(std::isnan(result_of(metrics::R2(), Tensor{1.0}, Tensor{2.0})));  // one target has no spread
  CHECK(std::isnan(result_of(metrics::R2(), Tensor{1.0, kNaN}, Tensor{2.0, 1.0})));
  // far from 0, where squares in double have lost the spread before they are added up
  const Tensor far = {1e9 - 0x1p-10, 1e9, 1e9 + 0x1p-10};
  CHECK(result_of(metrics::R2(), full({3}, 1e9, {.dtype = DType::float64}), far) == 0);
  CHECK(near(result_of(metrics::R2(), Tensor{1e9 - 0x1p-11, 1e9, 1e9 + 0x1p-11}, far), 0.75));
}

TEST_CASE("means weigh numbers and tensors, and do not round their sums", "[metrics]") {
  metrics::Mean mean;
  mean.update(4.0);
  mean.update(1.0, 3);
  CHECK(mean.result() == 1.75);
  CHECK(mean.weight() == 4);
  mean.update(Tensor{{1, 2}, {3, 4}});
  CHECK(mean.result() == 2.125);  // (7 + 10) / 8
  mean.update(Tensor{true, false}, 4.0);
  CHECK(mean.result() == 1.3125);  // (17 + 4) / 16
  mean.update(kNaN, 0);
  CHECK(mean.result() == 1.3125);
  mean.update(Tensor{2.0f, 5.0f, static_cast<float>(kNaN)}, Tensor{1.0, 3.0, 0.0});
  CHECK(mean.result() == 1.9);  // 38 / 20
  mean.update(kNaN);
  CHECK(std::isnan(mean.result()));
  mean.reset();
  mean.update(1e100);
  mean.update(1.0);
  mean.update(-1e100);
  CHECK(mean.result() == 1.0 / 3);
  mean.reset();
  mean.update(kInfinity);
  CHECK(mean.result() == kInfinity);
}

TEST_CASE("a confusion matrix is written as a table", "[metrics]") {
  metrics::ConfusionMatrix matrix(2);
  matrix.update(list_of(Ids{0, 0, 1, 1, 1}), list_of(Ids{0, 1, 1, 1, 0}));
  CHECK(to_string(matrix) ==
        "    label       0       1  recall\n"
        "        0       1       1  0.5000\n"
        "        1       1       2  0.6667\n"
        "precision  0.5000  0.6667\n"
        "accuracy 0.6000 of 5\n");
  const std::string names[] = {"no", "certainly"};
  CHECK(to_string(metrics::ConfusionMatrix(2, {.zero_division = kNaN}), names) ==
        "    label         no  certainly     recall\n"
        "       no          0          0        nan\n"
        "certainly          0          0        nan\n"
        "precision        nan        nan\n"
        "accuracy nan of 0\n");
}
