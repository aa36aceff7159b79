// Greedy decoding, sampling and scheduled sampling, over a cell of a user's own and over the library's.
#include "tests/decoders.hpp"
#include "tests/gradient_check.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

using namespace capstan;
using namespace tests;

namespace {

using Tokens = std::vector<std::int64_t>;

/// Whether a share of so many draws is within what chance allows.
bool plausible_share(double share, double probability, double draws) {
  UNSCOPED_INFO("share " << share << ", probability " << probability);
  return std::fabs(share - probability) <=
         tolerance::standard_errors * std::sqrt(probability * (1 - probability) / draws) + 1e-12;
}

/// Logits [1, n] as `count` rows.
Tensor rows_of(const Tensor& logits, std::int64_t count) { return broadcast_to(logits, {count, logits.size(1)}); }

/// How often each token was drawn, as a share.
std::vector<double> shares_of(const Tensor& tokens, std::int64_t vocabulary) {
  std::vector<double> shares(static_cast<std::size_t>(vocabulary), 0.0);
  const Tokens list = tokens.to_vector<std::int64_t>();
  for (const std::int64_t token : list) shares[static_cast<std::size_t>(token)] += 1 / static_cast<double>(list.size());
  return shares;
}

/// What `filter_logits` should keep of a row, by its definition.
std::set<std::size_t> kept_by(const std::vector<double>& logits, const nn::SampleOptions& options) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  if (options.top_k > 0) order.resize(static_cast<std::size_t>(options.top_k));
  double all = 0;
  for (const std::size_t i : order) all += std::exp(logits[i] / options.temperature);
  std::set<std::size_t> kept;
  double sum = 0;
  for (const std::size_t i : order) {
    if (!kept.empty() && options.top_p < 1 && sum >= options.top_p * all) break;
    kept.insert(i);
    sum += std::exp(logits[i] / options.temperature);
  }
  return kept;
}

struct Greedy {
  Tokens tokens;
  double score = 0;
  std::vector<double> h;  // behind the last step
};
/// Greedy decoding of one row in plain numbers.
Greedy plain_greedy(const PlainDecoder& decoder, std::vector<double> h, std::int64_t start, std::int64_t end,
                    std::int64_t max_steps) {
  Greedy result;
  std::int64_t token = start;
  while (static_cast<std::int64_t>(result.tokens.size()) < max_steps) {
    const PlainDecoder::Step step = decoder(h, token);
    const auto best = std::max_element(step.log_probabilities.begin(), step.log_probabilities.end());
    token = best - step.log_probabilities.begin();
    result.tokens.push_back(token);
    result.score += *best;
    h = step.h;
    if (token == end) break;
  }
  result.h = h;
  return result;
}

/// A cell that says what it is told: its logits at step t are row t of a table, whatever goes in. Counts its steps.
struct Script {
  struct State {
    Tensor count;  // [batch, 1]
  };
  Tensor lines;  // [steps, batch, vocabulary]
  int calls = 0;
  std::vector<Tokens> seen = {};

  std::pair<Tensor, State> operator()(const Tensor& x, const State& s) {
    seen.push_back(x.to_vector<std::int64_t>());
    const Tensor logits = lines[calls++];
    return {logits, State{s.count + 1}};
  }
  State zero_state(std::int64_t batch) const { return {zeros({batch, 1})}; }
};

/// Logits by which these tokens are the likeliest: [steps, batch, vocabulary].
Tensor script_for(const std::vector<Tokens>& steps, std::int64_t vocabulary) {
  std::vector<Tensor> lines;
  for (const Tokens& tokens : steps) lines.push_back(one_hot(from_vector(tokens), vocabulary, 3.0, 0.0));
  return stack(lines);
}

const nn::Identity identity{};

}  // namespace

// --- choosing tokens -------------------------------------------------------------------------------------------

