// AMX (TILE, BF16) beside AVX-512: compiled with their flags, called only where the processor has them.
#include <immintrin.h>

#include "lib/cpu/simd/tiles.hpp"

namespace capstan::on_cpu {
namespace {

constexpr std::int64_t kHalf = 16, kLine = 64, kTile = kHalf * kLine, kPiece = 2 * kTile;

/// What `_tile_loadconfig` reads: eight tiles of 16 lines.
struct alignas(kLine) Configuration {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t line_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t lines[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

/// The assembly that compilers make of loads of tiles does not say that it reads memory.
void reach_memory() { __asm__ volatile("" ::: "memory"); }

void fetch(const void* x) { _mm_prefetch(static_cast<const char*>(x), _MM_HINT_T0); }

/// Pairs of values, and what is left of them.
struct Pairs {
  __m512 x, y;
  std::uint8_t* to;

  /// Writes the nearest bfloat16 of all, and takes them off.
  void take(std::int64_t piece) {
    const __m512i half = _mm512_set1_epi32(0x8000), high = _mm512_set1_epi32(-0x10000);
    const __m512i a = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(x), half), high);
    const __m512i b = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(y), half), high);
    _mm512_store_si512(to + piece * kPiece, _mm512_or_si512(_mm512_srli_epi32(a, 16), b));
    x = _mm512_sub_ps(x, _mm512_castsi512_ps(a));
    y = _mm512_sub_ps(y, _mm512_castsi512_ps(b));
  }
  /// The larger of `most` and twice the bits without their sign.
  __m512i most(__m512i most) const {
    const __m512i a = _mm512_slli_epi32(_mm512_castps_si512(x), 1), b = _mm512_slli_epi32(_mm512_castps_si512(y), 1);
    return _mm512_max_epu32(most, _mm512_max_epu32(a, b));
  }
  void split() { take(0), take(1), take(2); }
};

/// Lanes in which the largest value of a row or column, as Pairs::most has it, is neither zero nor in range.
__mmask16 beyond(__m512i most) {
  const __m512i below = _mm512_set1_epi32(static_cast<int>((127u - 50) << 24)),
                above = _mm512_set1_epi32(static_cast<int>((127u + 59) << 24));
  return _mm512_cmpge_epu32_mask(most, above) |
         (_mm512_test_epi32_mask(most, most) & _mm512_cmplt_epu32_mask(most, below));
}

/// The first `count` lanes; none, or all, where it is beyond them.
__mmask16 lanes(std::int64_t count) {
  return count >= kHalf ? 0xffff : count <= 0 ? 0 : static_cast<__mmask16>((1u << count) - 1);
}

bool split_rows(const float* x, std::int64_t row, std::int64_t rows, std::int64_t terms, std::uint8_t* to) {
  bool good = true;
  const std::int64_t all = (rows + kHalf - 1) / kHalf * kHalf;
  for (std::int64_t i = 0; i < all; ++i) {
    std::uint8_t* line = to + i / kHalf * kTile + i % kHalf * kLine;
    __m512i most = _mm512_setzero_si512();
    for (std::int64_t p = 0; p < terms; p += kTileBlock, line += kTileStep) {
      const std::int64_t left = i < rows ? terms - p : 0;
      const float* from = left > 0 ? x + i * row + p : x;
      Pairs pairs{_mm512_maskz_loadu_ps(lanes(left), from), _mm512_maskz_loadu_ps(lanes(left - kHalf), from + kHalf),
                  line};
      most = pairs.most(most);
      pairs.split();
    }
    good = good && beyond(_mm512_set1_epi32(static_cast<int>(_mm512_reduce_max_epu32(most)))) == 0;
  }
  return good;
}

void split_columns(const TileColumns& s) {
  const std::int64_t halves = (s.columns + kHalf - 1) / kHalf;
  constexpr std::int64_t kFar = 1024;  // rows that processors do not see to follow one another
  __m512i most[2 * kTileStrips] = {};
  for (std::int64_t p = 0; p < s.terms; p += kTileBlock)
    for (std::int64_t r = 0; r < kHalf; ++r) {
      const float* from = s.x + (p + r) * s.row;
      std::uint8_t* line = s.to + p / kTileBlock * kTileStep + r * kLine;
      for (std::int64_t j = 0; j < halves; ++j) {  // a row of all columns lies in one piece
        const __mmask16 in = lanes(s.columns - j * kHalf);
        const auto row = [&](std::int64_t term, const float* at) {
          return term < s.terms ? _mm512_maskz_loadu_ps(in, at + j * kHalf) : _mm512_setzero_ps();
        };
        Pairs pairs{row(p + r, from), row(p + r + kHalf, from + kHalf * s.row), line + j / 2 * s.strip + j % 2 * kTile};
        if (s.row >= kFar) {
          fetch(from + kTileBlock * s.row + j * kHalf);
          fetch(from + (kTileBlock + kHalf) * s.row + j * kHalf);
        }
        most[j] = pairs.most(most[j]);
        pairs.split();
      }
    }
  for (std::int64_t j = 0; j < halves; ++j) s.good[j / 2] = (j % 2 == 0 || s.good[j / 2]) && beyond(most[j]) == 0;
}

