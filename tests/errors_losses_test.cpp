// Bad input to losses: the right exception, word for word, the operands as they were, and nothing leaked.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_losses_test.cpp";
const std::string undefined = ": the tensor is undefined; give it a value first.";
const std::string integer = ": the tensor is int32; it must be a floating type.";
const std::string unequal = ": the prediction is [2, 3] and the target [3]; the shapes must be equal.";
const std::string equal_shapes = "; the shapes must be equal.";
const std::string outside = " is out of range for 3 classes; it must be in [0, 3)";

/// Operands of the tables below, the same in each test.
struct Operands {
  Tensor x = {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}};
  Tensor three = {1.0f, 2.0f, 3.0f};
  Tensor integers = {{1, 2, 3}, {4, 5, 6}};
  Tensor labels = {0, 2};
  Tensor none;

  ~Operands() {  // nothing may have changed them
    CHECK(same(x, {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}}));
    CHECK(same(labels, {0, 2}));
    CHECK(x.version() == 0);
    CHECK(labels.version() == 0);
  }
};

using Loss = Tensor (*)(const Tensor&, const Tensor&);
struct Named {
  const char* name;
  Loss loss;
};
/// Those that call their operands prediction and target.
const Named predictions[] = {
    {"mse_loss", [](const Tensor& a, const Tensor& b) { return mse_loss(a, b); }},
    {"l1_loss", [](const Tensor& a, const Tensor& b) { return l1_loss(a, b); }},
    {"smooth_l1_loss", [](const Tensor& a, const Tensor& b) { return smooth_l1_loss(a, b); }},
    {"huber_loss", [](const Tensor& a, const Tensor& b) { return huber_loss(a, b); }},
    {"log_cosh_loss", [](const Tensor& a, const Tensor& b) { return log_cosh_loss(a, b); }},
    {"binary_cross_entropy", [](const Tensor& a, const Tensor& b) { return binary_cross_entropy(a, b); }},
    {"hinge_loss", [](const Tensor& a, const Tensor& b) { return hinge_loss(a, b); }},
    {"squared_hinge_loss", [](const Tensor& a, const Tensor& b) { return squared_hinge_loss(a, b); }},
    {"soft_margin_loss", [](const Tensor& a, const Tensor& b) { return soft_margin_loss(a, b); }},
    {"cosine_loss", [](const Tensor& a, const Tensor& b) { return cosine_loss(a, b); }},
};
/// Others of two floating operands.
const Named others[] = {
    {"sigmoid_cross_entropy", [](const Tensor& a, const Tensor& b) { return sigmoid_cross_entropy(a, b); }},
    {"softmax_cross_entropy", [](const Tensor& a, const Tensor& b) { return softmax_cross_entropy(a, b); }},
    {"kl_div", [](const Tensor& a, const Tensor& b) { return kl_div(a, b); }},
    {"poisson_nll_loss", [](const Tensor& a, const Tensor& b) { return poisson_nll_loss(a, b); }},
    {"gaussian_nll_loss", [](const Tensor& a, const Tensor& b) { return gaussian_nll_loss(a, b, a); }},
    {"hinge_embedding_loss", [](const Tensor& a, const Tensor& b) { return hinge_embedding_loss(a, b); }},
    {"margin_ranking_loss", [](const Tensor& a, const Tensor& b) { return margin_ranking_loss(a, b, a); }},
    {"multilabel_soft_margin_loss", [](const Tensor& a, const Tensor& b) { return multilabel_soft_margin_loss(a, b); }},
    {"cosine_embedding_loss", [](const Tensor& a, const Tensor& b) { return cosine_embedding_loss(a, b, a); }},
    {"cosine_similarity", [](const Tensor& a, const Tensor& b) { return cosine_similarity(a, b); }},
    {"pairwise_distance", [](const Tensor& a, const Tensor& b) { return pairwise_distance(a, b); }},
    {"triplet_margin_loss", [](const Tensor& a, const Tensor& b) { return triplet_margin_loss(a, b, a); }},
};

}  // namespace

