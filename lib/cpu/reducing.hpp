#pragma once
// What reductions share: which axes go and which stay, and rows that are cut at fixed places, so that results do not
// depend on the number of threads.
#include <algorithm>

#include "lib/core/allocator.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/iterate.hpp"

namespace capstan::on_cpu {

inline constexpr std::int64_t kRowPiece = 65536;  // elements of one row that are reduced in one go

/// x seen with its kept axes first and its reduced axes last.
struct Split {
  Shape kept, reduced;
  std::int64_t kept_strides[kMaxRank], reduced_strides[kMaxRank];

  Split(const TensorImpl& x, unsigned mask) {
    std::int64_t kept_sizes[kMaxRank], reduced_sizes[kMaxRank];
    std::size_t k = 0, r = 0;
    for (int axis = 0; axis < x.rank(); ++axis) {
      if (mask >> axis & 1u) reduced_sizes[r] = x.shape[axis], reduced_strides[r++] = x.strides[axis];
      else kept_sizes[k] = x.shape[axis], kept_strides[k++] = x.strides[axis];
    }
    kept = Shape(std::span<const std::int64_t>(kept_sizes, k));
    reduced = Shape(std::span<const std::int64_t>(reduced_sizes, r));
  }
};

/// Eight side by side: sums of up to 255 bytes that are 0 or 1, then those of each word.
inline std::int64_t trues_among(const bool* x, std::int64_t count) {
  constexpr std::int64_t kSide = 8, kBlock = 255 * kSide;
  std::int64_t total = 0, i = 0;
  while (i + kSide <= count) {
    std::uint64_t bytes = 0;
    for (const std::int64_t end = std::min(count, i + kBlock); i + kSide <= end; i += kSide) {
      std::uint64_t word;
      std::memcpy(&word, x + i, kSide);
      bytes += word;
    }
    const std::uint64_t pairs = (bytes & 0x00ff00ff00ff00ff) + (bytes >> 8 & 0x00ff00ff00ff00ff);
    total += static_cast<std::int64_t>(pairs * 0x0001000100010001 >> 48);
  }
  for (; i < count; ++i) total += x[i];
  return total;
}

/// The stride of axes that can be walked as one, 0 if they cannot (stretched axes among them). One element gives 1.
inline std::int64_t joint_stride(const Shape& shape, const std::int64_t* strides) {
  std::int64_t stride = 0, expected = 0;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] == 1) continue;
    if (strides[axis] == 0) return 0;
    if (stride == 0) stride = strides[axis];
    else if (strides[axis] != expected) return 0;
    expected = strides[axis] * shape[axis];
  }
  return stride == 0 ? 1 : stride;
}

/// Where number `index` of the first `axes` kept axes stands.
inline std::int64_t kept_offset(const Split& split, int axes, std::int64_t index) {
  std::int64_t offset = 0;
  for (int axis = axes - 1; axis >= 0; --axis) {
    offset += index % split.kept[axis] * split.kept_strides[axis];
    index /= split.kept[axis];
  }
  return offset;
}

/// Reduces `rows` runs of `count` values; `row(i)` is where run i begins. Long runs are cut into pieces.
template <class Part, class Row, class Reduce, class Combine, class Store>
void reduce_rows(std::int64_t rows, std::int64_t count, Row row, Reduce reduce, Combine combine, Store store) {
  const std::int64_t pieces = count > kRowPiece ? (count + kRowPiece - 1) / kRowPiece : 1;
  if (pieces == 1) {
    base::parallel_for(rows, kCheapGrain / (count + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) store(i, reduce(row(i), count));
    });
    return;
  }
  core::Scratch<Part> parts(rows * pieces, core::calling_place());
  base::parallel_for(rows * pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t from = item % pieces * kRowPiece, left = count - from;
      parts[item] = reduce(row(item / pieces) + from, left < kRowPiece ? left : kRowPiece);
    }
  });
  for (std::int64_t i = 0; i < rows; ++i) {
    Part total = parts[i * pieces];
    for (std::int64_t p = 1; p < pieces; ++p) total = combine(total, parts[i * pieces + p]);
    store(i, total);
  }
}

