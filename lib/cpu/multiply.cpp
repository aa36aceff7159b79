// Products of matrices: tiles of sums in registers, and the right operand in strips as wide as the tiles.
//
// What is added in which order follows from the sizes alone: results do not depend on the number of threads.
#include "lib/cpu/multiply.hpp"

#include <cstring>
#include <utility>

#include "lib/core/allocator.hpp"
#include "lib/cpu/product.hpp"
#include "lib/cpu/simd/kernels.hpp"
#include "lib/cpu/tile_products.hpp"

namespace capstan::on_cpu {
namespace {

/// Terms of a block of a long sum: what the first-level cache holds.
constexpr std::int64_t kLongBlock = 96;

/// Rows are cut at multiples of this: then a tile of a single row, which adds in an order of its own, stands where the
/// whole has one.
constexpr std::int64_t kRows = 12;

/// For so few rows the right operand is not packed: where it has so many bytes; where it has more, and only long pieces
/// are fetched ahead; where columns are dot products.
constexpr std::int64_t kFewRows = 16, kNearBytes = 1 << 25, kFewFarRows = 4, kFewDottedRows = 8;

/// A dot product is made in pieces of so many terms, or in so many pieces.
constexpr std::int64_t kDotTerms = 1 << 15, kDotPieces = 64;

/// Strips of a block, and values of the left operand for each: together they stay in the second-level cache.
constexpr std::int64_t kStrips = 4, kBlockValues = 8 * kRows * kSumBlock;

/// Bytes of a result that the second-level cache does not hold beside them.
constexpr std::int64_t kFar = 1 << 20;

/// A left operand is put in rows for so many columns, terms and multiplications; fewer columns will do where its terms
/// lie a multiple of so many bytes apart, and so in the same set of the first-level cache.
constexpr std::int64_t kManyColumns = 384, kColumnsOfSet = 128, kSetBytes = 4096, kManyTerms = 256,
                       kManyMultiplications = 1 << 26;

/// The right operand stays near the first-level cache, or the result in registers and the sums are long.
bool is_small(std::int64_t m, std::int64_t n, std::int64_t k) { return n * k <= 10240 || (m <= 64 && n <= 64); }

/// A sum over many rows that gives a small result: the gradient for weights.
template <class T>
bool is_long(const Product<T>& p) {
  return p.a.row == 1 && p.m <= 96 && p.n <= 512;
}

/// c [m, n] = or += a * b with the terms p .. p + count - 1; b has unit columns.
template <class T>
void add_terms(const Product<T>& x, std::int64_t p, std::int64_t count) {
  const Start<T> start = x.start_at(p);
  simd().of<T>().small_gemm({x.a.data + p * x.a.column, x.a.row, x.a.column, x.b.data + p * x.b.row, x.b.row, x.c,
                             x.c_row, x.m, x.n, count, start.accumulate, start.bias});
}

/// Columns are cut into whole registers. Whether an odd number of rows leaves a tile of a single row depends on how
/// wide the tiles are: then cuts fall between the widest tiles.
template <class T>
Cut cut_columns(const Product<T>& x) {
  return Cut(x, x.n, x.m % 2 == 0 ? simd().of<T>().lanes : simd().of<T>().panel);
}

/// The right operand as it stands. Rows among the threads.
template <class T>
void multiply_small(const Product<T>& x) {
  Cut(x, x.m, kRows).run([&](std::int64_t, std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = 0; p < x.k; p += kSumBlock)
      add_terms(rows_of(x, begin, end), p, std::min(kSumBlock, x.k - p));
  });
}

/// Columns among the threads; the rows of a column of tiles in blocks that stay in the first-level cache.
template <class T>
void multiply_long(const Product<T>& x) {
  const std::int64_t width = simd().of<T>().panel;
  cut_columns(x).run([&](std::int64_t, std::int64_t begin, std::int64_t end) {
    for (std::int64_t column = begin; column < std::min(end, x.n); column += width)
      for (std::int64_t p = 0; p < x.k; p += kLongBlock)
        add_terms(columns_of(x, column, std::min(column + width, end)), p, std::min(kLongBlock, x.k - p));
  });
}

/// The elements that a thread packs at once.
template <class T>
std::int64_t packed_room(std::int64_t n, std::int64_t k) {
  return block_terms(k) * std::min(kStrips * simd().of<T>().panel, n);
}

/// A row of a strip. Where strips are a cache line wide, a call would take longer than the copy.
template <class T>
void copy_to_strip(const T* from, std::int64_t columns, T* to) {
  constexpr std::int64_t kLine = 64;
  if (columns * static_cast<std::int64_t>(sizeof(T)) == kLine) std::memcpy(to, from, kLine);
  else std::copy_n(from, columns, to);
}

/// All of a product whose columns are dot products.
template <class T>
void add_dots(const Product<T>& x, std::int64_t terms) {
  for (std::int64_t p = 0; p < x.k; p += terms) {
    const Start<T> start = x.start_at(p);
    simd().of<T>().dot_columns({x.a.data + p, x.a.row, 1, x.b.data + p, x.b.column, x.c, x.c_row, x.m, x.n,
                                std::min(terms, x.k - p), start.accumulate, start.bias});
  }
}

/// Few columns and long rows, as of a matrix and a vector: for each column a register of terms, or more.
template <class T>
bool is_dots(const Product<T>& x) {
  const std::int64_t lanes = simd().of<T>().lanes;
  return x.a.column == 1 && x.b.row == 1 && 4 * x.n <= lanes && x.k >= x.n * lanes;
}

/// Few rows: the right operand as it stands. Columns among the threads.
template <class T>
void multiply_few(const Product<T>& x) {
  cut_columns(x).run([&](std::int64_t, std::int64_t begin, std::int64_t end) {
    const Product<T> part = columns_of(x, begin, end);
    if (x.b.column != 1) return add_dots(part, block_terms(x.k));
    const std::int64_t terms = x.m <= kFewFarRows ? kSumBlock : kLongBlock;  // more rows read them again
    for (std::int64_t p = 0; p < x.k; p += terms) add_terms(part, p, std::min(terms, x.k - p));
  });
}
template <class T>
bool is_few(const Product<T>& x) {
  const bool near = x.n * x.k * static_cast<std::int64_t>(sizeof(T)) <= kNearBytes;
  if (x.b.column == 1) return x.m <= (near ? kFewRows : kFewFarRows);
  return x.a.column == 1 && x.b.row == 1 && x.m <= kFewDottedRows && x.k >= 8 * simd().of<T>().lanes;
}

/// Few rows and columns of long dot products. Pieces of them among the threads.
template <class T>
void multiply_long_dots(const Product<T>& x) {
  constexpr std::int64_t kLanes = kMostRegisterBytes / sizeof(T), kMost = kFewRows * kLanes / 4;  // see `is_dots`
  T sums[kDotPieces][kMost];
  const std::int64_t terms = std::max(ceil_div(x.k, kDotPieces), kDotTerms), pieces = ceil_div(x.k, terms);
  base::parallel_for(pieces, 2 * kCheapGrain / (x.m * x.n * terms) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      Product<T> piece = terms_of(x, i * terms, (i + 1) * terms);
      piece.c = sums[i], piece.c_row = x.n, piece.start = {};
      add_dots(piece, block_terms(piece.k));
    }
  });
  for (std::int64_t row = 0; row < x.m; ++row) {
    T* const to = x.c + row * x.c_row;
    begin_row(x.start, to, x.n);
    for (std::int64_t j = 0; j < x.n; ++j) {
      double sum = 0;
      for (std::int64_t i = 0; i < pieces; ++i) sum += static_cast<double>(sums[i][row * x.n + j]);
      to[j] += static_cast<T>(sum);
    }
  }
}