TEST_CASE("losses refuse operands that are undefined, of integers, or of other shapes", "[errors][losses]") {
  const Operands o;
  std::vector<ErrorRow> rows;
  const auto refuse = [&](const Named& row) {
    const std::string name = row.name;
    const Loss f = row.loss;
    rows.push_back({kNoPlace, message_of<Error>, [f, &o] { f(o.none, o.x); }, name + undefined});
    rows.push_back({kNoPlace, message_of<Error>, [f, &o] { f(o.x, o.none); }, name + undefined});
    rows.push_back({kNoPlace, message_of<DTypeError>, [f, &o] { f(o.integers, o.x); }, name + integer});
    rows.push_back({kNoPlace, message_of<DTypeError>, [f, &o] { f(o.x, o.integers); }, name + integer});
  };
  for (const Named& row : predictions) {
    refuse(row);
    rows.push_back({kNoPlace, message_of<ShapeError>, [f = row.loss, &o] { f(o.x, o.three); }, row.name + unequal});
  }
  for (const Named& row : others) refuse(row);
  check_errors(rows, file);
}

TEST_CASE("losses name their own operands where shapes differ", "[errors][losses]") {
  const Operands o;
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { mse_loss(o.x, o.three); }, "mse_loss" + unequal},
      {__LINE__, message_of<ShapeError>, [&] { sigmoid_cross_entropy(o.x, o.three); },
       "sigmoid_cross_entropy: the logits are [2, 3] and the labels [3]" + equal_shapes},
      {__LINE__, message_of<ShapeError>, [&] { softmax_cross_entropy(o.x, o.three); },
       "softmax_cross_entropy: the logits are [2, 3] and the labels [3]" + equal_shapes},
      {__LINE__, message_of<ShapeError>, [&] { multilabel_soft_margin_loss(o.x, o.three); },
       "multilabel_soft_margin_loss: the logits are [2, 3] and the labels [3]" + equal_shapes},
      {__LINE__, message_of<ShapeError>, [&] { softmax_cross_entropy(Tensor(1.0f), Tensor(1.0f)); },
       "softmax_cross_entropy: the logits are []; they must be [..., classes]."},
      {__LINE__, message_of<ShapeError>, [&] { multilabel_soft_margin_loss(Tensor(1.0f), Tensor(1.0f)); },
       "multilabel_soft_margin_loss: the logits are []; they must be [..., classes]."},
      {__LINE__, message_of<ShapeError>, [&] { kl_div(o.x, o.three); },
       "kl_div: the input is [2, 3] and the target [3]" + equal_shapes},
      {__LINE__, message_of<ShapeError>, [&] { poisson_nll_loss(o.x, o.three); },
       "poisson_nll_loss: the input is [2, 3] and the target [3]" + equal_shapes},
      {__LINE__, message_of<ShapeError>, [&] { gaussian_nll_loss(o.x, o.x, o.three); },
       "gaussian_nll_loss: the variance is [3] and the input [2, 3]; "
       "it must have the input's shape, or one number for each row."},
      {__LINE__, message_of<DTypeError>, [&] { gaussian_nll_loss(o.x, o.x, o.integers); }, "gaussian_nll_loss" + integer},
      {__LINE__, message_of<ShapeError>, [&] { hinge_embedding_loss(o.x, o.three); },
       "hinge_embedding_loss: the input is [2, 3] and the target [3]" + equal_shapes},
      {__LINE__, message_of<ShapeError>, [&] { margin_ranking_loss(o.x, o.three, o.x); },
       "margin_ranking_loss: the first input is [2, 3] and the second [3]" + equal_shapes},
      {__LINE__, message_of<ShapeError>, [&] { margin_ranking_loss(o.x, o.x, o.three); },
       "margin_ranking_loss: the first input is [2, 3] and the target [3]" + equal_shapes},
      {__LINE__, message_of<ShapeError>, [&] { cosine_embedding_loss(o.x, o.x, o.three); },
       "cosine_embedding_loss: the inputs are [2, 3] and the target [3]; "
       "the target must have their shape without the last axis."},
      {__LINE__, message_of<ShapeError>, [&] { cosine_embedding_loss(Tensor(1.0f), Tensor(1.0f), Tensor(1.0f)); },
       "cosine_embedding_loss: the inputs are []; they must have an axis to measure along."},
      {__LINE__, message_of<DTypeError>, [&] { cosine_embedding_loss(o.x, o.x, Tensor{true, false}); },
       "cosine_embedding_loss: the target is bool; it must be a number type, not bool."},
      {__LINE__, message_of<ShapeError>, [&] { triplet_margin_loss(o.x, o.x, o.three); },
       "triplet_margin_loss: the anchor is [2, 3] and the negative [3]" + equal_shapes},
      {__LINE__, message_of<ShapeError>, [&] { triplet_margin_loss(Tensor(1.0f), Tensor(1.0f), Tensor(1.0f)); },
       "triplet_margin_loss: the inputs are []; they must have an axis to measure along."},
      {__LINE__, message_of<ShapeError>, [&] { pairwise_distance(o.x, Tensor{1.0f, 2.0f}); },
       "pairwise_distance: shapes do not broadcast: a is [2, 3] and b is [2]; "
       "sizes 3 and 2 of axis -1 must be equal or 1."},
      {__LINE__, message_of<IndexError>, [&] { cosine_similarity(o.x, o.three, {.axis = 2}); },
       "cosine_similarity: axis 2 is out of range for rank 2; it must be in [-2, 2)."},
      {__LINE__, message_of<IndexError>, [&] { cosine_loss(o.x, o.x, {.axis = -3}); },
       "cosine_loss: axis -3 is out of range for rank 2; it must be in [-2, 2)."},
  }, file);
}

