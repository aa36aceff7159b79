#pragma once
// How threads share rows. Plain arithmetic, tested on the host.
#include <cstdint>

#include "cuda/launch_shape.hpp"

namespace capstan::on_cuda {

/// Threads of a block that works on one row.
inline constexpr int kRowThreads = static_cast<int>(kThreads);
/// What fills a GPU of 132 multiprocessors.
inline constexpr std::int64_t kFullThreads = 132 * 2048, kFullBlocks = kFullThreads / kRowThreads;

constexpr std::int64_t quotient_up(std::int64_t count, std::int64_t share) {
  return count / share + (count % share != 0 ? 1 : 0);
}

/// Rows of `units`, which are what a thread loads at once, for groups of threads. Long rows are cut into pieces if they
/// are few.
struct RowDeal {
  int lanes = 1;                       // of a group: a power of two up to a warp, or a block
  std::int64_t pieces = 1, slice = 0;  // slice: units of a piece

  /// `near`: units that follow each other lie side by side in memory.
  RowDeal(std::int64_t rows, std::int64_t units, bool near) : slice(units) {
    constexpr int kUnitsOfThread = 4;
    if (rows == 0) return;
    while (lanes < kWarp && lanes < units) {
      const bool enough = !near || lanes * kUnitsOfThread >= units;
      if (enough && rows * lanes >= kFullThreads) break;
      lanes *= 2;
    }
    if (units > 8 * kWarp && rows * kWarp < kFullThreads) lanes = kRowThreads;
    if (lanes == kRowThreads && units >= 32 * kRowThreads) {
      const std::int64_t most = kFullBlocks / rows, useful = units / (8 * kRowThreads);
      const std::int64_t wanted = most < useful ? most : useful;
      pieces = wanted < 1 ? 1 : wanted;
      slice = quotient_up(units, pieces);
    }
  }
  LaunchShape shape(std::int64_t rows) const { return block_each(quotient_up(rows * pieces, kRowThreads / lanes)); }
};

/// Groups whose threads keep their part of a row in registers: `each` elements, `few` or `many`.
struct KeptRows {
  int lanes = 0, each = 0;  // 0: the rows are too long

  KeptRows(std::int64_t columns, int few, int many) {
    for (const int group : {kWarp, kRowThreads})
      for (const int kept : {few, many})
        for (int size = group == kWarp ? 1 : group; size <= group; size *= 2)
          if (lanes == 0 && columns <= std::int64_t{size} * kept) lanes = size, each = kept;
  }
  LaunchShape shape(std::int64_t rows) const { return block_each(quotient_up(rows, kRowThreads / lanes)); }
};

/// Contiguous rows that are gone through once; see map_rows.cuh.
struct MapPlan {
  std::int64_t rows, columns;
  bool packed;  // read and written in packs where their addresses allow it, the ends of rows one by one
  RowDeal deal;

  /// `alike`: whether all operands' rows lie alike, so that if one can be read in packs, others can.
  MapPlan(std::int64_t row_count, std::int64_t column_count, int pack, bool alike)
      : rows(row_count),
        columns(column_count),
        packed(alike && pack > 1 && (column_count % pack == 0 || column_count >= 16 * pack)),
        deal(row_count, packed ? column_count / pack : column_count, true) {}
  LaunchShape shape() const { return deal.shape(rows); }
};

}  // namespace capstan::on_cuda
