// Sums, extremes and their relatives: against loops, accuracy, emptiness, NaN, ties, published values.
#include "tests/support.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

using namespace capstan;
using namespace tests;

namespace {

/// For every axis whether it is reduced; then the shape of the result.
struct Reducing {
  const char* what;
  Axes axes;
  bool reduced[3];
};
const Reducing ways[] = {{"all axes", {}, {true, true, true}},
                         {"axis 0", 0, {true, false, false}},
                         {"axis 1", 1, {false, true, false}},
                         {"axis -1", -1, {false, false, true}},
                         {"axes 0 and 1", {0, 1}, {true, true, false}},
                         {"axes 2 and 0", {2, 0}, {true, false, true}},
                         {"axes -1 and -2", {-1, -2}, {false, true, true}}};

/// Folds x [a, b, c] by hand; `f` is called with the running value and the next one.
template <class F>
std::vector<double> folded(const Tensor& x, const bool (&reduced)[3], double start, F f) {
  const std::vector<double> list = values(x);
  const std::int64_t sizes[3] = {x.size(0), x.size(1), x.size(2)};
  std::int64_t count = 1;
  for (int axis = 0; axis < 3; ++axis) count *= reduced[axis] ? 1 : sizes[axis];
  std::vector<double> result(static_cast<std::size_t>(count), start);
  std::size_t next = 0;
  for (std::int64_t i = 0; i < sizes[0]; ++i)
    for (std::int64_t j = 0; j < sizes[1]; ++j)
      for (std::int64_t k = 0; k < sizes[2]; ++k) {
        std::int64_t at = reduced[0] ? 0 : i;
        if (!reduced[1]) at = at * sizes[1] + j;
        if (!reduced[2]) at = at * sizes[2] + k;
        double& place = result[static_cast<std::size_t>(at)];
        place = f(place, list[next++]);
      }
  return result;
}

const auto plus = [](double a, double b) { return a + b; };
const auto larger = [](double a, double b) { return std::max(a, b); };
const auto smaller = [](double a, double b) { return std::min(a, b); };

/// Any value of the type; its limits and small ones, which meet again, are as likely as all others.
template <class T>
std::vector<T> any_integers(std::int64_t count) {
  std::mt19937_64 random(5);
  std::vector<T> list(static_cast<std::size_t>(count));
  for (T& x : list) {
    const std::uint64_t bits = random();
    switch (bits % 4) {
      case 0: x = bits & 4 ? std::numeric_limits<T>::max() : std::numeric_limits<T>::min(); break;
      case 1: x = static_cast<T>(bits >> 61); break;
      default: x = static_cast<T>(bits >> 8); break;
    }
  }
  return list;
}

/// Along each axis of [rows, columns].
template <class T>
void check_integers(std::int64_t rows, std::int64_t columns) {
  const std::vector<T> list = any_integers<T>(rows * columns);
  const Tensor x = from_vector(list, {rows, columns});
  for (const int axis : {0, 1}) {
    const std::int64_t kept = axis == 0 ? columns : rows, reduced = axis == 0 ? rows : columns;
    std::vector<T> largest, smallest;
    std::vector<std::int64_t> sums, first_largest, first_smallest;
    for (std::int64_t i = 0; i < kept; ++i) {
      std::vector<T> line;
      for (std::int64_t j = 0; j < reduced; ++j)
        line.push_back(list[static_cast<std::size_t>(axis == 0 ? j * columns + i : i * columns + j)]);
      const auto most = std::max_element(line.begin(), line.end()), least = std::min_element(line.begin(), line.end());
      largest.push_back(*most);
      smallest.push_back(*least);
      first_largest.push_back(most - line.begin());
      first_smallest.push_back(least - line.begin());
      sums.push_back(static_cast<std::int64_t>(std::accumulate(
          line.begin(), line.end(), std::uint64_t{0},
          [](std::uint64_t sum, T next) { return sum + static_cast<std::uint64_t>(next); })));  // wraps around
    }
    CHECK(sum(x, axis).template to_vector<std::int64_t>() == sums);
    CHECK(max(x, axis).template to_vector<T>() == largest);
    CHECK(min(x, axis).template to_vector<T>() == smallest);
    CHECK(argmax(x, axis).template to_vector<std::int64_t>() == first_largest);
    CHECK(argmin(x, axis).template to_vector<std::int64_t>() == first_smallest);
  }
}

}  // namespace

