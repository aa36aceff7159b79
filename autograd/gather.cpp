// Reading elements that index tensors choose.
#include <capstan/ops/index.hpp>
#include <capstan/random.hpp>

#include "autograd/places.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::index_tensor;
using autograd::listening;
using autograd::note;
using autograd::Replay;
using autograd::require_inside;
using autograd::RowMajor;
using autograd::Selection;
using autograd::take_chosen;

namespace {

/// The elements of x that `make(strides)` chooses; an IndexError if one of the indices is out of range.
template <class Make>
Tensor take_checked(const char* op, const Tensor& x, int axis, const Tensor& index, Where where, Make make,
                    autograd::ReplayFunction replay = &autograd::take_replay) {
  const TensorImpl& impl = *x.impl();
  const std::int64_t size = impl.shape[axis];
  const Selection here = make(impl.strides);
  if (here.places.result.numel() == 0) require_inside(op, impl.shape, axis, index, -size, size, where);
  Tensor out = take_chosen(op, x, here, impl.contiguous ? here : make(RowMajor(impl.shape).strides), where, replay);
  if (!out.defined()) require_inside(op, impl.shape, axis, index, -size, size, where);
  return out;
}

/// The gradient of looking up rows of the first axis: row slices, unless an outer tape listens.
void rows_replay(Replay& r) {
  if (listening()) return autograd::take_replay(r);
  const Where where = r.where();
  const auto places = r.attributes<autograd::Places>();
  const Tensor &index = r.saved(0), &grad = r.grad();
  const TensorImpl& positions = *index.impl();
  const Tensor flat = core::make_tensor(positions.shape, DType::int64, positions.device(), where);
  core::LocateTask task;
  task.axes = 1;
  task.sizes[0] = places.base[0];
  task.strides[0] = 1;
  const core::Backend& backend = core::backend_of(positions.device(), where);
  backend.locate(positions, task, *flat.impl());
  const bool own = grad.impl()->contiguous && core::sole_owner(*grad.impl());  // slices belong to nobody else
  const Tensor values = own ? grad : autograd::fresh_copy(grad, grad.dtype(), where);
  std::int64_t sizes[kMaxRank];
  for (int axis = 0; axis < places.base.rank(); ++axis) sizes[axis] = places.base[axis];
  sizes[0] = positions.numel();
  const Shape shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(places.base.rank())), where);
  const std::int64_t one = 1;
  r.give_rows(0,
              {core::make_view(*flat.impl(), Shape({positions.numel()}, where), &one, 0, where),
               core::make_view(*values.impl(), shape, RowMajor(shape).strides, 0, where)},
              places.base);
}

/// Slices along one axis.
Tensor slices(const char* op, const Tensor& x, const Tensor& indices, int axis, Where where) {
  const TensorImpl& impl = core::defined(op, x, where);
  const int along = core::normalize_axis(op, axis, impl.rank(), where);
  const Tensor index = index_tensor(op, impl, indices, where);
  const auto make = [&](const std::int64_t* strides) {
    return autograd::choose_slices(op, impl.shape, strides, along, index, where);
  };
  return take_checked(op, x, along, index, where, make, along == 0 ? &rows_replay : &autograd::take_replay);
}

}  // namespace

Tensor gather(const Tensor& x, const Tensor& indices, int axis, Where where) {
  return slices("gather", x, indices, axis, where);
}
Tensor take(const Tensor& x, const Tensor& indices, int axis, Where where) {
  return slices("take", x, indices, axis, where);
}
Tensor take(const Tensor& x, const Tensor& indices, Where where) {
  core::defined("take", x, where);
  const autograd::Rollback rollback;
  return take(reshape(x, {-1}, where), indices, 0, where);
}

Tensor take_along_axis(const Tensor& x, const Tensor& indices, int axis, Where where) {
  constexpr const char* op = "take_along_axis";
  const TensorImpl& impl = core::defined(op, x, where);
  const int along = core::normalize_axis(op, axis, impl.rank(), where);
  const Tensor index = index_tensor(op, impl, indices, where);
  const Shape& shape = index.impl()->shape;
  bool fits = shape.rank() == impl.rank();
  std::int64_t sizes[kMaxRank];
  for (int i = 0; fits && i < shape.rank(); ++i) {
    sizes[i] = i == along || impl.shape[i] == 1 ? shape[i] : impl.shape[i];
    fits = i == along || shape[i] == 1 || shape[i] == sizes[i];
  }
  if (!fits)
    base::fail<ShapeError>(where, op, ": the tensor is ", impl.shape, " and the indices are ", shape,
                           "; they must have as many axes, and sizes that are equal or 1 but for axis ", along, ".");
  const Shape result(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(shape.rank())), where);
  return take_checked(op, x, along, index, where, [&](const std::int64_t* strides) {
    return autograd::choose_along(impl.shape, strides, along, index, result);
  });
}

