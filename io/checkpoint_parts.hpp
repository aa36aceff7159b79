#pragma once
// The parts of a run on their way into a checkpoint and back.
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <capstan/io/checkpoint.hpp>

#include "io/safetensors_header.hpp"

namespace capstan::io {

struct NamedPart {
  std::string name;
  CheckpointPart part;
};

/// The parts that are there, under the names of files: the fields, and then `more`. Error for names that cannot be.
std::vector<NamedPart> named_parts(const char* op, const CheckpointParts& parts, Where where);

/// What a file holds of parts.
struct PartContents {
  std::vector<NamedTensor> tensors;  ///< on the CPU, contiguous, and nobody else's
  Metadata entries;                  ///< one for each part, and for the default generator
};
PartContents contents_of(const char* op, std::span<const NamedPart> parts, Where where);

/// The same by names of parts.
using PartStates = std::map<std::string, detail::PartState, std::less<>>;
/// IoError if metadata and tensors do not belong together.
PartStates parts_in(const SafetensorsSource& source, const Metadata& metadata, std::vector<NamedTensor> tensors);

/// All of them, and the default generator, or none.
void restore_parts(const char* op, const std::string& path, const PartStates& states, std::span<const NamedPart> parts,
                   Where where);

}  // namespace capstan::io
