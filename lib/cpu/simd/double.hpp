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

// --- tools ---

/// A sum that is not added up.
struct Parts {
  Doubles high, low;
};
/// c + x y, c the larger and in two parts; what is rounded is kept.
CAPSTAN_INLINE Parts raised(double c, double c_low, Doubles x, Doubles y) {
  const Doubles high = fma(x, y, Doubles(c));
  return {high, fma(x, y, Doubles(c) - high) + Doubles(c_low)};
}
/// x y, of which y and what is known of its rest are given.
CAPSTAN_INLINE Parts times(Doubles x, Parts y) {
  const Doubles high = x * y.high;
  return {high, fma(x, y.low, fma(x, y.high, -high))};
}

/// The quotient of two of them; the inverse of below.high is given, and need not be right to the last bit.
CAPSTAN_INLINE Parts divided(Parts above, Parts below, Doubles inverse) {
  const Doubles high = above.high * inverse;
  return {high, (fma(-high, below.low, fma(-high, below.high, above.high)) + above.low) * inverse};
}

/// c0 + c2 z + c4 z^2 + ...
CAPSTAN_INLINE Doubles every_second(Doubles, double c) { return Doubles(c); }
CAPSTAN_INLINE Doubles every_second(Doubles, double c, double) { return Doubles(c); }
template <class... More> CAPSTAN_INLINE Doubles every_second(Doubles z, double c, double, More... more) {
  return fma(z, every_second(z, more...), Doubles(c));
}
/// c0 + c1 x + ..., its even and its odd powers side by side, in chains of half the length.
template <class... More> CAPSTAN_INLINE Doubles by_halves(Doubles x, double c, More... more) {
  const Doubles z = x * x;
  return fma(x, every_second(z, more...), every_second(z, c, more...));
}

