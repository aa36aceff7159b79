#pragma once
// LAPACK: its routines under one name for float and double, and batches of matrices as it takes them.
//
// LAPACK reads memory by columns. Operands are copied transposed (symmetric ones need not be): next to the n^3
// operations that follow, it costs little, and signs and rounding are then those of NumPy and PyTorch, which do the
// same. Its workspace is allocated before the loops over matrices, in which nothing may throw.
#include <cmath>
#include <cstddef>
#include <limits>
#include <mutex>
#include <type_traits>

#include "lib/base/text.hpp"
#include "lib/core/allocator.hpp"
#include "lib/core/dispatch.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/iterate.hpp"

namespace capstan::on_cpu::lapack {

#define CAPSTAN_LAPACK_NAMES(X) X(gesv) X(getrf) X(trtrs) X(potrf) X(geqrf) X(orgqr) X(gesdd) X(syevd) X(gelsd)

/// What Fortran calls sgesv or dgesv, and so on. It takes everything by address, and the lengths of texts as further
/// arguments by value.
template <class T>
struct Routines {
  void (*gesv)(const int* n, const int* nrhs, T* a, const int* lda, int* ipiv, T* b, const int* ldb, int* info);
  void (*getrf)(const int* m, const int* n, T* a, const int* lda, int* ipiv, int* info);
  void (*trtrs)(const char* uplo, const char* trans, const char* diag, const int* n, const int* nrhs, const T* a,
                const int* lda, T* b, const int* ldb, int* info, std::size_t, std::size_t, std::size_t);
  void (*potrf)(const char* uplo, const int* n, T* a, const int* lda, int* info, std::size_t);
  void (*geqrf)(const int* m, const int* n, T* a, const int* lda, T* tau, T* work, const int* lwork, int* info);
  void (*orgqr)(const int* m, const int* n, const int* k, T* a, const int* lda, const T* tau, T* work, const int* lwork,
                int* info);
  void (*gesdd)(const char* jobz, const int* m, const int* n, T* a, const int* lda, T* s, T* u, const int* ldu, T* vt,
                const int* ldvt, T* work, const int* lwork, int* iwork, int* info, std::size_t);
  void (*syevd)(const char* jobz, const char* uplo, const int* n, T* a, const int* lda, T* w, T* work, const int* lwork,
                int* iwork, const int* liwork, int* info, std::size_t, std::size_t);
  void (*gelsd)(const int* m, const int* n, const int* nrhs, T* a, const int* lda, T* b, const int* ldb, T* s,
                const T* rcond, int* rank, T* work, const int* lwork, int* iwork, int* info);
};

inline constexpr int kSequential = 0, kOpenMp = 2;  // what openblas_get_parallel() says of itself

/// OpenMP's threads, of which each thread of the program says for itself how many it wants; null unless OpenBLAS uses
/// them.
struct OpenMp {
  int (*threads)() = nullptr;
  void (*set_threads)(int count) = nullptr;
};

struct Library {
  Routines<float> of_float;
  Routines<double> of_double;
  OpenMp openmp;
  bool one_at_a_time = false;  // an OpenBLAS without threads has memory that calls share
};

/// OpenBLAS, which from then on computes each matrix with one thread: batches are cut here, by threads of one budget.
/// The first call loads it where it is not linked, and throws MissingLibraryError if it is not there.
const Library& library();

template <class T>
const Routines<T>& routines() {
  if constexpr (std::is_same_v<T, float>) return library().of_float;
  else return library().of_double;
}

/// Until it ends, this thread computes by itself whatever it asks of OpenBLAS.
class Alone {
 public:
  Alone() : openmp_(library().openmp) {
    static std::mutex all;
    if (library().one_at_a_time) turn_ = std::unique_lock(all);
    if (openmp_.threads == nullptr) return;
    before_ = openmp_.threads();
    openmp_.set_threads(1);
  }
  ~Alone() {
    if (openmp_.threads != nullptr) openmp_.set_threads(before_);
  }
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;

