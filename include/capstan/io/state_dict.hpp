#pragma once
// Files of `torch.save(model.state_dict(), path)`: a zip archive with a pickle and the bytes of each storage.
#include <span>
#include <string>
#include <vector>

#include <capstan/io/safetensors.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace io {

/// Reads the tensors of a PyTorch file (version 1.6 and newer) in the order of its dictionary. The pickle is read by a
/// small machine that can make dictionaries, lists, tuples, texts, numbers and tensors and nothing else: it calls no
/// function that a file names. Dictionaries in dictionaries, as checkpoints have them, join their keys with dots
/// ("optimizer.state.0.exp_avg"), lists their positions; numbers and texts among them are passed over. Tensors that
/// share a storage are copies here.
///
/// Types   float, double, half, bfloat16, char, short, int, long, byte and bool as they are; uint16 -> int32;
///         uint32, uint64 -> int64; complex64 -> float32 and complex128 -> float64 with one more axis
/// Throws  IoError naming file, entry, offset and reason: besides those of archives (see read_npz) a pickle that names
///         anything but the rebuilding of tensors, is truncated, nests or refers wrongly; a tensor that reaches beyond
///         its storage, a storage that is not there; the format before version 1.6, TorchScript, quantized tensors
std::vector<NamedTensor> read_state_dict(const std::string& path, Where where = Where::current());

/// Writes a file that `torch.load(path, weights_only=True)` reads as a dictionary of tensors, in their order. Replaced
/// in one step, as by save_safetensors.
///
/// Throws  Error         a name that is no UTF-8 or there twice; an undefined tensor
///         IoError       the file cannot be made or written; it is then as it was
///         BackendError  a build without minizip
void save_state_dict(const std::string& path, std::span<const NamedTensor> tensors, Where where = Where::current());

}  // namespace io
}  // namespace capstan
