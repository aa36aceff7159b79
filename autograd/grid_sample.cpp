// Values at the places of a grid.
#include <capstan/create.hpp>
#include <capstan/ops/linalg.hpp>
#include <capstan/ops/resampling.hpp>

#include "autograd/ops.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::listening;
using autograd::record;
using autograd::Replay;
using core::GridSample;

namespace {

// A sample is sum(x[place] * weight(place)), and its gradients are the transposed sum and, for the grid, samples whose
// weights are derived once more. So three maps with weights of any order have each other as gradients.
void sample_replay(Replay& r);
void spread_replay(Replay& r);

/// x [batch, channels, axes...] at grid [batch, places..., axes].
Tensor sampled(const Tensor& x, const Tensor& grid, const GridSample& task, Where where) {
  const TensorImpl &from = core::defined("grid_sample", x, where), &at = core::defined("grid_sample", grid, where);
  std::int64_t sizes[5] = {from.shape[0], from.shape[1]};
  for (int i = 0; i < task.axes; ++i) sizes[2 + i] = at.shape[1 + i];
  const Shape shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(2 + task.axes)), where);
  Tensor out = autograd::result_like(from, shape, from.dtype, where);
  backend_of(from, where).grid_sample(from, at, task, *out.impl());
  record("grid_sample", where, &sample_replay, {&x, &grid}, {&out}, {&x, &grid}, task);
  return out;
}

/// What samples with the gradient `grad` give each place of x, which has that shape.
Tensor spread(const Tensor& grad, const Tensor& grid, const Shape& shape, const GridSample& task, Where where) {
  const TensorImpl& from = core::defined("grid_spread", grad, where);
  const TensorImpl& at = core::defined("grid_spread", grid, where);
  Tensor out = autograd::result_like(from, shape, from.dtype, where);
  backend_of(from, where).grid_spread(from, at, task, *out.impl());
  record("grid_spread", where, &spread_replay, {&grad, &grid}, {&out}, {&grad, &grid}, task);
  return out;
}

/// What they give the grid.
Tensor slopes(const Tensor& grad, const Tensor& x, const Tensor& grid, const GridSample& task, Where where) {
  if (task.mode == SampleMode::nearest) return zeros_like(grid, where);
  if (listening()) {
    std::vector<Tensor> parts;
    for (int axis = task.axes - 1; axis >= 0; --axis) {  // the last axis' coordinate is the first
      GridSample derived = task;
      ++derived.order[axis];
      parts.push_back(sum(mul(grad, sampled(x, grid, derived, where), where), 1, {}, where));
    }
    return stack(parts, -1, where);
  }
  const TensorImpl &g = core::defined("grid_slopes", grad, where), &from = core::defined("grid_slopes", x, where);
  const TensorImpl& at = core::defined("grid_slopes", grid, where);
  Tensor out = autograd::result_like(at, where);
  backend_of(from, where).grid_slopes(g, from, at, task, *out.impl());
  return out;
}

void sample_replay(Replay& r) {
  const auto task = r.attributes<GridSample>();
  const Tensor &x = r.saved(0), &grid = r.saved(1);
  if (r.needs(0)) r.give(0, spread(r.grad(), grid, x.shape(), task, r.where()));
  if (r.needs(1)) r.give(1, slopes(r.grad(), x, grid, task, r.where()));
}
void spread_replay(Replay& r) {
  const auto task = r.attributes<GridSample>();
  const Tensor &grad = r.saved(0), &grid = r.saved(1);
  if (r.needs(0)) r.give(0, sampled(r.grad(), grid, task, r.where()));
  if (r.needs(1)) r.give(1, slopes(grad, r.grad(), grid, task, r.where()));
}

