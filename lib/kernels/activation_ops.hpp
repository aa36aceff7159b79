#pragma once
// Activations without parameters. unary_ops.hpp says what a row is, parametric_ops.hpp has those with parameters.
#include <tuple>

#include "lib/kernels/host_device.hpp"
#include "lib/kernels/special.hpp"
#include "lib/kernels/unary_ops.hpp"

namespace capstan::kernels {

/// 0.5 x erfc(-x/sqrt(2)), x times the normal distribution function.
struct Gelu {
  static constexpr const char* name = "gelu";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  static constexpr Evaluate evaluate = Evaluate::functions;
  template <class T> CAPSTAN_HD static T forward(T x) { return gelu(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) { return grad * gelu_slope(x); }
};

struct GeluTanh {
  static constexpr const char* name = "gelu_tanh";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  static constexpr Evaluate evaluate = Evaluate::precise;
  template <class T> CAPSTAN_HD static T forward(T x) { return gelu_tanh(x); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) {
    // (1 + tanh(u))/2 = sigmoid(2u); below 2u and its slope. From 25 on nothing changes, but squares would overflow
    const T near = select(x < T(-25), T(-25), select(x > T(25), T(25), x));
    const T linear = T(1.5957691216057307), square = near * near;  // 2 sqrt(2/pi)
    const T s = sigmoid(near * (linear + T(0.071354816272600249) * square));
    return grad * (s + near * s * (T(1) - s) * (linear + T(0.21406444881780074) * square));
  }
};

struct HardSigmoid {
  static constexpr const char* name = "hard_sigmoid";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  template <class T> CAPSTAN_HD static T forward(T x) {
    return select(x <= T(-3), T(0), select(x >= T(3), T(1), (x + T(3)) / T(6)));
  }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) {
    return select(x <= T(-3), T(0), select(x >= T(3), T(0), grad / T(6)));
  }
};

struct HardSwish {
  static constexpr const char* name = "hard_swish";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  template <class T> CAPSTAN_HD static T forward(T x) {
    return select(x <= T(-3), T(0), select(x >= T(3), x, x * ((x + T(3)) / T(6))));
  }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) {
    return select(x <= T(-3), T(0), select(x >= T(3), grad, grad * (x / T(3) + T(0.5))));
  }
};

struct LogSigmoid {
  static constexpr const char* name = "log_sigmoid";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  static constexpr Evaluate evaluate = Evaluate::functions;
  template <class T> CAPSTAN_HD static T forward(T x) { return select(x < T(0), x, T(0)) - log1p(exp(-abs(x))); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) { return grad * sigmoid(-x); }
};

struct Mish {
  static constexpr const char* name = "mish";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  static constexpr Evaluate evaluate = Evaluate::precise;
  template <class T> CAPSTAN_HD static T forward(T x) {
    // tanh(log(1 + e)) = e(e+2) / (e(e+2) + 2); above 0 with 1/e; far below with e in two halves, which do not vanish before x e does
    const auto far = x < T(-80);
    const T z = exp(select(far, T(0.5) * x, -abs(x))), n = z * (z + T(2)), w = T(1) + T(2) * z;
    const T near = select(x < T(0), x * n, x * w) / select(x < T(0), n + T(2), w + T(2) * z * z);
    return select(far, (x * z) * z, near);
  }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) {
    const T s = sigmoid(x), rest = T(1) - s;
    const T t = s * (T(2) - s) / (T(1) + rest * rest);  // the same in terms of the sigmoid
    return grad * (t + x * s * (T(1) - t * t));
  }
};

struct Relu {
  static constexpr const char* name = "relu";
  static constexpr Domain domain = Domain::numbers;
  static constexpr Saves saves = Saves::output;
  template <class T> CAPSTAN_HD static T forward(T x) { return select(x < T(0), T(0), x); }  // NaN stays
  template <class T> CAPSTAN_HD static T backward(T grad, T y) { return select(y <= T(0), T(0), grad); }
};

struct Relu6 {
  static constexpr const char* name = "relu6";
  static constexpr Domain domain = Domain::numbers;
  static constexpr Saves saves = Saves::output;
  template <class T> CAPSTAN_HD static T forward(T x) { return select(x < T(0), T(0), select(x > T(6), T(6), x)); }
  template <class T> CAPSTAN_HD static T backward(T grad, T y) {
    return select(y <= T(0), T(0), select(y >= T(6), T(0), grad));
  }
};

