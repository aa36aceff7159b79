// Taking and scattering along axes, by positions of several axes, and by segments.
#include "tests/support.hpp"

#include <algorithm>
#include <cstring>
#include <random>

using namespace capstan;
using namespace tests;

namespace {

using List = std::vector<std::int64_t>;

List list_of(const Tensor& t) { return t.to_vector<std::int64_t>(); }

/// int64, uniform in [low, high), from the standard library's generator.
Tensor random_positions(std::int64_t low, std::int64_t high, const Shape& shape, std::uint64_t seed) {
  std::mt19937_64 bits(seed);
  List list;
  for (std::int64_t i = 0; i < shape.numel(); ++i)
    list.push_back(low + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(high - low)));
  return from_vector(list, shape);
}

/// Bytes of results for several numbers of threads must be those for one.
void check_threads(const std::function<Tensor()>& compute) {
  std::vector<float> expected;
  {
    const ThreadCount limit(1);
    expected = compute().to_vector<float>();
  }
  for (const int threads : {2, 3, 8}) {
    const ThreadCount limit(threads);
    INFO(threads << " threads");
    CHECK(same_bits(compute().to_vector<float>(), expected));
  }
}

}  // namespace

TEST_CASE("take follows the Array API along an axis, and NumPy without one", "[index]") {
  const Tensor x = reshape(arange(6), {2, 3});
  CHECK(list_of(take(x, Tensor{2, 0}, 1)) == List{2, 0, 5, 3});
  CHECK(list_of(take(x, Tensor{-1, 0})) == List{5, 0});
  CHECK(list_of(take(transpose(x), Tensor{1, 2})) == List{3, 1});  // counted in row-major order
  CHECK(take(x, Tensor{{0}, {1}}, 0).shape() == Shape{2, 1, 3});
}

TEST_CASE("take_along_axis takes an element for each index, as in NumPy's example", "[index]") {
  const Tensor x = {{10, 30, 20}, {60, 40, 50}};
  CHECK(same(take_along_axis(x, Tensor{{0, 2, 1}, {1, 2, 0}}, 1), {{10, 20, 30}, {40, 50, 60}}));
  CHECK(same(take_along_axis(x, Tensor{{1}, {0}}), {{30}, {60}}));
  CHECK(same(take_along_axis(x, Tensor{{1}}, 0), {{60, 40, 50}}));                    // indices broadcast
  CHECK(same(take_along_axis(Tensor{{1, 2, 3}}, Tensor{{2}, {-3}}, 1), {{3}, {1}}));  // and so does the tensor
  CHECK(same(take_along_axis(transpose(x), Tensor{{1, 0}}, 0), {{30, 60}}));
  CHECK(take_along_axis(x, zeros({2, 0}, {.dtype = DType::int32})).shape() == Shape{2, 0});
  CHECK(take_along_axis(zeros({0, 3}), zeros({0, 5}, {.dtype = DType::int64})).shape() == Shape{0, 5});
}

TEST_CASE("every type of index chooses the same elements", "[index]") {
  const Tensor x = reshape(arange(12), {3, 4}), i = {{3, 0}, {1, 1}, {2, 3}};
  for (const DType type : {DType::int8, DType::int16, DType::int32, DType::int64, DType::uint8}) {
    const Tensor index = i.to(type);
    CHECK(list_of(take_along_axis(x, index)) == List{3, 0, 5, 5, 10, 11});
    CHECK(list_of(gather(x, index[0], 1)) == List{3, 0, 7, 4, 11, 8});
    CHECK(list_of(pick(x, index.index({all, 0}))) == List{3, 5, 10});
    CHECK(one_hot(index, 4).shape() == Shape{3, 2, 4});
    CHECK(list_of(x.index({index.index({0, all}) - index.index({0, all})})) == List{0, 1, 2, 3, 0, 1, 2, 3});
  }
}

