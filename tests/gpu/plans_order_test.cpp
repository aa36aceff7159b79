// Lines along an axis, their parts, and keys that stand in the order of elements, beside plain loops and comparisons.
#include <map>
#include <set>

#include "cuda/keys.hpp"
#include "cuda/lines.hpp"
#include "tests/gpu/paper.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace capstan::on_cuda;
using namespace tests;

namespace {

/// Fewer is earlier: numbers by size, -0 as 0, NaN last.
bool earlier(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }

template <class T>
double number_of(std::uint64_t bits) {
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof value);  // little-endian
  return static_cast<double>(value);
}

template <class T>
std::int64_t misordered(const std::vector<std::uint64_t>& bits) {
  const ElementOrder order(dtype_of<T>());
  std::int64_t wrong = 0;
  for (std::size_t i = 1; i < bits.size(); ++i) {
    const double a = number_of<T>(bits[i - 1]), b = number_of<T>(bits[i]);
    const std::uint64_t left = order.key(bits[i - 1]), right = order.key(bits[i]);
    if ((left < right) != earlier(a, b) || (right < left) != earlier(b, a)) ++wrong;
    if (left > order.last || order.is_nan(bits[i]) != std::isnan(b)) ++wrong;
  }
  return wrong;
}

}  // namespace

TEST_CASE("lines along an axis have all elements, each line its own", "[gpu][plans]") {
  PaperRandom random(27);
  for (int trial = 0; trial < 1000; ++trial) {
    const Shape shape = random.shape(5, 6, 800);
    if (shape.rank() == 0 || shape.numel() == 0) continue;
    const PaperTensor x(shape);
    const int axis = static_cast<int>(random.below(shape.rank()));
    const Lines lines(shape, axis);
    REQUIRE(lines.rows * lines.count == shape.numel());
    std::set<std::int64_t> seen;
    std::map<std::int64_t, std::int64_t> line_of;
    for (std::int64_t row = 0; row < lines.rows; ++row)
      for (std::int64_t step = 0; step < lines.count; ++step) {
        const std::int64_t place = lines.start(row) + step * lines.inner;
        REQUIRE(place < shape.numel());
        REQUIRE(seen.insert(place).second);
        line_of[place] = row;
      }
    each_place(shape, [&](const std::int64_t* index) {
      const std::int64_t place = offset_at(x, shape.rank(), index), step = index[axis];
      REQUIRE(line_of[place] == line_of[place - step * x.strides[axis]]);
      REQUIRE(place == lines.start(line_of[place]) + step * lines.inner);
    });
  }
}

TEST_CASE("parts of lines have all steps, and none is empty", "[gpu][plans]") {
  for (const std::int64_t rows : {0, 1, 3, 132, 5000, 1 << 20})
    for (const std::int64_t count : {0, 1, 63, 64, 65, 255, 256, 1000, 8192, 8193, 100000, 1 << 24})
      for (const std::int64_t inner : {1, 2}) {
        Lines lines(rows, count);
        lines.inner = inner;
        const Walking walking(lines);
        INFO(rows << " lines of " << count);
        REQUIRE(walking.length >= 1);
        REQUIRE(walking.parts >= 1);
        REQUIRE(walking.parts * walking.length >= count);
        if (count > 0) REQUIRE((walking.parts - 1) * walking.length < count);
        REQUIRE(walking.by_threads == (inner > 1 || count <= Walking::kShort));
      }
  CHECK(Walking(Lines(1, 1 << 24)).parts > 100);  // one long line is work for the whole GPU
}

TEST_CASE("keys stand in the order of their elements, of every type", "[gpu][plans]") {
  std::mt19937_64 random(28);
  std::vector<std::uint64_t> bytes, words, singles, doubles;
  for (int i = 0; i < 4000; ++i) bytes.push_back(random() & 0xFF);
  for (int i = 0; i < 300000; ++i) words.push_back(random() & 0xFFFF);
  for (int i = 0; i < 100000; ++i) singles.push_back(random() & 0xFFFFFFFF);
  for (int i = 0; i < 100000; ++i) doubles.push_back(random());
  for (const std::uint64_t special : {0x00000000u, 0x80000000u, 0x7F800000u, 0xFF800000u, 0x7FC00000u, 0xFFC00000u,
                                      0x00000001u, 0x80000001u, 0x7F7FFFFFu, 0xFF7FFFFFu, 0x80000000u, 0x00000000u}) {
    singles.push_back(special);
    words.push_back(special >> 16);
  }
  for (const std::uint64_t half : {0x0000u, 0x8000u, 0x7C00u, 0xFC00u, 0x7E00u, 0xFE00u, 0x0001u, 0x8001u, 0x7BFFu})
    words.push_back(half);
  for (const std::uint64_t wide :
       {0x0000000000000000ull, 0x8000000000000000ull, 0x7FF0000000000000ull, 0xFFF0000000000000ull,
        0x7FF8000000000000ull, 0xFFF8000000000000ull, 0x0000000000000001ull, 0x8000000000000001ull})
    doubles.push_back(wide);
  CHECK(misordered<std::int8_t>(bytes) == 0);
  CHECK(misordered<std::uint8_t>(bytes) == 0);
  CHECK(misordered<std::int16_t>(words) == 0);
  CHECK(misordered<float16>(words) == 0);
  CHECK(misordered<bfloat16>(words) == 0);
  CHECK(misordered<std::int32_t>(singles) == 0);
  CHECK(misordered<float>(singles) == 0);
  CHECK(misordered<double>(doubles) == 0);
  const ElementOrder truth(DType::bool8);
  CHECK(truth.key(0) < truth.key(1));
  const ElementOrder order(DType::int64);  // not by way of double, which loses digits
  for (std::size_t i = 1; i < doubles.size(); ++i) {
    const auto a = static_cast<std::int64_t>(doubles[i - 1]), b = static_cast<std::int64_t>(doubles[i]);
    REQUIRE((order.key(doubles[i - 1]) < order.key(doubles[i])) == (a < b));
  }
}

TEST_CASE("elements are read and written by their size", "[gpu][plans]") {
  for (const int bytes : {1, 2, 4, 8}) {
    std::vector<std::byte> memory(32, std::byte{0});
    std::byte* const room = memory.data();
    const std::uint64_t all = ~std::uint64_t{0} >> (64 - 8 * bytes), value = 0xF123456789ABCDEFu & all;
    write_bits(room, bytes, 2, value);
    CHECK(read_bits(room, bytes, 2) == value);
    CHECK(read_bits(room, bytes, 1) == 0);
    CHECK(read_bits(room, bytes, 3) == 0);
  }
}