TEST_CASE("sums and extremes agree with loops over all axes, shapes and layouts", "[reduce]") {
  const Shape shapes[] = {{2, 3, 4}, {5, 1, 7}, {1, 1, 1}, {3, 17, 2}, {2, 2, 130}, {67, 3, 5}};
  for (const Shape& shape : shapes)
    for (const DType type : {DType::float64, DType::float32, DType::int32})
      for (const bool turned : {false, true}) {
        Tensor x = random_in(-1, 9, shape, type, 81);  // no sum comes near 0, where it would lose all digits
        if (turned) x = transpose(x);
        for (const Reducing& way : ways) {
          INFO(way.what << " of " << to_string(x.shape()) << " " << name(type) << (turned ? " transposed" : ""));
          const double allowed = type == DType::float64 ? tolerance::roundings64 : tolerance::roundings32;
          CHECK(relative_error(values(sum(x, way.axes)), folded(x, way.reduced, 0, plus)) <= allowed);
          CHECK(values(max(x, way.axes)) == folded(x, way.reduced, -kInfinity, larger));
          CHECK(values(min(x, way.axes)) == folded(x, way.reduced, kInfinity, smaller));
        }
      }
}

TEST_CASE("axes on both sides of those kept reduce as the same elements in rows do", "[reduce]") {
  const auto whole = [](const Shape& shape, DType type) { return random_in(0, 9, shape, type, 83); };
  for (const DType type : {DType::float64, DType::float32, DType::int64, DType::uint8}) {
    const std::pair<const char*, Tensor> cases[] = {
        // kept and reduced axes in turn
        {"whole", whole({3, 4, 70}, type)},
        {"every second column", whole({3, 4, 80}, type).index({all, all, from(0, 2)})},
        {"a part of the columns", whole({3, 4, 80}, type).index({all, all, range(5, 70)})},
        {"stretched", broadcast_to(whole({1, 4, 65}, type), {6, 4, 65})},
        {"reversed", flip(whole({5, 3, 64}, type), 0)},
        {"columns reversed", flip(whole({5, 3, 64}, type), 2)},
        {"the kept ones outside", permute(whole({4, 3, 80}, type), {1, 0, 2}).index({all, all, range(5, 70)})},
        {"many axes", whole({3, 2, 6, 5, 70}, type).index({all, all, range(1, 5), all, all})},
        {"axes of one element", whole({3, 2, 1, 5, 70}, type)},
        {"longer than what is added in one go", whole({2, 2, 70001}, type)},
        {"many runs", whole({20000, 1, 128}, type).index({all, all, range(0, 64)})},
    };
    for (const auto& [what, x] : cases) {
      INFO(what << ", " << name(type));
      const bool five = x.rank() == 5;
      const Axes axes = five ? Axes{0, 2, 4} : Axes{0, 2};
      const Shape kept = five ? Shape{x.size(1), x.size(3)} : Shape{x.size(1)};
      const Tensor turned = five ? permute(x, {1, 3, 0, 2, 4}) : permute(x, {1, 0, 2});
      const Tensor rows = reshape(turned.contiguous(), {kept.numel(), -1});
      const auto as_kept = [&](const Tensor& list) { return reshape(list, kept); };
      const double allowed = type == DType::float64 ? tolerance::roundings64 : tolerance::roundings32;
      CHECK(relative_error(values(sum(x, axes)), values(as_kept(sum(rows, 1)))) <= allowed);
      CHECK(same(max(x, axes), as_kept(max(rows, 1))));
      CHECK(same(min(x, axes), as_kept(min(rows, 1))));
      CHECK(same(all_of(x > 0, axes), as_kept(all_of(rows > 0, 1))));
      CHECK(same(any_of(x > 8, axes), as_kept(any_of(rows > 8, 1))));
    }
  }
}

TEST_CASE("one element in any run decides what its kept place gets, and no other's", "[reduce]") {
  for (std::int64_t sample = 0; sample < 3; ++sample) {
    Tensor x = ones({3, 4, 70});
    x.set(static_cast<float>(kNaN), sample, 2, 69);
    INFO("sample " << sample);
    for (const Tensor& result : {sum(x, {0, 2}), max(x, {0, 2}), min(x, {0, 2})})
      CHECK(same(result != result, {false, false, true, false}));
    CHECK(same(all_of(x == 1, {0, 2}), {true, true, false, true}));
    CHECK(same(any_of(x != 1, {0, 2}), {false, false, true, false}));
  }
}

