// Searching among sorted elements, and telling distinct ones apart.
#include <numeric>
#include <vector>

#include "cuda/backend.hpp"
#include "cuda/blocks.cuh"
#include "cuda/keys.hpp"
#include "cuda/launch.cuh"

namespace capstan::on_cuda {
namespace {

__global__ void __launch_bounds__(kThreads)
    searchsorted_kernel(const void* sorted, std::int64_t count, const void* x, std::int64_t in_row, ElementOrder order,
                        bool right, std::int64_t* out, std::int64_t values) {
  for (std::int64_t i = first_index(); i < values; i += index_step()) {
    const std::uint64_t key = order.key(read_bits(x, order.bytes, i));
    const std::int64_t start = i / in_row * count;
    std::int64_t place = 0, left = count;
    while (left > 0) {
      const std::int64_t half = left / 2;
      const std::uint64_t middle = order.key(read_bits(sorted, order.bytes, start + place + half));
      const bool before = right ? middle <= key : middle < key;
      place = before ? place + half + 1 : place;
      left = before ? left - half - 1 : half;
    }
    out[i] = place;
  }
}

/// Whether a new value begins at element i. Every NaN is a value of its own.
__device__ inline bool begins(const void* x, const ElementOrder& order, std::int64_t i) {
  if (i == 0) return true;
  const std::uint64_t bits = read_bits(x, order.bytes, i);
  return order.is_nan(bits) || order.key(bits) != order.key(read_bits(x, order.bytes, i - 1));
}

__global__ void __launch_bounds__(kThreads)
    count_runs_kernel(const void* x, ElementOrder order, std::int64_t count, std::int64_t* of_blocks) {
  std::int64_t own = 0;
  for (std::int64_t i = first_index(); i < count; i += index_step()) own += begins(x, order, i) ? 1 : 0;
  own = block_reduce<kThreads>(own, Add{});
  if (threadIdx.x == 0) of_blocks[blockIdx.x] = own;
}

__global__ void __launch_bounds__(kThreads)
    mark_runs_kernel(const void* x, ElementOrder order, std::int64_t count, std::int64_t* marks) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) marks[i] = begins(x, order, i) ? 1 : 0;
}

/// What `distinct` writes, of elements and of runs. All but x and values may be null.
struct Runs {
  const void* x;
  const std::int64_t *numbers, *order;  // of each element's run, from 1; the element's place before sorting
  std::int64_t elements, runs;
  void* values;
  std::int64_t *indices, *inverse, *starts, *counts;
  int bytes;
};

__global__ void __launch_bounds__(kThreads) store_runs_kernel(Runs to) {
  for (std::int64_t i = first_index(); i < to.elements; i += index_step()) {
    const std::int64_t run = to.numbers[i] - 1;
    if (run >= to.runs) continue;
    if (to.inverse != nullptr) to.inverse[to.order[i]] = run;
    if (i > 0 && to.numbers[i - 1] - 1 == run) continue;
    write_bits(to.values, to.bytes, run, read_bits(to.x, to.bytes, i));
    if (to.indices != nullptr) to.indices[run] = to.order[i];
    if (to.starts != nullptr) to.starts[run] = i;
  }
}
__global__ void __launch_bounds__(kThreads) store_lengths_kernel(Runs to) {
  for (std::int64_t run = first_index(); run < to.runs; run += index_step())
    to.counts[run] = (run + 1 < to.runs ? to.starts[run + 1] : to.elements) - to.starts[run];
}

std::int64_t* int64s_of(TensorImpl* x) { return x != nullptr ? x->as<std::int64_t>() : nullptr; }

}  // namespace

void searchsorted(const TensorImpl& sorted, const TensorImpl& values, bool right, TensorImpl& out) {
  if (out.numel() == 0) return;
  const std::int64_t count = sorted.shape[sorted.rank() - 1];
  const std::int64_t in_row = sorted.rank() == 1 ? values.numel() : values.shape[values.rank() - 1];
  launch(searchsorted_kernel, shape_for(out.numel()), sorted.data, count, values.data, in_row,
         ElementOrder(sorted.dtype), right, out.as<std::int64_t>(), out.numel());
}

std::int64_t count_distinct(const TensorImpl& sorted) {
  const std::int64_t count = sorted.numel();
  if (count == 0) return 0;
  const LaunchShape shape = shape_for(count, 16);
  const Tensor of_blocks = workspace(shape.blocks, DType::int64);
  auto* const from = of_blocks.impl()->as<std::int64_t>();
  launch(count_runs_kernel, shape, sorted.data, ElementOrder(sorted.dtype), count, from);
  std::vector<std::int64_t> counts(shape.blocks);
  read_back(from, counts.data(), counts.size() * sizeof counts[0]);
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

void distinct(const TensorImpl& sorted, const TensorImpl* order, TensorImpl& values, TensorImpl* indices,
              TensorImpl* inverse, TensorImpl* counts) {
  const std::int64_t elements = sorted.numel(), runs = values.numel();
  if (elements == 0) return;
  const Tensor marks = workspace(elements, DType::int64), numbers = workspace(elements, DType::int64);
  const LaunchShape shape = shape_for(elements);
  launch(mark_runs_kernel, shape, sorted.data, ElementOrder(sorted.dtype), elements, marks.impl()->as<std::int64_t>());
  cumulate(core::Cumulation::sum, *marks.impl(), 0, false, false, *numbers.impl());
  Tensor starts;
  if (counts != nullptr) starts = workspace(runs, DType::int64);
  const Runs to{sorted.data,
                numbers.impl()->as<std::int64_t>(),
                order != nullptr ? order->as<std::int64_t>() : nullptr,
                elements,
                runs,
                values.data,
                int64s_of(indices),
                int64s_of(inverse),
                int64s_of(starts.impl()),
                int64s_of(counts),
                static_cast<int>(size_of(sorted.dtype))};
  launch(store_runs_kernel, shape, to);
  if (counts != nullptr) launch(store_lengths_kernel, shape_for(runs), to);
}

}  // namespace capstan::on_cuda
