// The gamma function's logarithm and its derivatives, for float32 in lanes of float64. Included by kernels_*.cpp behind
// precise.hpp.
//
// Above 0 the first ten terms of their sums, log(x+k), 1/(x+k) or its square, are taken off, and the rest is their
// asymptotic series from 10 on. With q = x (x+1) ... (x+9) these terms are log(q), q'/q and (q'/q)^2 - q''/q. Below 0
// all are reflected.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

struct TenTerms {
  Mask<double> near;  // where they are taken off
  Precise y, low, inverse, q, slope;
  CAPSTAN_INLINE explicit TenTerms(Precise x)
      : near(x < Precise(10)),
        y(select(near, x + Precise(10), x)),
        low(select(near, x, Precise(1))),
        inverse(Precise(1) / y),
        q(low * polynomial(low, 362880, 1026576, 1172700, 723680, 269325, 63273, 9450, 870, 45, 1)),
        slope(polynomial(low, 362880, 2053152, 3518100, 2894720, 1346625, 379638, 66150, 6960, 405, 10) / q) {}
  CAPSTAN_INLINE Precise less(Precise terms) const { return select(near, terms, Precise(0)); }
};

/// For x > 0. The series is right to 2^-54 of itself: what it leaves around the zero at 1.46 must be, too.
CAPSTAN_INLINE Precise digamma_above_zero(Precise x) {
  const TenTerms ten(x);
  const Precise z = ten.inverse * ten.inverse;
  const Precise series =
      polynomial(z, 1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12);
  return (log(ten.y) - (Precise(0.5) * ten.inverse + z * series)) - ten.less(ten.slope);
}
CAPSTAN_INLINE Precise trigamma_above_zero(Precise x) {  // 2^-37
  const TenTerms ten(x);
  const Precise z = ten.inverse * ten.inverse, series = polynomial(z, 1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30);
  const Precise bend =
      polynomial(ten.low, 2053152, 7036200, 8684160, 5386500, 1898190, 396900, 48720, 3240, 90) / ten.q;
  return ten.less(ten.slope * ten.slope - bend) + ten.inverse + z * (Precise(0.5) + ten.inverse * series);
}

/// Where x stands between the nearest whole number and the middle to the next: how far from it, and the sizes of
/// sin(pi x) and cos(pi x), 2^-43.
struct FromWhole {
  Precise distance, sine, cosine;
  CAPSTAN_INLINE explicit FromWhole(Precise x) : distance(x - nearest(x)), sine(0), cosine(0) {
    const Precise size = abs(distance);
    const Mask<double> far = size > Precise(0.25);
    const Precise v = select(far, Precise(0.5) - size, size), z = v * v;
    const Precise s = v * polynomial(z, 3.14159265358978, -5.167712780034472, 2.550164036983873, -0.5992643317066507,
                                     0.08213978370301755, -0.007283479061923398);
    const Precise c = polynomial(z, 0.9999999999999444, -4.934802200480637, 4.0587121144592695, -1.3352619521436573,
                                 0.23530540466021305, -0.025447386478401165);
    sine = select(far, c, s);
    cosine = select(far, s, c);
  }
};
constexpr double kPi = 3.1415926535897932, kAllWhole = -0x1p23;  // float32 has no fractions below

CAPSTAN_INLINE Precise digamma(Precise x) {
  if (__builtin_expect(all(x > Precise(0)), true)) return digamma_above_zero(x);
  const Mask<double> below = x < Precise(0);
  const Precise above = digamma_above_zero(select(below, Precise(1) - x, x));
  const FromWhole turn(x);
  const Precise cot = copysign(turn.cosine / turn.sine, turn.distance);
  const Mask<double> pole = (turn.distance == Precise(0)) | (x < Precise(kAllWhole));
  const Precise reflected = select(pole, Precise(NAN), above - Precise(kPi) * cot);
  return select(below, reflected, select(x == Precise(0), Precise(-1) / x, above));
}
CAPSTAN_INLINE Precise trigamma(Precise x) {
  if (__builtin_expect(all(x > Precise(0)), true)) return trigamma_above_zero(x);
  const Precise infinity(HUGE_VAL);
  const Mask<double> below = x < Precise(0);
  const Precise above = trigamma_above_zero(select(below, Precise(1) - x, x));
  const FromWhole turn(x);
  const Mask<double> pole = (turn.distance == Precise(0)) | ((x < Precise(kAllWhole)) & (x > -infinity));
  const Precise ratio = Precise(kPi) / turn.sine, reflected = select(pole, infinity, ratio * ratio - above);
  return select(below, reflected, select(x == Precise(0), infinity, above));
}

/// log(gamma(x)) for x > 0. Around 1 and 2, where it is 0, (x-1) (x-2) times a polynomial in x - 3/2, 2^-37.
CAPSTAN_INLINE Precise lgamma_above_zero(Precise x) {
  const TenTerms ten(x);
  const Precise z = ten.inverse * ten.inverse, series = polynomial(z, 1.0 / 12, -1.0 / 360, 1.0 / 1260);
  const Precise far = (ten.y - Precise(0.5)) * (log(ten.y) - Precise(1)) +
                      (Precise(0.41893853320467274) + ten.inverse * series) - ten.less(log(ten.q));
  const Precise t = x - Precise(1.5);
  const Precise near =
      (x - Precise(1)) * (x - Precise(2)) *
      polynomial(t, 0.4831289505432102, -0.145959895915729, 0.06291140043342998, -0.031308487091794374,
                 0.016797128807193775, -0.009425641708385956, 0.005445914616012691, -0.003211727377219261,
                 0.0019277737172198992, -0.0011675144372430058, 0.000687418181461066, -0.00042261448473627876,
                 0.000340141795859036, -0.00021282793531485339, -4.6640392002779205e-06, 4.023509757863151e-06,
                 0.00012802710027382018, -8.136837965349073e-05);
  return select(abs(t) <= Precise(0.75), near, far) + Precise(0);  // which is never -0
}
/// Its zeros below 0 are differences of equal numbers: around them the C library's counts.
CAPSTAN_INLINE Precise lgamma(Precise x) {
  if (__builtin_expect(all(x > Precise(0)), true)) return lgamma_above_zero(x);
  const Mask<double> below = x < Precise(0);
  const Precise above = lgamma_above_zero(select(below, Precise(1) - x, x));
  const FromWhole turn(x);
  const Mask<double> pole = (turn.distance == Precise(0)) | (x < Precise(kAllWhole));
  const Precise reflected = select(pole, Precise(HUGE_VAL), log(Precise(kPi) / turn.sine) - above);
  return mend(select(below, reflected, above), below & (abs(reflected) < Precise(0x1p-10)), x, x,
              [](double v, double) { return static_cast<double>(kernels::lgamma(static_cast<float>(v))); });
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
