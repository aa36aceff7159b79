#include "lib/cpu/backend.hpp"

#if CAPSTAN_SIMD_X86
#include <cpuid.h>
#endif

#include <cstdlib>
#include <cstring>

#include "lib/base/processor.hpp"
#include "lib/cpu/simd/kernels.hpp"
#include "lib/cpu/simd/tiles.hpp"
#include "lib/cpu/widen.hpp"

namespace capstan {
namespace on_cpu {
namespace {

#if CAPSTAN_SIMD_X86
bool is_asked(const char* name) {
  const char* asked = std::getenv("CAPSTAN_SIMD");
  return asked != nullptr && std::strcmp(asked, name) == 0;
}
#endif

const SimdKernels& choose_kernels() {
#if CAPSTAN_SIMD_X86
  const bool baseline = is_asked("baseline"), no_avx512 = is_asked("avx2");
  __builtin_cpu_init();
  unsigned version = 0, unused = 0, features = 0;
  const bool f16c = __get_cpuid(1, &version, &unused, &features, &unused) != 0 && (features & bit_F16C) != 0;
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && f16c;
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  if (avx512 && !baseline && !no_avx512) return avx512_kernels();
  if (avx2 && !baseline) return avx2_kernels();
#endif
  return baseline_kernels();
}

/// Tiles run at two fifths of their rate while a core's other thread is busy, multiply-adds at nearly all of theirs.
const TileKernels* choose_tiles() {
#if CAPSTAN_SIMD_X86
  const bool wanted = is_asked("amx") || (!is_asked("avx512") && base::has_whole_cores());
  if (&simd() == &avx512_kernels() && wanted && base::may_use_tiles()) return &amx_kernels();
#endif
  return nullptr;
}

/// The family of an AMD processor, or 0.
unsigned amd_family() {
#if CAPSTAN_SIMD_X86
  unsigned version = 0, unused = 0;
  __builtin_cpu_init();
  if (__builtin_cpu_is("amd") && __get_cpuid(1, &version, &unused, &unused, &unused) != 0) {
    const unsigned base = version >> 8 & 0xf;
    return base == 0xf ? base + (version >> 20 & 0xff) : base;
  }
#endif
  return 0;
}
constexpr unsigned kZen4 = 0x19, kZen5 = 0x1a;

}  // namespace

// A few lines ahead are no loss.
constinit std::int64_t bytes_ahead = 256;
// Short rows take a fifth to three fifths of the time so.
constinit std::int64_t short_row = 512;

const SimdKernels& simd() {
  static const SimdKernels& chosen = [&]() -> const SimdKernels& {
    // Zen 5 reads from its last cache a third faster far ahead than by its own prefetching, Zen 4 a quarter slower.
    if (amd_family() >= kZen5) bytes_ahead = 8192;
    // Rows of 1024 win a fifth where neighbours are busy, and lose a fiftieth where they are not.
    if (amd_family() == kZen4) short_row = 2048;
    return choose_kernels();
  }();
  return chosen;
}

const TileKernels* tile_kernels() {
  static const TileKernels* const chosen = choose_tiles();
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
      .scale = widen<&on_cpu::scale>,
      .blend = widen<&on_cpu::blend>,
      .exchange = &on_cpu::exchange,
      .add_powers = widen<&on_cpu::add_powers>,
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
      .convolve = widen<&on_cpu::convolve>,
      .convolve_transposed = widen<&on_cpu::convolve_transposed>,
      .convolve_weight = widen<&on_cpu::convolve_weight>,
      .max_pool = widen<&on_cpu::max_pool>,
      .max_pool_positions = &on_cpu::max_pool_positions,
      .max_pool_gather = widen<&on_cpu::max_pool_gather>,
      .max_pool_scatter = widen<&on_cpu::max_pool_scatter>,
      .avg_pool = widen<&on_cpu::avg_pool>,
      .avg_pool_scatter = widen<&on_cpu::avg_pool_scatter>,
      .resample = widen<&on_cpu::resample>,
      .grid_sample = widen<&on_cpu::grid_sample>,
      .grid_spread = widen<&on_cpu::grid_spread>,
      .grid_slopes = widen<&on_cpu::grid_slopes>,
      .unfold = &on_cpu::unfold,
      .fold = widen<&on_cpu::fold>,
      .layer_norm = widen<&on_cpu::layer_norm>,
      .layer_norm_backward = widen<&on_cpu::layer_norm_backward>,
      .group_norm = widen<&on_cpu::group_norm>,
      .group_norm_backward = widen<&on_cpu::group_norm_backward>,
      .batch_norm_training = widen<&on_cpu::batch_norm_training>,
      .batch_norm = widen<&on_cpu::batch_norm>,
      .batch_norm_backward = widen<&on_cpu::batch_norm_backward>,
      .response_norm = widen<&on_cpu::response_norm>,
      .response_norm_backward = widen<&on_cpu::response_norm_backward>,
      .cross_entropy = widen<&on_cpu::cross_entropy>,
      .cross_entropy_backward = widen<&on_cpu::cross_entropy_backward>,
      .loss = widen<&on_cpu::loss>,
      .loss_backward = widen<&on_cpu::loss_backward>,
      .multilabel_margin = widen<&on_cpu::multilabel_margin>,
      .ctc_loss = &on_cpu::ctc_loss,
      .ctc_loss_backward = &on_cpu::ctc_loss_backward,
      .ctc_greedy = &on_cpu::ctc_greedy,
      .ctc_beam_search = &on_cpu::ctc_beam_search,
      .embedding_bag = &on_cpu::embedding_bag,
      .dropout = widen<&on_cpu::dropout>,
      .keep = widen<&on_cpu::keep>,
      .rnn_forward = &on_cpu::rnn_forward,
      .rnn_backward = &on_cpu::rnn_backward,
      .recurrent_forward = &on_cpu::recurrent_forward,
      .recurrent_backward = &on_cpu::recurrent_backward,
      .recurrent_both_forward = &on_cpu::recurrent_both_forward,
      .recurrent_both_backward = &on_cpu::recurrent_both_backward,
      .attention = &on_cpu::attention,
      .attention_backward = &on_cpu::attention_backward,
      .optimizer_steps = &on_cpu::optimizer_steps,
      .optimizer_rows = &on_cpu::optimizer_rows,
  };
  return table;
}
#undef CAPSTAN_LAPACK_SLOT

}  // namespace core
}  // namespace capstan
