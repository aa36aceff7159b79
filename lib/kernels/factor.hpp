#pragma once
// Products that stay in range however many factors there are and in whatever order they are taken.
#include "lib/kernels/host_device.hpp"

namespace capstan::kernels {

/// part * 2^exponent
struct Factor {
  double part;
  std::int64_t exponent;
};

/// The same number, whose |part| is at least 1 and less than 2, or which is zero, infinite or no number. Its exponent
/// then means nothing.
CAPSTAN_HD Factor scaled_factor(double part, std::int64_t exponent) {
  constexpr int kFraction = 52, kField = 0x7ff, kZero = 1023;  // of a double's bits; kZero stands for 2^0
  auto bits = __builtin_bit_cast(std::uint64_t, part);
  int field = static_cast<int>(bits >> kFraction) & kField;
  if (field == 0 && part != 0) {  // subnormal
    bits = __builtin_bit_cast(std::uint64_t, part * 0x1p64);
    field = static_cast<int>(bits >> kFraction) & kField;
    exponent -= 64;
  }
  if (field == 0 || field == kField) return {part, exponent};
  const std::uint64_t rest = bits & ~(std::uint64_t{kField} << kFraction);
  return {__builtin_bit_cast(double, rest | std::uint64_t{kZero} << kFraction), exponent + field - kZero};
}
CAPSTAN_HD Factor operator*(const Factor& a, const Factor& b) {
  return scaled_factor(a.part * b.part, a.exponent + b.exponent);
}
/// As a double, which may be infinite or 0.
CAPSTAN_HD double value_of(const Factor& factor) {
  constexpr std::int64_t kFar = 4096;
  const std::int64_t exponent = factor.exponent < -kFar ? -kFar : factor.exponent > kFar ? kFar : factor.exponent;
  return ::ldexp(factor.part, static_cast<int>(exponent));
}

}  // namespace capstan::kernels
