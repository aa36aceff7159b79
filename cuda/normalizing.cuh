#pragma once
// What the kernels of layers that normalize share.
//
// Statistics come from the distances of all values from one of them, and their squares, summed up in double: what all
// values have in common costs no digits, equal values have variance 0 exactly, and squares of floats do not overflow.
// Should that one value lie far from the others, it makes the variance so large itself that n values lose no more than
// log2(n) of the 53 bits.
#include "cuda/blocks.cuh"
#include "cuda/context.hpp"
#include "cuda/elements.cuh"
#include "cuda/launch.cuh"
#include "cuda/norm_units.hpp"
#include "cuda/unroll.hpp"
#include "cuda/values.cuh"
#include "lib/kernels/host_device.hpp"

namespace capstan::on_cuda {

/// V values side by side, at an address that allows for as few instructions as there can be.
template <int V, class T>
__device__ inline void load_run(const T* from, T (&to)[V]) {
  constexpr int kSide = V < kPack<T> ? V : kPack<T>;
  CAPSTAN_UNROLL
  for (int first = 0; first < V; first += kSide) {
    const Pack<T, kSide> pack = *reinterpret_cast<const Pack<T, kSide>*>(from + first);
    CAPSTAN_UNROLL
    for (int k = 0; k < kSide; ++k) to[first + k] = pack.values[k];
  }
}
template <int V, class T>
__device__ inline void store_run(const T (&from)[V], T* to) {
  constexpr int kSide = V < kPack<T> ? V : kPack<T>;
  CAPSTAN_UNROLL
  for (int first = 0; first < V; first += kSide) {
    Pack<T, kSide> pack;
    CAPSTAN_UNROLL
    for (int k = 0; k < kSide; ++k) pack.values[k] = from[first + k];
    *reinterpret_cast<Pack<T, kSide>*>(to + first) = pack;
  }
}

/// The type that elements are computed in.
inline DType computed_in(DType dtype) { return is_half(dtype) ? DType::float32 : dtype; }

/// Weights, biases and statistics beside elements: of their type, or float32 beside 16 bits. Perhaps none.
class NormNumbers {
 public:
  NormNumbers() = default;
  explicit NormNumbers(const TensorImpl* tensor)
      : data_(tensor == nullptr ? nullptr : tensor->data), dtype_(tensor == nullptr ? DType::float32 : tensor->dtype) {}

  CAPSTAN_HD bool given() const { return data_ != nullptr; }
  const void* address() const { return data_; }

  __device__ double at(std::int64_t i) const { return read_real(data_, dtype_, i); }
  __device__ double at_or(std::int64_t i, double otherwise) const { return given() ? at(i) : otherwise; }
  __device__ void put(std::int64_t i, double value) const { write_real(data_, dtype_, i, value); }

  /// Those from i on, beside elements of type T.
  template <class T, int V>
  __device__ void load(std::int64_t i, Compute<T> (&to)[V]) const {
    if constexpr (core::kIsHalf<T>) {
      if (dtype_ != DType::float32) {
        T values[V];
        load_run<V>(static_cast<const T*>(data_) + i, values);
        for (int v = 0; v < V; ++v) to[v] = widen(values[v]);
        return;
      }
    }
    load_run<V>(static_cast<const Compute<T>*>(data_) + i, to);
  }

 private:
  void* data_ = nullptr;
  DType dtype_ = DType::float32;
};

/// y times the weights, plus the biases, of places from i on.
template <class T, int V>
__device__ inline void scale_run(const NormNumbers& weight, const NormNumbers& bias, std::int64_t i,
                                 Compute<T> (&y)[V]) {
  Compute<T> numbers[V];
  if (weight.given()) {
    weight.load<T>(i, numbers);
    for (int v = 0; v < V; ++v) y[v] *= numbers[v];
  }
  if (bias.given()) {
    bias.load<T>(i, numbers);
    for (int v = 0; v < V; ++v) y[v] += numbers[v];
  }
}

/// Sums over the kGroup threads of a group, in each of them: a warp, or the whole block.
template <int kGroup, int N>
__device__ inline void group_sum(double (&sums)[N]) {
  for (int n = 0; n < N; ++n) sums[n] = warp_reduce(sums[n], Add{});
  if constexpr (kGroup > kWarp) {
    __shared__ double partial[N][kGroup / kWarp];
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    __syncthreads();  // the array may still be read, by a call before this one
    if (threadIdx.x % kWarp == 0)
      for (int n = 0; n < N; ++n) partial[n][warp] = sums[n];
    __syncthreads();
    for (int n = 0; n < N; ++n) {
      sums[n] = partial[n][0];
      for (int w = 1; w < kGroup / kWarp; ++w) sums[n] += partial[n][w];
    }
  }
}

/// The sums of a unit, by all lanes of a warp and in each of them.
template <int kKinds>
__device__ inline void total_of_parts(const PartSums& sums, std::int64_t unit, double (&totals)[kKinds]) {
  const std::int64_t columns = sums.units * sums.width;
  for (int kind = 0; kind < kKinds; ++kind) totals[kind] = 0;
  for (std::int64_t i = threadIdx.x % kWarp; i < sums.parts * sums.width; i += kWarp) {
    const std::int64_t part = i / sums.width, at = part * kKinds * columns + unit * sums.width + i - part * sums.width;
    for (int kind = 0; kind < kKinds; ++kind) totals[kind] += sums.data[at + kind * columns];
  }
  for (int kind = 0; kind < kKinds; ++kind) totals[kind] = warp_reduce(totals[kind], Add{});
}

/// What the distances of values are taken from, given one of them.
__device__ inline double distance_base(double value) { return value - value == 0 ? value : 0; }

/// Of `count` values, from the sums of their distances from `base` and of the squares of these.
struct NormStatistics {
  double mean, variance, inverse;

  __device__ NormStatistics(double count, double base, const double (&sums)[2], double epsilon) {
    const double squares = sums[1] - sums[0] * sums[0] / count;
    mean = base + sums[0] / count;
    variance = (squares < 0 ? 0.0 : squares) / count;
    inverse = 1 / kernels::sqrt(variance + epsilon);
  }
  /// What rounding the mean took from the results.
  __device__ double rest(double rounded) const { return (rounded - mean) * inverse; }
};

/// Where the numbers of NormRule are written.
struct RuleNumbers {
  void* data;
  DType dtype;
  std::int64_t units;

  RuleNumbers(const TensorImpl& rule, std::int64_t count) : data(rule.data), dtype(rule.dtype), units(count) {}
  __device__ void put(NormRule kind, std::int64_t unit, double value) const {
    write_real(data, dtype, static_cast<std::int64_t>(kind) * units + unit, value);
  }
  /// As it will be read.
  __device__ double rounded(double value) const {
    return dtype == DType::float64 ? value : static_cast<double>(static_cast<float>(value));
  }
};
/// [4, units] for elements of that type.
inline Tensor rule_for(DType dtype, std::int64_t units) { return workspace(kNormRules * units, computed_in(dtype)); }

/// A warp for each of `count` units.
inline LaunchShape norm_warps(std::int64_t count) { return shape_for(count * kWarp); }

}  // namespace capstan::on_cuda
