#pragma once
// The rules of fused optimizer steps, and the numbers that they take.
#include <cstdint>

#include <capstan/visibility.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// What a step does to an element p of a parameter whose gradient is `gradient`, in terms of the numbers below. In all
/// of them
///
///   g = sign * gradient + decay * p
///
/// (lamb: g = sign * gradient). Behind the formula stand the states, in the order in which they are given.
enum class UpdateRule : std::uint8_t {
  sgd,               ///< p -= rate*g
  momentum,          ///< v = beta1*v + share*g;  p -= rate*v                                                    [v]
  nesterov,          ///< v as in momentum;  p -= rate*(g + beta1*v)                                             [v]
  asgd,              ///< p = keep*p - rate*g;  a = (1 - share)*a + share*p                                      [a]
  lion,              ///< p = keep*p - rate*sign(beta1*m + (1-beta1)*g);  m = beta2*m + (1-beta2)*g              [m]
  rprop,             ///< e *= grow if g*b > 0, shrink if g*b < 0, within [low, high];  g = 0 if g*b < 0;
                     ///< p -= sign(g)*e;  b = g                                                                 [b, e]
  adagrad,           ///< s += g*g;  p -= rate*g / (sqrt(s) + epsilon)                                           [s]
  adadelta,          ///< s = beta2*s + (1-beta2)*g*g;  d = g*sqrt((u + epsilon) / (s + epsilon));
                     ///< u = beta2*u + (1-beta2)*d*d;  p -= rate*d                                              [s, u]
  rmsprop,           ///< s as in adadelta;  p -= rate*g / (sqrt(s) + epsilon)                                   [s]
  rmsprop_momentum,  ///< v = beta1*v + g / (sqrt(s) + epsilon);  p -= rate*v                            [s, v]
  rmsprop_centered,  ///< m = beta2*m + (1-beta2)*g, and s - m*m in place of s under the root            [s, m]
  rmsprop_centered_momentum,  ///< both                                                                  [s, m, v]
  adam,                       ///< m = beta1*m + (1-beta1)*g;  s = beta2*s + (1-beta2)*g*g;
  ///< p = keep*p - rate*m / (sqrt(square_scale*s) + epsilon)                                  [m, s]
  amsgrad,  ///< the same with l = max(l, s) in place of s under the root                                [m, s, l]
  adamax,   ///< m as in adam;  u = max(beta2*u, |g| + epsilon);  p -= rate*m / u                        [m, u]
  nadam,    ///< m, s as in adam;  p = keep*p - (gradient_rate*g + rate*m) / (sqrt(square_scale*s) + epsilon)  [m, s]
  radam,    ///< m, s as in adam;  p = keep*p - rate*m / (1 - share + share*(sqrt(s) + epsilon))         [m, s]
  lamb      ///< m, s as in adam;  d = mean_scale*m / (sqrt(square_scale*s) + epsilon) + decay*p;
            ///< p -= rate * |p|/|d| * d with the norms of the whole parameter, 1 if one of them is 0    [m, s]
};

/// A rule has at most so many states.
inline constexpr int kMostStates = 3;

/// Each rule uses those that its formula names.
struct UpdateNumbers {
  double sign = 1;   ///< -1 climbs
  double decay = 0;  ///< the share of the parameter that is added to its gradient
  double keep = 1;   ///< what stays of the parameter: decoupled decay
  double rate = 0, gradient_rate = 0;
  double beta1 = 0, beta2 = 0, epsilon = 0;
  double mean_scale = 1, square_scale = 1;
  double share = 1;
  double shrink = 1, grow = 1, low = 0, high = 0;
};

}  // namespace capstan