/// All columns are dot products. Rows among the threads.
template <class T>
void multiply_dots(const Product<T>& x) {
  if (x.m <= kFewRows && x.k > kDotTerms) return multiply_long_dots(x);
  Cut(x, x.m, kRows).run([&](std::int64_t, std::int64_t begin, std::int64_t end) {
    add_dots(rows_of(x, begin, end), block_terms(x.k));
  });
}

/// The product with its left operand copied to `to`, where each of its rows lies in one piece.
template <class T>
Product<T> in_rows(Product<T> x, T* to) {
  constexpr std::int64_t kPart = 4 * kRows;
  base::parallel_for((x.m + kPart - 1) / kPart, kCheapGrain / (kPart * x.k) + 1,
                     [&](std::int64_t begin, std::int64_t end) {
                       const Product<T> part = rows_of(x, begin * kPart, end * kPart);
                       pack<T>({part.a.data, x.a.row, x.a.column}, part.m, x.k, to + begin * kPart * x.k);
                     });
  x.a = {to, x.k, 1};
  return x;
}

/// A matrix whose columns are contiguous and a vector, as that vector and the transposed matrix, whose rows are.
template <class T>
Product<T> with_rows(Product<T> x) {
  if (x.n != 1 || x.a.row != 1 || x.c_row != 1 || x.start.bias != nullptr) return x;
  std::swap(x.m, x.n);
  x.a = std::exchange(x.b, {x.a.data, x.a.column, x.a.row});
  std::swap(x.a.row, x.a.column);
  return x;
}

