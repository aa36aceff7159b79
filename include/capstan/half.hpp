#pragma once
// Floating numbers of sixteen bits: IEEE 754 binary16, and bfloat16 (the upper half of a float).
//
// They store; arithmetic on them happens in float, to which they convert by themselves and exactly. Making one rounds
// once, to the nearest and to even at ties, from any number; too large gives infinity, NaN stays NaN.
#include <cstdint>
#include <type_traits>

#include <capstan/visibility.hpp>

namespace capstan CAPSTAN_PUBLIC {

namespace detail {

// Always inlined: kernels are compiled for several instruction sets, and must not share what one of them has compiled.

/// To float, rounded so that a second rounding to fewer bits gives what a single one had given: whatever is lost makes
/// the last bit odd ("round to odd"; Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
[[gnu::always_inline]] constexpr float to_odd(double x) noexcept {
  const auto nearest = static_cast<float>(x);
  const auto back = static_cast<double>(nearest);
  if (back == x || x != x || back - back != 0) return nearest;
  auto bits = __builtin_bit_cast(std::uint32_t, nearest);
  if ((back > x) == (x > 0)) --bits;  // was rounded away from zero
  return __builtin_bit_cast(float, bits | 1u);
}

/// An integer beyond 2^53 loses its low bits to one that says whether there were any.
[[gnu::always_inline]] constexpr double to_sticky(std::int64_t x) noexcept {
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  if (x > -kExact && x < kExact) return static_cast<double>(x);
  return static_cast<double>((x & ~std::int64_t{0x7FF}) | ((x & 0x7FF) != 0 ? 0x800 : 0));
}

template <class T>
[[gnu::always_inline]] constexpr float to_single(T x) noexcept {
  if constexpr (std::is_same_v<T, float>) return x;
  else if constexpr (std::is_floating_point_v<T>) return to_odd(static_cast<double>(x));
  else if constexpr (sizeof(T) < 4) return static_cast<float>(x);
  else if constexpr (sizeof(T) == 4) return to_odd(static_cast<double>(x));
  else if constexpr (std::is_signed_v<T>) return to_odd(to_sticky(static_cast<std::int64_t>(x)));
  else if (x <= static_cast<T>(INT64_MAX)) return to_odd(to_sticky(static_cast<std::int64_t>(x)));
  else return 2 * to_odd(to_sticky(static_cast<std::int64_t>(x >> 1 | (x & 1))));  // half of it fits
}

}  // namespace detail

/// IEEE 754 binary16: 11 significant bits, up to 65504.
class float16 {
 public:
  float16() noexcept = default;
  template <class T>
  requires std::is_arithmetic_v<T>
  [[gnu::always_inline]] explicit constexpr float16(T value) noexcept : bits_(round(detail::to_single(value))) {}
  static constexpr float16 from_bits(std::uint16_t bits) noexcept {
    float16 result(0.0f);
    result.bits_ = bits;
    return result;
  }
  constexpr std::uint16_t bits() const noexcept { return bits_; }

  // Both directions without branches, so that loops of them vectorize.
  [[gnu::always_inline]] constexpr operator float() const noexcept {
    constexpr std::uint32_t kExponent = 0x7C00u << 13, kBias = (127u - 15u) << 23;
    const std::uint32_t magnitude = (bits_ & 0x7FFFu) << 13, exponent = magnitude & kExponent;
    const std::uint32_t normal = magnitude + kBias;
    const std::uint32_t special = (normal + kBias) | (magnitude > kExponent ? 1u << 22 : 0u);  // a quiet NaN
    const float subnormal = __builtin_bit_cast(float, normal + (1u << 23)) - __builtin_bit_cast(float, 113u << 23);
    const std::uint32_t result = exponent == kExponent ? special
                                 : exponent == 0       ? __builtin_bit_cast(std::uint32_t, subnormal)
                                                       : normal;
    return __builtin_bit_cast(float, result | (bits_ & 0x8000u) << 16);
  }

 private:
  [[gnu::always_inline]] static constexpr std::uint16_t round(float x) noexcept {
    const auto all = __builtin_bit_cast(std::uint32_t, x);
    const std::uint32_t sign = all & 0x80000000u, magnitude = all ^ sign;
    const std::uint32_t nan = 0x7E00u | (magnitude >> 13 & 0x3FFu), infinity = 0x7C00u;
    const float shifted = __builtin_bit_cast(float, magnitude) + 0.5f;  // the addition rounds subnormal numbers
    const std::uint32_t subnormal = __builtin_bit_cast(std::uint32_t, shifted) - 0x3F000000u;
    const std::uint32_t normal = (magnitude - ((127u - 15u) << 23) + 0xFFFu + (magnitude >> 13 & 1u)) >> 13;
    const std::uint32_t result = magnitude > 0x7F800000u    ? nan
                                 : magnitude >= 0x47800000u ? infinity
                                 : magnitude < 0x38800000u  ? subnormal
                                                            : normal;
    return static_cast<std::uint16_t>(result | sign >> 16);
  }
  std::uint16_t bits_;
};

/// The upper half of a float: its range with 8 significant bits.
class bfloat16 {
 public:
  bfloat16() noexcept = default;
  template <class T>
  requires std::is_arithmetic_v<T>
  [[gnu::always_inline]] explicit constexpr bfloat16(T value) noexcept : bits_(round(detail::to_single(value))) {}
  static constexpr bfloat16 from_bits(std::uint16_t bits) noexcept {
    bfloat16 result(0.0f);
    result.bits_ = bits;
    return result;
  }
  constexpr std::uint16_t bits() const noexcept { return bits_; }
  [[gnu::always_inline]] constexpr operator float() const noexcept {
    return __builtin_bit_cast(float, std::uint32_t{bits_} << 16);
  }

 private:
  [[gnu::always_inline]] static constexpr std::uint16_t round(float x) noexcept {
    const auto all = __builtin_bit_cast(std::uint32_t, x);
    const std::uint32_t nan = all >> 16 | 0x40u, nearest = (all + 0x7FFFu + (all >> 16 & 1u)) >> 16;
    return static_cast<std::uint16_t>((all & 0x7FFFFFFFu) > 0x7F800000u ? nan : nearest);
  }
  std::uint16_t bits_;
};

}  // namespace capstan
