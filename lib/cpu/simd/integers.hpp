// The largest and the smallest of integers. Included by kernels_*.cpp behind lanes.hpp.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

/// A register of integers.
template <class T> struct WholeLanes {
  typedef T V __attribute__((vector_size(kRegisterBytes)));
  static constexpr std::int64_t size = sizeof(V) / sizeof(T);

  CAPSTAN_INLINE static V load(const T* x) {
    V all;
    std::memcpy(&all, x, sizeof all);
    return all;
  }
};

/// The better of two, which may be registers.
template <bool Smallest, class V> CAPSTAN_INLINE V better(V a, V b) {
  if constexpr (Smallest) return a < b ? a : b;
  else return a > b ? a : b;
}

template <bool Smallest, class T> T extreme_of(const T* x, std::int64_t count) {
  using I = WholeLanes<T>;
  constexpr std::int64_t kAtOnce = 4;  // registers, for a comparison waits for the one before
  constexpr std::int64_t kStep = kAtOnce * I::size;
  std::int64_t i = 0;
  T best = x[0];
  if (count >= kStep) {
    typename I::V parts[kAtOnce];
    for (int k = 0; k < kAtOnce; ++k) parts[k] = I::load(x + k * I::size);
    for (i = kStep; i + kStep <= count; i += kStep)
      for (int k = 0; k < kAtOnce; ++k) parts[k] = better<Smallest>(parts[k], I::load(x + i + k * I::size));
    for (int k = 1; k < kAtOnce; ++k) parts[0] = better<Smallest>(parts[0], parts[k]);
    for (std::int64_t k = 0; k < I::size; ++k) best = better<Smallest, T>(best, parts[0][k]);
  }
  for (; i < count; ++i) best = better<Smallest>(best, x[i]);
  return best;
}

template <class... T> constexpr std::tuple<IntegerKernels<T>...> integer_kernels(std::tuple<IntegerKernels<T>...>*) {
  return {IntegerKernels<T>{.max = &extreme_of<false, T>, .min = &extreme_of<true, T>}...};
}
constexpr AllIntegerKernels kIntegerKernels = integer_kernels(static_cast<AllIntegerKernels*>(nullptr));

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
