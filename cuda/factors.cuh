#pragma once
// Factors of the elements' types, and what multiplies them in groups of threads.
#include "cuda/values.cuh"
#include "lib/kernels/factor.hpp"

namespace capstan::on_cuda {

using kernels::Factor;
using kernels::scaled_factor;

template <class T>
__device__ inline Factor factor_of(T x) {
  return scaled_factor(static_cast<double>(widen(x)), 0);
}

struct Times {
  __device__ Factor operator()(const Factor& a, const Factor& b) const { return a * b; }
};

}  // namespace capstan::on_cuda
