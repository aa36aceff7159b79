#pragma once
// The kernels of reductions, for any rule and any axes. A rule is a struct that kernels take by value:
//
//   Value                          what x holds
//   kRowPack, kColumnPack          elements that are loaded at once, see ReducePlan
//   State, start()                 what a thread gathers
//   take(state, values, places)    more values, an array; places(j) is where values[j] stands among what is reduced
//   Part, part(state)              what threads and blocks join: rule(part, part)
//   store(i, part)                 element i of the result
//
// Threads take values side by side, with several loads on their way at a time. What joins what depends on shapes and
// addresses alone, so results are the same in every run.
#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/groups.cuh"
#include "cuda/launch.cuh"
#include "cuda/reduce_plan.hpp"

namespace capstan::on_cuda {

/// Elements of neighbouring columns that a thread takes at once: a sum of each is in its registers.
template <class T>
inline constexpr int kColumnsOfThread = sizeof(T) < 4 ? 4 : kPack<T>;

/// Where values stand among those that are reduced: `Run` side by side, then `step` further on.
template <int Run>
struct ReducePlaces {
  std::int64_t first, step;
  __device__ std::int64_t operator()(int j) const { return first + j / Run * step + j % Run; }
};

/// Values i, i + step, ... below `end`.
template <class Rule>
__device__ inline void take_single(const Rule& rule, typename Rule::State& state, const typename Rule::Value* row,
                                   const AxisWalk& axes, std::int64_t i, std::int64_t end, std::int64_t step) {
  for (; i < end; i += step) {
    const typename Rule::Value one[] = {row[axes.offset(i)]};
    rule.take(state, one, ReducePlaces<1>{i, step});
  }
}
template <class Rule>
__device__ inline void take_values(const Rule& rule, typename Rule::State& state, const typename Rule::Value* row,
                                   const AxisWalk& axes, std::int64_t i, std::int64_t end, std::int64_t step) {
  constexpr int kLoads = 4;
  for (; i + (kLoads - 1) * step < end; i += kLoads * step) {
    typename Rule::Value values[kLoads];
    CAPSTAN_UNROLL
    for (int j = 0; j < kLoads; ++j) values[j] = row[axes.offset(i + j * step)];
    rule.take(state, values, ReducePlaces<1>{i, step});
  }
  take_single(rule, state, row, axes, i, end, step);
}

/// Packs i, i + step, ... below `end`, counted from value `head` on.
template <class Rule>
__device__ inline void take_packs(const Rule& rule, typename Rule::State& state, const typename Rule::Value* row,
                                  const AxisWalk& axes, std::int64_t head, std::int64_t i, std::int64_t end,
                                  std::int64_t step) {
  using T = typename Rule::Value;
  constexpr int V = Rule::kRowPack, kLoads = V >= 8 ? 2 : 4;
  for (; i + (kLoads - 1) * step < end; i += kLoads * step) {
    Pack<T, V> packs[kLoads];
    CAPSTAN_UNROLL
    for (int j = 0; j < kLoads; ++j) packs[j] = read_pack<V>(row + axes.offset(head + (i + j * step) * V));
    T values[kLoads * V];
    CAPSTAN_UNROLL
    for (int j = 0; j < kLoads * V; ++j) values[j] = packs[j / V].values[j % V];
    rule.take(state, values, ReducePlaces<V>{head + i * V, step * V});
  }
  for (; i < end; i += step) {
    const Pack<T, V> pack = read_pack<V>(row + axes.offset(head + i * V));
    rule.take(state, pack.values, ReducePlaces<V>{head + i * V, step * V});
  }
}

/// What one thread of a group gathers from a piece of a row.
template <class Rule>
__device__ inline typename Rule::Part part_of_row(const Rule& rule, const ReducePlan& plan,
                                                  const typename Rule::Value* row, std::int64_t piece, int lane) {
  const std::int64_t count = plan.reduced.count, begin = piece * plan.slice, reach = begin + plan.slice;
  typename Rule::State state = rule.start();
  if constexpr (Rule::kRowPack > 1) {
    if (plan.packed) {
      constexpr int V = Rule::kRowPack;
      const std::int64_t head = until_aligned(row, count), packs = (count - head) / V;
      if (piece == 0) take_single(rule, state, row, plan.reduced, lane, head, plan.lanes);
      take_packs(rule, state, row, plan.reduced, head, begin + lane, reach < packs ? reach : packs, plan.lanes);
      if (piece + 1 == plan.pieces)
        take_single(rule, state, row, plan.reduced, head + packs * V + lane, count, plan.lanes);
      return rule.part(state);
    }
  }
  take_values(rule, state, row, plan.reduced, begin + lane, reach < count ? reach : count, plan.lanes);
  return rule.part(state);
}

/// parts [outputs, pieces], or null if there is one piece only.
template <class Rule>
__global__ void __launch_bounds__(kThreads)
    reduce_rows_kernel(Rule rule, const __grid_constant__ ReducePlan plan, const typename Rule::Value* x,
                       typename Rule::Part* parts) {
  const int lane = static_cast<int>(threadIdx.x) % plan.lanes, group = static_cast<int>(threadIdx.x) / plan.lanes;
  const std::int64_t side = kRowThreads / plan.lanes, items = plan.kept.count * plan.pieces;
  for (std::int64_t base = blockIdx.x * side; base < items; base += gridDim.x * side) {
    const std::int64_t item = base + group;
    typename Rule::Part part = rule.part(rule.start());
    if (item < items) {
      const std::int64_t row = plan.pieces == 1 ? item : item / plan.pieces;
      part = part_of_row(rule, plan, x + plan.kept.offset(row), item - row * plan.pieces, lane);
    }
    part = group_reduce(part, plan.lanes, rule);
    if (lane != 0 || item >= items) continue;
    if (parts == nullptr) rule.store(item, part);
    else parts[item] = part;
  }
}

/// Rows i, i + step, ... below `end` of V neighbouring columns.
template <int V, class Rule>
__device__ inline void take_columns(const Rule& rule, typename Rule::State (&states)[V],
                                    const typename Rule::Value* from, const AxisWalk& axes, std::int64_t i,
                                    std::int64_t end, std::int64_t step) {
  using T = typename Rule::Value;
  constexpr int kLoads = 4;
  for (; i + (kLoads - 1) * step < end; i += kLoads * step) {
    Pack<T, V> packs[kLoads];
    CAPSTAN_UNROLL
    for (int j = 0; j < kLoads; ++j) packs[j] = read_pack<V>(from + axes.offset(i + j * step));
    CAPSTAN_UNROLL
    for (int v = 0; v < V; ++v) {
      T values[kLoads];
      CAPSTAN_UNROLL
      for (int j = 0; j < kLoads; ++j) values[j] = packs[j].values[v];
      rule.take(states[v], values, ReducePlaces<1>{i, step});
    }
  }
  for (; i < end; i += step) {
    const Pack<T, V> pack = read_pack<V>(from + axes.offset(i));
    CAPSTAN_UNROLL
    for (int v = 0; v < V; ++v) {
      const T one[] = {pack.values[v]};
      rule.take(states[v], one, ReducePlaces<1>{i, step});
    }
  }
}

/// A block takes `lanes` times V columns and some rows of them side by side.
template <class Rule, int V>
__global__ void __launch_bounds__(kThreads)
    reduce_columns_kernel(Rule rule, const __grid_constant__ ReducePlan plan, const typename Rule::Value* x,
                          typename Rule::Part* parts) {
  __shared__ typename Rule::Part gathered[V][kRowThreads];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % plan.lanes, first = thread / plan.lanes;
  const int side = kRowThreads / plan.lanes;
  const std::int64_t items = plan.kept.count * plan.tiles * plan.pieces;
  for (std::int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const std::int64_t tile = item / plan.pieces, piece = item - tile * plan.pieces, outer = tile / plan.tiles;
    const std::int64_t column = ((tile - outer * plan.tiles) * plan.lanes + lane) * V;
    const std::int64_t begin = piece * plan.slice, reach = begin + plan.slice, count = plan.reduced.count;
    typename Rule::State states[V];
    CAPSTAN_UNROLL
    for (int v = 0; v < V; ++v) states[v] = rule.start();
    if (column < plan.columns)
      take_columns<V>(rule, states, x + plan.kept.offset(outer) + column * plan.column_step, plan.reduced,
                      begin + first, reach < count ? reach : count, side);
    CAPSTAN_UNROLL
    for (int v = 0; v < V; ++v) gathered[v][thread] = rule.part(states[v]);
    for (int away = side / 2; away > 0; away /= 2) {
      __syncthreads();
      for (int v = 0; v < V && first < away; ++v)
        gathered[v][thread] = rule(gathered[v][thread], gathered[v][thread + away * plan.lanes]);
    }
    for (int v = 0; v < V && first == 0 && column < plan.columns; ++v) {
      const std::int64_t output = outer * plan.columns + column + v;
      if (parts == nullptr) rule.store(output, gathered[v][thread]);
      else parts[output * plan.pieces + piece] = gathered[v][thread];
    }
    __syncthreads();  // the next round writes there
  }
}

/// parts [outputs, pieces] -> results
template <class Rule>
__global__ void __launch_bounds__(kThreads) join_pieces_kernel(Rule rule, const typename Rule::Part* parts,
                                                               std::int64_t outputs, std::int64_t pieces, int lanes) {
  const int lane = static_cast<int>(threadIdx.x) % lanes, group = static_cast<int>(threadIdx.x) / lanes;
  const std::int64_t side = kRowThreads / lanes;
  for (std::int64_t base = blockIdx.x * side; base < outputs; base += gridDim.x * side) {
    const std::int64_t output = base + group;
    typename Rule::Part part = rule.part(rule.start());
    for (std::int64_t i = lane; i < pieces && output < outputs; i += lanes)
      part = rule(part, parts[output * pieces + i]);
    part = group_reduce(part, lanes, rule);
    if (lane == 0 && output < outputs) rule.store(output, part);
  }
}

template <class Part>
Tensor room_for_parts(std::int64_t count) {
  return workspace(count * static_cast<std::int64_t>(sizeof(Part)), DType::uint8);
}
template <class Rule>
void join_pieces(const Rule& rule, const typename Rule::Part* parts, std::int64_t outputs, std::int64_t pieces) {
  const int lanes = RowDeal(outputs, pieces, true).lanes;
  launch(join_pieces_kernel<Rule>, block_each(quotient_up(outputs, kRowThreads / lanes)), rule, parts, outputs, pieces,
         lanes);
}

/// Reduces the axes of x that have a bit in `mask`. The rule knows where the results go.
template <class Rule>
void reduce_by(const Rule& rule, const TensorImpl& x, unsigned mask) {
  using Part = typename Rule::Part;
  const ReducePlan plan(x, mask, Rule::kRowPack, Rule::kColumnPack);
  const auto* from = x.as<const typename Rule::Value>();
  Tensor room;
  Part* parts = nullptr;
  if (plan.pieces > 1) {
    room = room_for_parts<Part>(plan.outputs() * plan.pieces);
    parts = room.impl()->template as<Part>();
  }
  if (!plan.by_columns) {
    launch(reduce_rows_kernel<Rule>, plan.shape(), rule, plan, from, parts);
  } else if constexpr (Rule::kColumnPack > 0) {
    if (plan.packed) launch(reduce_columns_kernel<Rule, Rule::kColumnPack>, plan.shape(), rule, plan, from, parts);
    else launch(reduce_columns_kernel<Rule, 1>, plan.shape(), rule, plan, from, parts);
  }
  if (plan.pieces > 1) join_pieces(rule, parts, plan.outputs(), plan.pieces);
}

/// max and any, or min and all; see reduce_extremes.cu.
void reduce_extreme(bool largest, const TensorImpl& x, unsigned mask, TensorImpl& out);

}  // namespace capstan::on_cuda