TEST_CASE("filtered logits keep the k largest and the nucleus, as their definitions say", "[nn][decode]") {
  const std::int64_t rows = 50, vocabulary = 7;
  const Tensor logits = random_in(-3, 3, {rows, vocabulary}, DType::float64, 11);
  for (const nn::SampleOptions& options :
       {nn::SampleOptions{.top_k = 1}, nn::SampleOptions{.top_k = 3}, nn::SampleOptions{.top_k = 7},
        nn::SampleOptions{.top_p = 1e-6}, nn::SampleOptions{.top_p = 0.3}, nn::SampleOptions{.top_p = 0.9},
        nn::SampleOptions{.temperature = 0.5, .top_p = 0.8}, nn::SampleOptions{.temperature = 2.5},
        nn::SampleOptions{.temperature = 1.5, .top_k = 4, .top_p = 0.7}}) {
    INFO(options.temperature << ", " << options.top_k << ", " << options.top_p);
    const Tensor filtered = nn::filter_logits(logits, options);
    CHECK(filtered.shape() == logits.shape());
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::vector<double> before = values(logits[row]), after = values(filtered[row]);
      const std::set<std::size_t> kept = kept_by(before, options);
      for (std::size_t i = 0; i < before.size(); ++i) {
        if (kept.count(i) == 0) CHECK(after[i] == -kInfinity);
        else CHECK(after[i] == Approx(before[i] / options.temperature).epsilon(1e-14));
      }
    }
  }
}

TEST_CASE("of equal logits the first are kept, and axes before the last are any", "[nn][decode]") {
  const Tensor logits = {{{1.0, 1.0, 1.0, 0.0}, {2.0, 3.0, 3.0, 3.0}}};
  CHECK(same(nn::filter_logits(logits, {.top_k = 2}),
             {{{1.0, 1.0, -kInfinity, -kInfinity}, {-kInfinity, 3.0, 3.0, -kInfinity}}}));
  CHECK(same(nn::filter_logits(logits[0][1], {.top_k = 1}), {-kInfinity, 3.0, -kInfinity, -kInfinity}));
  CHECK(nn::filter_logits(logits, {}).is_same(logits));
  const Tensor quarters = zeros({1, 4}, {.dtype = DType::float64});  // two of them are exactly half
  CHECK(same(nn::filter_logits(quarters, {.top_p = 0.5}), {{0.0, 0.0, -kInfinity, -kInfinity}}));
  CHECK(same(nn::filter_logits(quarters, {.top_p = 0.51}), {{0.0, 0.0, 0.0, -kInfinity}}));
}

TEST_CASE("temperatures and nuclei that float32 cannot tell from 0 or infinity make no NaN, and one token stays",
          "[nn][decode]") {
  const Tensor logits = {{1.0f, 3.0f, 2.0f}, {0.0f, -1.0f, -2.0f}};
  CHECK(same(nn::filter_logits(logits, {.top_p = 1e-300}), nn::filter_logits(logits, {.top_k = 1})));
  CHECK(all_of(isfinite(nn::filter_logits(Tensor{{0.0f, 1.0f}}, {.temperature = 1e-300}))).item<bool>());
  const Tensor two = nn::filter_logits(logits, {.top_k = 2});
  CHECK(same(isinf(nn::filter_logits(two, {.temperature = 1e300})), isinf(two)));
  Rng rng(4);
  CHECK(nn::sample_tokens(logits, {.top_p = 1e-300}, rng).to_vector<std::int64_t>() == Tokens{1, 0});
  CHECK(array_equal(isinf(pick(two, nn::sample_tokens(two, {.temperature = 1e300}, rng))), Tensor{false, false}));
}

TEST_CASE("nuclei of logits of 16 bits are those of float32", "[nn][decode]") {
  for (const DType type : {DType::float16, DType::bfloat16}) {
    const Tensor even = zeros({1, 4096}, {.dtype = type});  // as many as half of them are exactly half
    const Tensor filtered = nn::filter_logits(even, {.top_p = 0.5});
    CHECK(filtered.dtype() == type);
    CHECK(number(count_nonzero(isfinite(filtered.to(DType::float32)))) == 2048);
    const Tensor few = Tensor{{1.0f, 4.0f, 2.0f, 3.0f}}.to(type);
    GradientTape tape;
    tape.watch(few);
    const Tensor kept = nn::filter_logits(few, {.temperature = 2, .top_k = 2});
    CHECK(same(tape.gradient(sum(where(isfinite(kept), kept, 0)), few), Tensor{{0.0f, 0.5f, 0.0f, 0.5f}}.to(type)));
  }
}

