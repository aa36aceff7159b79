#pragma once
// Running totals along rows, whatever a total is. Rows that are long and few are cut into parts: one pass finds the
// total of each part, one the total before each, and one runs from there. What joins what is fixed by the shape alone,
// so results are the same in every run; a part that one thread walks is added up in order.
//
// A Scan is a struct that kernels take by value:
//   Item, Total                               trivial; Total a multiple of 8 bytes
//   Total none() const                        of no items: joining it changes nothing
//   Item read(at, step) const                 the item of a row's step, which stands at element `at`
//   Total extend(Total before, Item) const    the total with one more
//   Total join(Total before, Total after) const
//   void write(at, step, Total) const
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cuda/blocks.cuh"
#include "cuda/launch.cuh"
#include "cuda/lines.hpp"

namespace capstan::on_cuda {

/// The value of the lane `away` below; its own where there is none.
template <class T>
__device__ inline T shuffle_up(T value, unsigned away) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 8 == 0);
  std::uint64_t words[sizeof(T) / 8];
  memcpy(words, &value, sizeof value);
  for (std::uint64_t& word : words) word = __shfl_up_sync(kAllLanes, word, away);
  memcpy(&value, words, sizeof value);
  return value;
}

/// Of a total for each thread of the block: those of the threads before this one, joined, and all of them. Every thread
/// takes part; the call waits for all of them.
template <int Threads, class Scan>
__device__ inline typename Scan::Total block_scan(const Scan& scan, typename Scan::Total own,
                                                  typename Scan::Total& all) {
  using Total = typename Scan::Total;
  constexpr unsigned kLanes = kWarp, kWarps = Threads / kWarp;
  __shared__ Total of_warps[kWarps];
  const unsigned lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes;
  Total sum = own;
  for (unsigned away = 1; away < kLanes; away *= 2) {
    const Total below = shuffle_up(sum, away);
    if (lane >= away) sum = scan.join(below, sum);
  }
  Total before = shuffle_up(sum, 1u);
  if (lane == 0) before = scan.none();
  __syncthreads();  // the array may still be read, by a call before this one
  if (lane == kLanes - 1) of_warps[warp] = sum;
  __syncthreads();
  Total front = scan.none();
  all = scan.none();
  for (unsigned w = 0; w < kWarps; ++w) {
    if (w == warp) front = all;
    all = scan.join(all, of_warps[w]);
  }
  return scan.join(front, before);
}

/// What every pass is told. Totals of parts stand as [parts, rows]; a pass has either those to start from, or those to
/// make and nothing else to write, or neither.
template <class Total>
struct ScanPass {
  Lines lines;
  std::int64_t parts, length;
  bool reverse, exclusive;
  const Total* starts;
  Total* totals;

  __device__ std::int64_t place(std::int64_t start, std::int64_t step) const {
    return start + (reverse ? lines.count - 1 - step : step) * lines.inner;
  }
};

/// One step on; the total is written with or without the item.
template <class Scan>
__device__ inline void scan_step(const Scan& scan, const ScanPass<typename Scan::Total>& pass, std::int64_t at,
                                 std::int64_t step, const typename Scan::Item& item, typename Scan::Total& running) {
  if (pass.totals != nullptr) {
    running = scan.extend(running, item);
  } else if (pass.exclusive) {
    const typename Scan::Total before = running;
    running = scan.extend(running, item);
    scan.write(at, step, before);
  } else {
    running = scan.extend(running, item);
    scan.write(at, step, running);
  }
}

/// A part by each thread; neighbouring threads walk neighbouring rows.
template <class Scan>
__global__ void __launch_bounds__(kThreads) scan_by_threads_kernel(Scan scan, ScanPass<typename Scan::Total> pass) {
  constexpr int kAhead = 4;  // items that are on their way at once
  const std::int64_t rows = pass.lines.rows, jobs = rows * pass.parts;
  for (std::int64_t job = first_index(); job < jobs; job += index_step()) {
    const std::int64_t start = pass.lines.start(job % rows), begin = job / rows * pass.length;
    const std::int64_t stop = begin + pass.length, end = stop < pass.lines.count ? stop : pass.lines.count;
    typename Scan::Total running = pass.starts != nullptr ? pass.starts[job] : scan.none();
    for (std::int64_t step = begin; step < end; step += kAhead) {
      typename Scan::Item items[kAhead] = {};
      for (int k = 0; k < kAhead; ++k)
        if (step + k < end) items[k] = scan.read(pass.place(start, step + k), step + k);
      for (int k = 0; k < kAhead; ++k)
        if (step + k < end) scan_step(scan, pass, pass.place(start, step + k), step + k, items[k], running);
    }
    if (pass.totals != nullptr) pass.totals[job] = running;
  }
}

