#pragma once
// The rows of lib/kernels as rules, and their kernels by number. Those of each element type are compiled in a file of
// their own, named by the type.
#include <type_traits>

#include "cuda/map.cuh"
#include "lib/kernels/op_list.hpp"

namespace capstan::on_cuda {

// --- rules ---

template <class Op>
inline constexpr bool kIsLong = std::is_same_v<Op, kernels::Digamma> || std::is_same_v<Op, kernels::Lgamma> ||
                                std::is_same_v<Op, kernels::Polygamma>;
/// What a row is computed in: all but one keep enough digits in float.
template <class Op, class T>
using Inner = std::conditional_t<std::is_same_v<Op, kernels::TanhShrink> && core::kIsReal<T>, double, Compute<T>>;

template <class Op, class T>
struct UnaryRule {
  using Numbers = NoNumbers;
  static constexpr bool kLong = kIsLong<Op>;
  __device__ static T apply(const Numbers&, T x) {
    return narrow<T>(static_cast<Compute<T>>(Op::forward(static_cast<Inner<Op, T>>(widen(x)))));
  }
};

template <class Op, class T>
struct UnaryBackwardRule {
  using Numbers = NoNumbers;
  static constexpr bool kLong = kIsLong<Op>;
  __device__ static T apply(const Numbers&, T grad, T saved) {
    return narrow<T>(Op::backward(widen(grad), widen(saved)));
  }
};

template <class Op, class T>
struct BinaryRule {
  using Numbers = NoNumbers;
  static constexpr bool kLong = false;
  __device__ static T apply(const Numbers&, T a, T b) { return narrow<T>(Op::forward(widen(a), widen(b))); }
};

template <class T>
struct TwoNumbers {
  Compute<T> p, q;
};

template <class Op, class T>
struct ParametricRule {
  using Numbers = TwoNumbers<T>;
  static constexpr bool kLong = kIsLong<Op>;
  __device__ static T apply(const Numbers& n, T x) { return narrow<T>(Op::forward(widen(x), n.p, n.q)); }
};

template <class Op, class T>
struct ParametricBackwardRule {
  using Numbers = TwoNumbers<T>;
  static constexpr bool kLong = kIsLong<Op>;
  __device__ static T apply(const Numbers& n, T grad, T x) {
    return narrow<T>(Op::backward(widen(grad), widen(x), n.p, n.q));
  }
};

// --- kernels ---

template <class T>
using UnaryRow = MapRow<NoNumbers, T, T>;
template <class T>
using PairRow = MapRow<NoNumbers, T, T, T>;
template <class T>
using ParametricRow = MapRow<TwoNumbers<T>, T, T>;
template <class T>
using ParametricPairRow = MapRow<TwoNumbers<T>, T, T, T>;

// Integers have kernels for the rows whose domain is numbers, and none for gradients.
template <class T>
const UnaryRow<T>& unary_row(int op);
template <class T>
const PairRow<T>& unary_backward_row(int op);
template <class T>
const PairRow<T>& binary_row(int op);
template <class T>
const ParametricRow<T>& parametric_row(int op);
template <class T>
const ParametricPairRow<T>& parametric_backward_row(int op);

template <class Op, class T>
inline constexpr bool kTakes = core::kIsReal<T> || Op::domain == kernels::Domain::numbers;

}  // namespace capstan::on_cuda
