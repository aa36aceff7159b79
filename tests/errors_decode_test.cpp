// Bad input to decoding and beam search: the right exception, word for word, and everything as it was.
#include "tests/decoders.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_decode_test.cpp";
const std::string greedy = "greedy_decode: ", drawn = "sample_decode: ", scheduled = "scheduled_sampling: ", search = "beam_search: ";

/// A decoder of 5 tokens over 2 rows, and calls of it. Embeddings of tokens that are none are zeros.
struct Operands {
  RandomDecoder decoder{5, 3, 4, 1};
  RandomDecoder::State start = decoder.random_state(2, 1);
  Tensor before = start.h.copy();
  mutable Rng rng{7};
  Tensor tokens = {{1, 2, 3}, {1, 0, 4}};

  auto embed() const {
    return [this](const Tensor& t) { return matmul(one_hot(t, 5, 1, 0, DType::float64), decoder.table); };
  }
  /// Logits that are the same in every step.
  static auto always(const Tensor& logits) {
    return [logits](const Tensor&) { return logits; };
  }
  ~Operands() {  // nothing may have changed them
    CHECK(same(start.h, before));
    CHECK(start.h.version() == 0);
    CHECK(rng.state() == Rng(7).state());
  }
};

nn::DecodeOptions with(std::int64_t start, std::optional<std::int64_t> end, std::int64_t max_steps = 4) {
  return {.start = start, .end = end, .max_steps = max_steps};
}
nn::DecodeOptions with(const Tensor& start_tokens) { return {.start_tokens = start_tokens, .max_steps = 4}; }

}  // namespace

TEST_CASE("choosing tokens refuses options and logits that make no sense", "[errors][decode]") {
  const Operands o;
  const Tensor x = {{1.0f, 2.0f, 3.0f}, {3.0f, 2.0f, 1.0f}}, none;
  const Tensor with_nan = {{1.0, 2.0}, {kNaN, 0.0}}, infinite = {{1.0, kInfinity}}, nothing = {{-kInfinity, -kInfinity}};
  const std::string finite = "; it must be a finite number above 0.", largest = "; it must be finite.";
  check_errors({
      {__LINE__, message_of<Error>, [&] { nn::sample_tokens(x, {.temperature = 0}, o.rng); }, "sample_tokens: the temperature is 0" + finite},
      {__LINE__, message_of<Error>, [&] { nn::sample_tokens(x, {.temperature = -1}, o.rng); }, "sample_tokens: the temperature is -1" + finite},
      {__LINE__, message_of<Error>, [&] { nn::filter_logits(x, {.temperature = kInfinity}); }, "filter_logits: the temperature is inf" + finite},
      {__LINE__, message_of<Error>, [&] { nn::filter_logits(x, {.temperature = kNaN}); }, "filter_logits: the temperature is nan" + finite},
      {__LINE__, message_of<Error>, [&] { nn::sample_tokens(x, {.top_p = 0}, o.rng); }, "sample_tokens: top_p is 0; it must be in (0, 1]."},
      {__LINE__, message_of<Error>, [&] { nn::filter_logits(x, {.top_p = 1.5}); }, "filter_logits: top_p is 1.5; it must be in (0, 1]."},
      {__LINE__, message_of<Error>, [&] { nn::filter_logits(x, {.top_p = kNaN}); }, "filter_logits: top_p is nan; it must be in (0, 1]."},
      {__LINE__, message_of<ShapeError>, [&] { nn::sample_tokens(x, {.top_k = -1}, o.rng); }, "sample_tokens: top_k is -1; it must be >= 0, and 0 means all."},
      {__LINE__, message_of<ShapeError>, [&] { nn::filter_logits(x, {.top_k = 4}); }, "filter_logits: top_k is 4 and the vocabulary has 3 tokens; it must be in [0, 3]."},
      {__LINE__, message_of<Error>, [&] { nn::sample_tokens(none, {}, o.rng); }, "sample_tokens: the logits are undefined; give them a value first."},
      {__LINE__, message_of<Error>, [&] { nn::filter_logits(none, {}); }, "filter_logits: the logits are undefined; give them a value first."},
      {__LINE__, message_of<ShapeError>, [&] { nn::sample_tokens(x[0], {}, o.rng); }, "sample_tokens: the logits are [3]; they must be [rows, vocabulary] with one token or more."},
      {__LINE__, message_of<ShapeError>, [&] { nn::sample_tokens(zeros({2, 0}), {}, o.rng); }, "sample_tokens: the logits are [2, 0]; they must be [rows, vocabulary] with one token or more."},
      {__LINE__, message_of<ShapeError>, [&] { nn::filter_logits(zeros({2, 0}), {}); }, "filter_logits: the logits are [2, 0]; they must be [..., vocabulary] with one token or more."},
      {__LINE__, message_of<DTypeError>, [&] { nn::sample_tokens(o.tokens, {}, o.rng); }, "sample_tokens: the logits are int32; they must be of a floating type."},
      {__LINE__, message_of<DTypeError>, [&] { nn::filter_logits(o.tokens, {}); }, "filter_logits: the logits are int32; they must be of a floating type."},
      {__LINE__, message_of<NumericError>, [&] { nn::sample_tokens(with_nan, {}, o.rng); }, "sample_tokens: the largest logit of row 1 is nan" + largest},
      {__LINE__, message_of<NumericError>, [&] { nn::sample_tokens(infinite, {}, o.rng); }, "sample_tokens: the largest logit of row 0 is inf" + largest},
      {__LINE__, message_of<NumericError>, [&] { nn::sample_tokens(nothing, {}, o.rng); }, "sample_tokens: the largest logit of row 0 is -inf" + largest},
  }, file);
}

