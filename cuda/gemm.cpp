// cuBLAS reads memory by columns. Row-major C = A B is C^T = B^T A^T there, so the operands change places, and nothing
// is transposed.
#include "cuda/gemm.hpp"

#include "cuda/handles.hpp"

namespace capstan::on_cuda {
namespace {

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::float64: return CUDA_R_64F;
    case DType::float16: return CUDA_R_16F;
    case DType::bfloat16: return CUDA_R_16BF;
    default: return CUDA_R_32F;
  }
}
cublasComputeType_t arithmetic_of(DType dtype) {
  if (dtype == DType::float64) return CUBLAS_COMPUTE_64F;
  return dtype == DType::float32 && tf32_allowed() ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}
cublasOperation_t operation(bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; }

/// One or zero, as cuBLAS reads factors: in the type that it computes in.
class Factor {
 public:
  explicit Factor(bool one) : single_(one ? 1.0f : 0.0f), wide_(one ? 1.0 : 0.0) {}
  const void* in(DType dtype) const {
    return dtype == DType::float64 ? static_cast<const void*>(&wide_) : static_cast<const void*>(&single_);
  }

 private:
  float single_;
  double wide_;
};

/// Zeros in all matrices of c: what sums of no terms are.
void clear(DType dtype, std::int64_t m, std::int64_t n, void* c, std::int64_t ldc, std::int64_t stride_c,
           std::int64_t batch) {
  const std::int64_t element = size_of(dtype);
  const auto zeros = [&](std::int64_t first, std::int64_t count) {
    check(cudaMemsetAsync(static_cast<char*>(c) + first * element, 0, static_cast<std::size_t>(count * element),
                          call().stream),
          "cudaMemsetAsync");
  };
  const bool packed = ldc == n || m == 1;
  if (packed && (stride_c == m * n || batch == 1)) return zeros(0, batch * m * n);
  for (std::int64_t i = 0; i < batch; ++i) {
    if (packed) zeros(i * stride_c, m * n);
    else
      for (std::int64_t row = 0; row < m; ++row) zeros(i * stride_c + row * ldc, n);
  }
}

}  // namespace

void gemm_strided_batched(DType dtype, bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                          std::int64_t k, const void* a, std::int64_t lda, std::int64_t stride_a, const void* b,
                          std::int64_t ldb, std::int64_t stride_b, void* c, std::int64_t ldc, std::int64_t stride_c,
                          std::int64_t batch, bool accumulate) {
  if (m == 0 || n == 0 || batch == 0) return;
  if (k == 0) {
    if (!accumulate) clear(dtype, m, n, c, ldc, stride_c, batch);
    return;
  }
  const Factor one(true), sum(accumulate);
  const cudaDataType_t type = type_of(dtype);
  const cublasOperation_t left = operation(transpose_b), right = operation(transpose_a);
  if (batch == 1)
    check(with_room([&] {
            return cublasGemmEx_64(blas(), left, right, n, m, k, one.in(dtype), b, type, ldb, a, type, lda,
                                   sum.in(dtype), c, type, ldc, arithmetic_of(dtype), CUBLAS_GEMM_DEFAULT);
          }),
          "cublasGemmEx");
  else
    check(with_room([&] {
            return cublasGemmStridedBatchedEx_64(blas(), left, right, n, m, k, one.in(dtype), b, type, ldb, stride_b, a,
                                                 type, lda, stride_a, sum.in(dtype), c, type, ldc, stride_c, batch,
                                                 arithmetic_of(dtype), CUBLAS_GEMM_DEFAULT);
          }),
          "cublasGemmStridedBatchedEx");
}

void gemm_batched(DType dtype, bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
                  const void* const* a, std::int64_t lda, const void* const* b, std::int64_t ldb, void* const* c,
                  std::int64_t ldc, std::int64_t batch, bool accumulate) {
  const Factor one(true), sum(accumulate);
  const cudaDataType_t type = type_of(dtype);
  check(with_room([&] {
          return cublasGemmBatchedEx_64(blas(), operation(transpose_b), operation(transpose_a), n, m, k, one.in(dtype),
                                        b, type, ldb, a, type, lda, sum.in(dtype), c, type, ldc, batch,
                                        arithmetic_of(dtype), CUBLAS_GEMM_DEFAULT);
        }),
        "cublasGemmBatchedEx");
}

}  // namespace capstan::on_cuda
