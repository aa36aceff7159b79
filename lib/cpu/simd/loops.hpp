// Further loops over contiguous values: sums, softmax, copies. Included by kernels_*.cpp behind extremes.hpp.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

template <class T> CAPSTAN_INLINE T add_lanes(Lanes<T> x) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return _mm512_reduce_add_ps(x.v);
  else return _mm512_reduce_add_pd(x.v);
#else
  return folded(
      x, [](Lanes<T> a, Lanes<T> b) __attribute__((always_inline)) { return a + b; });
#endif
}

// Blocks of 32 values a lane in eight registers, the blocks in double.
template <class T> CAPSTAN_INLINE double sum_of(const T* x, std::int64_t count) {
  using L = Lanes<T>;
  constexpr int kRegisters = 8;
  constexpr std::int64_t kBlock = 32 * kRegisters * L::size;
  const std::int64_t ahead = bytes_ahead;
  double total = 0;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t end = begin + kBlock < count ? begin + kBlock : count;
    L parts[kRegisters];
    for (auto& part : parts) part = L(0);
    std::int64_t i = begin;
    for (; i + kRegisters * L::size <= end; i += kRegisters * L::size)
      for (int r = 0; r < kRegisters; ++r) {
        if (begins_line<T>(r)) __builtin_prefetch(reinterpret_cast<const char*>(x + i + r * L::size) + ahead);
        parts[r] = parts[r] + L::load(x + i + r * L::size);
      }
    for (; i + L::size <= end; i += L::size) parts[0] = parts[0] + L::load(x + i);
    if (i < end) parts[1] = parts[1] + load_part(x + i, end - i);
    for (int width = kRegisters / 2; width > 0; width /= 2)
      for (int r = 0; r < width; ++r) parts[r] = parts[r] + parts[r + width];
    total += static_cast<double>(add_lanes(parts[0]));
  }
  return total;
}

template <class T> double sum(const T* x, std::int64_t count) { return sum_of(x, count); }

/// Rows side by side, each as if it were alone. Blocks of 32 values a lane in two registers, the blocks in double.
template <int Rows, class T>
CAPSTAN_INLINE void sum_some_rows(const T* rows, std::int64_t row_step, std::int64_t count, T* sums) {
  using L = Lanes<T>;
  constexpr std::int64_t kPair = 2 * L::size, kBlock = 32 * kPair;
  double totals[Rows] = {};
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t end = begin + kBlock < count ? begin + kBlock : count;
    L parts[Rows][2];
    for (auto& pair : parts) pair[0] = pair[1] = L(0);
    std::int64_t i = begin;
    for (; i + kPair <= end; i += kPair)
      for (int r = 0; r < Rows; ++r)
        for (int k = 0; k < 2; ++k) parts[r][k] = parts[r][k] + L::load(rows + r * row_step + i + k * L::size);
    if (i + L::size <= end) {
      for (int r = 0; r < Rows; ++r) parts[r][0] = parts[r][0] + L::load(rows + r * row_step + i);
      i += L::size;
    }
    if (i < end)
      for (int r = 0; r < Rows; ++r) parts[r][1] = parts[r][1] + load_part(rows + r * row_step + i, end - i);
    for (int r = 0; r < Rows; ++r) totals[r] += static_cast<double>(add_lanes(parts[r][0] + parts[r][1]));
  }
  for (int r = 0; r < Rows; ++r) sums[r] = static_cast<T>(totals[r]);
}

/// Rows of Count values, in the order in which registers add them.
template <int Count, class T>
void sum_tiny_rows(const T* rows, std::int64_t row_step, std::int64_t row_count, T* sums) {
  for (std::int64_t row = 0; row < row_count; ++row, rows += row_step) {
    T parts[2] = {T(0), T(0)};
    for (int i = 0; i < Count; ++i) parts[i % 2] += rows[i];
    sums[row] = parts[0] + parts[1];
  }
}

