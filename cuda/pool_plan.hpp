#pragma once
// Where pooling windows stand, and how threads share them. Axes that are missing in front have one place. No CUDA
// headers, so that it is tested on the host.
#include <algorithm>
#include <cstdint>

#include "cuda/geometry.hpp"
#include "cuda/index_range.hpp"
#include "lib/core/backend.hpp"

namespace capstan::on_cuda {

/// The places of a window along an axis: begin, begin + dilation, ... below end; `tap` others lie in front of them.
template <class I>
struct PoolRange {
  I begin, end, tap;
};

template <class I>
struct PoolAxis {
  bool adaptive = false;
  I in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, before = 0, after = 0;
  Divider<I> by_stride;

  PoolAxis() = default;
  PoolAxis(const core::WindowAxis& a, bool adapts)
      : adaptive(adapts),
        in(static_cast<I>(a.in)),
        out(static_cast<I>(a.out)),
        kernel(static_cast<I>(a.kernel)),
        stride(static_cast<I>(a.stride)),
        dilation(static_cast<I>(a.kernel > 1 ? a.dilation : 1)),
        before(static_cast<I>(a.before)),
        after(static_cast<I>(a.after)),
        by_stride(a.stride) {}

  CAPSTAN_HD PoolRange<I> window(I o) const {
    if (adaptive) return {o * in / out, ((o + 1) * in + out - 1) / out, 0};
    const I start = o * stride - before, stop = start + (kernel - 1) * dilation + 1;
    const I tap = start >= 0 ? 0 : (dilation - 1 - start) / dilation;
    return {start + tap * dilation, stop < in ? stop : in, tap};
  }
  /// The windows that place i may lie in: the first, and the one behind the last.
  CAPSTAN_HD I first_window(I i) const {
    if (adaptive) return out == 1 ? 0 : i * out / in;
    const I beyond = i + before - (kernel - 1) * dilation;
    return beyond <= 0 ? 0 : by_stride.quotient(beyond + stride - 1);
  }
  CAPSTAN_HD I last_window(I i) const {
    if (adaptive) return out == 1 ? 1 : ((i + 1) * out + in - 1) / in;
    const I behind = by_stride.quotient(i + before) + 1;
    return behind < out ? behind : out;
  }
  /// Which of the places of window o is place i, or -1.
  CAPSTAN_HD I tap_of(I o, I i) const {
    const I distance = i - (o * stride - before), tap = dilation == 1 ? distance : distance / dilation;
    return tap * dilation == distance ? tap : -1;
  }
  CAPSTAN_HD I place_of(I o, I tap) const { return o * stride - before + tap * dilation; }
  /// How many places of window o count for a mean. Windows over means are not dilated.
  CAPSTAN_HD double counted(I o, bool padded) const {
    const PoolRange<I> range = window(o);
    if (!padded) return static_cast<double>(range.end - range.begin);
    const I start = o * stride - before, stop = start + kernel, limit = in + after;
    return static_cast<double>((stop < limit ? stop : limit) - start);
  }
};

/// A result, or a run of inputs: its plane and its place there.
template <class I>
struct PoolSpot {
  I plane, d, h, w;
};

/// Numbers of places, row by row through all planes.
template <class I>
struct PoolGrid {
  Divider<I> by[3];
  I sizes[3];

  PoolGrid(std::int64_t depth, std::int64_t rows, std::int64_t columns)
      : sizes{static_cast<I>(depth), static_cast<I>(rows), static_cast<I>(columns)} {
    for (int i = 0; i < 3; ++i) by[i] = Divider<I>(sizes[i] > 0 ? sizes[i] : 1);
  }
  std::int64_t count() const { return std::int64_t{sizes[0]} * sizes[1] * sizes[2]; }
  CAPSTAN_HD PoolSpot<I> find(I number) const {
    PoolSpot<I> at;
    I next = by[2].quotient(number);
    at.w = number - next * sizes[2];
    number = next;
    next = by[1].quotient(number);
    at.h = number - next * sizes[1];
    at.plane = by[0].quotient(next);
    at.d = next - at.plane * sizes[0];
    return at;
  }
};

template <class I>
struct PoolPlan {
  PoolAxis<I> d, h, w;
  PoolGrid<I> results;
  I in_plane, out_plane;  // elements

  explicit PoolPlan(const core::PoolTask& task)
      : d(axis(task, 0)), h(axis(task, 1)), w(axis(task, 2)), results(d.out, h.out, w.out) {
    in_plane = d.in * h.in * w.in;
    out_plane = d.out * h.out * w.out;
  }
  /// Inputs in runs of `length` side by side.
  PoolGrid<I> runs(int length) const { return PoolGrid<I>(d.in, h.in, (std::int64_t{w.in} + length - 1) / length); }
  CAPSTAN_HD I in_at(I i, I j, I k) const { return (i * h.in + j) * w.in + k; }
  CAPSTAN_HD I out_at(I i, I j, I k) const { return (i * h.out + j) * w.out + k; }

