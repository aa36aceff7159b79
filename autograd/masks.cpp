// Masks: elements chosen where a bool tensor is true, and where elements are not zero.
#include <capstan/ops/index.hpp>

#include "autograd/places.hpp"
#include "autograd/reducing.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::compress;
using autograd::count_mask;
using autograd::CountedMask;
using autograd::note;
using autograd::record;
using autograd::Replay;

namespace autograd {

namespace {

struct Masked {
  Shape base;
  std::int64_t count;
};

Tensor compress_counted(const char* op, const Tensor& x, const CountedMask& mask, Where where);

/// Zeros of the base's shape with the values where the mask is true: the gradient of choosing by it.
Tensor expand(const Tensor& values, const CountedMask& mask, const Shape& base, Where where) {
  const TensorImpl& impl = *values.impl();
  const Tensor packed = dense(values, where);
  Tensor out = result_like(impl, base, impl.dtype, where);
  backend_of(impl, where).expand(*packed.impl(), *mask.mask.impl(), *mask.before.impl(), *out.impl());
  record(
      "expand", where,
      [](Replay& r) {
        const CountedMask of{r.saved(0), r.saved(1), r.attributes<Masked>().count};
        r.give(0, compress_counted("compress", r.grad(), of, r.where()));
      },
      {&values}, {&out}, {&mask.mask, &mask.before}, Masked{base, mask.count});
  return out;
}

Tensor compress_counted(const char* op, const Tensor& x, const CountedMask& mask, Where where) {
  const TensorImpl& impl = *x.impl();
  std::int64_t sizes[kMaxRank + 1] = {mask.count};
  std::size_t rank = 1;
  for (int axis = mask.mask.impl()->rank(); axis < impl.rank(); ++axis) sizes[rank++] = impl.shape[axis];
  const Shape shape(std::span<const std::int64_t>(sizes, rank), where);
  const Tensor packed = dense(x, where);
  Tensor out = result_like(impl, shape, impl.dtype, where);
  backend_of(impl, where).compress(*packed.impl(), *mask.mask.impl(), *mask.before.impl(), *out.impl());
  if (is_floating(impl.dtype))
    record(
        op, where,
        [](Replay& r) {
          const auto masked = r.attributes<Masked>();
          r.give(0, expand(r.grad(), {r.saved(0), r.saved(1), masked.count}, masked.base, r.where()));
        },
        {&x}, {&out}, {&mask.mask, &mask.before}, Masked{impl.shape, mask.count});
  else note(op, where, {&x, &mask.mask}, {&out});
  return out;
}

}  // namespace

CountedMask count_mask(const Tensor& mask, Where where) {
  CountedMask counted{dense(mask, where), {}, 0};
  const TensorImpl& impl = *counted.mask.impl();
  const std::int64_t blocks = (impl.numel() + core::kMaskBlock - 1) / core::kMaskBlock;
  counted.before = core::make_tensor(Shape({blocks}, where), DType::int64, impl.device(), where);
  counted.count = core::backend_of(impl.device(), where).count_true(impl, *counted.before.impl());
  return counted;
}

Tensor compress(const char* op, const Tensor& x, const Tensor& mask, Where where) {
  return compress_counted(op, x, count_mask(mask, where), where);
}

}  // namespace autograd

namespace {

const TensorImpl& mask_beside(const char* op, const TensorImpl& x, const Tensor& mask, Where where) {
  const TensorImpl& impl = core::defined(op, mask, where);
  if (impl.dtype != DType::bool8) base::fail<DTypeError>(where, op, ": the mask is ", impl.dtype, "; it must be bool.");
  core::require_same_device(op, x, impl, where);
  return impl;
}

/// Where x is not zero.
Tensor mask_of(const Tensor& x, Where where) { return x.impl()->dtype == DType::bool8 ? x : not_equal(x, 0, where); }

/// [n, rank], or its transpose: the places of the elements that are not zero.
Tensor places_of(const Tensor& x, bool transposed, Where where) {
  const TensorImpl& impl = *x.impl();
  const CountedMask mask = count_mask(mask_of(x, where), where);
  const core::Backend& backend = backend_of(impl, where);
  const std::int64_t count = mask.count, rank = impl.rank();
  const Tensor flat = autograd::result_like(impl, Shape({count}, where), DType::int64, where);
  backend.true_positions(*mask.mask.impl(), *mask.before.impl(), *flat.impl());
  const Shape table = transposed ? Shape({rank, count}, where) : Shape({count, rank}, where);
  Tensor places = autograd::result_like(impl, table, DType::int64, where);
  const std::int64_t strides[] = {transposed ? 1 : rank, transposed ? count : 1};
  const Tensor rows = core::make_view(*places.impl(), Shape({count, rank}, where), strides, 0, where);
  backend.unravel(*flat.impl(), impl.shape, *rows.impl());
  return places;
}

void fill_replay(Replay& r) {
  const Where where = r.where();
  if (r.needs(0)) r.give(0, capstan::where(r.saved(0), 0, r.grad(), where));
  if (r.needs(1))
    r.give(1, autograd::sum_to(capstan::where(r.saved(0), r.grad(), 0, where), r.attributes<Shape>(), where));
}

}  // namespace