template <class T>
void sum_rows(const T* rows, std::int64_t row_step, std::int64_t row_count, std::int64_t count, T* sums) {
  if (count == 2) return sum_tiny_rows<2>(rows, row_step, row_count, sums);
  if (count == 3) return sum_tiny_rows<3>(rows, row_step, row_count, sums);
  if (count == 4) return sum_tiny_rows<4>(rows, row_step, row_count, sums);
  std::int64_t row = 0;
  if (count <= short_row) {
    for (; row + 4 <= row_count; row += 4) sum_some_rows<4>(rows + row * row_step, row_step, count, sums + row);
    for (; row < row_count; ++row) sum_some_rows<1>(rows + row * row_step, row_step, count, sums + row);
  }
  for (; row < row_count; ++row) sums[row] = static_cast<T>(sum_of(rows + row * row_step, count));
}

/// sums[j] += column j of Rows rows, one after the other, for whole registers of columns. A cache line at a time: rows
/// that are 4 KiB apart push each other out of the first-level cache.
template <int Rows, class T>
CAPSTAN_INLINE void add_some_rows(T* sums, const T* rows, std::int64_t row_step, std::int64_t count) {
  using L = Lanes<T>;
  constexpr int kRegisters = sizeof(L) < 64 ? 64 / static_cast<int>(sizeof(L)) : 1;
  std::int64_t j = 0;
  const auto add = [&](auto registers) __attribute__((always_inline)) {
    constexpr int kCount = decltype(registers)::value;
    for (; j + kCount * L::size <= count; j += kCount * L::size) {
      L part[kCount];
      for (int r = 0; r < kCount; ++r) part[r] = L::load(sums + j + r * L::size);
      for (int row = 0; row < Rows; ++row)
        for (int r = 0; r < kCount; ++r) part[r] = part[r] + L::load(rows + row * row_step + j + r * L::size);
      for (int r = 0; r < kCount; ++r) part[r].store(sums + j + r * L::size);
    }
  };
  add(std::integral_constant<int, kRegisters>());
  if constexpr (kRegisters > 1) add(std::integral_constant<int, 1>());
}

// Adds up to 128 rows, and that to the sums in double. Four rows at a time, along up to 1024 columns: processors fetch
// ahead what is read in long pieces. Of a register that is not full the sums stay where they are.
template <class T>
void add_rows(double* sums, const T* rows, std::int64_t row_step, std::int64_t row_count, std::int64_t count) {
  using L = Lanes<T>;
  constexpr std::int64_t kBlock = 128, kWide = 1024, kRows = 4;
  T flat[kWide];
  const std::int64_t whole = count / L::size * L::size;
  for (std::int64_t begin = 0; begin < row_count; begin += kBlock) {
    const std::int64_t end = begin + kBlock < row_count ? begin + kBlock : row_count;
    const auto flush = [&](std::int64_t j, std::int64_t width) {
      for (std::int64_t k = 0; k < width; ++k) sums[j + k] += static_cast<double>(flat[k]);
    };
    for (std::int64_t j = 0; j < whole; j += kWide) {
      const std::int64_t width = whole - j < kWide ? whole - j : kWide;
      for (std::int64_t k = 0; k < width; ++k) flat[k] = T(0);
      std::int64_t row = begin;
      for (; row + kRows <= end; row += kRows) add_some_rows<kRows>(flat, rows + row * row_step + j, row_step, width);
      for (; row < end; ++row) add_some_rows<1>(flat, rows + row * row_step + j, row_step, width);
      flush(j, width);
    }
    if (whole < count) {
      L part(0);
      for (std::int64_t row = begin; row < end; ++row)
        part = part + load_part(rows + row * row_step + whole, count - whole);
      part.store(flat);
      flush(whole, count - whole);
    }
  }
}

/// As many values as Lanes<double> has, in double.
template <class T> CAPSTAN_INLINE Lanes<double> load_wide(const T* p) {
  if constexpr (sizeof(T) == 4) return load_precise(p).v;
  else return Lanes<double>::load(p);
}
template <class T> CAPSTAN_INLINE void store_narrow(Lanes<double> x, T* p) {
  if constexpr (sizeof(T) == 4) store_precise(Precise(x), p);
  else x.store(p);
}

