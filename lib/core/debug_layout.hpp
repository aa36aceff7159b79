#pragma once
// Where debuggers find the fields of a tensor: a table inside the program, read by debuggers/capstan_layout.py. It is
// there without debug information of the library, and it is always that of the library which is linked.
#include <cstddef>
#include <cstdint>

#include "lib/core/tensor_impl.hpp"

namespace capstan {

/// Offsets in bytes. A change of this struct needs a new `version`, here and in capstan_layout.py.
struct DebugLayout {
  struct Element {
    char name[13];
    DType dtype;
    char kind;  // f: IEEE 754, b: bfloat16, i: signed, u: unsigned, ?: bool
    std::uint8_t bytes;
  };

  char magic[8] = "CAPSTAN";
  std::uint32_t version = 1;
  std::uint32_t bytes = sizeof(DebugLayout);

  std::uint32_t tensor_bytes = sizeof(TensorImpl);
  std::uint32_t references = offsetof(TensorImpl, references);
  std::uint32_t dtype = offsetof(TensorImpl, dtype);
  std::uint32_t contiguous = offsetof(TensorImpl, contiguous);
  std::uint32_t trainable = offsetof(TensorImpl, trainable);
  std::uint32_t data = offsetof(TensorImpl, data);
  std::uint32_t storage = offsetof(TensorImpl, storage);
  std::uint32_t slices = offsetof(TensorImpl, slices);
  std::uint32_t sizes = offsetof(TensorImpl, shape) + offsetof(Shape, sizes_);
  std::uint32_t numel = offsetof(TensorImpl, shape) + offsetof(Shape, numel_);
  std::uint32_t rank = offsetof(TensorImpl, shape) + offsetof(Shape, rank_);
  std::uint32_t strides = offsetof(TensorImpl, strides);
  std::uint32_t max_rank = kMaxRank;

  std::uint32_t storage_bytes = sizeof(core::Storage);
  std::uint32_t storage_references = offsetof(core::Storage, references);
  std::uint32_t storage_version = offsetof(core::Storage, version);
  std::uint32_t device_kind = offsetof(core::Storage, device) + offsetof(Device, kind);
  std::uint32_t device_index = offsetof(core::Storage, device) + offsetof(Device, index);

  std::uint32_t slices_indices = offsetof(RowSlices, indices);
  std::uint32_t slices_values = offsetof(RowSlices, values);

  std::uint32_t elements_count = 10;
  Element elements[10] = {
      {"float32", DType::float32, 'f', 4},   {"float64", DType::float64, 'f', 8}, {"float16", DType::float16, 'f', 2},
      {"bfloat16", DType::bfloat16, 'b', 2}, {"int8", DType::int8, 'i', 1},       {"int16", DType::int16, 'i', 2},
      {"int32", DType::int32, 'i', 4},       {"int64", DType::int64, 'i', 8},     {"uint8", DType::uint8, 'u', 1},
      {"bool", DType::bool8, '?', 1},
  };
};
static_assert(sizeof(DebugLayout::Element) == 16 && sizeof(DebugLayout) == 8 + 23 * 4 + 10 * 16, "no gaps");
static_assert(sizeof(Tensor) == sizeof(TensorImpl*), "the scripts take a Tensor for a pointer");

}  // namespace capstan
