#pragma once
// Operations of two operands. `left` and `right` are the gradients for the operands; the masks say what they read.
#include <tuple>

#include "lib/kernels/host_device.hpp"
#include "lib/kernels/unary_ops.hpp"

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

struct Atan2 {
  static constexpr const char* name = "atan2";
  static constexpr Domain domain = Domain::floating;
  static constexpr Evaluate evaluate = Evaluate::precise;
  static constexpr unsigned left_reads = kReadsA | kReadsB, right_reads = kReadsA | kReadsB;
  template <class T> CAPSTAN_HD static T forward(T a, T b) { return atan2(a, b); }
  template <class T> CAPSTAN_HD static T left(T grad, T a, T b, T) { return grad * over_square(b, a, b); }
  template <class T> CAPSTAN_HD static T right(T grad, T a, T b, T) { return -(grad * over_square(a, a, b)); }

 private:
  /// x / (a*a + b*b) without the squares, which leave the range of the type first; 0 at the origin.
  template <class T> CAPSTAN_HD static T over_square(T x, T a, T b) {
    const T size = hypot(a, b), divisor = select(size == T(0), T(1), size);
    return x / divisor / divisor;
  }
};

struct Copysign {
  static constexpr const char* name = "copysign";
  static constexpr Domain domain = Domain::floating;
  static constexpr Evaluate evaluate = Evaluate::scalar;
  static constexpr unsigned left_reads = kReadsA | kReadsResult, right_reads = kReadsNothing;
  template <class T> CAPSTAN_HD static T forward(T a, T b) { return copysign(a, b); }
  template <class T> CAPSTAN_HD static T left(T grad, T a, T, T y) {
    return select(a == T(0), T(0), select(a == y, grad, -grad));
  }
  template <class T> CAPSTAN_HD static T right(T grad, T, T, T) { return zero_of(grad); }
};

struct Div {
  static constexpr const char* name = "div";
  static constexpr Domain domain = Domain::floating;
  static constexpr unsigned left_reads = kReadsB, right_reads = kReadsB | kReadsResult;
  template <class T> CAPSTAN_HD static T forward(T a, T b) { return a / b; }
  template <class T> CAPSTAN_HD static T left(T grad, T, T b, T) { return grad / b; }
  template <class T> CAPSTAN_HD static T right(T grad, T, T b, T y) { return -(grad / b * y); }
};

struct FloorDivide {
  static constexpr const char* name = "floor_divide";
  static constexpr Domain domain = Domain::numbers;
  static constexpr Evaluate evaluate = Evaluate::precise;
  static constexpr unsigned left_reads = kReadsNothing, right_reads = kReadsNothing;
  template <class T> CAPSTAN_HD static T forward(T a, T b) { return floor_divide(a, b); }
  template <class T> CAPSTAN_HD static T left(T grad, T, T, T) { return zero_of(grad); }
  template <class T> CAPSTAN_HD static T right(T grad, T, T, T) { return zero_of(grad); }
};

struct Fmax {
  static constexpr const char* name = "fmax";
  static constexpr Domain domain = Domain::numbers;
  static constexpr unsigned left_reads = kReadsA | kReadsB, right_reads = kReadsA | kReadsB;
  // the other where one is NaN
  template <class T> CAPSTAN_HD static T forward(T a, T b) { return select(a >= b, a, select(b == b, b, a)); }
  template <class T> CAPSTAN_HD static T left(T grad, T a, T b, T) {
    return select(a > b, grad, select(a == b, grad * T(0.5), select(b == b, T(0), grad)));
  }
  template <class T> CAPSTAN_HD static T right(T grad, T a, T b, T) {
    return select(b > a, grad, select(a == b, grad * T(0.5), select(a == a, T(0), grad)));
  }
};

struct Fmin {
  static constexpr const char* name = "fmin";
  static constexpr Domain domain = Domain::numbers;
  static constexpr unsigned left_reads = kReadsA | kReadsB, right_reads = kReadsA | kReadsB;
  template <class T> CAPSTAN_HD static T forward(T a, T b) { return select(a <= b, a, select(b == b, b, a)); }
  template <class T> CAPSTAN_HD static T left(T grad, T a, T b, T) {
    return select(a < b, grad, select(a == b, grad * T(0.5), select(b == b, T(0), grad)));
  }
  template <class T> CAPSTAN_HD static T right(T grad, T a, T b, T) {
    return select(b < a, grad, select(a == b, grad * T(0.5), select(a == a, T(0), grad)));
  }
};

