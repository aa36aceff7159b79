// QR, singular values and eigenvalues.
#include <algorithm>

#include "lib/cpu/lapack.hpp"

namespace capstan::on_cpu {

using lapack::Batch;
using lapack::Infos;
using lapack::to_int;

namespace {

double flops_of(std::int64_t m, std::int64_t n) {
  return 4 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(std::min(m, n));
}

/// A fresh tensor for results by columns: the batch of `like`, then these two sizes.
Tensor columns_like(const TensorImpl& like, std::int64_t columns, std::int64_t rows) {
  return core::make_workspace(lapack::matrices_of(like.shape, 2, columns, rows), like.dtype, like.device(),
                              core::calling_place());
}

/// Ones on the diagonal of every matrix: what the vectors of empty matrices are.
void fill_identity(TensorImpl& out) {
  fill(out, 0);
  if (out.numel() == 0) return;
  const std::int64_t rows = out.shape[out.rank() - 2], columns = out.shape[out.rank() - 1];
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    for (std::int64_t i = 0; i < out.numel(); i += rows * columns)
      for (std::int64_t j = 0; j < std::min(rows, columns); ++j) out.as<T>()[i + j * columns + j] = T(1);
  });
}

/// The upper triangle of a [m, n] by columns, as rows of r.
template <class T>
void take_upper(const T* a, std::int64_t m, std::int64_t n, T* r, std::int64_t rows) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < n; ++j) r[i * n + j] = i <= j ? a[j * m + i] : T(0);
}

}  // namespace

void qr(const TensorImpl& x, TensorImpl& q, TensorImpl& r) {
  const std::int64_t m = x.shape[x.rank() - 2], n = x.shape[x.rank() - 1], k = std::min(m, n);
  const std::int64_t wide = q.shape[q.rank() - 1];        // columns of q: k, or m
  if (q.numel() == 0 || k == 0) return fill_identity(q);  // then r is empty
  const int rows = to_int(m), columns = to_int(n), reflections = to_int(k), q_columns = to_int(wide);
  const Tensor work_x = lapack::by_columns(x, x.shape), work_q = columns_like(x, wide, m);
  const Batch batch(q.numel() / (m * wide), flops_of(m, std::max(n, wide)));
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    T asked[2] = {};
    T* const none = nullptr;
    lapack::geqrf(rows, columns, none, none, &asked[0], -1);
    lapack::orgqr(rows, q_columns, reflections, none, none, &asked[1], -1);
    const std::int64_t length = std::max(lapack::work_length(asked[0]), lapack::work_length(asked[1]));
    const int work_size = to_int(length);
    core::Scratch<T> work(batch.parts * length, core::calling_place()), tau(batch.parts * k, core::calling_place());
    batch.each([&](std::int64_t i, std::int64_t part) {
      T *a = work_x.impl()->as<T>() + i * m * n, *basis = work_q.impl()->as<T>() + i * m * wide;
      T *to = r.as<T>() + i * wide * n, *scales = &tau[part * k], *scratch = &work[part * length];
      if (!lapack::all_finite(a, m * n)) {
        lapack::fill_nan(basis, m * wide);
        lapack::fill_nan(to, wide * n);
        return;
      }
      lapack::geqrf(rows, columns, a, scales, scratch, work_size);
      take_upper(a, m, n, to, wide);
      std::copy_n(a, m * k, basis);
      lapack::orgqr(rows, q_columns, reflections, basis, scales, scratch, work_size);
    });
  });
  lapack::from_columns(work_q, q);
}

