#pragma once
// The loss of sequences of classes, such as words: the cross entropy of each step, weighted and averaged.
//
// Shapes    logits [batch, time, classes]; targets [batch, time]; `weight` the targets' shape. With `time_major` they
//           are [time, batch, classes] and [time, batch]
// Types     floating for logits, whose type the result has; int32 or int64 for targets; floating or bool for `weight`,
//           so that `sequence_mask(lengths, time)` is one. Averages of 16-bit types are taken in float32
// Weights   multiply the losses of steps; undefined means 1. A step of weight 0 is left out: its logits, NaN or
//           infinite, reach no value and no gradient, and its target may be any number, such as -1 for padding
// Averages  divide by the sum of the weights. Where that is 0 they divide by 1, so that only left out steps give 0, and
//           gradients of 0; TensorFlow adds 1e-12 to each sum instead
// Gradient  for logits, and for a floating `weight` (that of a step of weight 0 without the share of its loss), to any
//           order
// Cost      one pass over the logits each way; beside them and their gradient nothing of their size is made if they are
//           contiguous, and a copy otherwise
// Throws    ShapeError, DTypeError, DeviceError; IndexError for a target out of range at a step that counts, naming it
//           and its row, counted through all steps in row-major order
// Source    TensorFlow's contrib.seq2seq and contrib.legacy_seq2seq. Defined in autograd/sequence_loss.cpp.
#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

struct SequenceLossOptions {
  Tensor weight = {};
  bool average_across_timesteps = true;
  bool average_across_batch = true;
  bool time_major = false;
};

/// The weighted mean over all steps of all examples, shape []; exp of it is the perplexity. Other results by what is
/// averaged over:
///
///   timesteps alone  [batch]    sum(time) weight * loss / sum(time) weight
///   batch alone      [time]     sum(batch) weight * loss / sum(batch) weight
///   neither          [batch, time] (or as the targets lie)    weight * loss
Tensor sequence_loss(const Tensor& logits, const Tensor& targets, const SequenceLossOptions& options = {},
                     Where where = Where::current());

struct ExampleLossOptions {
  Tensor weight = {};
  bool average_across_timesteps = true;  ///< else the sums over time
  bool time_major = false;
};

/// One loss for each example, [batch]. Its mean over the batch is the sequence_loss of TensorFlow's legacy_seq2seq, in
/// which short examples count as much as long ones.
Tensor sequence_loss_by_example(const Tensor& logits, const Tensor& targets, const ExampleLossOptions& options = {},
                                Where where = Where::current());

}  // namespace capstan
