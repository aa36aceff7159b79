// Lanes<T>: as many values of T as one SIMD register holds, with the functions that the rules use.
// Included once by each kernels_*.cpp, inside nothing, after CAPSTAN_ISA is defined; hence no include guard.
//
// Registers are the vector types of GCC and Clang, which have plain arithmetic on all processors; what they lack goes by
// intrinsics. Every symbol carries the name of its instruction set: two files must never define the same inline function
// with different instructions.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "lib/kernels/host_device.hpp"

#define CAPSTAN_INLINE __attribute__((always_inline)) inline

namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kRegisterBytes = 64;
#elif defined(__AVX2__)
constexpr int kRegisterBytes = 32;
#else
constexpr int kRegisterBytes = 16;
#endif

template <class T> struct Register {
  using Integer = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  using Unsigned = std::make_unsigned_t<Integer>;
  typedef T Values __attribute__((vector_size(kRegisterBytes)));
  typedef Integer Integers __attribute__((vector_size(kRegisterBytes)));
  typedef Unsigned Bits __attribute__((vector_size(kRegisterBytes)));
#if defined(__AVX512F__)
  using Mask = std::conditional_t<sizeof(T) == 4, __mmask16, __mmask8>;
#else
  using Mask = Integers;  // all bits of a lane, or none
#endif
};
template <class T> using Values = typename Register<T>::Values;

template <class T> struct Mask { typename Register<T>::Mask bits; };

template <class T> struct Lanes {
  static constexpr int size = kRegisterBytes / static_cast<int>(sizeof(T));
  using Bits = typename Register<T>::Bits;
  Values<T> v;
  CAPSTAN_INLINE Lanes() = default;
  CAPSTAN_INLINE explicit Lanes(Values<T> x) : v(x) {}
  CAPSTAN_INLINE explicit Lanes(double x) : v(static_cast<T>(x) - Values<T>{}) {}  // -0 + 0 would be 0
  CAPSTAN_INLINE explicit Lanes(float x) : v(static_cast<T>(x) - Values<T>{}) {}
  CAPSTAN_INLINE explicit Lanes(int x) : v(static_cast<T>(x) - Values<T>{}) {}
  CAPSTAN_INLINE static Lanes load(const T* p) {
    Lanes x;
    std::memcpy(&x.v, p, sizeof x.v);
    return x;
  }
  CAPSTAN_INLINE void store(T* p) const { std::memcpy(p, &v, sizeof v); }
  CAPSTAN_INLINE static Lanes of(Bits bits) { return Lanes(reinterpret_cast<Values<T>>(bits)); }
  CAPSTAN_INLINE Bits bits() const { return reinterpret_cast<Bits>(v); }
};

template <class T> CAPSTAN_INLINE Lanes<T> operator+(Lanes<T> a, Lanes<T> b) { return Lanes<T>(a.v + b.v); }
template <class T> CAPSTAN_INLINE Lanes<T> operator-(Lanes<T> a, Lanes<T> b) { return Lanes<T>(a.v - b.v); }
template <class T> CAPSTAN_INLINE Lanes<T> operator*(Lanes<T> a, Lanes<T> b) { return Lanes<T>(a.v * b.v); }
template <class T> CAPSTAN_INLINE Lanes<T> operator/(Lanes<T> a, Lanes<T> b) { return Lanes<T>(a.v / b.v); }
template <class T> CAPSTAN_INLINE Lanes<T> operator-(Lanes<T> a) { return Lanes<T>(-a.v); }

