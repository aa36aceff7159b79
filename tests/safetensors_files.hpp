#pragma once
// Safetensors files made by hand, so that tests can break every part of them.
#include <string>
#include <string_view>

#include "tests/files.hpp"

namespace tests {

/// Not padded: the elements begin where the text ends.
inline Bytes safetensors_file(std::string_view header, const Bytes& elements = {}) {
  Bytes bytes;
  append_little(bytes, header.size(), 8);
  return joined(joined(bytes, bytes_of(header)), elements);
}

/// What stands behind a tensor's name, from pieces of JSON.
inline std::string safetensors_entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

/// The header of one tensor: its name stands at offset 9 of the file, and "U8", [2], [0,2] at offsets 22, 35 and 54.
inline std::string safetensors_header(const std::string& dtype = "\"U8\"", const std::string& shape = "[2]",
                                      const std::string& offsets = "[0,2]") {
  return "{\"a\":" + safetensors_entry(dtype, shape, offsets) + "}";
}

}  // namespace tests
