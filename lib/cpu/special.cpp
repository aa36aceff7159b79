// The functions of lib/kernels/special.hpp for the host, each computed in the next wider type and rounded once. An
// ordinary file, so that the SIMD kernels of all instruction sets call the same code.
#include "lib/kernels/special.hpp"

namespace capstan::kernels {
namespace {

// M. Giles, "Approximating the erfinv function", GPU Computing Gems 2, 2011: the single precision polynomials, right to
// 3e-7, as a start for w = -log(1 - y^2) below this.
constexpr double kFarOut = 16;

double erfinv_near(double y, double w) {
  constexpr double central[] = {1.50140941,      0.246640727,    -0.00417768164, -0.00125372503, 0.00021858087,
                                -4.39150654e-06, -3.5233877e-06, 3.43273939e-07, 2.81022636e-08};
  constexpr double tail[] = {2.83297682,     1.00167406,    0.00943887047,  -0.0076224613,  0.00573950773,
                             -0.00367342844, 0.00134934322, 0.000100950558, -0.000200214257};
  return y * (w < 5 ? special::polynomial(central, w - 2.5) : special::polynomial(tail, ::sqrt(w) - 3));
}

/// From erfc(x) = c near exp(-x^2) / (x sqrt(pi)); right to a thousandth.
double erfinv_far(double c) {
  const double root = ::sqrt(-::log(c));
  return ::sqrt(-::log(1.7724538509055161 * c * root));
}

/// Halley's steps on erf(x) = y, near 1 on erfc(x) = 1 - y, which is exact there. Each triples the digits.
long double erfinv_wide(long double y) {
  const long double size = y < 0 ? -y : y;
  if (y == 0) return y;
  if (!(size <= 1)) return (y - y) / (y - y);  // NaN
  const long double rest = 1 - size;
  if (rest == 0) return y * HUGE_VALL;
  const auto w = static_cast<double>(-::logl(rest * (1 + size)));
  long double x = w < kFarOut ? erfinv_near(static_cast<double>(size), w) : erfinv_far(static_cast<double>(rest));
  for (int step = w < kFarOut ? 1 : 2; step > 0; --step) {
    const long double slope = 1.12837916709551257389615890312L * ::expl(-x * x);
    const long double error = (size > 0.5L ? rest - ::erfcl(x) : ::erfl(x) - size) / slope;
    x -= error / (1 + x * error);
  }
  return y < 0 ? -x : x;
}

}  // namespace

double digamma(double x) { return static_cast<double>(special::digamma(static_cast<long double>(x))); }

float polygamma(float n, float x) {
  return static_cast<float>(special::polygamma(static_cast<int>(n), static_cast<double>(x)));
}
double polygamma(double n, double x) {
  return static_cast<double>(special::polygamma(static_cast<int>(n), static_cast<long double>(x)));
}

double erfinv(double x) { return static_cast<double>(erfinv_wide(x)); }

double gelu(double x) {
  if (x > -0.5) return 0.5 * x * ::erfc(x * -0.70710678118654752);
  // the error of the argument grows with its square
  return static_cast<double>(0.5L * x * ::erfcl(x * -0.70710678118654752440084436210485L));
}
double gelu_tanh(double x) { return static_cast<double>(special::gelu_tanh(static_cast<long double>(x))); }

}  // namespace capstan::kernels