TEST_CASE("elements of every type are taken and scattered", "[index]") {
  for (const DType type : {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::int8, DType::int16,
                           DType::int32, DType::int64, DType::uint8, DType::bool8}) {
    const Tensor x = from_doubles({0, 1, 1, 0}, {4}, type), u = from_doubles({1, 0}, {2}, type);
    CHECK(same(take_along_axis(x, Tensor{1, 3}), from_doubles({1, 0}, {2}, type)));
    CHECK(same(scatter(x, Tensor{0, 2}, u), from_doubles({1, 1, 0, 0}, {4}, type)));
    if (type == DType::bool8) continue;
    CHECK(same(scatter_add(x, Tensor{1, 1}, u), from_doubles({0, 2, 1, 0}, {4}, type)));
    CHECK(same(scatter_max(x, Tensor{0, 1}, u), from_doubles({1, 1, 1, 0}, {4}, type)));
    CHECK(same(scatter_min(x, Tensor{0, 1}, u), from_doubles({0, 0, 1, 0}, {4}, type)));
  }
}

TEST_CASE("long takes along each axis agree with loops for every number of threads", "[index]") {
  const Tensor x = reshape(arange(300 * 70), {300, 70});
  for (const int axis : {0, 1}) {
    const Tensor index = random_positions(-x.size(axis), x.size(axis), {300, 70}, 5);
    List expected;
    const List from = list_of(index);
    for (std::int64_t i = 0; i < 300; ++i)
      for (std::int64_t j = 0; j < 70; ++j) {
        std::int64_t p = from[static_cast<std::size_t>(i * 70 + j)];
        if (p < 0) p += x.size(axis);
        expected.push_back(axis == 0 ? p * 70 + j : i * 70 + p);
      }
    for (const int threads : {1, 2, 5}) {
      const ThreadCount limit(threads);
      CHECK(list_of(take_along_axis(x, index, axis)) == expected);
    }
  }
  const Tensor line = arange(20000), many = random_positions(-20000, 20000, {30000}, 6);
  List expected;
  for (const std::int64_t p : list_of(many)) expected.push_back(p < 0 ? p + 20000 : p);
  CHECK(list_of(gather(line, many)) == expected);
}

TEST_CASE("rows of every width and type are looked up as by a loop, for every number of threads", "[index][threads]") {
  const std::int64_t rows = 90;
  const Tensor index = random_positions(-rows, rows, {1100}, 21), few = random_positions(-rows, rows, {12}, 22);
  for (const std::int64_t width : {2, 3, 7, 15, 16, 17, 33, 64, 100, 257}) {
    INFO("width " << width);
    const Tensor x = reshape(arange(rows * width), {rows, width}), backwards = x.index({from(-1, -1)});
    List expected, reversed, in_the_middle;
    for (std::int64_t p : list_of(index)) {
      if (p < 0) p += rows;
      for (std::int64_t k = 0; k < width; ++k) {
        expected.push_back(p * width + k);
        reversed.push_back((rows - 1 - p) * width + k);
      }
    }
    for (std::int64_t half = 0; half < 2; ++half)
      for (std::int64_t p : list_of(few % (rows / 2)))
        for (std::int64_t k = 0; k < width; ++k) in_the_middle.push_back((half * (rows / 2) + p) * width + k);
    for (const int threads : {1, 3}) {
      const ThreadCount limit(threads);
      for (const DType type : {DType::int16, DType::int32, DType::int64, DType::float32})
        CHECK(list_of(gather(x.to(type), index.to(DType::int32)).to(DType::int64)) == expected);
      CHECK(list_of(gather(x, index)) == expected);
      CHECK(list_of(gather(backwards, index)) == reversed);
      CHECK(list_of(gather(reshape(x, {2, rows / 2, width}), few % (rows / 2), 1)) == in_the_middle);
    }
  }
}

TEST_CASE("bits of elements that are no numbers stay as they are when rows are looked up", "[index]") {
  const std::int64_t signaling = 0x7FF0000000000001;
  std::vector<double> numbers(40, 0.0);
  std::memcpy(&numbers[17], &signaling, sizeof signaling);
  const Tensor x = from_vector(numbers, {10, 4}), rows = arange(10);
  CHECK(same_bits(gather(x, rows).to_vector<double>(), x.to_vector<double>()));
}

