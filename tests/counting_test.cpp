// Distinct elements, searching and counting: against the standard library, and NumPy's documentation.
#include "tests/support.hpp"

#include <algorithm>
#include <numeric>
#include <random>

using namespace capstan;
using namespace tests;

namespace {

using Indices = std::vector<std::int64_t>;

Tensor int64s(const Indices& list) { return from_vector(list); }

const DType every_type[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::int8,
                            DType::int16,   DType::int32,   DType::int64,   DType::uint8,    DType::bool8};

/// Whole numbers from 0 to 11, which every type but bool holds; of floating types now and then NaN.
Tensor few_numbers(const Shape& shape, DType type, std::uint64_t seed) {
  std::mt19937_64 bits(seed);
  std::vector<double> numbers(static_cast<std::size_t>(shape.numel()));
  for (double& x : numbers) {
    x = static_cast<double>(bits() % 12);
    if (type == DType::bool8) x = x > 5 ? 1 : 0;
    if (is_floating(type) && x == 11) x = kNaN;
  }
  return from_doubles(numbers, shape, type);
}

bool comes_before(double a, double b) { return !std::isnan(a) && (std::isnan(b) || a < b); }

}  // namespace

TEST_CASE("unique_all is the one NumPy's documentation shows", "[order]") {
  const UniqueResult u = unique_all(Tensor{1, 2, 6, 4, 2, 3, 2});
  CHECK(same(u.values, {1, 2, 3, 4, 6}));
  CHECK(same(u.indices, int64s({0, 1, 5, 3, 2})));
  CHECK(same(u.inverse_indices, int64s({0, 1, 4, 3, 1, 2, 1})));
  CHECK(same(u.counts, int64s({1, 3, 1, 1, 1})));
  CHECK(same(unique(Tensor{{1, 1}, {2, 3}}), {1, 2, 3}));
}

TEST_CASE("distinct elements put back in their places give the tensor", "[order]") {
  for (const DType type : every_type)
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{0}, Shape{7}, Shape{500}, Shape{13, 40}}) {
      INFO(name(type) << " " << to_string(shape));
      const Tensor x = strided(few_numbers(shape, type, 211));
      const UniqueResult u = unique_all(x);
      CHECK(same(u.values, unique(x)));
      CHECK(u.inverse_indices.shape() == shape);
      const std::vector<double> list = values(x), distinct = values(u.values);
      const Indices back = u.inverse_indices.to_vector<std::int64_t>(), first = u.indices.to_vector<std::int64_t>();
      Indices counts(distinct.size(), 0);
      std::vector<double> rebuilt;
      for (const std::int64_t i : back) {
        rebuilt.push_back(distinct.at(static_cast<std::size_t>(i)));
        ++counts[static_cast<std::size_t>(i)];
      }
      CHECK(relative_error(rebuilt, list) == 0);
      CHECK(u.counts.to_vector<std::int64_t>() == counts);
      for (std::size_t i = 0; i + 1 < distinct.size(); ++i)
        CHECK((comes_before(distinct[i], distinct[i + 1]) || std::isnan(distinct[i])));
      for (std::size_t i = 0; i < first.size(); ++i) {
        const auto found = std::find(back.begin(), back.end(), static_cast<std::int64_t>(i));
        CHECK(found - back.begin() == first[i]);
      }
    }
}

TEST_CASE("every NaN is an element of its own, and zeros are one", "[order]") {
  const UniqueResult u = unique_all(Tensor{kNaN, 0.0, kNaN, -0.0});
  CHECK(same(u.values, {0.0, kNaN, kNaN}));
  CHECK(same(u.counts, int64s({2, 1, 1})));
  CHECK(same(u.inverse_indices, int64s({1, 0, 2, 0})));
}

