// Tensors whose rows are shorter than a register, of which kernels take several at a time, against loops over single
// elements: whatever the sizes, layouts, types and numbers of threads.
#include <algorithm>

#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

/// Where the elements of an operand [outer, rows, columns] stand in memory.
enum class Layout { contiguous, transposed, backwards, every_second };
constexpr Layout every_layout[] = {Layout::contiguous, Layout::transposed, Layout::backwards, Layout::every_second};

/// An operand of three axes, some of which may have size 1, and its elements by their places in what it broadcasts to.
struct Grid {
  Shape sizes;
  int salt;

  double at(std::int64_t i, std::int64_t j, std::int64_t k) const {
    if (sizes[0] == 1) i = 0;
    if (sizes[1] == 1) j = 0;
    if (sizes[2] == 1) k = 0;
    return static_cast<double>((i * 31 + j * 7 + k * 3 + salt) % 50);
  }
  Tensor tensor(Layout layout, DType dtype) const {
    const std::int64_t stretch = layout == Layout::every_second ? 2 : 1;
    std::int64_t rows = sizes[1], columns = sizes[2] * stretch;
    if (layout == Layout::transposed) std::swap(rows, columns);
    std::vector<double> stored;
    for (std::int64_t i = 0; i < sizes[0]; ++i)
      for (std::int64_t j = 0; j < rows; ++j)
        for (std::int64_t k = 0; k < columns; ++k)
          stored.push_back(layout == Layout::transposed  ? at(i, k, j)
                           : layout == Layout::backwards ? at(i, j, columns - 1 - k)
                                                         : at(i, j, k / stretch));
    const Tensor x = from_doubles(stored, {sizes[0], rows, columns}, dtype);
    switch (layout) {
      case Layout::transposed: return transpose(x, 1, 2);
      case Layout::backwards: return flip(x, 2);
      case Layout::every_second: return x.index({all, all, from(0, 2)});
      case Layout::contiguous: break;
    }
    return x;
  }
};

/// [outer, rows, columns] without the axes of `mask`, which have size 1.
Shape masked(const Shape& shape, int mask) {
  return {mask & 1 ? 1 : shape[0], mask & 2 ? 1 : shape[1], mask & 4 ? 1 : shape[2]};
}

template <class Element>
std::vector<double> each_element(const Shape& shape, Element element) {
  std::vector<double> list;
  for (std::int64_t i = 0; i < shape[0]; ++i)
    for (std::int64_t j = 0; j < shape[1]; ++j)
      for (std::int64_t k = 0; k < shape[2]; ++k) list.push_back(element(i, j, k));
  return list;
}

const std::vector<Shape> few_and_many_rows = {{3, 1, 2},   {2, 7, 1},   {3, 5, 3},   {2, 40, 4},  {3, 100, 8},
                                              {1, 90, 16}, {2, 61, 17}, {3, 33, 31}, {2, 20, 33}, {2, 3, 600}};

}  // namespace

TEST_CASE("Operands of short rows meet element by element, in every layout", "[short_rows]") {
  for (const Shape& shape : few_and_many_rows)
    for (int mask = 0; mask < 8; ++mask)
      for (const Layout layout : every_layout) {
        const Grid left{shape, 3}, right{masked(shape, mask), 11};
        CAPTURE(shape, mask, static_cast<int>(layout));
        const Tensor a = left.tensor(Layout::contiguous, DType::float32);
        const Tensor b = right.tensor(layout, DType::float32);
        const auto difference = [&](auto i, auto j, auto k) { return left.at(i, j, k) - right.at(i, j, k); };
        const Tensor expected = from_doubles(each_element(shape, difference), shape, DType::float32);
        REQUIRE(same(a - b, expected));
        REQUIRE(same(b - a, -expected));
        REQUIRE(same(left.tensor(layout, DType::float32) - b, expected));
      }
}

