// Lanes<T>: as many values of T as one SIMD register holds, with the functions that the rules use.
// Included once by each kernels_*.cpp, inside nothing, after CAPSTAN_ISA is defined; hence no include guard.
//
// It wraps xsimd so that every symbol carries the name of its instruction set (two files must never define the same
// inline function with different instructions), and so that an old or missing xsimd costs speed and nothing else.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#if CAPSTAN_HAS_XSIMD
#include <xsimd/xsimd.hpp>
#endif

#include "lib/kernels/host_device.hpp"

#define CAPSTAN_INLINE __attribute__((always_inline)) inline

namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

#if CAPSTAN_HAS_XSIMD

template <class T> using Batch = xsimd::batch<T, xsimd::CAPSTAN_ISA_XSIMD>;

template <class T> struct Mask { typename Batch<T>::batch_bool_type bits; };

template <class T> struct Lanes {
  static constexpr int size = static_cast<int>(Batch<T>::size);
  Batch<T> v;
  CAPSTAN_INLINE Lanes() = default;
  CAPSTAN_INLINE explicit Lanes(Batch<T> b) : v(b) {}
  CAPSTAN_INLINE explicit Lanes(double x) : v(static_cast<T>(x)) {}
  CAPSTAN_INLINE explicit Lanes(float x) : v(static_cast<T>(x)) {}
  CAPSTAN_INLINE explicit Lanes(int x) : v(static_cast<T>(x)) {}
  CAPSTAN_INLINE static Lanes load(const T* p) { return Lanes(Batch<T>::load_unaligned(p)); }
  CAPSTAN_INLINE void store(T* p) const { v.store_unaligned(p); }
};

template <class T> CAPSTAN_INLINE Lanes<T> operator+(Lanes<T> a, Lanes<T> b) { return Lanes<T>(a.v + b.v); }
template <class T> CAPSTAN_INLINE Lanes<T> operator-(Lanes<T> a, Lanes<T> b) { return Lanes<T>(a.v - b.v); }
template <class T> CAPSTAN_INLINE Lanes<T> operator*(Lanes<T> a, Lanes<T> b) { return Lanes<T>(a.v * b.v); }
template <class T> CAPSTAN_INLINE Lanes<T> operator/(Lanes<T> a, Lanes<T> b) { return Lanes<T>(a.v / b.v); }
template <class T> CAPSTAN_INLINE Lanes<T> operator-(Lanes<T> a) {  // xsimd's 0 - x has the wrong sign at 0
  return Lanes<T>(a.v ^ Batch<T>(T(-0.0)));
}
template <class T> CAPSTAN_INLINE Mask<T> operator<(Lanes<T> a, Lanes<T> b) { return {a.v < b.v}; }
template <class T> CAPSTAN_INLINE Mask<T> operator<=(Lanes<T> a, Lanes<T> b) { return {a.v <= b.v}; }
template <class T> CAPSTAN_INLINE Mask<T> operator>(Lanes<T> a, Lanes<T> b) { return {a.v > b.v}; }
template <class T> CAPSTAN_INLINE Mask<T> operator>=(Lanes<T> a, Lanes<T> b) { return {a.v >= b.v}; }
template <class T> CAPSTAN_INLINE Mask<T> operator==(Lanes<T> a, Lanes<T> b) { return {a.v == b.v}; }
template <class T> CAPSTAN_INLINE Lanes<T> select(Mask<T> c, Lanes<T> a, Lanes<T> b) {
  return Lanes<T>(xsimd::select(c.bits, a.v, b.v));
}
/// a*b + c, rounded once where the processor can. xsimd 8 multiplies and adds on AVX-512.
template <class T> CAPSTAN_INLINE Lanes<T> fma(Lanes<T> a, Lanes<T> b, Lanes<T> c) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return Lanes<T>(Batch<T>(_mm512_fmadd_ps(a.v, b.v, c.v)));
  else return Lanes<T>(Batch<T>(_mm512_fmadd_pd(a.v, b.v, c.v)));
#else
  return Lanes<T>(xsimd::fma(a.v, b.v, c.v));
#endif
}
template <class T> CAPSTAN_INLINE Lanes<T> abs(Lanes<T> x) { return Lanes<T>(xsimd::abs(x.v)); }

/// `fast`, but for lanes in (low, high), where it is wrong: those ask the C library. Hardly ever taken.
template <class T, class F> CAPSTAN_INLINE Lanes<T> mend(Lanes<T> fast, Lanes<T> x, T low, T high, F library) {
  const auto wrong = (x.v > Batch<T>(low)) & (x.v < Batch<T>(high));
  if (__builtin_expect(xsimd::any(wrong), false)) {
    T from[Lanes<T>::size], to[Lanes<T>::size];
    x.store(from);
    fast.store(to);
    for (int i = 0; i < Lanes<T>::size; ++i)
      if (from[i] > low && from[i] < high) to[i] = library(from[i]);
    return Lanes<T>::load(to);
  }
  return fast;
}

