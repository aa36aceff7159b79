#include <capstan/ops/rearranging.hpp>

#include <capstan/create.hpp>
#include <capstan/ops/index.hpp>

#include "autograd/reducing.hpp"
#include "lib/core/recording.hpp"

namespace capstan {

using autograd::backend_of;

namespace {

/// What lies behind the first `outer_axes` axes, `count` times in a row: seen as [outer, count, inner] with the middle
/// axis stretched. `axis` grows by that.
Tensor multiplied(const char* op, const Tensor& x, int axis, int outer_axes, std::int64_t count, Where where) {
  const Shape& shape = x.impl()->shape;
  std::int64_t sizes[kMaxRank], outer = 1, inner = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    sizes[i] = shape[i];
    (i < outer_axes ? outer : inner) *= shape[i];
  }
  if (__builtin_mul_overflow(sizes[axis], count, &sizes[axis]))
    base::fail<ShapeError>(where, op, ": ", count, " times axis ", axis, " of shape ", shape,
                           " would be 2^63 places or more.");
  const Shape result(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(shape.rank())), where);
  const Tensor flat = reshape(x, {outer, 1, inner}, where);
  return reshape(broadcast_to(flat, {outer, count, inner}, where), result, where);
}

/// Neither x's elements nor a view that is stretched: reshape may have copied before the last axis was.
Tensor new_tensor(const Tensor& result, const Tensor& x, Where where) {
  return result.shares_storage(x) || !result.is_contiguous() ? result.copy(where) : result;
}

void require_count(const char* op, std::int64_t count, Where where) {
  if (count < 0) base::fail<ShapeError>(where, op, ": count ", count, " is negative; counts must be >= 0.");
}

}  // namespace

Tensor tile(const Tensor& x, std::span<const std::int64_t> counts, Where where) {
  const TensorImpl& impl = core::defined("tile", x, where);
  if (counts.size() > kMaxRank)
    base::fail<ShapeError>(where, "tile: ", counts.size(), " counts were given; a tensor has at most ", kMaxRank,
                           " axes.");
  for (const std::int64_t count : counts) require_count("tile", count, where);
  const int given = static_cast<int>(counts.size()), fresh = given > impl.rank() ? given - impl.rank() : 0;
  const int rank = impl.rank() + fresh;
  std::int64_t sizes[kMaxRank];
  for (int axis = 0; axis < rank; ++axis) sizes[axis] = axis < fresh ? 1 : impl.shape[axis - fresh];
  const autograd::Rollback rollback;
  Tensor result = reshape(x, Shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(rank)), where), where);
  for (int i = 0; i < given; ++i) {
    const std::int64_t count = counts[static_cast<std::size_t>(i)];
    const int axis = rank - given + i;
    if (count != 1) result = multiplied("tile", result, axis, axis, count, where);
  }
  return new_tensor(result, x, where);
}
Tensor tile(const Tensor& x, std::initializer_list<std::int64_t> counts, Where where) {
  return tile(x, std::span<const std::int64_t>(counts.begin(), counts.size()), where);
}

Tensor repeat(const Tensor& x, std::int64_t count, int axis, Where where) {
  const TensorImpl& impl = core::defined("repeat", x, where);
  const int along = core::normalize_axis("repeat", axis, impl.rank(), where);
  require_count("repeat", count, where);
  const autograd::Rollback rollback;
  const Tensor result = multiplied("repeat", x, along, along + 1, count, where);
  return new_tensor(result, x, where);
}