struct Fmod {
  static constexpr const char* name = "fmod";
  static constexpr Domain domain = Domain::numbers;
  static constexpr Evaluate evaluate = Evaluate::precise;
  static constexpr unsigned left_reads = kReadsNothing, right_reads = kReadsA | kReadsB | kReadsResult;
  template <class T> CAPSTAN_HD static T forward(T a, T b) { return fmod(a, b); }
  template <class T> CAPSTAN_HD static T left(T grad, T, T, T) { return grad; }
  template <class T> CAPSTAN_HD static T right(T grad, T a, T b, T y) {
    return -(grad * round((a - y) / b));  // the quotient that was taken, free of the rounding of a/b
  }
};

struct Hypot {
  static constexpr const char* name = "hypot";
  static constexpr Domain domain = Domain::floating;
  static constexpr Evaluate evaluate = Evaluate::precise;
  static constexpr unsigned left_reads = kReadsA | kReadsResult, right_reads = kReadsB | kReadsResult;
  template <class T> CAPSTAN_HD static T forward(T a, T b) { return hypot(a, b); }
  template <class T> CAPSTAN_HD static T left(T grad, T a, T, T y) { return grad * (a / or_one(y)); }
  template <class T> CAPSTAN_HD static T right(T grad, T, T b, T y) { return grad * (b / or_one(y)); }

 private:
  template <class T> CAPSTAN_HD static T or_one(T y) { return select(y == T(0), T(1), y); }
};

struct Logaddexp {
  static constexpr const char* name = "logaddexp";
  static constexpr Domain domain = Domain::floating;
  static constexpr Evaluate evaluate = Evaluate::precise;
  static constexpr unsigned left_reads = kReadsA | kReadsB, right_reads = kReadsA | kReadsB;
  template <class T> CAPSTAN_HD static T forward(T a, T b) {
    // equal infinities have no difference
    return select(a == b, a + T(0.69314718055994531), select(a > b, a, b) + log1p(exp(-abs(a - b))));
  }
  template <class T> CAPSTAN_HD static T left(T grad, T a, T b, T) { return grad * sigmoid(difference(a, b)); }
  template <class T> CAPSTAN_HD static T right(T grad, T a, T b, T) { return grad * sigmoid(difference(b, a)); }

 private:
  /// a - b, but -infinity where they are the same infinity: the share is 0 then, as in logsumexp.
  template <class T> CAPSTAN_HD static T difference(T a, T b) {
    const T d = a - b;
    return select(a == b, select(d == d, d, T(-HUGE_VAL)), d);
  }
};

struct Maximum {
  static constexpr const char* name = "maximum";
  static constexpr Domain domain = Domain::numbers;
  static constexpr unsigned left_reads = kReadsA | kReadsB, right_reads = kReadsA | kReadsB;
  // a where it is larger or NaN
  template <class T> CAPSTAN_HD static T forward(T a, T b) { return select(a > b, a, select(a == a, b, a)); }
  template <class T> CAPSTAN_HD static T left(T grad, T a, T b, T) {
    return select(a < b, T(0), select(a == b, grad * T(0.5), grad));  // all of it to both where one is NaN
  }
  template <class T> CAPSTAN_HD static T right(T grad, T a, T b, T) {
    return select(b < a, T(0), select(a == b, grad * T(0.5), grad));
  }
};

