// Running sums and their relatives along an axis. Totals are double for floating elements, 64 bits for integers.
//
// Where the axis is the last, each addition waits for the one before it, so several rows run side by side, but for
// those that are so short that processors begin the next before the last has ended; long rows are cut at fixed places,
// totalled, and then run from where the parts before them end. Along other axes whole rows of totals advance at once.
// No result depends on the number of threads.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "lib/core/dispatch.hpp"
#include "lib/cpu/along.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/keys.hpp"
#include "lib/kernels/factor.hpp"

namespace capstan::on_cpu {
namespace {

using core::Cumulation;

constexpr int kSide = 4;                 // rows side by side
constexpr std::int64_t kShortRow = 16;   // elements of a row that is run by itself
constexpr std::int64_t kColumns = 256;   // totals that advance at once
constexpr std::int64_t kFewRows = 16;    // fewer rows than this are cut
constexpr std::int64_t kPart = 1 << 15;  // into parts of this length

// Running totals: `none` is that of no elements, and `join` adds the total of what comes behind.
template <class W>
struct RunningSum {
  W total;
  static RunningSum none() noexcept { return {0}; }
  void join(const RunningSum& after) noexcept { total += after.total; }
  void add(W x) noexcept { total += x; }
  W value() const noexcept { return total; }
};
struct IntegerProduct {
  std::uint64_t total;
  static IntegerProduct none() noexcept { return {1}; }
  void join(const IntegerProduct& after) noexcept { total *= after.total; }
  void add(std::uint64_t x) noexcept { total *= x; }
  std::uint64_t value() const noexcept { return total; }
};
/// What leaves the range of double, or would be subnormal, stays infinite, NaN or zero up to the end.
struct NearProduct {
  double total;
  static NearProduct none() noexcept { return {1}; }
  void join(const NearProduct& after) noexcept { add(after.total); }
  void add(double x) noexcept {
    const double product = total * x;
    total = std::fabs(product) < std::numeric_limits<double>::min() ? std::copysign(0.0, product) : product;
  }
  double value() const noexcept { return total; }
};
/// With an exponent of its own, as in `prod`: what comes behind may bring it back into range.
struct FarProduct {
  kernels::Factor total;
  static FarProduct none() noexcept { return {{1, 0}}; }
  void join(const FarProduct& after) noexcept { total = total * after.total; }
  [[gnu::noinline]] void add(double x) noexcept {
    const kernels::Factor factor = kernels::is_near(x) ? kernels::Factor{x, 0} : kernels::scaled_factor(x, 0);
    const double part = total.part * factor.part;
    const std::int64_t exponent = total.exponent + factor.exponent;
    total = kernels::is_near(part) ? kernels::Factor{part, exponent} : kernels::scaled_factor(part, exponent);
  }
  double value() const noexcept { return kernels::value_of(total); }
};
/// sum * exp(largest): no exponent is above 0.
struct RunningLogSumExp {
  double largest, sum;
  static RunningLogSumExp none() noexcept { return {-std::numeric_limits<double>::infinity(), 0}; }
  void join(const RunningLogSumExp& after) noexcept {
    if (after.largest > largest) {
      sum = sum * std::exp(largest - after.largest) + after.sum;
      largest = after.largest;
    } else {  // equal ones apart: the difference of two infinities is NaN
      sum += after.largest == largest ? after.sum : after.sum * std::exp(after.largest - largest);
    }
  }
  void add(double x) noexcept { join({x, 1}); }
  double value() const noexcept { return largest + std::log(sum); }
};

/// Adds *x and writes the total to *y, without or with it.
template <bool kExclusive, class R, class T>
void advance(R& running, const T* x, T* y) {
  using Wide = decltype(running.value());
  if constexpr (kExclusive) {
    const T before = static_cast<T>(running.value());
    running.add(static_cast<Wide>(*x));
    *y = before;
  } else {
    running.add(static_cast<Wide>(*x));
    *y = static_cast<T>(running.value());
  }
}

// Inner loops have all that they use in variables of their own: what a lambda refers to might change with each store.

template <class T>
struct Strip {
  const T* x;
  T* y;
  std::int64_t count;
};

template <bool kExclusive, class R, class T>
void run_side_by_side(R* running, const Strip<T>* strips, std::int64_t count, std::int64_t step) {
  static_assert(kSide == 4);
  R a = running[0], b = running[1], c = running[2], d = running[3];
  const Strip<T> sa = strips[0], sb = strips[1], sc = strips[2], sd = strips[3];
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = i * step;
    advance<kExclusive>(a, sa.x + at, sa.y + at);
    advance<kExclusive>(b, sb.x + at, sb.y + at);
    advance<kExclusive>(c, sc.x + at, sc.y + at);
    advance<kExclusive>(d, sd.x + at, sd.y + at);
  }
  running[0] = a, running[1] = b, running[2] = c, running[3] = d;
}

/// Up to kSide strips, each from its own total on.
template <bool kExclusive, class R, class T>
void run_strips(R* running, const Strip<T>* strips, int strip_count, std::int64_t step) {
  std::int64_t common = 0;
  if (strip_count == kSide) {
    common = strips[0].count;
    for (int k = 1; k < kSide; ++k) common = std::min(common, strips[k].count);
    run_side_by_side<kExclusive>(running, strips, common, step);
  }
  for (int k = 0; k < strip_count; ++k) {
    R own = running[k];
    for (std::int64_t i = common; i < strips[k].count; ++i)
      advance<kExclusive>(own, strips[k].x + i * step, strips[k].y + i * step);
  }
}

/// The total of a strip, by four running ones.
template <class R, class T>
R total_of(const Strip<T>& strip, std::int64_t step) {
  using Wide = decltype(R::none().value());
  R parts[kSide] = {R::none(), R::none(), R::none(), R::none()};
  std::int64_t i = 0;
  for (; i + kSide <= strip.count; i += kSide)
    for (int k = 0; k < kSide; ++k) parts[k].add(static_cast<Wide>(strip.x[(i + k) * step]));
  for (; i < strip.count; ++i) parts[0].add(static_cast<Wide>(strip.x[i * step]));
  for (int k = 1; k < kSide; ++k) parts[0].join(parts[k]);
  return parts[0];
}

/// For each of the items, `parts` to a row, the total of its row up to it.
template <class R, class StripOf>
void find_starts(R* starts, std::int64_t rows, std::int64_t parts, std::int64_t grain, std::int64_t step,
                 StripOf strip) {
  base::parallel_for(rows * parts, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) starts[item] = total_of<R>(strip(item), step);
  });
  for (std::int64_t row = 0; row < rows; ++row) {
    R before = R::none();
    for (std::int64_t item = row * parts; item < (row + 1) * parts; ++item) {
      const R own = starts[item];
      starts[item] = before;
      before.join(own);
    }
  }
}

