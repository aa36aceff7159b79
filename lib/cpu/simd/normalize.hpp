// Layers that normalize: statistics, results and gradients of rows, of planes and of columns. Included by kernels_*.cpp
// behind loops.hpp.
//
// Distances are taken from a number near the mean, so that what all values have in common costs no digits. Sums in
// lanes become double after 32 values (128 down columns).
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

constexpr std::int64_t kNormSteps = 32;

/// Calls `use(i, width)` for each register of `count` values: it begins at i and holds `width` of them. A turn takes
/// `Side` registers, while there are as many.
template <class T, int Side = 1, class F> CAPSTAN_INLINE void norm_lanes(std::int64_t count, F use) {
  constexpr std::int64_t kSize = Lanes<T>::size;
  std::int64_t i = 0;
  for (; i + Side * kSize <= count; i += Side * kSize)
    unrolled<Side>([&](auto k) __attribute__((always_inline)) { use(i + k * kSize, kSize); });
  if constexpr (Side > 1)
    for (; i + kSize <= count; i += kSize) use(i, kSize);
  if (i < count) use(i, count - i);
}

/// Ones where the last register of `count` values has some, zeros behind them.
template <class T> CAPSTAN_INLINE Lanes<T> norm_tail(std::int64_t count) {
  constexpr std::int64_t kSize = Lanes<T>::size;
  T ones[kSize];
  for (std::int64_t k = 0; k < kSize; ++k) ones[k] = k < count % kSize ? T(1) : T(0);
  return Lanes<T>::load(ones);
}

/// About the mean; another value where the sum has overflowed, and 0 where that is infinite itself.
template <class T> CAPSTAN_INLINE T norm_shift(double mean, T otherwise) {
  const T rounded = static_cast<T>(mean);
  return rounded - rounded == T(0) ? rounded : finite_or_zero(otherwise);
}

/// A number near the mean. Of a long row it is that of the first quarter, which whatever the values are lies within two
/// standard deviations.
template <class T> CAPSTAN_INLINE double norm_near_mean(const T* x, std::int64_t count) {
  constexpr std::int64_t kPart = 4, kFew = 8 * Lanes<T>::size;
  const std::int64_t picked = count < kPart * kFew ? count : count / kPart;
  return sum(x, picked) / static_cast<double>(picked);
}

/// Adds the sums of x - shift and of its square. `tail` is norm_tail of the count.
template <class T>
CAPSTAN_INLINE void norm_add_distances(const T* x, T shift, Lanes<T> tail, std::int64_t count, double* first,
                                       double* second) {
  using L = Lanes<T>;
  constexpr int kRegisters = 4;
  constexpr std::int64_t kBlock = kNormSteps * kRegisters * L::size;
  const L from(shift);
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t end = begin + kBlock < count ? begin + kBlock : count;
    L sums[kRegisters], squares[kRegisters];
    for (int r = 0; r < kRegisters; ++r) sums[r] = L(0), squares[r] = L(0);
    std::int64_t i = begin;
    for (; i + kRegisters * L::size <= end; i += kRegisters * L::size)
      for (int r = 0; r < kRegisters; ++r) {
        const L distance = L::load(x + i + r * L::size) - from;
        sums[r] = sums[r] + distance;
        squares[r] = fma(distance, distance, squares[r]);
      }
    for (; i + L::size <= end; i += L::size) {
      const L distance = L::load(x + i) - from;
      sums[0] = sums[0] + distance;
      squares[0] = fma(distance, distance, squares[0]);
    }
    if (i < end) {
      const L distance = (load_part(x + i, end - i) - from) * tail;
      sums[1] = sums[1] + distance;
      squares[1] = fma(distance, distance, squares[1]);
    }
    *first += static_cast<double>(add_lanes((sums[0] + sums[1]) + (sums[2] + sums[3])));
    *second += static_cast<double>(add_lanes((squares[0] + squares[1]) + (squares[2] + squares[3])));
  }
}