TEST_CASE("gradients of filtered logits go to those that are kept", "[nn][decode]") {
  const Tensor logits = {{1.0, 4.0, 2.0, 3.0}};
  GradientTape tape;
  tape.watch(logits);
  const Tensor kept = nn::filter_logits(logits, {.temperature = 2, .top_k = 3, .top_p = 0.8});
  const Tensor total = sum(where(isfinite(kept), kept, 0));
  // probabilities of 4, 3 and 2 at temperature 2: 0.506, 0.307, 0.186
  CHECK(same(kept, {{-kInfinity, 2.0, -kInfinity, 1.5}}));
  CHECK(same(tape.gradient(total, logits), {{0.0, 0.5, 0.0, 0.5}}));
}

TEST_CASE("sampled tokens come as often as their probabilities say", "[nn][decode]") {
  const std::int64_t draws = 20000;
  const Tensor logits = {{0.5, -1.0, 2.0, 1.0, -kInfinity, 1.5}};
  for (const nn::SampleOptions& options :
       {nn::SampleOptions{}, nn::SampleOptions{.temperature = 0.6}, nn::SampleOptions{.temperature = 3},
        nn::SampleOptions{.top_k = 3}, nn::SampleOptions{.top_p = 0.75},
        nn::SampleOptions{.temperature = 2, .top_k = 4, .top_p = 0.9}}) {
    INFO(options.temperature << ", " << options.top_k << ", " << options.top_p);
    Rng rng(17);
    const Tensor tokens = nn::sample_tokens(rows_of(logits, draws), options, rng);
    CHECK(tokens.dtype() == DType::int64);
    CHECK(tokens.shape() == Shape({draws}));
    const std::vector<double> x = values(logits), shares = shares_of(tokens, 6);
    const std::set<std::size_t> kept = kept_by(x, options);
    double all = 0;
    for (const std::size_t i : kept) all += std::exp(x[i] / options.temperature);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double probability = kept.count(i) == 0 ? 0 : std::exp(x[i] / options.temperature) / all;
      CHECK(plausible_share(shares[i], probability, draws));
    }
  }
}

TEST_CASE("without options tokens are those of categorical, and a generator is used up alike", "[nn][decode]") {
  const Tensor logits = random_in(-2, 2, {9, 5}, DType::float32, 3);
  Rng one(5), other(5);
  CHECK(same(nn::sample_tokens(logits, {}, one), squeeze(categorical(logits, 1, other), 1)));
  CHECK(one.state() == other.state());
}

TEST_CASE("very small temperatures and very large logits choose the likeliest token", "[nn][decode]") {
  Rng rng(1);
  const Tensor logits = {{1.0f, 3.0f, 2.9f}, {-1e30f, -2e30f, -3e30f}, {3e38f, -3e38f, 0.0f}};
  for (const double temperature : {1e-300, 1e-40, 1e-6})
    CHECK(nn::sample_tokens(logits, {.temperature = temperature}, rng).to_vector<std::int64_t>() == Tokens{1, 0, 0});
  CHECK(nn::sample_tokens(logits, {.top_k = 1}, rng).to_vector<std::int64_t>() == Tokens{1, 0, 0});
  CHECK(nn::sample_tokens(zeros({0, 3}), {.top_k = 2}, rng).shape() == Shape({0}));
  for (const DType type : {DType::float16, DType::bfloat16})
    CHECK(nn::sample_tokens(Tensor{{1.0f, 3.0f, 2.0f}}.to(type), {.temperature = 1e-6}, rng).item<std::int64_t>() == 1);
}

// --- greedy decoding -------------------------------------------------------------------------------------------

