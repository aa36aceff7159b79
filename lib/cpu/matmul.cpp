// Matrix products: OpenBLAS, and a kernel of our own for products too small to be worth its packing.
//
// OpenBLAS is held to one thread; large products are cut here, so that BLAS and kernels share one budget of threads.
// The results do not depend on the number of threads.
#include <algorithm>

#include "lib/base/text.hpp"
#include "lib/core/allocator.hpp"
#include "lib/core/dispatch.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/blas.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/multiply.hpp"
#include "lib/cpu/simd/kernels.hpp"

namespace capstan::on_cpu {

void require_blas_sizes(const char* op, std::initializer_list<std::int64_t> sizes) {
  for (const std::int64_t size : sizes)
    if (size > INT32_MAX)
      base::fail<BackendError>(Where::current(), op, ": size or stride ", size,
                               " exceeds what OpenBLAS takes; it must be below 2^31.");
}

namespace {

/// Sizes were checked by `require_blas_sizes`.
int blas_int(std::int64_t size) { return static_cast<int>(size); }

// Row-major C = A B is column-major C^T = B^T A^T, so the operands change places. Asked in row-major terms, OpenBLAS
// takes another path for some shapes, which is slower and rounds differently from its usual one.
void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, const float* a, int lda, const float* b, int ldb,
          float beta, float* c, int ldc) {
  cblas_sgemm(CblasColMajor, tb, ta, n, m, k, 1, b, ldb, a, lda, beta, c, ldc);
}
void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, const double* a, int lda, const double* b,
          int ldb, double beta, double* c, int ldc) {
  cblas_dgemm(CblasColMajor, tb, ta, n, m, k, 1, b, ldb, a, lda, beta, c, ldc);
}

/// BLAS takes a matrix whose rows or whose columns are contiguous.
template <class T>
bool blas_takes(const Matrix<T>& x, std::int64_t rows, std::int64_t columns) {
  return (x.column == 1 && x.row >= std::max<std::int64_t>(columns, 1)) ||
         (x.row == 1 && x.column >= std::max<std::int64_t>(rows, 1));
}

template <class T>
void blas_gemm(const Matrix<const T>& a, const Matrix<const T>& b, T* c, std::int64_t c_row, std::int64_t m,
               std::int64_t n, std::int64_t k, bool accumulate) {
  const bool ta = a.column != 1 || a.row < k, tb = b.column != 1 || b.row < n;
  gemm(ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, blas_int(m), blas_int(n), blas_int(k), a.data,
       blas_int(ta ? a.column : a.row), b.data, blas_int(tb ? b.column : b.row), T(accumulate), c, blas_int(c_row));
}

/// The right operand stays in the first-level cache, or the result in registers and the sums are long.
bool is_small(std::int64_t m, std::int64_t n, std::int64_t k) { return n * k <= 4096 || (m <= 64 && n <= 64); }

/// Whether the product is made by our own kernel: also where OpenBLAS, which takes locks, must not be called.
bool runs_here(std::int64_t m, std::int64_t n, std::int64_t k) { return is_small(m, n, k) || base::in_real_time(); }

/// A sum over many rows that gives a small result: the gradient for weights.
template <class T>
bool is_long(std::int64_t m, std::int64_t n, const Matrix<const T>& a) {
  return a.row == 1 && m <= 96 && n <= 512;
}

/// Multiplications worth a thread: of the small kernel, and of OpenBLAS, which adds up smaller products differently.
constexpr std::int64_t kSmallGrain = 1 << 20, kBlasGrain = 1 << 21;

/// Sums are made of blocks of so many terms: with few roundings one after the other, and of what the first-level cache
/// holds where the right operand is read again and again.
constexpr std::int64_t kSumBlock = 512, kLongBlock = 96;

/// Columns among the threads; the rows of a column of tiles in blocks that stay in the first-level cache.
template <class T>
void multiply_long(const Matrix<const T>& a, const Matrix<const T>& b, T* c, std::int64_t c_row, std::int64_t m,
                   std::int64_t n, std::int64_t k, bool accumulate) {
  const std::int64_t width = simd().of<T>().panel;
  base::parallel_for(
      (n + width - 1) / width, kSmallGrain / (m * width * k) + 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t column = begin * width; column < std::min(end * width, n); column += width)
          for (std::int64_t p = 0; p < k; p += kLongBlock)
            simd().of<T>().small_gemm({a.data + p * a.column, a.row, a.column, b.data + p * b.row + column, b.row,
                                       c + column, c_row, m, std::min(width, n - column), std::min(kLongBlock, k - p),
                                       accumulate || p > 0});
      });
}

}  // namespace

