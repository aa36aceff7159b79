// Beam search against every sequence there is, against a plain search, and against what is known beforehand.
#include "tests/decoders.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

using namespace capstan;
using namespace tests;

namespace {

using Tokens = std::vector<std::int64_t>;
using Penalties = std::vector<std::pair<double, double>>;  // alpha and beta

/// What a plain search is told, as BeamOptions tell it.
struct Rules {
  std::int64_t end = 0, max_steps = 1;
  double alpha = 0, beta = 0;
  std::size_t places = 0;  // of the memory, to be covered
};

struct Sequence {
  Tokens tokens;
  double log_probability = 0, score = 0;
};

/// A sequence that goes on.
struct Open {
  Tokens tokens;
  std::vector<double> h, coverage;
  double log_probability = 0;
};

double score_of(const Open& said, const Rules& rules) {
  double covered = 0;
  for (std::size_t i = 0; i < rules.places; ++i) covered += std::log(std::min(said.coverage[i], 1.0));
  const double length = static_cast<double>(said.tokens.size());
  return said.log_probability / std::pow((5 + length) / 6, rules.alpha) + rules.beta * covered;
}

/// A sequence extended by each token.
std::vector<Open> extensions_of(const PlainDecoder& decoder, const Open& open, std::int64_t start) {
  const PlainDecoder::Step step = decoder(open.h, open.tokens.empty() ? start : open.tokens.back());
  std::vector<Open> all;
  for (std::size_t token = 0; token < step.log_probabilities.size(); ++token) {
    Open next{open.tokens, step.h, step.alignments, open.log_probability + step.log_probabilities[token]};
    for (std::size_t i = 0; i < open.coverage.size(); ++i) next.coverage[i] += open.coverage[i];
    next.tokens.push_back(static_cast<std::int64_t>(token));
    all.push_back(std::move(next));
  }
  return all;
}

bool is_complete(const Open& said, const Rules& rules) {
  return said.tokens.back() == rules.end || static_cast<std::int64_t>(said.tokens.size()) == rules.max_steps;
}

void sort_by_score(std::vector<Sequence>& list) {
  std::stable_sort(list.begin(), list.end(), [](const Sequence& a, const Sequence& b) { return a.score > b.score; });
}

/// Everything that can be said, the best first.
void enumerate(const PlainDecoder& decoder, const Open& open, std::int64_t start, const Rules& rules,
               std::vector<Sequence>& found) {
  for (const Open& next : extensions_of(decoder, open, start)) {
    if (is_complete(next, rules)) found.push_back({next.tokens, next.log_probability, score_of(next, rules)});
    else enumerate(decoder, next, start, rules, found);
  }
}
std::vector<Sequence> all_sequences(const PlainDecoder& decoder, const std::vector<double>& h, std::int64_t start,
                                    const Rules& rules) {
  std::vector<Sequence> found;
  enumerate(decoder, Open{{}, h, {}, 0}, start, rules, found);
  sort_by_score(found);
  return found;
}

/// Beam search by its definition, which never stops early.
std::vector<Sequence> plain_search(const PlainDecoder& decoder, const std::vector<double>& h, std::int64_t start,
                                   const Rules& rules, std::size_t beams) {
  std::vector<Sequence> found;
  std::vector<Open> live{Open{{}, h, {}, 0}};
  while (!live.empty()) {
    std::vector<Open> all;
    for (const Open& open : live)
      for (Open& next : extensions_of(decoder, open, start)) all.push_back(std::move(next));
    std::stable_sort(all.begin(), all.end(),
                     [](const Open& a, const Open& b) { return a.log_probability > b.log_probability; });
    live.clear();
    std::size_t kept = 0;
    for (std::size_t i = 0; i < all.size() && kept < beams; ++i) {
      const bool ends = all[i].tokens.back() == rules.end;
      if (ends && i >= beams) continue;
      if (!ends) ++kept;
      if (is_complete(all[i], rules)) found.push_back({all[i].tokens, all[i].log_probability, score_of(all[i], rules)});
      else live.push_back(all[i]);
    }
  }
  sort_by_score(found);
  return found;
}

/// Whether a row of a result is these sequences, in their order.
void check_row(const nn::BeamResult& result, std::int64_t row, const std::vector<Sequence>& expected) {
  const std::int64_t results = result.tokens.size(1);
  for (std::int64_t i = 0; i < results; ++i) {
    INFO("row " << row << ", result " << i);
    const std::int64_t length = result.lengths.at<std::int64_t>(row, i);
    if (i >= static_cast<std::int64_t>(expected.size())) {
      CHECK(length == 0);
      CHECK(result.scores.at<double>(row, i) == -kInfinity);
      CHECK(result.log_probabilities.at<double>(row, i) == -kInfinity);
      continue;
    }
    const Sequence& here = expected[static_cast<std::size_t>(i)];
    CHECK(first_tokens(result.tokens[row][i], length) == here.tokens);
    CHECK(result.scores.at<double>(row, i) == Approx(here.score).epsilon(1e-11));
    CHECK(result.log_probabilities.at<double>(row, i) == Approx(here.log_probability).epsilon(1e-11));
  }
}

/// Logarithms of probabilities [rows, vocabulary], as logits.
Tensor logits_of(const std::vector<std::vector<double>>& probabilities) {
  std::vector<double> all;
  for (const std::vector<double>& row : probabilities)
    for (const double p : row) all.push_back(std::log(p));
  const auto rows = static_cast<std::int64_t>(probabilities.size());
  return from_vector(all, {rows, static_cast<std::int64_t>(all.size()) / rows});
}

Tensor integers(const Tensor& x) { return x.to(DType::int64); }

}  // namespace

