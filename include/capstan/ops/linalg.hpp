#pragma once
// Products of matrices.
#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// Matrix product, as NumPy's matmul.
///
///   out[..., i, j] = sum(k) a[..., i, k] * b[..., k, j]
///
/// Shapes    a [..., m, k], b [..., k, n], leading axes broadcast; a [k] is taken as one row and b [k] as one column,
///           and that axis is dropped from the result; k = 0 gives zeros
/// Types     float32 or float64; promoted
/// Gradient  for both
/// Cost      2*m*k*n flops a product, by OpenBLAS; transposed and row-strided operands are not copied
/// Throws    ShapeError  a rank of 0, inner sizes differ, leading axes do not broadcast     DTypeError, DeviceError
/// Defined in autograd/linalg.cpp.
Tensor matmul(const Tensor& a, const Tensor& b, Where where = Where::current());

/// x @ weight + bias in one pass: `matmul(x, weight) + bias`, [..., in] x [in, out] + [out] -> [..., out].
/// `bias` may be undefined for none.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Where where = Where::current());

}  // namespace capstan
