#pragma once
// What a place of a grid reads along one axis; see lib/cpu/grid_sample.cpp, whose rules these are. Weights may be
// derivatives by the coordinate, of any order.
#include <cstdint>

#include "cuda/taps.hpp"
#include "cuda/unroll.hpp"

namespace capstan::on_cuda {

/// In places of an axis, and how fast it moves with the grid's coordinate.
struct GridCoordinate {
  double value, slope;
};

/// Mirrored at `low` and at `low + span`.
__device__ inline GridCoordinate reflected(GridCoordinate c, double low, double span) {
  if (span == 0) return {low, 0};
  double distance = c.value - low;
  if (distance < 0) {
    distance = -distance;
    c.slope = -c.slope;
  }
  distance = kernels::fmod(distance, 2 * span);
  if (distance < span) return {low + distance, c.slope};
  return {low + 2 * span - distance, -c.slope};
}

/// What the padding makes of a finite coordinate.
__device__ inline GridCoordinate held_inside(GridCoordinate c, double size, const core::GridSample& task) {
  if (task.padding == SamplePadding::zeros) return c;
  if (task.padding == SamplePadding::reflection)
    c = task.align_corners ? reflected(c, 0, size - 1) : reflected(c, -0.5, size);
  if (c.value <= 0) return {0, 0};
  if (c.value >= size - 1) return {size - 1, 0};
  return c;
}

/// The derivative of that order of c0 + c1*x + c2*x^2 + c3*x^3.
__device__ inline double cubic_derivative(double c0, double c1, double c2, double c3, int order, double x) {
  const double c[4] = {c0, c1, c2, c3};
  double sum = 0;
  CAPSTAN_UNROLL
  for (int k = 3; k >= 0; --k) {
    if (k < order) continue;
    double factor = c[k];
    for (int i = 0; i < order; ++i) factor *= k - i;
    sum = sum * x + factor;
  }
  return sum;
}

/// A derivative by `part` of the weight of place `k` of -1, 0, 1, 2, at 0 <= part < 1 behind place 0 (Keys, a = -0.75).
__device__ inline double grid_cubic_weight(int k, double part, int order) {
  constexpr double a = -0.75;
  const double sign = k > 0 && order % 2 != 0 ? -1 : 1, distance = k > 0 ? k - part : part - k;
  if (k == 0 || k == 1) return sign * cubic_derivative(1, 0, -(a + 3), a + 2, order, distance);
  return sign * cubic_derivative(-4 * a, 8 * a, -5 * a, a, order, distance);
}

/// Up to W places of an axis, as offsets. Those of weight 0 are not read: 0 times infinity would be NaN.
template <int W>
struct GridTaps {
  std::int64_t offset[W];
  double weight[W];
  bool bad;  // there is no such place

  /// The axis that is not there.
  __device__ GridTaps() : bad(false) {
    CAPSTAN_UNROLL
    for (int k = 0; k < W; ++k) {
      offset[k] = 0;
      weight[k] = k == 0 ? 1 : 0;
    }
  }
  /// Of an axis of `places`, `stride` apart, at the coordinate g.
  __device__ GridTaps(double g, std::int64_t places, std::int64_t stride, int order, const core::GridSample& task)
      : GridTaps() {
    constexpr double kFar = 1e30;  // outside, and still finite after what is done to it
    const double size = static_cast<double>(places);
    weight[0] = 0;
    if (task.padding != SamplePadding::reflection) g = g < -kFar ? -kFar : g > kFar ? kFar : g;
    GridCoordinate c{(rounded_product(g + 1, size) - 1) / 2, size / 2};
    if (task.align_corners) c = {rounded_product((g + 1) / 2, size - 1), (size - 1) / 2};
    bad = !(c.value - c.value == 0);
    if (bad) return;
    if (task.mode != SampleMode::cubic) c = held_inside(c, size, task);
    double factor = 1;
    for (int i = 0; i < order; ++i) factor *= c.slope;
    const double below = kernels::floor(c.value), part = c.value - below;
    if (task.mode == SampleMode::nearest) {
      put(0, kernels::round(c.value), size, stride, order == 0 ? 1 : 0);
    } else if (task.mode == SampleMode::linear) {
      if (order > 1) return;
      put(0, below, size, stride, order == 0 ? 1 - part : -factor);
      put(1, below + 1, size, stride, order == 0 ? part : factor);
    } else if constexpr (W == 4) {
      CAPSTAN_UNROLL
      for (int k = -1; k <= 2; ++k) {
        const double at = held_inside({below + k, 0}, size, task).value;
        put(k + 1, at, size, stride, factor * grid_cubic_weight(k, part, order));
      }
    }
  }

 private:
  __device__ void put(int k, double at, double size, std::int64_t stride, double w) {
    if (w == 0 || !(at >= 0 && at < size)) return;
    offset[k] = static_cast<std::int64_t>(at) * stride;
    weight[k] = w;
  }
};

/// Calls `use(offset, weight)` for what is read along three axes, of which the first is there only with linear weights.
template <int W, class Use>
__device__ inline void for_taps(const GridTaps<W>& depth, const GridTaps<W>& rows, const GridTaps<W>& columns,
                                Use& use) {
  constexpr int kDeep = W == 2 ? 2 : 1;
  CAPSTAN_UNROLL
  for (int a = 0; a < kDeep; ++a) {
    if (depth.weight[a] == 0) continue;
    CAPSTAN_UNROLL
    for (int b = 0; b < W; ++b) {
      if (rows.weight[b] == 0) continue;
      const double weight = depth.weight[a] * rows.weight[b];
      CAPSTAN_UNROLL
      for (int c = 0; c < W; ++c)
        if (columns.weight[c] != 0)
          use(depth.offset[a] + rows.offset[b] + columns.offset[c], weight * columns.weight[c]);
    }
  }
}

}  // namespace capstan::on_cuda
