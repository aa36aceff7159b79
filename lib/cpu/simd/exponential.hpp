// exp, sigmoid and tanh of float32, of one register or of a group. Included by kernels_*.cpp behind group.hpp.
//
// They begin with e^x = 2^n * (1 + p), n a whole number and |p| < 0.42: p is a short polynomial in what the nearest
// multiple of ln 2 leaves of x, and so right to 2^-25 of itself. With AVX-512 reciprocals are a guess and one step of
// Newton's, and tanh looks up polynomials instead.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

using Floats = Lanes<float>;

/// c - a*b, rounded once where the processor can.
CAPSTAN_INLINE Floats less_product(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
  return Floats(_mm512_fnmadd_ps(a.v, b.v, c.v));
#elif defined(__AVX2__)
  return Floats(_mm256_fnmadd_ps(a.v, b.v, c.v));
#else
  return fma(-a, b, c);
#endif
}

/// 2^n for |n| < 127, with AVX-512 for any n; else beyond it anything.
CAPSTAN_INLINE Floats power_of_two(Floats n) {
#if defined(__AVX512F__)
  return Floats(_mm512_scalef_ps(_mm512_set1_ps(1.0f), n.v));
#else
  return shifted_to_exponent(n);
#endif
}

/// 1/x to 2^-14 or better, for 0.5 < x < 2^100.
CAPSTAN_INLINE Floats rough_reciprocal(Floats x) {
#if defined(__AVX512F__)
  return Floats(_mm512_rcp14_ps(x.v));
#else
  return Floats(1) / x;
#endif
}

CAPSTAN_INLINE bool within(Floats x, float limit) { return all(abs(x) <= Floats(limit)); }

// The same for the registers of a group.

template <int N> using Many = Group<float, N>;

template <int N> CAPSTAN_INLINE Many<N> less_product(Many<N> a, Many<N> b, Many<N> c) {
  return for_registers_of(
      [](Floats x, Floats y, Floats z) __attribute__((always_inline)) { return less_product(x, y, z); }, a, b, c);
}
template <int N> CAPSTAN_INLINE Many<N> scaled_or_zero(Many<N> x, Many<N> n, Many<N> of, float low) {
  return for_registers_of(
      [=](Floats a, Floats b, Floats c) __attribute__((always_inline)) { return scaled_or_zero(a, b, c, low); }, x, n,
      of);
}
template <int N> CAPSTAN_INLINE Many<N> power_of_two(Many<N> n) {
  return for_registers_of(
      [](Floats a) __attribute__((always_inline)) { return power_of_two(a); }, n);
}
template <int N> CAPSTAN_INLINE Many<N> limited(Many<N> x, float low, float high) {
  return for_registers_of(
      [=](Floats a) __attribute__((always_inline)) { return limited(a, low, high); }, x);
}
template <int N> CAPSTAN_INLINE Many<N> rough_reciprocal(Many<N> x) {
  return for_registers_of(
      [](Floats a) __attribute__((always_inline)) { return rough_reciprocal(a); }, x);
}
template <int N> CAPSTAN_INLINE bool within(Many<N> x, float limit) {
  Mask<float> inside = abs(x.at[0]) <= Floats(limit);
  for (int i = 1; i < N; ++i) inside = inside & (abs(x.at[i]) <= Floats(limit));
  return all(inside);
}

// The functions. V is Floats, or a group of them.

/// e^x = 2^n * (1 + p).
template <class V> struct Exponential { V n, p; };

