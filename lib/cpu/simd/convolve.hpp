// The inner loops of convolution. Included by kernels_*.cpp behind products.hpp.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kOffsetRows = 2;
#else
constexpr int kOffsetRows = 6;  // with four registers of columns each: 24 sums, and one address for each row
#endif

/// Rows x Columns registers of `offset_gemm`.
template <int Rows, int Columns, class T> void offset_tile(const OffsetGemm<T>& g, std::int64_t row) {
  using L = Lanes<T>;
  constexpr int width = Columns * L::size;
  T* const c = g.c + row * width;
  L sums[Rows][Columns];
  unrolled<Rows>([&](auto i) __attribute__((always_inline)) {
    unrolled<Columns>([&](auto j) __attribute__((always_inline)) {
      sums[i][j] = g.start == SumStart::onward ? L::load(c + i * width + j * L::size)
                   : g.bias != nullptr         ? L::load(g.bias + j * L::size)
                                               : L(0);
    });
  });
  std::int64_t at[Rows];
  unrolled<Rows>([&](auto i) __attribute__((always_inline)) { at[i] = g.rows[row + i]; });
  const T* w = g.w;
  for (std::int64_t k = 0; k < g.count; ++k, w += width) {
    const T* const x = g.x + g.steps[k];
    L right[Columns];
    unrolled<Columns>([&](auto j) __attribute__((always_inline)) { right[j] = L::load(w + j * L::size); });
    unrolled<Rows>([&](auto i) __attribute__((always_inline)) {
      const L left(x[at[i]]);
      unrolled<Columns>([&](auto j) __attribute__((always_inline)) { sums[i][j] = fma(left, right[j], sums[i][j]); });
    });
  }
  const bool apart = g.start == SumStart::apart;
  unrolled<Rows>([&](auto i) __attribute__((always_inline)) {
    unrolled<Columns>([&](auto j) __attribute__((always_inline)) {
      T* const to = c + i * width + j * L::size;
      if (apart) sums[i][j] = L::load(to) + sums[i][j];
      sums[i][j].store(to);
    });
  });
}

template <int Columns, class T> void offset_panel(const OffsetGemm<T>& g) {
  std::int64_t row = 0;
  for (; row + kOffsetRows <= g.row_count; row += kOffsetRows) offset_tile<kOffsetRows, Columns>(g, row);
  if constexpr (kOffsetRows > 2) {
    for (; row + 3 <= g.row_count; row += 3) offset_tile<3, Columns>(g, row);
    for (; row + 2 <= g.row_count; row += 2) offset_tile<2, Columns>(g, row);
  }
  for (; row < g.row_count; ++row) offset_tile<1, Columns>(g, row);
}

template <class T> void offset_gemm(const OffsetGemm<T>& g) {
  if (g.columns == 1) offset_panel<1>(g);
  else if (g.columns == 2) offset_panel<2>(g);
  else if constexpr (kTileLanes > 2) {
    if (g.columns == 3) offset_panel<3>(g);
    else offset_panel<4>(g);
  }
}

/// Registers x lanes of each of `Rows` rows of `slide`, `last` lanes of the last register.
template <int Registers, int Rows, class T>
CAPSTAN_INLINE void slide_tile(const Slide<T>& s, const T* x, T* out, std::int64_t last) {
  using L = Lanes<T>;
  const auto each = [&](auto use) __attribute__((always_inline)) {
    unrolled<Rows>([&](auto j) __attribute__((always_inline)) {
      unrolled<Registers>([&](auto i) __attribute__((always_inline)) { use(j, i); });
    });
  };
  L sums[Rows][Registers];
  each([&](auto j, auto i) __attribute__((always_inline)) { sums[j][i] = L(s.start); });
  for (std::int64_t k = 0; k < s.count; ++k) {
    const L w(s.w[k]);
    const T* const from = x + s.steps[k];
    each([&](auto j, auto i) __attribute__((always_inline)) {
      sums[j][i] = fma(w, L::load(from + j * s.x_row + i * L::size), sums[j][i]);
    });
  }
  each([&](auto j, auto i) __attribute__((always_inline)) {
    T* const to = out + j * s.out_row + i * L::size;
    if constexpr (i + 1 < Registers) sums[j][i].store(to);
    else store_part(sums[j][i], to, last);
  });
}

/// The same columns of all rows: eight sums side by side wait for none of them, and share a tap's weight.
template <int Registers, class T> void slide_columns(const Slide<T>& s, std::int64_t first, std::int64_t last) {
  constexpr int kRows = 8 / Registers;
  const T* x = s.x + first;
  T* out = s.out + first;
  std::int64_t left = s.rows;
  for (; left >= kRows; left -= kRows, x += kRows * s.x_row, out += kRows * s.out_row)
    slide_tile<Registers, kRows>(s, x, out, last);
  for (; left > 0; --left, x += s.x_row, out += s.out_row) slide_tile<Registers, 1>(s, x, out, last);
}

