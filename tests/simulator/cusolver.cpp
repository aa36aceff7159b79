// cuSOLVER of the simulated GPU, by LAPACK: the functions that the backend calls, with their checks of arguments. What a
// function is given as workspace is filled with NaN, up to the length that it asks for.
#include <cusolverDn.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "tests/simulator/lapack.hpp"
#include "tests/simulator/runtime.hpp"

struct cusolverDnContext {
  cudaStream_t stream = nullptr;
};

namespace simulated {
namespace {

/// Elements of workspace that are asked for: any number will do.
int length_of(int m, int n) { return m + 2 * n + 5; }

template <class T>
void use(T* work, int length) {
  std::fill_n(work, length, std::numeric_limits<T>::quiet_NaN());
}

bool is_matrix(int m, int n, int lead) { return m >= 0 && n >= 0 && lead >= std::max(m, 1); }

cusolverStatus_t ask(bool valid, int m, int n, int* length) {
  if (!valid) return CUSOLVER_STATUS_INVALID_VALUE;
  *length = length_of(m, n);
  return CUSOLVER_STATUS_SUCCESS;
}

/// Queues `routine`, which returns LAPACK's info, if the arguments are valid.
template <class T, class Routine>
cusolverStatus_t run(cusolverDnHandle_t handle, bool valid, T* work, int length, int* info, Routine routine) {
  if (!valid) return CUSOLVER_STATUS_INVALID_VALUE;
  enqueue(handle->stream, [work, length, info, routine] {
    use(work, length);
    *info = routine();
  });
  return CUSOLVER_STATUS_SUCCESS;
}

char letter_of(cublasFillMode_t part) { return part == CUBLAS_FILL_MODE_LOWER ? 'L' : 'U'; }

template <class T>
cusolverStatus_t gesvd(cusolverDnHandle_t handle, char jobu, char jobvt, int m, int n, T* a, int lda, T* s, T* u,
                       int ldu, T* vt, int ldvt, T* work, int length, int* info) {
  const bool valid =
      is_matrix(m, n, lda) && m >= n && ldu >= std::max(m, 1) && ldvt >= std::max(n, 1) && length >= length_of(m, n);
  return run(handle, valid, work, length, info,
             [=] { return lapack::gesvd(jobu, jobvt, m, n, a, lda, s, u, ldu, vt, ldvt); });
}

}  // namespace
}  // namespace simulated

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* handle) {
  *handle = new cusolverDnContext;
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle) {
  delete handle;
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  return CUSOLVER_STATUS_SUCCESS;
}

