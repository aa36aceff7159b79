#pragma once
// Elements of any type as unsigned integers that stand in the same order. NaN counts as larger than everything, and -0
// equals 0. The type is known at run time: a kernel for all of them costs a few instructions that no memory waits for.
#include <cstdint>

#include <capstan/dtype.hpp>

#include "lib/kernels/host_device.hpp"

namespace capstan::on_cuda {

struct ElementOrder {
  std::uint64_t sign = 0;      // its bit; 0 for integers that have none
  std::uint64_t infinity = 0;  // its bits; 0 for integers
  std::uint64_t last = 0;      // all bits of the element: the largest key, and that of NaN
  int bytes = 0;

  explicit ElementOrder(DType dtype) : bytes(static_cast<int>(size_of(dtype))) {
    last = ~std::uint64_t{0} >> (64 - 8 * bytes);
    if (dtype != DType::uint8 && dtype != DType::bool8) sign = last ^ (last >> 1);
    if (dtype == DType::float64) infinity = 0x7FF0000000000000u;
    else if (dtype == DType::float32) infinity = 0x7F800000u;
    else if (dtype == DType::float16) infinity = 0x7C00u;
    else if (dtype == DType::bfloat16) infinity = 0x7F80u;
  }

  CAPSTAN_HD bool is_nan(std::uint64_t bits) const { return infinity != 0 && (bits & ~sign) > infinity; }
  CAPSTAN_HD std::uint64_t key(std::uint64_t bits) const {
    if (infinity == 0) return bits ^ sign;
    if (is_nan(bits)) return last;
    if (bits == sign) return sign;  // -0 has the key of 0
    return (bits & sign) != 0 ? bits ^ last : bits | sign;
  }
};

/// Element `at` of elements of so many bytes.
CAPSTAN_HD std::uint64_t read_bits(const void* x, int bytes, std::int64_t at) {
  switch (bytes) {
    case 1: return static_cast<const std::uint8_t*>(x)[at];
    case 2: return static_cast<const std::uint16_t*>(x)[at];
    case 4: return static_cast<const std::uint32_t*>(x)[at];
    default: return static_cast<const std::uint64_t*>(x)[at];
  }
}
CAPSTAN_HD void write_bits(void* x, int bytes, std::int64_t at, std::uint64_t bits) {
  switch (bytes) {
    case 1: static_cast<std::uint8_t*>(x)[at] = static_cast<std::uint8_t>(bits); return;
    case 2: static_cast<std::uint16_t*>(x)[at] = static_cast<std::uint16_t>(bits); return;
    case 4: static_cast<std::uint32_t*>(x)[at] = static_cast<std::uint32_t>(bits); return;
    default: static_cast<std::uint64_t*>(x)[at] = bits;
  }
}

}  // namespace capstan::on_cuda
