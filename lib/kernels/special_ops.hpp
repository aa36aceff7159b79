#pragma once
// The error function and the gamma function's logarithm, and what belongs to them. unary_ops.hpp says what a row is.
#include <tuple>

#include "lib/kernels/host_device.hpp"
#include "lib/kernels/special.hpp"

namespace capstan::kernels {

struct Digamma {
  static constexpr const char* name = "digamma";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  static constexpr Evaluate evaluate = Evaluate::library;
  template <class T> CAPSTAN_HD static T forward(T x) { return digamma(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) { return grad * trigamma(x); }
};

struct Erf {
  static constexpr const char* name = "erf";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  static constexpr Evaluate evaluate = Evaluate::functions;
  static constexpr Evaluate evaluate_backward = Evaluate::precise;
  template <class T> CAPSTAN_HD static T forward(T x) { return erf(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) {
    return grad * (T(1.1283791670955126) * exp(-(x * x)));  // 2/sqrt(pi)
  }
};

struct Erfc {
  static constexpr const char* name = "erfc";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  static constexpr Evaluate evaluate = Evaluate::precise;
  template <class T> CAPSTAN_HD static T forward(T x) { return erfc(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) {
    return grad * (T(-1.1283791670955126) * exp(-(x * x)));
  }
};

struct Erfinv {
  static constexpr const char* name = "erfinv";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::output;
  static constexpr Evaluate evaluate = Evaluate::precise;
  template <class T> CAPSTAN_HD static T forward(T x) { return erfinv(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T y) {
    return grad * (T(0.88622692545275801) * exp(y * y));  // sqrt(pi)/2
  }
};

struct Lgamma {
  static constexpr const char* name = "lgamma";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  static constexpr Evaluate evaluate = Evaluate::library;
  template <class T> CAPSTAN_HD static T forward(T x) { return lgamma(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) { return by_digamma(grad, x); }
};

using SpecialOps = std::tuple<Digamma, Erf, Erfc, Erfinv, Lgamma>;  // alphabetical

}  // namespace capstan::kernels