/// Adds to three sums: of grad, of grad * (x - shift) and of x - shift.
template <class T>
CAPSTAN_INLINE void norm_add_products(const T* grad, const T* x, T shift, Lanes<T> tail, std::int64_t count,
                                      double* totals) {
  using L = Lanes<T>;
  constexpr int kRegisters = 2;
  constexpr std::int64_t kBlock = kNormSteps * kRegisters * L::size;
  const L from(shift);
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t end = begin + kBlock < count ? begin + kBlock : count;
    L grads[kRegisters], products[kRegisters], distances[kRegisters];
    for (int r = 0; r < kRegisters; ++r) grads[r] = L(0), products[r] = L(0), distances[r] = L(0);
    std::int64_t i = begin;
    for (; i + kRegisters * L::size <= end; i += kRegisters * L::size)
      for (int r = 0; r < kRegisters; ++r) {
        const std::int64_t at = i + r * L::size;
        const L g = L::load(grad + at), distance = L::load(x + at) - from;
        grads[r] = grads[r] + g;
        products[r] = fma(g, distance, products[r]);
        distances[r] = distances[r] + distance;
      }
    for (; i < end; i += L::size) {
      const std::int64_t width = end - i < L::size ? end - i : L::size;
      const L g = load_lanes(grad + i, width);  // 0 behind the end
      L distance = load_lanes(x + i, width) - from;
      if (width < L::size) distance = distance * tail;
      grads[0] = grads[0] + g;
      products[0] = fma(g, distance, products[0]);
      distances[0] = distances[0] + distance;
    }
    totals[0] += static_cast<double>(add_lanes(grads[0] + grads[1]));
    totals[1] += static_cast<double>(add_lanes(products[0] + products[1]));
    totals[2] += static_cast<double>(add_lanes(distances[0] + distances[1]));
  }
}

// --- rows ---

/// Rows that are gone over together, from the first-level cache: each step of a row waits for the one before.
constexpr std::int64_t kNormRows = 16, kNormBytes = 16 << 10;

/// What a row is made of: (x - center) * factor + rest. The last is what rounding the mean took.
template <class T> struct NormRule { T center, factor, rest; };

/// Lane i is the sum of the lanes of rows[i], for i < count; behind an odd number of rows there must be one of zeros. A
/// row's sum does not depend on the other rows.
template <int Rows, class T> CAPSTAN_INLINE Lanes<T> add_lanes_of(const Lanes<T>* rows, std::int64_t count) {
  if constexpr (Rows == 1) {
    return rows[0];
  } else {
    Lanes<T> pairs[Rows / 2];
    unrolled<Rows / 2>([&](auto i) __attribute__((always_inline)) {
      pairs[i] = Lanes<T>(0);
      if (2 * i >= count) return;
      const EvenOdd<T> of = deinterleave(rows[2 * i], rows[2 * i + 1]);
      pairs[i] = of.even + of.odd;
    });
    return add_lanes_of<Rows / 2>(pairs, (count + 1) / 2);
  }
}

/// Values of a row that is short: the sums of as many rows as a register has lanes are then made together.
template <class T>
constexpr std::int64_t kShortRow = kNormBytes < kNormRows* kNormSteps* static_cast<std::int64_t>(sizeof(Lanes<T>))
                                       ? kNormBytes / (kNormRows * static_cast<std::int64_t>(sizeof(T)))
                                       : kNormSteps* Lanes<T>::size;

