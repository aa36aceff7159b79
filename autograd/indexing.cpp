// Views by basic indices, and choosing by index tensors.
#include <capstan/create.hpp>
#include <capstan/ops/index.hpp>
#include <capstan/random.hpp>

#include "autograd/ops.hpp"
#include "lib/core/indexing.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::listening;
using autograd::record;
using autograd::Replay;
using core::ViewGeometry;

namespace {

/// A view, and the shape that it was taken from.
struct Viewed {
  ViewGeometry view;  // strides and offset as in a contiguous tensor of the base's shape
  Shape base;
};

/// The geometry that the same indices give on a contiguous tensor.
ViewGeometry on_contiguous(const char* op, const TensorImpl& base, std::span<const Index> indices, Where where) {
  TensorImpl plain(base.shape, base.dtype);
  core::row_major_strides(base.shape, plain.strides);
  return core::index_geometry(op, plain, indices, where);
}

Tensor view_of(const Tensor& x, const ViewGeometry& geometry, Where where) {
  return core::make_view(*x.impl(), geometry.shape, geometry.strides, geometry.offset, where);
}

/// Zeros of the base's shape with `grad` where the view was: the gradient of a view, itself differentiable.
Tensor embed(const Tensor& grad, const Viewed& viewed, Where where) {
  Tensor out = zeros(viewed.base, {grad.dtype(), grad.device()}, where);
  const Tensor place = view_of(out, viewed.view, where);
  backend_of(*grad.impl(), where).copy(*grad.impl(), *place.impl());
  record(
      "embed", where,
      [](Replay& r) {
        const Tensor whole = r.grad().contiguous(r.where());
        const auto at = r.attributes<Viewed>();
        Tensor part = view_of(whole, at.view, r.where());
        if (listening()) {
          // the view of a contiguous tensor, recorded
          record(
              "index", r.where(),
              [](Replay& inner) { inner.give(0, embed(inner.grad(), inner.attributes<Viewed>(), inner.where())); },
              {&whole}, {&part}, {}, at);
        }
        r.give(0, std::move(part));
      },
      {&grad}, {&out}, {}, viewed);
  return out;
}

void view_replay(Replay& r) {
  const auto viewed = r.attributes<Viewed>();
  const Where where = r.where();
  TensorImpl* sum = r.accumulator(0);
  if (sum == nullptr) {
    r.give(0, embed(r.grad(), viewed, where));
    return;
  }
  // straight into the sum: many slices of one tensor cost no more than their own size
  const Tensor place = core::make_view(*sum, viewed.view.shape, viewed.view.strides, viewed.view.offset, where);
  if (place.is_contiguous()) {
    const Tensor grad = autograd::dense(r.grad(), where);
    backend_of(*sum, where).accumulate(*place.impl(), *grad.impl());
  } else {
    const Tensor both = add(place, r.grad(), where);
    backend_of(*sum, where).copy(*both.impl(), *place.impl());
  }
}

}  // namespace

namespace {

Tensor basic_index(const char* op, const Tensor& x, std::span<const Index> indices, Where where) {
  const TensorImpl& impl = core::defined(op, x, where);
  Tensor out = view_of(x, core::index_geometry(op, impl, indices, where), where);
  if (listening() && is_floating(impl.dtype))
    record("index", where, &view_replay, {&x}, {&out}, {}, Viewed{on_contiguous(op, impl, indices, where), impl.shape});
  return out;
}

}  // namespace

Tensor Tensor::index(std::span<const Index> indices, Where where) const {
  return basic_index("index", *this, indices, where);
}
Tensor Tensor::index(std::initializer_list<Index> indices, Where where) const {
  return index(std::span<const Index>(indices.begin(), indices.size()), where);
}
Tensor Tensor::operator[](Position row) const {
  const Index first(row.value);
  return basic_index("operator[]", *this, std::span<const Index>(&first, 1), row.where);
}

// --- index tensors ---

