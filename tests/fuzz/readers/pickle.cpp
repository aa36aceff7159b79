// libFuzzer: pickles in a good archive, which has the storages of a small model: a matrix, vectors, a counter.
#include <capstan/io/state_dict.hpp>

#include <string>
#include <utility>
#include <vector>

#include "tests/fuzz/readers/as_file.hpp"
#include "tests/pickles.hpp"

namespace {

std::vector<std::pair<std::string, tests::Bytes>> storages() {
  std::vector<std::pair<std::string, tests::Bytes>> all;
  for (const std::size_t size : std::vector<std::size_t>{24, 12, 12, 12, 12, 12, 8, 4}) {
    tests::Bytes bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(i);
    all.emplace_back(std::to_string(all.size()), bytes);
  }
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string program(reinterpret_cast<const char*>(data), size);
  const tests::Bytes file = tests::torch_archive(program, storages()).bytes;
  try {
    capstan::io::read_state_dict(fuzz::as_file(file.data(), file.size()));
  } catch (const capstan::IoError&) {}
  return 0;
}