/// Klambauer et al., "Self-normalizing neural networks", 2017: lambda x above 0, lambda alpha (exp(x) - 1) below.
struct Selu {
  static constexpr const char* name = "selu";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  static constexpr Evaluate evaluate = Evaluate::functions;
  static constexpr double lambda = 1.0507009873554804934, lambda_alpha = 1.7580993408473768599;
  template <class T> CAPSTAN_HD static T forward(T x) {
    return select(x > T(0), T(lambda) * x, T(lambda_alpha) * expm1(x));
  }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) {
    const T below = select(x > T(0), T(0), x);  // exp must not overflow where it is not taken
    return select(x > T(0), T(lambda) * grad, T(lambda_alpha) * grad * exp(below));
  }
};

struct Silu {
  static constexpr const char* name = "silu";
  static constexpr Domain domain = Domain::floating;         // the types it takes
  static constexpr Saves saves = Saves::input;               // what backward receives as its second argument
  static constexpr Evaluate evaluate = Evaluate::functions;  // how the CPU computes it
  template <class T> CAPSTAN_HD static T forward(T x) {
    // far below exp(x) vanishes before x*exp(x) does: there with e^-40 apart
    const auto far = x < T(-80);
    const T z = exp(select(far, x + T(40), -abs(x)));
    return select(far, x * z * T(4.2483542552915890e-18), select(x < T(0), x * z, x) / (T(1) + z));
  }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) {
    const T s = sigmoid(x);
    return grad * s * (T(1) + x * (T(1) - s));
  }
};

struct Softsign {
  static constexpr const char* name = "softsign";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  template <class T> CAPSTAN_HD static T forward(T x) { return x / (T(1) + abs(x)); }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) {
    const T scale = T(1) / (T(1) + abs(x));
    return grad * scale * scale;
  }
};

/// x - tanh(x). Below 1.5 as (x cosh(x) - sinh(x)) / cosh(x): both series have positive terms alone.
struct TanhShrink {
  static constexpr const char* name = "tanh_shrink";
  static constexpr Domain domain = Domain::floating;
  static constexpr Saves saves = Saves::input;
  static constexpr Evaluate evaluate = Evaluate::precise;
  template <class T> CAPSTAN_HD static T forward(T x) {
    constexpr int kTerms = 12;
    constexpr double above[kTerms] = {// 2n / (2n+1)!
                                      0.33333333333333333,    0.033333333333333333,   0.0011904761904761905,
                                      2.2045855379188713e-5,  2.5052108385441719e-7,  1.9270852604185938e-9,
                                      1.0706029224547743e-11, 4.4983316069528332e-14, 1.4797143443923794e-16,
                                      3.9145882126782522e-19, 8.5099743753875049e-22, 1.5472680682522736e-24};
    constexpr double below[kTerms] = {// 1 / (2n)!
                                      0.5,
                                      0.041666666666666667,
                                      0.0013888888888888889,
                                      2.4801587301587302e-5,
                                      2.7557319223985891e-7,
                                      2.0876756987868099e-9,
                                      1.1470745597729725e-11,
                                      4.7794773323873853e-14,
                                      1.5619206968586226e-16,
                                      4.1103176233121649e-19,
                                      8.8967913924505733e-22,
                                      1.6117375710961183e-24};
    const T z = x * x;
    T numerator = T(above[kTerms - 1]), denominator = T(below[kTerms - 1]);
    for (int n = kTerms - 2; n >= 0; --n) {
      numerator = numerator * z + T(above[n]);
      denominator = denominator * z + T(below[n]);
    }
    return select(abs(x) < T(1.5), x * z * numerator / (denominator * z + T(1)), x - tanh(x));
  }
  template <class T> CAPSTAN_HD static T backward(T grad, T x) {
    const T t = tanh(x);
    return grad * t * t;
  }
};

using ActivationOps = std::tuple<Gelu, GeluTanh, HardSigmoid, HardSwish, LogSigmoid, Mish, Relu, Relu6, Selu, Silu,
                                 Softsign, TanhShrink>;  // alphabetical

}  // namespace capstan::kernels