Tensor repeat(const Tensor& x, const Tensor& counts, int axis, Where where) {
  const TensorImpl &impl = core::defined("repeat", x, where), &c = core::defined("repeat", counts, where);
  const int along = core::normalize_axis("repeat", axis, impl.rank(), where);
  if (c.dtype != DType::int32 && c.dtype != DType::int64)
    base::fail<DTypeError>(where, "repeat: the counts are ", c.dtype, "; they must be int32 or int64.");
  core::require_same_device("repeat", impl, c, where);
  if (c.rank() > 1 || (c.numel() != 1 && c.numel() != impl.shape[along]))
    base::fail<ShapeError>(where, "repeat: the counts are ", c.shape, " and axis ", axis, " of shape ", impl.shape,
                           " has size ", impl.shape[along],
                           "; there must be one count for each place, or one for all.");
  const Tensor host = counts.to(cpu(), where).to(DType::int64, where);
  const std::vector<std::int64_t> times = host.to_vector<std::int64_t>(where);
  std::int64_t total = 0;
  for (const std::int64_t count : times) {
    require_count("repeat", count, where);
    if (__builtin_add_overflow(total, count, &total))
      base::fail<ShapeError>(where, "repeat: the counts add up to 2^63 or more.");
  }
  if (times.size() == 1) return repeat(x, times[0], along, where);
  const Tensor places = core::make_tensor(Shape({total}, where), DType::int64, cpu(), where);
  auto* to = places.impl()->as<std::int64_t>();
  for (std::size_t place = 0; place < times.size(); ++place)
    for (std::int64_t i = 0; i < times[place]; ++i) *to++ = static_cast<std::int64_t>(place);
  return gather(x, places.to(impl.device(), where), along, where);
}

Tensor flip(const Tensor& x, Axes axes, Where where) {
  const TensorImpl& impl = core::defined("flip", x, where);
  const unsigned mask = autograd::mask_of("flip", impl, axes, where);
  Index indices[kMaxRank] = {all, all, all, all, all, all, all, all};
  for (int axis = 0; axis < impl.rank(); ++axis)
    if (mask >> axis & 1u) indices[axis] = from(-1, -1);
  return x.index(std::span<const Index>(indices, static_cast<std::size_t>(impl.rank())), where);
}

Tensor roll(const Tensor& x, std::span<const std::int64_t> shifts, std::span<const int> axes, Where where) {
  const TensorImpl& impl = core::defined("roll", x, where);
  if (shifts.size() != axes.size())
    base::fail<ShapeError>(where, "roll: ", shifts.size(), " shifts and ", axes.size(),
                           " axes were given; there must be one shift for each axis.");
  for (const int axis : axes) core::normalize_axis("roll", axis, impl.rank(), where);
  const autograd::Rollback rollback;
  Tensor result = x;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = core::normalize_axis("roll", axes[i], impl.rank(), where);
    const std::int64_t size = impl.shape[axis];
    const std::int64_t tail = size == 0 ? 0 : (shifts[i] % size + size) % size;
    if (tail == 0) continue;
    const Tensor back = narrow(result, axis, size - tail, tail, where);
    result = concat({back, narrow(result, axis, 0, size - tail, where)}, axis, where);
  }
  return result.shares_storage(x) ? result.copy(where) : result;
}
Tensor roll(const Tensor& x, std::initializer_list<std::int64_t> shifts, std::initializer_list<int> axes, Where where) {
  return roll(x, std::span<const std::int64_t>(shifts.begin(), shifts.size()),
              std::span<const int>(axes.begin(), axes.size()), where);
}
Tensor roll(const Tensor& x, std::int64_t shift, int axis, Where where) {
  return roll(x, std::span<const std::int64_t>(&shift, 1), std::span<const int>(&axis, 1), where);
}

// --- sequences and their lengths ---

