// QR, singular values and eigenvalues, by columns as LAPACK has them. cuSOLVER works on one matrix after the other, and
// its singular values and eigenvalues wait for the stream as they go.
#include <algorithm>

#include "cuda/backend.hpp"
#include "cuda/capture.hpp"
#include "cuda/matrices.hpp"
#include "cuda/solver.hpp"
#include "lib/core/dispatch.hpp"

namespace capstan::on_cuda {

using lapack::to_int;

namespace {

/// A view of the first columns of matrices that stand by columns.
Tensor first_columns(const Tensor& x, std::int64_t columns) {
  const TensorImpl& impl = *x.impl();
  return core::make_view(impl, matrices_of(impl.shape, columns, impl.shape[impl.rank() - 1]), impl.strides, 0,
                         call().where);
}

Tensor whole(const TensorImpl& x) { return core::make_view(x, x.shape, x.strides, 0, call().where); }

/// Singular values of matrices by columns, and their vectors on the left [rows, left_columns] and on the right
/// [columns, columns], or none.
struct Svd {
  std::int64_t rows, columns, left_columns;
  Tensor matrices, left, right;

  std::int64_t count(const TensorImpl& values) const { return values.numel() / columns; }
  template <class T>
  void run(TensorImpl& values, const Infos& infos) const {
    const bool vectors = left.defined();
    const auto job = static_cast<signed char>(!vectors ? 'N' : left_columns == rows ? 'A' : 'S');
    const int m = to_int(rows), n = to_int(columns);
    T *a = matrices.impl()->as<T>(), *s = values.as<T>();
    T *u = vectors ? left.impl()->as<T>() : nullptr, *vt = vectors ? right.impl()->as<T>() : nullptr;
    const int length = lapack::gesvd_length(m, n, a);
    const Tensor work = workspace(length, values.dtype);
    for (std::int64_t i = 0; i < count(values); ++i) {
      lapack::gesvd(job, m, n, a, s, u, vt, work.impl()->as<T>(), length, infos.at(i));
      a += rows * columns;
      s += columns;
      if (!vectors) continue;
      u += rows * left_columns;
      vt += columns * columns;
    }
  }
};

/// cuSOLVER's iterations ask the device how far they have come.
void refuse_capture() {
  if (Capture* capture = capture_on(call().device)) capture->host_reads();
}

}  // namespace

void qr(const TensorImpl& x, TensorImpl& q, TensorImpl& r) {
  const std::int64_t m = x.shape[x.rank() - 2], n = x.shape[x.rank() - 1], k = std::min(m, n);
  const std::int64_t wide = q.shape[q.rank() - 1];        // columns of q: k, or m
  if (q.numel() == 0 || k == 0) return fill_identity(q);  // then r is empty
  const int rows = to_int(m), columns = to_int(n), reflections = to_int(k), q_columns = to_int(wide);
  const std::int64_t count = q.numel() / (m * wide);
  const Tensor work_x = by_columns(x, x.shape);
  const Tensor work_q = wide == n ? work_x : temporary(matrices_of(x.shape, wide, m), x.dtype);
  const Broken broken(*work_x.impl(), count);
  const Tensor unused = workspace(1, DType::int32);  // nothing can go wrong
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    T *a = work_x.impl()->as<T>(), *basis = work_q.impl()->as<T>();
    const Tensor tau = workspace(count * k, x.dtype);
    T* const scales = tau.impl()->as<T>();
    const int length = std::max(lapack::geqrf_length(rows, columns, a),
                                lapack::orgqr_length(rows, q_columns, reflections, basis, scales));
    const Tensor work = workspace(length, x.dtype);
    T* const scratch = work.impl()->as<T>();
    int* const info = unused.impl()->as<int>();
    for (std::int64_t i = 0; i < count; ++i)
      lapack::geqrf(rows, columns, a + i * m * n, scales + i * k, scratch, length, info);
    triangle(true, 0, *exchanged(*work_x.impl(), n, wide).impl(), r);
    if (basis != a) copy(*first_columns(work_x, k).impl(), *first_columns(work_q, k).impl());
    for (std::int64_t i = 0; i < count; ++i)
      lapack::orgqr(rows, q_columns, reflections, basis + i * m * wide, scales + i * k, scratch, length, info);
  });
  from_columns(work_q, q);
  broken.spoil(q);
  broken.spoil(r);
}

BadMatrix svd(const TensorImpl& x, TensorImpl* u, TensorImpl& s, TensorImpl* vh) {
  refuse_capture();
  const std::int64_t m = x.shape[x.rank() - 2], n = x.shape[x.rank() - 1];
  if (s.numel() == 0) {
    if (u != nullptr) fill_identity(*u);
    if (vh != nullptr) fill_identity(*vh);
    return {};
  }
  // cuSOLVER takes no fewer rows than columns. A wide matrix is taken as its transpose, which is what its rows are when
  // they are read as columns; its factors are then the transposed ones, which stand by columns as u and vh do by rows.
  const bool tall = m >= n, vectors = u != nullptr && vh != nullptr;
  Svd task{std::max(m, n), std::min(m, n), 0, tall ? by_columns(x, x.shape) : temporary(x.shape, x.dtype), {}, {}};
  if (!tall) copy(x, *task.matrices.impl());
  if (vectors) {
    task.left_columns = tall ? u->shape[u->rank() - 1] : vh->shape[vh->rank() - 2];
    task.left = tall ? temporary(matrices_of(x.shape, task.left_columns, m), x.dtype) : whole(*vh);
    task.right = tall ? temporary(matrices_of(x.shape, n, n), x.dtype) : whole(*u);
  }
  const Broken broken(*task.matrices.impl(), task.count(s));
  const Infos infos(task.count(s));
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) { task.run<T>(s, infos); });
  if (vectors && tall) from_columns(task.left, *u), from_columns(task.right, *vh);
  if (vectors) broken.spoil(*u), broken.spoil(*vh);
  broken.spoil(s);
  return infos.finish();
}

BadMatrix eigh(const TensorImpl& x, TensorImpl& w, TensorImpl* v) {
  refuse_capture();
  if (w.numel() == 0) return {};
  const std::int64_t n = x.shape[x.rank() - 1], count = w.numel() / n;
  const int order = to_int(n);
  const cusolverEigMode_t job = v != nullptr ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
  const Tensor vectors = by_columns(x, x.shape);
  const Broken broken(*vectors.impl(), count, true);
  const Infos infos(count);
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    T *a = vectors.impl()->as<T>(), *values = w.as<T>();
    const int length = lapack::syevd_length(job, order, a, values);
    const Tensor work = workspace(length, x.dtype);
    for (std::int64_t i = 0; i < count; ++i)
      lapack::syevd(job, order, a + i * n * n, values + i * n, work.impl()->as<T>(), length, infos.at(i));
  });
  if (v != nullptr) from_columns(vectors, *v);
  broken.spoil(w);
  if (v != nullptr) broken.spoil(*v);
  return infos.finish();
}

}  // namespace capstan::on_cuda
