#include <capstan/nn/beam_search.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <capstan/create.hpp>
#include <capstan/ops/order.hpp>
#include <capstan/ops/reduce.hpp>

#include "lib/base/text.hpp"
#include "nn/decoding.hpp"

namespace capstan::nn {

namespace {

constexpr const char* kOp = "beam_search";
constexpr double kNothing = -std::numeric_limits<double>::infinity();
constexpr double kLeastCoverage = 1e-9;  // keeps scores finite

void check_options(const BeamOptions& o, Where where) {
  if (o.beams < 1) base::fail<Error>(where, kOp, ": ", o.beams, " beams were asked for; there must be at least one.");
  if (o.results && (*o.results < 1 || *o.results > o.beams))
    base::fail<Error>(where, kOp, ": ", *o.results, " results were asked for; with ", o.beams,
                      " beams they must be in [1, ", o.beams, "].");
  decoding::check_limits(kOp, o.max_steps, o.end, where);
  if (!(o.length_penalty >= 0 && std::isfinite(o.length_penalty)))
    base::fail<Error>(where, kOp, ": the length penalty is ", o.length_penalty, "; it must be a finite number >= 0.");
  if (!(o.coverage_penalty >= 0 && std::isfinite(o.coverage_penalty)))
    base::fail<Error>(where, kOp, ": the coverage penalty is ", o.coverage_penalty,
                      "; it must be a finite number >= 0.");
}

std::vector<std::int64_t> memory_lengths(const Tensor& lengths, std::int64_t batch, Where where) {
  if (!lengths.defined()) return {};
  if (lengths.dtype() != DType::int32 && lengths.dtype() != DType::int64)
    base::fail<DTypeError>(where, kOp, ": the memory lengths are ", lengths.dtype(), "; they must be int32 or int64.");
  if (lengths.rank() != 1 || lengths.size(0) != batch)
    base::fail<ShapeError>(where, kOp, ": the memory lengths are ", lengths.shape(), "; for a batch of ", batch,
                           " they must be [", batch, "].");
  return decoding::integers(lengths, where);
}

/// What a log probability is divided by. Wu et al. 2016, equation 14.
double length_penalty(double alpha, std::int64_t length) {
  return std::pow((5 + static_cast<double>(length)) / 6, alpha);
}

}  // namespace

/// The likeliest tokens of each hypothesis, the best first.
struct BeamSearch::Step {
  std::size_t count = 0;             // of these tokens
  std::vector<std::int64_t> tokens;  // [batch, beams, count]
  std::vector<double> logits;        // of these tokens
  std::vector<double> totals;        // [batch, beams]: logarithms of the sums over all tokens
  std::vector<double> alignments;    // [batch, beams, memory]; empty without a coverage penalty
  std::int64_t memory = 0;
};

/// A live hypothesis and one more token.
struct BeamSearch::Candidate {
  double log_probability;
  std::int64_t beam, token;
  std::size_t rank;  // of the token among those of its beam
};

BeamSearch::BeamSearch(std::int64_t batch, const BeamOptions& options, Device device, Where where)
    : options_(options), device_(device), batch_(batch) {
  check_options(options, where);
  if (batch < 0) base::fail<ShapeError>(where, kOp, ": the batch is ", batch, "; it must be >= 0.");
  const std::int64_t hypotheses = Shape({batch, options.beams}, where).numel();
  origins_ = arange(hypotheses, where).to(device, where);  // first of all: it says so if they are too many
  decoding::Batch rows{batch, device};
  starts_ = decoding::first_inputs(kOp, options.start, options.start_tokens, rows, where);
  places_ = memory_lengths(options.memory_lengths, batch, where);
  results_ = options.results.value_or(options.beams);
  open_ = batch;
  complete_.resize(static_cast<std::size_t>(batch));
  alive_.assign(static_cast<std::size_t>(hypotheses), kNothing);
  std::vector<std::int64_t> inputs(alive_.size());
  for (std::int64_t row = 0; row < batch; ++row) {
    alive_[slot(row, 0)] = 0;
    for (std::int64_t beam = 0; beam < options.beams; ++beam)
      inputs[slot(row, beam)] = starts_[static_cast<std::size_t>(row)];
  }
  inputs_ = decoding::tokens_on(device, inputs, where);
}

// --- a step ----------------------------------------------------------------------------------------------------

std::int64_t BeamSearch::places_of(std::int64_t row) const {
  return places_.empty() ? memory_ : places_[static_cast<std::size_t>(row)];
}

void BeamSearch::check_alignments(const Tensor& alignments, Where where) const {
  if (!alignments.defined())
    base::fail<Error>(where, kOp, ": the coverage penalty is ", options_.coverage_penalty,
                      ", but there are no alignments; the state must have a tensor of that name, or a function must "
                      "say them.");
  if (!is_floating(alignments.dtype()))
    base::fail<DTypeError>(where, kOp, ": the alignments are ", alignments.dtype(),
                           "; they must be of a floating type.");
  const std::int64_t rows = batch_ * options_.beams;
  if (alignments.rank() != 2 || alignments.size(0) != rows)
    base::fail<ShapeError>(where, kOp, ": the alignments are ", alignments.shape(), " for ", rows,
                           " rows; they must be [", rows, ", memory].");
  if (steps_ > 0 && alignments.size(1) != memory_)
    base::fail<ShapeError>(where, kOp, ": the alignments are ", alignments.shape(), " after others with ", memory_,
                           " places; a memory must keep its size.");
  for (std::size_t row = 0; row < places_.size(); ++row)
    if (places_[row] < 0 || places_[row] > alignments.size(1))
      base::fail<IndexError>(where, kOp, ": the memory length of row ", row, " is ", places_[row],
                             "; with alignments of ", alignments.shape(), " it must be in [0, ", alignments.size(1),
                             "].");
}

BeamSearch::Step BeamSearch::read(const Tensor& logits, const Tensor& alignments, std::int64_t vocabulary,
                                  Where where) const {
  // One more than lives on: one of them may be the end token.
  const std::int64_t count = std::min(vocabulary, options_.beams + 1);
  const Tensor x = decoding::widened(logits, where);
  const TopkResult best = topk(x, count, -1, {}, where);
  Step step;
  step.count = static_cast<std::size_t>(count);
  step.tokens = decoding::integers(best.indices, where);
  step.logits = decoding::doubles(best.values, where);
  step.totals = decoding::doubles(logsumexp(x, -1, {}, where), where);
  if (options_.coverage_penalty > 0) {
    step.alignments = decoding::doubles(alignments, where);
    step.memory = alignments.size(1);
  }
  return step;
}

void BeamSearch::check_numbers(const Step& step, Where where) const {
  const auto memory = static_cast<std::size_t>(step.memory);
  for (std::int64_t row = 0; row < batch_; ++row) {
    for (std::int64_t beam = 0; beam < options_.beams; ++beam) {
      const std::size_t at = slot(row, beam);
      if (alive_[at] == kNothing) continue;
      if (const double largest = step.logits[at * step.count]; !std::isfinite(largest))
        base::fail<NumericError>(where, kOp, ": the largest logit of row ", row, ", beam ", beam, ", at step ", steps_,
                                 " is ", decoding::text_of(largest), "; it must be finite.");
      for (std::size_t i = 0; i < memory; ++i)
        if (const double alignment = step.alignments[at * memory + i]; !std::isfinite(alignment))
          base::fail<NumericError>(where, kOp, ": the alignment of row ", row, ", beam ", beam, ", at step ", steps_,
                                   " to place ", i, " is ", decoding::text_of(alignment), "; it must be finite.");
    }
  }
}

/// What a step changes, but for its results, which come last. What was said only grows.
struct BeamSearch::Before {
  std::vector<double> alive, coverage;
  std::vector<std::vector<Complete>> complete;
  std::int64_t steps, memory, open;
  std::size_t said;
  bool moved;

