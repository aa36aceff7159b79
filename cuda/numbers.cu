// NaN and infinity, by their bits: without the sign they are the largest numbers.
#include "cuda/numbers.hpp"

#include <limits>
#include <type_traits>

#include "cuda/blocks.cuh"
#include "cuda/launch.cuh"
#include "cuda/report.cuh"
#include "cuda/unroll.hpp"
#include "cuda/values.cuh"

namespace capstan::on_cuda {
namespace {

constexpr unsigned kFound = 1, kExcused = 2;

template <class Word>
__device__ inline bool reaches(Word bits, Word limit) {
  return (bits & std::numeric_limits<std::make_signed_t<Word>>::max()) >= limit;
}

/// Sets the flag to `value`, 1 or 2, if an element reaches the limit. In the second case only if it is 1.
/// `packs` at the beginning are read together, the elements behind them one by one.
template <class Word>
__global__ void look_kernel(const Word* x, std::int64_t count, std::int64_t packs, Word limit, unsigned value,
                            unsigned* flag) {
  // what one lane reads holds for the warp: meanwhile another block may write
  if (value == kExcused && __shfl_sync(kAllLanes, *flag, 0) != kFound) return;
  bool bad = false;
  for (std::int64_t i = first_index(); i < packs; i += index_step()) {
    const auto pack = reinterpret_cast<const Pack<Word, kPack<Word>>*>(x)[i];
    CAPSTAN_UNROLL
    for (int k = 0; k < kPack<Word>; ++k) bad = reaches(pack.values[k], limit) || bad;
  }
  for (std::int64_t i = packs * kPack<Word> + first_index(); i < count; i += index_step())
    bad = reaches(x[i], limit) || bad;
  if (__any_sync(kAllLanes, bad ? 1 : 0) != 0 && threadIdx.x % kWarp == 0) atomicExch(flag, value);
}

__global__ void report_numbers_kernel(const unsigned* flag, Report report) {
  if (threadIdx.x == 0 && *flag == kFound) send(report, 0, 0);
}

/// `infinity`: the type's, as bits.
template <class Word>
void look_for(const TensorImpl& x, Word infinity, bool infinite, unsigned value, unsigned* flag) {
  const std::int64_t count = x.numel(), packs = aligned16(x.data) ? count / kPack<Word> : 0;
  LaunchShape shape = shape_for(count, kPack<Word>);
  if (value == kExcused && shape.blocks > kMostBlocks / 4)  // mostly there is nothing to do
    shape.blocks = static_cast<unsigned>(kMostBlocks / 4);
  const Word limit = infinite ? infinity : static_cast<Word>(infinity + 1);
  launch(look_kernel<Word>, shape, x.as<Word>(), count, packs, limit, value, flag);
}

void look(const TensorImpl& x, bool infinite, unsigned value, unsigned* flag) {
  switch (x.dtype) {
    case DType::float16: return look_for<std::uint16_t>(x, 0x7C00, infinite, value, flag);
    case DType::bfloat16: return look_for<std::uint16_t>(x, 0x7F80, infinite, value, flag);
    case DType::float32: return look_for<std::uint32_t>(x, 0x7F800000, infinite, value, flag);
    case DType::float64: return look_for<std::uint64_t>(x, 0x7FF0000000000000, infinite, value, flag);
    default: return;
  }
}

}  // namespace

void check_numbers(const TensorImpl& x, bool infinite, unsigned* flag) { look(x, infinite, kFound, flag); }
void confirm_numbers(const TensorImpl& input, bool infinite, unsigned* flag) { look(input, infinite, kExcused, flag); }

void report_numbers(const unsigned* flag, const Report& report) {
  launch(report_numbers_kernel, LaunchShape{1, kWarp}, flag, report);
}

}  // namespace capstan::on_cuda