TEST_CASE("Short rows of every type meet in pieces of any threads", "[short_rows]") {
  const Shape shape = {3, 5000, 9};
  for (const int threads : {1, 3})
    for (const DType type : {DType::float32, DType::float64, DType::float16, DType::int16, DType::int64, DType::uint8})
      for (const int mask : {1, 2, 3, 4, 6}) {
        const ThreadCount count(threads);
        CAPTURE(threads, type, mask);
        const Grid left{shape, 3}, right{masked(shape, mask), 11};
        const Tensor a = left.tensor(Layout::transposed, type), b = right.tensor(Layout::contiguous, type);
        const auto sum = [&](auto i, auto j, auto k) { return left.at(i, j, k) + right.at(i, j, k); };
        const auto less = [&](auto i, auto j, auto k) { return left.at(i, j, k) < right.at(i, j, k) ? 1.0 : 0.0; };
        const auto larger = [&](auto i, auto j, auto k) { return std::max(left.at(i, j, k), right.at(i, j, k)); };
        REQUIRE(values(a + b) == each_element(shape, sum));
        REQUIRE(values(capstan::less(a, b)) == each_element(shape, less));
        REQUIRE(values(where(capstan::less(a, b), b, a)) == each_element(shape, larger));
      }
}

TEST_CASE("Copies of short rows put each element in its place", "[short_rows]") {
  for (const Shape& shape : few_and_many_rows)
    for (const DType type : {DType::float32, DType::float64, DType::float16, DType::uint8})
      for (int mask = 0; mask < 8; ++mask)
        for (const Layout layout : every_layout) {
          CAPTURE(shape, type, mask, static_cast<int>(layout));
          const Grid source{masked(shape, mask), 5};
          const auto element = [&](auto i, auto j, auto k) { return source.at(i, j, k); };
          const std::vector<double> expected = each_element(shape, element);
          const Tensor stretched = broadcast_to(source.tensor(layout, type), shape);
          REQUIRE(values(stretched.copy()) == expected);
          // into rows that are farther apart than they are long
          const Tensor wide = concat({stretched, stretched}, 2);
          REQUIRE(values(narrow(wide, 2, 0, shape[2])) == expected);
          REQUIRE(values(narrow(wide, 2, shape[2], shape[2])) == expected);
        }
}

TEST_CASE("What is written to short rows ends where they end", "[short_rows]") {
  for (std::int64_t columns = 1; columns <= 40; ++columns)
    for (const DType type : {DType::float32, DType::float64, DType::float16, DType::uint8}) {
      CAPTURE(columns, type);
      const Tensor base = full({9, columns}, 7, {.dtype = type}), ones = full({4, 1}, 1, {.dtype = type});
      narrow(base, 0, 2, 4).assign(ones);
      std::vector<double> expected(static_cast<std::size_t>(9 * columns), 7);
      std::fill_n(expected.begin() + 2 * columns, 4 * columns, 1.0);
      REQUIRE(values(base) == expected);
      const Tensor wide = full({9, columns + 3}, 7, {.dtype = type});
      narrow(narrow(wide, 0, 2, 4), 1, 1, columns).assign(broadcast_to(ones, {4, columns}).copy());
      REQUIRE(number(sum(wide.to(DType::float64))) == static_cast<double>(9 * (columns + 3) * 7 - 4 * columns * 6));
    }
}

TEST_CASE("Running totals of short rows, in both directions", "[short_rows]") {
  for (std::int64_t columns = 1; columns <= 20; ++columns)
    for (const std::int64_t rows : {1, 3, 4, 6, 5000})
      for (const bool exclusive : {false, true})
        for (const bool reverse : {false, true}) {
          CAPTURE(columns, rows, exclusive, reverse);
          const Tensor x = random_in(0.5, 1.5, {rows, columns}, DType::float32);
          const std::vector<double> numbers = values(x);
          std::vector<double> sums(numbers.size()), products(numbers.size()), largest(numbers.size());
          for (std::int64_t row = 0; row < rows; ++row) {
            double sum = 0, product = 1, most = 0;
            for (std::int64_t k = 0; k < columns; ++k) {
              const auto at = static_cast<std::size_t>(row * columns + (reverse ? columns - 1 - k : k));
              const auto forwards = static_cast<std::size_t>(row * columns + k);
              if (exclusive) sums[at] = sum, products[at] = product;
              sum += numbers[at], product *= numbers[at];
              if (!exclusive) sums[at] = sum, products[at] = product;
              largest[forwards] = most = std::max(most, numbers[forwards]);
            }
          }
          const CumulativeOptions options{.exclusive = exclusive, .reverse = reverse};
          REQUIRE(relative_error(values(cumsum(x, 1, options)), sums) <= tolerance::roundings32);
          REQUIRE(relative_error(values(cumprod(x, 1, options)), products) <= tolerance::roundings32);
          const auto [most, places] = cummax(x, 1);
          REQUIRE(values(most) == largest);
          REQUIRE(same(take_along_axis(x, places, 1), most));
        }
}