  explicit Before(const BeamSearch& s)
      : alive(s.alive_),
        coverage(s.coverage_),
        complete(s.complete_),
        steps(s.steps_),
        memory(s.memory_),
        open(s.open_),
        said(s.said_.size()),
        moved(s.moved_) {}
  void restore(BeamSearch& s) noexcept {
    s.alive_.swap(alive);
    s.coverage_.swap(coverage);
    s.complete_.swap(complete);
    s.steps_ = steps;
    s.memory_ = memory;
    s.open_ = open;
    s.said_.resize(said);
    s.from_.resize(said);
    s.moved_ = moved;
  }
};

void BeamSearch::advance(const Tensor& logits, const Tensor& alignments, Where where) {
  if (done()) base::fail<Error>(where, kOp, ": the search is done; `result` has what it has found.");
  const std::int64_t vocabulary = decoding::check_logits(kOp, logits, batch_ * options_.beams, where);
  decoding::check_tokens(kOp, starts_, options_.start_tokens.defined(), options_.end, vocabulary, where);
  if (options_.coverage_penalty > 0) check_alignments(alignments, where);
  const NoGrad off;
  const Step step = read(logits, alignments, vocabulary, where);
  check_numbers(step, where);

  Before before(*this);  // memory may end on the way
  try {
    cover(step);
    for (std::int64_t row = 0; row < batch_; ++row) {  // as if everything stayed where it is
      for (std::int64_t beam = 0; beam < options_.beams; ++beam) {
        said_.push_back(starts_[static_cast<std::size_t>(row)]);
        from_.push_back(beam);
      }
    }
    std::vector<double> alive(alive_.size(), kNothing);
    for (std::int64_t row = 0; row < batch_; ++row) extend(row, step, alive);
    alive_ = std::move(alive);
    ++steps_;
    move_on(where);
  } catch (...) {
    before.restore(*this);
    throw;
  }
}

/// Adds what the live hypotheses have attended to.
void BeamSearch::cover(const Step& step) {
  if (step.alignments.empty()) return;
  memory_ = step.memory;
  coverage_.resize(step.alignments.size(), 0.0);
  for (std::size_t i = 0; i < coverage_.size(); ++i) coverage_[i] += step.alignments[i];
}

/// The likeliest extensions of a row, as many as can matter, the best first.
std::vector<BeamSearch::Candidate> BeamSearch::candidates(std::int64_t row, const Step& step) const {
  std::vector<Candidate> all;
  for (std::int64_t beam = 0; beam < options_.beams; ++beam) {
    const std::size_t at = slot(row, beam);
    if (alive_[at] == kNothing) continue;
    for (std::size_t rank = 0; rank < step.count; ++rank) {
      const std::size_t i = at * step.count + rank;
      const double sum = alive_[at] + decoding::log_probability(step.logits[i], step.totals[at]);
      if (sum > kNothing) all.push_back({sum, beam, step.tokens[i], rank});
    }
  }
  // Each live one can end, which leaves `beams` that do not.
  const std::size_t enough = std::min(all.size(), 2 * static_cast<std::size_t>(options_.beams));
  const auto better = [](const Candidate& a, const Candidate& b) {
    if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
    return a.beam != b.beam ? a.beam < b.beam : a.rank < b.rank;
  };
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(enough), all.end(), better);
  all.resize(enough);
  return all;
}

