#pragma once
// From a DType to a C++ type: `visit(dtype, [&]<class T>(Type<T>) { ... })`.
#include <cstdint>
#include <limits>
#include <type_traits>

#include <capstan/dtype.hpp>

/// `use(float) use(double) ...` for every element type: explicit instantiations.
#define CAPSTAN_EVERY_TYPE(use)                                                                          \
  use(float) use(double) use(float16) use(bfloat16) use(std::int8_t) use(std::int16_t) use(std::int32_t) \
      use(std::int64_t) use(std::uint8_t) use(bool)

/// The same for what users name: the system has two types of 64 bits.
#define CAPSTAN_EVERY_ELEMENT(use) CAPSTAN_EVERY_TYPE(use) use(capstan::core::OtherInt64)

namespace capstan::core {

using OtherInt64 = std::conditional_t<std::is_same_v<std::int64_t, long>, long long, long>;

template <class T>
struct Type {
  using type = T;
};

template <class T>
inline constexpr bool kIsHalf = __is_same(T, float16) || __is_same(T, bfloat16);
template <class T>
inline constexpr bool kIsReal = __is_same(T, float) || __is_same(T, double) || kIsHalf<T>;

/// All types but the 16-bit floating ones, which kernels entered through `widen` never see.
template <class F>
decltype(auto) visit_native(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float64: return f(Type<double>{});
    case DType::int8: return f(Type<std::int8_t>{});
    case DType::int16: return f(Type<std::int16_t>{});
    case DType::int32: return f(Type<std::int32_t>{});
    case DType::int64: return f(Type<std::int64_t>{});
    case DType::uint8: return f(Type<std::uint8_t>{});
    case DType::bool8: return f(Type<bool>{});
    default: return f(Type<float>{});
  }
}

template <class F>
decltype(auto) visit(DType dtype, F&& f) {
  if (dtype == DType::float16) return f(Type<float16>{});
  if (dtype == DType::bfloat16) return f(Type<bfloat16>{});
  return visit_native(dtype, static_cast<F&&>(f));
}

/// Everything but bool, which must have been refused before.
template <class F>
decltype(auto) visit_numbers(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float64: return f(Type<double>{});
    case DType::float16: return f(Type<float16>{});
    case DType::bfloat16: return f(Type<bfloat16>{});
    case DType::int8: return f(Type<std::int8_t>{});
    case DType::int16: return f(Type<std::int16_t>{});
    case DType::int32: return f(Type<std::int32_t>{});
    case DType::int64: return f(Type<std::int64_t>{});
    case DType::uint8: return f(Type<std::uint8_t>{});
    default: return f(Type<float>{});
  }
}

template <class F>
decltype(auto) visit_integers(DType dtype, F&& f) {
  switch (dtype) {
    case DType::int8: return f(Type<std::int8_t>{});
    case DType::int16: return f(Type<std::int16_t>{});
    case DType::int32: return f(Type<std::int32_t>{});
    case DType::uint8: return f(Type<std::uint8_t>{});
    default: return f(Type<std::int64_t>{});
  }
}

/// The four floating types; anything else counts as float32 and must have been refused before.
template <class F>
decltype(auto) visit_real(DType dtype, F&& f) {
  if (dtype == DType::float64) return f(Type<double>{});
  if (dtype == DType::float16) return f(Type<float16>{});
  if (dtype == DType::bfloat16) return f(Type<bfloat16>{});
  return f(Type<float>{});
}

/// Only float32 and float64: for kernels entered through `widen`.
template <class F>
decltype(auto) visit_floating(DType dtype, F&& f) {
  if (dtype == DType::float64) return f(Type<double>{});
  return f(Type<float>{});
}

/// Conversion between element types as `cast` documents it: of floating numbers toward zero, clamped, NaN to 0; of
/// integers the low bits.
template <class To, class From>
constexpr To convert(From x) noexcept {
  if constexpr (kIsHalf<From> && !__is_same(To, From)) {
    return convert<To>(static_cast<float>(x));
  } else if constexpr (__is_same(To, bool)) {
    return x != From(0);
  } else if constexpr (kIsReal<From> && !kIsReal<To>) {
    // Where From cannot hold `high`, `above` is the next number.
    constexpr To low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
    constexpr From below = static_cast<From>(low), above = static_cast<From>(high);
    const bool inside = (x > below) & (x < above);
    if (sizeof(To) == 8 && inside) return static_cast<To>(x);
    // without branches: loops of smaller integers vectorize
    const To whole = static_cast<To>(inside ? x : From(0)), cut = x >= above ? high : whole;
    return x <= below ? low : cut;
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace capstan::core
