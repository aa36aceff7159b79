// Streams of random numbers, and the distributions that come from them, by tests of fit with fixed seeds.
#include "tests/support.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "lib/kernels/philox.hpp"

using namespace capstan;
using namespace tests;

namespace {

/// The Kolmogorov-Smirnov statistic: the largest distance between the share of values below x and F(x), times sqrt(n).
template <class F>
double kolmogorov_smirnov(const Tensor& t, F cumulative) {
  std::vector<double> list = values(t);
  std::sort(list.begin(), list.end());
  const auto count = static_cast<double>(list.size());
  double distance = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const double f = cumulative(list[i]), below = static_cast<double>(i) / count;
    distance = std::max({distance, f - below, below + 1 / count - f});
  }
  return distance * std::sqrt(count);
}

/// Whether counts fit probabilities: Pearson's sum of squares, and how large chance lets it become (Laurent and
/// Massart, "Adaptive estimation of a quadratic functional by model selection", 2000, lemma 1).
bool fits(const std::vector<double>& counts, const std::vector<double>& probabilities) {
  double total = 0, statistic = 0, freedom = -1;
  for (const double count : counts) total += count;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    if (probabilities[k] == 0) {
      if (counts[k] != 0) return false;
      continue;
    }
    const double expected = total * probabilities[k];
    statistic += (counts[k] - expected) * (counts[k] - expected) / expected;
    freedom += 1;
  }
  const double t = tolerance::chi_square_exponent;
  UNSCOPED_INFO("chi-square " << statistic << " with " << freedom << " degrees of freedom");
  return statistic <= freedom + 2 * std::sqrt(freedom * t) + 2 * t;
}

std::vector<double> counted(const Tensor& t, std::size_t classes) {
  std::vector<double> counts(classes, 0);
  for (const double x : values(t)) counts.at(static_cast<std::size_t>(x)) += 1;
  return counts;
}

double normal_distribution(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

constexpr std::int64_t many = 200000;
const TensorOptions wide{.dtype = DType::float64};

}  // namespace

TEST_CASE("a stream's number is the upper half of Philox's counter", "[random]") {
  using Words = std::array<std::uint32_t, 4>;
  const Words words = kernels::philox4x32({5, 0, 0x89abcdef, 0x01234567}, {7, 0});
  Rng rng = Rng(7).stream(0x0123456789abcdef);
  rng.set_position(5);
  CHECK(rng.bits() == (std::uint64_t{words[0]} << 32 | words[1]));
  Rng last = Rng(~std::uint64_t{0}).stream(~std::uint64_t{0});
  last.set_position(~std::uint64_t{0});
  CHECK(last.bits() == 0x408f276d41c83b0eull);  // Random123 1.09, kat_vectors: all ones
}

TEST_CASE("stream 0 is the generator itself, and streams count from the seed", "[random]") {
  Rng plain(3), zero = Rng(3).stream(0), nested = Rng(3).stream(8).stream(0);
  const Tensor numbers = uniform({100}, 0, 1, plain);
  CHECK(same(uniform({100}, 0, 1, zero), numbers));
  CHECK(same(uniform({100}, 0, 1, nested), numbers));
  Rng used(3);
  used.take(1000);
  CHECK(used.stream(4).position() == 0);  // wherever the generator stands
}

TEST_CASE("streams share no number", "[random]") {
  std::vector<double> all_numbers;
  for (std::uint64_t number = 0; number < 50; ++number) {
    Rng rng = Rng(11).stream(number);
    const std::vector<double> list = values(uniform({1000}, 0, 1, rng, wide));
    all_numbers.insert(all_numbers.end(), list.begin(), list.end());
  }
  std::sort(all_numbers.begin(), all_numbers.end());
  CHECK(std::adjacent_find(all_numbers.begin(), all_numbers.end()) == all_numbers.end());
}

TEST_CASE("every distribution draws from its generator's stream", "[random]") {
  const auto draw = [](Rng rng) {
    std::vector<std::vector<double>> drawn;
    drawn.push_back(values(uniform({9}, 0, 1, rng)));
    drawn.push_back(values(normal({9}, rng)));
    drawn.push_back(values(truncated_normal({9}, 0, 1, rng)));
    drawn.push_back(values(exponential({9}, 1, rng)));
    drawn.push_back(values(gumbel({9}, 0, 1, rng)));
    drawn.push_back(values(randint(0, 1000000, {9}, rng)));
    drawn.push_back(values(permutation(100, rng)));
    drawn.push_back(values(bernoulli({200}, 0.5, rng)));
    drawn.push_back(values(bernoulli(full({200}, 0.5), rng)));
    drawn.push_back(values(categorical(zeros({1, 1000}), 9, rng)));
    return drawn;
  };
  const auto first = draw(Rng(5).stream(1)), second = draw(Rng(5).stream(2));
  for (std::size_t i = 0; i < first.size(); ++i) {
    INFO("draw " << i);
    CHECK(first[i] != second[i]);
  }
  CHECK((draw(Rng(5).stream(1)) == first));
}

