// Layer normalization and its relative without a mean: rows one by one. The gradients of weight and bias are sums over
// rows: those of a block of rows first, the blocks in their order.
#include <cstring>

#include "lib/cpu/normalizing.hpp"

namespace capstan::on_cpu {
namespace {

constexpr std::int64_t kFewRows = 32;  // below, threads share columns
constexpr std::int64_t kColumnPiece = 4096;
constexpr std::int64_t kSumPiece = 256;

template <class T>
NormGradients<T> some_rows(NormGradients<T> g, std::int64_t begin, std::int64_t rows) {
  g.rows = rows;
  g.grad += begin * g.step;
  g.x += begin * g.step;
  g.inverse += begin;
  if (g.mean != nullptr) g.mean += begin;
  if (g.dx != nullptr) g.dx += begin * g.step;
  return g;
}
template <class T>
NormGradients<T> some_columns(NormGradients<T> g, std::int64_t begin, std::int64_t count) {
  g.count = count;
  g.grad += begin;
  g.x += begin;
  if (g.weight != nullptr) g.weight += begin;
  if (g.dx != nullptr) g.dx += begin;
  return g;
}

/// Rows begin .. end-1. `sums` [2, step] is added to, or null.
template <class T>
void gradients_of_rows(const FloatKernels<T>& k, const NormGradients<T>& all, std::int64_t begin, std::int64_t end,
                       T* sums) {
  NormGradients<T> some = some_rows(all, begin, end - begin);
  if (sums != nullptr) some.dweight = sums, some.dbias = sums + all.step;
  k.norm_gradients(some);
}

template <class T>
void set_zero(T* values, std::int64_t count) {
  std::memset(values, 0, static_cast<std::size_t>(count) * sizeof(T));
}

/// All gradients of few rows: threads share the rows for the totals, then the columns. `sums` [2, step] is written.
template <class T>
void gradients_of_few(const FloatKernels<T>& k, NormGradients<T> all, T* sums) {
  core::Scratch<double> totals(3 * all.rows, core::calling_place());
  base::parallel_for(all.rows, rows_worth_sharing(all.step), [&](std::int64_t begin, std::int64_t end) {
    NormGradients<T> some = some_rows(all, begin, end - begin);
    some.totals = totals.data() + 3 * begin;
    k.norm_totals(some);
  });
  all.totals = totals.data();
  const std::int64_t grain = kCheapGrain / (kColumnPiece * all.rows) + 1;
  base::parallel_for(blocks_of(all.step, kColumnPiece), grain, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t first = begin * kColumnPiece;
    const std::int64_t width = (end * kColumnPiece < all.step ? end * kColumnPiece : all.step) - first;
    NormGradients<T> some = some_columns(all, first, width);
    some.dweight = sums + first, some.dbias = sums + all.step + first;
    set_zero(some.dweight, width);
    set_zero(some.dbias, width);
    k.norm_gradients(some);
  });
}

/// to [count] = the sums over the blocks of sums [blocks, 2, count], the first or the second.
template <class T>
void join_blocks(const FloatKernels<T>& k, const T* sums, std::int64_t blocks, std::int64_t count, T* to) {
  const std::int64_t grain = kCheapGrain / (kSumPiece * blocks) + 1;
  base::parallel_for(blocks_of(count, kSumPiece), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = begin * kSumPiece; first < count && first < end * kSumPiece; first += kSumPiece) {
      double totals[kSumPiece] = {};
      const std::int64_t width = count - first < kSumPiece ? count - first : kSumPiece;
      k.add_rows(totals, sums + first, 2 * count, blocks, width);
      for (std::int64_t j = 0; j < width; ++j) to[first + j] = static_cast<T>(totals[j]);
    }
  });
}

template <class T>
void gradients(const NormGradients<T>& all, T* dweight, T* dbias) {
  const FloatKernels<T>& k = simd().of<T>();
  const std::int64_t rows = all.rows, count = all.step;
  if (dweight == nullptr && dbias == nullptr) {
    base::parallel_for(rows, rows_worth_sharing(count), [&](std::int64_t begin, std::int64_t end) {
      gradients_of_rows<T>(k, all, begin, end, nullptr);
    });
    return;
  }
  const std::int64_t share = rows / 16, block = share < 16 ? 16 : share > 128 ? 128 : share;
  const std::int64_t blocks = rows < kFewRows ? 1 : blocks_of(rows, block);
  core::Scratch<T> sums(blocks * 2 * count, core::calling_place());
  if (rows < kFewRows) {
    gradients_of_few(k, all, sums.data());
  } else {
    base::parallel_for(blocks, rows_worth_sharing(count) / block + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        T* own = sums.data() + b * 2 * count;
        set_zero(own, 2 * count);
        gradients_of_rows(k, all, b * block, (b + 1) * block < rows ? (b + 1) * block : rows, own);
      }
    });
  }
  if (dweight != nullptr) join_blocks(k, sums.data(), blocks, count, dweight);
  if (dbias != nullptr) join_blocks(k, sums.data() + count, blocks, count, dbias);
}

}  // namespace

void layer_norm(const TensorImpl& x, const TensorImpl* weight, const TensorImpl* bias, double epsilon, TensorImpl& out,
                TensorImpl* mean, TensorImpl& inverse) {
  if (x.numel() == 0) return;
  const std::int64_t rows = inverse.numel(), count = x.numel() / rows;
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    const T *w = data_or_null<T>(weight), *b = data_or_null<T>(bias);
    base::parallel_for(rows, rows_worth_sharing(count), [&](std::int64_t begin, std::int64_t end) {
      const NormRows<T> some{end - begin,
                             count,
                             x.as<T>() + begin * count,
                             w,
                             b,
                             epsilon,
                             out.as<T>() + begin * count,
                             mean == nullptr ? nullptr : mean->as<T>() + begin,
                             inverse.as<T>() + begin};
      simd().of<T>().norm_rows(some);
    });
  });
}

void layer_norm_backward(const TensorImpl& grad, const TensorImpl& x, const TensorImpl* weight, const TensorImpl* mean,
                         const TensorImpl& inverse, TensorImpl* dx, TensorImpl* dweight, TensorImpl* dbias) {
  if (x.numel() == 0) {
    for (TensorImpl* sums : {dweight, dbias})
      if (sums != nullptr) fill(*sums, 0);
    return;
  }
  const std::int64_t rows = inverse.numel(), count = x.numel() / rows;
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    const NormGradients<T> all{rows,
                               count,
                               count,
                               grad.as<T>(),
                               x.as<T>(),
                               data_or_null<T>(weight),
                               data_or_null<T>(mean),
                               inverse.as<T>(),
                               nullptr,
                               data_or_null<T>(dx),
                               nullptr,
                               nullptr};
    gradients<T>(all, data_or_null<T>(dweight), data_or_null<T>(dbias));
  });
}

}  // namespace capstan::on_cpu
