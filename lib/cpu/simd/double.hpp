// More functions of float64 in registers, for processors that round a*b + c once. Included by kernels_*.cpp behind
// trigonometry.hpp.
//
// They are long, and called: a call costs little beside them. Coefficients that are no plain fractions are
// interpolations at Chebyshev's points, computed with 60 digits; their errors are given as powers of two.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

#if defined(__AVX2__)

constexpr bool kHasDoubles = true;
using Doubles = Lanes<double>;

// --- exponentials and logarithms ---

/// e^x - 1 = 2^n * p + (2^n - 1), in halves, for 2^1024 is too large.
[[gnu::noinline]] Doubles expm1(Doubles x) {
  const Exponential64 e(limited(x, -40.0, 710.0));  // beyond, it is -1 or infinite
  const Doubles half = shifted_to_exponent(e.n - Doubles(1));
  const Doubles result = fma(half, e.lost, fma(half, e.p, half - Doubles(0.5)));
  return select(abs(x) < Doubles(0x1p-54), x, result + result);  // subnormal numbers and -0 among them
}
/// The whole part of x becomes an exponent, and what ln 2 times the rest is rounded by is kept.
[[gnu::noinline]] Doubles exp2(Doubles x) {
  constexpr double kLow = -1076;  // below, it is 0
  const Doubles rounder(Format<double>::rounder), inside = limited(x, kLow, 1025.0), n = (inside + rounder) - rounder;
  const Doubles ln2(0x1.62e42fefa39efp-1), part = inside - n, r = part * ln2;
  const Exponential64 e(n, r, fma(part, Doubles(0x1.abc9e3b39803fp-56), fma(part, ln2, -r)));
  return scaled_or_zero(Doubles(1) + e.p, n, x, kLow);
}
/// log(u) with u = 1 + x, and what u has lost of x.
[[gnu::noinline]] Doubles log1p(Doubles x) {
  const Doubles u = Doubles(1) + x, lost = select(x > Doubles(1), Doubles(1) - (u - x), x - (u - Doubles(1)));
  const Logarithm<double> l(u);
  const Doubles rest = l.rest(fma(l.k, Doubles(Format<double>::low_ln2), lost / u));
  const Doubles result = fma(l.k, Doubles(Format<double>::high_ln2), l.f - (l.half - rest));
  return with_sign_of(x, logarithm_or_edge(u, result));  // -0, too
}
/// The logarithm of x to a base, of which those of 2 and e are given in two parts: whole numbers times the former is
/// exact.
CAPSTAN_INLINE Doubles logarithm(Doubles x, double two, double two_low, double one, double one_low) {
  const Logarithm<double> l(x);
  const Doubles high = l.f - l.half, low = ((l.f - high) - l.half) + l.rest(Doubles(0));
  const Doubles part = high * Doubles(one), whole = l.k * Doubles(two), sum = whole + part;
  const Doubles lost = fma(high, Doubles(one_low), fma(low, Doubles(one), fma(high, Doubles(one), -part)));
  const Doubles rest = fma(l.k, Doubles(two_low), ((whole - sum) + part) + lost);
  return logarithm_or_edge(x, sum + rest);
}
[[gnu::noinline]] Doubles log2(Doubles x) { return logarithm(x, 1, 0, 0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56); }
[[gnu::noinline]] Doubles log10(Doubles x) {
  return logarithm(x, 0x1.34413509f4000p-2, 0x1.cff7988f8959bp-41, 0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57);
}

// --- trigonometry ---

constexpr double kHalfPi = 0x1.921fb54442d18p+0, kHalfPiRest = 0x1.1a62633145c07p-54;

