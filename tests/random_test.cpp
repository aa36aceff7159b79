// Random numbers: Philox against its published vectors, bounds, moments, and independence of threads and shapes.
#include "tests/support.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <thread>

#include "lib/core/dispatch.hpp"
#include "lib/kernels/draws.hpp"
#include "lib/kernels/philox.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Words = std::array<std::uint32_t, 4>;

struct SampleMoments {
  double mean = 0, variance = 0;
};
SampleMoments moments_of(const std::vector<double>& list) {
  SampleMoments m;
  m.mean = std::accumulate(list.begin(), list.end(), 0.0) / static_cast<double>(list.size());
  for (const double x : list) m.variance += (x - m.mean) * (x - m.mean) / static_cast<double>(list.size());
  return m;
}

/// Whether a mean is within what chance allows.
bool plausible(double mean, double expected, double variance, double count) {
  UNSCOPED_INFO("mean " << mean << ", expected " << expected);
  return std::fabs(mean - expected) <= tolerance::standard_errors * std::sqrt(variance / count);
}

/// Share of the list below each tenth of its distribution; `cumulative` is the distribution function.
template <class F>
void check_deciles(const std::vector<double>& list, F cumulative) {
  std::array<double, 10> bins{};
  for (const double x : list) bins[static_cast<std::size_t>(std::clamp(std::floor(10 * cumulative(x)), 0.0, 9.0))] += 1;
  const auto count = static_cast<double>(list.size());
  for (const double bin : bins) CHECK(plausible(bin / count, 0.1, 0.1 * 0.9, count));
}

/// `count` numbers from where `from` stands against kernels::draw_pair, in every floating type.
template <class Draw>
void check_numbers(const Rng& from, std::int64_t count, kernels::RandomKind kind, double a, double b, Draw draw) {
  const auto [seed, stream, position] = from.state();
  const kernels::RandomTask task{kind, seed, 0, a, b, 0, 0, stream};
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16})
    core::visit_real(dtype, [&, first = position]<class T>(core::Type<T>) {
      Rng rng = from;
      const std::vector<T> drawn = draw(rng, TensorOptions{.dtype = dtype}).template to_vector<T>();
      std::vector<T> expected(static_cast<std::size_t>(count + 1));
      for (std::size_t i = 0; i < drawn.size(); i += 2) kernels::draw_pair(task, first + i / 2, &expected[i]);
      expected.resize(drawn.size());
      INFO("numbers of kind " << static_cast<int>(kind) << " in " << name(dtype));
      CHECK(same_bits(drawn, expected));
    });
}
/// randint and bernoulli against the words of blocks.
void check_whole_numbers(const Rng& from, std::int64_t count) {
  const RngState state = from.state();
  const auto low = static_cast<std::int64_t>(-5e17), high = static_cast<std::int64_t>(4e18);
  const kernels::RandomTask task{kernels::RandomKind::integers, 0, 0, 0, 0, low, high};
  Rng a = from, b = from;
  const std::vector<std::int64_t> whole = randint(low, high, {count}, a).to_vector<std::int64_t>();
  const std::vector<float> hits = bernoulli({count}, 0.3, b).to_vector<float>();
  bool same_whole = true, same_hits = true;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const Words pair = kernels::random_block(state.seed, state.position + i / 2, state.stream);
    const Words four = kernels::random_block(state.seed, state.position + i / 4, state.stream);
    const std::uint32_t upper = pair[i % 2 * 2], lower = pair[i % 2 * 2 + 1];
    same_whole = same_whole && whole[i] == kernels::integer_of<std::int64_t>(task, upper, lower);
    same_hits = same_hits && (hits[i] == 1) == (four[i % 4] < kernels::threshold_of(0.3));
  }
  CHECK(same_whole);
  CHECK(same_hits);
}

double normal_distribution(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

}  // namespace

