#include <capstan/ops/sampled.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>
#include <utility>
#include <vector>

#include <capstan/create.hpp>
#include <capstan/ops/activation.hpp>
#include <capstan/ops/embedding.hpp>
#include <capstan/ops/index.hpp>
#include <capstan/ops/linalg.hpp>
#include <capstan/ops/losses.hpp>
#include <capstan/tape.hpp>

#include "autograd/drawing.hpp"
#include "autograd/places.hpp"
#include "lib/core/recording.hpp"
#include "lib/kernels/philox.hpp"

namespace capstan {

using autograd::Rollback;

namespace {

// --- checks ----------------------------------------------------------------------------------------------------------

/// Classes as int32 or int64. `what` is what an error calls them: "targets".
Tensor checked_integers(const char* op, const char* what, const TensorImpl& beside, const Tensor& classes,
                        Where where) {
  const TensorImpl& impl = core::defined(op, classes, where);
  if (!is_integer(impl.dtype))
    base::fail<DTypeError>(where, op, ": the ", what, " are ", impl.dtype, "; they must be integers.");
  return autograd::index_tensor(op, beside, classes, where);
}

void require_two_axes(const char* op, const TensorImpl& targets, Where where) {
  if (targets.rank() != 2)
    base::fail<ShapeError>(where, op, ": the targets are ", targets.shape, "; they must be [batch, true classes].");
}

/// Throws unless each is a class. `one` is what an error calls it: "target".
void require_classes(const char* op, const char* one, const Tensor& index, std::int64_t classes, Where where) {
  const TensorImpl& impl = *index.impl();
  const core::BadIndex bad = core::backend_of(impl.device(), where, op).check_indices(impl, 0, classes);
  if (bad.position >= 0)
    base::fail<IndexError>(where, op, ": ", one, " ", bad.value, " at [",
                           autograd::place_text(impl.shape, bad.position), "] is out of range for ", classes,
                           " classes; it must be in [0, ", classes, ").");
}

void require_enough(const char* op, std::int64_t count, std::int64_t range, bool unique, Where where) {
  if (range < 1)
    base::fail<ShapeError>(where, op, ": there are ", range, " classes to draw from; there must be one at least.");
  if (count < 0) base::fail<ShapeError>(where, op, ": ", count, " candidates were asked for; the count must be >= 0.");
  if (unique && count > range)
    base::fail<ShapeError>(where, op, ": ", count, " different candidates were asked for, and there are ", range,
                           " classes; the count must not exceed them.");
}

// --- drawing ---------------------------------------------------------------------------------------------------------

struct LogUniform {
  std::int64_t range;
  double log_range;

  explicit LogUniform(std::int64_t classes) : range(classes), log_range(std::log1p(static_cast<double>(classes))) {}
  /// By the inverse of the distribution function log(k + 1) / log(range + 1); rounding may end too far.
  std::int64_t draw(Rng& rng) const {
    const double unit = static_cast<double>(rng.bits() >> 11) * 0x1p-53;
    const double k = std::expm1(unit * log_range);
    return k < static_cast<double>(range) ? std::min(static_cast<std::int64_t>(k), range - 1) : range - 1;
  }
  double probability(std::int64_t k) const { return std::log1p(1 / (static_cast<double>(k) + 1)) / log_range; }
};

struct Uniform {
  std::int64_t range;

