#pragma once
// Tensors from nothing, from numbers and from memory.
//
// Beside what each entry says, all throw DeviceError for a device that is not there, and OutOfMemoryError.
#include <span>
#include <vector>

#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// Element type and device of a new tensor.
struct TensorOptions {
  DType dtype = DType::float32;
  DeviceChoice device = {};  ///< the default device of the thread that makes the tensor, if none is given
};

/// Elements of undetermined value.
Tensor empty(const Shape& shape, TensorOptions options = {}, Where where = Where::current());
Tensor zeros(const Shape& shape, TensorOptions options = {}, Where where = Where::current());
Tensor ones(const Shape& shape, TensorOptions options = {}, Where where = Where::current());
/// Every element `value` in the options' type, float32 if they name none; see scalar.hpp for what goes with it
/// (DTypeError).
Tensor full(const Shape& shape, Scalar value, TensorOptions options = {}, Where where = Where::current());

/// Shape, type and device of another tensor.
Tensor empty_like(const Tensor& x, Where where = Where::current());
Tensor zeros_like(const Tensor& x, Where where = Where::current());
Tensor ones_like(const Tensor& x, Where where = Where::current());
Tensor full_like(const Tensor& x, Scalar value, Where where = Where::current());

/// begin, begin+step, ... before end: ceil((end-begin)/step) values. Integers give int64, else float32, or the type
/// that is asked for: any number type, a floating one unless all three are integers (DTypeError; also if an integer
/// type cannot hold a value). Throws ShapeError for step 0.
Tensor arange(Scalar begin, Scalar end, Scalar step = 1, Where where = Where::current());
Tensor arange(Scalar begin, Scalar end, Scalar step, TensorOptions options, Where where = Where::current());
Tensor arange(Scalar end, Where where = Where::current());
/// `count` values from begin to end, both included: begin + i*step, in double and rounded once, as NumPy computes them.
/// Floating types only (DTypeError); count >= 0 (ShapeError).
Tensor linspace(double begin, double end, std::int64_t count, TensorOptions options = {},
                Where where = Where::current());
/// Ones on the diagonal of [rows, columns]; columns = rows if negative.
Tensor eye(std::int64_t rows, std::int64_t columns = -1, TensorOptions options = {}, Where where = Where::current());

/// A copy of `values` in row-major order. ShapeError if the count does not match the shape.
template <class T>
Tensor from_span(std::span<const T> values, const Shape& shape, Where where = Where::current());
template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape, Where where = Where::current()) {
  return from_span<T>(std::span<const T>(values), shape, where);
}
template <class T>
Tensor from_vector(const std::vector<T>& values, Where where = Where::current()) {
  return from_span<T>(std::span<const T>(values), Shape({static_cast<std::int64_t>(values.size())}), where);
}
/// Uses memory that somebody else owns, without a copy: row-major, on the CPU, alive as long as the tensor and its
/// views are. `release(context)` is called when the last of them is gone, if it is not null. Each call has a count of
/// writes of its own (`Tensor::version`): of two tensors made over the same memory neither counts the other's writes,
/// nor the owner's, so that a tape which keeps the values of one cannot tell that they have changed. Error for a null
/// pointer beside elements, and while a plan is made.
template <class T>
Tensor from_memory(T* values, const Shape& shape, void (*release)(void*) = nullptr, void* context = nullptr,
                   Where where = Where::current());
/// A tensor of one value, shape [].
Tensor scalar(Scalar value, TensorOptions options, Where where = Where::current());

}  // namespace capstan
