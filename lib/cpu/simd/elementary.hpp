// exp and tanh of float64, and log of both types. Included by kernels_*.cpp behind lanes.hpp.
//
// Coefficients that are no plain fractions are interpolations at Chebyshev's points, computed with 50 digits; their
// errors are given as powers of two.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

/// How numbers are made of bits, and ln 2 in two parts: whole numbers up to 2^11 times the first are exact.
template <class T> struct Format;
template <> struct Format<float> {
  static constexpr int mantissa = 23, bias = 127;
  static constexpr float one_at_end = 0x1p23f, rounder = 0x1.8p23f;  // above the latter there are no fractions
  static constexpr float smallest = 0x1p-126f, high_ln2 = 0.693359375f, low_ln2 = -2.12194440e-4f;
};
template <> struct Format<double> {
  static constexpr int mantissa = 52, bias = 1023;
  static constexpr double one_at_end = 0x1p52, rounder = 0x1.8p52;
  static constexpr double smallest = 0x1p-1022, high_ln2 = 0x1.62e42feep-1, low_ln2 = 0x1.a39ef35793c76p-33;
};

/// c0 + c1 x + ...; `cubic` is given x^2, too.
template <class T> CAPSTAN_INLINE Lanes<T> linear(Lanes<T> x, double c0, double c1) {
  return fma(x, Lanes<T>(c1), Lanes<T>(c0));
}
template <class T> CAPSTAN_INLINE Lanes<T> cubic(Lanes<T> x, Lanes<T> x2, double c0, double c1, double c2, double c3) {
  return fma(x2, linear(x, c2, c3), linear(x, c0, c1));
}

/// The same, one after the other, of any length.
template <class T> CAPSTAN_INLINE Lanes<T> polynomial(Lanes<T>, double constant) { return Lanes<T>(constant); }
template <class T, class... More>
CAPSTAN_INLINE Lanes<T> polynomial(Lanes<T> x, double constant, double next, More... more) {
  return fma(x, polynomial(x, next, more...), Lanes<T>(constant));
}

/// 2^n for whole numbers whose power is normal, beyond them anything.
template <class T> CAPSTAN_INLINE Lanes<T> shifted_to_exponent(Lanes<T> n) {
  using F = Format<T>;
  return Lanes<T>::of((n + Lanes<T>(F::rounder + F::bias)).bits() << F::mantissa);
}
/// x * 2^n for whole numbers up to twice as far, rounded once if x is near 1.
template <class T> CAPSTAN_INLINE Lanes<T> scaled_twice(Lanes<T> x, Lanes<T> n) {
  const Lanes<T> rounder(Format<T>::rounder), half = fma(n, Lanes<T>(0.5), rounder) - rounder;
  return x * shifted_to_exponent(half) * shifted_to_exponent(n - half);
}
/// The same, and 0 where `of` is below `low`. A product with no digits left would be 0, too, but takes Intel's processors
/// many times as long.
template <class T> CAPSTAN_INLINE Lanes<T> scaled_or_zero(Lanes<T> x, Lanes<T> n, Lanes<T> of, T low) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    return Lanes<T>(_mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(of.v, _mm512_set1_ps(low), _CMP_NLT_UQ), x.v, n.v));
  else return Lanes<T>(_mm512_maskz_scalef_pd(_mm512_cmp_pd_mask(of.v, _mm512_set1_pd(low), _CMP_NLT_UQ), x.v, n.v));
#else
  const Mask<T> zero = of < Lanes<T>(low);
  return select(zero, Lanes<T>(0), scaled_twice(x, select(zero, Lanes<T>(0), n)));
#endif
}

/// e^x = 2^n * (1 + p), n whole and |p| < 0.42, for |x| < 2^40; `lost` is what p was rounded by.
struct Exponential64 {
  Lanes<double> n, p, lost;
  CAPSTAN_INLINE explicit Exponential64(Lanes<double> x) : n(0), p(0), lost(0) {
    using L = Lanes<double>;
    using F = Format<double>;
    n = fma(x, L(1.4426950408889634), L(F::rounder)) - L(F::rounder);
    *this = Exponential64(n, fma(n, L(-F::high_ln2), x), n * L(-F::low_ln2));
  }
  /// Of n ln 2 + first + rest.
  CAPSTAN_INLINE Exponential64(Lanes<double> whole, Lanes<double> first, Lanes<double> rest) : n(whole), p(0), lost(0) {
    using L = Lanes<double>;
    const L r = first + rest, r2 = r * r, r4 = r2 * r2;
    // (e^r - 1 - r) / r^2 by its series, 2^-57 of the whole
    const L low = cubic(r, r2, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120);
    const L middle = cubic(r, r2, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880);
    const L high = cubic(r, r2, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800);
    const L more = fma(r2, fma(r4, fma(r4, high, middle), low), rest);
    p = first + more;
    lost = (first - p) + more;
  }
};

/// Results that may be infinite, subnormal, zero or NaN, too.
CAPSTAN_INLINE Lanes<double> exp_anywhere(Lanes<double> x) {
  constexpr double kLow = -746, kHigh = 710;  // beyond, it is 0 or infinite
  const Exponential64 e(limited(x, kLow, kHigh));
  return scaled_or_zero(Lanes<double>(1) + e.p, e.n, x, kLow);
}

