#pragma once
// Elementary functions in float64 that give the same bits on every processor, for what both backends must agree on:
// additions, multiplications and divisions of IEEE 754 in a fixed order, and no library.
//
// Methods and coefficients are those of fdlibm (Sun Microsystems, 1993: e_log, e_exp, k_sin, k_cos, e_rem_pio2); errors
// stay below one unit in the last place. A product must not be contracted with an addition: sources that include this
// are compiled with -ffp-contract=off, for GPUs with -fmad=false.
#include <cstdint>

#include "lib/kernels/host_device.hpp"

namespace capstan::kernels::portable {

CAPSTAN_HD std::uint64_t bits_of(double x) { return __builtin_bit_cast(std::uint64_t, x); }
CAPSTAN_HD double from_bits(std::uint64_t bits) { return __builtin_bit_cast(double, bits); }
/// 2^n for n in [-1022, 1023].
CAPSTAN_HD double power_of_two(int n) { return from_bits(static_cast<std::uint64_t>(n + 1023) << 52); }

// ln 2: the upper part times a whole number below 2^20 is exact.
inline constexpr double kLn2High = 6.93147180369123816490e-01, kLn2Low = 1.90821492927058770002e-10;

/// The natural logarithm of a positive, normal, finite number.
CAPSTAN_HD double log(double x) {
  // x = 2^k * (1 + f), with 1 + f from sqrt(1/2) to sqrt(2)
  constexpr std::uint64_t kOne = 0x3FF0000000000000u, kRootHalf = 0x3FE6A09E00000000u, kFraction = 0x000FFFFFFFFFFFFFu;
  const std::uint64_t moved = bits_of(x) + (kOne - kRootHalf);
  const auto k = static_cast<double>(static_cast<int>(moved >> 52) - 1023);
  const double f = from_bits((moved & kFraction) + kRootHalf) - 1.0;
  // log(1 + f) = 2 s + 2/3 s^3 + ... with s = f / (2 + f)
  const double s = f / (2.0 + f), z = s * s, w = z * z;
  const double odd = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
  const double even =
      z * (6.666666666666735130e-01 +
           w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
  const double half = 0.5 * f * f, rest = odd + even;
  return k * kLn2High - ((half - (s * (half + rest) + k * kLn2Low)) - f);
}

/// e^x for x <= 0, and NaN.
CAPSTAN_HD double exp(double x) {
  if (!(x > -745.2)) return x != x ? x : 0.0;
  // x = k ln 2 + (high - low), at most half of ln 2 away from zero
  const int k = -static_cast<int>(0.5 - x * 1.44269504088896338700);
  const double high = x - k * kLn2High, low = k * kLn2Low, r = high - low, t = r * r;
  const double c =
      r -
      t * (1.66666666666666019037e-01 +
           t * (-2.77777777770155933842e-03 +
                t * (6.61375632143793436117e-05 + t * (-1.65339022054652515390e-06 + t * 4.13813679705723846039e-08))));
  const double y = 1.0 + (r * c / (2.0 - c) - low + high);
  const int most = k / 2;  // 2^k itself may be too small for a number
  return y * power_of_two(most) * power_of_two(k - most);
}

struct CosineSine {
  double cosine, sine;
};
/// Of an angle in [0, 8].
CAPSTAN_HD CosineSine cosine_sine(double angle) {
  // angle = n pi/2 + (y + below); pi/2 in three parts, of which the first two times n are exact
  const int n = static_cast<int>(angle * 6.36619772367581382433e-01 + 0.5);
  const double first = angle - n * 1.57079632673412561417e+00, second = n * 6.07710050630396597660e-11;
  const double r = first - second;
  const double third = n * 2.02226624879595063154e-21 - ((first - r) - second);
  const double y = r - third, below = (r - y) - third;

  const double z = y * y, cube = z * y;
  const double s =
      8.33333333332248946124e-03 +
      z * (-1.98412698298579493134e-04 +
           z * (2.75573137070700676789e-06 + z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)));
  const double sine = y - ((z * (0.5 * below - cube * s) - below) - cube * -1.66666666666666324348e-01);
  const double c = z * (4.16666666666666019037e-02 +
                        z * (-1.38888888888741095749e-03 +
                             z * (2.48015872894767294178e-05 +
                                  z * (-2.75573143513906633035e-07 +
                                       z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)))));
  const double half = 0.5 * z, one = 1.0 - half;
  const double cosine = one + (((1.0 - one) - half) + (z * c - y * below));

  const bool odd = (n & 1) != 0;  // of quarters of a turn
  const double across = odd ? sine : cosine, up = odd ? cosine : sine;
  return {((n + 1) & 2) != 0 ? -across : across, (n & 2) != 0 ? -up : up};
}

}  // namespace capstan::kernels::portable
