// Average pooling, and its transpose, which hands each mean back to what it was made of.
#include "cuda/backend.hpp"
#include "cuda/blocks.cuh"
#include "cuda/launch.cuh"
#include "cuda/pool_plan.hpp"
#include "cuda/values.cuh"

namespace capstan::on_cuda {
namespace {

/// What the sum of a window is divided by: a number, or (0) the places that count, zeros at the borders or not.
struct Divisor {
  double fixed;
  bool padded;

  explicit Divisor(const PoolTask& task)
      : fixed(static_cast<double>(task.divisor)), padded(task.count_padding && !task.adaptive) {}
  template <class I>
  __device__ double of(const PoolPlan<I>& p, I d, I h, I w) const {
    if (fixed != 0) return fixed;
    return p.d.counted(d, padded) * p.h.counted(h, padded) * p.w.counted(w, padded);
  }
};

// --- means ---

template <class T, class I>
__global__ void __launch_bounds__(kThreads) avg_pool_kernel(PoolPlan<I> plan, Divisor divisor, std::int64_t count,
                                                            const T* __restrict__ x, T* __restrict__ out) {
  for (std::int64_t n = first_index(); n < count; n += index_step()) {
    const PoolSpot<I> at = plan.results.find(static_cast<I>(n));
    const T* const plane = x + std::int64_t{at.plane} * plan.in_plane;
    const PoolRange<I> d = plan.d.window(at.d), h = plan.h.window(at.h), w = plan.w.window(at.w);
    Compute<T> total(0);
    for (I i = d.begin; i < d.end; ++i)
      for (I j = h.begin; j < h.end; ++j)
        for (I k = w.begin; k < w.end; ++k) total += widen(plane[plan.in_at(i, j, k)]);
    out[n] = narrow<T>(total / static_cast<Compute<T>>(divisor.of(plan, at.d, at.h, at.w)));
  }
}

/// All threads of a block for each result.
template <class T, class I, int Threads>
__global__ void __launch_bounds__(Threads) wide_avg_pool_kernel(PoolPlan<I> plan, Divisor divisor, std::int64_t count,
                                                                const T* __restrict__ x, T* __restrict__ out) {
  for (std::int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    const PoolSpot<I> at = plan.results.find(static_cast<I>(i));
    const PoolWindow<I> window(plan, at);
    const T* const plane = x + std::int64_t{at.plane} * plan.in_plane;
    double total = 0;
    for (I n = static_cast<I>(threadIdx.x); n < window.count; n += Threads)
      total += static_cast<double>(widen(plane[window.place(n)]));
    total = block_reduce<Threads>(total, Add{});
    if (threadIdx.x == 0) out[i] = narrow<T>(static_cast<Compute<T>>(total / divisor.of(plan, at.d, at.h, at.w)));
  }
}

template <class T>
void start(const PoolTask& task, const T* x, T* out, std::int64_t planes) {
  const int threads = threads_of_window(task);
  const Divisor divisor(task);
  for_planes(task, planes, [&](std::int64_t first, std::int64_t some) {
    const std::int64_t count = some * task.window.out();
    const T* const from = x + first * task.window.in();
    T* const to = out + first * task.window.out();
    if (threads == 1)
      launch(avg_pool_kernel<T, std::int32_t>, shape_for(count), PoolPlan<std::int32_t>(task), divisor, count, from,
             to);
    else if (threads == kWarp)
      launch(wide_avg_pool_kernel<T, std::int32_t, kWarp>, block_each(count, kWarp), PoolPlan<std::int32_t>(task),
             divisor, count, from, to);
    else
      launch(wide_avg_pool_kernel<T, std::int64_t, 256>, block_each(count, 256), PoolPlan<std::int64_t>(task), divisor,
             count, from, to);
  });
}

// --- the transpose ---

/// What input (d, h, w) of a plane gets from the windows that it lies in, added in their order.
template <class T, class I>
__device__ __forceinline__ Compute<T> shares_of(const PoolPlan<I>& p, const Divisor& divisor, I d, I h, I w,
                                                const T* grad) {
  const I d_end = p.d.last_window(d), h_begin = p.h.first_window(h), h_end = p.h.last_window(h);
  const I w_begin = p.w.first_window(w), w_end = p.w.last_window(w);
  double total = 0;
  for (I i = p.d.first_window(d); i < d_end; ++i)
    for (I j = h_begin; j < h_end; ++j)
      for (I k = w_begin; k < w_end; ++k) {
        const auto places = static_cast<Compute<T>>(divisor.of(p, i, j, k));
        total += static_cast<double>(widen(grad[p.out_at(i, j, k)]) / places);
      }
  return static_cast<Compute<T>>(total);
}

/// A thread gives a run of inputs side by side their shares: no input is written twice, and nothing is cleared before.
/// packed: rows are whole runs.
template <class T, class I>
__global__ void __launch_bounds__(kThreads)
    avg_pool_scatter_kernel(PoolPlan<I> plan, PoolGrid<I> runs, Divisor divisor, std::int64_t count,
                            const T* __restrict__ grad, bool packed, T* __restrict__ out) {
  constexpr int kRun = kPack<T>;
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    const PoolSpot<I> at = runs.find(static_cast<I>(i));
    const T* const results = grad + std::int64_t{at.plane} * plan.out_plane;
    const I column = at.w * kRun;
    T* const to = out + std::int64_t{at.plane} * plan.in_plane + plan.in_at(at.d, at.h, column);
    Pack<T, kRun> run;
    for (int n = 0; n < kRun; ++n)
      run.values[n] =
          narrow<T>(column + n < plan.w.in ? shares_of(plan, divisor, at.d, at.h, static_cast<I>(column + n), results)
                                           : Compute<T>(0));
    if (packed) {
      *reinterpret_cast<Pack<T, kRun>*>(to) = run;
    } else {
      for (int n = 0; n < kRun; ++n)
        if (column + n < plan.w.in) to[n] = run.values[n];
    }
  }
}

}  // namespace

void avg_pool(const PoolTask& task, const TensorImpl& x, TensorImpl& out) {
  if (out.numel() == 0) return;
  core::visit_real(x.dtype, [&]<class T>(core::Type<T>) {
    start(task, x.as<const T>(), out.as<T>(), out.numel() / task.window.out());
  });
}

void avg_pool_scatter(const PoolTask& task, const TensorImpl& grad, TensorImpl& out) {
  if (out.numel() == 0) return;
  const std::int64_t in = task.window.in(), results = task.window.out();
  core::visit_real(grad.dtype, [&]<class T>(core::Type<T>) {
    with_pool_plan(task, [&]<class I>(const PoolPlan<I>& plan) {
      const PoolGrid<I> runs = plan.runs(kPack<T>);
      const bool packed = plan.w.in % kPack<T> == 0 && aligned16(out.data);
      for_planes(task, out.numel() / in, [&](std::int64_t first, std::int64_t planes) {
        const std::int64_t count = planes * runs.count();
        launch(avg_pool_scatter_kernel<T, I>, shape_for(count), plan, runs, Divisor(task), count,
               grad.as<const T>() + first * results, packed, out.as<T>() + first * in);
      });
    });
  });
}

}  // namespace capstan::on_cuda
