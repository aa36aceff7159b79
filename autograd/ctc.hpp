#pragma once
// What the operations of connectionist temporal classification check alike.
#include <vector>

#include "autograd/ops.hpp"

namespace capstan::autograd {

struct CtcSizes {
  std::int64_t batch, time, classes;
};

/// Of log-probabilities, or what an error shall call them. Throws ShapeError, DTypeError, and IndexError for the blank.
CtcSizes ctc_sizes(const char* op, const char* what, const TensorImpl& x, std::int64_t blank, bool time_major,
                   Where where);

/// Lengths [batch] in [0, most]; `most` for all if they are undefined. `what` is "input length", `unit` "steps". Throws
/// ShapeError, DTypeError, IndexError.
std::vector<std::int64_t> ctc_lengths(const char* op, const char* what, const char* unit, const Tensor& lengths,
                                      std::int64_t batch, std::int64_t most, Where where);

/// A view [batch, time, classes]; no tape sees it.
Tensor ctc_batch_first(const Tensor& x, bool time_major, Where where);

/// Numbers beside x, contiguous.
Tensor ctc_numbers(const std::vector<std::int64_t>& numbers, const TensorImpl& x, Where where);

}  // namespace capstan::autograd
