#pragma once
// Steps: whole numbers near x, and the sign. Their gradient is zero everywhere, as PyTorch has it. unary_ops.hpp says
// what a row is.
#include <tuple>

#include "lib/kernels/host_device.hpp"

namespace capstan::kernels {

struct Ceil {
  static constexpr const char* name = "ceil";
  static constexpr Domain domain = Domain::numbers;
  static constexpr Saves saves = Saves::nothing;
  template <class T> CAPSTAN_HD static T forward(T x) { return ceil(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T) { return zero_of(grad); }
};

struct Floor {
  static constexpr const char* name = "floor";
  static constexpr Domain domain = Domain::numbers;
  static constexpr Saves saves = Saves::nothing;
  template <class T> CAPSTAN_HD static T forward(T x) { return floor(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T) { return zero_of(grad); }
};

struct Round {
  static constexpr const char* name = "round";
  static constexpr Domain domain = Domain::numbers;
  static constexpr Saves saves = Saves::nothing;
  template <class T> CAPSTAN_HD static T forward(T x) { return round(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T) { return zero_of(grad); }
};

struct Sign {
  static constexpr const char* name = "sign";
  static constexpr Domain domain = Domain::numbers;
  static constexpr Saves saves = Saves::nothing;
  template <class T> CAPSTAN_HD static T forward(T x) {
    return select(x > T(0), T(1), select(x < T(0), T(-1), select(x == T(0), T(0), x)));  // NaN stays
  }
  template <class T> CAPSTAN_HD static T backward(T grad, T) { return zero_of(grad); }
};

struct Trunc {
  static constexpr const char* name = "trunc";
  static constexpr Domain domain = Domain::numbers;
  static constexpr Saves saves = Saves::nothing;
  template <class T> CAPSTAN_HD static T forward(T x) { return trunc(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T) { return zero_of(grad); }
};

using RoundingOps = std::tuple<Ceil, Floor, Round, Sign, Trunc>;  // alphabetical

}  // namespace capstan::kernels
