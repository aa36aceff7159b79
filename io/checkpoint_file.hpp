#pragma once
// One checkpoint: its file, written and read. include/capstan/io/checkpoint.hpp describes the format.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/checkpoint_parts.hpp"
#include "io/mapped_file.hpp"
#include "io/output_file.hpp"
#include "io/safetensors_format.hpp"

namespace capstan::io {

struct CheckpointHead {
  std::int64_t number = 0;
  std::int64_t step = 0;
  std::optional<double> metric = std::nullopt;
};

/// MissingLibraryError if this build can write checkpoints and not read them.
void check_readable(const char* op, Where where);

/// A checkpoint on its way to the disk.
class CheckpointOutput {
 public:
  /// Lays the file out, makes it beside its place and takes the room that it needs. IoError; Error for names and texts
  /// that files cannot hold. `op` must live as long.
  CheckpointOutput(const char* op, const std::string& path, const CheckpointHead& head, PartContents contents,
                   Where where);
  /// Writes it, and returns when the disk has it under its name. On any thread; IoError, also if another file has taken
  /// that name meanwhile, which then stays.
  void write();

 private:
  PartContents contents_;
  SafetensorsLayout layout_;
  std::vector<std::span<const unsigned char>> pieces_;  // the elements of the tensors, in the file's order
  OutputFile file_;
};

struct CheckpointContents {
  CheckpointHead head;
  PartStates parts;  ///< tensors share the pages of the file where they can
};
/// Compares the checksum before it believes anything of the file. IoError.
CheckpointContents read_checkpoint(const char* op, std::shared_ptr<const MappedFile> file, Where where);
/// Reads the header alone, and compares no checksum.
CheckpointHead read_checkpoint_head(const char* op, const std::string& path, Where where);

}  // namespace capstan::io
