// Masks: one pass counts the true elements of each block, so that a second pass knows where each block's share goes.
#include <type_traits>

#include "cuda/blocks.cuh"
#include "cuda/launch.cuh"
#include "cuda/positions.cuh"

namespace capstan::on_cuda {
namespace {

using core::kMaskBlock;

constexpr int kShare = 32;  // elements of a thread: as many as a word has bits
static_assert(kMaskBlock == std::int64_t{kShare} * kThreads);

/// A mask [count] in blocks, and the number of true ones before each.
struct Mask {
  const bool* elements;
  std::int64_t count;
  bool packs;  // 16 bytes can be read at once
  const std::int64_t* before;

  std::int64_t blocks() const { return (count + kMaskBlock - 1) / kMaskBlock; }

  /// The elements from `begin` on as bits.
  __device__ unsigned share(std::int64_t begin) const {
    unsigned bits = 0;
    if (packs && begin + kShare <= count) {
      for (int half = 0; half < 2; ++half) {
        const auto bytes = *reinterpret_cast<const Pack<unsigned, 4>*>(elements + begin + 16 * half);
        // four bytes of 0 or 1 become four bits
        for (int word = 0; word < 4; ++word)
          bits |= ((bytes.values[word] * 0x10204080u) >> 28) << (16 * half + 4 * word);
      }
    } else {
      for (int i = 0; i < kShare && begin + i < count; ++i) bits |= elements[begin + i] ? 1u << i : 0u;
    }
    return bits;
  }
};

Mask mask_of(const TensorImpl& mask, const TensorImpl& before) {
  return {mask.as<const bool>(), mask.numel(), aligned16(mask.data), before.as<const std::int64_t>()};
}

/// The sum of what the threads before this one have, and that of all. Waits for the block before it writes what the
/// last call may still read.
template <class T>
__device__ T sum_before(T value, T& total) {
  constexpr int kWarps = static_cast<int>(kThreads) / kWarp;
  __shared__ T sums[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  T inclusive = value;
  for (int away = 1; away < kWarp; away *= 2) {
    const T other = __shfl_up_sync(kAllLanes, inclusive, static_cast<unsigned>(away));
    if (lane >= away) inclusive += other;
  }
  __syncthreads();
  if (lane == kWarp - 1) sums[warp] = inclusive;
  __syncthreads();
  T before = inclusive - value;
  total = 0;
  for (int i = 0; i < kWarps; ++i) {
    if (i < warp) before += sums[i];
    total += sums[i];
  }
  return before;
}

__global__ void __launch_bounds__(kThreads) count_true_kernel(Mask mask, std::int64_t blocks, std::int64_t* counts) {
  for (std::int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const std::int64_t begin = block * kMaskBlock + std::int64_t{kShare} * threadIdx.x;
    const int count = block_reduce<static_cast<int>(kThreads)>(__popc(mask.share(begin)), Add{});
    if (threadIdx.x == 0) counts[block] = count;
  }
}

/// One block of threads: counts become what stands before them; `total` gets all.
__global__ void __launch_bounds__(kThreads)
    running_counts_kernel(std::int64_t* counts, std::int64_t blocks, std::int64_t* total) {
  constexpr int kOwn = 8;
  std::int64_t before = 0;
  for (std::int64_t begin = 0; begin < blocks; begin += std::int64_t{kOwn} * kThreads) {
    const std::int64_t first = begin + std::int64_t{kOwn} * threadIdx.x;
    std::int64_t own[kOwn], sum = 0, all = 0;
    for (int i = 0; i < kOwn; ++i) {
      own[i] = first + i < blocks ? counts[first + i] : 0;
      sum += own[i];
    }
    std::int64_t running = before + sum_before(sum, all);
    for (int i = 0; i < kOwn; ++i) {
      if (first + i < blocks) counts[first + i] = running;
      running += own[i];
    }
    before += all;
  }
  if (threadIdx.x == 0) *total = before;
}

/// What is chosen: elements, of which those that are not are 0, or their numbers, -1.
template <class Word>
struct MaskedElements {
  using Value = Word;
  const Word* x;
  __device__ Word operator()(std::int64_t i) const { return x[i]; }
  __device__ Word none() const { return Word(0); }
};
struct Numbers {
  using Value = std::int64_t;
  __device__ std::int64_t operator()(std::int64_t i) const { return i; }
  __device__ std::int64_t none() const { return -1; }
};

/// source(i) for the true elements i, one after another. A block lists its own first, to write them in one piece.
template <class Source>
__global__ void __launch_bounds__(kThreads)
    pack_kernel(Mask mask, std::int64_t blocks, Source source, typename Source::Value* out) {
  __shared__ std::uint16_t list[kMaskBlock];
  for (std::int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const std::int64_t begin = block * kMaskBlock;
    const int first = kShare * static_cast<int>(threadIdx.x);
    unsigned bits = mask.share(begin + first);
    int count = 0, at = sum_before(__popc(bits), count);
    for (; bits != 0; bits &= bits - 1)
      list[at++] = static_cast<std::uint16_t>(first + __ffs(static_cast<int>(bits)) - 1);
    __syncthreads();
    typename Source::Value* const to = out + mask.before[block];
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(kThreads))
      to[i] = source(begin + list[i]);
  }
}

/// The reverse: what the source has next where the mask is true, else none.
template <class Source>
__global__ void __launch_bounds__(kThreads)
    unpack_kernel(Mask mask, std::int64_t blocks, Source source, typename Source::Value* out) {
  __shared__ unsigned shares[kThreads];
  __shared__ int starts[kThreads];
  for (std::int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const std::int64_t begin = block * kMaskBlock, left = mask.count - begin;
    const unsigned bits = mask.share(begin + std::int64_t{kShare} * threadIdx.x);
    int count = 0;
    const int start = sum_before(__popc(bits), count);  // waits until the last block's are used
    shares[threadIdx.x] = bits;
    starts[threadIdx.x] = start;
    __syncthreads();
    for (std::int64_t i = threadIdx.x; i < kMaskBlock && i < left; i += kThreads) {
      const unsigned share = shares[i / kShare], bit = 1u << (i % kShare);
      const int rank = starts[i / kShare] + __popc(share & (bit - 1));
      out[begin + i] = (share & bit) != 0 ? source(mask.before[block] + rank) : source.none();
    }
  }
}

template <class Source>
void pack(const Mask& mask, Source source, typename Source::Value* out) {
  launch(pack_kernel<Source>, block_each(mask.blocks()), mask, mask.blocks(), source, out);
}
template <class Source>
void unpack(const Mask& mask, Source source, typename Source::Value* out) {
  launch(unpack_kernel<Source>, block_each(mask.blocks()), mask, mask.blocks(), source, out);
}

/// Rows of x by number, 0 for -1.
void take_rows(const TensorImpl& x, const Tensor& numbers, std::int64_t row, TensorImpl& out) {
  const Where where = call().where;
  const std::int64_t count = numbers.impl()->numel();
  const Shape shape({count, row}, where);
  const std::int64_t of_x[] = {0, 1}, of_numbers[] = {1, 0}, of_out[] = {row, 1};
  const Tensor from = core::make_view(x, shape, of_x, 0, where);
  const Tensor at = core::make_view(*numbers.impl(), shape, of_numbers, 0, where);
  const Tensor to = core::make_view(out, shape, of_out, 0, where);
  take(*from.impl(), *at.impl(), {row, x.numel() / row, true}, *to.impl());
}

}  // namespace

std::int64_t count_true(const TensorImpl& mask, TensorImpl& before) {
  if (mask.numel() == 0) return 0;
  const Mask all = mask_of(mask, before);
  const Tensor total = workspace(1, DType::int64);
  std::int64_t* const counts = before.as<std::int64_t>();
  launch(count_true_kernel, block_each(all.blocks()), all, all.blocks(), counts);
  launch(running_counts_kernel, LaunchShape{1, kThreads}, counts, all.blocks(), total.impl()->as<std::int64_t>());
  return read_back(total.impl()->as<const std::int64_t>());
}

void true_positions(const TensorImpl& mask, const TensorImpl& before, TensorImpl& out) {
  if (out.numel() == 0) return;
  pack(mask_of(mask, before), Numbers{}, out.as<std::int64_t>());
}

void compress(const TensorImpl& x, const TensorImpl& mask, const TensorImpl& before, TensorImpl& out) {
  if (out.numel() == 0) return;
  const std::int64_t row = x.numel() / mask.numel();
  if (row == 1) {
    visit_unsigned(size_of(x.dtype), [&]<class Word>(core::Type<Word>) {
      pack(mask_of(mask, before), MaskedElements<Word>{x.as<const Word>()}, out.as<Word>());
    });
    return;
  }
  const Tensor numbers = workspace(out.numel() / row, DType::int64);
  pack(mask_of(mask, before), Numbers{}, numbers.impl()->as<std::int64_t>());
  take_rows(x, numbers, row, out);
}

void expand(const TensorImpl& values, const TensorImpl& mask, const TensorImpl& before, TensorImpl& out) {
  if (out.numel() == 0) return;
  const std::int64_t row = out.numel() / mask.numel();
  if (row == 1) {
    visit_unsigned(size_of(out.dtype), [&]<class Word>(core::Type<Word>) {
      unpack(mask_of(mask, before), MaskedElements<Word>{values.as<const Word>()}, out.as<Word>());
    });
    return;
  }
  const Tensor numbers = workspace(mask.numel(), DType::int64);
  unpack(mask_of(mask, before), Numbers{}, numbers.impl()->as<std::int64_t>());
  take_rows(values, numbers, row, out);
}

// --- places of flat positions ---

namespace {

struct Sizes {
  int rank;
  std::int64_t size[kMaxRank];
};

__global__ void unravel_kernel(const std::int64_t* flat, std::int64_t count, Sizes sizes, std::int64_t row,
                               std::int64_t column, std::int64_t* out) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    std::int64_t left = flat[i];
    for (int axis = sizes.rank - 1; axis >= 0; --axis) {
      const std::int64_t next = axis > 0 ? left / sizes.size[axis] : 0;
      out[i * row + axis * column] = left - next * sizes.size[axis];
      left = next;
    }
  }
}

}  // namespace

void unravel(const TensorImpl& flat, const Shape& shape, TensorImpl& out) {
  if (shape.rank() == 0) return;
  Sizes sizes{shape.rank(), {}};
  for (int axis = 0; axis < shape.rank(); ++axis) sizes.size[axis] = shape[axis];
  launch(unravel_kernel, shape_for(flat.numel()), flat.as<const std::int64_t>(), flat.numel(), sizes, out.strides[0],
         out.strides[1], out.as<std::int64_t>());
}

}  // namespace capstan::on_cuda
