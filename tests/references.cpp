#include "tests/references.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tests::reference {

namespace {

constexpr Real kPi = 3.14159265358979323846264338327950288L;
constexpr Real kInf = std::numeric_limits<Real>::infinity();
constexpr Real kNot = std::numeric_limits<Real>::quiet_NaN();

/// x less the nearest whole number.
Real off_whole(Real x) { return x - std::floor(x + 0.5L); }
Real cotangent_pi(Real t) {
  return std::fabs(t) > 0.25L ? std::copysign(std::tan(kPi * (0.5L - std::fabs(t))), t) : 1 / std::tan(kPi * t);
}

/// digamma around its positive zero x0: (x - x0) times the sum of 1/((k+x)(k+x0)), whose terms are all positive. The
/// rest of the sum by Euler and Maclaurin, where the derivatives are, by Leibniz, sums of powers.
Real digamma_from_zero(Real x) {
  constexpr Real high = 0x1.762d86356be3fp+0L, low = 9.54999542996569771518419907597e-17L;
  constexpr int terms = 60;
  const Real d = (x - high) - low, x0 = high + low;
  Real sum = 0;
  for (int k = 0; k < terms; ++k) sum += 1 / ((static_cast<Real>(k) + x) * (static_cast<Real>(k) + x0));
  const Real p = 1 / (terms + x), q = 1 / (terms + x0);
  sum += (d == 0 ? q : std::log1p(d * q) / d) + p * q / 2;
  const Real coefficients[] = {1 / 12.0L, -1 / 120.0L, 1 / 252.0L, -1 / 240.0L, 1 / 132.0L};  // B[2j]/(2j)
  for (int j = 1; j <= 5; ++j) {
    Real powers = 0;
    for (int i = 0; i <= 2 * j - 1; ++i) powers += std::pow(p, i) * std::pow(q, 2 * j - 1 - i);
    sum += coefficients[j - 1] * p * q * powers;
  }
  return d * sum;
}

}  // namespace

Real softplus(Real x) { return x > 60 ? x : std::log1p(std::exp(x)); }

/// The rounding of x/sqrt(2) matters in the tail, so it is put back by the derivative.
Real gelu(Real x) {
  if (std::isinf(x)) return x > 0 ? x : kNot;
  constexpr Real high = 0x1.6a09e667f3bcdp-1L, low = -4.833646656726456518593584e-17L;  // 1/sqrt(2)
  const Real t = -x * high, rest = std::fma(-x, high, -t) - x * low;
  return x / 2 * (std::erfc(t) - 2 / std::sqrt(kPi) * std::exp(-t * t) * rest);
}
Real gelu_tanh(Real x) { return x / (1 + std::exp(-2 * std::sqrt(2 / kPi) * (x + 0.044715L * x * x * x))); }
Real mish(Real x) { return x * std::tanh(softplus(x)); }

/// Lambert's continued fraction: tanh(x) = x / (1 + c), c = x^2/(3 + x^2/(5 + ...)).
Real tanh_shrink(Real x) {
  if (std::fabs(x) > 4) return x - std::tanh(x);
  Real c = 0;
  for (int k = 61; k >= 3; k -= 2) c = x * x / (static_cast<Real>(k) + c);
  return x * (c / (1 + c));
}

Real logit(Real x) {
  if (x > 0.25L && x < 0.75L) return std::log1p((2 * x - 1) / (1 - x));
  return std::log(x) - std::log1p(-x);
}

/// Newton on erf(x) = y, near 1 on log(erfc(x)), which is concave: from its second step on it comes down from above.
Real erfinv(Real y) {
  const Real size = std::fabs(y), rest = 1 - size;
  if (!(size <= 1)) return kNot;
  if (rest == 0) return y * kInf;
  if (y == 0) return y;
  const bool inner = size < 0.5L;
  Real x = inner ? size * std::sqrt(kPi) / 2 : std::sqrt(-std::log(rest));
  for (int step = 0; step < 60; ++step) {
    const Real slope = 2 / std::sqrt(kPi) * std::exp(-x * x), tail = std::erfc(x);
    const Real move = inner ? (size - std::erf(x)) / slope : std::log(tail / rest) * tail / slope;
    x += move;
    if (std::fabs(move) <= 1e-18L * x) break;
  }
  return std::copysign(x, y);
}

Real digamma(Real x) {
  if (x == 0) return -1 / x;
  if (std::isinf(x)) return x > 0 ? x : kNot;
  if (x < 0) {
    const Real t = off_whole(x);
    return t == 0 ? kNot : digamma(1 - x) - kPi * cotangent_pi(t);
  }
  if (x > 1 && x < 2) return digamma_from_zero(x);
  Real below = 0;
  for (; x < 40; x += 1) below += 1 / x;
  const Real z = 1 / (x * x);
  const Real series = z * (1 / 12.0L - z * (1 / 120.0L - z * (1 / 252.0L - z * (1 / 240.0L - z / 132))));
  return std::log(x) - 1 / (2 * x) - series - below;
}

/// By recurrence to 40, and from there on
///   (n-1)!/x^n + n!/(2 x^(n+1)) + sum B[2k] (2k+n-1)! / ((2k)! x^(2k+n))
Real polygamma(int n, Real x) {
  const auto s = static_cast<Real>(n);
  Real factorial = 1;  // (n-1)!
  for (int k = 2; k < n; ++k) factorial *= static_cast<Real>(k);
  Real sum = 0;
  for (; x < 40; x += 1) sum += std::pow(x, -s - 1);
  const Real bernoulli[] = {1 / 6.0L, -1 / 30.0L, 1 / 42.0L, -1 / 30.0L, 5 / 66.0L, -691 / 2730.0L};
  Real tail = factorial * std::pow(x, -s) * (1 + s / (2 * x)), rising = factorial;
  for (int k = 1; k <= 6; ++k) {
    const auto two_k = static_cast<Real>(2 * k);
    rising *= (two_k + s - 2) * (two_k + s - 1) / ((two_k - 1) * two_k);
    tail += bernoulli[k - 1] * rising * std::pow(x, -two_k - s);
  }
  return static_cast<Real>(n % 2 == 1 ? 1 : -1) * (factorial * s * sum + tail);
}

Real trigamma(Real x) {
  if (std::isinf(x)) return x > 0 ? 0 : kNot;
  if (x > 0) return polygamma(1, x);
  const Real t = off_whole(x), sine = std::sin(kPi * t);
  return t == 0 ? kInf : kPi * kPi / (sine * sine) - polygamma(1, 1 - x);
}

Real remainder(Real a, Real b) {
  const Real r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
Real floor_divide(Real a, Real b) {
  const Real r = std::fmod(a, b);
  if (std::isnan(r)) return std::floor(a / b);
  const Real q = std::round((a - r) / b);
  return r != 0 && (r < 0) != (b < 0) ? q - 1 : q;
}
Real logaddexp(Real a, Real b) {
  return a == b ? a + std::log(2.0L) : std::max(a, b) + std::log1p(std::exp(-std::fabs(a - b)));
}

}  // namespace tests::reference
