#pragma once
// Elementwise kernels: one text for every rule that makes an element of the result from those at its place in some
// operands. Threads move 16 bytes at a time where neighbours lie side by side, else one element after the other.
#include <cstddef>
#include <cstdint>
#include <utility>

#include "cuda/launch.cuh"
#include "cuda/route.hpp"
#include "cuda/unroll.hpp"
#include "cuda/values.cuh"

namespace capstan::on_cuda {

// A rule is a struct with
//   Numbers   the type of what all elements share, NoNumbers if there is nothing
//   kLong     whether its code is so long that kernels hold it once, not once for each element of a pack
//   apply     __device__ static Out apply(const Numbers&, In...)
struct NoNumbers {};

template <class... In>
inline constexpr int kOperands = 1 + static_cast<int>(sizeof...(In));

template <class... T>
constexpr int largest_size() {
  int largest = 1;
  ((largest = static_cast<int>(sizeof(T)) > largest ? static_cast<int>(sizeof(T)) : largest), ...);
  return largest;
}
/// The elements that a thread takes together.
template <class Rule, class... T>
inline constexpr int kMapWidth = Rule::kLong                 ? 1
                                 : largest_size<T...>() == 1 ? 8
                                                             : 16 / largest_size<T...>();

/// Where the elements of these numbers lie: Places::find for W numbers side by side.
template <int W, int N>
__device__ inline void map_find(const Places<std::int32_t, N>& places, std::int32_t (&number)[W],
                                std::int32_t (&at)[W][N]) {
  CAPSTAN_UNROLL
  for (int k = 0; k < W; ++k) {
    CAPSTAN_UNROLL
    for (int n = 0; n < N; ++n) at[k][n] = 0;
  }
  for (int axis = places.rank - 1; axis > 0; --axis) {
    CAPSTAN_UNROLL
    for (int k = 0; k < W; ++k) {
      const std::int32_t next = places.by[axis].quotient(number[k]), own = number[k] - next * places.sizes[axis];
      CAPSTAN_UNROLL
      for (int n = 0; n < N; ++n) at[k][n] += own * places.strides[n][axis];
      number[k] = next;
    }
  }
  CAPSTAN_UNROLL
  for (int k = 0; k < W; ++k) {
    CAPSTAN_UNROLL
    for (int n = 0; n < N; ++n) at[k][n] += number[k] * places.strides[n][0];
  }
}

/// Elements of operand n, which are a pack, or one value, if `whole`.
template <int W, int N, class T>
__device__ inline Pack<T, W> map_read(const T* from, const std::int32_t (&at)[W][N], int n, bool whole, bool still) {
  if (whole && !still) return *reinterpret_cast<const Pack<T, W>*>(from + at[0][n]);
  Pack<T, W> result;
  if (whole) {
    const T one = from[at[0][n]];
    CAPSTAN_UNROLL
    for (int k = 0; k < W; ++k) result.values[k] = one;
  } else {
    CAPSTAN_UNROLL
    for (int k = 0; k < W; ++k) result.values[k] = from[at[k][n]];
  }
  return result;
}

template <class Rule, int W, class Out, class... In>
__device__ inline Pack<Out, W> map_apply(const typename Rule::Numbers& numbers, const Pack<In, W>&... in) {
  Pack<Out, W> result;
  CAPSTAN_UNROLL
  for (int k = 0; k < W; ++k) result.values[k] = Rule::apply(numbers, in.values[k]...);
  return result;
}

/// The thread's W elements from number `first` on. The rule stands here alone, so that an element gets the same bits
/// wherever it is.
template <class Rule, int W, std::size_t... N, class Out, class... In>
__device__ inline void map_some(const Route<kOperands<In...>>& route, const typename Rule::Numbers& numbers,
                                std::int64_t first, std::index_sequence<N...>, Out* out, const In*... in) {
  const bool whole = route.packed && first + W <= route.count;
  const std::int64_t step = route.packed ? 1 : std::int64_t{blockDim.x};
  std::int32_t at[W][kOperands<In...>];
  if (whole) {
    route.places.find(static_cast<std::int32_t>(first), at[0]);
    CAPSTAN_UNROLL
    for (int k = 1; k < W; ++k) {
      CAPSTAN_UNROLL
      for (int n = 0; n < kOperands<In...>; ++n) at[k][n] = at[0][n];
    }
  } else {
    std::int32_t number[W];
    CAPSTAN_UNROLL
    for (int k = 0; k < W; ++k)  // the first one once more, if there are no others
      number[k] = static_cast<std::int32_t>(first + k * step < route.count ? first + k * step : first);
    map_find(route.places, number, at);
  }
  const Pack<Out, W> result =
      map_apply<Rule, W, Out>(numbers, map_read<W>(in, at, static_cast<int>(N) + 1, whole, route.still[N + 1])...);
  if (whole) {
    *reinterpret_cast<Pack<Out, W>*>(out + at[0][0]) = result;
    return;
  }
  CAPSTAN_UNROLL
  for (int k = 0; k < W; ++k)
    if (first + k * step < route.count) out[at[k][0]] = result.values[k];
}

/// In place if operands are: a thread reads its elements before it writes them, and no others.
template <class Rule, class Out, class... In>
__global__ void map_kernel(Route<kOperands<In...>> route, typename Rule::Numbers numbers, Out* out, const In*... in) {
  constexpr int kW = kMapWidth<Rule, Out, In...>;
  const std::int64_t piece = std::int64_t{blockDim.x} * kW;
  const std::int64_t own = std::int64_t{threadIdx.x} * (route.packed ? kW : 1);
  for (std::int64_t begin = blockIdx.x * piece; begin < route.count; begin += gridDim.x * piece)
    if (begin + own < route.count)
      map_some<Rule, kW>(route, numbers, begin + own, std::index_sequence_for<In...>{}, out, in...);
}

/// A rule's kernel for some element types. Tables of rows have one type for all rules of a kind.
template <class Numbers, class Out, class... In>
struct MapRow {
  static constexpr int kCount = kOperands<In...>;
  using Operands = const TensorImpl* const (&)[kCount];

