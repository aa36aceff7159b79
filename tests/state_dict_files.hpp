#pragma once
// Small files that PyTorch made, with the tensors that it saved in them. tests/state_dict_files.py says how.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tests {

struct SavedTensor {
  const char* name;
  const char* dtype;  ///< the one it has here
  std::vector<std::int64_t> sizes;
  std::vector<double> values;
};

struct SavedFile {
  const char* name;
  std::size_t bytes;
  const char* packed;  ///< by zlib, in hexadecimal
  std::vector<SavedTensor> tensors;
};
extern const std::vector<SavedFile> saved_files;

/// Good files that hold what cannot be read.
struct RefusedFile {
  const char* name;
  std::size_t bytes;
  const char* packed;
  const char* reason;  ///< part of what the error says
};
extern const std::vector<RefusedFile> refused_files;

}  // namespace tests
