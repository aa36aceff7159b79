// libFuzzer: checkpoints. The first byte says whether the rest is a file, or a file that gets a good checksum, so that
// what stands behind it is reached; or the text of a header that gets a length and some elements besides.
#include <capstan/io/checkpoint.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <capstan/random.hpp>

#include "io/crc32c.hpp"
#include "tests/fuzz/readers/as_file.hpp"

namespace {

/// Puts the right digits into the place of the checksum, if there is one.
void sign(std::vector<std::uint8_t>& file) {
  constexpr std::string_view before = "\"capstan.checksum\":\"";
  constexpr std::ptrdiff_t digits = 8;
  const auto found = std::search(file.begin(), file.end(), before.begin(), before.end());
  if (file.end() - found < static_cast<std::ptrdiff_t>(before.size()) + digits) return;
  const auto at = found + static_cast<std::ptrdiff_t>(before.size());
  std::fill(at, at + digits, static_cast<std::uint8_t>('0'));
  const std::uint32_t crc = capstan::io::crc32c_by_table(file);
  for (std::ptrdiff_t i = 0; i < digits; ++i)
    at[i] = static_cast<std::uint8_t>("0123456789abcdef"[(crc >> (28 - 4 * i)) & 15]);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::vector<std::uint8_t> file;
  if ((data[0] & 2) != 0)
    for (int byte = 0; byte < 8; ++byte) file.push_back(static_cast<std::uint8_t>((size - 1) >> (8 * byte)));
  file.insert(file.end(), data + 1, data + size);
  if ((data[0] & 2) != 0) file.insert(file.end(), data[0] / 4u, std::uint8_t{0});
  if ((data[0] & 1) != 0) sign(file);
  const std::string& path = fuzz::as_file(file.data(), file.size());
  try {
    capstan::io::restore_checkpoint(path, {});
  } catch (const capstan::IoError&) {}
  capstan::Tensor x;
  double number = 0;
  std::int64_t whole = 0;
  std::string text;
  try {  // what is intact need not fit
    capstan::io::restore_checkpoint(path, {.more = {{"x", x}, {"number", number}, {"whole", whole}, {"text", text}}});
  } catch (const capstan::Error&) {}
  return 0;
}