// --- against other searches --------------------------------------------------------------------------------------

TEST_CASE("with beams for everything the search finds the best of all sequences", "[nn][beam_search]") {
  struct Size {
    std::int64_t vocabulary, max_steps, beams;  // as many as the last step's (V - 1)^(max_steps - 1) * V extensions
  };
  const std::int64_t batch = 3, places = 4;
  for (const Size& size : {Size{3, 5, 48}, Size{4, 4, 108}, Size{5, 3, 80}, Size{2, 5, 2}, Size{3, 1, 3}}) {
    for (const std::uint64_t seed : {1u, 2u}) {
      RandomDecoder decoder(size.vocabulary, 4, places, 100 * seed);
      const PlainDecoder plain(decoder);
      const RandomDecoder::State state = decoder.random_state(batch, seed);
      for (const auto& [alpha, beta] : Penalties{{0.0, 0.0}, {0.7, 0.0}, {2.5, 0.0}, {0.0, 0.4}, {1.0, 1.5}}) {
        INFO(size.vocabulary << " tokens, " << size.max_steps << " steps, penalties " << alpha << " and " << beta);
        const nn::BeamResult result = nn::beam_search(decoder, decoder.embed(), decoder.project(), state,
                                                      {.beams = size.beams,
                                                       .start = 1,
                                                       .end = 0,
                                                       .max_steps = size.max_steps,
                                                       .length_penalty = alpha,
                                                       .coverage_penalty = beta,
                                                       .results = std::min<std::int64_t>(size.beams, 7)});
        const Rules rules{0, size.max_steps, alpha, beta, static_cast<std::size_t>(places)};
        for (std::int64_t row = 0; row < batch; ++row)
          check_row(result, row, all_sequences(plain, plain.row_of(state.h, row), 1, rules));
      }
    }
  }
}

