#pragma once
// PyTorch's element types, and what they are here.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <capstan/dtype.hpp>

namespace capstan::io {

struct TorchType {
  std::string_view dtype, storage;  // as in torch.float32 and torch.FloatStorage; without a storage of its own: ""
  DType stored, given;              // of its numbers: one of the same size, and the tensor's
  std::int64_t numbers = 1;         // 2: complex
  bool is_unsigned = false;         // and wider here than there

  std::int64_t bytes() const { return size_of(stored) * numbers; }
};

/// Those of Capstan come first.
inline constexpr TorchType kTorchTypes[] = {
    {"float32", "FloatStorage", DType::float32, DType::float32},
    {"float64", "DoubleStorage", DType::float64, DType::float64},
    {"float16", "HalfStorage", DType::float16, DType::float16},
    {"bfloat16", "BFloat16Storage", DType::bfloat16, DType::bfloat16},
    {"int8", "CharStorage", DType::int8, DType::int8},
    {"int16", "ShortStorage", DType::int16, DType::int16},
    {"int32", "IntStorage", DType::int32, DType::int32},
    {"int64", "LongStorage", DType::int64, DType::int64},
    {"uint8", "ByteStorage", DType::uint8, DType::uint8},
    {"bool", "BoolStorage", DType::bool8, DType::bool8},
    {"uint16", "", DType::int16, DType::int32, 1, true},
    {"uint32", "", DType::int32, DType::int64, 1, true},
    {"uint64", "", DType::int64, DType::int64, 1, true},
    {"complex64", "ComplexFloatStorage", DType::float32, DType::float32, 2},
    {"complex128", "ComplexDoubleStorage", DType::float64, DType::float64, 2},
};

}  // namespace capstan::io
