#pragma once
// Tensors that `embedding` has just looked up, for operations that can make do with the rows of a small table.
#include <optional>

#include "autograd/ops.hpp"

namespace capstan::autograd {

/// What a tensor was looked up by.
struct LookedUp {
  Tensor index = {};      // int64, of its leading axes, and nobody else's; undefined if that is not known
  std::int64_t rows = 0;  // of the table
};
/// Of a tensor whose lookup in a table of at most so many rows is on a tape that records, and that nobody has written to
/// since.
LookedUp looked_up(const Tensor& x, std::int64_t most_rows, Where where);

/// The lookup that made an input, if its table's gradient alone is asked for, and is the plain sum of those for the rows
/// looked up: that may be given to it, as input 0, in place of the input's.
std::optional<Replay> lookup_behind(const Replay& r, int input);

}  // namespace capstan::autograd
