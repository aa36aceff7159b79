#pragma once
// Operations of one operand: one struct each. Compiled by g++ for scalars, SIMD lanes and tensors, and by nvcc.
// A row gives the forward value, the gradient, what the gradient needs and which types it takes. Here: arithmetic,
// exponentials and logarithms; other families have files of their own, and op_list.hpp joins the lists.
#include <tuple>

#include "lib/kernels/host_device.hpp"

namespace capstan::kernels {

/// No overflow, and no digits lost on either side.
template <class T> CAPSTAN_HD T sigmoid(T x) {
  const T z = exp(-abs(x));  // in (0, 1]
  return select(x >= T(0), T(1), z) / (T(1) + z);
}

struct Abs {
  static constexpr const char* name = "abs";
  static constexpr Domain domain = Domain::numbers;
  static constexpr Saves saves = Saves::input;
  template <class T> CAPSTAN_HD static T forward(T x) { return abs(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) {
    return select(x > T(0), grad, select(x < T(0), -grad, T(0)));
  }
};

struct Cbrt {
  static constexpr const char* name = "cbrt";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::output;
  static constexpr Evaluate evaluate = Evaluate::scalar;
  template <class T> CAPSTAN_HD static T forward(T x) { return cbrt(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T y) { return grad / (T(3) * y * y); }
};

struct Exp {
  static constexpr const char* name = "exp";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::output;
  template <class T> CAPSTAN_HD static T forward(T x) { return exp(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T y) { return grad * y; }
};

struct Exp2 {
  static constexpr const char* name = "exp2";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::output;
  static constexpr Evaluate evaluate = Evaluate::functions;
  template <class T> CAPSTAN_HD static T forward(T x) { return exp2(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T y) { return grad * y * T(0.69314718055994531); }
};

struct Expm1 {
  static constexpr const char* name = "expm1";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  static constexpr Evaluate evaluate = Evaluate::functions;
  template <class T> CAPSTAN_HD static T forward(T x) { return expm1(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) { return grad * exp(x); }
};

struct Log {
  static constexpr const char* name = "log";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  template <class T> CAPSTAN_HD static T forward(T x) { return log(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) { return grad / x; }
};

struct Log10 {
  static constexpr const char* name = "log10";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  static constexpr Evaluate evaluate = Evaluate::functions;
  static constexpr Evaluate evaluate_backward = Evaluate::precise;
  template <class T> CAPSTAN_HD static T forward(T x) { return log10(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) { return grad / (x * T(2.3025850929940457)); }
};

struct Log1p {
  static constexpr const char* name = "log1p";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  static constexpr Evaluate evaluate = Evaluate::functions;
  template <class T> CAPSTAN_HD static T forward(T x) { return log1p(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) { return grad / (T(1) + x); }
};

struct Log2 {
  static constexpr const char* name = "log2";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  static constexpr Evaluate evaluate = Evaluate::functions;
  static constexpr Evaluate evaluate_backward = Evaluate::precise;
  template <class T> CAPSTAN_HD static T forward(T x) { return log2(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) { return grad / (x * T(0.69314718055994531)); }
};

struct Logit {
  static constexpr const char* name = "logit";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  static constexpr Evaluate evaluate = Evaluate::precise;
  template <class T> CAPSTAN_HD static T forward(T x) { return logit(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) { return grad / (x * (T(1) - x)); }
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

struct Rsqrt {
  static constexpr const char* name = "rsqrt";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::output;
  template <class T> CAPSTAN_HD static T forward(T x) { return T(1) / sqrt(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T y) { return grad * T(-0.5) * y * y * y; }
};

struct Sigmoid {
  static constexpr const char* name = "sigmoid";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::output;
  template <class T> CAPSTAN_HD static T forward(T x) { return sigmoid(x); }
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

using ArithmeticOps = std::tuple<Abs, Cbrt, Exp, Exp2, Expm1, Log, Log10, Log1p, Log2, Logit, Neg, Reciprocal, Rsqrt,
                                 Sigmoid, Sqrt, Square>;  // alphabetical

}  // namespace capstan::kernels
