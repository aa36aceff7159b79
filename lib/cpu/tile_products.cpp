// Products of float32 on tiles: operands are split in blocks, and blocks of sums made from two of them.
//
// Where a block of an operand has values that cannot be split, the sums that it is part of are made without tiles.
// Blocks begin at multiples of their size whatever the number of threads, so that results do not depend on it.
#include "lib/cpu/tile_products.hpp"

#include "lib/core/allocator.hpp"
#include "lib/cpu/simd/tiles.hpp"

namespace capstan::on_cpu {
namespace {

/// Nanoseconds of one core: of a multiplication in tiles and without them, and of splitting a value.
constexpr double kTiles = 1.0 / 215, kPlain = 1.0 / 100, kSplit = 0.3;

/// Steps of a block. The second-level cache holds so many of kTileStrips blocks of columns side by side.
constexpr std::int64_t kSteps = 24;

/// How a product is cut: terms into blocks, and the left operand into what is split at once. With few columns that is
/// one block, which is used up while it is near.
struct Blocks {
  std::int64_t steps, terms;         // of a block
  std::int64_t bytes;                // of the pieces of 32 rows or columns of a block
  std::int64_t strips;               // blocks of columns side by side
  bool few_columns;                  // no more than these
  std::int64_t rows, terms_at_once;  // of the left operand: whole blocks
  std::int64_t left;                 // blocks of it at once, at most: no fewer for larger products of as many terms

  Blocks(std::int64_t m, std::int64_t n, std::int64_t k) {
    const std::int64_t all_steps = ceil_div(k, kTileBlock), all_rows = ceil_div(m, kTileBlock);
    steps = ceil_div(all_steps, ceil_div(all_steps, kSteps));
    terms = steps * kTileBlock;
    bytes = steps * kTileStep;
    strips = std::min(kTileStrips, ceil_div(n, kTileBlock));
    few_columns = n <= kTileStrips * kTileBlock;
    const std::int64_t most = kLeftAtOnce / (terms * kTileBlock);
    rows = ceil_div(all_rows, few_columns ? 1 : ceil_div(all_rows, most)) * kTileBlock;
    terms_at_once = few_columns ? k : kLeftAtOnce / (terms * rows) * terms;
    left = few_columns ? 1 : std::min(all_rows * ceil_div(k, terms), most);
  }
};

/// What is made from the rows and terms of a left operand that are split at once.
class Part {
 public:
  Part(const Product<float>& x, const Blocks& blocks, float* room)
      : x_(x),
        blocks_(blocks),
        left_(reinterpret_cast<std::uint8_t*>(room)),
        right_(left_ + blocks.left * blocks.bytes),
        lines_(reinterpret_cast<float*>(right_ + blocks.strips * blocks.bytes)),
        good_(reinterpret_cast<bool*>(lines_ + kTileBlock * blocks.terms)) {}
  /// Elements of `room`: the members above one after the other, in whole cache lines.
  static std::int64_t room(const Blocks& b) {
    return ((b.left + b.strips) * b.bytes + ceil_div(b.left, 64) * 64) / 4 + kTileBlock * b.terms;
  }

  void make() const {
    if (!blocks_.few_columns)
      for (std::int64_t i = 0; i < x_.m; i += kTileBlock)
        for (std::int64_t p = 0; p < x_.k; p += blocks_.terms) split_left(i, p, block_of(i, p));
    const std::int64_t strips = ceil_div(x_.n, kTileBlock);
    const std::int64_t width = ceil_div(strips, ceil_div(strips, kTileStrips)) * kTileBlock;
    tile_kernels()->begin();
    for (std::int64_t j = 0; j < x_.n; j += width)
      for (std::int64_t p = 0; p < x_.k; p += blocks_.terms) {
        const Product<float> x = columns_of(terms_of(x_, p, p + blocks_.terms), j, j + width);
        bool good[kTileStrips];
        split_right(x, good);
        for (std::int64_t i = 0; i < x_.m; i += kTileBlock) {
          if (blocks_.few_columns) split_left(i, p, 0);
          add_block(rows_of(x, i, i + kTileBlock), blocks_.few_columns ? 0 : block_of(i, p), good);
        }
      }
    tile_kernels()->end();
  }

 private:
  std::int64_t block_of(std::int64_t row, std::int64_t term) const {
    return term / blocks_.terms * (blocks_.rows / kTileBlock) + row / kTileBlock;
  }

  /// A matrix whose rows lie in one piece each: itself, or a copy.
  Matrix<const float> in_lines(const Matrix<const float>& x, std::int64_t rows, std::int64_t columns) const {
    if (x.column == 1) return x;
    pack(x, rows, columns, lines_);
    return {lines_, columns, 1};
  }

  void split_left(std::int64_t row, std::int64_t term, std::int64_t block) const {
    const Product<float> x = terms_of(rows_of(x_, row, row + kTileBlock), term, term + blocks_.terms);
    const Matrix<const float> a = in_lines(x.a, x.m, x.k);
    good_[block] = tile_kernels()->split_rows(a.data, a.row, x.m, x.k, left_ + block * blocks_.bytes);
  }

