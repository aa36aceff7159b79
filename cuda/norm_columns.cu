#include "cuda/norm_columns.hpp"

#include "cuda/normalizing.cuh"

namespace capstan::on_cuda {
namespace {

constexpr int kJoined = 16;  // columns that a block joins, by as many threads each
constexpr std::int64_t kLeastRows = 16;

template <class T>
struct ColumnTask {
  std::int64_t rows, count, parts, share;  // share: rows of a part
  const T *grad, *x;
  NormNumbers mean, inverse, shift;
  Compute<T>* sums;  // [parts, 2, count]
};

/// A thread for each column of each part of the rows.
template <class T>
__global__ void __launch_bounds__(kThreads) columns_kernel(ColumnTask<T> task) {
  const std::int64_t tiles = (task.count + blockDim.x - 1) / blockDim.x;
  for (std::int64_t item = blockIdx.x; item < tiles * task.parts; item += gridDim.x) {
    const std::int64_t column = item % tiles * blockDim.x + threadIdx.x, part = item / tiles;
    if (column >= task.count) continue;
    const std::int64_t begin = part * task.share;
    const std::int64_t end = task.rows - begin < task.share ? task.rows : begin + task.share;
    double values = 0, grads = 0;
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t at = row * task.count + column;
      const double grad = static_cast<double>(widen(task.grad[at]));
      const double distance = static_cast<double>(widen(task.x[at])) - task.mean.at_or(row, 0);
      values += grad * (distance * task.inverse.at(row) + task.shift.at(row));
      grads += grad;
    }
    Compute<T>* const to = task.sums + part * 2 * task.count + column;
    to[0] = static_cast<Compute<T>>(values);
    to[task.count] = static_cast<Compute<T>>(grads);
  }
}

/// Sixteen threads for each column and kind.
template <class C>
__global__ void __launch_bounds__(kThreads)
    join_kernel(const C* sums, std::int64_t blocks, std::int64_t count, NormNumbers dweight, NormNumbers dbias) {
  __shared__ double partial[kJoined][kJoined + 1];
  const int own = static_cast<int>(threadIdx.x) % kJoined, slice = static_cast<int>(threadIdx.x) / kJoined;
  const std::int64_t tiles = (count + kJoined - 1) / kJoined;
  for (std::int64_t item = blockIdx.x; item < 2 * tiles; item += gridDim.x) {
    const std::int64_t kind = item / tiles, column = item % tiles * kJoined + own;
    const NormNumbers& to = kind == 0 ? dweight : dbias;
    double total = 0;
    if (to.given() && column < count)
      for (std::int64_t b = slice; b < blocks; b += kJoined)
        total += static_cast<double>(sums[(2 * b + kind) * count + column]);
    partial[slice][own] = total;
    __syncthreads();
    if (slice == 0 && to.given() && column < count) {
      for (int other = 1; other < kJoined; ++other) total += partial[other][own];
      to.put(column, total);
    }
    __syncthreads();
  }
}

}  // namespace

void sum_columns(const NormRows& rows, TensorImpl* dweight, TensorImpl* dbias) {
  const std::int64_t tiles = parts_of(rows.count, kThreads), most = parts_of(rows.rows, kLeastRows);
  const std::int64_t wanted = parts_of(NormCut::kWanted, tiles);
  const std::int64_t share = parts_of(rows.rows, wanted < most ? wanted : most), parts = parts_of(rows.rows, share);
  const Tensor sums = workspace(parts * 2 * rows.count, computed_in(rows.x.dtype));
  core::visit_real(rows.x.dtype, [&]<class T>(core::Type<T>) {
    const ColumnTask<T> task{rows.rows,
                             rows.count,
                             parts,
                             share,
                             rows.grad.as<T>(),
                             rows.x.as<T>(),
                             NormNumbers(rows.mean),
                             NormNumbers(&rows.inverse),
                             NormNumbers(&rows.shift),
                             sums.impl()->as<Compute<T>>()};
    launch(columns_kernel<T>, shape_for(tiles * parts * kThreads), task);
  });
  join_columns(*sums.impl(), parts, rows.count, dweight, dbias);
}

void join_columns(const TensorImpl& sums, std::int64_t blocks, std::int64_t count, TensorImpl* dweight,
                  TensorImpl* dbias) {
  core::visit_floating(sums.dtype, [&]<class C>(core::Type<C>) {
    launch(join_kernel<C>, shape_for(2 * parts_of(count, kJoined) * kThreads), sums.as<C>(), blocks, count,
           NormNumbers(dweight), NormNumbers(dbias));
  });
}

}  // namespace capstan::on_cuda