void check_grid(const TensorImpl& x, const TensorImpl& grid, SampleMode mode, Where where) {
  if (grid.dtype != x.dtype)
    base::fail<DTypeError>(where, "grid_sample: x is ", x.dtype, " and the grid is ", grid.dtype,
                           "; both must have one type.");
  const int rank = x.rank();
  if (rank != 4 && rank != 5)
    base::fail<ShapeError>(where, "grid_sample: x is ", x.shape,
                           "; it must be [batch, channels, rows, columns] or [batch, channels, depth, rows, columns].");
  if (grid.rank() != rank || grid.shape[0] != x.shape[0] || grid.shape[rank - 1] != rank - 2)
    base::fail<ShapeError>(where, "grid_sample: x is ", x.shape, " and the grid is ", grid.shape,
                           "; the grid must have ", rank, " axes, a batch of ", x.shape[0], ", and ", rank - 2,
                           " coordinates last.");
  for (int axis = 2; axis < rank; ++axis)
    if (x.shape[axis] == 0)
      base::fail<ShapeError>(where, "grid_sample: x is ", x.shape,
                             "; each spatial axis must have size 1 or more to be read from.");
  if (mode == SampleMode::cubic && rank != 4)
    base::fail<ShapeError>(where, "grid_sample: x is ", x.shape, "; mode cubic is for 2 spatial axes.");
}

}  // namespace

Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options, Where where) {
  if (autograd::evens(x, grid)) [[unlikely]]
    return autograd::raised(&grid_sample, where, x, grid, options);
  const TensorImpl &from = core::defined("grid_sample", x, where), &at = core::defined("grid_sample", grid, where);
  autograd::require_floating("grid_sample", from, where);
  core::require_same_device("grid_sample", from, at, where);
  check_grid(from, at, options.mode, where);
  return sampled(x, grid, {options.mode, options.padding, options.align_corners, from.rank() - 2, {}}, where);
}

// --- grids from affine maps ---

namespace {

/// The coordinate of place i of n.
double centre_of(std::int64_t i, std::int64_t n, bool align_corners) {
  const double place = static_cast<double>(2 * i + 1 - n), count = static_cast<double>(n);
  if (!align_corners) return place / count;
  return n > 1 ? place / (count - 1) : 0;
}

/// The homogeneous coordinates of a regular grid, one place a row: [1, places, axes + 1].
Tensor regular_grid(const Shape& size, bool align_corners, const TensorImpl& like, Where where) {
  const int axes = size.rank() - 2;
  std::int64_t places = 1;
  for (int axis = 0; axis < axes; ++axis) places *= size[2 + axis];
  const Tensor grid = empty(Shape({1, places, axes + 1}, where), {.dtype = DType::float64, .device = cpu()}, where);
  auto* next = grid.impl()->as<double>();
  for (std::int64_t place = 0; place < places; ++place) {
    std::int64_t rest = place;
    for (int axis = axes - 1; axis >= 0; --axis) {
      const std::int64_t n = size[2 + axis];
      *next++ = centre_of(rest % n, n, align_corners);
      rest /= n;
    }
    *next++ = 1;
  }
  return autograd::converted(grid, like.dtype, where).to(like.device(), where);
}

}  // namespace

Tensor affine_grid(const Tensor& theta, const Shape& size, AffineGridOptions options, Where where) {
  const TensorImpl& impl = core::defined("affine_grid", theta, where);
  autograd::require_floating("affine_grid", impl, where);
  if (size.rank() != 4 && size.rank() != 5)
    base::fail<ShapeError>(where, "affine_grid: the size is ", size,
                           "; it must be [batch, channels, rows, columns] or [batch, channels, depth, rows, columns].");
  const int axes = size.rank() - 2;
  const Shape expected({size[0], axes, axes + 1}, where);
  if (impl.shape != expected)
    base::fail<ShapeError>(where, "affine_grid: theta is ", impl.shape, "; for the size ", size, " it must be ",
                           expected, ".");
  std::int64_t sizes[5] = {size[0]};
  for (int axis = 0; axis < axes; ++axis) {
    sizes[1 + axis] = size[2 + axis];
    if (size[2 + axis] < 1)
      base::fail<ShapeError>(where, "affine_grid: the size is ", size, "; each spatial axis must have 1 or more.");
  }
  sizes[1 + axes] = axes;
  const Shape result(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(2 + axes)), where);
  const autograd::Rollback rollback;
  const Tensor grid = regular_grid(size, options.align_corners, impl, where);
  return reshape(matmul(grid, transpose(theta, 1, 2, where), where), result, where);
}

}  // namespace capstan
