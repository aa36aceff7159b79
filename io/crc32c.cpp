#include "io/crc32c.hpp"

#include <cstring>

namespace capstan::io {
namespace {

// The check value of the polynomial, and of RFC 3720's 32 ascending bytes, B.4.
constexpr std::array<unsigned char, 9> kDigits = {'1', '2', '3', '4', '5', '6', '7', '8', '9'};
static_assert(crc32c_by_table(kDigits) == 0xE3069283u);
constexpr std::span<const unsigned char> kDigitsSpan(kDigits);
static_assert(crc32c_by_table(kDigitsSpan.subspan(4), crc32c_by_table(kDigitsSpan.first(4))) == 0xE3069283u);
constexpr std::array<unsigned char, 32> kAscending = [] {
  std::array<unsigned char, 32> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i);
  return bytes;
}();
static_assert(crc32c_by_table(kAscending) == 0x46DD794Eu);

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("sse4.2"))) std::uint32_t crc32c_by_instruction(std::uint32_t so_far, const unsigned char* bytes,
                                                                      std::size_t count) noexcept {
  unsigned long long crc = ~so_far;
  for (; count >= 8; count -= 8, bytes += 8) {
    unsigned long long word = 0;
    std::memcpy(&word, bytes, sizeof word);
    crc = __builtin_ia32_crc32di(crc, word);
  }
  auto rest = static_cast<unsigned int>(crc);
  for (; count > 0; --count, ++bytes) rest = __builtin_ia32_crc32qi(rest, *bytes);
  return ~rest;
}

bool has_instruction() noexcept {
  static const bool has = __builtin_cpu_supports("sse4.2") != 0;
  return has;
}
#endif

}  // namespace

std::uint32_t extend_crc32c(std::uint32_t so_far, std::span<const unsigned char> bytes) noexcept {
#if defined(__x86_64__) && defined(__GNUC__)
  if (has_instruction()) return crc32c_by_instruction(so_far, bytes.data(), bytes.size());
#endif
  return crc32c_by_table(bytes, so_far);
}

}  // namespace capstan::io
