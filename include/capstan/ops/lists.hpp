#pragma once
// Whole lists of tensors at once: what loss scaling, the accumulation of gradients and moving averages of parameters
// are made of. Floating types.
//
// Lists are taken by value where tensors come back: elements that nobody else holds, and that no tape follows, are
// computed in place, so hand over lists that you no longer need by std::move, or straight from
// `GradientTape::gradient`. Undefined tensors stay undefined. Gradients held as row slices (sparse.hpp) stay slices.
// All is checked before anything changes.
// Defined in autograd/lists.cpp.
#include <span>
#include <vector>

#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

struct ScaledResult {
  std::vector<Tensor> tensors;
  bool finite = true;  ///< whether no element was NaN or infinite before
};

/// Every tensor times `factor`, rounded once (16-bit types from float32), and whether all elements were finite: one
/// pass. Gradient g * factor.
/// Throws DTypeError  not floating    DeviceError  tensors on several devices    Error  the factor is NaN
ScaledResult scale_each(std::vector<Tensor> tensors, double factor, Where where = Where::current());

/// totals[i] += values[i]. A total that is undefined becomes a copy of the value; a value that is undefined changes
/// nothing. Slices stay together as long as they are fewer than the tensor has rows. Totals may be replaced by other
/// tensors: those that somebody else holds stay as they are. Recorded where a tape follows one of the two.
/// Throws ShapeError  lists of different lengths, tensors of different shapes    DTypeError  not floating, or of
///        different types    DeviceError  on different devices
void add_each(std::vector<Tensor>& totals, std::vector<Tensor> values, Where where = Where::current());

/// averages[i] += weight * (values[i] - averages[i]), in place, in float64 rounded once. Averages equal to their values
/// stay so exactly, and the weight 1 copies. Other than floating tensors take the values over. Values that share
/// storage with averages count as they were before. Counts as a write to the averages; never recorded.
/// Throws as `add_each`, Error for undefined tensors, ShapeError for averages that are not contiguous, TapeError if a
///        tape follows an average as the result of an operation
void blend_each(std::span<const Tensor> averages, std::span<const Tensor> values, double weight,
                Where where = Where::current());

/// The elements of a[i] and b[i] change places; of any type. No memory is needed. Counts as a write to both; never
/// recorded. Throws as `blend_each`, for both.
void exchange_each(std::span<const Tensor> a, std::span<const Tensor> b, Where where = Where::current());

}  // namespace capstan