namespace {

/// Indices on the host's terms: integer, contiguous, in [low, high).
Tensor checked_indices(const char* op, const TensorImpl& x, int axis, const Tensor& indices, std::int64_t low,
                       std::int64_t high, Where where) {
  const TensorImpl& impl = core::defined(op, indices, where);
  if (impl.dtype != DType::int32 && impl.dtype != DType::int64)
    base::fail<DTypeError>(where, op, ": the indices are ", impl.dtype, "; they must be int32 or int64.");
  core::require_same_device(op, x, impl, where);
  const Tensor packed = autograd::dense(indices, where);
  const core::BadIndex bad = backend_of(x, where).check_indices(*packed.impl(), low, high);
  if (bad.position >= 0) {
    std::string place;
    std::int64_t rest = bad.position;
    for (int i = impl.rank() - 1; i >= 0; --i) {
      place = std::to_string(rest % impl.shape[i]) + (place.empty() ? "" : ", " + place);
      rest /= impl.shape[i];
    }
    base::fail<IndexError>(where, op, ": index ", bad.value, " at [", place, "] is out of range for axis ", axis,
                           " of shape ", x.shape, "; it must be in [", low, ", ", high, ").");
  }
  return packed;
}

/// Sums rows of grad into `count` rows at their indices: the gradient of taking rows, itself differentiable.
Tensor scatter_rows(const Tensor& grad, const Tensor& indices, const Shape& shape, Where where);

/// Rows of the first axis; indices are checked and contiguous.
Tensor take_rows(const Tensor& x, const Tensor& indices, Where where) {
  const TensorImpl &impl = *x.impl(), &index = *indices.impl();
  if (index.rank() + impl.rank() - 1 > kMaxRank)
    base::fail<ShapeError>(where, "gather: the result would have more than ", kMaxRank, " axes.");
  std::int64_t sizes[2 * kMaxRank];
  std::size_t rank = 0;
  for (const std::int64_t size : index.shape) sizes[rank++] = size;
  for (int axis = 1; axis < impl.rank(); ++axis) sizes[rank++] = impl.shape[axis];
  Tensor out = autograd::result_like(impl, Shape(std::span<const std::int64_t>(sizes, rank), where), impl.dtype, where);
  const Tensor packed = autograd::dense(x, where);
  backend_of(impl, where).gather(*packed.impl(), index, *out.impl());
  if (is_floating(impl.dtype))
    record(
        "gather", where,
        [](Replay& r) { r.give(0, scatter_rows(r.grad(), r.saved(0), r.attributes<Shape>(), r.where())); }, {&x},
        {&out}, {&indices}, impl.shape);
  return out;
}

Tensor scatter_rows(const Tensor& grad, const Tensor& indices, const Shape& shape, Where where) {
  Tensor out = zeros(shape, {grad.dtype(), grad.device()}, where);
  const Tensor packed = autograd::dense(grad, where);
  backend_of(*grad.impl(), where).gather_backward(*packed.impl(), *indices.impl(), *out.impl());
  record("scatter_rows", where, [](Replay& r) { r.give(0, take_rows(r.grad(), r.saved(0), r.where())); }, {&grad},
         {&out}, {&indices});
  return out;
}

Tensor unpick(const Tensor& grad, const Tensor& indices, const Shape& shape, Where where);

Tensor pick_checked(const Tensor& x, const Tensor& indices, Where where) {
  const TensorImpl& impl = *x.impl();
  Tensor out = autograd::result_like(impl, indices.shape(), impl.dtype, where);
  const Tensor packed = autograd::dense(x, where);
  backend_of(impl, where).pick(*packed.impl(), *indices.impl(), *out.impl());
  if (is_floating(impl.dtype))
    record(
        "pick", where, [](Replay& r) { r.give(0, unpick(r.grad(), r.saved(0), r.attributes<Shape>(), r.where())); },
        {&x}, {&out}, {&indices}, impl.shape);
  return out;
}

Tensor unpick(const Tensor& grad, const Tensor& indices, const Shape& shape, Where where) {
  Tensor out = core::make_tensor(shape, grad.dtype(), grad.device(), where);
  const Tensor packed = autograd::dense(grad, where);
  backend_of(*grad.impl(), where).pick_backward(*packed.impl(), *indices.impl(), *out.impl());
  record("unpick", where, [](Replay& r) { r.give(0, pick_checked(r.grad(), r.saved(0), r.where())); }, {&grad}, {&out},
         {&indices});
  return out;
}

}  // namespace

