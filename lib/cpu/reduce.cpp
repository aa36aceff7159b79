// Reductions. Three shapes are fast: the reduced elements are contiguous (rows), or in runs that are, or the kept ones
// are (columns); others are first copied into rows. Work is cut at fixed places, so that results do not depend on the
// number of threads.
#include <cstdlib>
#include <cstring>

#include "lib/core/dispatch.hpp"
#include "lib/cpu/reducing.hpp"
#include "lib/cpu/simd/kernels.hpp"

namespace capstan::on_cpu {
namespace {

using core::Scratch;
using kernels::Reduction;

constexpr std::int64_t kColumnPiece = 256;  // columns, times
constexpr std::int64_t kColumnRows = 4096;  // rows, that are reduced in one go
constexpr std::int64_t kShortestRun = 64;   // elements one behind the other that are reduced where they stand

template <class T>
T extreme_of(Reduction kind, const T* x, std::int64_t count) {
  if constexpr (std::is_floating_point_v<T>) {
    return kind == Reduction::max ? simd().of<T>().max(x, count) : simd().of<T>().min(x, count);
  } else {
    T best = x[0];
    for (std::int64_t i = 1; i < count; ++i) best = (kind == Reduction::max) == (x[i] > best) ? x[i] : best;
    return best;
  }
}

template <class T>
auto sum_of(const T* x, std::int64_t count) {
  if constexpr (std::is_floating_point_v<T>) {
    return simd().of<T>().sum(x, count);
  } else {
    std::uint64_t total = 0;  // wraps around, as NumPy's does
    for (std::int64_t i = 0; i < count; ++i) total += static_cast<std::uint64_t>(x[i]);
    return static_cast<std::int64_t>(total);
  }
}

/// In double, eight products side by side; integers wrap around.
template <class T>
auto product_of(const T* x, std::int64_t count) {
  using Wide = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;
  constexpr int kSide = 8;
  Wide parts[kSide];
  for (Wide& part : parts) part = Wide(1);
  std::int64_t i = 0;
  for (; i + kSide <= count; i += kSide)
    for (int k = 0; k < kSide; ++k) parts[k] *= static_cast<Wide>(x[i + k]);
  for (; i < count; ++i) parts[0] *= static_cast<Wide>(x[i]);
  for (int k = 1; k < kSide; ++k) parts[0] *= parts[k];
  if constexpr (std::is_floating_point_v<T>) {
    if (parts[0] != 0 && parts[0] - parts[0] == 0) return parts[0];
    double product = 1;  // one by one, as NumPy's, may stay within the range of double where eight by eight do not
    for (i = 0; i < count; ++i) product *= static_cast<double>(x[i]);
    return product;
  } else {
    return static_cast<std::int64_t>(parts[0]);
  }
}

template <class Part>
Part combined(bool sums, Part a, Part b) {
  if constexpr (std::is_floating_point_v<Part>) {
    return sums ? a + b : a * b;
  } else {
    const auto left = static_cast<std::uint64_t>(a), right = static_cast<std::uint64_t>(b);
    return static_cast<Part>(sums ? left + right : left * right);
  }
}

/// Calls use(Type<Part>, Type<Result>, reduce, combine): reduce(p, count) is the Part of a run of elements or of parts,
/// combine(a, b) that of two, and Result what is written in the end.
template <class T, class Use>
void with_reduction(Reduction kind, Use use) {
  if (kind == Reduction::sum || kind == Reduction::prod) {
    using Part = decltype(sum_of<T>(nullptr, 0));
    using Result = std::conditional_t<std::is_floating_point_v<T>, T, std::int64_t>;
    const bool sums = kind == Reduction::sum;
    use(
        core::Type<Part>(), core::Type<Result>(),
        [=](const auto* p, std::int64_t n) { return sums ? sum_of(p, n) : product_of(p, n); },
        [=](Part a, Part b) { return combined(sums, a, b); });
  } else if (kind == Reduction::max || kind == Reduction::min) {
    use(
        core::Type<T>(), core::Type<T>(), [=](const T* p, std::int64_t n) { return extreme_of(kind, p, n); },
        [=](T a, T b) {
          const T both[] = {a, b};
          return extreme_of(kind, both, 2);
        });
  } else {
    const bool stop = kind == Reduction::any;
    use(
        core::Type<bool>(), core::Type<bool>(),
        [=](const auto* p, std::int64_t n) {
          for (std::int64_t i = 0; i < n; ++i)
            if ((p[i] != 0) == stop) return stop;
          return !stop;
        },
        [=](bool a, bool b) { return stop ? a || b : a && b; });
  }
}

/// The reduced axes are one run of unit stride.
template <class T>
void rows_to(Reduction kind, const TensorImpl& x, const Split& split, TensorImpl& out) {
  const std::int64_t count = split.reduced.numel(), rows = split.kept.numel();
  const T* from = x.as<T>();
  if constexpr (std::is_floating_point_v<T>) {
    const std::int64_t step = joint_stride(split.kept, split.kept_strides);
    if (kind == Reduction::sum && step != 0 && count <= kRowPiece) {
      base::parallel_for(rows, kCheapGrain / (count + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
        simd().of<T>().sum_rows(from + begin * step, step, end - begin, count, out.as<T>() + begin);
      });
      return;
    }
  }
  const auto row = [&](std::int64_t i) { return from + kept_offset(split, split.kept.rank(), i); };
  with_reduction<T>(kind,
                    [&]<class Part, class Result>(core::Type<Part>, core::Type<Result>, auto reduce, auto combine) {
                      Result* const to = out.as<Result>();
                      reduce_rows<Part>(rows, count, row, reduce, combine,
                                        [=](std::int64_t i, Part v) { to[i] = static_cast<Result>(v); });
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
/// Not for products: those of runs may leave the range of a double where that of all stays within.
template <class T>
void runs_to(Reduction kind, const TensorImpl& x, const Split& split, const Run& run, TensorImpl& out) {
  const std::int64_t rows = split.kept.numel(), runs = split.reduced.numel() / run.count;
  Scratch<std::int64_t> row_at(rows, Where::current()), run_at(runs, Where::current());
  fill_offsets(split.kept, split.kept_strides, split.kept.rank(), row_at.data());
  fill_offsets(split.reduced, split.reduced_strides, run.before, run_at.data());
  const bool rows_inside = rows > 1 && std::abs(row_at[1]) < std::abs(run_at[1]);  // then memory has row after row
  const auto row = [&](std::int64_t i) { return rows_inside ? i % rows : i / runs; };
  const auto number = [&](std::int64_t i) { return rows_inside ? i / rows : i % runs; };
  const auto begin = [&](std::int64_t i) { return x.as<T>() + row_at[row(i)] + run_at[number(i)]; };
  with_reduction<T>(kind,
                    [&]<class Part, class Result>(core::Type<Part>, core::Type<Result>, auto reduce, auto combine) {
                      Scratch<Part> parts(rows * runs, Where::current());
                      reduce_rows<Part>(rows * runs, run.count, begin, reduce, combine,
                                        [&](std::int64_t i, Part v) { parts[row(i) * runs + number(i)] = v; });
                      Result* const to = out.as<Result>();
                      reduce_rows<Part>(
                          rows, runs, [&](std::int64_t i) { return parts.data() + i * runs; }, reduce, combine,
                          [=](std::int64_t i, Part v) { to[i] = static_cast<Result>(v); });
                    });
}

/// The kept axes end in one of unit stride, the reduced ones walk as one: whole rows are combined.
template <class T>
void columns_to(Reduction kind, const TensorImpl& x, const Split& split, std::int64_t row_step, TensorImpl& out) {
  const auto& simd_kernels = simd().of<T>();
  const std::int64_t rows = split.reduced.numel(), columns = split.kept[split.kept.rank() - 1];
  const std::int64_t outer = split.kept.numel() / columns;
  const std::int64_t column_pieces = (columns + kColumnPiece - 1) / kColumnPiece;
  const std::int64_t row_pieces = (rows + kColumnRows - 1) / kColumnRows;
  const bool sums = kind == Reduction::sum;
  Scratch<double> total(sums ? outer * row_pieces * columns : 0, Where::current());
  Scratch<T> best(sums ? 0 : outer * row_pieces * columns, Where::current());
  const std::int64_t work = kColumnPiece * (rows < kColumnRows ? rows : kColumnRows);
  base::parallel_for(
      outer * row_pieces * column_pieces, kCheapGrain / work + 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t item = begin; item < end; ++item) {
          const std::int64_t column = item % column_pieces * kColumnPiece, part = item / column_pieces;
          const std::int64_t row = part % row_pieces * kColumnRows;
          const std::int64_t offset = kept_offset(split, split.kept.rank() - 1, part / row_pieces);
          const T* from = x.as<T>() + offset + row * row_step + column;
          const std::int64_t width = columns - column < kColumnPiece ? columns - column : kColumnPiece;
          const std::int64_t height = rows - row < kColumnRows ? rows - row : kColumnRows;
          if (sums) {
            double* to = total.data() + part * columns + column;
            for (std::int64_t j = 0; j < width; ++j) to[j] = 0;
            simd_kernels.add_rows(to, from, row_step, height, width);
          } else {
            T* to = best.data() + part * columns + column;
            std::memcpy(to, from, sizeof(T) * static_cast<std::size_t>(width));
            (kind == Reduction::max ? simd_kernels.max_rows : simd_kernels.min_rows)(to, from, row_step, height, width);
          }
        }
      });
  T* to = out.as<T>();
  for (std::int64_t place = 0; place < outer; ++place)
    for (std::int64_t j = 0; j < columns; ++j) {
      const std::int64_t first = place * row_pieces * columns + j;
      if (sums) {
        double value = total[first];
        for (std::int64_t p = 1; p < row_pieces; ++p) value += total[first + p * columns];
        to[place * columns + j] = static_cast<T>(value);
      } else {
        T value = best[first];
        for (std::int64_t p = 1; p < row_pieces; ++p) {
          const T both[] = {value, best[first + p * columns]};
          value = extreme_of<T>(kind, both, 2);
        }
        to[place * columns + j] = value;
      }
    }
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
    if constexpr (std::is_floating_point_v<T>) {
      const int last = split.kept.rank() - 1;
      if (kind != Reduction::prod && step > 0 && last >= 0 && split.kept_strides[last] == 1)
        return columns_to<T>(kind, x, split, step, out);
      const Run run(split);
      if (run.count >= kShortestRun && kind != Reduction::prod) return runs_to<T>(kind, x, split, run, out);
    }
    const Tensor rows = as_rows(x, split);
    unsigned mask = 0;
    for (int axis = split.kept.rank(); axis < x.rank(); ++axis) mask |= 1u << axis;
    rows_to<T>(kind, *rows.impl(), Split(*rows.impl(), mask), out);
  });
}

namespace {

template <bool kLargest>
void place_of_extreme(const TensorImpl& x, int axis, TensorImpl& out) {
  if (out.numel() == 0) return;
  Split split(x, 1u << axis);
  const Tensor rows = as_rows(x, split);
  const std::int64_t count = split.reduced.numel();
  core::visit_native(x.dtype, [&]<class T>(core::Type<T>) {
    std::int64_t* to = out.as<std::int64_t>();
    base::parallel_for(out.numel(), kCheapGrain / (count + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const T* from = rows.impl()->as<T>() + row * count;
        std::int64_t best = 0;
        for (std::int64_t i = 1; i < count; ++i) {
          if (from[best] != from[best]) break;  // the first NaN wins
          if ((kLargest ? from[i] > from[best] : from[i] < from[best]) || from[i] != from[i]) best = i;
        }
        to[row] = best;
      }
    });
  });
}

}  // namespace

void argmax(const TensorImpl& x, int axis, TensorImpl& out) { place_of_extreme<true>(x, axis, out); }
void argmin(const TensorImpl& x, int axis, TensorImpl& out) { place_of_extreme<false>(x, axis, out); }

}  // namespace capstan::on_cpu
