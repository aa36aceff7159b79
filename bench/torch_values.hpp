#pragma once
// The inputs of LibTorch's rows, and how its work is wrapped.
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "bench/rows.hpp"

namespace bench {

using Tensors = std::vector<torch::Tensor>;

/// Always the same numbers, uniform in [-2, 2).
inline torch::Tensor values(at::IntArrayRef shape, std::uint64_t seed = 1) {
  torch::manual_seed(seed);
  return torch::rand(shape) * 4 - 2;
}

/// int64, uniform in [0, high).
inline torch::Tensor indices(at::IntArrayRef shape, std::int64_t high, std::uint64_t seed = 1) {
  torch::manual_seed(seed);
  return torch::randint(high, shape, torch::kLong);
}

/// The same `prepare` for work that is not recorded; `Guard` says how.
template <class Guard, class Prepare>
auto guarded(Prepare prepare) {
  return [prepare](const auto&... sizes) {
    return [work = prepare(sizes...), guard = std::make_shared<Guard>()] { return work(); };
  };
}

/// A `prepare` for work that is no value, since modules do not copy: it is made from `arguments` behind the sizes.
template <class Work, class... Arguments>
auto shared(Arguments... arguments) {
  return [arguments...](const Sizes& sizes) {
    return [work = std::make_shared<Work>(sizes, arguments...)] { (*work)(); };
  };
}

}  // namespace bench
