#pragma once
// Which random numbers are asked for; draws.hpp has the formulas.
#include <cstdint>

namespace capstan::kernels {

enum class RandomKind : std::uint8_t { uniform, normal, truncated_normal, bernoulli, integers, exponential, gumbel };

struct RandomTask {
  RandomKind kind;
  std::uint64_t seed, first_block;
  double a, b;             // low and high, mean and standard deviation, location and scale, or probability
  std::int64_t low, high;  // integers
  std::uint64_t stream = 0;
  const std::uint64_t* advance = nullptr;  // in the device's memory: added to first_block. Of captured steps
};

}  // namespace capstan::kernels