#if defined(__AVX512F__)
template <int how, class T> CAPSTAN_INLINE Mask<T> compared(Lanes<T> a, Lanes<T> b) {
  if constexpr (sizeof(T) == 4) return {_mm512_cmp_ps_mask(a.v, b.v, how)};
  else return {_mm512_cmp_pd_mask(a.v, b.v, how)};
}
template <class T> CAPSTAN_INLINE Mask<T> operator<(Lanes<T> a, Lanes<T> b) { return compared<_CMP_LT_OQ>(a, b); }
template <class T> CAPSTAN_INLINE Mask<T> operator<=(Lanes<T> a, Lanes<T> b) { return compared<_CMP_LE_OQ>(a, b); }
template <class T> CAPSTAN_INLINE Mask<T> operator>(Lanes<T> a, Lanes<T> b) { return compared<_CMP_GT_OQ>(a, b); }
template <class T> CAPSTAN_INLINE Mask<T> operator>=(Lanes<T> a, Lanes<T> b) { return compared<_CMP_GE_OQ>(a, b); }
template <class T> CAPSTAN_INLINE Mask<T> operator==(Lanes<T> a, Lanes<T> b) { return compared<_CMP_EQ_OQ>(a, b); }
template <class T> CAPSTAN_INLINE Lanes<T> select(Mask<T> c, Lanes<T> a, Lanes<T> b) {
  if constexpr (sizeof(T) == 4) return Lanes<T>(_mm512_mask_blend_ps(c.bits, b.v, a.v));
  else return Lanes<T>(_mm512_mask_blend_pd(c.bits, b.v, a.v));
}
#else
template <class T> CAPSTAN_INLINE Mask<T> operator<(Lanes<T> a, Lanes<T> b) { return {a.v < b.v}; }
template <class T> CAPSTAN_INLINE Mask<T> operator<=(Lanes<T> a, Lanes<T> b) { return {a.v <= b.v}; }
template <class T> CAPSTAN_INLINE Mask<T> operator>(Lanes<T> a, Lanes<T> b) { return {a.v > b.v}; }
template <class T> CAPSTAN_INLINE Mask<T> operator>=(Lanes<T> a, Lanes<T> b) { return {a.v >= b.v}; }
template <class T> CAPSTAN_INLINE Mask<T> operator==(Lanes<T> a, Lanes<T> b) { return {a.v == b.v}; }
template <class T> CAPSTAN_INLINE Lanes<T> select(Mask<T> c, Lanes<T> a, Lanes<T> b) {
#if defined(__AVX2__)
  const auto mask = reinterpret_cast<Values<T>>(c.bits);
  if constexpr (sizeof(T) == 4) return Lanes<T>(_mm256_blendv_ps(b.v, a.v, mask));
  else return Lanes<T>(_mm256_blendv_pd(b.v, a.v, mask));
#else
  const auto mask = reinterpret_cast<typename Lanes<T>::Bits>(c.bits);
  return Lanes<T>::of((a.bits() & mask) | (b.bits() & ~mask));
#endif
}
#endif
template <class T> CAPSTAN_INLINE Mask<T> operator&(Mask<T> a, Mask<T> b) {
  return {static_cast<typename Register<T>::Mask>(a.bits & b.bits)};
}
template <class T> CAPSTAN_INLINE Mask<T> operator|(Mask<T> a, Mask<T> b) {
  return {static_cast<typename Register<T>::Mask>(a.bits | b.bits)};
}
template <class T> CAPSTAN_INLINE Mask<T> operator~(Mask<T> a) {
  return {static_cast<typename Register<T>::Mask>(~a.bits)};
}
/// Whether it holds in any lane.
template <class T> CAPSTAN_INLINE bool any(Mask<T> mask) {
#if defined(__AVX512F__)
  return mask.bits != 0;
#elif defined(__AVX2__)
  return !_mm256_testz_si256(reinterpret_cast<__m256i>(mask.bits), reinterpret_cast<__m256i>(mask.bits));
#elif defined(__SSE2__)
  return _mm_movemask_epi8(reinterpret_cast<__m128i>(mask.bits)) != 0;
#elif defined(__aarch64__)
  return vmaxvq_u32((uint32x4_t)mask.bits) != 0;
#else
  typename Register<T>::Integer seen = 0;
  for (int i = 0; i < Lanes<T>::size; ++i) seen |= mask.bits[i];
  return seen != 0;
#endif
}
template <class T> CAPSTAN_INLINE bool all(Mask<T> mask) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  return _mm256_testc_si256(reinterpret_cast<__m256i>(mask.bits), _mm256_set1_epi32(-1));
#else
  return !any(~mask);
