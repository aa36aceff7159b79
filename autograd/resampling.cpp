// Other sizes along spatial axes, and channels that become pixels.
#include <capstan/ops/resampling.hpp>

#include <cmath>

#include "autograd/ops.hpp"
#include "autograd/window.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::note;
using autograd::record;
using autograd::Replay;

namespace {

int take_each(double (&to)[3], const double* first, std::size_t count, Where where) {
  if (count < 1 || count > 3)
    base::fail<ShapeError>(where, "Scales: there are ", count, " values; there must be 1 to 3, one for each axis.");
  for (std::size_t i = 0; i < count; ++i) to[i] = first[i];
  return static_cast<int>(count);
}

}  // namespace

Scales::Scales(std::initializer_list<double> each, Where where)
    : count_(take_each(values_, each.begin(), each.size(), where)) {}
Scales::Scales(std::span<const double> each, Where where)
    : count_(take_each(values_, each.data(), each.size(), where)) {}

// --- other sizes ---

namespace {

const char* name_of(InterpolateMode mode) {
  switch (mode) {
    case InterpolateMode::nearest_exact: return "nearest_exact";
    case InterpolateMode::linear: return "linear";
    case InterpolateMode::cubic: return "cubic";
    case InterpolateMode::area: return "area";
    case InterpolateMode::nearest: break;
  }
  return "nearest";
}

void check_factors(const Scales& factors, int axes, Where where) {
  if (factors.count() > 1 && factors.count() != axes)
    base::fail<ShapeError>(where, "interpolate: the scale factor has ", factors.count(), " values; it must have 1 or ",
                           axes, ", one for each spatial axis.");
  for (int axis = 0; axis < factors.count(); ++axis)
    if (!(factors[axis] > 0 && std::isfinite(factors[axis])))
      base::fail<Error>(where, "interpolate: the scale factor of spatial axis ", axis, " is ", factors[axis],
                        "; it must be above 0 and finite.");
}

void check_settings(const Shape& shape, const InterpolateOptions& o, Where where) {
  if (shape.rank() < 3 || shape.rank() > 5)
    base::fail<ShapeError>(where, "interpolate: x is ", shape,
                           "; it must be [batch, channels, ...] with 1 to 3 spatial axes.");
  const int axes = shape.rank() - 2;
  for (int axis = 0; axis < axes; ++axis)
    if (shape[2 + axis] == 0)
      base::fail<ShapeError>(where, "interpolate: x is ", shape,
                             "; each spatial axis must have size 1 or more to be read from.");
  const bool smooth = o.mode == InterpolateMode::linear || o.mode == InterpolateMode::cubic;
  if (o.mode == InterpolateMode::cubic && axes != 2)
    base::fail<ShapeError>(where, "interpolate: x is ", shape, "; mode cubic is for 2 spatial axes.");
  if (o.align_corners && !smooth)
    base::fail<Error>(where, "interpolate: align_corners was set with mode ", name_of(o.mode),
                      "; it goes with linear and cubic.");
  if (o.antialias && !smooth)
    base::fail<Error>(where, "interpolate: antialias was set with mode ", name_of(o.mode),
                      "; it goes with linear and cubic.");
  if ((o.size.count() == 0) == (o.scale_factor.count() == 0))
    base::fail<Error>(where, "interpolate: ", o.size.count() == 0 ? "neither a size nor" : "both a size and",
                      " a scale factor was given; it takes one of them.");
  if (o.recompute_scale_factor && o.size.count() > 0)
    base::fail<Error>(where, "interpolate: recompute_scale_factor was set with a size; it goes with a scale factor.");
  autograd::check_sizes("interpolate", "size", o.size, axes, 1, where);
  check_factors(o.scale_factor, axes, where);
}

/// The size that a factor makes of one.
std::int64_t scaled(const Shape& shape, int axis, double factor, Where where) {
  constexpr double kLargest = 0x1p40;
  const double places = std::floor(static_cast<double>(shape[2 + axis]) * factor);
  if (!(places >= 1 && places <= kLargest))
    base::fail<ShapeError>(where, "interpolate: ", factor, " times spatial axis ", axis, " of shape ", shape, " is ",
                           places, " places; there must be at least 1 and at most 2^40.");
  return static_cast<std::int64_t>(places);
}

core::Resample resolve(const Shape& shape, const InterpolateOptions& o, Where where) {
  check_settings(shape, o, where);
  core::Resample task;
  task.mode = o.mode;
  task.align_corners = o.align_corners;
  task.antialias = o.antialias;
  task.axes = shape.rank() - 2;
  const bool by_factor = o.size.count() == 0;
  for (int i = 0; i < task.axes; ++i) {
    core::ResampledAxis& axis = task.axis[i];
    axis.in = shape[2 + i];
    axis.out = by_factor ? scaled(shape, i, o.scale_factor[i], where) : o.size[i];
    const double in = static_cast<double>(axis.in), out = static_cast<double>(axis.out);
    if (o.align_corners) axis.step = axis.out > 1 ? (in - 1) / (out - 1) : 0;
    else axis.step = by_factor && !o.recompute_scale_factor ? 1 / o.scale_factor[i] : in / out;
  }
  return task;
}

void resample_replay(Replay& r);

Tensor resampled(const Tensor& x, const core::Resample& task, Where where) {
  const char* op = task.adjoint ? "interpolate_backward" : "interpolate";
  const TensorImpl& impl = core::defined(op, x, where);
  std::int64_t sizes[5] = {impl.shape[0], impl.shape[1]};
  for (int i = 0; i < task.axes; ++i) sizes[2 + i] = task.adjoint ? task.axis[i].in : task.axis[i].out;
  const Shape shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(2 + task.axes)), where);
  Tensor out = autograd::result_like(impl, shape, impl.dtype, where);
  backend_of(impl, where).resample(impl, task, *out.impl());
  if (is_floating(impl.dtype)) record(op, where, &resample_replay, {&x}, {&out}, {}, task);
  else note(op, where, {&x}, {&out});
  return out;
}