TEST_CASE("greedy decoding says the likeliest token of each step, and stops each row behind its end", "[nn][decode]") {
  const std::int64_t batch = 6, max_steps = 9;
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    RandomDecoder decoder(5, 4, 2, 10 * seed);
    const RandomDecoder::State start = decoder.random_state(batch, seed);
    const auto [tokens, lengths, scores, state] = nn::greedy_decode(decoder, decoder.embed(), decoder.project(), start,
                                                                    {.start = 1, .end = 2, .max_steps = max_steps});
    const PlainDecoder plain(decoder);
    std::int64_t longest = 0;
    for (std::int64_t row = 0; row < batch; ++row) {
      const Greedy expected = plain_greedy(plain, plain.row_of(start.h, row), 1, 2, max_steps);
      const auto length = static_cast<std::int64_t>(expected.tokens.size());
      longest = std::max(longest, length);
      CHECK(lengths.at<std::int64_t>(row) == length);
      CHECK(first_tokens(tokens[row], length) == expected.tokens);
      CHECK(scores.at<double>(row) == Approx(expected.score).epsilon(tolerance::roundings64));
      CHECK(relative_error(values(state.h[row]), expected.h) < tolerance::roundings64);
      for (std::int64_t t = length; t < tokens.size(1); ++t) CHECK(tokens.at<std::int64_t>(row, t) == 2);
    }
    CHECK(tokens.shape() == Shape({batch, longest}));
    CHECK(tokens.dtype() == DType::int64);
    CHECK(scores.dtype() == DType::float64);
  }
}

TEST_CASE("decoding stops when all rows have ended, and feeds no row its padding", "[nn][decode]") {
  Script script{script_for({{3, 0, 2}, {0, 1, 2}, {1, 1, 0}, {1, 1, 1}}, 4)};
  const auto result = nn::greedy_decode(script, identity, identity, script.zero_state(3),
                                        {.start = 1, .end = 0, .max_steps = 4, .pad = -7});
  CHECK(script.calls == 3);
  CHECK(same(result.tokens, Tensor{{3, 0, -7}, {0, -7, -7}, {2, 2, 0}}.to(DType::int64)));
  CHECK(same(result.lengths, Tensor{2, 1, 3}.to(DType::int64)));  // the end token counts
  CHECK(same(result.state.count, {{2.0f}, {1.0f}, {3.0f}}));
  CHECK(script.seen == std::vector<Tokens>{{1, 1, 1}, {3, 1, 2}, {1, 1, 2}});
  const double one = 3 - std::log(std::exp(3.0) + 3);
  CHECK(close(result.scores, {2 * one, one, 3 * one}, tolerance::roundings32));
}

TEST_CASE("without an end token decoding runs for max_steps, from start tokens of its own", "[nn][decode]") {
  Script script{script_for({{3, 0}, {0, 1}, {1, 2}}, 4).to(DType::bfloat16)};
  const auto result =
      nn::greedy_decode(script, identity, identity, script.zero_state(2), {.start_tokens = {2, 3}, .max_steps = 3});
  CHECK(same(result.tokens, Tensor{{3, 0, 1}, {0, 1, 2}}.to(DType::int64)));
  CHECK(same(result.lengths, Tensor{3, 3}.to(DType::int64)));
  CHECK(script.seen.front() == Tokens{2, 3});
  const double one = 3 - std::log(std::exp(3.0) + 3);
  CHECK(close(result.scores, {3 * one, 3 * one}, tolerance::roundings32));  // of float32 logits
}

TEST_CASE("a decoder of no rows says nothing", "[nn][decode]") {
  RandomDecoder decoder(5, 4, 2, 1);
  const auto result =
      nn::greedy_decode(decoder, decoder.embed(), decoder.project(), decoder.zero_state(0), {.start = 1});
  CHECK(result.tokens.shape() == Shape({0, 0}));
  CHECK(result.lengths.shape() == Shape({0}));
}

TEST_CASE("the library's cells and layers decode, and no tape records it", "[nn][decode]") {
  Rng rng(8);
  nn::LstmCell cell(3, 4, {}, rng);
  nn::Embedding words(6, 3, rng);
  nn::Linear out(4, 6, {}, rng);
  const GradientTape tape;
  const auto greedy = nn::greedy_decode(cell, words, out, cell.zero_state(2), {.start = 1, .max_steps = 5});
  const auto drawn =
      nn::sample_decode(cell, words, out, cell.zero_state(2), {.start = 1, .max_steps = 5}, {.top_k = 1}, rng);
  CHECK(tape.size() == 0);
  CHECK(same(drawn.tokens, greedy.tokens));
  CHECK(same(drawn.scores, greedy.scores));

  const NoGrad off;
  nn::LstmCell::State state = cell.zero_state(2);
  Tensor token = from_vector(Tokens{1, 1});
  for (std::int64_t t = 0; t < 5; ++t) {
    auto [output, after] = cell(words(token), state);
    token = argmax(out(output), 1);
    CHECK(same(greedy.tokens.index({all, t}), token));
    state = after;
  }
  CHECK(same(greedy.state.h, state.h));
  CHECK(same(greedy.state.c, state.c));
}

