#pragma once
// From a DType to a C++ type: `visit(dtype, [&]<class T>(Type<T>) { ... })`.
#include <cstdint>

#include <capstan/dtype.hpp>

/// `use(float) use(double) ...` for every element type: explicit instantiations.
#define CAPSTAN_EVERY_TYPE(use) use(float) use(double) use(std::int32_t) use(std::int64_t) use(std::uint8_t) use(bool)

namespace capstan::core {

template <class T>
struct Type {
  using type = T;
};

template <class F>
decltype(auto) visit(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float64: return f(Type<double>{});
    case DType::int32: return f(Type<std::int32_t>{});
    case DType::int64: return f(Type<std::int64_t>{});
    case DType::uint8: return f(Type<std::uint8_t>{});
    case DType::bool8: return f(Type<bool>{});
    case DType::float32: break;
  }
  return f(Type<float>{});
}

/// Only float32 and float64; anything else counts as float32 and must have been refused before.
template <class F>
decltype(auto) visit_floating(DType dtype, F&& f) {
  if (dtype == DType::float64) return f(Type<double>{});
  return f(Type<float>{});
}

/// Conversion between element types as `cast` documents it: toward zero, clamped, NaN to 0.
template <class To, class From>
constexpr To convert(From x) noexcept {
  if constexpr (__is_same(To, bool)) {
    return x != From(0);
  } else if constexpr ((__is_same(From, float) || __is_same(From, double)) && !__is_same(To, float) &&
                       !__is_same(To, double)) {
    constexpr To low = __is_same(To, std::uint8_t)   ? To(0)
                       : __is_same(To, std::int32_t) ? To(INT32_MIN)
                                                     : static_cast<To>(INT64_MIN);
    constexpr To high = __is_same(To, std::uint8_t)   ? To(255)
                        : __is_same(To, std::int32_t) ? To(INT32_MAX)
                                                      : static_cast<To>(INT64_MAX);
    if (x != x) return To(0);
    if (static_cast<double>(x) <= static_cast<double>(low)) return low;
    if (static_cast<double>(x) >= static_cast<double>(high)) return high;
    return static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace capstan::core
