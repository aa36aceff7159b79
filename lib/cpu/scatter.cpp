// Writing elements by positions.
//
// Where the target stands still along a loop, positions choose, and two of them may meet: such loops keep their order.
// Along the others the places differ. So pieces of those, or ranges of positions, go to different threads, and what an
// element gets, and in which order, never depends on how many there are.
#include <cstring>

#include "lib/core/allocator.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/positions.hpp"
#include "lib/cpu/single_terms.hpp"

namespace capstan::on_cpu {
namespace {

using core::Combine;

// operands of the loops
constexpr int kAt = 0, kFrom = 1, kTo = 2;

/// A walk over some of the loops.
struct Walk {
  const Loops<3>& loops;
  const int* list;
  int count;
  std::int64_t index[kMaxRank] = {}, offset[3] = {};

  Walk(const Loops<3>& l, const int* which, int how_many, std::int64_t item) : loops(l), list(which), count(how_many) {
    for (int i = count - 1; i >= 0; --i) {
      index[i] = item % l.sizes[list[i]];
      item /= l.sizes[list[i]];
      for (int n = 0; n < 3; ++n) offset[n] += index[i] * l.strides[list[i]][n];
    }
  }
  void next() {
    for (int i = count - 1; i >= 0; --i) {
      for (int n = 0; n < 3; ++n) offset[n] += loops.strides[list[i]][n];
      if (++index[i] < loops.sizes[list[i]]) return;
      for (int n = 0; n < 3; ++n) offset[n] -= loops.sizes[list[i]] * loops.strides[list[i]][n];
      index[i] = 0;
    }
  }
};

/// How a write is cut into tasks.
struct Cut {
  int apart[kMaxRank] = {}, meeting[kMaxRank] = {};  // loops but the innermost
  int apart_count = 0, meeting_count = 0;
  std::int64_t apart_items = 1, meeting_items = 1;
  std::int64_t pieces = 1, width;       // of the innermost loop
  std::int64_t ranges = 1, range_size;  // of positions

  Cut(const Loops<3>& loops, std::int64_t total, std::int64_t size) : width(loops.inner()), range_size(size) {
    constexpr std::int64_t kLeastWidth = 32;
    for (int i = 0; i < loops.rank - 1; ++i) {
      const bool meets = loops.strides[i][kTo] == 0;
      if (meets) meeting[meeting_count++] = i;
      else apart[apart_count++] = i;
      (meets ? meeting_items : apart_items) *= loops.sizes[i];
    }
    const std::int64_t wanted = total < kCheapGrain / 4 ? 1 : threads();
    if (apart_items >= 4 * wanted) return;
    if (loops.strides[loops.rank - 1][kTo] != 0 && width >= 2 * kLeastWidth) {
      const std::int64_t most = width / kLeastWidth;
      pieces = most < wanted ? most : wanted;
      width = ((width + pieces - 1) / pieces + 15) / 16 * 16;
    }
    const std::int64_t tasks = apart_items * pieces;
    if (tasks < wanted) ranges = (wanted + tasks - 1) / tasks;  // each looks at all positions and takes its own
    if (ranges > size) ranges = size > 0 ? size : 1;
    range_size = (size + ranges - 1) / ranges;
  }
  std::int64_t tasks() const { return apart_items * ranges * pieces; }
};

/// Positions that a task writes to.
struct Reach {
  std::int64_t low, high;
  PositionRule rule;

  /// The position from the front; false if it is dropped, or another task's.
  bool holds(std::int64_t& position) const {
    if (position < 0) {
      if (rule.drop) return false;
      position += rule.size;
    }
    return position >= low && position < high;
  }
};

template <class T>
struct Set {
  T one(T, T value) const { return value; }
  void row(T* to, std::int64_t to_step, const T* from, std::int64_t step, std::int64_t count) const {
    if (to_step == 1 && step == 1) return copy_run(from, to, count);
    for (std::int64_t i = 0; i < count; ++i) to[i * to_step] = from[i * step];
  }
};

template <class T>
struct Add {
  T one(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return a + b;
    } else {  // wraps around, as NumPy's does
      using Bits = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Bits>(static_cast<Bits>(a) + static_cast<Bits>(b)));
    }
  }
  void row(T* to, std::int64_t to_step, const T* from, std::int64_t step, std::int64_t count) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (to_step == 1 && (step == 0 || step == 1)) {
        simd().of<T>().binary[kernels::kBinaryId<kernels::Add>](to, 1, from, step, to, count);
        return;
      }
    }
    for (std::int64_t i = 0; i < count; ++i) to[i * to_step] = one(to[i * to_step], from[i * step]);
  }
};

