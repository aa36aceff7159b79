// Small matrix products and the recurrent sequence made of them. Included by kernels_*.cpp behind loops.hpp.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

// A tile keeps its sums in registers: as many rows as fit beside the right operand's columns and one broadcast.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kTileSums = 4, kTileLanes = 2;  // the same code in little: instrumented tiles take minutes to compile
#elif defined(__AVX512F__) || defined(__aarch64__)
constexpr int kTileSums = 24, kTileLanes = 4;  // of 32 registers
#else
constexpr int kTileSums = 12, kTileLanes = 2;  // of 16 registers
#endif
// With AVX2 it is called: in a loop over tiles, GCC keeps constants in registers that sums need, and some of these in
// memory.
#if defined(__AVX2__) && !defined(__AVX512F__)
#define CAPSTAN_TILE [[gnu::noinline]]
#else
#define CAPSTAN_TILE
#endif
constexpr int tile_rows(int columns) { return columns == 1 && kTileSums > 12 ? 12 : kTileSums / columns; }

/// a [m, k] * b [k, n], or its part. Element (i, p) of a is a[i * a_row + p * a_column]; b has unit columns.
template <class T> struct Factors {
  const T* a;
  std::int64_t a_row, a_column;
  const T* b;
  std::int64_t b_row, k;
};

/// Calls `use` with 0 .. N-1 as constants: arrays that are indexed so stay in registers.
template <int N, class F> CAPSTAN_INLINE void unrolled(F use) {
  [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
    (use(std::integral_constant<int, I>()), ...);
  }
  (std::make_integer_sequence<int, N>());
}

/// Whether the widest tiles, and with four registers those of three, are there a second time for whole registers alone.
#if defined(CAPSTAN_SIMD_X86) && !defined(__AVX2__)
template <class T> constexpr bool kWholeTiles = false;
#else
template <class T> constexpr bool kWholeTiles = sizeof(T) == 4;
#endif

/// How many values the last register of a tile holds, where they fit its first half. `Whole`: all count, and are loaded
/// without a mask, which to some processors is another operation beside the multiply-adds. An `int` in all other tiles.
struct InHalf {
  int count;
};
template <class T> CAPSTAN_INLINE Lanes<T> load_part(const T* p, InHalf last) { return load_part(p, last.count); }
template <class T> CAPSTAN_INLINE int count_of(Whole) { return Lanes<T>::size; }
template <class T> CAPSTAN_INLINE int count_of(int last) { return last; }
template <class T> CAPSTAN_INLINE int count_of(InHalf last) { return last.count; }

/// One step of a product: adds column p of `a` times row p of `b` to the sums.
template <int Rows, int Columns, class Last, class T>
CAPSTAN_INLINE void add_outer(const T* a, std::int64_t a_row, const T* b, Last last, Lanes<T> (&sums)[Rows][Columns]) {
  using L = Lanes<T>;
  L right[Columns];
  unrolled<Columns>([&](auto j) __attribute__((always_inline)) {
    if constexpr (j + 1 < Columns) right[j] = L::load(b + j * L::size);
    else right[j] = load_part(b + j * L::size, last);
  });
  unrolled<Rows>([&](auto i) __attribute__((always_inline)) {
    const L left(a[i * a_row]);
    unrolled<Columns>([&](auto j) __attribute__((always_inline)) {
      if constexpr (std::is_same_v<Last, InHalf> && j + 1 == Columns) sums[i][j] = fma_half(left, right[j], sums[i][j]);
      else sums[i][j] = fma(left, right[j], sums[i][j]);
    });
  });
}

