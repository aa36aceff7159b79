// Connectionist temporal classification: from log-probabilities to labels.
#include <capstan/ops/ctc.hpp>

#include "autograd/ctc.hpp"
#include "autograd/linalg.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::CtcSizes;

namespace {

/// Log-probabilities [batch, time, classes] in a type that backends compute with, and the steps of each sequence.
struct Decoded {
  Tensor x, steps;
};

Decoded make_ready(const char* op, const Tensor& x, const Tensor& lengths, const CtcSizes& sizes, bool time_major,
                   Where where) {
  const TensorImpl& impl = *x.impl();
  const std::vector<std::int64_t> steps =
      autograd::ctc_lengths(op, "input length", "steps", lengths, sizes.batch, sizes.time, where);
  const Tensor wide = autograd::converted(x, autograd::computing_type(impl.dtype), where);
  return {autograd::ctc_batch_first(wide, time_major, where), autograd::ctc_numbers(steps, impl, where)};
}

}  // namespace

CtcGreedyResult ctc_greedy_decode(const Tensor& log_probabilities, const Tensor& input_lengths,
                                  const CtcGreedyOptions& options, Where where) {
  constexpr const char* op = "ctc_greedy_decode";
  const TensorImpl& impl = core::defined(op, log_probabilities, where);
  const CtcSizes sizes = autograd::ctc_sizes(op, "log-probabilities", impl, options.blank, options.time_major, where);
  const Decoded ready = make_ready(op, log_probabilities, input_lengths, sizes, options.time_major, where);
  const Shape batch({sizes.batch}, where);
  const Tensor scores = autograd::result_like(impl, batch, ready.x.dtype(), where);
  CtcGreedyResult result;
  result.tokens = autograd::result_like(impl, Shape({sizes.batch, sizes.time}, where), DType::int64, where);
  result.lengths = autograd::result_like(impl, batch, DType::int64, where);
  const core::CtcDecodeTask task{.x = *ready.x.impl(),
                                 .steps = *ready.steps.impl(),
                                 .blank = options.blank,
                                 .merge_repeated = options.merge_repeated};
  backend_of(impl, where).ctc_greedy(task, *result.tokens.impl(), *result.lengths.impl(), *scores.impl());
  result.scores = autograd::converted(scores, impl.dtype, where);
  autograd::note(op, where, {&log_probabilities}, {&result.tokens, &result.lengths, &result.scores});
  return result;
}

CtcBeamResult ctc_beam_search_decode(const Tensor& log_probabilities, const Tensor& input_lengths,
                                     const CtcBeamOptions& options, Where where) {
  constexpr const char* op = "ctc_beam_search_decode";
  constexpr std::int64_t most = std::int64_t{1} << 20;
  const TensorImpl& impl = core::defined(op, log_probabilities, where);
  const CtcSizes sizes = autograd::ctc_sizes(op, "log-probabilities", impl, options.blank, options.time_major, where);
  if (options.beams < 1 || options.beams > most)
    base::fail<Error>(where, op, ": beams is ", options.beams, "; it must be in [1, ", most, "].");
  if (options.top_paths < 1 || options.top_paths > options.beams)
    base::fail<Error>(where, op, ": top_paths is ", options.top_paths, " and beams ", options.beams,
                      "; it must be in [1, ", options.beams, "].");
  const Decoded ready = make_ready(op, log_probabilities, input_lengths, sizes, options.time_major, where);
  const Shape paths({sizes.batch, options.top_paths}, where);
  const Shape tokens({sizes.batch, options.top_paths, sizes.time}, where);
  const Tensor scores = autograd::result_like(impl, paths, ready.x.dtype(), where);
  CtcBeamResult result;
  result.tokens = autograd::result_like(impl, tokens, DType::int64, where);
  result.lengths = autograd::result_like(impl, paths, DType::int64, where);
  const core::CtcDecodeTask task{
      .x = *ready.x.impl(), .steps = *ready.steps.impl(), .blank = options.blank, .beams = options.beams};
  backend_of(impl, where).ctc_beam_search(task, *result.tokens.impl(), *result.lengths.impl(), *scores.impl());
  result.log_probabilities = autograd::converted(scores, impl.dtype, where);
  autograd::note(op, where, {&log_probabilities}, {&result.tokens, &result.lengths, &result.log_probabilities});
  return result;
}

}  // namespace capstan