TEST_CASE("with few beams the search is the plain one that never stops early", "[nn][beam_search]") {
  const std::int64_t batch = 4, vocabulary = 5, places = 3;
  for (const std::uint64_t seed : {3u, 4u, 5u}) {
    RandomDecoder decoder(vocabulary, 4, places, 100 * seed);
    const PlainDecoder plain(decoder);
    const RandomDecoder::State state = decoder.random_state(batch, seed);
    for (const std::int64_t beams : {1, 2, 3, 8})
      for (const std::int64_t results : {1, 2, 8})
        for (const auto& [alpha, beta] : Penalties{{0.0, 0.0}, {1.0, 0.0}, {0.6, 0.3}}) {
          if (results > beams) continue;
          INFO(beams << " beams, " << results << " results, penalties " << alpha << " and " << beta);
          const nn::BeamResult result = nn::beam_search(decoder, decoder.embed(), decoder.project(), state,
                                                        {.beams = beams,
                                                         .start = 1,
                                                         .end = 2,
                                                         .max_steps = 7,
                                                         .length_penalty = alpha,
                                                         .coverage_penalty = beta,
                                                         .results = results});
          const Rules rules{2, 7, alpha, beta, static_cast<std::size_t>(places)};
          for (std::int64_t row = 0; row < batch; ++row)
            check_row(result, row,
                      plain_search(plain, plain.row_of(state.h, row), 1, rules, static_cast<std::size_t>(beams)));
        }
  }
}

TEST_CASE("one beam without penalties finds what greedy decoding finds", "[nn][beam_search]") {
  const std::int64_t batch = 8;
  for (const std::uint64_t seed : {6u, 7u, 8u}) {
    RandomDecoder decoder(6, 5, 2, 100 * seed);
    const RandomDecoder::State state = decoder.random_state(batch, seed);
    const auto greedy = nn::greedy_decode(decoder, decoder.embed(), decoder.project(), state,
                                          {.start = 1, .end = 2, .max_steps = 10, .pad = -1});
    const nn::BeamResult beam = nn::beam_search(decoder, decoder.embed(), decoder.project(), state,
                                                {.beams = 1, .start = 1, .end = 2, .max_steps = 10, .pad = -1});
    CHECK(same(squeeze(beam.tokens, 1), greedy.tokens));
    CHECK(same(squeeze(beam.lengths, 1), greedy.lengths));
    CHECK(same(squeeze(beam.scores, 1), greedy.scores));
    CHECK(same(beam.log_probabilities, beam.scores));
  }
}

TEST_CASE("memory lengths tell which places are to be covered", "[nn][beam_search]") {
  const std::int64_t batch = 3, places = 5;
  RandomDecoder decoder(4, 3, places, 900);
  const PlainDecoder plain(decoder);
  const RandomDecoder::State state = decoder.random_state(batch, 9);
  const std::vector<std::size_t> lengths = {2, 5, 0};
  const nn::BeamResult result = nn::beam_search(decoder, decoder.embed(), decoder.project(), state,
                                                {.beams = 108,
                                                 .start = 1,
                                                 .end = 0,
                                                 .max_steps = 4,
                                                 .coverage_penalty = 0.8,
                                                 .memory_lengths = {2, 5, 0},
                                                 .results = 5});
  for (std::int64_t row = 0; row < batch; ++row) {
    const Rules rules{0, 4, 0, 0.8, lengths[static_cast<std::size_t>(row)]};
    check_row(result, row, all_sequences(plain, plain.row_of(state.h, row), 1, rules));
  }
}

TEST_CASE("alignments may come from a function of the state", "[nn][beam_search]") {
  RandomDecoder decoder(5, 3, 4, 1000);
  const RandomDecoder::State state = decoder.random_state(2, 10);
  const nn::BeamOptions options{.beams = 3, .start = 1, .end = 0, .max_steps = 5, .coverage_penalty = 0.5};
  const nn::BeamResult own = nn::beam_search(decoder, decoder.embed(), decoder.project(), state, options);
  const nn::BeamResult told = nn::beam_search(
      decoder, decoder.embed(), decoder.project(), state, [](const RandomDecoder::State& s) { return s.alignments; },
      options);
  const nn::BeamResult other = nn::beam_search(
      decoder, decoder.embed(), decoder.project(), state,
      [](const RandomDecoder::State& s) { return s.alignments * 0.5; }, options);
  CHECK(same(told.tokens, own.tokens));
  CHECK(same(told.scores, own.scores));
  CHECK_FALSE(array_equal(other.scores, own.scores));
}

