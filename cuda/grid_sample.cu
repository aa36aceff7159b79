// Samples of planes at places that a grid says, their transpose, and the grid's gradient. A thread finds out what a
// place reads, and uses it for many channels.
#include <limits>

#include "cuda/backend.hpp"
#include "cuda/context.hpp"
#include "cuda/elements.cuh"
#include "cuda/grid_taps.cuh"
#include "cuda/launch.cuh"
#include "cuda/planes.hpp"

namespace capstan::on_cuda {
namespace {

using core::GridSample;

/// A grid [batch, places..., axes], whose coordinates stand in reverse order, beside planes [batch, channels, size...].
struct GridTask {
  GridSample sample;
  std::int64_t batch, channels;
  PlaceSizes size, places;
  PlaneStrides planes;  // of what is read, or written
  const void* grid;
  DType dtype;  // of all
  std::int64_t grid_batch, grid_axis[3] = {}, grid_step = 0;

  GridTask(const TensorImpl& x, const TensorImpl& g, const GridSample& task)
      : sample(task),
        batch(x.shape[0]),
        channels(x.shape[1]),
        planes(x),
        grid(g.data),
        dtype(g.dtype),
        grid_batch(g.strides[0]),
        grid_step(g.strides[task.axes + 1]) {
    for (int i = 0; i < task.axes; ++i) {
      const int slot = 3 - task.axes + i;
      size.axis[slot] = x.shape[2 + i];
      places.axis[slot] = g.shape[1 + i];
      grid_axis[slot] = g.strides[1 + i];
    }
  }
  std::int64_t all_places() const { return batch * places.count(); }

  /// What a place reads along an axis, of three; with derivatives of an order that is higher by `more`.
  template <int W>
  __device__ GridTaps<W> taps(std::int64_t of_batch, const PlaceOf& place, int slot, int more) const {
    const int own = slot - (3 - sample.axes);
    if (own < 0) return GridTaps<W>();
    const std::int64_t at = of_batch * grid_batch + place.axis[0] * grid_axis[0] + place.axis[1] * grid_axis[1] +
                            place.axis[2] * grid_axis[2] + (2 - slot) * grid_step;
    return GridTaps<W>(read_real(grid, dtype, at), size.axis[slot], planes.axis[slot], sample.order[own] + more,
                       sample);
  }
};

struct Reading {
  const void* x;
  DType dtype;
  std::int64_t plane;
  double sum;
  __device__ void operator()(std::int64_t offset, double weight) {
    sum += weight * read_real(x, dtype, plane + offset);
  }
};
template <int W>
__device__ double read_at(const GridTask& task, const void* x, std::int64_t plane, const GridTaps<W>& depth,
                          const GridTaps<W>& rows, const GridTaps<W>& columns) {
  if (depth.bad || rows.bad || columns.bad) return std::numeric_limits<double>::quiet_NaN();
  Reading reading{x, task.dtype, plane, 0};
  for_taps(depth, rows, columns, reading);
  return reading.sum;
}

/// A place of one sample of the batch, and what it reads.
template <int W>
struct Spot {
  std::int64_t sample, number;
  PlaceOf place;
  GridTaps<W> depth, rows, columns;

  __device__ Spot(const GridTask& task, std::int64_t item)
      : sample(item / task.places.count()),
        number(item - sample * task.places.count()),
        place(task.places.place(number)),
        depth(task.taps<W>(sample, place, 0, 0)),
        rows(task.taps<W>(sample, place, 1, 0)),
        columns(task.taps<W>(sample, place, 2, 0)) {}
};

template <int W>
__global__ void __launch_bounds__(kThreads) sample_kernel(GridTask task, const void* x, void* out) {
  const std::int64_t places = task.places.count();
  for (std::int64_t item = first_index(); item < task.batch * places; item += index_step()) {
    const Spot<W> spot(task, item);
    for (std::int64_t c = blockIdx.y; c < task.channels; c += gridDim.y) {
      const std::int64_t plane = spot.sample * task.planes.batch + c * task.planes.channel;
      const double value = read_at(task, x, plane, spot.depth, spot.rows, spot.columns);
      write_real(out, task.dtype, (spot.sample * task.channels + c) * places + spot.number, value);
    }
  }
}

struct Spreading {
  double* sums;
  double value;
  __device__ void operator()(std::int64_t offset, double weight) const { atomicAdd(sums + offset, weight * value); }
};
/// Places meet in any number and order, so their parts are added up by atomic additions, in double: in floats and
/// 16-bit types results differ from run to run only where that many digits decide.
template <int W>
__global__ void __launch_bounds__(kThreads)
    spread_kernel(GridTask task, const void* grad, PlaneStrides strides, double* sums) {
  for (std::int64_t item = first_index(); item < task.batch * task.places.count(); item += index_step()) {
    const Spot<W> spot(task, item);
    if (spot.depth.bad || spot.rows.bad || spot.columns.bad) continue;
    const std::int64_t from = spot.sample * strides.batch + strides.at(spot.place);
    for (std::int64_t c = blockIdx.y; c < task.channels; c += gridDim.y) {
      double* const plane = sums + spot.sample * task.planes.batch + c * task.planes.channel;
      Spreading spreading{plane, read_real(grad, task.dtype, from + c * strides.channel)};
      for_taps(spot.depth, spot.rows, spot.columns, spreading);
    }
  }
}
__global__ void round_kernel(const double* sums, std::int64_t count, DType dtype, void* out) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) write_real(out, dtype, i, sums[i]);
}

