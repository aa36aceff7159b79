#pragma once
// Elements as unsigned integers that stand in the same order, so that sorting and searching need not know the types.
//
// NaN counts as larger than everything, as in NumPy and PyTorch, and -0 equals 0.
#include <cstdint>
#include <type_traits>

#include <capstan/dtype.hpp>

namespace capstan::on_cpu {

/// Floating numbers as wide as W whose infinity has these bits.
template <class W, W kInfinity>
struct FloatOrder {
  using Word = W;
  /// What the processor compares as the keys do, NaN aside; void if it has nothing of that kind.
  using Native = std::conditional_t<sizeof(W) == 8, double, std::conditional_t<sizeof(W) == 4, float, void>>;
  static constexpr W kSign = static_cast<W>(W{1} << (8 * sizeof(W) - 1));
  static constexpr W kLast = static_cast<W>(~W{0});  ///< the key of NaN

  static constexpr bool is_nan(W bits) noexcept { return static_cast<W>(bits & static_cast<W>(~kSign)) > kInfinity; }
  /// Whether `decode` gives these bits back.
  static constexpr bool is_plain(W bits) noexcept { return bits != kSign && !is_nan(bits); }
  static constexpr W encode(W bits) noexcept {
    const W turned = static_cast<W>((bits & kSign) != 0 ? ~bits : bits | kSign);
    const W key = bits == kSign ? kSign : turned;  // -0 has the key of 0
    return is_nan(bits) ? kLast : key;
  }
  static constexpr W decode(W key) noexcept { return static_cast<W>((key & kSign) != 0 ? key ^ kSign : ~key); }
};

/// Integers as wide as W; bool is one without a sign.
template <class W, bool kSigned>
struct IntegerOrder {
  using Word = W;
  using Native = std::conditional_t<kSigned, std::make_signed_t<W>, W>;
  static constexpr W kFlip = kSigned ? static_cast<W>(W{1} << (8 * sizeof(W) - 1)) : W{0};
  static constexpr W kLast = static_cast<W>(~W{0});

  static constexpr bool is_nan(W) noexcept { return false; }
  static constexpr bool is_plain(W) noexcept { return true; }
  static constexpr W encode(W bits) noexcept { return static_cast<W>(bits ^ kFlip); }
  static constexpr W decode(W key) noexcept { return static_cast<W>(key ^ kFlip); }
};

/// Calls `f` with the order of an element type: `[&]<class Order>(Order) { ... }`.
template <class F>
decltype(auto) visit_order(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float64: return f(FloatOrder<std::uint64_t, 0x7FF0000000000000u>{});
    case DType::float16: return f(FloatOrder<std::uint16_t, 0x7C00u>{});
    case DType::bfloat16: return f(FloatOrder<std::uint16_t, 0x7F80u>{});
    case DType::int8: return f(IntegerOrder<std::uint8_t, true>{});
    case DType::int16: return f(IntegerOrder<std::uint16_t, true>{});
    case DType::int32: return f(IntegerOrder<std::uint32_t, true>{});
    case DType::int64: return f(IntegerOrder<std::uint64_t, true>{});
    case DType::uint8:
    case DType::bool8: return f(IntegerOrder<std::uint8_t, false>{});
    default: return f(FloatOrder<std::uint32_t, 0x7F800000u>{});
  }
}

}  // namespace capstan::on_cpu