// --- step by step ------------------------------------------------------------------------------------------------

TEST_CASE("a complete hypothesis stays in the competition by its penalized score", "[nn][beam_search]") {
  // Token 0 ends. After the start it has probability 0.6, and 1 has 0.4, behind which 0 is certain.
  const double nan = kNaN;
  const auto search_with = [&](double alpha) {
    nn::BeamSearch search(1, {.beams = 2, .start = 1, .end = 0, .max_steps = 3, .length_penalty = alpha});
    CHECK(same(search.tokens(), integers({1, 1})));
    search.advance(logits_of({{0.6, 0.4, 0}, {nan, nan, nan}}));  // the second beam does not live yet
    CHECK_FALSE(search.done());
    CHECK(same(search.tokens(), integers({1, 1})));
    CHECK(same(search.parents(), integers({0, 1})));
    CHECK_FALSE(search.moved());
    search.advance(logits_of({{1, 0, 0}, {nan, nan, nan}}));
    CHECK(search.done());
    return search.result();
  };
  const nn::BeamResult plain = search_with(0);
  CHECK(same(plain.tokens, integers({{{0, 0}, {1, 0}}})));
  CHECK(same(plain.lengths, integers({{1, 2}})));
  CHECK(close(plain.scores, {{std::log(0.6), std::log(0.4)}}, tolerance::roundings64));
  const nn::BeamResult longer = search_with(4);  // log(0.4) / (7/6)^4 = -0.495, above log(0.6) = -0.511
  CHECK(same(longer.tokens, integers({{{1, 0}, {0, 0}}})));
  CHECK(same(longer.lengths, integers({{2, 1}})));
  CHECK(close(longer.scores, {{std::log(0.4) / std::pow(7 / 6.0, 4), std::log(0.6)}}, tolerance::roundings64));
  CHECK(close(longer.log_probabilities, {{std::log(0.4), std::log(0.6)}}, tolerance::roundings64));
}

TEST_CASE("hypotheses change places, and their tokens are traced back", "[nn][beam_search]") {
  nn::BeamSearch search(2, {.beams = 2, .start_tokens = {3, 0}, .max_steps = 2});
  CHECK(same(search.tokens(), integers({3, 3, 0, 0})));
  const std::vector<double> any = {0.25, 0.25, 0.25, 0.25};
  search.advance(logits_of({{0.1, 0.5, 0.4, 0}, any, {0.7, 0.1, 0.1, 0.1}, any}));
  CHECK(same(search.tokens(), integers({1, 2, 0, 1})));  // of equal ones the first
  CHECK(same(search.parents(), integers({0, 0, 2, 2})));
  CHECK(search.moved());
  // Row 0: 0.5 * 0.4 = 0.2 of each of two; 0.4 * 0.9 = 0.36. Row 1: 0.7 * 0.6 and 0.7 * 0.4; 0.1 * 1.
  search.advance(logits_of({{0.4, 0.4, 0.2, 0}, {0, 0, 0.1, 0.9}, {0, 0.6, 0.4, 0}, {0, 0, 0, 1}}));
  CHECK(search.done());
  const nn::BeamResult result = search.result();
  CHECK(same(result.tokens, integers({{{2, 3}, {1, 0}}, {{0, 1}, {0, 2}}})));
  CHECK(close(exp(result.scores), {{0.36, 0.2}, {0.42, 0.28}}, tolerance::roundings64));
}