#endif
}

/// The first lane in which it holds, which one does.
template <class T> CAPSTAN_INLINE int first_lane(Mask<T> mask) {
#if defined(__AVX512F__)
  return __builtin_ctz(mask.bits);
#elif defined(__AVX2__)
  return __builtin_ctz(static_cast<unsigned>(_mm256_movemask_epi8(reinterpret_cast<__m256i>(mask.bits)))) /
         static_cast<int>(sizeof(T));
#else
  int lane = 0;
  while (mask.bits[lane] == 0) ++lane;
  return lane;
#endif
}

/// The larger of each pair; b where either is NaN.
template <class T> CAPSTAN_INLINE Lanes<T> larger(Lanes<T> a, Lanes<T> b) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return Lanes<T>(_mm512_max_ps(a.v, b.v));
  else return Lanes<T>(_mm512_max_pd(a.v, b.v));
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4) return Lanes<T>(_mm256_max_ps(a.v, b.v));
  else return Lanes<T>(_mm256_max_pd(a.v, b.v));
#else
  return select(a > b, a, b);
#endif
}
/// Where one of the two is NaN.
template <class T> CAPSTAN_INLINE Mask<T> unordered(Lanes<T> a, Lanes<T> b) {
#if defined(__AVX512F__)
  return compared<_CMP_UNORD_Q>(a, b);
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4)
    return {reinterpret_cast<typename Register<T>::Mask>(_mm256_cmp_ps(a.v, b.v, _CMP_UNORD_Q))};
  else return {reinterpret_cast<typename Register<T>::Mask>(_mm256_cmp_pd(a.v, b.v, _CMP_UNORD_Q))};
#else
  return ~((a == a) & (b == b));
#endif
}

/// a*b + c, rounded once where the processor can.
template <class T> CAPSTAN_INLINE Lanes<T> fma(Lanes<T> a, Lanes<T> b, Lanes<T> c) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return Lanes<T>(_mm512_fmadd_ps(a.v, b.v, c.v));
  else return Lanes<T>(_mm512_fmadd_pd(a.v, b.v, c.v));
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4) return Lanes<T>(_mm256_fmadd_ps(a.v, b.v, c.v));
  else return Lanes<T>(_mm256_fmadd_pd(a.v, b.v, c.v));
#elif defined(__aarch64__)
  if constexpr (sizeof(T) == 4) return Lanes<T>(vfmaq_f32(c.v, a.v, b.v));
  else return Lanes<T>(vfmaq_f64(c.v, a.v, b.v));
#else
  return a * b + c;
#endif
}
template <class T> CAPSTAN_INLINE Lanes<T> sqrt(Lanes<T> x) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return Lanes<T>(_mm512_sqrt_ps(x.v));
  else return Lanes<T>(_mm512_sqrt_pd(x.v));
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4) return Lanes<T>(_mm256_sqrt_ps(x.v));
  else return Lanes<T>(_mm256_sqrt_pd(x.v));
#elif defined(__SSE2__)
  if constexpr (sizeof(T) == 4) return Lanes<T>(_mm_sqrt_ps(x.v));
  else return Lanes<T>(_mm_sqrt_pd(x.v));
#elif defined(__aarch64__)
  if constexpr (sizeof(T) == 4) return Lanes<T>(vsqrtq_f32(x.v));
  else return Lanes<T>(vsqrtq_f64(x.v));
#else
  for (int i = 0; i < Lanes<T>::size; ++i) x.v[i] = std::sqrt(x.v[i]);
  return x;
#endif
}