/// Of x a whole number of ln 2 is taken, and r is left, to which may come what x has lost.
template <class V> struct Reduced {
  V n, r;
  CAPSTAN_INLINE explicit Reduced(V x) {
    const V rounder(0x1.8p23f);  // above it there are no fractions
    n = fma(x, V(1.44269504f), rounder) - rounder;
    r = fma(n, V(2.12194440e-4f), fma(n, V(-0.693359375f), x));  // the first is exact
  }
  CAPSTAN_INLINE Exponential<V> exponential() const {
    const V square = r * r;
    // (e^r - 1 - r) / r^2 at Chebyshev's points of |r| < 0.34663
    const V low = fma(r, V(0.166665769672f), V(0.5f)), high = fma(r, V(0.0083631828052f), V(0.0416665545891f));
    return {n, fma(square, fma(square, fma(square, V(0.00139261882752f), high), low), r)};
  }
};
/// For -150 < x < 150, and NaN.
template <class V> CAPSTAN_INLINE Exponential<V> exponential(V x) { return Reduced<V>(x).exponential(); }

/// For any x.
template <class V> CAPSTAN_INLINE V exp_anywhere(V x) {
  constexpr float kLow = -104, kHigh = 89;  // beyond, it is 0 or infinite
  const Exponential<V> e = exponential(limited(x, kLow, kHigh));
  return scaled_or_zero(V(1.0f) + e.p, e.n, x, kLow);
}

#if defined(__AVX512F__)

template <class V> CAPSTAN_INLINE V exp_of(V x) { return exp_anywhere(x); }

#else

template <class V> [[gnu::noinline]] V exp_of_any(V x) { return exp_anywhere(x); }

/// 2^n is made once where no limit is near.
template <class V> CAPSTAN_INLINE V exp_of(V x) {
  if (__builtin_expect(!within(x, 87), false)) return exp_of_any(x);
  const Exponential<V> e = exponential(x);
  return (V(1.0f) + e.p) * power_of_two(e.n);
}

#endif

CAPSTAN_INLINE Floats exp(Floats x) { return exp_of(x); }
template <int N> CAPSTAN_INLINE Many<N> exp(Many<N> x) { return exp_of(x); }

/// 1/x, for 0.5 < x < 2^100. Without AVX-512 the guess is a quotient, which a step of Newton's brings no nearer.
template <class V> CAPSTAN_INLINE V reciprocal(V x) {
  const V guess = rough_reciprocal(x);
#if defined(__AVX512F__)
  return fma(less_product(guess, x, V(1.0f)), guess, guess);
#else
  return guess;
#endif
}

/// 1 / (1 + 2^n * (1 + p)) where 2^n + 1 is exact, or so large that what it is rounded by does not show.
template <class V> CAPSTAN_INLINE V reciprocal_of_one_more(Exponential<V> e) {
  const V power = power_of_two(e.n);
  return reciprocal(fma(power, e.p, power + V(1.0f)));
}

constexpr float kNear = 16;  // as far as sigmoid's 2^n + 1 is exact

/// 1 / (1 + e^-x), for any x: far from 0, with z = e^-|x|, 1 / (1 + z) or z / (1 + z). The lanes near 0 take the other
/// formula here, too: which values stand beside one depends on how threads cut a loop, and its bits must not.
[[gnu::noinline, gnu::cold]] Floats sigmoid_anywhere(Floats x) {
  const Floats size = abs(x), e = exp(select(x < Floats(0), -size, limited(-size, -21.0f, 0.0f)));
  const Floats above = select(x < Floats(0), e, Floats(1));
  const Floats z = select(size > Floats(20), Floats(0), e);  // beyond, 1 + z is 1
  const Floats guess = rough_reciprocal(Floats(1) + z), quotient = above * guess;
  const Floats far = fma(less_product(quotient, z, above - quotient), guess, quotient);
  const Floats near = reciprocal_of_one_more(exponential(limited(-x, -kNear, kNear)));
  return select(size <= Floats(kNear), near, far);
}
template <int N> CAPSTAN_INLINE Many<N> sigmoid_anywhere(Many<N> x) {
  return for_registers_of(
      [](Floats a) __attribute__((always_inline)) { return sigmoid_anywhere(a); }, x);
}
template <class V> CAPSTAN_INLINE V sigmoid_of(V x) {
  if (__builtin_expect(within(x, kNear), true)) return reciprocal_of_one_more(exponential(-x));
  return sigmoid_anywhere(x);
}
CAPSTAN_INLINE Floats sigmoid(Floats x) { return sigmoid_of(x); }
template <int N> CAPSTAN_INLINE Many<N> sigmoid(Many<N> x) { return sigmoid_of(x); }

