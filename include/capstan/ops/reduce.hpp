#pragma once
// Sums, extremes and their relatives along axes.
#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// Which axes to reduce: none given means all of them. Negative axes count from the end. Converted from one number or
/// from braces: `sum(x, 0)`, `sum(x, {0, -1})`.
class Axes {
 public:
  constexpr Axes() noexcept = default;
  template <std::integral T>
  constexpr Axes(T axis) noexcept : axes_{static_cast<int>(axis)}, count_(1) {}
  Axes(std::initializer_list<int> axes, Where where = Where::current());  ///< ShapeError for more than 8

  explicit Axes(std::span<const int> axes, Where where = Where::current());

  constexpr bool every() const noexcept { return count_ < 0; }
  constexpr std::span<const int> list() const noexcept {
    return {axes_, static_cast<std::size_t>(count_ < 0 ? 0 : count_)};
  }

 private:
  int axes_[kMaxRank] = {};
  int count_ = -1;
};

struct ReduceOptions {
  bool keepdims = false;  ///< leave reduced axes in the shape with size 1
};

// Throws IndexError for an axis out of range, ShapeError for one named twice. Results do not depend on the number of
// threads. Sums add in blocks, and blocks in double. Defined in autograd/reduce.cpp.

/// Sum. Integers and bool give int64, as in NumPy. The sum of nothing is 0.
Tensor sum(const Tensor& x, Axes axes = {}, ReduceOptions options = {}, Where where = Where::current());
/// Arithmetic mean; floating types (DTypeError). ShapeError if an axis to be reduced has size 0.
Tensor mean(const Tensor& x, Axes axes = {}, ReduceOptions options = {}, Where where = Where::current());
/// Largest value; NaN if there is one. ShapeError for an empty reduction. Ties share the gradient evenly.
Tensor max(const Tensor& x, Axes axes = {}, ReduceOptions options = {}, Where where = Where::current());
/// Smallest value; as `max`.
Tensor min(const Tensor& x, Axes axes = {}, ReduceOptions options = {}, Where where = Where::current());
/// int64 index of the first largest value along one axis; the first NaN wins. ShapeError for an axis of size 0.
Tensor argmax(const Tensor& x, int axis, ReduceOptions options = {}, Where where = Where::current());
/// The same in the flattened tensor.
Tensor argmax(const Tensor& x, Where where = Where::current());
/// log(sum(exp(x))) without overflow; floating. -inf for an empty reduction.
Tensor logsumexp(const Tensor& x, Axes axes = {}, ReduceOptions options = {}, Where where = Where::current());
/// exp(x) / sum(exp(x)) along one axis, without overflow; floating.
Tensor softmax(const Tensor& x, int axis = -1, Where where = Where::current());
/// log(softmax(x)), exact for large differences; floating.
Tensor log_softmax(const Tensor& x, int axis = -1, Where where = Where::current());
/// Whether all (any) elements are true; bool only, gives bool. True (false) for nothing.
Tensor all_of(const Tensor& x, Axes axes = {}, ReduceOptions options = {}, Where where = Where::current());
Tensor any_of(const Tensor& x, Axes axes = {}, ReduceOptions options = {}, Where where = Where::current());

}  // namespace capstan