// The map is linear: its gradient is the transposed map, whose gradient is the map itself.
void resample_replay(Replay& r) {
  auto task = r.attributes<core::Resample>();
  task.adjoint = !task.adjoint;
  r.give(0, resampled(r.grad(), task, r.where()));
}

}  // namespace

Tensor interpolate(const Tensor& x, const InterpolateOptions& options, Where where) {
  const TensorImpl& impl = core::defined("interpolate", x, where);
  const bool moves = options.mode == InterpolateMode::nearest || options.mode == InterpolateMode::nearest_exact;
  if (!moves) autograd::require_floating("interpolate", impl, where);
  return resampled(x, resolve(impl.shape, options, where), where);
}

// --- channels and pixels ---

namespace {

void check_image(const char* op, const Shape& shape, Where where) {
  if (shape.rank() < 3)
    base::fail<ShapeError>(where, op, ": x is ", shape, "; it must be [..., channels, rows, columns].");
}
void check_factor(const char* op, std::int64_t factor, Where where) {
  if (factor < 1) base::fail<ShapeError>(where, op, ": the factor is ", factor, "; it must be at least 1.");
}

std::int64_t product(const char* op, std::int64_t a, std::int64_t b, Where where) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result))
    base::fail<ShapeError>(where, op, ": ", a, " times ", b, " places would be 2^63 or more.");
  return result;
}

/// The leading axes of an image as one.
std::int64_t images_of(const Shape& shape) {
  std::int64_t count = 1;
  for (int axis = 0; axis < shape.rank() - 3; ++axis) count *= shape[axis];
  return count;
}
Shape with_image(const Shape& shape, std::int64_t channels, std::int64_t rows, std::int64_t columns, Where where) {
  std::int64_t sizes[kMaxRank];
  const int rank = shape.rank();
  for (int axis = 0; axis < rank - 3; ++axis) sizes[axis] = shape[axis];
  sizes[rank - 3] = channels, sizes[rank - 2] = rows, sizes[rank - 1] = columns;
  return Shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(rank)), where);
}

}  // namespace

Tensor pixel_shuffle(const Tensor& x, std::int64_t factor, Where where) {
  constexpr const char* op = "pixel_shuffle";
  const Shape shape = core::described(op, x, where).shape;
  check_image(op, shape, where);
  check_factor(op, factor, where);
  const int rank = shape.rank();
  const std::int64_t square = product(op, factor, factor, where), h = shape[rank - 2], w = shape[rank - 1];
  if (shape[rank - 3] % square != 0)
    base::fail<ShapeError>(where, op, ": x is ", shape, " and the factor ", factor, "; the channels, ", shape[rank - 3],
                           ", must be a multiple of ", square, ".");
  const std::int64_t channels = shape[rank - 3] / square;
  const Shape result = with_image(shape, channels, product(op, h, factor, where), product(op, w, factor, where), where);
  const Shape parts({images_of(shape), channels, factor, factor, h, w}, where);
  const autograd::Rollback rollback;
  return reshape(permute(reshape(x, parts, where), {0, 1, 4, 2, 5, 3}, where), result, where);
}

Tensor pixel_unshuffle(const Tensor& x, std::int64_t factor, Where where) {
  constexpr const char* op = "pixel_unshuffle";
  const Shape shape = core::described(op, x, where).shape;
  check_image(op, shape, where);
  check_factor(op, factor, where);
  const int rank = shape.rank();
  const std::int64_t channels = shape[rank - 3], h = shape[rank - 2], w = shape[rank - 1];
  if (h % factor != 0 || w % factor != 0)
    base::fail<ShapeError>(where, op, ": x is ", shape, " and the factor ", factor, "; it must divide the rows, ", h,
                           ", and the columns, ", w, ".");
  const std::int64_t squares = product(op, channels, product(op, factor, factor, where), where);
  const Shape result = with_image(shape, squares, h / factor, w / factor, where);
  const Shape parts({images_of(shape), channels, h / factor, factor, w / factor, factor}, where);
  const autograd::Rollback rollback;
  return reshape(permute(reshape(x, parts, where), {0, 1, 3, 5, 2, 4}, where), result, where);
}

Tensor channel_shuffle(const Tensor& x, std::int64_t groups, Where where) {
  const Shape shape = core::described("channel_shuffle", x, where).shape;
  if (shape.rank() < 2)
    base::fail<ShapeError>(where, "channel_shuffle: x is ", shape, "; it must be [batch, channels, ...].");
  if (groups < 1 || shape[1] % groups != 0)
    base::fail<ShapeError>(where, "channel_shuffle: ", groups, " groups of ", shape[1],
                           " channels were asked for; they must be at least 1, and divide the channels.");
  std::int64_t places = 1;
  for (int axis = 2; axis < shape.rank(); ++axis) places *= shape[axis];
  const Shape parts({shape[0], groups, shape[1] / groups, places}, where);
  const autograd::Rollback rollback;
  return reshape(permute(reshape(x, parts, where), {0, 2, 1, 3}, where), shape, where);
}

}  // namespace capstan