#if defined(__AVX512F__)

/// The polynomial of place `which` in a table of 32: a register looks up so many numbers at once. Its first row are the
/// centers, the others the coefficients.
template <int Rows> CAPSTAN_INLINE Floats looked_up(const float (&table)[Rows][32], __m512i which, Floats x) {
  const auto row = [&](int i) __attribute__((always_inline)) {
    return _mm512_permutex2var_ps(_mm512_load_ps(table[i]), which, _mm512_load_ps(table[i] + 16));
  };
  const __m512 distance = _mm512_sub_ps(x.v, row(0));
  __m512 result = row(Rows - 1);
  for (int i = Rows - 2; i > 0; --i) result = _mm512_fmadd_ps(result, distance, row(i));
  return Floats(result);
}
/// Which quarter (`bits` = 2) or eighth (3) of an octave x > 0 is in, counted from 2^first; of NaN anything.
template <int bits> CAPSTAN_INLINE __m512i part_of_octave(Floats x, int first) {
  const __m512i told = _mm512_srli_epi32(_mm512_castps_si512(x.v), Format<float>::mantissa - bits);
  return _mm512_sub_epi32(told, _mm512_set1_epi32((Format<float>::bias + first) << bits));
}
CAPSTAN_INLINE Floats tanh(Floats x) {
  const Floats size(_mm512_min_ps(_mm512_set1_ps(15.999999f), _mm512_abs_ps(x.v)));  // NaN stays
  const __m512i which = _mm512_max_epi32(part_of_octave<2>(size, -4), _mm512_setzero_si512());
  return with_sign_of(x, looked_up(kTanh, which, size));
}

#else

CAPSTAN_INLINE Floats below_or_else(Floats size, Floats limit, Floats below, Floats other) {
  return select(size < limit, below, other);
}
template <int N> CAPSTAN_INLINE Many<N> below_or_else(Many<N> size, Many<N> limit, Many<N> below, Many<N> other) {
  return for_registers_of(
      [](Floats a, Floats b, Floats c, Floats d) __attribute__((always_inline)) { return below_or_else(a, b, c, d); },
      size, limit, below, other);
}
template <int N> CAPSTAN_INLINE Many<N> with_sign_of(Many<N> sign, Many<N> size) {
  return for_registers_of(
      [](Floats a, Floats b) __attribute__((always_inline)) { return with_sign_of(a, b); }, sign, size);
}

/// 1 - 2 / (e^2|x| + 1); near 0, where that would be the difference of equal numbers, by an odd polynomial.
template <class V> CAPSTAN_INLINE V tanh_of(V x) {
  const V size = abs(x),
          part = reciprocal_of_one_more(exponential(limited(size + size, 0.0f, 20.0f)));  // beyond, it is 1
  const V far = less_product(part, V(2.0f), V(1.0f));
  // (tanh(x)/x - 1) / x^2 in x^2 at Chebyshev's points up to 0.66^2, 2^-29
  const V z = x * x, z2 = z * z;
  const V low = fma(z, V(0.133332844128f), V(-0.333333330381f));
  const V middle = fma(z, V(0.0217360880499f), V(-0.0539549853604f));
  const V high = fma(z, V(0.00218386583197f), V(-0.00824236284404f));
  const V near = fma(x * z, fma(z2, fma(z2, high, middle), low), x);
  return with_sign_of(x, below_or_else(size, V(0.65f), near, far));
}
CAPSTAN_INLINE Floats tanh(Floats x) { return tanh_of(x); }
template <int N> CAPSTAN_INLINE Many<N> tanh(Many<N> x) { return tanh_of(x); }

#endif

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
