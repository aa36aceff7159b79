#pragma once
// The same elements in other places: repeated, turned around, moved along, padded, and told apart by length.
//
// All but sequence_mask take any element type and are differentiable to any order. Axes may be negative: -1 is the
// last. Throws IndexError for an axis out of range, ShapeError for counts that do not fit. Results are new unless the
// entry says that they are views. Defined in autograd/rearranging.cpp and padding.cpp.
#include <capstan/ops/reduce.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// The whole tensor counts[i] times along axis i (NumPy's tile). Counts and axes are aligned at their ends: missing
/// counts are 1, and counts too many make new leading axes. ShapeError for a negative count.
Tensor tile(const Tensor& x, std::span<const std::int64_t> counts, Where where = Where::current());
Tensor tile(const Tensor& x, std::initializer_list<std::int64_t> counts, Where where = Where::current());

/// Each slice along the axis `count` times in a row (NumPy's repeat, PyTorch's repeat_interleave).
Tensor repeat(const Tensor& x, std::int64_t count, int axis, Where where = Where::current());
/// Slice i of the axis counts[i] times. Counts [size of the axis], or one for all; int32 or int64 (DTypeError), >= 0.
Tensor repeat(const Tensor& x, const Tensor& counts, int axis, Where where = Where::current());

/// A view with the order along these axes reversed; of all axes if none is given.
Tensor flip(const Tensor& x, Axes axes = {}, Where where = Where::current());

/// Elements moved by `shift` places along the axis, those that fall off come in at its other end: place i goes to
/// (i + shift) mod size. Several axes one after another, which may be the same.
Tensor roll(const Tensor& x, std::int64_t shift, int axis, Where where = Where::current());
Tensor roll(const Tensor& x, std::span<const std::int64_t> shifts, std::span<const int> axes,
            Where where = Where::current());
Tensor roll(const Tensor& x, std::initializer_list<std::int64_t> shifts, std::initializer_list<int> axes,
            Where where = Where::current());

/// Places added in front of an axis and behind it, >= 0.
struct Padding {
  std::int64_t before = 0, after = 0;
};

/// What stands in the places added around 1 2 3 4, by NumPy's names.
enum class PadMode : std::uint8_t {
  constant,   ///< a value:                              0 0 | 1 2 3 4 | 0 0
  edge,       ///< the outermost:                        1 1 | 1 2 3 4 | 4 4
  reflect,    ///< mirrored about the outermost:         3 2 | 1 2 3 4 | 3 2
  symmetric,  ///< mirrored, the outermost among them:   2 1 | 1 2 3 4 | 4 3
  wrap        ///< from the other end:                   3 4 | 1 2 3 4 | 1 2
};

/// More places around the elements, one Padding for each axis.
///
/// Shapes    axis i of the result has padding[i].before + size(i) + padding[i].after places
/// Types     any; `value`, used by PadMode::constant, takes the tensor's type (0 is false for bool)
/// Gradient  of each element the sum over the places that it stands in
/// Throws    ShapeError  not one Padding for each axis, a negative one, or one that reaches further than the mode
///                       allows, as in TensorFlow: reflect up to size - 1, symmetric up to size; edge and wrap need
///                       an element
///           DTypeError  the value does not go with the type
Tensor pad(const Tensor& x, std::span<const Padding> padding, PadMode mode = PadMode::constant, Scalar value = 0,
           Where where = Where::current());
Tensor pad(const Tensor& x, std::initializer_list<Padding> padding, PadMode mode = PadMode::constant, Scalar value = 0,
           Where where = Where::current());

/// The first lengths[i] positions of batch entry i reversed, the rest as it was (TensorFlow's reverse_sequence).
///
///   out[i, t] = x[i, lengths[i] - 1 - t] for t < lengths[i], else x[i, t]     with batch axis 0 and sequence axis 1
///
/// Shapes    x any with two axes or more; lengths [size of the batch axis], int32 or int64
/// Throws    IndexError  a length outside [0, size of the sequence axis]     DTypeError  lengths not int32 or int64
///           ShapeError  as many lengths as batch entries are needed, and two different axes
Tensor reverse_sequence(const Tensor& x, const Tensor& lengths, int sequence_axis = 1, int batch_axis = 0,
                        Where where = Where::current());

/// Whether a position is within the length: out[..., t] = t < lengths[...] (TensorFlow's sequence_mask). 1 and 0 in a
/// type other than bool. `max_length` positions; the largest length, or 0 if there is none, if it is negative.
/// Shapes    lengths [...], of an integer type (DTypeError); result [..., max_length]; no gradient
Tensor sequence_mask(const Tensor& lengths, std::int64_t max_length = -1, DType dtype = DType::bool8,
                     Where where = Where::current());

}  // namespace capstan
