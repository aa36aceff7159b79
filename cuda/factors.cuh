#pragma once
// Products that stay in range however many factors there are and in whatever order they are taken.
#include <cmath>
#include <cstdint>

#include "cuda/values.cuh"

namespace capstan::on_cuda {

/// part * 2^exponent
struct Factor {
  double part;
  std::int64_t exponent;
};

__device__ inline Factor scaled_factor(double part, std::int64_t exponent) {
  int shift = 0;
  part = ::frexp(part, &shift);
  return {part, exponent + shift};
}
template <class T>
__device__ inline Factor factor_of(T x) {
  return scaled_factor(static_cast<double>(widen(x)), 0);
}
__device__ inline Factor operator*(const Factor& a, const Factor& b) {
  return scaled_factor(a.part * b.part, a.exponent + b.exponent);
}
/// As a double, which may be infinite or 0.
__device__ inline double value_of(const Factor& factor) {
  constexpr std::int64_t kFar = 4096;
  const std::int64_t exponent = factor.exponent < -kFar ? -kFar : factor.exponent > kFar ? kFar : factor.exponent;
  return ::ldexp(factor.part, static_cast<int>(exponent));
}

struct Times {
  __device__ Factor operator()(const Factor& a, const Factor& b) const { return a * b; }
};

}  // namespace capstan::on_cuda
