// cuBLAS of the simulated GPU, by OpenBLAS: the functions that the backend calls, with their checks of arguments.
// Factors are read when a function is called; matrices and lists of addresses when the stream comes to it.
#include <cublas_v2.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <capstan/half.hpp>

#include "tests/simulator/lapack.hpp"
#include "tests/simulator/runtime.hpp"

struct cublasContext {
  cudaStream_t stream = nullptr;
};

namespace simulated {
namespace {

char letter_of(cublasOperation_t operation) { return operation == CUBLAS_OP_N ? 'N' : 'T'; }
char letter_of(cublasSideMode_t side) { return side == CUBLAS_SIDE_LEFT ? 'L' : 'R'; }
char letter_of(cublasFillMode_t part) { return part == CUBLAS_FILL_MODE_LOWER ? 'L' : 'U'; }
char letter_of(cublasDiagType_t diagonal) { return diagonal == CUBLAS_DIAG_UNIT ? 'U' : 'N'; }

std::int64_t bytes_of(cudaDataType type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }

/// c = alpha op(a) op(b) + beta c.
struct Product {
  char transa, transb;
  int m, n, k;
  double alpha, beta;
  cudaDataType type;
  int lda, ldb, ldc;

  void run(const void* a, const void* b, void* c) const {
    switch (type) {
      case CUDA_R_64F:
        return native(static_cast<const double*>(a), static_cast<const double*>(b), static_cast<double*>(c));
      case CUDA_R_16F: return halves<capstan::float16>(a, b, c);
      case CUDA_R_16BF: return halves<capstan::bfloat16>(a, b, c);
      default: return native(static_cast<const float*>(a), static_cast<const float*>(b), static_cast<float*>(c));
    }
  }

