// How rows, reductions and the sums of normalization are dealt to threads, beside plain loops.
#include <utility>

#include "cuda/norm_columns.hpp"
#include "cuda/norm_units.hpp"
#include "cuda/recurrent_plan.hpp"
#include "cuda/reduce_plan.hpp"
#include "tests/gpu/paper.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace capstan::on_cuda;
using namespace tests;

namespace {

bool is_group(int lanes) {
  return lanes == kRowThreads || (lanes >= 1 && lanes <= kWarp && (lanes & (lanes - 1)) == 0);
}

/// Sizes on both sides of where plans change.
const Numbers& sizes() {
  static const Numbers list = {1,    2,     3,     4,     5,      7,      8,       31,      32,
                               33,   63,    64,    65,    127,    128,    129,     255,     256,
                               257,  1000,  1023,  1024,  1025,   4096,   8191,    8192,    8193,
                               9000, 32767, 32768, 40000, 270335, 270336, 1 << 20, 1 << 22, (1 << 24) + 3};
  return list;
}

// --- reductions: what the kernels of reduce.cuh read for each result, in any order ---

using Reads = std::vector<Numbers>;  // of each result

Reads plain_reads(const PaperTensor& x, unsigned mask, std::int64_t outputs) {
  Reads reads(static_cast<std::size_t>(outputs));
  each_place(x.shape, [&](const std::int64_t* index) {
    std::int64_t output = 0, offset = 0;
    for (int axis = 0; axis < x.rank(); ++axis) {
      offset += index[axis] * x.strides[axis];
      if ((mask >> axis & 1u) == 0) output = output * x.shape[axis] + index[axis];
    }
    reads.at(static_cast<std::size_t>(output)).push_back(offset);
  });
  return reads;
}

/// A pack at a place, if it lies as a pack must.
void read_pack(const PaperTensor& x, std::int64_t place, int pack, Numbers& list) {
  REQUIRE(x.address_of(place) % static_cast<std::uintptr_t>(pack * size_of(x.dtype)) == 0);
  for (int i = 0; i < pack; ++i) list.push_back(place + i);
}

std::int64_t until_aligned(const PaperTensor& x, std::int64_t place, std::int64_t count) {
  const auto past = static_cast<std::int64_t>(x.address_of(place) % 16);
  return std::min((16 - past) % 16 / size_of(x.dtype), count);
}

void read_row(const PaperTensor& x, const ReducePlan& plan, std::int64_t row, int pack, Numbers& list) {
  const std::int64_t start = plan.kept.offset(row), count = plan.reduced.count;
  const std::int64_t head = plan.packed ? until_aligned(x, start, count) : 0, packs = (count - head) / pack;
  const auto single = [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to; ++i) list.push_back(start + plan.reduced.offset(i));
  };
  for (std::int64_t piece = 0; piece < plan.pieces; ++piece) {
    const std::int64_t begin = piece * plan.slice, reach = begin + plan.slice;
    if (!plan.packed) {
      single(begin, std::min(reach, count));
      continue;
    }
    if (piece == 0) single(0, head);
    for (std::int64_t i = begin; i < std::min(reach, packs); ++i)
      read_pack(x, start + plan.reduced.offset(head + i * pack), pack, list);
    if (piece + 1 == plan.pieces) single(head + packs * pack, count);
  }
}

void read_columns(const PaperTensor& x, const ReducePlan& plan, std::int64_t outer, int pack, Reads& reads) {
  const int width = plan.packed ? pack : 1;
  for (std::int64_t tile = 0; tile < plan.tiles; ++tile)
    for (int lane = 0; lane < plan.lanes; ++lane) {
      const std::int64_t column = (tile * plan.lanes + lane) * width;
      if (column >= plan.columns) continue;
      for (std::int64_t piece = 0; piece < plan.pieces; ++piece)
        for (std::int64_t i = piece * plan.slice; i < std::min((piece + 1) * plan.slice, plan.reduced.count); ++i) {
          Numbers side;
          read_pack(x, plan.kept.offset(outer) + column * plan.column_step + plan.reduced.offset(i), width, side);
          for (int v = 0; v < width; ++v)
            reads.at(static_cast<std::size_t>(outer * plan.columns + column + v))
                .push_back(side[static_cast<std::size_t>(v)]);
        }
    }
}

Reads planned_reads(const PaperTensor& x, const ReducePlan& plan, int row_pack, int column_pack) {
  Reads reads(static_cast<std::size_t>(plan.outputs()));
  for (std::int64_t i = 0; i < plan.kept.count; ++i) {
    if (plan.by_columns) read_columns(x, plan, i, column_pack, reads);
    else read_row(x, plan, i, row_pack, reads[static_cast<std::size_t>(i)]);
  }
  return reads;
}

