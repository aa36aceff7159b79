// Random numbers: element i comes from block i / n of the stream, n values a block, whoever computes it.
#include <algorithm>
#include <cmath>

#include "lib/core/allocator.hpp"
#include "lib/core/dispatch.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/simd/kernels.hpp"
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
  const auto bits = kernels::random_block(task.seed, block, task.stream);
  return {kernels::unit_double(bits[0], bits[1]), kernels::unit_double(bits[2], bits[3])};
}

template <class T>
T below(T value, T low, T high) {  // rounding must not reach the open end
  if (value < high || low == high) return value;
  if constexpr (core::kIsHalf<T>) {  // sign and magnitude: the number below has the bits before or behind
    const int bits = high.bits(), lower = (bits & 0x7FFF) == 0 ? 0x8001 : bits > 0x8000 ? bits + 1 : bits - 1;
    return T::from_bits(static_cast<std::uint16_t>(lower));
  } else {
    return std::nextafter(high, low);
  }
}

/// From a uniform number in [0, 1): finite, since 1 - u is at least 2^-53.
double exponential_of(double u) { return -std::log1p(-u); }
double gumbel_of(double u) { return -std::log(exponential_of(u > 0 ? u : 0x1p-54)); }

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
  } else if (task.kind == core::RandomKind::exponential) {
    pair[0] = static_cast<T>(task.a * exponential_of(u.first));
    pair[1] = static_cast<T>(task.a * exponential_of(u.second));
  } else if (task.kind == core::RandomKind::gumbel) {
    pair[0] = static_cast<T>(task.a + task.b * gumbel_of(u.first));
    pair[1] = static_cast<T>(task.a + task.b * gumbel_of(u.second));
  } else {
    constexpr double kTail = 0.02275013194817920720028;  // of the distribution function at -2
    pair[0] = static_cast<T>(task.a + task.b * normal_quantile(kTail + (1 - 2 * kTail) * u.first));
    pair[1] = static_cast<T>(task.a + task.b * normal_quantile(kTail + (1 - 2 * kTail) * u.second));
  }
}

/// Of 32 bits, those below it are a hit; 2^32 for a probability of 1.
std::uint64_t threshold_of(double probability) { return static_cast<std::uint64_t>(probability * 0x1p32); }

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
    core::visit_integers(out.dtype, [&]<class T>(core::Type<T>) {
      for_blocks<2>(out.as<T>(), count, [&](std::uint64_t block, T* pair) {
        const auto bits = kernels::random_block(task.seed, task.first_block + block, task.stream);
        for (std::size_t i = 0; i < 2; ++i) {
          const std::uint64_t word = std::uint64_t{bits[2 * i]} << 32 | bits[2 * i + 1];
          pair[i] = static_cast<T>(static_cast<std::uint64_t>(task.low) + kernels::multiply_high(word, range));
        }
      });
    });
  } else if (task.kind == core::RandomKind::bernoulli) {
    const std::uint64_t threshold = threshold_of(task.a);
    core::visit(out.dtype, [&]<class T>(core::Type<T>) {
      for_blocks<4>(out.as<T>(), count, [&](std::uint64_t block, T* values) {
        const auto bits = kernels::random_block(task.seed, task.first_block + block, task.stream);
        for (std::size_t i = 0; i < 4; ++i) values[i] = static_cast<T>(bits[i] < threshold);
      });
    });
  } else {
    core::visit_real(out.dtype, [&]<class T>(core::Type<T>) {
      for_blocks<2>(out.as<T>(), count,
                    [&](std::uint64_t block, T* pair) { draw_pair(task, task.first_block + block, pair); });
    });
  }
}

void bernoulli(const RandomTask& task, const TensorImpl& probability, TensorImpl& out) {
  const std::int64_t count = out.numel();
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    const T* p = probability.as<T>();
    for_blocks<4>(out.as<T>(), count, [&](std::uint64_t block, T* values) {
      const auto bits = kernels::random_block(task.seed, task.first_block + block, task.stream);
      for (std::size_t i = 0; i < 4; ++i) {
        const auto at = static_cast<std::int64_t>(4 * block + i);
        values[i] = static_cast<T>(at < count && bits[i] < threshold_of(static_cast<double>(p[at])));
      }
    });
  });
}

// By inverting the distribution function of each row, whose steps are found by halving.
void categorical(const RandomTask& task, const TensorImpl& logits, TensorImpl& out) {
  const std::int64_t rows = logits.shape[0], classes = logits.shape[1], count = out.shape[1];
  core::Scratch<double> cumulative(rows * classes, Where::current());
  core::visit_floating(logits.dtype, [&]<class T>(core::Type<T>) {
    base::parallel_for(rows, kExpensiveGrain / (classes + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const T* x = logits.as<T>() + row * classes;
        const auto largest = static_cast<double>(simd().of<T>().max(x, classes));
        double total = 0;
        for (std::int64_t k = 0; k < classes; ++k)
          cumulative[row * classes + k] = total += std::exp(static_cast<double>(x[k]) - largest);
      }
    });
  });
  std::int64_t* to = out.as<std::int64_t>();
  base::parallel_for(rows * count, 512, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const double* steps = cumulative.data() + i / count * classes;
      const double total = steps[classes - 1];
      const Pair u = unit_pair(task, task.first_block + static_cast<std::uint64_t>(i / 2));
      const double target = (i % 2 == 0 ? u.first : u.second) * total;  // below total; a class of no width is no step
      to[i] = total == total ? std::upper_bound(steps, steps + classes - 1, target) - steps : -1;
    }
  });
}

}  // namespace capstan::on_cpu