/// What sine, cosine and their quotient are rounded by is kept.
[[gnu::noinline]] Doubles tan(Doubles x) {
  const Turn<double> turn = turn_of(x);
  const Mask<double> odd = is_odd<double>(bits_of_whole(turn.quarters));
  const Doubles above = select(odd, -turn.cosine, turn.sine), below = select(odd, turn.sine, turn.cosine);
  const Doubles above_lost = select(odd, -turn.cosine_lost, turn.sine_lost);
  const Doubles below_lost = select(odd, turn.sine_lost, turn.cosine_lost), inverse = Doubles(1) / below;
  const Doubles quotient = above * inverse;
  const Doubles more = (fma(-quotient, below_lost, fma(-quotient, below, above)) + above_lost) * inverse;
  const Doubles result = select(abs(quotient) < Doubles(0x1p-900), quotient, quotient + more);  // -0, and what is tiny
  return mend_far(result, x, [](double v) { return kernels::tan(v); });
}
/// asin(x) = x + x z series(z), z = x^2 up to 1/4, 2^-57.
CAPSTAN_INLINE Doubles asin_series(Doubles z) {
  return polynomial(z, 0.16666666666666669, 0.07499999999998433, 0.04464285714635543, 0.030381944138531247,
                    0.02237217294214989, 0.017352392720869973, 0.013971212973552933, 0.011479177415184906,
                    0.01032281435018578, 0.005457506718640358, 0.01740087944269402, -0.014851887071247204,
                    0.028757851367421566);
}
/// asin of |x| up to 1/2, and above pi/2 - 2 asin of `root`, the root of (1 - |x|)/2: `base` or `root`, and `more`.
struct Arc64 {
  Mask<double> near;
  Doubles base, more;
  CAPSTAN_INLINE explicit Arc64(Doubles x) : near(abs(x) <= Doubles(0.5)), base(0), more(0) {
    const Doubles size = abs(x), rest = (Doubles(1) - size) * Doubles(0.5), z = select(near, x * x, rest);
    base = select(near, size, sqrt(rest));
    const Doubles lost = fma(-base, base, rest) / (base + base);  // of the root
    more = fma(base * z, asin_series(z), select(near | (base == Doubles(0)), Doubles(0), lost));
  }
};
[[gnu::noinline]] Doubles asin(Doubles x) {
  const Arc64 arc(x);
  const Doubles twice = arc.base + arc.base, first = Doubles(kHalfPi) - twice;
  const Doubles rest = ((Doubles(kHalfPi) - first) - twice) + (Doubles(kHalfPiRest) - (arc.more + arc.more));
  return with_sign_of(x, select(arc.near, arc.base + arc.more, first + rest));
}
/// pi/2 - asin(x), 2 asin(root), or pi - 2 asin(root).
[[gnu::noinline]] Doubles acos(Doubles x) {
  const Arc64 arc(x);
  const Doubles zero(0);
  const Mask<double> turned = select(arc.near, x, -x) < zero;
  const Doubles base = select(arc.near, arc.base, arc.base + arc.base), taken = select(turned, -base, base);
  const Doubles more = select(arc.near, arc.more, arc.more + arc.more), taken_more = select(turned, -more, more);
  const Doubles quarters = select(arc.near, Doubles(1), select(x < zero, Doubles(2), zero));
  const Doubles from = quarters * Doubles(kHalfPi), first = from - taken;
  return first + (((from - first) - taken) + (quarters * Doubles(kHalfPiRest) - taken_more));
}
/// atan(u) = u + u z series(z), z = u^2 up to tan(pi/8)^2, 2^-56; above by pi/4 + atan((x-1)/(x+1)) and
/// pi/2 - atan(1/x). What they are rounded by is kept.
[[gnu::noinline]] Doubles atan(Doubles x) {
  const Doubles all = abs(x), one(1), zero(0), limit(0x1p60), size = select(all > limit, limit, all);
  const Mask<double> middle = size > Doubles(0.41421356237309503), large = size > Doubles(2.414213562373095);
  const Doubles above = select(large, -one, select(middle, size - one, size));
  const Doubles below = select(large, size, select(middle, size + one, one)), inverse = one / below;
  const Mask<double> both = middle & ~large;
  const Doubles above_lost = select(both, size - (above + one), zero);
  const Doubles below_lost = select(both, size - (below - one), zero);
  const Doubles u = above * inverse, z = u * u;
  const Doubles lost = (fma(-u, below_lost, fma(-u, below, above)) + above_lost) * inverse;
  const Doubles series =
      polynomial(z, -0.3333333333333333, 0.19999999999995513, -0.1428571428466518, 0.11111111015146714,
                 -0.0909090457366906, 0.07692183087342026, -0.06664509989818045, 0.058581362519061465,
                 -0.05085383488842831, 0.03922974453661223, -0.019174543572021332);
  const Doubles eighths = select(large, Doubles(2), select(middle, one, zero));  // of a turn
  const Doubles from = eighths * Doubles(0.5 * kHalfPi), first = from + u, rest = (from - first) + u;
  const Doubles more = fma(eighths, Doubles(0.5 * kHalfPiRest), fma(u * z, series, lost));
  return with_sign_of(x, first + (rest + more));
}

