#pragma once
// CRC-32C, the checksum of TFRecord files: Castagnoli's polynomial, bits reflected, as in RFC 3720, 12.1.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace capstan::io {

/// `tables[k][b]` is what byte b followed by k zeros makes of a remainder of 0.
constexpr std::array<std::array<std::uint32_t, 256>, 8> make_crc32c_tables() {
  std::array<std::array<std::uint32_t, 256>, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82F63B78u : crc >> 1;
    tables[0][byte] = crc;
  }
  for (std::size_t zeros = 1; zeros < 8; ++zeros)
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[zeros - 1][byte];
      tables[zeros][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  return tables;
}

inline constexpr std::array<std::array<std::uint32_t, 256>, 8> kCrc32cTables = make_crc32c_tables();

/// On any processor, eight bytes at a time. `so_far` is the checksum of what stands before the bytes.
constexpr std::uint32_t crc32c_by_table(std::span<const unsigned char> bytes, std::uint32_t so_far = 0) {
  const auto& t = kCrc32cTables;
  std::uint32_t crc = ~so_far;
  std::size_t i = 0;
  for (; bytes.size() - i >= 8; i += 8) {
    const unsigned char* p = bytes.data() + i;
    crc ^= std::uint32_t{p[0]} | std::uint32_t{p[1]} << 8 | std::uint32_t{p[2]} << 16 | std::uint32_t{p[3]} << 24;
    crc = t[7][crc & 0xFF] ^ t[6][(crc >> 8) & 0xFF] ^ t[5][(crc >> 16) & 0xFF] ^ t[4][crc >> 24] ^ t[3][p[4]] ^
          t[2][p[5]] ^ t[1][p[6]] ^ t[0][p[7]];
  }
  for (; i < bytes.size(); ++i) crc = (crc >> 8) ^ t[0][(crc ^ bytes[i]) & 0xFF];
  return ~crc;
}

/// The checksum of what came before, 0 of nothing, and these bytes: by the processor's instruction if it has one.
std::uint32_t extend_crc32c(std::uint32_t so_far, std::span<const unsigned char> bytes) noexcept;
inline std::uint32_t crc32c(std::span<const unsigned char> bytes) noexcept { return extend_crc32c(0, bytes); }

/// What files hold in place of a checksum, since one over bytes that contain checksums says little.
constexpr std::uint32_t mask_crc(std::uint32_t crc) noexcept { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u; }

}  // namespace capstan::io
