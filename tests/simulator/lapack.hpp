#pragma once
// OpenBLAS by its Fortran names, which take everything by address, and the lengths of texts behind it by value.
#include <cstddef>
#include <vector>

#define SIMULATED_DECLARATIONS(T, p)                                                                                  \
  void p##gemm_(const char* transa, const char* transb, const int* m, const int* n, const int* k, const T* alpha,     \
                const T* a, const int* lda, const T* b, const int* ldb, const T* beta, T* c, const int* ldc,          \
                std::size_t, std::size_t);                                                                            \
  void p##trsm_(const char* side, const char* uplo, const char* trans, const char* diag, const int* m, const int* n,  \
                const T* alpha, const T* a, const int* lda, T* b, const int* ldb, std::size_t, std::size_t,           \
                std::size_t, std::size_t);                                                                            \
  void p##getrf_(const int* m, const int* n, T* a, const int* lda, int* ipiv, int* info);                             \
  void p##getrs_(const char* trans, const int* n, const int* nrhs, const T* a, const int* lda, const int* ipiv, T* b, \
                 const int* ldb, int* info, std::size_t);                                                             \
  void p##potrf_(const char* uplo, const int* n, T* a, const int* lda, int* info, std::size_t);                       \
  void p##geqrf_(const int* m, const int* n, T* a, const int* lda, T* tau, T* work, const int* lwork, int* info);     \
  void p##orgqr_(const int* m, const int* n, const int* k, T* a, const int* lda, const T* tau, T* work,               \
                 const int* lwork, int* info);                                                                        \
  void p##gesvd_(const char* jobu, const char* jobvt, const int* m, const int* n, T* a, const int* lda, T* s, T* u,   \
                 const int* ldu, T* vt, const int* ldvt, T* work, const int* lwork, int* info, std::size_t,           \
                 std::size_t);                                                                                        \
  void p##syevd_(const char* jobz, const char* uplo, const int* n, T* a, const int* lda, T* w, T* work,               \
                 const int* lwork, int* iwork, const int* liwork, int* info, std::size_t, std::size_t);
extern "C" {
SIMULATED_DECLARATIONS(float, s)
SIMULATED_DECLARATIONS(double, d)
void openblas_set_num_threads(int);
}
#undef SIMULATED_DECLARATIONS

namespace simulated::lapack {

/// Sums are the same in every run.
inline void hold_to_one_thread() {
  static const bool once = (openblas_set_num_threads(1), true);
  (void)once;
}

/// Calls `routine(work, length)` with the workspace that it asks for.
template <class T, class Routine>
int with_workspace(const Routine& routine) {
  T asked = 0;
  routine(&asked, -1);
  std::vector<T> work(static_cast<std::size_t>(asked) * 2 + 16);
  return routine(work.data(), static_cast<int>(work.size()));
}

// All but the first two return LAPACK's info.
#define SIMULATED_ROUTINES(T, p)                                                                                     \
  inline void gemm(char transa, char transb, int m, int n, int k, T alpha, const T* a, int lda, const T* b, int ldb, \
                   T beta, T* c, int ldc) {                                                                          \
    hold_to_one_thread();                                                                                            \
    p##gemm_(&transa, &transb, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc, 1, 1);                          \
  }                                                                                                                  \
  inline void trsm(char side, char uplo, char trans, char diag, int m, int n, T alpha, const T* a, int lda, T* b,    \
                   int ldb) {                                                                                        \
    hold_to_one_thread();                                                                                            \
    p##trsm_(&side, &uplo, &trans, &diag, &m, &n, &alpha, a, &lda, b, &ldb, 1, 1, 1, 1);                             \
  }                                                                                                                  \
  inline int getrf(int m, int n, T* a, int lda, int* pivots) {                                                       \
    hold_to_one_thread();                                                                                            \
    int info = 0;                                                                                                    \
    p##getrf_(&m, &n, a, &lda, pivots, &info);                                                                       \
    return info;                                                                                                     \
  }                                                                                                                  \
  inline int getrs(char trans, int n, int k, const T* a, int lda, const int* pivots, T* b, int ldb) {                \
    hold_to_one_thread();                                                                                            \
    int info = 0;                                                                                                    \
    p##getrs_(&trans, &n, &k, a, &lda, pivots, b, &ldb, &info, 1);                                                   \
    return info;                                                                                                     \
  }                                                                                                                  \
  inline int potrf(char uplo, int n, T* a, int lda) {                                                                \
    hold_to_one_thread();                                                                                            \
    int info = 0;                                                                                                    \
    p##potrf_(&uplo, &n, a, &lda, &info, 1);                                                                         \
    return info;                                                                                                     \
  }                                                                                                                  \
  inline int geqrf(int m, int n, T* a, int lda, T* tau) {                                                            \
    hold_to_one_thread();                                                                                            \
    return with_workspace<T>([&](T* work, int length) {                                                              \
      int info = 0;                                                                                                  \
      p##geqrf_(&m, &n, a, &lda, tau, work, &length, &info);                                                         \
      return info;                                                                                                   \
    });                                                                                                              \
  }                                                                                                                  \
  inline int orgqr(int m, int n, int k, T* a, int lda, const T* tau) {                                               \
    hold_to_one_thread();                                                                                            \
    return with_workspace<T>([&](T* work, int length) {                                                              \
      int info = 0;                                                                                                  \
      p##orgqr_(&m, &n, &k, a, &lda, tau, work, &length, &info);                                                     \
      return info;                                                                                                   \
    });                                                                                                              \
  }                                                                                                                  \
  inline int gesvd(char jobu, char jobvt, int m, int n, T* a, int lda, T* s, T* u, int ldu, T* vt, int ldvt) {       \
    hold_to_one_thread();                                                                                            \
    return with_workspace<T>([&](T* work, int length) {                                                              \
      int info = 0;                                                                                                  \
      p##gesvd_(&jobu, &jobvt, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, work, &length, &info, 1, 1);                  \
      return info;                                                                                                   \
    });                                                                                                              \
  }                                                                                                                  \
  /* of the upper triangle: see eigh in lib/cpu/decompose.cpp */                                                     \
  inline int syevd(char job, char uplo, int n, T* a, int lda, T* w) {                                                \
    hold_to_one_thread();                                                                                            \
    for (int i = 0; uplo == 'L' && i < n; ++i)                                                                       \
      for (int j = 0; j < i; ++j) a[j + i * lda] = a[i + j * lda];                                                   \
    std::vector<int> integers(static_cast<std::size_t>(n) * 5 + 3);                                                  \
    const int count = static_cast<int>(integers.size());                                                             \
    return with_workspace<T>([&](T* work, int length) {                                                              \
      int info = 0;                                                                                                  \
      p##syevd_(&job, "U", &n, a, &lda, w, work, &length, integers.data(), &count, &info, 1, 1);                     \
      return info;                                                                                                   \
    });                                                                                                              \
  }
SIMULATED_ROUTINES(float, s)
SIMULATED_ROUTINES(double, d)
#undef SIMULATED_ROUTINES

}  // namespace simulated::lapack