  void split_right(const Product<float>& x, bool* good) const {
    const std::int64_t width = x.b.column == 1 ? 2 * kTileBlock : kTileBlock;
    for (std::int64_t j = 0; j < x.n; j += width) {
      const Product<float> of = columns_of(x, j, j + width);
      const Matrix<const float> b = in_lines(of.b, of.k, of.n);
      const std::int64_t strip = j / kTileBlock;
      tile_kernels()->split_columns(
          {b.data, b.row, of.k, of.n, right_ + strip * blocks_.bytes, blocks_.bytes, good + strip});
    }
  }

  /// The columns of all strips, in the rows of a left block.
  void add_block(const Product<float>& x, std::int64_t block, const bool* good) const {
    for (std::int64_t j = 0; j < x.n; j += kTileBlock) {
      const Product<float> sums = columns_of(x, j, j + kTileBlock);
      const std::int64_t strip = j / kTileBlock;
      if (good_[block] && good[strip])
        tile_kernels()->add({left_ + block * blocks_.bytes, right_ + strip * blocks_.bytes,
                             ceil_div(sums.k, kTileBlock), sums.c, sums.c_row, sums.m, sums.n, sums.start.accumulate,
                             sums.start.bias});
      else multiply_packed(sums, block_terms(sums.k), lines_);
    }
  }

  const Product<float>& x_;
  const Blocks& blocks_;
  std::uint8_t *left_, *right_;
  float* lines_;
  bool* good_;
};

/// Rows and columns among threads, each of which splits what it uses: cheaper than to fetch pieces from another core.
struct Grid {
  std::int64_t m, n, down, across;

  Grid(const Product<float>& x) : m(ceil_div(x.m, kTileBlock)), n(ceil_div(x.n, kTileBlock)), down(1), across(1) {
    const std::int64_t parts = std::clamp(x.m * x.n * x.k / Cut::kGrain, std::int64_t{1}, std::int64_t{threads()});
    double best = cost(1, 1);
    for (std::int64_t i = 1; i <= std::min(parts, m); ++i) {
      const std::int64_t j = std::min(parts / i, n);
      if (cost(i, j) < best) best = cost(i, j), down = i, across = j;
    }
  }
  /// Blocks of the largest part, and what a step of its terms takes.
  std::int64_t rows(std::int64_t of) const { return ceil_div(m, of); }
  std::int64_t columns(std::int64_t of) const { return ceil_div(n, of); }
  double cost(std::int64_t i, std::int64_t j) const {
    const auto height = static_cast<double>(rows(i) * kTileBlock), width = static_cast<double>(columns(j) * kTileBlock);
    return height * width * kTiles + (height + width) * kSplit;
  }
};

}  // namespace

bool suits_tiles(std::int64_t m, std::int64_t n, std::int64_t k) {
  const auto full = [](std::int64_t size, std::int64_t of) { return static_cast<double>(ceil_div(size, of) * of); };
  const double tiles = full(m, kTileBlock / 2) * full(n, kTileBlock / 2) * full(k, kTileBlock) * kTiles;
  const auto terms = static_cast<double>(k), rows = static_cast<double>(m), columns = static_cast<double>(n);
  return tiles + (rows + columns) * terms * kSplit < rows * columns * terms * kPlain && tile_kernels() != nullptr;
}

std::int64_t tile_room(std::int64_t m, std::int64_t n, std::int64_t k) { return Part::room(Blocks(m, n, k)); }

void multiply_on_tiles_within(float* room, const Product<float>& x) {
  const Blocks blocks(x.m, x.n, x.k);
  for (std::int64_t i = 0; i < x.m; i += blocks.rows)
    for (std::int64_t p = 0; p < x.k; p += blocks.terms_at_once) {
      const Product<float> part = terms_of(rows_of(x, i, i + blocks.rows), p, p + blocks.terms_at_once);
      Part(part, blocks, room).make();
    }
}

void multiply_on_tiles(const Product<float>& x) {
  const Grid grid(x);
  const std::int64_t parts = grid.down * grid.across;
  const std::int64_t room = tile_room(grid.rows(grid.down) * kTileBlock, grid.columns(grid.across) * kTileBlock, x.k);
  core::Scratch<float> rooms(parts * room, core::calling_place());
  base::parallel_for(parts, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part) {
      const std::int64_t i = part / grid.across, j = part % grid.across;
      const auto row = [&](std::int64_t of) { return grid.m * of / grid.down * kTileBlock; };
      const auto column = [&](std::int64_t of) { return grid.n * of / grid.across * kTileBlock; };
      multiply_on_tiles_within(rooms.data() + part * room,
                               columns_of(rows_of(x, row(i), row(i + 1)), column(j), column(j + 1)));
    }
  });
}

}  // namespace capstan::on_cpu