// In double, sixteen sums side by side.
template <class T> void spread(const T* x, T shift, std::int64_t count, double* first, double* second) {
  using W = Lanes<double>;
  constexpr int kSide = 16, kRegisters = kSide / W::size;
  const auto center = static_cast<double>(shift);
  W some[kRegisters], powers[kRegisters];
  for (int r = 0; r < kRegisters; ++r) some[r] = powers[r] = W(0);
  std::int64_t i = 0;
  for (; i + kSide <= count; i += kSide)
    for (int r = 0; r < kRegisters; ++r) {
      const W distance = load_wide(x + i + r * W::size) - W(center);
      some[r] = some[r] + distance;
      powers[r] = powers[r] + distance * distance;
    }
  double sums[kSide], squares[kSide];
  for (int r = 0; r < kRegisters; ++r) some[r].store(sums + r * W::size), powers[r].store(squares + r * W::size);
  for (std::int64_t k = 0; i + k < count; ++k) {
    const double distance = static_cast<double>(x[i + k]) - center;
    sums[k] += distance;
    squares[k] += distance * distance;
  }
  for (int width = kSide / 2; width > 0; width /= 2)
    for (int k = 0; k < width; ++k) sums[k] += sums[k + width], squares[k] += squares[k + width];
  *first = sums[0];
  *second = squares[0];
}

// In double, 32 sums side by side; of short rows those of a register, and two of what is left over.
template <class T> double sum_of_squares(const T* x, std::int64_t count) {
  using W = Lanes<double>;
  constexpr int kSide = 32, kRegisters = kSide / W::size;
  if (count < kSide) {
    W part(0);
    std::int64_t i = 0;
    for (; i + W::size <= count; i += W::size) part = fma(load_wide(x + i), load_wide(x + i), part);
    double rest[2] = {i > 0 ? add_lanes(part) : 0, 0};
    for (; i < count; ++i) {
      const auto value = static_cast<double>(x[i]);
      rest[i % 2] += value * value;
    }
    return rest[0] + rest[1];
  }
  W parts[kRegisters];
  for (auto& part : parts) part = W(0);
  std::int64_t i = 0;
  for (; i + kSide <= count; i += kSide)
    for (int r = 0; r < kRegisters; ++r) {
      const W value = load_wide(x + i + r * W::size);
      parts[r] = fma(value, value, parts[r]);
    }
  double sums[kSide];
  for (int r = 0; r < kRegisters; ++r) parts[r].store(sums + r * W::size);
  for (std::int64_t k = 0; i + k < count; ++k) {
    const auto value = static_cast<double>(x[i + k]);
    sums[k] += value * value;
  }
  for (int width = kSide / 2; width > 0; width /= 2)
    for (int k = 0; k < width; ++k) sums[k] += sums[k + width];
  return sums[0];
}

template <class T>
void add_squares(double* __restrict__ sums, const T* __restrict__ rows, std::int64_t row_step, std::int64_t row_count,
                 std::int64_t count) {
  for (std::int64_t row = 0; row < row_count; ++row, rows += row_step)
    for (std::int64_t j = 0; j < count; ++j) sums[j] += static_cast<double>(rows[j]) * static_cast<double>(rows[j]);
}

template <class T>
void norms_of_rows(const T* rows, std::int64_t row_step, std::int64_t row_count, std::int64_t count, T* norms) {
  for (std::int64_t row = 0; row < row_count; ++row)
    norms[row] = static_cast<T>(kernels::sqrt(sum_of_squares(rows + row * row_step, count)));
}

template <class T>
void spread_rows(const T* __restrict__ rows, std::int64_t row_step, std::int64_t row_count,
                 const T* __restrict__ shifts, std::int64_t count, double* __restrict__ first,
                 double* __restrict__ second) {
  for (std::int64_t row = 0; row < row_count; ++row, rows += row_step)
    for (std::int64_t j = 0; j < count; ++j) {
      const double distance = static_cast<double>(rows[j]) - static_cast<double>(shifts[j]);
      first[j] += distance;
      second[j] += distance * distance;
    }
}

