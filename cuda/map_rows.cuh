#pragma once
// Kernels that go once through contiguous rows and know something of each. A map is a struct that they take by value:
//
//   Value                             what the rows hold
//   Row row(i)                        what threads know of row i; `base` is where it begins
//   load<N>(row, column)              N neighbours of each operand
//   take<N>(row, loaded, column)      what becomes of them
//   close(row, item, real, lane, lanes)   when the group is done with its piece, number `item`; all threads come here,
//                                     those without a piece not `real`
#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/groups.cuh"
#include "cuda/launch.cuh"

namespace capstan::on_cuda {

/// Whether addresses are alike, so that rows can be read in packs at the same places.
template <class... Pointers>
bool lie_alike(const void* first, const Pointers*... others) {
  const auto past = [](const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16; };
  return ((past(others) == past(first)) && ...);
}

/// Units of N elements i, i + step, ... below `end`, counted from column `head` on.
template <int N, class Map>
__device__ inline void map_units(const Map& map, typename Map::Row& row, std::int64_t head, std::int64_t i,
                                 std::int64_t end, std::int64_t step) {
  for (; i + step < end; i += 2 * step) {
    const auto one = map.template load<N>(row, head + i * N), two = map.template load<N>(row, head + (i + step) * N);
    map.template take<N>(row, one, head + i * N);
    map.template take<N>(row, two, head + (i + step) * N);
  }
  if (i < end) map.template take<N>(row, map.template load<N>(row, head + i * N), head + i * N);
}

template <class Map>
__device__ inline void map_piece(const Map& map, const MapPlan& plan, typename Map::Row& row, std::int64_t piece,
                                 int lane) {
  constexpr int V = kPack<typename Map::Value>;
  const int lanes = plan.deal.lanes;
  const std::int64_t columns = plan.columns, begin = piece * plan.deal.slice, reach = begin + plan.deal.slice;
  if (!plan.packed) return map_units<1>(map, row, 0, begin + lane, reach < columns ? reach : columns, lanes);
  const std::int64_t head = until_aligned(row.base, columns), packs = (columns - head) / V;
  if (piece == 0) map_units<1>(map, row, 0, lane, head, lanes);
  map_units<V>(map, row, head, begin + lane, reach < packs ? reach : packs, lanes);
  if (piece + 1 == plan.deal.pieces) map_units<1>(map, row, head + packs * V, lane, columns - head - packs * V, lanes);
}

template <class Map>
__global__ void __launch_bounds__(kThreads) map_rows_kernel(Map map, MapPlan plan) {
  const int lanes = plan.deal.lanes;
  const int lane = static_cast<int>(threadIdx.x) % lanes, group = static_cast<int>(threadIdx.x) / lanes;
  const std::int64_t side = kRowThreads / lanes, pieces = plan.deal.pieces, items = plan.rows * pieces;
  for (std::int64_t base = blockIdx.x * side; base < items; base += gridDim.x * side) {
    const std::int64_t item = base + group;
    const bool real = item < items;
    const std::int64_t index = !real ? 0 : pieces == 1 ? item : item / pieces;
    typename Map::Row row = map.row(index);
    if (real) map_piece(map, plan, row, item - index * pieces, lane);
    map.close(row, item, real, lane, lanes);
  }
}

template <class Map>
void map_rows(const Map& map, const MapPlan& plan) {
  launch(map_rows_kernel<Map>, plan.shape(), map, plan);
}

}  // namespace capstan::on_cuda