/// Adds a product to the sums of a tile: Rows x (Columns registers), of which the last holds `last` values.
template <int Rows, int Columns, class Last, class T>
CAPSTAN_INLINE void add_product(const Factors<T>& f, std::int64_t row, std::int64_t column, Last last,
                                Lanes<T> (&sums)[Rows][Columns]) {
  using L = Lanes<T>;
  const T* a = f.a + row * f.a_row;
  const T* b = f.b + column;
  const std::int64_t a_row = f.a_row, a_column = f.a_column, b_row = f.b_row, k = f.k;
  std::int64_t p = 0;
  if constexpr (Rows == 1) {  // too few sums to hide how long an addition takes: four of each, every fourth step
    L more[3][1][Columns];
    unrolled<3>([&](auto s) __attribute__((always_inline)) {
      unrolled<Columns>([&](auto j) __attribute__((always_inline)) { more[s][0][j] = L(0); });
    });
    for (; p + 4 <= k; p += 4, a += 4 * a_column, b += 4 * b_row) {
      add_outer<1, Columns>(a, 0, b, last, sums);
      unrolled<3>([&](auto s) __attribute__((always_inline)) {
        add_outer<1, Columns>(a + (s + 1) * a_column, 0, b + (s + 1) * b_row, last, more[s]);
      });
    }
    unrolled<Columns>([&](auto j) __attribute__((always_inline)) {
      sums[0][j] = (sums[0][j] + more[0][0][j]) + (more[1][0][j] + more[2][0][j]);
    });
  }
  if (std::is_same_v<Last, Whole> && a_column == 1)  // two steps a turn, so that counting takes fewer operations
    for (; p + 2 <= k; p += 2, a += 2, b += 2 * b_row) {
      add_outer<Rows, Columns>(a, a_row, b, last, sums);
      asm volatile("" ::: "memory");  // else loads of the second step come first, and take registers of the sums
      add_outer<Rows, Columns>(a + 1, a_row, b + b_row, last, sums);
    }
  for (; p < k; ++p, a += a_column, b += b_row) add_outer<Rows, Columns>(a, a_row, b, last, sums);
}

/// finish(start(row, column, count) + products, row, column, count) to c, for each register of the result. `count` is
/// the number of values in it that count, `start` and `finish` are given the place of the first.
template <int Rows, int Columns, class T, class Last, class Start, class Finish, class... More>
CAPSTAN_TILE void gemm_tile(std::int64_t row, std::int64_t column, Last last, Start start, Finish finish,
                            const Factors<T>& first, const More&... more) {
  using L = Lanes<T>;
  const auto count = [=](int j) __attribute__((always_inline)) {
    return j + 1 < Columns ? L::size : count_of<T>(last);
  };
  if constexpr (std::is_same_v<Last, Whole> && requires { finish.fetch(row, column); })
    if (finish.far)
#pragma GCC unroll 1
      for (int i = 0; i < Rows; ++i)
        for (int j = 0; j < Columns; ++j) finish.fetch(row + i, column + j * L::size);
  L sums[Rows][Columns];
  unrolled<Rows>([&](auto i) __attribute__((always_inline)) {
    unrolled<Columns>([&](auto j) __attribute__((always_inline)) {
      sums[i][j] = start(row + i, column + j * L::size, count(j));
    });
  });
  add_product<Rows, Columns>(first, row, column, last, sums);
  (add_product<Rows, Columns>(more, row, column, last, sums), ...);
  unrolled<Rows>([&](auto i) __attribute__((always_inline)) {
    unrolled<Columns>([&](auto j) __attribute__((always_inline)) {
      finish(sums[i][j], row + i, column + j * L::size, count(j));
    });
  });
}

template <int Columns, class T, class Last, class... Rest>
void gemm_panel(std::int64_t m, std::int64_t column, Last last, const Rest&... rest) {
  constexpr int kRows = tile_rows(Columns);
  // Two or three rows of two registers are too few sums to hide how long an addition takes: of eight rows that are left
  // four and four instead of six and two, of eleven four, four and three.
  constexpr bool kFours = kRows == 6 && Columns == 2;
  const std::int64_t last_six = kFours && m % 3 == 2 ? m - m % 6 - 6 : m;
  const auto tiles = [&]<int Rows>(std::int64_t i, std::integral_constant<int, Rows>) {
    for (const std::int64_t end = Rows == kRows ? last_six : m; i + Rows <= end; i += Rows) {
      if constexpr (Rows == kRows) gemm_tile<Rows, Columns, T>(i, column, last, rest...);
      else gemm_tile<Rows, Columns, T>(i, column, count_of<T>(last), rest...);  // these are few
    }
    return i;
  };
  std::int64_t i = tiles(0, std::integral_constant<int, kRows>());
  if constexpr (kRows > 6) i = tiles(i, std::integral_constant<int, kRows / 2>());
  if constexpr (kRows > 4)  // of five rows left three and two are faster than four and one
    if (m - i != 5 || kRows > 6) i = tiles(i, std::integral_constant<int, 4>());
  if constexpr (kRows <= 6) i = tiles(i, std::integral_constant<int, kRows / 2>());
  if constexpr (kRows > 4) i = tiles(i, std::integral_constant<int, 2>());
  tiles(i, std::integral_constant<int, 1>());
}