#define SIMULATED_CUSOLVER(T, P)                                                                                      \
  cusolverStatus_t cusolverDn##P##getrf_bufferSize(cusolverDnHandle_t, int m, int n, T*, int lda, int* length) {      \
    return simulated::ask(simulated::is_matrix(m, n, lda), m, n, length);                                             \
  }                                                                                                                   \
  cusolverStatus_t cusolverDn##P##getrf(cusolverDnHandle_t handle, int m, int n, T* a, int lda, T* work, int* pivots, \
                                        int* info) {                                                                  \
    return simulated::run(handle, simulated::is_matrix(m, n, lda), work, simulated::length_of(m, n), info,            \
                          [=] { return simulated::lapack::getrf(m, n, a, lda, pivots); });                            \
  }                                                                                                                   \
  cusolverStatus_t cusolverDn##P##getrs(cusolverDnHandle_t handle, cublasOperation_t turn, int n, int k, const T* a,  \
                                        int lda, const int* pivots, T* b, int ldb, int* info) {                       \
    const bool valid = simulated::is_matrix(n, n, lda) && simulated::is_matrix(n, k, ldb);                            \
    T* const no_work = nullptr;                                                                                       \
    return simulated::run(handle, valid, no_work, 0, info, [=] {                                                      \
      return simulated::lapack::getrs(turn == CUBLAS_OP_N ? 'N' : 'T', n, k, a, lda, pivots, b, ldb);                 \
    });                                                                                                               \
  }                                                                                                                   \
  cusolverStatus_t cusolverDn##P##potrf_bufferSize(cusolverDnHandle_t, cublasFillMode_t, int n, T*, int lda,          \
                                                   int* length) {                                                     \
    return simulated::ask(simulated::is_matrix(n, n, lda), n, n, length);                                             \
  }                                                                                                                   \
  cusolverStatus_t cusolverDn##P##potrf(cusolverDnHandle_t handle, cublasFillMode_t part, int n, T* a, int lda,       \
                                        T* work, int length, int* info) {                                             \
    const bool valid = simulated::is_matrix(n, n, lda) && length >= simulated::length_of(n, n);                       \
    return simulated::run(handle, valid, work, length, info,                                                          \
                          [=] { return simulated::lapack::potrf(simulated::letter_of(part), n, a, lda); });           \
  }                                                                                                                   \
  cusolverStatus_t cusolverDn##P##potrfBatched(cusolverDnHandle_t handle, cublasFillMode_t part, int n, T* a[],       \
                                               int lda, int* infos, int count) {                                      \
    if (!simulated::is_matrix(n, n, lda) || count < 0) return CUSOLVER_STATUS_INVALID_VALUE;                          \
    simulated::enqueue(handle->stream, [=] {                                                                          \
      for (int i = 0; i < count; ++i) infos[i] = simulated::lapack::potrf(simulated::letter_of(part), n, a[i], lda);  \
    });                                                                                                               \
    return CUSOLVER_STATUS_SUCCESS;                                                                                   \
  }                                                                                                                   \
  cusolverStatus_t cusolverDn##P##geqrf_bufferSize(cusolverDnHandle_t, int m, int n, T*, int lda, int* length) {      \
    return simulated::ask(simulated::is_matrix(m, n, lda), m, n, length);                                             \
  }                                                                                                                   \
  cusolverStatus_t cusolverDn##P##geqrf(cusolverDnHandle_t handle, int m, int n, T* a, int lda, T* tau, T* work,      \
                                        int length, int* info) {                                                      \
    const bool valid = simulated::is_matrix(m, n, lda) && length >= simulated::length_of(m, n);                       \
    return simulated::run(handle, valid, work, length, info,                                                          \
                          [=] { return simulated::lapack::geqrf(m, n, a, lda, tau); });                               \
  }                                                                                                                   \
  cusolverStatus_t cusolverDn##P##orgqr_bufferSize(cusolverDnHandle_t, int m, int n, int k, const T*, int lda,        \
                                                   const T*, int* length) {                                           \
    return simulated::ask(simulated::is_matrix(m, n, lda) && m >= n && n >= k && k >= 0, m, n, length);               \
  }                                                                                                                   \
  cusolverStatus_t cusolverDn##P##orgqr(cusolverDnHandle_t handle, int m, int n, int k, T* a, int lda, const T* tau,  \
                                        T* work, int length, int* info) {                                             \
    const bool valid =                                                                                                \
        simulated::is_matrix(m, n, lda) && m >= n && n >= k && k >= 0 && length >= simulated::length_of(m, n);        \
    return simulated::run(handle, valid, work, length, info,                                                          \
                          [=] { return simulated::lapack::orgqr(m, n, k, a, lda, tau); });                            \
  }                                                                                                                   \
  cusolverStatus_t cusolverDn##P##gesvd_bufferSize(cusolverDnHandle_t, int m, int n, int* length) {                   \
    return simulated::ask(m >= n && n >= 0, m, n, length);                                                            \
  }                                                                                                                   \
  cusolverStatus_t cusolverDn##P##gesvd(cusolverDnHandle_t handle, signed char jobu, signed char jobvt, int m, int n, \
                                        T* a, int lda, T* s, T* u, int ldu, T* vt, int ldvt, T* work, int length, T*, \
                                        int* info) {                                                                  \
    return simulated::gesvd(handle, static_cast<char>(jobu), static_cast<char>(jobvt), m, n, a, lda, s, u, ldu, vt,   \
                            ldvt, work, length, info);                                                                \
  }                                                                                                                   \
  cusolverStatus_t cusolverDn##P##syevd_bufferSize(cusolverDnHandle_t, cusolverEigMode_t, cublasFillMode_t, int n,    \
                                                   const T*, int lda, const T*, int* length) {                        \
    return simulated::ask(simulated::is_matrix(n, n, lda), n, n, length);                                             \
  }                                                                                                                   \
  cusolverStatus_t cusolverDn##P##syevd(cusolverDnHandle_t handle, cusolverEigMode_t job, cublasFillMode_t part,      \
                                        int n, T* a, int lda, T* w, T* work, int length, int* info) {                 \
    const bool valid = simulated::is_matrix(n, n, lda) && length >= simulated::length_of(n, n);                       \
    return simulated::run(handle, valid, work, length, info, [=] {                                                    \
      const char vectors = job == CUSOLVER_EIG_MODE_VECTOR ? 'V' : 'N';                                               \
      return simulated::lapack::syevd(vectors, simulated::letter_of(part), n, a, lda, w);                             \
    });                                                                                                               \
  }
SIMULATED_CUSOLVER(float, S)
SIMULATED_CUSOLVER(double, D)
#undef SIMULATED_CUSOLVER
