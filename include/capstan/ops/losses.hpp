#pragma once
// Losses: how far predictions are from what they should be.
//
// Most have PyTorch's names and its default reduction, the mean. Those with TensorFlow's, sigmoid_cross_entropy,
// softmax_cross_entropy and sparse_softmax_cross_entropy, give one loss for each element or row by default:
// `mean(sparse_softmax_cross_entropy(logits, labels))`.
//
// Shapes    prediction and target must have one shape: nothing broadcasts but weights (ShapeError)
// Types     floating, unless an entry says otherwise; promoted. The result has the promoted type
// Weights   `weight` is floating, broadcasts to the shape of the losses and multiplies them; undefined means 1. The
//           mean divides by the number of losses, not by the sum of the weights, as Keras does
// Empty     the mean of no losses is NaN and the sum 0, as in PyTorch (`mean` by itself is a ShapeError)
// Gradient  for prediction, target and weights, to any order. At kinks it is PyTorch's: l1_loss has 0 at 0, and hinges
//           pass it on where they just become 0, but for multi_margin_loss and multilabel_margin_loss
// Cost      elementwise losses are one pass each way, and keep nothing but their operands: of 16-bit ones that are added
//           up float32 copies, for only the sum or mean is rounded
// Throws    ShapeError, DTypeError, DeviceError; IndexError for labels that are no class, naming label and row
// Defined in autograd/losses.cpp, class_losses.cpp and margin_losses.cpp.
#include <cstdint>

#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// What becomes of many losses: nothing, their mean, or their sum.
enum class Reduction : std::uint8_t { none, mean, sum };

struct LossOptions {
  Tensor weight = {};
  Reduction reduction = Reduction::mean;
};
/// Of the losses that are TensorFlow's.
struct RowLossOptions {
  Tensor weight = {};
  Reduction reduction = Reduction::none;
};

// --- distances between numbers -----------------------------------------------------------------------------------

/// (prediction - target)^2
Tensor mse_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options = {},
                Where where = Where::current());
/// |prediction - target|. Gradient 0 where they are equal.
Tensor l1_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options = {},
               Where where = Where::current());

struct SmoothL1Options {
  double beta = 1;  ///< where the parabola ends; 0 is l1_loss
  Tensor weight = {};
  Reduction reduction = Reduction::mean;
};
/// d^2 / (2 beta) where d = |prediction - target| is below beta, else d - beta/2 (Girshick 2015). Error unless
/// beta >= 0.
Tensor smooth_l1_loss(const Tensor& prediction, const Tensor& target, const SmoothL1Options& options = {},
                      Where where = Where::current());

struct HuberOptions {
  double delta = 1;  ///< where the parabola ends
  Tensor weight = {};
  Reduction reduction = Reduction::mean;
};
/// d^2 / 2 where d = |prediction - target| is below delta, else delta * (d - delta/2) (Huber 1964). Error unless
/// delta > 0.
Tensor huber_loss(const Tensor& prediction, const Tensor& target, const HuberOptions& options = {},
                  Where where = Where::current());
/// log(cosh(prediction - target)), with all digits near 0 and without overflow.
Tensor log_cosh_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options = {},
                     Where where = Where::current());

// --- probabilities and rates -------------------------------------------------------------------------------------

/// -(target * log(x) + (1 - target) * log(1 - x)) for probabilities x, whose logarithms are taken as -100 at least.
///
/// Gradient  for x: g * (x - target) / max(x * (1 - x), 1e-12), as in PyTorch
/// Throws    Error  an x outside [0, 1]. sigmoid_cross_entropy takes any number and is more exact
/// Source    PyTorch's nn.functional.binary_cross_entropy
Tensor binary_cross_entropy(const Tensor& prediction, const Tensor& target, const LossOptions& options = {},
                            Where where = Where::current());

struct SigmoidCrossEntropyOptions {
  Tensor pos_weight = {};  ///< multiplies the part of label 1; floating, broadcasts to the shape of the losses
  Tensor weight = {};
  Reduction reduction = Reduction::none;
};
/// -(pos_weight * labels * log(sigmoid(logits)) + (1 - labels) * log(1 - sigmoid(logits))) for each element, without
/// overflow or cancellation. PyTorch calls it binary_cross_entropy_with_logits.
Tensor sigmoid_cross_entropy(const Tensor& logits, const Tensor& labels, const SigmoidCrossEntropyOptions& options = {},
                             Where where = Where::current());

struct KlDivOptions {
  bool log_target = false;  ///< the target is given as logarithms too
  bool batch_mean = false;  ///< the mean divides by the size of the first axis: the divergence as it is defined
  Reduction reduction = Reduction::mean;
};
/// Kullback and Leibler's divergence of the target from the distribution whose logarithms are `input`:
/// target * (log(target) - input), 0 where the target is 0.
Tensor kl_div(const Tensor& input, const Tensor& target, const KlDivOptions& options = {},
              Where where = Where::current());

