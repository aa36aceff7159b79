#pragma once
// Pickles put together opcode by opcode, and the archives that torch.save puts them into.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/npy_files.hpp"

namespace tests {

inline std::string opcode(unsigned char code) { return std::string(1, static_cast<char>(code)); }
inline std::string little_text(std::uint64_t value, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += opcode(static_cast<unsigned char>(value >> (8 * i)));
  return text;
}

inline std::string pickled_text(const std::string& text) { return "X" + little_text(text.size(), 4) + text; }
inline std::string pickled_number(std::int64_t number) {
  return opcode(0x8a) + opcode(8) + little_text(static_cast<std::uint64_t>(number), 8);
}
inline std::string pickled_tuple(const std::vector<std::int64_t>& numbers) {
  std::string text = "(";
  for (const std::int64_t number : numbers) text += pickled_number(number);
  return text + "t";
}
inline std::string pickled_name(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
/// Keeps the last value under a number, and takes it from there.
inline std::string keep_as(std::uint64_t number) { return "r" + little_text(number, 4); }
inline std::string kept(std::uint64_t number) { return "j" + little_text(number, 4); }

/// The storage that stands in data/KEY.
inline std::string pickled_storage(const std::string& key, std::int64_t numel, const std::string& type = "Float") {
  return "(" + pickled_text("storage") + pickled_name("torch", type + "Storage") + pickled_text(key) +
         pickled_text("cpu") + pickled_number(numel) + "tQ";
}

/// What _rebuild_tensor_v2 is given. The rest of it are requires_grad and hooks.
struct PickledParts {
  std::string storage = pickled_storage("0", 6);
  std::string start = pickled_number(0);
  std::string sizes = pickled_tuple({2, 3});
  std::string strides = pickled_tuple({3, 1});
  std::string rest = opcode(0x89) + "}";
};
inline std::string pickled_tensor(const PickledParts& parts = {}) {
  return pickled_name("torch._utils", "_rebuild_tensor_v2") + "(" + parts.storage + parts.start + parts.sizes +
         parts.strides + parts.rest + "tR";
}

/// Lists of ten times the list before: 10^12 values.
inline std::string pickled_laughs(const std::string& value) {
  std::string program = "](" + value + "e" + keep_as(0) + "0";
  for (std::uint64_t level = 0; level < 12; ++level) {
    program += "](";
    for (int i = 0; i < 10; ++i) program += kept(level);
    program += "e" + keep_as(level + 1) + "0";
  }
  return program + kept(12);
}

/// {'w': value}
inline std::string pickled_dictionary(const std::string& value) { return "}" + pickled_text("w") + value + "s"; }
inline std::string pickle(const std::string& body) { return opcode(0x80) + opcode(2) + body + "."; }

/// What torch.save makes: the pickle, and for each storage its bytes. Nothing is aligned.
inline ZipArchive torch_archive(const std::string& program, const std::vector<std::pair<std::string, Bytes>>& storages,
                                const std::string& byte_order = "little", bool deflated = false) {
  const auto part = [&](const std::string& name, const Bytes& content) {
    return ZipPart{.name = "archive/" + name, .content = content, .deflated = deflated, .descriptor = 16};
  };
  std::vector<ZipPart> parts = {part("data.pkl", Bytes(program.begin(), program.end()))};
  if (!byte_order.empty()) parts.push_back(part("byteorder", Bytes(byte_order.begin(), byte_order.end())));
  for (const auto& [key, content] : storages) parts.push_back(part("data/" + key, content));
  parts.push_back(part("version", {'3', '\n'}));
  return zip_archive(parts, true);
}

/// The bytes of the floats 0, 1, ..., 5.
inline Bytes six_floats() {
  return {0, 0, 0, 0, 0, 0, 0x80, 0x3F, 0, 0, 0, 0x40, 0, 0, 0x40, 0x40, 0, 0, 0x80, 0x40, 0, 0, 0xA0, 0x40};
}
/// With storage "0" of 6 floats.
inline Bytes torch_file(const std::string& program) { return torch_archive(program, {{"0", six_floats()}}).bytes; }

/// A file of tests/state_dict_files.cpp.
inline Bytes unpacked(std::size_t size, std::string_view digits) {
  const auto value = [](char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; };
  Bytes packed, bytes(size);
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    packed.push_back(static_cast<unsigned char>(16 * value(digits[i]) + value(digits[i + 1])));
  uLongf length = static_cast<uLongf>(size);
  if (uncompress(bytes.data(), &length, packed.data(), static_cast<uLong>(packed.size())) != Z_OK || length != size)
    std::abort();
  return bytes;
}

}  // namespace tests