/// In lanes that are yet to be added: of some short rows the sums of x, or with shifts those of x - shift and of its
/// square. Every second register has sums of its own, so that a single row waits half as long for its additions.
template <int Rows, class T>
CAPSTAN_INLINE void norm_short_rows(const T* x, std::int64_t count, const T* shifts, Lanes<T> tail, Lanes<T>* sums,
                                    Lanes<T>* squares) {
  using L = Lanes<T>;
  L from[Rows], sum[2][Rows], square[2][Rows];
  unrolled<Rows>([&](auto k) __attribute__((always_inline)) {
    from[k] = L(shifts == nullptr ? T(0) : shifts[k]);
    sum[0][k] = sum[1][k] = square[0][k] = square[1][k] = L(0);
  });
  const auto add = [&](auto to, std::int64_t i, auto width) __attribute__((always_inline)) {
    constexpr bool kPart = !std::is_same_v<decltype(width), Whole>;
    unrolled<Rows>([&](auto k) __attribute__((always_inline)) {
      L value = load_part(x + k * count + i, width);
      if (shifts != nullptr) {
        value = value - from[k];
        if constexpr (kPart) value = value * tail;
        square[to][k] = fma(value, value, square[to][k]);
      }
      sum[to][k] = sum[to][k] + value;
    });
  };
  constexpr std::integral_constant<int, 0> kEven;
  constexpr std::integral_constant<int, 1> kOdd;
  std::int64_t i = 0;
  for (; i + 2 * L::size <= count; i += 2 * L::size) {
    add(kEven, i, Whole());
    add(kOdd, i + L::size, Whole());
  }
  if (i + L::size <= count) add(kEven, i, Whole()), i += L::size;
  if (i < count) add(kOdd, i, count - i);
  unrolled<Rows>([&](auto k) __attribute__((always_inline)) {
    sums[k] = sum[0][k] + sum[1][k];
    squares[k] = square[0][k] + square[1][k];
  });
}

/// These sums of 1 .. Lanes<T>::size rows; those of squares are written if there are shifts.
template <class T>
CAPSTAN_INLINE void norm_short_sums(const T* x, std::int64_t count, std::int64_t rows, const T* shifts, Lanes<T> tail,
                                    T* sums, T* squares) {
  constexpr int kSize = Lanes<T>::size;
#if defined(__AVX512F__)
  constexpr int kSide = 4;  // rows side by side: of 32 registers
#else
  constexpr int kSide = 2;
#endif
  Lanes<T> sums_of[kSize], squares_of[kSize];
  for (std::int64_t i = 0; i < rows;) {
    const bool all = i + kSide <= rows;
    const T* own = shifts == nullptr ? nullptr : shifts + i;
    if (all) norm_short_rows<kSide>(x + i * count, count, own, tail, sums_of + i, squares_of + i);
    else norm_short_rows<1>(x + i * count, count, own, tail, sums_of + i, squares_of + i);
    i += all ? kSide : 1;
  }
  if (rows < kSize) sums_of[rows] = squares_of[rows] = Lanes<T>(0);  // beside the last row
  add_lanes_of<kSize>(sums_of, rows).store(sums);
  if (shifts != nullptr) add_lanes_of<kSize>(squares_of, rows).store(squares);
}

/// Of each row a number near the mean, 0 if `centered` is false, and the sums of the distances and of their squares.
template <class T>
CAPSTAN_INLINE void norm_distances(const T* x, std::int64_t count, std::int64_t rows, bool centered, T* shifts,
                                   double* first, double* second) {
  constexpr std::int64_t kSize = Lanes<T>::size;
  const Lanes<T> tail = norm_tail<T>(count);
  if (count <= kShortRow<T>) {
    const double share = 1 / static_cast<double>(count);
    for (std::int64_t begin = 0; begin < rows; begin += kSize) {
      const std::int64_t some = rows - begin < kSize ? rows - begin : kSize;
      const T* from = x + begin * count;
      T sums[kSize], squares[kSize];
      if (centered) norm_short_sums<T>(from, count, some, nullptr, tail, sums, squares);
      for (std::int64_t i = 0; i < some; ++i)
        shifts[begin + i] = centered ? norm_shift(static_cast<double>(sums[i]) * share, from[i * count]) : T(0);
      norm_short_sums(from, count, some, shifts + begin, tail, sums, squares);
      for (std::int64_t i = 0; i < some; ++i) first[begin + i] = static_cast<double>(sums[i]);
      for (std::int64_t i = 0; i < some; ++i) second[begin + i] = static_cast<double>(squares[i]);
    }
  } else {
    for (std::int64_t i = 0; i < rows; ++i)
      shifts[i] = centered ? norm_shift(norm_near_mean(x + i * count, count), x[i * count]) : T(0);
    for (std::int64_t i = 0; i < rows; ++i)
      norm_add_distances(x + i * count, shifts[i], tail, count, first + i, second + i);
  }
  for (std::int64_t i = 0; i < rows; ++i)
    if (!(second[i] - second[i] == 0))  // squares that only double can hold
      spread(x + i * count, shifts[i], count, first + i, second + i);
}