/// Rows that end before it would pay to take several side by side.
template <bool kExclusive, class R, class T>
void run_short_rows(const T* x, T* y, std::int64_t rows, std::int64_t count, std::int64_t step) {
  for (std::int64_t row = 0; row < rows; ++row, x += count, y += count) {
    R running = R::none();
    for (std::int64_t i = 0, at = step < 0 ? count - 1 : 0; i < count; ++i, at += step)
      advance<kExclusive>(running, x + at, y + at);
  }
}

/// How many parts each of these rows is cut into.
std::int64_t parts_of(std::int64_t rows, std::int64_t count) {
  return rows < kFewRows && count > 2 * kPart ? (count + kPart - 1) / kPart : 1;
}

template <bool kExclusive, class R, class T>
void run_rows(const T* x, T* y, std::int64_t rows, std::int64_t count, bool reverse) {
  const std::int64_t step = reverse ? -1 : 1;
  if (count <= kShortRow)
    return base::parallel_for(rows, kExpensiveGrain / count + 1, [&](std::int64_t begin, std::int64_t end) {
      run_short_rows<kExclusive, R>(x + begin * count, y + begin * count, end - begin, count, step);
    });
  const std::int64_t parts = parts_of(rows, count);
  const std::int64_t length = parts == 1 ? count : kPart, items = rows * parts;
  const std::int64_t grain = (kExpensiveGrain / length / kSide + 1) * kSide;
  const auto strip = [=](std::int64_t item) {
    const std::int64_t begin = item % parts * length;
    const std::int64_t first = item / parts * count + (reverse ? count - 1 - begin : begin);
    return Strip<T>{x + first, y + first, std::min(length, count - begin)};
  };
  core::Scratch<R> starts(parts == 1 ? 0 : items, core::calling_place());
  if (parts > 1) find_starts(starts.data(), rows, parts, grain, step, strip);
  base::parallel_for(items, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; item += kSide) {
      const int side = static_cast<int>(std::min<std::int64_t>(kSide, end - item));
      R running[kSide] = {R::none(), R::none(), R::none(), R::none()};
      Strip<T> strips[kSide]{};
      for (int k = 0; k < side; ++k) {
        strips[k] = strip(item + k);
        if (parts > 1) running[k] = starts[item + k];
      }
      run_strips<kExclusive>(running, strips, side, step);
    }
  });
}

