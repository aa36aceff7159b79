// Losses that ask for a margin, and distances between vectors.
#include <cmath>

#include <capstan/ops/index.hpp>
#include <capstan/ops/linalg.hpp>

#include "autograd/class_losses.hpp"
#include "autograd/losses.hpp"

namespace capstan {

using autograd::computing_type;
using autograd::loss_of_pairs;
using autograd::Pair;
using autograd::positive_part;
using autograd::reduced;
using autograd::Replay;
using autograd::require_alike;
using autograd::Rollback;

// --- of each element ---

namespace {

template <class Row>
Tensor margin(const char* op, const Tensor& prediction, const Tensor& target, const LossOptions& options, Where where) {
  if (autograd::raises(prediction, target)) [[unlikely]]
    return autograd::raised(&margin<Row>, where, op, prediction, target, options);
  require_alike(op, "prediction is", prediction, "target", target, where);
  const Rollback rollback;
  const Pair pair(prediction, target, options.reduction, where);
  const Tensor losses = loss_of_pairs<Row>(op, pair.a, pair.b, 1, where);
  return reduced(op, losses, options.weight, options.reduction, where).to(pair.type, where);
}

}  // namespace

Tensor hinge_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options, Where where) {
  return margin<kernels::Hinge>("hinge_loss", prediction, target, options, where);
}
Tensor squared_hinge_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options, Where where) {
  return margin<kernels::SquaredHinge>("squared_hinge_loss", prediction, target, options, where);
}
Tensor soft_margin_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options, Where where) {
  return margin<kernels::SoftMargin>("soft_margin_loss", prediction, target, options, where);
}

Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, const HingeEmbeddingOptions& options, Where where) {
  if (autograd::raises(x, target)) [[unlikely]]
    return autograd::raised(&hinge_embedding_loss, where, x, target, options);
  constexpr const char* op = "hinge_embedding_loss";
  require_alike(op, "input is", x, "target", target, where);
  const Rollback rollback;
  const Pair pair(x, target, options.reduction, where);
  const Tensor losses = loss_of_pairs<kernels::HingeEmbedding>(op, pair.a, pair.b, options.margin, where);
  return reduced(losses, options.reduction, where).to(pair.type, where);
}

Tensor margin_ranking_loss(const Tensor& first, const Tensor& second, const Tensor& target,
                           const MarginOptions& options, Where where) {
  if (autograd::raises(first, second, target)) [[unlikely]]
    return autograd::raised(&margin_ranking_loss, where, first, second, target, options);
  constexpr const char* op = "margin_ranking_loss";
  require_alike(op, "first input is", first, "second", second, where);
  require_alike(op, "first input is", first, "target", target, where);
  const Rollback rollback;
  const Pair pair(first, second, options.reduction, where);
  const Tensor losses = loss_of_pairs<kernels::Hinge>(op, sub(pair.a, pair.b, where), target, options.margin, where);
  return reduced(losses, options.reduction, where).to(promote(pair.type, target.dtype(where), where), where);
}

// --- of rows of classes ---

Tensor multi_margin_loss(const Tensor& scores, const Tensor& labels, const MultiMarginOptions& options, Where where) {
  if (autograd::raises(scores)) [[unlikely]]
    return autograd::raised(&multi_margin_loss, where, scores, labels, options);
  constexpr const char* op = "multi_margin_loss";
  const TensorImpl& x = core::defined(op, scores, where);
  autograd::require_floating(op, x, where);
  if (options.p != 1 && options.p != 2) base::fail<Error>(where, op, ": p is ", options.p, "; it must be 1 or 2.");
  const int last = x.rank() - 1;
  const autograd::Labels found = autograd::look_up(op, "scores", x, last, labels, nullptr, where);
  autograd::require_class_weight(op, options.class_weight, x, last, where);

  const Rollback rollback;
  const DType wide = computing_type(x.dtype);  // squares may leave 16 bits where means do not
  const Tensor widened = scores.to(wide, where);
  const Tensor limit = sub(pick(widened, found.index, where), options.margin, where);
  Tensor above = relu(sub(widened, expand_dims(limit, -1, where), where), where);
  if (options.p == 2) above = square(above, where);
  const Tensor others = scatter(above, expand_dims(found.index, -1, where), 0, -1, where);
  Tensor losses = autograd::mean_of_rows(others, where);
  const Tensor weight = autograd::class_weight_of(options.class_weight, found.index, wide, where);
  if (weight.defined()) losses = mul(losses, weight, where);
  return reduced(losses, options.reduction, where).to(x.dtype, where);
}