// --- hyperbolic functions ---

/// e^x / 2 for x >= 0.
CAPSTAN_INLINE Doubles half_exp(const Exponential64& e) {
  return scaled_or_zero(Doubles(1) + e.p, e.n - Doubles(1), e.n, -1.0);
}
/// Up to 1 by its series, 2^-55.
[[gnu::noinline]] Doubles sinh(Doubles x) {
  const Doubles size = abs(x), z = x * x;
  const Doubles near = fma(size * z,
                           polynomial(z, 1.0 / 6, 1.0 / 120, 1.0 / 5040, 1.0 / 362880, 1.0 / 39916800, 1.0 / 6227020800,
                                      1.0 / 1307674368000, 1.0 / 355687428096000),
                           size);
  const Doubles grown = half_exp(Exponential64(limited(size, 0.0, 712.0)));  // beyond, it is infinite
  return with_sign_of(x, select(size < Doubles(1), near, grown - Doubles(0.25) / grown));
}
[[gnu::noinline]] Doubles cosh(Doubles x) {
  const Doubles grown = half_exp(Exponential64(limited(abs(x), 0.0, 712.0)));
  return grown + Doubles(0.25) / grown;
}
/// log(1 + more); log(2x) of x beyond 2^28.
CAPSTAN_INLINE Doubles log1p_or_twice(Doubles x, Doubles more) {
  const Mask<double> far = x > Doubles(0x1p28);
  return log1p(select(far, x - Doubles(1), more)) + select(far, Doubles(0.69314718055994531), Doubles(0));
}
[[gnu::noinline]] Doubles asinh(Doubles x) {
  const Doubles size = abs(x), square = size * size, one(1);
  return with_sign_of(x, log1p_or_twice(size, size + square / (one + sqrt(one + square))));
}
[[gnu::noinline]] Doubles acosh(Doubles x) {
  const Doubles above = x - Doubles(1), square = select(above < Doubles(0), above, fma(above, above, above + above));
  return log1p_or_twice(x, above + sqrt(square));  // NaN below 1
}
[[gnu::noinline]] Doubles atanh(Doubles x) {
  const Doubles size = abs(x);
  return with_sign_of(x, Doubles(0.5) * log1p((size + size) / (Doubles(1) - size)));
}

// --- the error function ---

/// erf(x) = x + x times a series in x^2 up to 1, 2^-56; above 1 - erfc(x), with exp(x^2) (x+2) erfc(x) in (x-2)/(x+2).
[[gnu::noinline]] Doubles erf(Doubles x) {
  const Doubles size = abs(x), z = x * x, two(2), limit(6);  // beyond, it is 1
  const Doubles near =
      fma(size,
          polynomial(z, 0.1283791670955126, -0.37612638903183754, 0.1128379167095512, -0.02686617064512984,
                     0.0052239776254232985, -0.000854832702193483, 0.00012055332902888736, -1.4925647567519332e-05,
                     1.6462045441468418e-06, -1.6364642158167616e-07, 1.4792401209404813e-08, -1.216456005728345e-09,
                     8.709045129053106e-11, -4.230945824295338e-12),
          size);
  const Doubles inside = select(size > limit, limit, size), inverse = Doubles(1) / (inside + two);
  const Doubles series = polynomial(
      (inside - two) * inverse, 1.021582705242023, -0.6871606844138106, 0.27947209255604094, -0.03644223150686364,
      -0.02151066188773439, 0.006479185064304484, 0.003090611975945019, -0.0008372958440063437, -0.0006630716756367664,
      3.4365322122850224e-05, 0.00014445202089678473, 3.423360798367434e-05, -2.1636133850813653e-05,
      -1.6690978636810987e-05, -8.179282853698761e-07, 5.127540347756448e-06);
  const Doubles far = fma(-exp(-(inside * inside)), series * inverse, Doubles(1));
  return with_sign_of(x, select(size < Doubles(1), near, far));
}

#else

constexpr bool kHasDoubles = false;

#endif

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
