#include <capstan/ops/rearranging.hpp>

#include "autograd/ops.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::Replay;

namespace {

const char* name_of(PadMode mode) {
  switch (mode) {
    case PadMode::edge: return "edge";
    case PadMode::reflect: return "reflect";
    case PadMode::symmetric: return "symmetric";
    case PadMode::wrap: return "wrap";
    case PadMode::constant: break;
  }
  return "constant";
}

/// How many places a mode can add on each side of an axis.
std::int64_t most_places(PadMode mode, std::int64_t size) {
  if (mode == PadMode::constant) return INT64_MAX;
  if (mode == PadMode::reflect) return size > 0 ? size - 1 : 0;
  if (mode == PadMode::symmetric) return size;
  return size > 0 ? INT64_MAX : 0;
}

/// The result's shape, after everything has been checked.
Shape padded_shape(const Shape& shape, std::span<const Padding> padding, PadMode mode, Where where) {
  if (static_cast<int>(padding.size()) != shape.rank())
    base::fail<ShapeError>(where, "pad: ", padding.size(), " paddings were given for shape ", shape, "; it needs ",
                           shape.rank(), ".");
  std::int64_t sizes[kMaxRank];
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const auto [before, after] = padding[static_cast<std::size_t>(axis)];
    if (before < 0 || after < 0)
      base::fail<ShapeError>(where, "pad: the padding of axis ", axis, " is {", before, ", ", after,
                             "}; neither must be negative.");
    const std::int64_t most = most_places(mode, shape[axis]);
    if (before > most || after > most)
      base::fail<ShapeError>(where, "pad: the padding of axis ", axis, " of shape ", shape, " is {", before, ", ",
                             after, "}; mode ", name_of(mode), " can add at most ", most, " on each side.");
    if (__builtin_add_overflow(shape[axis], before, &sizes[axis]) ||
        __builtin_add_overflow(sizes[axis], after, &sizes[axis]))
      base::fail<ShapeError>(where, "pad: axis ", axis, " would have 2^63 places or more.");
  }
  return Shape(std::span<const std::int64_t>(sizes, padding.size()), where);
}

/// Where the elements stand in the result.
struct Inset {
  Shape shape;
  std::int64_t before[kMaxRank];
};

void constant_replay(Replay& r) {
  const auto inset = r.attributes<Inset>();
  Index indices[kMaxRank] = {all, all, all, all, all, all, all, all};
  for (int axis = 0; axis < inset.shape.rank(); ++axis)
    indices[axis] = range(inset.before[axis], inset.before[axis] + inset.shape[axis]);
  const std::span<const Index> inside(indices, static_cast<std::size_t>(inset.shape.rank()));
  r.give(0, r.grad().index(inside, r.where()));
}

Tensor with_constant(const Tensor& x, const Shape& shape, std::span<const Padding> padding, Scalar value, Where where) {
  const TensorImpl& impl = *x.impl();
  if (impl.dtype == DType::bool8 && value.kind() == Scalar::Kind::integer && value.as_int64() == 0) value = false;
  core::to_element("pad", value, impl.dtype, where);
  Tensor out = autograd::result_like(impl, shape, impl.dtype, where);
  Inset inset{impl.shape, {}};
  std::int64_t offset = 0;
  for (int axis = 0; axis < impl.rank(); ++axis) {
    inset.before[axis] = padding[static_cast<std::size_t>(axis)].before;
    offset += inset.before[axis] * out.impl()->strides[axis];
  }
  const core::Backend& backend = backend_of(impl, where);
  backend.fill(*out.impl(), value);
  if (impl.numel() > 0) {
    const Tensor place = core::make_view(*out.impl(), impl.shape, out.impl()->strides, offset, where);
    backend.copy(impl, *place.impl());
  }
  if (is_floating(impl.dtype)) autograd::record("pad", where, &constant_replay, {&x}, {&out}, {}, inset);
  else autograd::note("pad", where, {&x}, {&out});
  return out;
}

/// Positions first, first - 1, ... of an axis.
Tensor backwards(const Tensor& x, int axis, std::int64_t first, std::int64_t count, Where where) {
  Index indices[kMaxRank] = {all, all, all, all, all, all, all, all};
  const std::int64_t end = first - count;  // -1 would count from the end
  indices[axis] = Range{first, end < 0 ? Range::kOpen : end, -1};
  return x.index(std::span<const Index>(indices, static_cast<std::size_t>(x.rank())), where);
}

Tensor copies_of(const Tensor& x, int axis, std::int64_t count, Where where) {
  if (count == 1) return x;
  std::int64_t counts[kMaxRank] = {1, 1, 1, 1, 1, 1, 1, 1};
  counts[axis] = count;
  return tile(x, std::span<const std::int64_t>(counts, static_cast<std::size_t>(x.rank())), where);
}

/// What stands in front of an axis and behind it, joined with the axis itself.
Tensor extended(const Tensor& x, int axis, Padding padding, PadMode mode, Where where) {
  const std::int64_t size = x.size(axis), before = padding.before, after = padding.after;
  std::vector<Tensor> parts;
  const auto put = [&](std::int64_t count, auto make) {
    if (count > 0) parts.push_back(make());
  };
  switch (mode) {
    case PadMode::constant: break;
    case PadMode::edge:
      put(before, [&] { return repeat(narrow(x, axis, 0, 1, where), before, axis, where); });
      parts.push_back(x);
      put(after, [&] { return repeat(narrow(x, axis, size - 1, 1, where), after, axis, where); });
      break;
    case PadMode::reflect:
      put(before, [&] { return backwards(x, axis, before, before, where); });
      parts.push_back(x);
      put(after, [&] { return backwards(x, axis, size - 2, after, where); });
      break;
    case PadMode::symmetric:
      put(before, [&] { return backwards(x, axis, before - 1, before, where); });
      parts.push_back(x);
      put(after, [&] { return backwards(x, axis, size - 1, after, where); });
      break;
    case PadMode::wrap:
      put(before % size, [&] { return narrow(x, axis, size - before % size, before % size, where); });
      parts.push_back(copies_of(x, axis, before / size + 1 + after / size, where));
      put(after % size, [&] { return narrow(x, axis, 0, after % size, where); });
      break;
  }
  return concat(parts, axis, where);
}

}  // namespace

Tensor pad(const Tensor& x, std::span<const Padding> padding, PadMode mode, Scalar value, Where where) {
  const TensorImpl& impl = core::defined("pad", x, where);
  const Shape shape = padded_shape(impl.shape, padding, mode, where);
  if (mode == PadMode::constant) return with_constant(x, shape, padding, value, where);
  const autograd::Rollback rollback;
  Tensor result = x;
  for (int axis = 0; axis < impl.rank(); ++axis) {
    const Padding around = padding[static_cast<std::size_t>(axis)];
    if (around.before > 0 || around.after > 0) result = extended(result, axis, around, mode, where);
  }
  return result.shares_storage(x) ? result.copy(where) : result;
}
Tensor pad(const Tensor& x, std::initializer_list<Padding> padding, PadMode mode, Scalar value, Where where) {
  return pad(x, std::span<const Padding>(padding.begin(), padding.size()), mode, value, where);
}

}  // namespace capstan
