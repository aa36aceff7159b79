#pragma once
// Choosing elements by index tensors and masks, and writing to elements so chosen. Tensor::index and index_put, in
// tensor.hpp, do the same in NumPy's notation.
//
// Indices are of any integer type and, unless an entry says otherwise, count from the end where they are negative. An
// index out of range is an IndexError that names it, its place and what is allowed; indices of another type are a
// DTypeError. Types of elements are any; gradients exist for floating ones, to any order. What several indices add to
// one element is added in the row-major order of the indices, so results are the same for any number of threads;
// 16-bit floating types are added up in float32. Defined in autograd/gather.cpp, masks.cpp, scatter.cpp, segments.cpp.
#include <vector>

#include <capstan/ops/reduce.hpp>
#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

// --- reading by indices ------------------------------------------------------------------------------------------

/// Slices of `x` along `axis` at `indices` (TensorFlow's gather, NumPy's take).
///
/// Shapes    x [a..., n, b...], indices any shape [i...]; result [a..., i..., b...]
/// Gradient  for x: rows that were taken several times add up; for axis 0 it is held as row slices (sparse.hpp)
Tensor gather(const Tensor& x, const Tensor& indices, int axis = 0, Where where = Where::current());

/// `gather` under the name of the Array API standard; without an axis, of the flattened tensor, as in NumPy.
Tensor take(const Tensor& x, const Tensor& indices, int axis, Where where = Where::current());
Tensor take(const Tensor& x, const Tensor& indices, Where where = Where::current());

/// Elements along one axis, an index for each (NumPy's take_along_axis, PyTorch's gather):
/// out[i, j, k] = x[i, indices[i, j, k], k] for axis 1 of three.
///
/// Shapes    as many axes for both; they broadcast with each other but for `axis`, where the result has indices' size
/// Throws    ShapeError  the shapes do not fit
Tensor take_along_axis(const Tensor& x, const Tensor& indices, int axis = -1, Where where = Where::current());

/// One element for each row: out[..., i] = x[..., i, indices[..., i]] along the last axis, which is dropped.
/// Shapes    x [..., n], indices [...], 0 <= index < n; result [...]
Tensor pick(const Tensor& x, const Tensor& indices, Where where = Where::current());

/// Elements or slices whose first axes' positions stand side by side (TensorFlow's gather_nd).
/// Shapes    x [n1..nm, b...], indices [i..., m]; result [i..., b...]
Tensor gather_nd(const Tensor& x, const Tensor& indices, Where where = Where::current());

/// `depth` columns with `on` at the index and `off` elsewhere; rows whose index is outside [0, depth) are all `off`,
/// as in TensorFlow. Shapes: indices [...]; result [..., depth].
Tensor one_hot(const Tensor& indices, std::int64_t depth, Scalar on = 1, Scalar off = 0, DType dtype = DType::float32,
               Where where = Where::current());

// --- masks -------------------------------------------------------------------------------------------------------

/// The elements where the mask, bool, is true, in row-major order: shape [n]. Both broadcast with each other, as in
/// PyTorch; `x.index({mask})` is NumPy's and TensorFlow's, where the mask may also stand for the first axes only.
Tensor masked_select(const Tensor& x, const Tensor& mask, Where where = Where::current());
/// x with `value` where the mask, which broadcasts to x's shape, is true. `value` broadcasts too and is of x's type.
/// Gradient  for x, 0 where it was replaced, and for value
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value, Where where = Where::current());
Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value, Where where = Where::current());

/// For each axis the int64 positions [n] of the elements that are not zero (true, for bool), in row-major order:
/// NumPy's and the Array API's nonzero. `x.index({...})` with all of them chooses those elements. ShapeError for [].
std::vector<Tensor> nonzero(const Tensor& x, Where where = Where::current());
/// The same as the rows of one tensor: int64 [n, rank].
Tensor argwhere(const Tensor& x, Where where = Where::current());
/// How many elements are not zero, int64. NaN is not zero.
Tensor count_nonzero(const Tensor& x, Axes axes = {}, ReduceOptions options = {}, Where where = Where::current());

// --- writing by indices ------------------------------------------------------------------------------------------
//
// A contiguous copy of x with some elements changed. Updates are of x's type (DTypeError). Where the indices name an
// element several times, an entry that replaces keeps the last value in row-major order, and only that one has a
// gradient; `_min` and `_max` keep NaN, and share the gradient evenly among x and the updates that are the extreme.
// The gradient for x is 0 where it was replaced. Sums and extremes are not for bool.

