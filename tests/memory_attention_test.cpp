// Attention over a memory against plain loops in double; lengths, heads, shared memories.
#include "tests/random_models.hpp"

using namespace capstan;
using namespace tests;

namespace {

/// Row-major elements with the sizes to find them by.
struct Grid {
  std::vector<double> elements;
  Shape shape;
  explicit Grid(const Tensor& x) : elements(values(x)), shape(x.shape()) {}
  double operator()(std::int64_t i, std::int64_t j) const {
    return elements[static_cast<std::size_t>(i * shape[1] + j)];
  }
  double operator()(std::int64_t i, std::int64_t j, std::int64_t k) const {
    return elements[static_cast<std::size_t>((i * shape[1] + j) * shape[2] + k)];
  }
};

/// Contexts and weights by their definition; score(row, head, batch, place).
template <class Score>
AttentionResult by_loops(const Tensor& memory, const std::vector<std::int64_t>& lengths, std::int64_t rows,
                         std::int64_t heads, Score score) {
  const std::int64_t places = memory.size(1), features = memory.size(2);
  const Grid value(memory);
  std::vector<double> contexts, weights;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t head = 0; head < heads; ++head) {
      const std::int64_t batch = row / (rows / memory.size(0)), length = lengths[static_cast<std::size_t>(batch)];
      std::vector<double> own(static_cast<std::size_t>(places), 0.0);
      double total = 0;
      for (std::int64_t t = 0; t < length; ++t)
        total += own[static_cast<std::size_t>(t)] = std::exp(score(row, head, batch, t));
      for (double& weight : own)
        if (length > 0) weight /= total;
      weights.insert(weights.end(), own.begin(), own.end());
      for (std::int64_t d = 0; d < features; ++d) {
        double sum = 0;
        for (std::int64_t t = 0; t < length; ++t) sum += own[static_cast<std::size_t>(t)] * value(batch, t, d);
        contexts.push_back(sum);
      }
    }
  return {from_doubles(contexts, {rows, heads * features}), from_doubles(weights, {rows, heads, places})};
}

/// The scores of BahdanauAttention.
class AdditiveScore {
 public:
  AdditiveScore(const nn::BahdanauAttention& a, const Tensor& query, const Tensor& memory)
      : query_(query), memory_(memory), of_query_(a.query_weight), of_memory_(a.memory_weight), v_(a.v) {
    if (a.g.defined()) g_ = values(a.g);
    if (a.b.defined()) b_ = values(a.b);
  }
  double operator()(std::int64_t row, std::int64_t head, std::int64_t batch, std::int64_t place) const {
    const std::int64_t units = v_.shape[1];
    double length = 0, score = 0;
    for (std::int64_t u = 0; u < units; ++u) length += v_(head, u) * v_(head, u);
    for (std::int64_t u = 0; u < units; ++u) {
      double sum = b_.empty() ? 0 : b_[static_cast<std::size_t>(head * units + u)];
      for (std::int64_t i = 0; i < query_.shape[1]; ++i) sum += query_(row, i) * of_query_(i, head * units + u);
      for (std::int64_t d = 0; d < memory_.shape[2]; ++d)
        sum += memory_(batch, place, d) * of_memory_(d, head * units + u);
      const double scale = g_.empty() ? 1 : g_[static_cast<std::size_t>(head)] / std::sqrt(length);
      score += scale * v_(head, u) * std::tanh(sum);
    }
    return score;
  }

 private:
  Grid query_, memory_, of_query_, of_memory_, v_;
  std::vector<double> g_, b_;
};

/// The scores of LuongAttention.
class MultiplicativeScore {
 public:
  MultiplicativeScore(const nn::LuongAttention& a, const Tensor& query, const Tensor& memory)
      : query_(query), memory_(memory), weight_(a.weight.defined() ? Tensor(a.weight) : eye(query.size(1), -1, {f64})) {
    if (a.g.defined()) g_ = values(a.g);
  }
  double operator()(std::int64_t row, std::int64_t head, std::int64_t batch, std::int64_t place) const {
    const std::int64_t features = query_.shape[1];
    double score = 0;
    for (std::int64_t i = 0; i < features; ++i)
      for (std::int64_t d = 0; d < memory_.shape[2]; ++d)
        score += query_(row, i) * weight_(d, head * features + i) * memory_(batch, place, d);
    return g_.empty() ? score : score * g_[static_cast<std::size_t>(head)];
  }

 private:
  Grid query_, memory_, weight_;
  std::vector<double> g_;
};