template <class T> void scaled_exp(const T* x, T shift, T scale, T* out, std::int64_t count) {
  using L = Lanes<T>;
  using G = Group<T, kGroup>;
  const L s(shift), f(scale);
  std::int64_t i = 0;
  for (; i + G::size <= count; i += G::size) (exp(G::load(x + i) - G(shift)) * G(scale)).store(out + i);
  for (; i + L::size <= count; i += L::size) (exp(L::load(x + i) - s) * f).store(out + i);
  if (i < count) store_part(exp(first_of(load_part(x + i, count - i), count - i, s) - s) * f, out + i, count - i);
}

/// Near as kernels::is_near has it.
CAPSTAN_INLINE bool all_near(Lanes<double> x) {
  const Lanes<double> size = abs(x);
  return all((size >= Lanes<double>(0x1p-100)) & (size <= Lanes<double>(0x1p100)));
}
/// Whose lanes are below 2, as far as they are numbers; takes up their powers of two.
[[gnu::noinline]] Lanes<double> scaled(Lanes<double> x, std::int64_t& exponent) {
  double parts[Lanes<double>::size];
  x.store(parts);
  for (double& part : parts) {
    const kernels::Factor factor = kernels::scaled_factor(part, exponent);
    part = factor.part;
    exponent = factor.exponent;
  }
  return Lanes<double>::load(parts);
}

// In double, several side by side, which are looked after often enough to stay in range.
template <class T> kernels::Factor long_product(const T* x, std::int64_t count) {
  using L = Lanes<T>;
  using W = Lanes<double>;
  constexpr int kRegisters = 4, kSide = kRegisters * W::size, kDeep = 6;  // six floats change it by 2^894 at most
  W parts[kRegisters];
  for (auto& part : parts) part = W(1);
  std::int64_t exponent = 0;
  const auto multiply = [&](const T* values) __attribute__((always_inline)) {
    for (int r = 0; r < kRegisters; ++r) {
      W factors = load_wide(values + r * W::size);
      if constexpr (sizeof(T) == 8)
        if (!all_near(factors)) factors = scaled(factors, exponent);
      parts[r] = parts[r] * factors;
    }
  };
  for (std::int64_t i = 0; i < count;) {
    int deep = 0;
    for (; deep < kDeep && i + kSide <= count; ++deep, i += kSide) multiply(x + i);
    if (deep < kDeep && i < count) {  // what is left over, and ones
      T last[kSide];
      for (int k = 0; k < kSide; k += L::size, i += L::size) {
        const std::int64_t left = count - i;
        const L some = left >= L::size ? L::load(x + i)
                       : left > 0      ? first_of(load_part(x + i, left), left, L(1))
                                       : L(1);
        some.store(last + k);
      }
      multiply(last);
    }
    for (auto& part : parts)
      if (!all_near(part)) part = scaled(part, exponent);
  }
  const W joint = (parts[0] * parts[1]) * (parts[2] * parts[3]);
  double lanes[W::size];
  if (all_near(joint)) {
    joint.store(lanes);
    for (int width = W::size / 2; width > 0; width /= 2)
      for (int k = 0; k < width; ++k) lanes[k] *= lanes[k + width];
    return kernels::scaled_factor(lanes[0], exponent);
  }
  kernels::Factor total{1, exponent};
  for (const W& part : parts) {
    part.store(lanes);
    for (const double lane : lanes) total = total * kernels::Factor{lane, 0};
  }
  return total;
}

/// Of few floats, six of which change a product by so little that none leaves the range of double.
template <class T> kernels::Factor short_product(const T* x, std::int64_t count) {
  constexpr std::int64_t kDeep = 6;
  kernels::Factor total{1, 0};
  for (std::int64_t i = 0; i < count; i += kDeep) {
    double part = 1;
    for (std::int64_t k = i; k < count && k < i + kDeep; ++k) part *= static_cast<double>(x[k]);
    total = i == 0 ? kernels::scaled_factor(part, 0) : total * kernels::Factor{part, 0};
  }
  return total;
}

