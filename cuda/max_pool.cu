// Max pooling: a thread for each result, or several where windows are large.
#include <type_traits>

#include "cuda/backend.hpp"
#include "cuda/blocks.cuh"
#include "cuda/launch.cuh"
#include "cuda/pool_plan.hpp"
#include "cuda/values.cuh"

namespace capstan::on_cuda {
namespace {

template <class T>
__device__ __forceinline__ bool beats(T x, T best) {
  if constexpr (std::is_floating_point_v<T>) return best == best && !(x <= best);  // the first NaN stays
  else return x > best;
}

/// Where it is written which input won: as a place in the plane, as one of the window's in a byte, or nowhere.
struct PlaceTarget {
  void* data = nullptr;
  int bytes = 0;

  template <class I>
  __device__ void write(std::int64_t i, I place, I tap) const {
    if (bytes == 1) static_cast<std::uint8_t*>(data)[i] = static_cast<std::uint8_t>(tap);
    else if (bytes == 4) static_cast<std::int32_t*>(data)[i] = static_cast<std::int32_t>(place);
    else if (bytes == 8) static_cast<std::int64_t*>(data)[i] = place;
  }
};
PlaceTarget from_result(const PlaceTarget& target, std::int64_t first) {
  return {static_cast<std::byte*>(target.data) + first * target.bytes, target.bytes};
}

// --- a thread for each result ---

template <class C, class I>
struct Winner {
  C value;
  I place, tap;
};

template <class T, class I>
__device__ __forceinline__ Winner<Compute<T>, I> winner_of(const PoolPlan<I>& p, const T* plane,
                                                           const PoolSpot<I>& at) {
  const PoolRange<I> depth = p.d.window(at.d), rows = p.h.window(at.h), columns = p.w.window(at.w);
  const I first = p.in_at(depth.begin, rows.begin, columns.begin);
  Winner<Compute<T>, I> best{widen(plane[first]), first,
                             (depth.tap * p.h.kernel + rows.tap) * p.w.kernel + columns.tap};
  I d_tap = depth.tap;
  for (I i = depth.begin; i < depth.end; i += p.d.dilation, ++d_tap) {
    I h_tap = rows.tap;
    for (I j = rows.begin; j < rows.end; j += p.h.dilation, ++h_tap) {
      I tap = (d_tap * p.h.kernel + h_tap) * p.w.kernel + columns.tap;
      for (I k = columns.begin; k < columns.end; k += p.w.dilation, ++tap) {
        const I place = p.in_at(i, j, k);
        const Compute<T> value = widen(plane[place]);
        if (beats(value, best.value)) best = {value, place, tap};
      }
    }
  }
  return best;
}

template <class T, class I>
__global__ void __launch_bounds__(kThreads)
    max_pool_kernel(PoolPlan<I> plan, std::int64_t count, const T* __restrict__ x, T* __restrict__ out,
                    PlaceTarget places) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    const PoolSpot<I> at = plan.results.find(static_cast<I>(i));
    const Winner<Compute<T>, I> best = winner_of(plan, x + std::int64_t{at.plane} * plan.in_plane, at);
    out[i] = narrow<T>(best.value);
    places.write(i, best.place, best.tap);
  }
}

// --- several threads for each result ---

/// What threads exchange has 4 or 8 bytes.
template <class T>
using Exchanged = std::conditional_t<core::kIsReal<T>, Compute<T>, std::int64_t>;

