#pragma once
// Walking several strided operands together, in the row-major order of a contiguous result.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include <capstan/threads.hpp>

#include "lib/base/parallel.hpp"
#include "lib/core/tensor_impl.hpp"

namespace capstan::on_cpu {

// Pieces below these many elements are not worth another thread.
inline constexpr std::int64_t kCheapGrain = 65536;      // bounded by memory: add, copy
inline constexpr std::int64_t kExpensiveGrain = 16384;  // bounded by arithmetic: exp, tanh

/// The loops over N operands: as few as their strides allow, sizes of 1 dropped.
template <int N>
struct Loops {
  int rank = 0;
  std::int64_t sizes[kMaxRank];
  std::int64_t strides[kMaxRank][N];
  const std::byte* data[N];
  std::int64_t element[N];  // bytes

  /// Operand `n` broadcasts to `shape`.
  void set(int n, const TensorImpl& x) {
    data[n] = x.data;
    element[n] = size_of(x.dtype);
  }

  /// Over all axes of `shape` but the last `inside`.
  Loops(const Shape& shape, const TensorImpl* const (&operands)[N], int inside = 0) {
    for (int n = 0; n < N; ++n) set(n, *operands[n]);
    for (int axis = 0; axis < shape.rank() - inside; ++axis) {
      if (shape[axis] == 1) continue;
      std::int64_t step[N];
      for (int n = 0; n < N; ++n) {
        const int own = axis - (shape.rank() - operands[n]->rank());
        step[n] = own < 0 || operands[n]->shape[own] == 1 ? 0 : operands[n]->strides[own];
      }
      if (rank > 0 && joins(step, shape[axis])) {
        sizes[rank - 1] *= shape[axis];
        for (int n = 0; n < N; ++n) strides[rank - 1][n] = step[n];
        continue;
      }
      sizes[rank] = shape[axis];
      for (int n = 0; n < N; ++n) strides[rank][n] = step[n];
      ++rank;
    }
    if (rank == 0) {
      rank = 1;
      sizes[0] = 1;
      for (int n = 0; n < N; ++n) strides[0][n] = 1;
    }
  }

  /// The innermost loop steps by 1 or stands still for every operand.
  bool simple_inside() const {
    for (int n = 0; n < N; ++n)
      if (strides[rank - 1][n] != 0 && strides[rank - 1][n] != 1) return false;
    return true;
  }
  std::int64_t inner() const { return sizes[rank - 1]; }
  /// The elements of operand `n` stand one behind the other as those of a contiguous result do.
  bool in_order(int n) const {
    std::int64_t step = 1;
    for (int axis = rank - 1; axis >= 0; step *= sizes[axis], --axis)
      if (strides[axis][n] != step) return false;
    return true;
  }

 private:
  bool joins(const std::int64_t* step, std::int64_t size) const {
    for (int n = 0; n < N; ++n)
      if (strides[rank - 1][n] != step[n] * size) return false;
    return true;
  }
};

/// A place in the outer loops (all but the innermost), and the operands' offsets there.
template <int N>
struct Place {
  const Loops<N>& loops;
  std::int64_t index[kMaxRank] = {};
  std::int64_t offset[N] = {};

