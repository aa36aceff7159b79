// Sorting and choosing by rank: against the standard library on random elements of every type, published examples, and
// the edges.
#include "tests/support.hpp"

#include <algorithm>
#include <numeric>
#include <random>

using namespace capstan;
using namespace tests;

namespace {

using Indices = std::vector<std::int64_t>;

const DType every_type[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::int8,
                            DType::int16,   DType::int32,   DType::int64,   DType::uint8,    DType::bool8};

/// Few different elements, so that many are equal; of floating types also NaN, infinities and both zeros.
Tensor sortable(const Shape& shape, DType type, std::uint64_t seed) {
  std::mt19937_64 bits(seed);
  std::vector<double> numbers(static_cast<std::size_t>(shape.numel()));
  for (double& x : numbers) {
    const int choice = static_cast<int>(bits() % 40);
    if (type == DType::bool8) x = choice % 2;
    else if (type == DType::uint8) x = choice * 6;
    else if (!is_floating(type)) x = choice - 20;
    else if (choice == 0) x = kNaN;
    else if (choice <= 2) x = choice == 1 ? kInfinity : -kInfinity;
    else x = choice == 3 ? -0.0 : (choice - 20) / 4.0;
  }
  return from_doubles(numbers, shape, type);
}

/// The rule that the headers state: by size, NaN behind everything.
bool comes_before(double a, double b) { return !std::isnan(a) && (std::isnan(b) || a < b); }

Indices stable_order(const std::vector<double>& row, bool descending) {
  Indices order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
    const double a = row[static_cast<std::size_t>(i)], b = row[static_cast<std::size_t>(j)];
    return descending ? comes_before(b, a) : comes_before(a, b);
  });
  return order;
}

/// Calls `f(places)` for every row along an axis, with where its elements stand in the row-major list.
template <class F>
void each_row(const Shape& shape, int axis, F f) {
  std::int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= shape[i];
  for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < inner; ++i) {
      std::vector<std::size_t> places;
      for (std::int64_t k = 0; k < shape[axis]; ++k)
        places.push_back(static_cast<std::size_t>((o * shape[axis] + k) * inner + i));
      f(places);
    }
}

struct Sorted {
  std::vector<double> values;
  Indices indices;
};

/// The first k of every row along an axis, sorted by the standard library; row-major in the shape with k there.
Sorted first_of_sorted(const Tensor& x, int axis, std::int64_t k, bool descending) {
  const std::vector<double> list = values(x);
  std::vector<std::int64_t> sizes(x.shape().begin(), x.shape().end());
  sizes[static_cast<std::size_t>(axis)] = k;
  const Shape shape{std::span<const std::int64_t>(sizes)};
  Sorted result{std::vector<double>(static_cast<std::size_t>(shape.numel())),
                Indices(static_cast<std::size_t>(shape.numel()))};
  std::vector<std::vector<std::size_t>> targets;
  if (k > 0) each_row(shape, axis, [&](const std::vector<std::size_t>& places) { targets.push_back(places); });
  std::size_t next = 0;
  if (k > 0)
    each_row(x.shape(), axis, [&](const std::vector<std::size_t>& places) {
      std::vector<double> row;
      for (const std::size_t place : places) row.push_back(list[place]);
      const Indices order = stable_order(row, descending);
      const std::vector<std::size_t>& target = targets[next++];
      for (std::size_t i = 0; i < target.size(); ++i) {
        result.indices[target[i]] = order[i];
        result.values[target[i]] = row[static_cast<std::size_t>(order[i])];
      }
    });
  return result;
}

bool is(const Tensor& actual_values, const Tensor& actual_indices, const Sorted& expected) {
  return relative_error(values(actual_values), expected.values) == 0 &&
         actual_indices.to_vector<std::int64_t>() == expected.indices;
}

void check_sorts(const Tensor& x, int axis) {
  for (const bool descending : {false, true}) {
    INFO(to_string(x.shape()) << " " << name(x.dtype()) << " axis " << axis << (descending ? " downwards" : "")
                              << (x.is_contiguous() ? "" : " strided"));
    const Sorted expected = first_of_sorted(x, axis, x.size(axis), descending);
    const SortResult both = sort_with_indices(x, axis, {.descending = descending});
    CHECK(both.values.dtype() == x.dtype());
    CHECK(both.values.shape() == x.shape());
    CHECK(is(both.values, both.indices, expected));
    CHECK(is(sort(x, axis, {.descending = descending}), argsort(x, axis, {.descending = descending}), expected));
  }
}

