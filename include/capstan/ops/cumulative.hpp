#pragma once
// Running sums and their relatives along one axis.
//
// Shapes: x [a..., n, b...] gives the same shape; an axis of size 0 is fine. Totals are kept in double for floating
// elements and rounded where they are stored. Results do not depend on the number of threads. Axes may be negative;
// IndexError for one out of range. Gradients of all orders. Defined in autograd/cumulative.cpp.
#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

struct CumulativeOptions {
  bool exclusive = false;  ///< without the element itself: TensorFlow's option. The first is then what nothing gives
  bool reverse = false;    ///< from the end to the front: TensorFlow's option
};

/// out[i] = x[0] + ... + x[i]. Integers and bool give int64 and wrap around, as in NumPy. The sum of nothing is 0.
Tensor cumsum(const Tensor& x, int axis, CumulativeOptions options = {}, Where where = Where::current());
/// out[i] = x[0] * ... * x[i]. Integers and bool give int64. The product of nothing is 1. As in `prod` nothing in between
/// overflows: what comes behind may bring a product back into range. The gradient is exact also where elements are 0: it
/// is found without divisions, by a recurrence from the end.
Tensor cumprod(const Tensor& x, int axis, CumulativeOptions options = {}, Where where = Where::current());
/// out[i] = log(exp(x[0]) + ... + exp(x[i])) without overflow; floating types (DTypeError). Of nothing: -inf.
Tensor logcumsumexp(const Tensor& x, int axis, CumulativeOptions options = {}, Where where = Where::current());

struct ExtremeResult {
  Tensor values;   ///< in x's type
  Tensor indices;  ///< where along the axis they stand, int64
};
/// The largest element so far, and where it stands: at ties the last of them, as in PyTorch. From a NaN on all are NaN.
/// All types. The gradient goes to where the indices point.
ExtremeResult cummax(const Tensor& x, int axis, Where where = Where::current());
/// The smallest element so far; as `cummax`.
ExtremeResult cummin(const Tensor& x, int axis, Where where = Where::current());

/// Differences of neighbours, x[i+1] - x[i], taken `order` times: each time the axis loses one element (NumPy's diff).
/// Numbers. Throws ShapeError for a negative order, DTypeError for bool.
Tensor diff(const Tensor& x, int order = 1, int axis = -1, Where where = Where::current());

}  // namespace capstan