TEST_CASE("the search ends as soon as nothing can come before what is kept", "[nn][beam_search]") {
  const auto steps_of = [](double alpha, std::int64_t results) {
    const nn::BeamOptions options{
        .beams = 2, .start = 1, .end = 0, .max_steps = 50, .length_penalty = alpha, .results = results};
    nn::BeamSearch search(1, options);
    std::int64_t steps = 0;
    for (; !search.done(); ++steps) search.advance(logits_of({{0.6, 0.4, 0}, {0.6, 0.4, 0}}));
    return steps;
  };
  CHECK(steps_of(0, 1) == 1);  // 0.6 against 0.4 and less
  CHECK(steps_of(0, 2) == 2);  // 0.6 and 0.4 * 0.6 against 0.4 * 0.4
  // Divided by (55/6)^1 even log(0.4^n) may come to more than log(0.6), up to n = 5: 5 * 0.9163 / 9.1667 = 0.4998
  // against 0.5108, and 6 * 0.9163 / 9.1667 = 0.5998.
  CHECK(steps_of(1, 1) == 6);
}

TEST_CASE("what is impossible is never said, and missing results are empty", "[nn][beam_search]") {
  nn::BeamSearch search(1, {.beams = 5, .start = 0, .end = 1, .max_steps = 4, .pad = -9});
  const std::vector<double> none = {1, 0};
  search.advance(logits_of({{0.3, 0.7}, none, none, none, none}));
  search.advance(logits_of({{0, 1}, none, none, none, none}));
  CHECK(search.done());
  const nn::BeamResult result = search.result();
  CHECK(same(result.tokens, integers({{{1, -9}, {0, 1}, {-9, -9}, {-9, -9}, {-9, -9}}})));
  CHECK(same(result.lengths, integers({{1, 2, 0, 0, 0}})));
  CHECK(same(result.scores.index({0, from(2)}), {-kInfinity, -kInfinity, -kInfinity}));
}

TEST_CASE("ties go to the smaller beam and the smaller token", "[nn][beam_search]") {
  nn::BeamSearch search(1, {.beams = 2, .start = 0, .end = 2, .max_steps = 2});
  for (int step = 0; step < 2; ++step) search.advance(zeros({2, 3}));
  CHECK(same(search.result().tokens, integers({{{0, 0}, {0, 1}}})));
  nn::BeamSearch ends_first(1, {.beams = 2, .start = 1, .end = 0, .max_steps = 2});
  for (int step = 0; step < 2; ++step) ends_first.advance(zeros({2, 3}));
  CHECK(same(ends_first.result().tokens, integers({{{0, 0}, {1, 0}}})));  // pads with 0, too
  CHECK(same(ends_first.result().lengths, integers({{1, 2}})));
}

TEST_CASE("a search of no rows is done", "[nn][beam_search]") {
  const nn::BeamSearch search(0, {.beams = 2, .start = 0});
  CHECK(search.done());
  CHECK(search.result().tokens.shape() == Shape({0, 2, 0}));
  RandomDecoder decoder(3, 2, 2, 1);
  CHECK(nn::beam_search(decoder, decoder.embed(), decoder.project(), decoder.zero_state(0), {.start = 0})
            .scores.shape() == Shape({0, 4}));
}

TEST_CASE("an exception in the middle puts the default generator back, which cells draw from", "[nn][beam_search]") {
  RandomDecoder decoder(3, 2, 2, 1);
  const RandomDecoder::State state = decoder.random_state(2, 1);
  int calls = 0;
  const auto late = [&](const Tensor& h) {
    if (++calls % 2 == 0) throw NumericError("late");
    return matmul(h, decoder.out) + uniform({1}, 0, 1, default_rng(), {.dtype = DType::float64});
  };
  const RngState before = default_rng().state();
  Rng rng(3);
  const nn::DecodeOptions options{.start = 1, .max_steps = 5};
  CHECK_THROWS_AS(nn::greedy_decode(decoder, decoder.embed(), late, state, options), NumericError);
  CHECK_THROWS_AS(nn::sample_decode(decoder, decoder.embed(), late, state, options, {}, rng), NumericError);
  CHECK_THROWS_AS(nn::scheduled_sampling(decoder, decoder.embed(), late, {{1, 2}, {1, 2}}, state, {}, rng),
                  NumericError);
  CHECK_THROWS_AS(nn::beam_search(decoder, decoder.embed(), late, state, {.start = 1, .max_steps = 5}), NumericError);
  CHECK(calls == 8);
  CHECK(default_rng().state() == before);
  CHECK(rng.state() == Rng(3).state());
}