template <class T, bool larger>
struct Extreme {
  using Choice = std::conditional_t<larger, kernels::Maximum, kernels::Minimum>;

  T one(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) return Choice::forward(a, b);
    else return (larger ? b > a : b < a) ? b : a;
  }
  void row(T* to, std::int64_t to_step, const T* from, std::int64_t step, std::int64_t count) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (to_step == 1 && (step == 0 || step == 1))
        return simd().of<T>().binary[kernels::kBinaryId<Choice>](to, 1, from, step, to, count);
    }
    for (std::int64_t i = 0; i < count; ++i) to[i * to_step] = one(to[i * to_step], from[i * step]);
  }
};

template <class T, class I>
struct Operands {
  const I* at;
  const T* from;
  T* to;
};

/// One run of the innermost loop.
template <class T, class I, class Op>
void write_run(const Operands<T, I> run, const std::int64_t* step, std::int64_t count, const Reach reach,
               const Op& op) {
  const std::int64_t scale = reach.rule.scale;
  if (step[kAt] == 0) {
    std::int64_t position = *run.at;
    if (reach.holds(position)) op.row(run.to + position * scale, step[kTo], run.from, step[kFrom], count);
    return;
  }
  const std::int64_t at_step = step[kAt], from_step = step[kFrom], to_step = step[kTo];
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t position = run.at[i * at_step];
    if (!reach.holds(position)) continue;
    T& place = run.to[i * to_step + position * scale];
    place = op.one(place, run.from[i * from_step]);
  }
}

/// All runs of one task, in order.
template <class T, class I, class Op>
void write_task(const Loops<3>& loops, const Cut& cut, std::int64_t task, const Operands<T, I>& all,
                const PositionRule& rule, const Op& op) {
  const std::int64_t first = task % cut.pieces * cut.width, left = loops.inner() - first;
  const std::int64_t count = left < cut.width ? left : cut.width;
  if (count <= 0) return;
  task /= cut.pieces;
  const std::int64_t low = task % cut.ranges * cut.range_size, high = low + cut.range_size;
  const Reach reach{low, high < rule.size ? high : rule.size, rule};
  const Walk outer(loops, cut.apart, cut.apart_count, task / cut.ranges);
  const std::int64_t* step = loops.strides[loops.rank - 1];
  const int last = cut.meeting_count - 1;
  const std::int64_t* ahead = last >= 0 ? loops.strides[cut.meeting[last]] : nullptr;
  const bool looks_ahead = step[kAt] == 0 && step[kTo] == 1 && ahead != nullptr && ahead[kAt] != 0;
  Walk walk(loops, cut.meeting, cut.meeting_count, 0);
  for (std::int64_t i = 0; i < cut.meeting_items; ++i, walk.next()) {
    const Operands<T, I> run{all.at + outer.offset[kAt] + walk.offset[kAt] + first * step[kAt],
                             all.from + outer.offset[kFrom] + walk.offset[kFrom] + first * step[kFrom],
                             all.to + outer.offset[kTo] + walk.offset[kTo] + first * step[kTo]};
    if (looks_ahead && walk.index[last] + kAhead < loops.sizes[cut.meeting[last]])
      prefetch_row<true>(run.to, 0, run.at[kAhead * ahead[kAt]], rule.scale, static_cast<std::int64_t>(sizeof(T)),
                         count);
    write_run(run, step, count, reach, op);
  }
}

/// Rows that are added to those of a small table, so that many meet: put in the order of their places, block by block,
/// they are added one after the other in registers. Threads share the columns. False if the operands are not such rows,
/// or have too few columns.
template <class T, class I>
bool add_rows(const Loops<3>& loops, const Operands<T, I>& all, const PositionRule& rule) {
  constexpr std::int64_t kAtOnce = 16 * kSumBlock;
  if (loops.rank != 2 || rule.size > kSumBlock || loops.sizes[0] < 2 * rule.size) return false;
  const std::int64_t rows = loops.sizes[0], width = loops.sizes[1], *row = loops.strides[0], *step = loops.strides[1];
  if (row[kTo] != 0 || step[kAt] != 0 || step[kFrom] != 1 || step[kTo] != 1) return false;
  const std::int64_t lanes = simd().of<T>().lanes, units = (width + lanes - 1) / lanes;
  if (units < threads() && rows * width >= kCheapGrain) return false;
  const Reach reach{0, rule.size, rule};
  core::Scratch<SingleTerm<T>> terms(std::min(rows, kAtOnce), core::calling_place());
  for (std::int64_t begin = 0; begin < rows; begin += kAtOnce) {
    std::int64_t count = 0;
    for (std::int64_t i = begin; i < std::min(begin + kAtOnce, rows); ++i) {
      std::int64_t place = all.at[i * row[kAt]];
      if (reach.holds(place)) terms[count++] = {place, static_cast<std::int32_t>(i - begin), T(1)};
    }
    for (std::int64_t i = 0; i < count; i += kSumBlock)
      put_in_order(terms.data() + i, std::min(kSumBlock, count - i), rule.size);
    give_in_blocks<T>(terms.data(), count, {all.from + begin * row[kFrom], row[kFrom], 1}, all.to, rule.scale, width,
                      true);
  }
  return true;
}

