#pragma once
// Where the elements of strided operands lie. The host merges axes; each thread turns its number into offsets.
// No CUDA headers, so that it is tested on the host.
#include <cstdint>

#include "lib/core/tensor_impl.hpp"
#include "lib/kernels/host_device.hpp"

namespace capstan::on_cuda {

/// The loops over N operands that broadcast to one shape, in row-major order, as few as their strides allow.
template <int N>
struct Walk {
  int rank = 0;
  std::int64_t count = 0;
  std::int64_t sizes[kMaxRank] = {};
  std::int64_t strides[N][kMaxRank] = {};  // in elements; 0 where an operand is stretched

  Walk(const Shape& shape, const TensorImpl* const (&operands)[N]) : count(shape.numel()) {
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (shape[axis] == 1) continue;
      std::int64_t step[N];
      for (int n = 0; n < N; ++n) {
        const int own = axis - (shape.rank() - operands[n]->rank());
        step[n] = own < 0 || operands[n]->shape[own] == 1 ? 0 : operands[n]->strides[own];
      }
      const bool joined = rank > 0 && joins(step, shape[axis]);
      if (joined) --rank;
      sizes[rank] = joined ? sizes[rank] * shape[axis] : shape[axis];
      for (int n = 0; n < N; ++n) strides[n][rank] = step[n];
      ++rank;
    }
    if (rank == 0) {
      rank = 1;
      sizes[0] = count;
      for (int n = 0; n < N; ++n) strides[n][0] = 1;
    }
  }

  /// Element i of operand n lies at i: both are walked from end to end.
  bool dense(int n) const { return rank == 1 && strides[n][0] == 1; }
  bool all_dense() const {
    for (int n = 0; n < N; ++n)
      if (!dense(n)) return false;
    return true;
  }
  /// Whether numbers and offsets of elements fit 32 bits with a sign.
  bool small() const {
    constexpr std::int64_t kMost = INT32_MAX;
    if (count > kMost) return false;
    for (int n = 0; n < N; ++n) {
      std::int64_t low = 0, high = 0;
      for (int axis = 0; axis < rank; ++axis) {
        const std::int64_t reach = sizes[axis] > 0 ? strides[n][axis] * (sizes[axis] - 1) : 0;
        (reach < 0 ? low : high) += reach;
      }
      if (low < -kMost || high > kMost) return false;
    }
    return true;
  }

 private:
  bool joins(const std::int64_t* step, std::int64_t size) const {
    for (int n = 0; n < N; ++n)
      if (strides[n][rank - 1] != step[n] * size) return false;
    return true;
  }
};

/// Division by a number that is known before: for 32 bits a multiplication and a shift, exact for dividends below 2^31
/// (Granlund and Montgomery, "Division by invariant integers using multiplication", PLDI 1994).
template <class I>
struct Divider;
template <>
struct Divider<std::int32_t> {
  std::uint32_t divisor = 1, factor = 1, shift = 0;
  Divider() = default;
  explicit Divider(std::int64_t d) : divisor(static_cast<std::uint32_t>(d)) {
    while ((std::uint64_t{1} << shift) < divisor) ++shift;
    factor =
        static_cast<std::uint32_t>(((std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift) - divisor)) / divisor + 1);
  }
  CAPSTAN_HD std::int32_t quotient(std::int32_t dividend) const {
    const auto n = static_cast<std::uint32_t>(dividend);
    const auto high = static_cast<std::uint32_t>((std::uint64_t{n} * factor) >> 32);
    return static_cast<std::int32_t>((high + n) >> shift);
  }
};
template <>
struct Divider<std::int64_t> {
  std::int64_t divisor = 1;
  Divider() = default;
  explicit Divider(std::int64_t d) : divisor(d) {}
  CAPSTAN_HD std::int64_t quotient(std::int64_t dividend) const { return dividend / divisor; }
};

/// A Walk as kernels take it, with indices of type I: std::int32_t if the walk is small, else std::int64_t.
template <class I, int N>
struct Places {
  int rank;
  Divider<I> by[kMaxRank];
  I sizes[kMaxRank];
  I strides[N][kMaxRank];

  explicit Places(const Walk<N>& walk) : rank(walk.rank) {
    for (int axis = 0; axis < rank; ++axis) {
      by[axis] = Divider<I>(walk.sizes[axis] > 0 ? walk.sizes[axis] : 1);
      sizes[axis] = static_cast<I>(walk.sizes[axis]);
      for (int n = 0; n < N; ++n) strides[n][axis] = static_cast<I>(walk.strides[n][axis]);
    }
  }
  /// The offsets of element `index` in row-major order.
  CAPSTAN_HD void find(I index, I (&offset)[N]) const {
    for (int n = 0; n < N; ++n) offset[n] = 0;
    for (int axis = rank - 1; axis > 0; --axis) {
      const I next = by[axis].quotient(index), own = index - next * sizes[axis];
      for (int n = 0; n < N; ++n) offset[n] += own * strides[n][axis];
      index = next;
    }
    for (int n = 0; n < N; ++n) offset[n] += index * strides[n][0];
  }
};

/// Calls `f(Places<I, N>)` with the smaller index type that suffices.
template <int N, class F>
void with_places(const Walk<N>& walk, F&& f) {
  if (walk.small()) f(Places<std::int32_t, N>(walk));
  else f(Places<std::int64_t, N>(walk));
}

}  // namespace capstan::on_cuda
