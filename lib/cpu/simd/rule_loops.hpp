// Loops over contiguous values for the rows of lib/kernels. Included by kernels_*.cpp behind double.hpp.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

using kernels::Evaluate;

/// As lanes, precise or scalar: float64 has nothing wider to be precise in, and functions only as double.hpp has them.
template <class T> constexpr Evaluate how(Evaluate wanted) {
  if (wanted == Evaluate::lanes || wanted == Evaluate::scalar) return wanted;
  const bool wide = wanted == Evaluate::precise;
  if (sizeof(T) == 4) return wide || wanted == Evaluate::library ? Evaluate::precise : Evaluate::lanes;
  return kHasDoubles && (wide || wanted == Evaluate::functions) ? Evaluate::lanes : Evaluate::scalar;
}
template <class Op, class T> constexpr Evaluate how() { return how<T>(kernels::evaluate_of<Op>()); }
template <class Op, class T> constexpr Evaluate how_backward() { return how<T>(kernels::evaluate_backward_of<Op>()); }
/// Of softplus float32 serves in lanes of its own where beta is 1: nothing is scaled, and no digit that counts is lost.
template <class Op, class T> constexpr bool kSingleOfOne = std::is_same_v<Op, kernels::Softplus> && sizeof(T) == 4;

/// Whether a row's values go by groups.
template <class Op>
constexpr bool kLong =
    std::is_same_v<Op, kernels::Exp> || std::is_same_v<Op, kernels::Sigmoid> || std::is_same_v<Op, kernels::Tanh>;

/// y[i] = f(x[i]) for values of the kind that the row runs with.
template <Evaluate kind, bool grouped, class T, class F>
CAPSTAN_INLINE void each(const T* x, T* y, std::int64_t count, F f) {
  std::int64_t i = 0;
  if constexpr (kind == Evaluate::lanes) {
    using L = Lanes<T>;
    if constexpr (grouped) {
      using G = Group<T, kGroup>;
      for (; i + G::size <= count; i += G::size) f(G::load(x + i)).store(y + i);
    }
    for (; i + L::size <= count; i += L::size) f(L::load(x + i)).store(y + i);
    if (i < count) store_part(f(load_part(x + i, count - i)), y + i, count - i);
  } else if constexpr (kind == Evaluate::precise) {
    float part[kPreciseSize] = {};
    for (; i < count; i += kPreciseSize) {  // one copy of f, whose text can be long
      const bool whole = i + kPreciseSize <= count;
      for (std::int64_t k = 0; !whole && i + k < count; ++k) part[k] = x[i + k];
      store_precise(f(load_precise(whole ? x + i : part)), whole ? y + i : part);
      for (std::int64_t k = 0; !whole && i + k < count; ++k) y[i + k] = part[k];
    }
  } else {
    for (; i < count; ++i) y[i] = f(x[i]);
  }
}
/// y[i] = f(a[i], b[i])
template <Evaluate kind, class T, class F>
CAPSTAN_INLINE void each_pair(const T* a, const T* b, T* y, std::int64_t count, F f) {
  std::int64_t i = 0;
  if constexpr (kind == Evaluate::lanes) {
    using L = Lanes<T>;
    for (; i + L::size <= count; i += L::size) f(L::load(a + i), L::load(b + i)).store(y + i);
    if (i < count) store_part(f(load_part(a + i, count - i), load_part(b + i, count - i)), y + i, count - i);
  } else if constexpr (kind == Evaluate::precise) {
    float part_a[kPreciseSize] = {}, part_b[kPreciseSize] = {};
    for (; i < count; i += kPreciseSize) {
      const bool whole = i + kPreciseSize <= count;
      for (std::int64_t k = 0; !whole && i + k < count; ++k) part_a[k] = a[i + k], part_b[k] = b[i + k];
      const float *from_a = whole ? a + i : part_a, *from_b = whole ? b + i : part_b;
      store_precise(f(load_precise(from_a), load_precise(from_b)), whole ? y + i : part_a);
      for (std::int64_t k = 0; !whole && i + k < count; ++k) y[i + k] = part_a[k];
    }
  } else {
    for (; i < count; ++i) y[i] = f(a[i], b[i]);
  }
}

template <class Op, class T> void unary(const T* x, T* y, std::int64_t count) {
  if constexpr (kLong<Op>)
    each<how<Op, T>(), true>(
        x, y, count, []<class V>(V v) __attribute__((always_inline)) { return Op::forward(v); });
  else each<how<Op, T>(), false>(x, y, count, []<class V>(V v) { return Op::forward(v); });
}

template <class Op, class T> void unary_backward(const T* grad, const T* saved, T* out, std::int64_t count) {
  if constexpr (Op::saves == kernels::Saves::nothing) saved = grad;
  each_pair<how_backward<Op, T>()>(grad, saved, out, count, []<class V>(V g, V s) { return Op::backward(g, s); });
}