template <class T, class Op>
void write_all(const TensorImpl& values, const TensorImpl& positions, const PositionRule& rule, TensorImpl& target,
               const Op& op) {
  const std::int64_t total = target.numel();
  if (total == 0) return;
  const Loops<3> loops(target.shape, {&positions, &values, &target});
  const Cut cut(loops, total, rule.size);
  visit_positions(positions, [&]<class I>(const I*) {
    const Operands<T, I> all{positions.as<const I>(), values.as<const T>(), target.as<T>()};
    if constexpr (std::is_same_v<Op, Add<T>> && std::is_floating_point_v<T>)
      if (add_rows(loops, all, rule)) return;
    const std::int64_t grain = kCheapGrain / 4 / (total / cut.apart_items / cut.pieces + 1) + 1;
    base::parallel_for(cut.tasks(), grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) write_task(loops, cut, task, all, rule, op);
    });
  });
}

/// memcpy of some C libraries is slow where both rows stand at the same place of their pages, as those of large tensors
/// do.
template <class T>
void copy_row(const T* from, T* to, std::int64_t count) {
  if constexpr (sizeof(T) >= 4) {
    using Float = std::conditional_t<sizeof(T) == 4, float, double>;  // only moved, never computed with
    const std::int64_t first = 0;
    simd().of<Float>().copy_rows(reinterpret_cast<const Float*>(from), &first, 1, reinterpret_cast<Float*>(to), count);
  } else {
    copy_run(from, to, count);
  }
}

/// A row of x with values written to positions along it. False if one is out of range.
template <class T, class I, class Op>
bool scatter_row(const T* x, const Operands<T, I> row, std::int64_t count, std::int64_t size, const Op& op) {
  copy_row(x, row.to, size);
  const auto end = static_cast<std::uint64_t>(size);
  const auto write_one = [=](std::int64_t i) {
    auto position = static_cast<std::uint64_t>(static_cast<std::int64_t>(row.at[i]));
    if (position >= end) [[unlikely]] {
      position += end;  // one that counts from the end: wraps around
      if (position >= end) return false;
    }
    T& place = row.to[position];
    place = op.one(place, row.from[i]);
    return true;
  };
  constexpr std::int64_t kBlock = 8, kAhead = 4096;
  std::int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    // the processor's own prefetching stops at the ends of pages
    __builtin_prefetch(reinterpret_cast<const char*>(row.at + i) + kAhead);
    if (i % (2 * kBlock) == 0) __builtin_prefetch(reinterpret_cast<const char*>(row.from + i) + kAhead);
    if (!(write_one(i) && write_one(i + 1) && write_one(i + 2) && write_one(i + 3) && write_one(i + 4) &&
          write_one(i + 5) && write_one(i + 6) && write_one(i + 7)))
      return false;
  }
  while (i < count && write_one(i)) ++i;
  return i == count;
}

/// Whether all rows of `out` have positions along them, and are enough to share: then each is copied and written to
/// while it is at hand.
bool scatters_rows(const Loops<3>& loops, std::int64_t total, const TensorImpl& x, const PositionRule& rule,
                   const TensorImpl& out) {
  if (total == 0 || out.numel() == 0 || loops.data[kTo] != out.data) return false;
  const int last = loops.rank - 1;
  const std::int64_t* step = loops.strides[last];
  if (last > 1 || step[kAt] != 1 || step[kFrom] != 1 || step[kTo] != 0 || rule.scale != 1) return false;
  if (last == 1 && loops.strides[0][kTo] != rule.size) return false;
  const std::int64_t rows = last == 1 ? loops.sizes[0] : 1;
  const std::int64_t wanted = total < kCheapGrain / 4 || threads() == 1 ? 1 : std::int64_t{4} * threads();
  return x.contiguous && x.dtype == out.dtype && rows * rule.size == out.numel() && rows >= wanted;
}

