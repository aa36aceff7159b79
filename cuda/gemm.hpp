#pragma once
// Matrix products by cuBLAS, in row-major terms, on the call's stream. float32 products are exact float32 unless
// `tf32_allowed()`; 16-bit operands are multiplied exactly and added up in float32, float64 in float64.
#include <cstdint>

#include "cuda/context.hpp"

namespace capstan::on_cuda {

/// c [m, n] (+)= op(a) [m, k] op(b) [k, n], `batch` times, where the matrices of an operand are `stride_` elements
/// apart: 0 for one and the same, but not for c. Rows as they are stored are `ld` elements apart; a transposed operand
/// is stored as [k, m] or [n, k]. Sizes may be 0.
void gemm_strided_batched(DType dtype, bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                          std::int64_t k, const void* a, std::int64_t lda, std::int64_t stride_a, const void* b,
                          std::int64_t ldb, std::int64_t stride_b, void* c, std::int64_t ldc, std::int64_t stride_c,
                          std::int64_t batch, bool accumulate);

/// The same for matrices anywhere: a, b and c are arrays in the device's memory. Sizes are above 0, and all matrices
/// begin at multiples of 16 bytes.
void gemm_batched(DType dtype, bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
                  const void* const* a, std::int64_t lda, const void* const* b, std::int64_t ldb, void* const* c,
                  std::int64_t ldc, std::int64_t batch, bool accumulate);

}  // namespace capstan::on_cuda
