#pragma once
// A number beside a tensor: `x + 2`.
#include <cstdint>
#include <type_traits>

#include <capstan/error.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// One C++ number. Beside a tensor it takes the tensor's element type, as the Array API standard says of Python
/// numbers: integers fit every numeric tensor, floating numbers only floating tensors, bool only bool tensors;
/// anything else, and an integer that an integer type cannot hold, is a DTypeError.
class Scalar {
 public:
  enum class Kind : std::uint8_t { boolean, integer, floating };

  template <class T>
  requires std::is_arithmetic_v<T>
  constexpr Scalar(T value) noexcept
      : floating_(static_cast<double>(value)),
        integer_(std::is_floating_point_v<T> ? 0 : static_cast<std::int64_t>(value)),
        too_large_(std::is_unsigned_v<T> && sizeof(T) == 8 && value > static_cast<T>(INT64_MAX)),
        kind_(std::is_same_v<T, bool> ? Kind::boolean
              : std::is_integral_v<T> ? Kind::integer
                                      : Kind::floating) {}

  constexpr Kind kind() const noexcept { return kind_; }
  /// An unsigned integer above what int64 holds.
  constexpr bool too_large() const noexcept { return too_large_; }
  constexpr double as_double() const noexcept { return floating_; }
  constexpr std::int64_t as_int64() const noexcept {
    return kind_ == Kind::floating ? static_cast<std::int64_t>(floating_) : integer_;
  }

 private:
  double floating_;
  std::int64_t integer_;
  bool too_large_;
  Kind kind_;
};

}  // namespace capstan