TEST_CASE("searchsorted is the one NumPy's documentation shows", "[order]") {
  const Tensor sorted = {11, 12, 13, 14, 15};
  CHECK(searchsorted(sorted, Tensor(13)).item<std::int64_t>() == 2);
  CHECK(searchsorted(sorted, Tensor(13), {.right = true}).item<std::int64_t>() == 3);
  CHECK(same(searchsorted(sorted, Tensor{-10, 20, 12, 13}), int64s({0, 5, 1, 2})));
  CHECK(same(bucketize(Tensor{-10, 20, 12, 13}, sorted, {.right = true}), int64s({0, 5, 2, 3})));
}

TEST_CASE("searchsorted agrees with the standard library's bounds", "[order]") {
  for (const DType type : every_type)
    for (const std::int64_t n : {0, 1, 2, 31, 100})
      for (const bool right : {false, true}) {
        INFO(name(type) << " among " << n << (right ? " right" : " left"));
        const Tensor sorted = sort(few_numbers({n}, type, 212)), x = strided(few_numbers({20, 300}, type, 213));
        const std::vector<double> table = values(sorted), list = values(x);
        Indices expected;
        for (const double v : list) {
          const auto found = right ? std::upper_bound(table.begin(), table.end(), v, comes_before)
                                   : std::lower_bound(table.begin(), table.end(), v, comes_before);
          expected.push_back(found - table.begin());
        }
        const Tensor places = searchsorted(sorted, x, {.right = right});
        CHECK(places.shape() == x.shape());
        CHECK(places.to_vector<std::int64_t>() == expected);
      }
}

TEST_CASE("searchsorted goes row by row where there are rows, and promotes types", "[order]") {
  const Tensor rows = {{1.0, 3.0, 5.0, 7.0, 9.0}, {2.0, 4.0, 6.0, 8.0, 10.0}}, x = {{3.0, 6.0, 9.0}, {3.0, 6.0, 9.0}};
  CHECK(same(searchsorted(rows, x), reshape(int64s({1, 3, 4, 1, 2, 4}), {2, 3})));  // PyTorch's documentation
  CHECK(same(searchsorted(rows, x, {.right = true}), reshape(int64s({2, 3, 5, 1, 3, 4}), {2, 3})));
  CHECK(same(searchsorted(rows[0], x.to(DType::float32)), reshape(int64s({1, 3, 4, 1, 3, 4}), {2, 3})));
  CHECK(same(searchsorted(Tensor{1, 3}, int64s({2, 1LL << 40})), int64s({1, 2})));
  CHECK(searchsorted(zeros({2, 0}), zeros({2, 3})).to_vector<std::int64_t>() == Indices(6, 0));
  CHECK(searchsorted(zeros({3}), zeros({0, 2})).shape() == Shape{0, 2});
}

TEST_CASE("histogram is the one NumPy's documentation shows", "[order]") {
  const HistogramResult h = histogram(Tensor{1.0, 2.0, 1.0}, 3, 0, 3);
  CHECK(same(h.counts, int64s({0, 2, 1})));
  CHECK(same(h.edges, {0.0, 1.0, 2.0, 3.0}));
  CHECK(same(histogram(Tensor{0, 1, 2, 3}, 4, 0, 4).counts, int64s({1, 1, 1, 1})));
}

TEST_CASE("the last bin of a histogram holds its upper edge, and what lies outside does not count", "[order]") {
  const Tensor x = {1.0f, 2.0f, 3.0f, 0.5f, 3.5f, static_cast<float>(kNaN), static_cast<float>(kInfinity)};
  CHECK(same(histogram(x, 2, 1, 3).counts, int64s({1, 2})));  // [1, 2), [2, 3]
  CHECK(same(histogram(x, 2, 1, 3).edges, {1.0f, 2.0f, 3.0f}));
}

TEST_CASE("a histogram without limits reaches from the smallest to the largest element", "[order]") {
  const HistogramResult h = histogram(Tensor{4, 1, 2, 3}, 3);
  CHECK(same(h.counts, int64s({1, 1, 2})));
  CHECK(same(h.edges, {1.0, 2.0, 3.0, 4.0}));  // float64 for integers
  CHECK(same(histogram(Tensor{2.0, 2.0}, 2).edges, {1.5, 2.0, 2.5}));
  CHECK(same(histogram(Tensor{2.0, 2.0}, 2).counts, int64s({0, 2})));
  CHECK(same(histogram(zeros({0}), 2).edges, {0.0f, 0.5f, 1.0f}));
  CHECK(same(histogram(zeros({0}), 2).counts, int64s({0, 0})));
  CHECK(histogram(zeros({2, 3})).counts.shape() == Shape{10});
}