/// Sums of R x C tiles in tiles 0 to 3, with 4 and 5 of the left operand and 6 and 7 of the right one.
template <int R, int C> struct Sums {
  static void left0(const std::uint8_t* a) { _tile_loadd(4, a, kLine); }
  static void left1(const std::uint8_t* a) {
    if constexpr (R == 2) _tile_loadd(5, a + kTile, kLine);
  }
  static void right0(const std::uint8_t* b) { _tile_loadd(6, b, kLine); }
  static void right1(const std::uint8_t* b) {
    if constexpr (C == 2) _tile_loadd(7, b + kTile, kLine);
  }
  static void add00() { _tile_dpbf16ps(0, 4, 6); }
  static void add01() {
    if constexpr (C == 2) _tile_dpbf16ps(1, 4, 7);
  }
  static void add10() {
    if constexpr (R == 2) _tile_dpbf16ps(2, 5, 6);
  }
  static void add11() {
    if constexpr (R * C == 4) _tile_dpbf16ps(3, 5, 7);
  }
  /// The left operand comes from farther away than the right one.
  static void fetch_left(const std::uint8_t* a) {
    if constexpr (C == 2)
      for (std::int64_t line = 0; line < R * kTile; line += kLine) fetch(a + line);
  }

  /// Adds the products of a step; the middle pieces are loaded, and in the end those of the next step are. A tile is
  /// loaded as soon as its last value is used, and used as late as can be.
  static void add_step(const std::uint8_t* a, const std::uint8_t* b, const std::uint8_t* next_a,
                       const std::uint8_t* next_b) {
    constexpr std::int64_t kHigh = 0, kMiddle = kPiece, kLow = 2 * kPiece;
    fetch_left(next_a + kHigh);
    add00(), add01(), left0(a + kHigh), add10(), add11(), left1(a + kHigh);  // middle times middle
    add00(), add10(), right0(b + kLow), add01(), add11(), right1(b + kLow);  // high times middle
    fetch_left(next_a + kMiddle);
    add00(), add10(), right0(b + kHigh), add01(), add11(), right1(b + kHigh);    // high times low
    add00(), add10(), add01(), left0(a + kMiddle), add11(), left1(a + kMiddle);  // high times high
    fetch_left(next_a + kLow);
    add00(), add01(), left0(a + kLow), add10(), add11(), left1(a + kLow);          // middle times high
    add00(), add01(), left0(next_a + kMiddle), add10(), right0(next_b + kMiddle);  // low times high
    add11(), left1(next_a + kMiddle), right1(next_b + kMiddle);
  }

  static void zero() {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  static void store(float* c, std::int64_t bytes) {
    _tile_stored(0, c, bytes);
    if constexpr (C == 2) _tile_stored(1, c + kHalf, bytes);
    if constexpr (R == 2) _tile_stored(2, c + kHalf * bytes / 4, bytes);
    if constexpr (R * C == 4) _tile_stored(3, c + kHalf * bytes / 4 + kHalf, bytes);
  }

  /// c = the sums, whole tiles.
  static void make(const TileSums& s, float* c, std::int64_t c_row) {
    reach_memory();
    zero();
    const std::uint8_t *a = s.left, *b = s.right;
    left0(a + kPiece), left1(a + kPiece), right0(b + kPiece), right1(b + kPiece);
    for (std::int64_t left = s.steps; left > 0; --left) {
      const std::int64_t next = left > 1 ? kTileStep : 0;
      add_step(a, b, a + next, b + next);
      a += next, b += next;
    }
    store(c, c_row * 4);
    reach_memory();
  }

  static void run(const TileSums& s) {
    const bool plain = !s.accumulate && s.bias == nullptr;
    if (plain && s.rows == R * kHalf && s.columns == C * kHalf) return make(s, s.c, s.c_row);
    alignas(kLine) float sums[kTileBlock * kTileBlock];
    make(s, sums, kTileBlock);
    for (std::int64_t i = 0; i < s.rows; ++i)
      for (std::int64_t j = 0; j < s.columns; j += kHalf) {
        float* c = s.c + i * s.c_row + j;
        const __mmask16 in = lanes(s.columns - j);
        __m512 sum = _mm512_load_ps(sums + i * kTileBlock + j);
        if (!plain) sum = _mm512_add_ps(_mm512_maskz_loadu_ps(in, s.accumulate ? c : s.bias + j), sum);
        _mm512_mask_storeu_ps(c, in, sum);
      }
  }
};

void begin() {
  static constexpr Configuration whole;
  _tile_loadconfig(&whole);
}
void end() { _tile_release(); }

void add(const TileSums& s) {
  if (s.rows > kHalf) s.columns > kHalf ? Sums<2, 2>::run(s) : Sums<2, 1>::run(s);
  else s.columns > kHalf ? Sums<1, 2>::run(s) : Sums<1, 1>::run(s);
}

}  // namespace

const TileKernels& amx_kernels() {
  static constexpr TileKernels table{split_rows, split_columns, begin, end, add};
  return table;
}

}  // namespace capstan::on_cpu