/// `fast`, but for lanes where it is wrong.
template <class F> CAPSTAN_INLINE Doubles mend(Doubles fast, Mask<double> wrong, Doubles a, Doubles b, F library) {
  return mend(Precise(fast), wrong, Precise(a), Precise(b), library).v;
}

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
  const Doubles below_lost = select(odd, turn.sine_lost, turn.cosine_lost);
  const Parts q = divided({above, above_lost}, {below, below_lost}, Doubles(1) / below);
  const Doubles result = select(abs(q.high) < Doubles(0x1p-900), q.high, q.high + q.low);  // -0, and what is tiny
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
/// So many eighths of a turn and atan(u), u = above / below up to tan(pi/8): u + u z series(z), z = u^2, 2^-56. What is
/// rounded is kept.
CAPSTAN_INLINE Doubles atan_after(Doubles eighths, Parts above, Parts below) {
  const Parts q = divided(above, below, Doubles(1) / below.high);
  const Doubles u = q.high, z = u * u, eighth(0.5 * kHalfPi);
  const Doubles series =
      polynomial(z, -0.3333333333333333, 0.19999999999995513, -0.1428571428466518, 0.11111111015146714,
                 -0.0909090457366906, 0.07692183087342026, -0.06664509989818045, 0.058581362519061465,
                 -0.05085383488842831, 0.03922974453661223, -0.019174543572021332);
  const Doubles from = eighths * eighth, first = from + u, rest = (from - first) + u;
  const Doubles from_lost = fma(eighths, Doubles(0.5 * kHalfPiRest), fma(eighths, eighth, -from));
  return first + (rest + (from_lost + fma(u * z, series, q.low)));
}
/// Above tan(pi/8) by pi/4 + atan((x-1)/(x+1)) and pi/2 - atan(1/x).
[[gnu::noinline]] Doubles atan(Doubles x) {
  const Doubles all = abs(x), one(1), zero(0), limit(0x1p60), size = select(all > limit, limit, all);
  const Mask<double> middle = size > Doubles(0.41421356237309503), large = size > Doubles(2.414213562373095);
  const Doubles above = select(large, -one, select(middle, size - one, size));
  const Doubles below = select(large, size, select(middle, size + one, one));
  const Mask<double> both = middle & ~large;
  const Doubles above_lost = select(both, size - (above + one), zero);
  const Doubles below_lost = select(both, size - (below - one), zero);
  const Doubles eighths = select(large, Doubles(2), select(middle, one, zero));
  return with_sign_of(x, atan_after(eighths, {above, above_lost}, {below, below_lost}));
}
/// By the smaller over the larger, counted from pi/2 where a is the larger, and from pi where b is negative.
[[gnu::noinline]] Doubles atan2(Doubles a, Doubles b) {
  const Doubles y = abs(a), x = abs(b), one(1), zero(0);
  const Mask<double> steep = y > x, left = with_sign_of(b, one) < zero;  // -0, too
  const Doubles low = select(steep, x, y), high = select(steep, y, x);
  const Mask<double> middle = low > high * Doubles(0.41421356237309503);
  const Doubles below = select(middle, low + high, high), below_lost = select(middle, low - (below - high), zero);
  Doubles eighths = select(middle, one, zero), above = select(middle, low - high, low);
  Doubles above_lost = select(middle, low - (above + high), zero);
  const auto count_from = [&](Mask<double> where, double start) __attribute__((always_inline)) {
    eighths = select(where, Doubles(start) - eighths, eighths);
    above = select(where, -above, above);
    above_lost = select(where, -above_lost, above_lost);
  };
  count_from(steep, 2);
  count_from(left, 4);
  const Doubles fast = atan_after(eighths, {above, above_lost}, {select(below == zero, one, below), below_lost});
  const auto is_normal = [&](Doubles v) __attribute__((always_inline)) {
    return ((v >= Doubles(0x1p-400)) & (v <= Doubles(0x1p400))) | (v == zero);
  };
  const Mask<double> fits = is_normal(low) & is_normal(high);
  return mend(with_sign_of(a, fast), ~fits, a, b, [](double v, double w) { return kernels::atan2(v, w); });
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

// --- the error function, and the normal distribution's ---

/// erf(x)/x - 1 in z = x^2 up to 1, 2^-56.
CAPSTAN_INLINE Doubles erf_series(Doubles z) {
  return by_halves(z, 0.1283791670955126, -0.37612638903183754, 0.1128379167095512, -0.02686617064512984,
                   0.0052239776254232985, -0.000854832702193483, 0.00012055332902888736, -1.4925647567519332e-05,
                   1.6462045441468418e-06, -1.6364642158167616e-07, 1.4792401209404813e-08, -1.216456005728345e-09,
                   8.709045129053106e-11, -4.230945824295338e-12);
}
/// x + x times that series; above 1 by 1 - erfc(x), with exp(x^2) (x+2) erfc(x) in (x-2)/(x+2).
[[gnu::noinline]] Doubles erf(Doubles x) {
  const Doubles size = abs(x), two(2), inside = limited(size, 0.0, 6.0);  // beyond, it is 1
  const Doubles near = fma(size, erf_series(x * x), size), inverse = Doubles(1) / (inside + two);
  const Doubles series = by_halves(
      (inside - two) * inverse, 1.021582705242023, -0.6871606844138106, 0.27947209255604094, -0.03644223150686364,
      -0.02151066188773439, 0.006479185064304484, 0.003090611975945019, -0.0008372958440063437, -0.0006630716756367664,
      3.4365322122850224e-05, 0.00014445202089678473, 3.423360798367434e-05, -2.1636133850813653e-05,
      -1.6690978636810987e-05, -8.179282853698761e-07, 5.127540347756448e-06);
  const Doubles far = fma(-exp(-(inside * inside)), series * inverse, Doubles(1));
  return with_sign_of(x, select(size < Doubles(1), near, far));
}

/// erfc(x + lost) = 2^n (parts): 1 - erf up to 1/2; from there on e^-x^2 by (x+2) and by a series in (x-2)/(x+2),
/// 2^-56; 2 - erfc(-x) below -1/2. What is rounded is kept.
struct Complement64 {
  Doubles n;
  Parts parts;
  CAPSTAN_INLINE Complement64(Doubles x, Doubles lost) : n(0), parts{Doubles(0), Doubles(0)} {
    const Doubles one(1), two(2), zero(0), size = limited(abs(x), 0.0, 28.0);  // beyond, it is 0 or 2
    const Mask<double> near = size < Doubles(0.5), negative = x < zero;
    const Doubles size_lost = select(negative, -lost, lost);
    // e^-x^2
    const Doubles square = size * size, square_lost = fma(size + size, size_lost, fma(size, size, -square));
    const Exponential64 e(-square);
    const Doubles power = one + e.p, power_lost = fma(-power, square_lost, ((one - power) + e.p) + e.lost);
    // the series, and its slope for what the quotient lost
    const Parts above = {size - two, (size - ((size - two) + two)) + size_lost};
    const Parts below = {size + two, (size - ((size + two) - two)) + size_lost};
    const Doubles inverse = one / below.high;
    const Parts place = divided(above, below, inverse);
    const Doubles q = place.high;
    const Parts more = raised(
        -0.6871606844138106, 0x1.89cce840a27f1p-56, q,
        by_halves(q, 0.2794720925560551, -0.03644223150687794, -0.021510661889524905, 0.006479185067690503,
                  0.0030906120607624974, -0.0008372960615798637, -0.0006630735363199766, 3.437143062900096e-05,
                  0.00014447109385014656, 3.414884593985483e-05, -2.1698566914191834e-05, -1.611982851805919e-05,
                  -1.1154909915918077e-06, 3.6357230335363457e-06, 1.974886124349784e-06, 3.4389760033140503e-08,
                  -5.296057504694841e-07, -3.990632900693085e-07, -2.7772823033430832e-08, 2.0462531694794141e-07,
                  3.8634568699955387e-08, -6.226800885274464e-08, 8.995579430823128e-09));
    const Parts series = raised(1.021582705242023, -0x1.4359a1f81ddc1p-56, q, more.high);
    const Doubles series_lost = fma(polynomial(q, -0.687, 0.559, -0.109), place.low, fma(q, more.low, series.low));
    const Parts quotient = divided({series.high, series_lost}, below, inverse), tail = times(power, quotient);
    const Doubles tail_low = fma(power_lost, quotient.high, tail.low);
    // 2 - tail, 1 - x - x times the series of erf
    const Doubles scale = shifted_to_exponent(limited(e.n, -1000.0, 0.0)), taken = scale * tail.high;
    const Doubles other = two - taken, other_low = ((two - other) - taken) - scale * tail_low;
    const Doubles rest = one - x, rest_low = ((one - rest) - x) - fma(x, erf_series(x * x), lost);
    n = select(near | negative, zero, e.n);
    parts.high = select(near, rest, select(negative, other, tail.high));
    parts.low = select(near, rest_low, select(negative, other_low, tail_low));
  }
};
/// 2^n x for n up to 0 and |x| < 31: 0 where that is less than half of the smallest number.
CAPSTAN_INLINE Doubles scaled_down(Doubles x, Doubles n) { return scaled_or_zero(x, n, n, -1080.0); }

[[gnu::noinline]] Doubles erfc(Doubles x) {
  const Complement64 c(x, Doubles(0));
  return scaled_down(c.parts.high + c.parts.low, c.n);
}
/// Half of x times erfc(-x/sqrt(2)), whose argument has two parts.
[[gnu::noinline]] Doubles gelu(Doubles x) {
  const Doubles root(-0.70710678118654752), z = x * root, limit(40);
  const Doubles lost = fma(x, root, -z) + x * Doubles(4.833646656726457e-17);
  const Complement64 c(z, lost);
  const Parts product = times(Doubles(0.5) * x, c.parts);
  const Doubles all = select(x > limit, x, scaled_down(product.high + product.low, c.n));
  return with_sign_of(x, select(x == Doubles(-HUGE_VAL), Doubles(NAN), all));  // -0, too
}
/// lib/kernels/special.hpp has the formula. With v = |2u| it is x by 1 + e^-v, below 0 by e^-v, too.
[[gnu::noinline]] Doubles gelu_tanh(Doubles x) {
  const Doubles one(1), size = limited(abs(x), 0.0, 24.0);  // beyond, it is x or 0
  const Doubles square = size * size, cubic(0.071354816272600248);
  const Doubles linear(1.5957691216057308), part = cubic * square, sum = linear + part, v = size * sum;
  const Mask<double> larger = part > linear;
  const Doubles sum_lost = select(larger, (part - sum) + linear, (linear - sum) + part);
  const Doubles part_lost =
      fma(cubic, square, -part) + fma(cubic, fma(size, size, -square),
                                      fma(Doubles(-6.175149918155315e-19), square, Doubles(-9.96930880911092e-17)));
  const Doubles v_lost = fma(size, sum_lost + part_lost, fma(size, sum, -v));
  const Exponential64 e(-v);
  const Doubles power = one + e.p, power_lost = fma(-power, v_lost, ((one - power) + e.p) + e.lost);
  const Doubles scale = shifted_to_exponent(limited(e.n, -1000.0, 0.0)), added = scale * power, below = one + added;
  const Doubles below_lost = fma(scale, power_lost, (one - below) + added);
  const Mask<double> negative = x < Doubles(0);
  const Parts product = times(x, {power, power_lost});
  const Doubles above = select(negative, product.high, x), above_low = select(negative, product.low, Doubles(0));
  const Parts q = divided({above, above_low}, {below, below_lost}, one / below);
  const Doubles all = scaled_down(q.high + q.low, select(negative, e.n, Doubles(0)));
  return with_sign_of(x, select(x > Doubles(24), x, select(x == Doubles(-HUGE_VAL), Doubles(NAN), all)));
}

/// erfinv(x)/x in w = -log(1 - x^2) up to 5, 2^-57. What w has lost counts by the slope, of which few digits do.
CAPSTAN_INLINE Parts erfinv_near(Doubles w, Doubles lost) {
  const Doubles middle(2.5), v = w - middle, all_lost = lost + (w - (v + middle));
  const Parts result =
      raised(1.501409351110792, -0x1.2c78419526c43p-54, v,
             by_halves(v, 0.246640276744167, -0.004177317724383624, -0.0012527079078110321, 0.00021825026434406123,
                       -4.996079598850206e-06, -3.416619596565087e-06, 4.787252185239e-07, 1.3416803755242823e-08,
                       -1.0861168938287872e-08, 9.073036495405582e-10, 1.1960698817209524e-10, -3.110278672226475e-11,
                       9.115660381671943e-13, 5.356343166393055e-13, -7.612669130138496e-14, -2.8811110175240593e-15,
                       1.896729354143592e-15, -1.3661917890666732e-16, -2.6828646429085144e-17, 4.909393921888345e-18,
                       1.700908089393591e-19, -6.890747263782666e-20));
  return {result.high, fma(all_lost, Doubles(0.24), result.low)};
}
/// In the root of w, up to 16, 2^-56.
CAPSTAN_INLINE Parts erfinv_middle(Doubles root) {
  const Doubles v = root - Doubles(3.125);
  return raised(2.958320150240462, 0x1.0edaab70aa2b8p-53, v,
                by_halves(v, 1.0037186917979248, 0.007047884417791879, -0.005301010608473134, 0.0037944200159306368,
                          -0.0025198826920625654, 0.0012606698688382675, -0.0003286621684655129, -8.955312471667034e-05,
                          0.00013610485453316988, -5.885354780030028e-05, 2.18457611553087e-06, 1.1405341195120251e-05,
                          -6.272646213992432e-06, 8.890680667864295e-07, 7.518366243526554e-07, -5.346292319969249e-07,
                          1.2990858975611737e-07, 3.2190663691072326e-08, -4.1301875952661e-08, 1.4173213438780178e-08,
                          1.2917230128945996e-09, -2.555522898935359e-09, 5.829375443953239e-10));
}
/// Up to 36.8, 2^-57; to the largest x below 1 belongs 36.1.
CAPSTAN_INLINE Parts erfinv_far(Doubles root) {
  const Doubles v = root - Doubles(5);
  return raised(
      4.849906401408584, -0x1.7d0392211e115p-54, v,
      by_halves(v, 1.0103004648645448, -0.00013871931837971602, -0.0002150301197990087, 7.599527808331372e-05,
                -1.9681771199539315e-05, 4.5260526902814986e-06, -9.93025464536458e-07, 2.2905179486036702e-07,
                -6.757286746992132e-08, 2.9022338177557887e-08, -1.521335043571702e-08, 7.813256975371037e-09,
                -3.5345890416630815e-09, 1.3273289617556068e-09, -3.8039980833950743e-10, 5.999065406022745e-11,
                1.455437035060071e-11, -1.5882974135741462e-11, 5.916345493195051e-12, -9.054850513905504e-13));
}
/// Few x are beyond w = 5; the slope in its root is nearly 1.
[[gnu::noinline]] Doubles erfinv(Doubles x) {
  const Logarithm<double> l(fma(-x, x, Doubles(1)));
  const Doubles ln2(Format<double>::high_ln2), part = l.f - (l.half - l.rest(l.k * Doubles(Format<double>::low_ln2)));
  const Doubles w = -fma(l.k, ln2, part), w_lost = -(fma(l.k, ln2, w) + part);
  const Mask<double> beyond = w > Doubles(5);
  Parts series = erfinv_near(w, w_lost);
  if (any(beyond)) {
    const Doubles root = sqrt(w), lost = (fma(-root, root, w) + w_lost) / (root + root);
    Parts other = erfinv_middle(root);
    const Mask<double> far = w > Doubles(16);
    if (any(far)) {
      const Parts last = erfinv_far(root);
      other = {select(far, last.high, other.high), select(far, last.low, other.low)};
    }
    series = {select(beyond, other.high, series.high), select(beyond, other.low + lost, series.low)};
  }
  const Parts product = times(x, series);
  const Doubles size = abs(x), one(1), edge = select(size == one, x * Doubles(HUGE_VAL), Doubles(NAN));
  return with_sign_of(x, select(size < one, product.high + product.low, edge));  // -0, too
}

// --- of two operands ---

/// What the squares and their root are rounded by is taken off.
[[gnu::noinline]] Doubles hypot(Doubles a, Doubles b) {
  const Doubles y = abs(a), x = abs(b), zero(0);
  const Mask<double> steep = y > x;
  const Doubles low = select(steep, x, y), high = select(steep, y, x), square = high * high;
  const Doubles size = sqrt(fma(low, low, square)), again = size * size;
  const Doubles lost = fma(-low, low, again - square) + (fma(size, size, -again) - fma(high, high, -square));
  const Doubles fast = size - select(size == zero, zero, lost / (size + size));
  const Mask<double> fits = (high <= Doubles(0x1p500)) & ((high >= Doubles(0x1p-400)) | (high == zero));
  return mend(fast, ~fits, a, b, [](double v, double w) { return kernels::hypot(v, w); });
}
/// While the quotient has 53 bits, the rest is exact; its rounding may be the whole number above.
[[gnu::noinline]] Doubles fmod(Doubles a, Doubles b) {
  const Doubles x = abs(a), y = abs(b), zero(0), quotient = x / y, left = fma(-floor(quotient), y, x);
  const Doubles rest = select(left < zero, left + y, left), fast = with_sign_of(a, select(x < y, x, rest));
  const Mask<double> far = (quotient >= Doubles(0x1p53)) & (x < Doubles(HUGE_VAL)) & (y > zero);
  return mend(fast, far, a, b, [](double v, double w) { return kernels::fmod(v, w); });
}
CAPSTAN_INLINE Doubles copysign(Doubles size, Doubles sign) { return with_sign_of(sign, abs(size)); }

#else

constexpr bool kHasDoubles = false;

#endif

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
