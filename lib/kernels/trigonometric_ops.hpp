#pragma once
// Trigonometric and hyperbolic functions and their inverses. unary_ops.hpp says what a row is.
#include <tuple>

#include "lib/kernels/host_device.hpp"

namespace capstan::kernels {

struct Acos {
  static constexpr const char* name = "acos";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  static constexpr Evaluate evaluate = Evaluate::functions;
  template <class T> CAPSTAN_HD static T forward(T x) { return acos(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) { return -grad / sqrt((T(1) - x) * (T(1) + x)); }
};

struct Acosh {
  static constexpr const char* name = "acosh";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  static constexpr Evaluate evaluate = Evaluate::precise;
  template <class T> CAPSTAN_HD static T forward(T x) { return acosh(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) { return grad / (sqrt(x - T(1)) * sqrt(x + T(1))); }
};

struct Asin {
  static constexpr const char* name = "asin";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  static constexpr Evaluate evaluate = Evaluate::functions;
  template <class T> CAPSTAN_HD static T forward(T x) { return asin(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) { return grad / sqrt((T(1) - x) * (T(1) + x)); }
};

struct Asinh {
  static constexpr const char* name = "asinh";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  static constexpr Evaluate evaluate = Evaluate::precise;
  template <class T> CAPSTAN_HD static T forward(T x) { return asinh(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) { return grad / sqrt(T(1) + x * x); }
};

struct Atan {
  static constexpr const char* name = "atan";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  static constexpr Evaluate evaluate = Evaluate::functions;
  static constexpr Evaluate evaluate_backward = Evaluate::precise;
  template <class T> CAPSTAN_HD static T forward(T x) { return atan(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) { return grad / (T(1) + x * x); }
};

struct Atanh {
  static constexpr const char* name = "atanh";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  static constexpr Evaluate evaluate = Evaluate::precise;
  template <class T> CAPSTAN_HD static T forward(T x) { return atanh(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) { return grad / ((T(1) - x) * (T(1) + x)); }
};

struct Cos {
  static constexpr const char* name = "cos";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  template <class T> CAPSTAN_HD static T forward(T x) { return cos(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) { return -(grad * sin(x)); }
};

struct Cosh {
  static constexpr const char* name = "cosh";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  static constexpr Evaluate evaluate = Evaluate::precise;
  template <class T> CAPSTAN_HD static T forward(T x) { return cosh(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) { return grad * sinh(x); }
};

struct Sin {
  static constexpr const char* name = "sin";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  template <class T> CAPSTAN_HD static T forward(T x) { return sin(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) { return grad * cos(x); }
};

struct Sinh {
  static constexpr const char* name = "sinh";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  static constexpr Evaluate evaluate = Evaluate::precise;
  template <class T> CAPSTAN_HD static T forward(T x) { return sinh(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) { return grad * cosh(x); }
};

struct Tan {
  static constexpr const char* name = "tan";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::output;
  static constexpr Evaluate evaluate = Evaluate::functions;
  template <class T> CAPSTAN_HD static T forward(T x) { return tan(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T y) { return grad * (T(1) + y * y); }
};

struct Tanh {
  static constexpr const char* name = "tanh";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::output;
  template <class T> CAPSTAN_HD static T forward(T x) { return tanh(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T y) { return grad * (T(1) - y * y); }
};

using TrigonometricOps =
    std::tuple<Acos, Acosh, Asin, Asinh, Atan, Atanh, Cos, Cosh, Sin, Sinh, Tan, Tanh>;  // alphabetical

}  // namespace capstan::kernels
