// sin and cos of both types, and what else turns and angles have for float32. Included by kernels_*.cpp behind
// single.hpp.
//
// Coefficients that are no plain fractions, and not of fdlibm, are interpolations at Chebyshev's points, computed with
// 50 digits; their errors are given as powers of two.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

/// Sine and cosine of what whole quarters of a turn leave of x, and the quarters: for |x| <= kFarTurns.
template <class T> struct Turn { Lanes<T> sine, cosine, quarters; };
template <> struct Turn<double> { Lanes<double> sine, cosine, quarters, sine_lost, cosine_lost; };  // by rounding
constexpr double kFarTurns = 1e6;

/// The rest is right to the last place, for it is taken in float64.
CAPSTAN_INLINE Turn<float> turn_of(Floats x) {
  const Halves wide = halves_of(x);
  const auto quarters_in = [](Precise of) { return nearest(of * Precise(0.63661977236758134)); };
  const auto less = [](Precise of, Precise k) __attribute__((always_inline)) {
    return (of - k * Precise(1.57079632673412561417)) - k * Precise(6.07710050650619224932e-11);
  };
  const Halves k{quarters_in(wide.low), quarters_in(wide.high)};
  const Floats r = joined({less(wide.low, k.low), less(wide.high, k.high)}), z = r * r;
  const Floats odd_part = fma(z, fma(z, Floats(2.72499258e-6f), Floats(-0.000198400867f)), Floats(0.00833333187f));
  const Floats sine = with_sign_of(r, fma(r * z, fma(z, odd_part, Floats(-0.166666667f)), r));  // 2^-35
  const Floats even_part = fma(z, fma(z, Floats(2.45479421e-5f), Floats(-0.00138883030f)), Floats(0.0416666647f));
  const Floats cosine = fma(z * z, even_part, fma(z, Floats(-0.5f), Floats(1)));  // 2^-29
  return {sine, cosine, joined(k)};
}

/// The rest comes in two parts, y and `below`. A quarter of a turn has three, of which the first two times a whole
/// number are exact (fdlibm: e_rem_pio2, k_sin, k_cos).
CAPSTAN_INLINE Turn<double> turn_of(Lanes<double> x) {
  using L = Lanes<double>;
  const L rounder(Format<double>::rounder), k = fma(x, L(0.63661977236758134), rounder) - rounder;
  const L first = x - k * L(1.57079632673412561417), second = k * L(6.07710050630396597660e-11), r = first - second;
  const L third = k * L(2.02226624879595063154e-21) - ((first - r) - second);
  const L y = r - third, below = (r - y) - third, z = y * y, z2 = z * z, cube = z * y;
  const L odd = fma(z2 * z2, L(1.58969099521155010221e-10),
                    cubic(z, z2, 8.33333333332248946124e-03, -1.98412698298579493134e-04, 2.75573137070700676789e-06,
                          -2.50507602534068634195e-08));
  const L less = (z * (L(0.5) * below - cube * odd) - below) + cube * L(1.66666666666666324348e-01), sine = y - less;
  const L even = fma(z2 * z2, linear(z, 2.08757232129817482790e-09, -1.13596475577881948265e-11),
                     cubic(z, z2, 4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05,
                           -2.75573143513906633035e-07));
  const L half = L(0.5) * z, one = L(1) - half;
  const L more = ((L(1) - one) - half) + (z2 * even - y * below), cosine = one + more;
  return {with_sign_of(y, abs(sine)), cosine, k, (y - sine) - less, (one - cosine) + more};  // -0, too
}

/// Whole numbers, whose lowest bits are those of the result.
template <class T> CAPSTAN_INLINE typename Lanes<T>::Bits bits_of_whole(Lanes<T> x) {
  return (x + Lanes<T>(Format<T>::rounder)).bits();
}
template <class T> constexpr int kSignBit = 8 * static_cast<int>(sizeof(T)) - 1;
template <class T> CAPSTAN_INLINE Mask<T> is_odd(typename Lanes<T>::Bits whole) {
  return Lanes<T>::of((whole << kSignBit<T>) | Lanes<T>(1).bits()) < Lanes<T>(0);
}

/// The sine behind `ahead` more quarters of a turn.
template <int ahead, class T> CAPSTAN_INLINE Lanes<T> sine_ahead(Turn<T> turn) {
  const auto quarters = bits_of_whole(turn.quarters + Lanes<T>(ahead)), sign = ~(~typename Lanes<T>::Bits{} >> 1);
  const Lanes<T> size = select(is_odd<T>(quarters), turn.cosine, turn.sine);
  return Lanes<T>::of(size.bits() ^ ((quarters << (kSignBit<T> - 1)) & sign));
}
CAPSTAN_INLINE Floats tangent(Turn<float> turn) {
  const Mask<float> odd = is_odd<float>(bits_of_whole(turn.quarters));
  return select(odd, -turn.cosine, turn.sine) / select(odd, turn.sine, turn.cosine);
}

/// What is beyond kFarTurns asks the C library.
template <class T, class F> [[gnu::noinline, gnu::cold]] Lanes<T> turned_far(Lanes<T> fast, Lanes<T> x, F library) {
  const T limit = static_cast<T>(kFarTurns), infinity = static_cast<T>(HUGE_VAL);
  return mend(mend(fast, x, limit, infinity, library), x, -infinity, -limit, library);
}
template <class T, class F> CAPSTAN_INLINE Lanes<T> mend_far(Lanes<T> fast, Lanes<T> x, F library) {
  return __builtin_expect(all(abs(x) <= Lanes<T>(kFarTurns)), true) ? fast : turned_far(fast, x, library);
}
template <class T> CAPSTAN_INLINE Lanes<T> sin(Lanes<T> x) {
  return mend_far(sine_ahead<0>(turn_of(x)), x, [](T v) { return kernels::sin(v); });
}
template <class T> CAPSTAN_INLINE Lanes<T> cos(Lanes<T> x) {
  return mend_far(sine_ahead<1>(turn_of(x)), x, [](T v) { return kernels::cos(v); });
}
CAPSTAN_INLINE Floats tan(Floats x) {
  return mend_far(tangent(turn_of(x)), x, [](float v) { return kernels::tan(v); });
}

/// a + x + x z times a series, a given in two parts.
template <class... C> CAPSTAN_INLINE Floats around(Floats a, Floats rest, Floats x, Floats z, C... series) {
  return a + (x + fma(x * z, polynomial(z, series...), rest));
}
constexpr float kQuarter = 1.57079637f, kQuarterRest = -4.37113883e-8f;  // of a turn
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
  const Floats two = select(right, Floats(2), Floats(-2)),
               half = if_large(select(right, Floats(0), Floats(2)), Floats(1));
  return arc.added_to(half * Floats(kQuarter), half * Floats(kQuarterRest),
                      if_large(two, select(right, Floats(-1), Floats(1))));
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