// --- sampling --------------------------------------------------------------------------------------------------

TEST_CASE("sequences are sampled as often as their probabilities say", "[nn][decode]") {
  const std::int64_t draws = 20000, end = 2;
  RandomDecoder decoder(4, 3, 2, 21);
  const PlainDecoder plain(decoder);
  const RandomDecoder::State one = decoder.random_state(1, 5);
  const RandomDecoder::State start = nn::repeat_state(one, draws);
  for (const nn::SampleOptions& options : {nn::SampleOptions{}, nn::SampleOptions{.temperature = 1.5, .top_k = 3}}) {
    Rng rng(31);
    const auto result = nn::sample_decode(decoder, decoder.embed(), decoder.project(), start,
                                          {.start = 1, .end = end, .max_steps = 2}, options, rng);
    const Tokens tokens = result.tokens.to_vector<std::int64_t>(), lengths = result.lengths.to_vector<std::int64_t>();
    const std::vector<double> scores = values(result.scores);
    std::map<Tokens, double> shares, sums;
    for (std::size_t row = 0; row < lengths.size(); ++row) {
      const Tokens said = lengths[row] == 1 ? Tokens{tokens[2 * row]} : Tokens{tokens[2 * row], tokens[2 * row + 1]};
      CHECK((lengths[row] == 1) == (tokens[2 * row] == end));
      shares[said] += 1 / static_cast<double>(draws);
      sums[said] = scores[row];
    }
    // All that can be said, its probability when drawn, and its probability in the model.
    const auto drawn_with = [&](const std::vector<double>& log_probabilities, std::int64_t token) {
      const std::set<std::size_t> kept = kept_by(log_probabilities, options);
      if (kept.count(static_cast<std::size_t>(token)) == 0) return 0.0;
      double total = 0;
      for (const std::size_t i : kept) total += std::exp(log_probabilities[i] / options.temperature);
      return std::exp(log_probabilities[static_cast<std::size_t>(token)] / options.temperature) / total;
    };
    const auto check = [&](const Tokens& said, double probability, double score) {
      CHECK(plausible_share(shares[said], probability, draws));
      if (shares[said] > 0) CHECK(sums[said] == Approx(score).epsilon(tolerance::roundings64));
    };
    const PlainDecoder::Step first = plain(plain.row_of(one.h, 0), 1);
    for (std::int64_t a = 0; a < 4; ++a) {
      const double before = drawn_with(first.log_probabilities, a);
      const double score = first.log_probabilities[static_cast<std::size_t>(a)];
      if (a == end) {
        check({a}, before, score);
        continue;
      }
      const PlainDecoder::Step second = plain(first.h, a);
      for (std::int64_t b = 0; b < 4; ++b)
        check({a, b}, before * drawn_with(second.log_probabilities, b),
              score + second.log_probabilities[static_cast<std::size_t>(b)]);
    }
  }
}

TEST_CASE("what is decoded depends on the generator and not on the number of threads", "[nn][decode]") {
  RandomDecoder decoder(300, 24, 2, 41);
  const RandomDecoder::State start = decoder.random_state(40, 6);
  const nn::DecodeOptions options{.start = 1, .end = 2, .max_steps = 12};
  const auto decode = [&](int threads, std::uint64_t seed) {
    const ThreadCount count(threads);
    Rng rng(seed);
    return nn::sample_decode(decoder, decoder.embed(), decoder.project(), start, options,
                             {.temperature = 0.9, .top_k = 50, .top_p = 0.95}, rng);
  };
  const auto one = decode(1, 7), four = decode(4, 7), other = decode(1, 8);
  CHECK(same(four.tokens, one.tokens));
  CHECK(same(four.scores, one.scores));
  CHECK_FALSE(array_equal(other.tokens, one.tokens));

  const auto greedy = nn::greedy_decode(decoder, decoder.embed(), decoder.project(), start, options);
  Rng rng(1);
  const auto cold =
      nn::sample_decode(decoder, decoder.embed(), decoder.project(), start, options, {.temperature = 1e-9}, rng);
  CHECK(same(cold.tokens, greedy.tokens));
}

