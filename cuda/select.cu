// The k best elements along an axis. For small k a block finds the k-th key of its row digit by digit, from the highest
// on (a radix sort that follows one digit only), and sorts what is not behind it; long rows that are few are cut into
// parts first, whose best then compete. For large k, and short rows, the rows are sorted.
#include <bit>

#include "cuda/scans.cuh"
#include "cuda/sorting.cuh"
#include "cuda/sorting.hpp"

namespace capstan::on_cuda {
namespace {

constexpr int kMostChosen = 1024;
constexpr int kWarps = kThreads / kWarp, kDigits = 256;
static_assert(kDigits == kThreads);  // a thread for each
// Fewer rows than these leave most of a GPU idle: they are cut if they are long, and sorted if k is too large for that.
constexpr std::int64_t kFewRows = 132, kLongRow = 1 << 15, kMostCutChosen = 128, kCandidates = 1 << 15;
constexpr std::int64_t kMostInPart = std::int64_t{1} << 30;

/// Each part of each row of x [rows, count] gets its k best. Results are shaped [jobs / inner, k, inner], where jobs is
/// the number of parts of all rows.
struct SelectTask {
  const void* x;
  const std::int64_t* named;  // the indices that x's places stand for; null for the places themselves
  std::int64_t rows, count, parts;
  ElementOrder order;
  std::uint64_t flip;
  int k;
  std::int64_t inner;
  void* values;
  std::int64_t* indices;

  __device__ std::uint64_t key(std::int64_t at) const { return order.key(read_bits(x, order.bytes, at)) ^ flip; }
};

struct Counts {
  using Total = std::uint64_t;
  __device__ Total none() const { return 0; }
  __device__ Total join(Total before, Total after) const { return before + after; }
};

/// The keys that are chosen begin with less than `prefix`, and `ties` of them with it. All of them if `all`.
struct Threshold {
  std::uint64_t prefix, mask;
  int ties;
  bool all;
};

/// Adds up how often each digit follows the prefix among the keys from `begin` to `end`.
__device__ inline void count_digits(const SelectTask& task, std::int64_t begin, std::int64_t end,
                                    const Threshold& found, int shift, unsigned (&counts)[kWarps][kDigits]) {
  constexpr int kAhead = 4;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int w = 0; w < kWarps; ++w) counts[w][threadIdx.x] = 0;
  __syncthreads();
  for (std::int64_t i = begin + threadIdx.x; i < end; i += std::int64_t{kThreads} * kAhead) {
    std::uint64_t keys[kAhead] = {};
    for (int n = 0; n < kAhead; ++n)
      if (i + std::int64_t{kThreads} * n < end) keys[n] = task.key(i + std::int64_t{kThreads} * n);
    for (int n = 0; n < kAhead; ++n)
      if (i + std::int64_t{kThreads} * n < end && (keys[n] & found.mask) == found.prefix)
        atomicAdd(&counts[warp][(keys[n] >> shift) & (kDigits - 1)], 1u);
  }
  __syncthreads();
}

/// The same in every thread.
__device__ inline Threshold find_threshold(const SelectTask& task, std::int64_t begin, std::int64_t end) {
  __shared__ unsigned counts[kWarps][kDigits];
  __shared__ unsigned chosen_digit, chosen_count;
  __shared__ int ties_left;
  Threshold found{0, 0, task.k, end - begin == task.k};
  for (int shift = 8 * task.order.bytes - 8; shift >= 0 && !found.all; shift -= 8) {
    count_digits(task, begin, end, found, shift, counts);
    std::uint64_t own = 0, all;
    for (int w = 0; w < kWarps; ++w) own += counts[w][threadIdx.x];
    const std::uint64_t before = block_scan<kThreads>(Counts{}, own, all),
                        wanted = static_cast<std::uint64_t>(found.ties);
    if (before < wanted && wanted <= before + own) {  // of one thread
      chosen_digit = threadIdx.x;
      chosen_count = static_cast<unsigned>(own);
      ties_left = static_cast<int>(wanted - before);
    }
    __syncthreads();
    found.prefix |= std::uint64_t{chosen_digit} << shift;
    found.mask |= std::uint64_t{kDigits - 1} << shift;
    found.ties = ties_left;
    found.all = chosen_count == static_cast<unsigned>(ties_left);
  }
  return found;
}

/// Puts what is below the threshold anywhere into `entries`, and with `all` what is at it too.
__device__ inline void take_clear_ones(const SelectTask& task, std::int64_t begin, std::int64_t end,
                                       const Threshold& found, LongEntry* entries) {
  __shared__ unsigned taken;
  if (threadIdx.x == 0) taken = 0;
  __syncthreads();
  for (std::int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const std::uint64_t key = task.key(i), start = key & found.mask;
    if (start < found.prefix || (found.all && start == found.prefix))
      entries[atomicAdd(&taken, 1u)] = LongEntry::make(key, static_cast<std::uint32_t>(i - begin));
  }
}

/// Puts the first ones at the threshold behind them.
__device__ inline void take_ties(const SelectTask& task, std::int64_t begin, std::int64_t end, const Threshold& found,
                                 LongEntry* entries) {
  __shared__ int of_warps[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  int seen = 0;  // the same in every thread
  for (std::int64_t first = begin; first < end && seen < found.ties; first += kThreads) {
    const std::int64_t i = first + threadIdx.x;
    const std::uint64_t key = i < end ? task.key(i) : 0;
    const bool tie = i < end && (key & found.mask) == found.prefix;
    const unsigned votes = __ballot_sync(kAllLanes, tie);
    if (lane == 0) of_warps[warp] = __popc(votes);
    __syncthreads();
    int place = seen + __popc(votes & ((1u << lane) - 1u));
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp) place += of_warps[w];
      seen += of_warps[w];
    }
    if (tie && place < found.ties)
      entries[task.k - found.ties + place] = LongEntry::make(key, static_cast<std::uint32_t>(i - begin));
    __syncthreads();
  }
}