  void (*kernel)(Route<kCount>, Numbers, Out*, const In*...) = nullptr;
  int width = 1;

  /// operands: what is written, whose shape counts, then what is read and broadcasts to it. Any strides.
  void run(const Numbers& numbers, Operands operands) const {
    in_small_parts(Walk<kCount>(operands[0]->shape, operands),
                   [&](const Walk<kCount>& part, const std::int64_t(&begin)[kCount]) {
                     run_part(numbers, operands, part, begin);
                   });
  }
  /// Only a part of them, as in_small_parts makes it.
  void run_part(const Numbers& numbers, Operands operands, const Walk<kCount>& part,
                const std::int64_t (&begin)[kCount]) const {
    start(numbers, operands, part, begin, std::index_sequence_for<In...>{});
  }

 private:
  template <std::size_t... N>
  void start(const Numbers& numbers, Operands operands, const Walk<kCount>& part, const std::int64_t (&begin)[kCount],
             std::index_sequence<N...>) const {
    Out* const out = operands[0]->template as<Out>() + begin[0];
    const std::byte* const data[] = {
        reinterpret_cast<const std::byte*>(out),
        reinterpret_cast<const std::byte*>(operands[N + 1]->template as<const In>() + begin[N + 1])...};
    const std::int64_t bytes[] = {static_cast<std::int64_t>(sizeof(Out)), static_cast<std::int64_t>(sizeof(In))...};
    launch(kernel, shape_for(part.count, width), Route<kCount>(part, data, bytes, width), numbers, out,
           reinterpret_cast<const In*>(data[N + 1])...);
  }
};

template <class Rule, class Out, class... In>
MapRow<typename Rule::Numbers, Out, In...> row_of() {
  return {&map_kernel<Rule, Out, In...>, kMapWidth<Rule, Out, In...>};
}

}  // namespace capstan::on_cuda
