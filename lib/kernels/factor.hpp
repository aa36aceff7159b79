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

/// Whether as a part it is so near to 1 that any float, or a scaled double, keeps it in range.
CAPSTAN_HD bool is_near(double part) {
  const double size = abs(part);
  return size >= 0x1p-100 && size <= 0x1p100;
}
/// What a part that is near can be multiplied with: a float as it is.
CAPSTAN_HD Factor near_factor_of(float x) { return {static_cast<double>(x), 0}; }
CAPSTAN_HD Factor near_factor_of(double x) { return scaled_factor(x, 0); }
/// product * x, scaled only where it is no longer near.
template <class T> CAPSTAN_HD Factor extended(const Factor& product, T x) {
  const Factor factor = near_factor_of(x);
  const double part = product.part * factor.part;
  const std::int64_t exponent = product.exponent + factor.exponent;
  return is_near(part) ? Factor{part, exponent} : scaled_factor(part, exponent);
}

/// As a double, which may be infinite or 0.
CAPSTAN_HD double value_of(const Factor& factor) {
  constexpr std::int64_t kLeast = -1022, kMost = 1023, kFar = 4096;
  const std::int64_t exponent = factor.exponent;
  if (exponent >= kLeast && exponent <= kMost)  // of a power of two that is a number
    return factor.part * __builtin_bit_cast(double, static_cast<std::uint64_t>(exponent + kMost) << 52);
  if (factor.part == 0 || factor.part - factor.part != 0) return factor.part;  // zero, infinite or no number
  if (exponent < -kFar) return factor.part * 0;
  if (exponent > kFar) return factor.part * __builtin_huge_val();
  return ::ldexp(factor.part, static_cast<int>(exponent));
}

}  // namespace capstan::kernels