/// All tiles of a result [m, n]; `rest` is what gemm_tile takes from `start` on.
template <class T, class... Rest> void for_tiles(std::int64_t m, std::int64_t n, const Rest&... rest) {
  constexpr int size = Lanes<T>::size;
  for (std::int64_t column = 0; column < n;) {
    const std::int64_t left = n - column;
    const auto registers = static_cast<int>((left + size - 1) / size);
    const int take = registers < kTileLanes ? registers : kTileLanes;
    const int last = left >= take * size ? size : static_cast<int>(left - (take - 1) * size);
    const auto panel = [&]<int Columns>(std::integral_constant<int, Columns>) {
      if constexpr (kHasHalves<T> && Columns <= 2)
        if (2 * last <= size) return gemm_panel<Columns, T>(m, column, InHalf{last}, rest...);
      if constexpr (kWholeTiles<T> && Columns > 1 && Columns + 1 >= kTileLanes)
        if (last == size) return gemm_panel<Columns, T>(m, column, Whole(), rest...);
      gemm_panel<Columns, T>(m, column, last, rest...);
    };
    if (take == 1) panel(std::integral_constant<int, 1>());
    else if (take == 2) panel(std::integral_constant<int, 2>());
    else if constexpr (kTileLanes > 2) {
      if (take == 3) panel(std::integral_constant<int, 3>());
      else panel(std::integral_constant<int, 4>());
    }
    column += take * size;
  }
}

// What sums start from and where they go.

template <class T> struct FromZero {
  CAPSTAN_INLINE Lanes<T> operator()(std::int64_t, std::int64_t, int) const { return Lanes<T>(0); }
};
template <class T> struct FromRow {  // the same for all rows: a bias; zeros if it is null
  const T* values;
  CAPSTAN_INLINE Lanes<T> operator()(std::int64_t, std::int64_t column, int count) const {
    return values == nullptr ? Lanes<T>(0) : load_part(values + column, count);
  }
};
template <class T> struct FromMatrix {
  const T* c;
  std::int64_t c_row;
  CAPSTAN_INLINE Lanes<T> operator()(std::int64_t row, std::int64_t column, int count) const {
    return load_part(c + row * c_row + column, count);
  }
};
template <class T> struct ToMatrix {
  T* c;
  std::int64_t c_row;
  bool far = false;  // beyond the second-level cache, into which whole tiles are fetched while their sums are made
  CAPSTAN_INLINE void fetch(std::int64_t row, std::int64_t column) const {
    __builtin_prefetch(c + row * c_row + column, 1, 2);
  }
  CAPSTAN_INLINE void operator()(Lanes<T> x, std::int64_t row, std::int64_t column, int count) const {
    store_part(x, c + row * c_row + column, count);
  }
};
template <class T> struct OntoMatrix : ToMatrix<T> {  // added to what is there: long sums are made of short ones
  CAPSTAN_INLINE void operator()(Lanes<T> x, std::int64_t row, std::int64_t column, int count) const {
    T* to = this->c + row * this->c_row + column;
    store_part(load_part(to, count) + x, to, count);
  }
};
template <class Op, class T> struct ThroughOp {  // to a matrix, through an activation
  ToMatrix<T> to;
  CAPSTAN_INLINE void operator()(Lanes<T> x, std::int64_t row, std::int64_t column, int count) const {
    to(Op::forward(x), row, column, count);
  }
};

template <class T> void small_gemm(const SmallGemm<T>& g) {
  const Factors<T> f{g.a, g.a_row, g.a_column, g.b, g.b_row, g.k};
  if (g.accumulate) for_tiles<T>(g.m, g.n, FromZero<T>{}, OntoMatrix<T>{{g.c, g.c_row, g.far}}, f);
  else for_tiles<T>(g.m, g.n, FromRow<T>{g.bias}, ToMatrix<T>{g.c, g.c_row, g.far}, f);
}