TEST_CASE("an exception in the middle puts the generator back, and rows that have ended may have NaN", "[nn][decode]") {
  Tensor lines = zeros({4, 2, 3});
  lines.index_put({2, 1, 0}, kNaN);
  Script script{lines};
  Rng rng(3);
  const RngState before = rng.state();
  const auto decode = [&](const nn::DecodeOptions& options) {
    script.calls = 0;
    return nn::sample_decode(script, identity, identity, script.zero_state(2), options, {}, rng);
  };
  CHECK_THROWS_AS(decode({.start = 1, .max_steps = 4}), NumericError);
  CHECK(script.calls == 3);
  CHECK(rng.state() == before);

  Script other{script_for({{1, 0}, {1, 1}, {1, 1}}, 3)};
  other.lines.index_put({from(1), 1}, kNaN);
  const auto result =
      nn::greedy_decode(other, identity, identity, other.zero_state(2), {.start = 1, .end = 0, .max_steps = 3});
  CHECK(same(result.lengths, Tensor{3, 1}.to(DType::int64)));
  Script again{other.lines};
  const auto drawn = nn::sample_decode(again, identity, identity, again.zero_state(2),
                                       {.start = 1, .end = 0, .max_steps = 3}, {.top_k = 1}, rng);
  CHECK(same(drawn.tokens, result.tokens));
  CHECK(same(drawn.scores, result.scores));
}

// --- scheduled sampling ----------------------------------------------------------------------------------------

TEST_CASE("scheduled sampling with probability 0 is teacher forcing, lengths included", "[nn][decode]") {
  const std::int64_t batch = 4, time = 5;
  RandomDecoder decoder(6, 3, 2, 51);
  const RandomDecoder::State start = decoder.random_state(batch, 9);
  Rng rng(2);
  const RngState before = rng.state();
  const Tensor inputs = randint(0, 6, {batch, time}, rng), lengths = {5, 0, 3, 4};
  const RngState after = rng.state();
  CHECK_FALSE(before == after);

  const auto whole = nn::scheduled_sampling(decoder, decoder.embed(), decoder.project(), inputs, start, {}, rng);
  const auto [outputs, last] = nn::unroll(decoder, decoder.embed()(inputs), {.initial_state = start});
  CHECK(close(whole.logits, decoder.project()(outputs), tolerance::roundings64));
  CHECK(close(whole.state.h, last.h, tolerance::roundings64));
  CHECK(same(whole.inputs, inputs));
  CHECK(rng.state() == after);  // nothing was drawn

  Tensor poisoned = inputs.copy();
  const Tensor valid = sequence_mask(lengths, time);
  poisoned.index_put({logical_not(valid)}, -1000);
  const auto part =
      nn::scheduled_sampling(decoder, decoder.embed(), decoder.project(), poisoned, start, {.lengths = lengths}, rng);
  const auto [held, end] = nn::unroll(decoder, decoder.embed()(inputs), {.lengths = lengths, .initial_state = start});
  const Tensor mask = expand_dims(valid, -1);
  CHECK(close(part.logits, where(mask, decoder.project()(held), 0), tolerance::roundings64));
  CHECK(close(part.state.h, end.h, tolerance::roundings64));
  CHECK(same(part.inputs, where(valid, inputs, 0)));
}

TEST_CASE("scheduled sampling with probability 1 is left to its own tokens", "[nn][decode]") {
  const std::int64_t batch = 5, time = 6;
  RandomDecoder decoder(7, 4, 2, 61);
  const RandomDecoder::State start = decoder.random_state(batch, 10);
  const Tensor inputs = ones({batch, time}, {.dtype = DType::int32});
  Rng rng(2);
  const auto forced = nn::scheduled_sampling(decoder, decoder.embed(), decoder.project(), inputs, start,
                                             {.probability = 1, .argmax = true}, rng);
  const auto greedy =
      nn::greedy_decode(decoder, decoder.embed(), decoder.project(), start, {.start = 1, .max_steps = time});
  CHECK(same(narrow(forced.inputs, 1, 1, time - 1), narrow(greedy.tokens, 1, 0, time - 1)));
  CHECK(same(narrow(forced.inputs, 1, 0, 1), ones({batch, 1}, {.dtype = DType::int64})));
  CHECK(same(argmax(forced.logits, 2), greedy.tokens));
  CHECK(close(forced.state.h, greedy.state.h, tolerance::roundings64));
}