/// The rules of rows that begin at x; writes their means, if there are any, and inverses.
template <class T>
CAPSTAN_INLINE void norm_rules(const NormRows<T>& r, std::int64_t begin, std::int64_t rows, NormRule<T>* rules) {
  const double share = 1 / static_cast<double>(r.count);
  const bool centered = r.mean != nullptr;
  T shifts[kNormRows];
  double first[kNormRows] = {}, second[kNormRows] = {};
  norm_distances(r.x + begin * r.count, r.count, rows, centered, shifts, first, second);
  for (std::int64_t i = 0; i < rows; ++i) {
    if (!centered) first[i] = 0;
    const double mean = static_cast<double>(shifts[i]) + first[i] * share;
    const double squares = second[i] - first[i] * first[i] * share;
    const double inverse = 1 / kernels::sqrt((squares < 0 ? 0 : squares) * share + r.epsilon);
    const T center = static_cast<T>(mean), factor = static_cast<T>(inverse);
    rules[i] = {center, factor, static_cast<T>((static_cast<double>(center) - mean) * inverse)};
    if (centered) r.mean[begin + i] = center;
    r.inverse[begin + i] = factor;
  }
}

template <bool kWeight, bool kBias, class T> void norm_rows_with(const NormRows<T>& r) {
  using L = Lanes<T>;
  [[maybe_unused]] const T *const weight = r.weight, *const bias = r.bias;  // else read anew behind every store
  const std::int64_t fitting = kNormBytes / (r.count * static_cast<std::int64_t>(sizeof(T)));
  const std::int64_t together = fitting < 1 ? 1 : fitting < kNormRows ? fitting : kNormRows;
  NormRule<T> rules[kNormRows];
  for (std::int64_t begin = 0; begin < r.rows; begin += together) {
    const std::int64_t rows = r.rows - begin < together ? r.rows - begin : together;
    norm_rules(r, begin, rows, rules);
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* x = r.x + (begin + row) * r.count;
      T* out = r.out + (begin + row) * r.count;
      const L from(rules[row].center), factor(rules[row].factor), rest(rules[row].rest);
      norm_lanes<T, 2>(
          r.count, [&](std::int64_t i, std::int64_t width) __attribute__((always_inline)) {
            L y = fma(load_lanes(x + i, width) - from, factor, rest);
            if constexpr (kWeight && kBias) y = fma(y, load_lanes(weight + i, width), load_lanes(bias + i, width));
            else if constexpr (kWeight) y = y * load_lanes(weight + i, width);
            else if constexpr (kBias) y = y + load_lanes(bias + i, width);
            store_lanes(y, out + i, width);
          });
    }
  }
}

template <class T> void norm_rows(const NormRows<T>& r) {
  if (r.weight != nullptr && r.bias != nullptr) norm_rows_with<true, true>(r);
  else if (r.weight != nullptr) norm_rows_with<true, false>(r);
  else if (r.bias != nullptr) norm_rows_with<false, true>(r);
  else norm_rows_with<false, false>(r);
}

/// Rows whose gradients are made side by side: sums for weights are then read and written once for all of them, and
/// their stores wait less for those of dx.
#if defined(__AVX512F__)
constexpr int kGradientRows = 4;  // of 32 registers
#elif defined(__aarch64__)
constexpr int kGradientRows = 2;
#else
constexpr int kGradientRows = 1;  // two would not fit 16 registers, nor their 13 rows of memory a set of the cache
#endif

