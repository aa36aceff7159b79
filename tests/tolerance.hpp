#pragma once
// Every tolerance of the tests, named and explained in one place.

namespace tests::tolerance {

// Golden files (PyTorch in float64): the largest error relative to the largest expected value.
inline constexpr double golden64 = 1e-10;
// The same in float32: this many times the error that PyTorch itself made there ...
inline constexpr double golden32_factor = 8;
// ... plus this much ...
inline constexpr double golden32_floor = 1e-6;
// ... and no verdict where PyTorch's own error exceeds this.
inline constexpr double golden32_no_verdict = 1e-3;
// Gradients that PyTorch computed with a constant rounded to float32: 1/6 in hardsigmoid, 1/alpha in celu.
inline constexpr double constant_in_float32 = 1e-7;
// Gradients that PyTorch computed with its trigamma, a series cut after the third term.
inline constexpr double short_trigamma = 1e-8;
// Ten optimizer steps in float32: one rounding of 6e-8 a step, and what Adam's quotient makes of it.
inline constexpr double trajectory32 = 1e-5;

// Central differences in float64: the step, relative to max(1, |x|).
inline constexpr double difference_step = 1e-5;
// Truncation is step^2 * f''' / 6 = 2e-11 * f''', rounding 1e-16 * |f| / step = 1e-11 * |f|; |f| and f''' stay below 1e4.
inline constexpr double gradient = 1e-6;

// Units in the last place that elementwise functions promise.
inline constexpr double elementwise_ulps = 4;
// What the slope 1 - y loses, absolute, when y near 1 is off by that many units of 1.1e-16, twice over for y*y.
inline constexpr double slope_near_one = 2e-15;
// A handful of roundings in a row, relative.
inline constexpr double roundings64 = 1e-13;
inline constexpr double roundings32 = 4e-6;
// Published values carry six to eight digits.
inline constexpr double published = 1e-5;
// Values that the data collection states with six to eight decimals: absolute, for results of order 1 in float32.
inline constexpr double six_decimals = 1e-6;

// Float32 sums: blocks of up to 128 values add up in float32, each step rounding by at most 6e-8; the blocks in double.
inline constexpr double blocked_sum32 = 1e-5;
// Decompositions of matrices of up to 40 rows whose condition numbers stay below 10^3, relative to the largest value.
inline constexpr double decomposition32 = 2e-4;
inline constexpr double decomposition64 = 1e-12;
// Products of matrices with inner sizes up to a few hundred, relative to the largest value.
inline constexpr double product32 = 2e-6;
inline constexpr double product64 = 1e-13;

// Recurrent sequences against their steps, relative to the largest value: a product a step, through some twenty steps
// and several layers and back.
inline constexpr double sequence32 = 5e-5;
inline constexpr double sequence64 = 1e-12;
// A few recurrent steps in float16 and back, each some ten roundings by at most 5e-4, most of which cancel or are damped.
inline constexpr double recurrent16 = 2e-2;

// What is computed in float32 and rounded to bfloat16 once: half of its last place, relative.
inline constexpr double rounded_to_bfloat16 = 0x1p-8;

// Gradients of a few products whose operands are rounded to 16 bits, relative to the largest value: each rounds by at
// most 5e-4 in float16 and 4e-3 in bfloat16, and most of it cancels.
inline constexpr double autocast_float16 = 1e-2;
inline constexpr double autocast_bfloat16 = 5e-2;

// GPU and CPU. Elementwise functions, each side within `elementwise_ulps` of the exact value; in 16 bits both compute in
// float32 and round once, to neighbours at most.
inline constexpr double agreement_ulps = 2 * elementwise_ulps;
inline constexpr double agreement_ulps16 = 1;
// Other results in 16 bits, relative to the largest value: made of some that were rounded before, up to eight times.
inline constexpr double agreement_float16 = 0x1p-8;
inline constexpr double agreement_bfloat16 = 0x1p-5;
// Step upon step in bfloat16, whose spacing is eight times that of float16: see recurrent16.
inline constexpr double agreement_chained_bfloat16 = 8 * recurrent16;

// Sums through two thousand steps, each of which rounds what there is so far by at most twice 1.1e-16.
inline constexpr double chained64 = 1e-12;

// Pixels of JPEG, of 255: other versions of libjpeg may round transforms and colours to a neighbour of a neighbour.
inline constexpr double jpeg_levels = 2;

// Moments of random numbers, in standard errors: passes by chance all but once in 10^9 draws of the seed.
inline constexpr double standard_errors = 6;
// Kolmogorov and Smirnov's distance times sqrt(n): exceeded by chance with probability 2 exp(-2 * 2.8^2) = 3e-7.
inline constexpr double kolmogorov = 2.8;
// Chi-square is above k + 2 sqrt(k t) + 2 t by chance with probability exp(-t) at most, which is 1e-7 here.
inline constexpr double chi_square_exponent = 16;

}  // namespace tests::tolerance