/// A part by each block: every thread adds up a few neighbours, the block the threads' totals.
template <class Scan>
__global__ void __launch_bounds__(kThreads) scan_by_blocks_kernel(Scan scan, ScanPass<typename Scan::Total> pass) {
  using Total = typename Scan::Total;
  constexpr int kOwn = 4;
  const std::int64_t rows = pass.lines.rows, jobs = rows * pass.parts;
  for (std::int64_t job = blockIdx.x; job < jobs; job += gridDim.x) {
    const std::int64_t start = pass.lines.start(job % rows), begin = job / rows * pass.length;
    const std::int64_t stop = begin + pass.length, end = stop < pass.lines.count ? stop : pass.lines.count;
    Total carry = pass.starts != nullptr ? pass.starts[job] : scan.none();
    for (std::int64_t tile = begin; tile < end; tile += std::int64_t{kThreads} * kOwn) {
      const std::int64_t step = tile + std::int64_t{threadIdx.x} * kOwn;
      typename Scan::Item items[kOwn] = {};
      Total sum = scan.none(), all;
      for (int k = 0; k < kOwn; ++k)
        if (step + k < end) items[k] = scan.read(pass.place(start, step + k), step + k);
      for (int k = 0; k < kOwn; ++k)
        if (step + k < end) sum = scan.extend(sum, items[k]);
      Total running = scan.join(carry, block_scan<kThreads>(scan, sum, all));
      if (pass.totals == nullptr)
        for (int k = 0; k < kOwn; ++k)
          if (step + k < end) scan_step(scan, pass, pass.place(start, step + k), step + k, items[k], running);
      carry = scan.join(carry, all);
    }
    if (pass.totals != nullptr && threadIdx.x == 0) pass.totals[job] = carry;
  }
}

/// In the place of each part's total, that of all parts before it; a row by each block.
template <class Scan>
__global__ void __launch_bounds__(kThreads)
    scan_parts_kernel(Scan scan, std::int64_t rows, std::int64_t parts, typename Scan::Total* totals) {
  using Total = typename Scan::Total;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    Total carry = scan.none();
    for (std::int64_t first = 0; first < parts; first += kThreads) {
      const std::int64_t part = first + threadIdx.x;
      const Total own = part < parts ? totals[part * rows + row] : scan.none();
      Total all;
      const Total before = block_scan<kThreads>(scan, own, all);
      if (part < parts) totals[part * rows + row] = scan.join(carry, before);
      carry = scan.join(carry, all);
    }
  }
}

/// Runs a scan along every row.
template <class Scan>
void run_scan(const Scan& scan, const Lines& lines, bool exclusive, bool reverse) {
  using Total = typename Scan::Total;
  const Walking walking(lines);
  const std::int64_t jobs = lines.rows * walking.parts;
  const auto run = [&](const Total* starts, Total* totals) {
    const ScanPass<Total> pass{lines, walking.parts, walking.length, reverse, exclusive, starts, totals};
    if (walking.by_threads) launch(scan_by_threads_kernel<Scan>, shape_for(jobs, 1, 128), scan, pass);
    else launch(scan_by_blocks_kernel<Scan>, block_each(jobs), scan, pass);
  };
  if (walking.parts == 1) return run(nullptr, nullptr);
  const Tensor room = workspace(jobs * static_cast<std::int64_t>(sizeof(Total) / 8), DType::int64);
  auto* const totals = room.impl()->as<Total>();
  run(nullptr, totals);
  launch(scan_parts_kernel<Scan>, block_each(lines.rows), scan, lines.rows, walking.parts, totals);
  run(totals, nullptr);
}

}  // namespace capstan::on_cuda
