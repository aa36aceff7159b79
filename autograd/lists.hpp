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

/// x * factor, one float64 on x's device, in place where that may be; row slices stay row slices. Sets `bad`, one bool,
/// if x is not finite; it may be undefined. No tape sees it.
Tensor times(Tensor x, const Tensor& factor, const Tensor& bad, Where where);
/// Contiguous elements among which each of x's stands once, but perhaps zeros: of row slices each row once. To find
/// those takes the host, so on a GPU it is the whole tensor.
Tensor values_once(const Tensor& x, Where where);
/// A number as `times` takes it.
Tensor factor_of(double number, const TensorImpl& x, Where where);

}  // namespace capstan::autograd