TEST_CASE("scatter writes as PyTorch's does; the last of several stays", "[index]") {
  const Tensor x = zeros({3, 5}, {.dtype = DType::int64}), source = reshape(arange(1, 11), {2, 5});
  CHECK(list_of(scatter(x, Tensor{{0, 1, 2, 0}}, source, 0)) ==  // the example of torch.Tensor.scatter_
        List{1, 0, 0, 4, 0, 0, 2, 0, 0, 0, 0, 0, 3, 0, 0});
  CHECK(list_of(scatter(x, Tensor{{0, 1, 2}, {0, 1, 4}}, source, 1)) ==
        List{1, 2, 3, 0, 0, 6, 7, 0, 0, 8, 0, 0, 0, 0, 0});
  CHECK(same(scatter(Tensor{0, 0, 0}, Tensor{1, 1, -2}, Tensor{7, 8, 9}), {0, 9, 0}));
  CHECK(same(scatter(Tensor{{2.0f, 2.0f}}, Tensor{{1}}, 1.5), {{2.0f, 1.5f}}));
  CHECK(same(scatter(transpose(Tensor{{1, 2}, {3, 4}}), Tensor{{1}, {0}}, Tensor{{9}, {8}}), {{1, 9}, {8, 4}}));
  CHECK(same(scatter(Tensor{1, 2}, zeros({0}, {.dtype = DType::int64}), zeros({0}, {.dtype = DType::int32})), {1, 2}));
}

TEST_CASE("scatter_add, scatter_min and scatter_max combine all that meet with what is there", "[index]") {
  const Tensor x = {10.0, 20.0, 30.0}, i = {0, 2, 0, 0}, u = {1.0, 50.0, 40.0, -3.0};
  CHECK(same(scatter_add(x, i, u), {48.0, 20.0, 80.0}));  // 10 + 1 + 40 - 3
  CHECK(same(scatter_max(x, i, u), {40.0, 20.0, 50.0}));
  CHECK(same(scatter_min(x, i, u), {-3.0, 20.0, 30.0}));
  CHECK(same(scatter_add(x, i, 2), {16.0, 20.0, 32.0}));
  CHECK(same(scatter_max(x, i, Tensor{kNaN, 1.0, 90.0, 2.0}), {kNaN, 20.0, 30.0}));
  CHECK(same(scatter_add(Tensor{std::uint8_t{250}}, Tensor{0, 0}, Tensor{std::uint8_t{3}, std::uint8_t{5}}),
             {std::uint8_t{2}}));  // wraps around: 258 - 256
}

TEST_CASE("scatter passes the gradient to the value that stays, extremes share it evenly", "[index]") {
  const Tensor x = {1.0, 5.0, 3.0}, i = {0, 0, 1, 1}, u = {7.0, 7.0, 5.0, 2.0};
  const auto gradients = [&](Tensor (*op)(const Tensor&, const Tensor&, const Tensor&, int, Where)) {
    GradientTape tape;
    tape.watch({x, u});
    const Tensor weight = {1.0, 10.0, 100.0};
    const auto [dx, du] = tape.gradient(op(x, i, u, -1, Where::current()) * weight, x, u);
    return std::pair(dx, du);
  };
  const auto [dx_set, du_set] = gradients(&scatter);
  CHECK(same(dx_set, {0.0, 0.0, 100.0}));
  CHECK(same(du_set, {0.0, 1.0, 0.0, 10.0}));
  const auto [dx_max, du_max] = gradients(&scatter_max);
  CHECK(same(dx_max, {0.0, 5.0, 100.0}));  // x and one update are 5
  CHECK(same(du_max, {0.5, 0.5, 5.0, 0.0}));
  const auto [dx_add, du_add] = gradients(&scatter_add);
  CHECK(same(dx_add, {1.0, 10.0, 100.0}));
  CHECK(same(du_add, {1.0, 1.0, 10.0, 10.0}));
}