template <class T> kernels::Factor product(const T* x, std::int64_t count) {
  constexpr std::int64_t kShort = sizeof(T) == 4 ? 24 : 0;
  return count <= kShort ? short_product(x, count) : long_product(x, count);
}

template <class T>
void products_of_rows(const T* rows, std::int64_t row_step, std::int64_t row_count, std::int64_t count, T* products) {
  for (std::int64_t row = 0; row < row_count; ++row, rows += row_step)
    products[row] = static_cast<T>(kernels::value_of(product(rows, count)));
}

struct AsItIs {
  template <class X> CAPSTAN_INLINE X operator()(X x) const { return x; }
};
/// Writes exp(x - largest) to y if y is not null, and returns the sum. `through` is what x - largest goes through.
template <class T, class Through = AsItIs>
CAPSTAN_INLINE double sum_of_exp(const T* x, T largest, T* y, std::int64_t count, Through through = {}) {
  using L = Lanes<T>;
  using G = Group<T, kGroup>;
  constexpr std::int64_t kBlock = 256 * L::size;
  const L shift(largest);
  double total = 0;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t end = begin + kBlock < count ? begin + kBlock : count;
    G parts(T(0));
    std::int64_t i = begin;
    for (; i + G::size <= end; i += G::size) {
      const G e = exp(for_registers_of(through, G::load(x + i) - G(largest)));
      if (y != nullptr) e.store(y + i);
      parts = parts + e;
    }
    L part = parts.at[0];
    for (int r = 1; r < kGroup; ++r) part = part + parts.at[r];
    for (; i < end; i += L::size) {
      const std::int64_t width = end - i < L::size ? end - i : L::size;
      const L e = exp(through(first_of(load_part(x + i, width), width, shift) - shift));
      if (y != nullptr) store_part(e, y + i, width);
      part = part + first_of(e, width);
    }
    total += static_cast<double>(add_lanes(part));
  }
  return total;
}

template <class T> CAPSTAN_INLINE T finite_or_zero(T x) { return x - x == T(0) ? x : T(0); }

/// A row that stays in registers, and its largest value; of NaN that is anything.
template <int Registers, class T>
CAPSTAN_INLINE T load_short(const T* x, std::int64_t count, Lanes<T> (&v)[Registers]) {
  using L = Lanes<T>;
  constexpr int kLast = Registers - 1;
  const std::int64_t last = count - kLast * L::size;
  L largest(x[0]);
  for (int r = 0; r < kLast; ++r) {
    v[r] = L::load(x + r * L::size);
    largest = larger(v[r], largest);
  }
  v[kLast] = first_of(load_part(x + kLast * L::size, last), last, L(x[0]));  // beyond the end what is no new extreme
  return max_lanes(larger(v[kLast], largest));
}
/// Its values become exp(v - shift); gives their sum.
template <int Registers, class T> CAPSTAN_INLINE T exp_short(Lanes<T> (&v)[Registers], std::int64_t count, T largest) {
  using L = Lanes<T>;
  Group<T, Registers> e;
  for (int r = 0; r < Registers; ++r) e.at[r] = v[r];
  e = exp(e - Group<T, Registers>(largest));
  L total(0);
  for (int r = 0; r < Registers; ++r) {
    v[r] = e.at[r];
    total = total + (r + 1 < Registers ? v[r] : first_of(v[r], count - (Registers - 1) * L::size));
  }
  return add_lanes(total);
}

template <int Registers, class T> double shifted_sum_short(const T* x, T* shift, std::int64_t count) {
  Lanes<T> v[Registers];
  *shift = finite_or_zero(load_short(x, count, v));
  return static_cast<double>(exp_short(v, count, *shift));
}

/// The sum of exp(x - shift).
template <class T> double shifted_sum_of_exp(const T* x, T* shift, std::int64_t count) {
  constexpr int size = Lanes<T>::size;
  if (count <= size) return shifted_sum_short<1>(x, shift, count);
  if (count <= 2 * size) return shifted_sum_short<2>(x, shift, count);
  if (count <= 3 * size) return shifted_sum_short<3>(x, shift, count);
  if (count <= 4 * size) return shifted_sum_short<4>(x, shift, count);
  const T largest = max(x, count);
  *shift = finite_or_zero(largest);  // all -inf, or a +inf or NaN: the plain formula gives the right answer
  return sum_of_exp<T>(x, *shift, nullptr, count);
}

