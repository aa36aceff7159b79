#pragma once
// Files of `torch.save(model.state_dict(), path)`: a zip archive with a pickle and the bytes of each storage.
#include <span>
#include <string>
#include <vector>

#include <capstan/parameter.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace io {

/// Reads the tensors of a PyTorch file (version 1.6 and newer) in the order of its dictionary. The pickle is read by a
/// small machine that can make dictionaries, lists, tuples, texts, numbers and tensors and nothing else: it calls no
/// function that a file names. Dictionaries in dictionaries, as checkpoints have them, join their keys with dots
/// ("optimizer.state.0.exp_avg"), lists their positions; numbers and texts among them are passed over. A single tensor
/// has the name "".
///
/// Shapes  those of the file, 0 to 8 axes; complex numbers have one more, the last: [real, imaginary]. Row-major,
///         whatever the strides. Names for the very same elements (tied weights) are handles to one tensor, as in
///         PyTorch; other tensors that share a storage are copies
/// Types   float, double, half, bfloat16, char, short, int, long, byte and bool as they are; uint16 -> int32;
///         uint32, uint64 -> int64; complex64 -> float32 and complex128 -> float64
/// Cost    each storage is read once. Memory stays in proportion to the file: what tensors that are stretched
///         (`expand`) or overlap need beyond the size of their storages is at most 4 bytes for each that pickle and
///         storages have in the file; a pickle has at most 64 MiB, and its values 16 bytes for each of these and 2 MiB
/// Throws  IoError naming file, entry, offset and reason: besides those of archives (see read_npz) a pickle that names
///         anything but the rebuilding of dense tensors, is truncated, holds itself or refers wrongly; two tensors of
///         one name; a tensor that reaches beyond its storage, a storage that is missing or of another size; a uint64 of
///         2^63 or more; the formats before version 1.6, TorchScript, sparse and quantized tensors, float8, views that
///         are conjugated or negated
std::vector<NamedTensor> read_state_dict(const std::string& path, Where where = Where::current());

/// Writes a file that `torch.load(path, weights_only=True)` reads as a dictionary of tensors, in their order; from any
/// device and with any strides. Tensors of the very same elements (tied weights) share one storage there. Replaced in
/// one step, as by save_safetensors.
///
/// Throws  Error         a name that is no UTF-8, there twice or longer than 65535 bytes; an undefined tensor; names
///                       and shapes that need a pickle of more than 64 MiB
///         IoError       the file cannot be made or written; it is then as it was
///         MissingLibraryError  a build without minizip
void save_state_dict(const std::string& path, std::span<const NamedTensor> tensors, Where where = Where::current());

}  // namespace io
}  // namespace capstan