BadMatrix svd(const TensorImpl& x, TensorImpl* u, TensorImpl& s, TensorImpl* vh) {
  const std::int64_t m = x.shape[x.rank() - 2], n = x.shape[x.rank() - 1], k = std::min(m, n);
  if (s.numel() == 0) {
    if (u != nullptr) fill_identity(*u);
    if (vh != nullptr) fill_identity(*vh);
    return {};
  }
  const bool vectors = u != nullptr && vh != nullptr;
  const std::int64_t u_columns = vectors ? u->shape[u->rank() - 1] : 0;
  const std::int64_t vh_rows = vectors ? vh->shape[vh->rank() - 2] : 1;
  const char job = !vectors ? 'N' : u_columns == m && vh_rows == n ? 'A' : 'S';
  const int rows = to_int(m), columns = to_int(n), leading = to_int(vh_rows);
  const Tensor work_x = lapack::by_columns(x, x.shape);
  const Tensor work_u = columns_like(x, u_columns, m), work_vh = columns_like(x, vectors ? n : 0, vh_rows);
  const Batch batch(s.numel() / k, (vectors ? 5 : 1) * flops_of(m, n));
  Infos infos(batch.count);
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    T asked = 0;
    T* const none = nullptr;
    int unused = 0;
    lapack::gesdd(job, rows, columns, none, none, none, none, leading, &asked, -1, &unused);
    const std::int64_t length = lapack::work_length(asked), integers = 8 * k;
    const int work_size = to_int(length);
    core::Scratch<T> work(batch.parts * length, core::calling_place());
    core::Scratch<int> integer_work(batch.parts * integers, core::calling_place());
    batch.each([&](std::int64_t i, std::int64_t part) {
      T *a = work_x.impl()->as<T>() + i * m * n, *values = s.as<T>() + i * k;
      T* left = work_u.impl()->as<T>() + i * m * u_columns;
      T* right = work_vh.impl()->as<T>() + (vectors ? i * n * vh_rows : 0);
      if (lapack::all_finite(a, m * n)) {
        infos[i] = lapack::gesdd(job, rows, columns, a, values, left, right, leading, &work[part * length], work_size,
                                 &integer_work[part * integers]);
        return;
      }
      lapack::fill_nan(values, k);
      if (vectors) lapack::fill_nan(left, m * u_columns);
      if (vectors) lapack::fill_nan(right, n * vh_rows);
    });
  });
  const BadMatrix bad = infos.first_bad();
  if (bad.index >= 0 || !vectors) return bad;
  lapack::from_columns(work_u, *u);
  lapack::from_columns(work_vh, *vh);
  return bad;
}

// The lower triangle by rows is the upper one by columns. OpenBLAS's product with a lower one, in float32 on processors
// that it does not know, multiplies by 0 what earlier calls have left in its memory, which makes NaN of what was not
// finite. Vectors may have other signs than NumPy's, which takes the lower one.
BadMatrix eigh(const TensorImpl& x, TensorImpl& w, TensorImpl* v) {
  if (w.numel() == 0) return {};
  const std::int64_t n = x.shape[x.rank() - 1];
  const int order = to_int(n);
  const char job = v != nullptr ? 'V' : 'N';
  const Tensor vectors = lapack::by_rows(x);
  const Batch batch(w.numel() / n, (v != nullptr ? 2 : 1) * flops_of(n, n));
  Infos infos(batch.count);
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    T asked = 0;
    T* const none = nullptr;
    int asked_integers = 0;
    lapack::syevd(job, order, none, none, &asked, -1, &asked_integers, -1);
    const std::int64_t length = lapack::work_length(asked), integers = asked_integers;
    const int work_size = to_int(length);
    core::Scratch<T> work(batch.parts * length, core::calling_place());
    core::Scratch<int> integer_work(batch.parts * integers, core::calling_place());
    batch.each([&](std::int64_t i, std::int64_t part) {
      T *a = vectors.impl()->as<T>() + i * n * n, *values = w.as<T>() + i * n;
      if (lapack::upper_finite(a, n)) {
        infos[i] = lapack::syevd(job, order, a, values, &work[part * length], work_size, &integer_work[part * integers],
                                 asked_integers);
        return;
      }
      lapack::fill_nan(values, n);
      lapack::fill_nan(a, n * n);
    });
  });
  const BadMatrix bad = infos.first_bad();
  if (bad.index < 0 && v != nullptr) lapack::from_columns(vectors, *v);
  return bad;
}

}  // namespace capstan::on_cpu
