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
  constexpr Axes(T axis) noexcept : axes_{in_int(axis)}, count_(1) {}
  Axes(std::initializer_list<int> axes, Where where = Where::current());  ///< ShapeError for more than 8

  explicit Axes(std::span<const int> axes, Where where = Where::current());

  constexpr bool every() const noexcept { return count_ < 0; }
  std::span<const int> list() const noexcept;

 private:
  /// What no int holds is out of range for every tensor.
  template <class T>
  static constexpr int in_int(T axis) noexcept {
    const int value = static_cast<int>(axis);
    return static_cast<T>(value) == axis ? value : INT32_MAX;
  }
  int axes_[kMaxRank] = {};
  int count_ = -1;
};

struct ReduceOptions {
  bool keepdims = false;  ///< leave reduced axes in the shape with size 1
};

struct VarianceOptions {
  double correction = 0;  ///< taken off the count that the squares are divided by
  bool keepdims = false;  ///< leave reduced axes in the shape with size 1
};

struct Moments {
  Tensor mean, variance;
};

// Throws IndexError for an axis out of range, ShapeError for one named twice. Results do not depend on the number of
// threads. Sums add in blocks, and blocks in double. Defined in autograd/reduce.cpp and moments.cpp.

/// Sum. Integers and bool give int64, as in NumPy. The sum of nothing is 0.
Tensor sum(const Tensor& x, Axes axes = {}, ReduceOptions options = {}, Where where = Where::current());
/// Product, in double for floating types, where nothing between the factors and the result overflows. Integers and bool
/// give int64, which wraps around, as in NumPy. The product of nothing is 1. The gradient is the product of the others,
/// right also where there are zeros, to any order.
Tensor prod(const Tensor& x, Axes axes = {}, ReduceOptions options = {}, Where where = Where::current());
/// Arithmetic mean; floating types (DTypeError). ShapeError if an axis to be reduced has size 0.
Tensor mean(const Tensor& x, Axes axes = {}, ReduceOptions options = {}, Where where = Where::current());
/// Mean squared distance from the mean: sum((x - mean(x))^2) / (count - correction).
///
/// Types     floating; the sums are taken in double, and equal values have variance 0 exactly
/// Gradient  2*(x - mean(x)) / (count - correction)
/// Cost      each element is read twice, the second time from the cache
/// Throws    DTypeError   not floating       Error  the correction is not finite
///           ShapeError   an axis to be reduced has size 0, or one is named twice
/// correction 0, as in NumPy and the Array API, is the population's variance, 1 the sample's (PyTorch's default). Where
/// count - correction is not above 0 the result is infinite, or NaN for equal values, as in NumPy.
Tensor var(const Tensor& x, Axes axes = {}, VarianceOptions options = {}, Where where = Where::current());
/// The root of `var`, taken before rounding. The gradient is (x - mean(x)) / (std * (count - correction)), and 0 where
/// std is 0, as in PyTorch. Beside `using namespace capstan` write capstan::std: C++ has a namespace of that name.
Tensor std(const Tensor& x, Axes axes = {}, VarianceOptions options = {}, Where where = Where::current());
/// Mean and variance (correction 0) together, in one go: TensorFlow's moments.
Moments moments(const Tensor& x, Axes axes = {}, ReduceOptions options = {}, Where where = Where::current());
/// Largest value, of numbers; NaN if there is one. ShapeError for an empty reduction. Ties share the gradient evenly.
Tensor max(const Tensor& x, Axes axes = {}, ReduceOptions options = {}, Where where = Where::current());
/// Smallest value; as `max`.
Tensor min(const Tensor& x, Axes axes = {}, ReduceOptions options = {}, Where where = Where::current());
/// int64 index of the first largest value along one axis, of numbers; the first NaN wins. ShapeError for an axis of size
/// 0. For bool take x.to(DType::uint8).
Tensor argmax(const Tensor& x, int axis, ReduceOptions options = {}, Where where = Where::current());
/// The same in the flattened tensor.
Tensor argmax(const Tensor& x, Where where = Where::current());
/// int64 index of the first smallest value; as `argmax`.
Tensor argmin(const Tensor& x, int axis, ReduceOptions options = {}, Where where = Where::current());
Tensor argmin(const Tensor& x, Where where = Where::current());
/// log(sum(exp(x))) without overflow; floating. -inf for an empty reduction. Where all are -inf the gradient is 0.
Tensor logsumexp(const Tensor& x, Axes axes = {}, ReduceOptions options = {}, Where where = Where::current());
/// exp(x) / sum(exp(x)) along one axis, without overflow; floating.
Tensor softmax(const Tensor& x, int axis = -1, Where where = Where::current());
/// log(softmax(x)), exact for large differences; floating.
Tensor log_softmax(const Tensor& x, int axis = -1, Where where = Where::current());
/// Whether all (any) elements are true; bool only, gives bool. True (false) for nothing.
Tensor all_of(const Tensor& x, Axes axes = {}, ReduceOptions options = {}, Where where = Where::current());
Tensor any_of(const Tensor& x, Axes axes = {}, ReduceOptions options = {}, Where where = Where::current());

}  // namespace capstan
