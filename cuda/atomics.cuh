#pragma once
// Numbers in memory that many threads add to, or lower and raise.
#include <cuda_runtime.h>

#include <cstdint>
#include <limits>
#include <type_traits>

#include "lib/core/backend.hpp"

namespace capstan::on_cuda {

/// What stands in a place behind `value`, where `old` stood. Integers wrap around; NaN stays, and wins. Extremes are the
/// same bits in whatever order they meet: +0 is above -0, and all NaN are one.
template <class T>
__device__ inline T combined(core::Combine kind, T old, T value) {
  if (kind == core::Combine::add) {
    if constexpr (std::is_floating_point_v<T>) {
      return old + value;
    } else {
      using Bits = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Bits>(static_cast<Bits>(old) + static_cast<Bits>(value)));
    }
  }
  if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
    if (old != old || value != value) return std::numeric_limits<T>::quiet_NaN();
    if (old == value) {
      const bool negative = __builtin_bit_cast(Bits, old) >> (8 * sizeof(T) - 1) != 0;
      return negative == (kind == core::Combine::max) ? value : old;
    }
  }
  return (kind == core::Combine::max ? value > old : value < old) ? value : old;
}

/// The bits of T that stand `shift` bits above the lowest of a word, and that word with others there.
template <class T, class Word>
__device__ inline T taken_out(Word word, int shift) {
  if constexpr (sizeof(T) == sizeof(Word)) return __builtin_bit_cast(T, word);
  else return __builtin_bit_cast(T, static_cast<std::make_unsigned_t<T>>(word >> shift));
}
template <class T, class Word>
__device__ inline Word put_in(Word word, int shift, T value) {
  if constexpr (sizeof(T) == sizeof(Word)) {
    return __builtin_bit_cast(Word, value);
  } else {
    using Bits = std::make_unsigned_t<T>;
    const Word all = static_cast<Bits>(-1);
    return (word & ~(all << shift)) | (Word{static_cast<Bits>(value)} << shift);
  }
}

/// *place = combined(kind, *place, value) for any of set's siblings, whoever else does the same. Numbers of 8 and 16
/// bits are changed in the 4 bytes around them, which every tensor's memory holds in full.
template <class T>
__device__ inline void update(core::Combine kind, T* place, T value) {
  using Word = std::conditional_t<sizeof(T) == 8, unsigned long long, unsigned>;
  if constexpr (std::is_floating_point_v<T>) {
    if (kind == core::Combine::add) {
      atomicAdd(place, value);
      return;
    }
  } else if constexpr (sizeof(T) == sizeof(Word)) {
    if (kind == core::Combine::add) {
      atomicAdd(reinterpret_cast<Word*>(place), static_cast<Word>(value));
      return;
    }
  }
  const auto address = reinterpret_cast<std::uintptr_t>(place);
  const int shift = static_cast<int>(address % sizeof(Word)) * 8;
  Word* const word = reinterpret_cast<Word*>(address - address % sizeof(Word));
  for (Word seen = *word;;) {
    const Word next = put_in(seen, shift, combined(kind, taken_out<T>(seen, shift), value));
    if (next == seen) return;
    const Word found = atomicCAS(word, seen, next);
    if (found == seen) return;
    seen = found;
  }
}

}  // namespace capstan::on_cuda
