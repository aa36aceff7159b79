#pragma once
// Whole files of PyTorch's.
#include <string>
#include <vector>

#include <capstan/parameter.hpp>

namespace capstan::io {

/// As read_state_dict, for a function of that name; on the CPU. `op` must live as long as the call.
std::vector<NamedTensor> read_state_dict_file(const char* op, const std::string& path, Where where);

}  // namespace capstan::io
