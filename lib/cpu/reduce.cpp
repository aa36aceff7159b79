// Reductions. Two shapes are fast: the reduced elements are contiguous (rows), or the kept ones are (columns); others
// are first copied into rows. Work is cut at fixed places, so that results do not depend on the number of threads.
#include <cstring>

#include "lib/core/allocator.hpp"
#include "lib/core/dispatch.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/simd/kernels.hpp"

namespace capstan::on_cpu {
namespace {

using core::Scratch;
using kernels::Reduction;

constexpr std::int64_t kRowPiece = 65536;   // elements of one row that are reduced in one go
constexpr std::int64_t kColumnPiece = 256;  // columns, times
constexpr std::int64_t kColumnRows = 4096;  // rows, that are reduced in one go

/// x seen with its kept axes first and its reduced axes last.
struct Split {
  Shape kept, reduced;
  std::int64_t kept_strides[kMaxRank], reduced_strides[kMaxRank];

  Split(const TensorImpl& x, unsigned mask) {
    std::int64_t kept_sizes[kMaxRank], reduced_sizes[kMaxRank];
    std::size_t k = 0, r = 0;
    for (int axis = 0; axis < x.rank(); ++axis) {
      if (mask >> axis & 1u) reduced_sizes[r] = x.shape[axis], reduced_strides[r++] = x.strides[axis];
      else kept_sizes[k] = x.shape[axis], kept_strides[k++] = x.strides[axis];
    }
    kept = Shape(std::span<const std::int64_t>(kept_sizes, k));
    reduced = Shape(std::span<const std::int64_t>(reduced_sizes, r));
  }
};

/// The stride of axes that can be walked as one, 0 if they cannot (stretched axes among them). One element gives 1.
std::int64_t joint_stride(const Shape& shape, const std::int64_t* strides) {
  std::int64_t stride = 0, expected = 0;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] == 1) continue;
    if (strides[axis] == 0) return 0;
    if (stride == 0) stride = strides[axis];
    else if (strides[axis] != expected) return 0;
    expected = strides[axis] * shape[axis];
  }
  return stride == 0 ? 1 : stride;
}

/// Where number `index` of the first `axes` kept axes stands.
std::int64_t kept_offset(const Split& split, int axes, std::int64_t index) {
  std::int64_t offset = 0;
  for (int axis = axes - 1; axis >= 0; --axis) {
    offset += index % split.kept[axis] * split.kept_strides[axis];
    index /= split.kept[axis];
  }
  return offset;
}

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

/// Reduces `rows` runs of `count` values; `row(i)` is where run i begins. Long runs are cut into pieces.
template <class Part, class Row, class Reduce, class Combine, class Store>
void reduce_rows(std::int64_t rows, std::int64_t count, Row row, Reduce reduce, Combine combine, Store store) {
  const std::int64_t pieces = count > kRowPiece ? (count + kRowPiece - 1) / kRowPiece : 1;
  if (pieces == 1) {
    base::parallel_for(rows, kCheapGrain / (count + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) store(i, reduce(row(i), count));
    });
    return;
  }
  Scratch<Part> parts(rows * pieces, Where::current());
  base::parallel_for(rows * pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t from = item % pieces * kRowPiece, left = count - from;
      parts[item] = reduce(row(item / pieces) + from, left < kRowPiece ? left : kRowPiece);
    }
  });
  for (std::int64_t i = 0; i < rows; ++i) {
    Part total = parts[i * pieces];
    for (std::int64_t p = 1; p < pieces; ++p) total = combine(total, parts[i * pieces + p]);
    store(i, total);
  }
}

