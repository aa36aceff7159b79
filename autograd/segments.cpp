// Sums, means and extremes of the rows that share a number.
#include <capstan/ops/index.hpp>

#include <limits>

#include "autograd/places.hpp"
#include "lib/core/dispatch.hpp"

namespace capstan {

using autograd::add_chosen;
using autograd::backend_of;
using autograd::converted;
using autograd::hits;
using autograd::note;
using autograd::record;
using autograd::Replay;
using autograd::RowMajor;
using autograd::Selection;
using autograd::taken;
using core::Combine;

namespace {

void check_segments(const char* op, const Shape& data, const Tensor& ids, std::int64_t count, Where where) {
  const Shape& shape = ids.impl()->shape;
  bool fits = shape.rank() <= data.rank();
  for (int axis = 0; fits && axis < shape.rank(); ++axis) fits = shape[axis] == data[axis];
  if (!fits)
    base::fail<ShapeError>(where, op, ": the data are ", data, " and the segment ids ", shape,
                           "; the ids must have the data's leading sizes.");
  if (count < 0) base::fail<ShapeError>(where, op, ": the count is ", count, "; it must be >= 0.");
  if (data.rank() - shape.rank() + 1 > kMaxRank)
    base::fail<ShapeError>(where, op, ": the result would have more than ", kMaxRank, " axes.");
  const core::BadIndex bad = core::backend_of(ids.device(), where, op).check_indices(*ids.impl(), INT64_MIN, count);
  if (bad.position >= 0)
    base::fail<IndexError>(where, op, ": segment id ", bad.value, " at [", autograd::place_text(shape, bad.position),
                           "] is out of range for a count of ", count, "; it must be below ", count, ".");
}

/// Rows of shape `data` in a tensor [count, rest], by their ids, of which negative ones name no row.
Selection choose_segments(const Shape& data, const Tensor& ids, std::int64_t count, Where where) {
  const TensorImpl& index = *ids.impl();
  std::int64_t sizes[kMaxRank];
  int rank = 0;
  sizes[rank++] = count;
  for (int axis = index.rank(); axis < data.rank(); ++axis) sizes[rank++] = data[axis];
  const Shape base(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(rank)), where);
  const RowMajor plain(base);
  Selection chosen{{.base = base, .result = data, .rule = {plain.strides[0], count, true}}, ids};
  for (int axis = 0; axis < data.rank(); ++axis) {
    if (axis < index.rank()) chosen.places.position_strides[axis] = index.strides[axis];
    else chosen.places.strides[axis] = plain.strides[axis - index.rank() + 1];
  }
  return chosen;
}

/// The ids, checked, as int32 or int64.
Tensor checked_ids(const char* op, const Tensor& data, const Tensor& ids, std::int64_t count, Where where) {
  const TensorImpl& impl = core::defined(op, data, where);
  if (impl.dtype == DType::bool8)
    base::fail<DTypeError>(where, op, ": the tensor is bool; it must be a number type, not bool.");
  const Tensor index = autograd::index_tensor(op, impl, ids, where);
  check_segments(op, impl.shape, index, count, where);
  return index;
}

/// Which segments have rows.
Tensor present(const Tensor& ids, std::int64_t count, Where where) {
  const TensorImpl& impl = *ids.impl();
  Tensor result = autograd::result_like(impl, Shape({count}, where), DType::bool8, where);
  core::backend_of(impl.device(), where).fill(*result.impl(), false);
  const Tensor yes = core::scalar_tensor("segment_max", true, DType::bool8, impl.device(), where);
  autograd::combine_into(Combine::set, *result.impl(), yes, choose_segments(impl.shape, ids, count, where), where);
  return result;
}

/// One value for each segment, beside the axes of the result's rows.
Tensor beside_rows(const Tensor& per_segment, int rank, Where where) {
  std::int64_t sizes[kMaxRank], strides[kMaxRank];
  for (int axis = 0; axis < rank; ++axis) sizes[axis] = strides[axis] = 1;
  sizes[0] = per_segment.numel();
  const Shape shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(rank)), where);
  return core::make_view(*per_segment.impl(), shape, strides, 0, where);
}

