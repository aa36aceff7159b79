#pragma once
// Autocast: how operations bring their operands to the type that capstan/autocast.hpp promises. An operation of its
// table begins with one line,
//
//   if (autograd::lowers(x, y)) [[unlikely]] return autograd::lowered(&matmul, where, x, y);
//
// which costs the test of a byte when autocast is off. Operations that are made of others are decided about as a whole:
// their Rollback switches autocast off.
#include <initializer_list>
#include <type_traits>

#include <capstan/autocast.hpp>

#include "autograd/tape.hpp"

namespace capstan::autograd {

/// Whether all (but undefined ones) are float32 or of 16 bits, and some not of that type.
bool can_become(DType type, std::initializer_list<const TensorImpl*> operands) noexcept;
/// Whether all (but undefined ones) are float32 or of 16 bits, and not all of one type.
bool have_several_types(std::initializer_list<const TensorImpl*> operands) noexcept;
/// x, converted if it is float32 or of 16 bits; itself if not, or undefined.
Tensor in_type(const Tensor& x, DType type, Where where);

/// Whether autocast computes a product of these in 16 bits, and some are not of that type yet.
template <class... Tensors>
bool lowers(const Tensors&... operands) noexcept {
  return autocasting() && can_become(autocast_type, {operands.impl()...});
}
/// Whether an operation that needs range or precision has 16-bit operands, and autocast makes them float32.
template <class... Tensors>
bool raises(const Tensors&... operands) noexcept {
  return autocasting() && can_become(DType::float32, {operands.impl()...});
}
/// The same for an operation that needs no more than one type for all.
template <class... Tensors>
bool evens(const Tensors&... operands) noexcept {
  return autocasting() && have_several_types({operands.impl()...});
}

/// The type of a product of floating operands that promote to this one.
inline DType product_type(DType promoted) noexcept {
  return autocasting() && promoted != DType::float64 ? autocast_type : promoted;
}

template <class T>
decltype(auto) argument_in_type(T& argument, [[maybe_unused]] DType type, [[maybe_unused]] Where where) {
  if constexpr (std::is_same_v<std::remove_const_t<T>, Tensor>) return in_type(argument, type, where);
  else return (argument);
}

/// What a function gives for arguments of which float32 and 16-bit tensors are converted. Autocast is off in it.
template <class Function, class... Arguments>
auto called_in_type(DType type, Function function, Where where, Arguments&&... arguments) {
  const Rollback rollback;
  return function(argument_in_type(arguments, type, where)..., where);
}
template <class Function, class... Arguments>
auto lowered(Function function, Where where, Arguments&&... arguments) {
  return called_in_type(autocast_type, function, where, arguments...);
}
template <class Function, class... Arguments>
auto raised(Function function, Where where, Arguments&&... arguments) {
  return called_in_type(DType::float32, function, where, arguments...);
}

}  // namespace capstan::autograd
