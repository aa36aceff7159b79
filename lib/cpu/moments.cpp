// Means and variances in one go, and what products need for their gradients. Pieces that stay in the cache are read
// twice: for their mean, then for the distances from it (the corrected two-pass algorithm of the paper that parts.hpp
// names). Distances are taken from a number of the element type, so that equal values have variance 0 exactly.
#include <cmath>

#include "lib/core/dispatch.hpp"
#include "lib/cpu/along.hpp"
#include "lib/cpu/parts.hpp"
#include "lib/cpu/reducing.hpp"
#include "lib/cpu/simd/kernels.hpp"
#include "lib/kernels/factor.hpp"

namespace capstan::on_cpu {
namespace {

constexpr ColumnPiece kMost = {256, 256};  // which stay in the cache
static_assert(kMost.columns <= kMostColumns);

/// What becomes of a part: the mean, and the variance or its root.
template <class T>
struct Results {
  T *mean, *spread;
  double correction;
  bool root;

  void store(std::int64_t i, const Part& part) const {
    const double divisor = part.count - correction > 0 ? part.count - correction : 0;
    const double variance = part.squares / divisor;
    mean[i] = static_cast<T>(part.mean);
    spread[i] = static_cast<T>(root ? std::sqrt(variance) : variance);
  }
};

template <class T>
void rows_to(const TensorImpl& x, const Split& split, const Results<T>& results) {
  const auto& simd_kernels = simd().of<T>();
  const T* from = x.as<T>();
  reduce_rows<Part>(
      split.kept.numel(), split.reduced.numel(),
      [&](std::int64_t i) { return from + kept_offset(split, split.kept.rank(), i); },
      [&](const T* row, std::int64_t n) {
        const auto count = static_cast<double>(n);
        const T shift = shift_of(simd_kernels.sum(row, n), count, row[0]);
        double first, second;
        simd_kernels.spread(row, shift, n, &first, &second);
        return part_of(count, static_cast<double>(shift), first, second);
      },
      joined, [&](std::int64_t i, const Part& part) { results.store(i, part); });
}

/// The parts of a block of columns, written to `parts`.
template <class T>
void column_parts(const T* from, std::int64_t row_step, std::int64_t height, std::int64_t width, Part* parts) {
  const auto& simd_kernels = simd().of<T>();
  const auto count = static_cast<double>(height);
  T shifts[kMost.columns];
  double first[kMost.columns] = {}, second[kMost.columns] = {};
  simd_kernels.add_rows(first, from, row_step, height, width);
  for (std::int64_t j = 0; j < width; ++j) {
    shifts[j] = shift_of(first[j], count, from[j]);
    first[j] = 0;
  }
  simd_kernels.spread_rows(from, row_step, height, shifts, width, first, second);
  for (std::int64_t j = 0; j < width; ++j)
    parts[j] = part_of(count, static_cast<double>(shifts[j]), first[j], second[j]);
}

/// The kept axes end in one of unit stride, the reduced ones walk as one.
template <class T>
void columns_to(const TensorImpl& x, const Split& split, std::int64_t row_step, const Results<T>& results) {
  const auto piece = [&](Part* parts, const T* from, std::int64_t rows, std::int64_t columns) {
    column_parts(from, row_step, rows, columns, parts);
  };
  const auto store = [&](std::int64_t i, const Part& part) { results.store(i, part); };
  reduce_columns<Part, T>(x, split, row_step, kMost, piece, joined, store);
}

}  // namespace

void moments(const TensorImpl& x, unsigned reduced, double correction, bool root, TensorImpl& mean,
             TensorImpl& spread) {
  if (mean.numel() == 0) return;
  const Split split(x, reduced);
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    const Results<T> results{mean.as<T>(), spread.as<T>(), correction, root};
    const std::int64_t step = joint_stride(split.reduced, split.reduced_strides);
    const int last = split.kept.rank() - 1;
    if (step == 1) return rows_to<T>(x, split, results);
    if (step > 0 && last >= 0 && split.kept_strides[last] == 1) return columns_to<T>(x, split, step, results);
    const Tensor rows = as_rows(x, split);
    unsigned mask = 0;
    for (int axis = split.kept.rank(); axis < x.rank(); ++axis) mask |= 1u << axis;
    rows_to<T>(*rows.impl(), Split(*rows.impl(), mask), results);
  });
}

namespace {

/// A row's product without each of its elements, times `grad`: what comes before an element times what comes behind it,
/// of which `before` keeps the former.
template <class T>
void other_factors(const T* x, double grad, std::int64_t count, T* to, kernels::Factor* before) {
  kernels::Factor product{1, 0};
  for (std::int64_t i = 0; i < count; ++i) {
    before[i] = product;
    product = kernels::extended(product, x[i]);
  }
  product = kernels::scaled_factor(grad, 0);
  for (std::int64_t i = count - 1; i >= 0; --i) {
    to[i] = static_cast<T>(kernels::value_of(before[i] * product));
    product = kernels::extended(product, x[i]);
  }
}

/// The same as quotients of the row's product, which round once more, if all are numbers other than zero and in range;
/// else false. Two float64 elements are each other's factor exactly.
template <class T>
bool quotients_of_product(const T* x, double grad, std::int64_t count, T* to) {
  const kernels::Factor all = simd().of<T>().product(x, count);
  if (all.part == 0 || !std::isfinite(all.part) || !std::isfinite(grad)) return false;
  const kernels::Factor dividend = kernels::scaled_factor(grad, 0) * all;
  if constexpr (sizeof(T) == 8)  // of a float such a quotient is 0 or infinite, as its dividend
    if (count <= 2 || dividend.exponent < -1022 || dividend.exponent > 1023) return false;
  const double part = kernels::value_of(dividend);
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(part / static_cast<double>(x[i]));
  return true;
}

}  // namespace

void prod_backward(const TensorImpl& grad, const TensorImpl& x, TensorImpl& out) {
  const std::int64_t rows = x.shape[0], count = x.shape[1];
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(kernels::Factor));
    const std::int64_t grain = kCheapGrain / (count + 1) + 1;
    for_lanes(rows, grain, bytes, [&](std::byte* scratch, std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const T* from = x.as<T>() + row * count;
        T* to = out.as<T>() + row * count;
        const auto slope = static_cast<double>(grad.as<T>()[row]);
        if (!quotients_of_product(from, slope, count, to))
          other_factors(from, slope, count, to, reinterpret_cast<kernels::Factor*>(scratch));
      }
    });
  });
}

}  // namespace capstan::on_cpu