struct PoissonNllOptions {
  bool log_input = true;  ///< the input is the logarithm of the rate, else the rate
  bool full = false;      ///< with Stirling's t*log(t) - t + log(2*pi*t)/2 for log(t!), where a target t is above 1
  double epsilon = 1e-8;  ///< is added to a rate before its logarithm is taken
  Tensor weight = {};
  Reduction reduction = Reduction::mean;
};
/// Negative log-likelihood of a count: exp(input) - target*input, or input - target*log(input + epsilon).
Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, const PoissonNllOptions& options = {},
                        Where where = Where::current());

struct GaussianNllOptions {
  bool full = false;      ///< with log(2*pi)/2
  double epsilon = 1e-6;  ///< smaller variances count as this one, and pass their gradient on all the same
  Reduction reduction = Reduction::mean;
};
/// Negative log-likelihood under a normal distribution: (log(variance) + (input - target)^2 / variance) / 2.
///
/// Shapes    variance like input, or one for each row: the last axis has size 1 or is missing
/// Throws    Error  a negative variance
Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& variance,
                         const GaussianNllOptions& options = {}, Where where = Where::current());

// --- classes -----------------------------------------------------------------------------------------------------
//
// Labels are int32 or int64 numbers of classes, in [0, classes).

/// -log softmax(logits)[label] for each row, in one pass.
///
/// Shapes    logits [..., classes], labels [...]; result [...]
/// Gradient  for logits: g * (softmax(logits) - one_hot(labels))
/// Throws    ShapeError  shapes do not fit     IndexError  a label out of range     DTypeError
Tensor sparse_softmax_cross_entropy(const Tensor& logits, const Tensor& labels, const RowLossOptions& options = {},
                                    Where where = Where::current());

/// -sum(labels * log_softmax(logits)) for each row; labels of the logits' shape, usually summing to 1.
/// Gradient for logits and labels.
Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& labels, const RowLossOptions& options = {},
                             Where where = Where::current());

/// A label that stands for "no label" unless another is named, as in PyTorch.
inline constexpr std::int64_t kIgnoredLabel = -100;

struct NllOptions {
  Tensor class_weight = {};                    ///< [classes], floating; rows count as much as their label's weight
  std::int64_t ignored_label = kIgnoredLabel;  ///< rows with this label, be it a class or not, do not count at all
  int axis = -1;                               ///< where the classes are; PyTorch has them on axis 1
  Reduction reduction = Reduction::mean;
};
/// -log_probabilities[label] times the label's weight, for each row.
///
/// Shapes    log_probabilities with the classes on `axis`, labels the same without that axis
/// Mean      divides by the sum of the weights of the rows that count; NaN if there are none
/// Gradient  for log_probabilities and class_weight
/// Throws    ShapeError  shapes do not fit    IndexError  a label out of range, or the axis    DTypeError, DeviceError
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& labels, const NllOptions& options = {},
                Where where = Where::current());

struct CrossEntropyOptions {
  Tensor class_weight = {};                    ///< [classes], floating; rows count as much as their label's weight
  std::int64_t ignored_label = kIgnoredLabel;  ///< rows with this label, be it a class or not, do not count at all
  double label_smoothing = 0;                  ///< in [0, 1]: the share of the target that all classes divide evenly
  int axis = -1;                               ///< where the classes are; PyTorch has them on axis 1
  Reduction reduction = Reduction::mean;
};
/// Cross entropy of softmax(logits): PyTorch's cross_entropy, but with the classes on the last axis unless told.
///
///   labels         -w[y] * logp[y], with smoothing s: (1 - s) times that - s/classes * sum(c) w[c] * logp[c]
///   probabilities  -sum(c) w[c] * p[c] * logp[c], with smoothing of (1 - s) * p[c] + s/classes instead of p[c]
///
/// Shapes    target: labels, of the logits' shape without `axis`; or probabilities, floating, of the logits' shape
/// Mean      of labels: divides by the sum of the weights of the rows that count, NaN if there are none; of
///           probabilities: by the number of rows
/// Gradient  for logits, class_weight and probabilities
/// Cost      without smoothing the fused kernel of sparse_softmax_cross_entropy
/// Throws    ShapeError  shapes do not fit    IndexError  a label out of range, or the axis    DTypeError, DeviceError
///           Error  label_smoothing outside [0, 1]; an ignored class beside probabilities
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options = {},
                     Where where = Where::current());

