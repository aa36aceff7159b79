// Dropout's decisions, and the elements that they keep. Included by kernels_*.cpp behind draws.hpp.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

void decide(const Decisions& d) {
  constexpr std::int64_t kSide = 4 * kSideBlocks;
  for (std::int64_t i = 0; i < d.count; i += kSide) {
    Words words;
    random_words(d.seed, d.stream, d.block + static_cast<std::uint64_t>(i / 4), words);
    bool kept[kSide];
    for (int k = 0; k < kSideBlocks; ++k)
      for (int word = 0; word < 4; ++word) kept[4 * k + word] = words[word][k] < d.threshold;
    std::memcpy(d.kept + i, kept, static_cast<std::size_t>(d.count - i < kSide ? d.count - i : kSide));
  }
}

/// By bits, for a choice at random would be a branch that is guessed wrong half of the time.
template <class T> void keep(const T* x, const bool* kept, T scale, T shift, T dropped, T* y, std::int64_t count) {
  using Bits = typename Register<T>::Unsigned;
  const auto other = __builtin_bit_cast(Bits, dropped);
  for (std::int64_t i = 0; i < count; ++i) {
    const Bits value = __builtin_bit_cast(Bits, scale * x[i] + shift), all = Bits{0} - static_cast<Bits>(kept[i]);
    y[i] = __builtin_bit_cast(T, (value & all) | (other & ~all));
  }
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