/// What there may be beside rows. What there is not stands still: ones instead of weights, and a register's room for
/// what nobody wants.
template <class T> struct NormSides {
  const T* weight;
  T *dx, *dweight, *dbias;
  std::int64_t weight_step, dx_step, sums_step;
};

/// What makes the gradients of some rows: of each, its values are (x - from) * factor + shift.
template <int Rows, class T> struct NormSlopes {
  Lanes<T> from[Rows], factor[Rows], shift[Rows], by_value[Rows], offset[Rows];
};

template <int Rows, class T>
CAPSTAN_INLINE void norm_slopes(const NormGradients<T>& g, std::int64_t row, const double* totals,
                                NormSlopes<Rows, T>& to) {
  using L = Lanes<T>;
  const double share = 1 / static_cast<double>(g.step);
  const bool centered = g.mean != nullptr;
  for (int k = 0; k < Rows; ++k, ++row, totals += 3) {
    const auto inverse = static_cast<double>(g.inverse[row]);
    const double rest = centered ? totals[2] * share : 0, level = centered ? totals[0] * share : 0;
    const double slope = (totals[1] - rest * totals[0]) * inverse * share;  // the mean of g times the result
    to.from[k] = L(centered ? g.mean[row] : T(0)), to.factor[k] = L(g.inverse[row]);
    to.shift[k] = L(static_cast<T>(-rest * inverse)), to.by_value[k] = L(static_cast<T>(-slope * inverse));
    to.offset[k] = L(static_cast<T>(-level * inverse));
  }
}

/// Rows begin at `row`. Of those that `totals` belong to the gradients, of those from `next` on their totals, both in
/// one go if there are both: so memory is read while what was read before is used.
template <int Rows, bool kGradients, bool kTotals, class T>
void norm_gradient_rows(const NormGradients<T>& g, const NormSides<T> sides, std::int64_t row, const double* totals,
                        std::int64_t next, double* next_totals) {
  using L = Lanes<T>;
  constexpr std::int64_t kBlock = kNormSteps * L::size;
  const std::int64_t count = g.count, step = g.step;
  [[maybe_unused]] const L tail = norm_tail<T>(count);
  [[maybe_unused]] const T *grad = g.grad + row * step, *x = g.x + row * step;
  [[maybe_unused]] const T *next_grad = g.grad + next * step, *next_x = g.x + next * step;
  [[maybe_unused]] T* const dx = sides.dx + row * step * sides.dx_step;
  [[maybe_unused]] NormSlopes<Rows, T> of;
  [[maybe_unused]] L center[Rows];
  if constexpr (kGradients) norm_slopes(g, row, totals, of);
  if constexpr (kTotals) {
    for (int k = 0; k < Rows; ++k) center[k] = L(g.mean == nullptr ? T(0) : g.mean[next + k]);
    for (int i = 0; i < 3 * Rows; ++i) next_totals[i] = 0;
  }
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    [[maybe_unused]] L grads[Rows], products[Rows], distances[Rows];
    unrolled<Rows>([&](auto k) __attribute__((always_inline)) { grads[k] = products[k] = distances[k] = L(0); });
    norm_lanes<T>(
        count - begin < kBlock ? count - begin : kBlock, [&](std::int64_t offset,
                                                             std::int64_t width) __attribute__((always_inline)) {
          const std::int64_t i = begin + offset;
          const L weight = load_lanes(sides.weight + i * sides.weight_step, width);
          if constexpr (kGradients) {
            T *const dweight = sides.dweight + i * sides.sums_step, *const dbias = sides.dbias + i * sides.sums_step;
            L by_weight = load_lanes(dweight, width), by_bias = load_lanes(dbias, width);
            unrolled<Rows>([&](auto k) __attribute__((always_inline)) {
              const std::int64_t at = k * step + i;
              const L change = load_lanes(grad + at, width);
              const L value = fma(load_lanes(x + at, width) - of.from[k], of.factor[k], of.shift[k]);
              store_lanes(fma(change * weight, of.factor[k], fma(value, of.by_value[k], of.offset[k])),
                          dx + at * sides.dx_step, width);
              by_weight = fma(change, value, by_weight);
              by_bias = by_bias + change;
            });
            store_lanes(by_weight, dweight, width);
            store_lanes(by_bias, dbias, width);
          }
          if constexpr (kTotals)
            unrolled<Rows>([&](auto k) __attribute__((always_inline)) {
              const std::int64_t at = k * step + i;
              const L change = load_lanes(next_grad + at, width) * weight;
              L distance = load_lanes(next_x + at, width) - center[k];
              if (width < L::size) distance = distance * tail;
              grads[k] = grads[k] + change;
              products[k] = fma(change, distance, products[k]);
              distances[k] = distances[k] + distance;
            });
        });
    if constexpr (kTotals)
      unrolled<Rows>([&](auto k) __attribute__((always_inline)) {
        next_totals[3 * k] += static_cast<double>(add_lanes(grads[k]));
        next_totals[3 * k + 1] += static_cast<double>(add_lanes(products[k]));
        next_totals[3 * k + 2] += static_cast<double>(add_lanes(distances[k]));
      });
  }
}

