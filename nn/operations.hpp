#pragma once
// How many operations an operation is.
#include <cstdint>

#include <capstan/debug.hpp>

namespace capstan::nn::detail {

/// By the formulas of nn/summary.hpp. A product and a sum are two.
std::int64_t count_operations(const debug::Operation& op);

}  // namespace capstan::nn::detail
