// Max pooling and its reverse.
#include <capstan/ops/index.hpp>

#include "autograd/places.hpp"
#include "autograd/pooling.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::note;
using autograd::Pooling;
using autograd::record;
using autograd::Replay;
using autograd::WindowRequest;

namespace {

// Once it is known which elements won, pooling reads them, and its gradient adds to them. Each of the two is the
// gradient of the other, so gradients of any order are made of these.

Tensor scatter_to_winners(const Tensor& grad, const Tensor& places, const Pooling& pooling, Where where);

Tensor gather_winners(const Tensor& x, const Tensor& places, const Pooling& pooling, Where where) {
  const Tensor packed = autograd::dense(x, where);
  const TensorImpl& impl = *packed.impl();
  Tensor out = autograd::result_like(impl, pooling.result, impl.dtype, where);
  backend_of(impl, where).max_pool_gather(pooling.task, impl, *places.impl(), *out.impl());
  record(
      "max_pool_gather", where,
      [](Replay& r) { r.give(0, scatter_to_winners(r.grad(), r.saved(0), r.attributes<Pooling>(), r.where())); }, {&x},
      {&out}, {&places}, pooling);
  return out;
}

Tensor scatter_to_winners(const Tensor& grad, const Tensor& places, const Pooling& pooling, Where where) {
  const Tensor packed = autograd::dense(grad, where);
  const TensorImpl& impl = *packed.impl();
  Tensor out = autograd::result_like(impl, pooling.input, impl.dtype, where);
  backend_of(impl, where).max_pool_scatter(pooling.task, impl, *places.impl(), *out.impl());
  record(
      "max_pool_scatter", where,
      [](Replay& r) { r.give(0, gather_winners(r.grad(), r.saved(0), r.attributes<Pooling>(), r.where())); }, {&grad},
      {&out}, {&places}, pooling);
  return out;
}

void max_pool_replay(Replay& r) {
  r.give(0, scatter_to_winners(r.grad(), r.saved(0), r.attributes<Pooling>(), r.where()));
}

/// The smallest type that can say which input won.
DType place_type(const core::PoolTask& task) {
  if (task.fits_byte()) return DType::uint8;
  return task.window.in() <= INT32_MAX ? DType::int32 : DType::int64;
}

void require_number(const char* op, const TensorImpl& x, Where where) {
  if (x.dtype == DType::bool8)
    base::fail<DTypeError>(where, op, ": the tensor is bool; it must be a number type, not bool.");
}

/// Without `with_indices` those of the result are undefined.
MaxPoolResult pooled(const char* op, const Tensor& x, const Pooling& pooling, bool with_indices, Where where) {
  const Tensor* const inputs[] = {&x};
  const bool followed = is_floating(x.impl()->dtype) && autograd::followers(inputs) != 0;
  const Tensor packed = autograd::dense(x, where);
  const TensorImpl& impl = *packed.impl();
  const DType type = place_type(pooling.task);
  const core::Backend& backend = backend_of(impl, where);
  MaxPoolResult result{autograd::result_like(impl, pooling.result, impl.dtype, where), Tensor()};
  Tensor places;
  if (followed || with_indices) places = autograd::result_like(impl, pooling.result, type, where);
  backend.max_pool(pooling.task, impl, *result.values.impl(), places.impl());
  if (with_indices && type == DType::int64) {
    result.indices = places;
  } else if (with_indices) {
    result.indices = autograd::result_like(impl, pooling.result, DType::int64, where);
    backend.max_pool_positions(pooling.task, *places.impl(), *result.indices.impl());
  }
  autograd::note_windows(pooling);
  if (followed && with_indices)
    record(op, where, &max_pool_replay, {&x}, {&result.values}, {&places}, pooling, {&result.values, &result.indices});
  else if (followed) record(op, where, &max_pool_replay, {&x}, {&result.values}, {&places}, pooling);
  else if (with_indices) note(op, where, {&x}, {&result.values, &result.indices});
  else note(op, where, {&x}, {&result.values});
  return result;
}

MaxPoolResult max_pool(const char* op, int axes, const Tensor& x, const Sizes& kernel, const MaxPoolOptions& options,
                       bool with_indices, Where where) {
  const TensorImpl& impl = core::defined(op, x, where);
  require_number(op, impl, where);
  const WindowRequest request{
      .stride = options.stride, .padding = options.padding, .dilation = options.dilation, .ceil = options.ceil};
  return pooled(op, x, autograd::pool_windows(op, impl.shape, axes, kernel, request, where), with_indices, where);
}

MaxPoolResult adaptive_max_pool(const char* op, int axes, const Tensor& x, const Sizes& output_size, bool with_indices,
                                Where where) {
  const TensorImpl& impl = core::defined(op, x, where);
  require_number(op, impl, where);
  return pooled(op, x, autograd::adaptive_windows(op, impl.shape, axes, output_size, where), with_indices, where);
}

// --- the reverse ---

/// The spatial sizes before pooling with these settings.
void unpooled_sizes(const char* op, const Shape& shape, int axes, const Sizes& kernel, const MaxUnpoolOptions& options,
                    std::int64_t* sizes, Where where) {
  autograd::check_sizes(op, "kernel", kernel, axes, 1, where);
  autograd::check_sizes(op, "output size", options.output_size, axes, 0, where);
  std::int64_t kernels[3];
  for (int i = 0; i < axes; ++i) kernels[i] = kernel[i];
  const Sizes& stride = options.stride.count() == 0 ? kernel : options.stride;
  autograd::check_window_settings(op, axes, kernels, {.stride = stride, .padding = options.padding}, where);
  for (int i = 0; i < axes; ++i) {
    const std::int64_t windows = shape[shape.rank() - axes + i], step = stride[i];
    const Padding padding = options.padding[i];
    const bool same = options.padding.same();
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(windows, step, &reach) || reach > INT64_MAX / 2)
      base::fail<ShapeError>(where, op, ": ", windows, " windows along spatial axis ", i, ", ", step,
                             " apart, reach over 2^62 places or more.");
    const std::int64_t covered = same ? reach : reach - step - padding.before - padding.after + kernels[i];
    const std::int64_t low = covered - step + 1, high = same ? covered : covered + step - 1;
    sizes[i] = options.output_size.count() > 0 ? options.output_size[i] : covered;
    if (sizes[i] < 0 || sizes[i] < low || sizes[i] > high)
      base::fail<ShapeError>(where, op, ": the output size of spatial axis ", i, " is ", sizes[i],
                             "; pooling takes sizes from ", low, " to ", high, " to the tensor's ", windows, ".");
  }
}

