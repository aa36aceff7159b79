// AVX2, FMA and F16C: compiled with their flags, called only where the processor has them.
#include "lib/cpu/simd/kernels.hpp"

#define CAPSTAN_ISA avx2
// each stands on those before it
// clang-format off
#include "lib/cpu/simd/lanes.hpp"
#include "lib/cpu/simd/elementary.hpp"
#include "lib/cpu/simd/group.hpp"
#include "lib/cpu/simd/exponential.hpp"
#include "lib/cpu/simd/precise.hpp"
#include "lib/cpu/simd/gamma.hpp"
#include "lib/cpu/simd/logarithm.hpp"
#include "lib/cpu/simd/single.hpp"
#include "lib/cpu/simd/trigonometry.hpp"
#include "lib/cpu/simd/double.hpp"
#include "lib/cpu/simd/rule_loops.hpp"
#include "lib/cpu/simd/losses.hpp"
#include "lib/cpu/simd/extremes.hpp"
#include "lib/cpu/simd/integers.hpp"
#include "lib/cpu/simd/loops.hpp"
#include "lib/cpu/simd/single_terms.hpp"
#include "lib/cpu/simd/products.hpp"
#include "lib/cpu/simd/recurrent.hpp"
#include "lib/cpu/simd/optimizers.hpp"
#include "lib/cpu/simd/convolve.hpp"
#include "lib/cpu/simd/pooling.hpp"
#include "lib/cpu/simd/depthwise.hpp"
#include "lib/cpu/simd/normalize.hpp"
#include "lib/cpu/simd/draws.hpp"
#include "lib/cpu/simd/dropout.hpp"
#include "lib/cpu/simd/halves.hpp"
#include "lib/cpu/simd/attention.hpp"
#include "lib/cpu/simd/table.hpp"
// clang-format on

namespace capstan::on_cpu {

const SimdKernels& avx2_kernels() {
  static constexpr SimdKernels table{"avx2",
                                     avx2::make_kernels<float>(),
                                     avx2::make_kernels<double>(),
                                     avx2::make_half_kernels<float16>(),
                                     avx2::make_half_kernels<bfloat16>(),
                                     avx2::kIntegerKernels,
                                     avx2::kRandomKernels};
  return table;
}

}  // namespace capstan::on_cpu