TEST_CASE("index_set and index_add leave the tensor as it was", "[index]") {
  const Tensor x = {{1, 2, 3}, {4, 5, 6}};
  CHECK(same(index_set(x, {all, Tensor{0, 2}}, Tensor{{7}, {8}}), {{7, 2, 7}, {8, 5, 8}}));
  CHECK(same(index_set(x, {0}, 9), {{9, 9, 9}, {4, 5, 6}}));
  CHECK(same(index_add(x, {Tensor{1, 1, 0}}, 10), {{11, 12, 13}, {24, 25, 26}}));
  CHECK(same(index_add(x, {ellipsis, from(-1, -2)}, Tensor{100, 200}), {{201, 2, 103}, {204, 5, 106}}));
  CHECK(same(index_set(x, {x > 4}, Tensor{50, 60}), {{1, 2, 3}, {4, 50, 60}}));
  CHECK(same(x, {{1, 2, 3}, {4, 5, 6}}));
}

TEST_CASE("gather_nd and scatter_nd follow TensorFlow's examples", "[index]") {
  const Tensor x = {{1, 2}, {3, 4}};
  CHECK(same(gather_nd(x, Tensor{{0, 0}, {1, 1}}), {1, 4}));
  CHECK(same(gather_nd(x, Tensor{{1}, {0}}), {{3, 4}, {1, 2}}));
  CHECK(same(gather_nd(x, Tensor{{{0, 1}}, {{1, -2}}}), {{2}, {3}}));
  CHECK(same(gather_nd(transpose(x).index({from(-1, -1)}), Tensor{{0, 0}, {1, 1}}), {2, 3}));
  CHECK(gather_nd(x, zeros({3, 0}, {.dtype = DType::int32})).shape() == Shape{3, 2, 2});
  CHECK(same(scatter_nd(Tensor{{4}, {3}, {1}, {7}}, Tensor{9, 10, 11, 12}, {8}), {0, 11, 0, 10, 9, 0, 0, 12}));
  CHECK(same(scatter_nd(Tensor{{0}, {0}}, Tensor{9, 10}, {2}), {19, 0}));  // those that meet are added
  CHECK(same(scatter_nd_update(Tensor{{1, 1}, {1, 1}}, Tensor{{0, 1}, {1, 0}}, Tensor{7, 8}), {{1, 7}, {8, 1}}));
  CHECK(same(scatter_nd_add(x, Tensor{{0}, {0}}, Tensor{{10, 20}, {30, 40}}), {{41, 62}, {3, 4}}));
  const Tensor rows = zeros({4, 2});  // rows [0, 1] of zeros, the same by an index
  CHECK(same(scatter_nd_update(rows, Tensor{{0}, {1}}, Tensor{{1.0f, 1.0f}, {4.0f, 0.0f}}),
             {{1.0f, 1.0f}, {4.0f, 0.0f}, {0.0f, 0.0f}, {0.0f, 0.0f}}));
}

TEST_CASE("segments sum, average and compare the rows that share an id", "[index]") {
  const Tensor data = {{1.0f, 2.0f, 3.0f, 4.0f}, {5.0f, 6.0f, 7.0f, 8.0f}, {4.0f, 3.0f, 2.0f, 1.0f}};
  const Tensor ids = {0, 1, 0};
  CHECK(same(segment_sum(data, ids, 2), {{5.0f, 5.0f, 5.0f, 5.0f}, {5.0f, 6.0f, 7.0f, 8.0f}}));  // TensorFlow's example
  CHECK(same(segment_mean(data, ids, 2), {{2.5f, 2.5f, 2.5f, 2.5f}, {5.0f, 6.0f, 7.0f, 8.0f}}));
  CHECK(same(segment_max(data, ids, 2), {{4.0f, 3.0f, 3.0f, 4.0f}, {5.0f, 6.0f, 7.0f, 8.0f}}));
  CHECK(same(segment_min(data, ids, 2), {{1.0f, 2.0f, 2.0f, 1.0f}, {5.0f, 6.0f, 7.0f, 8.0f}}));
  const Tensor few = {2.0f, 4.0f, 6.0f}, some = {-1, 0, 0};  // negative ids are left out
  const float most = std::numeric_limits<float>::max();
  CHECK(same(segment_sum(few, some, 2), {10.0f, 0.0f}));
  CHECK(same(segment_mean(few, some, 2), {5.0f, 0.0f}));
  CHECK(same(segment_max(few, some, 2), {6.0f, -most}));
  CHECK(same(segment_min(few, some, 2), {4.0f, most}));
  CHECK(same(segment_max(Tensor{-kInfinity, -kInfinity}, Tensor{0, 0}, 1), {-kInfinity}));
  CHECK(same(segment_max(Tensor{3, 9}, Tensor{1, 1}, 2), {std::numeric_limits<std::int32_t>::min(), 9}));
  CHECK(same(segment_sum(Tensor{{1, 2}, {3, 4}}, Tensor{{1, 0}, {1, 1}}, 2), {2, 8}));  // ids for each element
  CHECK(segment_sum(zeros({0, 3}), zeros({0}, {.dtype = DType::int64}), 4).shape() == Shape{4, 3});
  CHECK(segment_sum(few, some - 5, 0).shape() == Shape{0});
}

