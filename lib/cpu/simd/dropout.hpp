// Dropout's decisions, and the elements that they keep. Included by kernels_*.cpp behind draws.hpp.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

void decide(const Decisions& d) {
  constexpr std::int64_t kSide = 4 * kSideBlocks;
  for (std::int64_t i = 0; i < d.count; i += kSide) {
    std::uint32_t words[4][kSideBlocks];
    random_words(d.seed, d.stream, d.block + static_cast<std::uint64_t>(i / 4), words);
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
