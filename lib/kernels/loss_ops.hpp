#pragma once
// Losses of each element by itself: of a prediction x, a target t and a number p that all elements share. unary_ops.hpp
// says what a row is; here `left` and `right` are the gradients for x and for t. At kinks they are PyTorch's.
#include <tuple>

#include "lib/kernels/host_device.hpp"
#include "lib/kernels/unary_ops.hpp"

namespace capstan::kernels {

struct AbsoluteError {
  static constexpr const char* name = "l1_loss";
  template <class T> CAPSTAN_HD static T forward(T x, T t, T) { return abs(x - t); }
  template <class T> CAPSTAN_HD static T left(T grad, T x, T t, T) {
    return select(x > t, grad, select(x < t, -grad, T(0)));
  }
  template <class T> CAPSTAN_HD static T right(T grad, T x, T t, T) {
    return select(x > t, -grad, select(x < t, grad, T(0)));
  }
};

/// Of a probability x. Its logarithms end at -100, and so does the gradient for t.
struct BinaryCrossEntropy {
  static constexpr const char* name = "binary_cross_entropy";
  static constexpr Evaluate evaluate = Evaluate::precise;
  template <class T> CAPSTAN_HD static T forward(T x, T t, T) { return (t - T(1)) * log_of_rest(x) - t * log_of(x); }
  template <class T> CAPSTAN_HD static T left(T grad, T x, T t, T) {
    const T spread = x * (T(1) - x);
    return grad * (x - t) / select(spread < T(1e-12), T(1e-12), spread);
  }
  template <class T> CAPSTAN_HD static T right(T grad, T x, T, T) { return grad * (log_of_rest(x) - log_of(x)); }

 private:
  // the logarithm's argument is 1 where the result is not taken, so that gradients of gradients stay finite
  template <class T> CAPSTAN_HD static T log_of(T x) {
    const auto none = x <= T(0);
    const T l = log(select(none, T(1), x));
    return select(none, T(-100), select(l < T(-100), T(-100), l));
  }
  /// log(1 - x)
  template <class T> CAPSTAN_HD static T log_of_rest(T x) {
    const auto none = x >= T(1);
    const T l = log1p(-select(none, T(0), x));
    return select(none, T(-100), select(l < T(-100), T(-100), l));
  }
};

/// p: the margin.
struct Hinge {
  static constexpr const char* name = "hinge_loss";
  template <class T> CAPSTAN_HD static T forward(T x, T t, T p) {
    const T m = margin(x, t, p);
    return select(m < T(0), T(0), m);
  }
  template <class T> CAPSTAN_HD static T left(T grad, T x, T t, T p) {
    return select(margin(x, t, p) < T(0), T(0), -(grad * t));
  }
  template <class T> CAPSTAN_HD static T right(T grad, T x, T t, T p) {
    return select(margin(x, t, p) < T(0), T(0), -(grad * x));
  }

 private:
  template <class T> CAPSTAN_HD static T margin(T x, T t, T p) { return p - rounded_product(x, t); }
};

/// p: the margin. The target is only compared.
struct HingeEmbedding {
  static constexpr const char* name = "hinge_embedding_loss";
  template <class T> CAPSTAN_HD static T forward(T x, T t, T p) {
    const T m = p - x;
    return select(t == T(1), T(0), select(m < T(0), T(0), m)) + select(t == T(-1), T(0), x);
  }
  template <class T> CAPSTAN_HD static T left(T grad, T x, T t, T p) {
    return select(t == T(1), T(0), select(p - x < T(0), T(0), -grad)) + select(t == T(-1), T(0), grad);
  }
  template <class T> CAPSTAN_HD static T right(T grad, T, T, T) { return zero_of(grad); }
};

/// p: delta.
struct Huber {
  static constexpr const char* name = "huber_loss";
  template <class T> CAPSTAN_HD static T forward(T x, T t, T p) {
    const T d = abs(x - t);
    return select(d < p, T(0.5) * d * d, p * (d - T(0.5) * p));
  }
  template <class T> CAPSTAN_HD static T left(T grad, T x, T t, T p) { return slope(grad, x - t, p); }
  template <class T> CAPSTAN_HD static T right(T grad, T x, T t, T p) { return slope(grad, t - x, p); }

