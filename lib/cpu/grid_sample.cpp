// Samples of planes at places that a grid says, their transpose, and the grid's gradient.
//
// A place reads some places around it along each axis, with weights; what it reads of a plane are the products. They
// are found once for a block of places and used for all channels. Weights may be derivatives of any order: with them
// the three maps here are closed under differentiation.
#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/core/dispatch.hpp"
#include "lib/cpu/along.hpp"
#include "lib/cpu/iterate.hpp"

namespace capstan::on_cpu {
namespace {

using core::GridSample;

constexpr int kMostTaps = 16;            // 4 * 4 for cubic, 2 * 2 * 2 for linear with depth
constexpr std::int64_t kBlock = 32;      // places that are looked up together
constexpr std::int64_t kSide = 4;        // planes that are summed together,
constexpr std::int64_t kSums = 1 << 17;  // unless they have more elements than this

/// x [batch, channels, size...] and a grid of `places` for each of the batch.
struct Geometry {
  std::int64_t batch, channels, places = 1, plane = 1, size[3] = {1, 1, 1};
  Geometry(const Shape& x, const Shape& grid) : batch(x[0]), channels(x[1]) {
    for (int i = 2; i < x.rank(); ++i) size[i - 2] = x[i], plane *= x[i];
    for (int i = 1; i + 1 < grid.rank(); ++i) places *= grid[i];
  }
};

/// In places of an axis, and how fast it moves with the grid's coordinate.
struct Coordinate {
  double value, slope;
};

/// For whatever can be a place what std::floor and std::nearbyint give, which are calls where processors without
/// SSE 4.1 are served.
double rounded_down(double x) {
  if (!(std::fabs(x) < 0x1p52)) return x;
  const auto whole = static_cast<double>(static_cast<std::int64_t>(x));
  return whole > x ? whole - 1 : whole;
}
double rounded_to_even(double x) {
  constexpr double kShift = 0x1.8p52;
  return std::fabs(x) < 0x1p51 ? x + kShift - kShift : x;
}

/// Mirrored at `low` and at `low + span`.
Coordinate reflected(Coordinate c, double low, double span) {
  if (span == 0) return {low, 0};
  double distance = c.value - low;
  if (distance < 0) distance = -distance, c.slope = -c.slope;
  distance = std::fmod(distance, 2 * span);
  if (distance < span) return {low + distance, c.slope};
  return {low + 2 * span - distance, -c.slope};
}

/// What the padding makes of a finite coordinate.
Coordinate held_inside(Coordinate c, double size, const GridSample& task) {
  if (task.padding == SamplePadding::zeros) return c;
  if (task.padding == SamplePadding::reflection)
    c = task.align_corners ? reflected(c, 0, size - 1) : reflected(c, -0.5, size);
  if (c.value <= 0) return {0, 0};
  if (c.value >= size - 1) return {size - 1, 0};
  return c;
}

/// The derivative of that order of c[0] + c[1]*x + c[2]*x^2 + c[3]*x^3.
double derivative(const double (&c)[4], int order, double x) {
  double sum = 0;
  for (int k = 3; k >= order; --k) {
    double factor = c[k];
    for (int i = 0; i < order; ++i) factor *= k - i;
    sum = sum * x + factor;
  }
  return sum;
}

/// A derivative by `part` of the weight of place `k` of -1, 0, 1, 2, at 0 <= part < 1 behind place 0 (Keys, a = -0.75).
double cubic_weight(int k, double part, int order) {
  constexpr double a = -0.75;
  constexpr double inner[4] = {1, 0, -(a + 3), a + 2}, outer[4] = {-4 * a, 8 * a, -5 * a, a};
  const double sign = k > 0 && order % 2 != 0 ? -1 : 1, distance = k > 0 ? k - part : part - k;
  return sign * (k == 0 || k == 1 ? derivative(inner, order, distance) : derivative(outer, order, distance));
}

/// What a place reads along one axis. What has no weight is not read: 0 times infinity would be NaN.
struct AxisTaps {
  std::int64_t place[4];
  double weight[4];
  int count = 0;
  bool bad = false;  // there is no such place