/// Whole numbers near x, by a function of scalars where the processor has none of registers; `how` is what it takes.
template <int how, class T, class F> CAPSTAN_INLINE Lanes<T> rounded(Lanes<T> x, F library) {
#if defined(__AVX512F__)
  (void)library;
  if constexpr (sizeof(T) == 4) return Lanes<T>(_mm512_roundscale_ps(x.v, how));
  else return Lanes<T>(_mm512_roundscale_pd(x.v, how));
#elif defined(__AVX2__)
  (void)library;
  if constexpr (sizeof(T) == 4) return Lanes<T>(_mm256_round_ps(x.v, how));
  else return Lanes<T>(_mm256_round_pd(x.v, how));
#else
  for (int i = 0; i < Lanes<T>::size; ++i) x.v[i] = library(x.v[i]);
  return x;
#endif
}
constexpr int kToNearest = 8, kDown = 9, kUp = 10, kToZero = 11;  // x86's, of which 8 lets no flag be raised
template <class T> CAPSTAN_INLINE Lanes<T> ceil(Lanes<T> x) {
  return rounded<kUp>(x, [](T v) { return kernels::ceil(v); });
}
template <class T> CAPSTAN_INLINE Lanes<T> floor(Lanes<T> x) {
  return rounded<kDown>(x, [](T v) { return kernels::floor(v); });
}
template <class T> CAPSTAN_INLINE Lanes<T> round(Lanes<T> x) {
  return rounded<kToNearest>(x, [](T v) { return kernels::round(v); });
}
template <class T> CAPSTAN_INLINE Lanes<T> trunc(Lanes<T> x) {
  return rounded<kToZero>(x, [](T v) { return kernels::trunc(v); });
}
template <class T> CAPSTAN_INLINE Lanes<T> abs(Lanes<T> x) { return Lanes<T>::of(x.bits() & ~Lanes<T>(-0.0).bits()); }
/// A value that is not negative, with the sign of another.
template <class T> CAPSTAN_INLINE Lanes<T> with_sign_of(Lanes<T> sign, Lanes<T> size) {
  return Lanes<T>::of(size.bits() | (sign.bits() & Lanes<T>(-0.0).bits()));
}
/// x, but no less than `low` and no more than `high`; NaN stays.
template <class T> CAPSTAN_INLINE Lanes<T> limited(Lanes<T> x, T low, T high) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    return Lanes<T>(_mm512_max_ps(_mm512_set1_ps(low), _mm512_min_ps(_mm512_set1_ps(high), x.v)));
  else return Lanes<T>(_mm512_max_pd(_mm512_set1_pd(low), _mm512_min_pd(_mm512_set1_pd(high), x.v)));
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4)
    return Lanes<T>(_mm256_max_ps(_mm256_set1_ps(low), _mm256_min_ps(_mm256_set1_ps(high), x.v)));
  else return Lanes<T>(_mm256_max_pd(_mm256_set1_pd(low), _mm256_min_pd(_mm256_set1_pd(high), x.v)));
#else
  const Lanes<T> below = select(x > Lanes<T>(high), Lanes<T>(high), x);
  return select(below < Lanes<T>(low), Lanes<T>(low), below);
#endif
}

/// `fast`, but for lanes in (low, high), where it is wrong: those ask the C library. Hardly ever taken.
template <class T, class F> CAPSTAN_INLINE Lanes<T> mend(Lanes<T> fast, Lanes<T> x, T low, T high, F library) {
  const Mask<T> wrong = (x > Lanes<T>(low)) & (x < Lanes<T>(high));
  if (__builtin_expect(any(wrong), false)) {
    T from[Lanes<T>::size], to[Lanes<T>::size];
    x.store(from);
    fast.store(to);
    for (int i = 0; i < Lanes<T>::size; ++i)
      if (from[i] > low && from[i] < high) to[i] = library(from[i]);
    return Lanes<T>::load(to);
  }
  return fast;
}

/// The same for lanes of which the second half is not looked at. Some processors take half the time for half a register.
#if defined(__AVX512VL__)
template <class T> constexpr bool kHasHalves = sizeof(T) == 4;
CAPSTAN_INLINE Lanes<float> fma_half(Lanes<float> a, Lanes<float> b, Lanes<float> c) {
  const auto half = [](Lanes<float> x) { return _mm512_castps512_ps256(x.v); };
  return Lanes<float>(_mm512_castps256_ps512(_mm256_fmadd_ps(half(a), half(b), half(c))));
}
#else
template <class T> constexpr bool kHasHalves = false;
#endif