void check_topk(const Tensor& x, int axis, std::int64_t k) {
  for (const bool largest : {false, true}) {
    INFO("the " << k << (largest ? " largest" : " smallest") << " of " << to_string(x.shape()) << " " << name(x.dtype())
                << " axis " << axis);
    const Sorted expected = first_of_sorted(x, axis, k, largest);
    const TopkResult best = topk(x, k, axis, {.largest = largest});
    CHECK(best.values.size(axis) == k);
    CHECK(best.values.dtype() == x.dtype());
    CHECK(is(best.values, best.indices, expected));
    const TopkResult unordered = topk(x, k, axis, {.largest = largest, .sorted = false});
    CHECK(same(sort(unordered.indices, axis), sort(best.indices, axis)));
    CHECK(same(sort(unordered.values, axis), sort(best.values, axis)));
  }
}

Tensor int64s(const Indices& list) { return from_vector(list); }

}  // namespace

TEST_CASE("sorting agrees with std::stable_sort for all types, shapes, axes and layouts", "[order]") {
  const Shape shapes[] = {{1}, {7}, {64}, {65}, {300}, {5, 9}, {3, 70, 2}, {2, 3, 4, 5}, {1, 200, 1}, {0, 3}, {3, 0}};
  for (const DType type : every_type)
    for (const Shape& shape : shapes)
      for (int axis = 0; axis < shape.rank(); ++axis) {
        const Tensor x = sortable(shape, type, 201);
        check_sorts(x, axis);
        check_sorts(strided(x), axis);
      }
}

TEST_CASE("topk agrees with the beginning of a stable sort", "[order]") {
  const Shape shapes[] = {{1}, {40}, {700}, {9, 150}, {2, 300, 3}};
  for (const DType type : every_type)
    for (const Shape& shape : shapes)
      for (int axis = 0; axis < shape.rank(); ++axis)
        for (const std::int64_t part : {0, 1, 8, 20, 41}) {  // of 41: none of the row, one by one, all
          const std::int64_t k = part <= 1 ? part : shape[axis] * part / 41;
          check_topk(sortable(shape, type, 202), axis, k);
          check_topk(strided(sortable(shape, type, 203)), axis, k);
        }
}

TEST_CASE("long rows sort the same with any number of threads", "[order][threads]") {
  for (const DType type : {DType::float32, DType::float64, DType::int8})
    for (const Shape& shape : {Shape{70001}, Shape{2, 66000}}) {
      const Tensor x = sortable(shape, type, 204);
      const int axis = shape.rank() - 1;
      for (const int count : {1, 2, 3}) {
        const ThreadCount threads_for_now(count);
        INFO(count << " threads");
        check_sorts(x, axis);
        for (const std::int64_t k : {5, 5000}) check_topk(x, axis, k);
      }
    }
}

TEST_CASE("the order of unordered results does not depend on the number of threads", "[order][threads]") {
  const Tensor x = random_in(-1, 1, {200000}, DType::float32, 205);
  Indices one;
  for (const int count : {1, 2, 4}) {
    const ThreadCount threads_for_now(count);
    const Indices now = topk(x, 100, 0, {.sorted = false}).indices.to_vector<std::int64_t>();
    if (count == 1) one = now;
    CHECK(now == one);
  }
}

TEST_CASE("topk finds the best also where every element is better than all before it, or none is", "[order]") {
  const std::int64_t n = 3000;
  std::vector<double> rising(static_cast<std::size_t>(n));
  std::iota(rising.begin(), rising.end(), 0);
  const Tensor up = from_doubles(rising, {n}, DType::float32), down = -up, flat = zeros({n});
  for (const std::int64_t k : {1, 10, 100, 300})
    for (const Tensor& x : {up, down, flat}) check_topk(x, 0, k);
  const Tensor rows = stack({up, down, flat});
  check_topk(rows, 1, 50);
  check_topk(transpose(rows), 0, 50);
}

