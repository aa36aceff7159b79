// Where threads find the elements of strided operands, beside plain loops over their axes.
#include "cuda/geometry.hpp"

#include <limits>

#include "tests/gpu/paper.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace capstan::on_cuda;
using namespace tests;

namespace {

constexpr std::int64_t kMost = INT32_MAX;

/// Elements whose offsets differ from those that plain loops find, with indices of both types.
template <int N>
std::int64_t misplaced(const Shape& shape, const TensorImpl* const (&operands)[N]) {
  const Walk<N> walk(shape, operands);
  if (walk.count == 0) return 0;
  const Places<std::int32_t, N> few(walk);
  const Places<std::int64_t, N> many(walk);
  std::int64_t number = 0, wrong = 0;
  each_place(shape, [&](const std::int64_t* index) {
    std::int32_t at[N];
    std::int64_t far[N];
    few.find(static_cast<std::int32_t>(number), at);
    many.find(number++, far);
    for (int n = 0; n < N; ++n) {
      const std::int64_t expected = offset_at(*operands[n], shape.rank(), index);
      if (at[n] != expected || far[n] != expected) ++wrong;
    }
  });
  return number == walk.count ? wrong : number - walk.count;
}

/// Whether two loops that follow each other could be one.
template <int N>
bool could_join(const Walk<N>& walk, int axis) {
  for (int n = 0; n < N; ++n)
    if (walk.strides[n][axis] != walk.strides[n][axis + 1] * walk.sizes[axis + 1]) return false;
  return true;
}

Walk<1> walk_of(const Shape& shape, const Numbers& strides) {
  const PaperTensor x(shape, strides);
  return Walk<1>(shape, {&x});
}

template <int N>
int index_bits(const Walk<N>& walk) {
  int bits = 0;
  with_places(walk, [&]<class I>(const Places<I, N>&) { bits = 8 * static_cast<int>(sizeof(I)); });
  return bits;
}

std::int64_t wrong_quotients(std::int64_t divisor, const Numbers& dividends) {
  const Divider<std::int32_t> few(divisor);
  const Divider<std::int64_t> many(divisor);
  std::int64_t wrong = 0;
  for (const std::int64_t dividend : dividends) {
    if (dividend < 0 || dividend > kMost) continue;
    if (few.quotient(static_cast<std::int32_t>(dividend)) != dividend / divisor) ++wrong;
    if (many.quotient(dividend) != dividend / divisor) ++wrong;
  }
  return wrong;
}

/// Both sides of multiples of the divisor, small and large, and the ends of what 32 bits hold.
Numbers edges_for(std::int64_t divisor) {
  Numbers list = {0, 1, 2, 3, kMost - 2, kMost - 1, kMost, kMost / 2, (std::int64_t{1} << 30)};
  const std::int64_t last = kMost / divisor;
  for (const std::int64_t multiple :
       {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, last / 3, last / 2, last - 1, last})
    for (const std::int64_t beside : {-1, 0, 1}) list.push_back(multiple * divisor + beside);
  return list;
}

}  // namespace

TEST_CASE("elements of random operands are found where plain loops find them", "[gpu][geometry]") {
  PaperRandom random(1);
  for (int trial = 0; trial < 3000; ++trial) {
    const Shape shape = random.shape(8, 5, 2000);
    const PaperTensor out(shape), a = random.operand(shape), b = random.operand(shape);
    INFO(to_string(shape));
    REQUIRE(misplaced<1>(shape, {&a}) == 0);
    REQUIRE(misplaced<3>(shape, {&out, &a, &b}) == 0);
  }
}

TEST_CASE("no two loops of a walk that follow each other could be one", "[gpu][geometry]") {
  PaperRandom random(2);
  for (int trial = 0; trial < 3000; ++trial) {
    const Shape shape = random.shape(8, 5, 2000);
    const PaperTensor a = random.operand(shape), b = random.operand(shape);
    const Walk<2> walk(shape, {&a, &b});
    REQUIRE(walk.count == shape.numel());
    REQUIRE(walk.rank >= 1);
    if (walk.count == 0) continue;
    for (int axis = 0; axis + 1 < walk.rank; ++axis) REQUIRE_FALSE(could_join(walk, axis));
    std::int64_t places = 1;
    for (int axis = 0; axis < walk.rank; ++axis) places *= walk.sizes[axis];
    REQUIRE(places == walk.count);
  }
}

TEST_CASE("contiguous operands are one loop, whatever their rank", "[gpu][geometry]") {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{7}, Shape{2, 3}, Shape{1, 5, 1}, Shape{2, 1, 3, 1, 2, 1, 3, 1}}) {
    const PaperTensor a(shape), b(shape);
    const Walk<2> walk(shape, {&a, &b});
    INFO(to_string(shape));
    CHECK(walk.rank == 1);
    CHECK(walk.count == shape.numel());
    CHECK(walk.all_dense());
  }
  const Shape empty = {3, 0, 2};
  const PaperTensor a(empty);
  CHECK(Walk<1>(empty, {&a}).count == 0);
}

