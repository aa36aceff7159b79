// Precise: float32 values in lanes of float64. Included by kernels_*.cpp behind
// exponential.hpp.
//
// A float32 function computed here and rounded once at the end errs by half a unit, if what stands here is right to
// 2^-33 or so. That takes little: no tables, no corrections, short polynomials. Coefficients that are no plain
// fractions are interpolations at Chebyshev's points, computed with 40 digits; their errors are given as powers of two.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

struct Precise {
  Lanes<double> v;
  CAPSTAN_INLINE explicit Precise(Lanes<double> x) : v(x) {}
  CAPSTAN_INLINE explicit Precise(double x) : v(x) {}
  CAPSTAN_INLINE explicit Precise(int x) : v(x) {}
};
constexpr int kPreciseSize = Lanes<double>::size;

CAPSTAN_INLINE Precise load_precise(const float* p) {
#if defined(__AVX512F__)
  return Precise(Lanes<double>(_mm512_cvtps_pd(_mm256_loadu_ps(p))));
#elif defined(__AVX2__)
  return Precise(Lanes<double>(_mm256_cvtps_pd(_mm_loadu_ps(p))));
#else
  double wide[kPreciseSize];
  for (int i = 0; i < kPreciseSize; ++i) wide[i] = static_cast<double>(p[i]);
  return Precise(Lanes<double>::load(wide));
#endif
}
CAPSTAN_INLINE void store_precise(Precise x, float* p) {
#if defined(__AVX512F__)
  _mm256_storeu_ps(p, _mm512_cvtpd_ps(x.v.v));
#elif defined(__AVX2__)
  _mm_storeu_ps(p, _mm256_cvtpd_ps(x.v.v));
#else
  double wide[kPreciseSize];
  x.v.store(wide);
  for (int i = 0; i < kPreciseSize; ++i) p[i] = static_cast<float>(wide[i]);
#endif
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

CAPSTAN_INLINE Precise operator+(Precise a, Precise b) { return Precise(a.v + b.v); }
CAPSTAN_INLINE Precise operator-(Precise a, Precise b) { return Precise(a.v - b.v); }
CAPSTAN_INLINE Precise operator*(Precise a, Precise b) { return Precise(a.v * b.v); }
CAPSTAN_INLINE Precise operator/(Precise a, Precise b) { return Precise(a.v / b.v); }
CAPSTAN_INLINE Precise operator-(Precise a) { return Precise(-a.v); }
CAPSTAN_INLINE Mask<double> operator<(Precise a, Precise b) { return a.v < b.v; }
CAPSTAN_INLINE Mask<double> operator<=(Precise a, Precise b) { return a.v <= b.v; }
CAPSTAN_INLINE Mask<double> operator>(Precise a, Precise b) { return a.v > b.v; }
CAPSTAN_INLINE Mask<double> operator>=(Precise a, Precise b) { return a.v >= b.v; }
CAPSTAN_INLINE Mask<double> operator==(Precise a, Precise b) { return a.v == b.v; }
CAPSTAN_INLINE Precise select(Mask<double> c, Precise a, Precise b) { return Precise(select(c, a.v, b.v)); }
CAPSTAN_INLINE Precise abs(Precise x) { return Precise(abs(x.v)); }
CAPSTAN_INLINE Precise sqrt(Precise x) { return Precise(sqrt(x.v)); }
CAPSTAN_INLINE Precise log(Precise x) { return Precise(log(x.v)); }
CAPSTAN_INLINE Precise tanh(Precise x) { return Precise(tanh(x.v)); }

/// The size of the one, the sign of the other.
CAPSTAN_INLINE Precise copysign(Precise size, Precise sign) { return Precise(with_sign_of(sign.v, abs(size.v))); }
CAPSTAN_INLINE Precise polynomial(Precise, double constant) { return Precise(constant); }
template <class... More> CAPSTAN_INLINE Precise polynomial(Precise x, double constant, double next, More... more) {
  return Precise(fma(x.v, polynomial(x, next, more...).v, Lanes<double>(constant)));
}
/// The nearest whole number, for |x| < 2^51: above 1.5 * 2^52 there are no fractions.
CAPSTAN_INLINE Precise nearest(Precise x) { return (x + Precise(0x1.8p52)) - Precise(0x1.8p52); }

// --- exponentials and logarithms ---

/// 2^n e^r, of which e^r by its series, 2^-37.
CAPSTAN_INLINE Precise exp(Precise x) {
  using L = Lanes<double>;
  constexpr double kLow = -746, kHigh = 710;  // beyond, it is 0 or infinite
  const L inside = limited(x.v, kLow, kHigh), rounder(Format<double>::rounder);
  const L n = fma(inside, L(1.4426950408889634), rounder) - rounder, r = fma(n, L(-0.69314718055994531), inside);
  const L r2 = r * r, r4 = r2 * r2, low = cubic(r, r2, 1.0, 1.0, 1.0 / 2, 1.0 / 6);
  const L high = cubic(r, r2, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040);
  return Precise(scaled_or_zero(fma(r4, fma(r4, linear(r, 1.0 / 40320, 1.0 / 362880), high), low), n, x.v, kLow));
}

/// With u = 1 + x, which loses digits of x, log(u) * x / (u - 1) has them all (Goldberg 1991, theorem 4).
CAPSTAN_INLINE Precise log1p(Precise x) {
  const Precise u = Precise(1) + x, l = log(u);
  const Precise mended = l * (x / (u - Precise(1)));
  return select(u == Precise(1), x, select(x > Precise(1e300), l, mended));  // infinity / infinity
}

/// Of float32, of which none is near enough to 1/2 for the quotient to lose what counts.
CAPSTAN_INLINE Precise logit(Precise x) { return log(x / (Precise(1) - x)); }

// --- trigonometry ---

/// atan(x)/x in x^2 up to tan(pi/8), 2^-40; above by atan(x) = pi/4 + atan((x-1)/(x+1)) = pi/2 - atan(1/x).
CAPSTAN_INLINE Precise atan(Precise x) {
  const Precise size = abs(x), one(1);
  const Mask<double> middle = size > Precise(0.41421356237309505), large = size > Precise(2.4142135623730951);
  const Precise above = select(large, -one, select(middle, size - one, size));
  const Precise u = above / select(large, size, select(middle, size + one, one));
  const Precise eighth(0.78539816339744831), quarter(1.5707963267948966);  // of a turn
  const Precise turned = select(large, quarter, select(middle, eighth, Precise(0)));
  const Precise series =
      polynomial(u * u, 0.9999999999992447, -0.33333333276922494, 0.19999993053555815, -0.14285386553752139,
                 0.11103456908947464, -0.08992552906150912, 0.06974197686595265, -0.03765510601291402);
  return copysign(turned + u * series, x);
}

// --- hyperbolic functions ---

CAPSTAN_INLINE Precise sinh(Precise x) {
  const Precise z = x * x, e(exp(abs(x).v));
  const Precise series = x + x * z * polynomial(z, 1.0 / 6, 1.0 / 120);
  return select(abs(x) < Precise(0x1p-4), series, copysign((e - Precise(1) / e) * Precise(0.5), x));
}
CAPSTAN_INLINE Precise cosh(Precise x) {
  const Precise e = exp(abs(x));
  return (e + Precise(1) / e) * Precise(0.5);
}
CAPSTAN_INLINE Precise asinh(Precise x) {
  const Precise size = abs(x), one(1);
  const Precise more = size + size * size / (one + sqrt(one + size * size));
  return copysign(log1p(select(size > Precise(1e39), size, more)), x);  // infinity / infinity
}
CAPSTAN_INLINE Precise acosh(Precise x) {
  const Precise above = x - Precise(1);
  return log1p(above + sqrt(above) * sqrt(above + Precise(2)));  // NaN below 1, however far
}
CAPSTAN_INLINE Precise atanh(Precise x) {
  const Precise size = abs(x);
  return copysign(Precise(0.5) * log1p((size + size) / (Precise(1) - size)), x);
}

// --- of two operands ---

/// `fast`, but for lanes where it is wrong: those ask a function of scalars. Hardly ever taken.
template <class F> CAPSTAN_INLINE Precise mend(Precise fast, Mask<double> wrong, Precise a, Precise b, F library) {
  if (__builtin_expect(any(wrong), false)) {
    double x[kPreciseSize], y[kPreciseSize], which[kPreciseSize], to[kPreciseSize];
    a.v.store(x);
    b.v.store(y);
    select(wrong, Precise(1), Precise(0)).v.store(which);
    fast.v.store(to);
    for (int i = 0; i < kPreciseSize; ++i)
      if (which[i] != 0) to[i] = library(x[i], y[i]);
    return Precise(Lanes<double>::load(to));
  }
  return fast;
}

CAPSTAN_INLINE Mask<double> is_negative(Precise x) { return copysign(Precise(1), x) < Precise(0); }  // or -0

CAPSTAN_INLINE Precise hypot(Precise a, Precise b) {
  const Precise infinity(HUGE_VAL), size = sqrt(a * a + b * b);  // no float32 is too large for that
  return select((abs(a) == infinity) | (abs(b) == infinity), infinity, size);
}

/// By atan of the smaller over the larger.
CAPSTAN_INLINE Precise atan2(Precise a, Precise b) {
  const Precise y = abs(a), x = abs(b), quarter(1.5707963267948966);  // of a turn
  const Mask<double> flat = x >= y;
  const Precise low = select(flat, y, x), high = select(flat, x, y);
  const Precise quotient = select(low == high, select(high == Precise(0), Precise(0), Precise(1)), low / high);
  const Precise near = atan(quotient), first = select(flat, near, quarter - near);
  return copysign(select(is_negative(b), quarter + quarter - first, first), a);
}

/// a - b * trunc(a/b). While the quotient has 28 bits, the double next to it has the same whole part, and the rest is
/// exact.
CAPSTAN_INLINE Precise fmod(Precise a, Precise b) {
  const Precise quotient = abs(a / b), near = nearest(quotient);
  const Precise whole = select(near > quotient, near - Precise(1), near);
  const Precise rest = Precise(fma(-whole.v, abs(b).v, abs(a).v));
  const Precise fast = copysign(select(abs(a) < abs(b), abs(a), rest), a);
  const Mask<double> far = (quotient >= Precise(0x1p28)) & (abs(a) < Precise(HUGE_VAL)) & (abs(b) > Precise(0));
  return mend(fast, far, a, b, [](double x, double y) { return kernels::fmod(x, y); });
}
/// What lib/kernels/host_device.hpp says of it.
CAPSTAN_INLINE Precise floor_divide(Precise a, Precise b) {
  const Precise r = fmod(a, b), quotient = (a - r) / b, exact = a / b;  // the first a whole number
  const Precise whole = select(r == Precise(0), quotient,
                               select(is_negative(r), select(is_negative(b), quotient, quotient - Precise(1)),
                                      select(is_negative(b), quotient - Precise(1), quotient)));
  const Precise fast = select(r == r, select(whole == Precise(0), copysign(Precise(0), exact), whole), exact);
  const Mask<double> far = (abs(exact) >= Precise(0x1p28)) & (r == r);
  return mend(fast, far, a, b, [](double x, double y) {
    return static_cast<double>(kernels::floor_divide(static_cast<float>(x), static_cast<float>(y)));
  });
}

/// e^(b log |a|), and the signs and limits of C's pow.
CAPSTAN_INLINE Precise pow(Precise a, Precise b) {
  const Precise one(1), infinity(HUGE_VAL), half = b * Precise(0.5);
  const Mask<double> whole = nearest(b) == b, even = nearest(half) == half;
  const Precise power = exp(b * log(abs(a)));
  const Precise size = select((abs(a) == one) & (b == b), one, power);
  const Precise turned = select(whole, select(even, size, -size), select(a == -infinity, size, Precise(NAN)));
  const Precise zero_too = select(a == Precise(0), select(whole, select(even, size, -size), size), turned);
  return select((b == Precise(0)) | (a == one), one, select(is_negative(a), zero_too, size));
}

// --- the error function, and the normal distribution's ---

/// erf(x) for |x| <= 1: erf(x)/x in x^2, 2^-40.
CAPSTAN_INLINE Precise erf_near(Precise x) {
  return x * polynomial(x * x, 1.1283791670946768, -0.3761263888963531, 0.11283791308604582, -0.026866133235095593,
                        0.005223783477189248, -0.0008542637997087229, 0.0001195656256820733, -1.3909340021874599e-05,
                        1.058938064107502e-06);
}
/// erfc(x) for x >= 1: (1+2x) exp(x^2) erfc(x) in (x-2)/(x+2), 2^-35 up to 11; float32 has nothing beyond.
CAPSTAN_INLINE Precise erfc_far(Precise x) {
  const Precise limit(40);
  x = select(x > limit, limit, x);  // exp gives 0, and infinity stays out of the quotient
  const Precise q = (x - Precise(2)) / (x + Precise(2));
  const Precise series =
      polynomial(q, 1.2769783815661955, -0.09276382693091319, -0.16603040027664703, 0.1640513190209681,
                 -0.054219957406951166, -0.008035204212821348, 0.008723955799545748, 0.0012837932000417803,
                 -0.0014872823887328056, -0.00048025981267648836, 0.000360671654909775);
  return exp(-(x * x)) * series / (Precise(1) + x + x);
}
CAPSTAN_INLINE Precise erfc(Precise x) {
  const Precise size = abs(x), far = erfc_far(size);
  return select(size < Precise(1), Precise(1) - erf_near(x), select(x < Precise(0), Precise(2) - far, far));
}

/// erfinv(x)/x in w = -log(1 - x^2), 2^-34, and from 5 on in its square root, 2^-35 up to 17; float32 has nothing
/// beyond.
CAPSTAN_INLINE Precise erfinv(Precise x) {
  const Precise one(1), w = -log((one - x) * (one + x)), infinity(HUGE_VAL);
  const Precise near =
      polynomial(w - Precise(2.5), 1.5014093511107919, 0.24664027678526775, -0.0041773178101400348,
                 -0.0012527080836222809, 0.00021825064939995002, -4.9958814487600595e-6, -3.4171152327450104e-6,
                 4.7864482434002713e-7, 1.3691496015199152e-8, -1.0854397093112377e-8, 8.327000821030813e-10,
                 1.2302888973120804e-10, -2.1203565131819004e-11);
  const Precise far =
      polynomial(sqrt(w) - Precise(3.25), 3.0838856104975503, 1.005258967573059, 0.0053709135433227836,
                 -0.0037512050609672164, 0.002491469071927581, -0.0016883021464974384, 0.00095303740879198711,
                 -0.00035496496030017115, 2.5118224537269609e-5, 6.8263061823396275e-5, -4.9726352520679769e-5,
                 1.2264991336998144e-5, 5.6910742246356591e-6, -3.7317878655281506e-6);
  return x * select(w < Precise(5), near, select(w == infinity, infinity, far));
}

#if !defined(__AVX2__)

/// The normal distribution: its density times sqrt(2 pi), and its part below x. That below -|x| is the former by
/// 1 + |x| and by a polynomial in (|x|-4)/(|x|+4), 2^-33 up to 14.5; float32 has nothing beyond.
struct Normal {
  Precise density, part;
  CAPSTAN_INLINE explicit Normal(Precise x) : density(exp(Precise(-0.5) * x * x)), part(0) {
    const Precise one(1), limit(40), size = select(abs(x) > limit, limit, abs(x));  // infinity stays out of quotients
    const Precise near = one + size, far = Precise(4) + size, inverse = one / (near * far);
    const Precise series =
        polynomial((size - Precise(4)) * near * inverse, 0.47205320652001213, -0.096703477006058691,
                   0.013999633042212891, 0.028600348281601564, -0.032197798205523684, 0.017936332179309162,
                   -0.005002662456130065, -0.00028717775536690837, 0.00069549495983728913, -8.9426569178001331e-5,
                   -8.6983013113001261e-5, 1.3984932062135964e-5, 9.6932458653159489e-6);
    const Precise below = density * series * (far * inverse);
    part = select(x < Precise(0), below, one - below);
  }
};
CAPSTAN_INLINE Precise gelu(Precise x) { return x * Normal(x).part; }
CAPSTAN_INLINE Precise gelu_slope(Precise x) {
  const Normal normal(x);
  return normal.part + x * normal.density * Precise(0.3989422804014327);
}

#endif

CAPSTAN_INLINE Precise gelu_tanh(Precise x) {  // the formula is explained in lib/kernels/special.hpp
  const Precise u = x * (Precise(1.5957691216057307) + Precise(0.071354816272600249) * x * x);
  return x / (Precise(1) + exp(-u));
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
