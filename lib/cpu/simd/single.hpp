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

#if defined(__AVX2__)

/// exp(-x^2/2), by the power of e, and what that times is the part of the normal distribution below -size, for |x| up
/// to 15; float32 has nothing beyond.
struct Normal {
  Floats size, below, lost;
  Exponential<Floats> density;
  CAPSTAN_INLINE explicit Normal(Floats x)
      : size(limited(abs(x), 0.0f, 14.99f)), below(0), lost(0), density{Floats(0), Floats(0)} {
    const Floats square = size * size;
    Reduced<Floats> reduced(square * Floats(-0.5f));
    reduced.r = fma(fma(size, size, -square), Floats(-0.5f), reduced.r);  // what the square has lost
    density = reduced.exponential();
#if defined(__AVX512F__)
    below = looked_up(kNormal, part_of_octave<3>(size + Floats(1), 0), size);
#else
    // t = 1/(size + 3.0252635) by a polynomial in (size - 3.0252635) t, 2^-29: least squares, around a number near 3
    // for which the first two coefficients need no rounding
    const Floats one(1), middle(3.02526355f), twice(-2 * 3.02526355f), sum = size + middle, t = one / sum;
    const Floats t_lost = t * less_product(t, size - (sum - middle), less_product(t, sum, one));
    const Floats series = polynomial(fma(t_lost, twice, fma(t, twice, one)), 0.730000198, -0.512584984, 0.234661594,
                                     -0.0505583107, -0.00953555387, 0.00723335147, 0.000820900314, -0.00107463275,
                                     -0.000210814542, 0.000143755315, 5.46310774e-05);
    below = t * series;
    lost = fma(t_lost, series, fma(t, series, -below));
#endif
  }
  /// Of x + rest.
  CAPSTAN_INLINE Floats times_density(Floats x, Floats rest) const {
    const Floats product = x + fma(x, density.p, rest);
#if !defined(__AVX512F__)
    // 2^n is made once where no limit is near
    if (__builtin_expect(within(size, 13), true)) return product * power_of_two(density.n);
#endif
    return scaled_or_zero(product, density.n, density.n, -160.0f);
  }
};
// Infinite numbers times 0 are NaN.
CAPSTAN_INLINE Floats gelu(Floats x) {
  const Normal n(x);
  const Floats part = n.size * n.below, rest = fma(n.size, n.lost, fma(n.size, n.below, -part));
  return select(x < Floats(0), x * Floats(0), x) - n.times_density(part, rest);
}
CAPSTAN_INLINE Floats gelu_slope(Floats x) {
  const Normal n(x);
  const Floats part = n.times_density(less_product(n.size, Floats(0.398942280f), n.below), n.lost);
  return fma(x, Floats(0), select(x < Floats(0), part, Floats(1) - part));
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
