#pragma once
// Functions that the C library lacks, or has with too few digits: digamma, polygamma, the inverse of erf, gelu.
//
// The formulas are templates over the type they compute in. The host computes in the next wider type and rounds once
// (lib/cpu/special.cpp, compiled once for all instruction sets), unless it has functions of registers (lib/cpu/simd);
// CUDA has nothing wider than double.
#include "lib/kernels/host_device.hpp"

// A constant in the widest type that a compiler has.
#if defined(__CUDACC__)
#define CAPSTAN_WIDE(number) number
#else
#define CAPSTAN_WIDE(number) number##L
#endif

namespace capstan::kernels {

namespace special {

CAPSTAN_HD double natural_log(double x) { return ::log(x); }
CAPSTAN_HD double tangent(double x) { return ::tan(x); }
CAPSTAN_HD double whole_below(double x) { return ::floor(x); }
CAPSTAN_HD double power_of_e(double x) { return ::exp(x); }
#if !defined(__CUDACC__)
CAPSTAN_HD long double natural_log(long double x) { return ::logl(x); }
CAPSTAN_HD long double tangent(long double x) { return ::tanl(x); }
CAPSTAN_HD long double whole_below(long double x) { return ::floorl(x); }
CAPSTAN_HD long double power_of_e(long double x) { return ::expl(x); }
#endif

/// c[0] + c[1]*x + c[2]*x^2 + ...
template <class W, int N> CAPSTAN_HD W polynomial(const W (&c)[N], W x) {
  W sum = c[N - 1];
  for (int i = N - 2; i >= 0; --i) sum = sum * x + c[i];
  return sum;
}

/// digamma for x > 0 away from its zero: recurrence up to 16, then
///   log(x) - 1/(2x) - sum B[2k] / (2k x^2k)            (Abramowitz and Stegun 6.3.18), the rest below 1e-21
template <class W> CAPSTAN_HD W digamma_positive(W x) {
  const W c[] = {W(CAPSTAN_WIDE(1.0) / 12),   W(CAPSTAN_WIDE(-1.0) / 120),    W(CAPSTAN_WIDE(1.0) / 252),
                 W(CAPSTAN_WIDE(-1.0) / 240), W(CAPSTAN_WIDE(1.0) / 132),     W(CAPSTAN_WIDE(-691.0) / 32760),
                 W(CAPSTAN_WIDE(1.0) / 12),   W(CAPSTAN_WIDE(-3617.0) / 8160)};
  const int steps = x < W(16) ? static_cast<int>(whole_below(W(16) - x)) + 1 : 0;
  const W far = x + W(steps), z = W(1) / (far * far);
  // from the smallest term on, and apart what additions lose: the terms may be several times the result
  W below = W(0.5) / far + z * polynomial(c, z), lost = 0;
  for (int k = steps - 1; k > 0; --k) {
    const W term = W(1) / (x + W(k)), sum = below + term, part = sum - below;
    lost += (below - (sum - part)) + (term - part);
    below = sum;
  }
  const W rest = natural_log(far) - below - lost;
  return steps > 0 ? rest - W(1) / x : rest;
}

/// Around its positive zero, where the terms above cancel: Taylor's series, the zero in two parts.
template <class W> CAPSTAN_HD W digamma_near_zero(W x) {
  const W c[] = {W(CAPSTAN_WIDE(0.9676722454476211704274447617)),   W(CAPSTAN_WIDE(-0.4427631689835921060928652819)),
                 W(CAPSTAN_WIDE(0.2584997609556510106244013857)),   W(CAPSTAN_WIDE(-0.1639427054424065275042512927)),
                 W(CAPSTAN_WIDE(0.1078240506912623657571829489)),   W(CAPSTAN_WIDE(-0.07219956125645471092612178361)),
                 W(CAPSTAN_WIDE(0.04880428816414310722509252551)),  W(CAPSTAN_WIDE(-0.0331611264748473592922583984)),
                 W(CAPSTAN_WIDE(0.02259764823221810465962482512)),  W(CAPSTAN_WIDE(-0.01542476590494895913880031684)),
                 W(CAPSTAN_WIDE(0.01053879161661217538812404988)),  W(CAPSTAN_WIDE(-0.00720453438635686824097047437)),
                 W(CAPSTAN_WIDE(0.004926781395729853446354266403)), W(CAPSTAN_WIDE(-0.003369801655439328082792856724)),
                 W(CAPSTAN_WIDE(0.002305126326734927836938380283)), W(CAPSTAN_WIDE(-0.001576936771430197259270934972))};
  const W d = (x - W(1.4616321449683622)) - W(CAPSTAN_WIDE(9.54999542996569771518419907597e-17));
  return d * polynomial(c, d);
}

/// digamma for x > 0.
template <class W> CAPSTAN_HD W digamma_above_zero(W x) {
  return x > W(1.36) && x < W(1.56) ? digamma_near_zero(x) : digamma_positive(x);
}

/// The derivative of log(gamma(x)): -infinity at 0, infinity at -0, NaN at the poles below.
template <class W> CAPSTAN_HD W digamma(W x) {
  if (x != x || x - x != W(0)) return x > W(0) ? x : x - x;  // NaN, infinities
  if (x == W(0)) return W(-1) / x;
  if (x > W(0)) return digamma_above_zero(x);
  // digamma(1 - x) - pi cot(pi x), with x less the nearest whole number t: exact, and all that cot needs
  const W t = x - whole_below(x + W(0.5));
  if (t == W(0)) return W(0) / t;
  const W pi = W(CAPSTAN_WIDE(3.14159265358979323846264338327950288));
  const W size = t < W(0) ? -t : t;
  const W cot = size > W(0.25) ? tangent(pi * (W(0.5) - size)) : W(1) / tangent(pi * size);
  return digamma_above_zero(W(1) - x) - (t < W(0) ? -pi : pi) * cot;
}

/// x to the power -n, n >= 1.
template <class W> CAPSTAN_HD W inverse_power(W x, int n) {
  W result = 1, factor = W(1) / x;
  for (; n > 0; n >>= 1, factor *= factor)
    if ((n & 1) != 0) result *= factor;
  return result;
}

/// Hurwitz zeta: the sum of 1/(q+k)^s over k >= 0, for q > 0 and s >= 2. Directly up to 2s+16, then by Euler and
/// Maclaurin:  a^(1-s)/(s-1) + a^-s/2 + sum B[2j]/(2j)! s(s+1)...(s+2j-2) a^(-s-2j+1), the rest below 1e-20 of it
template <class W> CAPSTAN_HD W hurwitz_zeta(int s, W q) {
  const W b[] = {W(CAPSTAN_WIDE(1.0) / 12),
                 W(CAPSTAN_WIDE(-1.0) / 720),
                 W(CAPSTAN_WIDE(1.0) / 30240),
                 W(CAPSTAN_WIDE(-1.0) / 1209600),
                 W(CAPSTAN_WIDE(1.0) / 47900160),
                 W(CAPSTAN_WIDE(-5.28419013868749318484768220218e-10)),
                 W(CAPSTAN_WIDE(1.33825365306846788328269809751e-11)),
                 W(CAPSTAN_WIDE(-3.38968029632258286683019539125e-13)),
                 W(CAPSTAN_WIDE(8.58606205627784456413590545043e-15))};
  const W enough = W(2 * s + 16);
  const int steps = q < enough ? static_cast<int>(whole_below(enough - q)) + 1 : 0;
  const W far = q + W(steps), z = W(1) / (far * far);
  W rising = W(s) / far, tail = 0;
  for (int j = 0; j < 9; ++j) {
    tail += b[j] * rising;
    rising *= W(s + 2 * j + 1) * W(s + 2 * j + 2) * z;
  }
  W sum = inverse_power(far, s) * (far / W(s - 1) + W(0.5) + tail);
  for (int k = steps - 1; k >= 0; --k) sum += inverse_power(q + W(k), s);  // from the smallest term on
  return sum;
}

/// The n-th derivative of digamma, n >= 0: (-1)^(n+1) n! times the sum of 1/(x+k)^(n+1) over k >= 0.
template <class W> CAPSTAN_HD W polygamma(int n, W x) {
  if (n == 0) return digamma(x);
  if (x != x || x - x != W(0)) return x > W(0) ? W(0) : x - x;  // infinity; NaN and -infinity
  const int s = n + 1;
  const W sign = s % 2 == 0 ? W(1) : W(-1);
  W sum;
  if (x > W(0)) {
    sum = hurwitz_zeta(s, x);
  } else if (x == W(0)) {
    sum = inverse_power(x, s);
  } else {
    // The sum over all whole k, less those below 0. With t = x less the nearest whole number, which is exact,
    // the first is t^-s + zeta(s, 1+t) + (-1)^s zeta(s, 1-t), and the others are (-1)^s zeta(s, 1-x).
    const W t = x - whole_below(x + W(0.5));
    if (t == W(0)) return s % 2 == 0 ? W(1) / t / t : t / t;  // a pole: infinity on both sides, or no limit
    sum = inverse_power(t, s) + hurwitz_zeta(s, W(1) + t) +
          sign * (hurwitz_zeta(s, W(1) - t) - hurwitz_zeta(s, W(1) - x));
  }
  W factorial = 1;
  for (int k = 2; k <= n; ++k) factorial *= W(k);
  return sign * factorial * sum;
}

/// x / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3): what 0.5 x (1 + tanh(u)) is, without its cancellation.
template <class W> CAPSTAN_HD W gelu_tanh(W x) {
  const W linear = W(CAPSTAN_WIDE(1.59576912160573071175978423974));
  const W cubic = W(CAPSTAN_WIDE(0.0713548162726002487763387522799));
  return x / (W(1) + power_of_e(-x * (linear + cubic * x * x)));
}

}  // namespace special

#if defined(__CUDACC__)
CAPSTAN_HD float digamma(float x) { return static_cast<float>(special::digamma(static_cast<double>(x))); }
CAPSTAN_HD double digamma(double x) { return special::digamma(x); }
CAPSTAN_HD float by_digamma(float grad, float x) {
  return static_cast<float>(static_cast<double>(grad) * special::digamma(static_cast<double>(x)));
}
CAPSTAN_HD float polygamma(float n, float x) {
  return static_cast<float>(special::polygamma(static_cast<int>(n), static_cast<double>(x)));
}
CAPSTAN_HD double polygamma(double n, double x) { return special::polygamma(static_cast<int>(n), x); }
CAPSTAN_HD float erfinv(float x) { return ::erfinvf(x); }
CAPSTAN_HD double erfinv(double x) { return ::erfinv(x); }
/// What -x/sqrt(2) loses to rounding counts x^2 times over in the tail, hence in two parts. By the second one erfc
/// falls as its slope says: in relation to itself that is some -1.13 - 1.75 z.
CAPSTAN_HD float gelu(float x) {
  constexpr float kRoot = 0.70710678f, kRest = 1.2101617e-8f;
  const float z = rounded_product(-x, kRoot), rest = ::fmaf(-x, kRoot, -z) - x * kRest, y = erfc(z);
  return 0.5f * x * (y - (z > 0 && z < 16 ? y * (rest * (1.13f + 1.75f * z)) : 0.0f));
}
CAPSTAN_HD double gelu(double x) {
  constexpr double kRoot = 0.70710678118654752, kRest = -4.833646656726457e-17;
  const double z = rounded_product(-x, kRoot), rest = ::fma(-x, kRoot, -z) - x * kRest, density = exp(-z * z);
  return 0.5 * x * (erfc(z) - (density > 0 ? 1.1283791670955126 * density * rest : 0));
}
CAPSTAN_HD float gelu_tanh(float x) { return static_cast<float>(special::gelu_tanh(static_cast<double>(x))); }
/// Here it is exp that makes the rounding of a large number one of many units.
CAPSTAN_HD double gelu_tanh(double x) {
  if (!(abs(x) < 21)) return special::gelu_tanh(x);  // squares and exp stay finite
  constexpr double kLinear = 1.5957691216057308, kLinearRest = -9.96930880911092e-17;
  constexpr double kCubic = 0.071354816272600248, kCubicRest = -6.175149918155315e-19;
  const double square = rounded_product(x, x), cubic = rounded_product(kCubic, square), sum = kLinear + cubic;
  const double lost = (cubic - (sum - kLinear)) + (kLinear - (sum - (sum - kLinear)));
  const double rest = lost + ::fma(kCubic, square, -cubic) + kCubic * ::fma(x, x, -square) + kCubicRest * square;
  const double exponent = rounded_product(-x, sum), e = exp(exponent);
  return x / (1 + (e + e * (::fma(-x, sum, -exponent) - x * (rest + kLinearRest))));
}
#else
double digamma(double x);
float polygamma(float n, float x);  // n a whole number
double polygamma(double n, double x);
double erfinv(double x);
double gelu(double x);
double gelu_tanh(double x);
#endif

/// grad * digamma(x), which float32 may hold where it does not hold the latter.
template <class T> CAPSTAN_HD T by_digamma(T grad, T x) { return grad * digamma(x); }
/// The derivative of digamma.
template <class T> CAPSTAN_HD T trigamma(T x) { return polygamma(T(1), x); }

/// The slope of gelu: the normal distribution's part below x, and x times its density.
template <class T> CAPSTAN_HD T gelu_slope(T x) {
  return T(0.5) * erfc(x * T(-0.70710678118654752)) + x * (T(0.3989422804014327) * exp(T(-0.5) * x * x));
}

}  // namespace capstan::kernels