/// Calls `body(states, first, width, k, row)` for blocks of columns and, in each, for its rows in the order of the
/// walk: `row` is the k-th, and its elements stand at first .. first+width-1. Columns have states, at first `nothing`.
template <class State, class Body>
void walk_columns(const Around& around, bool reverse, State nothing, Body body) {
  const std::int64_t blocks = (around.inner + kColumns - 1) / kColumns;
  const std::int64_t work = around.count * std::min(around.inner, kColumns);
  base::parallel_for(around.outer * blocks, kExpensiveGrain / work + 1, [&](std::int64_t begin, std::int64_t end) {
    const Body own = body;
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t column = item % blocks * kColumns, width = std::min(kColumns, around.inner - column);
      State states[kColumns];
      std::fill(states, states + width, nothing);
      for (std::int64_t k = 0; k < around.count; ++k) {
        const std::int64_t row = reverse ? around.count - 1 - k : k;
        own(states, (item / blocks * around.count + row) * around.inner + column, width, k, row);
      }
    }
  });
}

template <bool kExclusive, class R, class T>
void run_columns(const T* x, T* y, const Around& around, bool reverse) {
  const auto body = [=](R* running, std::int64_t first, std::int64_t width, std::int64_t, std::int64_t) {
    const T* __restrict from = x + first;
    T* __restrict to = y + first;
    for (std::int64_t j = 0; j < width; ++j) advance<kExclusive>(running[j], from + j, to + j);
  };
  walk_columns(around, reverse, R::none(), body);
}

/// `walk_lines` for those of the last axis, kSide of them side by side.
template <class State, class Advance>
void walk_rows(std::int64_t line, std::int64_t end, std::int64_t count, bool reverse, State nothing, Advance advance) {
  static_assert(kSide == 4);
  for (; line + kSide <= end; line += kSide) {
    State a = nothing, b = nothing, c = nothing, d = nothing;
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t row = reverse ? count - 1 - k : k, at = line * count + row;
      advance(a, at, k, row);
      advance(b, at + count, k, row);
      advance(c, at + 2 * count, k, row);
      advance(d, at + 3 * count, k, row);
    }
  }
  for (; line < end; ++line) {
    State own = nothing;
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t row = reverse ? count - 1 - k : k;
      advance(own, line * count + row, k, row);
    }
  }
}

/// Calls `advance(state, at, k, row)` for each element in the order of its line's walk: it is the k-th of its line, has
/// the index `row` there and stands at `at`. Lines have states, at first `nothing`.
template <class State, class Advance>
void walk_lines(const Around& around, bool reverse, State nothing, Advance advance) {
  if (around.inner > 1)
    return walk_columns(around, reverse, nothing,
                        [=](State* states, std::int64_t first, std::int64_t width, std::int64_t k, std::int64_t row) {
                          for (std::int64_t j = 0; j < width; ++j) advance(states[j], first + j, k, row);
                        });
  const bool few = around.outer < kSide * threads();
  const std::int64_t grain =
      few ? kExpensiveGrain / around.count + 1 : (kExpensiveGrain / around.count / kSide + 1) * kSide;
  base::parallel_for(around.outer, grain, [&](std::int64_t begin, std::int64_t end) {
    walk_rows(begin, end, around.count, reverse, nothing, advance);
  });
}