#if defined(__AVX2__) && !defined(__AVX512F__)
CAPSTAN_INLINE __m256i first_lanes(std::int64_t words) {
  alignas(32) static constexpr std::int32_t ones_then_zeros[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(ones_then_zeros + 8 - words));
}
#endif

#if !defined(__AVX2__)
// Without masks lanes go one by one. Not inlined where these kernels hardly ever run: it is code of much size.
#if CAPSTAN_SIMD_X86
#define CAPSTAN_LANE_BY_LANE [[gnu::noinline]]
#else
#define CAPSTAN_LANE_BY_LANE CAPSTAN_INLINE
#endif
template <class T> CAPSTAN_LANE_BY_LANE Lanes<T> load_each(const T* p, std::int64_t count) {
  T part[Lanes<T>::size] = {};
  for (std::int64_t i = 0; i < count; ++i) part[i] = p[i];
  return Lanes<T>::load(part);
}
template <class T> CAPSTAN_LANE_BY_LANE void store_each(Lanes<T> x, T* p, std::int64_t count) {
  T part[Lanes<T>::size];
  x.store(part);
  for (std::int64_t i = 0; i < count; ++i) p[i] = part[i];
}
#undef CAPSTAN_LANE_BY_LANE
#endif

// The first `count` (1 .. size) lanes; the others are zero, and are not written.
template <class T> CAPSTAN_INLINE Lanes<T> load_part(const T* p, std::int64_t count) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return Lanes<T>(_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), p));
  else return Lanes<T>(_mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << count) - 1), p));
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4) return Lanes<T>(_mm256_maskload_ps(p, first_lanes(count)));
  else return Lanes<T>(_mm256_maskload_pd(p, first_lanes(2 * count)));
#else
  return count == Lanes<T>::size ? Lanes<T>::load(p) : load_each(p, count);
#endif
}
template <class T> CAPSTAN_INLINE void store_part(Lanes<T> x, T* p, std::int64_t count) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1), x.v);
  else _mm512_mask_storeu_pd(p, static_cast<__mmask8>((1u << count) - 1), x.v);
#elif defined(__AVX2__)
  // AMD's processors take 13 cycles for a store with a mask, and 30 until it can be loaded: it goes in pieces
  if (count == Lanes<T>::size) return x.store(p);
  if constexpr (sizeof(T) == 4) {
    __m128 piece = _mm256_castps256_ps128(x.v);
    if (count & 4) _mm_storeu_ps(p, piece), piece = _mm256_extractf128_ps(x.v, 1), p += 4;
    if (count & 2) _mm_storel_pi(reinterpret_cast<__m64*>(p), piece), piece = _mm_movehl_ps(piece, piece), p += 2;
    if (count & 1) _mm_store_ss(p, piece);
  } else {
    __m128d piece = _mm256_castpd256_pd128(x.v);
    if (count & 2) _mm_storeu_pd(p, piece), piece = _mm256_extractf128_pd(x.v, 1), p += 2;
    if (count & 1) _mm_store_sd(p, piece);
  }
#else
  if (count == Lanes<T>::size) x.store(p);
  else store_each(x, p, count);
#endif
}

/// The same for those who mostly have a whole register.
template <class T> CAPSTAN_INLINE Lanes<T> load_lanes(const T* p, std::int64_t count) {
  return count == Lanes<T>::size ? Lanes<T>::load(p) : load_part(p, count);
}
template <class T> CAPSTAN_INLINE void store_lanes(Lanes<T> x, T* p, std::int64_t count) {
  if (count == Lanes<T>::size) x.store(p);
  else store_part(x, p, count);
}

/// The number of values in a whole register, which needs no mask.
struct Whole {};
template <class T> CAPSTAN_INLINE Lanes<T> load_part(const T* p, Whole) { return Lanes<T>::load(p); }
template <class T> CAPSTAN_INLINE void store_part(Lanes<T> x, T* p, Whole) { x.store(p); }

