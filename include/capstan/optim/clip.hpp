#pragma once
// Clipping: keeping gradients within limits before an optimizer uses them.
//
//   auto [gradients, norm] = optim::clip_by_global_norm(tape.gradient(loss, adam.parameters()), 5);
//   adam.apply(gradients);
//
// Lists are taken by value: gradients that nobody else holds are changed in place, and those within the limit of a norm
// come back as they are, so hand a list over, as above or by std::move. Undefined gradients stay undefined. Gradients
// held as row slices (sparse.hpp) count with each row once, and come back as slices. All gradients are floating
// (DTypeError) and on one device (DeviceError).
//
// These are operations like others: a tape that follows the gradients records them, and they have gradients to any
// order. Defined in autograd/clip.cpp.
#include <vector>

#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace optim {

/// Every element limited to [-limit, limit], limit >= 0, or to [low, high]. NaN stays NaN. For a single tensor there is
/// `clip`, whose gradient this has. PyTorch's clip_grad_value_.
/// Throws Error  the limit is negative, low exceeds high, or one is NaN
[[nodiscard]] std::vector<Tensor> clip_by_value(std::vector<Tensor> gradients, double limit,
                                                Where where = Where::current());
[[nodiscard]] std::vector<Tensor> clip_by_value(std::vector<Tensor> gradients, double low, double high,
                                                Where where = Where::current());

/// The norm of all elements of all tensors together: (sum |x|^order)^(1/order), for an infinite order max |x|.
///
/// Shapes    result []; 0 for no elements
/// Types     the widest of the tensors', float32 for the 16-bit ones and for none; added up in float64
/// Gradient  sign(x) * (|x| / norm)^(order-1), 0 where the norm is 0; of an infinite order shared evenly among ties
/// Cost      each element is read once; nothing of a gradient's size is made
/// Throws    Error  the order is not above 0
Tensor global_norm(const std::vector<Tensor>& gradients, double order = 2, Where where = Where::current());

struct ClipOptions {
  double order = 2;                 ///< of the norm, above 0; infinity for the largest element
  double epsilon = 0;               ///< added to the norm before the division; PyTorch's is 1e-6
  bool error_if_nonfinite = false;  ///< a norm that is infinite or NaN is a NumericError
};

struct ClippedGradients {
  std::vector<Tensor> gradients;
  Tensor norm;  ///< before clipping; shape [], type as `global_norm`
};

/// All gradients times limit / (norm + epsilon) with their common norm, where that is below 1.
///
/// Types     each its own; 16-bit ones are scaled in float32 and rounded once
/// Gradient  through the norm as well; where nothing is clipped, that of nothing
/// Cost      one pass for the norm and, if something is clipped, one for the scaling
/// Throws    Error  the limit is negative or NaN, the order not above 0, epsilon negative    NumericError  if asked for
/// A norm that is infinite makes 0 of finite elements and NaN of infinite ones, as in PyTorch; one that is NaN makes
/// everything NaN. An infinite limit clips nothing. Pascanu, Mikolov, Bengio 2013. TensorFlow's clip_by_global_norm;
/// with .epsilon = 1e-6 PyTorch's clip_grad_norm_.
[[nodiscard]] ClippedGradients clip_by_global_norm(std::vector<Tensor> gradients, double limit,
                                                   const ClipOptions& options = {}, Where where = Where::current());

/// The same for one tensor by its own norm: TensorFlow's clip_by_norm.
[[nodiscard]] Tensor clip_by_norm(Tensor gradient, double limit, const ClipOptions& options = {},
                                  Where where = Where::current());
/// Each tensor by its own norm.
[[nodiscard]] std::vector<Tensor> clip_by_norm(std::vector<Tensor> gradients, double limit,
                                               const ClipOptions& options = {}, Where where = Where::current());

}  // namespace optim
}  // namespace capstan
