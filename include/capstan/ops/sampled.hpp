#pragma once
// Losses over a large vocabulary that look at a few classes only: those that are right, and some that were drawn.
//
//   cs::Tensor loss = cs::mean(cs::sampled_softmax_loss(table, biases, words, states, {.count = 64}));
//
// The layer over all classes, logits = inputs @ transpose(weights) + biases, is what they train, and what a model uses
// when it is trained: `linear(inputs, transpose(weights), biases)`. TensorFlow's nn.nce_loss, nn.sampled_softmax_loss
// and their samplers, in whose formulas everything is. Defined in autograd/sampled.cpp.
#include <cstdint>

#include <capstan/random.hpp>
#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

// --- drawing candidates ------------------------------------------------------------------------------------------
//
// Classes are drawn by their probabilities P, one after the other; with `unique`, one that is there already is drawn
// again. How often a class is expected among the candidates is
//
//   count * P                        each draw by itself
//   1 - (1 - P)^tries                unique, with as many tries as it took
//
// taken as -expm1(tries * log1p(-P)). TensorFlow returns count * P also if unique draws happened to need no repetition.
//
// Shapes    targets [batch, true classes], int8 to int64 in [0, range); only their expected counts depend on them
// Types     sampled int64, expected counts float64; no gradient
// Cost      on the host, one draw after the other. Unique candidates take more tries the closer count comes to range
// Throws    ShapeError  range < 1, count < 0, count > range with unique, targets without two axes    DTypeError
//           IndexError  a target out of range. Then the generator has not moved

struct Candidates {
  Tensor sampled = {};           ///< [count]: the classes that were drawn
  Tensor true_expected = {};     ///< [batch, true classes]: how often each target is expected among them
  Tensor sampled_expected = {};  ///< [count]: and each of the candidates
};

struct CandidateOptions {
  bool unique = true;  ///< every candidate another class
};

/// P(k) = (log(k + 2) - log(k + 1)) / log(range + 1), in proportion to 1 / (k + 1) or nearly so: for words sorted by
/// frequency, the most frequent first, as Zipf's law has them. TensorFlow's log_uniform_candidate_sampler.
Candidates log_uniform_candidates(const Tensor& targets, std::int64_t count, std::int64_t range,
                                  CandidateOptions options = {}, Rng& rng = default_rng(),
                                  Where where = Where::current());
/// P(k) = 1 / range.
Candidates uniform_candidates(const Tensor& targets, std::int64_t count, std::int64_t range,
                              CandidateOptions options = {}, Rng& rng = default_rng(), Where where = Where::current());

/// Whether a candidate is one of the row's targets: an accidental hit.
///
/// Shapes    targets [batch, true classes], sampled [count], integers; result [batch, count], bool
/// Throws    ShapeError, DTypeError, DeviceError
Tensor accidental_hits(const Tensor& targets, const Tensor& sampled, Where where = Where::current());

// --- losses ------------------------------------------------------------------------------------------------------
//
// Both compute the logits of the targets and of the candidates, s(k) = inputs . weights[k] + biases[k], and take off
// the logarithms of their expected counts.
//
// Shapes    weights [classes, features], biases [classes] or undefined for zeros, targets [batch, true classes] with at
//           least one true class, inputs [batch, features]; result [batch]
// Types     floating, promoted; targets int8 to int64
// Gradient  for weights, biases and inputs, to any order; expected counts are constants. Those for weights and biases
//           are held as row slices (sparse.hpp) of the classes that were looked at, unless there are as many as classes
//           or an outer tape listens; optimizers change those rows only
// Cost      O(batch * (true classes + candidates) * features), whatever the number of classes
// Throws    ShapeError  shapes do not fit, more candidates to draw than classes    IndexError  a target or candidate
//           that is no class    DTypeError, DeviceError    Error  candidates and a count to draw are both given, or
//           neither is

struct NceOptions {
  Candidates candidates = {};  ///< given, or else drawn by log_uniform_candidates, unique
  std::int64_t count = 0;      ///< of candidates to draw
  bool remove_accidental_hits = false;
  bool subtract_log_q = true;  ///< take off the logarithms of the expected counts
};
/// Noise-contrastive estimation: is it a target, or was it drawn? A logistic loss for each,
///
///   sum(targets) H(s, 1 / true classes) + sum(candidates) H(s, 0)
///
/// H(s, z) = -z * log(sigmoid(s)) - (1 - z) * log(1 - sigmoid(s)). Accidental hits count as candidates unless removed.
/// Without `subtract_log_q` it is negative sampling (Mikolov et al. 2013).
///
/// Source    Gutmann, Hyvarinen 2010; Mnih, Teh 2012
Tensor nce_loss(const Tensor& weights, const Tensor& biases, const Tensor& targets, const Tensor& inputs,
                const NceOptions& options, Rng& rng = default_rng(), Where where = Where::current());

struct SampledSoftmaxOptions {
  Candidates candidates = {};  ///< given, or else drawn by log_uniform_candidates, unique
  std::int64_t count = 0;      ///< of candidates to draw
  bool remove_accidental_hits = true;
  bool subtract_log_q = true;  ///< take off the logarithms of the expected counts
};
/// Softmax cross entropy over the targets and the candidates, as if there were no other classes:
///
///   -sum(targets) log(softmax(s)) / true classes
///
/// An accidental hit that is removed has a logit so low that its share is 0.
///
/// Source    Jean, Cho, Memisevic, Bengio 2015
Tensor sampled_softmax_loss(const Tensor& weights, const Tensor& biases, const Tensor& targets, const Tensor& inputs,
                            const SampledSoftmaxOptions& options, Rng& rng = default_rng(),
                            Where where = Where::current());

}  // namespace capstan
