// How elements are moved, in packs, tiles and words, and chosen by positions: plans beside plain loops.
#include <array>
#include <map>
#include <set>
#include <utility>

#include "cuda/choosing.hpp"
#include "cuda/route.hpp"
#include "tests/gpu/paper.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace capstan::on_cuda;
using namespace tests;

namespace {

template <std::size_t N>
using Offsets = std::array<std::int64_t, N>;

/// Where the elements of a walk lie, in its order; each operand begins `begin` elements behind its first.
template <int N>
std::vector<Offsets<N>> offsets_of(const Walk<N>& walk, const std::int64_t (&begin)[N]) {
  std::vector<Offsets<N>> list;
  const Places<std::int64_t, N> places(walk);
  for (std::int64_t i = 0; i < walk.count; ++i) {
    std::int64_t at[N];
    places.find(i, at);
    Offsets<N> offsets;
    for (std::size_t n = 0; n < N; ++n) offsets[n] = begin[n] + at[n];
    list.push_back(offsets);
  }
  return list;
}
template <int N>
std::vector<Offsets<N>> offsets_of(const Walk<N>& walk) {
  const std::int64_t begin[N] = {};
  return offsets_of(walk, begin);
}

template <class T>
std::vector<T> sorted(std::vector<T> list) {
  std::sort(list.begin(), list.end());
  return list;
}

/// Whether the elements of each pack lie as the kernels take them.
template <int N>
bool packs_are_right(const Walk<N>& walk, const Route<N>& route, const std::byte* const (&data)[N],
                     const std::int64_t (&bytes)[N], int width) {
  const std::vector<Offsets<N>> all = offsets_of(walk);
  for (std::int64_t first = 0; first + width <= walk.count; first += width) {
    std::int32_t at[N];
    route.places.find(static_cast<std::int32_t>(first), at);
    for (std::size_t n = 0; n < N; ++n) {
      const auto address = reinterpret_cast<std::uintptr_t>(data[n]) + static_cast<std::uintptr_t>(at[n] * bytes[n]);
      if (!route.still[n] && address % static_cast<std::uintptr_t>(width * bytes[n]) != 0) return false;
      for (int k = 0; k < width; ++k)
        if (all[static_cast<std::size_t>(first + k)][n] != at[n] + (route.still[n] ? 0 : k)) return false;
    }
  }
  return walk.rank == 1 || walk.sizes[walk.rank - 1] % width == 0;
}

PaperTensor plain_or_view(PaperRandom& random, const Shape& shape) {
  if (random.one_in(2)) return PaperTensor(shape);
  return random.operand(shape);
}

/// Where a transposition by tiles reads for each place that it writes.
std::vector<Offsets<2>> moved_by(const Transposition& task, std::int32_t side) {
  std::vector<Offsets<2>> list;
  for (std::int64_t number = 0; number < task.tiles; ++number) {
    const Transposition::Tile t = task.tile(static_cast<std::int32_t>(number), side);
    for (std::int32_t row = t.row; row < std::min(t.row + side, task.rows); ++row)
      for (std::int32_t column = t.column; column < std::min(t.column + side, task.columns); ++column)
        list.push_back({t.out + row * task.out_row + column, t.in + row + column * task.in_column});
  }
  return list;
}

}  // namespace

TEST_CASE("parts that 32 bits suffice for are together the whole walk", "[gpu][plans]") {
  const std::int64_t far = std::int64_t{1} << 31;
  const Shape shape = {5, 7};
  for (const auto& [first, second] :
       {std::pair{Numbers{7, 1}, Numbers{far, 3}}, std::pair{Numbers{7, 1}, Numbers{-far, far}},
        std::pair{Numbers{4 * far, far}, Numbers{1, -5}}}) {
    const PaperTensor a(shape, first), b(shape, second);
    const Walk<2> walk(shape, {&a, &b});
    std::vector<Offsets<2>> found;
    in_small_parts(walk, [&](const Walk<2>& part, const std::int64_t(&begin)[2]) {
      REQUIRE(part.small());
      for (const Offsets<2>& offsets : offsets_of(part, begin)) found.push_back(offsets);
    });
    CHECK((sorted(found) == sorted(offsets_of(walk))));
  }
}

