#pragma once
// Products of two inputs with one weight.
#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// A bilinear form of both inputs for each output, PyTorch's bilinear.
///
///   y[..., o] = bias[o] + sum(i, j) x1[..., i] * weight[o, i, j] * x2[..., j]
///
/// Shapes    x1 [..., in1], x2 [..., in2] with equal leading axes, weight [out, in1, in2], bias [out] or undefined for
///           none; y [..., out]
/// Types     floating; promoted
/// Gradient  for all four, of every order; keeps x1, x2 and the weight
/// Cost      2*rows*out*in1*in2 flops in one product, and for its time a tensor [rows, in1, in2]
/// Throws    ShapeError  the shapes do not fit     DTypeError, DeviceError
/// Defined in autograd/bilinear.cpp.
Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias = Tensor(),
                Where where = Where::current());

}  // namespace capstan
