// Linear systems, determinants and Cholesky factors.
#include <algorithm>

#include "lib/cpu/lapack.hpp"

namespace capstan::on_cpu {

using lapack::Batch;
using lapack::Infos;
using lapack::to_int;

namespace {

double cube(std::int64_t n) { return static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n); }

}  // namespace

BadMatrix solve(const TensorImpl& a, const TensorImpl& b, TensorImpl& out) {
  if (out.numel() == 0) return {};
  const std::int64_t n = out.shape[out.rank() - 2], k = out.shape[out.rank() - 1];
  const int order = to_int(n), sides = to_int(k);
  const Tensor left = lapack::by_columns(a, out.shape), right = lapack::by_columns(b, out.shape);
  const Batch batch(out.numel() / (n * k), cube(n) + 2 * static_cast<double>(n * n) * static_cast<double>(k));
  core::Scratch<int> pivots(batch.parts * n, core::calling_place());
  Infos infos(batch.count);
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    batch.each([&](std::int64_t i, std::int64_t part) {
      T *matrix = left.impl()->as<T>() + i * n * n, *x = right.impl()->as<T>() + i * n * k;
      if (lapack::all_finite(matrix, n * n)) infos[i] = lapack::gesv(order, sides, matrix, &pivots[part * n], x);
      else lapack::fill_nan(x, n * k);
    });
  });
  const BadMatrix bad = infos.first_bad();
  if (bad.index < 0) lapack::from_columns(right, out);
  return bad;
}

BadMatrix solve_triangular(bool upper, bool unit, const TensorImpl& a, const TensorImpl& b, TensorImpl& out) {
  if (out.numel() == 0) return {};
  const std::int64_t n = out.shape[out.rank() - 2], k = out.shape[out.rank() - 1];
  const int order = to_int(n), sides = to_int(k);
  const Tensor left = lapack::by_columns(a, out.shape), right = lapack::by_columns(b, out.shape);
  const Batch batch(out.numel() / (n * k), static_cast<double>(n * n) * static_cast<double>(k));
  Infos infos(batch.count);
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    batch.each([&](std::int64_t i, std::int64_t) {
      const T* matrix = left.impl()->as<T>() + i * n * n;
      for (std::int64_t j = 0; j < n && !unit && infos[i] == 0; ++j)
        if (matrix[j * n + j] == T(0)) infos[i] = static_cast<int>(j) + 1;
      if (infos[i] != 0) return;
      infos[i] =
          lapack::trtrs(upper ? 'U' : 'L', unit ? 'U' : 'N', order, sides, matrix, right.impl()->as<T>() + i * n * k);
    });
  });
  const BadMatrix bad = infos.first_bad();
  if (bad.index < 0) lapack::from_columns(right, out);
  return bad;
}

void determinant(const TensorImpl& x, TensorImpl* det, TensorImpl* sign, TensorImpl* logabs) {
  const std::int64_t n = x.shape[x.rank() - 1];
  const int order = to_int(n);
  const Tensor lu = lapack::by_columns(x, x.shape);
  const Batch batch((det != nullptr ? det : sign)->numel(), cube(n));
  core::Scratch<int> all_pivots(batch.parts * n, core::calling_place());
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    batch.each([&](std::int64_t i, std::int64_t part) {
      T* matrix = lu.impl()->as<T>() + i * n * n;
      int* pivots = all_pivots.data() + part * n;  // null if n is 0
      double product = 1, sum = 0, direction = 1;  // the determinant is product * 2^exponent: no overflow on the way
      std::int64_t exponent = 0;
      if (!lapack::all_finite(matrix, n * n)) {
        product = sum = direction = std::numeric_limits<double>::quiet_NaN();
      } else if (n > 0 && lapack::getrf(order, matrix, pivots) != 0) {
        product = direction = 0;
        sum = -std::numeric_limits<double>::infinity();
      } else {
        for (std::int64_t j = 0; j < n; ++j) {
          const double pivot = static_cast<double>(matrix[j * n + j]);
          if ((pivots[j] != j + 1) != (pivot < 0)) direction = -direction;
          int of_pivot = 0, of_product = 0;
          product = std::frexp(product * std::frexp(std::fabs(pivot), &of_pivot), &of_product);
          exponent += of_pivot + of_product;
          sum += std::log(std::fabs(pivot));
        }
        product = direction * std::scalbln(product, static_cast<long>(exponent));
      }
      if (det != nullptr) det->as<T>()[i] = static_cast<T>(product);
      if (sign != nullptr) sign->as<T>()[i] = static_cast<T>(direction);
      if (logabs != nullptr) logabs->as<T>()[i] = static_cast<T>(sum);
    });
  });
}

