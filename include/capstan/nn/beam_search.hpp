#pragma once
// Beam search: the best sequences of a decoder, as decode.hpp has it.
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <capstan/nn/decode.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace nn {

struct BeamOptions {
  std::int64_t beams = 4;                    ///< hypotheses of each row that go on after a step; >= 1
  std::int64_t start = -1;                   ///< as in DecodeOptions, like the next four
  Tensor start_tokens = {};                  ///< [batch] int32 or int64
  std::optional<std::int64_t> end = {};      ///< without one only max_steps ends a hypothesis
  std::int64_t max_steps = 100;              ///< >= 1
  std::optional<std::int64_t> pad = {};      ///< stands behind the end of a hypothesis
  double length_penalty = 0;                 ///< alpha, >= 0; 0.6 to 1 favours longer ones
  double coverage_penalty = 0;               ///< beta, >= 0; needs alignments
  Tensor memory_lengths = {};                ///< [batch] int32 or int64: places of each row's memory; undefined for all
  std::optional<std::int64_t> results = {};  ///< the best ones of each row that come back, 1 to `beams`; all if absent
};

/// For each row the best first. Where there are fewer hypotheses than results, the others have length 0 and score
/// -infinity.
struct BeamResult {
  Tensor tokens;             ///< [batch, results, time] int64; time is the largest of the lengths
  Tensor lengths;            ///< [batch, results] int64: tokens of each, the end token among them
  Tensor scores;             ///< [batch, results] float64: log probabilities after penalties, descending
  Tensor log_probabilities;  ///< [batch, results] float64: of whole sequences
};

/// The search without a model, for decoders that are no cells: it is told logits, and says what goes in next.
///
///     for (BeamSearch search(batch, options); !search.done();) {
///       const Tensor logits = model(search.tokens(), cache);    // [batch * beams, vocabulary]
///       search.advance(logits);
///       cache = gather(cache, search.parents(), 0);             // rows change places
///     }
///
/// Rows of everything are hypotheses, the beams of one row of the batch side by side. In the first step one of them
/// lives; those that do not take part may have any logits. `beam_search` says what is searched.
class BeamSearch {
 public:
  /// `device` is where tokens and results shall be.
  BeamSearch(std::int64_t batch, const BeamOptions& options, Device device = cpu(), Where where = Where::current());

  bool done() const noexcept { return open_ == 0; }
  /// The next inputs, [batch * beams] int64.
  const Tensor& tokens() const noexcept { return inputs_; }
  /// For each of them the row of the last step that it goes on from, [batch * beams] int64.
  const Tensor& parents() const noexcept { return origins_; }
  /// Whether some goes on from another row than its own.
  bool moved() const noexcept { return moved_; }
  /// A step: logits [batch * beams, vocabulary] of the inputs, and with a coverage penalty their alignments
  /// [batch * beams, memory]. Error if the search is done. After an exception nothing has changed.
  void advance(const Tensor& logits, const Tensor& alignments = {}, Where where = Where::current());
  /// What has been found, also before the search is done; hypotheses that live are not part of it.
  BeamResult result(Where where = Where::current()) const;

 private:
  struct Step;
  struct Candidate;
  struct Before;
  /// One that is complete: its last token but `end` is that of a beam after so many steps.
  struct Complete {
    double score, log_probability;
    std::int64_t steps, beam;
    bool ended;
    std::int64_t length() const noexcept { return steps + (ended ? 1 : 0); }
  };
  void check_alignments(const Tensor& alignments, Where where) const;
  void check_numbers(const Step& step, Where where) const;
  Step read(const Tensor& logits, const Tensor& alignments, std::int64_t vocabulary, Where where) const;
  void cover(const Step& step);
  std::vector<Candidate> candidates(std::int64_t row, const Step& step) const;
  void extend(std::int64_t row, const Step& step, std::vector<double>& alive);
  double score(std::int64_t row, std::int64_t beam, double log_probability, std::int64_t length) const;
  void keep(std::int64_t row, const Complete& hypothesis);
  bool is_decided(std::int64_t row, double best) const;
  void move_on(Where where);
  void trace(std::int64_t row, const Complete& hypothesis, std::int64_t* tokens) const;
  std::int64_t places_of(std::int64_t row) const;
  std::size_t slot(std::int64_t row, std::int64_t beam) const noexcept {
    return static_cast<std::size_t>(row * options_.beams + beam);
  }

  BeamOptions options_;
  Device device_;
  std::int64_t batch_, results_ = 0, steps_ = 0, memory_ = 0;
  std::int64_t open_ = 0;                        // rows in which something lives
  std::vector<std::int64_t> starts_, places_;    // [batch]; the latter empty without memory lengths
  std::vector<double> alive_;                    // [batch, beams]: log probabilities, -infinity where nothing lives
  std::vector<double> coverage_;                 // [batch, beams, memory]
  std::vector<std::int64_t> said_, from_;        // [steps, batch, beams]: tokens, and the beams that they go on from
  std::vector<std::vector<Complete>> complete_;  // of each row the best first, `results` at most
  Tensor inputs_, origins_;
  bool moved_ = false;
};

namespace detail {

template <class State>
concept HasAlignments = requires(const State& state) {
  { state.alignments } -> std::convertible_to<const Tensor&>;
};
struct StateAlignments {
  template <class State>
  Tensor operator()([[maybe_unused]] const State& state) const {
    if constexpr (HasAlignments<State>) return state.alignments;
    else return {};
  }
};

/// A search for the rows of a state.
BeamSearch begin_search(std::span<const NamedTensor> state, const BeamOptions& options, Where where);

template <class Cell, class Embed, class Project, class Alignments>
BeamResult search_beams(Cell& cell, Embed& embed, Project& project, const typename Cell::State& initial_state,
                        Alignments& alignments, const BeamOptions& options, Where where) {
  const NoGrad off;
  const Rewind rewind(default_rng());  // cells may draw from it
  BeamSearch search = begin_search(named_tensors(initial_state), options, where);
  typename Cell::State state = repeat_state(initial_state, options.beams, where);
  while (!search.done()) {
    const Tensor x = detail::call_part(embed, search.tokens(), where);
    auto [output, after] = detail::step(cell, x, state, where);
    const Tensor logits = detail::call_part(project, output, where);
    search.advance(logits, options.coverage_penalty > 0 ? Tensor(alignments(std::as_const(after))) : Tensor(), where);
    if (search.done()) break;
    if (search.moved()) state = gather_state(after, search.parents(), where);
    else state = std::move(after);
  }
  return search.result(where);
}

}  // namespace detail

/// The sequences that a decoder finds best.
///
///   score = log_probability / ((5 + n) / 6)^alpha + beta * sum(i) log(min(coverage[i], 1))
///
/// for n tokens, where coverage[i] is the sum over the steps of what they attended to place i of the memory. A
/// hypothesis is complete with the end token, or with max_steps tokens. Each step extends every live one of a row by
/// every token. Of the `beams` likeliest extensions those that end are complete, and the best `results` of these by
/// their score are kept aside; the `beams` likeliest that do not end live on. A row is done when no live one can come to
/// a better score than those kept, however it goes on, or after max_steps. So with enough beams for all extensions of a
/// step the result is the exact optimum, and without penalties one beam finds what `greedy_decode` finds. Ties go to
/// what was complete first, then to the smaller beam and token. Not recorded by tapes.
///
/// Beams     The cell sees batch * beams rows from the first step on, the beams of a row side by side: what it holds by
///           rows itself must be for as many. For an AttentionCell: `cell.attend(repeated(cell.memory(), beams))`
/// Coverage  Alignments [rows, memory] are `state.alignments` after the step, as AttentionCell has them, or what the
///           function says. Coverage below 1e-9 counts as that. Live hypotheses are compared without penalties
/// Cost      the model for batch * beams rows, and a choice of beams + 1 tokens for each; sums are taken in double
/// Throws    as decode.hpp says, and Error  beams, results or penalties out of range, no alignments
///           IndexError  memory lengths outside 0..memory     NumericError  alignments that are not finite
/// Source    Wu et al., "Google's neural machine translation system", 2016, section 7
/// Defined in nn/beam_search.cpp.
template <class Cell, class Embed, class Project>
BeamResult beam_search(Cell& cell, Embed&& embed, Project&& project, const typename Cell::State& initial_state,
                       const BeamOptions& options, Where where = Where::current()) {
  const detail::StateAlignments alignments{};
  return detail::search_beams(cell, embed, project, initial_state, alignments, options, where);
}

/// With a function of the state that gives its alignments, [batch * beams, memory].
template <class Cell, class Embed, class Project, class Alignments>
requires std::is_invocable_r_v<Tensor, Alignments&, const typename Cell::State&> BeamResult
beam_search(Cell& cell, Embed&& embed, Project&& project, const typename Cell::State& initial_state,
            Alignments&& alignments, const BeamOptions& options, Where where = Where::current()) {
  return detail::search_beams(cell, embed, project, initial_state, alignments, options, where);
}

}  // namespace nn
}  // namespace capstan
