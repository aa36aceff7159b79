// Every row of lib/kernels as a CUDA kernel, forward and backward, so that a row that does not compile for a GPU is
// noticed where it is written. (Namespace kernels is not opened at global scope: its exp would collide with CUDA's.)
#include <cstdint>

#include "lib/kernels/op_list.hpp"
#include "lib/kernels/philox.hpp"

namespace capstan::on_cuda {
namespace {

__device__ std::int64_t first_index() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ std::int64_t index_step() { return std::int64_t{gridDim.x} * blockDim.x; }

template <class Op, class T>
__global__ void unary_kernel(const T* __restrict__ x, T* __restrict__ y, std::int64_t count) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) y[i] = Op::forward(x[i]);
}

template <class Op, class T>
__global__ void unary_backward_kernel(const T* __restrict__ grad, const T* __restrict__ saved, T* __restrict__ out,
                                      std::int64_t count) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) out[i] = Op::backward(grad[i], saved[i]);
}

template <class Op, class T>
__global__ void binary_kernel(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ y, std::int64_t count) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) y[i] = Op::forward(a[i], b[i]);
}

template <class Op, class T>
__global__ void parametric_kernel(const T* __restrict__ x, double p, double q, T* __restrict__ y, std::int64_t count) {
  for (std::int64_t i = first_index(); i < count; i += index_step())
    y[i] = Op::forward(x[i], static_cast<T>(p), static_cast<T>(q));
}

template <class Op, class T>
__global__ void parametric_backward_kernel(const T* __restrict__ grad, const T* __restrict__ x, double p, double q,
                                           T* __restrict__ out, std::int64_t count) {
  for (std::int64_t i = first_index(); i < count; i += index_step())
    out[i] = Op::backward(grad[i], x[i], static_cast<T>(p), static_cast<T>(q));
}

template <class T, class... Op>
void* const* unary_kernels(std::tuple<Op...>*) {
  static void* const table[] = {reinterpret_cast<void*>(&unary_kernel<Op, T>)...,
                                reinterpret_cast<void*>(&unary_backward_kernel<Op, T>)...};
  return table;
}
template <class T, class... Op>
void* const* binary_kernels(std::tuple<Op...>*) {
  static void* const table[] = {reinterpret_cast<void*>(&binary_kernel<Op, T>)...};
  return table;
}
template <class T, class... Op>
void* const* parametric_kernels(std::tuple<Op...>*) {
  static void* const table[] = {reinterpret_cast<void*>(&parametric_kernel<Op, T>)...,
                                reinterpret_cast<void*>(&parametric_backward_kernel<Op, T>)...};
  return table;
}

__global__ void random_kernel(std::uint64_t seed, float* out, std::int64_t blocks) {
  for (std::int64_t i = first_index(); i < blocks; i += index_step())
    out[i] = kernels::unit_float(kernels::random_block(seed, static_cast<std::uint64_t>(i))[0]);
}

}  // namespace

/// The kernels by row: floating types, forward then backward.
struct RuleKernels {
  void* const* unary;
  void* const* binary;
  void* const* parametric;
  void* random;
};
RuleKernels rule_kernels(bool doubles) {
  auto* unary = static_cast<kernels::UnaryOps*>(nullptr);
  auto* binary = static_cast<kernels::BinaryOps*>(nullptr);
  auto* parametric = static_cast<kernels::ParametricOps*>(nullptr);
  void* random = reinterpret_cast<void*>(&random_kernel);
  if (doubles)
    return {unary_kernels<double>(unary), binary_kernels<double>(binary), parametric_kernels<double>(parametric),
            random};
  return {unary_kernels<float>(unary), binary_kernels<float>(binary), parametric_kernels<float>(parametric), random};
}

}  // namespace capstan::on_cuda