TEST_CASE("losses refuse numbers and weights that make no sense", "[errors][losses]") {
  const Operands o;
  const Tensor half = {0.5f, 1.5f}, most = {1.0f, -0.25f};
  check_errors({
      {__LINE__, message_of<Error>, [&] { smooth_l1_loss(o.x, o.x, {.beta = -1}); },
       "smooth_l1_loss: beta is -1; it must be >= 0."},
      {__LINE__, message_of<Error>, [&] { huber_loss(o.x, o.x, {.delta = 0}); }, "huber_loss: delta is 0; it must be > 0."},
      {__LINE__, message_of<Error>, [&] { huber_loss(o.x, o.x, {.delta = kNaN}); },
       "huber_loss: delta is nan; it must be > 0."},
      {__LINE__, message_of<Error>, [&] { binary_cross_entropy(half, half); },
       "binary_cross_entropy: the predictions are from 0.5 to 1.5; each must be in [0, 1]."},
      {__LINE__, message_of<Error>, [&] { binary_cross_entropy(most, half); },
       "binary_cross_entropy: the predictions are from -0.25 to 1; each must be in [0, 1]."},
      {__LINE__, message_of<Error>, [&] { gaussian_nll_loss(half, half, most); },
       "gaussian_nll_loss: the smallest variance is -0.25; none may be negative."},
      {__LINE__, message_of<Error>, [&] { binary_cross_entropy(Tensor{kNaN, 1.5}, Tensor{0.0, 1.0}); },
       "binary_cross_entropy: the predictions are from 0 to 1.5; each must be in [0, 1]."},
      {__LINE__, message_of<Error>, [&] { gaussian_nll_loss(half, half, Tensor{kNaN, -0.25}); },
       "gaussian_nll_loss: the smallest variance is -0.25; none may be negative."},
      {__LINE__, message_of<Error>, [&] { multi_margin_loss(o.x, o.labels, {.p = 3}); },
       "multi_margin_loss: p is 3; it must be 1 or 2."},
      {__LINE__, message_of<Error>, [&] { triplet_margin_loss(o.x, o.x, o.x, {.p = kNaN}); },
       "triplet_margin_loss: p is nan; it must be a number."},
      {__LINE__, message_of<Error>, [&] { pairwise_distance(o.x, o.x, {.p = kNaN}); },
       "pairwise_distance: p is nan; it must be a number."},
      {__LINE__, message_of<ShapeError>, [&] { mse_loss(o.x, o.x, {.weight = ones({2})}); },
       "mse_loss: the weight is [2] and the losses are [2, 3]; the weight must broadcast to their shape."},
      {__LINE__, message_of<ShapeError>, [&] { mse_loss(o.x, o.x, {.weight = ones({4, 2, 3})}); },
       "mse_loss: the weight is [4, 2, 3] and the losses are [2, 3]; the weight must broadcast to their shape."},
      {__LINE__, message_of<DTypeError>, [&] { mse_loss(o.x, o.x, {.weight = o.integers}); },
       "mse_loss: the weight is int32; it must be a floating type."},
      {__LINE__, message_of<ShapeError>, [&] { sigmoid_cross_entropy(o.x, o.x, {.pos_weight = ones({2})}); },
       "sigmoid_cross_entropy: the pos_weight is [2] and the losses are [2, 3]; "
       "the pos_weight must broadcast to their shape."},
      {__LINE__, message_of<ShapeError>, [&] { sparse_softmax_cross_entropy(o.x, o.labels, {.weight = o.three}); },
       "sparse_softmax_cross_entropy: the weight is [3] and the losses are [2]; the weight must broadcast to their shape."},
      {__LINE__, message_of<Error>, [&] { cross_entropy(o.x, o.labels, {.label_smoothing = 1.5}); },
       "cross_entropy: label_smoothing is 1.5; it must be in [0, 1]."},
      {__LINE__, message_of<Error>, [&] { cross_entropy(o.x, o.x, {.ignored_label = 2}); },
       "cross_entropy: label 2 shall be ignored, but the target is floating: probabilities, which have no labels."},
      {__LINE__, message_of<ShapeError>, [&] { cross_entropy(o.x, o.labels, {.class_weight = ones({2})}); },
       "cross_entropy: the class weights are [2] and there are 3 classes; they must be [3]."},
      {__LINE__, message_of<DTypeError>, [&] { nll_loss(o.x, o.labels, {.class_weight = Tensor{1, 2, 3}}); },
       "nll_loss: the class weights are int32; they must be of a floating type."},
  }, file);
}

