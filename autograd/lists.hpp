#pragma once
// What operations on lists of gradients share.
#include <span>
#include <vector>

#include "autograd/ops.hpp"

namespace capstan::autograd {

/// The defined ones of a list. Throws DTypeError unless all are floating, DeviceError unless on one device.
std::vector<const Tensor*> defined_ones(const char* op, std::span<const Tensor> list, Where where);

/// Whether a result may take the place of x's elements: nobody else holds them, and no tape ever followed x.
inline bool may_reuse(const TensorImpl& x) noexcept {
  return x.contiguous && x.serial.load(std::memory_order_relaxed) == 0 && core::sole_owner(x);
}

/// x * factor, in place where that may be; row slices stay row slices. Clears `finite` if x is not. No tape sees it.
Tensor times(Tensor x, double factor, bool& finite, Where where);

}  // namespace capstan::autograd