TEST_CASE("a stretched operand costs a loop only where it moves again", "[gpu][geometry]") {
  const Shape shape = {4, 5, 6};
  const PaperTensor out(shape), one(Shape{}), row({6}), column({4, 1, 1}), middle({5, 1});
  const Walk<2> constant(shape, {&out, &one});
  CHECK(constant.rank == 1);
  CHECK(constant.dense(0));
  CHECK_FALSE(constant.all_dense());
  const Walk<2> rows(shape, {&out, &row});
  CHECK(rows.rank == 2);
  CHECK(rows.sizes[0] == 20);
  CHECK(rows.strides[1][0] == 0);
  CHECK(Walk<2>(shape, {&out, &column}).rank == 2);
  CHECK(Walk<2>(shape, {&out, &middle}).rank == 3);
}

TEST_CASE("axes that run backwards are joined if they all do, and eight that cannot be stay eight", "[gpu][geometry]") {
  const Walk<1> backwards = walk_of({3, 4}, {-4, -1});
  CHECK(backwards.rank == 1);
  CHECK(backwards.strides[0][0] == -1);
  CHECK_FALSE(backwards.dense(0));
  CHECK(walk_of({3, 4}, {4, -1}).rank == 2);
  const Shape eight = {2, 3, 2, 3, 2, 3, 2, 3};
  const PaperTensor turned(eight, {1, 2, 6, 12, 36, 72, 216, 432});
  CHECK(Walk<1>(eight, {&turned}).rank == 8);
  CHECK(misplaced<1>(eight, {&turned}) == 0);
}

TEST_CASE("32 bits are used as long as numbers and offsets fit them", "[gpu][geometry]") {
  const std::int64_t beyond = kMost + 1;
  CHECK(walk_of({kMost}, {1}).small());
  CHECK_FALSE(walk_of({beyond}, {1}).small());
  CHECK_FALSE(walk_of({beyond}, {0}).small());  // the number does not fit
  CHECK(walk_of({2}, {kMost}).small());
  CHECK(walk_of({2}, {-kMost}).small());
  CHECK_FALSE(walk_of({2}, {beyond}).small());
  CHECK_FALSE(walk_of({2}, {-beyond}).small());
  CHECK_FALSE(walk_of({3, 2}, {std::int64_t{1} << 30, 1}).small());
  CHECK_FALSE(walk_of({2, 2}, {kMost, 1}).small());
  CHECK(walk_of({2, 2}, {kMost, -kMost}).small());  // upwards and downwards count apart
  CHECK(walk_of({0, 5}, {std::int64_t{1} << 40, 1}).small());
  CHECK(index_bits(walk_of({2}, {kMost})) == 32);
  CHECK(index_bits(walk_of({2}, {beyond})) == 64);
}

TEST_CASE("offsets at the ends of 32 bits are exact", "[gpu][geometry]") {
  const Shape shape = {3, 2, 2};
  const PaperTensor a(shape, {(kMost - 5) / 2, 4, 1}), b(shape, {-(kMost - 5) / 2, -4, 1});
  REQUIRE(Walk<2>(shape, {&a, &b}).small());
  CHECK(misplaced<2>(shape, {&a, &b}) == 0);
}

TEST_CASE("places beyond 32 bits are found with 64", "[gpu][geometry]") {
  const std::int64_t wide = (std::int64_t{1} << 33) + 7;
  const Shape shape = {5, wide};
  const PaperTensor a(shape), b(shape, {3 * wide, 2});
  const Walk<2> walk(shape, {&a, &b});
  const Places<std::int64_t, 2> places(walk);
  for (const std::int64_t row : {0, 4})
    for (const std::int64_t column : {std::int64_t{0}, std::int64_t{1} << 32, wide - 1}) {
      std::int64_t at[2];
      places.find(row * wide + column, at);
      CHECK(at[0] == row * wide + column);
      CHECK(at[1] == row * 3 * wide + column * 2);
    }
}

TEST_CASE("division by multiplication is exact for every divisor up to 2000", "[gpu][geometry]") {
  PaperRandom random(3);
  for (std::int64_t divisor = 1; divisor <= 2000; ++divisor) {
    Numbers dividends = edges_for(divisor);
    for (std::int64_t i = 0; i < 300; ++i) dividends.push_back(i * 7);
    for (int i = 0; i < 100; ++i) dividends.push_back(random.below(kMost + 1));
    INFO(divisor);
    REQUIRE(wrong_quotients(divisor, dividends) == 0);
  }
}

TEST_CASE("division by multiplication is exact around powers of two and at the largest divisors", "[gpu][geometry]") {
  PaperRandom random(4);
  Numbers divisors = {kMost, kMost - 1, kMost - 2, 3 * 715827882 + 1, 46340, 46341, 65535, 65536, 65537};
  for (int bit = 1; bit < 31; ++bit)
    for (const std::int64_t beside : {-1, 0, 1}) divisors.push_back((std::int64_t{1} << bit) + beside);
  for (int i = 0; i < 2000; ++i) divisors.push_back(1 + random.below(kMost));
  for (const std::int64_t divisor : divisors) {
    if (divisor < 1 || divisor > kMost) continue;
    Numbers dividends = edges_for(divisor);
    for (int i = 0; i < 200; ++i) dividends.push_back(random.below(kMost + 1));
    INFO(divisor);
    REQUIRE(wrong_quotients(divisor, dividends) == 0);
  }
}