TEST_CASE("the edges of a histogram decide where an element belongs", "[order]") {
  for (const DType type : {DType::float32, DType::float64}) {
    const HistogramResult h = histogram(random_in(0, 1, {3, 70001}, type, 214), 97, 0, 1);
    CHECK(same(histogram(h.edges, 97, 0, 1).counts, int64s([] {
                 Indices counts(97, 1);
                 counts.back() = 2;  // its lower and its upper edge
                 return counts;
               }())));
    CHECK(sum(h.counts).item<std::int64_t>() == 3 * 70001);
  }
  const Tensor x = random_in(0, 1, {5000}, DType::float64, 215);
  const HistogramResult h = histogram(x, 13, 0.1, 0.9);
  const std::vector<double> list = values(x), edges = values(h.edges);
  Indices expected(13, 0);
  for (const double v : list)
    if (v >= edges.front() && v <= edges.back()) {
      const auto above = std::upper_bound(edges.begin(), edges.end() - 1, v);
      ++expected[static_cast<std::size_t>(above - edges.begin() - 1)];
    }
  CHECK(h.counts.to_vector<std::int64_t>() == expected);
}

TEST_CASE("tenths fall into the bins that NumPy puts them in", "[order]") {
  const Tensor x = {0.1, 0.3, 0.6, 0.7};  // 3 * 0.1 is above 0.3, and so on
  CHECK(same(histogram(x, 10, 0, 1).counts, int64s({0, 1, 1, 0, 0, 1, 1, 0, 0, 0})));  // numpy.histogram
  CHECK(same(histogram(x, 10, 0, 1).edges,                                             // numpy.linspace
             {0.0, 0.1, 0.2, 0.30000000000000004, 0.4, 0.5, 0.6000000000000001, 0.7000000000000001, 0.8, 0.9, 1.0}));
}

TEST_CASE("weights are added up in their own type, the same with any number of threads", "[order][threads]") {
  const HistogramResult h = histogram(Tensor{1, 2, 1}, 2, 1, 2, Tensor{0.5f, 4.0f, 0.25f});
  CHECK(same(h.counts, {0.75f, 4.0f}));
  const Tensor x = random_in(0, 1, {300000}, DType::float32, 216), w = random_in(-1, 1, {300000}, DType::float64, 217);
  std::vector<double> one;
  for (const int count : {1, 2, 3}) {
    const ThreadCount threads_for_now(count);
    const std::vector<double> now = values(histogram(x, 10, w).counts);
    if (count == 1) one = now;
    CHECK(same_bits(now, one));
  }
}

TEST_CASE("bincount is the one NumPy's documentation shows", "[order]") {
  CHECK(same(bincount(Tensor{0, 1, 1, 3, 2, 1, 7}), int64s({1, 3, 1, 1, 0, 0, 0, 1})));
  CHECK(close(bincount(Tensor{0, 1, 1, 2, 2, 2}, 0, Tensor{0.3, 0.5, 0.2, 0.7, 1.0, -0.6}), {0.3, 0.7, 1.1},
              tolerance::roundings64));
  CHECK(same(bincount(Tensor{1, 1}, 4), int64s({0, 2, 0, 0})));
  CHECK(same(bincount(zeros({0}, {.dtype = DType::int64}), 2), int64s({0, 0})));
  CHECK(bincount(zeros({0}, {.dtype = DType::int64})).shape() == Shape{0});
  CHECK(same(bincount(transpose(Tensor{{0, 2}, {1, 2}})), int64s({1, 1, 2})));
  CHECK(same(bincount(full({70000}, 200, {.dtype = DType::uint8})),
             concat({zeros({200}, {.dtype = DType::int64}), int64s({70000})})));
}