TEST_CASE("a restored generator continues with the same numbers", "[random]") {
  Rng rng = Rng(21).stream(6);
  uniform({1001}, 0, 1, rng);
  const RngState state = rng.state();
  CHECK((state == RngState{21, 6, 501}));  // two numbers a block
  const Tensor next = normal({10}, rng);
  CHECK_FALSE(rng.state() == state);
  Rng other(0);
  other.restore(state);
  CHECK(same(normal({10}, other), next));
  CHECK(other.state() == rng.state());
}

TEST_CASE("a generator's state goes through text unchanged", "[random]") {
  CHECK(to_string(RngState{42, 0, 17}) == "philox4x32-10 seed=42 stream=0 position=17");
  for (const RngState& state : {RngState{}, RngState{1, 2, 3}, RngState{UINT64_MAX, UINT64_MAX, UINT64_MAX}})
    CHECK((parse_rng_state(to_string(state)) == state));
}

TEST_CASE("uniform, normal and truncated normal numbers fit their distributions", "[random]") {
  Rng rng = Rng(31).stream(1);
  CHECK(kolmogorov_smirnov(uniform({many}, -2, 3, rng, wide), [](double x) { return (x + 2) / 5; }) <=
        tolerance::kolmogorov);
  CHECK(kolmogorov_smirnov(normal({many}, 1, 2, rng, wide),
                           [](double x) { return normal_distribution((x - 1) / 2); }) <= tolerance::kolmogorov);
  const double tail = normal_distribution(-2);
  CHECK(kolmogorov_smirnov(truncated_normal({many}, 0, 1, rng, wide), [&](double x) {
          return (normal_distribution(x) - tail) / (1 - 2 * tail);
        }) <= tolerance::kolmogorov);
}

TEST_CASE("exponential numbers fit their distribution", "[random]") {
  Rng rng(32);
  const Tensor x = exponential({many}, 2.5, rng, wide);
  CHECK(number(min(x)) >= 0);
  CHECK(kolmogorov_smirnov(x, [](double v) { return 1 - std::exp(-v / 2.5); }) <= tolerance::kolmogorov);
  CHECK(same(exponential({3}, 0, rng), zeros({3})));
  CHECK(kolmogorov_smirnov(exponential({many}, 1, rng), [](double v) { return 1 - std::exp(-v); }) <=
        tolerance::kolmogorov);
}

TEST_CASE("Gumbel numbers fit their distribution", "[random]") {
  Rng rng(33);
  const auto cumulative = [](double x) { return std::exp(-std::exp(-(x - 1) / 0.5)); };
  CHECK(kolmogorov_smirnov(gumbel({many}, 1, 0.5, rng, wide), cumulative) <= tolerance::kolmogorov);
  CHECK(kolmogorov_smirnov(gumbel({many}, 1, 0.5, rng), cumulative) <= tolerance::kolmogorov);
}

TEST_CASE("bernoulli takes a probability for each element", "[random]") {
  const std::vector<double> rates = {0, 0.1, 0.25, 0.5, 0.9, 1};
  const Tensor p = broadcast_to(from_vector(rates), {many, 6});
  Rng rng(34);
  const Tensor x = bernoulli(p, rng);
  CHECK(x.shape() == Shape{many, 6});
  CHECK(x.dtype() == DType::float64);
  const std::vector<double> hits = values(sum(x, 0));
  const auto count = static_cast<double>(many);
  for (std::size_t k = 0; k < rates.size(); ++k) {
    INFO("probability " << rates[k]);
    CHECK(fits({hits[k], count - hits[k]}, {rates[k], 1 - rates[k]}));
  }
}

TEST_CASE("bernoulli of equal probabilities gives the numbers of one probability", "[random]") {
  for (const DType type : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) {
    Rng rng(35), twin(35);
    CHECK(same(bernoulli(full({7, 11}, 0.25, {.dtype = type}), rng), bernoulli({7, 11}, 0.25, twin, {.dtype = type})));
    CHECK(rng.state() == twin.state());
  }
  Rng rng(35);
  CHECK(bernoulli(zeros({0, 3}), rng).shape() == Shape{0, 3});
  CHECK(rng.position() == 0);
}