TEST_CASE("wrong logits leave a search as it was", "[nn][beam_search]") {
  nn::BeamSearch search(1, {.beams = 1, .start = 0, .end = 2, .max_steps = 3});
  search.advance(logits_of({{0.5, 0.3, 0.2}}));
  CHECK_THROWS_AS(search.advance(logits_of({{0.5, kNaN, 0.2}})), NumericError);
  CHECK_THROWS_AS(search.advance(zeros({2, 3})), ShapeError);
  CHECK_THROWS_AS(search.advance(zeros({1, 2})), IndexError);
  search.advance(logits_of({{0.1, 0.6, 0.3}}));
  search.advance(logits_of({{0.1, 0.2, 0.7}}));
  CHECK(search.done());
  CHECK(same(search.result().tokens, integers({{{0, 1, 2}}})));
  CHECK(close(exp(search.result().scores), {{0.5 * 0.6 * 0.7}}, tolerance::roundings64));
}

TEST_CASE("a step that fails anywhere leaves a search as it was", "[nn][beam_search][host]") {
  const nn::BeamOptions options{.beams = 2, .start = 0, .end = 2, .max_steps = 3, .coverage_penalty = 0.5};
  const Tensor logits = random_in(-1, 1, {6, 5}, DType::float32, 5),
               alignments = random_in(0, 1, {6, 4}, DType::float32, 6);
  nn::BeamSearch search(3, options), other(3, options);
  for (int step = 0; step < 3; ++step) {
    int failures = 0;
    for (bool failed = true; failed;) {  // at each of its operations, the last of which makes the results
      failed = false;
      int left = failures;
      const debug::Observer observer([&](const debug::Operation&) {
        if (left-- == 0) throw IndexError("from the observer");
      });
      try {
        search.advance(logits, alignments);
      } catch (const IndexError&) {
        failed = true;
        ++failures;
      }
    }
    CHECK(failures > 1);
    other.advance(logits, alignments);
    CHECK(search.moved() == other.moved());
    CHECK(same(search.tokens(), other.tokens()));
    CHECK(same(search.parents(), other.parents()));
    CHECK(same(search.result().tokens, other.result().tokens));
    CHECK(same(search.result().scores, other.result().scores));
  }
  CHECK(search.done());
}

// --- over the library's cells --------------------------------------------------------------------------------------

TEST_CASE("sequences found over the library's cells have the probabilities of teacher forcing", "[nn][beam_search]") {
  const std::int64_t batch = 3, beams = 4, vocabulary = 7, time = 6;
  Rng rng(12);
  const DType type = DType::float64;
  const nn::Initializer wide = nn::init::uniform(-2, 2);
  nn::LstmCell cell(3, 5, {.input_init = wide, .recurrent_init = wide, .dtype = type}, rng);
  nn::Embedding words({.count = vocabulary, .size = 3, .weight_init = wide, .dtype = type}, rng);
  nn::Linear out(5, vocabulary, {.weight_init = wide, .dtype = type}, rng);
  nn::LstmCell::State state = cell.zero_state(batch);
  state.h = random_in(-1, 1, {batch, 5});

  const GradientTape tape;
  const nn::BeamResult result = nn::beam_search(
      cell, words, out, state, {.beams = beams, .start = 1, .end = 0, .max_steps = time, .length_penalty = 0.8});
  CHECK(tape.size() == 0);
  const std::int64_t length = result.tokens.size(2);
  const Tensor said = reshape(result.tokens, {batch * beams, length});
  const Tensor before = concat({full({batch * beams, 1}, 1, {.dtype = DType::int64}), said}, 1);
  const Tensor lengths = flatten(result.lengths);
  const auto [outputs, last] = nn::unroll(cell, words(narrow(before, 1, 0, length)),
                                          {.lengths = lengths, .initial_state = nn::repeat_state(state, beams)});
  const Tensor terms = pick(log_softmax(out(outputs)), said);
  const Tensor expected = sum(where(sequence_mask(lengths, length), terms, 0), 1);
  CHECK(close(flatten(result.log_probabilities), expected, 1e-12));
  for (std::int64_t row = 0; row < batch; ++row)
    for (std::int64_t i = 1; i < beams; ++i)
      CHECK(result.scores.at<double>(row, i - 1) >= result.scores.at<double>(row, i));
}

