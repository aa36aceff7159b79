#pragma once
// Sequences that a decoder makes: scheduled sampling while it learns, greedy decoding and sampling when it is used.
// beam_search.hpp looks for the best sequences.
//
// A decoder is three things, each handed in by itself:
//     cell       any cell (unroll.hpp): x [rows, inputs] and a state -> output [rows, units] and the next state
//     embed      tokens [rows], int64 -> x [rows, inputs]: an nn::Embedding, a model, a lambda
//     project    output [rows, units] -> logits [rows, vocabulary]: an nn::Linear, a lambda; nn::Identity for a cell
//                whose output is logits
// Teacher forcing, where the inputs are known, is `project(unroll(cell, embed(inputs), {.lengths = lengths}).first)`.
//
// States    as `unroll` takes them: every tensor of a state is [batch, ...]; those without axes, and undefined ones as
//           long as not all are, are the cell's own affair
// Types     logits are floating; those of 16 bits are read as float32. Tokens are int64. Log probabilities are the
//           logarithms of softmax(logits), whatever a token was chosen by; their sums are kept in float64
// Threads   results do not depend on the number of threads
// Throws    Error       a state of which nothing is defined, options that make no sense
//           ShapeError  states of several batch sizes, logits that are not [rows, vocabulary]      DTypeError
//           IndexError  start or end tokens outside the vocabulary
//           NumericError  a row that goes on has NaN or +infinity, or nothing above -infinity, among its logits
// After an exception the generator stands where it stood, and so does the default one, which cells may draw from.
// Defined in nn/decode.cpp.
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <capstan/nn/states.hpp>
#include <capstan/nn/unroll.hpp>
#include <capstan/parameter.hpp>
#include <capstan/random.hpp>
#include <capstan/tape.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace nn {

// --- choosing tokens -------------------------------------------------------------------------------------------

struct SampleOptions {
  double temperature = 1;  ///< logits are divided by it; finite, above 0. Small ones come close to the likeliest token
  std::int64_t top_k = 0;  ///< only so many of the largest logits; 0 for all
  double top_p = 1;        ///< only the fewest tokens whose probabilities add up to it; in (0, 1]
};

/// Logits of the distribution that tokens are drawn from: divided by the temperature, and -infinity for all but the
/// top_k largest, and of these for all but the nucleus, the fewest that have top_p of their probability together. Of
/// equal logits the first are kept; one always is.
///
/// Shapes    logits [..., vocabulary]; the result likewise
/// Gradient  for the logits that are kept
/// Cost      a sort of each row, of k elements with top_k; nothing but a division without both
/// Throws    Error  a temperature or top_p out of range     ShapeError  top_k outside 0..vocabulary     DTypeError
/// Source    top-k: Fan et al. 2018; nucleus: Holtzman et al. 2020
Tensor filter_logits(const Tensor& logits, const SampleOptions& options, Where where = Where::current());

/// One token for each row, drawn from softmax(filter_logits(logits, options)) as `categorical` does.
///
/// Shapes    logits [batch, vocabulary]; result [batch], int64; no gradient
/// Throws    as `filter_logits`; NumericError
Tensor sample_tokens(const Tensor& logits, const SampleOptions& options = {}, Rng& rng = default_rng(),
                     Where where = Where::current());

// --- what the functions below share ----------------------------------------------------------------------------

struct DecodeOptions {
  std::int64_t start = -1;               ///< the first input of every row; must be given, unless start_tokens are
  Tensor start_tokens = {};              ///< [batch] int32 or int64: one for each row, instead of `start`
  std::optional<std::int64_t> end = {};  ///< ends its row; rows run for max_steps if there is none
  std::int64_t max_steps = 100;          ///< >= 1
  std::optional<std::int64_t> pad = {};  ///< any number, stands behind the end of a row; the end token if absent
};

template <class State>
struct DecodeResult {
  Tensor tokens;   ///< [batch, time] int64; time is the largest of the lengths
  Tensor lengths;  ///< [batch] int64: tokens of each row, its end token among them
  Tensor scores;   ///< [batch] float64: sums of their log probabilities
  State state;     ///< behind the last step of each row, the one that gave its end token
};