TEST_CASE("categorical chooses each class as often as softmax says", "[random]") {
  const Tensor logits = {{0.0, 1.0, -kInfinity, 2.0, -1.0}, {1000.0, 1000.0, 1000.0, 999.0, -kInfinity}};
  Rng rng(36);
  const Tensor chosen = categorical(logits, many, rng);
  CHECK(chosen.shape() == Shape{2, many});
  CHECK(chosen.dtype() == DType::int64);
  for (const std::int64_t row : {0, 1})
    CHECK(fits(counted(chosen[row], 5), values(softmax(logits[row]))));  // and never what has probability 0
  CHECK(rng.position() == static_cast<std::uint64_t>(many));             // two numbers a block
}

TEST_CASE("categorical takes one class, no choices, no rows, views and 16-bit types", "[random]") {
  Rng rng(37);
  CHECK(same(categorical(zeros({2, 1}), 3, rng), zeros({2, 3}, {.dtype = DType::int64})));
  CHECK(categorical(zeros({2, 4}), 0, rng).shape() == Shape{2, 0});
  CHECK(categorical(zeros({0, 4}), 5, rng).shape() == Shape{0, 5});
  const Tensor logits = random_in(-2, 2, {6, 3}, DType::float32, 38);
  Rng first(39), second(39);
  CHECK(same(categorical(transpose(logits), 50, first), categorical(transpose(logits).copy(), 50, second)));
  const Tensor sure = from_doubles({0, 20, 0, 0, 0, 20}, {2, 3}, DType::float16);
  CHECK(same(categorical(sure, 2, rng), from_vector(std::vector<std::int64_t>{1, 1, 2, 2}, {2, 2})));
}

TEST_CASE("randint gives the same numbers in every integer type", "[random]") {
  Rng rng(40);
  const Tensor expected = randint(-100, 100, {1000}, rng);
  for (const DType type : {DType::int8, DType::int16, DType::int32, DType::int64}) {
    Rng twin(40);
    const Tensor x = randint(-100, 100, {1000}, twin, {.dtype = type});
    CHECK(x.dtype() == type);
    CHECK(values(x) == values(expected));
  }
  const Tensor bytes = randint(0, 256, {many}, rng, {.dtype = DType::uint8});
  CHECK(fits(counted(bytes, 256), std::vector<double>(256, 1 / 256.0)));
  const Tensor small = randint(-128, 128, {many}, rng, {.dtype = DType::int8});
  CHECK(number(min(small)) == -128);
  CHECK(number(max(small)) == 127);
}

TEST_CASE("16-bit numbers are the float64 ones, rounded once", "[random][half]") {
  for (const DType type : {DType::float16, DType::bfloat16}) {
    INFO(name(type));
    Rng a(41), b(41);
    CHECK(same(normal({999}, 3, 2, a, {.dtype = type}), normal({999}, 3, 2, b, wide).to(type)));
    CHECK(same(exponential({999}, 2, a, {.dtype = type}), exponential({999}, 2, b, wide).to(type)));
    CHECK(same(truncated_normal({999}, 0, 1, a, {.dtype = type}), truncated_normal({999}, 0, 1, b, wide).to(type)));
  }
}

TEST_CASE("16-bit uniform numbers never reach their open end", "[random][half]") {
  const std::pair<double, double> ranges[] = {{0, 1}, {-1, 0}, {-3, -1}, {2, 2}};
  for (const DType type : {DType::float16, DType::bfloat16})
    for (const auto& [low, high] : ranges) {
      INFO(name(type) << " in [" << low << ", " << high << ")");
      Rng rng(42);
      const std::vector<double> list = values(uniform({many}, low, high, rng, {.dtype = type}));
      CHECK(*std::min_element(list.begin(), list.end()) >= low);
      const double largest = *std::max_element(list.begin(), list.end());
      CHECK((largest < high || low == high));
    }
}

TEST_CASE("the distributions are the same for any number of threads", "[random][threads]") {
  const Tensor p = random_in(0, 1, {300001}, DType::float32, 43);
  const Tensor logits = random_in(-3, 3, {301, 70}, DType::float32, 44);
  const auto draw = [&](int threads_to_use) {
    const ThreadCount count(threads_to_use);
    Rng rng = Rng(45).stream(3);
    std::vector<std::vector<double>> drawn;
    drawn.push_back(values(exponential({300001}, 1, rng)));
    drawn.push_back(values(gumbel({300001}, 0, 1, rng)));
    drawn.push_back(values(uniform({300001}, 0, 1, rng, {.dtype = DType::float16})));
    drawn.push_back(values(bernoulli(p, rng)));
    drawn.push_back(values(categorical(logits, 1001, rng)));
    return drawn;
  };
  const auto one = draw(1);
  for (const int count : {2, 3, 4}) CHECK((draw(count) == one));
}