TEST_CASE("a cell that attends searches over a memory shared by the beams", "[nn][beam_search]") {
  const std::int64_t batch = 2, beams = 3, vocabulary = 5, time = 4;
  Rng rng(13);
  const DType type = DType::float64;
  const nn::Initializer wide = nn::init::uniform(-2, 2);
  nn::AttentionCell cell(nn::LstmCell(3 + 4, 4, {.input_init = wide, .dtype = type}, rng),
                         nn::LuongAttention({.query = 4, .memory = 2, .weight_init = wide, .dtype = type}, rng),
                         {.attention_size = 4, .weight_init = wide, .dtype = type}, rng);
  nn::Embedding words({.count = vocabulary, .size = 3, .weight_init = wide, .dtype = type}, rng);
  nn::Linear out(4, vocabulary, {.weight_init = wide, .dtype = type}, rng);
  const Tensor memory = random_in(-2, 2, {batch, 6, 2}), places = {6, 4};

  cell.attend(memory, places);
  const auto state = cell.zero_state(batch);
  cell.attend(nn::repeated(cell.memory(), beams));
  const nn::BeamResult result = nn::beam_search(
      cell, words, out, state,
      {.beams = beams, .start = 1, .end = 0, .max_steps = time, .coverage_penalty = 0.3, .memory_lengths = places});
  for (std::int64_t row = 0; row < batch; ++row) {  // once more, one row and one sequence at a time
    cell.attend(narrow(memory, 0, row, 1), narrow(places, 0, row, 1));
    for (std::int64_t i = 0; i < beams; ++i) {
      auto at = cell.zero_state(1);
      Tensor token = integers({1}), coverage = zeros({1, 6}, {.dtype = type});
      double expected = 0;
      for (std::int64_t t = 0; t < result.lengths.at<std::int64_t>(row, i); ++t) {
        auto [output, after] = cell(words(token), at);
        token = result.tokens.index({range(row, row + 1), i, t});
        expected += pick(log_softmax(out(output)), token).item<double>();
        at = after;
        coverage = coverage + at.alignments;
      }
      CHECK(result.log_probabilities.at<double>(row, i) == Approx(expected).epsilon(1e-11));
      const Tensor covered = clip(coverage.index({0, range(0, places.at<int>(row))}), 1e-9, 1.0);
      CHECK(result.scores.at<double>(row, i) == Approx(expected + 0.3 * number(sum(log(covered)))).epsilon(1e-11));
    }
  }
}

TEST_CASE("what is found does not depend on the number of threads", "[nn][beam_search]") {
  RandomDecoder decoder(400, 16, 5, 1100);
  const RandomDecoder::State state = decoder.random_state(8, 11);
  const auto search = [&](int threads) {
    const ThreadCount count(threads);
    return nn::beam_search(decoder, decoder.embed(), decoder.project(), state,
                           {.beams = 6, .start = 1, .end = 2, .max_steps = 15, .length_penalty = 0.7});
  };
  const nn::BeamResult one = search(1), four = search(4);
  CHECK(same(four.tokens, one.tokens));
  CHECK(same(four.scores, one.scores));
}