  explicit Uniform(std::int64_t classes) : range(classes) {}
  std::int64_t draw(Rng& rng) const {
    return static_cast<std::int64_t>(kernels::multiply_high(rng.bits(), static_cast<std::uint64_t>(range)));
  }
  double probability(std::int64_t) const { return 1 / static_cast<double>(range); }
};

/// How often each class of `index`, int64, is expected.
template <class Distribution>
Tensor expected_counts(const Tensor& index, const Distribution& distribution, std::int64_t count, std::int64_t tries,
                       bool unique, Where where) {
  const std::vector<std::int64_t> classes = index.to_vector<std::int64_t>(where);
  Tensor out = core::make_tensor(index.shape(where), DType::float64, cpu(), where);
  double* const to = out.impl()->as<double>();
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const double p = distribution.probability(classes[i]);
    if (!unique || tries == 0) to[i] = static_cast<double>(count) * p;
    else to[i] = -std::expm1(static_cast<double>(tries) * std::log1p(-p));
  }
  return out;
}

template <class Distribution>
Candidates draw(const char* op, const Tensor& targets, std::int64_t count, std::int64_t range, bool unique, Rng& rng,
                Where where) {
  core::note_start();
  if (core::capturing() != nullptr || core::recording() != nullptr)
    base::fail<Error>(where, op, ": it is drawn on the host, which a ",
                      core::recording() != nullptr ? "plan" : "captured step", " cannot repeat.");
  require_enough(op, count, range, unique, where);
  const Tensor index = checked_integers(op, "targets", core::defined(op, targets, where), targets, where);
  require_two_axes(op, *index.impl(), where);
  require_classes(op, "target", index, range, where);

  const autograd::RngRollback generator(rng);
  const Distribution distribution(range);
  const Tensor sampled = core::make_tensor(Shape({count}, where), DType::int64, cpu(), where);
  std::int64_t* const to = sampled.impl()->as<std::int64_t>();
  std::unordered_set<std::int64_t> taken;
  std::int64_t tries = 0;
  for (std::int64_t picked = 0; picked < count; ++tries) {
    const std::int64_t k = distribution.draw(rng);
    if (!unique || taken.insert(k).second) to[picked++] = k;
  }
  const Tensor wide = autograd::converted(index, DType::int64, where);
  const Device device = index.impl()->device();
  Candidates drawn{
      sampled.to(device, where),
      expected_counts(wide, distribution, count, tries, unique, where).to(device, where),
      expected_counts(sampled, distribution, count, tries, unique, where).to(device, where),
  };
  autograd::note(op, where, {&targets}, {&drawn.sampled, &drawn.true_expected, &drawn.sampled_expected});
  return drawn;
}

// --- losses ----------------------------------------------------------------------------------------------------------

/// What both losses are given, but for their options.
struct Layer {
  const char* op;
  const Tensor &weights, &biases, &targets, &inputs;
};

/// The targets as int32 or int64, when all of the layer fits.
Tensor checked_targets(const Layer& layer, Where where) {
  const char* const op = layer.op;
  const TensorImpl& w = core::defined(op, layer.weights, where);
  autograd::require_floating(op, w, where);
  if (w.rank() != 2)
    base::fail<ShapeError>(where, op, ": the weights are ", w.shape, "; they must be [classes, features].");
  if (layer.biases.defined()) {
    const TensorImpl& b = core::defined(op, layer.biases, where);
    autograd::require_floating(op, b, where);
    core::require_same_device(op, w, b, where);
    if (b.rank() != 1 || b.shape[0] != w.shape[0])
      base::fail<ShapeError>(where, op, ": the biases are ", b.shape, " and the weights ", w.shape,
                             "; the biases must be [", w.shape[0], "].");
  }
  const TensorImpl& x = core::defined(op, layer.inputs, where);
  autograd::require_floating(op, x, where);
  core::require_same_device(op, w, x, where);
  if (x.rank() != 2 || x.shape[1] != w.shape[1])
    base::fail<ShapeError>(where, op, ": the inputs are ", x.shape, " and the weights ", w.shape,
                           "; the inputs must be [batch, ", w.shape[1], "].");
  Tensor index = checked_integers(op, "targets", w, layer.targets, where);
  const Shape& shape = index.impl()->shape;
  if (shape.rank() != 2 || shape[0] != x.shape[0] || shape[1] < 1)
    base::fail<ShapeError>(where, op, ": the targets are ", shape, " and the inputs ", x.shape,
                           "; the targets must be [", x.shape[0], ", true classes], one true class at least.");
  require_classes(op, "target", index, w.shape[0], where);
  return index;
}

void require_expected(const char* op, const char* what, const Tensor& expected, const Tensor& classes, Where where) {
  const TensorImpl &e = core::defined(op, expected, where), &c = *classes.impl();
  if (!is_floating(e.dtype))
    base::fail<DTypeError>(where, op, ": the expected counts of the ", what, " are ", e.dtype,
                           "; they must be of a floating type.");
  core::require_same_device(op, c, e, where);
  if (e.shape != c.shape)
    base::fail<ShapeError>(where, op, ": the expected counts of the ", what, " are ", e.shape, " and the ", what, " ",
                           c.shape, "; the shapes must be equal.");
}

/// Candidates that were given, when they fit, or new ones.
Candidates candidates_for(const Layer& layer, const Tensor& targets, const Candidates& given, std::int64_t count,
                          bool expected, Rng& rng, Where where) {
  const char* const op = layer.op;
  const TensorImpl& w = *layer.weights.impl();
  const std::int64_t classes = w.shape[0];
  if (!given.sampled.defined()) {
    if (count < 1)
      base::fail<Error>(where, op, ": there are no candidates, and the count to draw is ", count,
                        "; give candidates, or a count of 1 at least.");
    require_enough(op, count, classes, true, where);
    return log_uniform_candidates(targets, count, classes, {}, rng, where);
  }
  if (count != 0)
    base::fail<Error>(where, op, ": candidates are given, and a count of ", count, " to draw; give one of the two.");
  const Tensor sampled = checked_integers(op, "candidates", w, given.sampled, where);
  if (sampled.rank(where) != 1)
    base::fail<ShapeError>(where, op, ": the candidates are ", sampled.shape(where), "; they must be [count].");
  require_classes(op, "candidate", sampled, classes, where);
  if (expected) {
    require_expected(op, "targets", given.true_expected, targets, where);
    require_expected(op, "candidates", given.sampled_expected, sampled, where);
  }
  return {sampled, given.true_expected, given.sampled_expected};
}

/// Logarithms of expected counts, which are constants whatever they were made of.
Tensor log_of(const Tensor& expected, DType dtype, Where where) {
  return log(stop_gradient(expected, where), where).to(dtype, where);
}

struct Logits {
  Tensor of_targets;  // [batch, true classes]
  Tensor of_sampled;  // [batch, candidates]
};

Logits logits_of(const Layer& layer, const Tensor& targets, const Candidates& candidates, bool subtract_log_q,
                 Where where) {
  const Tensor& biases = layer.biases;
  const Tensor rows = embedding(targets, layer.weights, {}, where);
  Tensor of_targets = sum(mul(rows, expand_dims(layer.inputs, 1, where), where), -1, {}, where);
  Tensor shift;  // of the candidates' logits
  if (biases.defined()) {
    of_targets = add(of_targets, gather(biases, targets, 0, where), where);
    shift = gather(biases, candidates.sampled, 0, where);
  }
  if (subtract_log_q) {
    const DType dtype = of_targets.dtype(where);
    const Tensor q = log_of(candidates.sampled_expected, dtype, where);
    of_targets = sub(of_targets, log_of(candidates.true_expected, dtype, where), where);
    shift = shift.defined() ? sub(shift, q, where) : neg(q, where);
  }
  const Tensor columns = transpose(embedding(candidates.sampled, layer.weights, {}, where), where);
  return {std::move(of_targets), linear(layer.inputs, columns, shift, where)};
}

}  // namespace

