// exp, sigmoid and tanh in lanes of float32. Included by kernels_*.cpp behind lanes.hpp.
//
// All three begin with e^x = 2^n * (1 + p), n a whole number and |p| < 0.42: p is a short polynomial in what the nearest
// multiple of ln 2 leaves of x, and so right to 2^-25 of itself. Reciprocals are a guess and one step of Newton's.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

#if CAPSTAN_HAS_XSIMD && defined(__AVX2__)

using Floats = Lanes<float>;

/// c - a*b, rounded once.
CAPSTAN_INLINE Floats less_product(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
  return Floats(Batch<float>(_mm512_fnmadd_ps(a.v, b.v, c.v)));
#else
  return Floats(Batch<float>(_mm256_fnmadd_ps(a.v, b.v, c.v)));
#endif
}

/// e^x = 2^n * (1 + p).
struct Exponential {
  Floats n, p;
};

/// For -150 < x < 150, and NaN.
CAPSTAN_INLINE Exponential exponential(Floats x) {
  const Floats rounder(0x1.8p23f);  // above it there are no fractions
  const Floats n = fma(x, Floats(1.44269504f), rounder) - rounder;
  const Floats r = fma(n, Floats(2.12194440e-4f), fma(n, Floats(-0.693359375f), x));  // the first is exact
  const Floats square = r * r;
  // (e^r - 1 - r) / r^2 at Chebyshev's points of |r| < 0.34663
  const Floats low = fma(r, Floats(0.166665769672), Floats(0.5)),
               high = fma(r, Floats(0.0083631828052), Floats(0.0416665545891));
  return {n, fma(square, fma(square, fma(square, Floats(0.00139261882752), high), low), r)};
}

/// x * 2^n, rounded once, for |n| < 252.
CAPSTAN_INLINE Floats scaled(Floats x, Floats n) {
#if defined(__AVX512F__)
  return Floats(Batch<float>(_mm512_scalef_ps(x.v, n.v)));
#else
  const __m256i whole = _mm256_cvtps_epi32(n.v), half = _mm256_srai_epi32(whole, 1), bias = _mm256_set1_epi32(127);
  const auto power = [&](__m256i k) {
    return Batch<float>(_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(k, bias), 23)));
  };
  return Floats(x.v * power(half) * power(_mm256_sub_epi32(whole, half)));
#endif
}

/// x, but no less than `low` and no more than `high`; NaN stays.
CAPSTAN_INLINE Floats limited(Floats x, float low, float high) {
#if defined(__AVX512F__)
  return Floats(Batch<float>(_mm512_max_ps(_mm512_set1_ps(low), _mm512_min_ps(_mm512_set1_ps(high), x.v))));
#else
  return Floats(Batch<float>(_mm256_max_ps(_mm256_set1_ps(low), _mm256_min_ps(_mm256_set1_ps(high), x.v))));
#endif
}

/// 1/x to 2^-14 or better, for 0.5 < x < 2^100.
CAPSTAN_INLINE Floats rough_reciprocal(Floats x) {
#if defined(__AVX512F__)
  return Floats(Batch<float>(_mm512_rcp14_ps(x.v)));
#else
  return Floats(1) / x;
#endif
}

CAPSTAN_INLINE Floats exp(Floats x) {
  const Exponential e = exponential(limited(x, -104, 89));  // beyond, it is 0 or infinite
  return scaled(Floats(1) + e.p, e.n);
}

/// 1 / (1 + e^-x) where 2^n + 1 is exact. Elsewhere, with z = e^-|x|, 1 / (1 + z) or z / (1 + z).
CAPSTAN_INLINE Floats sigmoid(Floats x) {
  if (__builtin_expect(xsimd::all(xsimd::abs(x.v) <= Batch<float>(16.0f)), true)) {
    const Exponential e = exponential(-x);
    const Floats power = scaled(Floats(1), e.n), below = fma(power, e.p, power + Floats(1));
    const Floats guess = rough_reciprocal(below);
    return fma(less_product(guess, below, Floats(1)), guess, guess);
  }
  const Floats z = exp(-abs(x)), above = select(x < Floats(0), z, Floats(1));
  const Floats guess = rough_reciprocal(Floats(1) + z), quotient = above * guess;
  return fma(less_product(quotient, z, above - quotient), guess, quotient);
}

/// 1 - 2 / (e^2|x| + 1); near 0, where that would be the difference of equal numbers, by an odd polynomial.
CAPSTAN_INLINE Floats tanh(Floats x) {
  const Floats size = abs(x);
  const Exponential e = exponential(limited(size + size, 0, 20));  // beyond, it is 1
  const Floats power = scaled(Floats(1), e.n), below = fma(power, e.p, power + Floats(1));
  const Floats guess = rough_reciprocal(below), part = fma(less_product(guess, below, Floats(1)), guess, guess);
  const Floats far = less_product(part, Floats(2), Floats(1));
  // (tanh(x)/x - 1) / x^2 in x^2 at Chebyshev's points up to 0.66^2, 2^-29
  const Floats z = x * x, z2 = z * z;
  const Floats low = fma(z, Floats(0.133332844128), Floats(-0.333333330381));
  const Floats middle = fma(z, Floats(0.0217360880499), Floats(-0.0539549853604));
  const Floats high = fma(z, Floats(0.00218386583197), Floats(-0.00824236284404));
  const Floats near = fma(x * z, fma(z2, fma(z2, high, middle), low), x);
  return Floats(select(size < Floats(0.65), near, far).v | (x.v & Batch<float>(-0.0f)));
}

#endif

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
