#pragma once
// Operations of two operands. `left` and `right` are the gradients for the operands; the masks say what they read.
#include <tuple>

#include "lib/kernels/host_device.hpp"

namespace capstan::kernels {

/// What a gradient reads besides `grad`: any of the two operands and the result.
enum Reads : unsigned { kReadsNothing = 0, kReadsA = 1, kReadsB = 2, kReadsResult = 4 };

struct Add {
  static constexpr const char* name = "add";
  static constexpr Domain domain = Domain::numbers;
  static constexpr unsigned left_reads = kReadsNothing, right_reads = kReadsNothing;
  template <class T> CAPSTAN_HD static T forward(T a, T b) { return static_cast<T>(a + b); }
  template <class T> CAPSTAN_HD static T left(T grad, T, T, T) { return grad; }
  template <class T> CAPSTAN_HD static T right(T grad, T, T, T) { return grad; }
};

struct Div {
  static constexpr const char* name = "div";
  static constexpr Domain domain = Domain::floating;
  static constexpr unsigned left_reads = kReadsB, right_reads = kReadsB | kReadsResult;
  template <class T> CAPSTAN_HD static T forward(T a, T b) { return a / b; }
  template <class T> CAPSTAN_HD static T left(T grad, T, T b, T) { return grad / b; }
  template <class T> CAPSTAN_HD static T right(T grad, T, T b, T y) { return -(grad * y / b); }
};

struct Maximum {
  static constexpr const char* name = "maximum";
  static constexpr Domain domain = Domain::numbers;
  static constexpr unsigned left_reads = kReadsA | kReadsB, right_reads = kReadsA | kReadsB;
  // a where it is larger or NaN
  template <class T> CAPSTAN_HD static T forward(T a, T b) { return select(a > b, a, select(a == a, b, a)); }
  template <class T> CAPSTAN_HD static T left(T grad, T a, T b, T) {
    return select(a > b, grad, select(a == b, grad * T(0.5), T(0)));
  }
  template <class T> CAPSTAN_HD static T right(T grad, T a, T b, T) {
    return select(b > a, grad, select(a == b, grad * T(0.5), T(0)));
  }
};

struct Minimum {
  static constexpr const char* name = "minimum";
  static constexpr Domain domain = Domain::numbers;
  static constexpr unsigned left_reads = kReadsA | kReadsB, right_reads = kReadsA | kReadsB;
  template <class T> CAPSTAN_HD static T forward(T a, T b) { return select(a < b, a, select(a == a, b, a)); }
  template <class T> CAPSTAN_HD static T left(T grad, T a, T b, T) {
    return select(a < b, grad, select(a == b, grad * T(0.5), T(0)));
  }
  template <class T> CAPSTAN_HD static T right(T grad, T a, T b, T) {
    return select(b < a, grad, select(a == b, grad * T(0.5), T(0)));
  }
};

struct Mul {
  static constexpr const char* name = "mul";
  static constexpr Domain domain = Domain::numbers;
  static constexpr unsigned left_reads = kReadsB, right_reads = kReadsA;
  template <class T> CAPSTAN_HD static T forward(T a, T b) { return static_cast<T>(a * b); }
  template <class T> CAPSTAN_HD static T left(T grad, T, T b, T) { return grad * b; }
  template <class T> CAPSTAN_HD static T right(T grad, T a, T, T) { return grad * a; }
};

struct Pow {
  static constexpr const char* name = "pow";
  static constexpr Domain domain = Domain::floating;
  static constexpr unsigned left_reads = kReadsA | kReadsB, right_reads = kReadsA | kReadsResult;
  template <class T> CAPSTAN_HD static T forward(T a, T b) { return pow(a, b); }
  template <class T> CAPSTAN_HD static T left(T grad, T a, T b, T) {
    const T exponent = select(a == T(0), select(b == T(0), T(1), b), b);  // 0 * 0^-1 would be NaN
    return grad * b * pow(a, exponent - T(1));
  }
  template <class T> CAPSTAN_HD static T right(T grad, T a, T, T y) {
    return select(a == T(0), T(0), grad * y * log(select(a == T(0), T(1), a)));
  }
};

struct Sub {
  static constexpr const char* name = "sub";
  static constexpr Domain domain = Domain::numbers;
  static constexpr unsigned left_reads = kReadsNothing, right_reads = kReadsNothing;
  template <class T> CAPSTAN_HD static T forward(T a, T b) { return static_cast<T>(a - b); }
  template <class T> CAPSTAN_HD static T left(T grad, T, T, T) { return grad; }
  template <class T> CAPSTAN_HD static T right(T grad, T, T, T) { return -grad; }
};

using BinaryOps = std::tuple<Add, Div, Maximum, Minimum, Mul, Pow, Sub>;  // alphabetical

}  // namespace capstan::kernels
