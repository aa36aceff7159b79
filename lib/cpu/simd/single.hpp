// More functions of float32 in registers of its own. Included by kernels_*.cpp behind precise.hpp.
//
// Each errs by at most two units in the last place. Coefficients that are no plain fractions are interpolations at
// Chebyshev's points, computed with 50 digits; their errors are given as powers of two.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

/// e^x - 1 = 2^n * p + (2^n - 1), in halves, for 2^128 is too large.
CAPSTAN_INLINE Floats expm1(Floats x) {
  const Exponential<Floats> e = exponential(limited(x, -30.0f, 89.0f));  // beyond, it is -1 or infinite
  const Floats half = shifted_to_exponent(e.n - Floats(1)), result = fma(half, e.p, half - Floats(0.5f));
  return with_sign_of(x, result + result);  // -0, too
}
/// The whole part of x becomes an exponent, and nothing is lost of it.
CAPSTAN_INLINE Floats exp2(Floats x) {
  constexpr float kLow = -151;  // below, it is 0
  const Floats rounder(Format<float>::rounder), inside = limited(x, kLow, 129.0f), n = (inside + rounder) - rounder;
  return scaled_or_zero(Floats(1) + exponential((inside - n) * Floats(0.693147181f)).p, n, x, kLow);
}
/// log(u) with u = 1 + x, and what u has lost of x.
CAPSTAN_INLINE Floats log1p(Floats x) {
  const Floats u = Floats(1) + x, lost = x - (u - Floats(1)), l = log(u);
  return with_sign_of(x, select((u > Floats(0)) & (u < Floats(HUGE_VALF)), l + lost / u, l));  // -0, too
}

/// A register in float64, and back.
struct Halves {
  Precise low, high;
};
CAPSTAN_INLINE Halves halves_of(Floats x) {
#if defined(__AVX512F__)
  return {Precise(Lanes<double>(_mm512_cvtps_pd(_mm512_castps512_ps256(x.v)))),
          Precise(Lanes<double>(_mm512_cvtps_pd(_mm512_extractf32x8_ps(x.v, 1))))};
#elif defined(__AVX2__)
  return {Precise(Lanes<double>(_mm256_cvtps_pd(_mm256_castps256_ps128(x.v)))),
          Precise(Lanes<double>(_mm256_cvtps_pd(_mm256_extractf128_ps(x.v, 1))))};
#else
  float values[Floats::size];
  x.store(values);
  return {load_precise(values), load_precise(values + kPreciseSize)};
#endif
}
CAPSTAN_INLINE Floats joined(Halves x) {
#if defined(__AVX512F__)
  return Floats(_mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(x.low.v.v)), _mm512_cvtpd_ps(x.high.v.v), 1));
#elif defined(__AVX2__)
  return Floats(_mm256_set_m128(_mm256_cvtpd_ps(x.high.v.v), _mm256_cvtpd_ps(x.low.v.v)));
#else
  float values[Floats::size];
  store_precise(x.low, values);
  store_precise(x.high, values + kPreciseSize);
  return Floats::load(values);
#endif
}

/// The nearest multiple of pi/2, in float64, and what it leaves of x.
CAPSTAN_INLINE Precise quarters_in(Precise x) { return nearest(x * Precise(0.63661977236758134)); }
CAPSTAN_INLINE Precise less_quarters(Precise x, Precise k) {
  return (x - k * Precise(1.57079632673412561417)) - k * Precise(6.07710050650619224932e-11);
}

/// The sine of x and `ahead` quarters of a turn.
template <int ahead> CAPSTAN_INLINE Floats sine_ahead(Floats x) {
  constexpr int kSign = 31;
  const Halves wide = halves_of(x), k{quarters_in(wide.low), quarters_in(wide.high)};
  const Floats r = joined({less_quarters(wide.low, k.low), less_quarters(wide.high, k.high)}), z = r * r;
  const Floats odd_part = fma(z, fma(z, Floats(2.72499258e-6f), Floats(-0.000198400867f)), Floats(0.00833333187f));
  const Floats sine = with_sign_of(r, fma(r * z, fma(z, odd_part, Floats(-0.166666667f)), r));  // 2^-35
  const Floats even_part = fma(z, fma(z, Floats(2.45479421e-5f), Floats(-0.00138883030f)), Floats(0.0416666647f));
  const Floats cosine = fma(z * z, even_part, fma(z, Floats(-0.5f), Floats(1)));  // 2^-29
  const auto quarters = (joined(k) + Floats(Format<float>::rounder + ahead)).bits();
  const auto sign = ~(~typename Floats::Bits{} >> 1);
  const Floats odd = Floats::of((quarters << kSign) | Floats(1).bits());
  return Floats::of(select(odd < Floats(0), cosine, sine).bits() ^ ((quarters << (kSign - 1)) & sign));
}
/// What is beyond that asks the C library.
constexpr float kFarTurns = 1e6f;
template <class F> [[gnu::noinline, gnu::cold]] Floats turned_far(Floats fast, Floats x, F library) {
  return mend(mend(fast, x, kFarTurns, HUGE_VALF, library), x, -HUGE_VALF, -kFarTurns, library);
}
template <class F> CAPSTAN_INLINE Floats mend_far(Floats fast, Floats x, F library) {
  return __builtin_expect(within(x, kFarTurns), true) ? fast : turned_far(fast, x, library);
}
CAPSTAN_INLINE Floats sin(Floats x) {
  return mend_far(sine_ahead<0>(x), x, [](float v) { return kernels::sin(v); });
}
CAPSTAN_INLINE Floats cos(Floats x) {
  return mend_far(sine_ahead<1>(x), x, [](float v) { return kernels::cos(v); });
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