TEST_CASE("sorting tells the smallest and largest integers apart", "[order]") {
  const Tensor x = int64s({0, INT64_MIN, INT64_MAX, -1, INT64_MIN + 1, INT64_MAX - 1});  // doubles would be equal
  CHECK(sort(x).to_vector<std::int64_t>() == Indices{INT64_MIN, INT64_MIN + 1, -1, 0, INT64_MAX - 1, INT64_MAX});
  CHECK(argsort(x).to_vector<std::int64_t>() == Indices{1, 4, 3, 0, 5, 2});
  CHECK(topk(x, 1).indices.to_vector<std::int64_t>() == Indices{2});
}

TEST_CASE("zeros of both signs are equal and keep their order", "[order]") {
  const Tensor x = {0.0f, -0.0f, 0.0f, -1.0f, -0.0f};
  for (const bool with_indices : {false, true}) {
    const std::vector<float> up = (with_indices ? sort_with_indices(x).values : sort(x)).to_vector<float>();
    CHECK(same_bits(up, std::vector<float>{-1.0f, 0.0f, -0.0f, 0.0f, -0.0f}));
  }
  CHECK(same(argsort(x, 0, {.descending = true}), int64s({0, 1, 2, 4, 3})));
}

TEST_CASE("NaN is larger than everything, whatever its sign", "[order]") {
  const Tensor x = {kNaN, 1.0, kInfinity, -kNaN, -kInfinity};
  CHECK(same(sort(x), {-kInfinity, 1.0, kInfinity, kNaN, kNaN}));
  CHECK(same(argsort(x), int64s({4, 1, 2, 0, 3})));
  CHECK(same(sort(x, 0, {.descending = true}), {kNaN, kNaN, kInfinity, 1.0, -kInfinity}));
  CHECK(same(topk(x, 3).indices, int64s({0, 3, 2})));
  CHECK(same(topk(x, 2, 0, {.largest = false}).values, {-kInfinity, 1.0}));
}

TEST_CASE("sorting copes with views of every kind", "[order]") {
  const Tensor x = {3.0f, 1.0f, 2.0f};
  CHECK(same(sort(x.index({from(-1, -1)})), {1.0f, 2.0f, 3.0f}));
  CHECK(same(argsort(x.index({from(-1, -1)})), int64s({1, 0, 2})));  // of 2, 1, 3
  CHECK(same(argsort(broadcast_to(x, {2, 3}), -1), {{std::int64_t{1}, std::int64_t{2}, std::int64_t{0}},
                                                    {std::int64_t{1}, std::int64_t{2}, std::int64_t{0}}}));
  CHECK(same(argsort(broadcast_to(x, {2, 3}), 0), {{std::int64_t{0}, std::int64_t{0}, std::int64_t{0}},
                                                   {std::int64_t{1}, std::int64_t{1}, std::int64_t{1}}}));
  CHECK(same(sort(x.index({range(1, 3)}), -1, {.descending = true}), {2.0f, 1.0f}));
}

TEST_CASE("a sort that is recorded gives the same values as one that is not", "[order]") {
  for (const DType type : {DType::float32, DType::float64, DType::float16}) {
    const Tensor x = sortable({6, 100}, type, 206);
    const Tensor plain = sort(x);
    GradientTape tape;
    tape.watch(x);
    CHECK(same(sort(x), plain));
  }
}

TEST_CASE("kthvalue counts from one and drops its axis or keeps it", "[order]") {
  const Tensor x = {{5.0f, 1.0f, 3.0f, 3.0f}, {2.0f, float(kNaN), 0.0f, 4.0f}};
  const KthResult second = kthvalue(x, 2);
  CHECK(same(second.values, {3.0f, 2.0f}));
  CHECK(same(second.indices, int64s({2, 0})));  // of two equal ones the first comes first
  CHECK(same(kthvalue(x, 3).indices, int64s({3, 3})));
  CHECK(std::isnan(number(kthvalue(x[1], 4).values)));  // the largest is NaN
  CHECK(kthvalue(x, 1, -1, {.keepdims = true}).values.shape() == Shape{2, 1});
  CHECK(kthvalue(x, 1, -1, {.keepdims = true}).indices.shape() == Shape{2, 1});
  CHECK(same(kthvalue(x, 1, 0).values, {2.0f, 1.0f, 0.0f, 3.0f}));
  CHECK(same(kthvalue(Tensor{3, 1, 2}, 1).values, Tensor(1)));
  CHECK(kthvalue(zeros({0, 3}), 1, 1).values.shape() == Shape{0});
}