Tensor masked_select(const Tensor& x, const Tensor& mask, Where where) {
  const TensorImpl& impl = core::defined("masked_select", x, where);
  const TensorImpl& flags = mask_beside("masked_select", impl, mask, where);
  const Shape shape = core::broadcast_shapes("masked_select", impl.shape, flags.shape, where);
  const autograd::Rollback rollback;
  const Tensor whole = impl.shape == shape ? x : broadcast_to(x, shape, where);
  return compress("masked_select", whole, flags.shape == shape ? mask : broadcast_to(mask, shape, where), where);
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value, Where where) {
  const TensorImpl& impl = core::defined("masked_fill", x, where);
  const TensorImpl& flags = mask_beside("masked_fill", impl, mask, where);
  autograd::require_same_type("masked_fill", impl, value, "value", where);
  if (core::broadcast_shapes("masked_fill", impl.shape, flags.shape, where) != impl.shape)
    base::fail<ShapeError>(where, "masked_fill: the mask is ", flags.shape, " and the tensor ", impl.shape,
                           "; the mask must broadcast to the tensor's shape.");
  autograd::require_broadcast("masked_fill", value.impl()->shape, impl.shape, where);
  Tensor out = autograd::result_like(impl, where);
  backend_of(impl, where).select(flags, *value.impl(), impl, *out.impl());
  if (is_floating(impl.dtype))
    record("masked_fill", where, &fill_replay, {&x, &value}, {&out}, {&mask}, value.impl()->shape);
  else note("masked_fill", where, {&x, &mask, &value}, {&out});
  return out;
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value, Where where) {
  const TensorImpl& impl = core::defined("masked_fill", x, where);
  return masked_fill(x, mask, core::scalar_tensor("masked_fill", value, impl.dtype, impl.device(), where), where);
}

std::vector<Tensor> nonzero(const Tensor& x, Where where) {
  const TensorImpl& impl = core::defined("nonzero", x, where);
  if (impl.rank() == 0)
    base::fail<ShapeError>(where, "nonzero: the tensor has shape []; it needs an axis for its indices.");
  const Tensor places = places_of(x, true, where);
  const std::int64_t count = places.impl()->shape[1], one = 1;
  std::vector<Tensor> result;
  for (int axis = 0; axis < impl.rank(); ++axis)
    result.push_back(core::make_view(*places.impl(), Shape({count}, where), &one, axis * count, where));
  if (autograd::attended()) {
    const Tensor* const inputs[] = {&x};
    std::vector<const Tensor*> outputs;
    for (const Tensor& indices : result) outputs.push_back(&indices);
    autograd::append_note("nonzero", where, inputs, outputs);
  }
  return result;
}

Tensor argwhere(const Tensor& x, Where where) {
  core::defined("argwhere", x, where);
  Tensor result = places_of(x, false, where);
  note("argwhere", where, {&x}, {&result});
  return result;
}

Tensor count_nonzero(const Tensor& x, Axes axes, ReduceOptions options, Where where) {
  const TensorImpl& impl = core::defined("count_nonzero", x, where);
  const autograd::Plan plan("count_nonzero", impl, axes, options, where);
  const Tensor mask = mask_of(x, where);
  Tensor out = autograd::reduce_as(kernels::Reduction::sum, *mask.impl(), plan, DType::int64, where);
  note("count_nonzero", where, {&x}, {&out});
  return out;
}

}  // namespace capstan
