// Random numbers of blocks that follow each other, sixteen side by side. Included by kernels_*.cpp behind lanes.hpp.
// Philox goes by registers, the rest by plain loops that compilers vectorize. The formulas are those of every backend.
#include "lib/kernels/draws.hpp"

namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

constexpr int kSideBlocks = 16;
using Words = std::uint32_t[4][kSideBlocks];

using Word = Lanes<float>::Bits;         // a register of words
using DoubleWord = Lanes<double>::Bits;  // of as many bits

/// The products of the lower halves.
CAPSTAN_INLINE DoubleWord product_of_words(DoubleWord a, DoubleWord b) {
#if defined(__AVX512F__)
  return reinterpret_cast<DoubleWord>(_mm512_mul_epu32(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<DoubleWord>(_mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#elif defined(__SSE2__)
  return reinterpret_cast<DoubleWord>(_mm_mul_epu32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#else
  return (a & 0xFFFFFFFFu) * (b & 0xFFFFFFFFu);
#endif
}
/// Lane by lane factor * x, in its upper and its lower half.
struct Product {
  Word high, low;
  CAPSTAN_INLINE Product(std::uint32_t factor, Word x) {
    const DoubleWord pairs = reinterpret_cast<DoubleWord>(x), factors = DoubleWord{} + factor;
    const DoubleWord even = product_of_words(pairs, factors), odd = product_of_words(pairs >> 32, factors);
    constexpr std::uint64_t kLower = 0xFFFFFFFFu;
    high = reinterpret_cast<Word>((even >> 32) | (odd & ~kLower));
    low = reinterpret_cast<Word>((even & kLower) | (odd << 32));
  }
};

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
  constexpr int kRegisters = kSideBlocks / Lanes<float>::size;
  Word w[4][kRegisters];
  std::memcpy(w, words, sizeof w);
  for (int round = 0; round < 10; ++round) {
    for (int r = 0; r < kRegisters; ++r) {
      const Product p0(0xD2511F53u, w[0][r]), p1(0xCD9E8D57u, w[2][r]);
      w[0][r] = p1.high ^ w[1][r] ^ key0;
      w[1][r] = p1.low;
      w[2][r] = p0.high ^ w[3][r] ^ key1;
      w[3][r] = p0.low;
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  std::memcpy(words, w, sizeof w);
}

/// Writes `count` elements of as many as sixteen blocks have.
template <class T, int PerBlock>
CAPSTAN_INLINE void put_blocks(const T (&values)[PerBlock][kSideBlocks], T* to, std::int64_t count) {
  constexpr std::int64_t all = PerBlock * kSideBlocks;
  const auto in_order = [&](T * out) __attribute__((always_inline)) {
    for (int k = 0; k < kSideBlocks; ++k)
      for (int i = 0; i < PerBlock; ++i) out[PerBlock * k + i] = values[i][k];
  };
  if (count >= all) return in_order(to);
  T part[all];
  in_order(part);
  std::memcpy(to, part, sizeof(T) * static_cast<std::size_t>(count));
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
    const kernels::NumberPair pair = kernels::normal_pair(radius[k], u[1][k], mean, deviation);
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
