#pragma once
// The elements of a tensor, as they stand in files: one after another, row-major.
#include <cstdint>
#include <span>

#include <capstan/tensor.hpp>

#include "io/byte_source.hpp"

namespace capstan::io {

/// The product of the sizes and of the bytes of an element. Fails if one is negative, or if the product is 2^63 or
/// more, for which sizes of 0 do not excuse the others. `header_offset` is where the sizes stand.
std::int64_t checked_bytes(const ByteSource& file, std::span<const std::int64_t> sizes, DType dtype,
                           std::int64_t header_offset);
/// The same, for elements of that many bytes.
std::int64_t checked_bytes(const ByteSource& file, std::span<const std::int64_t> sizes, std::int64_t element_bytes,
                           std::int64_t header_offset);

/// The bytes of the elements of a contiguous tensor on the CPU, as they stand in memory.
const unsigned char* bytes_of(const Tensor& values, Where where);
/// For writing.
unsigned char* mutable_bytes_of(Tensor& values, Where where);

/// A contiguous tensor on the CPU, filled with the file's next bytes, which are in that order. Its memory grows as the
/// bytes are really there; fails if they end early. bool: whatever is not zero is true.
Tensor read_elements(ByteSource& file, const Shape& shape, DType dtype, ByteOrder order);

/// Unsigned numbers, which were read as signed ones of the same size, as signed ones that hold them: int16 -> int32,
/// int32 -> int64. There is no wider type for those of 64 bits: fails for 2^63 and more. They began at offset `start`.
Tensor as_signed(const ByteSource& file, const Tensor& stored, std::int64_t start);

}  // namespace capstan::io
