// Products with lines of which at most one value is not zero. Included by kernels_*.cpp behind loops.hpp.
//
// As in any product, what is not finite in the other operand must reach all of the result. Of the rows of b that are
// added to one of c that row tells; those of lines without a value are looked at.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

/// Bit j says whether value j is other than zero.
template <class T> CAPSTAN_INLINE std::uint64_t nonzero_bits(Lanes<T> x) {
#if CAPSTAN_HAS_XSIMD && defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return _mm512_cmp_ps_mask(x.v, _mm512_setzero_ps(), _CMP_NEQ_UQ);
  else return _mm512_cmp_pd_mask(x.v, _mm512_setzero_pd(), _CMP_NEQ_UQ);
#else
  T values[Lanes<T>::size];
  x.store(values);
  std::uint64_t bits = 0;
  for (int j = 0; j < Lanes<T>::size; ++j) bits |= static_cast<std::uint64_t>(values[j] != T(0)) << j;
  return bits;
#endif
}

/// use(column, count) for every register of `width` columns; the count is `Whole` for all but the last.
template <class T, class Use> CAPSTAN_INLINE void for_columns(std::int64_t width, Use use) {
  std::int64_t j = 0;
  for (; j + Lanes<T>::size <= width; j += Lanes<T>::size) use(j, Whole());
  if (j < width) use(j, width - j);
}

template <class T>
bool single_terms(const T* lines, std::int64_t step, std::int64_t count, std::int64_t width, SingleTerm<T>* terms) {
  constexpr std::int64_t kBits = 64;
  for (std::int64_t line = 0; line < count; ++line) {
    const T* values = lines + line * step;
    std::int64_t place = -1;
    for (std::int64_t begin = 0; begin < width; begin += kBits) {
      const std::int64_t end = begin + kBits < width ? begin + kBits : width;
      std::uint64_t bits = 0;
      for_columns<T>(
          end - begin, [&](std::int64_t j, auto part) __attribute__((always_inline)) {
            bits |= nonzero_bits(load_part(values + begin + j, part)) << j;
          });
      if (bits == 0) continue;
      if (place >= 0 || (bits & (bits - 1)) != 0) return false;
      place = begin + __builtin_ctzll(bits);
    }
    if (terms != nullptr) terms[line] = place < 0 ? SingleTerm<T>{0, T(0)} : SingleTerm<T>{place, values[place]};
  }
  return true;
}

template <class T> bool take_terms(const TermProduct<T>& p) {
  using L = Lanes<T>;
  for (std::int64_t line = 0; line < p.count; ++line) {
    const L value(p.terms[line].value);
    const T* from = p.b + p.terms[line].place * p.b_row;
    T* to = p.c + line * p.c_row;
    for_columns<T>(
        p.width, [&](std::int64_t j, auto count) __attribute__((always_inline)) {
          const L term = fma(value, load_part(from + j, count), L(0));
          store_part(p.accumulate ? load_part(to + j, count) + term : term, to + j, count);
        });
  }
  return true;
}

template <class T> bool give_terms(const TermProduct<T>& p) {
  using L = Lanes<T>;
  for (std::int64_t line = 0; line < p.count; ++line) {
    const T* from = p.b + line * p.b_row;
    T* to = p.c + p.terms[line].place * p.c_row;
    if (p.terms[line].value == T(0) && any_bad(from, p.width, true)) return false;
    const L value(p.terms[line].value);
    for_columns<T>(
        p.width, [&](std::int64_t j, auto count) __attribute__((always_inline)) {
          store_part(fma(value, load_part(from + j, count), load_part(to + j, count)), to + j, count);
        });
  }
  return true;
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