/// The first `count` (1 .. size) lanes of x, the others of `rest`.
template <class T> CAPSTAN_INLINE Lanes<T> first_of(Lanes<T> x, std::int64_t count, Lanes<T> rest = Lanes<T>(0)) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    return Lanes<T>(_mm512_mask_mov_ps(rest.v, static_cast<__mmask16>((1u << count) - 1), x.v));
  else return Lanes<T>(_mm512_mask_mov_pd(rest.v, static_cast<__mmask8>((1u << count) - 1), x.v));
#elif defined(__AVX2__)
  const auto words = static_cast<std::int64_t>(sizeof(T) / 4);
  return select(Mask<T>{reinterpret_cast<typename Register<T>::Mask>(first_lanes(words * count))}, x, rest);
#else
  T part[Lanes<T>::size];
  rest.store(part);
  store_part(x, part, count);
  return Lanes<T>::load(part);
#endif
}

/// One value of all lanes: `f` of two halves, and so on.
template <class T, class F> CAPSTAN_INLINE T folded(Lanes<T> x, F f) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    x = f(x, Lanes<T>(_mm256_permute2f128_ps(x.v, x.v, 1)));
    x = f(x, Lanes<T>(_mm256_permute_ps(x.v, 0x4E)));
    return _mm256_cvtss_f32(f(x, Lanes<T>(_mm256_permute_ps(x.v, 0xB1))).v);
  } else {
    x = f(x, Lanes<T>(_mm256_permute2f128_pd(x.v, x.v, 1)));
    return _mm256_cvtsd_f64(f(x, Lanes<T>(_mm256_permute_pd(x.v, 5))).v);
  }
#else
  for (int width = Lanes<T>::size / 2; width > 0; width /= 2) {
    Lanes<T> half(0);
    for (int i = 0; i < width; ++i) half.v[i] = x.v[i + width];
    x = f(x, half);
  }
  return x.v[0];
#endif
}

template <class T> struct EvenOdd { Lanes<T> even, odd; };

/// The even and the odd elements of two registers in a row.
template <class T> CAPSTAN_INLINE EvenOdd<T> deinterleave(Lanes<T> a, Lanes<T> b) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    return {Lanes<T>(_mm512_permutex2var_ps(a.v, even, b.v)), Lanes<T>(_mm512_permutex2var_ps(a.v, odd, b.v))};
  } else {
    const __m512i even = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
    const __m512i odd = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
    return {Lanes<T>(_mm512_permutex2var_pd(a.v, even, b.v)), Lanes<T>(_mm512_permutex2var_pd(a.v, odd, b.v))};
  }
#elif defined(__AVX2__)
  constexpr int kOuterThenInner = 0xD8;  // quarters 0, 2, 1, 3: halves of a register were worked on apart
  if constexpr (sizeof(T) == 4) {
    const __m256d even = _mm256_castps_pd(_mm256_shuffle_ps(a.v, b.v, 0x88));
    const __m256d odd = _mm256_castps_pd(_mm256_shuffle_ps(a.v, b.v, 0xDD));
    return {Lanes<T>(_mm256_castpd_ps(_mm256_permute4x64_pd(even, kOuterThenInner))),
            Lanes<T>(_mm256_castpd_ps(_mm256_permute4x64_pd(odd, kOuterThenInner)))};
  } else {
    return {Lanes<T>(_mm256_permute4x64_pd(_mm256_unpacklo_pd(a.v, b.v), kOuterThenInner)),
            Lanes<T>(_mm256_permute4x64_pd(_mm256_unpackhi_pd(a.v, b.v), kOuterThenInner))};
  }
#else
  constexpr int size = Lanes<T>::size;
  T both[2 * size], even[size], odd[size];
  a.store(both);
  b.store(both + size);
  for (int i = 0; i < size; ++i) even[i] = both[2 * i], odd[i] = both[2 * i + 1];
  return {Lanes<T>::load(even), Lanes<T>::load(odd)};
#endif
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
