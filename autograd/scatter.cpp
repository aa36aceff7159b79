// Writing to elements that index tensors choose: copies with those elements replaced or changed, and in place.
#include <capstan/ops/index.hpp>

#include "autograd/overlap.hpp"
#include "autograd/places.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::converted;
using autograd::hits;
using autograd::index_tensor;
using autograd::note;
using autograd::Places;
using autograd::record;
using autograd::Replay;
using autograd::require_inside;
using autograd::RowMajor;
using autograd::Selection;
using autograd::taken;
using core::Combine;

namespace {

Tensor written(const char* op, Combine kind, const Tensor& x, const Tensor& updates, const Selection& chosen,
               Where where);

/// What a write's replay keeps first.
Selection chosen_of(const Replay& r) { return {r.attributes<Places>(), r.saved(0)}; }

void set_replay(Replay& r) {
  const Where where = r.where();
  const Selection chosen = chosen_of(r);
  if (r.needs(0)) {
    const Tensor none = core::scalar_tensor("scatter", 0, r.grad().dtype(), r.grad().device(), where);
    r.give(0,
           written("scatter", Combine::set, r.grad(), broadcast_to(none, chosen.places.result, where), chosen, where));
  }
  if (r.needs(1)) {
    Tensor grad = taken(r.grad(), chosen, where);
    const Tensor last = autograd::last_writers(chosen, where);
    r.give(1, last.defined() ? capstan::where(last, grad, 0, where) : std::move(grad));
  }
}

void add_replay(Replay& r) {
  if (r.needs(0)) r.give(0, r.grad());
  if (r.needs(1)) r.give(1, taken(r.grad(), chosen_of(r), r.where()));
}

void extreme_replay(Replay& r) {
  const Where where = r.where();
  const Selection chosen = chosen_of(r);
  const Tensor &x = r.saved(1), &updates = r.saved(2), &best = r.saved(3);
  const Tensor from_x = hits(x, best, where), from_updates = hits(updates, taken(best, chosen, where), where);
  const DType wide = autograd::computing_type(x.dtype());
  const Tensor count = add(cast(from_x, wide, where),
                           autograd::add_chosen("add_places", cast(from_updates, wide, where), chosen, where), where);
  const Tensor share = div(r.grad(), count, where);
  if (r.needs(0)) r.give(0, capstan::where(from_x, share, 0, where).to(x.dtype(), where));
  if (r.needs(1)) r.give(1, capstan::where(from_updates, taken(share, chosen, where), 0, where).to(x.dtype(), where));
}

/// For a copy of x to write to: 16-bit floating types are combined in float32.
Tensor room_for(Combine kind, const TensorImpl& x, Where where) {
  const DType dtype = kind != Combine::set && is_half(x.dtype) ? DType::float32 : x.dtype;
  return autograd::result_like(x, x.shape, dtype, where);
}

/// The copy, written to, as x's type and recorded.
Tensor finished(const char* op, Combine kind, const Tensor& x, const Tensor& updates, const Selection& chosen,
                const Tensor& copy, Where where) {
  const TensorImpl& impl = *x.impl();
  Tensor out = converted(copy, impl.dtype, where);
  if (!is_floating(impl.dtype)) {
    note(op, where, {&x, &chosen.positions, &updates}, {&out});
  } else if (kind == Combine::min || kind == Combine::max) {
    record(op, where, &extreme_replay, {&x, &updates}, {&out}, {&chosen.positions, &x, &updates, &out}, chosen.places);
  } else {
    record(op, where, kind == Combine::set ? &set_replay : &add_replay, {&x, &updates}, {&out}, {&chosen.positions},
           chosen.places);
  }
  return out;
}

/// A copy of x, contiguous, with the updates, of the places' shape, written to it.
Tensor written(const char* op, Combine kind, const Tensor& x, const Tensor& updates, const Selection& chosen,
               Where where) {
  const TensorImpl& impl = *x.impl();
  const Tensor copy = room_for(kind, impl, where);
  backend_of(impl, where).copy(impl, *copy.impl());
  autograd::combine_into(kind, *copy.impl(), updates, chosen, where);
  return finished(op, kind, x, updates, chosen, copy, where);
}

void require_number(const char* op, Combine kind, const TensorImpl& x, Where where) {
  if (kind != Combine::set && x.dtype == DType::bool8)
    base::fail<DTypeError>(where, op, ": the tensor is bool; it must be a number type, not bool.");
}

Tensor number_like(const char* op, const Tensor& x, Scalar value, Where where) {
  const TensorImpl& impl = core::defined(op, x, where);
  return core::scalar_tensor(op, value, impl.dtype, impl.device(), where);
}

// --- along an axis ---

/// Sizes of the indices within those of x but for the axis, and within those of the updates.
void check_sizes(const char* op, const Shape& x, const Shape& index, const Shape& updates, int axis, Where where) {
  bool fits = index.rank() == x.rank() && updates.rank() == x.rank();
  for (int i = 0; fits && i < x.rank(); ++i) fits = index[i] <= updates[i] && (i == axis || index[i] <= x[i]);
  if (!fits)
    base::fail<ShapeError>(where, op, ": the tensor is ", x, ", the indices are ", index, " and the updates ", updates,
                           "; all must have as many axes, and no size of the indices may exceed the updates', nor the "
                           "tensor's but for axis ",
                           axis, ".");
}

Tensor stretched(const Tensor& value, const Shape& shape, Where where) {
  return value.impl()->shape == shape ? value : broadcast_to(value, shape, where);
}

/// The part of the updates that has indices.
Tensor leading_part(const Tensor& updates, const Shape& shape, Where where) {
  if (updates.impl()->shape == shape) return updates;
  Index indices[kMaxRank] = {all, all, all, all, all, all, all, all};
  for (int axis = 0; axis < shape.rank(); ++axis) indices[axis] = range(0, shape[axis]);
  return updates.index(std::span<const Index>(indices, static_cast<std::size_t>(shape.rank())), where);
}

/// `number`: the updates are one number for all places.
Tensor scatter_as(const char* op, Combine kind, const Tensor& x, const Tensor& indices, const Tensor& updates, int axis,
                  Where where, bool number = false) {
  const TensorImpl& impl = core::defined(op, x, where);
  require_number(op, kind, impl, where);
  const int along = core::normalize_axis(op, axis, impl.rank(), where);
  const Tensor index = index_tensor(op, impl, indices, where);
  autograd::require_same_type(op, impl, updates, "updates", where);
  const Shape& shape = index.impl()->shape;
  check_sizes(op, impl.shape, shape, number ? shape : updates.impl()->shape, along, where);
  const autograd::Rollback rollback;
  const RowMajor plain(impl.shape);
  const Selection chosen = autograd::choose_along(impl.shape, plain.strides, along, index, shape);
  const Tensor values = number ? stretched(updates, shape, where) : leading_part(updates, shape, where);
  const Tensor copy = room_for(kind, impl, where);
  if (!autograd::scatter_into(kind, copy, x, values, chosen, where))
    require_inside(op, impl.shape, along, index, -impl.shape[along], impl.shape[along], where);
  return finished(op, kind, x, values, chosen, copy, where);
}

// --- positions of several axes ---

void require_updates(const char* op, const Shape& updates, const Shape& expected, Where where) {
  if (updates != expected)
    base::fail<ShapeError>(where, op, ": the updates are ", updates, "; they must be ", expected,
                           ", the indices' shape without its last axis and the sizes that are left.");
}

Tensor scatter_nd_as(const char* op, Combine kind, const Tensor& x, const Tensor& indices, const Tensor& updates,
                     Where where) {
  const TensorImpl& impl = core::defined(op, x, where);
  require_number(op, kind, impl, where);
  const Tensor index = index_tensor(op, impl, indices, where);
  autograd::require_same_type(op, impl, updates, "updates", where);
  const RowMajor plain(impl.shape);
  const Selection chosen = autograd::choose_nd(op, impl.shape, plain.strides, index, where);
  require_updates(op, updates.impl()->shape, chosen.places.result, where);
  return written(op, kind, x, updates, chosen, where);
}

// --- by an index ---

Tensor index_as(const char* op, Combine kind, const Tensor& x, std::span<const Index> indices, const Tensor& value,
                Where where) {
  const TensorImpl& impl = core::defined(op, x, where);
  require_number(op, kind, impl, where);
  autograd::require_same_type(op, impl, value, "value", where);
  const RowMajor plain(impl.shape);
  const core::IndexPlan plan = core::plan_index(op, impl.shape, plain.strides, indices, where);
  const Selection chosen =
      autograd::choose(op, plan, autograd::make_ready(op, impl, plan, true, where), impl, plain.strides, where);
  autograd::require_broadcast(op, value.impl()->shape, chosen.places.result, where);
  const autograd::Rollback rollback;
  return written(op, kind, x, stretched(value, chosen.places.result, where), chosen, where);
}

std::span<const Index> list_of(std::initializer_list<Index> indices) { return {indices.begin(), indices.size()}; }

}  // namespace