/// Calls use(sides), in whose places there is something everywhere.
template <class T, class F> CAPSTAN_INLINE void with_norm_sides(const NormGradients<T>& g, F use) {
  T ones[Lanes<T>::size], unused[3][Lanes<T>::size] = {};
  for (T& one : ones) one = T(1);
  NormSides<T> sides{ones, unused[0], unused[1], unused[2], 0, 0, 0};
  if (g.weight != nullptr) sides.weight = g.weight, sides.weight_step = 1;
  if (g.dx != nullptr) sides.dx = g.dx, sides.dx_step = 1;
  if (g.dweight != nullptr) sides.dweight = g.dweight, sides.dbias = g.dbias, sides.sums_step = 1;
  use(sides);
}

template <class T> void norm_totals(const NormGradients<T>& g) {
  with_norm_sides(g, [&](const NormSides<T>& sides) {
    for (std::int64_t row = 0; row < g.rows; ++row)
      norm_gradient_rows<1, false, true>(g, sides, row, g.totals, row, g.totals + 3 * row);
  });
}

template <class T> void norm_gradients(const NormGradients<T>& g) {
  constexpr int kRows = kGradientRows;
  with_norm_sides(g, [&](const NormSides<T>& sides) {
    double room[2][3 * kRows], own[3], *totals = room[0], *next = room[1];
    std::int64_t row = 0, known = 0;  // rows that have totals
    if (g.totals == nullptr && 2 * kRows <= g.rows) {
      for (; known < kRows; ++known)
        norm_gradient_rows<1, false, true>(g, sides, known, own, known, totals + 3 * known);
      for (; row + 2 * kRows <= g.rows; row += kRows, known += kRows) {
        norm_gradient_rows<kRows, true, true>(g, sides, row, totals, row + kRows, next);
        std::swap(totals, next);
      }
    }
    for (const std::int64_t first = row; row < g.rows; ++row) {
      const double* given = g.totals != nullptr ? g.totals + 3 * row : row < known ? totals + 3 * (row - first) : own;
      if (given == own) norm_gradient_rows<1, false, true>(g, sides, row, own, row, own);
      norm_gradient_rows<1, true, false>(g, sides, row, given, row, own);
    }
  });
}

// --- planes ---