TEST_CASE("decoding refuses tokens outside the vocabulary and limits that make no sense", "[errors][decode]") {
  const Operands o;
  const auto embed = o.embed();
  const auto project = o.decoder.project();
  const auto& cell = o.decoder;
  check_errors({
      {__LINE__, message_of<IndexError>, [&] { nn::greedy_decode(cell, embed, project, o.start, with(1, 5)); }, greedy + "the end token is 5; it must be below 5, the size of the vocabulary."},
      {__LINE__, message_of<IndexError>, [&] { nn::sample_decode(cell, embed, project, o.start, with(1, 5), {}, o.rng); }, drawn + "the end token is 5; it must be below 5, the size of the vocabulary."},
      {__LINE__, message_of<IndexError>, [&] { nn::greedy_decode(cell, embed, project, o.start, with(1, -1)); }, greedy + "the end token is -1; it must be >= 0."},
      {__LINE__, message_of<IndexError>, [&] { nn::greedy_decode(cell, embed, project, o.start, with(7, 2)); }, greedy + "the start token is 7; it must be below 5, the size of the vocabulary."},
      {__LINE__, message_of<IndexError>, [&] { nn::greedy_decode(cell, embed, project, o.start, {.end = 2}); }, greedy + "the start token is -1; it must be >= 0, or start_tokens must be given."},
      {__LINE__, message_of<IndexError>, [&] { nn::greedy_decode(cell, embed, project, o.start, with(Tensor{1, 6})); }, greedy + "the start token of row 1 is 6; it must be below 5, the size of the vocabulary."},
      {__LINE__, message_of<IndexError>, [&] { nn::greedy_decode(cell, embed, project, o.start, with(Tensor{-2, 1})); }, greedy + "the start token of row 0 is -2; it must be >= 0."},
      {__LINE__, message_of<ShapeError>, [&] { nn::greedy_decode(cell, embed, project, o.start, with(Tensor{1, 2, 3})); }, greedy + "the start tokens are [3]; for a batch of 2 they must be [2]."},
      {__LINE__, message_of<ShapeError>, [&] { nn::greedy_decode(cell, embed, project, o.start, with(o.tokens)); }, greedy + "the start tokens are [2, 3]; they must be [batch]."},
      {__LINE__, message_of<DTypeError>, [&] { nn::greedy_decode(cell, embed, project, o.start, with(Tensor{1.0f, 2.0f})); }, greedy + "the start tokens are float32; they must be int32 or int64."},
      {__LINE__, message_of<Error>, [&] { nn::greedy_decode(cell, embed, project, o.start, with(1, 2, 0)); }, greedy + "max_steps is 0; it must be >= 1."},
      {__LINE__, message_of<Error>, [&] { nn::sample_decode(cell, embed, project, o.start, with(1, 2), {.temperature = 0}, o.rng); }, drawn + "the temperature is 0; it must be a finite number above 0."},
      {__LINE__, message_of<ShapeError>, [&] { nn::sample_decode(cell, embed, project, o.start, with(1, 2), {.top_k = 6}, o.rng); }, drawn + "top_k is 6 and the vocabulary has 5 tokens; it must be in [0, 5]."},
  }, file);
}