void check_reduction(const PaperTensor& x, unsigned mask, int row_pack, int column_pack) {
  const ReducePlan plan(x, mask, row_pack, column_pack);
  INFO(to_string(x.shape) << ", mask " << mask << ", packs of " << row_pack << " and " << column_pack);
  if (x.numel() == 0) return;
  const std::int64_t items = plan.kept.count * (plan.by_columns ? plan.tiles : 1) * plan.pieces;
  REQUIRE(plan.pieces >= 1);
  if (plan.by_columns) REQUIRE(plan.shape().blocks == items);
  else REQUIRE(std::int64_t{plan.shape().blocks} * (kRowThreads / plan.lanes) >= items);
  Reads expected = plain_reads(x, mask, plan.outputs()), actual = planned_reads(x, plan, row_pack, column_pack);
  for (Reads* const reads : {&expected, &actual})
    for (Numbers& list : *reads) std::sort(list.begin(), list.end());
  REQUIRE((actual == expected));
}

}  // namespace

TEST_CASE("groups of threads have all rows and all units of them", "[gpu][plans]") {
  for (const std::int64_t rows : sizes())
    for (const std::int64_t units : sizes())
      for (const bool near : {true, false}) {
        const RowDeal deal(rows, units, near);
        INFO(rows << " rows of " << units << " units");
        REQUIRE(is_group(deal.lanes));
        REQUIRE(deal.pieces >= 1);
        REQUIRE(deal.pieces * deal.slice >= units);
        if (deal.pieces > 1) REQUIRE(deal.lanes == kRowThreads);  // pieces are joined block by block
        REQUIRE(std::int64_t{deal.shape(rows).blocks} * (kRowThreads / deal.lanes) >= rows * deal.pieces);
      }
  CHECK(RowDeal(0, 100, true).shape(0).blocks == 0);
  CHECK(RowDeal(1, 1 << 24, true).pieces > 100);  // one long row is work for the whole GPU
  CHECK(RowDeal(1 << 20, 4, true).lanes == 1);
}

TEST_CASE("rows that threads keep in registers fit them, in the smallest group that will do", "[gpu][plans]") {
  for (const auto& [few, many] : {std::pair{4, 16}, std::pair{8, 32}, std::pair{8, 16}})
    for (std::int64_t columns = 1; columns <= 9000; ++columns) {
      const KeptRows kept(columns, few, many);
      if (columns > std::int64_t{kRowThreads} * many) {
        REQUIRE(kept.lanes == 0);
        continue;
      }
      REQUIRE(is_group(kept.lanes));
      REQUIRE((kept.each == few || kept.each == many));
      REQUIRE(std::int64_t{kept.lanes} * kept.each >= columns);
      if (kept.lanes == kRowThreads) REQUIRE(columns > std::int64_t{kWarp} * many);
      REQUIRE(std::int64_t{kept.shape(1000).blocks} * (kRowThreads / kept.lanes) >= 1000);
    }
}

TEST_CASE("rows are mapped in packs only where all operands allow it", "[gpu][plans]") {
  for (const std::int64_t rows : sizes())
    for (const std::int64_t columns : sizes()) {
      const MapPlan apart(rows, columns, 4, false), single(rows, columns, 1, true), packed(rows, columns, 4, true);
      REQUIRE_FALSE(apart.packed);
      REQUIRE_FALSE(single.packed);
      REQUIRE(packed.packed == (columns % 4 == 0 || columns >= 64));
      REQUIRE(packed.deal.pieces * packed.deal.slice >= (packed.packed ? columns / 4 : columns));
    }
}

TEST_CASE("offsets are found by a product in double, exactly", "[gpu][plans]") {
  PaperRandom random(11);
  for (int trial = 0; trial < 2000; ++trial) {
    AxisWalk walk;
    const std::int64_t limit = std::int64_t{1} << 50;
    std::int64_t count = 1;
    Numbers extent, steps;
    for (int axis = 0; axis < 4; ++axis) {
      const std::int64_t size = 2 + random.below(std::int64_t{1} << (1 + random.below(20)));
      if (count > limit / size) break;
      count *= size;
      extent.push_back(size);
      steps.push_back(random.below(1 << 20) * 2 + 1);  // mostly not to be joined
      walk.append(size, steps.back());
    }
    REQUIRE(walk.count == count);
    for (int i = 0; i < 50; ++i) {
      const std::int64_t index = i == 0 ? count - 1 : random.below(count);
      std::int64_t expected = 0, left = index;
      for (std::size_t axis = extent.size(); axis-- > 0; left /= extent[axis])
        expected += left % extent[axis] * steps[axis];
      REQUIRE(walk.offset(index) == expected);
    }
  }
}

