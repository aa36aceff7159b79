#pragma once
// Numbers beside tensors: whether a type can hold one, and one as raw bytes.
#include <cstddef>

#include <capstan/scalar.hpp>
#include <capstan/tensor.hpp>

namespace capstan::core {

/// The bytes of one element.
struct Element {
  alignas(8) std::byte bytes[8];
};

/// `value` as an element of `dtype`. Throws DTypeError, naming `op`, if the type cannot hold that kind of number or
/// that integer.
Element to_element(const char* op, Scalar value, DType dtype, Where where);
/// A tensor of shape [] holding it, on `device`.
Tensor scalar_tensor(const char* op, Scalar value, DType dtype, Device device, Where where);
/// The same for who only reads it: on a GPU the thread keeps such numbers, so that one beside a tensor costs no kernel
/// of its own.
Tensor number_tensor(const char* op, Scalar value, DType dtype, Device device, Where where);
/// Gives back what the calling thread keeps for it.
void forget_numbers() noexcept;

}  // namespace capstan::core
