#pragma once
// The inputs of Capstan's rows.
#include <capstan/capstan.hpp>

#include <cstdint>

namespace bench {

/// Always the same numbers, uniform in [-2, 2).
inline capstan::Tensor values(const capstan::Shape& shape, std::uint64_t seed = 1) {
  capstan::Rng rng(seed);
  return capstan::uniform(shape, -2, 2, rng);
}

/// int64, uniform in [0, high).
inline capstan::Tensor indices(const capstan::Shape& shape, std::int64_t high, std::uint64_t seed = 1) {
  capstan::Rng rng(seed);
  return capstan::randint(0, high, shape, rng);
}

}  // namespace bench
