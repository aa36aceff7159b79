#pragma once
// Choosing elements by index tensors.
#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// Slices of `x` along `axis` at `indices` (TensorFlow's gather, NumPy's take).
///
/// Shapes    x [a..., n, b...], indices any shape [i...]; result [a..., i..., b...]
/// Types     any for x; int32 or int64 for indices; negative indices count from the end
/// Gradient  for x: rows that were taken several times add up, in order, so that it is the same for any threads
/// Throws    IndexError  an index out of range, naming it and its place    DTypeError  indices not integer
Tensor gather(const Tensor& x, const Tensor& indices, int axis = 0, Where where = Where::current());

/// One element for each row: out[..., i] = x[..., i, indices[..., i]] along the last axis, which is dropped.
/// Shapes    x [..., n], indices [...] (int32 or int64, 0 <= index < n); result [...]
Tensor pick(const Tensor& x, const Tensor& indices, Where where = Where::current());

/// `depth` columns with `on` at the index and `off` elsewhere; rows whose index is outside [0, depth) are all `off`,
/// as in TensorFlow. Shapes: indices [...] int32 or int64; result [..., depth].
Tensor one_hot(const Tensor& indices, std::int64_t depth, Scalar on = 1, Scalar off = 0, DType dtype = DType::float32,
               Where where = Where::current());

}  // namespace capstan