/// xsimd's exp gives infinity a little too early, and 0 instead of subnormal numbers.
template <class T> CAPSTAN_INLINE Lanes<T> exp(Lanes<T> x) {
  constexpr bool f = sizeof(T) == 4;
  constexpr T top = f ? T(88) : T(709), overflow = f ? T(88.8) : T(709.8);
  constexpr T bottom = f ? T(-87.3) : T(-708.3), underflow = f ? T(-104) : T(-745.2);
  const Lanes<T> fast(xsimd::exp(x.v));
  if (__builtin_expect(!xsimd::any(xsimd::abs(x.v) > Batch<T>(-bottom)), true)) return fast;
  const auto library = [](T v) { return kernels::exp(v); };
  return mend(mend(fast, x, top, overflow, library), x, underflow, bottom, library);
}
/// xsimd's log is wrong for subnormal numbers.
template <class T> CAPSTAN_INLINE Lanes<T> log(Lanes<T> x) {
  constexpr T smallest = sizeof(T) == 4 ? T(1.17549435e-38) : T(2.2250738585072014e-308);
  return mend(Lanes<T>(xsimd::log(x.v)), x, T(0), smallest, [](T v) { return kernels::log(v); });
}
template <class T> CAPSTAN_INLINE Lanes<T> sqrt(Lanes<T> x) { return Lanes<T>(xsimd::sqrt(x.v)); }
template <class T> CAPSTAN_INLINE Lanes<T> tanh(Lanes<T> x) { return Lanes<T>(xsimd::tanh(x.v)); }

#else  // one value at a time; the compiler may still vectorize the plain arithmetic

template <class T> struct Mask { bool bits; };
template <class T> struct Lanes {
  static constexpr int size = 1;
  T v;
  CAPSTAN_INLINE Lanes() = default;
  template <class U> CAPSTAN_INLINE explicit Lanes(U x) : v(static_cast<T>(x)) {}
  CAPSTAN_INLINE static Lanes load(const T* p) { return Lanes(*p); }
  CAPSTAN_INLINE void store(T* p) const { *p = v; }
};
template <class T> CAPSTAN_INLINE Lanes<T> operator+(Lanes<T> a, Lanes<T> b) { return Lanes<T>(a.v + b.v); }
template <class T> CAPSTAN_INLINE Lanes<T> operator-(Lanes<T> a, Lanes<T> b) { return Lanes<T>(a.v - b.v); }
template <class T> CAPSTAN_INLINE Lanes<T> operator*(Lanes<T> a, Lanes<T> b) { return Lanes<T>(a.v * b.v); }
template <class T> CAPSTAN_INLINE Lanes<T> operator/(Lanes<T> a, Lanes<T> b) { return Lanes<T>(a.v / b.v); }
template <class T> CAPSTAN_INLINE Lanes<T> operator-(Lanes<T> a) { return Lanes<T>(-a.v); }
template <class T> CAPSTAN_INLINE Mask<T> operator<(Lanes<T> a, Lanes<T> b) { return {a.v < b.v}; }
template <class T> CAPSTAN_INLINE Mask<T> operator<=(Lanes<T> a, Lanes<T> b) { return {a.v <= b.v}; }
template <class T> CAPSTAN_INLINE Mask<T> operator>(Lanes<T> a, Lanes<T> b) { return {a.v > b.v}; }
template <class T> CAPSTAN_INLINE Mask<T> operator>=(Lanes<T> a, Lanes<T> b) { return {a.v >= b.v}; }
template <class T> CAPSTAN_INLINE Mask<T> operator==(Lanes<T> a, Lanes<T> b) { return {a.v == b.v}; }
template <class T> CAPSTAN_INLINE Lanes<T> select(Mask<T> c, Lanes<T> a, Lanes<T> b) { return c.bits ? a : b; }
template <class T> CAPSTAN_INLINE Lanes<T> fma(Lanes<T> a, Lanes<T> b, Lanes<T> c) { return a * b + c; }
template <class T> CAPSTAN_INLINE Lanes<T> abs(Lanes<T> x) { return Lanes<T>(kernels::abs(x.v)); }
template <class T> CAPSTAN_INLINE Lanes<T> exp(Lanes<T> x) { return Lanes<T>(kernels::exp(x.v)); }
template <class T> CAPSTAN_INLINE Lanes<T> log(Lanes<T> x) { return Lanes<T>(kernels::log(x.v)); }
template <class T> CAPSTAN_INLINE Lanes<T> sqrt(Lanes<T> x) { return Lanes<T>(kernels::sqrt(x.v)); }
template <class T> CAPSTAN_INLINE Lanes<T> tanh(Lanes<T> x) { return Lanes<T>(kernels::tanh(x.v)); }