Candidates log_uniform_candidates(const Tensor& targets, std::int64_t count, std::int64_t range,
                                  CandidateOptions options, Rng& rng, Where where) {
  return draw<LogUniform>("log_uniform_candidates", targets, count, range, options.unique, rng, where);
}
Candidates uniform_candidates(const Tensor& targets, std::int64_t count, std::int64_t range, CandidateOptions options,
                              Rng& rng, Where where) {
  return draw<Uniform>("uniform_candidates", targets, count, range, options.unique, rng, where);
}

Tensor accidental_hits(const Tensor& targets, const Tensor& sampled, Where where) {
  constexpr const char* op = "accidental_hits";
  const TensorImpl& t = core::defined(op, targets, where);
  const Tensor index = checked_integers(op, "targets", t, targets, where);
  require_two_axes(op, t, where);
  const Tensor drawn = checked_integers(op, "candidates", t, sampled, where);
  if (drawn.rank(where) != 1)
    base::fail<ShapeError>(where, op, ": the candidates are ", drawn.shape(where), "; they must be [count].");
  const Rollback rollback;
  const std::int64_t true_classes = t.shape[1];
  if (true_classes == 0) return zeros({t.shape[0], drawn.numel(where)}, {DType::bool8, t.device()}, where);
  Tensor hits = equal(narrow(index, 1, 0, 1, where), drawn, where);
  for (std::int64_t i = 1; i < true_classes; ++i)
    hits = logical_or(hits, equal(narrow(index, 1, i, 1, where), drawn, where), where);
  return hits;
}