/// A product in the way that suits it; `large` takes those whose right operand is packed.
template <class T, class Large>
void multiply_with(const Product<T>& any, Large large) {
  const Product<T> x = with_rows(any);
  if (x.m == 0 || x.n == 0) return;
  if (x.k == 0) {
    for (std::int64_t i = 0; i < x.m; ++i) begin_row(x.start, x.c + i * x.c_row, x.n);
    return;
  }
  if (is_dots(x)) multiply_dots(x);
  else if (x.b.column == 1 && is_small(x.m, x.n, x.k)) multiply_small(x);
  else if (x.b.column == 1 && is_long(x)) multiply_long(x);
  else if (is_few(x)) multiply_few(x);
  else large(x);
}

/// Columns among the threads, each of which packs its own; or rows, where columns are few. A part of the product is
/// made in the blocks of terms, by as many threads and in as much memory as the whole, or less.
template <class T>
struct Strips {
  std::int64_t terms, room;
  bool by_columns;
  std::int64_t parts;

  explicit Strips(const Product<T>& x)
      : terms(block_terms(x.k)),
        room(packed_room<T>(x.n, x.k)),
        by_columns(x.n >= 2 * simd().of<T>().panel * threads() || x.m <= 2 * kRows),
        parts(cut(x).parts) {}
  std::int64_t elements() const { return parts * room; }
  void multiply(const Product<T>& x, T* packed) const {
    Cut own = cut(x);
    own.parts = std::min(own.parts, parts);  // somebody may have asked for more threads meanwhile
    own.run([&](std::int64_t part, std::int64_t begin, std::int64_t end) {
      multiply_packed(by_columns ? columns_of(x, begin, end) : rows_of(x, begin, end), terms, packed + part * room);
    });
  }

 private:
  Cut cut(const Product<T>& x) const { return by_columns ? cut_columns(x) : Cut(x, x.m, kRows); }
};

/// Whether the left operand is put in rows: else each column of tiles touches a cache line for every six values of it.
/// Not where columns would then be dot products, which they are not for those who multiply within their own memory.
template <class T>
bool wants_rows(const Product<T>& x) {
  if (x.a.column == 1 || dotted_columns(x.b, x.n, x.k) > 0 || x.k < kManyTerms ||
      x.m * x.n * x.k < kManyMultiplications)
    return false;
  const bool same_set = x.a.column * static_cast<std::int64_t>(sizeof(T)) % kSetBytes == 0;
  return x.n >= (same_set ? kColumnsOfSet : kManyColumns);
}

template <class T>
void multiply_large(const Product<T>& x) {
  const Strips<T> strips(x);
  core::Scratch<T> packed(strips.elements(), core::calling_place());
  if (!wants_rows(x)) return strips.multiply(x, packed.data());
  const std::int64_t parts = ceil_div(x.m * strips.terms, kLeftAtOnce);
  const std::int64_t m = std::min(ceil_div(ceil_div(x.m, parts), kRows) * kRows, x.m);
  const std::int64_t k = std::min(std::max(kLeftAtOnce / (m * strips.terms), std::int64_t{1}) * strips.terms, x.k);
  core::Scratch<T> rows(m * k, core::calling_place());
  for (std::int64_t row = 0; row < x.m; row += m)
    for (std::int64_t p = 0; p < x.k; p += k)
      strips.multiply(in_rows(rows_of(terms_of(x, p, p + k), row, row + m), rows.data()), packed.data());
}

}  // namespace

template <class T>
void multiply_packed(const Product<T>& whole, std::int64_t terms, T* packed) {
  const std::int64_t dotted = whole.a.column == 1 ? dotted_columns(whole.b, whole.n, whole.k) : 0;
  if (dotted > 0) add_dots(columns_of(whole, whole.n - dotted, whole.n), terms);
  const Product<T> x = columns_of(whole, 0, whole.n - dotted);
  const std::int64_t width = simd().of<T>().panel;
  const std::int64_t rows = kBlockValues / terms / kRows * kRows;
  const bool far = x.m * x.n * static_cast<std::int64_t>(sizeof(T)) >= kFar;
  for (std::int64_t column = 0; column < x.n; column += kStrips * width) {
    const std::int64_t end = std::min(column + kStrips * width, x.n);
    for (std::int64_t p = 0; p < x.k; p += terms) {
      const std::int64_t count = std::min(terms, x.k - p);
      const auto each_strip = [&](auto use) {
        for (std::int64_t j = column; j < end; j += width)
          use(j, std::min(width, end - j), packed + (j - column) * count);
      };
      if (x.b.column == 1)  // a row of all strips lies in one piece
        for (std::int64_t row = 0; row < count; ++row)
          each_strip([&](std::int64_t j, std::int64_t columns, T* strip) {
            copy_to_strip(x.b.data + (p + row) * x.b.row + j, columns, strip + row * columns);
          });
      else
        each_strip([&](std::int64_t j, std::int64_t columns, T* strip) {
          pack<T>({x.b.data + p * x.b.row + j * x.b.column, x.b.row, x.b.column}, count, columns, strip);
        });
      const Start<T> start = x.start_at(p);
      for (std::int64_t row = 0; row < x.m; row += rows)
        each_strip([&](std::int64_t j, std::int64_t columns, const T* strip) {
          simd().of<T>().small_gemm({x.a.data + row * x.a.row + p * x.a.column, x.a.row, x.a.column, strip, columns,
                                     x.c + row * x.c_row + j, x.c_row, std::min(rows, x.m - row), columns, count,
                                     start.accumulate, start.bias == nullptr ? nullptr : start.bias + j, far});
        });
    }
  }
}