namespace {

void check_label_lists(const char* op, const TensorImpl& x, const TensorImpl& labels, Where where) {
  if (labels.dtype != DType::int32 && labels.dtype != DType::int64)
    base::fail<DTypeError>(where, op, ": the labels are ", labels.dtype, "; they must be int32 or int64.");
  core::require_same_device(op, x, labels, where);
  if (x.rank() == 0 || x.shape != labels.shape)
    base::fail<ShapeError>(where, op, ": the scores are ", x.shape, " and the labels ", labels.shape,
                           "; both must be [..., classes], of one shape.");
  const std::int64_t classes = x.shape[x.rank() - 1];
  const core::BadIndex bad = autograd::backend_of(x, where, op).check_indices(labels, -1, classes);
  if (bad.position >= 0)
    base::fail<IndexError>(where, op, ": label ", bad.value, " of row ", bad.position / classes,
                           " is out of range for ", classes, " classes; it must be in [-1, ", classes, ").");
}

void multilabel_margin_replay(Replay& r) {  // made of straight pieces: the slope does not depend on the scores
  r.give(0, mul(r.saved(0), expand_dims(r.grad(), -1, r.where()), r.where()));
}

}  // namespace

Tensor multilabel_margin_loss(const Tensor& scores, const Tensor& labels, const MultilabelMarginOptions& options,
                              Where where) {
  if (autograd::raises(scores)) [[unlikely]]
    return autograd::raised(&multilabel_margin_loss, where, scores, labels, options);
  constexpr const char* op = "multilabel_margin_loss";
  const TensorImpl &x = core::defined(op, scores, where), &l = core::defined(op, labels, where);
  autograd::require_floating(op, x, where);
  check_label_lists(op, x, l, where);
  const Rollback rollback;
  const Tensor rows = autograd::dense(scores, where), lists = autograd::dense(labels, where);
  const Tensor* const inputs[] = {&scores};
  const bool followed = autograd::listening() && autograd::followers(inputs) != 0;
  const Tensor slope = followed ? autograd::result_like(x, where) : Tensor();
  Tensor losses = autograd::result_like(x, autograd::with_sizes(x.shape, 1, {}, where), x.dtype, where);
  autograd::backend_of(x, where).multilabel_margin(*rows.impl(), *lists.impl(), *losses.impl(), slope.impl());
  autograd::record(op, where, &multilabel_margin_replay, {&scores}, {&losses}, {&slope});
  return reduced(losses, options.reduction, where);
}

Tensor multilabel_soft_margin_loss(const Tensor& logits, const Tensor& labels, const LossOptions& options,
                                   Where where) {
  if (autograd::raises(logits, labels)) [[unlikely]]
    return autograd::raised(&multilabel_soft_margin_loss, where, logits, labels, options);
  constexpr const char* op = "multilabel_soft_margin_loss";
  require_alike(op, "logits are", logits, "labels", labels, where);
  if (logits.rank(where) == 0) base::fail<ShapeError>(where, op, ": the logits are []; they must be [..., classes].");
  const Rollback rollback;
  const Pair pair(logits, labels, true, where);  // over classes at least
  const Tensor each = loss_of_pairs<kernels::SigmoidCrossEntropy>(op, pair.a, pair.b, 0, where);
  const Tensor weighted = reduced(op, each, options.weight, Reduction::none, where);
  return reduced(autograd::mean_of_rows(weighted, where), options.reduction, where).to(pair.type, where);
}

// --- of vectors ---

namespace {

void require_vectors(const char* op, const TensorImpl& x, Where where) {
  if (x.rank() == 0) base::fail<ShapeError>(where, op, ": the inputs are []; they must have an axis to measure along.");
}

/// Both in the type that they are computed in; 16-bit types could not hold what is added to avoid division by 0.
struct Vectors : Pair {
  Vectors(const Tensor& x, const Tensor& y, Where where) : Pair(x, y, true, where) {}
};

Tensor length(const Tensor& x, int axis, double epsilon, Where where) {
  const Tensor norm = vector_norm(x, 2, axis, {}, where);
  return capstan::where(less(norm, epsilon, where), epsilon, norm, where);
}

/// Of vectors along an axis of both, which have one shape.
Tensor cosine(const Vectors& v, int axis, double epsilon, Where where) {
  const Tensor lengths = mul(length(v.a, axis, epsilon, where), length(v.b, axis, epsilon, where), where);
  return div(vecdot(v.a, v.b, axis, where), lengths, where);
}

Tensor distance(const Tensor& a, const Tensor& b, double p, double epsilon, bool keepdims, Where where) {
  return vector_norm(add(sub(a, b, where), epsilon, where), p, -1, {.keepdims = keepdims}, where);
}

void require_order(const char* op, double p, Where where) {
  if (std::isnan(p)) base::fail<Error>(where, op, ": p is nan; it must be a number.");
}

}  // namespace

