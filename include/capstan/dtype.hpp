#pragma once
// Element types and how they mix.
#include <cstdint>
#include <iosfwd>
#include <string>
#include <type_traits>

#include <capstan/error.hpp>
#include <capstan/half.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// The element types of tensors.
enum class DType : std::uint8_t { float32, float64, int32, int64, uint8, bool8, float16, bfloat16, int8, int16 };

/// "float32", "int64", "bool", ...: the names that NumPy uses.
const char* name(DType dtype) noexcept;
std::string to_string(DType dtype);
std::ostream& operator<<(std::ostream& out, DType dtype);
/// Bytes of one element.
std::int64_t size_of(DType dtype) noexcept;

/// float16 and bfloat16: stored in 16 bits, computed with in float32, each operation rounding its result once.
constexpr bool is_half(DType dtype) noexcept { return dtype == DType::float16 || dtype == DType::bfloat16; }
constexpr bool is_floating(DType dtype) noexcept {
  return dtype == DType::float32 || dtype == DType::float64 || is_half(dtype);
}
constexpr bool is_integer(DType dtype) noexcept { return !is_floating(dtype) && dtype != DType::bool8; }

/// The type that an operation on `a` and `b` computes in, by the promotion table of the Python Array API standard
/// (2022.12, "Type Promotion Rules"): the wider of two floating types; the narrowest integer type that holds both (uint8
/// beside int8 gives int16); bool with bool. The standard has no 16-bit floating types: they give way to wider ones,
/// and beside each other both become float32, as in NumPy and PyTorch. Throws DTypeError for mixes that the standard
/// leaves undefined: integer with floating, bool with a number.
DType promote(DType a, DType b, Where where = Where::current());

/// The DType of a C++ type: float, double, float16, bfloat16, bool, and integers by size and sign.
template <class T>
constexpr DType dtype_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, float>) return DType::float32;
  else if constexpr (std::is_same_v<U, double>) return DType::float64;
  else if constexpr (std::is_same_v<U, bool>) return DType::bool8;
  else if constexpr (std::is_integral_v<U> && sizeof(U) == 1 && std::is_unsigned_v<U>) return DType::uint8;
  else if constexpr (std::is_same_v<U, float16>) return DType::float16;
  else if constexpr (std::is_same_v<U, bfloat16>) return DType::bfloat16;
  else if constexpr (std::is_same_v<U, signed char>) return DType::int8;
  else if constexpr (std::is_same_v<U, short>) return DType::int16;
  else if constexpr (std::is_integral_v<U> && sizeof(U) == 4 && std::is_signed_v<U>) return DType::int32;
  else if constexpr (std::is_integral_v<U> && sizeof(U) == 8 && std::is_signed_v<U>) return DType::int64;
  else
    static_assert(!sizeof(U),
                  "capstan: tensors hold float, double, float16, bfloat16, int8, int16, int32, int64, uint8 or bool");
}

}  // namespace capstan