template <class T>
std::int64_t dotted_columns(const Matrix<const T>& b, std::int64_t n, std::int64_t k) {
  const std::int64_t lanes = simd().of<T>().lanes, left = n % lanes;
  return b.row == 1 && 4 * left <= lanes && k >= 8 * lanes ? left : 0;
}

template <class T>
void pack(const Matrix<const T>& b, std::int64_t k, std::int64_t n, T* out) {
  if (b.column == 1) {
    for (std::int64_t row = 0; row < k; ++row) std::copy_n(b.data + row * b.row, n, out + row * n);
    return;
  }
  constexpr std::int64_t kTile = 16;
  for (std::int64_t column = 0; column < n; column += kTile)
    for (std::int64_t row = 0; row < k; row += kTile)
      if (b.row == 1 && row + kTile <= k && column + kTile <= n)
        simd().of<T>().transpose_tile(b.data + column * b.column + row, b.column, out + row * n + column, n);
      else
        for (std::int64_t r = row; r < std::min(row + kTile, k); ++r)
          for (std::int64_t c = column; c < std::min(column + kTile, n); ++c)
            out[r * n + c] = b.data[r * b.row + c * b.column];
}

template <class T>
std::int64_t product_room(std::int64_t m, std::int64_t n, std::int64_t k) {
  if constexpr (std::is_same_v<T, float>)
    if (suits_tiles(m, n, k)) return tile_room(m, n, k);
  return k == 0 ? 0 : packed_room<T>(n, k);
}

template <class T>
void multiply(const Matrix<const T>& a, const Matrix<const T>& b, T* c, std::int64_t c_row, std::int64_t m,
              std::int64_t n, std::int64_t k, const Start<T>& start) {
  const Product<T> x{a, b, c, c_row, m, n, k, start};
  if constexpr (std::is_same_v<T, float>)
    if (suits_tiles(m, n, k)) return multiply_on_tiles(x);
  multiply_with(x, multiply_large<T>);
}

template <class T>
void multiply_within(T* room, const Matrix<const T>& a, const Matrix<const T>& b, T* c, std::int64_t c_row,
                     std::int64_t m, std::int64_t n, std::int64_t k, const Start<T>& start) {
  const Product<T> whole{a, b, c, c_row, m, n, k, start};
  if constexpr (std::is_same_v<T, float>)
    if (suits_tiles(m, n, k)) return multiply_on_tiles_within(room, whole);
  multiply_with(whole, [room](const Product<T>& x) { multiply_packed(x, block_terms(x.k), room); });
}

#define CAPSTAN_INSTANTIATE(T)                                                                                         \
  template std::int64_t dotted_columns(const Matrix<const T>&, std::int64_t, std::int64_t);                            \
  template void pack(const Matrix<const T>&, std::int64_t, std::int64_t, T*);                                          \
  template void multiply_packed(const Product<T>&, std::int64_t, T*);                                                  \
  template std::int64_t product_room<T>(std::int64_t, std::int64_t, std::int64_t);                                     \
  template void multiply(const Matrix<const T>&, const Matrix<const T>&, T*, std::int64_t, std::int64_t, std::int64_t, \
                         std::int64_t, const Start<T>&);                                                               \
  template void multiply_within(T*, const Matrix<const T>&, const Matrix<const T>&, T*, std::int64_t, std::int64_t,    \
                                std::int64_t, std::int64_t, const Start<T>&);
CAPSTAN_INSTANTIATE(float)
CAPSTAN_INSTANTIATE(double)
#undef CAPSTAN_INSTANTIATE

}  // namespace capstan::on_cpu