TEST_CASE("more elements than 32 bits count come in parts, one behind the other", "[gpu][plans]") {
  const std::int64_t count = (std::int64_t{1} << 33) + 12345;
  const PaperTensor a(Shape{count}), b(Shape{}, Numbers{});
  std::int64_t next = 0, parts = 0;
  in_small_parts(Walk<2>(a.shape, {&a, &b}), [&](const Walk<2>& part, const std::int64_t(&begin)[2]) {
    CHECK(part.small());
    CHECK(begin[0] == next);
    CHECK(begin[1] == 0);
    next += part.count;
    ++parts;
  });
  CHECK(next == count);
  CHECK(parts <= 16);
}

TEST_CASE("packs are neighbours at addresses that they can be read from", "[gpu][plans]") {
  PaperRandom random(21);
  int packed = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    const Shape shape = random.shape(4, 16, 1000);
    if (shape.numel() == 0) continue;
    const PaperTensor out(shape, row_major(shape), DType::float32, random.one_in(4) ? random.below(4) : 0);
    const PaperTensor a = plain_or_view(random, shape), b = random.operand(shape);
    const Walk<3> walk(shape, {&out, &a, &b});
    const std::byte* const data[] = {out.data, a.data, b.data};
    const std::int64_t bytes[] = {4, 4, 4};
    for (const int width : {1, 2, 4}) {
      const Route<3> route(walk, data, bytes, width);
      REQUIRE(route.count == walk.count);
      if (route.packed) REQUIRE(packs_are_right(walk, route, data, bytes, width));
      packed += route.packed && width == 4 ? 1 : 0;
    }
  }
  CHECK(packed > 200);  // they do occur
}

TEST_CASE("dense operands, and one value for all, move in packs", "[gpu][plans]") {
  const Shape shape = {3, 5};
  const PaperTensor out(shape), a(shape), one(Shape{});
  const Walk<3> walk(shape, {&out, &a, &one});
  const std::int64_t bytes[] = {4, 2, 4};
  const std::byte* const data[] = {out.data, a.data, one.data};
  const Route<3> route(walk, data, bytes, 4);
  CHECK(route.packed);
  CHECK_FALSE(route.still[1]);
  CHECK(route.still[2]);
  const std::byte* const odd[] = {out.data, a.data + 2, one.data};
  CHECK_FALSE(Route<3>(walk, odd, bytes, 4).packed);
}

TEST_CASE("matrices that are transposed by tiles are moved whole", "[gpu][plans]") {
  struct Move {
    Shape shape;  // of what is written, contiguous
    Numbers steps;
    bool tiled;
  };
  const Move moves[] = {{{20, 33}, {1, 20}, true},         {{3, 17, 40}, {680, 1, 17}, true},
                        {{17, 3, 40}, {1, 680, 17}, true}, {{2, 16, 3, 16}, {16 * 16 * 3, 1, 16 * 16, 16}, true},
                        {{64, 64}, {1, 100}, true},        {{20, 15}, {1, 20}, false},  // too few columns
                        {{15, 20}, {1, 15}, false},                                     // too few rows
                        {{20, 33}, {33, 1}, false},                                     // nothing to transpose
                        {{20, 33}, {-1, 20}, false},                                    // no neighbours
                        {{20, 33}, {2, 40}, false}};
  for (const Move& move : moves) {
    const PaperTensor out(move.shape), x(move.shape, move.steps);
    const Walk<2> walk(move.shape, {&out, &x});
    const int axis = transposed_axis(walk);
    INFO(to_string(move.shape));
    CHECK((axis >= 0) == move.tiled);
    if (axis < 0) continue;
    for (const std::int32_t side : {16, 32, 64})
      CHECK((sorted(moved_by(Transposition(walk, axis, side), side)) == sorted(offsets_of(walk))));
  }
}