Tensor scatter(const Tensor& x, const Tensor& indices, const Tensor& updates, int axis, Where where) {
  return scatter_as("scatter", Combine::set, x, indices, updates, axis, where);
}
Tensor scatter(const Tensor& x, const Tensor& indices, Scalar value, int axis, Where where) {
  return scatter_as("scatter", Combine::set, x, indices, number_like("scatter", x, value, where), axis, where, true);
}
Tensor scatter_add(const Tensor& x, const Tensor& indices, const Tensor& updates, int axis, Where where) {
  return scatter_as("scatter_add", Combine::add, x, indices, updates, axis, where);
}
Tensor scatter_add(const Tensor& x, const Tensor& indices, Scalar value, int axis, Where where) {
  return scatter_as("scatter_add", Combine::add, x, indices, number_like("scatter_add", x, value, where), axis, where,
                    true);
}
Tensor scatter_min(const Tensor& x, const Tensor& indices, const Tensor& updates, int axis, Where where) {
  return scatter_as("scatter_min", Combine::min, x, indices, updates, axis, where);
}
Tensor scatter_max(const Tensor& x, const Tensor& indices, const Tensor& updates, int axis, Where where) {
  return scatter_as("scatter_max", Combine::max, x, indices, updates, axis, where);
}

Tensor scatter_nd_update(const Tensor& x, const Tensor& indices, const Tensor& updates, Where where) {
  return scatter_nd_as("scatter_nd_update", Combine::set, x, indices, updates, where);
}
Tensor scatter_nd_add(const Tensor& x, const Tensor& indices, const Tensor& updates, Where where) {
  return scatter_nd_as("scatter_nd_add", Combine::add, x, indices, updates, where);
}
Tensor scatter_nd(const Tensor& indices, const Tensor& updates, const Shape& shape, Where where) {
  const TensorImpl& impl = core::defined("scatter_nd", updates, where);
  require_number("scatter_nd", Combine::add, impl, where);
  const Tensor index = index_tensor("scatter_nd", impl, indices, where);
  const RowMajor plain(shape);
  const Selection chosen = autograd::choose_nd("scatter_nd", shape, plain.strides, index, where);
  require_updates("scatter_nd", impl.shape, chosen.places.result, where);
  return autograd::add_chosen("scatter_nd", updates, chosen, where);
}

