// More functions of float32 in registers of its own. Included by kernels_*.cpp behind logarithm.hpp.
//
// Each errs by less than three units in the last place. Coefficients that are no plain fractions are interpolations at
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

/// Near 0 erf(x)/x in x^2, 2^-32; from 1 on 1 - exp(-x^2) times 1/(2+x) and a polynomial in (x-2)/(x+2), 2^-30.
CAPSTAN_INLINE Floats erf(Floats x) {
  const Floats size = abs(x), z = x * x;
  const Floats near = fma(x,
                          polynomial(z, 0.128379167095513, -0.376126388889, 0.112837902701, -0.0268659453072,
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