Tensor nce_loss(const Tensor& weights, const Tensor& biases, const Tensor& targets, const Tensor& inputs,
                const NceOptions& options, Rng& rng, Where where) {
  if (autograd::raises(weights, biases, inputs)) [[unlikely]]
    return autograd::raised(&nce_loss, where, weights, biases, targets, inputs, options, rng);
  const Layer layer{"nce_loss", weights, biases, targets, inputs};
  const Tensor index = checked_targets(layer, where);
  const Rollback rollback;
  const autograd::RngRollback generator(rng);
  const Candidates candidates =
      candidates_for(layer, index, options.candidates, options.count, options.subtract_log_q, rng, where);
  const auto [of_targets, of_sampled] = logits_of(layer, index, candidates, options.subtract_log_q, where);
  const double share = 1 / static_cast<double>(index.size(1, where));
  const Tensor labels = full_like(of_targets, share, where);
  const Tensor right = sigmoid_cross_entropy(of_targets, labels, {}, where);
  constexpr double never = std::numeric_limits<double>::infinity();
  Tensor others = softplus(of_sampled, {.threshold = never}, where);  // H(s, 0)
  if (options.remove_accidental_hits)
    others = capstan::where(accidental_hits(index, candidates.sampled, where), 0, others, where);
  return add(sum(right, 1, {}, where), sum(others, 1, {}, where), where);
}

Tensor sampled_softmax_loss(const Tensor& weights, const Tensor& biases, const Tensor& targets, const Tensor& inputs,
                            const SampledSoftmaxOptions& options, Rng& rng, Where where) {
  if (autograd::raises(weights, biases, inputs)) [[unlikely]]
    return autograd::raised(&sampled_softmax_loss, where, weights, biases, targets, inputs, options, rng);
  const Layer layer{"sampled_softmax_loss", weights, biases, targets, inputs};
  const Tensor index = checked_targets(layer, where);
  const Rollback rollback;
  const autograd::RngRollback generator(rng);
  const Candidates candidates =
      candidates_for(layer, index, options.candidates, options.count, options.subtract_log_q, rng, where);
  auto [of_targets, of_sampled] = logits_of(layer, index, candidates, options.subtract_log_q, where);
  if (options.remove_accidental_hits) {  // finite: -infinity would be a number to ask about
    const double removed = of_sampled.dtype(where) == DType::float16 ? -3e4 : -1e30;
    of_sampled = capstan::where(accidental_hits(index, candidates.sampled, where), removed, of_sampled, where);
  }
  const Tensor logs = log_softmax(concat({of_targets, of_sampled}, 1, where), 1, where);
  return neg(mean(narrow(logs, 1, 0, index.size(1, where), where), 1, {}, where), where);
}

}  // namespace capstan
