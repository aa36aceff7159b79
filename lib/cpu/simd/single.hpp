// More functions of float32 in registers of its own. Included by kernels_*.cpp behind precise.hpp.
//
// Each errs by less than three units in the last place. Coefficients that are no plain fractions are interpolations at
// Chebyshev's points, computed with 50 digits; their errors are given as powers of two.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

constexpr float kQuarter = 1.57079637f, kQuarterRest = -4.37113883e-8f;  // of a turn

CAPSTAN_INLINE Floats polynomial(Floats, double constant) { return Floats(constant); }
template <class... More> CAPSTAN_INLINE Floats polynomial(Floats x, double constant, double next, More... more) {
  return fma(x, polynomial(x, next, more...), Floats(constant));
}

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
CAPSTAN_INLINE Floats log2(Floats x) {
  const Logarithm<float> l(x);
  return l.or_edge(x, fma(l.f - (l.half - l.rest(Floats(0))), Floats(1.44269504f), l.k));
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

/// Sine and cosine of what whole quarters of a turn leave of x, which is right to the last place, and the quarters.
struct Turn {
  Floats sine, cosine, quarters;
  CAPSTAN_INLINE explicit Turn(Floats x) : sine(0), cosine(0), quarters(0) {
    const Halves wide = halves_of(x), k{quarters_in(wide.low), quarters_in(wide.high)};
    const Floats r = joined({less_quarters(wide.low, k.low), less_quarters(wide.high, k.high)}), z = r * r;
    const Floats odd_part = fma(z, fma(z, Floats(2.72499258e-6f), Floats(-0.000198400867f)), Floats(0.00833333187f));
    sine = with_sign_of(r, fma(r * z, fma(z, odd_part, Floats(-0.166666667f)), r));  // 2^-35
    const Floats even_part = fma(z, fma(z, Floats(2.45479421e-5f), Floats(-0.00138883030f)), Floats(0.0416666647f));
    cosine = fma(z * z, even_part, fma(z, Floats(-0.5f), Floats(1)));  // 2^-29
    quarters = joined(k);
  }
};
/// Whole numbers below 2^22, whose lowest bits are those of the result.
CAPSTAN_INLINE typename Floats::Bits bits_of_whole(Floats x) { return (x + Floats(Format<float>::rounder)).bits(); }
CAPSTAN_INLINE Mask<float> is_odd(typename Floats::Bits whole) {
  return Floats::of((whole << 31) | Floats(1).bits()) < Floats(0);
}

/// The sine of x and `ahead` quarters of a turn.
template <int ahead> CAPSTAN_INLINE Floats sine_ahead(Floats x) {
  const Turn turn(x);
  const auto quarters = bits_of_whole(turn.quarters + Floats(ahead)), sign = ~(~typename Floats::Bits{} >> 1);
  const Floats size = select(is_odd(quarters), turn.cosine, turn.sine);
  return Floats::of(size.bits() ^ ((quarters << 30) & sign));
}
CAPSTAN_INLINE Floats tangent(Floats x) {
  const Turn turn(x);
  const Mask<float> odd = is_odd(bits_of_whole(turn.quarters));
  return select(odd, -turn.cosine, turn.sine) / select(odd, turn.sine, turn.cosine);
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
CAPSTAN_INLINE Floats tan(Floats x) {
  return mend_far(tangent(x), x, [](float v) { return kernels::tan(v); });
}

/// a + x + x z times a series, a given in two parts.
template <class... C> CAPSTAN_INLINE Floats around(Floats a, Floats rest, Floats x, Floats z, C... series) {
  return a + (x + fma(x * z, polynomial(z, series...), rest));
}
/// atan(x)/x in x^2 up to tan(pi/8), 2^-28; above by atan(x) = pi/4 + atan((x-1)/(x+1)) = pi/2 - atan(1/x).
CAPSTAN_INLINE Floats atan(Floats x) {
  const Floats size = abs(x), one(1), zero(0);
  const Mask<float> middle = size > Floats(0.414213562f), large = size > Floats(2.41421356f);
  const Floats above = select(large, -one, select(middle, size - one, size));
  const Floats u = above / select(large, size, select(middle, size + one, one));
  const Floats turned = select(large, Floats(kQuarter), select(middle, Floats(0.5f * kQuarter), zero));
  const Floats rest = select(large, Floats(kQuarterRest), select(middle, Floats(0.5f * kQuarterRest), zero));
  return with_sign_of(x, around(turned, rest, u, u * u, -0.333333317612, 0.199995404836, -0.14263955598, 0.107437314908,
                                -0.0645192820812));
}
/// asin(x)/x in x^2 up to 1/2, 2^-30; above by asin(x) = pi/2 - 2 asin(sqrt((1-x)/2)).
struct Arc {
  Mask<float> large;
  Floats x, z;
  CAPSTAN_INLINE explicit Arc(Floats size) : large(size > Floats(0.5f)), x(size), z(0) {
    const Floats rest = (Floats(1) - size) * Floats(0.5f);
    x = select(large, sqrt(rest), size);
    z = select(large, rest, size * size);
  }
  /// a + s asin(x)
  CAPSTAN_INLINE Floats added_to(Floats a, Floats rest, Floats s) const {
    return around(a, rest, s * x, z, 0.166666663374, 0.075000945435, 0.0445994015285, 0.0311006627355, 0.0171492383577,
                  0.0336908472028);
  }
};
CAPSTAN_INLINE Floats asin(Floats x) {
  const Arc arc(abs(x));
  const auto if_large = [&](float yes, float no) { return select(arc.large, Floats(yes), Floats(no)); };
  return with_sign_of(x, arc.added_to(if_large(kQuarter, 0), if_large(kQuarterRest, 0), if_large(-2, 1)));
}
CAPSTAN_INLINE Floats acos(Floats x) {
  const Arc arc(abs(x));
  const Mask<float> right = x > Floats(0);
  const auto if_large = [&](Floats yes, Floats no) { return select(arc.large, yes, no); };
  const Floats two = select(right, Floats(2), Floats(-2)), half = if_large(select(right, Floats(0), Floats(2)), Floats(1));
  return arc.added_to(half * Floats(kQuarter), half * Floats(kQuarterRest),
                      if_large(two, select(right, Floats(-1), Floats(1))));
}

/// Near 0 erf(x)/x in x^2, 2^-32; from 1 on 1 - exp(-x^2) times 1/(2+x) and a polynomial in (x-2)/(x+2), 2^-30.
CAPSTAN_INLINE Floats erf(Floats x) {
  const Floats size = abs(x), z = x * x;
  const Floats near = fma(x, polynomial(z, 0.128379167095513, -0.376126388889, 0.112837902701, -0.0268659453072,
                                        0.00522261112799, -0.000850854528734, 0.000114517368821, -1.02167480555e-5),
                          x);
  const Floats limit(3.95f), inside = select(size > limit, limit, size);  // beyond, it is 1
  const Floats inverse = Floats(1) / (inside + Floats(2));
  const Floats series = polynomial((inside - Floats(2)) * inverse, 1.02158270492, -0.687160801072, 0.279472073618,
                                   -0.0364336440505, -0.021506192541, 0.00632090578748, 0.00298363251691);
  const Floats far = less_product(exp(-(inside * inside)), series * inverse, Floats(1));
  return select(size < Floats(1), near, with_sign_of(x, far));
}

#if defined(__AVX512F__)

/// The normal distribution: its density times sqrt(2 pi), which times `below` is its part below -|x|.
struct Normal {
  Floats density, below;
  CAPSTAN_INLINE explicit Normal(Floats x) : density(0), below(0) {
    const Floats size = limited(abs(x), 0.0f, 14.99f), square = size * size;  // float32 has nothing beyond
    Reduced<Floats> reduced(square * Floats(-0.5f));
    reduced.r = fma(fma(size, size, -square), Floats(-0.5f), reduced.r);  // what the square has lost
    const Exponential<Floats> e = reduced.exponential();
    density = (Floats(1) + e.p) * power_of_two(e.n);
    below = looked_up(kNormal, part_of_octave<3>(size + Floats(1), 0), size);
  }
};
CAPSTAN_INLINE Floats gelu(Floats x) {
  const Normal normal(x);
  const Floats left = (x * normal.below) * normal.density;  // the latter may be subnormal
  return select(x < Floats(0), left, x * less_product(normal.below, normal.density, Floats(1)));
}
CAPSTAN_INLINE Floats gelu_slope(Floats x) {
  const Normal normal(x);
  const Floats below = normal.below * normal.density, part = select(x < Floats(0), below, Floats(1) - below);
  return fma(x * Floats(0.398942280f), normal.density, part);
}

#else

CAPSTAN_INLINE Floats gelu(Floats x) {
  const Halves wide = halves_of(x);
  return joined({gelu(wide.low), gelu(wide.high)});
}
CAPSTAN_INLINE Floats gelu_slope(Floats x) {
  const Halves wide = halves_of(x);
  return joined({gelu_slope(wide.low), gelu_slope(wide.high)});
}

#endif

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
