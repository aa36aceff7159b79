#pragma once
// The lists of rows, and positions in them: what a Backend table is indexed with.
#include <cstdint>
#include <tuple>
#include <utility>

#include "lib/kernels/activation_ops.hpp"
#include "lib/kernels/binary_ops.hpp"
#include "lib/kernels/loss_ops.hpp"
#include "lib/kernels/parametric_ops.hpp"
#include "lib/kernels/rounding_ops.hpp"
#include "lib/kernels/special_ops.hpp"
#include "lib/kernels/trigonometric_ops.hpp"
#include "lib/kernels/unary_ops.hpp"

namespace capstan::kernels {

using UnaryOps =
    decltype(std::tuple_cat(std::declval<ActivationOps>(), std::declval<ArithmeticOps>(), std::declval<RoundingOps>(),
                            std::declval<SpecialOps>(), std::declval<TrigonometricOps>()));

template <class Op, class... Ops> constexpr int position_in(std::tuple<Ops...>*) {
  int at = 0;
  (void)((__is_same(Op, Ops) || (++at, false)) || ...);
  return at;
}
template <class Op> inline constexpr int kUnaryId = position_in<Op>(static_cast<UnaryOps*>(nullptr));
template <class Op> inline constexpr int kBinaryId = position_in<Op>(static_cast<BinaryOps*>(nullptr));
template <class Op> inline constexpr int kParametricId = position_in<Op>(static_cast<ParametricOps*>(nullptr));
template <class Op> inline constexpr int kLossId = position_in<Op>(static_cast<LossOps*>(nullptr));
inline constexpr int kUnaryCount = std::tuple_size_v<UnaryOps>;
inline constexpr int kBinaryCount = std::tuple_size_v<BinaryOps>;
inline constexpr int kParametricCount = std::tuple_size_v<ParametricOps>;
inline constexpr int kLossCount = std::tuple_size_v<LossOps>;

template <class Op> constexpr Evaluate evaluate_of() {
  if constexpr (requires { Op::evaluate; }) return Op::evaluate;
  else return Evaluate::lanes;
}
/// Of the rule for its gradient.
template <class Op> constexpr Evaluate evaluate_backward_of() {
  if constexpr (requires { Op::evaluate_backward; }) return Op::evaluate_backward;
  else return evaluate_of<Op>();
}

enum class Bitwise : std::uint8_t { both, either, one, inverse, left_shift, right_shift };  // inverse: of a alone
enum class Compare : std::uint8_t { equal, not_equal, less, less_equal };
enum class Predicate : std::uint8_t { nan, infinite, finite };
enum class Reduction : std::uint8_t { sum, prod, norm, max, min, all, any };  // norm: Euclid's, of float32 and float64

}  // namespace capstan::kernels
