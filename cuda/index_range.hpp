#pragma once
#include <cstdint>

namespace capstan::on_cuda {

/// How many elements kernels count with 32 bits, with room behind them for a step of a whole grid.
inline constexpr std::int64_t kIndexed = (std::int64_t{1} << 31) - (std::int64_t{1} << 21);
/// Sizes, borders and reaches of windows up to here add up, a few of them, within 32 bits.
inline constexpr std::int64_t kFarthest = std::int64_t{1} << 28;

}  // namespace capstan::on_cuda