 private:
  const OpenMp& openmp_;
  std::unique_lock<std::mutex> turn_;
  int before_ = 0;
};

// Matrices are packed: the leading dimension is the number of rows. All return LAPACK's info. Those with a workspace
// write the length that they ask for to work[0] (and iwork[0]) if `lwork` is -1.
template <class T>
int gesv(int n, int k, T* a, int* pivots, T* b) {
  int info = 0;
  routines<T>().gesv(&n, &k, a, &n, pivots, b, &n, &info);
  return info;
}
template <class T>
int getrf(int n, T* a, int* pivots) {
  int info = 0;
  routines<T>().getrf(&n, &n, a, &n, pivots, &info);
  return info;
}
template <class T>
int trtrs(char uplo, char diagonal, int n, int k, const T* a, T* b) {
  int info = 0;
  routines<T>().trtrs(&uplo, "N", &diagonal, &n, &k, a, &n, b, &n, &info, 1, 1, 1);
  return info;
}
template <class T>
int potrf(int n, T* a) {
  int info = 0;
  routines<T>().potrf("L", &n, a, &n, &info, 1);
  return info;
}
template <class T>
int geqrf(int m, int n, T* a, T* tau, T* work, int lwork) {
  int info = 0;
  routines<T>().geqrf(&m, &n, a, &m, tau, work, &lwork, &info);
  return info;
}
template <class T>
int orgqr(int m, int n, int k, T* a, const T* tau, T* work, int lwork) {
  int info = 0;
  routines<T>().orgqr(&m, &n, &k, a, &m, tau, work, &lwork, &info);
  return info;
}
template <class T>
int gesdd(char job, int m, int n, T* a, T* s, T* u, T* vt, int ldvt, T* work, int lwork, int* iwork) {
  int info = 0;
  routines<T>().gesdd(&job, &m, &n, a, &m, s, u, &m, vt, &ldvt, work, &lwork, iwork, &info, 1);
  return info;
}
template <class T>
int syevd(char job, int n, T* a, T* w, T* work, int lwork, int* iwork, int liwork) {
  int info = 0;
  routines<T>().syevd(&job, "U", &n, a, &n, w, work, &lwork, iwork, &liwork, &info, 1, 1);
  return info;
}
template <class T>
int gelsd(int m, int n, int k, T* a, T* b, int ldb, T* s, T rcond, int* rank, T* work, int lwork, int* iwork) {
  int info = 0;
  routines<T>().gelsd(&m, &n, &k, a, &m, b, &ldb, s, &rcond, rank, work, &lwork, iwork, &info);
  return info;
}

/// A size as LAPACK takes it. A negative one is a workspace whose length LAPACK computed beyond its integers.
inline int to_int(std::int64_t size) {
  if (size < 0 || size > std::numeric_limits<int>::max())
    base::fail<BackendError>(core::calling_place(), "LAPACK: a size or workspace is ", size,
                             "; it takes those below 2^31 only.");
  return static_cast<int>(size);
}
/// The length of a workspace that was asked for in a floating number, which may have been rounded down.
template <class T>
std::int64_t work_length(T asked) {
  const double length = static_cast<double>(asked);
  if (length < 0) return to_int(-1);  // throws
  return static_cast<std::int64_t>(length + length * static_cast<double>(std::numeric_limits<T>::epsilon())) + 1;
}

template <class T>
bool all_finite(const T* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    if (!std::isfinite(x[i])) return false;
  return true;
}
/// The same of a triangle, by columns.
template <class T>
bool lower_finite(const T* x, std::int64_t n) {
  for (std::int64_t column = 0; column < n; ++column)
    if (!all_finite(x + column * n + column, n - column)) return false;
  return true;
}
template <class T>
bool upper_finite(const T* x, std::int64_t n) {
  for (std::int64_t column = 0; column < n; ++column)
    if (!all_finite(x + column * n, column + 1)) return false;
  return true;
}
template <class T>
void fill_nan(T* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) x[i] = std::numeric_limits<T>::quiet_NaN();
}

