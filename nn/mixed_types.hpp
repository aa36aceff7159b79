#pragma once
// Types that layers check before an operation does.
#include <capstan/autocast.hpp>

namespace capstan::nn {

/// Whether an operand fits weights of that type: it has it, or autocast makes one type of both.
inline bool types_fit(DType operand, DType weights) {
  const auto takes_part = [](DType dtype) { return dtype == DType::float32 || is_half(dtype); };
  return operand == weights || (takes_part(operand) && takes_part(weights) && autocast_dtype().has_value());
}

}  // namespace capstan::nn
