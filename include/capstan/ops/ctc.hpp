#pragma once
// Connectionist temporal classification: labels of a sequence, not knowing where in it they stand.
//
// A path gives each step a class, one of which is the blank. It stands for what is left when neighbours that are equal
// have become one and the blanks have gone: the path a a - a b stands for a a b. The probability of labels is the sum
// of the probabilities of all paths that stand for them (Graves, Fernandez, Gomez and Schmidhuber, "Connectionist
// temporal classification", ICML 2006).
//
// Names     batch B, time T, classes C, labels S of the longest target
// Shapes    log-probabilities [B, T, C], or [T, B, C] with `time_major`: PyTorch's layout, and TensorFlow's
// Types     floating for log-probabilities, int32 or int64 for lengths and targets
// Lengths   input_lengths [B], in 0..T: the steps of each sequence; undefined for T. What stands behind them is never
//           read into a value or a gradient, whatever it is. Lengths and targets may be on any device: the host reads
//           them
// Numbers   sums are taken in double; results do not depend on the number of threads
// Throws    ShapeError; DTypeError; IndexError for lengths, labels and blanks out of range
// Defined in autograd/ctc.cpp and ctc_decode.cpp.
#include <cstdint>

#include <capstan/ops/losses.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// What becomes of labels that have no path, because each of them takes a step and so does a blank between equal ones.
enum class CtcInfeasible : std::uint8_t {
  error,     ///< ShapeError, as in TensorFlow
  infinite,  ///< the loss is infinite and its gradient 0. As in PyTorch, whose gradient is NaN
  zero       ///< loss and gradient are 0; so are those of all other infinite losses: PyTorch's zero_infinity
};

struct CtcOptions {
  std::int64_t blank = 0;  ///< its class; the last one in classic TensorFlow
  /// The mean divides each loss by the number of its labels first, if there are some, as in PyTorch.
  Reduction reduction = Reduction::mean;
  CtcInfeasible infeasible = CtcInfeasible::error;
  bool from_logits = false;  ///< take log_softmax first: TensorFlow's ctc_loss
  bool time_major = false;   ///< [T, B, C]
};

/// -log of the probability of the labels: one loss for each sequence, and then `reduction`.
///
/// Shapes    targets [B, S], with target_lengths [B] in 0..S, undefined for S, and anything behind them; or the labels
///           of all sequences one behind the other, as many as the target_lengths add up to. Result [B], [] if reduced
/// Types     16-bit types are computed with in float32
/// Gradient  for the log-probabilities as they are, to any order: minus the share of the paths that have this class at
///           this step. PyTorch's is right only behind log_softmax. 0 where the loss is infinite, from classes of
///           probability 0, for example
/// Cost      T * S both ways, in O(S) memory forward and O(T * S) for each thread backward; keeps its operand. Where an
///           outer tape listens, the gradient is made of operations for each step
/// Throws    IndexError  a label that is no class, or the blank
///           ShapeError  labels with no path, unless `infeasible` says what their loss is
Tensor ctc_loss(const Tensor& log_probabilities, const Tensor& targets, const Tensor& input_lengths = {},
                const Tensor& target_lengths = {}, const CtcOptions& options = {}, Where where = Where::current());

// --- decoders: from log-probabilities (log_softmax(logits)) to labels ------------------------------------------------

struct CtcGreedyOptions {
  std::int64_t blank = 0;
  bool merge_repeated = true;  ///< false keeps equal neighbours, as TensorFlow's merge_repeated does
  bool time_major = false;
};
struct CtcGreedyResult {
  Tensor tokens;   ///< int64 [B, T], -1 behind the last label
  Tensor lengths;  ///< int64 [B], numbers of labels
  Tensor scores;   ///< [B], the sum of the largest log-probabilities: that of the path
};
/// The labels of the most probable path: the first largest class of each step. No gradient.
CtcGreedyResult ctc_greedy_decode(const Tensor& log_probabilities, const Tensor& input_lengths = {},
                                  const CtcGreedyOptions& options = {}, Where where = Where::current());

struct CtcBeamOptions {
  std::int64_t beams = 100;    ///< labels that are followed at once, 1 to 1048576
  std::int64_t top_paths = 1;  ///< how many of them are returned, 1 to `beams`
  std::int64_t blank = 0;
  bool time_major = false;
};
struct CtcBeamResult {
  Tensor tokens;             ///< int64 [B, top_paths, T], the most probable labels first, -1 behind the last label
  Tensor lengths;            ///< int64 [B, top_paths], numbers of labels
  Tensor log_probabilities;  ///< [B, top_paths]
};
/// The most probable labels, by prefix beam search (Graves, "Supervised sequence labelling with recurrent neural
/// networks", 2012, 7.5; Hannun et al. 2014): after each step the most probable beginnings of labels are kept, each
/// with the sums of its paths that end with a blank and of those that do not.
///
/// Where no beginning had to be dropped the probabilities are exact, and the labels the best there are. Labels of
/// probability 0 are none: where there are fewer than `top_paths`, the rest have length 0 and log-probability
/// -infinity. NaN, and anything above 1e30, counts as -infinity. No gradient.
///
/// Cost      time T * (C log(beams) + beams^2), memory T * beams for each thread, at most
/// Throws    Error  beams or top_paths out of range
CtcBeamResult ctc_beam_search_decode(const Tensor& log_probabilities, const Tensor& input_lengths = {},
                                     const CtcBeamOptions& options = {}, Where where = Where::current());

}  // namespace capstan
