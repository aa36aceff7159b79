#pragma once
// What scalar rules are written with, so that one text serves host scalars, SIMD batches, CUDA threads and tensors.
//
// A bare exp(float) can silently become double on the host, hence overloads of our own for float and double. Batches
// and tensors bring theirs, found by argument-dependent lookup.
#include <cmath>
#include <cstdint>

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

template <class T> CAPSTAN_HD T abs(T x) requires(__is_same(T, std::int32_t) || __is_same(T, std::int64_t)) {
  return x < 0 ? static_cast<T>(-static_cast<std::make_unsigned_t<T>>(x)) : x;
}
CAPSTAN_HD std::uint8_t abs(std::uint8_t x) { return x; }

template <class T> CAPSTAN_HD T select(bool condition, T yes, T no) { return condition ? yes : no; }

/// Which values a backward rule receives behind the gradient.
enum class Saves { nothing, input, output };
/// The element types a rule accepts.
enum class Domain { floating, numbers, boolean };

}  // namespace capstan::kernels