/// A row that stays in registers. A NaN makes the sum NaN, and with it every result.
template <int Registers, class T> CAPSTAN_INLINE void softmax_short(const T* x, T* y, std::int64_t count) {
  using L = Lanes<T>;
  constexpr int kLast = Registers - 1;
  L v[Registers];
  const T largest = load_short(x, count, v);
  const L scale(T(1) / exp_short(v, count, largest));
  for (int r = 0; r < kLast; ++r) (v[r] * scale).store(y + r * L::size);
  store_part(v[kLast] * scale, y + kLast * L::size, count - kLast * L::size);
}

template <class T> void softmax(const T* x, T* y, std::int64_t count) {
  constexpr std::int64_t size = Lanes<T>::size;
  if (count <= size) return softmax_short<1>(x, y, count);
  if (count <= 2 * size) return softmax_short<2>(x, y, count);
  if (count <= 3 * size) return softmax_short<3>(x, y, count);
  if (count <= 4 * size) return softmax_short<4>(x, y, count);
  const T largest = max(x, count);
  const double total = sum_of_exp(x, largest, y, count);
  const T scale = static_cast<T>(1 / total);
  binary<kernels::Mul, T>(y, 1, &scale, 0, y, count);
}

// (x - shift) - log(sum): exact for large values, where shift + log(sum) would round. Of an infinity nothing is left but
// NaN, as of all -infinity.
template <class T> void log_softmax(const T* x, T shift, double log, T* y, std::int64_t count) {
  using L = Lanes<T>;
  const L largest(shift), sub(static_cast<T>(log < HUGE_VAL ? log : __builtin_nan("")));
  std::int64_t i = 0;
  for (; i + L::size <= count; i += L::size) ((L::load(x + i) - largest) - sub).store(y + i);
  if (i < count) store_part((load_part(x + i, count - i) - largest) - sub, y + i, count - i);
}

template <class T> void softmax_backward(const T* grad, const T* y, T* out, std::int64_t count) {
  using L = Lanes<T>;
  L part(0);
  std::int64_t i = 0;
  for (; i + L::size <= count; i += L::size) part = fma(L::load(grad + i), L::load(y + i), part);
  if (i < count) part = fma(load_part(grad + i, count - i), load_part(y + i, count - i), part);
  const L dot(add_lanes(part));
  for (i = 0; i + L::size <= count; i += L::size) ((L::load(grad + i) - dot) * L::load(y + i)).store(out + i);
  if (i < count) store_part((load_part(grad + i, count - i) - dot) * load_part(y + i, count - i), out + i, count - i);
}

template <class T> void log_softmax_backward(const T* grad, const T* y, T* out, std::int64_t count) {
  using L = Lanes<T>;
  const L total(static_cast<T>(sum(grad, count)));
  std::int64_t i = 0;
  for (; i + L::size <= count; i += L::size) (L::load(grad + i) - exp(L::load(y + i)) * total).store(out + i);
  if (i < count)
    store_part(load_part(grad + i, count - i) - exp(load_part(y + i, count - i)) * total, out + i, count - i);
}

// --- copies ---

#if defined(__AVX2__)
/// Eight rows of eight floats, turned in registers.
CAPSTAN_INLINE void transpose_8x8(const float* from, std::int64_t from_row, float* to, std::int64_t to_row) {
  __m256 r[8], t[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(from + i * from_row);
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xEE);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
  }
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(to + i * to_row, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * to_row, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}
#endif

