#include "lib/cpu/backend.hpp"

#include <cstdlib>
#include <cstring>

#include "lib/cpu/simd/kernels.hpp"

namespace capstan {
namespace on_cpu {
namespace {

const SimdKernels& choose_kernels() {
#if CAPSTAN_SIMD_X86
  const char* asked = std::getenv("CAPSTAN_SIMD");
  const bool baseline = asked != nullptr && std::strcmp(asked, "baseline") == 0;
  const bool no_avx512 = asked != nullptr && std::strcmp(asked, "avx2") == 0;
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  if (avx512 && !baseline && !no_avx512) return avx512_kernels();
  if (avx2 && !baseline) return avx2_kernels();
#endif
  return baseline_kernels();
}

}  // namespace

const SimdKernels& simd() {
  static const SimdKernels& chosen = choose_kernels();
  return chosen;
}

}  // namespace on_cpu

namespace core {

const Backend& cpu_backend() {
  static constexpr Backend table{
      .unary = &on_cpu::unary,
      .unary_backward = &on_cpu::unary_backward,
      .binary = &on_cpu::binary,
      .compare = &on_cpu::compare,
      .logical = &on_cpu::logical,
      .select = &on_cpu::select,
      .accumulate = &on_cpu::accumulate,
      .copy = &on_cpu::copy,
      .fill = &on_cpu::fill,
      .random = &on_cpu::random,
      .reduce = &on_cpu::reduce,
      .argmax = &on_cpu::argmax,
      .softmax = &on_cpu::softmax,
      .softmax_backward = &on_cpu::softmax_backward,
      .logsumexp = &on_cpu::logsumexp,
      .matmul = &on_cpu::matmul,
      .check_indices = &on_cpu::check_indices,
      .gather = &on_cpu::gather,
      .gather_backward = &on_cpu::gather_backward,
      .pick = &on_cpu::pick,
      .pick_backward = &on_cpu::pick_backward,
      .one_hot = &on_cpu::one_hot,
      .cross_entropy = &on_cpu::cross_entropy,
      .cross_entropy_backward = &on_cpu::cross_entropy_backward,
      .rnn_forward = &on_cpu::rnn_forward,
      .rnn_backward = &on_cpu::rnn_backward,
      .adam = &on_cpu::adam,
      .sgd = &on_cpu::sgd,
  };
  return table;
}

}  // namespace core
}  // namespace capstan
