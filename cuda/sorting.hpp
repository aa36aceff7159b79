#pragma once
// Sorting rows along an axis of a contiguous tensor, for all that needs it.
#include <cstdint>

#include "cuda/keys.hpp"
#include "cuda/lines.hpp"

namespace capstan::on_cuda {

/// Each row's first `kept` elements in order; equal ones keep their order. Results are shaped like x with `kept`
/// elements along the axis; either may be null.
struct SortTask {
  const void* x;
  Lines lines;
  ElementOrder order;
  std::uint64_t flip;  // of keys; order.last to sort downwards
  std::int64_t kept;
  void* values;
  std::int64_t* indices;
};
void sort_rows(const SortTask& task);

}  // namespace capstan::on_cuda
