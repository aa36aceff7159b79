#include "autograd/places.hpp"

namespace capstan::autograd {

namespace {

/// Without starting the clock of another operation.
const core::Backend& table_of(const TensorImpl& x, Where where, const char* op = nullptr) {
  return core::backend_of(x.device(), where, op);
}

Shape shape_from(const std::int64_t* sizes, int rank, Where where) {
  return Shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(rank)), where);
}

/// Offsets into a tensor, summed over index tensors that choose from axes of their own.
struct Offsets {
  Tensor sum;
  std::int64_t first = 0, extent = 1;  // where offset 0 stands; offsets are below the extent
  bool begun = false;

  Offsets(const TensorImpl& x, const Shape& shape, Where where)
      : sum(core::make_tensor(shape, DType::int64, x.device(), where)) {}

  void add(const Tensor& positions, int axes, const std::int64_t* sizes, const std::int64_t* strides, Where where) {
    core::LocateTask task;
    task.axes = axes;
    task.add = begun;
    for (int i = 0; i < axes; ++i) {
      task.sizes[i] = sizes[i];
      task.strides[i] = strides[i];
      const std::int64_t last = sizes[i] > 0 ? (sizes[i] - 1) * strides[i] : 0;
      if (last < 0) task.shift -= last;  // axes that run backwards: offsets count from their end
      extent += last < 0 ? -last : last;
    }
    first -= task.shift;
    table_of(*sum.impl(), where).locate(*positions.impl(), task, *sum.impl());
    begun = true;
  }
};

/// Views of what is chosen from and of the positions, stretched to the result's shape.
Tensor elements_at(const TensorImpl& x, const Places& places, Where where) {
  return core::make_view(x, places.result, places.strides, places.offset, where);
}
Tensor positions_at(const Selection& chosen, Where where) {
  return core::make_view(*chosen.positions.impl(), chosen.places.result, chosen.places.position_strides, 0, where);
}

}  // namespace

std::string place_text(const Shape& shape, std::int64_t position) {
  std::string text;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    text = std::to_string(position % shape[axis]) + (text.empty() ? "" : ", " + text);
    position /= shape[axis];
  }
  return text;
}

Tensor index_tensor(const char* op, const TensorImpl& x, const Tensor& indices, Where where) {
  const TensorImpl& impl = core::defined(op, indices, where);
  if (!is_integer(impl.dtype))
    base::fail<DTypeError>(where, op, ": the indices are ", impl.dtype, "; they must be integers.");
  core::require_same_device(op, x, impl, where);
  if (impl.dtype == DType::int32 || impl.dtype == DType::int64) return indices;
  return fresh_copy(indices, DType::int32, where);
}

void require_inside(const char* op, const Shape& shape, int axis, const Tensor& indices, std::int64_t low,
                    std::int64_t high, Where where) {
  const TensorImpl& impl = *indices.impl();
  const core::BadIndex bad = table_of(impl, where, op).check_indices(impl, low, high);
  if (bad.position >= 0)
    base::fail<IndexError>(where, op, ": index ", bad.value, " at [", place_text(impl.shape, bad.position),
                           "] is out of range for axis ", axis, " of shape ", shape, "; it must be in [", low, ", ",
                           high, ").");
}

void require_same_type(const char* op, const TensorImpl& x, const Tensor& values, const char* what, Where where) {
  const TensorImpl& impl = core::defined(op, values, where);
  core::require_same_device(op, x, impl, where);
  if (impl.dtype != x.dtype)
    base::fail<DTypeError>(where, op, ": the tensor is ", x.dtype, " and the ", what, " ", impl.dtype,
                           "; the types must be equal. Convert one with x.to(dtype).");
}

void require_broadcast(const char* op, const Shape& from, const Shape& to, Where where) {
  const int extra = to.rank() - from.rank();
  bool fits = extra >= 0;
  for (int axis = 0; fits && axis < from.rank(); ++axis) fits = from[axis] == 1 || from[axis] == to[axis + extra];
  if (!fits)
    base::fail<ShapeError>(where, op, ": the value of shape ", from, " does not broadcast to ", to,
                           "; trailing sizes must be equal or 1.");
}

