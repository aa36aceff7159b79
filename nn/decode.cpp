#include <capstan/nn/decode.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <capstan/create.hpp>
#include <capstan/ops/cumulative.hpp>
#include <capstan/ops/elementwise.hpp>
#include <capstan/ops/index.hpp>
#include <capstan/ops/order.hpp>
#include <capstan/ops/rearranging.hpp>
#include <capstan/ops/reduce.hpp>
#include <capstan/ops/shaping.hpp>

#include "lib/base/text.hpp"
#include "nn/decoding.hpp"

namespace capstan::nn {

// --- choosing tokens -------------------------------------------------------------------------------------------

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void check_sampling(const char* op, const SampleOptions& options, Where where) {
  if (!(options.temperature > 0 && options.temperature < kInfinity))
    base::fail<Error>(where, op, ": the temperature is ", options.temperature, "; it must be a finite number above 0.");
  if (!(options.top_p > 0 && options.top_p <= 1))
    base::fail<Error>(where, op, ": top_p is ", options.top_p, "; it must be in (0, 1].");
  if (options.top_k < 0)
    base::fail<ShapeError>(where, op, ": top_k is ", options.top_k, "; it must be >= 0, and 0 means all.");
}

void check_top_k(const char* op, const SampleOptions& options, std::int64_t vocabulary, Where where) {
  if (options.top_k > vocabulary)
    base::fail<ShapeError>(where, op, ": top_k is ", options.top_k, " and the vocabulary has ", vocabulary,
                           " tokens; it must be in [0, ", vocabulary, "].");
}

/// The temperature beside such logits: neither 0 nor infinite in their type, which would make NaN of 0 and -infinity.
double temperature_for(const Tensor& logits, double temperature) {
  if (logits.dtype() == DType::float64) return temperature;
  using Limits = std::numeric_limits<float>;
  return std::clamp(temperature, static_cast<double>(Limits::min()), static_cast<double>(Limits::max()));
}

/// `filter_logits` after all checks, for logits of 32 or 64 bits.
Tensor filtered(const Tensor& logits, const SampleOptions& options, Where where) {
  const double temperature = temperature_for(logits, options.temperature);
  const Tensor x = temperature == 1 ? logits : div(logits, temperature, where);
  const bool few = options.top_k > 0 && options.top_k < x.size(-1, where), nucleus = options.top_p < 1;
  if (!few && !nucleus) return x;
  Tensor kept, places;  // the largest first
  if (few) {
    TopkResult top = topk(x, options.top_k, -1, {}, where);
    kept = std::move(top.values);
    places = std::move(top.indices);
  } else {
    SortResult sorted = sort_with_indices(x, -1, {.descending = true}, where);
    kept = std::move(sorted.values);
    places = std::move(sorted.indices);
  }
  if (nucleus) {  // a token belongs to it if those before it are not enough: the first, before which is 0, always does
    const Tensor before = cumsum(softmax(stop_gradient(kept, where), -1, where), -1, {.exclusive = true}, where);
    const double enough = std::max(options.top_p, 1e-30);  // above 0 in float32 too
    kept = capstan::where(less(before, enough, where), kept, -kInfinity, where);
  }
  return scatter(full_like(x, -kInfinity, where), places, kept, -1, where);
}

/// One token for each row of logits whose largest, [rows, 1], are finite.
Tensor draw(const Tensor& logits, const Tensor& largest, const SampleOptions& options, Rng& rng, Where where) {
  // Only differences count. With the largest at 0 no temperature makes it overflow.
  const Tensor x = options.temperature == 1 ? logits : sub(logits, largest, where);
  return squeeze(categorical(filtered(x, options, where), 1, rng, where), 1, where);
}

Tensor largest_of(const Tensor& logits, Where where) { return capstan::max(logits, -1, {.keepdims = true}, where); }

/// Draws after all checks but that of the logits' values.
Tensor sampled(const char* op, const Tensor& logits, const SampleOptions& options, Rng& rng, Where where) {
  const Tensor x = decoding::widened(logits, where), largest = largest_of(x, where);
  const std::vector<double> values = decoding::doubles(largest, where);
  for (std::size_t row = 0; row < values.size(); ++row)
    if (!std::isfinite(values[row]))
      base::fail<NumericError>(where, op, ": the largest logit of row ", row, " is ", decoding::text_of(values[row]),
                               "; it must be finite.");
  return draw(x, largest, options, rng, where);
}

}  // namespace

Tensor filter_logits(const Tensor& logits, const SampleOptions& options, Where where) {
  constexpr const char* op = "filter_logits";
  check_sampling(op, options, where);
  if (!logits.defined()) base::fail<Error>(where, op, ": the logits are undefined; give them a value first.");
  if (!is_floating(logits.dtype()))
    base::fail<DTypeError>(where, op, ": the logits are ", logits.dtype(), "; they must be of a floating type.");
  if (logits.rank() < 1 || logits.size(-1) < 1)
    base::fail<ShapeError>(where, op, ": the logits are ", logits.shape(),
                           "; they must be [..., vocabulary] with one token or more.");
  check_top_k(op, options, logits.size(-1), where);
  return filtered(decoding::widened(logits, where), options, where).to(logits.dtype(), where);
}

