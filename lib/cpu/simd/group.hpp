// Group<T, N>: N registers that take every step of a formula side by side. A processor looks about a hundred
// instructions ahead, which is a few exponentials: one after the other, all of them wait for their own results.
// Included by kernels_*.cpp behind lanes.hpp.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

template <class T, int N> struct Group {
  static constexpr int size = N * Lanes<T>::size;
  Lanes<T> at[N];
  CAPSTAN_INLINE Group() = default;
  CAPSTAN_INLINE explicit Group(T x) {
    for (auto& lanes : at) lanes = Lanes<T>(x);
  }
  CAPSTAN_INLINE static Group load(const T* p) {
    Group result;
    for (int i = 0; i < N; ++i) result.at[i] = Lanes<T>::load(p + i * Lanes<T>::size);
    return result;
  }
  CAPSTAN_INLINE void store(T* p) const {
    for (int i = 0; i < N; ++i) at[i].store(p + i * Lanes<T>::size);
  }
};

/// Registers of the groups that loops go by: as many as leave room for the formula's constants.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kGroup = 4;
#else
constexpr int kGroup = 2;
#endif

/// f of the first registers, of the second ones, and so on.
template <class T, int N, class F, class... More>
CAPSTAN_INLINE Group<T, N> for_registers_of(F f, const Group<T, N>& first, const More&... more) {
  Group<T, N> result;
  for (int i = 0; i < N; ++i) result.at[i] = f(first.at[i], more.at[i]...);
  return result;
}

template <class T, int N> CAPSTAN_INLINE Group<T, N> operator+(Group<T, N> a, Group<T, N> b) {
  return for_registers_of(
      [](Lanes<T> x, Lanes<T> y) __attribute__((always_inline)) { return x + y; }, a, b);
}
template <class T, int N> CAPSTAN_INLINE Group<T, N> operator-(Group<T, N> a, Group<T, N> b) {
  return for_registers_of(
      [](Lanes<T> x, Lanes<T> y) __attribute__((always_inline)) { return x - y; }, a, b);
}
template <class T, int N> CAPSTAN_INLINE Group<T, N> operator*(Group<T, N> a, Group<T, N> b) {
  return for_registers_of(
      [](Lanes<T> x, Lanes<T> y) __attribute__((always_inline)) { return x * y; }, a, b);
}
template <class T, int N> CAPSTAN_INLINE Group<T, N> operator-(Group<T, N> a) {
  return for_registers_of(
      [](Lanes<T> x) __attribute__((always_inline)) { return -x; }, a);
}
template <class T, int N> CAPSTAN_INLINE Group<T, N> fma(Group<T, N> a, Group<T, N> b, Group<T, N> c) {
  return for_registers_of(
      [](Lanes<T> x, Lanes<T> y, Lanes<T> z) __attribute__((always_inline)) { return fma(x, y, z); }, a, b, c);
}
template <class T, int N> CAPSTAN_INLINE Group<T, N> abs(Group<T, N> a) {
  return for_registers_of(
      [](Lanes<T> x) __attribute__((always_inline)) { return abs(x); }, a);
}
// Where exponential.hpp has nothing of its own.
template <class T, int N> CAPSTAN_INLINE Group<T, N> exp(Group<T, N> a) {
  return for_registers_of(
      [](Lanes<T> x) __attribute__((always_inline)) { return exp(x); }, a);
}
template <class T, int N> CAPSTAN_INLINE Group<T, N> sigmoid(Group<T, N> a) {
  return for_registers_of(
      [](Lanes<T> x) __attribute__((always_inline)) { return kernels::Sigmoid::forward(x); }, a);
}
template <class T, int N> CAPSTAN_INLINE Group<T, N> tanh(Group<T, N> a) {
  return for_registers_of(
      [](Lanes<T> x) __attribute__((always_inline)) { return tanh(x); }, a);
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
