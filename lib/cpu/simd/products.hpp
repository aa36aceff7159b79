// Small matrix products and the recurrent sequence made of them. Included by kernels_*.cpp behind loops.hpp.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

enum class After { nothing, tanh, relu };

// A tile keeps its sums in registers: as many rows as fit beside the right operand's columns and one broadcast.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kTileSums = 24, kTileLanes = 4;  // of 32 registers
#else
constexpr int kTileSums = 12, kTileLanes = 2;  // of 16 registers
#endif
constexpr int tile_rows(int columns) { return columns == 1 ? 12 : kTileSums / columns; }

template <class T>
CAPSTAN_INLINE Lanes<T> finish(Lanes<T> x, After after) {
  if (after == After::relu) return kernels::Relu::forward(x);
  if (after == After::tanh) return kernels::Tanh::forward(x);
  return x;
}

/// Calls `use` with 0 .. N-1 as constants: arrays that are indexed so stay in registers.
template <int N, class F>
CAPSTAN_INLINE void unrolled(F use) {
  [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
    (use(std::integral_constant<int, I>()), ...);
  }(std::make_integer_sequence<int, N>());
}

/// Rows x (Columns registers), of which the last holds `last` values.
template <int Rows, int Columns, class T>
void gemm_tile(const SmallGemm<T>& g, const T* a, const T* b, T* c, int last, After after) {
  using L = Lanes<T>;
  const std::int64_t a_row = g.a_row, a_column = g.a_column, b_row = g.b_row, c_row = g.c_row;
  const bool whole = last == L::size;
  const auto get = [=](const T* from, int j) __attribute__((always_inline)) {
    return j + 1 < Columns || whole ? L::load(from + j * L::size) : load_part(from + j * L::size, last);
  };
  L sums[Rows][Columns];
  unrolled<Rows>([&](auto i) __attribute__((always_inline)) {
    unrolled<Columns>([&](auto j) __attribute__((always_inline)) { sums[i][j] = g.accumulate ? get(c + i * c_row, j) : L(0); });
  });
  for (std::int64_t p = 0; p < g.k; ++p, a += a_column, b += b_row) {
    L right[Columns];
    unrolled<Columns>([&](auto j) __attribute__((always_inline)) {
      right[j] = j + 1 < Columns ? L::load(b + j * L::size) : load_part(b + j * L::size, last);
    });
    unrolled<Rows>([&](auto i) __attribute__((always_inline)) {
      const L left(a[i * a_row]);
      unrolled<Columns>([&](auto j) __attribute__((always_inline)) { sums[i][j] = fma(left, right[j], sums[i][j]); });
    });
  }
  unrolled<Rows>([&](auto i) __attribute__((always_inline)) {
    unrolled<Columns>([&](auto j) __attribute__((always_inline)) {
      const L value = finish(sums[i][j], after);
      T* to = c + i * c_row + j * L::size;
      if (j + 1 < Columns || whole) value.store(to);
      else store_part(value, to, last);
    });
  });
}

template <int Columns, class T>
void gemm_panel(const SmallGemm<T>& g, std::int64_t column, int last, After after) {
  const auto tiles = [&]<int Rows>(std::int64_t i, std::integral_constant<int, Rows>) {
    for (; i + Rows <= g.m; i += Rows)
      gemm_tile<Rows, Columns>(g, g.a + i * g.a_row, g.b + column, g.c + i * g.c_row + column, last, after);
    return i;
  };
  std::int64_t i = tiles(0, std::integral_constant<int, tile_rows(Columns)>());
  i = tiles(i, std::integral_constant<int, tile_rows(Columns) / 2>());
  i = tiles(i, std::integral_constant<int, 2>());
  tiles(i, std::integral_constant<int, 1>());
}