template <class T>
void rows_to(Reduction kind, const TensorImpl& x, const Split& split, TensorImpl& out) {
  const std::int64_t count = split.reduced.numel(), rows = split.kept.numel();
  const T* from = x.as<T>();
  const auto row = [&](std::int64_t i) { return from + kept_offset(split, split.kept.rank(), i); };
  if (kind == Reduction::sum) {
    using Part = decltype(sum_of<T>(from, count));
    using Result = std::conditional_t<std::is_floating_point_v<T>, T, std::int64_t>;
    Result* to = out.as<Result>();
    reduce_rows<Part>(
        rows, count, row, [](const T* p, std::int64_t n) { return sum_of<T>(p, n); },
        [](Part a, Part b) { return a + b; }, [=](std::int64_t i, Part v) { to[i] = static_cast<Result>(v); });
  } else if (kind == Reduction::max || kind == Reduction::min) {
    T* to = out.as<T>();
    reduce_rows<T>(
        rows, count, row, [=](const T* p, std::int64_t n) { return extreme_of<T>(kind, p, n); },
        [=](T a, T b) {
          const T both[] = {a, b};
          return extreme_of<T>(kind, both, 2);
        },
        [=](std::int64_t i, T v) { to[i] = v; });
  } else {
    bool* to = out.as<bool>();
    const bool stop = kind == Reduction::any;
    reduce_rows<bool>(
        rows, count, row,
        [=](const T* p, std::int64_t n) {
          for (std::int64_t i = 0; i < n; ++i)
            if ((p[i] != T(0)) == stop) return stop;
          return !stop;
        },
        [=](bool a, bool b) { return stop ? a || b : a && b; }, [=](std::int64_t i, bool v) { to[i] = v; });
  }
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

/// A contiguous copy with the kept axes first.
Tensor as_rows(const TensorImpl& x, const Split& split) {
  std::int64_t sizes[kMaxRank], strides[kMaxRank];
  std::size_t rank = 0;
  for (int axis = 0; axis < split.kept.rank(); ++axis)
    sizes[rank] = split.kept[axis], strides[rank++] = split.kept_strides[axis];
  for (int axis = 0; axis < split.reduced.rank(); ++axis)
    sizes[rank] = split.reduced[axis], strides[rank++] = split.reduced_strides[axis];
  const Shape shape(std::span<const std::int64_t>(sizes, rank));
  const Tensor view = core::make_view(x, shape, strides, 0, Where::current());
  const Tensor result = core::make_tensor(shape, x.dtype, x.device(), Where::current());
  copy(*view.impl(), *result.impl());
  return result;
}

}  // namespace

void reduce(Reduction kind, const TensorImpl& x, unsigned reduced, TensorImpl& out) {
  if (out.numel() == 0) return;
  const Split split(x, reduced);
  if (split.reduced.numel() == 0) {  // sums and any give 0, all gives 1; extremes were refused before
    fill(out, out.dtype == DType::bool8 ? Scalar(kind == Reduction::all) : Scalar(0));
    return;
  }
  core::visit(x.dtype, [&]<class T>(core::Type<T>) {
    const std::int64_t step = joint_stride(split.reduced, split.reduced_strides);
    if (step == 1) return rows_to<T>(kind, x, split, out);
    if constexpr (std::is_floating_point_v<T>) {
      const int last = split.kept.rank() - 1;
      if (step > 0 && last >= 0 && split.kept_strides[last] == 1) return columns_to<T>(kind, x, split, step, out);
    }
    const Tensor rows = as_rows(x, split);
    unsigned mask = 0;
    for (int axis = split.kept.rank(); axis < x.rank(); ++axis) mask |= 1u << axis;
    rows_to<T>(kind, *rows.impl(), Split(*rows.impl(), mask), out);
  });
}

void argmax(const TensorImpl& x, int axis, TensorImpl& out) {
  if (out.numel() == 0) return;
  Split split(x, 1u << axis);
  const Tensor rows = as_rows(x, split);
  const std::int64_t count = split.reduced.numel();
  core::visit(x.dtype, [&]<class T>(core::Type<T>) {
    std::int64_t* to = out.as<std::int64_t>();
    base::parallel_for(out.numel(), kCheapGrain / (count + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const T* from = rows.impl()->as<T>() + row * count;
        std::int64_t best = 0;
        for (std::int64_t i = 1; i < count; ++i) {
          if (from[best] != from[best]) break;  // the first NaN wins
          if (from[i] > from[best] || from[i] != from[i]) best = i;
        }
        to[row] = best;
      }
    });
  });
}

}  // namespace capstan::on_cpu