template <int W>
__global__ void __launch_bounds__(kThreads)
    slopes_kernel(GridTask task, const void* grad, PlaneStrides strides, const void* x, void* out) {
  const int axes = task.sample.axes;
  for (std::int64_t item = first_index(); item < task.batch * task.places.count(); item += index_step()) {
    const Spot<W> spot(task, item);
    const GridTaps<W> depth = task.taps<W>(spot.sample, spot.place, 0, 1),
                      rows = task.taps<W>(spot.sample, spot.place, 1, 1),
                      columns = task.taps<W>(spot.sample, spot.place, 2, 1);
    const std::int64_t from = spot.sample * strides.batch + strides.at(spot.place);
    double sums[3] = {};
    for (std::int64_t c = 0; c < task.channels; ++c) {
      const std::int64_t plane = spot.sample * task.planes.batch + c * task.planes.channel;
      const double value = read_real(grad, task.dtype, from + c * strides.channel);
      if (axes > 2) sums[0] += value * read_at(task, x, plane, depth, spot.rows, spot.columns);
      if (axes > 1) sums[1] += value * read_at(task, x, plane, spot.depth, rows, spot.columns);
      sums[2] += value * read_at(task, x, plane, spot.depth, spot.rows, columns);
    }
    write_real(out, task.dtype, item * axes, sums[2]);
    if (axes > 1) write_real(out, task.dtype, item * axes + 1, sums[1]);
    if (axes > 2) write_real(out, task.dtype, item * axes + 2, sums[0]);
  }
}

/// Starts the kernel for linear and nearest samples, or the one for cubic ones.
template <class... Parameters, class... Arguments>
void start(const GridTask& task, std::int64_t channels, void (*linear)(Parameters...), void (*cubic)(Parameters...),
           const Arguments&... arguments) {
  const PlaneGrid grid(task.all_places(), channels);
  if (grid.places == 0) return;
  launch(task.sample.mode == SampleMode::cubic ? cubic : linear, dim3(grid.places, grid.planes), dim3(kThreads), task,
         arguments...);
}

}  // namespace

void grid_sample(const TensorImpl& x, const TensorImpl& grid, const GridSample& task, TensorImpl& out) {
  if (out.numel() == 0) return;
  const GridTask at(x, grid, task);
  start(at, at.channels, sample_kernel<2>, sample_kernel<4>, x.data, out.data);
}

void grid_spread(const TensorImpl& grad, const TensorImpl& grid, const GridSample& task, TensorImpl& out) {
  if (out.numel() == 0) return;
  const GridTask at(out, grid, task);
  const bool direct = out.dtype == DType::float64;
  const Tensor memory = direct ? Tensor() : workspace(out.numel(), DType::float64);
  TensorImpl& sums = direct ? out : *memory.impl();
  fill(sums, 0);
  start(at, at.channels, spread_kernel<2>, spread_kernel<4>, grad.data, PlaneStrides(grad), sums.as<double>());
  if (!direct) launch(round_kernel, shape_for(out.numel()), sums.as<double>(), out.numel(), out.dtype, out.data);
}

void grid_slopes(const TensorImpl& grad, const TensorImpl& x, const TensorImpl& grid, const GridSample& task,
                 TensorImpl& out) {
  if (out.numel() == 0) return;
  const GridTask at(x, grid, task);
  start(at, 1, slopes_kernel<2>, slopes_kernel<4>, grad.data, PlaneStrides(grad), x.data, out.data);
}

}  // namespace capstan::on_cuda