  Place(const Loops<N>& l, std::int64_t row) : loops(l) {
    for (int axis = l.rank - 2; axis >= 0; --axis) {
      index[axis] = row % l.sizes[axis];
      row /= l.sizes[axis];
      for (int n = 0; n < N; ++n) offset[n] += index[axis] * l.strides[axis][n];
    }
  }
  /// Rows up to the end of the last of the outer loops.
  std::int64_t left() const { return loops.rank < 2 ? 1 : loops.sizes[loops.rank - 2] - index[loops.rank - 2]; }
  /// Goes on by so many rows, at most `left()`.
  void next(std::int64_t rows = 1) {
    for (int axis = loops.rank - 2; axis >= 0; --axis, rows = 1) {
      for (int n = 0; n < N; ++n) offset[n] += rows * loops.strides[axis][n];
      index[axis] += rows;
      if (index[axis] < loops.sizes[axis]) return;
      for (int n = 0; n < N; ++n) offset[n] -= loops.sizes[axis] * loops.strides[axis][n];
      index[axis] = 0;
    }
  }
};

/// Calls `run(offsets, count)` for runs along the innermost loop: where each operand begins.
template <int N, class Run>
void for_innermost(const Loops<N>& loops, std::int64_t total, std::int64_t grain, Run run) {
  const std::int64_t inner = loops.inner();
  if (loops.rank == 1)
    return base::parallel_for(total, grain, [&](std::int64_t begin, std::int64_t end) {
      std::int64_t offsets[N];
      for (int n = 0; n < N; ++n) offsets[n] = begin * loops.strides[0][n];
      run(offsets, end - begin);
    });
  base::parallel_for(total / inner, grain / inner + 1, [&](std::int64_t begin, std::int64_t end) {
    Place<N> place(loops, begin);
    for (std::int64_t row = begin; row < end; ++row, place.next()) run(place.offset, inner);
  });
}

/// memcpy, in pieces where the copy stands less than a cache line further in its page than the original: there that of
/// glibc takes fourteen times as long on a Zen 3, for all that is longer than two or three pieces.
template <class Word>
void copy_run(const Word* from, Word* to, std::int64_t count) {
  constexpr std::size_t kPage = 4096, kLine = 64, kPiece = 1024;
  auto bytes = sizeof(Word) * static_cast<std::size_t>(count);
  const std::size_t ahead = (reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from)) % kPage;
  if (ahead == 0 || ahead >= kLine) return static_cast<void>(std::memcpy(to, from, bytes));
  const auto* next = reinterpret_cast<const std::byte*>(from);
  for (auto* at = reinterpret_cast<std::byte*>(to); bytes > 0;) {
    const std::size_t piece = std::min(bytes, kPiece);
    std::memcpy(at, next, piece);
    at += piece, next += piece, bytes -= piece;
  }
}

/// Where the elements of a tile stand: one row, and one place in it, from the next.
struct TileSteps {
  std::int64_t row, column;
};

/// Each row of `to` full of one value, in chunks of whole registers that reach into the rows behind their own.
template <std::int64_t kChunk, class Word>
void fill_rows(const Word* from, std::int64_t row_step, Word* to, std::int64_t rows, std::int64_t columns) {
  const std::int64_t reach = (columns + kChunk - 1) / kChunk * kChunk;
  for (std::int64_t i = 0; i < rows; ++i) {
    Word* const row = to + i * columns;
    Word chunk[kChunk];
    for (std::int64_t k = 0; k < kChunk; ++k) chunk[k] = from[i * row_step];
    if (i * columns + reach <= rows * columns)
      for (std::int64_t j = 0; j < columns; j += kChunk) std::memcpy(row + j, chunk, sizeof chunk);
    else
      for (std::int64_t j = 0; j < columns; ++j) row[j] = chunk[0];
  }
}

/// Copies a tile to rows that are `to_row` apart, and whose elements are neighbours.
template <class Word>
void copy_tile(const Word* from, TileSteps steps, Word* to, std::int64_t to_row, std::int64_t rows,
               std::int64_t columns) {
  constexpr std::int64_t kChunk = 16 / sizeof(Word), kLong = 8 * kChunk;  // a register, and what is worth a call
  if (steps.column == 0 && to_row == columns) {
    if (columns <= kChunk) fill_rows<kChunk>(from, steps.row, to, rows, columns);
    else fill_rows<2 * kChunk>(from, steps.row, to, rows, columns);
  } else if (steps.column == 1 && columns >= kLong) {
    for (std::int64_t i = 0; i < rows; ++i) copy_run(from + i * steps.row, to + i * to_row, columns);
  } else if (steps.column == 1 && columns >= kChunk) {
    for (std::int64_t i = 0; i < rows; ++i, from += steps.row, to += to_row) {
      for (std::int64_t j = 0; j < columns - kChunk; j += kChunk) std::memcpy(to + j, from + j, kChunk * sizeof(Word));
      std::memcpy(to + columns - kChunk, from + columns - kChunk, kChunk * sizeof(Word));
    }
  } else {
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) to[i * to_row + j] = from[i * steps.row + j * steps.column];
  }
}

/// To rows one behind the other, for elements of so many bytes.
inline void gather_tile(std::int64_t element, const std::byte* from, TileSteps steps, std::byte* to, std::int64_t rows,
                        std::int64_t columns) {
  const auto gather = [&]<class Word>(Word) {
    copy_tile(reinterpret_cast<const Word*>(from), steps, reinterpret_cast<Word*>(to), columns, rows, columns);
  };
  if (element == 4) gather(std::uint32_t{});
  else if (element == 8) gather(std::uint64_t{});
  else if (element == 2) gather(std::uint16_t{});
  else gather(std::uint8_t{});
}

