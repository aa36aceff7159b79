#include "cuda/matrices.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include "cuda/backend.hpp"
#include "cuda/blocks.cuh"
#include "cuda/launch.cuh"
#include "cuda/report.cuh"
#include "lib/core/dispatch.hpp"

namespace capstan::on_cuda {
namespace {

struct Lesser {
  __device__ std::int64_t operator()(std::int64_t a, std::int64_t b) const { return b < a ? b : a; }
};

/// Matrices [columns, rows], by columns.
struct Columns {
  std::int64_t rows, columns, elements;  // elements: of all matrices
  bool lower;
};

template <class T>
__global__ void mark_kernel(const T* x, Columns shape, int* flags) {
  for (std::int64_t i = first_index(); i < shape.elements; i += index_step()) {
    const std::int64_t column = i / shape.rows, row = i - column * shape.rows;
    if (shape.lower && row < column % shape.columns) continue;
    if (x[i] - x[i] != T(0)) atomicOr(&flags[column / shape.columns], 1);  // NaN for what is not finite
  }
}

template <class T>
__global__ void repair_kernel(const int* flags, Columns shape, T* x) {
  for (std::int64_t i = first_index(); i < shape.elements; i += index_step()) {
    const std::int64_t column = i / shape.rows, row = i - column * shape.rows;
    if (flags[column / shape.columns] != 0) x[i] = row == column % shape.columns ? T(1) : T(0);
  }
}

template <class T>
__global__ void spoil_kernel(const int* flags, std::int64_t elements, std::int64_t each, T* x) {
  for (std::int64_t i = first_index(); i < elements; i += index_step())
    if (flags[i / each] != 0) x[i] = std::numeric_limits<T>::quiet_NaN();
}

template <class T>
__global__ void ones_kernel(std::int64_t count, std::int64_t size, std::int64_t along, std::int64_t least, T* x) {
  for (std::int64_t i = first_index(); i < count * least; i += index_step())
    x[i / least * size + i % least * along] = T(1);
}

__global__ void addresses_kernel(const char* first, std::int64_t step, std::int64_t count, const void** list) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) list[i] = first + i * step;
}

/// One block, so that the first one is found.
__global__ void report_kernel(const int* infos, std::int64_t count, Report report) {
  std::int64_t first = count;
  for (std::int64_t i = threadIdx.x; i < count && first == count; i += kThreads)
    if (infos[i] != 0) first = i;
  first = block_reduce<static_cast<int>(kThreads)>(first, Lesser{});
  if (threadIdx.x == 0 && first < count) send(report, first, infos[first]);
}

/// A warp for each matrix.
template <class T>
__global__ void zeros_kernel(const T* a, std::int64_t step, std::int64_t along, std::int64_t n, std::int64_t count,
                             int* infos) {
  for (std::int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    std::int64_t first = n;
    for (std::int64_t j = threadIdx.x; j < n && first == n; j += kWarp)
      if (a[i * step + j * along] == T(0)) first = j;
    first = warp_reduce(first, Lesser{});
    if (threadIdx.x == 0) infos[i] = first < n ? static_cast<int>(first) + 1 : 0;
  }
}

}  // namespace

Tensor temporary(const Shape& shape, DType dtype) {
  const Tensor flat = workspace(shape.numel(), dtype);
  std::int64_t strides[kMaxRank];
  core::row_major_strides(shape, strides);
  return core::make_view(*flat.impl(), shape, strides, 0, call().where);
}

Shape matrices_of(const Shape& shape, std::int64_t rows, std::int64_t columns) {
  std::int64_t sizes[kMaxRank];
  std::copy(shape.begin(), shape.end(), sizes);
  const auto rank = static_cast<std::size_t>(shape.rank());
  sizes[rank - 2] = rows;
  sizes[rank - 1] = columns;
  return Shape(std::span<const std::int64_t>(sizes, rank), call().where);
}

Tensor exchanged(const TensorImpl& x, std::int64_t rows, std::int64_t columns) {
  std::int64_t strides[kMaxRank];
  const int r = x.rank();
  std::copy_n(x.strides, r, strides);
  std::swap(strides[r - 2], strides[r - 1]);
  return core::make_view(x, matrices_of(x.shape, columns, rows), strides, 0, call().where);
}

Tensor by_columns(const TensorImpl& x, const Shape& like) {
  const std::int64_t rows = x.shape[x.rank() - 2], columns = x.shape[x.rank() - 1];
  const Tensor result = temporary(matrices_of(like, columns, rows), x.dtype);
  copy(*exchanged(x, rows, columns).impl(), *result.impl());
  return result;
}

void from_columns(const Tensor& columns, TensorImpl& out) {
  const int r = out.rank();
  copy(*exchanged(*columns.impl(), out.shape[r - 1], out.shape[r - 2]).impl(), out);
}

void fill_identity(TensorImpl& out) {
  if (out.numel() == 0) return;
  fill(out, 0);
  const std::int64_t rows = out.shape[out.rank() - 2], columns = out.shape[out.rank() - 1];
  const std::int64_t least = std::min(rows, columns), count = out.numel() / (rows * columns);
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    launch(ones_kernel<T>, shape_for(count * least), count, rows * columns, columns + 1, least, out.as<T>());
  });
}

Tensor addresses(const void* first, std::int64_t step, std::int64_t count) {
  Tensor list = workspace(count, DType::int64);
  launch(addresses_kernel, shape_for(count), static_cast<const char*>(first), step, count,
         list.impl()->as<const void*>());
  return list;
}

Broken::Broken(TensorImpl& matrices, std::int64_t count, bool lower)
    : count_(count), flags_(workspace(count, DType::int32)) {
  fill(*flags_.impl(), 0);
  const int r = matrices.rank();
  const Columns shape{matrices.shape[r - 1], matrices.shape[r - 2], matrices.numel(), lower};
  int* const flags = flags_.impl()->as<int>();
  core::visit_floating(matrices.dtype, [&]<class T>(core::Type<T>) {
    launch(mark_kernel<T>, shape_for(shape.elements), matrices.as<T>(), shape, flags);
    launch(repair_kernel<T>, shape_for(shape.elements), flags, shape, matrices.as<T>());
  });
}

void Broken::spoil(TensorImpl& results) const {
  if (results.numel() == 0) return;
  core::visit_floating(results.dtype, [&]<class T>(core::Type<T>) {
    launch(spoil_kernel<T>, shape_for(results.numel()), flags(), results.numel(), results.numel() / count_,
           results.as<T>());
  });
}

core::BadMatrix Infos::finish() const {
  const Report report = start_report(ReportKind::matrix);
  launch(report_kernel, LaunchShape{1, kThreads}, at(0), count_, report);
  const core::BadIndex bad = finish_report(report);
  return {bad.position, bad.value};
}

void find_zeros(const TensorImpl& a, std::int64_t step, std::int64_t along, std::int64_t n, std::int64_t count,
                const Infos& infos) {
  core::visit_floating(a.dtype, [&]<class T>(core::Type<T>) {
    launch(zeros_kernel<T>, block_each(count, kWarp), a.as<T>(), step, along, n, count, infos.at(0));
  });
}

}  // namespace capstan::on_cuda