Tensor gather(const Tensor& x, const Tensor& indices, int axis, Where where) {
  const TensorImpl& impl = core::defined("gather", x, where);
  const int along = core::normalize_axis("gather", axis, impl.rank(), where);
  const std::int64_t size = impl.shape[along];
  const Tensor index = checked_indices("gather", impl, along, indices, -size, size, where);
  if (along == 0) return take_rows(x, index, where);
  const autograd::Rollback rollback;
  // bring the axis to the front, and the new axes back to where it was
  int order[kMaxRank], back[kMaxRank];
  for (int i = 0; i < impl.rank(); ++i) order[i] = i == 0 ? along : i <= along ? i - 1 : i;
  const Tensor front = permute(x, std::span<const int>(order, static_cast<std::size_t>(impl.rank())), where);
  const Tensor rows = take_rows(front, index, where);
  const int fresh = index.rank();
  for (int i = 0; i < rows.rank(); ++i) back[i] = i < along ? fresh + i : i < along + fresh ? i - along : i;
  return permute(rows, std::span<const int>(back, static_cast<std::size_t>(rows.rank())), where);
}

Tensor pick(const Tensor& x, const Tensor& indices, Where where) {
  const TensorImpl &impl = core::defined("pick", x, where), &index = core::defined("pick", indices, where);
  bool fits = impl.rank() == index.rank() + 1;
  for (int axis = 0; fits && axis < index.rank(); ++axis) fits = impl.shape[axis] == index.shape[axis];
  if (!fits)
    base::fail<ShapeError>(where, "pick: the tensor is ", impl.shape, " and the indices are ", index.shape,
                           "; the indices must have the tensor's shape without its last axis.");
  return pick_checked(x, checked_indices("pick", impl, impl.rank() - 1, indices, 0, impl.shape[impl.rank() - 1], where),
                      where);
}

Tensor one_hot(const Tensor& indices, std::int64_t depth, Scalar on, Scalar off, DType dtype, Where where) {
  const TensorImpl& impl = core::defined("one_hot", indices, where);
  if (depth < 0) base::fail<ShapeError>(where, "one_hot: the depth is ", depth, "; it must be >= 0.");
  if (impl.rank() == kMaxRank)
    base::fail<ShapeError>(where, "one_hot: the indices have ", kMaxRank, " axes already; that is the most.");
  const Tensor packed = checked_indices("one_hot", impl, 0, indices, INT64_MIN, INT64_MAX, where);
  core::to_element("one_hot", on, dtype, where);
  core::to_element("one_hot", off, dtype, where);
  std::int64_t sizes[kMaxRank];
  for (int axis = 0; axis < impl.rank(); ++axis) sizes[axis] = impl.shape[axis];
  sizes[impl.rank()] = depth;
  Tensor out = autograd::result_like(
      impl, Shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(impl.rank() + 1)), where), dtype,
      where);
  backend_of(impl, where).one_hot(*packed.impl(), on, off, *out.impl());
  return out;
}

Tensor shuffle(const Tensor& x, Rng& rng, Where where) {
  const TensorImpl& impl = core::defined("shuffle", x, where);
  if (impl.rank() == 0) base::fail<ShapeError>(where, "shuffle: the tensor has shape []; it needs an axis to shuffle.");
  return gather(x, permutation(impl.shape[0], rng, where).to(impl.device(), where), 0, where);
}

}  // namespace capstan