TEST_CASE("medians are the ones NumPy's documentation shows", "[order]") {
  const Tensor a = {{10.0, 7.0, 4.0}, {3.0, 2.0, 1.0}};
  CHECK(same(median(a), Tensor(3.5)));
  CHECK(same(median(a, 0), {6.5, 4.5, 2.5}));
  CHECK(same(median(a, 1), {7.0, 2.0}));
  CHECK(same(median(a, 1, {.keepdims = true}), {{7.0}, {2.0}}));
  CHECK(same(median(a, {0, 1}, {.keepdims = true}), {{3.5}}));
  CHECK(same(median(Tensor(5.0f)), Tensor(5.0f)));
  CHECK(same(median(a.to(DType::float16), 0), from_doubles({6.5, 4.5, 2.5}, {3}, DType::float16)));
}

TEST_CASE("the middle of two numbers is rounded once, however small or large they are", "[order][half]") {
  for (const double least : {0x1p-24, 3 * 0x1p-24, 65504.0}) {
    const Tensor one = Tensor(least).to(DType::float16);
    CHECK(same(median(stack({one, one})), one));
  }
  const auto half = [](double x) { return Tensor(x).to(DType::float16); };
  CHECK(same(median(stack({half(0x1p-24), half(0x1p-23)})), half(0x1p-23)));  // 1.5 * 2^-24, to even
  CHECK(same(median(stack({half(65504), half(65472)})), half(65472)));        // 65488, to even
  CHECK(same(median(Tensor{0x1p-149f, 0x1p-149f}), Tensor(0x1p-149f)));
  CHECK(same(median(Tensor{3e38f, 3e38f}), Tensor(3e38f)));
  CHECK(same(median(Tensor{-kInfinity, kInfinity}), Tensor(kNaN)));
}

TEST_CASE("quantiles are the ones NumPy's documentation shows", "[order]") {
  const Tensor a = {{10.0, 7.0, 4.0}, {3.0, 2.0, 1.0}};
  CHECK(same(quantile(a, 0.5), Tensor(3.5)));
  CHECK(same(quantile(a, 0.5, 0), {6.5, 4.5, 2.5}));
  CHECK(same(quantile(a, 0.5, 1), {7.0, 2.0}));
  CHECK(same(quantile(a, 0.5, 1, {.keepdims = true}), {{7.0}, {2.0}}));
}

TEST_CASE("each method takes its own value between two neighbours", "[order]") {
  const Tensor x = {3.0, 0.0, 2.0, 1.0};
  const auto at = [&](double q, QuantileMethod method) { return number(quantile(x, q, {}, {.method = method})); };
  CHECK(std::fabs(at(0.4, QuantileMethod::linear) - 1.2) <= tolerance::roundings64);  // position 0.4 * 3
  CHECK(at(0.4, QuantileMethod::lower) == 1);
  CHECK(at(0.4, QuantileMethod::higher) == 2);
  CHECK(at(0.4, QuantileMethod::midpoint) == 1.5);
  CHECK(at(0.4, QuantileMethod::nearest) == 1);
  CHECK(at(0.5, QuantileMethod::nearest) == 2);  // position 1.5: the even one
  for (const QuantileMethod method : {QuantileMethod::linear, QuantileMethod::lower, QuantileMethod::higher,
                                      QuantileMethod::midpoint, QuantileMethod::nearest}) {
    CHECK(at(0, method) == 0);
    CHECK(at(1, method) == 3);
  }
}

