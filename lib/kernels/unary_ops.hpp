#pragma once
// Operations of one operand: one struct each. Compiled by g++ for scalars, SIMD lanes and tensors, and by nvcc.
// A row gives the forward value, the gradient, what the gradient needs and which types it takes.
#include <tuple>

#include "lib/kernels/host_device.hpp"

namespace capstan::kernels {

struct Abs {
  static constexpr const char* name = "abs";
  static constexpr Domain domain = Domain::numbers;
  static constexpr Saves saves = Saves::input;
  template <class T> CAPSTAN_HD static T forward(T x) { return abs(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) {
    return select(x > T(0), grad, select(x < T(0), -grad, T(0)));
  }
};

struct Exp {
  static constexpr const char* name = "exp";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::output;
  template <class T> CAPSTAN_HD static T forward(T x) { return exp(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T y) { return grad * y; }
};

struct Log {
  static constexpr const char* name = "log";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  template <class T> CAPSTAN_HD static T forward(T x) { return log(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) { return grad / x; }
};

struct Neg {
  static constexpr const char* name = "neg";
  static constexpr Domain domain = Domain::numbers;
  static constexpr Saves saves = Saves::nothing;
  template <class T> CAPSTAN_HD static T forward(T x) { return static_cast<T>(-x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T) { return -grad; }
};

struct Reciprocal {
  static constexpr const char* name = "reciprocal";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::output;
  template <class T> CAPSTAN_HD static T forward(T x) { return T(1) / x; }
  template <class T> CAPSTAN_HD static T backward(T grad, T y) { return -(grad * y * y); }
};

struct Relu {
  static constexpr const char* name = "relu";
  static constexpr Domain domain = Domain::numbers;
  static constexpr Saves saves = Saves::output;
  template <class T> CAPSTAN_HD static T forward(T x) { return select(x < T(0), T(0), x); }  // NaN stays
  template <class T> CAPSTAN_HD static T backward(T grad, T y) { return select(y <= T(0), T(0), grad); }
};

struct Sigmoid {
  static constexpr const char* name = "sigmoid";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::output;
  template <class T> CAPSTAN_HD static T forward(T x) {
    const T z = exp(-abs(x));  // in (0, 1]: cannot overflow
    return select(x >= T(0), T(1), z) / (T(1) + z);
  }
  template <class T> CAPSTAN_HD static T backward(T grad, T y) { return grad * y * (T(1) - y); }
};

struct Sqrt {
  static constexpr const char* name = "sqrt";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::output;
  template <class T> CAPSTAN_HD static T forward(T x) { return sqrt(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T y) { return grad / (T(2) * y); }
};

struct Square {
  static constexpr const char* name = "square";
  static constexpr Domain domain = Domain::numbers;
  static constexpr Saves saves = Saves::input;
  template <class T> CAPSTAN_HD static T forward(T x) { return static_cast<T>(x * x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) { return T(2) * x * grad; }
};

struct Tanh {
  static constexpr const char* name = "tanh";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::output;
  template <class T> CAPSTAN_HD static T forward(T x) { return tanh(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T y) { return grad * (T(1) - y * y); }
};

using UnaryOps = std::tuple<Abs, Exp, Log, Neg, Reciprocal, Relu, Sigmoid, Sqrt, Square, Tanh>;  // alphabetical

}  // namespace capstan::kernels
