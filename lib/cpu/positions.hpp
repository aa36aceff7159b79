#pragma once
// Positions, integers that choose elements: int32 or int64, negative ones counting from the end.
#include <atomic>
#include <limits>
#include <type_traits>

#include "lib/core/backend.hpp"
#include "lib/core/dispatch.hpp"
#include "lib/cpu/iterate.hpp"

namespace capstan::on_cpu {

/// Calls f with a null pointer of the positions' type.
template <class F>
decltype(auto) visit_positions(const TensorImpl& positions, F&& f) {
  if (positions.dtype == DType::int32) return f(static_cast<const std::int32_t*>(nullptr));
  return f(static_cast<const std::int64_t*>(nullptr));
}

/// Calls f with an unsigned type of that many bytes: elements that are only moved.
template <class F>
decltype(auto) visit_words(std::int64_t element, F&& f) {
  switch (element) {
    case 1: return f(core::Type<std::uint8_t>{});
    case 2: return f(core::Type<std::uint16_t>{});
    case 4: return f(core::Type<std::uint32_t>{});
    default: return f(core::Type<std::uint64_t>{});
  }
}

/// Whether all positions are in [low, last], low <= 0 and last >= -1: then no difference below has its sign bit set.
/// May doubt without reason where a difference overflows.
template <class I>
bool surely_between(const I* at, std::int64_t step, std::int64_t count, std::int64_t low, std::int64_t last) {
  using Bits = std::make_unsigned_t<I>;
  constexpr std::int64_t kLeast = std::numeric_limits<I>::min() / 2, kMost = std::numeric_limits<I>::max();
  const auto from = static_cast<Bits>(low < kLeast ? kLeast : low), to = static_cast<Bits>(last > kMost ? kMost : last);
  Bits outside = 0;
  const auto look = [&](I position) {
    const auto p = static_cast<Bits>(position);
    outside |= (p - from) | (to - p);
  };
  if (step == 1)
    for (std::int64_t i = 0; i < count; ++i) look(at[i]);
  else
    for (std::int64_t i = 0; i < count; ++i) look(at[i * step]);
  return outside >> (8 * sizeof(Bits) - 1) == 0;
}

/// Asks for the memory of a row before it is needed. A place out of range does no harm.
template <bool written>
void prefetch_row(const void* base, std::int64_t offset, std::int64_t position, std::int64_t scale,
                  std::int64_t element, std::int64_t count) {
  constexpr std::uintptr_t kLine = 64, kMost = 4 * kLine;  // the processor goes on by itself
  const auto size = static_cast<std::uintptr_t>(element), bytes = static_cast<std::uintptr_t>(count) * size;
  const std::uintptr_t row = reinterpret_cast<std::uintptr_t>(base) +
                             (static_cast<std::uintptr_t>(offset) +
                              static_cast<std::uintptr_t>(position) * static_cast<std::uintptr_t>(scale)) *
                                 size;
  for (std::uintptr_t at = 0; at < bytes && at < kMost; at += kLine)
    __builtin_prefetch(reinterpret_cast<const void*>(row + at), written ? 1 : 0);
}
inline constexpr std::int64_t kAhead = 4;  // rows

/// Calls `run(place, first, count)` for pieces of the innermost loop, in parallel.
template <int N, class Run>
void for_pieces(const Loops<N>& loops, std::int64_t total, Run run) {
  if (total == 0) return;
  constexpr std::int64_t kPiece = 4096;
  const std::int64_t inner = loops.inner(), pieces = (inner + kPiece - 1) / kPiece;
  const std::int64_t width = inner < kPiece ? inner : kPiece;
  base::parallel_for(total / inner * pieces, kCheapGrain / 4 / width + 1, [&](std::int64_t begin, std::int64_t end) {
    Place<N> place(loops, begin / pieces);
    std::int64_t piece = begin % pieces;
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t first = piece * kPiece;
      run(place, first, inner - first < kPiece ? inner - first : kPiece);
      if (++piece == pieces) {
        piece = 0;
        place.next();
      }
    }
  });
}

}  // namespace capstan::on_cpu