namespace {

/// For each batch entry where its positions come from, in rows of all sequences one behind the other. `lengths` is
/// contiguous.
Tensor reversed_places(const Tensor& lengths, std::int64_t batch, std::int64_t time, Where where) {
  const Tensor host = lengths.to(cpu(), where).to(DType::int64, where);
  core::host_access("reverse_sequence", *host.impl(), where);
  Tensor places = core::make_tensor(Shape({batch * time}, where), DType::int64, cpu(), where);
  auto* to = places.impl()->as<std::int64_t>();
  for (std::int64_t i = 0; i < batch; ++i) {
    const std::int64_t length = host.impl()->as<std::int64_t>()[i];
    for (std::int64_t t = 0; t < time; ++t) *to++ = i * time + (t < length ? length - 1 - t : t);
  }
  return places.to(lengths.impl()->device(), where);
}

/// The rows of [batch, time, rest] taken in their new order, and seen with x's axes again.
Tensor reversed(const Tensor& x, const Tensor& lengths, int sequence, int batch, Where where) {
  const auto rank = static_cast<std::size_t>(x.rank());
  int order[kMaxRank] = {batch, sequence}, back[kMaxRank], at = 2;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (axis != sequence && axis != batch) order[at++] = axis;
  for (int i = 0; i < x.rank(); ++i) back[order[i]] = i;
  const Tensor turned = permute(x, std::span<const int>(order, rank), where);
  const std::int64_t batches = turned.size(0), time = turned.size(1);
  const Tensor rows = reshape(turned, {batches * time, -1}, where);
  const Tensor taken = gather(rows, reversed_places(lengths, batches, time, where), 0, where);
  return permute(reshape(taken, turned.shape(), where), std::span<const int>(back, rank), where);
}

}  // namespace

Tensor reverse_sequence(const Tensor& x, const Tensor& lengths, int sequence_axis, int batch_axis, Where where) {
  constexpr const char* op = "reverse_sequence";
  const TensorImpl &impl = core::defined(op, x, where), &l = core::defined(op, lengths, where);
  const int along = core::normalize_axis(op, sequence_axis, impl.rank(), where);
  const int first = core::normalize_axis(op, batch_axis, impl.rank(), where);
  if (along == first)
    base::fail<ShapeError>(where, op, ": the sequence axis and the batch axis are both ", along, "; they must differ.");
  if (l.dtype != DType::int32 && l.dtype != DType::int64)
    base::fail<DTypeError>(where, op, ": the lengths are ", l.dtype, "; they must be int32 or int64.");
  core::require_same_device(op, impl, l, where);
  const std::int64_t batch = impl.shape[first], time = impl.shape[along];
  if (l.rank() != 1 || l.shape[0] != batch)
    base::fail<ShapeError>(where, op, ": the lengths are ", l.shape, " and axis ", batch_axis, " of shape ", impl.shape,
                           " has size ", batch, "; there must be one length for each batch entry.");
  const Tensor packed = autograd::dense(lengths, where);
  const core::BadIndex bad = backend_of(impl, where, "reverse_sequence").check_indices(*packed.impl(), 0, time + 1);
  if (bad.position >= 0)
    base::fail<IndexError>(where, op, ": length ", bad.value, " of batch entry ", bad.position,
                           " is out of range for axis ", sequence_axis, " of shape ", impl.shape,
                           "; it must be in [0, ", time, "].");
  const autograd::Rollback rollback;
  return impl.numel() == 0 ? x.copy(where) : reversed(x, packed, along, first, where);
}

Tensor sequence_mask(const Tensor& lengths, std::int64_t max_length, DType dtype, Where where) {
  const TensorImpl& impl = core::defined("sequence_mask", lengths, where);
  if (!is_integer(impl.dtype))
    base::fail<DTypeError>(where, "sequence_mask: the lengths are ", impl.dtype, "; they must be of an integer type.");
  if (impl.rank() == kMaxRank)
    base::fail<ShapeError>(where, "sequence_mask: the lengths have ", kMaxRank, " axes already; that is the most.");
  const Tensor wide = lengths.to(DType::int64, where);
  if (max_length < 0 && impl.numel() > 0) max_length = max(wide, {}, {}, where).item<std::int64_t>(where);
  if (max_length < 0) max_length = 0;
  const Tensor places = arange(max_length, where).to(impl.device(), where);
  return less(places, expand_dims(wide, -1, where), where).to(dtype, where);
}

}  // namespace capstan
