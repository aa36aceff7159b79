#pragma once
// Types that layers check before an operation does.
#include <capstan/autocast.hpp>

#include "lib/base/text.hpp"

namespace capstan::nn {

/// Whether an operand fits weights of that type: it has it, or autocast makes one type of both.
inline bool types_fit(DType operand, DType weights) {
  const auto takes_part = [](DType dtype) { return dtype == DType::float32 || is_half(dtype); };
  return operand == weights || (takes_part(operand) && takes_part(weights) && autocast_dtype().has_value());
}

/// Throws DTypeError unless parameters can have this type. `layer` is the name of what would hold them.
inline void check_floating(const char* layer, DType dtype, Where where) {
  if (!is_floating(dtype))
    base::fail<DTypeError>(where, layer, ": the dtype is ", dtype, "; it must be a floating type.");
}

}  // namespace capstan::nn