template <class C, class I>
struct Candidate {
  C value;
  I place;  // -1: none
};
template <class C, class I>
__device__ __forceinline__ Candidate<C, I> better(const Candidate<C, I>& a, const Candidate<C, I>& b) {
  if (a.place < 0) return b;
  if (b.place < 0) return a;
  const bool in_order = a.place < b.place;
  const Candidate<C, I> early = in_order ? a : b, late = in_order ? b : a;
  return beats(late.value, early.value) ? late : early;
}
template <class C, class I>
__device__ __forceinline__ Candidate<C, I> best_of_warp(Candidate<C, I> own) {
  for (int away = kWarp / 2; away > 0; away /= 2) {
    const C value = __shfl_xor_sync(kAllLanes, own.value, away);
    const I place = __shfl_xor_sync(kAllLanes, own.place, away);
    own = better(own, Candidate<C, I>{value, place});
  }
  return own;
}
/// Of all threads of the block, in every thread.
template <int Threads, class C, class I>
__device__ __forceinline__ Candidate<C, I> best_of_block(Candidate<C, I> own) {
  own = best_of_warp(own);
  if constexpr (Threads > kWarp) {
    __shared__ Candidate<C, I> of_warp[Threads / kWarp];
    __syncthreads();  // the array may still be read, for the result before
    if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = own;
    __syncthreads();
    for (int i = 0; i < Threads / kWarp; ++i) own = better(own, of_warp[i]);
  }
  return own;
}

template <class I>
__device__ inline I tap_in_window(const PoolPlan<I>& p, const PoolSpot<I>& at, I place) {
  const I line = place / p.w.in, depth = line / p.h.in;
  const I d = p.d.tap_of(at.d, depth), h = p.h.tap_of(at.h, line - depth * p.h.in);
  return (d * p.h.kernel + h) * p.w.kernel + p.w.tap_of(at.w, place - line * p.w.in);
}

template <class T, class I, int Threads>
__global__ void __launch_bounds__(Threads)
    wide_max_pool_kernel(PoolPlan<I> plan, std::int64_t count, const T* __restrict__ x, T* __restrict__ out,
                         PlaceTarget places) {
  using C = Exchanged<T>;
  for (std::int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    const PoolSpot<I> at = plan.results.find(static_cast<I>(i));
    const PoolWindow<I> window(plan, at);
    const T* const plane = x + std::int64_t{at.plane} * plan.in_plane;
    Candidate<C, I> best{C(0), -1};
    for (I n = static_cast<I>(threadIdx.x); n < window.count; n += Threads) {
      const I place = window.place(n);
      const C value = static_cast<C>(widen(plane[place]));
      if (best.place < 0 || beats(value, best.value)) best = {value, place};
    }
    best = best_of_block<Threads>(best);
    if (threadIdx.x != 0) continue;
    out[i] = narrow<T>(static_cast<Compute<T>>(best.value));
    places.write(i, best.place, places.bytes == 1 ? tap_in_window(plan, at, best.place) : I(0));
  }
}

// --- starting ---

template <class T>
void start(const PoolTask& task, const T* x, T* out, const PlaceTarget& places, std::int64_t planes) {
  const int threads = threads_of_window(task);
  for_planes(task, planes, [&](std::int64_t first, std::int64_t some) {
    const std::int64_t done = first * task.window.out(), count = some * task.window.out();
    const T* const from = x + first * task.window.in();
    const PlaceTarget to = from_result(places, done);
    if (threads == 1)
      return launch(max_pool_kernel<T, std::int32_t>, shape_for(count), PoolPlan<std::int32_t>(task), count, from,
                    out + done, to);
    if constexpr (core::kIsReal<T>) {  // integers are rare: one kernel less
      if (threads == kWarp)
        return launch(wide_max_pool_kernel<T, std::int32_t, kWarp>, block_each(count, kWarp),
                      PoolPlan<std::int32_t>(task), count, from, out + done, to);
    }
    launch(wide_max_pool_kernel<T, std::int64_t, 256>, block_each(count, 256), PoolPlan<std::int64_t>(task), count,
           from, out + done, to);
  });
}

}  // namespace

void max_pool(const PoolTask& task, const TensorImpl& x, TensorImpl& out, TensorImpl* places) {
  if (out.numel() == 0) return;
  PlaceTarget target;
  if (places != nullptr) target = {places->data, static_cast<int>(size_of(places->dtype))};
  core::visit_numbers(x.dtype, [&]<class T>(core::Type<T>) {
    start(task, x.as<const T>(), out.as<T>(), target, out.numel() / task.window.out());
  });
}

}  // namespace capstan::on_cuda
