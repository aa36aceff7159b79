#pragma once
// The header of a safetensors file: how long it is, in 8 bytes, and JSON that says which tensors there are.
#include <cstdint>
#include <string>
#include <vector>

#include <capstan/io/safetensors.hpp>

#include "io/io_error.hpp"
#include "io/mapped_file.hpp"
#include "lib/base/text.hpp"

namespace capstan::io {

/// Types of elements in files, as the format calls them but for BOOL.
enum class StoredType : std::uint8_t {
  boolean,
  U8,
  I8,
  F8_E4M3,
  F8_E5M2,
  F8_E8M0,
  F8_E4M3FNUZ,
  F8_E5M2FNUZ,
  U16,
  I16,
  F16,
  BF16,
  U32,
  I32,
  F32,
  C64,
  U64,
  I64,
  F64
};

struct StoredTensor {
  std::string name;
  StoredType type = StoredType::U8;
  Shape shape;             ///< with the axis of real and imaginary parts
  std::int64_t begin = 0;  ///< of its elements, in bytes behind the header
  std::int64_t end = 0;
  std::int64_t offset = 0;  ///< where its name stands in the file
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  ///< in the order of the header
  Metadata metadata;
  std::int64_t data = 0;  ///< where in the file the elements begin
};

inline constexpr std::int64_t kLongestHeader = 100'000'000;  // bytes: the package reads no longer ones

/// Who reads which file.
struct SafetensorsSource {
  const char* op;
  const std::string& path;
  std::int64_t size;           ///< of the whole file
  const unsigned char* bytes;  ///< its first: at least the length and as much of a header as that says
  Where where;

  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    fail_io(op, path, where, base::join(parts...));
  }
};
/// A whole file, which must live as long.
inline SafetensorsSource source_of(const char* op, const MappedFile& file, Where where) {
  return {op, file.path(), file.size(), file.bytes(), where};
}

/// Everything that it says is true of the file: names are different, sizes and types give the bytes of each tensor, and
/// those of all tensors are the rest of the file, without gaps. IoError otherwise.
SafetensorsHeader read_safetensors_header(const SafetensorsSource& source);

}  // namespace capstan::io
