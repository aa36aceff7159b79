#include "lib/cpu/backend.hpp"

#include <cstdlib>
#include <cstring>

#include "lib/cpu/simd/kernels.hpp"
#include "lib/cpu/widen.hpp"

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

// What LAPACK computes; without it the slot is empty, and the operation says what to install.
#if CAPSTAN_HAS_LAPACK
#define CAPSTAN_LAPACK_SLOT(name) &on_cpu::name
#else
#define CAPSTAN_LAPACK_SLOT(name) nullptr
#endif

namespace core {

const Backend& cpu_backend() {
  using on_cpu::widen;
  static constexpr Backend table{
      .unary = &on_cpu::unary,
      .unary_backward = &on_cpu::unary_backward,
      .binary = &on_cpu::binary,
      .parametric = &on_cpu::parametric,
      .parametric_backward = &on_cpu::parametric_backward,
      .any_bad = &on_cpu::any_bad,
      .predicate = &on_cpu::predicate,
      .bitwise = &on_cpu::bitwise,
      .compare = &on_cpu::compare,
      .logical = &on_cpu::logical,
      .select = &on_cpu::select,
      .accumulate = &on_cpu::accumulate,
      .copy = &on_cpu::copy,
      .fill = &on_cpu::fill,
      .random = &on_cpu::random,
      .reduce = widen<&on_cpu::reduce>,
      .argmax = widen<&on_cpu::argmax>,
      .argmin = widen<&on_cpu::argmin>,
      .softmax = widen<&on_cpu::softmax>,
      .softmax_backward = widen<&on_cpu::softmax_backward>,
      .logsumexp = widen<&on_cpu::logsumexp>,
      .matmul = widen<&on_cpu::matmul>,
      .triangle = &on_cpu::triangle,
      .solve = CAPSTAN_LAPACK_SLOT(solve),
      .solve_triangular = CAPSTAN_LAPACK_SLOT(solve_triangular),
      .lstsq = CAPSTAN_LAPACK_SLOT(lstsq),
      .determinant = CAPSTAN_LAPACK_SLOT(determinant),
      .cholesky = CAPSTAN_LAPACK_SLOT(cholesky),
      .qr = CAPSTAN_LAPACK_SLOT(qr),
      .svd = CAPSTAN_LAPACK_SLOT(svd),
      .eigh = CAPSTAN_LAPACK_SLOT(eigh),
      .moments = widen<&on_cpu::moments>,
      .prod_backward = widen<&on_cpu::prod_backward>,
      .bernoulli = widen<&on_cpu::bernoulli>,
      .categorical = widen<&on_cpu::categorical>,
      .check_indices = &on_cpu::check_indices,
      .take = &on_cpu::take,
      .combine = &on_cpu::combine,
      .scatter = &on_cpu::scatter,
      .find_last = &on_cpu::find_last,
      .locate = &on_cpu::locate,
      .gather_backward = widen<&on_cpu::gather_backward>,
      .one_hot = &on_cpu::one_hot,
      .count_true = &on_cpu::count_true,
      .true_positions = &on_cpu::true_positions,
      .compress = &on_cpu::compress,
      .expand = &on_cpu::expand,
      .unravel = &on_cpu::unravel,
      .sort = &on_cpu::sort,
      .topk = &on_cpu::topk,
      .searchsorted = &on_cpu::searchsorted,
      .count_distinct = &on_cpu::count_distinct,
      .distinct = &on_cpu::distinct,
      .histogram = widen<&on_cpu::histogram>,
      .bincount = &on_cpu::bincount,
      .cumulate = widen<&on_cpu::cumulate>,
      .cumulative_extreme = &on_cpu::cumulative_extreme,
      .recur = widen<&on_cpu::recur>,
      .cross_entropy = widen<&on_cpu::cross_entropy>,
      .cross_entropy_backward = widen<&on_cpu::cross_entropy_backward>,
      .rnn_forward = &on_cpu::rnn_forward,
      .rnn_backward = &on_cpu::rnn_backward,
      .adam = widen<&on_cpu::adam>,
      .sgd = widen<&on_cpu::sgd>,
      .adam_rows = widen<&on_cpu::adam_rows>,
      .sgd_rows = widen<&on_cpu::sgd_rows>,
  };
  return table;
}
#undef CAPSTAN_LAPACK_SLOT

}  // namespace core
}  // namespace capstan
