#pragma once
// One step of an optimizer on one element: one struct each. Compiled by g++ for scalars and SIMD lanes, and by nvcc.
//
// `step(p, g, s, n)` changes a parameter p and its states s, of which the rule has `states`, by its gradient g. The
// formulas and the numbers n are those of include/capstan/ops/update_rule.hpp, in the same order.
#include <array>
#include <tuple>

#include "lib/kernels/host_device.hpp"

namespace capstan::kernels {

/// The gradient that a rule works with. Without decay nothing of the parameter is in it: 0 times infinity is NaN.
template <class T, class N> CAPSTAN_HD T pulled(T p, T g, const N& n) {
  const T own = T(n.sign) * g;
  if (n.decay == 0) return own;
  return own + T(n.decay) * p;
}
/// -1, 0 or 1, and NaN for NaN.
template <class T> CAPSTAN_HD T sign_of(T x) { return select(x > T(0), T(1), select(x < T(0), T(-1), x)); }
/// A running mean of the gradient, and one of its square.
template <class T> CAPSTAN_HD void mean_moves(T& mean, T g, double beta) { mean = T(beta) * mean + T(1 - beta) * g; }
template <class T, class N> CAPSTAN_HD void square_moves(T& square, T g, const N& n) {
  square = T(n.beta2) * square + T(1 - n.beta2) * g * g;
}
template <class T, class N> CAPSTAN_HD void moments_move(T* s, T g, const N& n) {
  mean_moves(s[0], g, n.beta1);
  square_moves(s[1], g, n);
}
template <class T, class N> CAPSTAN_HD T root(T square, const N& n) {
  return sqrt(T(n.square_scale) * square) + T(n.epsilon);
}

struct SgdStep {
  static constexpr int states = 0;
  template <class T, class N> CAPSTAN_HD static void step(T& p, T g, T*, const N& n) {
    p = p - T(n.rate) * pulled(p, g, n);
  }
};

struct MomentumStep {
  static constexpr int states = 1;
  template <class T, class N> CAPSTAN_HD static void step(T& p, T g, T* s, const N& n) {
    s[0] = T(n.beta1) * s[0] + T(n.share) * pulled(p, g, n);
    p = p - T(n.rate) * s[0];
  }
};

struct NesterovStep {
  static constexpr int states = 1;
  template <class T, class N> CAPSTAN_HD static void step(T& p, T g, T* s, const N& n) {
    g = pulled(p, g, n);
    s[0] = T(n.beta1) * s[0] + T(n.share) * g;
    p = p - T(n.rate) * (g + T(n.beta1) * s[0]);
  }
};

struct AsgdStep {
  static constexpr int states = 1;
  template <class T, class N> CAPSTAN_HD static void step(T& p, T g, T* s, const N& n) {
    p = T(n.keep) * p - T(n.rate) * pulled(p, g, n);
    if (n.share == 1) s[0] = p;  // whatever it was before
    else s[0] = T(1 - n.share) * s[0] + T(n.share) * p;
  }
};

struct LionStep {
  static constexpr int states = 1;
  template <class T, class N> CAPSTAN_HD static void step(T& p, T g, T* s, const N& n) {
    g = pulled(p, g, n);
    T ahead = s[0];
    mean_moves(ahead, g, n.beta1);
    mean_moves(s[0], g, n.beta2);
    p = T(n.keep) * p - T(n.rate) * sign_of(ahead);
  }
};

struct RpropStep {
  static constexpr int states = 2;
  template <class T, class N> CAPSTAN_HD static void step(T& p, T g, T* s, const N& n) {
    g = pulled(p, g, n);
    const T agreement = g * s[0];
    const T size = s[1] * select(agreement > T(0), T(n.grow), select(agreement < T(0), T(n.shrink), T(1)));
    const T raised = select(size < T(n.low), T(n.low), size);
    s[1] = select(raised > T(n.high), T(n.high), raised);
    s[0] = select(agreement < T(0), T(0), g);
    p = p - sign_of(s[0]) * s[1];
  }
};

struct AdagradStep {
  static constexpr int states = 1;
  template <class T, class N> CAPSTAN_HD static void step(T& p, T g, T* s, const N& n) {
    g = pulled(p, g, n);
    s[0] = s[0] + g * g;
    p = p - T(n.rate) * g / (sqrt(s[0]) + T(n.epsilon));
  }
};

struct AdadeltaStep {
  static constexpr int states = 2;
  template <class T, class N> CAPSTAN_HD static void step(T& p, T g, T* s, const N& n) {
    g = pulled(p, g, n);
    square_moves(s[0], g, n);
    const T change = sqrt(s[1] + T(n.epsilon)) / sqrt(s[0] + T(n.epsilon)) * g;
    square_moves(s[1], change, n);
    p = p - T(n.rate) * change;
  }
};

template <bool Centered, bool Momentum> struct RmsPropStep {
  static constexpr int states = 1 + (Centered ? 1 : 0) + (Momentum ? 1 : 0);
  template <class T, class N> CAPSTAN_HD static void step(T& p, T g, T* s, const N& n) {
    g = pulled(p, g, n);
    square_moves(s[0], g, n);
    T spread = s[0];
    if constexpr (Centered) {
      mean_moves(s[1], g, n.beta2);
      spread = s[0] - s[1] * s[1];
      spread = select(spread < T(0), T(0), spread);  // rounding may leave less than nothing
    }
    T change = g / (sqrt(spread) + T(n.epsilon));
    if constexpr (Momentum) {
      T& velocity = s[states - 1];
      velocity = T(n.beta1) * velocity + change;
      change = velocity;
    }
    p = p - T(n.rate) * change;
  }
};

struct AdamStep {
  static constexpr int states = 2;
  template <class T, class N> CAPSTAN_HD static void step(T& p, T g, T* s, const N& n) {
    moments_move(s, pulled(p, g, n), n);
    p = T(n.keep) * p - T(n.rate) * s[0] / root(s[1], n);
  }
};

struct AmsgradStep {
  static constexpr int states = 3;
  template <class T, class N> CAPSTAN_HD static void step(T& p, T g, T* s, const N& n) {
    moments_move(s, pulled(p, g, n), n);
    s[2] = select(s[2] > s[1], s[2], s[1]);
    p = T(n.keep) * p - T(n.rate) * s[0] / root(s[2], n);
  }
};

struct AdamaxStep {
  static constexpr int states = 2;
  template <class T, class N> CAPSTAN_HD static void step(T& p, T g, T* s, const N& n) {
    g = pulled(p, g, n);
    mean_moves(s[0], g, n.beta1);
    const T faded = T(n.beta2) * s[1], size = abs(g) + T(n.epsilon);
    s[1] = select(size > faded, size, faded);
    p = p - T(n.rate) * s[0] / s[1];
  }
};

struct NadamStep {
  static constexpr int states = 2;
  template <class T, class N> CAPSTAN_HD static void step(T& p, T g, T* s, const N& n) {
    g = pulled(p, g, n);
    moments_move(s, g, n);
    p = T(n.keep) * p - (T(n.gradient_rate) * g + T(n.rate) * s[0]) / root(s[1], n);
  }
};

struct RadamStep {
  static constexpr int states = 2;
  template <class T, class N> CAPSTAN_HD static void step(T& p, T g, T* s, const N& n) {
    moments_move(s, pulled(p, g, n), n);
    T size = T(1 - n.share);
    if (n.share != 0) size = size + T(n.share) * (sqrt(s[1]) + T(n.epsilon));  // 0: a square of infinity does not count
    p = T(n.keep) * p - T(n.rate) * s[0] / size;
  }
};

/// The step itself moves the states. How far the parameter goes along `direction` depends on the norms of both.
struct LambStep {
  static constexpr int states = 2;
  template <class T, class N> CAPSTAN_HD static void step(T&, T g, T* s, const N& n) {
    moments_move(s, T(n.sign) * g, n);
  }
  template <class T, class N> CAPSTAN_HD static T direction(T p, T mean, T square, const N& n) {
    return T(n.mean_scale) * mean / root(square, n) + T(n.decay) * p;
  }
};

/// In the order of UpdateRule.
using StepRules =
    std::tuple<SgdStep, MomentumStep, NesterovStep, AsgdStep, LionStep, RpropStep, AdagradStep, AdadeltaStep,
               RmsPropStep<false, false>, RmsPropStep<false, true>, RmsPropStep<true, false>, RmsPropStep<true, true>,
               AdamStep, AmsgradStep, AdamaxStep, NadamStep, RadamStep, LambStep>;
inline constexpr int kStepCount = std::tuple_size_v<StepRules>;

template <class... Rules> constexpr std::array<int, sizeof...(Rules)> states_in(std::tuple<Rules...>*) {
  return {{Rules::states...}};
}
/// How many states each rule has.
inline constexpr auto kStepStates = states_in(static_cast<StepRules*>(nullptr));

}  // namespace capstan::kernels
