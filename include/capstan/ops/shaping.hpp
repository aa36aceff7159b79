#pragma once
// New shapes for the same elements, and joining and cutting. Views where that is possible; all differentiable.
//
// Axes may be negative: -1 is the last. Throws IndexError for an axis out of range, ShapeError for sizes that do not
// fit. Defined in autograd/shaping.cpp, joining.cpp and grids.cpp.
#include <array>
#include <cstddef>
#include <vector>

#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// Sizes of which one may be -1: "what is left".
class ShapeRequest {
 public:
  ShapeRequest(std::initializer_list<std::int64_t> sizes, Where where = Where::current());
  ShapeRequest(const Shape& shape);
  std::span<const std::int64_t> list() const noexcept;

 private:
  std::int64_t sizes_[kMaxRank] = {};
  int rank_ = 0;
};

/// The elements in row-major order under a new shape of the same count. A view if strides allow, else a copy.
Tensor reshape(const Tensor& x, const ShapeRequest& shape, Where where = Where::current());
/// Axes begin..end, both included, become one.
Tensor flatten(const Tensor& x, int begin = 0, int end = -1, Where where = Where::current());
/// A view with all axes reversed.
Tensor transpose(const Tensor& x, Where where = Where::current());
/// A view with two axes exchanged.
Tensor transpose(const Tensor& x, int axis0, int axis1, Where where = Where::current());
/// A view whose axis i is axis order[i] of x.
Tensor permute(const Tensor& x, std::initializer_list<int> order, Where where = Where::current());
Tensor permute(const Tensor& x, std::span<const int> order, Where where = Where::current());
/// A view with one axis, or several, moved to other positions; the others keep their order (the Array API's moveaxis).
/// ShapeError unless there are as many destinations as sources, each named once.
Tensor move_axis(const Tensor& x, int source, int destination, Where where = Where::current());
Tensor move_axis(const Tensor& x, std::span<const int> sources, std::span<const int> destinations,
                 Where where = Where::current());
Tensor move_axis(const Tensor& x, std::initializer_list<int> sources, std::initializer_list<int> destinations,
                 Where where = Where::current());
/// A view in which one axis has become several, whose sizes multiply to its own; one of them may be -1: "what is left".
Tensor unflatten(const Tensor& x, int axis, const ShapeRequest& sizes, Where where = Where::current());
/// A view without the axes of size 1, or without that one axis (ShapeError if its size is not 1).
Tensor squeeze(const Tensor& x, Where where = Where::current());
Tensor squeeze(const Tensor& x, int axis, Where where = Where::current());
/// A view with a new axis of size 1 at that position of the result.
Tensor expand_dims(const Tensor& x, int axis, Where where = Where::current());
/// A read-only view stretched to a larger shape by NumPy's rules; -1 keeps a size.
Tensor broadcast_to(const Tensor& x, const ShapeRequest& shape, Where where = Where::current());
/// Read-only views of all tensors, stretched to the shape that they broadcast to (the Array API's broadcast_arrays).
std::vector<Tensor> broadcast_tensors(std::span<const Tensor> tensors, Where where = Where::current());
std::vector<Tensor> broadcast_tensors(std::initializer_list<Tensor> tensors, Where where = Where::current());

/// Which of the first two axes of a grid the first two vectors run along.
enum class GridOrder : std::uint8_t {
  xy,  ///< the first along the columns, the second along the rows: NumPy's and the Array API's default
  ij   ///< each along its own axis
};
/// The coordinates of a grid: read-only views, one for each vector, as long along its axis as it is and constant along
/// the others. Vectors of one axis, or single values. ShapeError for more axes, or for more than 8 vectors.
std::vector<Tensor> meshgrid(std::span<const Tensor> vectors, GridOrder order = GridOrder::xy,
                             Where where = Where::current());
std::vector<Tensor> meshgrid(std::initializer_list<Tensor> vectors, GridOrder order = GridOrder::xy,
                             Where where = Where::current());
/// A read-only view of all windows of `size` places along an axis, each `step` behind the one before (NumPy's
/// sliding_window_view, PyTorch's unfold).
///
///   out[..., w, ..., k] = x[..., w * step + k, ...]
///
/// Shapes    x [a..., n, b...]; result [a..., (n - size) / step + 1, b..., size]
/// Gradient  each element gets the sum over the windows that it is in
/// Throws    ShapeError  size not in [1, n], step < 1, or 8 axes already
Tensor sliding_window(const Tensor& x, int axis, std::int64_t size, std::int64_t step = 1,
                      Where where = Where::current());

/// One after another along an existing axis; types promote.
Tensor concat(std::span<const Tensor> parts, int axis = 0, Where where = Where::current());
Tensor concat(std::initializer_list<Tensor> parts, int axis = 0, Where where = Where::current());
/// Side by side along a new axis; equal shapes.
Tensor stack(std::span<const Tensor> parts, int axis = 0, Where where = Where::current());
Tensor stack(std::initializer_list<Tensor> parts, int axis = 0, Where where = Where::current());
/// Views of the slices along an axis, which is dropped: the reverse of stack.
std::vector<Tensor> unstack(const Tensor& x, int axis = 0, Where where = Where::current());
/// Views of `count` equal parts along an axis; ShapeError if it does not divide.
std::vector<Tensor> split(const Tensor& x, std::int64_t count, int axis = 0, Where where = Where::current());
/// Views of `count` parts along an axis, the first of them one place longer where it does not divide (NumPy's
/// array_split). ShapeError unless count >= 1.
std::vector<Tensor> array_split(const Tensor& x, std::int64_t count, int axis = 0, Where where = Where::current());
/// Views of parts of the given sizes, which must add up.
std::vector<Tensor> split_sizes(const Tensor& x, std::span<const std::int64_t> sizes, int axis = 0,
                                Where where = Where::current());
std::vector<Tensor> split_sizes(const Tensor& x, std::initializer_list<std::int64_t> sizes, int axis = 0,
                                Where where = Where::current());
namespace detail {
void unstack(std::span<Tensor> parts, const Tensor& x, int axis, Where where);
void split(std::span<Tensor> parts, const Tensor& x, int axis, Where where);
}  // namespace detail

/// The same for a count that is known: `auto [mean, deviation] = split<2>(x, -1)`. ShapeError unless the axis has N
/// slices, or divides into N parts.
template <std::size_t N>
std::array<Tensor, N> unstack(const Tensor& x, int axis = 0, Where where = Where::current()) {
  std::array<Tensor, N> parts;
  detail::unstack(parts, x, axis, where);
  return parts;
}
template <std::size_t N>
std::array<Tensor, N> split(const Tensor& x, int axis = 0, Where where = Where::current()) {
  std::array<Tensor, N> parts;
  detail::split(parts, x, axis, where);
  return parts;
}

/// A view of begin[i] .. begin[i]+size[i]-1 along each axis; size -1 means to the end. IndexError if they reach out.
Tensor slice(const Tensor& x, std::initializer_list<std::int64_t> begin, std::initializer_list<std::int64_t> size,
             Where where = Where::current());
/// A view of positions begin .. begin+size-1 along one axis. IndexError if they reach out.
Tensor narrow(const Tensor& x, int axis, std::int64_t begin, std::int64_t size, Where where = Where::current());

}  // namespace capstan