void BeamSearch::extend(std::int64_t row, const Step& step, std::vector<double>& alive) {
  const std::int64_t length = steps_ + 1;
  const bool last = length == options_.max_steps;
  const std::size_t begin = said_.size() - alive.size();  // of this step
  const std::vector<Candidate> best = candidates(row, step);
  std::int64_t live = 0, seen = 0;
  for (const Candidate& one : best) {
    if (live == options_.beams) break;
    const bool counts = seen++ < options_.beams;
    if (options_.end == one.token) {
      if (counts)
        keep(row, {score(row, one.beam, one.log_probability, length), one.log_probability, steps_, one.beam, true});
      continue;
    }
    const std::size_t at = slot(row, live);
    said_[begin + at] = one.token;
    from_[begin + at] = one.beam;
    if (last) keep(row, {score(row, one.beam, one.log_probability, length), one.log_probability, length, live, false});
    else alive[at] = one.log_probability;
    ++live;
  }
  if (is_decided(row, alive[slot(row, 0)]))
    for (std::int64_t beam = 0; beam < options_.beams; ++beam) alive[slot(row, beam)] = kNothing;
}

double BeamSearch::score(std::int64_t row, std::int64_t beam, double log_probability, std::int64_t length) const {
  const double value = log_probability / length_penalty(options_.length_penalty, length);
  if (!(options_.coverage_penalty > 0)) return value;
  const std::size_t first = slot(row, beam) * static_cast<std::size_t>(memory_);
  double covered = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(places_of(row)); ++i)
    covered += std::log(std::clamp(coverage_[first + i], kLeastCoverage, 1.0));
  return value + options_.coverage_penalty * covered;
}

void BeamSearch::keep(std::int64_t row, const Complete& hypothesis) {
  std::vector<Complete>& list = complete_[static_cast<std::size_t>(row)];
  const auto lower = [](const Complete& a, const Complete& b) { return a.score > b.score; };
  list.insert(std::upper_bound(list.begin(), list.end(), hypothesis, lower), hypothesis);
  if (static_cast<std::int64_t>(list.size()) > results_) list.pop_back();
}