struct ScheduledSamplingOptions {
  double probability = 0;  ///< that an input is the model's own token: 0 is teacher forcing, 1 leaves it to itself
  bool argmax = false;     ///< its own token is the likeliest one instead of one drawn from its softmax
  Tensor lengths = {};     ///< [batch] int32 or int64 in 0..time: steps of each row; undefined for all
};

template <class State>
struct ScheduledSamplingResult {
  Tensor logits;  ///< [batch, time, vocabulary]; 0 past the end of a row
  Tensor inputs;  ///< [batch, time] int64: the tokens that were fed; 0 past the end of a row
  State state;    ///< behind the last step of each row
};

namespace detail {

/// A function of tokens or outputs; one that takes a place is told the caller's.
template <class Part>
Tensor call_part(Part& part, const Tensor& x, Where where) {
  if constexpr (std::is_invocable_v<Part&, const Tensor&, Where>) return part(x, where);
  else return part(x);
}

/// Puts the rows of `before` where `running` is false. What was undefined before, or has no axes, is taken whole.
/// ShapeError if a state does not keep its shapes.
void keep_running(const char* op, const Tensor& running, std::span<Tensor* const> after,
                  std::span<Tensor* const> before, Where where);

/// What a decoding knows of its rows.
class Decoding {
 public:
  Decoding(const char* op, std::span<const NamedTensor> state, const DecodeOptions& options,
           const SampleOptions* sampling, Where where);
  bool done() const noexcept { return running_ == 0 || steps_ == options_.max_steps; }
  /// What goes in next, [batch].
  const Tensor& inputs() const noexcept { return inputs_; }
  /// Which rows go on, [batch] bool; undefined if all do.
  Tensor running(Where where) const;
  /// Chooses the tokens of a step: the likeliest, or drawn from `rng`.
  void take(const Tensor& logits, Rng& rng, Where where);

  Tensor tokens(Where where) const;
  Tensor lengths(Where where) const;
  Tensor scores(Where where) const;

 private:
  struct Choice;
  Choice choose(const Tensor& logits, Rng& rng, Where where) const;
  void say(const Choice& choice, Where where);

  const char* op_;
  DecodeOptions options_;
  std::optional<SampleOptions> sampling_;
  Device device_;
  Tensor inputs_;
  std::vector<std::int64_t> starts_, lengths_, tokens_;  // [batch], [batch], [steps, batch]
  std::vector<double> scores_;
  std::vector<std::uint8_t> on_;  // whether a row goes on
  std::int64_t running_ = 0, steps_ = 0;
};

/// The inputs of scheduled sampling, step by step.
class TokenSchedule {
 public:
  TokenSchedule(std::span<const NamedTensor> state, const Tensor& inputs, const ScheduledSamplingOptions& options,
                Where where);
  bool done() const noexcept { return step_ == plan_.steps; }
  /// What goes in at the present step, [batch].
  const Tensor& tokens() const noexcept { return fed_.back(); }
  /// Which rows have the present step, [batch] bool; undefined if all do.
  Tensor running(Where where) const;
  /// Keeps the logits of the present step and goes on to the next, whose inputs may be drawn from them.
  void take(Tensor logits, Rng& rng, Where where);
  Tensor logits(Where where) const;
  Tensor inputs(Where where) const;

 private:
  Tensor next_tokens(const Tensor& logits, Rng& rng, Where where) const;
  Tensor own_tokens(const Tensor& logits, Rng& rng, Where where) const;