TEST_CASE("decoding refuses states and logits that do not fit", "[errors][decode]") {
  const Operands o;
  const auto embed = o.embed();
  const auto project = o.decoder.project();
  const auto& cell = o.decoder;
  const RandomDecoder::State mixed{o.start.h, zeros({3, 4}, {.dtype = DType::float64})};
  const auto whole = Operands::always(zeros({2, 1, 5})), three = Operands::always(zeros({3, 5})), numbers = Operands::always(o.tokens), none = Operands::always(Tensor());
  const auto nan = Operands::always({{0.0, 1.0, 2.0}, {0.0, 1.0, kNaN}});
  const std::string undefined = "the initial state is undefined; give it values first, such as the cell's zero_state.";
  const std::string batches = "in the initial state h is [2, 3] and alignments is [3, 4]; all must be [batch, ...] with one batch.";
  check_errors({
      {__LINE__, message_of<Error>, [&] { nn::greedy_decode(cell, embed, project, {}, with(1, 2)); }, greedy + undefined},
      {__LINE__, message_of<Error>, [&] { nn::sample_decode(cell, embed, project, {}, with(1, 2), {}, o.rng); }, drawn + undefined},
      {__LINE__, message_of<Error>, [&] { nn::beam_search(cell, embed, project, {}, {.start = 1}); }, search + undefined},
      {__LINE__, message_of<Error>, [&] { nn::scheduled_sampling(cell, embed, project, o.tokens, {}, {}, o.rng); }, scheduled + undefined},
      {__LINE__, message_of<ShapeError>, [&] { nn::greedy_decode(cell, embed, project, mixed, with(1, 2)); }, greedy + batches},
      {__LINE__, message_of<ShapeError>, [&] { nn::beam_search(cell, embed, project, mixed, {.start = 1}); }, search + batches},
      {__LINE__, message_of<ShapeError>, [&] { nn::greedy_decode(cell, embed, whole, o.start, with(1, 2)); }, greedy + "the logits are [2, 1, 5]; they must be [rows, vocabulary] with one token or more."},
      {__LINE__, message_of<ShapeError>, [&] { nn::greedy_decode(cell, embed, three, o.start, with(1, 2)); }, greedy + "the logits are [3, 5] for 2 rows; they must be [2, vocabulary]."},
      {__LINE__, message_of<ShapeError>, [&] { nn::beam_search(cell, embed, three, o.start, {.beams = 4, .start = 1}); }, search + "the logits are [3, 5] for 8 rows; they must be [8, vocabulary]."},
      {__LINE__, message_of<ShapeError>, [&] { nn::scheduled_sampling(cell, embed, three, o.tokens, o.start, {}, o.rng); }, scheduled + "the logits are [3, 5] for 2 rows; they must be [2, vocabulary]."},
      {__LINE__, message_of<DTypeError>, [&] { nn::greedy_decode(cell, embed, numbers, o.start, with(1, 2)); }, greedy + "the logits are int32; they must be of a floating type."},
      {__LINE__, message_of<Error>, [&] { nn::greedy_decode(cell, embed, none, o.start, with(1, 2)); }, greedy + "the logits are undefined; give them a value first."},
      {__LINE__, message_of<NumericError>, [&] { nn::greedy_decode(cell, embed, nan, o.start, with(1, {})); }, greedy + "the largest logit of row 1 at step 0 is nan; it must be finite."},
      {__LINE__, message_of<NumericError>, [&] { nn::sample_decode(cell, embed, nan, o.start, with(1, {}), {}, o.rng); }, drawn + "the largest logit of row 1 at step 0 is nan; it must be finite."},
      {__LINE__, message_of<NumericError>, [&] { nn::beam_search(cell, embed, nan, o.start, {.beams = 1, .start = 1}); }, search + "the largest logit of row 1, beam 0, at step 0 is nan; it must be finite."},
      {__LINE__, message_of<NumericError>, [&] { nn::scheduled_sampling(cell, embed, nan, o.tokens, o.start, {.probability = 0.5}, o.rng); }, scheduled + "the largest logit of row 1 is nan; it must be finite."},
  }, file);
}