 private:
  template <class T>
  void native(const T* a, const T* b, T* c) const {
    lapack::gemm(transa, transb, m, n, k, static_cast<T>(alpha), a, lda, b, ldb, static_cast<T>(beta), c, ldc);
  }
  template <class H>
  static std::vector<float> widened(const void* from, int rows, int columns, int lead) {
    std::vector<float> to;
    for (int column = 0; column < columns; ++column)
      for (int row = 0; row < rows; ++row)
        to.push_back(static_cast<float>(static_cast<const H*>(from)[std::int64_t{column} * lead + row]));
    return to;
  }
  /// In float, and rounded once.
  template <class H>
  void halves(const void* a, const void* b, void* c) const {
    const bool plain_a = transa == 'N', plain_b = transb == 'N';
    const std::vector<float> left = widened<H>(a, plain_a ? m : k, plain_a ? k : m, lda);
    const std::vector<float> right = widened<H>(b, plain_b ? k : n, plain_b ? n : k, ldb);
    std::vector<float> sum(static_cast<std::size_t>(m) * static_cast<std::size_t>(n));
    if (beta != 0) sum = widened<H>(c, m, n, ldc);
    lapack::gemm(transa, transb, m, n, k, static_cast<float>(alpha), left.data(), plain_a ? m : k, right.data(),
                 plain_b ? k : n, static_cast<float>(beta), sum.data(), m);
    for (int column = 0; column < n; ++column)
      for (int row = 0; row < m; ++row)
        static_cast<H*>(c)[std::int64_t{column} * ldc + row] = H(sum[static_cast<std::size_t>(column) * m + row]);
  }
};

/// What the three functions for products are told alike.
struct ProductArguments {
  cublasOperation_t transa, transb;
  std::int64_t m, n, k;
  const void *alpha, *beta;
  cudaDataType a, b, c;
  std::int64_t lda, ldb, ldc;
  cublasComputeType_t compute;
};

bool is_operation(cublasOperation_t x) { return x == CUBLAS_OP_N || x == CUBLAS_OP_T; }

/// Products of one type alone, in its own arithmetic, are simulated.
cublasStatus_t read(const ProductArguments& p, Product& product) {
  const bool plain_a = p.transa == CUBLAS_OP_N, plain_b = p.transb == CUBLAS_OP_N;
  if (!is_operation(p.transa) || !is_operation(p.transb) || p.m < 0 || p.n < 0 || p.k < 0 || p.alpha == nullptr ||
      p.beta == nullptr || p.lda < std::max<std::int64_t>(plain_a ? p.m : p.k, 1) ||
      p.ldb < std::max<std::int64_t>(plain_b ? p.k : p.n, 1) || p.ldc < std::max<std::int64_t>(p.m, 1))
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool wide = p.a == CUDA_R_64F, half = p.a == CUDA_R_16F || p.a == CUDA_R_16BF;
  const bool fits =
      wide ? p.compute == CUBLAS_COMPUTE_64F
           : p.compute == CUBLAS_COMPUTE_32F || (p.a == CUDA_R_32F && p.compute == CUBLAS_COMPUTE_32F_FAST_TF32);
  if (p.a != p.b || p.a != p.c || !fits || (!wide && !half && p.a != CUDA_R_32F)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (std::max({p.m, p.n, p.k, p.lda, p.ldb, p.ldc}) > std::numeric_limits<int>::max())
    return CUBLAS_STATUS_NOT_SUPPORTED;  // OpenBLAS
  const auto number = [wide](const void* x) {
    return wide ? *static_cast<const double*>(x) : static_cast<double>(*static_cast<const float*>(x));
  };
  const auto size = [](std::int64_t x) { return static_cast<int>(x); };
  product = {letter_of(p.transa), letter_of(p.transb), size(p.m),      size(p.n),
             size(p.k),           number(p.alpha),     number(p.beta), p.a,
             size(p.lda),         size(p.ldb),         size(p.ldc)};
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t trsm(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t part, cublasOperation_t turn,
                    cublasDiagType_t diagonal, int m, int n, const T* alpha, const T* const* a, const T* one_a, int lda,
                    T* const* b, T* one_b, int ldb, int count) {
  if (m < 0 || n < 0 || count < 0 || lda < std::max(side == CUBLAS_SIDE_LEFT ? m : n, 1) || ldb < std::max(m, 1) ||
      !is_operation(turn) || (part != CUBLAS_FILL_MODE_LOWER && part != CUBLAS_FILL_MODE_UPPER))
    return CUBLAS_STATUS_INVALID_VALUE;
  enqueue(handle->stream, [=, factor = *alpha] {
    for (int i = 0; i < count; ++i)
      lapack::trsm(letter_of(side), letter_of(part), letter_of(turn), letter_of(diagonal), m, n, factor,
                   a != nullptr ? a[i] : one_a, lda, b != nullptr ? b[i] : one_b, ldb);
  });
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t getrf(cublasHandle_t handle, int n, T* const* a, int lda, int* pivots, int* infos, int count) {
  if (n < 0 || count < 0 || lda < std::max(n, 1)) return CUBLAS_STATUS_INVALID_VALUE;
  if (pivots == nullptr) return CUBLAS_STATUS_NOT_SUPPORTED;
  enqueue(handle->stream, [=] {
    for (int i = 0; i < count; ++i) infos[i] = lapack::getrf(n, n, a[i], lda, pivots + std::int64_t{i} * n);
  });
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t getrs(cublasHandle_t handle, cublasOperation_t turn, int n, int k, const T* const* a, int lda,
                     const int* pivots, T* const* b, int ldb, int* wrong, int count) {
  *wrong = n < 0 ? -2 : k < 0 ? -3 : lda < std::max(n, 1) ? -5 : ldb < std::max(n, 1) ? -8 : 0;
  if (*wrong != 0 || count < 0 || !is_operation(turn)) return CUBLAS_STATUS_INVALID_VALUE;
  enqueue(handle->stream, [=] {
    for (int i = 0; i < count; ++i)
      lapack::getrs(letter_of(turn), n, k, a[i], lda, pivots + std::int64_t{i} * n, b[i], ldb);
  });
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace simulated

// --- handles ---

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void* room, std::size_t) {
  return reinterpret_cast<std::uintptr_t>(room) % 256 == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}

// --- products ---

cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int64_t m,
                               int64_t n, int64_t k, const void* alpha, const void* a, cudaDataType type_a, int64_t lda,
                               const void* b, cudaDataType type_b, int64_t ldb, const void* beta, void* c,
                               cudaDataType type_c, int64_t ldc, cublasComputeType_t compute, cublasGemmAlgo_t) {
  simulated::Product p{};
  const cublasStatus_t status =
      simulated::read({transa, transb, m, n, k, alpha, beta, type_a, type_b, type_c, lda, ldb, ldc, compute}, p);
  if (status != CUBLAS_STATUS_SUCCESS || m == 0 || n == 0) return status;
  simulated::enqueue(handle->stream, [=] { p.run(a, b, c); });
  return status;
}

cublasStatus_t cublasGemmStridedBatchedEx_64(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                             int64_t m, int64_t n, int64_t k, const void* alpha, const void* a,
                                             cudaDataType type_a, int64_t lda, long long step_a, const void* b,
                                             cudaDataType type_b, int64_t ldb, long long step_b, const void* beta,
                                             void* c, cudaDataType type_c, int64_t ldc, long long step_c, int64_t count,
                                             cublasComputeType_t compute, cublasGemmAlgo_t) {
  simulated::Product p{};
  const cublasStatus_t status =
      simulated::read({transa, transb, m, n, k, alpha, beta, type_a, type_b, type_c, lda, ldb, ldc, compute}, p);
  if (count < 0 || step_a < 0 || step_b < 0 || step_c < 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (status != CUBLAS_STATUS_SUCCESS || m == 0 || n == 0) return status;
  simulated::enqueue(handle->stream, [=, bytes = simulated::bytes_of(type_a)] {
    for (int64_t i = 0; i < count; ++i)
      p.run(static_cast<const char*>(a) + i * step_a * bytes, static_cast<const char*>(b) + i * step_b * bytes,
            static_cast<char*>(c) + i * step_c * bytes);
  });
  return status;
}

cublasStatus_t cublasGemmBatchedEx_64(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                      int64_t m, int64_t n, int64_t k, const void* alpha, const void* const a[],
                                      cudaDataType type_a, int64_t lda, const void* const b[], cudaDataType type_b,
                                      int64_t ldb, const void* beta, void* const c[], cudaDataType type_c, int64_t ldc,
                                      int64_t count, cublasComputeType_t compute, cublasGemmAlgo_t) {
  simulated::Product p{};
  const cublasStatus_t status =
      simulated::read({transa, transb, m, n, k, alpha, beta, type_a, type_b, type_c, lda, ldb, ldc, compute}, p);
  if (count < 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (status != CUBLAS_STATUS_SUCCESS || m == 0 || n == 0) return status;
  simulated::enqueue(handle->stream, [=] {
    for (int64_t i = 0; i < count; ++i) p.run(a[i], b[i], c[i]);
  });
  return status;
}

// --- systems ---

#define SIMULATED_CUBLAS(T, P)                                                                                         \
  cublasStatus_t cublas##P##trsm_v2(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t part,               \
                                    cublasOperation_t turn, cublasDiagType_t diagonal, int m, int n, const T* alpha,   \
                                    const T* a, int lda, T* b, int ldb) {                                              \
    const T* const* const no_list = nullptr;                                                                           \
    T* const* const none = nullptr;                                                                                    \
    return simulated::trsm(handle, side, part, turn, diagonal, m, n, alpha, no_list, a, lda, none, b, ldb, 1);         \
  }                                                                                                                    \
  cublasStatus_t cublas##P##trsmBatched(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t part,           \
                                        cublasOperation_t turn, cublasDiagType_t diagonal, int m, int n,               \
                                        const T* alpha, const T* const a[], int lda, T* const b[], int ldb,            \
                                        int count) {                                                                   \
    const T* const no_a = nullptr;                                                                                     \
    T* const no_b = nullptr;                                                                                           \
    return simulated::trsm(handle, side, part, turn, diagonal, m, n, alpha, a, no_a, lda, b, no_b, ldb, count);        \
  }                                                                                                                    \
  cublasStatus_t cublas##P##getrfBatched(cublasHandle_t handle, int n, T* const a[], int lda, int* pivots, int* infos, \
                                         int count) {                                                                  \
    return simulated::getrf(handle, n, a, lda, pivots, infos, count);                                                  \
  }                                                                                                                    \
  cublasStatus_t cublas##P##getrsBatched(cublasHandle_t handle, cublasOperation_t turn, int n, int k,                  \
                                         const T* const a[], int lda, const int* pivots, T* const b[], int ldb,        \
                                         int* wrong, int count) {                                                      \
    return simulated::getrs(handle, turn, n, k, a, lda, pivots, b, ldb, wrong, count);                                 \
  }
SIMULATED_CUBLAS(float, S)
SIMULATED_CUBLAS(double, D)
#undef SIMULATED_CUBLAS
