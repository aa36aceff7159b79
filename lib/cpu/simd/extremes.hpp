// The largest and the smallest of contiguous values, and where they stand. Included by kernels_*.cpp behind
// rule_loops.hpp.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

/// Whether register r of several in a row is the first of its cache line.
template <class T> constexpr bool begins_line(int r) { return r * static_cast<int>(sizeof(Lanes<T>)) % 64 == 0; }

/// What the rule keeps of each pair; b where either is NaN.
template <class Op, class T> CAPSTAN_INLINE Lanes<T> better(Lanes<T> a, Lanes<T> b) {
  if constexpr (std::is_same_v<Op, kernels::Maximum>) return larger(a, b);
  else return smaller(a, b);
}
/// What is no better than any other value.
template <class Op> constexpr double kWorst = std::is_same_v<Op, kernels::Maximum> ? -HUGE_VAL : HUGE_VAL;

/// The best lane; of NaN it makes anything.
template <class Op, class T> CAPSTAN_INLINE T best_lane(Lanes<T> x) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<Op, kernels::Maximum>) {
    if constexpr (sizeof(T) == 4) return _mm512_reduce_max_ps(x.v);
    else return _mm512_reduce_max_pd(x.v);
  } else {
    if constexpr (sizeof(T) == 4) return _mm512_reduce_min_ps(x.v);
    else return _mm512_reduce_min_pd(x.v);
  }
#else
  return folded(
      x, [](Lanes<T> a, Lanes<T> b) __attribute__((always_inline)) { return better<Op>(a, b); });
#endif
}
template <class T> CAPSTAN_INLINE T max_lanes(Lanes<T> x) { return best_lane<kernels::Maximum>(x); }

/// Of rows side by side, each as if it were alone.
template <class Op, int Rows, int Registers, class T>
CAPSTAN_INLINE void extremes(const T* rows, std::int64_t row_step, std::int64_t count, T* found) {
  using L = Lanes<T>;
  constexpr std::int64_t kStep = Registers * L::size;
  const std::int64_t ahead = bytes_ahead;
  L best[Rows][Registers];
  Mask<T> strange[Rows] = {};  // NaN was seen there
  for (auto& row : best)
    for (auto& part : row) part = L(kWorst<Op>);
  std::int64_t i = 0;
  for (; i + kStep <= count; i += kStep)
    for (int row = 0; row < Rows; ++row)
      for (int r = 0; r < Registers; r += 2) {
        const T* const x = rows + row * row_step + i + r * L::size;
        if constexpr (Rows == 1)
          if (begins_line<T>(r)) __builtin_prefetch(reinterpret_cast<const char*>(x) + ahead);
        const L first = L::load(x), second = L::load(x + L::size);
        best[row][r] = better<Op>(first, best[row][r]);
        best[row][r + 1] = better<Op>(second, best[row][r + 1]);
        strange[row] = strange[row] | unordered(first, second);
      }
  const auto take = [&](int row, L x) __attribute__((always_inline)) {
    best[row][0] = better<Op>(x, best[row][0]);
    strange[row] = strange[row] | unordered(x, x);
  };
  if (count < L::size)
    for (int row = 0; row < Rows; ++row)
      take(row, first_of(load_part(rows + row * row_step, count), count, L(kWorst<Op>)));
  else
    for (; i < count; i += L::size) {  // the last ones once more with what stands before them
      const std::int64_t at = i + L::size <= count ? i : count - L::size;
      for (int row = 0; row < Rows; ++row) take(row, L::load(rows + row * row_step + at));
    }
  for (int row = 0; row < Rows; ++row) {
    for (int width = Registers / 2; width > 0; width /= 2)
      for (int r = 0; r < width; ++r) best[row][r] = better<Op>(best[row][r], best[row][r + width]);
    found[row] = any(strange[row]) ? static_cast<T>(__builtin_nan("")) : best_lane<Op>(best[row][0]);
  }
}

template <class Op, class T> T extreme(const T* x, std::int64_t count) {
  T found;
  extremes<Op, 1, 4>(x, 0, count, &found);
  return found;
}

template <class Op, class T>
void extremes_of_rows(const T* rows, std::int64_t row_step, std::int64_t row_count, std::int64_t count, T* found) {
  std::int64_t row = 0;
  if (count <= short_row) {
    for (; row + 4 <= row_count; row += 4) extremes<Op, 4, 2>(rows + row * row_step, row_step, count, found + row);
    for (; row < row_count; ++row) extremes<Op, 1, 2>(rows + row * row_step, row_step, count, found + row);
  }
  for (; row < row_count; ++row) found[row] = extreme<Op>(rows + row * row_step, count);
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

template <class Op, class T>
void places_of_extremes(const T* rows, std::int64_t row_step, std::int64_t row_count, std::int64_t count,
                        std::int64_t* places) {
  constexpr std::int64_t kBlock = 4096;  // is looked through a second time while it is in the first-level cache
  for (std::int64_t row = 0; row < row_count; ++row) {
    const T* const x = rows + row * row_step;
    std::int64_t begin = 0;
    T best = extreme<Op>(x, count < kBlock ? count : kBlock);
    for (std::int64_t next = kBlock; next < count && best == best; next += kBlock) {
      const T here = extreme<Op>(x + next, count - next < kBlock ? count - next : kBlock);
      const bool is_better = std::is_same_v<Op, kernels::Maximum> ? here > best : here < best;
      if (is_better || here != here) best = here, begin = next;
    }
    places[row] = begin + place_of(best, x + begin, count - begin);
  }
}

template <class Op, class T>
void extreme_rows(T* best, const T* rows, std::int64_t row_step, std::int64_t row_count, std::int64_t count) {
  for (std::int64_t row = 0; row < row_count; ++row) binary<Op, T>(best, 1, rows + row * row_step, 1, best, count);
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