template <class T, class I, class Op>
bool scatter_rows(const Loops<3>& loops, const Operands<T, I>& all, const T* x, std::int64_t size, const Op& op) {
  const std::int64_t rows = loops.rank == 2 ? loops.sizes[0] : 1, count = loops.inner();
  const std::int64_t* step = loops.strides[0];  // from row to row; with one row there is none to step to
  std::atomic<bool> inside{true};
  base::parallel_for(rows, kCheapGrain / 4 / (size + count) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Operands<T, I> row{all.at + i * step[kAt], all.from + i * step[kFrom], all.to + i * size};
      if (scatter_row(x + i * size, row, count, size, op)) continue;
      inside.store(false, std::memory_order_relaxed);
      return;
    }
  });
  return inside.load(std::memory_order_relaxed);
}

/// Calls f with the type to compute in and what to do.
template <class F>
void visit_combine(Combine kind, DType dtype, F&& f) {
  if (kind == Combine::set) {
    visit_words(size_of(dtype), [&]<class Word>(core::Type<Word> word) { f(word, Set<Word>{}); });
    return;
  }
  core::visit_native(dtype, [&]<class T>(core::Type<T> type) {
    if constexpr (!std::is_same_v<T, bool>) {
      if (kind == Combine::add) f(type, Add<T>{});
      else if (kind == Combine::min) f(type, Extreme<T, false>{});
      else f(type, Extreme<T, true>{});
    }
  });
}

}  // namespace

void combine(Combine kind, const TensorImpl& values, const TensorImpl& positions, const PositionRule& rule,
             TensorImpl& target) {
  visit_combine(kind, target.dtype, [&]<class T, class Op>(core::Type<T>, const Op& op) {
    write_all<T>(values, positions, rule, target, op);
  });
}

bool scatter(Combine kind, const TensorImpl& x, const TensorImpl& values, const TensorImpl& positions,
             const PositionRule& rule, TensorImpl& target, TensorImpl& out) {
  const Loops<3> loops(target.shape, {&positions, &values, &target});
  if (scatters_rows(loops, target.numel(), x, rule, out)) {
    bool inside = true;
    visit_combine(kind, out.dtype, [&]<class T, class Op>(core::Type<T>, const Op& op) {
      inside = visit_positions(positions, [&]<class I>(const I*) {
        const Operands<T, I> all{positions.as<const I>(), values.as<const T>(), out.as<T>()};
        return scatter_rows(loops, all, x.as<const T>(), rule.size, op);
      });
    });
    return inside;
  }
  if (check_indices(positions, -rule.size, rule.size).position >= 0) return false;
  copy(x, out);
  combine(kind, values, positions, rule, target);
  return true;
}

bool find_last(const TensorImpl& target, const TensorImpl& positions, const PositionRule& rule, std::int64_t extent,
               TensorImpl& last) {
  const std::int64_t total = last.numel();
  if (total == 0) return false;
  const Loops<3> loops(last.shape, {&positions, &last, &target});
  const std::int64_t inner = loops.inner(), *step = loops.strides[loops.rank - 1];
  core::Scratch<std::uint64_t> seen((extent + 63) / 64, core::calling_place());
  std::memset(seen.data(), 0, sizeof(std::uint64_t) * static_cast<std::size_t>((extent + 63) / 64));
  bool overwritten = false;
  visit_positions(positions, [&]<class I>(const I*) {
    // backwards: who comes to an element first has written it last
    for (std::int64_t row = total / inner - 1; row >= 0; --row) {
      const Place<3> place(loops, row);
      for (std::int64_t i = inner - 1; i >= 0; --i) {
        std::int64_t position = positions.as<const I>()[place.offset[0] + i * step[0]];
        if (position < 0) position += rule.size;
        const std::int64_t element = place.offset[2] + i * step[2] + position * rule.scale;
        const std::uint64_t bit = std::uint64_t{1} << (element % 64);
        const bool fresh = (seen[element / 64] & bit) == 0;
        seen[element / 64] |= bit;
        last.as<bool>()[place.offset[1] + i * step[1]] = fresh;
        overwritten = overwritten || !fresh;
      }
    }
  });
  return overwritten;
}

void gather_backward(const TensorImpl& grad, const TensorImpl& indices, TensorImpl& out) {
  if (out.numel() == 0 || grad.numel() == 0) return;
  const std::int64_t rows = out.shape[0], row = out.numel() / rows;
  const Shape shape({indices.numel(), row});
  const std::int64_t of_values[] = {row, 1}, of_positions[] = {1, 0}, of_target[] = {0, 1};
  const Where where = core::calling_place();
  const Tensor values = core::make_view(grad, shape, of_values, 0, where);
  const Tensor positions = core::make_view(indices, shape, of_positions, 0, where);
  const Tensor target = core::make_view(out, shape, of_target, 0, where);
  combine(Combine::add, *values.impl(), *positions.impl(), {row, rows}, *target.impl());
}

}  // namespace capstan::on_cpu