namespace {

/// A cell without a memory, whose state has no tensor with rows.
struct Stateless {
  struct State {
    Tensor steps;  // []
  };
  std::pair<Tensor, State> operator()(const Tensor& x, const State& s) const { return {x, s}; }
  State zero_state(std::int64_t) const { return {Tensor(0.0f)}; }
};
/// A cell whose state grows.
struct Growing {
  struct State {
    Tensor h;
  };
  std::pair<Tensor, State> operator()(const Tensor& x, const State& s) const { return {x, State{concat({s.h, s.h}, 1)}}; }
  State zero_state(std::int64_t batch) const { return {ones({batch, 1})}; }
};

}  // namespace

TEST_CASE("states must tell the batch, and keep their shapes where rows end before others", "[errors][decode]") {
  const Stateless plain;
  const Growing growing;
  const nn::Identity same_logits{};
  const auto words = [](const Tensor& t) { return one_hot(t, 4); };
  CHECK(nn::greedy_decode(plain, words, same_logits, plain.zero_state(2), with(Tensor{3, 1})).tokens.shape() == Shape({2, 4}));
  check_errors({
      {__LINE__, message_of<Error>, [&] { nn::greedy_decode(plain, words, same_logits, plain.zero_state(2), with(1, 2)); },
       greedy + "the initial state has no tensor [batch, ...]; give start_tokens, which tell the batch."},
      {__LINE__, message_of<ShapeError>, [&] { nn::greedy_decode(growing, words, same_logits, growing.zero_state(2), {.start_tokens = {1, 2}, .end = 2}); },
       greedy + "a tensor of the state is [2, 2] before a step and [2, 4] after it; where rows end before others it must keep its shape."},
  }, file);
}