struct MultiMarginOptions {
  int p = 1;  ///< 1 or 2
  double margin = 1;
  Tensor class_weight = {};  ///< [classes], floating; multiplies the losses of rows with that label
  Reduction reduction = Reduction::mean;
};
/// For each row with label y: sum(i != y) max(0, margin - x[y] + x[i])^p * class_weight[y] / classes. Error unless p is
/// 1 or 2.
/// Shapes    x, the scores, [..., classes]; labels [...]
Tensor multi_margin_loss(const Tensor& scores, const Tensor& labels, const MultiMarginOptions& options = {},
                         Where where = Where::current());

struct MultilabelMarginOptions {
  Reduction reduction = Reduction::mean;
};
/// For each row that has several labels: the sum over its labels j and the classes i that are none of them of
/// max(0, 1 - x[j] + x[i]) / classes.
/// Shapes    x, the scores, [..., classes]; labels the same, int32 or int64 in [-1, classes): a -1 ends those of a row
Tensor multilabel_margin_loss(const Tensor& scores, const Tensor& labels, const MultilabelMarginOptions& options = {},
                              Where where = Where::current());

/// The mean over the last axis of sigmoid_cross_entropy(logits, labels), weighted: one loss for each row.
/// Shapes    logits and labels [..., classes], weight [classes] or what else broadcasts to it
Tensor multilabel_soft_margin_loss(const Tensor& logits, const Tensor& labels, const LossOptions& options = {},
                                   Where where = Where::current());

// --- margins; targets are -1 or 1 --------------------------------------------------------------------------------

/// max(0, 1 - target * prediction)
Tensor hinge_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options = {},
                  Where where = Where::current());
/// max(0, 1 - target * prediction)^2
Tensor squared_hinge_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options = {},
                          Where where = Where::current());
/// log(1 + exp(-target * prediction)), without overflow.
Tensor soft_margin_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options = {},
                        Where where = Where::current());

/// Of losses that compare two inputs; 0 for these by default.
struct MarginOptions {
  double margin = 0;
  Reduction reduction = Reduction::mean;
};
struct HingeEmbeddingOptions {
  double margin = 1;
  Reduction reduction = Reduction::mean;
};
/// For distances x: x where the target is 1, max(0, margin - x) where it is -1, their sum elsewhere, as in PyTorch. The
/// gradient for the target is 0.
Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, const HingeEmbeddingOptions& options = {},
                            Where where = Where::current());
/// max(0, margin - target * (first - second)): `first` shall be larger where the target is 1. Three of one shape.
Tensor margin_ranking_loss(const Tensor& first, const Tensor& second, const Tensor& target,
                           const MarginOptions& options = {}, Where where = Where::current());
/// 1 - cos where the target is 1, max(0, cos - margin) where it is -1, 0 elsewhere. cos is the cosine of the angle
/// between vectors in the last axis; 1e-12 is added to their squared lengths, as in PyTorch.
/// Shapes    first and second [..., n], target [...] of any number type
Tensor cosine_embedding_loss(const Tensor& first, const Tensor& second, const Tensor& target,
                             const MarginOptions& options = {}, Where where = Where::current());

// --- distances between vectors -----------------------------------------------------------------------------------

struct CosineSimilarityOptions {
  int axis = -1;
  double epsilon = 1e-8;  ///< shorter vectors count as this long
};
/// Cosine of the angle between vectors along an axis, sum(a * b) / (|a| * |b|). Shapes broadcast. NaN where the product
/// of the lengths leaves the type, in float32 above 3.4e38.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, const CosineSimilarityOptions& options = {},
                         Where where = Where::current());

struct CosineLossOptions {
  int axis = -1;
  double epsilon = 1e-8;  ///< shorter vectors count as this long
  Tensor weight = {};
  Reduction reduction = Reduction::mean;
};
/// The cosine distance: 1 - cosine_similarity(prediction, target), one for each vector along `axis`, which goes.
Tensor cosine_loss(const Tensor& prediction, const Tensor& target, const CosineLossOptions& options = {},
                   Where where = Where::current());

struct PairwiseDistanceOptions {
  double p = 2;  ///< the order of the norm; not NaN (Error)
  double epsilon = 1e-6;
  bool keepdims = false;
};
/// vector_norm(a - b + epsilon, p) along the last axis. Shapes broadcast.
Tensor pairwise_distance(const Tensor& a, const Tensor& b, const PairwiseDistanceOptions& options = {},
                         Where where = Where::current());

struct TripletMarginOptions {
  double margin = 1;
  double p = 2;  ///< the order of the norm; not NaN (Error)
  double epsilon = 1e-6;
  bool swap = false;  ///< measure the negative from the positive where it is nearer to it than to the anchor
  Reduction reduction = Reduction::mean;
};
/// max(0, margin + pairwise_distance(anchor, positive) - pairwise_distance(anchor, negative)) (Balntas et al. 2016).
/// Shapes    three of one shape [..., n]; a loss for each of [...]
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& options = {}, Where where = Where::current());

}  // namespace capstan
