// Linear systems and Cholesky factors, by columns as LAPACK has them, so that signs and rounding are those of the CPU.
// What goes wrong is reported by the device.
#include <span>

#include "cuda/backend.hpp"
#include "cuda/lu.hpp"
#include "cuda/product_plan.hpp"
#include "lib/core/dispatch.hpp"

namespace capstan::on_cuda {

using lapack::to_int;

namespace {

/// How many systems there are, of what order, and how many right sides each has. If all of them have one matrix they
/// are one system: by columns, their right sides stand next to each other.
struct Systems {
  std::int64_t order, sides, count;
  Systems(const TensorImpl& a, const TensorImpl& out)
      : order(out.shape[out.rank() - 2]), sides(out.shape[out.rank() - 1]), count(out.numel() / (order * sides)) {
    if (a.numel() != order * order) return;
    sides *= count;
    count = 1;
  }
  Shape matrices(const TensorImpl& out) const {
    return count == 1 ? Shape({order, order}, call().where) : matrices_of(out.shape, order, order);
  }
};

/// The matrices of x without the leading axes of size 1 that `shape` does not have.
Tensor without_leading(const TensorImpl& x, const Shape& shape) {
  const int fewer = x.rank() > shape.rank() ? x.rank() - shape.rank() : 0;
  const Shape rest(std::span<const std::int64_t>(x.shape.begin() + fewer, x.shape.end()), call().where);
  return core::make_view(x, rest, x.strides + fewer, 0, call().where);
}

}  // namespace

BadMatrix solve(const TensorImpl& a, const TensorImpl& b, TensorImpl& out) {
  if (out.numel() == 0) return {};
  const Systems s(a, out);
  const int order = to_int(s.order), sides = to_int(s.sides);
  const Shape shape = s.matrices(out);
  const Tensor left = by_columns(*without_leading(a, shape).impl(), shape), right = by_columns(b, out.shape);
  const Broken broken(*left.impl(), s.count);
  const Tensor pivots = workspace(s.count * s.order, DType::int32);
  const Infos infos(s.count);
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    T *matrices = left.impl()->as<T>(), *x = right.impl()->as<T>();
    int* const places = pivots.impl()->as<int>();
    lapack::factor(order, s.count, matrices, places, infos);
    lapack::substitute(order, sides, s.count, matrices, places, x);
  });
  from_columns(right, out);
  broken.spoil(out);
  return infos.finish();
}

BadMatrix solve_triangular(bool upper, bool unit, const TensorImpl& a, const TensorImpl& b, TensorImpl& out) {
  if (out.numel() == 0) return {};
  const Systems s(a, out);
  const int order = to_int(s.order), sides = to_int(s.sides);
  const std::int64_t size = s.order * s.order;
  Tensor copied;
  if (!layout_of(a).fits || (s.count > 1 && (!a.contiguous || a.numel() != s.count * size))) {
    const Shape shape = s.matrices(out);
    copied = temporary(shape, a.dtype);
    copy(*without_leading(a, shape).impl(), *copied.impl());
  }
  const TensorImpl& left = copied.defined() ? *copied.impl() : a;
  const Tensor right = by_columns(b, out.shape);
  const Infos infos(s.count);
  const MatrixLayout layout = layout_of(left);  // rows, read by columns, are transposed, and the triangle is the other
  if (!unit) find_zeros(left, size, layout.lead + 1, s.order, s.count, infos);
  const auto part = upper == layout.transposed ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
  const auto turn = layout.transposed ? CUBLAS_OP_N : CUBLAS_OP_T;
  const auto diagonal = unit ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    const T* const matrices = left.as<const T>();
    T* const x = right.impl()->as<T>();
    const auto element = static_cast<std::int64_t>(sizeof(T));
    if (lapack::in_one_call(s.count, s.order)) {
      const Tensor from = addresses(matrices, size * element, s.count),
                   to = addresses(x, s.order * s.sides * element, s.count);
      return lapack::trsm_batched(part, turn, diagonal, order, sides, from.impl()->as<const T*>(), to.impl()->as<T*>(),
                                  to_int(s.count));
    }
    for (std::int64_t i = 0; i < s.count; ++i)
      lapack::trsm(part, turn, diagonal, order, sides, matrices + i * size, to_int(layout.lead),
                   x + i * s.order * s.sides);
  });
  from_columns(right, out);
  return unit ? BadMatrix{} : infos.finish();
}

BadMatrix cholesky(const TensorImpl& x, TensorImpl& out) {
  if (out.numel() == 0) return {};
  const std::int64_t n = out.shape[out.rank() - 1], size = n * n, count = out.numel() / size;
  const int order = to_int(n);
  const Tensor columns = by_columns(x, x.shape);
  const Broken broken(*columns.impl(), count, true);
  const Infos infos(count);
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    T* const matrices = columns.impl()->as<T>();
    if (lapack::in_one_call(count, n)) {
      const Tensor list = addresses(matrices, size * static_cast<std::int64_t>(sizeof(T)), count);
      return lapack::potrf_batched(order, list.impl()->as<T*>(), infos.at(0), to_int(count));
    }
    const int length = lapack::potrf_length(order, matrices);
    const Tensor work = workspace(length, out.dtype);
    for (std::int64_t i = 0; i < count; ++i)
      lapack::potrf(order, matrices + i * size, work.impl()->as<T>(), length, infos.at(i));
  });
  triangle(false, 0, *exchanged(*columns.impl(), n, n).impl(), out);
  broken.spoil(out);
  return infos.finish();
}

}  // namespace capstan::on_cuda