TEST_CASE("scheduled sampling refuses inputs, lengths and probabilities that make no sense", "[errors][decode]") {
  const Operands o;
  const auto embed = o.embed();
  const auto project = o.decoder.project();
  const auto& cell = o.decoder;
  const RandomDecoder::State four = o.decoder.zero_state(4);
  const auto run = [&](const Tensor& inputs, const nn::ScheduledSamplingOptions& options, Where where) {
    nn::scheduled_sampling(cell, embed, project, inputs, o.start, options, o.rng, where);
  };
  const auto here = [](Where where = Where::current()) { return where; };
  check_errors({
      {__LINE__, message_of<Error>, [&] { run(o.tokens, {.probability = -0.1}, here()); }, scheduled + "the probability is -0.1; it must be in [0, 1]."},
      {__LINE__, message_of<Error>, [&] { run(o.tokens, {.probability = kNaN}, here()); }, scheduled + "the probability is nan; it must be in [0, 1]."},
      {__LINE__, message_of<Error>, [&] { run(Tensor(), {}, here()); }, scheduled + "the tensor is undefined; give it a value first."},
      {__LINE__, message_of<ShapeError>, [&] { run(o.tokens[0], {}, here()); }, scheduled + "the input is [3]; it must be [batch, time, ...] with one step or more."},
      {__LINE__, message_of<ShapeError>, [&] { run(zeros({2, 3, 1}), {}, here()); }, scheduled + "the inputs are [2, 3, 1]; they must be [batch, time]."},
      {__LINE__, message_of<DTypeError>, [&] { run(zeros({2, 3}), {}, here()); }, scheduled + "the inputs are float32; they must be integers."},
      {__LINE__, message_of<IndexError>, [&] { run(o.tokens, {.lengths = {3, 4}}, here()); }, scheduled + "the length of row 1 is 4; with an input of [2, 3] it must be in 0..3."},
      {__LINE__, message_of<IndexError>, [&] { run(o.tokens, {.lengths = {-1, 2}}, here()); }, scheduled + "the length of row 0 is -1; with an input of [2, 3] it must be in 0..3."},
      {__LINE__, message_of<ShapeError>, [&] { run(o.tokens, {.lengths = {3, 2, 1}}, here()); }, scheduled + "the lengths are [3]; with an input of [2, 3] they must be [2]."},
      {__LINE__, message_of<ShapeError>, [&] { nn::scheduled_sampling(cell, embed, project, o.tokens, four, {}, o.rng); }, scheduled + "the inputs are [2, 3] and the initial state has 4 rows; both must have one batch."},
  }, file);
}