TEST_CASE("Products that leave the range of double and come back, in lines of both kinds", "[short_rows]") {
  const std::vector<double> line = {1e200, 1e200, 1e-300, 1e-300, 1e-200, 1e200, 1e200, 1e100};
  const std::vector<double> expected = {1e200, kInfinity, 1e100, 1e-200, 0, 1e-200, 1, 1e100};
  for (const std::int64_t lines : {1, 4, 7}) {
    const Tensor rows = broadcast_to(from_doubles(line, {8}), {lines, 8}).copy();
    const Tensor wanted = broadcast_to(from_doubles(expected, {8}), {lines, 8}).copy();
    CHECK(relative_error(values(log(cumprod(rows, 1))), values(log(wanted))) <= tolerance::roundings64);
    CHECK(relative_error(values(log(cumprod(transpose(rows), 0))), values(log(transpose(wanted)))) <=
          tolerance::roundings64);
    CHECK(relative_error(values(prod(rows, 1)), std::vector<double>(static_cast<std::size_t>(lines), 1e100)) <=
          tolerance::roundings64);
  }
}

TEST_CASE("Sums, norms and products of short rows and of few long ones", "[short_rows]") {
  for (std::int64_t count = 1; count <= 70; ++count)
    for (const std::int64_t lines : {1, 3, 4, 9, 2500}) {
      CAPTURE(count, lines);
      const Tensor x = random_in(-1.5, 1.5, {lines, count}, DType::float32);
      const std::vector<double> numbers = values(x);
      std::vector<double> sums, norms, products, largest, variances;
      for (std::int64_t line = 0; line < lines; ++line) {
        double sum = 0, square = 0, product = 1, most = -kInfinity;
        for (std::int64_t k = 0; k < count; ++k) {
          const double number = numbers[static_cast<std::size_t>(line * count + k)];
          sum += number, square += number * number, product *= number, most = std::max(most, number);
        }
        const auto n = static_cast<double>(count);
        largest.push_back(most), variances.push_back(square / n - sum / n * (sum / n));
        sums.push_back(sum), norms.push_back(std::sqrt(square)), products.push_back(product);
      }
      for (const Tensor& lying : {x, transpose(transpose(x).copy())}) {  // rows, and columns
        REQUIRE(relative_error(values(sum(lying, 1)), sums) <= tolerance::blocked_sum32);
        REQUIRE(relative_error(values(vector_norm(lying, 2, 1)), norms) <= tolerance::roundings32);
        REQUIRE(relative_error(values(prod(lying, 1)), products) <= tolerance::roundings32);
        REQUIRE(values(max(lying, 1)) == largest);
        if (count > 1) REQUIRE(relative_error(values(var(lying, 1)), variances) <= tolerance::roundings32);
      }
    }
}