template <class T>
void gemm_then(const SmallGemm<T>& g, After after) {
  constexpr int size = Lanes<T>::size;
  for (std::int64_t column = 0; column < g.n;) {
    const std::int64_t left = g.n - column;
    const auto registers = static_cast<int>((left + size - 1) / size);
    const int take = registers < kTileLanes ? registers : kTileLanes;
    const int last = left >= take * size ? size : static_cast<int>(left - (take - 1) * size);
    if (take == 1) gemm_panel<1>(g, column, last, after);
    else if (take == 2) gemm_panel<2>(g, column, last, after);
    else if constexpr (kTileLanes > 2) {
      if (take == 3) gemm_panel<3>(g, column, last, after);
      else gemm_panel<4>(g, column, last, after);
    }
    column += take * size;
  }
}

template <class T>
void small_gemm(const SmallGemm<T>& g) {
  gemm_then(g, After::nothing);
}

// h[t] = activation(b + x[t] wx + h[t-1] wh). The bias and the input part of all steps come first, in one product.
template <class T>
void rnn_forward(const RnnRows<T>& r) {
  const std::int64_t steps = r.rows * r.time, step = r.time * r.hidden;
  for (std::int64_t s = 0; s < steps; ++s) std::memcpy(r.out + s * r.hidden, r.b, sizeof(T) * r.hidden);
  gemm_then<T>({r.x, r.inputs, 1, r.wx, r.hidden, r.out, r.hidden, steps, r.hidden, r.inputs, true}, After::nothing);
  const After after = r.relu ? After::relu : After::tanh;
  for (std::int64_t t = 0; t < r.time; ++t) {
    const T* before = t == 0 ? r.h0 : r.out + (t - 1) * r.hidden;
    gemm_then<T>({before, t == 0 ? r.hidden : step, 1, r.wh, r.hidden, r.out + t * r.hidden, step, r.rows, r.hidden,
                  r.hidden, true}, after);
  }
}

/// The gradient before the activation of step t: of the step's output, and of what comes after it.
template <class Op, class T>
void rnn_through_activation(const RnnRows<T>& r, std::int64_t t) {
  using L = Lanes<T>;
  const T* after = t + 1 < r.time ? r.carry : r.grad_last;
  for (std::int64_t row = 0; row < r.rows; ++row) {
    const std::int64_t at = (row * r.time + t) * r.hidden, here = row * r.hidden;
    for (std::int64_t j = 0; j < r.hidden; j += L::size) {
      const std::int64_t width = r.hidden - j < L::size ? r.hidden - j : L::size;
      L grad = r.grad != nullptr ? load_part(r.grad + at + j, width) : L(0);
      if (after != nullptr) grad = grad + load_part(after + here + j, width);
      store_part(Op::backward(grad, load_part(r.h + at + j, width)), r.pre + here + j, width);
    }
  }
}

template <class T>
void rnn_backward(const RnnRows<T>& r) {
  const std::int64_t step = r.time * r.hidden;
  const T one = T(1);
  for (std::int64_t t = r.time - 1; t >= 0; --t) {
    if (r.relu) rnn_through_activation<kernels::Relu>(r, t);
    else rnn_through_activation<kernels::Tanh>(r, t);
    const T* before = t == 0 ? r.h0 : r.h + (t - 1) * r.hidden;
    gemm_then<T>({before, 1, t == 0 ? r.hidden : step, r.pre, r.hidden, r.dwh, r.hidden, r.hidden, r.hidden, r.rows, true},
                 After::nothing);
    gemm_then<T>({r.x + t * r.inputs, 1, r.time * r.inputs, r.pre, r.hidden, r.dwx, r.hidden, r.inputs, r.hidden, r.rows,
                  true}, After::nothing);
    gemm_then<T>({&one, 0, 0, r.pre, r.hidden, r.db, r.hidden, 1, r.hidden, r.rows, true}, After::nothing);
    if (r.dx != nullptr)
      gemm_then<T>({r.pre, r.hidden, 1, r.wx_t, r.inputs, r.dx + t * r.inputs, r.time * r.inputs, r.rows, r.inputs,
                    r.hidden, false}, After::nothing);
    gemm_then<T>({r.pre, r.hidden, 1, r.wh_t, r.hidden, t == 0 ? r.dh0 : r.carry, r.hidden, r.rows, r.hidden, r.hidden,
                  false}, After::nothing);
  }
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
