// libFuzzer: files of weights whose format is known by their first bytes.
#include <capstan/io/weights.hpp>

#include "tests/fuzz/readers/as_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    capstan::io::read_weights(fuzz::as_file(data, size));
  } catch (const capstan::IoError&) {}
  return 0;
}
