#pragma once
// Positions in the lists of rows: what a Backend table is indexed with.
#include <cstdint>
#include <tuple>
#include <utility>

#include "lib/kernels/binary_ops.hpp"
#include "lib/kernels/unary_ops.hpp"

namespace capstan::kernels {

template <class Op, class... Ops> constexpr int position_in(std::tuple<Ops...>*) {
  int at = 0;
  (void)((__is_same(Op, Ops) || (++at, false)) || ...);
  return at;
}
template <class Op> inline constexpr int kUnaryId = position_in<Op>(static_cast<UnaryOps*>(nullptr));
template <class Op> inline constexpr int kBinaryId = position_in<Op>(static_cast<BinaryOps*>(nullptr));
inline constexpr int kUnaryCount = std::tuple_size_v<UnaryOps>;
inline constexpr int kBinaryCount = std::tuple_size_v<BinaryOps>;

enum class Compare : std::uint8_t { equal, not_equal, less, less_equal };
enum class Reduction : std::uint8_t { sum, max, min, all, any };

}  // namespace capstan::kernels
