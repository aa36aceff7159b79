// Reductions. Three shapes are fast: the reduced elements are contiguous (rows), or in runs that are, or the kept ones
// are (columns); others are first copied into rows. Work is cut at fixed places, so that results do not depend on the
// number of threads.
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "lib/core/dispatch.hpp"
#include "lib/cpu/reducing.hpp"
#include "lib/cpu/simd/kernels.hpp"
#include "lib/kernels/factor.hpp"

namespace capstan::on_cpu {
namespace {

using core::Scratch;
using kernels::Factor;
using kernels::Reduction;

constexpr ColumnPiece kCompared = {4096, 256}, kSquared = {1024, 256};
static_assert(kCompared.columns <= kMostColumns && kSquared.columns <= kMostColumns);
constexpr std::int64_t kShortestRun = 64;  // elements one behind the other that are reduced where they stand

bool is_extreme(Reduction kind) { return kind == Reduction::max || kind == Reduction::min; }

template <class T>
T extreme_of(Reduction kind, const T* x, std::int64_t count) {
  if constexpr (std::is_floating_point_v<T>)
    return kind == Reduction::max ? simd().of<T>().max(x, count) : simd().of<T>().min(x, count);
  else return kind == Reduction::max ? simd().of_integer<T>().max(x, count) : simd().of_integer<T>().min(x, count);
}

template <class T>
T better_of(Reduction kind, T a, T b) {
  const T both[] = {a, b};
  return extreme_of(kind, both, 2);
}

template <class T>
auto sum_of(const T* x, std::int64_t count) {
  if constexpr (std::is_floating_point_v<T>) {
    return simd().of<T>().sum(x, count);
  } else if constexpr (std::is_same_v<T, bool>) {
    return trues_among(x, count);
  } else {
    std::uint64_t total = 0;  // wraps around, as NumPy's does
    for (std::int64_t i = 0; i < count; ++i) total += static_cast<std::uint64_t>(x[i]);
    return static_cast<std::int64_t>(total);
  }
}

/// Integers wrap around.
template <class T>
auto product_of(const T* x, std::int64_t count) {
  if constexpr (std::is_floating_point_v<T>) {
    return simd().of<T>().product(x, count);
  } else {
    std::uint64_t product = 1;
    for (std::int64_t i = 0; i < count; ++i) product *= static_cast<std::uint64_t>(x[i]);
    return static_cast<std::int64_t>(product);
  }
}

/// Of floating elements in double, whose root is the norm.
struct SumOfSquares {
  double sum;
};

/// What becomes of a run of elements, or of what became of such runs. Calls use(Type<Part>, Type<Result>, reduce, combine):
/// reduce(p, count) is the Part of a run, combine(a, b) that of two, and Result what is written in the end.
template <class T, class Use>
void with_extreme(Reduction kind, Use use) {
  use(
      core::Type<T>(), core::Type<T>(), [=](const T* p, std::int64_t n) { return extreme_of(kind, p, n); },
      [=](T a, T b) { return better_of(kind, a, b); });
}

/// Of floating elements.
template <class T, class Use>
void with_sum_or_extreme(Reduction kind, Use use) {
  if (kind != Reduction::sum) return with_extreme<T>(kind, use);
  use(
      core::Type<double>(), core::Type<T>(), [](const auto* p, std::int64_t n) { return sum_of(p, n); },
      [](double a, double b) { return a + b; });
}

/// Of integers and bool, in 64 bits.
template <class T, class Use>
void with_whole_numbers(bool sums, Use use) {
  use(
      core::Type<std::int64_t>(), core::Type<std::int64_t>(),
      [=](const T* p, std::int64_t n) { return sums ? sum_of(p, n) : product_of(p, n); },
      [=](std::int64_t a, std::int64_t b) {
        const auto left = static_cast<std::uint64_t>(a), right = static_cast<std::uint64_t>(b);
        return static_cast<std::int64_t>(sums ? left + right : left * right);
      });
}

/// Whether all, or any, are true.
template <class Use>
void with_question(bool any, Use use) {
  use(
      core::Type<bool>(), core::Type<bool>(),
      [=](const bool* p, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i)
          if (p[i] == any) return any;
        return !any;
      },
      [=](bool a, bool b) { return any ? a || b : a && b; });
}

template <class T, class Use>
void with_reduction(Reduction kind, Use use) {
  const bool sums = kind == Reduction::sum, products = kind == Reduction::prod;
  if constexpr (std::is_floating_point_v<T>) {
    if (kind == Reduction::norm)
      return use(
          core::Type<SumOfSquares>(), core::Type<T>(),
          [](const T* p, std::int64_t n) { return SumOfSquares{simd().of<T>().sum_of_squares(p, n)}; },
          [](SumOfSquares a, SumOfSquares b) { return SumOfSquares{a.sum + b.sum}; });
    if (!products) return with_sum_or_extreme<T>(kind, use);
    use(
        core::Type<Factor>(), core::Type<T>(), [](const T* p, std::int64_t n) { return product_of(p, n); },
        [](const Factor& a, const Factor& b) { return a * b; });
  } else if constexpr (std::is_same_v<T, bool>) {
    if (sums || products) with_whole_numbers<T>(sums, use);
    else with_question(kind == Reduction::any, use);
  } else {
    if (sums || products) with_whole_numbers<T>(sums, use);
    else with_extreme<T>(kind, use);
  }
}

/// What is written of a part.
template <class Result, class Part>
Result result_of(const Part& part) {
  if constexpr (std::is_same_v<Part, Factor>) return static_cast<Result>(kernels::value_of(part));
  else if constexpr (std::is_same_v<Part, SumOfSquares>) return static_cast<Result>(std::sqrt(part.sum));
  else return static_cast<Result>(part);
}

/// The reduced axes are one run of unit stride.
template <class T>
void rows_to(Reduction kind, const TensorImpl& x, const Split& split, TensorImpl& out) {
  const std::int64_t count = split.reduced.numel(), rows = split.kept.numel();
  const T* from = x.as<T>();
  const std::int64_t step = joint_stride(split.kept, split.kept_strides);
  if constexpr (std::is_floating_point_v<T>) {
    if (step != 0 && count <= kRowPiece) {
      const auto& k = simd().of<T>();
      base::parallel_for(rows, kCheapGrain / (count + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
        const T* const first = from + begin * step;
        T* const to = out.as<T>() + begin;
        if (kind == Reduction::sum) k.sum_rows(first, step, end - begin, count, to);
        else if (kind == Reduction::norm) k.norms_of_rows(first, step, end - begin, count, to);
        else if (kind == Reduction::prod) k.products_of_rows(first, step, end - begin, count, to);
        else k.extremes_of_rows(first, step, end - begin, count, kind == Reduction::min, to);
      });
      return;
    }
  }
  const auto row = [&](std::int64_t i) {
    return from + (step != 0 ? i * step : kept_offset(split, split.kept.rank(), i));
  };
  with_reduction<T>(kind, [&]<class Part, class Result>(core::Type<Part>, core::Type<Result>, auto reduce,
                                                        auto combine) {
    Result* const to = out.as<Result>();
    reduce_rows<Part>(rows, count, row, reduce, combine, [=](std::int64_t i, Part v) { to[i] = result_of<Result>(v); });
  });
}

/// The last reduced axes, as far as they are one run of unit stride: its elements, and the axes before it.
struct Run {
  std::int64_t count = 1;
  int before;