TEST_CASE("each row of each step decides by itself, with its probability, for its own token", "[nn][decode]") {
  const std::int64_t batch = 4000, time = 4;
  const Tensor line = {0.0, -1.0, -kInfinity, 1.0};  // never says 2, which is given
  Script script{broadcast_to(line, {time, batch, 4}).contiguous()};
  const Tensor inputs = full({batch, time}, 2, {.dtype = DType::int64});
  const std::vector<double> own = plain_softmax({0.0, -1.0, 1.0}, false);
  for (const double probability : {0.25, 1.0}) {
    script.calls = 0;
    Rng rng(23);
    const auto result = nn::scheduled_sampling(script, identity, identity, inputs, script.zero_state(batch),
                                               {.probability = probability}, rng);
    CHECK(shares_of(result.inputs.index({all, 0}), 4)[2] == Approx(1));
    for (std::int64_t t = 1; t < time; ++t) {
      const std::vector<double> shares = shares_of(result.inputs.index({all, t}), 4);
      CHECK(plausible_share(shares[2], 1 - probability, batch));
      CHECK(plausible_share(shares[0], probability * own[0], batch));
      CHECK(plausible_share(shares[1], probability * own[1], batch));
      CHECK(plausible_share(shares[3], probability * own[2], batch));
    }
    // Steps decide by themselves: what is given twice in a row comes as often as chance has it.
    const Tensor kept = equal(result.inputs, 2);
    const Tensor twice = logical_and(kept.index({all, 1}), kept.index({all, 2}));
    const double share = number(count_nonzero(twice)) / static_cast<double>(batch);
    CHECK(plausible_share(share, (1 - probability) * (1 - probability), batch));
  }
}

TEST_CASE("gradients of scheduled sampling are those of the tokens that were fed", "[nn][decode][gradient]") {
  const RandomDecoder model(3, 2, 2, 71);
  const Tensor inputs = {{1, 0, 2}, {1, 2, 0}}, lengths = {3, 2};
  const Tensor h = model.random_state(2, 3).h;
  for (const double probability : {0.0, 1.0}) {
    const auto run = [&](const std::vector<Tensor>& parts) {
      RandomDecoder decoder = model;
      decoder.table = parts[0];
      decoder.turn = parts[1];
      decoder.out = parts[2];
      RandomDecoder::State start = decoder.zero_state(2);
      start.h = parts[3];
      const auto result = nn::scheduled_sampling(decoder, decoder.embed(), decoder.project(), inputs, start,
                                                 {.probability = probability, .argmax = true, .lengths = lengths});
      return concat({flatten(result.logits), flatten(result.state.h)});
    };
    expect_gradient(run, {model.table, model.turn, model.out, h});
  }
}

TEST_CASE("what stands past the end of a row reaches no gradient", "[nn][decode][gradient]") {
  RandomDecoder decoder(5, 3, 2, 81);
  const RandomDecoder::State start = decoder.random_state(2, 4);
  const Tensor lengths = {4, 2}, clean = {{1, 2, 3, 0}, {1, 3, 0, 0}}, poisoned = {{1, 2, 3, 0}, {1, 3, -5, 99}};
  const auto gradients = [&](const Tensor& inputs) {
    GradientTape tape;
    tape.watch({decoder.table, decoder.turn, decoder.out});
    const auto result =
        nn::scheduled_sampling(decoder, decoder.embed(), decoder.project(), inputs, start, {.lengths = lengths});
    return tape.gradient(sum(square(result.logits)), {decoder.table, decoder.turn, decoder.out});
  };
  const std::vector<Tensor> expected = gradients(clean), actual = gradients(poisoned);
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(same(actual[i], expected[i]));
}