TEST_CASE("several quantiles become the first axis", "[order]") {
  const Tensor a = {{10.0, 7.0, 4.0}, {3.0, 2.0, 1.0}};
  CHECK(same(quantile(a, {0.0, 0.5, 1.0}, 1), {{4.0, 1.0}, {7.0, 2.0}, {10.0, 3.0}}));
  CHECK(quantile(a, {0.25, 0.75}, 1, {.keepdims = true}).shape() == Shape{2, 2, 1});
  CHECK(same(quantile(a, {0.0, 1.0}), {1.0, 10.0}));
  CHECK(quantile(a, Tensor(0.5), 0).shape() == Shape{3});  // a tensor without axes counts as a number
  CHECK(quantile(a, zeros({0}), 0).shape() == Shape{0, 3});
  CHECK(same(quantile(a.to(DType::float32), Tensor{0.5f}), {3.5f}));
}

TEST_CASE("medians and quantiles are NaN if there is one, and take infinities as they are", "[order]") {
  const Tensor x = {{1.0, kNaN, 3.0}, {kInfinity, 2.0, kInfinity}};
  CHECK(same(median(x, 1), {kNaN, kInfinity}));
  CHECK(same(quantile(x, 0.0, 1), {kNaN, 2.0}));
  CHECK(same(quantile(x, {0.0, 0.75, 1.0}, 1, {.method = QuantileMethod::midpoint}),
             {{kNaN, 2.0}, {kNaN, kInfinity}, {kNaN, kInfinity}}));
  const Tensor half_infinite = {1.0, kInfinity};
  CHECK(same(quantile(half_infinite, {0.0, 0.5, 1.0}), {1.0, kInfinity, kInfinity}));  // no difference of infinities
  CHECK(same(quantile(Tensor{-kInfinity, 5.0}, {0.0, 0.25, 0.75, 1.0}), {-kInfinity, -kInfinity, -kInfinity, 5.0}));
  CHECK(same(quantile(Tensor{kInfinity, kInfinity}, 0.3), Tensor(kInfinity)));
  CHECK(same(quantile(Tensor{-kInfinity, kInfinity}, 0.3), Tensor(kNaN)));
  CHECK(same(quantile(Tensor{-1.5e308, 1.5e308}, {0.5, 0.75}), {0.0, 0.75e308}));  // whose difference is too large
  CHECK(same(quantile(Tensor{0.1, 0.1, 0.1}, 0.3), Tensor(0.1)));                  // nor a rounding between equal ones
}

TEST_CASE("gradients of what is chosen go to the elements that the indices name", "[order]") {
  const Tensor x = {2.0, 5.0, 5.0, 1.0}, w = {1.0, 10.0, 100.0, 1000.0};
  const auto slope = [&](const auto& f) {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(f(x), x);
  };
  CHECK(same(slope([&](const Tensor& t) { return sum(sort(t) * w); }), {10.0, 100.0, 1000.0, 1.0}));
  CHECK(same(slope([&](const Tensor& t) { return sum(topk(t, 1).values); }), {0.0, 1.0, 0.0, 0.0}));  // the first 5
  CHECK(same(slope([&](const Tensor& t) { return kthvalue(t, 1).values; }), {0.0, 0.0, 0.0, 1.0}));
  CHECK(same(slope([&](const Tensor& t) { return median(t); }), {0.5, 0.5, 0.0, 0.0}));            // (2 + 5) / 2
  CHECK(same(slope([&](const Tensor& t) { return quantile(t, 0.25); }), {0.75, 0.0, 0.0, 0.25}));  // position 0.75
}

TEST_CASE("argmin is the argmax of what is turned around", "[order]") {
  const Tensor x = {{3.0f, 1.0f, 1.0f}, {7.0f, 0.0f, 7.0f}};
  CHECK(same(argmin(x, 0), int64s({0, 1, 0})));
  CHECK(same(argmin(x, 1), int64s({1, 1})));  // the first of equal ones
  CHECK(argmin(x, -1, {.keepdims = true}).shape() == Shape{2, 1});
  CHECK(argmin(x).item<std::int64_t>() == 4);
  CHECK(argmin(Tensor{2.0, kNaN, 1.0, kNaN}).item<std::int64_t>() == 1);  // the first NaN wins
  CHECK(argmin(Tensor{5, -5, 3}).item<std::int64_t>() == 1);
  CHECK(argmin(full({3}, 9, {.dtype = DType::uint8})).item<std::int64_t>() == 0);
  CHECK(argmin(zeros({0, 3}), 1).shape() == Shape{0});
}