/// What `for_runs` is given, wherever it came from: there is one `gather_runs` for all.
using CallRun = void (*)(const void* run, std::int64_t begin, std::int64_t count, const std::byte* const* data,
                         const std::int64_t* step);

/// `for_runs` for loops whose innermost one is short or strided: in blocks, for which operands are gathered into buffers.
template <int N>
[[gnu::noinline]] void gather_runs(const Loops<N>& loops, std::int64_t total, std::int64_t grain, const void* run,
                                   CallRun call) {
  constexpr std::int64_t kBlock = 512;
  struct Tile {
    const std::byte* from;
    std::int64_t rows, columns;
    bool operator==(const Tile&) const = default;
  };
  const std::int64_t inner = loops.inner();
  base::parallel_for(total, grain, [&](std::int64_t begin, std::int64_t end) {
    alignas(64) std::byte buffer[N][kBlock * 8];
    std::int64_t ones[N];
    const std::byte* data[N];
    Tile held[N] = {};  // what fills the buffers, where a single tile does
    bool in_order[N];
    for (int n = 0; n < N; ++n) ones[n] = 1, data[n] = buffer[n], in_order[n] = loops.in_order(n);
    Place<N> place(loops, begin / inner);
    std::int64_t column = begin % inner;
    for (std::int64_t at = begin; at < end;) {
      std::int64_t block = std::min(kBlock, end - at);
      if (inner <= kBlock && at + block < end) block -= (column + block) % inner;  // the next begins with a row
      for (std::int64_t done = 0; done < block;) {
        const bool whole = column == 0 && inner <= block - done;
        const std::int64_t rows = whole ? std::min((block - done) / inner, place.left()) : 1;
        const std::int64_t columns = whole ? inner : std::min(inner - column, block - done);
        for (int n = 0; n < N; ++n) {
          const TileSteps steps{loops.rank < 2 ? 0 : loops.strides[loops.rank - 2][n],
                                loops.strides[loops.rank - 1][n]};
          const std::int64_t size = loops.element[n];
          const std::byte* const from = loops.data[n] + (place.offset[n] + column * steps.column) * size;
          if (in_order[n]) {
            if (done == 0) data[n] = from;
            continue;
          }
          const Tile tile{from, rows, columns};
          if (done == 0 && tile == held[n]) continue;
          held[n] = rows * columns == block ? tile : Tile{};
          gather_tile(size, from, steps, buffer[n] + done * size, rows, columns);
        }
        done += rows * columns;
        column += columns;
        if (column == inner) {
          column = 0;
          place.next(rows);
        }
      }
      call(run, at, block, data, ones);
      at += block;
    }
  });
}

/// Calls `run(begin, count, data, step)` for runs of the contiguous result: operand n of the run starts at data[n] and
/// steps by step[n] elements, 0 or 1. Operands with other strides are gathered into a buffer first.
template <int N, class Run>
void for_runs(const Loops<N>& loops, std::int64_t total, std::int64_t grain, Run run) {
  if (total == 0) return;
  const std::int64_t inner = loops.inner();
  if (loops.rank == 1 && loops.simple_inside()) {
    base::parallel_for(total, grain, [&](std::int64_t begin, std::int64_t end) {
      const std::byte* data[N];
      for (int n = 0; n < N; ++n) data[n] = loops.data[n] + begin * loops.strides[0][n] * loops.element[n];
      run(begin, end - begin, data, loops.strides[0]);
    });
    return;
  }
  const std::int64_t rows = total / inner;
  if (loops.simple_inside() && inner >= 32) {
    base::parallel_for(rows, (grain + inner - 1) / inner, [&](std::int64_t begin, std::int64_t end) {
      Place<N> place(loops, begin);
      for (std::int64_t row = begin; row < end; ++row, place.next()) {
        const std::byte* data[N];
        for (int n = 0; n < N; ++n) data[n] = loops.data[n] + place.offset[n] * loops.element[n];
        run(row * inner, inner, data, loops.strides[loops.rank - 1]);
      }
    });
    return;
  }
  gather_runs(loops, total, grain / 4, &run,
              [](const void* own, std::int64_t begin, std::int64_t count, const std::byte* const* data,
                 const std::int64_t* step) { (*static_cast<const Run*>(own))(begin, count, data, step); });
}

}  // namespace capstan::on_cpu