template <class T>
void multiply(const Matrix<const T>& a, const Matrix<const T>& b, T* c, std::int64_t c_row, std::int64_t m,
              std::int64_t n, std::int64_t k, bool accumulate) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    for (std::int64_t i = 0; !accumulate && i < m; ++i) std::fill_n(c + i * c_row, n, T(0));
    return;
  }
  if (base::in_real_time() && b.column != 1) {
    core::Scratch<T> rows(k * n, Where::current());
    for (std::int64_t p = 0; p < k; ++p)
      for (std::int64_t j = 0; j < n; ++j) rows[p * n + j] = b.data[p * b.row + j * b.column];
    return multiply<T>(a, {rows.data(), n, 1}, c, c_row, m, n, k, accumulate);
  }
  if (runs_here(m, n, k) && b.column == 1) {
    constexpr std::int64_t kRows = 12;  // a multiple of the kernel's rows
    base::parallel_for((m + kRows - 1) / kRows, kSmallGrain / (kRows * n * k) + 1,
                       [&](std::int64_t begin, std::int64_t end) {
                         const std::int64_t first = begin * kRows, rows = std::min(end * kRows, m) - first;
                         for (std::int64_t p = 0; p < k; p += kSumBlock)
                           simd().of<T>().small_gemm({a.data + first * a.row + p * a.column, a.row, a.column,
                                                      b.data + p * b.row, b.row, c + first * c_row, c_row, rows, n,
                                                      std::min(kSumBlock, k - p), accumulate || p > 0});
                       });
    return;
  }
  if (is_long(m, n, a) && b.column == 1) return multiply_long(a, b, c, c_row, m, n, k, accumulate);
  hold_blas_to_one_thread();
  constexpr std::int64_t kEdge = 24;  // cuts fall on multiples of the inner kernels' rows and columns
  const bool by_rows = m >= 8 * kEdge || m >= n;
  const std::int64_t size = by_rows ? m : n, blocks = std::max<std::int64_t>(size / kEdge, 1);
  const std::int64_t enough = kBlasGrain / (kEdge * (by_rows ? n : m) * k) + 1;  // blocks worth a thread
  // Rows may be cut anywhere, so they are cut as rarely as the threads allow: each part packs the right operand again.
  // Where columns are cut shows in the last digits, so that follows from the shape alone.
  const std::int64_t parts =
      std::max<std::int64_t>(by_rows ? std::min<std::int64_t>(threads(), blocks / enough) : blocks / enough, 1);
  base::parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      const std::int64_t first = blocks * part / parts * kEdge;
      const std::int64_t count = (part + 1 == parts ? size : blocks * (part + 1) / parts * kEdge) - first;
      if (by_rows)
        blas_gemm<T>({a.data + first * a.row, a.row, a.column}, b, c + first * c_row, c_row, count, n, k, accumulate);
      else blas_gemm<T>(a, {b.data + first * b.column, b.row, b.column}, c + first, c_row, m, count, k, accumulate);
    }
  });
}

template void multiply(const Matrix<const float>&, const Matrix<const float>&, float*, std::int64_t, std::int64_t,
                       std::int64_t, std::int64_t, bool);
template void multiply(const Matrix<const double>&, const Matrix<const double>&, double*, std::int64_t, std::int64_t,
                       std::int64_t, std::int64_t, bool);

namespace {

/// The operand itself if it can be multiplied as it stands, else a contiguous copy.
Tensor usable(const TensorImpl& x, bool needs_unit_columns) {
  const int r = x.rank();
  const Matrix<const float> last{nullptr, x.strides[r - 2], x.strides[r - 1]};
  const bool unit = last.column == 1 && last.row >= x.shape[r - 1];
  if (needs_unit_columns ? unit : blas_takes(last, x.shape[r - 2], x.shape[r - 1]))
    return core::make_view(x, x.shape, x.strides, 0, Where::current());
  const Tensor result = core::make_workspace(x.shape, x.dtype, x.device(), Where::current());
  copy(x, *result.impl());
  return result;
}

/// Where matrix number `index` of the result's leading axes begins in an operand that broadcasts to them.
std::int64_t batch_offset(const TensorImpl& x, const TensorImpl& out, std::int64_t index) {
  std::int64_t offset = 0;
  for (int axis = out.rank() - 3; axis >= 0; --axis) {
    const int own = axis - (out.rank() - x.rank());
    if (own >= 0 && x.shape[own] != 1) offset += index % out.shape[axis] * x.strides[own];
    index /= out.shape[axis];
  }
  return offset;
}

}  // namespace

void matmul(const TensorImpl& a, const TensorImpl& b, TensorImpl& out, bool accumulate) {
  if (out.numel() == 0) return;
  const int r = out.rank();
  const std::int64_t m = out.shape[r - 2], n = out.shape[r - 1], k = a.shape[a.rank() - 1];
  const Tensor left = usable(a, false), right = usable(b, runs_here(m, n, k));
  const TensorImpl &x = *left.impl(), &y = *right.impl();
  require_blas_sizes("matmul", {m, n, k, x.strides[x.rank() - 2], x.strides[x.rank() - 1], y.strides[y.rank() - 2],
                                y.strides[y.rank() - 1]});
  const std::int64_t batch = out.numel() / (m * n);
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    const auto one = [&](std::int64_t i) {
      const Matrix<const T> ma{x.as<T>() + batch_offset(x, out, i), x.strides[x.rank() - 2], x.strides[x.rank() - 1]};
      const Matrix<const T> mb{y.as<T>() + batch_offset(y, out, i), y.strides[y.rank() - 2], y.strides[y.rank() - 1]};
      multiply<T>(ma, mb, out.as<T>() + i * m * n, n, m, n, k, accumulate);
    };
    // few but large products are split one by one, others among the threads
    const bool split_each = batch < threads() && m * n * k >= 2 * kBlasGrain;
    base::parallel_for(batch, split_each ? batch : 2 * kCheapGrain / (m * n * (k + 1)) + 1,
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t i = begin; i < end; ++i) one(i);
                       });
  });
}

}  // namespace capstan::on_cpu