Tensor fresh_copy(const Tensor& x, DType dtype, Where where) {
  const TensorImpl& impl = *x.impl();
  Tensor result = result_like(impl, impl.shape, dtype, where);
  table_of(impl, where).copy(impl, *result.impl());
  return result;
}

// --- choosing ---

Selection choose_along(const Shape& base, const std::int64_t* strides, int axis, const Tensor& indices,
                       const Shape& result) {
  const TensorImpl& index = *indices.impl();
  Selection chosen{{.base = base, .result = result, .rule = {strides[axis], base[axis]}}, indices};
  for (int i = 0; i < result.rank(); ++i) {
    chosen.places.strides[i] = i == axis || base[i] == 1 ? 0 : strides[i];
    chosen.places.position_strides[i] = index.shape[i] == 1 ? 0 : index.strides[i];
  }
  return chosen;
}

Selection choose_slices(const char* op, const Shape& base, const std::int64_t* strides, int axis, const Tensor& indices,
                        Where where) {
  const TensorImpl& index = *indices.impl();
  if (index.rank() + base.rank() - 1 > kMaxRank)
    base::fail<ShapeError>(where, op, ": the result would have more than ", kMaxRank, " axes.");
  Selection chosen{{.base = base, .rule = {strides[axis], base[axis]}}, indices};
  std::int64_t sizes[kMaxRank];
  int rank = 0;
  for (int i = 0; i < base.rank(); ++i) {
    for (int k = 0; i == axis && k < index.rank(); ++k) {
      sizes[rank] = index.shape[k];
      chosen.places.position_strides[rank++] = index.strides[k];
    }
    if (i == axis) continue;
    sizes[rank] = base[i];
    chosen.places.strides[rank++] = strides[i];
  }
  chosen.places.result = shape_from(sizes, rank, where);
  return chosen;
}

Selection choose_nd(const char* op, const Shape& base, const std::int64_t* strides, const Tensor& indices,
                    Where where) {
  const TensorImpl& index = *indices.impl();
  if (index.rank() == 0)
    base::fail<ShapeError>(where, op, ": the indices have shape []; their last axis must hold the positions.");
  const int fresh = index.rank() - 1;
  const std::int64_t depth = index.shape[fresh];
  if (depth > base.rank())
    base::fail<ShapeError>(where, op, ": the indices are ", index.shape, ", ", depth,
                           " positions for each place, and the shape is ", base, "; there must be at most ",
                           base.rank(), ".");
  const int axes = static_cast<int>(depth), rank = fresh + base.rank() - axes;
  if (rank > kMaxRank) base::fail<ShapeError>(where, op, ": the result would have more than ", kMaxRank, " axes.");
  const Shape places = shape_from(index.shape.begin(), fresh, where);
  Tensor columns[kMaxRank];
  for (int axis = 0; axis < axes; ++axis) {
    columns[axis] = core::make_view(index, places, index.strides, axis * index.strides[fresh], where);
    require_inside(op, base, axis, columns[axis], -base[axis], base[axis], where);
  }
  Selection chosen{{.base = base}, columns[0]};
  if (axes == 1) {
    chosen.places.rule = {strides[0], base[0]};
  } else {
    Offsets offsets(index, places, where);
    for (int axis = 0; axis < axes; ++axis) offsets.add(columns[axis], 1, base.begin() + axis, strides + axis, where);
    if (axes == 0) table_of(index, where).fill(*offsets.sum.impl(), 0);
    chosen.positions = offsets.sum;
    chosen.places.offset = offsets.first;
    chosen.places.rule = {1, offsets.extent};
  }
  std::int64_t sizes[kMaxRank];
  for (int i = 0; i < rank; ++i) {
    const int own = i - fresh + axes;
    sizes[i] = i < fresh ? places[i] : base[own];
    chosen.places.strides[i] = i < fresh ? 0 : strides[own];
    chosen.places.position_strides[i] = i < fresh ? chosen.positions.impl()->strides[i] : 0;
  }
  chosen.places.result = shape_from(sizes, rank, where);
  return chosen;
}

