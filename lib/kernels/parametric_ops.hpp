#pragma once
// Operations of one operand and up to two numbers p and q, which all values of a tensor share. unary_ops.hpp says what
// a row is; here the gradient always reads the input. Parameters that a row has no use for are 0.
#include <tuple>

#include "lib/kernels/host_device.hpp"
#include "lib/kernels/special.hpp"
#include "lib/kernels/unary_ops.hpp"

namespace capstan::kernels {

/// p: alpha.
struct Celu {
  static constexpr const char* name = "celu";
  static constexpr Evaluate evaluate = Evaluate::functions;
  template <class T> CAPSTAN_HD static T forward(T x, T p, T) { return select(x > T(0), x, p * expm1(x / p)); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x, T p, T) {
    const T below = select(x > T(0), T(0), x);  // exp must not overflow where it is not taken
    return select(x > T(0), grad, grad * exp(below / p));
  }
};

/// p, q: the limits, at which the gradient passes.
struct Clip {
  static constexpr const char* name = "clip";
  template <class T> CAPSTAN_HD static T forward(T x, T p, T q) { return select(x < p, p, select(x > q, q, x)); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x, T p, T q) {
    return select(x >= p, select(x <= q, grad, T(0)), T(0));
  }
};

/// p: alpha.
struct Elu {
  static constexpr const char* name = "elu";
  static constexpr Evaluate evaluate = Evaluate::functions;
  template <class T> CAPSTAN_HD static T forward(T x, T p, T) { return select(x > T(0), x, p * expm1(x)); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x, T p, T) {
    const T below = select(x > T(0), T(0), x);
    return select(x > T(0), grad, grad * p * exp(below));
  }
};

/// p: the bound.
struct HardShrink {
  static constexpr const char* name = "hard_shrink";
  template <class T> CAPSTAN_HD static T forward(T x, T p, T) { return select(abs(x) <= p, T(0), x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x, T p, T) { return select(abs(x) <= p, T(0), grad); }
};

/// p, q: the limits.
struct HardTanh {
  static constexpr const char* name = "hard_tanh";
  template <class T> CAPSTAN_HD static T forward(T x, T p, T q) { return select(x < p, p, select(x > q, q, x)); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x, T p, T q) {
    return select(x <= p, T(0), select(x >= q, T(0), grad));
  }
};

/// p: the slope below 0.
struct LeakyRelu {
  static constexpr const char* name = "leaky_relu";
  template <class T> CAPSTAN_HD static T forward(T x, T p, T) { return select(x > T(0), x, p * x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x, T p, T) { return select(x > T(0), grad, grad * p); }
};

/// p: the order.
struct Polygamma {
  static constexpr const char* name = "polygamma";
  static constexpr Evaluate evaluate = Evaluate::scalar;
  template <class T> CAPSTAN_HD static T forward(T x, T p, T) { return polygamma(p, x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x, T p, T) { return grad * polygamma(p + T(1), x); }
};

/// p: the exponent; for the gradient not 0.
struct Power {
  static constexpr const char* name = "pow";
  static constexpr Evaluate evaluate = Evaluate::library;
  template <class T> CAPSTAN_HD static T forward(T x, T p, T) { return pow(x, p); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x, T p, T) { return grad * (p * pow(x, p - T(1))); }
};

/// p: the bound.
struct SoftShrink {
  static constexpr const char* name = "soft_shrink";
  template <class T> CAPSTAN_HD static T forward(T x, T p, T) {
    return select(abs(x) <= p, T(0), select(x > T(0), x - p, x + p));  // NaN stays
  }
  template <class T> CAPSTAN_HD static T backward(T grad, T x, T p, T) { return select(abs(x) <= p, T(0), grad); }
};

/// p: beta, q: from where on it is x itself.
struct Softplus {
  static constexpr const char* name = "softplus";
  static constexpr Evaluate evaluate = Evaluate::precise;
  template <class T> CAPSTAN_HD static T forward(T x, T p, T q) {
    const T scaled = p * x;
    return select(scaled > q, x, (select(scaled > T(0), scaled, T(0)) + log1p(exp(-abs(scaled)))) / p);
  }
  template <class T> CAPSTAN_HD static T backward(T grad, T x, T p, T q) {
    const T scaled = p * x;
    return select(scaled > q, grad, grad * sigmoid(scaled));
  }
};

/// p: the threshold, q: the value up to there.
struct Threshold {
  static constexpr const char* name = "threshold";
  template <class T> CAPSTAN_HD static T forward(T x, T p, T q) { return select(x <= p, q, x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x, T p, T) { return select(x <= p, T(0), grad); }
};

using ParametricOps =
    std::tuple<Celu, Clip, Elu, HardShrink, HardTanh, LeakyRelu, Polygamma, Power, SoftShrink, Softplus,
               Threshold>;  // alphabetical

}  // namespace capstan::kernels
