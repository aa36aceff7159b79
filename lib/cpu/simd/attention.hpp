// What attention does to rows of scores, between its products. Included by kernels_*.cpp behind loops.hpp.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

template <class T> constexpr T kNeverAttended = -static_cast<T>(__builtin_inf());

/// What is added to the scores of row i, -infinity where it must not look; null for nothing.
template <class T> const T* attention_added(const AttentionRows<T>& a, std::int64_t i) {
  const T* bias = a.bias != nullptr ? a.bias + i * a.bias_row : nullptr;
  if (a.allowed == nullptr && (bias == nullptr || a.bias_column == 1)) return bias;
  T* const line = a.line;
  for (std::int64_t j = 0; j < a.count; ++j) line[j] = bias == nullptr ? T(0) : bias[j * a.bias_column];
  if (a.allowed == nullptr) return line;
  const bool* allowed = a.allowed + i * a.allowed_row;
  if (a.allowed_column == 1)
    for (std::int64_t j = 0; j < a.count; ++j) line[j] = allowed[j] ? line[j] : kNeverAttended<T>;
  else
    for (std::int64_t j = 0; j < a.count; ++j) line[j] = allowed[j * a.allowed_column] ? line[j] : kNeverAttended<T>;
  return line;
}

/// Whether all rows are added the same.
template <class T> bool attention_same_for_all(const AttentionRows<T>& a) {
  return (a.bias == nullptr || a.bias_row == 0) && (a.allowed == nullptr || a.allowed_row == 0);
}

/// How many keys row i sees.
template <class T> std::int64_t attention_seen(const AttentionRows<T>& a, std::int64_t i) {
  return a.first + i + 1 < a.count ? a.first + i + 1 : a.count;
}

/// A register of scores from products of queries and keys.
template <bool kAdded, class T>
CAPSTAN_INLINE Lanes<T> attention_scores(const T* x, const T* added, std::int64_t width, Lanes<T> scale) {
  using L = Lanes<T>;
  if constexpr (kAdded) {
    const L more = load_lanes(added, width), never(kNeverAttended<T>);
    return select(more == never, never, fma(load_lanes(x, width), scale, more));
  } else {
    return load_lanes(x, width) * scale;
  }
}

/// Scores in the place of products; returns the largest. A NaN among them shows in the sum of their exponentials.
template <bool kAdded, class T>
CAPSTAN_INLINE T attention_finish_scores(T* x, const T* added, T factor, std::int64_t count) {
  using L = Lanes<T>;
  const L scale(factor);
  L best(kNeverAttended<T>);
  std::int64_t j = 0;
  for (; j + L::size <= count; j += L::size) {
    const L score = attention_scores<kAdded>(x + j, kAdded ? added + j : nullptr, L::size, scale);
    score.store(x + j);
    best = select(best < score, score, best);
  }
  T largest = max_lanes(best);
  if (j < count) {
    T flat[L::size];
    attention_scores<kAdded>(x + j, kAdded ? added + j : nullptr, count - j, scale).store(flat);
    for (std::int64_t k = 0; j + k < count; ++k) {
      x[j + k] = flat[k];
      largest = largest < flat[k] ? flat[k] : largest;
    }
  }
  return largest;
}

/// What lies so far below the largest score that its weight is nothing beside that one's, 1, becomes -infinity. Products
/// of weights without all their digits, below 2^-126, would take Intel's processors many times as long.
struct OrNothing {
  template <class T> CAPSTAN_INLINE Lanes<T> operator()(Lanes<T> below) const {
    return select(below < Lanes<T>(sizeof(T) == 4 ? -80 : -700), Lanes<T>(kNeverAttended<T>), below);
  }
};

template <class T> void attention_weights(const AttentionRows<T>& a) {
  const bool same = attention_same_for_all(a);
  const T* added = nullptr;
  for (std::int64_t i = 0; i < a.rows; ++i) {
    if (i == 0 || !same) added = attention_added(a, i);
    T* const x = a.scores + i * a.row;
    const std::int64_t seen = attention_seen(a, i);
    const T largest = added != nullptr ? attention_finish_scores<true>(x, added, a.scale, seen)
                                       : attention_finish_scores<false>(x, added, a.scale, seen);
    const T shift = largest == kNeverAttended<T> ? T(0) : largest;
    const double total = sum_of_exp(x, shift, x, seen, OrNothing());
    for (std::int64_t j = seen; j < a.count; ++j) x[j] = T(0);
    a.statistics[2 * i] = shift;
    a.statistics[2 * i + 1] = total == 0 ? T(0) : static_cast<T>(1 / total);
  }
}

template <class T> CAPSTAN_INLINE T attention_dot(const T* a, const T* b, std::int64_t count) {
  using L = Lanes<T>;
  L part(0);
  for (std::int64_t i = 0; i < count; i += L::size) {
    const std::int64_t width = count - i < L::size ? count - i : L::size;
    part = fma(load_lanes(a + i, width), load_lanes(b + i, width), part);
  }
  return add_lanes(part);
}

/// One row of what follows.
template <bool kAdded, class T>
CAPSTAN_INLINE void attention_backward_row(T* x, T* grads, const T* added, std::int64_t count, T factor,
                                           const T* statistics, T mean) {
  using L = Lanes<T>;
  const L scale(factor), shift(statistics[0]), share(statistics[1]), less(mean);
  for (std::int64_t j = 0; j < count; j += L::size) {
    const std::int64_t width = count - j < L::size ? count - j : L::size;
    const L score = attention_scores<kAdded>(x + j, kAdded ? added + j : nullptr, width, scale);
    const L weight = exp(OrNothing()(score - shift)) * share;
    store_lanes((load_lanes(grads + j, width) - less) * weight * scale, grads + j, width);
    store_lanes(weight, x + j, width);
  }
}

/// The mean gradient of a row's weights, weighted by them, is that of its result times the result.
template <class T> void attention_backward(const AttentionRows<T>& a) {
  const bool same = attention_same_for_all(a);
  const T* added = nullptr;
  for (std::int64_t i = 0; i < a.rows; ++i) {
    if (i == 0 || !same) added = attention_added(a, i);
    T *const x = a.scores + i * a.row, *const grads = a.grads + i * a.row;
    const std::int64_t seen = attention_seen(a, i);
    const T mean = attention_dot(a.out + i * a.out_row, a.out_grad + i * a.out_grad_row, a.width);
    const T* const statistics = a.statistics + 2 * i;
    if (added != nullptr) attention_backward_row<true>(x, grads, added, seen, a.scale, statistics, mean);
    else attention_backward_row<false>(x, grads, added, seen, a.scale, statistics, mean);
    for (std::int64_t j = seen; j < a.count; ++j) x[j] = grads[j] = T(0);
  }
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