TEST_CASE("elements that move as words are the same elements", "[gpu][plans]") {
  PaperRandom random(22);
  std::set<std::int64_t> widths;
  for (int trial = 0; trial < 2000; ++trial) {
    const std::int64_t places = 1 + random.below(5), width = 1 + random.below(24), element = 1 << random.below(4);
    const Shape shape = {places, width};
    const std::int64_t step = width + (random.one_in(2) ? 0 : random.below(4));
    const DType dtype = element == 1   ? DType::uint8
                        : element == 2 ? DType::int16
                        : element == 4 ? DType::int32
                                       : DType::int64;
    const PaperTensor positions(shape, {1, 0}, DType::int64), from(shape, {0, 1}, dtype, random.below(3));
    core::PositionRule rule{step, 10, false};
    Walk<2> walk(shape, {&positions, &from});
    const std::vector<Offsets<2>> all = offsets_of(walk);
    const std::int64_t joined = join_elements<1>(walk, rule, element, {from.data});
    widths.insert(joined);
    REQUIRE(joined * element <= 16);
    REQUIRE(rule.scale * joined == step);
    REQUIRE(walk.count * joined == shape.numel());
    if (joined > 1)
      REQUIRE(reinterpret_cast<std::uintptr_t>(from.data) % static_cast<std::uintptr_t>(joined * element) == 0);
    const std::vector<Offsets<2>> words = offsets_of(walk);
    for (std::int64_t i = 0; i < shape.numel(); ++i) {
      const Offsets<2>&own = all[static_cast<std::size_t>(i)], &word = words[static_cast<std::size_t>(i / joined)];
      REQUIRE(own[0] == word[0]);
      REQUIRE(own[1] == word[1] * joined + i % joined);
    }
  }
  CHECK(widths.size() >= 4);  // words of several sizes occurred
}

TEST_CASE("values can clash only where the target stands still and they do not", "[gpu][plans]") {
  PaperRandom random(23);
  for (int trial = 0; trial < 2000; ++trial) {
    const Shape shape = random.shape(4, 4, 100);
    if (shape.numel() == 0) continue;
    const PaperTensor target(shape, random.strides(shape)), values = random.operand(shape);
    bool expected = false;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const int own = axis - (shape.rank() - values.rank());
      const bool moves = own >= 0 && values.shape[own] != 1 && values.strides[own] != 0;
      expected = expected || (shape[axis] > 1 && target.strides[axis] == 0 && moves);
    }
    REQUIRE(can_clash(values, target) == expected);
  }
}

TEST_CASE("sources have the same number exactly if they are written to one place", "[gpu][plans]") {
  PaperRandom random(24);
  for (int trial = 0; trial < 1500; ++trial) {
    // a base [rows, columns]; positions choose along one axis, the target stands still there
    const std::int64_t rows = 2 + random.below(4), columns = 2 + random.below(4), picks = 1 + random.below(6);
    const bool by_rows = random.one_in(2), each = random.one_in(2);  // each: positions of their own for every line
    const Shape shape = by_rows ? Shape{picks, columns} : Shape{rows, picks};
    const PaperTensor target(shape, by_rows ? Numbers{0, 1} : Numbers{columns, 0});
    const PaperTensor positions(shape,
                                each      ? Numbers{shape[1], 1}
                                : by_rows ? Numbers{1, 0}
                                          : Numbers{0, 1},
                                DType::int64);
    const core::PositionRule rule{by_rows ? columns : 1, by_rows ? rows : columns, false};
    Numbers given(static_cast<std::size_t>(shape.numel()));
    for (std::int64_t& position : given) position = random.below(rule.size);

    const Shape meeting = meeting_shape(positions, target);
    const PlaceNumbers numbers(target, meeting, rule);
    std::map<std::int64_t, std::int64_t> place_of;
    std::set<std::int64_t> places;
    each_place(meeting, [&](const std::int64_t* index) {
      const std::int64_t position = given[static_cast<std::size_t>(offset_at(positions, 2, index))];
      const std::int64_t place = offset_at(target, 2, index) + position * rule.scale;
      const std::int64_t number = position + offset_at(numbers.geometry, 2, index);
      REQUIRE(number < numbers.count);
      const auto [known, fresh] = place_of.emplace(number, place);
      REQUIRE(known->second == place);
      REQUIRE(places.insert(place).second == fresh);
    });
    for (int axis = 0; axis < 2; ++axis)
      if (meeting[axis] == 1 && shape[axis] > 1) REQUIRE(target.strides[axis] != 0);  // there places differ anyway
  }
}