template <class T> void slide(const Slide<T>& s) {
  constexpr int size = Lanes<T>::size;
  for (std::int64_t first = 0; first < s.length;) {
    const std::int64_t left = s.length - first, registers = left > 3 * size ? 4 : left > size ? 2 : 1;
    const std::int64_t whole = (registers - 1) * size, last = left - whole < size ? left - whole : size;
    if (registers == 4) slide_columns<4>(s, first, last);
    else if (registers == 2) slide_columns<2>(s, first, last);
    else slide_columns<1>(s, first, last);
    first += registers * size;
  }
}

/// sums[k] += the products of all places for `Taps` taps.
template <int Taps, class T> void overlap_part(const Overlap<T>& o, const std::int32_t* steps, double* sums) {
  using L = Lanes<T>;
  L totals[Taps];
  unrolled<Taps>([&](auto k) __attribute__((always_inline)) { totals[k] = L(0); });
  for (std::int64_t row = 0; row < o.rows; ++row) {
    const T* x = o.x + row * o.x_row;
    const T* grad = o.grad + row * o.grad_row;
    for (std::int64_t left = o.length; left > 0; left -= L::size, x += L::size, grad += L::size) {
      const bool whole = left >= L::size;
      const L g = whole ? L::load(grad) : load_part(grad, left);
      unrolled<Taps>([&](auto k) __attribute__((always_inline)) {
        const T* const from = x + steps[k];
        totals[k] = fma(g, whole ? L::load(from) : load_part(from, left), totals[k]);
      });
    }
  }
  unrolled<Taps>([&](auto k) __attribute__((always_inline)) {
    T parts[L::size];
    totals[k].store(parts);
    for (const T part : parts) sums[k] += static_cast<double>(part);
  });
}

template <class T> void overlap(const Overlap<T>& o) {
  std::int64_t k = 0;
  for (; k + 9 <= o.count; k += 9) overlap_part<9>(o, o.steps + k, o.sums + k);
  for (; k + 3 <= o.count; k += 3) overlap_part<3>(o, o.steps + k, o.sums + k);
  for (; k < o.count; ++k) overlap_part<1>(o, o.steps + k, o.sums + k);
}

// Minimal filtering along the columns (Winograd 1980): `m` results of a filter of 7 - m taps come from 6 products instead
// of m * (7 - m), of sums of 6 neighbouring inputs and of sums of the taps. The sums are those of polynomials at the
// points 0, a, -a, b, -b and infinity; these a and b keep rounding close to that of the plain sum, and are exact.

constexpr int kTileInputs = 6;
template <class T> struct Points {
  static constexpr T a = T(0.75), b = T(1.5), aa = a * a, bb = b * b, aaa = aa * a, bbb = bb * b;
};

/// The first and the other inputs of a register of tiles, of M results each, from where the first of them begins.
template <int M, class T> CAPSTAN_INLINE void load_tiles(const T* p, Lanes<T> (&u)[kTileInputs]) {
  using L = Lanes<T>;
  const auto pairs = [](const T* at) __attribute__((always_inline)) {
    return deinterleave(L::load(at), L::load(at + L::size));
  };
  if constexpr (M == 2) {
    for (int i = 0; i < kTileInputs; i += 2) {
      const EvenOdd<T> both = pairs(p + i);
      u[i] = both.even, u[i + 1] = both.odd;
    }
  } else {
    for (int i = 0; i < kTileInputs; i += 4) {
      const EvenOdd<T> front = pairs(p + i), back = pairs(p + i + 2 * L::size);
      const EvenOdd<T> even = deinterleave(front.even, back.even), odd = deinterleave(front.odd, back.odd);
      u[i] = even.even, u[i + 1] = odd.even;
      if (i + 2 < kTileInputs) u[i + 2] = even.odd, u[i + 3] = odd.odd;
    }
  }
}

/// to[t * pitch + j] = what product t of tile j takes of line[m*j .. m*j + 5]. Reads up to M registers and 8 elements
/// beyond the line.
template <int M, class T> void filter_line(const T* line, std::int64_t tiles, T* to, std::int64_t pitch) {
  using L = Lanes<T>;
  using P = Points<T>;
  const L sum(P::aa + P::bb), product(P::aa * P::bb), a(P::a), b(P::b), aa(-P::aa), bb(-P::bb);
  for (std::int64_t j = 0; j < tiles; j += L::size) {
    L u[kTileInputs];
    load_tiles<M>(line + M * j, u);
    const std::int64_t part = tiles - j < L::size ? tiles - j : L::size;
    const auto put = [&](L value, std::int64_t t) __attribute__((always_inline)) {
      store_part(value, to + t * pitch + j, part);
    };
    const L even_a = fma(bb, u[2], u[4]), odd_a = a * fma(bb, u[1], u[3]);
    const L even_b = fma(aa, u[2], u[4]), odd_b = b * fma(aa, u[1], u[3]);
    put(fma(product, u[0], u[4] - sum * u[2]), 0);
    put(even_a + odd_a, 1);
    put(even_a - odd_a, 2);
    put(even_b + odd_b, 3);
    put(even_b - odd_b, 4);
    put(fma(product, u[1], u[5] - sum * u[3]), 5);
  }
}
template <class T> void filter_input(const T* line, std::int64_t tiles, int m, T* to, std::int64_t pitch) {
  if (m == 2) filter_line<2>(line, tiles, to, pitch);
  else filter_line<4>(line, tiles, to, pitch);
}