/// Rows x Columns dot products, to c.
template <int Rows, int Columns, class T>
CAPSTAN_INLINE void dot_tile(const SmallGemm<T>& g, std::int64_t row, std::int64_t column) {
  using L = Lanes<T>;
  const T *a = g.a + row * g.a_row, *b = g.b + column * g.b_row;
  const std::int64_t a_row = g.a_row, b_row = g.b_row, k = g.k;
  L sums[Rows][Columns];
  unrolled<Rows>([&](auto i) __attribute__((always_inline)) {
    unrolled<Columns>([&](auto j) __attribute__((always_inline)) { sums[i][j] = L(0); });
  });
  const auto add = [&](std::int64_t p, auto count) __attribute__((always_inline)) {
    L right[Columns];
    unrolled<Columns>([&](auto j) __attribute__((always_inline)) { right[j] = load_part(b + j * b_row + p, count); });
    unrolled<Rows>([&](auto i) __attribute__((always_inline)) {
      const L left = load_part(a + i * a_row + p, count);
      unrolled<Columns>([&](auto j) __attribute__((always_inline)) { sums[i][j] = fma(left, right[j], sums[i][j]); });
    });
  };
  std::int64_t p = 0;
  for (; p + L::size <= k; p += L::size) add(p, Whole());
  if (p < k) add(p, static_cast<int>(k - p));
  unrolled<Rows>([&](auto i) __attribute__((always_inline)) {
    unrolled<Columns>([&](auto j) __attribute__((always_inline)) {
      T& to = g.c[(row + i) * g.c_row + column + j];
      const T begin = g.accumulate ? to : g.bias == nullptr ? T(0) : g.bias[column + j];
      to = begin + add_lanes(sums[i][j]);
    });
  });
}

/// Products whose columns are so few that most of a register would be empty. Column j of the right operand is row j of
/// b; rows of both are contiguous.
template <class T> void dot_columns(const SmallGemm<T>& g) {
  const auto columns = [&]<int Columns>(std::int64_t column, std::integral_constant<int, Columns>) {
    constexpr int kRows = kTileSums < 6 ? 1 : Columns == 1 ? 4 : kTileSums / 6;  // each sum waits for itself
    std::int64_t row = 0;
    for (; row + kRows <= g.m; row += kRows) dot_tile<kRows, Columns>(g, row, column);
    for (; row < g.m; ++row) dot_tile<1, Columns>(g, row, column);
  };
  std::int64_t column = 0;
  for (; column + 2 <= g.n; column += 2) columns(column, std::integral_constant<int, 2>());
  if (column < g.n) columns(column, std::integral_constant<int, 1>());
}

/// Element (i, j) of as many matrices as a register has lanes, side by side in `to`.
template <class T>
void gather_lanes(const T* from, const std::int64_t* at, std::int64_t rows, std::int64_t row_step, std::int64_t columns,
                  std::int64_t column_step, T* to) {
  constexpr std::int64_t size = Lanes<T>::size;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j, to += size) {
      const T* const element = from + i * row_step + j * column_step;
      for (std::int64_t lane = 0; lane < size; ++lane) to[lane] = element[at[lane]];
    }
}

template <class T> void tiny_products(const TinyProducts<T>& p) {
  using L = Lanes<T>;
  alignas(64) T a[kTinyProduct * L::size];
  alignas(64) T sums[L::size];
  T* const b = a + p.m * p.k * L::size;
  gather_lanes(p.a, p.a_at, p.m, p.a_row, p.k, p.a_column, a);
  gather_lanes(p.b, p.b_at, p.n, p.b_column, p.k, p.b_row, b);  // columns one behind the other
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::int64_t j = 0; j < p.n; ++j) {
      const T *left = a + i * p.k * L::size, *right = b + j * p.k * L::size;
      L sum(0);
      for (std::int64_t t = 0; t < p.k; ++t, left += L::size, right += L::size)
        sum = fma(L::load(left), L::load(right), sum);
      sum.store(sums);
      T* to = p.c + i * p.n + j;
      for (std::int64_t lane = 0; lane < p.count; ++lane, to += p.m * p.n) *to = sums[lane];
    }
}

// --- a recurrent sequence: h[t] = activation(b + x[t] wx + h[t-1] wh) ---

template <class Op, class T> void rnn_forward_with(const RnnRows<T>& r) {
  const std::int64_t x_step = r.time * r.inputs, h_step = r.time * r.hidden;
  for (std::int64_t t = 0; t < r.time; ++t) {
    const Factors<T> input{r.x + t * r.inputs, x_step, 1, r.wx, r.hidden, r.inputs};
    const T* before = t == 0 ? r.h0 : r.out + (t - 1) * r.hidden;
    const Factors<T> recurrent{before, t == 0 ? r.hidden : h_step, 1, r.wh, r.hidden, r.hidden};
    for_tiles<T>(r.rows, r.hidden, FromRow<T>{r.b}, ThroughOp<Op, T>{{r.out + t * r.hidden, h_step}}, input, recurrent);
  }
}

