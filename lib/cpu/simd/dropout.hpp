// Dropout's decisions, and the elements that they keep. Included by kernels_*.cpp behind lanes.hpp.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

constexpr int kSideBlocks = 16;

/// kernels::random_block for blocks that follow each other: words[0] has the first of each, and so on. Plain loops,
/// which the compiler keeps in registers.
CAPSTAN_INLINE void random_words(const Decisions& d, std::uint64_t block, std::uint32_t (&words)[4][kSideBlocks]) {
  auto key0 = static_cast<std::uint32_t>(d.seed), key1 = static_cast<std::uint32_t>(d.seed >> 32);
  for (int k = 0; k < kSideBlocks; ++k) {
    const std::uint64_t counter = block + static_cast<std::uint64_t>(k);
    words[0][k] = static_cast<std::uint32_t>(counter);
    words[1][k] = static_cast<std::uint32_t>(counter >> 32);
    words[2][k] = static_cast<std::uint32_t>(d.stream);
    words[3][k] = static_cast<std::uint32_t>(d.stream >> 32);
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

void decide(const Decisions& d) {
  constexpr std::int64_t kSide = 4 * kSideBlocks;
  for (std::int64_t i = 0; i < d.count; i += kSide) {
    std::uint32_t words[4][kSideBlocks];
    random_words(d, d.block + static_cast<std::uint64_t>(i / 4), words);
    bool kept[kSide];
    for (int k = 0; k < kSideBlocks; ++k)
      for (int word = 0; word < 4; ++word) kept[4 * k + word] = words[word][k] < d.threshold;
    std::memcpy(d.kept + i, kept, static_cast<std::size_t>(d.count - i < kSide ? d.count - i : kSide));
  }
}

template <class T> void keep(const T* x, const bool* kept, T scale, T shift, T dropped, T* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const T value = scale * x[i] + shift;  // of all, so that the choice is no branch
    y[i] = kept[i] ? value : dropped;
  }
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