Tensor index_set(const Tensor& x, std::span<const Index> indices, const Tensor& value, Where where) {
  return index_as("index_set", Combine::set, x, indices, value, where);
}
Tensor index_set(const Tensor& x, std::initializer_list<Index> indices, const Tensor& value, Where where) {
  return index_as("index_set", Combine::set, x, list_of(indices), value, where);
}
Tensor index_set(const Tensor& x, std::initializer_list<Index> indices, Scalar value, Where where) {
  return index_as("index_set", Combine::set, x, list_of(indices), number_like("index_set", x, value, where), where);
}
Tensor index_add(const Tensor& x, std::span<const Index> indices, const Tensor& value, Where where) {
  return index_as("index_add", Combine::add, x, indices, value, where);
}
Tensor index_add(const Tensor& x, std::initializer_list<Index> indices, const Tensor& value, Where where) {
  return index_as("index_add", Combine::add, x, list_of(indices), value, where);
}
Tensor index_add(const Tensor& x, std::initializer_list<Index> indices, Scalar value, Where where) {
  return index_as("index_add", Combine::add, x, list_of(indices), number_like("index_add", x, value, where), where);
}

namespace autograd {

void put_by_tensors(const Tensor& target, std::span<const Index> indices, const Tensor& value, bool accumulate,
                    Where where) {
  constexpr const char* op = "index_put";
  TensorImpl& impl = *target.impl();
  core::require_same_device(op, impl, *value.impl(), where);
  const core::IndexPlan plan = core::plan_index(op, impl.shape, impl.strides, indices, where);
  ReadyIndices ready = make_ready(op, impl, plan, true, where);
  for (int i = 0; i < plan.count; ++i)  // what is read must not change while it is
    if (may_overlap(*ready.list[i].impl(), impl))
      ready.list[i] = fresh_copy(ready.list[i], ready.list[i].dtype(), where);
  const Selection chosen = choose(op, plan, ready, impl, impl.strides, where);
  require_broadcast(op, value.impl()->shape, chosen.places.result, where);
  check_in_place(op, target, &value, where);
  Tensor from = converted(value, accumulate && is_half(impl.dtype) ? DType::float32 : impl.dtype, where);
  if (may_overlap(*from.impl(), impl)) from = fresh_copy(from, impl.dtype, where);
  const core::Backend& backend = backend_of(impl, where);
  if (!accumulate) {
    combine_into(Combine::set, impl, from, chosen, where);
  } else if (!is_half(impl.dtype)) {
    combine_into(Combine::add, impl, from, chosen, where);
  } else {  // added up in float32, rounded once
    const RowMajor packed(impl.shape);
    const Tensor sums = fresh_copy(target, DType::float32, where);
    const core::IndexPlan on_sums = core::plan_index(op, impl.shape, packed.strides, indices, where);
    combine_into(Combine::add, *sums.impl(), from, choose(op, on_sums, ready, impl, packed.strides, where), where);
    backend.copy(*sums.impl(), impl);
  }
  core::note_write(impl, where);
  const Tensor put = core::make_view(*from.impl(), from.impl()->shape, from.impl()->strides, 0, where);
  note(op, where, {&value}, {&put});
}

}  // namespace autograd
}  // namespace capstan
