// Products with lines of which at most one value is not zero. Included by kernels_*.cpp behind loops.hpp.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

/// Bit j says whether value j is other than zero.
template <class T> CAPSTAN_INLINE std::uint64_t nonzero_bits(Lanes<T> x) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return _mm512_cmp_ps_mask(x.v, _mm512_setzero_ps(), _CMP_NEQ_UQ);
  else return _mm512_cmp_pd_mask(x.v, _mm512_setzero_pd(), _CMP_NEQ_UQ);
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4)
    return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(x.v, _mm256_setzero_ps(), _CMP_NEQ_UQ)));
  else return static_cast<unsigned>(_mm256_movemask_pd(_mm256_cmp_pd(x.v, _mm256_setzero_pd(), _CMP_NEQ_UQ)));
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
    const std::int64_t at = place < 0 ? 0 : place;
    if (terms != nullptr) terms[line] = {at, static_cast<std::int32_t>(line), values[at]};
  }
  return true;
}

template <class T> void take_terms(const TermProduct<T>& p) {
  using L = Lanes<T>;
  for (const SingleTerm<T>* term = p.terms; term != p.terms + p.count; ++term) {
    const L value(term->value);
    const T* from = p.b + term->place * p.b_row;
    T* to = p.c + term->line * p.c_row;
    for_columns<T>(
        p.width, [&](std::int64_t j, auto count) __attribute__((always_inline)) {
          const L product = fma(value, load_part(from + j, count), L(0));
          store_part(p.accumulate ? load_part(to + j, count) + product : product, to + j, count);
        });
  }
}

/// `Registers` columns of registers from j on, for the terms [first, last), which are of one place.
template <int Registers, class T, class Count>
CAPSTAN_INLINE void give_columns(const TermProduct<T>& p, const SingleTerm<T>* first, const SingleTerm<T>* last,
                                 std::int64_t j, Count count) {
  using L = Lanes<T>;
  L sums[Registers];
  T* to = p.c + first->place * p.c_row + j;
  for (int r = 0; r < Registers; ++r) sums[r] = p.one_by_one ? load_part(to + r * L::size, count) : L(0);
  for (const SingleTerm<T>* term = first; term != last; ++term) {
    const L value(term->value);
    const T* from = p.b + term->line * p.b_row + j;
    for (int r = 0; r < Registers; ++r) sums[r] = fma(value, load_part(from + r * L::size, count), sums[r]);
  }
  for (int r = 0; r < Registers; ++r) {
    if (!p.one_by_one) sums[r] = load_part(to + r * L::size, count) + sums[r];
    store_part(sums[r], to + r * L::size, count);
  }
}

template <class T> void give_terms(const TermProduct<T>& p) {
  constexpr int kRegisters = 8;
  constexpr std::int64_t kWide = kRegisters * Lanes<T>::size;
  const SingleTerm<T>* const end = p.terms + p.count;
  for (const SingleTerm<T>*first = p.terms, *last = first; first != end; first = last) {
    while (last != end && last->place == first->place) ++last;
    std::int64_t j = 0;
    for (; j + kWide <= p.width; j += kWide) give_columns<kRegisters>(p, first, last, j, Whole());
    for_columns<T>(
        p.width - j, [&](std::int64_t i, auto count)
                         __attribute__((always_inline)) { give_columns<1>(p, first, last, j + i, count); });
  }
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