Tensor cosine_embedding_loss(const Tensor& first, const Tensor& second, const Tensor& target,
                             const MarginOptions& options, Where where) {
  if (autograd::raises(first, second)) [[unlikely]]
    return autograd::raised(&cosine_embedding_loss, where, first, second, target, options);
  constexpr const char* op = "cosine_embedding_loss";
  constexpr double epsilon = 1e-12;
  require_alike(op, "first input is", first, "second", second, where);
  const TensorImpl &x = *first.impl(), &t = core::defined(op, target, where);
  require_vectors(op, x, where);
  if (t.dtype == DType::bool8)
    base::fail<DTypeError>(where, op, ": the target is bool; it must be a number type, not bool.");
  core::require_same_device(op, x, t, where);
  bool fits = t.rank() == x.rank() - 1;
  for (int axis = 0; fits && axis < t.rank(); ++axis) fits = t.shape[axis] == x.shape[axis];
  if (!fits)
    base::fail<ShapeError>(where, op, ": the inputs are ", x.shape, " and the target ", t.shape,
                           "; the target must have their shape without the last axis.");

  const Rollback rollback;
  const Vectors v(first, second, where);
  const auto dot = [&](const Tensor& a, const Tensor& b) { return sum(mul(a, b, where), -1, {}, where); };
  const Tensor squares = mul(add(dot(v.a, v.a), epsilon, where), add(dot(v.b, v.b), epsilon, where), where);
  const Tensor angle = div(dot(v.a, v.b), sqrt(squares, where), where), sign = target.to(v.a.dtype(where), where);
  const Tensor if_alike = add(neg(angle, where), 1, where);
  const Tensor if_unlike = positive_part(sub(angle, options.margin, where), where);
  const Tensor others = capstan::where(equal(sign, -1, where), if_unlike, 0, where);
  const Tensor losses = capstan::where(equal(sign, 1, where), if_alike, others, where);
  return reduced(losses, options.reduction, where).to(v.type, where);
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, const CosineSimilarityOptions& options, Where where) {
  if (autograd::raises(a, b)) [[unlikely]]
    return autograd::raised(&cosine_similarity, where, a, b, options);
  constexpr const char* op = "cosine_similarity";
  const TensorImpl &x = core::defined(op, a, where), &y = core::defined(op, b, where);
  autograd::require_floating(op, x, where);
  autograd::require_floating(op, y, where);
  core::require_same_device(op, x, y, where);
  const Shape shape = core::broadcast_shapes(op, x.shape, y.shape, where);
  const int axis = core::normalize_axis(op, options.axis, shape.rank(), where);
  const Rollback rollback;
  const auto stretched = [&](const Tensor& t) { return t.shape(where) == shape ? t : broadcast_to(t, shape, where); };
  const Vectors v(stretched(a), stretched(b), where);
  return cosine(v, axis, options.epsilon, where).to(v.type, where);
}

Tensor cosine_loss(const Tensor& prediction, const Tensor& target, const CosineLossOptions& options, Where where) {
  if (autograd::raises(prediction, target)) [[unlikely]]
    return autograd::raised(&cosine_loss, where, prediction, target, options);
  constexpr const char* op = "cosine_loss";
  require_alike(op, "prediction is", prediction, "target", target, where);
  const int axis = core::normalize_axis(op, options.axis, prediction.rank(where), where);
  const Rollback rollback;
  const Vectors v(prediction, target, where);
  const Tensor losses = add(neg(cosine(v, axis, options.epsilon, where), where), 1, where);
  return reduced(op, losses, options.weight, options.reduction, where).to(v.type, where);
}

Tensor pairwise_distance(const Tensor& a, const Tensor& b, const PairwiseDistanceOptions& options, Where where) {
  if (autograd::raises(a, b)) [[unlikely]]
    return autograd::raised(&pairwise_distance, where, a, b, options);
  constexpr const char* op = "pairwise_distance";
  const TensorImpl &x = core::defined(op, a, where), &y = core::defined(op, b, where);
  autograd::require_floating(op, x, where);
  autograd::require_floating(op, y, where);
  core::require_same_device(op, x, y, where);
  if (x.rank() == 0) require_vectors(op, y, where);
  core::broadcast_shapes(op, x.shape, y.shape, where);
  require_order(op, options.p, where);
  const Rollback rollback;
  const Vectors v(a, b, where);
  return distance(v.a, v.b, options.p, options.epsilon, options.keepdims, where).to(v.type, where);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& options, Where where) {
  if (autograd::raises(anchor, positive, negative)) [[unlikely]]
    return autograd::raised(&triplet_margin_loss, where, anchor, positive, negative, options);
  constexpr const char* op = "triplet_margin_loss";
  require_alike(op, "anchor is", anchor, "positive", positive, where);
  require_alike(op, "anchor is", anchor, "negative", negative, where);
  require_vectors(op, *anchor.impl(), where);
  require_order(op, options.p, where);
  const Rollback rollback;
  const Vectors alike(anchor, positive, where), unlike(anchor, negative, where);
  const auto between = [&](const Tensor& a, const Tensor& b) {
    return distance(a, b, options.p, options.epsilon, false, where);
  };
  Tensor to_negative = between(unlike.a, unlike.b);
  if (options.swap) to_negative = minimum(to_negative, between(alike.b, unlike.b), where);
  const Tensor excess = sub(between(alike.a, alike.b), to_negative, where);
  const Tensor losses = positive_part(add(excess, options.margin, where), where);
  return reduced(losses, options.reduction, where).to(promote(alike.type, unlike.type, where), where);
}

}  // namespace capstan