  ScheduledSamplingOptions options_;
  UnrollPlan plan_;
  std::int64_t step_ = 0;
  std::vector<Tensor> given_, fed_, logits_;  // of each step
};

template <class Cell, class Embed, class Project>
DecodeResult<typename Cell::State> decode(const char* op, Cell& cell, Embed& embed, Project& project,
                                          const typename Cell::State& initial_state, const DecodeOptions& options,
                                          const SampleOptions* sampling, Rng& rng, Where where) {
  const NoGrad off;
  const Rewind rewind(rng), rewind_cell(default_rng());
  Decoding rows(op, named_tensors(initial_state), options, sampling, where);
  typename Cell::State state = initial_state;
  while (!rows.done()) {
    const Tensor running = rows.running(where);
    const Tensor x = detail::call_part(embed, rows.inputs(), where);
    auto [output, after] = detail::step(cell, x, state, where);
    rows.take(detail::call_part(project, output, where), rng, where);
    if (running.defined()) detail::keep_running(op, running, state_tensors(after), state_tensors(state), where);
    state = std::move(after);
  }
  return {rows.tokens(where), rows.lengths(where), rows.scores(where), std::move(state)};
}

}  // namespace detail

// --- decoding --------------------------------------------------------------------------------------------------

/// The likeliest token of each step is the next input, until every row has ended. Of equal logits the first is taken.
/// Not recorded by tapes.
///
///     auto [tokens, lengths, scores, state] = greedy_decode(cell, embed, out, encoded, {.start = 1, .end = 2});
template <class Cell, class Embed, class Project>
DecodeResult<typename Cell::State> greedy_decode(Cell& cell, Embed&& embed, Project&& project,
                                                 const typename Cell::State& initial_state,
                                                 const DecodeOptions& options, Where where = Where::current()) {
  return detail::decode("greedy_decode", cell, embed, project, initial_state, options, nullptr, default_rng(), where);
}

/// The same with tokens as `sample_tokens` draws them. Scores are those of the model itself, not of what the
/// temperature and the limits have made of it.
template <class Cell, class Embed, class Project>
DecodeResult<typename Cell::State> sample_decode(Cell& cell, Embed&& embed, Project&& project,
                                                 const typename Cell::State& initial_state,
                                                 const DecodeOptions& options, const SampleOptions& sampling = {},
                                                 Rng& rng = default_rng(), Where where = Where::current()) {
  return detail::decode("sample_decode", cell, embed, project, initial_state, options, &sampling, rng, where);
}

/// Teacher forcing in which some inputs are the model's own tokens: each row of each step but the first decides by
/// itself, with the given probability, for what the model said at the step before instead of what is given.
///
/// inputs    [batch, time], integers: the start token and what is to be said but for its last token. What stands past
///           the end of a row is never read
/// Gradient  through logits, states and embeddings; not through the choice of tokens
/// Throws    IndexError for lengths outside 0..time, Error for a probability outside [0, 1]; NumericError only where
///           tokens are drawn
/// Source    Bengio et al., "Scheduled sampling for sequence prediction with recurrent neural networks", 2015
template <class Cell, class Embed, class Project>
ScheduledSamplingResult<typename Cell::State> scheduled_sampling(
    Cell& cell, Embed&& embed, Project&& project, const Tensor& inputs, const typename Cell::State& initial_state,
    const ScheduledSamplingOptions& options = {}, Rng& rng = default_rng(), Where where = Where::current()) {
  const detail::Rewind rewind(rng), rewind_cell(default_rng());
  detail::TokenSchedule schedule(detail::named_tensors(initial_state), inputs, options, where);
  typename Cell::State state = initial_state;
  while (!schedule.done()) {
    const Tensor running = schedule.running(where);
    Tensor x = detail::call_part(embed, schedule.tokens(), where);
    if (running.defined()) x = detail::running_or_zero(running, x, where);
    auto [output, after] = detail::step(cell, x, state, where);
    if (running.defined()) {
      output = detail::running_or_zero(running, output, where);
      detail::keep_running("scheduled_sampling", running, detail::state_tensors(after), detail::state_tensors(state),
                           where);
    }
    schedule.take(detail::call_part(project, output, where), rng, where);
    state = std::move(after);
  }
  return {schedule.logits(where), schedule.inputs(where), std::move(state)};
}

}  // namespace nn
}  // namespace capstan
