#pragma once
// Element types in kernels: 16-bit ones are computed in float and rounded once; several elements move as 16 bytes.
#include <cstdint>
#include <type_traits>

#include <capstan/half.hpp>

#include "lib/core/dispatch.hpp"

namespace capstan::on_cuda {

/// What arithmetic on T is done in.
template <class T>
using Compute = std::conditional_t<core::kIsHalf<T>, float, T>;

/// To the type of arithmetic, and back with one rounding to nearest even. On the GPU one instruction each.
template <class T>
__device__ inline Compute<T> widen(T x) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, float16>) {
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits()));
    return result;
  } else
#endif
    return static_cast<Compute<T>>(x);
}
template <class T>
__device__ inline T narrow(Compute<T> x) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, float16>) {
    std::uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return float16::from_bits(bits);
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    std::uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bfloat16::from_bits(bits);
  } else
#endif
    return static_cast<T>(x);
}

/// N elements that are loaded and stored with one instruction.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T values[N];
};
template <class T>
inline constexpr int kPack = 16 / sizeof(T);

/// Whether packs can be read from and written to there.
template <class... Pointers>
bool aligned16(const Pointers*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

}  // namespace capstan::on_cuda