/// Whole exponents, of which products are faster. Those of float64 round at most twice, and 1/x^2 might leave its range.
template <class T> CAPSTAN_INLINE bool is_small_power(double exponent) {
  constexpr int kLeast = sizeof(T) == 8 ? -1 : -8, kMost = sizeof(T) == 8 ? 3 : 8;
  return exponent >= kLeast && exponent <= kMost && static_cast<double>(static_cast<int>(exponent)) == exponent;
}
template <class V> CAPSTAN_INLINE V power(V x, int n) {
  V result(1);
  for (int left = n < 0 ? -n : n; left > 0; left >>= 1, x = x * x)
    if ((left & 1) != 0) result = result * x;
  return n < 0 ? V(1) / result : result;
}
template <class T> constexpr Evaluate kPowerBy = sizeof(T) == 8 ? Evaluate::lanes : Evaluate::precise;

template <class Op, class T> void parametric(const T* x, double p, double q, T* y, std::int64_t count) {
  const auto rule = [p, q]<class V>(V v) { return Op::forward(v, V(p), V(q)); };
  if constexpr (kSingleOfOne<Op, T>)
    if (p == 1) return each<Evaluate::lanes, false>(x, y, count, rule);
  if constexpr (std::is_same_v<Op, kernels::Power>)
    if (is_small_power<T>(p))
      return each<kPowerBy<T>, false>(x, y, count, [n = static_cast<int>(p)]<class V>(V v) { return power(v, n); });
  each<how<Op, T>(), false>(x, y, count, rule);
}

template <class Op, class T>
void parametric_backward(const T* grad, const T* x, double p, double q, T* out, std::int64_t count) {
  const auto rule = [p, q]<class V>(V g, V v) { return Op::backward(g, v, V(p), V(q)); };
  if constexpr (kSingleOfOne<Op, T>)
    if (p == 1) return each_pair<Evaluate::lanes>(grad, x, out, count, rule);
  if constexpr (std::is_same_v<Op, kernels::Power>)
    if (is_small_power<T>(p - 1))
      return each_pair<kPowerBy<T>>(grad, x, out, count, [p, n = static_cast<int>(p - 1)]<class V>(V g, V v) {
        return g * (V(p) * power(v, n));
      });
  each_pair<how_backward<Op, T>()>(grad, x, out, count, rule);
}

template <class Op, class T, bool OneA, bool OneB>
CAPSTAN_INLINE void binary_loop(const T* a, const T* b, T* y, std::int64_t count) {
  using L = Lanes<T>;
  const L a0(*a), b0(*b);
  std::int64_t i = 0;
  for (; i + L::size <= count; i += L::size)
    Op::forward(OneA ? a0 : L::load(a + i), OneB ? b0 : L::load(b + i)).store(y + i);
  if (i < count)
    store_part(Op::forward(OneA ? a0 : load_part(a + i, count - i), OneB ? b0 : load_part(b + i, count - i)), y + i,
               count - i);
}

template <class Op, class T>
void binary(const T* a, std::int64_t a_step, const T* b, std::int64_t b_step, T* y, std::int64_t count) {
  if (count <= 0) return;
  if constexpr (how<Op, T>() == Evaluate::lanes) {
    if (a_step != 0 && b_step != 0) binary_loop<Op, T, false, false>(a, b, y, count);
    else if (a_step != 0) binary_loop<Op, T, false, true>(a, b, y, count);
    else if (b_step != 0) binary_loop<Op, T, true, false>(a, b, y, count);
    else binary_loop<Op, T, true, true>(a, b, y, count);
  } else if constexpr (how<Op, T>() == Evaluate::precise) {
    if constexpr (std::is_same_v<Op, kernels::Pow>)
      if (b_step == 0 && is_small_power<T>(*b) && (a_step != 0 || count == 1))
        return each<Evaluate::precise, false>(a, y, count,
                                              [n = static_cast<int>(*b)](Precise v) { return power(v, n); });
    const Precise a0(static_cast<double>(*a)), b0(static_cast<double>(*b));
    if (a_step == 0 && b_step == 0) {
      each<Evaluate::precise, false>(b, y, 1, [a0](Precise v) { return Op::forward(a0, v); });
      for (std::int64_t i = 1; i < count; ++i) y[i] = y[0];
    } else if (a_step != 0 && b_step != 0)
      each_pair<Evaluate::precise>(a, b, y, count, [](Precise v, Precise w) { return Op::forward(v, w); });
    else if (a_step != 0) each<Evaluate::precise, false>(a, y, count, [b0](Precise v) { return Op::forward(v, b0); });
    else each<Evaluate::precise, false>(b, y, count, [a0](Precise v) { return Op::forward(a0, v); });
  } else {
    for (std::int64_t i = 0; i < count; ++i) y[i] = Op::forward(a[i * a_step], b[i * b_step]);
  }
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