nn::BahdanauAttention additive(std::int64_t heads = 1, bool normed = false) {
  return randomized(
      nn::BahdanauAttention{{.query = 3, .memory = 4, .units = 5, .heads = heads, .normed = normed, .dtype = f64}});
}
nn::LuongAttention multiplicative(std::int64_t heads = 1, bool scaled = false) {
  return randomized(nn::LuongAttention{{.query = 3, .memory = 4, .heads = heads, .scaled = scaled, .dtype = f64}});
}

/// Calls `check` with an attention of every kind, for queries of 3 and a memory of 4 features.
template <class Check>
void for_all_kinds(Check check) {
  for (const std::int64_t heads : {1, 2})
    for (const bool trained : {false, true}) {
      INFO(heads << " heads" << (trained ? ", normed or scaled" : ""));
      check(additive(heads, trained));
      check(multiplicative(heads, trained));
    }
}

}  // namespace

// --- parameters -------------------------------------------------------------------------------------------------

TEST_CASE("attentions over a memory have the parameters that their options ask for", "[nn][memory_attention]") {
  using Names = std::vector<std::string>;
  nn::BahdanauAttention plain{{.query = 3, .memory = 4, .units = 5, .heads = 2}};
  nn::BahdanauAttention normed{{.query = 3, .memory = 4, .units = 5, .normed = true}};
  CHECK(names_of(plain) == Names{"query_weight", "memory_weight", "v"});
  CHECK(names_of(normed) == Names{"query_weight", "memory_weight", "v", "g", "b"});
  CHECK(plain.query_weight.shape() == Shape{3, 10});
  CHECK(plain.memory_weight.shape() == Shape{4, 10});
  CHECK(plain.v.shape() == Shape{2, 5});
  CHECK(plain.query_features() == 3);
  CHECK(plain.context_features() == 8);
  CHECK(close(normed.g, {std::sqrt(0.2f)}, tolerance::roundings32));
  CHECK(same(normed.b, zeros({1, 5})));

  nn::LuongAttention general{{.query = 3, .memory = 4, .heads = 2}};
  nn::LuongAttention scaled{{.query = 3, .memory = 3, .score = nn::LuongScore::dot, .scaled = true}};
  CHECK(names_of(general) == Names{"weight"});
  CHECK(names_of(scaled) == Names{"g"});
  CHECK(general.weight.shape() == Shape{4, 6});
  CHECK(general.query_features() == 3);
  CHECK(general.context_features() == 8);
  CHECK(same(scaled.g, ones({1})));
}

// --- values -----------------------------------------------------------------------------------------------------

TEST_CASE("additive attention is what plain loops make of its formula", "[nn][memory_attention]") {
  const Tensor memory = random({2, 6, 4}, 11);
  for (const std::int64_t heads : {1, 2})
    for (const bool normed : {false, true})
      for (const std::int64_t count : {1, 3})
        for (const bool limited : {false, true}) {
          INFO(heads << " heads, " << count << " queries of each row" << (normed ? ", normed" : "")
                     << (limited ? ", lengths" : ""));
          const nn::BahdanauAttention attention = additive(heads, normed);
          const Tensor query = random({2 * count, 3}, 12);
          const Tensor lengths = limited ? Tensor{6, 2} : Tensor();
          const AttentionResult expected =
              by_loops(memory, limited ? std::vector<std::int64_t>{6, 2} : std::vector<std::int64_t>{6, 6}, 2 * count,
                       heads, AdditiveScore(attention, query, memory));
          const AttentionResult actual = attention(query, nn::repeated(attention.prepare(memory, lengths), count));
          CHECK(close(actual.output, expected.output, tolerance::product64));
          CHECK(close(actual.weights, expected.weights, tolerance::product64));
        }
}

TEST_CASE("additive attention has a bias without being normed", "[nn][memory_attention]") {
  nn::BahdanauAttention attention =
      randomized(nn::BahdanauAttention{{.query = 3, .memory = 4, .units = 5, .heads = 2, .bias = true, .dtype = f64}});
  CHECK(names_of(attention) == std::vector<std::string>{"query_weight", "memory_weight", "v", "b"});
  CHECK(attention.b.shape() == Shape{2, 5});
  const Tensor memory = random({2, 6, 4}, 51), query = random({2, 3}, 52), lengths = {6, 2};
  const AttentionResult expected = by_loops(memory, {6, 2}, 2, 2, AdditiveScore(attention, query, memory));
  const AttentionResult actual = attention(query, attention.prepare(memory, lengths));
  CHECK(close(actual.output, expected.output, tolerance::product64));
  CHECK(close(actual.weights, expected.weights, tolerance::product64));
}