template <class T> void transpose_tile(const T* from, std::int64_t from_row, T* to, std::int64_t to_row) {
#if defined(__AVX2__)
  if constexpr (sizeof(T) == 4) {
    const auto turn = [&](float* out, std::int64_t out_row) __attribute__((always_inline)) {
      for (int i = 0; i < 16; i += 8)
        for (int j = 0; j < 16; j += 8)
          transpose_8x8(from + j * from_row + i, from_row, out + i * out_row + j, out_row);
    };
#if defined(__AVX512F__)
    turn(to, to_row);
#else  // cache lines are written whole: where rows are 4 KiB apart, a first half would have gone before the second
    alignas(32) float tile[16][16];
    turn(tile[0], 16);
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 16; j += 8) _mm256_storeu_ps(to + i * to_row + j, _mm256_load_ps(tile[i] + j));
#endif
    return;
  }
#endif
  T tile[16][16];
  for (int j = 0; j < 16; ++j)
    for (int i = 0; i < 16; ++i) tile[i][j] = from[j * from_row + i];
  for (int i = 0; i < 16; ++i) std::memcpy(to + i * to_row, tile[i], sizeof tile[i]);
}

/// 0 * x is 0 for every number, and NaN for NaN and infinity.
template <class T> bool any_bad(const T* x, std::int64_t count, bool infinite) {
  using L = Lanes<T>;
  constexpr int kRegisters = 8;
  L first(0), second(0);
  const auto look = [&](L value, L & seen) __attribute__((always_inline)) {
    seen = infinite ? fma(L(0), value, seen) : seen + select(value == value, L(0), value);
  };
  std::int64_t i = 0;
  if (count >= kRegisters * L::size) {
    L seen[kRegisters];
    for (auto& part : seen) part = L(0);
    for (; i + kRegisters * L::size <= count; i += kRegisters * L::size)
      for (int r = 0; r < kRegisters; ++r) look(L::load(x + i + r * L::size), seen[r]);
    for (int r = 0; r < kRegisters; r += 2) first = first + seen[r], second = second + seen[r + 1];
  }
  for (; i + 2 * L::size <= count; i += 2 * L::size) {
    look(L::load(x + i), first);
    look(L::load(x + i + L::size), second);
  }
  for (; i < count; i += L::size) look(load_part(x + i, count - i < L::size ? count - i : L::size), first);
  const T total = add_lanes(first + second);
  return total != total;
}

template <class T> CAPSTAN_INLINE void copy_row(const T* from, T* to, std::int64_t width) {
  using L = Lanes<T>;
  constexpr std::int64_t kSize = L::size;
  std::int64_t i = 0;
  for (; i + 4 * kSize <= width; i += 4 * kSize) {
    const L a = L::load(from + i), b = L::load(from + i + kSize);
    const L c = L::load(from + i + 2 * kSize), d = L::load(from + i + 3 * kSize);
    a.store(to + i), b.store(to + i + kSize);
    c.store(to + i + 2 * kSize), d.store(to + i + 3 * kSize);
  }
  for (; i + kSize <= width; i += kSize) L::load(from + i).store(to + i);
  if (i < width && width >= kSize) L::load(from + width - kSize).store(to + width - kSize);
  else
    for (; i < width; ++i) to[i] = from[i];
}

/// Rows that stand anywhere: nothing but this tells the processor where the next ones are.
template <class T>
void copy_rows(const T* from, const std::int64_t* offsets, std::int64_t count, T* to, std::int64_t width) {
  constexpr std::int64_t kLine = 64 / static_cast<std::int64_t>(sizeof(T));
  constexpr std::int64_t kLinesAhead = 48, kMostRows = 16, kMostLines = 16;
  const std::int64_t lines = (width + kLine - 1) / kLine, rows = kLinesAhead / (lines > 0 ? lines : 1);
  const std::int64_t ahead = rows < 2 ? 2 : rows > kMostRows ? kMostRows : rows;
  const std::int64_t fetched = lines < kMostLines ? width : kMostLines * kLine;  // it goes on by itself
  for (std::int64_t i = 0; i < count; ++i) {
    if (i + ahead < count) {
      const T* next = from + offsets[i + ahead];
      for (std::int64_t k = 0; k < fetched; k += kLine) __builtin_prefetch(next + k);
    }
    copy_row(from + offsets[i], to + i * width, width);
  }
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