__global__ void __launch_bounds__(kThreads) select_kernel(SelectTask task, int run) {
  __shared__ LongEntry entries[kMostChosen];
  for (std::int64_t job = blockIdx.x; job < task.rows * task.parts; job += gridDim.x) {
    const std::int64_t row = job / task.parts, part = job - row * task.parts;
    const std::int64_t begin = row * task.count + task.count * part / task.parts;
    const std::int64_t end = row * task.count + task.count * (part + 1) / task.parts;
    const Threshold found = find_threshold(task, begin, end);
    take_clear_ones(task, begin, end, found, entries);
    if (!found.all) take_ties(task, begin, end, found, entries);
    for (int e = task.k + static_cast<int>(threadIdx.x); e < run; e += static_cast<int>(kThreads))
      entries[e] = LongEntry::last();
    __syncthreads();
    sort_runs(entries, run, run);
    const std::int64_t start = Lines::start_of(job, task.k, task.inner);
    for (int e = static_cast<int>(threadIdx.x); e < task.k; e += static_cast<int>(kThreads)) {
      const std::int64_t at = begin + entries[e].place(), to = start + e * task.inner;
      task.indices[to] = task.named != nullptr ? task.named[at] : at - row * task.count;
      write_bits(task.values, task.order.bytes, to, read_bits(task.x, task.order.bytes, at));
    }
    __syncthreads();
  }
}

void select_rows(const SelectTask& task) {
  const auto run = static_cast<int>(std::bit_ceil(static_cast<unsigned>(task.k)));
  launch(select_kernel, block_each(task.rows * task.parts), task, run);
}

/// The best of each part, and then of those. Parts in the order of the row, and in each of them equal ones in theirs:
/// the first of equal ones still wins.
void select_in_parts(SelectTask task, DType dtype) {
  const std::int64_t candidates = task.parts * task.k;
  const Tensor values = workspace(task.rows * candidates, dtype);
  const Tensor indices = workspace(task.rows * candidates, DType::int64);
  SelectTask first = task;
  first.inner = 1;
  first.values = values.impl()->data;
  first.indices = indices.impl()->as<std::int64_t>();
  select_rows(first);
  task.x = first.values;
  task.named = first.indices;
  task.count = candidates;
  task.parts = 1;
  select_rows(task);
}

/// Into how many parts rows are cut; 0 if they are better sorted.
std::int64_t parts_for(std::int64_t rows, std::int64_t count, std::int64_t k) {
  if (count <= kTile || k > kMostChosen || k > count / 4) return 0;
  if ((rows >= kFewRows || count <= kLongRow) && count <= kMostInPart) return 1;
  if (k > kMostCutChosen) return 0;
  const std::int64_t wanted = std::min(2 * kFewRows / rows + 1, kCandidates / k);
  return std::max(wanted, count / kMostInPart + 1);
}

}  // namespace

// Always in order: that costs next to nothing.
void topk(const TensorImpl& x, int axis, bool largest, bool, TensorImpl& values, TensorImpl& indices) {
  if (values.numel() == 0) return;
  const Lines lines(x.shape, axis);
  const ElementOrder order(x.dtype);
  const std::uint64_t flip = largest ? order.last : 0;
  const std::int64_t k = values.shape[axis], parts = parts_for(lines.rows, lines.count, k);
  auto* const to = indices.as<std::int64_t>();
  if (parts == 0) {
    const Tensor dense = packed(x);
    return sort_rows({dense.impl()->data, lines, order, flip, k, values.data, to});
  }
  const Tensor rows = packed(axis_last(x, axis));
  const SelectTask task{rows.impl()->data,   nullptr,     lines.rows,  lines.count, parts, order, flip,
                        static_cast<int>(k), lines.inner, values.data, to};
  if (parts == 1) select_rows(task);
  else select_in_parts(task, x.dtype);
}

}  // namespace capstan::on_cuda