/// out = x; out[i, indices[i, j]] = updates[i, j] for axis 1 of two (PyTorch's scatter).
///
/// Shapes    as many axes for all three; indices no larger than updates anywhere, nor than x but for `axis`
/// Throws    ShapeError  the shapes do not fit
Tensor scatter(const Tensor& x, const Tensor& indices, const Tensor& updates, int axis = -1,
               Where where = Where::current());
Tensor scatter(const Tensor& x, const Tensor& indices, Scalar value, int axis = -1, Where where = Where::current());
/// The same, adding to what is there; numbers.
Tensor scatter_add(const Tensor& x, const Tensor& indices, const Tensor& updates, int axis = -1,
                   Where where = Where::current());
Tensor scatter_add(const Tensor& x, const Tensor& indices, Scalar value, int axis = -1, Where where = Where::current());
/// The same, keeping the smaller (larger) of both; numbers. PyTorch's scatter_reduce with amin (amax).
Tensor scatter_min(const Tensor& x, const Tensor& indices, const Tensor& updates, int axis = -1,
                   Where where = Where::current());
Tensor scatter_max(const Tensor& x, const Tensor& indices, const Tensor& updates, int axis = -1,
                   Where where = Where::current());

/// x with the elements that `x.index(indices)` gives replaced by `value`, which broadcasts to them (JAX's
/// x.at[...].set(value)); indices are without or with tensors. Throws what Tensor::index throws.
Tensor index_set(const Tensor& x, std::initializer_list<Index> indices, const Tensor& value,
                 Where where = Where::current());
Tensor index_set(const Tensor& x, std::initializer_list<Index> indices, Scalar value, Where where = Where::current());
Tensor index_set(const Tensor& x, std::span<const Index> indices, const Tensor& value, Where where = Where::current());
/// The same, adding `value` to them (x.at[...].add(value)); numbers.
Tensor index_add(const Tensor& x, std::initializer_list<Index> indices, const Tensor& value,
                 Where where = Where::current());
Tensor index_add(const Tensor& x, std::initializer_list<Index> indices, Scalar value, Where where = Where::current());
Tensor index_add(const Tensor& x, std::span<const Index> indices, const Tensor& value, Where where = Where::current());

/// Zeros of that shape with the updates added where `gather_nd` would read them (TensorFlow's scatter_nd); numbers.
/// Shapes    indices [i..., m], shape [n1..nm, b...], updates [i..., b...] (ShapeError)
Tensor scatter_nd(const Tensor& indices, const Tensor& updates, const Shape& shape, Where where = Where::current());
/// x with those elements replaced (TensorFlow's tensor_scatter_nd_update), or with the updates added to them.
Tensor scatter_nd_update(const Tensor& x, const Tensor& indices, const Tensor& updates, Where where = Where::current());
Tensor scatter_nd_add(const Tensor& x, const Tensor& indices, const Tensor& updates, Where where = Where::current());

// --- segments ----------------------------------------------------------------------------------------------------
//
// Rows of `data` that share a segment become one (TensorFlow's unsorted_segment_*): ids need not be sorted, and rows
// with a negative id are left out.
//
// Shapes    data [i..., b...], segment_ids [i...], each below `count`; result [count, b...]
// Throws    IndexError  an id not below the count    ShapeError  the ids' shape does not lead the data's
//           DTypeError  bool

/// Sums; 0 for a segment without rows.
Tensor segment_sum(const Tensor& data, const Tensor& segment_ids, std::int64_t count, Where where = Where::current());
/// Arithmetic means; floating. 0 for a segment without rows.
Tensor segment_mean(const Tensor& data, const Tensor& segment_ids, std::int64_t count, Where where = Where::current());
/// Largest (smallest) values; NaN if there is one. Ties share the gradient evenly. A segment without rows gets the
/// lowest (highest) finite number of the type.
Tensor segment_max(const Tensor& data, const Tensor& segment_ids, std::int64_t count, Where where = Where::current());
Tensor segment_min(const Tensor& data, const Tensor& segment_ids, std::int64_t count, Where where = Where::current());

}  // namespace capstan