Tensor max_unpool(const char* op, int axes, const Tensor& x, const Tensor& indices, const Sizes& kernel,
                  const MaxUnpoolOptions& options, Where where) {
  const TensorImpl& impl = core::defined(op, x, where);
  require_number(op, impl, where);
  autograd::check_images(op, impl.shape, axes, where);
  const Tensor index = autograd::index_tensor(op, impl, indices, where);
  if (index.impl()->shape != impl.shape)
    base::fail<ShapeError>(where, op, ": the tensor is ", impl.shape, " and the indices are ", index.impl()->shape,
                           "; the shapes must be equal.");
  std::int64_t sizes[3], places = 1;
  unpooled_sizes(op, impl.shape, axes, kernel, options, sizes, where);
  const Shape result = autograd::with_spatial_sizes(impl.shape, axes, sizes, where);
  for (int i = 0; i < axes; ++i) places *= sizes[i];

  // the spatial axes as one
  std::int64_t flat[kMaxRank], windows = 1;
  const int planes = impl.rank() - axes;
  for (int i = 0; i < planes; ++i) flat[i] = impl.shape[i];
  for (int i = planes; i < impl.rank(); ++i) windows *= impl.shape[i];
  const std::span<const std::int64_t> flat_sizes(flat, static_cast<std::size_t>(planes + 1));
  flat[planes] = places;
  const Shape to(flat_sizes, where);
  flat[planes] = windows;
  const Shape from(flat_sizes, where);

  autograd::require_inside(op, to, planes, index, 0, places, where);
  const autograd::Rollback rollback;
  const Tensor zero = core::scalar_tensor(op, 0, impl.dtype, impl.device(), where);
  const Tensor whole =
      scatter(broadcast_to(zero, to, where), reshape(index, from, where), reshape(x, from, where), -1, where);
  return reshape(whole, result, where);
}

}  // namespace

