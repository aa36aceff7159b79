// Counting into bins. Numbers of elements are added up by atomic operations, whose order does not matter; weights are
// sorted by bin first and added up along the runs, so that their sums are the same each time.
#include <bit>

#include "cuda/device_wide.hpp"
#include "cuda/elements.cuh"
#include "cuda/scans.cuh"

namespace capstan::on_cuda {
namespace {

/// Bins between edges at equal distances: each holds its lower edge, the last one its upper edge too. -1 for none.
struct RealBins {
  const void* x;
  DType dtype;
  const double* edges;
  std::int64_t count;
  __device__ std::int64_t operator()(std::int64_t i) const {
    const double value = read_real(x, dtype, i), low = edges[0], high = edges[count];
    if (!(value >= low && value <= high)) return -1;
    const double guess = (value - low) * (static_cast<double>(count) / (high - low));
    std::int64_t bin = 0;
    if (guess > 0) bin = guess < static_cast<double>(count) ? static_cast<std::int64_t>(guess) : count - 1;
    while (bin > 0 && value < edges[bin]) --bin;  // the edges decide
    while (bin + 1 < count && value >= edges[bin + 1]) ++bin;
    return bin;
  }
};
struct GivenBins {
  const std::int64_t* x;
  std::int64_t count;
  __device__ std::int64_t operator()(std::int64_t i) const { return x[i] >= 0 && x[i] < count ? x[i] : -1; }
};

constexpr std::int64_t kSharedBins = 4096;

/// Few bins are counted in shared memory first.
template <class Bins>
__global__ void __launch_bounds__(kThreads) count_kernel(Bins bins, std::int64_t elements, unsigned long long* out) {
  __shared__ unsigned counts[kSharedBins];
  const bool few = bins.count <= kSharedBins;
  if (few)
    for (std::int64_t bin = threadIdx.x; bin < bins.count; bin += blockDim.x) counts[bin] = 0;
  __syncthreads();
  for (std::int64_t i = first_index(); i < elements; i += index_step()) {
    const std::int64_t bin = bins(i);
    if (bin < 0) continue;
    if (few) atomicAdd(&counts[bin], 1u);
    else atomicAdd(out + bin, 1ull);
  }
  __syncthreads();
  if (few)
    for (std::int64_t bin = threadIdx.x; bin < bins.count; bin += blockDim.x)
      if (counts[bin] != 0) atomicAdd(out + bin, static_cast<unsigned long long>(counts[bin]));
}

/// The bin of each element as a key; those in none come last.
template <class Bins>
__global__ void __launch_bounds__(kThreads)
    bin_keys_kernel(Bins bins, std::int64_t elements, std::uint64_t* keys, std::int64_t* places) {
  for (std::int64_t i = first_index(); i < elements; i += index_step()) {
    const std::int64_t bin = bins(i);
    keys[i] = static_cast<std::uint64_t>(bin < 0 ? bins.count : bin);
    places[i] = i;
  }
}

/// Sums that start anew where a bin begins.
struct BinSums {
  struct Item {
    double sum;
    std::int64_t begins;
  };
  using Total = Item;
  const std::uint64_t* keys;
  const std::int64_t* places;
  const double* weights;
  std::int64_t elements;
  std::uint64_t bins;
  double* out;
  __device__ Total none() const { return {0, 0}; }
  __device__ Item read(std::int64_t at, std::int64_t) const {
    return {weights[places[at]], at == 0 || keys[at] != keys[at - 1] ? 1 : 0};
  }
  __device__ Total extend(Total before, Item item) const { return join(before, item); }
  __device__ Total join(Total before, Total after) const {
    if (after.begins != 0) return after;
    return {before.sum + after.sum, before.begins};
  }
  __device__ void write(std::int64_t at, std::int64_t, Total total) const {
    const bool ends = at + 1 == elements || keys[at + 1] != keys[at];
    if (ends && keys[at] < bins) out[keys[at]] = total.sum;
  }
};

template <class Bins>
void weigh(const Bins& bins, std::int64_t elements, const double* weights, double* out) {
  const Tensor key_room = workspace(elements, DType::int64), sorted_key_room = workspace(elements, DType::int64);
  const Tensor place_room = workspace(elements, DType::int64), sorted_place_room = workspace(elements, DType::int64);
  auto *const keys = key_room.impl()->as<std::uint64_t>(), *const sorted = sorted_key_room.impl()->as<std::uint64_t>();
  auto* const places = place_room.impl()->as<std::int64_t>();
  auto* const sorted_places = sorted_place_room.impl()->as<std::int64_t>();
  const auto count = static_cast<std::uint64_t>(bins.count);
  launch(bin_keys_kernel<Bins>, shape_for(elements), bins, elements, keys, places);
  sort_pairs(keys, sorted, places, sorted_places, elements, static_cast<int>(std::bit_width(count)));
  run_scan(BinSums{sorted, sorted_places, weights, elements, count, out}, Lines(1, elements), false, false);
}

template <class Bins>
void count_or_weigh(const Bins& bins, std::int64_t elements, const TensorImpl* weights, TensorImpl& out) {
  fill(out, 0);
  if (elements == 0 || bins.count == 0) return;
  if (weights != nullptr) return weigh(bins, elements, weights->as<double>(), out.as<double>());
  launch(count_kernel<Bins>, shape_for(elements, 16), bins, elements, out.as<unsigned long long>());
}

}  // namespace

void histogram(const TensorImpl& x, const TensorImpl* weights, const TensorImpl& edges, TensorImpl& out) {
  count_or_weigh(RealBins{x.data, x.dtype, edges.as<double>(), out.numel()}, x.numel(), weights, out);
}

void bincount(const TensorImpl& x, const TensorImpl* weights, TensorImpl& out) {
  count_or_weigh(GivenBins{x.as<std::int64_t>(), out.numel()}, x.numel(), weights, out);
}

}  // namespace capstan::on_cuda