#endif

/// The same for lanes of which the second half is not looked at. Some processors take half the time for half a register.
#if CAPSTAN_HAS_XSIMD && defined(__AVX512VL__)
template <class T> constexpr bool kHasHalves = sizeof(T) == 4;
CAPSTAN_INLINE Lanes<float> fma_half(Lanes<float> a, Lanes<float> b, Lanes<float> c) {
  const auto half = [](Lanes<float> x) { return _mm512_castps512_ps256(x.v); };
  return Lanes<float>(Batch<float>(_mm512_castps256_ps512(_mm256_fmadd_ps(half(a), half(b), half(c)))));
}
#else
template <class T> constexpr bool kHasHalves = false;
#endif

#if CAPSTAN_HAS_XSIMD && defined(__AVX2__) && !defined(__AVX512F__)
CAPSTAN_INLINE __m256i first_lanes(std::int64_t words) {
  alignas(32) static constexpr std::int32_t ones_then_zeros[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(ones_then_zeros + 8 - words));
}
#endif

#if !CAPSTAN_HAS_XSIMD || !defined(__AVX2__)
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
#if CAPSTAN_HAS_XSIMD && defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    return Lanes<T>(Batch<T>(_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), p)));
  else return Lanes<T>(Batch<T>(_mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << count) - 1), p)));
#elif CAPSTAN_HAS_XSIMD && defined(__AVX2__)
  if constexpr (sizeof(T) == 4) return Lanes<T>(Batch<T>(_mm256_maskload_ps(p, first_lanes(count))));
  else return Lanes<T>(Batch<T>(_mm256_maskload_pd(p, first_lanes(2 * count))));
#else
  return count == Lanes<T>::size ? Lanes<T>::load(p) : load_each(p, count);
#endif
}
template <class T> CAPSTAN_INLINE void store_part(Lanes<T> x, T* p, std::int64_t count) {
#if CAPSTAN_HAS_XSIMD && defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1), x.v);
  else _mm512_mask_storeu_pd(p, static_cast<__mmask8>((1u << count) - 1), x.v);
#elif CAPSTAN_HAS_XSIMD && defined(__AVX2__)
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
#if CAPSTAN_HAS_XSIMD && defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    return Lanes<T>(Batch<T>(_mm512_mask_mov_ps(rest.v, static_cast<__mmask16>((1u << count) - 1), x.v)));
  else return Lanes<T>(Batch<T>(_mm512_mask_mov_pd(rest.v, static_cast<__mmask8>((1u << count) - 1), x.v)));
#else
  T part[Lanes<T>::size];
  rest.store(part);
  store_part(x, part, count);
  return Lanes<T>::load(part);
#endif
}

template <class T> struct EvenOdd { Lanes<T> even, odd; };

/// The even and the odd elements of two registers in a row.
template <class T> CAPSTAN_INLINE EvenOdd<T> deinterleave(Lanes<T> a, Lanes<T> b) {
#if CAPSTAN_HAS_XSIMD && defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    return {Lanes<T>(Batch<T>(_mm512_permutex2var_ps(a.v, even, b.v))),
            Lanes<T>(Batch<T>(_mm512_permutex2var_ps(a.v, odd, b.v)))};
  } else {
    const __m512i even = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
    const __m512i odd = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
    return {Lanes<T>(Batch<T>(_mm512_permutex2var_pd(a.v, even, b.v))),
            Lanes<T>(Batch<T>(_mm512_permutex2var_pd(a.v, odd, b.v)))};
  }
#elif CAPSTAN_HAS_XSIMD && defined(__AVX2__)
  constexpr int kOuterThenInner = 0xD8;  // quarters 0, 2, 1, 3: halves of a register were worked on apart
  if constexpr (sizeof(T) == 4) {
    const __m256d even = _mm256_castps_pd(_mm256_shuffle_ps(a.v, b.v, 0x88));
    const __m256d odd = _mm256_castps_pd(_mm256_shuffle_ps(a.v, b.v, 0xDD));
    return {Lanes<T>(Batch<T>(_mm256_castpd_ps(_mm256_permute4x64_pd(even, kOuterThenInner)))),
            Lanes<T>(Batch<T>(_mm256_castpd_ps(_mm256_permute4x64_pd(odd, kOuterThenInner))))};
  } else {
    return {Lanes<T>(Batch<T>(_mm256_permute4x64_pd(_mm256_unpacklo_pd(a.v, b.v), kOuterThenInner))),
            Lanes<T>(Batch<T>(_mm256_permute4x64_pd(_mm256_unpackhi_pd(a.v, b.v), kOuterThenInner)))};
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