TEST_CASE("keepdims leaves reduced axes with size 1", "[reduce]") {
  const Tensor x = random_in(-1, 1, {2, 3, 4}, DType::float64, 82);
  const ReduceOptions keep{.keepdims = true};
  CHECK(sum(x, {}, keep).shape() == Shape{1, 1, 1});
  CHECK(mean(x, 1, keep).shape() == Shape{2, 1, 4});
  CHECK(max(x, {0, -1}, keep).shape() == Shape{1, 3, 1});
  CHECK(min(x, -1, keep).shape() == Shape{2, 3, 1});
  CHECK(argmax(x, 1, keep).shape() == Shape{2, 1, 4});
  CHECK(logsumexp(x, {0, 2}, keep).shape() == Shape{1, 3, 1});
  CHECK(all_of(x > 0, 0, keep).shape() == Shape{1, 3, 4});
  CHECK(same(reshape(sum(x, 1, keep), {2, 4}), sum(x, 1)));
}

TEST_CASE("no axes given means all of them", "[reduce]") {
  const Tensor x = {{1.0, 2.0}, {3.0, 4.0}};
  CHECK(same(sum(x), Tensor(10.0)));
  CHECK(same(sum(x, {}), Tensor(10.0)));
  CHECK(same(sum(Tensor(5.0)), Tensor(5.0)));
  CHECK(same(max(Tensor(5.0)), Tensor(5.0)));
}

TEST_CASE("sums of integers and bool are int64", "[reduce]") {
  CHECK(sum(Tensor{INT32_MAX, INT32_MAX}).item<std::int64_t>() == 2 * std::int64_t{INT32_MAX});
  CHECK(sum(full({300}, 255, {.dtype = DType::uint8})).item<std::int64_t>() == 300 * 255);
  CHECK(sum(Tensor{true, false, true}).item<std::int64_t>() == 2);
  const std::int64_t big = (std::int64_t{1} << 60) + 1;
  CHECK(sum(from_vector(std::vector<std::int64_t>{big, -1})).item<std::int64_t>() == big - 1);  // not by way of double
  CHECK(max(from_vector(std::vector<std::int64_t>{big, big - 1})).item<std::int64_t>() == big);
  CHECK(max(full({3}, 255, {.dtype = DType::uint8})).dtype() == DType::uint8);
}