TEST_CASE("ties in a segment share the gradient evenly", "[index]") {
  const Tensor x = {3.0, 1.0, 3.0, 3.0, 2.0}, ids = {0, 0, 0, 1, -1};
  GradientTape tape;
  tape.watch(x);
  CHECK(same(tape.gradient(segment_max(x, ids, 3), x), {0.5, 0.0, 0.5, 1.0, 0.0}));
}

TEST_CASE("what meets is added in the order of the indices, whatever the number of threads", "[index][threads]") {
  const Tensor x = random_in(-1, 1, {50, 300}, DType::float32, 1);
  const Tensor rows = random_positions(0, 50, {4000}, 2), u = random_in(-1, 1, {4000, 300}, DType::float32, 3);
  check_threads([&] { return index_add(x, {rows}, u); });  // in the order of the places
  check_threads([&] { return index_add(concat({x, x}), {rows * 2}, u * 2); });
  const Tensor large = random_in(-1, 1, {600, 300}, DType::float32, 1);
  check_threads([&] { return index_add(large, {rows * 11}, u); });  // wide rows: pieces of them
  check_threads([&] { return index_set(x, {rows}, u); });
  const Tensor narrow_rows = random_in(-1, 1, {50, 3}, DType::float32, 4);
  const Tensor many = random_positions(-50, 50, {60000}, 5), v = random_in(-1, 1, {60000, 3}, DType::float32, 6);
  check_threads([&] { return index_add(narrow_rows, {many}, v); });  // narrow rows: ranges of them
  check_threads([&] { return index_set(narrow_rows, {many}, v); });
  const Tensor line = random_in(-1, 1, {1000}, DType::float32, 7), w = random_in(-1, 1, {60000}, DType::float32, 8);
  check_threads([&] { return scatter_add(line, random_positions(0, 1000, {60000}, 9), w); });
  const Tensor wide = random_in(-1, 1, {200, 300}, DType::float32, 10);
  const Tensor p = random_positions(0, 200, {200, 300}, 11);
  check_threads([&] { return scatter_add(wide, p, wide, 0); });
  check_threads([&] { return scatter_add(wide, p, wide, 1); });
  check_threads([&] { return segment_sum(v, many, 50); });
  check_threads([&] {
    GradientTape tape;
    tape.watch(narrow_rows);
    return tape.gradient(gather(narrow_rows, many), narrow_rows, {.output_gradient = v});
  });
}

