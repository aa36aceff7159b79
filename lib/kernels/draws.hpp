#pragma once
// Random numbers from blocks of bits: the formulas of every distribution, for both backends and with the same bits.
// Sources that include this are compiled without contraction; see portable.hpp.
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "lib/kernels/philox.hpp"
#include "lib/kernels/portable.hpp"
#include "lib/kernels/random_task.hpp"

namespace capstan::kernels {

/// The inverse of the normal distribution function for p in [0.02, 0.98]: Wichura's AS 241 (PPND16), Applied Statistics
/// 37, 1988, without its far tails.
CAPSTAN_HD double normal_quantile(double p) {
  const double q = p - 0.5;
  if (abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q *
           (((((((2509.0809287301226727 * r + 33430.575583588128105) * r + 67265.770927008700853) * r +
                45921.953931549871457) *
                   r +
               13731.693765509461125) *
                  r +
              1971.5909503065514427) *
                 r +
             133.14166789178437745) *
                r +
            3.387132872796366608) /
           (((((((5226.495278852545925 * r + 28729.085735721942674) * r + 39307.89580009271061) * r +
                21213.794301586595867) *
                   r +
               5394.1960214247511077) *
                  r +
              687.1870074920579083) *
                 r +
             42.313330701600911252) *
                r +
            1.0);
  }
  const double r = sqrt(-portable::log(q < 0 ? p : 1 - p)) - 1.6;
  const double value =
      (((((((7.7454501427834140764e-4 * r + 0.0227238449892691845833) * r + 0.24178072517745061177) * r +
           1.27045825245236838258) *
              r +
          3.64784832476320460504) *
             r +
         5.7694972214606914055) *
            r +
        4.6303378461565452959) *
           r +
       1.42343711074968357734) /
      (((((((1.05075007164441684324e-9 * r + 5.475938084995344946e-4) * r + 0.0151986665636164571966) * r +
           0.14810397642748007459) *
              r +
          0.68976733498510000455) *
             r +
         1.6763848301838038494) *
            r +
        2.05319162663775882187) *
           r +
       1.0);
  return q < 0 ? -value : value;
}

struct NumberPair {
  double first, second;
};
/// In [0, 1), multiples of 2^-53.
CAPSTAN_HD NumberPair unit_pair(const RandomTask& task, std::uint64_t block) {
  const auto bits = random_block(task.seed, block, task.stream);
  return {unit_double(bits[0], bits[1]), unit_double(bits[2], bits[3])};
}

/// Rounding must not reach the open end.
template <class T> CAPSTAN_HD T below(T value, T low, T high) {
  if (value < high || low == high) return value;
  if constexpr (std::is_floating_point_v<T>) {
    return nextafter(high, low);
  } else {  // sign and magnitude: the number below has the bits before or behind
    const int bits = high.bits(), lower = (bits & 0x7FFF) == 0 ? 0x8001 : bits > 0x8000 ? bits + 1 : bits - 1;
    return T::from_bits(static_cast<std::uint16_t>(lower));
  }
}

/// -log(1 - u), where 1 - u is exact and at least 2^-53.
CAPSTAN_HD double exponential_of(double u) { return 0.0 - portable::log(1.0 - u); }
CAPSTAN_HD double gumbel_of(double u) { return -portable::log(u > 0 ? exponential_of(u) : 0x1p-54); }

/// One number from one in [0, 1), of every distribution but the normal, before it is rounded to its type.
template <RandomKind kind> CAPSTAN_HD double number_of(double u, double a, double b) {
  if constexpr (kind == RandomKind::uniform) return a + (b - a) * u;
  else if constexpr (kind == RandomKind::exponential) return a * exponential_of(u);
  else if constexpr (kind == RandomKind::gumbel) return a + b * gumbel_of(u);
  else {                                                 // truncated normal
    constexpr double kTail = 0.02275013194817920720028;  // of the distribution function at -2
    return a + b * normal_quantile(kTail + (1 - 2 * kTail) * u);
  }
}
/// Two normal numbers (Box and Muller): of a radius, and of the angle that `u` is of a turn.
CAPSTAN_HD double normal_radius(double u) { return sqrt(2 * exponential_of(u)); }
CAPSTAN_HD NumberPair normal_pair(double radius, double u, double mean, double deviation) {
  const portable::CosineSine at = portable::cosine_sine(2 * 3.14159265358979323846 * u);
  return {mean + deviation * radius * at.cosine, mean + deviation * radius * at.sine};
}

template <RandomKind kind, class T> CAPSTAN_HD void put_numbers(const NumberPair& u, double a, double b, T* pair) {
  pair[0] = static_cast<T>(number_of<kind>(u.first, a, b));
  pair[1] = static_cast<T>(number_of<kind>(u.second, a, b));
}
/// The two numbers of a block, of any floating type and every distribution that has such.
template <class T> CAPSTAN_HD void draw_pair(const RandomTask& task, std::uint64_t block, T* pair) {
  const NumberPair u = unit_pair(task, block);
  const double a = task.a, b = task.b;
  switch (task.kind) {
    case RandomKind::uniform:
      put_numbers<RandomKind::uniform>(u, a, b, pair);
      for (int i = 0; i < 2; ++i) pair[i] = below(pair[i], static_cast<T>(a), static_cast<T>(b));
      return;
    case RandomKind::normal: {
      const NumberPair normal = normal_pair(normal_radius(u.first), u.second, a, b);
      pair[0] = static_cast<T>(normal.first);
      pair[1] = static_cast<T>(normal.second);
      return;
    }
    case RandomKind::exponential: return put_numbers<RandomKind::exponential>(u, a, b, pair);
    case RandomKind::gumbel: return put_numbers<RandomKind::gumbel>(u, a, b, pair);
    default: put_numbers<RandomKind::truncated_normal>(u, a, b, pair);
  }
}

/// A whole number in [task.low, task.high).
template <class T> CAPSTAN_HD T integer_of(const RandomTask& task, std::uint32_t high, std::uint32_t low) {
  const auto first = static_cast<std::uint64_t>(task.low), range = static_cast<std::uint64_t>(task.high) - first;
  return static_cast<T>(first + multiply_high(std::uint64_t{high} << 32 | low, range));
}

/// Of 32 bits, those below it are a hit; 2^32 for a probability of 1.
CAPSTAN_HD std::uint64_t threshold_of(double probability) { return static_cast<std::uint64_t>(probability * 0x1p32); }

// --- choosing classes by inverting the distribution function ---

/// Weights exp(x - largest) are added up one by one in pieces of so many classes, and onto the sum of the pieces
/// before: steps that never fall, and the same ones wherever pieces are added up side by side.
inline constexpr std::int64_t kClassesInPiece = 128;

/// The class that a number u in [0, 1) falls into; -1 if the steps do not end in a number. A class of no width is no
/// step.
CAPSTAN_HD std::int64_t class_of(double u, const double* steps, std::int64_t classes) {
  const double total = steps[classes - 1];
  if (total != total) return -1;
  const double target = u * total;  // below total
  std::int64_t first = 0, left = classes - 1;
  while (left > 0) {
    const std::int64_t half = left / 2;
    const bool passed = steps[first + half] <= target;
    first = passed ? first + half + 1 : first;
    left = passed ? left - half - 1 : half;
  }
  return first;
}

}  // namespace capstan::kernels