void extreme_replay(Replay& r) {
  const Where where = r.where();
  const Selection chosen{r.attributes<autograd::Places>(), r.saved(0)};
  const Tensor &data = r.saved(1), &best = r.saved(2);
  const Tensor found = hits(data, taken(best, chosen, where), where);
  const Tensor ones = cast(found, autograd::computing_type(data.dtype()), where);
  const Tensor count = maximum(add_chosen("add_places", ones, chosen, where), 1, where);
  const Tensor share = div(r.grad(), count, where);
  r.give(0, capstan::where(found, taken(share, chosen, where), 0, where).to(data.dtype(), where));
}

/// The lowest (or highest) number of a type: the lowest one that is finite, or infinity.
Scalar bound_of(DType dtype, bool lowest, bool finite) {
  if (!is_floating(dtype))
    return core::visit_integers(dtype, [&]<class T>(core::Type<T>) {
      return Scalar(lowest ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max());
    });
  double most = std::numeric_limits<double>::infinity();
  if (finite)
    most = dtype == DType::float16    ? 65504.0
           : dtype == DType::bfloat16 ? 0x1.FEp127
           : dtype == DType::float32  ? static_cast<double>(std::numeric_limits<float>::max())
                                      : std::numeric_limits<double>::max();
  return lowest ? -most : most;
}

Tensor extreme(const char* op, bool largest, const Tensor& data, const Tensor& ids, std::int64_t count, Where where) {
  const Tensor index = checked_ids(op, data, ids, count, where);
  const TensorImpl& impl = *data.impl();
  const Selection chosen = choose_segments(impl.shape, index, count, where);
  const DType dtype = is_half(impl.dtype) ? DType::float32 : impl.dtype;
  const core::Backend& backend = backend_of(impl, where);
  Tensor out = autograd::result_like(impl, chosen.places.base, dtype, where);
  backend.fill(*out.impl(), bound_of(dtype, largest, false));
  autograd::combine_into(largest ? Combine::max : Combine::min, *out.impl(), data, chosen, where);
  if (!is_floating(dtype)) {
    note(op, where, {&data, &ids}, {&out});
    return out;
  }
  const Tensor some = beside_rows(present(index, count, where), out.rank(), where);
  const Tensor bound = core::scalar_tensor(op, bound_of(impl.dtype, largest, true), dtype, impl.device(), where);
  Tensor filled = autograd::result_like(*out.impl(), where);
  backend.select(*some.impl(), *out.impl(), *bound.impl(), *filled.impl());
  filled = converted(filled, impl.dtype, where);
  record(op, where, &extreme_replay, {&data}, {&filled}, {&chosen.positions, &data, &filled}, chosen.places);
  return filled;
}

}  // namespace

Tensor segment_sum(const Tensor& data, const Tensor& segment_ids, std::int64_t count, Where where) {
  const Tensor index = checked_ids("segment_sum", data, segment_ids, count, where);
  return add_chosen("segment_sum", data, choose_segments(data.impl()->shape, index, count, where), where);
}

Tensor segment_mean(const Tensor& data, const Tensor& segment_ids, std::int64_t count, Where where) {
  const TensorImpl& impl = core::defined("segment_mean", data, where);
  autograd::require_floating("segment_mean", impl, where);
  const Tensor index = checked_ids("segment_mean", data, segment_ids, count, where);
  const autograd::Rollback rollback;
  const DType dtype = is_half(impl.dtype) ? DType::float32 : impl.dtype;
  const Tensor sums =
      add_chosen("segment_sum", data.to(dtype, where), choose_segments(impl.shape, index, count, where), where);
  const Tensor one = core::scalar_tensor("segment_mean", 1, dtype, impl.device(), where);
  const Tensor each = broadcast_to(one, index.shape(), where);
  const Tensor counts = add_chosen("segment_sum", each, choose_segments(index.shape(), index, count, where), where);
  const Tensor mean = div(sums, beside_rows(maximum(counts, 1, where), sums.rank(), where), where);
  return mean.to(impl.dtype, where);
}

Tensor segment_max(const Tensor& data, const Tensor& segment_ids, std::int64_t count, Where where) {
  return extreme("segment_max", true, data, segment_ids, count, where);
}
Tensor segment_min(const Tensor& data, const Tensor& segment_ids, std::int64_t count, Where where) {
  return extreme("segment_min", false, data, segment_ids, count, where);
}

}  // namespace capstan