template <class T>
void plane_moments(const T* x, std::int64_t planes, std::int64_t step, std::int64_t count, T* shift, double* first,
                   double* second) {
  const Lanes<T> tail = norm_tail<T>(count);
  double total = 0;
  for (std::int64_t p = 0; p < planes; ++p) total += sum(x + p * step, count);
  *shift = norm_shift(total / (static_cast<double>(planes) * static_cast<double>(count)), x[0]);
  *first = *second = 0;
  for (std::int64_t p = 0; p < planes; ++p) norm_add_distances(x + p * step, *shift, tail, count, first, second);
  if (*second - *second == 0) return;
  *first = *second = 0;  // squares that only double can hold
  for (std::int64_t p = 0; p < planes; ++p) {
    double distances, squares;
    spread(x + p * step, *shift, count, &distances, &squares);
    *first += distances;
    *second += squares;
  }
}

template <class T>
void plane_products(const T* grad, const T* x, T shift, std::int64_t planes, std::int64_t step, std::int64_t count,
                    double* totals) {
  const Lanes<T> tail = norm_tail<T>(count);
  totals[0] = totals[1] = totals[2] = 0;
  for (std::int64_t p = 0; p < planes; ++p)
    norm_add_products(grad + p * step, x + p * step, shift, tail, count, totals);
}

template <class T>
void plane_rule(const ChannelRule<T>& rule, const T* grad, const T* x, std::int64_t planes, std::int64_t count,
                T* out) {
  using L = Lanes<T>;
  for (std::int64_t p = 0; p < planes; ++p, x += count, out += count) {
    const L from(rule.shift[p]), by_x(rule.by_x[p]), offset(rule.offset[p]);
    if (grad == nullptr) {
      norm_lanes<T>(
          count, [&](std::int64_t i, std::int64_t width) __attribute__((always_inline)) {
            store_lanes(fma(load_lanes(x + i, width) - from, by_x, offset), out + i, width);
          });
      continue;
    }
    const L by_grad(rule.by_grad[p]);
    const T* change = grad + p * count;
    norm_lanes<T>(
        count, [&](std::int64_t i, std::int64_t width) __attribute__((always_inline)) {
          const L rest = fma(load_lanes(x + i, width) - from, by_x, offset);
          store_lanes(fma(load_lanes(change + i, width), by_grad, rest), out + i, width);
        });
  }
}

// --- columns ---

#if defined(__AVX512F__)
constexpr int kStripLanes = 4;  // side by side: of 32 registers
#else
constexpr int kStripLanes = 2;  // of 16 registers
#endif
constexpr std::int64_t kStripRows = 128;

/// Adds what the lanes hold to sums in double.
template <class T> CAPSTAN_INLINE void norm_flush(Lanes<T> lanes, double* sums, std::int64_t width) {
  T flat[Lanes<T>::size];
  lanes.store(flat);
  for (std::int64_t k = 0; k < width; ++k) sums[k] += static_cast<double>(flat[k]);
}

/// Columns side by side: so many registers, of which the last holds `last` of them.
template <int Registers, class T>
CAPSTAN_INLINE void distance_strip(const T* rows, std::int64_t row_step, std::int64_t row_count, const T* shifts,
                                   std::int64_t last, double* first, double* second) {
  using L = Lanes<T>;
  const auto width = [=](int r) __attribute__((always_inline)) {
    return r + 1 < Registers ? std::int64_t{L::size} : last;
  };
  L from[Registers], sums[Registers], squares[Registers];
  for (int r = 0; r < Registers; ++r)
    from[r] = load_lanes(shifts + r * L::size, width(r)), sums[r] = L(0), squares[r] = L(0);
  for (std::int64_t row = 0; row < row_count; ++row, rows += row_step)
    for (int r = 0; r < Registers; ++r) {
      const L distance = load_lanes(rows + r * L::size, width(r)) - from[r];
      sums[r] = sums[r] + distance;
      squares[r] = fma(distance, distance, squares[r]);
    }
  for (int r = 0; r < Registers; ++r) {
    norm_flush(sums[r], first + r * L::size, width(r));
    norm_flush(squares[r], second + r * L::size, width(r));
  }
}

