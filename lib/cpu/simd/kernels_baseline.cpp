// The instruction set that every processor of the target has.
#include "lib/cpu/simd/kernels.hpp"

#define CAPSTAN_ISA baseline
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

const SimdKernels& baseline_kernels() {
  static constexpr SimdKernels table{"baseline",
                                     baseline::make_kernels<float>(),
                                     baseline::make_kernels<double>(),
                                     baseline::make_half_kernels<float16>(),
                                     baseline::make_half_kernels<bfloat16>(),
                                     baseline::kIntegerKernels,
                                     baseline::kRandomKernels};
  return table;
}

}  // namespace capstan::on_cpu
