#pragma once
// Safetensors files: tensors with names behind a header in JSON. https://github.com/huggingface/safetensors
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <capstan/parameter.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace io {

/// Texts that stand beside the tensors, in their order.
using Metadata = std::vector<std::pair<std::string, std::string>>;

/// What a file of weights holds.
struct Weights {
  std::vector<NamedTensor> tensors;  ///< in the order of the file: of safetensors, of its header
  Metadata metadata;                 ///< of safetensors; empty in other formats
};

/// Maps a file into memory: nothing is read until it is used, and tensors of the types that Capstan has share the
/// file's pages, without a copy. They may be written to: pages that are written become the process's own, and the file
/// stays as it is. Mapped pages stay until the last of the tensors is gone. A file must not be cut short or
/// overwritten in place meanwhile (replacing it, as `save_safetensors` does, is fine): the system ends a process that
/// reads pages that are gone. On a GPU as the default device tensors are copies there. Where the system promises no
/// room for changed pages (vm.overcommit_memory=2, RLIMIT_DATA), tensors are copies, for which there must be room;
/// `load_safetensors` makes none for this.
///
/// Shapes  those of the file, 0 to 8 axes; complex numbers have one more, the last: [real, imaginary]
/// Types   F32 F64 F16 BF16 I8 I16 I32 I64 U8 BOOL as they are; U64 -> int64; C64 -> float32. Copies: U16 -> int32;
///         U32 -> int64; F8_E4M3, F8_E5M2, F8_E8M0, F8_E4M3FNUZ, F8_E5M2FNUZ -> float32, exactly; elements that do not
///         begin at a multiple of their size; a BOOL with bytes other than 0 and 1, which are true
/// Cost    the header; of BOOL and U64 all elements, which are looked at
/// Throws  IoError naming file, offset and reason: missing, truncated, a header of more than 100,000,000 bytes or that
///         is no JSON of this form, names or keys twice, unknown keys, sizes whose product is not that of the bytes,
///         ranges that overlap or leave bytes out, a U64 of 2^63 or more, a type that is none of these (F4 and F6 among
///         them). The package takes some headers that are refused here: with white space before them, unknown keys, a
///         name twice
///         OutOfMemoryError     no room for copies       MissingLibraryError  a build without nlohmann-json
Weights read_safetensors(const std::string& path, Where where = Where::current());

/// Writes tensors, from any device and with any strides, byte for byte as the safetensors package does (0.8): by type,
/// those of larger elements first, and then by name, so that each begins at a multiple of its elements' size. Written
/// beside the file and then put in its place, so that an old file stays whole if this ends early. Needs memory only for
/// a tensor at a time that is on a GPU or not contiguous.
///
/// Throws  Error    a name that is empty, "__metadata__", no UTF-8 or there twice; metadata of which a name is there
///                  twice, or that are no UTF-8; an undefined tensor; a header of more than 100,000,000 bytes
///         IoError  the file cannot be made or written; it is then as it was
void save_safetensors(const std::string& path, std::span<const NamedTensor> tensors, const Metadata& metadata = {},
                      Where where = Where::current());

}  // namespace io
}  // namespace capstan
