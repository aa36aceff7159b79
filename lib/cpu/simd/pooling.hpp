// Rows of pooling windows, one window a lane. Included by kernels_*.cpp behind loops.hpp.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

/// p[0], p[2], ... for `count` (1 .. size) lanes, and what stands behind each; behind the last one only if `both`.
template <class T> CAPSTAN_INLINE EvenOdd<T> load_pairs(const T* p, std::int64_t count, bool both) {
  constexpr std::int64_t size = Lanes<T>::size;
  const std::int64_t needed = 2 * count - (both ? 0 : 1);
  const Lanes<T> first = needed < size ? load_part(p, needed) : Lanes<T>::load(p);
  const Lanes<T> second = needed > size ? load_part(p + size, needed - size) : Lanes<T>(0);
  return deinterleave(first, second);
}

/// The first `count` lanes as bytes.
template <class T> CAPSTAN_INLINE void store_bytes(Lanes<T> x, std::uint8_t* to, std::int64_t count) {
#if defined(__AVX512F__) && defined(__AVX512VL__)
  const auto mask = (1u << count) - 1;
  if constexpr (sizeof(T) == 4)
    _mm512_mask_cvtepi32_storeu_epi8(to, static_cast<__mmask16>(mask), _mm512_cvtps_epi32(x.v));
  else _mm256_mask_cvtepi32_storeu_epi8(to, static_cast<__mmask8>(mask), _mm512_cvtpd_epi32(x.v));
#else
  T part[Lanes<T>::size];
  x.store(part);
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<std::uint8_t>(part[i]);
#endif
}

/// Hands the elements of `count` windows to `fold`, one lane a window, with their codes.
template <int Stride, class T, class Fold>
CAPSTAN_INLINE void fold_windows(const PoolRow<T>& r, std::int64_t window, std::int64_t count, Fold& fold) {
  for (std::int64_t row = 0; row < r.row_count; ++row) {
    const T* p = r.rows[row] + r.first + window * Stride;
    int code = r.codes[row];
    if constexpr (Stride == 1) {
      for (std::int64_t k = 0; k < r.kernel; ++k, p += r.step, ++code) fold.take(load_lanes(p, count), code);
    } else if (r.step == 1) {
      std::int64_t k = 0;
      for (; k + 2 <= r.kernel; k += 2, p += 2, code += 2) {
        const EvenOdd<T> pair = load_pairs(p, count, true);
        fold.take(pair.even, code);
        fold.take(pair.odd, code + 1);
      }
      if (k < r.kernel) fold.take(load_pairs(p, count, false).even, code);
    } else {
      for (std::int64_t k = 0; k < r.kernel; ++k, p += r.step, ++code)
        fold.take(load_pairs(p, count, false).even, code);
    }
  }
}

/// Where x takes the place of the best before it: unless it is not larger, or the best is NaN.
template <class T> CAPSTAN_INLINE Mask<T> beats(Lanes<T> x, Lanes<T> best) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    const __mmask16 is_number = _mm512_cmp_ps_mask(best.v, best.v, _CMP_ORD_Q);
    return {_mm512_mask_cmp_ps_mask(is_number, x.v, best.v, _CMP_NLE_UQ)};
  } else {
    const __mmask8 is_number = _mm512_cmp_pd_mask(best.v, best.v, _CMP_ORD_Q);
    return {_mm512_mask_cmp_pd_mask(is_number, x.v, best.v, _CMP_NLE_UQ)};
  }
#else
  return (best == best) & ~(x <= best);
#endif
}

template <class T, bool Codes> struct Largest {
  Lanes<T> best, code;
  CAPSTAN_INLINE void take(Lanes<T> x, int its_code) {
    const Mask<T> wins = beats(x, best);
    if constexpr (Codes) code = select(wins, Lanes<T>(its_code), code);
    best = select(wins, x, best);
  }
};

template <class T> struct Total {
  Lanes<T> sum;
  CAPSTAN_INLINE void take(Lanes<T> x, int) { sum = sum + x; }
};

template <int Stride, bool Codes, class T> void max_pool_row_as(const PoolRow<T>& r, T* out, std::uint8_t* codes) {
  constexpr std::int64_t size = Lanes<T>::size;
  for (std::int64_t i = 0; i < r.count; i += size) {
    const std::int64_t count = r.count - i < size ? r.count - i : size;
    Largest<T, Codes> largest{Lanes<T>(-__builtin_inf()), Lanes<T>(r.codes[0])};
    fold_windows<Stride>(r, i, count, largest);
    store_lanes(largest.best, out + i, count);
    if constexpr (Codes) store_bytes(largest.code, codes + i, count);
  }
}

template <class T> void max_pool_row(const PoolRow<T>& r, T* out, std::uint8_t* codes) {
  if (r.stride == 1) {
    if (codes != nullptr) max_pool_row_as<1, true>(r, out, codes);
    else max_pool_row_as<1, false>(r, out, codes);
  } else {
    if (codes != nullptr) max_pool_row_as<2, true>(r, out, codes);
    else max_pool_row_as<2, false>(r, out, codes);
  }
}

/// Neighbours first, then the two rows: so the first of equal elements wins, and the first NaN, as one by one.
template <bool Codes, class T> void max_pool_pairs_as(const PoolPairs<T>& p) {
  using L = Lanes<T>;
  constexpr std::int64_t size = L::size;
  const T* x = p.x;
  for (std::int64_t row = 0; row < p.rows; ++row, x += 2 * p.x_row) {
    const std::int64_t first = row * p.columns;
    for (std::int64_t i = 0; i < p.columns; i += size) {
      const std::int64_t count = p.columns - i < size ? p.columns - i : size;
      const EvenOdd<T> above = load_pairs(x + 2 * i, count, true);
      const EvenOdd<T> below = load_pairs(x + p.x_row + 2 * i, count, true);
      const Mask<T> upper_odd = beats(above.odd, above.even), lower_odd = beats(below.odd, below.even);
      const L upper = select(upper_odd, above.odd, above.even), lower = select(lower_odd, below.odd, below.even);
      const Mask<T> lower_wins = beats(lower, upper);
      store_lanes(select(lower_wins, lower, upper), p.out + first + i, count);
      if constexpr (Codes) {
        const L upper_code = select(upper_odd, L(1), L(0)), lower_code = select(lower_odd, L(3), L(2));
        store_bytes(select(lower_wins, lower_code, upper_code), p.codes + first + i, count);
      }
    }
  }
}

template <class T> void max_pool_pairs(const PoolPairs<T>& p) {
  if (p.codes != nullptr) max_pool_pairs_as<true>(p);
  else max_pool_pairs_as<false>(p);
}

template <int Stride, class T> void avg_pool_row_as(const PoolRow<T>& r, T divisor, T* out) {
  constexpr std::int64_t size = Lanes<T>::size;
  const Lanes<T> divisors(divisor);
  for (std::int64_t i = 0; i < r.count; i += size) {
    const std::int64_t count = r.count - i < size ? r.count - i : size;
    Total<T> total{Lanes<T>(0)};
    fold_windows<Stride>(r, i, count, total);
    store_lanes(total.sum / divisors, out + i, count);
  }
}

template <class T> void avg_pool_row(const PoolRow<T>& r, T divisor, T* out) {
  if (r.stride == 1) avg_pool_row_as<1>(r, divisor, out);
  else avg_pool_row_as<2>(r, divisor, out);
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
