#pragma once
// Random examples, and what other software says of them: made by tests/metrics_values.py.
#include <cstdint>
#include <string>
#include <vector>

namespace tests {

/// Averages are macro, micro, weighted for precision, then for recall, then for f1.
struct ClassesRow {
  std::int64_t classes;
  std::vector<double> scores;  // [labels, classes]; different in each row
  std::vector<std::int64_t> labels;
  std::vector<double> weights;
  double accuracy, weighted_accuracy, top2, weighted_top2, kappa, matthews;
  std::vector<std::int64_t> matrix;
  std::vector<double> precision, recall, f1;  // by class
  std::vector<double> averages, averages_with_nan;
};
extern const std::vector<ClassesRow> classes_rows;

/// Precision, recall and f1 are those of class 1, for scores above 0.5.
struct BinaryRow {
  std::vector<double> scores;
  std::vector<std::int64_t> labels;
  std::vector<double> weights;
  double accuracy, weighted_accuracy, precision, recall, f1;
  double auc, weighted_auc, average_precision, weighted_average_precision;
};
extern const std::vector<BinaryRow> binary_rows;

struct RegressionRow {
  std::vector<double> predictions, targets, weights;
  double absolute, squared, root, r2;
  double weighted_absolute, weighted_squared, weighted_root, weighted_r2;
};
extern const std::vector<RegressionRow> regression_rows;

struct PerplexityRow {
  std::int64_t tokens;
  std::vector<double> logits;  // [labels, tokens]
  std::vector<std::int64_t> labels;
  std::vector<double> weights;
  double perplexity, weighted;
};
extern const std::vector<PerplexityRow> perplexity_rows;

using TokenList = std::vector<std::int64_t>;
struct BleuRow {
  int max_order;
  std::vector<TokenList> candidates;
  std::vector<std::vector<TokenList>> references;  // of each candidate
  double none, add_one, exponential, effective;
};
extern const std::vector<BleuRow> bleu_rows;

struct EditRow {
  std::string a, b;  // UTF-8
  std::int64_t distance;
};
extern const std::vector<EditRow> edit_rows;

}  // namespace tests