TEST_CASE("multiplicative attention is what plain loops make of its formula", "[nn][memory_attention]") {
  const Tensor memory = random({2, 6, 4}, 13);
  const auto check = [&](const nn::LuongAttention& attention, std::int64_t heads) {
    for (const std::int64_t count : {1, 3})
      for (const bool limited : {false, true}) {
        INFO(heads << " heads, " << count << " queries of each row" << (limited ? ", lengths" : ""));
        const Tensor query = random({2 * count, attention.query_features()}, 14);
        const Tensor lengths = limited ? Tensor{1, 5}.to(DType::int64) : Tensor();
        const AttentionResult expected =
            by_loops(memory, limited ? std::vector<std::int64_t>{1, 5} : std::vector<std::int64_t>{6, 6}, 2 * count,
                     heads, MultiplicativeScore(attention, query, memory));
        const AttentionResult actual = attention(query, nn::repeated(attention.prepare(memory, lengths), count));
        CHECK(close(actual.output, expected.output, tolerance::product64));
        CHECK(close(actual.weights, expected.weights, tolerance::product64));
      }
  };
  for (const bool scaled : {false, true}) {
    INFO((scaled ? "scaled" : "not scaled"));
    check(multiplicative(1, scaled), 1);
    check(multiplicative(2, scaled), 2);
    check(randomized(nn::LuongAttention{
              {.query = 4, .memory = 4, .score = nn::LuongScore::dot, .scaled = scaled, .dtype = f64}}),
          1);
  }
}

TEST_CASE("several heads are as many reads side by side, each by its own weights", "[nn][memory_attention]") {
  const nn::BahdanauAttention both = additive(2);
  const Tensor memory = random({2, 5, 4}, 15), query = random({2, 3}, 16);
  std::vector<Tensor> outputs, weights;
  for (const std::int64_t head : {0, 1}) {
    nn::BahdanauAttention one = additive();
    one.query_weight.assign(narrow(both.query_weight, 1, 5 * head, 5));
    one.memory_weight.assign(narrow(both.memory_weight, 1, 5 * head, 5));
    one.v.assign(narrow(both.v, 0, head, 1));
    const AttentionResult read = one(query, one.prepare(memory));
    outputs.push_back(read.output);
    weights.push_back(read.weights);
  }
  const AttentionResult read = both(query, both.prepare(memory));
  CHECK(close(read.output, concat(outputs, 1), tolerance::product64));
  CHECK(close(read.weights, concat(weights, 1), tolerance::product64));
}

TEST_CASE("a normed v has the length g, whatever its own", "[nn][memory_attention]") {
  nn::BahdanauAttention attention = additive(1, true);
  const Tensor memory = random({2, 5, 4}, 17), query = random({2, 3}, 18);
  const Tensor before = attention(query, attention.prepare(memory)).weights;
  attention.v.assign(attention.v * 7);
  CHECK(close(attention(query, attention.prepare(memory)).weights, before, tolerance::product64));
}

TEST_CASE("a repeated memory is read as copies of its rows would be", "[nn][memory_attention]") {
  const Tensor memory = random({2, 5, 4}, 19), lengths = {4, 2}, query = random({6, 3}, 20);
  for_all_kinds([&](const auto& attention) {
    const nn::AttentionMemory once = attention.prepare(memory, lengths), shared = nn::repeated(once, 3);
    const AttentionResult read = attention(query, shared);
    const AttentionResult copied = attention(query, attention.prepare(repeat(memory, 3, 0), repeat(lengths, 3, 0)));
    CHECK(close(read.output, copied.output, tolerance::product64));
    CHECK(close(read.weights, copied.weights, tolerance::product64));
    CHECK(shared.keys.shares_storage(once.keys));  // nothing was copied
    const Tensor few = narrow(query, 0, 0, 2);
    CHECK(same(attention(few, shared).output, attention(few, once).output));  // one query of each row will do too
    CHECK(nn::repeated(shared, 2).shared_by == 6);
  });
}

// --- lengths ----------------------------------------------------------------------------------------------------

TEST_CASE("weights past a row's end are exactly 0, and the others add up to 1", "[nn][memory_attention]") {
  const Tensor memory = random({3, 5, 4}, 21) * 100, query = random({3, 3}, 22) * 100, lengths = {5, 0, 2};
  for_all_kinds([&](const auto& attention) {
    const AttentionResult read = attention(query, attention.prepare(memory, lengths));
    for (std::int64_t row = 0; row < 3; ++row) {
      const std::int64_t length = lengths.at<int>(row);
      const Tensor own = read.weights[row], past = own.index({all, from(length)});
      CHECK(same(past, zeros_like(past)));
      const Tensor total = sum(own, -1);
      CHECK(close(total, full_like(total, length > 0 ? 1 : 0), tolerance::roundings64));
    }
    CHECK(same(read.output[1], zeros_like(read.output[1])));  // nothing to read
  });
}