TEST_CASE("many rows that meet in a table are added one after the other", "[index][threads]") {
  for (const DType type : {DType::float32, DType::float64})
    for (const std::int64_t size : {1, 30, 512, 513})
      for (const std::int64_t count : {2 * size - 1, 2 * size, std::int64_t{9001}})
        for (const std::int64_t width : {1, 30, 333}) {
          INFO(count << " rows, " << width << " columns of " << name(type) << ", table of " << size);
          const Tensor table = random_in(-1, 1, {size, width}, type, 31);
          const Tensor rows = random_in(-1, 1, {count, width + 3}, type, 32),
                       index = random_positions(-size, size, {count}, 33);
          const Tensor one = broadcast_to(narrow(rows, 0, 0, 1), rows.shape());
          for (const Tensor& from : {narrow(rows, 1, 2, width), narrow(one, 1, 2, width)}) {
            const List at = list_of(index);
            const std::vector<double> values = from.to(DType::float64).to_vector<double>();
            std::vector<double> all = table.to(DType::float64).to_vector<double>();
            std::vector<double> some(all.size(), 0.0);  // without those whose index is negative
            const auto add = [&](double& sum, double value) {
              sum += value;
              if (type == DType::float32) sum = static_cast<float>(sum);
            };
            for (std::int64_t i = 0; i < count * width; ++i) {
              const std::int64_t p = at[static_cast<std::size_t>(i / width)];
              const double value = values[static_cast<std::size_t>(i)];
              add(all[static_cast<std::size_t>((p < 0 ? p + size : p) * width + i % width)], value);
              if (p >= 0) add(some[static_cast<std::size_t>(p * width + i % width)], value);
            }
            for (const int threads : {1, 2, 3}) {
              const ThreadCount limit(threads);
              const auto check = [](const Tensor& result, const std::vector<double>& expected) {
                CHECK(same_bits(result.to(DType::float64).to_vector<double>(), expected));
              };
              check(index_add(table, {index}, from), all);
              check(index_add(table, {index.to(DType::int32)}, from), all);
              check(segment_sum(from, index, size), some);
            }
          }
        }
  const Tensor none = segment_sum(ones({100, 40}), full({100}, -1, {.dtype = DType::int64}), 3);
  CHECK(same(none, zeros({3, 40})));
}

TEST_CASE("scatters along the last axis agree with loops, however x and the indices are laid out", "[index][threads]") {
  const std::int64_t size = 41;
  for (const std::int64_t rows : {1, 60})
    for (const std::int64_t written : {rows, (rows + 1) / 2})
      for (const std::int64_t count : {1, 5, 8, 41, 500}) {
        INFO(written << " of " << rows << " rows, " << count << " indices in each");
        const Tensor x = reshape(arange(rows * size), {rows, size}) + 100;
        const Tensor index = random_positions(-size, size, {written, count}, 23);
        const Tensor u = reshape(arange(written * count), {written, count});
        const List at = list_of(index);
        List set = list_of(x), sum = set, most = set;
        for (std::int64_t i = 0; i < written * count; ++i) {
          const std::int64_t p = at[static_cast<std::size_t>(i)];
          const auto place = static_cast<std::size_t>(i / count * size + (p < 0 ? p + size : p));
          set[place] = i;
          sum[place] += i;
          most[place] = std::max(most[place], i);
        }
        for (const int threads : {1, 2, 7}) {
          const ThreadCount limit(threads);
          CHECK(list_of(scatter(x, index, u)) == set);
          CHECK(list_of(scatter_add(x, index, u)) == sum);
          CHECK(list_of(scatter_max(x, index, u)) == most);
          CHECK(list_of(scatter_add(strided(x), strided(index.to(DType::int8)), strided(u))) == sum);
          const Tensor real = scatter_add(x.to(DType::float32), index.to(DType::int32), u.to(DType::float32));
          CHECK(list_of(real.to(DType::int64)) == sum);
        }
      }
}

TEST_CASE("long scatters agree with loops", "[index]") {
  const std::int64_t count = 40000, rows = 700;
  const Tensor x = zeros({rows, 2}, {.dtype = DType::int64}), index = random_positions(-rows, rows, {count}, 12);
  const Tensor u = reshape(arange(2 * count), {count, 2});
  List sum(static_cast<std::size_t>(2 * rows), 0), set = sum;
  const List from = list_of(index);
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t k = 0; k < 2; ++k) {
      const std::int64_t p = from[static_cast<std::size_t>(i)];
      const auto place = static_cast<std::size_t>(2 * (p < 0 ? p + rows : p) + k);
      sum[place] += 2 * i + k;
      set[place] = 2 * i + k;
    }
  for (const int threads : {1, 2, 6}) {
    const ThreadCount limit(threads);
    CHECK(list_of(index_add(x, {index}, u)) == sum);
    CHECK(list_of(index_set(x, {index}, u)) == set);
  }
}