TEST_CASE("beam search refuses empty beams, penalties and alignments that make no sense", "[errors][decode]") {
  const Operands o;
  const auto embed = o.embed();
  const auto project = o.decoder.project();
  const auto& cell = o.decoder;
  const nn::RnnCell plain(3, 3, {.dtype = DType::float64});
  const nn::RnnCell::State h{o.start.h};
  const auto run = [&](const nn::BeamOptions& options, Where where) { nn::beam_search(cell, embed, project, o.start, options, where); };
  const auto told = [&](const Tensor& alignments, const nn::BeamOptions& options, Where where) {
    nn::beam_search(cell, embed, project, o.start, [&](const RandomDecoder::State&) { return alignments; }, options, where);
  };
  const auto here = [](Where where = Where::current()) { return where; };
  const std::string penalty = "; it must be a finite number >= 0.";
  check_errors({
      {__LINE__, message_of<Error>, [&] { run({.beams = 0, .start = 1}, here()); }, search + "0 beams were asked for; there must be at least one."},
      {__LINE__, message_of<Error>, [&] { run({.beams = -3, .start = 1}, here()); }, search + "-3 beams were asked for; there must be at least one."},
      {__LINE__, message_of<Error>, [&] { run({.beams = 2, .start = 1, .results = 3}, here()); }, search + "3 results were asked for; with 2 beams they must be in [1, 2]."},
      {__LINE__, message_of<Error>, [&] { run({.beams = 2, .start = 1, .results = 0}, here()); }, search + "0 results were asked for; with 2 beams they must be in [1, 2]."},
      {__LINE__, message_of<IndexError>, [&] { run({.start = 1, .end = 5}, here()); }, search + "the end token is 5; it must be below 5, the size of the vocabulary."},
      {__LINE__, message_of<IndexError>, [&] { run({.start = 1, .end = -1}, here()); }, search + "the end token is -1; it must be >= 0."},
      {__LINE__, message_of<IndexError>, [&] { run({.start = 8, .end = 2}, here()); }, search + "the start token is 8; it must be below 5, the size of the vocabulary."},
      {__LINE__, message_of<IndexError>, [&] { run({.end = 2}, here()); }, search + "the start token is -1; it must be >= 0, or start_tokens must be given."},
      {__LINE__, message_of<IndexError>, [&] { run({.start_tokens = {0, 5}, .end = 2}, here()); }, search + "the start token of row 1 is 5; it must be below 5, the size of the vocabulary."},
      {__LINE__, message_of<Error>, [&] { run({.start = 1, .max_steps = 0}, here()); }, search + "max_steps is 0; it must be >= 1."},
      {__LINE__, message_of<Error>, [&] { run({.start = 1, .length_penalty = -0.5}, here()); }, search + "the length penalty is -0.5" + penalty},
      {__LINE__, message_of<Error>, [&] { run({.start = 1, .length_penalty = kInfinity}, here()); }, search + "the length penalty is inf" + penalty},
      {__LINE__, message_of<Error>, [&] { run({.start = 1, .coverage_penalty = kNaN}, here()); }, search + "the coverage penalty is nan" + penalty},
      {__LINE__, message_of<Error>, [&] { nn::beam_search(plain, embed, project, h, {.start = 1, .coverage_penalty = 0.2}); },
       search + "the coverage penalty is 0.2, but there are no alignments; the state must have a tensor of that name, or a function must say them."},
      {__LINE__, message_of<ShapeError>, [&] { told(zeros({2, 4}), {.start = 1, .coverage_penalty = 1}, here()); }, search + "the alignments are [2, 4] for 8 rows; they must be [8, memory]."},
      {__LINE__, message_of<DTypeError>, [&] { told(o.tokens, {.start = 1, .coverage_penalty = 1}, here()); }, search + "the alignments are int32; they must be of a floating type."},
      {__LINE__, message_of<NumericError>, [&] { told(full({8, 4}, kNaN), {.start = 1, .coverage_penalty = 1}, here()); }, search + "the alignment of row 0, beam 0, at step 0 to place 0 is nan; it must be finite."},
      {__LINE__, message_of<IndexError>, [&] { run({.start = 1, .coverage_penalty = 1, .memory_lengths = {4, 5}}, here()); }, search + "the memory length of row 1 is 5; with alignments of [8, 4] it must be in [0, 4]."},
      {__LINE__, message_of<ShapeError>, [&] { run({.start = 1, .memory_lengths = {4, 4, 4}}, here()); }, search + "the memory lengths are [3]; for a batch of 2 they must be [2]."},
      {__LINE__, message_of<DTypeError>, [&] { run({.start = 1, .memory_lengths = {4.0f, 4.0f}}, here()); }, search + "the memory lengths are float32; they must be int32 or int64."},
      {__LINE__, message_of<ShapeError>, [&] { nn::BeamSearch(-1, {.start = 1}); }, search + "the batch is -1; it must be >= 0."},
      {__LINE__, message_of<OutOfMemoryError>, [&] { nn::BeamSearch(1, {.beams = INT64_MAX, .start = 1}); }, "allocate: [9223372036854775807] of int64 would take more than 2^63 bytes."},
      {__LINE__, message_of<OutOfMemoryError>, [&] { nn::BeamSearch(INT64_MAX, {.beams = 1, .start = 1}); }, "allocate: [9223372036854775807] of int64 would take more than 2^63 bytes."},
      {__LINE__, message_of<ShapeError>, [&] { nn::BeamSearch(2, {.start_tokens = {1, 2, 3}}); }, search + "the start tokens are [3]; for a batch of 2 they must be [2]."},
  }, file);
}

TEST_CASE("a search that is done takes no more logits, and a memory keeps its size", "[errors][decode]") {
  nn::BeamSearch one(1, {.beams = 1, .start = 0, .max_steps = 1}), covered(1, {.beams = 1, .start = 0, .max_steps = 3, .coverage_penalty = 1});
  one.advance(zeros({1, 2}));
  covered.advance(zeros({1, 2}), ones({1, 4}));
  check_errors({
      {__LINE__, message_of<Error>, [&] { one.advance(zeros({1, 2})); }, search + "the search is done; `result` has what it has found."},
      {__LINE__, message_of<ShapeError>, [&] { covered.advance(zeros({1, 2}), ones({1, 5})); }, search + "the alignments are [1, 5] after others with 4 places; a memory must keep its size."},
  }, file);
  CHECK_FALSE(covered.done());
}
