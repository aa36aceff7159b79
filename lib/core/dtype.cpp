#include <capstan/dtype.hpp>

#include "lib/base/text.hpp"
#include "lib/core/tensor_impl.hpp"

namespace capstan {

const char* name(DType dtype) noexcept {
  switch (dtype) {
    case DType::float32: return "float32";
    case DType::float64: return "float64";
    case DType::float16: return "float16";
    case DType::bfloat16: return "bfloat16";
    case DType::int8: return "int8";
    case DType::int16: return "int16";
    case DType::int32: return "int32";
    case DType::int64: return "int64";
    case DType::uint8: return "uint8";
    case DType::bool8: return "bool";
  }
  return "unknown";
}

std::string to_string(DType dtype) { return name(dtype); }

std::int64_t size_of(DType dtype) noexcept { return core::element_bytes(dtype); }

DType promote(DType a, DType b, Where where) {
  if (a == b) return a;
  if (is_floating(a) && is_floating(b))
    return a == DType::float64 || b == DType::float64 ? DType::float64 : DType::float32;
  if (is_integer(a) && is_integer(b)) {
    const DType wider = size_of(a) >= size_of(b) ? a : b, narrower = wider == a ? b : a;
    const bool sign_is_lost = wider == DType::uint8 || (narrower == DType::uint8 && wider == DType::int8);
    return sign_is_lost ? DType::int16 : wider;  // uint8 beside int8
  }
  base::fail<DTypeError>(where, "promote: ", a, " and ", b,
                         " have no common type in the Array API table; convert one with x.to(dtype).");
}

}  // namespace capstan