 private:
  static PoolAxis<I> axis(const core::PoolTask& task, int number) {
    const int own = number - (3 - task.window.axes);
    return own < 0 ? PoolAxis<I>() : PoolAxis<I>(task.window.axis[own], task.adaptive);
  }
};

/// The places of one window, counted from 0 in the order in which they lie in the plane.
template <class I>
struct PoolWindow {
  I first, count, rows, columns;
  I d_step, h_step, w_step;
  bool run;  // they lie one behind the other

  CAPSTAN_HD PoolWindow(const PoolPlan<I>& p, const PoolSpot<I>& at) {
    const PoolRange<I> d = p.d.window(at.d), h = p.h.window(at.h), w = p.w.window(at.w);
    const I depth = places(d, p.d.dilation);
    rows = places(h, p.h.dilation);
    columns = places(w, p.w.dilation);
    count = depth * rows * columns;
    first = p.in_at(d.begin, h.begin, w.begin);
    d_step = depth > 1 ? p.d.dilation * p.h.in * p.w.in : 0;
    h_step = rows > 1 ? p.h.dilation * p.w.in : 0;
    w_step = columns > 1 ? p.w.dilation : 0;
    const bool whole_rows = columns == p.w.in && (rows == 1 || p.h.dilation == 1);
    run = (columns == 1 || w_step == 1) && (rows * depth == 1 || whole_rows) &&
          (depth == 1 || (rows == p.h.in && p.d.dilation == 1));
  }
  CAPSTAN_HD I place(I number) const {
    if (run) return first + number;
    const I line = number / columns, k = number - line * columns, i = line / rows, j = line - i * rows;
    return first + i * d_step + j * h_step + k * w_step;
  }

 private:
  CAPSTAN_HD static I places(const PoolRange<I>& range, I dilation) {
    return (range.end - range.begin + dilation - 1) / dilation;
  }
};

/// Whether numbers and coordinates of one plane fit 32 bits, and the products that adaptive windows come from.
inline bool fits_32_bits(const core::PoolTask& task) {
  for (const core::WindowAxis& a : task.window.axis) {
    if (a.in > kFarthest || a.out > kFarthest || a.before > kFarthest || a.after > kFarthest || a.stride > kFarthest ||
        a.kernel > kFarthest || a.extent() > kFarthest)
      return false;
    if (task.adaptive && (a.in + 1) * (a.out + 1) > kIndexed) return false;
  }
  return task.window.in() <= kIndexed && task.window.out() <= kIndexed;
}

/// Calls f(PoolPlan<I>) with the smaller index type that suffices.
template <class F>
void with_pool_plan(const core::PoolTask& task, F&& f) {
  if (fits_32_bits(task)) f(PoolPlan<std::int32_t>(task));
  else f(PoolPlan<std::int64_t>(task));
}

/// Calls use(first plane, planes) for as many planes at a time as 32-bit indices reach; for one if it exceeds them.
template <class Use>
void for_planes(const core::PoolTask& task, std::int64_t planes, Use use) {
  const std::int64_t largest = std::max({task.window.in(), task.window.out(), std::int64_t{1}});
  const std::int64_t step = std::max<std::int64_t>(kIndexed / largest, 1);
  for (std::int64_t first = 0; first < planes; first += step) use(first, std::min(step, planes - first));
}

/// How many threads share a window: many if it is large, a warp if neighbouring windows lie so far apart that threads
/// of their own would read from places far apart, else 1.
inline int threads_of_window(const core::PoolTask& task) {
  double taps = 1, apart = 1, places = 1;  // of a window; from one result to the next; in the axes behind
  for (int i = task.window.axes - 1; i >= 0; --i) {
    const core::WindowAxis& a = task.window.axis[i];
    if (a.out < 1) return 1;
    const std::int64_t step = task.adaptive ? a.in / a.out : a.stride;
    taps *= static_cast<double>(task.adaptive ? step + 1 : std::min(a.kernel, a.in));
    if (apart == places) apart *= static_cast<double>(a.out > 1 ? step : a.in);  // one result: the next is beyond
    places *= static_cast<double>(a.in);
  }
  if (!fits_32_bits(task) || taps >= 1024) return 256;
  return taps >= 32 && apart >= 8 ? 32 : 1;
}

}  // namespace capstan::on_cuda
