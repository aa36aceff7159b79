#include <capstan/ops/rearranging.hpp>

#include <algorithm>

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

/// Where the elements stand in the result, and what fills the places around them.
struct Inset {
  PadMode mode;
  Shape inside, whole;
  std::int64_t before[kMaxRank] = {};
};

/// Some places along an axis: first, first + step, ...
struct Places {
  int axis;
  std::int64_t first, step, count;
};
/// Those places of a padded tensor: of the axes before whole, of those behind where the elements stand.
Tensor view_of(const Tensor& padded, const Inset& inset, const Places& places, Where where) {
  const TensorImpl& impl = *padded.impl();
  std::int64_t sizes[kMaxRank], strides[kMaxRank], offset = 0;
  for (int axis = 0; axis < impl.rank(); ++axis) {
    const bool along = axis == places.axis, behind = axis > places.axis;
    sizes[axis] = along ? places.count : behind ? inset.inside[axis] : inset.whole[axis];
    strides[axis] = along ? places.step * impl.strides[axis] : impl.strides[axis];
    offset += (along ? places.first : behind ? inset.before[axis] : 0) * impl.strides[axis];
  }
  const Shape shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(impl.rank())), where);
  return core::make_view(impl, shape, strides, offset, where);
}
Tensor inside_of(const Tensor& padded, const Inset& inset, Where where) {
  return view_of(padded, inset, {-1, 0, 0, 0}, where);
}

/// Places that take what others have. Those may have taken it, too.
struct Taking {
  Places to, from;
};
/// Of all axes, in the order in which they take.
std::vector<Taking> takings(const Inset& inset) {
  std::vector<Taking> list;
  for (int axis = 0; axis < inset.inside.rank(); ++axis) {
    const std::int64_t size = inset.inside[axis], begin = inset.before[axis], end = begin + size;
    const std::int64_t after = inset.whole[axis] - end;
    const auto take = [&](std::int64_t to, std::int64_t from, std::int64_t step, std::int64_t count) {
      if (count > 0) list.push_back({{axis, to, 1, count}, {axis, from, step, count}});
    };
    switch (inset.mode) {
      case PadMode::constant: break;
      case PadMode::edge:
        take(0, begin, 0, begin);
        take(end, end - 1, 0, after);
        break;
      case PadMode::reflect:
        take(0, 2 * begin, -1, begin);
        take(end, end - 2, -1, after);
        break;
      case PadMode::symmetric:
        take(0, 2 * begin - 1, -1, begin);
        take(end, end - 1, -1, after);
        break;
      case PadMode::wrap:  // as many places as are full, `size` times a whole number
        for (std::int64_t full = size, count; full < size + after; full += count) {
          count = std::min(full, size + after - full);
          take(begin + full, begin, 1, count);
        }
        for (std::int64_t first = begin, full = size, count; first > 0; first -= count, full += count) {
          count = std::min(full, first);
          take(first - count, first - count + full, 1, count);
        }
        break;
    }
  }
  return list;
}

/// Of a gradient: where the elements stand.
Tensor own_part_of(const Tensor& grad, const Inset& inset, Where where) {
  std::vector<Index> indices;
  for (int axis = 0; axis < inset.inside.rank(); ++axis)
    indices.push_back(range(inset.before[axis], inset.before[axis] + inset.inside[axis]));
  return grad.index(indices, where);
}

Tensor extended(const Tensor& x, const Inset& inset, Scalar value, Where where);

/// The gradient for the elements: each adds what has been taken from it.
Tensor gathered(const Tensor& grad, const Inset& inset, Where where) {
  if (inset.mode == PadMode::constant) return own_part_of(grad, inset, where);
  const TensorImpl& impl = *grad.impl();
  const core::Backend& backend = backend_of(impl, where);
  const DType wide = autograd::computing_type(impl.dtype);
  const Tensor sums = autograd::result_like(impl, impl.shape, wide, where);
  if (impl.numel() > 0) backend.copy(impl, *sums.impl());
  const std::vector<Taking> list = impl.numel() > 0 ? takings(inset) : std::vector<Taking>();
  for (std::size_t i = list.size(); i-- > 0;) {
    const auto& [to, from] = list[i];
    Tensor taken = view_of(sums, inset, to, where), own = view_of(sums, inset, from, where);
    if (from.step == 0) {  // all of them from one place
      own = view_of(sums, inset, {from.axis, from.first, 1, 1}, where);
      const Tensor total = autograd::result_like(*own.impl(), own.shape(), own.dtype(), where);
      backend.reduce(kernels::Reduction::sum, *taken.impl(), 1u << to.axis, *total.impl());
      taken = total;
    }
    const Tensor both = autograd::result_like(*own.impl(), own.shape(), own.dtype(), where);
    backend.binary(kernels::kBinaryId<kernels::Add>, *own.impl(), *taken.impl(), *both.impl());
    backend.copy(*both.impl(), *own.impl());
  }
  Tensor out = autograd::result_like(impl, inset.inside, impl.dtype, where);
  if (impl.numel() > 0) backend.copy(*inside_of(sums, inset, where).impl(), *out.impl());
  const auto replay = [](Replay& r) { r.give(0, extended(r.grad(), r.attributes<Inset>(), 0, r.where())); };
  autograd::record("pad_backward", where, replay, {&grad}, {&out}, {}, inset);
  return out;
}

Tensor extended(const Tensor& x, const Inset& inset, Scalar value, Where where) {
  const TensorImpl& impl = *x.impl();
  Tensor out = autograd::result_like(impl, inset.whole, impl.dtype, where);
  const core::Backend& backend = backend_of(impl, where);
  if (inset.mode == PadMode::constant) backend.fill(*out.impl(), value);
  if (impl.numel() > 0) {
    const Tensor inside = inside_of(out, inset, where);
    backend.copy(impl, *inside.impl());
    for (const auto& [to, from] : takings(inset)) {
      const Tensor target = view_of(out, inset, to, where), source = view_of(out, inset, from, where);
      backend.copy(*source.impl(), *target.impl());
    }
  }
  const auto replay = [](Replay& r) { r.give(0, gathered(r.grad(), r.attributes<Inset>(), r.where())); };
  if (is_floating(impl.dtype)) autograd::record("pad", where, replay, {&x}, {&out}, {}, inset);
  else autograd::note("pad", where, {&x}, {&out});
  return out;
}

}  // namespace

Tensor pad(const Tensor& x, std::span<const Padding> padding, PadMode mode, Scalar value, Where where) {
  const TensorImpl& impl = core::defined("pad", x, where);
  const Shape shape = padded_shape(impl.shape, padding, mode, where);
  if (mode == PadMode::constant) {
    if (impl.dtype == DType::bool8 && value.kind() == Scalar::Kind::integer && value.as_int64() == 0) value = false;
    core::to_element("pad", value, impl.dtype, where);
  }
  Inset inset{mode, impl.shape, shape};
  for (int axis = 0; axis < impl.rank(); ++axis) inset.before[axis] = padding[static_cast<std::size_t>(axis)].before;
  return extended(x, inset, value, where);
}
Tensor pad(const Tensor& x, std::initializer_list<Padding> padding, PadMode mode, Scalar value, Where where) {
  return pad(x, std::span<const Padding>(padding.begin(), padding.size()), mode, value, where);
}

}  // namespace capstan
