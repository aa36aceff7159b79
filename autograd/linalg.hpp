#pragma once
// What the operations of linear algebra share. Matrices are the last two axes.
#include <initializer_list>
#include <string>

#include "autograd/ops.hpp"

namespace capstan::autograd {

/// Rows and columns exchanged.
inline Tensor turned(const Tensor& x, Where where) { return transpose(x, -1, -2, where); }

/// The axes of `shape` but the last `dropped`, then these sizes. Throws ShapeError above 8 axes.
inline Shape with_sizes(const Shape& shape, int dropped, std::initializer_list<std::int64_t> more, Where where) {
  std::int64_t sizes[2 * kMaxRank];
  std::size_t rank = 0;
  for (int axis = 0; axis < shape.rank() - dropped; ++axis) sizes[rank++] = shape[axis];
  for (const std::int64_t size : more) sizes[rank++] = size;
  return Shape(std::span<const std::int64_t>(sizes, rank), where);
}

/// The axes of both but their last two, broadcast. Throws ShapeError.
Shape broadcast_leading(const char* op, const TensorImpl& a, const TensorImpl& b, Where where);

inline std::int64_t rows_of(const TensorImpl& x) { return x.shape[x.rank() - 2]; }
inline std::int64_t columns_of(const TensorImpl& x) { return x.shape[x.rank() - 1]; }

inline void require_matrices(const char* op, const TensorImpl& x, Where where) {
  if (x.rank() < 2)
    base::fail<ShapeError>(where, op, ": the tensor is ", x.shape, "; it must have two axes or more, [..., m, n].");
}
inline void require_square(const char* op, const TensorImpl& x, Where where) {
  require_matrices(op, x, where);
  if (rows_of(x) != columns_of(x))
    base::fail<ShapeError>(where, op, ": the matrices of ", x.shape,
                           " are not square; the last two sizes must be equal.");
}

/// A slot of the backend that is empty in builds without LAPACK.
template <class Function>
Function lapack(const char* op, Function slot, Where where) {
  if (slot == nullptr)
    base::fail<MissingLibraryError>(
        where, op, ": this build has no LAPACK; install libopenblas-pthread-dev, configure and build again.");
  return slot;
}

/// " at [1, 0]" for matrix number `index` of all axes but the last `dropped`, and nothing for a single matrix.
std::string place_of(const Shape& shape, int dropped, std::int64_t index);

[[noreturn]] inline void fail_to_converge(const char* op, const Shape& shape, core::BadMatrix bad, Where where) {
  base::fail<NumericError>(where, op, ": the algorithm did not converge for the matrix", place_of(shape, 2, bad.index),
                           " of ", shape, "; scale or perturb it.");
}

/// Zeros of that shape, but for a diagonal of two axes, on which are `values` [..., k]: the gradient of `diagonal`,
/// itself differentiable.
Tensor embed_diagonal(const Tensor& values, const Shape& shape, std::int64_t offset, int axis0, int axis1, Where where);

}  // namespace capstan::autograd