ReadyIndices make_ready(const char* op, const TensorImpl& x, const core::IndexPlan& plan, bool check, Where where) {
  ReadyIndices ready;
  for (int i = 0; i < plan.count; ++i) {
    const core::ChosenAxes& axes = plan.chosen[i];
    core::require_same_device(op, x, *axes.indices.impl(), where);
    if (axes.indices.impl()->dtype == DType::bool8) {
      const CountedMask mask = count_mask(axes.indices, where);
      ready.list[i] = core::make_tensor(Shape({mask.count}, where), DType::int64, x.device(), where);
      table_of(x, where).true_positions(*mask.mask.impl(), *mask.before.impl(), *ready.list[i].impl());
    } else {
      const std::int64_t size = x.shape[axes.axis];
      ready.list[i] = index_tensor(op, x, axes.indices, where);
      if (check) require_inside(op, x.shape, axes.axis, ready.list[i], -size, size, where);
    }
    const Shape& shape = ready.list[i].impl()->shape;
    ready.shape = i == 0 ? shape : core::broadcast_shapes(op, ready.shape, shape, where);
  }
  return ready;
}

namespace {

/// The stride by which flat positions over these axes can be walked; false if there is none.
bool one_stride(const core::ChosenAxes& axes, const Shape& base, const std::int64_t* strides, std::int64_t& stride) {
  const int last = axes.axis + axes.count - 1;
  for (int axis = axes.axis; axis < last; ++axis)
    if (strides[axis] != strides[axis + 1] * base[axis + 1]) return false;
  stride = axes.count == 0 ? 0 : strides[last];
  return true;
}

/// Positions, their rule, and what the offset gains.
void place_positions(Selection& chosen, const core::IndexPlan& plan, const ReadyIndices& ready, const TensorImpl& x,
                     const std::int64_t* strides, Where where) {
  std::int64_t stride = 0;
  if (plan.count == 0) {
    chosen.positions = core::scalar_tensor("index", 0, DType::int64, x.device(), where);
  } else if (plan.count == 1 && one_stride(plan.chosen[0], x.shape, strides, stride)) {
    std::int64_t size = 1;
    for (int i = 0; i < plan.chosen[0].count; ++i) size *= x.shape[plan.chosen[0].axis + i];
    chosen.positions = ready.list[0];
    chosen.places.rule = {stride, size};
  } else {
    Offsets offsets(x, ready.shape, where);
    for (int i = 0; i < plan.count; ++i) {
      const core::ChosenAxes& axes = plan.chosen[i];
      offsets.add(ready.list[i], axes.count, x.shape.begin() + axes.axis, strides + axes.axis, where);
    }
    chosen.positions = offsets.sum;
    chosen.places.offset += offsets.first;
    chosen.places.rule = {1, offsets.extent};
  }
}

}  // namespace

Selection choose(const char* op, const core::IndexPlan& plan, const ReadyIndices& ready, const TensorImpl& x,
                 const std::int64_t* strides, Where where) {
  const int fresh = ready.shape.rank(), rank = plan.rest.shape.rank() + fresh;
  if (rank > kMaxRank) base::fail<ShapeError>(where, op, ": the result would have more than ", kMaxRank, " axes.");
  Selection chosen{{.base = x.shape, .offset = plan.rest.offset}, {}};
  place_positions(chosen, plan, ready, x, strides, where);
  std::int64_t sizes[kMaxRank];
  for (int axis = 0; axis < rank; ++axis) {
    const int from = axis - plan.at;
    if (from >= 0 && from < fresh) {
      sizes[axis] = ready.shape[from];
      chosen.places.position_strides[axis] = chosen.positions.impl()->strides[from];
    } else {
      const int own = from < 0 ? axis : axis - fresh;
      sizes[axis] = plan.rest.shape[own];
      chosen.places.strides[axis] = plan.rest.strides[own];
    }
  }
  chosen.places.result = shape_from(sizes, rank, where);
  return chosen;
}

// --- reading and writing ---

void take_replay(Replay& r) {
  const Where where = r.where();
  const Selection chosen{r.attributes<Places>(), r.saved(0)};
  TensorImpl* sum = r.accumulator(0);
  // straight into the sum: many lookups in one tensor cost no more than their own size
  if (sum != nullptr && !is_half(sum->dtype)) {
    combine_into(core::Combine::add, *sum, r.grad(), chosen, where);
    core::note_own();
  } else {
    r.give(0, add_chosen("add_places", r.grad(), chosen, where));
  }
}

