// Logarithms of float32 with AVX2 and AVX-512, and without those to base 2 and 10. Included by kernels_*.cpp behind
// precise.hpp. Tables were computed with 50 digits and rounded.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

#if defined(__AVX2__)

/// What the logarithm to some base is made of, for x = 2^k m, 3/4 <= m < 3/2. Each eighth of an octave of m has a number
/// near 1/m, of so few bits that r = m times it, less 1, is exact; -1/16 <= r <= 1/8. Numbers are in two parts, of which
/// sums of `two` and `eighth`, times k the former, are exact.
struct LogarithmTable {
  float two, two_low, one, one_low;  // logarithms of 2 and e
  float series[6];                   // (log(1 + r) / log(e) - r) log(e) / r^2 in r, at Chebyshev's points, 2^-26
  float eighth[8], eighth_low[8];    // the logarithm of what that number is the inverse of
};
constexpr float kEighth[8] = {1.0f, 0.84375f, 0.75f, 0.6875f, 1.25f, 1.1875f, 1.125f, 1.0f};

constexpr LogarithmTable kNatural = {
    0.69314575f,
    1.4286068e-06f,
    1.0f,
    0.0f,
    {-0.5f, 0.3333332f, -0.25000197f, 0.20011291f, -0.16660993f, 0.12272038f},
    {0.0f, 0.16990662f, 0.2876892f, 0.37469482f, -0.22314453f, -0.17184448f, -0.11778259f, 0.0f},
    {0.0f, -7.5794155e-06f, -7.1365325e-06f, -1.3747773e-06f, 9.799357e-07f, -5.7745046e-06f, -4.4288294e-07f, 0.0f}};
constexpr LogarithmTable kBinary = {
    1.0f,
    0.0f,
    1.442695f,
    1.925963e-08f,
    {-0.7213475f, 0.48089814f, -0.3606766f, 0.2887019f, -0.24036731f, 0.17704809f},
    {0.0f, 0.24511719f, 0.41503906f, 0.5405731f, -0.32192993f, -0.2479248f, -0.16992188f, 0.0f},
    {0.0f, -4.6896635e-06f, -1.5632212e-06f, -4.7387543e-06f, 1.8367533e-06f, -2.708756e-06f, -3.1264424e-06f, 0.0f}};
constexpr LogarithmTable kDecimal = {
    0.3010254f,
    4.605039e-06f,
    0.4342945f,
    -1.010305e-08f,
    {-0.21714725f, 0.14476477f, -0.10857447f, 0.08690793f, -0.072357774f, 0.053296786f},
    {0.0f, 0.073783875f, 0.124938965f, 0.16272736f, -0.09690857f, -0.07463074f, -0.05115509f, 0.0f},
    {0.0f, 2.3396492e-06f, -2.2823545e-07f, -5.845933e-08f, -1.4436721e-06f, -2.8809923e-06f, 2.5678846e-06f, 0.0f}};

#if defined(__AVX512F__)

/// Zero has -infinity for k, infinity itself; below zero all is NaN.
CAPSTAN_INLINE Split<float> split_at_middle(Floats x) {
  const Floats m(_mm512_getmant_ps(x.v, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan));
  return {Floats(_mm512_getexp_ps(x.v)) - Floats(_mm512_getexp_ps(m.v)), m};
}
CAPSTAN_INLINE Floats or_edge(Floats, Floats result) { return result; }
/// Of the eighth of an octave that m is in.
CAPSTAN_INLINE Floats of_eighth(const float (&table)[8], Floats m) {
  const __m512i which = _mm512_srli_epi32(_mm512_castps_si512(m.v), Format<float>::mantissa - 3);
  return Floats(_mm512_permutexvar_ps(which, _mm512_broadcast_f32x8(_mm256_loadu_ps(table))));
}

#else

CAPSTAN_INLINE Split<float> split_at_middle(Floats x) { return Split<float>(x, 0.75); }
CAPSTAN_INLINE Floats or_edge(Floats x, Floats result) { return logarithm_or_edge(x, result); }
CAPSTAN_INLINE Floats of_eighth(const float (&table)[8], Floats m) {
  const __m256i which = _mm256_srli_epi32(_mm256_castps_si256(m.v), Format<float>::mantissa - 3);
  return Floats(_mm256_permutevar8x32_ps(_mm256_loadu_ps(table), which));
}

#endif

template <const LogarithmTable& table> CAPSTAN_INLINE Floats logarithm(Floats x) {
  const Split<float> of = split_at_middle(x);
  const Floats r = fma(of.m, of_eighth(kEighth, of.m), Floats(-1)), square = r * r;
  Floats series(table.series[5]), low = of_eighth(table.eighth_low, of.m);
  for (int i = 4; i >= 0; --i) series = fma(series, r, Floats(table.series[i]));
  if constexpr (table.two_low != 0) low = fma(of.k, Floats(table.two_low), low);
  if constexpr (table.one_low != 0) low = fma(r, Floats(table.one_low), low);
  const Floats rest = fma(square, series, low), high = fma(of.k, Floats(table.two), of_eighth(table.eighth, of.m));
  if constexpr (table.one == 1) return or_edge(x, high + (r + rest));
  else return or_edge(x, high + fma(r, Floats(table.one), rest));
}
CAPSTAN_INLINE Floats log(Floats x) { return logarithm<kNatural>(x); }
CAPSTAN_INLINE Floats log2(Floats x) { return logarithm<kBinary>(x); }
CAPSTAN_INLINE Floats log10(Floats x) { return logarithm<kDecimal>(x); }

#else

CAPSTAN_INLINE Floats log2(Floats x) {
  const Logarithm<float> l(x);
  return logarithm_or_edge(x, fma(l.f - (l.half - l.rest(Floats(0))), Floats(1.44269504f), l.k));
}
CAPSTAN_INLINE Floats log10(Floats x) {
  const Precise one(0.43429448190325183);  // the logarithm of e
  const Halves wide = halves_of(x);
  return joined({log(wide.low) * one, log(wide.high) * one});
}

#endif

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