  explicit Run(const Split& split) : before(split.reduced.rank()) {
    for (; before > 0; --before) {
      const int axis = before - 1;
      if (split.reduced[axis] != 1 && split.reduced_strides[axis] != count) break;
      count *= split.reduced[axis];
    }
  }
};

/// Where the elements of the first `axes` axes stand, in row-major order.
void fill_offsets(const Shape& shape, const std::int64_t* strides, int axes, std::int64_t* to) {
  std::int64_t count = 1;
  to[0] = 0;
  for (int axis = axes - 1; axis >= 0; --axis) {
    for (std::int64_t j = 1; j < shape[axis]; ++j)
      for (std::int64_t i = 0; i < count; ++i) to[j * count + i] = to[i] + j * strides[axis];
    count *= shape[axis];
  }
}

/// The reduced axes end in runs of unit stride, and those before walk from run to run: of images, all but channels.
/// For sums and extremes.
template <class T>
void runs_to(Reduction kind, const TensorImpl& x, const Split& split, const Run& run, TensorImpl& out) {
  const std::int64_t rows = split.kept.numel(), runs = split.reduced.numel() / run.count;
  Scratch<std::int64_t> row_at(rows, core::calling_place()), run_at(runs, core::calling_place());
  fill_offsets(split.kept, split.kept_strides, split.kept.rank(), row_at.data());
  fill_offsets(split.reduced, split.reduced_strides, run.before, run_at.data());
  const bool rows_inside = rows > 1 && std::abs(row_at[1]) < std::abs(run_at[1]);  // then memory has row after row
  const auto row = [&](std::int64_t i) { return rows_inside ? i % rows : i / runs; };
  const auto number = [&](std::int64_t i) { return rows_inside ? i / rows : i % runs; };
  const auto begin = [&](std::int64_t i) { return x.as<T>() + row_at[row(i)] + run_at[number(i)]; };
  with_sum_or_extreme<T>(
      kind, [&]<class Part, class Result>(core::Type<Part>, core::Type<Result>, auto reduce, auto combine) {
        Scratch<Part> parts(rows * runs, core::calling_place());
        reduce_rows<Part>(rows * runs, run.count, begin, reduce, combine,
                          [&](std::int64_t i, Part v) { parts[row(i) * runs + number(i)] = v; });
        Result* const to = out.as<Result>();
        reduce_rows<Part>(
            rows, runs, [&](std::int64_t i) { return parts.data() + i * runs; }, reduce, combine,
            [=](std::int64_t i, Part v) { to[i] = result_of<Result>(v); });
      });
}

/// The kept axes end in one of unit stride, the reduced ones walk as one: whole rows are combined.
template <class T>
void columns_to(Reduction kind, const TensorImpl& x, const Split& split, std::int64_t row_step, TensorImpl& out) {
  const auto& k = simd().of<T>();
  const auto store = [to = out.as<T>()](std::int64_t i, auto value) { to[i] = static_cast<T>(value); };
  if (kind == Reduction::sum) {
    const auto add = [&](double* to, const T* from, std::int64_t rows, std::int64_t columns) {
      for (std::int64_t j = 0; j < columns; ++j) to[j] = 0;
      k.add_rows(to, from, row_step, rows, columns);
    };
    const auto plus = [](double a, double b) { return a + b; };
    const std::int64_t columns = split.kept[split.kept.rank() - 1];  // more rows where they are short
    const ColumnPiece most = {columns > 512 ? 128 : columns > 256 ? 256 : 512, kMostColumns};
    return reduce_columns<double, T>(x, split, row_step, most, add, plus, store);
  }
  if (kind == Reduction::norm) {
    const auto add = [&](double* squares, const T* from, std::int64_t rows, std::int64_t columns) {
      std::fill_n(squares, columns, 0.0);
      k.add_squares(squares, from, row_step, rows, columns);
    };
    const auto plus = [](double a, double b) { return a + b; };
    const auto store_root = [&](std::int64_t i, double squares) { store(i, std::sqrt(squares)); };
    return reduce_columns<double, T>(x, split, row_step, kSquared, add, plus, store_root);
  }
  const auto best = [&](T* to, const T* from, std::int64_t rows, std::int64_t columns) {
    std::memcpy(to, from, sizeof(T) * static_cast<std::size_t>(columns));
    (kind == Reduction::max ? k.max_rows : k.min_rows)(to, from, row_step, rows, columns);
  };
  const auto better = [=](T a, T b) { return better_of(kind, a, b); };
  reduce_columns<T, T>(x, split, row_step, kCompared, best, better, store);
}

/// Adds rows of integers to sums, which wrap around; four at a time, for sums go through memory.
template <class T>
void add_integer_rows(std::uint64_t* __restrict sums, const T* rows, std::int64_t row_step, std::int64_t row_count,
                      std::int64_t columns) {
  const auto whole = [](T x) { return static_cast<std::uint64_t>(x); };
  std::int64_t row = 0;
  for (; row + 4 <= row_count; row += 4) {
    const T *a = rows + row * row_step, *b = a + row_step, *c = b + row_step, *d = c + row_step;
    for (std::int64_t j = 0; j < columns; ++j) sums[j] += whole(a[j]) + whole(b[j]) + whole(c[j]) + whole(d[j]);
  }
  for (; row < row_count; ++row)
    for (std::int64_t j = 0; j < columns; ++j) sums[j] += whole(rows[row * row_step + j]);
}

/// The best of rows of integers, of which `best` holds the first.
template <bool kLargest, class T>
void take_integer_rows(T* __restrict best, const T* rows, std::int64_t row_step, std::int64_t row_count,
                       std::int64_t columns) {
  for (std::int64_t row = 1; row < row_count; ++row)
    for (std::int64_t j = 0; j < columns; ++j) {
      const T x = rows[row * row_step + j];
      best[j] = (kLargest ? x > best[j] : x < best[j]) ? x : best[j];
    }
}

/// Sums of integers and bool, in 64 bits.
template <class T>
void integer_column_sums_to(const TensorImpl& x, const Split& split, std::int64_t row_step, TensorImpl& out) {
  const auto add = [=](std::uint64_t* sums, const T* from, std::int64_t rows, std::int64_t columns) {
    std::fill_n(sums, columns, 0);
    add_integer_rows(sums, from, row_step, rows, columns);
  };
  const auto plus = [](std::uint64_t a, std::uint64_t b) { return a + b; };
  const auto store = [to = out.as<std::int64_t>()](std::int64_t i, std::uint64_t sum) {
    to[i] = static_cast<std::int64_t>(sum);
  };
  reduce_columns<std::uint64_t, T>(x, split, row_step, kSquared, add, plus, store);
}

template <class T>
void integer_column_extremes_to(Reduction kind, const TensorImpl& x, const Split& split, std::int64_t row_step,
                                TensorImpl& out) {
  const auto best = [=](T* to, const T* from, std::int64_t rows, std::int64_t columns) {
    std::copy_n(from, columns, to);
    if (kind == Reduction::max) take_integer_rows<true>(to, from, row_step, rows, columns);
    else take_integer_rows<false>(to, from, row_step, rows, columns);
  };
  const auto better = [=](T a, T b) { return better_of(kind, a, b); };
  reduce_columns<T, T>(x, split, row_step, kCompared, best, better,
                       [to = out.as<T>()](std::int64_t i, T value) { to[i] = value; });
}

}  // namespace