Tensor take_chosen(const char* op, const Tensor& x, const Selection& here, const Selection& plain, Where where,
                   ReplayFunction replay) {
  const TensorImpl& impl = *x.impl();
  Tensor out = result_like(impl, here.places.result, impl.dtype, where);
  const Tensor from = elements_at(impl, here.places, where), at = positions_at(here, where);
  if (!backend_of(impl, where, op).take(*from.impl(), *at.impl(), here.places.rule, *out.impl())) return {};
  if (is_floating(impl.dtype)) record(op, where, replay, {&x}, {&out}, {&plain.positions}, plain.places);
  else note(op, where, {&x, &here.positions}, {&out});
  return out;
}

Tensor taken(const Tensor& x, const Selection& chosen, Where where) {
  return take_chosen("take_places", x.contiguous(where), chosen, chosen, where);
}

Tensor hits(const Tensor& x, const Tensor& best, Where where) {
  return logical_or(equal(x, best, where), not_equal(x, x, where), where);
}

Tensor add_chosen(const char* op, const Tensor& values, const Selection& chosen, Where where) {
  const TensorImpl& impl = *values.impl();
  const DType dtype = is_half(impl.dtype) ? DType::float32 : impl.dtype;
  Tensor out = result_like(impl, chosen.places.base, dtype, where);
  backend_of(impl, where).fill(*out.impl(), 0);
  combine_into(core::Combine::add, *out.impl(), values, chosen, where);
  out = converted(out, impl.dtype, where);
  if (is_floating(impl.dtype))
    record(
        op, where,
        [](Replay& r) {
          const Selection places{r.attributes<Places>(), r.saved(0)};
          r.give(0, taken(r.grad(), places, r.where()));
        },
        {&values}, {&out}, {&chosen.positions}, chosen.places);
  else note(op, where, {&values, &chosen.positions}, {&out});
  return out;
}

void combine_into(core::Combine kind, const TensorImpl& target, const Tensor& values, const Selection& chosen,
                  Where where) {
  const Tensor from = converted(values, target.dtype, where), at = positions_at(chosen, where);
  const Tensor to = elements_at(target, chosen.places, where);
  table_of(target, where).combine(kind, *from.impl(), *at.impl(), chosen.places.rule, *to.impl());
}

bool scatter_into(core::Combine kind, const Tensor& out, const Tensor& x, const Tensor& values, const Selection& chosen,
                  Where where) {
  TensorImpl& whole = *out.impl();
  const Tensor from = converted(values, whole.dtype, where), at = positions_at(chosen, where);
  const Tensor to = elements_at(whole, chosen.places, where);
  return backend_of(whole, where)
      .scatter(kind, *x.impl(), *from.impl(), *at.impl(), chosen.places.rule, *to.impl(), whole);
}

Tensor last_writers(const Selection& chosen, Where where) {
  const Places& places = chosen.places;
  bool varies = false;
  std::int64_t sizes[kMaxRank];
  for (int axis = 0; axis < places.result.rank(); ++axis) {  // along the others places differ, whatever the positions
    const bool meets = places.position_strides[axis] != 0 || places.strides[axis] == 0;
    sizes[axis] = meets ? places.result[axis] : 1;
    varies = varies || sizes[axis] > 1;
  }
  if (!varies) return {};
  const Shape shape = shape_from(sizes, places.result.rank(), where);
  TensorImpl geometry(shape, DType::uint8);
  geometry.data = nullptr;
  geometry.storage = nullptr;
  for (int axis = 0; axis < shape.rank(); ++axis) geometry.strides[axis] = places.strides[axis];
  const TensorImpl& positions = *chosen.positions.impl();
  const Tensor at = core::make_view(positions, shape, places.position_strides, 0, where);
  Tensor last = core::make_tensor(shape, DType::bool8, positions.device(), where);
  const bool some_go =
      table_of(positions, where).find_last(geometry, *at.impl(), places.rule, places.base.numel(), *last.impl());
  return some_go ? last : Tensor();
}

}  // namespace capstan::autograd
