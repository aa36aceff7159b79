#pragma once
// .npy data, wherever they stand: in a file of their own or in an archive.
#include <string>
#include <vector>

#include <capstan/parameter.hpp>

#include "io/byte_source.hpp"

namespace capstan::io {

/// Reads a header, its elements, and that nothing follows. A contiguous tensor on the CPU.
Tensor read_npy_data(ByteSource& file);

/// Whole files, for a function of that name; on the CPU.
Tensor read_npy_file(const char* op, const std::string& path, Where where);
std::vector<NamedTensor> read_npz_file(const char* op, const std::string& path, Where where);

/// Fails unless a tensor is one that .npy can hold. `op` may name the tensor, too.
void check_for_npy(const std::string& op, const Tensor& x, Where where);

}  // namespace capstan::io