TEST_CASE("what stands past a row's end is never read into a value or a gradient", "[nn][memory_attention]") {
  const Tensor lengths = {3, 0, 5, 1}, query = random({4, 3}, 23), given = random({4, 5, 4}, 24);
  const Tensor places = expand_dims(sequence_mask(lengths, 5), 2);
  for_all_kinds([&](const auto& attention) {
    const auto run = [&](const Tensor& memory) {
      auto copy = attention;
      std::vector<Tensor> sources = {memory, query};
      for (const Tensor& p : nn::parameters(copy)) sources.push_back(p);
      GradientTape tape;
      tape.watch({memory, query});
      const AttentionResult read = copy(query, copy.prepare(memory, lengths));
      std::vector<Tensor> found = tape.gradient(sum(square(read.output)) + sum(square(read.weights)), sources);
      found.push_back(read.output);
      found.push_back(read.weights);
      return found;
    };
    const std::vector<Tensor> clean = run(where(places, given, 0)), poisoned = run(where(places, given, kNaN));
    for (std::size_t i = 0; i < clean.size(); ++i) {
      INFO("value " << i);
      CHECK(all_of(isfinite(poisoned[i])).template item<bool>());
      CHECK(same(poisoned[i], clean[i]));
    }
    const Tensor past = where(places, 0, poisoned[0]);  // the gradient for the memory
    CHECK(same(past, zeros_like(past)));
  });
}

TEST_CASE("a memory without places reads 0", "[nn][memory_attention]") {
  const Tensor memory = zeros({2, 0, 4}, {.dtype = f64}), query = random({2, 3}, 25);
  for_all_kinds([&](const auto& attention) {
    const AttentionResult read = attention(query, attention.prepare(memory));
    CHECK(same(read.output, zeros({2, attention.context_features()}, {.dtype = f64})));
    CHECK(read.weights.size(2) == 0);
  });
}

TEST_CASE("an empty batch is attended to", "[nn][memory_attention]") {
  const Tensor memory = zeros({0, 5, 4}, {.dtype = f64}), query = zeros({0, 3}, {.dtype = f64});
  for_all_kinds([&](const auto& attention) {
    for (const Tensor& lengths : {Tensor(), zeros({0}, {DType::int64})}) {
      const AttentionResult read = attention(query, attention.prepare(memory, lengths));
      CHECK(read.output.shape() == Shape{0, attention.context_features()});
      CHECK(read.weights.shape() == Shape{0, attention.context_features() / 4, 5});
    }
  });
}

TEST_CASE("16-bit types attend within their precision", "[nn][memory_attention]") {
  const Tensor memory = random({2, 5, 4}, 26), query = random({2, 3}, 27), lengths = {2, 5};
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const double bound = dtype == DType::float16 ? 0.01 : 0.08;  // a few roundings of 2^-11 and 2^-8
    const nn::BahdanauAttention wide = additive(1, true);
    nn::BahdanauAttention small = wide;
    nn::cast(small, dtype);
    const AttentionResult expected = wide(query, wide.prepare(memory, lengths));
    const AttentionResult actual = small(query.to(dtype), small.prepare(memory.to(dtype), lengths));
    CHECK(actual.output.dtype() == dtype);
    CHECK(close(actual.output.to(f64), expected.output, bound));
    CHECK(close(actual.weights.to(f64), expected.weights, bound));
    CHECK(number(sum(narrow(actual.weights[0], 1, 2, 3))) == 0);
  }
}

TEST_CASE("a step of additive attention keeps one comparison for each unit, and no keys", "[nn][memory_attention]") {
  const nn::BahdanauAttention attention{{.query = 2, .memory = 2, .units = 64}};
  const Tensor memory = random_in(-1, 1, {4, 32, 2}, DType::float32, 28);
  GradientTape tape;
  const nn::AttentionMemory prepared = attention.prepare(memory, Tensor{32, 20, 1, 0});
  const std::int64_t before = tape.bytes_kept();
  attention(random_in(-1, 1, {4, 2}, DType::float32, 29), prepared);
  // kept by tanh and, the same storage, by the product with v; besides, numbers for each place or unit alone
  const std::int64_t compared = 4 * 32 * 64 * 4, place = 4 * 32 * 4;
  CHECK(tape.bytes_kept() - before <= 2 * compared + 12 * place);
}