/// The most rows and columns that are reduced in one go; no more columns than kMostColumns.
struct ColumnPiece {
  std::int64_t rows, columns;
};
inline constexpr std::int64_t kMostColumns = 1024;

/// Reduces columns of x, whose kept axes end in one of unit stride, and whose reduced ones walk as one of `row_step`.
/// piece(parts, from, rows, columns) writes the Part of each column of a piece.
template <class Part, class T, class Piece, class Combine, class Store>
void reduce_columns(const TensorImpl& x, const Split& split, std::int64_t row_step, ColumnPiece most, Piece piece,
                    Combine combine, Store store) {
  const std::int64_t rows = split.reduced.numel(), columns = split.kept[split.kept.rank() - 1];
  const std::int64_t outer = split.kept.numel() / columns;
  const std::int64_t column_pieces = (columns + most.columns - 1) / most.columns;
  const std::int64_t row_pieces = (rows + most.rows - 1) / most.rows;
  const std::int64_t work = std::min(most.columns, columns) * std::min(most.rows, rows);
  core::Scratch<Part> parts(row_pieces == 1 ? 0 : outer * row_pieces * columns, core::calling_place());
  base::parallel_for(
      outer * row_pieces * column_pieces, kCheapGrain / work + 1, [&](std::int64_t begin, std::int64_t end) {
        Part own[kMostColumns];
        for (std::int64_t item = begin; item < end; ++item) {
          const std::int64_t column = item % column_pieces * most.columns, part = item / column_pieces;
          const std::int64_t width = std::min(columns - column, most.columns);
          const std::int64_t row = part % row_pieces * most.rows;
          const std::int64_t offset = kept_offset(split, split.kept.rank() - 1, part / row_pieces);
          Part* const to = row_pieces == 1 ? own : parts.data() + part * columns + column;
          piece(to, x.as<T>() + offset + row * row_step + column, std::min(rows - row, most.rows), width);
          if (row_pieces == 1)
            for (std::int64_t i = 0; i < width; ++i) store(part * columns + column + i, own[i]);
        }
      });
  if (row_pieces == 1) return;
  constexpr std::int64_t kAtOnce = 64;  // columns whose parts are combined side by side
  const std::int64_t blocks = (columns + kAtOnce - 1) / kAtOnce;
  base::parallel_for(outer * blocks, kCheapGrain / (kAtOnce * (row_pieces + 1)) + 1,
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t block = begin; block < end; ++block) {
                         const std::int64_t column = block % blocks * kAtOnce, line = block / blocks;
                         const std::int64_t width = std::min(columns - column, kAtOnce);
                         Part totals[kAtOnce];
                         const Part* part = parts.data() + line * row_pieces * columns + column;
                         std::copy_n(part, width, totals);
                         for (std::int64_t p = 1; p < row_pieces; ++p)
                           for (std::int64_t i = 0; i < width; ++i)
                             totals[i] = combine(totals[i], part[p * columns + i]);
                         for (std::int64_t i = 0; i < width; ++i) store(line * columns + column + i, totals[i]);
                       }
                     });
}

/// A contiguous copy with the kept axes first.
inline Tensor as_rows(const TensorImpl& x, const Split& split) {
  std::int64_t sizes[kMaxRank], strides[kMaxRank];
  std::size_t rank = 0;
  for (int axis = 0; axis < split.kept.rank(); ++axis)
    sizes[rank] = split.kept[axis], strides[rank++] = split.kept_strides[axis];
  for (int axis = 0; axis < split.reduced.rank(); ++axis)
    sizes[rank] = split.reduced[axis], strides[rank++] = split.reduced_strides[axis];
  const Shape shape(std::span<const std::int64_t>(sizes, rank));
  const Tensor view = core::make_view(x, shape, strides, 0, core::calling_place());
  const Tensor result = core::make_workspace(shape, x.dtype, x.device(), core::calling_place());
  copy(*view.impl(), *result.impl());
  return result;
}

}  // namespace capstan::on_cpu