void reduce(Reduction kind, const TensorImpl& x, unsigned reduced, TensorImpl& out) {
  if (out.numel() == 0) return;
  const Split split(x, reduced);
  if (split.reduced.numel() == 0) {  // sums and any give 0, all and products 1; extremes were refused before
    fill(out, out.dtype == DType::bool8 ? Scalar(kind == Reduction::all) : Scalar(kind == Reduction::prod ? 1 : 0));
    return;
  }
  core::visit_native(x.dtype, [&]<class T>(core::Type<T>) {
    const std::int64_t step = joint_stride(split.reduced, split.reduced_strides);
    if (step == 1) return rows_to<T>(kind, x, split, out);
    const int last = split.kept.rank() - 1;
    const bool columns = step > 0 && last >= 0 && split.kept_strides[last] == 1;
    if constexpr (std::is_floating_point_v<T>) {
      if (columns && kind != Reduction::prod) return columns_to<T>(kind, x, split, step, out);
      const Run run(split);
      if (run.count >= kShortestRun && (kind == Reduction::sum || is_extreme(kind)))
        return runs_to<T>(kind, x, split, run, out);
    } else {
      if (columns && kind == Reduction::sum) return integer_column_sums_to<T>(x, split, step, out);
      if constexpr (!std::is_same_v<T, bool>)
        if (columns && is_extreme(kind)) return integer_column_extremes_to<T>(kind, x, split, step, out);
    }
    const Tensor rows = as_rows(x, split);
    unsigned mask = 0;
    for (int axis = split.kept.rank(); axis < x.rank(); ++axis) mask |= 1u << axis;
    rows_to<T>(kind, *rows.impl(), Split(*rows.impl(), mask), out);
  });
}