TEST_CASE("labels outside the classes are named with their row", "[errors][losses]") {
  const Operands o;
  const std::string sparse = "sparse_softmax_cross_entropy: ";
  const Tensor one_label = {0, 1, 2}, grid = {{0, 1}, {2, 3}}, images = zeros({2, 3, 2});
  check_errors({
      {__LINE__, message_of<IndexError>, [&] { sparse_softmax_cross_entropy(o.x, Tensor{0, 3}); },
       sparse + "label 3 of row 1" + outside + "."},
      {__LINE__, message_of<ShapeError>, [&] { sparse_softmax_cross_entropy(o.x, one_label); },
       sparse + "the logits are [2, 3] and the labels [3]; the labels must have the logits' shape without the last axis."},
      {__LINE__, message_of<DTypeError>, [&] { sparse_softmax_cross_entropy(o.x, Tensor{0.0f, 1.0f}); },
       sparse + "the labels are float32; they must be int32 or int64."},
      {__LINE__, message_of<ShapeError>, [&] { sparse_softmax_cross_entropy(Tensor(1.0f), Tensor(0)); },
       sparse + "the logits are [] and the labels []; the labels must have the logits' shape without the last axis."},
      {__LINE__, message_of<IndexError>, [&] { cross_entropy(o.x, Tensor{-1, 0}); },
       "cross_entropy: label -1 of row 0" + outside + ", or -100 to be ignored."},
      {__LINE__, message_of<IndexError>, [&] { cross_entropy(o.x, Tensor{-1, 3}, {.ignored_label = -1}); },
       "cross_entropy: label 3 of row 1" + outside + ", or -1 to be ignored."},
      {__LINE__, message_of<IndexError>, [&] { cross_entropy(images, grid, {.axis = 1}); },
       "cross_entropy: label 3 of row 3" + outside + ", or -100 to be ignored."},
      {__LINE__, message_of<ShapeError>, [&] { cross_entropy(images, o.labels, {.axis = 1}); },
       "cross_entropy: the logits are [2, 3, 2] and the labels [2]; the labels must have the logits' shape without axis 1."},
      {__LINE__, message_of<ShapeError>, [&] { cross_entropy(o.x, o.three); },
       "cross_entropy: the logits are [2, 3] and the probabilities [3]; the shapes must be equal."},
      {__LINE__, message_of<IndexError>, [&] { cross_entropy(o.x, o.labels, {.axis = 2}); },
       "cross_entropy: axis 2 is out of range for rank 2; it must be in [-2, 2)."},
      {__LINE__, message_of<IndexError>, [&] { cross_entropy(Tensor(1.0f), Tensor(0)); },
       "cross_entropy: axis -1 is out of range for rank 0; it must be in [0, 0)."},
      {__LINE__, message_of<DTypeError>, [&] { cross_entropy(o.x, Tensor{true, false}); },
       "cross_entropy: the labels are bool; they must be int32 or int64."},
      {__LINE__, message_of<IndexError>, [&] { nll_loss(o.x, Tensor{0, 3}); },
       "nll_loss: label 3 of row 1" + outside + ", or -100 to be ignored."},
      {__LINE__, message_of<ShapeError>, [&] { nll_loss(o.x, one_label); },
       "nll_loss: the log-probabilities are [2, 3] and the labels [3]; "
       "the labels must have the log-probabilities' shape without the last axis."},
      {__LINE__, message_of<IndexError>, [&] { multi_margin_loss(o.x, Tensor{3, 0}); },
       "multi_margin_loss: label 3 of row 0" + outside + "."},
      {__LINE__, message_of<ShapeError>, [&] { multi_margin_loss(o.x, one_label); },
       "multi_margin_loss: the scores are [2, 3] and the labels [3]; "
       "the labels must have the scores' shape without the last axis."},
      {__LINE__, message_of<IndexError>, [&] { multilabel_margin_loss(o.x, Tensor{{0, -1, 0}, {1, 3, -1}}); },
       "multilabel_margin_loss: label 3 of row 1 is out of range for 3 classes; it must be in [-1, 3)."},
      {__LINE__, message_of<ShapeError>, [&] { multilabel_margin_loss(o.x, o.labels); },
       "multilabel_margin_loss: the scores are [2, 3] and the labels [2]; both must be [..., classes], of one shape."},
      {__LINE__, message_of<DTypeError>, [&] { multilabel_margin_loss(o.x, o.x); },
       "multilabel_margin_loss: the labels are float32; they must be int32 or int64."},
      {__LINE__, message_of<DTypeError>, [&] { multi_margin_loss(o.integers, o.labels); }, "multi_margin_loss" + integer},
      {__LINE__, message_of<DTypeError>, [&] { nll_loss(o.integers, o.labels); }, "nll_loss" + integer},
      {__LINE__, message_of<Error>, [&] { cross_entropy(o.x, o.none); }, "cross_entropy" + undefined},
      {__LINE__, message_of<Error>, [&] { sparse_softmax_cross_entropy(o.none, o.labels); },
       "sparse_softmax_cross_entropy" + undefined},
  }, file);
}

TEST_CASE("a loss that throws leaves the tape as it was", "[errors][losses][tape]") {
  const Tensor x = {{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}, single = zeros({2, 3});
  GradientTape tape;
  tape.watch(x);
  CHECK_THROWS_AS(mse_loss(x, single, {.weight = ones({5})}), ShapeError);
  CHECK_THROWS_AS(cross_entropy(x, Tensor{0, 7}, {.label_smoothing = 0.5}), IndexError);
  CHECK_THROWS_AS(sparse_softmax_cross_entropy(x, Tensor{0, 1}, {.weight = ones({5})}), ShapeError);
  CHECK_THROWS_AS(sigmoid_cross_entropy(x, x, {.pos_weight = ones({5})}), ShapeError);
  CHECK(tape.size() == 0);
}
