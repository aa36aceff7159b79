#pragma once
// Models in float64 with parameters drawn at random, and their names.
#include <string>
#include <vector>

#include "tests/support.hpp"

namespace tests {

inline constexpr capstan::DType f64 = capstan::DType::float64;

inline capstan::Tensor random(const capstan::Shape& shape, std::uint64_t seed) {
  return random_in(-1, 1, shape, f64, seed);
}

/// Other values for all parameters: none is 0 or 1 any more.
template <class Model>
Model randomized(Model model) {
  std::uint64_t seed = 901;
  for (capstan::Tensor p : capstan::nn::parameters(model)) p.assign(random(p.shape(), seed++));
  return model;
}

template <class Model>
std::vector<std::string> names_of(Model& model) {
  std::vector<std::string> names;
  for (const capstan::NamedTensor& p : capstan::nn::named_parameters(model)) names.push_back(p.name);
  return names;
}

}  // namespace tests
