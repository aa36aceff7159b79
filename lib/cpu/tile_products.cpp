// Products of float32 on tiles: operands are split in blocks, and blocks of sums made from two of them.
//
// Where a block of an operand has values that cannot be split, sums of its block are made without tiles. Blocks lie at
// multiples of their size whatever the number of threads, and so do the bits of results.
#include "lib/cpu/tile_products.hpp"

#include "lib/core/allocator.hpp"
#include "lib/cpu/simd/tiles.hpp"

namespace capstan::on_cpu {
namespace {

/// Steps of a block. The second-level cache holds so many of kTileStrips blocks of columns side by side.
constexpr std::int64_t kSteps = 24;

constexpr std::int64_t ceil_div(std::int64_t x, std::int64_t by) { return (x + by - 1) / by; }

/// How a product is cut: terms into blocks, and the left operand into what is split at once. With few columns that is a
/// single block, which is used up while it is near; else whole rows of blocks, which several threads may use.
struct Blocks {
  bool few_columns;
  std::int64_t steps, terms;         // of a block
  std::int64_t rows, terms_at_once;  // of the left operand
  std::int64_t strips;               // of the right one
  std::int64_t bytes;                // of 32 rows or columns of a block

  Blocks(std::int64_t m, std::int64_t n, std::int64_t k) {
    const std::int64_t all = ceil_div(k, kTileBlock), columns = ceil_div(n, kTileBlock);
    few_columns = columns <= kTileStrips;
    steps = ceil_div(all, ceil_div(all, kSteps));
    terms = steps * kTileBlock;
    rows =
        std::min(ceil_div(m, kTileBlock), std::max(kLeftAtOnce / (terms * kTileBlock), std::int64_t{1})) * kTileBlock;
    terms_at_once = std::min(ceil_div(k, terms), std::max(kLeftAtOnce / (terms * rows), std::int64_t{1})) * terms;
    if (few_columns) rows = ceil_div(m, kTileBlock) * kTileBlock, terms_at_once = ceil_div(k, terms) * terms;
    strips = std::min(kTileStrips, columns);
    bytes = steps * kTileStep;
  }
  std::int64_t left_count() const { return few_columns ? 0 : rows / kTileBlock * (terms_at_once / terms); }
  /// Elements for the left operand, and whether its blocks could be split; for a thread's own blocks and rows.
  std::int64_t shared_room() const { return ceil_div(left_count() * (bytes + 1), 64) * 16; }
  std::int64_t own_room() const { return (strips + (few_columns ? 1 : 0)) * bytes / 4 + kTileBlock * terms; }
};

/// A part of a product whose left operand is split at once.
class Part {
 public:
  Part(const Product<float>& x, const Blocks& blocks, float* shared)
      : x_(x),
        blocks_(blocks),
        left_(reinterpret_cast<std::uint8_t*>(shared)),
        good_(reinterpret_cast<bool*>(left_ + blocks.left_count() * blocks.bytes)) {}

  /// Splits rows begin to end - 1 of the left operand, where it is shared; begin is a multiple of kTileBlock.
  void split(std::int64_t begin, std::int64_t end, float* room) const {
    if (blocks_.few_columns) return;
    for (std::int64_t i = begin; i < std::min(end, x_.m); i += kTileBlock)
      for (std::int64_t p = 0; p < x_.k; p += blocks_.terms)
        good_[block_of(i, p)] = split_left(i, p, left_ + block_of(i, p) * blocks_.bytes, room);
  }

  /// Rows and columns of the result, once those rows are split. `begin` of both are multiples of kTileBlock.
  void add(std::int64_t row_begin, std::int64_t row_end, std::int64_t begin, std::int64_t end, float* room) const {
    const Own own(blocks_, room);
    end = std::min(end, x_.n);
    const std::int64_t strips = ceil_div(end - begin, kTileBlock);
    const std::int64_t width = ceil_div(strips, ceil_div(strips, kTileStrips)) * kTileBlock;
    tile_kernels()->begin();
    for (std::int64_t j = begin; j < end; j += width)
      for (std::int64_t p = 0; p < x_.k; p += blocks_.terms) {
        const Product<float> x = columns_of(terms_of(x_, p, p + blocks_.terms), j, std::min(end, j + width));
        bool good[kTileStrips];
        split_right(x, own, good);
        for (std::int64_t i = row_begin; i < std::min(row_end, x_.m); i += kTileBlock)
          add_block(rows_of(x, i, i + kTileBlock), left_at(i, p, own), own, good);
      }
    tile_kernels()->end();
  }

 private:
  /// A thread's memory: blocks of the right operand, one of the left operand with few columns, rows of either.
  struct Own {
    std::uint8_t *right, *left;
    float* lines;
    Own(const Blocks& blocks, float* room)
        : right(reinterpret_cast<std::uint8_t*>(room)),
          left(right + blocks.strips * blocks.bytes),
          lines(reinterpret_cast<float*>(left + (blocks.few_columns ? blocks.bytes : 0))) {}
  };
  struct Left {
    const std::uint8_t* pieces;
    bool good;
  };

  std::int64_t block_of(std::int64_t row, std::int64_t term) const {
    return term / blocks_.terms * (blocks_.rows / kTileBlock) + row / kTileBlock;
  }