template <int Count, class T>
void filter_taps(const T* weights, const std::int64_t* taps, const double (*shares)[5], std::int64_t width, T* to,
                 std::int64_t plane) {
  using W = Lanes<double>;
  for (std::int64_t i = 0; i < width; i += W::size) {
    W x[Count];
    unrolled<Count>([&](auto k) __attribute__((always_inline)) { x[k] = load_wide(weights + taps[k] * width + i); });
    unrolled<kTileInputs>([&](auto product) __attribute__((always_inline)) {
      W sum(0);
      unrolled<Count>([&](auto k) __attribute__((always_inline)) { sum = fma(x[k], W(shares[product][k]), sum); });
      store_narrow(sum, to + product * plane + i);
    });
  }
}
/// What each product takes of 3 or 5 taps, some of the rows of `weights` [kernel, width]: [6][width], `plane` apart.
template <class T>
void filter_weights(const T* weights, const std::int64_t* taps, int count, const double (*shares)[5],
                    std::int64_t width, T* to, std::int64_t plane) {
  if (count == 3) filter_taps<3>(weights, taps, shares, width, to, plane);
  else filter_taps<5>(weights, taps, shares, width, to, plane);
}

/// The reverse for gradients: to [columns, width] from sums that lie `product_step` and, of several shares,
/// `share_step` apart.
template <class T>
void total_weights(const T* sums, int products, std::int64_t product_step, std::int64_t share_count,
                   std::int64_t share_step, int columns, const double (*shares)[5], std::int64_t width, T* to) {
  using W = Lanes<double>;
  for (std::int64_t i = 0; i < width; i += W::size) {
    W x[kTileInputs];
    for (int product = 0; product < products; ++product) {
      const T* const first = sums + product * product_step + i;
      x[product] = load_wide(first);
      for (std::int64_t share = 1; share < share_count; ++share)
        x[product] = x[product] + load_wide(first + share * share_step);
    }
    for (int column = 0; column < columns; ++column) {
      W total = x[0] * W(shares[0][column]);
      for (int product = 1; product < products; ++product) total = fma(x[product], W(shares[product][column]), total);
      store_narrow(total, to + column * width + i);
    }
  }
}

/// The results [tiles * m, width] of one tile after another from their products [6][tiles, width], `plane` apart.
template <class T>
void filter_output(const T* products, std::int64_t plane, std::int64_t tiles, int m, std::int64_t width, const T* bias,
                   T* out) {
  using L = Lanes<T>;
  using P = Points<T>;
  for (std::int64_t j = 0; j < tiles; ++j, products += width, out += m * width)
    for (std::int64_t i = 0; i < width; i += L::size) {
      const T* const c = products + i;
      const L pa = L::load(c + plane), na = L::load(c + 2 * plane), pb = L::load(c + 3 * plane),
              nb = L::load(c + 4 * plane), end = L::load(c + 5 * plane), start = L::load(bias + i);
      const L sum_a = pa + na, sum_b = pb + nb, difference_a = pa - na, difference_b = pb - nb;
      (start + (L::load(c) + (sum_a + sum_b))).store(out + i);
      const L first = fma(L(P::a), difference_a, L(P::b) * difference_b);
      if (m == 2) {
        (start + (first + end)).store(out + width + i);
        continue;
      }
      (start + first).store(out + width + i);
      (start + fma(L(P::aa), sum_a, L(P::bb) * sum_b)).store(out + 2 * width + i);
      (start + (fma(L(P::aaa), difference_a, L(P::bbb) * difference_b) + end)).store(out + 3 * width + i);
    }
}

/// The reverse for gradients: [tiles * m, width] to the products' [6][tiles, width].
template <class T>
void filter_gradient(const T* grad, std::int64_t tiles, int m, std::int64_t width, T* to, std::int64_t plane) {
  using L = Lanes<T>;
  using P = Points<T>;
  for (std::int64_t j = 0; j < tiles; ++j, grad += m * width, to += width)
    for (std::int64_t i = 0; i < width; i += L::size) {
      const L g0 = L::load(grad + i), g1 = L::load(grad + width + i);
      L even_a = g0, even_b = g0, odd_a = L(P::a) * g1, odd_b = L(P::b) * g1, end = g1;
      if (m == 4) {
        const L g2 = L::load(grad + 2 * width + i), g3 = L::load(grad + 3 * width + i);
        even_a = fma(L(P::aa), g2, even_a), even_b = fma(L(P::bb), g2, even_b);
        odd_a = fma(L(P::aaa), g3, odd_a), odd_b = fma(L(P::bbb), g3, odd_b);
        end = g3;
      }
      g0.store(to + i);
      (even_a + odd_a).store(to + plane + i);
      (even_a - odd_a).store(to + 2 * plane + i);
      (even_b + odd_b).store(to + 3 * plane + i);
      (even_b - odd_b).store(to + 4 * plane + i);
      end.store(to + 5 * plane + i);
    }
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
