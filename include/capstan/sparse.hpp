#pragma once
// Gradients of a few rows of a large table.
//
// The gradient of `gather(table, indices)` is zero in every row that was not looked up. Such a gradient is kept as row
// slices: an ordinary tensor as far as anyone can see, which holds only those rows until somebody needs all of it. The
// optimizers, clipping, accumulation and loss scaling read the slices, and printing leaves them; any other operation
// fills in the zeros first, once, and costs the memory then.
// Lookups by `gather` and `take` along the first axis make them, as long as they are fewer rows than the table has, and
// unless an outer tape listens, which wants the gradient whole.
#include <optional>

#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// Row `indices[i]` of the tensor is the sum of all `values[j]` with indices[j] = indices[i]; every other row is zero.
struct RowSlices {
  Tensor indices;  ///< int64, [n]; in any order, may repeat
  Tensor values;   ///< [n, ...]: the tensor's type, its axes behind the first
};

/// Whether a tensor is held as row slices just now: it is not any more when another thread has read it whole.
bool has_row_slices(const Tensor& x) noexcept;
/// The slices of a tensor held so, the indices a copy; nothing if it is not. In one step, so that no other thread comes
/// between asking and taking.
std::optional<RowSlices> find_row_slices(const Tensor& x, Where where = Where::current());
/// The same; throws Error if it is not held so.
RowSlices row_slices(const Tensor& x, Where where = Where::current());
/// The same with each row once, in ascending order; equal rows are added up in their order. Not recorded.
/// Throws ShapeError  they are not [n] and [n, ...]    DTypeError  indices are not int64, or values bool
RowSlices coalesce(const RowSlices& slices, Where where = Where::current());
/// A tensor of that shape held as slices. Not recorded.
/// Throws ShapeError  values are not [n, shape[1], ...]    DTypeError  indices are not int64, or values bool
///        IndexError  an index is out of range    Error  while a plan is made
Tensor from_row_slices(const RowSlices& slices, const Shape& shape, Where where = Where::current());

}  // namespace capstan