struct Minimum {
  static constexpr const char* name = "minimum";
  static constexpr Domain domain = Domain::numbers;
  static constexpr unsigned left_reads = kReadsA | kReadsB, right_reads = kReadsA | kReadsB;
  template <class T> CAPSTAN_HD static T forward(T a, T b) { return select(a < b, a, select(a == a, b, a)); }
  template <class T> CAPSTAN_HD static T left(T grad, T a, T b, T) {
    return select(a > b, T(0), select(a == b, grad * T(0.5), grad));
  }
  template <class T> CAPSTAN_HD static T right(T grad, T a, T b, T) {
    return select(b > a, T(0), select(a == b, grad * T(0.5), grad));
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

/// Has no gradient.
struct Nextafter {
  static constexpr const char* name = "nextafter";
  static constexpr Domain domain = Domain::floating;
  static constexpr Evaluate evaluate = Evaluate::scalar;
  template <class T> CAPSTAN_HD static T forward(T a, T b) { return nextafter(a, b); }
};

struct Pow {
  static constexpr const char* name = "pow";
  static constexpr Domain domain = Domain::floating;
  static constexpr Evaluate evaluate = Evaluate::library;
  static constexpr unsigned left_reads = kReadsA | kReadsB, right_reads = kReadsA | kReadsResult;
  template <class T> CAPSTAN_HD static T forward(T a, T b) { return pow(a, b); }
  template <class T> CAPSTAN_HD static T left(T grad, T a, T b, T) {
    const T exponent = select(a == T(0), select(b == T(0), T(1), b), b);  // 0 * 0^-1 would be NaN
    const T slope = b * pow(a, exponent - T(1));
    return grad * select(b == T(0), select(slope == slope, slope, T(0)), slope);  // and so 0 * (1e-39)^-1
  }
  template <class T> CAPSTAN_HD static T right(T grad, T a, T, T y) {
    return select(a == T(0), T(0), grad * log(select(a == T(0), T(1), a)) * y);
  }
};

/// b: the slope where a is not above 0.
struct Prelu {
  static constexpr const char* name = "prelu";
  static constexpr Domain domain = Domain::floating;
  static constexpr unsigned left_reads = kReadsA | kReadsB, right_reads = kReadsA;
  template <class T> CAPSTAN_HD static T forward(T a, T b) { return select(a > T(0), a, b * a); }
  template <class T> CAPSTAN_HD static T left(T grad, T a, T b, T) { return grad * select(a > T(0), T(1), b); }
  // the product must see neither side above 0: the gradient there is 0, and infinity times 0 would be NaN
  template <class T> CAPSTAN_HD static T right(T grad, T a, T, T) {
    const auto above = a > T(0);
    return select(above, T(0), grad) * select(above, T(0), a);
  }
};

struct Remainder {
  static constexpr const char* name = "remainder";
  static constexpr Domain domain = Domain::numbers;
  static constexpr Evaluate evaluate = Evaluate::precise;
  static constexpr unsigned left_reads = kReadsNothing, right_reads = kReadsA | kReadsB | kReadsResult;
  template <class T> CAPSTAN_HD static T forward(T a, T b) { return remainder(a, b); }
  template <class T> CAPSTAN_HD static T left(T grad, T, T, T) { return grad; }
  template <class T> CAPSTAN_HD static T right(T grad, T a, T b, T y) {
    const T of_infinite = select(y == a, T(0), select(y == y, T(-1), y));
    return -(grad * select(b - b == T(0), round((a - y) / b), of_infinite));
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

struct Xlogy {
  static constexpr const char* name = "xlogy";
  static constexpr Domain domain = Domain::floating;
  static constexpr Evaluate evaluate = Evaluate::precise;
  static constexpr unsigned left_reads = kReadsA | kReadsB, right_reads = kReadsA | kReadsB;
  template <class T> CAPSTAN_HD static T forward(T a, T b) {
    return select(a == T(0), select(b == b, T(0), b), a * log(b));
  }
  template <class T> CAPSTAN_HD static T left(T grad, T a, T b, T) { return grad * log(or_one(a, b)); }
  template <class T> CAPSTAN_HD static T right(T grad, T a, T b, T) { return grad * a / or_one(a, b); }

 private:
  /// 1 where a is 0 and log(b) is not finite: the gradients shall be 0 there.
  template <class T> CAPSTAN_HD static T or_one(T a, T b) { return select(a == T(0), select(b <= T(0), T(1), b), b); }
};

using BinaryOps = std::tuple<Add, Atan2, Copysign, Div, FloorDivide, Fmax, Fmin, Fmod, Hypot, Logaddexp, Maximum,
                             Minimum, Mul, Nextafter, Pow, Prelu, Remainder, Sub, Xlogy>;  // alphabetical

}  // namespace capstan::kernels