  void add(double at, double size, double w) {
    if (w == 0 || !(at >= 0 && at < size)) return;
    place[count] = static_cast<std::int64_t>(at);
    weight[count++] = w;
  }
};

AxisTaps taps_along(double g, std::int64_t places, int order, const GridSample& task) {
  constexpr double kFar = 1e30;  // outside, and still finite after what is done to it
  const double size = static_cast<double>(places);
  AxisTaps taps;
  if (task.padding != SamplePadding::reflection) g = std::clamp(g, -kFar, kFar);
  Coordinate c{((g + 1) * size - 1) / 2, size / 2};
  if (task.align_corners) c = {(g + 1) / 2 * (size - 1), (size - 1) / 2};
  taps.bad = !std::isfinite(c.value);
  if (taps.bad) return taps;
  if (task.mode != SampleMode::cubic) c = held_inside(c, size, task);
  double factor = 1;
  for (int i = 0; i < order; ++i) factor *= c.slope;
  const double below = rounded_down(c.value), part = c.value - below;
  switch (task.mode) {
    case SampleMode::nearest: taps.add(rounded_to_even(c.value), size, order == 0 ? 1 : 0); break;
    case SampleMode::linear:
      if (order > 1) break;
      taps.add(below, size, order == 0 ? 1 - part : -factor);
      taps.add(below + 1, size, order == 0 ? part : factor);
      break;
    case SampleMode::cubic:
      for (int k = -1; k <= 2; ++k)
        taps.add(held_inside({below + k, 0}, size, task).value, size, factor * cubic_weight(k, part, order));
      break;
  }
  return taps;
}

/// What a place reads of a plane. Nothing at first but one value that has no axes.
struct Spot {
  std::int64_t offset[kMostTaps];
  double weight[kMostTaps];
  int count;
  bool bad;  // no such place: what it reads is NaN

  void clear() { offset[0] = 0, weight[0] = 1, count = 1, bad = false; }
  /// Another axis, which moves faster.
  void extend(const AxisTaps& taps, std::int64_t size) {
    bad = bad || taps.bad;
    for (int i = count - 1; i >= 0; --i) {  // from the end on: what is written is not needed any more
      const std::int64_t base = offset[i] * size;
      const double before = weight[i];
      for (int k = taps.count - 1; k >= 0; --k) {
        offset[i * taps.count + k] = base + taps.place[k];
        weight[i * taps.count + k] = before * taps.weight[k];
      }
    }
    count *= taps.count;
  }
  /// Calls use(offset, weight) for all that is read. As many as most places read are spelled out.
  template <class Use>
  void each(Use use) const {
    const auto first = [&]<int... k>(std::integer_sequence<int, k...>) { (use(offset[k], weight[k]), ...); };
    if (count == 4) return first(std::make_integer_sequence<int, 4>());
    for (int i = 0; i < count; ++i) use(offset[i], weight[i]);
  }
  template <class T>
  double read(const T* plane) const {
    double sum = bad ? std::nan("") : 0;
    each([&](std::int64_t at, double w) { sum += w * static_cast<double>(plane[at]); });
    return sum;
  }
};

/// The grid has the last axis' coordinate first.
template <class T>
void find_spots(const T* grid, std::int64_t count, const Geometry& geometry, const GridSample& task, const int* order,
                Spot* spots) {
  for (std::int64_t i = 0; i < count; ++i, grid += task.axes) {
    spots[i].clear();
    for (int axis = 0; axis < task.axes; ++axis) {
      const double coordinate = static_cast<double>(grid[task.axes - 1 - axis]);
      spots[i].extend(taps_along(coordinate, geometry.size[axis], order[axis], task), geometry.size[axis]);
    }
  }
}

/// Calls `body(sample, first, count)` for blocks of places: `count` of them from place `first` of a sample on.
template <class Body>
void for_blocks(const Geometry& g, Body body) {
  const std::int64_t blocks = (g.places + kBlock - 1) / kBlock, grain = kExpensiveGrain / 4 / kBlock / (g.channels + 4);
  base::parallel_for(g.batch * blocks, grain + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t first = item % blocks * kBlock;
      body(item / blocks, first, std::min(kBlock, g.places - first));
    }
  });
}

template <class T>
void sample_planes(const T* x, const T* grid, const Geometry& g, const GridSample& task, T* out) {
  for_blocks(g, [=, &g, &task](std::int64_t sample, std::int64_t first, std::int64_t count) {
    Spot spots[kBlock];
    find_spots(grid + (sample * g.places + first) * task.axes, count, g, task, task.order, spots);
    for (std::int64_t plane = sample * g.channels; plane < (sample + 1) * g.channels; ++plane) {
      T* to = out + plane * g.places + first;
      for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(spots[i].read(x + plane * g.plane));
    }
  });
}

