#pragma once
// Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#include <array>
#include <cstdint>

#include "lib/kernels/host_device.hpp"

namespace capstan::kernels {

CAPSTAN_HD std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                   std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// Block number `block` of a stream: the seed is the key, the block the lower half of the counter, the stream the upper.
CAPSTAN_HD std::array<std::uint32_t, 4> random_block(std::uint64_t seed, std::uint64_t block,
                                                     std::uint64_t stream = 0) {
  return philox4x32({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                     static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
                    {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}

/// The upper half of the product: `range` numbers from 64 random bits without a division.
CAPSTAN_HD std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) {
#if defined(__SIZEOF_INT128__) && !defined(__CUDA_ARCH__)
  __extension__ using Whole = unsigned __int128;
  return static_cast<std::uint64_t>(Whole{a} * b >> 64);
#else
  const std::uint64_t a0 = a & 0xFFFFFFFFu, a1 = a >> 32, b0 = b & 0xFFFFFFFFu, b1 = b >> 32;
  const std::uint64_t middle = a1 * b0 + (a0 * b0 >> 32), cross = a0 * b1 + (middle & 0xFFFFFFFFu);
  return a1 * b1 + (middle >> 32) + (cross >> 32);
#endif
}

/// The upper 53 bits as a number in [0, 1).
CAPSTAN_HD double unit_double(std::uint32_t high, std::uint32_t low) {
  return static_cast<double>(((std::uint64_t{high} << 32) | low) >> 11) * 0x1p-53;
}

}  // namespace capstan::kernels
