// The places that max pooling found: as positions, to read there, and to hand gradients back.
#include "cuda/backend.hpp"
#include "cuda/launch.cuh"
#include "cuda/pool_plan.hpp"
#include "cuda/values.cuh"

namespace capstan::on_cuda {
namespace {

/// Places in the plane, or in bytes places in the window.
struct PlaceSource {
  const void* data;
  int bytes;

  explicit PlaceSource(const TensorImpl& places) : data(places.data), bytes(static_cast<int>(size_of(places.dtype))) {}
  __device__ std::int64_t operator[](std::int64_t i) const {
    if (bytes == 1) return static_cast<const std::uint8_t*>(data)[i];
    if (bytes == 4) return static_cast<const std::int32_t*>(data)[i];
    return static_cast<const std::int64_t*>(data)[i];
  }
};

/// The place in its plane that a result came from.
template <class I>
__device__ __forceinline__ I place_of(const PoolPlan<I>& p, const PoolSpot<I>& at, const PlaceSource& places,
                                      std::int64_t i) {
  const auto found = static_cast<I>(places[i]);
  if (places.bytes != 1) return found;
  const I line = found / p.w.kernel, depth = line / p.h.kernel;
  const I row = p.h.place_of(at.h, line - depth * p.h.kernel);
  return p.in_at(p.d.place_of(at.d, depth), row, p.w.place_of(at.w, found - line * p.w.kernel));
}

template <class I>
__global__ void positions_kernel(PoolPlan<I> plan, std::int64_t first, std::int64_t count, PlaceSource places,
                                 std::int64_t* __restrict__ out) {
  for (std::int64_t i = first_index(); i < count; i += index_step())
    out[first + i] = place_of(plan, plan.results.find(static_cast<I>(i)), places, first + i);
}

/// x begins at the plane of result `first`.
template <class Word, class I>
__global__ void gather_places_kernel(PoolPlan<I> plan, std::int64_t first, std::int64_t count, PlaceSource places,
                                     const Word* __restrict__ x, Word* __restrict__ out) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    const PoolSpot<I> at = plan.results.find(static_cast<I>(i));
    const Word* const plane = x + std::int64_t{at.plane} * plan.in_plane;
    out[first + i] = plane[place_of(plan, at, places, first + i)];
  }
}

/// The gradients of the results that input (d, h, w) of a plane won, added in their order. `first` is the plane's first
/// result.
template <class T, class I>
__device__ __forceinline__ Compute<T> won_by(const PoolPlan<I>& p, I d, I h, I w, const PlaceSource& places,
                                             const T* grad, std::int64_t first) {
  const I place = p.in_at(d, h, w);
  const I d_end = p.d.last_window(d), h_begin = p.h.first_window(h), h_end = p.h.last_window(h);
  const I w_begin = p.w.first_window(w), w_end = p.w.last_window(w);
  Compute<T> total(0);
  for (I i = p.d.first_window(d); i < d_end; ++i)
    for (I j = h_begin; j < h_end; ++j)
      for (I k = w_begin; k < w_end; ++k) {
        const std::int64_t result = first + p.out_at(i, j, k);
        std::int64_t own = place;
        if (places.bytes == 1) {
          const I d_tap = p.d.tap_of(i, d), h_tap = p.h.tap_of(j, h), w_tap = p.w.tap_of(k, w);
          const bool among = d_tap >= 0 && h_tap >= 0 && w_tap >= 0;  // else a dilated window steps over it
          own = among ? (d_tap * p.h.kernel + h_tap) * p.w.kernel + w_tap : -1;
        }
        if (places[result] == own) total += widen(grad[result]);
      }
  return total;
}

/// A thread gives a run of inputs side by side what they won: no input is written twice, and nothing is cleared before.
/// `plane` is the first of those that are counted. packed: rows are whole runs.
template <class T, class I>
__global__ void __launch_bounds__(kThreads)
    scatter_places_kernel(PoolPlan<I> plan, PoolGrid<I> runs, std::int64_t plane, std::int64_t count,
                          PlaceSource places, const T* __restrict__ grad, bool packed, T* __restrict__ out) {
  constexpr int kRun = kPack<T>;
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    const PoolSpot<I> at = runs.find(static_cast<I>(i));
    const std::int64_t own = plane + at.plane, first = own * plan.out_plane;
    const I column = at.w * kRun;
    T* const to = out + own * plan.in_plane + plan.in_at(at.d, at.h, column);
    Pack<T, kRun> run;
    for (int n = 0; n < kRun; ++n)
      run.values[n] =
          narrow<T>(column + n < plan.w.in ? won_by(plan, at.d, at.h, static_cast<I>(column + n), places, grad, first)
                                           : Compute<T>(0));
    if (packed) {
      *reinterpret_cast<Pack<T, kRun>*>(to) = run;
    } else {
      for (int n = 0; n < kRun; ++n)
        if (column + n < plan.w.in) to[n] = run.values[n];
    }
  }
}

template <class Word>
void start_gather(const PoolTask& task, const TensorImpl& x, const TensorImpl& places, TensorImpl& out) {
  const std::int64_t results = task.window.out();
  with_pool_plan(task, [&]<class I>(const PoolPlan<I>& plan) {
    for_planes(task, out.numel() / results, [&](std::int64_t first, std::int64_t planes) {
      launch(gather_places_kernel<Word, I>, shape_for(planes * results), plan, first * results, planes * results,
             PlaceSource(places), x.as<const Word>() + first * task.window.in(), out.as<Word>());
    });
  });
}

}  // namespace

void max_pool_positions(const PoolTask& task, const TensorImpl& places, TensorImpl& out) {
  if (out.numel() == 0) return;
  const std::int64_t results = task.window.out();
  with_pool_plan(task, [&]<class I>(const PoolPlan<I>& plan) {
    for_planes(task, out.numel() / results, [&](std::int64_t first, std::int64_t planes) {
      launch(positions_kernel<I>, shape_for(planes * results), plan, first * results, planes * results,
             PlaceSource(places), out.as<std::int64_t>());
    });
  });
}

void max_pool_gather(const PoolTask& task, const TensorImpl& x, const TensorImpl& places, TensorImpl& out) {
  if (out.numel() == 0) return;
  switch (size_of(x.dtype)) {
    case 2: return start_gather<std::uint16_t>(task, x, places, out);
    case 4: return start_gather<std::uint32_t>(task, x, places, out);
    default: return start_gather<std::uint64_t>(task, x, places, out);
  }
}

void max_pool_scatter(const PoolTask& task, const TensorImpl& grad, const TensorImpl& places, TensorImpl& out) {
  if (out.numel() == 0) return;
  core::visit_real(grad.dtype, [&]<class T>(core::Type<T>) {
    with_pool_plan(task, [&]<class I>(const PoolPlan<I>& plan) {
      const PoolGrid<I> runs = plan.runs(kPack<T>);
      const bool packed = plan.w.in % kPack<T> == 0 && aligned16(out.data);
      for_planes(task, out.numel() / task.window.in(), [&](std::int64_t first, std::int64_t planes) {
        const std::int64_t count = planes * runs.count();
        launch(scatter_places_kernel<T, I>, shape_for(count), plan, runs, first, count, PlaceSource(places),
               grad.as<const T>(), packed, out.as<T>());
      });
    });
  });
}

}  // namespace capstan::on_cuda
