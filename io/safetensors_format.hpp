#pragma once
// What safetensors files consist of, for those who read and write them, checkpoints among them.
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <capstan/io/safetensors.hpp>

#include "io/mapped_file.hpp"

namespace capstan::io {

struct SafetensorsLayout {
  std::string head;                ///< 8 bytes of length, then JSON, padded with blanks to a multiple of 8 bytes
  std::vector<std::size_t> order;  ///< in which the elements of the tensors follow, row-major
};

/// The file that will hold these tensors. Error for names that are empty, "__metadata__", no UTF-8 or there twice,
/// metadata likewise, undefined tensors, and a header or elements that are too large. `path` is for messages alone.
SafetensorsLayout lay_out_safetensors(const char* op, const std::string& path, std::span<const NamedTensor> tensors,
                                      const Metadata& metadata, Where where);

/// What becomes of the tensors of a file: `any` where somebody gets them, who may write to them; `read_only` where they
/// are read and let go. Only the latter share the pages of a file that is not writable.
enum class TensorUse : bool { any, read_only };
/// The tensors of a file, on the CPU whatever the default device, in the order of the header. They share the file's
/// pages where they can. IoError, and MissingLibraryError in a build without nlohmann-json.
Weights parse_safetensors(const char* op, std::shared_ptr<const MappedFile> file, Where where,
                          TensorUse use = TensorUse::any);

}  // namespace capstan::io
