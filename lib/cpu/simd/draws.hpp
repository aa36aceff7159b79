// Random numbers of blocks that follow each other. Included by kernels_*.cpp behind lanes.hpp. Plain loops over sixteen
// blocks side by side, which compilers vectorize and keep in registers; the formulas are those of every backend.
#include "lib/kernels/draws.hpp"

namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

constexpr int kSideBlocks = 16;
using Words = std::uint32_t[4][kSideBlocks];

/// kernels::random_block: words[0] has the first of each, and so on.
CAPSTAN_INLINE void random_words(std::uint64_t seed, std::uint64_t stream, std::uint64_t block, Words& words) {
  auto key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
  for (int k = 0; k < kSideBlocks; ++k) {
    const std::uint64_t counter = block + static_cast<std::uint64_t>(k);
    words[0][k] = static_cast<std::uint32_t>(counter);
    words[1][k] = static_cast<std::uint32_t>(counter >> 32);
    words[2][k] = static_cast<std::uint32_t>(stream);
    words[3][k] = static_cast<std::uint32_t>(stream >> 32);
  }
  for (int round = 0; round < 10; ++round) {
    for (int k = 0; k < kSideBlocks; ++k) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * words[0][k], p1 = std::uint64_t{0xCD9E8D57u} * words[2][k];
      words[0][k] = static_cast<std::uint32_t>(p1 >> 32) ^ words[1][k] ^ key0;
      words[1][k] = static_cast<std::uint32_t>(p1);
      words[2][k] = static_cast<std::uint32_t>(p0 >> 32) ^ words[3][k] ^ key1;
      words[3][k] = static_cast<std::uint32_t>(p0);
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
}

/// Writes `count` elements of as many as sixteen blocks have.
template <class T, int PerBlock>
CAPSTAN_INLINE void put_blocks(const T (&values)[PerBlock][kSideBlocks], T* to, std::int64_t count) {
  T in_order[PerBlock * kSideBlocks];
  for (int k = 0; k < kSideBlocks; ++k)
    for (int i = 0; i < PerBlock; ++i) in_order[PerBlock * k + i] = values[i][k];
  constexpr std::int64_t all = PerBlock * kSideBlocks;
  std::memcpy(to, in_order, sizeof(T) * static_cast<std::size_t>(count < all ? count : all));
}

void words_of_blocks(std::uint64_t seed, std::uint64_t stream, std::uint64_t block, std::int64_t blocks,
                     std::uint32_t* to) {
  for (std::int64_t i = 0; i < blocks; i += kSideBlocks) {
    Words words;
    random_words(seed, stream, block + static_cast<std::uint64_t>(i), words);
    put_blocks(words, to + 4 * i, 4 * (blocks - i));
  }
}

/// kernels::unit_double, by conversions of 32 bits; all three steps are exact.
CAPSTAN_INLINE double unit_of(std::uint32_t high, std::uint32_t low) {
  const double upper = static_cast<double>(static_cast<std::int32_t>(high ^ 0x80000000u)) + 0x1p31;
  return upper * 0x1p-32 + static_cast<double>(static_cast<std::int32_t>(low >> 11)) * 0x1p-53;
}

using Pairs = double[2][kSideBlocks];

template <kernels::RandomKind kind> CAPSTAN_INLINE void numbers_of(double a, double b, Pairs& u) {
  for (auto& row : u)
    for (double& one : row) one = kernels::number_of<kind>(one, a, b);
}
CAPSTAN_INLINE void normal_numbers_of(double mean, double deviation, Pairs& u) {
  using L = Lanes<double>;
  double radius[kSideBlocks];
  for (int k = 0; k < kSideBlocks; ++k) radius[k] = 2 * kernels::exponential_of(u[0][k]);
  for (int k = 0; k < kSideBlocks; k += L::size) sqrt(L::load(radius + k)).store(radius + k);
  for (int k = 0; k < kSideBlocks; ++k) {
    const kernels::UnitPair pair = kernels::normal_pair(radius[k], u[1][k], mean, deviation);
    u[0][k] = pair.first;
    u[1][k] = pair.second;
  }
}

void numbers_of_blocks(const kernels::RandomTask& task, std::uint64_t block, std::int64_t blocks, double* to) {
  using kernels::RandomKind;
  for (std::int64_t i = 0; i < blocks; i += kSideBlocks) {
    Words words;
    random_words(task.seed, task.stream, block + static_cast<std::uint64_t>(i), words);
    Pairs u;
    for (int k = 0; k < kSideBlocks; ++k) {
      u[0][k] = unit_of(words[0][k], words[1][k]);
      u[1][k] = unit_of(words[2][k], words[3][k]);
    }
    switch (task.kind) {
      case RandomKind::uniform: numbers_of<RandomKind::uniform>(task.a, task.b, u); break;
      case RandomKind::normal: normal_numbers_of(task.a, task.b, u); break;
      case RandomKind::exponential: numbers_of<RandomKind::exponential>(task.a, task.b, u); break;
      case RandomKind::gumbel: numbers_of<RandomKind::gumbel>(task.a, task.b, u); break;
      default: numbers_of<RandomKind::truncated_normal>(task.a, task.b, u);
    }
    put_blocks(u, to + 2 * i, 2 * (blocks - i));
  }
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