TEST_CASE("Products of rows of the smallest and largest floats", "[short_rows]") {
  for (std::int64_t count = 2; count <= 30; count += 2) {
    CAPTURE(count);
    std::vector<double> line;
    for (std::int64_t k = 0; k < count; ++k) line.push_back(k < count / 2 ? 0x1p-149 : 0x1p127);
    std::vector<double> turned(line.rbegin(), line.rend());
    const double expected = std::pow(2.0, static_cast<double>(-22 * (count / 2)));
    for (const auto& numbers : {line, turned}) {
      const Tensor x = broadcast_to(from_doubles(numbers, {count}, DType::float32), {5, count}).copy();
      CHECK(same(prod(x, 1), full({5}, expected)));
    }
    const Tensor zero_and_infinity = from_doubles({0, kInfinity, 2}, {1, 3}, DType::float32);
    CHECK(std::isnan(number(prod(zero_and_infinity, 1))));
  }
}

TEST_CASE("Products of rows with zeros, infinities and NaN, wherever they stand", "[short_rows]") {
  for (const DType type : {DType::float32, DType::float64})
    for (std::int64_t count = 2; count <= 40; ++count)
      for (std::int64_t place = 0; place < count; ++place) {
        CAPTURE(type, count, place);
        const auto row = [&](double special, double other) {
          std::vector<double> line(static_cast<std::size_t>(count), 0.5);
          line[static_cast<std::size_t>(place)] = special;
          line[static_cast<std::size_t>((place + count / 2) % count)] = other;
          return from_doubles(line, {1, count}, type);
        };
        CHECK(same_bits(values(prod(row(0, -2), 1)), {-0.0}));
        CHECK(number(prod(row(kInfinity, -2), 1)) == -kInfinity);
        CHECK(std::isnan(number(prod(row(kInfinity, 0), 1))));
        CHECK(std::isnan(number(prod(row(kNaN, 0), 1))));
      }
}

TEST_CASE("Logarithms of sums of rows do not depend on the rows beside them", "[short_rows]") {
  for (const std::int64_t columns : {1, 2, 5, 16, 33, 70, 200}) {
    CAPTURE(columns);
    const Tensor x = random_in(-5, 5, {150, columns}, DType::float32);
    narrow(x, 0, 3, 1).fill(-kInfinity);
    narrow(x, 0, 60, 1).fill(kNaN);
    narrow(narrow(x, 0, 70, 1), 1, columns / 2, 1).fill(kInfinity);
    narrow(narrow(x, 0, 71, 1), 1, columns / 2, 1).fill(-kInfinity);
    narrow(x, 0, 100, 1).fill(3e38);
    const Tensor logs = log_softmax(x, 1), sums = logsumexp(x, 1);
    for (std::int64_t i = 0; i < 150; ++i) {
      const Tensor row = narrow(x, 0, i, 1);
      REQUIRE(same(narrow(logs, 0, i, 1), log_softmax(row, 1)));
      REQUIRE(same(narrow(sums, 0, i, 1), logsumexp(row, 1)));
    }
    for (const std::int64_t i : {3, 60, 70}) CHECK(number(count_nonzero(isnan(logs[i]))) > 0);
    CHECK(number(sums[3]) == -kInfinity);
    CHECK(std::isnan(number(sums[60])));
    CHECK(number(sums[70]) == kInfinity);
    CHECK(close(logs[100], full({columns}, -std::log(static_cast<double>(columns))), tolerance::roundings32));
  }
}

TEST_CASE("Short rows give the same bits with any number of threads", "[short_rows]") {
  const auto results = [](int threads) {
    const ThreadCount count(threads);
    std::vector<std::vector<double>> list;
    for (const std::int64_t columns : {2, 7, 16, 18}) {
      const Tensor x = random_in(0.5, 1.5, {20000, columns}, DType::float32);
      for (const Tensor& y :
           {cumsum(x, 1), cumprod(x, 1), logcumsumexp(x, 1), cummax(x, 1).values, sum(x, 1), prod(x, 1),
            vector_norm(x, 2, 1), log_softmax(x, 1), logsumexp(x, 1), sum(transpose(x), 0)})
        list.push_back(values(y));
    }
    for (const std::int64_t lines : {1, 2, 3, 5, 11}) {
      const Tensor x = random_in(1e-3, 1.5, {lines, 40000}, DType::float32);
      list.push_back(values(cummax(x, 1).values));
      list.push_back(values(cumprod(x, 1)));
    }
    for (const std::int64_t inner : {2, 20}) {  // tiny products, and others
      const Tensor a = random_in(-1, 1, {50, 1, 9, inner}, DType::float32);
      list.push_back(values(matmul(a, random_in(-1, 1, {1, 100, inner, 4}, DType::float32))));
    }
    return list;
  };
  const auto one = results(1), three = results(3);
  for (std::size_t i = 0; i < one.size(); ++i) {
    CAPTURE(i);
    CHECK(same_bits(one[i], three[i]));
  }
}