namespace {

/// Where the first of the best stands: of a long row its block alone is looked through a second time, a short one is
/// not worth the calls.
template <bool kLargest, class T>
std::int64_t place_in_integers(const T* x, std::int64_t count) {
  const auto better = [](T a, T b) { return kLargest ? a > b : a < b; };
  constexpr std::int64_t kBlock = 4096, kShort = 32;
  if (count < kShort) {
    std::int64_t place = 0;
    for (std::int64_t i = 1; i < count; ++i)
      if (better(x[i], x[place])) place = i;
    return place;
  }
  const Reduction kind = kLargest ? Reduction::max : Reduction::min;
  T best = extreme_of(kind, x, std::min(count, kBlock));
  std::int64_t begin = 0;
  for (std::int64_t next = kBlock; next < count; next += kBlock) {
    const T here = extreme_of(kind, x + next, std::min(count - next, kBlock));
    if (better(here, best)) best = here, begin = next;
  }
  return std::find(x + begin, x + count, best) - x;
}

template <bool kLargest>
void place_of_extreme(const TensorImpl& x, int axis, TensorImpl& out) {
  if (out.numel() == 0) return;
  const Split split(x, 1u << axis);
  const std::int64_t count = split.reduced.numel(), step = joint_stride(split.kept, split.kept_strides);
  const bool in_place = step != 0 && (count == 1 || split.reduced_strides[0] == 1);
  const Tensor rows = in_place ? Tensor() : as_rows(x, split);
  core::visit_native(x.dtype, [&]<class T>(core::Type<T>) {
    const T* const from = (in_place ? x : *rows.impl()).as<T>();
    const std::int64_t row_step = in_place ? step : count;
    std::int64_t* const to = out.as<std::int64_t>();
    base::parallel_for(out.numel(), kCheapGrain / (count + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
      if constexpr (std::is_floating_point_v<T>) {
        simd().of<T>().places_of_extremes(from + begin * row_step, row_step, end - begin, count, !kLargest, to + begin);
      } else if constexpr (!std::is_same_v<T, bool>) {  // which was refused before
        for (std::int64_t row = begin; row < end; ++row)
          to[row] = place_in_integers<kLargest>(from + row * row_step, count);
      }
    });
  });
}

}  // namespace

void argmax(const TensorImpl& x, int axis, TensorImpl& out) { place_of_extreme<true>(x, axis, out); }
void argmin(const TensorImpl& x, int axis, TensorImpl& out) { place_of_extreme<false>(x, axis, out); }

}  // namespace capstan::on_cpu