#if defined(__AVX512F__)
[[gnu::noinline]] Lanes<double> exp(Lanes<double> x) { return exp_anywhere(x); }
#else
[[gnu::noinline, gnu::cold]] Lanes<double> exp_of_any(Lanes<double> x) { return exp_anywhere(x); }

/// 2^n is made once where no limit is near.
[[gnu::noinline]] Lanes<double> exp(Lanes<double> x) {
  if (__builtin_expect(!all(abs(x) <= Lanes<double>(708)), false)) return exp_of_any(x);
  const Exponential64 e(x);
  return (Lanes<double>(1) + e.p) * shifted_to_exponent(e.n);
}
#endif

/// 1 - 2 / (e^2|x| + 1); near 0, where that would be the difference of equal numbers, x - x t / (1 + t) with
/// t = x^2/(3 + x^2/(5 + ... x^2/15)) (Lambert), 2^-56 at 0.65. Both are a - a * b / c.
CAPSTAN_INLINE Lanes<double> tanh(Lanes<double> x) {
  using L = Lanes<double>;
  const L size = abs(x), z = x * x, z2 = z * z;
  const Exponential64 e(limited(size + size, 0.0, 40.0));  // beyond, it is 1
  const L power = shifted_to_exponent(e.n), far = fma(power, e.p, power + L(1));
  const L above = z * cubic(z, z2, 675675, 45045, 594, 1), below = cubic(z, z2, 2027025, 270270, 6930, 36) + above;
  const Mask<double> near = size < L(0.65);
  const L quotient = select(near, above, L(2)) / select(near, below, far), a = select(near, size, L(1));
  return with_sign_of(x, a - a * quotient);
}

/// The sum over s = f / (2 + f) of log(1 + f), without its first term and divided by s^3; z = s^2 < 0.0295.
CAPSTAN_INLINE Lanes<float> log_series(Lanes<float> z) {  // 2^-35
  return cubic(z, z * z, 0.66666666554497092, 0.40000121839806127, 0.28550820815960663, 0.23330467216303836);
}
CAPSTAN_INLINE Lanes<double> log_series(Lanes<double> z) {  // 2^-57
  const Lanes<double> z2 = z * z;
  const Lanes<double> high =
      fma(z2, Lanes<double>(0.1461644968504340586), linear(z, 0.1818288912526172208, 0.15331721600556041269));
  return fma(
      z2 * z2, high,
      cubic(z, z2, 0.66666666666666696862, 0.3999999999989950449, 0.28571428625975484921, 0.22222211134795079855));
}

/// x = 2^k m, `least` <= m < 2 * least.
template <class T> struct Split {
  using L = Lanes<T>;
  L k, m;
  CAPSTAN_INLINE Split(L exponent, L mantissa) : k(exponent), m(mantissa) {}
  CAPSTAN_INLINE Split(L x, double least) : k(0), m(0) {
    using F = Format<T>;
    const auto subnormal = x < L(F::smallest);  // or nothing that has a logarithm
    const auto lowest = L(least).bits();
    const auto from_lowest = select(subnormal, x * L(F::one_at_end), x).bits() - lowest;
    const L exponent = L::of(((from_lowest + L(1).bits()) >> F::mantissa) | L(F::one_at_end).bits());
    k = exponent - select(subnormal, L(F::one_at_end + F::bias + F::mantissa), L(F::one_at_end + F::bias));
    m = L::of((from_lowest & ~(~typename L::Bits{} << F::mantissa)) + lowest);
  }
};
/// x = 2^k (1 + f), whose logarithm is f - (half - rest): half = f^2/2, and rest = s (f^2/2 + s^2 times the series), and
/// `more`.
template <class T> struct Logarithm {
  using L = Lanes<T>;
  L k, f, half, s;
  CAPSTAN_INLINE explicit Logarithm(L x) : k(0), f(0), half(0), s(0) {
    const Split<T> of(x, 0.70710678118654752);
    k = of.k;
    f = of.m - L(1);
    s = f / (f + L(2));
    half = f * f * L(0.5);
  }
  CAPSTAN_INLINE L rest(L more) const { return fma(s, fma(s * s, log_series(s * s), half), more); }
};
/// What there is outside of positive numbers.
template <class T> CAPSTAN_INLINE Lanes<T> logarithm_or_edge(Lanes<T> x, Lanes<T> result) {
  using L = Lanes<T>;
  const L edge = select(x == L(0), L(-HUGE_VAL), select(x < L(0), L(NAN), x));
  return select((x > L(0)) & (x < L(HUGE_VAL)), result, edge);
}
/// k ln 2 is given in two parts.
template <class T> CAPSTAN_INLINE Lanes<T> log(Lanes<T> x) {
  using L = Lanes<T>;
  const Logarithm<T> l(x);
  return logarithm_or_edge(x, fma(l.k, L(Format<T>::high_ln2), l.f - (l.half - l.rest(l.k * L(Format<T>::low_ln2)))));
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