  /// A matrix whose rows lie in one piece each: itself, or a copy.
  static Matrix<const float> in_lines(const Matrix<const float>& x, std::int64_t rows, std::int64_t columns,
                                      float* copy) {
    if (x.column == 1) return x;
    pack(x, rows, columns, copy);
    return {copy, columns, 1};
  }

  bool split_left(std::int64_t row, std::int64_t term, std::uint8_t* to, float* lines) const {
    const Product<float> x = terms_of(rows_of(x_, row, row + kTileBlock), term, term + blocks_.terms);
    const Matrix<const float> a = in_lines(x.a, x.m, x.k, lines);
    return tile_kernels()->split_rows(a.data, a.row, x.m, x.k, to);
  }
  Left left_at(std::int64_t row, std::int64_t term, const Own& own) const {
    if (blocks_.few_columns) return {own.left, split_left(row, term, own.left, own.lines)};
    return {left_ + block_of(row, term) * blocks_.bytes, good_[block_of(row, term)]};
  }

  void split_right(const Product<float>& x, const Own& own, bool* good) const {
    const std::int64_t width = x.b.column == 1 ? 2 * kTileBlock : kTileBlock;
    for (std::int64_t j = 0; j < x.n; j += width) {
      const Product<float> of = columns_of(x, j, j + width);
      const Matrix<const float> b = in_lines(of.b, of.k, of.n, own.lines);
      const std::int64_t strip = j / kTileBlock;
      tile_kernels()->split_columns(
          {b.data, b.row, of.k, of.n, own.right + strip * blocks_.bytes, blocks_.bytes, good + strip});
    }
  }

  /// The columns of all strips, in the rows of a left block.
  void add_block(const Product<float>& x, const Left& left, const Own& own, const bool* good) const {
    for (std::int64_t j = 0; j < x.n; j += kTileBlock) {
      const Product<float> sums = columns_of(x, j, j + kTileBlock);
      if (left.good && good[j / kTileBlock])
        tile_kernels()->add({left.pieces, own.right + j / kTileBlock * blocks_.bytes, ceil_div(sums.k, kTileBlock),
                             sums.c, sums.c_row, sums.m, sums.n, sums.start.accumulate, sums.start.bias});
      else multiply_packed(sums, own.lines);
    }
  }

  const Product<float>& x_;
  const Blocks& blocks_;
  std::uint8_t* left_;
  bool* good_;
};

/// Calls use(product, part) for what is split at once.
template <class Use>
void each_part(const Product<float>& x, const Blocks& blocks, float* shared, Use use) {
  for (std::int64_t i = 0; i < x.m; i += blocks.rows)
    for (std::int64_t p = 0; p < x.k; p += blocks.terms_at_once) {
      const Product<float> of = terms_of(rows_of(x, i, i + blocks.rows), p, p + blocks.terms_at_once);
      use(of, Part(of, blocks, shared));
    }
}

}  // namespace

bool suits_tiles(std::int64_t m, std::int64_t n, std::int64_t k) {
  // nanoseconds of one core: of a multiplication in tiles and without them, and of splitting a value
  constexpr double kTiles = 1.0 / 215, kPlain = 1.0 / 100, kSplit = 0.3;
  const auto full = [](std::int64_t size, std::int64_t of) { return static_cast<double>(ceil_div(size, of) * of); };
  const double tiles = full(m, kTileBlock / 2) * full(n, kTileBlock / 2) * full(k, kTileBlock) * kTiles;
  const auto terms = static_cast<double>(k), rows = static_cast<double>(m), columns = static_cast<double>(n);
  return tiles + (rows + columns) * terms * kSplit < rows * columns * terms * kPlain && tile_kernels() != nullptr;
}

std::int64_t tile_room(std::int64_t m, std::int64_t n, std::int64_t k) {
  const Blocks blocks(m, n, k);
  return blocks.shared_room() + blocks.own_room();
}

void multiply_on_tiles_within(float* room, const Product<float>& x) {
  const Blocks blocks(x.m, x.n, x.k);
  each_part(x, blocks, room, [&](const Product<float>& of, const Part& part) {
    float* own = room + blocks.shared_room();
    part.split(0, of.m, own);
    part.add(0, of.m, 0, of.n, own);
  });
}

void multiply_on_tiles(const Product<float>& x) {
  const Blocks blocks(x.m, x.n, x.k);
  const std::int64_t room = blocks.own_room();
  // each thread splits its own rows and all columns, or its own columns while the rows are split together
  const bool by_rows = x.n <= 2 * x.m;
  const Cut cut(x, by_rows ? x.m : x.n, kTileBlock);
  core::Scratch<float> shared(blocks.shared_room(), Where::current()), own(cut.parts * room, Where::current());
  each_part(x, blocks, shared.data(), [&](const Product<float>& of, const Part& part) {
    Cut rows(of, of.m, kTileBlock);
    rows.parts = std::min(rows.units, cut.parts);
    if (by_rows)
      return rows.run([&](std::int64_t i, std::int64_t begin, std::int64_t end) {
        part.split(begin, end, own.data() + i * room);
        part.add(begin, end, 0, of.n, own.data() + i * room);
      });
    if (!blocks.few_columns)
      rows.run(
          [&](std::int64_t i, std::int64_t begin, std::int64_t end) { part.split(begin, end, own.data() + i * room); });
    cut.run([&](std::int64_t i, std::int64_t begin, std::int64_t end) {
      part.add(0, of.m, begin, end, own.data() + i * room);
    });
  });
}

}  // namespace capstan::on_cpu
