#pragma once
// Tensors as xtensor expressions and the reverse, without copies. Opt-in: include it beside <capstan/capstan.hpp>, and
// link xtensor, which Capstan's package does not bring.
//
//   cs::Tensor x = cs::ones({3, 4});
//   auto seen = cs::interop::view<float>(x);                 // x's elements, as an expression
//   cs::Tensor y = cs::interop::copy(2 * seen + 1);          // evaluated into a new tensor
//   cs::Tensor z = cs::interop::from_xtensor(xt::xarray<float>({1, 2}));  // the array's memory
#include <array>
#include <utility>
#include <vector>

#if __has_include(<xtensor/containers/xadapt.hpp>)  // since 0.26
#include <xtensor/containers/xadapt.hpp>
#include <xtensor/containers/xarray.hpp>
#include <xtensor/views/xstrided_view.hpp>
#else
#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xstrided_view.hpp>
#endif

#include <capstan/create.hpp>
#include <capstan/tensor.hpp>

namespace capstan::interop {

namespace detail {

template <class T>
auto adapt(const Tensor& tensor, T* data) {
  using Sizes = std::vector<std::size_t>;
  Sizes shape;
  std::vector<std::ptrdiff_t> strides;
  for (int axis = 0; axis < tensor.rank(); ++axis) {
    const std::int64_t size = tensor.size(axis), stride = tensor.stride(axis);
    shape.push_back(static_cast<std::size_t>(size));
    strides.push_back(size == 1 ? 0 : static_cast<std::ptrdiff_t>(stride));
  }
  return xt::adapt(data, static_cast<std::size_t>(tensor.numel()), xt::no_ownership(), shape, strides);
}

}  // namespace detail

/// A tensor's elements as an xtensor adaptor that shares memory and strides: no copy. The tensor must outlive it, be
/// on the CPU (DeviceError), hold T (DTypeError) and have no negative strides (ShapeError).
template <class T>
auto view(const Tensor& tensor, Where where = Where::current()) {
  capstan::detail::require_adaptable("interop::view", tensor, where);
  return detail::adapt<const T>(tensor, tensor.data<T>(where));
}

/// The same for writing; counts as a write to the storage.
template <class T>
auto mutable_view(Tensor& tensor, Where where = Where::current()) {
  capstan::detail::require_adaptable("interop::mutable_view", tensor, where);
  return detail::adapt<T>(tensor, tensor.mutable_data<T>(where));
}

/// Takes over an array's memory: no copy. Row-major arrays only, which is xtensor's default.
template <class T>
Tensor from_xtensor(xt::xarray<T>&& array, Where where = Where::current()) {
  auto* owner = new xt::xarray<T>(std::move(array));
  try {
    std::vector<std::int64_t> sizes(owner->shape().begin(), owner->shape().end());
    const Shape shape(std::span<const std::int64_t>(sizes), where);
    return from_memory<T>(
        owner->data(), shape, [](void* context) { delete static_cast<xt::xarray<T>*>(context); }, owner, where);
  } catch (...) {
    delete owner;
    throw;
  }
}

/// Evaluates any xtensor expression into a new tensor.
template <class E>
Tensor copy(const xt::xexpression<E>& expression, Where where = Where::current()) {
  using T = std::remove_const_t<typename E::value_type>;
  return from_xtensor(xt::xarray<T>(expression.derived_cast()), where);
}

}  // namespace capstan::interop