template <class R, class T>
void run_along(const TensorImpl& x, int axis, bool exclusive, bool reverse, TensorImpl& out) {
  const Around around(x.shape, axis);
  const T* from = x.as<T>();
  T* to = out.as<T>();
  if (around.inner > 1) {
    if (exclusive) run_columns<true, R>(from, to, around, reverse);
    else run_columns<false, R>(from, to, around, reverse);
  } else {
    if (exclusive) run_rows<true, R>(from, to, around.outer, around.count, reverse);
    else run_rows<false, R>(from, to, around.outer, around.count, reverse);
  }
}

/// Whether a line of products leaves the range of double, taken one after the other. Its elements are `step` apart in
/// the order of the walk.
template <class T>
bool leaves_range(const T* x, std::int64_t count, std::int64_t step) {
  NearProduct running = NearProduct::none();
  for (std::int64_t i = 0; i < count; ++i) {
    const auto factor = static_cast<double>(x[i * step]);
    running.add(factor);
    if (running.total == 0) return factor != 0;
  }
  return !std::isfinite(running.total);
}

template <bool kExclusive, class T>
[[gnu::noinline]] void run_far_product(const T* x, T* y, std::int64_t count, std::int64_t step) {
  FarProduct running = FarProduct::none();
  for (std::int64_t i = 0; i < count; ++i) advance<kExclusive>(running, x + i * step, y + i * step);
}

/// Once more, with exponents of their own: lines of products that have left the range of double. Of those that were cut
/// any part may have done so.
template <bool kExclusive, class T>
void run_far_products(const T* x, T* y, const Around& around, bool reverse) {
  const std::int64_t count = around.count, inner = around.inner;
  const std::int64_t first = reverse ? (count - 1) * inner : 0, step = reverse ? -inner : inner;
  const bool cut = inner == 1 && parts_of(around.outer, count) > 1;
  base::parallel_for(around.outer * inner, kExpensiveGrain / count + 1, [=](std::int64_t begin, std::int64_t end) {
    std::int64_t column = begin % inner, at = begin / inner * count * inner + column + first;
    for (std::int64_t i = begin; i < end; ++i, ++at, ++column) {
      if (column == inner) column = 0, at += (count - 1) * inner;
      const T last = y[at + (count - 1) * step];
      if (last != 0 && std::isfinite(last)) continue;
      if (cut || leaves_range(x + at, count, step)) run_far_product<kExclusive>(x + at, y + at, count, step);
    }
  });
}

/// Which of two elements is the extreme one: the later of equal ones, and the last NaN.
template <class Order, bool kLargest>
struct Later {
  using Word = typename Order::Word;
  bool wins(Word x, Word best) const noexcept {
    if constexpr (std::is_void_v<typename Order::Native>) {
      const Word a = Order::encode(x), b = Order::encode(best);
      const int wins = kLargest ? a >= b : a <= b, bad = Order::is_nan(x), held = Order::is_nan(best);
      return (bad | (wins & ~held)) != 0;  // without branches
    } else {
      const auto a = std::bit_cast<typename Order::Native>(x), b = std::bit_cast<typename Order::Native>(best);
      return (kLargest ? a >= b : a <= b) | (a != a);
    }
  }
};

template <class Word>
struct Best {
  Word value;
  std::int64_t place;
};