TEST_CASE("sums of integers, their extremes and places are those of a loop along both axes", "[reduce]") {
  for (const std::int64_t rows : {1, 3, 4, 6, 66, 1030, 8200})  // the last in several pieces
    for (const std::int64_t columns : {1, 2, 7, 16, 33, 63, 130, 257, 9000}) {
      if (rows * columns > 70'000) continue;
      INFO(rows << " rows, " << columns << " columns");
      check_integers<std::int8_t>(rows, columns);
      check_integers<std::int16_t>(rows, columns);
      check_integers<std::int32_t>(rows, columns);
      check_integers<std::int64_t>(rows, columns);
      check_integers<std::uint8_t>(rows, columns);
      const Tensor flags = from_vector(any_integers<std::int8_t>(rows * columns), {rows, columns}) > 0;
      CHECK(same(sum(flags, 0), sum(cast(flags, DType::int64), 0)));
    }
}

TEST_CASE("one integer decides for its column, in whichever piece of it", "[reduce]") {
  for (const DType type : {DType::int8, DType::int16, DType::int32, DType::int64, DType::uint8})
    for (const std::int64_t row : {0, 1023, 1024, 4095, 4096, 8191, 8192, 8199}) {
      INFO(name(type) << ", row " << row);
      Tensor x = full({8200, 5}, 3, {.dtype = type});
      x = index_set(x, {row, 2}, 7);
      x = index_set(x, {row, 4}, 1);
      CHECK(same(max(x, 0), from_doubles({3, 3, 7, 3, 3}, {5}, type)));
      CHECK(same(min(x, 0), from_doubles({3, 3, 3, 3, 1}, {5}, type)));
      CHECK(values(sum(x, 0)) == std::vector<double>{24600, 24600, 24604, 24600, 24598});
      CHECK(argmax(x, 0).to_vector<std::int64_t>()[2] == row);
      CHECK(argmin(x, 0).to_vector<std::int64_t>()[4] == row);
    }
}

TEST_CASE("what is true is counted by words and blocks of them", "[reduce]") {
  const Tensor all = full({9000}, true, {.dtype = DType::bool8}), some = remainder(arange(9000), 3) == 0;
  for (const std::int64_t count : {0, 1, 7, 8, 9, 17, 2039, 2040, 2041, 2047, 2048, 2049, 4080, 4088, 8999})
    for (const std::int64_t first : {0, 1}) {
      INFO(count << " from " << first);
      CHECK(sum(narrow(all, 0, first, count)).item<std::int64_t>() == count);
      CHECK(count_nonzero(narrow(some, 0, first, count)).item<std::int64_t>() == (first == 0 ? count + 2 : count) / 3);
      CHECK(masked_select(arange(count), narrow(some, 0, first, count)).numel() ==
            (first == 0 ? count + 2 : count) / 3);
    }
  CHECK(same(sum(full({3, 2041}, true, {.dtype = DType::bool8}), 1),
             {std::int64_t{2041}, std::int64_t{2041}, std::int64_t{2041}}));
}

TEST_CASE("long float32 sums do not drift", "[reduce]") {
  const std::int64_t count = 3000001;  // a running float32 sum of tenths would be off by percents
  const Tensor tenths = full({count}, 0.1f);
  const double exact = static_cast<double>(0.1f) * static_cast<double>(count);
  CHECK(std::fabs(number(sum(tenths)) - exact) <= tolerance::blocked_sum32 * exact);
  CHECK(std::fabs(number(mean(tenths)) - static_cast<double>(0.1f)) <= tolerance::blocked_sum32 * 0.1);
  const Tensor grid = full({1000, 3000}, 0.1f);
  for (const int axis : {0, 1}) {
    const std::vector<double> sums = values(sum(grid, axis));
    const double expected = static_cast<double>(0.1f) * static_cast<double>(grid.size(axis));
    for (const double s : sums)
      if (std::fabs(s - expected) > tolerance::blocked_sum32 * expected) FAIL_CHECK("axis " << axis << " gives " << s);
  }
  // 1 + 2^-24 + 2^-24 + ...: a running float32 sum would stay at 1
  std::vector<float> small(1 << 16, 0x1p-24f);
  small[0] = 1;
  const double total = 1 + 65535 * 0x1p-24;  // 1.0039
  CHECK(std::fabs(number(sum(from_vector(small))) - total) <= tolerance::blocked_sum32 * total);
}

TEST_CASE("a row has the same sum alone and among others, right up to its end", "[reduce]") {
  for (const DType dtype : {DType::float32, DType::float64})
    for (const std::int64_t count :
         {1, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 100, 511, 512, 513, 1000, 1024, 1500, 2048, 2049}) {
      INFO(name(dtype) << ", rows of " << count);
      Tensor x = random_in(-1, 1, {11, count}, dtype, 7).copy();
      x.index({2, -1}).fill(kInfinity);
      x.index({9, 0}).fill(kNaN);
      const Tensor together = sum(x, 1);
      for (std::int64_t row = 0; row < 11; ++row) {
        INFO("row " << row);
        const Range place{row, row + 1};
        CHECK(same(sum(x.index({place}), 1), together.index({place})));
        const std::vector<double> list = values(x.index({row}));
        const double expected = std::accumulate(list.begin(), list.end(), 0.0), found = values(together)[row];
        if (row == 2 || row == 9) CHECK((std::isnan(expected) ? std::isnan(found) : found == expected));
        else
          CHECK(std::fabs(found - expected) <= (dtype == DType::float32 ? 1e-6 : 1e-14) * static_cast<double>(count));
      }
    }
}

TEST_CASE("sums meet infinities and NaN as additions do", "[reduce]") {
  CHECK(number(sum(Tensor{1.0f, static_cast<float>(kInfinity)})) == kInfinity);
  CHECK(::std::isnan(number(sum(Tensor{kInfinity, -kInfinity}))));
  CHECK(::std::isnan(number(sum(Tensor{1.0, kNaN}))));
}

TEST_CASE("reductions of nothing give their neutral value where they have one", "[reduce]") {
  const Tensor none = zeros({0, 3}), flags = zeros({2, 0}, {.dtype = DType::bool8});
  CHECK(same(sum(none, 0), {0.0f, 0.0f, 0.0f}));
  CHECK(sum(none, 1).shape() == Shape{0});
  CHECK(same(sum(none), Tensor(0.0f)));
  CHECK(same(logsumexp(none, 0), full({3}, -kInfinity)));
  CHECK(same(all_of(flags, 1), {true, true}));
  CHECK(same(any_of(flags, 1), {false, false}));
  CHECK(mean(none, 1).shape() == Shape{0});  // nothing is empty here: no row is reduced
  CHECK(max(none, 1).shape() == Shape{0});
  CHECK(argmax(none, 1).shape() == Shape{0});
}

TEST_CASE("another tape that listens changes no gradient of prod", "[reduce]") {
  const Tensor x = {1e30f, 1e-30f, 1e30f, 1e-30f};  // pairs leave the range of float32, the products of three do not
  const GradientTape listener;
  GradientTape tape;
  tape.watch(x);
  CHECK(close(tape.gradient(prod(x), x), {1e-30f, 1e30f, 1e-30f, 1e30f}, 1e-6));
}

TEST_CASE("mean divides by the number of what was summed", "[reduce]") {
  const Tensor x = {{1.0f, 2.0f}, {3.0f, 6.0f}};
  CHECK(same(mean(x), Tensor(3.0f)));
  CHECK(same(mean(x, 0), {2.0f, 4.0f}));
  CHECK(same(mean(x, -1), {1.5f, 4.5f}));
}

TEST_CASE("the gradient of max and min goes to what is NaN, where there is one", "[reduce][gradient]") {
  const Tensor x = {{1.0, kNaN, 3.0, kNaN}, {4.0, 5.0, 5.0, 1.0}};
  for (const bool high : {true, false}) {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = high ? max(x, 1) : min(x, 1);
    const Tensor expected =
        high ? Tensor{{0.0, 0.5, 0.0, 0.5}, {0.0, 0.5, 0.5, 0.0}} : Tensor{{0.0, 0.5, 0.0, 0.5}, {0.0, 0.0, 0.0, 1.0}};
    CHECK(same(tape.gradient(y, x), expected));
  }
}

TEST_CASE("max and min are NaN if there is one, wherever it stands", "[reduce]") {
  for (const std::int64_t size : {1, 2, 8, 9, 31, 64, 65, 1000})
    for (const std::int64_t at : {std::int64_t{0}, size / 2, size - 1})
      for (const DType type : {DType::float32, DType::float64}) {
        Tensor x = random_in(-1, 1, {size}, type, 83);
        x.index_put({at}, kNaN);
        INFO("NaN at " << at << " of " << size << " " << name(type));
        CHECK(::std::isnan(number(max(x))));
        CHECK(::std::isnan(number(min(x))));
        CHECK(argmax(x).item<std::int64_t>() == at);
        CHECK(::std::isnan(number(max(reshape(x, {size, 1}), 0))));
      }
}

TEST_CASE("extremes of rows and their places are those of a loop, at every length, whatever stands beside them",
          "[reduce]") {
  for (const DType dtype : {DType::float32, DType::float64})
    for (const std::int64_t count : {1,  2,  3,   4,   7,   8,   9,   15,   16,   17,   31,   32,   33,   63,
                                     64, 65, 100, 127, 511, 512, 513, 1000, 2049, 4095, 4096, 4097, 8195, 70000}) {
      // many equal values, one row of each infinity, NaN first, in between and last; 11 rows are not a multiple of four
      Tensor wide = floor(random_in(-50, 50, {11, count + 3}, dtype, 19)).copy();
      Tensor x = wide.index({All{}, Range{1, count + 1}});
      x.index({1}).fill(-kInfinity);
      x.index({4}).fill(kInfinity);
      x.index({6, 0}).fill(kNaN);
      x.index({8, count / 2}).fill(kNaN);
      x.index({10, -1}).fill(kNaN);
      wide.index({All{}, 0}).fill(1000);  // beside the rows, where nobody should look
      wide.index({All{}, -1}).fill(-1000);
      const std::vector<double> list = values(x);
      for (const bool high : {true, false}) {
        INFO((high ? "largest" : "smallest") << " of rows of " << count << ", " << name(dtype));
        const auto found = [&](const Tensor& rows) { return high ? max(rows, 1) : min(rows, 1); };
        const auto place = [&](const Tensor& rows) { return high ? argmax(rows, 1) : argmin(rows, 1); };
        const std::vector<double> bests = values(found(x)), places = values(place(x));
        for (std::size_t row = 0; row < 11; ++row) {
          const double* const first = list.data() + row * static_cast<std::size_t>(count);
          std::int64_t best = 0;
          for (std::int64_t i = 1; i < count && !std::isnan(first[best]); ++i)
            if ((high ? first[i] > first[best] : first[i] < first[best]) || std::isnan(first[i])) best = i;
          if (!(bests[row] == first[best] || (std::isnan(bests[row]) && std::isnan(first[best]))))
            FAIL_CHECK("row " << row << " gives " << bests[row] << " instead of " << first[best]);
          if (places[row] != static_cast<double>(best))
            FAIL_CHECK("row " << row << " has it at " << places[row] << " instead of " << best);
        }
        CHECK(same(place(x.copy()), place(x)));
        CHECK(same(place(transpose(transpose(x).copy())), place(x)));
        const Range one{3, 4};
        CHECK(same(found(x.index({one})), found(x).index({one})));
      }
    }
}

TEST_CASE("argmax gives the first of equal values, and works along every axis", "[reduce]") {
  const Tensor x = {{1.0f, 5.0f, 5.0f}, {7.0f, 0.0f, 7.0f}};
  CHECK(same(argmax(x, 0), from_vector(std::vector<std::int64_t>{1, 0, 1})));
  CHECK(same(argmax(x, 1), from_vector(std::vector<std::int64_t>{1, 0})));
  CHECK(same(argmax(x, -1, {.keepdims = true}), from_vector(std::vector<std::int64_t>{1, 0}, {2, 1})));
  CHECK(argmax(x).item<std::int64_t>() == 3);
  CHECK(argmax(transpose(x)).item<std::int64_t>() == 1);  // counted in the order of the view
  CHECK(argmax(Tensor{3, 9, 9}).item<std::int64_t>() == 1);
  CHECK(argmax(Tensor{kNaN, 1.0, kNaN}).item<std::int64_t>() == 0);  // the first NaN wins
  CHECK(argmax(full({100}, -kInfinity)).item<std::int64_t>() == 0);
}

TEST_CASE("a chain that ends at an argmax over everything names it", "[reduce][explain]") {
  const Tensor x = {{1.0f, 5.0f}, {7.0f, 0.0f}};
  GradientTape tape;
  tape.watch(x);
  for (const Tensor& place : {argmax(x), argmin(x), argmax(x, 0)})
    CHECK(tape.explain(place, x).rfind("The chain ends at int64 from arg", 0) == 0u);
}

TEST_CASE("softmax has the published values", "[reduce]") {
  CHECK(close(softmax(Tensor{1.0, 2.0, 3.0}), {0.09003057, 0.24472848, 0.66524094}, tolerance::published));
  const Tensor seven = {.1, .2, .3, .4, .1, .2, .3};
  const std::vector<double> published = {.125, .138, .153, .169, .125, .138, .153};
  const std::vector<double> actual = values(softmax(seven));
  for (std::size_t i = 0; i < published.size(); ++i) CHECK(std::fabs(actual[i] - published[i]) <= 0.0005);  // 3 digits
}

TEST_CASE("softmax and its relatives agree with their definitions along every axis", "[reduce]") {
  const Tensor x = random_in(-4, 4, {3, 5, 9}, DType::float64, 84);
  for (const int axis : {0, 1, 2, -1}) {
    const Tensor e = exp(x), total = sum(e, axis, {.keepdims = true});
    CHECK(close(softmax(x, axis), e / total, tolerance::roundings64));
    CHECK(close(log_softmax(x, axis), x - log(total), tolerance::roundings64));
    CHECK(close(logsumexp(x, axis), log(sum(e, axis)), tolerance::roundings64));
    CHECK(close(softmax(x.to(DType::float32), axis), e / total, tolerance::roundings32));
  }
  CHECK(close(logsumexp(x, {0, 2}), log(sum(exp(x), {0, 2})), tolerance::roundings64));
}

TEST_CASE("softmax and log_softmax of rows of any length go by their definitions, masked places and all", "[reduce]") {
  for (std::int64_t count = 1; count <= 140; count += count < 70 ? 1 : 7)
    for (const DType dtype : {DType::float32, DType::float64}) {
      Tensor x = random_in(-3, 3, {4, count}, dtype, static_cast<std::uint64_t>(count));
      x.index_put({1, 0}, -kInfinity);          // a masked place at the front
      x.index_put({2, count - 1}, -kInfinity);  // and at the end
      if (count > 1) x.index_put({3, count / 2}, kNaN);
      const ::std::vector<double> in = values(x), out = values(softmax(x)), logs = values(log_softmax(x));
      const auto width = static_cast<std::size_t>(count);
      const double allowed = dtype == DType::float64 ? 1e-15 : 6e-7;
      for (std::size_t row = 0; row < (count > 1 ? 3u : 1u); ++row) {
        CAPTURE(count, row, dtype);
        double total = 0;
        for (std::size_t i = row * width; i < (row + 1) * width; ++i) total += ::std::exp(in[i]);
        for (std::size_t i = row * width; i < (row + 1) * width; ++i) {
          const double log = in[i] - ::std::log(total);
          if (!(::std::fabs(out[i] - ::std::exp(in[i]) / total) <= allowed)) FAIL_CHECK("softmax: " << out[i]);
          if (!(logs[i] == log || ::std::fabs(logs[i] - log) <= 4 * allowed)) FAIL_CHECK("log_softmax: " << logs[i]);
        }
      }
      for (std::size_t i = 3 * width; count > 1 && i < 4 * width; ++i) {
        CHECK(::std::isnan(out[i]));
        CHECK(::std::isnan(logs[i]));
      }
    }
}

TEST_CASE("softmax and its relatives do not overflow, and shifting changes nothing", "[reduce]") {
  const Tensor large = {1000.0, 1001.0, 1002.0};
  CHECK(close(softmax(large), softmax(Tensor{0.0, 1.0, 2.0}), tolerance::roundings64));
  CHECK(close(logsumexp(large), Tensor(1002.4076059644443), tolerance::roundings64));  // 1002 + log(1 + 1/e + 1/e^2)
  CHECK(same(log_softmax(Tensor{0.0, -2000.0}), {0.0, -2000.0}));                      // log(softmax) would be -inf
  CHECK(same(softmax(Tensor{-kInfinity, 0.0}), {0.0, 1.0}));
  for (const std::int64_t count : {2, 9, 40, 65, 300})  // as the formula has it: infinity - infinity
    for (const DType dtype : {DType::float32, DType::float64}) {
      Tensor one = zeros({count}, {.dtype = dtype});
      one.index_put({count - 1}, kInfinity);
      const Tensor none = full({count}, -kInfinity, {.dtype = dtype}), nothing = full({count}, kNaN, {.dtype = dtype});
      INFO(count << " of " << name(dtype));
      CHECK(same(log_softmax(one), nothing));
      CHECK(same(log_softmax(none), nothing));
    }
  CHECK(number(logsumexp(Tensor{-kInfinity, -kInfinity})) == -kInfinity);
  CHECK(number(logsumexp(Tensor{kInfinity, 0.0})) == kInfinity);
  CHECK(::std::isnan(number(logsumexp(Tensor{kNaN, 0.0}))));
  CHECK(same(softmax(zeros({2, 0})), zeros({2, 0})));
  CHECK(same(softmax(Tensor{5.0}), {1.0}));
}

TEST_CASE("softmax rows sum to one at every length around the SIMD widths", "[reduce]") {
  for (std::int64_t n = 1; n <= 70; ++n) {
    const Tensor x = random_in(-5, 5, {3, n}, DType::float32, 85);
    const Tensor e = exp(x.to(DType::float64));
    INFO("rows of " << n);
    CHECK(close(softmax(x), e / sum(e, -1, {.keepdims = true}), tolerance::roundings32));
    CHECK(relative_error(values(sum(softmax(x), 1)), {1, 1, 1}) <= tolerance::roundings32);
  }
}

TEST_CASE("all_of and any_of answer along axes", "[reduce]") {
  const Tensor x = {{true, true}, {false, true}};
  CHECK(same(all_of(x, 0), {false, true}));
  CHECK(same(all_of(x, 1), {true, false}));
  CHECK(same(any_of(!x, 1), {false, true}));
  CHECK_FALSE(all_of(x).item<bool>());
  CHECK(any_of(x).item<bool>());
}