Tensor pick(const Tensor& x, const Tensor& indices, Where where) {
  const TensorImpl& impl = core::defined("pick", x, where);
  const Tensor index = index_tensor("pick", impl, indices, where);
  const Shape& shape = index.impl()->shape;
  bool fits = impl.rank() == shape.rank() + 1;
  for (int axis = 0; fits && axis < shape.rank(); ++axis) fits = impl.shape[axis] == shape[axis];
  if (!fits)
    base::fail<ShapeError>(where, "pick: the tensor is ", impl.shape, " and the indices are ", shape,
                           "; the indices must have the tensor's shape without its last axis.");
  const int last = shape.rank();
  require_inside("pick", impl.shape, last, index, 0, impl.shape[last], where);
  const auto make = [&](const std::int64_t* strides) {
    Selection chosen{{.base = impl.shape, .result = shape, .rule = {strides[last], impl.shape[last]}}, index};
    for (int axis = 0; axis < last; ++axis) {
      chosen.places.strides[axis] = strides[axis];
      chosen.places.position_strides[axis] = index.impl()->strides[axis];
    }
    return chosen;
  };
  return take_checked("pick", x, last, index, where, make);
}

Tensor gather_nd(const Tensor& x, const Tensor& indices, Where where) {
  const TensorImpl& impl = core::defined("gather_nd", x, where);
  const Tensor index = index_tensor("gather_nd", impl, indices, where);
  const Selection here = autograd::choose_nd("gather_nd", impl.shape, impl.strides, index, where);
  if (impl.contiguous || !listening()) return take_chosen("gather_nd", x, here, here, where);
  const RowMajor plain(impl.shape);
  return take_chosen("gather_nd", x, here, autograd::choose_nd("gather_nd", impl.shape, plain.strides, index, where),
                     where);
}

Tensor one_hot(const Tensor& indices, std::int64_t depth, Scalar on, Scalar off, DType dtype, Where where) {
  const TensorImpl& impl = core::defined("one_hot", indices, where);
  if (depth < 0) base::fail<ShapeError>(where, "one_hot: the depth is ", depth, "; it must be >= 0.");
  if (impl.rank() == kMaxRank)
    base::fail<ShapeError>(where, "one_hot: the indices have ", kMaxRank, " axes already; that is the most.");
  const Tensor index = index_tensor("one_hot", impl, indices, where);
  core::to_element("one_hot", on, dtype, where);
  core::to_element("one_hot", off, dtype, where);
  std::int64_t sizes[kMaxRank];
  for (int axis = 0; axis < impl.rank(); ++axis) sizes[axis] = impl.shape[axis];
  sizes[impl.rank()] = depth;
  const Shape shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(impl.rank() + 1)), where);
  Tensor out = autograd::result_like(impl, shape, dtype, where);
  backend_of(impl, where).one_hot(*index.impl(), on, off, *out.impl());
  note("one_hot", where, {&indices}, {&out});
  return out;
}

Tensor shuffle(const Tensor& x, Rng& rng, Where where) {
  const TensorImpl& impl = core::defined("shuffle", x, where);
  if (impl.rank() == 0) base::fail<ShapeError>(where, "shuffle: the tensor has shape []; it needs an axis to shuffle.");
  return gather(x, permutation(impl.shape[0], rng, where).to(impl.device(), where), 0, where);
}

namespace autograd {

Tensor index_by_tensors(const char* op, const Tensor& x, std::span<const Index> indices, Where where) {
  const TensorImpl& impl = core::defined(op, x, where);
  const core::IndexPlan plan = core::plan_index(op, impl.shape, impl.strides, indices, where);
  const core::ChosenAxes& first = plan.chosen[0];
  const bool mask = first.indices.impl()->dtype == DType::bool8;
  if (mask && indices.size() == 1) {
    core::require_same_device(op, impl, *first.indices.impl(), where);
    return compress("index", x, first.indices, where);
  }
  const bool single = plan.count == 1 && !mask;  // then it is checked while it is read
  const ReadyIndices ready = make_ready(op, impl, plan, !single, where);
  const auto check = [&] {
    if (!single) return;
    const std::int64_t size = impl.shape[first.axis];
    require_inside(op, impl.shape, first.axis, ready.list[0], -size, size, where);
  };
  const Selection here = choose(op, plan, ready, impl, impl.strides, where);
  if (here.places.result.numel() == 0) check();
  Selection plain = here;
  if (!impl.contiguous && listening()) {
    const RowMajor packed(impl.shape);
    plain = choose(op, core::plan_index(op, impl.shape, packed.strides, indices, where), ready, impl, packed.strides,
                   where);
  }
  Tensor out = take_chosen("index", x, here, plain, where);
  if (!out.defined()) check();
  return out;
}

}  // namespace autograd
}  // namespace capstan