TEST_CASE("Many tiny products, in every layout, against loops", "[short_rows]") {
  const std::vector<std::vector<std::int64_t>> sizes = {{1, 1, 1}, {1, 1, 3},  {2, 2, 2}, {3, 3, 3},
                                                        {3, 1, 3}, {1, 4, 4},  {5, 3, 2}, {4, 4, 4},
                                                        {7, 9, 2}, {1, 1, 64}, {8, 8, 8}, {9, 8, 8}};
  for (const DType type : {DType::float32, DType::float64})
    for (const auto& size : sizes)
      for (const int shared : {0, 1, 2})  // whose batch has a single matrix
        for (int layouts = 0; layouts < 16; ++layouts) {
          const std::int64_t m = size[0], n = size[1], k = size[2], batch = 37;
          CAPTURE(type, m, n, k, shared, layouts);
          const Grid left{{shared == 1 ? 1 : batch, m, k}, 3}, right{{shared == 2 ? 1 : batch, k, n}, 11};
          const Tensor a = left.tensor(every_layout[layouts % 4], type),
                       b = right.tensor(every_layout[layouts / 4], type);
          const auto dot = [&](auto l, auto i, auto j) {
            double sum = 0;
            for (std::int64_t t = 0; t < k; ++t) sum += left.at(l, i, t) * right.at(l, t, j);
            return sum;
          };
          REQUIRE(values(matmul(a, b)) == each_element({batch, m, n}, dot));  // whole numbers: exact
        }
}

TEST_CASE("Gradients of tiny products that meet add up", "[short_rows]") {
  const Tensor a = random_in(-1, 1, {40, 3, 2}), b = random_in(-1, 1, {40, 2, 3}, DType::float64, 2);
  const Tensor c = random_in(-1, 1, {40, 2, 3}, DType::float64, 3);
  const auto slope = [&](const Tensor& x) {  // of the sum of all products with it
    return broadcast_to(expand_dims(sum(x, 2), 1), {40, 3, 2});
  };
  GradientTape tape;
  tape.watch(a);
  const Tensor total = sum(matmul(a, b)) + sum(matmul(a, c)) + sum(matmul(a, b));
  CHECK(close(tape.gradient(total, a), slope(b) * 2 + slope(c), tolerance::product64));
}

TEST_CASE("A batch of two axes, of which operands lack one each", "[short_rows]") {
  for (const std::int64_t inner : {2, 20}) {  // tiny, and not
    const Tensor a = random_in(-1, 1, {50, 1, 3, inner}), b = random_in(-1, 1, {700, inner, 4});
    const ThreadCount count(3);
    const Tensor product = matmul(a, b);
    REQUIRE(product.shape() == Shape{50, 700, 3, 4});
    for (std::int64_t i = 0; i < 50; i += 7)
      for (std::int64_t j = 0; j < 700; j += 3)
        REQUIRE(close(product[i][j], matmul(a[i][0], b[j]), tolerance::product64));
  }
}