// --- batches -------------------------------------------------------------------------------------------------------

/// The axes of `shape` but the last `dropped`, then rows and columns.
inline Shape matrices_of(const Shape& shape, int dropped, std::int64_t rows, std::int64_t columns) {
  std::int64_t sizes[kMaxRank + 2];
  std::size_t rank = 0;
  for (int axis = 0; axis < shape.rank() - dropped; ++axis) sizes[rank++] = shape[axis];
  sizes[rank++] = rows;
  sizes[rank++] = columns;
  return Shape(std::span<const std::int64_t>(sizes, rank));
}

/// A view of the first rows and columns of every matrix, rows and columns exchanged.
inline Tensor exchanged(const TensorImpl& x, std::int64_t rows, std::int64_t columns) {
  std::int64_t strides[kMaxRank];
  const int r = x.rank();
  for (int axis = 0; axis < r - 2; ++axis) strides[axis] = x.strides[axis];
  strides[r - 2] = x.strides[r - 1];
  strides[r - 1] = x.strides[r - 2];
  return core::make_view(x, matrices_of(x.shape, 2, columns, rows), strides, 0, core::calling_place());
}

/// The matrices of x by columns, [batch..., columns, rows]; x's leading axes broadcast to the batch's, which are all of
/// `like` but its last two.
inline Tensor by_columns(const TensorImpl& x, const Shape& like) {
  const std::int64_t rows = x.shape[x.rank() - 2], columns = x.shape[x.rank() - 1];
  const Tensor result =
      core::make_workspace(matrices_of(like, 2, columns, rows), x.dtype, x.device(), core::calling_place());
  copy(*exchanged(x, rows, columns).impl(), *result.impl());
  return result;
}
/// The matrices of x as they are, [batch..., rows, columns]: by columns, they are transposed.
inline Tensor by_rows(const TensorImpl& x) {
  const Tensor result = core::make_workspace(x.shape, x.dtype, x.device(), core::calling_place());
  copy(x, *result.impl());
  return result;
}
/// Back: `out` takes the first of the rows and columns.
inline void from_columns(const Tensor& columns, TensorImpl& out) {
  const int r = out.rank();
  copy(*exchanged(*columns.impl(), out.shape[r - 1], out.shape[r - 2]).impl(), out);
}

/// Matrices in as many parts as are worth a thread; each part has a workspace.
struct Batch {
  std::int64_t count, parts;

  Batch(std::int64_t matrices, double flops) : count(matrices), parts(1) {
    library();  // here it may throw; within loops it may not
    constexpr double kFlopsWorthAThread = 1 << 17;
    const double worth = static_cast<double>(matrices) * flops / kFlopsWorthAThread;
    if (worth < static_cast<double>(threads())) parts = static_cast<std::int64_t>(worth);
    else parts = threads();
    if (parts > matrices) parts = matrices;
    if (parts < 1) parts = 1;
  }

  /// Calls `run(matrix, part)` for all.
  template <class Run>
  void each(Run run) const {
    base::parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
      const Alone alone;
      for (std::int64_t part = begin; part < end; ++part)
        for (std::int64_t i = count * part / parts; i < count * (part + 1) / parts; ++i) run(i, part);
    });
  }
};

/// What LAPACK says of each matrix: 0, or what went wrong.
class Infos {
 public:
  explicit Infos(std::int64_t count) : count_(count), list_(count, core::calling_place()) {
    for (std::int64_t i = 0; i < count; ++i) list_[i] = 0;
  }
  int& operator[](std::int64_t i) { return list_[i]; }
  BadMatrix first_bad() {
    for (std::int64_t i = 0; i < count_; ++i)
      if (list_[i] != 0) return {i, list_[i]};
    return {};
  }

 private:
  std::int64_t count_;
  core::Scratch<int> list_;
};

}  // namespace capstan::on_cpu::lapack