Tensor max_pool1d(const Tensor& x, Sizes kernel, const MaxPoolOptions& options, Where where) {
  return max_pool("max_pool1d", 1, x, kernel, options, false, where).values;
}
Tensor max_pool2d(const Tensor& x, Sizes kernel, const MaxPoolOptions& options, Where where) {
  return max_pool("max_pool2d", 2, x, kernel, options, false, where).values;
}
Tensor max_pool3d(const Tensor& x, Sizes kernel, const MaxPoolOptions& options, Where where) {
  return max_pool("max_pool3d", 3, x, kernel, options, false, where).values;
}
MaxPoolResult max_pool1d_with_indices(const Tensor& x, Sizes kernel, const MaxPoolOptions& options, Where where) {
  return max_pool("max_pool1d_with_indices", 1, x, kernel, options, true, where);
}
MaxPoolResult max_pool2d_with_indices(const Tensor& x, Sizes kernel, const MaxPoolOptions& options, Where where) {
  return max_pool("max_pool2d_with_indices", 2, x, kernel, options, true, where);
}
MaxPoolResult max_pool3d_with_indices(const Tensor& x, Sizes kernel, const MaxPoolOptions& options, Where where) {
  return max_pool("max_pool3d_with_indices", 3, x, kernel, options, true, where);
}

Tensor max_unpool1d(const Tensor& x, const Tensor& indices, Sizes kernel, const MaxUnpoolOptions& options,
                    Where where) {
  return max_unpool("max_unpool1d", 1, x, indices, kernel, options, where);
}
Tensor max_unpool2d(const Tensor& x, const Tensor& indices, Sizes kernel, const MaxUnpoolOptions& options,
                    Where where) {
  return max_unpool("max_unpool2d", 2, x, indices, kernel, options, where);
}
Tensor max_unpool3d(const Tensor& x, const Tensor& indices, Sizes kernel, const MaxUnpoolOptions& options,
                    Where where) {
  return max_unpool("max_unpool3d", 3, x, indices, kernel, options, where);
}

Tensor adaptive_max_pool1d(const Tensor& x, Sizes output_size, Where where) {
  return adaptive_max_pool("adaptive_max_pool1d", 1, x, output_size, false, where).values;
}
Tensor adaptive_max_pool2d(const Tensor& x, Sizes output_size, Where where) {
  return adaptive_max_pool("adaptive_max_pool2d", 2, x, output_size, false, where).values;
}
Tensor adaptive_max_pool3d(const Tensor& x, Sizes output_size, Where where) {
  return adaptive_max_pool("adaptive_max_pool3d", 3, x, output_size, false, where).values;
}
MaxPoolResult adaptive_max_pool1d_with_indices(const Tensor& x, Sizes output_size, Where where) {
  return adaptive_max_pool("adaptive_max_pool1d_with_indices", 1, x, output_size, true, where);
}
MaxPoolResult adaptive_max_pool2d_with_indices(const Tensor& x, Sizes output_size, Where where) {
  return adaptive_max_pool("adaptive_max_pool2d_with_indices", 2, x, output_size, true, where);
}
MaxPoolResult adaptive_max_pool3d_with_indices(const Tensor& x, Sizes output_size, Where where) {
  return adaptive_max_pool("adaptive_max_pool3d_with_indices", 3, x, output_size, true, where);
}

Tensor global_max_pool(const Tensor& x, ReduceOptions options, Where where) {
  const TensorImpl& impl = core::defined("global_max_pool", x, where);
  require_number("global_max_pool", impl, where);
  const Pooling pooling = autograd::global_window("global_max_pool", impl.shape, options, where);
  return pooled("global_max_pool", x, pooling, false, where).values;
}

}  // namespace capstan