/// Adds to `planes` planes of sums, side by side, what places of theirs have; in the order of the places.
template <class T>
void spread_places(const T* grad, const T* grid, std::int64_t planes, const Geometry& g, const GridSample& task,
                   double* sums) {
  Spot spots[kBlock];
  for (std::int64_t first = 0; first < g.places; first += kBlock) {
    const std::int64_t count = std::min(kBlock, g.places - first);
    find_spots(grid + first * task.axes, count, g, task, task.order, spots);
    for (std::int64_t plane = 0; plane < planes; ++plane)
      for (std::int64_t i = 0; i < count; ++i) {
        if (spots[i].bad) continue;
        const double value = static_cast<double>(grad[plane * g.places + first + i]);
        double* const own = sums + plane * g.plane;
        spots[i].each([=](std::int64_t at, double w) { own[at] += w * value; });
      }
  }
}

template <class T>
void spread_planes(const T* grad, const T* grid, const Geometry& g, const GridSample& task, T* out) {
  const std::int64_t side = std::clamp<std::int64_t>(kSums / g.plane, 1, kSide);
  const std::int64_t bytes = side * g.plane * static_cast<std::int64_t>(sizeof(double));
  const std::int64_t grain = kExpensiveGrain / (g.plane + 4 * g.places) + 1;
  for_lanes(g.batch * g.channels, grain, bytes, [&](std::byte* scratch, std::int64_t begin, std::int64_t end) {
    auto* sums = reinterpret_cast<double*>(scratch);
    for (std::int64_t plane = begin; plane < end;) {
      const std::int64_t sample = plane / g.channels, same_sample = (sample + 1) * g.channels - plane;
      const std::int64_t planes = std::min({side, end - plane, same_sample});
      std::fill(sums, sums + planes * g.plane, 0.0);
      spread_places(grad + plane * g.places, grid + sample * g.places * task.axes, planes, g, task, sums);
      T* to = out + plane * g.plane;
      for (std::int64_t i = 0; i < planes * g.plane; ++i) to[i] = static_cast<T>(sums[i]);
      plane += planes;
    }
  });
}

template <class T>
void slopes_of_places(const T* grad, const T* x, const T* grid, const Geometry& g, const GridSample& task, T* out) {
  for_blocks(g, [=, &g, &task](std::int64_t sample, std::int64_t first, std::int64_t count) {
    Spot spots[3][kBlock];
    double sums[3][kBlock] = {};
    for (int axis = 0; axis < task.axes; ++axis) {
      int order[3] = {task.order[0], task.order[1], task.order[2]};
      ++order[axis];
      find_spots(grid + (sample * g.places + first) * task.axes, count, g, task, order, spots[axis]);
    }
    for (std::int64_t plane = sample * g.channels; plane < (sample + 1) * g.channels; ++plane)
      for (std::int64_t i = 0; i < count; ++i) {
        const double value = static_cast<double>(grad[plane * g.places + first + i]);
        for (int axis = 0; axis < task.axes; ++axis) sums[axis][i] += value * spots[axis][i].read(x + plane * g.plane);
      }
    T* to = out + (sample * g.places + first) * task.axes;
    for (std::int64_t i = 0; i < count; ++i, to += task.axes)
      for (int axis = 0; axis < task.axes; ++axis) to[task.axes - 1 - axis] = static_cast<T>(sums[axis][i]);
  });
}

}  // namespace

void grid_sample(const TensorImpl& x, const TensorImpl& grid, const GridSample& task, TensorImpl& out) {
  if (out.numel() == 0) return;
  const Tensor planes = packed(x), places = packed(grid);
  const Geometry geometry(x.shape, grid.shape);
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    sample_planes<T>(planes.impl()->as<T>(), places.impl()->as<T>(), geometry, task, out.as<T>());
  });
}

void grid_spread(const TensorImpl& grad, const TensorImpl& grid, const GridSample& task, TensorImpl& out) {
  if (out.numel() == 0) return;
  const Tensor values = packed(grad), places = packed(grid);
  const Geometry geometry(out.shape, grid.shape);
  core::visit_floating(grad.dtype, [&]<class T>(core::Type<T>) {
    spread_planes<T>(values.impl()->as<T>(), places.impl()->as<T>(), geometry, task, out.as<T>());
  });
}

void grid_slopes(const TensorImpl& grad, const TensorImpl& x, const TensorImpl& grid, const GridSample& task,
                 TensorImpl& out) {
  if (out.numel() == 0) return;
  const Tensor values = packed(grad), planes = packed(x), places = packed(grid);
  const Geometry geometry(x.shape, grid.shape);
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    slopes_of_places<T>(values.impl()->as<T>(), planes.impl()->as<T>(), places.impl()->as<T>(), geometry, task,
                        out.as<T>());
  });
}

}  // namespace capstan::on_cpu
