#include <capstan/dtype.hpp>

#include "lib/base/text.hpp"

namespace capstan {

const char* name(DType dtype) noexcept {
  switch (dtype) {
    case DType::float32: return "float32";
    case DType::float64: return "float64";
    case DType::int32: return "int32";
    case DType::int64: return "int64";
    case DType::uint8: return "uint8";
    case DType::bool8: return "bool";
  }
  return "unknown";
}

std::int64_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::float64:
    case DType::int64: return 8;
    case DType::float32:
    case DType::int32: return 4;
    case DType::uint8:
    case DType::bool8: return 1;
  }
  return 1;
}

DType promote(DType a, DType b, Where where) {
  if (a == b) return a;
  if (is_floating(a) && is_floating(b)) return DType::float64;
  if (is_integer(a) && is_integer(b)) return a == DType::int64 || b == DType::int64 ? DType::int64 : DType::int32;
  base::fail<DTypeError>(where, "promote: ", a, " and ", b,
                         " have no common type in the Array API table; convert one with x.to(dtype).");
}

}  // namespace capstan
