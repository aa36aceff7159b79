// libFuzzer: safetensors files. The first byte says whether the rest is a file, or the text of a header that gets a
// good length and some elements. Every element of what is read is looked at.
#include <capstan/io/safetensors.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/fuzz/readers/as_file.hpp"

namespace {

void look_at(const capstan::io::Weights& weights) {
  std::size_t characters = 0;
  for (const auto& [name, text] : weights.metadata) characters += name.size() + text.size();
  for (const auto& [name, tensor] : weights.tensors) characters += name.size() + tensor.describe().size();
  if (characters == 0 && weights.tensors.size() + weights.metadata.size() > 1) std::abort();  // names twice
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::vector<std::uint8_t> file;
  if (data[0] % 2 == 1)
    for (int byte = 0; byte < 8; ++byte) file.push_back(static_cast<std::uint8_t>((size - 1) >> (8 * byte)));
  file.insert(file.end(), data + 1, data + size);
  if (data[0] % 2 == 1) file.insert(file.end(), data[0], 0);
  try {
    look_at(capstan::io::read_safetensors(fuzz::as_file(file.data(), file.size())));
  } catch (const capstan::IoError&) {}
  return 0;
}
