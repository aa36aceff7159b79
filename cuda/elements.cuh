#pragma once
// Floating elements of a type that is known at run time, in double: for kernels that compute in double anyway, so that
// there is one of them and not four.
#include <cuda_runtime.h>

#include <cstdint>

#include <capstan/dtype.hpp>

#include "cuda/values.cuh"

namespace capstan::on_cuda {

__device__ inline double read_real(const void* x, DType dtype, std::int64_t at) {
  switch (dtype) {
    case DType::float64: return static_cast<const double*>(x)[at];
    case DType::float16: return static_cast<double>(widen(static_cast<const float16*>(x)[at]));
    case DType::bfloat16: return static_cast<double>(widen(static_cast<const bfloat16*>(x)[at]));
    default: return static_cast<double>(static_cast<const float*>(x)[at]);
  }
}
/// Rounds once, 16-bit types by way of float as the CPU does.
__device__ inline void write_real(void* x, DType dtype, std::int64_t at, double value) {
  const auto single = static_cast<float>(value);
  switch (dtype) {
    case DType::float64: static_cast<double*>(x)[at] = value; return;
    case DType::float16: static_cast<float16*>(x)[at] = narrow<float16>(single); return;
    case DType::bfloat16: static_cast<bfloat16*>(x)[at] = narrow<bfloat16>(single); return;
    default: static_cast<float*>(x)[at] = single;
  }
}

}  // namespace capstan::on_cuda