TEST_CASE("Philox4x32-10 gives the known answers of Random123", "[random]") {
  // Random123 1.09, tests/kat_vectors, lines "philox4x32 10"
  CHECK(kernels::philox4x32({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(kernels::philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(kernels::philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a generator's bits are blocks of its stream", "[random]") {
  Rng rng(0);
  CHECK(rng.bits() == 0x6627e8d5e169c58dull);  // counter 0, key 0: the first known answer
  CHECK(rng.position() == 1);
  CHECK(rng.seed() == 0);
}

TEST_CASE("uniform numbers fill [low, high) evenly", "[random]") {
  const std::int64_t count = 200000;
  for (const DType type : {DType::float32, DType::float64}) {
    Rng rng(1);
    const std::vector<double> list = values(uniform({count}, -2, 3, rng, {.dtype = type}));
    INFO(name(type));
    CHECK(*std::min_element(list.begin(), list.end()) >= -2);
    CHECK(*std::max_element(list.begin(), list.end()) < 3);
    const SampleMoments m = moments_of(list);
    CHECK(plausible(m.mean, 0.5, 25 / 12.0, count));
    // variance of (x - mean)^2 for a uniform distribution of width w: w^4 / 180
    CHECK(plausible(m.variance, 25 / 12.0, 625 / 180.0, count));
    check_deciles(list, [](double x) { return (x + 2) / 5; });
  }
}

TEST_CASE("uniform never reaches its open end, however narrow", "[random]") {
  Rng rng(2);
  const float low = 1, high = std::nextafter(1.0f, 2.0f);
  const std::vector<double> list = values(uniform({1000}, low, high, rng));
  CHECK(std::all_of(list.begin(), list.end(), [&](double x) { return x == static_cast<double>(low); }));
}

TEST_CASE("normal numbers have their mean, deviation and shape", "[random]") {
  const std::int64_t count = 200000;
  for (const DType type : {DType::float32, DType::float64}) {
    Rng rng(3);
    std::vector<double> list = values(normal({count}, 1.5, 2, rng, {.dtype = type}));
    INFO(name(type));
    const SampleMoments m = moments_of(list);
    CHECK(plausible(m.mean, 1.5, 4, count));
    CHECK(plausible(m.variance, 4, 2 * 16, count));
    check_deciles(list, [](double x) { return normal_distribution((x - 1.5) / 2); });
    double third = 0, fourth = 0, neighbours = 0;
    for (double& x : list) x = (x - 1.5) / 2;
    for (std::size_t i = 0; i < list.size(); ++i) {
      third += std::pow(list[i], 3) / static_cast<double>(count);
      fourth += std::pow(list[i], 4) / static_cast<double>(count);
      if (i > 0) neighbours += list[i] * list[i - 1] / static_cast<double>(count);
    }
    CHECK(plausible(third, 0, 15, count));        // E x^6 = 15
    CHECK(plausible(fourth, 3, 105 - 9, count));  // E x^8 = 105
    CHECK(plausible(neighbours, 0, 1, count));    // the two of a Box-Muller pair, and of neighbours, are independent
  }
}

TEST_CASE("truncated normal numbers stay within two standard deviations", "[random]") {
  const std::int64_t count = 200000;
  Rng rng(4);
  const std::vector<double> list = values(truncated_normal({count}, 1, 0.5, rng, {.dtype = DType::float64}));
  CHECK(*std::min_element(list.begin(), list.end()) >= 0);
  CHECK(*std::max_element(list.begin(), list.end()) <= 2);
  const double variance = 0.7737413 * 0.25;  // 1 - 4 phi(2) / (2 Phi(2) - 1), times 0.5^2
  const SampleMoments m = moments_of(list);
  CHECK(plausible(m.mean, 1, variance, count));
  CHECK(plausible(m.variance, variance, 2 * variance * variance, count));
  const double tail = normal_distribution(-2);
  check_deciles(list, [&](double x) { return (normal_distribution((x - 1) / 0.5) - tail) / (1 - 2 * tail); });
}

TEST_CASE("bernoulli gives ones with its probability, in every type", "[random]") {
  const std::int64_t count = 100000;
  for (const DType type : {DType::float32, DType::float64, DType::int32, DType::int64, DType::uint8, DType::bool8})
    for (const double p : {0.0, 0.1, 0.5, 1.0}) {
      Rng rng(5);
      const Tensor x = bernoulli({count}, p, rng, {.dtype = type});
      CHECK(x.dtype() == type);
      const std::vector<double> list = values(x);
      CHECK(std::all_of(list.begin(), list.end(), [](double v) { return v == 0 || v == 1; }));
      CHECK(plausible(moments_of(list).mean, p, p * (1 - p), count));
    }
}

TEST_CASE("randint draws evenly from [low, high)", "[random]") {
  Rng rng(6);
  const std::int64_t count = 70000;
  const std::vector<std::int64_t> list = randint(-3, 4, {count}, rng).to_vector<std::int64_t>();
  std::array<double, 7> bins{};
  for (const std::int64_t x : list) {
    REQUIRE((x >= -3 && x < 4));
    bins[static_cast<std::size_t>(x + 3)] += 1;
  }
  for (const double bin : bins) CHECK(plausible(bin / count, 1 / 7.0, 6 / 49.0, count));
  CHECK(randint(5, 6, {3}, rng).to_vector<std::int64_t>() == std::vector<std::int64_t>{5, 5, 5});
  const std::vector<std::int64_t> wide = randint(INT64_MIN, INT64_MAX, {1000}, rng).to_vector<std::int64_t>();
  CHECK(std::count_if(wide.begin(), wide.end(), [](std::int64_t x) { return x < 0; }) > 400);
  CHECK(std::count_if(wide.begin(), wide.end(), [](std::int64_t x) { return x > 0; }) > 400);
}

TEST_CASE("a permutation holds every number once, and each order comes up", "[random]") {
  Rng rng(7);
  std::vector<std::int64_t> order = permutation(1000, rng).to_vector<std::int64_t>();
  CHECK_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  for (std::int64_t i = 0; i < 1000; ++i) CHECK(order[static_cast<std::size_t>(i)] == i);
  std::array<double, 6> orders{};
  for (int i = 0; i < 6000; ++i) {
    const std::vector<std::int64_t> p = permutation(3, rng).to_vector<std::int64_t>();
    orders[static_cast<std::size_t>(2 * p[0] + (p[1] > p[2] ? 1 : 0))] += 1;
  }
  for (const double n : orders) CHECK(plausible(n / 6000, 1 / 6.0, 5 / 36.0, 6000));
  CHECK(permutation(0, rng).numel() == 0);
  CHECK(permutation(1, rng).item<std::int64_t>() == 0);
}

TEST_CASE("a permutation is that of Fisher and Yates, a draw for each place", "[random]") {
  for (const std::int64_t count : {0, 1, 2, 3, 64, 65, 66, 129, 1000}) {
    INFO(count);
    Rng rng(9), twin(9);
    rng.bits(), twin.bits();
    std::vector<std::int64_t> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = order.size(); i-- > 1;) std::swap(order[i], order[kernels::multiply_high(twin.bits(), i + 1)]);
    CHECK(permutation(count, rng).to_vector<std::int64_t>() == order);
    CHECK(rng.state() == twin.state());
  }
}

TEST_CASE("shuffle moves whole rows", "[random]") {
  Rng rng(8), twin(8);
  const Tensor x = reshape(arange(30), {10, 3});
  const Tensor mixed = shuffle(x, rng);
  CHECK(same(mixed, gather(x, permutation(10, twin))));
  CHECK_FALSE(array_equal(mixed, x));
  CHECK(same(sum(mixed, 0), sum(x, 0)));
}

TEST_CASE("numbers depend on seed and position alone", "[random]") {
  Rng a(9), b(9), other(10);
  const Tensor first = uniform({12}, 0, 1, a);
  CHECK(same(reshape(uniform({3, 4}, 0, 1, b), {12}), first));  // not on the shape
  CHECK_FALSE(array_equal(uniform({12}, 0, 1, other), first));
  CHECK_FALSE(array_equal(uniform({12}, 0, 1, a), first));  // the stream goes on
  Rng copied = a;
  CHECK(same(normal({5}, a), normal({5}, copied)));  // a copy goes on with the same numbers
  a.set_position(0);
  CHECK(same(uniform({12}, 0, 1, a), first));
}

// The rule itself is tested above; here, that many blocks side by side give what it says of each.
TEST_CASE("numbers drawn side by side are those of their blocks, one by one", "[random]") {
  using kernels::RandomKind;
  const std::uint64_t carry = (std::uint64_t{1} << 32) - 9, wrap = ~std::uint64_t{0} - 100;
  for (const std::uint64_t position : {std::uint64_t{0}, carry, wrap})
    for (const std::int64_t count : {1, 2, 31, 32, 33, 63, 1023, 1024, 1025, 2049, 5003}) {
      INFO(count << " from block " << position);
      Rng from = Rng(0x123456789abcdefu).stream(77);
      from.set_position(position);
      const Shape shape{count};
      using Options = TensorOptions;
      const auto uniformly = [&](double a, double b) {
        check_numbers(from, count, RandomKind::uniform, a, b,
                      [&](Rng& r, Options o) { return uniform(shape, a, b, r, o); });
      };
      uniformly(-0.75, 2.5);
      uniformly(-1e-8, 1e-8);  // zeros of both signs as 16-bit numbers
      uniformly(1, 1 + 0x1p-9);
      check_numbers(from, count, RandomKind::normal, 1, 2.5,
                    [&](Rng& r, Options o) { return normal(shape, 1, 2.5, r, o); });
      check_numbers(from, count, RandomKind::truncated_normal, 1, 2.5,
                    [&](Rng& r, Options o) { return truncated_normal(shape, 1, 2.5, r, o); });
      check_numbers(from, count, RandomKind::exponential, 2.5, 0,
                    [&](Rng& r, Options o) { return exponential(shape, 2.5, r, o); });
      check_numbers(from, count, RandomKind::gumbel, 1, 2.5,
                    [&](Rng& r, Options o) { return gumbel(shape, 1, 2.5, r, o); });
      check_whole_numbers(from, count);
    }
}

TEST_CASE("a generator does not move on when a draw fails", "[random][errors][host]") {
  Rng rng(1);
  rng.bits();
  const std::uint64_t before = rng.position();
  const auto draws = [&](const Tensor& x) { return x + uniform({3}, 0, 1, rng); };
  CHECK_THROWS_AS(freeze(draws, {{3}}), Error);
  CHECK(rng.position() == before);
}

TEST_CASE("draws of one stream do not overlap", "[random]") {
  Rng rng(11);
  std::vector<double> all_numbers;
  for (const std::int64_t count : {1, 2, 3, 7, 100}) {
    const std::vector<double> list = values(uniform({count}, 0, 1, rng, {.dtype = DType::float64}));
    all_numbers.insert(all_numbers.end(), list.begin(), list.end());
  }
  std::sort(all_numbers.begin(), all_numbers.end());
  CHECK(std::adjacent_find(all_numbers.begin(), all_numbers.end()) == all_numbers.end());
}

TEST_CASE("each thread has a default generator of its own, seeded alike", "[random][threads]") {
  seed(0);
  const std::vector<float> here = uniform({4}, 0, 1).to_vector<float>();
  std::vector<float> there;
  std::thread([&] { there = uniform({4}, 0, 1).to_vector<float>(); }).join();
  CHECK(same_bits(here, there));
  const std::vector<float> next = uniform({4}, 0, 1).to_vector<float>();
  CHECK_FALSE(same_bits(here, next));
  seed(0);
  CHECK(same_bits(uniform({4}, 0, 1).to_vector<float>(), here));
}

TEST_CASE("numbers are the same for any number of threads", "[random][threads]") {
  const auto draw = [](int threads_to_use) {
    const ThreadCount count(threads_to_use);
    Rng rng(12);
    std::vector<std::vector<double>> drawn;
    drawn.push_back(values(uniform({300001}, 0, 1, rng)));
    drawn.push_back(values(normal({300001}, rng)));
    drawn.push_back(values(truncated_normal({100001}, 0, 1, rng)));
    drawn.push_back(values(bernoulli({300001}, 0.3, rng)));
    drawn.push_back(values(randint(0, 1000, {300001}, rng)));
    return drawn;
  };
  const auto one = draw(1);
  for (const int count : {2, 3, 4}) CHECK((draw(count) == one));
}