BadMatrix cholesky(const TensorImpl& x, TensorImpl& out) {
  if (out.numel() == 0) return {};
  const std::int64_t n = out.shape[out.rank() - 1];
  const int order = to_int(n);
  const Tensor factor = lapack::by_columns(x, x.shape);
  const Batch batch(out.numel() / (n * n), cube(n) / 3);
  Infos infos(batch.count);
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    batch.each([&](std::int64_t i, std::int64_t) {
      T* matrix = factor.impl()->as<T>() + i * n * n;
      if (!lapack::lower_finite(matrix, n)) return lapack::fill_nan(matrix, n * n);
      infos[i] = lapack::potrf(order, matrix);
      for (std::int64_t column = 1; column < n; ++column) std::fill_n(matrix + column * n, column, T(0));
    });
  });
  const BadMatrix bad = infos.first_bad();
  if (bad.index < 0) lapack::from_columns(factor, out);
  return bad;
}

BadMatrix lstsq(const TensorImpl& a, const TensorImpl& b, double rcond, TensorImpl& out, TensorImpl& rank,
                TensorImpl& values) {
  const std::int64_t m = a.shape[a.rank() - 2], n = a.shape[a.rank() - 1], k = out.shape[out.rank() - 1];
  const std::int64_t least = std::min(m, n), most = std::max(m, n), sides = std::max<std::int64_t>(k, 1);
  if (least == 0) {
    fill(rank, 0);
    fill(out, 0);
  }
  if (least == 0 || rank.numel() == 0) return {};
  const int rows = to_int(m), columns = to_int(n), right_sides = to_int(sides), leading = to_int(most);
  const Tensor left = lapack::by_columns(a, out.shape);
  const Tensor right = core::make_workspace(lapack::matrices_of(out.shape, 2, sides, most), out.dtype, out.device(),
                                            core::calling_place());
  fill(*right.impl(), 0);
  copy(b, *lapack::exchanged(*right.impl(), k, m).impl());  // to the first m rows
  const Batch batch(rank.numel(), 4 * cube(least) + 4 * static_cast<double>(m * n) * static_cast<double>(least));
  Infos infos(batch.count);
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    const double spacing = static_cast<double>(std::numeric_limits<T>::epsilon());
    const T limit = static_cast<T>(rcond < 0 ? static_cast<double>(most) * spacing : rcond);
    T asked = 0;
    T* const none = nullptr;
    int integers = 0, found = 0;
    lapack::gelsd(rows, columns, right_sides, none, none, leading, none, limit, &found, &asked, -1, &integers);
    const std::int64_t length = lapack::work_length(asked);
    const int work_size = to_int(length);
    core::Scratch<T> work(batch.parts * length, core::calling_place());
    core::Scratch<int> integer_work(batch.parts * integers, core::calling_place());
    batch.each([&](std::int64_t i, std::int64_t part) {
      T *matrix = left.impl()->as<T>() + i * m * n, *x = right.impl()->as<T>() + i * most * sides;
      T* s = values.as<T>() + i * least;
      int count = 0;
      if (lapack::all_finite(matrix, m * n) && lapack::all_finite(x, most * sides)) {
        infos[i] = lapack::gelsd(rows, columns, right_sides, matrix, x, leading, s, limit, &count, &work[part * length],
                                 work_size, &integer_work[part * integers]);
      } else {
        lapack::fill_nan(x, most * sides);
        lapack::fill_nan(s, least);
      }
      rank.as<std::int64_t>()[i] = count;
    });
  });
  const BadMatrix bad = infos.first_bad();
  if (bad.index < 0) lapack::from_columns(right, out);
  return bad;
}

}  // namespace capstan::on_cpu
