#pragma once
// Sliding windows laid out as columns of a matrix, and back: what turns a convolution into a matrix product.
//
// Layout [batch, channels, (depth,) (rows,) columns]; the axes behind the first two are spatial. Each of the two is the
// other's gradient, so both are differentiable to any order. Defined in autograd/unfold.cpp.
#include <capstan/ops/window.hpp>

namespace capstan CAPSTAN_PUBLIC {

struct UnfoldOptions {
  Sizes stride = 1;     ///< steps between windows, >= 1
  Borders padding = 0;  ///< zeros around the spatial axes
  Sizes dilation = 1;   ///< steps within a window, >= 1
};

/// Every window as a column (PyTorch's unfold, known as im2col). One row holds one place of one channel's window.
///
///   out[n, (c*kh + i)*kw + j, y*w + x] = x[n, c, y*stride + i*dilation - before, x*stride + j*dilation - before]
///
/// Shapes    x [batch, channels, 1 to 3 axes]; result [batch, channels * places of the kernel, windows]
/// Types     any
/// Gradient  `fold`
/// Cost      memory for the result, which is up to as many times x as the kernel has places
/// Throws    ShapeError  a rank below 3 or above 5, a kernel that exceeds the padded input, settings below their least
Tensor unfold(const Tensor& x, const Sizes& kernel, const UnfoldOptions& options = {}, Where where = Where::current());

/// Windows added up where they stood: the adjoint of `unfold` (PyTorch's fold, known as col2im). What stood on the
/// padding is left out. fold(unfold(x)) is x times the number of windows that each place is in.
///
/// Shapes    x [batch, channels * places of the kernel, windows]; result [batch, channels, output_size...]
///           output_size has a number for each spatial axis, 1 to 3
/// Types     floating; sums run in double and do not depend on the number of threads
/// Gradient  `unfold`
/// Throws    ShapeError  rows that are no multiple of the kernel's places, windows that are not as many as an `unfold`
///                       of this output size gives; settings as for `unfold`
///           DTypeError
Tensor fold(const Tensor& x, const Sizes& output_size, const Sizes& kernel, const UnfoldOptions& options = {},
            Where where = Where::current());

}  // namespace capstan
