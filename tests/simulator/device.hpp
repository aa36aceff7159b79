#pragma once
// What device code finds on a GPU, for the simulated one. Included before everything else in the sources of cuda/.
#include <cuda_runtime.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "tests/simulator/block.hpp"
#include "tests/simulator/runtime.hpp"

// One block runs at a time, so that what its threads share can be static.
#undef __shared__
#define __shared__ static
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __grid_constant__
#define __grid_constant__

inline constinit thread_local uint3 threadIdx{};
inline constinit thread_local uint3 blockIdx{};
inline constinit thread_local dim3 blockDim{};
inline constinit thread_local dim3 gridDim{};
inline constexpr int warpSize = 32;

namespace simulated {
template <class... Parameters, class... Arguments>
cudaError_t launch_kernel(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...), Arguments&&... arguments) {
  return launch(*config, [kernel, values = std::tuple<Parameters...>(arguments...)] { std::apply(kernel, values); });
}
}  // namespace simulated
// CUDA's own hands on the addresses of the arguments alone.
#define cudaLaunchKernelEx simulated::launch_kernel

inline void __syncthreads() { simulated::wait_for_block(); }
inline void __syncwarp(unsigned = ~0u) { simulated::share_in_warp(0); }
inline int __syncthreads_or(int value) {
  static int any;
  simulated::wait_for_block();
  any = 0;
  simulated::wait_for_block();
  any |= value;
  simulated::wait_for_block();
  return any != 0;
}
inline int __syncthreads_and(int value) { return !__syncthreads_or(!value); }
inline int __syncthreads_count(int value) {
  static int all;
  simulated::wait_for_block();
  all = 0;
  simulated::wait_for_block();
  all += value != 0;
  simulated::wait_for_block();
  return all;
}
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}

namespace simulated {
template <class T>
std::uint64_t bits_of(T value) {
  static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8, "CUDA exchanges numbers of 4 and 8 bytes");
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T>
T from_lane(const Lanes& lanes, unsigned from) {
  T value;
  std::memcpy(&value, &lanes.values[from % 32], sizeof value);
  return value;
}
/// The value of lane `from` in segments of `width` lanes; the own one if that lies outside.
template <class T>
T exchange(T value, int from, int width) {
  const int own = static_cast<int>(lane()), segment = own / width * width;
  const Lanes& lanes = share_in_warp(bits_of(value));
  return from_lane<T>(lanes, static_cast<unsigned>(from >= segment && from < segment + width ? from : own));
}
}  // namespace simulated

template <class T>
T __shfl_sync(unsigned, T value, int from, int width = 32) {
  const int segment = static_cast<int>(simulated::lane()) / width * width;
  return simulated::exchange(value, segment + (from % width + width) % width, width);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask, int width = 32) {
  return simulated::exchange(value, static_cast<int>(simulated::lane()) ^ mask, width);
}
template <class T>
T __shfl_down_sync(unsigned, T value, unsigned away, int width = 32) {
  return simulated::exchange(value, static_cast<int>(simulated::lane() + away), width);
}
template <class T>
T __shfl_up_sync(unsigned, T value, unsigned away, int width = 32) {
  return simulated::exchange(value, static_cast<int>(simulated::lane()) - static_cast<int>(away), width);
}
inline unsigned __ballot_sync(unsigned, int predicate) {
  const simulated::Lanes& lanes = simulated::share_in_warp(predicate != 0);
  unsigned result = 0;
  for (unsigned i = 0; i < 32; ++i)
    if ((lanes.present >> i & 1) != 0 && lanes.values[i] != 0) result |= 1u << i;
  return result;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }
template <class T>
unsigned __match_any_sync(unsigned, T value) {
  const std::uint64_t own = simulated::bits_of(value);
  const simulated::Lanes& lanes = simulated::share_in_warp(own);
  unsigned result = 0;
  for (unsigned i = 0; i < 32; ++i)
    if ((lanes.present >> i & 1) != 0 && lanes.values[i] == own) result |= 1u << i;
  return result;
}

// Fibers give way only where they wait, so plain reading and writing is atomic.
#define CAPSTAN_SIMULATED_ATOMIC(name, result)               \
  template <class T>                                         \
  T name(T* place, std::type_identity_t<T> value) {          \
    const T old = *place;                                    \
    *place = static_cast<T>(result);                         \
    return old;                                              \
  }                                                          \
  template <class T>                                         \
  T name##_system(T* place, std::type_identity_t<T> value) { \
    return name(place, value);                               \
  }                                                          \
  template <class T>                                         \
  T name##_block(T* place, std::type_identity_t<T> value) {  \
    return name(place, value);                               \
  }
CAPSTAN_SIMULATED_ATOMIC(atomicAdd, old + value)
CAPSTAN_SIMULATED_ATOMIC(atomicSub, old - value)
CAPSTAN_SIMULATED_ATOMIC(atomicExch, value)
CAPSTAN_SIMULATED_ATOMIC(atomicMin, value < old ? value : old)
CAPSTAN_SIMULATED_ATOMIC(atomicMax, value > old ? value : old)
CAPSTAN_SIMULATED_ATOMIC(atomicAnd, old& value)
CAPSTAN_SIMULATED_ATOMIC(atomicOr, old | value)
CAPSTAN_SIMULATED_ATOMIC(atomicXor, old ^ value)
#undef CAPSTAN_SIMULATED_ATOMIC
template <class T>
T atomicCAS(T* place, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  const T old = *place;
  if (std::memcmp(&old, &expected, sizeof old) == 0) *place = value;
  return old;
}
template <class T>
T atomicCAS_system(T* place, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return atomicCAS(place, expected, value);
}

template <class T>
T __ldg(const T* place) {
  return *place;
}
template <class T>
T __ldcs(const T* place) {
  return *place;
}
template <class T>
void __stcs(T* place, T value) {
  *place = value;
}
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
  unsigned result = 0;
  for (int i = 0; i < 32; ++i) result |= (x >> i & 1u) << (31 - i);
  return result;
}
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(std::uint64_t{a} * b >> 32); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