/// Whether nothing that lives, the likeliest of which has this log probability, can come before what is kept. More
/// tokens only make it less likely, the longest is divided by most, and no coverage gives more than 0.
bool BeamSearch::is_decided(std::int64_t row, double best) const {
  const std::vector<Complete>& list = complete_[static_cast<std::size_t>(row)];
  if (static_cast<std::int64_t>(list.size()) < results_) return false;
  return best / length_penalty(options_.length_penalty, options_.max_steps) <= list.back().score;
}

/// What goes in next, from the step that was just made.
void BeamSearch::move_on(Where where) {
  const std::size_t begin = said_.size() - alive_.size();
  std::vector<std::int64_t> inputs(alive_.size()), origins(alive_.size());
  moved_ = false;
  open_ = 0;
  for (std::int64_t row = 0; row < batch_; ++row) {
    bool lives = false;
    for (std::int64_t beam = 0; beam < options_.beams; ++beam) {
      const std::size_t at = slot(row, beam);
      inputs[at] = said_[begin + at];
      origins[at] = static_cast<std::int64_t>(slot(row, from_[begin + at]));
      moved_ = moved_ || from_[begin + at] != beam;
      lives = lives || alive_[at] != kNothing;
    }
    if (lives) ++open_;
  }
  if (!coverage_.empty()) {
    const auto memory = static_cast<std::size_t>(memory_);
    const std::vector<double> before = coverage_;
    for (std::size_t at = 0; at < origins.size(); ++at) {
      const auto from = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(origins[at]) * memory);
      std::copy_n(before.begin() + from, memory, coverage_.begin() + static_cast<std::ptrdiff_t>(at * memory));
    }
  }
  Tensor next = decoding::tokens_on(device_, inputs, where), from = decoding::tokens_on(device_, origins, where);
  inputs_ = std::move(next);
  origins_ = std::move(from);
}

// --- what was found --------------------------------------------------------------------------------------------

void BeamSearch::trace(std::int64_t row, const Complete& hypothesis, std::int64_t* tokens) const {
  std::int64_t beam = hypothesis.beam;
  for (std::int64_t i = hypothesis.steps - 1; i >= 0; --i) {
    const std::size_t at = static_cast<std::size_t>(i) * alive_.size() + slot(row, beam);
    tokens[i] = said_[at];
    beam = from_[at];
  }
  if (hypothesis.ended) tokens[hypothesis.steps] = *options_.end;
}

BeamResult BeamSearch::result(Where where) const {
  std::int64_t time = 0;
  for (const std::vector<Complete>& list : complete_)
    for (const Complete& one : list) time = std::max(time, one.length());
  const auto count = static_cast<std::size_t>(batch_ * results_);
  std::vector<std::int64_t> tokens(count * static_cast<std::size_t>(time),
                                   options_.pad ? *options_.pad : options_.end.value_or(0));
  std::vector<std::int64_t> lengths(count, 0);
  std::vector<double> scores(count, kNothing), log_probabilities(count, kNothing);
  for (std::int64_t row = 0; row < batch_; ++row) {
    auto at = static_cast<std::size_t>(row * results_);
    for (const Complete& one : complete_[static_cast<std::size_t>(row)]) {
      trace(row, one, tokens.data() + at * static_cast<std::size_t>(time));
      lengths[at] = one.length();
      scores[at] = one.score;
      log_probabilities[at] = one.log_probability;
      ++at;
    }
  }
  const Shape shape({batch_, results_}, where);
  return {from_vector(tokens, Shape({batch_, results_, time}, where), where).to(device_, where),
          from_vector(lengths, shape, where).to(device_, where), from_vector(scores, shape, where).to(device_, where),
          from_vector(log_probabilities, shape, where).to(device_, where)};
}

namespace detail {

BeamSearch begin_search(std::span<const NamedTensor> state, const BeamOptions& options, Where where) {
  check_options(options, where);
  decoding::Batch batch = decoding::batch_of(kOp, state, where);
  decoding::first_inputs(kOp, options.start, options.start_tokens, batch, where);  // may have to tell the batch
  return BeamSearch(batch.rows, options, batch.device, where);
}

}  // namespace detail

}  // namespace capstan::nn