TEST_CASE("Paddings that repeat what is there, against places counted one by one", "[short_rows]") {
  const auto place = [](PadMode mode, std::int64_t at, std::int64_t size) {
    const auto modulo = [](std::int64_t a, std::int64_t b) { return (a % b + b) % b; };
    switch (mode) {
      case PadMode::edge: return std::clamp<std::int64_t>(at, 0, size - 1);
      case PadMode::reflect: return at < 0 ? -at : at >= size ? 2 * size - 2 - at : at;
      case PadMode::symmetric: return at < 0 ? -1 - at : at >= size ? 2 * size - 1 - at : at;
      case PadMode::wrap: return modulo(at, size);
      case PadMode::constant: break;
    }
    return at;
  };
  for (const PadMode mode : {PadMode::edge, PadMode::reflect, PadMode::symmetric, PadMode::wrap})
    for (std::int64_t size = 1; size <= 5; ++size)
      for (std::int64_t before = 0; before <= 12; ++before)
        for (std::int64_t after = 0; after <= 12; after += before % 3 + 1) {
          const std::int64_t most = mode == PadMode::reflect ? size - 1 : mode == PadMode::symmetric ? size : 12;
          if (before > most || after > most) continue;
          CAPTURE(static_cast<int>(mode), size, before, after);
          const Tensor x = random_in(-1, 1, {size, 3}),
                       weights = random_in(-1, 1, {before + size + after, 5}, DType::float64, 2);
          GradientTape tape;
          tape.watch(x);
          const Tensor padded = pad(x, {{before, after}, {1, 1}}, mode);
          const Tensor slope = tape.gradient(sum(padded * weights), x);
          std::vector<double> expected, slopes(static_cast<std::size_t>(size * 3));
          const std::vector<double> numbers = values(x), w = values(weights);
          for (std::int64_t i = 0; i < before + size + after; ++i)
            for (std::int64_t j = 0; j < 5; ++j) {
              const auto from = static_cast<std::size_t>(place(mode, i - before, size) * 3 + place(mode, j - 1, 3));
              expected.push_back(numbers[from]);
              slopes[from] += w[static_cast<std::size_t>(i * 5 + j)];
            }
          REQUIRE(values(padded) == expected);
          REQUIRE(relative_error(values(slope), slopes) <= tolerance::roundings64);
        }
}

TEST_CASE("Padding of all axes at once, of every layout and type", "[short_rows]") {
  const Shape shape = {3, 4, 5};
  const std::vector<Padding> around = {{2, 1}, {0, 3}, {4, 2}};
  const auto reflected = [](std::int64_t at, std::int64_t size) {
    return at < 0 ? -at : at >= size ? 2 * size - 2 - at : at;
  };
  for (const Layout layout : every_layout)
    for (const DType type : {DType::float32, DType::float16, DType::int64, DType::bool8}) {
      CAPTURE(static_cast<int>(layout), type);
      const Grid grid{shape, 3};
      const auto element = [&](auto i, auto j, auto k) {
        const double value = grid.at(reflected(i - 2, 3), reflected(j, 4), reflected(k - 4, 5));
        return type == DType::bool8 ? static_cast<double>(value != 0) : value;
      };
      CHECK(values(pad(grid.tensor(layout, type), around, PadMode::reflect)) == each_element({6, 7, 11}, element));
    }
  CHECK(number(pad(Tensor(3), std::vector<Padding>{}, PadMode::edge)) == 3);
}

TEST_CASE("Gradients of paddings: of nothing, and of 16 bits that round once", "[short_rows]") {
  for (const PadMode mode : {PadMode::constant, PadMode::edge, PadMode::symmetric, PadMode::wrap}) {
    const Tensor none = zeros({0, 2});
    GradientTape tape;
    tape.watch(none);
    CHECK(tape.gradient(sum(pad(none, {{0, 0}, {1, 1}}, mode)), none).shape() == Shape{0, 2});
  }
  for (const PadMode mode : {PadMode::edge, PadMode::wrap}) {
    const Tensor x = full({1}, 1, {.dtype = DType::bfloat16});
    const Tensor weights = random_in(0, 1, {1024}, DType::bfloat16);
    GradientTape tape;
    tape.watch(x);
    const Tensor padded = pad(x, {{500, 523}}, mode);
    const Tensor slope = tape.gradient(sum(padded * weights), x);
    CHECK(relative_error(values(slope), values(sum(weights.to(DType::float64), 0, {.keepdims = true}))) <=
          tolerance::rounded_to_bfloat16);
  }
}