 private:
  template <class T> CAPSTAN_HD static T slope(T grad, T d, T p) {
    return select(d >= p, grad * p, select(d <= T(0) - p, -(grad * p), grad * d));
  }
};

/// x is a logarithm.
struct KlDivergence {
  static constexpr const char* name = "kl_div";
  template <class T> CAPSTAN_HD static T forward(T x, T t, T) { return select(t == T(0), T(0), t * (log(t) - x)); }
  template <class T> CAPSTAN_HD static T left(T grad, T, T t, T) { return -(grad * t); }
  template <class T> CAPSTAN_HD static T right(T grad, T x, T t, T) {
    const auto none = t == T(0);  // there x may be -infinity
    return select(none, T(0), grad * (log(select(none, T(1), t)) + T(1) - select(none, T(0), x)));
  }
};

/// x and t are logarithms.
struct KlDivergenceOfLog {
  static constexpr const char* name = "kl_div";
  template <class T> CAPSTAN_HD static T forward(T x, T t, T) {
    return select(t == T(-HUGE_VAL), T(0), exp(t) * (t - x));
  }
  template <class T> CAPSTAN_HD static T left(T grad, T, T t, T) { return -(grad * exp(t)); }
  template <class T> CAPSTAN_HD static T right(T grad, T x, T t, T) {
    const auto none = t == T(-HUGE_VAL);
    const T log_share = select(none, T(0), t);
    return select(none, T(0), grad * exp(log_share) * (log_share - select(none, T(0), x) + T(1)));
  }
};

/// Below 1 by cosh(d) - 1 = 2 sinh(d/2)^2, which keeps its digits; above without overflow.
struct LogCosh {
  static constexpr const char* name = "log_cosh_loss";
  static constexpr Evaluate evaluate = Evaluate::precise;
  template <class T> CAPSTAN_HD static T forward(T x, T t, T) {
    const T d = abs(x - t), s = sinh(T(0.5) * d);
    return select(d < T(1), log1p(T(2) * s * s), d + log1p(exp(T(-2) * d)) - T(0.69314718055994531));
  }
  template <class T> CAPSTAN_HD static T left(T grad, T x, T t, T) { return grad * tanh(x - t); }
  template <class T> CAPSTAN_HD static T right(T grad, T x, T t, T) { return grad * tanh(t - x); }
};

/// x is the logarithm of a rate.
struct PoissonOfLog {
  static constexpr const char* name = "poisson_nll_loss";
  template <class T> CAPSTAN_HD static T forward(T x, T t, T) { return exp(x) - t * x; }
  template <class T> CAPSTAN_HD static T left(T grad, T x, T t, T) { return grad * (exp(x) - t); }
  template <class T> CAPSTAN_HD static T right(T grad, T x, T, T) { return -(grad * x); }
};

/// x is a rate. p: epsilon.
struct PoissonOfRate {
  static constexpr const char* name = "poisson_nll_loss";
  template <class T> CAPSTAN_HD static T forward(T x, T t, T p) { return x - t * log(x + p); }
  template <class T> CAPSTAN_HD static T left(T grad, T x, T t, T p) { return grad * (T(1) - t / (x + p)); }
  template <class T> CAPSTAN_HD static T right(T grad, T x, T, T p) { return -(grad * log(x + p)); }
};

/// (1 - t) x + log(1 + exp(-x)), and -t x + log(1 + exp(x)) for x < 0.
struct SigmoidCrossEntropy {
  static constexpr const char* name = "sigmoid_cross_entropy";
  static constexpr Evaluate evaluate = Evaluate::functions;
  template <class T> CAPSTAN_HD static T forward(T x, T t, T) {
    return x * (select(x < T(0), T(0), T(1)) - t) + log1p(exp(-abs(x)));
  }
  template <class T> CAPSTAN_HD static T left(T grad, T x, T t, T) { return grad * (sigmoid(x) - t); }
  template <class T> CAPSTAN_HD static T right(T grad, T x, T, T) { return -(grad * x); }
};

/// p: beta, above 0.
struct SmoothL1 {
  static constexpr const char* name = "smooth_l1_loss";
  template <class T> CAPSTAN_HD static T forward(T x, T t, T p) {
    const T d = abs(x - t);
    return select(d < p, T(0.5) * d * d / p, d - T(0.5) * p);
  }
  template <class T> CAPSTAN_HD static T left(T grad, T x, T t, T p) { return slope(grad, x - t, p); }
  template <class T> CAPSTAN_HD static T right(T grad, T x, T t, T p) { return slope(grad, t - x, p); }

 private:
  template <class T> CAPSTAN_HD static T slope(T grad, T d, T p) {
    return select(d >= p, grad, select(d <= T(0) - p, -grad, grad * d / p));
  }
};

struct SoftMargin {
  static constexpr const char* name = "soft_margin_loss";
  static constexpr Evaluate evaluate = Evaluate::precise;
  template <class T> CAPSTAN_HD static T forward(T x, T t, T) {
    const T z = x * t;
    return select(z < T(0), -z, T(0)) + log1p(exp(-abs(z)));
  }
  template <class T> CAPSTAN_HD static T left(T grad, T x, T t, T) { return -(grad * t * sigmoid(-(x * t))); }
  template <class T> CAPSTAN_HD static T right(T grad, T x, T t, T) { return -(grad * x * sigmoid(-(x * t))); }
};

struct SquaredError {
  static constexpr const char* name = "mse_loss";
  template <class T> CAPSTAN_HD static T forward(T x, T t, T) {
    const T d = x - t;
    return d * d;
  }
  template <class T> CAPSTAN_HD static T left(T grad, T x, T t, T) { return T(2) * grad * (x - t); }
  template <class T> CAPSTAN_HD static T right(T grad, T x, T t, T) { return T(2) * grad * (t - x); }
};

/// p: the margin.
struct SquaredHinge {
  static constexpr const char* name = "squared_hinge_loss";
  template <class T> CAPSTAN_HD static T forward(T x, T t, T p) {
    const T m = p - x * t, positive = select(m < T(0), T(0), m);
    return positive * positive;
  }
  template <class T> CAPSTAN_HD static T left(T grad, T x, T t, T p) {
    const T m = p - x * t;
    return select(m < T(0), T(0), T(-2) * grad * t * m);
  }
  template <class T> CAPSTAN_HD static T right(T grad, T x, T t, T p) {
    const T m = p - x * t;
    return select(m < T(0), T(0), T(-2) * grad * x * m);
  }
};

using LossOps = std::tuple<AbsoluteError, BinaryCrossEntropy, Hinge, HingeEmbedding, Huber, KlDivergence,
                           KlDivergenceOfLog, LogCosh, PoissonOfLog, PoissonOfRate, SigmoidCrossEntropy, SmoothL1,
                           SoftMargin, SquaredError, SquaredHinge>;  // alphabetical

}  // namespace capstan::kernels
