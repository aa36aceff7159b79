#pragma once
// The rows of lib/kernels by name, each with the public function that it serves.
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <capstan/tensor.hpp>

namespace tests {

using UnaryFunction = capstan::Tensor (*)(const capstan::Tensor&);
using BinaryFunction = capstan::Tensor (*)(const capstan::Tensor&, const capstan::Tensor&);

/// kernels::UnaryOps.
const std::map<std::string, UnaryFunction>& unary_functions();
/// kernels::ParametricOps, with their default numbers or, where there are none, some.
const std::map<std::string, UnaryFunction>& parametric_functions();
/// kernels::BinaryOps.
const std::map<std::string, BinaryFunction>& binary_functions();

template <class... Op>
std::vector<std::string> names_of(std::tuple<Op...>*) {
  return {Op::name...};
}

}  // namespace tests
