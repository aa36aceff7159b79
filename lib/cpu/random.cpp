// Random numbers: element i comes from block i / n of the stream, n values a block, whoever computes it.
#include <cmath>

#include "lib/core/dispatch.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/kernels/philox.hpp"

namespace capstan::on_cpu {
namespace {

constexpr double kPi = 3.14159265358979323846;

/// The inverse of the normal distribution function: Wichura's AS 241 (PPND16), Applied Statistics 37, 1988.
double normal_quantile(double p) {
  const double q = p - 0.5;
  if (std::fabs(q) <= 0.425) {
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
  double r = std::sqrt(-std::log(q < 0 ? p : 1 - p));
  double value;
  if (r <= 5) {
    r -= 1.6;
    value = (((((((7.7454501427834140764e-4 * r + 0.0227238449892691845833) * r + 0.24178072517745061177) * r +
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
  } else {
    r -= 5;
    value = (((((((2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r + 0.0012426609473880784386) * r +
                 0.026532189526576123093) *
                    r +
                0.29656057182850489123) *
                   r +
               1.7848265399172913358) *
                  r +
              5.4637849111641143699) *
                 r +
             6.6579046435011037772) /
            (((((((2.04426310338993978564e-15 * r + 1.4215117583164458887e-7) * r + 1.8463183175100546818e-5) * r +
                 7.868691311456132591e-4) *
                    r +
                0.0148753612908506148525) *
                   r +
               0.13692988092273580531) *
                  r +
              0.59983220655588793769) *
                 r +
             1.0);
  }
  return q < 0 ? -value : value;
}

struct Pair {
  double first, second;
};

Pair unit_pair(const RandomTask& task, std::uint64_t block) {
  const auto bits = kernels::random_block(task.seed, block);
  return {kernels::unit_double(bits[0], bits[1]), kernels::unit_double(bits[2], bits[3])};
}

template <class T>
T below(T value, T low, T high) {  // rounding must not reach the open end
  return value < high || low == high ? value : std::nextafter(high, low);
}

template <class T>
void draw_pair(const RandomTask& task, std::uint64_t block, T* pair) {
  const Pair u = unit_pair(task, block);
  if (task.kind == core::RandomKind::uniform) {
    const T low = static_cast<T>(task.a), high = static_cast<T>(task.b);
    pair[0] = below(static_cast<T>(task.a + (task.b - task.a) * u.first), low, high);
    pair[1] = below(static_cast<T>(task.a + (task.b - task.a) * u.second), low, high);
  } else if (task.kind == core::RandomKind::normal) {
    const double radius = std::sqrt(-2 * std::log1p(-u.first)), angle = 2 * kPi * u.second;
    pair[0] = static_cast<T>(task.a + task.b * radius * std::cos(angle));
    pair[1] = static_cast<T>(task.a + task.b * radius * std::sin(angle));
  } else {
    constexpr double kTail = 0.02275013194817920720028;  // of the distribution function at -2
    pair[0] = static_cast<T>(task.a + task.b * normal_quantile(kTail + (1 - 2 * kTail) * u.first));
    pair[1] = static_cast<T>(task.a + task.b * normal_quantile(kTail + (1 - 2 * kTail) * u.second));
  }
}

/// Calls `draw(block, values)` for every block and stores its PerBlock values, the last block's as far as they fit.
template <int PerBlock, class T, class Draw>
void for_blocks(T* to, std::int64_t count, Draw draw) {
  base::parallel_for((count + PerBlock - 1) / PerBlock, 2048, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      T values[PerBlock];
      draw(static_cast<std::uint64_t>(block), values);
      for (std::int64_t i = 0; i < PerBlock && block * PerBlock + i < count; ++i) to[block * PerBlock + i] = values[i];
    }
  });
}

}  // namespace

void random(const RandomTask& task, TensorImpl& out) {
  const std::int64_t count = out.numel();
  if (task.kind == core::RandomKind::integers) {
    const auto range = static_cast<std::uint64_t>(task.high) - static_cast<std::uint64_t>(task.low);
    for_blocks<2>(out.as<std::int64_t>(), count, [&](std::uint64_t block, std::int64_t* pair) {
      const auto bits = kernels::random_block(task.seed, task.first_block + block);
      for (int i = 0; i < 2; ++i) {
        const std::uint64_t word =
            std::uint64_t{bits[static_cast<std::size_t>(2 * i)]} << 32 | bits[static_cast<std::size_t>(2 * i + 1)];
        pair[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(task.low) + kernels::multiply_high(word, range));
      }
    });
  } else if (task.kind == core::RandomKind::bernoulli) {
    const auto threshold = static_cast<std::uint64_t>(task.a * 0x1p32);  // 2^32 for a probability of 1
    core::visit(out.dtype, [&]<class T>(core::Type<T>) {
      for_blocks<4>(out.as<T>(), count, [&](std::uint64_t block, T* values) {
        const auto bits = kernels::random_block(task.seed, task.first_block + block);
        for (std::size_t i = 0; i < 4; ++i) values[i] = static_cast<T>(bits[i] < threshold);
      });
    });
  } else {
    core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
      for_blocks<2>(out.as<T>(), count,
                    [&](std::uint64_t block, T* pair) { draw_pair(task, task.first_block + block, pair); });
    });
  }
}

}  // namespace capstan::on_cpu