template <class T> void rnn_forward(const RnnRows<T>& r) {
  if (r.relu) rnn_forward_with<kernels::Relu>(r);
  else rnn_forward_with<kernels::Tanh>(r);
}

/// The gradient before the activation of step t, from that of its output: what came back through later steps, `x`,
/// and what the caller gave for this step.
template <class Op, class T> struct BeforeActivation {
  const RnnRows<T>& r;
  std::int64_t t;
  T* to;  // [rows, hidden]
  CAPSTAN_INLINE void operator()(Lanes<T> x, std::int64_t row, std::int64_t column, int count) const {
    const std::int64_t at = (row * r.time + t) * r.hidden + column;
    if (r.grad != nullptr) x = x + load_part(r.grad + at, count);
    store_part(Op::backward(x, load_part(r.h + at, count)), to + row * r.hidden + column, count);
  }
};

/// Adds a product over the rows to a sum over the steps.
template <class T> void add_rows_product(std::int64_t m, std::int64_t n, const Factors<T>& f, T* c) {
  for_tiles<T>(m, n, FromMatrix<T>{c, n}, ToMatrix<T>{c, n}, f);
}

/// Long sums are made of short ones, here of those over some steps.
constexpr std::int64_t kStepsOfSum = 8;

template <class T> void move_sums(std::int64_t count, T* from, T* to) {
  using L = Lanes<T>;
  std::int64_t i = 0;
  for (; i + L::size <= count; i += L::size) {
    (L::load(to + i) + L::load(from + i)).store(to + i);
    L(0).store(from + i);
  }
  for (; i < count; ++i) {
    to[i] += from[i];
    from[i] = T(0);
  }
}

template <class Op, class T> void rnn_backward_with(const RnnRows<T>& r) {
  using L = Lanes<T>;
  const std::int64_t h_step = r.time * r.hidden, x_step = r.time * r.inputs;
  const T one = T(1);
  T *pre = r.pre, *next = r.carry;
  for (std::int64_t row = 0; row < r.rows; ++row)
    for (std::int64_t j = 0; j < r.hidden; j += L::size) {
      const auto count = static_cast<int>(r.hidden - j < L::size ? r.hidden - j : L::size);
      const L last = r.grad_last != nullptr ? load_part(r.grad_last + row * r.hidden + j, count) : L(0);
      BeforeActivation<Op, T>{r, r.time - 1, pre}(last, row, j, count);
    }
  for (std::int64_t t = r.time - 1; t >= 0; --t) {
    const T* before = t == 0 ? r.h0 : r.h + (t - 1) * r.hidden;
    T *dwx = r.sums, *dwh = dwx + r.inputs * r.hidden, *db = dwh + r.hidden * r.hidden;
    add_rows_product<T>(r.hidden, r.hidden, {before, 1, t == 0 ? r.hidden : h_step, pre, r.hidden, r.rows}, dwh);
    add_rows_product<T>(r.inputs, r.hidden, {r.x + t * r.inputs, 1, x_step, pre, r.hidden, r.rows}, dwx);
    add_rows_product<T>(1, r.hidden, {&one, 0, 0, pre, r.hidden, r.rows}, db);
    if (t % kStepsOfSum == 0) move_sums((r.inputs + r.hidden + 1) * r.hidden, r.sums, r.totals);
    if (r.dx != nullptr)
      small_gemm<T>(
          {pre, r.hidden, 1, r.wx_t, r.inputs, r.dx + t * r.inputs, x_step, r.rows, r.inputs, r.hidden, false});
    const Factors<T> back{pre, r.hidden, 1, r.wh_t, r.hidden, r.hidden};
    if (t == 0) for_tiles<T>(r.rows, r.hidden, FromRow<T>{nullptr}, ToMatrix<T>{r.dh0, r.hidden}, back);
    else for_tiles<T>(r.rows, r.hidden, FromZero<T>{}, BeforeActivation<Op, T>{r, t - 1, next}, back);
    std::swap(pre, next);
  }
}

template <class T> void rnn_backward(const RnnRows<T>& r) {
  if (r.relu) rnn_backward_with<kernels::Relu>(r);
  else rnn_backward_with<kernels::Tanh>(r);
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