Tensor sample_tokens(const Tensor& logits, const SampleOptions& options, Rng& rng, Where where) {
  constexpr const char* op = "sample_tokens";
  check_sampling(op, options, where);
  check_top_k(op, options, decoding::check_logits(op, logits, -1, where), where);
  const NoGrad off;
  return sampled(op, logits, options, rng, where);
}

// --- decoding --------------------------------------------------------------------------------------------------

namespace detail {

namespace {

/// A mask [rows] as [rows, 1, ...], for x.
Tensor mask_for(const Tensor& x, const Tensor& mask, Where where) {
  Tensor wide = mask;
  while (wide.rank() < x.rank()) wide = expand_dims(wide, -1, where);
  return wide;
}

}  // namespace

void keep_running(const char* op, const Tensor& running, std::span<Tensor* const> after,
                  std::span<Tensor* const> before, Where where) {
  if (after.size() != before.size())
    base::fail<ShapeError>(where, op, ": the state has ", before.size(), " tensors before a step and ", after.size(),
                           " after it; where rows end before others it must keep them.");
  for (std::size_t i = 0; i < after.size(); ++i) {
    Tensor& now = *after[i];
    const Tensor& then = *before[i];
    if (!then.defined() || then.rank() == 0 || now.is_same(then)) continue;
    if (!now.defined() || now.shape() != then.shape())
      base::fail<ShapeError>(where, op, ": a tensor of the state is ", then.shape(), " before a step and ",
                             now.defined() ? to_string(now.shape()) : "undefined",
                             " after it; where rows end before others it must keep its shape.");
    now = capstan::where(mask_for(now, running, where), now, then, where);
  }
}

Decoding::Decoding(const char* op, std::span<const NamedTensor> state, const DecodeOptions& options,
                   const SampleOptions* sampling, Where where)
    : op_(op), options_(options) {
  decoding::check_limits(op, options.max_steps, options.end, where);
  if (sampling != nullptr) {
    check_sampling(op, *sampling, where);
    sampling_ = *sampling;
  }
  decoding::Batch batch = decoding::batch_of(op, state, where);
  starts_ = decoding::first_inputs(op, options.start, options.start_tokens, batch, where);
  device_ = batch.device;
  inputs_ = decoding::tokens_on(device_, starts_, where);
  running_ = batch.rows;
  lengths_.assign(starts_.size(), 0);
  scores_.assign(starts_.size(), 0.0);
  on_.assign(starts_.size(), 1);
}

Tensor Decoding::running(Where where) const {
  if (running_ == static_cast<std::int64_t>(on_.size())) return {};
  return from_vector(on_, Shape({static_cast<std::int64_t>(on_.size())}, where), where)
      .to(DType::bool8, where)
      .to(device_, where);
}

struct Decoding::Choice {
  std::vector<std::int64_t> tokens;    // [batch]
  std::vector<double> logits, totals;  // [batch]: of those tokens, and the logarithm of the sum over all
};

Decoding::Choice Decoding::choose(const Tensor& logits, Rng& rng, Where where) const {
  const std::int64_t vocabulary = decoding::check_logits(op_, logits, static_cast<std::int64_t>(on_.size()), where);
  decoding::check_tokens(op_, starts_, options_.start_tokens.defined(), options_.end, vocabulary, where);
  if (sampling_) check_top_k(op_, *sampling_, vocabulary, where);

  Tensor x = decoding::widened(logits, where);
  TopkResult best;  // [batch, 1]
  if (!sampling_) best = topk(x, 1, -1, {}, where);
  else {
    if (running_ < static_cast<std::int64_t>(on_.size())) x = running_or_zero(running(where), x, where);
    best.values = largest_of(x, where);
  }
  Choice choice;
  choice.logits = decoding::doubles(best.values, where);
  for (std::size_t row = 0; row < on_.size(); ++row)
    if (on_[row] != 0 && !std::isfinite(choice.logits[row]))
      base::fail<NumericError>(where, op_, ": the largest logit of row ", row, " at step ", steps_, " is ",
                               decoding::text_of(choice.logits[row]), "; it must be finite.");
  choice.totals = decoding::doubles(logsumexp(x, -1, {}, where), where);
  if (sampling_) {
    const Tensor drawn = draw(x, best.values, *sampling_, rng, where);
    choice.logits = decoding::doubles(pick(x, drawn, where), where);
    choice.tokens = decoding::integers(drawn, where);
  } else {
    choice.tokens = decoding::integers(best.indices, where);
  }
  return choice;
}

void Decoding::take(const Tensor& logits, Rng& rng, Where where) { say(choose(logits, rng, where), where); }

void Decoding::say(const Choice& choice, Where where) {
  std::vector<std::int64_t> next = starts_;  // for rows that have ended any token will do that `embed` knows
  const std::int64_t pad = options_.pad ? *options_.pad : options_.end.value_or(0);
  for (std::size_t row = 0; row < on_.size(); ++row) {
    tokens_.push_back(on_[row] != 0 ? choice.tokens[row] : pad);
    if (on_[row] == 0) continue;
    scores_[row] += decoding::log_probability(choice.logits[row], choice.totals[row]);
    ++lengths_[row];
    if (options_.end != choice.tokens[row]) {
      next[row] = choice.tokens[row];
      continue;
    }
    on_[row] = 0;
    --running_;
  }
  ++steps_;
  inputs_ = decoding::tokens_on(device_, next, where);
}

Tensor Decoding::tokens(Where where) const {
  const auto batch = static_cast<std::int64_t>(on_.size());
  return transpose(from_vector(tokens_, Shape({steps_, batch}, where), where), 0, 1, where)
      .contiguous(where)
      .to(device_, where);
}
Tensor Decoding::lengths(Where where) const { return decoding::tokens_on(device_, lengths_, where); }
Tensor Decoding::scores(Where where) const {
  return from_vector(scores_, Shape({static_cast<std::int64_t>(scores_.size())}, where), where).to(device_, where);
}

// --- scheduled sampling ----------------------------------------------------------------------------------------

TokenSchedule::TokenSchedule(std::span<const NamedTensor> state, const Tensor& inputs,
                             const ScheduledSamplingOptions& options, Where where)
    : options_(options), plan_(check_unroll("scheduled_sampling", inputs, options.lengths, false, where)) {
  if (inputs.rank() != 2)
    base::fail<ShapeError>(where, plan_.op, ": the inputs are ", inputs.shape(), "; they must be [batch, time].");
  if (!is_integer(inputs.dtype()))
    base::fail<DTypeError>(where, plan_.op, ": the inputs are ", inputs.dtype(), "; they must be integers.");
  if (!(options.probability >= 0 && options.probability <= 1))
    base::fail<Error>(where, plan_.op, ": the probability is ", options.probability, "; it must be in [0, 1].");
  const decoding::Batch batch = decoding::batch_of(plan_.op, state, where);
  if (batch.rows >= 0 && batch.rows != plan_.batch)
    base::fail<ShapeError>(where, plan_.op, ": the inputs are ", inputs.shape(), " and the initial state has ",
                           batch.rows, " rows; both must have one batch.");
  if (options_.lengths.defined()) options_.lengths = options_.lengths.to(inputs.device(), where);
  Tensor tokens = inputs.to(DType::int64, where);
  if (plan_.full < plan_.time) {  // what stands past the end of a row may be no token
    const Tensor valid = sequence_mask(options_.lengths, plan_.time, DType::bool8, where);
    tokens = capstan::where(valid, tokens, 0, where);
  }
  given_ = unstack(tokens, 1, where);
  fed_.push_back(given_.front());
}

Tensor TokenSchedule::running(Where where) const {
  return step_ < plan_.full ? Tensor() : greater(options_.lengths, step_, where);
}

Tensor TokenSchedule::own_tokens(const Tensor& logits, Rng& rng, Where where) const {
  const NoGrad off;
  if (options_.argmax) return argmax(logits, -1, {}, where);
  return sampled(plan_.op, logits, {}, rng, where);
}

Tensor TokenSchedule::next_tokens(const Tensor& logits, Rng& rng, Where where) const {
  const Tensor& given = given_[static_cast<std::size_t>(step_ + 1)];
  if (options_.probability == 0) return given;
  Tensor own = own_tokens(logits, rng, where);
  if (options_.probability < 1) {
    const Shape batch({plan_.batch}, where);
    const Tensor chosen = bernoulli(batch, options_.probability, rng, {DType::bool8, logits.device()}, where);
    own = capstan::where(chosen, own, given, where);
  }
  if (step_ + 1 < plan_.full) return own;
  return capstan::where(greater(options_.lengths, step_ + 1, where), own, 0, where);
}

void TokenSchedule::take(Tensor logits, Rng& rng, Where where) {
  decoding::check_logits(plan_.op, logits, plan_.batch, where);
  if (step_ >= plan_.full) logits = running_or_zero(running(where), logits, where);
  if (step_ + 1 < plan_.steps) fed_.push_back(next_tokens(logits, rng, where));
  logits_.push_back(std::move(logits));
  ++step_;
}

Tensor TokenSchedule::logits(Where where) const {
  std::vector<Tensor> all = logits_;
  while (static_cast<std::int64_t>(all.size()) < plan_.time) all.push_back(zeros_like(all.front(), where));
  return stack(all, 1, where);
}

Tensor TokenSchedule::inputs(Where where) const {
  std::vector<Tensor> all = fed_;
  while (static_cast<std::int64_t>(all.size()) < plan_.time) all.push_back(zeros_like(all.front(), where));
  return stack(all, 1, where);
}

}  // namespace detail

}  // namespace capstan::nn
