#pragma once
// Elementwise functions in long double that the C library does not have, or not with all digits everywhere. Written
// from the mathematics, in other ways than the library computes them.

namespace tests::reference {

using Real = long double;

Real digamma(Real x);
Real erfinv(Real y);
Real floor_divide(Real a, Real b);
Real gelu(Real x);
Real gelu_tanh(Real x);
Real logaddexp(Real a, Real b);
Real logit(Real x);
Real mish(Real x);
/// For x > 0.
Real polygamma(int n, Real x);
Real remainder(Real a, Real b);
/// log(1 + exp(x))
Real softplus(Real x);
Real tanh_shrink(Real x);
Real trigamma(Real x);

}  // namespace tests::reference
