#pragma once
// Sorting, choosing by rank, searching and counting.
//
// All share one order: numbers by size, false before true, NaN larger than everything (as in NumPy and PyTorch), -0
// equal to 0. Equal elements keep their order, downwards too, so there is only one result. All element types, unless an
// entry says otherwise. Indices are int64 and count along the axis; axes may be negative.
// Gradients go to the elements that were chosen; at ties, to those that the indices name.
// Throws IndexError for an axis out of range. Defined in autograd/order.cpp, quantile.cpp and counting.cpp.
#include <capstan/ops/reduce.hpp>
#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

// --- sorting -----------------------------------------------------------------------------------------------------

struct SortOptions {
  bool descending = false;  ///< largest first, and NaN before everything
};
struct SortResult {
  Tensor values, indices;
};

/// The elements in order along one axis. Always stable (the Array API's `sort`); x keeps its elements.
/// Cost    some passes over the elements for each byte of their type, however many there are
Tensor sort(const Tensor& x, int axis = -1, SortOptions options = {}, Where where = Where::current());
/// The indices that sort: take_along_axis(x, argsort(x, axis), axis) is sort(x, axis). int64, no gradient.
Tensor argsort(const Tensor& x, int axis = -1, SortOptions options = {}, Where where = Where::current());
/// Both at the price of argsort.
SortResult sort_with_indices(const Tensor& x, int axis = -1, SortOptions options = {}, Where where = Where::current());

// --- choosing by rank --------------------------------------------------------------------------------------------

struct TopkOptions {
  bool largest = true;  ///< false: the smallest
  bool sorted = true;   ///< false: in any order, but the same for any number of threads
};
struct TopkResult {
  Tensor values, indices;
};
/// The k largest elements along one axis, largest first; of equal ones the first (PyTorch's topk; NaN is the largest).
/// Shapes  x [a..., n, b...]; both results [a..., k, b...]         Throws  ShapeError unless 0 <= k <= n
TopkResult topk(const Tensor& x, std::int64_t k, int axis = -1, TopkOptions options = {},
                Where where = Where::current());

struct KthResult {
  Tensor values, indices;
};
/// The k-th smallest element along one axis, counted from 1. The lower median, PyTorch's, is k = (n + 1) / 2.
/// Shapes  x [a..., n, b...]; both results [a..., b...]            Throws  ShapeError unless 1 <= k <= n
KthResult kthvalue(const Tensor& x, std::int64_t k, int axis = -1, ReduceOptions options = {},
                   Where where = Where::current());

/// The middle element, or the mean of the middle two, as NumPy has it (PyTorch takes the lower of the two: that is
/// `quantile` with QuantileMethod::lower). NaN if there is one. Floating types; ShapeError for an empty reduction. The
/// mean of two gives each half of the gradient.
Tensor median(const Tensor& x, Axes axes = {}, ReduceOptions options = {}, Where where = Where::current());

/// What is taken between two neighbours, as NumPy names it. With position = q * (n - 1) in the sorted elements:
enum class QuantileMethod : std::uint8_t {
  linear,    ///< on the line between them
  lower,     ///< at floor(position)
  higher,    ///< at ceil(position)
  midpoint,  ///< the mean of the two
  nearest    ///< the nearer one, the even position at a tie
};
struct QuantileOptions {
  QuantileMethod method = QuantileMethod::linear;
  bool keepdims = false;
};
/// The value below which a part `q` of the elements lies; q in [0, 1]. NaN if there is one.
///
/// Shapes    one q: as `sum` would give; a tensor of m of them, [m]: a new axis in front, [m, ...] (NumPy)
/// Types     floating; q is a number, or a floating tensor of at most one axis
/// Gradient  for x: to the neighbours in the parts in which they count. q is a constant
/// Cost      one sort of all elements
/// Throws    Error  q outside [0, 1]    ShapeError  an empty reduction, or q with more axes    DTypeError  other types
/// Source    numpy.quantile
Tensor quantile(const Tensor& x, double q, Axes axes = {}, QuantileOptions options = {},
                Where where = Where::current());
Tensor quantile(const Tensor& x, const Tensor& q, Axes axes = {}, QuantileOptions options = {},
                Where where = Where::current());

// --- distinct elements; no gradients -----------------------------------------------------------------------------

struct UniqueResult {
  Tensor values;           ///< ascending, [m]
  Tensor indices;          ///< where each first stands in the flattened x, [m]
  Tensor inverse_indices;  ///< the position in `values` of every element, in x's shape
  Tensor counts;           ///< how often each occurs, [m]
};
/// The distinct elements of all of x, ascending, [m]. Every NaN is one of its own, as in the Array API and PyTorch.
Tensor unique(const Tensor& x, Where where = Where::current());
/// The Array API's `unique_all`.
UniqueResult unique_all(const Tensor& x, Where where = Where::current());

// --- searching and counting; no gradients ------------------------------------------------------------------------

struct SearchOptions {
  bool right = false;  ///< behind equal elements instead of before them
};
/// Where `values` would have to be inserted to keep `sorted` sorted: the number of elements that are smaller, or with
/// `right` not larger (NumPy's and PyTorch's searchsorted). That `sorted` ascends is not checked.
///
/// Shapes  sorted [n] and values of any shape; or sorted [a..., n] and values [a..., m], row by row. As values, int64
/// Types   as both promote to                  Throws  ShapeError, DTypeError, DeviceError for operands that do not fit
Tensor searchsorted(const Tensor& sorted, const Tensor& values, SearchOptions options = {},
                    Where where = Where::current());
/// The same with its operands exchanged and one list of boundaries, [n] (PyTorch's bucketize).
Tensor bucketize(const Tensor& x, const Tensor& boundaries, SearchOptions options = {}, Where where = Where::current());

struct HistogramResult {
  Tensor counts;  ///< [bins], int64; with weights their sums, in the weights' type
  Tensor edges;   ///< [bins + 1], in x's type, float64 for integers
};
/// How many elements lie in each of `bins` equal intervals of [low, high] (NumPy's histogram). Each holds its lower
/// edge and the last one its upper edge too; elements outside and NaN do not count. If low equals high they are moved
/// apart, by 0.5 to each side.
///
/// Types   numbers; weights floating and of x's shape, or Tensor() for 1 each
/// Throws  Error  low above high, a limit or their difference not finite, or bins so narrow that two edges are equal
///         ShapeError  bins < 1, or weights of another shape
///         DTypeError  bool, or weights that are not floating        DeviceError  weights on another device
HistogramResult histogram(const Tensor& x, std::int64_t bins, double low, double high, const Tensor& weights = Tensor(),
                          Where where = Where::current());
/// From the smallest to the largest element; [0, 1] for none. Error if they or their difference are not finite.
HistogramResult histogram(const Tensor& x, std::int64_t bins = 10, const Tensor& weights = Tensor(),
                          Where where = Where::current());

/// How often each of 0, 1, 2, ... occurs among all of x, up to the largest but at least `minlength` numbers; with
/// weights (floating, of x's shape) their sums, in their type. NumPy's bincount.
/// Throws  IndexError  a negative element    DTypeError  x not integer, weights not floating
///         ShapeError  minlength < 0, or weights of another shape
Tensor bincount(const Tensor& x, std::int64_t minlength = 0, const Tensor& weights = Tensor(),
                Where where = Where::current());

}  // namespace capstan
