// libFuzzer: whole files of PyTorch's.
#include <capstan/io/state_dict.hpp>

#include "tests/fuzz/readers/as_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    capstan::io::read_state_dict(fuzz::as_file(data, size));
  } catch (const capstan::IoError&) {}
  return 0;
}