/// One line. Blocks in which nothing wins are filled, as most are that stand far from its beginning.
template <class Word, class Rule>
void run_extremes(const Word* x, std::int64_t count, Rule later, Word* values, std::int64_t* places) {
  constexpr std::int64_t kBlock = 16;
  Best<Word> best{x[0], 0};
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t end = std::min(begin + kBlock, count);
    if (end - begin == kBlock) {
      int winners = 0;
      for (std::int64_t i = 0; i < kBlock; ++i) winners += later.wins(x[begin + i], best.value);
      if (winners == 0) {
        std::fill_n(values + begin, kBlock, best.value);
        std::fill_n(places + begin, kBlock, best.place);
        continue;
      }
    }
    for (std::int64_t i = begin; i < end; ++i) {
      if (later.wins(x[i], best.value)) best = {x[i], i};
      values[i] = best.value;
      places[i] = best.place;
    }
  }
}

template <class Word, class Rule>
void run_extremes_along(const Word* x, const Around& around, Rule later, Word* values, std::int64_t* places) {
  const std::int64_t count = around.count;
  if (around.inner == 1)
    return base::parallel_for(around.outer, kExpensiveGrain / count + 1, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin * count; at < end * count; at += count)
        run_extremes(x + at, count, later, values + at, places + at);
    });
  walk_columns(around, false, Best<Word>(),
               [=](Best<Word>* best, std::int64_t first, std::int64_t width, std::int64_t k, std::int64_t row) {
                 for (std::int64_t j = 0; j < width; ++j) {
                   const Word own = x[first + j];
                   if (k == 0 || later.wins(own, best[j].value)) best[j] = {own, row};
                   values[first + j] = best[j].value;
                   places[first + j] = best[j].place;
                 }
               });
}

}  // namespace

void cumulate(Cumulation kind, const TensorImpl& x, int axis, bool exclusive, bool reverse, TensorImpl& out) {
  if (out.numel() == 0) return;
  const Tensor dense = packed(x);
  const TensorImpl& from = *dense.impl();
  if (x.dtype == DType::int64) {  // unsigned totals wrap around, as NumPy's do
    using Sum = RunningSum<std::uint64_t>;
    if (kind == Cumulation::sum) run_along<Sum, std::int64_t>(from, axis, exclusive, reverse, out);
    else run_along<IntegerProduct, std::int64_t>(from, axis, exclusive, reverse, out);
    return;
  }
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    switch (kind) {
      case Cumulation::sum: return run_along<RunningSum<double>, T>(from, axis, exclusive, reverse, out);
      case Cumulation::product:
        run_along<NearProduct, T>(from, axis, exclusive, reverse, out);
        return (exclusive ? run_far_products<true, T> : run_far_products<false, T>)(from.as<T>(), out.as<T>(),
                                                                                    Around(x.shape, axis), reverse);
      case Cumulation::logsumexp: return run_along<RunningLogSumExp, T>(from, axis, exclusive, reverse, out);
    }
  });
}

void cumulative_extreme(bool largest, const TensorImpl& x, int axis, TensorImpl& values, TensorImpl& indices) {
  if (values.numel() == 0) return;
  const Tensor dense = packed(x);
  const Around around(x.shape, axis);
  visit_order(x.dtype, [&]<class Order>(Order) {
    using Word = typename Order::Word;
    const auto run = [&](auto later) {
      run_extremes_along(dense.impl()->as<Word>(), around, later, values.as<Word>(), indices.as<std::int64_t>());
    };
    if (largest) run(Later<Order, true>());
    else run(Later<Order, false>());
  });
}

void recur(const TensorImpl& b, const TensorImpl& a, int axis, bool reverse, TensorImpl& out) {
  if (out.numel() == 0) return;
  const Tensor added = packed(b), factors = packed(a);
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    const T *plus = added.impl()->as<T>(), *times = factors.impl()->as<T>();
    T* to = out.as<T>();
    const auto next = [=](double& y, std::int64_t at, std::int64_t k, std::int64_t) {
      const double before = k == 0 ? 0.0 : static_cast<double>(times[at]) * y;
      y = static_cast<double>(plus[at]) + before;
      to[at] = static_cast<T>(y);
    };
    walk_lines(Around(out.shape, axis), reverse, 0.0, next);
  });
}

}  // namespace capstan::on_cpu
