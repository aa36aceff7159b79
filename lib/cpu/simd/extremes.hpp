// The largest and the smallest of contiguous values, and where they stand. Included by kernels_*.cpp behind
// rule_loops.hpp.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

/// Whether register r of several in a row is the first of its cache line.
template <class T> constexpr bool begins_line(int r) { return r * static_cast<int>(sizeof(Lanes<T>)) % 64 == 0; }

/// The largest lane; of NaN it makes anything.
template <class T> CAPSTAN_INLINE T max_lanes(Lanes<T> x) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return _mm512_reduce_max_ps(x.v);
  else return _mm512_reduce_max_pd(x.v);
#else
  return folded(
      x, [](Lanes<T> a, Lanes<T> b) __attribute__((always_inline)) { return larger(a, b); });
#endif
}

/// The largest of rows side by side, each as if it were alone; or, as the largest under the other sign, the smallest.
template <int Rows, int Registers, class T>
CAPSTAN_INLINE void extremes(const T* rows, std::int64_t row_step, std::int64_t count, bool smallest, T* found) {
  using L = Lanes<T>;
  constexpr std::int64_t kStep = Registers * L::size;
  const std::int64_t ahead = bytes_ahead;
  const typename L::Bits sign = L(smallest ? -0.0 : 0.0).bits();
  const auto signed_as_asked = [&](L x) __attribute__((always_inline)) { return L::of(x.bits() ^ sign); };
  L best[Rows][Registers];
  Mask<T> strange[Rows] = {};  // NaN was seen there
  for (auto& row : best)
    for (auto& part : row) part = L(-HUGE_VAL);
  std::int64_t i = 0;
  for (; i + kStep <= count; i += kStep)
    for (int row = 0; row < Rows; ++row)
      for (int r = 0; r < Registers; r += 2) {
        const T* const x = rows + row * row_step + i + r * L::size;
        if constexpr (Rows == 1)
          for (int k = 0; k < 2; ++k)
            if (begins_line<T>(r + k)) __builtin_prefetch(reinterpret_cast<const char*>(x + k * L::size) + ahead);
        const L first = L::load(x), second = L::load(x + L::size);
        best[row][r] = larger(signed_as_asked(first), best[row][r]);
        best[row][r + 1] = larger(signed_as_asked(second), best[row][r + 1]);
        strange[row] = strange[row] | unordered(first, second);
      }
  const auto take = [&](int row, L x) __attribute__((always_inline)) {
    best[row][0] = larger(x, best[row][0]);
    strange[row] = strange[row] | unordered(x, x);
  };
  if (count < L::size)
    for (int row = 0; row < Rows; ++row)
      take(row, first_of(signed_as_asked(load_part(rows + row * row_step, count)), count, L(-HUGE_VAL)));
  else
    for (; i < count; i += L::size) {  // the last ones once more with what stands before them
      const std::int64_t at = i + L::size <= count ? i : count - L::size;
      for (int row = 0; row < Rows; ++row) take(row, signed_as_asked(L::load(rows + row * row_step + at)));
    }
  for (int row = 0; row < Rows; ++row) {
    for (int width = Registers / 2; width > 0; width /= 2)
      for (int r = 0; r < width; ++r) best[row][r] = larger(best[row][r], best[row][r + width]);
    const T largest = max_lanes(best[row][0]);
    found[row] = any(strange[row]) ? static_cast<T>(__builtin_nan("")) : smallest ? -largest : largest;
  }
}

template <class T> [[gnu::noinline]] T extreme(const T* x, std::int64_t count, bool smallest) {
  T found;
  if (count <= short_row) extremes<1, 2>(x, 0, count, smallest, &found);
  else extremes<1, 4>(x, 0, count, smallest, &found);
  return found;
}
template <class T> T max(const T* x, std::int64_t count) { return extreme(x, count, false); }
template <class T> T min(const T* x, std::int64_t count) { return extreme(x, count, true); }

template <class T>
void extremes_of_rows(const T* rows, std::int64_t row_step, std::int64_t row_count, std::int64_t count, bool smallest,
                      T* found) {
  std::int64_t row = 0;
  for (; count <= short_row && row + 4 <= row_count; row += 4)
    extremes<4, 2>(rows + row * row_step, row_step, count, smallest, found + row);
  for (; row < row_count; ++row) found[row] = extreme(rows + row * row_step, count, smallest);
}

/// Where the first value stands that equals this one, which one does; of NaN the first NaN.
template <class T> CAPSTAN_INLINE std::int64_t place_of(T value, const T* x, std::int64_t count) {
  using L = Lanes<T>;
  for (std::int64_t i = 0;; i += L::size) {
    const L here = i + L::size <= count ? L::load(x + i) : load_part(x + i, count - i);
    const Mask<T> found = value == value ? here == L(value) : unordered(here, here);
    if (any(found)) return i + first_lane(found);
  }
}

template <class T>
void places_of_extremes(const T* rows, std::int64_t row_step, std::int64_t row_count, std::int64_t count, bool smallest,
                        std::int64_t* places) {
  constexpr std::int64_t kBlock = 4096;  // of a long row one with the best is looked through a second time
  for (std::int64_t row = 0; row < row_count; ++row) {
    const T* const x = rows + row * row_step;
    std::int64_t begin = 0;
    T best = extreme(x, count < kBlock ? count : kBlock, smallest);
    for (std::int64_t next = kBlock; next < count && best == best; next += kBlock) {
      const T here = extreme(x + next, count - next < kBlock ? count - next : kBlock, smallest);
      if ((smallest ? here < best : here > best) || here != here) best = here, begin = next;
    }
    places[row] = begin + place_of(best, x + begin, count - begin);
  }
}

template <class Op, int Rows, class T>
CAPSTAN_INLINE void take_rows(T* best, const T* rows, std::int64_t row_step, std::int64_t count) {
  using L = Lanes<T>;
  const auto joined = [&](L part, auto load) __attribute__((always_inline)) {
    for (int row = 0; row < Rows; ++row) part = Op::forward(part, load(rows + row * row_step));
    return part;
  };
  std::int64_t j = 0;
  for (; j + L::size <= count; j += L::size)
    joined(
        L::load(best + j), [j](const T* x) __attribute__((always_inline)) { return L::load(x + j); })
        .store(best + j);
  if (j == count) return;
  const std::int64_t left = count - j;
  const L last = joined(
      load_part(best + j, left), [=](const T* x) __attribute__((always_inline)) { return load_part(x + j, left); });
  store_part(last, best + j, left);
}
template <class Op, class T>
void extreme_rows(T* best, const T* rows, std::int64_t row_step, std::int64_t row_count, std::int64_t count) {
  constexpr std::int64_t kRows = 4;
  std::int64_t row = 0;
  for (; row + kRows <= row_count; row += kRows) take_rows<Op, kRows>(best, rows + row * row_step, row_step, count);
  for (; row < row_count; ++row) take_rows<Op, 1>(best, rows + row * row_step, row_step, count);
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