TEST_CASE("reductions of small views read each element once, for the result that it belongs to", "[gpu][plans]") {
  PaperRandom random(12);
  for (int trial = 0; trial < 1500; ++trial) {
    const Shape shape = random.shape(5, 12, 3000);
    const DType dtype = random.one_in(2) ? DType::float32 : DType::float16;
    const PaperTensor x(shape, random.strides(shape), dtype, random.below(5));
    const auto mask = static_cast<unsigned>(random.below(std::int64_t{1} << shape.rank()));
    const int pack = 16 / static_cast<int>(size_of(dtype));
    check_reduction(x, mask, 1, 1);
    check_reduction(x, mask, pack, 4);
    check_reduction(x, mask, pack, 0);
  }
}

TEST_CASE("reductions of larger tensors by rows, by columns and in pieces read each element once", "[gpu][plans]") {
  bool by_columns = false, by_rows = false, in_pieces = false, columns_in_pieces = false, packed_columns = false;
  for (const Shape& shape : {Shape{3, 40000}, Shape{40000, 3}, Shape{1, 70001}, Shape{2, 300, 256}, Shape{20000, 8},
                             Shape{64, 1024}, Shape{1000, 300}, Shape{5, 4000, 12}})
    for (unsigned mask = 1; mask < 1u << shape.rank(); ++mask)
      for (const std::int64_t offset : {0, 1}) {
        const PaperTensor x(shape, row_major(shape), DType::float32, offset);
        check_reduction(x, mask, 4, 4);
        const ReducePlan plan(x, mask, 4, 4);
        by_columns = by_columns || plan.by_columns;
        by_rows = by_rows || !plan.by_columns;
        in_pieces = in_pieces || (!plan.by_columns && plan.pieces > 1);
        columns_in_pieces = columns_in_pieces || (plan.by_columns && plan.pieces > 1);
        packed_columns = packed_columns || (plan.by_columns && plan.packed);
      }
  CHECK(by_columns);
  CHECK(by_rows);
  CHECK(in_pieces);
  CHECK(columns_in_pieces);
  CHECK(packed_columns);
}

TEST_CASE("places along one axis keep their order, which argmax returns", "[gpu][plans]") {
  const Shape shape = {3, 50, 4};
  for (const Numbers& steps : {Numbers{200, 4, 1}, Numbers{1, 3, 150}, Numbers{200, -4, 1}, Numbers{4, 0, 1}})
    for (int axis = 0; axis < 3; ++axis) {
      const PaperTensor x(shape, steps);
      const ReducePlan plan(x, 1u << axis, 1, 1);
      for (std::int64_t i = 0; i < shape[axis]; ++i)
        REQUIRE(plan.reduced.offset(i) == i * steps[static_cast<std::size_t>(axis)]);
    }
}

TEST_CASE("parts of units that are normalized have all of their elements", "[gpu][plans]") {
  for (const std::int64_t samples : sizes())
    for (const std::int64_t units : {1, 3, 64, 2048})
      for (const std::int64_t inner : {1, 4, 31, 32, 784, 9000})
        for (const std::int64_t pack : {1, 4}) {
          if (inner % pack != 0) continue;
          const NormUnits u{samples, units, inner};
          const NormCut cut(u, pack);
          const std::int64_t all = cut.columns ? samples : u.count() / pack;
          INFO(samples << " samples, " << units << " units, " << inner << " inside");
          REQUIRE(cut.parts >= 1);
          REQUIRE(cut.parts * cut.share >= all);
          REQUIRE((cut.parts - 1) * cut.share < all);
          REQUIRE(cut.width == (cut.columns ? inner : 1));
        }
}

TEST_CASE("blocks that add up rows for columns have all of them, none very many", "[gpu][plans]") {
  for (const std::int64_t rows : sizes())
    for (const std::int64_t at_once : {1, 4, 8, 16}) {
      const std::int64_t groups = (rows + at_once - 1) / at_once, blocks = blocks_that_add(rows, at_once);
      REQUIRE(blocks >= 1);
      REQUIRE(blocks <= groups);
      REQUIRE((groups + blocks - 1) / blocks <= 256);
    }
  CHECK(blocks_that_add(0, 4) == 0);
}

TEST_CASE("launches over rows and units reach every unit, and every row unless they are to go on", "[gpu][plans]") {
  for (const std::int64_t threads : {64, 256})
    for (const std::int64_t rows : {1, 2, 3, 8, 9, 257, 65535, 65536, 600000})
      for (const std::int64_t width : sizes()) {
        const UnitCut cut = cut_units(rows, width, threads);
        const std::int64_t in_block = threads / cut.lanes;
        REQUIRE(in_block * cut.lanes == threads);
        REQUIRE(cut.lanes >= 32);
        REQUIRE((cut.lanes == 32 || cut.lanes < 2 * width));
        REQUIRE(std::int64_t{cut.across} * cut.lanes >= width);
        REQUIRE((std::int64_t{cut.across} - 1) * cut.lanes < width);
        REQUIRE(cut.down >= 1u);
        REQUIRE(cut.down <= 65535u);
        REQUIRE((cut.down == 65535u || cut.down * in_block >= rows));
        REQUIRE((std::int64_t{cut.down} - 1) * in_block < rows);
      }
}
