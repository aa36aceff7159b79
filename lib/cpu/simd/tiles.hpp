#pragma once
// Products of float32 on a processor's matrix unit (AMX), whose tiles multiply bfloat16 and add in float32.
//
// A float32 is the sum of three bfloat16, which have 8 bits each: the nearest one, the one nearest to what is left, and
// the rest. Of the nine products of two such numbers six are taken; the other three are less than float32 can tell.
// Sums have fewer roundings than one multiplication and addition after the other. Six of these are faster than one of
// those.
//
// An operand is split in blocks of 32 rows (the left one) or columns (the right one): for every 32 terms, the high,
// middle and low piece of 16 rows each, twice. Dword r of a row holds terms r and r + 16.
#include <cstdint>

namespace capstan::on_cpu {

/// Rows of a left block, columns of a right one, and terms of a step; bytes of a block for every step.
inline constexpr std::int64_t kTileBlock = 32, kTileStep = 6 * 1024;

/// Columns side by side, at most kTileStrips blocks of them, of which `good` tells whether pieces will do.
inline constexpr std::int64_t kTileStrips = 8;
struct TileColumns {
  const float* x;
  std::int64_t row, terms, columns;
  std::uint8_t* to;
  std::int64_t strip;  // bytes from one block to the next
  bool* good;
};

/// c [rows, columns] = left * right + c, or bias, or nothing. Up to kTileBlock rows and columns.
struct TileSums {
  const std::uint8_t *left, *right;
  std::int64_t steps;
  float* c;
  std::int64_t c_row, rows, columns;
  bool accumulate;    // to c
  const float* bias;  // else to this row, if it is not null
};

struct TileKernels {
  /// Splits x [rows, terms] or [terms, columns], whose rows are `row` apart; terms up to a multiple of kTileBlock are
  /// zeros. Pieces will not do, and are of no use, where the largest of some row (column) is infinite or NaN, 2^59 or
  /// more, or below 2^-50 but not zero: products of two pieces must neither overflow, when that of the two numbers does
  /// not, nor be so small that tiles take what counts for 0.
  bool (*split_rows)(const float* x, std::int64_t row, std::int64_t rows, std::int64_t terms, std::uint8_t* to);
  void (*split_columns)(const TileColumns& c);
  /// Around all sums of a thread.
  void (*begin)();
  void (*end)();
  void (*add)(const TileSums& s);
};

const TileKernels& amx_kernels();
/// Null where this processor has none or the system does not lend them, where CAPSTAN_SIMD asks for less, and in virtual
/// machines whose cores others may share, unless CAPSTAN_SIMD=amx asks for them.
const TileKernels* tile_kernels();

}  // namespace capstan::on_cpu