template <class T>
void column_distances(const T* rows, std::int64_t row_step, std::int64_t row_count, const T* shifts, std::int64_t count,
                      double* first, double* second) {
  constexpr std::int64_t kSize = Lanes<T>::size, kWide = kStripLanes * kSize;
  for (std::int64_t begin = 0; begin < row_count; begin += kStripRows) {
    const std::int64_t height = row_count - begin < kStripRows ? row_count - begin : kStripRows;
    const T* from = rows + begin * row_step;
    std::int64_t j = 0;
    for (; j + kWide <= count; j += kWide)
      distance_strip<kStripLanes>(from + j, row_step, height, shifts + j, kSize, first + j, second + j);
    for (; j < count; j += kSize)
      distance_strip<1>(from + j, row_step, height, shifts + j, count - j < kSize ? count - j : kSize, first + j,
                        second + j);
  }
}

template <int Registers, class T>
CAPSTAN_INLINE void product_strip(const T* grad, const T* x, std::int64_t row_step, std::int64_t row_count,
                                  const T* shifts, std::int64_t last, double* totals, std::int64_t totals_step) {
  using L = Lanes<T>;
  const auto width = [=](int r) __attribute__((always_inline)) {
    return r + 1 < Registers ? std::int64_t{L::size} : last;
  };
  L from[Registers], grads[Registers], products[Registers], distances[Registers];
  for (int r = 0; r < Registers; ++r) {
    from[r] = load_lanes(shifts + r * L::size, width(r));
    grads[r] = products[r] = distances[r] = L(0);
  }
  for (std::int64_t row = 0; row < row_count; ++row, grad += row_step, x += row_step)
    for (int r = 0; r < Registers; ++r) {
      const L g = load_lanes(grad + r * L::size, width(r));
      const L distance = load_lanes(x + r * L::size, width(r)) - from[r];
      grads[r] = grads[r] + g;
      products[r] = fma(g, distance, products[r]);
      distances[r] = distances[r] + distance;
    }
  for (int r = 0; r < Registers; ++r) {
    norm_flush(grads[r], totals + r * L::size, width(r));
    norm_flush(products[r], totals + totals_step + r * L::size, width(r));
    norm_flush(distances[r], totals + 2 * totals_step + r * L::size, width(r));
  }
}

template <class T>
void column_products(const T* grad, const T* x, std::int64_t row_step, std::int64_t row_count, const T* shifts,
                     std::int64_t count, double* totals, std::int64_t totals_step) {
  constexpr std::int64_t kSize = Lanes<T>::size, kWide = kStripLanes * kSize;
  for (std::int64_t begin = 0; begin < row_count; begin += kStripRows) {
    const std::int64_t height = row_count - begin < kStripRows ? row_count - begin : kStripRows;
    const T *change = grad + begin * row_step, *from = x + begin * row_step;
    std::int64_t j = 0;
    for (; j + kWide <= count; j += kWide)
      product_strip<kStripLanes>(change + j, from + j, row_step, height, shifts + j, kSize, totals + j, totals_step);
    for (; j < count; j += kSize)
      product_strip<1>(change + j, from + j, row_step, height, shifts + j, count - j < kSize ? count - j : kSize,
                       totals + j, totals_step);
  }
}

template <class T>
void column_rule(const ChannelRule<T>& of, const T* grad, const T* x, std::int64_t rows, std::int64_t count, T* out) {
  using L = Lanes<T>;
  const ChannelRule<T> rule = of;  // else read anew behind every store
  for (std::int64_t row = 0; row < rows; ++row, x += count, out += count) {
    const T* change = grad == nullptr ? nullptr : grad + row * count;
    norm_lanes<T>(
        count, [&](std::int64_t i, std::int64_t width) __attribute__((always_inline)) {
          L y = fma(load_lanes(x + i, width) - load_lanes(rule.shift + i, width), load_lanes(rule.by_x + i, width),
                    load_lanes(rule.offset + i, width));
          if (change != nullptr) y = fma(load_lanes(change + i, width), load_lanes(rule.by_grad + i, width), y);
          store_lanes(y, out + i, width);
        });
  }
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
