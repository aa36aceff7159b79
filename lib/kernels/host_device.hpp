#pragma once
// What scalar rules are written with, so that one text serves host scalars, SIMD lanes, CUDA threads and tensors.
//
// A bare exp(float) can silently become double on the host, hence overloads of our own for float and double. Lanes
// and tensors bring theirs, found by argument-dependent lookup.
#include <cmath>
#include <cstdint>
#include <type_traits>

#if defined(__CUDACC__)
#define CAPSTAN_HD __host__ __device__ __forceinline__
#else
#define CAPSTAN_HD __attribute__((always_inline)) inline
#endif

namespace capstan::kernels {

CAPSTAN_HD float exp(float x) { return ::expf(x); }
CAPSTAN_HD double exp(double x) { return ::exp(x); }
CAPSTAN_HD float log(float x) { return ::logf(x); }
CAPSTAN_HD double log(double x) { return ::log(x); }
CAPSTAN_HD float sqrt(float x) { return ::sqrtf(x); }
CAPSTAN_HD double sqrt(double x) { return ::sqrt(x); }
CAPSTAN_HD float tanh(float x) { return ::tanhf(x); }
CAPSTAN_HD double tanh(double x) { return ::tanh(x); }
CAPSTAN_HD float pow(float x, float y) { return ::powf(x, y); }
CAPSTAN_HD double pow(double x, double y) { return ::pow(x, y); }
CAPSTAN_HD float abs(float x) { return ::fabsf(x); }
CAPSTAN_HD double abs(double x) { return ::fabs(x); }

// The C library's functions. On the host those for float round the ones for double, and so err by half a unit.
#if defined(__CUDA_ARCH__)
#define CAPSTAN_LIBRARY_FUNCTION(name)                    \
  CAPSTAN_HD float name(float x) { return ::name##f(x); } \
  CAPSTAN_HD double name(double x) { return ::name(x); }
#define CAPSTAN_LIBRARY_FUNCTION_2(name)                              \
  CAPSTAN_HD float name(float a, float b) { return ::name##f(a, b); } \
  CAPSTAN_HD double name(double a, double b) { return ::name(a, b); }
#else
#define CAPSTAN_LIBRARY_FUNCTION(name)                                                          \
  CAPSTAN_HD float name(float x) { return static_cast<float>(::name(static_cast<double>(x))); } \
  CAPSTAN_HD double name(double x) { return ::name(x); }
#define CAPSTAN_LIBRARY_FUNCTION_2(name)                                               \
  CAPSTAN_HD float name(float a, float b) {                                            \
    return static_cast<float>(::name(static_cast<double>(a), static_cast<double>(b))); \
  }                                                                                    \
  CAPSTAN_HD double name(double a, double b) { return ::name(a, b); }
#endif
CAPSTAN_LIBRARY_FUNCTION(acos)
CAPSTAN_LIBRARY_FUNCTION(acosh)
CAPSTAN_LIBRARY_FUNCTION(asin)
CAPSTAN_LIBRARY_FUNCTION(asinh)
CAPSTAN_LIBRARY_FUNCTION(atan)
CAPSTAN_LIBRARY_FUNCTION(atanh)
CAPSTAN_LIBRARY_FUNCTION(cos)
CAPSTAN_LIBRARY_FUNCTION(cosh)
CAPSTAN_LIBRARY_FUNCTION(erf)
CAPSTAN_LIBRARY_FUNCTION(exp2)
CAPSTAN_LIBRARY_FUNCTION(expm1)
CAPSTAN_LIBRARY_FUNCTION(log10)
CAPSTAN_LIBRARY_FUNCTION(log1p)
CAPSTAN_LIBRARY_FUNCTION(log2)
CAPSTAN_LIBRARY_FUNCTION(sin)
CAPSTAN_LIBRARY_FUNCTION(sinh)
CAPSTAN_LIBRARY_FUNCTION(tan)
CAPSTAN_LIBRARY_FUNCTION_2(atan2)
CAPSTAN_LIBRARY_FUNCTION_2(hypot)
#undef CAPSTAN_LIBRARY_FUNCTION
#undef CAPSTAN_LIBRARY_FUNCTION_2

// Exact in either type.
#define CAPSTAN_EXACT_FUNCTION(name, library)                \
  CAPSTAN_HD float name(float x) { return ::library##f(x); } \
  CAPSTAN_HD double name(double x) { return ::library(x); }
CAPSTAN_EXACT_FUNCTION(ceil, ceil)
CAPSTAN_EXACT_FUNCTION(floor, floor)
CAPSTAN_EXACT_FUNCTION(round, rint)  // half to even
CAPSTAN_EXACT_FUNCTION(trunc, trunc)
#undef CAPSTAN_EXACT_FUNCTION
#define CAPSTAN_EXACT_FUNCTION_2(name)                                \
  CAPSTAN_HD float name(float a, float b) { return ::name##f(a, b); } \
  CAPSTAN_HD double name(double a, double b) { return ::name(a, b); }
CAPSTAN_EXACT_FUNCTION_2(copysign)
CAPSTAN_EXACT_FUNCTION_2(fmod)
CAPSTAN_EXACT_FUNCTION_2(nextafter)
#undef CAPSTAN_EXACT_FUNCTION_2

/// a * b, rounded before anything is added to it: nvcc fuses what it can.
CAPSTAN_HD float rounded_product(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
CAPSTAN_HD double rounded_product(double a, double b) {
#if defined(__CUDA_ARCH__)
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

template <class T> CAPSTAN_HD T rounded_product(const T& a, const T& b) { return a * b; }

// glibc's double functions err by 4 and 5 ULP here, and by any number of them where lgamma crosses zero; its long
// double ones, rounded, by half a unit.
CAPSTAN_HD float cbrt(float x) {
#if defined(__CUDA_ARCH__)
  return ::cbrtf(x);
#else
  return static_cast<float>(::cbrt(static_cast<double>(x)));
#endif
}
CAPSTAN_HD double cbrt(double x) {
#if defined(__CUDACC__)
  return ::cbrt(x);
#else
  return static_cast<double>(::cbrtl(static_cast<long double>(x)));
#endif
}
CAPSTAN_HD float erfc(float x) {
#if defined(__CUDA_ARCH__)
  return ::erfcf(x);
#else
  return static_cast<float>(::erfc(static_cast<double>(x)));
#endif
}
CAPSTAN_HD double erfc(double x) {
#if defined(__CUDACC__)
  return ::erfc(x);
#else
  return x < 0.5 ? ::erfc(x) : static_cast<double>(::erfcl(static_cast<long double>(x)));  // the tail is the trouble
#endif
}
// With _r, which leave the global `signgam` alone.
CAPSTAN_HD float lgamma(float x) {
#if defined(__CUDACC__) || !defined(__GLIBC__)
  return ::lgammaf(x);
#else
  int sign = 0;
  return static_cast<float>(::lgamma_r(static_cast<double>(x), &sign));
#endif
}
CAPSTAN_HD double lgamma(double x) {
#if defined(__CUDACC__) || !defined(__GLIBC__)
  return ::lgamma(x);
#else
  int sign = 0;
  return static_cast<double>(::lgammal_r(static_cast<long double>(x), &sign));
#endif
}

template <class T> CAPSTAN_HD T select(bool condition, T yes, T no) { return condition ? yes : no; }

// --- division with a whole quotient ---

/// The sign is the divisor's, as in Python: a - b*floor(a/b).
template <class T> CAPSTAN_HD T remainder(T a, T b) requires(!std::is_integral_v<T>) {
  const T zero(0), r = fmod(a, b), moved = r + b;
  return select(r == zero, copysign(zero, b), select(r < zero, select(b < zero, r, moved), select(b < zero, moved, r)));
}
/// floor(a/b), from the exact remainder; what a/b is where that is NaN or infinite.
template <class T> CAPSTAN_HD T floor_divide(T a, T b) requires(!std::is_integral_v<T>) {
  const T zero(0), one(1), r = fmod(a, b), exact = a / b, multiple = (a - r) / b, below = multiple - one;
  const T quotient = select(r < zero, select(b < zero, multiple, below),
                            select(r > zero, select(b < zero, below, multiple), multiple));
  const T down = floor(quotient), whole = select(quotient - down > T(0.5), down + one, down);
  return select(r == r, select(quotient == zero, copysign(zero, exact), whole), exact);
}

// --- integers: they wrap around, and a division by zero gives 0 ---

template <class T> CAPSTAN_HD T abs(T x) requires(std::is_integral_v<T>) {
  if constexpr (std::is_signed_v<T>) return x < 0 ? static_cast<T>(-static_cast<std::make_unsigned_t<T>>(x)) : x;
  else return x;
}
template <class T> CAPSTAN_HD T ceil(T x) requires(std::is_integral_v<T>) { return x; }
template <class T> CAPSTAN_HD T floor(T x) requires(std::is_integral_v<T>) { return x; }
template <class T> CAPSTAN_HD T round(T x) requires(std::is_integral_v<T>) { return x; }
template <class T> CAPSTAN_HD T trunc(T x) requires(std::is_integral_v<T>) { return x; }

/// Whether a / b would trap; the smallest number divided by -1 is among them.
template <class T> CAPSTAN_HD bool is_minus_one(T b) {
  if constexpr (std::is_signed_v<T>) return b == T(-1);
  else return false;
}
template <class T> CAPSTAN_HD T fmod(T a, T b) requires(std::is_integral_v<T>) {
  return b == T(0) || is_minus_one(b) ? T(0) : static_cast<T>(a % b);
}
template <class T> CAPSTAN_HD T remainder(T a, T b) requires(std::is_integral_v<T>) {
  const T r = fmod(a, b);
  return r != T(0) && (r < T(0)) != (b < T(0)) ? static_cast<T>(r + b) : r;
}
template <class T> CAPSTAN_HD T floor_divide(T a, T b) requires(std::is_integral_v<T>) {
  if (b == T(0)) return T(0);
  if (is_minus_one(b)) return static_cast<T>(std::make_unsigned_t<T>(0) - static_cast<std::make_unsigned_t<T>>(a));
  const bool down = a % b != 0 && (a < T(0)) != (b < T(0));
  return static_cast<T>(a / b - (down ? 1 : 0));
}

/// log(x / (1 - x)). Around 1/2, where that quotient is nearly 1, it is log((1 + y) / (1 - y)), y = 2x - 1, which is
/// exact.
template <class T> CAPSTAN_HD T logit(T x) {
  const T y = T(2) * x - T(1), size = abs(y), near = log1p((size + size) / (T(1) - size));
  return select(size < T(0.5), select(y < T(0), -near, near), log(x / (T(1) - x)));
}
/// The gradient of what does not change: zero, of the argument's kind.
template <class T> CAPSTAN_HD T zero_of(T) { return T(0); }

/// Which values a backward rule receives behind the gradient.
enum class Saves { nothing, input, output };
/// The element types a rule accepts.
enum class Domain { floating, numbers, boolean };
/// How the CPU evaluates a rule, and its gradient unless the row says `evaluate_backward`; `lanes` if it does not say.
///   lanes      in registers of its own type
///   functions  the same, by functions that take some time; float64 one value after the other without AVX2
///   precise    float32 in registers of float64, rounded once at the end; float64 as by `functions`
///   library    float32 in registers of float64, rounded once at the end; float64 one value after the other
///   scalar     one value after the other
enum class Evaluate { lanes, functions, precise, library, scalar };

}  // namespace capstan::kernels
