#pragma once
// cuSOLVER's and cuBLAS's counterparts of LAPACK's routines, under one name for float and double, on the call's stream.
// Matrices are by columns and packed: the leading dimension is the number of rows. What a routine says of its matrix
// goes to `info`, in the device's memory. The `_length` functions ask how many elements of workspace a routine takes.
#include <cusolverDn.h>

#include <cstdint>
#include <limits>

#include "cuda/context.hpp"

namespace capstan::on_cuda {

/// cuSOLVER on the call's device and stream.
cusolverDnHandle_t solver();
/// As the others of context.hpp.
void check(cusolverStatus_t status, const char* what);

namespace lapack {

/// A size as these libraries take it.
inline int to_int(std::int64_t size) {
  if (size > std::numeric_limits<int>::max())
    base::fail<BackendError>(call().where, call().op, ": a size is ", size, "; cuSOLVER takes those below 2^31 only.");
  return static_cast<int>(size);
}

#define CAPSTAN_SOLVER_ROUTINES(T, P)                                                                                  \
  inline int getrf_length(int n, T* a) {                                                                               \
    int length = 0;                                                                                                    \
    check(cusolverDn##P##getrf_bufferSize(solver(), n, n, a, n, &length), "cusolverDn" #P "getrf_bufferSize");         \
    return length;                                                                                                     \
  }                                                                                                                    \
  inline void getrf(int n, T* a, T* work, int* pivots, int* info) {                                                    \
    check(cusolverDn##P##getrf(solver(), n, n, a, n, work, pivots, info), "cusolverDn" #P "getrf");                    \
  }                                                                                                                    \
  inline void getrs(int n, int k, const T* a, const int* pivots, T* b, int* info) {                                    \
    check(cusolverDn##P##getrs(solver(), CUBLAS_OP_N, n, k, a, n, pivots, b, n, info), "cusolverDn" #P "getrs");       \
  }                                                                                                                    \
  inline void getrf_batched(int n, T* const* a, int* pivots, int* infos, int count) {                                  \
    check(cublas##P##getrfBatched(blas(), n, a, n, pivots, infos, count), "cublas" #P "getrfBatched");                 \
  }                                                                                                                    \
  inline void getrs_batched(int n, int k, const T* const* a, const int* pivots, T* const* b, int count) {              \
    int wrong_argument = 0;                                                                                            \
    check(cublas##P##getrsBatched(blas(), CUBLAS_OP_N, n, k, a, n, pivots, b, n, &wrong_argument, count),              \
          "cublas" #P "getrsBatched");                                                                                 \
  }                                                                                                                    \
  /* a x = b in b's place, or a^T x = b; the rows of `a` as it is stored are `lead` apart */                           \
  inline void trsm(cublasFillMode_t part, cublasOperation_t turn, cublasDiagType_t diagonal, int n, int k, const T* a, \
                   int lead, T* b) {                                                                                   \
    const T one = 1;                                                                                                   \
    check(cublas##P##trsm(blas(), CUBLAS_SIDE_LEFT, part, turn, diagonal, n, k, &one, a, lead, b, n),                  \
          "cublas" #P "trsm");                                                                                         \
  }                                                                                                                    \
  inline void trsm_batched(cublasFillMode_t part, cublasOperation_t turn, cublasDiagType_t diagonal, int n, int k,     \
                           const T* const* a, T* const* b, int count) {                                                \
    const T one = 1;                                                                                                   \
    check(cublas##P##trsmBatched(blas(), CUBLAS_SIDE_LEFT, part, turn, diagonal, n, k, &one, a, n, b, n, count),       \
          "cublas" #P "trsmBatched");                                                                                  \
  }                                                                                                                    \
  inline int potrf_length(int n, T* a) {                                                                               \
    int length = 0;                                                                                                    \
    check(cusolverDn##P##potrf_bufferSize(solver(), CUBLAS_FILL_MODE_LOWER, n, a, n, &length),                         \
          "cusolverDn" #P "potrf_bufferSize");                                                                         \
    return length;                                                                                                     \
  }                                                                                                                    \
  inline void potrf(int n, T* a, T* work, int length, int* info) {                                                     \
    check(cusolverDn##P##potrf(solver(), CUBLAS_FILL_MODE_LOWER, n, a, n, work, length, info),                         \
          "cusolverDn" #P "potrf");                                                                                    \
  }                                                                                                                    \
  inline void potrf_batched(int n, T** a, int* infos, int count) {                                                     \
    check(cusolverDn##P##potrfBatched(solver(), CUBLAS_FILL_MODE_LOWER, n, a, n, infos, count),                        \
          "cusolverDn" #P "potrfBatched");                                                                             \
  }                                                                                                                    \
  inline int geqrf_length(int m, int n, T* a) {                                                                        \
    int length = 0;                                                                                                    \
    check(cusolverDn##P##geqrf_bufferSize(solver(), m, n, a, m, &length), "cusolverDn" #P "geqrf_bufferSize");         \
    return length;                                                                                                     \
  }                                                                                                                    \
  inline void geqrf(int m, int n, T* a, T* tau, T* work, int length, int* info) {                                      \
    check(cusolverDn##P##geqrf(solver(), m, n, a, m, tau, work, length, info), "cusolverDn" #P "geqrf");               \
  }                                                                                                                    \
  inline int orgqr_length(int m, int n, int k, const T* a, const T* tau) {                                             \
    int length = 0;                                                                                                    \
    check(cusolverDn##P##orgqr_bufferSize(solver(), m, n, k, a, m, tau, &length), "cusolverDn" #P "orgqr_bufferSize"); \
    return length;                                                                                                     \
  }                                                                                                                    \
  inline void orgqr(int m, int n, int k, T* a, const T* tau, T* work, int length, int* info) {                         \
    check(cusolverDn##P##orgqr(solver(), m, n, k, a, m, tau, work, length, info), "cusolverDn" #P "orgqr");            \
  }                                                                                                                    \
  inline int gesvd_length(int m, int n, const T*) {                                                                    \
    int length = 0;                                                                                                    \
    check(cusolverDn##P##gesvd_bufferSize(solver(), m, n, &length), "cusolverDn" #P "gesvd_bufferSize");               \
    return length;                                                                                                     \
  }                                                                                                                    \
  /* not fewer rows than columns */                                                                                    \
  inline void gesvd(signed char job, int m, int n, T* a, T* s, T* u, T* vt, T* work, int length, int* info) {          \
    T* const unconverged = nullptr;                                                                                    \
    check(cusolverDn##P##gesvd(solver(), job, job, m, n, a, m, s, u, m, vt, n, work, length, unconverged, info),       \
          "cusolverDn" #P "gesvd");                                                                                    \
  }                                                                                                                    \
  inline int syevd_length(cusolverEigMode_t job, int n, const T* a, const T* w) {                                      \
    int length = 0;                                                                                                    \
    check(cusolverDn##P##syevd_bufferSize(solver(), job, CUBLAS_FILL_MODE_LOWER, n, a, n, w, &length),                 \
          "cusolverDn" #P "syevd_bufferSize");                                                                         \
    return length;                                                                                                     \
  }                                                                                                                    \
  inline void syevd(cusolverEigMode_t job, int n, T* a, T* w, T* work, int length, int* info) {                        \
    check(cusolverDn##P##syevd(solver(), job, CUBLAS_FILL_MODE_LOWER, n, a, n, w, work, length, info),                 \
          "cusolverDn" #P "syevd");                                                                                    \
  }
CAPSTAN_SOLVER_ROUTINES(float, S)
CAPSTAN_SOLVER_ROUTINES(double, D)
#undef CAPSTAN_SOLVER_ROUTINES

/// Batches of matrices up to this order go in one call, which works on all of them side by side; larger ones keep the
/// device busy one by one.
inline constexpr std::int64_t kBatchedOrder = 128;
inline bool in_one_call(std::int64_t count, std::int64_t order) { return count > 1 && order <= kBatchedOrder; }

}  // namespace lapack
}  // namespace capstan::on_cuda
